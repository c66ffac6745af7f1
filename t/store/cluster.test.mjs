/*
 * cluster.test.mjs: a Redis Cluster under two nginx masters: batches as on one
 * server, slots that move in the middle of a batch, and masters that are
 * killed.
 *
 * The test starts its own cluster, regardless of CHAT_STORE. To check the laws
 * of a store over it: CHAT_STORE=cluster node --test
 * t/store/contract.test.mjs.
 *
 * Suite: asan, long.
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

/* A batch with a request held at a node: {batch, waits, slot}. */
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

/* A batch with a slot of this server, or (not) of any other one. */
async function begunAt(scene, c, server, there = true, calls = 2) {
  for (;;) {
    const one = await begun(scene, c, calls);
    if ((await c.owner(one.slot) === server) === there) {
      return one;
    }
    one.waits.abort();
  }
}

/* One client gets the answer; a late one may get an empty turn. */
async function allTold(answers) {
  const words = await Promise.all(answers.map(wordOf));
  assert.ok(words.includes('final'), `${words}`);
  assert.ok(words.every((word) => ['final', 'empty', '409'].includes(word)),
    `${words}`);
}

/* No node got keys of several slots, or an unknown command. */
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
    assert.ok(await server.command('DBSIZE') > 5, 'every master has keys');
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

    /* The old owner still has all keys: it answers, or replies TRYAGAIN. */
    await c.begin(slot, to);
    const second = batch.continue(batch.results([1]), { node: b });
    await held(batch, second);

    /* Both nodes have a part of the keys: neither can answer. */
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
  assert.ok(await c.errors('TRYAGAIN') > 0, 'no TRYAGAIN was sent');
  assert.ok(await c.errors('MOVED') > 0, 'no MOVED was sent');
});

live('a batch is completed while its slot moves', async (t) => {
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

live('a command with many retries follows ASK', async (t) => {
  const c = await cluster(t);
  /* A recording has new keys; the importing node replies TRYAGAIN for them. */
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

live('slots move all the time: many batches are completed', async (t) => {
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

/* Retries the continuation of a batch until it is answered. */
async function insist(batch, results) {
  const start = performance.now();
  await until(async () => {
    const { word } = await told(batch.continue(results));
    assert.ok(['final', '503', 'bounce', 'error'].includes(word), word);
    return word === 'final';
  }, 20000, 'the batch to be completed');
  return Math.round(performance.now() - start);
}

live('a master is killed: its replica takes over', async (t) => {
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
      t2.diagnostic(`error after ${after} ms, completed after ${took} ms`);

      /* The old master returns as a replica, and batches are completed. */
      await victim.start();
      await c.ok();
      const { port } = await c.owner(slot);
      await until(() => scene.nodes.every((node) => node.workers().every(
        (pid) => new RegExp(`#${pid}: .* node \\S+:${port} is connected`)
          .test(node.errorLog()))), 5000, 'all workers to reconnect');
      await abreast(orders(3), 6, (order) => play(scene, order));
    });
  }
});

live('a master is down: only conversations of its slots fail', async (t) => {
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

  /* Also after a long time, since the other masters have the liveness keys. */
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

live('a worker dies while a master is down', async (t) => {
  const c = await cluster(t, { timeout: 1000,
    lines: ['cluster-require-full-coverage no'] });
  const scene = await stage(t, 'openai_chat', c,
    { hold: '30s grace=50ms', location: say.pid });
  const [here, there] = scene.nodes;
  const [victim] = c.masters;
  const { batch, waits } = await begunAt(scene, c, victim, false);
  const { answer } = scene.p;
  scene.p.answer = () => gate();
  const { length } = scene.p.continuations();
  const [pid] = there.workers();
  /*
   * The workers of the held request are stopped, so that the other one claims.
   */
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
  /* In a provider's dialect the connection breaks after the error event. */
  assert.equal(word, 'error', text);
  assert.match(text, /the stream was terminated before its end/);
  scene.p.answer = answer;
  assert.equal(await wordOf(batch.continue(batch.results([1]),
    { node: here })), 'final');
  batch.released(2);
});

/* One of three shards is down and one stalls: no majority until it is back. */
live('a shard reconnects: the worker waits for its reply',
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

/* A batch: its complete continuation is upstream, and has no answer yet. */
async function running(scene, c, results = (batch) => batch.results(),
  fits = () => true) {
  const { answer } = scene.p;
  scene.p.answer = (request) =>
    (request.answered.length ? gate() : answer(request));
  for (;;) {
    const batch = new Batch(scene, 2);
    const slot = await c.slotOf(() => batch.ask());
    const owner = await c.owner(slot);
    if (fits(owner)) {
      const first = batch.continue(results(batch));
      first.head.catch(() => {});
      await until(() => batch.upstream().length === 1);
      return { batch, first, slot, owner };
    }
  }
}

/* Each connection is set up, and refuses the first write. */
live('a master refuses writes for long: no facts are dropped', async (t) => {
  const c = await cluster(t);
  const scene = await stage(t, 'openai_chat', c, { count: 1, workers: 1 });
  const { first, owner } = await running(scene, c, ({ ids }) =>
    Object.fromEntries(ids.map((id) => [id, 'x'.repeat(9e5)])));
  await pause(500);
  await owner.command('CONFIG', 'SET', 'min-replicas-to-write', 1);
  await pause(9000);
  assert.match(scene.n.errorLog(), /is unavailable: NOREPLICAS/);
  assert.doesNotMatch(scene.n.errorLog(), /facts are dropped/);
  first.abort();
});

/* Longer than commands are kept for a replica. */
live('the slot of a dead master goes to another one: a claim stands',
  async (t) => {
    const c = await cluster(t, { timeout: 1000,
      lines: ['cluster-require-full-coverage no'] });
    const scene = await stage(t, 'ai_sdk', c, { count: 1, workers: 1 });
    const { batch, first, slot, owner } = await running(scene, c, undefined,
      (server) => server !== c.masters[0]);
    await pause(6000);
    const id = await c.id(c.masters[0]);
    await owner.stop('SIGKILL');
    await pause(2000);
    for (const server of c.masters.filter((one) => one !== owner)) {
      await server.command('CLUSTER', 'SETSLOT', slot, 'NODE', id);
    }
    await until(async () => await c.masters[0].command('CLUSTER',
      'COUNTKEYSINSLOT', slot) > 0);
    const second = batch.continue(batch.results());
    second.head.catch(() => {});
    await pause(1000);
    assert.equal(second.ended, false);
    assert.equal(batch.upstream().length, 1);
    first.abort();
    second.abort();
  });

live('one reachable node of the list is enough', async (t) => {
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

live('a master restarts empty: held requests go on', async (t) => {
  const c = await cluster(t, { timeout: 5000 });
  const scene = await stage(t, 'openai_chat', c);
  const [, , victim] = c.masters;
  const { batch, waits } = await begunAt(scene, c, victim);
  /* Data loss is noticed only by workers that have read the epoch. */
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

live('a Redis user with only the documented permissions', async (t) => {
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

live('a server without cluster mode: an error is logged', async (t) => {
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
