/*
 * chaos.test.mjs: batches over two nodes and one Redis while workers are
 * killed, Redis is restarted and paused, and results come twice and late.
 *
 * At most one request with results per batch is accepted upstream, unless the
 * worker of the first died: then the first counts as interrupted, and a
 * client's retry goes upstream. No incomplete request goes upstream; each
 * client gets an answer. CHAT_CHAOS is the number of batches (40), CHAT_SEED
 * repeats a run.
 *
 * Suite: asan.
 */
import assert from 'node:assert/strict';
import { pause } from '../lib/harness.mjs';
import { Batch, told } from '../lib/batch.mjs';
import { live } from '../lib/hold.mjs';
import { nodesStage } from '../lib/nodes.mjs';

const count = Number(process.env.CHAT_CHAOS ?? 40);
const settled = ['final', 'empty'];

/* One client brings one result until it has an answer. */
async function bring(scene, batch, results, outcomes) {
  const end = Date.now() + 60000;
  for (let turn = 0; Date.now() < end; turn++) {
    const id = `${batch.key}-${Object.keys(results)[0]}-${turn}`
      + `-${scene.random(1e9)}`;
    const answer = batch.continue(results, { headers: { 'x-try': id } });
    answer.head.catch(() => {});
    const { word } = await told(answer).catch(() => ({ word: 'broken' }));
    outcomes.set(id, word);
    scene.words[word] = (scene.words[word] ?? 0) + 1;
    if (settled.includes(word)) {
      return;
    }
    await pause(20 + scene.random(80));
  }
  throw new Error(`no answer for ${batch.key}`);
}

/* The turn with the calls, repeated until it is complete. */
async function asked(scene, size) {
  for (;;) {
    const batch = new Batch(scene, size);
    try {
      await batch.ask();
      return batch;
    } catch {
      await pause(50);
    }
  }
}

async function play(scene) {
  const batch = await asked(scene, 2 + scene.random(5));
  const outcomes = new Map();
  const clients = batch.ids.map(async (id, i) => {
    await pause(scene.random(200));
    const once = () => bring(scene, batch, batch.results([i]), outcomes);
    await Promise.all(scene.random(6) === 0 ? [once(), once()] : [once()]);
  });
  await Promise.all(clients);
  const accepted = batch.upstream().filter(({ refused }) => !refused);
  assert.ok(accepted.length > 0, 'no request went upstream');
  assert.equal(batch.upstream().length, accepted.length, 'incomplete');
  for (const one of accepted) {
    assert.deepEqual(one.answered, batch.ids);
  }
  for (const one of accepted.slice(0, -1)) {
    /* A dead worker may not have stored the end of its attempt. */
    assert.ok(outcomes.get(one.headers['x-try']) === 'broken'
      || scene.gone.has(Number(one.headers['x-pid'])),
    `${batch.key}: sent twice`);
  }
}

const trouble = {
  kill: async ({ random, nodes, gone }) => {
    const n = nodes[random(nodes.length)];
    const pids = n.workers();
    const pid = pids[random(pids.length)];
    gone.add(pid);
    process.kill(pid, 'SIGKILL');
  },
  restart: async ({ redis, random }) => {
    await redis.stop(random(2) ? 'SIGKILL' : 'SIGTERM');
    await redis.start();
  },
  pause: ({ redis }) => redis.pause(2000),
  reload: async ({ random, nodes, gone }) => {
    const n = nodes[random(nodes.length)];
    n.workers().forEach((pid) => gone.add(pid));
    n.child.kill('SIGHUP');
  },
};

live('chaos: no batch is sent twice, incomplete, or lost', async (t) => {
  const scene = await nodesStage(t, 'openai_chat', { hold: '3s',
    redis: { appendonly: true }, location: `chat_store_failure deny;
      proxy_set_header X-Pid $pid;` });
  scene.words = {};
  scene.gone = new Set();
  scene.nodes.forEach((n) => n.allow(/exited on signal 9/));
  let over = false;
  const troubled = {};
  const storm = (async () => {
    const kinds = Object.keys(trouble);
    while (!over) {
      const kind = kinds[scene.random(kinds.length)];
      troubled[kind] = (troubled[kind] ?? 0) + 1;
      await trouble[kind](scene);
      await pause(300 + scene.random(700));
    }
  })();
  storm.catch(() => {});
  let left = count;
  await Promise.all(Array.from({ length: 10 }, async () => {
    while (left-- > 0) {
      await play(scene);
    }
  }));
  over = true;
  await storm;
  t.diagnostic(`${count} batches; ${JSON.stringify(troubled)}; answers: ${
    JSON.stringify(scene.words)}; CHAT_SEED=${scene.seed}`);
});
