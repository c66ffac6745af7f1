/*
 * clicks.mjs: how long a person's answer waits in a useChat tab.
 *
 * Ten tabs for each time that a person takes. A tab sends as soon as one of
 * its two tools has run; while that request is held it can send nothing. The
 * person then answers the other call. The wait is from the click to the
 * provider's receipt of the complete request. Takes minutes, so it runs only
 * by name.
 */
import { pause } from '../../t/lib/harness.mjs';
import { Batch, stage, told } from '../../t/lib/batch.mjs';
import { fixed, table } from '../report.mjs';

/* One tab and its person: {wait, ms; sent, its requests before the click}. */
async function play(scene, seconds) {
  const batch = new Batch(scene, 2);
  await batch.ask();
  let clicked = 0;
  const click = pause(seconds * 1000 + Math.random() * 500)
    .then(() => { clicked = performance.now(); });
  let sent = 0;
  for (; !clicked; sent++) {
    await told(batch.continue(batch.results([0])));
  }
  await click;
  await told(batch.continue(batch.results()));
  const [request] = batch.upstream();
  return { wait: request.at - clicked, sent };
}

/* All tabs of one person: the sorted waits, and the requests before. */
async function person(scene, tabs, seconds) {
  const all = await Promise.all(Array.from({ length: tabs },
    () => play(scene, seconds)));
  const sorted = (key) => all.map((one) => one[key]).sort((a, b) => a - b);
  return { seconds, waits: sorted('wait'), sent: sorted('sent')[tabs >> 1] };
}

export default { title: 'Clicks', async run(bench) {
  const tabs = bench.pick(2, 10);
  const scene = await stage(bench, 'ai_sdk', { hold: 'auto' });
  const people = await Promise.all(bench.pick([1, 2], [2, 7, 20, 60])
    .map((seconds) => person(scene, tabs, seconds)));
  /* 100 ms for the machine. */
  people.forEach(({ seconds, waits }) => bench.figure(
    `clicks/longest wait after ${seconds} s`, waits.at(-1), 'ms',
    { goal: Math.max(500, seconds * 100) + 100 }));
  return `${tabs} tabs send early; then a person answers. The answer waits at
most a tenth of the time that the person took, or 0.5 s (and 0.1 s for the
machine).

${table(['person, s', 'wait p50, ms', 'most, ms', 'most, %',
    'requests before'], people.map(({ seconds, waits, sent }) => [seconds,
    fixed(waits[tabs >> 1], 0), fixed(waits.at(-1), 0),
    fixed(waits.at(-1) / seconds / 10, 1), sent]))}`;
} };
