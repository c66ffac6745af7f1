/*
 * contract.test.mjs: the contract of a store, checked inside a worker on the
 * store that CHAT_STORE names; some parts need two workers.
 *
 * The laws are in t/contract/laws_*.c. A separate module, loaded beside the
 * one under test, runs them. A Seat is a connection that stays with one
 * worker, so a test can choose the worker of each act.
 *
 * Suite: asan, plain, redis, sentinel, cluster.
 */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { nginx, pause, root, unbuilt, until } from '../lib/harness.mjs';
import { only } from '../lib/hold.mjs';
import { redis, relay } from '../lib/redis/redis.mjs';

const asan = !!process.env.CHAT_ASAN;
const lawsPath = join(root, 'build', asan ? 'contract-asan' : 'contract',
  'ngx_chat_contract_module.so');
const skip = unbuilt || (!existsSync(lawsPath)
  && `${lawsPath} is not built: run make ${asan ? 'asan' : 'contract'}`);
const shm = (process.env.CHAT_STORE ?? 'shm') === 'shm';

function start(t, options) {
  return nginx(t, { main: `load_module ${lawsPath};`, workers: 2,
    ...(shm && { store: 'shm:64m' }),
    locations: `location / { chat auto; chat_contract; }`, ...options });
}

/* Sends one request; returns its answer, one line. */
function ask(port, query, agent) {
  const path = `/?${typeof query === 'string' ? query
    : new URLSearchParams(query).toString().replaceAll('+', '%20')}`;
  return new Promise((resolve, reject) => {
    http.get({ host: '127.0.0.1', port, path, agent: agent ?? false,
      timeout: 40000 },
      (response) => {
        let text = '';
        response.on('data', (piece) => { text += piece; });
        response.on('error', reject);
        response.on('end', () => resolve(response.statusCode === 200
          ? text.replace(/\n$/, '') : `status ${response.statusCode}`));
      }).on('error', reject).on('timeout', function late() {
      this.destroy(new Error(`no answer to ${path}`));
    });
  });
}

class Seat {
  constructor(n, pid) {
    this.n = n;
    this.pid = pid;
    this.agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  }

  static async take(t, n, pid = n.workers()[0]) {
    const seat = new Seat(n, pid);
    t.after(() => seat.agent.destroy());
    const name = await only(n, pid, () => seat.act({ do: 'worker' }));
    [seat.worker] = name.split(' ');
    assert.equal(name, `${seat.worker} ${pid}`);
    return seat;
  }

  /* Runs an act and returns its answer; a seat runs one act at a time. */
  async act(args) {
    const text = await ask(this.n.port, args, this.agent);
    assert.match(text, /^ok( |$)/, JSON.stringify(args));
    return text.slice(3);
  }
}

/* One seat in each worker. */
async function seats(t, options) {
  const n = await start(t, options);
  const all = [];
  for (const pid of n.workers()) {
    all.push(await Seat.take(t, n, pid));
  }
  return [n, ...all];
}

let count = 0;
const newKey = () => `${process.pid}/${Date.now()}/${count++}`;
const live = (name, play) => test(name, { skip }, play);


live('the laws that one worker can check', async (t) => {
  const n = await start(t);
  const laws = (await ask(n.port, 'list')).split('\n');
  assert.ok(laws.length > 30, `${laws}`);
  for (const law of laws) {
    await t.test(law, async () => {
      assert.equal(await ask(n.port, { law }), 'ok');
    });
  }
});


/* Appends entries to the log of a key from one seat. */
async function append(seat, key, from, to, piece) {
  for (let position = from; position < to; position++) {
    await seat.act({ do: 'append', key, position, ...piece });
  }
}

live('every worker, also the writing one, can follow a log', async (t) => {
  const [n, here, there] = await seats(t);
  const also = await Seat.take(t, n, here.pid);
  const key = newKey();
  const ends = [also, there].map((seat) =>
    seat.act({ do: 'follow', key, facts: `feed/${seat.pid}` }));
  await here.act({ do: 'join', key, facts: 'record=1' });
  await append(here, key, 0, 30, { text: 'piece' });
  await pause(50);
  await append(here, key, 30, 40, { size: 16384 });
  await append(here, key, 40, 41, { text: 'end', last: 1 });
  const all = `41 pieces ${150 + 163840 + 3} bytes 0 gaps last`;
  assert.deepEqual(await Promise.all(ends), [all, all]);
  assert.equal(await there.act({ do: 'read-all', key }), all);
  assert.equal(await there.act({ do: 'read', key, position: 40 }),
    '40=last+end');
  await there.act({ do: 'clear', key });
  /* clear() has no reply, and uses another worker's connection. */
  await until(async () => await here.act({ do: 'read-all', key })
    === '0 pieces 0 bytes 0 gaps');
});

/* Only the zone in shared memory can be full. */
const zoned = (name, play) => test(name, { skip: skip
  || (!shm && 'only for the zone: run with CHAT_STORE=shm') }, play);

zoned('a log has a 16th of the zone, then its front is lost', async (t) => {
  const [, seat] = await seats(t, { store: 'shm:1m' });
  const key = newKey();
  await seat.act({ do: 'join', key, facts: 'record=1' });
  await append(seat, key, 0, 100, { size: 5000 });
  const [, pieces, bytes] = /^(\d+) pieces (\d+) bytes 1 gaps$/.exec(
    await seat.act({ do: 'read-all', key }));
  assert.ok(bytes > 50000 && bytes <= 65536, bytes);
  assert.equal(bytes, String(pieces * 5000));
  assert.equal(await seat.act({ do: 'read', key, position: 100 }), '');
  await t.test('a longer entry is lost and leaves a visible gap', async () => {
    await append(seat, key, 100, 101, { size: 70000 });
    assert.equal(await seat.act({ do: 'read', key, position: 100 }), '101=+');
    assert.equal(await seat.act({ do: 'read', key, position: 101 }), '');
    await append(seat, key, 101, 102, { text: 'x', last: 1 });
    assert.equal(await seat.act({ do: 'read', key, position: 100 }),
      '101=last+x');
  });
});

zoned('a log has only pages of the entries that it keeps', async (t) => {
  const [, seat] = await seats(t, { store: 'shm:1m' });
  const [key, other] = [newKey(), newKey()];
  await seat.act({ do: 'join', key: other, facts: 'record=1' });
  await append(seat, other, 0, 4, { size: 15000 });
  await seat.act({ do: 'join', key, facts: 'record=1' });
  for (let position = 0; position < 500; position++) {
    await append(seat, key, position, position + 1,
      { size: 5000, keep: Math.max(position - 3, 0) });
  }
  const [, pieces, bytes] = /^(\d+) pieces (\d+) bytes 1 gaps$/.exec(
    await seat.act({ do: 'read-all', key }));
  assert.ok(pieces >= 4 && pieces <= 7, pieces);
  assert.equal(bytes, String(pieces * 5000));
  assert.equal(await seat.act({ do: 'read', key, position: 500 }), '');
  assert.equal(await seat.act({ do: 'read-all', key: other }),
    '4 pieces 60000 bytes 0 gaps');
});

zoned('a full zone evicts logs before facts, the oldest first', async (t) => {
  const [n, seat] = await seats(t, { store: 'shm:1m' });
  const old = newKey();
  await seat.act({ do: 'join', key: old, facts: 'a=1+x' });
  const logs = Array.from({ length: 40 }, newKey);
  for (const key of logs) {
    await seat.act({ do: 'join', key, facts: 'record=1' });
    await append(seat, key, 0, 4, { size: 15000 });
  }
  const left = async () => (await Promise.all(logs.map((key) =>
    seat.act({ do: 'read-all', key })))).map((text) =>
    text === '4 pieces 60000 bytes 0 gaps');
  const first = await left();
  const kept = first.filter(Boolean).length;
  assert.ok(kept > 5 && kept < 20, `${kept}`);
  assert.ok(first.slice(-kept).every(Boolean), `${first}`);
  assert.equal(await seat.act({ do: 'read', key: logs[0] }), '4=+');
  for (const key of logs) {
    assert.equal(await seat.act({ do: 'join', key, facts: '' }), 'record=1');
  }

  /* The number of facts that fit into a zone without logs. */
  const facts = Array.from({ length: 50 }, newKey);
  for (const key of facts) {
    assert.equal(await seat.act({ do: 'big', key, size: 12000 }), 'big=o+');
  }
  for (const key of [old, ...logs, ...facts]) {
    assert.match(await seat.act({ do: 'join', key, facts: '' }),
      /^(a=1\+|record=1|big=o\+)$/);
  }
  const then = await left();
  assert.ok(then.filter(Boolean).length < kept - 5, `${then}`);
  assert.ok(then.at(-1), 'the newest was evicted before older ones');
  assert.equal(n.errorLog().includes('is full'), false);
});

zoned('a batch without room evicts its own log before a fact', async (t) => {
  const [n, seat] = await seats(t, { store: 'shm:1m' });
  const watcher = await Seat.take(t, n, seat.pid);
  const [watched, key] = [newKey(), newKey()];
  watcher.act({ do: 'watch', key: watched, facts: 'a=1', until: 'end' })
    .catch(() => {});
  await seat.act({ do: 'join', key, facts: 'record=1' });
  await append(seat, key, 0, 4, { size: 15000 });
  await seat.act({ do: 'big', key: watched, size: 600000 });

  /* No batch is idle: the rest of the zone is for facts of this batch. */
  let facts = 0;
  while (await seat.act({ do: 'join', key,
    facts: `${facts}=1+${'x'.repeat(3000)}` }) !== 'CHAT_LIMIT') {
    facts++;
  }
  assert.ok(facts > 10, `${facts}`);
  assert.equal(await seat.act({ do: 'read', key, position: 0 }), '4=+');
});

zoned('a full zone keeps what is watched, even if it was evicted once',
  async (t) => {
    const [n, here, there] = await seats(t, { store: 'shm:1m' });
    const take = () => Seat.take(t, n, here.pid);
    const [also, one, two, it] = [await take(), await take(), await take(),
      await take()];
    const key = newKey();
    const look = () => it.act({ do: 'join', key, facts: '' });
    const watch = (seat, fact, end) => seat.act({ do: 'watch', key,
      facts: `${fact}=1`, until: end });
    const first = watch(here, 'here', 'leave');
    await it.act({ do: 'big', key, size: 550000 });

    /* A watched batch of a tenant past its share makes room for others. */
    [one, two].forEach((seat, i) => seat.act({ do: 'watch', tenant: i + 1,
      key: `${key}/${i}`, facts: 'a=1', until: 'end' }).catch(() => {}));
    for (const i of [0, 1]) {
      await it.act({ do: 'big', tenant: i + 1, key: `${key}/${i}`,
        size: 150000 });
    }
    assert.equal(await look(), '');

    /*
     * The worker that watched the evicted batch does not change the new one.
     */
    watch(there, 'there', 'end').catch(() => {});
    await until(async () => await look() === 'there=1');
    const second = watch(also, 'also', 'leave');
    await it.act({ do: 'join', key, facts: 'leave=1' });
    await Promise.all([first, second]);
    for (let i = 0; i < 100; i++) {
      await it.act({ do: 'big', key: newKey(), size: 12000 });
    }
    assert.equal(await look(), 'also=1 leave=1 there=1');
  });

zoned('a worker that was killed while it exited is not alive', async (t) => {
  const [n, here, there] = await seats(t);
  const key = newKey();
  here.act({ do: 'watch', key, facts: 'a=1', until: 'end' }).catch(() => {});
  await until(async () =>
    await there.act({ do: 'join', key, facts: '' }) === 'a=1');
  await n.reload();
  const alive = () => ask(n.port, { do: 'alive', of: here.worker });
  assert.equal(await alive(), 'ok 1');
  n.allow(/exited on signal 9/);
  process.kill(here.pid, 'SIGKILL');
  await until(() => !n.workers().includes(here.pid));
  assert.equal(await alive(), 'ok 0');
});

test('a log is followed at another node', { skip: skip
  || (shm && 'only for two nodes: run with CHAT_STORE=redis') }, async (t) => {
  const server = await redis(t);
  const store = `redis://127.0.0.1:${server.port}`;
  const [[, here], [, there]] = [await seats(t, { store }),
    await seats(t, { store })];
  const key = newKey();
  const end = there.act({ do: 'follow', key, facts: 'feed=1' });
  await here.act({ do: 'join', key, facts: 'record=1' });
  await append(here, key, 0, 20, { text: 'piece' });
  await append(here, key, 20, 21, { text: 'end', last: 1 });
  assert.equal(await end, '21 pieces 103 bytes 0 gaps last');
});

test('appends over cuts of the connection to Redis', { skip: skip
  || (shm && 'only for Redis: run with CHAT_STORE=redis') }, async (t) => {
  const server = await redis(t);
  const way = await relay(t, server.port);
  const [, seat] = await seats(t,
    { store: `redis://127.0.0.1:${way.port} timeout=2s`,
      http: 'large_client_header_buffers 4 1m;' });
  const key = newKey();
  const back = (fact) => until(async () =>
    (await seat.act({ do: 'join', key, facts: '' })).includes(fact), 15000);
  await seat.act({ do: 'join', key, facts: 'record=1' });

  await t.test('a put without a reply is applied once', async () => {
    const before = await server.calls('evalsha');
    way.delay(1500);
    await append(seat, key, 0, 5, { text: 'abc' });
    await until(async () => await server.calls('evalsha') >= before + 5);
    way.cut();
    way.delay(0);
    await append(seat, key, 5, 10, { text: 'abc' });
    await seat.act({ do: 'put', key, facts: 'once=1' });
    await back('once');
    assert.equal(await seat.act({ do: 'read-all', key }),
      '10 pieces 30 bytes 0 gaps');
  });

  await t.test('one join above the limit: facts are dropped', async () => {
    const big = newKey();
    const long = 'x'.repeat(900000);
    await way.refuse(true);
    way.cut();
    for (let i = 0; i < 45; i++) {
      await seat.act({ do: 'put', key: big, facts: `${i}=1+${long}` });
    }
    await way.refuse(false);
    await back('once');
    const all = await seat.act({ do: 'join', key: big, facts: '' });
    const { length } = all.split(' ');
    assert.ok(length > 30 && length < 38, `${length} facts`);
  });

  await t.test('a full queue: facts arrive, the log has a gap', async () => {
    await way.refuse(true);
    way.cut();
    await append(seat, key, 10, 30, { size: 1000000 });
    await seat.act({ do: 'put', key, facts: 'late=1' });
    await way.refuse(false);
    await back('late');
    await append(seat, key, 30, 31, { text: 'end', last: 1 });
    const text = await seat.act({ do: 'read-all', key });
    const [, pieces] = /^(\d+) pieces \d+ bytes 1 gaps last$/.exec(text);
    assert.ok(pieces > 20 && pieces < 30, text);
  });
});
