/*
 * sentinel.test.mjs: the store behind Redis Sentinel: how the master is found,
 * and what happens to batches after a failover.
 *
 * Suite: asan, long.
 */
import assert from 'node:assert/strict';
import { gate, nginx, pause, until } from '../lib/harness.mjs';
import { handled } from '../lib/handled.mjs';
import { Batch, stage } from '../lib/batch.mjs';
import { dialects } from '../lib/dialects.mjs';
import { held, leave, live, say, wordOf } from '../lib/hold.mjs';
import { nodesStage } from '../lib/nodes.mjs';
import { redis } from '../lib/redis/redis.mjs';
import { sentinels } from '../lib/redis/sentinel.mjs';

const keys = Object.keys(dialects);
const slow = ' timeout=2s';
/* Held requests fail after this time; a failover is shorter. */
const patient = ' timeout=15s';

const over = (t, key, it, { store = it.url() + slow, ...options } = {}) =>
  stage(t, key, { workers: 2, hold: '20s', connects: true, store,
    location: `${say.verdict} ${say.pid}`, ...options });

const nodesOver = (t, key, it, options) => nodesStage(t, key,
  { hold: '30s', ...options, redis: it.servers[0],
    store: () => it.url() + patient });

/* All workers of these nodes have both their connections to this server. */
const gather = (server, nodes, workers = 2) => until(async () =>
  (await server.ask('clients'))?.length === 2 * workers * nodes.length, 15000,
'the workers to connect to the master');

/* The workers that lost the store have found it again. */
const returned = (n) => until(() => n.workers().every((pid) => n.errorLog()
  .split('\n').filter((line) => line.includes(` ${pid}#`)
    && /is (un)?available/.test(line)).at(-1)?.includes('available again')
    ?? true));

/* A batch of two, at this node or at any. */
async function plays(scene, options) {
  const batch = new Batch(scene, 2);
  await batch.ask(options);
  await leave(batch, batch.results([0]), options);
  assert.equal(await wordOf(batch.continue(batch.results([1]), options)),
    'final');
  batch.released();
}

/* For each dialect a batch of three, prepared by begin(). */
const begun = (t, it, begin) => Promise.all(keys.map(async (key) => {
  const scene = await nodesOver(t, key, it);
  const batch = new Batch(scene, 3);
  await batch.ask();
  return { key, batch, nodes: scene.nodes, waits: await begin(batch, scene) };
}));

const nodesOf = (list) => list.flatMap(({ nodes }) => nodes);

live('one sentinel is down, another one stalls', async (t) => {
  const it = await sentinels(t);
  await it.list[0].stop('SIGKILL');
  await it.list[1].freeze();
  const scene = await over(t, 'openai_chat', it, { workers: 4 });
  await plays(scene);
  await gather(it.servers[0], [scene.n], 4);
  assert.ok(!scene.n.errorLog().includes('unavailable'), scene.n.errorLog());
  it.list[1].thaw();
});

live('no sentinel is reachable, then one is', async (t) => {
  const it = await sentinels(t, { count: 1 });
  const [sentinel] = it.list;
  await sentinel.stop('SIGKILL');
  const scene = await over(t, 'openai_chat', it, { connects: false });
  const { n } = scene;
  await until(() =>
    /is unavailable: the sentinel 127\.0\.0\.1:\d+: connect\(\)/.test(
      n.errorLog()));
  const batch = new Batch(scene, 2);
  await until(async () => {
    const answer = batch.post(batch.dialect.fresh({
      conversation: batch.conversation }));
    await answer.text();
    return n.accessLog().at(-1)?.verdict !== 'held';
  });
  await sentinel.start();
  await gather(it.servers[0], [n]);
  await plays(scene);
  const lines = n.errorLog().match(/is unavailable/g).length;
  assert.ok(lines <= 2, `${lines} lines of two workers`);
});

live('the sentinels do not know the master: an error is logged', async (t) => {
  const it = await sentinels(t, { count: 1 });
  const scene = await over(t, 'openai_chat', it, { connects: false,
    workers: 1, store: it.url().replace(/main$/, 'other') });
  await until(() =>
    /is unavailable: the sentinel \S+: it does not know this master/
      .test(scene.n.errorLog()));
});

live('sentinels with a password, minimal permissions', async (t) => {
  const acl = ['user chat on >fact ~chat:* &chat:* -@all +auth +select +ping '
    + '+script|load +evalsha +hget +hset +hdel +hlen +hgetall +hmget +del '
    + '+expire +publish +subscribe +get +set +mget +pttl +xadd +xrange +role'];
  const it = await sentinels(t, { count: 1, acl,
    own: { password: 'watch', acl: ['user eye on >over resetchannels '
      + '&+switch-master -@all +auth +ping +subscribe '
      + '+sentinel|get-master-addr-by-name'] } });
  const url = it.url({ user: 'chat', password: 'fact', db: 3 }) + slow;
  const file = (password) => ` sentinel_password_file=${
    it.list[0].passwordFile(password)}`;
  for (const [word, more] of [['watch', ''],
    ['over', ' sentinel_user=eye']]) {
    await plays(await over(t, 'openai_chat', it,
      { store: url + file(word) + more }));
  }
  const n = await nginx(t, { store: url, connects: false, upstream: 1 });
  await until(() => /is unavailable: the sentinel \S+: NOAUTH/
    .test(n.errorLog()));
  assert.ok(!/fact|watch/.test(n.errorLog()));
});

live('over TLS', async (t) => {
  const it = await sentinels(t, { tls: true });
  const scene = await over(t, 'openai_chat', it);
  await plays(scene);
  const now = await it.failover();
  await gather(now, [scene.n]);
  await plays(scene);
});

live('the subscribed sentinel dies: another one is used', async (t) => {
  const it = await sentinels(t);
  const scene = await over(t, 'openai_chat', it, { workers: 1 });
  const heard = () => until(async () => {
    for (const one of it.alive()) {
      if ((await one.clients()).some(({ sub }) => sub === '1')) {
        return one;
      }
    }
    return null;
  });
  await (await heard()).stop('SIGKILL');
  await heard();
  const now = await it.failover();
  await gather(now, [scene.n], 1);
  await plays(scene);
  assert.ok(!scene.n.errorLog().includes('no Sentinel'));
});


live('s28 s64: the master is killed in the middle of batches', async (t) => {
  const it = await sentinels(t);
  const [old] = it.servers;
  const list = await begun(t, it, async (batch) => {
    await leave(batch, batch.results([0]));
    const waits = batch.continue(batch.results([1]));
    await held(batch, waits);
    return waits;
  });
  await it.replicated(old);
  await old.stop('SIGKILL');
  const now = await it.moved(old);
  await gather(now, nodesOf(list));
  await Promise.all(nodesOf(list).map(returned));
  for (const { key, batch, waits } of list) {
    await t.test(key, async () => {
      /* An error in time, as after any cut, or the new master was found. */
      const word = waits.ended && await wordOf(waits);
      assert.ok(!word || word === (key === 'ai_sdk' ? 'bounce' : '503'),
        word);
      assert.equal(batch.upstream().length, 0);
      assert.equal(await wordOf(batch.continue(batch.results([2]))), 'final');
      assert.ok(word || await wordOf(waits) === 'final');
      batch.released();
    });
  }
});

live('s28 s37: a failover: held requests stay held', async (t) => {
  const it = await sentinels(t);
  const [old] = it.servers;
  const list = await begun(t, it, async (batch, { nodes }) => {
    const waits = [0, 1].map((at) => batch.continue(batch.results([at]),
      { node: nodes[at] }));
    await Promise.all(waits.map((waiter) => held(batch, waiter)));
    return waits;
  });
  await it.replicated(old);
  const now = await it.failover();
  await gather(now, nodesOf(list));
  /* The sentinel announces it and keeps the connections open. */
  assert.equal((await old.command('ROLE'))[0], 'master');
  for (const { key, batch, waits } of list) {
    await t.test(key, async () => {
      const last = batch.continue(batch.results([2]));
      const words = await Promise.all([...waits, last].map(wordOf));
      assert.deepEqual(words, ['final', 'final', 'final']);
      batch.released();
    });
  }
});

live('s64: a new master lacks data: it is stored again', async (t) => {
  const it = await sentinels(t);
  const [, replica] = it.servers;
  const scene = await nodesOver(t, 'openai_chat', it, { workers: 1 });
  const [here, there] = scene.nodes;
  const go = gate();
  const { answer } = scene.p;
  await replica.command('REPLICAOF', '127.0.0.1', 1);

  const open = new Batch(scene, 2);
  await open.ask();
  const waits = open.continue(open.results([0]), { node: here });
  await held(open, waits);

  const sent = new Batch(scene, 2);
  await sent.ask({ node: here });
  await leave(sent, sent.results([0]), { node: here });
  scene.p.answer = (request) => (request.headers['x-batch'] === sent.key
    && request.answered.length ? go.then(() => answer(request))
    : answer(request));
  const first = sent.continue(sent.results(), { node: here });
  await until(() => sent.upstream().length === 1);
  /* Older than the worker's resend buffer. */
  await pause(5100);
  await plays(scene, { node: here });

  const now = await it.failover();
  assert.equal(now, replica);
  await gather(now, scene.nodes, 1);
  await until(async () =>
    (await now.ask('command', 'KEYS', 'chat:{*'))?.length >= 2);

  const second = sent.continue(sent.results(), { node: there });
  await held(sent, second, 1);
  go.open();
  assert.deepEqual(await Promise.all([first, second].map(wordOf)),
    ['final', 'final']);
  sent.released();

  const last = open.continue(open.results([1]), { node: there });
  assert.deepEqual(await Promise.all([waits, last].map(wordOf)),
    ['final', 'final']);
  open.released();
});

live('s64: a claim that has lost is not repeated to the next master',
  async (t) => {
    const it = await sentinels(t);
    const [old, replica] = it.servers;
    const scene = await nodesOver(t, 'openai_chat', it, { workers: 1 });
    const [here, there] = scene.nodes;
    const [winner] = here.workers();
    const { answer } = scene.p;
    const go = gate();
    scene.p.answer = (request) => (request.answered.length
      ? go.then(() => answer(request)) : answer(request));
    const batch = new Batch(scene, 2);
    await batch.ask();
    await leave(batch, batch.results([0]));
    await it.replicated(old);
    await replica.command('REPLICAOF', '127.0.0.1', 1);

    const first = batch.continue(batch.results(), { node: here });
    await until(() => batch.upstream().length === 1);
    const second = batch.continue(batch.results(), { node: there });
    await held(batch, second, 1);

    /* The loser's worker is the first one at the new master. */
    process.kill(winner, 'SIGSTOP');
    try {
      assert.equal(await it.failover(), replica);
      await until(async () => (await replica.ask('command', 'KEYS',
        'chat:{*'))?.length > 0 && there.errorLog().includes('failed over'));
      await pause(500);
    } finally {
      process.kill(winner, 'SIGCONT');
    }
    await gather(replica, scene.nodes, 1);
    await pause(500);
    go.open();
    assert.deepEqual(await Promise.all([first, second].map(wordOf)),
      ['final', 'final']);
    batch.released();
  });

/* The worker joins what a request has brought once more, but no claim. */
live('s64: a claim without its results is not put at the next master',
  async (t) => {
    const it = await sentinels(t);
    const scene = await nodesOver(t, 'openai_chat', it, { workers: 1 });
    const [here, there] = scene.nodes;
    const batch = new Batch(scene, 2);
    await batch.ask({ node: here });
    await leave(batch, batch.results([0]), { node: here });
    assert.notEqual(await it.failover(), it.servers[0]);
    await until(() => here.errorLog().includes('failed over'));
    assert.equal(await wordOf(batch.continue(batch.results([1]),
      { node: there })), 'final');
    batch.released();
  });

live('s64: results accepted before a failover are not lost', async (t) => {
  const it = await sentinels(t);
  const scene = await nodesOver(t, 'openai_chat', it,
    { location: 'chat_store_failure deny;' });
  const accepted = [];
  let over = false;
  async function give() {
    while (!over) {
      const batch = new Batch(scene, 2);
      const waits = batch.continue(batch.results([0]));
      await handled(scene, [waits], 50);
      if (!waits.ended) {
        waits.abort();
        accepted.push(batch);
      }
    }
  }
  const givers = Array.from({ length: 4 }, give);
  await until(() => accepted.length >= 8);
  const before = accepted.length;
  const now = await it.failover();
  await gather(now, scene.nodes);
  await until(() => scene.nodes.every((n) =>
    n.errorLog().match(/is (available again|connected)/g).length
      > n.workers().length));
  over = true;
  await Promise.all(givers);
  t.diagnostic(`${before} before the failover, ${accepted.length} in all`);
  const words = await Promise.all(accepted.map((batch) =>
    wordOf(batch.continue(batch.results([1])))));
  assert.deepEqual(words, words.map(() => 'final'));
  accepted.forEach((batch) => batch.released());
});

live('the old master returns: no worker writes to it', async (t) => {
  const it = await sentinels(t);
  const [old] = it.servers;
  const scene = await nodesOver(t, 'openai_chat', it);
  const batch = new Batch(scene, 2);
  await batch.ask();
  await leave(batch, batch.results([0]));
  await it.replicated(old);
  await old.stop('SIGKILL');
  const now = await it.moved(old);
  /* The sentinels would replace a busy new master by the old one. */
  await it.patience(60000);
  await gather(now, scene.nodes);

  await old.start();
  let roles = '';
  const played = new Batch(scene, 2);
  await played.ask();
  await scene.nodes[0].reload();
  await until(async () => {
    const [role] = await old.ask('command', 'ROLE') ?? [''];
    roles += roles.endsWith(role) ? '' : ` ${role}`;
    /* A sentinel's connection before its login has no command. */
    assert.deepEqual((await old.ask('clients') ?? [])
      .filter(({ cmd }) => cmd !== 'NULL'), [], 'a worker is connected');
    await plays(scene);
    return role === 'slave';
  }, 30000, 'the old master to become a replica');
  t.diagnostic(`it was:${roles}`);
  await gather(now, scene.nodes);
  assert.equal(await wordOf(batch.continue(batch.results([1]))), 'final');
  batch.released();

  /* When the sentinels return to it, so do all workers. */
  assert.equal(await it.failover(), old);
  await gather(old, scene.nodes);
  await plays(scene);
});

live('the sentinels return to an empty master: all workers do', async (t) => {
  const it = await sentinels(t);
  const [old] = it.servers;
  const scene = await nodesOver(t, 'openai_chat', it);
  const now = await it.failover();
  await gather(now, scene.nodes);
  const batch = new Batch(scene, 2);
  await batch.ask();
  const waits = batch.continue(batch.results([0]));
  await held(batch, waits);

  /* It acts as a master again, and the other one stalls. */
  await old.stop('SIGKILL');
  await old.start();
  await now.freeze();
  assert.equal(await it.failover(), old);
  await gather(old, scene.nodes);
  await until(() => scene.nodes.every((n) =>
    n.errorLog().match(/has lost its data/g)?.length === 2));
  const last = batch.continue(batch.results([1]));
  assert.deepEqual(await Promise.all([waits, last].map(wordOf)),
    ['final', 'final']);
  batch.released();
});

live('the master becomes a replica without notice', async (t) => {
  const it = await sentinels(t, { count: 1, downAfter: 60000 });
  const [master] = it.servers;
  const scene = await over(t, 'openai_chat', it);
  const batch = new Batch(scene, 2);
  await batch.ask();
  await leave(batch, batch.results([0]));
  await master.command('REPLICAOF', '127.0.0.1', 1);
  await until(() => /is unavailable: (READONLY|it is not)/
    .test(scene.n.errorLog()));
  await until(() => /is unavailable: it is not a master/
    .test(scene.n.errorLog()));
  await pause(500);
  /* The worker asks the sentinel repeatedly, with pauses. */
  const asks = async () => Number(/total_connections_received:(\d+)/
    .exec(await it.list[0].command('INFO', 'stats'))[1]);
  const before = await asks();
  await pause(1000);
  const asked = await asks() - before;
  assert.ok(asked > 0 && asked < 20, `asked ${asked} times in a second`);
  await master.command('REPLICAOF', 'NO', 'ONE');
  await gather(master, [scene.n]);
  await returned(scene.n);
  assert.equal(await wordOf(batch.continue(batch.results([1]))), 'final');
  batch.released();
});

live('a single Redis that refuses writes counts as unavailable', async (t) => {
  const r = await redis(t);
  const scene = await over(t, 'openai_chat', { url: () => r.url() });
  const batch = new Batch(scene, 2);
  await batch.ask();
  await leave(batch, batch.results([0]));
  await r.command('REPLICAOF', '127.0.0.1', 1);
  await until(() => /is unavailable: READONLY/.test(scene.n.errorLog()));
  await r.command('REPLICAOF', 'NO', 'ONE');
  await gather(r, [scene.n]);
  await returned(scene.n);
  assert.equal(await wordOf(batch.continue(batch.results([1]))), 'final');
  batch.released();
});
