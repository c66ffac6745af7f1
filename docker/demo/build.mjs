/*
 * build.mjs: makes the demo's page from docker/demo/page into a folder that
 * nginx can serve, with the status page beside it. The pages load nothing from
 * other addresses.
 */
import { build } from 'esbuild';
import { copyFileSync, mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

export async function buildPage(www) {
  mkdirSync(`${www}/page`, { recursive: true });
  await build({ entryPoints: [here('page/main.jsx'), here('page/main.css')],
    outdir: `${www}/page`, bundle: true, format: 'iife', jsx: 'automatic',
    minify: true, target: 'es2022', legalComments: 'none',
    logLevel: 'error', define: { 'process.env.NODE_ENV': '"production"' } });
  copyFileSync(here('page/index.html'), `${www}/index.html`);
  copyFileSync(here('../status.html'), `${www}/status.html`);
}
