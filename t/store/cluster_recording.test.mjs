/*
 * cluster_recording.test.mjs: answers recorded in a Redis Cluster or behind
 * Sentinels, and clients that resume them while slots move, masters are
 * replaced and nginx is reloaded.
 *
 * Suite: asan.
 */
import assert from 'node:assert/strict';
import { gate, pause, until } from '../lib/harness.mjs';
import { cluster, facts } from '../lib/redis/cluster.mjs';
import { live, several } from '../lib/hold.mjs';
import {
  Talk, answerOf, blocks, lengthy, resumeNodes, unnumbered,
} from '../lib/resume.mjs';
import { sentinels } from '../lib/redis/sentinel.mjs';

const events = 1000;
const store = (it) => `${it.url()} timeout=2s`;

/* The slot of the log. */
async function slotOf(c) {
  const [key] = await until(async () => {
    const list = await c.keys('chat:{*:l');
    return list.length && list;
  });
  return c.slot(key);
}

/*
 * A conversation with a slow answer: {s, talk, own, all, over()}; over() is 1
 * once the answer has been sent.
 */
async function slow(t, key, redis, { ms = 2, ...options } = {}) {
  const all = lengthy(key, events);
  const gates = all.map(() => gate());
  const s = await resumeNodes(t, key, { redis, store, ...options, answer: () =>
    answerOf(all.flatMap((event, i) => [gates[i], event])) });
  const talk = new Talk(s);
  const own = talk.ask({ node: s.nodes[0] });
  let sent = 0;
  const sending = (async () => {
    for (const one of gates) {
      await pause(ms);
      one.open();
      sent++;
    }
  })();
  return { s, talk, own, all, sending, over: () => sent === all.length };
}

/* Each resume gets the same events as the first client. */
async function same({ talk, own, s, all }, others) {
  const text = await own.text();
  assert.equal(unnumbered(text), all.join(''));
  for (const [n, answer] of others) {
    assert.equal(await answer.text(), blocks(text).slice(n).join(''), `${n}`);
  }
  for (const node of s.nodes) {
    assert.equal(await talk.resume({ node }).text(), text);
    assert.doesNotMatch(node.errorLog(), /refused a command:/);
  }
  assert.equal(s.p.requests.length, 1);
}

live('the slot of an answer moves again and again', async (t) => {
  const c = await cluster(t);
  const one = await slow(t, 'openai_chat', c);
  const others = [];
  await one.own.until((text) => blocks(text).length > 3);
  const slot = await slotOf(c);
  let moves = 0;
  while (!one.over()) {
    const { length } = blocks(one.own.bytes.toString());
    others.push([length, one.talk.resume({ query: `after=${length}` })]);
    const from = await c.owner(slot);
    const to = c.another(from);
    await c.begin(slot, to);
    await c.migrate(slot, from, to, facts);
    await pause(20);
    await c.migrate(slot, from, to);
    await c.end(slot, to);
    await pause(100);
    moves++;
  }
  t.diagnostic(`${moves} moves, MOVED ${await c.errors('MOVED')}, ASK ${
    await c.errors('ASK')}, TRYAGAIN ${await c.errors('TRYAGAIN')}`);
  await same(one, others);
}, several);

live('nginx is reloaded, and a slot moves: answers go on', async (t) => {
  const c = await cluster(t);
  const one = await slow(t, 'ai_sdk', c, { ms: 3 });
  await one.own.until((text) => blocks(text).length > 3);
  await one.s.nodes[0].reload();
  const slot = await slotOf(c);
  await c.move(slot, c.another(await c.owner(slot)));
  await one.s.nodes[1].reload();
  const others = [[0, one.talk.resume({ node: one.s.nodes[0] })],
    [7, one.talk.resume({ node: one.s.nodes[1], query: 'after=7' })]];
  await same(one, others);
}, several);

live('sentinels name another master: the recording has no gap', async (t) => {
  const it = await sentinels(t);
  const one = await slow(t, 'openai_chat', it.servers[0], { ms: 3,
    store: () => `${it.url()} timeout=2s` });
  await one.own.until((text) => blocks(text).length > 50);
  const others = [one.talk.resume(), one.talk.resume({ query: 'after=20' })];
  await Promise.all(others.map((answer) => answer.until((text) =>
    blocks(text).length > 20)));
  await it.failover();
  const text = await one.own.text();
  assert.equal(unnumbered(text), one.all.join(''));
  others.push(one.talk.resume());
  for (const [i, from] of [0, 20, 0].entries()) {
    assert.equal(await others[i].text(), blocks(text).slice(from).join(''));
  }
}, several);
