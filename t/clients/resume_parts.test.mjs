/*
 * resume_parts.test.mjs: a message with all kinds of parts, and an answer that
 * continues it: a useChat Chat that resumes that answer with an empty or an
 * old message then has the whole message.
 *
 * In versions 5 to 7 with their own schemas; no tool runs, no error occurs,
 * and the app accepts the message again.
 *
 * Suite: plain.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nginx } from '../lib/harness.mjs';
import { dialects, newId } from '../lib/dialects.mjs';
import { provider, sse } from '../lib/provider.mjs';
import { data } from '../lib/dialects/wire.mjs';
import { load } from './stage.mjs';

const versions = { 5: 'ai5 ai5-react', 6: 'ai @ai-sdk/react',
  7: 'ai7 ai7-react' };
const all = [5, 6, 7];

const step = { type: 'step-start' };
const words = (text, more) => ({ type: 'text', text, state: 'done', ...more });
const tool = (id, state, more) => ({ type: 'tool-dig', toolCallId: id, state,
  input: {}, ...more });
const done = tool('last', 'output-available', { output: 1 });
const metadata = { openai: { itemId: 'item_1', list: [1, null] } };

/*
 * parts of the message; of: versions that have such parts; after: events of
 * the answer before its step; becomes: parts that differ in the end (the
 * events may leave a trace); remains: those that have events; fresh: a page
 * cannot have loaded it.
 */
const messages = {
  words: { of: all, parts: [step, words('He "said"\n☀\u2028'), words(''),
    step, words('\ud83d\ude00', { providerMetadata: metadata }), done] },
  'no step at all': { of: all, parts: [words('so'), done] },
  reasoning: { of: all, parts: [step, { type: 'reasoning', id: 'r1',
    text: 'hm', state: 'done', providerMetadata: metadata }, words('so'),
  done] },
  results: { of: all, parts: [step,
    tool('a', 'output-available', { input: { deep: [{ a: '\u0000' }, 1.5] },
      output: { rows: [null, true, 'x'], n: -1e-7 } }),
    tool('b', 'output-available', { input: 'text', output: null }),
    tool('c', 'output-error', { input: [1], errorText: 'it "broke"' }),
    step, done],
  becomes: { 3: tool('c', 'output-error', { input: [1],
    errorText: 'it "broke"', rawInput: '[1]' }) } },
  'dynamic tools': { of: all, parts: [step,
    { ...tool('a', 'output-available', { output: [1] }),
      type: 'dynamic-tool', toolName: 'any' },
    { ...tool('b', 'output-error', { errorText: 'no' }),
      type: 'dynamic-tool', toolName: 'tool-any' }, done] },
  'tools of the provider': { of: all, parts: [step,
    tool('a', 'output-available', { providerExecuted: true, output: {} }),
    tool('b', 'input-available', { providerExecuted: true }), done] },
  'what came with the tools': { of: [6, 7], parts: [step,
    tool('a', 'output-available', { output: 1, title: 'Dig',
      toolMetadata: { a: 1 }, callProviderMetadata: metadata,
      resultProviderMetadata: metadata }), done] },
  'wrong arguments': { of: [5, 6], parts: [step,
    { type: 'tool-dig', toolCallId: 'a', state: 'output-error',
      rawInput: '{"a', errorText: 'no JSON' }, done] },
  'wrong arguments, as text': { of: [7], parts: [step,
    tool('a', 'output-error', { input: '{"a', errorText: 'no JSON' }),
    done],
  becomes: { 1: tool('a', 'output-error', { input: '{"a',
    errorText: 'no JSON', rawInput: '"{\\"a"' }) } },
  things: { of: all, parts: [step,
    { type: 'source-url', sourceId: 's', url: 'http://x', title: 'X' },
    { type: 'source-document', sourceId: 't', mediaType: 'a/b',
      title: 'T', filename: 'f' },
    { type: 'file', mediaType: 'image/png', url: 'data:,x' },
    { type: 'data-place', id: 'd', data: { x: [1] } },
    { type: 'data-place', data: 'x' }, done] },
  'an approval that is granted': { of: [6, 7], parts: [step,
    tool('a', 'approval-responded', { approval: { id: 'ap', approved: true,
      signature: 'sig' } }), done],
  after: [{ type: 'tool-output-available', toolCallId: 'a', output: 2 }],
  becomes: { 1: tool('a', 'output-available', { output: 2,
    approval: { id: 'ap', signature: 'sig' } }) }, undecided: true },
  'an approval that is refused': { of: [6, 7], parts: [step,
    tool('a', 'approval-responded', { approval: { id: 'ap',
      approved: false } }), done],
  after: [{ type: 'tool-output-denied', toolCallId: 'a' }],
  becomes: { 1: tool('a', 'output-denied', { rawInput: '{}',
    approval: { id: 'ap' } }) }, undecided: true },
  'things of 7': { of: [7], parts: [step,
    { type: 'custom', kind: 'openai.compaction', providerMetadata: metadata },
    { type: 'reasoning-file', mediaType: 'a/b', url: 'data:,' },
    { type: 'steering-message', id: 's',
      parts: [{ type: 'text', text: 'and' }] }, done] },
  'parts of the future, and broken ones': { of: all, parts: [step,
    { type: 'hologram', x: 1 }, { type: 'text' }, { type: 'file', url: 5 },
    { type: 'source-document', sourceId: 's', mediaType: 'a/b' },
    { type: 'tool-dig', toolCallId: 'a', state: 'output-available-soon' },
    { type: 'tool-dig', state: 'output-available', output: 1 },
    { type: 'dynamic-tool', toolCallId: 'b', state: 'output-error' },
    tool('c', 'approval-responded', {}), tool('d', 'input-streaming', {}),
    step, words('so', { providerMetadata: 'none' }), done],
  remains: [step, step, words('so'), done], fresh: true },
};

const user = { id: 'u1', role: 'user', parts: [{ type: 'text', text: '?' }] };
const plain = (value) => JSON.parse(JSON.stringify(value));

/* The answer: it continues the message with a text. */
function answer({ body }) {
  const { id, metadata: { after } } = body.messages.at(-1);
  const [start, ...rest] = dialects.ai_sdk.final('new', id);
  return sse([start, ...after.map(data), ...rest]);
}

/* The messages of a Chat that was loaded with these and resumes. */
async function resumes({ ai, Chat, api, id, authorization }, loaded) {
  const [calls, errors] = [[], []];
  const chat = new Chat({ id, messages: structuredClone(loaded),
    transport: new ai.DefaultChatTransport({ api,
      headers: { authorization } }),
    onError: (error) => errors.push(error.message),
    onToolCall: ({ toolCall }) => calls.push(toolCall.toolCallId) });
  await chat.resumeStream();
  assert.deepEqual([calls, errors, chat.status], [[], [], 'ready']);
  return plain(chat.messages);
}

async function tells(it, { parts, after = [], becomes = {}, undecided,
  remains = parts, fresh }) {
  const id = newId('chat_');
  const authorization = `Bearer ${newId('')}`;
  const message = { id: 'm1', role: 'assistant', metadata: { after }, parts };
  const posted = await fetch(it.api, { method: 'POST',
    headers: { 'content-type': 'application/json', authorization },
    body: JSON.stringify({ id, messages: [user, message],
      trigger: 'submit-message' }) });
  assert.match(await posted.text(), /new/);
  const want = plain([user, { ...message, parts: [
    ...remains.map((part, i) => becomes[i] ?? part), step, words('new')] }]);
  for (const loaded of fresh ? [[user]] : [[user], [user, message]]) {
    const got = await resumes({ ...it, id, authorization }, loaded);
    assert.deepEqual(got, want);
    /*
     * A decision that the app does not know is inserted into its next request.
     */
    if (!undecided) {
      await it.ai.validateUIMessages({ messages: got });
    }
  }
}

for (const [version, names] of Object.entries(versions)) {
  const { packages: [ai, react], missing } = await load(names);
  test(`ai ${version}: a resume gets the whole message`,
    { skip: missing, concurrency: true }, async (t) => {
      const { port } = await provider(t, 'ai_sdk', { strict: false, answer });
      const n = await nginx(t, { upstream: port, chat: 'ai_sdk',
        location: 'chat_record on;', server: `
          chat_tenant $http_authorization;
          location ~ ^/api/chat/([^/]+)/stream$ { chat_resume $1; }` });
      const it = { ai, Chat: react?.Chat,
        api: `http://127.0.0.1:${n.port}/api/chat` };
      await Promise.all(Object.entries(messages)
        .filter(([, { of }]) => of.includes(Number(version)))
        .map(([name, one]) => t.test(name, () => tells(it, one))));
    });
}
