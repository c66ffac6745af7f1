/*
 * shm.test.mjs: the zone that the workers share: when it is full, and when a
 * worker is killed.
 */
import assert from 'node:assert/strict';
import {
  deadAfter, gate, pause, store, unbuilt, until,
} from '../lib/harness.mjs';
import { cost } from '../lib/cpu.mjs';
import { handled } from '../lib/handled.mjs';
import { dialects } from '../lib/dialects.mjs';
import { Batch, stage, told } from '../lib/batch.mjs';
import { give, outside, taken } from '../lib/external.mjs';
import { isRaw } from '../lib/ends.mjs';
import {
  held, leave, live, only, pidOf, say, verdict, wordOf,
} from '../lib/hold.mjs';
import { sse } from '../lib/provider.mjs';
import { statusLocation, statusOf } from '../lib/status.mjs';
import { wordy } from '../lib/recorded.mjs';

const keys = Object.keys(dialects);

/* Only the zone in shared memory can be full. */
const zoned = { skip: unbuilt || (store !== 'shm'
  && 'only for the zone: run with CHAT_STORE=shm') };

/*
 * Two locations of one zone: requests to /fill are never held. No hold
 * expires, however long it takes to fill the zone.
 */
function zone(t, { server = '', ...options } = {}) {
  return stage(t, 'openai_chat', { workers: 2, store: 'shm:1m', hold: '10m',
    strict: false, ...options, server: `${server} location /fill {
      chat openai_chat; chat_hold 0; proxy_pass http://provider; }` });
}

const big = (bytes) => 'x'.repeat(bytes);

/* Half a batch, or the rest of it, as a request that is not held. */
async function fill(filler, i, size = 3000) {
  const { path } = filler.dialect;
  filler.dialect = { ...filler.dialect, path: '/fill' };
  const answer = filler.continue({ [filler.ids[i]]: big(size) });
  await answer.text();
  filler.dialect = { ...filler.dialect, path };
  return answer.status;
}

/* Fills the zone with half batches, more than it has room for. */
async function fillZone(scene) {
  const fillers = Array.from({ length: 500 }, () => new Batch(scene, 2));
  for (let i = 0; i < fillers.length; i += 20) {
    const statuses = await Promise.all(fillers.slice(i, i + 20)
      .map((filler) => fill(filler, 0)));
    assert.ok(statuses.every((status) => status === 409), `${statuses}`);
  }
  return fillers;
}

live('a full zone: idle batches are evicted, a held one stays', async (t) => {
  const scene = await zone(t);
  const batch = new Batch(scene, 2);
  const [a, b] = batch.ids;
  await batch.ask();
  const first = batch.continue({ [a]: big(3000) });
  await held(batch, first);
  const fillers = await fillZone(scene);
  assert.equal(await fill(fillers.at(-1), 1), 200, 'the newest is forgotten');
  assert.equal(await fill(fillers[0], 1), 409, 'the oldest is known');
  assert.equal(first.ended, false);
  const words = await Promise.all([first, batch.continue({ [b]: 1 })]
    .map(wordOf));
  assert.ok(words.includes('final'), `${words}`);
  batch.released();
  assert.equal(scene.n.errorLog().includes('is full'), false);
}, zoned);

live('a full zone: a batch stays while its attempt runs', async (t) => {
  const scene = await zone(t);
  const batch = new Batch(scene, 2);
  await batch.ask();
  await leave(batch, batch.results([0]));
  const go = gate();
  const { answer } = scene.p;
  scene.p.answer = async (request) => {
    await go;
    return answer(request);
  };
  const claimant = batch.continue(batch.results([1]));
  await scene.p.arrival(2);
  scene.p.answer = answer;
  await fillZone(scene);
  const late = batch.continue(batch.results([0]));
  await held(batch, late, 1);
  go.open();
  await until(() => late.ended, 5000, 'the end of the sibling');
  assert.deepEqual(await Promise.all([claimant, late].map(wordOf)),
    ['final', 'final']);
  batch.released(1);
}, zoned);

live('a full zone: external results find a held batch', async (t) => {
  const { server, location } = outside;
  const scene = await zone(t, { server, location });
  const batch = new Batch(scene, 2);
  await batch.ask();
  const first = batch.continue(batch.results([0]));
  await held(batch, first);
  await fillZone(scene);
  await taken(give(batch, 1, { output: { x: 1 } }), 1);
  assert.equal(await wordOf(first), 'final');
  batch.released();
}, zoned);

live('a recording expires before an older batch', async (t) => {
  const scene = await stage(t, 'ai_sdk', { workers: 2, store: 'shm:16m',
    location: 'chat_record on ttl=1s;', server: statusLocation });
  const used = async () => (await statusOf(scene.n)).store.zone_used;
  const older = new Batch(scene, 2);
  await older.ask();
  await leave(older, older.results([0]));
  const { answer } = scene.p;
  scene.p.answer = () => sse(wordy());
  const loud = new Batch(scene, 1);
  await loud.post(loud.dialect.fresh(loud)).text();
  const before = await used();
  scene.p.answer = answer;
  await until(async () => {
    await leave(older, older.results([0]));
    return await used() < before - 200 * 1024;
  }, 10000, 'the end of the recording');
  assert.equal(await wordOf(older.continue(older.results([1]))), 'final');
}, zoned);

live('a zone full of held batches: the next is refused', async (t) => {
  const scene = await zone(t);
  const batches = Array.from({ length: 120 }, () => new Batch(scene, 2));
  const answers = [];
  for (let i = 0; i < batches.length; i += 20) {
    const some = batches.slice(i, i + 20).map((batch) =>
      batch.continue({ [batch.ids[0]]: big(12000) }));
    await Promise.all(some.map(({ sent }) => sent));
    answers.push(...some);
  }
  await until(() => scene.n.errorLog().includes('is full'));
  await until(() => scene.n.accessLog().length > 20);
  /* No room for the batch, or for the watch of its request. */
  assert.ok(scene.n.accessLog().every(({ verdict: what, status }) =>
    what === 'refused' && status === '503'));
  const holding = batches.filter((_, i) => !answers[i].ended);
  assert.ok(holding.length > 20, `${holding.length}`);

  await t.test('the held requests can be released', async () => {
    const batch = holding[0];
    const first = answers[batches.indexOf(batch)];
    const words = await Promise.all([first,
      batch.continue({ [batch.ids[1]]: 1 })].map(wordOf));
    assert.ok(words.includes('final'), `${words}`);
    batch.released();
  });
  assert.equal(scene.n.errorLog().split('is full').length, 2,
    'one line a minute');
  await t.test('after their end there is room', async () => {
    answers.forEach((answer) => answer.abort());
    await until(() => scene.n.accessLog().length >= batches.length);
    const batch = new Batch(scene, 2);
    const first = batch.continue({ [batch.ids[0]]: big(12000) });
    await held(batch, first);
    const last = batch.continue({ [batch.ids[1]]: 1 });
    assert.ok((await Promise.all([first, last].map(wordOf)))
      .includes('final'));
    batch.released();
  });
}, zoned);

live('a full zone: a fact that finds no room wakes no request', async (t) => {
  const scene = await zone(t, { workers: 1,
    server: 'chat_limits calls=200;' });
  /* The room that is left in the blocks of these batches differs. */
  const batches = Array.from({ length: 30 }, (_, i) => new Batch(scene,
    new Batch(scene, 2).calls.map((call, k) => ({ ...call,
      id: `${call.id}${'y'.repeat(k ? 230 + i * 2 : 200)}` }))));
  const firsts = batches.map((batch) => batch.continue(batch.results([0])));
  await held(batches.at(-1), firsts.at(-1));
  const fillers = Array.from({ length: 4 }, () => new Batch(scene, 150));
  await handled(scene, fillers.map((filler) =>
    filler.continue({ [filler.ids[0]]: big(3000) })));
  /* New batches are refused first, then payloads, then facts. */
  for (let tries = []; !tries.some(({ ended }) => ended);) {
    tries = Array.from({ length: 10 }, () => new Batch(scene, 2))
      .map((batch) => batch.continue({ [batch.ids[0]]: big(12000) }));
    await handled(scene, tries);
  }
  for (const size of [12000, 3000, 900, 400, 100, 20, 1]) {
    for (const filler of fillers) {
      do {
        filler.at = (filler.at ?? 0) + 1;
      } while (await fill(filler, filler.at, size) === 409);
    }
  }
  scene.p.answer = () => gate();
  await handled(scene, batches.map((batch) =>
    batch.continue(batch.results([1]))));
  assert.ok(scene.p.continuations().length > 5, 'none has found room');
  const used = await cost(scene.n, () => pause(500));
  assert.ok(used < 100, `${used} ms`);
}, zoned);

live('s50: the worker of a held request is killed', async (t) => {
  for (const key of keys) {
    await t.test(key, async (t2) => {
      const scene = await stage(t2, key, { workers: 2,
        hold: '60s grace=50ms', location: say.pid });
      const batch = new Batch(scene, 2);
      await batch.ask();
      const first = batch.continue(batch.results([0]));
      await scene.n.kill(await pidOf(first));
      assert.equal(await wordOf(first), 'broken');
      assert.equal(await wordOf(batch.continue(batch.results([1]))), 'final');
      batch.released();
    });
  }
});

live('s103: the worker of the claimant is killed', async (t) => {
  await Promise.all(keys.flatMap((key) => [['silent', '20s'],
    ['early', '50ms']].map(([name, grace]) =>
    t.test(`${key}, held requests: ${name}`, async (t2) => {
      const scene = await stage(t2, key, { workers: 2,
        hold: `20s grace=${grace}`, location: say.pid });
      const batch = new Batch(scene, 3);
      await batch.ask();
      const { answer } = scene.p;
      scene.p.answer = () => gate(); /* no answer ever */
      const [here, there] = scene.n.workers();
      const waiter = await only(scene.n, here, async () => {
        const one = batch.continue(batch.results([0]));
        await handled(scene, [one]);
        return one;
      });
      await leave(batch, batch.results([1]));
      /* The held request's worker is stopped, so that the other one claims. */
      await only(scene.n, there, async () => {
        batch.continue(batch.results([2])).text().catch(() => {});
        const request = await scene.p.arrival(2);
        assert.equal(Number(request.headers['x-pid']), there);
      });
      await handled(scene);
      assert.equal(waiter.ended, false);
      await scene.n.kill(there);
      await until(() => waiter.ended, deadAfter, 'its end');
      const end = await told(waiter);
      assert.equal(end.word, name === 'early' ? 'error' : '502', end.text);
      assert.equal(!!end.broke, name === 'early' && isRaw(key), end.text);
      assert.match(end.text, isRaw(key)
        ? /connection error: the stream was terminated before its end \(/
        : /producer_lost|terminated before its end/);
      batch.released(1);

      scene.p.answer = answer;
      const next = batch.continue(batch.results([2]));
      assert.equal(await wordOf(next), 'final');
      batch.released(2);
    }))));
}, { concurrency: 12 });
