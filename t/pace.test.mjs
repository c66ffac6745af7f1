/*
 * pace.test.mjs: siblings that take a stream more slowly than it comes: by
 * themselves, or as nginx is told to.
 *
 * Each gets all of it in the end, or is told that it was too slow.
 */
import assert from 'node:assert/strict';
import net from 'node:net';
import { gate, pause, until } from './harness.mjs';
import { Batch, stage, told } from './harness_batch.mjs';
import { held, live, say } from './harness_hold.mjs';
import { sse } from './harness_provider.mjs';

/* An HTTP/1.1 client that reads nothing until it is told to. */
async function lazy(t, { n, dialect }, batch, results) {
  const body = JSON.stringify(batch.body(results));
  const socket = net.connect({ port: n.port, host: '127.0.0.1',
    highWaterMark: 1024 });
  t.after(() => socket.destroy());
  socket.pause();
  const request = Object.entries({ host: 'x', 'x-batch': batch.key,
    authorization: 'Bearer tester', 'content-type': 'application/json',
    'content-length': Buffer.byteLength(body), connection: 'close',
    ...dialect.headers }).map(([k, v]) => `${k}: ${v}\r\n`).join('');
  socket.write(`POST ${dialect.path} HTTP/1.1\r\n${request}\r\n${body}`);
  let text = '';
  const ended = new Promise((resolve) => {
    socket.setEncoding('latin1').on('data', (piece) => { text += piece; })
      .on('close', () => resolve(text)).on('error', () => {});
  });
  return { read: () => { socket.resume(); return ended; } };
}

live('followers at a limited rate', async (t) => {
  const scene = await stage(t, 'openai_chat', { workers: 1, location:
    `${say.verdict} limit_rate 64k;` });
  const usual = scene.p.answer;
  const [first, ...rest] = scene.dialect.final('done x');
  const comment = `: ${'x'.repeat(3000)}\n\n`;
  scene.p.answer = (request) => (request.answered.length
    ? sse([first, ...Array(40).fill([comment, () => pause(10)]).flat(),
      ...rest]) : usual(request));
  for (const http2 of [false, true]) {
    const batch = new Batch(scene, 4);
    await batch.ask();
    const answers = [];
    for (const i of batch.ids.keys()) {
      answers.push(batch.continue(batch.results([i]), { http2 }));
      await (i < 3 ? held(batch, answers.at(-1)) : answers.at(-1).sent);
    }
    const ends = await Promise.race([pause(10000),
      Promise.all(answers.map(told))]);
    assert.ok(ends, `${answers.map(({ bytes }) => bytes.length)}`);
    assert.ok(ends.every(({ word }) => word === 'final'));
  }
});

for (const [name, max, slow] of [['takes its time', '64m', false],
  ['is too slow for what is kept', '256k', true]]) {
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
      await go;
      /* not faster than one worker can do it all */
      return sse([first, ...Array(count / 10).fill([...Array(10).fill(big),
        () => pause(2)]).flat(), ...rest], { flush: false });
    };
    const batch = new Batch(scene, 2);
    await batch.ask();
    const sleeper = await lazy(t, scene, batch, batch.results([0]));
    await pause(100);
    const claimant = batch.continue(batch.results([1]));
    await until(() => scene.p.continuations().length === 1);
    await pause(100);
    go.open();
    const text = await claimant.text();
    const got = await sleeper.read();
    if (slow) {
      assert.match(got, /stream_interrupted/);
      assert.doesNotMatch(got, /\[DONE\]/);
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
