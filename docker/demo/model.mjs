/*
 * model.mjs: the model behind the demo's app. Without a key it is scripted: it
 * answers a user's message with three tool calls at once, and their results
 * with a text. With OPENAI_API_KEY or ANTHROPIC_API_KEY it is a real one, at
 * OPENAI_BASE_URL or ANTHROPIC_BASE_URL where these are set; CHAT_MODEL names
 * it.
 */
import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';

const usage = { inputTokens: { total: 1, noCache: 1, cacheRead: 0,
  cacheWrite: 0 }, outputTokens: { total: 1, text: 1, reasoning: 0 } };

const finish = (unified) => ({ type: 'finish', usage,
  finishReason: { unified, raw: unified } });

/* Letters and digits, like a provider's ids. */
export const newId = (prefix) => prefix + randomBytes(32).toString('base64')
  .replace(/[^A-Za-z0-9]/g, '').slice(0, 24).padEnd(24, '0');

function call(toolName, input) {
  const id = newId('call_');
  const json = JSON.stringify(input);
  const half = json.length >> 1;
  return [{ type: 'tool-input-start', id, toolName },
    { type: 'tool-input-delta', id, delta: json.slice(0, half) },
    { type: 'tool-input-delta', id, delta: json.slice(half) },
    { type: 'tool-input-end', id },
    { type: 'tool-call', toolCallId: id, toolName, input: json }];
}

function words(text) {
  return [{ type: 'text-start', id: 't' },
    ...text.match(/\S+\s*/g).map((delta) =>
      ({ type: 'text-delta', id: 't', delta })),
    { type: 'text-end', id: 't' }];
}

function textOf({ content }) {
  return content.filter(({ type }) => type === 'text')
    .map(({ text }) => text).join(' ');
}

/* The city that a user's words name: the last word with a capital letter. */
function cityOf(message) {
  const names = textOf(message).match(/\p{Lu}[\p{L}-]{2,40}/gu) ?? [];
  return names.at(-1) ?? 'Lisbon';
}

function asking(message) {
  const city = cityOf(message);
  return [...words(`A weekend in ${city}: let me find out three things.`),
    ...call('weather', { city }), ...call('flights', { city }),
    ...call('ask', { question: `Where do you want to stay in ${city}?`,
      options: ['Old town', 'By the water'] }), finish('tool-calls')];
}

/* The results of the three tools as a text. */
function answering(results) {
  const of = (name) => {
    const output = results.find(({ toolName }) => toolName === name)?.output;
    return output?.value ?? {};
  };
  const { degrees, sky } = of('weather');
  const { flight, leaves, euros } = of('flights');
  return [...words(`It will be ${sky} with ${degrees} degrees. Flight `
    + `${flight} leaves at ${leaves} for ${euros} euros. I have found you a `
    + `room for your choice: ${of('ask').answer}. Have a good time!`),
  finish('stop')];
}

async function* said(parts, pace, signal) {
  yield { type: 'stream-start', warnings: [] };
  for (const part of parts) {
    if (part.type === 'text-delta') {
      await pause(pace, undefined, { signal });
    }
    yield part;
  }
}

/* pace: ms between two words. */
export const scripted = (pace) => ({
  specificationVersion: 'v3', provider: 'demo', modelId: 'scripted',
  supportedUrls: {},
  async doStream({ prompt, abortSignal }) {
    const last = prompt.at(-1);
    const parts = last.role === 'tool'
      ? answering(last.content) : asking(last);
    return { stream: Readable.toWeb(
      Readable.from(said(parts, pace, abortSignal))) };
  },
});

/* The model that the environment selects, and its name. */
export async function modelOf(env, pace) {
  if (env.OPENAI_API_KEY) {
    const { createOpenAI } = await import('@ai-sdk/openai');
    const name = env.CHAT_MODEL ?? 'gpt-4o-mini';
    return { name, model: createOpenAI({ apiKey: env.OPENAI_API_KEY,
      baseURL: env.OPENAI_BASE_URL || undefined }).chat(name) };
  }
  if (env.ANTHROPIC_API_KEY) {
    const { createAnthropic } = await import('@ai-sdk/anthropic');
    const name = env.CHAT_MODEL ?? 'claude-sonnet-4-5';
    return { name, model: createAnthropic({ apiKey: env.ANTHROPIC_API_KEY,
      baseURL: env.ANTHROPIC_BASE_URL || undefined })(name) };
  }
  return { name: 'scripted', model: scripted(pace) };
}
