/*
 * failover.mjs: how long a failover behind Redis Sentinel takes.
 *
 * Two nodes of two workers, a batch with one stored result. Then the master is
 * killed, or a sentinel gets the command to fail over. Once a sentinel
 * announces a new master, the other result is posted repeatedly
 * (chat_store_failure deny) until it is answered. Meanwhile each node serves
 * one short turn after the other. The clock starts with the kill or the
 * command. Each round has servers and sentinels of its own. Writes the part
 * "Failover" of RESULTS.md beside this file. --quick: a smoke run, which
 * writes nothing; --rounds=N, --down-after=MS.
 */
import { pause, until } from '../t/lib/harness.mjs';
import { Batch, told } from '../t/lib/batch.mjs';
import { leave } from '../t/lib/hold.mjs';
import { nodesStage } from '../t/lib/nodes.mjs';
import { sentinels } from '../t/lib/redis/sentinel.mjs';
import {
  cell, clean, context, number, outage, part, quick,
} from './part.mjs';

const rounds = number('rounds', quick ? 1 : 9);
const downAfter = number('down-after', 1000);
const connections = 8;

const ways = {
  'kill -9 of the master': (it) => it.servers[0].stop('SIGKILL'),
  'SENTINEL FAILOVER': (it) => it.list[0].command('SENTINEL', 'FAILOVER',
    'main'),
};

/* Posts until the answer is complete. */
async function persist(batch) {
  for (;;) {
    const { word } = await told(batch.continue(batch.results([1])));
    if (word === 'final') {
      return;
    }
    if (word !== '503') {
      throw new Error(`told ${word}`);
    }
    await pause(20);
  }
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
  const outages = scene.nodes.map((node) => outage(scene, over, { node }));
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

await part('Failover', 'failover.mjs', async () => {
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
  return `Three
sentinels (\`down-after-milliseconds ${downAfter}\`), a master, a replica, two
nodes of two workers; a batch with one result in the store, the other one is
posted as soon as a sentinel tells of the new master. Medians in ms, with the
least and the most. One request went upstream in each round.

| what | rounds | until a sentinel tells it | then until all workers are ${
  'there'} | in all until the batch is answered | longest without an answer |
| --- | --- | --- | --- | --- | --- |
${lines.join('\n')}
`;
});
