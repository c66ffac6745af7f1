/*
 * truncated.test.mjs: a response in a provider's dialect without its end
 * marker: all bytes up to the error event arrive first, over every protocol.
 *
 * ends.test.mjs has every way in which an upstream breaks off; here are slow
 * readers, HTTP/1.0, upstream keepalive connections, and requests that wait
 * for the answer of another one.
 */
import assert from 'node:assert/strict';
import http2 from 'node:http2';
import net from 'node:net';
import { gate, pause, until } from '../lib/harness.mjs';
import { Batch, stage, told } from '../lib/batch.mjs';
import { dialects, events } from '../lib/dialects.mjs';
import {
  begin, beginning, chunked, cutText, ended, location, terminated, theatre,
} from '../lib/ends.mjs';
import { each, held, live, several } from '../lib/hold.mjs';
import { json } from '../lib/provider.mjs';
import { chunk } from '../lib/raw.mjs';

const locations = location('on', `chat auto; proxy_http_version 1.1;
  send_timeout 20s;`);
const { openai_chat: chat } = dialects;

/* A stream that is cut; it is longer than all buffers together. */
function long(words = 1200) {
  const [first, word] = chat.final('x'.repeat(10000));
  return { whole: first + word.repeat(words),
    play: (socket, { whole, cut }) => {
      socket.write(chunked + chunk(whole));
      cut(socket);
    } };
}

/* Upstreams that close, and that end their response too early. */
const cuts = {
  'cut off': { cut: (socket) => socket.end(), reason: 'eof' },
  'ended early': { cut: (socket) => socket.write('0\r\n\r\n'), reason: 'eof' },
};

/* The bytes of a response over HTTP/1 to a client that reads late. */
function lazy(t, { port }, uri, version = '1.1') {
  const body = JSON.stringify(chat.fresh());
  const head = `POST ${uri} HTTP/${version}\r\nHost: x\r\n`
    + 'Content-Type: application/json\r\n'
    + `Content-Length: ${body.length}\r\n\r\n${body}`;
  const socket = net.connect({ port, host: '127.0.0.1',
    highWaterMark: 1024 });
  t.after(() => socket.destroy());
  socket.setEncoding('latin1').pause();
  socket.write(head);
  let text = '';
  socket.on('data', (piece) => { text += piece; });
  const closed = new Promise((resolve) => {
    socket.on('error', (error) => resolve({ error, text }))
      .on('end', () => resolve({ text }));
  });
  return { socket, read: () => { socket.resume(); return closed; } };
}

for (const [name, { cut, reason }] of Object.entries(cuts)) {
  live(`s113: a client reads late: it gets all of a response ${name}`,
    async (t) => {
      const scene = await theatre(t, locations);
      const uri = `/on/late${chat.path}`;
      const it = { ...long(), cut };
      scene.cases.set('late', it);
      const client = lazy(t, scene.n, uri);
      await pause(300);
      const { text, error } = await client.read();
      assert.equal(error, undefined);
      assert.equal(text.split('x'.repeat(10000)).length, 1201);
      assert.ok(text.endsWith('"stream_interrupted"}}\n\n\r\n'),
        text.slice(-200));
      assert.ok(text.includes(terminated(reason)));
      await ended(scene, uri, 'interrupted', reason);
    });

  live(`s113: a response ${name}: the client sends more before it reads`,
    async (t) => {
      const scene = await theatre(t, locations);
      const uri = `/on/late${chat.path}`;
      scene.cases.set('late', { ...long(30), cut });
      const client = lazy(t, scene.n, uri);
      await until(() => scene.n.errorLog().includes('stream ended'));
      await pause(100);
      /* A reset now would discard bytes that are still in flight. */
      client.socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
      await pause(100);
      const { text, error } = await client.read();
      assert.equal(error, undefined);
      assert.equal(text.split('x'.repeat(10000)).length, 31);
      assert.ok(text.endsWith('"stream_interrupted"}}\n\n\r\n'));
      client.socket.destroy();
      await until(() => scene.n.accessLog().length);
      assert.equal(scene.n.accessLog().length, 1, 'a pipelined request ran');
    });

  live(`s113: HTTP/2, the window opens late, a response ${name}`,
    async (t) => {
      const scene = await theatre(t, locations);
      const uri = `/on/late${chat.path}`;
      const it = { ...long(), cut };
      scene.cases.set('late', it);
      const session = http2.connect(`http://127.0.0.1:${scene.n.port2}`,
        { settings: { initialWindowSize: 4096 } });
      t.after(() => session.destroy());
      const stream = session.request({ ':method': 'POST', ':path': uri,
        'content-type': 'application/json' });
      stream.end(JSON.stringify(chat.fresh()));
      stream.pause();
      const over = new Promise((resolve) => {
        stream.on('error', (error) => resolve(error.code))
          .on('end', () => resolve('a clean end'));
      });
      await pause(300);
      let text = '';
      stream.setEncoding('utf8').on('data', (piece) => { text += piece; });
      stream.resume();
      assert.equal(await over, 'ERR_HTTP2_STREAM_ERROR');
      assert.equal(stream.rstCode, http2.constants.NGHTTP2_INTERNAL_ERROR);
      assert.equal(text.split('x'.repeat(10000)).length, 1201);
      assert.ok(text.endsWith('"stream_interrupted"}}\n\n'),
        text.slice(-200));
      await ended(scene, uri, 'interrupted', reason);

      /* The connection stays usable. */
      const other = session.request({ ':path': '/nothing' });
      const [status] = await Promise.all([new Promise((resolve) => {
        other.on('response', (head) => resolve(head[':status']));
      }), other.resume()]);
      assert.equal(status, 404);
    });
}

live('s113: HTTP/1.0: the event, then the end of the connection',
  async (t) => {
    const scene = await theatre(t, locations);
    const uri = `/on/old${chat.path}`;
    const { whole, part } = beginning('openai_chat');
    scene.cases.set('old', { play: (socket) =>
      socket.end(chunked + chunk(whole + part)) });
    const { text, error } = await lazy(t, scene.n, uri, '1.0').read();
    assert.equal(error, undefined);
    assert.ok(text.includes(`\r\n\r\n${whole}data: {"error"`), text);
    assert.ok(text.endsWith('}}\n\n'));
    await ended(scene, uri, 'interrupted', 'eof');
  });

live('s113: sub_filter keeps back nothing of the event', async (t) => {
  const scene = await theatre(t, location('on', `chat auto;
    proxy_http_version 1.1; sub_filter_types text/event-stream;
    sub_filter_once off; sub_filter "${'@'.repeat(64)}" "";`));
  const { whole } = beginning('openai_chat');
  for (const { cut } of Object.values(cuts)) {
    const { answer } = begin(scene, 'openai_chat', { whole,
      play(socket) {
        socket.write(chunked + chunk(whole));
        cut(socket);
      } }, { way: 'on' });
    const text = await cutText('openai_chat', answer);
    assert.ok(text.endsWith('"stream_interrupted"}}\n\n'), text);
  }
});

live('s114: after a complete answer the upstream connection is reused',
  async (t) => {
    const scene = await theatre(t, locations);
    const sockets = new Set();
    const { whole } = beginning('gemini');
    const final = dialects.gemini.final('x').join('');
    for (const early of [true, false, true]) {
      const { answer, uri } = begin(scene, 'gemini', { whole,
        play(socket) {
          sockets.add(socket);
          const text = early ? whole : final;
          socket.write(`${chunked}${chunk(text)}0\r\n\r\n`);
        } }, { way: 'on' });
      if (early) {
        await cutText('gemini', answer);
      } else {
        assert.equal(await answer.text(), final);
      }
      await ended(scene, uri, ...early ? ['interrupted', 'eof']
        : ['finished']);
    }
    assert.equal(sockets.size, 1);
  });

live('s115: a client resumes after the event: it misses none', async (t) => {
  const scene = await theatre(t, locations);
  const all = dialects.openai_responses.final('some words');
  const numberOf = (event) =>
    Number(/"sequence_number":(\d+)/.exec(event)?.[1]);
  for (let n = 1; n < all.length; n++) {
    const whole = all.slice(0, n).join('');
    const { answer } = begin(scene, 'openai_responses', { whole,
      play: (socket) => socket.end(chunked + chunk(whole)) }, { way: 'on' });
    const text = await cutText('openai_responses', answer);
    const saved = events(text).at(-1).sequence_number;
    /* The provider's events from there on (starting_after). */
    const rest = all.filter((event) => numberOf(event) > saved);
    assert.deepEqual([...all.slice(0, n), ...rest], [...all]);
  }
});

/* Two siblings; the second one goes upstream and gets this answer. */
async function pair(t, key, hold, answer) {
  const scene = await stage(t, key, { workers: 2, hold });
  const batch = new Batch(scene, 2);
  await batch.ask();
  const usual = scene.p.answer;
  const go = gate();
  scene.p.answer = (request) => (request.answered.length
    ? go.then(() => answer(batch)) : usual(request));
  const one = batch.continue(batch.results([0]));
  await held(batch, one);
  const two = batch.continue(batch.results([1]));
  await scene.p.arrival(2);
  return { scene, batch, answers: [one, two], go };
}

live('s129: a 500: all siblings get that status', (t) => each(t,
  async (t2, key) => {
    const { answers: [one, two], go } = await pair(t2, key,
      '20s grace=20ms heartbeat=20ms',
      () => json(500, { error: { message: 'boom' } }));
    await one.until((text) => text.includes(': chat-hold'));
    go.open();
    /* Either request may be the claimant, and the second one may wait. */
    assert.match((await told(two)).word, /^(500|error)$/);
    const end = await told(one);
    assert.equal(end.word, 'error', end.text);
    assert.match(end.text, /answered with HTTP 500/);
    assert.match(end.text, /upstream_error/);
  }), several);
