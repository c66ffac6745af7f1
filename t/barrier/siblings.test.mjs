/*
 * siblings.test.mjs: which requests share one answer, and which do not.
 *
 * Two equal requests share an answer. A request with other results, other
 * earlier messages, or of another sample of a best-of-n run gets an answer of
 * its own, whatever retry count its client library sends. A request does not
 * wait for ever for another one's attempt, and not for its own, which comes
 * back through a second server with chat.
 */
import assert from 'node:assert/strict';
import { gate, until } from '../lib/harness.mjs';
import { handled } from '../lib/handled.mjs';
import { Batch, stage, told } from '../lib/batch.mjs';
import { dialects, names } from '../lib/dialects.mjs';
import { held, live, wordOf } from '../lib/hold.mjs';
import { json, sse } from '../lib/provider.mjs';
import { freePorts } from '../lib/wait.mjs';

const retry = (count) => ({ headers: { 'x-stainless-retry-count':
  String(count) } });

/*
 * An upstream that delays the first continuation, or the first one without the
 * text `passes`. Each answer names the result in its request. refuse: the
 * number of following requests that get a 429.
 */
async function slow(t, key, options) {
  const scene = await stage(t, key, { workers: 4, ...options });
  const { answer } = scene.p;
  scene.arm = () => Object.assign(scene, { first: true, refuse: 0,
    passes: null, go: gate() });
  scene.p.answer = async (request) => {
    if (!request.answered.length) {
      return answer(request);
    }
    const { passes } = scene;
    if (scene.first && !(passes && String(request.raw).includes(passes))) {
      scene.first = false;
      await scene.go;
    } else if (scene.refuse > 0) {
      scene.refuse--;
      return json(429, { error: { message: 'slow down' } });
    }
    const [mark] = /MARK\d+/.exec(String(request.raw)) ?? ['none'];
    return sse(scene.dialect.final(`done ${mark}`));
  };
  return scene.arm();
}

const marked = (batch, n) => ({ [batch.ids[0]]: `MARK${n}` });
const wordsOf = async (answer) => {
  const { word, text } = await told(answer);
  return word === 'final' ? /MARK\d+|none/.exec(text)[0] : word;
};

for (const key of ['openai_chat', 'openai_responses', 'anthropic', 'gemini']) {
  live(`s108: ${key}: one call with two results, the second retried`,
    async (t) => {
      const scene = await slow(t, key);
      const batch = new Batch(scene, 1);
      await batch.ask();
      const one = batch.continue(marked(batch, 1));
      await until(() => batch.upstream().length === 1);
      scene.refuse = 1;
      assert.equal(await wordsOf(batch.continue(marked(batch, 2))), '429');
      assert.equal(await wordsOf(
        batch.continue(marked(batch, 2), retry(1))), 'MARK2');
      scene.go.open();
      assert.equal(await wordsOf(one), 'MARK1');
      batch.released(3);
    });

  live(`s109: ${key}: five samples of one transcript`, async (t) => {
    const scene = await slow(t, key);
    const batch = new Batch(scene, 1);
    await batch.ask();
    const one = batch.continue(batch.results());
    await until(() => batch.upstream().length === 1);
    scene.refuse = 4;
    const refused = [1, 2, 3, 4].map(() => batch.continue(batch.results()));
    for (const answer of refused) {
      assert.equal(await wordsOf(answer), '429');
    }
    const again = [1, 2, 3, 4].map(() =>
      batch.continue(batch.results(), retry(1)));
    for (const answer of again) {
      assert.equal(await wordsOf(answer), 'none');
    }
    scene.go.open();
    assert.equal(await wordsOf(one), 'none');
    batch.released(9);
  });

  live(`s109: ${key}: retries of a request refused before nginx`,
    async (t) => {
      const scene = await slow(t, key);
      const batch = new Batch(scene, 1);
      await batch.ask();
      const one = batch.continue(batch.results());
      await until(() => batch.upstream().length === 1);
      const again = [1, 2].map(() =>
        batch.continue(batch.results(), retry(1)));
      for (const answer of again) {
        assert.equal(await wordsOf(answer), 'none');
      }
      scene.go.open();
      assert.equal(await wordsOf(one), 'none');
      batch.released(3);
    });

  live(`s96: ${key}: the retry of a single client`, async (t) => {
    const scene = await slow(t, key);
    for (const [count, tries] of [[1, 2], [2, 2], [2, 3]]) {
      scene.arm();
      const batch = new Batch(scene, 1);
      await batch.ask();
      const answers = [];
      for (let i = 0; i < tries; i++) {
        answers.push(batch.continue(batch.results(),
          i ? retry(Math.min(i, count)) : {}));
        await until(() => batch.upstream().length === 1);
        await handled(batch, answers);
      }
      scene.go.open();
      for (const answer of answers) {
        assert.equal(await wordsOf(answer), 'none');
      }
      batch.released(1);
    }
  });

  live(`s96: ${key}: an Idempotency-Key names the client's own try`,
    async (t) => {
      const scene = await slow(t, key);
      const batch = new Batch(scene, 1);
      const keyed = (name) => ({ headers: { 'idempotency-key': name } });
      await batch.ask();
      const first = batch.continue(batch.results(), keyed('k1'));
      await until(() => batch.upstream().length === 1);
      const other = batch.continue(batch.results(), keyed('k2'));
      await until(() => batch.upstream().length === 2);
      const second = batch.continue(batch.results(), keyed('k1'));
      const third = batch.continue(batch.results(), { headers:
        { 'idempotency-key': 'k3', 'x-stainless-retry-count': '9' } });
      await until(() => batch.upstream().length === 3);
      await handled(batch, [first, other, second, third]);
      scene.go.open();
      for (const answer of [first, other, second, third]) {
        assert.equal(await wordsOf(answer), 'none');
      }
      batch.released(3);
    });
}

/* The same body with another text in its first message. */
const earlier = (body) => JSON.parse(JSON.stringify(body)
  .replace('Hello', 'Good morning'));

for (const key of names) {
  live(`s108 s110: ${key}: held requests that differ`,
    async (t) => {
      const scene = await slow(t, key);
      const batch = new Batch(scene, 2);
      const [a, b] = batch.ids;
      await batch.ask();
      /* Both go upstream at once, in any order. */
      scene.passes = 'MARK2';
      const from = (results) => batch.body(results);
      assert.notDeepEqual(earlier(from({ [a]: 1 })), from({ [a]: 1 }));
      const same = [batch.post(from({ [a]: 'MARK1' })),
        batch.post(from({ [a]: 'MARK1' }))];
      const result = batch.post(from({ [a]: 'MARK2' }));
      await handled(batch, [...same, result]);
      const last = batch.post(from({ [a]: 'MARK1', [b]: 'x' }));
      await until(() => batch.upstream().length === 2);
      assert.equal(await wordsOf(result), 'MARK2');
      const other = batch.post(earlier(from({ [a]: 'MARK1', [b]: 'x' })));
      assert.equal(await wordsOf(other), 'MARK1');
      scene.go.open();
      for (const one of [last, ...same]) {
        assert.equal(await wordsOf(one), 'MARK1');
      }
      batch.released(3);
    });
}

/* Another tab's history of the same conversation, without optional fields. */
const retold = {
  ai_sdk: (body) => ({ ...body, messages: body.messages.map((m) => ({
    metadata: { at: 1 }, ...Object.fromEntries(Object.entries(m).reverse()),
    ...(m.role === 'user' && { id: 'another' }),
    parts: [...m.role === 'user' ? [{ type: 'text', text: '' }] : [],
      ...m.parts.map((part) => (part.type === 'text'
        ? { ...part, state: 'done', providerMetadata: { p: { id: 1 } } }
        : part))] })) }),
  ag_ui: (body) => ({ ...body, messages: body.messages.flatMap((m) => [
    { ...Object.fromEntries(Object.entries(m).reverse()),
      ...(m.role === 'user' && { id: 'another' }) },
    ...(m.role === 'user'
      ? [{ id: 'r', role: 'reasoning', content: 'hm' }] : [])]) }),
};

for (const key of ['ai_sdk', 'ag_ui']) {
  live(`s110: ${key}: two tabs write one history differently`,
    async (t) => {
      const scene = await slow(t, key);
      scene.go.open();
      for (let i = 0; i < 3; i++) {
        const batch = new Batch(scene, 2);
        await batch.ask();
        const one = batch.post(batch.body(batch.results([0])));
        await one.sent;
        const two = batch.post(retold[key](batch.body(batch.results([1]))));
        const words = await Promise.all([one, two].map(wordsOf));
        assert.ok(words.every((word) => ['none', 'empty'].includes(word)),
          `${words}`);
        batch.released(1);
      }
    });
}

/* A second server of the same name, which proxies to the provider. */
const second = (port, key, more) => `server {
  listen 127.0.0.1:${port};
  location / { chat ${dialects[key].name}; chat_hold 60s grace=60s; ${more}
    proxy_pass http://provider; }
}`;

for (const key of Object.keys(dialects)) {
  live(`${key}: a request that passes two servers with chat`,
    async (t) => {
      const [port] = await freePorts(1);
      const scene = await stage(t, key, { workers: 2,
        http: second(port, key, ''),
        locations: `location / { chat ${dialects[key].name};
          chat_hold 60s grace=60s;
          proxy_pass http://127.0.0.1:${port}; }` });
      const batch = new Batch(scene);
      await batch.ask();
      const one = batch.continue(batch.results([0]));
      await held(batch, one);
      const two = batch.continue(batch.results([1]));
      for (const answer of [one, two]) {
        assert.equal(await wordOf(answer), 'final');
      }
      batch.released();
      /* The provider may learn it: only clients must not set it. */
      assert.doesNotMatch(batch.upstream()[0].headers['x-chat-attempt'] ?? '',
        /forged/);
    });
}

live('a client cannot name an attempt', async (t) => {
  const scene = await stage(t, 'ai_sdk', {});
  const batch = new Batch(scene);
  await batch.ask();
  const forged = { headers: { 'x-chat-attempt': 'forged/1' } };
  const one = batch.continue(batch.results([0]), forged);
  await held(batch, one);
  const two = batch.continue(batch.results([1]), forged);
  for (const answer of [one, two]) {
    assert.equal((await told(answer)).word, 'final');
  }
  const { headers } = batch.released();
  assert.match(headers['x-chat-attempt'], /^[^/ ]+\/\d+$/);
});

live('an attempt of which nothing is heard', async (t) => {
  const [port] = await freePorts(1);
  const scene = await stage(t, 'ai_sdk', { http: second(port, 'ai_sdk',
    `proxy_connect_timeout 1s; proxy_send_timeout 500ms;
     proxy_read_timeout 500ms;`) });
  const go = gate();
  const { answer } = scene.p;
  scene.p.answer = async (request) => {
    if (request.answered.length) {
      await go;
    }
    return answer(request);
  };
  const batch = new Batch(scene);
  await batch.ask();
  const one = batch.continue(batch.results());
  await until(() => batch.upstream().length === 1);
  const began = Date.now();
  const two = batch.continue(batch.results(), { node: { port } });
  const { word, text } = await told(two);
  assert.equal(word, '502', text);
  assert.match(text, /stream_interrupted/);
  assert.ok(Date.now() - began >= 1900, 'it has waited');
  go.open();
  assert.equal((await told(one)).word, 'final');
  batch.released();
});

for (const key of ['ai_sdk', 'openai_chat', 'openai_responses']) {
  live(`${key}: each sibling of a redirected request asks for itself`,
    async (t) => {
      const scene = await stage(t, key, { workers: 2 });
      const { answer } = scene.p;
      let redirects = 2;
      scene.p.answer = (request) => (request.answered.length && redirects-- > 0
        ? sse([], { status: 307, headers: { location: '/elsewhere' } })
        : answer(request));
      const batch = new Batch(scene, 2);
      await batch.ask();
      const waiting = [0, 0].map((i) => batch.continue(batch.results([i])));
      await held(batch, waiting[1]);
      const words = await Promise.all(
        [...waiting, batch.continue(batch.results([1]))].map(wordOf));
      assert.deepEqual(words.sort(), ['307', '307', 'final']);
      batch.released(3);
    });
}
