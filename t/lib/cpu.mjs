/*
 * cpu.mjs: what work costs a worker, in CPU time.
 *
 * While a worker computes, its other clients wait. CPU time says how long,
 * whatever else the machine does. Caches and the other thread of a core can
 * only add to it, so the least of several plays is the truth: two costs are
 * played in turn until their least values fit, or too often.
 */
import { readFileSync } from 'node:fs';

/* Milliseconds that these processes have run. */
export const cpu = (...pids) => pids.reduce((sum, pid) => sum
  + Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]),
0) / 1e6;

/* The CPU time of nginx's workers while work() runs, in ms. */
export async function cost(n, work) {
  const pids = n.workers();
  const before = cpu(...pids);
  await work();
  return cpu(...pids) - before;
}

/*
 * attack() and usual() play once and give their cost; fits(attack, usual)
 * judges the least of each. Returns {attack, usual, fits}, after 3 to 12 plays
 * of both.
 */
export async function compare(attack, usual, fits) {
  const least = { attack: Infinity, usual: Infinity, fits: false };
  for (let i = 0; i < 12 && !least.fits; i++) {
    least.usual = Math.min(least.usual, await usual());
    least.attack = Math.min(least.attack, await attack());
    least.fits = i >= 2 && fits(least.attack, least.usual);
  }
  return least;
}
