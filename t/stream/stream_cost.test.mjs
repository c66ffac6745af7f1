/*
 * stream_cost.test.mjs: the CPU time of a stream grows only with its bytes.
 *
 * A hostile provider opens 4,000 calls and then continues the first one. Such
 * an event may take at most five times the CPU time of an event in a stream of
 * one call. The best of several tries counts.
 *
 * Suite: asan, plain.
 */
import assert from 'node:assert/strict';
import http from 'node:http';
import { nginx, post } from '../lib/harness.mjs';
import { compare, cost } from '../lib/cpu.mjs';
import { dialects } from '../lib/dialects.mjs';
import { live } from '../lib/hold.mjs';
import { data } from '../lib/dialects/wire.mjs';

const calls = 4000;
const events = 20000;

const id = (i) => `call_${String(i).padStart(8, '0')}`;
const part = (call) => data({ id: 'c', object: 'chat.completion.chunk',
  choices: [{ index: 0, delta: { tool_calls: [call] },
    finish_reason: null }] });
const begun = [data({ type: 'start', messageId: 'm' }),
  data({ type: 'start-step' })];

/* open: the events that open a call; more: another event of the same. */
const streams = {
  'ai_sdk, arguments': { key: 'ai_sdk', begun,
    open: (i) => data({ type: 'tool-input-start', toolCallId: id(i),
      toolName: 'f' }),
    more: (i) => data({ type: 'tool-input-delta', toolCallId: id(i),
      inputTextDelta: 'x' }) },
  'ai_sdk, approvals': { key: 'ai_sdk', begun,
    open: (i) => data({ type: 'tool-input-available', toolCallId: id(i),
      toolName: 'f', input: {} }) + streams['ai_sdk, approvals'].more(i),
    more: (i) => data({ type: 'tool-approval-request',
      approvalId: `q${id(i)}`, toolCallId: id(i) }) },
  'ag_ui': { key: 'ag_ui',
    begun: [data({ type: 'RUN_STARTED', threadId: 't', runId: 'r' })],
    open: (i) => data({ type: 'TOOL_CALL_START', toolCallId: id(i),
      toolCallName: 'f' }),
    more: (i) => data({ type: 'TOOL_CALL_ARGS', toolCallId: id(i),
      delta: 'x' }) },
  'openai_chat, calls without an index': { key: 'openai_chat', begun: [],
    open: (i) => part({ id: id(i), type: 'function',
      function: { name: 'f', arguments: '' } }),
    more: (i) => part({ id: id(i), function: { arguments: 'x' } }) },
};

live('4,000 calls: an event takes no longer than with one call',
  async (t) => {
    let body;
    const server = http.createServer(async (request, response) => {
      request.resume();
      await new Promise((resolve) => { request.on('end', resolve); });
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(body);
    });
    await new Promise((done) => { server.listen(0, '127.0.0.1', done); });
    t.after(() => { server.closeAllConnections(); server.close(); });
    const n = await nginx(t, { upstream: server.address().port, workers: 1 });

    let number = 0;
    const time = (key, text) => {
      const { path, headers, fresh } = dialects[key];
      body = text;
      return cost(n, () => post(n.port, path,
        fresh({ conversation: id(++number) }), headers)
        .text({ broken: true }));
    };
    for (const [name, { key, begun: head, open, more }]
      of Object.entries(streams)) {
      await t.test(name, async (t2) => {
        const each = async (count) => {
          const before = head.join('') + Array.from({ length: count },
            (_, i) => open(i)).join('');
          let opening = Infinity;
          for (let i = 0; i < 3; i++) {
            opening = Math.min(opening, await time(key, before));
          }
          return async () =>
            await time(key, before + more(0).repeat(events)) - opening;
        };
        const { attack, usual, fits } = await compare(await each(calls),
          await each(1), (many, one) => many < 5 * one);
        const seen = `${(attack / usual).toFixed(1)} times the CPU time`;
        t2.diagnostic(seen);
        assert.ok(fits, seen);
      });
    }
  });
