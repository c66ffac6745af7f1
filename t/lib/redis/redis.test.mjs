/*
 * redis.test.mjs: the harness's Redis servers and relays, without nginx.
 *
 * Suite: plain.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { certificates } from '../certificates.mjs';
import { pause } from '../wait.mjs';
import { redis, relay } from './redis.mjs';
import { client, reply } from './resp.mjs';

/* A client as the one under test would be. */
function connect(t, place, login) {
  const it = client(place, login);
  t.after(() => it.close());
  return it;
}

async function took(work) {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

test('replies, whole and in parts', () => {
  const text = '*4\r\n$2\r\né\r\n:-7\r\n*2\r\n+OK\r\n$-1\r\n-NO way\r\n';
  const bytes = Buffer.from(text);
  for (let i = 0; i < bytes.length; i++) {
    assert.equal(reply(bytes.subarray(0, i)), null);
  }
  const [[word, number, list, error], end] = reply(bytes);
  assert.equal(end, bytes.length);
  assert.deepEqual([word, number, list], ['é', -7, ['OK', null]]);
  assert.equal(error.message, 'NO way');
});

test('plain', async (t) => {
  const r = await redis(t);
  assert.equal(r.url(), `redis://127.0.0.1:${r.port}`);
  assert.equal(r.url({ db: 3, host: 'localhost', user: 'u', password: 'p',
    port: 9 }), 'redis://u:p@localhost:9/3');
  const c = connect(t, { port: r.port });
  assert.deepEqual(await Promise.all([c.command('SET', 'a', 'é 1'),
    c.command('GET', 'a'), c.command('GET', 'b')]), ['OK', 'é 1', null]);
  await assert.rejects(c.command('LPUSH', 'a', 1), /WRONGTYPE/);
  const list = await r.clients();
  assert.equal(list.length, 1, 'not the tests\' own');
  assert.equal(list[0].user, 'default');
});

test('a password', async (t) => {
  const r = await redis(t, { password: 'secret' });
  assert.equal(r.url(), `redis://:secret@127.0.0.1:${r.port}`);
  assert.equal(r.url({ password: 'wrong' }),
    `redis://:wrong@127.0.0.1:${r.port}`);
  assert.equal(readFileSync(r.passwordFile(), 'utf8'), 'secret\n');
  await assert.rejects(connect(t, { port: r.port }).command('PING'),
    /NOAUTH/);
  assert.equal(await connect(t, { port: r.port }, ['secret'])
    .command('PING'), 'PONG');
});

test('ACL', async (t) => {
  const r = await redis(t, { acl: ['user default off',
    'user chat on >pw ~chat:* &chat:* +@all -@scripting'] });
  const c = connect(t, { port: r.port }, ['chat', 'pw']);
  assert.equal(await c.command('SET', 'chat:a', 1), 'OK');
  await assert.rejects(c.command('SET', 'other', 1), /NOPERM/);
  await assert.rejects(c.command('EVAL', 'return 1', 0), /NOPERM/);
  await assert.rejects(connect(t, { port: r.port }).command('PING'),
    /NOAUTH/);
});

test('TLS', async (t) => {
  const r = await redis(t, { tls: true });
  const { ca, stranger } = certificates();
  assert.equal(r.url(), `rediss://127.0.0.1:${r.port} ca=${ca}`);
  const as = (file, more) => connect(t, { port: r.port,
    ca: readFileSync(file), ...more }).command('PING');
  assert.equal(await as(ca), 'PONG');
  assert.equal(await as(ca, { servername: '' }), 'PONG', 'by its address');
  await assert.rejects(as(stranger), /gone/);
  await assert.rejects(as(ca, { servername: 'example.com' }), /gone/);
  await assert.rejects(connect(t, { port: r.port }).command('PING'), /gone/);
});

test('unix', async (t) => {
  const r = await redis(t, { unix: true });
  assert.equal(r.url(), `unix:${r.path}`);
  assert.equal(await connect(t, { path: r.path }).command('PING'), 'PONG');
});

test('stopped, killed and started again', async (t) => {
  for (const appendonly of [true, false]) {
    await t.test(appendonly ? 'with its data' : 'empty', async (t2) => {
      const r = await redis(t2, { appendonly });
      const { port } = r;
      for (const signal of ['SIGTERM', 'SIGKILL']) {
        await r.command('SET', 'a', signal);
        await r.stop(signal);
        await assert.rejects(connect(t2, { port }).command('PING'), /gone/);
        await r.start();
        assert.equal(await connect(t2, { port }).command('GET', 'a'),
          appendonly ? signal : null);
      }
    });
  }
});

test('frozen and paused', async (t) => {
  const r = await redis(t);
  const c = connect(t, { port: r.port });
  await r.freeze();
  const pong = c.command('PING');
  assert.equal(await Promise.race([pong, new Promise((resolve) => {
    setTimeout(resolve, 100, 'nothing');
  })]), 'nothing');
  r.thaw();
  assert.equal(await pong, 'PONG');
  await r.pause(200);
  const ms = await took(() => c.command('PING'));
  assert.ok(ms > 150, `${ms} ms`);
});

test('calls are counted', async (t) => {
  const r = await redis(t);
  const c = connect(t, { port: r.port });
  await c.command('SCRIPT', 'LOAD', 'return 1');
  for (let i = 0; i < 3; i++) {
    await c.command('EVALSHA',
      'e0e1f9fabfc9d4800c877a703b823ac0578ff8db', 0);
  }
  assert.equal(await r.calls('evalsha'), 3);
  assert.equal(await r.calls('script|load'), 1);
  await r.resetStats();
  assert.equal(await r.calls('EVALSHA'), 0);
});

test('a relay', async (t) => {
  const r = await redis(t);
  const way = await relay(t, r.port);
  const c = connect(t, { port: way.port });
  const ping = () => c.command('PING');
  assert.equal(await ping(), 'PONG');

  await t.test('delays replies', async () => {
    way.delay(1000);
    const ms = await took(() => Promise.all([ping(), ping()]));
    way.delay(0);
    assert.ok(ms > 990 && ms < 1900, `${ms} ms`);
    assert.ok(await took(ping) < 900);
  });

  await t.test('admits commands one by one', async () => {
    const order = [];
    way.admit(1);
    const all = [1, 2, 3].map((i) => ping().then(() => order.push(i)));
    await all[0];
    await pause(50);
    assert.deepEqual(order, [1]);
    way.admit(Infinity);
    await Promise.all(all);
    assert.deepEqual(order, [1, 2, 3]);
  });

  await t.test('cuts', async () => {
    const before = way.connections;
    way.delay(1000);
    const lost = ping();
    setTimeout(way.cut, 50);
    await assert.rejects(lost, /gone/);
    way.delay(0);
    assert.equal(await ping(), 'PONG');
    assert.equal(way.connections, before + 1);
  });

  await t.test('refuses', async () => {
    await way.refuse(true);
    assert.equal(await ping(), 'PONG', 'open connections stay');
    way.cut();
    await assert.rejects(ping(), /gone/);
    await assert.rejects(ping(), /gone/);
    await way.refuse(false);
    assert.equal(await ping(), 'PONG');
  });

  await t.test('splits', async () => {
    const pieces = [];
    way.rewrite((bytes) => {
      pieces.push(bytes.length);
      return bytes;
    });
    way.split(1);
    await c.command('SET', 'a', 'x'.repeat(100));
    assert.equal(await c.command('GET', 'a'), 'x'.repeat(100));
    way.split(0);
    way.rewrite(null);
    assert.deepEqual(pieces, [5, 108]);
  });

  await t.test('swallows, and lets go', async () => {
    way.blackhole(true);
    const pong = ping();
    assert.equal(await Promise.race([pong, new Promise((resolve) => {
      setTimeout(resolve, 100, 'nothing');
    })]), 'nothing');
    way.blackhole(false);
    assert.equal(await pong, 'PONG');
  });

  await t.test('rewrites', async () => {
    way.rewrite((bytes) => Buffer.from(String(bytes).replace('PO', 'GO')));
    assert.equal(await ping(), 'GONG');
    way.rewrite(null);
    assert.equal(await ping(), 'PONG');
  });

  await t.test('before a socket in the file system', async (t2) => {
    const u = await redis(t2, { unix: true });
    const over = await relay(t2, u.path);
    assert.equal(await connect(t2, { port: over.port }).command('PING'),
      'PONG');
  });
});
