/*
 * delivered.test.mjs: the package openai in a Responses conversation that the
 * provider keeps.
 *
 * The provider refuses an output that it already has, and a turn without the
 * output of a call. A conversation of four turns, the first with two tools,
 * must continue through nginx after any outcome of the request with the
 * results.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dialects } from '../lib/dialects.mjs';
import { json, sse } from '../lib/provider.mjs';
import { load, stage } from './stage.mjs';
import { work } from './tools.mjs';

const key = 'openai_responses_conversation';
const calls = [0, 1].map((n) => ({ id: `call_Qw3rTy5uIoP1aSd2FgH3jK4${n}`,
  name: ['weather', 'population'][n], input: { city: `Town ${n}` } }));
const ids = calls.map(({ id }) => id);

/* The ways to send a request: without a stream, the stream helper, events. */
const ways = {
  'no stream': (client, body) => client.responses.create(body),
  'stream()': (client, body) => client.responses.stream(body).finalResponse(),
  async events(client, body) {
    let last;
    for await (const event of await client.responses.create(
      { ...body, stream: true })) {
      last = event;
    }
    if (last.type === 'error') {
      throw new Error(last.message);
    }
    return last.response;
  },
};

/* An answer in the form that the request selects. */
const speak = (events, { stream }) => (stream ? sse(events)
  : Object.assign(json(200, JSON.parse(events.at(-1)
    .split('\ndata: ')[1]).response), { id: events.id, calls: events.calls }));

const failing = sse([`event: error\ndata: ${JSON.stringify({ type: 'error',
  code: 'server_error', message: 'boom', param: null,
  sequence_number: 0 })}\n\n`]);

/* fates: the answers to the first requests with results. */
function talk(it, fates = []) {
  let asked = 0;
  const left = [...fates];
  const play = it.play(true, {}, (request) => {
    if (asked++ === 0) {
      return speak(dialects[key].calls({ calls }), request.body);
    }
    return left.shift() ?? speak(dialects[key].final(`turn ${asked}`),
      request.body);
  });
  const requests = () => it.providers[key].requests.filter(({ headers }) =>
    headers['x-play'] === play.key);
  return { play, requests };
}

const output = ({ call_id, name, arguments: input }) => ({
  type: 'function_call_output', call_id,
  output: JSON.stringify(work(name, JSON.parse(input))) });

const callsOf = (response) => response.output.filter(({ type }) =>
  type === 'function_call');

/* The first turn asks for both tools. */
async function begin({ play }, OpenAI, way, options) {
  const client = new OpenAI({ apiKey: play.key, defaultHeaders: play.headers,
    baseURL: `${play.base(key)}/v1`, ...options });
  const ask = (input) => way(client, { model: 'm', input,
    conversation: `conv_${play.key}` });
  const outputs = callsOf(await ask('What is it like?')).map(output);
  assert.deepEqual(outputs.map(({ call_id }) => call_id), ids);
  return { ask, outputs };
}

const wordsOf = ({ output }) => output.flatMap(({ content = [] }) =>
  content.map(({ text }) => text)).join('');

/* Three more turns; the provider gets the outputs in these of them. */
async function goOn({ requests }, ask, bring = []) {
  for (const turn of [0, 1, 2]) {
    assert.match(wordsOf(await ask('And now?')), /^turn \d+$/);
    assert.deepEqual(requests().at(-1).answered, bring[turn] ?? []);
  }
}

/* streams: only a stream tells the module which calls are open. */
const cases = {
  'results at once': { async act(it, { ask, outputs }) {
    await ask(outputs);
    await goOn(it, ask);
  } },
  'two tabs with a result each': { streams: true,
    async act(it, { ask, outputs }) {
      const answers = await Promise.all(outputs.map((one) => ask([one])));
      assert.deepEqual(answers.map(wordsOf), ['turn 2', 'turn 2']);
      assert.equal(it.requests().length, 2);
      await goOn(it, ask);
    } },
  '503, and the library tries again': {
    fates: [json(503, { error: { message: 'busy' } },
      { 'retry-after-ms': '1' })],
    async act(it, { ask, outputs }) {
      await ask(outputs);
      await goOn(it, ask);
    } },
  '503 for good: the next turn brings the results': {
    fates: [json(503, { error: { message: 'busy' } })], retries: 0,
    streams: true,
    async act(it, { ask, outputs }) {
      await assert.rejects(ask(outputs), /503/);
      await goOn(it, ask, [ids]);
    } },
  'an error in the stream, then asked again': {
    fates: [failing], streams: true,
    async act(it, { ask, outputs }) {
      await assert.rejects(ask(outputs));
      await ask(outputs);
      await goOn(it, ask);
    } },
};

for (const name of ['openai', 'openai7']) {
  const { packages: [library], missing } = await load(name);
  test(`s123: ${name}: a conversation of four turns`,
    { skip: missing, concurrency: 4 }, async (t) => {
      const it = await stage(t, [key]);
      await Promise.all(Object.entries(ways).flatMap(([how, way]) =>
        Object.entries(cases)
          .filter(([, { streams }]) => !streams || how !== 'no stream')
          .map(([what, { fates, retries = 2, act }]) =>
            t.test(`${how}: ${what}`, async () => {
              const one = talk(it, fates);
              await act(one, await begin(one, library.default, way,
                { maxRetries: retries }));
              assert.deepEqual(one.requests()
                .filter(({ refused }) => refused), []);
            }))));
    });
}
