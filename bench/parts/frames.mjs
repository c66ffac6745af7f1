/*
 * frames.mjs: what a frame costs, by dialect and kind; and what it costs in
 * Lua and njs (Debian's modules), which could also look for replays.
 *
 * One connection reads a long answer as fast as it comes. All must deliver
 * the same bytes. Of a replay the module delivers no call; in Gemini the
 * frames remain, with their token counts.
 */
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { dialects } from '../../t/lib/dialects.mjs';
import { frames, hard, keys, usual } from '../frames.mjs';
import { inTurn } from '../measure.mjs';
import { cells, fixed, goalOf, table } from '../report.mjs';
import { built, cost, provider, request, server, stream } from '../stage.mjs';

/* The greatest ratios, by the table of goals. */
const goals = (key, kind) => (kind === 'tool input' ? 2
  : kind === 'text' ? key === 'openai_chat' ? 1.35 : 1.4 : undefined);

/* So many events that a round takes plain NGINX 10 ms or more. */
const many = 131072;

const modules = '/usr/lib/nginx/modules';
const lua = [`${modules}/ndk_http_module.so`,
  `${modules}/ngx_http_lua_module.so`];
const njs = [`${modules}/ngx_http_js_module.so`];

/* `find` searches each buffer once; the others decode each event. */
const find = 'tool-input-start';
const filters = {
  'Lua find': { load: lua, lines: `body_filter_by_lua_block {
    if string.find(ngx.arg[1], "${find}", 1, true) then
      ngx.ctx.seen = true
    end }` },
  'Lua cjson': { load: lua,
    http: 'init_by_lua_block { cjson = require "cjson.safe" }',
    lines: `body_filter_by_lua_block {
    local text, at = (ngx.ctx.rest or "") .. ngx.arg[1], 1
    while true do
      local last = string.find(text, "\\n\\n", at, true)
      if not last then break end
      local from = string.find(text, "data: ", at, true)
      local event = from and from < last
        and cjson.decode(string.sub(text, from + 6, last - 1))
      if event and event.type == "${find}" then
        ngx.ctx.seen = true
      end
      at = last + 2
    end
    ngx.ctx.rest = string.sub(text, at) }` },
  'njs find': { load: njs, script: `let seen = false;
function filter(r, data, flags) {
  if (data.indexOf('${find}') >= 0) { seen = true; }
  r.sendBuffer(data, flags);
}
export default { filter };` },
  'njs JSON': { load: njs, script: `let seen = false;
let rest = '';
function filter(r, data, flags) {
  const events = (rest + data).split('\\n\\n');
  rest = events.pop();
  for (let i = 0; i < events.length; i++) {
    const from = events[i].indexOf('data: ');
    if (from >= 0 && events[i][from + 6] === '{'
      && JSON.parse(events[i].slice(from + 6)).type === '${find}') {
      seen = true;
    }
  }
  r.sendBuffer(data, flags);
}
export default { filter };` },
};

/* The alternatives with an installed module, each as a running nginx. */
async function alternatives(bench, upstream) {
  const list = {};
  for (const [name, { script, ...options }] of Object.entries(filters)) {
    if (options.load.some((path) => !existsSync(path))) {
      process.stderr.write(`${name} is skipped: ${options.load.at(-1)
      } is not installed\n`);
      continue;
    }
    const more = {};
    if (script) {
      const file = `${name.replace(' ', '_')}.js`;
      writeFileSync(join(built, file), script);
      more.http = `js_path ${built}; js_import main from ${file};`;
      more.lines = 'js_body_filter main.filter;';
    }
    try {
      list[name] = await server(bench, { upstream, module: false, ...options,
        ...more });
    } catch (error) {
      process.stderr.write(`${name} is skipped: ${error.message}\n`);
    }
  }
  return list;
}

/* Compares one stream; returns its row. */
async function play(bench, servers, key, kind) {
  const { events, body, dropped } = frames(key, kind,
    bench.pick(2048, kind === 'replay' ? many / 4 : many));
  const name = `${key}-${kind.replaceAll(' ', '-')}`;
  const file = request(name, { path: dialects[key].path, body,
    query: `f=${stream(name, events)}` });
  const bytes = events.reduce((sum, event) =>
    sum + Buffer.byteLength(event), 0);
  const seen = {};
  const measured = (who, it) => async (turn) => {
    /* Those that are slow and not ours get fewer rounds. */
    if (!['plain', 'module'].includes(who) && turn > 4) {
      return undefined;
    }
    seen[who] = await cost(bench, it, file);
    return seen[who].cost / events.length;
  };
  const sample = inTurn(Object.fromEntries(Object.entries(servers)
    .map(([who, it]) => [who, measured(who, it)])));
  const found = await bench.compare(`frames/${key}/${kind}`, async () => {
    const costs = await sample();
    for (const [who, one] of Object.entries(seen)) {
      const same = who === 'module' && dropped
        ? one.bytes < seen.plain.bytes * (key === 'gemini' ? 0.8 : 0.02)
        : one.bytes === bytes && one.sum === seen.plain.sum;
      if (!same) {
        throw new Error(`${name}: the bytes of ${who} differ`);
      }
    }
    return costs;
  }, { goals: { module: goals(key, kind) }, others: Object.keys(filters) });
  return [key, kind, `${Math.round(bytes / events.length)}`,
    fixed(found.module.plain), ...cells(found.module), goalOf(found.module),
    ...Object.keys(filters).map((who) =>
      (found[who] ? fixed(found[who].ratio) : ''))];
}

export default { title: 'Frames', oneCpu: true, async run(bench) {
  const upstream = await provider(bench);
  const ours = { plain: await server(bench, { upstream, module: false }),
    module: await server(bench, { upstream }) };
  const servers = { ...ours, ...await alternatives(bench, upstream) };
  const rows = [];
  for (const key of keys) {
    for (const kind of [...usual, ...hard]) {
      rows.push(await play(bench, hard.includes(kind) ? ours : servers, key,
        kind));
    }
  }
  return `One worker, one connection, \`proxy_buffering off\`, buffers of 4 KB;
${bench.pick(2048, many)} events (of a replay a quarter) as fast as they come.
µs are those of plain NGINX. All delivered the same bytes, but of a replay the
module delivered no call (in Gemini the frames with their token counts remain).
\`find\` searches each buffer for one word, the others decode each event and
change nothing.

The pieces of text and input are like those of recorded answers. Of the hard
frames most have escapes and other alphabets, and four calls take turns, as no
provider sent it; they have no goal.

${table(['dialect', 'frames', 'bytes', 'plain, µs', 'x plain',
    'median (spread)', 'at most', ...Object.keys(filters)], rows)}`;
} };
