/*
 * bodies.mjs: what a request costs a worker by the size of its body, and how
 * many requests one worker serves; the same for Portkey's gateway, which also
 * reads the bodies of chats.
 *
 * 32 connections send one request after the other; the answer is small. A
 * worker that has nothing else to do serves 100/ratio percent of the requests
 * of plain NGINX.
 */
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import { answers, until } from '../../t/lib/wait.mjs';
import { body, complete } from '../bodies.mjs';
import { frames } from '../frames.mjs';
import { inTurn } from '../measure.mjs';
import { cells, fixed, goalOf, share, table } from '../report.mjs';
import {
  built, cost, newStore, provider, request, send, server, spent, stream,
} from '../stage.mjs';

const path = '/v1/chat/completions';
const connections = 32;
const turns = { fresh: [], continuation: complete() };

/* The greatest ratios: the wanted shares of requests, and of large bodies. */
const goals = {
  fresh: { 2: 100 / 80, 30: 100 / 65, 2000: 2.5 },
  continuation: { 2: 100 / 65, 30: 100 / 55, 2000: 2.5 },
  redis: { 2: 2, 30: 100 / 45, 2000: 2.5 },
};
const goal = (store, turn, kb) => goals[store === 'redis'
  && turn === 'continuation' ? 'redis' : turn][kb];

const count = (bench, kb) =>
  Math.max(connections, Math.ceil(bench.pick(1e5, 2e6) / (kb + 30) / 30));

/* Exact versions; later ones of the server cannot stream an answer. */
const portkey = { private: true,
  dependencies: { '@portkey-ai/gateway': '1.15.2' },
  overrides: { '@hono/node-server': '1.3.3', hono: '4.9.7' } };

/* A port that is free on all addresses: the gateway listens on all. */
async function freePort() {
  const probe = net.createServer();
  await new Promise((resolve) => { probe.listen(0, resolve); });
  const { port } = probe.address();
  await new Promise((resolve) => { probe.close(resolve); });
  return port;
}

/* The gateway, {port, pid}; null where npm cannot install it. */
async function gateway(bench) {
  const folder = join(built, 'portkey');
  const script = join(folder,
    'node_modules/@portkey-ai/gateway/build/start-server.js');
  if (!existsSync(script)) {
    if (bench.quick) {
      process.stderr.write('Portkey is skipped: --quick installs nothing\n');
      return null;
    }
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'package.json'), JSON.stringify(portkey));
    try {
      execFileSync('npm', ['install', '--prefix', folder, '--ignore-scripts',
        '--no-audit', '--no-fund'], { stdio: 'ignore', timeout: 120000 });
    } catch (error) {
      process.stderr.write(`Portkey is skipped: ${error.message}\n`);
      return null;
    }
  }
  const port = await freePort();
  const child = spawn(process.execPath,
    [script, '--headless', `--port=${port}`], { stdio: 'ignore' });
  bench.after(() => child.kill());
  await until(() => answers(port), 20000, 'Portkey');
  return { port, pid: child.pid };
}

/* The same body to plain NGINX and to the gateway, with its two headers. */
async function gatewayRow(bench, it, plain, upstream, kb) {
  const file = request(`portkey-${kb}`, { path, query: 'f=small',
    body: body('chat', kb), headers: { 'x-portkey-provider': 'openai',
      'x-portkey-custom-host': `http://127.0.0.1:${upstream}/v1` } });
  const times = Math.ceil(count(bench, kb) / connections / 2);
  const found = await bench.compare(`bodies/portkey/${kb} KB`, inTurn({
    plain: async () => (await cost(bench, plain, file,
      { connections, times })).cost / connections / times,
    portkey: async () => {
      const before = spent([it.pid]);
      await send(bench, it.port, file, { connections, times });
      return (spent([it.pid]) - before) / connections / times;
    } }), { rounds: 3, others: ['portkey'] });
  const one = found.portkey;
  return ['Portkey', `${kb} KB`, 'chat', 'fresh', fixed(one.plain, 0),
    fixed(one.cost, 0), ...cells(one), share(one), ''];
}

const written = ({ kb, kind, turn }) =>
  request(`body-${kind}-${turn}-${kb}`, { path, query: 'f=small',
    tenant: 'bench', body: body(kind, kb, turns[turn]) });

/*
 * Fills a tenant's share of a zone, as a server that has run for a while has
 * it: at the first use of a page the kernel clears it, once.
 */
const fill = (bench, it) => send(bench, it.port,
  written({ kb: 2, kind: 'chat', turn: 'continuation' }),
  { connections, times: 500 });

/* One row. part: of the bench; group: its store, or its dialect. */
export async function row(bench, plain, it,
  { part, group, kb, kind, turn, file, most }) {
  const times = Math.ceil(count(bench, kb) / connections);
  const measured = (one) => async () => (await cost(bench, one, file,
    { connections, times })).cost / connections / times;
  const { module } = await bench.compare(
    `${part}/${group}/${kb} KB ${kind} ${turn}`, inTurn({
      plain: measured(plain), module: measured(it) }),
    { goals: { module: most } });
  return [group, `${kb} KB`, kind, turn, fixed(module.plain, 0),
    fixed(module.cost, 0), ...cells(module), share(module), goalOf(module)];
}

export default { title: 'Bodies', oneCpu: true, async run(bench) {
  const upstream = await provider(bench);
  stream('small', frames('openai_chat', 'text', 2).events);
  const plain = await server(bench, { upstream, module: false });
  const sizes = bench.pick([2, 30], [2, 30, 1000, 2000]);
  const rows = [];
  for (const name of ['shm', 'redis']) {
    const { store, server: redis } = await newStore(bench,
      name === 'shm' ? 'shm:64m' : name);
    const it = await server(bench, { upstream, store, redis });
    await fill(bench, it);
    for (const kb of sizes) {
      for (const kind of ['chat', 'agent']) {
        for (const turn of Object.keys(turns)) {
          rows.push(await row(bench, plain, it, { part: 'bodies', group: name,
            kb, kind, turn, file: written({ kb, kind, turn }),
            most: goal(name, turn, kb) }));
        }
      }
    }
  }
  const other = await gateway(bench);
  for (const kb of other ? sizes.slice(0, 3) : []) {
    rows.push(await gatewayRow(bench, other, plain, upstream, kb));
  }
  return `One worker, ${connections} connections, \`client_body_buffer_size
4m\`. The tenant's share of the zone is full. \`requests\` is the share of
plain NGINX's requests per second that a worker serves. Portkey's gateway (${
  Object.entries(portkey.dependencies)[0].join(' ')}) is one process of Node.

${table(['store', 'body', 'transcript', 'turn', 'plain, µs', 'module, µs',
    'x plain', 'median (spread)', 'requests', 'at most'], rows)}`;
} };
