/*
 * app.mjs: the chat app behind the demo's page, as a user of the AI SDK
 * would write it: streamText with the transcript that the page sends.
 *
 * POST /chat: one turn. `settings` in the body make it misbehave: `replay`
 * repeats the calls before the text, as some gateways do; `cut` ends the
 * answer in the middle, as if the app had crashed. GET /chat?id=: the stored
 * transcript (`kept`: with the last sent messages, for a page that is
 * reloaded), and the received requests: how many results each brought, and
 * whether it was refused.
 */
import http from 'node:http';
import {
  convertToModelMessages, jsonSchema, stepCountIs, streamText, tool,
} from 'ai';
import { modelOf, newId } from './model.mjs';
import { tools } from './tools.mjs';

const most = { body: 1 << 20, chats: 200, requests: 100 };
const cutAfter = 9; /* words */

const declared = Object.fromEntries(Object.entries(tools).map(
  ([name, { description, parameters }]) => [name, tool({ description,
    inputSchema: jsonSchema(parameters) })]));

const isTool = ({ type }) => /^tool-/.test(type);
const data = (event) => `data: ${JSON.stringify(event)}\n\n`;

/* The calls of the last step, if the client must answer them. */
function callsOf(messages) {
  const { role, parts } = messages.at(-1);
  const step = parts.findLastIndex(({ type }) => type === 'step-start');
  return role === 'assistant' ? parts.slice(step + 1).filter(isTool) : [];
}

/* The events of these calls, repeated. */
function again(calls) {
  return calls.flatMap(({ type, toolCallId, input }) => {
    const toolName = type.slice('tool-'.length);
    return [{ type: 'tool-input-start', toolCallId, toolName },
      { type: 'tool-input-delta', toolCallId,
        inputTextDelta: JSON.stringify(input) },
      { type: 'tool-input-available', toolCallId, toolName, input }];
  }).map(data).join('');
}

/* Forwards the answer and applies the settings. */
async function write(response, answer, { calls, settings, entry }) {
  let rest = '';
  let said = 0;
  for await (const bytes of answer.body) {
    const blocks = (rest + Buffer.from(bytes)).split('\n\n');
    rest = blocks.pop();
    for (const block of blocks) {
      const type = /"type":"([a-z-]+)"/.exec(block)?.[1];
      response.write(`${block}\n\n`);
      if (settings.replay && calls.length && type === 'start-step') {
        response.write(again(calls));
        entry.replayed = true;
      }
      if (settings.cut && calls.length && type === 'text-delta'
        && ++said === cutAfter) {
        entry.cut = true;
        return;
      }
    }
  }
}

class App {
  constructor(model, log) {
    Object.assign(this, { model, log, chats: new Map() });
  }

  chat(id) {
    const chat = this.chats.get(id)
      ?? { messages: [], kept: [], requests: [] };
    this.chats.delete(id);
    this.chats.set(id, chat);
    if (this.chats.size > most.chats) {
      this.chats.delete(this.chats.keys().next().value);
    }
    return chat;
  }

  async turn(body, response) {
    const { id, messages, settings = {} } = body;
    const chat = this.chat(id);
    const calls = callsOf(messages);
    const entry = { time: Date.now(), of: calls.length,
      results: calls.filter(({ state }) => /^output/.test(state)).length };
    chat.requests.push(entry);
    chat.requests.splice(0, chat.requests.length - most.requests);
    chat.kept = messages;
    const stop = new AbortController();
    response.on('close', () => stop.abort());
    const result = streamText({ model: this.model, tools: declared,
      messages: await convertToModelMessages(messages, { tools: declared }),
      stopWhen: stepCountIs(5), maxRetries: 0, abortSignal: stop.signal,
      onError: () => {} });
    const answer = result.toUIMessageStreamResponse({
      originalMessages: messages, generateMessageId: () => newId('msg_'),
      onError(error) {
        entry.refused ??= `${error?.name}: ${error?.message}`.slice(0, 500);
        return entry.refused;
      },
      onFinish: ({ messages: all, isAborted }) => {
        if (!entry.refused && !entry.cut && !isAborted) {
          chat.messages = all;
          chat.kept = all;
        }
      } });
    response.writeHead(200, Object.fromEntries(answer.headers));
    await write(response, answer, { calls, settings, entry });
    response.end();
    this.log?.(entry);
  }

  async serve(request, response) {
    const url = new URL(request.url, 'http://app');
    if (url.pathname !== '/chat') {
      response.writeHead(404).end();
      return;
    }
    if (request.method === 'GET') {
      const it = this.chats.get(url.searchParams.get('id'));
      response.writeHead(200, { 'content-type': 'application/json',
        'cache-control': 'no-store' });
      response.end(JSON.stringify(it
        ?? { messages: [], kept: [], requests: [] }));
      return;
    }
    let text = '';
    for await (const chunk of request.setEncoding('utf8')) {
      text += chunk;
      if (text.length > most.body) {
        response.writeHead(413).end();
        return;
      }
    }
    await this.turn(JSON.parse(text), response);
  }
}

/*
 * Listens: {server, port, name}, where name is the model's.
 * pace: ms between two words of the scripted model.
 */
export async function app({ port = 0, host = '127.0.0.1', pace = 60,
  env = process.env, log } = {}) {
  const { model, name } = await modelOf(env, pace);
  const it = new App(model, log);
  const server = http.createServer((request, response) => {
    it.serve(request, response).catch(() => {
      if (!response.headersSent) {
        response.writeHead(400);
      }
      response.end();
    });
  });
  server.keepAliveTimeout = 60000;
  await new Promise((resolve, reject) => {
    server.on('error', reject);
    server.listen(port, host, resolve);
  });
  return { server, port: server.address().port, name };
}
