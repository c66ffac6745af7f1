/*
 * results_input.test.mjs: requests that chat_results refuses: malformed
 * bodies, other methods, other tenants.
 */
import assert from 'node:assert/strict';
import { get, nginxTest, post } from '../lib/harness.mjs';
import { Batch } from '../lib/batch.mjs';
import { held, live, wordOf } from '../lib/hold.mjs';
import {
  answered, clear, give, of, openStage, send, show, taken,
} from '../lib/external.mjs';

/* A batch with a held request: no refused result may release it. */
async function waiting(t, options, key = 'openai_chat') {
  const scene = await openStage(t, key, options);
  const batch = new Batch(scene, 2);
  await batch.ask();
  const answer = batch.continue(batch.results([0]));
  await held(batch, answer);
  return { scene, batch, answer };
}

/* Checks that nothing was joined, then completes the batch. */
async function untouched({ batch, answer }) {
  const { body } = await show(batch);
  assert.deepEqual(body.missing, [batch.ids[1]]);
  await taken(give(batch, 1, { output: 'at last' }), 1);
  assert.equal(await wordOf(answer), 'final');
  batch.released();
}

live('bodies that are refused name the field', async (t) => {
  const it = await waiting(t);
  const { batch } = it;
  const good = of(batch, 1, { output: 'never' });
  const less = (field) => {
    const { [field]: _, ...rest } = good;
    return rest;
  };
  const bad = [
    [undefined, ''], [undefined, '{'], [undefined, '\xff'],
    [undefined, JSON.stringify(good) + 'x'], [undefined, 'null'],
    [undefined, '[]'], [undefined, '5'], [undefined, '"x"'],
    [undefined, `${'['.repeat(5000)}${']'.repeat(5000)}`],
    [undefined, Array(129).fill(good)],
    ['conversation', {}], ['conversation', less('conversation')],
    ['conversation', { ...good, conversation: '' }],
    ['conversation', { ...good, conversation: 5 }],
    ['conversation', { ...good, conversation: [batch.key] }],
    ['toolCallId', less('toolCallId')],
    ['toolCallId', { ...good, toolCallId: null }],
    ['toolCallId', { ...good, toolCallId: 'x'.repeat(1025) }],
    [undefined, less('output')],
    [undefined, { ...good, errorText: 'x' }],
    [undefined, { ...good, approved: true }],
    ['errorText', { ...less('output'), errorText: { a: 1 } }],
    ['approved', { ...less('output'), approved: 'yes' }],
    ['approved', { ...less('output'), approved: true }],
    ['reason', { ...good, reason: 'x' }],
    ['reason', { ...less('output'), approved: true, reason: 5 }],
    [undefined, JSON.stringify(good).replace('{', '{"output":1,')],
    [undefined, JSON.stringify(good).replace('{', '{"toolCallId":"x",')],
  ];
  for (const [field, body] of bad) {
    const got = await send(batch, body);
    const told = `${JSON.stringify(body)?.slice(0, 200)}: ${got.text}`;
    assert.equal(got.status, 400, told);
    assert.equal(got.body.error.field, field, told);
    assert.equal(got.body.error.index, undefined, told);
    assert.ok(got.body.error.message, told);
  }
  await untouched(it);
});

live('a list is applied completely or not at all', async (t) => {
  const it = await waiting(t);
  const { batch } = it;
  const good = of(batch, 1, { output: 'never' });
  const bad = [
    [404, 'toolCallId', { ...good, toolCallId: 'call_unknown' }],
    [400, 'conversation', { ...good, conversation: 'another' }],
    [400, 'toolCallId', { ...good, toolCallId: '' }],
    [400, 'approved', of(batch, 1, { approved: true })],
    [400, undefined, 7], [400, undefined, [good]], [400, undefined, null],
    [413, 'output', { ...good, output: 'x'.repeat(2000000) }],
    [413, 'errorText', of(batch, 1, { errorText: 'x'.repeat(2000000) })],
    [413, 'reason', of(batch, 1, { approved: true,
      reason: 'x'.repeat(2000000) })],
  ];
  for (const [status, field, one] of bad) {
    const got = await send(batch, [good, one, good]);
    assert.equal(got.status, status, got.text);
    assert.equal(got.body.error.field, field, got.text);
    const index = typeof one === 'object' && one && !Array.isArray(one)
      ? 1 : undefined;
    assert.equal(got.body.error.index, index, got.text);
  }
  await untouched(it);
});

live('requests that nginx itself refuses', async (t) => {
  const it = await waiting(t, { server: `
    chat_tenant $http_authorization;
    chat_conversation $http_x_batch;
    chat_limits body=100k;
    location = /results { chat_results; }` });
  const { batch } = it;
  const { n } = batch;
  const good = of(batch, 1, { output: 'never' });
  for (const type of ['text/plain', 'application/x-www-form-urlencoded',
    '']) {
    const { status } = await send(batch, good,
      { headers: { 'content-type': type } });
    assert.equal(status, 415, type);
  }
  assert.equal((await send(batch, good,
    { headers: { 'content-encoding': 'gzip' } })).status, 415);
  const long = of(batch, 1, { output: 'x'.repeat(110000) });
  assert.equal((await send(batch, long)).status, 413);
  assert.equal((await send(batch, long, { chunked: true })).status, 413);
  assert.equal((await send(batch, long, { http2: true })).status, 413);
  for (const method of ['PUT', 'PATCH', 'OPTIONS']) {
    const { status, headers } = await answered(get(n.port, '/results', {},
      { method }));
    assert.equal(status, 405);
    assert.equal(headers.allow, 'GET, HEAD, POST, DELETE');
  }
  for (const method of ['GET', 'DELETE']) {
    for (const query of ['', '?', '?conversation=', '?conversation']) {
      const { status, body } = await answered(get(n.port,
        `/results${query}`, {}, { method }));
      assert.equal(status, 400);
      assert.equal(body.error.field, 'conversation');
    }
    const { status } = await answered(get(n.port, '/results?conversation='
      + '%00%ff%'.repeat(500), {}, { method }));
    assert.equal(status, 404);
  }
  const escaped = [...batch.key].map((c) =>
    `%${c.charCodeAt(0).toString(16)}`).join('');
  const head = await answered(get(n.port, `/results?conversation=${escaped}`,
    {}, { method: 'HEAD' }));
  assert.equal(head.status, 200);
  assert.equal(head.text, '');
  await untouched(it);
});

live('s107: another tenant can neither see nor answer a batch', async (t) => {
  const it = await waiting(t);
  const { batch } = it;
  const headers = { authorization: 'Bearer other' };
  const unknown = { key: 'none', ids: batch.ids, pick: batch.pick };
  for (const act of [(b, o) => give(b, 1, { output: 'theirs' }, o), show,
    clear]) {
    const [theirs, missing] = [await act(batch, { headers }),
      await act(unknown)];
    assert.equal(theirs.status, 404);
    assert.equal(theirs.text, missing.text);
    assert.equal(theirs.body.error.field, 'conversation');
  }
  await untouched(it);
});

live('s107: an empty tenant is refused', async (t) => {
  const it = await waiting(t);
  const { batch } = it;
  const headers = { authorization: '' };
  const empty = new Batch(it.scene, 2);
  await empty.ask({ headers });
  for (const one of [batch, empty]) {
    for (const act of [(b, o) => give(b, 1, { output: 'theirs' }, o), show,
      clear]) {
      assert.equal((await act(one, { headers })).status, 403);
    }
  }
  await untouched(it);
});

live('a conversation under two tenants: one warning', async (t) => {
  const scene = await openStage(t, 'ai_sdk', { workers: 1 });
  const warnings = () => scene.n.errorLog().split('\n').filter((line) =>
    /\[warn\].*two tenants/.test(line)).length;
  const batches = Array.from({ length: 50 }, () => new Batch(scene, 1));
  for (const batch of batches) {
    await batch.ask();
    await batch.ask();
  }
  assert.equal(warnings(), 0);
  for (const batch of batches) {
    await batch.ask({ headers: { authorization: 'Bearer renewed' } });
  }
  assert.equal(warnings(), 1);
});

live('s107: nginx -t: chat_results without chat_tenant fails', async () => {
  const at = (lines, more) => nginxTest({ tenant: false, http: lines,
    server: `location = /results { chat_results; ${more ?? ''} }` });
  for (const [ok, lines, more] of [[false], [true, 'chat_tenant $arg_t;'],
    [true, '', 'chat_tenant $arg_t;']]) {
    const { ok: got, output } = await at(lines ?? '', more);
    assert.equal(got, ok, output);
    assert.match(output, ok ? /successful/
      : /"chat_results" in location "\/results" requires "chat_tenant"/);
  }
  const twice = await at('chat_tenant x;', 'chat_results;');
  assert.match(twice.output, /"chat_results" directive is duplicate/);
});

live('chat_results works without a location that has chat', async (t) => {
  const { n } = await openStage(t, 'openai_chat', { locations: `
    location = /results { chat_results; }`, server: 'chat_tenant x;' });
  const { status, body } = await answered(post(n.port, '/results',
    { conversation: 'c', toolCallId: 'x', output: 1 }));
  assert.equal(status, 404);
  assert.equal(body.error.code, 'unknown_conversation');
});

live('chat is inherited: chat_results is no chat location', async (t) => {
  const scene = await openStage(t, 'ai_sdk', { server: `
    chat ai_sdk; chat_tenant x; chat_conversation $http_x_batch;
    location = /results { chat_results; }` });
  const batch = new Batch(scene, 1);
  await batch.ask();
  const messages = [{ id: 'u', role: 'user', parts: [] }];
  await taken(send(batch, { ...of(batch, 0, { output: 1 }), messages }), 1);
});
