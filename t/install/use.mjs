/*
 * use.mjs: the nginx of a Debian in a folder, with the module, holds and
 * releases a batch.
 */
import assert from 'node:assert/strict';
import { openSync } from 'node:fs';
import { Batch, scene, told } from '../lib/batch.mjs';
import { provider } from '../lib/provider.mjs';
import { statusLocation, statusOf } from '../lib/status.mjs';
import { answers, freePorts, until } from '../lib/wait.mjs';

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

/* Starts nginx with a site of its own, and stops it after the batch. */
export async function use(t, machine) {
  const p = await provider(t, 'openai_chat');
  const [port] = await freePorts(1);
  machine.write('etc/nginx/sites-enabled/default', site(port, p.port));
  /* A file, because a log may be a link to /dev/stderr. */
  const log = openSync(machine.path('nginx.log'), 'w');
  const nginx = machine.spawn('exec nginx -g "daemon off; error_log stderr;"',
    { stdio: ['ignore', log, log] });
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
