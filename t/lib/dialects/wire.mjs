/*
 * wire.mjs: helpers for the harness's dialects: ids, calls, SSE events, and
 * parsing the events of an answer.
 */
import { randomBytes } from 'node:crypto';

const alphabet
  = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789';

/* A unique id in a provider's form. */
export function newId(prefix) {
  return prefix + [...randomBytes(24)]
    .map((byte) => alphabet[byte % alphabet.length]).join('');
}

/* n parallel calls of one step. */
export function newCalls(n, prefix = 'call_') {
  return Array.from({ length: n }, (_, i) => ({ id: newId(prefix),
    name: `tool_${i}`, input: { city: `Town ${i}`, degrees: 1.5 } }));
}

const message = (value) =>
  (value instanceof Error ? value.message : value);
export const text = (value) => (typeof message(value) === 'string'
  ? message(value) : JSON.stringify(value));
export const data = (object) => `data: ${JSON.stringify(object)}\n\n`;
export const named = (object) => `event: ${object.type}\n${data(object)}`;
export const stream = (id, calls, events) =>
  Object.assign(events, { id, calls });

/* The data of each SSE event of an answer: objects, or strings if not JSON. */
export function events(answer) {
  return answer.split(/\r?\n\r?\n/).map((block) => block.split(/\r?\n/)
    .filter((line) => line.startsWith('data:'))
    .map((line) => line.slice(5).trim()).join('\n'))
    .filter(Boolean).map((line) => {
      try {
        return JSON.parse(line);
      } catch {
        return line;
      }
    });
}

/* The first duplicate id of a list. */
export const double = (ids) => ids.find((id, i) => ids.indexOf(id) !== i);
