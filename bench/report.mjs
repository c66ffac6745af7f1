/*
 * report.mjs: RESULTS.md from results.json: what each part has written, and
 * every value that has a goal.
 *
 * A run replaces the parts that it has measured; the others stay as they are,
 * with the date of their own run.
 */
import { existsSync, readFileSync } from 'node:fs';

const row = (cells) => `| ${cells.join(' | ')} |`;

/* A table of Markdown; rows are lists of cells. */
export const table = (head, rows) => [row(head), row(head.map(() => '---')),
  ...rows.map(row)].join('\n');

export const fixed = (value, digits = 2) => value.toFixed(digits);
const percent = (ratio) => `${(100 / ratio).toFixed(0)} %`;

/* The cells of a ratio: its value, median and spread; costs in µs. */
export const cells = ({ ratio, median, low, high }) =>
  [`**${fixed(ratio)}**`, `${fixed(median)} (${fixed(low)} to ${
    fixed(high)})`];
export const share = ({ ratio }) => percent(ratio);
export const goalOf = ({ ratio, goal }) => (goal === undefined ? ''
  : `${fixed(goal)}${ratio <= goal ? '' : ', missed'}`);

export const read = (file) => (existsSync(file)
  ? JSON.parse(readFileSync(file, 'utf8')) : {});

/* The rows of all values with a goal. */
function goals(parts) {
  return Object.values(parts).flatMap(({ ratios = {}, figures = {} }) => [
    ...Object.entries(ratios).filter(([, { goal }]) => goal !== undefined)
      .map(([name, { ratio, goal, low, high }]) => [name, `${fixed(ratio)} (${
        fixed(low)} to ${fixed(high)})`, `${fixed(goal)} x plain`,
      ratio <= goal ? 'yes' : '**no**']),
    ...Object.entries(figures).filter(([, { goal }]) => goal !== undefined)
      .map(([name, { value, unit, goal }]) => [name,
        `${value.toPrecision(3)} ${unit}`, `${goal} ${unit}`,
        value <= goal ? 'yes' : '**no**'])]);
}

/* The whole page; order: the names of the parts. */
export function page(parts, order, machine) {
  const list = order.filter((name) => parts[name]).map((name) => parts[name]);
  const found = goals(Object.fromEntries(list.map((one, i) => [i, one])));
  return `# Plain NGINX against NGINX with the module

\`make bench\` writes this page, [results.json](results.json) with every value,
and the [plots](plots). It fails if a value is more than a tenth worse than in
[baseline.json](baseline.json). \`node bench/run.mjs --save\` writes a new
baseline.

A cost is the CPU time that the kernel counts for nginx's worker. A ratio is
the module's least cost of all rounds divided by plain NGINX's least cost of
the same rounds: other programs on the machine can only add to a cost. In
brackets: the median of the ratios of single rounds, the least and the most.
Provider, NGINX and clients share the machine; plain and module take turns. In
Frames, Connections, Recorded, Bodies, Dialects and Growth they share one CPU,
because the worker's cost depends on which CPU does the kernel's work.
The machine of the last run: ${machine}.

## Goals

${table(['value', 'measured', 'at most', 'met'], found)}

${list.map(({ title, about, text }) => `## ${title}

${about}

${text.trim()}
`).join('\n')}`;
}
