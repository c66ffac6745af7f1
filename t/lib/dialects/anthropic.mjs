/*
 * anthropic.mjs: Anthropic Messages, with and without threads:
 * streams, request bodies, and the 400 for tool_use blocks that lack results.
 */
import { double, named, newId, stream, text } from './wire.mjs';

const toolResult = (id, value) => ({ type: 'tool_result', tool_use_id: id,
  content: text(value), ...(value instanceof Error && { is_error: true }) });
const blocksOf = ({ content }, type) => (Array.isArray(content)
  ? content.filter((block) => block.type === type) : []);

export const anthropic = {
  path: '/v1/messages',
  headers: { 'anthropic-version': '2023-06-01' },
  prefix: 'toolu_',
  sse: {},
  seal: 'message_delta',
  error: ({ error }) => error?.message,

  calls({ calls, id = newId('msg_'), lead = [] }) {
    return stream(id, calls, [
      ...anthropic.start(id),
      ...lead,
      ...calls.flatMap(({ id: call, name, input }, index) => {
        const json = JSON.stringify(input);
        const more = (part) => named({ type: 'content_block_delta', index,
          delta: { type: 'input_json_delta', partial_json: part } });
        return [named({ type: 'content_block_start', index,
          content_block: { type: 'tool_use', id: call, name, input: {} } }),
        more(json.slice(0, 4)), more(json.slice(4)),
        named({ type: 'content_block_stop', index })];
      }),
      ...anthropic.stop('tool_use')]);
  },

  start: (id) => [named({ type: 'message_start', message: { id,
    type: 'message', role: 'assistant', model: 'm', content: [],
    stop_reason: null, stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 1 } } }),
  named({ type: 'ping' })],

  stop: (reason) => [named({ type: 'message_delta',
    delta: { stop_reason: reason, stop_sequence: null },
    usage: { output_tokens: 2 } }), named({ type: 'message_stop' })],

  final(words, id = newId('msg_')) {
    return stream(id, [], [
      ...anthropic.start(id),
      named({ type: 'content_block_start', index: 0,
        content_block: { type: 'text', text: '' } }),
      named({ type: 'content_block_delta', index: 0,
        delta: { type: 'text_delta', text: words } }),
      named({ type: 'content_block_stop', index: 0 }),
      ...anthropic.stop('end_turn')]);
  },

  fresh({ words = 'Hello' } = {}) {
    return { model: 'm', max_tokens: 100, stream: true,
      messages: [{ role: 'user', content: words }] };
  },

  says: (words) => ({ text: words }),

  continuation({ from, results, history = [], after = [], text: say }) {
    return { ...anthropic.fresh(), messages: [
      ...history,
      { role: 'user', content: 'Hello' },
      { role: 'assistant', content: from.calls.map(({ id, name, input }) =>
        ({ type: 'tool_use', id, name, input })) },
      { role: 'user', content: [
        ...from.calls.filter(({ id }) => id in results)
          .map(({ id }) => toolResult(id, results[id])),
        ...(say ? [{ type: 'text', text: say }] : [])] },
      ...after] };
  },

  check(body, { issued = new Map() } = {}) {
    const bad = (message) => ({ status: 400, body: { type: 'error',
      error: { type: 'invalid_request_error', message },
      request_id: newId('req_') } });
    const chain = body.thread?.previous_message_id;
    if (chain && !issued.has(chain)) {
      return bad(`thread: message ${chain} not found`);
    }
    let expected = (issued.get(chain) ?? []).map(({ id }) => id);
    const used = new Set();
    for (const [i, one] of body.messages.entries()) {
      const results = blocksOf(one, 'tool_result');
      const ids = results.map((block) => block.tool_use_id);
      const at = (id) => `messages.${i}.content.`
        + one.content.findLastIndex((b) => b.tool_use_id === id);
      const twice = double(ids);
      if (twice) {
        return bad(`${at(twice)}: each tool_use must have a single result. `
          + `Found multiple \`tool_result\` blocks with id: ${twice}`);
      }
      const orphan = ids.find((id) => !expected.includes(id));
      if (orphan) {
        return bad(`${at(orphan)}: unexpected \`tool_use_id\` found in `
          + `\`tool_result\` blocks: ${orphan}. Each \`tool_result\` block `
          + 'must have a corresponding `tool_use` block in the previous '
          + 'message.');
      }
      const missing = expected.filter((id) => !ids.includes(id));
      const late = results.length
        && one.content.indexOf(results.at(-1)) >= results.length;
      if (missing.length || late) {
        return bad(`messages.${i - 1}: \`tool_use\` ids were found without `
          + '`tool_result` blocks immediately after: '
          + `${(missing.length ? missing : ids).join(', ')}. Each \`tool_use\``
          + ' block must have a corresponding `tool_result` block in the next '
          + 'message.');
      }
      expected = blocksOf(one, 'tool_use').map(({ id }) => id);
      for (const id of expected) {
        if (used.has(id)) {
          return bad(`messages.${i}.content.1: \`tool_use\` ids must be `
            + 'unique');
        }
        used.add(id);
      }
    }
    return expected.length === 0 ? null
      : bad(`messages.${body.messages.length - 1}: \`tool_use\` ids were `
        + 'found without `tool_result` blocks immediately after: '
        + `${expected.join(', ')}.`);
  },

  answered(body) {
    return body.messages.flatMap((one) => blocksOf(one, 'tool_result'))
      .map((block) => block.tool_use_id);
  },
};

export const anthropicThread = {
  ...anthropic,

  fresh() {
    return { ...anthropic.fresh(), thread: { type: 'create' } };
  },

  continuation({ from, results, text: say }) {
    return { ...anthropic.fresh(), thread: { type: 'continue',
      previous_message_id: from.id }, messages: [
      { role: 'user', content: [
        ...from.calls.filter(({ id }) => id in results)
          .map(({ id }) => toolResult(id, results[id])),
        ...(say ? [{ type: 'text', text: say }] : [])] }] };
  },
};
