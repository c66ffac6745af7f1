/*
 * results.test.mjs: chat_results: what comes from outside of the chat is
 * joined into the open batch, and so releases what is held.
 */
import assert from 'node:assert/strict';
import { get, nginxTest, pause, post, until } from './harness.mjs';
import { Batch, outputs, stage, told } from './harness_batch.mjs';
import { dialects, newCalls, newId } from './harness_dialects.mjs';
import { each, held, live, say, several, wordOf } from './harness_hold.mjs';

/* A location for results beside the chat, for those of the same tenant. */
export const outside = { server: `
  chat_tenant $http_authorization;
  chat_conversation $http_x_batch;
  location = /results { chat_results; }` };

const open = (t, key, options) => stage(t, key, { workers: 2, hold: '20s',
  ...outside, location: say.verdict, ...options });

/* The answer of /results: {status, headers, body}. */
async function answered(answer) {
  const text = await answer.text();
  const { status, headers } = await answer.head;
  return { status, headers, body: /json/.test(headers['content-type'])
    ? JSON.parse(text) : text };
}

/* Posts to /results as it is. */
const send = (batch, body, { headers, node = batch.pick(), ...options } = {}) =>
  answered(post(options.http2 ? node.port2 : node.port, '/results', body,
    headers, options));

/* One result of the call at this position, or a list of them. */
const of = (batch, at, value) => ({ conversation: batch.key,
  toolCallId: batch.ids[at], ...value });
const give = (batch, at, value, options) =>
  send(batch, of(batch, at, value), options);
const show = (batch, { headers, node = batch.pick() } = {}) =>
  answered(get(node.port, `/results?conversation=${batch.key}`, headers));
const clear = (batch, { headers, node = batch.pick() } = {}) =>
  answered(get(node.port, `/results?conversation=${batch.key}`, headers,
    { method: 'DELETE' }));

const applied = (n, repeated = 0) => ({ applied: n, repeated });

async function taken(answer, n, repeated) {
  const { status, body } = await answer;
  assert.equal(status, 200, JSON.stringify(body));
  assert.deepEqual(body, applied(n, repeated));
}

live('s48: a result from outside releases what is held', async (t) => {
  await each(t, async (t2, key) => {
    const scene = await open(t2, key);
    const batch = new Batch(scene, 3);
    await batch.ask();
    const answer = batch.continue(batch.results([1]));
    await held(batch, answer);
    await taken(give(batch, 0, { output: 'from outside' }), 1);
    await held(batch, answer);
    await taken(give(batch, 2, { output: { a: [1, 'x'] } }), 1);
    assert.equal(await wordOf(answer), 'final');
    const { raw } = batch.released();
    assert.match(String(raw), /from outside/);
  });
}, several);
