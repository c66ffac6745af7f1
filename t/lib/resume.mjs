/*
 * resume.mjs: completely recorded answers, and clients that resume them.
 *
 * The header x-batch names the conversation of a request in every dialect;
 * /resume/<conversation> resumes it. The provider answers with `answer` of the
 * stage. Events are counted as a client counts them.
 */
import { gate, get, post } from './harness.mjs';
import { scene, staged } from './batch.mjs';
import { dialects, newId } from './dialects.mjs';
import { nodesStage } from './nodes.mjs';
import { provider, sse } from './provider.mjs';

/* One variant of each dialect, and the dialects with id: lines in events. */
export const keys = Object.keys(dialects).filter((key) =>
  !dialects[key].chained);
export const numbered = ['openai_chat', 'openai_responses', 'anthropic'];

/* Options of a stage: record: the arguments after chat_record on. */
const options = ({ record = '', running = '', server = '', ...rest }) => ({
  workers: 2, ...rest,
  server: `
  chat_tenant $http_authorization;
  chat_conversation $http_x_batch;
  chat_record on ${record};
  location ~ ^/resume/(.*)$ { chat_resume $1 ${running}; }
  ${server}` });

/* A stage with a provider that answers with answer(request). */
export async function resumeStage(t, key, { answer, ...rest } = {}) {
  const o = options(rest);
  const p = await provider(t, key, o);
  const s = scene(key, p, await staged(t, key, p, o));
  return Object.assign(s, { key, pick: () => s.n, nodes: [s.n] },
    answer && (p.answer = answer, null));
}

/* The same with two nginx masters on one Redis. */
export async function resumeNodes(t, key, { answer, ...rest } = {}) {
  const s = await nodesStage(t, key, options(rest));
  s.key = key;
  s.p.answer = answer ?? s.p.answer;
  return s;
}

/* A final answer of this many text events. */
export function lengthy(key, n, size = 10) {
  const word = 'WORDS';
  const all = dialects[key].final(word);
  const at = all.findIndex((event) => event.includes(word));
  return [...all.slice(0, at), ...Array.from({ length: n }, (_, i) =>
    all[at].replace(word, `${i} ${'x'.repeat(size)}`)),
  ...all.slice(at + 1)];
}

export const answerOf = (parts, more) => sse(parts, more);

/* One conversation of a stage. */
export class Talk {
  constructor(s, conversation = newId('talk_')) {
    Object.assign(this, { s, conversation, dialect: s.dialect });
  }

  /* A new turn; its answer is the client's own. */
  ask({ node = this.s.pick(), headers, body, ...rest } = {}) {
    return post(rest.http2 ? node.port2 : node.port, this.dialect.path,
      body ?? this.dialect.fresh({ conversation: this.conversation }),
      { ...this.dialect.headers, 'x-batch': this.conversation, ...headers },
      rest);
  }

  /* Resumes. last: Last-Event-ID; query: the query string. */
  resume({ last, query = '', node = this.s.pick(), headers, ...rest } = {}) {
    return get(rest.http2 ? node.port2 : node.port,
      `/resume/${this.conversation}${query && `?${query}`}`,
      { ...(last && { 'last-event-id': last }), ...headers }, rest);
  }

  stop(more) {
    return this.resume({ method: 'DELETE', ...more });
  }
}

/*
 * The blocks of an answer, each with its blank line; the rest is the last
 * item.
 */
export const blocks = (text) => text.match(/[^]*?\n\n|[^]+$/g) ?? [];

/*
 * An answer of which this many events have arrived; when the gate opens, it
 * continues to its end or up to the event `cut`.
 */
export async function half(t, key, { at = 8, total = 20, cut, nodes = 1, sse:
  more, ...rest } = {}) {
  const opens = gate();
  const all = lengthy(key, total);
  const s = await (nodes === 1 ? resumeStage : resumeNodes)(t, key, { ...rest,
    answer: () => answerOf([...all.slice(0, at), opens, ...all.slice(at, cut)],
      more) });
  const talk = new Talk(s);
  const own = talk.ask({ node: s.nodes[0] });
  await own.until((text) => blocks(text).length === at);
  return { s, talk, own, rest: opens, all, first: own.bytes.toString(),
    request: s.p.requests[0] };
}

/* An answer that exceeds max= after its client has disconnected. */
export async function pastMax(t, key) {
  const all = lengthy(key, 100, 1000);
  const s = await resumeStage(t, key, { record: 'max=64k',
    answer: () => answerOf([...all.slice(0, 4), new Promise((resolve) => {
      setTimeout(resolve, 300);
    }), ...all.slice(4, 100), new Promise(() => {})]) });
  const talk = new Talk(s);
  const own = talk.ask();
  await own.until((text) => blocks(text).length === 4);
  own.abort();
  await s.p.requests[0].closed;
  return { s, talk };
}

/* The last id: of an answer, or an empty string. */
export const lastId = (text) =>
  [...text.matchAll(/^id: (.*)$/gm)].at(-1)?.[1] ?? '';

/* Without the lines id:. */
export const unnumbered = (text) => text.replace(/^id: .*\n/gm, '');

/* Ids of the events: from 1, all of one stream. */
export const idsOf = (text) => [...text.matchAll(/^id: (\w+)-(\d+)$/gm)]
  .map(([, stream, n]) => ({ stream, n: Number(n) }));
