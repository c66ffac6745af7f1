/*
 * outage.mjs: shared by the parts that kill stores: how long a client gets no
 * good answer, and times as cells of a table.
 */
import { pause } from '../t/lib/harness.mjs';
import { Batch, told } from '../t/lib/batch.mjs';

/* Median, least and most. */
export function cell(list) {
  const all = [...list].sort((a, b) => a - b);
  return `${all[all.length >> 1].toFixed(0)} (${all[0].toFixed(0)}..${
    all.at(-1).toFixed(0)})`;
}

/* The longest time without a good answer for a client that sends batches. */
export async function outage(scene, over, options) {
  let last = performance.now();
  let worst = 0;
  while (!over.yes) {
    const batch = new Batch(scene, 2);
    const { word } = await told(batch.continue(batch.results(), options));
    const now = performance.now();
    if (word === 'final') {
      worst = Math.max(worst, now - last);
      last = now;
    }
    await pause(5);
  }
  return Math.max(worst, performance.now() - last);
}

/* Posts results until the answer is complete. */
export async function persist(batch, positions) {
  for (;;) {
    const { word } = await told(batch.continue(batch.results(positions)));
    if (word === 'final') {
      return;
    }
    if (!/^(503|error|broken)/.test(word)) {
      throw new Error(`told ${word}`);
    }
    await pause(10);
  }
}
