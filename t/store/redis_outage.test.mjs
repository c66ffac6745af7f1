/*
 * redis_outage.test.mjs: Redis stops, stalls, comes back, and comes back
 * empty; connections break. No incomplete request goes upstream, no accepted
 * result is lost, and each waiting client learns the truth in time.
 *
 * Suite: asan, long.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { patience, pause, until } from '../lib/harness.mjs';
import { handled } from '../lib/handled.mjs';
import { Batch, stage, told } from '../lib/batch.mjs';
import { dialects } from '../lib/dialects.mjs';
import {
  each, held, leave, live, missed, pidOf, say, several, verdict, wordOf,
} from '../lib/hold.mjs';
import { nodes, nodesStage } from '../lib/nodes.mjs';
import { redis, relay } from '../lib/redis/redis.mjs';

/* A stage with a connected store. */
function over(t, key, r, { port, location, timeout = `${200 * patience}ms`,
  ...options } = {}) {
  return stage(t, key, { workers: 2, hold: '20s', ...options,
    store: `${r.url({ port: port ?? r.port })} timeout=${timeout}`,
    connects: true,
    location: `${say.verdict} ${say.pid} ${location ?? ''}` });
}

/* A complete body of a batch that only the provider knows. */
function ask(scene, node) {
  const batch = new Batch(scene, 2);
  scene.p.issued.set(batch.from.id, batch.calls);
  scene.p.issued.set(batch.conversation, batch.calls);
  return batch.continue(batch.results(), { node });
}

/* Milliseconds until every worker uses the store again. */
async function back(scene, nodes = [scene.n]) {
  const start = performance.now();
  for (const node of nodes) {
    const there = new Set();
    await until(async () => {
      const answer = ask(scene, node);
      await answer.text();
      if (await verdict(answer) !== 'bypass') {
        there.add(await pidOf(answer));
      }
      return node.workers().every((pid) => there.has(pid));
    }, 5000, 'the store to be back');
  }
  return Math.round(performance.now() - start);
}

/* Median time of this many short turns, in ms. */
async function latency(scene, turns = 60) {
  const times = [];
  for (let i = 0; i < turns; i++) {
    const start = performance.now();
    assert.match(await ask(scene).text(), /done/);
    times.push(performance.now() - start);
  }
  return times.sort((a, b) => a - b)[turns >> 1];
}

/* Whether a batch in the store has this fact; default: a request waits. */
async function accepted(r, fact = 'partial') {
  for (const key of await r.command('KEYS', 'chat:{*')) {
    if (/:[0-9a-f]+$/.test(key)
      && await r.command('HEXISTS', key, fact)) {
      return true;
    }
  }
  return false;
}

const stops = {
  stopped: { go: (r) => r.stop('SIGTERM'), come: (r) => r.start() },
  killed: { go: (r) => r.stop('SIGKILL'), come: (r) => r.start() },
  frozen: { go: (r) => r.freeze(), come: (r) => r.thaw() },
};

for (const [name, { go, come }] of Object.entries(stops)) {
  live(`Redis is ${name}: traffic, held requests, recovery`,
    async (t) => {
      const figures = [];
      await each(t, async (t2, key) => {
        const r = await redis(t2, { appendonly: true });
        const scene = await over(t2, key, r);
        const before = await latency(scene);
        const silent = new Batch(scene, 2);
        await silent.ask();
        const waits = silent.continue(silent.results([0]));
        await held(silent, waits);
        await until(() => accepted(r), 5000, 'a result in the store');

        await go(r);
        const start = performance.now();
        const end = await told(waits);
        const took = Math.round(performance.now() - start);
        if (key === 'ai_sdk') {
          assert.equal(end.word, 'bounce', end.text);
        } else {
          assert.equal(end.word, '503', end.text);
          assert.ok(Number(end.headers['retry-after']) > 0);
        }
        assert.equal(silent.upstream().length, 0);

        await until(async () => {
          const answer = ask(scene);
          const asked = performance.now();
          await answer.text();
          return performance.now() - asked < 50 * patience;
        }, 3000, 'the store to become unavailable');
        const away = await latency(scene);

        await come(r);
        const ms = await back(scene);
        figures.push([took, ms, away - before]);
        t2.diagnostic(`error after ${took} ms; a turn takes ${
          before.toFixed(2)} ms, without Redis ${away.toFixed(2)} ms; back ${
          ms} ms after Redis`);
        /* s64: accepted results are there again. */
        assert.equal(await wordOf(silent.continue(silent.results([1]))),
          'final');
        silent.released();
      });
      /* A busy machine may be late. */
      for (const [i, bound] of [1000, 1000, 20].entries()) {
        const times = figures.map((figure) => figure[i]);
        assert.ok(Math.min(...times) < bound * patience, `${times}`);
        assert.ok(Math.max(...times) < 5 * bound * patience, `${times}`);
      }
    }, several);
}

live('a held request that got comments: an error event', async (t) => {
  await each(t, async (t2, key) => {
    const r = await redis(t2);
    const scene = await over(t2, key, r,
      { hold: '20s grace=50ms heartbeat=50ms' });
    const batch = new Batch(scene, 2);
    await batch.ask();
    const waits = batch.continue(batch.results([0]));
    await waits.until((text) => text.includes('chat-hold'));
    await r.stop('SIGKILL');
    const { word, text } = await told(waits);
    assert.equal(word, key === 'ai_sdk' ? 'bounce' : 'error', text);
    assert.ok(key === 'ai_sdk' || text.includes('store_unavailable'), text);
    assert.equal(batch.upstream().length, 0);
  });
}, several);

live('deny: without the store only text turns pass', async (t) => {
  const r = await redis(t);
  const scene = await over(t, 'openai_chat', r,
    { location: 'chat_store_failure deny;' });
  await r.stop('SIGKILL');
  await until(() => scene.n.errorLog().includes('is unavailable'));
  await pause(1000);
  const batch = new Batch(scene, 2);
  const { word, headers } = await told(batch.continue(batch.results()));
  assert.equal(word, '503');
  assert.ok(Number(headers['retry-after']) > 0);
  assert.equal(batch.upstream().length, 0);
  await r.start();
  await until(async () => await wordOf(batch.continue(batch.results()))
    === 'final');
  batch.released();
});


live('s64: Redis restarts with its data', async (t) => {
  await each(t, async (t2, key) => {
    const r = await redis(t2, { appendonly: true });
    const scene = await over(t2, key, r);
    const batch = new Batch(scene, 3);
    await batch.ask();
    await leave(batch, batch.results([0]));
    await leave(batch, batch.results([1]));
    await r.stop('SIGKILL');
    await r.start();
    await back(scene);
    assert.equal(await wordOf(batch.continue(batch.results([2]))), 'final');
    batch.released();
  });
}, several);

live('s64: the data is lost: held results are stored again', async (t) => {
  for (const [name, lose] of [
    ['flushed', (r) => r.command('FLUSHALL')],
    ['restarted', async (r) => {
      await r.stop('SIGKILL');
      await r.start();
    }]]) {
    await each(t, async (t2, key) => {
      const r = await redis(t2);
      const scene = await over(t2, key, r);
      const batch = new Batch(scene, 3);
      await batch.ask();
      await leave(batch, batch.results([0]));
      const first = batch.continue(batch.results([1]));
      await held(batch, first);
      await lose(r);
      await back(scene);
      await missed(scene);
      await pause(500);
      assert.equal(batch.upstream().length, 0);
      /* A slow restart has ended it; it lost nothing that it has not. */
      const ended = first.ended && await wordOf(first);
      assert.ok(!ended || name === 'restarted', ended);
      const again = batch.continue(batch.results(ended ? [1, 2] : [2]));
      await handled(scene, [again], 200);
      const known = batch.upstream().length;
      const last = batch.continue(batch.results([0]));
      const words = await Promise.all([again, last].map(wordOf));
      if (dialects[key].chained) {
        /* Only the store had the members of a chain. */
        assert.ok(batch.upstream().filter(({ refused }) => !refused)
          .length <= 1);
      } else {
        assert.equal(known, 0, 'the first result is lost: incomplete');
        assert.ok([...words, await wordOf(first)].includes('final'),
          `${words}`);
        batch.released();
      }
    }, `${name}: `);
  }
}, several);

live('s64: the data is lost while an attempt is answered', async (t) => {
  const r = await redis(t);
  const scene = await over(t, 'ai_sdk', r);
  const batch = new Batch(scene, 2);
  await batch.ask();
  const { answer } = scene.p;
  let go;
  scene.p.answer = (request) => new Promise((resolve) => {
    go = () => resolve(answer(request));
  });
  const first = batch.continue(batch.results());
  await scene.p.arrival(2);
  await r.command('FLUSHALL');
  await missed(scene);
  await pause(100);
  const second = batch.continue(batch.results());
  await held(batch, second, 1);
  go();
  const words = await Promise.all([first, second].map(wordOf));
  assert.deepEqual(words, ['final', 'final']);
  batch.released();
});

/*
 * A sibling waits without a bound while the attempt with all results runs. The
 * claimant dies, and the other results are lost: the sibling is a hold now.
 */
live('s64: a wait that becomes a hold ends at its bound', async (t) => {
  const r = await redis(t);
  const scene = await nodesStage(t, 'openai_chat', { redis: r, hold: '2s',
    store: () => r.url() });
  const [here, there] = scene.nodes;
  const batch = new Batch(scene, 2);
  await batch.ask();
  scene.p.answer = () => new Promise(() => {});
  batch.continue(batch.results(), { node: here });
  await scene.p.arrival(2);
  const sibling = batch.continue(batch.results([1]), { node: there });
  await held(batch, sibling, 1);
  await Promise.all(here.workers().map((pid) => here.kill(pid)));
  await r.command('FLUSHALL');
  await missed({ n: there });
  const since = performance.now();
  assert.equal(await wordOf(sibling), '409');
  assert.ok(performance.now() - since < 20000, 'by a heartbeat');
  assert.equal(batch.upstream().length, 1);
});

/*
 * A batch of three, with cuts between its results; returns the clients'
 * answers. "deny": if the relay stalls too long, no request goes upstream.
 */
async function cutRound(scene, way, wait) {
  const [here, there] = scene.nodes;
  const batch = new Batch(scene, 3);
  const asked = await batch.post(batch.dialect.fresh({
    conversation: batch.conversation })).text();
  if (asked !== batch.from.join('')) {
    return ['not asked'];
  }
  const first = batch.continue(batch.results([0]), { node: here });
  await handled(scene, [first]);
  way.cut();
  const second = batch.continue(batch.results([1]), { node: there });
  await handled(scene, [second]);
  assert.equal(batch.upstream().length, 0, 'released too early');
  way.cut();
  await pause(wait);
  const third = batch.continue(batch.results([2]));
  const words = await Promise.all([first, second, third].map(wordOf));
  assert.ok(batch.upstream().length <= 1);
  assert.ok(batch.upstream().every(({ refused }) => !refused));
  return words;
}

live('connections break while requests wait', async (t) => {
  await each(t, async (t2, key) => {
    const r = await redis(t2);
    const way = await relay(t2, r.port);
    const scene = await nodesStage(t2, key, { redis: r, hold: '20s',
      location: 'chat_store_failure deny;',
      store: () => `${r.url({ port: way.port })} timeout=2s` });
    const told3 = [];
    for (let good = 0; good < 4;) {
      const words = await cutRound(scene, way, good * 30);
      told3.push(`${words}`);
      good += words.filter((word) => word === 'final').length;
      assert.ok(told3.length < 12, told3.join(' | '));
    }
  });
}, several);

live('one node is cut off: the other one keeps working', async (t) => {
  const r = await redis(t);
  const way = await relay(t, r.port);
  const options = { hold: '20s', location: `${say.verdict} ${say.pid}` };
  const scene = await nodesStage(t, 'openai_chat', { ...options, redis: r,
    count: 1, store: () => r.url() });
  const [here] = scene.nodes;
  const [there] = await nodes(t, 'openai_chat', scene.p, 1,
    { ...options,
      store: `${r.url({ port: way.port })} timeout=2s` });
  const batch = new Batch(scene, 2);
  await batch.ask({ node: here });
  const cut = batch.continue(batch.results([0]), { node: there });
  await held(batch, cut);
  await way.refuse(true);
  way.cut();
  assert.equal(await wordOf(cut), '503');
  const last = batch.continue(batch.results([1]), { node: here });
  assert.equal(await wordOf(last), 'final');
  batch.released();
  await way.refuse(false);
  await back(scene, [there]);
});

/*
 * The connection has been idle for almost the 500 ms between two heartbeats of
 * the worker. The server owed no reply, so its time begins at the cut.
 */
live('an idle connection breaks: a held request waits 700 ms', async (t) => {
  const r = await redis(t);
  const way = await relay(t, r.port);
  const scene = await over(t, 'openai_chat', r, { port: way.port, workers: 1,
    timeout: '60s' });
  const batch = new Batch(scene, 2);
  await batch.ask();
  const answer = batch.continue(batch.results([0]));
  await held(batch, answer);
  await way.refuse(true);
  let replied = 0;
  way.rewrite((bytes) => {
    replied = performance.now();
    return bytes;
  });
  await until(() => replied, 5000, 'a heartbeat');
  await pause(400);
  const start = performance.now();
  way.cut();
  assert.equal(await wordOf(answer), '503');
  const took = Math.round(performance.now() - start);
  assert.ok(took >= 690, `${took} ms`);
  assert.equal(batch.upstream().length, 0);
});

live('a claimant that is cut off does not send late', async (t) => {
  const r = await redis(t);
  const way = await relay(t, r.port);
  const scene = await over(t, 'ai_sdk', r, { port: way.port, workers: 1,
    hold: '3s' });
  const batch = new Batch(scene, 2);
  await batch.ask();
  const first = batch.continue(batch.results([0]));
  await held(batch, first);
  way.blackhole(true);
  const second = batch.continue(batch.results([1]));
  const words = await Promise.all([first, second].map(wordOf));
  assert.equal(words[0], 'bounce');
  assert.equal(batch.upstream().filter(({ refused }) => !refused).length, 0);
  way.blackhole(false);
  await back(scene);
  await pause(300);
  assert.equal(batch.upstream().filter(({ refused }) => !refused).length, 0);
  assert.equal(await wordOf(batch.continue(batch.results())), 'final');
});

/* After 5 s without a heartbeat the other workers regard it as dead. */
live('a claimant in a stalled worker does not send late', async (t) => {
  const r = await redis(t);
  const way = await relay(t, r.port);
  const scene = await over(t, 'openai_chat', r, { port: way.port, workers: 1,
    timeout: '60s' });
  const [pid] = scene.n.workers();
  way.delay(500);
  const answer = ask(scene);
  await until(() => accepted(r, 'claim/1'), 5000, 'a claim');
  process.kill(pid, 'SIGSTOP');
  await pause(6000);
  process.kill(pid, 'SIGCONT');
  assert.equal(await wordOf(answer), '503');
  assert.equal(scene.p.continuations().length, 0);
});


/*
 * Each queue entry is a join of a client that disconnected before the reply.
 */
live('a full queue does not prevent reconnection', async (t) => {
  const r = await redis(t);
  const scene = await stage(t, 'openai_chat', { workers: 1, connects: true,
    store: `${r.url({})} timeout=60s`, hold: '20s',
    location: 'chat_limits body=64m result=60m;' });
  await r.freeze();
  const sizes = [];
  for (let size = 32 << 20; size > 4096; size >>= 1) {
    sizes.push(size - 4096);
  }
  for (let size = 4000; size >= 0; size -= 50) {
    sizes.push(size);
  }
  for (const size of sizes) {
    const batch = new Batch(scene, 2);
    const answer = batch.continue({ [batch.ids[0]]: 'x'.repeat(size) });
    await handled(scene, [answer], size > 100000 ? 700 : 80);
    answer.abort();
  }
  assert.match(scene.n.errorLog(), /its queue is full/);
  await r.stop('SIGKILL');
  await r.start();
  await until(() => /is available again/.test(scene.n.errorLog()), 5000);
}, several);

/* The number of times that a worker has waited for an event. */
const wakeups = (n) => n.workers().reduce((sum, pid) => sum + Number(
  /^voluntary_ctxt_switches:\s+(\d+)/m.exec(
    readFileSync(`/proc/${pid}/status`, 'utf8'))[1]), 0);

/*
 * The relay breaks each connection until the awaited command has used up its
 * time, then stalls. The command at which it stalls has more time left than
 * the awaited one.
 */
live('an expired command in mid-queue: the worker stays idle',
  async (t) => {
    const r = await redis(t);
    const way = await relay(t, r.port);
    const scene = await stage(t, 'openai_chat', { workers: 1, connects: true,
      store: `${r.url({ port: way.port })} timeout=2s`, hold: '20s' });
    const batch = new Batch(scene, 2);
    await batch.ask();
    await pause(100);
    way.blackhole(true);
    await pause(700);
    const start = performance.now();
    const answer = batch.continue(batch.results([0]));
    answer.head.catch(() => {});
    await answer.sent;
    await pause(100);
    let still = false;
    way.rewrite((bytes) => {
      if (!String(bytes).startsWith('+OK\r\n*')) {
        return bytes;
      }
      still ||= performance.now() - start > 3200;
      if (still) {
        way.blackhole(true);
        return Buffer.alloc(0);
      }
      return Buffer.from('not Redis\r\n');
    });
    way.blackhole(false);
    way.cut();
    await until(() => still, 8000, 'the relay to stall');
    await pause(Math.max(0, 4100 - (performance.now() - start)));
    const before = wakeups(scene.n);
    await pause(700);
    const rate = wakeups(scene.n) - before;
    t.diagnostic(`${rate} wake-ups in 700 ms`);
    assert.ok(rate < 200, `${rate} wake-ups in 700 ms`);
    way.rewrite(null);
    way.blackhole(false);
    answer.abort();
  });

/*
 * A worker's read of the other workers' keys: the whole reply, its elements
 * after the epoch, ms since the worker connected.
 */
const readings = {
  'an error': [() => '-ERR a bad day\r\n', '503'],
  'no array': [() => ':7\r\n', '503'],
  'an array of another length': [(all) => all.replace(/^\*\d+/, '*1')
    .replace(/(\$-1|\$1\r\n1)\r\n/g, ''), '503'],
  'an epoch of other data': [(all) => all.replace(/-[0-9a-f]{16}\./,
    '-0000000000000000.')],
  'the unchanged reply': [(all) => all],
  'no epoch': [(all) => all.replace(/\$\d+\r\n[^\r]+/, '$-1')],
  'no keys at first': [(all, ms) => (ms > 1500 ? all
    : all.replace(/\$1\r\n1/g, '$-1'))],
};
const reading = new RegExp('\\*(?!1\r)\\d+\r\n\\$\\d+\r\n\\d+-[0-9a-f]{16}\\.'
  + '[0-9a-f]+\r\n((\\$-1|\\$1\r\n1)\r\n)+', 'g');

live('a claimant that a worker cannot see keeps its claim', async (t) => {
  await Promise.all(Object.entries(readings).map(([name, [reply, told503]]) =>
    t.test(name, async (t2) => {
      const r = await redis(t2);
      const way = await relay(t2, r.port);
      const options = { hold: '20s', location: 'chat_store_failure deny;' };
      const scene = await nodesStage(t2, 'openai_chat', { ...options,
        redis: r, count: 1, store: () => r.url() });
      const [here] = scene.nodes;
      const [there] = await nodes(t2, 'openai_chat', scene.p, 1, { ...options,
        workers: 1, store: `${r.url({ port: way.port })} timeout=10s` });
      const batch = new Batch(scene, 2);
      await batch.ask({ node: here });
      const { answer } = scene.p;
      let go;
      scene.p.answer = (request) => new Promise((resolve) => {
        go = () => resolve(answer(request));
      });
      const first = batch.continue(batch.results([0]), { node: here });
      await held(batch, first);
      const last = batch.continue(batch.results([1]), { node: here });
      await until(() => go, 5000, 'the first attempt');
      await pause(200);
      let connected = performance.now();
      let rewritten = 0;
      way.rewrite((bytes) => Buffer.from(bytes.toString('latin1').replace(
        reading, (all) => {
          rewritten++;
          return reply(all, performance.now() - connected);
        }), 'latin1'));
      connected = performance.now();
      way.cut();
      await pause(150);
      const second = batch.continue(batch.results([1]), { node: there });
      await until(() => rewritten > 0 || second.ended, 10000, 'a query');
      await pause(300);
      assert.ok(rewritten > 0);
      assert.equal(batch.upstream().length, 1, 'a second claim');
      if (told503) {
        assert.equal(await wordOf(second), told503);
      } else {
        assert.equal(second.ended, false);
      }
      way.rewrite(null);
      go();
      const words = await Promise.all([first, last].map(wordOf));
      assert.ok(words.includes('final'), `${words}`);
      batch.released();
      second.abort();
    })));
}, several);
