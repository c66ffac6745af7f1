/*
 * ends.test.mjs: how a stream ends, and what the client is told of it.
 *
 * Every way in which an upstream can break off, in every dialect, buffered
 * and not, over HTTP/1.1 and HTTP/2: the client gets all whole frames, then
 * the dialect's event for it, no terminator, and an answer that ends at once.
 * Each stream's end is logged once, as one of four words.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nginx, pause, post, unbuilt, until } from './harness.mjs';
import { dialects, events, newCalls, newId } from './harness_dialects.mjs';
import { Batch, stage, told } from './harness_batch.mjs';
import { sse } from './harness_provider.mjs';
import { chunk, head, upstream } from './harness_raw.mjs';
import { data, named } from './harness_wire.mjs';

const live = (name, play) => test(name, { skip: unbuilt }, play);
const keys = ['ai_sdk', 'openai_responses', 'openai_chat', 'anthropic'];

const location = (name, lines) => `
  location /${name}/ {
    ${lines}
    proxy_pass http://provider;
    proxy_set_header Connection "";
  }`;
const locations = ['on', 'off'].flatMap((buffering) => Object.entries({
  plain: 'proxy_http_version 1.1;',
  close: 'proxy_http_version 1.0;',
  timeout: 'proxy_http_version 1.1; proxy_read_timeout 300ms;',
}).flatMap(([name, lines]) => Object.entries({
  chat: 'chat auto;', quiet: 'chat auto; chat_interrupted off;',
  dry: 'chat auto; chat_dry_run on;', none: 'chat off;',
}).map(([mode, more]) => location(`${mode}_${name}_${buffering}`,
  `${lines} ${more} proxy_buffering ${buffering};`)))).join('');

const streamHead = (more) => head({ 'Content-Type': 'text/event-stream',
  ...more });
const chunked = streamHead({ 'Transfer-Encoding': 'chunked' });
const closing = head({ 'Content-Type': 'text/event-stream' }, '200 OK', '1.0');

/*
 * How an upstream breaks off. play gets the socket, the whole frames that
 * are to arrive, the beginning of a further one, and arrived(), which waits
 * until the client has the frames; reason is what the client is told. lossy:
 * plain nginx would lose some of the frames.
 */
const breaks = {
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
  'proxy_read_timeout': { way: 'timeout', reason: 'timeout', late: 300,
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

/* A stream as far as into its second call, and the frame that is cut. */
function beginning(key, { empty, comments } = {}) {
  const dialect = dialects[key];
  const calls = newCalls(2, dialect.prefix);
  const all = dialect.calls({ calls });
  /* The second event that names the second call. */
  const at = all.findIndex((event) => event.includes(calls[1].id)) + 1;
  return { calls, whole: empty ? '' : comments ? ': one\n\n: two\n\n'
    : all.slice(0, at).join(''), part: all[at].slice(0, -9), at };
}

async function theatre(t) {
  const cases = new Map();
  const u = await upstream(t, (socket, { url }) => {
    const one = cases.get(url.split('/')[2]);
    one.play(socket, one);
    one.broke = performance.now();
  });
  const n = await nginx(t, { upstream: u.port, locations });
  return { u, n, cases };
}

/* Posts to a case; gives the answer and the way to its log lines. */
function begin({ n, cases }, key, one, { way, http2, body } = {}) {
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
async function logged({ n }, uri) {
  const seen = await until(() =>
    n.accessLog().find((line) => line.uri === uri));
  const lines = () => n.errorLog().split('\n').filter((line) =>
    line.includes('chat: stream ended') && line.includes(uri));
  return { seen, lines };
}

/* A stream ended in this one word, and it was said once. */
async function ended(scene, uri, word, reason) {
  const { seen, lines } = await logged(scene, uri);
  await until(() => lines().length);
  const [, said] = /stream ended: ([^,]*)/.exec(lines()[0]);
  assert.equal(lines().length, 1, lines().join('\n'));
  assert.equal(seen.turn_status, word);
  assert.equal(said, reason ? `${word} ${reason}` : word);
}

/* What follows the frames tells of the interruption, as a client takes it. */
function interrupted(key, rest, { reason, calls, sequence, bare }) {
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
    assert.equal(list.length, 1, rest);
  }
  if (key === 'openai_responses') {
    assert.equal(rest, named(last));
    assert.equal(last.type, 'error');
    assert.equal(last.code, 'stream_interrupted');
    assert.equal(last.sequence_number, sequence);
  } else if (key === 'openai_chat') {
    assert.equal(rest, data(last));
    assert.equal(last.error.code, 'stream_interrupted');
  } else if (key === 'anthropic') {
    assert.equal(rest, named(last));
    assert.equal(last.type, 'error');
    assert.equal(typeof last.error.type, 'string');
  }
  assert.ok(rest.includes(reason), rest);
}

/* Every way of proxying an answer to every kind of client. */
const turns = ['off', 'on'].flatMap((buffering) =>
  [false, true].map((http2) => ({ buffering, http2 })));

for (const key of keys) {
  live(`s71 s74 s75: ${key}: an upstream that breaks off`, async (t) => {
    const scene = await theatre(t);
    for (const [name, kind] of Object.entries(breaks)) {
      await t.test(name, () => Promise.all(turns.map(
        async ({ buffering, http2 }) => {
          const { calls, whole, part, at } = beginning(key, kind);
          const one = { whole, part, play: kind.play };
          const { answer, uri } = begin(scene, key, one,
            { way: `chat_${kind.way ?? 'plain'}_${buffering}`, http2 });
          const text = await answer.text();
          const took = performance.now() - one.broke - (kind.late ?? 0);
          assert.equal(await answer.status, 200);
          assert.equal(text.slice(0, whole.length), whole);
          const bare = kind.empty || kind.comments;
          interrupted(key, text.slice(whole.length), { calls, bare,
            reason: kind.reason, sequence: bare ? 0 : at });
          assert.ok(took < 1000, `ended after ${took} ms`);
          await ended(scene, uri, 'interrupted', kind.reason);
        })));
    }
  });
}

live('answers that are no streams', async (t) => {
  const scene = await theatre(t);
  const error = JSON.stringify({ error: { message: 'no' } });
  const page = '<p>data: {"type":"start"}</p>\n\n';
  const kinds = {
    's74: 500 with JSON': { status: 500, word: 'failed', bytes: error,
      type: 'application/json' },
    '200 with HTML': { status: 200, word: 'finished', bytes: page,
      type: 'text/html' },
  };
  for (const [name, { status, word, bytes, type }] of Object.entries(kinds)) {
    for (const key of keys) {
      await t.test(`${name}: ${key}`, () => Promise.all(turns.map(
        async ({ buffering, http2 }) => {
          const { answer, uri } = begin(scene, key, {
            whole: bytes, play: (socket) => socket.write(head({
              'Content-Type': type, 'Content-Length': bytes.length,
            }, `${status} X`) + bytes) },
          { way: `chat_plain_${buffering}`, http2 });
          assert.equal(await answer.text(), bytes);
          const got = await answer.head;
          assert.equal(got.status, status);
          assert.equal(got.headers['content-type'], type);
          const { seen, lines } = await logged(scene, uri);
          assert.equal(seen.turn_status, word);
          assert.equal(lines().length, 0);
        })));
    }
  }
});

/* The end of each dialect's streams in its varieties. */
const terminals = {
  ai_sdk: {
    finished: { 'finish, [DONE]': [data({ type: 'finish' }),
      'data: [DONE]\n\n'],
    'finish alone': [data({ type: 'finish' })],
    '[DONE] alone': ['data: [DONE]\n\n'] },
    failed: { error: [data({ type: 'error', errorText: 'boom' })],
      'error, finish, [DONE]': [data({ type: 'error', errorText: 'boom' }),
        data({ type: 'finish-step' }), data({ type: 'finish' }),
        'data: [DONE]\n\n'] },
    aborted: { abort: [data({ type: 'abort' }), 'data: [DONE]\n\n'] },
    'interrupted upstream': { 'finish, interrupted': [
      data({ type: 'finish', finishReason: 'interrupted' }),
      'data: [DONE]\n\n'] },
  },
  openai_responses: {
    finished: { incomplete: [named({ type: 'response.incomplete',
      sequence_number: 99, response: { id: 'r', status: 'incomplete',
        incomplete_details: { reason: 'max_output_tokens' },
        output: [] } })] },
    failed: { error: [named({ type: 'error', code: 'server_error',
      message: 'boom', param: null, sequence_number: 99 })],
    'response.failed': [named({ type: 'response.failed',
      sequence_number: 99, response: { id: 'r', status: 'failed', output: [],
        error: { code: 'server_error', message: 'boom' } } })] },
  },
  openai_chat: {
    finished: {
      'finish_reason alone': [dialects.openai_chat.chunk('c', {}, 'stop')],
      '[DONE] alone': ['data: [DONE]\n\n'],
      'usage behind it': [dialects.openai_chat.chunk('c', {}, 'length'),
        data({ id: 'c', object: 'chat.completion.chunk', created: 1,
          model: 'm', choices: [], usage: { total_tokens: 3 } })] },
    failed: { error: [data({ error: { message: 'boom', code: null } })] },
  },
  anthropic: {
    finished: { message_stop: dialects.anthropic.stop('end_turn') },
    failed: { error: [named({ type: 'error', error: {
      type: 'overloaded_error', message: 'Overloaded' } })] },
  },
};

for (const key of keys) {
  live(`s72 s73 s74: ${key}: ends that are none of ours`, async (t) => {
    const scene = await theatre(t);
    for (const [words, kinds] of Object.entries(terminals[key])) {
      const [word, reason] = words.split(' ');
      for (const [name, tail] of Object.entries(kinds)) {
        for (const cut of [false, true]) {
          await t.test(`${word}: ${name}${cut ? ', then cut' : ''}`, () =>
            Promise.all(turns.map(async ({ buffering, http2 }) => {
              const { whole: lead } = beginning(key);
              const whole = lead + tail.join('');
              const { answer, uri } = begin(scene, key, { whole,
                play: (socket) => (cut ? socket.end(chunked + chunk(whole))
                  : socket.write(`${chunked}${chunk(whole)}0\r\n\r\n`)) },
              { way: `chat_plain_${buffering}`, http2 });
              assert.equal(await answer.text(), whole);
              await ended(scene, uri, word, reason);
            })));
        }
      }
    }
  });
}

/* Answers of two locations that are to be the same; gives one of them. */
async function same(scene, one, ways, { key, http2 }) {
  const got = [];
  for (const way of ways) {
    const { answer, uri } = begin(scene, key, { ...one }, { way, http2 });
    const text = await answer.text({ broken: true });
    got.push({ text, broken: !!answer.error, uri });
  }
  assert.equal(got[0].text, got[1].text);
  assert.equal(got[0].broken, got[1].broken, 'as plain nginx ends it');
  return got[0];
}

/* Where plain nginx keeps small writes back, nobody can wait for them. */
const comparable = (name, { lossy }, buffering) =>
  !lossy && (buffering === 'off' || !/while|reset/.test(name));

for (const mode of ['quiet', 'dry']) {
  const directive = { quiet: 'chat_interrupted off', dry: 'chat_dry_run' };
  live(`${directive[mode]}: an upstream that breaks off`, async (t) => {
    const scene = await theatre(t);
    for (const [name, kind] of Object.entries(breaks)) {
      await t.test(name, () => Promise.all(keys.flatMap((key) =>
        turns.map(async ({ buffering, http2 }) => {
          const it = beginning(key, kind);
          const way = `${kind.way ?? 'plain'}_${buffering}`;
          if (!comparable(name, kind, buffering)) {
            return;
          }
          const { text, uri } = await same(scene, { ...it, play: kind.play },
            [`${mode}_${way}`, `none_${way}`], { key, http2 });
          assert.ok(text.startsWith(it.whole));
          await ended(scene, uri, 'interrupted', kind.reason);
        }))));
    }
  });
}

live('a stream that is no chat breaks as it would without', async (t) => {
  const scene = await theatre(t);
  const whole = 'event: tick\ndata: 1\n\nid: 7\ndata: {"type":"other"}\n\n';
  for (const [name, kind] of Object.entries(breaks)) {
    if (kind.empty || kind.comments) {
      continue;
    }
    await t.test(name, () => Promise.all(keys.flatMap((key) =>
      turns.map(async ({ buffering, http2 }) => {
        if (!comparable(name, kind, buffering)) {
          return;
        }
        const way = `${kind.way ?? 'plain'}_${buffering}`;
        const { text } = await same(scene, { whole, part: 'data: 2',
          play: kind.play }, [`chat_${way}`, `none_${way}`], { key, http2 });
        assert.ok(text.startsWith(whole));
      }))));
  }
});

live('s78: a slow first token; comments reach the client', async (t) => {
  for (const buffering of ['off', 'on']) {
    for (const http2 of [false, true]) {
      await t.test(`buffering ${buffering}, HTTP/${http2 ? 2 : 1}`, () =>
        Promise.all(keys.map(async (key) => {
          const scene = await theatre(t);
          const dialect = dialects[key];
          const words = dialect.final('late');
          let sent = '';
          const { answer, uri } = begin(scene, key, { whole: '',
            async play(socket) {
              socket.write(chunked);
              for (const event of [': a\n\n', ': b\n\n', ...words]) {
                sent += event;
                socket.write(chunk(event));
                const wanted = sent;
                await answer.until((text) => text === wanted);
              }
              socket.write('0\r\n\r\n');
            } }, { way: `chat_plain_${buffering}`, http2 });
          assert.equal(await answer.text(), `: a\n\n: b\n\n${words.join('')}`);
          await ended(scene, uri, 'finished');
        })));
    }
  }
});

live('s74: the client leaves', async (t) => {
  const scene = await theatre(t);
  for (const { buffering, http2 } of turns) {
    await t.test(`buffering ${buffering}, HTTP/${http2 ? 2 : 1}`, () =>
      Promise.all(keys.map(async (key) => {
        const { whole, part } = beginning(key);
        const { answer, uri } = begin(scene, key, { whole, part,
          play: (socket) => socket.write(chunked + chunk(whole + part)) },
        { way: `chat_plain_${buffering}`, http2 });
        await answer.until((text) => text === whole);
        answer.abort();
        await ended(scene, uri, 'aborted');
      })));
  }
});

for (const key of keys) {
  live(`s57: ${key}: an interruption releases nothing`, async (t) => {
    const scene = await stage(t, key, { workers: 2, hold: '700ms',
      location: 'proxy_read_timeout 300ms;' });
    const batch = new Batch(scene, 2);
    const { from } = batch;
    /* Both calls are known, the seal never comes. */
    const tail = from.findIndex((event) =>
      /finish-step|response.completed|finish_reason":"t|message_delta/
        .test(event));
    scene.p.answer = (request) => (request.answered.length
      ? sse(batch.dialect.final(`done ${batch.key}`))
      : sse(Object.assign(from.slice(0, tail),
        { id: from.id, calls: from.calls }), { end: 'open' }));
    const asking = batch.post(
      batch.dialect.fresh({ conversation: batch.conversation }));
    await asking.until((text) => text.includes(from[tail - 1]));
    const one = batch.continue(batch.results([0]));
    assert.equal(scene.p.continuations().length, 0);
    interrupted(key, (await asking.text()).slice(
      from.slice(0, tail).join('').length),
    { reason: 'timeout', bare: true, sequence: tail });
    const { word } = await told(one);
    assert.equal(word, key === 'ai_sdk' ? 'bounce' : '409');
    await pause(100);
    assert.equal(batch.upstream().length, 0);

    await t.test('the next post goes on', async () => {
      const { word: last } = await told(batch.continue(batch.results([1])));
      assert.equal(last, 'final');
      batch.released();
    });
  });
}
