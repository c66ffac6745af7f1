/*
 * browser.mjs: pages with chat UIs in a headless Chromium: the one that
 * CHAT_CHROMIUM names, or Debian's chromium-headless-shell, which needs a
 * third of the CPU time of its chromium.
 *
 * Each test file bundles its pages in memory, since a bundle on disk could be
 * read while another test file writes it. A page comes from the address that
 * it talks to, nginx or not, so no request is cross-origin. Every request has
 * the play's key.
 */
import { existsSync } from 'node:fs';
import { relative } from 'node:path';
import { patience, pause, root, until } from '../lib/harness.mjs';
import { script } from './script.mjs';
import { chatSituations } from './situations.mjs';
import { load } from './stage.mjs';

const chromium = process.env.CHAT_CHROMIUM
  ?? '/usr/bin/chromium-headless-shell';

/* The text of each bundle, by FOLDER/PAGE.js. */
const bundled = new Map();

/* Reason to skip, or a browser. */
export async function launch(t) {
  const { packages, missing } = await load('playwright-core');
  if (missing || !existsSync(chromium)) {
    return { missing: missing || `no browser: ${chromium} is not there` };
  }
  const [playwright] = packages;
  const it = await playwright.chromium.launch({ executablePath: chromium,
    args: process.getuid() === 0 ? ['--no-sandbox'] : [] });
  t.after(() => it.close());
  return { it };
}

/*
 * Reason to skip, or a browser and its bundled pages. bundles: the same pages
 * in a folder of this name, with some packages replaced.
 */
export async function browser(t, pages, bundles = { '': {} }) {
  const { packages, missing } = await load('esbuild');
  if (missing) {
    return { missing };
  }
  const [{ build }] = packages;
  await Promise.all(Object.entries(bundles).map(async ([folder, alias]) => {
    const { outputFiles } = await build({ entryPoints: pages.map((page) =>
      `${root}/t/clients/pages/${page}`), outdir: `/${folder}`, write: false,
    absWorkingDir: `${root}/t/clients`, bundle: true, alias, format: 'iife',
    jsx: 'automatic', minify: true, logLevel: 'error',
    define: { 'process.env.NODE_ENV': '"production"' } });
    outputFiles.forEach(({ path, text }) =>
      bundled.set(relative('/', path), text));
  }));
  return launch(t);
}

/* The state of a page after it has not changed for a while. */
export async function quiet(page, requests) {
  let state;
  let before;
  const deadline = Date.now() + 15000 * patience;
  for (let calm = 0; calm < 5; calm++) {
    await pause(20);
    state = await page.evaluate(() => window.state());
    if (requests.size || !state.idle || JSON.stringify(state) !== before) {
      if (Date.now() > deadline) {
        throw new Error(`the page keeps changing: ${before}`);
      }
      calm = 0;
    }
    before = JSON.stringify(state);
  }
  const { idle, ...rest } = state;
  return rest;
}

/*
 * Opens a page of a play in a context of its own; more: of window.play.
 * requests: the running ones; faults: its errors; load(changes): reloads it
 * with these changes of window.play.
 */
export async function open(it, play, { base, file, api, ...more }) {
  const context = await it.newContext({ extraHTTPHeaders: {
    ...play.headers, authorization: `Bearer ${play.key}` } });
  const page = await context.newPage();
  const faults = [];
  /* Requests of a page to other hosts are refused. */
  await page.route((url) => url.hostname !== '127.0.0.1',
    (route) => route.abort());
  page.on('pageerror', (error) => faults.push(error.message));
  const requests = new Set();
  page.on('request', (request) => requests.add(request));
  for (const end of ['requestfinished', 'requestfailed']) {
    page.on(end, (request) => requests.delete(request));
  }
  let given = { api: `${base}${api}`, ...more };
  await page.route(`${base}/page`, (route) => route.fulfill({
    contentType: 'text/html; charset=utf-8',
    body: `<!doctype html><div id=page></div><script>window.play = ${
      JSON.stringify(given)}</script>` }));
  const loadAnew = async (changes) => {
    given = { ...given, ...changes };
    await page.goto(`${base}/page`);
    requests.clear();
    await page.addScriptTag({ content: bundled.get(file) });
    await until(() => page.evaluate(() => !!window.say), 5000, 'the page');
  };
  await loadAnew({});
  return { context, page, faults, requests, load: loadAnew };
}

/* Runs work, by which the page sends a request to a chat's address. */
export const sends = (page, work) => Promise.all([
  page.waitForRequest(/\/(api\/chat|completions)$/), work()]);

/* Opens a page of a play, sends the user's text, and returns what it shows. */
async function visit(it, play, place) {
  const { context, page, faults, requests } = await open(it, play,
    { ...place, when: play.situation.tabs?.[0],
      sendsEarly: play.situation.early });
  play.page = page;
  try {
    await sends(page, () => page.evaluate(() => { window.say('Hello'); }));
    const state = await quiet(page, requests);
    return { ...state, faults, error: state.errors[0] };
  } finally {
    await context.close();
  }
}

/*
 * A client for judge(): key selects the provider's script, at the address.
 * After the text of an answer nothing is sent until the page shows it: a reset
 * would discard bytes that a busy browser has not read, and deep-chat loses
 * bytes that it reads together with the end. The outcome shows if the text is
 * missing.
 */
export function ui(stage, it, { name, key, at, file, api }) {
  return { name, situations: chatSituations,
    async play(situation, proxied) {
      const shown = (words) => until(() => play.page.evaluate((text) =>
        window.state().text.includes(text), words.trim())).catch(() => {});
      const play = stage.play(proxied, { ...situation, shown },
        script(key, { ...situation,
          shown: at === key ? shown : undefined }));
      const outcome = await visit(it, play,
        { base: play.base(at), file, api });
      return { outcome, requests: stage.requests(play, at) };
    } };
}
