/*
 * nodes.mjs: several nginx masters before one provider, on one Redis, as
 * behind a load balancer without affinity.
 *
 * Batches of lib/batch.mjs post each request to a random node, or to a given
 * one. Each test prints the seed of its generator; CHAT_SEED repeats it.
 */
import { scene, staged } from './batch.mjs';
import { random } from './mutants.mjs';
import { provider } from './provider.mjs';
import { redis } from './redis/redis.mjs';

/*
 * The seed of this run, said with the test: {seed, random(below)}.
 */
export function seeded(t) {
  const seed = Number(process.env.CHAT_SEED ?? Date.now() % 1e6);
  t.diagnostic(`CHAT_SEED=${seed}`);
  return { seed, random: random(seed) };
}

/* This many nginx masters, of 2 workers each, on one store (options.store). */
export function nodes(t, key, p, count, options) {
  return Promise.all(Array.from({ length: count }, () =>
    staged(t, key, p, { workers: 2, connects: true, ...options })));
}

/*
 * A stage of several nodes: the result of stage(), with nodes (n is the
 * first), redis, random and pick(): a random node. options as of stage();
 * redis: a server, or the options of one; store(redis): the arguments of
 * chat_store; count.
 */
export async function nodesStage(t, key, options = {}) {
  const { count = 2, store = (it) => `${it.url()} timeout=2s`, ...rest }
    = options;
  const server = options.redis?.command ? options.redis
    : await redis(t, options.redis);
  const p = await provider(t, key, rest);
  const list = await nodes(t, key, p, count,
    { ...rest, store: store(server) });
  const luck = seeded(t);
  return Object.assign(scene(key, p, list[0]), { nodes: list,
    redis: server, ...luck, pick: () => list[luck.random(list.length)] });
}
