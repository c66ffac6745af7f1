/*
 * fairness.test.mjs: one client's data does not delay another client.
 *
 * While a worker computes, other clients wait. These tests compare the CPU
 * time of an attack with that of a harmless request of the same size.
 *
 * Suite: plain, redis.
 */
import assert from 'node:assert/strict';
import { store, until } from '../lib/harness.mjs';
import { handled } from '../lib/handled.mjs';
import { Batch, stage } from '../lib/batch.mjs';
import { compare, cost } from '../lib/cpu.mjs';
import { newId } from '../lib/dialects.mjs';
import { live } from '../lib/hold.mjs';
import { statusLocation, statusOf } from '../lib/status.mjs';

/*
 * A batch that other requests have filled, but for the room that the requests
 * need that wait for it.
 */
async function crowd(scene, fillers, holds) {
  const batch = new Batch(scene, 2);
  const answers = [];
  for (let i = 0; i < fillers; i++) {
    const calls = [batch.calls[0], ...Array.from({ length: 120 }, () =>
      ({ ...batch.calls[0], id: newId('call_') }))];
    const other = Object.assign(new Batch(scene, calls), { key: batch.key,
      conversation: batch.conversation });
    answers.push(other.continue(other.results([...Array(119).keys()]
      .map((k) => k + 1))));
    await answers.at(-1).sent;
  }
  for (let i = 0; i < holds; i++) {
    answers.push(batch.continue(batch.results([0])));
  }
  await handled(batch, answers, 300);
  return { batch, answers };
}

live('a batch filled by many requests: a result does not block the worker',
  async (t) => {
    const scene = await stage(t, 'openai_chat', { hold: '60s', strict: false,
      server: statusLocation });
    const play = async (fillers) => {
      const { batch, answers } = await crowd(scene, fillers, 64);
      await until(async () => (await statusOf(scene.n)).holds.now >= 64);
      const calls = [batch.calls[0], { ...batch.calls[1],
        id: newId('call_') }];
      const last = Object.assign(new Batch(scene, calls),
        { key: batch.key, conversation: batch.conversation });
      const spent = await cost(scene.n, async () => {
        answers.push(last.continue(last.results([1])));
        await handled(scene, [answers.at(-1)]);
        answers.forEach((answer) => answer.abort());
        await until(async () => (await statusOf(scene.n)).holds.now === 0);
      });
      return spent;
    };
    const { attack, usual, fits } = await compare(() => play(16),
      () => play(0), (filled, empty) => filled < 3 * empty + 20);
    const seen = `${attack.toFixed()} ms, in an empty one ${
      usual.toFixed()} ms`;
    t.diagnostic(seen);
    assert.ok(fits, seen);
  }, { skip: !store });

/*
 * A complete continuation after an earlier step with this many open calls.
 * Their ids have the length and the prefix of those of a filled batch: the
 * worst case of a search among its facts.
 */
function longStep(first, calls) {
  const call = (id) => ({ id, type: 'function',
    function: { name: 'f', arguments: '{}' } });
  const last = newId('call_');
  return JSON.stringify({ model: 'm', stream: true, messages: [
    { role: 'user', content: 'x' },
    { role: 'assistant', content: null, tool_calls: [call(first),
      ...Array.from({ length: calls }, (_, i) =>
        call(`call_${String(i).padStart(first.length - 5, '0')}`))] },
    { role: 'user', content: 'y' },
    { role: 'assistant', content: null, tool_calls: [call(last)] },
    { role: 'tool', tool_call_id: last, content: '1' }] });
}

/* The looked-up step is a batch with 4,000 facts, or an unknown one. */
live('an earlier step of many calls: its look-up costs no CPU time',
  async (t) => {
    const scene = await stage(t, 'openai_chat', { hold: '60s',
      strict: false, workers: 2, server: statusLocation, zone: '64m' });
    const { batch, answers } = await crowd(scene, 34, 0);
    await until(async () => (await statusOf(scene.n)).holds.now > 0);
    /* below calls= of chat_limits, above it, and above the limit of a body */
    for (const calls of [200, 1000, 60000]) {
      const time = (first) => cost(scene.n, () =>
        batch.post(longStep(first, calls)).text());
      const { attack, usual, fits } = await compare(
        () => time(batch.ids[0]), () => time(newId('call_')),
        (known, unknown) => known < 2 * unknown);
      t.diagnostic(`${calls}: ${(attack / usual).toFixed(2)} times`);
      assert.ok(fits, `${calls} calls: ${attack} ms, not ${usual} ms`);
    }
    answers.forEach((answer) => answer.abort());
    await until(async () => (await statusOf(scene.n)).holds.now === 0);
  });
