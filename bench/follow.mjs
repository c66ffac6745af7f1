/*
 * follow.mjs: many followers of one stream.
 *
 * A thousand clients post the same results; one request goes upstream, the
 * others follow its stream. An event's latency is from the provider's write to
 * a client's receipt. Provider and clients are one process on nginx's machine,
 * so it includes their own time for a thousand sockets. Memory is the growth
 * of the workers while all follow. Each store in turn. Writes the part
 * "Followers" of RESULTS.md beside this file.
 * --quick: a smoke run, which writes nothing; --followers=N, --events=N.
 */
import net from 'node:net';
import { nginx, pause, until } from '../t/lib/harness.mjs';
import { Batch, scene } from '../t/lib/batch.mjs';
import { provider, sse } from '../t/lib/provider.mjs';
import { redis } from '../t/lib/redis/redis.mjs';
import { context, number, part, quick } from './part.mjs';

const followers = number('followers', quick ? 50 : 1000);
const events = number('events', quick ? 10 : 100);
const pauseMs = quick ? 20 : 200;
const target = 100;

/* A cheap client: it records the arrival of each event. */
class Follower {
  constructor(port, request, seen) {
    this.bytes = 0;
    this.text = '';
    this.socket = net.connect(port, '127.0.0.1');
    this.socket.setEncoding('latin1').on('data', (piece) => {
      const now = performance.now();
      this.bytes += piece.length;
      for (const [, nr] of piece.matchAll(/tick (\d+)\./g)) {
        seen(Number(nr), now);
      }
      this.ended ||= piece.includes('[DONE]');
    });
    this.socket.on('error', (error) => { this.error = error; });
    this.sent = new Promise((resolve) => {
      this.socket.write(request, resolve);
    });
  }
}

const percentile = (list, share) =>
  list[Math.min(list.length - 1, Math.floor(list.length * share))];
const memory = (n) => n.workers().reduce((sum, pid) => sum + n.memory(pid), 0);

async function play(name, store) {
  const p = await provider(context, 'ai_sdk');
  const n = await nginx(context, { upstream: p.port, workers: 2,
    chat: 'ai_sdk', store, connects: name === 'redis',
    location: 'proxy_buffering off; chat_hold 60s grace=60s;' });
  const it = scene('ai_sdk', p, n);
  const batch = new Batch(it, 2);
  await batch.ask();

  const written = [];
  const latencies = [];
  let go;
  const ready = new Promise((resolve) => { go = resolve; });
  const tick = (nr) => `data: ${JSON.stringify({ type: 'text-delta', id: 't1',
    delta: `tick ${nr}. ${'x'.repeat(80)}` })}\n\n`;
  const [head, tail] = [it.dialect.final('').slice(0, 3),
    it.dialect.final('').slice(4)];
  p.answer = async () => {
    await ready;
    return sse([...head,
      ...Array.from({ length: events }, (_, nr) => [() => pause(pauseMs),
        () => { written[nr] = performance.now(); }, tick(nr)]).flat(),
      ...tail]);
  };

  const body = JSON.stringify(batch.body(batch.results()));
  const request = `POST ${it.dialect.path} HTTP/1.1\r\nHost: x\r\n`
    + 'Authorization: Bearer bench\r\nContent-Type: application/json\r\n'
    + `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
  const seen = (nr, now) => latencies.push(now - written[nr]);
  const clients = [];
  const before = memory(n);
  for (let i = 0; i <= followers; i++) {
    clients.push(new Follower(n.port, request, seen));
    await clients.at(-1).sent;
    if (i === 0) {
      await until(() => p.continuations().length === 1);
    }
  }
  await pause(quick ? 200 : 1000);
  const waiting = memory(n);
  go();
  await until(() => latencies.length >= clients.length * events / 2, 60000,
    'events');
  const following = memory(n);
  await until(() => clients.every(({ ended }) => ended), 60000, 'the end');
  clients.forEach(({ socket }) => socket.destroy());
  if (p.continuations().length !== 1
    || clients.some(({ bytes }) => bytes < events * 80)) {
    throw new Error('a client has not all of the stream');
  }
  const list = latencies.sort((a, b) => a - b);
  return { name, count: clients.length, events: list.length,
    p50: percentile(list, 0.5), p99: percentile(list, 0.99),
    most: list.at(-1), waiting: (waiting - before) / followers,
    following: (following - before) / followers };
}

const row = (one) => `| ${one.name} | ${one.count - 1} | ${one.events} | ${
  [one.p50, one.p99, one.most].map((ms) => ms.toFixed(1)).join(' | ')} | ${
  [one.waiting, one.following].map((b) => (b / 1024).toFixed(1))
    .join(' | ')} |`;

await part('Followers', 'follow.mjs', async () => {
  const server = await redis(context);
  const list = [await play('shm', 'shm:16m'),
    await play('redis', `${server.url()} timeout=2s`)];
  return `Two workers;
an event of 140 bytes every ${pauseMs} ms, ${events} of them. Wanted: an event
has reached all within ${target} ms (p99). Provider and clients are one process
of node, which shares the two cores with nginx.

| store | followers | events that came | p50, ms | p99, ms | most, ms | ${
  'KB for each that waits'} | and follows |
| --- | --- | --- | --- | --- | --- | --- | --- |
${list.map(row).join('\n')}
`;
});
