/*
 * measure.mjs: ratios and figures, and their comparison with the baseline.
 *
 * The machine is shared, and its speed changes within seconds. What costs CPU
 * time can only be measured too high, so the least cost of several rounds
 * counts, and all kinds are measured in each round, in turn. A ratio is the
 * least cost of a kind divided by the least cost of plain nginx in the same
 * rounds. Beside it the table has the median and the spread of the ratios of
 * single rounds.
 */

/* How much worse than the baseline a value may be. */
const tolerance = 1.1;

const sorted = (list) => [...list].sort((a, b) => a - b);
export const quantile = (list, q) =>
  sorted(list)[Math.min(list.length - 1, Math.floor(list.length * q))];
export const median = (list) => quantile(list, 0.5);

/* Measures each of {kind: function} once; the order alternates. */
export function inTurn(kinds) {
  let turn = 0;
  return async () => {
    const names = Object.keys(kinds);
    const costs = {};
    for (const name of turn++ % 2 ? names.reverse() : names) {
      costs[name] = await kinds[name](turn);
    }
    return costs;
  };
}

/* The ratio of a kind to plain in the rounds that measured both. */
function ratioOf(rounds, kind) {
  const both = rounds.filter((round) => round[kind] !== undefined
    && round.plain !== undefined);
  const least = (name) => Math.min(...both.map((round) => round[name]));
  const pairs = sorted(both.map((round) => round[kind] / round.plain));
  return { ratio: least(kind) / least('plain'), cost: least(kind),
    plain: least('plain'), median: median(pairs), low: pairs[0],
    high: pairs.at(-1), rounds: both.length };
}

export class Measure {
  /* quick: one round, and nothing is compared with the baseline. */
  constructor({ baseline, quick, rounds }) {
    Object.assign(this, { baseline: quick ? {} : baseline, quick, rounds,
      ratios: {}, figures: {}, worse: [] });
  }

  /* Whether a value is worse than the baseline's by more than a tenth. */
  regressed(name, value) {
    return value > this.baseline[name] * tolerance;
  }

  note(name, value) {
    if (this.regressed(name, value)) {
      this.worse.push({ name, value, before: this.baseline[name] });
    }
  }

  /*
   * Measures rounds of sample(), which returns {plain, kind: cost, ...}, and
   * returns {kind: ratio}. options: rounds (default: of the run), warm (rounds
   * that do not count), goals {kind: ratio}, others (kinds that are not ours:
   * never compared with the baseline). A kind that is worse than its baseline
   * is measured twice more before it counts as worse.
   */
  async compare(name, sample, options = {}) {
    const { goals = {}, others = [], warm = 1 } = options;
    const count = this.quick ? 1 : options.rounds ?? this.rounds;
    const rounds = [];
    for (let i = 0; i < (this.quick ? 0 : warm); i++) {
      await sample();
    }
    const ours = () => Object.keys(Object.assign({}, ...rounds))
      .filter((kind) => kind !== 'plain' && !others.includes(kind));
    const bad = () => ours().some((kind) =>
      this.regressed(`${name}/${kind}`, ratioOf(rounds, kind).ratio));
    for (let i = 0; i < count || (i < 3 * count && bad()); i++) {
      rounds.push(await sample());
    }

    const found = {};
    const all = [...ours(), ...others.filter((kind) => kind in rounds[0])];
    for (const kind of all) {
      found[kind] = { ...ratioOf(rounds, kind), goal: goals[kind],
        other: others.includes(kind) };
      this.ratios[`${name}/${kind}`] = found[kind];
      if (!others.includes(kind)) {
        this.note(`${name}/${kind}`, found[kind].ratio);
      }
    }
    process.stderr.write(`${name}: ${Object.entries(found).map(
      ([kind, one]) => `${kind} ${one.ratio.toFixed(2)}`).join(', ')}\n`);
    return found;
  }

  /*
   * A value of its own unit, for which less is better. options: goal; stable:
   * it does not depend on the load, so the baseline has it.
   */
  figure(name, value, unit, { goal, stable = false } = {}) {
    this.figures[name] = { value, unit, goal, stable };
    if (stable) {
      this.note(name, value);
    }
    process.stderr.write(`${name}: ${value.toPrecision(3)} ${unit}\n`);
    return value;
  }

  /* What --save writes: every value that is compared. */
  values() {
    const round = (value) => Number(value.toPrecision(4));
    return Object.fromEntries([
      ...Object.entries(this.ratios).filter(([, { other }]) => !other)
        .map(([name, { ratio }]) => [name, round(ratio)]),
      ...Object.entries(this.figures).filter(([, { stable }]) => stable)
        .map(([name, { value }]) => [name, round(value)])]);
  }
}
