/*
 * status.mjs: the cost of a chat_status request while thousands of requests
 * wait.
 *
 * Two workers hold 5,000 half-answered requests, each of a batch of its own.
 * Scrapes go one after the other over one connection, beside small requests
 * that would be late if a worker blocked. CPU time of a scrape from the
 * kernel. Writes STATUS.md beside this file; --quick, with fewer holds: into
 * build/bench.
 */
import http from 'node:http';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { modulePath, nginx, root, unbuilt, until } from '../t/lib/harness.mjs';
import { dialects, newCalls } from '../t/lib/dialects.mjs';

const quick = process.argv.includes('--quick');
const holds = quick ? 300 : 5000;
const scrapes = quick ? 30 : 300;
const target = 50; /* ms, of one scrape */

const stops = [];
const context = { after: (stop) => stops.push(stop) };

const configuration = (dir, [port]) => `load_module ${modulePath};
${process.getuid() === 0 ? 'user root;' : ''}
daemon off;
pid ${dir}/nginx.pid;
error_log ${dir}/error.log warn;
worker_processes 2;
worker_rlimit_nofile 16384;
events { worker_connections 8192; }
http {
    ${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((name) => `${name}_temp_path ${dir}/${name};`).join('\n    ')}
    access_log off;
    keepalive_requests 1000000;
    chat_store shm:64m;
    chat_tenant bench;
    server {
        listen 127.0.0.1:${port} reuseport backlog=8192;
        location /v1/ {
            chat openai_chat;
            chat_hold 10m grace=10m;
            chat_limits held=8192;
            proxy_pass http://127.0.0.1:9;
        }
        location = /status { chat_status; }
        location = /small { return 200 "small"; }
    }
}
`;

const { path, headers, calls, continuation } = dialects.openai_chat;

/* A held request: one of two results. */
function wait(port, agent) {
  const two = newCalls(2, 'call_');
  const body = JSON.stringify(continuation({ from: calls({ calls: two }),
    results: { [two[0].id]: 1 } }));
  const request = http.request({ port, host: '127.0.0.1', path, agent,
    method: 'POST', headers: { ...headers, authorization: 'Bearer x',
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body) } });
  request.on('error', () => {});
  request.end(body);
  return request;
}

/* ms of a GET, and its text. */
function timed(port, agent, uri) {
  return new Promise((resolve, reject) => {
    const start = process.hrtime.bigint();
    http.get({ port, host: '127.0.0.1', path: uri, agent }, (response) => {
      const pieces = [];
      response.on('data', (piece) => pieces.push(piece));
      response.on('end', () => resolve({
        ms: Number(process.hrtime.bigint() - start) / 1e6,
        text: Buffer.concat(pieces).toString() }));
    }).on('error', reject);
  });
}

const onCpu = (pids) => pids.reduce((sum, pid) => sum + Number(
  readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]), 0) / 1e6;

const keep = () => new http.Agent({ keepAlive: true, maxSockets: 1 });

/* The small requests of one connection until stop(): their ms. */
function beside(port) {
  const agent = keep();
  const found = [];
  let on = true;
  const done = (async () => {
    while (on) {
      found.push((await timed(port, agent, '/small')).ms);
      await new Promise((resolve) => { setTimeout(resolve, 2); });
    }
    agent.destroy();
  })();
  return async () => {
    on = false;
    await done;
    return found;
  };
}

const quantile = (list, q) => [...list].sort((a, b) => a - b)[
  Math.min(list.length - 1, Math.floor(list.length * q))];
const row = (cells) => `| ${cells.join(' | ')} |`;
const line = (name, list, ...more) => row([name, list.length,
  ...[0.5, 0.99, 1].map((q) => quantile(list, q).toFixed(2)), ...more]);

/* This many scrapes in a row. */
async function scrape(n, uri) {
  const agent = keep();
  const before = onCpu(n.workers());
  const found = [];
  let text;
  for (let i = 0; i < scrapes; i++) {
    const one = await timed(n.port, agent, uri);
    found.push(one.ms);
    ({ text } = one);
  }
  agent.destroy();
  return { found, text, cpu: (onCpu(n.workers()) - before) / scrapes };
}

async function main() {
  if (unbuilt) {
    throw new Error(unbuilt);
  }
  const load = os.loadavg()[0];
  const n = await nginx(context, { workers: 2, conf: configuration });
  const agent = new http.Agent({ maxSockets: Infinity });
  const now = async () =>
    JSON.parse((await timed(n.port, agent, '/status')).text);
  const idle = await scrape(n, '/status');
  const waiting = [];
  while (waiting.length < holds) {
    for (let i = 0; i < 100; i++) {
      waiting.push(wait(n.port, agent));
    }
    await until(async () => (await now()).holds.now === waiting.length, 20000);
  }

  const stopAlone = beside(n.port);
  await new Promise((resolve) => { setTimeout(resolve, quick ? 200 : 2000); });
  const alone = await stopAlone();
  const stop = beside(n.port);
  const json = await scrape(n, '/status');
  const text = await scrape(n, '/status?format=prometheus');
  const small = await stop();
  const { holds: { now: held }, batches } = JSON.parse(json.text);
  waiting.forEach((request) => request.destroy());
  await until(async () => (await now()).holds.now === 0, 20000);

  const head = ['', 'n', 'p50, ms', 'p99, ms', 'most, ms', 'bytes', 'CPU, ms'];
  const size = (one) => [one.text.length, one.cpu.toFixed(2)];
  const met = quantile([...json.found, ...text.found], 0.99) <= target;
  const page = `# Asking chat_status while ${held} requests wait

Written by \`node bench/status.mjs${quick ? ' --quick' : ''}\`, ${
  new Date().toISOString().slice(0, 16).replace('T', ' ')} UTC; load average
${load.toFixed(1)} before. ${os.cpus()[0].model.trim()}, ${
  os.cpus().length} cores, node ${process.version}.

Two workers; ${batches.length} of the batches are shown. The client shares the
machine. A scrape has at most ${target} ms (p99):
**${met ? 'met' : 'not met'}**.

${row(head)}
${row(head.map(() => '---'))}
${line('JSON, nothing waits', idle.found, ...size(idle))}
${line('JSON', json.found, ...size(json))}
${line('Prometheus text', text.found, ...size(text))}
${line('a small request without scrapes', alone, '', '')}
${line('a small request beside the scrapes', small, '', '')}
`;
  const folder = join(root, quick ? 'build/bench' : 'bench');
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'STATUS.md'), page);
  console.log(page);
  return met ? 0 : 1;
}

let status = 1;
try {
  status = await main();
} catch (error) {
  console.error(error.message);
}
for (const stop of stops.reverse()) {
  await stop();
}
process.exit(status);
