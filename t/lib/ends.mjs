/*
 * ends.mjs: answers that break off: the ways of an upstream, the error event
 * of each dialect, and the log lines of nginx.
 */
import assert from 'node:assert/strict';
import { nginx, post, until } from './harness.mjs';
import { dialects, events, newCalls, newId } from './dialects.mjs';
import { chunk, head, upstream } from './raw.mjs';
import { data, named } from './dialects/wire.mjs';

export const location = (name, lines) => `
  location /${name}/ {
    ${lines}
    proxy_pass http://provider;
    proxy_set_header Connection "";
  }`;

export const streamHead = (more) => head({ 'Content-Type': 'text/event-stream',
  ...more });
export const chunked = streamHead({ 'Transfer-Encoding': 'chunked' });
export const closing = head({ 'Content-Type': 'text/event-stream' },
  '200 OK', '1.0');

/*
 * How an upstream breaks off. play gets the socket, the whole frames that must
 * arrive, the beginning of a further one, and arrived(), which waits until the
 * client has the frames; reason is the reason in the error event. lossy: plain
 * nginx would lose some of the frames.
 */
export const breaks = {
  'FIN, frames whole, length open': { reason: 'eof',
    play(socket, { whole }) {
      socket.end(streamHead({ 'Content-Length': 99999 }) + whole);
    } },
  'FIN, frames whole, no last chunk': { reason: 'eof',
    play(socket, { whole }) {
      socket.end(chunked + chunk(whole));
    } },
  'FIN in a frame': { reason: 'eof',
    play(socket, { whole, part }) {
      socket.end(chunked + chunk(whole + part));
    } },
  'FIN in a chunk': { reason: 'eof',
    play(socket, { whole, part }) {
      socket.end(`${chunked}ffff\r\n${whole}${part}`);
    } },
  'FIN after a while': { reason: 'eof',
    async play(socket, { whole, arrived }) {
      socket.write(chunked + chunk(whole));
      await arrived();
      socket.end();
    } },
  'a reset': { reason: 'reset',
    async play(socket, { whole, part, arrived }) {
      socket.write(chunked + chunk(whole + part));
      await arrived();
      socket.resetAndDestroy();
    } },
  'a chunk header of garbage': { reason: 'malformed', lossy: true,
    play(socket, { whole }) {
      socket.write(`${chunked}${chunk(whole)}garbage\r\n`);
    } },
  'a chunk header of garbage, after a while': { reason: 'malformed',
    async play(socket, { whole, arrived }) {
      socket.write(chunked + chunk(whole));
      await arrived();
      socket.write('garbage\r\n');
    } },
  'delimited by its end, cut in a frame': { way: 'close', reason: 'eof',
    play(socket, { whole, part }) {
      socket.end(closing + whole + part);
    } },
  'delimited by its end, reset': { way: 'close', reason: 'reset',
    async play(socket, { whole, part, arrived }) {
      socket.write(closing + whole + part);
      await arrived();
      socket.resetAndDestroy();
    } },
  'a whole answer without a terminator': { reason: 'eof',
    play(socket, { whole }) {
      socket.write(`${chunked}${chunk(whole)}0\r\n\r\n`);
    } },
  'proxy_read_timeout': { way: 'timeout', reason: 'timeout', late: 1000,
    play(socket, { whole, part }) {
      socket.write(chunked + chunk(whole + part));
    } },
  'nothing at all': { reason: 'eof', empty: true,
    play(socket) {
      socket.write(`${chunked}0\r\n\r\n`);
    } },
  'nothing but comments': { reason: 'eof', comments: true,
    play(socket, { whole }) {
      socket.write(`${chunked}${chunk(whole)}0\r\n\r\n`);
    } },
};

/* A stream up to its second call, and the frame that is cut. */
export function beginning(key, { empty, comments } = {}) {
  const dialect = dialects[key];
  const calls = newCalls(2, dialect.prefix);
  const all = dialect.calls({ calls });
  /* The second event that names the second call. */
  const at = all.findIndex((event) => event.includes(calls[1].id)) + 1;
  return { calls, whole: empty ? '' : comments ? ': one\n\n: two\n\n'
    : all.slice(0, at).join(''), part: all[at].slice(0, -9), at };
}

/* An upstream of scripted sockets behind nginx; one case for each request. */
export async function theatre(t, locations, options) {
  const cases = new Map();
  const u = await upstream(t, (socket, { url }) => {
    const one = cases.get(url.split('/')[2]);
    one.play(socket, one);
    one.broke = performance.now();
  });
  const n = await nginx(t, { upstream: u.port, locations,
    ...options });
  return { u, n, cases };
}

/* Posts to a case; returns the answer and the URI of its log lines. */
export function begin({ n, cases }, key, one, { way, http2, body } = {}) {
  const id = newId('');
  const uri = `/${way}/${id}${dialects[key].path}`;
  cases.set(id, one);
  const answer = post(http2 ? n.port2 : n.port, uri,
    body ?? dialects[key].fresh(), { authorization: id }, { http2 });
  one.arrived = () => answer.until((text) => text.length
    >= one.whole.length);
  return { answer, uri };
}

/* The one line of each log for this request. */
export async function logged({ n }, uri) {
  const seen = await until(() =>
    n.accessLog().find((line) => line.uri === uri));
  const lines = () => n.errorLog().split('\n').filter((line) =>
    line.includes('chat: stream ended') && line.includes(uri));
  return { seen, lines };
}

/* Checks that the log has this end of the stream, once. */
export async function ended(scene, uri, word, reason) {
  const { seen, lines } = await logged(scene, uri);
  await until(() => lines().length);
  const [, said] = /stream ended: ([^,]*)/.exec(lines()[0]);
  assert.equal(lines().length, 1, lines().join('\n'));
  assert.equal(seen.turn_status, word);
  assert.equal(said, reason ? `${word} ${reason}` : word);
}

/* A provider's dialect: the connection breaks after the error event. */
export const isRaw = (key) => !dialects[key].apps;

/* The text of an answer that ended with the dialect's error event. */
export async function cutText(key, answer) {
  const text = await answer.text({ broken: true });
  assert.equal(!!answer.error, isRaw(key), isRaw(key)
    ? `${key}: the truncated response ended as a complete one`
    : `${key}: the response broke: ${answer.error}`);
  return text;
}

/* The message of the error event in a raw dialect, which agents retry on. */
export const terminated = (reason, resumable) => 'Upstream connection error: '
  + `the stream was terminated before its end (${reason})${resumable
    ? '; it can be resumed' : ''}`;

/* Checks that the interruption event follows the frames. */
export function interrupted(key, rest, { reason, calls, sequence, bare }) {
  const list = events(rest);
  const last = list.at(-1);
  assert.ok(rest.includes('stream_interrupted'), rest);
  assert.ok(rest.endsWith('\n\n'));
  assert.ok(!rest.includes('[DONE]'));
  if (key === 'ai_sdk') {
    const half = bare ? [] : [list.shift()];
    for (const event of half) {
      assert.equal(event.type, 'tool-input-error');
      assert.equal(event.toolCallId, calls[1].id);
      assert.equal(event.toolName, calls[1].name);
      assert.deepEqual(event.input, {});
      assert.equal(typeof event.errorText, 'string');
    }
    assert.deepEqual(list[0], { type: 'data-chat-interrupted',
      data: { reason, resumable: false }, transient: true });
    assert.deepEqual(Object.keys(list[1]), ['type', 'errorText']);
    assert.equal(list[1].type, 'error');
    assert.equal(list.length, 2, rest);
    assert.equal(rest, list.length && [...half, ...list].map(data).join(''));
  } else {
    const write = dialects[key].final('x')[0].startsWith('event:')
      ? named : data;
    assert.equal(list.length, 1, rest);
    assert.equal(rest, write(last));
  }
  if (isRaw(key)) {
    assert.equal(dialects[key].error(last), terminated(reason));
  }
  if (key === 'openai_responses') {
    assert.equal(last.code, 'stream_interrupted');
    assert.equal(last.error.message, terminated(reason));
    assert.equal(last.sequence_number, sequence);
  } else if (key === 'openai_chat') {
    assert.equal(last.error.code, 'stream_interrupted');
  } else if (key === 'anthropic') {
    assert.equal(last.type, 'error');
    assert.equal(last.error.type, 'overloaded_error');
  } else if (key === 'gemini') {
    assert.equal(last.error.status, 'UNAVAILABLE');
  } else if (key === 'ag_ui') {
    assert.equal(last.code, 'stream_interrupted');
  }
  assert.equal(typeof dialects[key].error(last), 'string');
  assert.ok(rest.includes(reason), rest);
}
