/*
 * random.mjs: NGINX with the module under ASan and UBSan, driven by a random
 * schedule of everything.
 *
 * CHAT_ASAN=1 node t/soak/random.mjs [--minutes=30] [--store=shm|redis]
 *   [--actors=6]
 *
 * Actors send any request in any way (clients.mjs) to a site with all dialects
 * (site.mjs) whose upstream fails in every way. The operator reloads, storms
 * kill workers and break Redis. Quiet actors play fair batches meanwhile. It
 * fails on a report of a sanitizer, an [alert] or [emerg], a signal that it
 * did not send, a request without an end, a fair batch without exactly one
 * continuation, and a held request or connections that stay at the end.
 *
 * CHAT_SEED=N repeats the choices; the timing differs, so that a schedule does
 * not repeat exactly. Build it first: make asan.
 */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { Batch, told } from '../lib/batch.mjs';
import { seeded } from '../lib/nodes.mjs';
import { redis, relay } from '../lib/redis/redis.mjs';
import { statusOf } from '../lib/status.mjs';
import { pause, until } from '../lib/wait.mjs';
import { actions } from './clients.mjs';
import { keys, site } from './site.mjs';

const option = (name, usual) => process.argv.find((arg) =>
  arg.startsWith(`--${name}=`))?.slice(name.length + 3) ?? usual;
const minutes = Number(option('minutes', 30));
const actors = Number(option('actors', 6));
const kind = option('store', 'shm');

const stops = [];
const context = { after: (stop) => stops.push(stop),
  diagnostic: (text) => console.log(text) };

function note(it, name) {
  it.counts[name] = (it.counts[name] ?? 0) + 1;
  it.last.push(`${((Date.now() - it.start) / 1000).toFixed(2)} ${name}`);
  it.last.splice(0, it.last.length - 60);
}

/* A random action by its weight. */
function chosen({ random }) {
  const list = Object.entries(actions);
  let at = random(list.reduce((sum, [, [, weight]]) => sum + weight, 0));
  return list.find(([, [, weight]]) => (at -= weight) < 0);
}

async function actor(it) {
  while (!it.over) {
    const [name, [play]] = chosen(it);
    note(it, name);
    await play(it);
    await pause(it.random(200));
  }
}

/* True if no worker was killed and the store was whole since then. */
const calm = (it, since) => !it.storm && it.ended < since - 15000;

/* The word of one fair client; it is not cut, and must end. */
async function bring(it, batch, i) {
  await pause(it.random(500));
  const answer = batch.continue(batch.results([i]),
    { http2: it.random(2) === 0 });
  const timer = setTimeout(() => answer.abort(), 150000);
  const { word } = await told(answer);
  clearTimeout(timer);
  it.words[word] = (it.words[word] ?? 0) + 1;
  return word;
}

/* A fair batch: each client brings one result and stays. */
async function fair(it) {
  const since = Date.now();
  const key = keys[it.random(keys.length)];
  const scene = it.quiet[key];
  const batch = new Batch(scene, 2 + it.random(3));
  note(it, 'played batch');
  try {
    await batch.ask();
    const words = await Promise.all(batch.ids.map((_, i) =>
      bring(it, batch, i)));
    const sent = batch.upstream();
    if (calm(it, since)) {
      const what = `${key}: ${sent.length} sent, ${words}`;
      /* A new worker may not be connected yet: chat_store_failure deny. */
      const denied = !!it.redis && words.includes('503');
      note(it, denied ? 'denied batch' : 'fair batch');
      assert.ok(sent.length === 1 || (denied && !sent.length), what);
      for (const { refused, answered } of sent) {
        assert.equal(refused, false, what);
        assert.deepEqual(answered, batch.ids, what);
      }
      assert.ok(denied || words.includes('final'), what);
    }
  } catch (error) {
    if (calm(it, since) && !(it.redis && /"?503"?|store/.test(error.actual))) {
      throw error;
    }
    await pause(200);
  } finally {
    scene.batches.delete(batch.key);
    scene.p.requests.splice(0, Math.max(0, scene.p.requests.length - 200));
    it.noise.requests.splice(0);
  }
}

/* Reloads, one by one or several at once. */
async function operator(it) {
  while (!it.over) {
    await pause(3000 + it.random(12000));
    for (let i = it.random(4) ? 1 : 3; i > 0; i--) {
      note(it, 'reload');
      it.n.signal('SIGHUP');
      await pause(it.random(100));
    }
  }
}

const worker = (it) => {
  const pids = it.n.workers();
  return pids[it.random(pids.length)];
};

function strike(it, name) {
  const pid = worker(it);
  if (pid) {
    const code = name === 'SIGKILL' ? 9 : 15;
    it.n.allow(new RegExp(`worker process ${pid} exited on signal ${code}|`
      + `shared memory zone "\\w+" was locked by ${pid}$|`
      /* NGINX's own: it was told to stop while it shut down gracefully */
      + `${pid}#${pid}: .*(open socket #\\d+ left|aborting$)`));
    process.kill(pid, name);
  }
}

const troubles = {
  kill: (it) => strike(it, 'SIGKILL'),
  term: (it) => strike(it, 'SIGTERM'),
};

const faults = {
  delay: async ({ relay: r, random }) => {
    r.delay(random(3000));
    await pause(3000);
    r.delay(0);
  },
  cut: ({ relay: r }) => r.cut(),
  split: async ({ relay: r, random }) => {
    r.split(1 + random(9));
    await pause(3000);
    r.split(0);
  },
  hole: async ({ relay: r, random }) => {
    r.blackhole(true);
    await pause(random(5000));
    r.blackhole(false);
  },
  refuse: async ({ relay: r }) => {
    await r.refuse(true);
    r.cut();
    await pause(2000);
    await r.refuse(false);
  },
  pause: ({ redis: server, random }) =>
    server.ask('pause', random(4000)),
  flush: ({ redis: server }) => server.ask('command', 'FLUSHALL'),
  restart: async ({ redis: server, random }) => {
    await server.stop(random(2) ? 'SIGKILL' : 'SIGTERM');
    await pause(random(2000));
    await server.start();
  },
};

/* A storm of ten seconds after each minute of calm. */
async function weather(it) {
  const all = Object.entries(it.redis ? { ...troubles, ...faults }
    : troubles);
  while (!it.over) {
    await until(() => it.over || Date.now() - it.ended > 60000, 60000);
    it.storm = true;
    for (const end = Date.now() + 10000; Date.now() < end && !it.over;) {
      const [name, work] = all[it.random(all.length)];
      note(it, name);
      await work(it);
      await pause(it.random(2000));
    }
    it.storm = false;
    it.ended = Date.now();
  }
}

const descriptors = (pid) => readdirSync(`/proc/${pid}/fd`).length;
const most = (n) => Math.max(...n.workers().map(descriptors));

/*
 * All has ended: nothing is held, old workers have exited, no connection
 * stays. NGINX's own figure of connections counts those of killed workers.
 */
async function quiet(it) {
  it.n.signal('SIGHUP');
  const idle = async () => {
    const { holds } = await statusOf(it.n);
    it.rest = { held: holds.now, workers: it.n.workers().length,
      descriptors: most(it.n), first: it.first };
    return it.rest.held === 0 && it.rest.workers === 2
      && it.rest.descriptors < it.first + 10;
  };
  await until(() => idle().catch(() => false), 20000, 'idle')
    .catch(() => assert.fail(`not idle: ${JSON.stringify(it.rest)}`));
}

async function main(it) {
  it.redis = kind === 'redis' ? await redis(context) : null;
  it.relay = it.redis && await relay(context, it.redis.port);
  it.n = await site(context, it, it.redis
    ? `${it.redis.url({ port: it.relay.port })} timeout=2s ttl=60s`
    : 'shm:32m ttl=60s');
  it.first = most(it.n);
  setTimeout(() => { it.over = true; }, minutes * 60000);
  const fairly = async () => {
    while (!it.over) {
      await fair(it);
    }
  };
  const all = [operator(it), weather(it), fairly(), fairly(),
    ...Array.from({ length: actors }, () => actor(it))];
  try {
    await Promise.all(all);
  } finally {
    it.over = true;
  }
  await quiet(it);
}

const it = Object.assign(seeded(context), { counts: {}, words: {}, last: [],
  noisy: new Map(), ended: 0, start: Date.now(), over: false });
it.ended = it.start - 30000;
try {
  await main(it);
} catch (error) {
  console.error(error);
  process.exitCode = 1;
}
for (const stop of stops.reverse()) {
  try {
    await stop();
  } catch (error) {
    console.error(error);
    process.exitCode = 1;
  }
}
console.log(`${process.exitCode ? 'not ok' : 'ok'}: ${kind}, ${
  ((Date.now() - it.start) / 60000).toFixed(1)} min, CHAT_SEED=${it.seed}; ${
  JSON.stringify(it.counts)}; fair answers: ${JSON.stringify(it.words)}; ${
  JSON.stringify(it.rest)}`);
if (process.exitCode) {
  console.log(it.last.join('\n'));
}
process.exit();
