/*
 * status.test.mjs: chat_status: its counters, the waiting requests that it
 * shows, and that counters survive reloads.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { gate, get, nginxTest, post, root, unbuilt, until }
  from '../lib/harness.mjs';
import { Batch, stage, told } from '../lib/batch.mjs';
import { dialects, newCalls, newId } from '../lib/dialects.mjs';
import { held, leave, live, wordOf } from '../lib/hold.mjs';
import { give, openStage, outside, taken } from '../lib/external.mjs';
import { sse } from '../lib/provider.mjs';
import {
  above0, ask, counted, logged, samples, statusLocation, statusOf, talked,
} from '../lib/status.mjs';

const keys = Object.keys(dialects);

const shown = (t, key, options) => stage(t, key, { workers: 2, hold: '20s',
  server: statusLocation, ...options });

/* Running requests are not counted: waits until all requests are logged. */
const settled = (scene, n) => until(() => scene.n.accessLog().filter(
  ({ uri }) => !uri.startsWith('/status')).length >= n, 5000, `${n} requests`);

/* Two of three results, then the last: one request goes upstream. */
async function release(scene) {
  const batch = new Batch(scene, 3);
  await batch.ask();
  const waiting = batch.continue(batch.results([0, 1]));
  await held(batch, waiting);
  const last = batch.continue(batch.results([2]));
  const words = await Promise.all([waiting, last].map(wordOf));
  assert.ok(words.includes('final'), `${words}`);
  return batch;
}

/* One of two results, after the answer to both has begun. */
async function late(scene) {
  const { answer: usual } = scene.p;
  const batch = new Batch(scene, 2);
  const rest = gate();
  await batch.ask();
  const waiting = batch.continue(batch.results([0]));
  await held(batch, waiting);
  const [first, ...others] = batch.dialect.final(`done ${batch.key}`);
  scene.p.answer = () => sse([first, rest, ...others]);
  const last = batch.continue(batch.results([1]));
  await Promise.any([waiting, last].map(({ head }) => head));
  const { word, headers } = await told(batch.continue(batch.results([0])));
  assert.equal(word, '409');
  assert.equal(headers['x-should-retry'], 'false');
  rest.open();
  const words = await Promise.all([waiting, last].map(wordOf));
  assert.deepEqual(words.sort(), ['empty', 'final']);
  scene.p.answer = usual;
}

/* A turn with a stream that breaks off. */
async function interrupt(scene) {
  const batch = new Batch(scene, 2);
  const whole = batch.from;
  batch.from = whole.slice(0, -2);
  await batch.post(batch.dialect.fresh({})).text({ broken: true });
}


live('counters agree with the access log and persist', async (t) => {
  await Promise.all(keys.map((key) => t.test(key, async (t2) => {
    const scene = await shown(t2, key);
    assert.deepEqual(counted(await statusOf(scene.n)), []);

    for (let i = 0; i < 3; i++) {
      await release(scene);
    }
    await interrupt(scene);
    const left = new Batch(scene, 2);
    await left.ask();
    await leave(left, left.results([0]));
    await settled(scene, 3 * 3 + 1 + 2);

    const status = await statusOf(scene.n);
    const { counters, histograms } = status;
    assert.deepEqual(talked(status), logged(scene.n.accessLog()));
    const name = dialects[key].name;
    assert.equal(counters.requests[name].held, 1);
    assert.equal(counters.released, counters.requests[name].released);
    assert.equal(status.events.filter(({ what }) => what === 'attached')
      .length, counters.requests[name].attached);
    assert.equal(counters.turns[name].finished, 3 * 2 + 1
      + counters.requests[name].attached);
    assert.equal(counters.turns[name].interrupted, 1);
    assert.deepEqual(above0(counters.interruptions), [['eof', 1]]);
    assert.ok(counters.results_merged >= 3, `${counters.results_merged}`);
    assert.equal(histograms.hold_seconds.count, status.events.filter(
      ({ what }) => what === 'held').length);
    assert.equal(histograms.hold_seconds.counts.length,
      histograms.hold_seconds.le.length);
    assert.ok(histograms.hold_seconds.sum > 0.3);
    assert.ok(histograms.store_seconds.count >= 3 * 4);
    assert.equal(histograms.release_seconds.count, counters.released);

    await t2.test('after a reload', async () => {
      await scene.n.reload();
      assert.deepEqual(counted(await statusOf(scene.n)), counted(status));
      await until(async () => (await statusOf(scene.n)).workers === 2);
    });
    await t2.test('after a worker was killed', async () => {
      /* The old workers have exited by then. */
      await until(() => scene.n.workers().length === 2);
      for (const pid of scene.n.workers()) {
        await scene.n.kill(pid);
      }
      assert.deepEqual(counted(await statusOf(scene.n)), counted(status));
      await until(async () => (await statusOf(scene.n)).workers === 2);
    });
    await t2.test('later requests are added', async () => {
      await release(scene);
      await settled(scene, 3 * 3 + 1 + 2 + 3);
      const now = await statusOf(scene.n);
      assert.deepEqual(talked(now), logged(scene.n.accessLog()));
    });
  })));
}, { concurrency: 2 });


live('dropped replays and injected results are counted', async (t) => {
  const scene = await shown(t, 'ai_sdk', { strict: false });
  const batch = new Batch(scene, 3);
  await batch.ask();
  const { from } = batch;
  scene.p.answer = () => sse([...from.slice(0, -2), ...batch.dialect.final(
    `done ${batch.key}`)]);
  const waiting = batch.continue(batch.results([0, 1]));
  await held(batch, waiting);
  const words = await Promise.all([waiting, batch.continue(batch.results([2]))]
    .map(told));
  assert.ok(words.some(({ word }) => word === 'final'));
  await settled(scene, 3);
  const { counters, events } = await statusOf(scene.n);
  assert.equal(counters.replays_dropped, scene.n.accessLog().reduce(
    (sum, { replays_dropped: n }) => sum + Number(n), 0));
  assert.ok(counters.replays_dropped >= 3, `${counters.replays_dropped}`);
  assert.ok(counters.results_injected >= 1, `${counters.results_injected}`);
  const what = events.map((event) => event.what);
  for (const one of ['held', 'merged', 'dropped']) {
    assert.ok(what.includes(one), `${what}`);
  }
});


live('every kind of event is counted', async (t) => {
  const scene = await shown(t, 'openai_chat', { hold: '3s', strict: false,
    location: 'chat_record off; chat_limits body=8k;' });
  const since = async () => {
    const { events, counters } = await statusOf(scene.n);
    return { counters, what: events.map(({ what }) => what),
      details: events.map(({ detail }) => detail) };
  };
  const seen = async (what, play) => {
    const before = (await since()).what.filter((one) => one === what).length;
    await play();
    await until(async () => (await since()).what
      .filter((one) => one === what).length > before, 5000, what);
  };
  const after = [{ role: 'user', content: 'Never mind' }];

  await seen('bounced', async () => {
    const batch = new Batch(scene, 3);
    assert.equal(await wordOf(batch.continue(batch.results([0]))), '409');
  });
  assert.equal((await since()).details.at(-1), '2 missing');
  await seen('superseded', async () => {
    const batch = new Batch(scene, 2);
    const waiting = batch.continue(batch.results([0]));
    await held(batch, waiting);
    await batch.continue({}, { more: { after } }).text();
    assert.equal(await wordOf(waiting), '409');
  });
  await seen('conflict', () => late(scene));
  await seen('unmanaged', async () => {
    const calls = newCalls(2).map((call, i) => ({ ...call, id: `call_${i}` }));
    const batch = new Batch(scene, calls);
    await batch.continue(batch.results([0])).text();
  });
  const { counters: { id_reuse: used, oversized } } = await since();
  assert.deepEqual([used, oversized], [0, 0]);

  const { answer } = scene.p;
  const batch = new Batch(scene, 2);
  scene.p.answer = () => sse(batch.dialect.calls({ calls: [
    { ...batch.calls[0], input: { city: 'elsewhere' } }] }));
  await batch.continue(batch.results()).text();
  scene.p.answer = answer;
  await batch.post(batch.dialect.fresh({ words: 'x'.repeat(9000) })).text();
  await until(async () => {
    const { counters } = await since();
    return counters.id_reuse === 1 && counters.oversized === 1;
  }, 5000, 'a reused id and a body above its limit');
});


live('external results are counted once each', async (t) => {
  const scene = await openStage(t, 'openai_chat', {
    server: `${outside.server} ${statusLocation}` });
  const batch = new Batch(scene, 2);
  await batch.ask();
  const waiting = batch.continue(batch.results([0]));
  await held(batch, waiting);
  await taken(give(batch, 0, { output: 1 }), 0, 1);
  await taken(give(batch, 1, { output: 1 }), 1, 0);
  assert.equal(await wordOf(waiting), 'final');
  const { counters, events } = await statusOf(scene.n);
  assert.equal(counters.external_results, 1);
  assert.ok(events.some(({ what }) => what === 'released'));
});


live('a batch appears, gets a result, and disappears', async (t) => {
  await Promise.all(keys.map((key) => t.test(key, async (t2) => {
    const scene = await shown(t2, key);
    const calls = newCalls(3, dialects[key].prefix);
    const batch = new Batch(scene, calls);
    await batch.ask();
    assert.deepEqual((await statusOf(scene.n)).batches, []);

    const first = batch.continue(batch.results([0]));
    await held(batch, first);
    const { batches: [one, ...rest], holds } = await statusOf(scene.n);
    assert.equal(rest.length, 0);
    assert.deepEqual([holds.now, one.held, one.missing, one.calls],
      [1, 1, 2, 3]);
    const { oldest_ms: before } = holds;
    await until(async () => (await statusOf(scene.n)).holds.oldest_ms
      > before + 20);
    assert.ok(one.age_ms < 10000);
    assert.deepEqual([one.dialect, one.state, one.attempt],
      [dialects[key].name, 'sealed', 0]);
    assert.match(one.name, /^[0-9a-f]{16}$/);
    assert.deepEqual(one.members.map(({ state }) => state),
      ['result', 'missing', 'missing']);
    assert.deepEqual(one.members.map(({ kind }) => kind),
      Array(3).fill('client'));
    one.members.forEach(({ id }, i) => {
      assert.equal(id, calls[i].id.length > 12
        ? `${calls[i].id.slice(0, 12)}…` : calls[i].id);
    });

    const second = batch.continue(batch.results([1]));
    await held(batch, second);
    const { batches: [two] } = await statusOf(scene.n);
    assert.deepEqual([two.name, two.held, two.missing], [one.name, 2, 1]);
    assert.deepEqual(two.members.map(({ state }) => state),
      ['result', 'result', 'missing']);

    await Promise.all([first, second,
      batch.continue(batch.results([2]))].map(wordOf));
    const after = await statusOf(scene.n);
    assert.deepEqual([after.batches, after.holds.now, after.holds.oldest_ms],
      [[], 0, 0]);
    const mine = after.events.filter((event) => event.batch === one.name);
    assert.deepEqual(mine.slice(0, 2).map(({ what }) => what),
      ['held', 'held']);
    assert.equal(mine[0].detail, '2 missing');
    assert.ok(mine.every(({ dialect }) => dialect === dialects[key].name));
    assert.ok(after.events.every(({ n }, i, all) =>
      !i || n > all[i - 1].n));
  })));
}, { concurrency: 2 });


live('a killed worker: its holds disappear', async (t) => {
  const scene = await shown(t, 'openai_chat');
  const list = Array.from({ length: 12 }, () => new Batch(scene, 2));
  const answers = list.map((batch) => batch.continue(batch.results([0])));
  await until(async () => (await statusOf(scene.n)).holds.now === 12);
  for (const pid of scene.n.workers()) {
    await scene.n.kill(pid);
    const status = await until(async () => {
      const now = await statusOf(scene.n);
      return now.holds.now === answers.filter(({ ended }) => !ended).length
        && now.workers === 2 && now;
    });
    assert.equal(status.batches.length, status.holds.now);
  }
  assert.ok(answers.every(({ error }) => error));
  assert.equal((await statusOf(scene.n)).holds.now, 0);
});


live('hostile ids are shortened and escaped: valid JSON', async (t) => {
  const scene = await shown(t, 'ai_sdk', { workers: 1, strict: false });
  const names = ['<script>alert(1)</script>', 'x'.repeat(900), '"\\\n\u0001"',
    '\u202e\u0627\u0644\u0639\u0631\u0628\u064a\u0629', '😀😀😀😀',
    'a\u0000b'];
  const answers = [];
  for (const name of names) {
    const calls = [0, 1].map((i) => ({ ...newCalls(1)[0],
      id: `${name}${newId('')}${i}` }));
    const batch = new Batch(scene, calls);
    batch.conversation = `${name}${newId('')}`;
    await batch.post(batch.dialect.fresh({
      conversation: batch.conversation })).text();
    answers.push(batch.continue(batch.results([0])));
  }
  const { batches } = await until(async () => {
    const now = await statusOf(scene.n);
    return now.batches.length === names.length && now;
  });
  for (const name of names) {
    const cut = (text) => {
      let out = '';
      for (const char of text) {
        if (Buffer.byteLength(out + char) > 12) {
          return `${out}…`;
        }
        out += char;
      }
      return out;
    };
    const start = cut(`${name}${newId('')}`);
    const found = batches.find(({ conversation }) =>
      conversation.startsWith(name.slice(0, 2)));
    assert.ok(found, JSON.stringify(name));
    if (Buffer.byteLength(name) >= 12) {
      assert.equal(found.conversation, start);
      found.members.forEach(({ id }) => assert.equal(id, start));
    }
  }
  answers.forEach((answer) => answer.abort());
});


live('more batches than the limit: only some are shown', async (t) => {
  const scene = await shown(t, 'openai_chat', { workers: 1 });
  const answers = Array.from({ length: 300 }, () => {
    const batch = new Batch(scene, 2);
    return batch.continue(batch.results([0]));
  });
  const status = await until(async () => {
    const now = await statusOf(scene.n);
    return now.holds.now === 300 && now;
  }, 10000);
  assert.equal(status.batches.length, 256);
  assert.equal(status.batches_more, 300 - 256);
  assert.equal(status.events.length, 64);
  assert.ok(status.batches.every(({ age_ms: age }, i, all) =>
    !i || age <= all[i - 1].age_ms));
  /* When some end, others are shown. */
  answers.splice(0, 200).forEach((answer) => answer.abort());
  await until(async () => {
    const now = await statusOf(scene.n);
    return now.batches.length === 100 && now.batches_more === 0;
  }, 8000, 'the rest');
  answers.forEach((answer) => answer.abort());
  const after = await until(async () => {
    const now = await statusOf(scene.n);
    return now.holds.now === 0 && now;
  });
  assert.deepEqual([after.batches, after.batches_more], [[], 0]);
  await until(async () => (await statusOf(scene.n)).counters.requests
    .openai_chat.held === 300);
});


live('methods, formats and status codes', async (t) => {
  const scene = await shown(t, 'openai_chat', { server: `${statusLocation}
    location = /closed { chat_status; deny all; }
    location = /zipped { chat_status; gzip on; gzip_types text/plain; }` });
  const json = await ask(scene.n);
  assert.equal(json.status, 200);
  assert.equal(json.headers['content-type'], 'application/json');
  assert.equal(json.headers['cache-control'], 'no-store');
  const text = await ask(scene.n, '?format=prometheus');
  assert.match(text.headers['content-type'], /^text\/plain; version=0.0.4/);
  const zipped = get(scene.n.port, '/zipped', { accept: 'text/plain',
    'accept-encoding': 'gzip' });
  assert.equal((await zipped.head).headers['content-encoding'], 'gzip');
  zipped.abort();
  const accepts = { text: ['text/plain', 'Text/Plain;q=0.5, */*',
    'application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4'],
  json: ['*/*', 'text/html,*/*;q=0.8', 'application/json, text/plain, */*'] };
  for (const [form, list] of Object.entries(accepts)) {
    for (const accept of list) {
      const { headers } = await ask(scene.n, '', { accept });
      assert.equal(headers['content-type'].startsWith('text/plain'),
        form === 'text', accept);
    }
  }
  assert.match((await ask(scene.n, '?format=json', { accept: 'text/plain' }))
    .headers['content-type'], /json/);
  const head = await ask(scene.n, '', {}, { method: 'HEAD' });
  assert.deepEqual([head.status, head.text], [200, '']);
  assert.ok(Number(head.headers['content-length']) > 1000);
  for (const [uri, method, status] of [['/status', 'POST', 405],
    ['/status', 'DELETE', 405], ['/closed', 'GET', 403]]) {
    assert.equal(await get(scene.n.port, uri, {}, { method }).status, status,
      `${method} ${uri}`);
  }
});


live('chat_status without chat, and with invalid arguments', async (t) => {
  const scene = await shown(t, 'openai_chat', { chat: false,
    connects: false });
  const { path, fresh } = dialects.openai_chat;
  assert.equal(await post(scene.n.port, path, fresh({})).status, 200);
  assert.deepEqual(counted(await statusOf(scene.n)), []);
  for (const [server, says] of [
    ['location /x { chat_status on; }', 'invalid number of arguments'],
    ['chat_status;', '"chat_status" directive is not allowed here']]) {
    const { ok, output } = await nginxTest({ server });
    assert.equal(ok, false);
    assert.ok(output.includes(says), output);
  }
});

live('the Prometheus text has the same values', async (t) => {
  const scene = await shown(t, 'openai_chat');
  await release(scene);
  await settled(scene, 3);
  /* A worker publishes the state of its store once a second. */
  await until(async () => (await statusOf(scene.n)).store.state === 'up');
  const status = await statusOf(scene.n);
  const { text } = await ask(scene.n, '?format=prometheus');
  const found = samples(text);
  const value = (name) => found.get(`nginx_chat_${name}`);
  for (const [dialect, verdicts]
    of Object.entries(status.counters.requests)) {
    for (const [verdict, n] of Object.entries(verdicts)) {
      assert.equal(value(
        `requests_total{dialect="${dialect}",verdict="${verdict}"}`), n);
    }
  }
  for (const [name, { count, sum, le, counts }]
    of Object.entries(status.histograms)) {
    assert.equal(value(`${name}_count`), count);
    assert.equal(value(`${name}_sum`), sum);
    assert.equal(value(`${name}_bucket{le="+Inf"}`), count);
    le.forEach((bound, i) => assert.equal(
      value(`${name}_bucket{le="${bound}"}`), counts[i], `${name} ${bound}`));
  }
  assert.equal(value('workers'), 2);
  assert.equal(value('store_up'), 1);
  assert.equal(value('store_workers{state="up"}'), 2);
  assert.equal(value('results_merged_total'), status.counters.results_merged);
});

const promtool = process.env.CHAT_PROMTOOL ?? 'promtool';
const missing = spawnSync(promtool, ['--version']).error;

live('promtool accepts the metrics', async (t) => {
  const scene = await shown(t, 'openai_chat');
  await release(scene);
  const { text } = await ask(scene.n, '?format=prometheus');
  const { status, stderr, stdout } = spawnSync(promtool,
    ['check', 'metrics'], { input: text, encoding: 'utf8' });
  assert.equal(status, 0, `${stdout}${stderr}`);
  assert.equal(stderr, '');
}, { skip: unbuilt || (missing && !process.env.CI
  && 'no promtool: Debian\'s package prometheus, or CHAT_PROMTOOL') });

live('the dashboard, the alerts and the docs name existing metrics',
  async (t) => {
    const scene = await shown(t, 'openai_chat', { store: 'shm:1m' });
    const { text } = await ask(scene.n, '?format=prometheus');
    const families = [...text.matchAll(/^# TYPE (\S+)/gm)].map((m) => m[1]);
    const histograms = [...text.matchAll(/^# TYPE (\S+) histogram$/gm)]
      .flatMap(([, name]) => [`${name}_bucket`]);
    const named = (words) => new Set(words.match(/nginx_chat_[a-z_]+/g));

    const dashboard = readFileSync(`${root}/docker/grafana.json`, 'utf8');
    const panels = JSON.parse(dashboard).panels.map(({ id }) => id);
    assert.equal(new Set(panels).size, panels.length);
    const page = readFileSync(`${root}/docs/operations.md`, 'utf8');
    const known = [...families, ...histograms];
    for (const name of [...named(dashboard), ...named(page)]) {
      assert.ok(known.includes(name), name);
    }
    const rows = [...page.matchAll(/^\| `(nginx_chat_\w+)` \| (\w+)/gm)];
    assert.deepEqual(rows.map(([, name, type]) => `${name} ${type}`).sort(),
      [...text.matchAll(/^# TYPE (.+)$/gm)].map((m) => m[1]).sort());
    /* The labels that a dashboard selects by exist, too. */
    for (const [, label, value] of (dashboard + page).matchAll(
      /[{,](verdict|reason|status|state)=\\?"(\w+)/g)) {
      assert.ok(text.includes(`${label}="${value}"`), `${label}="${value}"`);
    }
  });
