/*
 * follow_late.test.mjs: a sibling in a busy worker learns of the answer some
 * time after its end, and still gets all of it.
 */
import assert from 'node:assert/strict';
import { gate, pause, until } from '../lib/harness.mjs';
import { Batch, stage, told } from '../lib/batch.mjs';
import { dialects } from '../lib/dialects.mjs';
import { sse } from '../lib/provider.mjs';
import { held, live, only, say, verdict } from '../lib/hold.mjs';

/* A batch half answered in one worker and released in the other one. */
async function released(t, key, options) {
  const scene = await stage(t, key, { workers: 2, strict: false, ...options,
    location: `${say.verdict} ${options?.location ?? ''}` });
  const batch = new Batch(scene, 2);
  await batch.ask();
  const [here, there] = scene.n.workers();
  const slow = await only(scene.n, here, async () => {
    const answer = batch.continue(batch.results([0]));
    await held(batch, answer);
    return answer;
  });
  await only(scene.n, there, async () => {
    const answer = batch.continue(batch.results([1]));
    assert.equal((await told(answer)).word, 'final');
    await until(() => scene.n.accessLog().some(({ attempt }) =>
      Number(attempt) === 1));
    await pause(200);
  });
  await until(() => scene.n.accessLog().length === 3);
  assert.deepEqual(scene.n.accessLog().map(({ pid }) => Number(pid)).slice(1),
    [there, here]);
  batch.released();
  return { slow, scene };
}

for (const key of Object.keys(dialects)) {
  live(`${key}: a sibling learns of an answer after its end`,
    async (t) => {
      const { slow } = await released(t, key);
      assert.equal((await told(slow)).word, 'final');
      assert.equal(await verdict(slow), 'attached');
    });
}

live('a sibling of an answer that was not recorded', async (t) => {
  const { slow } = await released(t, 'ai_sdk',
    { location: 'chat_record off;' });
  assert.equal((await told(slow)).word, 'empty');
});

for (const key of Object.keys(dialects)) {
  live(`${key}: a request repeated just after the answer ended`,
    async (t) => {
      const scene = await stage(t, key, { workers: 2, strict: false,
        location: say.verdict });
      const batch = new Batch(scene, 2);
      await batch.ask();
      const first = batch.continue(batch.results([0]));
      await held(batch, first);
      first.abort();
      assert.equal((await told(batch.continue(batch.results([1])))).word,
        'final');
      const again = batch.continue(batch.results([0]));
      assert.equal((await told(again)).word, 'final');
      assert.equal(await verdict(again), 'attached');
      batch.released();
    });
}

for (const key of Object.keys(dialects)) {
  live(`${key}: a sibling arrives during the answer: it gets all of it`,
    async (t) => {
      const scene = await stage(t, key, { workers: 2, strict: false,
        location: say.verdict });
      const [first, ...others] = scene.dialect.final('done late');
      const rest = gate();
      const batch = new Batch(scene, 2);
      await batch.ask();
      scene.p.answer = () => sse([first, rest, ...others]);
      const early = batch.continue(batch.results([0]));
      await held(batch, early);
      early.abort();
      const claimant = batch.continue(batch.results([1]));
      await claimant.until((text) => text.includes(first));
      /* Longer than siblings take to learn of a claim. */
      await pause(2500);
      const late = batch.continue(batch.results([0]));
      await late.until((text) => text.includes(first));
      rest.open();
      assert.equal((await told(late)).word, 'final');
      assert.equal(await verdict(late), 'attached');
      assert.equal((await told(claimant)).word, 'final');
      batch.released();
    });
}

for (const [name, type, parts] of [
  ['a comment', 'text/event-stream',
    [': wait\n\n', 'data: {"choices":[]}\n\n', 'data: [DONE]\n\n']],
  ['JSON with an empty line', 'application/json',
    ['{"choices":[],\n\n', '"usage":{},\n\n', '"created":1}']],
]) {
  live(`a sibling arrives during the answer: ${name} before its first event`,
    async (t) => {
      const scene = await stage(t, 'openai_chat', { workers: 1,
        strict: false, location: say.verdict });
      const [second, rest] = [gate(), gate()];
      const usual = scene.p.answer;
      scene.p.answer = (request) => (request.answered.length
        ? sse([parts[0], second, parts[1], rest, parts[2]],
          { headers: { 'content-type': type } })
        : usual(request));
      const batch = new Batch(scene, 2);
      await batch.ask();
      const early = batch.continue(batch.results([0]));
      await held(batch, early);
      early.abort();
      const claimant = batch.continue(batch.results([1]));
      await claimant.until((text) => text.includes(parts[0]));
      const first = batch.continue(batch.results([0]));
      await first.until((text) => text.includes(parts[0]));
      second.open();
      await first.until((text) => text.includes(parts[1]));
      /* The reader of this worker has two chunks by now. */
      const late = batch.continue(batch.results([0]));
      await late.until((text) => text.includes(parts[1]));
      rest.open();
      for (const answer of [claimant, first, late]) {
        assert.equal(await answer.text(), parts.join(''));
      }
      assert.equal(await verdict(late), 'attached');
    });
}
