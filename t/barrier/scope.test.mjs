/*
 * scope.test.mjs: to which tenant and conversation a batch belongs, and which
 * calls are its members: credentials, chat_tenant, chat_conversation, weak
 * ids, chat_tool.
 */
import assert from 'node:assert/strict';
import { get, post } from '../lib/harness.mjs';
import { dialects, newCalls } from '../lib/dialects.mjs';
import { Batch, stage, told } from '../lib/batch.mjs';
import { held, leave, live, say, verdict, wordOf } from '../lib/hold.mjs';

const keys = Object.keys(dialects);

live('s107: another credential: cannot see or answer a batch', async (t) => {
  const headers = { openai_chat: 'authorization', anthropic: 'x-api-key',
    openai_responses: 'authorization', ai_sdk: 'authorization',
    openai_responses_chained: 'authorization',
    openai_responses_conversation: 'authorization',
    anthropic_thread: 'x-api-key', gemini: 'x-goog-api-key',
    ag_ui: 'authorization', ag_ui_resume: 'authorization' };
  for (const key of keys) {
    await t.test(key, async (t2) => {
      const scene = await stage(t2, key, { workers: 2, hold: '2s',
        tenant: false, location: say.verdict });
      const batch = new Batch(scene, 2);
      const as = (user) => ({ headers: { [headers[key]]: `Bearer ${user}` } });
      await batch.ask(as('alice'));
      const first = batch.continue(batch.results([0]), as('alice'));
      await held(batch, first);
      const other = batch.continue(batch.results([1]), as('mallory'));
      if (dialects[key].chained) {
        assert.equal(await wordOf(other),
          dialects[key].apps ? 'error' : '400');
        assert.equal(await verdict(other), 'unmanaged');
        assert.equal(first.ended, false);
      } else {
        await held(batch, other);
        other.abort();
      }
      const last = batch.continue(batch.results([1]), as('alice'));
      const words = await Promise.all([first, last].map(wordOf));
      assert.ok(words.includes('final'), `${words}`);
      assert.equal(scene.p.continuations().filter(({ refused }) => !refused)
        .length, 1);
    });
  }
});

live('chat_tenant: one user with two tokens shares a batch', async (t) => {
  const scene = await stage(t, 'openai_chat', { workers: 2, hold: '2s',
    location: 'chat_tenant $http_x_user;' });
  const as = (user, token) => ({ headers: { 'x-user': user,
    authorization: `Bearer ${token}` } });
  const batch = new Batch(scene, 2);
  await batch.ask(as('alice', 'old'));
  await leave(batch, batch.results([0]), as('alice', 'old'));
  const other = batch.continue(batch.results([1]), as('bob', 'old'));
  await held(batch, other);
  other.abort();
  const last = batch.continue(batch.results([1]), as('alice', 'new'));
  assert.equal(await wordOf(last), 'final');
  batch.released();
});

live('a chat_tenant with a regex does not change $1 of the location',
  async (t) => {
    for (const rule of ['"~^Bearer (.+)$" $1;', '"~^Bearer" known;']) {
      await t.test(rule, async (t2) => {
        const { p, n, dialect } = await stage(t2, 'openai_chat', {
          http: `map $http_authorization $tenant { default ""; ${rule} }
            chat_tenant $tenant; chat_record on;`,
          locations: `location ~ ^/c/(\\w+)/(.*)$ { chat openai_chat;
            chat_conversation $1; proxy_pass http://provider/at/$1; }
          location ~ ^/back/(.*)$ { chat_resume $1; }` });
        const own = post(n.port, '/c/talk/chat/completions',
          dialect.fresh({}));
        const text = await own.text();
        assert.equal(p.requests[0].url, '/at/talk');
        assert.equal(await get(n.port, '/back/talk').text(), text);
        assert.equal(n.accessLog()[0].conversation, 'talk');
      });
    }
  });

const weak = (n) => Array.from({ length: n }, (_, i) => ({
  id: `functions.f:${i}`, name: `tool_${i}`, input: { i } }));
const mistral = (n) => Array.from({ length: n }, (_, i) => ({
  id: `D681PevK${i}`, name: `tool_${i}`, input: { i } }));

live('s95: weak ids without a conversation: unmanaged', async (t) => {
  for (const key of ['openai_chat', 'openai_responses', 'anthropic']) {
    for (const [name, make] of [['weak', weak], ['mistral', mistral]]) {
      await t.test(`${key}, ${name}`, async (t2) => {
        const scene = await stage(t2, key, { workers: 2,
          location: say.verdict });
        const one = new Batch(scene, make(2));
        const two = new Batch(scene, make(2));
        await one.ask();
        await two.ask();
        const first = one.continue(one.results([0]));
        assert.equal(await wordOf(first), '400');
        assert.equal(await verdict(first), 'unmanaged');
        const second = two.continue(two.results([1]));
        assert.equal(await wordOf(second), '400');
        assert.ok(!two.upstream()[0].raw.includes(one.key));
        assert.equal(await wordOf(two.continue(two.results())), 'final');
      });
    }
  }
});

live('chat_conversation: weak ids within a conversation', async (t) => {
  for (const key of ['openai_chat', 'openai_responses', 'anthropic']) {
    for (const [name, make] of [['weak', weak], ['mistral', mistral]]) {
      await t.test(`${key}, ${name}`, async (t2) => {
        const scene = await stage(t2, key, { workers: 2, hold: '2s',
          location: 'chat_conversation $http_x_conversation;' });
        const as = (c) => ({ headers: { 'x-conversation': c } });
        const one = new Batch(scene, make(2));
        const two = new Batch(scene, make(2));
        await one.ask(as('c1'));
        await two.ask(as('c2'));
        const first = one.continue(one.results([0]), as('c1'));
        await held(one, first);
        const other = two.continue(two.results([1]), as('c2'));
        await held(two, other);
        await held(one, first);
        const last = one.continue(one.results([1]), as('c1'));
        const words = [await wordOf(last), await wordOf(first)];
        assert.ok(words.includes('final'), `${words}`);
        const request = one.released();
        assert.ok(!request.raw.includes(two.key));
        other.abort();
        /* the same ids after other words: another step */
        const next = new Batch(scene, make(2));
        const bye = (body) => JSON.parse(JSON.stringify(body)
          .replaceAll('"Hello"', '"Bye"'));
        const fresh = scene.dialect.fresh({ words: 'Bye' });
        await next.post(fresh, as('c2')).text();
        const half = next.post(bye(next.body(next.results([0]))), as('c2'));
        await held(next, half);
        half.abort();
      });
    }
  }
  await t.test('ai_sdk has its own conversation id', async (t2) => {
    const scene = await stage(t2, 'ai_sdk', { workers: 2 });
    const batch = new Batch(scene, weak(2));
    await batch.ask();
    await leave(batch, batch.results([0]));
    assert.equal(await wordOf(batch.continue(batch.results([1]))), 'final');
    batch.released();
  });
});

live('chat_tool: the first expression that matches', async (t) => {
  const named = (names) => newCalls(names.length)
    .map((call, i) => ({ ...call, name: names[i] }));
  const scene = await stage(t, 'openai_chat', { strict: false, workers: 2,
    location: `chat_tool ^run_me$ client;
      chat_tool "^run_(?!local)" provider;
      chat_tool (?i)^SEARCH provider;
      chat_tool ^search_here client;` });
  const passes = async (names, results) => {
    const batch = new Batch(scene, named(names));
    await batch.ask();
    assert.equal(await wordOf(batch.continue(batch.results(results))),
      'final', `${names}`);
    assert.equal(batch.upstream().length, 1);
  };
  await passes(['weather', 'run_far'], [0]);
  await passes(['weather', 'search_here'], [0]);
  for (const name of ['run_me', 'run_local', 'research']) {
    const batch = new Batch(scene, named(['weather', name]));
    await batch.ask();
    const first = batch.continue(batch.results([0]));
    await held(batch, first);
    assert.equal(await wordOf(batch.continue(batch.results([1]))), 'final');
    batch.released();
    await told(first);
  }
});
