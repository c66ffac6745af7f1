/*
 * contract.test.mjs: the laws of shared/chat_store.h, each tried inside a
 * worker, on the store that CHAT_STORE names; and those that only two workers
 * can show.
 *
 * The laws are in t/contract/laws_*.c, and run by a module of their own that
 * is loaded beside the one under test. A Seat is a connection that stays with
 * one worker, so that a test can say which of them does what.
 */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { nginx, pause, root, unbuilt, until } from './harness.mjs';
import { only } from './harness_hold.mjs';

const asan = !!process.env.CHAT_ASAN;
const lawsPath = join(root, 'build', asan ? 'contract-asan' : 'contract',
  'ngx_chat_contract_module.so');
const skip = unbuilt || (!existsSync(lawsPath)
  && `${lawsPath} is not built: run make ${asan ? 'asan' : 'contract'}`);
const shm = (process.env.CHAT_STORE ?? 'shm') === 'shm';

function start(t, options) {
  return nginx(t, { main: `load_module ${lawsPath};`, workers: 2,
    ...(shm && { store: 'shm:64m' }),
    locations: `location / { chat auto; chat_contract; }`, ...options });
}

/* One request; its whole answer, a line. */
function ask(port, query, agent) {
  const path = `/?${typeof query === 'string' ? query
    : new URLSearchParams(query).toString().replaceAll('+', '%20')}`;
  return new Promise((resolve, reject) => {
    http.get({ host: '127.0.0.1', port, path, agent: agent ?? false,
      timeout: 40000 },
      (response) => {
        let text = '';
        response.on('data', (piece) => { text += piece; });
        response.on('error', reject);
        response.on('end', () => resolve(response.statusCode === 200
          ? text.replace(/\n$/, '') : `status ${response.statusCode}`));
      }).on('error', reject).on('timeout', function late() {
      this.destroy(new Error(`no answer to ${path}`));
    });
  });
}

class Seat {
  constructor(n, pid) {
    this.n = n;
    this.pid = pid;
    this.agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  }

  static async take(t, n, pid = n.workers()[0]) {
    const seat = new Seat(n, pid);
    t.after(() => seat.agent.destroy());
    const name = await only(n, pid, () => seat.act({ do: 'worker' }));
    [seat.worker] = name.split(' ');
    assert.equal(name, `${seat.worker} ${pid}`);
    return seat;
  }

  /* An act; what it tells. Two at a time wait for one another. */
  async act(args) {
    const text = await ask(this.n.port, args, this.agent);
    assert.match(text, /^ok( |$)/, JSON.stringify(args));
    return text.slice(3);
  }
}

/* One seat in each worker. */
async function seats(t, options) {
  const n = await start(t, options);
  const all = [];
  for (const pid of n.workers()) {
    all.push(await Seat.take(t, n, pid));
  }
  return [n, ...all];
}

let count = 0;
const newKey = () => `${process.pid}/${Date.now()}/${count++}`;
const live = (name, play) => test(name, { skip }, play);


live('the laws that one worker shows', async (t) => {
  const n = await start(t);
  const laws = (await ask(n.port, 'list')).split('\n');
  assert.ok(laws.length > 30, `${laws}`);
  for (const law of laws) {
    await t.test(law, async () => {
      assert.equal(await ask(n.port, { law }), 'ok');
    });
  }
});
