/*
 * retries.test.mjs: each answer breaks off and the client retries each time:
 * the module ends the retries. Attempts that never reached the upstream do not
 * count.
 */
import assert from 'node:assert/strict';
import { Batch, stage, told } from '../lib/batch.mjs';
import { isRaw } from '../lib/ends.mjs';
import { live } from '../lib/hold.mjs';
import { json, sse } from '../lib/provider.mjs';
import { until } from '../lib/harness.mjs';
import { handled } from '../lib/handled.mjs';

/* An answer of one token without an end. */
const token = (batch) => sse(batch.dialect.final('one')
  .slice(0, batch.dialect.name === 'ai_sdk' ? 4 : 2), { end: 'reset' });

async function broken(batch) {
  const { word, text, broke } = await told(
    batch.continue(batch.results()));
  assert.equal(word, 'error', text);
  assert.equal(!!broke, isRaw(batch.dialect.name), text);
  assert.ok(text.includes('stream_interrupted'), text);
}

/* The attempts of the requests so far, from the access log. */
async function attempts({ n }, count) {
  const lines = await until(() => {
    const log = n.accessLog();
    return log.length === count && log;
  });
  return lines.map(({ attempt }) => Number(attempt));
}

const both = (name, play) => ['ai_sdk', 'ag_ui'].forEach((key) =>
  live(name.replace('KEY', key), (t) => play(t, key)));

both('s80: KEY: eleven attempts in a minute: 429', async (t, key) => {
  const scene = await stage(t, key, { workers: 2 });
  const batch = new Batch(scene, 2);
  await batch.ask();
  const { answer } = scene.p;
  scene.p.answer = () => token(batch);
  for (let k = 1; k <= 10; k++) {
    await broken(batch);
  }
  const { word, text } = await told(batch.continue(batch.results()));
  assert.equal(word, '429');
  assert.equal(JSON.parse(text).code ?? JSON.parse(text).error.code, 'loop');
  batch.released(10);
  assert.deepEqual(await attempts(scene, 12),
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0]);
  const last = scene.n.accessLog().at(-1);
  assert.equal(last.verdict, 'refused');
  assert.equal(last.turn_status, '');

  await t.test('another batch is not affected', async () => {
    scene.p.answer = answer;
    const other = new Batch(scene, 2);
    await other.ask();
    assert.equal((await told(other.continue(other.results()))).word, 'final');
  });
});

for (const key of ['openai_chat', 'openai_responses', 'anthropic']) {
  live(`s80: ${key}: attempts are counted, not limited`, async (t) => {
    const scene = await stage(t, key);
    const batch = new Batch(scene, 2);
    await batch.ask();
    scene.p.answer = () => token(batch);
    for (let k = 1; k <= 12; k++) {
      await broken(batch);
    }
    assert.deepEqual(await attempts(scene, 13),
      Array.from({ length: 13 }, (_, k) => k));
  });
}

both('s80: KEY: bounces and refusals do not count', async (t, key) => {
  const scene = await stage(t, key, { hold: '1ms' });
  const batch = new Batch(scene, 2);
  await batch.ask();
  for (let i = 0; i < 12; i++) {
    assert.equal((await told(batch.continue(batch.results([0])))).word,
      scene.dialect.bounces);
  }
  const { answer } = scene.p;
  scene.p.answer = () => json(503, { error: 'busy' });
  for (let k = 1; k <= 9; k++) {
    assert.equal((await told(batch.continue(batch.results()))).word, '503');
  }
  scene.p.answer = answer;
  assert.equal((await told(batch.continue(batch.results()))).word, 'final');
});

both('s81: KEY: fifty clients at once: one attempt', async (t, key) => {
  const scene = await stage(t, key, { workers: 2 });
  const batch = new Batch(scene, 2);
  await batch.ask();
  let go;
  const gone = new Promise((resolve) => { go = resolve; });
  scene.p.answer = () => sse([gone, ...token(batch).parts], { end: 'reset' });
  const all = Array.from({ length: 50 }, () =>
    batch.continue(batch.results()));
  await scene.p.arrival(2);
  /* A request that arrives after its end may claim once more. */
  await handled(batch, all, 300);
  go();
  await Promise.all(all.map((one) => one.text({ broken: true })));
  batch.released(1);
  const seen = await attempts(scene, 51);
  assert.deepEqual(seen.filter(Boolean), [1]);
  for (let k = 2; k <= 10; k++) {
    scene.p.answer = () => token(batch);
    await broken(batch);
  }
  assert.equal((await told(batch.continue(batch.results()))).word, '429');
  batch.released(10);
});
