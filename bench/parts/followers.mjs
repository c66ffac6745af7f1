/*
 * followers.mjs: how late an event reaches a thousand followers of one stream.
 *
 * All post the same results; one request goes upstream, the others follow its
 * stream. An event's latency is from the provider's write to a client's
 * receipt. Provider and clients are one process on NGINX's machine, so it
 * includes their own time for a thousand sockets.
 */
import net from 'node:net';
import { pause, until } from '../../t/lib/harness.mjs';
import { Batch, scene } from '../../t/lib/batch.mjs';
import { provider, sse } from '../../t/lib/provider.mjs';
import { quantile } from '../measure.mjs';
import { fixed, table } from '../report.mjs';
import { newStore, server } from '../stage.mjs';

/* A cheap client: it records the arrival of each event. */
class Follower {
  constructor(port, request, seen) {
    this.bytes = 0;
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

/* An answer; after go() each event notes the time of its write. */
function ticking(dialect, events, ms) {
  const written = [];
  let go;
  const ready = new Promise((resolve) => { go = resolve; });
  const tick = (nr) => `data: ${JSON.stringify({ type: 'text-delta', id: 't1',
    delta: `tick ${nr}. ${'x'.repeat(80)}` })}\n\n`;
  const whole = dialect.final('');
  const answer = async () => {
    await ready;
    return sse([...whole.slice(0, 3),
      ...Array.from({ length: events }, (_, nr) => [() => pause(ms),
        () => { written[nr] = performance.now(); }, tick(nr)]).flat(),
      ...whole.slice(4)]);
  };
  return { answer, go, written };
}

async function play(bench, name) {
  const [followers, events, ms] = bench.pick([50, 10, 20], [1000, 50, 200]);
  const { store, server: redis } = await newStore(bench,
    name === 'shm' ? 'shm:64m' : name);
  const p = await provider(bench, 'ai_sdk');
  const n = await server(bench, { upstream: p.port, workers: 2, store, redis,
    /* Twice as many requests as calls may wait for one batch. */
    lines: 'chat_hold 60s grace=60s; chat_limits calls=1024;' });
  const it = scene('ai_sdk', p, n);
  const batch = new Batch(it, 2);
  await batch.ask();

  const { answer, go, written } = ticking(it.dialect, events, ms);
  p.answer = answer;
  const body = JSON.stringify(batch.body(batch.results()));
  const request = `POST ${it.dialect.path} HTTP/1.1\r\nHost: x\r\n`
    + 'Authorization: Bearer bench\r\nContent-Type: application/json\r\n'
    + `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
  const latencies = [];
  const seen = (nr, now) => latencies.push(now - written[nr]);
  const clients = [];
  for (let i = 0; i <= followers; i++) {
    clients.push(new Follower(n.port, request, seen));
    await clients.at(-1).sent;
    if (i === 0) {
      await until(() => p.continuations().length === 1);
    }
  }
  await pause(bench.pick(200, 1000));
  go();
  await until(() => clients.every(({ ended }) => ended), 60000, 'the end');
  clients.forEach(({ socket }) => socket.destroy());
  if (p.continuations().length !== 1) {
    throw new Error(`${p.continuations().length} requests went upstream`);
  }
  if (clients.some(({ bytes }) => bytes < events * 80)) {
    throw new Error('a client has not all of the stream');
  }
  const late = [0.5, 0.99, 1].map((q) => quantile(latencies, q));
  bench.figure(`followers/${name}, p99`, late[1], 'ms', { goal: 100 });
  return [name, followers, latencies.length, ...late.map((one) =>
    fixed(one, 1))];
}

export default { title: 'Followers', async run(bench) {
  const rows = [await play(bench, 'shm'), await play(bench, 'redis')];
  return `Two workers, an event of 140 bytes every ${bench.pick(20, 200)} ms.
Provider and clients are one process of Node, which shares the cores with
NGINX.

${table(['store', 'followers', 'events that came', 'p50, ms', 'p99, ms',
    'most, ms'], rows)}`;
} };
