/*
 * mutants.mjs: valid bodies and streams, and random mutants of them with a
 * seed: wrong types, missing and duplicate members, broken bytes.
 */
import { dialects, newCalls } from './dialects.mjs';

/* A number generator with a seed, so that a failure can be repeated. */
export function random(seed) {
  let state = seed * 2654435761 >>> 0;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor(state / 4294967296 * below);
  };
}

/* Bodies of a dialect as its clients send them. */
export function bodies(key) {
  const dialect = dialects[key];
  const calls = newCalls(3, dialect.prefix);
  const [a, b, c] = calls.map(({ id }) => id);
  const from = dialect.calls({ calls });
  const body = (results) => dialect.continuation({ from, results,
    conversation: 'chat_1' });
  return [dialect.fresh({ conversation: 'chat_1' }), body({ [a]: 'x' }),
    body({ [b]: { y: [1, 2] }, [c]: new Error('no') }),
    body({ [a]: 1, [b]: null, [c]: 'é😀' })];
}

const strange = () => [null, true, false, 0, -1, 1e308, 1.5, '', 'x', [], {},
  [[]], [null], { type: 'x' }, { '': '' }, 'x'.repeat(5000), '\ud800',
  'tool', 'assistant', 'tool-x', 'dynamic-tool', 'function_call', 'system',
  Array(200).fill({ role: 'tool' }), JSON.parse('['.repeat(60)
    + ']'.repeat(60))];

/* All members of a tree: [object, key]. */
function places(tree, out = []) {
  if (tree && typeof tree === 'object') {
    for (const key of Object.keys(tree)) {
      out.push([tree, key]);
      places(tree[key], out);
    }
  }
  return out;
}

function twist(tree, next) {
  const list = places(tree);
  if (!list.length) {
    return;
  }
  const [at, key] = list[next(list.length)];
  const values = strange();
  switch (next(6)) {
    case 0:
      if (Array.isArray(at)) {
        at.splice(Number(key), 1);
      } else {
        delete at[key];
      }
      break;
    case 1:
      if (Array.isArray(at)) {
        at.splice(Number(key), 0, structuredClone(at[key]));
      } else {
        at[`${key}x`] = at[key];
      }
      break;
    case 2: {
      const [other, name] = list[next(list.length)];
      at[key] = structuredClone(other[name]);
      break;
    }
    case 3:
      if (Array.isArray(at)) {
        at.reverse();
      }
      break;
    default:
      at[key] = values[next(values.length)];
  }
}

/* Breaks the text itself, in one of some ways. */
function smash(bytes, next) {
  const at = next(bytes.length || 1);
  const before = bytes.subarray(0, at);
  const after = bytes.subarray(at);
  const noise = [Buffer.from([next(256)]), Buffer.from([0xff, 0xfe]),
    Buffer.from('"'), Buffer.from('{'), Buffer.from(']'), Buffer.from('\0'),
    Buffer.from('\\ud800'), Buffer.from('['.repeat(300))];
  switch (next(4)) {
    case 0: return before;
    case 1: return Buffer.concat([before, after.subarray(1)]);
    case 2: return Buffer.concat([before, noise[next(noise.length)], after]);
    default: return Buffer.concat([before, after.subarray(next(40)), before]);
  }
}

/* Duplicates a key somewhere. */
function double(text, next) {
  const found = [...text.matchAll(/"(\w+)":/g)];
  const { index, 0: member } = found[next(found.length || 1)] ?? { index: -1 };
  return index === -1 ? text
    : `${text.slice(0, index)}${member}null,${text.slice(index)}`;
}

/* Bytes made of a body (an object). */
export function mutant(body, next) {
  const tree = structuredClone(body);
  for (let i = next(4); i > 0; i--) {
    twist(tree, next);
  }
  let text = JSON.stringify(tree);
  if (next(8) === 0) {
    text = double(text, next);
  }
  const bytes = Buffer.from(text);
  return next(5) === 0 ? smash(bytes, next) : bytes;
}

/* The data of an event, if it is an object. */
function parsed(event) {
  const [, before, data, after] = /^(.*?data: )(\{.*\})(\s*)$/s.exec(event)
    ?? [];
  try {
    return data && { before, body: JSON.parse(data), after };
  } catch {
    return null; /* a mutant already */
  }
}

/* Bytes made of a stream (an array of events). */
export function mutantStream(events, next) {
  const list = [...events];
  for (let i = 1 + next(3); i > 0; i--) {
    const at = next(list.length || 1);
    const event = list[at] ?? '';
    switch (next(5)) {
      case 0: list.splice(at, 1); break;
      case 1: list.splice(at, 0, event); break;
      case 2:
        list[at] = event.replaceAll('\n', next(2) ? '\r\n' : '\r');
        break;
      default: {
        const it = parsed(event);
        if (it) {
          list[at] = it.before + mutant(it.body, next) + it.after;
        }
      }
    }
  }
  const bytes = Buffer.from(list.join(''));
  return next(4) === 0 ? smash(bytes, next) : bytes;
}
