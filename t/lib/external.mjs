/*
 * external.mjs: external results: their location beside the chat, the clients
 * that post there, and the upstream requests.
 *
 * The conversation of a batch of lib/batch.mjs is its key.
 */
import assert from 'node:assert/strict';
import { get, post } from './harness.mjs';
import { stage } from './batch.mjs';
import { say } from './hold.mjs';
import { newId } from './dialects.mjs';

/* Options of a stage: chat_results at /results, for the same tenant. */
export const outside = { hold: '20s', workers: 2,
  location: `${say.verdict} chat_record off;`,
  server: `
  chat_tenant $http_authorization;
  chat_conversation $http_x_batch;
  location = /results { chat_results; }` };

export const openStage = (t, key, options) =>
  stage(t, key, { ...outside, ...options });

/* The answer of /results: {status, headers, body}. */
export async function answered(answer) {
  const text = await answer.text();
  const { status, headers } = await answer.head;
  return { status, headers, text,
    body: text && /json/.test(headers['content-type'])
      ? JSON.parse(text) : null };
}

/* Posts any body. */
export const send = (batch, body, { headers, node = batch.pick(), ...rest }
  = {}) => answered(post(rest.http2 ? node.port2 : node.port, '/results',
  body, headers, rest));

/* A result of the call at this position. */
export const of = (batch, at, value) => ({ conversation: batch.key,
  toolCallId: batch.ids[at], ...value });

export const give = (batch, at, value, options) =>
  send(batch, of(batch, at, value), options);

const named = (batch, method, { headers, node = batch.pick() } = {}) =>
  answered(get(node.port, `/results?conversation=${batch.key}`, headers,
    { method }));

export const show = (batch, options) => named(batch, 'GET', options);
export const clear = (batch, options) => named(batch, 'DELETE', options);

/* Checks that it was accepted: the number of new and of repeated results. */
export async function taken(answer, applied, repeated = 0) {
  const { status, body } = await answer;
  assert.equal(status, 200, JSON.stringify(body));
  assert.deepEqual(body, { applied, repeated });
}

/* An answer of the Responses API with approval requests for these calls. */
export function asking(ids) {
  const id = newId('resp_');
  let number = 0;
  const event = (type, fields) => `event: ${type}\ndata: ${JSON.stringify({
    type, sequence_number: number++, ...fields })}\n\n`;
  const items = ids.map((one) => ({ id: one, type: 'mcp_approval_request',
    name: 'send', server_label: 'mail', arguments: '{}' }));
  const response = (status, output) => ({ response: { id, status, output } });
  return Object.assign([
    event('response.created', response('in_progress', [])),
    ...items.flatMap((item, i) => [
      event('response.output_item.added', { output_index: i, item }),
      event('response.output_item.done', { output_index: i, item })]),
    event('response.completed', response('completed', items))],
  { id, calls: ids.map((one) => ({ id: one })) });
}

/* The result of this call in the upstream request, in any dialect. */
export function sent({ body }, id) {
  const part = body.messages?.flatMap((m) => m.parts ?? [])
    .find((one) => one.toolCallId === id);
  const tool = body.messages?.find((m) => m.tool_call_id === id);
  const block = body.messages?.flatMap((m) => m.content)
    .find((one) => one?.tool_use_id === id);
  const item = [body.input ?? []].flat().find((one) => one.call_id === id
    && /_output$/.test(one.type));
  const response = body.contents?.flatMap(({ parts }) => parts)
    .find((one) => one.functionResponse?.id === id);
  const message = body.messages?.find((m) => m.toolCallId === id);
  const entry = body.resume?.find((one) => one.interruptId === id);
  return part ?? message ?? entry ?? tool?.content ?? block ?? item?.output
    ?? response?.functionResponse.response;
}

/* The checks of an output and an error in each dialect. */
const forms = {
  ai_sdk: {
    output: (got, value) => {
      assert.equal(got.state, 'output-available');
      assert.deepEqual(got.output, value);
    },
    error: (got, text) => {
      assert.equal(got.state, 'output-error');
      assert.equal(got.errorText, text);
      assert.ok(!('output' in got));
    } },
  anthropic: {
    output: (got, value) => {
      assert.ok(!got.is_error);
      assert.equal(typeof got.content, 'string');
      assert.deepEqual(textual(got.content), value);
    },
    error: (got, text) => {
      assert.equal(got.is_error, true);
      assert.equal(got.content, text);
    } },
  gemini: {
    /* The provider accepts only objects. */
    output: (got, value) => assert.deepEqual(got,
      value?.constructor === Object ? value : { output: value }),
    error: (got, text) => assert.deepEqual(got, { error: text }) },
  ag_ui: {
    output: (got, value) => {
      if ('interruptId' in got) {
        assert.equal(got.status, 'resolved');
        assert.deepEqual(got.payload, value);
        return;
      }
      assert.ok(!('error' in got) && got.id);
      assert.equal(typeof got.content, 'string');
      assert.deepEqual(textual(got.content), value);
    },
    error: (got, text) => {
      if ('interruptId' in got) {
        assert.deepEqual(Object.keys(got), ['interruptId', 'status']);
        assert.equal(got.status, 'cancelled');
        return;
      }
      assert.equal(got.error, text);
      assert.equal(got.content, text);
    } },
  text: {
    output: (got, value) => {
      assert.equal(typeof got, 'string');
      assert.deepEqual(textual(got), value);
    },
    error: (got, text) => assert.deepEqual(JSON.parse(got), { error: text }) },
};
export const formOf = ({ dialect }) => forms[dialect.name] ?? forms.text;

/* A string stays itself, another value becomes JSON in a string. */
function textual(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
