/*
 * recorded.mjs: what chat_record on costs, over each store.
 */
import { pause } from '../../t/lib/wait.mjs';
import { dialects } from '../../t/lib/dialects.mjs';
import { frames } from '../frames.mjs';
import { inTurn } from '../measure.mjs';
import { cells, fixed, goalOf, table } from '../report.mjs';
import {
  cost, newStore, provider, request, server, stream,
} from '../stage.mjs';

const key = 'openai_chat';
const cases = {
  text: { shm: 2, redis: 2.5 },
  'tool input': { shm: 3, redis: 3.5 },
};

/*
 * The cost of a round of which Redis has the recording: one that it cannot
 * take as fast as it comes is given up, and its clients keep their answer.
 */
async function kept(server, round) {
  for (let tries = 0; tries < 20; tries++) {
    await server.command('FLUSHALL');
    const spent = await round();
    await pause(100);
    if ((await server.command('KEYS', 'chat:{*:l')).length) {
      return spent;
    }
  }
  throw new Error('Redis has taken no recording');
}

export default { title: 'Recorded', oneCpu: true, async run(bench) {
  const upstream = await provider(bench);
  const store = await newStore(bench, 'redis');
  const lines = 'chat_conversation $http_x_talk; chat_record on;';
  const servers = {
    plain: await server(bench, { upstream, module: false }),
    module: await server(bench, { upstream }),
    shm: await server(bench, { upstream, lines }),
    redis: await server(bench, { upstream, lines, store: store.store,
      redis: store.server }),
  };
  const rows = [];
  for (const [kind, goals] of Object.entries(cases)) {
    const { events, body } = frames(key, kind, bench.pick(4096, 65536));
    const name = `recorded-${kind.replace(' ', '-')}`;
    const file = request(name, { path: dialects[key].path, body,
      query: `f=${stream(name, events)}`, headers: { 'X-Talk': '#SERIAL#' } });
    const round = (it) => async () =>
      (await cost(bench, it, file)).cost / events.length;
    const found = await bench.compare(`recorded/${kind}`, inTurn({
      plain: round(servers.plain), module: round(servers.module),
      shm: round(servers.shm),
      redis: () => kept(store.server, round(servers.redis)) }), { goals });
    rows.push(...Object.entries(found).map(([who, one]) => [kind, who,
      fixed(one.cost), ...cells(one), goalOf(one)]));
  }
  return `One worker, one stream of OpenAI Chat of ${bench.pick(4096, 65536)}
events as fast as they come; \`module\` is without a recording. Rounds count
of which Redis has the recording: faster ones are given up.

${table(['frames', 'store', 'µs an event', 'x plain', 'median (spread)',
    'at most'], rows)}`;
} };
