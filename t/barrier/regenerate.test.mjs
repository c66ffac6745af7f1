/*
 * regenerate.test.mjs: an AI SDK page regenerates the message of a held
 * request: the hold ends at once.
 */
import assert from 'node:assert/strict';
import { handled } from '../lib/handled.mjs';
import { Batch, stage, told } from '../lib/batch.mjs';
import { held, live } from '../lib/hold.mjs';

/* A held request, and the body that regenerates its message. */
async function scene(t) {
  const s = await stage(t, 'ai_sdk', { workers: 2, hold: '30s',
    strict: false });
  const batch = new Batch(s, 2);
  await batch.ask();
  const first = batch.continue(batch.results([0]));
  await held(batch, first);
  const body = batch.body({});
  const { id } = body.messages.at(-1);
  const regenerate = (messageId) => batch.post({ ...body,
    messages: body.messages.slice(0, -1), trigger: 'regenerate-message',
    messageId }).text();
  return { batch, first, id, user: body.messages.at(-2).id, regenerate };
}

for (const name of ['names the message', 'names no message',
  'names the user message before it']) {
  live(`s127: ai_sdk: a request that regenerates ${name}: the hold ends`,
    async (t) => {
      const { batch, first, id, user, regenerate } = await scene(t);
      await regenerate(name.includes('no message') ? undefined
        : name.includes('user') ? user : id);
      assert.equal((await told(first)).word, 'empty');
      assert.equal(batch.upstream().length, 0);

      /* A later result releases nothing. */
      assert.equal((await told(batch.continue(batch.results([1])))).word,
        'empty');
    });
}

live('s127: ai_sdk: a request regenerates another message: the hold goes on',
  async (t) => {
    const { batch, first, regenerate } = await scene(t);
    await regenerate('another');
    await handled(batch, [], 300);
    assert.equal(first.ended, false);
    await batch.continue(batch.results([1])).text();
    assert.equal((await told(first)).word, 'final');
    batch.released(1);
  });
