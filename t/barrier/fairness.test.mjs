/*
 * fairness.test.mjs: what one client sends does not delay another client.
 *
 * Each attack is played beside small requests of another client. The measure
 * is how much longer the slowest of them takes than beside a harmless request
 * of the same size. A machine under load is slow by itself: the best of three
 * plays counts.
 *
 * Suite: plain, redis.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { get, pause, store, until } from '../lib/harness.mjs';
import { Batch, stage } from '../lib/batch.mjs';
import { newId } from '../lib/dialects.mjs';
import { live } from '../lib/hold.mjs';
import { statusLocation, statusOf } from '../lib/status.mjs';

const small = `${statusLocation} location = /small { return 200 ok; }`;

/* The longest that a small request takes while work runs, in ms. */
async function slowest(n, work) {
  let over = false;
  let worst = 0;
  const probe = async () => {
    while (!over) {
      const start = performance.now();
      await get(n.port, '/small').text();
      worst = Math.max(worst, performance.now() - start);
      await pause(2);
    }
  };
  const probes = [probe(), probe()];
  await pause(20);
  await work();
  over = true;
  await Promise.all(probes);
  return worst;
}

/* attack() and harmless() make a play each; at most 50 ms lie between them. */
async function compare(n, attack, harmless) {
  const seen = [];
  for (let i = 0; i < 3; i++) {
    const worst = await slowest(n, await attack());
    seen.push(worst - await slowest(n, await harmless()));
    if (Math.min(...seen) < 50) {
      return;
    }
  }
  assert.fail(`${seen.map(Math.round)} ms longer`);
}

/* A batch that others have filled, with requests that wait for it. */
async function crowd(scene, fillers, holds) {
  const batch = new Batch(scene, 2);
  const answers = [];
  for (let i = 0; i < fillers; i++) {
    const calls = [batch.calls[0], ...Array.from({ length: 127 }, () =>
      ({ ...batch.calls[0], id: newId('call_') }))];
    const other = Object.assign(new Batch(scene, calls), { key: batch.key,
      conversation: batch.conversation });
    answers.push(other.continue(other.results([...Array(126).keys()]
      .map((k) => k + 1))));
    await answers.at(-1).sent;
  }
  for (let i = 0; i < holds; i++) {
    answers.push(batch.continue(batch.results([0])));
  }
  await Promise.all(answers.map(({ sent }) => sent));
  await pause(300);
  return { batch, answers };
}

live('given a batch filled by many, a result does not stop the worker',
  async (t) => {
    const scene = await stage(t, 'openai_chat', { hold: '60s', strict: false,
      server: small });
    const play = (fillers, holds) => async () => {
      const { batch, answers } = await crowd(scene, fillers, holds);
      await until(async () => (await statusOf(scene.n)).holds.now >= holds);
      return async () => {
        const calls = [batch.calls[0], { ...batch.calls[1],
          id: newId('call_') }];
        const last = Object.assign(new Batch(scene, calls),
          { key: batch.key, conversation: batch.conversation });
        answers.push(last.continue(last.results([1])));
        await answers.at(-1).sent;
        await pause(100);
        answers.forEach((answer) => answer.abort());
        await until(async () => (await statusOf(scene.n)).holds.now === 0);
      };
    };
    await compare(scene.n, play(16, 64), play(0, 64));
  }, { skip: !store });

/*
 * A complete continuation behind an earlier step of so many open calls. Their
 * ids are as long as those of a filled batch, and begin as they do: this is
 * the worst case of a search among its facts.
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

/* Nanoseconds that the workers have run. */
const cpu = (n) => n.workers().reduce((sum, pid) => sum
  + Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]), 0);

/* The looked-up step is a batch with 4,000 facts, or an unknown one. */
live('given an earlier step of many calls, its look-up costs no CPU time',
  async (t) => {
    const scene = await stage(t, 'openai_chat', { hold: '60s',
      strict: false, workers: 2, server: small, zone: '64m' });
    const { batch, answers } = await crowd(scene, 34, 0);
    await until(async () => (await statusOf(scene.n)).holds.now > 0);
    /* within chat_max_calls, past it, and past what a body may list */
    for (const calls of [200, 1000, 60000]) {
      const time = async (first) => {
        const before = cpu(scene.n);
        await batch.post(longStep(first, calls)).text();
        return cpu(scene.n) - before;
      };
      let known = 0;
      let unknown = 0;
      for (let i = 0; i < 6; i++) {
        known += await time(batch.ids[0]);
        unknown += await time(newId('call_'));
      }
      t.diagnostic(`${calls}: ${(known / unknown).toFixed(2)} times`);
      assert.ok(known < 2.5 * unknown,
        `${calls} calls: ${known / 1e6} ms, not ${unknown / 1e6} ms`);
    }
    answers.forEach((answer) => answer.abort());
    await until(async () => (await statusOf(scene.n)).holds.now === 0);
  });
