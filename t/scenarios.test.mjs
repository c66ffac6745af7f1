/*
 * scenarios.test.mjs: docs/scenarios.md says which test covers which case in
 * which dialect; here it is compared with the names of the tests.
 *
 * A case is sNN in a test's name. Of which dialects a test is: a unit test of
 * the one that its file or its own name has, else of `any`; a live test of
 * the one in its name, else of those that its outermost statement names, all
 * if that goes over `keys` or `dialects`. A failure shows the row as it
 * should be.
 *
 * Suite: plain.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { names } from './lib/dialects.mjs';

const root = new URL('..', import.meta.url);
const read = (path) => readFileSync(new URL(path, root), 'utf8');
const list = (path) => readdirSync(new URL(path, root));
const topics = ['barrier', 'stream', 'record', 'store', 'config'];

const columns = ['any', ...names];
const named = (text) => names.filter((name) => text.includes(name));

/* The outermost statements of a script. */
const statements = (text) => text.split(/\n(?=[^\s})\]])/);

function live(text) {
  return statements(text).flatMap((statement) => {
    const all = /of (keys|names)\b|Object\.(keys|entries)\(dialects\)/
      .test(statement);
    const around = all ? names : named(statement);
    return [...statement.matchAll(/(['"`])(s\d+(?: s\d+)*): (.*?)\1/gs)]
      .map(([, , numbers, name]) => ({ numbers,
        of: named(name).length ? named(name) : around }));
  });
}

function unit(text, file) {
  return [...text.matchAll(/^((?:s\d+_)+)(\w+)\(void \*\*state\)/gm)]
    .map(([, numbers, name]) => ({ numbers,
      of: [...named(file), ...named(name), 'any'].slice(0, 1) }));
}

const found = [
  ...topics.flatMap((topic) => list(`t/${topic}`).flatMap((file) =>
    live(read(`t/${topic}/${file}`)).map((one) =>
      ({ ...one, file: `${topic}/${file.replace('.test.mjs', '')}` })))),
  ...list('t/unit').filter((file) => /^test_.*\.c$/.test(file))
    .flatMap((file) => unit(read(`t/unit/${file}`), file).map((one) =>
      ({ ...one, file: file.replace(/^test_(.*)\.c$/, 'unit/$1') }))),
];

/* Files with a test of this case in this column. */
const covering = (number, column) => [...new Set(found
  .filter(({ numbers, of }) => of.includes(column)
    && numbers.match(/\d+/g).some((n) => Number(n) === number))
  .map(({ file }) => file))].sort();

const lines = read('docs/scenarios.md').split('\n')
  .filter((line) => /^\| s\d/.test(line))
  .map((line) => line.split('|').slice(1, -1).map((cell) => cell.trim()));

/* A table by dialects, and one of cases that are much the same in all. */
const rows = lines.filter((cells) => cells.length > 3);
const others = lines.filter((cells) => cells.length === 3);

test('every test of a case says of which dialects it is', () => {
  const cases = rows.map(([number]) => number);
  const lost = found.filter(({ numbers, of }) => of.length === 0
    && numbers.split(' ').some((number) => cases.includes(number)));
  assert.deepEqual(lost, []);
});

test('the tables have the cases that they promise', () => {
  const range = (from, to) => Array.from({ length: to - from + 1 },
    (_, i) => from + i);
  const cases = (table) => table.map(([number]) => Number(number.slice(1)));
  assert.deepEqual(cases(rows),
    [...range(1, 24), 59, ...range(66, 70), ...range(96, 101), 106]);
  assert.deepEqual(cases(others), [48, 49, 54, 55, 62, 63, ...range(71, 83),
    ...range(84, 93), 102, 103, 107, ...range(108, 130)]);
});

for (const [number, words, cell] of others) {
  test(`${number}: the table and the tests agree`, () => {
    const files = [...new Set(found.filter(({ numbers }) =>
      numbers.match(/\d+/g).includes(number.slice(1)))
      .map(({ file }) => file))].sort().join(' ');
    assert.ok(files, 'no test has it');
    assert.equal(cell, files, `| ${number} | ${words} | ${files} |`);
  });
}

for (const [number, words, ...cells] of rows) {
  test(`${number}: the table and the tests agree`, () => {
    assert.equal(cells.length, columns.length);
    const tests = columns.map((column) =>
      covering(Number(number.slice(1)), column).join(' '));
    const row = tests.map((cell, i) => cell
      || (['-', 'not yet', ''].includes(cells[i]) ? cells[i] : '?'));
    assert.deepEqual(cells, row,
      `| ${[number, words, ...row].join(' | ')} |`);
    cells.slice(1).forEach((cell, i) =>
      assert.ok(cell, `${names[i]}: covered where, or why not?`));
  });
}
