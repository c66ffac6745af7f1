/*
 * dialects.mjs: the messages of each dialect, as its real client and its real
 * provider send them; one file per dialect in dialects/.
 *
 * A call is {id, name, input, ...}; results are {id: value}, where an Error
 * means a failed tool. Streams are arrays of events (strings) with the `id` of
 * the response and its `calls`: calls() makes a stream with calls, final() a
 * text answer of two events or more before its end. fresh() and continuation()
 * are request bodies; from is a stream of calls(); says() adds a new user text
 * to a continuation. check() answers like the provider: null for a valid body,
 * else {status, body or events} with its error text.
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
 * name: value of the directive chat. apps: the upstream is an app that reports
 * errors as events, not as a status. bounces: the outcome in told() if holds
 * end by a bounce. interrupts: the calls come with the end of the stream, and
 * no user text answers them. The rest is the dialect's messages.
 *
 * seal: what only the event has that ends a step with calls. error(): the
 * message of an error event, else undefined. empty(): true if these events are
 * the dialect's empty turn; absent if it has none.
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

/* True if the event is an error in any dialect. */
export const isError = (event) => Object.values(dialects)
  .some(({ error }) => error(event) !== undefined);

/* The dialects, each once. */
export const names = [...new Set(Object.values(dialects)
  .map(({ name }) => name))];
