/*
 * ag_ui.mjs: AG-UI: runs, their input, and an agent's answer to a
 * half-answered one: 200 and RUN_ERROR. agUiResume: interrupted runs; their
 * calls are the interrupts.
 */
import { data, double, newId, stream, text } from './wire.mjs';

const user = (words) => ({ id: newId('u'), role: 'user', content: words });

/* The assistant's message of a run. */
const messageOf = (from) => ({ id: `m_${from.id}`, role: 'assistant',
  toolCalls: from.calls.map(({ id, name, input }) => ({ id, type: 'function',
    function: { name, arguments: JSON.stringify(input) } })) });

const toolMessage = (id, value) => ({ id: `result-${id}`, role: 'tool',
  toolCallId: id, content: text(value),
  ...(value instanceof Error && { error: value.message }) });

const resumeEntry = (id, value) => ({ interruptId: id,
  ...(value instanceof Error
    ? { status: 'cancelled', payload: { error: value.message } }
    : { status: 'resolved', payload: value }) });

export const agUi = {
  path: '/agent',
  headers: {},
  prefix: 'call_',
  sse: {},
  seal: 'RUN_FINISHED',
  error: ({ type, message }) =>
    (type === 'RUN_ERROR' ? message : undefined),
  empty: (list) => list[0]?.type === 'RUN_STARTED'
    && list.slice(1).map(({ type }) => type)
      .filter((type) => type !== 'TOOL_CALL_RESULT').join() === 'RUN_FINISHED',

  run: (type, runId, more) => data({ type, threadId: 'th', runId, ...more }),

  call({ id, name, input }, parentMessageId) {
    const json = JSON.stringify(input);
    const more = (delta) => data({ type: 'TOOL_CALL_ARGS', toolCallId: id,
      delta });
    return [data({ type: 'TOOL_CALL_START', toolCallId: id,
      toolCallName: name, ...(parentMessageId && { parentMessageId }) }),
    more(json.slice(0, 4)), more(json.slice(4)),
    data({ type: 'TOOL_CALL_END', toolCallId: id })];
  },

  calls({ calls, id = newId('run_'), lead = [] }) {
    return stream(id, calls, [
      agUi.run('RUN_STARTED', id),
      ...lead,
      ...calls.flatMap((call) => agUi.call(call, `m_${id}`)),
      agUi.run('RUN_FINISHED', id)]);
  },

  final(words, id = newId('run_')) {
    const messageId = `m_${id}`;
    return stream(id, [], [
      agUi.run('RUN_STARTED', id),
      data({ type: 'TEXT_MESSAGE_START', messageId, role: 'assistant' }),
      data({ type: 'TEXT_MESSAGE_CONTENT', messageId, delta: words }),
      data({ type: 'TEXT_MESSAGE_END', messageId }),
      agUi.run('RUN_FINISHED', id)]);
  },

  fresh({ conversation = newId('thread_'), words = 'Hello' } = {}) {
    return { threadId: conversation, runId: 'run', state: {},
      messages: [{ id: 'u1', role: 'user', content: words }], tools: [],
      context: [], forwardedProps: {} };
  },

  says: (words) => ({ after: [user(words)] }),

  continuation({ conversation, from, results, history = [], after = [] }) {
    const body = agUi.fresh({ conversation });
    return { ...body, messages: [
      ...history,
      ...body.messages,
      messageOf(from),
      ...from.calls.filter(({ id }) => id in results)
        .map(({ id }) => toolMessage(id, results[id])),
      ...after] };
  },

  check({ messages, resume = [] }, { interrupts = [] } = {}) {
    const error = (message) => ({ status: 200, events: [
      agUi.run('RUN_STARTED', 'bad'), data({ type: 'RUN_ERROR', message })] });
    const given = resume.map(({ interruptId: id }) => id);
    const left = interrupts.map(({ id }) => id)
      .filter((id) => !given.includes(id));
    if (given.length && (double(given) || left.length
      || given.length !== interrupts.length)) {
      return error(`Partial resumes are not supported: ${left.join(', ')}.`);
    }
    const seen = new Set();
    let open = new Set();
    const missing = () => error(
      `No tool result for tool call ${[...open].join(', ')}.`);
    for (const one of messages) {
      if (one.role === 'tool') {
        if (!open.delete(one.toolCallId)) {
          return error(`No tool call ${one.toolCallId} waits for a result.`);
        }
      } else if (open.size) {
        return missing();
      }
      for (const { id } of one.toolCalls ?? []) {
        open.add(id);
      }
      if (seen.has(one.id)) {
        return error(`Two messages have the id ${one.id}.`);
      }
      seen.add(one.id);
    }
    return open.size && !given.length ? missing() : null;
  },

  answered: ({ messages = [], resume = [] }) => [
    ...messages.filter(({ role }) => role === 'tool')
      .map(({ toolCallId: id }) => id),
    ...resume.map(({ interruptId: id }) => id)],
};

export const agUiResume = {
  ...agUi,
  prefix: 'int_',

  calls({ calls, id = newId('run_'), lead = [] }) {
    const interrupts = calls.map((call) => ({ id: call.id,
      reason: call.name }));
    return stream(id, calls, [
      agUi.run('RUN_STARTED', id),
      ...lead,
      agUi.run('RUN_FINISHED', id, {
        outcome: { type: 'interrupt', interrupts } })]);
  },

  /* The interrupts of the thread's last run are those issued last. */
  check: (body, { issued = new Map() } = {}) =>
    agUi.check(body, { interrupts: issued.get(body.threadId) }),

  continuation({ conversation, from, results, history = [], after = [] }) {
    const body = agUi.fresh({ conversation });
    return { ...body, messages: [...history, ...body.messages, ...after],
      resume: from.calls.filter(({ id }) => id in results)
        .map(({ id }) => resumeEntry(id, results[id])) };
  },
};
