/*
 * results.test.mjs: chat_results: external results join the open batch of
 * their conversation. They release its held requests, or are merged into the
 * next one.
 */
import assert from 'node:assert/strict';
import { gate, patience, pause, post, until } from '../lib/harness.mjs';
import { Batch, outputs, told } from '../lib/batch.mjs';
import { dialects, newCalls, newId } from '../lib/dialects.mjs';
import {
  each, held, leave, live, missed, several, verdict, wordOf,
} from '../lib/hold.mjs';
import { nodesStage } from '../lib/nodes.mjs';
import {
  asking, clear, formOf, give, of, openStage, outside, send, sent, show, taken,
} from '../lib/external.mjs';
import { sse } from '../lib/provider.mjs';
import { redis } from '../lib/redis/redis.mjs';

live('s48: external results release a held request, once', async (t) => {
  await each(t, async (t2, key) => {
    const scene = await openStage(t2, key);
    const form = formOf(scene);
    for (const value of ['caf\u00e9 "x"\n', { a: [1.50, null, '\u2028'] },
      [{ type: 'text', n: 1 }], false, 12e3, null]) {
      const batch = new Batch(scene, 3);
      await batch.ask();
      const answer = batch.continue(batch.results([1]));
      await held(batch, answer);
      await taken(give(batch, 0, { output: value }), 1);
      await held(batch, answer);
      await taken(give(batch, 2, { errorText: 'no "luck"' }), 1);
      assert.equal(await wordOf(answer), 'final');
      const request = batch.released();
      form.output(sent(request, batch.ids[0]), value);
      form.error(sent(request, batch.ids[2]), 'no "luck"');
    }
  });
}, several);

live('s48: all results in one list, over HTTP/2 and in chunks', async (t) => {
  await each(t, async (t2, key) => {
    const scene = await openStage(t2, key);
    for (const options of [{ http2: true }, { chunked: true }]) {
      const batch = new Batch(scene, 4);
      await batch.ask();
      const answers = [0, 0, 0].map(() => batch.continue(batch.results([3])));
      await held(batch, answers[2]);
      const list = [0, 1, 2].map((at) => of(batch, at, { output: { at } }));
      await taken(send(batch, [...list, list[0]], options), 3, 1);
      const words = await Promise.all(answers.map(wordOf));
      assert.equal(words.filter((word) => word === 'final').length, 1,
        `${words}`);
      batch.released();
    }
  });
}, several);

/*
 * The store takes 1,040 facts of a key here. Batches of one millisecond have
 * no order, and the last one must be the newest.
 */
live('a conversation of 1,100 batches: the newest one gets its results',
  async (t) => {
    const scene = await openStage(t, 'openai_chat',
      { server: `${outside.server} chat_limits calls=2;` });
    const key = newId('');
    let batch;
    for (let i = 0; i < 1100; i++) {
      if (i === 1099) {
        await pause(5);
      }
      batch = Object.assign(new Batch(scene, 1), { key });
      scene.batches.set(key, batch);
      await batch.ask();
    }
    await taken(give(batch, 0, { output: 1 }), 1);
  });

live('s49: no request held: the next one goes upstream at once', async (t) => {
  await each(t, async (t2, key) => {
    const scene = await openStage(t2, key);
    const batch = new Batch(scene, 2);
    await batch.ask();
    await taken(give(batch, 0, { output: { from: 'outside' } }), 1);
    await pause(50);
    assert.equal(batch.upstream().length, 0);
    const answer = batch.continue(batch.results([1]));
    const it = await told(answer);
    assert.equal(it.word, 'final');
    assert.equal(await verdict(answer), 'passed');
    const request = batch.released();
    formOf(scene).output(sent(request, batch.ids[0]), { from: 'outside' });
    assert.deepEqual(outputs(it),
      ['ai_sdk', 'ag_ui'].includes(key) ? [batch.ids[0]] : []);
  });
}, several);

live('s49 s60: ai_sdk: a request without a result of its own', async (t) => {
  const scene = await openStage(t, 'ai_sdk');
  for (const decided of [false, true]) {
    const [one, two] = newCalls(2);
    const batch = new Batch(scene, [one, { ...two,
      ...(decided && { approval: { id: 'ap1' } }) }]);
    await batch.ask();
    await taken(give(batch, 0, { output: { nr: 0 } }), 1);
    /* One result is missing: the request goes upstream unchanged. */
    const early = batch.continue({});
    assert.equal(await wordOf(early), 'error');
    assert.equal(await verdict(early), 'passed');
    assert.ok(!String(scene.p.requests.at(-1).raw).includes('"nr"'));
    await taken(give(batch, 1, decided ? { approved: true }
      : { errorText: 'no' }), 1);
    const tabs = [batch.continue({}), batch.continue({})];
    const ends = await Promise.all(tabs.map(told));
    assert.deepEqual(ends.map(({ word }) => word).sort(),
      ['empty', 'final']);
    assert.deepEqual(outputs(ends.find(({ word }) => word === 'final')),
      decided ? [one.id] : batch.ids);
    batch.released();
    assert.equal(await wordOf(batch.continue({})), 'empty');
  }
});

live('s26 s27: several results of a call: the first counts', async (t) => {
  await each(t, async (t2, key) => {
    const scene = await openStage(t2, key);
    const batch = new Batch(scene, 3);
    await batch.ask();
    await leave(batch, batch.results([2]));
    const race = await Promise.all(Array.from({ length: 8 }, (_, i) =>
      give(batch, 0, { output: `try ${i}` })));
    assert.equal(race.reduce((n, { body }) => n + body.applied, 0), 1);
    assert.equal(race.reduce((n, { body }) => n + body.repeated, 0), 7);
    const first = race.findIndex(({ body }) => body.applied === 1);
    await taken(give(batch, 0, { errorText: 'too late' }), 0, 1);
    await taken(give(batch, 2, { output: 'too late' }), 0, 1);
    assert.equal(await wordOf(batch.continue(batch.results([1]))), 'final');
    const raw = String(batch.released().raw);
    assert.ok(raw.includes(`try ${first}`), raw);
    assert.ok(!raw.includes('too late'), raw);
    /*
     * The batch is finished: no result is applied, no request goes upstream.
     */
    await taken(give(batch, 1, { output: 'too late' }), 0, 1);
    await pause(50);
    batch.released();
  });
}, several);

live('s26: results that came with a new user message count', async (t) => {
  await each(t, async (t2, key) => {
    if (/^(ag_ui_resume|.*_conversation)$/.test(key)) {
      return;
    }
    const scene = await openStage(t2, key);
    const batch = new Batch(scene, 2);
    await batch.ask();
    await told(batch.continue(batch.results(),
      { more: dialects[key].says('and hurry') }));
    assert.deepEqual((await show(batch)).body.missing, []);
    await taken(give(batch, 0, { output: 'too late' }), 0, 1);
  });
}, several);

live('s29: a result before its step ends: applied', async (t) => {
  await each(t, async (t2, key) => {
    if (dialects[key].interrupts) {
      return;
    }
    const scene = await openStage(t2, key);
    const batch = new Batch(scene, 2);
    const seal = gate();
    const { answer } = scene.p;
    /* A chain's id, and so its calls, are known when the stream ends. */
    const late = key === 'gemini' ? 1 : 2;
    scene.p.answer = (request) => (request.answered.length
      ? answer(request) : sse(Object.assign([...batch.from.slice(0, -late),
        seal, ...batch.from.slice(-late)],
      { id: batch.from.id, calls: batch.calls })));
    const asked = batch.post(scene.dialect.fresh({
      conversation: batch.conversation }));
    await asked.until((text) => text.includes(batch.ids[1]));
    await taken(give(batch, 0, { output: 'early' }), 1);
    seal.open();
    await asked.text();
    assert.equal(await wordOf(batch.continue(batch.results([1]))), 'final');
    assert.match(String(batch.released().raw), /early/);
  });
}, several);

/* A part of an AI SDK transcript with an approval request. */
const part = ({ body }, id) => body.messages.flatMap((m) => m.parts)
  .find((one) => one.toolCallId === id);

live('s48: openai_chat: calls with interleaved arguments', async (t) => {
  const batch = new Batch(await openStage(t, 'openai_chat'), 2);
  const [role, open, start, rest, open2, start2, rest2, ...end] = batch.from;
  batch.from.splice(0, Infinity, role, open, open2, start, start2, rest, rest2,
    ...end);
  await batch.ask();
  await taken(give(batch, 0, { output: 1 }), 1);
  assert.equal((await told(batch.continue(batch.results([1])))).word, 'final');
  batch.released();
});

live('s40: ai_sdk: an external decision', async (t) => {
  const scene = await openStage(t, 'ai_sdk');
  for (const [approved, reason] of [[true], [false, 'not \u00e9 now']]) {
    for (const holding of [true, false]) {
      const [one, two] = newCalls(2);
      const batch = new Batch(scene, [one, { ...two,
        approval: { id: 'ap1' } }]);
      await batch.ask();
      const answer = holding && batch.continue(batch.results([0]));
      if (holding) {
        await held(batch, answer);
      }
      const { body } = await show(batch);
      assert.deepEqual(body.calls.map(({ kind }) => kind),
        ['client', 'approval']);
      await taken(give(batch, 1, { approved, reason }), 1);
      await taken(give(batch, 1, { approved: !approved }), 0, 1);
      const last = answer || batch.continue(batch.results([0]));
      assert.equal(await wordOf(last), 'final');
      const got = part(batch.released(), two.id);
      assert.equal(got.state, 'approval-responded');
      assert.deepEqual(got.approval, { id: 'ap1', approved,
        ...(reason && { reason }) });
      assert.deepEqual((await show(batch)).body.calls.map((call) =>
        call.approved), [undefined, approved]);
    }
  }
  const batch = new Batch(scene, 2);
  await batch.ask();
  const { status, body } = await give(batch, 0, { approved: true });
  assert.equal(status, 400);
  assert.equal(body.error.field, 'approved');
});

live('s40: openai_responses: an external decision', async (t) => {
  const scene = await openStage(t, 'openai_responses');
  for (const chained of [true, false]) {
    for (const [approve, reason] of [[true], [false, 'no']]) {
      const ids = [newId('mcpr_'), newId('mcpr_')];
      const batch = new Batch(scene, ids.map((id) => ({ id })));
      batch.from = asking(ids);
      const hello = { role: 'user', content: 'hi' };
      await batch.post({ model: 'm', stream: true, input: [hello] }).text();
      const answer = batch.post({ model: 'm', stream: true,
        ...(chained && { previous_response_id: batch.from.id }),
        input: [...chained ? [] : [hello, ...ids.map((id) => ({ id,
          type: 'mcp_approval_request', name: 'send', server_label: 'mail',
          arguments: '{}' }))],
        { type: 'mcp_approval_response', approval_request_id: ids[0],
          approve: true }] });
      await held(batch, answer);
      const refused = await give(batch, 1, { output: 1 });
      assert.equal(refused.status, 400);
      assert.equal(refused.body.error.field, 'output');
      await taken(give(batch, 1, { approved: approve, reason }), 1);
      assert.equal(await wordOf(answer), 'final');
      assert.deepEqual(batch.released().body.input.at(-1), {
        type: 'mcp_approval_response', approval_request_id: ids[1], approve,
        ...(reason && { reason }) });
    }
  }
});

live('s122: ai_sdk: a stored decision overrides the page\'s', async (t) => {
  const scene = await openStage(t, 'ai_sdk');
  for (const [approved, reason] of [[true], [false, 'not now'], [false]]) {
    for (const early of [true, false]) {
      const [one, two] = newCalls(2);
      const batch = new Batch(scene, [one, { ...two,
        approval: { id: 'ap1' } }]);
      await batch.ask();
      await taken(give(batch, 1, { approved, reason }), 1);
      const body = batch.body(batch.results(early ? [] : [0]));
      const mine = body.messages.at(-1).parts.find((it) =>
        it.toolCallId === two.id);
      mine.state = 'approval-responded';
      mine.approval = { id: 'ap1', approved: !approved, reason: 'my own' };
      const answer = batch.post(body);
      if (early) {
        await held(batch, answer);
        await taken(give(batch, 0, { output: 1 }), 1);
      }
      assert.equal(await wordOf(answer), 'final');
      const got = part(batch.released(), two.id);
      assert.equal(got.state, 'approval-responded');
      assert.deepEqual(got.approval,
        { id: 'ap1', approved, reason: reason ?? '' });
    }
  }
});

live('s122: openai_responses: a stored decision overrides the body',
  async (t) => {
    const scene = await openStage(t, 'openai_responses');
    for (const chained of [true, false]) {
      for (const [approve, reason] of [[true], [false, 'no']]) {
        const ids = [newId('mcpr_'), newId('mcpr_')];
        const batch = new Batch(scene, ids.map((id) => ({ id })));
        batch.from = asking(ids);
        const hello = { role: 'user', content: 'hi' };
        await batch.post({ model: 'm', stream: true, input: [hello] }).text();
        await taken(give(batch, 1, { approved: approve, reason }), 1);
        const said = (id, yes, why) => ({ type: 'mcp_approval_response',
          approval_request_id: id, approve: yes,
          ...(why !== undefined && { reason: why }) });
        const answer = batch.post({ model: 'm', stream: true,
          ...(chained && { previous_response_id: batch.from.id }),
          input: [...chained ? [] : [hello, ...ids.map((id) => ({ id,
            type: 'mcp_approval_request', name: 'send', server_label: 'mail',
            arguments: '{}' }))],
          said(ids[0], true), said(ids[1], !approve, 'my own')] });
        assert.equal(await wordOf(answer), 'final');
        assert.deepEqual(batch.released().body.input.slice(-2),
          [said(ids[0], true), said(ids[1], approve, reason ?? null)]);
      }
    }
  });

live('s122: ai_sdk: the same beside a new message',
  async (t) => {
    const scene = await openStage(t, 'ai_sdk', { strict: false });
    for (const [approved, results] of [[true, [0]], [false, [0]],
      [false, []]]) {
      const [one, two] = newCalls(2);
      const batch = new Batch(scene, [one, { ...two,
        approval: { id: 'ap1' } }]);
      await batch.ask();
      await taken(give(batch, 1, { approved, reason: 'so' }), 1);
      const body = batch.body(batch.results(results),
        dialects.ai_sdk.says('and now?'));
      const mine = body.messages.flatMap(({ parts }) => parts)
        .find((it) => it.toolCallId === two.id);
      mine.state = 'approval-responded';
      mine.approval = { id: 'ap1', approved: !approved, reason: 'my own' };
      await batch.post(body).text();
      const sent = scene.p.requests.at(-1);
      assert.match(String(sent.raw), /and now/);
      assert.deepEqual(part(sent, two.id).approval,
        { id: 'ap1', approved, reason: 'so' });
    }
  });

live('s122: openai_responses: the same beside a new message, nothing else',
  async (t) => {
    const scene = await openStage(t, 'openai_responses', { strict: false });
    for (const way of ['stateless', 'chained', 'conversation']) {
      for (const both of [true, false]) {
        const ids = [newId('mcpr_'), newId('mcpr_')];
        const batch = new Batch(scene, ids.map((id) => ({ id })));
        batch.from = asking(ids);
        const hello = { role: 'user', content: 'hi' };
        const base = { model: 'm', stream: true,
          ...(way === 'conversation' && { conversation: batch.key }) };
        await batch.post({ ...base, input: [hello] }).text();
        await taken(give(batch, 1, { approved: false, reason: 'no' }), 1);
        const said = (id, approve, why) => ({ type: 'mcp_approval_response',
          approval_request_id: id, approve, ...(why && { reason: why }) });
        const answers = (yes, why) => [...both ? [said(ids[0], true)] : [],
          said(ids[1], yes, why), { role: 'user', content: 'and now?' }];
        await batch.post({ ...base,
          ...(way === 'chained' && { previous_response_id: batch.from.id }),
          input: [...way !== 'stateless' ? [] : [hello, ...ids.map((id) => (
            { id, type: 'mcp_approval_request', name: 'send',
              server_label: 'mail', arguments: '{}' }))],
          ...answers(true, 'my own')] }).text();
        const { body } = scene.p.requests.at(-1);
        const right = answers(false, 'no');
        assert.deepEqual(body.input.slice(-right.length), right, way);
        assert.equal(body.input.filter(({ type }) =>
          type === 'mcp_approval_response').length, right.length - 1, way);
      }
    }
  });

live('s55: a conversation is cleared: its held requests end', async (t) => {
  await each(t, async (t2, key) => {
    const scene = await openStage(t2, key);
    const batch = new Batch(scene, 2);
    await batch.ask();
    const answer = batch.continue(batch.results([0]));
    await held(batch, answer);
    const { status, body: told } = await clear(batch);
    assert.equal(status, 200);
    assert.deepEqual(told, { cleared: batch.ids });
    const ends = ['ai_sdk', 'ag_ui'].includes(key) ? 'empty' : '409';
    assert.equal(await wordOf(answer), ends);
    const late = await give(batch, 1, { output: 'late' });
    assert.equal(late.status, 404);
    assert.equal(late.body.error.field, 'toolCallId');
    assert.deepEqual((await clear(batch)).body, { cleared: [] });
    const { body } = await show(batch);
    assert.equal(body.open, false);
    assert.equal(body.cleared, true);
    assert.deepEqual(body.calls, []);
    /* The other result is not sent upstream alone. */
    const again = batch.continue(batch.results([1]));
    assert.equal(await wordOf(again), ends);
    assert.equal(batch.upstream().length, 0);
  });
}, several);

live('a finished batch is not cleared', async (t) => {
  const scene = await openStage(t, 'openai_chat');
  const batch = new Batch(scene, 2);
  await batch.ask();
  await batch.continue(batch.results()).text();
  await until(async () => !(await show(batch)).body.open);
  assert.deepEqual((await clear(batch)).body, { cleared: [] });
  const { body } = await show(batch);
  assert.equal(body.cleared, false);
  assert.deepEqual(body.attempt, { number: 1, status: 200,
    state: 'finished' });
});

live('the open batch is shown', async (t) => {
  await each(t, async (t2, key) => {
    const scene = await openStage(t2, key);
    const batch = new Batch(scene, 3);
    await batch.ask();
    await leave(batch, { [batch.ids[1]]: 'secret' });
    await taken(give(batch, 2, { errorText: 'secret' }), 1);
    const { status, headers, body, text } = await show(batch);
    assert.equal(status, 200);
    assert.equal(headers['content-type'], 'application/json');
    assert.ok(!/secret/.test(text), text);
    const { batch: name, since, ...rest } = body;
    assert.match(name, /^[0-9a-f]{16}$/);
    assert.ok(Math.abs(since - Date.now()) < 60000);
    const [a, b, c] = batch.ids;
    const call = (toolCallId, outcome) => ({ toolCallId, kind: 'client',
      settled: !!outcome, ...(outcome && { outcome }) });
    assert.deepEqual(rest, { conversation: batch.key,
      dialect: scene.dialect.name, open: true, sealed: true, broken: false,
      superseded: false, cleared: false,
      calls: [call(a), call(b, 'ok'), call(c, 'error')], missing: [a],
      attempt: null });
    /* Each step is a batch of its own: the newest is shown. */
    scene.p.options.strict = false;
    batch.calls = newCalls(1, scene.dialect.prefix);
    batch.from = scene.dialect.calls({ calls: batch.calls });
    scene.p.answer = () => sse(batch.from);
    await batch.post(scene.dialect.fresh({
      conversation: batch.conversation })).text();
    assert.deepEqual((await show(batch)).body.missing,
      [batch.calls[0].id]);
  });
}, several);

live('external results complete a batch without a stream', async (t) => {
  await each(t, async (t2, key) => {
    const scene = await openStage(t2, key);
    if (scene.dialect.chained) {
      return;
    }
    const batch = new Batch(scene, 2);
    const answer = batch.continue(batch.results([0]));
    await held(batch, answer);
    await taken(give(batch, 1, { output: 'from outside' }), 1);
    assert.equal(await wordOf(answer), 'final');
    batch.released();
  });
}, several);

live('an external result is merged into the next user turn', async (t) => {
  await each(t, async (t2, key) => {
    const scene = await openStage(t2, key);
    if (scene.dialect.chained) {
      return;
    }
    const batch = new Batch(scene, 1);
    await batch.ask();
    await taken(give(batch, 0, { output: 'in time' }), 1);
    const words = await told(batch.continue({},
      { more: scene.dialect.says('and?') }));
    assert.equal(words.word, 'final');
    const [request] = batch.upstream();
    assert.equal(request.refused, false);
    assert.match(String(request.raw), /in time/);
  });
}, several);

live('the AI SDK\'s own id is the conversation', async (t) => {
  const scene = await openStage(t, 'ai_sdk', { server: `
    chat_tenant $http_authorization;
    location = /results { chat_results; }` });
  const batch = new Batch(scene, 2);
  await batch.ask();
  const answer = batch.continue(batch.results([0]));
  await held(batch, answer);
  await taken(send(batch, { conversation: batch.conversation,
    toolCallId: batch.ids[1], output: 1 }), 1);
  assert.equal(await wordOf(answer), 'final');
});

live('a client that disconnects at once', async (t) => {
  const scene = await openStage(t, 'anthropic');
  const batch = new Batch(scene, 40);
  await batch.ask();
  for (let i = 0; i < 40; i++) {
    const one = post(scene.n.port, '/results', of(batch, i, { output: i }));
    await one.sent;
    await pause(i); /* from before the result is read to after it is stored */
    one.abort();
  }
  await until(async () => {
    const { body } = await show(batch);
    return body.missing.length < 40;
  });
});

live('s48: results at one node release requests at another', async (t) => {
  await each(t, async (t2, key) => {
    const scene = await nodesStage(t2, key, outside);
    const [one, two] = scene.nodes;
    for (let i = 0; i < 5; i++) {
      const batch = new Batch(scene, 3);
      await batch.ask({ node: one });
      const answers = [batch.continue(batch.results([0]), { node: one }),
        batch.continue(batch.results([0]), { node: two })];
      await Promise.all(answers.map((answer) => held(batch, answer)));
      await Promise.all([taken(give(batch, 1, { output: 1 }, { node: one }),
        1), taken(give(batch, 2, { output: 2 }, { node: two }), 1)]);
      const words = await Promise.all(answers.map(wordOf));
      assert.equal(words.filter((word) => word === 'final').length, 1,
        `${words}`);
      batch.released();
    }
  });
}, several);

live('results at one node for calls of another node\'s stream', async (t) => {
  const scene = await nodesStage(t, 'openai_chat', outside);
  const [one, two] = scene.nodes;
  for (let i = 0; i < 20; i++) {
    const batch = new Batch(scene, 1);
    const asked = batch.post(scene.dialect.fresh(), { node: one });
    await asked.until((text) => text.includes('tool_calls"}'));
    await taken(give(batch, 0, { output: i }, { node: two }), 1);
    await asked.text();
  }
});

/* The number of workers that have reconnected to the store, plus one. */
const found = ({ n }) =>
  n.errorLog().split(/the store \S+ is available again/).length;

live('Redis is unavailable: no result is acknowledged', async (t) => {
  const r = await redis(t, { appendonly: true });
  const scene = await openStage(t, 'openai_chat', {
    store: `${r.url()} timeout=${250 * patience}ms`, connects: true });
  const batch = new Batch(scene, 2);
  await batch.ask();
  await leave(batch, batch.results([0]));
  await r.stop();
  for (const asked of [() => give(batch, 1, { output: 1 }),
    () => show(batch), () => clear(batch)]) {
    const { status, headers, body } = await asked();
    assert.equal(status, 503);
    assert.equal(headers['retry-after'], '1');
    assert.equal(body.error.code, 'store_unavailable');
  }
  const before = found(scene);
  await r.start();
  await until(() => found(scene) >= before + 2, 10000, 'both workers');
  await taken(give(batch, 1, { output: 'again' }), 1);
  assert.equal(await wordOf(batch.continue(batch.results([0]))), 'final');
  batch.released();
});

live('s64: the store loses its data: held requests go on', async (t) => {
  for (const [name, lose] of [
    ['flushed', (r) => r.command('FLUSHALL')],
    ['restarted', async (r) => {
      await r.stop();
      await r.start();
    }]]) {
    const r = await redis(t);
    const scene = await openStage(t, 'openai_chat', {
      store: `${r.url()} timeout=${250 * patience}ms`, connects: true });
    const batch = new Batch(scene, 2);
    await batch.ask();
    let answer = batch.continue(batch.results([0]));
    await held(batch, answer);
    await lose(r);
    await missed(scene);
    if (answer.ended) {
      /* A restart of 0.7 s has ended the hold: the client retries. */
      assert.equal(name, 'restarted', String(answer.bytes));
      assert.equal(await wordOf(answer), '503');
      answer = batch.continue(batch.results([0]));
    }
    await until(async () => (await show(batch)).status === 200);
    assert.equal(answer.ended, false, String(answer.bytes));
    assert.equal(batch.upstream().length, 0);
    await taken(give(batch, 1, { output: 'after all' }), 1);
    assert.equal(await wordOf(answer), 'final');
    batch.released();
  }
});

/* A stream without its seal may have more calls: nothing is claimed for it. */
live('a request without results passes while the stream runs, and holds up '
  + 'no continuation', async (t) => {
  const [seal, later] = [gate(), gate()];
  const scene = await openStage(t, 'ai_sdk', { strict: false });
  const batch = new Batch(scene, 2);
  const results = batch.results();
  const usual = scene.p.answer;
  const answers = [sse([...batch.from.slice(0, -3), seal,
    ...batch.from.slice(-3)]), sse([later, ...batch.dialect.final('early')])];
  scene.p.answer = (request) => (request.answered.length
    ? usual(request) : answers.shift());
  const turn = batch.post(batch.dialect.fresh());
  await turn.until((text) => text.includes(batch.ids[1])
    && text.split('tool-input-available').length === 3);
  for (const i of [0, 1]) {
    await taken(give(batch, i, { output: results[batch.ids[i]] }), 1);
  }
  const early = batch.continue({});
  assert.equal(await verdict(early), 'passed');
  seal.open();
  await turn.text();
  const answer = wordOf(batch.continue(batch.results([0])));
  assert.equal(await Promise.race([answer, pause(3000 * patience)]), 'final');
  assert.equal(early.ended, false);
  later.open();
  await early.text();
});
