/*
 * part.mjs: shared by the benches that write one part of RESULTS.md each:
 * options, cleanup at the end, figures as cells of a table.
 *
 * A part keeps its position, a new one goes to the end; the others stay. With
 * --quick nothing is written.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { pause, root, unbuilt } from '../t/lib/harness.mjs';
import { Batch, told } from '../t/lib/batch.mjs';

/* --name or --name=value; undefined: not given. */
export const option = (name) => process.argv.map((arg) =>
  new RegExp(`^--${name}(?:=(.*))?$`).exec(arg)).find(Boolean);
export const quick = !!option('quick');
export const number = (name, usual) => Number(option(name)?.[1] ?? usual);

/* Like a test's context; clean() stops all that was started with it. */
const stops = [];
export const context = { after: (stop) => stops.push(stop),
  diagnostic: () => {} };
export async function clean() {
  for (const stop of stops.splice(0).reverse()) {
    await stop();
  }
}

/* Median, minimum and maximum. */
export function cell(list) {
  const all = [...list].sort((a, b) => a - b);
  return `${all[all.length >> 1].toFixed(0)} (${all[0].toFixed(0)}..${
    all.at(-1).toFixed(0)})`;
}

/* The longest time without a good answer for a client that sends batches. */
export async function outage(scene, over, options) {
  let last = performance.now();
  let worst = 0;
  while (!over.yes) {
    const batch = new Batch(scene, 2);
    const { word } = await told(batch.continue(batch.results(), options));
    const now = performance.now();
    if (word === 'final') {
      worst = Math.max(worst, now - last);
      last = now;
    }
    await pause(5);
  }
  return Math.max(worst, performance.now() - last);
}

function write(name, text) {
  const file = join(root, 'bench', 'RESULTS.md');
  const [before, after = ''] = readFileSync(file, 'utf8')
    .split(new RegExp(`\n## ${name}\n[^]*?(?=\n## |$)`));
  writeFileSync(file, `${before.trimEnd()}\n\n${text}${after}`);
}

/* Runs one bench; text() returns its part, after a line with the date. */
export async function part(name, script, text) {
  try {
    if (unbuilt) {
      throw new Error(unbuilt);
    }
    const rest = await text();
    const whole = `## ${name}

Written by \`node bench/${script}\`, ${new Date().toISOString()
    .slice(0, 16).replace('T', ' ')} UTC, load average ${
    os.loadavg()[0].toFixed(1)}. ${rest}`;
    process.stdout.write(whole);
    if (!quick) {
      write(name, whole);
    }
  } finally {
    await clean();
  }
  process.exit(0);
}
