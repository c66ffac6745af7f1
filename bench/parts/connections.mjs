/*
 * connections.mjs: what an event costs on 1, 50 and 2,000 connections, as fast
 * as they read it and at the pace of a model; and the time to first byte.
 */
import { dialects } from '../../t/lib/dialects.mjs';
import { frames } from '../frames.mjs';
import { inTurn } from '../measure.mjs';
import { cells, fixed, table } from '../report.mjs';
import { cost, provider, request, send, server, stream } from '../stage.mjs';

const key = 'openai_chat';

/* us: between two events of a connection; ramp: between two connections. */
const cases = (pick) => [
  { name: '1, bulk', connections: 1, events: pick(2048, 98304) },
  { name: '50, bulk', connections: 50, events: pick(64, 2048) },
  { name: '2,000, bulk', connections: pick(200, 2000), events: 256 },
  { name: '1, paced', connections: 1, events: pick(100, 2000), us: 500 },
  { name: '50, paced', connections: 50, events: pick(20, 1000), us: 2000 },
  { name: '2,000, paced', connections: pick(200, 2000), events: pick(3, 30),
    us: 100000, ramp: 500 },
];

/* Of a stream of so many events in turn: its request's file. */
function file(name, events, us = 0) {
  const one = frames(key, 'text', events);
  return request(name, { path: dialects[key].path, body: one.body,
    query: `f=${stream(name, one.events)}${us ? `&us=${us}` : ''}` });
}

async function play(bench, servers, { name, connections, events, us = 0,
  ramp = 0 }) {
  const path = file(`conn-${connections}-${us}`, events, us);
  const seen = { plain: [], module: [] };
  const found = await bench.compare(`connections/${name}`, inTurn(
    Object.fromEntries(Object.keys(seen).map((who) => [who, async () => {
      const one = await cost(bench, servers[who], path,
        { connections, ramp });
      seen[who].push(one);
      if (one.sum !== seen.plain[0]?.sum && seen.plain.length) {
        throw new Error(`${name}: the bytes differ`);
      }
      return one.cost / events / connections;
    }]))), { rounds: us ? 3 : 5, warm: us ? 0 : 1 });
  const [plain, module] = Object.values(seen).map((list) =>
    Math.min(...list.map(({ p50 }) => p50)));
  return [name, connections * events, us ? `${us / 1000}` : '',
    fixed(found.module.plain), ...cells(found.module), fixed(plain, 0),
    fixed(module - plain, 0)];
}

/* One request after the other: µs to the first event, p50 of each round. */
async function first(bench, servers) {
  const path = file('first', 8);
  const times = bench.pick(50, 500);
  return bench.compare('connections/first byte', inTurn(Object.fromEntries(
    Object.entries(servers).map(([who, it]) => [who, async () =>
      (await send(bench, it.port, path, { times })).p50]))));
}

export default { title: 'Connections', oneCpu: true, async run(bench) {
  const upstream = await provider(bench);
  const servers = { plain: await server(bench, { upstream, module: false }),
    module: await server(bench, { upstream }) };
  const rows = [];
  for (const one of cases((...both) => bench.pick(...both))) {
    rows.push(await play(bench, servers, one));
  }
  const { module } = await first(bench, servers);
  const more = bench.figure('connections/first byte, more than plain',
    module.cost - module.plain, 'µs', { goal: 50 });
  return `Text of OpenAI Chat, one worker. Bulk: as fast as the clients read;
paced: each event in a write of its own, one every so many ms on each
connection. With few events a connection the costs of its request count. The
first byte (least p50 of the rounds) waits for the other connections, too.

${table(['connections', 'events', 'ms apart', 'plain, µs an event', 'x plain',
    'median (spread)', 'first byte, plain, µs', 'module more'], rows)}

Time to first byte, one request after the other (least p50 of the rounds):
plain ${fixed(module.plain, 0)} µs, module ${fixed(module.cost, 0)} µs, ${
  fixed(more, 0)} µs more.`;
} };
