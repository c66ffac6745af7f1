/*
 * siblings.test.mjs: the real libraries with several continuations of one
 * assistant turn, and with a model that polls.
 *
 * Best-of-n: parallel samples of one transcript, which the libraries retry by
 * themselves after a 429. Each sample gets an answer of its own. A polling
 * model calls the same tool with the same id and arguments repeatedly; the
 * agent loop ends only when the model ends it.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gate, until } from '../lib/harness.mjs';
import { dialects } from '../lib/dialects.mjs';
import { json, sse } from '../lib/provider.mjs';
import { load, stage } from './stage.mjs';

const question = { role: 'user', content: 'Which is best?' };
const strong = 'Qw3rTy5uIoP1aSd2FgH3jK4l';

/* The client of each dialect, and one turn of an agent. */
const agents = {
  openai_chat: {
    make: (OpenAI, base, { key, headers }) => new OpenAI({ apiKey: key,
      baseURL: `${base}/v1`, defaultHeaders: headers, maxRetries: 4 }),
    id: `call_${strong}`, weak: 'functions.poll:0',
    messages: (id, input, results) => [question, { role: 'assistant',
      content: null, tool_calls: [{ id, type: 'function', function: {
        name: 'poll', arguments: JSON.stringify(input) } }] },
    ...results.map((content) => ({ role: 'tool', tool_call_id: id,
      content }))],
    async ask(client, messages) {
      const answer = await client.chat.completions
        .stream({ model: 'm', messages }).finalMessage();
      const [call] = answer.tool_calls ?? [];
      return { words: answer.content, id: call?.id,
        next: (content) => [answer, { role: 'tool', content,
          tool_call_id: call.id }] };
    } },
  anthropic: {
    make: (Anthropic, base, { key, headers }) => new Anthropic({
      apiKey: key, baseURL: base, defaultHeaders: headers, maxRetries: 4 }),
    /* This provider refuses a repeated id: its models cannot poll with one. */
    id: `toolu_${strong}`,
    messages: (id, input, results) => [question, { role: 'assistant',
      content: [{ type: 'tool_use', id, name: 'poll', input }] },
    { role: 'user', content: results.map((content) => ({
      type: 'tool_result', tool_use_id: id, content })) }],
    async ask(client, messages) {
      const { role, content } = await client.messages
        .stream({ model: 'm', max_tokens: 99, messages }).finalMessage();
      const call = content.find(({ type }) => type === 'tool_use');
      return { words: content.find(({ type }) => type === 'text')?.text,
        id: call?.id, next: (result) => [{ role, content }, { role: 'user',
          content: [{ type: 'tool_result', tool_use_id: call.id,
            content: result }] }] };
    } },
};

const libraries = { openai: 'openai_chat', openai7: 'openai_chat',
  '@anthropic-ai/sdk': 'anthropic' };

/*
 * The first request of a play waits until go, the next `refused` ones get a
 * 429, and the others are answered with their own number.
 */
function rush(it, key, refused) {
  const go = gate();
  const seen = [];
  const play = it.play(true, {}, async ({ headers, raw }) => {
    const number = seen.push({ raw: String(raw),
      retry: Number(headers['x-stainless-retry-count'] ?? 0) });
    if (number === 1) {
      await go;
    } else if (number <= 1 + refused) {
      return json(429, { error: { message: 'slow down' } },
        { 'retry-after-ms': '20' });
    }
    const [mark = ''] = /MARK\d/.exec(String(raw)) ?? [];
    return sse(dialects[key].final(`answer ${number} ${mark}`));
  });
  return { go, seen, play };
}

for (const [name, key] of Object.entries(libraries)) {
  const { packages: [library], missing } = await load(name);
  const agent = agents[key];
  const live = (what, act) => test(`${what}: ${name}`, { skip: missing },
    async (t) => act(await stage(t, [key])));
  const client = (it, play) => agent.make(library.default, play.base(key),
    play);

  live('s109: five samples of one transcript', async (it) => {
    const { go, seen, play } = rush(it, key, 4);
    const messages = agent.messages(agent.id, { n: 1 }, ['one result']);
    const one = client(it, play);
    const first = agent.ask(one, messages);
    await until(() => seen.length === 1);
    const others = await Promise.all([2, 3, 4, 5].map(() =>
      agent.ask(one, messages)));
    go.open();
    const words = [await first, ...others].map((answer) => answer.words);
    assert.equal(new Set(words).size, 5, `${words}`);
    assert.equal(seen.length, 9);
    assert.equal(seen.filter(({ retry }) => retry > 0).length, 4);
  });

  live('s108: one call with two results at once', async (it) => {
    const { go, seen, play } = rush(it, key, 1);
    const one = client(it, play);
    const ask = (mark) => agent.ask(one,
      agent.messages(agent.id, { n: 1 }, [mark]));
    const first = ask('MARK1');
    await until(() => seen.length === 1);
    const second = await ask('MARK2');
    go.open();
    assert.match(second.words, /MARK2$/);
    assert.match((await first).words, /MARK1$/);
  });

  if (!agent.weak) {
    continue;
  }

  live('s111: an agent with a model that polls', async (it) => {
    let polls = 0;
    const play = it.play(true, {}, () => sse(++polls <= 4
      ? dialects[key].calls({ calls: [{ id: agent.weak, name: 'poll',
        input: { job: 7 } }] })
      : dialects[key].final('ready')));
    const one = client(it, play);
    const messages = [question];
    let words, ran = 0;
    for (let turn = 0; turn < 9; turn++) {
      const answer = await agent.ask(one, messages);
      if (!answer.id) {
        ({ words } = answer);
        break;
      }
      ran++;
      messages.push(...answer.next('not yet'));
    }
    assert.equal(words, 'ready');
    assert.equal(ran, 4);
  });
}
