/*
 * body_cost.test.mjs: no body blocks a worker or fills its memory.
 *
 * An attack may keep its worker busy at most twice as long as a harmless body
 * of its size, or 50 ms longer.
 *
 * Suite: plain.
 */
import assert from 'node:assert/strict';
import http from 'node:http';
import { test } from 'node:test';
import { nginx, post, unbuilt, until } from '../lib/harness.mjs';
import { compare, cost } from '../lib/cpu.mjs';

const live = unbuilt ? test.skip : test;
const path = '/v1/chat/completions';
const headers = { authorization: 'Bearer k' };

const say = (messages) => JSON.stringify({ model: 'm', stream: true,
  messages });
const asked = (ids) => ({ role: 'assistant', tool_calls: ids.map((id) =>
  ({ id, type: 'function', function: { name: 'f', arguments: '{}' } })) });
const user = { role: 'user', content: 'x' };
const many = (n, make) => Array.from({ length: n }, (_, i) => make(i));

/* Ids with equal FNV-1a hashes in the lowest 16 bits. */
function collidingFnv(n) {
  const fnv = (text) => [...text].reduce((hash, c) =>
    Math.imul(hash ^ c.charCodeAt(), 0x193) & 0xffff, 2166136261 & 0xffff);
  const letters = '0123456789abcdefghijklmnopqrstuvwxyz';
  const ids = [];
  for (let i = 0; ids.length < n; i++) {
    const prefix = `call_${i.toString(36).padStart(8, '0')}`;
    const have = fnv(prefix);
    for (const last of letters) {
      const middle = have ^ (last.charCodeAt() * 0x449b & 0xffff);
      if (middle < 0x80 && letters.includes(String.fromCharCode(middle))) {
        ids.push(prefix + String.fromCharCode(middle) + last);
        break;
      }
    }
  }
  return ids;
}

/*
 * Ids that the hash of chat_table.c does not tell apart under the key that it
 * has before a worker sets one: their first eight bytes are that key's.
 */
const collidingMix = (n) => Array.from({ length: n }, (_, i) =>
  `a key of${String(i).padStart(8, '0')}`);

const attacks = {
  'many results beside many calls': () => say([user,
    asked(many(1024, (i) => `call_${1000 + i}`)),
    ...many(100000, () => ({ role: 'tool', tool_call_id: 'call_none',
      content: '' }))]),
  'one large result of many twins': () => say([user,
    asked(many(1024, () => 'a')),
    { role: 'tool', tool_call_id: 'a', content: 'x'.repeat(4e6) }]),
  'one result with many members': () => say([user,
    asked(many(1024, () => 'a')), { role: 'tool', tool_call_id: 'a',
      content: '1', ...Object.fromEntries(many(150000, (i) =>
        [`m${i}`, 1])) }]),
  'one value for each two bytes': () =>
    `{"messages":[{"role":"user","content":[${'1,'.repeat(5e5)}1]}]}`,
};

/* The same length and number of values, with nothing to look up. */
const harmless = (size) => say(many(Math.ceil(size / 44), () =>
  ({ role: 'user', name: 'call_none', content: '' })));

const chunk = (delta, reason = null) => `data: ${JSON.stringify({ id: 'c',
  object: 'chat.completion.chunk', choices: [{ index: 0, delta,
    finish_reason: reason }] })}\n\n`;

/* An upstream that accepts everything; hold(response) may delay it. */
async function scene(t, { hold, ...options } = {}) {
  const server = http.createServer(async (request, response) => {
    request.resume();
    await new Promise((resolve) => { request.on('end', resolve); });
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(chunk({ content: 'x' }));
    await hold?.(response);
    response.end(`${chunk({}, 'stop')}data: [DONE]\n\n`);
  });
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  t.after(() => { server.closeAllConnections(); server.close(); });
  return nginx(t, { upstream: server.address().port, chat: 'openai_chat',
    ...options, location: `chat_tenant $http_authorization;
      ${options.location ?? ''}` });
}

/* ms; ASan multiplies each cost. */
const slack = process.env.CHAT_ASAN ? 250 : 50;

/* The CPU time that a body takes from its worker, in ms. */
const costOf = (n, body) => cost(n, () =>
  post(n.port, path, body, headers).text({ broken: true }));

live('an attack: hardly more CPU time than a harmless body',
  async (t) => {
    const n = await scene(t);
    for (const [name, make] of Object.entries(attacks)) {
      await t.test(name, async (t2) => {
        const body = make();
        const plain = harmless(body.length);
        const { attack, usual, fits } = await compare(
          () => costOf(n, body), () => costOf(n, plain),
          (one, other) => one < Math.max(2 * other, other + slack));
        const seen = `${attack.toFixed()} ms, a harmless body ${
          usual.toFixed()} ms`;
        t2.diagnostic(seen);
        assert.ok(fits, seen);
      });
    }
  });

/* One turn with this many calls; a quarter of them has results. */
const turn = (ids) => say([user, ...many(4, (i) =>
  asked(ids.slice(i * ids.length / 4, (i + 1) * ids.length / 4))),
...ids.slice(ids.length * 3 / 4).map((id) =>
  ({ role: 'tool', tool_call_id: id, content: '1' }))]);

/* The hashes: one without a key, one with a known key. */
live('ids that collide in a known hash: no extra CPU time',
  async (t) => {
    const n = await scene(t);
    for (const [name, ids] of Object.entries({ FNV: collidingFnv(4000),
      mix: collidingMix(4000) })) {
      const others = ids.map((id, i) =>
        `call_${String(i).padStart(id.length - 5, '0')}`);
      const { attack, usual, fits } = await compare(
        () => costOf(n, turn(ids)), () => costOf(n, turn(others)),
        (one, other) => one < 1.5 * other);
      t.diagnostic(`${name}: ${(attack / usual).toFixed(2)} times`);
      assert.ok(fits, `${attack} ms, not ${usual} ms`);
    }
  });

live('40 requests are answered: none keeps its JSON tree', {
  skip: process.env.CHAT_ASAN && 'ASan keeps what was freed',
}, async (t) => {
  const held = [];
  const n = await scene(t, { hold: () =>
    new Promise((resolve) => { held.push(resolve); }) });
  const body = `{"stream":true,"messages":[{"role":"user","content":[${
    '111,'.repeat(2e5)}1]}]}`;
  const before = n.memory();
  const answers = many(40, () => post(n.port, path, body, headers));
  await until(() => held.length === 40, '40 answers have begun');
  const each = (n.memory() - before) / 40;
  t.diagnostic(`${(each / 1e6).toFixed(1)} MB for ${body.length / 1e6} MB`);
  held.forEach((go) => go());
  await Promise.all(answers.map((answer) => answer.text()));
  assert.ok(each < 4 * body.length, `${each} bytes for ${body.length}`);
});

live('a long conversation id does not fill the log', async (t) => {
  const n = await scene(t, { chat: 'ai_sdk' });
  await post(n.port, '/api/chat', JSON.stringify({ id: 'c'.repeat(2e6),
    messages: [{ id: 'u', role: 'user', parts: [{ type: 'text',
      text: 'x' }] }] }), headers).text();
  await until(() => n.accessLog().length, 'the request is logged');
  const [line] = n.accessLog();
  assert.equal(line.conversation, '');
  assert.equal(line.verdict, 'refused');
});
