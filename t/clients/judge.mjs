/*
 * judge.mjs: runs a client without the module and with it, and compares.
 *
 * The outcome is what the client's user sees: each message of the library, the
 * calls that ran, the error, the last text. The expected outcome is that of
 * the reference situation without the module; the module must reach it with at
 * most as many upstream requests. A situation that `fails` must have another
 * outcome without the module, or it would test nothing. Each verdict becomes a
 * line in build/compatibility, for table.mjs.
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

/* An error, reduced to what its user can distinguish. */
export const describe = (error) => ({ name: error.constructor.name,
  status: error.status ?? error.statusCode,
  message: [error.message, error.cause?.code].filter(Boolean).join(' ')
    /* Only the address differs. */
    .replace(/http:\/\/127\.0\.0\.1:\d+(\/gemini)?/g, '') });

/* Only the fact counts: libraries report a broken connection differently. */
const loosened = ({ error, errors, ...rest }) => ({ ...rest,
  error: error && 'an error', errors: errors?.length });

/* The AI SDK's ids are random: they are numbered in order. */
function plain(value) {
  const ids = new Map();
  return JSON.parse(JSON.stringify(value).replace(/\b(?:aitxt|msg)-\w+/g,
    (id) => ids.get(id) ?? ids.set(id, `id-${ids.size}`).get(id)));
}

/*
 * client.play(situation, proxied) gives {outcome, requests}. Returns the
 * table's cell: same, or mended, with the outcome without it.
 */
export async function judge(client, name) {
  const situation = client.situations[name];
  const right = client.situations[situation.reference ?? name];
  const see = async (which, proxied) => {
    const { outcome, ...more } = await client.play(which, proxied);
    /* That would be a fault of this test. */
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

/* A test for each situation that applies to a client. */
export async function judgeAll(t, client, names) {
  await Promise.all(names.map((name) =>
    t.test(`${client.name}: ${name}`, () => judge(client, name))));
}
