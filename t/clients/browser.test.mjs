/*
 * browser.test.mjs: chat UIs in a headless Chromium, through the module and
 * without it: the hook useChat, @assistant-ui/react with tools, deep-chat.
 *
 * Suite: plain, long.
 */
import { test } from 'node:test';
import { app } from './app.mjs';
import { browser, ui } from './browser.mjs';
import { judgeAll } from './judge.mjs';
import { load, stage } from './stage.mjs';

const { packages, missing } = await load(
  'ai @ai-sdk/openai ai7 ai7-openai @ai-sdk/react @assistant-ui/react');

const uis = [
  { name: '@assistant-ui/react, ai 7', key: 'openai_chat', at: 'app7',
    file: 'assistant_ui.js', api: '/api/chat',
    situations: ['text', 'three tools', 'two steps', 'replay wipes',
      'replay loops', 'refused', 'cut off'] },
  { name: 'useChat() on a page, ai 6', key: 'openai_chat', at: 'app6',
    file: 'use_chat.js', api: '/api/chat',
    situations: ['three tools', 'sent early', 'replay loops', 'cut off'] },
  { name: 'deep-chat', key: 'openai_chat', at: 'openai_chat',
    file: 'deep_chat.js', api: '/v1/chat/completions',
    situations: ['text', 'refused', 'fails inside'] }];

test('browser', { skip: missing, concurrency: 3 }, async (t) => {
  const { it, missing: none } = await browser(t,
    ['assistant_ui.jsx', 'use_chat.jsx', 'deep_chat.js']);
  if (none) {
    t.skip(none);
    return;
  }
  const [ai6, openai6, ai7, openai7] = packages;
  const place = await stage(t, ['openai_chat'],
    { app6: app(ai6, openai6), app7: app(ai7, openai7) });
  await Promise.all(uis.map(({ situations, ...one }) =>
    judgeAll(t, ui(place, it, one), situations)));
});
