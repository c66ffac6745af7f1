/*
 * docs.test.mjs: the documentation says what the code has.
 *
 * Every directive and variable of the source is described, and nothing else;
 * the README's configuration works as pasted; its command is what CI runs.
 *
 * Suite: plain.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  modulePath, nginx, nginxTest, root, unbuilt,
} from './lib/harness.mjs';
import { Batch, scene, told } from './lib/batch.mjs';
import { dialects } from './lib/dialects.mjs';
import { held } from './lib/hold.mjs';
import { provider, sse } from './lib/provider.mjs';

const read = (path) => readFileSync(`${root}/${path}`, 'utf8');
const all = (text, pattern) => [...text.matchAll(pattern)].map((m) => m[1]);
const sorted = (list) => [...new Set(list)].sort();

const directives = read('docs/directives.md');
const readme = read('README.md');
const source = read('ngx_chat_module/ngx_chat_module.c');
const variables = read('ngx_chat_module/ngx_chat_variables.c');

/* The rows of the table that follows a heading: their first cells. */
function firstCells(text, heading) {
  const section = text.split(`### ${heading}\n`)[1].split('\n### ')[0];
  return all(section, /^\| `([^`]+)`/gm);
}


test('every directive is documented, and no other', () => {
  const known = all(source,
    /(?:NGX_CHAT_LOC\(|\{ ngx_string\()"(chat[a-z_]*)"/g);
  assert.ok(known.length > 15, `${known}`);
  assert.deepEqual(sorted(all(directives, /^### (chat[a-z_]*)$/gm)),
    sorted(known));
  for (const name of known) {
    const section = directives.split(`### ${name}\n`)[1].split('\n### ')[0];
    assert.match(section, new RegExp(`^    syntax:  ${name}\\b`, 'm'));
    assert.match(section, /^    default: \S/m);
    assert.match(section, /^    context: (http|location)/m);
  }
});

test('every variable is documented, and no other', () => {
  const known = all(variables, /\{ ngx_string\("(chat_[a-z_]+)"\), NGX/g);
  assert.ok(known.length > 10, `${known}`);
  assert.deepEqual(sorted(all(directives, /^### \$(chat_[a-z_]+)$/gm)),
    sorted(known));
});

test('every value of $chat_verdict is documented, and no other', () => {
  const list = /chat_verdict_names\[\] = \{([^}]+)\}/
    .exec(read('shared/report/chat_metrics.c'))[1];
  assert.deepEqual(firstCells(directives, '$chat_verdict'),
    all(list, /"([a-z]+)"/g));
});

test('directives and variables that the other pages name exist', () => {
  const known = new Set([...all(directives, /^### \$?(chat[a-z_]*)$/gm),
    /* announced as not there yet */
    'chat_results', 'chat_stall']);
  for (const path of ['README.md', 'docs/operations.md']) {
    const named = all(read(path), /[$`](chat_[a-z_]+)[` "]/g);
    assert.ok(named.length > 5);
    assert.deepEqual(named.filter((name) => !known.has(name)), [], path);
  }
});

test('what CI runs is the README\'s command', () => {
  const command = read('.ci/run').trim().split('\n').at(-1);
  assert.ok(all(readme, /^```sh\n([^]*?)\n```$/gm).includes(command),
    command);
});

test('links between the pages lead somewhere', () => {
  for (const [path, dir] of [['README.md', ''], ['CONTRIBUTING.md', ''],
    ['docs/operations.md', 'docs/']]) {
    for (const link of all(read(path), /\]\(([^)#]+)[^)]*\)/g)) {
      assert.ok(read(dir + link).length, `${path}: ${link}`);
    }
  }
});


/* The README's nginx.conf in this place: ports, folders, the module's file. */
function pasted(dir, [port], upstream) {
  const conf = /```nginx\n([^]*?)```/.exec(readme)[1];
  const temp = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((name) => `${name}_temp_path ${dir}/${name};`).join(' ');
  const put = (text, from, to) => {
    assert.ok(text.includes(from), from);
    return text.replaceAll(from, to);
  };
  const changes = [
    ['modules/ngx_chat_module.so', modulePath],
    ['worker_processes auto;', `worker_processes 1; daemon off;
      ${process.getuid() === 0 ? 'user root;' : ''}
      pid ${dir}/nginx.pid; error_log ${dir}/error.log info;`],
    ['http {', `http { ${temp} access_log ${dir}/access.log;`],
    ['listen 8080;', `listen 127.0.0.1:${port};`],
    ['127.0.0.1:3000', `127.0.0.1:${upstream}`]];
  return changes.reduce((text, change) => put(text, ...change), conf);
}

/* Its comment says to take three lines in place of one. */
const validated = (conf) => {
  const changed = conf.replace(/^ +chat_tenant .*\n/gm, '')
    .replace(/^( +)#(auth_request|chat_tenant)/gm, '$1$2');
  assert.equal(all(changed, /^ +(auth_request|chat_tenant)/gm).length, 3);
  return changed;
};

for (const [name, change, asks] of [['as pasted', (conf) => conf, false],
  ['with validated users', validated, true]]) {
  test(`the README's nginx.conf, ${name}, passes nginx -t`,
    { skip: unbuilt }, async () => {
      const dir = mkdtempSync(join(tmpdir(), 'ngx_chat_docs_'));
      const { ok, output } = await nginxTest({
        conf: change(pasted(dir, [9], 9)) });
      rmSync(dir, { recursive: true });
      assert.ok(ok, output);
    });

  test(`the README's nginx.conf, ${name}, serves a chat`,
    { skip: unbuilt }, async (t) => {
      const { path } = dialects.openai_chat;
      const p = await provider(t, 'openai_chat');
      const n = await nginx(t, { workers: 1,
        conf: (dir, ports) => change(pasted(dir, ports, p.port)) });
      const batch = new Batch(scene('openai_chat', p, n), 2);
      const { answer } = p;
      p.answer = (request) => (request.url === path ? answer(request)
        : sse([], { headers: { 'x-user': 'somebody' } }));
      const user = { headers: { authorization: '', cookie: 'session=s1' } };
      await batch.ask(user);
      const first = batch.continue(batch.results([0]), user);
      await held(batch, first);
      const last = batch.continue(batch.results([1]), user);
      assert.equal((await told(last)).word, 'final');
      assert.equal((await told(first)).word, 'final');
      batch.released();
      assert.match(n.errorLog(), /chat: stream ended: finished/);
      assert.equal(p.requests.some(({ url }) => url === '/auth'), asks);
    });
}
