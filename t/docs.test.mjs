/*
 * docs.test.mjs: the documentation agrees with the code.
 *
 * Every variable of the source is described, and nothing else; the README is
 * short; its synopsis and the configuration of docs/install.md work as pasted;
 * the README's command is what CI runs; every link has its target. Directives:
 * directives.test.mjs.
 *
 * Suite: plain.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import {
  nginx, nginxTest, pasted, root, unbuilt,
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
const variables = read('ngx_chat_module/ngx_chat_variables.c');

/* The rows of the table that follows a heading: their first cells. */
function firstCells(text, heading) {
  const section = text.split(`### ${heading}\n`)[1].split('\n### ')[0];
  return all(section, /^\| `([^`]+)`/gm);
}


test('the README has at most 900 words before "More"', () => {
  const words = readme.split('\n## More\n')[0].split(/\s+/).length;
  assert.ok(words <= 900, `${words} words`);
});

test('every variable is documented, and no other', () => {
  const known = all(variables, /ngx_string\("(chat_[a-z_]+)"\)/g);
  assert.ok(known.length > 10, `${known}`);
  assert.deepEqual(sorted(all(directives, /^### \$(chat_[a-z_]+)$/gm)),
    sorted(known));
});

test('every value of $chat_verdict is documented, and no other', () => {
  const list = /chat_verdict_names\[\] = \{([^}]+)\}/
    .exec(read('shared/policy/chat_reason.c'))[1];
  assert.deepEqual(firstCells(directives, '$chat_verdict'),
    all(list, /"([a-z]+)"/g));
});

test('every reason of each verdict is documented, and no other', () => {
  const rows = [...read('shared/policy/chat_reason.h')
    .matchAll(/^    row\((\w+), (\w+), "(\w+)"\)/gm)];
  assert.ok(rows.length > 60, `${rows.length}`);
  for (const [, , name, word] of rows) {
    assert.equal(name, word.toUpperCase());
  }
  const section = directives.split('### $chat_reason\n')[1].split('\n###')[0];
  assert.deepEqual([...section.matchAll(
    /^\| `(\w+)` \| `(\w+)` \| \S.* \| \S.* \|$/gm)]
    .map(([, verdict, word]) => `${verdict} ${word}`),
  rows.map(([, verdict, , word]) => `${verdict.toLowerCase()} ${word}`));
});

test('directives and variables that the other pages name exist', () => {
  const known = new Set(all(directives, /^### \$?(chat[a-z_]*)$/gm));
  for (const path of ['README.md', 'docs/operations.md',
    'docs/install.md', 'docs/limits.md', 'docs/resume.md']) {
    const named = all(read(path), /[$`](chat_[a-z_]+)[` "]/g);
    assert.ok(named.length > 1, path);
    assert.deepEqual(named.filter((name) => !known.has(name)), [], path);
  }
});

test('what CI runs is the README\'s command', () => {
  const command = read('.ci/run').trim().split('\n').at(-1);
  assert.ok(all(readme, /^```sh\n([^]*?)\n```$/gm).includes(command),
    command);
});

/* The anchors of a page, as GitHub makes them of its headings. */
const anchors = (page) => all(page.replace(/^```[^]*?^```/gm, ''),
  /^#+ (.+)$/gm).map((heading) => heading.toLowerCase()
  .replace(/[^\w\- ]/g, '').replaceAll(' ', '-'));

test('every link between the pages has its target', () => {
  const pages = ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', 't/README.md',
    't/cases/README.md', 'examples/README.md', ...readdirSync(`${root}/docs`)
      .filter((file) => file.endsWith('.md')).map((file) => `docs/${file}`)];
  assert.ok(pages.length > 12, `${pages}`);
  for (const path of pages) {
    const links = all(read(path), /\]\(([^)\s]+)\)/g)
      .filter((link) => !/^https?:/.test(link));
    for (const link of links) {
      const [file, anchor] = link.split('#');
      const target = file ? join(dirname(path), file) : path;
      const text = read(target);
      assert.ok(text.length, `${path}: ${link}`);
      assert.ok(!anchor || anchors(text).includes(anchor),
        `${path}: ${link}: no such heading`);
    }
  }
});

/* The files of a folder and below, without third-party packages. */
const below = (dir) => readdirSync(`${root}/${dir}`, { withFileTypes: true })
  .filter(({ name }) => name !== 'node_modules')
  .flatMap((entry) => (entry.isDirectory() ? below(`${dir}/${entry.name}`)
    : [`${dir}/${entry.name}`]));

test('functions and files that pages for developers name exist', () => {
  const files = ['shared', 'ngx_chat_module', 't'].flatMap(below);
  const code = files.filter((file) => /\.([ch]|mjs)$/.test(file)).map(read)
    .join('\n');
  for (const path of ['docs/internals.md', 'docs/add-a-dialect.md']) {
    const page = read(path);
    const calls = all(page, /`(\w+)\(\)`/g);
    assert.ok(calls.length > 4, path);
    assert.deepEqual(calls.filter((name) =>
      !new RegExp(`\\b${name}\\b`).test(code)), [], path);
    const named = all(page, /`((?:[\w.-]+\/)*\w{4,}\.(?:[ch]|mjs))`/g)
      .filter((name) => !name.startsWith('_'));
    assert.ok(named.length > 4, path);
    assert.deepEqual(named.filter((name) =>
      !files.some((file) => `/${file}`.endsWith(`/${name}`))), [], path);
  }
});

/* The members of a struct in a header; flags are those of one bit. */
function members(path, name) {
  const [text] = read(path).split(`\n} ${name};`);
  const list = text.slice(text.lastIndexOf('typedef struct {') + 16)
    .replace(/\/\*[^]*?\*\//g, '').split(';').map((one) => one.trim())
    .filter(Boolean);
  const pick = (some) => some.map((one) => /\(\*(\w+)\)\s*\(/.exec(one)?.[1]
    ?? /(\w+)\s*(?::\s*1)?$/.exec(one)[1]);
  const isFlag = (one) => /: 1$/.test(one);
  return { all: pick(list), flags: pick(list.filter(isFlag)) };
}

test('the guide names the members of a dialect, and no others', () => {
  const guide = read('docs/add-a-dialect.md');
  const table = (heading) => all(guide.split(`\n## ${heading}\n`)[1]
    .split('\n## ')[0], /^\| (`[^|]+) \|/gm)
    .flatMap((cell) => all(cell, /`(\w+)`/g));
  const form = members('shared/dialect/chat_transcript.h',
    'chat_transcript_form_t');
  assert.deepEqual(sorted(table('2. The request')), sorted(form.all));
  const row = members('shared/dialect/chat_dialect.h', 'chat_dialect_t');
  const told = [...table('1. The row'), ...table('4. Local replies')];
  assert.ok(told.length > 8 && row.flags.length > 8, `${told}`);
  assert.deepEqual(told.filter((name) => !row.all.includes(name)), []);
  assert.deepEqual(row.all.filter((name) => !row.flags.includes(name)
    && !guide.includes(`\`${name}\``)), []);
  const events = all(guide, /`((?!CHAT_)[A-Z]+_[A-Z]+)`/g);
  const header = read('shared/model/chat_event.h');
  assert.ok(events.length > 4, `${events}`);
  assert.deepEqual(events.filter((name) =>
    !header.includes(`CHAT_EVENT_${name},`)), []);
});


/* The synopsis of the README, in a minimal configuration. */
function synopsis() {
  const text = /```nginx\n([^]*?)```/.exec(readme)[1];
  const [load, ...location] = text.split('\n');
  assert.match(load, /^load_module /);
  return `${load}\nworker_processes auto;\nevents {}\nhttp {\nserver {
listen 8080;\n${location.join('\n')}}\n}\n`;
}

const complete = /```nginx\n([^]*?)```/.exec(read('docs/install.md'))[1];

/* An nginx.conf with the ports, folders and module file of this machine. */
const here = (conf, dir, [port], upstream) => pasted(conf, dir, port,
  [['127.0.0.1:3000', `127.0.0.1:${upstream}`]]);

test('the README\'s log passes nginx -t', { skip: unbuilt }, async () => {
  const [, , text] = /```nginx\n([^]*?)```[^]*?```nginx\n([^]*?)```/
    .exec(readme);
  const { ok, output } = await nginxTest({ http: text
    .replace('log_format chat', 'log_format verdicts')
    .replace('/var/log/nginx/chat.log chat', 'chat.log verdicts') });
  assert.ok(ok, output);
});

/* Its comment says to use three lines instead of one. */
const validated = (conf) => {
  const changed = conf.replace(/^ +chat_tenant .*\n/gm, '')
    .replace(/^( +)#(auth_request|chat_tenant)/gm, '$1$2');
  assert.equal(all(changed, /^ +(auth_request|chat_tenant)/gm).length, 3);
  return changed;
};

for (const [name, conf, asks] of [
  ['the README\'s synopsis', synopsis(), false],
  ['the complete nginx.conf', complete, false],
  ['the complete nginx.conf with validated users', validated(complete), true],
]) {
  test(`${name} passes nginx -t`,
    { skip: unbuilt }, async () => {
      const dir = mkdtempSync(join(tmpdir(), 'ngx_chat_docs_'));
      const { ok, output } = await nginxTest({
        conf: here(conf, dir, [9], 9) });
      rmSync(dir, { recursive: true });
      assert.ok(ok, output);
    });

  test(`${name} serves a chat`,
    { skip: unbuilt }, async (t) => {
      const { path } = dialects.openai_chat;
      const p = await provider(t, 'openai_chat');
      const n = await nginx(t, { workers: 1,
        conf: (dir, ports) => here(conf, dir, ports, p.port) });
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
