/*
 * table.mjs: docs/compatibility.md, from what the run has shown.
 *
 * Each test has left a line in build/compatibility for each client in each
 * situation. Writes the page; with --check says whether the page is what the
 * run gives. What was not played this time (a library that is not there, no
 * browser) keeps what the page says of it.
 */
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { root } from '../lib/harness.mjs';
import { folder } from './judge.mjs';
import { chatSituations, shown, situations } from './situations.mjs';

const path = `${root}/docs/compatibility.md`;
const words = { same: '=', mended: '**mended**' };
const verdicts = Object.fromEntries(Object.entries(words)
  .map(([verdict, word]) => [word, verdict]));

const by = (one, other) => (one < other ? -1 : 1);

/* What the run has left: lines of judge.mjs. */
function played() {
  const files = existsSync(folder) ? readdirSync(folder) : [];
  return files.flatMap((file) => readFileSync(`${folder}/${file}`, 'utf8')
    .split('\n').filter(Boolean).map((line) => JSON.parse(line)));
}

/* What the page says: its tables' cells, as such lines. */
function told() {
  const page = existsSync(path) ? readFileSync(path, 'utf8') : '';
  return page.split(/\n\n/).filter((block) => block.startsWith('| '))
    .flatMap((block) => {
      const [head, , ...rows] = block.trim().split('\n').map((line) =>
        line.slice(1, -1).split('|').map((cell) => cell.trim()));
      return rows.flatMap(([name, ...cells]) => cells.map((cell, i) =>
        ({ name, of: head[i + 1], verdict: verdicts[cell] })));
    }).filter(({ verdict }) => verdict)
    .map(({ name, of, verdict }) => (situations[of]
      && !chatSituations[name] ? { client: name, situation: of, verdict }
      : { chat: true, client: of, situation: name, verdict }));
}

const table = (head, rows) => [head, head.map(() => '---'), ...rows]
  .map((cells) => `| ${cells.join(' | ')} |`).join('\n');

const legend = (all) => shown(all).map(({ name, about }) =>
  `- *${name}*: ${about}`).join('\n');

function render() {
  const known = new Map();
  const clients = [new Set(), new Set()];
  for (const { chat, client, situation, verdict } of [...told(),
    ...played()]) {
    known.set(`${client}/${situation}`, verdict);
    clients[chat ? 1 : 0].add(client);
  }
  const [sdks, chats] = clients.map((set) => [...set].sort(by));
  const cell = (client, situation) =>
    words[known.get(`${client}/${situation.name}`)] ?? '–';
  const { dependencies } = JSON.parse(readFileSync(
    `${root}/t/clients/package.json`, 'utf8'));
  const versions = Object.entries(dependencies).map(([name, version]) =>
    version.replace(/^npm:/, '').replace(/^(?=\d)/, `${name}@`)).sort(by);
  return `# Compatibility

Written by \`make clients\` from a run of the real client libraries; do not
edit. Each client was played in each situation twice, without the module and
with it, and what its user sees was compared: every message as the library
gives it, the calls, the errors, the last words, and that the module made no
more upstream requests.

- **=**: with the module the same as without it.
- **mended**: without the module it goes wrong; with it, it comes out as where
  nothing goes wrong. What that is says *as*, below.
- **–**: not possible with this client, or not played.

## Clients of a provider

${table(['client', ...shown(situations).map(({ name }) => name)],
    sdks.map((client) => [client, ...shown(situations)
      .map((situation) => cell(client, situation))]))}

${legend(situations)}

## Chats before an app

The app is streamText of the same version behind one route; deep-chat talks to
a Chat Completions provider.

${table(['situation', ...chats], shown(chatSituations).map((situation) =>
    [situation.name, ...chats.map((client) => cell(client, situation))]))}

${legend(chatSituations)}

## Versions

${versions.map((version) => `\`${version}\``).join(', ')
    .replace(/(.{1,78})(?:\s|$)/g, '$1\n')}`;
}

const page = render();
if (!process.argv.includes('--check')) {
  writeFileSync(path, page);
} else if (page !== readFileSync(path, 'utf8')) {
  console.error('docs/compatibility.md is not what this run gives: make '
    + 'clients writes it');
  process.exitCode = 1;
}
