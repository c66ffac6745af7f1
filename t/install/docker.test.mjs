/*
 * docker.test.mjs: docker/Dockerfile is built, docker/compose.yaml is started,
 * a batch is sent through both of its nodes, and a node stops gracefully.
 *
 * Suite: plain.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dialects, events } from '../lib/dialects.mjs';
import { get, post, root, until } from '../lib/harness.mjs';
import { freePorts } from '../lib/wait.mjs';
import { docker, importDebian } from './docker.mjs';
import { impossible } from './debian.mjs';

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

/* Starts the services; returns the ports {a, b, prometheus}. */
async function up(it) {
  const [a, b, prometheus] = await freePorts(3);
  it.compose = (...args) => it.run('docker-compose',
    ['-f', `${root}docker/compose.yaml`, ...args],
    { NODE_A: a, NODE_B: b, PROMETHEUS: prometheus });
  it.cleanups.push(() => it.compose('down', '-v', '-t', '5'));
  await it.compose('up', '-d', '--no-build');
  await until(async () => {
    const pages = [get(a, '/'), get(b, '/')];
    const found = await Promise.all(pages.map((page) =>
      page.status.catch(() => 0)));
    return found.every((code) => code === 200);
  }, 20000, 'the pages');
  for (const port of [a, b]) {
    await until(async () => (await status(port)).store.state === 'up', 10000,
      'Redis');
  }
  return { a, b, prometheus };
}

test('docker-compose: two nodes release one request, and stop gracefully', {
  skip: impossible }, async (t) => {
  const it = await docker(t);
  if (!it || !await importDebian(t, it)) {
    return;
  }
  for (const [name, file] of [['ngx-chat', 'docker/Dockerfile'],
    ['ngx-chat-demo', 'docker/demo/Dockerfile']]) {
    await it.docker('build', '--network', 'host', '-t', name,
      '-f', root + file, root);
  }
  const { a, b, prometheus } = await up(it);

  const chat = new Chat('chat-one');
  await chat.ask(a);
  const answers = [chat.answer(a, 0)];
  await held(a, 1);
  answers.push(chat.answer(b, 1));
  await held(b, 1);
  assert.deepEqual(await chat.received(a), [[0, 0, undefined]]);
  answers.push(chat.answer(a, 2));
  for (const answer of answers) {
    assert.match(await answer.text(), /result/);
  }
  assert.deepEqual(await chat.received(b),
    [[0, 0, undefined], [3, 3, undefined]]);

  await until(async () => {
    const { data } = await json(prometheus, `/api/v1/query?query=${
      encodeURIComponent('sum by (node) (nginx_chat_info)')}`);
    return data.result.length === 2;
  }, 20000, 'both nodes in Prometheus');

  const stopped = new Chat('chat-two');
  await stopped.ask(a);
  const last = stopped.answer(a, 0);
  await held(a, 1);
  const id = (await it.compose('ps', '-q', 'node-a')).trim();
  const users = await it.docker('top', id, '-o', 'pid,user,args');
  assert.match(users, /^\d+ +www-data +nginx: worker/m);
  await it.compose('stop', 'node-a');
  assert.match(await last.text(), /data: \[DONE\]\n\n$/);
  assert.equal((await it.docker('inspect', '-f', '{{.State.ExitCode}}', id))
    .trim(), '0');
  assert.match(await it.docker('logs', id), /POST \/app\/chat/);
});
