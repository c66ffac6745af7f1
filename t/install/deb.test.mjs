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
import { Batch, scene, told } from '../lib/batch.mjs';
import { root, until } from '../lib/harness.mjs';
import { provider } from '../lib/provider.mjs';
import { statusLocation, statusOf } from '../lib/status.mjs';
import { answers, freePorts } from '../lib/wait.mjs';
import { debian, here, impossible } from './debian.mjs';

const folder = `${root}build/deb`;
const [deb] = existsSync(folder) ? readdirSync(folder).filter((file) =>
  /^libnginx-mod-http-chat_.*\.deb$/.test(file)) : [];
const unbuilt = !deb && 'run make deb';
const dpkg = (...args) => execFileSync('dpkg-deb', args,
  { encoding: 'utf8' });

const site = (port, upstream) => `
server {
    listen 127.0.0.1:${port};
    location / {
        chat openai_chat;
        proxy_pass http://127.0.0.1:${upstream};
        proxy_http_version 1.1;
    }
    ${statusLocation}
}
`;

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

/* A batch through the nginx of the root, with its own site. */
async function use(t, machine) {
  const p = await provider(t, 'openai_chat');
  const [port] = await freePorts(1);
  machine.write('etc/nginx/sites-enabled/default', site(port, p.port));
  const nginx = machine.spawn('exec nginx -g "daemon off; error_log stderr;"',
    { stdio: ['ignore', 'ignore', 'inherit'] });
  t.after(() => nginx.kill('SIGKILL'));
  await until(() => answers(port), 10000, 'nginx');
  const n = { port };
  const batch = new Batch(scene('openai_chat', p, n));
  await batch.ask();
  const first = batch.continue(batch.results([0]));
  await until(async () => (await statusOf(n)).holds.now === 1, 5000,
    'a held request');
  const last = batch.continue(batch.results([1]));
  assert.equal((await told(last)).word, 'final');
  assert.equal((await told(first)).word, 'final');
  batch.released();
  assert.equal(await nginx.end('SIGQUIT'), 0);
}

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
