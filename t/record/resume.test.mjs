/*
 * resume.test.mjs: a client that lost its connection resumes and gets the
 * missing events of its stream.
 */
import assert from 'node:assert/strict';
import {
  gate, nginxTest, patience, pause, post, until,
} from '../lib/harness.mjs';
import { handled } from '../lib/handled.mjs';
import { Batch, stage } from '../lib/batch.mjs';
import { cutText } from '../lib/ends.mjs';
import { held, live, several } from '../lib/hold.mjs';
import { json } from '../lib/provider.mjs';
import { redis, relay } from '../lib/redis/redis.mjs';
import {
  Talk, answerOf, blocks, half, idsOf, keys, lastId, lengthy, numbered,
  resumeNodes, resumeStage, unnumbered,
} from '../lib/resume.mjs';

for (const key of keys) {
  live(`${key}: from the first event on, then live`, async (t) => {
    const [one, two] = [gate(), gate()];
    const all = lengthy(key, 20);
    const s = await resumeStage(t, key, { answer: () =>
      answerOf([...all.slice(0, 5), one, ...all.slice(5, 10), two,
        ...all.slice(10)]) });
    const talk = new Talk(s);
    const own = talk.ask();
    await own.until((text) => unnumbered(text).includes(all[4]));
    const other = talk.resume();
    await other.until((text) => unnumbered(text).includes(all[4]));
    const { status, headers } = await other.head;
    const mine = await own.head;
    assert.equal(status, 200);
    assert.equal(headers['content-type'], 'text/event-stream');
    assert.match(headers['x-chat-stream'], /^[0-9a-f]{16}$/);
    assert.equal(headers['x-chat-stream'], mine.headers['x-chat-stream']);
    one.open();
    await other.until((text) => unnumbered(text).includes(all[9]));
    two.open();
    const text = await own.text();
    assert.equal(unnumbered(text), all.join(''));
    assert.equal(await other.text(), text);
    assert.equal(await talk.resume().text(), text);
    assert.equal(s.p.requests.length, 1);
  });
}

for (const key of keys) {
  live(`s84: ${key}: after the client's last event, then live`,
    async (t) => {
      const { talk, own, rest, s } = await half(t, key);
      own.abort();
      const stream = (await own.head).headers['x-chat-stream'];
      const others = [1, 3, 8].map((n) => [n, talk.resume(
        numbered.includes(key) ? { last: `${stream}-${n}` }
          : { query: `after=${stream}-${n}` })]);
      others.push([5, talk.resume({ query: 'after=5' })]);
      await others[0][1].until((text) => blocks(text).length === 7);
      rest.open();
      const whole = await talk.resume().text();
      for (const [n, answer] of others) {
        assert.equal(await answer.text(), blocks(whole).slice(n).join(''));
      }
      assert.equal(s.p.requests.length, 1);
    });

  live(`s86: ${key}: after the end the rest; if complete 204`, async (t) => {
    const { talk, own, rest, all } = await half(t, key);
    rest.open();
    const text = await own.text();
    const stream = (await own.head).headers['x-chat-stream'];
    assert.equal(unnumbered(text), all.join(''));
    for (const n of [0, 1, all.length - 1]) {
      const answer = talk.resume({ query: `after=${stream}-${n}` });
      assert.equal(await answer.text(), blocks(text).slice(n).join(''));
      assert.equal(await answer.status, 200);
    }
    for (const n of [all.length, all.length + 1, 999999999]) {
      const answer = talk.resume({ query: `after=${stream}-${n}` });
      assert.equal(await answer.text(), '');
      assert.equal(await answer.status, 204);
    }
  });

  live(`s86: ${key}: after the TTL 204 for any request`, async (t) => {
    const { talk, own, rest } = await half(t, key, { record: 'ttl=1s' });
    rest.open();
    await own.text();
    const stream = (await own.head).headers['x-chat-stream'];
    await pause(2100);
    for (const query of ['', `after=${stream}-3`, `stream=${stream}`]) {
      assert.equal(await talk.resume({ query }).status, 204, query);
    }
  });

  live(`s87 s113: ${key}: of an interrupted stream, its error event too`,
    async (t) => {
      const { talk, own, rest, first } = await half(t, key,
        { sse: { end: 'reset' }, cut: 12 });
      rest.open();
      const text = await cutText(key, own);
      assert.match(text, /stream_interrupted/);
      assert.ok(text.startsWith(first));
      assert.equal(await cutText(key, talk.resume()), text);
      assert.equal(await cutText(key, talk.resume({ query: 'after=3' })),
        blocks(text).slice(3).join(''));
    });

  live(`s88: ${key}: before the first byte: the resume waits`, async (t) => {
    const begin = gate();
    const all = lengthy(key, 5);
    const s = await resumeStage(t, key,
      { answer: () => begin.then(() => answerOf(all)) });
    const talk = new Talk(s);
    const own = talk.ask();
    await s.p.arrival(1);
    const others = [talk.resume(), talk.resume(), talk.resume()];
    await handled(s, others, 300);
    begin.open();
    const text = await own.text();
    for (const other of others) {
      assert.equal(await other.status, 200);
      assert.equal(await other.text(), text);
    }
    assert.equal(unnumbered(text), all.join(''));
    assert.equal(s.p.requests.length, 1);
  });

  live(`s90: ${key}: a second turn: no event of the first`, async (t) => {
    const rest = gate();
    const texts = ['one', 'two'].map((word) => lengthy(key, 6)
      .map((event) => event.replaceAll('xxxxxxxxxx', word)));
    const s = await resumeStage(t, key, { answer: ({ number }) =>
      answerOf(number === 1 ? texts[0]
        : [...texts[1].slice(0, 4), rest, ...texts[1].slice(4)]) });
    const talk = new Talk(s);
    const first = talk.ask();
    await first.text();
    const second = talk.ask();
    await second.until((text) => blocks(text).length === 4);
    const stream = (await first.head).headers['x-chat-stream'];
    const other = talk.resume();
    await other.until((text) => blocks(text).length === 4);
    assert.equal(await talk.resume({ query: `stream=${stream}` }).text(),
      await first.text());
    rest.open();
    const text = await second.text();
    assert.equal(await other.text(), text);
    assert.ok(!/\bone\b/.test(text));
    assert.equal(unnumbered(text), texts[1].join(''));
  });
}

for (const key of numbered) {
  live(`${key}: each event has one id, from 1 on, whatever the provider sends`,
    async (t) => {
      const all = lengthy(key, 10);
      const others = all.map((event, i) => (i % 3 === 0 ? `id: ${i}\n${event}`
        : i % 3 === 1 ? `: a comment\n\n${event.replace(/\n\n$/,
          '\nid: x\n\n')}` : event));
      const s = await resumeStage(t, key, { answer: () => answerOf(others) });
      const talk = new Talk(s);
      const own = talk.ask();
      const text = await own.text();
      const stream = (await own.head).headers['x-chat-stream'];
      assert.deepEqual(idsOf(text), all.map((_, i) => ({ stream, n: i + 1 })));
      assert.equal(text.match(/^id:/gm).length, all.length);
      assert.equal(unnumbered(text).replace(/^: a comment\n\n/gm, ''),
        all.join(''));
      for (const block of blocks(text)) {
        assert.match(block, /^(id: |: a comment)/);
      }
      assert.equal(lastId(text), `${stream}-${all.length}`);
      assert.equal(await talk.resume({ last: `${stream}-4` }).text(),
        text.slice(text.indexOf(blocks(text).find((b) =>
          b.startsWith(`id: ${stream}-4\n`))) + blocks(text).find((b) =>
          b.startsWith(`id: ${stream}-4\n`)).length));
    });
}

live('s89: the worker of an answer is killed: a resume gets an error',
  (t) => Promise.all(keys.map((key) => t.test(key, async (t2) => {
    const { s, talk, first, own } = await half(t2, key);
    const [producer] = s.n.accessLog().concat(null);
    assert.equal(producer, null);
    const other = talk.resume();
    await other.until((text) => text === first);
    for (const pid of s.n.workers()) {
      await s.n.kill(pid);
    }
    await own.text({ broken: true });
    const late = talk.resume();
    const text = await cutText(key, late);
    assert.ok(text.startsWith(first));
    assert.match(text, /producer_lost/);
    assert.equal(s.p.requests.length, 1);
  }))), several);

live('s91: a stream of another tenant or conversation is unknown',
  async (t) => {
    const { s, talk, own, rest } = await half(t, 'openai_chat');
    const stream = (await own.head).headers['x-chat-stream'];
    const stranger = { authorization: 'Bearer stranger' };
    const other = new Talk(s);
    for (const [one, headers] of [[talk, stranger], [other, {}]]) {
      for (const query of [`after=${stream}-1`, `stream=${stream}`]) {
        assert.equal(await one.resume({ query, headers }).status, 404, query);
        assert.equal(await one.stop({ query, headers }).status, 404, query);
      }
      assert.equal(await one.resume({ last: `${stream}-1`, headers }).status,
        404);
      assert.equal(await one.resume({ headers }).status, 204);
      assert.equal(await one.stop({ headers }).status, 204);
    }
    assert.equal(await talk.resume({ query: `stream=${stream}` }).status, 200);
    rest.open();
    await own.text();
  });

live('s107: an empty tenant is refused', async (t) => {
  const { talk, rest, own } = await half(t, 'ai_sdk');
  const headers = { authorization: '' };
  assert.equal(await talk.resume({ headers }).status, 403);
  assert.equal(await talk.stop({ headers }).status, 403);
  const anonymous = talk.ask({ headers });
  rest.open();
  assert.ok(!('x-chat-stream' in (await anonymous.head).headers));
  await Promise.all([anonymous.text(), own.text()]);
  const { ok, output } = await nginxTest({ tenant: false,
    server: 'location = /r { chat_resume $arg_id; }' });
  assert.ok(!ok);
  assert.match(output,
    /"chat_resume" in location "\/r" requires "chat_tenant"/);
});

live('an invalid position in a stream is refused', async (t) => {
  const { talk, own, rest } = await half(t, 'openai_chat');
  const stream = (await own.head).headers['x-chat-stream'];
  for (const last of ['x', '-1', `${stream}-`, `${stream}-x`, `${stream}`,
    `${stream}-01`, `${stream.toUpperCase()}A-1`, '1'.repeat(30),
    `${stream}-${'9'.repeat(19)}`]) {
    assert.equal(await talk.resume({ last }).status, 400, last);
    assert.equal(await talk.resume({ query: `after=${last}` }).status, 400,
      last);
  }
  assert.equal(await talk.resume({ query: 'stream=x' }).status, 400);
  assert.equal(await new Talk({ ...talk.s }, '').resume().status, 400);
  for (const method of ['POST', 'HEAD', 'PUT', 'OPTIONS', 'PATCH']) {
    const answer = talk.resume({ method });
    const { status, headers } = await answer.head;
    assert.equal(status, 405, method);
    assert.equal(headers.allow, 'GET, DELETE');
  }
  rest.open();
  await own.text();
});

for (const key of keys) {
  live(`${key}: the interruption event says that the stream is stored`,
    async (t) => {
      const { talk, own, rest, s } = await half(t, key,
        { cut: 8, sse: { end: 'reset' } });
      const follower = talk.resume();
      await follower.until((text) => text);
      rest.open();
      for (const answer of [own, follower, talk.resume()]) {
        const text = await cutText(key, answer);
        assert.match(text, key.startsWith('ai_sdk') ? /"resumable":true/
          : /can be resumed/);
      }
      assert.equal(s.p.requests.length, 1);
    });
}

live('a failed request does not hide an earlier answer', async (t) => {
  const s = await resumeNodes(t, 'ai_sdk', { count: 1, server: `
    location /dead { chat ai_sdk; proxy_pass http://127.0.0.1:1; }`,
  answer: () => answerOf(lengthy('ai_sdk', 3)) });
  const talk = new Talk(s);
  const text = await talk.ask().text();
  const last = () => talk.resume().text();

  /* The client disconnects while its stream is being indexed. */
  await s.redis.pause(500);
  const lost = talk.ask();
  await lost.sent;
  await pause(200);
  lost.abort();
  await until(() => s.n.accessLog().length === 2);
  assert.equal(await last(), text);

  /* The upstream is unreachable. */
  const dead = post(s.n.port, '/dead', s.dialect.fresh(
    { conversation: talk.conversation }), { 'x-batch': talk.conversation });
  assert.equal(await dead.status, 502);
  assert.equal(await last(), text);
  assert.equal(s.p.requests.length, 1);

  /* The newest answer counts, even a refusal. */
  s.p.answer = () => json(429, {});
  assert.equal(await talk.ask().status, 429);
  assert.equal(await talk.resume().status, 204);
});

live('nor do some that fail during the resume', async (t) => {
  const server = await redis(t);
  const way = await relay(t, server.port);
  const s = await resumeNodes(t, 'ai_sdk', { redis: server, server: `
    location /dead { chat ai_sdk; proxy_pass http://127.0.0.1:1; }`,
  store: () => `${server.url({ port: way.port })} timeout=10s`,
  answer: () => answerOf(lengthy('ai_sdk', 3)) });
  const talk = new Talk(s);
  const text = await talk.ask().text();
  const listed = async () => {
    const names = await server.command('KEYS', 'chat:{*');
    const lists = await Promise.all(names.map((name) =>
      server.command('HKEYS', name).catch(() => [])));
    return lists.flat().filter((name) => name.startsWith('stream/')).length;
  };

  /* The stream is indexed, but its worker learns so late. */
  way.delay(700);
  const [here, there] = s.nodes;
  const fail = () => post(here.port, '/dead', s.dialect.fresh(
    { conversation: talk.conversation }), { 'x-batch': talk.conversation });
  const dead = [fail()];
  await until(async () => await listed() === 2);
  const back = talk.resume({ node: there });

  /* Its client tries again and again: each look finds such a stream. */
  for (let i = 0; i < 5; i++) {
    await pause(350);
    dead.push(fail());
  }
  for (const answer of dead) {
    assert.equal(await answer.status, 502);
  }
  assert.equal(await back.text(), text);
});

live('many resume at the same time: all get everything', async (t) => {
  const { talk, rest, own } = await half(t, 'openai_chat');
  const others = Array.from({ length: 20 }, (_, i) => talk.resume(
    { query: i % 2 ? `after=${i % 7}` : '' }));
  await Promise.all(others.map((other) => other.until((text) => text)));
  others.slice(0, 5).forEach((other) => other.abort());
  rest.open();
  const text = await own.text();
  for (const [i, other] of [...others.entries()].slice(5)) {
    assert.equal(await other.text(),
      blocks(text).slice(i % 2 ? i % 7 : 0).join(''));
  }
});

live('a refused request: nothing to resume', async (t) => {
  const s = await resumeStage(t, 'openai_chat', { answer: () =>
    json(500, { error: { message: 'no' } }) });
  const talk = new Talk(s);
  const own = talk.ask();
  assert.equal(await own.status, 500);
  await own.text();
  assert.equal(await talk.resume().status, 204);
});

for (const key of ['ai_sdk', 'openai_chat']) {
  live(`s88: ${key}: the store has few of the commands of an ended answer`,
    async (t) => {
      const server = await redis(t);
      const way = await relay(t, server.port);
      const only = { workers: 1, connects: true };
      let few = 0;
      const s = await resumeStage(t, key, { ...only,
        store: `${server.url({ port: way.port })} timeout=10s`,
        answer() {
          way.admit(few);
          return answerOf(lengthy(key, 3));
        } });
      const { n } = await resumeStage(t, key, { ...only,
        store: `${server.url()} timeout=10s` });
      for (; few < 6; few++) {
        const talk = new Talk(s);
        const text = await talk.ask().text();
        const back = talk.resume({ node: n });
        await handled(n, [back]);
        way.admit(Infinity);
        assert.equal(await back.text(), text, `${few} commands`);
      }
    });
}

live('the store fails before anything is sent: 503', async (t) => {
  const server = await redis(t);
  const way = await relay(t, server.port);
  const s = await resumeStage(t, 'ai_sdk', { workers: 1, connects: true,
    store: `${server.url({ port: way.port })} timeout=500ms`,
    answer: () => answerOf(lengthy('ai_sdk', 3)) });
  const talk = new Talk(s);
  await talk.ask().text();
  await handled(s);
  /* The index, the facts, the entries and the message before are read. */
  for (let few = 0; few < 4; few++) {
    way.admit(few);
    assert.equal(await talk.resume().status, 503, `${few} commands`);
    way.admit(Infinity);
    await until(async () => await talk.resume().status === 200);
  }
});

live('s86: a long answer, nothing missing: 204', async (t) => {
  const all = lengthy('openai_chat', 600, 1000);
  const s = await resumeStage(t, 'openai_chat',
    { answer: () => answerOf(all) });
  const talk = new Talk(s);
  const text = await talk.ask().text();
  for (const [after, status] of [[all.length, 204], [all.length - 1, 200],
    [all.length, 204]]) {
    const answer = talk.resume({ query: `after=${after}` });
    assert.equal(await answer.status, status);
    assert.equal(await answer.text(), blocks(text).slice(after).join(''));
  }
});

live('the store is unavailable: 503, running answers go on',
  async (t) => {
    const server = await redis(t);
    const { s, talk, own, rest } = await half(t, 'openai_chat',
      { connects: true,
        store: `${server.url()} timeout=${200 * patience}ms` });
    await server.stop();
    await until(async () => await talk.resume().status === 503, 10000);
    assert.equal((await talk.resume().head).headers['retry-after'], '1');
    assert.equal(await talk.stop().status, 503);
    rest.open();
    assert.match(await own.text(), /\[DONE\]/);
    const next = talk.ask();
    assert.match(await next.text(), /\[DONE\]/);
    assert.ok(!('x-chat-stream' in (await next.head).headers));
    assert.equal(s.p.requests.length, 2);
  });

live('HTTP/2: resume, disconnect, resume', async (t) => {
  const { talk, own, rest } = await half(t, 'openai_chat');
  const stream = (await own.head).headers['x-chat-stream'];
  own.abort({ reset: true });
  const first = talk.resume({ http2: true });
  await first.until((text) => blocks(text).length === 8);
  first.abort({ reset: true });
  const second = talk.resume({ http2: true, last: `${stream}-6` });
  await second.until((text) => blocks(text).length === 2);
  rest.open();
  assert.equal(await second.text(),
    blocks(await talk.resume().text()).slice(6).join(''));
  assert.equal(await talk.stop({ http2: true }).status, 204);
});

live('an event past its limit keeps its number and position',
  async (t) => {
    for (const key of ['openai_chat', 'ai_sdk']) {
      const all = lengthy(key, 10, 20);
      all[6] = all[6].replace(/x+/, 'x'.repeat(300000));
      const s = await resumeStage(t, key, { location: 'chat_limits event=64k;',
        answer: () => answerOf(all, { cut: 50000 }) });
      const talk = new Talk(s);
      const text = await talk.ask().text();
      assert.equal(unnumbered(text), all.join(''));
      if (key !== 'ai_sdk') {
        assert.deepEqual(idsOf(text).map(({ n }) => n),
          all.map((_, i) => i + 1));
      }
      for (const n of [5, 6, 7, 8]) {
        assert.ok(await talk.resume({ query: `after=${n}` }).text()
          === blocks(text).slice(n).join(''), `${key} ${n}`);
      }
    }
  });

live('chat_resume: values', async () => {
  const at = (value) => nginxTest({ server: `chat_tenant $http_a;
    location = /r { chat_resume ${value}; }` });
  const { ok, output } = await at('$arg_id runing');
  assert.ok(!ok);
  assert.match(output, /invalid value "runing" in "chat_resume"/);
  assert.match((await at('$arg_id')).output,
    /"chat_resume" finds no recordings: set "chat_record on"/);
  assert.ok((await at('$arg_id running')).ok);
  assert.match((await at('a; chat_resume b')).output, /is duplicate/);
});

live('a sibling gets the stream id, too', async (t) => {
  for (const key of ['ai_sdk', 'openai_chat']) {
    const scene = await stage(t, key, { workers: 2,
      location: 'chat_record on; chat_conversation $http_x_batch;' });
    const batch = new Batch(scene, 3);
    const answers = [];
    for (const i of batch.ids.keys()) {
      answers.push(batch.continue(batch.results([i])));
      await (i < 2 ? held(batch, answers.at(-1)) : answers.at(-1).sent);
    }
    const names = await Promise.all(answers.map(async ({ head }) =>
      (await head).headers['x-chat-stream']));
    assert.match(names[0], /^[0-9a-f]{16}$/);
    assert.deepEqual(names, Array(3).fill(names[0]));
    batch.released();
  }
});

live('conditional requests: ignored, since no stream has a date or tag',
  async (t) => {
    const s = await resumeStage(t, 'ai_sdk');
    const talk = new Talk(s);
    const since = 'Mon, 01 Jan 2001 00:00:00 GMT';
    for (const headers of [{ 'if-unmodified-since': since },
      { 'if-match': '"a"' }]) {
      const own = talk.ask({ headers });
      const text = await own.text();
      assert.equal(await own.status, 200);
      const answer = talk.resume({ headers });
      assert.equal(await answer.status, 200);
      assert.equal(await answer.text(), text);
    }
  });
