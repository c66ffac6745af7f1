/*
 * frames.mjs: streams of each dialect as its provider or app sends them: text,
 * reasoning, the input of calls, and a replayed batch.
 *
 * Fields, their order and their sizes are those of recorded answers of the
 * providers (6,300 frames, not in this repository), and so are the pieces of
 * the usual streams. Recorded text has 4 to 12 characters a piece; 4 to 14 %
 * of the pieces have an escape, and 1 to 6 % a character that is not ASCII. Of
 * recorded code 13 % have an escape, of short arguments half; here 20 %. The
 * frames of a text or of a call differ in the piece, the sequence number, and
 * the padding, which fills the piece up to a multiple of 16. The calls come
 * one after the other.
 *
 * The hard streams are as no provider sent them: most pieces have escapes and
 * other alphabets, and four calls take turns.
 *
 * All events of a stream are made here, so that numbers in them count on.
 */
import { dialects } from '../t/lib/dialects.mjs';

const list = (text) => text.split('|');
const pieces = {
  text: list('The| station| reports| rain| until| noon|,| then| a| dry| wind|'
    + ' from| the| west|.| In| the| even|ing| it| clears| up|,| and| the|'
    + ' night| stays| cold|.\n\n|Trains| to| the| coast| run| on| time|;|'
    + ' buses| do| not|.| Take| a| coat| and| don’t| forget| the| map| of|'
    + ' the| old| town| "|'),
  input: list('const| total| =| items|.map|((|item|)| =>| item|.price|)|;\n|'
    + '  |return| total|;\n|}|\n\n|export| {| total| as| "sum|",| other| }|'
    + ' from| "./|lib|";\n|//| the| end|.'),
  hard: list('\n|東京|"Take| coat"|\tñandú|über\n| “naïve”|C:\\|до| café\n'),
};

const hex = (length, from = 1) => Array.from({ length }, (_, i) =>
  '0123456789abcdef'[(i * i * 7 + i * 3 + from * 5) % 16]).join('');

const data = (object) => `data: ${JSON.stringify(object)}\n\n`;
const named = (object) => `event: ${object.type}\n${data(object)}`;

/* Random-looking padding, which hides the length of a token. */
const obfuscation = (text, i = text.length) => hex(16 - text.length % 16, i);

/* A real id of a call: unique in its stream. */
const callId = (prefix, i) => `${prefix}${hex(16, i)}${
  String(i).padStart(8, 'x')}`;

/* So many pieces of a kind, from one on. */
const some = (kind, count, from = 0) => Array.from({ length: count }, (_, i) =>
  pieces[kind][(from + i) % pieces[kind].length]);

/*
 * A dialect's functions return lists of events: begin() and end() around all,
 * text() and reasoning() of pieces, and call({id, name, pieces}, i),
 * where pieces are those of the arguments. A stream is made by one such
 * object, which counts what the dialect counts.
 */
const makers = {
  openai_chat: () => {
    const chunk = (delta, finish = null) => data({
      id: `chatcmpl-${hex(29)}`, object: 'chat.completion.chunk',
      created: 1770770839, model: 'gpt-4o-mini',
      system_fingerprint: `fp_${hex(10)}`,
      choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }],
      ...(finish ? {} : { obfuscation: obfuscation(delta.content ?? '') }) });
    return {
      begin: () => [chunk({ role: 'assistant', content: '' })],
      text: (texts) => texts.map((content) => chunk({ content })),
      reasoning: (texts) => texts.map((text) =>
        chunk({ content: null, reasoning_content: text })),
      call: ({ id, name, pieces }, index) => [
        chunk({ tool_calls: [{ index, id, type: 'function',
          function: { name, arguments: '' } }] }),
        ...pieces.map((text) => chunk({ tool_calls: [{ index,
          function: { arguments: text } }] }))],
      end: (calls) => [chunk({}, calls ? 'tool_calls' : 'stop'),
        'data: [DONE]\n\n'],
    };
  },

  openai_responses: () => {
    let number = 0;
    const event = (type, fields) => named({ type,
      sequence_number: number++, ...fields });
    const response = (status, output) => ({ response: { id: `resp_${hex(48)}`,
      object: 'response', status, model: 'gpt-5.1-2025-11-13', output } });
    const output = [];
    const item = (id, one, inner) => {
      const index = output.length;
      output.push(one);
      return [event('response.output_item.added', { output_index: index,
        item: { ...one, status: 'in_progress' } }),
      ...inner({ item_id: id, output_index: index }),
      event('response.output_item.done', { output_index: index, item: one })];
    };
    const deltas = (type, more) => (texts) => (at) => texts.map((text) =>
      event(type, { ...at, ...more.at, delta: text, ...more.after,
        obfuscation: obfuscation(text, number) }));
    return {
      begin: () => [event('response.created', response('in_progress', []))],
      text: (texts) => item(`msg_${hex(48)}`, { id: `msg_${hex(48)}`,
        type: 'message', role: 'assistant', status: 'completed', content: [] },
      deltas('response.output_text.delta', { at: { content_index: 0 },
        after: { logprobs: [] } })(texts)),
      reasoning: (texts) => item(`rs_${hex(48)}`, { id: `rs_${hex(48)}`,
        type: 'reasoning', summary: [] },
      deltas('response.reasoning_summary_text.delta',
        { at: { summary_index: 0 } })(texts)),
      call: ({ id, name, pieces }) => {
        const own = `fc_${hex(48, output.length)}`;
        const whole = pieces.join('');
        return item(own, { id: own, type: 'function_call',
          status: 'completed', call_id: id, name, arguments: whole }, (at) => [
          ...pieces.map((delta) =>
            event('response.function_call_arguments.delta', { ...at, delta,
              obfuscation: obfuscation(delta, number) })),
          event('response.function_call_arguments.done', { ...at,
            arguments: whole })]);
      },
      end: () => [event('response.completed', response('completed', output))],
    };
  },

  anthropic: () => {
    let index = 0;
    const block = (start, inner) => {
      const at = index++;
      return [named({ type: 'content_block_start', index: at,
        content_block: start }),
      ...inner.map((delta) => named({ type: 'content_block_delta', index: at,
        delta })),
      named({ type: 'content_block_stop', index: at })];
    };
    return {
      begin: () => [named({ type: 'message_start', message: {
        id: `msg_${hex(24)}`, type: 'message', role: 'assistant',
        model: 'claude-sonnet-4-6', content: [], stop_reason: null,
        stop_sequence: null,
        usage: { input_tokens: 10, output_tokens: 1 } } }),
      named({ type: 'ping' })],
      text: (texts) => block({ type: 'text', text: '' },
        texts.map((text) => ({ type: 'text_delta', text }))),
      reasoning: (texts) => block({ type: 'thinking', thinking: '',
        signature: '' }, texts.map((thinking) =>
        ({ type: 'thinking_delta', thinking }))),
      call: ({ id, name, pieces }) => block({ type: 'tool_use', id, name,
        input: {} }, ['', ...pieces].map((partial) =>
        ({ type: 'input_json_delta', partial_json: partial }))),
      end: (calls) => [named({ type: 'message_delta', delta: {
        stop_reason: calls ? 'tool_use' : 'end_turn', stop_sequence: null },
      usage: { output_tokens: 20 } }), named({ type: 'message_stop' })],
    };
  },

  gemini: () => {
    const chunk = (parts, more) => data({ candidates: [{
      content: { parts, role: 'model' }, ...more, index: 0 }],
    usageMetadata: { promptTokenCount: 9, candidatesTokenCount: 23,
      totalTokenCount: 217, thoughtsTokenCount: 185 },
    modelVersion: 'gemini-3-pro-preview', responseId: hex(23) });
    /* Streamed arguments: the pieces of one text, and then its end. */
    const part = (value, more) => chunk([{ functionCall: { partialArgs: [{
      jsonPath: '$.text', stringValue: value, ...more }],
    willContinue: true } }]);
    return {
      begin: () => [],
      text: (texts) => texts.map((text) => chunk([{ text }])),
      reasoning: (texts) => texts.map((text) =>
        chunk([{ text, thought: true }])),
      call: ({ id, name, values }) => [
        chunk([{ functionCall: { id, name, willContinue: true } }]),
        ...values.map((value) => part(value, { willContinue: true })),
        part(''), chunk([{ functionCall: {} }])],
      end: () => [chunk([{ text: '' }], { finishReason: 'STOP' })],
    };
  },

  ai_sdk: () => {
    const around = (kind, id, inner) => [data({ type: `${kind}-start`, id }),
      ...inner, data({ type: `${kind}-end`, id })];
    const delta = (kind, id, texts) => around(kind, id, texts.map((text) =>
      data({ type: `${kind}-delta`, id, delta: text })));
    return {
      begin: (id) => [data({ type: 'start', messageId: id }),
        data({ type: 'start-step' })],
      text: (texts) => delta('text', `msg_${hex(48)}`, texts),
      reasoning: (texts) => delta('reasoning', `rs_${hex(48)}:0`, texts),
      call: ({ id, name, pieces }) => [
        data({ type: 'tool-input-start', toolCallId: id, toolName: name }),
        ...pieces.map((text) => data({ type: 'tool-input-delta',
          toolCallId: id, inputTextDelta: text })),
        data({ type: 'tool-input-available', toolCallId: id, toolName: name,
          input: JSON.parse(pieces.join('')) })],
      end: (calls) => [data({ type: 'finish-step' }), data({ type: 'finish',
        finishReason: calls ? 'tool-calls' : 'stop' }), 'data: [DONE]\n\n'],
    };
  },

  ag_ui: () => {
    const run = { threadId: 'th', runId: hex(36) };
    const messageId = `msg_${hex(48)}`;
    const delta = (kind, texts) => [
      data({ type: `${kind}_START`, messageId, role: 'assistant' }),
      ...texts.map((text) => data({ type: `${kind}_CONTENT`, messageId,
        delta: text })),
      data({ type: `${kind}_END`, messageId })];
    return {
      begin: () => [data({ type: 'RUN_STARTED', ...run })],
      text: (texts) => delta('TEXT_MESSAGE', texts),
      reasoning: (texts) => [data({ type: 'REASONING_START', messageId }),
        ...delta('REASONING_MESSAGE', texts),
        data({ type: 'REASONING_END', messageId })],
      call: ({ id, name, pieces }) => [data({ type: 'TOOL_CALL_START',
        toolCallId: id, toolCallName: name, parentMessageId: messageId }),
      ...pieces.map((text) => data({ type: 'TOOL_CALL_ARGS', toolCallId: id,
        delta: text })),
      data({ type: 'TOOL_CALL_END', toolCallId: id })],
      end: () => [data({ type: 'RUN_FINISHED', ...run })],
    };
  },
};

export const keys = Object.keys(makers);
/* The kinds of streams; those of hard have no goals. */
export const usual = ['text', 'reasoning', 'tool input', 'replay'];
export const hard = ['hard text', 'hard tool input'];

/* Calls; the argument of each, a text, comes in so many pieces. */
const manyCalls = (key, kind, count, length) => Array.from({ length: count },
  (_, i) => {
    const values = some(kind, length);
    const quoted = values.map((value) => JSON.stringify(value).slice(1, -1));
    return { id: callId(dialects[key].prefix, i), name: 'write_file', values,
      input: { text: values.join('') },
      pieces: ['{"', 'text', '":"', ...quoted, '"}'] };
  });

/* The calls take turns with their events, and numbers count on. */
function interleave(lists) {
  const most = Math.max(...lists.map((list) => list.length));
  const events = Array.from({ length: most }, (_, i) =>
    lists.map((list) => list[i])).flat().filter(Boolean);
  const name = /"sequence_number":(\d+)/;
  const first = Number(name.exec(events[0])?.[1]);
  return events.map((event, i) => event.replace(name,
    `"sequence_number":${first + i}`));
}

/*
 * The stream of a dialect and a kind, of about `count` events: {events, body
 * (of the request that it answers), dropped (events that its client does not
 * get)}.
 */
export function frames(key, kind, count) {
  const maker = makers[key]();
  const dialect = dialects[key];
  const id = 'msg_Zq3nRb8TkW1xYd5LmC0vPs7A';
  const begin = maker.begin(id);
  const fresh = (inner, calls) => ({
    events: [...begin, ...inner, ...maker.end(calls)],
    body: dialect.fresh({ conversation: 'chat_bench' }) });
  const isHard = hard.includes(kind);
  const plain = kind.replace('hard ', '');
  if (plain === 'text' || plain === 'reasoning') {
    return fresh(maker[plain](some(isHard ? 'hard' : 'text', count)), false);
  }
  /* 2,048 pieces are a file of about 10 KB. */
  const length = Math.min(count, kind === 'replay' ? 512 : 2048);
  const list = manyCalls(key, isHard ? 'hard' : 'input',
    Math.ceil(count / length), length);
  const lists = list.map((call, i) => maker.call(call, i));
  if (kind !== 'replay') {
    /* Calls of Gemini have no number: they come one after the other. */
    const turns = isHard && key !== 'gemini' ? 4 : 1;
    return fresh(lists.flatMap((_, i) => (i % turns ? []
      : interleave(lists.slice(i, i + turns)))), true);
  }
  const inner = lists.flat();
  const from = Object.assign([], { id, calls: list });
  return { events: [...begin, ...inner, ...maker.end(false)],
    dropped: inner.length,
    body: dialect.continuation({ conversation: 'chat_bench', from,
      results: Object.fromEntries(list.map((call) => [call.id, 'done'])) }) };
}
