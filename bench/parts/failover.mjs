/*
 * failover.mjs: how long a failover behind Redis Sentinel takes.
 *
 * Two nodes of two workers, a batch with one stored result. Then the master is
 * killed, or a sentinel gets the command to fail over. Once a sentinel
 * announces a new master, the other result is posted repeatedly
 * (chat_store_failure deny) until it is answered. Meanwhile each node serves
 * one short turn after the other. The clock starts with the kill or the
 * command. Each round has servers and sentinels of its own. Takes minutes, so
 * it runs only by name.
 */
import { until } from '../../t/lib/harness.mjs';
import { Batch } from '../../t/lib/batch.mjs';
import { leave } from '../../t/lib/hold.mjs';
import { nodesStage } from '../../t/lib/nodes.mjs';
import { sentinels } from '../../t/lib/redis/sentinel.mjs';
import { cell, outage, persist } from '../outage.mjs';
import { table } from '../report.mjs';

const downAfter = 1000; /* ms */
const connections = 8;

const ways = {
  'kill -9 of the master': (it) => it.servers[0].stop('SIGKILL'),
  'SENTINEL FAILOVER': (it) => it.list[0].command('SENTINEL', 'FAILOVER',
    'main'),
};

async function round(bench, way) {
  const it = await sentinels(bench, { downAfter });
  const [old, next] = it.servers;
  const scene = await nodesStage(bench, 'openai_chat', { redis: old,
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
  const done = heard.then(() => persist(batch, [1])).then(since);
  const times = await Promise.all([heard, there, done]);
  await gone;
  batch.released();
  over.yes = true;
  times.push(Math.max(...await Promise.all(outages)));
  await bench.clean();
  return times;
}

export default { title: 'Failover', async run(bench) {
  const rounds = bench.pick(1, 9);
  const rows = [];
  for (const way of Object.keys(ways)) {
    const list = [];
    for (let i = 0; i < rounds; i++) {
      list.push(await round(bench, way));
    }
    const [heard, , done, worst] = [0, 1, 2, 3].map((i) =>
      list.map((times) => times[i]));
    const after = list.map((times) => times[1] - times[0]);
    rows.push([way, rounds, ...[heard, after, done, worst].map(cell)]);
  }
  return `Three sentinels (\`down-after-milliseconds ${downAfter}\`), a master,
a replica, two nodes of two workers; a batch with one result in the store, the
other one is posted as soon as a sentinel announces the new master. Medians in
ms, with the least and the most. One request went upstream in each round.

${table(['what', 'rounds', 'until a sentinel announces it',
    'then until all workers are there', 'in all until the batch is answered',
    'longest without an answer'], rows)}`;
} };
