/*
 * state.test.mjs: what is known of a batch, by whom, for how long.
 *
 * Results that come twice, late, early, or for nobody; what an upstream's
 * failure, a client that leaves or a killed worker leaves behind; whose a
 * batch is; and the directives that say what is kept and how much of it.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { gate, pause, unbuilt, until } from './harness.mjs';
import { dialects, newCalls, newId } from './harness_dialects.mjs';
import { json, sse } from './harness_provider.mjs';
import { Batch, outputs, stage, told } from './harness_batch.mjs';

const keys = Object.keys(dialects);
const live = (name, play) => test(name, { skip: unbuilt }, play);
const say = { verdict: 'add_header X-Verdict $chat_verdict always;',
  pid: 'add_header X-Pid $pid always; proxy_set_header X-Pid $pid;' };

const verdict = async (answer) => (await answer.head).headers['x-verdict'];
const wordOf = async (answer) => (await told(answer)).word;

/* A request that waits, and nothing of its batch upstream. */
async function held(batch, answer, upstream = 0) {
  await answer.sent;
  await pause(100);
  assert.equal(answer.ended, false, `ended: ${answer.bytes}`);
  assert.equal(batch.upstream().length, upstream, 'released too early');
}

/* Posts results that stay joined, and is back when the client has left. */
async function leave(batch, results, options) {
  const { length } = batch.n.accessLog();
  const answer = batch.continue(results, options);
  await held(batch, answer, batch.upstream().length);
  answer.abort();
  await until(() => batch.n.accessLog().length > length, 5000, 'a 499');
}

/* What a body says of one call, as the provider got it. */
const said = ({ raw }, value) => String(raw).split(value).length - 1;
const partsOf = ({ body }, id) => body.messages.flatMap((m) => m.parts)
  .filter((part) => part.toolCallId === id);


live('s26: the same result twice', async (t) => {
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
      assert.equal(words.filter((word) => word === 'final').length, 1);
      const request = batch.released();
      assert.equal(said(request, batch.key), 2, String(request.raw));
    });
  }
});

live('s27: two tabs answer a call differently', async (t) => {
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

live('s29: a result that comes while its step is streaming', async (t) => {
  for (const key of keys) {
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

live('s30: a result of a call that nobody has seen', async (t) => {
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
    await t.test(`${key}: a chain is not managed then`, async (t2) => {
      const scene = await stage(t2, key, { location: say.verdict });
      const batch = new Batch(scene, 2);
      scene.p.issued.set(batch.from.id, batch.calls);
      const answer = batch.continue(batch.results([0]));
      assert.equal(await wordOf(answer), '400');
      assert.equal(await verdict(answer), 'unmanaged');
    });
  }
});

live('s32: a call that stands twice in a transcript', async (t) => {
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
    'output-available another'], 'what is answered stays');
});

live('s33 s100: a stale copy is completed, and told', async (t) => {
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

live('s34: an error is merged without a success beside it', async (t) => {
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

live('s35: a result for an unknown call releases nothing', async (t) => {
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

live('s45: after its time a batch is forgotten', async (t) => {
  for (const key of keys.filter((one) => !dialects[one].chained)) {
    await t.test(key, async (t2) => {
      const scene = await stage(t2, key, { hold: '400ms',
        location: 'chat_ttl 1s;' });
      const batch = new Batch(scene, 2);
      await batch.ask();
      await leave(batch, batch.results([0]));
      await pause(2200);
      const late = await wordOf(batch.continue(batch.results([1])));
      assert.equal(late, key === 'ai_sdk' ? 'bounce' : '409');
      assert.equal(batch.upstream().length, 0);
      const first = batch.continue(batch.results([0]));
      assert.equal(await wordOf(first), 'final');
      await scene.n.stop('SIGQUIT');
    });
  }
});

for (const [name, fail] of [
  ['s62: refused', () => json(503, { error: { message: 'busy' } })],
  ['s63: broken off', () => sse('data: {"x":1}\n\n', { end: 'reset' })]]) {
  live(`${name} by the upstream: results are kept`, async (t) => {
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

live('s65: a client gives up its turn: results are kept', async (t) => {
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

live('s107: another credential neither sees nor settles', async (t) => {
  const headers = { openai_chat: 'authorization', anthropic: 'x-api-key',
    openai_responses: 'authorization', ai_sdk: 'authorization',
    openai_responses_chained: 'authorization', anthropic_thread: 'x-api-key' };
  for (const key of keys) {
    await t.test(key, async (t2) => {
      const scene = await stage(t2, key, { workers: 2, hold: '2s',
        location: say.verdict });
      const batch = new Batch(scene, 2);
      const as = (who) => ({ headers: { [headers[key]]: `Bearer ${who}` } });
      await batch.ask(as('alice'));
      const first = batch.continue(batch.results([0]), as('alice'));
      await held(batch, first);
      const other = batch.continue(batch.results([1]), as('mallory'));
      if (dialects[key].chained) {
        assert.equal(await wordOf(other), '400');
        assert.equal(await verdict(other), 'unmanaged');
        assert.equal(first.ended, false);
      } else {
        await held(batch, other);
        other.abort();
      }
      const last = batch.continue(batch.results([1]), as('alice'));
      const words = await Promise.all([first, last].map(wordOf));
      assert.ok(words.includes('final'), `${words}`);
      assert.equal(scene.p.continuations().filter(({ refused }) => !refused)
        .length, 1);
    });
  }
});

live('chat_tenant: one user, two tokens', async (t) => {
  const scene = await stage(t, 'openai_chat', { workers: 2, hold: '2s',
    location: 'chat_tenant $http_x_user;' });
  const as = (user, token) => ({ headers: { 'x-user': user,
    authorization: `Bearer ${token}` } });
  const batch = new Batch(scene, 2);
  await batch.ask(as('alice', 'old'));
  await leave(batch, batch.results([0]), as('alice', 'old'));
  const other = batch.continue(batch.results([1]), as('bob', 'old'));
  await held(batch, other);
  other.abort();
  const last = batch.continue(batch.results([1]), as('alice', 'new'));
  assert.equal(await wordOf(last), 'final');
  batch.released();
});

const weak = (n) => Array.from({ length: n }, (_, i) => ({
  id: `functions.f:${i}`, name: `tool_${i}`, input: { i } }));
const mistral = (n) => Array.from({ length: n }, (_, i) => ({
  id: `D681PevK${i}`, name: `tool_${i}`, input: { i } }));

live('s95: weak ids without a conversation are not managed', async (t) => {
  for (const key of ['openai_chat', 'openai_responses', 'anthropic']) {
    for (const [name, make] of [['weak', weak], ['mistral', mistral]]) {
      await t.test(`${key}, ${name}`, async (t2) => {
        const scene = await stage(t2, key, { workers: 2,
          location: say.verdict });
        const one = new Batch(scene, make(2));
        const two = new Batch(scene, make(2));
        await one.ask();
        await two.ask();
        const first = one.continue(one.results([0]));
        assert.equal(await wordOf(first), '400');
        assert.equal(await verdict(first), 'unmanaged');
        const second = two.continue(two.results([1]));
        assert.equal(await wordOf(second), '400');
        assert.ok(!two.upstream()[0].raw.includes(one.key));
        assert.equal(await wordOf(two.continue(two.results())), 'final');
      });
    }
  }
});

live('chat_conversation: weak ids within a conversation', async (t) => {
  for (const key of ['openai_chat', 'openai_responses', 'anthropic']) {
    for (const [name, make] of [['weak', weak], ['mistral', mistral]]) {
      await t.test(`${key}, ${name}`, async (t2) => {
        const scene = await stage(t2, key, { workers: 2, hold: '2s',
          location: 'chat_conversation $http_x_conversation;' });
        const as = (c) => ({ headers: { 'x-conversation': c } });
        const one = new Batch(scene, make(2));
        const two = new Batch(scene, make(2));
        await one.ask(as('c1'));
        await two.ask(as('c2'));
        const first = one.continue(one.results([0]), as('c1'));
        await held(one, first);
        const other = two.continue(two.results([1]), as('c2'));
        await held(two, other);
        await held(one, first);
        const last = one.continue(one.results([1]), as('c1'));
        const words = [await wordOf(last), await wordOf(first)];
        assert.ok(words.includes('final'), `${words}`);
        const request = one.released();
        assert.ok(!request.raw.includes(two.key));
        other.abort();
      });
    }
  }
  await t.test('ai_sdk has its own', async (t2) => {
    const scene = await stage(t2, 'ai_sdk', { workers: 2 });
    const batch = new Batch(scene, weak(2));
    await batch.ask();
    await leave(batch, batch.results([0]));
    assert.equal(await wordOf(batch.continue(batch.results([1]))), 'final');
    batch.released();
  });
});

live('chat_tool: the first expression that matches', async (t) => {
  const named = (names) => newCalls(names.length)
    .map((call, i) => ({ ...call, name: names[i] }));
  const scene = await stage(t, 'openai_chat', { strict: false, workers: 2,
    location: `chat_tool ^run_me$ client;
      chat_tool "^run_(?!local)" provider;
      chat_tool (?i)^SEARCH provider;
      chat_tool ^search_here client;` });
  const passes = async (names, results) => {
    const batch = new Batch(scene, named(names));
    await batch.ask();
    assert.equal(await wordOf(batch.continue(batch.results(results))),
      'final', `${names}`);
    assert.equal(batch.upstream().length, 1);
  };
  await passes(['weather', 'run_far'], [0]);
  await passes(['weather', 'search_here'], [0]);
  for (const name of ['run_me', 'run_local', 'research']) {
    const batch = new Batch(scene, named(['weather', name]));
    await batch.ask();
    const first = batch.continue(batch.results([0]));
    await held(batch, first);
    assert.equal(await wordOf(batch.continue(batch.results([1]))), 'final');
    batch.released();
    await told(first);
  }
});

/* What is past a bound goes on as it is, and is called refused. */
async function refused(t, location, make, name = 'refused') {
  const scene = await stage(t, 'openai_chat', { strict: false,
    location: `${location} ${say.verdict}` });
  const batch = new Batch(scene, 3);
  await batch.ask();
  const body = JSON.stringify(make(batch));
  const answer = batch.post(body);
  assert.equal(await answer.status, 200);
  await answer.text();
  assert.equal(await verdict(answer), name);
  assert.equal(String(scene.p.requests.at(-1).raw), body);
  return { scene, batch };
}

live('the limits', async (t) => {
  await t.test('chat_max_calls', (t2) => refused(t2, 'chat_max_calls 2;',
    (batch) => batch.body(batch.results([0]))));
  await t.test('chat_max_body', (t2) => refused(t2, 'chat_max_body 300;',
    (batch) => batch.body(batch.results([0]))));
  await t.test('chat_max_body, chunked', async (t2) => {
    const scene = await stage(t2, 'openai_chat', { strict: false,
      location: `chat_max_body 300; ${say.verdict}` });
    const batch = new Batch(scene, 3);
    const answer = batch.continue(batch.results([0]), { chunked: true });
    await answer.text();
    assert.equal(await verdict(answer), 'refused');
    assert.equal(String(scene.p.requests[0].raw),
      JSON.stringify(batch.body(batch.results([0]))));
  });
  await t.test('chat_max_result: held, but not completed by it', async (t2) => {
    const scene = await stage(t2, 'openai_chat', { hold: '300ms',
      location: 'chat_max_result 100;' });
    const batch = new Batch(scene, 2);
    const [a, b] = batch.ids;
    await batch.ask();
    await leave(batch, { [a]: 'x'.repeat(200) });
    assert.equal(await wordOf(batch.continue({ [b]: 'y' })), '409');
    assert.equal(batch.upstream().length, 0);
    const whole = batch.continue({ [a]: 'x'.repeat(200), [b]: 'y' });
    assert.equal(await wordOf(whole), 'final');
    assert.match(scene.n.errorLog(), /chat_max_result/);
  });
  await t.test('chat_max_held', async (t2) => {
    const scene = await stage(t2, 'openai_chat', { strict: false,
      location: `chat_max_held 2; ${say.verdict}` });
    const batches = [1, 2, 3].map(() => new Batch(scene, 2));
    const first = batches.slice(0, 2).map((batch) =>
      batch.continue(batch.results([0])));
    await held(batches[0], first[0]);
    await held(batches[1], first[1]);
    const third = batches[2].continue(batches[2].results([0]));
    assert.equal(await wordOf(third), 'final');
    assert.equal(await verdict(third), 'refused');
    first[0].abort();
    await until(() => scene.n.accessLog().length === 2);
    const again = batches[2].continue(batches[2].results([0]));
    await held(batches[2], again, 1);
  });
  await t.test('chat_max_event: passes, its calls are not known',
    async (t2) => {
      const scene = await stage(t2, 'openai_chat', {
        location: 'chat_max_event 4k;' });
      const [one, two] = newCalls(2);
      const batch = new Batch(scene, [{ ...one,
        input: { text: 'x'.repeat(20000) } }, two]);
      await batch.ask();
      assert.equal(await wordOf(batch.continue(batch.results())), 'final');
      batch.released();
    });
});

live('chat_hold', async (t) => {
  await t.test('off: only observes', async (t2) => {
    const scene = await stage(t2, 'openai_chat', { hold: 'off',
      strict: false, location: say.verdict });
    const batch = new Batch(scene, 2);
    await batch.ask();
    const body = JSON.stringify(batch.body(batch.results([0])));
    const answer = batch.post(body);
    assert.equal(await wordOf(answer), 'final');
    assert.equal(await verdict(answer), 'held');
    assert.equal(String(batch.upstream()[0].raw), body);
  });
  for (const key of keys) {
    await t.test(`0: ${key}: an answer at once`, async (t2) => {
      const scene = await stage(t2, key, { hold: '0',
        location: say.verdict });
      const batch = new Batch(scene, 2);
      await batch.ask();
      const answer = batch.continue(batch.results([0]));
      assert.equal(await wordOf(answer), key === 'ai_sdk' ? 'bounce' : '409');
      assert.equal(await verdict(answer), 'bounced');
      const last = batch.continue(batch.results([1]));
      assert.equal(await wordOf(last), 'final');
      assert.equal(await verdict(last), 'passed');
      batch.released();
    });
  }
});

live('chat_dry_run: nothing changes', async (t) => {
  const scene = await stage(t, 'ai_sdk', { strict: false,
    location: `chat_dry_run on; ${say.verdict}` });
  const batch = new Batch(scene, 2);
  await batch.ask();
  const send = async (results, name) => {
    const body = JSON.stringify(batch.body(results));
    const answer = batch.post(body, { headers: {
      'accept-encoding': 'gzip' } });
    const text = await answer.text();
    assert.equal(await verdict(answer), name);
    const request = scene.p.requests.at(-1);
    assert.equal(String(request.raw), body);
    assert.equal(request.headers['accept-encoding'], 'gzip');
    assert.ok(!text.includes('tool-output'));
  };
  await send(batch.results([0]), 'held');
  await send(batch.results([1]), 'passed');
});

live('chat_siblings conflict', async (t) => {
  for (const key of keys) {
    await t.test(key, async (t2) => {
      const scene = await stage(t2, key, { workers: 2,
        location: `chat_siblings conflict; ${say.verdict}` });
      const batch = new Batch(scene, 2);
      await batch.ask();
      const both = [0, 1].map((i) => batch.continue(batch.results([i])));
      const ends = await Promise.all(both.map(told));
      assert.deepEqual(ends.map(({ word }) => word).sort(), ['409', 'final']);
      const { headers } = ends.find(({ word }) => word === '409');
      assert.equal(headers['x-verdict'], 'conflict');
      assert.equal(headers['x-should-retry'], 'false');
      batch.released();
    });
  }
});

/* A turn in words that leaves an unanswered call behind. */
const turn = (batch, results = {}) => {
  const words = 'something else';
  const after = batch.dialect.name === 'ai_sdk'
    ? [{ id: 'u9', role: 'user', parts: [{ type: 'text', text: words }] }]
    : [{ role: 'user', content: words }];
  return batch.body(results, batch.dialect.name === 'anthropic'
    ? { text: words } : { after });
};

live('chat_repair: a fresh turn gets what the store has', async (t) => {
  for (const key of keys) {
    await t.test(`settled: ${key}`, async (t2) => {
      const scene = await stage(t2, key, { workers: 2 });
      const batch = new Batch(scene, 2);
      await batch.ask();
      await leave(batch, batch.results([1]));
      const answer = batch.post(turn(batch, batch.results([0])));
      const end = await told(answer);
      assert.equal(end.word, 'final');
      const request = scene.p.requests.at(-1);
      assert.ok(!request.refused && request.raw.includes('something else'));
      assert.ok(request.raw.includes('"nr":1')
        || request.raw.includes('\\"nr\\":1'), String(request.raw));
      assert.ok(!end.text.includes('tool-output'), 'is told in no turn');
    });
    await t.test(`off: ${key}`, async (t2) => {
      const scene = await stage(t2, key, { workers: 2, strict: false,
        location: 'chat_repair off;' });
      const batch = new Batch(scene, 2);
      await batch.ask();
      await leave(batch, batch.results([1]));
      const body = JSON.stringify(turn(batch, batch.results([0])));
      await batch.post(body).text();
      assert.equal(String(scene.p.requests.at(-1).raw), body);
    });
  }
});

live('headers that vouch for the bytes of a body', async (t) => {
  const scene = await stage(t, 'openai_chat', { strict: false,
    location: say.verdict });
  for (const name of ['Digest', 'Content-Digest', 'Content-MD5', 'Signature',
    'X-Amz-Content-SHA256']) {
    await t.test(name, async () => {
      const options = { headers: { [name]: 'x' } };
      const batch = new Batch(scene, 2);
      await batch.ask();
      await leave(batch, batch.results([1]));
      for (const body of [batch.body(batch.results([0])), turn(batch,
        batch.results([0])), batch.body(batch.results())]) {
        const answer = batch.post(JSON.stringify(body), options);
        await answer.text();
        assert.equal(String(scene.p.requests.at(-1).raw),
          JSON.stringify(body));
        assert.equal(await verdict(answer), 'unmanaged');
      }
    });
  }
  await t.test('Content-Encoding', async () => {
    const batch = new Batch(scene, 2);
    const answer = batch.post(batch.body(batch.results([0])),
      { headers: { 'content-encoding': 'x' } });
    await answer.text();
    assert.equal(await verdict(answer), 'unmanaged');
  });
  await t.test('s94: X-Chat- headers of a client are blanked', async () => {
    const batch = new Batch(scene, 2);
    await batch.continue(batch.results(), { headers: {
      'x-chat-verdict': 'forged', 'x-chatty': 'kept' } }).text();
    const { headers } = scene.p.requests.at(-1);
    assert.ok(!headers['x-chat-verdict'], headers['x-chat-verdict']);
    assert.equal(headers['x-chatty'], 'kept');
  });
});

live('s106: arguments that a client has written anew', async (t) => {
  const scene = await stage(t, 'ai_sdk', { workers: 2 });
  const id = newId('call_');
  const sent = '{"n":1.0,"e":1e3,"big":12345678901234567,"s":"\\u00e9"}';
  const batch = new Batch(scene, [{ id, name: 'count',
    input: JSON.parse(sent) }]);
  const replay = [
    `data: {"type":"start","messageId":"${batch.from.id}"}\n\n`,
    'data: {"type":"start-step"}\n\n',
    `data: {"type":"tool-input-start","toolCallId":"${id}",`
      + '"toolName":"count"}\n\n',
    `data: {"type":"tool-input-available","toolCallId":"${id}",`
      + `"toolName":"count","input":${sent}}\n\n`];
  const rest = dialects.ai_sdk.final(`done ${batch.key}`).slice(2);
  scene.p.answer = () => sse([...replay, ...rest]);
  const text = await batch.continue({ [id]: 1 }).text();
  assert.equal(text, [...replay.slice(0, 2), ...rest].join(''));
  await until(() => scene.n.accessLog().length === 1);
  assert.equal(scene.n.accessLog()[0].replays_dropped, '1');
});

live('the variables', async (t) => {
  const scene = await stage(t, 'ai_sdk', { workers: 1, strict: false });
  const batch = new Batch(scene, 2);
  const line = async (count) => {
    await until(() => scene.n.accessLog().length === count);
    return scene.n.accessLog().at(-1);
  };
  await batch.ask();
  let log = await line(1);
  assert.equal(log.dialect, 'ai_sdk');
  assert.equal(log.conversation, batch.conversation);
  assert.equal(log.verdict, 'passed');
  assert.equal(log.turn_status, 'finished');
  assert.equal(log.calls, '2');
  assert.equal(log.settled, '0');
  assert.equal(log.attempt, '0');

  const first = batch.continue(batch.results([0]));
  await held(batch, first);
  await wordOf(batch.continue(batch.results([1])));
  await wordOf(first);
  await line(3);
  const [one, two] = scene.n.accessLog().slice(1)
    .sort((x, y) => y.verdict.localeCompare(x.verdict));
  assert.deepEqual([one.verdict, two.verdict].sort(), ['empty', 'released']
    .includes(two.verdict) ? [one.verdict, two.verdict].sort() : []);
  assert.match(one.batch, /^[0-9a-f]{32}$/);
  assert.equal(one.batch, two.batch);
  assert.ok([one, two].some(({ attempt }) => attempt === '1'));
  assert.ok([one, two].some(({ hold_time: time }) => Number(time) >= 0.09));

  for (const [end, options, status] of [
    ['data: {"type":"error","errorText":"x"}\n\n', {}, 'failed'],
    ['data: {"type":"start"}\n\n', {}, 'interrupted'],
    ['data: {"type":"start"}\n\n', { end: 'reset' }, 'interrupted']]) {
    const { length } = scene.n.accessLog();
    scene.p.answer = () => sse(end, options);
    await new Batch(scene, 1).post(dialects.ai_sdk.fresh())
      .text({ broken: true });
    log = await line(length + 1);
    assert.equal(log.turn_status, status);
  }
  scene.p.answer = () => sse('data: {"type":"start"}\n\n', { end: 'open' });
  const gone = batch.post(dialects.ai_sdk.fresh());
  await gone.until((text) => text.includes('start'));
  const { length } = scene.n.accessLog();
  gone.abort();
  log = await line(length + 1);
  assert.equal(log.turn_status, 'aborted');
});


/* Two locations of one zone: requests to /fill are never held. */
function zone(t) {
  return stage(t, 'openai_chat', { workers: 2, store: 'shm:1m', hold: '20s',
    strict: false, server: `location /fill {
      chat openai_chat; chat_hold 0; proxy_pass http://provider; }` });
}

const big = (bytes) => 'x'.repeat(bytes);

live('a full zone: idle batches go, a held one stays', async (t) => {
  const scene = await zone(t);
  const batch = new Batch(scene, 2);
  const [a, b] = batch.ids;
  await batch.ask();
  const first = batch.continue({ [a]: big(3000) });
  await held(batch, first);
  const fill = async (filler, i) => {
    const { path } = filler.dialect;
    filler.dialect = { ...filler.dialect, path: '/fill' };
    const answer = filler.continue({ [filler.ids[i]]: big(3000) });
    await answer.text();
    filler.dialect = { ...filler.dialect, path };
    return answer.status;
  };
  const fillers = Array.from({ length: 500 }, () => new Batch(scene, 2));
  for (let i = 0; i < fillers.length; i += 20) {
    const statuses = await Promise.all(fillers.slice(i, i + 20)
      .map((filler) => fill(filler, 0)));
    assert.ok(statuses.every((status) => status === 409), `${statuses}`);
  }
  assert.equal(await fill(fillers.at(-1), 1), 200, 'the newest is known');
  assert.equal(await fill(fillers[0], 1), 409, 'the oldest is not');
  assert.equal(first.ended, false);
  const words = await Promise.all([first, batch.continue({ [b]: 1 })]
    .map(wordOf));
  assert.ok(words.includes('final'), `${words}`);
  batch.released();
  assert.equal(scene.n.errorLog().includes('is full'), false);
});

live('a zone full of held batches takes on no more', async (t) => {
  const scene = await zone(t);
  const batches = Array.from({ length: 120 }, () => new Batch(scene, 2));
  const answers = [];
  for (let i = 0; i < batches.length; i += 20) {
    const some = batches.slice(i, i + 20).map((batch) =>
      batch.continue({ [batch.ids[0]]: big(12000) }));
    await Promise.all(some.map(({ sent }) => sent));
    answers.push(...some);
  }
  await until(() => scene.n.errorLog().includes('is full'));
  await until(() => scene.n.accessLog().length > 20);
  /* No room for the batch, or none for what would wake its request. */
  assert.ok(scene.n.accessLog().every(({ verdict: what }) =>
    ['bypass', 'refused'].includes(what)));
  const holding = batches.filter((_, i) => !answers[i].ended);
  assert.ok(holding.length > 20, `${holding.length}`);

  await t.test('those that are held can be released', async () => {
    const batch = holding[0];
    const first = answers[batches.indexOf(batch)];
    const words = await Promise.all([first,
      batch.continue({ [batch.ids[1]]: 1 })].map(wordOf));
    assert.ok(words.includes('final'), `${words}`);
    batch.released();
  });
  assert.equal(scene.n.errorLog().split('is full').length, 2,
    'one line a minute');
  await t.test('when they have gone, there is room', async () => {
    answers.forEach((answer) => answer.abort());
    await until(() => scene.n.accessLog().length >= batches.length);
    const batch = new Batch(scene, 2);
    const first = batch.continue({ [batch.ids[0]]: big(12000) });
    await held(batch, first);
    const last = batch.continue({ [batch.ids[1]]: 1 });
    assert.ok((await Promise.all([first, last].map(wordOf)))
      .includes('final'));
    batch.released();
  });
});


/* Only this worker accepts while work() runs. */
async function only(n, pid, work) {
  const others = n.workers().filter((one) => one !== pid);
  try {
    for (const one of others) {
      process.kill(one, 'SIGSTOP');
      await until(() => /^State:\s+T/m.test(
        readFileSync(`/proc/${one}/status`, 'utf8')));
    }
    return await work();
  } finally {
    others.forEach((one) => process.kill(one, 'SIGCONT'));
  }
}

const pidOf = async (answer) => Number((await answer.head).headers['x-pid']);

live('s50: the worker of a held request is killed', async (t) => {
  for (const key of keys) {
    await t.test(key, async (t2) => {
      const scene = await stage(t2, key, { workers: 2,
        location: `chat_grace 50ms; ${say.pid}` });
      const batch = new Batch(scene, 2);
      await batch.ask();
      const first = batch.continue(batch.results([0]));
      await scene.n.kill(await pidOf(first));
      assert.equal(await wordOf(first), 'broken');
      assert.equal(await wordOf(batch.continue(batch.results([1]))), 'final');
      batch.released();
    });
  }
});

live('s103: the worker of the claimant is killed', async (t) => {
  for (const key of keys) {
    for (const [name, grace] of [['silent', '10s'], ['early', '50ms']]) {
      await t.test(`${key}, its waiters are ${name}`, async (t2) => {
        const scene = await stage(t2, key, { workers: 2, hold: '20s',
          location: `chat_grace ${grace}; ${say.pid}` });
        const batch = new Batch(scene, 3);
        await batch.ask();
        const { answer } = scene.p;
        scene.p.answer = () => gate(); /* it never answers */
        const [here, there] = scene.n.workers();
        const waiter = await only(scene.n, here, async () => {
          const one = batch.continue(batch.results([0]));
          await one.sent;
          await pause(100);
          return one;
        });
        await leave(batch, batch.results([1]));
        /* The waiter's worker is stopped, so that the other one claims. */
        await only(scene.n, there, async () => {
          batch.continue(batch.results([2])).text().catch(() => {});
          const request = await scene.p.arrival(2);
          assert.equal(Number(request.headers['x-pid']), there);
        });
        await pause(100);
        assert.equal(waiter.ended, false);
        await scene.n.kill(there);
        const end = await told(waiter);
        assert.equal(end.word, name === 'early' ? 'error' : '502', end.text);
        assert.ok(end.text.includes('producer_lost')
          || end.text.includes('broke off'), end.text);
        batch.released(1);

        scene.p.answer = answer;
        const next = batch.continue(batch.results([2]));
        assert.equal(await wordOf(next), 'final');
        batch.released(2);
      });
    }
  }
});

