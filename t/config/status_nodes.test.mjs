/*
 * status_nodes.test.mjs: chat_status with several nodes on one Redis: each
 * node shows itself, and no status request sends a command to Redis.
 *
 * Suite: asan.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { root, until } from '../lib/harness.mjs';
import { Batch } from '../lib/batch.mjs';
import { held, live, wordOf } from '../lib/hold.mjs';
import { nodesStage } from '../lib/nodes.mjs';
import {
  ask, logged, samples, statusLocation, statusOf, talked,
} from '../lib/status.mjs';

live('each node shows its own requests', async (t) => {
  const scene = await nodesStage(t, 'openai_chat', {
    server: statusLocation, hold: '60s' });
  const [a, b] = scene.nodes;
  for (const [node, times] of [[a, 2], [b, 3]]) {
    for (let i = 0; i < times; i++) {
      const batch = new Batch(scene, 2);
      await batch.ask({ node });
      assert.equal(await wordOf(batch.continue(batch.results(), { node })),
        'final');
    }
  }
  const waits = new Batch(scene, 2);
  const waiting = waits.continue(waits.results([0]), { node: b });
  await held(waits, waiting);
  await until(() => a.accessLog().filter(({ dialect }) => dialect).length === 4
    && b.accessLog().filter(({ dialect }) => dialect).length === 6);

  const [own, other] = await Promise.all([a, b].map((n) => statusOf(n)));
  assert.deepEqual([own.workers, own.holds.now], [2, 0]);
  assert.deepEqual([other.workers, other.holds.now], [2, 1]);
  assert.notEqual(own.node, other.node);
  assert.deepEqual(talked(own), logged(a.accessLog()));
  assert.deepEqual(talked(other), logged(b.accessLog()));
  assert.deepEqual(own.batches, []);
  assert.equal(other.batches.length, 1);
  assert.ok(other.holds.oldest_ms > 0);
  waiting.abort();
});


live('an unavailable store is shown, Redis gets no command', async (t) => {
  const scene = await nodesStage(t, 'openai_chat', { count: 1,
    server: statusLocation });
  const [n] = scene.nodes;
  const state = async (want) => until(async () => {
    const { store } = await statusOf(n);
    return store.state === want && store.type === 'redis';
  }, 5000, want);
  await state('up');
  const calls = () => Promise.all(['get', 'mget', 'hset', 'hget', 'hgetall',
    'hlen', 'evalsha'].map((name) => scene.redis.calls(name)));
  const before = await calls();
  for (let i = 0; i < 50; i++) {
    await statusOf(n);
  }
  /* Workers poll the liveness keys at most once a second. */
  const more = (await calls()).map((count, i) => count - before[i]);
  assert.ok(more.every((count) => count < 25), `too many commands: ${more}`);

  await scene.redis.stop();
  await state('unavailable');
  const { text } = await ask(n, '?format=prometheus');
  assert.equal(samples(text).get('nginx_chat_store_up'), 0);
  await until(async () => samples((await ask(n, '?format=prometheus')).text)
    .get('nginx_chat_store_workers{state="unavailable"}') === 2);
  await scene.redis.start();
  await state('up');
});


live('the documented permissions are enough', async (t) => {
  const page = readFileSync(`${root}/docs/operations.md`, 'utf8');
  const may = /ACL SETUSER chat on >PASSWORD ([^`]+)/.exec(page)[1]
    .replace(/\s+/g, ' ').trim();
  const scene = await nodesStage(t, 'openai_chat', { server: statusLocation,
    redis: { acl: ['user default off', `user chat on >pw ${may}`] },
    store: (r) => `${r.url({ user: 'chat', password: 'pw' })} timeout=2s` });
  const batch = new Batch(scene, 2);
  const first = batch.continue(batch.results([0]));
  await held(batch, first);
  assert.ok((await Promise.all([first, batch.continue(batch.results([1]))]
    .map(wordOf))).includes('final'));
  for (const n of scene.nodes) {
    assert.doesNotMatch(n.errorLog(), /NOPERM/);
  }
});
