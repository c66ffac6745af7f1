/*
 * run.mjs: runs test files, several at a time, each in a process of its own.
 *
 * node t/run.mjs [--pass=PASS,...] [--every] [--strict] [--jobs=N]
 *   [--log=FOLDER] FILE...
 *
 * A pass is a build of the module and a store. A file runs in the passes that
 * the line "Suite: PASS, PASS." of its opening comment names, else in asan and
 * redis; --every runs it in all passes of the command. With "alone" in that
 * line it runs when all others have ended, with "long" it starts first.
 *
 * A file that fails beside others runs once more alone at the end. If it then
 * passes, its failed tests are listed as flaky and the run passes; --strict
 * fails. Each run of a file has its own log in the folder.
 *
 * Node's own runner cannot limit the files that run at a time before Node 20,
 * and does not start the longest first. This one takes the seconds of the last
 * run from the folder of its logs; without them, files that say "long" come
 * first, then the others by their size.
 */
import { spawn } from 'node:child_process';
import {
  closeSync, mkdirSync, openSync, readFileSync, statSync, writeFileSync,
} from 'node:fs';
import { cpus } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const passes = {
  asan: { CHAT_STORE: 'shm', CHAT_ASAN: '1' },
  asan_redis: { CHAT_STORE: 'redis', CHAT_ASAN: '1' },
  plain: { CHAT_STORE: 'shm', CHAT_ASAN: '' },
  redis: { CHAT_STORE: 'redis', CHAT_ASAN: '' },
  sentinel: { CHAT_STORE: 'sentinel', CHAT_ASAN: '' },
  cluster: { CHAT_STORE: 'cluster', CHAT_ASAN: '' },
};

/* After so many ms a file is killed: a test in it never ends. */
const bound = 900000;

/* With more failed files than this the cause is not the load. */
const mostRetried = 8;

const args = process.argv.slice(2);
const option = (name, otherwise) => args.find((arg) =>
  arg.startsWith(`--${name}=`))?.slice(name.length + 3) ?? otherwise;
/* Tests mostly wait. */
const jobs = Number(option('jobs', Math.max(8, 4 * cpus().length)));
const folder = option('log', 'build/test/files');
const asked = option('pass', 'plain').split(',');
const every = args.includes('--every');
const strict = args.includes('--strict');

mkdirSync(folder, { recursive: true });
const known = `${folder}/seconds.json`;
let seconds = {};
try {
  seconds = JSON.parse(readFileSync(known, 'utf8'));
} catch {
  /* The first run here. */
}

/* t/barrier/hold.test.mjs is barrier-hold: each log has a name of its own. */
const here = fileURLToPath(new URL('.', import.meta.url));
const logName = (file) => relative(here, file)
  .replace(/\.test\.mjs$/, '').replaceAll('/', '-');

/* The runs of a file: one a pass. */
function runsOf(file) {
  const [head] = readFileSync(file, 'utf8').split('*/');
  const words = /^ \* Suite: ([\w, ]+)\./m.exec(head)?.[1].split(/, */)
    ?? ['asan', 'redis'];
  const unknown = words.find((word) =>
    !passes[word] && !['alone', 'long'].includes(word));
  if (unknown) {
    throw new Error(`${file}: Suite: ${unknown}: no such pass`);
  }
  return asked.filter((pass) => every || words.includes(pass))
    .map((pass) => ({ file, pass, name: `${file} (${pass})`,
      alone: words.includes('alone'), long: words.includes('long'),
      path: join(folder, `${logName(file)}.${pass}.log`) }));
}

const cost = ({ file, name, long }) =>
  seconds[name] ?? statSync(file).size / 1000 + (long ? 100 : 0);

const number = (text, pattern) => Number(pattern.exec(text)?.[1] ?? 0);

/* User's and system's seconds of all children, from the shell's times. */
function cpu(text) {
  const last = text.trimEnd().split('\n').at(-1);
  return [...last.matchAll(/(\d+)m([\d.,]+)s/g)].reduce((sum, [, m, s]) =>
    sum + Number(m) * 60 + Number(s.replace(',', '.')), 0);
}

const running = new Set();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.once(signal, () => {
    running.forEach((child) => process.kill(-child.pid));
    process.exit(1);
  });
}

/* Returns what is wrong with the end of a run, or nothing. */
async function spawned({ file, pass, path }) {
  const out = openSync(path, 'w');
  /* A group of its own: a kill reaches the servers that a test started. */
  const child = spawn('bash', ['-c', '"$@"; code=$?; times; exit $code',
    'bash', process.execPath, '--test-reporter=spec', file],
  { env: { ...process.env, ...passes[pass] }, detached: true,
    stdio: ['ignore', out, out] });
  closeSync(out);
  running.add(child);
  let late = '';
  const timer = setTimeout(() => {
    late = `killed after ${bound / 1000} s`;
    process.kill(-child.pid);
  }, bound);
  const code = await new Promise((resolve) => { child.on('exit', resolve); });
  clearTimeout(timer);
  running.delete(child);
  return late || (code === 0 ? '' : `exit code ${code}`);
}

async function run(one) {
  const start = performance.now();
  const fault = await spawned(one);
  const text = readFileSync(one.path, 'utf8');
  const good = number(text, /^(?:#|ℹ) pass (\d+)$/m);
  const bad = number(text, /^(?:#|ℹ) fail (\d+)$/m);
  const took = (performance.now() - start) / 1000;
  console.log(`${fault ? 'not ok' : 'ok'} - ${one.name}: ${good} passed${
    bad ? `, ${bad} failed` : ''}, ${took.toFixed(1)} s, CPU ${
    cpu(text).toFixed(1)} s${fault && `, ${fault}`}`);
  return { ...one, text, fault, good, took,
    bad: fault ? Math.max(bad, 1) : bad };
}

async function runAll(list, abreast) {
  const queue = [...list].sort((a, b) => cost(b) - cost(a));
  const done = [];
  await Promise.all(Array.from({ length: abreast }, async () => {
    while (queue.length) {
      done.push(await run(queue.shift()));
    }
  }));
  return done;
}

/* A failed test's name stands below the line that says where it is. */
const failedTests = ({ text, fault }) => {
  const names = [...text.slice(text.lastIndexOf('failing tests:'))
    .matchAll(/^test at .*\n✖ (.*?)(?: \([\d.]+ms\))?$/gm)]
    .map(([, name]) => name);
  return names.length ? names : [fault];
};

function show({ name, path, text, fault }) {
  const at = text.lastIndexOf('failing tests:');
  /* Without its sums, which are in those below. */
  const shown = text.slice(at < 0 ? -2000 : at).split('\n')
    .filter((line) => !/^(#|ℹ) (pass|fail) /.test(line)).slice(0, 80);
  console.log(`\n${name}, ${path}: ${fault}\n${shown.join('\n')}`);
}

const all = args.filter((arg) => !arg.startsWith('--')).flatMap(runsOf);
const beside = await runAll(all.filter(({ alone }) => !alone), jobs);
const done = [...beside,
  ...await runAll(all.filter(({ alone }) => alone), 1)];

writeFileSync(known, JSON.stringify(Object.assign(seconds,
  Object.fromEntries(done.map(({ name, took }) => [name, took])))));

/* What failed beside others: {first, again}, the same file alone. */
const failures = done.filter(({ bad }) => bad);
const retried = [];
if (jobs > 1 && beside.length > 1 && failures.length <= mostRetried) {
  for (const first of failures.filter(({ alone }) => !alone)) {
    const again = await run({ ...first, name: `${first.name}, alone`,
      path: first.path.replace(/\.log$/, '.again.log') });
    retried.push({ first, again });
  }
}
const flaky = retried.filter(({ again }) => !again.bad);

failures.forEach(show);
retried.filter(({ again }) => again.bad).forEach(({ again }) => show(again));

/* A flaky file counts as it ran alone, unless the run is strict. */
const counted = done.map((one) => (strict ? one
  : flaky.find(({ first }) => first === one)?.again ?? one));
const sum = (key) => counted.reduce((total, one) => total + one[key], 0);
console.log('');
for (const { first } of flaky) {
  for (const test of failedTests(first)) {
    console.log(`flaky: ${first.name}: ${test}`);
  }
}
if (flaky.length) {
  console.log('Each flaky test is a defect to be mended: it failed beside '
    + 'other files\nand passed alone.');
}
console.log(`\n# pass ${sum('good')}\n# fail ${sum('bad')}`);
process.exitCode = sum('bad') ? 1 : 0;
