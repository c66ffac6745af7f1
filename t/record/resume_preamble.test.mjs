/*
 * resume_preamble.test.mjs: what a resuming AI SDK client gets besides the
 * answer: the message that the answer continues, before the first event, and
 * results that arrived meanwhile.
 *
 * clients/resume.test.mjs tests it with real clients.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gate, store, unbuilt, until } from '../lib/harness.mjs';
import { Batch } from '../lib/batch.mjs';
import { dialects, events, newCalls } from '../lib/dialects.mjs';
import { give, taken } from '../lib/external.mjs';
import { sse } from '../lib/provider.mjs';
import { Talk, resumeNodes, resumeStage } from '../lib/resume.mjs';
import { data } from '../lib/dialects/wire.mjs';

const { ai_sdk: dialect } = dialects;
const server = 'location = /results { chat_results; }';

const live = (name, play) => test(name, { skip: unbuilt }, play);

/* A stage, and its provider's answers to continuations. */
async function stage(t, { answer, ...options } = {}) {
  const s = await resumeStage(t, 'ai_sdk', { hold: '20s', server,
    ...options });
  const ask = s.p.answer;
  s.p.answer = (request) => {
    const batch = s.batches.get(request.headers['x-batch']);
    return answer && request.answered.length
      ? answer(batch, request) : ask(request);
  };
  return s;
}

const sees = (words) => (text) => text.includes(words);

const back = (s, batch, options) =>
  new Talk(s, batch.key).resume(options).text();

const says = (batch) => dialect.final('all of it', batch.from.id);

/* A call with its result, as a client gets it that must not run it. */
const settled = ({ id, name, input }, output) => [
  { type: 'tool-input-start', toolCallId: id, toolName: name },
  { type: 'tool-input-delta', toolCallId: id,
    inputTextDelta: JSON.stringify(input) },
  { type: 'tool-output-available', toolCallId: id, output }];

/* The message of a batch when its answer begins. */
const message = ({ from, calls }, results) => [
  { type: 'start', messageId: from.id },
  { type: 'start-step' },
  ...calls.flatMap((call) => settled(call, results[call.id])),
  { type: 'finish-step' }].map(data).join('');

live('ai_sdk: the message precedes the continuation of it',
  async (t) => {
    const wait = gate();
    const s = await stage(t, { answer: (batch) => {
      const all = says(batch);
      return sse([...all.slice(0, 4), wait, ...all.slice(4)]);
    } });
    const batch = new Batch(s);
    await batch.ask();
    const own = batch.continue(batch.results());
    await own.until(sees('all of it'));
    const talk = new Talk(s, batch.key);
    const other = talk.resume();
    await other.until(sees('all of it'));
    wait.open();
    const text = await own.text();
    assert.equal(text, says(batch).join(''));
    const told = message(batch, batch.results());
    assert.equal(await other.text(), told + text);
    assert.equal(await talk.resume().text(), told + text);
    batch.released();
  });

live('ai_sdk: response headers sent early reach a resume, too',
  async (t) => {
    const s = await stage(t, { answer: (batch) => sse(says(batch)),
      hold: '20s grace=50ms', location: 'add_header '
        + 'Access-Control-Allow-Origin https://app.test always;' });
    const batch = new Batch(s);
    await batch.ask();
    const own = batch.continue(batch.results([0]));
    await own.head;
    await taken(give(batch, 1, { output: { n: 1 } }), 1);
    assert.match(await own.text(), /all of it/);
    const { headers } = await new Talk(s, batch.key).resume({
      headers: { origin: 'https://app.test' } }).head;
    assert.equal(headers['access-control-allow-origin'], 'https://app.test');
  });

live('s88: ai_sdk: the same before the first byte of the answer',
  async (t) => {
    const wait = gate();
    const s = await stage(t, { answer: async (batch) => {
      await wait;
      return sse(says(batch));
    } });
    const batch = new Batch(s);
    await batch.ask();
    const own = batch.continue(batch.results());
    await until(() => batch.upstream().length, 5000, 'the request');
    const other = back(s, batch);
    wait.open();
    const text = await own.text();
    assert.equal(await other, message(batch, batch.results()) + text);
  });

live('ai_sdk: merged results are in the message, not in siblings\' answers',
  async (t) => {
    const wait = gate();
    const s = await stage(t, { answer: (batch) =>
      sse([wait, ...says(batch)]) });
    const batch = new Batch(s, 3);
    await batch.ask();
    const answers = batch.ids.map((_, i) =>
      batch.continue(batch.results([i])));
    await until(() => batch.upstream().length, 5000, 'the request');
    wait.open();
    for (const answer of answers) {
      assert.doesNotMatch(await answer.text(), /tool-input-start/);
    }
    assert.equal(await back(s, batch),
      message(batch, batch.results()) + says(batch).join(''));
    batch.released();
  });

live('ai_sdk: a resume with a position gets no preamble', async (t) => {
  const s = await stage(t, { answer: (batch) => sse(says(batch)) });
  const batch = new Batch(s);
  await batch.ask();
  const own = batch.continue(batch.results());
  const text = await own.text();
  const id = (await own.head).headers['x-chat-stream'];
  assert.equal(await back(s, batch, { query: 'after=0' }), text);
  assert.equal(await back(s, batch, { last: `${id}-2` }),
    says(batch).slice(2).join(''));
  assert.equal(await back(s, batch, { query: `stream=${id}` }),
    message(batch, batch.results()) + text);
});

live('ai_sdk: an answer that begins a message has no preamble', async (t) => {
  const s = await stage(t, { answer: (batch) => sse(says(batch)) });
  const batch = new Batch(s);
  await batch.ask();
  assert.equal(await back(s, batch), batch.from.join(''));
  for (const more of [dialect.says('And then?'),
    { trigger: 'regenerate-message' }]) {
    const text = await batch.continue(batch.results(), { more }).text();
    assert.equal(await back(s, batch), text);
  }
});

live('ai_sdk: a message too long to be stored: nothing to resume',
  async (t) => {
    const s = await stage(t, { answer: (batch) => sse(says(batch)),
      location: 'chat_limits result=2k;' });
    const [short, long] = [new Batch(s, 3), new Batch(s, 3)];
    const results = (batch, size) => Object.fromEntries(batch.ids.map((id) =>
      [id, 'x'.repeat(size)]));
    for (const [batch, size] of [[short, 10], [long, 700]]) {
      await batch.ask();
      const own = batch.continue(results(batch, size));
      assert.equal(await own.text(), says(batch).join(''));
      const other = new Talk(s, batch.key).resume();
      assert.equal(await other.status, size === 10 ? 200 : 204);
      assert.equal(await other.text(), size === 10
        ? message(batch, results(batch, size)) + says(batch).join('') : '');
      assert.equal(await back(s, batch, { query: 'after=0' }),
        says(batch).join(''));
    }
  });

/* The same stream, with the current results of these calls. */
const since = (batch, results) => events(batch.from.join('')).flatMap(
  (event) => (event.type === 'tool-input-available'
    && event.toolCallId in results ? settled(batch.calls.find(({ id }) =>
      id === event.toolCallId), results[event.toolCallId]) : [event]))
  .map((event) => (event === '[DONE]' ? 'data: [DONE]\n\n' : data(event)))
  .join('');

live('ai_sdk: calls with external results run no tool', async (t) => {
  const wait = gate();
  const s = await stage(t);
  const ask = s.p.answer;
  const batch = new Batch(s, 3);
  s.p.answer = (request) => (request.answered.length ? ask(request)
    : sse([...batch.from.slice(0, 8), wait, ...batch.from.slice(8)]));
  const own = batch.ask();
  await until(async () => (await give(batch, 0, { output: { n: 1 } }))
    .status === 200, 5000, 'the call');
  const other = new Talk(s, batch.key).resume();
  await other.until(sees('tool-output-available'));
  wait.open();
  await own;
  const results = { [batch.ids[0]]: { n: 1 } };
  assert.equal(await other.text(), since(batch, results));
  await taken(give(batch, 2, { output: [2] }), 1);
  results[batch.ids[2]] = [2];
  assert.equal(await back(s, batch), since(batch, results));
  assert.equal(await back(s, batch, { query: 'after=0' }),
    since(batch, results));
});

live('ai_sdk: calls with results of a held request run no tool',
  async (t) => {
    const s = await stage(t);
    const calls = [{ id: 'call_1', name: 'weather', input: { city: 'Rome',
      why: 'x'.repeat(40000) } }, { id: 'call_2', name: 'river', input: {} }];
    const batch = new Batch(s, calls);
    await batch.ask();
    const held = batch.continue(batch.results([0]));
    const want = since(batch, batch.results([0]));
    await until(async () => await back(s, batch) === want, 5000,
      'the result');
    await batch.continue(batch.results([1])).text();
    await held.text();
    batch.released();
  });

live('ai_sdk: a result of an earlier step does not count for the same id',
  async (t) => {
    const wait = gate();
    const calls = [{ id: 'call_0', name: 'time', input: {} },
      { id: 'call_1', name: 'time', input: {} }];
    const next = dialect.calls({ calls, id: 'msg_1' });
    const s = await stage(t, { answer: () => sse([wait, ...next]),
      location: 'chat_replay_filter off;' });
    const batch = new Batch(s, calls);
    const held = (await batch.ask(), batch.continue(batch.results([0])));
    const settledHere = since(batch, batch.results([0]));
    await until(async () => await back(s, batch) === settledHere, 5000,
      'the result');
    const last = batch.continue(batch.results([1]));
    await until(() => batch.upstream().length, 5000, 'the request');
    const other = new Talk(s, batch.key).resume();
    assert.equal(await other.status, 200);
    wait.open();
    await Promise.all([last.text(), held.text()]);
    assert.equal(await other.text(), message(batch, batch.results())
      + next.join(''));
    assert.equal(await back(s, batch), message(batch, batch.results())
      + next.join(''));
  });

test('ai_sdk: the preamble is available on another node',
  { skip: unbuilt || (store !== 'redis' && 'only for Redis') },
  async (t) => {
    const wait = gate();
    const s = await resumeNodes(t, 'ai_sdk');
    const [one, two] = s.nodes;
    const batch = new Batch(s);
    s.p.answer = ({ answered }) => sse(answered.length
      ? [wait, ...says(batch)] : batch.from);
    await batch.ask({ node: one });
    const own = batch.continue(batch.results(), { node: one });
    assert.equal(await own.status, 200);
    const other = back(s, batch, { node: two });
    wait.open();
    assert.equal(await other, message(batch, batch.results())
      + await own.text());
  });

/* No event carries a decision: the client gets the approval request again. */
live('ai_sdk: a decision without an event is in the next requests',
  async (t) => {
    const [one, two] = newCalls(2);
    const asked = { ...one, approval: { id: 'ap1' } };
    const ran = { type: 'tool-output-available', toolCallId: one.id,
      output: 'ran' };
    const s = await stage(t, { answer: (batch) => {
      const all = dialect.calls({ calls: [two], id: batch.from.id });
      return sse([all[0], data(ran), ...all.slice(1)]);
    } });
    const batch = new Batch(s, [asked]);
    await batch.ask();
    const decided = batch.body({});
    Object.assign(decided.messages.at(-1).parts.at(-1), {
      state: 'approval-responded', approval: { id: 'ap1', approved: true } });
    await batch.post(decided).text();
    const told = events(await back(s, batch));
    assert.deepEqual(told.slice(2, 6), [...settled(asked).slice(0, 2),
      { type: 'tool-approval-request', toolCallId: one.id,
        approvalId: 'ap1' }, { type: 'finish-step' }]);
    /* The client's message after that. */
    const part = { type: `tool-${one.name}`, toolCallId: one.id,
      state: 'output-available', input: one.input, output: 'ran',
      approval: { id: 'ap1' } };
    const from = { id: batch.from.id, calls: [two] };
    const brings = dialect.continuation({ conversation: batch.conversation,
      from, results: { [two.id]: 1 }, before: [{ type: 'step-start' },
        part] });
    const asks = { ...brings, messages: [...brings.messages,
      ...dialect.says('And now?').after] };
    for (const body of [brings, asks]) {
      await batch.post(body).text();
      const { messages } = JSON.parse(s.p.requests.at(-1).raw);
      assert.deepEqual(messages[1].parts[1].approval,
        { id: 'ap1', approved: true }, body === asks ? 'asks' : 'brings');
    }
  });
