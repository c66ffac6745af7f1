/*
 * cpu.mjs: the CPU time that work costs a worker.
 *
 * While a worker computes, its other clients wait. CPU time measures how long,
 * independent of the machine's load. Caches and the other thread of a core can
 * only add to it, so the least of several runs counts: two costs are measured
 * in turn until their least values fit, or a limit is reached.
 */
import { readFileSync } from 'node:fs';

/* CPU time of these processes, in ms. */
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
 * attack() and usual() run once and return their cost; fits(attack, usual)
 * compares the least of each. Returns {attack, usual, fits} after 3 to 12 runs
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
