/*
 * unusual_requests.test.mjs: unusual requests end as others do.
 *
 * Empty bodies, error pages that pass the module a second time, streams that
 * break while requests wait for them.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import net from 'node:net';
import { test } from 'node:test';
import { gate, nginx, pause, post, unbuilt, until } from '../lib/harness.mjs';
import { handled } from '../lib/handled.mjs';
import { json, provider, sse } from '../lib/provider.mjs';
import { Batch, outputs, stage, told } from '../lib/batch.mjs';

const live = (name, play) => test(name, { skip: unbuilt }, play);

/* Waits for the end of an answer, for a limited time. */
async function ended(answer) {
  await Promise.race([answer.text({ broken: true }), pause(5000)]);
  assert.ok(answer.ended, 'the request does not end');
  return answer.status;
}

live('an empty body goes upstream', async (t) => {
  const p = await provider(t, null, { answer: () => json(200, {}),
    strict: false });
  const n = await nginx(t, { upstream: p.port });
  const chunked = { 'transfer-encoding': 'chunked' };
  assert.equal(await ended(post(n.port, '/api/chat', '')), 200);
  assert.equal(await ended(post(n.port, '/api/chat', '', chunked,
    { chunked: true })), 200);
  assert.equal(await ended(post(n.port2, '/api/chat', '', {},
    { http2: true })), 200);
  assert.equal(p.requests.length, 3);
});

live('a body refused while it is read: its error page', async (t) => {
  const n = await nginx(t, { upstream: 9, server: `chat auto;
    client_max_body_size 1k; error_page 413 = @sorry;
    location @sorry { proxy_pass http://provider; }` });
  const chunked = { 'transfer-encoding': 'chunked' };
  for (const headers of [{}, chunked]) {
    assert.equal(await ended(post(n.port, '/api/chat', 'x'.repeat(5000),
      headers, { chunked: true })), 502);
  }
});

live('a body that breaks while it is read: its error page', async (t) => {
  const n = await nginx(t, { upstream: 9, server: `chat auto;
    error_page 400 /index.html; root html;` });
  const socket = net.connect(n.port, '127.0.0.1');
  t.after(() => socket.destroy());
  socket.write('POST /api/chat HTTP/1.1\r\nHost: a\r\n'
    + 'Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n');
  await pause(50);
  socket.write('no number\r\n');
  const [piece] = await once(socket, 'data',
    { signal: AbortSignal.timeout(5000) });
  assert.match(String(piece), /^HTTP\/1.1 (400|502|404)/);
});

for (const key of ['openai_responses_chained',
  'openai_responses_conversation', 'anthropic_thread']) {
  live(`${key}: the awaited stream breaks: the request goes upstream`,
    async (t) => {
      const scene = await stage(t, key, { strict: false });
      const batch = new Batch(scene, 2);
      const [one, two] = batch.ids;
      const cut = gate();
      const half = batch.from.slice(0,
        batch.from.findIndex((event) => event.includes(two)));
      scene.p.answer = ({ answered }) => (answered.length
        ? sse(batch.dialect.final(`done ${batch.key}`))
        : sse([...half, cut], { end: 'reset' }));
      const asking = batch.post(batch.dialect.fresh(
        { conversation: batch.conversation }));
      await asking.until((text) => text.includes(one));
      const answer = batch.continue({ [one]: 1 });
      await handled(batch, [answer]);
      assert.equal(answer.ended, false);
      assert.equal(batch.upstream().length, 0, 'it did not wait');
      cut.open();
      await asking.text({ broken: true });
      assert.equal((await told(answer)).word, 'final');
    });
}

/* How often the answer to a body has this header. */
async function count(batch, name, body) {
  const bytes = JSON.stringify(body);
  const socket = net.connect(batch.n.port, '127.0.0.1');
  socket.write(`POST /api/chat HTTP/1.1\r\nHost: a\r\nOrigin: http://x\r\n`
    + 'Connection: close\r\nAuthorization: Bearer tester\r\n'
    + `Content-Type: application/json\r\nx-batch: ${batch.key}\r\n`
    + `Content-Length: ${bytes.length}\r\n\r\n${bytes}`);
  const pieces = await socket.toArray();
  const [lines] = Buffer.concat(pieces).toString().split('\r\n\r\n');
  return lines.split('\r\n').filter((line) =>
    line.toLowerCase().startsWith(`${name}:`)).length;
}

live('CORS headers are not doubled within a conversation', async (t) => {
  const scene = await stage(t, 'ai_sdk', { hold: '2s grace=50ms' });
  const [first, second] = [new Batch(scene), new Batch(scene)];
  const name = 'access-control-allow-origin';
  const sealing = gate();
  second.conversation = first.conversation;
  scene.p.answer = ({ answered }) => sse(answered.length ? second.from
    : [...first.from.slice(0, -3), sealing, ...first.from.slice(-3)],
  { headers: { [name]: 'http://x' } });

  const asking = first.post(
    first.dialect.fresh({ conversation: first.conversation }));
  await asking.until((text) => text.includes(first.ids[1]));
  const early = count(first, name, first.body(first.results()));
  await handled(scene, [], 300);
  sealing.open();
  assert.equal(await early, 1);
  await asking.text();
  await until(() => scene.n.accessLog()
    .some(({ verdict }) => verdict === 'released'));
  assert.equal(await count(second, name,
    second.body(second.results([0]))), 1);
});

live('a batch that grows without end is limited', async (t) => {
  const p = await provider(t, null, { answer: () => json(200, {}),
    strict: false });
  const n = await nginx(t, { upstream: p.port, chat: 'openai_chat' });
  const calls = (round) => Array.from({ length: 120 }, (_, i) =>
    (i === 0 ? 'call_0123456789abcdef' : `call_${round}_${i}`));
  const body = (ids) => ({ model: 'm', stream: true, messages: [
    { role: 'user', content: 'x' },
    { role: 'assistant', tool_calls: ids.map((id) => ({ id, type: 'function',
      function: { name: 'f', arguments: '{}' } })) },
    ...ids.map((id) => ({ role: 'tool', tool_call_id: id, content: 'x' }))] });
  const verdict = async (ids) => {
    const before = n.accessLog().length;
    const answer = post(n.port, '/v1/chat/completions', body(ids));
    assert.equal(await ended(answer), 200);
    await until(() => n.accessLog().length > before);
    return n.accessLog().at(-1).verdict;
  };
  const verdicts = [];
  for (let round = 0; round < 20; round++) {
    verdicts.push(await verdict(calls(round)));
  }
  assert.equal(verdicts[1], 'passed');
  assert.equal(verdicts.at(-1), 'bypass');
  const others = calls(0);
  others[0] = 'call_fedcba9876543210';
  assert.equal(await verdict(others), 'passed');
});

live('an id cannot start a new line in the log', async (t) => {
  const scene = await stage(t, 'ai_sdk');
  const batch = new Batch(scene);
  batch.conversation = 'a\n[info] b\0c';
  await batch.ask();
  const line = await until(() => scene.n.errorLog().split('\n')
    .find((one) => one.includes('chat: stream ended')));
  assert.match(line, /conversation a\?\[info\]\?b\?c,/);
});

live('the claimant disconnects: a held request gets its results',
  async (t) => {
    const scene = await stage(t, 'ai_sdk',
      { location: 'chat_record off;' });
    const batch = new Batch(scene);
    const [one, two] = batch.ids;
    await batch.ask();
    const answering = gate();
    scene.p.answer = async () => {
      await answering;
      return sse(batch.dialect.final('done'));
    };
    const waiting = batch.continue({ [one]: 1 });
    await handled(batch, [waiting]);
    const claimant = batch.continue({ [two]: 2 });
    await until(() => batch.upstream().length === 1);
    claimant.abort();
    const answer = await told(waiting);
    answering.open();
    assert.equal(answer.word, 'bounce');
    assert.deepEqual(outputs(answer), [two]);
  });
