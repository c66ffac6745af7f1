/*
 * config.test.mjs: the messages of nginx -t: an invalid value is an error that
 * names the directive, a setting that conflicts with chat is a warning.
 *
 * nginx -t does not check the settings of proxy_pass: docs/operations.md lists
 * those that conflict with chat.
 *
 * Suite: asan.
 */
import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { nginx, nginxTest, post, unbuilt } from '../lib/harness.mjs';
import { dialects, names, newCalls } from '../lib/dialects.mjs';
import { provider, sse } from '../lib/provider.mjs';
import { newFolder } from '../lib/wait.mjs';

const live = (name, play) => test(name, { skip: unbuilt }, play);

/* nginx -t of this line in location /. */
const tried = (location, more) => nginxTest({ location, ...more });

async function refused(line, words, more) {
  const { ok, output } = await tried(line, more);
  assert.ok(!ok, `accepted: ${line}`);
  assert.match(output, words, line);
  const [name] = line.trim().split(' ');
  assert.ok(output.includes(`"${name}"`), `${line}: ${output}`);
  assert.equal(output.match(/\[emerg\]/g)?.length, 1, output);
}

const emerg = (value) => new RegExp(`\\[emerg\\].*invalid.*(${value})?.* in `);

/*
 * A wrong value in chat_limits, and its refusal. Of an unknown parameter
 * only the name is printed.
 */
const limit = (word, shape) => [`chat_limits ${word}`, new RegExp(shape
  ? `invalid value "${word}" in "chat_limits", it must be ${
    word.split('=')[0]}=${shape} above 0 in .*:\\d+`
  : `unknown parameter "${word.split('=')[0]}" in "chat_limits" in .*:\\d+`)];

const good = [
  'chat_conversation $http_x_conversation', 'chat_conversation ""',
  'chat_tenant "$remote_user:$arg_key"', 'chat_tenant $arg_a scope=$host',
  'chat_tenant $arg_a scope=', 'chat_replay_filter off',
  'chat_replay_filter on', 'chat_hold off',
  'chat_hold auto', 'chat_hold 0', 'chat_hold 90s', 'chat_hold 1h30m',
  'chat_hold auto grace=0', 'chat_hold 0 heartbeat=1s grace=500ms',
  'chat_repair off', 'chat_repair settled', 'chat_repair all',
  'chat_record off',
  'chat_record auto max=64k', 'chat_record on ttl=1s max=1024m',
  'chat_stall off', 'chat_stall 90s',
  'chat_tool ^a client',
  'chat_tool "(?i)x(?=y)" provider', 'chat_limits body=1k',
  'chat_limits event=64k calls=1 result=10m held=100000 held_bytes=1m',
  'chat_dry_run on', 'chat_dry_run off'];

const bad = [
  ['chat_replay_filter id', /"id" .*"on" or "off"/],
  ['chat_tenant a b', /unknown parameter "b" in "chat_tenant"/],
  ['chat_hold forever', /"forever" .*one of: off, auto, TIME/],
  ['chat_hold -1', emerg('-1')],
  ['chat_hold 1x', emerg('1x')],
  ['chat_hold grace=3s', /"grace=3s" .*one of: off, auto, TIME/],
  ['chat_hold auto grace=soon', /"grace=soon" .*be grace=TIME/],
  ['chat_hold auto grace=-3s', /"grace=-3s" .*be grace=TIME/],
  ['chat_hold auto heartbeat=', /"heartbeat=" .*heartbeat=TIME above 0/],
  ['chat_hold 5s heartbeat=0', /"heartbeat=0" .*heartbeat=TIME above 0/],
  ['chat_hold 5s colour=red', /unknown parameter "colour" in "chat_hold"/],
  ['chat_hold 5s grace=1s grace=2s', /"grace=2s" .*given only once/],
  ['chat_record never', /"never" .*one of: off, auto, on/],
  ['chat_record on max=63k', /"max=63k" .*max=SIZE of at least 64k/],
  ['chat_record on ttl=0', /"ttl=0" .*ttl=TIME of at least 1s/],
  ['chat_record on ttl=1s ttl=1s', /"ttl=1s" .*given only once/],
  ['chat_repair on', /"on" .*off, settled, all/],
  ['chat_stall 0', /"0" .*one of: off, TIME above 0/],
  ['chat_stall auto', /one of: off, TIME/],
  ['chat_tool ^a both', /"both" .*client or provider/],
  ['chat_tool "(unclosed" client', /pcre2?_compile|unclosed/],
  ['chat_tool ^a', /number of arguments/],
  ['chat_tool ^a client provider', /number of arguments/],
  ...['body', 'event', 'result', 'held_bytes'].flatMap((name) =>
    ['0', 'many', '-1', '', '99999999999999999999'].map((value) =>
      limit(`${name}=${value}`, 'SIZE'))),
  ...['calls', 'held'].flatMap((name) =>
    ['0', 'few', '-1', '', '1k'].map((value) =>
      limit(`${name}=${value}`, 'N'))),
  ...['8m', 'body', 'bodies=1m', 'Body=1m'].map((word) => limit(word)),
  ['chat_limits calls=2 held=2 calls=2', /"calls=2" .*given only once/],
  ['chat_dry_run yes', /"on" or "off"/]];

live('every documented value is accepted', async () => {
  for (const line of good) {
    const { ok, output } = await tried(`${line};`);
    assert.ok(ok, output);
    assert.ok(!output.includes('[warn]'), output);
  }
});

live('wrong values', async (t) => {
  for (const [line, words] of bad) {
    await t.test(line, async () => {
      const { ok, output } = await tried(`${line};`);
      const [name] = line.split(' ');
      assert.ok(!ok, 'accepted');
      assert.match(output, /\[emerg\]/);
      assert.ok(output.includes(`"${name}"`), output);
      if (words.source.startsWith('\\[emerg')) {
        assert.match(output, /invalid/);
      } else {
        assert.match(output, words);
      }
    });
  }
});

/* The directives with more than one argument, and their largest number. */
const most = { chat_tenant: 2, chat_tool: 2, chat_hold: 3, chat_record: 3 };

live('no argument, more arguments than the directive takes', async () => {
  for (const name of new Set(good.map((line) => line.split(' ')[0]))) {
    await refused(`${name} ;`, /number of arguments/);
    if (name !== 'chat_limits') {
      await refused(`${name}${' a'.repeat((most[name] ?? 1) + 1)};`,
        /number of arguments/);
    }
  }
});

live('duplicates', async () => {
  for (const line of good.filter((one) => !one.startsWith('chat_tool'))) {
    await refused(`${line}; ${line};`, /duplicate|given only once/);
  }
  await refused('chat auto;', /duplicate/);
  const { ok } = await tried('chat_tool a client; chat_tool b provider;');
  assert.ok(ok, 'chat_tool may be repeated');
});

live('given two endpoints in one location, nginx -t names both', async () => {
  const endpoints = ['chat_results', 'chat_resume $arg_a', 'chat_status'];
  const name = (line) => line.split(' ')[0];
  for (const first of endpoints) {
    for (const second of endpoints) {
      const { ok, output } = await nginxTest({ server: `chat_tenant $arg_u;
        location /x { ${first}; ${second}; }
        location /y { ${first}; }` });
      assert.equal(ok, false, `${first} ${second}`);
      assert.ok(output.includes(first === second
        ? `"${name(first)}" directive is duplicate`
        : `"${name(first)}" and "${name(second)}" in location "/x": each `
          + 'requires a location of its own'), output);
    }
  }
});

live('the dialect', async () => {
  for (const chat of ['off', 'auto', '$arg_chat', 'a${arg_b}', ...names]) {
    const { ok, output } = await nginxTest({ chat });
    assert.ok(ok, output);
  }
  for (const chat of ['on', 'openai', 'AI_SDK', '""', 'auto2', 'a b', '$none',
    'x'.repeat(300)]) {
    const { ok, output } = await nginxTest({ chat });
    assert.ok(!ok, chat);
    assert.match(output, chat === 'a b' ? /number of arguments in "chat"/
      : chat === '$none' ? /unknown "none" variable/
        : /value ".*" in "chat", it must be off, auto, a .* gemini in .*:\d+/);
  }
});

live('the store', async () => {
  for (const store of ['shm', 'shm:1m', 'shm:1024k', 'shm:64m', 'shm ttl=1s',
    'shm:2m ttl=30d']) {
    const { ok, output } = await nginxTest({ store });
    assert.ok(ok, output);
  }
  for (const store of ['shm:', 'shm:0', 'shm:1023k', 'shm:64', 'shm:many',
    'shm:-1m', 'shm:99999999999999g', 'memory', '""', 'SHM']) {
    const { ok, output } = await nginxTest({ store });
    assert.ok(!ok, store);
    assert.match(output, /"chat_store"/);
  }
  const wrong = { 'ttl=': /"ttl=" .*ttl=TIME above 0/,
    'ttl=0': /"ttl=0" .*ttl=TIME above 0/,
    'ttl=never': /"ttl=never" .*ttl=TIME above 0/,
    'ttl=1s ttl=1s': /"ttl=1s" .*given only once/,
    'ttl=1s size=2m': /unknown parameter "size" in "chat_store"/ };
  for (const [words, why] of Object.entries(wrong)) {
    const { ok, output } = await nginxTest({ store: `shm:1m ${words}` });
    assert.ok(!ok, words);
    assert.match(output, why);
    assert.match(output, /in "chat_store".*:\d+/);
  }
  const twice = await nginxTest({ store: 'shm:1m',
    http: 'chat_store shm:2m;' });
  assert.match(twice.output, /"chat_store" directive is duplicate/);
});

live('the store in Redis', async () => {
  for (const store of ['redis://127.0.0.1', 'redis://user:secret@[::1]:6380/1',
    'rediss://:secret@localhost verify=off ttl=2h timeout=1s',
    'unix:/run/redis.sock timeout=50ms', 'redis://u%40x:secr%3aet@localhost/0',
    'redis+sentinel://127.0.0.1/main',
    'redis+cluster://:secret@127.0.0.1,[::1]:7000',
    'redis://:secret@127.0.0.1 user=name',
    'rediss+cluster://127.0.0.1/0 verify=off',
    'rediss+sentinel://[::1]/main/2 verify=off',
    'redis+sentinel://u:secr,et@[::1]:5000,127.0.0.1,localhost:5/a-b.c_1/3',
  ]) {
    const { ok, output } = await nginxTest({ store });
    assert.ok(ok, output);
    assert.ok(!output.includes('secr'), output);
  }
  const wrong = {
    'redis://': /host/, 'redis://127.0.0.1:99999': /port/,
    'redis://user:secret@127.0.0.1/many': /database|db/,
    'redis://user:secret@127.0.0.1 timeout=0': /timeout/,
    'redis://user:secret@127.0.0.1 timeout=soon': /timeout/,
    'redis://user:secret@127.0.0.1 ttl=0 db=1': /"ttl=0" .*ttl=TIME above 0/,
    'redis://127.0.0.1 verify=on': /verify/,
    'redis://127.0.0.1 ca=/etc/ssl/none.pem': /ca/,
    'rediss://127.0.0.1 ca=/nowhere/none.pem': /none\.pem/,
    'redis://:secret@127.0.0.1 password_file=/etc/hostname': /password/,
    'redis://127.0.0.1 password_file=/nowhere/none': /none/,
    'redis://user:secret@host.invalid': /host\.invalid|not found/,
    'redis://127.0.0.1 password=secret':
      /unknown parameter "password" in "chat_store"/,
    'redis://127.0.0.1 verify=yes':
      /"yes" in "chat_store" directive, it must be "on" or "off"/,
    'unix:': /unix|path/i, 'shm:1m timeout=1s': /unknown parameter "timeout"/,
    'redis+other://:secret@127.0.0.1/x': /invalid store .*redis:\/\/\.\.\./,
    'redis://:secret@127.0.0.1,127.0.0.2': /host|port/,
    'redis+sentinel://:secret@127.0.0.1': /master behind the sentinels/,
    'redis+sentinel://:secret@127.0.0.1/': /master behind the sentinels/,
    'redis+sentinel://:secret@127.0.0.1/a+b': /master behind the sentinels/,
    'redis+sentinel://:secret@127.0.0.1//1': /master behind the sentinels/,
    'redis+sentinel://:secret@127.0.0.1/main/x': /database/,
    'redis+sentinel://:secret@127.0.0.1/main/1 db=1': /"db=1" .*only once/,
    'redis://:secret@127.0.0.1 db=1000001': /number up to 1000000/,
    'redis+sentinel://:secret@127.0.0.1,/main': /host/,
    'redis+sentinel://:secret@,127.0.0.1/main': /host/,
    'redis+sentinel://:secret@127.0.0.1:0,::1/main': /port/,
    'redis+sentinel://:secret@127.0.0.1,[::1/main': /host/,
    'redis+sentinel://:se/cret@127.0.0.1/main': /percent-encoded/,
    'redis+sentinel://a.invalid,b.invalid/main': /emerg.*not found/,
    'redis+sentinel://127.0.0.1/main sentinel_user=secret': /user without a p/,
    'redis+sentinel://127.0.0.1/main sentinel_password_file=/nowhere/none':
      /none/,
    'redis://127.0.0.1 sentinel_password_file=/etc/hostname':
      /requires redis\+sentinel/,
    'redis+cluster://:secret@127.0.0.1,:secret@127.0.0.2':
      /percent-encoded, and only before the first host/,
    'redis+cluster://:secret@a.invalid,b.invalid': /emerg.*"b\.invalid:6379"/,
    'redis+cluster://:secret@127.0.0.1,127.0.0.2:7000/1': /database/,
    'redis+cluster://:secret@127.0.0.1,': /host/,
  };
  for (const [store, why] of Object.entries(wrong)) {
    const { ok, output } = await nginxTest({ store });
    assert.ok(!ok, store);
    assert.match(output, /"chat_store"/, store);
    assert.match(output, why, store);
    assert.ok(!output.includes('secret'), output);
  }
});

live('the wrong context', async () => {
  for (const place of ['server', 'location']) {
    const { ok, output } = await nginxTest({
      [place]: 'chat_store shm:1m;' });
    assert.ok(!ok);
    assert.match(output, /"chat_store" directive is not allowed here/);
  }
  for (const line of [...good, 'chat auto']) {
    const main = await nginxTest({ main: `${line};` });
    const name = line.split(' ')[0];
    assert.ok(main.output.includes(`"${name}" directive is not allowed`),
      main.output);
  }
  const inner = await tried('if ($arg_x) { chat off; }');
  assert.match(inner.output, /"chat" directive is not allowed here/);
  for (const place of ['http', 'server']) {
    const { ok, output } = await nginxTest({
      [place]: good.filter((line, i) => good.findIndex((other) =>
        other.split(' ')[0] === line.split(' ')[0]) === i)
        .map((line) => `${line};`).join('\n') });
    assert.ok(ok, output);
  }
});

live('a location inherits settings, or overrides them', async (t) => {
  const p = await provider(t, 'openai_chat', { strict: false,
    answer: () => sse(dialects.openai_chat.final('done x')) });
  const say = 'add_header X-Verdict $chat_verdict always;';
  const pass = 'proxy_pass http://provider; proxy_http_version 1.1;';
  const n = await nginx(t, { upstream: p.port,
    http: 'chat openai_chat; chat_limits calls=2; chat_hold off;',
    server: `${say} chat_tool ^web provider;`,
    locations: `location / { ${pass} }
      location /five/ { chat_limits calls=5; ${pass} }
      location /body/ { chat_limits body=1m; chat_tool ^no client; ${pass} }
      location /zero/ { chat_hold 0; chat_limits calls=5; ${pass} }
      location /tool/ { chat_tool ^nothing client; chat_hold 0;
        chat_limits calls=5; ${pass} }
      location /off/ { chat off; ${pass} }` });
  const calls = ['a', 'b', 'web'].map((name, i) => ({ name, input: {},
    id: `call_abcdefghijklmnop${i}` }));
  const from = dialects.openai_chat.calls({ calls });
  const verdict = async (path, results) => {
    const answer = post(n.port, path, dialects.openai_chat.continuation({
      from, results }));
    await answer.text();
    return (await answer.head).headers['x-verdict'];
  };
  const [a, b] = calls.map(({ id }) => id);
  assert.equal(await verdict('/', { [a]: 1 }), 'held', 'observed');
  assert.equal(await verdict('/zero/', { [a]: 1 }), 'bounced');
  assert.equal(await verdict('/five/', { [a]: 1, [b]: 1 }), 'passed');
  assert.equal(await verdict('/tool/', { [a]: 1, [b]: 1 }), 'bounced',
    'the third is a client tool here');
  assert.equal(await verdict('/body/', { [a]: 1 }), 'refused',
    'it inherits calls=2');
  assert.equal(await verdict('/off/', { [a]: 1 }), 'none');
});

/* Sends a continuation with one of two results: bounced if chat is on. */
async function partial(t, options) {
  const { openai_chat: chat } = dialects;
  const p = await provider(t, 'openai_chat', { strict: false,
    answer: () => sse(chat.final('done x')) });
  const n = await nginx(t, { upstream: p.port, ...options,
    server: 'add_header X-Verdict $chat_verdict always; chat_hold 0;' });
  const send = async (headers) => {
    const calls = newCalls(2);
    const body = chat.continuation({ from: chat.calls({ calls }),
      results: { [calls[0].id]: 1 } });
    const answer = post(n.port, chat.path, body, { 'x-chat-a': '1',
      ...headers });
    await answer.text();
    const verdict = (await answer.head).headers['x-verdict'];
    /* Only the module blanks this header. */
    assert.ok(verdict !== 'none' || p.requests.at(-1).headers['x-chat-a']);
    return verdict;
  };
  return Object.assign(send, { log: () => n.errorLog() });
}

live('chat by a map: off, a dialect, auto, an empty or unknown value',
  async (t) => {
    const send = await partial(t, { chat: '$mode', http: `map $http_x_mode
      $mode { on openai_chat; other anthropic; default $http_x_mode; }` });
    for (const [mode, verdict] of [['on', 'bounced'], ['off', 'none'],
      ['auto', 'bounced'], ['other', 'passed'], ['', 'none'],
      ['openai_chat', 'bounced'], [`x\t${'y'.repeat(40)}`, 'none'],
      ['Auto', 'none'], ['on', 'bounced']]) {
      assert.equal(await send({ 'x-mode': mode }), verdict, mode);
    }
    const told = () => [...send.log().matchAll(
      /\[error\].* unknown dialect "(.*?)" in "chat", it counts as off/g)]
      .map(([, value]) => value);
    assert.deepEqual(told(), [`x?${'y'.repeat(30)}`]);
  });

live('chat by split_clients: a user is always on or always off',
  async (t) => {
    const send = await partial(t, { chat: '$rollout', http: `split_clients
      $http_x_user $rollout { 50% auto; * off; }` });
    const seen = new Set();
    for (let user = 0; user < 20; user++) {
      const verdict = await send({ 'x-user': `u${user}` });
      assert.equal(await send({ 'x-user': `u${user}` }), verdict);
      seen.add(verdict);
    }
    assert.deepEqual([...seen].sort(), ['bounced', 'none']);
  });

/*
 * In these configurations NGINX has read more when the message about a
 * directive is written. '#!' marks the directive's line.
 */
const placed = {
  'chat_results without chat_tenant': [{ tenant: false, server: `
    location = /r {
      chat_results; #!
      deny all;
    }` }, /emerg.*"chat_results" in .* "\/r" requires "chat_tenant": set it/],
  'chat_resume without chat_tenant': [{ tenant: false, server: `
    location = /r { chat_resume $arg_a; #!
    }` }, /emerg.*"chat_resume" in .* "\/r" requires "chat_tenant": set it/],
  'chat_resume without chat_record on': [{ server: `
    location = /r {
      chat_resume $arg_a; #!
    }
    location = /other { return 204; }` },
  /warn.*"chat_resume" finds no recordings: set "chat_record on"/],
  'a small buffer, chat in the location': [{ server: `location /a {
      chat auto; #!
      client_body_buffer_size 8k;
      proxy_pass http://provider;
    }` }, /warn.*"chat" in location "\/a": .* 1m is recommended/],
  'a small buffer, chat inherited': [{ chat: false, server: `chat auto; #!
    client_body_buffer_size 8k;` }, /warn.*"chat" in location "\/"/],
  'no host of Redis is found': [{ store: 'redis://none.invalid; #!' },
    /emerg.*host not found .*"none\.invalid:6379".* add a "resolver"/],
};

live('a message about a directive names its line', async (t) => {
  for (const [name, [options, words]] of Object.entries(placed)) {
    await t.test(name, async () => {
      const { output, conf } = await nginxTest(options);
      const line = conf.split('\n').findIndex((one) => one.includes('#!'));
      const message = output.split('\n').find((one) => words.test(one));
      assert.ok(message?.endsWith(`/nginx.conf:${line + 1}`), output);
    });
  }
  await t.test('in a file that is included', async () => {
    const dir = newFolder();
    writeFileSync(`${dir}/r.conf`, '\n\nchat_results;');
    const { output } = await nginxTest({ tenant: false,
      server: `location = /r { include ${dir}/*.conf; }` });
    rmSync(dir, { recursive: true });
    assert.match(output, /requires "chat_tenant".* in \S+\/r\.conf:3\n/);
  });
});

live('the certificates of chat_store are refused in one sentence',
  async () => {
    const dir = newFolder();
    writeFileSync(`${dir}/text.pem`, 'none');
    const ca = async (file) => (await nginxTest({
      store: `rediss://127.0.0.1 ca=${file}` })).output;
    const [none, text] = [await ca(`${dir}/none.pem`),
      await ca(`${dir}/text.pem`)];
    rmSync(dir, { recursive: true });
    assert.match(none, new RegExp(`cannot open "${dir}/none.pem", the "ca" of `
      + '"chat_store" \\(2: No such file or directory\\)'));
    assert.match(text, /invalid "ca" .*it must be a file of PEM certificates/);
    assert.doesNotMatch(none + text, /SSL/);
  });

live('warnings of nginx -t', async () => {
  const warnings = async (options) => {
    const { ok, output } = await nginxTest(options);
    assert.ok(ok, output);
    return output.split('\n').filter((line) => line.includes('[warn]'));
  };
  assert.deepEqual(await warnings({}), []);

  const location = 'client_body_buffer_size 16k;';
  const [line, more] = await warnings({ location });
  assert.match(line, /"chat" in location "\/".*"client_body_buffer_size"/);
  assert.equal(more, undefined);
  assert.deepEqual(await warnings({ location, chat: 'off' }), []);
  assert.deepEqual(await warnings({ location, chat: false }), []);
});

live('chat_store alone, and no chat at all', async () => {
  const { ok, output } = await nginxTest({ chat: false });
  assert.ok(ok, output);
});
