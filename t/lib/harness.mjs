/*
 * harness.mjs: a real nginx with the module, and clients to drive it.
 *
 * nginx() writes a configuration into a folder of its own, starts nginx on
 * loopback, and on the test's end stops it and reads its error log: an
 * [alert], an [emerg], or a sanitizer's report fails the test. post() makes
 * one request, over HTTP/1.1 or HTTP/2; its answer can be watched as it
 * arrives (lib/client.mjs). until() waits for a condition, and its error names
 * that condition (lib/wait.mjs). The providers behind nginx are in
 * lib/provider.mjs, Redis servers in lib/redis/redis.mjs.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import {
  existsSync, readFileSync, readdirSync, rmSync, writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cluster } from './redis/cluster.mjs';
import { redis } from './redis/redis.mjs';
import { sentinels } from './redis/sentinel.mjs';
import {
  answers, freePorts, newFolder, patience, until,
} from './wait.mjs';

export { get, post } from './client.mjs';
export { gate, patience, pause, until } from './wait.mjs';

export const root = fileURLToPath(new URL('../..', import.meta.url));

const asan = !!process.env.CHAT_ASAN;
const binary = process.env.CHAT_NGINX ?? 'nginx';

/*
 * Since 1.25.1 HTTP/2 has a directive of its own; the old form is a warning.
 */
const http2On = (() => {
  const { stderr } = spawnSync(binary, ['-v'], { encoding: 'utf8' });
  const [, major, minor, patch] = /nginx\/(\d+)\.(\d+)\.(\d+)/
    .exec(stderr)?.map(Number) ?? [];
  return !(major * 1e6 + minor * 1e3 + patch < 1025001);
})();

/* The module under test: an ASan build with CHAT_ASAN=1; '': built in. */
export const modulePath = process.env.CHAT_MODULE
  ?? join(root, 'build', asan ? 'asan' : 'module', 'ngx_chat_module.so');

/* Reason to skip where the module has not been built, else false. */
export const unbuilt = modulePath !== '' && !existsSync(modulePath)
  && `${modulePath} is not built: run make ${asan ? 'asan' : 'module'}`;

/* The default store of a test: shm, redis, sentinel or cluster. */
export const store = process.env.CHAT_STORE ?? 'shm';

/* All workers know after this many ms that one was killed. */
export const deadAfter = store === 'shm' ? 500 : 12000;

/*
 * The Redis server of this process; each nginx has a database of its own, or
 * in a cluster keys of its own.
 */
const servers = { redis, sentinel: sentinels, cluster };
let shared;
let databases = 0;

async function newStore() {
  if (store === 'shm') {
    return 'shm:16m';
  }
  shared ??= servers[store](null, store === 'cluster' ? {}
    : { lines: ['databases 10000'] });
  if (store === 'cluster') {
    return `${(await shared).url()} timeout=2s`;
  }
  return `${(await shared).url({ db: databases++ })} timeout=2s`;
}

/* The module's variables for each request, as JSON lines in access.log. */
const logged = {
  pid: '$pid', uri: '$request_uri', status: '$status', body: '$request_body',
  length: '$request_length', upstream: '$upstream_status',
};
const loggedByModule = Object.fromEntries(['dialect', 'conversation', 'batch',
  'verdict', 'turn_status', 'calls', 'settled', 'replays_dropped',
  'hold_time', 'attempt', 'stream'].map((name) => [name, `$chat_${name}`]));

function logFormat(withModule) {
  const { body, ...fields } = { ...logged, ...(withModule && loggedByModule) };
  const pairs = Object.entries(fields).map(([k, v]) => `"${k}":"${v}"`);
  return `log_format chat escape=json '{${pairs.join(',')}}';`;
}

/*
 * Clients without credentials are a tenant of their own here: without a tenant
 * their requests would be unmanaged. A test may set chat_tenant at http level
 * itself.
 */
function tenantOf({ tenant = true, module, http }) {
  const credentials = ['http_authorization', 'http_x_api_key', 'http_api_key',
    'http_x_goog_api_key', 'arg_key'].map((name) => `\$${name}`).join('');
  return tenant && module && !/\bchat_tenant\b/.test(http)
    ? `map "${credentials}" $tester { default "${credentials}"; "" tester; }
    chat_tenant $tester;` : '';
}

/*
 * The whole nginx.conf. Options: upstream (port of a provider), chat (the
 * value of the directive; false leaves it out), location (more lines for
 * location /), server, http, main (more lines there), workers, level, module
 * (false: plain nginx), tenant (false: no chat_tenant at http level),
 * locations (replaces location / altogether), store (the arguments of
 * chat_store), ttl (its parameter), connects (true: wait for its connection),
 * connections (worker_connections), names (server_name of several otherwise
 * equal servers), daemon (true: NGINX leaves its parent, as upgrade() needs).
 */
function configuration(dir, [h1, h2], options) {
  const o = { workers: 1, level: 'info', module: true, chat: 'auto',
    connections: 4096, names: [''], ...options };
  const temp = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((name) => `${name}_temp_path ${dir}/${name};`).join('\n    ');
  return `
${o.module && modulePath ? `load_module ${modulePath};` : ''}
${process.getuid() === 0 ? 'user root;' : ''}
${o.daemon ? inherited(dir) : 'daemon off;'}
pid ${dir}/nginx.pid;
error_log ${dir}/error.log ${o.level};
worker_processes ${o.workers};
${o.main ?? ''}
events { worker_connections ${o.connections}; }
http {
    ${temp}
    ${logFormat(o.module)}
    access_log ${dir}/access.log chat;
    client_body_buffer_size 1m;
    client_max_body_size 64m;
    ${o.module
    ? `chat_store ${o.store} ${o.ttl ? `ttl=${o.ttl}` : ''};` : ''}
    ${tenantOf(o)}
    ${o.upstream ? `upstream provider {
        server 127.0.0.1:${o.upstream};
        keepalive 16;
    }` : ''}
    ${o.http ?? ''}
    ${o.names.map((name, i) => `server {
        listen 127.0.0.1:${h1}${i ? '' : ' backlog=4096'};
        listen 127.0.0.1:${h2}${http2On ? '' : ' http2'}${i ? ''
  : ' backlog=4096'};
        ${http2On ? 'http2 on;' : ''}
        ${name && `server_name ${name};`}
        ${o.server ?? ''}
        ${o.locations ?? `location / {
            ${o.module && o.chat ? `chat ${o.chat};` : ''}
            proxy_pass http://provider;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            ${o.location ?? ''}
        }`}
    }`).join('\n    ')}
}
`;
}

/*
 * A complete nginx.conf of the documentation, for a folder and a port, with
 * nothing else changed. It loads the module and listens once, on port 8080.
 * changes: more pairs of a text, which must be there, and its replacement.
 */
export function pasted(conf, dir, port, changes = []) {
  const temp = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((name) => `${name}_temp_path ${dir}/${name};`).join(' ');
  const put = (text, [from, to]) => {
    if (!text.includes(from)) {
      throw new Error(`not in the configuration: ${from}`);
    }
    return text.replaceAll(from, to);
  };
  const listen = /listen (127\.0\.0\.1:)?8080;/.exec(conf)?.[0];
  const workers = /worker_processes \w+;/.exec(conf)?.[0];
  return [
    ['modules/ngx_chat_module.so', modulePath],
    [workers, `worker_processes 1; daemon off;
      ${process.getuid() === 0 ? 'user root;' : ''}
      pid ${dir}/nginx.pid; error_log ${dir}/error.log info;`],
    ['http {', `http { ${temp} access_log ${dir}/access.log;`],
    [listen, `listen 127.0.0.1:${port};`],
    ...changes].reduce(put, conf);
}

function sanitizers(dir) {
  if (!asan) {
    return {};
  }
  const library = execFileSync('gcc', ['-print-file-name=libasan.so'],
    { encoding: 'utf8' }).trim();
  return { LD_PRELOAD: library,
    ASAN_OPTIONS: `detect_leaks=0:log_path=${dir}/asan`,
    UBSAN_OPTIONS: 'print_stacktrace=1' };
}

/* NGINX gives the program of an upgrade only these variables. */
const inherited = (dir) => Object.keys(sanitizers(dir)).map((name) =>
  `env ${name};`).join(' ');

/* For an upgrade NGINX starts its own path, which must be a whole one. */
const program = (daemon) => (daemon
  ? execFileSync('sh', ['-c', 'command -v "$1"', '-', binary],
    { encoding: 'utf8' }).trim() : binary);

function launch(dir, args, { daemon, ...options }) {
  return spawn(program(daemon), ['-p', dir, '-e', `${dir}/error.log`,
    '-c', `${dir}/nginx.conf`, ...args], {
    env: { ...process.env, ...sanitizers(dir) }, ...options,
  });
}

/* A placeholder for a store to which nothing connects. */
const untried = store === 'shm' ? 'shm:16m'
  : 'redis://127.0.0.1 timeout=2s';

/*
 * nginx -t: {ok, output, conf}. options as for nginx(), or conf, a whole file.
 */
export async function nginxTest(options) {
  const dir = newFolder();
  const conf = options.conf
    ?? configuration(dir, await freePorts(2), { upstream: 9, ...options,
      store: options.store ?? untried });
  writeFileSync(`${dir}/nginx.conf`, conf);
  const child = launch(dir, ['-t'], { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  child.stdout.on('data', (data) => { output += data; });
  child.stderr.on('data', (data) => { output += data; });
  const code = await new Promise((resolve) => { child.on('close', resolve); });
  rmSync(dir, { recursive: true });
  return { ok: code === 0, output, conf };
}

const trouble = new RegExp(['\\[alert\\]', '\\[emerg\\]', 'runtime error:',
  'AddressSanitizer', 'exited with (fatal )?code [1-9]'].join('|'));

/* A process that its parent has not noted yet (Z) has ended, too. */
const isAlive = (pid) => existsSync(`/proc/${pid}`)
  && !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));

function childrenOf(pid) {
  const path = `/proc/${pid}/task/${pid}/children`;
  return existsSync(path) ? readFileSync(path, 'utf8').split(' ')
    .filter(Boolean).map(Number) : [];
}

class Nginx {
  /* connects: each worker logs when its store is connected. */
  constructor(dir, ports, child, { connects, daemon, count }) {
    Object.assign(this, { dir, connects, child, daemon, count });
    [this.port, this.port2] = ports; /* HTTP/1.1, HTTP/2 */
    this.exited = new Promise((resolve) => { child.on('exit', resolve); });
    this.allowed = [];
  }

  /* The master's. A daemon that has not started, or has ended, has none. */
  get pid() {
    const path = `${this.dir}/nginx.pid`;
    return !this.daemon ? this.child.pid
      : Number(existsSync(path) && readFileSync(path, 'utf8'));
  }

  /* Sends a signal to the master. */
  signal(name) {
    if (!this.daemon) {
      this.child.kill(name);
    } else if (this.pid && isAlive(this.pid)) {
      process.kill(this.pid, name);
    }
  }

  errorLog() {
    return readFileSync(`${this.dir}/error.log`, 'utf8');
  }

  /*
   * The access log so far: one object per finished request, complete lines
   * only.
   */
  accessLog() {
    return readFileSync(`${this.dir}/access.log`, 'utf8').split('\n')
      .slice(0, -1).map((line) => JSON.parse(line));
  }

  /* Pids of the running workers, those shutting down included. */
  workers() {
    return childrenOf(this.pid);
  }

  /* Resident memory of a worker in bytes; part: a field of its status. */
  memory(pid = this.workers()[0], part = 'VmRSS') {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    return Number(new RegExp(`${part}:\\s+(\\d+)`).exec(status)[1]) * 1024;
  }

  /* Every worker is connected to its store. */
  ready() {
    const connected = (pid) => new RegExp(
      `${pid}#${pid}: chat: the store \\S+ is connected`);
    return !this.connects || this.workers().every((pid) =>
      connected(pid).test(this.errorLog()));
  }

  /* Returns when only new workers accept; old ones may still be busy. */
  async reload() {
    const old = this.workers();
    this.signal('SIGHUP');
    await until(() => {
      const log = this.errorLog();
      return this.workers().some((pid) => !old.includes(pid))
        && old.every((pid) => log.includes(`${pid}#${pid}: gracefully`))
        && this.ready();
    }, 5000, 'a reload');
  }

  /*
   * Replaces the master of a daemon by a new process of the same program, as
   * for a new version: SIGUSR2, then SIGWINCH and SIGQUIT to the old one.
   * Returns when the old one and its workers have ended.
   */
  async upgrade() {
    const old = this.pid;
    process.kill(old, 'SIGUSR2');
    await until(() => this.pid && this.pid !== old
      && this.workers().length === this.count && this.ready(), 10000,
    'an upgrade');
    process.kill(old, 'SIGWINCH');
    await until(() => childrenOf(old).every((pid) => pid === this.pid), 60000,
      'the old workers');
    process.kill(old, 'SIGQUIT');
    await until(() => !isAlive(old), 60000, 'the end of the old master');
  }

  /* kill -9 of a worker; returns when the master has replaced it. */
  async kill(pid) {
    this.allow(new RegExp(`worker process ${pid} exited on signal 9|`
      + `shared memory zone "\\w+" was locked by ${pid}$`));
    process.kill(pid, 'SIGKILL');
    await until(() => this.errorLog()
      .includes(`worker process ${pid} exited on signal 9`), 5000, 'a kill');
    await until(() => this.workers().length >= this.count && this.ready(),
      5000, 'a worker');
  }

  /* A line of the error log that this test causes on purpose. */
  allow(pattern) {
    this.allowed.push(pattern);
  }

  /* Stops nginx (SIGQUIT: when all requests are done) and checks the log. */
  async stop(signal = 'SIGTERM') {
    if (this.stopped) {
      return;
    }
    this.stopped = true;
    const { pid } = this;
    this.signal(signal);
    const timer = setTimeout(() => this.signal('SIGKILL'), 10000 * patience);
    const code = await this.exited;
    await until(() => !this.daemon || !isAlive(pid), 20000, 'its end');
    clearTimeout(timer);
    running.delete(this);
    const bad = this.errorLog().split('\n').filter((line) =>
      trouble.test(line) && !this.allowed.some((ok) => ok.test(line)));
    const reports = readdirSync(this.dir).filter((f) => f.startsWith('asan'))
      .map((f) => readFileSync(`${this.dir}/${f}`, 'utf8'));
    if (code !== 0 || bad.length || reports.length) {
      throw new Error([`nginx ended with ${code}; see ${this.dir}`,
        ...bad.slice(0, 20), ...reports].join('\n'));
    }
    if (!process.env.CHAT_KEEP) {
      rmSync(this.dir, { recursive: true });
    }
  }
}

/* If a test process dies, its nginx is stopped. */
const running = new Set();
process.once('exit', () => running.forEach((it) => it.signal('SIGTERM')));

const inUse = 'Address already in use';

/* One attempt to start: a running nginx, or null if a port was taken. */
async function start(dir, ports, conf, options) {
  writeFileSync(`${dir}/nginx.conf`, conf);
  writeFileSync(`${dir}/output`, '');
  const { daemon, workers: count = 1 } = options;
  const child = launch(dir, [], { stdio: 'ignore', daemon });
  const connects = options.connects && /\bchat_store (redis|unix)/.test(conf)
    && /\bchat (?!off)\w+;/.test(conf);
  const it = new Nginx(dir, ports, child, { connects, daemon, count });
  /* Node does not wait for it either. */
  child.unref();
  running.add(it);
  let dead = false;
  it.exited.then((code) => {
    dead = !daemon || code !== 0;
    dead && running.delete(it);
  });
  const taken = () => existsSync(`${dir}/error.log`)
    && it.errorLog().includes(inUse);
  await until(async () => dead || taken() || (await answers(it.port)
    && it.workers().length === count && it.ready()),
  10000, 'nginx');
  if (taken()) {
    /* nginx would retry for long; other ports are free. */
    child.kill('SIGKILL');
    await it.exited;
    rmSync(`${dir}/error.log`);
    return null;
  }
  if (dead) {
    throw new Error(`nginx does not start (${dir}):\n${it.errorLog()}`);
  }
  return it;
}

/* Starts nginx; t is the test's context, which stops it at its end. */
export async function nginx(t, options) {
  const dir = newFolder();
  const own = options.store
    ?? (options.conf || options.module === false ? null : await newStore());
  const connects = options.connects ?? own !== options.store;
  for (let attempt = 1; attempt <= 5; attempt++) {
    const ports = await freePorts(2);
    const it = await start(dir, ports, options.conf?.(dir, ports)
      ?? configuration(dir, ports, { ...options, store: own }),
    { ...options, connects });
    if (it) {
      t.after(() => it.stop());
      return it;
    }
  }
  throw new Error(`${inUse} on every port (${dir})`);
}
