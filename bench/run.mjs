/*
 * run.mjs: the benchmark: plain NGINX, NGINX with the module, and what else
 * could do its work, in one run.
 *
 * Usage: node bench/run.mjs [--quick] [--only=PART,...] [--rounds=N] [--save]
 * Each file in parts/ is a part. Those that take minutes or need a quiet
 * machine for themselves run only by name: clicks, failover, cluster. Writes
 * RESULTS.md, results.json and plots/ beside this file. A value that is more
 * than a tenth worse than in baseline.json is named at the end, with both
 * values, and the exit status is 1; --save writes a new baseline instead.
 * --quick: a smoke run of one round, which writes into build/bench.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { root, unbuilt } from '../t/lib/harness.mjs';
import { Measure } from './measure.mjs';
import { page, read } from './report.mjs';
import { built } from './stage.mjs';

/* In the order of RESULTS.md. */
const usual = ['frames', 'connections', 'recorded', 'bodies', 'dialects',
  'release', 'followers', 'memory', 'growth', 'status'];
const named = ['clicks', 'failover', 'cluster'];
const order = [...usual, ...named];

/* --name or --name=value; undefined: not given. */
const option = (name) => process.argv.map((arg) =>
  new RegExp(`^--${name}(?:=(.*))?$`).exec(arg)).find(Boolean);
const quick = !!option('quick');
const parts = option('only')?.[1].split(',') ?? usual;
const rounds = Number(option('rounds')?.[1] ?? 7);
const folder = quick ? built : join(root, 'bench');
const baselineFile = join(root, 'bench', 'baseline.json');

/* Like a test's context; clean() stops what was started with it. */
const stops = [];
async function clean() {
  for (const stop of stops.splice(0).reverse()) {
    await stop();
  }
}

/* What a part gets: see measure.mjs for compare() and figure(). */
class Bench extends Measure {
  after(stop) {
    stops.push(stop);
  }

  diagnostic() {}

  clean() {
    return clean();
  }

  /* One of two values: of a smoke run, of a real one. */
  pick(smoke, real) {
    return this.quick ? smoke : real;
  }

  plot(name, svg) {
    mkdirSync(join(folder, 'plots'), { recursive: true });
    writeFileSync(join(folder, 'plots', `${name}.svg`), svg);
  }
}

const machine = () => `${os.cpus()[0].model.trim()}, ${os.cpus().length
} cores, ${os.type()} ${os.release()}, ${spawnSync(
  process.env.CHAT_NGINX ?? 'nginx', ['-v'], { encoding: 'utf8' }).stderr
  .trim().replace('nginx version: ', '')}, Node ${process.version}`;

const load = () => os.loadavg()[0].toFixed(1);

/*
 * Keeps this process and all that it starts on the last CPU, or allows all
 * again. Programs that run at the same time take over parts of each other's
 * work in the kernel, now more and now less: on one CPU, which they share in
 * turn, the same part falls to each of them in every round.
 */
function keepOnOneCpu(one) {
  const last = os.cpus().length - 1;
  const { error } = spawnSync('taskset',
    ['-acp', one ? `${last}` : `0-${last}`, process.pid]);
  if (error) {
    process.stderr.write(`all CPUs are used: ${error.message}\n`);
  }
}

async function play(name, baseline) {
  const { title, run, oneCpu } = (await import(`./parts/${name}.mjs`)).default;
  keepOnOneCpu(oneCpu);
  const bench = new Bench({ baseline, quick, rounds });
  const [before, from] = [load(), Date.now()];
  let text;
  try {
    text = await run(bench);
  } finally {
    await clean();
  }
  const seconds = Math.round((Date.now() - from) / 1000);
  const about = `${new Date().toISOString().slice(0, 16).replace('T', ' ')
  } UTC, ${seconds} s, load average ${before} before and ${load()} after.`;
  process.stderr.write(`== ${name}: ${seconds} s\n`);
  return { bench, part: { title, about, text, ratios: bench.ratios,
    figures: bench.figures } };
}

async function main() {
  if (unbuilt) {
    throw new Error(unbuilt);
  }
  const unknown = parts.filter((name) => !order.includes(name));
  if (unknown.length) {
    throw new Error(`no part ${unknown}; there are ${order.join(', ')}`);
  }
  mkdirSync(folder, { recursive: true });
  const baseline = read(baselineFile);
  const results = read(join(folder, 'results.json'));
  const values = { ...baseline };
  const worse = [];
  for (const name of parts) {
    const { bench, part } = await play(name, baseline);
    results[name] = part;
    Object.keys(values).filter((key) => key.startsWith(`${name}/`))
      .forEach((key) => delete values[key]);
    Object.assign(values, bench.values());
    worse.push(...bench.worse);
    writeFileSync(join(folder, 'results.json'),
      `${JSON.stringify(results, null, 1)}\n`);
    writeFileSync(join(folder, 'RESULTS.md'), page(results, order, machine()));
  }
  if (option('save') && !quick) {
    writeFileSync(baselineFile, `${JSON.stringify(values, null, 1)}\n`);
    return 0;
  }
  for (const { name, value, before } of worse) {
    console.error(`worse than the baseline: ${name} is ${
      value.toPrecision(4)}, was ${before}`);
  }
  return worse.length ? 1 : 0;
}

let status = 1;
try {
  status = await main();
  console.log(`${join(folder, 'RESULTS.md')} is written.`);
} catch (error) {
  console.error(error);
  await clean();
}
process.exit(status);
