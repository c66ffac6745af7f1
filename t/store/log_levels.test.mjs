/*
 * log_levels.test.mjs: what the log says of a store that goes and comes back,
 * of a zone without room, and of a reload that replaces the zone.
 *
 * The lines of a loss and of its end have one level, so that no error_log
 * shows only one of them.
 *
 * Suite: asan.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { until } from '../lib/harness.mjs';
import { Batch, stage } from '../lib/batch.mjs';
import { held, live } from '../lib/hold.mjs';
import { redis } from '../lib/redis/redis.mjs';
import { sentinels } from '../lib/redis/sentinel.mjs';
import { statusLocation, statusOf } from '../lib/status.mjs';

const over = (t, store, level = 'error') => stage(t, 'openai_chat',
  { level, connects: false, store, server: statusLocation });

const says = ({ n }, line) => until(() => line.test(n.errorLog()), 10000,
  `${line}`);

live('given the level error, the log has the end of an outage, too',
  async (t) => {
    const r = await redis(t);
    const scene = await over(t, r.url());
    await until(async () => (await statusOf(scene.n)).store.state === 'up');
    await r.stop('SIGKILL');
    await says(scene, /\[error\].* the store \S+ is unavailable/);
    await r.start();
    await says(scene, /\[error\].* the store \S+ is available again/);
  });

live('given the level error, the log has the end of a lost subscription',
  async (t) => {
    const r = await redis(t);
    const scene = await over(t, r.url());
    await until(async () => (await statusOf(scene.n)).store.state === 'up');
    await r.command('ACL', 'SETUSER', 'default', 'resetchannels');
    await says(scene, /\[error\].* no subscription to the store \S+,/);
    await r.command('ACL', 'SETUSER', 'default', 'allchannels');
    await says(scene, /\[error\].* subscribed to the store \S+ again/);
  });

live('given the level error, the log has the return of a Sentinel',
  async (t) => {
    const it = await sentinels(t);
    const scene = await over(t, it.url());
    await until(async () => (await statusOf(scene.n)).store.state === 'up');
    await Promise.all(it.list.map((one) => one.stop('SIGKILL')));
    await says(scene, /\[error\].* no Sentinel of the store \S+ reachable/);
    await Promise.all(it.list.map((one) => one.start()));
    await says(scene, /\[error\].* a Sentinel of the store \S+ is reachable/);
  });

const count = ({ n }, text) => n.errorLog().split(text).length - 1;

live('given a zone without room, the log says once that it removes batches',
  async (t) => {
    const scene = await over(t, 'shm:1m', 'warn');
    const text = 'the oldest idle batches are removed before their "ttl="';
    for (let i = 0; count(scene, text) === 0; i++) {
      assert.ok(i < 400, 'never full');
      await new Batch(scene, 120).ask();
    }
    for (let i = 0; i < 10; i++) {
      await new Batch(scene, 120).ask();
    }
    assert.equal(count(scene, text), 1);
  });

live('given a waiting request, a reload with another zone is logged once',
  async (t) => {
    const scene = await over(t, 'shm:2m', 'warn');
    const batch = new Batch(scene, 2);
    const waiting = batch.continue(batch.results([0]));
    await held(batch, waiting);
    const text = 'the zone "ngx_chat" is new: results in an earlier';
    const conf = `${scene.n.dir}/nginx.conf`;
    const reload = async (size) => {
      const pids = scene.n.workers();
      writeFileSync(conf, readFileSync(conf, 'utf8')
        .replace(/shm:\d+m/, `shm:${size}m`));
      process.kill(scene.n.child.pid, 'SIGHUP');
      await until(() => scene.n.workers().some((pid) =>
        !pids.includes(pid)));
    };
    await reload(2);
    assert.equal(count(scene, text), 0);
    await reload(3);
    assert.equal(count(scene, text), 1);
    waiting.abort();
  });
