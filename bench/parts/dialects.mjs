/*
 * dialects.mjs: what a request of the other dialects costs a worker, by its
 * transcript; bodies.mjs has those of OpenAI Chat.
 */
import { table } from '../report.mjs';
import { provider, request, server, stream } from '../stage.mjs';
import { bodyOf, transcripts } from '../transcripts.mjs';
import { row } from './bodies.mjs';

/* The greatest ratios, as in bodies.mjs. */
const goals = {
  chat: { fresh: { 30: 100 / 65 }, continuation: { 30: 100 / 55 } },
  agent: { fresh: { 30: 2, 2000: 2.5 }, continuation: { 30: 2, 2000: 2.5 } },
};

export default { title: 'Dialects', oneCpu: true, async run(bench) {
  const upstream = await provider(bench);
  const plain = await server(bench, { upstream, module: false });
  const it = await server(bench, { upstream });
  const rows = [];
  for (const [key, { path, final }] of Object.entries(transcripts)) {
    stream(`final-${key}`, final);
    for (const [kb, kinds] of [[30, ['chat', 'agent']],
      ...bench.pick([], [[2000, ['agent']]])]) {
      for (const kind of kinds) {
        for (const turn of ['fresh', 'continuation']) {
          const file = request(`${key}-${kind}-${turn}-${kb}`, { path,
            query: `f=final-${key}`, tenant: 'bench',
            body: bodyOf(key, kind, kb, turn) });
          rows.push(await row(bench, plain, it, { part: 'dialects', group: key,
            kb, kind, turn, file, most: goals[kind][turn][kb] }));
        }
      }
    }
  }
  return `As in Bodies; the store is shm.

${table(['dialect', 'body', 'transcript', 'turn', 'plain, µs', 'module, µs',
    'x plain', 'median (spread)', 'requests', 'at most'], rows)}`;
} };
