/*
 * soak.mjs: NGINX under load for a long time, with a reload every 20 seconds.
 * No binary upgrade: an NGINX with "daemon off" ignores that signal.
 *
 * node t/soak/soak.mjs [--minutes=30] [--store=shm] [--clients=20]
 *
 * Clients play batches as in chaos.test.mjs. Memory of the master, its
 * descriptors, and the memory of the store are read every 10 seconds; what
 * expires does so after a minute. Fails if a result is lost, a request is sent
 * twice or incomplete, the log has an alert, or one of these figures is higher
 * by more than a tenth and a megabyte in the last quarter than in the second.
 */
import { readFileSync, readdirSync } from 'node:fs';
import { nginx, pause } from '../lib/harness.mjs';
import { scene } from '../lib/batch.mjs';
import { seeded } from '../lib/nodes.mjs';
import { play, playing } from './play.mjs';
import { provider } from '../lib/provider.mjs';
import { redis } from '../lib/redis/redis.mjs';
import { statusLocation, statusOf } from '../lib/status.mjs';

const option = (name, usual) => process.argv.find((arg) =>
  arg.startsWith(`--${name}=`))?.slice(name.length + 3) ?? usual;
const minutes = Number(option('minutes', 30));
const clients = Number(option('clients', 20));
const kind = option('store', 'shm');

const stops = [];
const context = { after: (stop) => stops.push(stop),
  diagnostic: (text) => console.log(text) };

const rss = (pid) => Number(/VmRSS:\s+(\d+)/.exec(
  readFileSync(`/proc/${pid}/status`, 'utf8'))[1]);
const descriptors = (pid) => readdirSync(`/proc/${pid}/fd`).length;

async function storeKb(it) {
  if (it.redis) {
    const info = await it.redis.command('INFO', 'memory');
    return Number(/^used_memory:(\d+)/m.exec(info)[1]) / 1024;
  }
  return (await statusOf(it.n)).store.zone_used / 1024;
}

async function change(it) {
  while (!it.over) {
    await pause(20000);
    it.n.workers().forEach((pid) => it.gone.add(pid));
    await it.n.reload();
    it.reloads++;
  }
}

async function watch(it, samples) {
  while (!it.over) {
    const { pid } = it.n.child;
    samples.push({ batches: it.played, master: rss(pid),
      fds: descriptors(pid), store: await storeKb(it),
      workers: it.n.workers().length });
    await pause(10000);
  }
}

async function client(it, end) {
  while (Date.now() < end) {
    await play(it);
    it.played++;
    /* Or each batch searches all requests so far. */
    it.p.requests.splice(0, Math.max(0, it.p.requests.length - 2000));
    it.batches.forEach((batch, key) =>
      it.batches.size > 200 && it.batches.delete(key));
  }
}

const mean = (list) => list.reduce((sum, x) => sum + x, 0) / list.length;

/* The figures that grow, as lines. */
function growing(samples, keys) {
  const quarter = Math.floor(samples.length / 4);
  return keys.flatMap((key) => {
    const of = (from) => mean(samples.slice(from * quarter,
      (from + 1) * quarter).map((one) => one[key]));
    const [before, after] = [of(1), of(3)];
    console.log(`${key}: ${before.toFixed()} in the second quarter, ${
      after.toFixed()} in the last`);
    return after <= before * 1.1 + (key === 'fds' ? 2 : 1024) ? [] : [key];
  });
}

async function main() {
  const server = kind === 'redis' ? await redis(context) : null;
  const p = await provider(context, 'openai_chat');
  const n = await nginx(context, { upstream: p.port, workers: 2,
    chat: 'openai_chat', connects: !!server, server: statusLocation,
    store: server ? `${server.url()} timeout=2s ttl=60s` : 'shm:64m ttl=60s',
    location: `chat_hold 3s grace=60s; proxy_buffering off;
      proxy_set_header X-Pid $pid;` });
  const it = Object.assign(playing(scene('openai_chat', p, n)),
    seeded(context), { redis: server, played: 0, reloads: 0 });
  it.pick = () => n;
  const samples = [];
  const end = Date.now() + minutes * 60000;
  const background = [change(it), watch(it, samples)];
  background.forEach((one) => one.catch(() => { it.over = true; }));
  await Promise.all(Array.from({ length: clients }, () => client(it, end)));
  it.over = true;
  await Promise.all(background);
  console.log(`${kind}, ${minutes} min: ${it.played} batches, ${it.reloads
  } reloads; answers: ${JSON.stringify(it.words)}`);
  const high = growing(samples, ['master', 'fds', 'store']);
  if (high.length) {
    throw new Error(`grows: ${high.join(', ')}`);
  }
}

try {
  await main();
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  for (const stop of stops.reverse()) {
    await stop();
  }
}
process.exit();
