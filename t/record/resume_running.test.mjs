/*
 * resume_running.test.mjs: "chat_resume VALUE running", for pages that load
 * ended answers themselves: it returns running and interrupted streams.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gate, unbuilt, until } from '../lib/harness.mjs';
import { handled } from '../lib/handled.mjs';
import {
  Talk, answerOf, blocks, half, lengthy, resumeStage,
} from '../lib/resume.mjs';

const live = (name, play) => test(name, { skip: unbuilt }, play);

live('running: an ended stream: 204 unless the request names it',
  async (t) => {
    const { talk, own, rest, s } = await half(t, 'ai_sdk',
      { running: 'running' });
    const stream = (await own.head).headers['x-chat-stream'];
    const other = talk.resume();
    await other.until((text) => blocks(text).length === 8);
    rest.open();
    const text = await own.text();
    assert.equal(await other.text(), text);
    await until(() => s.n.accessLog().length === 2);
    assert.equal(await talk.resume().status, 204);
    assert.equal(await talk.resume({ query: 'after=3' }).status, 204);
    assert.equal(await talk.resume({ query: `stream=${stream}` }).text(),
      text);
  });

for (const [name, answer] of Object.entries({
  interrupted: (all) => answerOf(all.slice(0, 8)),
  failed: (all) => answerOf([...all.slice(0, 8),
    'data: {"type":"error","errorText":"no more"}\n\n']) })) {
  live(`running: a stream that was ${name}`, async (t) => {
    const s = await resumeStage(t, 'ai_sdk', { running: 'running',
      answer: () => answer(lengthy('ai_sdk', 20)) });
    const talk = new Talk(s);
    const text = await talk.ask().text({ broken: true });
    for (let i = 0; i < 3; i++) {
      const back = talk.resume();
      assert.equal(await back.status, name === 'failed' ? 204 : 200);
      assert.equal(await back.text({ broken: true }),
        name === 'failed' ? '' : text);
    }
  });
}

live('s89: running: workers killed: each resume gets an error', async (t) => {
  const { s, talk, own, first } = await half(t, 'ai_sdk',
    { running: 'running' });
  /* The store has the events that the client got. */
  const other = talk.resume();
  await other.until((text) => text === first);
  for (const pid of s.n.workers()) {
    await s.n.kill(pid);
  }
  await own.text({ broken: true });
  for (let i = 0; i < 8; i++) {
    const back = talk.resume();
    const text = await back.text();
    assert.equal(await back.status, 200, `${i}`);
    assert.equal(text.slice(0, first.length), first);
    assert.match(text, /producer_lost/);
  }
});

live('s88: running: a resume before the first byte gets all',
  async (t) => {
    const begin = gate();
    const all = lengthy('ai_sdk', 3);
    const s = await resumeStage(t, 'ai_sdk', { running: 'running',
      answer: () => begin.then(() => answerOf(all, { flush: false })) });
    const talk = new Talk(s);
    const own = talk.ask();
    await s.p.arrival(1);
    own.abort();
    await until(() => s.n.errorLog().includes('client disconnected'));
    const others = Array.from({ length: 8 }, () => talk.resume());
    await handled(s, others, 300);
    begin.open();
    for (const other of others) {
      assert.equal(await other.status, 200);
      assert.equal(await other.text(), all.join(''));
    }
    await until(() => s.n.accessLog().length === 9);
    assert.equal(await talk.resume().status, 204);
  });
