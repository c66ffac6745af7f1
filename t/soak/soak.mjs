/*
 * soak.mjs: NGINX under load for a long time, with a reload every 20 seconds,
 * and one binary upgrade in the middle: with load over Redis, between batches
 * over shared memory.
 *
 * node t/soak/soak.mjs [--minutes=30] [--store=shm] [--clients=20]
 *
 * Clients play batches as in chaos.test.mjs. Memory and descriptors of the
 * master, those of the largest worker, and the memory of the store are read
 * every 10 seconds. Fails if a result is lost, a request is sent twice or
 * incomplete, or the log has an alert. Each master is compared with itself: no
 * figure may be higher by more than a tenth and a megabyte in the last third
 * of its time than in the second. The store must be empty again at the end,
 * when all has expired.
 */
import { readFileSync, readdirSync } from 'node:fs';
import { nginx, pause, until } from '../lib/harness.mjs';
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

const gone = () => Object.assign(new Error('no worker'), { code: 'ESRCH' });

/* Its own memory: what it has seen of the zone is in the store's figure. */
function memory(pid) {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const found = /RssAnon:\s+(\d+)/.exec(status);
  if (!found) {
    throw gone(); /* it has ended */
  }
  return Number(found[1]);
}

const descriptors = (pid) => readdirSync(`/proc/${pid}/fd`).length;

async function storeKb(it) {
  if (it.redis) {
    const info = await it.redis.command('INFO', 'memory');
    return Number(/^used_memory:(\d+)/m.exec(info)[1]) / 1024;
  }
  return (await statusOf(it.n)).store.zone_used / 1024;
}

/*
 * A new master has a zone of its own: over shared memory the clients finish
 * their batches first, or results would be lost with the old one.
 */
async function upgrade(it) {
  it.upgraded = it.n.pid;
  it.pausing = !it.redis;
  await until(() => it.redis || it.playing === 0, 90000, 'the clients');
  await it.n.upgrade();
  it.pausing = false;
}

async function change(it, middle) {
  while (!it.over) {
    await pause(20000);
    it.n.workers().forEach((pid) => it.gone.add(pid));
    if (!it.upgraded && Date.now() > middle) {
      await upgrade(it);
    } else {
      await it.n.reload();
      it.reloads++;
    }
  }
}

const most = (read, pids) => Math.max(...pids.map(read));

async function sample(it) {
  const { pid } = it.n;
  const workers = it.n.workers();
  if (!workers.length) {
    throw gone();
  }
  return { pid, minute: (Date.now() - it.start) / 60000, batches: it.played,
    master: memory(pid), fds: descriptors(pid), worker: most(memory, workers),
    workerFds: most(descriptors, workers), store: await storeKb(it) };
}

async function watch(it, samples) {
  while (!it.over) {
    try {
      samples.push(await sample(it));
    } catch (error) {
      /* a process has ended meanwhile, or a new one has not begun */
      if (error.code !== 'ENOENT' && error.code !== 'ESRCH') {
        throw error;
      }
    }
    await pause(10000);
  }
}

async function client(it, end) {
  while (Date.now() < end) {
    await until(() => !it.pausing, 120000, 'the upgrade');
    it.playing++;
    await play(it);
    it.playing--;
    it.played++;
    /* Or each batch searches all requests so far. */
    it.p.requests.splice(0, Math.max(0, it.p.requests.length - 2000));
    it.batches.forEach((batch, key) =>
      it.batches.size > 200 && it.batches.delete(key));
  }
}

const mean = (list) => list.reduce((sum, x) => sum + x, 0) / list.length;

/* The figures of one master that grow, if it lived for minutes. */
function growing(samples, keys) {
  const third = Math.floor(samples.length / 3);
  return third < 6 ? [] : keys.flatMap((key) => {
    const of = (from) => mean(samples.slice(from * third, (from + 1) * third)
      .map((one) => one[key]));
    const [before, after] = [of(1), of(2)];
    console.log(`${key}: ${before.toFixed()} in the second third, ${
      after.toFixed()} in the last`);
    return after <= before * 1.1 + (/fds/i.test(key) ? 2 : 1024) ? [] : [key];
  });
}

/*
 * When all has expired the store is as small as at the beginning. A request
 * frees a few expired batches of shared memory, so one client plays on until
 * then, slowly: what it has played for a minute is in the store.
 */
async function emptied(it, [{ store }]) {
  await pause(70000);
  const end = Date.now() + 120000;
  let left;
  do {
    await play(it);
    await pause(400);
    left = await storeKb(it);
  } while (left > store + 2048 && Date.now() < end);
  console.log(`store: ${left.toFixed()} kB at last`);
  return left <= store + 2048 ? [] : ['store'];
}

/* Some of the samples, as a table for docs/reliability.md; memory in kB. */
function table(samples) {
  const keys = Object.keys(samples[0]);
  const row = (cells) => console.log(`| ${cells.join(' | ')} |`);
  row(keys);
  row(keys.map(() => '---'));
  for (let i = 0; i <= 6; i++) {
    const one = samples[Math.round(i * (samples.length - 1) / 6)];
    row(keys.map((key) => one[key].toFixed(key === 'minute' ? 1 : 0)));
  }
}

async function main() {
  const server = kind === 'redis' ? await redis(context) : null;
  const p = await provider(context, 'openai_chat');
  const n = await nginx(context, { upstream: p.port, workers: 2,
    chat: 'openai_chat', connects: !!server, daemon: true,
    server: statusLocation,
    store: server ? `${server.url()} timeout=2s ttl=60s` : 'shm:64m ttl=60s',
    location: `chat_hold 3s grace=60s; proxy_buffering off;
      chat_record auto ttl=60s;
      proxy_set_header X-Pid $pid;` });
  const it = Object.assign(playing(scene('openai_chat', p, n)),
    seeded(context), { redis: server, played: 0, playing: 0, reloads: 0,
    start: Date.now() });
  it.pick = () => n;
  const samples = [];
  const end = Date.now() + minutes * 60000;
  const middle = Date.now() + minutes * 30000;
  const background = [change(it, middle), watch(it, samples)];
  background.forEach((one) => one.catch(() => { it.over = true; }));
  await Promise.all(Array.from({ length: clients }, () => client(it, end)));
  it.over = true;
  await Promise.all(background);
  console.log(`${kind}, ${minutes} min: ${it.played} batches, ${it.reloads
  } reloads, master ${it.upgraded} replaced by ${it.n.pid}; answers: ${
    JSON.stringify(it.words)}`);
  table(samples);
  const high = [...new Set(samples.map(({ pid }) => pid))].flatMap((pid) =>
    growing(samples.filter((one) => one.pid === pid),
      ['master', 'fds', 'worker', 'workerFds']));
  high.push(...await emptied(it, samples));
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
