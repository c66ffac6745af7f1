/*
 * redis_malformed.test.mjs: nodes of a Redis Cluster, and Sentinels, with
 * malformed replies: slots without a node or out of range, unreachable nodes,
 * circular redirects, invalid masters.
 *
 * The test simulates the nodes. Workers must survive, stay idle, and serve
 * requests that need no store.
 *
 * Suite: asan, long.
 */
import assert from 'node:assert/strict';
import net from 'node:net';
import { nginx, pause, post, until } from '../lib/harness.mjs';
import { cost } from '../lib/cpu.mjs';
import { dialects, newCalls } from '../lib/dialects.mjs';
import { live, several } from '../lib/hold.mjs';
import { provider } from '../lib/provider.mjs';
import { reply } from '../lib/redis/resp.mjs';

const bulk = (text) => text === null ? '$-1\r\n'
  : `$${text.length}\r\n${text}\r\n`;
const number = (n) => `:${n}\r\n`;
const array = (...items) => `*${items.length}\r\n${items.join('')}`;
const range = (from, to, host, port, ...more) =>
  array(number(from), number(to), array(bulk(host), number(port),
    bulk('0'.repeat(40)), ...more));

/*
 * A node or sentinel: {port, commands, connects, keyed}. slots(port): its
 * reply to CLUSTER SLOTS or to a request for the master; keyed(args, port):
 * its reply to a command with a key. closes: it closes the connection after
 * its reply to this command. mute(yes): it breaks all connections, and stops
 * replying (or replies again).
 */
async function fake(t, { slots, keyed, host = '127.0.0.1',
  closes = '' }) {
  const it = { commands: 0, connects: 0, keyed: 0 };
  const answer = (args) => {
    it.commands++;
    switch (args[0]) {
    case 'PING': return '+PONG\r\n';
    case 'ASKING': return '+OK\r\n';
    case 'SCRIPT': return bulk('x');
    case 'CLUSTER': return slots(it.port);
    case 'SENTINEL': return slots(it.port);
    case 'SUBSCRIBE': return array(bulk('subscribe'), bulk(args[1]),
      number(1));
    default:
      it.keyed++;
      return keyed(args, it.port);
    }
  };
  const sockets = new Set();
  const server = net.createServer((socket) => {
    let bytes = Buffer.alloc(0);
    it.connects++;
    sockets.add(socket);
    socket.setNoDelay();
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    socket.on('data', (piece) => {
      bytes = Buffer.concat([bytes, piece]);
      for (let one = reply(bytes); one; one = reply(bytes)) {
        bytes = bytes.subarray(one[1]);
        if (it.muted) {
          continue;
        }
        socket.write(answer(one[0]));
        if (one[0][0] === closes) {
          socket.end();
        }
      }
    });
  });
  await new Promise((done) => { server.listen(0, host, done); });
  it.port = server.address().port;
  it.mute = (yes) => {
    it.muted = yes;
    sockets.forEach((socket) => socket.destroy());
  };
  t.after(() => {
    server.close();
    it.mute(true);
  });
  return it;
}

const down = () => '-CLUSTERDOWN Hash slot not served\r\n';

/* nginx over these nodes, one worker; ask(): a request without the store. */
async function over(t, list, scheme = 'cluster', master = '') {
  const p = await provider(t, 'openai_chat');
  const n = await nginx(t, { upstream: p.port, workers: 1, connects: false,
    store: `redis+${scheme}://${list.map(({ port }) => `127.0.0.1:${port}`)
      .join(',')}${master}` });
  const [pid] = n.workers();
  const d = dialects.openai_chat;
  const ask = async (body = d.fresh()) => {
    const answer = post(n.port, d.path, body, d.headers);
    await answer.text();
    assert.equal(await answer.status, 200);
    assert.deepEqual(n.workers(), [pid]);
  };
  return { n, ask };
}

live('nodes that redirect a command in a circle', async (t) => {
  const list = [];
  const keyed = (word) => (args, port) => {
    const other = list.find((one) => one.port !== port);
    return `-${word} 1 127.0.0.1:${other.port}\r\n`;
  };
  for (const word of ['ASK', 'MOVED']) {
    list.length = 0;
    const options = { keyed: keyed(word),
      slots: (port) => array(range(0, 16383, '127.0.0.1', port)) };
    list.push(await fake(t, options), await fake(t, options));
    const { ask } = await over(t, list);
    await until(() => list.every((one) => one.keyed > 3));
    const before = list[0].keyed;
    await pause(2000);
    const rate = (list[0].keyed - before) / 2;
    t.diagnostic(`${word}: ${rate} commands a second`);
    assert.ok(rate < 1000, `${rate} commands a second`);
    await ask();
  }
}, several);

live('a node that closes each subscription', async (t) => {
  const one = await fake(t, { closes: 'SUBSCRIBE', keyed: () => '$-1\r\n',
    slots: (port) => array(range(0, 16383, '127.0.0.1', port)) });
  const { n, ask } = await over(t, [one]);
  await until(() => one.connects > 3);
  const before = one.connects;
  await pause(3000);
  const rate = (one.connects - before) / 3;
  t.diagnostic(`${rate} connections a second`);
  assert.ok(rate < 10, `${rate} connections a second`);
  assert.doesNotMatch(n.errorLog(), /again/);
  await ask();
}, several);

const odd = {
  'an error': () => '-ERR no\r\n',
  'none': () => '*0\r\n',
  'nil': () => '*-1\r\n',
  'a number': () => ':1\r\n',
  'empty ranges': () => array('*0\r\n', '*0\r\n'),
  'texts': () => array(bulk('a'), bulk('b')),
  'nil nodes': () => array(array(number(0), number(16383), '*-1\r\n')),
  'nil hosts without a port': () => array(array(number(0), number(16383),
    array(bulk(null), bulk(null)))),
  'negative slots': (port) => array(range(-5, 16383, '127.0.0.1', port)),
  'too many slots': (port) => array(range(0, 99999, '127.0.0.1', port)),
  'backwards': (port) => array(range(9, 3, '127.0.0.1', port)),
  'no host': () => array(range(0, 16383, 'a b!', 7)),
  'a long host': () => array(range(0, 16383, 'x'.repeat(5000), 7)),
  'ports': () => array(range(0, 5, '127.0.0.1', 0),
    range(6, 9, '127.0.0.1', 65536), range(10, 99, '127.0.0.1', -1)),
  'unreachable nodes': () => array(range(0, 8000, '127.0.0.1', 1),
    range(8001, 16383, 'nosuch.invalid', 2)),
  'ever new nodes': () => array(...Array.from({ length: 2000 }, (_, i) =>
    range(i, i, `127.1.${Math.floor(Math.random() * 250)}.${i % 250}`,
      1 + i))),
  'odd metadata': (port) => array(range(0, 16383, '127.0.0.1', port,
    array(bulk('ip'), number(1), bulk('ip'), bulk('x'), bulk('ip'), bulk(''),
      bulk(null)))),
  'deep': () => '*1\r\n'.repeat(6) + ':1\r\n',
  'not Redis': () => 'HTTP/1.1 200 OK\r\n\r\n',
  'a truncated reply': () => '*100000\r\n*3\r\n:0\r\n',
};

live('malformed slots', async (t) => {
  for (const [name, slots] of Object.entries(odd)) {
    await t.test(name, async (t2) => {
      const one = await fake(t2, { slots, keyed: down });
      const { n, ask } = await over(t2, [one]);
      await until(() => one.connects > 1);
      await pause(1500);
      await ask();
      assert.ok(one.commands < 600, `${one.commands} commands`);
      assert.ok(one.connects < 60, `${one.connects} connections`);
      t2.diagnostic(`${one.commands} commands, ${one.connects} connections`);
    });
  }
}, several);

live('a table that repeats all slots: one pass is enough',
  async (t) => {
    const all = (port, i) => array(number(0), number(16383),
      array(bulk('127.0.0.1'), number(i % 2 ? port : 1)));
    let table = '';
    const one = await fake(t, { keyed: down, slots: (port) =>
      table || array(range(0, 16383, '127.0.0.1', port)) });
    const { n, ask } = await over(t, [one]);
    await until(() => one.keyed > 0);
    table = array(...Array.from({ length: 20000 }, (_, i) =>
      all(one.port, i)));
    const { connects } = one;
    const took = await cost(n, async () => {
      one.mute(true);
      one.mute(false);
      await until(() => one.connects > connects);
      await pause(1000);
    });
    t.diagnostic(`${Math.round(took)} ms`);
    await ask();
    assert.ok(process.env.CHAT_ASAN || took < 200, `${took} ms`);
  });

const places = {
  'no address': [() => array(bulk(''), bulk('6379')),
    /it sends no valid address/],
  'no port': [() => array(bulk('127.0.0.1'), bulk('x')),
    /it sends no valid address/],
  'two numbers': [() => array(number(1), number(2)),
    /it sends no valid address/],
  'nil': [() => '*-1\r\n', /it does not know this master/],
  'a text': [() => bulk('127.0.0.1 6379'), /it does not know this master/],
  'itself': [(port) => array(bulk('127.0.0.1'), bulk(`${port}`)),
    /is unavailable: ERR no/],
  'a closed port': [() => array(bulk('127.0.0.1'), bulk('1')), /refused/],
  'not Redis': [() => 'HTTP/1.1 200 OK\r\n\r\n', /not a Redis reply/],
};

live('sentinels that name no valid master', async (t) => {
  for (const [name, [slots, why]] of Object.entries(places)) {
    await t.test(name, async (t2) => {
      const options = { slots, keyed: () => '-ERR no\r\n' };
      const list = [await fake(t2, options), await fake(t2, options)];
      const { n, ask } = await over(t2, list, 'sentinel', '/main');
      await until(() => /is unavailable/.test(n.errorLog()));
      await pause(1000);
      await ask();
      assert.match(n.errorLog(), why);
      const commands = list[0].commands + list[1].commands;
      assert.ok(commands < 100, `${commands} commands`);
      t2.diagnostic(`${commands} commands`);
    });
  }
}, several);

live('a node whose host name is not known yet', async (t) => {
  const there = await fake(t, { host: '127.0.0.2', keyed: () => '$-1\r\n',
    slots: () => '*0\r\n' });
  const here = await fake(t, { keyed: down, slots: () => array(range(0, 16383,
    '?', there.port, array(bulk('ip'), bulk('127.0.0.2')))) });
  await over(t, [here]);
  await until(() => there.keyed > 3);
});

/* Setup succeeds, so that each connection counts as one that has worked. */
live('a node refuses each write: connections become rare', async (t) => {
  const one = await fake(t, { keyed: () => '-NOREPLICAS too few\r\n',
    slots: (port) => array(range(0, 16383, '127.0.0.1', port)) });
  const { ask } = await over(t, [one]);
  await until(() => one.keyed > 8);
  const before = one.connects;
  await pause(3000);
  const rate = (one.connects - before) / 3;
  t.diagnostic(`${rate} connections a second`);
  assert.ok(rate > 0 && rate < 6, `${rate} connections a second`);
  await ask();
});

live('a node breaks each connection: requests go on', async (t) => {
  const one = await fake(t, { keyed: () => 'not Redis\r\n',
    slots: (port) => array(range(0, 16383, '127.0.0.1', port)) });
  const { n, ask } = await over(t, [one]);
  await until(() => one.keyed > 0);
  const { openai_chat: d } = dialects;
  const list = newCalls(2, d.prefix);
  const body = d.continuation({ from: d.calls({ calls: list }),
    results: Object.fromEntries(list.map(({ id }) => [id, 1])) });
  for (let i = 0; i < 10; i++) {
    const before = performance.now();
    await ask(body);
    const took = performance.now() - before;
    assert.ok(took < 10000, `the request took ${took} ms`);
  }
  assert.ok(one.connects > 5);
  t.diagnostic(`${one.connects} connections`);
});

/* A million elements: in one array, and in a thousand of a thousand each. */
const floods = {
  'one array': () => `*1000000\r\n${':1\r\n'.repeat(1e6)}`,
  'nested arrays': () => `*1000\r\n${`*1000\r\n${':1\r\n'.repeat(1e3)}`
    .repeat(1e3)}`,
};

live('a reply of a million elements: the worker refuses it',
  async (t) => {
    for (const [name, flood] of Object.entries(floods)) {
      await t.test(name, async (t2) => {
        let most = 0;
        let keyed = down;
        const one = await fake(t2, { keyed: (args) => keyed(args),
          slots: (port) => array(range(0, 16383, '127.0.0.1', port)) });
        const { n, ask } = await over(t2, [one]);
        await until(() => one.keyed > 0);
        await ask();
        const before = n.memory();
        const bytes = flood();
        keyed = () => bytes;
        await until(() => {
          most = Math.max(most, n.memory() - before);
          return one.connects > 5
            && /not a Redis reply: too many elements/.test(n.errorLog());
        }, 20000, 'the worker to refuse a reply and connect again');
        t2.diagnostic(`${(most / 1e6).toFixed(1)} MB`);
        assert.ok(process.env.CHAT_ASAN || most < 20e6, `${most} bytes`);
        await ask();
      });
    }
  });

live('a string that is too long: the worker refuses the reply',
  async (t) => {
    let keyed = down;
    const one = await fake(t, { keyed: (args) => keyed(args),
      slots: (port) => array(range(0, 16383, '127.0.0.1', port)) });
    const { n, ask } = await over(t, [one], 'cluster', ' timeout=30s');
    await until(() => one.keyed > 0);
    await ask();
    const before = n.memory();
    let most = 0;
    const flood = bulk('x'.repeat(64 << 20));
    keyed = () => {
      keyed = down;
      return flood;
    };
    await until(() => {
      most = Math.max(most, n.memory() - before);
      return /a string of a reply is larger than 32 MB/.test(n.errorLog());
    }, 40000, 'the worker to refuse the reply');
    t.diagnostic(`${(most / 1e6).toFixed(1)} MB`);
    assert.ok(process.env.CHAT_ASAN || most < 80e6, `${most} bytes`);
    const asked = one.keyed;
    await ask();
    await until(() => one.keyed > asked, 10000, 'a new connection');
  });

live('a node lost its slots while it was down: workers find it',
  async (t) => {
    const list = [];
    let slots = () => array(range(0, 16383, '127.0.0.1', list[0].port));
    const options = { slots: () => slots(),
      keyed: ([name, ...args]) => (name === 'SET' ? '+OK\r\n'
        : array(bulk('epoch'), ...args.slice(1).map(() => bulk(null)))) };
    list.push(await fake(t, options), await fake(t, options));
    const { ask } = await over(t, list, 'cluster', ' timeout=2s');
    const [first, second] = list;
    await until(() => first.keyed > 3);
    let replies = 0;
    const whole = slots;
    slots = () => {
      replies++;
      return array(range(0, 100, '127.0.0.1', 1));
    };
    first.mute(true);
    await until(() => replies > 0, 10000, 'the worker to read the slots');
    await pause(300);
    slots = whole;
    first.muted = false;
    const { keyed } = first;
    await until(() => first.keyed > keyed, 10000, 'commands to the node');
    assert.ok(second.connects > 1);
    await ask();
  });
