/*
 * script.mjs: the provider's answers in a situation (situations.mjs), in each
 * dialect, with a stream and without.
 *
 * The results in a request select the turn. Ids are derived from the
 * situation's name, so that two runs are equal byte for byte. The last text
 * repeats the results that arrived: a client that lost one gets another
 * answer.
 */
import { createHash } from 'node:crypto';
import { pause } from '../lib/harness.mjs';
import { dialects } from '../lib/dialects.mjs';
import { json, sse } from '../lib/provider.mjs';
import { data, named } from '../lib/dialects/wire.mjs';
import { tools } from './tools.mjs';

export function idOf(prefix, ...what) {
  const hash = createHash('sha256').update(what.join(' ')).digest('base64');
  return prefix + hash.replace(/[^A-Za-z0-9]/g, '').slice(0, 24);
}

/* The calls of a turn: a call has the same id everywhere. */
const callsOf = (situation, numbers, prefix) => numbers.map((n) => ({
  id: idOf(prefix, situation.reference ?? situation.name, n),
  name: tools[n], input: { city: `Town ${n}`, degrees: 1.5 } }));

function errorBody(key, status) {
  const message = `the provider says ${status}`;
  const type = status < 500 ? 'invalid_request_error' : 'server_error';
  if (key === 'gemini') {
    return { error: { code: status, message, status: 'UNKNOWN' } };
  }
  return key.startsWith('openai')
    ? { error: { message, type, param: null, code: null } }
    : { type: 'error', error: { type: status < 500
      ? 'invalid_request_error' : 'api_error', message } };
}

/* Responses: flat as documented, and nested, since clients read either. */
function errorEvent(key) {
  if (key.startsWith('ag_ui')) {
    return data({ type: 'RUN_ERROR', message: 'the agent stumbled' });
  }
  const error = { message: 'the provider stumbled', type: 'server_error',
    param: null, code: 'server_error' };
  if (key === 'gemini') {
    return data(errorBody(key, 503));
  }
  return key === 'openai_chat' ? data({ error })
    : key.startsWith('openai')
      ? named({ ...error, type: 'error', sequence_number: 9, error })
      : named({ type: 'error', error: { ...error,
        type: 'overloaded_error' } });
}

/* The same as JSON, for clients without a stream. */
const whole = {
  openai_chat: ({ id, words, calls }) => ({ id, object: 'chat.completion',
    created: 1, model: 'm', choices: [{ index: 0, logprobs: null,
      message: { role: 'assistant', content: words ?? null, refusal: null,
        ...(calls.length && { tool_calls: calls.map((call) => ({
          id: call.id, type: 'function', function: { name: call.name,
            arguments: JSON.stringify(call.input) } })) }) },
      finish_reason: calls.length ? 'tool_calls' : 'stop' }] }),
  openai_responses: ({ events }) =>
    JSON.parse(events.at(-1).split('\ndata: ')[1]).response,
  anthropic: ({ id, words, calls }) => ({ id, type: 'message',
    role: 'assistant', model: 'm', content: [
      ...(words ? [{ type: 'text', text: words }] : []),
      ...calls.map((call) => ({ type: 'tool_use', ...call }))],
    stop_reason: calls.length ? 'tool_use' : 'end_turn', stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 2 } }),
};
whole.gemini = ({ id, words, calls }) => ({ responseId: id,
  modelVersion: 'm', candidates: [{ index: 0, finishReason: 'STOP',
    content: { role: 'model', parts: [...(words ? [{ text: words }] : []),
      ...calls.map((call) => dialects.gemini.call(call))] } }] });
whole.openai_responses_chained = whole.openai_responses;
whole.anthropic_thread = whole.anthropic;

/* id -> result, from a request. */
function resultsIn({ messages, input, contents, resume = [] }) {
  if (contents) {
    return Object.fromEntries(contents.flatMap(({ parts }) => parts)
      .map(({ functionResponse: one }) => one).filter(Boolean)
      .map(({ id, response }) => [id, response.output]));
  }
  const items = [messages ?? [], resume,
    Array.isArray(input) ? input : []].flat();
  const blocks = items.flatMap((item) => (Array.isArray(item.content)
    ? item.content : [item]));
  return Object.fromEntries([...items, ...blocks].flatMap((one) => {
    const id = one.tool_call_id ?? one.tool_use_id ?? one.toolCallId
      ?? one.interruptId
      ?? (one.type === 'function_call_output' ? one.call_id : undefined);
    return id === undefined ? []
      : [[id, one.output ?? one.content ?? one.payload]];
  }));
}

/* A text with the results, sorted, since clients send them in any order. */
const recount = (body) => `I was told: ${Object.entries(resultsIn(body))
  .map(([id, value]) => `${id.slice(-4)} ${JSON.stringify(value)}`)
  .sort().join('; ')}`;

/*
 * Responses: items have an id of their own, a new one each time; some clients
 * require fields that the module does not use.
 */
function settled(events, id) {
  const [, item] = /"id":"(msg_\w+)"/.exec(events.join('')) ?? [];
  return Object.assign(events.map((event) => event
    .replaceAll(item ?? '\0', idOf('msg_', id))
    .replace('"object":"response"', '"object":"response","created_at":1,'
      + '"usage":{"input_tokens":1,"output_tokens":2,"total_tokens":3}')),
  { id, calls: events.calls });
}

/* Dialects that select a stream outside the body. */
const streams = /:stream|\/agent$/;

function speak(key, situation, turn, number, request) {
  const dialect = dialects[key];
  const id = idOf('id_', situation.reference ?? situation.name, number);
  const calls = callsOf(situation,
    [...turn.replays ?? [], ...turn.calls ?? []], dialect.prefix);
  const words = turn.told ? recount(request.body) : turn.words;
  const events = settled(words ? dialect.final(words, id)
    : dialect.calls({ calls, id }), id);
  /* The provider does not wait for a replayed call. */
  events.calls = callsOf(situation, turn.calls ?? [], dialect.prefix);
  if (!(request.body.stream ?? streams.test(request.url))) {
    return Object.assign(json(200, whole[key]({ id, words, calls, events })),
      { id, calls });
  }
  /* Up to the text: the next event would end it. */
  const upTo = events.findIndex((event) => event.includes(words)) + 1;
  const start = [...events.slice(0, upTo),
    () => words && situation.shown?.(words)];
  if (!turn.breaks) {
    return sse(Object.assign([...start, ...events.slice(upTo)],
      { id: events.id, calls: events.calls }));
  }
  return sse([...start, () => heard(),
    ...(turn.breaks === 'error' ? [errorEvent(key)] : [])],
  { end: { error: 'end' }[turn.breaks] ?? turn.breaks });
}

/*
 * Waits until a client of this process has read what was sent, since a reset
 * would discard it. Two pauses are enough, also under load.
 */
export async function heard() {
  await pause(25);
  await pause(25);
}

/* The provider's part in a situation, as a script for one run. */
export function script(key, situation) {
  const { prefix } = dialects[key];
  let refused = 0;
  return (request) => {
    const brought = Object.keys(resultsIn(request.body));
    const number = situation.turns.findLastIndex((_, i) => i === 0
      || callsOf(situation, situation.turns[i - 1].calls ?? [], prefix)
        .some((call) => brought.includes(call.id)));
    const turn = situation.turns[number];
    if (turn.refuse && refused++ < (turn.times ?? Infinity)) {
      return json(turn.refuse, errorBody(key, turn.refuse),
        { 'retry-after-ms': '1' });
    }
    return speak(key, situation, turn, number, request);
  };
}
