/*
 * review.test.mjs: requests of an unusual kind come to their end.
 *
 * Empty bodies, error pages that lead through the module once more, streams
 * that break while others wait for them.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nginx, pause, post, unbuilt } from './harness.mjs';
import { json, provider } from './harness_provider.mjs';

const live = (name, play) => test(name, { skip: unbuilt }, play);

/* The answer's end, in time. */
async function ended(answer) {
  await Promise.race([answer.text({ broken: true }), pause(5000)]);
  assert.ok(answer.ended, 'the request does not end');
  return answer.status;
}

live('an empty body goes on', async (t) => {
  const p = await provider(t, null, { answer: () => json(200, {}),
    strict: false });
  const n = await nginx(t, { upstream: p.port });
  const chunked = { 'transfer-encoding': 'chunked' };
  assert.equal(await ended(post(n.port, '/api/chat', '')), 200);
  assert.equal(await ended(post(n.port, '/api/chat', '', chunked,
    { chunked: true })), 200);
  assert.equal(await ended(post(n.port2, '/api/chat', '', {},
    { http2: true })), 200);
  assert.equal(p.requests.length, 3);
});
