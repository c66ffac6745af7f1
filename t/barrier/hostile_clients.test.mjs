/*
 * hostile_clients.test.mjs: clients that send wrong lengths, send slowly,
 * pipeline, or disconnect at any stage.
 */
import assert from 'node:assert/strict';
import net from 'node:net';
import { gate, post, until } from '../lib/harness.mjs';
import { handled } from '../lib/handled.mjs';
import { open } from '../lib/hostile.mjs';
import { Batch, stage, told } from '../lib/batch.mjs';
import { dialects } from '../lib/dialects.mjs';
import { held, live, stop } from '../lib/hold.mjs';
import { sse } from '../lib/provider.mjs';

const keys = Object.keys(dialects);

/*
 * A client that writes bytes. done: all received bytes once the server closes.
 */
function raw(port) {
  const socket = net.connect(port, '127.0.0.1');
  const it = { socket, bytes: Buffer.alloc(0) };
  it.done = new Promise((resolve) => {
    socket.on('close', () => resolve(it.bytes.toString()));
  });
  socket.on('error', () => {});
  socket.on('data', (piece) => {
    it.bytes = Buffer.concat([it.bytes, piece]);
  });
  it.write = (bytes) => new Promise((resolve) => {
    socket.write(bytes, () => resolve());
  });
  return it;
}

const head = (path, headers) => `POST ${path} HTTP/1.1\r\nHost: x\r\n`
  + 'Content-Type: application/json\r\nAuthorization: Bearer tester\r\n'
  + `${Object.entries(headers)
    .map(([key, value]) => `${key}: ${value}\r\n`).join('')}\r\n`;

live('wrong lengths: refused or closed', async (t) => {
  const { openai_chat: chat } = dialects;
  const { p, n } = await open(t, '', { chat: 'openai_chat' });
  const body = JSON.stringify(chat.fresh());
  const length = Buffer.byteLength(body);
  await t.test('the length is too large', async () => {
    const client = raw(n.port);
    await client.write(head(chat.path, { 'Content-Length': length + 10 })
      + body);
    client.socket.end();
    await client.done;
    assert.equal(p.requests.length, 0);
  });
  await t.test('the length is too small', async () => {
    const client = raw(n.port);
    await client.write(head(chat.path, { 'Content-Length': 5 }) + body);
    const text = await client.done;
    assert.equal(String(p.requests[0].raw), body.slice(0, 5));
    assert.match(text, /^HTTP\/1.1 200 .*HTTP\/1.1 400 /s);
  });
  for (const [name, chunks] of Object.entries({
    'no number': 'zz\r\nabc\r\n0\r\n\r\n', 'negative': '-5\r\nabcde\r\n',
    'huge': 'ffffffffffffffffff\r\nabc\r\n', 'no end': '5\r\nab' })) {
    await t.test(`chunks: ${name}`, async () => {
      const { length: before } = p.requests;
      const client = raw(n.port);
      await client.write(head(chat.path, { 'Transfer-Encoding': 'chunked' })
        + chunks);
      client.socket.end();
      await client.done;
      assert.equal(p.requests.length, before);
    });
  }
  await t.test('both a length and chunks', async () => {
    const { length: before } = p.requests;
    const client = raw(n.port);
    await client.write(head(chat.path, { 'Content-Length': 5,
      'Transfer-Encoding': 'chunked' })
      + `${length.toString(16)}\r\n${body}\r\n0\r\n\r\n`);
    client.socket.end();
    await client.done;
    assert.ok(p.requests.slice(before)
      .every((request) => String(request.raw) === body));
  });
});

live('bodies that arrive slowly', async (t) => {
  const scene = await stage(t, 'ai_sdk', { workers: 2, hold: '20s' });
  const batch = new Batch(scene, 2);
  await batch.ask();
  const first = batch.continue(batch.results([0]));
  await held(batch, first);
  const text = JSON.stringify(batch.body(batch.results([1])));
  const client = raw(scene.n.port);
  await client.write(head(batch.dialect.path, { 'x-batch': batch.key,
    Connection: 'close', 'Content-Length': Buffer.byteLength(text) }));
  for (let i = 0; i < text.length; i += 16) {
    await client.write(text.slice(i, i + 16));
    await new Promise((resolve) => { setImmediate(resolve); });
  }
  await told(first);
  await client.done;
  batch.released();
});

live('clients that disconnect at every stage', async (t) => {
  for (const key of keys.filter((one) => !dialects[one].interrupts)) {
    await t.test(key, async (t2) => {
      const scene = await stage(t2, key, { workers: 2,
        hold: '20s heartbeat=50ms',
        server: `location /early { chat ${dialects[key].name};
          chat_hold 20s grace=10ms heartbeat=20ms;
          proxy_pass http://provider; }` });
      const { n, p, dialect } = scene;
      const pids = n.workers();
      const batch = new Batch(scene, 2);
      await batch.ask();
      const text = JSON.stringify(batch.body(batch.results([0])));
      const header = (path = dialect.path) => head(path, { ...dialect.headers,
        'x-batch': batch.key, 'Content-Length': Buffer.byteLength(text) });
      const stages = {
        'nothing sent': '', 'in the header': header().slice(0, 30),
        'before the body': header(),
        'in the body': header() + text.slice(0, 9),
        'before the end': header() + text.slice(0, -1),
        'after the body': header() + text };
      for (const [name, bytes] of Object.entries(stages)) {
        for (const how of ['end', 'resetAndDestroy', 'destroy']) {
          const client = raw(n.port);
          await client.write(bytes || '\r\n');
          if (name === 'after the body' && how !== 'destroy') {
            await handled(n, [], 30); /* The request is held by now. */
          }
          client.socket[how]();
          await client.done;
        }
      }
      const early = batch.post(text);
      early.abort();
      const { from } = batch;
      const silent = post(n.port, '/early', text, { ...dialect.headers,
        'x-batch': batch.key });
      await silent.until((all) => all.includes('\n\n:'));
      silent.abort();

      /* During the answer: before its header, at its first byte, later. */
      const { answer } = scene.p;
      const go = gate();
      for (const until2 of [null, 0, 2]) {
        p.answer = () => sse([...(until2 === null ? [go] : []),
          ...from.slice(0, 3)], { end: 'open' });
        const { length } = p.requests;
        const fresh = batch.post(dialect.fresh());
        const request = await p.arrival(length + 1);
        if (until2 !== null) {
          await fresh.until((all) => all.includes(from[until2]));
        }
        fresh.abort();
        if (until2 !== null) {
          await request.closed;
        }
      }
      go.open();
      p.answer = answer;
      const last = await told(batch.continue(batch.results([1])));
      assert.equal(last.word, 'final', last.text);
      batch.released();
      assert.deepEqual(n.workers(), pids);
      await until(() => !n.errorLog().includes('[crit]'));
    });
  }
});

live('a client resets before the module has read its long request',
  async (t) => {
    const scene = await stage(t, 'anthropic', { workers: 1 });
    const { n, dialect } = scene;
    const batch = new Batch(scene, 2);
    await batch.ask();
    await batch.continue(batch.results()).text();
    const client = raw(n.port);
    await client.write('GET /x HTTP/1.1\r\nHost: x\r\n\r\n');
    await until(() => client.bytes.length > 0);
    const [pid] = n.workers();
    await stop(pid);
    const late = ' '.repeat(20000)
      + JSON.stringify(batch.body(batch.results([0])));
    await client.write(head(dialect.path, { ...dialect.headers,
      'x-batch': batch.key, 'Content-Length': late.length }) + late);
    client.socket.resetAndDestroy();
    await client.done;
    process.kill(pid, 'SIGCONT');
    const said = () => n.accessLog().some(({ verdict }) =>
      verdict === 'conflict');
    await until(said, 5000, 'the late request was not answered');
  });

live('pipelined requests', async (t) => {
  const scene = await stage(t, 'openai_chat', { workers: 2, hold: '20s' });
  const { n, dialect } = scene;
  const batch = new Batch(scene, 2);
  await batch.ask();
  const request = (body, more) => {
    const text = JSON.stringify(body);
    return head(dialect.path, { 'x-batch': batch.key,
      'Content-Length': Buffer.byteLength(text), ...more }) + text;
  };
  const client = raw(n.port);
  await client.write(request(batch.body(batch.results([0])))
    + request(batch.body(batch.results()), { Connection: 'close' }));
  await handled(n, [], 150);
  assert.equal(batch.upstream().length, 0, 'the second request did not wait');
  assert.equal(client.bytes.length, 0);
  const other = await told(batch.continue(batch.results([1])));
  const text = await client.done;
  assert.equal(text.match(/HTTP\/1\.1 200/g)?.length, 2, text);
  assert.ok(['final', 'empty'].includes(other.word), other.word);
  assert.ok(batch.upstream().every(({ refused }) => !refused));

  await t.test('garbage after a held request', async () => {
    const next = new Batch(scene, 2);
    await next.ask();
    const body = JSON.stringify(next.body(next.results([0])));
    const noisy = raw(n.port);
    await noisy.write(head(dialect.path, { 'x-batch': next.key,
      'Content-Length': Buffer.byteLength(body) }) + body
      + 'GARBAGE\0\r\n\r\n'.repeat(1000));
    await handled(n);
    await told(next.continue(next.results([1])));
    assert.match(await noisy.done, /HTTP\/1\.1 400/);
    next.released();
  });
});
