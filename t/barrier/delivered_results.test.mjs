/*
 * delivered_results.test.mjs: results that a provider keeps with its
 * conversation: a result that a 2xx response accepted is inserted into no
 * later body.
 *
 * The provider refuses a result that it already has, and a turn without the
 * result of a call, so a body with a 2xx response was right.
 */
import assert from 'node:assert/strict';
import { gate } from '../lib/harness.mjs';
import { Batch, stage, told } from '../lib/batch.mjs';
import { dialects, newCalls, newId } from '../lib/dialects.mjs';
import { live, leave } from '../lib/hold.mjs';
import { json, sse } from '../lib/provider.mjs';

const key = 'openai_responses_conversation';
const dialect = dialects[key];

/* A conversation: the provider's answers are these, then text. */
async function talk(t, answers = [], location = '') {
  const scene = await stage(t, key, { workers: 2, location });
  const batch = new Batch(scene, 2);
  const left = [sse(batch.from), ...answers];
  scene.p.answer = () => {
    const next = left.shift() ?? sse(dialect.final('done here'));
    return typeof next === 'function' ? next() : next;
  };
  await batch.ask();
  const say = () => batch.post(dialect.fresh({ words: 'and now?',
    conversation: batch.conversation }));
  return { p: scene.p, batch, say };
}

/* A new message is accepted, with results of these calls. */
async function turn({ p, say }, ids = []) {
  const { word, text } = await told(say());
  assert.equal(word, 'final', `${p.requests.at(-1).raw}\n${text}`);
  assert.deepEqual(p.requests.at(-1).answered, ids);
}

async function turns(it, n = 3) {
  for (let i = 0; i < n; i++) {
    await turn(it);
  }
}

const overloaded = () => json(503, { error: { message: 'overloaded' } });
const failed = () => sse([`event: error\ndata: ${JSON.stringify({
  type: 'error', code: 'server_error', message: 'boom', param: null,
  sequence_number: 0 })}\n\n`]);

live('s123: one continuation is answered: no later turn repeats its results',
  async (t) => {
    const it = await talk(t);
    assert.equal((await told(it.batch.continue(it.batch.results()))).word,
      'final');
    await turns(it);
  });

live('s123: two tabs answer in parts: no later turn repeats their results',
  async (t) => {
    const it = await talk(t);
    const first = it.batch.continue(it.batch.results([0]));
    await first.sent;
    const second = it.batch.continue(it.batch.results([1]));
    await Promise.all([first, second].map((one) => one.text()));
    it.batch.released(1);
    await turns(it);
  });

live('s123: an error in the stream, then a good answer: no later turn repeats '
  + 'its result', async (t) => {
  const it = await talk(t, [failed()]);
  const { batch } = it;
  assert.equal((await told(batch.continue(batch.results()))).word, 'error');
  assert.equal((await told(batch.continue(batch.results()))).word, 'final');
  await turns(it);
});

live('s123: two steps: no later turn repeats their results',
  async (t) => {
    const step = dialect.calls({ calls: newCalls(2, dialect.prefix) });
    const it = await talk(t, [sse(step)]);
    const { batch } = it;
    await batch.continue(batch.results()).text();
    await batch.post(dialect.continuation({ from: step,
      conversation: batch.conversation, results:
        Object.fromEntries(step.calls.map(({ id }) => [id, 1])) })).text();
    assert.equal(it.p.requests.filter(({ refused }) => refused).length, 0);
    await turns(it);
  });

live('s123: the only answer is 503: only the next accepted turn has the '
  + 'results', async (t) => {
  const it = await talk(t, [overloaded(), overloaded()]);
  const { batch } = it;
  assert.equal((await told(batch.continue(batch.results()))).word, '503');
  assert.equal((await told(it.say())).word, '503');
  assert.deepEqual(it.p.requests.at(-1).answered, batch.ids);
  await turn(it, batch.ids);
  await turns(it);
});

live('s123: a continuation has no answer yet: a new message does not contain '
  + 'its results', async (t) => {
  const answers = gate();
  const it = await talk(t, [() => answers.then(() =>
    sse(dialect.final('done late')))]);
  const { batch, p } = it;
  const own = batch.continue(batch.results());
  await p.arrival(2);
  p.options.strict = false;
  await it.say().text();
  assert.deepEqual(p.requests.at(-1).answered, []);
  answers.open();
  await own.text();
  p.options.strict = true;
  await turns(it);
});

live('s123: chat_repair all: one turn has the call\'s error', async (t) => {
  const it = await talk(t, [], 'chat_repair all;');
  await leave(it.batch, it.batch.results([0]));
  await turn(it, it.batch.ids);
  assert.match(String(it.p.requests.at(-1).raw), /outcome of this call is/);
  await turns(it);
});

live('s123: a new message brings a result itself: no later turn repeats it',
  async (t) => {
    const it = await talk(t);
    const { batch, p } = it;
    await leave(batch, batch.results([0]));
    const body = batch.body(batch.results([1]), dialect.says('and now?'));
    assert.equal((await told(batch.post(body))).word, 'final');
    assert.deepEqual(p.requests.at(-1).answered, batch.ids);
    await turns(it);
  });

/* A message that continues the old answer has no results in its history. */
for (const name of ['openai_responses_chained', 'anthropic_thread']) {
  live(`s123: ${name}: each message after the old answer has the results`,
    async (t) => {
      const scene = await stage(t, name, { workers: 2 });
      const batch = new Batch(scene, 2);
      const next = scene.dialect.final('done here', newId('new_'));
      scene.p.answer = (request) => (request.number === 1 ? sse(batch.from)
        : sse(next));
      await batch.ask();
      await batch.continue(batch.results()).text();
      assert.equal(scene.p.requests.at(-1).refused, false);
      const say = (from) => batch.post(scene.dialect.continuation({ from,
        results: {}, ...scene.dialect.says('and now?') }));
      for (const [from, ids] of [[batch.from, batch.ids], [next, []],
        [batch.from, batch.ids]]) {
        const { word, text } = await told(say(from));
        assert.equal(word, 'final', text);
        assert.deepEqual(scene.p.requests.at(-1).answered, ids);
      }
    });
}
