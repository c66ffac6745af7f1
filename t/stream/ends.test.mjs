/*
 * ends.test.mjs: how a stream ends, and what the client learns of it.
 *
 * Every way in which an upstream can break off, in every dialect, buffered and
 * not, over HTTP/1.1 and HTTP/2: the client gets all whole frames, then the
 * dialect's error event, no terminator, and the answer ends at once; in the
 * dialects of providers the connection breaks. The log has one line for the
 * end of each stream, with one of four words.
 *
 * Suite: asan.
 */
import assert from 'node:assert/strict';
import http from 'node:http';
import { test } from 'node:test';
import { patience, unbuilt } from '../lib/harness.mjs';
import { handled } from '../lib/handled.mjs';
import { dialects, names as keys } from '../lib/dialects.mjs';
import { Batch, seals, stage, told } from '../lib/batch.mjs';
import {
  begin, beginning, breaks, chunked, cutText, ended, interrupted, isRaw,
  location, logged, theatre as build,
} from '../lib/ends.mjs';
import { sse } from '../lib/provider.mjs';
import { chunk, head } from '../lib/raw.mjs';
import { data, named } from '../lib/dialects/wire.mjs';

const live = (name, play) => test(name, { skip: unbuilt }, play);

const locations = ['on', 'off'].flatMap((buffering) => Object.entries({
  plain: 'proxy_http_version 1.1;',
  close: 'proxy_http_version 1.0;',
  timeout: 'proxy_http_version 1.1; proxy_read_timeout 1s;',
}).flatMap(([name, lines]) => Object.entries({
  chat: 'chat auto;', dry: 'chat auto; chat_dry_run on;', none: 'chat off;',
}).map(([mode, more]) => location(`${mode}_${name}_${buffering}`,
  `${lines} ${more} proxy_buffering ${buffering};`)))).join('');

const theatre = (t) => build(t, locations);

/* Every way of proxying an answer to every kind of client. */
const turns = ['off', 'on'].flatMap((buffering) =>
  [false, true].map((http2) => ({ buffering, http2 })));

for (const key of keys) {
  live(`s71 s74 s75 s113 s114 s115: ${key}: an upstream that breaks off`,
    async (t) => {
      const scene = await theatre(t);
      for (const [name, kind] of Object.entries(breaks)) {
        await t.test(name, () => Promise.all(turns.map(
          async ({ buffering, http2 }) => {
            const { calls, whole, part, at } = beginning(key, kind);
            const one = { whole, part, play: kind.play };
            const { answer, uri } = begin(scene, key, one,
              { way: `chat_${kind.way ?? 'plain'}_${buffering}`, http2 });
            const text = await cutText(key, answer);
            const took = performance.now() - one.broke - (kind.late ?? 0);
            assert.equal(await answer.status, 200);
            assert.equal(text.slice(0, whole.length), whole);
            const bare = kind.empty || kind.comments;
            interrupted(key, text.slice(whole.length), { calls, bare,
              reason: kind.reason, sequence: bare ? 0 : at - 1 });
            assert.ok(took < 1000 * patience, `ended after ${took} ms`);
            await ended(scene, uri, 'interrupted', kind.reason);
          })));
      }
    });
}

/* The whole text of an answer over a connection of that agent. */
function text(agent, port, key, way, authorization) {
  const path = `/${way}/${authorization}${dialects[key].path}`;
  return new Promise((resolve, reject) => {
    const request = http.request({ host: '127.0.0.1', agent, port, path,
      method: 'POST', headers: { authorization,
        'content-type': 'application/json' } },
    (response) => {
      let all = '';
      response.setEncoding('utf8').on('data', (piece) => { all += piece; })
        .on('end', () => resolve([request.reusedSocket, all]))
        .on('error', reject);
    }).on('error', reject);
    request.end(JSON.stringify(dialects[key].fresh()));
  });
}

live('ag_ui: after the error event the connection stays usable', async (t) => {
  const { n, cases } = await theatre(t);
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  t.after(() => agent.destroy());
  const { whole, part } = beginning('ag_ui');
  const kinds = ['FIN in a frame', 'proxy_read_timeout',
    'a chunk header of garbage', 'a whole answer without a terminator'];
  for (const [i, kind] of kinds.entries()) {
    const { way = 'plain', play } = breaks[kind];
    cases.set(`${i}`, { whole, part, play });
    const [reused, got] = await text(agent, n.port, 'ag_ui',
      `chat_${way}_off`, `${i}`);
    assert.match(got, /stream_interrupted/);
    assert.equal(reused, i > 0);
  }
});

live('answers that are no streams pass unchanged', async (t) => {
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

const { run } = dialects.ag_ui;

/* The variants of the end of each dialect's streams. */
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
      'usage after it': [dialects.openai_chat.chunk('c', {}, 'length'),
        data({ id: 'c', object: 'chat.completion.chunk', created: 1,
          model: 'm', choices: [], usage: { total_tokens: 3 } })] },
    failed: { error: [data({ error: { message: 'boom', code: null } })] },
  },
  anthropic: {
    finished: { message_stop: dialects.anthropic.stop('end_turn') },
    failed: { error: [named({ type: 'error', error: {
      type: 'overloaded_error', message: 'Overloaded' } })] },
  },
  gemini: {
    finished: {
      STOP: [dialects.gemini.chunk('g', [], { finishReason: 'STOP' })],
      'MAX_TOKENS, usage after it': [
        dialects.gemini.chunk('g', [], { finishReason: 'MAX_TOKENS' }),
        data({ usageMetadata: { totalTokenCount: 3 }, responseId: 'g' })] },
    failed: { error: [data({ error: { code: 503, message: 'Overloaded',
      status: 'UNAVAILABLE' } })] },
  },
  ag_ui: {
    finished: { RUN_FINISHED: [run('RUN_FINISHED')],
      'an interrupt': [run('RUN_FINISHED', 'r', { outcome: {
        type: 'interrupt', interrupts: [{ id: 'i1', reason: 'ask' }] } })] },
    failed: { RUN_ERROR: [data({ type: 'RUN_ERROR', message: 'boom' })],
      'RUN_ERROR after the end': [data({ type: 'RUN_ERROR', message: 'no' }),
        run('RUN_FINISHED')] },
    aborted: { cancelled: [run('RUN_FINISHED', 'r',
      { outcome: { type: 'cancelled' } })] },
  },
};

for (const key of keys) {
  live(`s72 s73 s74: ${key}: the upstream's own ends pass`, async (t) => {
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
              /*
               * An error event of the upstream does not make a cut answer
               * complete.
               */
              const cuts = cut && word !== 'finished' && isRaw(key);
              assert.equal(await answer.text({ broken: cuts }), whole);
              assert.equal(!!answer.error, cuts, name);
              await ended(scene, uri, word, reason);
            })));
        }
      }
    }
  });
}

/* Checks that two locations answer the same; returns one of the answers. */
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

/* Plain nginx delays small writes here, so the test does not wait for them. */
const comparable = (name, buffering) =>
  buffering === 'off' || !/while|reset/.test(name);

live('chat_dry_run: an upstream that breaks off', async (t) => {
  const scene = await theatre(t);
  for (const [name, kind] of Object.entries(breaks)) {
    await t.test(name, () => Promise.all(keys.flatMap((key) =>
      turns.map(async ({ buffering, http2 }) => {
        const it = beginning(key, kind);
        const way = `${kind.way ?? 'plain'}_${buffering}`;
        if (!comparable(name, buffering)) {
          return;
        }
        const { text, uri } = await same(scene, { ...it, play: kind.play },
          [`dry_${way}`, `none_${way}`], { key, http2 });
        assert.ok(kind.lossy || text.startsWith(it.whole));
        await ended(scene, uri, 'interrupted', kind.reason);
      }))));
  }
});

live('a stream that is no chat breaks as without the module', async (t) => {
  const scene = await theatre(t);
  const whole = 'event: tick\ndata: 1\n\nid: 7\ndata: {"type":"other"}\n\n';
  for (const [name, kind] of Object.entries(breaks)) {
    if (kind.empty || kind.comments) {
      continue;
    }
    await t.test(name, () => Promise.all(keys.flatMap((key) =>
      turns.map(async ({ buffering, http2 }) => {
        if (kind.lossy || !comparable(name, buffering)) {
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

live('s74: the client disconnects', async (t) => {
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

for (const [key, [reason, location]] of keys.flatMap((name) => Object.entries({
  timeout: 'proxy_read_timeout 1s;', stall: 'chat_stall 300ms;',
}).map((silence) => [name, silence]))) {
  live(`s57: ${key}: a stream's ${reason} releases nothing`, async (t) => {
    const scene = await stage(t, key, { workers: 2, hold: '2s', location });
    const batch = new Batch(scene, 2);
    const { from } = batch;
    /* Both calls are known, the seal never comes. */
    const tail = from.findIndex((event) => seals.test(event));
    scene.p.answer = (request) => (request.answered.length
      ? sse(batch.dialect.final(`done ${batch.key}`))
      : sse(Object.assign(from.slice(0, tail),
        { id: from.id, calls: from.calls }), { end: 'open' }));
    const asking = batch.post(
      batch.dialect.fresh({ conversation: batch.conversation }));
    await asking.until((text) => text.includes(from[tail - 1]));
    const one = batch.continue(batch.results([0]));
    assert.equal(scene.p.continuations().length, 0);
    interrupted(key, (await cutText(key, asking)).slice(
      from.slice(0, tail).join('').length),
    { reason, bare: true, sequence: tail - 1 });
    const { word } = await told(one);
    assert.equal(word, dialects[key].bounces ?? '409');
    await handled(batch);
    assert.equal(batch.upstream().length, 0);

    await t.test('the next request goes upstream', async () => {
      const { word: last } = await told(batch.continue(batch.results([1])));
      assert.equal(last, 'final');
      batch.released();
    });
  });
}
