/*
 * ai_sdk.mjs: the AI SDK's UI message stream, its request bodies, and an app's
 * answer to a half-answered body: 200 and an error.
 */
import { data, newId, stream } from './wire.mjs';

const isTool = (part) => part.type === 'dynamic-tool'
  || part.type?.startsWith('tool-');

function aiSdkPart({ id, name, input, dynamic, ...rest }, results) {
  const { approval, providerExecuted } = rest;
  const part = { type: dynamic ? 'dynamic-tool' : `tool-${name}`,
    ...(dynamic && { toolName: name }), toolCallId: id,
    state: approval?.approved !== undefined ? 'approval-responded'
      : approval ? 'approval-requested' : 'input-available',
    input, ...(approval && { approval }),
    ...(providerExecuted && { providerExecuted }) };
  if (id in results) {
    const value = results[id];
    Object.assign(part, value instanceof Error
      ? { state: 'output-error', errorText: value.message }
      : { state: 'output-available', output: value });
  }
  return part;
}

/* Bodies that convertToModelMessages and validateUIMessages refuse. */
function aiSdkFault(part) {
  const { state, approval } = part;
  if (state === 'output-available' && !('output' in part)) {
    return 'output-available without output';
  }
  if (state === 'output-error' && typeof part.errorText !== 'string') {
    return 'output-error without errorText';
  }
  if (state.startsWith('output-') && approval
    && approval.approved !== (state !== 'output-denied')) {
    return `${state} with approved: ${approval.approved}`;
  }
  if (state === 'output-error' && 'output' in part) {
    return 'output-error with an output';
  }
  return null;
}

/* Many apps send only the last message. */
const messagesOf = (body) => body.messages ?? (body.message && [body.message]);

export const aiSdk = {
  path: '/api/chat',
  headers: {},
  prefix: 'call_',
  sse: { 'x-vercel-ai-ui-message-stream': 'v1' },
  seal: 'finish-step',
  error: ({ type, errorText }) => (type === 'error' ? errorText : undefined),
  empty: (list) => list.map((e) => e.type ?? e)
    .filter((type) => !/^tool-output-/.test(type)).join(' ')
    === 'start start-step start finish-step finish [DONE]',

  calls({ calls, id = newId('msg_'), lead = [] }) {
    return stream(id, calls, [
      data({ type: 'start', messageId: id }),
      data({ type: 'start-step' }),
      ...lead,
      ...calls.flatMap((call) => aiSdk.call(call)),
      data({ type: 'finish-step' }),
      data({ type: 'finish', finishReason: 'tool-calls' }),
      'data: [DONE]\n\n']);
  },

  /* The events of one call: for streams with replays. */
  call({ id, name, input, dynamic, providerExecuted, approval }) {
    const more = { ...(dynamic && { dynamic }),
      ...(providerExecuted && { providerExecuted }) };
    const json = JSON.stringify(input);
    return [
      data({ type: 'tool-input-start', toolCallId: id, toolName: name,
        ...more }),
      data({ type: 'tool-input-delta', toolCallId: id,
        inputTextDelta: json.slice(0, 5) }),
      data({ type: 'tool-input-delta', toolCallId: id,
        inputTextDelta: json.slice(5) }),
      data({ type: 'tool-input-available', toolCallId: id, toolName: name,
        input, ...more }),
      ...(approval ? [data({ type: 'tool-approval-request',
        approvalId: approval.id, toolCallId: id })] : [])];
  },

  final(words, id = newId('msg_')) {
    return stream(id, [], [
      data({ type: 'start', messageId: id }),
      data({ type: 'start-step' }),
      data({ type: 'text-start', id: 't1' }),
      data({ type: 'text-delta', id: 't1', delta: words }),
      data({ type: 'text-end', id: 't1' }),
      data({ type: 'finish-step' }),
      data({ type: 'finish', finishReason: 'stop' }),
      'data: [DONE]\n\n']);
  },

  fresh({ conversation = newId('chat_'), words = 'Hello' } = {}) {
    return { id: conversation, messages: [{ id: 'u1', role: 'user',
      parts: [{ type: 'text', text: words }] }], trigger: 'submit-message' };
  },

  /* before: parts of earlier steps; after: messages that follow. */
  says: (words) => ({ after: [{ id: newId('u'), role: 'user',
    parts: [{ type: 'text', text: words }] }] }),

  continuation({ conversation, from, results, before = [], history = [],
    after = [], trigger = 'submit-message' }) {
    return { id: conversation, messages: [
      ...history,
      ...aiSdk.fresh().messages,
      { id: from.id, role: 'assistant', parts: [...before,
        { type: 'step-start' },
        ...from.calls.map((call) => aiSdkPart(call, results))] },
      ...after], trigger };
  },

  check(body, { lenient } = {}) {
    const error = (errorText) => ({ status: 200,
      events: [data({ type: 'start' }), data({ type: 'error', errorText })] });
    const messages = messagesOf(body);
    if (!Array.isArray(messages)) {
      return { status: 400, body: { error: 'messages must be an array' } };
    }
    const last = messages.at(-1);
    for (const { parts } of messages) {
      const step = parts.findLastIndex((p) => p.type === 'step-start');
      for (const [i, part] of parts.entries()) {
        if (!isTool(part) || part.providerExecuted) {
          continue;
        }
        const fault = aiSdkFault(part);
        if (fault) {
          return error(`validation: ${fault}`);
        }
        const old = parts !== last.parts || i < step;
        const open = ['input-streaming', 'input-available',
          'approval-requested'].includes(part.state);
        if (open && !(lenient && old)) {
          return error('AI_MissingToolResultsError: Tool result is missing '
            + `for tool call ${part.toolCallId}.`);
        }
      }
    }
    return null;
  },

  /* Ids of the calls that a body answers. */
  answered(body) {
    return messagesOf(body).flatMap(({ parts }) => parts)
      .filter(isTool)
      .filter(({ state }) => /^(output-|approval-responded)/.test(state))
      .map((part) => part.toolCallId);
  },
};
