/*
 * examples.test.mjs: each file of examples/ starts with no change but its
 * ports and paths, and does what its opening comment says.
 *
 * Suite: asan.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import {
  existsSync, readFileSync, readdirSync, writeFileSync,
} from 'node:fs';
import net from 'node:net';
import tls from 'node:tls';
import { Batch, scene, told } from '../lib/batch.mjs';
import { certificates } from '../lib/certificates.mjs';
import { dialects, newId } from '../lib/dialects.mjs';
import { resolver } from '../lib/dns.mjs';
import { answered, asking } from '../lib/external.mjs';
import {
  get, nginx, pasted, post, root, until,
} from '../lib/harness.mjs';
import { handled } from '../lib/handled.mjs';
import { held, live, wordOf } from '../lib/hold.mjs';
import { provider, sse } from '../lib/provider.mjs';
import { cluster } from '../lib/redis/cluster.mjs';
import { redis } from '../lib/redis/redis.mjs';
import { sentinels } from '../lib/redis/sentinel.mjs';

const read = (path) => readFileSync(`${root}/${path}`, 'utf8');
const user = { headers: { authorization: '', cookie: 'session=s1' } };

/* Starts an example, with its logs in its folder; changes as of pasted(). */
const start = (t, name, changes, options) => nginx(t, { ...options,
  conf: (dir, [port]) => pasted(read(`examples/${name}`)
    .replaceAll('/var/log/nginx/', `${dir}/`), dir, port, changes) });

/* Starts an example in front of an app of this dialect: a scene. */
async function before(t, name, key, changes = [], options = {}) {
  const p = await provider(t, key, options);
  const to = ['127.0.0.1:3000', `127.0.0.1:${p.port}`];
  const n = await start(t, name, [to, ...changes], options);
  return scene(key, p, n);
}

/* Posts until the request is held: a page sends again after a bounce. */
async function waiting(batch, request) {
  for (let tries = 0; tries < 20; tries++) {
    const answer = request();
    await handled(batch, [answer]);
    assert.equal(batch.upstream().length, 0, 'released too early');
    if (!answer.ended) {
      return answer;
    }
    assert.equal(await wordOf(answer), batch.dialect.bounces);
  }
  assert.fail('never held');
}

/*
 * A batch of two calls, a request for each result: the first one is held, and
 * one complete request goes upstream. nodes: the nginx of each request.
 */
async function completed(it, options = user, nodes = [it.n, it.n]) {
  const batch = new Batch(it, 2);
  await batch.ask(options);
  const [first, last] = [0, 1].map((i) => () => batch.continue(
    batch.results([i]), { ...options, node: nodes[i] }));
  const waits = await waiting(batch, first);
  assert.equal(await wordOf(last()), 'final');
  /* A page's hold may have ended by a bounce. */
  const { word } = await told(waits);
  assert.ok(word === 'final' || word === batch.dialect.bounces, word);
  batch.released();
  return batch;
}

/* The lines of a log of the example. */
const lines = (n, file) => readFileSync(`${n.dir}/${file}`, 'utf8')
  .split('\n').filter(Boolean);

live('examples/README.md names each example, and no other', () => {
  const files = readdirSync(`${root}/examples`)
    .filter((file) => file !== 'README.md').sort();
  const named = [...read('examples/README.md')
    .matchAll(/^\| \[([\w.]+)\]\(\1\)/gm)].map(([, name]) => name).sort();
  assert.deepEqual(named, files);
});

live('usechat.conf', async (t) => {
  const it = await before(t, 'usechat.conf', 'ai_sdk');
  const batch = await completed(it);
  const page = get(it.n.port, '/', user.headers);
  assert.equal(await page.status, 200);
  await page.text();
  const resume = get(it.n.port, `/api/chat/${batch.conversation}/stream`,
    user.headers);
  assert.equal(await resume.status, 204, 'the answer has ended');
  const other = get(it.n.port, `/api/chat/${batch.conversation}/stream`);
  assert.equal(await other.status, 403, 'no cookie, no tenant');
});

/* The hosts of the APIs, and the header with the API key. */
const hosts = {
  openai_responses: ['api.openai.com', 'authorization'],
  openai_chat: ['api.openai.com', 'authorization'],
  anthropic: ['api.anthropic.com', 'x-api-key'],
  gemini: ['generativelanguage.googleapis.com', 'x-goog-api-key'],
};

/*
 * TLS in front of a provider. seen: the names that clients asked for (SNI).
 * Returns the changes for an example that connects to the APIs.
 */
async function secured(t, p, { stranger, seen = [] } = {}) {
  const { ca, cert, key, stranger: other } = certificates([...new Set(
    Object.values(hosts).map(([host]) => `DNS:${host}`))].join());
  const server = tls.createServer({ key: readFileSync(key),
    cert: readFileSync(cert) }, (socket) => {
    seen.push(socket.servername);
    const to = net.connect(p.port, '127.0.0.1');
    to.on('error', () => socket.destroy());
    socket.on('error', () => to.destroy());
    socket.pipe(to).pipe(socket);
  });
  server.on('tlsClientError', () => {});
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  t.after(() => new Promise((resolve) => { server.close(resolve); }));
  const dns = await resolver(t);
  return [['127.0.0.53', `127.0.0.1:${dns.port}`],
    ['https://$provider', `https://$provider:${server.address().port}`],
    ['/etc/ssl/certs/ca-certificates.crt', stranger ? other : ca]];
}

live('providers.conf', async (t) => {
  for (const [key, [host, header]] of Object.entries(hosts)) {
    await t.test(`${key}: TLS, SNI, a verified certificate`, async (t2) => {
      const seen = [];
      const p = await provider(t2, key);
      const n = await start(t2, 'providers.conf',
        await secured(t2, p, { seen }));
      const keys = { headers: { [header]: 'k-1' } };
      const batch = await completed(scene(key, p, n), keys);
      assert.deepEqual([...new Set(seen)], [host]);
      assert.equal(p.requests[0].headers.host.split(':')[0], host);
      assert.equal(batch.upstream()[0].headers[header], 'k-1');
    });
  }
  await t.test('a certificate of another CA is refused', async (t2) => {
    const p = await provider(t2, 'anthropic');
    const n = await start(t2, 'providers.conf',
      await secured(t2, p, { stranger: true }));
    const answer = post(n.port, '/v1/messages', dialects.anthropic.fresh());
    assert.equal(await answer.status, 502);
    assert.equal(p.requests.length, 0);
    assert.match(n.errorLog(), /upstream SSL certificate verify error/);
  });
});

/* What the packages print with these variables of the environment. */
const talks = {
  anthropic: ['ANTHROPIC', '', `
    const { default: Anthropic } = await import('@anthropic-ai/sdk');
    const stream = new Anthropic().messages.stream({ model: 'm',
      max_tokens: 100, messages: [{ role: 'user', content: 'hi' }] });
    console.log(await stream.finalText());`],
  openai_responses: ['OPENAI', '/v1', `
    const { default: OpenAI } = await import('openai');
    const stream = new OpenAI().responses.stream({ model: 'm', input: 'hi' });
    console.log((await stream.finalResponse()).output_text);`],
};

/* Runs a script beside the clients' packages: what it prints. */
async function spoken(script, env) {
  const child = spawn(process.execPath, ['--input-type=module', '-e', script],
    { cwd: `${root}/t/clients`, env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  child.stdout.on('data', (data) => { output += data; });
  await new Promise((resolve) => { child.on('close', resolve); });
  return output.trim();
}

live('agents.conf', async (t) => {
  for (const [key, [name, path, script]] of Object.entries(talks)) {
    await t.test(key, async (t2) => {
      const dialect = dialects[key];
      const p = await provider(t2, key, {
        answer: () => sse(dialect.final('all is well')) });
      const n = await start(t2, 'agents.conf', await secured(t2, p));
      if (existsSync(`${root}/t/clients/node_modules/openai`)) {
        assert.equal(await spoken(script, { [`${name}_API_KEY`]: 'k-1',
          [`${name}_BASE_URL`]: `http://127.0.0.1:${n.port}${path}` }),
        'all is well');
      }
      p.answer = () => sse(dialect.final('half').slice(0, -1),
        { end: 'reset' });
      const cut = await told(post(n.port, dialect.path, dialect.fresh()));
      assert.ok(cut.broke, 'the connection broke');
      assert.match(cut.text, /Upstream connection error: the stream was/);
      const line = await until(() => lines(n, 'agents.log').find((one) =>
        one.includes('interrupted')));
      assert.match(line, /\/v1\/\w+ 200 interrupted replays=0 [\d.]+s$/);
    });
  }
});

/* The line of the ACL that the documentation gives, with a password. */
const acl = /ACL SETUSER (chat on [^]*?)```/.exec(
  read('docs/operations.md'))[1].replace('PASSWORD', 'pw')
  .replace(/\s+/g, ' ').trim();

/* Each kind of store: its server, the line of redis.conf, more permissions. */
const stores = {
  redis: [redis, 'chat_store redis://', ''],
  sentinel: [sentinels, 'chat_store redis+sentinel://', ' +role'],
  cluster: [cluster, 'chat_store redis+cluster://',
    ' +cluster|slots +asking'],
};

live('redis.conf: two nodes', async (t) => {
  const conf = read('examples/redis.conf');
  for (const [name, [serve, line, more]] of Object.entries(stores)) {
    await t.test(name, async (t2) => {
      const server = await serve(t2, { acl: [`user ${acl}${more}`] });
      const file = `${(server.list ?? server.servers ?? [server])[0].dir}/pw`;
      writeFileSync(file, 'pw\n');
      const [given] = new RegExp(`${line.replaceAll('+', '\\+')
      }chat@(\\S+)`).exec(conf);
      const [url] = server.url().split(' ');
      const at = url.replace(/^.*:\/\//, '').replace(/\/\w+$/, '');
      const to = given.replace(/@[^/]+/, `@${at}`);
      const changes = [
        ...name === 'redis' ? [[given, to]]
          : [['chat_store redis://', '#chat_store redis://'],
            [`#${given}`, to]],
        ['/etc/nginx/redis.password', file]];
      const it = await before(t2, 'redis.conf', 'openai_chat', changes);
      const second = await start(t2, 'redis.conf', [...changes,
        ['127.0.0.1:3000', `127.0.0.1:${it.p.port}`]]);
      it.nodes = [it.n, second];
      await completed(it, user, it.nodes);
      const status = await get(it.n.port, '/chat-status').text();
      assert.equal(JSON.parse(status).store.state, 'up');
    });
  }
});

live('rollout.conf', async (t) => {
  const it = await before(t, 'rollout.conf', 'openai_chat', [],
    { strict: false });
  const by = (i) => ({ headers: { authorization: '',
    cookie: `session=s${i}` } });
  const count = 60;
  for (let i = 0; i < count; i++) {
    const batch = new Batch(it, 2);
    const body = JSON.stringify(batch.body(batch.results([0])));
    assert.equal(await wordOf(batch.post(body, by(i))), 'final');
    assert.equal(String(it.p.requests.at(-1).raw), body, 'observed only');
  }
  const logged = await until(() => {
    const list = lines(it.n, 'chat.log');
    return list.length && list;
  });
  assert.ok(logged.length < count / 2, `${logged.length} of ${count}`);
  assert.match(logged[0], / 200 openai_chat held \S* batch=\w+ held=/);

  const acts = await before(t, 'rollout.conf', 'openai_chat',
    [['chat_dry_run on;', '']], { strict: false });
  /* Only the module blanks this header. */
  const on = async (i) => {
    const { headers } = by(i);
    await post(acts.n.port, acts.dialect.path, acts.dialect.fresh(),
      { ...headers, 'x-chat-a': '1' }).text();
    return !acts.p.requests.at(-1).headers['x-chat-a'];
  };
  const numbers = [];
  for (let i = 0; i < count; i++) {
    numbers.push(await on(i));
  }
  assert.equal(numbers.filter(Boolean).length, logged.length);
  await completed(acts, by(numbers.indexOf(true)));
  const off = new Batch(acts, 2);
  await off.continue(off.results([0]), by(numbers.indexOf(false))).text();
  assert.equal(off.upstream().length, 1, 'not held');
});

live('approval.conf', async (t) => {
  const it = await before(t, 'approval.conf', 'openai_responses');
  const { answer } = it.p;
  it.p.answer = (request) => (request.url === '/auth'
    ? sse([], { headers: { 'x-user': 'u-7' } }) : answer(request));
  const ids = [newId('mcpr_'), newId('mcpr_')];
  const batch = new Batch(it, ids.map((id) => ({ id })));
  batch.from = asking(ids);
  const chat = { headers: { 'x-conversation-id': 'c-17' } };
  const hello = { role: 'user', content: 'hi' };
  await batch.post({ model: 'm', stream: true, input: [hello] }, chat).text();
  const waits = batch.post({ model: 'm', stream: true,
    previous_response_id: batch.from.id, input: [{ approve: true,
      type: 'mcp_approval_response', approval_request_id: ids[0] }] }, chat);
  await held(batch, waits);
  const hook = (secret, name, approved) => answered(post(it.n.port,
    '/hooks/approvals', { conversation: 'c-17', toolCallId: ids[1],
      approved }, { authorization: `Bearer ${secret}`, 'x-user': name }));
  assert.equal((await hook('guess', 'u-7', false)).status, 403);
  assert.equal((await hook('SECRET', 'u-8', false)).status, 404);
  const { status, body } = await hook('SECRET', 'u-7', true);
  assert.equal(status, 200);
  assert.deepEqual(body, { applied: 1, repeated: 0 });
  assert.equal(await wordOf(waits), 'final');
  assert.equal(batch.released().body.input.at(-1).approve, true);
});

live('opentelemetry.conf', async (t) => {
  const it = await before(t, 'opentelemetry.conf', 'anthropic');
  const [trace, span] = ['a1'.repeat(16), 'b2'.repeat(8)];
  const batch = await completed(it, { headers: { ...user.headers,
    'x-api-key': '', traceparent: `00-${trace}-${span}-01`,
    tracestate: 'v=1' } });
  const [sent] = batch.upstream();
  assert.equal(sent.headers.traceparent, `00-${trace}-${span}-01`);
  assert.equal(sent.headers.tracestate, 'v=1');
  const log = () => lines(it.n, 'otel.log').map((line) => JSON.parse(line));
  await until(() => log().length === 3);
  for (const line of log()) {
    assert.equal(line.trace_id, trace);
    assert.equal(line.span_id, span);
    assert.equal(line['gen_ai.provider.name'], 'anthropic');
    assert.equal(line['gen_ai.operation.name'], 'chat');
  }
  assert.deepEqual(log().slice(1).map((line) => line['ngx_chat.verdict'])
    .sort(), ['attached', 'passed']);

  it.p.answer = () => sse(dialects.anthropic.final('x').slice(0, -1),
    { end: 'reset' });
  await batch.post(dialects.anthropic.fresh(), { headers: { traceparent:
    'forged', ...user.headers } }).text({ broken: true });
  const line = await until(() => log()[3]);
  assert.equal(line['error.type'], 'interrupted');
  const made = it.p.requests.at(-1).headers.traceparent;
  assert.match(made, /^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
  assert.equal(made, `00-${line.trace_id}-${line.span_id}-01`);

  /* What is no chat is not in this log. */
  it.p.answer = () => sse([]);
  await get(it.n.port, '/').text();
  assert.equal(log().length, 4);
});
