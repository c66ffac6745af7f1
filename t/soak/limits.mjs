/*
 * limits.mjs: load at the limits: many held requests, streams, open batches;
 * a full Redis, no free connection, one hot stream beside others.
 *
 * node t/soak/limits.mjs [--scale=1] [NAME...]
 *
 * The clients and the provider are those of the benchmark (sink.c, source.c).
 * --scale=0.1 does a tenth of each. Prints a row for each case, and fails if
 * an answer is missing or not whole, or memory is not bounded.
 */
import assert from 'node:assert/strict';
import { body, half, ids } from '../../bench/bodies.mjs';
import { frames } from '../../bench/frames.mjs';
import { provider, request, send, server, start, stream } from
  '../../bench/stage.mjs';
import { Batch, stage, told } from '../lib/batch.mjs';
import { dialects } from '../lib/dialects.mjs';
import { get, pause, until } from '../lib/harness.mjs';
import { redis } from '../lib/redis/redis.mjs';

const { path } = dialects.openai_chat;
const args = process.argv.slice(2);
const scale = Number(args.find((arg) => arg.startsWith('--scale='))?.slice(8)
  ?? 1);
const some = (n) => Math.max(1, Math.round(n * scale));
/* A busy machine must not break a stream: it is late, and whole. */
const lines = `chat_hold 20m grace=20m;
  chat_limits held=20000 held_bytes=1024m;
  proxy_read_timeout 10m; proxy_send_timeout 10m; send_timeout 10m;`;

const status = async (it) =>
  JSON.parse(await get(it.port, '/status').text());
const held = async (it) => (await status(it)).holds.now;
const mb = (bytes) => `${(bytes / 1e6).toFixed(0)} MB`;
const heaviest = (it) => Math.max(...it.workers().map((pid) =>
  it.memory(pid)));

/* Requests with one of two results; #SERIAL# makes each its own batch. */
const halves = (at) => request(`limits-${at}`, { path, query: 'f=short',
  tenant: 'limits', body: body('chat', 2, half(ids(2), at)) });

/* count requests from a serial number on, over so many connections. */
const sink = (t, it, file, count, { connections = count, from = 1,
  ramp = 100 } = {}) => start(t, 'sink', it.port, file, connections,
  Math.ceil(count / connections), ramp, from);
const whole = async (clients) => JSON.parse(await clients.next()).whole;

/* The other result of each batch, over 50 connections. */
async function release(t, it, count) {
  const connections = Math.min(50, count);
  const times = Math.ceil(count / connections);
  const clients = sink(t, it, halves(1), connections * times,
    { connections });
  assert.equal(await whole(clients), connections * times);
}

async function manyHeld(t, upstream) {
  const n = some(200) * 50;
  const it = await server(t, { upstream, lines, workers: 2,
    store: 'shm:256m' });
  const before = heaviest(it);
  const waiting = sink(t, it, halves(0), n);
  await until(async () => await held(it) === n, 60000, `${n} holds`);
  const grown = heaviest(it) - before;
  const since = Date.now();
  await release(t, it, n);
  assert.equal(await whole(waiting), n);
  assert.equal(await held(it), 0);
  return [`${n} held and released`, `each answered; ${mb(grown)} more in the `
    + `larger worker; released in ${((Date.now() - since) / 1000).toFixed()} s`];
}

async function manyStreams(t, upstream) {
  const [n, holds, events] = [some(2000), some(10) * 50, 500];
  const it = await server(t, { upstream, lines, workers: 2,
    store: 'shm:256m' });
  const waiting = sink(t, it, halves(0), holds);
  await until(async () => await held(it) === holds, 60000, `${holds} holds`);
  const text = stream('limits-paced',
    frames('openai_chat', 'text', events).events);
  const file = request('limits-paced', { path, tenant: 'limits',
    query: `f=${text}&us=20000`, body: body('chat', 2) });
  const one = await send(t, it.port, file, { connections: n, ramp: 500 });
  await release(t, it, holds);
  assert.equal(await whole(waiting), holds);
  return [`${n} streams of ${events} events at 50/s beside ${holds} holds`,
    `each whole; ${(one.ms / 1000).toFixed(1)} s, of which the pace takes ${
      events / 50} s`];
}

async function manyBatches(t, upstream) {
  const [rounds, n] = [20, some(100) * 50];
  const it = await server(t, { upstream, lines, workers: 2,
    store: 'shm:512m' });
  for (let round = 0; round < rounds; round++) {
    const waiting = sink(t, it, halves(0), n, { from: 1 + round * n });
    await until(async () => await held(it) === n, 60000, `${n} holds`);
    waiting.child.kill();
    await until(async () => await held(it) === 0, 60000, 'their end');
  }
  const { store } = await status(it);
  const late = some(20) * 50;
  await release(t, it, late);
  return [`${rounds * n} open batches`, `${mb(store.zone_used)} of the zone; `
    + `the first ${late} were then completed`];
}

async function hot(t, upstream) {
  const n = some(500);
  const it = await server(t, { upstream, lines, workers: 1 });
  const { events } = frames('openai_chat', 'text', 20000);
  const size = Buffer.byteLength(events.join(''));
  const times = Math.ceil(some(100e6) / size);
  const big = request('limits-hot', { path, tenant: 'limits',
    query: `f=${stream('limits-hot', events)}`, body: body('chat', 2) });
  const paced = request('limits-beside', { path, tenant: 'limits',
    body: body('chat', 2), query: `f=${stream('limits-beside',
      frames('openai_chat', 'text', 100).events)}&us=50000` });
  await send(t, it.port, big);
  const before = heaviest(it);
  const [fast, one] = await Promise.all([
    send(t, it.port, big, { times }),
    send(t, it.port, paced, { connections: n, ramp: 1000 })]);
  const grown = heaviest(it) - before;
  assert.ok(grown < 64e6, `the worker grew by ${grown}`);
  return [`${mb(size * times)} on one connection beside ${n} streams`,
    `each whole; ${(fast.ms / 1000).toFixed(1)} s; first byte of the others `
    + `after ${one.p50.toFixed()} µs (p50), ${one.p99.toFixed()} µs (p99)`];
}

/* Held requests stay, and are released once a connection is free. */
async function connections(t) {
  const scene = await stage(t, 'openai_chat', { connections: 64 });
  scene.n.allow(/64 worker_connections are not enough/);
  const batches = Array.from({ length: 30 }, () => new Batch(scene, 2));
  const waiting = [];
  for (const batch of batches) {
    await batch.ask();
  }
  for (const batch of batches) {
    waiting.push(batch.continue(batch.results([0])));
    await waiting.at(-1).sent;
  }
  const idle = Array.from({ length: 60 }, () => {
    const batch = new Batch(scene, 2);
    return batch.continue(batch.results([0]));
  });
  await until(() => /are not enough/.test(scene.n.errorLog()), 10000,
    'the limit');
  idle.forEach((answer) => answer.abort());
  await pause(500);
  for (const [i, batch] of batches.entries()) {
    assert.equal((await told(batch.continue(batch.results([1])))).word,
      'final');
    assert.equal((await told(waiting[i])).word, 'final');
    batch.released();
  }
  return ['no free worker_connections, 30 held', 'each released afterwards'];
}

/* noeviction: incomplete requests are refused, complete ones pass. */
async function fullRedis(t) {
  const server1 = await redis(t);
  const scene = await stage(t, 'openai_chat', { connects: true, hold: '60s',
    store: `${server1.url()} timeout=2s` });
  const first = new Batch(scene, 2);
  await first.ask();
  const waiting = first.continue(first.results([0]));
  await waiting.sent;
  await pause(500);
  await server1.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
  await server1.command('CONFIG', 'SET', 'maxmemory', '1');
  const other = new Batch(scene, 2);
  await other.ask();
  assert.equal((await told(other.continue(other.results([0])))).word, '503');
  assert.equal((await told(other.continue(other.results()))).word, 'final');
  assert.equal(first.upstream().length, 0);
  await server1.command('CONFIG', 'SET', 'maxmemory', '0');
  assert.equal((await told(first.continue(first.results([1])))).word,
    'final');
  assert.equal((await told(waiting)).word, 'final');
  first.released();
  return ['a full Redis (`noeviction`)', 'an incomplete request gets 503, a '
    + 'complete one passes, a held one is released later'];
}

const cases = { held: manyHeld, streams: manyStreams, batches: manyBatches,
  hot, connections, redis: fullRedis };
const wanted = args.filter((arg) => !arg.startsWith('--'));

for (const [name, play] of Object.entries(cases)) {
  if (wanted.length && !wanted.includes(name)) {
    continue;
  }
  const stops = [];
  const t = { after: (stop) => stops.push(stop), diagnostic: () => {} };
  try {
    const upstream = await provider(t);
    stream('short', frames('openai_chat', 'text', 2).events);
    const cells = await play(t, upstream);
    console.log(`| ${cells.join(' | ')} |`);
    console.log(`ok - limits ${name}`);
  } catch (error) {
    console.log(`not ok - limits ${name}`);
    console.error(error);
    process.exitCode = 1;
  }
  for (const stop of stops.reverse()) {
    await stop();
  }
}
process.exit();
