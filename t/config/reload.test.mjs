/*
 * reload.test.mjs: held requests during a change of the configuration.
 *
 * A reload starts new workers and lets the old ones finish: held requests and
 * streams continue in the old ones, results arrive at the new ones. Slots and
 * descriptors do not leak, and an idle old worker exits.
 *
 * Suite: asan, redis, long.
 */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { gate, patience, unbuilt, until } from '../lib/harness.mjs';
import { handled } from '../lib/handled.mjs';
import { dialects } from '../lib/dialects.mjs';
import { sse } from '../lib/provider.mjs';
import { Batch, stage, told } from '../lib/batch.mjs';
import { held, live, pidOf, say, wordOf } from '../lib/hold.mjs';

const keys = Object.keys(dialects);
const gone = (n, old) => until(() =>
  !n.workers().some((pid) => old.includes(pid)), 5000, 'old workers to exit');


for (const http2 of [false, true]) {
  for (const key of keys) {
    live(`s61: ${key}, HTTP/${http2 ? 2 : 1}: held during a reload`,
      async (t) => {
        const scene = await stage(t, key, { workers: 2, hold: '20s',
          location: say.pid });
        const batch = new Batch(scene, 3);
        await batch.ask();
        const old = scene.n.workers();
        const first = batch.continue(batch.results([0]), { http2 });
        await held(batch, first);
        await scene.n.reload();
        const second = batch.continue(batch.results([1]), { http2 });
        await held(batch, second);
        const third = batch.continue(batch.results([2]), { http2 });
        const words = await Promise.all([first, second, third].map(wordOf));
        assert.ok(words.every((word) => word === 'final'), `${words}`);
        batch.released();
        const pid = await pidOf(first);
        assert.ok(old.includes(pid), 'the request left its old worker');
        const other = await pidOf(third);
        assert.ok(!old.includes(other), 'an old worker got the last result');
        await gone(scene.n, old);
        /* A client must not send another request to an exiting worker. */
        if (!http2) {
          assert.equal((await first.head).headers.connection, 'close');
        }
      });
  }
}

for (const key of keys.filter((one) => !dialects[one].interrupts)) {
  live(`s61: ${key}: a reload in the middle of a stream`, async (t) => {
    const scene = await stage(t, key, { workers: 2, hold: '20s' });
    const batch = new Batch(scene, 2);
    const more = gate();
    const { answer } = scene.p;
    const at = batch.from.findIndex((event) => event.includes(batch.ids[1]));
    scene.p.answer = (request) => (request.answered.length ? answer(request)
      : sse(Object.assign([...batch.from.slice(0, at), more,
        ...batch.from.slice(at)], { id: batch.from.id,
        calls: batch.calls })));
    const old = scene.n.workers();
    const asking = batch.post(batch.dialect.fresh({
      conversation: batch.conversation }));
    await asking.until((text) => text.includes(batch.from[at - 1]));
    const early = batch.continue(batch.results([0]));
    await held(batch, early);
    await scene.n.reload();
    const late = batch.continue(batch.results([1]));
    await held(batch, early);
    await held(batch, late);
    more.open();
    assert.equal(await asking.text(), batch.from.join(''));
    const ends = await Promise.all([early, late].map(told));
    assert.ok(ends.every(({ word }) => word === 'final'),
      ends.map(({ text }) => text).join('\n'));
    batch.released();
    await gone(scene.n, old);
  });
}

live('a reload while the released request is answered', async (t) => {
  const scene = await stage(t, 'ai_sdk', { workers: 2, hold: '20s' });
  const batch = new Batch(scene, 2);
  await batch.ask();
  const more = gate();
  const { answer } = scene.p;
  scene.p.answer = async (request) => {
    await more;
    return answer(request);
  };
  const old = scene.n.workers();
  const one = batch.continue(batch.results([0]));
  await held(batch, one);
  const two = batch.continue(batch.results([1]));
  await scene.p.arrival(2);
  await scene.n.reload();
  const three = batch.continue(batch.results());
  await handled(scene, [three]);
  assert.equal(three.ended, false);
  more.open();
  const words = await Promise.all([one, two, three].map(wordOf));
  assert.deepEqual(words, ['final', 'final', 'final']);
  batch.released();
  await gone(scene.n, old);
});

for (const key of keys) {
  live(`${key}: worker_shutdown_timeout ends a hold in time`, async (t) => {
    const scene = await stage(t, key, { workers: 2, hold: '20s',
      main: 'worker_shutdown_timeout 2s;' });
    const batch = new Batch(scene, 2);
    await batch.ask();
    const old = scene.n.workers();
    const first = batch.continue(batch.results([0]));
    await held(batch, first);
    const start = performance.now();
    await scene.n.reload();
    const word = await wordOf(first);
    const took = performance.now() - start;
    assert.equal(word, dialects[key].bounces ?? '409');
    assert.ok(took < 2000 * patience, `${took} ms`);
    await gone(scene.n, old);
    assert.equal(await wordOf(batch.continue(batch.results([1]))), 'final');
    batch.released();
  });
}

live('worker_shutdown_timeout, after the grace', async (t) => {
  const scene = await stage(t, 'openai_chat', { workers: 2,
    main: 'worker_shutdown_timeout 2s;',
    hold: '20s grace=50ms heartbeat=100ms' });
  const batch = new Batch(scene, 2);
  await batch.ask();
  const old = scene.n.workers();
  const first = batch.continue(batch.results([0]));
  await first.head;
  await scene.n.reload();
  const { word, text } = await told(first);
  assert.equal(word, 'error', text);
  assert.ok(text.includes('batch_incomplete'), text);
  await gone(scene.n, old);
});

live('quit: the last results are still accepted', async (t) => {
  const scene = await stage(t, 'openai_chat', { workers: 2, hold: '2s' });
  const batch = new Batch(scene, 2);
  await batch.ask();
  const first = batch.continue(batch.results([0]));
  await held(batch, first);
  const stopped = scene.n.stop('SIGQUIT');
  assert.equal(await wordOf(first), '409', 'the hold did not expire normally');
  await stopped;
});

live('nginx is terminated: each held client gets an end', async (t) => {
  const scene = await stage(t, 'openai_chat', { workers: 2 });
  const batch = new Batch(scene, 2);
  await batch.ask();
  const first = batch.continue(batch.results([0]));
  await held(batch, first);
  await scene.n.stop('SIGTERM');
  assert.equal(await wordOf(first), 'broken');
});

live('many reloads leak neither slots nor descriptors', async (t) => {
  const scene = await stage(t, 'openai_chat', { workers: 3, hold: '2m' });
  const batch = new Batch(scene, 3);
  await batch.ask();
  const first = batch.continue(batch.results([0]));
  await held(batch, first);
  const open = () => readdirSync(`/proc/${scene.n.child.pid}/fd`).length;
  let before;
  const old = scene.n.workers();
  /* 128 slots: three workers per reload would need more if none were freed. */
  for (let i = 0; i < 45; i++) {
    await scene.n.reload();
    await until(() => scene.n.workers().length <= 4, 5000,
      'more old workers than the one with the held request');
    if (i === 2) {
      before = open();
    }
  }
  await until(() => open() <= before + 2, 5000, `${before} descriptors`);
  assert.equal(first.ended, false);
  const second = batch.continue(batch.results([1]));
  await held(batch, second);
  const third = batch.continue(batch.results([2]));
  const words = await Promise.all([first, second, third].map(wordOf));
  assert.ok(words.every((word) => word === 'final'), `${words}`);
  batch.released();
  await gone(scene.n, old);
});

live('reloads that change the size of the zone: no descriptor leaks',
  async (t) => {
    const scene = await stage(t, 'openai_chat', { store: 'shm:2m' });
    const conf = `${scene.n.dir}/nginx.conf`;
    const open = () => readdirSync(`/proc/${scene.n.child.pid}/fd`).length;
    const resize = async (size) => {
      writeFileSync(conf, readFileSync(conf, 'utf8')
        .replace(/shm:\d+m/, `shm:${size}m`));
      await scene.n.reload();
    };
    await resize(3);
    await until(() => scene.n.workers().length === 1, 5000, 'one worker');
    const before = open();
    for (const size of [4, 5, 5, 6]) {
      await resize(size);
      await until(() => scene.n.workers().length === 1, 5000, 'one worker');
    }
    await until(() => open() <= before + 2, 5000, `${before} descriptors`);
    const batch = new Batch(scene, 2);
    const first = batch.continue(batch.results([0]));
    await held(batch, first);
    const words = await Promise.all([first, batch.continue(
      batch.results([1]))].map(wordOf));
    assert.ok(words.includes('final'), `${words}`);
  }, { skip: unbuilt });

live('a worker is killed during a reload', async (t) => {
  const scene = await stage(t, 'openai_chat', { workers: 2,
    hold: '20s grace=50ms', location: say.pid });
  const batch = new Batch(scene, 2);
  await batch.ask();
  const first = batch.continue(batch.results([0]));
  const pid = await pidOf(first);
  await scene.n.reload();
  scene.n.allow(new RegExp(`worker process ${pid} exited on signal 9`));
  process.kill(pid, 'SIGKILL');
  assert.equal(await wordOf(first), 'broken');
  const second = batch.continue(batch.results([1]));
  assert.equal(await wordOf(second), 'final');
  batch.released();
});

live('given master_process off, a reload is refused and the old goes on',
  async (t) => {
    const scene = await stage(t, 'openai_chat', { main: 'master_process off;',
      workers: 0, connects: false });
    const works = async () => {
      const batch = new Batch(scene, 2);
      await batch.ask();
      assert.equal(await wordOf(batch.continue(batch.results())), 'final');
    };
    const refused = /cannot be reloaded with "master_process off"/;
    scene.n.allow(refused);
    await works();
    scene.n.child.kill('SIGHUP');
    await until(() => refused.test(scene.n.errorLog()));
    await works();
  });
