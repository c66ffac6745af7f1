/*
 * batch.mjs: a batch in a test: the turn with the calls, the continuations
 * with results, and each client's answer.
 *
 * Every request of a batch carries its key in the header x-batch, so that one
 * provider and one nginx serve many batches at a time.
 */
import assert from 'node:assert/strict';
import { nginx, post } from './harness.mjs';
import { dialects, events, isError, newCalls, newId } from './dialects.mjs';
import { provider, sse } from './provider.mjs';

/*
 * The words of chat_hold. Without a grace of 60 s a held request gets an early
 * 200 after 3 s, which a slow machine takes for what a test does meanwhile.
 */
const words = (hold = '60s') =>
  (/grace=/.test(hold) ? hold : `${hold} grace=60s`);

/* nginx of a stage: options of stage() and nginx(); hold: see words(). */
export const staged = (t, key, p, options) => nginx(t, {
  upstream: p.port, chat: dialects[key].name, ...options,
  location: `chat_hold ${words(options.hold)}; proxy_buffering off;
    ${options.location ?? ''}` });

/* A stage: provider and nginx for one dialect; options go to both. */
export async function stage(t, key, options = {}) {
  const p = await provider(t, key, options);
  return scene(key, p, await staged(t, key, p, options));
}

/* A batch of a stage: the provider recognizes it by its header. */
export function scene(key, p, n) {
  const dialect = dialects[key];
  const it = { p, n, dialect, batches: new Map() };
  p.answer = (request) => {
    const batch = it.batches.get(request.headers['x-batch']);
    return request.answered.length || !batch
      ? sse(dialect.final(`done ${request.headers['x-batch']}`))
      : sse(batch.from);
  };
  return it;
}

/* The first of the events that end a step. */
export const seals = new RegExp(Object.values(dialects)
  .map(({ seal }) => seal).join('|'));

export class Batch {
  /* calls: the calls, or their number. */
  constructor({ p, n, nodes = [n], dialect, batches, pick = () => n },
    calls = 2) {
    Object.assign(this, { p, n, nodes, dialect, pick });
    this.calls = typeof calls === 'number'
      ? newCalls(calls, dialect.prefix) : calls;
    this.ids = this.calls.map(({ id }) => id);
    this.key = newId('');
    this.conversation = newId('chat_');
    this.from = dialect.calls({ calls: this.calls });
    batches.set(this.key, this);
  }

  /*
   * Posts a body of this batch; options as for post(), headers, and node: the
   * nginx that gets it if the scene has several (default: any).
   */
  post(body, { headers, node = this.pick(), ...options } = {}) {
    return post(options.http2 ? node.port2 : node.port,
      this.dialect.path, body, { ...this.dialect.headers,
        'x-batch': this.key, ...headers }, options);
  }

  /* The turn with the calls, through nginx, to its end. */
  async ask(options) {
    const text = await this.post(
      this.dialect.fresh({ conversation: this.conversation }), options).text();
    assert.equal(text, this.from.join(''));
  }

  body(results, more) {
    return this.dialect.continuation({ conversation: this.conversation,
      from: this.from, results, ...more });
  }

  /* A continuation with these results; more goes into the body. */
  continue(results, { more, ...options } = {}) {
    return this.post(this.body(results, more), options);
  }

  /* Results of all calls, or of these positions. */
  results(positions = this.ids.keys()) {
    return Object.fromEntries([...positions].map((i) =>
      [this.ids[i], { nr: i, of: this.key }]));
  }

  /* The upstream requests with results of this batch. */
  upstream() {
    return this.p.continuations().filter(({ headers }) =>
      headers['x-batch'] === this.key);
  }

  /*
   * Checks that this many went upstream, complete, accepted and in call order.
   * Returns the last one.
   */
  released(times = 1) {
    const sent = this.upstream();
    assert.equal(sent.length, times, `${sent.length} went upstream`);
    for (const request of sent) {
      assert.equal(request.refused, false, String(request.raw));
      assert.deepEqual(request.answered, this.ids);
    }
    return sent.at(-1);
  }
}

/*
 * The outcome of an answer in one word, and its details. An error event is
 * `error`; `broke` tells that the connection broke after it. A response that
 * breaks without an error event is `broken`.
 */
export async function told(answer) {
  const text = await answer.text({ broken: true });
  if (answer.error && !/\n\n$/.test(text)) {
    return { word: 'broken', text };
  }
  if (answer.error) {
    const list = events(text);
    const word = list.slice(-1).some(isError) ? 'error' : 'broken';
    return { word, text, list, types: list.map((e) => e.type ?? e),
      broke: true };
  }
  const { status, headers } = await answer.head;
  if (status !== 200) {
    return { word: String(status), text, headers };
  }
  assert.match(headers['content-type'], /^text\/event-stream/);
  const list = events(text);
  const types = list.map((e) => e.type ?? e);
  if (/done \w+/.test(text)) {
    return { word: 'final', text, list, types };
  }
  return { word: ending(list, types), text, list, types };
}

/* The exact ways in which a hold may end without an answer. */
function ending(list, types) {
  const shape = types.filter((type) =>
    !/^(tool-output-|TOOL_CALL_RESULT)/.test(type)).join(' ');
  if (shape === 'start finish [DONE]') {
    return list.some((e) => e.messageId) ? 'malformed bounce' : 'bounce';
  }
  if (list.some(isError)) {
    return 'error';
  }
  return Object.values(dialects).some(({ empty }) => empty?.(list))
    ? 'empty' : `malformed: ${shape}`;
}

/* Ids of the outputs that a client got. */
export const outputs = ({ list }) => list.filter(({ type }) =>
  /^(tool-output-|TOOL_CALL_RESULT)/.test(type))
  .map(({ toolCallId }) => toolCallId);
