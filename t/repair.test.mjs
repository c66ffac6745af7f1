/*
 * repair.test.mjs: chat_repair: what a new user message leaves behind.
 *
 * Its transcript is completed with what the store has; under `all` what
 * nobody has answered gets an error that says so, each dialect's own.
 */
import assert from 'node:assert/strict';
import { until } from './harness.mjs';
import { dialects, newCalls, newId } from './harness_dialects.mjs';
import { sse } from './harness_provider.mjs';
import { Batch, stage, told } from './harness_batch.mjs';
import { held, leave, live, say, verdict, wordOf } from './harness_hold.mjs';

const keys = Object.keys(dialects);
const words = 'something else';
const unknown = /outcome of this call is unknown/g;

const all = (more = {}) => ({ workers: 2, ...more,
  location: `chat_repair all; ${say.verdict} ${more.location ?? ''}` });

/* A turn in words that leaves the calls without these results behind. */
function turn(batch, results = {}) {
  const { dialect } = batch;
  const after = [dialect.name === 'ai_sdk'
    ? { id: newId('u'), role: 'user', parts: [{ type: 'text', text: words }] }
    : { role: 'user', content: words }];
  return batch.body(results,
    dialect.name === 'anthropic' ? { text: words } : { after });
}

/* Posts a body that must be taken; what the provider got of it. */
async function taken(batch, body, ids = batch.ids) {
  const answer = batch.post(body);
  const end = await told(answer);
  const request = batch.p.requests.at(-1);
  assert.equal(end.word, 'final', String(request.raw));
  assert.equal(await verdict(answer), 'passed');
  assert.ok(!end.text.includes('tool-output'), 'told in no fresh turn');
  assert.equal(request.refused, false, String(request.raw));
  assert.ok(request.raw.includes(words));
  assert.deepEqual(request.answered, ids);
  return String(request.raw);
}

const count = (text, pattern) => (text.match(pattern) ?? []).length;
const has = (text, value) => text.includes(JSON.stringify(value))
  || text.includes(JSON.stringify(JSON.stringify(value)).slice(1, -1));

for (const key of keys) {
  live(`s66: ${key}: what nobody has answered gets an error`, async (t) => {
    const scene = await stage(t, key, all());
    await t.test('between results', async () => {
      const batch = new Batch(scene, 4);
      await batch.ask();
      await leave(batch, batch.results([1]));
      const raw = await taken(batch, turn(batch, batch.results([3])));
      assert.equal(count(raw, unknown), 2, raw);
      assert.ok(has(raw, batch.results()[batch.ids[1]]), raw);
    });
    await t.test('no result at all', async () => {
      const batch = new Batch(scene, 3);
      await batch.ask();
      const raw = await taken(batch, turn(batch));
      assert.equal(count(raw, unknown), 3, raw);
    });
    await t.test('an error from the store is kept', async () => {
      const batch = new Batch(scene, 2);
      await batch.ask();
      await leave(batch, { [batch.ids[0]]: new Error('boom') });
      const raw = await taken(batch, turn(batch));
      assert.ok(raw.includes('boom'));
      assert.equal(count(raw, unknown), 1, raw);
    });
  });

  live(`s67: ${key}: a late result wins over the error`, async (t) => {
    const scene = await stage(t, key, all());
    const batch = new Batch(scene, 2);
    await batch.ask();
    const results = batch.results();
    const raw = await taken(batch, turn(batch, batch.results([0])));
    assert.equal(count(raw, unknown), 1);

    /* nobody waits for it any more, but it is kept */
    await told(batch.continue(batch.results([1])));
    const late = await taken(batch, turn(batch, batch.results([0])));
    assert.equal(count(late, unknown), 0, late);
    assert.ok(has(late, results[batch.ids[1]]), late);
  });

  live(`s68: ${key}: a settled transcript stays byte for byte`,
    async (t) => {
      const scene = await stage(t, key, all());
      const batch = new Batch(scene, 2);
      const [a, b] = batch.ids;
      await batch.ask();
      const body = JSON.stringify(turn(batch,
        { [a]: new Error('boom'), [b]: { ok: 1.5 } }), null, 1);
      assert.equal(await taken(batch, body), body);
      const fresh = JSON.stringify(batch.dialect.fresh());
      await batch.post(fresh).text();
      assert.equal(String(scene.p.requests.at(-1).raw), fresh);
    });

  live(`${key}: settled leaves what nobody has answered`, async (t) => {
    const scene = await stage(t, key, { strict: false });
    const batch = new Batch(scene, 2);
    await batch.ask();
    const body = JSON.stringify(turn(batch, batch.results([0])));
    await batch.post(body).text();
    assert.equal(String(scene.p.requests.at(-1).raw), body);
  });
}
