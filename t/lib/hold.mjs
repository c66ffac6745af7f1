/*
 * hold.mjs: a batch whose requests wait: seeing that one does, leaving
 * results behind, and which worker has it.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { pause, unbuilt, until } from './harness.mjs';
import { told } from './batch.mjs';
import { dialects } from './dialects.mjs';

/* A test that needs nginx and the module. */
export const live = (name, play, options) =>
  test(name, { skip: unbuilt, ...options }, play);

/* The same; several of them run at a time. */
export const each = (t, work, prefix = '') => Promise.all(
  Object.keys(dialects).map((key) =>
    t.test(`${prefix}${key}`, (t2) => work(t2, key))));
export const several = { concurrency: 3 };

/* Lines for a location, so that an answer tells these of itself. */
export const say = { verdict: 'add_header X-Verdict $chat_verdict always;',
  pid: 'add_header X-Pid $pid always; proxy_set_header X-Pid $pid;' };

export const verdict = async (answer) =>
  (await answer.head).headers['x-verdict'];
export const pidOf = async (answer) =>
  Number((await answer.head).headers['x-pid']);
export const wordOf = async (answer) => (await told(answer)).word;

/* ms after which a worker has got to what was sent to it. */
const calm = process.env.CHAT_ASAN ? 300 : 100;

/* A request that waits, and nothing (more) of its batch upstream. */
export async function held(batch, answer, upstream = 0) {
  await answer.sent;
  await pause(calm);
  assert.equal(answer.ended, false, `ended: ${answer.bytes}`);
  assert.equal(batch.upstream().length, upstream, 'released too early');
}

/* Every worker has seen that what it told is not there any more. */
export const missed = ({ n }) => until(() => n.workers().every((pid) =>
  new RegExp(` ${pid}#.*has lost its data`).test(n.errorLog())));

/* What is said of a request that has waited; its time may be over. */
const waited = ['held', 'bounced'];

/*
 * Posts results that stay joined, and is back when the client has left. One
 * that has left before it was seen to wait comes again.
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

/* The system calls of a worker that waits for events, by architecture. */
const waits = { x64: ['232', '281'], arm64: ['22'] }[process.arch];

/*
 * Stops a worker where it waits for events: one that is stopped anywhere else
 * may hold the mutex of a zone, and then the others stand still with it.
 */
async function stop(pid) {
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

/* Only this worker accepts while work() runs; the others stand still. */
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
