/*
 * random.mjs: NGINX with the module under ASan and UBSan, driven by a random
 * schedule of everything.
 *
 * CHAT_ASAN=1 node t/soak/random.mjs [--minutes=30] [--store=shm|redis]
 *   [--actors=6]
 *
 * Actors send any request in any way (clients.mjs) to a site with all dialects
 * (site.mjs) whose upstream fails in every way. The operator reloads and
 * replaces the master (a binary upgrade), storms kill workers and break Redis.
 * Quiet actors play fair batches meanwhile. It fails on a report of a
 * sanitizer, an [alert] or [emerg], a signal that it did not send, a request
 * without an end, an incomplete continuation of a fair batch, a fair batch
 * without exactly one continuation, and a held request or connections that
 * stay at the end.
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
const calm = (it, since) => !it.storms && it.ended < since - 15000;

/* Until 15 s after this work fair batches may be lost or sent twice. */
async function storm(it, work) {
  it.storms++;
  await work();
  it.storms--;
  it.ended = Date.now();
}

/* The word of one fair client; it is not cut, and must end. */
async function bring(it, batch, positions) {
  await pause(it.random(500));
  const answer = batch.continue(batch.results(positions),
    { http2: it.random(2) === 0 });
  const timer = setTimeout(() => answer.abort(), 150000);
  const { word } = await told(answer);
  clearTimeout(timer);
  it.words[word] = (it.words[word] ?? 0) + 1;
  return word;
}

const bypassed = ({ headers }) => headers['x-verdict'] === 'bypass';

/*
 * The requests of a fair batch that went upstream; words: of its clients. A
 * new worker may not be connected to Redis yet. With chat_store_failure deny
 * its clients get 503. With pass so do those whose bodies lack results; other
 * requests pass. Of a chain only the store knows whether it is complete. A
 * complete body of a provider dialect may get an answer of its own.
 */
function judge(it, batch, { pass, whole, words }) {
  const sent = batch.upstream();
  const { chained, path, apps } = batch.dialect;
  const own = words.length > batch.ids.length && !apps ? 1 : 0;
  const what = `${path}: ${words}, upstream ${JSON.stringify(sent.map((one) =>
    [one.headers['x-verdict'], one.refused, one.answered.length]))}`;
  const passed = sent.filter(bypassed).length;
  if (passed) {
    note(it, 'past the store');
  }
  assert.ok(!passed || (pass && it.redis), `past the store: ${what}`);
  for (const one of sent) {
    if (!chained || (whole && !bypassed(one))) {
      assert.equal(one.refused, false, what);
      assert.deepEqual(one.answered, batch.ids, what);
    }
  }
  if (whole) {
    const failed = !!it.redis && (passed > 0 || words.includes('503'));
    const claimed = sent.length - passed;
    note(it, `${failed ? 'failed' : 'fair'} ${pass ? 'pass' : 'deny'}`);
    assert.ok(claimed === 1 || claimed === 1 + own || (failed && !claimed),
      what);
    assert.ok(failed || words.includes('final'), what);
  }
}

/*
 * Its clients bring one result each, and sometimes another one brings all; all
 * stay. A chain takes no result twice.
 */
async function play(it, batch, since, pass) {
  const brought = batch.ids.map((_, i) => [i]);
  if (!batch.dialect.chained && it.random(3) === 0) {
    brought.push(undefined);
  }
  let words = [];
  try {
    await batch.ask();
    words = await Promise.all(brought.map((one) => bring(it, batch, one)));
  } catch (error) {
    if (calm(it, since) && !(it.redis && /"?503"?|store/.test(error.actual))) {
      throw error;
    }
    await pause(200);
  }
  /* An unknown chain is unmanaged: its calls went past the store. */
  const seen = !batch.dialect.chained || !batch.p.requests.some((one) =>
    one.headers['x-batch'] === batch.key && !one.answered.length
    && bypassed(one));
  judge(it, batch, { pass, words, whole: words.length > 0 && seen
    && calm(it, since) });
}

/* A fair batch with either value of chat_store_failure. */
async function fair(it) {
  const scene = it.quiet[keys[it.random(keys.length)]];
  const pass = it.random(2) === 0;
  const batch = new Batch(scene, 2 + it.random(3));
  if (pass) {
    batch.dialect = { ...batch.dialect,
      path: batch.dialect.path.replace('deny', 'pass') };
  }
  note(it, 'played batch');
  try {
    await play(it, batch, Date.now(), pass);
  } finally {
    scene.batches.delete(batch.key);
    scene.p.requests.splice(0, Math.max(0, scene.p.requests.length - 200));
    it.noise.requests.splice(0);
  }
}

/*
 * A binary upgrade. The new master has a zone of its own, so that over shared
 * memory results are lost with the old one.
 */
async function upgrade(it) {
  note(it, 'upgrade');
  await (it.redis ? it.n.upgrade() : storm(it, () => it.n.upgrade()));
  note(it, 'upgraded');
}

/* Reloads, one by one or several at once, and every tenth time an upgrade. */
async function operator(it) {
  while (!it.over) {
    await pause(3000 + it.random(12000));
    if (it.random(10) === 0) {
      await upgrade(it);
      continue;
    }
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

async function tenSeconds(it) {
  const all = Object.entries(it.redis ? { ...troubles, ...faults }
    : troubles);
  for (const end = Date.now() + 10000; Date.now() < end && !it.over;) {
    const [name, work] = all[it.random(all.length)];
    note(it, name);
    await work(it);
    await pause(it.random(2000));
  }
}

/* A storm of ten seconds after each minute. */
async function weather(it) {
  for (let next = it.start + 30000; !it.over; next = Date.now() + 60000) {
    await until(() => it.over || Date.now() > next, 60000);
    await storm(it, () => tenSeconds(it));
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
  noisy: new Map(), ended: 0, storms: 0, start: Date.now(), over: false });
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
