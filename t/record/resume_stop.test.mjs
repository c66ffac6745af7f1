/*
 * resume_stop.test.mjs: the module reads an answer to its end after its client
 * has disconnected, within the limits, until a DELETE stops it.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gate, pause, store, unbuilt, until } from '../lib/harness.mjs';
import { handled } from '../lib/handled.mjs';
import { cutText } from '../lib/ends.mjs';
import { json } from '../lib/provider.mjs';
import {
  Talk, answerOf, blocks, half, keys, lengthy, pastMax, resumeStage,
  unnumbered,
} from '../lib/resume.mjs';

const live = (name, play) => test(name, { skip: unbuilt }, play);
const ways = store === 'redis' ? [1, 2] : [1];

/* The access log line of the turn at the first node. */
const logged = (s) => until(() => s.nodes[0].accessLog().find(({ uri }) =>
  uri === s.dialect.path));

for (const key of keys) {
  live(`s92: ${key}: the client disconnects: the answer is completed`,
    async (t) => {
      const { s, talk, own, rest, all } = await half(t, key);
      own.abort();
      await until(() => s.n.errorLog().includes('client disconnected'));
      await handled(s);
      rest.open();
      assert.equal(unnumbered(await talk.resume().text()), all.join(''));
      const line = await logged(s);
      assert.equal(line.status, '200');
      assert.equal(line.turn_status, 'finished');
      assert.equal(s.p.requests.length, 1);
    });

  for (const nodes of ways) {
    live(`s92: ${key}: DELETE stops it, from ${nodes} nodes`, async (t) => {
      const { s, talk, own, request } = await half(t, key, { nodes });
      const at = s.nodes.at(-1);
      const other = talk.resume({ node: at });
      const first = await other.until((text) => blocks(text).length === 8);
      own.abort();
      await until(() => s.nodes[0].errorLog().includes('client disconnected'));
      const stopped = talk.stop({ node: at });
      assert.equal(await stopped.status, 204);
      assert.equal(await stopped.text(), '');
      await request.closed;
      assert.ok(request.left);
      const text = await cutText(key, other);
      assert.ok(text.startsWith(first));
      assert.match(text, /stream_interrupted/);
      assert.equal((await logged(s)).turn_status, 'aborted');
      assert.equal(await cutText(key, talk.resume({ node: at })), text);
      assert.equal(await talk.stop({ node: at }).status, 204);
    });
  }

  live(`${key}: DELETE while the client reads: interrupted`, async (t) => {
    const { s, talk, own, request } = await half(t, key);
    const stream = (await own.head).headers['x-chat-stream'];
    assert.equal(await talk.stop({ query: `stream=${stream}` }).status, 204);
    const text = await cutText(key, own);
    assert.match(text, /stream_interrupted/);
    /* The user stopped it, so no event makes an agent retry. */
    assert.doesNotMatch(text, /connection error|terminated|overloaded/);
    await request.closed;
    assert.equal((await logged(s)).turn_status, 'aborted');
  });
}

live('DELETE before the first byte', async (t) => {
  const begin = gate();
  const s = await resumeStage(t, 'openai_chat', { answer: () =>
    begin.then(() => answerOf(lengthy('openai_chat', 3))) });
  const talk = new Talk(s);
  const own = talk.ask();
  const { closed } = await s.p.arrival(1);
  const other = talk.resume();
  await handled(s, [other]);
  assert.equal(await talk.stop().status, 204);
  await closed;
  assert.ok(s.p.requests[0].left);
  await own.text({ broken: true });
  assert.equal(await other.status, 204);
  assert.equal((await logged(s)).turn_status, '');
  begin.open();
  assert.equal(await talk.resume().status, 204);
});

live('DELETE stops the newest running stream, or the named one',
  async (t) => {
    const all = lengthy('openai_chat', 3);
    const s = await resumeStage(t, 'openai_chat', { answer: () =>
      answerOf([...all.slice(0, 2), new Promise(() => {})]) });
    const talk = new Talk(s);
    const list = [];
    for (let i = 0; i < 3; i++) {
      const own = talk.ask();
      await own.until((text) => blocks(text).length === 2);
      list.push({ own, stream: (await own.head).headers['x-chat-stream'],
        request: await s.p.arrival(i + 1) });
      await pause(5);
    }
    assert.equal(await talk.stop().status, 204);
    await list[2].request.closed;
    await until(() => s.n.accessLog().length === 2);
    assert.equal(await talk.stop({ query: `after=${list[0].stream}-1` })
      .status, 204);
    await list[0].request.closed;
    assert.ok(!list[1].own.ended);
    await until(() => s.n.accessLog().length === 4);
    assert.equal(await talk.stop().status, 204);
    await list[1].request.closed;
    for (const { own } of list) {
      await cutText('openai_chat', own);
    }
  });

live('s92: past max= the answer ends', async (t) => {
  const { s } = await pastMax(t, 'ai_sdk');
  assert.ok(s.p.requests[0].left);
  assert.equal((await logged(s)).turn_status, 'aborted');
});

live('s92: past ttl= of chat_store the answer ends', async (t) => {
  const { s, own, request } = await half(t, 'ai_sdk', { ttl: '2s' });
  own.abort();
  await request.closed;
  assert.ok(request.left);
  assert.equal((await logged(s)).turn_status, 'aborted');
});

live('a JSON answer can be resumed, too', async (t) => {
  const begin = gate();
  const s = await resumeStage(t, 'openai_chat', { answer: () =>
    begin.then(() => json(200, { choices: [{ message: { content: 'Hi' } }] })),
  });
  const talk = new Talk(s);
  const own = talk.ask({ body: { ...talk.dialect.fresh(), stream: false } });
  await s.p.arrival(1);
  own.abort();
  await until(() => s.n.errorLog().includes('client disconnected'));
  const other = talk.resume();
  begin.open();
  assert.equal(JSON.parse(await other.text()).choices[0].message.content,
    'Hi');
  assert.equal((await other.head).headers['content-type'],
    'application/json');
});
