/*
 * resume.test.mjs: a client that has lost its answer comes back for it, and
 * gets what it lacks, of the one stream that there is.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gate, unbuilt, until } from './harness.mjs';
import {
  Talk, answerOf, blocks, idsOf, keys, lastId, lengthy, numbered, resumeStage,
  unnumbered,
} from './harness_resume.mjs';

const live = (name, play) => test(name, { skip: unbuilt }, play);

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
