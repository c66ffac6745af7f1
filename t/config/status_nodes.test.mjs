/*
 * status_nodes.test.mjs: chat_status where several nodes share one Redis:
 * their sums, who they are, and what Redis is asked for it.
 *
 * Suite: asan.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { root, until } from '../lib/harness.mjs';
import { Batch, staged } from '../lib/batch.mjs';
import { held, live, wordOf } from '../lib/hold.mjs';
import { nodesStage } from '../lib/nodes.mjs';
import {
  ask, logged, samples, statusLocation, statusOf, talked,
} from '../lib/status.mjs';

const told = 12000; /* ms; a node is told of every other second */

const sum = (...lists) => {
  const all = new Map();
  lists.flat().forEach(([key, n]) => all.set(key, (all.get(key) ?? 0) + n));
  return [...all].sort();
};


live('the sums over nodes, and each node by itself', async (t) => {
  const scene = await nodesStage(t, 'openai_chat', {
    server: statusLocation, hold: '60s' });
  const [a, b] = scene.nodes;
  await until(async () => (await statusOf(a)).nodes === 2
    && (await statusOf(b)).nodes === 2, told, 'both nodes');

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

  const [own, other] = await Promise.all([a, b].map((node) =>
    statusOf(node, '?scope=node')));
  assert.deepEqual([own.nodes, own.workers, own.holds.now], [1, 2, 0]);
  assert.deepEqual([other.nodes, other.workers, other.holds.now], [1, 2, 1]);
  assert.notEqual(own.node, other.node);
  assert.deepEqual(talked(own), logged(a.accessLog()));

  const both = await until(async () => {
    const now = await statusOf(a);
    return now.holds.now === 1 && now;
  }, told, 'what the other node holds');
  assert.deepEqual(talked(both), sum(talked(own), talked(other)));
  assert.deepEqual([both.nodes, both.workers, both.node],
    [2, 4, own.node]);
  assert.deepEqual(both.node_list, [
    { node: own.node, workers: 2, store: 'up', holds: 0 },
    { node: other.node, workers: 2, store: 'up', holds: 1 }]);
  assert.equal(both.histograms.store_seconds.count,
    own.histograms.store_seconds.count + other.histograms.store_seconds.count);
  assert.ok(both.holds.oldest_ms > 0);
  assert.deepEqual(both.batches, [], 'batches are those of the node');

  const { text } = await ask(a, '?format=prometheus');
  assert.equal(samples(text).get('nginx_chat_holds'), 0);

  await t.test('a node that is gone is forgotten', async () => {
    waiting.abort();
    await b.stop();
    await until(async () => (await statusOf(a)).nodes === 1, 20000,
      'its end');
    await until(async () => (await scene.redis.command('HLEN',
      'chat:{status}')) === 1, told, 'its name to go');
    assert.deepEqual(talked(await statusOf(a)), logged(a.accessLog()));
  });
});


live('texts of other nodes may be anything', async (t) => {
  const scene = await nodesStage(t, 'openai_chat', { count: 1,
    server: statusLocation });
  const [n] = scene.nodes;
  const texts = ['', '{', 'null', '[]', '"x"', '7', '{"workers":-1}',
    '{"workers":1e400,"holds":{"now":"x"}}', '[[[[', `"${'x'.repeat(99999)}"`,
    '{"node":"\\ud800<script>","workers":18446744073709551615,'
      + '"counters":{"requests":[],"turns":7,"interruptions":null},'
      + '"histograms":{"hold_seconds":{"counts":[1,2],"count":3,"sum":1.5}}}',
    '{"node":"good","workers":5,"holds":{"now":7},"store":{"state":"away"}}'];
  for (const [i, text] of texts.entries()) {
    await scene.redis.command('SET', `chat:{status}:bad${i}`, text);
    await scene.redis.command('HSET', 'chat:{status}', `bad${i}`, '1');
  }
  await scene.redis.command('HSET', 'chat:{status}', 'y'.repeat(500), '1');
  await scene.redis.command('HSET', 'chat:{status}', '', '1');
  const status = await until(async () => {
    const now = await statusOf(n);
    return now.node_list.some(({ node }) => node === 'good') && now;
  }, told, 'the good one');
  assert.equal(status.holds.now, 7);
  assert.equal(status.store.state, 'up', 'of the own node');
  assert.equal(status.counters.requests.openai_chat.passed, 0);
  assert.ok(status.nodes >= 2 && status.nodes <= texts.length + 1);
  for (let i = 0; i < 200; i++) {
    await scene.redis.command('HSET', 'chat:{status}', `more${i}`, '1');
    await scene.redis.command('SET', `chat:{status}:more${i}`,
      '{"workers":1}');
  }
  await until(async () => (await statusOf(n)).nodes > 50, told, 'more');
  assert.ok((await statusOf(n)).nodes <= 64);
  await scene.redis.command('DEL', 'chat:{status}');
  await scene.redis.command('SET', 'chat:{status}', 'not a hash');
  n.allow(/WRONGTYPE/);
  await until(() => n.errorLog().includes('WRONGTYPE'), told, 'a complaint');
  await scene.redis.command('DEL', 'chat:{status}');
  await until(async () => (await statusOf(n)).nodes === 1, told, 'one node');
});


live('a store that is away is told, and Redis is asked little', async (t) => {
  const scene = await nodesStage(t, 'openai_chat', { count: 1,
    server: statusLocation });
  const [n] = scene.nodes;
  const state = async (want) => until(async () => {
    const { store } = await statusOf(n);
    return store.state === want && store.type === 'redis';
  }, 5000, want);
  await state('up');
  const calls = async () => ({ hset: await scene.redis.calls('hset'),
    hgetall: await scene.redis.calls('hgetall') });
  const [before, at] = [await calls(), Date.now()];
  await until(async () => (await calls()).hset > before.hset, told, 'news');
  for (let i = 0; i < 50; i++) {
    await statusOf(n);
  }
  const after = await calls();
  const most = (Date.now() - at) / 1000 + 2;
  assert.ok(after.hset - before.hset <= most, 'one telling per node');
  assert.ok(after.hgetall - before.hgetall <= most, 'no question per scrape');

  await scene.redis.stop();
  await state('away');
  const { text } = await ask(n, '?format=prometheus');
  assert.equal(samples(text).get('nginx_chat_store_up'), 0);
  await until(async () => samples((await ask(n, '?format=prometheus')).text)
    .get('nginx_chat_store_workers{state="away"}') === 2);
  await scene.redis.start();
  await state('up');
});


live('a node without chat_status tells nothing', async (t) => {
  const scene = await nodesStage(t, 'openai_chat', { count: 1,
    server: statusLocation });
  const quiet = await staged(t, 'openai_chat', scene.p, { workers: 1,
    connects: true, store: `${scene.redis.url()} timeout=2s` });
  await until(async () => (await scene.redis.command('HLEN', 'chat:{status}'))
    === 1, told, 'the one that tells');
  const batch = new Batch({ ...scene, pick: () => quiet }, 2);
  await batch.ask();
  assert.equal((await statusOf(scene.nodes[0])).nodes, 1);
});


live('the permissions of the page are enough', async (t) => {
  const page = readFileSync(`${root}/docs/operations.md`, 'utf8');
  const may = /ACL SETUSER chat on >PASSWORD ([^`]+)/.exec(page)[1]
    .replace(/\s+/g, ' ').trim();
  const scene = await nodesStage(t, 'openai_chat', { server: statusLocation,
    redis: { acl: ['user default off', `user chat on >pw ${may}`] },
    store: (r) => `${r.url({ user: 'chat', password: 'pw' })} timeout=2s` });
  const [a, b] = scene.nodes;
  await scene.redis.command('HSET', 'chat:{status}', 'one that is gone', '1');
  await until(async () => (await statusOf(a)).nodes === 2
    && (await statusOf(b)).nodes === 2, told, 'both nodes');
  await until(async () => (await scene.redis.command('HLEN', 'chat:{status}'))
    === 2, told, 'the name to go');
  const batch = new Batch(scene, 2);
  const first = batch.continue(batch.results([0]));
  await held(batch, first);
  assert.ok((await Promise.all([first, batch.continue(batch.results([1]))]
    .map(wordOf))).includes('final'));
  for (const n of [a, b]) {
    assert.doesNotMatch(n.errorLog(), /NOPERM/);
  }
});
