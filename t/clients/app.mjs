/*
 * app.mjs: a small chat app, as a user of the AI SDK would write it: one
 * route that takes the transcript, asks the model (streamText, through the
 * package's OpenAI provider) and streams the answer as UI messages.
 *
 * It is the upstream of nginx for useChat. Its model is the scripted and
 * strict provider of the stage. A situation can make it replay earlier calls
 * or break off.
 */
import http from 'node:http';
import { data, events } from '../lib/dialects/wire.mjs';
import { heard, idOf } from './script.mjs';
import { toolsOf } from './situations.mjs';
import { parameters, work } from './tools.mjs';

const isTool = ({ type }) => /^tool-|^dynamic-tool$/.test(type);

/* The tools of the app; the client runs most of them. */
function declared({ tool, dynamicTool, jsonSchema }, situation) {
  const runs = {
    client: () => undefined,
    dynamic: () => undefined,
    gradual: (name) => async function* gradual(input) {
      yield { of: input.city, is: 'not known yet' };
      yield work(name, input);
    },
  };
  return Object.fromEntries(toolsOf(situation).map(({ name, kind }) =>
    [name, (kind === 'dynamic' ? dynamicTool : tool)({
      inputSchema: jsonSchema(parameters),
      ...(kind === 'approval' && { needsApproval: true }),
      execute: runs[kind] ? runs[kind](name)
        : (input) => work(name, input) })]));
}

/* All messages, also if the client sent only the last one. */
function whole(play, { messages, message }) {
  if (!messages) {
    play.messages = (play.messages ?? []).filter(({ id }) =>
      id !== message.id).concat(message);
  }
  return messages ?? play.messages;
}

/* The calls of the last step, repeated as gateways do. */
function replayed({ messages }, withOutput) {
  const last = messages.at(-1);
  if (last.role !== 'assistant') {
    return '';
  }
  const step = last.parts.findLastIndex(({ type }) => type === 'step-start');
  return last.parts.slice(step).filter(isTool).flatMap((part) => {
    const { toolCallId, input, output } = part;
    const toolName = part.toolName ?? part.type.slice(5);
    return [{ type: 'tool-input-start', toolCallId, toolName },
      { type: 'tool-input-delta', toolCallId,
        inputTextDelta: JSON.stringify(input) },
      { type: 'tool-input-available', toolCallId, toolName, input },
      ...(withOutput
        ? [{ type: 'tool-output-available', toolCallId, output }] : [])];
  }).map(data).join('');
}

/* Writes the answer event by event, with the faults of the situation. */
async function write(response, answer, situation, body) {
  const { app = {} } = situation;
  let text = '';
  for await (const bytes of answer.body) {
    text += Buffer.from(bytes).toString();
    const blocks = text.split('\n\n');
    text = blocks.pop();
    for (const block of blocks) {
      const [{ type, delta }] = events(block);
      if (type === 'start-step' && app.replay === 'before') {
        response.write(replayed(body, false));
      }
      response.write(`${block}\n\n`);
      if (type === 'start-step' && app.replay === 'after') {
        response.write(replayed(body, true));
      }
      if (type === 'text-delta' && app.breaks) {
        await (situation.shown ? situation.shown(delta) : heard());
        return app.breaks === 'reset' ? response.socket.resetAndDestroy()
          : response.end();
      }
    }
  }
  return response.end();
}

class App {
  constructor(ai, createOpenAI, stage) {
    Object.assign(this, { ai, createOpenAI, stage, requests: [] });
    this.server = http.createServer((request, response) => {
      this.serve(request, response).catch(() => response.destroy());
    });
    /* A client may reuse a connection that the server closes just then. */
    this.server.keepAliveTimeout = 60000;
  }

  async serve(request, response) {
    const chunks = [];
    for await (const chunk of request) {
      chunks.push(chunk);
    }
    this.requests.push(request);
    const key = request.headers['x-play'];
    const play = this.stage.plays.get(key);
    const { situation } = play;
    /* A client that loops gets an error after a while. */
    if (situation.app?.status || ++play.asked > 12) {
      response.writeHead(500);
      response.end('the app is down');
      return;
    }
    const body = JSON.parse(Buffer.concat(chunks));
    const stop = new AbortController();
    response.on('close', () => stop.abort());
    body.messages = whole(play, body);
    /* The messages that an app stores before it answers. */
    play.kept = body.messages;
    await play.waits?.();
    const answer = await this.chat(key, situation, body, stop.signal);
    response.writeHead(200, Object.fromEntries(answer.headers));
    await write(response, answer, situation, body);
  }

  async chat(key, situation, { messages }, abortSignal) {
    const openai = this.createOpenAI({ apiKey: key,
      baseURL: `http://127.0.0.1:${this.stage.ports.openai_chat}/v1`,
      headers: { 'x-play': key } });
    const tools = declared(this.ai, situation);
    const result = this.ai.streamText({ model: openai.chat('m'),
      abortSignal, maxRetries: 0, tools, onError: () => {},
      stopWhen: (this.ai.stepCountIs ?? this.ai.isStepCount)(5),
      messages: await this.ai.convertToModelMessages(messages, { tools }) });
    return result.toUIMessageStreamResponse({ originalMessages: messages,
      generateMessageId: () => idOf('msg_', messages.length),
      onError: (error) => `${error?.name}: ${error?.message}` });
  }

  async stop() {
    this.server.closeAllConnections();
    await new Promise((resolve) => { this.server.close(resolve); });
  }
}

/* For stage(): ai and its provider's package in one version. */
export const app = (ai, { createOpenAI }) => async (stage) => {
  const it = new App(ai, createOpenAI, stage);
  await new Promise((resolve) => {
    it.server.listen(0, '127.0.0.1', resolve);
  });
  it.port = it.server.address().port;
  return it;
};
