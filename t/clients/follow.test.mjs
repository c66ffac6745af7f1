/*
 * follow.test.mjs: the real libraries share one answer: each client that
 * brings a part of the results gets all of it, from one upstream request.
 *
 * Four clients of a provider with a result each, in each way of the libraries;
 * two tabs of a chat, in Node and as windows of a browser. On one node with
 * the store of CHAT_STORE, and on two with Redis.
 *
 * Suite: redis, long.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pause, store, until } from '../lib/harness.mjs';
import { app } from './app.mjs';
import { browser, open, quiet, sends } from './browser.mjs';
import { anthropic } from './sdk/anthropic.mjs';
import { playTabs } from './sdk/chat.mjs';
import { openai } from './sdk/openai.mjs';
import { script } from './script.mjs';
import { load, stage } from './stage.mjs';
import { tools, work } from './tools.mjs';

const four = { name: 'four clients',
  turns: [{ calls: [0, 1, 2, 3] }, { told: true }] };
const two = { name: 'two windows', early: true,
  turns: [{ calls: [0, 1] }, { told: true }], tabs: [[0], [, 150]] };

/* Two nodes need a shared store. */
const places = store === 'redis' ? [1, 2] : [1];
const counted = (count) => (count === 1 ? 'one node' : 'two nodes');

const verdicts = ({ nodes }, verdict) => nodes.flatMap((n) => n.accessLog())
  .filter((line) => line.verdict === verdict).length;

/* Copies of a client, each at the next node, with one result each. */
async function share(it, { key, make }, delay) {
  const play = it.play(true, four, script(key, four));
  const talker = make(play.base(key), play);
  talker.say('Hello');
  const { calls } = await talker.ask({});
  assert.equal(calls.length, 4);
  const steps = await Promise.all(calls.map(async ({ id, name, input }, i) => {
    const copy = Object.assign(talker.fork(),
      { client: make(play.base(key, i), play).client });
    copy.bring({ [id]: work(name, input) });
    await pause(i * delay);
    return copy.ask({});
  }));
  for (const { message, words } of steps) {
    assert.deepEqual(message, steps[0].message);
    /* The provider got all of them. */
    assert.ok(calls.every(({ id }) => words.includes(id.slice(-4))), words);
  }
  assert.equal(it.requests(play, key), 2);
}

const libraries = {
  openai: (OpenAI) => openai('openai 6', OpenAI.default),
  openai7: (OpenAI) => openai('openai 7', OpenAI.default),
  '@anthropic-ai/sdk': (Anthropic) =>
    anthropic('@anthropic-ai/sdk 1', Anthropic.default),
};

for (const [names, ways] of Object.entries(libraries)) {
  const { packages, missing } = await load(names);
  for (const count of places) {
    test(`s37: ${names}: four clients, ${counted(count)}`,
      { skip: missing, concurrency: 4 }, async (t) => {
        const list = ways(...packages).filter(({ runs }) => !runs);
        const it = await stage(t, [...new Set(list.map(({ key }) => key))],
          {}, count);
        const delays = [0, 20, 60];
        await Promise.all(list.map((way) => t.test(way.name, async () => {
          for (const delay of delays) {
            await share(it, way, delay);
          }
        })));
        await until(() => verdicts(it, 'attached')
          === 3 * delays.length * list.length, 5000, 'three of four attach');
      });
  }
}

/* The same transcript, after one more request. */
function alike(it, play, transcripts) {
  const [one, other] = transcripts.map((messages) => JSON.stringify(messages));
  assert.equal(one, other);
  const { parts } = transcripts[0].at(-1);
  assert.deepEqual(parts.filter(({ output }) => output)
    .map(({ output }) => output.tool), tools.slice(0, 2));
  assert.match(parts.at(-1).text, /^I was told: /);
  assert.equal(it.requests(play, 'app'), 2);
}

for (const [version, names] of Object.entries({
  5: 'ai5 ai5-openai ai5-react', 6: 'ai @ai-sdk/openai @ai-sdk/react',
  7: 'ai7 ai7-openai ai7-react' })) {
  const { packages: [ai, provider, react], missing } = await load(names);
  for (const count of places) {
    test(`s37: useChat, ai ${version}: two tabs, ${counted(count)}`,
      { skip: missing }, async (t) => {
        const it = await stage(t, ['openai_chat'],
          { app: app(ai, provider) }, count);
        const play = it.play(true, two, script('openai_chat', two));
        const tabs = await playTabs({ ai, Chat: react.Chat, name: 'app' },
          play);
        assert.deepEqual(tabs.flatMap(({ errors }) => errors), []);
        alike(it, play, tabs.map(({ chat }) => chat.messages));
        assert.equal(verdicts(it, 'attached'), 1);
      });
  }
}

/* Both windows show the calls; each has one of the results. */
async function useWindows(it, windows) {
  const [first, second] = windows.map(({ page }) => page);
  await sends(first, () =>
    first.evaluate(() => { window.say('Hello'); }));
  const { messages } = await quiet(first, windows[0].requests);
  await second.evaluate((shown) => { window.show(shown); }, messages);
  await until(() => second.evaluate((length) =>
    window.state().messages.length === length, messages.length));
  await Promise.all([first, second].map((page, i) => sends(page, () =>
    page.evaluate((tool) => { window.give(tool); }, tools[i]))));
  return Promise.all(windows.map(({ page, requests }) =>
    quiet(page, requests)));
}

const { packages: forPages, missing: noPages } = await load(
  'ai @ai-sdk/openai @ai-sdk/react');

for (const count of places) {
  test(`s37: useChat: two windows of a browser, ${counted(count)}`,
    { skip: noPages }, async (t) => {
      const { it: chromium, missing } = await browser(t, ['use_chat.jsx']);
      if (missing) {
        t.skip(missing);
        return;
      }
      const it = await stage(t, ['openai_chat'],
        { app: app(...forPages) }, count);
      const play = it.play(true, two, script('openai_chat', two));
      const windows = await Promise.all([0, 1].map((i) =>
        open(chromium, play, { base: play.base('app', i),
          file: 'use_chat.js', api: '/api/chat', id: play.key, when: [],
          sendsEarly: true })));
      const states = await useWindows(it, windows);
      assert.deepEqual(windows.flatMap(({ faults }) => faults), []);
      assert.deepEqual(states.flatMap(({ errors }) => errors), []);
      assert.equal(states[0].text, states[1].text);
      alike(it, play, states.map(({ messages }) => messages));
      assert.equal(verdicts(it, 'attached'), 1);
    });
}
