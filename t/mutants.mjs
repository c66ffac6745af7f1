/*
 * mutants.mjs: breaks guarded lines one by one; a test must notice each.
 *
 * node t/mutants.mjs [--jobs=N] [PATTERN]
 *
 * mutants.json has the list. An entry has `file`, `from` (text that the file
 * contains once), `to` (what replaces it), `promise`, and `test`: sim, a unit
 * test such as test_gate, or a live test such as barrier/hold, with an
 * optional name pattern behind a space, and "over redis: " in front of another
 * store.
 * PATTERN selects entries by their text. Unit tests come first, built without
 * sanitizers: what a test checks must notice a mutant, and within a second.
 * Each job works in a copy of the tree in build/mutants, never in the tree.
 * Each test first runs on the unbroken tree, where it must pass.
 * The exit code is 1 if a test fails there, a mutant survives or does not
 * compile, or `from` is not in the file once.
 */
import { execFileSync, spawn } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from
  'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

/* Seconds for a test: a mutant that hangs has been noticed, too. */
const bound = 180;

/* Seconds for a build. */
const buildBound = 1800;

const schedules = '--schedules=200000';

/* Runs a command in a tree. Returns whether its exit code is 0. */
function run(tree, seconds, ...command) {
  /* timeout makes a group of processes: a test's servers end with it. */
  const child = spawn('timeout',
    ['--kill-after=5', seconds, 'env', ...command],
    { cwd: tree, stdio: 'ignore' });
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('exit', (code) => resolve(code === 0));
  });
}

function copy(tree) {
  rmSync(tree, { recursive: true, force: true });
  const files = execFileSync('git', ['ls-files', '-z', '-c', '-o',
    '--exclude-standard'], { cwd: root, encoding: 'utf8' });
  for (const file of files.split('\0').filter(Boolean)) {
    mkdirSync(dirname(join(tree, file)), { recursive: true });
    cpSync(join(root, file), join(tree, file));
  }
}

/* Builds what a test runs on. Returns whether the test passes. */
async function passes(tree, test) {
  const [, store, rest] = /^(?:over (\w+): )?(.*)$/.exec(test);
  const [name, ...pattern] = rest.split(' ');
  const program = name === 'sim' ? 'build/sim/sim'
    : name.startsWith('test_') && `build/unit/${name}`;
  const built = program ? program
    : name === 'store/contract' ? 'contract' : 'module';
  /* warnings: a mutant may leave something unused */
  if (!await run(tree, buildBound, 'make', '-s', 'warnings=-std=c11',
    'sim_warnings=', 'san_opts=-O0', built)) {
    return 'does not compile';
  }
  return program
    ? run(tree, bound, program, ...name === 'sim' ? [schedules] : [])
    : run(tree, bound, `CHAT_STORE=${store ?? 'shm'}`, process.execPath,
      '--test',
      ...pattern.length ? [`--test-name-pattern=${pattern.join(' ')}`] : [],
      `t/${name}.test.mjs`);
}

/* Returns what became of a mutant; of a test alone, for one without a file. */
async function tried(tree, { file, from, to, test }) {
  if (!file) {
    const passed = await passes(tree, test);
    return passed === true ? 'passes' : passed || 'fails';
  }
  const path = join(tree, file);
  const text = readFileSync(path, 'utf8');
  if (text.split(from).length !== 2) {
    return 'is not there once';
  }
  writeFileSync(path, text.replace(from, () => to));
  const passed = await passes(tree, test);
  writeFileSync(path, text);
  return passed === true ? 'survives' : passed || 'killed';
}

const args = process.argv.slice(2);
const jobs = Number(args.find((arg) => arg.startsWith('--jobs='))?.slice(7)
  ?? 2);
const pattern = args.find((arg) => !arg.startsWith('--')) ?? '';
const mutants = JSON.parse(readFileSync(join(root, 't/mutants.json'), 'utf8'))
  .filter((mutant) => Object.values(mutant).join('\n').includes(pattern));
const rank = ({ test }) => (test.startsWith('test_') ? 0
  : test === 'sim' ? 1 : 2);
const queue = [...new Set(mutants.map(({ test }) => test))]
  .map((test) => ({ test })).concat(mutants)
  .sort((one, two) => rank(one) - rank(two));
const start = Date.now();
const results = [];

await Promise.all(Array.from({ length: jobs }, async (_, i) => {
  const tree = join(root, 'build/mutants', String(i));
  copy(tree);
  while (queue.length) {
    const mutant = queue.shift();
    const word = await tried(tree, mutant);
    results.push(word);
    console.log(`${/^(killed|passes)$/.test(word) ? 'ok' : 'not ok'} - ${
      word}: ${mutant.file ? `${mutant.file}: ${mutant.promise} (${
      mutant.test})` : `${mutant.test}, unbroken`}`);
  }
}));

const count = (wanted) => results.filter((word) => word === wanted).length;
const bad = results.length - count('killed') - count('passes');
console.log(`${count('killed')} of ${mutants.length} killed, ${bad} not ok, ${
  Math.round((Date.now() - start) / 1000)} s`);
process.exitCode = bad ? 1 : 0;
