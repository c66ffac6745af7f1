/*
 * deb.test.mjs: the Debian package that `make deb` has built: its fields, and
 * its installation, use and removal in a bare Debian.
 *
 * Suite: plain.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';
import { root } from '../lib/harness.mjs';
import { debian, here, impossible } from './debian.mjs';
import { use } from './use.mjs';

const folder = `${root}build/deb`;
const [deb] = existsSync(folder) ? readdirSync(folder).filter((file) =>
  /^libnginx-mod-http-chat_.*\.deb$/.test(file)) : [];
const unbuilt = !deb && 'run make deb';
const dpkg = (...args) => execFileSync('dpkg-deb', args,
  { encoding: 'utf8' });

test('the package has the version of CHANGES, the load file and the ABI',
  { skip: unbuilt }, () => {
    const field = (name) => dpkg('-f', `${folder}/${deb}`, name).trim();
    const [, version] = /^Changes with ngx_chat_module (\S+)/m
      .exec(readFileSync(`${root}CHANGES`, 'utf8'));
    assert.equal(field('Version'), version);
    assert.match(field('Depends'), /\bnginx-abi-[\d.]+-\d+/);
    assert.match(field('Depends'), /\blibhiredis/);
    const files = dpkg('-c', `${folder}/${deb}`);
    for (const file of ['usr/lib/nginx/modules/ngx_chat_module.so',
      'usr/share/nginx/modules-available/mod-http-chat.conf',
      'usr/share/ngx_chat/status.html']) {
      assert.ok(files.includes(` ./${file}\n`), `${file} in\n${files}`);
    }
  });

test('apt installs the package, nginx holds and releases, apt removes it',
  { skip: unbuilt || impossible }, async (t) => {
    const machine = await debian(t, here);
    if (!machine) {
      return;
    }
    const enabled = () => readdirSync(
      machine.path('etc/nginx/modules-enabled'))
      .filter((name) => /chat/.test(name));
    machine.write(deb, readFileSync(`${folder}/${deb}`));
    await machine.run(`apt-get install -q -y --no-install-recommends ./${deb}
      nginx -t`);
    assert.deepEqual(enabled(), ['50-mod-http-chat.conf']);
    await use(t, machine);

    await machine.run('apt-get remove -q -y libnginx-mod-http-chat');
    machine.write('etc/nginx/sites-enabled/default', '');
    await machine.run('nginx -t');
    assert.ok(!existsSync(
      machine.path('usr/lib/nginx/modules/ngx_chat_module.so')));
    await machine.run('apt-get purge -q -y libnginx-mod-http-chat; nginx -t');
    assert.deepEqual(enabled(), []);
  });
