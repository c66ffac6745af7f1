/*
 * replay.mjs: streams that repeat calls of the client: a stage that sends one
 * in all pieces and ways, and the expected rest.
 */
import assert from 'node:assert/strict';
import { nginx, post, until } from './harness.mjs';
import { dialects, newId } from './dialects.mjs';
import { provider, sse } from './provider.mjs';
import { data, named } from './dialects/wire.mjs';

/* One location for each way of proxying and of filtering. */
const ways = { unbuffered: 'proxy_buffering off;',
  buffered: 'proxy_buffering on;', off: 'chat_replay_filter off;',
  small: 'chat_limits event=1k;',
  dry: 'chat_dry_run on;', unheld: 'chat_hold off;',
  slow: 'proxy_buffering off; limit_rate 2m;',
  slow_buffered: 'proxy_buffering on; limit_rate 2m;' };
const locations = Object.entries(ways).map(([way, lines]) => `
  location /${way}/ {
    chat auto;
    ${lines}
    proxy_pass http://provider;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
  }`).join('');

export async function theatre(t, more) {
  const p = await provider(t, null);
  const n = await nginx(t, { upstream: p.port, locations, ...more });
  const cases = new Map();
  p.answer = ({ url }) => {
    const [, , key, cut] = url.split('/');
    const { stream } = cases.get(key);
    return sse(stream, { cut: Number(cut) || undefined });
  };
  return { p, n, cases };
}

/* Runs one case one way; returns the bytes and the log line. */
export async function show({ n, cases }, one, { way = 'unbuffered',
  cut = 'whole', http2 = false } = {}) {
  const key = newId('');
  cases.set(key, one);
  const uri = `/${way}/${key}/${cut}${(one.dialect ?? dialects.ai_sdk).path}`;
  /* A tenant of its own: no turn of a case finds the state of another. */
  const answer = post(http2 ? n.port2 : n.port, uri, one.body,
    { authorization: one.tenant ?? key }, { http2 });
  const bytes = await answer.text();
  const seen = await until(() =>
    n.accessLog().find((line) => line.uri === uri));
  assert.equal(seen.verdict, one.verdict ?? 'passed');
  return { bytes, seen };
}

/*
 * A case in all pieces; sees is the part of the stream that the client gets.
 */
export async function play(scene, one, options = {}) {
  const sees = one.sees.join('');
  const turns = [['1', 'unbuffered', false], ['7', 'buffered', false],
    ['whole', 'unbuffered', true], ['1', 'buffered', true],
    ['7', 'unbuffered', true], ['whole', 'buffered', false]];
  await Promise.all(turns.map(async ([cut, way, http2]) => {
    const { bytes, seen } = await show(scene, one,
      { cut, way: options.way ?? way, http2 });
    assert.equal(bytes, sees, `cut ${cut}, ${way}, HTTP/${http2 ? 2 : 1}`);
    assert.equal(Number(seen.replays_dropped), one.replays ?? 0);
    assert.equal(seen.turn_status, one.end ?? 'finished');
  }));
}

/* Changes each event of a stream as an object and writes it as before. */
const rewritten = (stream, change) => stream.flatMap((event) => {
  const text = /^data: ([^\n]*)/m.exec(event)[1];
  if (text === '[DONE]') {
    return event;
  }
  const object = change(JSON.parse(text));
  return object === null ? []
    : event.startsWith('event:') ? named(object) : data(object);
});

/* The stream without the calls at these positions. */
export const without = {
  openai_chat: (stream, gone, all) => rewritten(stream, (object) => {
    const [choice] = object.choices;
    const { tool_calls: calls } = choice.delta;
    if (calls) {
      choice.delta.tool_calls = calls
        .filter(({ index }) => !gone.includes(index))
        .map((call) => ({ ...call, index: call.index
          - gone.filter((i) => i < call.index).length }));
      if (choice.delta.tool_calls.length === 0) {
        return null;
      }
    }
    if (all && choice.finish_reason === 'tool_calls') {
      choice.finish_reason = 'stop';
    }
    return object;
  }),

  openai_responses: (stream, gone) => rewritten(stream, (object) => {
    const { output_index: index, response } = object;
    if (gone.includes(index)) {
      return null;
    }
    if (index !== undefined) {
      object.output_index -= gone.filter((i) => i < index).length;
    }
    if (response) {
      response.output = response.output.filter((_, i) => !gone.includes(i));
    }
    return object;
  }),

  gemini: (stream, gone) => {
    let i = 0;
    return rewritten(stream, (object) => {
      const [{ content, finishReason }] = object.candidates;
      const { parts } = content;
      content.parts = parts.filter(({ functionCall }) =>
        !functionCall || !gone.includes(i++));
      if (content.parts.length === 0 && finishReason) {
        content.parts.push({ text: '' });
      }
      return content.parts.length ? object : null;
    });
  },

  /* Without numbers. */
  ag_ui: (stream, gone) => {
    const at = new Map();
    let opened = 0;
    return rewritten(stream, (object) => {
      const { type, toolCallId: id } = object;
      if (type === 'TOOL_CALL_START') {
        at.set(id, opened++);
      }
      return gone.includes(at.get(id)) ? null : object;
    });
  },

  anthropic: (stream, gone, all) => rewritten(stream, (object) => {
    const { index, delta } = object;
    if (gone.includes(index)) {
      return null;
    }
    if (index !== undefined) {
      object.index -= gone.filter((i) => i < index).length;
    }
    if (all && delta?.stop_reason === 'tool_use') {
      delta.stop_reason = 'end_turn';
    }
    return object;
  }),
};
