/*
 * clients.mjs: the clients of random.mjs: any request, sent in any way.
 *
 * A request is {path, headers, bytes, key}. Each way of sending resolves when
 * its connection has ended or the client has left.
 */
import http2 from 'node:http2';
import net from 'node:net';
import { get, post } from '../lib/harness.mjs';
import { Batch } from '../lib/batch.mjs';
import { bodies, mutant } from '../lib/mutants.mjs';
import { keys, routes } from './site.mjs';
import { pause } from '../lib/wait.mjs';

const anyOf = ({ random }, list) => list[random(list.length)];

/* A batch that other clients know as well, or a new one. */
function known(it) {
  const list = [...it.noisy.values()];
  if (list.length && it.random(4)) {
    return anyOf(it, list);
  }
  const key = anyOf(it, keys);
  const batch = new Batch(it.loud[key], 1 + it.random(4));
  batch.scene = key;
  it.noisy.set(batch.key, batch);
  if (it.noisy.size > 30) {
    it.noisy.delete(it.noisy.keys().next().value);
  }
  it.loud[key].batches.clear();
  return batch;
}

/* Some of its results; rarely none, or all. */
const some = ({ random }, batch) => batch.results(
  batch.ids.map((_, i) => i).filter(() => random(3)));

/* Any request to any location with chat. */
function request(it) {
  const batch = known(it);
  const { scene: key } = batch;
  const valid = it.random(3) === 0
    ? batch.dialect.fresh({ conversation: batch.conversation })
    : batch.body(some(it, batch));
  const bytes = it.random(5) ? Buffer.from(JSON.stringify(valid))
    : mutant(it.random(2) ? valid : anyOf(it, bodies(key)), it.random);
  return { key, bytes, path: batch.dialect.path.replace('record',
    anyOf(it, routes)), headers: { ...batch.dialect.headers,
    'x-batch': batch.key, 'x-key': key } };
}

const lines = ({ path, headers }, more) => `POST ${path} HTTP/1.1\r\n`
  + 'Host: localhost\r\nAuthorization: Bearer tester\r\n'
  + 'Content-Type: application/json\r\n'
  + `${Object.entries({ ...headers, ...more }).map(([name, value]) =>
    `${name}: ${value}\r\n`).join('')}\r\n`;

const plain = (one) => Buffer.concat([
  Buffer.from(lines(one, { 'content-length': one.bytes.length })),
  one.bytes]);

/* In chunks of any size, with an odd last one now and then. */
function chunked(it, one) {
  const parts = [Buffer.from(lines(one, { 'transfer-encoding': 'chunked',
    ...(it.random(3) === 0 && { expect: '100-continue' }) }))];
  for (let at = 0; at < one.bytes.length;) {
    const piece = one.bytes.subarray(at, at += 1 + it.random(200));
    parts.push(Buffer.from(`${piece.length.toString(16)}\r\n`), piece,
      Buffer.from('\r\n'));
  }
  return Buffer.concat([...parts,
    Buffer.from(it.random(10) ? '0\r\n\r\n' : '-1\r\n')]);
}

const framed = (it, one) =>
  (it.random(2) ? plain(one) : chunked(it, one));

/* A connection; closed: resolves at its end, which comes within ms. */
function connect(it, ms = 20000) {
  const socket = net.connect(it.n.port, '127.0.0.1');
  const timer = setTimeout(() => leave(it, socket), ms);
  socket.on('error', () => {});
  const closed = new Promise((resolve) => {
    socket.on('close', () => {
      clearTimeout(timer);
      resolve();
    });
  });
  return { socket, closed };
}

const leave = ({ random }, socket) =>
  (random(2) ? socket.resetAndDestroy() : socket.destroy());

/* Several requests at once, and a part of the next one. */
async function pipeline(it) {
  const { socket, closed } = connect(it, 2000 + it.random(15000));
  const all = Array.from({ length: 2 + it.random(4) }, () =>
    framed(it, request(it)));
  const last = all.at(-1);
  all.push(last.subarray(0, it.random(last.length)));
  socket.resume();
  socket.write(Buffer.concat(all));
  if (it.random(4) === 0) {
    socket.end();
  }
  await closed;
}

/* In small pieces with pauses; cut off now and then. */
async function dribble(it) {
  const bytes = framed(it, request(it));
  const end = it.random(2) ? bytes.length : it.random(bytes.length);
  const { socket, closed } = connect(it);
  socket.resume();
  for (let at = 0; at < end && !socket.destroyed;) {
    const size = 1 + it.random(300);
    socket.write(bytes.subarray(at, Math.min(end, at + size)));
    at += size;
    await pause(it.random(30));
  }
  if (end < bytes.length) {
    leave(it, socket);
  } else {
    setTimeout(() => socket.end(), it.random(8000));
  }
  await closed;
}

/* Leaves at any byte of the answer, or reads it slowly. */
async function reader(it) {
  const { socket, closed } = connect(it);
  const slow = it.random(2);
  let left = it.random(slow ? 1e6 : 3000);
  socket.on('data', (piece) => {
    left -= piece.length;
    if (left <= 0) {
      leave(it, socket);
    } else if (slow) {
      socket.pause();
      setTimeout(() => socket.resume(), it.random(300));
    }
  });
  socket.write(framed(it, request(it)));
  await closed;
}

/* Several streams of a connection, some cancelled, or all with it. */
async function streams(it) {
  const session = http2.connect(`http://127.0.0.1:${it.n.port2}`);
  session.on('error', () => {});
  const stop = setTimeout(() => session.destroy(), 15000);
  const one = () => new Promise((resolve) => {
    const { path, headers, bytes } = request(it);
    const stream = session.request({ ':method': 'POST', ':path': path,
      authorization: 'Bearer tester', ...headers }, { endStream: false });
    stream.on('error', () => {});
    stream.on('close', resolve);
    stream.resume();
    if (it.random(4)) {
      stream.end(bytes);
    } else {
      stream.write(bytes.subarray(0, it.random(bytes.length)));
      setTimeout(() => stream.close(8), it.random(2000));
    }
    if (it.random(3) === 0) {
      setTimeout(() => stream.close(8), it.random(4000));
    }
  });
  const all = Array.from({ length: 1 + it.random(6) }, one);
  if (it.random(5) === 0) {
    setTimeout(() => session.destroy(), it.random(3000));
  }
  await Promise.all(all);
  clearTimeout(stop);
  session.close();
}

/* The client stays to the end: NGINX must end the answer. */
async function patient(it, answer = null) {
  const { path, headers, bytes } = request(it);
  const http2Too = { http2: it.random(2) === 0, chunked: it.random(4) === 0 };
  const own = answer ?? post(http2Too.http2 ? it.n.port2 : it.n.port, path,
    bytes, headers, http2Too);
  let late;
  const timer = setTimeout(() => { late = true; own.abort(); }, 90000);
  await own.body({ broken: true });
  clearTimeout(timer);
  if (late) {
    throw new Error(`no end of ${path} within 90 s`);
  }
}

async function impatient(it, answer) {
  if (it.random(3) === 0) {
    setTimeout(() => !answer.ended && answer.abort(), it.random(3000));
  }
  await patient(it, answer);
}

const places = ['', '?after=1', '?position=2', '?after=99999999'];

/* GET, DELETE of a recorded stream, anywhere in it. */
async function resume(it) {
  const { key } = known(it);
  const last = it.random(2) ? { 'last-event-id':
    it.random(2) ? `${it.random(90)}` : `${key}-${it.random(90)}` } : {};
  await impatient(it, get(it.n.port,
    `/${it.random(4) ? 'resume' : 'running'}/${key}${anyOf(it, places)}`,
    last, { method: it.random(6) ? 'GET' : 'DELETE' }));
}

/* External results: right, wrong, repeated, read, deleted. */
async function results(it) {
  const batch = known(it);
  const value = { conversation: batch.key,
    toolCallId: it.random(5) ? anyOf(it, batch.ids) : 'call_none',
    ...(it.random(2) ? { output: { x: it.random(3) } }
      : { errorText: 'no' }) };
  await impatient(it, it.random(3) ? post(it.n.port, '/results',
    it.random(3) ? value : mutant(value, it.random))
    : get(it.n.port, `/results?conversation=${batch.key}`, {},
      { method: it.random(2) ? 'GET' : 'DELETE' }));
}

const scrape = (it) => impatient(it, get(it.n.port, anyOf(it, ['/status',
  '/status?format=prometheus', '/status?conversation=x', '/stub'])));

/* The actions and their weights. */
export const actions = { pipeline: [pipeline, 4], dribble: [dribble, 3],
  reader: [reader, 4], streams: [streams, 4], patient: [patient, 6],
  resume: [resume, 4], results: [results, 3], scrape: [scrape, 1] };
