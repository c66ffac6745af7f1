/*
 * timeline.test.mjs: the timeline of a conversation or a batch, as chat_status
 * returns it: when each result came, which request was held, released or
 * followed, and why.
 */
import assert from 'node:assert/strict';
import { gate, until } from '../lib/harness.mjs';
import { Batch, stage, told } from '../lib/batch.mjs';
import { give, outside, taken } from '../lib/external.mjs';
import { held, leave, live } from '../lib/hold.mjs';
import { sse } from '../lib/provider.mjs';
import { ask, statusLocation, statusOf } from '../lib/status.mjs';

const open = (t, key, options) => stage(t, key, { ...outside,
  location: 'chat_record auto;', ...options,
  server: `${outside.server} ${statusLocation}` });

/* The timeline: what, reason, positions of results, attempt of each event. */
async function timeline({ key, ids }, n, query = `?conversation=${key}`) {
  const { events } = await statusOf(n, query);
  events.forEach(({ n: number, time }, i) => {
    assert.ok(i === 0 || (number > events[i - 1].n
      && time >= events[i - 1].time - 50), JSON.stringify(events));
  });
  const at = (id) => ids.findIndex((one) => one.startsWith(
    id.replace('…', '')));
  return events.map(({ what, reason, carried, attempt }) =>
    [what, reason, carried.map(at), attempt]);
}

/* What the event says of the results that the module inserted. */
async function inserted({ key }, n) {
  const { events } = await statusOf(n, `?conversation=${key}`);
  return events.find(({ what }) => what === 'merged').detail;
}

/* The end of an attempt is the last event of a batch. */
const ended = (batch, n) => until(async () =>
  (await timeline(batch, n)).some(([what]) => what === 'ended'));

live('given two results in two requests, each step is in the timeline',
  async (t) => {
    const scene = await open(t, 'openai_chat');
    const batch = new Batch(scene, 2);
    await batch.ask();
    const go = gate();
    const { answer: usual } = scene.p;
    scene.p.answer = (request) => (request.answered.length
      ? go.then(() => sse(scene.dialect.final(`done ${batch.key}`)))
      : usual(request));
    const first = batch.continue(batch.results([0]));
    await held(batch, first);
    const last = batch.continue(batch.results([1]));
    await until(() => batch.upstream().length === 1);
    assert.deepEqual((await timeline(batch, scene.n))[0],
      ['held', 'incomplete', [0], 0]);
    go.open();
    assert.deepEqual((await Promise.all([first, last].map(told)))
      .map(({ word }) => word), ['final', 'final']);
    await ended(batch, scene.n);
    const seen = await timeline(batch, scene.n);
    const follower = seen.find(([what]) => what === 'attached');
    assert.deepEqual(follower.slice(0, 2), ['attached', 'sibling']);
    assert.equal(follower[3], 1, 'it followed the attempt');
    const sent = seen.find(([, reason]) => reason === 'merged');
    assert.ok(['passed', 'released'].includes(sent[0]));
    assert.equal(sent[3], 1);
    assert.equal(await inserted(batch, scene.n), '1 result');
    assert.deepEqual([...follower[2], ...sent[2]].sort(), [0, 1]);
    const end = seen.find(([what]) => what === 'ended');
    assert.equal(end[3], 1);

    await t.test('by the name of its batch', async () => {
      const { events } = await statusOf(scene.n,
        `?conversation=${batch.key}`);
      const names = new Set(events.map((event) => event.batch));
      assert.equal(names.size, 1, `${[...names]}`);
      assert.deepEqual(await timeline(batch, scene.n,
        `?batch=${[...names][0]}`), seen);
    });
    await t.test('without the results and the whole ids', async () => {
      const { text } = await ask(scene.n, `?conversation=${batch.key}`);
      assert.ok(!text.includes(batch.key) && !text.includes(batch.ids[0]));
      assert.ok(!text.includes(`"of"`));
    });
    await t.test('the last events omit what just passes', async () => {
      const { events } = await statusOf(scene.n);
      assert.deepEqual(events.filter(({ what }) =>
        ['passed', 'ended'].includes(what)), []);
    });
  });

live('given a client that leaves and an external result, both are there',
  async (t) => {
    const scene = await open(t, 'openai_chat');
    const batch = new Batch(scene, 3);
    await batch.ask();
    await leave(batch, batch.results([0]));
    const waiting = batch.continue(batch.results([1]));
    await held(batch, waiting);
    await taken(give(batch, 2, { output: 1 }), 1);
    assert.equal((await told(waiting)).word, 'final');
    await ended(batch, scene.n);
    const seen = await timeline(batch, scene.n);
    assert.deepEqual(seen.map(([what, reason, positions, attempt]) =>
      `${what} ${reason} ${positions} ${attempt}`), [
      'held incomplete 0 0', 'left  0 0', 'held incomplete 1 0',
      'external  2 0', 'merged  1 1', 'released merged 1 1', 'ended  1 1']);
    assert.equal(await inserted(batch, scene.n), '2 results');
  });

live('given two tenants with one conversation id, each batch has its name',
  async (t) => {
    const scene = await open(t, 'openai_chat');
    const one = new Batch(scene, 2);
    await one.ask();
    await leave(one, one.results([0]));
    const other = Object.assign(new Batch(scene, 2), { key: one.key });
    scene.batches.set(one.key, other);
    const user = { headers: { authorization: 'Bearer other' } };
    await other.ask(user);
    await leave(other, other.results([0]), user);
    const { events } = await statusOf(scene.n, `?conversation=${one.key}`);
    assert.equal(new Set(events.map(({ batch }) => batch)).size, 2);
  });

live('given an unknown id or a bad name, there is no timeline', async (t) => {
  const scene = await open(t, 'openai_chat');
  const batch = new Batch(scene, 2);
  await batch.ask();
  await leave(batch, batch.results([0]));
  assert.ok((await timeline(batch, scene.n)).length);
  for (const id of ['x', batch.key.slice(0, 12), `${batch.key}x`]) {
    assert.deepEqual((await statusOf(scene.n,
      `?conversation=${id}`)).events, [], id);
  }
  assert.deepEqual((await statusOf(scene.n,
    '?batch=00000000000000ab')).events, []);
  for (const name of ['0', 'zz00000000000000', '00000000000000AB']) {
    assert.equal((await ask(scene.n, `?batch=${name}`)).status, 400, name);
  }
});

live('given more events than a timeline has, it has the newest', async (t) => {
  const scene = await open(t, 'openai_chat', { workers: 1 });
  const batch = new Batch(scene, 1);
  await batch.ask();
  for (let i = 0; i < 520; i++) {
    await batch.continue(batch.results()).text();
  }
  const count = async () =>
    (await statusOf(scene.n, `?conversation=${batch.key}`)).events;
  await until(async () => (await count()).length === 512);
  const events = await count();
  assert.ok(events[0].n > 1);
  assert.equal((await statusOf(scene.n)).events.length, 0);
});
