/*
 * demo.mjs: the race of two tools, without the module and with it.
 *
 * A model asks for two tools at once. Two clients answer, each with the result
 * of its own tool: one at once, one a little later. The provider refuses a
 * conversation in which one of two results is missing. Runs it through plain
 * nginx and through nginx with the module, then stays up for trying by hand,
 * with the page of demo/ in a browser; --once: runs and exits, with 0 only if
 * both outcomes are as expected. It uses nginx.conf beside this file.
 */
import { spawn } from 'node:child_process';
import {
  chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync,
} from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { events } from '../t/lib/dialects/wire.mjs';
import { dialects } from '../t/lib/dialects.mjs';
import { post, root, until } from '../t/lib/harness.mjs';
import { configuration } from './configuration.mjs';
import { asking, provider } from './provider.mjs';

const once = process.argv.includes('--once');
const module = process.env.CHAT_MODULE
  ?? join(root, 'build', 'module', 'ngx_chat_module.so');
const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });
const say = (line = '') => console.log(line);

/* The time of each tool's result, in ms after the calls. */
const tools = [{ client: 'A', city: 'Rome', after: 50,
  result: { degrees: 31 } },
{ client: 'B', city: 'Oslo', after: 250, result: { degrees: 12 } }];

const stages = [
  { dialect: dialects.openai_chat, name: 'OpenAI Chat' },
  { dialect: dialects.anthropic, name: 'Anthropic Messages' },
  { dialect: dialects.ai_sdk, name: 'AI SDK app' }];


/* A port to listen on: this one if it is free, else any. */
function freePort(wanted) {
  return new Promise((resolve, reject) => {
    const server = net.createServer();
    server.on('error', (error) => (wanted
      ? resolve(freePort(0)) : reject(error)));
    server.listen(wanted, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

async function startNginx(dir, port, ports) {
  writeFileSync(`${dir}/nginx.conf`,
    configuration(dir, { module, port, ...ports }));
  const log = `${dir}/error.log`;
  const child = spawn(process.env.CHAT_NGINX ?? 'nginx', ['-p', dir, '-e', log,
    '-c', `${dir}/nginx.conf`, '-g', `daemon off; pid ${dir}/nginx.pid;`],
  { stdio: 'ignore' });
  let ended;
  child.on('error', (error) => { ended = error.message; });
  child.on('exit', (code) => { ended ??= `ended with ${code}`; });
  await until(() => ended || answers(port), 10000, 'nginx');
  if (ended) {
    const why = existsSync(log) ? readFileSync(log, 'utf8') : '';
    throw new Error(`nginx: ${ended}\n${why}`);
  }
  return child;
}

function answers(port) {
  return new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(true);
    });
    socket.on('error', () => resolve(false));
  });
}


/* A body that brings some results of the calls in from. */
function continuation(dialect, words, conversation, from, results) {
  const body = dialect.continuation({ conversation, from, results });
  return JSON.parse(JSON.stringify(body)
    .replace('"Hello"', JSON.stringify(words)));
}

/* The text of an answer, as its user reads it. */
function wordsOf(text) {
  return events(text).map((event) => {
    const { delta } = event.choices?.[0] ?? event;
    return typeof delta === 'string' ? delta
      : delta?.content ?? delta?.text ?? '';
  }).join('');
}

/* The error of an answer, in the provider's words, or null. */
function errorOf(text) {
  const found = events(text).map((event) => event.errorText ?? event.error)
    .concat(text.startsWith('{') ? JSON.parse(text).error : [])
    .find(Boolean);
  return found?.message ?? found ?? null;
}

/*
 * One race. path precedes the dialect's own: '/plain' or ''. note() gets the
 * events and answers, with the ms since the calls.
 */
async function race({ dialect, port, seen, path, words }, note) {
  const to = (body) => post(port, path + dialect.path, body,
    dialect.headers);
  const conversation = `chat-${words.replace(/\W+/g, '-')}`;
  const ask = dialect.fresh({ conversation, words });
  const calls = asking(dialect, words);
  await to(ask).text();
  const start = performance.now();
  const ms = (at = performance.now()) => Math.round(at - start);
  const first = seen.length;
  const ends = await Promise.all(tools.map(async (tool, i) => {
    await pause(tool.after);
    note(ms(), `client ${tool.client} posts the result of ${tool.city}`);
    const answer = to(continuation(dialect, words, conversation, calls,
      { [calls.calls[i].id]: tool.result }));
    const waits = setTimeout(() => note(ms(),
      `client ${tool.client} waits; ${seen.length - first} requests have `
      + 'reached the provider'), 100);
    const text = await answer.text();
    clearTimeout(waits);
    const end = { status: await answer.status, words: wordsOf(text),
      error: errorOf(text) };
    note(ms(), `client ${tool.client} gets ${end.status}: `
      + (end.words || end.error || 'an empty turn'));
    return end;
  }));
  const sent = seen.slice(first);
  for (const request of sent) {
    note(ms(request.at), `the provider gets ${request.answered.length} of 2 `
      + `results${request.refused ? ' and refuses' : ''}`);
  }
  return { ends, sent };
}

/* A text in lines of this many columns; all but the first are indented. */
function wrapped(text, columns, indent) {
  return text.replace(new RegExp(`(.{1,${columns}})(\\s+|$)`, 'g'),
    (_, line, end) => line + (end && `\n${' '.repeat(indent)}`));
}

/* The lines of a race, by their time. */
async function played(options) {
  const lines = [];
  const outcome = await race(options, (at, line) => lines.push({ at, line }));
  lines.sort((a, b) => a.at - b.at);
  for (const { at, line } of lines) {
    say(`  ${String(at).padStart(5)} ms  ${wrapped(line, 66, 12)}`);
  }
  return outcome;
}

/*
 * Without the module: no request has both results, no client gets an answer.
 */
function isBricked({ ends, sent }) {
  return sent.length === 2 && sent.every(({ refused }) => refused)
    && ends.every(({ words, error }) => !words && error);
}

/* With it: one request with both results, and both have its answer. */
function isWhole({ ends, sent }) {
  return sent.length === 1 && !sent[0].refused
    && sent[0].answered.length === tools.length
    && ends.every(({ status, words }) => status === 200 && words
      && words === ends[0].words);
}

async function play(port, seen) {
  let good = true;
  for (const [i, { dialect, name }] of stages.entries()) {
    const options = { dialect, port, seen };
    const words = (how) => `Race ${i + 1} ${how}: is it warm?`;
    say(`${name}, without the module`);
    const without = await played({ ...options, path: '/plain',
      words: words('without') });
    say(isBricked(without) ? '  => Two requests, two errors, no answer: the '
      + 'conversation is stuck.' : '  => NOT as expected');
    say();
    say(`${name}, with the module`);
    const after = await played({ ...options, path: '',
      words: words('with') });
    say(isWhole(after) ? '  => One request with both results, one answer.'
      : '  => NOT as expected');
    say();
    good &&= isBricked(without) && isWhole(after);
  }
  return good;
}


/* Files for a conversation of its own, and the lines that send them. */
function byHand(dir, port, number) {
  const { openai_chat: chat, ai_sdk: app } = dialects;
  const words = `Trip ${number}: is it warm in Rome and Oslo?`;
  const calls = asking(chat, words);
  const appCalls = asking(app, words);
  const [rome, oslo] = tools.map(({ result }) => result);
  const results = (list, ...values) => Object.fromEntries(values.map(
    (value, i) => value && [list.calls[i].id, value]).filter(Boolean));
  const write = (name, body) => writeFileSync(`${dir}/${name}.json`,
    `${JSON.stringify(body, null, 2)}\n`);
  const bring = (...values) => continuation(chat, words, '', calls,
    results(calls, ...values));
  write('ask', chat.fresh({ words }));
  write('rome', bring(rome));
  write('oslo', bring(null, oslo));
  write('replay', continuation(app, words, `trip-${number}`, appCalls,
    results(appCalls, rome, oslo)));
  const line = (file, path) => say('  curl -sN -H content-type:'
    + `application/json -d @${file}.json '127.0.0.1:${port}${path}'`);

  say(`By hand, in two terminals, each in ${dir}:`);
  say(`  cd ${dir}`);
  say('Ask; the model wants two tools:');
  line('ask', chat.path);
  say('Bring one result: it is held (a heartbeat after 3 s) ...');
  line('rome', chat.path);
  say('... until the other one comes, from the second terminal:');
  line('oslo', chat.path);
  say('An app that repeats old calls, without the module, and with it:');
  line('replay', `/plain${app.path}?replay`);
  line('replay', `${app.path}?replay`);
  say('A stream that breaks off, without the module, and with it:');
  line('ask', `/plain${chat.path}?cut`);
  line('ask', `${chat.path}?cut`);
  say('Half a result without the module is refused:');
  line('rome', `/plain${chat.path}`);
  say();
  say('Enter: the same with a new conversation. Ctrl-C: the end.');
}

/* The page and the app behind it; the rest is there without them. */
async function startPage(dir) {
  try {
    const [{ buildPage }, { app }] = await Promise.all([
      import('./demo/build.mjs'), import('./demo/app.mjs')]);
    await buildPage(`${dir}/www`);
    return await app();
  } catch (error) {
    say(`There is no page: ${error.message.split('\n')[0]}`);
    return null;
  }
}

/* Runs, then waits; 0 if all outcomes were as expected. */
async function run(dir, started) {
  const seen = [];
  const upstream = await provider({ seen: (request) => seen.push(request) });
  const page = once ? null : await startPage(dir);
  const port = await freePort(8080);
  const nginx = await startNginx(dir, port, {
    provider: upstream.address().port, app: page?.port ?? 9 });
  started(nginx);
  const taken = port === 8080 ? '' : ' (8080 is taken)';
  if (page) {
    say(`In a browser: http://127.0.0.1:${port}/${taken}, model: `
      + `${page.name}; what the module does: `
      + `http://127.0.0.1:${port}/status.html`);
  } else {
    say(`nginx with the module: http://127.0.0.1:${port}${taken}`);
  }
  say(`its configuration: ${dir}/nginx.conf`);
  say('A model asks for the weather in two cities. Client A has its result');
  say('at once, client B a little later; each posts what it has.');
  say();

  const good = await play(port, seen);
  if (once) {
    return good ? 0 : 1;
  }
  let number = 1;
  byHand(dir, port, number);
  createInterface({ input: process.stdin }).on('line', () => {
    byHand(dir, port, ++number);
  });
  await new Promise((resolve) => { nginx.on('exit', resolve); });
  return 1;
}

async function main() {
  if (!existsSync(module)) {
    say(`${module} is not built: run make module`);
    return 1;
  }
  const dir = mkdtempSync(join(tmpdir(), 'chat_demo_'));
  chmodSync(dir, 0o755); /* workers of a root nginx run as another user */
  let nginx;
  const stopped = new Promise((resolve) => {
    ['SIGINT', 'SIGTERM', 'SIGHUP'].forEach((signal) =>
      process.on(signal, () => resolve(0)));
    process.stdout.on('error', () => resolve(1));
  });
  process.on('exit', () => nginx?.kill('SIGTERM'));
  try {
    return await Promise.race([stopped,
      run(dir, (child) => { nginx = child; })]);
  } finally {
    if (nginx && nginx.exitCode === null && nginx.signalCode === null) {
      nginx.kill('SIGTERM');
      await new Promise((resolve) => { nginx.on('exit', resolve); });
    }
    rmSync(dir, { recursive: true, force: true });
  }
}

process.exit(await main().catch((error) => {
  say(error.stack);
  return 1;
}));
