/*
 * recording.mjs: the recording of a stream in Redis, read and written by the
 * test with the module's keys.
 *
 * A batch of lib/batch.mjs has at most one recording per claim. A follower
 * consists of the facts that a real one puts; it belongs to the claimant's own
 * worker, which lives as long as the producer does.
 */
import { createHash } from 'node:crypto';
import http2 from 'node:http2';
import net from 'node:net';
import { until } from './wait.mjs';

/*
 * As chat_digest_parts(): SHA-256 of the parts, each preceded by its length in
 * groups of seven bits, the lowest first.
 */
export function digest(...parts) {
  const hash = createHash('sha256');
  for (const part of parts.map((p) => Buffer.from(p))) {
    const length = [];
    let rest = part.length;
    for (; rest > 127; rest >>= 7) {
      length.push((rest & 127) | 128);
    }
    hash.update(Buffer.from([...length, rest])).update(part);
  }
  return hash.digest();
}

/* The scope is that of a server without a name. */
const tenantOf = (tenant) => digest('', tenant);

/* The tag of a batch's keys. */
function tagOf({ dialect, conversation, ids }, tenant) {
  return dialect.apps
    ? digest('conversation', tenantOf(tenant), conversation)
    : digest('call', tenantOf(tenant), dialect.name, '', ids[0]);
}

/* The facts of a key: {field: value}. */
async function facts(redis, key) {
  const flat = await redis.command('HGETALL', key);
  return Object.fromEntries(flat.map((field, i) =>
    [field, flat[i + 1]?.slice(1)]).filter((_, i) => i % 2 === 0));
}

/* An entry of the log. */
export function pieceOf([id, [last, bytes]]) {
  const position = parseInt(id, 10) - 1;
  const [line, count] = /^(\d+) \d+\n/.exec(bytes);
  return { position, last: last === 'l', bytes: bytes.slice(line.length),
    count: Number(count) };
}

/* As chat_recording_mode_e. */
const modes = [undefined, 'wanted', 'kept', 'none'];

/* The recording of claim k in the batch with this key. */
export class Record {
  constructor(redis, tag, batch, k, worker, request) {
    Object.assign(this, { redis, batch, worker });
    const name = digest('stream', tag, worker, request);
    this.key = `chat:{${tag.toString('hex', 0, 4)}}:${name.toString('hex')}`;
    this.claim = `${k}/${worker}/${request}`;
    this.feeds = 0;
  }

  facts() {
    return facts(this.redis, this.key);
  }

  /* Whether it exists: {record, unrecorded}, as the batch says. */
  async mode() {
    const all = await facts(this.redis, this.batch);
    return { record: modes[all[`record/${this.claim}`] ?? 0],
      unrecorded: all[`unrecorded/${this.claim}`] };
  }

  put(field, value = '1') {
    return this.redis.command('HSETNX', this.key, field, `0${value}`);
  }

  /* Adds a follower of a worker; leave() of the result removes it. */
  async follow(worker = this.worker) {
    const serial = ++this.feeds;
    await this.redis.command('HSETNX', this.batch, `record/${this.claim}`,
      `0${modes.indexOf('wanted')}`);
    await this.put(`feed/${worker}/${serial}`);
    return { leave: () => this.put(`gone/${worker}/${serial}`) };
  }

  /* The entries: {position, bytes, last}, and count: the events before it. */
  async pieces() {
    const list = await this.redis.command('XRANGE', `${this.key}:l`, '-', '+');
    return list.map(pieceOf);
  }

  /* Waits for the last entry: {head, text, pieces}. */
  async whole(deadline = 5000) {
    await until(async () => {
      const newest = await this.redis.command('XREVRANGE', `${this.key}:l`,
        '+', '-', 'COUNT', 1);
      return newest.map(pieceOf).at(0)?.last;
    }, deadline, 'the last entry of a recording');
    const pieces = await this.pieces();
    return { pieces, head: headOf((await this.facts()).head),
      text: pieces.map(({ bytes }) => bytes).join('') };
  }
}

/* The head, as its fact has it. */
export function headOf(bytes) {
  const [, status, length] = /^(\d+) (\d+)\n/.exec(bytes);
  const rest = Buffer.from(bytes.slice(bytes.indexOf('\n') + 1));
  const lines = rest.subarray(Number(length)).toString();
  return { status: Number(status),
    message: rest.subarray(0, Number(length)).toString(),
    headers: Object.fromEntries(lines.split('\n').filter(Boolean).map((line) =>
      [line.slice(0, line.indexOf(':')).toLowerCase(),
        line.slice(line.indexOf(':') + 2)])) };
}

/* The key of the batch itself, and its facts; null while there are none. */
async function batchOf(redis, batch, tenant) {
  const tag = tagOf(batch, tenant).toString('hex', 0, 4);
  for (const key of await redis.command('KEYS', `chat:{${tag}}:*`)) {
    const found = /:[lp]$/.test(key) ? {} : await facts(redis, key);
    if (found['claim/1']) {
      return { key, facts: found };
    }
  }
  return null;
}

export const batchFacts = async (redis, batch, tenant = 'Bearer tester') =>
  (await batchOf(redis, batch, tenant))?.facts ?? null;

/* The recording of a batch's claim k, once it is claimed. */
export async function recordOf(redis, batch, k = 1,
  tenant = 'Bearer tester') {
  const { key, facts: all } = await until(async () => {
    const found = await batchOf(redis, batch, tenant);
    return found?.facts[`claim/${k}`] && found;
  });
  const [worker, request] = all[`claim/${k}`].split(' ');
  return new Record(redis, tagOf(batch, tenant), key, k, worker, request);
}

const headersOf = (batch) => ({ 'content-type': 'application/json',
  authorization: 'Bearer tester', 'x-batch': batch.key });

/*
 * Batches that send their results over one connection that the client never
 * reads.
 */
export function together(t, { n }, batches) {
  const session = http2.connect(`http://127.0.0.1:${n.port2}`);
  session.on('error', () => {});
  t.after(() => session.destroy());
  const streams = batches.map((batch) => {
    const stream = session.request({ ':method': 'POST',
      ':path': batch.dialect.path, ...headersOf(batch) });
    stream.on('error', () => {});
    stream.pause();
    stream.end(JSON.stringify(batch.body(batch.results())));
    return stream;
  });
  return { session, streams };
}

/* Posts the results and reads nothing; destroy() of the result disconnects. */
export function stuck(t, stage, batch, isHttp2) {
  if (isHttp2) {
    return together(t, stage, [batch]).session;
  }
  const bytes = JSON.stringify(batch.body(batch.results()));
  const socket = net.connect(stage.n.port, '127.0.0.1');
  socket.on('error', () => {});
  socket.pause();
  socket.write(`POST ${batch.dialect.path} HTTP/1.1\r\nHost: a\r\n${
    Object.entries({ ...headersOf(batch), 'content-length': bytes.length })
      .map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${bytes}`);
  t.after(() => socket.destroy());
  return socket;
}

/* Whether each claim of the database is recorded. */
export async function recordings(redis) {
  const keys = (await redis.command('KEYS', 'chat:{*'))
    .filter((key) => !/:[lp]$/.test(key));
  const all = await Promise.all(keys.map((key) => facts(redis, key)));
  return all.flatMap((found) => Object.keys(found)
    .filter((field) => field.startsWith('record/'))
    .map((field) => modes[found[field]]));
}

/* The end of claim k, once it has ended. */
export function endOf(redis, batch, k = 1) {
  return until(async () => {
    const all = await batchFacts(redis, batch);
    const field = Object.keys(all ?? {}).find((f) =>
      f.startsWith(`end/${k}/`) || f.startsWith(`void/${k}/`));
    return field && (field.startsWith('void') ? 'void'
      : all[field].split(' ')[0]);
  });
}
