/*
 * sentinel.mjs: a master, replicas, and the sentinels that watch them.
 *
 * All of them are servers of redis.mjs. The sentinels meet within two
 * seconds; they take a server for dead after half a second, and two of three
 * are a majority.
 */
import { redis } from './redis.mjs';
import { until } from '../wait.mjs';

const main = 'main';

/* One of the pairs that a sentinel tells of a server. */
const field = (list, name) => list[list.indexOf(name) + 1];

/* As the harness' own user of the servers. */
const watcher = [`sentinel auth-user ${main} harness`,
  `sentinel auth-pass ${main} the-tests-own`];

class Sentinels {
  constructor(servers, list) {
    this.servers = servers;
    this.list = list;
  }

  /* What stands behind chat_store; list: sentinels in this order. */
  url({ list = this.list, db, user = '', password, more = '' } = {}) {
    const { ca } = this.servers[0];
    return `redis${ca ? 's' : ''}+sentinel://${
      password ? `${user}:${password}@` : ''}${
      list.map(({ port }) => `127.0.0.1:${port}`).join(',')}/${main}${
      db === undefined ? '' : `/${db}`}${ca ? ` ca=${ca}` : ''}${more}`;
  }

  /* The port of the master, as a sentinel tells it. */
  async told(sentinel = this.list[0]) {
    const [, port] = await sentinel.command('SENTINEL',
      'get-master-addr-by-name', main);
    return Number(port);
  }

  /* The sentinels that are there. */
  alive() {
    return this.list.filter(({ child }) => child.exitCode === null
      && child.signalCode === null);
  }

  /* The server that all of them take for the master. */
  async master() {
    const ports = await Promise.all(this.alive().map((one) =>
      this.told(one)));
    return ports.every((port) => port === ports[0])
      && this.servers.find(({ port }) => port === ports[0]);
  }

  /* Another one than this is the master; which. ask: first, and by and by. */
  moved(from, ask = () => {}) {
    let asked = -Infinity;
    return until(async () => {
      if (performance.now() - asked > 5000) {
        asked = performance.now();
        await ask();
      }
      const now = await this.master();
      return now && now !== from && now;
    }, 15000, 'a failover');
  }

  /* A failover while all are well; the new master. Busy ones give it up. */
  async failover() {
    return this.moved(await this.master(), () => this.alive()[0]
      .command('SENTINEL', 'FAILOVER', main).catch(() => {}));
  }

  /*
   * From now on a server is dead after so many ms, for all that are there; and
   * none of them takes it for dead, or is about to replace it.
   */
  async patience(ms) {
    await until(async () => {
      const all = await Promise.all(this.alive().map(async (one) => {
        await one.command('SENTINEL', 'SET', main, 'down-after-milliseconds',
          ms);
        return one.command('SENTINEL', 'MASTER', main);
      }));
      return all.every((list) => field(list, 'flags') === 'master');
    }, 15000, 'sentinels that are content');
  }

  /* What this master has acknowledged is at its replica, too. */
  async replicated(master) {
    const info = () => master.command('INFO', 'replication');
    const [, end] = /^master_repl_offset:(\d+)/m.exec(await info());
    await until(async () => {
      const found = /^slave0:.*offset=(\d+)/m.exec(await info());
      return found && Number(found[1]) >= Number(end);
    }, 5000, 'a replica that has all');
  }

  /* Each sentinel knows the others, and replicas that follow the master. */
  async settled() {
    await until(async () => {
      for (const one of this.list) {
        const all = await one.command('SENTINEL', 'MASTER', main);
        const replicas = await one.command('SENTINEL', 'REPLICAS', main);
        if (Number(field(all, 'num-other-sentinels')) + 1 !== this.list.length
          || field(all, 'flags') !== 'master'
          || !replicas.some((it) => field(it, 'flags') === 'slave'
            && field(it, 'master-link-status') === 'ok')) {
          return false;
        }
      }
      return true;
    }, 20000, 'sentinels that know one another');
  }
}

/*
 * Starts them; t as for redis(). options: those of redis() for the servers;
 * replicas (1), count (3) of the sentinels, downAfter (500 ms); own: options
 * of the sentinels.
 */
export async function sentinels(t, { replicas = 1, count = 3, downAfter = 500,
  own = {}, ...options } = {}) {
  const lines = [...options.lines ?? [], 'masteruser harness',
    'masterauth the-tests-own', 'repl-diskless-sync yes',
    'repl-diskless-sync-delay 0'];
  const master = await redis(t, { ...options, lines });
  const others = await Promise.all(Array.from({ length: replicas }, () =>
    redis(t, { ...options,
      lines: [...lines, `replicaof 127.0.0.1 ${master.port}`] })));
  await until(async () => {
    const info = await master.command('INFO', 'replication');
    return info.match(/state=online/g)?.length === replicas;
  }, 10000, 'replicas');

  const monitor = [`sentinel monitor ${main} 127.0.0.1 ${master.port} ${
    (count >> 1) + 1}`,
  `sentinel down-after-milliseconds ${main} ${downAfter}`,
  `sentinel failover-timeout ${main} 10000`, ...watcher];
  const list = await Promise.all(Array.from({ length: count }, () =>
    redis(t, { tls: options.tls, ...own, sentinel: true,
      lines: [...monitor, ...own.lines ?? []] })));
  const it = new Sentinels([master, ...others], list);
  await it.settled();
  return it;
}
