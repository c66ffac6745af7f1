/*
 * failover.mjs: how long a failover behind Redis Sentinel takes.
 *
 * Two nodes of two workers, a batch of which one result is stored; then the
 * master is killed, or a sentinel is told to fail over, and when a sentinel
 * tells of a new one the other result is posted, again and again
 * (chat_store_failure deny) until its answer is there. Meanwhile each node is
 * asked a short turn every 10 ms. The clock starts with the kill or the
 * command. Each round has servers and sentinels of its own. Writes the part
 * "Failover" of RESULTS.md beside this file. --quick: a smoke run, which
 * writes nothing; --rounds=N, --down-after=MS.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { pause, root, unbuilt, until } from '../t/harness.mjs';
import { Batch, told } from '../t/harness_batch.mjs';
import { leave } from '../t/harness_hold.mjs';
import { nodesStage } from '../t/harness_nodes.mjs';
import { sentinels } from '../t/harness_sentinel.mjs';

const option = (name) => process.argv.map((arg) =>
  new RegExp(`^--${name}(?:=(.*))?$`).exec(arg)).find(Boolean);
const quick = !!option('quick');
const rounds = Number(option('rounds')?.[1] ?? (quick ? 1 : 9));
const downAfter = Number(option('down-after')?.[1] ?? 1000);
const connections = 8;

const stops = [];
const context = { after: (stop) => stops.push(stop), diagnostic: () => {} };
async function clean() {
  for (const stop of stops.splice(0).reverse()) {
    await stop();
  }
}

const ways = {
  'kill -9 of the master': (it) => it.servers[0].stop('SIGKILL'),
  'SENTINEL FAILOVER': (it) => it.list[0].command('SENTINEL', 'FAILOVER',
    'main'),
};

/* Posts until the whole answer is there; how often. */
async function persist(batch) {
  for (let times = 1; ; times++) {
    const { word } = await told(batch.continue(batch.results([1])));
    if (word === 'final') {
      return times;
    }
    if (word !== '503') {
      throw new Error(`told ${word}`);
    }
    await pause(20);
  }
}

/* The longest time without a good answer of this node. */
async function outage(scene, node, over) {
  let last = performance.now();
  let worst = 0;
  while (!over.yes) {
    const batch = new Batch(scene, 2);
    const { word } = await told(batch.continue(batch.results(), { node }));
    const now = performance.now();
    if (word === 'final') {
      worst = Math.max(worst, now - last);
      last = now;
    }
    await pause(10);
  }
  return Math.max(worst, performance.now() - last);
}

async function round(way) {
  const it = await sentinels(context, { downAfter });
  const [old, next] = it.servers;
  const scene = await nodesStage(context, 'openai_chat', { redis: old,
    store: () => it.url(), hold: '60s',
    location: 'chat_store_failure deny;' });
  const batch = new Batch(scene, 2);
  await batch.ask();
  await leave(batch, batch.results([0]));
  await it.replicated(old);

  const start = performance.now();
  const since = () => performance.now() - start;
  const heard = until(async () =>
    (await Promise.all(it.list.map((one) => it.told(one))))
      .some((port) => port === next.port), 60000, 'news').then(since);
  const there = until(async () =>
    (await next.ask('clients'))?.length === connections, 60000, 'workers')
    .then(since);
  const over = {};
  const outages = scene.nodes.map((node) => outage(scene, node, over));
  const gone = ways[way](it);
  const done = heard.then(() => persist(batch)).then(since);
  const times = await Promise.all([heard, there, done]);
  await gone;
  batch.released();
  over.yes = true;
  times.push(Math.max(...await Promise.all(outages)));
  await clean();
  return times;
}

const middle = (list) => list.sort((a, b) => a - b)[list.length >> 1];
const cell = (list) => `${middle(list).toFixed(0)} (${list[0].toFixed(0)}..${
  list.at(-1).toFixed(0)})`;

async function main() {
  if (unbuilt) {
    throw new Error(unbuilt);
  }
  const lines = [];
  for (const way of Object.keys(ways)) {
    const list = [];
    for (let i = 0; i < rounds; i++) {
      list.push(await round(way));
    }
    const [heard, there, done, worst] = [0, 1, 2, 3].map((i) =>
      list.map((times) => times[i]));
    const after = list.map((times) => times[1] - times[0]);
    lines.push(`| ${way} | ${rounds} | ${[heard, after, done, worst]
      .map(cell).join(' | ')} |`);
  }
  const text = `## Failover

Written by \`node bench/failover.mjs\`, ${new Date().toISOString()
    .slice(0, 16).replace('T', ' ')} UTC, load average ${
    os.loadavg()[0].toFixed(1)}. Three
sentinels (\`down-after-milliseconds ${downAfter}\`), a master, a replica, two
nodes of two workers; a batch with one result in the store, the other one is
posted as soon as a sentinel tells of the new master. Medians in ms, with the
least and the most. One request went upstream in each round.

| what | rounds | until a sentinel tells it | then until all workers are ${
  'there'} | in all until the batch is answered | longest without an answer |
| --- | --- | --- | --- | --- | --- |
${lines.join('\n')}
`;
  process.stdout.write(text);
  if (!quick) {
    const file = join(root, 'bench', 'RESULTS.md');
    const [rest] = readFileSync(file, 'utf8').split('\n## Failover');
    writeFileSync(file, `${rest.trimEnd()}\n\n${text}`);
  }
}

try {
  await main();
} finally {
  await clean();
}
process.exit(0);
