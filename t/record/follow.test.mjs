/*
 * follow.test.mjs: siblings get the stream of the request that went upstream.
 *
 * Each client that brings a part of the results gets the whole answer, byte
 * for byte, during the stream and after it. An interrupted answer is never
 * sent as a complete one. A sibling that disconnects affects no other one.
 *
 * Suite: asan, redis, long.
 */
import assert from 'node:assert/strict';
import { deadAfter, gate, patience, pause, until } from '../lib/harness.mjs';
import { handled } from '../lib/handled.mjs';
import { Batch, outputs, stage, told } from '../lib/batch.mjs';
import { dialects } from '../lib/dialects.mjs';
import { isRaw } from '../lib/ends.mjs';
import { held, live, only, pidOf, say, several, verdict }
  from '../lib/hold.mjs';
import { nodesStage } from '../lib/nodes.mjs';
import { json, sse } from '../lib/provider.mjs';
import { recordOf } from '../lib/recording.mjs';
import { redis } from '../lib/redis/redis.mjs';
import { above0, statusLocation, statusOf } from '../lib/status.mjs';

const keys = Object.keys(dialects);

/* A batch with a request per result; the last one goes upstream. */
async function siblings(scene, count, options = {}) {
  const batch = new Batch(scene, count);
  await batch.ask(options);
  const answers = [];
  for (const i of batch.ids.keys()) {
    const place = options.place ?? ((_, work) => work());
    await place(i, async () => {
      const answer = batch.continue(batch.results([i]), options);
      answers.push(answer);
      await (i < count - 1 ? held(batch, answer) : answer.sent);
      await (options.place && handled(batch, [answer], 50));
    });
  }
  return { batch, answers };
}

/* The answer of a stage to continuations: these parts around a gate. */
function gated(scene) {
  const usual = scene.p.answer;
  const it = { first: gate(), rest: gate(), requests: [] };
  scene.p.answer = (request, number) => {
    if (!request.answered.length) {
      return usual(request, number);
    }
    it.requests.push(request);
    const parts = scene.dialect.final(
      `done ${request.headers['x-batch']}`);
    const at = parts.findIndex((part) => part.includes('done '));
    return sse([it.first, ...parts.slice(0, at), it.rest,
      ...parts.slice(at)]);
  };
  return it;
}

/* Held siblings, and a stream that has begun for all of them. */
async function running(scene, count, options) {
  const script = gated(scene);
  const { batch, answers } = await siblings(scene, count, options);
  await until(() => script.requests.length, 5000, 'a release');
  script.first.open();
  await Promise.all(answers.map((answer) =>
    answer.until((text) => streamOf(text).length > 20)));
  const verdicts = await Promise.all(answers.map(verdict));
  const followers = answers.filter((_, i) => verdicts[i] === 'attached');
  assert.equal(followers.length, count - 1, `${verdicts}`);
  return { script, batch, answers, followers,
    claimant: answers.find((one) => !followers.includes(one)) };
}

/* The client can tell that the answer is incomplete. */
function interrupted(key, { text, word, broke }) {
  assert.equal(word, 'error', text);
  assert.equal(!!broke, isRaw(key), text);
  assert.match(text, /interrupted/);
  assert.doesNotMatch(text, /\[DONE\]|message_stop|response\.completed/);
}

/* The injected results of an answer, and the events after them. */
const streamOf = (text) => text.split('\n\n')
  .filter((frame) => !/^: /.test(frame)
    && !/"(tool-output-|TOOL_CALL_RESULT)/.test(frame))
  .join('\n\n');

for (const key of keys) {
  live(`s37: ${key}: each sibling gets the stream`, async (t) => {
    const scene = await stage(t, key, { workers: 3,
      location: `${say.verdict} add_header X-Of $chat_batch;` });
    for (const http2 of [false, true]) {
      await t.test(http2 ? 'HTTP/2' : 'HTTP/1.1', async () => {
        const script = gated(scene);
        const { batch, answers } = await siblings(scene, 4, { http2 });
        await until(() => script.requests.length, 5000, 'a release');
        script.first.open();
        for (const answer of answers) {
          /* during the stream */
          await answer.until((text) => streamOf(text).length > 20);
          assert.equal(answer.ended, false);
        }
        script.rest.open();
        const ends = await Promise.all(answers.map(told));
        assert.deepEqual(ends.map(({ word }) => word),
          Array(4).fill('final'), ends.map(({ text }) => text).join('|'));
        for (const { text } of ends) {
          assert.equal(streamOf(text), streamOf(ends[0].text));
        }
        const heads = await Promise.all(answers.map(({ head }) => head));
        for (const { status, headers } of heads) {
          assert.equal(status, 200);
          for (const name of ['content-type', 'cache-control', 'x-of',
            ...Object.keys(scene.dialect.sse ?? {})]) {
            assert.equal(headers[name], heads[0].headers[name], name);
          }
        }
        const verdicts = heads.map(({ headers }) => headers['x-verdict']);
        assert.match(verdicts.sort().join(' '),
          /^attached attached attached (passed|released)$/);
        batch.released();
        await until(() => scene.n.accessLog().filter((line) =>
          line.verdict === 'attached' && line.turn_status === 'finished')
          .length === (http2 ? 6 : 3), 5000, 'the log');
      });
    }
  }, several);
}

live('s37: ai_sdk: a follower gets the results its transcript lacks',
  async (t) => {
    const scene = await stage(t, 'ai_sdk', { workers: 2 });
    const usual = scene.p.answer;
    const batch = new Batch(scene, 3);
    await batch.ask();
    scene.p.answer = (request) => (request.answered.length
      ? sse(scene.dialect.final('done x',
        request.body.messages.at(-1).id)) : usual(request));
    /* One client has another id for the message. */
    const own = 'its-own';
    const answers = [batch.post(JSON.parse(JSON.stringify(
      batch.body(batch.results([0]))).replaceAll(batch.from.id, own))),
    batch.continue(batch.results([1]))];
    for (const answer of answers) {
      await held(batch, answer);
    }
    answers.push(batch.continue(batch.results([2])));
    const ends = await Promise.all(answers.map(told));
    for (const [i, end] of ends.entries()) {
      assert.equal(end.word, 'final');
      assert.deepEqual(outputs(end), batch.ids.filter((_, k) => k !== i));
      assert.equal(end.types.indexOf('start'), 2, 'the results precede start');
      assert.equal(end.list[2].messageId, i === 0 ? own : batch.from.id);
      assert.equal(streamOf(end.text).replace(own, batch.from.id),
        streamOf(ends[1].text));
    }
    batch.released();
  });

for (const key of ['openai_chat', 'openai_responses', 'anthropic']) {
  live(`s97: ${key}: siblings without a stream get the JSON`, async (t) => {
    const scene = await stage(t, key, { workers: 2, location: say.verdict });
    const usual = scene.p.answer;
    const body = { id: 'one', words: 'done '.repeat(9000) };
    scene.p.answer = (request) => (request.answered.length
      ? json(200, body) : usual(request));
    const batch = new Batch(scene, 3);
    await batch.ask();
    const answers = [];
    for (const i of batch.ids.keys()) {
      answers.push(batch.continue(batch.results([i]),
        { more: { stream: false } }));
      await (i < 2 ? held(batch, answers.at(-1)) : answers.at(-1).sent);
    }
    for (const answer of answers) {
      assert.deepEqual(JSON.parse(await answer.text()), body);
      assert.match((await answer.head).headers['content-type'],
        /^application\/json/);
    }
    batch.released();
  });
}

for (const key of ['ai_sdk', 'openai_chat', 'anthropic', 'ag_ui']) {
  live(`s54: ${key}: a late sibling gets the recording from its start`,
    async (t) => {
      const scene = await stage(t, key, { workers: 3,
        location: say.verdict });
      const { script, batch, followers } = await running(scene, 2);
      const late = batch.continue(batch.results([0]));
      await late.until((text) => streamOf(text).length > 20);
      assert.equal(await verdict(late), 'attached');
      script.rest.open();
      const [first, second] = await Promise.all(
        [followers[0], late].map(told));
      assert.equal(streamOf(second.text), streamOf(first.text));
      const after = await told(batch.continue(batch.results([1])));
      assert.equal(streamOf(after.text), streamOf(first.text));
      batch.released();
    });

  live(`s54: ${key}: no recording: a late sibling does not follow`,
    async (t) => {
      const scene = await stage(t, key, { workers: 3,
        location: say.verdict });
      const script = gated(scene);
      const batch = new Batch(scene, 2);
      await batch.ask();
      const first = batch.continue(batch.results());
      script.first.open();
      await first.until((text) => text.length > 20);
      const late = batch.continue(batch.results(),
        { headers: { 'x-stainless-retry-count': '1' } });
      if (dialects[key].apps) {
        assert.equal((await told(late)).word, 'empty');
      }
      script.rest.open();
      await told(first);
      if (!dialects[key].apps) {
        assert.equal((await told(late)).word, 'final');
        assert.equal(await verdict(late), 'passed');
      }
      batch.released(dialects[key].apps ? 1 : 2);
    });
}

live("s89: the producer's worker is killed", async (t) => {
  const times = [];
  await Promise.all(['ai_sdk', 'openai_chat', 'anthropic', 'openai_responses',
    'ag_ui'].map((key) => t.test(key, async (t2) => {
    const scene = await stage(t2, key, { workers: 2, server: statusLocation,
      location: `${say.verdict} ${say.pid}` });
    const workers = scene.n.workers();
    /* Three requests in each of the two workers. */
    const { script, answers, claimant } = await running(scene, 6, {
      place: (i, work) => only(scene.n, workers[i % 2], work) });
    const pid = await pidOf(claimant);
    const pids = await Promise.all(answers.map(pidOf));
    const others = answers.filter((_, i) => pids[i] !== pid);
    assert.equal(others.length, 3, `${pids}`);
    const ends = others.map(told);
    const began = Date.now();
    await scene.n.kill(pid);
    for (const end of await Promise.all(ends)) {
      interrupted(key, end);
    }
    times.push(Date.now() - began);
    const { interruptions } = (await statusOf(scene.n)).counters;
    assert.deepEqual(above0(interruptions), [['producer_lost', 3]]);
    script.rest.open();
  })));
  /* A busy machine may be late. */
  assert.ok(Math.min(...times) < deadAfter + 5000, `${times}`);
  assert.ok(Math.max(...times) < deadAfter + 5000 * patience, `${times}`);
}, several);

live('s63 s113: an answer breaks off: so do the siblings\'', async (t) => {
  for (const key of keys) {
    const scene = await stage(t, key, { workers: 3, location: say.verdict });
    const usual = scene.p.answer;
    const go = gate();
    scene.p.answer = (request) => (request.answered.length
      ? sse([...scene.dialect.final('words').slice(0, 2), go],
        { end: 'reset' }) : usual(request));
    const { batch, answers } = await siblings(scene, 3);
    await Promise.all(answers.map((answer) =>
      answer.until((text) => streamOf(text).length > 20)));
    go.open();
    const ends = await Promise.all(answers.map(told));
    for (const end of ends) {
      interrupted(key, end);
      assert.equal(streamOf(end.text), streamOf(ends[0].text));
    }
    await until(() => scene.n.accessLog().filter((line) =>
      line.turn_status === 'interrupted').length === 3, 5000, 'the log');
    batch.released();
  }
});

live('s65: followers and the claimant disconnect', async (t) => {
  const scene = await stage(t, 'openai_chat', { workers: 3,
    location: say.verdict });
  await t.test('a follower disconnects', async () => {
    const { script, followers, claimant } = await running(scene, 4);
    followers[0].abort();
    script.rest.open();
    const ends = await Promise.all([claimant, ...followers.slice(1)]
      .map(told));
    assert.ok(ends.every(({ word }) => word === 'final'));
  });
  await t.test('the claimant disconnects', async () => {
    const { script, followers, claimant, batch } = await running(scene, 4);
    claimant.abort();
    await handled(batch);
    script.rest.open();
    const ends = await Promise.all(followers.map(told));
    assert.ok(ends.every(({ word }) => word === 'final'));
    batch.released();
  });
  await t.test('all disconnect, the claimant first', async () => {
    const { script, followers, claimant } = await running(scene, 3);
    claimant.abort();
    followers.forEach((one) => one.abort());
    await script.requests[0].closed;
    assert.equal(script.requests[0].left, true);
  });
  await t.test('the claimant disconnects before the first byte', async () => {
    const script = gated(scene);
    const { batch, answers } = await siblings(scene, 3);
    await until(() => script.requests.length);
    /* One of three claims: the other two follow, which the claimant knows. */
    await handled(batch);
    answers.at(-1).abort();
    script.first.open();
    script.rest.open();
    const ends = await Promise.all(answers.slice(0, 2).map(told));
    assert.ok(ends.every(({ word }) => word === 'final'),
      ends.map(({ text }) => text).join('|'));
    batch.released();
  });
  await t.test('a follower disconnects before the first byte', async () => {
    const script = gated(scene);
    const { answers } = await siblings(scene, 3);
    await until(() => script.requests.length);
    answers[0].abort();
    script.first.open();
    script.rest.open();
    const ends = await Promise.all(answers.slice(1).map(told));
    assert.ok(ends.some(({ word }) => word === 'final'));
  });
});

live('chat_record off: the empty turn', async (t) => {
  const scene = await stage(t, 'ai_sdk', { workers: 2,
    location: `chat_record off; ${say.verdict}` });
  const { batch, answers } = await siblings(scene, 3);
  const words = (await Promise.all(answers.map(told)))
    .map(({ word }) => word);
  assert.deepEqual(words.sort(), ['empty', 'empty', 'final']);
  batch.released();
});

live('s61: a reload in the middle of a stream', async (t) => {
  const scene = await stage(t, 'openai_chat', { workers: 2,
    location: say.verdict });
  const { script, answers } = await running(scene, 4);
  const old = scene.n.workers();
  await scene.n.reload();
  script.rest.open();
  const ends = await Promise.all(answers.map(told));
  assert.ok(ends.every(({ word }) => word === 'final'));
  await until(() => !scene.n.workers().some((pid) => old.includes(pid)), 5000,
    'the exit of the old workers, which are idle');
});

live('s37: two nodes', async (t) => {
  const scene = await nodesStage(t, 'ai_sdk', { location: say.verdict });
  for (let i = 0; i < 3; i++) {
    const { script, answers } = await running(scene, 6);
    script.rest.open();
    const ends = await Promise.all(answers.map(told));
    for (const { word, text } of ends) {
      assert.equal(word, 'final');
      assert.equal(streamOf(text), streamOf(ends[0].text));
    }
  }
});

live('followers at a limited rate', async (t) => {
  const scene = await stage(t, 'openai_chat', { workers: 1, location:
    `${say.verdict} limit_rate 64k;` });
  const usual = scene.p.answer;
  const [first, ...rest] = scene.dialect.final('done x');
  const comment = `: ${'x'.repeat(3000)}\n\n`;
  scene.p.answer = (request) => (request.answered.length
    ? sse([first, ...Array(40).fill([comment, () => pause(10)]).flat(),
      ...rest]) : usual(request));
  for (const http2 of [false, true]) {
    const { answers } = await siblings(scene, 4, { http2 });
    const ends = await Promise.race([pause(10000 * patience),
      Promise.all(answers.map(told))]);
    assert.ok(ends, `${answers.map(({ bytes }) => bytes.length)}`);
    assert.ok(ends.every(({ word }) => word === 'final'));
  }
});

for (const key of ['ai_sdk', 'openai_chat', 'anthropic', 'ag_ui']) {
  live(`s97: ${key}: not recordable: held siblings do not follow`,
    async (t) => {
      const scene = await stage(t, key, { workers: 2,
        location: say.verdict });
      const usual = scene.p.answer;
      const rest = gate();
      scene.p.answer = (request) => (request.answered.length
        ? sse([...scene.dialect.final('done x'), rest],
          { headers: { 'content-encoding': 'br' } }) : usual(request));
      const { batch, answers } = await siblings(scene, 3);
      const ends = [];
      answers.forEach((answer) => told(answer).then((end) => ends.push(end)));
      /* During the stream: as configured for answers without a recording. */
      await until(() => ends.length === 2, 3000, 'the siblings\' answers');
      rest.open();
      await until(() => ends.length === 3, 5000, 'the answer');
      const other = key === 'anthropic' ? '409' : 'empty';
      assert.deepEqual(ends.map(({ word }) => word),
        [other, other, 'final']);
      batch.released();
    });
}

/* A stage on a Redis of its own, which the test may disturb. */
async function troubled(t, key) {
  const server = await redis(t);
  const scene = await stage(t, key, { workers: 2, connects: true,
    store: `${server.url()} timeout=${300 * patience}ms`,
    location: say.verdict });
  return { server, scene };
}

for (const key of ['ai_sdk', 'openai_chat']) {
  live(`s89: ${key}: the store fails in the middle of a stream`,
    async (t) => {
      const { server, scene } = await troubled(t, key);
      const { script, followers, claimant } = await running(scene, 3);
      await server.stop('SIGKILL');
      const ends = await Promise.all(followers.map(told));
      ends.forEach((end) => interrupted(key, end));
      script.rest.open();
      assert.equal((await told(claimant)).word, 'final');
    });
}

live('s89: the store loses the facts of a follower: it puts them again',
  async (t) => {
    const { server, scene } = await troubled(t, 'openai_chat');
    const [first, ...others] = scene.dialect.final('done x');
    const usual = scene.p.answer;
    let over = false;
    scene.p.answer = (request, number) => (request.answered.length
      ? sse([first, ...Array(60).fill(': beat\n\n').flatMap((beat) =>
        [() => over || pause(250), beat]), ...others])
      : usual(request, number));
    const { batch, answers } = await siblings(scene, 2);
    await Promise.all(answers.map((answer) =>
      answer.until((text) => text.includes(': beat'))));
    const record = await recordOf(server, batch);
    const mine = async () => Object.keys(await record.facts()).filter(
      (field) => /^(wait|feed)\//.test(field));
    const lost = await mine();
    assert.ok(lost.some((field) => field.startsWith('feed/')), `${lost}`);
    await server.command('HDEL', record.key, ...lost);
    /* Entries that come all the time are no reason not to. */
    await until(async () => (await mine()).length === lost.length, 12_000);
    over = true;
    for (const answer of answers) {
      assert.equal((await told(answer)).word, 'final');
    }
  });

live('s89: malformed entries in the recording', (t) => Promise.all(
  ['ai_sdk', 'openai_chat'].map((key) => t.test(key, async (t2) => {
    const { server, scene } = await troubled(t2, key);
    const frame = 'data: {"type":"text-delta"}\n\n';
    for (const [id, ...fields] of [['900-0', 'b', frame],
      ['18446744073709551615-0', 'b', frame],
      ['7-0', 'x', 'y'], ['7-5', 'b', frame], ['7-0', 'l', '', 'b', '1']]) {
      const { script, followers } = await running(scene, 3);
      const logs = await server.command('KEYS', 'chat:*:l');
      assert.ok(logs.length);
      for (const log of logs) {
        await server.command('XADD', log, id, ...fields).catch(() => {});
      }
      script.rest.open();
      for (const end of await Promise.all(followers.map(told))) {
        if (end.word !== 'final') {
          assert.match(end.text, /interrupted|\n\n$/, `${id} ${fields}`);
        }
        assert.doesNotMatch(end.text, /text-delta"}/);
      }
    }
  }))), several);
