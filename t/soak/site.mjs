/*
 * site.mjs: the NGINX of random.mjs: a location per dialect, with and without
 * recording, with both values of chat_store_failure, behind subrequests and
 * internal redirects, and a provider that fails in every way.
 */
import { scene } from '../lib/batch.mjs';
import { dialects } from '../lib/dialects.mjs';
import { nginx } from '../lib/harness.mjs';
import { mutantStream } from '../lib/mutants.mjs';
import { json, provider, sse } from '../lib/provider.mjs';
import { lengthy } from '../lib/resume.mjs';
import { statusLocation } from '../lib/status.mjs';
import { newFolder } from '../lib/wait.mjs';

export const keys = Object.keys(dialects);

/* Paths that lead to location /record/ or /plain/ in an unusual way. */
export const routes = ['record', 'plain', 'spool', 'twice', 'auth', 'checked',
  'mirror', 'added', 'ssi', 'try', 'rewrite', 'fallback', 'accel'];

/*
 * The second chat has a tenant of its own: with the first one's, its request
 * would be a sibling of the request that waits for its answer.
 */
const one = (key, port) => {
  const { name } = dialects[key];
  const to = (base) => `chat ${name}; proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_pass http://127.0.0.1:${base}/;`;
  const around = (route, line) => `location /${route}/${key}/ {
    ${to(port.noise)} chat_record auto ttl=30s; ${line} }`;
  return `
  ${['deny', 'pass'].map((failure) => `location /${failure}/${key}/ {
    ${to(port[key])} chat_store_failure ${failure};
    proxy_read_timeout 60s; chat_hold 30s grace=60s; chat_record auto ttl=60s;
    proxy_set_header X-Verdict $chat_verdict; }`).join('\n')}
  location /record/${key}/ { ${to(port.noise)}
    chat_record on max=64k ttl=30s; }
  location /plain/${key}/ { ${to(port.noise)} chat_record off; }
  location /twice/${key}/ { chat ${name}; chat_record auto ttl=30s;
    rewrite ^/twice/(.*)$ /second/$1 break; proxy_pass http://itself; }
  location /second/${key}/ { ${to(port.noise)} chat_record auto ttl=30s;
    chat_tenant second$http_authorization; }
  location /rewrite/${key}/ { rewrite ^/rewrite/(.*)$ /record/$1 last; }
  location /try/${key}/ { try_files $uri @${key}; chat ${name}; }
  location @${key} { chat ${name}; chat_record on ttl=30s;
    proxy_pass http://127.0.0.1:${port.noise}; }
  ${around('spool', `client_body_in_file_only clean; proxy_buffering off;
    proxy_request_buffering off;`)}
  ${around('auth', 'auth_request /allowed;')}
  ${around('checked', `auth_request /plain/${key}/auth;`)}
  ${around('mirror', `mirror /plain/${key}/mirror; mirror /allowed;`)}
  ${around('added', `add_before_body /plain/${key}/before;
    add_after_body /allowed; addition_types *;`)}
  ${around('ssi', 'ssi on; ssi_types *;')}
  ${around('fallback', `proxy_intercept_errors on;
    error_page 400 429 500 502 504 = /plain/${key}/again;`)}
  ${around('accel', '')}`;
};

const server = (port, path) => `
  client_body_buffer_size 2k; proxy_read_timeout 6s;
  listen unix:${path};
  client_header_timeout 10s; client_body_timeout 10s; send_timeout 10s;
  lingering_timeout 1s; keepalive_timeout 10s;
  chat_hold 3s grace=500ms; chat_store_failure deny;
  chat_tenant $http_authorization;
  chat_conversation $http_x_batch;
  ${statusLocation}
  location = /results { chat_results; }
  location = /allowed { return 204; }
  location = /stub { stub_status; }
  location ~ ^/resume/(.*)$ { chat_resume $1; }
  location ~ ^/running/(.*)$ { chat_resume $1 running; }
  ${keys.map((key) => one(key, port)).join('\n')}`;

const weird = ['text/html', 'application/json', 'text/event-stream; x=y',
  'TEXT/EVENT-STREAM', ''];
const statuses = [204, 302, 400, 401, 404, 429, 500, 503];

/* Options of an answer's end and shape. */
function shape({ random }) {
  switch (random(8)) {
    case 0: return { end: 'reset' };
    case 1: return { close: true };
    case 2: return { cut: 1 };
    case 3: return { cut: 1 + random(50), flush: !random(2) };
    case 4: return { gzip: true };
    case 5: return { headers: { 'content-type': weird[random(5)] } };
    case 6: return { headers: { 'x-accel-buffering': 'no' } };
    default: return {};
  }
}

const nap = (ms) => () => new Promise((resolve) => {
  setTimeout(resolve, ms);
});

/* What the provider answers to a noisy request. */
function answer(it, { url, headers }) {
  const { random } = it;
  const key = headers['x-key'] ?? 'openai_chat';
  const batch = it.noisy.get(headers['x-batch']);
  const events = random(3) && batch ? batch.from
    : lengthy(key, random(60), random(300));
  const text = [...events];
  switch (random(12)) {
    case 0: return json(statuses[random(statuses.length)],
      { error: { message: 'no' } }, { location: '/plain/' });
    case 1: return sse([], { end: 'drop' });
    case 2: return json(200, { fine: `<!--# include virtual="/plain/${
      key}/included" -->` }, { 'content-type': 'text/html' });
    case 3: return { ...sse([mutantStream(text, random)], shape(it)),
      gzip: false };
    case 4:
      text.splice(random(text.length), 0, nap(random(8000)));
      return sse(text);
    case 5:
      text.splice(random(text.length));
      return sse(text, shape(it));
    case 6:
      return url.includes('accel') || random(4) === 0
      ? json(200, {}, { 'x-accel-redirect':
        `/${random(2) ? 'record' : 'plain'}/${key}/again` })
      : sse(text, { headers: { 'x-accel-buffering': 'no' } });
    default: return sse(text, random(2) ? shape(it) : {});
  }
}

/*
 * Starts it. it: {random, noisy: batches by their key}. Returns the NGINX and
 * scenes of lib/batch.mjs per dialect: quiet, with its own provider, whose
 * requests are judged, and noisy.
 */
export async function site(t, it, store) {
  const noise = await provider(t, null, {
    answer: (request) => answer(it, request) });
  /* Requests that NGINX aborts are no errors of the provider. */
  t.after(() => noise.errors.splice(0, noise.errors.length,
    ...noise.errors.filter(({ code }) => code !== 'ECONNRESET')));
  const quiet = {};
  for (const key of keys) {
    quiet[key] = await provider(t, key);
  }
  const port = { noise: noise.port, ...Object.fromEntries(keys.map((key) =>
    [key, quiet[key].port])) };
  const path = `${newFolder()}/own.sock`;
  const n = await nginx(t, { workers: 2, locations: ' ', store, tenant: false,
    daemon: true, connects: /^redis/.test(store), server: server(port, path),
    http: `upstream itself { server unix:${path}; }` });
  const scenes = (p, route) => Object.fromEntries(keys.map((key) => {
    const one = scene(key, p(key), n);
    one.dialect = { ...dialects[key],
      path: `/${route}/${key}${dialects[key].path}` };
    return [key, one];
  }));
  it.noise = noise;
  it.quiet = scenes((key) => quiet[key], 'deny');
  it.loud = scenes(() => ({}), 'record');
  return n;
}
