/*
 * layout.test.mjs: the rules of the tree that no compiler knows.
 *
 * Floors: a file of shared/ includes only its own floor and those below, and
 * knows no NGINX, no I/O and no clock. Style: the lengths of lines, functions
 * and files, the comment that opens each file. `make style` runs it.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { test } from 'node:test';

const root = new URL('..', import.meta.url);

function files(folder, pattern) {
  return readdirSync(new URL(`${folder}/`, root)).filter((f) =>
    pattern.test(f)).map((f) => {
    const path = `${folder}/${f}`;
    const text = readFileSync(new URL(path, root), 'utf8');
    return { path, text, name: basename(f).replace(/\.[ch]$/, ''),
      lines: text.replace(/\n$/, '').split('\n'),
      includes: [...text.matchAll(/^#\s*include\s+["<](.+)[">]/gm)]
        .map((match) => match[1]) };
  });
}

const shared = files('shared', /\.[ch]$/);
const glue = files('ngx_chat_module', /\.[ch]$/);
const tests = ['unit', 'fuzz'].flatMap((d) => files(`t/${d}`, /\.[ch]$/));
const scripts = ['t', 't/clients', 't/clients/pages', 'bench', 'docker',
  'docker/demo', 'docker/demo/page'].flatMap((d) => files(d, /\.(mjs|jsx?)$/));
const c = [...shared, ...glue, ...tests];

/* Which floor a file of shared/ is on: chat_<word>*. */
const floors = { base: 0, arena: 0, digest: 0, edit: 0, lines: 0,
  slot: 0, table: 0,
  sse: 1, json: 1, skim: 1, count: 1, number: 1,
  event: 2, request: 2, batch: 2, args: 2, record: 2, listed: 2,
  dialect: 3,
  gate: 4, merge: 4, store: 4, filter: 4, quarantine: 4,
  metrics: 4, status: 4, outside: 4, rename: 4, tell: 4, settle: 4,
  stream: 4, dropped: 4, outbox: 4, output: 4, track: 4 };
const floor = (name) => floors[/^chat_([a-z]+)/.exec(name)?.[1]];

/* The code without comments and strings, line by line. */
function code(text) {
  return text.replace(/\/\*[^]*?\*\/|"(?:\\.|[^"\\\n])*"/g,
    (found) => found.replace(/[^\n]/g, ' '));
}

/* Checks every file; a complaint is told as path: complaint. */
function rule(name, list, complain) {
  test(name, () => {
    const found = list.flatMap((file) => [complain(file)].flat()
      .filter(Boolean).map((complaint) => `${file.path}: ${complaint}`));
    assert.ok(found.length === 0, `${name}:\n${found.join('\n')}`);
  });
}

const only = (header, allowed) => ({ path, includes }) =>
  includes.some((include) => include.startsWith(header))
  && !allowed.test(path) && `may not include <${header}`;


rule('each file of shared/ has a floor', shared, ({ name }) =>
  floor(name) === undefined && 'on no floor: see floors in this test');

rule('nothing includes upward', shared, ({ name, includes }) => includes
  .filter((include) => floor(include) > floor(name))
  .map((include) => `includes ${include}, which is above it`));

rule('shared/ knows no NGINX', shared, ({ text }) =>
  (/\bngx_/.test(code(text)) || /include.*ngx_/.test(text)) && 'says ngx_');

const outside = new RegExp('(?<![\\w.>])(fopen|printf|fprintf|time|clock|'
  + 'clock_gettime|gettimeofday|getenv|socket|random|rand)\\s*\\(');

rule('shared/ does no I/O and has no clock', shared, ({ text }) =>
  outside.exec(code(text))?.[1]);

rule('a dialect includes its table and chat_json.h only',
  shared.filter(({ name }) => name.startsWith('chat_dialect_')),
  ({ includes }) => includes.filter((include) => include.startsWith('chat_')
    && !/^chat_(json|dialect)/.test(include)));

rule('dialects do not know one another',
  shared.filter(({ name }) => name.startsWith('chat_dialect_')),
  ({ name, includes }) => includes.filter((include) =>
    include.startsWith('chat_dialect_')
    && !name.startsWith(include.replace(/\.h$/, ''))));

rule('yajl is known to chat_json.c only', c,
  only('yajl/', /^shared\/chat_json\.c$/));
rule('hiredis is known to the Redis files only', c,
  only('hiredis/', /^ngx_chat_module\/.*redis/));
rule('libcrypto is known to chat_digest.c only', [...shared, ...glue],
  only('openssl/', /^shared\/chat_digest\.c$/));

/*
 * A header of libc before ngx_config.h fixes the feature macros too early, and
 * NGINX does not compile: its udp code needs those of _GNU_SOURCE.
 */
rule('ngx_config.h is the first include of a file that knows NGINX',
  [...glue, ...files('t/contract', /\.[ch]$/)], ({ includes }) =>
    includes[0] !== 'ngx_config.h' && 'put #include <ngx_config.h> first');

rule('chat_base.c alone sets a feature macro', [...shared, ...glue],
  ({ path, text }) => path !== 'shared/chat_base.c'
    && /^#\s*define\s+_\w*SOURCE/m.exec(text)?.[0]);

rule('the stores do not know one another', glue, ({ path, includes }) =>
  (/shm/.test(path) && includes.some((include) => /redis/.test(include)))
  || (/redis/.test(path) && includes.some((include) => /shm/.test(include)))
    ? 'includes the other store' : null);

rule('no file is called util, common or misc', c, ({ name }) =>
  /util|common|misc/.test(name) && 'says nothing');

rule('lines have at most 79 columns', [...c, ...scripts], ({ lines }) =>
  lines.flatMap((line, i) => ([...line].length > 79 ? `line ${i + 1}` : [])));

rule('files have at most 1000 lines', [...c, ...scripts], ({ lines }) =>
  lines.length > 1000 && `${lines.length} lines`);

rule('files open with a comment of 5 to 15 lines', c, ({ lines }) => {
  const end = lines.findIndex((line) => line.includes('*/')) + 1;
  return lines[0] !== '/*' ? 'opens without a comment'
    : (end < 5 || end > 17) && `${end} lines`;
});

/* A function's body is what stands between { and } in the first column. */
function functions({ text }) {
  const lines = code(text).split('\n');
  const found = [];
  for (let i = 0; i < lines.length; i++) {
    if (lines[i].trimEnd() === '{') {
      const end = lines.findIndex((line, j) => j > i && /^}/.test(line));
      found.push({ line: i + 1, end, lines: lines.slice(i + 1, end) });
    }
  }
  return found;
}

rule('functions have at most 60 lines, with a switch 100', c, (file) =>
  functions(file).flatMap(({ line, lines }) => {
    const most = lines.some((l) => /\bswitch \(/.test(l)) ? 100 : 60;
    return lines.length > most ? `line ${line}: ${lines.length} lines` : [];
  }));

rule('two blank lines stand between functions', c, (file) =>
  functions(file).flatMap(({ end }) => {
    const [, a, b, next] = file.lines.slice(end, end + 4);
    return a === undefined || /^#(endif|else)/.test(next ?? '')
      || (a === '' && b === '' && next !== '') ? [] : `line ${end + 1}`;
  }));

rule('comments are C comments', c, ({ text }) => code(text).split('\n')
  .flatMap((line, i) => (/\/\//.test(line) ? `line ${i + 1}` : [])));
