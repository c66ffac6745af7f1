/*
 * record.mjs: what chat_record on costs, beside plain nginx.
 *
 * One connection reads an answer of OpenAI Chat, as fast as it comes: frames
 * of text, then of a call's arguments. The same configuration plain, with the
 * module, and recorded over each store, one worker each, in turn. CPU is what
 * the kernel counts for the worker; a ratio is to the plain run of the same
 * round. Writes the part "Recorded" of RESULTS.md beside this file.
 * --quick: a smoke run, which writes nothing; --rounds=N, --events=N.
 */
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { nginx, root } from '../t/lib/harness.mjs';
import { redis } from '../t/lib/redis/redis.mjs';
import { context, number, part, quick } from './part.mjs';

const rounds = number('rounds', quick ? 1 : 9);
const events = number('events', quick ? 8192 : 204800); /* 4096 each time */
const built = join(root, 'build', 'bench');
const cases = [
  { name: 'text', size: 275, tool: 0, wanted: { shm: 2, redis: 2.5 } },
  { name: 'tool input', size: 317, tool: 1, wanted: { shm: 3, redis: 3.5 } },
];

function build(name) {
  mkdirSync(built, { recursive: true });
  execFileSync(process.env.CC ?? 'cc', ['-std=c11', '-O2', '-o',
    join(built, name), join(root, 'bench', `${name}.c`), '-lz']);
}

/* One of the programs; returns its next line of output. */
function run(name, ...args) {
  const child = spawn(join(built, name), args,
    { stdio: ['pipe', 'pipe', 'inherit'] });
  context.after(() => child.kill());
  const lines = createInterface({ input: child.stdout })[
    Symbol.asyncIterator]();
  return async () => (await lines.next()).value;
}

const onCpu = (pid) =>
  Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]);
const sorted = (list) => [...list].sort((a, b) => a - b);
const median = (list) => sorted(list)[list.length >> 1];
const spread = (list) => `${median(list).toFixed(2)} (${
  sorted(list)[0].toFixed(2)}..${sorted(list).at(-1).toFixed(2)})`;

async function servers(upstream) {
  const server = await redis(context);
  const location = 'proxy_buffering off; proxy_buffer_size 4k;';
  const recorded = `${location} chat_conversation $arg_c; chat_record on;`;
  const kinds = {
    plain: { module: false, location },
    module: { location },
    shm: { location: recorded, store: 'shm:16m' },
    redis: { location: recorded, connects: true,
      store: `${server.url()} timeout=2s` },
  };
  const list = {};
  for (const [kind, options] of Object.entries(kinds)) {
    list[kind] = await nginx(context, { upstream, workers: 1, ...options });
  }
  return list;
}

/* µs of the worker per event. */
let serial = 0;
async function measure(it, { size, tool }) {
  const [pid] = it.workers();
  const before = onCpu(pid);
  const outcome = JSON.parse(await run('sink', it.port,
    `/v1/chat/completions?n=${events}&size=${size}&tool=${tool}&c=${
      serial++}`, 1)() ?? 'null');
  if (outcome?.ok !== 1) {
    throw new Error(`the stream broke off: ${JSON.stringify(outcome)}`);
  }
  return (onCpu(pid) - before) / 1000 / events;
}

async function compare(list, what) {
  const kinds = Object.keys(list);
  const costs = Object.fromEntries(kinds.map((kind) => [kind, []]));
  const ratios = Object.fromEntries(kinds.map((kind) => [kind, []]));
  for (const kind of kinds) {
    await measure(list[kind], what); /* the first run is slow */
  }
  for (let round = 0; round < rounds; round++) {
    for (const kind of round % 2 ? [...kinds].reverse() : kinds) {
      costs[kind].push(await measure(list[kind], what));
    }
    kinds.forEach((kind) => ratios[kind].push(
      costs[kind].at(-1) / costs.plain.at(-1)));
  }
  return kinds.map((kind) => `| ${what.name}, ${what.size} bytes | ${kind} | ${
    spread(costs[kind])} | ${spread(ratios[kind])} | ${
    what.wanted[kind] ?? ''} |`);
}

await part('Recorded', 'record.mjs', async () => {
  ['source', 'sink'].forEach(build);
  const port = Number(await run('source')());
  const list = await servers(port);
  const rows = [];
  for (const what of cases) {
    rows.push(...await compare(list, what));
  }
  return `One
worker, one stream of ${events} events, \`proxy_buffering off\`, buffers of 4
KB. Medians of ${rounds} rounds, with the least and the most.

| frames | store | µs per event | x plain | wanted |
| --- | --- | --- | --- | --- |
${rows.join('\n')}
`;
});
