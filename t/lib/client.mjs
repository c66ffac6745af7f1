/*
 * client.mjs: post() makes one request, over HTTP/1.1 or HTTP/2, and returns
 * an answer that can be watched as it arrives.
 */
import http from 'node:http';
import http2 from 'node:http2';
import { patience } from './wait.mjs';

/*
 * An answer as it arrives. await head for {status, headers}; text() for all of
 * it; until(test) for the moment when the text so far passes the test; iterate
 * for the pieces. error is set if it broke off.
 */
class Answer {
  constructor() {
    this.pieces = [];
    this.waiting = [];
    this.ended = false;
    this.sent = new Promise((resolve) => { this.onSent = resolve; });
    this.head = new Promise((resolve, reject) => {
      this.onHead = resolve;
      this.onNoHead = reject;
    });
    this.head.catch(() => {});
  }

  wake() {
    this.waiting.splice(0).forEach((resolve) => resolve());
  }

  add(piece) {
    this.pieces.push(piece);
    this.wake();
  }

  end(error) {
    if (this.ended) {
      return;
    }
    this.ended = true;
    this.error = error;
    this.onNoHead(error ?? new Error('no answer'));
    this.wake();
  }

  get bytes() {
    return Buffer.concat(this.pieces);
  }

  get status() {
    return this.head.then(({ status }) => status);
  }

  async* [Symbol.asyncIterator]() {
    for (let i = 0; ; i++) {
      while (i >= this.pieces.length) {
        if (this.ended) {
          return;
        }
        await new Promise((resolve) => { this.waiting.push(resolve); });
      }
      yield this.pieces[i];
    }
  }

  /* All bytes; a broken answer throws unless broken is allowed. */
  async body({ broken = false } = {}) {
    while (!this.ended) {
      await new Promise((resolve) => { this.waiting.push(resolve); });
    }
    if (this.error && !broken) {
      throw this.error;
    }
    return this.bytes;
  }

  async text(options) {
    return (await this.body(options)).toString();
  }

  /* Waits until test(text so far) is true, event by event. */
  async until(test, deadline = 5000) {
    let timer;
    const late = new Promise((resolve, reject) => {
      timer = setTimeout(() => reject(new Error(
        `waited ${deadline} ms; received: ${this.bytes}`)),
      deadline * patience);
    });
    try {
      while (!test(this.bytes.toString())) {
        if (this.ended) {
          throw this.error ?? new Error(`ended; came: ${this.bytes}`);
        }
        await Promise.race([late,
          new Promise((resolve) => { this.waiting.push(resolve); })]);
      }
    } finally {
      clearTimeout(timer);
    }
    return this.bytes.toString();
  }

  /* The client disconnects; reset: by TCP's or HTTP/2's reset. */
  abort({ reset = false } = {}) {
    (reset ? this.reset : this.drop)();
    this.end(new Error('aborted by the test'));
  }
}

/*
 * Sends a request and returns the Answer at once. body: object (sent as JSON),
 * string or Buffer. options: method, chunked (no Content-Length), http2 (port
 * is then nginx's port2). Each HTTP/1.1 request has a connection of its own,
 * so that any worker may get it.
 */
export function post(port, path, body, headers = {}, options = {}) {
  const bytes = Buffer.isBuffer(body) || typeof body === 'string'
    ? Buffer.from(body) : Buffer.from(JSON.stringify(body ?? null));
  const method = options.method ?? 'POST';
  const all = { 'content-type': 'application/json',
    authorization: 'Bearer tester', ...headers };
  if (method === 'POST' && !options.chunked) {
    all['content-length'] = String(bytes.length);
  } else if (method === 'POST' && !options.http2) {
    /* otherwise Node adds the length of a complete body */
    all['transfer-encoding'] = 'chunked';
  }
  const answer = new Answer();
  const send = options.http2 ? sendHttp2 : sendHttp1;
  send(answer, { port, path, method, headers: all,
    bytes: method === 'POST' ? bytes : Buffer.alloc(0) });
  return answer;
}

export function get(port, path, headers = {}, options = {}) {
  return post(port, path, '', headers, { method: 'GET', ...options });
}

function sendHttp1(answer, { port, path, method, headers, bytes }) {
  const request = http.request({ host: '127.0.0.1', port, path, method,
    headers, agent: false }, (response) => {
    answer.onHead({ status: response.statusCode, headers: response.headers });
    response.on('data', (piece) => answer.add(piece));
    response.on('end', () => answer.end());
    response.on('error', (error) => answer.end(error));
  });
  request.on('error', (error) => answer.end(error));
  request.on('finish', () => answer.onSent());
  request.end(bytes);
  answer.drop = () => request.destroy();
  answer.reset = () => request.socket.resetAndDestroy();
}

function sendHttp2(answer, { port, path, method, headers, bytes }) {
  const session = http2.connect(`http://127.0.0.1:${port}`);
  const finish = (error) => {
    answer.end(error);
    session.close();
  };
  session.on('error', finish);
  const stream = session.request({ ':method': method, ':path': path,
    ...headers }, { endStream: false });
  stream.on('response', ({ ':status': status, ...rest }) =>
    answer.onHead({ status, headers: rest }));
  stream.on('data', (piece) => answer.add(piece));
  stream.on('end', () => finish());
  stream.on('aborted', () => finish(new Error('reset')));
  stream.on('error', finish);
  stream.on('finish', () => answer.onSent());
  stream.end(bytes);
  answer.drop = () => session.destroy();
  answer.reset = () => stream.close(http2.constants.NGHTTP2_CANCEL);
}
