/*
 * click.mjs: how long a person's answer waits in a useChat tab.
 *
 * Ten tabs for each time that a person takes. A tab sends as soon as one of
 * its two tools has run; while that request is held it can send nothing. The
 * person then answers the other call. The wait is from the click to the
 * provider's receipt of the complete request. Writes the part "Clicks" of
 * RESULTS.md beside this file.
 * --quick: a smoke run, which writes nothing; --tabs=N.
 */
import { pause } from '../t/lib/harness.mjs';
import { Batch, stage, told } from '../t/lib/batch.mjs';
import { context, number, part, quick } from './part.mjs';

const tabs = number('tabs', quick ? 2 : 10);
const people = quick ? [1, 2] : [2, 7, 20, 60];

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

async function measure() {
  const scene = await stage(context, 'ai_sdk', { hold: 'auto' });
  return Promise.all(people.map(async (seconds) => {
    const all = await Promise.all(Array.from({ length: tabs },
      () => play(scene, seconds)));
    const sorted = (key) => all.map((one) => one[key])
      .sort((a, b) => a - b);
    const waits = sorted('wait');
    return { seconds, middle: waits[tabs >> 1], most: waits.at(-1),
      sent: sorted('sent')[tabs >> 1] };
  }));
}

await part('Clicks', 'click.mjs', async () => {
  const rows = await measure();
  /* 100 ms for the machine. */
  const met = rows.every(({ seconds, most }) =>
    most <= Math.max(500, seconds * 100) + 100);
  return `${tabs} tabs send early;
then a person answers. The answer waits at most a tenth of the time that the
person took, or 0.5 s (and 0.1 s for the machine):
**${met ? 'met' : 'not met'}**.

| person, s | wait p50, ms | most, ms | most, % | requests before |
| --- | --- | --- | --- | --- |
${rows.map(({ seconds, middle, most, sent }) => `| ${seconds} | ${
    middle.toFixed(0)} | ${most.toFixed(0)} | ${
    (most / seconds / 10).toFixed(1)} | ${sent} |`).join('\n')}
`;
});
