/*
 * follow_slow.test.mjs: a sibling that reads more slowly than the stream
 * arrives.
 *
 * Unread bytes wait in its worker, up to the size of the recording. Beyond
 * that the sibling's answer ends as interrupted.
 */
import assert from 'node:assert/strict';
import net from 'node:net';
import { gate, until } from '../lib/harness.mjs';
import { handled } from '../lib/handled.mjs';
import { Batch, stage } from '../lib/batch.mjs';
import { live, say } from '../lib/hold.mjs';
import { sse } from '../lib/provider.mjs';

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
