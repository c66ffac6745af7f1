/*
 * results_stores.test.mjs: chat_results over a Redis Cluster while the slot of
 * the conversation moves, and behind Sentinel before and after a failover.
 *
 * The test starts both, regardless of CHAT_STORE. barrier/results.test.mjs
 * tests chat_results over one store.
 *
 * Suite: asan.
 */
import assert from 'node:assert/strict';
import { pause, until } from '../lib/harness.mjs';
import { Batch } from '../lib/batch.mjs';
import { cluster } from '../lib/redis/cluster.mjs';
import { each, held, live, wordOf } from '../lib/hold.mjs';
import { nodesStage } from '../lib/nodes.mjs';
import {
  clear, formOf, give, outside, sent, show, taken,
} from '../lib/external.mjs';
import { sentinels } from '../lib/redis/sentinel.mjs';

/* A batch of this many calls with the first result held at a node. */
async function waiting(scene, count) {
  const batch = new Batch(scene, count);
  await batch.ask();
  const answer = batch.continue(batch.results([0]), { node: scene.nodes[0] });
  await held(batch, answer);
  return { scene, batch, answer };
}

const values = (batch, from) => batch.ids.slice(from).map((id, i) =>
  ({ output: `${id} ${i}` }));

/* Checks that the one upstream request has them. */
async function completed({ scene, batch, answer }, given) {
  assert.equal(await wordOf(answer), 'final');
  const request = batch.released();
  given.forEach((value, i) => formOf(scene).output(
    sent(request, batch.ids[i + 1]), value.output));
}

live('s48: over a cluster, while the slot moves', async (t) => {
  const c = await cluster(t);
  await each(t, async (t2, key) => {
    const scene = await nodesStage(t2, key,
      { ...outside, redis: c, store: () => `${c.url()} timeout=2s` });
    const known = await c.keys('chat:{*');
    const one = await waiting(scene, 4);
    const { batch } = one;
    const [first] = (await c.keys('chat:{*')).filter((name) =>
      /^chat:\{[0-9a-f]{8}\}/.test(name) && !known.includes(name));
    const slot = await c.slot(first);
    const from = await c.owner(slot);
    const to = c.masters[(c.masters.indexOf(from) + 1) % c.masters.length];
    const given = values(batch, 1);

    /* Commands that the slot's nodes cannot answer wait until they can. */
    await c.begin(slot, to);
    const early = scene.nodes.map((node, i) =>
      give(batch, i + 1, given[i], { node }));
    await pause(100);
    await c.migrate(slot, from, to);
    await c.end(slot, to);
    await Promise.all(early.map((answer) => taken(answer, 1)));
    assert.deepEqual((await show(batch)).body.missing, [batch.ids[3]]);
    await held(batch, one.answer);
    await taken(give(batch, 3, given[2], { node: scene.nodes[1] }), 1);
    await completed(one, given);
    await taken(give(batch, 3, given[0]), 0, 1);
  });
  assert.ok(await c.errors('TRYAGAIN') > 0, 'no TRYAGAIN was sent');
  assert.ok(await c.errors('MOVED') > 0, 'no MOVED was sent');
});

live('s48: behind Sentinel, before and after a failover', async (t) => {
  const it = await sentinels(t);
  const [old] = it.servers;
  const list = await Promise.all(['ai_sdk', 'openai_responses', 'anthropic']
    .map(async (key) => {
      const scene = await nodesStage(t, key, { ...outside, hold: '60s',
        redis: old, store: () => `${it.url()} timeout=2s` });
      return waiting(scene, 3);
    }));
  const given = list.map(({ batch }) => values(batch, 1));
  await Promise.all(list.map(({ batch }, i) =>
    taken(give(batch, 1, given[i][0]), 1)));
  await it.replicated(old);
  const now = await it.failover();
  const nodes = list.flatMap(({ scene }) => scene.nodes);
  await until(async () => (await now.ask('clients'))?.length
    === 4 * nodes.length, 15000, 'the workers to connect to the master');
  for (const [i, one] of list.entries()) {
    await t.test(one.scene.dialect.name, async () => {
      assert.deepEqual((await show(one.batch)).body.missing,
        [one.batch.ids[2]]);
      await taken(give(one.batch, 2, given[i][1]), 1);
      await completed(one, given[i]);
    });
  }
  const [{ scene }] = list;
  const { batch, answer } = await waiting(scene, 2);
  assert.equal((await clear(batch, { node: scene.nodes[1] })).status, 200);
  assert.equal(await wordOf(answer), 'empty');
  assert.equal((await give(batch, 1, { output: 1 })).status, 404);
});
