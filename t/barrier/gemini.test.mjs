/*
 * gemini.test.mjs: what only Gemini has: calls without ids, arguments in
 * pieces, calls of one chunk, and a URI that selects the form of the answer.
 */
import assert from 'node:assert/strict';
import { gate, until } from '../lib/harness.mjs';
import { handled } from '../lib/handled.mjs';
import { dialects, newCalls } from '../lib/dialects.mjs';
import { Batch, stage, told } from '../lib/batch.mjs';
import { held, live, say, verdict } from '../lib/hold.mjs';
import { json } from '../lib/provider.mjs';
import { play, theatre, without } from '../lib/replay.mjs';

const { gemini } = dialects;
const { path } = gemini;
const chat = { location: `chat_conversation $http_x_chat; ${say.verdict}` };

/* Calls without ids: the position of a result names its call. */
function nameless(scene, names) {
  const batch = new Batch(scene, names.map((name, i) =>
    ({ name, input: { i } })));
  batch.ids = [...names.keys()];
  const as = (options = {}) => ({ ...options,
    headers: { 'x-chat': batch.key, ...options.headers } });
  return { batch, ask: () => batch.ask(as()),
    bring: (positions) => batch.continue(batch.results(positions), as()) };
}

live('s37 s59: gemini: calls without ids, by conversation', async (t) => {
  const scene = await stage(t, 'gemini', { workers: 2, ...chat });
  await t.test('each result in its own request', async () => {
    const { batch, ask, bring } = nameless(scene, ['a', 'b', 'c']);
    await ask();
    const answers = [];
    for (const i of [2, 0, 1]) {
      answers.push(bring([i]));
      await answers.at(-1).sent;
    }
    const words = (await Promise.all(answers.map(told)))
      .map(({ word }) => word);
    assert.deepEqual(words, ['final', 'final', 'final']);
    const [{ body, refused }, ...more] = batch.upstream();
    assert.equal(more.length, 0);
    assert.equal(refused, false);
    assert.deepEqual(body.contents.at(-1).parts
      .map(({ functionResponse: one }) => [one.id, one.name,
        one.response.output.nr]),
    [[undefined, 'a', 0], [undefined, 'b', 1], [undefined, 'c', 2]]);
  });
  await t.test('of one tool: in the provider\'s order', async () => {
    const { batch, ask, bring } = nameless(scene, ['a', 'a']);
    await ask();
    const first = bring([0]);
    await held(batch, first);
    const second = bring([0, 1]);
    assert.equal((await told(second)).word, 'final');
    assert.equal((await told(first)).word, 'final');
    assert.equal(batch.upstream().length, 1);
  });
  await t.test('the same again in the next step', async () => {
    const { batch, ask, bring } = nameless(scene, ['a', 'b']);
    await ask();
    assert.equal((await told(bring([0, 1]))).word, 'final');
    const body = batch.body(batch.results());
    body.contents.push(...batch.body(batch.results([0])).contents.slice(1));
    const answer = batch.post(body, { headers: { 'x-chat': batch.key } });
    await handled(batch, [answer], 200);
    assert.equal(answer.ended, false);
    assert.equal(batch.upstream().length, 1);
    answer.abort();
  });
});

live('s95: gemini: calls without ids and without a conversation',
  async (t) => {
    const scene = await stage(t, 'gemini', { location: say.verdict });
    const { bring, ask } = nameless(scene, ['a', 'b']);
    await ask();
    const answer = bring([0]);
    assert.equal((await told(answer)).word, '400');
    assert.equal(await verdict(answer), 'unmanaged');
  });

/* A call with streamed arguments, as Vertex sends it. */
function pieces({ id, name }, id2, text) {
  const part = (functionCall) => gemini.chunk(id2, [{ functionCall }]);
  return [part({ id, name, willContinue: true }),
    ...text.match(/.{1,400}/g).map((stringValue) => part({ willContinue: true,
      partialArgs: [{ jsonPath: '$.text', stringValue, willContinue: true }],
    })), part({})];
}

live('s1 s22: gemini: a call with arguments in pieces', async (t) => {
  const scene = await theatre(t);
  const text = 'x'.repeat(1500);
  const [old, fresh] = newCalls(2, 'fc_').map((call) =>
    ({ ...call, input: { text } }));
  const body = gemini.continuation({ from: gemini.calls({ calls: [old] }),
    results: { [old.id]: 1 } });
  const words = gemini.final('on');
  const all = [old, fresh].map((call) => pieces(call, words.id, text));
  const stream = [...all.flat(), ...words];
  const one = { dialect: gemini, body, stream };
  await t.test('a replay', () => play(scene, { ...one, replays: 1,
    sees: [...all[1], ...words] }));
  await t.test('larger than the quarantine', () => play(scene,
    { ...one, sees: stream }, { way: 'small' }));
  await t.test('other arguments', () => play(scene, { ...one,
    stream: [...pieces(old, words.id, 'other'), ...words],
    sees: [...pieces(old, words.id, 'other'), ...words] }));
});

live('gemini: a history made of stream chunks', async (t) => {
  const scene = await stage(t, 'gemini');
  const batch = new Batch(scene, 2);
  await batch.ask();
  const [{ id, name }] = batch.calls;
  const model = (functionCall) => ({ role: 'model',
    parts: [{ functionCall }] });
  const kept = (results) => {
    const body = batch.body(results);
    body.contents[1].parts.shift();
    body.contents.splice(1, 0, model({ id, name, willContinue: true }),
      model({ partialArgs: [{ jsonPath: '$.city', stringValue: 'Rome' }],
        willContinue: true }), model({}));
    return body;
  };
  const first = batch.post(kept(batch.results([1])));
  await held(batch, first);
  const last = batch.post(kept(batch.results([0])));
  assert.equal((await told(last)).word, 'final');
  assert.equal((await told(first)).word, 'final');
  assert.deepEqual(batch.upstream().map(({ answered }) => answered),
    [batch.ids]);
});

live('gemini: a preliminary result and the final one', async (t) => {
  const scene = await stage(t, 'gemini', { strict: false });
  const batch = new Batch(scene, 2);
  await batch.ask();
  const body = batch.body(batch.results());
  const { parts } = body.contents.at(-1);
  const soon = structuredClone(parts[0]);
  soon.functionResponse.willContinue = true;
  parts.unshift(soon);
  assert.equal((await told(batch.post(body))).word, 'final');
});

live('s17: gemini: one chunk with a call to drop and one to keep',
  async (t) => {
    const scene = await theatre(t);
    const [old, fresh, other] = newCalls(3, 'fc_');
    const body = gemini.continuation({ from: gemini.calls({ calls: [old] }),
      results: { [old.id]: 1 } });
    for (const calls of [[old, fresh], [fresh, old], [fresh, old, other]]) {
      const stream = gemini.calls({ calls, alone: true });
      const sees = without.gemini(stream, [calls.indexOf(old)]);
      assert.ok(!sees.join('').includes(`Sig+${old.id}`));
      await play(scene, { dialect: gemini, body, stream, sees, replays: 1 });
    }
  });

live('gemini: calls without ids are never a replay', async (t) => {
  const scene = await theatre(t, { location: chat.location });
  const calls = [{ name: 'a', input: {} }];
  const stream = gemini.calls({ calls });
  await play(scene, { dialect: gemini, stream, sees: stream,
    verdict: 'unmanaged',
    body: gemini.continuation({ from: stream, results: { 0: 1 } }) });
});

const array = path.replace('?alt=sse', '');
const object = array.replace('streamG', 'g');

live('gemini: a stream as one JSON array passes unchanged', async (t) => {
  const scene = await stage(t, 'gemini', { chat: 'auto',
    location: say.verdict });
  const chunks = `[${JSON.stringify({ candidates: [] })}\n,\r\n{}]`;
  scene.p.answer = () => ({ ...json(200), parts: [chunks] });
  const batch = new Batch(scene, 2);
  const post = (uri) => scene.n && batch.post.call({ ...batch,
    dialect: { ...gemini, path: uri } }, gemini.fresh());
  for (const uri of [array, object, `${array}?alt=json`]) {
    const answer = post(uri);
    assert.equal(await answer.text(), chunks);
    assert.equal(await verdict(answer), 'passed');
  }
});

live('s97: gemini: array, object or stream: another request',
  async (t) => {
    const scene = await stage(t, 'gemini', { chat: 'auto', workers: 2,
      hold: '60s grace=20ms', location: 'chat_record off;' });
    const usual = scene.p.answer;
    const whole = JSON.stringify({ candidates: [{ finishReason: 'STOP' }] });
    for (const [uri, empty] of [[array, Array.isArray],
      [object, ({ candidates }) => candidates]]) {
      const batch = new Batch(scene, 2);
      await batch.ask();
      const go = gate();
      scene.p.answer = async (request) => {
        await go;
        return request.url === path ? usual(request)
          : { ...json(200), parts: [whole] };
      };
      const other = Object.assign(Object.create(batch),
        { dialect: { ...gemini, path: uri } });
      const first = other.continue(batch.results([0]));
      await handled(batch, [first]);
      const second = other.continue(batch.results([1]));
      await until(() => batch.upstream().length === 1);
      const streamed = batch.continue(batch.results([1]));
      await until(() => batch.upstream().length === 2);
      go.open();
      assert.equal((await told(streamed)).word, 'final');
      const texts = await Promise.all([first, second].map((one) =>
        one.text()));
      const rest = texts.filter((text) => text !== whole);
      assert.equal(rest.length, 1, `${texts}`);
      assert.ok(empty(JSON.parse(rest[0])), rest[0]);
      scene.p.answer = usual;
    }
  });
