/*
 * docker.test.mjs: docker/Dockerfile is built, docker/compose.yaml is started,
 * a batch is sent through both of its nodes, and a node stops gracefully.
 * Holds take ten minutes here, so that none ends by its time limit. Where no
 * Docker daemon runs, buildah builds the image, and one node is tried.
 *
 * Suite: plain.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { dialects, events } from '../lib/dialects.mjs';
import { get, post, root, until } from '../lib/harness.mjs';
import { freePorts } from '../lib/wait.mjs';
import { image } from './buildah.mjs';
import { impossible } from './debian.mjs';
import { docker, importDebian } from './docker.mjs';
import { use } from './use.mjs';

const { ai_sdk: dialect } = dialects;
const json = async (port, path) => JSON.parse(await get(port, path).text());
const status = (port) => json(port, '/chat-status');

/* A chat with the demo's app: the turn with its calls, then results. */
class Chat {
  constructor(id) {
    this.id = id;
  }

  async ask(port) {
    const text = await post(port, '/app/chat',
      dialect.fresh({ conversation: this.id })).text();
    const list = events(text);
    this.from = { id: list[0].messageId, calls: list
      .filter(({ type }) => type === 'tool-input-available')
      .map(({ toolCallId: id, toolName: name, input }) =>
        ({ id, name, input })) };
    assert.equal(this.from.calls.length, 3, text);
  }

  /* Posts the result of one call. */
  answer(port, position) {
    const { id } = this.from.calls[position];
    return post(port, '/app/chat', dialect.continuation({
      conversation: this.id, from: this.from,
      results: { [id]: { answer: `result ${position}` } } }));
  }

  /* The requests that the app has received: {of, results}. */
  async received(port) {
    const { requests } = await json(port,
      `/plain/app/chat?id=${this.id}`);
    return requests.map(({ of, results, refused }) =>
      [of, results, refused]);
  }
}

const held = (port, count) => until(async () =>
  (await status(port)).holds.now === count, 10000, `${count} held requests`);

/* The text of an answer that ended as the dialect ends it. */
async function said(answer) {
  const text = await answer.until((bytes) => /\[DONE\]\n\n$/.test(bytes),
    30000);
  await answer.text();
  return events(text).filter(({ type }) => type === 'text-delta')
    .map(({ delta }) => delta).join('');
}

/* compose.yaml with a chat_hold of ten minutes: the arguments for it. */
function configured(it) {
  const conf = `${it.dir}/chat.conf`;
  const more = `${it.dir}/more.yaml`;
  writeFileSync(conf, readFileSync(`${root}docker/compose.conf`, 'utf8')
    .replace(/(chat auto;)/, '$1 chat_hold 10m;'));
  const node = { volumes: [`${conf}:/etc/nginx/conf.d/chat.conf:ro`] };
  writeFileSync(more, JSON.stringify({ version: '3.4',
    services: { 'node-a': node, 'node-b': node } }));
  return ['-f', `${root}docker/compose.yaml`, '-f', more];
}

/* Starts the services; returns the ports {a, b, prometheus}. */
async function up(it) {
  const [a, b, prometheus] = await freePorts(3);
  const files = configured(it);
  it.compose = (...args) => it.run('docker-compose',
    [...files, ...args],
    { NODE_A: a, NODE_B: b, PROMETHEUS: prometheus });
  it.cleanups.push(() => it.compose('down', '-v', '-t', '5'));
  await it.compose('up', '-d', '--no-build');
  for (const port of [a, b]) {
    for (const path of ['/', '/plain/app/chat?id=none']) {
      await until(() => get(port, path).status.then((code) => code === 200,
        () => false), 20000, path);
    }
  }
  for (const port of [a, b]) {
    await until(async () => (await status(port)).store.state === 'up', 10000,
      'Redis');
  }
  return { a, b, prometheus };
}

/* Results at both nodes; the last one releases the requests of both. */
async function releasedByBoth({ a, b }) {
  const chat = new Chat('chat-one');
  await chat.ask(a);
  const answers = [chat.answer(a, 0)];
  await held(a, 1);
  answers.push(chat.answer(b, 1));
  await held(b, 1);
  assert.deepEqual(await chat.received(a), [[0, 0, undefined]]);
  answers.push(chat.answer(a, 2));
  for (const answer of answers) {
    assert.match(await said(answer), /for your choice: result 2\./);
  }
  assert.deepEqual(await chat.received(b),
    [[0, 0, undefined], [3, 3, undefined]]);
}

/* Each node is scraped; Prometheus accepts each query of the dashboard. */
async function monitored({ prometheus }) {
  const query = (text) => json(prometheus,
    `/api/v1/query?query=${encodeURIComponent(text)}`);
  await until(async () => (await query(
    'sum by (node) (nginx_chat_info)')).data.result.length === 2,
  20000, 'both nodes in Prometheus');
  const { panels } = JSON.parse(readFileSync(`${root}docker/grafana.json`));
  for (const { expr } of panels.flatMap(({ targets }) => targets)) {
    const { status: outcome, error } = await query(expr
      .replaceAll('$instance', '.*').replaceAll('$__rate_interval', '1m'));
    assert.equal(outcome, 'success', `${expr}: ${error}`);
  }
}

/*
 * Stops node-a while it holds a request of each of two chats. One continues:
 * its other results come to node-b. The other one ends before
 * worker_shutdown_timeout, with the result that it brought.
 */
async function stopsGracefully(it, { a, b }) {
  const chats = [new Chat('chat-two'), new Chat('chat-three')];
  const waiting = [];
  for (const chat of chats) {
    await chat.ask(a);
    waiting.push(chat.answer(a, 0));
  }
  await held(a, 2);
  const id = (await it.compose('ps', '-q', 'node-a')).trim();
  const workers = () => it.docker('top', id, '-o', 'pid,user,args');
  assert.match(await workers(), /^\d+ +www-data +nginx: worker process$/m);
  const stopped = it.compose('stop', 'node-a');
  await until(async () => /worker process is shutting down/.test(
    await workers()), 10000, 'the stop of node-a');
  assert.deepEqual(waiting.map(({ ended }) => ended), [false, false]);

  const others = [1, 2].map((position) => chats[0].answer(b, position));
  for (const answer of [waiting[0], ...others]) {
    assert.match(await said(answer), /for your choice: result 2\./);
  }
  assert.equal(waiting[1].ended, false);
  assert.equal(await said(waiting[1]), '');
  await stopped;
  assert.equal((await it.docker('inspect', '-f', '{{.State.ExitCode}}', id))
    .trim(), '0');
  assert.match(await it.docker('logs', id), /POST \/app\/chat/);
  assert.deepEqual(await chats[1].received(b), [[0, 0, undefined]]);
}

test('docker-compose: two nodes release one request, and stop gracefully', {
  skip: impossible }, async (t) => {
  const it = await docker(t);
  if (!it) {
    const machine = await image(t, 'docker/Dockerfile');
    await (machine && use(t, machine));
    return;
  }
  if (!await importDebian(t, it)) {
    return;
  }
  for (const [name, file] of [['ngx-chat', 'docker/Dockerfile'],
    ['ngx-chat-demo', 'docker/demo/Dockerfile']]) {
    await it.docker('build', '--network', 'host', '-t', name,
      '-f', root + file, root);
  }
  const nodes = await up(it);
  await releasedByBoth(nodes);
  await monitored(nodes);
  await stopsGracefully(it, nodes);
});
