/*
 * replay_numbered.test.mjs: replays in the dialects of providers. Their
 * clients use indexes, so the remaining items are renumbered; nothing else
 * changes. AG-UI, which has no indexes, is tested beside them.
 *
 * replay.test.mjs has the cases of single dialects; here each case runs in all
 * of them.
 *
 * Suite: asan.
 */
import assert from 'node:assert/strict';
import { dialects, newCalls } from '../lib/dialects.mjs';
import { live } from '../lib/hold.mjs';
import { play, show, theatre, without } from '../lib/replay.mjs';
import { named } from '../lib/dialects/wire.mjs';

/* The number by which an event names its call, or undefined. */
const indexes = {
  openai_chat: (event) => event.choices?.[0].delta.tool_calls?.[0].index,
  openai_responses: (event) => event.output_index,
  anthropic: (event) => event.index,
  gemini: () => undefined,
  ag_ui: () => undefined,
};

const read = (event) => {
  const text = /^data: ([^\n]*)/m.exec(event)[1];
  return text === '[DONE]' ? {} : JSON.parse(text);
};

/* Interleaved frames of two calls, if the provider may interleave them. */
function turns(key, stream) {
  const of = (i) => stream.filter((event) =>
    indexes[key](read(event)) === i);
  const first = stream.findIndex((event) =>
    indexes[key](read(event)) !== undefined);
  const both = of(0).flatMap((event, i) => [event, of(1)[i]]);
  return ['anthropic', 'gemini', 'ag_ui'].includes(key) ? stream
    : [...stream.slice(0, first), ...both,
      ...stream.slice(first + both.length)];
}

/* Text, the calls, and text again; without calls only text. */
const around = {
  openai_chat: ({ chunk, calls: make }, calls) => {
    const stream = make({ calls });
    const say = (words) => chunk(stream.id, { content: words });
    return [stream[0], say('before'), ...stream.slice(1, -2), say('behind'),
      ...stream.slice(-2)];
  },
  ag_ui: ({ calls: make, final }, calls) => {
    const stream = make({ calls });
    return [stream[0], ...final('before').slice(1, -1),
      ...stream.slice(1, -1), ...final('behind').slice(1)];
  },
  gemini: ({ chunk, call, calls: make }, calls) => {
    const stream = make({ calls });
    const text = (words) => ({ text: words });
    return [chunk(stream.id, [text('before')]),
      chunk(stream.id, [text('and'), ...calls.map(call), text('behind')]),
      stream.at(-1)];
  },
  anthropic: ({ calls: make, final }, calls) => {
    const text = (words, index) => final(words).slice(2, 5)
      .map((event) => named({ ...read(event), index }));
    const stream = make({ calls });
    const moved = stream.slice(2, -2).map((event) => {
      const object = read(event);
      return named({ ...object, index: object.index + 1 });
    });
    return [...stream.slice(0, 2), ...text('before', 0), ...moved,
      ...text('behind', calls.length + 1), ...stream.slice(-2)];
  },
  openai_responses: ({ calls: make, final }, calls) => {
    const text = (words, index) => final(words).slice(1, 7)
      .map((event) => named({ ...read(event), output_index: index }));
    const stream = make({ calls });
    const before = text('before', 0);
    const behind = text('behind', calls.length + 1);
    const moved = stream.slice(2, -1).map((event) => {
      const object = read(event);
      return named({ ...object, output_index: object.output_index + 1 });
    });
    const end = read(stream.at(-1));
    end.response.output = [read(before.at(-1)).item, ...end.response.output,
      read(behind.at(-1)).item];
    return [...stream.slice(0, 2), ...before, ...moved, ...behind,
      named(end)];
  },
};

for (const key of ['openai_chat', 'openai_responses', 'anthropic',
  'gemini', 'ag_ui']) {
  live(`s1 s2 s3 s4 s5 s14 s15 s21 s22 s24: ${key}: a replay`, async (t) => {
    const scene = await theatre(t);
    const dialect = dialects[key];
    const old = newCalls(2, dialect.prefix);
    const fresh = newCalls(2, dialect.prefix);
    const [one, two] = old;
    const body = dialect.continuation({ from: dialect.calls({ calls: old }),
      results: { [one.id]: 1, [two.id]: new Error('boom') } });
    /* A stream of these calls; those at these positions are dropped. */
    const told = (calls, gone, more = {}) => {
      const stream = dialect.calls({ calls });
      return { dialect, body, stream, replays: gone.length,
        sees: without[key](stream, gone, gone.length === calls.length),
        ...more };
    };

    await t.test('s1: of a call with a result', () => play(scene,
      told([one], [0])));
    await t.test('s2: of an open call', () => play(scene,
      told([two, fresh[0]], [0], { verdict: 'held',
        body: dialect.continuation({ from: dialect.calls({ calls: old }),
          results: { [one.id]: 1 } }) }), { way: 'unheld' }));
    await t.test('s3: next to a new call', () => play(scene,
      told([fresh[0], one, fresh[1]], [1])));
    await t.test('s4: none: two interleaved new calls', () => {
      const stream = turns(key, dialect.calls({ calls: fresh }));
      return play(scene, { dialect, body, stream, sees: stream });
    });
    await t.test('s3: interleaved with a new call', () => {
      const stream = turns(key, dialect.calls({ calls: [one, fresh[0]] }));
      return play(scene, { dialect, body, stream, replays: 1,
        sees: without[key](stream, [0]) });
    });
    await t.test('s5: a second opening in one stream', () => play(scene,
      told([fresh[0], fresh[0], fresh[1]], [1],
        { body: dialect.fresh() })));
    await t.test('s14: a weak id used again, other arguments', async () => {
      const weak = { ...one, id: 'functions.search:0' };
      const asked = dialect.continuation({ results: { [weak.id]: 1 },
        from: dialect.calls({ calls: [weak] }) });
      /* In a thread a weak id belongs to the thread. */
      const more = { body: asked,
        verdict: dialect.apps ? 'passed' : 'unmanaged' };
      await play(scene, told([{ ...weak, input: { city: 'else' } }], [],
        more));
      await play(scene, told([{ ...weak, name: 'another' }], [], more));
      /* s111: a polling model repeats the same call. */
      await play(scene, told([weak], dialect.apps ? [0] : [], more));
    });
    await t.test('s15: the same arguments in another order', async () => {
      const call = { ...one, input: { b: [1, { y: 1, x: 2 }], a: 'ä' } };
      const turned = { ...one, input: { a: 'ä', b: [1, { x: 2, y: 1 }] } };
      await play(scene, told([turned, fresh[0]], [0], {
        body: dialect.continuation({ results: { [one.id]: 1 },
          from: dialect.calls({ calls: [call] }) }) }));
    });
    await t.test('s21: CRLF, and characters of several bytes', async () => {
      const call = { ...one, input: { city: 'Zürich 🌍 \u2028' } };
      const it = told([call, { ...fresh[0], input: { city: 'Łódź 🏭' } }], [0],
        { body: dialect.continuation({ results: { [one.id]: 1 },
          from: dialect.calls({ calls: [call] }) }) });
      const crlf = (list) => list.map((e) => e.replaceAll('\n', '\r\n'));
      await play(scene, it);
      await play(scene, { ...it, stream: crlf(it.stream),
        sees: crlf(it.sees) });
    });
    /* The whole call is in one frame: no quarantine. */
    const pieces = key !== 'gemini';
    await t.test('s22: larger than the quarantine', {
      skip: !pieces }, async () => {
      /*
       * No single frame is too long; together those before the last argument
       * are.
       */
      const text = 'x'.repeat(key === 'openai_responses' ? 300 : 750);
      const call = { ...one, input: { text } };
      const asked = dialect.continuation({ results: { [one.id]: 1 },
        from: dialect.calls({ calls: [call] }) });
      await play(scene, told([call], [], { body: asked }),
        { way: 'small' });
      await play(scene, told([call], [0], { body: asked }));
    });
    await t.test('s24: text, replay, text', async () => {
      const stream = around[key](dialect, [one]);
      const at = ['anthropic', 'openai_responses'].includes(key) ? 1 : 0;
      await play(scene, { dialect, body, stream, replays: 1,
        sees: without[key](stream, [at], true) });
    });
  });
}

for (const key of ['openai_chat', 'openai_responses', 'anthropic',
  'gemini']) {
  live(`s111 s112: ${key}: a repeated call of the previous step`,
    async (t) => {
      const scene = await theatre(t);
      const dialect = dialects[key];
      const asked = (call) => dialect.continuation({ results: { [call.id]: 1 },
        from: dialect.calls({ calls: [call] }) });
      const [strong] = newCalls(1, dialect.prefix);
      for (const id of ['call_0', 'functions.w:0', 'call_aaaaaaaaaaaaaaaa']) {
        const call = { ...strong, id };
        const stream = dialect.calls({ calls: [call, { ...call,
          name: 'other' }] });
        const other = dialect.calls({ calls: [call] });
        await t.test(`${id} passes`, async () => {
          const more = { dialect, body: asked(call), verdict: 'unmanaged' };
          await play(scene, { ...more, stream: other, sees: other });
          await play(scene, { ...more, stream, sees: stream });
        });
      }
      await t.test('a strong id is a replay', async () => {
        const stream = dialect.calls({ calls: [strong] });
        await play(scene, { dialect, body: asked(strong), stream,
          replays: 1, sees: without[key](stream, [0], true) });
      });
    });
}

for (const key of ['ai_sdk', 'openai_chat', 'openai_responses', 'anthropic',
  'gemini', 'ag_ui']) {
  live(`s125: ${key}: a foreign stream that begins with an empty data:`,
    async (t) => {
      const scene = await theatre(t);
      const dialect = dialects[key];
      for (const first of ['data:\n\n', 'data\n\n', ': hi\n\ndata: \n\n']) {
        const stream = [first, 'event: tick\ndata: {"tick":1}\n\n',
          'data: {"tick":2}\n\n'];
        const { bytes } = await show(scene,
          { dialect, body: dialect.fresh(), stream });
        assert.equal(bytes, stream.join(''));
      }
    });
}

for (const key of ['ai_sdk', 'ag_ui']) {
  live(`s126: ${key}: a running call opened again under another name`,
    async (t) => {
      const scene = await theatre(t);
      const dialect = dialects[key];
      const [one] = newCalls(1, dialect.prefix);
      const from = dialect.calls({ calls: [one] });
      const parent = `m_${from.id}`;
      const again = dialect.call({ ...one, name: 'another' }, parent);
      const [first] = dialect.call(one, parent);
      const around = (events) => [...from.slice(0, from.indexOf(first)),
        ...events, ...from.slice(from.indexOf(first) + again.length)];
      await play(scene, { dialect, body: dialect.fresh(),
        stream: around([first, ...again]),
        sees: around([first, ...again]) });
      await play(scene, { dialect, body: dialect.fresh(), replays: 1,
        stream: around([first, first, ...again.slice(1)]),
        sees: around([first, ...again.slice(1)]) });
    });
}

/* One call of three is dropped; the positions of the later ones. */
async function middle(t, dialect) {
  const scene = await theatre(t);
  const [one, two, three] = newCalls(3, dialect.prefix);
  const stream = dialect.calls({ calls: [two, one, three] });
  const sees = without[dialect.name](stream, [1]);
  await play(scene, { dialect, stream, sees, replays: 1,
    body: dialect.continuation({ from: dialect.calls({ calls: [one] }),
      results: { [one.id]: 1 } }) });
  return sees.map(read);
}

live('s19: openai_responses: no item and no gap is left', async (t) => {
  const sees = await middle(t, dialects.openai_responses);
  assert.equal(sees.at(-1).response.output.length, 2);
  assert.deepEqual([...new Set(sees.map((event) => event.output_index))],
    [undefined, 0, 1]);
  const numbers = sees.map((event) => event.sequence_number);
  assert.ok(numbers.at(-1) > numbers.length, 'the numbers keep their gap');
});

live('s20: anthropic: the block after a replay gets its index', async (t) => {
  const sees = await middle(t, dialects.anthropic);
  const starts = sees.filter(({ type }) => type === 'content_block_start');
  assert.deepEqual(starts.map(({ index }) => index), [0, 1]);
  assert.equal(sees.at(-2).delta.stop_reason, 'tool_use');
});

/* Events of function calls, rewritten for another item type. */
const items = (stream, change) => stream.flatMap((event) => {
  const object = read(event);
  if (/arguments/.test(object.type)) {
    return [];
  }
  if (object.item) {
    object.item = change(object.item);
  }
  if (object.response) {
    object.response.output = object.response.output.map(change);
  }
  return named(object);
});

live('s12: openai_responses: an answered approval request', async (t) => {
  const scene = await theatre(t);
  const dialect = dialects.openai_responses;
  const [one, two] = newCalls(2);
  const ask = ({ call_id: id, name, arguments: args }) => ({
    id: id.replace('call_', 'mcpr_'), type: 'mcp_approval_request', name,
    arguments: args || '{}', server_label: 's' });
  const asked = (calls) => items(dialect.calls({ calls }), ask);
  const question = read(asked([one]).at(-1)).response.output[0];
  const body = { ...dialect.fresh(), input: [
    { role: 'user', content: 'Hello' }, question,
    { type: 'mcp_approval_response', approval_request_id: question.id,
      approve: true }] };
  const stream = asked([one, two]);
  await play(scene, { dialect, body, stream, replays: 1,
    sees: without.openai_responses(stream, [0]) });
  const first = asked([two]);
  await play(scene, { dialect, body, stream: first, sees: first });
});

live('s16: openai_responses: an incomplete call', async (t) => {
  const scene = await theatre(t);
  const dialect = dialects.openai_responses;
  const [one, half] = newCalls(2);
  const from = dialect.calls({ calls: [one, half] });
  const body = dialect.continuation({ from, results: { [one.id]: 1 } });
  Object.assign(body.input.find(({ call_id: id }) => id === half.id),
    { status: 'incomplete', arguments: '{"ci' });
  const stream = dialect.calls({ calls: [half] });
  await play(scene, { dialect, body, stream, sees: stream });
});
