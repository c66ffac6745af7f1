/*
 * harness_outside.mjs: results from outside of the chat: a location for them
 * beside it, and those who post there.
 *
 * The conversation of a batch of harness_batch.mjs is its key.
 */
import assert from 'node:assert/strict';
import { get, post } from './harness.mjs';
import { stage } from './harness_batch.mjs';
import { say } from './harness_hold.mjs';
import { newId } from './harness_dialects.mjs';

/* Options of a stage: chat_results at /results, for those of the tenant. */
export const outside = { hold: '20s', workers: 2,
  location: `${say.verdict} chat_siblings empty;`,
  server: `
  chat_tenant $http_authorization;
  chat_conversation $http_x_batch;
  location = /results { chat_results; }` };

export const openStage = (t, key, options) =>
  stage(t, key, { ...outside, ...options });

/* What /results has answered: {status, headers, body}. */
export async function answered(answer) {
  const text = await answer.text();
  const { status, headers } = await answer.head;
  return { status, headers, text,
    body: text && /json/.test(headers['content-type'])
      ? JSON.parse(text) : null };
}

/* Posts this body, whatever it is. */
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

/* It was taken: so many were new, so many were not. */
export async function taken(answer, applied, repeated = 0) {
  const { status, body } = await answer;
  assert.equal(status, 200, JSON.stringify(body));
  assert.deepEqual(body, { applied, repeated });
}

/* An answer of the Responses API that asks to approve these calls. */
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
