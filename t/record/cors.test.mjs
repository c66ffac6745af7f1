/*
 * cors.test.mjs: which response headers come from the store: the CORS lines of
 * the stream with the calls, the headers of a recorded answer, and CORS lines
 * only for the pages that they name.
 *
 * The test writes the facts of that stream itself, so it starts a Redis of its
 * own.
 *
 * Suite: asan.
 */
import assert from 'node:assert/strict';
import { Batch, stage, told } from '../lib/batch.mjs';
import { dialects } from '../lib/dialects.mjs';
import { live } from '../lib/hold.mjs';
import { sse } from '../lib/provider.mjs';
import { redis } from '../lib/redis/redis.mjs';
import { Talk, resumeStage } from '../lib/resume.mjs';

const app = 'https://app.test';
const from = (origin) => ({ headers: origin ? { origin } : {} });
const allow = (origin) => `Access-Control-Allow-Origin: ${origin}`;

/* Headers that no store may add to an answer. */
const evil = ['Set-Cookie: session=mine', 'Content-Length: 3',
  'Location: https://evil.test', 'Transfer-Encoding: gzip', 'X-Evil: 1',
  'Content-Type: text/html', 'Access-Control\rX: 1', 'Vary: \x1b', 'Vary',
  ': 1', 'Access-Control-Max-Age: 1\rX-Evil: 1'];

/* Writes these lines into the fact of the stream with the calls. */
async function rewrite(store, lines) {
  let found = 0;
  for (const key of await store.command('KEYS', 'chat:{*}:*')) {
    if (await store.command('TYPE', key) === 'hash') {
      const open = await store.command('HGET', key, 'open');
      if (open) {
        found++;
        await store.command('HSET', key, 'open',
          `${open.split('\n')[0]}\n${lines.join('\n')}\n`);
      }
    }
  }
  assert.ok(found, 'no such fact');
}

/* The response head of a held request; the store has these lines. */
async function headOf(scene, store, lines, origin) {
  const batch = new Batch(scene, 2);
  await store.command('FLUSHALL');
  await batch.ask(from(app));
  await rewrite(store, lines);
  const answer = batch.continue(batch.results([0]), from(origin));
  const head = await answer.head;
  const { text, word } = await told(answer);
  return { ...head, text, word };
}

live('stored header lines: only CORS lines reach a client',
  async (t) => {
    const store = await redis(t);
    for (const key of ['openai_chat', 'ai_sdk']) {
      const scene = await stage(t, key, { store: store.url(),
        connects: true, hold: '400ms grace=20ms' });
      await t.test(key, async () => {
        const { status, headers, word } = await headOf(scene, store,
          [...evil, allow(app), 'Vary: Origin', ...evil,
            'access-control-expose-headers: x-a'], app);
        assert.equal(status, 200);
        assert.equal(word, dialects[key].bounces ?? 'error');
        assert.equal(headers['access-control-allow-origin'], app);
        assert.equal(headers['access-control-expose-headers'], 'x-a');
        assert.equal(headers.vary, 'Origin');
        assert.match(headers['content-type'], /^text\/event-stream/);
        for (const name of ['set-cookie', 'content-length', 'location',
          'x-evil', 'x', 'access-control-max-age']) {
          assert.ok(!(name in headers), name);
        }
      });
      await t.test(`${key}: more lines than the limit`, async () => {
        const { status, headers } = await headOf(scene, store,
          [allow(app), `Access-Control-X: ${'x'.repeat(20000)}`], app);
        assert.equal(status, key === 'ai_sdk' ? 200 : 409);
        assert.ok(!('access-control-allow-origin' in headers));
      });
    }
  });

live('stored CORS lines: only for the page that they name',
  async (t) => {
    const store = await redis(t);
    const scene = await stage(t, 'openai_chat', { connects: true,
      hold: '400ms grace=20ms', store: store.url() });
    const any = [allow('*'), 'Vary: Origin'];
    for (const [lines, origin, status, allowed] of [
      [[allow(app)], app, 200, app],
      [[allow(app)], 'https://other.test', 409],
      [[allow(app)], 'https://app.test.evil.test', 409],
      [[allow(app), allow('https://other.test')], app, 409],
      [[allow(app)], null, 200],
      [['Vary: Origin'], app, 409],
      [any, app, 200, '*'], [any, null, 200, '*']]) {
      const name = `${lines} to ${origin}`;
      const head = await headOf(scene, store, lines, origin);
      assert.equal(head.status, status, name);
      assert.equal(head.headers['access-control-allow-origin'], allowed, name);
    }
  });

live('CORS lines of a recorded answer: only for the page that they name',
  async (t) => {
    const s = await resumeStage(t, 'openai_chat');
    s.p.answer = () => sse(s.dialect.final('words'), { headers: {
      'access-control-allow-origin': app, 'x-model': 'm',
      'access-control-expose-headers': 'x-model', vary: 'Origin' } });
    const talk = new Talk(s);
    const text = await talk.ask(from(app)).text();
    for (const [origin, allowed, exposed] of [[app, app, 'x-model'],
      ['https://other.test'], [null]]) {
      const answer = talk.resume(from(origin));
      const { headers } = await answer.head;
      assert.equal(await answer.text(), text);
      assert.equal(headers['access-control-allow-origin'], allowed, origin);
      assert.equal(headers['access-control-expose-headers'], exposed, origin);
      assert.equal(headers.vary, 'Origin');
      assert.equal(headers['x-model'], 'm');
    }
  });
