/*
 * hold.mjs: held requests of a batch: waiting until one is held, storing its
 * results, and finding its worker.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { unbuilt, until } from './harness.mjs';
import { told } from './batch.mjs';
import { dialects } from './dialects.mjs';
import { handled } from './handled.mjs';

/* A test that needs nginx and the module. */
export const live = (name, play, options) =>
  test(name, { skip: unbuilt, ...options }, play);

/* The same; several such tests run at a time. */
export const each = (t, work, prefix = '') => Promise.all(
  Object.keys(dialects).map((key) =>
    t.test(`${prefix}${key}`, (t2) => work(t2, key))));
export const several = { concurrency: 3 };

/* Lines for a location that add these values to an answer's headers. */
export const say = { verdict: 'add_header X-Verdict $chat_verdict always;',
  pid: 'add_header X-Pid $pid always; proxy_set_header X-Pid $pid;' };

export const verdict = async (answer) =>
  (await answer.head).headers['x-verdict'];
export const pidOf = async (answer) =>
  Number((await answer.head).headers['x-pid']);
export const wordOf = async (answer) => (await told(answer)).word;

/*
 * Waits until requests are held, and checks that no (further) one went
 * upstream.
 */
export async function held(batch, answer, upstream = 0) {
  await handled(batch, [answer]);
  assert.equal(answer.ended, false, `ended: ${answer.bytes}`);
  assert.equal(batch.upstream().length, upstream, 'released too early');
}

/* Waits until every worker has noticed that its data is lost. */
export const missed = ({ n }) => until(() => n.workers().every((pid) =>
  new RegExp(` ${pid}#.*has lost its data`).test(n.errorLog())));

/* The verdicts of a request that was held; its hold may have expired. */
const waited = ['held', 'bounced'];

/*
 * Posts results and disconnects once the request is held, so the results stay
 * stored. A client that disconnected too early posts again.
 */
export async function leave(batch, results, options) {
  const node = options?.node ?? batch.pick();
  for (let tries = 0; tries < 5; tries++) {
    const { length } = node.accessLog();
    const answer = batch.continue(results, { ...options, node });
    await held(batch, answer, batch.upstream().length);
    answer.abort();
    const left = await until(() => node.accessLog().slice(length).find(
      (line) => line.status === '499' || waited.includes(line.verdict)),
    5000, 'a 499');
    if (waited.includes(left.verdict)) {
      return;
    }
  }
  assert.fail('never held');
}

/* The system calls of an idle worker, by architecture. */
const waits = { x64: ['232', '281'], arm64: ['22'] }[process.arch];

/*
 * Stops a worker that waits for events. One stopped anywhere else may hold the
 * mutex of a zone, which would block the others.
 */
export async function stop(pid) {
  const read = (name) => readFileSync(`/proc/${pid}/${name}`, 'utf8');
  await until(async () => {
    process.kill(pid, 'SIGSTOP');
    await until(() => /^State:\s+T/m.test(read('status')));
    if (waits?.includes(read('syscall').split(' ')[0]) ?? true) {
      return true;
    }
    process.kill(pid, 'SIGCONT');
    return false;
  });
}

/* Only this worker accepts while work() runs; the others are stopped. */
export async function only(n, pid, work) {
  const others = n.workers().filter((one) => one !== pid);
  try {
    for (const one of others) {
      await stop(one);
    }
    return await work();
  } finally {
    others.forEach((one) => process.kill(one, 'SIGCONT'));
  }
}
