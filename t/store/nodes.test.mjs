/*
 * nodes.test.mjs: two nginx masters of two workers each, one Redis: the
 * requests of a batch may arrive at any of them.
 *
 * Suite: asan, long.
 */
import assert from 'node:assert/strict';
import { gate, pause, until } from '../lib/harness.mjs';
import { handled } from '../lib/handled.mjs';
import { abreast, orders, play } from '../lib/barrier.mjs';
import { Batch, told } from '../lib/batch.mjs';
import { dialects } from '../lib/dialects.mjs';
import { resolver } from '../lib/dns.mjs';
import { isRaw } from '../lib/ends.mjs';
import {
  each, held, leave, live, only, pidOf, say, several, wordOf,
} from '../lib/hold.mjs';
import { nodesStage } from '../lib/nodes.mjs';
import { json, sse } from '../lib/provider.mjs';

const asan = !!process.env.CHAT_ASAN;
const keys = Object.keys(dialects);

/*
 * A worker's death is known once its key has expired and a worker has polled.
 */
const deadAfter = 12000;

/* Checks that all these clients get the final text. */
async function allFinal(answers) {
  const words = await Promise.all(answers.map(wordOf));
  assert.ok(words.every((word) => word === 'final'), `${words}`);
}


live('s28 s37: each result at a random node, in every order', async (t) => {
  await each(t, async (t2, key) => {
    const scene = await nodesStage(t2, key);
    for (let count = 2; count <= 8; count++) {
      const list = orders(count, asan ? 6 : 12);
      await abreast(count === 5 ? list.slice(-24) : list, 6, (order) =>
        play(scene, order));
    }
    await abreast(orders(3), 6, (order) =>
      play(scene, order, { http2: true }));
    for (const node of scene.nodes) {
      const pids = new Set(node.accessLog().map(({ pid }) => pid));
      assert.equal(pids.size, 2, 'every worker took part');
    }
  });
}, several);

live('s28 s52: results at both nodes at the same moment', async (t) => {
  await each(t, async (t2, key) => {
    const scene = await nodesStage(t2, key);
    for (let i = 0; i < (asan ? 5 : 15); i++) {
      const batch = new Batch(scene, 3);
      await batch.ask();
      await allFinal([0, 1, 2].map((at) =>
        batch.continue(batch.results([at]), { node: scene.nodes[at % 2] })));
      batch.released();
    }
  });
}, several);

live('s52: two tabs at two nodes with the same complete body', async (t) => {
  const scene = await nodesStage(t, 'ai_sdk');
  for (const delay of [0, 0, 0, 0, 1, 5, 20, 60]) {
    const batch = new Batch(scene, 2);
    await batch.ask();
    const first = batch.continue(batch.results(), { node: scene.nodes[0] });
    await pause(delay);
    const second = batch.continue(batch.results(), { node: scene.nodes[1] });
    const words = await Promise.all([first, second].map(wordOf));
    /* A sibling that arrives during the stream gets no recording. */
    assert.ok(words.includes('final')
      && words.every((word) => ['empty', 'final'].includes(word)), `${words}`);
    batch.released();
  }
});

/* A provider with a host name that resolves once the test says so. */
async function named(t, key, answer) {
  const dns = await resolver(t, answer);
  const scene = await nodesStage(t, key, {
    http: `resolver 127.0.0.1:${dns.port} valid=1s ipv6=off;
      map $http_x_name $where { default provider;
        "~^(?<name>.*\\.test)$" $name:1; }`,
    locations: `location / { chat ${dialects[key].name}; chat_hold 5s;
      proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off; proxy_pass http://$where; }` });
  return { dns, scene };
}

live('s53 s103: nothing was sent: the other node claims', async (t) => {
  await each(t, async (t2, key) => {
    const go = gate();
    const { dns, scene } = await named(t2, key, go);
    const [here, there] = scene.nodes;
    const batch = new Batch(scene, 2);
    await batch.ask();
    await leave(batch, batch.results([0]));
    const claimant = batch.continue(batch.results(),
      { node: here, headers: { 'x-name': 'no.test' } });
    await dns.question('no.test');
    const waiters = [1, 2, 3].map(() =>
      batch.continue(batch.results(), { node: there }));
    await Promise.all(waiters.map((waiter) => held(batch, waiter)));
    go.open();
    assert.equal(await wordOf(claimant), '502');
    await allFinal(waiters);
    batch.released();
  });
}, several);


live('s50: the worker of a held request is killed', async (t) => {
  await each(t, async (t2, key) => {
    const scene = await nodesStage(t2, key,
      { hold: '60s grace=50ms', location: say.pid });
    const [here, there] = scene.nodes;
    const batch = new Batch(scene, 2);
    await batch.ask();
    const first = batch.continue(batch.results([0]), { node: here });
    await here.kill(await pidOf(first));
    assert.equal(await wordOf(first), 'broken');
    assert.equal(await wordOf(batch.continue(batch.results([1]),
      { node: there })), 'final');
    batch.released();
  });
}, several);

live('a node stops while it holds a request', async (t) => {
  for (const signal of ['SIGTERM', 'SIGQUIT']) {
    await t.test(signal, async (t2) => {
      const scene = await nodesStage(t2, 'openai_chat', { hold: '2s' });
      const [here, there] = scene.nodes;
      const batch = new Batch(scene, 2);
      await batch.ask({ node: here });
      const first = batch.continue(batch.results([0]), { node: here });
      await held(batch, first);
      const stopped = here.stop(signal);
      /* Otherwise this node's request might go upstream and then be killed. */
      await (signal === 'SIGTERM' && until(() => first.ended));
      const second = batch.continue(batch.results([1]), { node: there });
      const words = await Promise.all([first, second].map(wordOf));
      assert.ok(words.includes('final'), `${words}`);
      assert.ok(signal === 'SIGQUIT' || words[0] === 'broken', `${words}`);
      batch.released();
      await stopped;
    });
  }
});

live('s51 s103: the claimant is killed: a held request claims', async (t) => {
  await Promise.all(keys.flatMap((key) => [['silent', '10m'],
    ['early', '50ms']].map(([name, grace]) =>
    t.test(`${key}, held requests: ${name}`, async (t2) => {
      const scene = await nodesStage(t2, key,
        { hold: `10m grace=${grace}`, location: say.pid });
      const [here, there] = scene.nodes;
      const batch = new Batch(scene, 3);
      await batch.ask();
      const { answer } = scene.p;
      scene.p.answer = () => gate(); /* no answer ever */
      const waiter = batch.continue(batch.results([0]), { node: here });
      await held(batch, waiter);
      await leave(batch, batch.results([1]), { node: there });
      /*
       * The workers of the held request are stopped, so that the other one
       * claims.
       */
      const [pid] = there.workers();
      await only(here, 0, () => only(there, pid, async () => {
        batch.continue(batch.results([2]), { node: there }).text()
          .catch(() => {});
        const request = await scene.p.arrival(2);
        assert.equal(Number(request.headers['x-pid']), pid);
      }));
      await handled(scene, [], 200);
      assert.equal(waiter.ended, false);
      await there.kill(pid);
      const start = performance.now();
      await until(() => waiter.ended, deadAfter, 'its end');
      t2.diagnostic(`ended after ${Math.round(performance.now() - start)} ms`);
      const end = await told(waiter);
      assert.equal(end.word, name === 'early' ? 'error' : '502', end.text);
      assert.equal(!!end.broke, name === 'early' && isRaw(key), end.text);
      assert.match(end.text, isRaw(key)
        ? /connection error: the stream was terminated before its end \(/
        : /producer_lost|terminated before its end/);
      batch.released(1);

      scene.p.answer = answer;
      assert.equal(await wordOf(batch.continue(batch.results([1]))), 'final');
      batch.released(2);
    }))));
}, { concurrency: 12 });

live('s103: one worker sees a death: all workers learn of it', async (t) => {
  const scene = await nodesStage(t, 'openai_chat', {
    hold: '60s grace=50ms', location: say.pid });
  const [here, there] = scene.nodes;
  const { redis } = scene;
  const keyOf = async (pid) =>
    (await redis.command('KEYS', `chat:worker:${pid}-*`))[0];
  /* ms since each worker's heartbeat, which it sends every 500 */
  const ages = async (...pids) => {
    const names = await Promise.all(pids.map(keyOf));
    return Promise.all(names.map(async (name) =>
      10000 - await redis.command('PTTL', name)));
  };
  const batch = new Batch(scene, 2);
  await batch.ask();
  const { answer } = scene.p;
  scene.p.answer = () => gate();
  const [mine, old] = here.workers();
  let waiter;
  await only(here, mine, async () => {
    waiter = batch.continue(batch.results([0]), { node: here });
    await held(batch, waiter);
  });
  const [pid] = there.workers();
  await only(here, 0, () => only(there, pid, async () => {
    batch.continue(batch.results([1]), { node: there }).text()
      .catch(() => {});
    await scene.p.arrival(2);
  }));

  /* Another worker that knows the claimant and polls at other times. */
  let other = old;
  await until(async () => {
    const last = other;
    await here.kill(last);
    other = await until(() => here.workers().find((one) =>
      one !== mine && one !== last));
    const [a, b] = await ages(mine, other);
    const later = (a - b + 500) % 500;
    return later > 200 && later < 420;
  }, 10000, 'a worker that polls later');
  /* For 2 s after it connects, a worker regards no other as dead. */
  const trusted = performance.now() + 2200;
  await until(async () => await pidOf(batch.continue(batch.results([1]),
    { node: here })) === other);
  await there.kill(pid);
  await until(async () => {
    const [a, b] = await ages(mine, other);
    return performance.now() > trusted && a < 470 && a - b > 150;
  }, 20000, 'polls in this order: they drift on a busy machine');
  await redis.command('DEL', await keyOf(pid));
  const { word, broke } = await told(waiter);
  assert.equal(word, 'error');
  assert.equal(broke, true);
  scene.p.answer = answer;
  await only(here, other, async () => {
    const end = await told(batch.continue(batch.results([1]),
      { node: here }));
    assert.equal(end.word, 'final', end.text);
  });
  batch.released(2);
});


for (const [name, fail] of [
  ['s62: refused', () => json(503, { error: { message: 'busy' } })],
  ['s63: broken off', () => sse('data: {"x":1}\n\n', { end: 'reset' })]]) {
  live(`${name} by the upstream: the other node has the results`,
    async (t) => {
      await each(t, async (t2, key) => {
        const scene = await nodesStage(t2, key);
        const [here, there] = scene.nodes;
        const batch = new Batch(scene, 2);
        await batch.ask({ node: here });
        const { answer } = scene.p;
        scene.p.answer = fail;
        const failed = [batch.continue(batch.results([0]), { node: here })];
        await held(batch, failed[0]);
        failed.push(batch.continue(batch.results([1]), { node: there }));
        const words = await Promise.all(failed.map(wordOf));
        assert.ok(!words.includes('final'), `${words}`);
        batch.released(1);
        await handled(scene, [], 200);
        batch.released(1);

        scene.p.answer = answer;
        assert.equal(await wordOf(batch.continue(batch.results([1]),
          { node: here })), 'final');
        batch.released(2);
      });
    }, several);
}

live('s65: a client disconnects: the other node has its result', async (t) => {
  await each(t, async (t2, key) => {
    const scene = await nodesStage(t2, key);
    const [here, there] = scene.nodes;
    const batch = new Batch(scene, 2);
    await batch.ask({ node: there });
    const { answer } = scene.p;
    scene.p.answer = () => sse([], { end: 'open' });
    const given = batch.continue(batch.results(), { node: here });
    const request = await scene.p.arrival(2);
    await given.head;
    given.abort();
    await request.closed;
    await until(() => here.accessLog().length === 1);
    scene.p.answer = answer;
    assert.equal(await wordOf(batch.continue(batch.results([0]),
      { node: there })), 'final');
    batch.released(2);
  });
}, several);

live('s107: another credential at another node', async (t) => {
  const scene = await nodesStage(t, 'openai_chat');
  const [here, there] = scene.nodes;
  const as = (user, node) => ({ node,
    headers: { authorization: `Bearer ${user}` } });
  const batch = new Batch(scene, 2);
  await batch.ask(as('alice', here));
  const first = batch.continue(batch.results([0]), as('alice', here));
  await held(batch, first);
  const other = batch.continue(batch.results([1]), as('mallory', there));
  await held(batch, other);
  await allFinal([first,
    batch.continue(batch.results([1]), as('alice', there))]);
  other.abort();
  batch.released();
});

live('a reload of one node', async (t) => {
  const scene = await nodesStage(t, 'ai_sdk', { hold: '10s' });
  const [here, there] = scene.nodes;
  const batch = new Batch(scene, 3);
  await batch.ask({ node: here });
  const first = batch.continue(batch.results([0]), { node: here });
  await held(batch, first);
  await here.reload();
  const second = batch.continue(batch.results([1]), { node: there });
  await held(batch, second);
  const third = batch.continue(batch.results([2]), { node: here });
  await allFinal([first, second, third]);
  batch.released();
});
