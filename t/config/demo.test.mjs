/*
 * demo.test.mjs: the demo prints what it promises, and its commands work by
 * hand.
 *
 * Suite: plain.
 */
import assert from 'node:assert/strict';
import { execFile, spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { pause, root, unbuilt, until } from '../lib/harness.mjs';

const demo = join(root, 'docker', 'demo.mjs');

/* The demo runs the release build of the module. */
const skip = process.env.CHAT_ASAN ? 'not with ASan' : unbuilt;
const skipByHand = skip
  || (spawnSync('curl', ['--version']).error && 'there is no curl');

function shell(command, cwd) {
  const it = { output: '', done: false };
  it.end = new Promise((resolve) => {
    const child = execFile('bash', ['-c', command], { cwd }, () => {
      it.done = true;
      resolve(it.output);
    });
    child.stdout.on('data', (data) => { it.output += data; });
  });
  return it;
}

test('the demo prints both outcomes and leaves nothing behind', { skip },
  async () => {
    const child = spawn(process.execPath, [demo, '--once'],
      { stdio: ['ignore', 'pipe', 'inherit'] });
    let output = '';
    child.stdout.on('data', (data) => { output += data; });
    const code = await new Promise((resolve) => {
      child.on('close', resolve);
    });
    assert.equal(code, 0, output);
    assert.equal(output.split('Two requests, two errors').length, 4, output);
    assert.equal(output.split('One request with both').length, 4, output);
    assert.match(output, /following tool_call_ids did not have response/);
    const folder = /configuration: (\S+)\/nginx.conf/.exec(output)[1];
    assert.ok(!existsSync(folder));
  });

test('the commands to try by hand work', { skip: skipByHand }, async (t) => {
  const child = spawn(process.execPath, [demo],
    { stdio: ['pipe', 'pipe', 'inherit'] });
  t.after(() => child.kill('SIGTERM'));
  let output = '';
  child.stdout.on('data', (data) => { output += data; });

  for (let round = 1; round <= 2; round++) {
    await until(() => output.split('Ctrl-C').length === round + 1, 20000,
      'the lines');
    const text = output.slice(output.lastIndexOf('By hand'));
    const dir = /cd (\S+)/.exec(text)[1];
    const lines = text.split('\n').filter((line) => /^ *curl/.test(line))
      .map((line) => () => shell(line, dir));
    const [ask, rome, oslo, again, filtered, broken, told, refused] = lines;
    assert.equal(lines.length, 8);

    assert.match(await ask().end, /"tool_calls"[^]*\[DONE\]/);
    const held = rome();
    await pause(300);
    assert.equal(held.done, false, held.output);
    assert.match(await oslo().end, /Rome has 31 degrees/);
    const first = await held.end;
    assert.match(first, /"finish_reason":"stop"[^]*\[DONE\]/);
    assert.match(first, /Rome has 31 degrees/);

    assert.match(await again().end, /tool-input-start[^]*Rome has 31/);
    const clean = await filtered().end;
    assert.match(clean, /Rome has 31/);
    assert.doesNotMatch(clean, /tool-input/);

    assert.doesNotMatch(await broken().end, /interrupted/);
    assert.match(await told().end, /stream_interrupted/);
    assert.match(await refused().end, /did not have response messages/);
    child.stdin.write('\n');
  }

  child.kill('SIGINT');
  const code = await new Promise((resolve) => { child.on('close', resolve); });
  assert.equal(code, 0);
  assert.ok(!existsSync(/cd (\S+)/.exec(output)[1]));
});
