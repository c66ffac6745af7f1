/*
 * release.test.mjs: requests that are held and then go upstream.
 *
 * After the first comment the client has its 200, and the upstream's answer,
 * of any kind, is sent in its stream; without a stream everything is JSON.
 * Upstream connections that stay open meanwhile, and requests queued behind a
 * held one.
 */
import assert from 'node:assert/strict';
import net from 'node:net';
import { test } from 'node:test';
import { gate, nginx, post, unbuilt, until } from '../lib/harness.mjs';
import { handled } from '../lib/handled.mjs';
import { dialects, events, isError } from '../lib/dialects.mjs';
import { Batch, outputs, seals, stage, told } from '../lib/batch.mjs';
import { cutText } from '../lib/ends.mjs';
import { json, sse } from '../lib/provider.mjs';
import { chunk, head, upstream } from '../lib/raw.mjs';

const live = (name, play) => test(name, { skip: unbuilt }, play);
const keys = Object.keys(dialects).filter((key) =>
  !dialects[key].interrupts);

/*
 * A request that receives comments and then goes upstream: it waits for the
 * seal of the stream with the calls. Returns the answer; x-dead sends the
 * request to an unreachable upstream.
 */
async function early(t, key, { answer, http2 = false, dead, results,
  location = '' } = {}) {
  const scene = await stage(t, key, { workers: 2,
    http: `upstream dead { server 127.0.0.1:1; }
      map $http_x_dead $where { default provider; 1 dead; }`,
    locations: `location / { chat ${dialects[key].name}; 
      chat_hold 5s grace=40ms heartbeat=40ms; proxy_http_version 1.1;
      proxy_set_header Connection ""; proxy_pass http://$where; ${location} }
      location @app { proxy_http_version 1.1; proxy_pass http://provider;
        proxy_set_header Connection ""; }` });
  const batch = new Batch(scene, 2);
  const seal = gate();
  const { from } = batch;
  const tail = from.findIndex((event) => seals.test(event));
  const { answer: usual } = scene.p;
  scene.p.answer = (request) => (request.answered.length
    ? (answer ?? usual)(request, batch)
    : sse(Object.assign([...from.slice(0, tail), seal, ...from.slice(tail)],
      { id: from.id, calls: from.calls })));
  const asking = batch.post(
    batch.dialect.fresh({ conversation: batch.conversation }));
  await asking.until((text) => text.includes(from[tail - 1]));
  const held = batch.continue(results?.(batch) ?? batch.results(),
    { http2, headers: dead ? { 'x-dead': '1' } : {} });
  await held.until((text) => /^(: chat-hold\n\n){2}/.test(text));
  assert.equal(batch.upstream().length, 0);
  seal.open();
  await asking.text();
  return { scene, batch, held };
}

/* The text after the comments; only comments precede it. */
async function afterwards(answer, read = () => answer.text()) {
  const text = await read();
  const { status, headers } = await answer.head;
  assert.equal(status, 200);
  assert.match(headers['content-type'], /^text\/event-stream/);
  return /^(: chat-hold\n\n)+([^]*)$/.exec(text)[2];
}

for (const key of keys) {
  for (const http2 of [false, true]) {
    const name = `${key}, HTTP/${http2 ? 2 : 1}: after comments`;
    live(name, async (t) => {
      await t.test('a stream', async (t2) => {
        const words = dialects[key].final('done x');
        const { batch, held } = await early(t2, key, { http2,
          answer: () => sse(words) });
        assert.equal(await afterwards(held), words.join(''));
        batch.released();
      });

      await t.test('a stream of known length', async (t2) => {
        const words = dialects[key].final('done x');
        const { held } = await early(t2, key, { http2, answer: () =>
          sse(words, { headers: { 'content-length':
            String(Buffer.byteLength(words.join(''))) } }) });
        assert.equal(await afterwards(held), words.join(''));
      });

      await t.test('a stream that breaks off', async (t2) => {
        const client = gate();
        const words = dialects[key].final('done x');
        const { held, scene } = await early(t2, key, { http2, answer: () =>
          sse([...words.slice(0, 2), () => client.then(({ answer }) =>
            answer.until((text) => text.includes(words[1])))],
          { end: 'reset' }) });
        client.open({ answer: held });
        const rest = await afterwards(held, () => cutText(key, held));
        assert.ok(rest.startsWith(words.slice(0, 2).join('')));
        assert.ok(rest.includes('stream_interrupted'), rest);
        await until(() => scene.n.accessLog().some((line) =>
          line.turn_status === 'interrupted'));
      });

      await t.test('a fallback', async (t2) => {
        const { batch, held } = await early(t2, key, { http2, dead: true,
          location: 'error_page 502 = @app;' });
        assert.ok((await afterwards(held)).includes(`done ${batch.key}`));
        batch.released();
      });

      const refusals = {
        '500 with JSON': { answer: () => json(500,
          { error: { message: 'secret' } }) },
        '429 with JSON': { answer: () => json(429,
          { error: { message: 'secret' } }) },
        'HTML': { answer: () => ({ ...json(200, 'secret'),
          headers: { 'content-type': 'text/html' } }) },
        'half of a 500': { answer: () => ({ ...json(500, 'secret'),
          headers: { 'content-length': '99' }, end: 'reset' }) },
        '204': { answer: () => ({ ...json(204, ''), parts: [] }) },
        'no connection': { dead: true },
      };
      for (const [what, options] of Object.entries(refusals)) {
        await t.test(what, async (t2) => {
          const { batch, held, scene } = await early(t2, key,
            { http2, ...options });
          const rest = await afterwards(held, () => cutText(key, held));
          const list = events(rest);
          assert.equal(list.length, 1, rest);
          assert.ok(isError(list[0]), rest);
          assert.ok(rest.includes('upstream_error'), rest);
          assert.equal(/HTTP 500/.test(rest), what.includes('500'), rest);
          assert.ok(!rest.includes('secret'));
          batch.released(options.dead ? 0 : 1);
          const seen = await until(() => scene.n.accessLog().find((line) =>
            Number(line.hold_time) > 0));
          assert.equal(seen.verdict, 'released');
          assert.equal(seen.turn_status, 'failed');
        });
      }
    });
  }
}

live('after comments merged results are injected first', async (t) => {
  const { batch, held } = await early(t, 'ai_sdk', {
    results: (one) => one.results([0]) });
  /* The other result arrives after the seal. */
  const other = await told(batch.continue(batch.results([1])));
  const { text, word } = await told(held);
  const list = events(text);
  assert.ok([word, other.word].includes('final'), text);
  assert.deepEqual(outputs({ list }), [batch.ids[1]]);
  assert.match(list[0].type, /^tool-output-available$/);
  batch.released();
});

/* The JSON that a client without a stream gets. */
const whole = {
  openai_chat: {
    answer: { id: 'c', object: 'chat.completion', created: 1, model: 'm',
      choices: [{ index: 0, finish_reason: 'stop',
        message: { role: 'assistant', content: 'done' } }] },
    empty({ object, choices }) {
      assert.equal(object, 'chat.completion');
      assert.equal(choices[0].message.role, 'assistant');
      assert.equal(choices[0].message.content, '');
      assert.equal(choices[0].finish_reason, 'stop');
    } },
  openai_responses: {
    answer: { id: 'r', object: 'response', status: 'completed',
      output: [{ type: 'message' }] },
    empty({ object, status, output }) {
      assert.equal(object, 'response');
      assert.equal(status, 'completed');
      assert.deepEqual(output, []);
    } },
  anthropic: {
    answer: { id: 'm', type: 'message', role: 'assistant',
      content: [{ type: 'text', text: 'done' }], stop_reason: 'end_turn' },
    empty: null },
};

for (const [key, { answer, empty }] of Object.entries(whole)) {
  live(`stream:false: ${key}`, async (t) => {
    const withHold = (hold) => stage(t, key, { workers: 2,
      hold: `${hold} grace=20ms heartbeat=20ms`,
      location: 'chat_record off;' });
    const scene = await withHold('20s');
    const more = { stream: false };
    const ask = (batch, at) => batch.post({ ...batch.body(batch.results(at)),
      ...more });
    scene.p.answer = () => json(200, answer);

    await t.test('held silently, released, and its sibling', async () => {
      const batch = new Batch(scene, 2);
      const first = ask(batch, [0]);
      let headed = false;
      first.head.then(() => { headed = true; });
      await handled(batch, [first], 150);
      assert.equal(headed, false, 'no comments');
      const second = ask(batch, [1]);
      const ends = await Promise.all([first, second].map(async (one) => ({
        ...await one.head, body: JSON.parse(await one.text()) })));
      const released = ends.filter(({ body }) =>
        JSON.stringify(body) === JSON.stringify(answer));
      assert.equal(released.length, 1);
      const [sibling] = ends.filter((end) => end !== released[0]);
      assert.match(sibling.headers['content-type'], /^application\/json/);
      if (empty) {
        assert.equal(sibling.status, 200);
        empty(sibling.body);
      } else {
        assert.equal(sibling.status, 409);
        assert.equal(sibling.headers['x-should-retry'], 'false');
        assert.equal(sibling.body.type, 'error');
      }
      assert.equal(scene.p.continuations().length, 1);
      const log = await until(() => scene.n.accessLog().length === 2
        && scene.n.accessLog());
      assert.deepEqual(log.map(({ turn_status: word }) => word).sort(),
        ['', 'finished']);
    });

    await t.test('hold expired', async () => {
      const batch = new Batch(await withHold('1s'), 2);
      const first = ask(batch, [0]);
      const { status, headers } = await first.head;
      assert.equal(status, 409);
      assert.match(headers['content-type'], /^application\/json/);
      assert.ok(Number(headers['retry-after']) > 0);
      const text = await first.text();
      assert.ok(JSON.parse(text).error);
      assert.ok(text.includes(batch.ids[1]), text);
    });
  });
}

live('upstream keepalive', async (t) => {
  const dialect = dialects.openai_chat;
  const sockets = [];
  const streamed = (text) => `${head({ 'Content-Type': 'text/event-stream',
    'Transfer-Encoding': 'chunked' })}${chunk(text)}0\r\n\r\n`;
  let play;
  const u = await upstream(t, (socket, request, number) => {
    if (!sockets.includes(socket)) {
      sockets.push(socket);
    }
    play(socket, request, number);
  });
  const n = await nginx(t, { upstream: u.port, chat: 'openai_chat',
    location: 'chat_hold 5s;' });
  const scene = { n, dialect, batches: new Map(),
    p: { continuations: () => u.requests.filter(({ raw }) =>
      raw.includes('"role":"tool"')) } };
  const final = dialect.final('done').join('');
  const send = (results) => {
    const batch = new Batch(scene, 2);
    return { batch, answer: batch.continue(results ?? batch.results()) };
  };

  await t.test('a connection serves one stream after another', async () => {
    play = (socket) => socket.write(streamed(final));
    for (let i = 0; i < 3; i++) {
      assert.equal(await send().answer.text(), final);
    }
    assert.equal(u.connections, 1);
    assert.equal(u.requests.length, 3);
  });

  await t.test('a broken connection is not used again', async () => {
    play = (socket) => socket.write(
      streamed(final).replace(/0\r\n\r\n$/, 'garbage\r\n'));
    const [closed] = sockets.slice(-1);
    const gone = new Promise((resolve) => { closed.on('close', resolve); });
    await send().answer.text({ broken: true });
    await gone;
    play = (socket) => socket.write(streamed(final));
    assert.equal(await send().answer.text(), final);
    assert.equal(u.connections, 2);
  });

  await t.test('a connection closes while the request is held', async () => {
    const batch = new Batch(scene, 2);
    const first = batch.continue(batch.results([0]));
    await handled(batch, [first]);
    const [idle] = sockets.slice(-1);
    const gone = new Promise((resolve) => { idle.on('close', resolve); });
    idle.end();
    await gone;
    const { length } = u.requests;
    const second = batch.continue(batch.results([1]));
    const texts = await Promise.all([first, second].map((one) =>
      one.text()));
    assert.ok(texts.includes(final), texts.join('\n'));
    assert.equal(u.requests.length, length + 1);
  });
});

/* The answers on one connection, chunks joined. */
function answersOf(text) {
  const list = [];
  let rest = text;
  for (;;) {
    const end = rest.indexOf('\r\n\r\n');
    if (end === -1) {
      return list;
    }
    const lines = rest.slice(0, end);
    rest = rest.slice(end + 4);
    let body = '';
    const length = /content-length: (\d+)/i.exec(lines);
    if (length) {
      body = rest.slice(0, Number(length[1]));
      rest = rest.slice(body.length);
    } else {
      for (;;) {
        const size = parseInt(rest, 16);
        const at = rest.indexOf('\r\n') + 2;
        body += rest.slice(at, at + size);
        rest = rest.slice(at + size + 2);
        if (!size) {
          break;
        }
      }
    }
    list.push({ status: Number(lines.split(' ')[1]), body });
  }
}

for (const comments of [false, true]) {
  live(`pipelined behind a held request${comments ? ', comments' : ''}`,
    async (t) => {
      const scene = await stage(t, 'openai_chat', { workers: 1,
        hold: `60s ${comments ? 'grace=30ms heartbeat=30ms' : ''}` });
      const batch = new Batch(scene, 2);
      const raw = (path, body, more) => {
        const text = JSON.stringify(body);
        return `POST ${path} HTTP/1.1\r\nHost: x\r\n${more}`
          + 'Authorization: Bearer tester\r\n'
          + 'Content-Type: application/json\r\n'
          + `x-batch: ${batch.key}\r\n`
          + `Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
      };
      const { path } = scene.dialect;
      const socket = net.connect(scene.n.port, '127.0.0.1');
      let text = '';
      socket.setEncoding('latin1').on('data', (piece) => { text += piece; });
      t.after(() => socket.destroy());
      socket.write(raw(path, batch.body(batch.results([0])), '')
        + raw(path, scene.dialect.fresh(), '')
        + raw(path, batch.body(batch.results()), 'Connection: close\r\n'));
      await (comments ? until(() => text.includes(': chat-hold'))
        : handled(scene));
      assert.equal(scene.p.requests.length, 0);
      const other = await told(batch.continue(batch.results([1])));
      await new Promise((resolve) => { socket.on('end', resolve); });
      const answers = answersOf(text);
      assert.equal(answers.length, 3, text);
      assert.deepEqual(answers.map(({ status }) => status), [200, 200, 200]);
      assert.equal(answers[1].body, batch.from.join(''));
      assert.ok(answers[0].body.includes('done') && other.word === 'final',
        'one request goes upstream, the other follows');
    });
}
