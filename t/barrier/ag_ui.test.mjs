/*
 * ag_ui.test.mjs: what only AG-UI has: results injected into a run, interrupts
 * answered in parts and beside calls, tools that the agent runs itself, and
 * snapshots.
 */
import assert from 'node:assert/strict';
import { gate, post, until } from '../lib/harness.mjs';
import { handled } from '../lib/handled.mjs';
import { dialects, newCalls, newId } from '../lib/dialects.mjs';
import { Batch, outputs, stage, told } from '../lib/batch.mjs';
import { held, live, say, verdict } from '../lib/hold.mjs';
import { clear, give, openStage, show, taken } from '../lib/external.mjs';
import { sse } from '../lib/provider.mjs';
import { data } from '../lib/dialects/wire.mjs';

const { ag_ui: agUi, ag_ui_resume: agUiResume } = dialects;

live('s37 s100: ag_ui: merged results come after RUN_STARTED', async (t) => {
  const scene = await stage(t, 'ag_ui', { workers: 2 });
  const usual = scene.p.answer;
  const first = (events) => (request) => (request.answered.length
    ? sse([...events, ...agUi.final('done x').slice(1)]) : usual(request));
  const starts = {
    'as it is': [agUi.run('RUN_STARTED', 'r')],
    'with its input, in pieces': [': hold\n\n',
      ...agUi.run('RUN_STARTED', 'r', { input: { x: 'y'.repeat(50000) } })
        .match(/[^]{1,9000}/g)],
    'behind a field': [`event: x\n${agUi.run('RUN_STARTED', 'r')}`],
  };
  for (const [name, events] of Object.entries(starts)) {
    await t.test(name, async () => {
      scene.p.answer = first(events);
      const batch = new Batch(scene, 3);
      await batch.ask();
      const answers = [0, 1].map((i) => batch.continue(batch.results([i])));
      await Promise.all(answers.map((answer) => held(batch, answer)));
      answers.push(batch.continue(batch.results([2])));
      const ends = await Promise.all(answers.map(told));
      for (const [i, end] of ends.entries()) {
        assert.equal(end.word, 'final', end.text);
        assert.deepEqual(outputs(end), batch.ids.filter((_, k) => k !== i));
        assert.deepEqual(end.types.slice(0, 4), ['RUN_STARTED',
          'TOOL_CALL_RESULT', 'TOOL_CALL_RESULT', 'TEXT_MESSAGE_START']);
        const [, one] = end.list;
        assert.equal(one.messageId, `result-${one.toolCallId}`);
        assert.equal(one.role, 'tool');
        assert.equal(typeof one.content, 'string');
      }
      batch.released();
    });
  }

  await t.test('a run begins with an error: nothing is injected', async () => {
    const error = data({ type: 'RUN_ERROR', message: 'RUN_STARTED' });
    scene.p.answer = (request) => (request.answered.length
      ? sse([error]) : usual(request));
    const batch = new Batch(scene, 2);
    await batch.ask();
    const answer = batch.continue(batch.results([0]));
    await held(batch, answer);
    const last = batch.continue(batch.results([1]));
    assert.equal(await last.text(), error);
    assert.ok((await told(answer)).word !== 'final');
  });
});

live('s40: ag_ui: chat_results decides interrupts', async (t) => {
  const scene = await openStage(t, 'ag_ui_resume');
  for (const [approved, reason] of [[true], [false, 'not now']]) {
    const batch = new Batch(scene, 2);
    batch.from = Object.assign([agUi.run('RUN_STARTED', 'r'),
      agUi.run('RUN_FINISHED', 'r', { outcome: { type: 'interrupt',
        interrupts: batch.ids.map((id, i) => ({ id, reason: 'tool_call',
          ...(i && { toolCallId: 'call_1' }) })) } })],
    { id: 'r', calls: batch.calls });
    await batch.ask();
    const answer = batch.continue(batch.results([0]));
    await held(batch, answer);
    const { body } = await show(batch);
    assert.deepEqual(body.calls.map(({ kind }) => kind),
      ['client', 'approval']);
    assert.equal((await give(batch, 0, { approved })).status, 400);
    await taken(give(batch, 1, { approved, reason }), 1);
    assert.equal((await told(answer)).word, 'final');
    assert.deepEqual(batch.released().body.resume.at(-1), {
      interruptId: batch.ids[1], status: 'resolved',
      payload: { approved, ...(reason && { reason }) } });
  }
});

/* A run that asks for calls and is interrupted as well. */
function both(scene) {
  const batch = new Batch(scene, 2);
  const [call, other] = newCalls(2);
  batch.from = Object.assign([agUi.run('RUN_STARTED', batch.key),
    ...agUi.call(call, 'm1'), ...agUi.call(other, 'm1'),
    ...agUiResume.calls({ calls: batch.calls, id: batch.key }).slice(1)],
  { id: batch.key, calls: batch.calls });
  const from = { id: batch.key, calls: [call, other] };
  const run = (results, resume) => ({
    ...agUi.continuation({ conversation: batch.conversation, from, results }),
    ...(resume && { resume: resume.map((i) => ({ interruptId: batch.ids[i],
      status: 'resolved', payload: i })) }) });
  return { batch, call, other, run };
}

live('s39: ag_ui: a run has calls and interrupts', async (t) => {
  const scene = await stage(t, 'ag_ui_resume', { workers: 2,
    location: say.verdict });

  await t.test('both interrupts, and the calls\' stored results',
    async () => {
      const { batch, call, other, run } = both(scene);
      await batch.ask();
      const calls = batch.post(run({ [other.id]: 'two' }));
      await held(batch, calls);
      const first = batch.post(run({ [call.id]: 'one' }, [1]));
      await held(batch, first);
      const last = batch.post(run({ [call.id]: 'one' }, [0]));
      assert.equal((await told(last)).word, 'final');
      assert.equal((await told(first)).word, 'final');
      calls.abort();
      const [{ body, refused }, ...more] = batch.upstream();
      assert.equal(more.length, 0);
      assert.equal(refused, false);
      assert.deepEqual(body.resume.map(({ payload }) => payload), [0, 1]);
      assert.deepEqual(body.messages.filter(({ role }) => role === 'tool')
        .map(({ toolCallId }) => toolCallId), [call.id, other.id]);
      assert.deepEqual(outputs(await told(last)), [other.id]);
    });

  await t.test('the same weak ids in the next run', async () => {
    const batch = new Batch(scene, [{ id: 'i1', name: 'a' },
      { id: 'i2', name: 'b' }]);
    const again = agUiResume.calls({ calls: batch.calls });
    const usual = scene.p.answer;
    scene.p.answer = (request) => (batch.upstream().length === 1
      ? sse(again) : usual(request));
    await batch.ask();
    for (const [number, answers] of [[1, again.join('')], [2, null]]) {
      const first = batch.continue(batch.results([1]));
      await handled(batch, [first]);
      assert.equal(batch.upstream().length, number - 1);
      const [one, two] = await Promise.all([first,
        batch.continue(batch.results([0]))].map((answer) => answer.text()));
      assert.ok(answers ? one.includes(answers) && two.includes(answers)
        : one.includes('done') && two.includes('done'), `${one} ${two}`);
      assert.equal(batch.upstream().length, number);
    }
    scene.p.answer = usual;
  });

  await t.test('hold expired: an error; a retry completes it', async () => {
    const short = await stage(t, 'ag_ui_resume', { hold: '300ms' });
    const batch = new Batch(short, 2);
    await batch.ask();
    const end = await told(batch.continue(batch.results([0])));
    assert.deepEqual(end.types, ['RUN_ERROR']);
    assert.equal(end.list[0].code, 'batch_incomplete');
    assert.equal((await told(batch.continue(batch.results([1])))).word,
      'final');
    batch.released();
  });
});

live('s43: ag_ui: the agent\'s own calls are no members', async (t) => {
  const scene = await stage(t, 'ag_ui', { workers: 2, strict: false,
    location: say.verdict });
  const tools = [{ name: 'tool_0', description: '', parameters: {} },
    { name: 'tool_2', description: '', parameters: {} }];
  const batch = new Batch(scene, 3);
  const of = (body) => ({ ...body, tools });
  await batch.post(of(agUi.fresh({ conversation: batch.conversation })))
    .text();
  const first = batch.post(of(batch.body(batch.results([0]))));
  await held(batch, first);
  const last = batch.post(of(batch.body(batch.results([2]))));
  const words = (await Promise.all([first, last].map(told)))
    .map(({ word }) => word);
  assert.deepEqual(words, ['final', 'final']);
  assert.deepEqual(batch.upstream().map(({ answered }) => answered),
    [[batch.ids[0], batch.ids[2]]]);
});

live('s29: ag_ui: a snapshot adds calls and results', async (t) => {
  const scene = await stage(t, 'ag_ui', { workers: 2 });
  const batch = new Batch(scene, 2);
  const body = batch.body({});
  const snapshot = data({ type: 'MESSAGES_SNAPSHOT',
    messages: body.messages });
  batch.from = Object.assign([agUi.run('RUN_STARTED', batch.from.id),
    snapshot, agUi.run('RUN_FINISHED', batch.from.id)],
  { id: batch.from.id, calls: batch.calls });
  const seal = gate();
  const usual = scene.p.answer;
  scene.p.answer = (request) => (request.answered.length ? usual(request)
    : sse(Object.assign([...batch.from.slice(0, 2), seal,
      ...batch.from.slice(2)], { id: batch.from.id, calls: batch.calls })));
  const asking = batch.post(agUi.fresh({ conversation: batch.conversation }));
  await asking.until((text) => text.includes(snapshot));
  const early = batch.continue(batch.results());
  await held(batch, early);
  seal.open();
  assert.equal(await asking.text(), batch.from.join(''));
  assert.equal((await told(early)).word, 'final');
  batch.released();

  /* All workers know the results of a later snapshot. */
  const lenient = await stage(t, 'ag_ui', { workers: 2, strict: false });
  const { answer } = lenient.p;
  const other = new Batch(lenient, 2);
  await other.ask();
  lenient.p.answer = () => sse([agUi.run('RUN_STARTED', 'r'),
    data({ type: 'MESSAGES_SNAPSHOT',
      messages: other.body(other.results([1])).messages }),
    agUi.run('RUN_FINISHED', 'r')]);
  await other.post(other.body({})).text();
  lenient.p.answer = answer;
  await until(async () => {
    const it = await told(other.continue(other.results([0])));
    return it.word === 'final';
  });
  assert.deepEqual(other.upstream().at(-1).answered, other.ids);
});

live('s55: ag_ui: interrupts are cleared', async (t) => {
  const scene = await openStage(t, 'ag_ui_resume');
  const batch = new Batch(scene, 2);
  await batch.ask();
  const answer = batch.continue(batch.results([0]));
  await held(batch, answer);
  assert.equal((await clear(batch)).status, 200);
  const { word } = await told(answer);
  assert.ok(['409', 'error'].includes(word), word);
  assert.equal(batch.upstream().length, 0);
});

live('ag_ui: a body of another dialect on the same path passes', async (t) => {
  const scene = await stage(t, 'ag_ui', { chat: 'auto', strict: false,
    location: say.verdict });
  for (const body of [{ threadId: 't', runId: 'r' },
    { threadId: 1, runId: 'r', messages: [] },
    { runId: 'r', messages: [{ role: 'user', content: 'x' }] }]) {
    const answer = post(scene.n.port, '/agent', body,
      { authorization: newId('') });
    await answer.text();
    assert.equal(await verdict(answer), 'none');
  }
  const batch = new Batch(scene, 2);
  await batch.ask();
  const answer = batch.continue(batch.results());
  await answer.text();
  assert.equal(await verdict(answer), 'passed');
});
