/*
 * record.test.mjs: what a client is sent is recorded while others want it,
 * and only then; and the upstream outlives its client while they follow.
 *
 * The record is read in Redis by hand, and followers are facts that the test
 * puts there, so a Redis is brought along whatever CHAT_STORE says. What does
 * not look into the record runs over the store that CHAT_STORE names.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gate, nginxTest, pause, unbuilt, until } from './harness.mjs';
import { Batch, stage } from './harness_batch.mjs';
import { dialects, events } from './harness_dialects.mjs';
import { json, sse } from './harness_provider.mjs';
import { batchFacts, endOf, recordOf, stuck } from './harness_record.mjs';
import { redis, relay } from './harness_redis.mjs';
import { data } from './harness_wire.mjs';

const live = (name, play) => test(name, { skip: unbuilt }, play);
const keys = ['ai_sdk', 'openai_responses', 'openai_chat', 'anthropic'];

let shared;
let databases = 0;

/*
 * A stage on a Redis, where a request with results is answered by answer(),
 * once the test lets it.
 */
async function recording(t, key, { answer, server, ...options } = {}) {
  shared ??= redis(null, { lines: ['databases 10000'] });
  const store = server ?? await shared;
  const db = server ? 0 : databases++;
  await store.command('SELECT', db);
  const s = await stage(t, key, { store:
    `${store.url({ db })} timeout=2s`, connects: true, ...options });
  const usual = s.p.answer;
  s.redis = { command: (...args) => store.command('SELECT', db)
    .then(() => store.command(...args)) };
  s.p.answer = (request) => (request.answered.length && answer
    ? answer(request, s) : usual(request));
  return s;
}

/* Where the stage's own location says what a test is to vary. */
const locations = (chat, lines) => `location / {
  chat ${chat};
  proxy_pass http://provider;
  proxy_http_version 1.1;
  proxy_set_header Connection "";
  ${lines}
}`;

/* A batch whose turn was asked, and its answered continuation under way. */
async function claimed(s, options, { more, headers, body } = {}) {
  const b = new Batch(s);
  await b.ask();
  const answer = b.post(body?.(b) ?? b.body(b.results(), more),
    { ...options, headers });
  return { b, answer };
}

/* The same, but for the follower that was there before the answer came. */
async function followed(s, release, options, more) {
  const { b, answer } = await claimed(s, options, more);
  const record = await recordOf(s.redis, b);
  const follower = await record.follow();
  release.open();
  return { b, answer, record, follower };
}

/* An answer that begins when the gate opens. */
const after = (release, parts, options) =>
  release.then(() => sse(parts, options));

const words = (key, text = 'Sunny.') => dialects[key].final(text);

for (const key of keys) {
  live(`${key}: what its client is sent is recorded for a follower`,
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
      for (const { bytes } of pieces.slice(1)) {
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
      assert.equal((await record.facts()).record, 'wanted');
    });
}

live('the record is there before the stream ends', async (t) => {
  const [release, rest] = [gate(), gate()];
  const [first, ...others] = words('ai_sdk');
  const s = await recording(t, 'ai_sdk', {
    answer: () => after(release, [first, rest, ...others]) });
  const { answer, record } = await followed(s, release);
  await answer.until((text) => text.includes(first));
  await until(async () => (await record.pieces()).length === 2);
  assert.equal((await record.pieces())[1].bytes, first);
  rest.open();
  await record.whole();
});

for (const [mode, said, pieces] of [['auto', 'none', 0], ['off', 'none', 0],
  ['on', 'kept', 1]]) {
  live(`nobody follows, chat_record ${mode}: ${said}`, async (t) => {
    const s = await recording(t, 'ai_sdk', {
      location: `chat_record ${mode};` });
    const { b, answer } = await claimed(s);
    const text = await answer.text();
    const record = await recordOf(s.redis, b);
    await until(async () => (await record.facts()).record);
    assert.equal((await record.facts()).record, said);
    if (pieces) {
      assert.equal((await record.whole()).text, text);
    } else {
      assert.deepEqual(await record.pieces(), []);
    }
  });
}

live('a follower that comes late finds that there is none', async (t) => {
  const rest = gate();
  const [first, ...others] = words('ai_sdk');
  const s = await recording(t, 'ai_sdk', {
    answer: () => sse([first, rest, ...others]) });
  const { b, answer } = await claimed(s);
  await answer.until((text) => text.includes(first));
  const record = await recordOf(s.redis, b);
  await until(async () => (await record.facts()).record);
  await record.follow();
  assert.equal((await record.facts()).record, 'none');
  rest.open();
  await answer.text();
  assert.deepEqual(await record.pieces(), []);
});

live('who has not claimed is not recorded, and asks for nothing',
  async (t) => {
    const s = await recording(t, 'ai_sdk');
    const b = new Batch(s);
    await b.ask();
    const all = await s.redis.command('KEYS', '*');
    for (const key of all.filter((k) => !/:[lp]$/.test(k)
      && k.startsWith('chat:{'))) {
      assert.ok(!await s.redis.command('HEXISTS', key, 'record'));
    }
  });

live('chat_record on: every answer of a chat is recorded', async (t) => {
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
  assert.equal(list.slice(1).map(([, [, bytes]]) => bytes).join(''),
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
  live(`stream: false, proxy_buffering ${buffering}: its bytes, whole`,
    async (t) => {
      const release = gate();
      const body = { choices: [{ message: { role: 'assistant',
        content: 'x'.repeat(40000) } }] };
      const s = await recording(t, 'openai_chat', {
        locations: locations('openai_chat', `proxy_buffering ${buffering};`),
        answer: () => release.then(() => json(200, body)) });
      const { answer, record } = await followed(s, release, {},
        { body: (b) => ({ ...b.body(b.results()), stream: false }) });
      const text = await answer.text();
      assert.deepEqual(JSON.parse(text), body);
      const { head, text: kept, pieces } = await record.whole();
      assert.equal(kept, text);
      assert.ok(pieces.every(({ bytes }) => bytes.length <= 16384));
      assert.equal(head.headers['content-type'], 'application/json');
    });
}

for (const key of keys) {
  live(`s23: ${key}: the record lacks what was dropped`, async (t) => {
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

live('what one client alone is told is not recorded', async (t) => {
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

live('a long answer: pieces end where events end', async (t) => {
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
  for (const { bytes } of pieces.slice(1)) {
    assert.ok(bytes.length <= 16384);
    assert.ok(bytes.endsWith('\n\n') || bytes === '');
  }
});

live('past max= its beginning is forgotten', async (t) => {
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
  assert.ok(kept.length >= 32768, `${kept.length}`);
  /* Redis gives up whole nodes of 100 entries. */
  assert.ok(kept.length < 65536 + 2 * 16384 + 100 * 1100, `${kept.length}`);
});

for (const quiet of [false, true]) {
  live(`an upstream that breaks off, ${quiet ? 'untold: cleared'
    : 'with its event'}`, async (t) => {
    const release = gate();
    const [first, second] = words('ai_sdk');
    const s = await recording(t, 'ai_sdk', {
      location: quiet ? 'chat_interrupted off;' : '',
      answer: () => after(release, [first, second], { end: 'reset' }) });
    const { answer, record, b } = await followed(s, release);
    const text = await answer.text({ broken: true });
    assert.equal(await endOf(s.redis, b), 'interrupted');
    if (quiet) {
      await until(async () => (await record.facts()).cleared);
      assert.deepEqual(await record.pieces(), []);
    } else {
      assert.ok(text.includes('data-chat-interrupted'));
      assert.equal((await record.whole()).text, text);
    }
  });
}

live('a JSON answer that breaks off is cleared', async (t) => {
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

/* Each way in which a client leaves. */
const leaves = [false, true].flatMap((http2) => ['on', 'off'].flatMap(
  (buffering) => ['on', 'off'].flatMap((ignore) =>
    [false, true].flatMap((late) => [false, true].map((reset) =>
      ({ http2, buffering, ignore, late, reset }))))));

const nameOf = ({ http2, buffering, ignore, late, reset }) => [
  http2 ? 'HTTP/2' : 'HTTP/1.1', reset ? 'a reset' : 'closed', `proxy_buffering ${buffering}`,
  `proxy_ignore_client_abort ${ignore}`,
  late ? 'in its answer' : 'before its answer'].join(', ');

const locationOf = ({ buffering, ignore }) => locations('ai_sdk',
  `proxy_buffering ${buffering}; proxy_ignore_client_abort ${ignore};`);

/* nginx has noticed that a client is gone, and keeps its upstream for now. */
const left = ({ n }) => n.errorLog().includes('the client has left');

/* More of it than a socket's buffers hold. */
const wordy = (n = 300, size = 1000) => words('ai_sdk').flatMap((event, i) =>
  (i === 3 ? Array.from({ length: n }, (_, nr) => data({ type: 'text-delta',
    id: 't1', delta: `${nr} ${'x'.repeat(size)}` })) : [event]));

live('s101: the client leaves, others follow: the answer is recorded whole',
  async (t) => {
    for (const way of leaves) {
      await t.test(nameOf(way), async (t2) => {
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
        assert.ok(left(s), 'nobody has left');
      });
    }
  });

/* Both versions, before the answer and in it. */
const plainly = [false, true].flatMap((http2) => [false, true].map((late) =>
  ({ http2, late })));
const plainName = ({ http2, late }) =>
  `HTTP/${http2 ? 2 : 1.1}, ${late ? 'in' : 'before'} its answer`;

live('the client leaves, nobody follows: the upstream is closed',
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

/* A claim whose client has left while one follows. */
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
  live(`the client leaves, then its last follower: ${plainName(way)}`,
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

live('the last follower goes in the answer: the record is cleared',
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

live('a follower of a worker that is dead keeps nothing', async (t) => {
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

live('the answer of an abandoned claim is an error: its siblings share it',
  async (t) => {
    const kinds = {
      's102: 429': { answer: () => json(429, { error: 'slow' }),
        status: '429', end: 'failed' },
      'closed without a word': { answer: () => ({ ...json(200, {}), end: 'drop' }),
        status: '502', end: 'failed' },
    };
    for (const [name, kind] of Object.entries(kinds)) {
      for (const http2 of [false, true]) {
        await t.test(`${name}, HTTP/${http2 ? 2 : 1.1}`, async (t2) => {
          const release = gate();
          const s = await recording(t2, 'ai_sdk', {
            answer: (request) => release.then(() => kind.answer(request)) });
          const { b, answer } = await claimed(s, { http2 });
          const record = await recordOf(s.redis, b);
          await record.follow();
          await until(() => s.p.requests.length === 2);
          answer.abort();
          await until(() => left(s));
          release.open();
          assert.equal(await endOf(s.redis, b), kind.end);
          const all = await batchFacts(s.redis, b);
          const [, status] = Object.entries(all).find(([field]) =>
            field.startsWith('answer/1/'));
          assert.equal(status, kind.status);
          assert.deepEqual(await record.pieces(), []);
        });
      }
    }
  });

live('a client that takes nothing for send_timeout is gone; others get it all',
  async (t) => {
    for (const http2 of [false, true]) {
      await t.test(`HTTP/${http2 ? 2 : 1.1}`, async (t2) => {
        const release = gate();
        const all = wordy(3000, 4000);
        const s = await recording(t2, 'ai_sdk', {
          location: 'send_timeout 500ms; chat_record auto max=64m;',
          answer: () => after(release, all) });
        const b = new Batch(s);
        await b.ask();
        const socket = await stuck(t2, s, b, http2);
        const record = await recordOf(s.redis, b);
        await record.follow();
        release.open();
        const { text } = await record.whole(20000);
        assert.equal(text, all.join(''));
        assert.equal(await endOf(s.redis, b), 'finished');
        socket.destroy();
      });
    }
  });

live('chat_record on: read on without followers, and up to max=',
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

live('the store goes away: the client gets all, the record is cleared',
  async (t) => {
    const server = await redis(t);
    const way = await relay(t, server.port);
    const [release, rest] = [gate(), gate()];
    const all = wordy(30);
    const s = await recording(t, 'ai_sdk', { server,
      store: `${server.url({ port: way.port })} timeout=200ms`,
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

live('a worker that exits ends an abandoned claim in its time', async (t) => {
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

live('a worker that exits goes on recording for its followers', async (t) => {
  const { s, b, record, release, all } = await abandoned(t);
  const [old] = s.n.workers();
  await s.n.reload();
  release.open();
  assert.equal((await record.whole()).text, all.join(''));
  assert.equal(await endOf(s.redis, b), 'finished');
  await until(() => !s.n.workers().includes(old), 10000);
});

test('chat_record: values', { skip: unbuilt }, async () => {
  for (const [value, word] of [['maybe', 'maybe'], ['on max=1k', 'max=1k'],
    ['on max=x', 'max=x'], ['on ttl=0', 'ttl=0'], ['on ttl', 'ttl'],
    ['auto least=3', 'least=3'], ['max=1m', 'max=1m']]) {
    const { ok, output } = await nginxTest({
      location: `chat_record ${value};` });
    assert.ok(!ok, value);
    assert.ok(output.includes(`invalid value "${word}" in "chat_record"`),
      output);
  }
  for (const value of ['off', 'auto', 'on max=64k ttl=1s', 'on ttl=1h']) {
    assert.ok((await nginxTest({ location: `chat_record ${value};` })).ok);
  }
  const { ok, output } = await nginxTest({
    location: 'chat_record on; chat_record off;' });
  assert.ok(!ok && output.includes('is duplicate'), output);
});
