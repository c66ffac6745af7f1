/*
 * cluster.mjs: how long a batch takes over a Redis Cluster while its slot
 * moves, and when the master of its slot is killed and a replica takes over.
 *
 * Two nodes of two workers, three masters with a replica each, a batch with
 * one held result. Moving: the other result is posted when half of the keys
 * have moved, the rest moves 20 ms later; that is compared with a batch in a
 * slot that stays. Killing: the batch is posted repeatedly (chat_store_failure
 * deny) until it is answered, while one client sends other batches, one after
 * the other. Takes minutes, so it runs only by name.
 */
import { pause } from '../../t/lib/harness.mjs';
import { Batch, told } from '../../t/lib/batch.mjs';
import { cluster, facts } from '../../t/lib/redis/cluster.mjs';
import { held } from '../../t/lib/hold.mjs';
import { nodesStage } from '../../t/lib/nodes.mjs';
import { cell, outage, persist } from '../outage.mjs';
import { table } from '../report.mjs';

const timeout = 1000; /* ms, cluster-node-timeout */

/* A batch that waits for its second result: {batch, waits, slot}. */
async function begun(scene, c) {
  const batch = new Batch(scene, 2);
  await batch.ask();
  let waits;
  const slot = await c.slotOf(async () => {
    waits = batch.continue(batch.results([0]));
    await held(batch, waits);
  });
  return { batch, waits, slot };
}

const stage = (bench, c) => nodesStage(bench, 'openai_chat', { redis: c,
  store: () => c.url(), hold: '60s',
  location: 'chat_store_failure deny;' });

/* From the second result to the answer; at most one request goes on. */
async function complete({ batch }) {
  const start = performance.now();
  const { word } = await told(batch.continue(batch.results([1])));
  if (!['final', 'empty'].includes(word)) {
    throw new Error(`told ${word}`);
  }
  batch.released();
  return performance.now() - start;
}

async function moving(scene, c) {
  const one = await begun(scene, c);
  const from = await c.owner(one.slot);
  const to = c.another(from);
  await c.begin(one.slot, to);
  await c.migrate(one.slot, from, to, facts);
  const done = complete(one);
  await pause(20);
  await c.migrate(one.slot, from, to);
  await c.end(one.slot, to);
  return done;
}

async function killing(bench) {
  const c = await cluster(bench, { replicas: 1, timeout,
    lines: ['cluster-require-full-coverage no'] });
  const scene = await stage(bench, c);
  const { batch, waits, slot } = await begun(scene, c);
  const victim = await c.owner(slot);
  await victim.command('WAIT', 1, 5000);
  const start = performance.now();
  const over = {};
  const quiet = outage(scene, over);
  await victim.stop('SIGKILL');
  await told(waits);
  const times = [performance.now() - start];
  await persist(batch, [1]);
  times.push(performance.now() - start);
  batch.released();
  over.yes = true;
  times.push(await quiet);
  await bench.clean();
  return times;
}

export default { title: 'Cluster', async run(bench) {
  const rounds = bench.pick(1, 15);
  const c = await cluster(bench);
  const scene = await stage(bench, c);
  const [stays, moves] = [[], []];
  for (let i = 0; i < rounds; i++) {
    stays.push(await complete(await begun(scene, c)));
    moves.push(await moving(scene, c));
  }
  const tries = await c.errors('TRYAGAIN');
  await bench.clean();
  const kills = [];
  for (let i = 0; i < Math.ceil(rounds / 3); i++) {
    kills.push(await killing(bench));
  }
  const [ends, done, quiet] = [0, 1, 2].map((i) =>
    kills.map((times) => times[i]));
  return `Three masters, two nodes of two workers; a batch with one result in
the store. In ms: median, least and most. One request went upstream in each
round. \`TRYAGAIN\` was answered ${tries} times.

${table(['what', 'rounds', 'ms'], [
    ['the second result, until its answer', rounds, cell(stays)],
    ['the same, when its slot is half moved; the rest moves after 20 ms',
      rounds, cell(moves)],
    [`the master is killed (\`cluster-node-timeout ${timeout}\`): held ${
      'requests get an error'}`, kills.length, cell(ends)],
    ['the same: the replica has taken over, the batch is answered',
      kills.length, cell(done)],
    ['the same: longest without an answer for a client of other batches',
      kills.length, cell(quiet)]])}`;
} };
