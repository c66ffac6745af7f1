/*
 * harness_dialects.mjs: what each dialect says, as its real client and its
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
import { aiSdk } from './harness_ai_sdk.mjs';
import { anthropic, anthropicThread } from './harness_anthropic.mjs';
import { chat } from './harness_chat.mjs';
import { gemini } from './harness_gemini.mjs';
import { responses, responsesChained, responsesConversation }
  from './harness_responses.mjs';

export { events, newCalls, newId } from './harness_wire.mjs';

/* name: value of the directive chat; the rest is what is said. */
export const dialects = {
  ai_sdk: { name: 'ai_sdk', ...aiSdk },
  openai_responses: { name: 'openai_responses', ...responses },
  openai_responses_chained: { name: 'openai_responses', chained: true,
    ...responsesChained },
  openai_responses_conversation: { name: 'openai_responses', chained: true,
    ...responsesConversation },
  openai_chat: { name: 'openai_chat', ...chat },
  anthropic: { name: 'anthropic', ...anthropic },
  anthropic_thread: { name: 'anthropic', chained: true, ...anthropicThread },
  gemini: { name: 'gemini', ...gemini },
};

/* The dialects, each once. */
export const names = [...new Set(Object.values(dialects)
  .map(({ name }) => name))];
