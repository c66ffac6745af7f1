/*
 * handled.mjs: waits until nginx has worked off what was sent to it, however
 * slow the machine is.
 *
 * A process that sleeps in the kernel has no input left, and one that has run
 * in between has slept more often. So nothing is left to do if the workers
 * sleep, then each store sleeps, and the workers have not run since. What
 * passes through this process (a provider, a relay) gets a turn in between.
 */
import { readFileSync } from 'node:fs';
import { patience, pause } from './wait.mjs';

/* How often a process has slept; '' if it does not sleep now. */
function sleeps(pid) {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    return /^State:\s+[STZX]/m.test(status)
      ? /^voluntary_ctxt_switches:\s+(\d+)/m.exec(status)[1] : '';
  } catch {
    return 'gone';
  }
}

/* The Redis servers and Sentinels of this process. */
const stores = () =>
  readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, 'utf8')
    .split(' ').filter(Boolean).filter((pid) => {
      try {
        return /^redis/.test(readFileSync(`/proc/${pid}/comm`, 'utf8'));
      } catch {
        return false;
      }
    });

/* One number per worker; '' if one of them runs. */
function workersOf(nodes) {
  const counts = nodes.flatMap((n) => n.workers().map(sleeps));
  return counts.includes('') ? '' : counts.join();
}

/* ms after which a worker has got to what was sent to it, usually. */
const calm = process.env.CHAT_ASAN ? 300 : 100;

/*
 * Waits until these requests are sent, and ms later until what they have
 * caused is done. of: an nginx, or a scene or batch, which has some. Gives up
 * after a while: under heavy traffic no worker sleeps.
 */
export async function handled(of, answers = [], ms = calm) {
  await Promise.all(answers.map(({ sent }) => sent));
  await pause(ms);
  const nodes = of.nodes ?? [of.n ?? of];
  const end = Date.now() + 1500 * patience;
  let before = workersOf(nodes);
  for (let same = 0; same < 3 && Date.now() < end;) {
    await pause(5);
    for (const pid of stores()) {
      while (!sleeps(pid) && Date.now() < end) {
        await pause(1);
      }
    }
    const now = workersOf(nodes);
    same = now && now === before ? same + 1 : 0;
    before = now;
  }
  /* what they have sent to this process last */
  await pause(1);
}
