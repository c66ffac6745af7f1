/*
 * settings.test.mjs: the limits, chat_hold, chat_dry_run, chat_repair, the
 * variables, and requests that pass unchanged.
 */
import assert from 'node:assert/strict';
import { pause, post, until } from '../lib/harness.mjs';
import { dialects, newCalls, newId } from '../lib/dialects.mjs';
import { sse } from '../lib/provider.mjs';
import { Batch, stage, told } from '../lib/batch.mjs';
import {
  held, leave, live, only, say, verdict, wordOf,
} from '../lib/hold.mjs';

const keys = Object.keys(dialects);

/* A body above a limit goes upstream unchanged; its verdict is refused. */
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
  await t.test('calls=', (t2) => refused(t2, 'chat_limits calls=2;',
    (batch) => batch.body(batch.results([0]))));
  await t.test('body=', (t2) => refused(t2, 'chat_limits body=300;',
    (batch) => batch.body(batch.results([0]))));
  await t.test('body=, chunked', async (t2) => {
    const scene = await stage(t2, 'openai_chat', { strict: false,
      location: `chat_limits body=300; ${say.verdict}` });
    const batch = new Batch(scene, 3);
    const answer = batch.continue(batch.results([0]), { chunked: true });
    await answer.text();
    assert.equal(await verdict(answer), 'refused');
    assert.equal(String(scene.p.requests[0].raw),
      JSON.stringify(batch.body(batch.results([0]))));
  });
  await t.test('result=: held, its result not stored', async (t2) => {
    const scene = await stage(t2, 'openai_chat', { hold: '2s',
      location: 'chat_limits result=100;' });
    const batch = new Batch(scene, 2);
    const [a, b] = batch.ids;
    await batch.ask();
    await leave(batch, { [a]: 'x'.repeat(200) });
    assert.equal(await wordOf(batch.continue({ [b]: 'y' })), '409');
    assert.equal(batch.upstream().length, 0);
    const whole = batch.continue({ [a]: 'x'.repeat(200), [b]: 'y' });
    assert.equal(await wordOf(whole), 'final');
    assert.match(scene.n.errorLog(), /"result=" of "chat_limits"/);
  });
  await t.test('held=', async (t2) => {
    const scene = await stage(t2, 'openai_chat', { strict: false,
      location: `chat_limits held=2; ${say.verdict}` });
    const batches = [1, 2, 3].map(() => new Batch(scene, 2));
    const first = batches.slice(0, 2).map((batch) =>
      batch.continue(batch.results([0])));
    await held(batches[0], first[0]);
    await held(batches[1], first[1]);
    const third = batches[2].continue(batches[2].results([0]));
    assert.equal(await wordOf(third), '503');
    assert.equal(await verdict(third), 'refused');
    first[0].abort();
    await until(() => scene.n.accessLog().length === 2);
    const again = batches[2].continue(batches[2].results([0]));
    await held(batches[2], again);
  });
  await t.test('event=: passes, its calls are unknown',
    async (t2) => {
      const scene = await stage(t2, 'openai_chat', {
        location: 'chat_limits event=4k;' });
      const [one, two] = newCalls(2);
      const batch = new Batch(scene, [{ ...one,
        input: { text: 'x'.repeat(20000) } }, two]);
      await batch.ask();
      assert.equal(await wordOf(batch.continue(batch.results())), 'final');
      batch.released();
    });
  await t.test('event=: an answer may end beyond it',
    async (t2) => {
      const scene = await stage(t2, 'openai_responses', {
        location: 'chat_limits event=4k;' });
      const parts = scene.dialect.final('x'.repeat(20000));
      scene.p.answer = () => sse(parts);
      const text = await post(scene.n.port, scene.dialect.path,
        scene.dialect.fresh()).text();
      assert.equal(text, parts.join(''));
      const line = await until(() => scene.n.accessLog()[0]);
      assert.equal(line.turn_status, 'finished');
    });
});

live('chat_hold', async (t) => {
  await t.test('off: observes only', async (t2) => {
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
      assert.equal(await wordOf(answer), dialects[key].bounces ?? '409');
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

live('$chat_stream: with chat_record on, the id in X-Chat-Stream',
  async (t) => {
    const scene = await stage(t, 'openai_chat', { location: `chat_record on;
      chat_conversation $http_x_batch;` });
    const batch = new Batch(scene, 2);
    const answer = batch.post(batch.dialect.fresh());
    await answer.text();
    const id = (await answer.head).headers['x-chat-stream'];
    assert.match(id, /^[0-9a-f]{16}$/);
    await until(() => scene.n.accessLog().length === 1);
    assert.equal(scene.n.accessLog()[0].stream, id);
  });

/* A text turn after an open call. */
const turn = (batch, results = {}) =>
  batch.body(results, batch.dialect.says('something else'));

live('chat_repair: a fresh turn gets the stored results', async (t) => {
  for (const key of keys.filter((one) => !dialects[one].interrupts)) {
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
      assert.ok(!end.text.includes('tool-output'), 'events were injected');
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

live('headers with a digest of the body', async (t) => {
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
      'x-chat-verdict': 'forged', 'x-chat-': 'forged',
      'x-chatty': 'kept' } }).text();
    const { headers } = scene.p.requests.at(-1);
    assert.ok(!headers['x-chat-verdict'], headers['x-chat-verdict']);
    assert.ok(!headers['x-chat-'], headers['x-chat-']);
    assert.equal(headers['x-chatty'], 'kept');
  });
});

live('s106: arguments in a client\'s own notation', async (t) => {
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
  assert.equal(log.stream, batch.from.id);

  const first = batch.continue(batch.results([0]));
  await held(batch, first);
  await pause(100); /* $chat_hold_time counts them */
  await wordOf(batch.continue(batch.results([1])));
  await wordOf(first);
  await line(3);
  const [one, two] = scene.n.accessLog().slice(1)
    .sort((x, y) => y.verdict.localeCompare(x.verdict));
  /* The last request may be the one that goes upstream without a hold. */
  assert.match(`${two.verdict} ${one.verdict}`,
    /^attached (passed|released)$/);
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
