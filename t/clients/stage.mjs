/*
 * stage.mjs: the servers for a client library: scripted providers, the apps
 * that use them, and one nginx with the module before all of these.
 *
 * A play is one conversation of one client. It sends a key of its own as its
 * credential and in the header x-play, so that many plays can use the same ids
 * at a time; the key selects the script and the list of requests. base(key,
 * proxied) is the address of a provider or app, through nginx or not; nothing
 * else differs between the two.
 */
import { nginx, unbuilt } from '../lib/harness.mjs';
import { newId } from '../lib/dialects.mjs';
import { json, provider } from '../lib/provider.mjs';
import { redis } from '../lib/redis/redis.mjs';

/*
 * A defect of Node 18, fixed in 20: fetch() throws where no caller can catch
 * it when bytes arrive for a cancelled body.
 */
if (process.versions.node.startsWith('18.')) {
  const { prototype } = ReadableStreamDefaultController;
  const { enqueue } = prototype;
  prototype.enqueue = function enqueueOrLeave(piece) {
    try {
      return enqueue.call(this, piece);
    } catch (error) {
      if (error.code === 'ERR_INVALID_STATE'
        && error.stack.includes('internal/deps/undici')) {
        return undefined;
      }
      throw error;
    }
  };
}

/*
 * Packages by name, or the reason to skip their tests: not built, not
 * installed, or made for a newer Node.
 */
export async function load(names) {
  try {
    const packages = await Promise.all(names.split(' ')
      .map((name) => import(name)));
    return { packages, missing: unbuilt };
  } catch (error) {
    return { packages: [],
      missing: unbuilt || `${names}: ${error.message}` };
  }
}

class Play {
  constructor(stage, proxied, situation, script) {
    Object.assign(this, { stage, proxied, situation, script, asked: 0 });
    this.key = newId('play_');
    this.headers = { 'x-play': this.key };
    stage.plays.set(this.key, this);
  }

  /* at: which of several nodes. */
  base(name, at = 0) {
    const { nodes, ports } = this.stage;
    return this.proxied
      ? `http://127.0.0.1:${nodes[at % nodes.length].port}/${name}`
      : `http://127.0.0.1:${ports[name]}`;
  }
}

const location = (lines) => ([name, port]) => `location /${name}/ {
    chat auto;
    ${lines}
    proxy_pass http://127.0.0.1:${port}/;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
  }`;

/*
 * dialects: keys of the harness' dialects; apps: name -> function that makes
 * an app, given the stage: {port, stop()}. count: of nodes; several of them
 * are on a Redis of their own. lines: more of them in each location; more:
 * beside the locations.
 */
export async function stage(t, dialects, apps = {}, count = 1,
  { lines = '', more = '' } = {}) {
  const it = { plays: new Map(), ports: {}, providers: {} };
  for (const key of dialects) {
    const one = await provider(t, key);
    one.answer = (request) =>
      it.plays.get(request.headers['x-play'])?.script(request)
      ?? json(404, { error: { message: 'no such play' } });
    it.ports[key] = one.port;
    it.providers[key] = one;
  }
  for (const [name, make] of Object.entries(apps)) {
    const app = await make(it);
    t.after(() => app.stop());
    it.ports[name] = app.port;
    it.providers[name] = app;
  }
  const store = count > 1 && `${(await redis(t)).url()} timeout=2s`;
  it.nodes = await Promise.all(Array.from({ length: count }, () =>
    nginx(t, { workers: 2, ...(store && { store, connects: true }),
      locations: [more, ...Object.entries(it.ports).map(location(lines))]
        .join('\n') })));
  [it.n] = it.nodes;
  it.play = (...args) => new Play(it, ...args);
  /* The number of requests of a play, including refused ones. */
  it.requests = (play, key) => it.providers[key].requests
    .filter(({ headers }) => headers['x-play'] === play.key).length;
  return it;
}
