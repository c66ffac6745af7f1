/*
 * tenant.test.mjs: an empty tenant is unmanaged, and two applications share
 * nothing, even if their users and conversations have the same names.
 */
import assert from 'node:assert/strict';
import { get, post, until } from '../lib/harness.mjs';
import { Batch, scene as play, stage, staged } from '../lib/batch.mjs';
import { dialects } from '../lib/dialects.mjs';
import {
  each, held, live, say, several, verdict, wordOf,
} from '../lib/hold.mjs';
import { give, outside, show } from '../lib/external.mjs';
import { json, provider, sse } from '../lib/provider.mjs';
import { redis } from '../lib/redis/redis.mjs';

/* A client without credentials; its cookie identifies the user. */
const cookie = (user) => ({ headers: { authorization: '', 'x-api-key': '',
  'x-goog-api-key': '', ...(user && { cookie: `session=${user}` }) } });
const cookies = 'chat_tenant $cookie_session;';
const warned = (n) => n.errorLog().split('\n').filter((line) =>
  /\[warn\].*"chat_tenant \$cookie_session"/.test(line)).length;

/* How a provider's refusal of a half-answered body reaches the client. */
const refusal = (key) => (dialects[key].apps ? 'error' : '400');

live('s116: users known only by cookies, no chat_tenant: unmanaged',
  async (t) => {
    const store = await redis(t);
    const nginxOf = { tenant: false, hold: '1s', store: store.url(),
      connects: true, location: `${say.verdict} chat_record on;
        chat_conversation $http_x_batch; chat_repair all;` };
    await each(t, async (t2, key) => {
      const scene = await stage(t2, key, nginxOf);
      const batch = new Batch(scene, 2);
      await batch.ask(cookie('alice'));
      for (const [user, results] of [['alice', [0]], ['bob', [1]]]) {
        const half = batch.continue(batch.results(results), cookie(user));
        assert.equal(await wordOf(half), refusal(key), user);
        assert.equal(await verdict(half), 'unmanaged');
        assert.ok(!('x-chat-stream' in (await half.head).headers));
      }
      const whole = batch.body(batch.results());
      const both = await Promise.all(['alice', 'bob'].map((user) =>
        wordOf(batch.post(whole, cookie(user)))));
      /* A provider that keeps the conversation accepts its results once. */
      assert.ok(both.includes('final'), `${both}`);
      const sent = batch.upstream();
      assert.deepEqual(sent.slice(2).map(({ raw }) => `${raw}`),
        [whole, whole].map((body) => JSON.stringify(body)));
      assert.equal(sent.length, 4);
      assert.equal(warned(scene.n), 1);
    });
    const keys = await store.command('KEYS', 'chat:*');
    assert.deepEqual(keys.filter((key) => /\{[0-9a-f]{8}\}/.test(key)), []);
  }, several);

live('s116: an unmanaged stream: replays dropped, interruption reported',
  async (t) => {
    const scene = await stage(t, 'ai_sdk', { tenant: false });
    const batch = new Batch(scene, 2);
    scene.p.answer = () => sse(batch.from.slice(0, -2), { end: 'reset' });
    const answer = batch.continue(batch.results(), cookie('alice'));
    const text = await answer.text();
    assert.match(text, /stream_interrupted/);
    for (const id of batch.ids) {
      assert.ok(!text.includes(`"${id}"`), `replayed: ${text}`);
    }
    const line = await until(() => scene.n.accessLog()[0]);
    assert.equal(line.verdict, 'unmanaged');
    assert.equal(line.turn_status, 'interrupted');
    assert.equal(line.replays_dropped, '2');
  });

for (const location of ['', cookies]) {
  live(`s118: ${location || 'no chat_tenant'}: an anonymous request's 401 is `
    + 'its own', async (t) => {
    const scene = await stage(t, 'openai_chat', { workers: 2, tenant: false,
      location: `${say.verdict} ${location}` });
    const { answer } = scene.p;
    scene.p.answer = (request) => (request.headers.cookie ? answer(request)
      : json(401, { error: { message: 'no session' } }));
    const batch = new Batch(scene, 2);
    await batch.ask(cookie('alice'));
    const alice = batch.continue(batch.results([0]), cookie('alice'));
    if (location) {
      await held(batch, alice);
    }
    const anonymous = batch.continue(batch.results(), cookie());
    assert.equal(await wordOf(anonymous), '401');
    assert.equal(await verdict(anonymous), 'unmanaged');
    if (!location) {
      assert.equal(await wordOf(alice), '400');
      return;
    }
    await held(batch, alice, 1);
    const last = batch.continue(batch.results([1]), cookie('alice'));
    assert.equal(await wordOf(last), 'final');
    assert.equal(await wordOf(alice), 'final');
    const [first] = batch.upstream().slice(1);
    assert.ok(batch.ids.every((id) => first.answered.includes(id)));
  });
}

live('no chat_tenant: all keys of a client are its tenant', async (t) => {
  const keys = { authorization: 'Bearer a', 'x-api-key': 'b',
    'api-key': 'c', 'x-goog-api-key': 'd', key: 'e' };
  const scene = await stage(t, 'openai_chat', { ...outside, tenant: false,
    server: `chat_conversation $http_x_batch;
      location = /results {
        chat_tenant $http_authorization$http_x_api_key$http_api_key$\
http_x_goog_api_key$arg_key;
        chat_results;
      }` });
  const batch = new Batch(scene, 2);
  const first = post(scene.n.port, `${batch.dialect.path}?f=1&key=${keys.key}`,
    batch.body(batch.results([0])), { 'x-batch': batch.key, ...keys });
  await held(batch, first);
  const look = async ({ key, ...headers }) => (await get(scene.n.port,
    `/results?conversation=${batch.key}&key=${key}`, headers).head).status;
  assert.equal(await look(keys), 200);
  for (const name of Object.keys(keys)) {
    assert.equal(await look({ ...keys, [name]: '' }), 404, name);
    assert.equal(await look({ ...keys, [name]: 'x' }), 404, name);
  }
  first.abort();
});

/* Two servers for the same users, with the same conversations. */
const hosts = ['one.test', 'two.test'];
const at = (host) => ({ headers: { host } });

async function twoServers(t, key, scope = '') {
  const p = await provider(t, key);
  const n = await staged(t, key, p, { ...outside, names: hosts,
    location: `${say.verdict} chat_record on;`,
    server: `${outside.server.replace('$http_authorization',
      `$http_authorization${scope}`)}
      location ~ ^/resume/(.*)$ { chat_resume $1; }` });
  return play(key, p, n);
}

/* The turn with the calls; its events are numbered here. */
const ask = (batch, host) => batch.post(batch.dialect.fresh({
  conversation: batch.conversation }), at(host)).text();

const resume = (batch, host) => get(batch.n.port, `/resume/${batch.key}`,
  { host });

live('s117: two servers: they share no conversation', async (t) => {
  await each(t, async (t2, key) => {
    const scene = await twoServers(t2, key);
    const batch = new Batch(scene, 2);
    const [one, two] = hosts;
    await ask(batch, one);
    const first = batch.continue(batch.results([0]), at(one));
    await held(batch, first);
    assert.equal((await show(batch, at(one))).status, 200);
    assert.equal((await show(batch, at(two))).status, 404);
    assert.equal((await give(batch, 1, { output: 'theirs' }, at(two))).status,
      404);
    assert.equal(await resume(batch, two).status, 204);

    const other = batch.continue(batch.results([1]), at(two));
    if (dialects[key].chained) {
      assert.equal(await verdict(other), 'unmanaged');
      await wordOf(other);
    } else {
      await held(batch, other);
      assert.deepEqual((await show(batch, at(two))).body.missing,
        [batch.ids[0]]);
      other.abort();
    }
    const { length } = batch.upstream();
    await held(batch, first, length);
    const last = batch.continue(batch.results([1]), at(one));
    assert.equal(await wordOf(last), 'final');
    assert.equal(await wordOf(first), 'final');
    assert.equal(batch.upstream().length, length + 1);
    assert.equal(await resume(batch, one).status, 200);
  });
}, several);

live('two servers with one scope share their conversations', async (t) => {
  const scene = await twoServers(t, 'ai_sdk', ' scope=shop');
  const batch = new Batch(scene, 2);
  const [one, two] = hosts;
  await ask(batch, one);
  const first = batch.continue(batch.results([0]), at(one));
  await held(batch, first);
  assert.equal((await show(batch, at(two))).status, 200);
  const last = batch.continue(batch.results([1]), at(two));
  assert.equal(await wordOf(last), 'final');
  assert.equal(await wordOf(first), 'final');
  batch.released();
});

live('one conversation on two servers: no warning about two tenants',
  async (t) => {
    const scene = await twoServers(t, 'ai_sdk');
    const batch = new Batch(scene, 1);
    for (const host of hosts) {
      await ask(batch, host);
    }
    assert.doesNotMatch(scene.n.errorLog(), /two tenants/);
  });

live('s121: a signed body stays unchanged', async (t) => {
  const scene = await stage(t, 'openai_chat', { location: say.verdict,
    server: 'chat_tenant $http_x_user;' });
  const signed = { 'repr-digest': 'sha-256=:AAAA:',
    authorization: ['AWS4-HMAC-SHA256 Credential=a', 'aws4-hmac-sha256 a',
      'Signature keyId="a"', 'signature keyId="a"'] };
  for (const [name, values] of Object.entries(signed)) {
    for (const value of [values].flat()) {
      const batch = new Batch(scene, 2);
      const headers = { 'x-user': 'alice' };
      await batch.ask({ headers });
      const first = batch.continue(batch.results([0]), { headers });
      await held(batch, first);
      const body = batch.body(batch.results([1]));
      const other = batch.post(body, { headers: { ...headers,
        [name]: value } });
      assert.equal(await wordOf(other), '400', value);
      assert.equal(await verdict(other), 'unmanaged', value);
      assert.equal(`${batch.upstream()[0].raw}`, JSON.stringify(body));
      first.abort();
    }
  }
  const batch = new Batch(scene, 2);
  const plain = batch.continue(batch.results([0]), { headers: {
    'x-user': 'alice', authorization: 'Bearer Signature AWS4-x' } });
  await held(batch, plain);
  plain.abort();
});
