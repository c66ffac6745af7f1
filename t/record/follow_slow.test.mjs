/*
 * follow_slow.test.mjs: a client that reads more slowly than the stream
 * arrives.
 *
 * Bytes that a sibling has not read wait in its worker, up to the size of the
 * recording. Beyond that the sibling's answer ends as interrupted. A client
 * that gets the calls of a stream may answer them, however slow the client is
 * that asked for it.
 */
import assert from 'node:assert/strict';
import http2 from 'node:http2';
import net from 'node:net';
import { gate, until } from '../lib/harness.mjs';
import { handled } from '../lib/handled.mjs';
import { Batch, stage, told } from '../lib/batch.mjs';
import { live, say } from '../lib/hold.mjs';
import { sse } from '../lib/provider.mjs';
import { resumeStage, Talk } from '../lib/resume.mjs';

/* An HTTP/1.1 client that reads the first bytes, and the rest on demand. */
async function lazy(t, { n, dialect }, batch, results) {
  const body = JSON.stringify(batch.body(results));
  const socket = net.connect({ port: n.port, host: '127.0.0.1',
    highWaterMark: 1024 });
  t.after(() => socket.destroy());
  const request = Object.entries({ host: 'x', 'x-batch': batch.key,
    authorization: 'Bearer tester', 'content-type': 'application/json',
    'content-length': Buffer.byteLength(body), connection: 'close',
    ...dialect.headers }).map(([k, v]) => `${k}: ${v}\r\n`).join('');
  socket.write(`POST ${dialect.path} HTTP/1.1\r\n${request}\r\n${body}`);
  let text = '';
  const begun = gate();
  const ended = new Promise((resolve) => {
    socket.setEncoding('latin1').on('data', (piece) => {
      text += piece;
      begun.open();
    }).on('close', () => resolve(text)).on('error', () => {});
  });
  begun.then(() => socket.pause());
  return { begun, read: () => { socket.resume(); return ended; } };
}

for (const [name, max, slow] of [['reads slowly', '64m', false],
  ['is too slow for the recording', '256k', true]]) {
  live(`a follower that ${name}`, async (t) => {
    const scene = await stage(t, 'openai_chat', { workers: 1, location:
      `${say.verdict} chat_record auto max=${max}; send_timeout 20s;` });
    const usual = scene.p.answer;
    const [first, ...rest] = scene.dialect.final('done');
    const big = `data: ${JSON.stringify({ id: 'c', choices: [{ index: 0,
      delta: { content: 'x'.repeat(4000) }, finish_reason: null }] })}\n\n`;
    const count = 3000;
    const go = gate();
    scene.p.answer = async (request) => {
      if (!request.answered.length) {
        return usual(request);
      }
      /* Then all at once: many times the size that the store keeps. */
      return sse([first, go, ...Array(count).fill(big), ...rest],
        { flush: false });
    };
    const batch = new Batch(scene, 2);
    await batch.ask();
    const sleeper = await lazy(t, scene, batch, batch.results([0]));
    await handled(batch);
    const claimant = batch.continue(batch.results([1]));
    await sleeper.begun;
    go.open();
    const text = await claimant.text();
    const got = await sleeper.read();
    if (slow) {
      assert.match(got, /stream_interrupted/);
      assert.doesNotMatch(got, /\[DONE\]/);
      assert.doesNotMatch(got, /\r\n0\r\n\r\n$/, 'the last chunk');
    } else {
      assert.equal(got.split('x'.repeat(4000)).length, count + 1);
      assert.match(got, /\[DONE\]\n\n\r\n0\r\n\r\n$/);
    }
    assert.ok(text.length > count * 4000);
    const status = slow ? 'interrupted' : 'finished';
    await until(() => scene.n.accessLog().some((line) =>
      line.verdict === 'attached' && line.turn_status === status), 5000,
    'the log');
  });
}

/* Sends a fresh turn over HTTP/2, and reads no more than its window takes. */
async function stalled(t, { n, dialect }, batch) {
  const session = http2.connect(`http://127.0.0.1:${n.port2}`);
  t.after(() => session.destroy());
  const answer = session.request({ ':method': 'POST', ':path': dialect.path,
    'content-type': 'application/json', 'x-batch': batch.key,
    authorization: 'Bearer tester', ...dialect.headers });
  answer.on('error', () => {});
  answer.end(JSON.stringify(dialect.fresh({
    conversation: batch.conversation })));
  await new Promise((resolve) => { answer.on('response', resolve); });
}

for (const key of ['ai_sdk', 'openai_chat', 'anthropic']) {
  live(`${key}: calls in the last bytes of a stream whose client stalls`,
    async (t) => {
      const s = await resumeStage(t, key, { location:
        'proxy_buffer_size 256k; proxy_buffers 4 256k; send_timeout 60s;' });
      const batch = new Batch(s, 2);
      const tail = gate();
      const { answer } = s.p;
      const parts = [...batch.from.slice(0, -4), `: ${'x'.repeat(1e5)}\n\n`,
        ...batch.from.slice(-4)];
      s.p.answer = (request) => (request.answered.length
        ? answer(request) : sse([parts.slice(0, -4).join(''), tail,
          parts.slice(-4).join('')], { headers: {
          'content-length': Buffer.byteLength(parts.join('')) } }));
      await stalled(t, s, batch);
      const other = new Talk(s, batch.key).resume({
        headers: { authorization: 'Bearer tester' } });
      await other.until((text) => text.includes('xxx'));
      tail.open();
      await other.until((text) => text.includes(parts.at(-1).trim()));
      const next = batch.continue(batch.results());
      await until(() => batch.upstream().length === 1);
      assert.equal((await told(next)).word, 'final');
    });
}
