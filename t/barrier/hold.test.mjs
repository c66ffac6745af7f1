/*
 * hold.test.mjs: which requests are held, and how a hold ends.
 *
 * Membership (errors, dynamic tools, approvals, provider's own calls, older
 * steps and messages), results before the seal, new user turns, clients that
 * disconnect, and the time limit of a hold.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gate, patience, pause, unbuilt, until } from '../lib/harness.mjs';
import { handled } from '../lib/handled.mjs';
import { dialects, newCalls } from '../lib/dialects.mjs';
import { sse } from '../lib/provider.mjs';
import { Batch, outputs, seals, stage, told } from '../lib/batch.mjs';
import { isRaw } from '../lib/ends.mjs';

const keys = Object.keys(dialects);
const live = (name, play) => test(name, { skip: unbuilt }, play);

/* Checks that nothing goes upstream while results are missing. */
async function held(batch, answer) {
  await handled(batch, [answer]);
  assert.equal(batch.upstream().length, 0, 'released too early');
  assert.equal(answer.ended, false, `ended: ${answer.bytes}`);
}

for (const key of keys) {
  live(`s36 s38: ${key}: a fast and a slow result: sent once`, async (t) => {
    const scene = await stage(t, key, { workers: 2 });
    for (const failed of [false, true]) {
      await t.test(failed ? 'errors' : 'results', async () => {
        const batch = new Batch(scene, 2);
        await batch.ask();
        const [a, b] = batch.ids.map((id) => ({ [id]: failed
          ? new Error(`boom ${id}`) : { ok: id } }));
        const fast = batch.continue(a);
        await held(batch, fast);
        const slow = batch.continue(b);
        const words = (await Promise.all([fast, slow].map(told)))
          .map(({ word }) => word);
        assert.ok(words.includes('final'), `${words}`);
        const { raw } = batch.released();
        if (failed) {
          assert.ok(batch.ids.every((id) => raw.includes(`boom ${id}`)));
        }
      });
    }
  });
}

/* A tree of such a result would have more values than a body may have. */
for (const key of keys) {
  live(`${key}: a result of 300,000 values: held for the other`, async (t) => {
    const batch = new Batch(await stage(t, key), 2);
    await batch.ask();
    const [a, b] = batch.ids;
    const first = batch.continue({ [a]: Array(300000).fill(1) });
    await held(batch, first);
    const second = batch.continue({ [b]: 'short' });
    await Promise.all([first, second].map(told));
    const { raw } = batch.released();
    assert.ok(raw.includes('1,'.repeat(299999)) && raw.includes('short'));
  });
}

live('ai_sdk: which calls are members', async (t) => {
  const dialect = dialects.ai_sdk;
  const scene = await stage(t, 'ai_sdk', { workers: 2, lenient: true });
  const release = async (batch, results, more) => {
    const answer = batch.continue(results, { more });
    assert.equal((await told(answer)).word, 'final');
    batch.released();
  };

  /* Either request may go upstream; the other one follows it. */
  const meet = async (batch, first, results) => {
    const words = await Promise.all([first, batch.continue(results)]
      .map(async (answer) => (await told(answer)).word));
    assert.deepEqual(words, ['final', 'final']);
    batch.released();
  };

  await t.test('s39: a settled dynamic tool and a pending one', async () => {
    const [one, two] = newCalls(2);
    const batch = new Batch(scene, [{ ...one, dynamic: true }, two]);
    await batch.ask();
    const first = batch.continue({ [one.id]: 1 });
    await held(batch, first);
    await meet(batch, first, { [two.id]: 2 });
  });

  await t.test('s40: an approval beside a settled result', async () => {
    const [one, two] = newCalls(2);
    const approval = { id: 'ap1' };
    const batch = new Batch(scene, [one, { ...two, approval }]);
    await batch.ask();
    const first = batch.continue({ [one.id]: 1 });
    await held(batch, first);
    batch.from.calls = [one, { ...two, approval: { ...approval,
      approved: true } }];
    await meet(batch, first, {});
  });

  await t.test('s41: an unanswered call in an older message', async () => {
    const batch = new Batch(scene, 1);
    const older = dialect.calls({ calls: newCalls(1) });
    await batch.ask();
    const history = dialect.continuation({ conversation: 'x', from: older,
      results: {} }).messages;
    await release(batch, batch.results(), { history });
  });

  await t.test('s42: an unanswered call in an older step', async () => {
    const batch = new Batch(scene, 1);
    const older = dialect.calls({ calls: newCalls(1) });
    await batch.ask();
    const before = dialect.continuation({ conversation: 'x', from: older,
      results: {} }).messages.at(-1).parts;
    await release(batch, batch.results(), { before });
  });

  await t.test('s43: a call that the provider executes', async () => {
    const [one, two] = newCalls(2);
    const batch = new Batch(scene, [one, { ...two, providerExecuted: true }]);
    await batch.ask();
    assert.equal((await told(batch.continue({ [one.id]: 1 }))).word, 'final');
    assert.equal(batch.upstream().length, 1);
  });

  await t.test('s60: pending calls without any result pass', async () => {
    const batch = new Batch(scene, 2);
    await batch.ask();
    assert.equal((await told(batch.continue({}))).word, 'error');
    assert.ok(scene.p.requests.at(-1).refused);
  });
});

live('s44: a person decides after ten minutes', async (t) => {
  /* Many short holds stand for the ten minutes. */
  const scene = await stage(t, 'ai_sdk', { workers: 2, hold: '300ms' });
  const batch = new Batch(scene, 2);
  await batch.ask();
  for (let i = 0; i < 4; i++) {
    const { word } = await told(batch.continue(batch.results([0])));
    assert.equal(word, 'bounce');
    assert.equal(batch.upstream().length, 0);
  }
  assert.equal((await told(batch.continue(batch.results()))).word, 'final');
  batch.released();
});

for (const key of keys) {
  live(`s45: ${key}: the client of a held request disconnects`, async (t) => {
    const scene = await stage(t, key);
    const batch = new Batch(scene, 2);
    await batch.ask();
    const gone = batch.continue(batch.results([0]));
    await held(batch, gone);
    gone.abort();
    await until(() => scene.n.accessLog().some(({ status }) =>
      status === '499'));
    assert.equal(batch.upstream().length, 0);

    await t.test('its result stays stored', async () => {
      const answer = batch.continue(batch.results([1]));
      assert.equal((await told(answer)).word, 'final');
      batch.released();
    });
    /* A worker that holds nothing exits at once; stop() bounds the wait. */
    await scene.n.stop('SIGQUIT');
  });
}

for (const key of keys.filter((one) => !dialects[one].interrupts)) {
  live(`s46: ${key}: all results come before the stream ends`, async (t) => {
    const scene = await stage(t, key, { workers: 2 });
    const batch = new Batch(scene, 2);
    const seal = gate();
    const { from } = batch;
    const tail = from.findIndex((event) => seals.test(event));
    const { answer } = scene.p;
    scene.p.answer = (request) => (request.answered.length ? answer(request)
      : sse(Object.assign([...from.slice(0, tail), seal, ...from.slice(tail)],
        { id: from.id, calls: from.calls })));
    const asking = batch.post(
      batch.dialect.fresh({ conversation: batch.conversation }));
    await asking.until((text) => text.includes(from[tail - 1]));
    const first = batch.continue(batch.results([0]));
    const second = batch.continue(batch.results([1]));
    await held(batch, first);
    await held(batch, second);
    seal.open();
    assert.equal(await asking.text(), from.join(''));
    const words = (await Promise.all([first, second].map(told)))
      .map(({ word }) => word);
    assert.ok(words.every((word) => word === 'final'), `${words}`);
    batch.released();
  });
}

for (const key of keys.filter((one) => !dialects[one].chained)) {
  live(`s47: ${key}: a body with a call missing is not merged`, async (t) => {
    const scene = await stage(t, key, { workers: 2 });
    const batch = new Batch(scene, 2);
    const { from, dialect } = batch;
    const [one] = batch.calls;
    const more = gate();
    /* Up to the first event of the second call. */
    const second = from.findIndex((event) =>
      event.includes(batch.ids[1]) && !event.includes('completed"'));
    const { answer } = scene.p;
    scene.p.answer = (request) => (request.answered.length ? answer(request)
      : sse(Object.assign([...from.slice(0, second), more,
        ...from.slice(second)], { id: from.id, calls: from.calls })));
    const asking = batch.post(
      dialect.fresh({ conversation: batch.conversation }));
    await asking.until((text) => text.includes(from[second - 1]));
    const early = batch.post(dialect.continuation({
      conversation: batch.conversation, results: { [one.id]: 1 },
      from: { id: from.id, calls: [one] } }));
    await held(batch, early);
    more.open();
    await asking.text();
    const { word } = await told(early);
    assert.equal(word, dialects[key].bounces ?? '409');
    assert.equal(batch.upstream().length, 0);

    await t.test('the next request has the call', async () => {
      const answer2 = batch.continue(batch.results([1]));
      assert.equal((await told(answer2)).word, 'final');
      batch.released();
    });
  });
}

for (const key of keys.filter((one) => !dialects[one].interrupts)) {
  live(`s56: ${key}: open batch: a new user text goes upstream`, async (t) => {
    const scene = await stage(t, key, { workers: 2, strict: false });
    const batch = new Batch(scene, 2);
    await batch.ask();
    const first = batch.continue(batch.results([0]));
    await held(batch, first);
    const turn = batch.continue({},
      { more: batch.dialect.says('leave it') });
    await turn.text();
    assert.equal(await turn.status, 200);
    const { raw } = scene.p.requests.find((request) =>
      request.raw.includes('leave it'));
    assert.ok(raw, 'the user turn did not go upstream');

    const left = await told(first);
    const late = await told(batch.continue(batch.results([1])));
    const refused = dialects[key].apps ? 'empty' : '409';
    /*
     * The body contains the first result, so the late one completes the batch.
     */
    const kept = key === 'openai_responses_conversation';
    assert.equal(left.word, refused, left.text);
    assert.equal(late.word, kept ? 'final' : refused, late.text);
    const sent = batch.upstream().filter((one) =>
      !one.raw.includes('leave it'));
    assert.deepEqual(sent.map(({ answered }) => answered),
      kept ? [[batch.ids[1]]] : []);
  });
}

for (const key of keys) {
  live(`s58: ${key}: a hold expires`, async (t) => {
    const auto = key === 'ai_sdk';
    const scene = await stage(t, key, { hold: auto ? 'auto' : '400ms' });
    const batch = new Batch(scene, 3);
    await batch.ask();
    const start = performance.now();
    const other = batch.continue(batch.results([1]));
    const end = await told(batch.continue(batch.results([0])));
    const took = performance.now() - start;
    assert.equal(batch.upstream().length, 0);
    const { bounces } = dialects[key];
    if (auto) {
      assert.ok(took > 400 && took < 6000 * patience, `${took} ms`);
    }
    if (bounces) {
      assert.equal(end.word, bounces, end.text);
      assert.deepEqual(outputs(end),
        bounces === 'error' ? [] : [batch.ids[1]]);
    } else {
      assert.equal(end.word, '409', end.text);
      assert.ok(Number(end.headers['retry-after']) > 0);
      assert.ok(end.text.includes('batch_incomplete'), end.text);
      assert.ok(end.text.includes(batch.ids[2]), end.text);
      assert.ok(!end.text.includes(batch.ids[0]), end.text);
    }
    await told(other);
    const last = batch.continue(batch.results([2]));
    assert.equal((await told(last)).word, 'final');
    batch.released();
  });
}

live('s58: ai_sdk, auto: a batch of 4 s: a hold of a tenth', async (t) => {
  const scene = await stage(t, 'ai_sdk', { hold: 'auto' });
  const batch = new Batch(scene, 2);
  await batch.ask();
  await pause(4000);
  await told(batch.continue(batch.results([0])));
  const { hold_time: time } = await until(() =>
    scene.n.accessLog().find(({ verdict }) => verdict === 'bounced'));
  assert.ok(Number(time) >= 0.4 && Number(time) < 3.5, `${time} s`);
});

live('s58: after the grace a refusal is an SSE event', async (t) => {
  for (const key of keys) {
    await t.test(key, async (t2) => {
      const scene = await stage(t2, key,
        { hold: '1s grace=100ms heartbeat=100ms' });
      const batch = new Batch(scene, 2);
      await batch.ask();
      const answer = batch.continue(batch.results([0]));
      await answer.until((text) => /^:[^\n]*\n\n:[^\n]*\n\n/.test(text));
      const end = await told(answer);
      const { bounces = 'error' } = dialects[key];
      assert.equal(end.word, bounces, end.text);
      if (bounces === 'error') {
        assert.ok(end.text.includes('batch_incomplete'), end.text);
      }
      assert.equal(!!end.broke, isRaw(key), end.text);
      assert.equal(batch.upstream().length, 0);
    });
  }
});

live('s61: a hold survives a reload', async (t) => {
  const scene = await stage(t, 'openai_chat', { workers: 2 });
  const batch = new Batch(scene, 2);
  await batch.ask();
  const first = batch.continue(batch.results([0]));
  await held(batch, first);
  const old = scene.n.workers();
  await scene.n.reload();
  await held(batch, first);
  const second = batch.continue(batch.results([1]));
  const words = (await Promise.all([first, second].map(told)))
    .map(({ word }) => word);
  assert.ok(words.every((word) => word === 'final'), `${words}`);
  batch.released();
  await until(() => !scene.n.workers().some((pid) => old.includes(pid)), 5000,
    'the exit of the old workers, which are idle');
});
