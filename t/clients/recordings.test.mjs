/*
 * recordings.test.mjs: real answers of providers, cut at random places: each
 * passes byte for byte, and the module stores the same calls as the AI SDK's
 * own provider finds in the file.
 *
 * The test reads the stored calls from a Redis of its own: id, kind, position
 * and fingerprint, which must be that of the same call in the body that the
 * SDK sends with its result. Recordings are beside the repository; without
 * them the test is skipped with a message.
 *
 * Suite: plain.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { nginx, post, root, until } from '../lib/harness.mjs';
import { dialects, newId } from '../lib/dialects.mjs';
import { seeded } from '../lib/nodes.mjs';
import { provider, sse } from '../lib/provider.mjs';
import { redis } from '../lib/redis/redis.mjs';
import { load } from './stage.mjs';

const plays = 100; /* of each file */
const abreast = 10;
const folder = `${root}/../shared/recordings`;
const absent = !existsSync(folder) && 'no recordings in ../shared/recordings';

/* Version 5 has no approvals. */
const versions = { 6: '@ai-sdk/openai @ai-sdk/anthropic',
  7: 'ai7-openai ai7-anthropic' };

const models = {
  openai_chat: ({ createOpenAI }, settings) =>
    createOpenAI(settings).chat('m'),
  openai_responses: ({ createOpenAI }, settings) =>
    createOpenAI(settings).responses('m'),
  anthropic: ({ createAnthropic }, settings) =>
    createAnthropic(settings)('m'),
};

const hello = { role: 'user', content: [{ type: 'text', text: 'Hello' }] };

/*
 * The calls that a provider of the SDK finds, in order. A shell's command has
 * a form of the SDK's own, and so no input that could be compared.
 */
async function callsOf(model) {
  const { stream } = await model.doStream({ prompt: [hello] });
  const parts = [];
  for await (const part of stream) {
    parts.push(part);
  }
  /* The SDK gives approval requests ids of its own. */
  const asked = new Map(parts.filter(({ approvalId }) => approvalId)
    .map(({ toolCallId, approvalId }) => [toolCallId, approvalId]));
  return parts.filter(({ type }) => type === 'tool-call').map((call, i) => {
    const { toolCallId, toolName, input, providerExecuted } = call;
    const kind = asked.has(toolCallId) ? 'a' : providerExecuted ? 'p' : 'c';
    return { id: asked.get(toolCallId) ?? toolCallId, place: i, kind,
      call: kind === 'c' && !/shell$/.test(toolName)
        && { toolCallId, toolName, input: JSON.parse(input || '{}') } };
  });
}

/* The model sends results of these calls. */
const answerCalls = (model, calls) => model.doStream({ prompt: [hello,
  { role: 'assistant', content: calls.map((call) =>
    ({ type: 'tool-call', ...call })) },
  { role: 'tool', content: calls.map(({ input, ...call }) =>
    ({ ...call, type: 'tool-result', output: { type: 'text', value: '1' } }))
  } ] });

const { packages, missing } = await load(Object.values(versions).join(' '));
/* One file has several answers, which the provider sends one by one. */
const answers = (text) => text.split(/(?=^event: message_start\n)/m);
const files = absent ? [] : Object.keys(models).flatMap((key) =>
  readdirSync(`${folder}/${key}`).flatMap((file) =>
    answers(readFileSync(`${folder}/${key}/${file}`, 'utf8')).map((text, i) =>
      ({ key, name: `${file}${i ? `, ${i}` : ''}`,
        bytes: Buffer.from(text) }))));

/* A model of a version of the SDK; send(body) returns the answer's bytes. */
const model = (key, version, send) => models[key](
  Object.assign({}, ...packages.slice(2 * version, 2 * version + 2)),
  { apiKey: 'k', fetch: async (_, { body }) => new Response(await send(body),
    { headers: { 'content-type': 'text/event-stream' } }) });

/* The calls that each version of the SDK finds in a file; they agree. */
async function expected({ key, bytes }) {
  const views = await Promise.all(Object.keys(versions).map((_, i) =>
    callsOf(model(key, i, async () => bytes))));
  for (const view of views) {
    assert.deepEqual(view, views[0]);
  }
  return views[0];
}

/* The facts of all batches: lists of fields and values. */
async function stored(r) {
  const keys = await r.command('KEYS', 'chat:{*');
  return Promise.all(keys.filter((key) => !key.endsWith(':p'))
    .map((key) => r.command('HGETALL', key)));
}

/* The facts word/<id>: [[id, ...words of the value], ...]. */
const named = (list, word) => list.flatMap((field, i) =>
  (i % 2 === 0 && field.startsWith(`${word}/`)
    ? [[field.slice(word.length + 1), ...list[i + 1].slice(1).split(' ')]]
    : []));

/* The stored calls of each batch, in order. */
async function known(r) {
  return (await stored(r)).filter((list) => list.includes('seal'))
    .map((list) => named(list, 'call').map(([id, place, kind, fingerprint]) =>
      ({ id, place: Number(place), kind, fingerprint }))
      .sort((one, other) => one.place - other.place));
}

/* Bytes in pieces, cut at up to this many positions. */
function pieces(bytes, random, most = 12) {
  const cuts = Array.from({ length: 1 + random(most) }, () =>
    random(bytes.length)).sort((a, b) => a - b);
  return [...cuts, bytes.length].map((cut, i) =>
    bytes.subarray(cuts[i - 1] ?? 0, cut));
}

test('recordings', { skip: missing || absent }, async (t) => {
  const r = await redis(t);
  const p = await provider(t, null);
  const n = await nginx(t, { upstream: p.port, workers: 2, store: r.url(),
    connects: true, location: 'chat_conversation $http_x_play;' });
  const { random } = seeded(t);

  async function play({ key, bytes }) {
    const { path, fresh, headers } = dialects[key];
    const answer = post(n.port, path, fresh(), { ...headers,
      'x-play': newId('play_') });
    const got = await answer.body();
    assert.ok(got.equals(bytes), `${got.length} bytes of ${bytes.length}`);
  }

  /* The fingerprints of calls, by id, in the body that the SDK sends. */
  async function prints(key, calls) {
    const { path, headers } = dialects[key];
    const before = n.accessLog().length;
    p.answer = () => sse(['data: [DONE]\n\n']);
    await answerCalls(model(key, 0, (body) => post(n.port, path, body,
      { ...headers, 'x-play': newId('play_') }).body()), calls);
    await until(() => n.accessLog().length === before + 1);
    return Object.fromEntries((await stored(r)).flatMap((list) =>
      named(list, 'result')).map(([id, , , print]) => [id, print]));
  }

  for (const one of files) {
    await t.test(`${one.key} ${one.name}, ${plays} times`, async () => {
      const calls = await expected(one);
      const members = calls.filter(({ kind }) => kind !== 'p');
      await r.command('FLUSHALL');
      const comparable = members.flatMap(({ call }) => call || []);
      const print = comparable.length ? await prints(one.key, comparable) : {};
      await r.command('FLUSHALL');
      p.answer = () => sse(pieces(one.bytes, random));
      const before = n.accessLog().length;
      for (let i = 0; i < plays; i += abreast) {
        await Promise.all(Array.from({ length: abreast }, () => play(one)));
      }

      await until(() => n.accessLog().length === before + plays);
      for (const line of n.accessLog().slice(before)) {
        assert.deepEqual([line.dialect, line.turn_status, Number(line.calls)],
          [one.key, 'finished', calls.length]);
      }
      const batches = await until(async () => {
        const list = await known(r);
        return list.length === (members.length && plays) && list;
      }, 5000, 'each batch to be known');
      for (const batch of batches) {
        assert.deepEqual(batch.map((call, i) => ({ ...call, fingerprint:
          members[i]?.call && call.fingerprint })),
        members.map(({ call, ...member }) => ({ ...member,
          fingerprint: call && print[member.id] })));
      }
    });
  }
});
