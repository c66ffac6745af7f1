/*
 * status.mjs: the output of chat_status, and its expected values from the
 * access log.
 */
import { get } from './harness.mjs';

/* Lines for a server: the status, as chat_status serves it. */
export const statusLocation = 'location = /status { chat_status; }';

/* The answer to GET /status: {status, headers, text}. */
export async function ask(n, query = '', headers = {}, options = {}) {
  const answer = get(n.port, `/status${query}`, headers, options);
  const text = await answer.text();
  return { ...await answer.head, text };
}

/* The JSON. */
export const statusOf = async (n, query) =>
  JSON.parse((await ask(n, query)).text);

/* The Prometheus text as a map: series to number. */
export function samples(text) {
  return new Map(text.trim().split('\n').filter((line) =>
    !line.startsWith('#')).map((line) => {
    const at = line.lastIndexOf(' ');
    return [line.slice(0, at), Number(line.slice(at + 1))];
  }));
}

/* The numbers of a tree above 0, as path: number. */
export function above0(tree, path = '') {
  return Object.entries(tree).flatMap(([key, value]) => (
    typeof value === 'object' ? above0(value, `${path}${key}.`)
      : value ? [[`${path}${key}`, value]] : [])).sort();
}

/* Requests and turns from the access log, in the same form. */
export function logged(lines) {
  const found = {};
  const count = (path) => { found[path] = (found[path] ?? 0) + 1; };
  for (const { uri, dialect, verdict, turn_status: turn } of lines) {
    if (!uri.startsWith('/status')) {
      count(`requests.${dialect || 'none'}.${verdict}`);
      if (turn) {
        count(`turns.${dialect}.${turn}`);
      }
    }
  }
  return Object.entries(found).sort();
}

/* All counters of events, without times. */
export const counted = ({ counters }) => above0(counters);

/* The requests and turns of it. */
export const talked = ({ counters: { requests, turns } }) =>
  above0({ requests, turns });
