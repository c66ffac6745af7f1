/*
 * conversation_items.test.mjs: results that a client adds to a Responses
 * conversation by POST /conversations/<id>/items complete the batch and are
 * inserted into no body.
 *
 * The provider keeps the conversation: it refuses a result that it already
 * has, and a turn without the result of a call.
 */
import assert from 'node:assert/strict';
import { get, post } from '../lib/harness.mjs';
import { handled } from '../lib/handled.mjs';
import { Batch, stage, told } from '../lib/batch.mjs';
import { dialects, newId } from '../lib/dialects.mjs';
import { held, live, say, verdict } from '../lib/hold.mjs';
import { json, sse } from '../lib/provider.mjs';

const key = 'openai_responses_conversation';
const dialect = dialects[key];
const itemsOf = /^\/v1\/conversations\/([^/]+)\/items$/;

/* A conversation; options.refuse: the provider accepts no items. */
async function talk(t, { calls = 2, refuse = false, ...options } = {}) {
  const scene = await stage(t, key, { workers: 2, hold: '20s', ...options,
    location: `${say.verdict} ${options.location ?? ''}` });
  const { p, n } = scene;
  const batch = new Batch(scene, calls);
  const accept = ({ url, answered }) => {
    const [, conversation] = url.match(itemsOf);
    const open = p.issued.get(conversation) ?? [];
    if (refuse || answered.some((id) =>
      !open.some((call) => call.id === id))) {
      return json(400, { error: { message: 'No tool call found' } });
    }
    p.issued.set(conversation, open.filter(({ id }) =>
      !answered.includes(id)));
    return json(200, { object: 'list', data: [] });
  };
  p.answer = (request) => (itemsOf.test(request.url) ? accept(request)
    : sse(request.number === 1 ? batch.from : dialect.final('done here')));
  await batch.ask();
  const add = (ids, { headers, type = 'function_call_output' } = {}) =>
    post(n.port, `/v1/conversations/${batch.conversation}/items`,
      { items: ids.map((id) => ({ type, call_id: id, output: 'added' })) },
      { ...dialect.headers, ...headers });
  const bodies = () => p.requests.filter(({ url }) => !itemsOf.test(url));
  return { p, n, batch, add, bodies };
}

async function turns({ batch, p }, n = 2) {
  for (let i = 0; i < n; i++) {
    const { word, text } = await told(batch.post(dialect.fresh({
      words: 'and now?', conversation: batch.conversation })));
    assert.equal(word, 'final', text);
    assert.deepEqual(p.requests.at(-1).answered, []);
  }
}

for (const chat of ['openai_responses', 'auto']) {
  live(`s124: items bring the last result, chat ${chat}: the held request `
    + 'goes on without it', async (t) => {
    const it = await talk(t, { chat });
    const { batch, bodies } = it;
    const first = batch.continue(batch.results([0]));
    await held(batch, first, 0);
    const items = it.add([batch.ids[1]]);
    assert.equal(await items.status, 200);
    assert.equal(await verdict(items), 'passed');
    assert.equal((await told(first)).word, 'final');
    assert.equal(bodies().length, 2);
    assert.deepEqual(bodies()[1].answered, [batch.ids[0]]);
    await turns(it);
  });
}

live('s124: items come first: the other results complete the batch',
  async (t) => {
    const it = await talk(t, { calls: 3,
      server: 'chat_tenant x; location = /results { chat_results; }' });
    const { batch, bodies, n } = it;
    assert.equal(await it.add([batch.ids[1]]).status, 200);
    const shown = JSON.parse(await get(n.port,
      `/results?conversation=${batch.conversation}`).text());
    assert.deepEqual(shown.missing, [batch.ids[0], batch.ids[2]]);
    const first = batch.continue(batch.results([0]));
    await held(batch, first);
    const last = batch.continue(batch.results([2]));
    await Promise.all([first, last].map((one) => one.text()));
    assert.deepEqual(bodies().slice(1).map(({ answered }) => answered),
      [[batch.ids[0], batch.ids[2]]]);
    assert.equal(bodies()[1].refused, false);
    await turns(it);
  });

live('s124: items bring all results: a new message contains none of them',
  async (t) => {
    const it = await talk(t);
    assert.equal(await it.add(it.batch.ids).status, 200);
    await turns(it);
  });

live('s124: the provider refuses the items: the request stays held',
  async (t) => {
    const it = await talk(t, { refuse: true });
    const { batch, bodies } = it;
    const first = batch.continue(batch.results([0]));
    await held(batch, first);
    assert.equal(await it.add([batch.ids[1]]).status, 400);
    await handled(batch, [], 200);
    assert.equal(first.ended, false);
    await batch.continue(batch.results([1])).text();
    assert.equal((await told(first)).word, 'final');
    assert.deepEqual(bodies()[1].answered, batch.ids);
  });

live('s124: items of another tenant or call, or a message: no release',
  async (t) => {
    const it = await talk(t, {
      server: 'chat_tenant $http_authorization;' });
    const { batch } = it;
    const first = batch.continue(batch.results([0]));
    await held(batch, first);
    await it.add([batch.ids[1]], { headers: { authorization: 'x' } }).text();
    await it.add([newId('call_')]).text();
    const message = it.add([batch.ids[1]], { type: 'message' });
    await message.text();
    assert.equal(await verdict(message), 'passed');
    await handled(batch, [], 200);
    assert.equal(first.ended, false);
    assert.equal(batch.upstream().length, 0);
    first.abort();
  });
