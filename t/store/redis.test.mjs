/*
 * redis.test.mjs: the store in Redis: the ways to connect, refusals and
 * malformed replies of Redis, the number of commands, and outages.
 *
 * Suite: asan, plain, long.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import {
  gate, patience, pause, unbuilt, until,
} from '../lib/harness.mjs';
import { handled } from '../lib/handled.mjs';
import { Batch, scene as sceneOf, stage, staged, told } from
  '../lib/batch.mjs';
import { dialects } from '../lib/dialects.mjs';
import { give, outside } from '../lib/external.mjs';
import { held, leave, live, say, verdict, wordOf } from '../lib/hold.mjs';
import { sse } from '../lib/provider.mjs';
import { head, upstream } from '../lib/raw.mjs';
import { certificates } from '../lib/certificates.mjs';
import { eachArray, redis, relay } from '../lib/redis/redis.mjs';

const keys = Object.keys(dialects);
const asan = !!process.env.CHAT_ASAN;
const { stderr } = spawnSync(process.env.CHAT_NGINX ?? 'nginx', ['-V'],
  { encoding: 'utf8' });
const debug = stderr?.includes('--with-debug');

/* Lines of the error log about the store. */
const lines = (n) => n.errorLog().split('\n')
  .filter((line) => line.includes('chat:') && line.includes('store'));
const said = (n, pattern) => until(() => lines(n).some((line) =>
  pattern.test(line)), 5000, `${pattern} in:\n${n.errorLog()}`);

/* A stage with a connected store, or a logged reason why not. */
async function over(t, key, url, options = {}) {
  const { wants = /connected/, timeout = '2s', ...rest } = options;
  const scene = await stage(t, key, { workers: 1, connects: !options.wants,
    ...rest, store: `${url} timeout=${timeout}`,
    location: `${say.verdict} ${options.location ?? ''}` });
  await said(scene.n, wants);
  return scene;
}

/* A batch of two in two requests is released once. */
async function works(scene, key) {
  const batch = new Batch(scene, 2);
  await batch.ask();
  const first = batch.continue(batch.results([0]));
  await held(batch, first);
  const words = await Promise.all([first, batch.continue(batch.results([1]))]
    .map(wordOf));
  assert.ok(words.includes('final'), `${key}: ${words}`);
  batch.released();
}

/* The answer to a complete body while the store is unavailable. */
async function passes(scene) {
  const batch = new Batch(scene, 2);
  await batch.ask();
  const answer = batch.continue(batch.results());
  assert.equal(await wordOf(answer), 'final');
  assert.equal(await verdict(answer), 'bypass');
}

async function denied(scene) {
  const answer = new Batch(scene, 2);
  const { word, headers } = await told(answer.continue(answer.results()));
  assert.equal(word, '503');
  assert.ok(Number(headers['retry-after']) > 0);
  assert.equal(answer.upstream().length, 0);
}

/* CPU time that the workers have used, in ms. */
const used = (n) => n.workers().reduce((sum, pid) => {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]
    .split(' ');
  return sum + 10 * (Number(stat[11]) + Number(stat[12]));
}, 0);

/* Checks that idle workers use no CPU time and log nothing. */
async function calm(n, most = 2) {
  const pids = n.workers();
  const before = used(n);
  await pause(1500);
  const took = used(n) - before;
  assert.ok(took < 200, `${took} ms of CPU time in 1500`);
  assert.deepEqual(n.workers(), pids);
  const found = lines(n).filter((line) => /\[(warn|error|crit)\]/.test(line));
  assert.ok(found.length > 0 && found.length <= most, found.join('\n'));
}


live('the ways to connect', async (t) => {
  const acl = ['user default off',
    'user chat on >pw ~chat:* &chat:* +@all -@admin -@dangerous'];
  const ways = {
    'plain': [{}, (r) => r.url()],
    'by a name': [{}, (r) => r.url({ host: 'localhost' })],
    'a database': [{}, (r) => r.url({ db: 5 })],
    'a password': [{ password: 'secret' }, (r) => r.url()],
    'a password in a file': [{ password: 'secret' }, (r) =>
      `${r.url({ password: '' })} password_file=${r.passwordFile()}`],
    'an ACL user': [{ acl }, (r) => r.url({ user: 'chat', password: 'pw' })],
    'unix': [{ unix: true }, (r) => r.url()],
    'unix, a password': [{ unix: true, password: 'secret' }, (r) =>
      `${r.url()} password_file=${r.passwordFile()}`],
    'TLS': [{ tls: true }, (r) => r.url()],
    'TLS, by a name': [{ tls: true }, (r) => r.url({ host: 'localhost' })],
    'TLS, unverified': [{ tls: true }, (r) =>
      `${r.url({ ca: '' })} verify=off`],
    'TLS, a password': [{ tls: true, password: 'secret' }, (r) => r.url()],
  };
  await Promise.all(Object.entries(ways).map(([name, [options, url]]) =>
    t.test(name, async (t2) => {
      const r = await redis(t2, options);
      const scene = await over(t2, 'openai_chat', url(r));
      await works(scene, name);
      const clients = await r.clients();
      assert.equal(clients.length, 2, 'two connections of a worker');
      assert.equal(clients.filter(({ sub }) => sub === '1').length, 1);
      assert.ok(!/secret|:pw@/.test(scene.n.errorLog()));
    })));
}, { skip: unbuilt, concurrency: 4 });

live('Redis refuses: one log line, chat_store_failure', async (t) => {
  const { ca, cert, key } = certificates('DNS:other.example,IP:127.9.9.9');
  const other = { ca, lines: [`tls-cert-file ${cert}`, `tls-key-file ${key}`,
    `tls-ca-cert-file ${ca}`] };
  const refusing = {
    'a wrong password': [{ password: 'secret' },
      (r) => r.url({ password: 'wrong' }), /WRONGPASS/],
    'no password': [{ password: 'secret' },
      (r) => r.url({ password: '' }), /NOAUTH/],
    'an unknown user': [{},
      (r) => r.url({ user: 'chat', password: 'pw' }), /WRONGPASS/],
    'scripts are refused': [{ acl: ['user default off',
      'user chat on >pw ~chat:* &chat:* +@all -@scripting'] },
    (r) => r.url({ user: 'chat', password: 'pw' }), /NOPERM/],
    'the keys are refused': [{ acl: ['user default off',
      'user chat on >pw ~other:* &chat:* +@all'] },
    (r) => r.url({ user: 'chat', password: 'pw' }), /NOPERM/],
    'an unknown database': [{}, (r) => r.url({ db: 99 }),
      /DB index is out of range/],
    'plain, to a TLS server': [{ tls: true },
      (r) => `redis://127.0.0.1:${r.port}`, /unavailable|closed/],
    'TLS, to a plain server': [{}, (r) =>
      `rediss://127.0.0.1:${r.port} ca=${certificates().ca}`,
    /SSL|unavailable/],
    'TLS, an unknown CA': [{ tls: true },
      (r) => r.url({ ca: certificates().stranger }),
      /certificate verification failed/],
    'TLS, a certificate of another name': [{ tls: true, lines: other.lines },
      (r) => r.url({ host: 'localhost', ca: other.ca }),
      /certificate verification failed \(62: hostname mismatch\)/i],
    'TLS, a certificate of another address': [
      { tls: true, lines: other.lines },
      (r) => r.url({ ca: other.ca }),
      /certificate verification failed \(64: IP address mismatch\)/i],
    'a closed port': [{}, () => 'redis://127.0.0.1:1', /refused/],
  };
  await Promise.all(Object.entries(refusing).map(
    ([name, [options, url, pattern]]) => t.test(name, async (t2) => {
      const r = await redis(t2, options);
      const way = { wants: pattern };
      const scene = await over(t2, 'openai_chat', url(r), way);
      await until(async () => (await verdict(
        new Batch(scene, 2).post(scene.dialect.fresh()))) !== undefined);
      await passes(scene);
      await calm(scene.n);
      await passes(scene);
      assert.ok(!/secret|wrong\b|:pw@/.test(scene.n.errorLog()
        .replace(/WRONGPASS.*/g, '')), scene.n.errorLog());

      const strict = await over(t2, 'openai_chat', url(r),
        { ...way, location: 'chat_store_failure deny;' });
      await denied(strict);
    })));
}, { skip: unbuilt, concurrency: 4 });


live('a key of the module has a wrong type', async (t) => {
  const r = await redis(t);
  const scene = await over(t, 'openai_chat', r.url());
  const batch = new Batch(scene, 2);
  await batch.ask();
  await leave(batch, batch.results([0]));
  const names = await r.command('KEYS', 'chat:{*');
  assert.ok(names.length > 0);
  for (const name of names) {
    await r.command('DEL', name);
    await r.command('SET', name, 'what');
  }
  const answer = batch.continue(batch.results());
  assert.equal(await wordOf(answer), 'final');
  assert.equal(await verdict(answer), 'bypass');
  await said(scene.n, /WRONGTYPE/);
  await calm(scene.n);
  await works(scene, 'another batch');
});

live('facts name workers that no worker can be', async (t) => {
  const r = await redis(t);
  const scene = await over(t, 'openai_chat', r.url());
  const batch = new Batch(scene, 2);
  await batch.ask();
  await leave(batch, batch.results([0]));
  for (const name of await r.command('KEYS', 'chat:{*')) {
    if (await r.command('TYPE', name) === 'hash' && !name.endsWith(':p')) {
      await r.command('HSET', name, 'feed/a b  c/1', '01',
        `feed/${'d'.repeat(300)}/1`, '01', 'open', '0e f\n1');
    }
  }
  const [pid] = scene.n.workers();
  const answer = batch.continue(batch.results());
  assert.equal(await wordOf(answer), 'final');
  batch.released();
  await works(scene, 'another batch');
  assert.deepEqual(scene.n.workers(), [pid]);
});

/* Failures to write or read a recording, and their effects. */
const unreadable = {
  'it is full, and read all the same': [{},
    (r) => r.command('CONFIG', 'SET', 'maxmemory', '100kb'),
    null, 'final', /"finish"/],
  'its user may not read records': [
    { acl: ['user default on nopass ~* &* +@all -xrange'] }, () => {},
    /can't run this command|NOPERM|no permissions/, null,
    /"error".*stream_interrupted/],
};

live('a recording that only returns errors: followers still end',
  async (t) => {
    await Promise.all(Object.entries(unreadable).map(([name, one]) =>
      t.test(name, async (t2) => {
        const [options, spoil, words, first, end] = one;
        const r = await redis(t2, options);
        const scene = await over(t2, 'ai_sdk', r.url(),
          { hold: '60s grace=3s' });
        const batch = new Batch(scene, 2);
        await batch.ask();
        const sibling = batch.continue(batch.results([0]));
        await held(batch, sibling);
        assert.equal(await wordOf(batch.continue(batch.results([1]))),
          'final');
        if (first) {
          assert.equal(await wordOf(sibling), 'final');
        }
        await spoil(r);
        const follower = first ? batch.continue(batch.results([0])) : sibling;
        await follower.until((text) => end.test(text), 20000);
        const { word } = await told(follower);
        assert.equal(word, first ?? 'error');
        batch.released();
        /* Each command for it fails, in a script or not. */
        const found = lines(scene.n).filter((line) => words?.test(line));
        assert.ok(!words || (found.length > 0 && found.length <= 2),
          found.join('\n'));
      })));
  }, { skip: unbuilt, concurrency: 4 });

/* The lines of Redis's MONITOR from now on; closed with the test. */
async function monitored(t, port) {
  const socket = connect(port, '127.0.0.1');
  t.after(() => socket.destroy());
  const found = [];
  socket.write('MONITOR\r\n');
  await once(socket, 'data');
  socket.on('data', (bytes) => found.push(...`${bytes}`.split('\n')));
  return found;
}

live('the facts of an answer and of its end are put together if known',
  async (t) => {
    const key = 'openai_chat';
    const r = await redis(t);
    const events = dialects[key].final('done');
    const text = events.join('');
    const bytes = head({ 'Content-Type': 'text/event-stream',
      'Content-Length': Buffer.byteLength(text) }) + text;
    let cut = bytes.length;
    let rest = () => {};
    const up = await upstream(t, (socket) => {
      socket.write(bytes.slice(0, cut));
      rest = () => socket.write(bytes.slice(cut));
    });
    const n = await staged(t, key, up, { workers: 1, connects: true,
      store: r.url() });
    await said(n, /connected/);
    const commands = await monitored(t, r.port);
    const evals = (fact) => commands.filter((line) =>
      line.includes('"EVALSHA"') && line.includes(`"${fact}/1/`));
    const ended = () => until(() => evals('end').length > 0, 5000, 'end/1');
    const ask = () => {
      const batch = new Batch(sceneOf(key, up, n), 2);
      commands.length = 0;
      return batch.continue(batch.results());
    };

    const whole = ask();
    assert.equal(await whole.text(), text);
    await ended();
    assert.equal(evals('answer').length, 0);
    assert.equal(evals('end').length, 1);

    /* the header alone, then the first event */
    for (cut of [bytes.indexOf('\r\n\r\n') + 4,
      bytes.indexOf(events[0]) + events[0].length]) {
      const answer = ask();
      await until(() => evals('answer').length > 0, 5000, 'answer/1');
      assert.equal(evals('end').length, 0);
      rest();
      assert.equal(await answer.text(), text);
      await ended();
      assert.equal(evals('answer').length, 1);
    }
  }, { skip: unbuilt });

live('the end of a whole answer is sent to Redis before its bytes',
  async (t) => {
    const key = 'openai_chat';
    const text = dialects[key].final('done').join('');
    const up = await upstream(t, (socket) => socket.write(
      head({ 'Content-Type': 'text/event-stream',
        'Content-Length': Buffer.byteLength(text) }) + text));
    const n = await staged(t, key, up, { workers: 1, connects: true,
      level: 'debug', store: `${(await redis(t)).url()} timeout=1234ms` });
    await said(n, /connected/);
    const batch = new Batch(sceneOf(key, up, n), 2);
    assert.equal(await batch.continue(batch.results()).text(), text);
    const log = n.errorLog();
    /* the first timer is that of the command's reply */
    assert.match(log.slice(log.lastIndexOf('chat: stream ended')),
      /^(?:(?!.*writev).*\n)+.*timer add: \S+ 1234:/);
  }, { skip: unbuilt || (!debug && 'NGINX without --with-debug') });


/* The bytes that replace a reply. */
const nonsense = {
  'another shape': (bytes) => (bytes[0] === 42 /* an array */
    ? Buffer.from('+what\r\n') : bytes),
  'a number': (bytes) => (bytes[0] === 42 ? Buffer.from(':7\r\n') : bytes),
  'nothing': (bytes) => (bytes[0] === 42 ? Buffer.from('*-1\r\n') : bytes),
  'an error': (bytes) => (bytes[0] === 42
    ? Buffer.from('-ERR a bad day\r\n') : bytes),
  'arrays in arrays': (bytes) => (bytes[0] === 42
    ? Buffer.from('*1\r\n'.repeat(20)) : bytes),
  'no Redis': () => Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n'),
  'a length of gigabytes': (bytes) => (bytes[0] === 42
    ? Buffer.from('$2147483647\r\nx') : bytes),
  'an endless array': (bytes) => (bytes[0] === 42
    ? Buffer.from('*2147483647\r\n:1\r\n') : bytes),
  'half of it': (bytes) => bytes.subarray(0, bytes.length / 2),
  'zeros': (bytes) => Buffer.alloc(bytes.length),
  'all of it twice': (bytes) => Buffer.concat([bytes, bytes]),
};

live('malformed replies', async (t) => {
  await Promise.all(Object.entries(nonsense).map(([name, rewrite]) =>
    t.test(name, async (t2) => {
      const r = await redis(t2);
      const way = await relay(t2, r.port);
      const scene = await over(t2, 'openai_chat',
        r.url({ port: way.port }));
      await works(scene, 'before');
      const memory = scene.n.memory();
      way.rewrite(rewrite);
      for (let i = 0; i < 5; i++) {
        const batch = new Batch(scene, 2);
        const answer = batch.continue(batch.results());
        assert.equal(await wordOf(answer), 'final');
        await pause(100);
      }
      const before = used(scene.n);
      await pause(1000);
      assert.ok(used(scene.n) - before < 200, 'it spins');
      const grown = scene.n.memory() - memory;
      assert.ok(asan || grown < 8e6, `${grown} bytes more`);
      const found = lines(scene.n).filter((line) => /\[error\]/.test(line));
      assert.ok(found.length <= 24, found.join('\n'));

      way.rewrite(null);
      way.cut();
      await until(async () => {
        const batch = new Batch(scene, 2);
        const answer = batch.continue(batch.results());
        await answer.text();
        return await verdict(answer) === 'passed';
      }, 4000, 'the store to work again');
      await works(scene, 'after');
    })));
}, { skip: unbuilt, concurrency: 4 });

live('errors of a server are shortened and escaped in the log',
  async (t) => {
    const errors = { complaint: '-ERR \x1b[31mred\x07\x00 ',
      refusal: '-READONLY \x1b[31mred\x07\x00 ' };
    await Promise.all(Object.entries(errors).map(([name, error]) =>
      t.test(name, async (t2) => {
        const r = await redis(t2);
        const way = await relay(t2, r.port);
        const scene = await over(t2, 'openai_chat', r.url({ port: way.port }));
        await works(scene, 'before');
        for (const [rest, shown] of [['x'.repeat(2000), 'xxx'],
          ['y, with args beginning with: s3cret', 'y']]) {
          way.rewrite(eachArray(`${error}${rest}\r\n`));
          await new Batch(scene, 2).ask();
          await said(scene.n, new RegExp(`\\.\\[31mred\\.\\. ${shown}`));
        }
        const log = scene.n.errorLog();
        assert.doesNotMatch(log, /[^\n -~]/);
        assert.doesNotMatch(log, /s3cret|x{301}/);
      })));
  }, { skip: unbuilt, concurrency: 4 });

/* A full key and a full server, in the words of each version. */
const full = {
  'a key': '-ERR FULL',
  'a key, before Redis 7': '-FULL',
  'the server': '-OOM command not allowed when used memory > \'maxmemory\'.'
    + ' script: 1, on @user_script:16.',
  'the server, before Redis 7': '-ERR Error running script (call to f_1):'
    + ' @user_script:16: @user_script: 16: -OOM command not allowed when used'
    + ' memory > \'maxmemory\'.',
};

live('given a full Redis, an incomplete request learns why it is refused',
  async (t) => {
    const r = await redis(t);
    const way = await relay(t, r.port);
    const scene = await over(t, 'openai_chat', r.url({ port: way.port }),
      { location: 'add_header X-Reason $chat_reason always;' });
    for (const [name, error] of Object.entries(full)) {
      await t.test(name, async () => {
        const batch = new Batch(scene, 2);
        await batch.ask();
        way.rewrite(eachArray(`${error}\r\n`));
        const answer = batch.continue(batch.results([0]));
        const { word, headers } = await told(answer);
        way.rewrite(null);
        assert.equal(word, '503');
        assert.equal(headers['x-reason'], 'store_full');
      });
    }
  });

live('given a full Redis, external results are refused, answers have no id',
  async (t) => {
    const r = await redis(t);
    const scene = await over(t, 'openai_chat', r.url(),
      { ...outside, location: 'chat_record on;' });
    const batch = new Batch(scene, 2);
    await batch.post(batch.dialect.fresh()).text();
    await r.command('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
    await r.command('CONFIG', 'SET', 'maxmemory', '1');
    const { status, headers, body } = await give(batch, 0, { output: 1 });
    assert.equal(status, 503);
    assert.ok(Number(headers['retry-after']) > 0);
    assert.equal(body.error.code, 'store_full');
    const other = new Batch(scene, 2);
    const answer = other.post(other.dialect.fresh());
    assert.equal(await answer.text(), other.from.join(''));
    assert.equal((await answer.head).headers['x-chat-stream'], undefined);
    await said(scene.n, /an answer was not indexed.*the store is full/);
  });

/* maxmemory-policy is not noeviction: facts and payloads are two keys. */
live('given a Redis that has evicted payloads, a request does not claim again '
  + 'and again', async (t) => {
  const r = await redis(t);
  const scene = await over(t, 'openai_chat', r.url());
  const batch = new Batch(scene, 2);
  await batch.ask();
  await leave(batch, batch.results([0]));
  const [payloads] = await r.command('KEYS', 'chat:*:p');
  await r.command('DEL', payloads);
  const before = await r.calls('EVALSHA');
  const answer = wordOf(batch.continue(batch.results([1])));
  assert.equal(await Promise.race([answer, pause(5000 * patience)]), '409');
  assert.ok(await r.calls('EVALSHA') - before < 10);
  assert.equal(batch.upstream().length, 0);
});

live('given a Redis that forgets its scripts, workers reconnect to load them',
  async (t) => {
    const r = await redis(t);
    const scene = await over(t, 'openai_chat', r.url());
    await works(scene, 'before');
    await r.command('SCRIPT', 'FLUSH');
    await works(scene, 'after');
    await said(scene.n, /is unavailable: NOSCRIPT/);
    await said(scene.n, /is available again/);
    assert.equal(lines(scene.n).length, 3, scene.n.errorLog());
  });

live('s31: one join fails, the next one succeeds', async (t) => {
  for (const failure of ['pass', 'deny']) {
    await t.test(failure, async (t2) => {
      const r = await redis(t2);
      const way = await relay(t2, r.port);
      const scene = await over(t2, 'openai_chat', r.url({ port: way.port }),
        { location: `chat_store_failure ${failure};` });
      const batch = new Batch(scene, 3);
      await batch.ask();
      await leave(batch, batch.results([0]));
      way.rewrite((bytes) => (String(bytes).includes('result/')
        ? Buffer.from('-ERR a bad day\r\n') : bytes));
      const failed = batch.continue(batch.results([1]));
      /* A result is missing: the request goes upstream under neither. */
      assert.equal(await wordOf(failed), '503');
      assert.equal(await verdict(failed), 'refused');
      way.rewrite(null);
      const { length } = batch.upstream();
      const third = batch.continue(batch.results([2]));
      const again = batch.continue(batch.results([1]));
      const words = await Promise.all([third, again].map(wordOf));
      assert.ok(words.includes('final'), `${words}`);
      assert.equal(batch.upstream().length, length + 1);
      await said(scene.n, /a bad day/);
    });
  }
});

live('replies in pieces, and late', async (t) => {
  for (const [name, disturb] of [['byte by byte', (way) => way.split(1)],
    ['100 ms late', (way) => way.delay(100)]]) {
    await t.test(name, async (t2) => {
      const r = await redis(t2);
      const way = await relay(t2, r.port);
      const scene = await over(t2, 'ai_sdk', r.url({ port: way.port }),
        { workers: 2, timeout: '2s' });
      disturb(way);
      for (let i = 0; i < 3; i++) {
        const batch = new Batch(scene, 2);
        await batch.ask();
        await pause(300);
        const first = batch.continue(batch.results([0]));
        await held(batch, first);
        await pause(200);
        const words = await Promise.all([first,
          batch.continue(batch.results([1]))].map(wordOf));
        /* A late follower finds no recording. */
        assert.match(words.sort().join(), /^(empty|final),final$/);
        batch.released();
      }
    });
  }
});


/* The number of EVALSHA and HMGET commands, as "1+0". */
const asked = async (r) =>
  `${await r.calls('evalsha')}+${await r.calls('hmget')}`;

/* Waits until Redis got no command between two polls. */
async function quiet(scene, r) {
  for (let before, now = ''; before !== now;) {
    await handled(scene);
    [before, now] = [now, await asked(r)];
  }
}

/*
 * The commands before this continuation went upstream, and until the end of
 * its answer.
 */
async function count(scene, r, batch, results) {
  const go = gate();
  const { answer } = scene.p;
  let before;
  scene.p.answer = async (request) => {
    before = await asked(r);
    await go;
    return answer(request);
  };
  await quiet(scene, r);
  await r.resetStats();
  const end = batch.continue(results);
  await until(() => before !== undefined, 5000, 'the upstream');
  go.open();
  assert.equal(await wordOf(end), 'final');
  await quiet(scene, r);
  scene.p.answer = answer;
  return { before, after: await asked(r) };
}

live('the number of commands that Redis gets', async (t) => {
  for (const key of keys) {
    await t.test(key, async (t2) => {
      const r = await redis(t2);
      const scene = await over(t2, key, r.url());
      const { answer } = scene.p;
      /* The conversation index is read first: it names the batch. */
      const first = Number(key.endsWith('_conversation'));
      const named = first || Number(!!dialects[key].interrupts);
      const text = new Batch(scene, 2);
      scene.p.answer = () => sse(text.dialect.final('hello'));
      await r.resetStats();
      await text.post(text.dialect.fresh()).text();
      await quiet(scene, r);
      assert.equal(await asked(r), `${first}+0`, 'a turn without tools');
      scene.p.answer = answer;

      const whole = new Batch(scene, 2);
      await r.resetStats();
      await whole.ask();
      await quiet(scene, r);
      const stream = await asked(r);
      const one = await count(scene, r, whole, whole.results());
      const merged = new Batch(scene, 2);
      await merged.ask();
      await leave(merged, merged.results([0]));
      const two = await count(scene, r, merged, merged.results([1]));
      t2.diagnostic(`EVALSHA+HMGET: stream ${stream}, complete ${one.before}`
        + ` then ${one.after}, merge ${two.before} then ${two.after}`);

      /* Only the store knows the members of a chain. */
      assert.equal(one.before,
        `${named + (dialects[key].chained ? 2 : 1)}+0`);
      /* What it lacks comes with its claim. */
      assert.equal(two.before, one.before, 'a merge');
      /*
       * The facts of an answer: it began, it is not recorded, it ended. The
       * answer to a batch in parts is recorded: both the batch and the
       * recording get its beginning and its end; the log gets the header, the
       * end, and the bytes of each wake-up. Each event may wake the worker. A
       * write to the conversation's index may be followed by a trim.
       */
      const events = merged.dialect.final('done').length;
      assert.ok(parseInt(one.after, 10)
        <= parseInt(one.before, 10) + 3 + named,
        `${one.before}, then ${one.after}`);
      assert.ok(parseInt(two.after, 10)
        <= parseInt(two.before, 10) + 6 + events + named,
        `${two.before}, then ${two.after}`);
      /* At most one per wake-up, and each event may wake the worker. */
      assert.ok(parseInt(stream, 10) <= whole.from.length + named,
        `the stream: ${stream}`);
    });
  }
});
