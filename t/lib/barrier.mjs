/*
 * barrier.mjs: batches with results in separate requests, in any order:
 * exactly one complete request goes upstream, and every client gets a correct
 * answer.
 */
import assert from 'node:assert/strict';
import { Batch, outputs, told } from './batch.mjs';
import { random } from './mutants.mjs';

function* permutations(list) {
  if (list.length < 2) {
    yield list;
    return;
  }
  for (const [i, first] of list.entries()) {
    for (const rest of permutations(list.filter((_, j) => j !== i))) {
      yield [first, ...rest];
    }
  }
}

/* Orders of arrival of this many calls: all, or a sample. */
export function orders(count, sampled) {
  const list = Array.from({ length: count }, (_, i) => i);
  if (count <= 5) {
    return [...permutations(list)];
  }
  const next = random(count);
  return Array.from({ length: sampled }, () => {
    const order = [...list];
    for (let i = count - 1; i > 0; i--) {
      const j = next(i + 1);
      [order[i], order[j]] = [order[j], order[i]];
    }
    return order;
  });
}

/* One batch, each result in a request of its own, in this order. */
export async function play(scene, order, options) {
  const batch = new Batch(scene, order.length);
  await batch.ask(options);
  const answers = [];
  for (const i of order) {
    const answer = batch.continue(batch.results([i]), options);
    answers.push(answer);
    await answer.sent;
  }
  const ends = await Promise.all(answers.map(told));
  const words = ends.map(({ word }) => word);
  const { body } = batch.released();
  for (const id of batch.ids) {
    assert.ok(JSON.stringify(body).includes(id));
  }
  assert.equal(String(batch.upstream()[0].raw).split(batch.key).length - 1,
    order.length, 'each result is in the body once');
  assert.ok(words.every((word) => word === 'final'), `${words}`);
  for (const [at, end] of ends.entries()) {
    assert.ok(end.text.includes(batch.key));
    if (scene.dialect.apps && !scene.dialect.chained) {
      assert.deepEqual(outputs(end),
        batch.ids.filter((id) => id !== batch.ids[order[at]]), end.text);
    }
  }
}

/* Runs the work for each item of a list, this many at a time. */
export async function abreast(list, count, work) {
  const queue = [...list];
  await Promise.all(Array.from({ length: count }, async () => {
    while (queue.length) {
      await work(queue.shift());
    }
  }));
}
