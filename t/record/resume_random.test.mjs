/*
 * resume_random.test.mjs: a client that loses its connection again and again,
 * and resumes each time, ends with the complete answer.
 *
 * Schedules are random: the event of each disconnect, the node of each resume.
 * The seed is printed; CHAT_SEED repeats it.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { store, unbuilt, until } from '../lib/harness.mjs';
import { random } from '../lib/mutants.mjs';
import { seeded } from '../lib/nodes.mjs';
import {
  Talk, answerOf, blocks, idsOf, keys, lengthy, numbered, resumeNodes,
  resumeStage, unnumbered,
} from '../lib/resume.mjs';

const EVENTS = 500;
const SCHEDULES = 200;
const AT_A_TIME = 8;

/*
 * Reads up to `most` events and disconnects; returns them, and whether the
 * answer ended.
 */
async function some(answer, most) {
  const enough = (text) => blocks(text.slice(0, text.lastIndexOf('\n\n') + 2))
    .filter((b) => b.endsWith('\n\n')).length >= most;
  try {
    await until(async () => {
      await answer.until(enough, 20000);
      return true;
    }, 20000);
  } catch (error) {
    if (!answer.ended || answer.error) {
      throw error;
    }
    return { got: blocks(answer.bytes.toString()), over: true };
  }
  answer.abort();
  return { got: blocks(answer.bytes.toString()).slice(0, most), over: false };
}

/* One client, to the end of its answer; returns its events. */
async function play(talk, seed) {
  const pick = random(seed);
  const step = 1 + pick(80);
  const got = [];
  let answer = talk.ask();
  let stream;
  for (;;) {
    const { status, headers } = await answer.head;
    if (status === 204) {
      return { stream, got };
    }
    assert.equal(status, 200);
    stream ??= headers['x-chat-stream'];
    assert.equal(headers['x-chat-stream'], stream);
    const { got: more, over } = await some(answer, pick(step + 1) || step);
    got.push(...more);
    if (over) {
      return { stream, got };
    }
    const place = `${stream}-${got.length}`;
    answer = talk.resume(numbered.includes(talk.s.key)
      ? { last: place } : { query: `after=${place}` });
  }
}

async function schedules(t, s, key, count, seed) {
  const all = lengthy(key, EVENTS - lengthy(key, 0).length);
  s.p.answer = () => answerOf(all);
  let next = 0;
  const player = async () => {
    while (next < count) {
      const own = seed + next++;
      const talk = new Talk(s);
      const { got, stream } = await play(talk, own);
      const text = got.join('');
      assert.equal(unnumbered(text), all.join(''), `seed ${own}`);
      if (numbered.includes(key)) {
        assert.deepEqual(idsOf(text),
          all.map((_, i) => ({ stream, n: i + 1 })));
      }
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, player));
  assert.equal(s.p.requests.length, count);
}

for (const key of keys) {
  test(`s84 s85: ${key}: cut after any event, and again: nothing is missing`,
    { skip: unbuilt }, async (t) => {
      const { seed } = seeded(t);
      await schedules(t, await resumeStage(t, key), key,
        Math.ceil(SCHEDULES / keys.length), seed);
    });

  test(`s84 s85: ${key}: the same across two nodes`,
    { skip: unbuilt || (store !== 'redis' && 'only for Redis') },
    async (t) => {
      const s = await resumeNodes(t, key);
      await schedules(t, s, key, Math.ceil(SCHEDULES / keys.length),
        s.seed);
    });
}
