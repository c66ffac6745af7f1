/*
 * recording.test.mjs: an answer is recorded only while other requests may need
 * it.
 *
 * The test reads the recording in Redis itself and writes facts for followers,
 * so it starts a Redis of its own regardless of CHAT_STORE.
 *
 * Suite: asan.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  gate, nginxTest, patience, pause, unbuilt, until,
} from '../lib/harness.mjs';
import { Batch, told } from '../lib/batch.mjs';
import { events, names as keys } from '../lib/dialects.mjs';
import { json, sse } from '../lib/provider.mjs';
import {
  endOf, pieceOf, recordings, recordOf,
} from '../lib/recording.mjs';
import { redis, relay } from '../lib/redis/redis.mjs';
import {
  after, claimed, followed, locations, recording, words, wordy,
} from '../lib/recorded.mjs';
import { held, wordOf } from '../lib/hold.mjs';
import { data } from '../lib/dialects/wire.mjs';

const live = (name, play) => test(name, { skip: unbuilt }, play);

for (const key of keys) {
  live(`${key}: a follower exists: the answer is recorded as sent`,
    async (t) => {
      const release = gate();
      const s = await recording(t, key, {
        answer: () => after(release, [...words(key)],
          { headers: { 'x-app': 'one', 'set-cookie': 'id=1' } }) });
      const { answer, record } = await followed(s, release);
      const text = await answer.text();
      const { pieces, head, text: kept } = await record.whole();
      assert.equal(kept, text);
      assert.deepEqual(pieces.map(({ position }) => position),
        [...pieces.keys()]);
      assert.deepEqual(pieces.filter(({ last }) => last),
        [pieces.at(-1)]);
      for (const { bytes } of pieces) {
        assert.ok(bytes === '' || bytes.endsWith('\n\n'), bytes);
      }
      const { headers } = await answer.head;
      assert.equal(head.status, 200);
      assert.equal(head.headers['content-type'], headers['content-type']);
      assert.equal(head.headers['x-app'], 'one');
      for (const name of ['date', 'server', 'connection', 'set-cookie',
        'transfer-encoding', 'content-length']) {
        assert.ok(!(name in head.headers), name);
      }
      assert.equal((await record.mode()).record, 'wanted');
    });
}

live('the recording exists before the stream ends', async (t) => {
  const [release, rest] = [gate(), gate()];
  const [first, ...others] = words('ai_sdk');
  const s = await recording(t, 'ai_sdk', {
    answer: () => after(release, [first, rest, ...others]) });
  const { answer, record } = await followed(s, release);
  await answer.until((text) => text.includes(first));
  await until(async () => (await record.pieces()).length === 1);
  assert.equal((await record.pieces())[0].bytes, first);
  rest.open();
  await record.whole();
});

for (const [mode, said, pieces] of [['auto', 'none', 0], ['on', 'kept', 1],
  ['off', undefined, 0]]) {
  live(`no followers, chat_record ${mode}: ${said}`, async (t) => {
    const s = await recording(t, 'ai_sdk', {
      location: `chat_record ${mode};` });
    const { b, answer } = await claimed(s);
    const text = await answer.text();
    const record = await recordOf(s.redis, b);
    const { record: word, unrecorded } = await until(async () => {
      const mode = await record.mode();
      return (mode.record ?? mode.unrecorded) && mode;
    });
    assert.equal(word, said);
    assert.equal(!unrecorded, !!said);
    if (pieces) {
      assert.equal((await record.whole()).text, text);
    } else {
      /* Nothing is stored for a recording that no request asks for. */
      assert.deepEqual(await record.facts(), {});
      assert.deepEqual(await record.pieces(), []);
    }
  });
}

/* A request that repeats the claimant's, which is complete. */
const again = (b) => b.continue(b.results(),
  { headers: { 'x-stainless-retry-count': '1' } });

/* What both clients get fits to what the store says. */
async function agreed({ b, answer, sibling, record }) {
  const [text, end] = await Promise.all([answer.text(), told(sibling)]);
  const { record: mode } = await record.mode();
  if (mode === 'wanted') {
    assert.equal(end.text, text);
    assert.equal((await record.whole()).text, text);
  } else {
    assert.equal(mode, 'none');
    assert.equal(end.word, 'empty');
    assert.ok(!('head' in await record.facts()));
  }
  assert.equal(b.upstream().length, 1);
  return mode;
}

live('a follower comes before the answer, after it, or at that time',
  async (t) => {
    let release;
    const s = await recording(t, 'ai_sdk', { workers: 2,
      answer: () => after(release, words('ai_sdk')) });
    const starts = async () => {
      release = gate();
      const { b, answer } = await claimed(s);
      return { b, answer, record: await recordOf(s.redis, b) };
    };
    await t.test('before', async () => {
      const it = await starts();
      const sibling = again(it.b);
      await until(async () => (await it.record.mode()).record);
      release.open();
      assert.equal(await agreed({ ...it, sibling }), 'wanted');
    });
    await t.test('after', async () => {
      const it = await starts();
      release.open();
      await it.answer.head;
      assert.equal(await agreed({ ...it, sibling: again(it.b) }), 'none');
    });
    await t.test('at that time', async () => {
      for (let i = 0; i < 30; i++) {
        const it = await starts();
        release.open();
        await (i % 4 && new Promise((done) => { setImmediate(done); }));
        await agreed({ ...it, sibling: again(it.b) });
      }
    });
  });

live('a failover has lost that there is no recording: a late sibling ends',
  async (t) => {
    const [release, rest] = [gate(), gate()];
    const [first, ...others] = words('ai_sdk');
    const s = await recording(t, 'ai_sdk', {
      answer: () => after(release, [first, rest, ...others]) });
    const { b, answer } = await claimed(s);
    release.open();
    await answer.until((text) => text.includes(first));
    const record = await recordOf(s.redis, b);
    await until(async () => (await record.mode()).record === 'none');
    /* The next master has got a follower's wish first. */
    await s.redis.command('HSET', record.batch, `record/${record.claim}`,
      '01');
    assert.equal((await told(again(b))).word, 'empty');
    rest.open();
    await answer.text();
    b.released();
  });

live('a batch answered in parts: recorded from the first byte',
  async (t) => {
    const s = await recording(t, 'ai_sdk');
    const b = new Batch(s, 2);
    await b.ask();
    const early = b.continue(b.results([0]));
    await held(b, early);
    early.abort();
    const text = await b.continue(b.results([1])).text();
    const record = await recordOf(s.redis, b);
    const whole = await record.whole();
    assert.equal((await record.mode()).record, 'kept');
    /* The results that were injected for one client are not recorded. */
    assert.ok(text.endsWith(whole.text));
  });

/* The body shows what is missing, in a chain only the store. */
for (const [key, limit] of [['openai_responses_chained', 9],
  ['openai_chat', 1]]) {
  live(`${key}: a request with too few results is enough for this, ${
    limit > 1 ? 'held' : 'refused'}`, async (t) => {
    const s = await recording(t, key,
      { location: `chat_limits held=${limit};` });
    const [other, b] = [new Batch(s, 2), new Batch(s, 2)];
    await other.ask();
    await b.ask();
    await held(other, other.continue(other.results([0])));
    const early = b.continue(b.results([0]));
    if (limit > 1) {
      await held(b, early);
      early.abort();
    } else {
      assert.equal(await wordOf(early), '503');
    }
    assert.equal(await wordOf(b.continue(b.results())), 'final');
    await until(async () => (await recordings(s.redis)).length === 1);
    assert.deepEqual(await recordings(s.redis), ['kept']);
  });
}

live('a follower arrives late: the claim has no recording', async (t) => {
  const rest = gate();
  const [first, ...others] = words('ai_sdk');
  const s = await recording(t, 'ai_sdk', {
    answer: () => sse([first, rest, ...others]) });
  const { b, answer } = await claimed(s);
  await answer.until((text) => text.includes(first));
  const record = await recordOf(s.redis, b);
  await until(async () => (await record.mode()).record);
  await record.follow();
  assert.equal((await record.mode()).record, 'none');
  rest.open();
  await answer.text();
  assert.deepEqual(await record.pieces(), []);
});

live('a request without a claim is not recorded',
  async (t) => {
    const s = await recording(t, 'ai_sdk');
    const b = new Batch(s);
    await b.ask();
    assert.deepEqual(await recordings(s.redis), []);
  });

live('chat_record on: every conversation is recorded', async (t) => {
  const s = await recording(t, 'ai_sdk', { location: 'chat_record on;' });
  const b = new Batch(s);
  await b.ask();
  const logs = await until(async () => {
    const found = await s.redis.command('KEYS', 'chat:*:l');
    return found.length && found;
  });
  assert.equal(logs.length, 1);
  const list = await until(async () => {
    const found = await s.redis.command('XRANGE', logs[0], '-', '+');
    return found.at(-1)[1][0] === 'l' && found;
  });
  assert.equal(list.map(pieceOf).map(({ bytes }) => bytes).join(''),
    b.from.join(''));
});

live('chat_dry_run: nothing is recorded', async (t) => {
  const release = gate();
  const s = await recording(t, 'ai_sdk', {
    location: 'chat_record on; chat_dry_run on;',
    answer: () => after(release, [...words('ai_sdk')]) });
  const { record, answer } = await followed(s, release);
  await answer.text();
  assert.deepEqual(await record.pieces(), []);
});

for (const buffering of ['on', 'off']) {
  live(`stream: false, proxy_buffering ${buffering}: all its bytes`,
    async (t) => {
      const release = gate();
      const body = { choices: [{ message: { role: 'assistant',
        content: 'x'.repeat(40000) } }] };
      const s = await recording(t, 'openai_chat', {
        locations: locations('openai_chat',
          `proxy_buffering ${buffering};`),
        answer: () => release.then(() => json(200, body)) });
      const { answer, record } = await followed(s, release, {},
        { body: (b) => ({ ...b.body(b.results()), stream: false }) });
      const text = await answer.text();
      assert.deepEqual(JSON.parse(text), body);
      const { head, text: kept, pieces } = await record.whole();
      assert.equal(kept, text);
      assert.ok(pieces.every(({ bytes }) => bytes.length <= 32768));
      assert.equal(head.headers['content-type'], 'application/json');
    });
}

for (const key of keys) {
  live(`s23: ${key}: the recording has no dropped events`, async (t) => {
    const release = gate();
    let batch;
    const s = await recording(t, key, {
      answer: () => after(release, [...batch.from.slice(0, -1),
        ...words(key)]) });
    const b = new Batch(s);
    batch = b;
    await b.ask();
    const answer = b.continue(b.results());
    const record = await recordOf(s.redis, b);
    await record.follow();
    release.open();
    const text = await answer.text();
    assert.ok(!text.includes(b.calls[0].input.city), text);
    assert.equal((await record.whole()).text, text);
  });
}

live('events for a single client are not recorded', async (t) => {
  const release = gate();
  const s = await recording(t, 'ai_sdk', {
    answer: () => after(release, [...words('ai_sdk')]) });
  const b = new Batch(s);
  await b.ask();
  const first = b.continue(b.results([0]));
  await first.sent;
  const second = b.continue(b.results([1]));
  const record = await recordOf(s.redis, b);
  await record.follow();
  release.open();
  const texts = await Promise.all([first.text(), second.text()]);
  const { text, head } = await record.whole();
  const got = texts.find((one) => one.includes('Sunny.'));
  assert.ok(events(got)[0].type.startsWith('tool-output'));
  assert.equal(got.slice(got.indexOf(data({ type: 'start' }).slice(0, 20))),
    text);
  assert.equal(head.message, b.from.id);
});

live('a long answer: entries end where events end', async (t) => {
  const release = gate();
  const long = Array.from({ length: 300 }, (_, i) => data({
    type: 'text-delta', id: 't1', delta: `${i} ${'x'.repeat(i * 7 % 900)}` }));
  const all = words('ai_sdk').toSpliced?.(3, 0, ...long)
    ?? [...words('ai_sdk').slice(0, 3), ...long, ...words('ai_sdk').slice(3)];
  const s = await recording(t, 'ai_sdk', {
    location: 'proxy_buffer_size 64k; proxy_buffers 8 64k;',
    answer: () => after(release, [all.join('')]) });
  const { answer, record } = await followed(s, release);
  const { text, pieces } = await record.whole();
  assert.equal(text, await answer.text());
  assert.equal(text, all.join(''));
  for (const { bytes } of pieces) {
    assert.ok(bytes.length <= 32768);
    assert.ok(bytes.endsWith('\n\n') || bytes === '');
  }
});

live('past max= the beginning is discarded', async (t) => {
  const release = gate();
  const long = Array.from({ length: 400 }, () => data({
    type: 'text-delta', id: 't1', delta: 'x'.repeat(1000) }));
  const s = await recording(t, 'ai_sdk', {
    location: 'chat_record auto max=64k;',
    answer: () => after(release, [...words('ai_sdk').slice(0, 3), ...long,
      ...words('ai_sdk').slice(3)]) });
  const { answer, record } = await followed(s, release);
  const text = await answer.text();
  const pieces = await until(async () => {
    const list = await record.pieces();
    return list.at(-1)?.last && list;
  });
  assert.ok(pieces[0].position > 0);
  const kept = pieces.map(({ bytes }) => bytes).join('');
  assert.ok(text.endsWith(kept));
  /* Half of max=, including the head of each entry. */
  assert.ok(kept.length >= 32768 * 0.99, `${kept.length}`);
  /* Redis trims whole nodes of 100 entries. */
  assert.ok(kept.length < 65536 + 2 * 32768 + 100 * 1100, `${kept.length}`);
});

live('an upstream that breaks off: its event is recorded', async (t) => {
  const release = gate();
  const [first, second] = words('ai_sdk');
  const s = await recording(t, 'ai_sdk', {
    answer: () => after(release, [first, second], { end: 'reset' }) });
  const { answer, record, b } = await followed(s, release);
  const text = await answer.text({ broken: true });
  assert.equal(await endOf(s.redis, b), 'interrupted');
  assert.ok(text.includes('data-chat-interrupted'));
  assert.equal((await record.whole()).text, text);
});

live('416 for a range that the answer lacks: the recording is cleared',
  async (t) => {
    const release = gate();
    const s = await recording(t, 'openai_chat', {
      location: 'proxy_force_ranges on;',
      answer: () => release.then(() => json(200, { a: 1 },
        { 'content-length': '7' })) });
    const { answer, record } = await followed(s, release, {}, {
      headers: { range: 'bytes=9999-' },
      body: (it) => ({ ...it.body(it.results()), stream: false }) });
    assert.equal((await answer.head).status, 416);
    await until(async () => (await record.facts()).cleared);
    assert.deepEqual(await record.pieces(), []);
  });

live('a JSON answer breaks off: its recording is cleared', async (t) => {
  const release = gate();
  const s = await recording(t, 'openai_chat', {
    answer: () => release.then(() => ({ ...json(200, { a: 1 }),
      parts: ['{"a":'], end: 'reset' })) });
  const { answer, record, b } = await followed(s, release, {},
    { body: (it) => ({ ...it.body(it.results()), stream: false }) });
  await answer.text({ broken: true });
  await until(async () => (await record.facts()).cleared);
  assert.deepEqual(await record.pieces(), []);
  assert.equal(await endOf(s.redis, b), 'interrupted');
});

live('the store fails: the client gets all, the recording is cleared',
  async (t) => {
    const server = await redis(t);
    const way = await relay(t, server.port);
    const [release, rest] = [gate(), gate()];
    const all = wordy(30);
    const s = await recording(t, 'ai_sdk', { server,
      store: `${server.url({ port: way.port })} timeout=${200 * patience}ms`,
      answer: () => after(release, [all[0], rest, ...all.slice(1)]) });
    const { answer, record } = await followed(s, release);
    await answer.until((text) => text.includes(all[0]));
    await until(async () => (await record.pieces()).length);
    await way.refuse(true);
    way.cut();
    await until(async () => {
      await new Batch(s).ask();
      return s.n.accessLog().at(-1).verdict === 'bypass';
    }, 10000);
    rest.open();
    assert.equal(await answer.text(), all.join(''));
    await way.refuse(false);
    await until(async () => (await record.facts()).cleared, 10000);
    assert.deepEqual(await record.pieces(), []);
  });

live('the store decides late: up to 1 MB of the answer waits for it',
  async (t) => {
    for (const [size, recorded] of [[700, true], [1400, false]]) {
      const server = await redis(t);
      const way = await relay(t, server.port);
      const release = gate();
      const all = wordy(1000, size);
      const s = await recording(t, 'ai_sdk', { server,
        store: `${server.url({ port: way.port })} timeout=20s`,
        location: 'chat_record auto max=8m;',
        answer: () => after(release, all) });
      const { b, answer } = await claimed(s);
      const record = await recordOf(s.redis, b);
      await record.follow();
      way.blackhole(true);
      release.open();
      assert.equal(await answer.text(), all.join(''));
      way.blackhole(false);
      if (recorded) {
        assert.equal((await record.whole()).text, all.join(''));
      } else {
        await until(async () => (await record.facts()).cleared);
        assert.deepEqual(await record.pieces(), []);
      }
      assert.equal(await endOf(s.redis, b), 'finished');
    }
  });

test('chat_record: values', { skip: unbuilt }, async () => {
  for (const [value, wrong] of [['maybe', 'invalid value "maybe"'],
    ['on max=1k', 'invalid value "max=1k"'],
    ['on max=x', 'invalid value "max=x"'],
    ['on ttl=0', 'invalid value "ttl=0"'],
    ['on ttl', 'unknown parameter "ttl"'],
    ['auto least=3', 'unknown parameter "least"'],
    ['max=1m', 'invalid value "max=1m"']]) {
    const { ok, output } = await nginxTest({
      location: `chat_record ${value};` });
    assert.ok(!ok, value);
    assert.ok(output.includes(`${wrong} in "chat_record"`), output);
  }
  for (const value of ['off', 'auto', 'on max=64k ttl=1s', 'on ttl=1h']) {
    assert.ok((await nginxTest({ location: `chat_record ${value};` })).ok);
  }
  const { ok, output } = await nginxTest({
    location: 'chat_record on; chat_record off;' });
  assert.ok(!ok && output.includes('is duplicate'), output);
});
