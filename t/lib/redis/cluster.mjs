/*
 * cluster.mjs: a real Redis Cluster: masters with equal shares of the slots,
 * replicas, and slots that move step by step.
 *
 * Its servers are those of redis.mjs, each with a fixed port for the cluster
 * bus. The others regard a master as down after `timeout` ms.
 */
import { redis } from './redis.mjs';
import { freePorts, until } from '../wait.mjs';

const slots = 16384;

/* Keys of conversations; of these the facts, without payloads and logs. */
const isKey = (key) => /^chat:\{[0-9a-f]{8}\}/.test(key);
export const facts = /\}:[0-9a-f]+$/;

/* CLUSTER NODES as objects: id, flags, master, slots ("0-5460"). */
const table = (text) => text.trim().split('\n').map((line) => {
  const [id, place, flags, master, , , , link, ...ranges] = line.split(' ');
  return { id, port: Number(/:(\d+)@/.exec(place)[1]), link,
    flags: flags.split(','), master, slots: ranges };
});

class Cluster {
  constructor(masters, replicas) {
    [this.masters, this.replicas] = [masters, replicas];
    this.servers = [...masters, ...replicas];
  }

  /* The arguments of chat_store; options as of a server's url(). */
  url({ servers = this.masters, ...options } = {}) {
    const [first, ...others] = servers.map((server) =>
      server.url(options).replace(/^rediss?:\/\//, ''));
    const [place, ca] = first.split(' ');
    return `redis${ca ? 's' : ''}+cluster://${[place, ...others.map((other) =>
      other.replace(/^.*@|\s.*$/g, ''))].join(',')}${ca ? ` ${ca}` : ''}`;
  }

  async nodes(server = this.servers[0]) {
    return table(await server.command('CLUSTER', 'NODES'));
  }

  async id(server) {
    return server.command('CLUSTER', 'MYID');
  }

  async slot(key) {
    return this.command('CLUSTER', 'KEYSLOT', key);
  }

  /* The slot of the first conversation key that work() creates. */
  async slotOf(work) {
    const list = async () => (await this.keys('chat:{*')).filter(isKey);
    const before = await list();
    await work();
    const [key] = await until(async () => {
      const added = (await list()).filter((one) => !before.includes(one));
      return added.length && added;
    }, 5000, 'a key of the batch');
    return this.slot(key);
  }

  /* Another master than this one. */
  another(server) {
    return this.masters[(this.masters.indexOf(server) + 1)
      % this.masters.length];
  }

  /* The master that has a slot, as this server knows it. */
  async owner(slot, asked = this) {
    const ranges = await asked.command('CLUSTER', 'SLOTS');
    const [, , [, port]] = ranges.find(([from, to]) =>
      from <= slot && slot <= to);
    return this.servers.find((server) => server.port === port);
  }

  /* Whether each of these servers reports a healthy cluster. */
  async ok(servers = this.servers) {
    for (const server of servers) {
      await until(async () => /cluster_state:ok/.test(
        await server.command('CLUSTER', 'INFO').catch(() => '')), 20000,
      'a cluster');
    }
  }

  /* Begins to move the slot from its owner to this master. */
  async begin(slot, to) {
    const from = await this.owner(slot);
    await to.command('CLUSTER', 'SETSLOT', slot, 'IMPORTING',
      await this.id(from));
    await from.command('CLUSTER', 'SETSLOT', slot, 'MIGRATING',
      await this.id(to));
    return from;
  }

  /* Moves the matching keys of the slot. */
  async migrate(slot, from, to, match = /./) {
    const keys = (await from.command('CLUSTER', 'GETKEYSINSLOT', slot, 10000))
      .filter((key) => match.test(key));
    if (keys.length) {
      await from.command('MIGRATE', '127.0.0.1', to.port, '', 0, 5000,
        'AUTH2', 'harness', 'the-tests-own', 'KEYS', ...keys);
    }
    return keys;
  }

  /*
   * Ends the move and waits until every master knows the new owner, since
   * older messages of the old one may arrive later.
   */
  async end(slot, to) {
    const id = await this.id(to);
    const others = this.masters.filter((it) => it !== to);
    await until(async () => {
      for (const server of [to, ...others]) {
        await server.command('CLUSTER', 'SETSLOT', slot, 'NODE', id);
      }
      const owners = await Promise.all(this.masters.map((server) =>
        this.owner(slot, server)));
      const epochs = await Promise.all(this.masters.map(async (server) =>
        /current_epoch:(\d+)/.exec(await server.command('CLUSTER',
          'INFO'))[1]));
      return owners.every((server) => server === to)
        && epochs.every((epoch) => epoch === epochs[0]);
    }, 5000, 'a new owner');
  }

  /* Moves a slot in one step. */
  async move(slot, to) {
    const from = await this.begin(slot, to);
    await this.migrate(slot, from, to);
    await this.end(slot, to);
  }

  /* A command to the first reachable server. */
  async command(...args) {
    for (const server of this.servers) {
      if (await server.command('PING').catch(() => false)) {
        return server.command(...args);
      }
    }
    throw new Error('no server is reachable');
  }

  /* The number of such errors of all servers. */
  async errors(name) {
    const texts = await Promise.all(this.servers.map((server) =>
      server.command('INFO', 'errorstats').catch(() => '')));
    return texts.reduce((sum, text) => sum + Number(new RegExp(
      `errorstat_${name}:count=(\\d+)`).exec(text)?.[1] ?? 0), 0);
  }

  /* Keys of all reachable masters. */
  async keys(pattern) {
    const lists = await Promise.all(this.servers.map((server) =>
      server.command('KEYS', pattern).catch(() => [])));
    return [...new Set(lists.flat())];
  }
}

/*
 * Starts a cluster; t as of redis(). options: masters, replicas (of each),
 * timeout; all others are those of its servers.
 */
export async function cluster(t, { masters = 3, replicas = 0, timeout = 2000,
  lines = [], ...options } = {}) {
  const buses = await freePorts(masters * (1 + replicas));
  const servers = await Promise.all(buses.map((bus) => redis(t, { ...options,
    lines: ['cluster-enabled yes', `cluster-port ${bus}`,
      `cluster-node-timeout ${timeout}`, 'cluster-replica-validity-factor 0',
      'repl-diskless-sync-delay 0', 'cluster-allow-replica-migration no',
      'cluster-announce-ip 127.0.0.1', ...lines] })));
  const it = new Cluster(servers.slice(0, masters), servers.slice(masters));
  const [first] = servers;
  for (const [i, server] of servers.entries()) {
    await server.command('CLUSTER', 'SET-CONFIG-EPOCH', i + 1);
    await (i && first.command('CLUSTER', 'MEET', '127.0.0.1', server.port,
      buses[i]));
  }
  const share = slots / masters;
  for (const [i, server] of it.masters.entries()) {
    await server.command('CLUSTER', 'ADDSLOTSRANGE', Math.round(i * share),
      Math.round((i + 1) * share) - 1);
  }
  for (const server of servers) {
    await until(async () => (await it.nodes(server)).filter((node) =>
      node.link === 'connected' && !node.flags.includes('handshake')).length
      === servers.length, 10000, 'nodes that know one another');
  }
  for (const [i, server] of it.replicas.entries()) {
    await server.command('CLUSTER', 'REPLICATE',
      await it.id(it.masters[i % masters]));
    await until(async () => /master_link_status:up/.test(
      await server.command('INFO', 'replication')), 10000, 'a replica');
  }
  await it.ok();
  return it;
}
