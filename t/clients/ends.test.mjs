/*
 * ends.test.mjs: the real libraries with an upstream that breaks off, in every
 * way of lib/ends.mjs: each reports an error, none has an answer; a complete
 * stream without [DONE] is an answer.
 *
 * Suite: plain, long.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../lib/harness.mjs';
import { dialects, newCalls, newId } from '../lib/dialects.mjs';
import { breaks, chunked, location, theatre } from '../lib/ends.mjs';
import { chunk, head } from '../lib/raw.mjs';
import { complete } from './predicates.mjs';
import { heard } from './script.mjs';
import { anthropic } from './sdk/anthropic.mjs';
import { streamText, streamTextGoogle } from './sdk/ai.mjs';
import { google } from './sdk/google.mjs';
import { googleOld } from './sdk/google_old.mjs';
import { openai } from './sdk/openai.mjs';
import { load } from './stage.mjs';

const locations = Object.entries({
  plain: 'proxy_http_version 1.1;', close: 'proxy_http_version 1.0;',
  timeout: 'proxy_http_version 1.1; proxy_read_timeout 2s;',
  stall: 'proxy_http_version 1.1; chat_stall 2s;',
}).flatMap(([name, lines]) => [
  location(`chat_${name}`, `chat auto; ${lines}`),
  location(`none_${name}`, `chat off; ${lines}`)]).join('');

/* All of them, and silence for longer than chat_stall. */
const kinds = { ...breaks, chat_stall: { ...breaks.proxy_read_timeout,
  way: 'stall' } };

/* Up to the text, and the frame after it, which is cut. */
function spoken(key, { empty, comments } = {}) {
  const words = 'Now I think';
  const all = dialects[key].final(words);
  const upTo = all.findIndex((event) => event.includes(words)) + 1;
  return { whole: empty ? '' : comments ? ': one\n\n: two\n\n'
    : all.slice(0, upTo).join(''), part: all[upTo].slice(0, -9), words, all };
}

/* A case on the stage; base is its address. */
function play({ n, u, cases }, { whole, part }, kind, chat = 'chat') {
  const id = newId('');
  cases.set(id, { whole, part, play: kind.play, arrived: () => heard() });
  const base = `/${chat}_${kind.way ?? 'plain'}/${id}`;
  return { base: `http://127.0.0.1:${n.port}${base}`,
    requests: () => u.requests.filter(({ url }) => url.startsWith(base)),
    logged: () => until(() => n.accessLog().find(({ uri }) =>
      uri.startsWith(base))) };
}

async function talk({ make }, base) {
  const talker = make(base, { key: newId('key_'), headers: {} });
  const out = { calls: [], messages: [], words: '' };
  if (talker.run) {
    await talker.run('Hello', { out });
    return out.words;
  }
  talker.say('Hello');
  return (await talker.ask({})).words;
}

/* The error comes from the client, not from a fault of this test. */
async function reports(talking, name) {
  const error = await talking.then((words) => assert.fail(
    `${name}: an answer: ${words}`), (reason) => reason);
  assert.notEqual(error.code, 'ERR_ASSERTION', error.message);
  assert.doesNotMatch(`${error.name}: ${error.message}`,
    /^ReferenceError|^TypeError: (?!terminated)/);
}

async function judge(t, scene, way) {
  const { key, stream } = way;
  if (stream === false) {
    await t.test(`${way.name}: cut`, async () => {
      const json = JSON.stringify({ id: 'x', choices: [], content: [],
        output: [] });
      const it = play(scene, {}, { play: (socket) => socket.end(head(
        { 'Content-Type': 'application/json', 'Content-Length': 999 })
        + json) });
      await reports(talk(way, it.base), way.name);
      assert.equal((await it.logged()).turn_status, 'interrupted');
    });
    return;
  }
  /* One after another: nginx's timeouts count while this process is busy. */
  for (const [name, kind] of Object.entries(kinds)) {
    await t.test(`${way.name}: ${name}`, async () => {
      const it = play(scene, spoken(key, kind), kind);
      await reports(talk(way, it.base), name);
      assert.equal((await it.logged()).turn_status, 'interrupted');
      /* Before the first event streamText retries. */
      assert.ok(it.requests().length === 1 || kind.empty || kind.comments);
    });
  }
}

const libraries = {
  openai: (OpenAI) => openai('openai 6', OpenAI.default),
  openai7: (OpenAI) => openai('openai 7', OpenAI.default),
  '@anthropic-ai/sdk': (Anthropic) =>
    anthropic('@anthropic-ai/sdk 1', Anthropic.default),
  '@google/genai': ({ GoogleGenAI }) =>
    google('@google/genai 3', GoogleGenAI),
  '@google/generative-ai': ({ GoogleGenerativeAI }) =>
    googleOld('@google/generative-ai 0', GoogleGenerativeAI),
  'ai4 ai4-google': (ai, provider) =>
    streamTextGoogle('ai 4', ai, provider),
  'ai5 ai5-openai ai5-anthropic': (ai, ...providers) =>
    streamText('ai 5', ai, Object.assign({}, ...providers)),
  'ai @ai-sdk/openai @ai-sdk/anthropic': (ai, ...providers) =>
    streamText('ai 6', ai, Object.assign({}, ...providers)),
  'ai7 ai7-openai ai7-anthropic': (ai, ...providers) =>
    streamText('ai 7', ai, Object.assign({}, ...providers)),
};

for (const [names, ways] of Object.entries(libraries)) {
  const { packages, missing } = await load(names);
  test(names, { skip: missing, concurrency: true }, async (t) => {
    const scene = await theatre(t, locations, { workers: 2 });
    await Promise.all(ways(...packages).map((way) => judge(t, scene, way)));
  });
}

const chat = ([way]) => way.key === 'openai_chat' && way.stream !== false;

for (const name of ['openai', 'openai7']) {
  const { packages: [OpenAI], missing } = await load(name);
  test(`${name}: complete ends`, { skip: missing }, async (t) => {
    const scene = await theatre(t, locations);
    const ways = openai(name, OpenAI?.default).filter((way) => chat([way]));
    const { words, all } = spoken('openai_chat');
    const clean = (text) => ({ play: (socket) =>
      socket.write(`${chunked}${chunk(text)}0\r\n\r\n`) });
    for (const way of ways) {
      await t.test(`s72: ${way.name}: no [DONE]`, async () => {
        const it = play(scene, {}, clean(all.slice(0, -1).join('')));
        assert.equal(await talk(way, it.base), words);
        assert.equal((await it.logged()).turn_status, 'finished');
      });
    }
    await t.test('without the module a cut text is an answer', async () => {
      const way = ways.find((one) => one.name.includes('events'));
      const it = play(scene, {}, clean(all.slice(0, -2).join('')), 'none');
      assert.equal(await talk(way, it.base), words);
    });
  });
}

/* The app's stream breaks in its text, or in the input of a call. */
function appStream(what, kind) {
  if (what === 'words' || kind.empty || kind.comments) {
    return spoken('ai_sdk', kind);
  }
  const all = dialects.ai_sdk.calls({ calls: newCalls(1, 'call_') });
  const upTo = all.findIndex((event) => event.includes('tool-input-delta'));
  return { whole: all.slice(0, upTo + 1).join(''),
    part: all[upTo + 1].slice(0, -9) };
}

async function useChat({ ai, Chat }, it) {
  const seen = { data: [], errors: [] };
  const tab = new Chat({ sendAutomaticallyWhen: complete(ai),
    transport: new ai.DefaultChatTransport({ api: `${it.base}/api/chat` }),
    onData: (part) => seen.data.push(part),
    onError: (error) => seen.errors.push(error) });
  await tab.sendMessage({ text: 'Hello' });
  return { tab, ...seen };
}

for (const [version, names] of Object.entries({ 5: 'ai5 ai5-react',
  6: 'ai @ai-sdk/react', 7: 'ai7 ai7-react' })) {
  const { packages: [ai, react], missing } = await load(names);
  test(`useChat, ai ${version}`, { skip: missing, concurrency: true },
    async (t) => {
      const scene = await theatre(t, locations, { workers: 2 });
      for (const what of ['words', 'a call']) {
        for (const [name, kind] of Object.entries(kinds)) {
          await t.test(`${what}: ${name}`, async () => {
            const it = play(scene, appStream(what, kind), kind);
            const { tab, data, errors } = await useChat(
              { ai, Chat: react.Chat }, it);
            assert.equal(tab.status, 'error');
            assert.equal(errors.length, 1);
            assert.deepEqual(data, [{ type: 'data-chat-interrupted',
              transient: true, data: { resumable: false,
                reason: name === 'chat_stall' ? 'stall' : kind.reason } }]);
            assert.ok(!JSON.stringify(tab.messages)
              .includes('input-streaming'));
            assert.equal(it.requests().length, 1);
            assert.equal((await it.logged()).turn_status, 'interrupted');
          });
        }
      }
    });
}
