/*
 * sentinel.mjs: a master, replicas, and the sentinels that watch them.
 *
 * All of them are servers of redis.mjs. The sentinels find one another within
 * two seconds; they regard a server as down after half a second, and two of
 * three are a majority.
 */
import { redis } from './redis.mjs';
import { until } from '../wait.mjs';

const main = 'main';

/* One field of a sentinel's reply about a server. */
const field = (list, name) => list[list.indexOf(name) + 1];

/* As the harness' own user of the servers. */
const watcher = [`sentinel auth-user ${main} harness`,
  `sentinel auth-pass ${main} the-tests-own`];

class Sentinels {
  constructor(servers, list) {
    this.servers = servers;
    this.list = list;
  }

  /* The arguments of chat_store; list: sentinels in this order. */
  url({ list = this.list, db, user = '', password, more = '' } = {}) {
    const { ca } = this.servers[0];
    return `redis${ca ? 's' : ''}+sentinel://${
      password ? `${user}:${password}@` : ''}${
      list.map(({ port }) => `127.0.0.1:${port}`).join(',')}/${main}${
      db === undefined ? '' : `/${db}`}${ca ? ` ca=${ca}` : ''}${more}`;
  }

  /* The port of the master, from a sentinel. */
  async told(sentinel = this.list[0]) {
    const [, port] = await sentinel.command('SENTINEL',
      'get-master-addr-by-name', main);
    return Number(port);
  }

  /* The reachable sentinels. */
  alive() {
    return this.list.filter(({ child }) => child.exitCode === null
      && child.signalCode === null);
  }

  /* The server that all of them name as the master. */
  async master() {
    const ports = await Promise.all(this.alive().map((one) =>
      this.told(one)));
    return ports.every((port) => port === ports[0])
      && this.servers.find(({ port }) => port === ports[0]);
  }

  /*
   * Waits for another master and returns it. ask: called first and repeatedly.
   */
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

  /*
   * A failover of healthy servers; returns the new master. Busy sentinels may
   * abandon it.
   */
  async failover() {
    return this.moved(await this.master(), () => this.alive()[0]
      .command('SENTINEL', 'FAILOVER', main).catch(() => {}));
  }

  /*
   * Sets the ms after which the sentinels regard a server as down; waits until
   * none regards one as down or plans a failover.
   */
  async patience(ms) {
    await until(async () => {
      const all = await Promise.all(this.alive().map(async (one) => {
        await one.command('SENTINEL', 'SET', main, 'down-after-milliseconds',
          ms);
        return one.command('SENTINEL', 'MASTER', main);
      }));
      return all.every((list) => field(list, 'flags') === 'master');
    }, 15000, 'sentinels without a failover');
  }

  /* Waits until the replica has all acknowledged writes. */
  async replicated(master) {
    const info = () => master.command('INFO', 'replication');
    const [, end] = /^master_repl_offset:(\d+)/m.exec(await info());
    await until(async () => {
      const found = /^slave0:.*offset=(\d+)/m.exec(await info());
      return found && Number(found[1]) >= Number(end);
    }, 5000, 'a replica without lag');
  }

  /* Waits until each sentinel knows the others and the replicas. */
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
