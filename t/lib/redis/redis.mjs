/*
 * redis.mjs: a real redis-server, and a relay before it that delays,
 * cuts, splits, swallows and rewrites.
 *
 * Each server has a folder and free loopback ports of its own, which it keeps
 * when it is started again. It is Debian's program, not its service: nothing
 * listens on 6379, nothing outside the folder is read or written. The tests'
 * own commands come from a user of their own, so that no password, ACL or
 * full connection of the user under test is in their way.
 */
import { spawn } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { client, reply } from './resp.mjs';
import { certificates } from '../certificates.mjs';
import {
  freePorts, newFolder, patience, pause, until,
} from '../wait.mjs';

const binary = process.env.CHAT_REDIS ?? 'redis-server';
const login = ['harness', 'the-tests-own'];

/* Clusters and sentinels sync to disk at each configuration change. */
const memory = existsSync('/dev/shm') ? '/dev/shm' : undefined;

/* The files of test processes that died are removed here. */
const folders = new Set();
process.once('exit', () => {
  folders.forEach((dir) => rmSync(dir, { recursive: true, force: true }));
});

class Redis {
  constructor(dir, ports, options) {
    [this.dir, this.options] = [dir, options];
    [this.port] = options.unix ? [0] : ports;
    this.path = options.unix && `${dir}/redis.sock`;
    this.ca = options.tls && certificates().ca;
    this.admin = client(this.path ? { path: this.path }
      : { port: this.port, ...(this.ca && { ca: readFileSync(this.ca),
        rejectUnauthorized: false }) },
    login);
  }

  /* redis.conf; lines of the options come last and take precedence. */
  configuration() {
    const { password, acl = [], tls, appendonly, lines = [], sentinel }
      = this.options;
    const { cert, key, ca } = tls ? certificates() : {};
    return [
      'daemonize no', 'bind 127.0.0.1', `dir ${this.dir}`,
      `logfile ${this.dir}/redis.log`,
      `port ${tls ? 0 : this.port}`,
      ...(this.path ? [`unixsocket ${this.path}`] : []),
      ...(tls ? [`tls-port ${this.port}`, `tls-cert-file ${cert}`,
        `tls-key-file ${key}`, `tls-ca-cert-file ${ca}`,
        'tls-auth-clients no', 'tls-replication yes'] : []),
      ...(sentinel ? [] : ['save ""',
        `appendonly ${appendonly ? 'yes' : 'no'}`, 'appendfsync no']),
      `user ${login[0]} on >${login[1]} ~* &* +@all`,
      ...(password ? [`requirepass ${password}`] : []),
      ...acl, ...lines, ''].join('\n');
  }

  log() {
    const path = `${this.dir}/redis.log`;
    return existsSync(path) ? readFileSync(path, 'utf8') : '';
  }

  /* Starts it (again), with the ports and the data that it had. */
  async start() {
    writeFileSync(`${this.dir}/redis.conf`, this.configuration());
    /* It ends with this process in any case. */
    const child = spawn('setpriv', ['--pdeathsig', 'KILL', binary,
      `${this.dir}/redis.conf`,
      ...(this.options.sentinel ? ['--sentinel'] : [])], { stdio: 'ignore' });
    this.child = child;
    child.unref();
    let dead = false;
    this.exited = new Promise((resolve) => {
      const end = () => {
        dead = true;
        resolve();
      };
      child.once('exit', end);
      child.once('error', end);
    });
    await until(async () => dead
      || await this.command('PING').catch(() => false), 10000, 'Redis');
    if (dead) {
      throw new Error(`${binary} does not start (${this.dir}):\n${
        this.log()}`);
    }
  }

  /* Ends it: SIGTERM as a service does, SIGKILL as a crash does. */
  async stop(signal = 'SIGTERM') {
    this.child.kill('SIGCONT');
    this.child.kill(signal);
    const timer = setTimeout(() => this.child.kill('SIGKILL'),
      5000 * patience);
    await this.exited;
    clearTimeout(timer);
    this.admin.close();
  }

  /*
   * Stops the process, which keeps its connections; returns once it has
   * stopped.
   */
  async freeze() {
    this.child.kill('SIGSTOP');
    await until(() => /^State:\s+T/m.test(readFileSync(
      `/proc/${this.child.pid}/status`, 'utf8')), 5000, 'a frozen Redis');
  }

  thaw() {
    this.child.kill('SIGCONT');
  }

  command(...args) {
    return this.admin.command(...args);
  }

  /*
   * The same, but null if the server closes its connections, as it does when
   * it becomes a master or a replica.
   */
  ask(method, ...args) {
    return this[method](...args).catch(() => null);
  }

  /* The server executes no command for this long. */
  pause(ms) {
    return this.command('CLIENT', 'PAUSE', ms, 'ALL');
  }

  /* The number of calls of a command since the start or resetStats(). */
  async calls(name) {
    const stats = await this.command('INFO', 'commandstats');
    const found = new RegExp(`^cmdstat_${name.toLowerCase()
      .replace('|', '\\|')}:calls=(\\d+)`, 'm').exec(stats);
    return Number(found?.[1] ?? 0);
  }

  resetStats() {
    return this.command('CONFIG', 'RESETSTAT');
  }

  /*
   * The connections except those of the tests and of replication: {id, addr,
   * user, sub, cmd, ...}.
   */
  async clients() {
    const list = await this.command('CLIENT', 'LIST');
    return list.split('\n').filter(Boolean).map((line) =>
      Object.fromEntries(line.split(' ').map((pair) => [
        pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)])))
      .filter(({ user, flags }) => user !== login[0] && !/[MS]/.test(flags));
  }

  /*
   * The arguments of chat_store. user and password unescaped; port: a relay's.
   * Over unix the password is in a file (passwordFile()).
   */
  url({ user = '', password = this.options.password, host = '127.0.0.1',
    port = this.port, db, ca = this.ca } = {}) {
    if (this.path) {
      return `unix:${this.path}`;
    }
    return `redis${this.ca ? 's' : ''}://${password ? `${user}:${password}@`
      : ''}${host}:${port}${db === undefined ? '' : `/${db}`}${
      this.ca && ca ? ` ca=${ca}` : ''}`;
  }

  /* A file that holds a password, for password_file=. */
  passwordFile(password = this.options.password) {
    const path = `${this.dir}/password`;
    writeFileSync(path, `${password}\n`, { mode: 0o600 });
    return path;
  }
}

/*
 * Starts a server; t is the test's context, which ends it, or null: it ends
 * with the process. options: password, acl (lines "user NAME ..."), tls, unix,
 * appendonly (each write is in its file before it is acknowledged), lines,
 * sentinel (it is one: lib/redis/sentinel.mjs).
 */
export async function redis(t, options = {}) {
  const dir = newFolder(memory);
  folders.add(dir);
  for (let attempt = 1; ; attempt++) {
    const it = new Redis(dir, await freePorts(1), options);
    try {
      await it.start();
    } catch (error) {
      if (attempt < 3 && /Address already in use/.test(it.log())) {
        rmSync(`${dir}/redis.log`);
        continue;
      }
      throw error;
    }
    t?.after(async () => {
      await it.stop('SIGKILL');
      rmSync(dir, { recursive: true });
      folders.delete(dir);
    });
    return it;
  }
}


/* The commands or replies in these bytes; the last one may be a part. */
function* each(bytes) {
  for (let at = 0, next; at < bytes.length; at = next) {
    next = reply(bytes, at)?.[1] ?? bytes.length;
    yield bytes.subarray(at, next);
  }
}

/*
 * For relay().rewrite(): each array becomes this text. Replies that arrive at
 * once are told apart, so that each command gets one.
 */
export const eachArray = (text) => (bytes) =>
  Buffer.concat([...each(bytes)].map((one) =>
    (one[0] === 42 ? Buffer.from(text) : one)));


/*
 * A relay before a port, or the path of a socket. delay(ms): replies come
 * later; admit(n): n commands still arrive, and the others once it is called
 * again; cut(): all connections break; refuse(yes): connections are refused;
 * split(n): replies arrive in pieces of n bytes; blackhole(yes): it accepts
 * and keeps all bytes until blackhole(no); rewrite(fn): fn(bytes) replaces the
 * bytes of a reply.
 */
export async function relay(t, target) {
  const now = { delay: 0, admit: Infinity, split: Infinity,
    rewrite: (bytes) => bytes };
  const sockets = new Set();
  let hole = Promise.resolve();
  let leave = () => {};
  let admitted;
  let wake = () => {};

  function pass(from, to, work) {
    let last = Promise.resolve();
    from.on('data', (bytes) => {
      const due = performance.now() + now.delay;
      last = last.then(() => hole).then(() => work(bytes, due));
    });
    from.on('error', () => {});
    from.on('close', () => last.then(() => to.destroy()));
    sockets.add(from);
  }

  async function answer(client, bytes, due) {
    await (due > performance.now() && pause(due - performance.now()));
    const whole = now.rewrite(bytes);
    for (let at = 0; at < whole.length; at += now.split) {
      client.write(whole.subarray(at, at + now.split));
      await new Promise((resolve) => { setImmediate(resolve); });
    }
  }

  async function order(behind, bytes) {
    for (const command of now.admit < Infinity ? each(bytes) : [bytes]) {
      while (now.admit === 0) {
        await admitted;
      }
      now.admit--;
      behind.write(command);
    }
  }

  const it = { connections: 0 };
  const server = net.createServer((client) => {
    const behind = net.connect(typeof target === 'number'
      ? { port: target, host: '127.0.0.1' } : { path: target });
    it.connections++;
    client.setNoDelay(true);
    pass(client, behind, (bytes) => order(behind, bytes));
    pass(behind, client, (bytes, due) => answer(client, bytes, due));
  });
  const listen = (port) => new Promise((resolve) => {
    server.listen(port, '127.0.0.1', resolve);
  });
  [it.port] = await freePorts(1);
  await listen(it.port);

  it.delay = (ms) => { now.delay = ms; };
  it.admit = (n) => {
    now.admit = n;
    wake();
    admitted = new Promise((resolve) => { wake = resolve; });
  };
  it.split = (n) => { now.split = n || Infinity; };
  it.rewrite = (fn) => { now.rewrite = fn ?? ((bytes) => bytes); };
  it.cut = () => {
    sockets.forEach((socket) => socket.destroy());
    sockets.clear();
  };
  it.blackhole = (yes) => {
    leave();
    if (yes) {
      hole = new Promise((resolve) => { leave = resolve; });
    }
  };
  it.refuse = async (yes) => {
    if (server.listening === yes) {
      await (yes ? server.close() : listen(it.port));
    }
  };
  t.after(() => {
    it.blackhole(false);
    server.close();
    it.cut();
  });
  return it;
}
