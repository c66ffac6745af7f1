/*
 * status_page.test.mjs: docker/status.html in a headless Chromium, as the
 * demo's NGINX serves it. The status comes from the test if it is hostile or
 * must change at once, else from the module.
 *
 * Suite: plain, long.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { pause, post, root, store, unbuilt, until } from '../lib/harness.mjs';
import { dialects, newCalls } from '../lib/dialects.mjs';
import { provider } from '../lib/provider.mjs';
import { launch } from './browser.mjs';
import { demoNginx, visitor } from './demo_stage.mjs';

const file = readFileSync(`${root}/docker/status.html`, 'utf8');
const skip = unbuilt || (store !== 'shm' && 'has a store of its own');

const between = (tag) => file.split(`<${tag}>`)[1].split(`</${tag}>`)[0];
const hash = (tag) => `'sha256-${createHash('sha256').update(between(tag))
  .digest('base64')}'`;

test('the status page allows its own script and style, and nothing else',
  () => {
    const [, policy] = /Content-Security-Policy" content="([^"]*)"/
      .exec(file);
    assert.equal(policy, `default-src 'none'; script-src ${hash('script')}; `
      + `style-src ${hash('style')}; connect-src 'self'; `
      + "base-uri 'none'; form-action 'none'");
    const script = between('script');
    assert.doesNotMatch(script, /innerHTML|outerHTML|insertAdjacent|eval\(/);
    assert.doesNotMatch(script, /document\.write|Function\(|import\(/);
    assert.doesNotMatch(file.replace('http://www.w3.org/2000/svg', ''),
      /https?:|url\(|@import|src=\S*\.|<link/);
  });

/* A status in the endpoint's form. */
function status(more = {}) {
  return { version: '0.1.0', nginx: '1.22.1', time: Date.now(), node: 'a',
    workers: 2, store: { type: 'shm', state: 'up',
      zone_size: 16777216, zone_used: 70744 }, holds: { now: 0, oldest_ms: 0 },
    recordings: { streams: 0, bytes: 0, followers: 0 },
    counters: { requests: { ai_sdk: { passed: 3, held: 1 } },
      turns: { ai_sdk: { finished: 2, interrupted: 1 } },
      interruptions: { eof: 1 }, replays_dropped: 0, released: 1 },
    histograms: { hold_seconds: { le: [1, 5], counts: [1, 2], sum: 3,
      count: 2 } }, batches: [], batches_more: 0, events: [], ...more };
}

const member = (id, state, kind = 'client') => ({ id, state, kind });
const batch = (members, more = {}) => ({ name: '00000000000000ab',
  conversation: 'chat-1', dialect: 'ai_sdk', age_ms: 1500, held: 1,
  missing: members.filter(({ state }) => state === 'missing').length,
  attempt: 0, state: 'sealed', members, ...more });

/*
 * Opens the page; answer.with is the endpoint's next answer. /gone never
 * answers.
 */
async function watcher(t, { browser, n }, options, query = '') {
  const answer = { with: status(), asked: 0 };
  const visit = await visitor(t, browser,
    `http://127.0.0.1:${n.port}/page/`, options);
  await visit.page.route('**/chat-status*', (route) => {
    answer.asked++;
    return answer.with === 0 ? route.abort()
      : answer.with === 404 ? route.fulfill({ status: 404 })
      : route.fulfill({ contentType: 'application/json',
        body: JSON.stringify(answer.with) });
  });
  await visit.page.route(({ pathname }) => pathname === '/gone', (route) =>
    route.abort());
  await visit.page.goto(`http://127.0.0.1:${n.port}/status.html${query}`);
  return { ...visit, answer };
}

/* Texts that may occur in an id or a name. */
const hostile = ['<script>window.hacked = 1</script>',
  '"><img src=x onerror="window.hacked = 1">', 'x'.repeat(10240),
  '\u202eevil \u2066\u202d sdrawkcab', 'مرحبا بالعالم '.repeat(60),
  'a\u0000b\u001b[31m\u0008\u0000', `Z${'\u0301'.repeat(3000)}`,
  '\ud800 alone', '__proto__', 'javascript:window.hacked = 1',
  '${window.hacked = 1}', '\u{1f469}\u200d'.repeat(900), '', '\n\n\n\t'];
const values = [null, 1e308, -5, true, [], {}, [[[]]], { toString: 1 }];

/* The same status with these in place of all texts and numbers. */
function spoiled(value, odd, key = '') {
  if (Array.isArray(value)) {
    return value.map((one, i) => spoiled(one, odd, `${i}`));
  }
  if (value && typeof value === 'object') {
    return Object.fromEntries(Object.entries(value).map(([name, one]) =>
      [name, spoiled(one, odd, name)]));
  }
  return typeof value === 'string' || odd.numbers ? odd.text(key) : value;
}

/* Whether all visible content is within the window, or can be scrolled to. */
const overflow = () => [...document.body.querySelectorAll('*')]
  .filter((it) => !it.closest('.scroll') && it.getBoundingClientRect().right
    > window.innerWidth + 1 && it.closest('.word') === it)
  .map((it) => `${it.tagName} ${it.className}`)
  .concat(document.documentElement.scrollWidth > window.innerWidth
    ? ['the page'] : []);

/* Three calls of a model with results of three clients. */
async function bring(port, calls) {
  const chat = dialects.openai_chat;
  const send = (body) => post(port, chat.path, body,
    { authorization: 'Bearer a' });
  await send(chat.fresh()).text();
  return (i) => send(chat.continuation({ from: { id: 'a', calls },
    results: { [calls[i].id]: { degrees: i } } }));
}

const widths = { desktop: { width: 1440, height: 860 },
  phone: { width: 360, height: 740 } };

const plays = {
  'a held batch appears, gets a result, and disappears': async (t, it) => {
    const { page, answer, faults, picture } = await watcher(t, it);
    await page.getByText('Nothing waits.').waitFor();
    await page.locator('#live.on').waitFor();
    const members = [member('call_a', 'missing'), member('call_b',
      'missing'), member('call_c', 'approval', 'approval')];
    answer.with = status({ holds: { now: 1, oldest_ms: 61000 },
      batches: [batch(members)], events: [{ n: 1, time: Date.now(),
        what: 'held', batch: '00000000000000ab', detail: '' }] });
    await page.locator('.batch').waitFor();
    assert.equal(await page.locator('.chip.missing').count(), 2);
    await page.getByText('the oldest for 1 min 1 s').waitFor();
    await picture('status-held');
    members[0].state = 'result';
    answer.with = status({ batches: [batch(members)] });
    await page.locator('.chip.result').waitFor();
    assert.equal(await page.locator('.chip.missing').count(), 1);
    answer.with = status();
    await page.getByText('Nothing waits.').waitFor();
    assert.equal(await page.locator('.batch').count(), 0);
    assert.deepEqual(faults, []);
  },

  'held calls are shown with their states': async (t, it) => {
    const { page, faults, picture } = await visitor(t, it.browser,
      `http://127.0.0.1:${it.n.port}/status.html`);
    const number = async (state, count) => until(async () =>
      await page.locator(`.chip.${state}`).count() === count, 8000,
    `${count} calls that are ${state}`);
    await page.getByText('Nothing waits.').waitFor();
    const brings = await bring(it.n.port, it.calls);
    const first = brings(0);
    await number('missing', 2);
    await number('result', 1);
    const second = brings(1);
    await number('missing', 1);
    await number('result', 2);
    await picture('status-module');
    const third = brings(2);
    await page.getByText('Nothing waits.').waitFor();
    await page.locator('.what.merged').first().waitFor();
    await Promise.all([first, second, third].map((one) => one.text()));
    assert.equal(it.p.continuations().length, 1);

    /* its timeline, by a click on its name */
    await page.locator('#events .pick').first().click();
    const steps = page.locator('#timeline .event');
    await steps.filter({ hasText: 'ended' }).first().waitFor();
    const texts = await steps.allTextContents();
    assert.equal(texts.filter((text) => text.includes('brought')).length, 3,
      `${texts}`);
    assert.ok(/held.*incomplete.*brought call_/.test(texts[0]), texts[0]);
    assert.ok(texts.some((text) => /merged.*attempt 1/.test(text)),
      `${texts}`);
    await picture('status-timeline');
    await page.locator('#wanted').fill('no such conversation');
    await page.locator('#wanted').press('Enter');
    await page.getByText('This node has no event of it.').waitFor();
    assert.deepEqual(faults, []);
  },

  'rates cover the last second, a restart shows none': async (t, it) => {
    const { page, answer } = await watcher(t, it);
    const counters = (released) => ({ ...status().counters, released });
    const shown = page.locator('.tile', { hasText: 'Released / s' })
      .locator('b');
    let time = 1e12;
    const next = async (released, wanted) => {
      answer.with = status({ time: time += 2000,
        counters: counters(released) });
      await until(async () => await shown.textContent() === wanted, 8000,
        `${wanted} released a second`);
    };
    answer.with = status({ time, counters: counters(100) });
    await page.getByText('released', { exact: true }).first().waitFor();
    await until(() => answer.asked > 2, 8000, 'a sample');
    await next(120, '10');
    answer.with = status({ time: time += 2000, counters: counters(3) });
    await until(async () => await shown.textContent() === '0', 8000, '0');
  },

  'it sends no requests while it is hidden': async (t, it) => {
    const { page, answer } = await watcher(t, it);
    await page.locator('#live.on').waitFor();
    const hide = (hidden) => page.evaluate((value) => {
      Object.defineProperty(document, 'hidden',
        { configurable: true, get: () => value });
      document.dispatchEvent(new Event('visibilitychange'));
    }, hidden);
    await hide(true);
    await page.getByText('paused').waitFor();
    const { asked } = answer;
    await pause(2500);
    assert.ok(answer.asked <= asked + 1, `asked ${answer.asked - asked}`);
    await hide(false);
    await page.locator('#live.on').waitFor();
  },

  'no endpoint, another path, another server': async (t, it) => {
    const { page, answer, faults } = await watcher(t, it);
    answer.with = 404;
    await page.getByText('There is no status endpoint').waitFor();
    answer.with = 0;
    await page.getByText('The status endpoint does not answer.').waitFor();
    answer.with = status();
    await page.locator('#live.on').waitFor();
    let asked = 0;
    await page.route(({ pathname }) => pathname === '/elsewhere', (route) => {
      asked++;
      return route.fulfill({ json: status() });
    });
    const base = `http://127.0.0.1:${it.n.port}/status.html`;
    await page.goto(`${base}?src=/elsewhere`);
    await page.locator('#live.on').waitFor();
    assert.ok(asked);
    for (const src of ['//evil.example/', 'http://127.0.0.1:1/',
      'javascript:alert(1)', 'data:application/json,{}', 'blob:x']) {
      await page.goto(`${base}?src=${encodeURIComponent(src)}`);
      await page.getByText('a path of this server only').waitFor();
    }
    assert.deepEqual(faults, []);
  },

  'several nodes, each at a path of its own': async (t, it) => {
    const { page, answer, faults } = await watcher(t, it, {},
      '?src=/chat-status&src=/chat-status-b&src=/gone');
    answer.with = status({ node: '<b>', holds: { now: 7, oldest_ms: 1 } });
    const rows = page.locator('#nodelist tr');
    await rows.filter({ hasText: '7' }).nth(1).waitFor();
    assert.deepEqual((await rows.allTextContents()).slice(1),
      ['<b>2up7', '<b>2up7', '/gone0no answer0']);
    await page.getByText('3 nodes').waitFor();
    assert.deepEqual(faults, []);
  },
};

/* A status with this many batches, calls in each, and events. */
function full(batches, calls, events) {
  const state = ['missing', 'result', 'approval'];
  const members = Array.from({ length: calls }, (_, i) =>
    member(`call_${i}`, state[i % 3]));
  return status({ batches: Array.from({ length: batches }, (_, i) =>
    batch(members, { name: `${i}`.padStart(16, '0') })),
  events: Array.from({ length: events }, (_, n) => ({ n, time: Date.now(),
    what: 'held', batch: '00000000000000ab', dialect: 'ai_sdk',
    conversation: 'chat-1', detail: 'waits for call_1' })) });
}

/*
 * A full status with all hostile texts, then small ones with one hostile text
 * or odd value everywhere: a full one with ten kilobytes in each field takes
 * Chromium seconds.
 */
function spoiledAll() {
  const some = () => full(2, 4, 4);
  let n = 0;
  const text = (key) => (/^(what|state|kind)$/.test(key) && n % 2
    ? 'held' : hostile[n++ % hostile.length]);
  const mixed = spoiled(full(20, 20, 64), { text });
  for (const [i, bad] of hostile.entries()) {
    mixed.counters.requests[bad] = { [bad]: i + 1, passed: 2 };
    mixed.counters.turns[bad] = { [bad]: i + 1 };
    mixed.counters[bad] = i;
    mixed.counters.interruptions[bad] = i;
  }
  return [mixed, ...hostile.map((one) => spoiled(some(),
    { text: () => one })), ...values.map((one) => spoiled(some(),
    { text: () => one, numbers: true })), ...values];
}

/* Returns when the page has shown this status, or has failed to. */
async function shows(page, answer, bad, i) {
  const { asked } = answer;
  const marked = bad && typeof bad === 'object' && !Array.isArray(bad);
  answer.with = marked ? { ...bad, nginx: `number ${i}` } : bad;
  await page.evaluate(() =>
    document.dispatchEvent(new Event('visibilitychange')));
  /* The others were shown if the page asks again. */
  await until(() => (marked ? page.evaluate((mark) => document
    .getElementById('facts').textContent.includes(mark), `number ${i} ·`)
    : answer.asked > asked + 1), 30000, `status ${i}`).catch(() => {});
  const notice = () => page.locator('#notice').textContent();
  /* On a busy machine a status may be too late: the page asks again. */
  await until(async () => await notice() === '', 30000).catch(() => {});
  assert.equal(await notice(), '', `${i}`);
}

plays['hostile texts run no code and stay within the page'] =
  async (t, it) => {
    const { page, answer, faults, picture } = await watcher(t, it);
    await page.locator('#live.on').waitFor();
    await page.locator('#wanted').fill(hostile[0]);
    await page.locator('#wanted').press('Enter');
    for (const [i, bad] of spoiledAll().entries()) {
      await shows(page, answer, bad, i);
      for (const [device, size] of Object.entries(widths)) {
        await page.setViewportSize(size);
        assert.deepEqual(await page.evaluate(overflow), [],
          `status ${i}, ${device}`);
      }
      /* No invisible characters, and none that change the text direction. */
      assert.doesNotMatch(await page.locator('body > *:not(script)')
        .allTextContents().then((all) => all.join(' ')),
      /[\0-\x08\x0b-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2066-\u2069]/);
      if (!i) {
        assert.equal(await page.locator('.batch').count(), 20);
        assert.equal(await page.locator('#events .event').count(), 64);
        assert.equal(await page.locator('#timeline .event').count(), 64);
        await picture('status-hostile-phone', { fullPage: true });
        await page.emulateMedia({ colorScheme: 'dark' });
        assert.deepEqual(await page.evaluate(overflow), [], 'dark');
        await picture('status-hostile-dark', { fullPage: true });
      }
    }
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await page.locator('script').count(), 1);
    assert.equal(await page.locator('img, iframe, object, a').count(), 0);
    assert.deepEqual(faults, []);
  };

test('the status page', { skip, concurrency: 3 }, async (t) => {
  const { it: browser, missing } = await launch(t);
  if (missing) {
    t.skip(missing);
    return;
  }
  const calls = newCalls(3);
  const p = await provider(t, 'openai_chat', { calls });
  const it = { browser, p, calls, n: await demoNginx(t, { provider: p.port,
    www: `${root}/docker` }) };
  await Promise.all(Object.entries(plays).map(([name, run]) =>
    t.test(name, (sub) => run(sub, it))));
});
