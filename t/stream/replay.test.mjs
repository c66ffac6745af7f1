/*
 * replay.test.mjs: an upstream repeats calls that the client already has.
 *
 * Each case is a request with its history, a stream, and the exact bytes that
 * the client must get. Every case runs in pieces of one byte, of seven, and
 * whole, buffered and not, over HTTP/1.1 and HTTP/2.
 *
 * Suite: asan.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gate, post, unbuilt } from '../lib/harness.mjs';
import { dialects, names, newCalls, newId } from '../lib/dialects.mjs';
import { play, show, theatre, without } from '../lib/replay.mjs';
import { data } from '../lib/dialects/wire.mjs';

const live = (name, act) => test(name, { skip: unbuilt }, act);
const ai = dialects.ai_sdk;

const start = (id) => data({ type: 'start', messageId: id });
const step = data({ type: 'start-step' });
const seal = data({ type: 'finish-step' });
const finish = [seal, data({ type: 'finish', finishReason: 'stop' }),
  'data: [DONE]\n\n'];
const words = (say, id = 't1') => [data({ type: 'text-start', id }),
  data({ type: 'text-delta', id, delta: say }),
  data({ type: 'text-end', id })];
const output = (call, value, more) => data({ type: 'tool-output-available',
  toolCallId: call.id, output: value, ...more });
const failure = (call, errorText) => data({ type: 'tool-output-error',
  toolCallId: call.id, errorText });
const denial = (call) => data({ type: 'tool-output-denied',
  toolCallId: call.id });
const question = (call, approvalId = 'ap1') => data({
  type: 'tool-approval-request', toolCallId: call.id, approvalId });

/*
 * An AI SDK continuation with these calls and results in its last step; open:
 * calls of an earlier step, unchanged.
 */
function history(calls, results, open = []) {
  const from = ai.calls({ calls });
  const body = ai.continuation({ conversation: newId('chat_'), from, results,
    before: ai.continuation({ from: ai.calls({ calls: open }), results: {} })
      .messages.at(-1).parts });
  return { id: from.id, body };
}

/*
 * events: the upstream's events of the step. A string in an array of its own
 * is an event that the client must not get.
 */
function told({ id, body }, events, more) {
  const whole = (list) => [start(id), step, ...list, ...finish];
  return { body, ...more, stream: whole(events.flat()),
    sees: whole(events.filter((event) => !Array.isArray(event))) };
}

live('ai_sdk: calls that the client already has', async (t) => {
  const scene = await theatre(t);
  const [one, two, three] = newCalls(3);
  const settled = () => history([one], { [one.id]: { ok: 1 } });
  const failed = () => history([one], { [one.id]: new Error('boom') });
  const replay = ai.call(one);

  const cases = {
    's1: a settled call and its output': told(settled(),
      [replay, output(one, { ok: 1 }), ...words('on')], { replays: 1 }),
    's2: a ready call; its output is new': told(
      history([one], { [one.id]: 1 }, [two]),
      [ai.call(two), output(two, 'late'), ...words('on')], { replays: 1 }),
    's3: a replay next to a new call': told(settled(),
      [...ai.call(two), replay, ...ai.call(three)], { replays: 1 }),
    's4: two new calls with interleaved deltas': told(settled(),
      ai.call(two).flatMap((event, i) => [event, ai.call(three)[i]])),
    's5: a second opening in one stream': told(settled(),
      [ai.call(two)[0], [ai.call(two)[0]], ...ai.call(two).slice(1)],
      { replays: 1 }),
    's6: input without an opening, of a new call': told(settled(),
      [ai.call(two)[3]]),
    's6: the call is known from then on': told(settled(),
      [ai.call(two)[3], [ai.call(two)[3]]], { replays: 1 }),
    's7: an input error for a settled call': told(settled(),
      [[data({ type: 'tool-input-error', toolCallId: one.id,
        toolName: one.name, input: one.input, errorText: 'bad' })]],
      { replays: 1 }),
    's8: an error after a success': told(settled(),
      [[failure(one, 'boom')], ...words('on')], { replays: 1 }),
    's8: with the input replayed': told(settled(),
      [replay, [failure(one, 'boom')], ...words('on')], { replays: 2 }),
    's9: an equal output': told(settled(), [output(one, { ok: 1 })]),
    's9: an equal error': told(failed(), [failure(one, 'boom')]),
    's9: another output, the input replayed': told(settled(),
      [replay, [output(one, { ok: 2 })]], { replays: 2 }),
    's9: another output by itself': told(settled(),
      [output(one, { ok: 2 })]),
    's10: preliminary, preliminary, final': told(
      history([one], { [one.id]: 1 }, [two]),
      [output(two, 'a', { preliminary: true }),
        output(two, 'b', { preliminary: true }), output(two, 'c')]),
    's11: a denial of a settled call': told(settled(), [[denial(one)]],
      { replays: 1 }),
    's11: a denial of a granted call': told(
      history([{ ...one, approval: { id: 'ap1', approved: true } }], {}),
      [[denial(one)]], { replays: 1 }),
    's11: the first denial of an open call': told(
      history([one], { [one.id]: 1 }, [two]), [denial(two)]),
    's11: a denial after the client refused': told(
      history([{ ...one, approval: { id: 'ap1', approved: false } }], {}),
      [denial(one)]),
    's12: an answered approval request': told(
      history([{ ...one, approval: { id: 'ap1', approved: true } }], {}),
      [replay, [question(one)], output(one, 'ran')], { replays: 2 }),
    's12: a first approval request': told(settled(),
      [...ai.call({ ...two, approval: { id: 'ap2' } })]),
    's13: a dynamic tool': told(
      history([{ ...one, dynamic: true }], { [one.id]: { ok: 1 } }),
      [ai.call({ ...one, dynamic: true }),
        output(one, { ok: 1 }, { dynamic: true })], { replays: 1 }),
    's16: a call without the end of its input': told((() => {
      const it = settled();
      it.body.messages.at(-1).parts.splice(1, 0, { type: `tool-${two.name}`,
        toolCallId: two.id, state: 'input-streaming' });
      return it;
    })(), [...ai.call(two)]),
    's24: text, replay, text': told(settled(),
      [...words('before', 't1'), replay, seal, step,
        ...words('after', 't2')], { replays: 1 }),
  };

  for (const [name, one] of Object.entries(cases)) {
    await t.test(name, () => play(scene, one));
  }

  await t.test('s14: a weak id used again with other arguments', async () => {
    const weak = { ...one, id: 'functions.search:0' };
    const again = { ...weak, input: { city: 'elsewhere' } };
    const it = history([weak], { [weak.id]: 1 });
    await play(scene, told(it, [...ai.call(again)]));
    await play(scene, told(it, [ai.call(weak)], { replays: 1 }));
    const renamed = { ...weak, name: 'another' };
    await play(scene, told(it, [...ai.call(renamed)]));
  });

  await t.test('s15: the same arguments, keys in another order', async () => {
    const input = { b: [1, { y: 1, x: 2 }], a: 'ä' };
    const call = { ...one, input };
    const it = history([call], { [one.id]: 1 });
    const turned = { ...one, input: { a: 'ä', b: [1, { x: 2, y: 1 }] } };
    await play(scene, told(it, [ai.call(turned)], { replays: 1 }));
  });

  await t.test('s21: CRLF, and characters of several bytes', async () => {
    const call = { ...one, input: { city: 'Zürich 🌍 \u2028' } };
    const it = told(history([call], { [one.id]: 1 }),
      [...words('Grüße 🌍'), ai.call(call), ...words('ß', 't2')],
      { replays: 1 });
    const crlf = (list) => list.map((e) => e.replaceAll('\n', '\r\n'));
    await play(scene, it);
    await play(scene, { ...it, stream: crlf(it.stream),
      sees: crlf(it.sees) });
  });

  await t.test('s22: more bytes than the quarantine holds', async () => {
    const call = { ...one, input: { text: 'x'.repeat(3000) } };
    const it = told(history([call], { [one.id]: 1 }),
      [...ai.call(call), ...words('behind'), ...ai.call(two)]);
    await play(scene, it, { way: 'small' });
    await play(scene, told(history([call], { [one.id]: 1 }),
      [ai.call(call), ...words('behind'), ...ai.call(two)], { replays: 1 }));
  });

  await t.test('the stream ends with a call in quarantine', async () => {
    const it = settled();
    const text = words('behind').join('');
    const cut = { body: it.body, replays: 1,
      stream: [start(it.id), step, replay[0], replay[1], text, ...finish],
      sees: [start(it.id), step, text, ...finish] };
    await play(scene, cut);
  });

  await t.test('chat_replay_filter off; other arguments', async () => {
    const it = settled();
    const again = ai.call({ ...one, input: { city: 'elsewhere' } });
    await play(scene, told(it, [...replay, output(one, 2)]), { way: 'off' });
    await play(scene, told(it, [...again, ...words('on')]));
  });

  await t.test('chat_dry_run: replays counted, bytes unchanged', async () => {
    await play(scene, told(settled(), [...replay, ...words('on')],
      { replays: 1 }), { way: 'dry' });
  });
});

live('s106: numbers in another notation are the same call', async (t) => {
  const scene = await theatre(t);
  const raw = '{"a":1.0,"b":1e3,"c":12345678901234567,"d":-0.0,"e":1E-7}';
  const [call] = newCalls(1);
  call.input = JSON.parse(raw);
  const turned = JSON.stringify(call.input);
  const inner = (text) => JSON.stringify(text).slice(1, -1);
  for (const key of names) {
    await t.test(key, async () => {
      const dialect = dialects[key];
      const mark = { ...call, input: { mark: 1 } };
      const asRaw = (event) => event
        .replaceAll('{"mark":1}', raw).replaceAll('{\\"mark\\":1}',
          inner(raw))
        .replaceAll('{\\"ma', inner('{"a":1.0,'))
        .replaceAll('rk\\":1}', inner(raw.slice('{"a":1.0,'.length)));
      const from = dialect.calls({ calls: [call] });
      const body = dialect.continuation({ conversation: newId('chat_'), from,
        results: { [call.id]: 1 } });
      assert.ok(JSON.stringify(body).includes(turned)
        || JSON.stringify(body).includes(inner(turned)));
      const stream = dialect.calls({ calls: [mark], id: from.id }).map(asRaw);
      assert.ok(!stream.join('').includes('mark'), stream.join(''));
      const { bytes, seen } = await show(scene, { dialect, body, stream });
      assert.equal(Number(seen.replays_dropped), 1);
      assert.ok(!bytes.includes(call.id), bytes);
    });
  }
});

for (const key of ['openai_chat', 'openai_responses', 'anthropic',
  'gemini', 'ag_ui']) {
  live(`s18: ${key}: remaining calls are renumbered`, async (t) => {
    const scene = await theatre(t);
    const dialect = dialects[key];
    const drop = without[key];
    const old = newCalls(2, dialect.prefix);
    const fresh = newCalls(2, dialect.prefix);
    const body = dialect.continuation({ results: { [old[0].id]: 1,
      [old[1].id]: new Error('boom') }, from: dialect.calls({ calls: old }) });
    const cases = {
      'the first of two': [old[0], fresh[0]],
      'the last of two': [fresh[0], old[1]],
      'one between two': [fresh[0], old[0], fresh[1]],
      'two of four': [old[1], fresh[0], old[0], fresh[1]],
      'none': fresh,
      'all': old,
    };
    for (const [name, calls] of Object.entries(cases)) {
      await t.test(name, async () => {
        const stream = dialect.calls({ calls });
        const gone = [...calls.keys()].filter((i) => old.includes(calls[i]));
        await play(scene, { dialect, body, stream, replays: gone.length,
          sees: drop(stream, gone, gone.length === calls.length) });
      });
    }
    await t.test('chat_replay_filter off', async () => {
      const stream = dialect.calls({ calls: [old[0], fresh[0]] });
      await play(scene, { dialect, body, stream, sees: stream },
        { way: 'off' });
    });
    await t.test('the same id with other arguments', async () => {
      const stream = dialect.calls({ calls: [
        { ...old[0], input: { city: 'elsewhere' } }, fresh[0]] });
      await play(scene, { dialect, body, stream, sees: stream });
    });
  });
}

live('s17: one event with a call to drop and one to keep', async (t) => {
  const scene = await theatre(t);
  const { chat } = { chat: dialects.openai_chat };
  const [old] = newCalls(1);
  const [fresh] = newCalls(1);
  const body = chat.continuation({ from: chat.calls({ calls: [old] }),
    results: { [old.id]: 1 } });
  const entry = ({ id, name, input }, index) => ({ index, id,
    type: 'function', function: { name, arguments: JSON.stringify(input) } });
  const around = (calls) => [
    chat.chunk('c', { role: 'assistant', content: null }),
    chat.chunk('c', { tool_calls: calls }),
    chat.chunk('c', {}, 'tool_calls'), 'data: [DONE]\n\n'];
  await play(scene, { dialect: chat, body, replays: 1,
    stream: around([entry(old, 0), entry(fresh, 1)]),
    sees: around([entry(fresh, 0)]) });
  await play(scene, { dialect: chat, body, replays: 1,
    stream: around([entry(fresh, 0), entry(old, 1)]),
    sees: around([entry(fresh, 0)]) });
});

live('chained: the known calls come from the store', async (t) => {
  for (const key of ['openai_responses_chained', 'anthropic_thread']) {
    await t.test(key, async (t2) => {
      const scene = await theatre(t2);
      const dialect = dialects[key];
      const old = newCalls(2, dialect.prefix);
      const [fresh] = newCalls(1, dialect.prefix);
      const from = dialect.calls({ calls: old });
      const tenant = newId('');
      const first = dialect.fresh();
      await show(scene, { dialect, tenant, body: first, stream: from });
      const stream = dialect.calls({ calls: [old[0], fresh, old[1]] });
      const body = dialect.continuation({ from,
        results: { [old[0].id]: 1, [old[1].id]: 2 } });
      await play(scene, { dialect, tenant, body, stream, replays: 2,
        sees: without[dialect.name](stream, [0, 2]) });
      const other = dialect.calls({ calls: [{ ...old[0], input: {} }] });
      await play(scene, { dialect, tenant, body, stream: other,
        sees: other });
      await play(scene, { dialect, tenant, body: first, stream: other,
        sees: other });
    });
  }
});

live('a frame goes out before the next one arrives', async (t) => {
  const scene = await theatre(t);
  for (const [key, dialect] of Object.entries(dialects)) {
    for (const way of ['unbuffered', 'buffered']) {
      await t.test(`${key}, ${way}`, async () => {
        const calls = newCalls(2, dialect.prefix);
        const from = dialect.calls({ calls });
        const answered = gate();
        let came = '';
        /* The upstream sends the next event once the client has this one. */
        const stream = from.flatMap((event) => [event, async () => {
          came += event;
          const sent = came;
          await (await answered).answer.until((text) => text === sent);
        }]);
        const key2 = newId('');
        scene.cases.set(key2, { stream });
        const answer = post(scene.n.port,
          `/${way}/${key2}/${dialect.path}`, dialect.fresh());
        answered.open({ answer });
        assert.equal(await answer.text(), from.join(''));
      });
    }
  }
});

live('slow readers get every byte', async (t) => {
  const scene = await theatre(t);
  const [one] = newCalls(1);
  const it = history([one], { [one.id]: { ok: 1 } });
  const block = words('Wörter '.repeat(500));
  const events = Array.from({ length: 700 }, (_, i) => (i % 10 === 0
    ? [ai.call(one), ...block] : block)).flat();
  const big = told(it, events);
  const wanted = big.sees.join('');
  /* More than the rate limit sends at once, and more than any buffer holds. */
  assert.ok(wanted.length > 2e6);
  await Promise.all(['slow', 'slow_buffered'].flatMap((way) =>
    ['whole', '16384', '1000'].map((cut) =>
      t.test(`${way}, ${cut}`, async () => {
        const { bytes, seen } = await show(scene, big, { way, cut });
        assert.equal(bytes.length, wanted.length);
        assert.ok(bytes === wanted);
        assert.equal(Number(seen.replays_dropped), 70);
      }))));
});
