/*
 * dialects.mjs: what each dialect says, as its real client and its
 * real provider would; one file per dialect beside this one.
 *
 * A call is {id, name, input, ...}; results are {id: value}, where an Error
 * means a failed tool. Streams are arrays of events (strings) with the `id`
 * of the response and its `calls`: calls() asks for tools, final() is an
 * answer in words. fresh() and continuation() are request bodies; from is a
 * stream of calls(); says() makes a continuation end in new words. check()
 * answers as the provider does: null when a body is good, else {status, body
 * or events} in its own words.
 */
import { agUi, agUiResume } from './dialects/ag_ui.mjs';
import { aiSdk } from './dialects/ai_sdk.mjs';
import { anthropic, anthropicThread } from './dialects/anthropic.mjs';
import { chat } from './dialects/openai_chat.mjs';
import { gemini } from './dialects/gemini.mjs';
import { responses, responsesChained, responsesConversation }
  from './dialects/openai_responses.mjs';

export { events, newCalls, newId } from './dialects/wire.mjs';

/*
 * name: value of the directive chat. apps: who answers is an app, which tells
 * errors by events, not by a status. bounces: the word that told() has for a
 * bounce, where holds end by one. interrupts: what is asked comes with the
 * end of the stream, and no words of the user are an answer to it. The rest
 * is what is said.
 */
export const dialects = {
  ai_sdk: { name: 'ai_sdk', apps: true, bounces: 'bounce', ...aiSdk },
  openai_responses: { name: 'openai_responses', ...responses },
  openai_responses_chained: { name: 'openai_responses', chained: true,
    ...responsesChained },
  openai_responses_conversation: { name: 'openai_responses', chained: true,
    ...responsesConversation },
  openai_chat: { name: 'openai_chat', ...chat },
  anthropic: { name: 'anthropic', ...anthropic },
  anthropic_thread: { name: 'anthropic', chained: true, ...anthropicThread },
  gemini: { name: 'gemini', ...gemini },
  ag_ui: { name: 'ag_ui', apps: true, bounces: 'empty', ...agUi },
  ag_ui_resume: { name: 'ag_ui', apps: true, bounces: 'error', chained: true,
    interrupts: true,
    ...agUiResume },
};

/* The dialects, each once. */
export const names = [...new Set(Object.values(dialects)
  .map(({ name }) => name))];
