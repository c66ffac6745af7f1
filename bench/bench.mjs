/*
 * bench.mjs: plain nginx against nginx with the module, in one run.
 *
 * Bulk: a million events in writes of 16 KB on one connection. Paced: fifty
 * connections, an event each every 2 ms. Both: CPU time of the worker from the
 * kernel (schedstat), plain and module alternately, and the ratio of each
 * pair. Release: from a batch's last result to the provider's first byte.
 * Writes RESULTS.md beside this file.
 * --quick: a smoke run, into build/bench; --rounds=N, --only=bulk,release.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { modulePath, nginx, root, unbuilt } from '../t/lib/harness.mjs';

const option = (name) => process.argv.map((arg) =>
  new RegExp(`^--${name}(?:=(.*))?$`).exec(arg)).find(Boolean);
const quick = !!option('quick');
const only = option('only')?.[1].split(',') ?? ['bulk', 'paced', 'release'];
const rounds = Number(option('rounds')?.[1] ?? (quick ? 1 : 9));
const pacedRounds = Math.ceil(rounds * 5 / 9);
const batches = quick ? 50 : 1200;
const built = join(root, 'build', 'bench');

/* The maximum cost in each case. */
const targets = { bulk: 1.3, paced: 1.03, release: 200 };

/* The larger size is that of a text event of OpenAI. */
const bulkCases = [['4k', 200], ['4k', 108], ['16k', 200], ['16k', 108]]
  .map(([buffer, size]) => ({ buffer, size,
    path: `/b${buffer}/v1/chat/completions?n=${quick ? 102400 : 1024000}`
      + `&size=${size}`, events: quick ? 102400 : 1024000, connections: 1 }));
const pacedCase = { size: 200, connections: 50, count: quick ? 500 : 5000 };
pacedCase.events = pacedCase.count * pacedCase.connections;
pacedCase.path = `/b4k/v1/chat/completions?n=${pacedCase.count}`
  + `&size=${pacedCase.size}&us=2000`;

const stops = [];
const context = { after: (stop) => stops.push(stop) };


function build() {
  mkdirSync(built, { recursive: true });
  for (const name of ['source', 'sink', 'release']) {
    execFileSync(process.env.CC ?? 'cc', ['-std=c11', '-O2', '-Wall',
      '-Wextra', '-o', join(built, name),
      join(root, 'bench', `${name}.c`), '-lz'], { stdio: 'inherit' });
  }
}

/* One of the programs and its output lines; it ends with the bench. */
function start(name, ...args) {
  const child = spawn(join(built, name), args,
    { stdio: ['pipe', 'pipe', 'inherit'] });
  stops.push(() => child.kill());
  const lines = createInterface({ input: child.stdout })[
    Symbol.asyncIterator]();
  return { child, lines, next: async () => (await lines.next()).value };
}

/* The same nginx twice: the module is loaded and on, or neither. */
function configuration({ upstream, module, workers, dir, ports }) {
  const temp = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((name) => `${name}_temp_path ${dir}/${name};`).join('\n    ');
  const location = (name, chat, more = '') => `
        location ${name} {
            ${module && chat ? 'chat auto;' : ''}
            proxy_pass http://provider;
            proxy_buffering off;
            ${more}
        }`;
  return `${module ? `load_module ${modulePath};` : ''}
${process.getuid() === 0 ? 'user root;' : ''}
daemon off;
pid ${dir}/nginx.pid;
error_log ${dir}/error.log warn;
worker_processes ${workers};
events { worker_connections 4096; }
http {
    ${temp}
    access_log off;
    ${module ? 'chat_tenant bench;' : ''}
    client_body_buffer_size 1m;
    client_max_body_size 8m;
    upstream provider {
        server 127.0.0.1:${upstream};
        keepalive 64;
    }
    server {
        listen 127.0.0.1:${ports[0]} reuseport;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        add_header X-Worker $pid always;
        ${location('/', true)}
        ${location('/b4k/', true)}
        ${location('/b16k/', true, `proxy_buffer_size 16k;
            proxy_buffers 8 16k;`)}
        ${location('/plain/', false)}
    }
}
`;
}

function server(upstream, module, workers = 1) {
  return nginx(context, { workers, conf: (dir, ports) =>
    configuration({ upstream, module, workers, dir, ports }) });
}


/* CPU time of a process, in ns. */
function onCpu(pid) {
  return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]);
}

/* One stream or many through one nginx: µs of its worker per event. */
async function measure(it, { path, connections, events }) {
  const [pid] = it.workers();
  const before = onCpu(pid);
  const sink = start('sink', it.port, path, connections);
  const outcome = JSON.parse(await sink.next() ?? 'null');
  if (outcome?.ok !== connections) {
    throw new Error(`streams broke off: ${JSON.stringify(outcome)}`);
  }
  return { ...outcome, cost: (onCpu(pid) - before) / 1000 / events };
}

const sorted = (list) => [...list].sort((a, b) => a - b);
const quantile = (list, q) =>
  sorted(list)[Math.min(list.length - 1, Math.floor(list.length * q))];
const median = (list) => quantile(list, 0.5);
function spread(list, digits) {
  const all = sorted(list);
  return `${median(all).toFixed(digits)} (${all[0].toFixed(digits)}..`
    + `${all.at(-1).toFixed(digits)})`;
}

/* Plain and module alternately, each first in turn. */
async function compare(name, servers, what, count) {
  const costs = { plain: [], module: [] };
  for (let round = 0; round < count; round++) {
    const order = round % 2 ? ['module', 'plain'] : ['plain', 'module'];
    const sums = {};
    for (const key of order) {
      const { cost, sum, bytes } = await measure(servers[key], what);
      costs[key].push(cost);
      sums[key] = `${bytes} ${sum}`;
    }
    if (sums.plain !== sums.module) {
      throw new Error(`${name}: the module changed the bytes`);
    }
    process.stderr.write('.');
  }
  const ratios = costs.module.map((cost, i) => cost / costs.plain[i]);
  process.stderr.write(` ${name}: ${spread(ratios, 3)}\n`);
  return { name, ...costs, ratios };
}

const row = (cells) => `| ${cells.join(' | ')} |`;
const table = (head, rows) => [row(head), row(head.map(() => '---')),
  ...rows.map(row)].join('\n');

const compared = (results) => table(
  ['', 'plain, µs per event', 'module, µs per event', 'module / plain'],
  results.map(({ name, plain, module, ratios }) => [name, spread(plain, 3),
    spread(module, 3), spread(ratios, 3)]));

async function streams() {
  const source = start('source');
  const port = Number(await source.next());
  const servers = { plain: await server(port, false),
    module: await server(port, true) };
  const bulk = [];
  for (const what of only.includes('bulk') ? bulkCases : []) {
    await measure(servers.plain, what); /* the first run is slow */
    await measure(servers.module, what);
    bulk.push(await compare(`proxy_buffer_size ${what.buffer}, events of `
      + `${what.size} bytes`, servers, what, rounds));
  }
  const paced = only.includes('paced')
    ? [await compare(`${pacedCase.connections} connections`, servers,
      pacedCase, pacedRounds)] : [];
  source.child.kill();
  return { bulk, paced };
}


/* Lists of µs by kind: to the provider, and to the held client. */
async function release(history) {
  const bench = start('release', batches, history);
  const it = await server(Number(await bench.next()), true, 2);
  bench.child.stdin.write(`${it.port}\n`);
  const kinds = { plain: [], same: [], other: [] };
  const told = { same: [], other: [] };
  for await (const line of bench.lines) {
    const [held, last, us, sibling] = line.split(' ').map(Number);
    const kind = !held ? 'plain' : held === last ? 'same' : 'other';
    kinds[kind].push(us);
    told[kind]?.push(sibling);
  }
  if (kinds.plain.length !== batches) {
    throw new Error('release broke off');
  }
  process.stderr.write(`release: ${Object.entries(kinds).map(([kind, list]) =>
    `${kind} ${median(list)}`).join(', ')} µs\n`);
  return { history, kinds, told };
}

const names = { plain: 'plain nginx, a complete body, nothing held',
  same: 'held on the same worker', other: 'held on the other worker' };
const quantiles = (list) => [list.length, median(list).toFixed(0),
  quantile(list, 0.9).toFixed(0), quantile(list, 0.99).toFixed(0)];

const releases = (results) => table(
  ['from the last result to the provider', 'bodies', 'n', 'p50, µs',
    'p90, µs', 'p99, µs'],
  results.flatMap(({ history, kinds }) => Object.entries(kinds)
    .map(([kind, list]) => [names[kind],
      history ? `${history / 1024} KB` : '0.6 KB', ...quantiles(list)])));
const siblings = (results) => table(
  ['from the provider\'s answer to the held client', 'bodies', 'n',
    'p50, µs', 'p90, µs', 'p99, µs'],
  results.flatMap(({ history, told }) => Object.entries(told)
    .map(([kind, list]) => [names[kind],
      history ? `${history / 1024} KB` : '0.6 KB', ...quantiles(list)])));


function machine(load) {
  const cpus = os.cpus();
  const { stderr: version } = spawnSync(process.env.CHAT_NGINX ?? 'nginx',
    ['-v'], { encoding: 'utf8' });
  return { cpu: `${cpus[0].model.trim()}, ${cpus.length} cores`,
    kernel: `${os.type()} ${os.release()}`,
    nginx: version, load: load[0].toFixed(1),
    date: new Date().toISOString().slice(0, 16).replace('T', ' '),
    command: ['node bench/bench.mjs', ...process.argv.slice(2)].join(' ') };
}

/* The targets and the measured values. */
function verdicts({ bulk, paced, released }) {
  const small = released.find(({ history }) => history === 0)?.kinds;
  return [
    ...bulk.map(({ name, ratios }) => [`bulk, ${name}`, median(ratios),
      targets.bulk, 'x plain']),
    ...paced.map(({ ratios }) => ['paced', median(ratios), targets.paced,
      'x plain']),
    ...(small ? ['same', 'other'].filter((kind) => small[kind].length)
      .map((kind) => [`release, ${names[kind]}`, median(small[kind]),
        targets.release, 'µs']) : []),
  ].map(([name, value, target, unit]) => [name,
    `${value.toFixed(unit === 'µs' ? 0 : 3)} ${unit}`,
    `at most ${target} ${unit}`, value <= target ? 'yes' : '**no**']);
}

function report(about, results) {
  const { bulk, paced, released } = results;
  return `# Plain nginx against nginx with the module

Written by \`make bench\`: \`${about.command}\`

- ${about.date} UTC; load average ${about.load} before,
  ${os.loadavg()[0].toFixed(1)} after (the run itself makes about 2)
- ${about.cpu}, ${about.kernel}
- ${about.nginx.trim()}, node ${process.version}

The same configuration twice, one worker each, \`proxy_buffering off\`; the
module is loaded and \`chat auto\` is on in one of them. Provider, nginx and
clients share the machine. CPU is what the kernel counts for the worker
(schedstat); both take turns, and a ratio is that of one pair. Medians, with
the least and the most in brackets. The bytes that came out of both were
compared in each round.

${table(['target', 'measured', 'wanted', 'met'], verdicts(results))}

## Bulk

${bulkCases[0].events} text events on one connection, in writes of 16 KB that
end anywhere. Rounds: ${rounds}.

${compared(bulk)}

## Paced

${pacedCase.connections} connections, one event of ${pacedCase.size} bytes on
each every 2 ms, every event in a write of its own; ${pacedCase.events} events
in all. Rounds: ${pacedRounds}.

${compared(paced)}

## Release

Two workers, ${batches} batches of two calls of OpenAI Chat. The clock starts
before the last result is written (to a connection that is already open) and
stops when the provider has read the first bytes.

${releases(released)}

${siblings(released)}
`;
}

async function main() {
  if (unbuilt) {
    throw new Error(unbuilt);
  }
  const about = machine(os.loadavg());
  build();
  const { bulk, paced } = await streams();
  const released = [];
  for (const history of only.includes('release') ? [0, 32768] : []) {
    released.push(await release(history));
  }
  const text = report(about, { bulk, paced, released });
  const file = quick || option('only') ? join(built, 'RESULTS.md')
    : join(root, 'bench', 'RESULTS.md');
  /* The parts of follow.mjs, failover.mjs and others stay. */
  const [, rest] = existsSync(file)
    ? readFileSync(file, 'utf8').split('\n## Followers') : [];
  writeFileSync(file, text + (rest ? `\n## Followers${rest}` : ''));
  console.log(text);
}

let status = 0;
try {
  await main();
} catch (error) {
  console.error(error.message);
  status = 1;
}
for (const stop of stops.reverse()) {
  await stop();
}
process.exit(status);
