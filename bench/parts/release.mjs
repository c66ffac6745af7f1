/*
 * release.mjs: from a batch's last result to the provider, and from the first
 * byte of the answer for the last client to that for a held one.
 *
 * On one node two workers, so that the held request is on the same worker or
 * on the other one; and two nodes on one Redis. The time of a kind is the p50
 * of one round, and plain NGINX's is that of a complete body.
 */
import { median, quantile } from '../measure.mjs';
import { cells, fixed, goalOf, table } from '../report.mjs';
import { newStore, server, start } from '../stage.mjs';

const names = { same: 'same worker', other: 'other worker',
  node: 'other node' };

/* ms after the claimant's first byte: p50 and p99. */
const followers = { same: [2, 10], other: [2, 10], node: [5, 20] };

/* One round of release.c: {kind: [[µs, µs of the follower], ...]}. */
async function play(bench, program, [held, last], batches, history) {
  const kinds = { plain: [], same: [], other: [], node: [] };
  const workers = last.workers();
  program.child.stdin.write(`${held.port} ${last.port} ${batches} ${
    history}\n`);
  for (let line; (line = await program.next()) !== '.';) {
    if (line === undefined) {
      throw new Error('release broke off');
    }
    const [one, two, us, follower] = line.split(' ').map(Number);
    const kind = !one ? 'plain' : !workers.includes(one) ? 'node'
      : one === two ? 'same' : 'other';
    kinds[kind].push([us, follower]);
  }
  return kinds;
}

async function compare(bench, program, { name, nodes, history }) {
  const late = { same: [], other: [], node: [] };
  const batches = bench.pick(30, 200);
  const found = await bench.compare(`release/${name}`, async () => {
    const kinds = await play(bench, program, nodes, batches, history);
    Object.keys(late).forEach((kind) =>
      late[kind].push(...kinds[kind].map(([, us]) => us / 1000)));
    return Object.fromEntries(Object.entries(kinds)
      .filter(([, list]) => list.length)
      .map(([kind, list]) => [kind, median(list.map(([us]) => us))]));
  }, { goals: { same: 1.5, other: 1.5 } });
  return Object.entries(found).map(([kind, one]) => {
    const values = [0.5, 0.99].map((q, i) => bench.figure(
      `release/follower, ${name}, ${names[kind]}, p${q * 100}`,
      quantile(late[kind], q), 'ms', { goal: followers[kind][i] }));
    return [name, names[kind], fixed(one.plain, 0), fixed(one.cost, 0),
      ...cells(one), goalOf(one), late[kind].length,
      ...values.map((ms) => fixed(ms))];
  });
}

export default { title: 'Release', async run(bench) {
  const program = start(bench, 'release');
  const upstream = Number(await program.next());
  const { store, server: redis } = await newStore(bench, 'redis');
  const node = (options) => server(bench, { upstream, workers: 2,
    ...options });
  const shm = await node({});
  const [a, b] = [await node({ store, redis }), await node({ store, redis })];
  const rows = [];
  for (const [name, nodes] of [['shm', [shm, shm]], ['Redis', [a, a]],
    ['Redis, two nodes', [b, a]]]) {
    for (const history of [0, 32768]) {
      rows.push(...await compare(bench, program, { nodes, history,
        name: `${name}, ${history ? '32' : '0.6'} KB` }));
    }
  }
  return `Two workers a node, batches of two calls of OpenAI Chat. The clock
starts before the last result is written (to a connection that is already
open) and stops when the provider has read the first bytes. µs are the least
p50 of a round. Follower: ms from the claimant's first byte to the held
client's, all rounds.

${table(['store, body', 'held on the', 'plain, µs', 'module, µs', 'x plain',
    'median (spread)', 'at most', 'n', 'follower p50, ms', 'p99, ms'], rows)}`;
} };
