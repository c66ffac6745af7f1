/*
 * resume.test.mjs: a page with useChat is reloaded during its answer.
 *
 * It shows the stored messages, resumes the stream (`resume: true`), and ends
 * with the same transcript as without the reload. No result is sent twice, and
 * the app gets no further request. The app and its provider wait for the test.
 *
 * Suite: plain, long.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gate, until } from '../lib/harness.mjs';
import { dialects, newId } from '../lib/dialects.mjs';
import { sse } from '../lib/provider.mjs';
import { app } from './app.mjs';
import { browser, open, quiet } from './browser.mjs';
import { load, stage } from './stage.mjs';
import { tools } from './tools.mjs';

const versions = {
  5: ['ai5', 'ai5-openai', 'ai5-react'],
  6: ['ai', '@ai-sdk/openai', '@ai-sdk/react'],
  7: ['ai7', 'ai7-openai', 'ai7-react'] };

const situation = { name: 'resume' };
const chat = dialects.openai_chat;

/* The default address of useChat, and one that a page may name. */
const resumed = { lines: `chat_record on;
    chat_tenant $http_authorization;`,
more: `location ~ ^/[^/]+/api/chat/([^/]+)/stream$ {
    chat_resume $1;
    chat_tenant $http_authorization;
  }
  location ~ ^/[^/]+/running/([^/]+)$ {
    chat_resume $1 running;
    chat_tenant $http_authorization;
  }` };

/* A promise that shows whether a request waits for it. */
function door() {
  const it = gate();
  it.pass = () => {
    it.reached = true;
    return it;
  };
  return it;
}

/*
 * The provider's part: a text and two calls, then a text with the results.
 * doors: promises to wait for at each position. silent: only the calls.
 */
function says(calls, doors, silent) {
  return ({ answered, body }) => {
    const id = `chatcmpl-${answered.length}`;
    const through = (name) => (doors[name] ? [doors[name].pass] : []);
    const words = (text) => chat.chunk(id, { content: text });
    if (!answered.length) {
      const [role, ...rest] = chat.calls({ calls, id });
      const lead = silent ? []
        : [words('Let me '), ...through('text'), words('look.')];
      return sse([role, ...lead, ...rest.slice(0, 3), ...through('calls'),
        ...rest.slice(3)]);
    }
    const told = body.messages.filter(({ role }) => role === 'tool')
      .map(({ content }) => content).join();
    const [role, , ...rest] = chat.final('', id);
    return sse([role, words('I was told '), ...through('told'), words(told),
      ...rest]);
  };
}

const shows = (page, text) => until(() => page.evaluate((what) =>
  document.body.innerText.includes(what), text), 5000, `"${text}"`);

/* One conversation of a page; at: the app's name. */
async function visit({ it, chromium, at, file }, doors, more = {}) {
  const calls = [0, 1].map((n) => ({ id: newId('call_'), name: tools[n],
    input: { city: `Town ${n}`, degrees: 1.5 } }));
  const play = it.play(true, situation,
    says(calls, doors, more.sendsEarly));
  play.waits = () => doors[`request${play.asked}`]?.pass();
  const window = await open(chromium, play, { base: play.base(at), file,
    api: '/api/chat', id: play.key, when: doors.calls && [], ...more });
  await window.page.evaluate(() => { window.say('Hello'); });
  const state = () => window.page.evaluate(() => window.state());
  const reload = (changes) => window.load({ resume: true,
    messages: play.kept, when: undefined, ...changes });
  const end = async () => {
    await shows(window.page, 'I was told');
    const rest = await quiet(window.page, window.requests);
    assert.deepEqual(window.faults, []);
    assert.deepEqual(rest.errors, []);
    assert.equal(it.requests(play, at), 2);
    return rest;
  };
  return { ...window, play, calls, state, reload, end,
    ids: calls.map(({ id }) => id) };
}

const plain = (value) => JSON.parse(JSON.stringify(value));

/* The same except for ids, which are new in each run. */
function alike({ messages }, ids) {
  let text = JSON.stringify(messages);
  ids.forEach((id, i) => { text = text.replaceAll(id, `call ${i}`); });
  return JSON.parse(text);
}

/*
 * The state of the page at its reload. sees: what it shows then; first: how
 * many tools have run (version 7 sees a call once all of them are there);
 * second: how many run afterwards.
 */
const places = {
  'before the first byte': { door: 'request1', first: 0, second: 2 },
  'in the first text': { door: 'text', first: 0, second: 2,
    sees: 'Let me' },
  'between the calls': { door: 'calls', second: 2, sees: '[tool-weather' },
  'before the first byte of the continuation':
    { door: 'request2', first: 2, second: 0 },
  'in the text of the continuation': { door: 'told', first: 2, second: 0,
    sees: 'I was told' },
};

async function reloads(stageOf, { door: name, first, second, sees }, want) {
  const doors = { [name]: door() };
  const it = await visit(stageOf, doors);
  await until(() => doors[name].reached, 5000, name);
  if (sees) {
    await shows(it.page, sees);
  }
  if (first !== undefined) {
    assert.equal((await it.state()).calls.length, first);
  }
  const resumes = it.page.waitForRequest(/\/stream$/);
  await it.reload();
  await resumes;
  if (sees) {
    await shows(it.page, sees);
  }
  doors[name].open();
  const { calls, ...state } = await it.end();
  assert.deepEqual(calls, it.ids.slice(2 - second));
  assert.deepEqual(alike(state, it.ids), want);
}

/* One result was sent early, and the module has it; its page is closed. */
async function halfAnswered(stageOf, want) {
  const it = await visit(stageOf, {}, { sendsEarly: true, when: [0] });
  await until(() => stageOf.it.n.accessLog().some((line) =>
    line.conversation === it.play.key && line.verdict === 'bounced'), 10000,
  'a bounce');
  await it.reload({ sendsEarly: false });
  const { calls, ...state } = await it.end();
  assert.deepEqual(calls, it.ids.slice(1));
  const [user, { parts, ...answer }] = want;
  assert.deepEqual(alike(state, it.ids), [user, { ...answer,
    parts: parts.filter(({ text }) => !/^Let me/.test(text)) }]);
}

/* After the end: no stream is running, or the answer is sent again. */
async function rests(stageOf, { running }) {
  const it = await visit(stageOf, {});
  const messages = plain((await it.end()).messages);
  const answered = it.page.waitForResponse(/\/(stream|running\/[^/]+)$/);
  await it.reload({ messages: running ? messages : [],
    reconnect: running && `${it.play.base(stageOf.at)}/running` });
  assert.equal((await answered).status(), running ? 204 : 200);
  const after = await it.end();
  assert.deepEqual(plain(after.messages).at(-1), messages.at(-1));
  assert.equal(after.messages.length, running ? 2 : 1);
  assert.deepEqual(after.calls, []);
}

async function stranger(stageOf) {
  const doors = { told: door() };
  const it = await visit(stageOf, doors);
  await shows(it.page, 'I was told');
  const foreign = { ...it.play, key: newId('play_'),
    headers: it.play.headers };
  const other = await open(stageOf.chromium, foreign,
    { base: it.play.base(stageOf.at), file: stageOf.file, api: '/api/chat',
      id: it.play.key, resume: true, messages: [] });
  const { messages, errors } = await quiet(other.page, other.requests);
  assert.deepEqual([messages, errors, other.faults], [[], [], []]);
  doors.told.open();
  await it.end();
}

async function pages(t, it, chromium, version) {
  const stageOf = { it, chromium, at: `app${version}`,
    file: `ai${version}/use_chat.js` };
  const reference = await visit(stageOf, {});
  const want = alike(await reference.end(), reference.ids);
  assert.equal(want.at(-1).parts.filter(({ output }) => output).length, 2);
  const is = (name, run) => t.test(`ai ${version}: ${name}`, run);
  await Promise.all([
    ...Object.entries(places).map(([name, place]) =>
      is(`s88: reloaded ${name}`, () => reloads(stageOf, place, want))),
    is('reloaded with one of two results', () =>
      halfAnswered(stageOf, want)),
    is('reloaded after the end', () => rests(stageOf, {})),
    is('s86: reloaded after the end, running streams only', () =>
      rests(stageOf, { running: true })),
    is('s91: another user cannot see it', () => stranger(stageOf)),
  ]);
}

const all = await load(Object.values(versions).flat().join(' '));

test('useChat is reloaded', { skip: all.missing, concurrency: 4 },
  async (t) => {
    const bundles = Object.fromEntries(Object.entries(versions).map(
      ([version, [ai, , react]]) => [`ai${version}`,
        { ai, '@ai-sdk/react': react }]));
    const { it: chromium, missing } = await browser(t, ['use_chat.jsx'],
      bundles);
    if (missing) {
      t.skip(missing);
      return;
    }
    const apps = Object.fromEntries(Object.keys(versions).map((version, i) =>
      [`app${version}`, app(all.packages[3 * i], all.packages[3 * i + 1])]));
    const it = await stage(t, ['openai_chat'], apps, 1, resumed);
    await Promise.all(Object.keys(versions).map((version) =>
      pages(t, it, chromium, version)));
  });
