/*
 * table.mjs: writes docs/compatibility.md from the results of a run.
 *
 * Each test writes a line to build/compatibility for each client in each
 * situation. With --check the script compares the page with the run. A client
 * that did not run this time (no library, no browser) keeps its cells.
 */
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { root } from '../lib/harness.mjs';
import { folder } from './judge.mjs';
import { chatSituations, shown, situations } from './situations.mjs';

const path = `${root}/docs/compatibility.md`;
const words = { same: '=', mended: '**fixed**' };
const verdicts = Object.fromEntries(Object.entries(words)
  .map(([verdict, word]) => [word, verdict]));

const by = (one, other) => (one < other ? -1 : 1);

/* The lines of judge.mjs from the run. */
function played() {
  const files = existsSync(folder) ? readdirSync(folder) : [];
  return files.flatMap((file) => readFileSync(`${folder}/${file}`, 'utf8')
    .split('\n').filter(Boolean).map((line) => JSON.parse(line)));
}

/* The page's tables, as such lines. */
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

const legend = (all) => shown(all).map(({ name, about, reference }) =>
  `- *${name}*: ${about}${reference ? ` (expected: as *${reference}*)` : ''}`)
  .join('\n');

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

\`make clients\` writes this page from a run of the real client libraries; do
not edit it. Each client runs in each situation twice, without the module and
with it. The test compares everything that the user sees: each message as the
library returns it, calls, errors and the final text. It also checks that the
module sends no additional upstream requests.

| cell | meaning |
| --- | --- |
| = | the same outcome with and without the module |
| **fixed** | wrong without the module, as expected with it |
| – | not possible with this client, or not tested |

## Clients of a provider

${table(['client', ...shown(situations).map(({ name }) => name)],
    sdks.map((client) => [client, ...shown(situations)
      .map((situation) => cell(client, situation))]))}

${legend(situations)}

## Chats with an app

The app is streamText of the same version behind one route; deep-chat connects
to a Chat Completions provider.

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
