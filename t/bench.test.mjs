/*
 * bench.test.mjs: the arithmetic of the benchmark, which decides whether `make
 * bench` fails: ratios, the comparison with the baseline, exponents.
 * Suite: plain.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inTurn, Measure } from '../bench/measure.mjs';
import { exponent } from '../bench/plot.mjs';
import { page } from '../bench/report.mjs';

/* Measures these rounds, the last one again and again. */
async function measured(rounds, baseline = {}, options = {}) {
  const it = new Measure({ baseline, rounds: 3 });
  let turn = 0;
  const sample = async () => rounds[Math.min(turn++, rounds.length - 1)];
  const found = await it.compare('part/case', sample, { warm: 0, ...options });
  return { ...it, it, found, turns: turn };
}

const rounds = [{ plain: 2, module: 3 }, { plain: 1, module: 4 },
  { plain: 4, module: 4 }];

test('a ratio is the least cost by the least cost of plain', async () => {
  const { found: { module } } = await measured(rounds);
  assert.equal(module.ratio, 3);
  assert.equal(module.median, 1.5);
  assert.deepEqual([module.low, module.high], [1, 4]);
});

test('a kind counts in the rounds that measured it', async () => {
  const { found: { other } } = await measured([
    { plain: 2, module: 2, other: 8 }, { plain: 1, module: 2 }], {},
  { others: ['other'] });
  assert.equal(other.ratio, 4);
});

test('a ratio a tenth worse than the baseline is measured again and named',
  async () => {
    const { turns, worse } = await measured(rounds, { 'part/case/module': 2 });
    assert.equal(turns, 9);
    assert.deepEqual(worse, [{ name: 'part/case/module', value: 3,
      before: 2 }]);
  });

test('a ratio that is good again in a later round is not named', async () => {
  const { turns, worse } = await measured([...rounds,
    { plain: 2, module: 2 }], { 'part/case/module': 2 });
  assert.equal(turns, 4);
  assert.deepEqual(worse, []);
});

test('a ratio within a tenth of the baseline is not named', async () => {
  const { turns, worse } = await measured(rounds,
    { 'part/case/module': 2.8 });
  assert.equal(turns, 3);
  assert.deepEqual(worse, []);
});

test('the baseline has our ratios and stable figures only', async () => {
  const { it } = await measured([{ plain: 1, module: 2, other: 3 }], {},
    { others: ['other'] });
  it.figure('part/ms', 5, 'ms');
  it.figure('part/bytes', 6, 'KB', { stable: true });
  assert.deepEqual(it.values(), { 'part/case/module': 2, 'part/bytes': 6 });
});

test('the order of the kinds alternates', async () => {
  const order = [];
  const sample = inTurn({ plain: () => order.push('p'),
    module: () => order.push('m') });
  await sample();
  await sample();
  assert.equal(order.join(''), 'pmmp');
});

test('the exponent is that of the upper half of a curve', () => {
  const curve = (power) => [1, 4, 16, 64, 256, 1024].map((n) =>
    [n, 1000 + n ** power]);
  const near = (value, wanted) =>
    assert.ok(Math.abs(value - wanted) < 0.35, String(value));
  near(exponent(curve(2)), 2);
  assert.ok(exponent(curve(1)) < 1);
  assert.equal(exponent([[1, 5], [10, 50], [100, 500]]).toFixed(3), '1.000');
});

test('the page marks a goal that is missed', () => {
  const ratios = { good: { ratio: 1, goal: 2, low: 1, high: 1 },
    bad: { ratio: 3, goal: 2, low: 3, high: 3 } };
  const text = page({ a: { title: 'A', about: '', text: '', ratios } }, ['a'],
    'machine');
  assert.match(text, /\| good .*\| yes \|/);
  assert.match(text, /\| bad .*\| \*\*no\*\* \|/);
});
