/*
 * batch_state.test.mjs: what the store keeps of a batch, and for how long.
 *
 * Results that arrive twice, late, early, or for an unknown call; results
 * after an upstream failed or a client disconnected.
 */
import assert from 'node:assert/strict';
import { gate, pause, until } from '../lib/harness.mjs';
import { dialects, newId } from '../lib/dialects.mjs';
import { json, sse } from '../lib/provider.mjs';
import { Batch, outputs, stage, told } from '../lib/batch.mjs';
import {
  held, leave, live, say, several, verdict, wordOf,
} from '../lib/hold.mjs';

const keys = Object.keys(dialects);

/* How often the provider received a text. */
const said = ({ raw }, value) => String(raw).split(value).length - 1;
const partsOf = ({ body }, id) => body.messages.flatMap((m) => m.parts)
  .filter((part) => part.toolCallId === id);

live('s26: one result twice: it counts once', async (t) => {
  for (const key of keys) {
    await t.test(key, async (t2) => {
      const scene = await stage(t2, key, { workers: 2 });
      const batch = new Batch(scene, 2);
      await batch.ask();
      await leave(batch, batch.results([0]));
      const again = batch.continue(batch.results([0]));
      await held(batch, again);
      const last = batch.continue(batch.results([1]));
      const words = [await wordOf(again), await wordOf(last)];
      assert.ok(words.every((word) => word === 'final'), `${words}`);
      const request = batch.released();
      assert.equal(said(request, batch.key), 2, String(request.raw));
    });
  }
});

live('s27: two tabs answer one call differently', async (t) => {
  for (const key of keys) {
    await t.test(`${key}: the first is merged`, async (t2) => {
      const scene = await stage(t2, key, { workers: 2 });
      const batch = new Batch(scene, 2);
      const [a, b] = batch.ids;
      await batch.ask();
      await leave(batch, { [a]: 'first' });
      await leave(batch, { [a]: 'second' });
      assert.equal(await wordOf(batch.continue({ [b]: 'other' })), 'final');
      const request = batch.released();
      assert.equal(said(request, 'first'), 1);
      assert.equal(said(request, 'second'), 0);
    });
    await t.test(`${key}: a body keeps its own`, async (t2) => {
      const scene = await stage(t2, key, { workers: 2 });
      const batch = new Batch(scene, 2);
      const [a, b] = batch.ids;
      await batch.ask();
      await leave(batch, { [a]: 'first' });
      const answer = batch.continue({ [a]: 'second', [b]: 'other' });
      assert.equal(await wordOf(answer), 'final');
      const request = batch.released();
      assert.equal(said(request, 'first'), 0);
      assert.equal(said(request, 'second'), 1);
    });
  }
});

live('s29: a result before its step ends: held, merged', async (t) => {
  for (const key of keys.filter((one) => !dialects[one].interrupts)) {
    await t.test(key, async (t2) => {
      const scene = await stage(t2, key, { workers: 2 });
      const batch = new Batch(scene, 2);
      const seal = gate();
      const { answer } = scene.p;
      scene.p.answer = (request) => (request.answered.length
        ? answer(request) : sse(Object.assign([...batch.from.slice(0, -2),
          seal, ...batch.from.slice(-2)],
        { id: batch.from.id, calls: batch.calls })));
      const asking = batch.ask();
      await scene.p.arrival(1);
      await pause(50);
      await leave(batch, batch.results([0]));
      seal.open();
      await asking;
      const last = batch.continue(batch.results([1]));
      assert.equal(await wordOf(last), 'final');
      batch.released();
    });
  }
});

live('s30: a result of a call that no stream announced', async (t) => {
  for (const key of keys.filter((one) => !dialects[one].chained)) {
    await t.test(key, async (t2) => {
      const scene = await stage(t2, key, { workers: 2 });
      const batch = new Batch(scene, 2);
      await leave(batch, batch.results([0]));
      assert.equal(await wordOf(batch.continue(batch.results([1]))), 'final');
      batch.released();
    });
  }
  for (const key of keys.filter((one) => dialects[one].chained)) {
    await t.test(`${key}: unknown chain: unmanaged`, async (t2) => {
      const scene = await stage(t2, key, { location: say.verdict });
      const batch = new Batch(scene, 2);
      scene.p.issued.set(batch.from.id, batch.calls);
      const answer = batch.continue(batch.results([0]));
      assert.equal(await wordOf(answer),
        dialects[key].apps ? 'error' : '400');
      assert.equal(await verdict(answer), 'unmanaged');
    });
  }
});

live('s32: a call twice in a transcript', async (t) => {
  const scene = await stage(t, 'ai_sdk', { workers: 2 });
  const batch = new Batch(scene, 2);
  const [a, b] = batch.ids;
  await batch.ask();
  await leave(batch, { [b]: 'stored' });

  const body = batch.body({ [a]: 'own' });
  const { parts } = body.messages.at(-1);
  parts.push({ ...parts.find((part) => part.toolCallId === b) });
  const done = { ...parts.find((part) => part.toolCallId === a),
    output: 'another' };
  parts.push(done);
  assert.equal(await wordOf(batch.post(body)), 'final');
  const [request] = batch.upstream();
  assert.equal(request.refused, false, String(request.raw));
  const outs = (id) => partsOf(request, id).map(({ state, output }) =>
    `${state} ${output}`);
  assert.deepEqual(outs(b), Array(2).fill('output-available stored'));
  assert.deepEqual(outs(a), ['output-available own',
    'output-available another'], 'the answered call was changed');
});

live('s33 s100: a stale body: completed, results injected', async (t) => {
  const scene = await stage(t, 'ai_sdk', { workers: 2 });
  const batch = new Batch(scene, 3);
  await batch.ask();
  await leave(batch, batch.results([0]));
  await leave(batch, batch.results([2]));
  const end = await told(batch.continue(batch.results([1])));
  assert.equal(end.word, 'final');
  batch.released();
  assert.deepEqual(outputs(end), [batch.ids[0], batch.ids[2]]);
  assert.match(end.types[0], /^tool-output/);
});

live('s34: a merged error has no output beside it', async (t) => {
  const scene = await stage(t, 'ai_sdk', { workers: 2 });
  const batch = new Batch(scene, 2);
  const [a, b] = batch.ids;
  await batch.ask();
  await leave(batch, { [b]: new Error('boom') });
  const body = batch.body({ [a]: 1 });
  body.messages.at(-1).parts.at(-1).output = 'half';
  assert.equal(await wordOf(batch.post(body)), 'final');
  const request = batch.released();
  const [part] = partsOf(request, b);
  assert.equal(part.state, 'output-error');
  assert.equal(part.errorText, 'boom');
  assert.ok(!('output' in part), JSON.stringify(part));
});

live('s35: a result for an unknown call: no release', async (t) => {
  const scene = await stage(t, 'openai_chat', { workers: 2 });
  const batch = new Batch(scene, 2);
  await batch.ask();
  const first = batch.continue(batch.results([0]));
  await held(batch, first);
  const after = [{ role: 'tool', tool_call_id: newId('call_'),
    content: 'who' }];
  const stranger = batch.continue({}, { more: { after } });
  assert.equal(await wordOf(stranger), '400');
  assert.equal(first.ended, false);
  assert.equal(await wordOf(batch.continue(batch.results([1]))), 'final');
  await told(first);
});

live('s45: after its lifetime a batch is forgotten', (t) => Promise.all(
  keys.filter((one) => !dialects[one].chained).map((key) =>
    t.test(key, async (t2) => {
      const scene = await stage(t2, key, { hold: '900ms', ttl: '2s' });
      const batch = new Batch(scene, 2);
      await batch.ask();
      await leave(batch, batch.results([0]));
      await pause(3200);
      const late = await wordOf(batch.continue(batch.results([1])));
      assert.equal(late, dialects[key].bounces ?? '409');
      assert.equal(batch.upstream().length, 0);
      const first = batch.continue(batch.results([0]));
      assert.equal(await wordOf(first), 'final');
      await scene.n.stop('SIGQUIT');
    }))), several);

for (const [name, fail] of [
  ['s62: refused', () => json(503, { error: { message: 'busy' } })],
  ['s63: broken off', () => sse('data: {"x":1}\n\n', { end: 'reset' })]]) {
  live(`${name} by the upstream: its results are kept`, async (t) => {
    for (const key of keys) {
      for (const complete of [false, true]) {
        await t.test(`${key}${complete ? ', complete' : ''}`, async (t2) => {
          const scene = await stage(t2, key, { workers: 2 });
          const batch = new Batch(scene, 2);
          await batch.ask();
          const { answer } = scene.p;
          scene.p.answer = fail;
          const failed = complete ? [batch.continue(batch.results())]
            : [batch.continue(batch.results([0]))];
          if (!complete) {
            await held(batch, failed[0]);
            failed.push(batch.continue(batch.results([1])));
          }
          const words = await Promise.all(failed.map(wordOf));
          assert.ok(!words.includes('final'), `${words}`);
          batch.released(1);

          scene.p.answer = answer;
          const again = batch.continue(batch.results([1]));
          assert.equal(await wordOf(again), 'final');
          batch.released(2);
        });
      }
    }
  });
}

live('s65: a client disconnects: its results are kept', async (t) => {
  for (const key of keys) {
    await t.test(key, async (t2) => {
      const scene = await stage(t2, key, { workers: 2 });
      const batch = new Batch(scene, 2);
      await batch.ask();
      const { answer } = scene.p;
      scene.p.answer = () => sse([], { end: 'open' });
      const given = batch.continue(batch.results());
      const request = await scene.p.arrival(2);
      await given.head;
      given.abort();
      await request.closed;
      await until(() => scene.n.accessLog().length === 2);
      scene.p.answer = answer;
      assert.equal(await wordOf(batch.continue(batch.results([0]))), 'final');
      batch.released(2);
    });
  }
});
