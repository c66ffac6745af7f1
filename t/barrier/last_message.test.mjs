/*
 * last_message.test.mjs: an AI SDK app sends only the last message
 * (prepareSendMessagesRequest).
 */
import assert from 'node:assert/strict';
import { Batch, outputs, stage, told } from '../lib/batch.mjs';
import { held, live } from '../lib/hold.mjs';

/* Posts the batch's body as the app shapes it. */
function shaped(batch, results) {
  const { id, messages, trigger } = batch.body(results);
  return batch.post({ id, message: messages.at(-1), trigger });
}

for (const chat of ['ai_sdk', 'auto']) {
  live(`only the last message: two tabs, chat ${chat}`, async (t) => {
    const scene = await stage(t, 'ai_sdk', { chat, workers: 2 });
    const batch = new Batch(scene, 3);
    const { id, messages } = batch.dialect.fresh(
      { conversation: batch.conversation });
    assert.equal(await batch.post({ id, message: messages[0] }).text(),
      batch.from.join(''));
    const first = shaped(batch, batch.results([2]));
    await held(batch, first);
    const second = shaped(batch, batch.results([0, 1]));
    const ends = await Promise.all([first, second].map(told));
    assert.deepEqual(ends.map(({ word }) => word), ['final', 'final']);
    assert.deepEqual(outputs(ends[0]), batch.ids.slice(0, 2));
    assert.deepEqual(outputs(ends[1]), batch.ids.slice(2));
    const { body } = batch.released();
    assert.ok(body.message && !body.messages);
  });
}
