/*
 * interrupted.test.mjs: JSON answers that break off, and what an interrupted
 * stream leaves: its results and one log line.
 *
 * Suite: asan.
 */
import assert from 'node:assert/strict';
import { Batch, stage, told } from '../lib/batch.mjs';
import { dialects } from '../lib/dialects.mjs';
import {
  begin, cutText, location, logged, theatre,
} from '../lib/ends.mjs';
import { live } from '../lib/hold.mjs';
import { sse } from '../lib/provider.mjs';
import { chunk, head } from '../lib/raw.mjs';
import { data } from '../lib/dialects/wire.mjs';
import { until } from '../lib/harness.mjs';

const locations = ['on', 'off'].map((buffering) => location(buffering,
  `chat auto; proxy_http_version 1.1; proxy_read_timeout 400ms;
   proxy_buffering ${buffering};`)).join('');
const jsonHead = (more) => head({ 'Content-Type': 'application/json',
  ...more });
const chunked = jsonHead({ 'Transfer-Encoding': 'chunked' });

/* Arguments: the socket, the beginning of an answer, the whole answer. */
const cuts = {
  'FIN, length open': (socket, half, whole) =>
    socket.end(jsonHead({ 'Content-Length': whole.length }) + half),
  'FIN, no last chunk': (socket, half) => socket.end(chunked + chunk(half)),
  'FIN in a chunk': (socket, half) => socket.end(`${chunked}ffff\r\n${half}`),
  'a reset': async (socket, half, whole, arrived) => {
    socket.write(jsonHead({ 'Content-Length': whole.length }) + half);
    await arrived();
    socket.resetAndDestroy();
  },
  'a chunk header of garbage': async (socket, half, whole, arrived) => {
    socket.write(chunked + chunk(half));
    await arrived();
    socket.write('garbage\r\n');
  },
  proxy_read_timeout: (socket, half, whole) =>
    socket.write(jsonHead({ 'Content-Length': whole.length }) + half),
};

for (const key of ['openai_chat', 'openai_responses', 'anthropic']) {
  live(`${key}: stream:false, the answer is cut`, async (t) => {
    const scene = await theatre(t, locations);
    const whole = JSON.stringify({ id: 'x', words: 'y'.repeat(20000) });
    const body = { ...dialects[key].fresh(), stream: false };
    const each = (play) => Promise.all(['on', 'off'].flatMap((way) =>
      [false, true].map((http2) => play(way, http2))));
    for (const [name, cut] of Object.entries(cuts)) {
      await t.test(name, () => each(async (way, http2) => {
        let answer;
        const one = begin(scene, key, { play: (socket) => cut(socket,
          whole.slice(0, 9000), whole, () => answer.head) },
        { way, http2, body });
        ({ answer } = one);
        const text = await answer.text({ broken: true });
        assert.ok(answer.error, 'the answer ended without an error');
        assert.ok(whole.startsWith(text));
        const { seen } = await logged(scene, one.uri);
        assert.equal(seen.turn_status, 'interrupted');
        assert.equal(seen.status, '200');
      }));
    }
    await t.test('a whole one', () => each(async (way, http2) => {
      const { answer, uri } = begin(scene, key, { play: (socket) =>
        socket.write(jsonHead({ 'Content-Length': whole.length }) + whole) },
      { way, http2, body });
      assert.equal(await answer.text(), whole);
      const { seen } = await logged(scene, uri);
      assert.equal(seen.turn_status, 'finished');
    }));
    await t.test('the client disconnects', () => each(async (way, http2) => {
      let gone;
      const { answer, uri } = begin(scene, key, { play(socket) {
        gone = new Promise((resolve) => { socket.on('close', resolve); });
        socket.write(jsonHead({ 'Content-Length': whole.length })
          + whole.slice(0, 9000));
      } }, { way, http2, body });
      await answer.head;
      answer.abort();
      await gone;
      const { seen } = await logged(scene, uri);
      assert.equal(seen.turn_status, 'aborted');
    }));
  });
}

/* The stream of an app that ran a tool itself and then died. */
function died({ from, ids }) {
  const [a, , c] = ids;
  const asked = from.slice(0, from.findIndex((event) =>
    event.includes('finish-step')));
  return Object.assign([...asked,
    data({ type: 'tool-output-available', toolCallId: a,
      output: { paid: 10.50 } }),
    data({ type: 'tool-output-available', toolCallId: c, output: 'half',
      preliminary: true }),
    'data: {"type":"te'], { id: from.id, calls: from.calls });
}

live('s63 s83: results of an interrupted stream are kept', async (t) => {
  const scene = await stage(t, 'ai_sdk', { workers: 2, strict: false });
  const batch = new Batch(scene, 3);
  const { p, n } = scene;
  const [a, b, c] = batch.ids;
  p.answer = (request) => (request.number === 1
    ? sse(died(batch), { end: 'reset' }) : sse(batch.dialect.final('on')));
  const text = await batch.post(
    batch.dialect.fresh({ conversation: batch.conversation })).text();
  assert.ok(text.includes('stream_interrupted'), text);

  /* Another tab has the calls without their results. */
  const next = { id: 'u2', role: 'user',
    parts: [{ type: 'text', text: 'Go on' }] };
  await batch.post(batch.body({}, { after: [next] })).text();
  const [, request] = p.requests;
  const parts = request.body.messages[1].parts.slice(1);
  assert.deepEqual(parts.map(({ toolCallId, state, output }) =>
    [toolCallId, state, output]), [
    [a, 'output-available', { paid: 10.50 }],
    [b, 'input-available', undefined],
    [c, 'input-available', undefined]]);
  assert.ok(request.raw.includes('{"paid":10.5}'));

  await t.test('the log line describes the stream', async () => {
    const line = await until(() => n.errorLog().split('\n').find((one) =>
      one.includes('stream ended: interrupted reset')));
    const short = (id) => id.slice(0, 12);
    for (const part of ['dialect ai_sdk', 'attempt 0',
      `conversation ${short(batch.conversation)}`,
      `stream ${short(batch.from.id)}`, 'carried -',
      `settled ${short(a)}, `, 'calls 3', `bytes ${text.length}`]) {
      assert.ok(line.includes(`${part}`), `${part} in ${line}`);
    }
  });
});

live('results survive when the answer to their request breaks off',
  async (t) => {
    const scene = await stage(t, 'openai_chat');
    const batch = new Batch(scene, 2);
    await batch.ask();
    const { answer } = scene.p;
    scene.p.answer = () => sse(batch.dialect.final('one').slice(0, 2),
      { end: 'reset' });
    await told(batch.continue(batch.results()));
    scene.p.answer = answer;
    const { word } = await told(batch.continue(batch.results([0])));
    assert.equal(word, 'final');
    batch.released(2);
  });

live('s83: the log of a continuation names its batch', async (t) => {
  const scene = await stage(t, 'anthropic');
  const batch = new Batch(scene, 2);
  await batch.ask();
  scene.p.answer = () => sse(batch.dialect.final('x').slice(0, 2),
    { end: 'reset' });
  await cutText('anthropic', batch.continue(batch.results()));
  const { batch: name } = await until(() => scene.n.accessLog()[1]);
  const line = await until(() => scene.n.errorLog().split('\n').find((one) =>
    one.includes('stream ended: interrupted reset')));
  const ids = batch.ids.map((id) => id.slice(0, 12)).join(' ');
  assert.match(name, /^[0-9a-f]{32}$/);
  assert.ok(line.includes(`batch ${name.slice(0, 16)}, attempt 1, `), line);
  assert.ok(line.includes(`carried ${ids}, settled -, `), line);
});
