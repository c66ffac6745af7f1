/*
 * resume_held.test.mjs: a client resumes while a continuation of its
 * conversation is held: it waits and gets the continuation's answer.
 */
import assert from 'node:assert/strict';
import { pause, until } from '../lib/harness.mjs';
import { handled } from '../lib/handled.mjs';
import { Batch, told } from '../lib/batch.mjs';
import { held, live } from '../lib/hold.mjs';
import { sse } from '../lib/provider.mjs';
import { Talk, resumeNodes, resumeStage } from '../lib/resume.mjs';

/* A held continuation, and a client that may resume its answer. */
async function scene(t, key, { nodes = 1, hold = '20s', ...rest } = {}) {
  const s = await (nodes === 1 ? resumeStage : resumeNodes)(t, key,
    { hold, ...rest });
  const batch = new Batch(s, 2);
  s.p.answer = ({ answered }) => sse(answered.length
    ? s.dialect.final('done here') : batch.from);
  await batch.post(s.dialect.fresh({
    conversation: batch.conversation })).text();
  const first = batch.continue(batch.results([0]), { node: s.nodes[0] });
  await held(batch, first);
  return { s, batch, first, talk: new Talk(s, batch.key) };
}

/* The answer has neither begun nor ended. */
async function waits(where, ...answers) {
  await handled(where, answers, 300);
  for (const answer of answers) {
    assert.equal(answer.ended, false, `ended: ${answer.bytes}`);
    assert.equal(answer.bytes.length, 0);
  }
}

for (const key of ['ai_sdk', 'openai_chat', 'ag_ui']) {
  for (const running of ['', 'running']) {
    live(`s128: ${key}: a resume ${running} waits for a held request and gets `
      + 'its answer', async (t) => {
      const { s, batch, first, talk } = await scene(t, key, { running });
      const others = [1, 2, 3].map(() => talk.resume());
      await waits(s, first, ...others);
      const second = batch.continue(batch.results([1]));
      const texts = await Promise.all(others.map((one) => one.text()));
      for (const [i, text] of texts.entries()) {
        assert.equal(await others[i].status, 200);
        assert.match(text, /done here/);
      }
      assert.match(await first.text(), /done here/);
      assert.match(await second.text(), /done here/);
      assert.equal(batch.upstream().length, 1);
      assert.equal(s.p.requests.length, 2);
    });
  }
}

live('s128: ai_sdk: a hold bounces and its page sends again: the resume waits',
  async (t) => {
    const { batch, first, talk } = await scene(t, 'ai_sdk',
      { hold: 'auto', running: 'running' });
    let bounces = 0;
    const page = (async () => {
      let end = await told(first);
      while (end.word === 'bounce') {
        bounces++;
        end = await told(batch.continue(batch.results([0])));
      }
      return end.word;
    })();
    const other = talk.resume();
    await until(() => bounces === 2, 20000, 'two bounces');
    await pause(200);
    await waits(batch, other);
    const last = batch.continue(batch.results([1]));
    assert.match(await other.text(), /done here/);
    assert.equal((await told(last)).word, 'final');
    assert.equal(await page, 'final');
    assert.equal(batch.upstream().length, 1);
  });

live('s128: on another node that does not know the holding worker yet',
  async (t) => {
    if (process.env.CHAT_STORE !== 'redis') {
      t.skip('one node');
      return;
    }
    const { s, batch, first, talk } = await scene(t, 'ai_sdk',
      { nodes: 2, workers: 3, running: 'running' });
    const others = [...s.nodes, s.nodes[1], s.nodes[1]].map((node) =>
      talk.resume({ node }));
    await waits(s, first, ...others);
    await batch.continue(batch.results([1]), { node: s.nodes[0] }).text();
    for (const other of others) {
      assert.match(await other.text(), /done here/);
    }
  });

const ends = {
  'its client disconnects': ({ first }) => first.abort(),
  'its time is over': () => {},
  'a new message supersedes it': ({ batch }) => batch.post(
    batch.body({}, batch.dialect.says('more'))).text(),
};
for (const [name, end] of Object.entries(ends)) {
  live(`s128: the hold ends because ${name}: 204`, async (t) => {
    const bound = name.includes('bound');
    const it = await scene(t, 'ai_sdk', { running: 'running', strict: false,
      hold: bound ? '2s' : '20s' });
    const other = it.talk.resume();
    await waits(it.s, ...bound ? [] : [other]);
    await end(it);
    if (name.includes('message')) {
      /* The new message has an answer of its own; the client resumes that. */
      assert.equal(await other.status, 200);
      return;
    }
    assert.equal(await other.status, 204);
    assert.equal(await it.talk.resume().status, 204);
  });
}

live('s128: the holding worker is killed: 204', async (t) => {
  const { s, talk } = await scene(t, 'ai_sdk', { running: 'running' });
  const other = talk.resume();
  await waits(s, other);
  for (const pid of s.n.workers()) {
    await s.n.kill(pid);
  }
  await until(() => s.n.workers().length === 2, 20000, 'new workers');
  assert.equal(await talk.resume().status, 204);
});

live('s128: a resume with a position does not wait', async (t) => {
  const { talk } = await scene(t, 'openai_chat', { running: 'running' });
  assert.equal(await talk.resume({ query: 'after=999' }).status, 204);
});

live('s128: clients disconnect: their waits end', async (t) => {
  const { batch, first, talk } = await scene(t, 'ai_sdk',
    { running: 'running' });
  const others = [1, 2, 3].map(() => talk.resume());
  await waits(batch, ...others);
  others.forEach((one) => one.abort());
  await batch.continue(batch.results([1])).text();
  assert.match(await first.text(), /done here/);
});
