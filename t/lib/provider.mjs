/*
 * provider.mjs: a scripted provider (or app) behind nginx.
 *
 * It records every request and answers by a script. Before the script runs,
 * the dialect's strict check refuses what the real provider would refuse. A
 * script is a function of the request (and its number) that returns sse() or
 * json(); without one, `answer` of provider() uses default(): a text for a
 * body with results, a batch of calls for a fresh one.
 */
import http from 'node:http';
import { gzipSync } from 'node:zlib';
import { dialects } from './dialects.mjs';
import { until } from './wait.mjs';

/*
 * An SSE answer. parts: strings, Buffers, promises (waited for, their value
 * ignored), functions (called and waited for). options: cut (bytes per write;
 * default: one write per part), flush (each write, and the header, is sent
 * separately; default true), end: 'end', 'reset', 'drop' (at once, without a
 * header) or 'open' (never), gzip, status, headers, close (delimited by the
 * connection's end, no chunks).
 */
export function sse(parts, options = {}) {
  return { parts: [parts].flat(), end: 'end', flush: true, status: 200,
    ...options, id: parts.id, calls: parts.calls };
}

export function json(status, body, headers = {}) {
  return { parts: [JSON.stringify(body)], end: 'end', status,
    headers: { 'content-type': 'application/json', ...headers } };
}

/* All strings of parts in pieces of a size; promises end a piece. */
function* pieces({ parts, cut }) {
  for (const part of cut === undefined ? parts : joined(parts)) {
    if (typeof part !== 'string' && !Buffer.isBuffer(part)) {
      yield part;
      continue;
    }
    const bytes = Buffer.from(part);
    const step = cut ?? (bytes.length || 1);
    for (let i = 0; i < bytes.length; i += step) {
      yield bytes.subarray(i, i + step);
    }
  }
}

function joined(parts) {
  const out = [];
  for (const part of parts) {
    const bytes = typeof part === 'string' || Buffer.isBuffer(part);
    if (bytes && Buffer.isBuffer(out.at(-1))) {
      out.push(Buffer.concat([out.pop(), Buffer.from(part)]));
    } else {
      out.push(bytes ? Buffer.from(part) : part);
    }
  }
  return out;
}

const turn = () => new Promise((resolve) => { setImmediate(resolve); });

async function write(response, answer, request) {
  let rest = 0;
  for (const piece of pieces(answer)) {
    if (response.destroyed) {
      return;
    }
    if (typeof piece === 'function') {
      await piece(request);
    } else if (!Buffer.isBuffer(piece)) {
      await piece;
    } else if (!response.write(piece)) {
      await Promise.race([request.closed,
        new Promise((resolve) => { response.once('drain', resolve); })]);
    } else if (answer.flush || ++rest % 256 === 0) {
      await turn();
    }
  }
}

async function respond(response, answer, request) {
  if (answer.end === 'drop') {
    response.destroy();
    return;
  }
  const headers = { 'content-type': 'text/event-stream',
    'cache-control': 'no-cache', ...request.dialect?.sse, ...answer.headers };
  let { parts } = answer;
  if (answer.gzip) {
    headers['content-encoding'] = 'gzip';
    parts = [gzipSync(Buffer.concat(parts.map((part) => Buffer.from(part))))];
  }
  if (answer.close) {
    response.useChunkedEncodingByDefault = false;
    response.shouldKeepAlive = false;
  }
  response.writeHead(answer.status, headers);
  if (answer.flush !== false) {
    response.flushHeaders();
  }
  await write(response, { ...answer, parts }, request);
  request.done = answer.end !== 'open' && !response.destroyed;
  if (answer.end === 'end') {
    response.end();
  } else if (answer.end === 'reset') {
    /* Earlier writes have left this process before the reset. */
    response.write('', () => response.socket?.resetAndDestroy());
  }
}

class Provider {
  constructor(dialect, options) {
    this.dialect = dialect;
    this.options = options;
    this.answer = options.answer ?? ((request) => this.default(request));
    this.requests = [];
    this.issued = new Map();
    this.server = http.createServer((request, response) => {
      this.serve(request, response).catch((error) => {
        this.errors.push(error);
        response.destroy();
      });
    });
    this.server.keepAliveTimeout = 60000;
    this.errors = [];
  }

  /* A text for a continuation, options.calls for a fresh body. */
  default({ body, dialect }) {
    const answered = dialect.answered(body);
    return sse(answered.length
      ? dialect.final(`done ${answered.join(' ')}`)
      : dialect.calls({ calls: this.options.calls ?? [] }));
  }

  /* Requests with results, including refused ones. */
  continuations() {
    return this.requests.filter(({ answered }) => answered.length);
  }

  /* The request of this number, also if it has already arrived. */
  async arrival(number) {
    await until(() => this.requests.length >= number, 20000,
      `request ${number}`);
    return this.requests[number - 1];
  }

  async serve(incoming, response) {
    const chunks = [];
    for await (const chunk of incoming) {
      chunks.push(chunk);
    }
    const request = { method: incoming.method, url: incoming.url,
      headers: incoming.headers, raw: Buffer.concat(chunks),
      at: performance.now(), answered: [], dialect: this.dialect,
      number: this.requests.length + 1, done: false, left: false };
    request.closed = new Promise((resolve) => {
      response.on('close', () => {
        request.left = !request.done;
        resolve();
      });
    });
    const refusal = this.judge(request, incoming);
    this.requests.push(request);
    request.refused = refusal !== undefined;
    const answer = refusal ?? await this.answer(request, request.number);
    if (answer.id) {
      this.issued.set(answer.id, answer.calls);
      const { conversation, threadId } = request.body ?? {};
      if (threadId) {
        this.issued.set(threadId, answer.calls);
      }
      if (conversation) {
        this.issued.set(conversation.id ?? conversation, answer.calls);
      }
    }
    await respond(response, answer, request);
  }

  /* The real provider's refusal of a body, in its words. */
  judge(request, incoming) {
    const { dialect } = this;
    if (!dialect || request.method !== 'POST') {
      return undefined;
    }
    const length = incoming.headers['content-length'];
    if (length === undefined && !incoming.headers['transfer-encoding']) {
      return json(411, { error: { message: 'no length' } });
    }
    try {
      request.body = JSON.parse(request.raw);
    } catch {
      return json(400, { error: { message: 'invalid JSON' } });
    }
    if (length !== undefined && Number(length) !== request.raw.length) {
      return json(400, { error: { message: 'Content-Length is wrong' } });
    }
    request.answered = dialect.answered(request.body);
    const { issued } = this;
    const fault = this.options.strict === false ? null
      : dialect.check(request.body, { issued, ...this.options });
    return !fault ? undefined
      : fault.events ? sse(fault.events) : json(fault.status, fault.body);
  }

  async stop() {
    this.server.closeAllConnections();
    await new Promise((resolve) => { this.server.close(resolve); });
    if (this.errors.length) {
      throw this.errors[0];
    }
  }
}

/*
 * Starts a provider; dialect is a key of dialects, or null for any server.
 * options: answer (the script; may be set later, too), calls, strict (false:
 * no checks), lenient (ai_sdk: only the last step must be complete).
 */
export async function provider(t, dialect, options = {}) {
  const it = new Provider(dialect && dialects[dialect], options);
  await new Promise((resolve) => {
    it.server.listen(0, '127.0.0.1', resolve);
  });
  it.port = it.server.address().port;
  t.after(() => it.stop());
  return it;
}
