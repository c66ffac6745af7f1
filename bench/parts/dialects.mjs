/*
 * dialects.mjs: what a request of the other dialects costs a worker, by its
 * transcript; bodies.mjs has those of OpenAI Chat.
 */
import { inTurn } from '../measure.mjs';
import { cells, fixed, goalOf, share, table } from '../report.mjs';
import { cost, provider, request, server, stream } from '../stage.mjs';
import { bodyOf, transcripts } from '../transcripts.mjs';

const connections = 32;

/* The greatest ratios, as in bodies.mjs. */
const goals = {
  chat: { fresh: { 30: 100 / 65 }, continuation: { 30: 100 / 55 } },
  agent: { fresh: { 30: 2, 2000: 2.5 }, continuation: { 30: 2, 2000: 2.5 } },
};

async function row(bench, plain, it, { key, kind, turn, kb }) {
  const { path } = transcripts[key];
  const file = request(`${key}-${kind}-${turn}-${kb}`, {
    path, query: `f=final-${key}`, tenant: 'bench',
    body: bodyOf(key, kind, kb, turn) });
  const times = Math.max(1,
    Math.ceil(bench.pick(1e5, 1e6) / (kb + 30) / 30 / connections));
  const measured = (one) => async () => (await cost(bench, one, file,
    { connections, times })).cost / connections / times;
  const { module } = await bench.compare(
    `dialects/${key}/${kb} KB ${kind} ${turn}`, inTurn({
      plain: measured(plain), module: measured(it) }),
    { goals: { module: goals[kind][turn][kb] } });
  return [key, `${kb} KB`, kind, turn, fixed(module.plain, 0),
    fixed(module.cost, 0), ...cells(module), share(module), goalOf(module)];
}

export default { title: 'Dialects', oneCpu: true, async run(bench) {
  const upstream = await provider(bench);
  const plain = await server(bench, { upstream, module: false });
  const it = await server(bench, { upstream });
  const rows = [];
  for (const [key, { final }] of Object.entries(transcripts)) {
    stream(`final-${key}`, final);
    for (const [kb, kinds] of [[30, ['chat', 'agent']],
      ...bench.pick([], [[2000, ['agent']]])]) {
      for (const kind of kinds) {
        for (const turn of ['fresh', 'continuation']) {
          rows.push(await row(bench, plain, it, { key, kind, turn, kb }));
        }
      }
    }
  }
  return `As in Bodies; the store is shm.

${table(['dialect', 'body', 'transcript', 'turn', 'plain, µs', 'module, µs',
    'x plain', 'median (spread)', 'requests', 'at most'], rows)}`;
} };
