/*
 * judge.mjs: plays a client without the module and with it, and compares.
 *
 * The outcome is what the client's user sees: each message as the library
 * gives it, the calls that were run, the error, the last words. It is never
 * described by hand: with the module it must be what the reference situation
 * gives without it, in the same number of upstream requests or fewer. A
 * situation that `fails` must come out differently without the module, or
 * it would judge nothing.
 * Each verdict goes as a line into build/compatibility, for table.mjs.
 */
import assert from 'node:assert/strict';
import { appendFileSync, mkdirSync } from 'node:fs';
import { basename } from 'node:path';
import { root } from '../lib/harness.mjs';
import { chatSituations } from './situations.mjs';

export const folder = `${root}/build/compatibility`;

/* One file per test file: they run at the same time. */
export function note(line) {
  mkdirSync(folder, { recursive: true });
  appendFileSync(`${folder}/${basename(process.argv[1] ?? 'x')}.jsonl`,
    `${JSON.stringify(line)}\n`);
}

/* An error as its user can tell it from others. */
export const describe = (error) => ({ name: error.constructor.name,
  status: error.status ?? error.statusCode,
  message: [error.message, error.cause?.code].filter(Boolean).join(' ')
    /* Where it was asked is what differs. */
    .replace(/http:\/\/127\.0\.0\.1:\d+(\/gemini)?/g, '') });

/* Where only the fact counts: a broken connection has many voices. */
const loosened = ({ error, errors, ...rest }) => ({ ...rest,
  error: error && 'an error', errors: errors?.length });

/* Ids that the AI SDK makes are never alike: numbered as they come. */
function plain(value) {
  const ids = new Map();
  return JSON.parse(JSON.stringify(value).replace(/\b(?:aitxt|msg)-\w+/g,
    (id) => ids.get(id) ?? ids.set(id, `id-${ids.size}`).get(id)));
}

/*
 * client.play(situation, proxied) gives {outcome, requests}. Returns what
 * stands in the table: same, or mended, with what is seen without it.
 */
export async function judge(client, name) {
  const situation = client.situations[name];
  const right = client.situations[situation.reference ?? name];
  const see = async (which, proxied) => {
    const { outcome, ...more } = await client.play(which, proxied);
    /* Which would be this test's own fault. */
    assert.ok(which !== right || !/^(Type|Reference)Error: (?!terminated)/
      .test(`${outcome.error?.name}: ${outcome.error?.message}`),
    outcome.error?.message);
    return { ...more, outcome: plain(situation.loose
      ? loosened(outcome) : outcome) };
  };
  const reference = await see(right, false);
  assert.equal(!!reference.outcome.error, right.wrong,
    JSON.stringify(reference.outcome));
  const without = right === situation ? reference
    : await see(situation, false);
  const proxied = await see(situation, true);
  assert.deepEqual(proxied.outcome, reference.outcome);
  assert.ok(proxied.requests <= reference.requests,
    `${proxied.requests} requests, without the module ${reference.requests}`);
  const same = JSON.stringify(without.outcome)
    === JSON.stringify(reference.outcome);
  if (situation.fails) {
    assert.notDeepEqual(without.outcome, reference.outcome);
  }
  client.verify?.({ situation, reference, without, proxied });
  note({ client: client.name, situation: name,
    chat: client.situations === chatSituations || undefined,
    verdict: same ? 'same' : 'mended' });
}

/* A test for each situation that a client can be in. */
export async function judgeAll(t, client, names) {
  await Promise.all(names.map((name) =>
    t.test(`${client.name}: ${name}`, () => judge(client, name))));
}
