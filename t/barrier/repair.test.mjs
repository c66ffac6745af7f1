/*
 * repair.test.mjs: chat_repair: a new user message while calls are open.
 *
 * Stored results complete its transcript; with `all` each call without a
 * result gets the dialect's error.
 */
import assert from 'node:assert/strict';
import { until } from '../lib/harness.mjs';
import { dialects, newCalls, newId } from '../lib/dialects.mjs';
import { sse } from '../lib/provider.mjs';
import { Batch, stage, told } from '../lib/batch.mjs';
import { held, leave, live, say, verdict, wordOf } from '../lib/hold.mjs';

/* The dialects in which a text may follow open calls. */
const keys = Object.keys(dialects).filter((key) =>
  !dialects[key].interrupts);
const words = 'something else';
const unknown = /outcome of this call is unknown/;

const all = (more = {}) => ({ workers: 2, ...more,
  location: `chat_repair all; ${say.verdict} ${more.location ?? ''}` });

/* A text turn after calls of which only these have results. */
function turn(batch, results = {}) {
  return batch.body(results, batch.dialect.says(words));
}

/* Posts a body that must be accepted; returns what the provider received. */
async function taken(batch, body, ids = batch.ids) {
  const answer = batch.post(body);
  const end = await told(answer);
  const request = batch.p.requests.at(-1);
  assert.equal(end.word, 'final', String(request.raw));
  assert.equal(await verdict(answer), 'passed');
  assert.ok(!/tool-output|CALL_RESULT/.test(end.text),
    'a fresh turn gets no injected events');
  assert.equal(request.refused, false, String(request.raw));
  assert.ok(request.raw.includes(words));
  assert.deepEqual(request.answered, ids);
  return String(request.raw);
}

/* AG-UI repeats the error in the message's content. */
const count = (text, pattern) => text.replace(/,"error":"[^"]*"/g, '')
  .split(pattern).length - 1;
const has = (text, value) => text.includes(JSON.stringify(value))
  || text.includes(JSON.stringify(JSON.stringify(value)).slice(1, -1));

for (const key of keys) {
  live(`s66: ${key}: a call without a result gets an error`, async (t) => {
    const scene = await stage(t, key, all());
    await t.test('between results', async () => {
      const batch = new Batch(scene, 4);
      await batch.ask();
      await leave(batch, batch.results([1]));
      const raw = await taken(batch, turn(batch, batch.results([3])));
      assert.equal(count(raw, unknown), 2, raw);
      assert.ok(has(raw, batch.results()[batch.ids[1]]), raw);
    });
    await t.test('no result at all', async () => {
      const batch = new Batch(scene, 3);
      await batch.ask();
      const raw = await taken(batch, turn(batch));
      assert.equal(count(raw, unknown), 3, raw);
    });
    await t.test('an error from the store is kept', async () => {
      const batch = new Batch(scene, 2);
      await batch.ask();
      await leave(batch, { [batch.ids[0]]: new Error('boom') });
      const raw = await taken(batch, turn(batch));
      assert.ok(raw.includes('boom'));
      assert.equal(count(raw, unknown), 1, raw);
    });
  });

  live(`s68: ${key}: a complete transcript stays byte for byte`,
    async (t) => {
      const scene = await stage(t, key, all());
      const batch = new Batch(scene, 2);
      const [a, b] = batch.ids;
      await batch.ask();
      const body = JSON.stringify(turn(batch,
        { [a]: new Error('boom'), [b]: { ok: 1.5 } }), null, 1);
      assert.equal(await taken(batch, body), body);
      const fresh = JSON.stringify(batch.dialect.fresh());
      await batch.post(fresh).text();
      assert.equal(String(scene.p.requests.at(-1).raw), fresh);
    });

  live(`${key}: settled leaves open calls unchanged`, async (t) => {
    const scene = await stage(t, key, { strict: false });
    const batch = new Batch(scene, 2);
    await batch.ask();
    const body = JSON.stringify(turn(batch, batch.results([0])));
    await batch.post(body).text();
    assert.equal(String(scene.p.requests.at(-1).raw), body);
  });
}

/* A provider that keeps the conversation keeps the error, too. */
for (const key of keys.filter((one) => !one.endsWith('_conversation'))) {
  live(`s67: ${key}: a late result replaces the error`, async (t) => {
    const scene = await stage(t, key, all());
    const batch = new Batch(scene, 2);
    await batch.ask();
    const results = batch.results();
    const raw = await taken(batch, turn(batch, batch.results([0])));
    assert.equal(count(raw, unknown), 1);

    /* The late result is stored although no request waits for it. */
    await told(batch.continue(batch.results([1])));
    const late = await taken(batch, turn(batch, batch.results([0])));
    assert.equal(count(late, unknown), 0, late);
    assert.ok(has(late, results[batch.ids[1]]), late);
  });
}

const listOf = (body) => body.messages ?? body.contents ?? body.input;

for (const key of keys.filter((one) => !/_(chained|thread|conversation)$/
  .test(one))) {
  live(`s66: ${key}: the error precedes the next turn's results`,
    async (t) => {
      const scene = await stage(t, key, all({ hold: '10s' }));
      const left = new Batch(scene, 2);
      await left.ask();
      const before = listOf(turn(left, left.results([1])));
      const batch = new Batch(scene, 2);
      await batch.ask();
      const body = (results) => {
        const it = batch.body(results);
        listOf(it).splice(0, 1, ...before);
        return it;
      };
      const waiting = batch.post(body(batch.results([0])));
      await held(batch, waiting);
      const words2 = await Promise.all([waiting,
        batch.post(body(batch.results([1])))].map(told));
      for (const { word, text } of words2) {
        assert.equal(word, 'final', text);
        assert.doesNotMatch(text, unknown);
      }
      const [request, ...more] = batch.upstream();
      assert.deepEqual(more, []);
      assert.equal(request.refused, false, String(request.raw));
      assert.equal(count(String(request.raw), unknown), 1);
    });
}

live('s66: a text alone after a chain with open calls', async (t) => {
  const scene = await stage(t, 'openai_responses_chained', all());
  const batch = new Batch(scene, 2);
  await batch.ask();
  await leave(batch, batch.results([1]));
  const raw = await taken(batch, { model: 'm', stream: true,
    previous_response_id: batch.from.id, input: words });
  assert.equal(count(raw, unknown), 1);
  assert.deepEqual(JSON.parse(raw).input.at(-1),
    { role: 'user', content: words });
});

live('s66: ids that name no batch', async (t) => {
  for (const key of ['openai_chat', 'openai_responses', 'anthropic']) {
    await t.test(key, async (t2) => {
      const scene = await stage(t2, key, all());
      const batch = new Batch(scene, newCalls(2).map((call, i) =>
        ({ ...call, id: `call_${i}` })));
      await batch.ask();
      const raw = await taken(batch, turn(batch, batch.results([1])));
      assert.equal(count(raw, unknown), 1, raw);
    });
  }
});

/* The calls in an AI SDK client's messages, changed by the test. */
function parts(batch, change) {
  const body = turn(batch);
  const list = body.messages.find(({ id }) => id === batch.from.id).parts;
  change(list, list.filter(({ toolCallId }) => toolCallId));
  return body;
}

const partsOf = (raw, id) => JSON.parse(raw).messages
  .flatMap((message) => message.parts)
  .filter((part) => part.toolCallId === id);

live('s32: ai_sdk: a call twice in a fresh turn', async (t) => {
  for (const repair of ['settled', 'all']) {
    const scene = await stage(t, 'ai_sdk',
      { location: `chat_repair ${repair}; ${say.verdict}` });
    await t.test(`${repair}: answered in one place`, async () => {
      const batch = new Batch(scene, 2);
      const [a, b] = batch.ids;
      await batch.ask();
      const raw = await taken(batch, parts(batch, (list, [one, two]) => {
        list.push({ ...one });
        Object.assign(one, { state: 'output-available', output: 'own' });
        Object.assign(two, { state: 'output-error', errorText: 'boom' });
      }), [a, b, a]);
      assert.deepEqual(partsOf(raw, a).map(({ output }) => output),
        ['own', 'own']);
    });
    await t.test(`${repair}: answered by another`, async () => {
      const batch = new Batch(scene, 2);
      const [a, b] = batch.ids;
      await batch.ask();
      await leave(batch, { [a]: 'stored' });
      const raw = await taken(batch, parts(batch, (list, [one, two]) => {
        list.push({ ...one });
        Object.assign(two, { state: 'output-error', errorText: 'boom' });
      }), [a, b, a]);
      assert.deepEqual(partsOf(raw, a).map(({ output }) => output),
        ['stored', 'stored']);
    });
  }
});

live('s66: ai_sdk: earlier steps and messages', async (t) => {
  const scene = await stage(t, 'ai_sdk', all());
  const dialect = dialects.ai_sdk;
  const batch = new Batch(scene, 1);
  await batch.ask();
  const [older, step] = newCalls(2);
  const open = (call) => dialect.continuation({ conversation: 'x',
    from: dialect.calls({ calls: [call] }), results: {} }).messages;
  const body = turn(batch, batch.results());
  body.messages.splice(1, 0, ...open(older).slice(1), body.messages[0]);
  const at = body.messages.findIndex(({ id }) => id === batch.from.id);
  body.messages[at].parts.unshift(...open(step).at(-1).parts);
  const raw = await taken(batch, body, [older.id, step.id, ...batch.ids]);
  for (const { id } of [older, step]) {
    const [{ state, errorText }] = partsOf(raw, id);
    assert.equal(state, 'output-error');
    assert.match(errorText, unknown);
  }
});

live('s66: ai_sdk: an earlier step of a continuation, untold', async (t) => {
  const scene = await stage(t, 'ai_sdk', all());
  const batch = new Batch(scene, 1);
  await batch.ask();
  const [open] = newCalls(1);
  const body = batch.body(batch.results());
  body.messages.at(-1).parts.unshift(...dialects.ai_sdk.continuation({
    from: scene.dialect.calls({ calls: [open] }), results: {} })
    .messages.at(-1).parts);
  const { text } = await told(batch.post(body));
  assert.equal(count(String(batch.upstream()[0].raw), unknown), 1);
  assert.doesNotMatch(text, unknown);
});

live('s69: ai_sdk: what was approved and has not run', async (t) => {
  const scene = await stage(t, 'ai_sdk', all({ strict: false }));
  const approval = { id: 'ap1' };
  const asked = () => {
    const [one, two] = newCalls(2);
    return new Batch(scene, [{ ...one, approval }, two]);
  };
  const decide = (part) => Object.assign(part,
    { state: 'approval-responded', approval: { ...approval,
      approved: true } });

  await t.test('here: stays as it is', async () => {
    const batch = asked();
    await batch.ask();
    const body = parts(batch, (list, [one, two]) => {
      decide(one);
      Object.assign(two, { state: 'output-available', output: 1 });
    });
    const raw = await taken(batch, JSON.stringify(body));
    assert.equal(raw, JSON.stringify(body));
  });

  await t.test('in another tab: stays as it is', async () => {
    const batch = asked();
    const [a, b] = batch.ids;
    await batch.ask();
    const body = batch.body({});
    decide(body.messages.at(-1).parts.find((p) => p.toolCallId === a));
    const first = batch.post(body);
    await held(batch, first);
    const raw = await taken(batch, turn(batch), [b]);
    assert.deepEqual(partsOf(raw, a), partsOf(JSON.stringify(turn(batch)),
      a));
    assert.match(partsOf(raw, b)[0].errorText, unknown);
    await told(first);

    const later = turn(batch);
    later.messages.push({ id: 'm9', role: 'assistant', parts: [
      { type: 'text', text: 'well' }] }, later.messages[0]);
    assert.deepEqual(partsOf(await taken(batch, later, [b]), a),
      partsOf(raw, a));
  });

  await t.test('it has run: its output is merged', async () => {
    const batch = asked();
    const [a, b] = batch.ids;
    await batch.ask();
    await leave(batch, { [a]: 'ran' });
    const raw = await taken(batch, parts(batch, (list, [one, two]) => {
      decide(one);
      Object.assign(two, { state: 'output-available', output: 1 });
    }));
    assert.equal(partsOf(raw, a)[0].output, 'ran');
    assert.equal(partsOf(raw, a)[0].approval.approved, true);
    assert.equal(partsOf(raw, b)[0].output, 1);
  });

  await t.test('no decision yet: an error, no approval',
    async () => {
      const batch = asked();
      const [a] = batch.ids;
      await batch.ask();
      const raw = await taken(batch, turn(batch));
      const [part] = partsOf(raw, a);
      assert.equal(part.state, 'output-error');
      assert.ok(!('approval' in part), raw);
    });
});

live('s69: openai_responses: an approval that was given', async (t) => {
  const scene = await stage(t, 'openai_responses', all());
  const question = (id) => ({ type: 'mcp_approval_request', id,
    server_label: 's', name: 'f', arguments: '{}' });
  const [one, two] = [newId('mcpr_'), newId('mcpr_')];
  const body = { ...dialects.openai_responses.fresh(), input: [
    { role: 'user', content: 'Hello' }, question(one), question(two),
    { type: 'mcp_approval_response', approval_request_id: one,
      approve: true }, { role: 'user', content: words }] };
  const batch = new Batch(scene, 1);
  const raw = await taken(batch, body, [one, two]);
  const [first, second] = JSON.parse(raw).input.slice(3);
  assert.deepEqual(first, body.input[3]);
  assert.equal(second.approve, false);
  assert.match(second.reason, unknown);
});

live('ai_sdk: a part with a result gets the stored decision',
  async (t) => {
    for (const repair of ['settled', 'all']) {
      await t.test(repair, async (t2) => {
        const scene = await stage(t2, 'ai_sdk',
          { location: `chat_repair ${repair}; ${say.verdict}` });
        const [one, two] = newCalls(2);
        const batch = new Batch(scene, [{ ...one, approval: { id: 'ap1' } },
          two]);
        await batch.ask();
        const body = batch.body({});
        Object.assign(body.messages.at(-1).parts.find((part) =>
          part.toolCallId === one.id), { state: 'approval-responded',
          approval: { id: 'ap1', approved: true } });
        const first = batch.post(body);
        await held(batch, first);
        const raw = await taken(batch, parts(batch, (list, calls) => {
          calls.forEach((part) => Object.assign(part,
            { state: 'output-available', output: 1 }));
        }));
        assert.deepEqual(partsOf(raw, one.id)[0].approval,
          { approved: true, id: 'ap1' });
        await told(first);
      });
    }
  });

/* JSON values that a model's arguments can have. */
const inputs = [null, '', [], [1, '2'], '{"a":1}', 0, { a: { b: null } }];

for (const key of keys.filter((one) => !dialects[one].chained)) {
  live(`s70: ${key}: inputs keep their notation`, async (t) => {
    const scene = await stage(t, key, all());
    const calls = newCalls(inputs.length, dialects[key].prefix)
      .map((call, i) => ({ ...call, input: inputs[i] }));
    const batch = new Batch(scene, calls);
    await batch.ask();
    const body = turn(batch, batch.results([2]));
    const raw = await taken(batch, body);
    assert.equal(count(raw, unknown), inputs.length - 1);
    const given = ({ id }) => {
      const found = [];
      JSON.stringify(JSON.parse(raw), (name, value) => {
        if (value && [value.id, value.call_id, value.toolCallId]
          .includes(id) && !('output' in value && 'call_id' in value)) {
          found.push(value);
        }
        return value;
      });
      return found[0];
    };
    for (const call of calls) {
      const it = given(call);
      const text = it.arguments ?? it.function?.arguments;
      assert.deepEqual(text !== undefined ? JSON.parse(text)
        : 'args' in it ? it.args : it.input, call.input);
    }
  });
}

live('chat_repair leaves other bodies unchanged', async (t) => {
  const scene = await stage(t, 'openai_chat', all({ strict: false,
    location: 'chat_tool ^theirs provider;' }));
  const untouched = async (it, body) => {
    const batch = new Batch(it, 2);
    await batch.ask();
    const sent = JSON.stringify(body(batch));
    await batch.post(sent).text();
    assert.equal(String(it.p.requests.at(-1).raw), sent);
  };
  await t.test('calls that the server side executes', async () => {
    const batch = new Batch(scene, newCalls(2).map((call) =>
      ({ ...call, name: 'theirs' })));
    const sent = JSON.stringify(turn(batch));
    await batch.post(sent).text();
    assert.equal(String(scene.p.requests.at(-1).raw), sent);
  });
  await t.test('a continuation: still held', async () => {
    const batch = new Batch(scene, 2);
    await batch.ask();
    await leave(batch, batch.results([0]));
    assert.equal(batch.upstream().length, 0);
  });
  await t.test('neither results nor text', () => untouched(scene, (batch) =>
    batch.body({})));
  await t.test('a regenerated answer', async (t2) => untouched(
    await stage(t2, 'ai_sdk', all({ strict: false })), (batch) =>
      batch.body(batch.results([0]), { trigger: 'regenerate-message' })));
  await t.test('chat_dry_run', async (t2) => untouched(
    await stage(t2, 'ai_sdk', all({ strict: false,
      location: 'chat_dry_run on;' })), (batch) => turn(batch)));
  await t.test('more calls than the limit', async () => {
    const batch = new Batch(scene, 200);
    const sent = JSON.stringify(turn(batch));
    const answer = batch.post(sent);
    await answer.text();
    assert.equal(await verdict(answer), 'refused');
    assert.equal(String(scene.p.requests.at(-1).raw), sent);
  });
});

live('s99: ai_sdk: an approval that was carried runs no tool twice',
  async (t) => {
    const scene = await stage(t, 'ai_sdk', { workers: 2,
      location: say.verdict });
    const [one] = newCalls(1);
    const approval = { id: 'ap1', approved: true };
    const batch = new Batch(scene, [{ ...one, approval: { id: 'ap1' } }]);
    await batch.ask();
    const { answer } = scene.p;
    const stream = dialects.ai_sdk.final(`done ${batch.key}`);
    const ran = `data: ${JSON.stringify({ type: 'tool-output-available',
      toolCallId: one.id, output: 'ran' })}\n\n`;
    scene.p.answer = () => sse([...stream.slice(0, 2), ran,
      ...stream.slice(2)]);
    const approved = batch.body({});
    Object.assign(approved.messages.at(-1).parts.at(-1),
      { state: 'approval-responded', approval });
    assert.equal(await wordOf(batch.post(approved)), 'final');
    batch.released();

    /* A tab that was asleep sends the approval once more. */
    const end = await told(batch.post(approved));
    assert.equal(end.word, 'empty');
    batch.released();

    /* The tool's output is there for a stale body's next turn. */
    scene.p.answer = answer;
    const raw = await taken(batch, turn(batch));
    assert.equal(partsOf(raw, one.id)[0].output, 'ran');
  });

for (const key of keys) {
  live(`s101: ${key}: stopped, then requested once more`, async (t) => {
    const scene = await stage(t, key, { workers: 2 });
    const batch = new Batch(scene, 2);
    await batch.ask();
    const first = batch.continue(batch.results([0]));
    await held(batch, first);
    const { answer } = scene.p;
    scene.p.answer = () => sse(batch.dialect.final('x').slice(0, 2),
      { end: 'open' });
    const second = batch.continue(batch.results([1]));
    await until(() => batch.upstream().length === 1);
    await until(() => first.bytes.length + second.bytes.length);
    const lines = scene.n.accessLog().length;
    [first, second].forEach((one) => one.abort());
    await until(() => scene.n.accessLog().length >= lines + 2);

    scene.p.answer = answer;
    const again = key === 'ai_sdk'
      ? batch.continue(batch.results(), { more:
        { trigger: 'regenerate-message' } })
      : batch.continue(batch.results());
    assert.equal(await wordOf(again), 'final');
    batch.released(2);
  });
}
