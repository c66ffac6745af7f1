/*
 * whole_answers.test.mjs: what the last read of the upstream brings leaves in
 * one write with the end of the answer; all before it leaves at once.
 *
 * A write is seen as a record of TLS 1.2: NGINX makes one of each write of up
 * to 16 KB.
 *
 * Suite: asan, plain.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import net from 'node:net';
import { test } from 'node:test';
import tls from 'node:tls';
import { gate, nginx, pause, post, unbuilt, until } from '../lib/harness.mjs';
import { certificates } from '../lib/certificates.mjs';
import { dialects } from '../lib/dialects.mjs';
import { chunk, head, upstream } from '../lib/raw.mjs';
import { freePorts } from '../lib/wait.mjs';

const { openai_chat: chat } = dialects;
const stream = { 'Content-Type': 'text/event-stream' };
const text = chat.final('The station reports rain').join('');
const events = text.match(/[^]*?\n\n/g);
const chunked = head({ ...stream, 'Transfer-Encoding': 'chunked' });
const sized = (body) =>
  head({ ...stream, 'Content-Length': Buffer.byteLength(body) });

/* The types of the TLS records in these bytes; 23: application data. */
function records(bytes) {
  const types = [];
  let at = 0;
  while (at + 5 <= bytes.length) {
    types.push(bytes[at]);
    at += 5 + bytes.readUInt16BE(at + 3);
  }
  return types;
}

/* The body of a chunked answer that has no CR in its text. */
const body = (answer) => answer.slice(answer.indexOf('\r\n\r\n') + 2)
  .split(/\r\n[0-9a-f]+\r\n/).join('').trimEnd().concat('\n\n');

const asked = JSON.stringify(chat.fresh());
const request = `POST ${chat.path} HTTP/1.1\r\nHost: localhost\r\n`
  + 'Connection: close\r\nContent-Type: application/json\r\n'
  + `Content-Length: ${Buffer.byteLength(asked)}\r\n\r\n${asked}`;

/* Sends a request over TLS, and reads what comes. */
async function ask(t, port) {
  let bytes = Buffer.alloc(0);
  const relay = net.createServer((socket) => {
    const server = net.connect(port, '127.0.0.1');
    socket.pipe(server).on('data', (piece) => {
      bytes = Buffer.concat([bytes, piece]);
    }).pipe(socket);
  });
  await new Promise((resolve) => { relay.listen(0, '127.0.0.1', resolve); });
  const socket = tls.connect({ port: relay.address().port, host: '127.0.0.1',
    ca: readFileSync(certificates().ca), maxVersion: 'TLSv1.2' });
  t.after(() => { socket.destroy(); relay.close(); });
  const answer = { text: '', closed: false,
    writes: () => records(bytes).filter((type) => type === 23).length };
  socket.setEncoding('utf8').on('data', (piece) => { answer.text += piece; })
    .on('end', () => { answer.closed = true; });
  socket.write(request);
  return answer;
}

async function stage(t, script, lines = '') {
  const up = await upstream(t, script);
  const { cert, key } = certificates();
  const [port] = await freePorts(1);
  const n = await nginx(t, { upstream: up.port,
    server: `listen 127.0.0.1:${port} ssl; ssl_certificate ${cert};
      ssl_certificate_key ${key};`,
    location: `proxy_buffering off; ${lines}` });
  return { n, port };
}

const wholes = {
  'in a chunk': chunked + chunk(text) + chunk(''),
  'in many chunks': chunked + events.map(chunk).join('') + chunk(''),
  'with a Content-Length': sized(text) + text,
};

for (const [name, bytes] of Object.entries(wholes)) {
  test(`an answer in one read leaves in one write: ${name}`,
    { skip: unbuilt }, async (t) => {
      const { port } = await stage(t, (socket) => socket.write(bytes));
      const answer = await ask(t, port);
      await until(() => answer.closed);
      assert.equal(body(answer.text), text);
      assert.equal(answer.writes(), 1);
    });
}

test('events before the last read leave at once', { skip: unbuilt },
  async (t) => {
    const more = gate();
    const { port } = await stage(t, async (socket) => {
      socket.write(chunked + chunk(events[0]));
      await more;
      socket.write(chunk(events.slice(1).join('')) + chunk(''));
    });
    const answer = await ask(t, port);
    await until(() => answer.text.includes(events[0]));
    more.open();
    await until(() => answer.closed);
    assert.equal(body(answer.text), text);
    assert.equal(answer.writes(), 2);
  });

test('an answer that waits for an addition before it comes once',
  { skip: unbuilt }, async (t) => {
    const sent = gate();
    const up = await upstream(t, async (socket, { url }) => {
      if (url === '/before') {
        await sent;
        socket.write(`${head({ 'Content-Length': 8 })}: first\n`);
        return;
      }
      socket.write(sized(text));
      await pause(100);
      socket.write(text);
      await pause(100);
      sent.open();
    });
    const n = await nginx(t, { upstream: up.port,
      location: 'add_before_body /before; addition_types text/event-stream;',
      server: 'location = /before { proxy_pass http://provider; }' });
    const answer = post(n.port, chat.path, chat.fresh());
    assert.equal(await answer.text(), `: first\n${text}`);
  });

test('a client that reads late gets all of a long answer', { skip: unbuilt },
  async (t) => {
    const long = text.repeat(40000) + text;
    const { n } = await stage(t, (socket) => socket.write(sized(long) + long));
    const socket = net.connect(n.port, '127.0.0.1').pause();
    t.after(() => socket.destroy());
    let got = '';
    socket.setEncoding('utf8').on('data', (piece) => { got += piece; });
    socket.pause().write(request);
    await pause(300);
    socket.resume();
    await until(() => socket.readableEnded);
    assert.ok(body(got) === long, `${got.length} bytes`);
  });

test('a client that has shut its side gets all of a long answer',
  { skip: unbuilt }, async (t) => {
    const long = text.repeat(5000);
    const up = await upstream(t, async (socket) => {
      socket.write(sized(long) + long.slice(0, -500000));
      await pause(200);
      socket.write(long.slice(-500000));
    });
    const [port] = await freePorts(1);
    await nginx(t, { upstream: up.port,
      server: `listen 127.0.0.1:${port} sndbuf=8k;`,
      location: `proxy_buffering off; proxy_ignore_client_abort on;
        proxy_buffer_size 4m; proxy_buffers 3 4m;` });
    const socket = net.connect({ port, host: '127.0.0.1',
      allowHalfOpen: true }).pause();
    t.after(() => socket.destroy());
    let got = '';
    socket.setEncoding('utf8').on('data', (piece) => { got += piece; });
    socket.pause().end(request.replace('HTTP/1.1', 'HTTP/1.0'));
    await pause(500);
    socket.resume();
    await until(() => socket.readableEnded);
    assert.equal(got.length - got.indexOf('\r\n\r\n') - 4, long.length);
  });
