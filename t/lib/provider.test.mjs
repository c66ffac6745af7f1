/*
 * provider.test.mjs: the harness itself, without the module. A provider that
 * accepts what the real one refuses would let every other test pass.
 *
 * Suite: plain.
 */
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { test } from 'node:test';
import { gate, get, nginx, nginxTest, post, until } from './harness.mjs';
import { dialects, events, newCalls, newId } from './dialects.mjs';
import { json, provider, sse } from './provider.mjs';

/* Plain nginx in front of a provider. */
async function plain(t, dialect, options, script) {
  const p = await provider(t, dialect, script);
  const n = await nginx(t, { module: false, upstream: p.port, ...options });
  return { p, n };
}

for (const [key, dialect] of Object.entries(dialects)) {
  test(`${key}: the strict provider is like the real one`, async (t) => {
    const calls = newCalls(3, dialect.prefix);
    const [a, b, c] = calls.map(({ id }) => id);
    const p = await provider(t, key, { calls });
    const say = async (body) => {
      const answer = post(p.port, dialect.path, body, dialect.headers);
      const text = await answer.text();
      return { status: await answer.status, text,
        refused: p.requests.at(-1).refused };
    };
    const from = dialect.calls({ calls });
    const conversation = newId('chat_');
    const body = (results) => {
      p.issued.set(from.id, calls).set(conversation, calls);
      return dialect.continuation({ conversation, from, results });
    };

    await t.test('a fresh body gets the calls', async () => {
      const { text } = await say(dialect.fresh());
      assert.ok(calls.every(({ id }) => text.includes(id)));
    });
    await t.test('a complete continuation is answered', async () => {
      const { status, text, refused } = await say(
        body({ [a]: 1, [b]: new Error('boom'), [c]: { x: 'y' } }));
      assert.equal(status, 200);
      assert.ok(!refused && text.includes('done'), text);
    });
    await t.test('each missing result is refused', async () => {
      for (const left of [a, b, c]) {
        const results = { [a]: 1, [b]: 2, [c]: 3 };
        delete results[left];
        const { status, text, refused } = await say(body(results));
        assert.equal(status, dialect.apps ? 200 : 400);
        /* Gemini counts results and names no id. */
        assert.ok(refused && (dialect.name === 'gemini'
          || text.includes(left)), text);
      }
    });
    if (dialect.name === 'ai_sdk') {
      return;
    }
    await t.test('a doubled result is refused', async () => {
      const twice = body({ [a]: 1, [b]: 2, [c]: 3 });
      const list = twice.input ?? twice.resume ?? twice.contents?.at(-1).parts
        ?? (dialect.name === 'anthropic' ? twice.messages.at(-1).content
          : twice.messages);
      list.push(list.at(-1));
      const { status, refused } = await say(twice);
      assert.ok(refused);
      assert.equal(status, dialect.apps ? 200 : 400);
    });
    await t.test('an orphan is refused', async () => {
      const stranger = newCalls(1, dialect.prefix)[0];
      const wide = dialect.calls({ id: from.id, calls: [...calls, stranger] });
      const all = dialect.continuation({ from: wide, conversation,
        results: { [a]: 1, [b]: 2, [c]: 3, [stranger.id]: 4 } });
      const drop = (list) => list.splice(0, Infinity, ...list.filter((x) =>
        x.id !== stranger.id && x.call_id !== stranger.id
        || /output|result/.test(x.type)));
      if (all.resume) {
        /* Without this there is one too many. */
      } else if (all.input) {
        drop(all.input);
      } else if (all.contents) {
        all.contents.find(({ role }) => role === 'model').parts.pop();
      } else {
        const asked = all.messages.find(({ role }) => role === 'assistant');
        drop(asked?.tool_calls ?? asked?.toolCalls ?? asked?.content ?? []);
      }
      const { status, text } = await say(all);
      assert.equal(status, dialect.apps ? 200 : 400);
      assert.match(text, new RegExp('No tool call found|preceeding|unexpected'
        + '|the number of|waits for a result|Partial resumes'));
    });
  });
}

test('a result after another message is refused', async (t) => {
  const { chat, anthropic } = { chat: dialects.openai_chat,
    anthropic: dialects.anthropic };
  await t.test('chat', () => {
    const from = chat.calls({ calls: newCalls(2) });
    const [a, b] = from.calls.map(({ id }) => id);
    const body = chat.continuation({ from, results: { [a]: 1, [b]: 2 } });
    body.messages.splice(3, 0, { role: 'user', content: 'well?' });
    assert.equal(chat.check(body).status, 400);
  });
  await t.test('anthropic: text before results', () => {
    const from = anthropic.calls({ calls: newCalls(2, 'toolu_') });
    const [a, b] = from.calls.map(({ id }) => id);
    const body = anthropic.continuation({ from, results: { [a]: 1, [b]: 2 } });
    body.messages.at(-1).content.unshift({ type: 'text', text: 'so' });
    assert.equal(anthropic.check(body).status, 400);
  });
});

test('answers arrive as they are written', async (t) => {
  for (const http2 of [false, true]) {
    await t.test(http2 ? 'HTTP/2' : 'HTTP/1.1', async (t2) => {
      const more = gate();
      const { p, n } = await plain(t2, 'openai_chat',
        { location: 'proxy_buffering off;' });
      p.answer = () => sse(['data: 1\n\n', more, 'data: 2\n\n']);
      const port = http2 ? n.port2 : n.port;
      const answer = post(port, '/v1/chat/completions',
        dialects.openai_chat.fresh(), {}, { http2 });
      await answer.until((text) => text === 'data: 1\n\n');
      more.open();
      assert.deepEqual(events(await answer.text()), [1, 2]);
      assert.equal(await answer.status, 200);
      assert.equal(p.requests[0].body.model, 'm');
      await until(() => n.accessLog().length === 1);
      assert.equal(n.accessLog()[0].status, '200');
    });
  }
});

test('endings', async (t) => {
  const { p, n } = await plain(t, null);
  await t.test('a reset is a broken answer', async () => {
    p.answer = () => sse('data: 1\n\n', { end: 'reset' });
    const answer = post(n.port, '/', {});
    await assert.rejects(answer.text());
    assert.equal(String(answer.bytes), 'data: 1\n\n');
    const second = post(n.port2, '/', {}, {}, { http2: true });
    await assert.rejects(second.text());
  });
  await t.test('a client that leaves is seen', async () => {
    p.answer = () => sse('data: 1\n\n', { end: 'open' });
    const answer = post(n.port, '/', {});
    await answer.until((text) => text.includes('1'));
    answer.abort();
    await p.requests.at(-1).closed;
    assert.ok(p.requests.at(-1).left);
  });
  await t.test('status and JSON', async () => {
    p.answer = () => json(503, { error: 'x' }, { 'retry-after': '1' });
    const answer = get(n.port, '/');
    assert.equal(await answer.text(), '{"error":"x"}');
    assert.equal((await answer.head).headers['retry-after'], '1');
  });
});

test('nginx itself', async (t) => {
  await t.test('a bad configuration is told', async () => {
    const { ok, output } = await nginxTest(
      { module: false, location: 'x y;' });
    assert.ok(!ok && /unknown directive "x"/.test(output), output);
  });
  await t.test('reload and the death of a worker', async () => {
    const { n } = await plain(t, null, { workers: 2 });
    const before = n.workers();
    assert.equal(before.length, 2);
    await n.reload();
    await until(() => n.workers().every((pid) => !before.includes(pid)));
    await n.kill(n.workers()[0]);
    assert.equal(n.workers().length, 2);
    assert.ok(n.memory() > 1e6);
  });
  await t.test('an alert in the error log fails the test', async () => {
    const p = await provider(t, null);
    const after = [];
    const n = await nginx({ after: (f) => after.push(f) },
      { module: false, upstream: p.port });
    process.kill(n.workers()[0], 'SIGKILL');
    await until(() => n.errorLog().includes('on signal 9'));
    await assert.rejects(after[0](), /signal 9/);
    rmSync(n.dir, { recursive: true });
  });
});

test('nginx finds other ports where one is taken', async (t) => {
  const p = await provider(t, 'openai_chat');
  const tried = [];
  const n = await nginx(t, { conf: (dir, [port]) => {
    /* At first a port that the provider uses. */
    tried.push(tried.length ? port : p.port);
    return `daemon off; pid ${dir}/nginx.pid; events {}
      error_log ${dir}/error.log info;
      http { access_log ${dir}/access.log;
        server { listen 127.0.0.1:${tried.at(-1)}; return 200 here; } }`;
  } });
  assert.equal(tried.length, 2);
  assert.equal(await (await get(n.port, '/')).text(), 'here');
  assert.equal(n.errorLog().includes('[emerg]'), false);
  await n.stop();
});
