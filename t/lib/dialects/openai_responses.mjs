/*
 * openai_responses.mjs: OpenAI Responses, stateless and chained: streams,
 * request bodies, and the 400 for missing, duplicate or unknown outputs.
 */
import { named, newId, stream, text } from './wire.mjs';

const outputOf = { function_call: 'function_call_output',
  custom_tool_call: 'custom_tool_call_output',
  local_shell_call: 'local_shell_call_output',
  shell_call: 'shell_call_output', apply_patch_call: 'apply_patch_call_output',
  computer_call: 'computer_call_output',
  tool_search_call: 'tool_search_output',
  mcp_approval_request: 'mcp_approval_response' };
const outputs = new Set(Object.values(outputOf));
const callKey = (item) => (item.type === 'mcp_approval_request'
  ? item.id : item.call_id);
const outputKey = (item) => (item.type === 'mcp_approval_response'
  ? item.approval_request_id
  : item.type === 'local_shell_call_output' ? item.id : item.call_id);

const functionCall = ({ id, name, input }) =>
  ({ id: id.replace('call_', 'fc_'), type: 'function_call',
    status: 'completed', call_id: id, name,
    arguments: JSON.stringify(input) });
const functionOutput = (id, value) => ({ type: 'function_call_output',
  call_id: id, output: value instanceof Error
    ? JSON.stringify({ error: value.message }) : text(value) });

export const responses = {
  path: '/v1/responses',
  headers: {},
  prefix: 'call_',
  sse: {},
  seal: 'response.completed',
  error: ({ type, message }) => (type === 'error' ? message : undefined),
  empty: (list) => /^created( in_progress)? completed$/.test(
    list.map(({ type }) => type?.replace('response.', '')).join(' '))
    && !list.at(-1).response?.output.length,

  calls({ calls, id = newId('resp_'), lead = [] }) {
    const items = calls.map((call) => functionCall(call));
    let number = 0;
    const event = (type, fields) => named({ type, sequence_number: number++,
      ...fields });
    const response = (status, output) => ({ id, object: 'response', status,
      output, model: 'm' });
    return stream(id, calls, [
      event('response.created', { response: response('in_progress', []) }),
      event('response.in_progress', { response: response('in_progress', []) }),
      ...lead,
      ...items.flatMap((item, i) => [
        event('response.output_item.added', { output_index: i,
          item: { ...item, status: 'in_progress', arguments: '' } }),
        event('response.function_call_arguments.delta', { item_id: item.id,
          output_index: i, delta: item.arguments }),
        event('response.function_call_arguments.done', { item_id: item.id,
          output_index: i, arguments: item.arguments }),
        event('response.output_item.done', { output_index: i, item })]),
      event('response.completed', { response: response('completed', items) }),
    ]);
  },

  final(words, id = newId('resp_')) {
    const part = { type: 'output_text', text: words, annotations: [] };
    const item = { id: newId('msg_'), type: 'message', role: 'assistant',
      status: 'completed', content: [part] };
    let number = 0;
    const event = (type, fields) => named({ type, sequence_number: number++,
      ...fields });
    const response = (status, output) => ({ id, object: 'response', status,
      output, model: 'm' });
    const at = { item_id: item.id, output_index: 0, content_index: 0 };
    return stream(id, [], [
      event('response.created', { response: response('in_progress', []) }),
      event('response.output_item.added', { output_index: 0,
        item: { ...item, status: 'in_progress', content: [] } }),
      event('response.content_part.added', { ...at,
        part: { ...part, text: '' } }),
      event('response.output_text.delta', { ...at, delta: words }),
      event('response.output_text.done', { ...at, text: words }),
      event('response.content_part.done', { ...at, part }),
      event('response.output_item.done', { output_index: 0, item }),
      event('response.completed', { response: response('completed', [item]) }),
    ]);
  },

  fresh({ words = 'Hello' } = {}) {
    return { model: 'm', stream: true, store: false,
      input: [{ role: 'user', content: words }] };
  },

  says: (words) => ({ after: [{ role: 'user', content: words }] }),

  continuation({ from, results, history = [], after = [] }) {
    const given = from.calls.filter(({ id }) => id in results);
    return { ...responses.fresh(), input: [
      ...history,
      { role: 'user', content: 'Hello' },
      ...from.calls.map((call) => functionCall(call)),
      ...given.map(({ id }) => functionOutput(id, results[id])),
      ...after] };
  },

  /* issued: the provider's answers so far, response id -> calls. */
  check(body, { issued = new Map() } = {}) {
    if (body.items) {
      return null;
    }
    const bad = (message, param = 'input') => ({ status: 400, body: { error: {
      message, type: 'invalid_request_error', param, code: null } } });
    const chain = body.previous_response_id
      ?? body.conversation?.id ?? body.conversation;
    if (body.previous_response_id && !issued.has(chain)) {
      return bad(`Previous response with id '${chain}' not found.`,
        'previous_response_id');
    }
    const known = issued.get(chain) ?? [];
    const open = new Set(known.map(({ id }) => id));
    const answered = new Set();
    for (const item of typeof body.input === 'string' ? [] : body.input) {
      if (outputOf[item.type]) {
        if (open.has(callKey(item))) {
          return bad(`Duplicate item found with id ${item.id}. Remove `
            + 'duplicate items from your input and try again.');
        }
        open.add(callKey(item));
      } else if (outputs.has(item.type)) {
        const key = outputKey(item);
        if (answered.has(key)) {
          return bad(`Duplicate ${item.type} for call_id ${key}.`);
        }
        if (!open.delete(key)) {
          return bad('No tool call found for function call output with '
            + `call_id ${key}.`);
        }
        answered.add(key);
      }
    }
    return open.size === 0 ? null
      : bad(`No tool output found for function call ${[...open][0]}.`);
  },

  answered(body) {
    return [body.items ?? body.input].flat()
      .filter((item) => outputs.has(item.type)).map(outputKey);
  },
};

export const responsesChained = {
  ...responses,

  fresh({ words = 'Hello' } = {}) {
    return { model: 'm', stream: true, input: words };
  },

  continuation({ from, results, after = [] }) {
    return { model: 'm', stream: true, previous_response_id: from.id,
      input: [...from.calls.filter(({ id }) => id in results)
        .map(({ id }) => functionOutput(id, results[id])), ...after] };
  },
};

/*
 * The provider keeps the conversation: no body contains calls or names a
 * response.
 */
export const responsesConversation = {
  ...responsesChained,

  fresh({ conversation = 'conv_1', ...options } = {}) {
    return { ...responsesChained.fresh(options), conversation };
  },

  continuation({ conversation = 'conv_1', ...options }) {
    const { previous_response_id: _, ...body } =
      responsesChained.continuation(options);
    return { ...body, conversation: { id: conversation } };
  },
};
