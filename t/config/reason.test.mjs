/*
 * reason.test.mjs: each verdict and reason of shared/policy/chat_reason.h.
 *
 * A case provokes one row of the table. Its requests carry the row as Host,
 * which is in both logs: the access log must have the verdict and the reason,
 * the error log the line at info. At the end the counters of chat_status agree
 * with the access log. A row without a case fails the test.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import net from 'node:net';
import { test } from 'node:test';
import { gate, get, nginx, post, root, unbuilt, until }
  from '../lib/harness.mjs';
import { Batch, scene as newScene, seals } from '../lib/batch.mjs';
import { dialects, newCalls } from '../lib/dialects.mjs';
import { held, live, only } from '../lib/hold.mjs';
import { handled } from '../lib/handled.mjs';
import { json, provider, sse } from '../lib/provider.mjs';
import { redis } from '../lib/redis/redis.mjs';
import { above0, ask, samples, statusLocation, statusOf }
  from '../lib/status.mjs';

const { stderr } = spawnSync(process.env.CHAT_NGINX ?? 'nginx', ['-V'],
  { encoding: 'utf8' });
const debug = stderr?.includes('--with-debug');

/* verdict and reason of each row */
const rows = [...readFileSync(`${root}/shared/policy/chat_reason.h`, 'utf8')
  .matchAll(/^    row\((\w+), \w+, "(\w+)"\)/gm)]
  .map(([, verdict, word]) => `${verdict.toLowerCase()} ${word}`);

/* Rows that no client can provoke. */
const unprovoked = { 'none error': 'needs a failed allocation or read' };

/* Requests that the module does not read, so that nothing counts them. */
const uncounted = ['off', 'not_post', 'not_json', 'not_reached'];

/* The settings: a dialect and the lines of its location. */
const settings = {
  chat: ['openai_chat', ''],
  quiet: ['openai_chat', 'chat_record off;'],
  recorded: ['openai_chat', 'chat_record on;'],
  ai: ['ai_sdk', ''],
  aiquiet: ['ai_sdk', 'chat_record off;'],
  airecorded: ['ai_sdk', 'chat_record on;'],
  anthropic: ['anthropic', 'chat_record off;'],
  chained: ['openai_responses_chained', ''],
  talk: ['openai_responses_conversation', ''],
  stateless: ['openai_responses', ''],
  off: ['openai_chat', 'chat off;'],
  answered: ['openai_chat', 'return 204;'],
  anonymous: ['openai_chat', 'chat_tenant "";'],
  nameless: ['openai_chat', 'chat_conversation "";'],
  small: ['openai_chat', 'chat_limits body=4k;'],
  few: ['openai_chat', 'chat_limits calls=2;'],
  providers: ['openai_chat', 'chat_tool . provider;'],
  one: ['openai_chat', 'chat_limits held=1;'],
  greedy: ['openai_chat', 'chat_limits held=4;'],
  fat: ['openai_chat', 'chat_limits held_bytes=100k;'],
  greedyfat: ['openai_chat', 'chat_limits held_bytes=400k;'],
  impatient: ['openai_chat', 'chat_hold 0;'],
  early: ['openai_chat', 'chat_hold 60s grace=10ms;'],
  dry: ['openai_chat', 'chat_dry_run on;'],
};

const keys = [...new Set(Object.values(settings).map(([key]) => key))];

/*
 * An nginx with a location for each setting, and the scenes to play there.
 * The cases of one nginx run at a time, each with its own host.
 */
async function theatre(t, options = {}) {
  const providers = Object.fromEntries(await Promise.all(keys.map(
    async (key) => [key, await provider(t, key, { strict: false })])));
  const n = await nginx(t, { workers: 2, ...options, upstream: 9,
    http: `${options.http ?? ''} log_format why
      '$http_host $chat_verdict $chat_reason';`,
    server: `${statusLocation} access_log why.log why;
      chat_tenant $http_authorization; chat_conversation $http_x_batch;
      location = /results { chat_results; }
      location ~ ^/resume/(.*)$ { chat_record on; chat_resume $1; }
      ${Object.entries(settings).map(([name, [key, lines]]) => `
      location /${name}/ {
        ${/\bchat off/.test(lines) ? '' : 'chat auto;'}
        ${/chat_hold/.test(lines) ? '' : 'chat_hold 60s grace=60s;'}
        proxy_http_version 1.1; proxy_set_header Connection "";
        proxy_buffering off; ${lines}
        proxy_pass http://127.0.0.1:${providers[key].port};
      }`).join('\n')}` });
  const scenes = Object.fromEntries(keys.map((key) =>
    [key, newScene(key, providers[key], n)]));
  const lines = () => readFileSync(`${n.dir}/why.log`, 'utf8').split('\n')
    .slice(0, -1).map((line) => line.split(' '));
  return { n, scenes, lines };
}

/* A batch; its requests go to a setting, with a host. */
class Case {
  constructor({ n, scenes, lines }, row) {
    Object.assign(this, { n, scenes, lines, row,
      host: row.replace(' ', '.') });
  }

  /* calls: their number, or the calls. */
  batch(setting, calls = 2) {
    const scene = this.scenes[settings[setting][0]];
    const dialect = { ...scene.dialect,
      path: `/${setting}${scene.dialect.path}`,
      headers: { ...scene.dialect.headers, host: this.host } };
    const batch = new Batch({ ...scene, dialect }, calls);
    batch.scene = scene;
    /* the header x-batch names the conversation */
    batch.conversation = batch.key;
    batch.says = (results = {}) => batch.post(batch.body(results,
      dialect.says('something else')));
    return batch;
  }

  /* A body that asks for something else. */
  unlike(batch, results) {
    return { ...batch.body(results), temperature: 1 };
  }

  /* A complete request that is upstream, and a sibling that waits for it. */
  async siblings(batch, positions, answer) {
    await batch.ask();
    const go = this.slow(batch, answer);
    const first = batch.continue(batch.results());
    await this.up(batch);
    const second = batch.continue(batch.results(positions));
    await held(batch, second, 1);
    return { go, first, second };
  }

  /* The same in two workers. */
  async apart(batch, answer) {
    const [one, two] = this.n.workers();
    await batch.ask();
    const go = this.slow(batch, answer);
    const first = { pid: one, only: (work) => only(this.n, one, work) };
    const second = {};
    await first.only(async () => {
      first.answer = batch.continue(batch.results());
      await this.up(batch);
    });
    await only(this.n, two, async () => {
      second.answer = batch.continue(batch.results([0]));
      await second.answer.sent;
      await until(() => this.n.errorLog().includes(
        `${two}#${two}: *`) && this.waits(1));
    });
    return { go, first, second };
  }

  /* This many requests of the case wait, by the error log. */
  waits(count) {
    return this.n.errorLog().split('\n').filter((line) =>
      line.includes('chat: held: ') && line.includes(`"${this.host}"`))
      .length === count;
  }

  /* External results, and what becomes of the conversation. */
  give(batch, at) {
    return end(post(this.n.port, '/results', { conversation: batch.key,
      toolCallId: batch.ids[at], output: 1 }, { host: this.host }));
  }

  clear(batch) {
    return end(get(this.n.port, `/results?conversation=${batch.key}`,
      { host: this.host, authorization: 'Bearer tester' },
      { method: 'DELETE' }));
  }

  resume(batch, method = 'GET') {
    return end(get(this.n.port, `/resume/${batch.key}`, { host: this.host,
      authorization: 'Bearer tester' }, { method }));
  }

  post(setting, body, headers, options) {
    const { path } = dialects[settings[setting][0]];
    return post(this.n.port, `/${setting}${path}`, body,
      { host: this.host, ...headers }, options);
  }

  /* An answer of the batch's upstream that begins with the gate. */
  slow(batch, answer) {
    const go = gate();
    const { answer: usual } = batch.p;
    batch.p.answer = (request) => (request.headers['x-batch'] === batch.key
      && request.answered.length ? go.then(() => answer?.(request)
        ?? sse(batch.dialect.final(`done ${batch.key}`))) : usual(request));
    return go;
  }

  /* The turn with the calls, which ends when the gate opens. */
  async open(batch) {
    const seal = gate();
    const at = batch.from.findIndex((event) => seals.test(event));
    const whole = batch.from;
    batch.from = Object.assign([...whole.slice(0, at), seal,
      ...whole.slice(at)], { id: whole.id, calls: whole.calls });
    const turn = batch.post(batch.dialect.fresh(
      { conversation: batch.conversation }));
    await turn.until((text) => text.includes(batch.ids.at(-1)));
    await handled(batch, []);
    return { seal, turn };
  }

  /* The request is with its upstream. */
  up(batch, count = 1) {
    return until(() => batch.upstream().length === count, 5000, 'upstream');
  }
}

const big = (size) => 'x'.repeat(size);
const end = (answer) => answer.text({ broken: true });
const ends = (...answers) => Promise.all(answers.map(end));

/* A held request; it ends by its client's leaving unless a test says else. */
async function hold(batch, results, options) {
  const answer = batch.continue(results, options);
  await held(batch, answer, batch.upstream().length);
  return answer;
}

const cases = {
  /* none */
  'none off': (c) => end(c.post('off', { model: 'm', messages: [] })),
  'none not_post': (c) => end(get(c.n.port, '/answered/',
    { host: c.host })),
  'none not_json': (c) => end(c.post('answered', 'x',
    { 'content-type': 'text/plain' })),
  'none not_reached': (c) => end(c.post('answered', {})),
  'none endpoint': (c) => end(get(c.n.port, '/resume/unknown',
    { host: c.host, authorization: 'Bearer tester' })),
  'none disconnected': async (c) => {
    const socket = net.connect(c.n.port, '127.0.0.1');
    socket.write(`POST /chat/v1/chat/completions HTTP/1.1\r\nhost: ${c.host}`
      + '\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{');
    await handled({ n: c.n, nodes: [c.n] }, []);
    socket.destroy();
  },
  'none malformed': (c) => end(c.post('chat', '{"messages": [')),
  'none not_chat': (c) => end(post(c.n.port, '/chat/other',
    dialects.openai_chat.fresh(), { host: c.host })),

  'passed new_message': (c) => c.batch('chat').ask(),
  'passed repaired': async (c) => {
    const batch = c.batch('chat');
    await batch.ask();
    (await hold(batch, batch.results([0]))).abort();
    await end(batch.says(batch.results([1])));
  },
  'passed complete': async (c) => {
    const batch = c.batch('chat');
    await batch.ask();
    await end(batch.continue(batch.results()));
  },
  'passed merged': async (c) => {
    const batch = c.batch('chat');
    await batch.ask();
    (await hold(batch, batch.results([0]))).abort();
    await end(batch.continue(batch.results([1])));
    batch.released();
  },
  'passed not_sibling': async (c) => {
    const batch = c.batch('chat');
    await batch.ask();
    const go = c.slow(batch);
    const first = batch.continue(batch.results());
    await c.up(batch);
    const other = batch.post(c.unlike(batch, batch.results()));
    await c.up(batch, 2);
    go.open();
    await ends(first, other);
  },
  'passed superseded': async (c) => {
    const batch = c.batch('chat');
    await batch.ask();
    await end(batch.says());
    await end(batch.continue(batch.results()));
  },
  'passed cleared': async (c) => {
    const batch = c.batch('chat');
    await batch.ask();
    await c.clear(batch);
    await end(batch.continue(batch.results()));
  },
  'passed repeated': async (c) => {
    const batch = c.batch('chat');
    await batch.ask();
    await end(batch.continue(batch.results()));
    await end(batch.continue(batch.results()));
    batch.released(2);
  },
  'passed no_results': async (c) => {
    const batch = c.batch('ai');
    await batch.ask();
    await end(batch.continue({}));
  },
  'passed no_client_calls': async (c) => {
    const batch = c.batch('providers');
    await batch.ask();
    await end(batch.continue(batch.results([0])));
  },
  'passed regenerate': async (c) => {
    const batch = c.batch('ai');
    await batch.ask();
    const body = batch.body({});
    await end(batch.post({ ...body, messages: body.messages.slice(0, -1),
      trigger: 'regenerate-message' }));
  },
  'passed items': async (c) => {
    const batch = c.batch('talk');
    await batch.ask();
    await end(post(c.n.port,
      `/talk/v1/conversations/${batch.conversation}/items`,
      { items: [{ type: 'function_call_output', call_id: batch.ids[0],
        output: 'x' }] }, { host: c.host, 'x-batch': batch.key }));
  },

  'held incomplete': async (c) => {
    const batch = c.batch('chat');
    await batch.ask();
    (await hold(batch, batch.results([0]))).abort();
  },
  'held unsealed': async (c) => {
    const batch = c.batch('chat');
    const { seal, turn } = await c.open(batch);
    (await hold(batch, batch.results())).abort();
    seal.open();
    await end(turn);
  },
  'held other_request': async (c) => {
    const batch = c.batch('chat');
    await batch.ask();
    const go = c.slow(batch);
    const first = batch.continue(batch.results());
    await c.up(batch);
    const other = batch.post(c.unlike(batch, batch.results([0])));
    await held(batch, other, 1);
    other.abort();
    go.open();
    await end(first);
  },
  'held sibling': async (c) => {
    const { go, first, second } = await c.siblings(c.batch('ai'));
    second.abort();
    go.open();
    await end(first);
  },

  'released complete': async (c) => {
    const batch = c.batch('chat');
    const { seal, turn } = await c.open(batch);
    const waiting = await hold(batch, batch.results());
    seal.open();
    await ends(turn, waiting);
  },
  'released merged': async (c) => {
    const batch = c.batch('chat');
    await batch.ask();
    const waiting = await hold(batch, batch.results([0]));
    await c.give(batch, 1);
    await end(waiting);
    batch.released();
  },
  'released not_sibling': async (c) => {
    const batch = c.batch('chat');
    const { seal, turn } = await c.open(batch);
    const waiting = [await hold(batch, batch.results()),
      batch.post(c.unlike(batch, batch.results()))];
    await held(batch, waiting[1]);
    seal.open();
    await ends(turn, ...waiting);
  },
  'released superseded': async (c) => {
    const batch = c.batch('ai');
    const { go, first, second } = await c.siblings(batch);
    await end(batch.says());
    await c.up(batch, 2);
    go.open();
    await ends(first, second);
  },
  'released cleared': async (c) => {
    const batch = c.batch('chat');
    const { seal, turn } = await c.open(batch);
    const waiting = await hold(batch, batch.results());
    await c.clear(batch);
    await end(waiting);
    seal.open();
    await end(turn);
  },

  'attached sibling': async (c) => {
    const { go, first, second } = await c.siblings(c.batch('ai'));
    go.open();
    await ends(first, second);
  },
  'attached late': async (c) => {
    const batch = c.batch('airecorded');
    await batch.ask();
    await end(batch.continue(batch.results()));
    await end(batch.continue(batch.results()));
    batch.released();
  },
  'attached resumed': async (c) => {
    const batch = c.batch('airecorded');
    await batch.ask();
    await c.resume(batch);
  },

  'empty sibling': async (c) => {
    const { go, first, second } = await c.siblings(c.batch('aiquiet'));
    go.open();
    await ends(first, second);
  },
  'empty late': async (c) => {
    const batch = c.batch('aiquiet');
    await batch.ask();
    await end(batch.continue(batch.results()));
    await end(batch.continue(batch.results()));
    batch.released();
  },
  'empty superseded': async (c) => {
    const batch = c.batch('ai');
    await batch.ask();
    await end(batch.says());
    await end(batch.continue(batch.results([0])));
  },
  'empty cleared': async (c) => {
    const batch = c.batch('ai');
    await batch.ask();
    await c.clear(batch);
    await end(batch.continue(batch.results([0])));
  },

  'conflict late': async (c) => {
    const batch = c.batch('quiet');
    await batch.ask();
    const [begin, ...rest] = batch.dialect.final('done');
    const go = gate();
    c.slow(batch, () => sse([begin, go, ...rest])).open();
    const first = batch.continue(batch.results());
    await first.until((text) => text.length > 10);
    await end(batch.continue(batch.results([0])));
    go.open();
    await end(first);
  },
  'conflict no_empty_turn': async (c) => {
    const { go, first, second } = await c.siblings(c.batch('anthropic'), [0]);
    go.open();
    await ends(first, second);
  },
  'conflict aborted': async (c) => {
    const { first, second, go } = await c.siblings(c.batch('quiet'), [0]);
    first.abort();
    await end(second);
    go.open();
  },
  'conflict upstream_error': async (c) => {
    const { first, second, go } = await c.siblings(c.batch('chat'), [0],
      () => json(500, {}));
    go.open();
    await ends(first, second);
  },
  'conflict no_stream': async (c) => {
    const { first, second, go } = await c.siblings(c.batch('early'), [0],
      () => json(200, {}));
    await second.until((text) => text.includes('chat-hold'));
    go.open();
    await ends(first, second);
  },

  'bounced incomplete': async (c) => {
    const batch = c.batch('impatient');
    await batch.ask();
    await end(batch.continue(batch.results([0])));
  },
  'bounced unlisted': async (c) => {
    const batch = c.batch('chat');
    const { seal, turn } = await c.open(batch);
    const waiting = batch.post(batch.dialect.continuation({
      conversation: batch.conversation, results: batch.results([0]),
      from: { id: batch.from.id, calls: batch.calls.slice(0, 1) } }));
    await held(batch, waiting);
    seal.open();
    await ends(turn, waiting);
  },
  /* The output of a computer call must be an object. */
  'bounced unmerged': async (c) => {
    const batch = c.batch('stateless');
    const [click, other] = batch.ids;
    const waiting = batch.post({ ...batch.dialect.fresh(), input: [
      { role: 'user', content: 'Hello' },
      { type: 'computer_call', call_id: click, action: { type: 'click' } },
      { type: 'function_call', call_id: other, name: 'f', arguments: '{}' },
      { type: 'function_call_output', call_id: other, output: 'x' }] });
    await held(batch, waiting);
    await c.give(batch, 0);
    await end(waiting);
    assert.equal(batch.upstream().length, 0);
  },
  'bounced aborted': async (c) => {
    const { first, second, go } = await c.siblings(c.batch('aiquiet'));
    first.abort();
    await end(second);
    go.open();
  },

  'superseded new_message': async (c) => {
    const batch = c.batch('chat');
    await batch.ask();
    const waiting = await hold(batch, batch.results([0]));
    await end(batch.says());
    await end(waiting);
  },
  'superseded cleared': async (c) => {
    const batch = c.batch('chat');
    await batch.ask();
    const waiting = await hold(batch, batch.results([0]));
    await c.clear(batch);
    await end(waiting);
  },

  'unmanaged no_tenant': async (c) => {
    const batch = c.batch('anonymous');
    await batch.ask();
    await end(batch.continue(batch.results()));
  },
  'unmanaged weak_ids': async (c) => {
    const batch = c.batch('nameless', [{ id: 'call_0', name: 'f',
      input: {} }]);
    await end(batch.continue(batch.results()));
  },
  'unmanaged encoded_body': (c) => end(c.post('chat', 'x',
    { 'content-encoding': 'gzip' })),
  'unmanaged signed_body': (c) => end(c.post('chat',
    dialects.openai_chat.fresh(), { 'content-digest': 'sha-256=:AAAA:' })),
  'unmanaged unknown_batch': async (c) => {
    const batch = c.batch('chained');
    await end(batch.continue(batch.results([0])));
  },
  'unmanaged other_step': async (c) => {
    const batch = c.batch('talk', 1);
    await batch.ask();
    const { from } = batch;
    batch.from = batch.dialect.calls({ calls: newCalls(1) });
    await batch.ask();
    batch.from = from;
    await end(batch.continue(batch.results()));
  },

  'refused body_limit': (c) => end(c.post('small',
    dialects.openai_chat.fresh({ words: big(5000) }))),
  'refused values_limit': (c) => end(c.post('chat',
    { messages: [], x: JSON.parse('['.repeat(129) + ']'.repeat(129)) })),
  'refused calls_limit': async (c) => {
    const batch = c.batch('few', 3);
    await end(batch.continue(batch.results()));
  },
  'refused conversation_limit': (c) => end(c.post('chat',
    dialects.openai_chat.fresh(), { 'x-batch': big(1025) })),
  'refused loop': async (c) => {
    const batch = c.batch('ai');
    await batch.ask();
    c.slow(batch, () => json(500, {})).open();
    for (let i = 0; i < 11; i++) {
      await end(batch.continue(batch.results()));
    }
    assert.equal(batch.upstream().length, 10);
  },
  'refused stopped': async (c) => {
    const batch = c.batch('recorded');
    await end(batch.post(batch.dialect.fresh()));
    const go = c.slow(batch);
    const first = batch.continue(batch.results());
    await c.up(batch);
    await c.resume(batch, 'DELETE');
    assert.equal(await first.status, 409);
    go.open();
  },
};

/* These need a quiet nginx; those that end a worker are the last ones. */
const quiet = {
  'refused held_limit': async (c) => {
    const [one, two] = [c.batch('one'), c.batch('one')];
    const waiting = await hold(one, one.results([0]));
    await end(two.continue(two.results([0])));
    waiting.abort();
  },
  'refused held_bytes_limit': async (c) => {
    const batch = c.batch('fat');
    await end(batch.continue({ [batch.ids[0]]: big(100000) }));
  },
  'refused held_batch_limit': async (c) => {
    const batch = c.batch('few');
    const waiting = [];
    for (let i = 0; i < 4; i++) {
      waiting.push(await hold(batch, batch.results([0])));
    }
    await end(batch.continue(batch.results([0])));
    waiting.forEach((one) => one.abort());
  },
  'bounced held_limit': (c) => displaced(c, 'greedy', 10, 4),
  'bounced held_bytes_limit': (c) => displaced(c, 'greedyfat', 40000, 7),
  'bounced exiting': async (c) => {
    const batch = c.batch('chat');
    const waiting = await hold(batch, batch.results([0]));
    await c.n.reload();
    await end(waiting);
  },
};

/* A tenant holds n requests; another one takes the place of the oldest. */
async function displaced(c, setting, size, n) {
  const tenant = (name) => ({ headers: { authorization: name } });
  const waiting = [];
  for (let i = 0; i < n; i++) {
    const batch = c.batch(setting);
    waiting.push(await hold(batch, { [batch.ids[0]]: big(size) },
      tenant('greedy')));
  }
  const batch = c.batch(setting);
  waiting.push(await hold(batch, { [batch.ids[0]]: big(size) },
    tenant('modest')));
  assert.equal(await waiting[0].status, 409);
  waiting.forEach((one) => one.abort());
}

/* These stop or kill a worker. */
const workers = {
  /* The answer begins and breaks off while the sibling's worker stands. */
  'conflict interrupted': async (c) => {
    const batch = c.batch('quiet');
    const { first, second, go } = await c.apart(batch, (request) =>
      sse([batch.dialect.final('x')[0]], { end: 'reset' }));
    await first.only(async () => {
      go.open();
      await end(first.answer);
    });
    await end(second.answer);
  },
  'conflict producer_lost': async (c) => {
    const batch = c.batch('quiet');
    const { first, second } = await c.apart(batch);
    await c.n.kill(first.pid);
    await end(second.answer);
  },
};

/* A store that is full: other batches have filled the zone. */
const full = {
  'bounced store_full': async (c) => {
    /* a tenant's held requests make room for those of another one */
    const greedy = [];
    for (let i = 0; i < 300 && !greedy.some(({ ended }) => ended); i++) {
      const batch = c.batch('ai');
      greedy.push(batch.continue({ [batch.ids[0]]: big(12000) },
        { headers: { authorization: 'greedy' } }));
      await greedy.at(-1).sent;
      await until(async () => greedy.at(-1).ended
        || (await statusOf(c.n)).holds.now === i + 1);
    }
    for (let i = 0; i < 5; i++) {
      const batch = c.batch('ai');
      greedy.push(batch.continue({ [batch.ids[0]]: big(12000) }));
      await greedy.at(-1).sent;
    }
    await until(() => greedy.filter(({ ended }) => ended).length > 1);
  },
  'refused store_full': async (c) => {
    /* a few more may find room in what the last row has freed */
    for (let i = 0; i < 300; i++) {
      const { now } = (await statusOf(c.n)).holds;
      const batch = c.batch('chat');
      const answer = batch.continue({ [batch.ids[0]]: big(12000) },
        { headers: { authorization: 'greedy' } });
      await until(async () => answer.ended
        || (await statusOf(c.n)).holds.now > now);
      if (answer.ended) {
        assert.equal(await answer.status, 503);
        return;
      }
    }
    assert.fail('the store is never full');
  },
  'bypass store_full': async (c) => {
    /* running attempts leave no idle data that could make room */
    const running = [];
    while (running.length < 1000
      && !c.n.errorLog().includes('chat: bypass: store_full')) {
      const batch = c.batch('chat');
      running.push({ batch, go: c.slow(batch),
        answer: batch.continue(batch.results(),
          { headers: { authorization: 'greedy' } }) });
      await c.up(batch);
    }
    for (const { batch, go, answer } of running) {
      go.open();
      await end(answer);
      batch.released();
    }
  },
};

/* A Redis that does not answer any more. */
const away = {
  'bounced store_unavailable': async (c) => {
    const batch = c.batch('ai');
    await batch.ask();
    const waiting = await hold(batch, batch.results([0]));
    await c.n.store.stop('SIGKILL');
    await end(waiting);
  },
  'refused store_unavailable': async (c) => {
    const batch = c.batch('chat');
    assert.equal(await batch.continue(batch.results([0])).status, 503);
  },
  'bypass store_unavailable': async (c) => {
    const batch = c.batch('chat');
    await end(batch.continue(batch.results()));
    batch.released();
  },
};

/* One row: plays its case, and reads the access log and the error log. */
async function play(theatre_, row, work) {
  const c = new Case(theatre_, row);
  const [verdict, word] = row.split(' ');
  const mine = () => c.lines().filter(([host]) => host === c.host);
  try {
    await work(c);
    await until(() => mine().some(([, a, b]) => a === verdict && b === word),
      2000, row);
  } catch ({ message }) {
    throw new Error(`${message}; logged: ${JSON.stringify(mine())}`);
  }
  if (!['none', 'passed'].includes(verdict)) {
    assert.match(c.n.errorLog(), new RegExp(`\\[info\\].* chat: ${verdict}: `
      + `${word}, dialect .*host: "${c.host}"`));
  }
}

/* The counters of chat_status are those of the access log. */
async function counted({ n, lines }) {
  const skipped = (word) => uncounted.includes(word) || word === 'endpoint';
  const logged = () => {
    const sums = new Map();
    lines().filter(([, , word]) => !skipped(word)).forEach(([, ...row]) =>
      sums.set(row.join(' '), (sums.get(row.join(' ')) ?? 0) + 1));
    return [...sums].sort();
  };
  const series = ([name, value]) => {
    const match = /reasons_total\{verdict="(\w+)",reason="(\w+)"\}/.exec(name);
    return match && value && !skipped(match[2])
      ? [[`${match[1]} ${match[2]}`, value]] : [];
  };
  let seen;
  await until(async () => {
    const { counters } = await statusOf(n);
    const metrics = samples((await ask(n, '?format=prometheus')).text);
    seen = [above0(counters.reasons).filter(([name]) =>
      !skipped(name.split('.')[1])).map(([name, value]) =>
      [name.replace('.', ' '), value]).sort(),
    [...metrics].flatMap(series).sort(), logged()];
    return seen.every((one) =>
      JSON.stringify(one) === JSON.stringify(seen[2]));
  }, 3000, 'counters').catch(() => {
    assert.deepEqual(seen[0], seen[2]);
    assert.deepEqual(seen[1], seen[2]);
  });
}

/* Plays the cases one after the other. */
async function inTurn(t, it, list) {
  for (const [row, work] of Object.entries(list)) {
    await t.test(row, () => play(it, row, work));
  }
  await t.test('the counters agree', () => counted(it));
}

live('each reason that a request can have', async (t) => {
  const it = await theatre(t);
  await Promise.all(Object.entries(cases).map(([row, work]) =>
    t.test(row, () => play(it, row, work))));
  await t.test('the counters agree', () => counted(it));
  /* A killed worker counts its requests no more. */
  for (const [row, work] of Object.entries(workers)) {
    await t.test(row, () => play(it, row, work));
  }
});

live('reasons of limits, and of a worker that exits', async (t) => {
  await inTurn(t, await theatre(t, { workers: 1,
    main: 'worker_shutdown_timeout 2s;' }), quiet);
});

live('reasons of a full store', async (t) => {
  await inTurn(t, await theatre(t, { store: 'shm:1m' }), full);
});

live('reasons of a store that is unavailable', async (t) => {
  const store = await redis(t);
  const it = await theatre(t, { connects: true, workers: 1,
    store: store.url() });
  it.n.store = store;
  await inTurn(t, it, away);
});

test('each row of the table is provoked', () => {
  const played = Object.keys({ ...cases, ...quiet, ...workers, ...full,
    ...away, ...unprovoked });
  assert.deepEqual(played.sort(), rows.sort());
});

live('given chat_dry_run, the log and the metrics mark its requests',
  async (t) => {
    const it = await theatre(t);
    const c = new Case(it, 'dry run');
    const batch = c.batch('dry');
    await batch.ask();
    await end(batch.continue(batch.results([0])));
    await until(() => c.lines().length === 2);
    assert.deepEqual(c.lines().at(-1), ['dry.run', 'held', 'incomplete']);
    assert.match(c.n.errorLog(),
      /\[info\].* chat: held: incomplete, dialect openai_chat.*, dry run,/);
    assert.equal((await statusOf(c.n)).counters.dry_runs, 2);
    const { text } = await ask(c.n, '?format=prometheus');
    assert.equal(samples(text).get('nginx_chat_dry_runs_total'), 2);
    const [event] = (await statusOf(c.n)).events;
    assert.deepEqual([event.what, event.reason, event.detail],
      ['held', 'incomplete', 'dry run']);
  });

/* A line for each step of a request, in the debug log. */
const steps = [
  'chat store join: facts', 'chat store reply: rc 0', 'chat verdict: wait',
  'chat store watch: facts', 'chat hold: incomplete, ends in',
  'chat wake-up: rc 0, requests 1', 'chat verdict: claim',
  'chat claim: attempt 1', 'chat store join: facts 1',
  'chat store reply: rc 0',
  'chat verdict: go, merged, attempt 1',
  'chat goes upstream: merged, attempt 1'];

test('given the level debug, the log has each step of a held request',
  { skip: unbuilt || (!debug && 'NGINX without --with-debug') }, async (t) => {
    const it = await theatre(t, { workers: 1, level: 'debug' });
    await play(it, 'released merged', cases['released merged']);
    let at = 0;
    for (const step of steps) {
      const next = it.n.errorLog().indexOf(step, at);
      assert.ok(next >= 0, step);
      at = next;
    }
  });
