/*
 * resume_data_loss.test.mjs: a client that resumes before lost events gets an
 * error; a client that resumes after them gets the rest.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gate, store, unbuilt, until } from '../lib/harness.mjs';
import { isRaw } from '../lib/ends.mjs';
import { random } from '../lib/mutants.mjs';
import { pieceOf } from '../lib/recording.mjs';
import { seeded } from '../lib/nodes.mjs';
import { redis } from '../lib/redis/redis.mjs';
import {
  Talk, answerOf, blocks, half, keys, lengthy, resumeStage,
} from '../lib/resume.mjs';

const live = (name, play) => test(name, { skip: unbuilt }, play);

const shm = { skip: unbuilt || (store === 'redis' && 'only for the zone') };

/* All events that the client of a turn got. */
async function told(talk) {
  const own = talk.ask();
  const text = await own.text();
  return blocks(text);
}

/*
 * Resumes from this position and checks the answer: the rest, or the events
 * before a gap and then the error event.
 */
async function back(talk, all, after) {
  const answer = talk.resume({ query: `after=${after}` });
  const text = await answer.text({ broken: true });
  const rest = all.slice(after).join('');
  const end = text.search(/^(event: error\n)?data: .*incomplete_record/m);
  if (answer.error && end < 0) {
    /* No error event can follow the event that ends a stream. */
    assert.ok(text !== rest && rest.startsWith(text), text.slice(-400));
    return text ? 'part' : 'nothing';
  }
  if (text === rest) {
    return 'whole';
  }
  assert.ok(end >= 0, text.slice(-400));
  assert.equal(!!answer.error, isRaw(talk.s.key), 'how the response ends');
  const before = text.slice(0, end)
    .replace(/data: \{"type":"data-chat-interrupted"[^\n]*\n\n$/, '');
  assert.ok(rest.startsWith(before), before.slice(0, 200));
  return before ? 'part' : 'nothing';
}

for (const key of keys) {
  test(`s93: ${key}: the beginning was discarded`, shm, async (t) => {
    const all = lengthy(key, 900, 1000);
    const s = await resumeStage(t, key, { store: 'shm:4m',
      answer: () => answerOf(all) });
    const talk = new Talk(s);
    const got = await told(talk);
    const last = got.length;
    assert.equal(await back(talk, got, last - 20), 'whole');
    assert.equal(await back(talk, got, 0), 'nothing');
    assert.equal(await back(talk, got, 20), 'nothing');
    let [from, to] = [20, last - 20];
    while (to - from > 1) {
      const middle = (from + to) >> 1;
      const how = await back(talk, got, middle);
      assert.notEqual(how, 'part');
      [from, to] = how === 'whole' ? [from, middle] : [middle, to];
    }
    assert.ok(from > 100 && from < last - 50, `${from} of ${last}`);
  });

  test(`s93: ${key}: an event is longer than the recording's limit`, shm,
    async (t) => {
      const all = lengthy(key, 40, 100);
      all[20] = all[20].replace(/x+/, 'x'.repeat(900000));
      const s = await resumeStage(t, key, { store: 'shm:4m',
        answer: () => answerOf(all) });
      const talk = new Talk(s);
      const got = await told(talk);
      for (const after of [0, 5, 20]) {
        assert.equal(await back(talk, got, after), 'nothing', `${after}`);
      }
      for (const after of [21, 22, got.length - 1]) {
        assert.equal(await back(talk, got, after), 'whole', `${after}`);
      }
    });
}

/* The number of stored events of the only recording. */
async function stored(server) {
  const [key] = await server.command('KEYS', 'chat:*:l');
  const list = key ? await server.command('XRANGE', key, '-', '+') : [];
  return blocks(list.map((entry) => pieceOf(entry).bytes).join(''))
    .length;
}

/*
 * Removes entries from a recording; returns its number of events and the rest.
 */
async function hole(server, remove) {
  const log = await until(async () => {
    const [key] = await server.command('KEYS', 'chat:*:l');
    const list = key && await server.command('XRANGE', key, '-', '+');
    return list?.at(-1)[1][0] === 'l' && { key, list };
  });
  const gone = remove(log.list.map(pieceOf));
  /* The last event that the entry contained, at least in part. */
  for (const piece of gone) {
    piece.until = log.list.map(pieceOf)
      .find(({ position }) => position === piece.position + 1)?.count
      ?? Infinity;
  }
  for (const { position } of gone) {
    await server.command('XDEL', log.key, `${position + 1}-0`);
  }
  return gone;
}

live('given a Redis that comes back empty, DELETE stops the running answer',
  async (t) => {
    const server = await redis(t);
    const { talk, request } = await half(t, 'openai_chat',
      { store: `${server.url()} timeout=2s`, connects: true });
    await server.stop('SIGKILL');
    await server.start();
    await until(async () => {
      await talk.stop().text();
      return request.left;
    }, 10000, 'the end of the answer');
  });

live('s93: lost entries: only a client that lacks them gets an error',
  async (t) => {
    const server = await redis(t);
    let { seed } = seeded(t);
    for (const key of keys) {
      await t.test(key, async (t2) => {
        await server.command('FLUSHALL');
        const all = lengthy(key, 60, 1000);
        /*
         * Each part is in entries of its own, and one entry stays: a
         * recording without entries has expired.
         */
        const parts = [0, 15, 30, 45].flatMap((at) => [
          () => until(async () => await stored(server) === at),
          ...all.slice(at, at < 45 ? at + 15 : all.length)]);
        const s = await resumeStage(t2, key, { connects: true,
          store: `${server.url()} timeout=2s`,
          answer: () => answerOf(parts, { cut: 3333 }) });
        const talk = new Talk(s);
        const got = await told(talk);
        const pick = random(seed++);
        const gone = await hole(server, (list) => {
          const stays = pick(list.length);
          return list.filter(({ bytes }, i) => bytes && i !== stays
            && pick(6) === 0);
        });
        const first = gone[0]?.count ?? got.length;
        for (let after = 0; after < got.length; after += 3) {
          const how = await back(talk, got, after);
          assert.equal(how === 'whole', !gone.some(({ until: end }) =>
            end > after), `${after} ${how}`);
          assert.ok(how !== 'nothing' || after >= first);
        }
      });
    }
  });

live('s86: all entries of a recording are lost: 204', async (t) => {
  const server = await redis(t);
  const s = await resumeStage(t, 'openai_chat', { connects: true,
    store: `${server.url()} timeout=2s`,
    answer: () => answerOf(lengthy('openai_chat', 60)) });
  const talk = new Talk(s);
  await told(talk);
  await hole(server, (list) => list);
  for (const query of ['', 'after=5']) {
    assert.equal(await talk.resume({ query }).status, 204, query);
  }
});

live('s93: a gap: a resume after it gets the rest', async (t) => {
  const [middle, rest] = [gate(), gate()];
  const server = await redis(t);
  const all = lengthy('openai_chat', 60, 1000);
  const s = await resumeStage(t, 'openai_chat', { connects: true,
    store: `${server.url()} timeout=2s`,
    answer: () => answerOf([...all.slice(0, 20), middle,
      ...all.slice(20, 30), rest, ...all.slice(30)]) });
  const talk = new Talk(s);
  const own = talk.ask();
  for (const [count, next] of [[20, middle], [30, rest]]) {
    await own.until((text) => blocks(text).length === count);
    await until(async () => await stored(server) === count);
    next.open();
  }
  const got = blocks(await own.text());
  const gone = await hole(server, (list) => list.filter(({ count }) =>
    count >= 20 && count < 30));
  assert.ok(gone.length);
  const [from] = gone.map(({ count }) => count);
  const behind = gone.at(-1).until;
  assert.equal(await back(talk, got, 0), 'part');
  assert.equal(await back(talk, got, from - 1), 'part');
  assert.equal(await back(talk, got, from), 'nothing');
  assert.equal(await back(talk, got, behind), 'whole');
  /* Also while another client still follows. */
  assert.deepEqual(await Promise.all([0, behind, from + 1, behind]
    .map((after) => back(talk, got, after))),
  ['part', 'whole', 'nothing', 'whole']);
});
