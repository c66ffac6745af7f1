/*
 * cluster.test.mjs: a Redis cluster under two nginx masters: batches as on one
 * server, slots that move in the middle of one, and masters that are killed.
 *
 * The cluster is made by the test, whatever CHAT_STORE says. The laws of a
 * store hold over it, too:
 * CHAT_STORE=cluster node --test t/store/contract.test.mjs.
 *
 * Suite: asan.
 */
import assert from 'node:assert/strict';
import { gate, nginx, nginxTest, pause, until } from '../lib/harness.mjs';
import { abreast, orders, play } from '../lib/barrier.mjs';
import { Batch, told } from '../lib/batch.mjs';
import { cluster, facts } from '../lib/redis/cluster.mjs';
import {
  each, held, live, only, say, several, wordOf,
} from '../lib/hold.mjs';
import { nodesStage } from '../lib/nodes.mjs';
import { redis } from '../lib/redis/redis.mjs';

const asan = !!process.env.CHAT_ASAN;
const store = (c) => `${c.url()} timeout=2s`;

function stage(t, key, c, options) {
  return nodesStage(t, key, { redis: c, store, hold: '30s', ...options });
}

/* A batch whose first result waits at a node: {batch, waits, slot}. */
async function begun(scene, c, calls = 3) {
  const batch = new Batch(scene, calls);
  await batch.ask();
  let waits;
  const slot = await c.slotOf(async () => {
    waits = batch.continue(batch.results([0]), { node: scene.nodes[0] });
    await held(batch, waits);
  });
  return { batch, waits, slot };
}

/* A batch whose slot is this server's, or (not) of any other one. */
async function begunAt(scene, c, server, there = true, calls = 2) {
  for (;;) {
    const one = await begun(scene, c, calls);
    if ((await c.owner(one.slot) === server) === there) {
      return one;
    }
    one.waits.abort();
  }
}

/* One has the answer; who looks when it is over may be told that it is. */
async function allTold(answers) {
  const words = await Promise.all(answers.map(wordOf));
  assert.ok(words.includes('final'), `${words}`);
  assert.ok(words.every((word) => ['final', 'empty', '409'].includes(word)),
    `${words}`);
}

/* Nobody was asked for keys of several slots, or for what it cannot do. */
function clean(scene) {
  for (const node of scene.nodes) {
    assert.doesNotMatch(node.errorLog(), /refused a command:/);
  }
}


live('s28 s37: each result at a random node, in every order', async (t) => {
  const c = await cluster(t);
  await each(t, async (t2, key) => {
    const scene = await stage(t2, key, c);
    for (let count = 2; count <= 5; count++) {
      const list = orders(count, 6);
      await abreast(list.slice(-12), 6, (order) => play(scene, order));
    }
    clean(scene);
  });
  for (const server of c.masters) {
    assert.ok(await server.command('DBSIZE') > 5, 'every master has its part');
  }
}, several);

live('a slot moves step by step in the middle of a batch', async (t) => {
  const c = await cluster(t);
  await each(t, async (t2, key) => {
    const scene = await stage(t2, key, c);
    const [a, b] = scene.nodes;
    const { batch, waits, slot } = await begun(scene, c, 4);
    const from = await c.owner(slot);
    const to = c.another(from);

    /* All keys are still there: the old owner answers, or says try again. */
    await c.begin(slot, to);
    const second = batch.continue(batch.results([1]), { node: b });
    await held(batch, second);

    /* Some are here, some there: nobody can answer. */
    await c.migrate(slot, from, to, facts);
    const third = batch.continue(batch.results([2]), { node: a });
    await held(batch, third);
    await c.migrate(slot, from, to);
    await until(async () => await c.errors('ASK') > 0);

    const answers = [waits, second, third];
    await c.end(slot, to);
    answers.push(batch.continue(batch.results([3]), { node: b }));
    await allTold(answers);
    batch.released();
    clean(scene);
  });
  assert.ok(await c.errors('TRYAGAIN') > 0, 'nobody was told to try again');
  assert.ok(await c.errors('MOVED') > 0, 'nobody was told that it has moved');
});

live('a batch is completed while its slot is on its way', async (t) => {
  const c = await cluster(t);
  await each(t, async (t2, key) => {
    const scene = await stage(t2, key, c);
    const { batch, waits, slot } = await begun(scene, c, 2);
    const from = await c.owner(slot);
    const to = c.another(from);
    await c.begin(slot, to);
    await c.migrate(slot, from, to, facts);
    const last = batch.continue(batch.results([1]), { node: scene.nodes[1] });
    await held(batch, last);
    await c.migrate(slot, from, to);
    await pause(200);
    await c.end(slot, to);
    await allTold([waits, last]);
    batch.released();
    clean(scene);
  });
});

live('a command that was retried for long follows ASK', async (t) => {
  const c = await cluster(t);
  /* A recording has new keys, for which the importing node has TRYAGAIN. */
  const scene = await stage(t, 'openai_chat', c,
    { location: 'chat_record off;' });
  const { batch, waits, slot } = await begun(scene, c, 2);
  const from = await c.owner(slot);
  const to = c.another(from);
  await c.begin(slot, to);
  await c.migrate(slot, from, to, facts);
  const before = await c.errors('TRYAGAIN');
  const last = batch.continue(batch.results([1]), { node: scene.nodes[1] });
  await until(async () => await c.errors('TRYAGAIN') >= before + 7);
  await c.migrate(slot, from, to);
  await allTold([waits, last]);
  await c.end(slot, to);
  batch.released();
  clean(scene);
});

live('many batches while slots move all the time', async (t) => {
  const c = await cluster(t);
  const scene = await stage(t, 'openai_chat', c);
  let over = false;
  let moves = 0;
  const moving = (async () => {
    while (!over) {
      const keys = (await c.keys('chat:{*')).sort(() => Math.random() - 0.5);
      for (const key of keys.slice(0, 20)) {
        const slot = await c.slot(key);
        await c.move(slot, c.another(await c.owner(slot)));
        moves++;
      }
    }
  })();
  while (moves < (asan ? 10 : 40)) {
    await abreast(orders(4).slice(0, 12), 6, (order) => play(scene, order));
  }
  over = true;
  await moving;
  t.diagnostic(`${moves} slots moved; MOVED ${await c.errors('MOVED')}, ASK ${
    await c.errors('ASK')}, TRYAGAIN ${await c.errors('TRYAGAIN')}`);
  clean(scene);
});

/* Goes on with a batch, again and again, until that is done. */
async function insist(batch, results) {
  const start = performance.now();
  await until(async () => {
    const { word } = await told(batch.continue(results));
    assert.ok(['final', '503', 'bounce', 'error'].includes(word), word);
    return word === 'final';
  }, 20000, 'the batch to be completed');
  return Math.round(performance.now() - start);
}

live('a master is killed, and its replica takes over', async (t) => {
  for (const key of ['openai_chat', 'ai_sdk']) {
    await t.test(key, async (t2) => {
      const c = await cluster(t2, { replicas: 1, timeout: 1000 });
      const scene = await stage(t2, key, c,
        { location: 'chat_store_failure deny;' });
      const [victim] = c.masters;
      const { batch, waits, slot } = await begunAt(scene, c, victim);
      await victim.command('WAIT', 1, 2000);
      const killed = performance.now();
      await victim.stop('SIGKILL');
      const { word } = await told(waits);
      const after = Math.round(performance.now() - killed);
      assert.equal(word, key === 'ai_sdk' ? 'bounce' : '503');
      assert.equal(batch.upstream().length, 0);

      await insist(batch, batch.results([1]));
      const took = Math.round(performance.now() - killed);
      batch.released();
      t2.diagnostic(`told after ${after} ms, completed after ${took} ms`);

      /* The old one comes back as a replica, and all goes on. */
      await victim.start();
      await c.ok();
      const { port } = await c.owner(slot);
      await until(() => scene.nodes.every((node) => node.workers().every(
        (pid) => new RegExp(`#${pid}: .* node \\S+:${port} is connected`)
          .test(node.errorLog()))), 5000, 'all workers to find it');
      await abreast(orders(3), 6, (order) => play(scene, order));
    });
  }
});

live('a master is away: only conversations of its slots are', async (t) => {
  const c = await cluster(t, { timeout: 1000, appendonly: true,
    lines: ['cluster-require-full-coverage no'] });
  const scene = await stage(t, 'openai_chat', c,
    { location: 'chat_store_failure deny;' });
  const [victim] = c.masters;
  const one = await begunAt(scene, c, victim);
  const other = await begunAt(scene, c, victim, false);
  const third = await begunAt(scene, c, victim, false);
  await victim.stop('SIGKILL');

  assert.equal(await wordOf(one.waits), '503');
  assert.equal(await wordOf(one.batch.continue(one.batch.results([1]))),
    '503');
  const words = [other.waits,
    other.batch.continue(other.batch.results([1]))].map(wordOf);
  assert.deepEqual(await Promise.all(words), ['final', 'final']);
  other.batch.released();

  /* Nor does it matter for how long: who lives is known by the others. */
  await pause(6000);
  assert.equal(third.waits.ended, false);
  const more = [third.waits,
    third.batch.continue(third.batch.results([1]))].map(wordOf);
  assert.deepEqual(await Promise.all(more), ['final', 'final']);
  third.batch.released();

  await victim.start();
  await insist(one.batch, one.batch.results([1]));
  one.batch.released();
});

live('a worker dies while a master is away', async (t) => {
  const c = await cluster(t, { timeout: 1000,
    lines: ['cluster-require-full-coverage no'] });
  const scene = await stage(t, 'openai_chat', c,
    { location: `chat_grace 50ms; ${say.pid}` });
  const [here, there] = scene.nodes;
  const [victim] = c.masters;
  const { batch, waits } = await begunAt(scene, c, victim, false);
  const { answer } = scene.p;
  scene.p.answer = () => gate();
  const { length } = scene.p.continuations();
  const [pid] = there.workers();
  /* The workers of the waiter stand still, so that the other one claims. */
  await only(here, 0, () => only(there, pid, async () => {
    batch.continue(batch.results([1]), { node: there }).text()
      .catch(() => {});
    await until(() => scene.p.continuations().length > length);
  }));
  await victim.stop('SIGKILL');
  await pause(2000);
  assert.equal(waits.ended, false);
  await there.kill(pid);
  const { word, text } = await told(waits);
  /* in a provider's dialect the connection breaks behind the error event */
  assert.equal(word, 'error', text);
  assert.match(text, /the stream was terminated before its end/);
  scene.p.answer = answer;
  assert.equal(await wordOf(batch.continue(batch.results([1]),
    { node: here })), 'final');
  batch.released(2);
});

/* Of three shards one is down and one stalls: no majority until it is back. */
live('given a shard that reconnects, a worker waits for its reply',
  async (t) => {
    const c = await cluster(t, { timeout: 1000,
      lines: ['cluster-require-full-coverage no'] });
    const scene = await stage(t, 'openai_chat', c, { workers: 1,
      store: (it) => `${it.url()} timeout=300ms`,
      location: 'chat_store_failure deny;' });
    const [here, there] = scene.nodes;
    const [victim, shard, owner] = c.masters;
    const { batch } = await begunAt(scene, c, owner);
    scene.p.answer = () => gate();
    const { length } = scene.p.continuations();
    const last = batch.continue(batch.results([1]), { node: here });
    last.head.catch(() => {});
    await until(() => scene.p.continuations().length > length);
    await victim.stop('SIGKILL');
    await pause(2000);
    const lines = () => there.errorLog().split('\n').filter((line) =>
      line.includes(`:${shard.port} is unavailable`)).length;
    const words = [];
    for (let tries = 0; tries < 5; tries++) {
      const before = lines();
      await shard.freeze();
      await until(() => lines() > before, 5000, 'a connection to break');
      const answer = batch.continue(batch.results([1]), { node: there });
      await answer.sent;
      await pause(50);
      shard.thaw();
      await pause(500);
      if (!answer.ended) {
        answer.abort();
        return;
      }
      words.push(await wordOf(answer));
      await pause(1500);
    }
    assert.fail(`never held: ${words}`);
  });

live('one node of those that are named is enough', async (t) => {
  const c = await cluster(t);
  const nobody = await redis(t);
  const { port } = nobody;
  await nobody.stop('SIGKILL');
  const scene = await stage(t, 'openai_chat', c, { store: () =>
    `redis+cluster://127.0.0.1:${port},localhost:${c.masters[1].port
    } timeout=2s` });
  await abreast(orders(3), 6, (order) => play(scene, order));
  clean(scene);
});

live('a master that comes back empty', async (t) => {
  const c = await cluster(t, { timeout: 5000 });
  const scene = await stage(t, 'openai_chat', c);
  const [, , victim] = c.masters;
  const { batch, waits } = await begunAt(scene, c, victim);
  /* who has not asked what data it is has nothing to miss */
  const workers = scene.nodes.flatMap((node) => node.workers());
  await until(async () => (await victim.clients()).filter(({ cmd }) =>
    cmd === 'mget').length === workers.length);
  await victim.command('FLUSHALL');
  await until(() => scene.nodes.every((node) =>
    /store node \S+ has lost its data/.test(node.errorLog())));
  const last = batch.continue(batch.results([1]), { node: scene.nodes[1] });
  assert.deepEqual(await Promise.all([waits, last].map(wordOf)),
    ['final', 'final']);
  batch.released();
});

live('a user who may do as little as the docs say', async (t) => {
  const c = await cluster(t, { masters: 3, acl: ['user chat on >secret '
    + '~chat:* &chat:* -@all +auth +select +ping +script|load +evalsha +hget '
    + '+hset +hdel +hlen +hgetall +hmget +del +expire +publish +subscribe '
    + '+get +set +mget +pttl +xadd +xrange +cluster|slots +asking'] });
  const scene = await stage(t, 'openai_chat', c, { store: (it) =>
    `${it.url({ user: 'chat', password: 'secret' })} timeout=2s` });
  const { batch, waits, slot } = await begun(scene, c, 2);
  const from = await c.owner(slot);
  const to = c.another(from);
  await c.begin(slot, to);
  await c.migrate(slot, from, to);
  const last = batch.continue(batch.results([1]));
  await until(async () => await c.errors('ASK') > 0);
  await c.end(slot, to);
  await allTold([waits, last]);
  batch.released();
  clean(scene);
});

live('over TLS', async (t) => {
  const c = await cluster(t, { tls: true,
    lines: ['tls-cluster yes', 'tls-replication yes'] });
  const scene = await stage(t, 'openai_chat', c, { store: (it) =>
    `${it.url({ host: 'localhost', ca: it.masters[0].ca })} timeout=2s` });
  await abreast(orders(3), 6, (order) => play(scene, order));
  clean(scene);
});

live('what is no cluster is told', async (t) => {
  const bad = await nginxTest({ store: 'redis+cluster://127.0.0.1:7000/1' });
  assert.equal(bad.ok, false);
  assert.match(bad.output,
    /"chat_store": a cluster has one database only/);
  const r = await redis(t);
  const n = await nginx(t, { upstream: 9, store:
    `redis+cluster://127.0.0.1:${r.port}` });
  await until(() => n.errorLog().includes(`store node 127.0.0.1:${r.port
  } is unavailable: ERR This instance has cluster support disabled`));
});
