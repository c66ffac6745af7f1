/*
 * answers.test.mjs: what a client gets in the end: the answer of the released
 * request, of a request that waited for it, or of the module itself.
 *
 * Merged results are injected, all waiting requests share a failed attempt,
 * headers that a page needs are there, an internal redirect is still one
 * request, and a client that received comments gets its answer as a stream.
 *
 * Suite: asan, redis, long.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gate, get, nginx, pause, post, unbuilt, until }
  from '../lib/harness.mjs';
import { handled } from '../lib/handled.mjs';
import { dialects, newCalls } from '../lib/dialects.mjs';
import { Batch, outputs, stage, told } from '../lib/batch.mjs';
import { json, provider, sse } from '../lib/provider.mjs';
import { resolver } from '../lib/dns.mjs';

const live = (name, play) => test(name, { skip: unbuilt }, play);
const keys = Object.keys(dialects);

/* Waits until nginx holds this many requests. */
async function held(scene, batch, answers) {
  await handled(batch, answers);
  assert.equal(batch.upstream().length, 0, 'released too early');
  answers.forEach((answer) => assert.equal(answer.ended, false));
}

/* Answers to continuations; other requests get the stage's answers. */
function answerWith(scene, answer) {
  const { answer: usual } = scene.p;
  scene.p.answer = (request, number) => (request.answered.length
    ? answer(request, number) : usual(request, number));
}

live('s100: merged results are injected', async (t) => {
  const scene = await stage(t, 'ai_sdk', { workers: 2 });
  const play = async (results, own) => {
    const [one, two, three] = newCalls(3);
    const batch = new Batch(scene, [one, { ...two, dynamic: true }, three]);
    await batch.ask();
    const [a, b, c] = batch.ids;
    const values = { [a]: results[0], [b]: results[1], [c]: results[2] };
    const pick = (ids) => Object.fromEntries(ids.map((id) =>
      [id, values[id]]));
    const first = batch.continue(pick([a]));
    await held(scene, batch, [first]);
    const second = batch.continue(pick([b, ...own]));
    await held(scene, batch, [first, second]);
    const third = batch.continue(pick([c]));
    const had = [[a], [b, ...own], [c]];
    const ends = await Promise.all([first, second, third].map(told));
    const request = batch.released();
    for (const [i, end] of ends.entries()) {
      const lacked = batch.ids.filter((id) => !had[i].includes(id));
      assert.deepEqual(outputs(end), lacked, end.text);
      /* Only these events, and before start. */
      assert.deepEqual(end.list.slice(0, lacked.length).map((event) =>
        [event.toolCallId, event.output ?? event.errorText, event.dynamic]),
      lacked.map((id) => [id, values[id].message ?? values[id],
        id === b ? true : undefined]));
      assert.deepEqual(end.list.slice(0, lacked.length).map(({ type }) =>
        type), lacked.map((id) => (values[id] instanceof Error
        ? 'tool-output-error' : 'tool-output-available')));
      assert.equal(end.types[lacked.length], 'start');
    }
    const final = ends.find(({ word }) => word === 'final');
    assert.ok(final.text.endsWith(`{"type":"start","messageId":"${
      final.list.find(({ messageId }) => messageId).messageId}"}\n\n${
      dialects.ai_sdk.final(`done ${batch.key}`).slice(1).join('')}`));
    assert.ok(!request.refused);
  };
  await t.test('outputs', () => play([{ n: 1 }, 'two', [3]], []));
  await t.test('errors', () => play([new Error('a'), new Error('b'), 3], []));

  await t.test('complete body: nothing is injected', async () => {
    const batch = new Batch(scene, 2);
    await batch.ask();
    assert.deepEqual(outputs(await told(batch.continue(batch.results()))),
      []);
  });
  await t.test('fresh turn: nothing is injected', async () => {
    const batch = new Batch(scene, 2);
    await batch.ask();
    const first = batch.continue(batch.results([0]));
    await held(scene, batch, [first]);
    const turn = await told(batch.continue(batch.results([1]), { more: {
      after: [{ id: 'u2', role: 'user',
        parts: [{ type: 'text', text: 'go on' }] }] } }));
    assert.equal(turn.word, 'final');
    assert.deepEqual(outputs(turn), []);
    batch.released();
    await told(first);
  });
});

for (const key of keys) {
  live(`s102: ${key}: the upstream refuses: all get its status`, async (t) => {
    const scene = await stage(t, key, { workers: 4 });
    const { answer } = scene.p;
    for (const status of [429, 503]) {
      await t.test(String(status), async () => {
        const batch = new Batch(scene, 3);
        await batch.ask();
        scene.p.answer = (request) => (request.answered.length
          ? json(status, { error: { message: 'slower' } },
            { 'retry-after': '7' }) : answer(request));
        const first = batch.continue(batch.results([0]));
        const second = batch.continue(batch.results([1]));
        await held(scene, batch, [first, second]);
        const third = batch.continue(batch.results([2]));
        const ends = await Promise.all([first, second, third].map(told));
        assert.deepEqual(ends.map(({ word }) => word),
          Array(3).fill(String(status)));
        assert.deepEqual(ends.map(({ headers }) => headers['retry-after']),
          Array(3).fill('7'));
        batch.released(1);
        await pause(50);
        batch.released(1);

        scene.p.answer = answer;
        const next = await told(batch.continue(batch.results([1])));
        assert.equal(next.word, 'final');
        batch.released(2);
      });
    }
  });
}

/* A provider, and host names that resolve once the test says so. */
async function named(t, key, answer) {
  const dns = await resolver(t, answer);
  const scene = await stage(t, key, { workers: 4,
    http: `resolver 127.0.0.1:${dns.port} valid=1s ipv6=off;
      upstream dead { server 127.0.0.1:1; }
      map $http_x_name $where { default provider; dead dead;
        "~^(?<name>.*\\.test)$" $name:1; }`,
    locations: `location / { chat ${dialects[key].name}; chat_hold 5s;
      proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off; proxy_pass http://$where; }` });
  return { dns, scene };
}

for (const name of ['late.test', 'no.test']) {
  live(`s103: nothing sent: one of the held claims (${name})`, async (t) => {
    for (const key of keys) {
      await t.test(key, async (t2) => {
        const go = gate();
        const { dns, scene } = await named(t2, key, go);
        const batch = new Batch(scene, 2);
        await batch.ask();
        /* The batch was incomplete once, so complete bodies are siblings. */
        const partial = batch.continue(batch.results([0]));
        await held(scene, batch, [partial]);
        partial.abort();
        const claimant = batch.continue(batch.results(),
          { headers: { 'x-name': name } });
        await dns.question(name);
        const waiters = [1, 2, 3].map(() => batch.continue(batch.results()));
        await held(scene, batch, waiters);
        go.open();
        assert.equal((await told(claimant)).word, '502');
        const words = (await Promise.all(waiters.map(told)))
          .map(({ word }) => word);
        assert.ok(words.every((word) => word === 'final'), `${words}`);
        batch.released(1);
      });
    }
  });
}

for (const key of keys) {
  live(`s103: ${key}: bytes were sent: no request claims`, async (t) => {
    const scene = await stage(t, key, { workers: 4 });
    const batch = new Batch(scene, 2);
    await batch.ask();
    const go = gate();
    const { answer } = scene.p;
    /* The connection ends with no answer. */
    answerWith(scene, async () => {
      await go;
      throw new Error('no answer');
    });
    const first = batch.continue(batch.results([0]));
    await held(scene, batch, [first]);
    const second = batch.continue(batch.results([1]));
    await scene.p.arrival(2);
    const third = batch.continue(batch.results([1]));
    await handled(batch, [third], 250);
    go.open();
    const words = (await Promise.all([first, second, third].map(told)))
      .map(({ word }) => word);
    assert.deepEqual(words, ['502', '502', '502']);
    await pause(50);
    batch.released(1);
    scene.p.errors.length = 0;
    scene.p.answer = answer;
    assert.equal((await told(batch.continue(batch.results([1])))).word,
      'final');
    batch.released(2);
  });
}

/* The stream with the calls has these; a page needs them on every answer. */
const cors = { 'access-control-allow-origin': 'https://app.test',
  'access-control-expose-headers': 'x-request-id', vary: 'Origin, Accept' };
const origin = { origin: 'https://app.test' };
const corsOf = (headers) => Object.fromEntries(Object.keys(cors)
  .map((name) => [name, headers[name]]));

/* The source of the headers: the upstream or nginx itself. */
const corsBy = {
  upstream: { headers: { ...cors, vary: ['Origin', 'Accept'] },
    location: '' },
  add_header: { headers: {}, location: Object.entries(cors)
    .map(([name, value]) => `add_header ${name} "${value}" always;`)
    .join(' ') },
};

for (const [by, { headers, location }] of Object.entries(corsBy)) {
  live(`s104: CORS headers by ${by}`, async (t) => {
    for (const key of ['ai_sdk', 'openai_chat', 'ag_ui']) {
      const scene = await stage(t, key, { workers: 2,
        hold: '2s grace=50ms', location });
      const { answer } = scene.p;
      scene.p.answer = (request) => Object.assign(answer(request),
        { headers: { ...answer(request).headers, ...headers } });
      const quiet = await stage(t, key, { workers: 2, hold: '200ms',
        location });
      quiet.p.answer = ((usual) => (request) => Object.assign(usual(request),
        { headers }))(quiet.p.answer);

      await t.test(`${key}: held, released, siblings`, async () => {
        const batch = new Batch(scene, 2);
        await batch.ask({ headers: origin });
        const first = batch.continue(batch.results([0]), { headers: origin });
        assert.deepEqual(corsOf((await first.head).headers), cors);
        const second = batch.continue(batch.results([1]),
          { headers: origin });
        const ends = await Promise.all([first, second].map(told));
        const words = ends.map(({ word }) => word);
        assert.ok(words.includes('final'), `${words}`);
        for (const one of [first, second]) {
          assert.deepEqual(corsOf((await one.head).headers), cors);
        }
        batch.released();
      });
      await t.test(`${key}: hold expired`, async () => {
        const batch = new Batch(quiet, 2);
        await batch.ask({ headers: origin });
        const first = batch.continue(batch.results([0]), { headers: origin });
        assert.equal((await told(first)).word,
          dialects[key].bounces ?? '409');
        assert.deepEqual(corsOf((await first.head).headers), cors);
      });
      await t.test(`${key}: unknown batch: silent until the end`, async () => {
        const batch = new Batch(scene, 2);
        const silent = batch.continue(batch.results([0]),
          { headers: origin });
        const spoken = batch.continue(batch.results([0]));
        await spoken.until((text) => text.startsWith(':'));
        let headed = false;
        silent.head.then(() => { headed = true; });
        await pause(150);
        assert.equal(headed, false);
        const { word } = await told(silent);
        assert.equal(word, dialects[key].bounces ?? '409');
        await told(spoken);
      });
    }
  });
}

/* One batch of two through a configuration with internal redirects. */
async function redirected(t, server, { answer, more } = {}) {
  const p = await provider(t, 'openai_chat');
  const n = await nginx(t, { upstream: p.port, workers: 2, level: 'info',
    http: 'upstream dead { server 127.0.0.1:1; }',
    server: `chat openai_chat; chat_hold 5s; proxy_buffering off;
      proxy_http_version 1.1; proxy_set_header Connection "";
      ${server}`, locations: more ?? '' });
  const dialect = { ...dialects.openai_chat };
  const scene = { p, n, dialect, batches: new Map() };
  p.answer = answer(scene);
  const batch = new Batch(scene, 2);
  const first = batch.continue(batch.results([0]));
  await held(scene, batch, [first]);
  const second = batch.continue(batch.results([1]));
  const ends = await Promise.all([first, second].map(told));
  const lines = await until(() => {
    const log = n.accessLog();
    return log.length === 2 && log;
  });
  return { scene, batch, words: ends.map(({ word }) => word).sort(), ends,
    attempts: lines.map(({ attempt }) => attempt).sort() };
}

const words = (scene) => (request) =>
  sse(scene.dialect.final(`done ${request.headers['x-batch']}`));

live('s105: an internal redirect is one request', async (t) => {
  await t.test('try_files', async (t2) => {
    const it = await redirected(t2, `root /nonexistent;
      location / { try_files $uri @app; }
      location @app { proxy_pass http://provider; }`, { answer: words });
    assert.deepEqual(it.words, ['final', 'final']);
    assert.deepEqual(it.attempts, ['0', '1']);
    it.batch.released(1);
  });

  await t.test('error_page to a named location: nothing sent', async (t2) => {
    const it = await redirected(t2, `
      location / { proxy_pass http://dead; error_page 502 = @app; }
      location @app { proxy_pass http://provider; }`, { answer: words });
    assert.deepEqual(it.words, ['final', 'final']);
    assert.deepEqual(it.attempts, ['0', '1']);
    it.batch.released(1);
  });

  await t.test('proxy_intercept_errors and a fallback', async (t2) => {
    const it = await redirected(t2, `
      location / { proxy_pass http://provider; proxy_intercept_errors on;
        error_page 503 = @other; }
      location @other { proxy_pass http://provider;
        proxy_set_header x-fallback 1; }`, { answer: (scene) => (request) =>
      (request.headers['x-fallback'] ? words(scene)(request)
        : json(503, { error: { message: 'no' } })) });
    assert.deepEqual(it.words, ['final', 'final']);
    assert.deepEqual(it.attempts, ['0', '1']);
    it.batch.released(2);
  });

  await t.test('proxy_intercept_errors and a page', async (t2) => {
    const it = await redirected(t2, `
      location / { proxy_pass http://provider; proxy_intercept_errors on;
        error_page 503 /sorry; }
      location = /sorry { internal; return 503 "sorry"; }`,
    { answer: () => () => json(503, { error: { message: 'no' } }) });
    assert.deepEqual(it.words, ['503', '503']);
    it.batch.released(1);
  });

  await t.test('error_page that turns a failure into a 200', async (t2) => {
    const it = await redirected(t2, `
      location / { proxy_pass http://dead; error_page 502 =200 /sorry; }
      location = /sorry { internal; default_type application/json;
        return 200 "{}"; }`, { answer: words }).catch((error) => error);
    /* The claimant gets this page as its answer, whatever it contains. */
    assert.ok(!/waited/.test(it.message), it.message);
  });
});

live('s94: a client\'s X-Chat- headers do not go upstream', async (t) => {
  const p = await provider(t, null);
  const n = await nginx(t, { upstream: p.port });
  p.answer = () => json(200, {});
  const forged = { 'x-chat-state': 'mine', 'X-CHAT-Worker': '1',
    'x-chatter': 'kept' };
  for (const http2 of [false, true]) {
    const port = http2 ? n.port2 : n.port;
    await post(port, '/v1/chat/completions', dialects.openai_chat.fresh(),
      forged, { http2 }).text();
    await post(port, '/other', 'x', { ...forged,
      'content-type': 'text/plain' }, { http2 }).text();
  }
  await get(n.port, '/other', forged).text();
  assert.equal(p.requests.length, 5);
  for (const { headers } of p.requests) {
    assert.ok(!headers['x-chat-state'], headers['x-chat-state']);
    assert.ok(!headers['x-chat-worker']);
    assert.equal(headers['x-chatter'], 'kept');
  }
});
