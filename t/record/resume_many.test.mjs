/*
 * resume_many.test.mjs: conversations of thousands of answers: each answer has
 * a stream id and can be resumed, and a turn does not get slower.
 */
import assert from 'node:assert/strict';
import { Talk, answerOf, half, lengthy, resumeStage }
  from '../lib/resume.mjs';
import { Batch } from '../lib/batch.mjs';
import { live } from '../lib/hold.mjs';

const total = 2100; /* two facts for each answer */
const key = 'openai_chat';

/* The median time of this many turns, one after the other, in ms. */
async function turn(talk, turns) {
  const times = [];
  for (let i = 0; i < turns; i++) {
    const start = performance.now();
    await talk.ask().text();
    times.push(performance.now() - start);
  }
  return times.sort((a, b) => a - b)[turns >> 1];
}

live('s130: 2,100 answers: the newest has a stream id', async (t) => {
  const s = await resumeStage(t, key, { answer: () =>
    answerOf(lengthy(key, 1)) });
  const talk = new Talk(s);
  const before = await turn(talk, 40);
  for (let i = 40; i < total; i += 20) {
    const answers = Array.from({ length: 20 }, () => talk.ask());
    await Promise.all(answers.map((answer) => answer.text()));
    const heads = await Promise.all(answers.map(({ head }) => head));
    assert.ok(heads.every(({ headers }) => headers['x-chat-stream']),
      `turn ${i}`);
  }
  await t.test('its stream can be resumed', async () => {
    const answer = talk.ask();
    const text = await answer.text();
    const id = (await answer.head).headers['x-chat-stream'];
    const again = talk.resume({ query: `stream=${id}` });
    assert.equal(await again.text(), text);
    assert.equal((await talk.resume({ last: `${id}-0` }).head).status, 200);
  });
  await t.test('a turn takes no longer than in a new conversation',
    async () => {
      const other = new Talk(s);
      for (let i = 0; ; i++) {
        const [late, early] = [await turn(talk, 20), await turn(other, 20)];
        if (late < 1.5 * early + 3) {
          return;
        }
        assert.ok(i < 3, `${late} ms, in a new one ${early}, first ${before}`);
      }
    });
});

/* The limit is 512 facts and 4 for each call; a hold takes two. */
live('300 holds without an answer: the next answer has a stream id',
  async (t) => {
    const s = await resumeStage(t, key, { hold: '10ms',
      server: 'chat_limits calls=2;' });
    const talk = new Talk(s);
    for (let i = 0; i < 300; i += 20) {
      await Promise.all(Array.from({ length: 20 }, async () => {
        const batch = Object.assign(new Batch(s, 2),
          { key: talk.conversation });
        const answer = batch.continue(batch.results([0]));
        assert.equal((await answer.head).status, 409);
        await answer.text();
      }));
    }
    s.p.answer = () => answerOf(lengthy(key, 1));
    for (let i = 0; i < 3; i++) {
      const answer = talk.ask();
      await answer.text();
      assert.ok((await answer.head).headers['x-chat-stream'], `answer ${i}`);
    }
    assert.doesNotMatch(s.n.errorLog(), /was not indexed/);
  });

/* The dead workers of a long conversation over many restarts. */
live('120 streams of unknown workers: the running one can be resumed',
  async (t) => {
    const { s, talk, own, rest } = await half(t, key, { nodes: 2 });
    const indexes = (await s.redis.command('KEYS', 'chat:{*}:*'));
    let lines = 0;
    for (const index of indexes) {
      if (await s.redis.command('TYPE', index) !== 'hash') {
        continue;
      }
      const flat = await s.redis.command('HGETALL', index);
      const at = flat.findIndex((field) => field.startsWith('stream/'));
      if (at < 0) {
        continue;
      }
      for (let i = 0; i < 120; i++) {
        const id = String(i).padStart(flat[at].split('-')[1].length, '0');
        await s.redis.command('HSET', index, `stream/${1000 + i}-${id}`,
          flat[at + 1].replace(/^.\S+/, `0dead.${i}.1`));
        lines++;
      }
    }
    assert.equal(lines, 120);
    const other = talk.resume({ node: s.nodes[1] });
    assert.equal((await other.head).status, 200);
    rest.open();
    assert.equal(await other.text(), await own.text());
  });
