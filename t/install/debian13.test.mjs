/*
 * debian13.test.mjs: a bare Debian 13, from the checkout to the live tests:
 * t/packages.sh, the module, its package, the demo, and each live test once,
 * with Valkey as the store. `make test-debian13` runs it; it takes long.
 * The output of all commands is in build/test/debian13.log.
 *
 * Suite: plain.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { root } from '../lib/harness.mjs';
import { debian, impossible } from './debian.mjs';

const log = `${root}build/test/debian13.log`;

const folders = ['barrier', 'stream', 'record', 'store', 'config', 'lib',
  'lib/redis'].map((folder) => `t/${folder}/*.test.mjs`).join(' ');

const steps = [
  ['packages', 't/packages.sh make deb live'],
  ['module', 'make -s module contract'],
  ['package', `make -s deb
    apt-get install -q -y ./build/deb/libnginx-mod-http-chat_*.deb
    nginx -t
    apt-get remove -q -y libnginx-mod-http-chat
    nginx -t`],
  ['demo', 'node docker/demo.mjs --once'],
  ['versions', `nginx -v; valkey-server --version
    dpkg-query -W -f '\${Package} \${Version}\\n' 'libhiredis*' nodejs gcc`],
  ['live tests', `node t/run.mjs --every --pass=redis ${folders}`]];

test('Debian 13: package, demo, live tests over Valkey', {
  skip: impossible }, async (t) => {
  const machine = await debian(t, 'trixie', ['ca-certificates']);
  if (!machine) {
    return;
  }
  mkdirSync(`${root}build/test`, { recursive: true });
  writeFileSync(log, '');
  execFileSync('sh', ['-c', `mkdir "$1/src" && tar -C "$0" --exclude=./build \
    --exclude=node_modules --exclude=./.git -c . | tar -C "$1/src" -x`,
  root, machine.dir]);
  for (const [name, command] of steps) {
    const start = performance.now();
    appendFileSync(log, `== ${name}\n`);
    let output;
    try {
      output = await machine.run(
        `cd /src; export CHAT_REDIS=valkey-server; ${command}`);
    } catch (error) {
      appendFileSync(log, error.message);
      throw new Error(`${name}: ${error.message.slice(-6000)}`);
    }
    appendFileSync(log, output);
    const seconds = Math.round((performance.now() - start) / 1000);
    t.diagnostic(`${name}: ${seconds} s`);
    if (name === 'versions') {
      t.diagnostic(output.trim().replaceAll('\n', '; '));
    }
    if (name === 'live tests') {
      const [, passed] = /^# pass (\d+)$/m.exec(output);
      t.diagnostic(output.trim().split('\n').slice(-2).join(', '));
      assert.ok(Number(passed) > 300, output.slice(-2000));
    }
  }
});
