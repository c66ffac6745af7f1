/*
 * barrier.test.mjs: one batch, one upstream request, in any order of arrival.
 *
 * Every dialect, two to eight calls, each result in a request of its own, four
 * workers, and a provider that refuses what the real one refuses.
 *
 * Suite: asan, plain, redis.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gate, pause, unbuilt, until } from '../lib/harness.mjs';
import { handled } from '../lib/handled.mjs';
import { dialects } from '../lib/dialects.mjs';
import { abreast, orders, play } from '../lib/barrier.mjs';
import { Batch, stage, told } from '../lib/batch.mjs';

const asan = !!process.env.CHAT_ASAN;

for (const key of Object.keys(dialects)) {
  test(`s28 s37 s59: ${key}: any order of arrival: one upstream request`,
    { skip: unbuilt }, async (t) => {
      const scene = await stage(t, key, { workers: 4 });
      for (let count = 2; count <= 8; count++) {
        await t.test(`${count} calls`, () => abreast(
          orders(count, asan ? 8 : 24), 6, (order) => play(scene, order)));
      }
      await t.test('over HTTP/2', () => abreast(orders(3), 6, (order) =>
        play(scene, order, { http2: true })));
      await t.test('chunked request bodies', () => abreast(orders(3), 6,
        (order) => play(scene, order, { chunked: true })));
      await t.test('several workers took part', async () => {
        const pids = scene.n.accessLog().map(({ pid }) => pid);
        assert.ok(new Set(pids).size > 1);
      });
    });
}

test('other proxy settings: one upstream request', { skip: unbuilt },
  async (t) => {
    const ways = [
      ['buffered', { location: 'proxy_buffering on;' }],
      ['bodies unbuffered', { location: 'proxy_request_buffering off;' }],
      ['bodies in files', { location: 'client_body_in_file_only clean;' }],
      ['small body buffers', { location: 'client_body_buffer_size 1k;' }],
      ['one worker', { workers: 1 }]];
    for (const [name, options] of ways) {
      await t.test(name, async (t2) => {
        const location = (options.location ?? '')
          .replace('proxy_buffering on;', '');
        const scene = await stage(t2, 'openai_chat', { workers: 4,
          ...options, location });
        await abreast(orders(3), 3, (order) => play(scene, order));
        await abreast(orders(3), 3, (order) =>
          play(scene, order, { chunked: true }));
      });
    }
  });

for (const key of ['ai_sdk', 'ag_ui']) {
  test(`s52: ${key}: two tabs, one body: sent once`, { skip: unbuilt },
    (t) => sameTwice(t, key));
}

async function sameTwice(t, key) {
  const scene = await stage(t, key, { workers: 4 });
  for (const [name, delay] of [['at once', 0], ['40 ms apart', 40]]) {
    await t.test(name, async () => {
      for (let i = 0; i < 10; i++) {
        const batch = new Batch(scene, 2);
        await batch.ask();
        const first = batch.continue(batch.results());
        await pause(delay);
        const second = batch.continue(batch.results());
        const words = (await Promise.all([first, second].map(told)))
          .map(({ word }) => word);
        batch.released();
        /* A sibling that arrives during the stream gets no recording. */
        assert.ok(words.includes('final')
          && words.every((word) => ['empty', 'final'].includes(word)),
        `${words}`);
      }
    });
  }
  await t.test('s53: the upstream has not answered yet', async () => {
    const batch = new Batch(scene, 2);
    await batch.ask();
    const go = gate();
    const { answer } = scene.p;
    scene.p.answer = async (request) => {
      await go;
      return answer(request);
    };
    const number = scene.p.requests.length + 1;
    const first = batch.continue(batch.results());
    await scene.p.arrival(number);
    const second = batch.continue(batch.results());
    const partial = batch.continue(batch.results([0]));
    await handled(batch, [second, partial], 200);
    batch.released();
    go.open();
    scene.p.answer = answer;
    assert.equal((await told(first)).word, 'final');
    assert.equal((await told(second)).word, 'final');
    /* The other result has no stored payload: both bodies were complete. */
    const { word } = await told(partial);
    assert.ok(['final', dialects[key].bounces].includes(word), word);
    batch.released();
  });
}

test('s96: an openai client sends a complete body twice',
  { skip: unbuilt }, async (t) => {
    for (const key of ['openai_chat', 'openai_responses', 'anthropic',
      'gemini']) {
      await t.test(key, async (t2) => {
        const scene = await stage(t2, key, { workers: 4 });
        const go = gate();
        const { answer } = scene.p;
        scene.p.answer = async (request) => {
          await (request.answered.length && go);
          return answer(request);
        };
        const twice = new Batch(scene, 2);
        await twice.ask();
        const both = [1, 2].map(() => twice.continue(twice.results()));
        const retried = new Batch(scene, 2);
        await retried.ask();
        const first = retried.continue(retried.results());
        await scene.p.arrival(5);
        const retry = retried.continue(retried.results(),
          { headers: { 'x-stainless-retry-count': '1' } });
        await handled(retried, [retry], 200);
        go.open();
        for (const one of [...both, first]) {
          assert.equal((await told(one)).word, 'final');
        }
        twice.released(2);
        assert.equal((await told(retry)).word, 'final');
        retried.released(1);
      });
    }
  });

for (const key of ['openai_responses', 'openai_responses_chained',
  'openai_chat', 'anthropic', 'anthropic_thread']) {
  test(`s97: ${key}: another model or stream: another request`,
    { skip: unbuilt }, async (t) => {
      const scene = await stage(t, key, { workers: 4 });
      const { answer } = scene.p;
      for (const other of [{ model: 'another' }, { stream: false }]) {
        const batch = new Batch(scene, 2);
        await batch.ask();
        const go = gate();
        scene.p.answer = async (request) => {
          await (request.answered.length && go);
          return answer(request);
        };
        const one = batch.continue(batch.results([0]));
        await handled(batch, [one]);
        const two = batch.post({ ...batch.body(batch.results([1])),
          ...other });
        await until(() => batch.upstream().length === 2);
        go.open();
        assert.equal((await told(one)).word, 'final');
        assert.equal((await told(two)).word, 'final');
        batch.released(2);
        assert.equal(batch.upstream().filter(({ body }) =>
          Object.keys(other).every((name) => body[name] === other[name]))
          .length, 1);
        scene.p.answer = answer;
      }
    });
}

test('s98: results with a new user text: a fresh turn', { skip: unbuilt },
  async (t) => {
    const keys = Object.keys(dialects)
      .filter((key) => !key.endsWith('_conversation')
        && key !== 'ag_ui_resume');
    for (const key of keys) {
      const more = dialects[key].says('and hurry');
      await t.test(key, async (t2) => {
        const scene = await stage(t2, key, { workers: 2 });
        const batch = new Batch(scene, 2);
        await batch.ask();
        const held = batch.continue(batch.results([1]));
        await handled(batch, [held]);
        const turn = batch.continue(batch.results([0]), { more });
        assert.equal((await told(turn)).word, 'final');
        const { raw } = batch.released();
        assert.ok(String(raw).includes('and hurry'));
        const { word } = await told(held);
        assert.ok(['empty', '409'].includes(word), word);
        batch.released();
      });
    }
  });

test('complete body: goes upstream at once', { skip: unbuilt },
  async (t) => {
    for (const key of Object.keys(dialects)) {
      await t.test(key, async (t2) => {
        const scene = await stage(t2, key);
        const batch = new Batch(scene, 3);
        await batch.ask();
        const results = batch.results();
        results[batch.ids[1]] = new Error('boom');
        const answer = batch.continue(results);
        assert.equal((await told(answer)).word, 'final');
        const { raw } = batch.released();
        assert.equal(String(raw), JSON.stringify(batch.body(results)));
      });
    }
  });

test('the harness detects a half-answered batch', { skip: unbuilt },
  async (t) => {
    const scene = await stage(t, 'openai_chat', { hold: 'off' });
    const batch = new Batch(scene, 2);
    await batch.ask();
    const { word } = await told(batch.continue(batch.results([0])));
    assert.equal(word, '400');
    assert.throws(() => batch.released());
  });
