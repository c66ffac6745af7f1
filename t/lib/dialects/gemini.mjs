/*
 * gemini.mjs: Gemini's streamGenerateContent: streams, request bodies, and the
 * 400 for different numbers of calls and results (a call without a name
 * continues the one before it).
 */
import { data, double, newId, stream } from './wire.mjs';

const responseOf = (value) => (value instanceof Error
  ? { error: value.message } : { output: value });
const functionsOf = ({ parts }, key) => (parts ?? [])
  .map((part) => part[key]).filter(Boolean);

export const gemini = {
  path: '/v1beta/models/m:streamGenerateContent?alt=sse',
  headers: {},
  prefix: 'fc_',
  sse: {},
  seal: 'finishR',
  error: ({ error }) => error?.message,
  empty: (list) => list.length === 1
    && list[0].candidates?.[0].content.parts.length === 0
    && list[0].candidates[0].finishReason === 'STOP',

  chunk: (id, parts, more) => data({ candidates: [{
    content: { role: 'model', parts }, ...more, index: 0 }],
  modelVersion: 'm', responseId: id }),

  /* Of a step's calls only the first must have a signature. */
  call: ({ id, name, input }) => ({
    functionCall: { ...(id && { id }), name, args: input },
    thoughtSignature: `Sig+${id ?? name}/==` }),

  /* alone: all calls in one chunk. */
  calls({ calls, id = newId(''), lead = [], alone = false }) {
    const parts = calls.map((call) => gemini.call(call));
    return stream(id, calls, [
      ...lead,
      ...(alone ? [parts] : parts.map((part) => [part]))
        .map((list) => gemini.chunk(id, list)),
      gemini.chunk(id, [{ text: '' }], { finishReason: 'STOP' })]);
  },

  final(words, id = newId('')) {
    return stream(id, [], [
      gemini.chunk(id, [{ text: 'Hm.', thought: true }]),
      gemini.chunk(id, [{ text: words }]),
      gemini.chunk(id, [{ text: '' }], { finishReason: 'STOP' })]);
  },

  fresh({ words = 'Hello' } = {}) {
    return { contents: [{ role: 'user', parts: [{ text: words }] }] };
  },

  says: (words) => ({ text: words }),

  /* Of calls without ids the keys of results are the positions. */
  continuation({ from, results, history = [], after = [], text: say }) {
    const given = from.calls.map((call, i) => ({ ...call, key: call.id ?? i }))
      .filter(({ key }) => key in results);
    return { contents: [
      ...history,
      ...gemini.fresh().contents,
      { role: 'model', parts: from.calls.map((call) =>
        gemini.call(call)) },
      { role: 'user', parts: [
        ...given.map(({ id, key, name }) => ({ functionResponse: {
          ...(id && { id }), name, response: responseOf(results[key]) } })),
        ...(say ? [{ text: say }] : [])] },
      ...after] };
  },

  /* The provider joins consecutive contents of one role. */
  check({ contents }) {
    const bad = (message) => ({ status: 400, body: { error: { code: 400,
      message, status: 'INVALID_ARGUMENT' } } });
    const turns = [];
    for (const { role, parts } of contents) {
      const side = role === 'model' ? 'model' : 'user';
      if (turns.at(-1)?.side === side) {
        turns.at(-1).parts.push(...parts);
      } else {
        turns.push({ side, parts: [...parts] });
      }
    }
    for (const [i, turn] of turns.entries()) {
      const calls = functionsOf(turns[i - 1] ?? {}, 'functionCall')
        .filter(({ name }) => name);
      const results = functionsOf(turn, 'functionResponse');
      if (turn.side === 'user' && calls.length !== results.length) {
        return bad('Please ensure that the number of function response '
          + 'parts is equal to the number of function call parts of the '
          + 'function call turn.');
      }
      const ids = results.map(({ id }) => id).filter(Boolean);
      if (double(ids)
        || ids.some((id) => !calls.some((call) => call.id === id))) {
        return bad('Please ensure that function response ids match those '
          + 'of the function call turn.');
      }
      if (turn.parts.some((part) => Object.keys(part).length === 0)) {
        return bad('Unable to submit request because it must have one '
          + 'initialized field in each part.');
      }
    }
    return turns.at(-1).side === 'user' ? null
      : bad('Please ensure that multiturn requests end with a user role.');
  },

  answered({ contents }) {
    return contents.flatMap((one) => functionsOf(one, 'functionResponse'))
      .map(({ id, name }) => id ?? name);
  },
};
