/*
 * orphan.test.mjs: clients that disconnect during their answers: the upstream
 * stays open and its answer is recorded as long as followers exist.
 *
 * Followers are facts that the test writes into a Redis of its own, regardless
 * of CHAT_STORE; tests without followers use the store of CHAT_STORE.
 *
 * Suite: asan.
 */
import assert from 'node:assert/strict';
import http2 from 'node:http2';
import { test } from 'node:test';
import { gate, pause, unbuilt, until } from '../lib/harness.mjs';
import { Batch, stage, staged } from '../lib/batch.mjs';
import { several } from '../lib/hold.mjs';
import { json, sse } from '../lib/provider.mjs';
import {
  batchFacts, endOf, recordOf, stuck, together,
} from '../lib/recording.mjs';
import {
  after, claimed, followed, left, locations, recording, words, wordy,
} from '../lib/recorded.mjs';

const live = (name, play, options) =>
  test(name, { skip: unbuilt, ...options }, play);

/* Runs each way as a test, several at a time. */
const eachWay = (t, ways, nameOf, play) => Promise.all(ways.map((way) =>
  t.test(nameOf(way), (t2) => play(t2, way))));

const version = (http2) => `HTTP/${http2 ? 2 : 1.1}`;

/* Each way in which a client disconnects. */
const leaves = [false, true].flatMap((http2) => ['on', 'off'].flatMap(
  (buffering) => ['on', 'off'].flatMap((ignore) =>
    [false, true].flatMap((late) => [false, true].map((reset) =>
      ({ http2, buffering, ignore, late, reset }))))));

const nameOf = ({ http2, buffering, ignore, late, reset }) => [
  http2 ? 'HTTP/2' : 'HTTP/1.1', reset ? 'a reset' : 'closed',
  `proxy_buffering ${buffering}`,
  `proxy_ignore_client_abort ${ignore}`,
  late ? 'in its answer' : 'before its answer'].join(', ');

const locationOf = ({ buffering, ignore }) => locations('ai_sdk',
  `proxy_buffering ${buffering}; proxy_ignore_client_abort ${ignore};`);

live('the client disconnects, others follow: all of it is recorded',
  (t) => eachWay(t, leaves, nameOf, async (t2, way) => {
    const [release, rest] = [gate(), gate()];
    const all = wordy();
    const s = await recording(t2, 'ai_sdk', { locations: locationOf(way),
      answer: () => after(release, [all[0], rest, ...all.slice(1)]) });
    const { b, answer } = await claimed(s, { http2: way.http2 });
    const record = await recordOf(s.redis, b);
    await record.follow();
    await until(() => s.p.requests.length === 2);
    const request = s.p.requests[1];
    const leave = async () => {
      answer.abort(way);
      await until(() => way.ignore === 'on' || left(s));
    };
    if (!way.late) {
      await leave();
    }
    release.open();
    if (way.late) {
      await answer.until((text) => text.includes(all[0]));
      await leave();
    }
    rest.open();
    const { text } = await record.whole();
    assert.equal(text, all.join(''));
    assert.equal(await endOf(s.redis, b), 'finished');
    assert.ok(!request.left);
    assert.ok(left(s), 'the client has not disconnected');
  }), several);

/* Both HTTP versions, before the answer and during it. */
const plainly = [false, true].flatMap((http2) => [false, true].map((late) =>
  ({ http2, late })));
const plainName = ({ http2, late }) =>
  `HTTP/${http2 ? 2 : 1.1}, ${late ? 'in' : 'before'} its answer`;

live('the client disconnects, no followers: the upstream is closed',
  async (t) => {
    for (const way of plainly) {
      await t.test(plainName(way), async (t2) => {
        const [release, rest] = [gate(), gate()];
        const all = words('ai_sdk');
        const s = await stage(t2, 'ai_sdk');
        s.p.answer = ((usual) => (request) => (request.answered.length
          ? (way.late ? sse([all[0], rest])
            : after(release, all)) : usual(request)))(s.p.answer);
        const { answer } = await claimed(s, way);
        await until(() => s.p.requests.length === 2);
        if (way.late) {
          await answer.until((text) => text.includes(all[0]));
        }
        answer.abort();
        await s.p.requests[1].closed;
        assert.ok(s.p.requests[1].left);
        const line = await until(() => s.n.accessLog()[1]);
        assert.equal(line.turn_status, way.late ? 'aborted' : '');
      });
    }
  });

/* A claim without its client and with one follower. */
async function abandoned(t, { parts, late, http2, ...options } = {}) {
  const [release, rest] = [gate(), gate()];
  const all = wordy(30);
  const s = await recording(t, 'ai_sdk', { ...options,
    answer: () => (late ? sse([all[0], rest, ...all.slice(1)])
      : after(release, all)) });
  const { b, answer } = await claimed(s, { http2 });
  const record = await recordOf(s.redis, b);
  const follower = await record.follow();
  await until(() => s.p.requests.length === 2);
  answer.abort();
  await until(() => left(s));
  return { s, b, record, follower, release, all, request: s.p.requests[1] };
}

for (const way of plainly.filter(({ late }) => !late)) {
  live(`the client disconnects, then the last follower: ${plainName(way)}`,
    async (t) => {
      const { s, b, follower, request } = await abandoned(t, way);
      await pause(300);
      assert.ok(!request.left);
      await follower.leave();
      await request.closed;
      assert.ok(request.left);
      assert.equal(await endOf(s.redis, b), 'aborted');
    });
}

live('the last follower disconnects: the recording is cleared',
  async (t) => {
    const [release, rest] = [gate(), gate()];
    const all = words('ai_sdk');
    const s = await recording(t, 'ai_sdk', {
      answer: () => after(release, [all[0], rest]) });
    const { b, answer, record, follower } = await followed(s, release);
    await answer.until((text) => text.includes(all[0]));
    answer.abort();
    await until(() => left(s));
    await follower.leave();
    await s.p.requests[1].closed;
    assert.equal(await endOf(s.redis, b), 'aborted');
    await until(async () => (await record.facts()).cleared);
    assert.deepEqual(await record.pieces(), []);
  });

live('a follower of a dead worker does not count', async (t) => {
  const release = gate();
  const s = await recording(t, 'ai_sdk', {
    answer: () => after(release, words('ai_sdk')) });
  const { b, answer } = await claimed(s);
  const record = await recordOf(s.redis, b);
  await record.follow('99.1.12345');
  await until(() => s.p.requests.length === 2);
  answer.abort();
  await s.p.requests[1].closed;
  assert.ok(s.p.requests[1].left);
  assert.equal(await endOf(s.redis, b), 'aborted');
});

live('an orphaned upstream returns an error: its siblings share it',
  async (t) => {
    const kinds = {
      's102: 429': { answer: json(429, { error: 'slow' }), status: '429' },
      'closed without an answer': { answer: { ...json(200, {}), end: 'drop' },
        status: '502' },
    };
    for (const [name, kind] of Object.entries(kinds)) {
      for (const http2 of [false, true]) {
        await t.test(`${name}, HTTP/${http2 ? 2 : 1.1}`, async (t2) => {
          const release = gate();
          const s = await recording(t2, 'ai_sdk', {
            answer: () => release.then(() => kind.answer) });
          const { b, answer } = await claimed(s, { http2 });
          const record = await recordOf(s.redis, b);
          await record.follow();
          await until(() => s.p.requests.length === 2);
          answer.abort();
          await until(() => left(s));
          release.open();
          assert.equal(await endOf(s.redis, b), 'failed');
          const all = await batchFacts(s.redis, b);
          const [, end] = Object.entries(all).find(([field]) =>
            field.startsWith('end/1/'));
          assert.equal(end, `failed ${kind.status}`);
          assert.deepEqual(await record.pieces(), []);
        });
      }
    }
  });

/*
 * An answer with its first event before the rest, and flood(): lets the rest
 * come once the first event is recorded. A writer keeps 1 MB at most until
 * Redis has decided that it records.
 */
function long(n, size) {
  const [release, rest] = [gate(), gate()];
  const all = wordy(n, size);
  return { all,
    answer: () => after(release, [all[0], rest, ...all.slice(1)]),
    async flood(...records) {
      release.open();
      await until(async () => (await Promise.all(records.map((record) =>
        record.pieces()))).every((pieces) => pieces.length > 0));
      rest.open();
    } };
}

live('HTTP/2: a reset stream does not affect its connection',
  async (t) => {
    const { all, answer, flood } = long(600, 4000);
    const s = await recording(t, 'ai_sdk', { answer });
    const list = await Promise.all([1, 2].map(async () => {
      const b = new Batch(s);
      await b.ask();
      return b;
    }));
    /* The client reads neither until both have filled all buffers. */
    const { session, streams } = together(t, s, list);
    const records = await Promise.all(list.map((b) => recordOf(s.redis, b)));
    await Promise.all(records.map((record) => record.follow()));
    await flood(...records);
    await until(async () => (await records[0].pieces()).length > 1
      && (await records[1].pieces()).length > 1);
    streams[0].close(http2.constants.NGHTTP2_CANCEL);
    await until(() => left(s));
    let text = '';
    for await (const piece of streams[1]) {
      text += piece;
    }
    assert.equal(text, all.join(''));
    for (const record of records) {
      assert.equal((await record.whole(20000)).text, all.join(''));
    }
    session.destroy();
  });

live('a client disconnects unread: others get all', (t) => eachWay(
  t, [false, true], version, async (t2, http2) => {
    const { all, answer, flood } = long(3000, 4000);
    const s = await recording(t2, 'ai_sdk', {
      location: 'chat_record auto max=64m;',
      answer });
    const b = new Batch(s);
    await b.ask();
    const client = stuck(t2, s, b, http2);
    const record = await recordOf(s.redis, b);
    await record.follow();
    await flood(record);
    /* The upstream waits until nginx reads more. */
    let seen = -1;
    await until(async () => {
      const before = seen;
      await pause(100);
      seen = (await record.pieces()).length;
      return seen > 1 && seen === before;
    });
    client.destroy();
    assert.equal((await record.whole(20000)).text, all.join(''));
  }), several);

live('the follower is in a worker of another node', async (t) => {
  const [release, rest] = [gate(), gate()];
  const all = words('ai_sdk');
  const s = await recording(t, 'ai_sdk', { answer: () =>
    after(release, [all[0], rest, ...all.slice(1)]) });
  const other = await staged(t, 'ai_sdk', s.p, { store: s.store,
    connects: true });
  const there = new Batch(s);
  await there.ask();
  there.continue(there.results(), { node: other });
  const { worker } = await recordOf(s.redis, there);
  const { b, answer } = await claimed(s);
  const record = await recordOf(s.redis, b);
  assert.notEqual(worker, record.worker);
  await record.follow(worker);
  await until(() => s.p.requests.length === 4);
  answer.abort();
  await until(() => left(s));
  release.open();
  rest.open();
  assert.equal((await record.whole()).text, all.join(''));
});

live('a client reads nothing for send_timeout: others get everything',
  (t) => eachWay(t, [false, true], version, async (t2, http2) => {
    const { all, answer, flood } = long(3000, 4000);
    const s = await recording(t2, 'ai_sdk', {
      location: 'send_timeout 500ms; chat_record auto max=64m;',
      answer });
    const b = new Batch(s);
    await b.ask();
    stuck(t2, s, b, http2);
    const record = await recordOf(s.redis, b);
    await record.follow();
    await flood(record);
    assert.equal(await endOf(s.redis, b), 'finished', s.n.errorLog());
    assert.equal((await record.whole()).text, all.join(''));
  }), several);

live('s92: chat_record on: recorded without followers, up to max=',
  async (t) => {
    for (const enough of [false, true]) {
      await t.test(enough ? 'past max' : 'to its end', async (t2) => {
        const [release, rest] = [gate(), gate()];
        const all = wordy(30);
        const s = await recording(t2, 'ai_sdk', {
          location: 'chat_record on max=64k;',
          answer: () => after(release, enough ? [...wordy(100).slice(0, 90),
            rest] : all) });
        const { b, answer } = await claimed(s);
        await until(() => s.p.requests.length === 2);
        answer.abort();
        await until(() => left(s));
        release.open();
        const record = await recordOf(s.redis, b);
        if (enough) {
          await s.p.requests[1].closed;
          assert.ok(s.p.requests[1].left);
          assert.equal(await endOf(s.redis, b), 'aborted');
        } else {
          assert.equal((await record.whole()).text, all.join(''));
          assert.equal(await endOf(s.redis, b), 'finished');
        }
      });
    }
  });

live('an exiting worker ends an orphaned upstream in time', async (t) => {
  for (const http2 of [false, true]) {
    await t.test(`HTTP/${http2 ? 2 : 1.1}`, async (t2) => {
      const { s, b, request } = await abandoned(t2, { http2,
        main: 'worker_shutdown_timeout 3s;' });
      const [old] = s.n.workers();
      await s.n.reload();
      await request.closed;
      assert.ok(request.left);
      assert.equal(await endOf(s.redis, b), 'aborted');
      await until(() => !s.n.workers().includes(old), 10000);
    });
  }
});

live('an exiting worker goes on recording for its followers', async (t) => {
  const { s, b, record, release, all } = await abandoned(t);
  const [old] = s.n.workers();
  await s.n.reload();
  release.open();
  assert.equal((await record.whole()).text, all.join(''));
  assert.equal(await endOf(s.redis, b), 'finished');
  await until(() => !s.n.workers().includes(old), 10000);
});
