/*
 * recorded.mjs: recorded answers on a Redis that the test can read, and
 * clients that disconnect from them.
 *
 * An answer begins when the test opens a gate, so that followers exist in
 * time.
 */
import { Batch, stage } from './batch.mjs';
import { dialects } from './dialects.mjs';
import { sse } from './provider.mjs';
import { recordOf } from './recording.mjs';
import { redis } from './redis/redis.mjs';
import { data } from './dialects/wire.mjs';

let shared;
let databases = 0;

/*
 * A stage on a Redis; answer() answers a request with results once the test
 * allows it.
 */
export async function recording(t, key, { answer, server, ...options } = {}) {
  shared ??= redis(null, { lines: ['databases 10000'] });
  const store = server ?? await shared;
  const db = server ? 0 : databases++;
  await store.command('SELECT', db);
  const at = options.store ?? `${store.url({ db })} timeout=20s`;
  const s = await stage(t, key, { connects: true, ...options, store: at });
  s.store = at;
  const usual = s.p.answer;
  /* Both are sent together, since other tests use the connection, too. */
  s.redis = { command: async (...args) => (await Promise.all(
    [store.command('SELECT', db), store.command(...args)])).at(1) };
  s.p.answer = (request) => (request.answered.length && answer
    ? answer(request, s) : usual(request));
  return s;
}

/* Ways with the settings of the stage's own location. */
export const locations = (chat, lines) => `location / {
  chat ${chat};
  proxy_pass http://provider;
  proxy_http_version 1.1;
  proxy_set_header Connection "";
  ${lines}
}`;

/* A batch after its turn, with a running continuation. */
export async function claimed(s, options, { more, headers, body } = {}) {
  const b = new Batch(s);
  await b.ask();
  const answer = b.post(body?.(b) ?? b.body(b.results(), more),
    { ...options, headers });
  return { b, answer };
}

/* The same, with a follower that exists before the answer. */
export async function followed(s, release, options, more) {
  const { b, answer } = await claimed(s, options, more);
  const record = await recordOf(s.redis, b);
  const follower = await record.follow();
  release.open();
  return { b, answer, record, follower };
}

/* An answer that begins when the gate opens. */
export const after = (release, parts, options) =>
  release.then(() => sse(parts, options));

export const words = (key, text = 'Sunny.') => dialects[key].final(text);

/*
 * nginx has noticed that a client disconnected, and keeps its upstream open.
 */
export const left = ({ n }) => n.errorLog().includes('client disconnected');

/* The same, with n more events of size bytes each. */
export const wordy = (n = 300, size = 1000) => words('ai_sdk')
  .flatMap((event, i) => (i === 3 ? Array.from({ length: n }, (_, nr) =>
    data({ type: 'text-delta', id: 't1',
      delta: `${nr} ${'x'.repeat(size)}` })) : [event]));
