/*
 * conversation.test.mjs: Responses bodies that name a conversation and carry
 * no call: they belong to the newest batch of the conversation.
 *
 * Only what is special here: steps that follow one another, late results, an
 * unknown conversation, approvals of MCP tools.
 */
import assert from 'node:assert/strict';
import { pause } from '../lib/harness.mjs';
import { handled } from '../lib/handled.mjs';
import { Batch, stage, told } from '../lib/batch.mjs';
import { dialects, newCalls, newId } from '../lib/dialects.mjs';
import { held, live, say, verdict, wordOf } from '../lib/hold.mjs';
import { asking } from '../lib/external.mjs';
import { sse } from '../lib/provider.mjs';
import { redis } from '../lib/redis/redis.mjs';

const key = 'openai_responses_conversation';
const dialect = dialects[key];

/* One provider, one conversation; steps: the provider's answers, in order. */
async function talk(t, steps, options) {
  const scene = await stage(t, key, { workers: 2, location: say.verdict,
    ...options });
  const batch = new Batch(scene, 1);
  const left = [...steps];
  scene.p.answer = () => sse(left.shift() ?? dialect.final('done here'));
  return { scene, batch,
    ask: () => batch.post(dialect.fresh({ conversation: batch.conversation })),
    bring: (from, ...ids) => batch.post(dialect.continuation({
      conversation: batch.conversation, from,
      results: Object.fromEntries(ids.map((id) => [id, { of: id }])) })) };
}

const step = (n) => dialect.calls({ calls: newCalls(n, dialect.prefix) });

live('conversation: each step is a batch of its own', async (t) => {
  const steps = [step(2), step(3)];
  const { scene, ask, bring } = await talk(t, steps);
  await ask().text();
  for (const [i, from] of steps.entries()) {
    const ids = from.calls.map(({ id }) => id);
    const answers = [];
    for (const id of [...ids].reverse()) {
      answers.push(bring(from, id));
      await answers.at(-1).sent;
    }
    await Promise.all(answers.map((answer) => answer.text()));
    const sent = scene.p.continuations();
    assert.equal(sent.length, i + 1);
    assert.equal(sent[i].refused, false);
    assert.deepEqual(sent[i].answered, ids);
  }
});

/* The conversation index: its key, and its newest batch. */
async function newest(r) {
  for (const at of await r.command('KEYS', 'chat:{*')) {
    const fields = (await r.command('TYPE', at)) === 'hash'
      ? await r.command('HKEYS', at) : [];
    const field = fields.filter((one) => one.startsWith('batch/'))
      .sort().pop();
    if (field) {
      return { at, field, value: await r.command('HGET', at, field) };
    }
  }
  throw new Error('no conversation index');
}

/* Another worker's index entry may arrive after the client's next request. */
for (const [name, older] of [['nothing', 0], ['an older batch', 1]]) {
  live(`conversation: its index is late and has ${name}`, async (t) => {
    const r = await redis(t);
    const steps = [...Array(older + 1)].map(() => step(2));
    const { scene, ask, bring } = await talk(t, steps,
      { store: `${r.url()} timeout=2s`, connects: true });
    const bringAll = ({ calls }) =>
      bring({ calls }, ...calls.map(({ id }) => id)).text();
    await ask().text();
    for (const from of steps.slice(0, older)) {
      await bringAll(from);
    }
    const { calls } = steps.at(-1);
    const { at, field, value } = await newest(r);
    await r.command('HDEL', at, field);
    const first = bring({ calls }, calls[0].id);
    await first.sent;
    await pause(30);
    await r.command('HSET', at, field, value);
    await handled(scene, [], 300);
    assert.equal(first.ended, false, `ended: ${first.bytes}`);
    assert.equal(scene.p.continuations().length, older);
    const last = bring({ calls }, calls[1].id);
    assert.deepEqual(await Promise.all([first, last].map(wordOf)),
      ['final', 'final']);
    assert.equal(scene.p.continuations().length, older + 1);
  });
}

live('conversation: $chat_store_time covers both operations', async (t) => {
  const from = step(1);
  const { scene, ask, bring } = await talk(t, [from], {
    location: 'add_header X-Store-Time $chat_store_time;' });
  await ask().text();
  const answer = bring(from, from.calls[0].id);
  await answer.text();
  const { headers } = await answer.head;
  assert.match(headers['x-store-time'], /^\d\.\d{3}$/);
  assert.equal(scene.p.continuations().length, 1);
});

live('s35: conversation: a result of an older step: passes', async (t) => {
  const steps = [step(1), step(2)];
  const { scene, ask, bring } = await talk(t, steps);
  await ask().text();
  const [[old], [one, two]] = steps.map(({ calls }) =>
    calls.map(({ id }) => id));
  await bring(steps[0], old).text();
  const first = bring(steps[1], one);
  await first.sent;
  const stale = bring(steps[0], old);
  assert.equal((await told(stale)).word, '400');
  assert.equal(await verdict(stale), 'unmanaged');
  assert.equal(first.ended, false);
  await bring(steps[1], two).text();
  await first.text();
  assert.deepEqual(scene.p.continuations().filter(({ refused }) => !refused)
    .map(({ answered }) => answered), [[old], [one, two]]);
});

live('conversation: an unknown one: unmanaged', async (t) => {
  const from = step(2);
  const { ask, bring } = await talk(t, []);
  const answer = bring(from, from.calls[0].id);
  await answer.text();
  assert.equal(await verdict(answer), 'unmanaged');
  const words = ask();
  assert.equal((await told(words)).word, 'final');
  assert.equal(await verdict(words), 'passed');
});

live('s56: conversation: new message: open batch superseded', async (t) => {
  const from = step(2);
  const { scene, batch, ask, bring } = await talk(t, [from]);
  await ask().text();
  const first = bring(from, from.calls[0].id);
  await held(batch, first);
  scene.p.options.strict = false;
  assert.equal((await told(ask())).word, 'final');
  assert.equal((await told(first)).word, '409');
});

live('replay: conversation: the known calls come from the store',
  async (t) => {
    const from = step(2);
    const [one, two] = from.calls;
    const again = dialect.calls({ calls: [one, ...newCalls(1, 'call_')] });
    const { ask, bring } = await talk(t, [from, again]);
    await ask().text();
    const text = await bring(from, one.id, two.id).text();
    assert.ok(!text.includes(one.id), text);
    assert.ok(text.includes(again.calls[1].id));
    assert.ok(!text.includes('"output_index":1'));
  });

const ways = ['conversation', 'previous_response_id', 'stateless'];

/* Two tools that wait for approval; decide() sends one decision. */
async function toApprove(t, how) {
  const ids = [newId('mcpr_'), newId('mcpr_')];
  const from = asking(ids);
  const { scene, batch } = await talk(t, [from]);
  const base = { model: 'm', stream: true,
    ...(how === 'conversation' && { conversation: batch.conversation }) };
  const hello = { role: 'user', content: 'hi' };
  await batch.post({ ...base, input: [hello] }).text();
  return { ids, scene, batch, decide: (id, approve, reason) => batch.post({
    ...base, ...(how === 'previous_response_id' && { [how]: from.id }),
    input: [...how === 'stateless' ? [hello, ...ids.map((one) => ({ id: one,
      type: 'mcp_approval_request', name: 'send', server_label: 'mail',
      arguments: '{}' }))] : [],
    { type: 'mcp_approval_response', approval_request_id: id, approve,
      ...(reason && { reason }) }] }) };
}

for (const how of ways) {
  live(`s40: approvals of MCP tools, one by one: ${how}`, async (t) => {
    const { ids, scene, batch, decide } = await toApprove(t, how);
    const first = decide(ids[1], false, 'not \u00e9 now');
    await held(batch, first);
    const second = decide(ids[0], true);
    const words = await Promise.all([first, second].map(wordOf));
    assert.ok(words.includes('final'), `${words}`);
    const [sent, ...more] = scene.p.continuations();
    assert.equal(more.length, 0);
    assert.equal(sent.refused, false, String(sent.raw));
    assert.deepEqual(sent.body.input.filter(({ type }) =>
      type === 'mcp_approval_response'), [
      { type: 'mcp_approval_response', approval_request_id: ids[0],
        approve: true },
      { type: 'mcp_approval_response', approval_request_id: ids[1],
        approve: false, reason: 'not \u00e9 now' }]);
  });
}

for (const how of ways.slice(1)) {
  live(`s99: openai_responses: a late approval runs no tool twice: ${how}`,
    async (t) => {
      const { ids, scene, batch, decide } = await toApprove(t, how);
      const first = decide(ids[0], true);
      await held(batch, first);
      await wordOf(decide(ids[1], true));
      await first.text();
      assert.equal(scene.p.continuations().length, 1);

      /* A tab that was asleep sends its approval once more. */
      assert.match(await wordOf(decide(ids[0], true)), /^(final|empty)$/);
      assert.equal(scene.p.continuations().length, 1);
    });
}
