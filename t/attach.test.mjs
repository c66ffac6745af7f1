/*
 * attach.test.mjs: siblings get the stream of the request that went on.
 *
 * Whoever brings a part of the results gets the whole answer, in the same
 * bytes, while it runs and after it; an answer that breaks off is never told
 * as one that is complete, and who leaves takes nothing from the others.
 */
import assert from 'node:assert/strict';
import { gate, until } from './harness.mjs';
import { Batch, outputs, stage, told } from './harness_batch.mjs';
import { dialects } from './harness_dialects.mjs';
import { held, live, several, verdict, say } from './harness_hold.mjs';
import { sse } from './harness_provider.mjs';

const keys = Object.keys(dialects);

/* A batch with a request per result, of which the last one goes on. */
async function siblings(scene, count, options = {}) {
  const batch = new Batch(scene, count);
  await batch.ask(options);
  const answers = [];
  for (const i of batch.ids.keys()) {
    if (i === count - 1 && options.between) {
      await options.between(batch, answers);
    }
    const answer = batch.continue(batch.results([i]),
      options.each?.(i) ?? options);
    answers.push(answer);
    await (i < count - 1 ? held(batch, answer) : answer.sent);
  }
  return { batch, answers };
}

/* The script of a stage: continuations get these parts around a gate. */
function gated(scene, rest = []) {
  const usual = scene.p.answer;
  const it = { first: gate(), rest: gate(), requests: [] };
  scene.p.answer = (request, number) => {
    if (!request.answered.length) {
      return usual(request, number);
    }
    it.requests.push(request);
    const parts = scene.dialect.final(
      `done ${request.headers['x-batch']}`);
    return sse([it.first, ...parts.slice(0, 3), it.rest, ...parts.slice(3),
      ...rest], it.options);
  };
  return it;
}

/* What the client was told of results, and what came after that. */
const streamOf = (text) => text.split('\n\n')
  .filter((frame) => !/^: /.test(frame) && !/"tool-output-/.test(frame))
  .join('\n\n');

for (const key of keys) {
  live(`s37: ${key}: each sibling gets the stream`, async (t) => {
    const scene = await stage(t, key, { workers: 3,
      location: `${say.verdict} add_header X-Of $chat_batch;` });
    for (const http2 of [false, true]) {
      await t.test(http2 ? 'HTTP/2' : 'HTTP/1.1', async () => {
        const script = gated(scene);
        const { batch, answers } = await siblings(scene, 4, { http2 });
        await until(() => script.requests.length, 5000, 'a release');
        script.first.open();
        for (const answer of answers) {
          /* while it runs */
          await answer.until((text) => streamOf(text).length > 20);
          assert.equal(answer.ended, false);
        }
        script.rest.open();
        const ends = await Promise.all(answers.map(told));
        assert.deepEqual(ends.map(({ word }) => word),
          Array(4).fill('final'), ends.map(({ text }) => text).join('|'));
        for (const { text } of ends) {
          assert.equal(streamOf(text), streamOf(ends[0].text));
        }
        const heads = await Promise.all(answers.map(({ head }) => head));
        for (const { status, headers } of heads) {
          assert.equal(status, 200);
          for (const name of ['content-type', 'cache-control', 'x-of',
            ...Object.keys(scene.dialect.sse ?? {})]) {
            assert.equal(headers[name], heads[0].headers[name], name);
          }
        }
        const verdicts = heads.map(({ headers }) => headers['x-verdict']);
        assert.match(verdicts.sort().join(' '),
          /^attached attached attached (passed|released)$/);
        batch.released();
        await until(() => scene.n.accessLog().filter((line) =>
          line.verdict === 'attached' && line.turn_status === 'finished')
          .length === (http2 ? 6 : 3), 5000, 'the log');
      });
    }
  }, several);
}
