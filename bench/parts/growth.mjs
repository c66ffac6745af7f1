/*
 * growth.mjs: how costs grow with events, calls, the body, the turns of a
 * conversation, held requests and followers; each curve as a plot.
 *
 * A cost is the CPU time of all workers (and of Redis where it is the store)
 * for the whole work of that size, the least of some rounds. The exponent is
 * the slope of the curve's upper half in the plot: 1 is linear, and so is what
 * it costs a unit if it does not grow.
 */
import { dialects } from '../../t/lib/dialects.mjs';
import { get } from '../../t/lib/client.mjs';
import { until } from '../../t/lib/harness.mjs';
import { body, complete, half, ids } from '../bodies.mjs';
import { frames } from '../frames.mjs';
import { exponent, plot } from '../plot.mjs';
import { fixed, table } from '../report.mjs';
import {
  clients, cost, newStore, provider, request, send, server, spent, stream,
} from '../stage.mjs';

const { path } = dialects.openai_chat;
const powers = (from, to, factor = 4) => {
  const list = [];
  for (let n = from; n <= to; n *= factor) {
    list.push(n);
  }
  return list;
};
const status = async (it) =>
  JSON.parse(await get(it.port, '/status').text());

/* The least cost of some rounds at each size: [[size, µs], ...]. */
async function curve(bench, sizes, measure) {
  const points = [];
  for (const size of sizes) {
    let least = Infinity;
    for (let round = 0; round < bench.pick(1, 3); round++) {
      least = Math.min(least, await measure(size));
    }
    points.push([size, least]);
  }
  return points;
}

/* One answer of so many events, read as fast as it comes. */
async function events({ bench, upstream }) {
  const it = await server(bench, { upstream });
  const recording = await server(bench, { upstream,
    lines: 'chat_conversation $http_x_talk; chat_record on;' });
  const sizes = powers(256, bench.pick(4096, 262144));
  const one = (kind, n) => {
    const made = frames('openai_chat', kind, n);
    const name = `events-${kind.replace(' ', '-')}-${n}`;
    return request(name, { path, body: made.body,
      query: `f=${stream(name, made.events)}`,
      headers: { 'X-Talk': '#SERIAL#' } });
  };
  const list = {};
  for (const [name, who, kind] of [['text', it, 'text'],
    ['tool input', it, 'tool input'], ['replay', it, 'replay'],
    ['text, recorded', recording, 'text']]) {
    list[name] = await curve(bench, kind === 'replay'
      ? sizes.filter((n) => n <= 32768) : sizes, async (n) =>
      (await cost(bench, who, one(kind, n))).cost);
  }
  return list;
}

/* One request with text(size) as its body. */
async function requests({ bench, upstream }, sizes, text, module = true) {
  const it = await server(bench, { upstream, module,
    lines: module ? 'chat_limits calls=1024;' : '' });
  return curve(bench, sizes, async (size) => {
    const file = request(`growth-${size}`, { path, query: 'f=small',
      body: text(size), tenant: 'bench' });
    const times = Math.max(4, Math.min(64, Math.ceil(bench.pick(100, 4000)
      / size)));
    return (await cost(bench, it, file, { times })).cost / times;
  });
}

async function calls(all) {
  const sizes = powers(1, all.bench.pick(64, 512), 2);
  const says = { role: 'user', content: 'On.' };
  return {
    fresh: await requests(all, sizes, (n) => body('chat', 2,
      [...complete(ids(n)), says])),
    continuation: await requests(all, sizes, (n) => body('chat', 2,
      complete(ids(n)))),
  };
}

/*
 * Beside plain NGINX: on some machines its own cost of a long body grows
 * faster than the body, which leaves the caches and costs page faults.
 */
const bodies = async (all) => {
  const sizes = powers(4, all.bench.pick(64, 4096));
  const list = { plain: await requests(all, sizes, (kb) => body('chat', kb),
    false) };
  for (const kind of ['chat', 'agent']) {
    for (const [turn, last] of [['fresh', []], ['continuation',
      complete()]]) {
      list[`${kind}, ${turn}`] = await requests(all, sizes, (kb) =>
        body(kind, kb, last));
    }
  }
  return list;
};

/* All turns of one recorded conversation: what the first n cost. */
async function turns({ bench, upstream }) {
  const sizes = powers(125, bench.pick(250, 2000), 2);
  const list = {};
  for (const name of ['shm', 'redis']) {
    const { store, server: redis } = await newStore(bench,
      name === 'shm' ? 'shm:64m' : name);
    const it = await server(bench, { upstream, store, redis,
      lines: 'chat_conversation talk; chat_record on;' });
    const file = request(`turns-${name}`, { path, query: 'f=small',
      tenant: 'bench', body: body('chat', 2) });
    const pids = [...it.workers(), ...redis ? [redis.child.pid] : []];
    await send(bench, it.port, file);
    const before = spent(pids);
    list[name] = [];
    for (const [i, n] of sizes.entries()) {
      await send(bench, it.port, file, { times: n - (sizes[i - 1] ?? 0) });
      list[name].push([n, spent(pids) - before]);
    }
  }
  return list;
}

/*
 * n requests with one of two results wait for the other one; from the first
 * to the last answer. events: those of the answer, which the others follow.
 */
async function together({ bench, upstream }, sizes, count, ms) {
  const name = `together-${count}`;
  stream(name, frames('openai_chat', 'text', count).events);
  const list = {};
  for (const kind of ['shm', 'redis']) {
    const { store, server: redis } = await newStore(bench,
      kind === 'shm' ? 'shm:64m' : kind);
    const it = await server(bench, { upstream, store, redis, workers: 2,
      lines: 'chat_hold 60s grace=60s; chat_limits calls=1024;' });
    const pids = [...it.workers(), ...redis ? [redis.child.pid] : []];
    let round = 0;
    list[kind] = await curve(bench, sizes, async (n) => {
      const own = ids(2, `${kind}${count}r${round++}`.padEnd(12, 'v'));
      const file = (at) => request(`${name}-${at}`, { path,
        query: `f=${name}${ms ? `&us=${ms * 1000}` : ''}`, tenant: 'bench',
        body: body('chat', 2, half(own, at)) });
      const before = spent(pids);
      const held = clients(bench, it.port, file(0), { connections: n,
        ramp: 50 });
      await until(async () => (await status(it)).holds.now === n, 30000,
        `${n} holds`);
      await send(bench, it.port, file(1));
      const outcome = JSON.parse(await held.next());
      if (outcome.whole !== n) {
        throw new Error(`${outcome.whole} of ${n} were answered`);
      }
      return spent(pids) - before;
    });
  }
  return list;
}

const plots = {
  events: { title: 'One answer', x: 'events', run: events },
  calls: { title: 'One request, by its calls', x: 'calls', run: calls },
  body: { title: 'One request, by its body', x: 'KB', run: bodies },
  turns: { title: 'All turns of a conversation, chat_record on',
    x: 'turns', run: turns },
  holds: { title: 'Held requests of one batch, and their release',
    x: 'holds', run: (all) => together(all,
      powers(2, all.bench.pick(32, 1024), 2), 4, 0) },
  followers: { title: 'Followers of an answer of 200 events', x: 'followers',
    run: (all) => together(all, powers(2, all.bench.pick(32, 512), 2), 200,
      5) },
};

export default { title: 'Growth', oneCpu: true, async run(bench) {
  const upstream = await provider(bench);
  stream('small', frames('openai_chat', 'text', 2).events);
  const rows = [];
  const pictures = [];
  for (const [name, { title, x, run }] of Object.entries(plots)) {
    const curves = await run({ bench, upstream });
    bench.plot(name, plot({ title, x, y: 'µs of CPU', curves }));
    pictures.push(`![${title}](plots/${name}.svg)`);
    const { plain } = curves;
    const most = Math.max(1.1, plain ? exponent(plain) : 0);
    for (const [curve_, list] of Object.entries(curves)) {
      const slope = bench.figure(`growth/${name}, ${curve_}`,
        exponent(list), '(exponent)',
        { goal: list === plain ? undefined : most });
      const [first, last] = [list[0], list.at(-1)].map(([size, us]) =>
        `${fixed(us / size)} at ${size}`);
      rows.push([title, curve_, x, first, last, fixed(slope)]);
    }
  }
  return `CPU time of the workers (and of Redis) for all of it. The exponent is
the slope of the upper half of a curve: 1 is linear growth. Where plain NGINX's
own cost of a body grows faster than the body, its exponent is the goal.

${table(['cost of', 'curve', 'grows with', 'µs for one of them',
    'µs for one of them', 'exponent'], rows)}

${pictures.join('\n\n')}`;
} };
