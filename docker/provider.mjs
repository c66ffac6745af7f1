/*
 * provider.mjs: the provider of the demo, and an app's chat route.
 *
 * POST .../chat/completions speaks OpenAI Chat, .../messages Anthropic,
 * /api/chat the stream of an AI SDK app. It answers a user's message with two
 * tool calls and their results with a text; it refuses a body with only one of
 * two results like the real one. Call ids are derived from the user's text, so
 * that prepared commands fit. ?replay: repeats the calls before the text.
 * ?cut: breaks off. By itself: node docker/provider.mjs PORT
 */
import { createHash } from 'node:crypto';
import http from 'node:http';
import { fileURLToPath } from 'node:url';
import { dialects } from '../t/lib/dialects.mjs';

const cities = ['Rome', 'Oslo'];
const routes = [[/\/chat\/completions$/, dialects.openai_chat],
  [/\/messages$/, dialects.anthropic], [/\/api\/chat$/, dialects.ai_sdk]];

/* 24 letters and digits that depend only on the words. */
function idOf(prefix, words) {
  return prefix + createHash('sha256').update(words).digest('base64')
    .replace(/[^A-Za-z0-9]/g, '').slice(0, 24);
}

/* The two calls that answer a user's text. */
export function callsFor(dialect, words) {
  return cities.map((city) => ({ id: idOf(dialect.prefix, city + words),
    name: 'weather', input: { city } }));
}

/* The answer with the calls: its events, with id and calls. */
export function asking(dialect, words) {
  return dialect.calls({ calls: callsFor(dialect, words),
    id: idOf('msg_', words) });
}

function lastWords(body) {
  const said = body.messages.at(-1);
  const part = (said.parts ?? said.content)[0];
  return part.text ?? said.content;
}

function answer(dialect, body, how) {
  if (!dialect.answered(body).length) {
    return asking(dialect, lastWords(body));
  }
  const words = dialect.final('Rome has 31 degrees, Oslo has 12.');
  const last = body.messages.at(-1);
  const again = how.has('replay') && last.parts
    ? last.parts.filter(({ toolCallId }) => toolCallId)
      .flatMap(({ type, toolCallId, input }) => dialects.ai_sdk.call({
        id: toolCallId, name: type.replace('tool-', ''), input }))
    : [];
  words.splice(2, 0, ...again);
  return words;
}

async function send(response, events, { cut, pace, headers }) {
  response.writeHead(200, { 'content-type': 'text/event-stream',
    'cache-control': 'no-cache', ...headers });
  const half = Math.ceil(events.length / 2);
  for (const event of cut ? events.slice(0, half) : events) {
    response.write(event);
    await new Promise((resolve) => { setTimeout(resolve, pace); });
  }
  if (cut) {
    response.write(events[half].slice(0, 20),
      () => response.socket?.destroy());
  } else {
    response.end();
  }
}

async function serve(request, response, { seen, pace }) {
  const chunks = [];
  for await (const chunk of request) {
    chunks.push(chunk);
  }
  const at = performance.now();
  const url = new URL(request.url, 'http://provider');
  const dialect = routes.find(([path]) => path.test(url.pathname))?.[1];
  if (!dialect || request.method !== 'POST') {
    response.writeHead(404).end();
    return;
  }
  const refuse = (status, body) => {
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body));
  };
  let body;
  let fault;
  try {
    body = JSON.parse(Buffer.concat(chunks));
    fault = dialect.check(body);
  } catch {
    refuse(400, { error: { message: 'We could not parse the JSON body.' } });
    return;
  }
  seen?.({ at, dialect, body, refused: !!fault,
    answered: dialect.answered(body) });
  if (fault && !fault.events) {
    refuse(fault.status, fault.body);
    return;
  }
  await send(response,
    fault?.events ?? answer(dialect, body, url.searchParams),
    { cut: url.searchParams.has('cut'), pace, headers: dialect.sse });
}

/* Listens on loopback; seen() gets each request, pace is ms per event. */
export async function provider({ port = 0, seen, pace = 10 } = {}) {
  const server = http.createServer((request, response) => {
    serve(request, response, { seen, pace })
      .catch(() => response.destroy());
  });
  server.keepAliveTimeout = 60000;
  await new Promise((resolve, reject) => {
    server.on('error', reject);
    server.listen(port, '127.0.0.1', resolve);
  });
  return server;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const server = await provider({ port: Number(process.argv[2] ?? 8081),
    seen: ({ refused, answered }) => console.log(
      `${answered.length} results${refused ? ', refused' : ''}`) });
  console.log(`http://127.0.0.1:${server.address().port}`);
}
