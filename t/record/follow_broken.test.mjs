/*
 * follow_broken.test.mjs: an answer that breaks off as soon as it begins.
 *
 * A waiting request learns of its beginning and its end together. It is a
 * sibling all the same: it gets the claimant's answer, with the same status,
 * and the log has the same word for all of them.
 */
import assert from 'node:assert/strict';
import { until } from '../lib/harness.mjs';
import { Batch, stage, told } from '../lib/batch.mjs';
import { held, live, each, say, several, verdict } from '../lib/hold.mjs';
import { sse } from '../lib/provider.mjs';

/* What the client was told of results, and what came after that. */
const streamOf = (text) => text.split('\n\n')
  .filter((frame) => !/"(tool-output-|TOOL_CALL_RESULT)/.test(frame))
  .join('\n\n');

live('s63: an answer breaks off at once: it does so for all', (t) => each(t,
  async (t2, key) => {
    const scene = await stage(t2, key, { workers: 3, location: say.verdict });
    const usual = scene.p.answer;
    scene.p.answer = (request) => {
      const parts = scene.dialect.final('words');
      return request.answered.length
        ? sse(parts.slice(0, Math.min(2, parts.length - 1)).join(''),
          { flush: false })
        : usual(request);
    };
    const batch = new Batch(scene, 3);
    await batch.ask();
    const answers = [];
    for (const i of batch.ids.keys()) {
      answers.push(batch.continue(batch.results([i])));
      await (i < 2 ? held(batch, answers.at(-1)) : answers.at(-1).sent);
    }
    const ends = await Promise.all(answers.map(told));
    for (const { text } of ends) {
      assert.match(text, /interrupted/);
      assert.equal(streamOf(text), streamOf(ends[0].text));
    }
    const verdicts = await Promise.all(answers.map(verdict));
    assert.match(verdicts.sort().join(' '),
      /^attached attached (passed|released)$/);
    batch.released();
    const lines = () => scene.n.accessLog().filter((line) =>
      line.batch && /attached|passed|released/.test(line.verdict)
      && line.attempt !== '');
    await until(() => lines().filter(({ turn_status: word }) =>
      word === 'interrupted').length === 3, 5000, 'three log lines');
    /* No result is lost: the next request claims again. */
    scene.p.answer = usual;
    assert.equal((await told(batch.continue(batch.results([1])))).word,
      'final');
    batch.released(2);
  }), several);

live('s102: an answer without a body: finished for all', async (t) => {
  const scene = await stage(t, 'openai_chat', { workers: 2,
    location: say.verdict });
  const usual = scene.p.answer;
  scene.p.answer = (request) => (request.answered.length
    ? { parts: [], end: 'end', status: 204, headers: {} } : usual(request));
  const batch = new Batch(scene, 2);
  await batch.ask();
  const first = batch.continue(batch.results([0]));
  await held(batch, first);
  const second = batch.continue(batch.results([1]));
  for (const answer of [first, second]) {
    assert.equal(await answer.status, 204);
  }
  await until(() => scene.n.accessLog().filter((line) =>
    line.status === '204' && line.turn_status === 'finished').length === 2,
  5000, 'two lines in the access log');
});
