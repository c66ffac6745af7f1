/*
 * stage.mjs: what the parts of the benchmark start: its own programs, nginx
 * with and without the module, and streams and requests in files.
 *
 * Source and sink (source.c, sink.c) and nginx share the machine. A cost is
 * the CPU time that the kernel counts for a process (schedstat), so it
 * depends on what else runs only by caches, and by who does the kernel's work
 * of a connection: see keepOnOneCpu() in run.mjs.
 */
import { execFileSync, spawn } from 'node:child_process';
import {
  mkdirSync, readFileSync, readdirSync, writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { modulePath, nginx, root, until } from '../t/lib/harness.mjs';
import { redis } from '../t/lib/redis/redis.mjs';

export const built = join(root, 'build', 'bench');
const files = join(built, 'files');

/* CPU time of these processes with all their threads, in µs. */
export const spent = (pids) => pids.flatMap((pid) =>
  readdirSync(`/proc/${pid}/task`).map((task) => Number(readFileSync(
    `/proc/${pid}/task/${task}/schedstat`, 'utf8').split(' ')[0]) / 1e3))
  .reduce((sum, us) => sum + us, 0);

const compiled = new Set();
function compile(name) {
  mkdirSync(files, { recursive: true });
  if (!compiled.has(name)) {
    compiled.add(name);
    execFileSync(process.env.CC ?? 'cc', ['-std=c11', '-O2', '-Wall',
      '-Wextra', '-o', join(built, name), join(root, 'bench', `${name}.c`),
      '-lz'], { stdio: 'inherit' });
  }
  return join(built, name);
}

/* Starts one of the programs; {child, next()}: its next line of output. */
export function start(context, name, ...args) {
  const child = spawn(compile(name), args.map(String),
    { stdio: ['pipe', 'pipe', 'inherit'] });
  context.after(() => child.kill());
  const lines = createInterface({ input: child.stdout })[
    Symbol.asyncIterator]();
  return { child, next: async () => (await lines.next()).value };
}

/*
 * nginx.conf. upstream: port of the provider; module: false for plain nginx;
 * store; lines: more in the location; http; load: modules of others.
 */
function configuration(dir, ports, o) {
  const temp = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((name) => `${name}_temp_path ${dir}/${name};`).join('\n    ');
  const location = (path, lines) => `location ${path} {
            proxy_pass http://provider;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
            keepalive_requests 1000000;
            ${lines}
        }`;
  return `${(o.load ?? []).map((path) => `load_module ${path};\n`).join('')}${
    o.module ? `load_module ${modulePath};` : ''}
${process.getuid() === 0 ? 'user root;' : ''}
daemon off;
pid ${dir}/nginx.pid;
error_log ${dir}/error.log warn;
worker_processes ${o.workers};
worker_rlimit_nofile 20000;
events { worker_connections 9000; }
http {
    ${temp}
    access_log off;
    client_body_buffer_size 4m;
    client_max_body_size 16m;
    ${o.module ? `chat_store ${o.store};` : ''}
    upstream provider {
        server 127.0.0.1:${o.upstream};
        keepalive 64;
        keepalive_requests 1000000;
    }
    ${o.http ?? ''}
    server {
        listen 127.0.0.1:${ports[0]} reuseport backlog=8192;
        add_header X-Worker $pid always;
        ${location('/', `${o.module ? 'chat auto;' : ''} ${o.lines ?? ''}`)}
        ${location('/plain/', '')}
        location = /small { return 200 "small"; }
        ${o.module ? 'location = /status { chat_status; }' : ''}
    }
}
`;
}

/* A store: 'shm:SIZE', or 'redis': {server, store, ready(nginx)}. */
export async function newStore(context, store) {
  if (store !== 'redis') {
    return { store };
  }
  const server = await redis(context);
  return { server, store: `${server.url()} timeout=2s` };
}

/* nginx with these options; each worker is connected to its Redis. */
export async function server(context, options) {
  const o = { module: true, workers: 1, store: 'shm:64m', ...options };
  /* A worker has two connections: for commands and for notifications. */
  const before = await o.redis?.clients();
  const it = await nginx(context, { workers: o.workers, connects: false,
    conf: (dir, ports) => configuration(dir, ports, o) });
  if (o.redis) {
    await until(async () => (await o.redis.clients()).length
      >= before.length + 2 * o.workers, 10000, 'connections to Redis');
  }
  return it;
}

/* Events in a file of source.c. */
export function stream(name, events) {
  mkdirSync(files, { recursive: true });
  writeFileSync(join(files, name), events.join(''));
  return name;
}

/*
 * A request in a file of sink.c. query: of source.c, f=FILE&us=N; body: an
 * object or a text; tenant: by default each request has its own.
 */
export function request(name, { path, query, body, tenant = 't#SERIAL#',
  headers = {} }) {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const lines = Object.entries({ Host: 'bench', 'Content-Type':
    'application/json', Authorization: `Bearer ${tenant}`, 'Content-Length':
    Buffer.byteLength(text), ...headers });
  const file = join(files, `${name}.request`);
  mkdirSync(files, { recursive: true });
  writeFileSync(file, `POST ${path}${path.includes('?') ? '&' : '?'}${query
  } HTTP/1.1\r\n${lines.map(([key, value]) => `${key}: ${value}\r\n`).join('')
  }\r\n${text}`);
  return file;
}

let serial = 1;

/* Starts clients that send a request file: the running sink. */
export function clients(context, port, file, { connections = 1, times = 1,
  ramp = 0 } = {}) {
  const from = serial;
  serial += connections * times;
  return start(context, 'sink', port, file, connections, times, ramp, from);
}

/* Sends a request file to the end: what sink.c prints. */
export async function send(context, port, file, options = {}) {
  const outcome = JSON.parse(await clients(context, port, file, options)
    .next() ?? 'null');
  const wanted = (options.connections ?? 1) * (options.times ?? 1);
  if (outcome?.whole !== wanted) {
    throw new Error(`${wanted} answers of ${file} were expected: ${
      JSON.stringify(outcome)}`);
  }
  return outcome;
}

/* The same, with the CPU time that it costs the workers of it, in µs. */
export async function cost(context, it, file, options) {
  const pids = it.workers();
  const before = spent(pids);
  const outcome = await send(context, it.port, file, options);
  return { ...outcome, cost: spent(pids) - before };
}

/* The running source: its port. */
export async function provider(context) {
  return Number(await start(context, 'source', files).next());
}
