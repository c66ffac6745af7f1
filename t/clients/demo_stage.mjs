/*
 * demo_stage.mjs: the demo as `make demo` starts it (docker/nginx.conf, its
 * app, its page), and its pages in a headless Chromium.
 *
 * Each page records its faults: script errors and violations of its
 * Content-Security-Policy. Pictures go to build/demo.
 */
import { mkdirSync } from 'node:fs';
import { configuration } from '../../docker/configuration.mjs';
import { modulePath, nginx, root, unbuilt } from '../lib/harness.mjs';

export const pictures = `${root}/build/demo`;

/* The parts of the demo, or the reason to skip. */
export async function demoParts() {
  try {
    const [{ buildPage }, { app }] = await Promise.all([
      import('../../docker/demo/build.mjs'),
      import('../../docker/demo/app.mjs')]);
    return { buildPage, app, missing: unbuilt };
  } catch (error) {
    return { missing: unbuilt || error.message };
  }
}

const main = (dir) => `
daemon off;
pid ${dir}/nginx.pid;
${process.getuid() === 0 ? 'user root;' : ''}
error_log ${dir}/error.log info;
worker_processes 2;
`;

/* nginx before these ports, as in the demo. */
export async function demoNginx(t, { app = 9, provider = 9, www }) {
  return nginx(t, { workers: 2, conf: (dir, [port]) => configuration(dir,
    { module: modulePath, port, provider, app, www })
    .replace('worker_processes 2;', main(dir)) });
}

/* nginx with app and page; {n, app}. */
export async function demoStage(t, { buildPage, app }) {
  const www = `${pictures}/www`;
  await buildPage(www);
  const it = await app({ pace: 20 });
  t.after(() => new Promise((resolve) => {
    it.server.closeAllConnections();
    it.server.close(resolve);
  }));
  return { app: it, n: await demoNginx(t, { app: it.port, www }) };
}

/* Opens url; {page, context, faults, picture(name)}. */
export async function visitor(t, browser, url, options = {}) {
  const context = await browser.newContext({
    viewport: { width: 1440, height: 860 }, ...options });
  t.after(() => context.close());
  const faults = [];
  const watch = (page) => {
    page.on('pageerror', ({ message }) => faults.push(message));
    page.on('dialog', (dialog) => {
      faults.push(`a dialog: ${dialog.message()}`);
      dialog.dismiss();
    });
    page.on('console', (line) => {
      if (/Content Security Policy/i.test(line.text())) {
        faults.push(line.text());
      }
    });
    /* Requests of a page to other hosts are refused. */
    page.on('request', (request) => {
      if (!/^(http:\/\/127\.0\.0\.1[:/]|data:)/.test(request.url())) {
        faults.push(`asks for ${request.url()}`);
      }
    });
  };
  context.on('page', watch);
  const page = await context.newPage();
  page.setDefaultTimeout(20000);
  await page.goto(url);
  mkdirSync(pictures, { recursive: true });
  return { page, context, faults, async picture(name, more) {
    await page.bringToFront();
    await page.screenshot({ path: `${pictures}/${name}.png`, ...more });
  } };
}
