/*
 * clients.test.mjs: the libraries that talk to a provider, through the module
 * and without it, in every situation of situations.mjs.
 *
 * Suite: plain, long.
 */
import { test } from 'node:test';
import { judgeAll } from './judge.mjs';
import { agUi } from './sdk/ag_ui.mjs';
import { anthropic } from './sdk/anthropic.mjs';
import { streamText, streamTextGoogle } from './sdk/ai.mjs';
import { google } from './sdk/google.mjs';
import { googleOld } from './sdk/google_old.mjs';
import { openai } from './sdk/openai.mjs';
import { load, stage } from './stage.mjs';
import { client, situationsFor } from './talk.mjs';

const dialects = ['openai_chat', 'openai_responses',
  'openai_responses_chained', 'anthropic', 'anthropic_thread', 'gemini',
  'ag_ui', 'ag_ui_resume'];

/* The ways of a library, by the packages that it is in. */
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
  '@ag-ui/client': ({ HttpAgent }) => agUi('@ag-ui/client 1', HttpAgent),
  'ai5 ai5-openai ai5-anthropic': (ai, ...providers) =>
    streamText('ai 5', ai, Object.assign({}, ...providers)),
  'ai @ai-sdk/openai @ai-sdk/anthropic': (ai, ...providers) =>
    streamText('ai 6', ai, Object.assign({}, ...providers)),
  'ai7 ai7-openai ai7-anthropic': (ai, ...providers) =>
    streamText('ai 7', ai, Object.assign({}, ...providers)),
};

for (const [names, ways] of Object.entries(libraries)) {
  const { packages, missing } = await load(names);
  test(names, { skip: missing, concurrency: 4 }, async (t) => {
    const it = await stage(t, dialects);
    for (const way of ways(...packages)) {
      await judgeAll(t, client(it, way), situationsFor(way));
    }
  });
}
