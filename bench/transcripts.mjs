/*
 * transcripts.mjs: the transcripts of bodies.mjs in the other dialects, as
 * their usual clients write them.
 *
 * Per dialect: user() and says() are one message of the user and of the model,
 * step() the calls of these ids and their results; whole() is the body with
 * these messages, and final() an answer.
 */
import { dialects } from '../t/lib/dialects.mjs';
import { earlier, filled, ids, input, words } from './bodies.mjs';

const schema = { type: 'object', properties: {
  path: { type: 'string', description: 'The path of the file' },
  from: { type: 'integer' }, lines: { type: 'integer' } },
required: ['path'] };
const tool = { name: 'read_file', description: 'Reads a file' };

/* Claude Code and other clients of the Messages API. */
const anthropic = {
  user: (text) => [{ role: 'user', content: [{ type: 'text', text }] }],
  says: (text) => [{ role: 'assistant', content: [{ type: 'text', text }] }],
  step: (ids, input, output) => [
    { role: 'assistant', content: [{ type: 'text', text: 'I read it.' },
      ...ids.map((id) => ({ type: 'tool_use', id: `toolu_${id}`,
        name: tool.name, input }))] },
    { role: 'user', content: ids.map((id) => ({ type: 'tool_result',
      tool_use_id: `toolu_${id}`, content: output })) }],
  whole: (messages) => ({ model: 'm', max_tokens: 32000, stream: true,
    system: [{ type: 'text', text: 'You help.',
      cache_control: { type: 'ephemeral' } }],
    tools: [{ ...tool, input_schema: schema }], messages }),
};

/* Codex, without a stored response. */
const responses = {
  user: (text) => [{ type: 'message', role: 'user',
    content: [{ type: 'input_text', text }] }],
  says: (text) => [{ type: 'message', role: 'assistant',
    content: [{ type: 'output_text', text }] }],
  step: (ids, input, output) => [
    ...ids.map((id) => ({ type: 'function_call', name: tool.name,
      arguments: JSON.stringify(input), call_id: `call_${id}` })),
    ...ids.map((id) => ({ type: 'function_call_output',
      call_id: `call_${id}`, output }))],
  whole: (input) => ({ model: 'm', instructions: 'You help.', input,
    tools: [{ type: 'function', ...tool, strict: false, parameters: schema }],
    parallel_tool_calls: true, store: false, stream: true }),
};

const gemini = {
  user: (text) => [{ role: 'user', parts: [{ text }] }],
  says: (text) => [{ role: 'model', parts: [{ text }] }],
  step: (ids, input, output) => [
    { role: 'model', parts: ids.map((id) => ({ functionCall:
      { id: `fc_${id}`, name: tool.name, args: input } })) },
    { role: 'user', parts: ids.map((id) => ({ functionResponse:
      { id: `fc_${id}`, name: tool.name, response: { output } } })) }],
  whole: (contents) => ({ contents,
    systemInstruction: { parts: [{ text: 'You help.' }] },
    tools: [{ functionDeclarations: [{ ...tool, parameters: schema }] }] }),
};

/* useChat has all steps of a turn in one message. */
const aiSdk = {
  user: (text) => [{ role: 'user', parts: [{ type: 'text', text }] }],
  says: (text) => [{ role: 'assistant', parts: [{ type: 'step-start' },
    { type: 'text', text, state: 'done' }] }],
  step: (ids, input, output) => [{ role: 'assistant',
    parts: [{ type: 'step-start' }, ...ids.map((id) => ({
      type: `tool-${tool.name}`, toolCallId: `call_${id}`,
      state: 'output-available', input, output }))] }],
  whole: (list) => {
    const messages = [];
    for (const { role, parts } of list) {
      const last = messages.at(-1);
      if (role === 'assistant' && last.role === role) {
        last.parts.push(...parts);
      } else {
        messages.push({ id: `message-${messages.length}`, role,
          parts: [...parts] });
      }
    }
    return { id: 'talk-#SERIAL#', messages, trigger: 'submit-message' };
  },
};

const agUi = {
  user: (content) => [{ role: 'user', content }],
  says: (content) => [{ role: 'assistant', content }],
  step: (ids, input, output) => [
    { role: 'assistant', toolCalls: ids.map((id) => ({ id: `call_${id}`,
      type: 'function', function: { name: tool.name,
        arguments: JSON.stringify(input) } })) },
    ...ids.map((id) => ({ role: 'tool', toolCallId: `call_${id}`,
      content: output }))],
  whole: (list) => ({ threadId: 'talk-#SERIAL#', runId: 'run-#SERIAL#',
    state: {}, messages: list.map((it, i) => ({ id: `message-${i}`, ...it })),
    tools: [{ ...tool, parameters: schema }], context: [],
    forwardedProps: {} }),
};

const forms = { anthropic, openai_responses: responses, gemini, ai_sdk: aiSdk,
  ag_ui: agUi };

/* The dialects: {path, final: the events of an answer}. */
export const transcripts = Object.fromEntries(Object.keys(forms).map((key) =>
  [key, { path: dialects[key].path,
    final: dialects[key].final('Warm. It is.') }]));

/*
 * A body of about kb KB. kind: chat or agent; turn: fresh, or continuation
 * with the results of two calls.
 */
export function bodyOf(dialect, kind, kb, turn) {
  const form = forms[dialect];
  const step = (list, at) => form.step(list, input(at), words.result(at));
  const end = turn === 'fresh' ? form.user('And now?')
    : [...kind === 'agent' ? [] : form.user('What is it?'), ...step(ids(2),
      0)];
  const messages = form.user('What is the matter?');
  const more = (at) => (kind === 'agent' ? step(earlier(at), at)
    : [...form.user(words.user(at)), ...form.says(words.model(at))]);
  return filled(kb, messages, more,
    () => JSON.stringify(form.whole([...messages, ...end])));
}
