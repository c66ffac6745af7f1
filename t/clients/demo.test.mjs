/*
 * demo.test.mjs: the demo's page in a headless Chromium. Each situation runs
 * through plain NGINX, where it fails, and through the module, where it
 * succeeds; and the app runs with a provider's key.
 *
 * Suite: plain, long.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { test } from 'node:test';
import { get, post, root, store, until } from '../lib/harness.mjs';
import { dialects } from '../lib/dialects.mjs';
import { provider } from '../lib/provider.mjs';
import { launch } from './browser.mjs';
import { demoParts, demoStage, visitor } from './demo_stage.mjs';

const parts = await demoParts();
/* Its nginx.conf sets the store. */
const skip = parts.missing || (store !== 'shm' && 'has a store of its own');
const answer = /It will be .* Have a good time!/;

/* One run: the user asks, waits for the tools, and chooses in this window. */
async function play(t, it, settings, { picture, where = (page) => page }) {
  const visit = await visitor(t, it.browser,
    `http://127.0.0.1:${it.n.port}/?${settings}`);
  const { page } = visit;
  await page.getByRole('button', { name: 'A weekend in Lisbon' }).click();
  await page.locator('[data-tool=flights][data-state=output-available]')
    .first().waitFor();
  const asked = await where(page, visit);
  await asked.getByRole('button', { name: 'By the water' }).click();
  return { ...visit, end: async () => {
    await visit.picture(picture);
    const chatId = await page.locator('aside code').textContent();
    const { requests } = JSON.parse(
      await get(it.n.port, `/app/chat?id=${chatId}`).text());
    assert.deepEqual(visit.faults, []);
    const brought = requests.filter(({ of }) => of);
    return { refused: brought.filter((one) => one.refused).length,
      whole: brought.filter((one) => !one.refused)
        .map(({ results }) => results) };
  } };
}

const chat = (window) => window.locator('.chat');
const says = (window, text) => chat(window).getByText(text).first().waitFor();
const errors = (window) => window.locator('.error').allTextContents();
const second = (page) => page.frameLocator('iframe');

async function windowOfItsOwn(page, { context }) {
  const opened = context.waitForEvent('page');
  await page.getByText('open it as a window of its own').click();
  const window = await opened;
  await window.locator('[data-tool=ask]').waitFor();
  return window;
}

const plays = {
  'one window, early, through plain NGINX: refused': async (t, it) => {
    /* A result during a running request is not sent if that request fails. */
    const { page, end } = await play(t, it, 'plain', {
      picture: 'early-plain', where: async (window) => {
        await window.locator('.error').nth(1).waitFor();
        return window;
      } });
    await says(page, answer);
    assert.match((await errors(page)).join(), /AI_MissingToolResultsError/);
    assert.deepEqual(await end(), { refused: 2, whole: [3] });
  },

  'one window, early, through the module: one request': async (t, it) => {
    const { page, end } = await play(t, it, '', { picture: 'early' });
    await says(page, answer);
    assert.deepEqual(await errors(page), []);
    await page.getByText('One request, with all results.').waitFor();
    assert.deepEqual(await end(), { refused: 0, whole: [3] });
  },

  'two windows through plain NGINX: the chat is stuck': async (t, it) => {
    const { page, end } = await play(t, it, 'plain&two',
      { picture: 'two-plain', where: second });
    await says(second(page), /AI_MissingToolResultsError/);
    await page.getByText('no answer').waitFor();
    assert.match((await errors(page)).join(), /AI_MissingToolResultsError/);
    assert.deepEqual(await end(), { refused: 3, whole: [] });
  },

  'two windows through the module: one request, one answer in both':
  async (t, it) => {
    const { page, end } = await play(t, it, 'two',
      { picture: 'two', where: second });
    for (const window of [page, second(page)]) {
      await says(window, answer);
      assert.deepEqual(await errors(window), []);
      assert.equal(await window.locator('.tool.done').count(), 3);
    }
    await page.getByText('answer the question in either window').waitFor();
    await page.locator('.event.held').first().waitFor();
    /* Either window's request may go upstream. */
    await page.locator('.event:is(.released, .merged, .empty, .attached)')
      .first().waitFor();
    assert.deepEqual(await end(), { refused: 0, whole: [3] });
  },

  'a second window in a tab of its own has the answer, too': async (t, it) => {
    let own;
    const { page, end } = await play(t, it, 'two', { picture: 'two-own',
      where: async (...of) => { own = await windowOfItsOwn(...of);
        return own; } });
    for (const window of [page, own]) {
      await says(window, answer);
      assert.deepEqual(await errors(window), []);
    }
    assert.deepEqual(await end(), { refused: 0, whole: [3] });
  },

  'a cut stream through plain NGINX looks complete': async (t, it) => {
    const { page, end } = await play(t, it, 'plain&late&cut',
      { picture: 'cut-plain' });
    await says(page, /the answer is complete/);
    await says(page, /It will be/);
    assert.equal(await chat(page).getByText(answer).count(), 0);
    assert.deepEqual(await errors(page), []);
    await end();
  },

  'a cut stream through the module: the page knows': async (t, it) => {
    const { page, end } = await play(t, it, 'late&cut', { picture: 'cut' });
    await says(page, /broke off .*stream_interrupted: eof/);
    assert.equal((await errors(page)).length, 1);
    assert.equal(await chat(page).getByText('is complete').count(), 0);
    assert.deepEqual(await end(), { refused: 0, whole: [3] });
  },

  'a cut stream, two windows: both show that it is incomplete':
  async (t, it) => {
    const { page, end } = await play(t, it, 'cut&two', { picture: 'cut-two' });
    await says(page, /broke off .*stream_interrupted: eof/);
    /* The second window has since loaded the app's stored messages. */
    for (let asked = 0; asked < 2; asked++) {
      await page.waitForResponse((response) => response.url()
        .includes('/app/chat?id=') && response.frame() !== page.mainFrame());
    }
    for (const window of [page, second(page)]) {
      assert.equal(await chat(window).getByText('is complete').count(), 0);
    }
    await end();
  },

  'a new message while tools run is answered': async (t, it) => {
    const { page, faults } = await visitor(t, it.browser,
      `http://127.0.0.1:${it.n.port}/`);
    await page.getByRole('button', { name: 'A weekend in Lisbon' }).click();
    await page.locator('.tool.asks').waitFor();
    await page.getByLabel('Your message').fill('Rather Rome');
    await page.keyboard.press('Enter');
    await says(page, 'A weekend in Rome');
    await page.locator('.tool.asks').nth(1).getByText('By the water').click();
    await says(page, answer);
    await says(page, /the answer is complete/);
    assert.deepEqual(await errors(page), []);
    assert.deepEqual(faults, []);
  },

  'replayed calls through plain NGINX: tools run twice': async (t, it) => {
    const { page, end } = await play(t, it, 'plain&late&replay',
      { picture: 'replay-plain' });
    await says(page, answer);
    await says(page, 'asked 2 times');
    await says(page, 'ran 2 times');
    await page.locator('.tool.asks').first().waitFor();
    await end();
  },

  'replayed calls through the module: nothing runs twice': async (t, it) => {
    const { page, end } = await play(t, it, 'late&replay',
      { picture: 'replay' });
    await says(page, answer);
    await says(page, /the answer is complete/);
    assert.equal(await page.locator('.twice').count(), 0);
    assert.equal(await page.locator('.tool.done').count(), 3);
    assert.deepEqual(await end(), { refused: 0, whole: [3] });
  },

  'reloaded through the module: the answer continues': async (t, it) => {
    const { page, end } = await play(t, it, 'late', { picture: 'anew' });
    await says(page, /It will be/);
    const resumes = page.waitForResponse(/\/stream$/);
    await page.reload();
    assert.equal((await resumes).status(), 200);
    await says(page, answer);
    await says(page, /the answer is complete/);
    assert.deepEqual(await errors(page), []);
    assert.equal(await page.locator('.tool').count(), 3);
    assert.equal(await page.locator('.tool.done').count(), 3);
    assert.deepEqual(await end(), { refused: 0, whole: [3] });
  },

  'reloaded while tools run: they run again, the answer arrives':
  async (t, it) => {
    const { page, end } = await play(t, it, 'late', { picture: 'anew-tools',
      where: async (window) => {
        await window.reload();
        await window.locator('[data-tool=flights]'
          + '[data-state=output-available]').first().waitFor();
        return window;
      } });
    await says(page, answer);
    assert.equal(await page.locator('.tool').count(), 3);
    assert.equal(await page.locator('.twice').count(), 0);
    assert.deepEqual(await end(), { refused: 0, whole: [3] });
  },

  'switches change the settings, the page explains them': async (t, it) => {
    const { page, faults, picture } = await visitor(t, it.browser,
      `http://127.0.0.1:${it.n.port}/`, { colorScheme: 'dark',
        viewport: { width: 390, height: 844 } });
    const chatId = () => page.locator('aside code').textContent();
    const first = await chatId();
    for (const name of ['two', 'replay', 'cut']) {
      await page.locator(`label:has([name=${name}])`).click();
    }
    await page.getByText('plain NGINX').click();
    await page.getByText('A truncated answer looks complete').waitFor();
    assert.match(page.url(), /plain&two&cut&replay/);
    assert.notEqual(await chatId(), first);
    assert.ok(await page.locator('[name=early]').isDisabled());
    await page.frameLocator('iframe').getByText('Waits for').waitFor();
    assert.ok(await page.evaluate(() =>
      document.documentElement.scrollWidth <= window.innerWidth));
    await picture('phone', { fullPage: true });
    assert.deepEqual(faults, []);
  },

  'what the status endpoint says is shown, for this chat only':
  async (t, it) => {
    const { page, faults, picture } = await visitor(t, it.browser,
      `http://127.0.0.1:${it.n.port}/page/`);
    let answers = (route) => route.fulfill({ status: 404 });
    await page.route('**/chat-status', (route) => answers(route));
    await page.goto(`http://127.0.0.1:${it.n.port}/?chat=chat-aaaaaaa`);
    await page.getByText('no status endpoint').waitFor();
    const event = (n, what, conversation, detail = '') => ({ n, what,
      time: Date.now(), conversation, detail, batch: '', dialect: 'ai_sdk' });
    answers = (route) => route.fulfill({ json: { events: [
      event(1, 'held', 'chat-aaaaaaa', '2 missing'),
      event(2, 'released', 'chat-bbbbbbb'),
      event(3, 'bounced', 'chat-aaaaaaa'),
      event(4, 'held', 'chat-aaaaaaa', '1 missing'),
      event(5, 'merged', 'chat-aaaaaaa', '<b>2 results')] } });
    await page.locator('.event.merged').getByText('<b>2 results').waitFor();
    /* The polls of one hold are one row. */
    assert.equal(await page.locator('.event').count(), 2);
    assert.match(await page.locator('.event.held').textContent(),
      /held × 2.*1 missing/);
    await picture('panel');
    assert.deepEqual(faults, []);
  },
};

test('the demo in a browser', { skip, concurrency: 3 }, async (t) => {
  const { it: browser, missing } = await launch(t);
  if (missing) {
    t.skip(missing);
    return;
  }
  const it = { browser, ...await demoStage(t, parts) };
  await Promise.all(Object.entries(plays).map(([name, run]) =>
    t.test(name, (sub) => run(sub, it))));
});

test('make demo serves the page', { skip }, async (t) => {
  const child = spawn(process.execPath, [`${root}/docker/demo.mjs`],
    { stdio: ['pipe', 'pipe', 'inherit'] });
  t.after(() => child.kill('SIGTERM'));
  let output = '';
  child.stdout.on('data', (data) => { output += data; });
  const [, port] = await until(() =>
    /In a browser: http:\S+:(\d+)\/.* model: scripted/.exec(output), 20000,
  'the page');
  for (const [path, said] of [['/', /<title>/], ['/page/main.js', /useState/],
    ['/page/main.css', /color-scheme/], ['/status.html', /<script>/],
    ['/app/chat?id=x', /"messages":\[\]/],
    ['/plain/app/chat?id=x', /"messages":\[\]/]]) {
    assert.match(await get(Number(port), path).text(), said);
  }
});

/* The app's environment for a provider at this address. */
const keys = {
  openai_chat: (url) => ({ OPENAI_API_KEY: 'a key', OPENAI_BASE_URL: url }),
  anthropic: (url) => ({ ANTHROPIC_API_KEY: 'a key',
    ANTHROPIC_BASE_URL: url }),
};

test('with a key the app asks a provider', { skip: parts.missing },
  async (t) => {
    for (const [name, env] of Object.entries(keys)) {
      const behind = await provider(t, name, { calls: [{ id: 'call_1',
        name: 'weather', input: { city: 'Rome' } }] });
      const { server, port, name: model } = await parts.app({
        env: env(`http://127.0.0.1:${behind.port}/v1`) });
      t.after(() => server.close());
      const said = await post(port, '/chat',
        dialects.ai_sdk.fresh({ words: 'Where to?' })).text();
      assert.match(said, /"type":"tool-input-available"/);
      const [{ headers, body }] = behind.requests;
      assert.match(JSON.stringify(headers), /a key/);
      assert.equal(body.model, model);
      assert.match(JSON.stringify(body.messages), /Where to\?/);
      server.closeAllConnections();
    }
  });
