/*
 * memory.mjs: what a held request, a follower, an open batch and a recorded
 * megabyte take.
 *
 * A worker's memory is what it has resident, without the pages of the zone,
 * which belong to all workers. The zone's and Redis's are what they report as
 * used.
 */
import { dialects } from '../../t/lib/dialects.mjs';
import { until } from '../../t/lib/harness.mjs';
import { get } from '../../t/lib/client.mjs';
import { body, complete, half, ids } from '../bodies.mjs';
import { frames } from '../frames.mjs';
import { fixed, table } from '../report.mjs';
import {
  clients, newStore, provider, request, send, server, stream,
} from '../stage.mjs';

const { path } = dialects.openai_chat;
const lines = 'chat_hold 10m grace=10m; chat_limits held=8192 calls=1024;';

const status = async (it) =>
  JSON.parse(await get(it.port, '/status').text());
const own = (it) => it.memory(it.workers()[0], 'RssAnon');
const used = async (it) => (await status(it)).store.zone_used;

/* Bytes by which a worker grows while n clients wait, or follow. */
async function growth(bench, it, file, n, condition) {
  const before = own(it);
  const { child } = clients(bench, it.port, file, { connections: n,
    ramp: 100 });
  await until(() => condition(n), 30000, `${n} clients`);
  const grown = (own(it) - before) / n;
  child.kill();
  await until(() => condition(0), 30000, 'their end');
  return grown;
}

const waiting = (it) => async (n) => (await status(it)).holds.now === n;

/* A hold of a body of kb KB: a few others come before. */
async function hold(bench, upstream, kb) {
  const it = await server(bench, { upstream, lines });
  const text = body('chat', kb, half());
  const file = request(`hold-${kb}`, { path, query: 'f=small', body: text,
    tenant: 'bench' });
  const n = bench.pick(100, 1000);
  await growth(bench, it, file, 5, waiting(it));
  const grown = await growth(bench, it, file, n, waiting(it));
  const over = grown - Buffer.byteLength(text);
  bench.figure(`memory/hold of ${kb} KB, over its body`, over / 1024, 'KB',
    { goal: 12, stable: true });
  return [`a hold of ${kb} KB, over its body`, n, `${fixed(over / 1024, 1)
  } KB of the worker`];
}

/*
 * All post the same results while the first one's answer comes slowly. They
 * follow it because another request has brought a part of them.
 */
async function follower(bench, upstream) {
  const it = await server(bench, { upstream, lines });
  const { events } = frames('openai_chat', 'text', 400);
  const file = request('follow', { path, tenant: 'bench',
    query: `f=${stream('follow', events)}&us=50000`,
    body: body('chat', 2, complete(ids(2, 'following'))) });
  const part = request('follow-half', { path, tenant: 'bench',
    query: 'f=small', body: body('chat', 2, half(ids(2, 'following'))) });
  await growth(bench, it, part, 1, waiting(it));
  const n = bench.pick(100, 1000);
  const following = async (count) => {
    const { recordings } = await status(it);
    return recordings.followers === Math.max(0, count - 1);
  };
  const grown = await growth(bench, it, file, n, following);
  bench.figure('memory/follower of a stream', grown / 1024, 'KB',
    { stable: true });
  return ['a follower of a stream', n, `${fixed(grown / 1024, 1)
  } KB of the worker`];
}

/* Clients that bring one of two results, and then disconnect. */
async function batch(bench, upstream) {
  const it = await server(bench, { upstream, lines });
  const file = request('batch', { path, query: 'f=small', tenant: 'bench',
    body: body('chat', 2, half()) });
  const n = bench.pick(100, 1000);
  const before = await used(it);
  await growth(bench, it, file, n, waiting(it));
  const bytes = (await used(it) - before) / n;
  bench.figure('memory/open batch in the zone', bytes / 1024, 'KB',
    { stable: true });
  return ['an open batch, one result of 500 bytes', n,
    `${fixed(bytes / 1024, 1)} KB of the zone`];
}

/* Recorded answers, each in full. */
async function recorded(bench, upstream, name) {
  const { store, server: redis } = await newStore(bench,
    name === 'shm' ? 'shm:256m' : name);
  const it = await server(bench, { upstream, store, redis,
    lines: 'chat_conversation $http_x_talk; chat_record on;' });
  const { events, body: text } = frames('openai_chat', 'text', 2048);
  const size = Buffer.byteLength(events.join(''));
  const file = request(`recorded-${name}`, { path, body: text,
    query: `f=${stream('recorded-memory', events)}`, tenant: 'bench',
    headers: { 'X-Talk': '#SERIAL#' } });
  const inStore = async () => (redis ? Number(/used_memory:(\d+)/.exec(
    await redis.command('INFO', 'memory'))[1]) : used(it));
  const times = bench.pick(4, 40);
  await send(bench, it.port, file);
  const before = await inStore();
  await send(bench, it.port, file, { times });
  const ratio = (await inStore() - before) / (size * times);
  bench.figure(`memory/recorded MB, ${name}`, ratio, 'MB', { stable: true });
  return [`a recorded MB, ${name}`, times, `${fixed(ratio)} MB of the store`];
}

export default { title: 'Memory', async run(bench) {
  const upstream = await provider(bench);
  stream('small', frames('openai_chat', 'text', 2).events);
  const rows = [];
  for (const kb of [1, 30]) {
    rows.push(await hold(bench, upstream, kb));
  }
  rows.push(await follower(bench, upstream), await batch(bench, upstream));
  for (const name of ['shm', 'redis']) {
    rows.push(await recorded(bench, upstream, name));
  }
  return `One worker, OpenAI Chat; a worker's growth while they wait, divided
by their number. A follower's body has 2 KB.

${table(['what', 'of them', 'takes'], rows)}`;
} };
