/*
 * quota.test.mjs: what a client gets when the store is full or too many
 * requests are held: the limits and the shares of the tenants.
 */
import assert from 'node:assert/strict';
import { gate, store, unbuilt, until } from '../lib/harness.mjs';
import { Batch, scene as newScene, stage, staged, told }
  from '../lib/batch.mjs';
import { give, outside } from '../lib/external.mjs';
import { held, live, say, verdict, wordOf } from '../lib/hold.mjs';
import { provider } from '../lib/provider.mjs';
import { redis, relay } from '../lib/redis/redis.mjs';
import { samples, statusLocation, statusOf, ask } from '../lib/status.mjs';

/* Only the zone in shared memory can be full. */
const zoned = { skip: unbuilt || (store !== 'shm'
  && 'about the zone: run with CHAT_STORE=shm') };

const big = (bytes) => 'x'.repeat(bytes);
const tells = `${say.verdict}
  add_header X-Reason $chat_reason always;`;
const reason = async (answer) => (await answer.head).headers['x-reason'];

/* Held requests fill the zone until one is refused. */
async function fill(scene, headers) {
  const answers = [];
  for (let i = 0; i < 300; i++) {
    const batch = new Batch(scene, 2);
    const answer = batch.continue({ [batch.ids[0]]: big(12000) }, { headers });
    answers.push({ batch, answer });
    await answer.sent;
    if (i % 10 === 9 && answers.some((it) => it.answer.ended)) {
      return answers;
    }
  }
  return assert.fail('never full');
}

live('s119: a full zone: no incomplete request goes upstream',
  async (t) => {
    for (const failure of ['pass', 'deny']) {
      await t.test(failure, async (t2) => {
        const scene = await stage(t2, 'openai_chat', { workers: 2,
          store: 'shm:1m', hold: '60s', strict: false, server: statusLocation,
          location: `chat_store_failure ${failure}; ${tells}` });
        const filled = await fill(scene);
        await Promise.all(Array.from({ length: 60 }, async () => {
          const batch = new Batch(scene, 2);
          const answer = batch.continue({ [batch.ids[0]]: big(12000) });
          const { word, headers } = await told(answer);
          assert.equal(word, '503');
          assert.equal(headers['retry-after'], '1');
          assert.equal(await verdict(answer), 'refused');
          assert.equal(await reason(answer), 'store_full');
          assert.equal(batch.upstream().length, 0);
        }));
        const upstream = scene.p.continuations().length;
        assert.equal(upstream, 0, `${upstream} went upstream`);

        await t2.test('a complete body', async () => {
          const batch = new Batch(scene, 2);
          const answer = batch.continue(batch.results());
          assert.equal(await wordOf(answer),
            failure === 'deny' ? '503' : 'final');
          assert.equal(await reason(answer), 'store_full');
        });
        await t2.test('a new user message', async () => {
          await new Batch(scene, 2).ask();
        });
        await t2.test('status and metrics', async () => {
          const { counters } = await statusOf(scene.n);
          assert.ok(counters.store_full > 60, `${counters.store_full}`);
          const text = await ask(scene.n, '?format=prometheus');
          assert.ok(samples(text.text)
            .get('nginx_chat_store_full_total') > 60);
          assert.match(scene.n.errorLog(), /the zone "ngx_chat" is full/);
        });
        await t2.test('a held request can be released', async () => {
          const { batch, answer } = filled.find((it) => !it.answer.ended);
          const words = await Promise.all([answer,
            batch.continue({ [batch.ids[1]]: 1 })].map(wordOf));
          assert.ok(words.includes('final'), `${words}`);
          batch.released();
        });
      });
    }
  }, zoned);

live('given held= requests that wait, the next one gets 503',
  async (t) => {
    const scene = await stage(t, 'openai_chat', { strict: false,
      server: statusLocation, location: `chat_limits held=2; ${tells}` });
    const batches = [1, 2, 3].map(() => new Batch(scene, 2));
    const first = batches.slice(0, 2).map((batch) =>
      batch.continue(batch.results([0])));
    await until(async () => (await statusOf(scene.n)).holds.now === 2);
    const third = batches[2].continue(batches[2].results([0]));
    const { word, headers } = await told(third);
    assert.equal(word, '503');
    assert.equal(headers['retry-after'], '1');
    assert.equal(await verdict(third), 'refused');
    assert.equal(await reason(third), 'held_limit');
    assert.equal(batches[2].upstream().length, 0);
    assert.equal((await statusOf(scene.n)).counters.holds_refused, 1);

    /* Its result is stored: the other result completes the batch. */
    assert.equal(await wordOf(batches[2].continue(batches[2].results([1]))),
      'final');
    batches[2].released();
    assert.equal(first.some(({ ended }) => ended), false);
  });

live('given a batch with as many waits as it may have, the next one gets 503',
  async (t) => {
    const scene = await stage(t, 'openai_chat', { strict: false, workers: 1,
      server: statusLocation, location: `chat_limits calls=4; ${tells}` });
    const batch = new Batch(scene, 2);
    const waiting = Array.from({ length: 8 }, () =>
      batch.continue(batch.results([0])));
    await until(async () => (await statusOf(scene.n)).holds.now === 8);
    const next = batch.continue(batch.results([0]));
    const { word, headers } = await told(next);
    assert.equal(word, '503');
    assert.equal(headers['retry-after'], '1');
    assert.equal(await reason(next), 'held_batch_limit');
    assert.equal((await statusOf(scene.n)).counters.holds_refused, 1);

    const other = new Batch(scene, 2);
    await held(other, other.continue(other.results([0])));
    waiting.push(batch.continue(batch.results([1])));
    const words = await Promise.all(waiting.map(wordOf));
    assert.ok(words.includes('final'), `${words}`);
    batch.released();
  });

const tenant = (name) => ({ authorization: `Bearer ${name}` });

live('s120: given a tenant that fills the zone, another one is held',
  async (t) => {
    const scene = await stage(t, 'openai_chat', { workers: 2,
      store: 'shm:1m', hold: '60s', strict: false, location: tells });
    const filled = await fill(scene, tenant('greedy'));
    const modest = Array.from({ length: 5 }, () => new Batch(scene, 2));
    for (const batch of modest) {
      const first = batch.continue({ [batch.ids[0]]: big(12000) },
        { headers: tenant('modest') });
      await held(batch, first);
      const last = batch.continue({ [batch.ids[1]]: 1 },
        { headers: tenant('modest') });
      const words = await Promise.all([first, last].map(wordOf));
      assert.ok(words.includes('final'), `${words}`);
      batch.released();
    }
    await t.test('the displaced request is refused', async () => {
      const ended = () => filled.filter(({ answer }) => answer.ended);
      await until(() => ended().length > 1, 5000, 'the displaced to end');
      for (const { answer, batch } of ended()) {
        assert.equal(await wordOf(answer), '503');
        assert.equal(batch.upstream().length, 0);
      }
    });
    await t.test('the greedy tenant gets another refusal', async () => {
      const batch = new Batch(scene, 2);
      const answer = batch.continue({ [batch.ids[0]]: big(60000) },
        { headers: tenant('greedy') });
      assert.equal(await wordOf(answer), '503');
    });
    await t.test('its remaining held requests can be released', async () => {
      const { batch, answer } = filled.find((it) => !it.answer.ended);
      const words = await Promise.all([answer, batch.continue(
        { [batch.ids[1]]: 1 }, { headers: tenant('greedy') })].map(wordOf));
      assert.ok(words.includes('final'), `${words}`);
      batch.released();
    });
  }, zoned);

live('given held bodies up to held_bytes=, the next one gets 503',
  async (t) => {
    const scene = await stage(t, 'openai_chat', { strict: false,
      server: statusLocation,
      location: `chat_limits held_bytes=150k; ${tells}` });
    const batches = [1, 2].map(() => new Batch(scene, 2));
    const first = batches[0].continue({ [batches[0].ids[0]]: big(100000) });
    await held(batches[0], first);
    const second = batches[1].continue({ [batches[1].ids[0]]: big(100000) });
    assert.equal(await wordOf(second), '503');
    assert.equal(await reason(second), 'held_bytes_limit');
    const small = batches[1].continue(batches[1].results([0]));
    await held(batches[1], small);
    first.abort();
    await until(async () => (await statusOf(scene.n)).holds.now === 1);
    const third = new Batch(scene, 2);
    await held(third, third.continue({ [third.ids[0]]: big(100000) }));
  });

live('s120: given a tenant that holds all, another one takes its place',
  async (t) => {
    for (const [why, limit, size] of [
      ['held_limit', 'chat_limits held=8;', 10],
      ['held_limit', 'chat_limits held=2;', 10],
      ['held_bytes_limit', 'chat_limits held_bytes=400k;', 40000]]) {
      await t.test(limit, async (t2) => {
        const scene = await stage(t2, 'openai_chat', { strict: false,
          hold: '60s', server: statusLocation,
          location: `${limit} ${tells}` });
        const greedy = [];
        for (let i = 0; !greedy.some(({ ended }) => ended); i++) {
          assert.ok(i < 20, 'never full');
          const batch = new Batch(scene, 2);
          greedy.push(batch.continue({ [batch.ids[0]]: big(size) },
            { headers: tenant('greedy') }));
          await greedy.at(-1).sent;
          await until(async () => greedy.at(-1).ended
            || (await statusOf(scene.n)).holds.now === i + 1);
        }
        assert.equal(await wordOf(greedy.at(-1)), '503');
        assert.equal(await reason(greedy.at(-1)), why);
        const batch = new Batch(scene, 2);
        const modest = batch.continue({ [batch.ids[0]]: big(size) },
          { headers: tenant('modest') });
        await held(batch, modest);
        await until(() => greedy[0].ended, 5000, 'the oldest to end');
        assert.equal(await wordOf(greedy[0]), '409');
        assert.equal(greedy.filter(({ ended }) => ended).length, 2);
        assert.equal(scene.p.continuations().length, 0);
      });
    }
  });

/*
 * The claims of two held requests are under way when another tenant takes the
 * places of both. Replies of Redis are late, so that each step is seen.
 */
live('a request that loses its claim and its place does not wait on',
  async (t) => {
    const server = await redis(t);
    const way = await relay(t, server.port);
    const p = await provider(t, 'openai_chat', { strict: false });
    const node = (port) => staged(t, 'openai_chat', p, { ...outside,
      workers: 1, hold: '60s', store: `${server.url({ port })} timeout=60s`,
      location: `chat_limits held_bytes=400k; ${tells}` });
    const [n, other] = [await node(way.port), await node(server.port)];
    const scene = newScene('openai_chat', p, n);
    p.answer = () => gate(); /* the claimant's answer never begins */

    const post = (batch, size, name) => batch.continue(
      { [batch.ids[0]]: big(size) }, { headers: tenant(name) });
    const batch = new Batch(scene, 2);
    const rivals = [post(batch, 9, 'greedy'), post(batch, 9, 'greedy')];
    await held(batch, rivals[1]);
    const fillers = Array.from({ length: 7 }, () => new Batch(scene, 2));
    await held(fillers[6], fillers.map((one) =>
      post(one, 38000, 'greedy')).at(-1));

    const notified = gate();
    way.rewrite((bytes) => {
      if (bytes.includes('message\r\n')) {
        notified.open();
      }
      return bytes;
    });
    way.delay(1000);
    const { status } = await give(batch, 1, { output: 1 },
      { node: other, headers: tenant('greedy') });
    assert.equal(status, 200);
    await notified; /* one question now asks for both what the batch is */
    const modest = new Batch(scene, 2);
    const waiting = post(modest, 50000, 'modest');

    /* On a slow machine both lose their places before they claim. */
    const lost = () => rivals.filter(({ ended }) => ended);
    await until(() => lost().length + batch.upstream().length === 2, 20000,
      'one to go upstream and the other to end');
    assert.ok(lost().length > 0);
    assert.deepEqual(await Promise.all(lost().map(wordOf)),
      lost().map(() => '409'));
    assert.equal(waiting.ended, false);
  });
