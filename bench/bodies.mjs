/*
 * bodies.mjs: request bodies of a given size: a chat, and an agent's
 * transcript, which is mostly tool calls and results; each as a fresh turn and
 * as a complete continuation.
 *
 * "#SERIAL#" in a body becomes a number of each request's own (sink.c), so
 * that each continuation answers a batch of its own.
 */

/* Text as people write it, and as tools return it. */
const prose = 'The station reports rain until noon, then a dry wind from the '
  + 'west. "Take a coat," says the café owner.\nOn Tuesday it will be warmer; '
  + 'most of the paths in the valley should be open again by then. ';
const source = 'static int\nread_line(const char *p)\n{\n\tif (p == NULL) {\n'
  + '\t\tfail("no line at \\"%s\\"", p);\n\t}\n\n\treturn *p != \'\\n\';\n}\n';
const cut = (text, length, at) =>
  text.repeat(Math.ceil(length / text.length) + 1)
    .slice(at % text.length, at % text.length + length);

/* What the at-th messages of user and model, and the at-th result, say. */
export const words = {
  user: (at) => cut(prose, 150, at),
  model: (at) => cut(prose, 900, at * 7),
  result: (at) => cut(source, 500, at),
};

/* The arguments of the at-th call, and its id in a list. */
export const input = (at) => ({ path: `src/part${at}/main.c`, from: at,
  lines: 40, why: 'look for "read_line"' });
export const earlier = (at) => [`Zq7Kd93mVtLw5x${String(at)
  .padStart(8, '0')}`];

const call = (id, at) => ({ id, type: 'function', function: {
  name: 'read_file', arguments: JSON.stringify(input(at)) } });

/* A step of these calls; only those of `answered` have a result. */
const step = (ids, at, answered = ids) => [
  { role: 'assistant', content: null, tool_calls:
    ids.map((id) => call(id, at)) },
  ...answered.map((id) => ({ role: 'tool', tool_call_id: id,
    content: words.result(at) }))];

const turn = {
  chat: (at) => [{ role: 'user', content: words.user(at) },
    { role: 'assistant', content: words.model(at) }],
  agent: (at) => step(earlier(at).map((id) => `call_${id}`), at),
};

/* This many ids of a request's own, or of `serial` for several requests. */
export const ids = (count, serial = '#SERIAL#') =>
  Array.from({ length: count }, (_, i) =>
    `call_Hs82nTb5q${String(i).padStart(4, 'x')}${serial}`);

/* Adds turn(1), turn(2), ... to the messages of a text of about kb KB. */
export function filled(kb, messages, turn, text) {
  let left = kb * 1024 - text().length;
  for (let at = 1; ; at++) {
    const more = turn(at);
    left -= JSON.stringify(more).length - 1;
    if (left < 0) {
      return text();
    }
    messages.push(...more);
  }
}

/*
 * A body of OpenAI Chat of about kb KB. kind: chat or agent; last: the
 * messages of its last step, none for a fresh turn.
 */
export function body(kind, kb, last = []) {
  const user = { role: 'user', content: 'What is the matter?' };
  const messages = [{ role: 'system', content: 'You help.' }, user];
  const end = last.length ? [...kind === 'agent' ? [] : [user], ...last]
    : [user];
  const text = () => JSON.stringify({ model: 'm', stream: true, messages:
    [...messages, ...end], tools: [{ type: 'function', function: {
    name: 'read_file', parameters: { type: 'object' } } }] });
  return filled(kb, messages, turn[kind], text);
}

/* A complete continuation of two calls, and one that lacks the second. */
export const complete = (list = ids(2)) => step(list, 0);
export const half = (list = ids(2), at = 0) => step(list, 0, [list[at]]);
