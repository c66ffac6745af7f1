/*
 * passthrough.test.mjs: traffic that needs no change passes byte for byte:
 * recorded streams in any pieces, 100 MB of text, compressed answers, other
 * traffic, and everything with chat off.
 *
 * Suite: asan, plain.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { get, nginx, post, root, unbuilt, until } from '../lib/harness.mjs';
import { dialects, events, newCalls } from '../lib/dialects.mjs';
import { provider, sse } from '../lib/provider.mjs';

const recordings = join(root, '../shared/recordings');
const skip = unbuilt || (!existsSync(recordings)
  && 'no recordings in ../shared/recordings');
const paths = Object.fromEntries(Object.entries(dialects)
  .map(([key, { path }]) => [key, path]));

/* One location per way of proxying; the upstream does not see the prefix. */
const location = (prefix, lines) => `location /${prefix}/ {
  proxy_pass http://provider/;
  proxy_http_version 1.1;
  proxy_set_header Connection "";
  ${lines}
}`;

/* Ids of the calls in a recording, read independently of the module. */
const readers = {
  openai_chat: (list) => list.flatMap((e) => e.choices ?? [])
    .flatMap(({ delta }) => delta?.tool_calls ?? [])
    .map(({ id }) => id).filter(Boolean),
  anthropic: (list) => list.map((e) => e.content_block)
    .filter((block) => /^(tool_use|server_tool_use|mcp_tool_use)$/
      .test(block?.type)).map(({ id }) => id),
  gemini: (list) => list.flatMap((e) => e.candidates ?? [])
    .flatMap(({ content }) => content?.parts ?? [])
    .filter(({ functionCall }) => functionCall?.name).map((_, i) => i),
  openai_responses: (list) => list
    .filter(({ type }) => type === 'response.output_item.done')
    .map(({ item }) => item).filter(({ type }) => type.endsWith('_call')
      || type === 'mcp_approval_request')
    .map((item) => item.call_id ?? item.id),
};

/* Runs work over a list, a few at a time, because it mostly waits. */
async function each(list, work, abreast = 4) {
  const queue = [...list];
  await Promise.all(Array.from({ length: abreast }, async () => {
    while (queue.length) {
      await work(queue.shift());
    }
  }));
}

test('every recording passes byte-identical', { skip }, async (t) => {
  const p = await provider(t, null);
  const n = await nginx(t, { upstream: p.port, workers: 2, locations: [
    location('unbuffered', 'chat auto; proxy_buffering off;'),
    location('buffered', 'chat auto; proxy_buffering on;')].join('\n') });
  const files = readdirSync(recordings, { withFileTypes: true })
    .filter((entry) => entry.isDirectory()).flatMap(({ name: dialect }) =>
      readdirSync(join(recordings, dialect))
        .filter((file) => file.endsWith('.sse')).map((file) => ({ dialect,
          file, bytes: readFileSync(join(recordings, dialect, file)) })));
  p.answer = (request) => {
    const { bytes } = files[request.headers['x-file']];
    const cut = request.headers['x-cut'];
    if (cut === 'event') {
      return sse(String(bytes).match(/[^]*?\r?\n\r?\n|[^]+$/g));
    }
    /* Small pieces of long files are sent many at a time, a chunk each. */
    return sse(bytes, { cut: Number(cut) || bytes.length,
      flush: bytes.length / cut < 4096 });
  };

  const cuts = ['1', '7', 'event', '4096', 'whole'];
  const ways = [{ way: 'unbuffered', http2: false },
    { way: 'buffered', http2: true }, { way: 'buffered', http2: false },
    { way: 'unbuffered', http2: true }];
  for (const [i, cut] of cuts.entries()) {
    /* Pieces of one byte are tested in two ways, the others in all four. */
    for (const { way, http2 } of cut === '1' ? ways.slice(0, 2) : ways) {
      const name = `pieces: ${cut}, ${way}, HTTP/${http2 ? 2 : 1}`;
      await t.test(name, () => each(files.keys(), async (index) => {
        const { dialect, file, bytes } = files[index];
        const body = dialects[dialect].fresh();
        const answer = post(http2 ? n.port2 : n.port,
          `/${way}${paths[dialect]}`, body,
          { 'x-file': String(index), 'x-cut': cut, 'x-nr': String(i) },
          { http2 });
        const got = await answer.body({ broken: true });
        assert.ok(!answer.error, `${file}: ${answer.error}`);
        assert.equal(await answer.status, 200);
        assert.ok(got.equals(bytes), `${file}: ${got.length} bytes of `
          + `${bytes.length}, first difference at `
          + bytes.findIndex((byte, at) => byte !== got[at]));
      }));
    }
  }

  await t.test('the module logged the calls of the file', async () => {
    const known = files.map((file, index) => ({ ...file, index }))
      .filter(({ dialect }) => readers[dialect]);
    for (const { dialect, file, bytes, index } of known) {
      const ids = new Set(readers[dialect](events(String(bytes))));
      const { length } = n.accessLog();
      await post(n.port, `/unbuffered${paths[dialect]}`,
        dialects[dialect].fresh(),
        { 'x-file': String(index), 'x-cut': 'event' }).text();
      await until(() => n.accessLog().length > length);
      const seen = n.accessLog().at(-1);
      assert.equal(seen.dialect, dialect, file);
      assert.equal(Number(seen.calls), ids.size, `${file}: ${[...ids]}`);
      assert.equal(seen.turn_status, 'finished', file);
    }
  });
});

test('s25: 100 MB of text pass byte-identical in constant memory',
  { skip: unbuilt }, async (t) => {
    const { chat } = { chat: dialects.openai_chat };
    const words = `${'ein Wort, ein Wörtchen '.repeat(8)}\\n`;
    const event = Buffer.from(chat.chunk('chatcmpl-1', { content: words }));
    const megabytes = process.env.CHAT_ASAN ? 20 : 100;
    const block = Buffer.concat(Array(Math.ceil((1 << 20) / event.length))
      .fill(event));
    const end = chat.final('end').join('');
    const p = await provider(t, null);
    const n = await nginx(t, { upstream: p.port, locations: [
      location('unbuffered', 'chat auto; proxy_buffering off;'),
      location('buffered', 'chat auto; proxy_buffering on;')].join('\n') });
    p.answer = () => sse([...Array(megabytes).fill(block), end],
      { cut: 16384, flush: false });
    const hash = createHash('sha256');
    for (let i = 0; i < megabytes; i++) {
      hash.update(block);
    }
    const wanted = hash.update(end).digest('hex');

    for (const way of ['unbuffered', 'buffered']) {
      await t.test(way, async () => {
        /* One short answer first, so that all code has run once. */
        const { answer } = p;
        p.answer = () => sse(chat.final('warm'));
        await post(n.port, `/${way}${chat.path}`, chat.fresh()).text();
        p.answer = answer;
        const before = n.memory();
        let most = 0;
        const got = createHash('sha256');
        const response = await new Promise((resolve, reject) => {
          http.request({ port: n.port, host: '127.0.0.1', method: 'POST',
            path: `/${way}${chat.path}`, agent: false,
            headers: { 'content-type': 'application/json' } }, resolve)
            .on('error', reject).end(JSON.stringify(chat.fresh()));
        });
        let length = 0;
        for await (const piece of response) {
          got.update(piece);
          length += piece.length;
          most = Math.max(most, n.memory());
        }
        assert.equal(length,
          block.length * megabytes + Buffer.byteLength(end));
        assert.equal(got.digest('hex'), wanted);
        const grown = (most - before) / (1 << 20);
        t.diagnostic(`${way}: worker grew by ${grown.toFixed(1)} MB`);
        assert.ok(process.env.CHAT_ASAN || grown < 4, `${grown} MB`);
      });
    }
  });

test('an upstream that compresses', { skip: unbuilt }, async (t) => {
  const dialect = dialects.ai_sdk;
  const calls = newCalls(2);
  const stream = dialect.calls({ calls });
  const plain = stream.join('');
  const p = await provider(t, null);
  const n = await nginx(t, { upstream: p.port, locations: [
    location('plain', 'chat ai_sdk;'),
    location('gunzip', 'chat ai_sdk; gunzip on;')].join('\n') });
  const ask = async (path) => {
    const lines = () => n.accessLog().filter(({ uri }) => uri === path);
    const { length } = lines();
    const answer = post(n.port, path, dialect.fresh(),
      { 'accept-encoding': 'gzip' });
    const body = await answer.body();
    await until(() => lines().length > length);
    return { body, headers: (await answer.head).headers,
      seen: lines().at(-1) };
  };

  await t.test('the module removes Accept-Encoding', async () => {
    p.answer = ({ headers }) => sse(stream,
      { gzip: /gzip/.test(headers['accept-encoding']) });
    const { body, headers, seen } = await ask('/plain/api/chat');
    assert.equal(headers['content-encoding'], undefined);
    assert.equal(String(body), plain);
    assert.equal(Number(seen.calls), 2);
  });
  await t.test('other requests keep their Accept-Encoding', async () => {
    await get(n.port, '/plain/page', { 'accept-encoding': 'gzip' }).body();
    assert.equal(p.requests.at(-1).headers['accept-encoding'], 'gzip');
  });
  await t.test('compressed anyway: the answer passes unchanged', async () => {
    p.answer = () => sse(stream, { gzip: true });
    const { body, headers } = await ask('/plain/api/chat');
    assert.equal(headers['content-encoding'], 'gzip');
    assert.equal(String(gunzipSync(body)), plain);
  });
  await t.test('compressed, gunzip on: plain, and filtered', async () => {
    const { body, headers, seen } = await ask('/gunzip/api/chat');
    assert.equal(headers['content-encoding'], undefined);
    assert.equal(String(body), plain);
    assert.equal(Number(seen.calls), 2);
  });
});

test('chat off is plain nginx', { skip: unbuilt }, async (t) => {
  const p = await provider(t, null);
  const options = { upstream: p.port, location: 'proxy_buffering off;' };
  const off = await nginx(t, { ...options, chat: 'off' });
  const absent = await nginx(t, { ...options, module: false });
  const dialect = dialects.ai_sdk;
  const from = dialect.calls({ calls: newCalls(2) });
  const half = dialect.continuation({ conversation: 'c', from,
    results: { [from.calls[0].id]: 'x' } });

  /* The reset waits until the client has all earlier bytes. */
  let arrived = null;
  const requests = [
    ['a stream', sse(from), '/api/chat', dialect.fresh()],
    ['a half-answered body', sse(from), '/api/chat', half],
    ['a cut stream', sse([...from.slice(0, 4), () => arrived],
      { end: 'reset' }), '/api/chat', half],
    ['a compressed stream', sse(from, { gzip: true }), '/api/chat', half],
  ];
  for (const [name, answer, path, body] of requests) {
    for (const http2 of [false, true]) {
      await t.test(`${name}, HTTP/${http2 ? 2 : 1}`, async () => {
        p.answer = () => answer;
        const seen = [];
        for (const n of [off, absent]) {
          const reply = post(http2 ? n.port2 : n.port, path, body,
            { 'accept-encoding': 'gzip', 'x-chat-state': 'mine' }, { http2 });
          arrived = reply.until((text) => text.includes(from[3]));
          arrived.catch(() => {});
          const bytes = await reply.body({ broken: true });
          const { status, headers } = await reply.head;
          const { headers: upstream, raw } = p.requests.at(-1);
          seen.push({ bytes: bytes.toString('hex'), status,
            broken: !!reply.error, headers: { ...headers, date: null },
            upstream, raw: String(raw) });
        }
        assert.deepEqual(seen[0], seen[1]);
      });
    }
  }
});

test('other traffic at a chat location', { skip: unbuilt }, async (t) => {
  const p = await provider(t, null);
  const n = await nginx(t, { upstream: p.port });
  const bodies = [
    ['HTML', 'text/html', '<p>data: {"type":"tool-input-start"}</p>\n\n'],
    ['JSON', 'application/json', '{"toolCallId":"call_1"}'],
    ['bytes', 'application/octet-stream', '\0\xff\n\n\r\r\n'],
    ['SSE of something else', 'text/event-stream',
      'event: tick\ndata: 1\n\n: x\n\nid: 3\ndata\n\nretry: 5\r\n\r\nrest'],
  ];
  for (const [name, type, text] of bodies) {
    for (const method of ['GET', 'POST']) {
      await t.test(`${method}: ${name}`, async () => {
        p.answer = () => sse(text, { headers: { 'content-type': type },
          cut: 3 });
        const answer = post(n.port, '/something', '{"a":[1,2]}',
          {}, { method });
        assert.equal(await answer.text(), text);
        assert.equal((await answer.head).headers['content-type'], type);
      });
    }
  }
});
