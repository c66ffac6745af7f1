/*
 * recorded.mjs: what chat_record on costs, over each store.
 */
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
    const found = await bench.compare(`recorded/${kind}`, inTurn(
      Object.fromEntries(Object.entries(servers).map(([who, it]) => [who,
        async () => (await cost(bench, it, file)).cost / events.length]))),
    { goals });
    rows.push(...Object.entries(found).map(([who, one]) => [kind, who,
      fixed(one.cost), ...cells(one), goalOf(one)]));
  }
  return `One worker, one stream of OpenAI Chat of ${bench.pick(4096, 65536)}
events as fast as they come; \`module\` is without a recording.

${table(['frames', 'store', 'µs an event', 'x plain', 'median (spread)',
    'at most'], rows)}`;
} };
