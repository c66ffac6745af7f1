/*
 * ai.mjs: streamText of the AI SDK, versions 4 to 7, which runs the tools
 * itself and talks to the providers through @ai-sdk/openai (Chat and
 * Responses) and @ai-sdk/anthropic; version 4 through @ai-sdk/google, which
 * ignores error events of a stream there. A talker that runs (talk.mjs).
 * Values that are new in each run (ids, times, headers) are left out.
 */
import { parameters, tools, work } from '../tools.mjs';

/* New for each answer, by the library or by HTTP. */
const passing = new Set(['timestamp', 'headers', 'messageId', 'request',
  'response', 'performance', 'stepNumber', 'callId']);

const lasting = (key, value) => (passing.has(key) ? undefined : value);

class StreamText {
  constructor(ai, model) {
    Object.assign(this, { ai, model });
  }

  async run(words, { signal, heard, out }) {
    const { streamText, tool, jsonSchema, stepCountIs } = this.ai;
    let failure;
    const result = streamText({ model: this.model, prompt: words,
      abortSignal: signal,
      providerOptions: { openai: { store: false } },
      maxSteps: 5, /* version 4; later ones have stopWhen */
      stopWhen: (stepCountIs ?? this.ai.isStepCount)?.(5),
      onError: ({ error }) => { failure ??= error; },
      tools: Object.fromEntries(tools.map((name) => [name, tool({
        inputSchema: jsonSchema(parameters),
        parameters: jsonSchema(parameters),
        execute: async (input) => {
          out.calls.push({ name, input });
          return work(name, input);
        } })])) });
    for await (const part of result.fullStream) {
      if (part.type === 'text-start') {
        out.words = '';
      } else if (part.type === 'step-start') {
        out.words = '';
      } else if (part.type === 'text-delta') {
        out.words += part.text ?? part.textDelta;
        heard?.(out.words);
      } else if (part.type === 'error') {
        failure ??= part.error;
      } else if (part.type === 'abort') {
        throw new Error('aborted');
      }
    }
    if (failure) {
      throw failure.lastError ?? failure;
    }
    const { messages } = await result.response;
    const seen = [messages, await result.finishReason];
    out.messages.push(...JSON.parse(JSON.stringify(seen, lasting)));
  }
}

/* Version 4 before Gemini. */
export const streamTextGoogle = (version, ai, { createGoogleGenerativeAI }) =>
  [{ name: `${version} streamText, google`, key: 'gemini', runs: true,
    deaf: true, nameless: true,
    make: (base, { key, headers }) => new StreamText(ai,
      createGoogleGenerativeAI({ apiKey: key, headers, baseURL: base })(
        'm')) }];

/* ai: the package ai; openai and anthropic: its providers' packages. */
export function streamText(version, ai, { createOpenAI, createAnthropic }) {
  const settings = (base, { key, headers }) => ({ apiKey: key, headers,
    baseURL: `${base}/v1` });
  const ways = {
    'openai.chat()': ['openai_chat', (base, play) =>
      createOpenAI(settings(base, play)).chat('m')],
    'openai.responses()': ['openai_responses', (base, play) =>
      createOpenAI(settings(base, play)).responses('m')],
    anthropic: ['anthropic', (base, play) =>
      createAnthropic(settings(base, play))('m')],
  };
  return Object.entries(ways).map(([way, [key, model]]) => ({
    name: `${version} streamText, ${way}`, key, runs: true,
    make: (base, play) => new StreamText(ai, model(base, play)) }));
}
