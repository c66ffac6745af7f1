/*
 * hostile.mjs: nginx before a provider that accepts anything, and clients that
 * send anything.
 */
import assert from 'node:assert/strict';
import http from 'node:http';
import { nginx, post } from './harness.mjs';
import { dialects } from './dialects.mjs';
import { say, verdict } from './hold.mjs';
import { bodies, mutant, random } from './mutants.mjs';
import { json, provider } from './provider.mjs';

const keys = Object.keys(dialects);

/* The number of mutants that a test sends. */
export const count = process.env.CHAT_ASAN ? 1500 : 9000;

/*
 * nginx before a provider that accepts anything and answers one word. At the
 * end its workers must be the same as at the start.
 */
export async function open(t, location = '', options = {}) {
  const p = await provider(t, null, {
    answer: () => json(200, { fine: true }), ...options.provider });
  const n = await nginx(t, { upstream: p.port, workers: 2, ...options,
    location: `${say.verdict} ${location}` });
  const pids = n.workers();
  const stop = n.stop.bind(n);
  n.stop = async () => {
    const now = n.workers();
    const log = n.errorLog();
    await stop();
    assert.deepEqual(now, pids, 'the workers are the same');
    assert.doesNotMatch(log, /\[crit\]/);
  };
  return { p, n };
}

/* Posts and returns {status, verdict, text} and the upstream request. */
export async function send(n, path, body, headers, options) {
  const answer = post(n.port, path, body,
    { 'content-type': 'application/json', ...headers }, options);
  const text = await answer.text();
  return { status: await answer.status, verdict: await verdict(answer), text };
}

/* Many posts over few connections: resolves when all are answered. */
export async function flood(n, list) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
  const one = ({ path, body, headers }) => new Promise((resolve) => {
    const request = http.request({ host: '127.0.0.1', port: n.port, path,
      method: 'POST', agent, headers: { 'content-type': 'application/json',
        'content-length': body.length, ...headers } }, (response) => {
      let length = 0;
      response.on('data', (piece) => { length += piece.length; });
      response.on('end', () => resolve({ status: response.statusCode,
        verdict: response.headers['x-verdict'], length }));
      response.on('error', (error) => resolve({ error }));
    });
    request.on('error', (error) => resolve({ error }));
    request.end(body);
  });
  const queue = [...list.entries()];
  const ends = [];
  await Promise.all(Array.from({ length: 8 }, async () => {
    while (queue.length) {
      const [i, item] = queue.shift();
      ends[i] = await one(item);
    }
  }));
  agent.destroy();
  return ends;
}

/* This many bodies of all dialects, for flood(). */
export function mutants(seed, number) {
  const next = random(seed);
  const valid = keys.flatMap((key) => bodies(key).map((body) =>
    ({ key, body })));
  return Array.from({ length: number }, (_, i) => {
    const { key, body } = valid[next(valid.length)];
    return { path: dialects[key].path, body: mutant(body, next),
      headers: { ...dialects[key].headers, 'x-number': String(i) } };
  });
}
