/*
 * play.mjs: plays batches: their clients repeat, delay, abort and retry until
 * each has an answer. For chaos.test.mjs and soak.mjs.
 */
import assert from 'node:assert/strict';
import { pause } from '../lib/harness.mjs';
import { Batch, told } from '../lib/batch.mjs';

/* A scene for play(); gone: pids of workers that died, or may have. */
export const playing = (scene) => Object.assign(scene, { words: {},
  gone: new Set(), moves: 0, twice: 0, over: false });

const settled = ['final', 'empty'];

/* One client brings one result until it has an answer. */
async function bring(scene, batch, results, outcomes) {
  const end = Date.now() + 60000;
  for (let turn = 0; Date.now() < end; turn++) {
    const id = `${batch.key}-${Object.keys(results)[0]}-${turn}`
      + `-${scene.random(1e9)}`;
    const answer = batch.continue(results, { headers: { 'x-try': id } });
    answer.head.catch(() => {});
    if (scene.random(8) === 0) {
      setTimeout(() => answer.abort(), scene.random(300));
    }
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

/*
 * One batch of a scene, with random() of seeded(). At most one request with
 * results is accepted upstream, unless the worker of the first is gone, or
 * scene.moves changed meanwhile: the master did. None is incomplete.
 */
export async function play(scene) {
  const batch = await asked(scene, 2 + scene.random(5));
  const { moves } = scene;
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
  if (moves !== scene.moves) {
    scene.twice += accepted.length > 1;
    return;
  }
  for (const one of accepted.slice(0, -1)) {
    /* A dead worker may not have stored the end of its attempt. */
    assert.ok(outcomes.get(one.headers['x-try']) === 'broken'
      || scene.gone.has(Number(one.headers['x-pid'])),
    `${batch.key}: sent twice`);
  }
}
