/*
 * chat.test.mjs: useChat's Chat with an app, through the module and without
 * it, in every situation of situations.mjs for a chat.
 *
 * Suite: asan, long.
 */
import { test } from 'node:test';
import { app } from './app.mjs';
import { judgeAll } from './judge.mjs';
import { chat } from './sdk/chat.mjs';
import { chatSituations, shown } from './situations.mjs';
import { load, stage } from './stage.mjs';

const versions = {
  5: 'ai5 ai5-openai ai5-react',
  6: 'ai @ai-sdk/openai @ai-sdk/react',
  7: 'ai7 ai7-openai ai7-react',
};

async function judgeVersion(t, version, packages) {
  const [ai, provider, { Chat }] = packages;
  const it = await stage(t, ['openai_chat'], { app: app(ai, provider) });
  const client = chat(it, { version: `useChat, ai ${version}`, ai, Chat,
    name: 'app' });
  await judgeAll(t, client, shown(chatSituations)
    .filter(({ kinds }) => !(version === '5' && kinds?.includes('approval')))
    .map(({ name }) => name));
}

/* They mostly wait, so they run at the same time. */
test('useChat', { concurrency: true }, (t) =>
  Promise.all(Object.entries(versions).map(async ([version, names]) => {
    const { packages, missing } = await load(names);
    await t.test(`ai ${version}`, { skip: missing, concurrency: 8 },
      (sub) => judgeVersion(sub, version, packages));
  })));
