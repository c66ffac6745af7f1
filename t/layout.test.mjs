/*
 * layout.test.mjs: the rules of the tree that no compiler checks.
 *
 * Layers: a file includes and calls only its own layer and those below;
 * shared/ knows no NGINX, no I/O and no clock. Style: the lengths of lines,
 * functions and files, the comment that opens each file. `make style` runs it.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { test } from 'node:test';

const root = new URL('..', import.meta.url);

/* The files of a folder, and with `deep` those of the folders in it. */
function files(folder, pattern, deep = false) {
  const entries = readdirSync(new URL(`${folder}/`, root),
    { withFileTypes: true });
  const below = deep ? entries.filter((entry) => entry.isDirectory())
    .flatMap((entry) => files(`${folder}/${entry.name}`, pattern, true)) : [];
  return entries.filter((entry) => entry.isFile() && pattern.test(entry.name))
    .map(({ name: f }) => {
    const path = `${folder}/${f}`;
    const text = readFileSync(new URL(path, root), 'utf8');
    return { path, text, name: basename(f).replace(/\.[ch]$/, ''),
      lines: text.replace(/\n$/, '').split('\n'),
      includes: [...text.matchAll(/^#\s*include\s+["<](.+)[">]/gm)]
        .map((match) => match[1]) };
  }).concat(below);
}

const shared = files('shared', /\.[ch]$/, true);
const glue = files('ngx_chat_module', /\.[ch]$/, true);
const tests = ['unit', 'fuzz', 'sim'].flatMap((d) =>
  files(`t/${d}`, /\.[ch]$/));
const live = ['barrier', 'stream', 'record', 'store', 'config', 'install',
  'lib', 'lib/dialects', 'lib/redis'].map((d) => `t/${d}`);
const scripts = [...live, 't', 't/clients', 't/clients/sdk',
  't/clients/pages', 'bench', 'bench/parts', 'docker', 'docker/demo',
  'docker/demo/page']
  .flatMap((d) => files(d, /\.(mjs|jsx?)$/));
const c = [...shared, ...glue, ...tests];

/*
 * The layers, from the lowest up. A file includes its own folder and folders
 * of lower layers; the folders of one layer do not include one another.
 */
const layers = {
  shared: [['bytes'], ['json', 'sse'], ['model'], ['facts'], ['dialect'],
    ['stream', 'follow'], ['policy'], ['report']],
  ngx_chat_module: [['base'], ['metrics'], ['store'], ['response'],
    ['record'], ['request'], ['endpoint'], ['']],
};

/* The first folder of a path: that of dialect/gemini/x.h is dialect. */
const folderOf = (path) => (path.includes('/') ? path.split('/')[0] : '');
const layerOf = (tree, folder) =>
  layers[tree].findIndex((layer) => layer.includes(folder));

/* Folders with more files than the limit, until files are merged. */
const crowded = { 't/unit': 78 };

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


for (const [tree, list] of [['shared', shared], ['ngx_chat_module', glue]]) {
  const place = (path) => folderOf(path.slice(tree.length + 1));

  rule(`each file of ${tree}/ is in a folder of a layer`, list, ({ path }) =>
    layerOf(tree, place(path)) < 0 && 'no layer: see layers in this test');

  rule(`nothing in ${tree}/ includes upward`, list, ({ path, includes }) =>
    includes.filter((include) => {
      const [from, to] = [place(path), folderOf(include)];
      return layerOf(tree, to) >= 0 && include.includes('chat_') && to !== from
        && layerOf(tree, to) >= layerOf(tree, from);
    }).map((include) => `includes ${include}, which is not below it`));
}

rule('includes name the folder', [...shared, ...glue], ({ path, includes }) =>
  includes.filter((include) => /^(ngx_)?chat_.*\.h$/.test(include)
    && include !== basename(path).replace(/c$/, 'h')
    && !files('ngx_chat_module', /\.h$/).some(({ path: header }) =>
      basename(header) === include)));

test('a folder has at most 24 files', () => {
  const counts = {};
  for (const { path } of [...c, ...scripts]) {
    const folder = path.slice(0, path.lastIndexOf('/'));
    counts[folder] = (counts[folder] ?? 0) + 1;
  }
  const full = Object.entries(counts).filter(([folder, count]) =>
    count > (crowded[folder] ?? 24));
  assert.deepEqual(full, []);
});

rule('shared/ knows no NGINX', shared, ({ text }) =>
  (/\bngx_/.test(code(text)) || /include.*ngx_/.test(text)) && 'says ngx_');

const outside = new RegExp('(?<![\\w.>])(fopen|printf|fprintf|time|clock|'
  + 'clock_gettime|gettimeofday|getenv|socket|random|rand)\\s*\\(');

rule('shared/ does no I/O and has no clock', shared, ({ text }) =>
  outside.exec(code(text))?.[1]);

rule('dialects do not know one another', shared, ({ path, includes }) => {
  const own = /^shared\/(dialect\/\w+\/)/.exec(path)?.[1];
  return own ? includes.filter((include) =>
    /^dialect\/\w+\//.test(include) && !include.startsWith(own)) : [];
});

rule('yajl is known to the tests that compare with it only', c,
  only('yajl/', /^t\/fuzz\/yajl_tree\.h$/));
rule('hiredis is known to the Redis files only', c,
  only('hiredis/', /^ngx_chat_module\/store\/redis\//));
rule('libcrypto is known to chat_digest.c only', [...shared, ...glue],
  only('openssl/', /\/chat_digest\.c$/));

/*
 * A header of libc before ngx_config.h fixes the feature macros too early, and
 * NGINX does not compile: its udp code needs those of _GNU_SOURCE.
 */
rule('ngx_config.h is the first include of a file that knows NGINX',
  [...glue, ...files('t/contract', /\.[ch]$/)], ({ includes }) =>
    includes[0] !== 'ngx_config.h' && 'put #include <ngx_config.h> first');

rule('chat_str.c alone sets a feature macro', [...shared, ...glue],
  ({ path, text }) => path !== 'shared/bytes/chat_str.c'
    && /^#\s*define\s+_\w*SOURCE/m.exec(text)?.[0]);

rule('the stores do not know one another', glue, ({ path, includes }) => {
  const own = /^ngx_chat_module\/(store\/\w+\/)/.exec(path)?.[1];
  return own ? includes.filter((include) =>
    /^store\/\w+\//.test(include) && !include.startsWith(own)) : [];
});

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

/*
 * A function's body is what stands between { and } in the first column; the
 * head is the lines before it, up to a blank one.
 */
function functions({ text }) {
  const lines = code(text).split('\n');
  const found = [];
  for (let i = 0; i < lines.length; i++) {
    if (lines[i].trimEnd() === '{') {
      const end = lines.findIndex((line, j) => j > i && /^}/.test(line));
      const first = lines.findLastIndex((line, j) => j < i
        && /^($|[#}])/.test(line.trimEnd()));
      const head = lines.slice(first + 1, i).join(' ');
      found.push({ line: i + 1, end, lines: lines.slice(i + 1, end),
        name: /(\w+)\s*\(/.exec(head)?.[1],
        isStatic: head.trimStart().startsWith('static') });
    }
  }
  return found;
}

/* Maps each .c file to the files that it calls: path to callee to a call. */
function calls(list) {
  const owner = new Map();
  const sources = list.filter(({ path }) => path.endsWith('.c'))
    .map((file) => ({ ...file, functions: functions(file) }));
  for (const { path, functions: own } of sources) {
    own.filter(({ isStatic }) => !isStatic)
      .forEach(({ name }) => owner.set(name, path));
  }
  return new Map(sources.map(({ path, functions: own }) => {
    const statics = new Set(own.map(({ name }) => name));
    const called = new Map();
    for (const { name, lines } of own) {
      for (const [, callee] of lines.join('\n').matchAll(/(\w+)\s*\(/g)) {
        const to = owner.get(callee);
        if (to && to !== path && !statics.has(callee)) {
          called.set(to, `${name}() calls ${callee}()`);
        }
      }
    }
    return [path, called];
  }));
}

/* The nodes that `from` reaches through edges, which are maps of maps. */
function reached(edges, from) {
  const seen = new Set();
  const due = [from];
  while (due.length) {
    for (const to of edges.get(due.pop())?.keys() ?? []) {
      if (!seen.has(to)) {
        seen.add(to);
        due.push(to);
      }
    }
  }
  return seen;
}

for (const [tree, list] of [['shared', shared], ['ngx_chat_module', glue]]) {
  const place = (path) => folderOf(path.slice(tree.length + 1));
  const folder = (path) => path.slice(0, path.lastIndexOf('/'));
  const edges = calls(list);

  rule(`nothing in ${tree}/ calls upward`, list, ({ path }) =>
    [...edges.get(path) ?? []].filter(([to]) => place(to) !== place(path)
      && layerOf(tree, place(to)) >= layerOf(tree, place(path)))
      .map(([to, call]) => `${call} of ${to}, which is not below it`));

  test(`at most 3 files of a folder of ${tree}/ call in a circle`, () => {
    const inside = new Map([...edges].map(([path, called]) => [path,
      new Map([...called].filter(([to]) => folder(to) === folder(path)))]));
    const circles = [...inside.keys()].map((path) =>
      [...reached(inside, path)].filter((to) =>
        reached(inside, to).has(path)));
    assert.deepEqual(circles.filter((circle) => circle.length > 3), []);
  });
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

/* Without this a refactoring would lose a mutant, and with it a guard. */
test('each entry of t/mutants.json still applies', () => {
  const text = (path) => readFileSync(new URL(path, root), 'utf8');
  const lost = JSON.parse(text('t/mutants.json')).filter(
    ({ file, from, to }) => from === to
      || ![...shared, ...glue].some(({ path }) => path === file)
      || text(file).split(from).length !== 2);
  assert.deepEqual(lost, [],
    'adjust `file`, `from` and `to` to the changed line');
});
