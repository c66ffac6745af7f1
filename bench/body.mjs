/*
 * body.mjs: what a request body costs a worker, and how many requests of a
 * size one worker serves, with and without the module.
 *
 * Bodies of 2 KB to 2 MB: a chat, and an agent's transcript, which is mostly
 * tool calls and results; each as a fresh turn and as a complete continuation
 * of a batch of its own. The answer is small. CPU time of the worker from the
 * kernel (schedstat), plain and module alternately, and the ratio of each
 * pair; page faults of the worker. A worker that has nothing else to do serves
 * 100/ratio percent of the requests of plain nginx. Writes the part "Bodies"
 * of RESULTS.md beside this file.
 * --quick: a smoke run, which writes nothing; --rounds=N, --kb=2,30,
 * --kinds=chat,agent, --turns=fresh,continuation, --stores=shm,redis,
 * --connections=N, --buffer=SIZE (client_body_buffer_size).
 */
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { nginx, root } from '../t/lib/harness.mjs';
import { cpu } from '../t/lib/cpu.mjs';
import { redis } from '../t/lib/redis/redis.mjs';
import { context, number, option, part, quick } from './part.mjs';

const list = (name, usual) => (option(name)?.[1] ?? usual).split(',');
const rounds = number('rounds', quick ? 1 : 7);
const sizes = list('kb', quick ? '2,30' : '2,30,1000,2000').map(Number);
const kinds = list('kinds', 'chat,agent');
const turns = list('turns', 'fresh,continuation');
const stores = list('stores', 'shm,redis');
const connections = number('connections', 32);
const buffer = option('buffer')?.[1] ?? '4m';
const built = join(root, 'build', 'bench');

/* Text as people write it, and as tools return it. */
const prose = 'The station reports rain until noon, then a dry wind from the '
  + 'west. "Take a coat," says the café owner.\nOn Tuesday it will be warmer; '
  + 'most of the paths in the valley should be open again by then. ';
const source = 'static int\nread_line(const char *p)\n{\n\tif (p == NULL) {\n'
  + '\t\tfail("no line at \\"%s\\"", p);\n\t}\n\n\treturn *p != \'\\n\';\n}\n';
const cut = (text, length, at) =>
  text.repeat(Math.ceil(length / text.length) + 1)
    .slice(at % text.length, at % text.length + length);

const call = (id, at) => ({ id, type: 'function', function: {
  name: 'read_file', arguments: JSON.stringify({ path: `src/part${at}/main.c`,
    from: at, lines: 40, why: 'look for "read_line"' }) } });
const step = (ids, at) => [
  { role: 'assistant', content: null, tool_calls:
    ids.map((id) => call(id, at)) },
  ...ids.map((id) => ({ role: 'tool', tool_call_id: id,
    content: cut(source, 500, at) }))];

const turn = {
  chat: (at) => [{ role: 'user', content: cut(prose, 150, at) },
    { role: 'assistant', content: cut(prose, 900, at * 7) }],
  agent: (at) => step([`call_Zq7Kd93mVtLw5x${String(at).padStart(8, '0')}`],
    at),
};

/* A body of about kb KB; its last step has ids of each request's own. */
function body(kind, kb, fresh) {
  const user = { role: 'user', content: 'What is the matter?' };
  const last = fresh ? [user] : [...kind === 'agent' ? [] : [user],
    ...step(['call_Hs82nTb5qRcX1p#SERIAL#', 'call_Wm4Jf60kYgPz3v#SERIAL#'],
      0)];
  const messages = [{ role: 'system', content: 'You help.' }, user];
  const of = () => JSON.stringify({ model: 'm', stream: true, messages:
    [...messages, ...last], tools: [{ type: 'function', function: {
    name: 'read_file', parameters: { type: 'object' } } }] });
  let left = kb * 1024 - of().length;
  for (let at = 1; ; at++) {
    const more = turn[kind](at);
    left -= JSON.stringify(more).length - 1;
    if (left < 0) {
      return of();
    }
    messages.push(...more);
  }
}

function server(upstream, module, store) {
  const locations = `location / {
    ${module ? 'chat auto;' : ''} proxy_pass http://source;
    proxy_http_version 1.1; proxy_set_header Connection "";
    proxy_buffering off; client_body_buffer_size ${buffer};
    keepalive_requests 1000000; }`;
  return nginx(context, { module, store, connects: false, level: 'warn',
    locations, http: `access_log off; ${module ? 'chat_tenant bench;' : ''}
      upstream source { server 127.0.0.1:${upstream}; keepalive 64;
        keepalive_requests 1000000; }` });
}

/* Page faults of a process so far. */
const faults = (pid) =>
  Number(readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]
    .split(' ')[7]);

async function main() {
  mkdirSync(built, { recursive: true });
  execFileSync(process.env.CC ?? 'cc', ['-std=c11', '-O2', '-Wall', '-Wextra',
    '-o', join(built, 'body'), join(root, 'bench', 'body.c')],
  { stdio: 'inherit' });
  const child = spawn(join(built, 'body'),
    { stdio: ['pipe', 'pipe', 'inherit'] });
  context.after(() => child.kill());
  const lines = createInterface({ input: child.stdout })[
    Symbol.asyncIterator]();
  const next = async () => (await lines.next()).value;
  const port = Number(await next());

  /* CPU time and page faults of a worker for each request. */
  async function measure(it, file, count) {
    const [pid] = it.workers();
    const before = [cpu(pid), faults(pid)];
    child.stdin.write(`${it.port} ${connections} ${count} ${file}\n`);
    const [whole] = (await next()).split(' ').map(Number);
    if (whole !== count) {
      throw new Error(`${whole} of ${count} answers are whole`);
    }
    return { us: (cpu(pid) - before[0]) * 1000 / count,
      faults: (faults(pid) - before[1]) / count };
  }

  const plain = await server(port, false);
  const median = (values) =>
    [...values].sort((a, b) => a - b)[values.length >> 1];
  const rows = [];

  for (const store of stores) {
    const r = store === 'redis' ? await redis(context) : null;
    const it = await server(port, true, r ? r.url() : 'shm:64m');

    for (const kb of sizes) {
      const count = Math.ceil((quick ? 4e5 : 4e6) / (kb + 30) / 30);
      for (const kind of kinds) {
        for (const what of turns) {
          const file = join(built, `body-${kind}-${what}-${kb}.json`);
          writeFileSync(file, body(kind, kb, what === 'fresh'));
          await measure(plain, file, connections);
          await measure(it, file, connections);
          const seen = [];
          for (let round = 0; round < rounds; round++) {
            const pair = {};
            for (const key of round % 2 ? ['it', 'plain'] : ['plain', 'it']) {
              pair[key] = await measure({ it, plain }[key], file, count);
            }
            seen.push({ ...pair, ratio: pair.it.us / pair.plain.us });
          }
          const ratio = median(seen.map((pair) => pair.ratio));
          rows.push([store, `${kb} KB`, kind, what,
            ...['plain', 'it'].map((key) =>
              median(seen.map((pair) => pair[key].us)).toFixed()),
            ratio.toFixed(2), (100 / ratio).toFixed(),
            ...['plain', 'it'].map((key) =>
              median(seen.map((pair) => pair[key].faults)).toFixed(1))]);
          process.stderr.write(`${rows.at(-1).join(' ')}\n`);
        }
      }
    }
  }

  const row = (cells) => `| ${cells.join(' | ')} |`;
  return `One worker, ${connections} connections,
\`client_body_buffer_size ${buffer}\`; medians of ${rounds} pairs.

${row(['store', 'body', 'transcript', 'turn', 'plain, µs', 'module, µs',
    'module / plain', 'requests, %', 'faults, plain', 'module'])}
${row(Array(10).fill('---'))}
${rows.map(row).join('\n')}
`;
}

await part('Bodies', 'body.mjs', main);
