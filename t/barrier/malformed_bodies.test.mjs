/*
 * malformed_bodies.test.mjs: bodies that a correct client never sends.
 *
 * Not JSON, too deep, too large, wrong types, duplicate keys, in each dialect.
 * A body that the module cannot read goes upstream unchanged; the workers
 * survive and do not grow.
 *
 * Suite: asan, plain.
 */
import assert from 'node:assert/strict';
import { store } from '../lib/harness.mjs';
import { count, flood, mutants, open, send } from '../lib/hostile.mjs';
import { dialects, newCalls, newId } from '../lib/dialects.mjs';
import { live } from '../lib/hold.mjs';
import { mutantStream, random } from '../lib/mutants.mjs';
import { json, sse } from '../lib/provider.mjs';

const keys = Object.keys(dialects);

const nest = (n, inner = '1') => '['.repeat(n) + inner + ']'.repeat(n);

/* Per name, the body made from a valid one (text). */
const broken = {
  'nothing': () => '',
  'white space': () => ' \n\t ',
  'not JSON': () => 'model=gpt&stream=true',
  'half of it': (text) => text.slice(0, text.length / 2),
  'one byte less': (text) => text.slice(0, -1),
  'trailing bytes': (text) => `${text}{}`,
  'two documents': (text) => `${text}\n${text}`,
  'a byte order mark': (text) => `\ufeff${text}`,
  'a comment': (text) => `/* hello */${text}`,
  'a trailing comma': (text) => text.replace(/}$/, ',}'),
  'single quotes': (text) => text.replaceAll('"', '\''),
  'NaN': (text) => text.replace('{', '{"x":NaN,'),
  'a million brackets': () => '['.repeat(1e6),
  'a million braces': () => '{"a":'.repeat(2e5),
  'a million nested arrays': () => nest(1e6),
  '129 levels': (text) => text.replace('{', `{"x":${nest(129)},`),
  'invalid UTF-8': (text) => Buffer.concat([Buffer.from(text.slice(0, 1)),
    Buffer.from('"x":"'), Buffer.from([0xc3, 0x28, 0xff, 0xed, 0xa0, 0x80]),
    Buffer.from(`",${text.slice(1)}`)]),
  'a NUL': (text) => text.replace('{', '{"x":"\0",'),
  'NULs': () => '\0'.repeat(1000),
  'a string': () => '"hello"',
  'a number': () => '1e999',
  'null': () => 'null',
  'an array': (text) => `[${text}]`,
  'an empty object': () => '{}',
};

for (const key of [...keys, 'auto']) {
  live(`${key}: malformed bodies`, async (t) => {
    const dialect = dialects[key] ?? dialects.openai_chat;
    const { p, n } = await open(t, 'chat_repair off;',
      { chat: dialects[key]?.name ?? 'auto' });
    const from = dialect.calls({ calls: newCalls(2, dialect.prefix) });
    const text = JSON.stringify(dialect.continuation({ from,
      conversation: 'c', results: { [from.calls[0].id]: 1 } }));
    for (const [name, make] of Object.entries(broken)) {
      for (const chunked of [false, true]) {
        const body = Buffer.from(make(text));
        const number = p.requests.length;
        const end = await send(n, dialect.path, body, {}, { chunked });
        assert.equal(end.status, 200, name);
        assert.equal(p.requests.length, number + 1, name);
        assert.ok(p.requests[number].raw.equals(body), `${name}: untouched`);
        assert.ok(/levels|million/.test(name) ? end.verdict !== 'held'
          : ['none', 'passed', 'unmanaged'].includes(end.verdict),
        `${name}: ${end.verdict}`);
      }
    }
  });
}

live('above a limit: refused, forwarded unchanged', async (t) => {
  const { openai_chat: chat } = dialects;
  const from = chat.calls({ calls: newCalls(2) });
  const results = { [from.calls[0].id]: 'r' };
  const body = chat.continuation({ from, results });
  const cases = {
    'too deep': ['', { ...body, x: JSON.parse(nest(200)) }, 'refused'],
    'too large': ['chat_limits body=1k;', { ...body, x: 'y'.repeat(2000) },
      'refused'],
    'too large, in a file': [
      'chat_limits body=4k; client_body_buffer_size 1k;',
      { ...body, x: 'y'.repeat(20000) }, 'refused'],
    'ids of 10 KB': ['', JSON.parse(JSON.stringify(body)
      .replaceAll(from.calls[0].id, `call_${newId('x').repeat(400)}`)
      .replaceAll(from.calls[1].id, `call_${newId('y').repeat(400)}`)),
    'unmanaged'],
    'a second id of 10 KB': ['', JSON.parse(JSON.stringify(body)
      .replaceAll(from.calls[1].id, `call_${newId('y').repeat(400)}`)),
    'refused'],
  };
  for (const [name, [location, value, expected]] of Object.entries(cases)) {
    for (const chunked of [false, true]) {
      await t.test(`${name}${chunked ? ', chunked' : ''}`, async (t2) => {
        const { p, n } = await open(t2, location, { chat: 'openai_chat' });
        const text = JSON.stringify(value);
        const end = await send(n, chat.path, text, {}, { chunked });
        assert.equal(end.status, 200);
        assert.equal(end.verdict, expected);
        assert.equal(String(p.requests[0].raw), text);
      });
    }
  }
});

live('a duplicate key', async (t) => {
  for (const key of keys) {
    await t.test(key, async (t2) => {
      const dialect = dialects[key];
      const { p, n } = await open(t2, 'chat_hold 0;', { chat: dialect.name });
      const from = dialect.calls({ calls: newCalls(2, dialect.prefix) });
      const text = JSON.stringify(dialect.continuation({ from,
        conversation: 'c', results: { [from.calls[0].id]: 1 } }));
      const list = text.includes('"messages":') ? 'messages' : 'input';
      const doubled = [
        text.replace('{', `{"${list}":[],`),
        text.replace(/}$/, `,"${list}":[]}`),
        text.replace(/}$/, ',"stream":true,"stream":false}'),
        text.replaceAll(/"(role|type)":"(\w+)"/g, '"$1":"x","$1":"$2"'),
        text.replaceAll(/"(\w*[iI]d|state)":"/g, '"$1":"x","$1":"')];
      for (const body of doubled) {
        const number = p.requests.length;
        const end = await send(n, dialect.path, body);
        /* Read as JSON.parse() reads it, or not at all; never rewritten. */
        if (p.requests.length > number) {
          assert.equal(String(p.requests[number].raw), body);
        } else {
          assert.equal(end.verdict, 'bounced', body);
        }
      }
    });
  }
});

live('mutants that need no change arrive unchanged', async (t) => {
  for (const chat of ['auto', 'ai_sdk', 'anthropic']) {
    await t.test(chat, async (t2) => {
      const { p, n } = await open(t2, 'chat_hold off; chat_repair off;',
        { chat });
      const list = mutants(1, count / 3);
      const ends = await flood(n, list);
      const arrived = new Map(p.requests.map((request) =>
        [request.headers['x-number'], request.raw]));
      for (const [i, { body, path }] of list.entries()) {
        assert.equal(ends[i].status, 200,
          `${i}: ${ends[i].error} ${path} ${body}`);
        assert.ok(arrived.get(String(i))?.equals(body),
          `${i}: ${path} ${body}\n${arrived.get(String(i))}`);
      }
    });
  }
});

live('mutants that the module holds, merges and answers', async (t) => {
  const { p, n } = await open(t, 'chat_hold 0; chat_limits held=8;',
    { chat: 'auto' });
  const list = mutants(2, count);
  const ends = await flood(n, list);
  const arrived = new Map(p.requests.map((request) =>
    [request.headers['x-number'], request.raw]));
  const verdicts = new Map();
  for (const [i, { body, path }] of list.entries()) {
    const { status, verdict: word, error } = ends[i];
    verdicts.set(word, (verdicts.get(word) ?? 0) + 1);
    assert.ok([200, 409].includes(status),
      `${i}: ${status} ${error} ${path} ${body}`);
    const raw = arrived.get(String(i));
    assert.equal(raw === undefined, ['attached', 'bounced', 'conflict',
      'empty', 'superseded'].includes(word), `${i}: ${word}`);
    if (raw && !raw.equals(body)) {
      assert.doesNotThrow(() => JSON.parse(raw), String(raw));
    }
  }
  for (const word of ['none', 'passed', 'bounced']) {
    assert.ok(verdicts.get(word) > 10, `${[...verdicts]}`);
  }
});

/* ASan keeps freed memory. */
(process.env.CHAT_ASAN ? () => {} : live)('constant memory', async (t) => {
  const { p, n } = await open(t, 'chat_hold 0;',
    { chat: 'auto', workers: 1, ...(store === 'shm' && { store: 'shm:1m' }) });
  const next = random(4);
  const { from } = { from: dialects.openai_chat.calls({
    calls: newCalls(3) }) };
  p.answer = ({ headers }) => (Number(headers['x-number']) % 3
    ? json(200, {}) : sse([mutantStream(from, next)]));
  const round = (seed) => flood(n, mutants(seed, 700));
  await round(5);
  await round(6);
  const before = n.memory();
  for (let seed = 7; seed < 11; seed++) {
    await round(seed);
  }
  const grown = n.memory() - before;
  assert.ok(grown < 1.5e6, `${grown} bytes more`);
});
