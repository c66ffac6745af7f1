/*
 * openai_chat.mjs: OpenAI Chat Completions: streams, request bodies, and the
 * 400 for tool messages that are missing, duplicate, or misplaced.
 */
import { data, newId, stream, text } from './wire.mjs';

const toolMessage = (id, value) => ({ role: 'tool', tool_call_id: id,
  content: value instanceof Error
    ? JSON.stringify({ error: value.message }) : text(value) });

export const chat = {
  path: '/v1/chat/completions',
  headers: {},
  prefix: 'call_',
  sse: {},
  seal: 'finish_reason":"t',
  error: ({ error }) => error?.message,
  empty: (list) => {
    const choices = list.flatMap((e) => e.choices ?? []);
    return list.at(-1) === '[DONE]'
      && choices.at(-1)?.finish_reason === 'stop'
      && choices.every(({ delta }) => !delta.content && !delta.tool_calls);
  },

  chunk(id, delta, finish = null) {
    return data({ id, object: 'chat.completion.chunk', created: 1,
      model: 'm', choices: [{ index: 0, delta, finish_reason: finish }] });
  },

  calls({ calls, id = newId('chatcmpl-'), lead = [] }) {
    return stream(id, calls, [
      chat.chunk(id, { role: 'assistant', content: null }),
      ...lead,
      ...calls.flatMap(({ id: call, name, input }, index) => {
        const json = JSON.stringify(input);
        const more = (part) => chat.chunk(id, { tool_calls: [
          { index, function: { arguments: part } }] });
        return [chat.chunk(id, { tool_calls: [{ index, id: call,
          type: 'function', function: { name, arguments: '' } }] }),
        more(json.slice(0, 4)), more(json.slice(4))];
      }),
      chat.chunk(id, {}, 'tool_calls'),
      'data: [DONE]\n\n']);
  },

  final(words, id = newId('chatcmpl-')) {
    return stream(id, [], [
      chat.chunk(id, { role: 'assistant', content: '' }),
      chat.chunk(id, { content: words }),
      chat.chunk(id, {}, 'stop'),
      'data: [DONE]\n\n']);
  },

  fresh({ words = 'Hello' } = {}) {
    return { model: 'm', stream: true,
      messages: [{ role: 'user', content: words }] };
  },

  says: (words) => ({ after: [{ role: 'user', content: words }] }),

  continuation({ from, results, history = [], after = [] }) {
    return { model: 'm', stream: true, messages: [
      ...history,
      { role: 'user', content: 'Hello' },
      { role: 'assistant', content: null,
        tool_calls: from.calls.map(({ id, name, input }) => ({ id,
          type: 'function',
          function: { name, arguments: JSON.stringify(input) } })) },
      ...from.calls.filter(({ id }) => id in results)
        .map(({ id }) => toolMessage(id, results[id])),
      ...after] };
  },

  check(body) {
    const bad = (message, param) => ({ status: 400, body: { error: {
      message, type: 'invalid_request_error', param, code: null } } });
    const { messages } = body;
    let expected = new Set();
    let seen = new Map();
    let asked = 0;
    const missing = () => bad("An assistant message with 'tool_calls' must be "
      + "followed by tool messages responding to each 'tool_call_id'. The "
      + 'following tool_call_ids did not have response messages: '
      + [...expected].join(', '), `messages.[${asked}].role`);
    for (const [i, one] of messages.entries()) {
      if (one.role === 'tool') {
        const id = one.tool_call_id;
        if (seen.has(id)) {
          return bad("Invalid parameter: Duplicate value for 'tool_call_id' "
            + `of '${id}', in messages[${seen.get(id)}] and messages[${i}].`,
          `messages.[${i}].tool_call_id`);
        }
        if (!expected.delete(id)) {
          return bad("Invalid parameter: messages with role 'tool' must be a "
            + "response to a preceeding message with 'tool_calls'.",
          `messages.[${i}].role`);
        }
        seen.set(id, i);
        continue;
      }
      if (expected.size) {
        return missing();
      }
      seen = new Map();
      expected = new Set((one.tool_calls ?? []).map(({ id }) => id));
      asked = i;
    }
    return expected.size ? missing() : null;
  },

  answered(body) {
    return body.messages.filter(({ role }) => role === 'tool')
      .map((one) => one.tool_call_id);
  },
};
