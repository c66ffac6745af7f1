/*
 * resume_long.test.mjs: long answers: a silence longer than the recording's
 * lifetime, a client that reads nothing, a worker that exits.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { get, pause, unbuilt, until } from '../lib/harness.mjs';
import { handled } from '../lib/handled.mjs';
import { cutText } from '../lib/ends.mjs';
import { json } from '../lib/provider.mjs';
import { stuck } from '../lib/recording.mjs';
import {
  Talk, answerOf, blocks, half, keys, lengthy, pastMax, resumeStage,
  unnumbered,
} from '../lib/resume.mjs';

const live = (name, play) => test(name, { skip: unbuilt }, play);

for (const key of ['openai_chat', 'ai_sdk']) {
  live(`s84: ${key}: a silence longer than ttl= loses nothing`, async (t) => {
    const { talk, own, rest, all } = await half(t, key,
      { at: 5, total: 10, record: 'ttl=1s' });
    await pause(3500);
    const others = [0, 3].map((n) => talk.resume({ query: `after=${n}` }));
    await others[0].until((text) => blocks(text).length === 5);
    rest.open();
    const text = await own.text();
    assert.equal(unnumbered(text), all.join(''));
    assert.equal(await others[0].text(), text);
    assert.equal(await others[1].text(), blocks(text).slice(3).join(''));
    assert.equal(await talk.resume().text(), text);
  });
}

live('a ttl= of 2^32 seconds is not taken for 0',
  async (t) => {
    const { talk, own, rest, all } = await half(t, 'ai_sdk', { at: 5,
      total: 10, record: 'ttl=4294967296s', ttl: '4294967296s' });
    const other = talk.resume();
    await other.until((text) => blocks(text).length === 5);
    rest.open();
    assert.equal(await own.text(), all.join(''));
    assert.equal(await other.text(), all.join(''));
    assert.equal(await talk.resume().text(), all.join(''));
  });

live('s87: the worker exits: the recording is interrupted', async (t) => {
  const { s, talk, own, all } = await half(t, 'ai_sdk',
    { at: 5, total: 10, main: 'worker_shutdown_timeout 3s;' });
  own.abort();
  await until(() => s.n.errorLog().includes('client disconnected'));
  await s.n.reload();
  await until(() => s.n.accessLog().length, 10000);
  const text = await talk.resume().text();
  assert.ok(text.startsWith(all.slice(0, 5).join('')));
  assert.match(text, /stream_interrupted/);
});

live('s92: past max= the recording ends as interrupted',
  async (t) => {
    const { s, talk } = await pastMax(t, 'openai_chat');
    await until(() => s.n.accessLog().length);
    /* The last half of max= is always stored. */
    const text = await cutText('openai_chat',
      talk.resume({ query: 'after=80' }));
    assert.match(text, /^id: \w+-81\n/);
    assert.match(blocks(text).at(-1), /stream_interrupted/);
  });

live('s92: DELETE does not wait for a client that reads nothing',
  async (t) => {
    const all = lengthy('openai_chat', 400, 20000);
    const s = await resumeStage(t, 'openai_chat',
      { answer: () => answerOf([...all, new Promise(() => {})]) });
    const talk = new Talk(s);
    const client = stuck(t, s, { dialect: s.dialect, key: talk.conversation,
      results: () => [], body: () =>
        s.dialect.fresh({ conversation: talk.conversation }) });
    await s.p.arrival(1);
    await handled(s, [], 1000);
    assert.equal(await talk.stop().status, 204);
    await s.p.requests[0].closed;
    assert.ok(s.p.requests[0].left);
    const line = await until(() => s.n.accessLog().find(({ uri }) =>
      uri === s.dialect.path));
    assert.equal(line.turn_status, 'aborted');
    client.destroy();
  });

live('an internal redirect to chat_resume',
  async (t) => {
    const s = await resumeStage(t, 'openai_chat', {
      answer: () => json(429, { error: { message: 'later' } }),
      location: 'proxy_intercept_errors on;'
        + ' error_page 429 = /resume/$http_x_batch;' });
    const talk = new Talk(s);
    assert.equal(await talk.ask().status, 204);
    assert.equal(await talk.resume().status, 204);
  });

for (const key of keys) {
  live(`${key}: stopped before its first byte: no client retries`,
    async (t) => {
      const s = await resumeStage(t, key,
        { answer: () => new Promise(() => {}) });
      for (const http2 of [false, true]) {
        const talk = new Talk(s);
        const own = talk.ask({ http2 });
        const { closed } = await s.p.arrival(http2 ? 2 : 1);
        assert.equal(await talk.stop().status, 204);
        await closed;
        const { status, headers } = await own.head;
        assert.equal(status, 409);
        assert.equal(headers['x-should-retry'], 'false');
        assert.match(await own.text(), /"stopped"/);
      }
    });
}

live('a resume in a subrequest does not end the page', async (t) => {
  const s = await resumeStage(t, 'openai_chat', { server: `
    location = /page { ssi on; ssi_types *; default_type text/html;
      return 200 'A<!--# include virtual="/resume/k" -->B'; }`,
  answer: () => answerOf(lengthy('openai_chat', 3)) });
  const text = await new Talk(s, 'k').ask().text();
  assert.equal(await get(s.n.port, '/page').text(), `A${text}B`);
});
