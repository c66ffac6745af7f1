/*
 * malformed_streams.test.mjs: answers that a correct provider never sends: no
 * streams, broken frames, frames without an end, mutants of good ones.
 *
 * Suite: asan.
 */
import assert from 'node:assert/strict';
import { post } from '../lib/harness.mjs';
import { count, flood, open } from '../lib/hostile.mjs';
import { dialects, newCalls } from '../lib/dialects.mjs';
import { cutText, isRaw } from '../lib/ends.mjs';
import { live } from '../lib/hold.mjs';
import { mutantStream, random } from '../lib/mutants.mjs';
import { json, sse } from '../lib/provider.mjs';

const keys = Object.keys(dialects);

live('answers that are mutants', async (t) => {
  const next = random(3);
  const streams = keys.flatMap((key) => {
    const dialect = dialects[key];
    const from = dialect.calls({ calls: newCalls(3, dialect.prefix) });
    return [{ key, from }, { key, from: dialect.final('some words') }];
  });
  const { p, n } = await open(t, 'chat_hold 0; chat_limits event=8k;',
    { chat: 'auto' });
  const ends = ['end', 'end', 'reset'];
  p.answer = ({ headers }) => {
    const { from } = streams[headers['x-stream']];
    return sse([mutantStream(from, next)], { end: ends[next(3)] });
  };
  const list = Array.from({ length: count / 3 }, () => {
    const number = next(streams.length);
    const { key, from } = streams[number];
    const dialect = dialects[key];
    const results = Object.fromEntries(from.calls.map(({ id }) => [id, 1]));
    const body = from.calls.length && next(2)
      ? dialect.continuation({ from, conversation: 'c', results })
      : dialect.fresh();
    return { path: dialect.path, body: Buffer.from(JSON.stringify(body)),
      headers: { ...dialect.headers, 'x-stream': String(number) } };
  });
  for (const end of await flood(n, list)) {
    /* 409: a chain with more calls in its stream than in the request. */
    assert.ok([200, 409, 502].includes(end.status) || end.error,
      JSON.stringify(end));
  }
});

const html = '<!doctype html><title>502</title><p>Bad gateway</p>';

/*
 * Per name, [answer]; null: an answer that begins with events of the dialect.
 */
const answers = {
  'HTML': [{ ...json(200, ''), parts: [html],
    headers: { 'content-type': 'text/html' } }],
  'HTML as a stream': [sse([html])],
  '500': [json(500, { error: { message: 'x' } })],
  '500 without a type': [{ ...json(500, ''), parts: ['x'],
    headers: { 'content-type': '' } }],
  'a stream that is a 429': [sse(['data: {"error":1}\n\n'],
    { status: 429 })],
  'nothing': [{ ...json(200, ''), parts: [] }],
  'no content': [{ ...json(204, ''), parts: [] }],
  'JSON as a stream': [sse(['{"id":"x","choices":[]}'])],
  'bytes of no text': [sse([Buffer.from([0, 255, 254, 10, 10, 0, 13])])],
  'a frame without end': [sse([`data: ${'x'.repeat(3e6)}`])],
  'a line without end, in the dialect': null,
  'a frame of a million lines': [sse(['data: 1\n'.repeat(5e5)])],
};

for (const key of keys) {
  live(`${key}: answers that are no streams`, async (t) => {
    const dialect = dialects[key];
    const { p, n } = await open(t, '', { chat: dialect.name });
    for (const [name, made] of Object.entries(answers)) {
      const long = `data: {"type":"${'x'.repeat(2e6)}`;
      const [script] = made ?? [sse([...dialect.final('a').slice(0, 2),
        long])];
      p.answer = () => script;
      const answer = post(n.port, dialect.path, dialect.fresh(),
        dialect.headers);
      const text = await answer.text({ broken: isRaw(key) });
      const sent = script.parts.map(String).join('');
      assert.equal(await answer.status, script.status, name);
      assert.equal(!!answer.error,
        isRaw(key) && text.includes('stream_interrupted'), name);
      if (made) {
        /* Unchanged; a stream without an end gets the dialect's error. */
        assert.ok(text === sent || text.includes('stream_interrupted'), name);
        assert.ok(text.startsWith(sent) || sent.length < 1000,
          `${name}: ${text.length}`);
      } else {
        assert.ok(text.startsWith(script.parts.slice(0, 2).join('')), name);
        assert.ok(text.length > sent.length - 2e5
          || /error|interrupted/.test(text), `${name}: ${text.length}`);
      }
    }
  });

  live(`${key}: a provider that closes in the middle of a frame`,
    async (t) => {
      const dialect = dialects[key];
      const { p, n } = await open(t, '', { chat: dialect.name });
      const events = dialect.final('some words');
      for (const end of ['end', 'reset']) {
        for (const at of [1, 7, Math.floor(events[1].length / 2)]) {
          p.answer = () => sse([events[0], events[1].slice(0, at)], { end });
          const answer = post(n.port, dialect.path, dialect.fresh(),
            dialect.headers);
          const text = await cutText(key, answer);
          assert.ok(text.startsWith(events[0]), text);
          assert.ok(text.includes('stream_interrupted'), text);
          for (const line of text.match(/^data: .*$/gm)) {
            if (line !== 'data: [DONE]') {
              assert.doesNotThrow(() => JSON.parse(line.slice(6)), line);
            }
          }
        }
      }
    });
}
