/*
 * status.mjs: the cost of a chat_status request while thousands of requests
 * wait.
 *
 * Two workers hold half-answered requests, each of a batch of its own. Scrapes
 * go one after the other over one connection, beside small requests that would
 * be late if a worker blocked.
 */
import http from 'node:http';
import { pause, until } from '../../t/lib/harness.mjs';
import { body, half } from '../bodies.mjs';
import { frames } from '../frames.mjs';
import { quantile } from '../measure.mjs';
import { fixed, table } from '../report.mjs';
import {
  clients, provider, request, server, spent, stream,
} from '../stage.mjs';

const keep = () => new http.Agent({ keepAlive: true, maxSockets: 1 });

/* ms of a GET, and its text. */
function timed(port, agent, uri) {
  return new Promise((resolve, reject) => {
    const start = performance.now();
    http.get({ port, host: '127.0.0.1', path: uri, agent }, (response) => {
      const pieces = [];
      response.on('data', (piece) => pieces.push(piece));
      response.on('end', () => resolve({ ms: performance.now() - start,
        text: Buffer.concat(pieces).toString() }));
    }).on('error', reject);
  });
}

/* The small requests of one connection until the returned function: ms. */
function beside(port) {
  const agent = keep();
  const found = [];
  let on = true;
  const done = (async () => {
    while (on) {
      found.push((await timed(port, agent, '/small')).ms);
      await pause(2);
    }
    agent.destroy();
  })();
  return async () => {
    on = false;
    await done;
    return found;
  };
}

/* This many scrapes in a row; cpu: ms of the workers for one. */
async function scrape(n, uri, count) {
  const agent = keep();
  const before = spent(n.workers());
  const found = [];
  let text;
  for (let i = 0; i < count; i++) {
    const one = await timed(n.port, agent, uri);
    found.push(one.ms);
    ({ text } = one);
  }
  agent.destroy();
  return { found, text, cpu: (spent(n.workers()) - before) / 1000 / count };
}

export default { title: 'Status', async run(bench) {
  const [holds, scrapes] = bench.pick([300, 30], [5000, 300]);
  const upstream = await provider(bench);
  stream('small', frames('openai_chat', 'text', 2).events);
  const n = await server(bench, { upstream, workers: 2,
    lines: 'chat_hold 10m grace=10m; chat_limits held=8192;' });
  const now = async () => JSON.parse((await timed(n.port, undefined,
    '/status')).text);
  const idle = await scrape(n, '/status', scrapes);
  const file = request('status', { path: '/v1/chat/completions', query: 'q=1',
    body: body('chat', 1, half()) });
  const { child } = clients(bench, n.port, file, { connections: holds,
    ramp: 100 });
  await until(async () => (await now()).holds.now === holds, 20000, 'holds');

  const stopAlone = beside(n.port);
  await pause(bench.pick(200, 2000));
  const alone = await stopAlone();
  const stop = beside(n.port);
  const json = await scrape(n, '/status', scrapes);
  const text = await scrape(n, '/status?format=prometheus', scrapes);
  const small = await stop();
  const { batches } = JSON.parse(json.text);
  child.kill();
  await until(async () => (await now()).holds.now === 0, 20000, 'no holds');

  bench.figure('status/a scrape, p99', quantile([...json.found,
    ...text.found], 0.99), 'ms', { goal: 50 });
  const line = (name, list, one) => [name, list.length,
    ...[0.5, 0.99, 1].map((q) => fixed(quantile(list, q))),
    one?.text.length ?? '', one ? fixed(one.cpu) : ''];
  return `Two workers, ${holds} held requests; ${batches.length} of the batches
are shown. The client shares the machine.

${table(['', 'n', 'p50, ms', 'p99, ms', 'most, ms', 'bytes', 'CPU, ms'], [
    line('JSON, nothing waits', idle.found, idle),
    line('JSON', json.found, json),
    line('Prometheus text', text.found, text),
    line('a small request without scrapes', alone),
    line('a small request beside the scrapes', small)])}`;
} };
