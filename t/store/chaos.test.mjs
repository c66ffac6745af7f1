/*
 * chaos.test.mjs: batches over three nodes and one Redis, a Redis behind
 * Sentinel, and a Redis Cluster.
 *
 * Workers are killed, a node is stopped, configurations are reloaded, Redis is
 * restarted and paused, its connections break, masters change; clients
 * disconnect, results come twice and late. At most one request with results
 * per batch is accepted upstream, unless the worker of the first died, which
 * then counts as interrupted, or the master changed, which may forget
 * acknowledged writes. No incomplete request goes upstream; each client gets
 * an answer. CHAT_CHAOS is the number of batches over each store (40),
 * CHAT_SEED repeats a run.
 *
 * Suite: asan.
 */
import { pause } from '../lib/harness.mjs';
import { live } from '../lib/hold.mjs';
import { nodesStage } from '../lib/nodes.mjs';
import { play, playing } from '../soak/play.mjs';
import { cluster } from '../lib/redis/cluster.mjs';
import { redis } from '../lib/redis/redis.mjs';
import { sentinels } from '../lib/redis/sentinel.mjs';

const count = Number(process.env.CHAT_CHAOS ?? 40);
const anyOf = ({ random }, list) => list[random(list.length)];

const trouble = {
  kill: (scene) => {
    const pid = anyOf(scene, anyOf(scene, scene.nodes).workers());
    if (pid) {
      scene.gone.add(pid);
      process.kill(pid, 'SIGKILL');
    }
  },
  reload: (scene) => {
    const n = anyOf(scene, scene.nodes);
    n.workers().forEach((pid) => scene.gone.add(pid));
    n.child.kill('SIGHUP');
  },
  /* Connections of all clients but this one. */
  cut: async (scene) => {
    for (const server of scene.servers) {
      await server.ask('command', 'CLIENT', 'KILL', 'TYPE', 'normal');
      await server.ask('command', 'CLIENT', 'KILL', 'TYPE', 'pubsub');
    }
  },
  pause: (scene) => anyOf(scene, scene.servers).ask('pause', 2000),
};

/* In ms: a pause must not move the master. */
const patient = 20000;

/* The stores: their servers, the arguments of chat_store, their troubles. */
const stores = {
  redis: async (t) => {
    const server = await redis(t, { appendonly: true });
    const restart = async ({ random }) => {
      await server.stop(random(2) ? 'SIGKILL' : 'SIGTERM');
      await server.start();
    };
    return { servers: [server], url: server.url(), more: { restart } };
  },
  sentinel: async (t) => {
    const it = await sentinels(t, { downAfter: patient });
    return { servers: it.servers, url: it.url(), more: {
      failover: async (scene) => {
        scene.moves++;
        await it.failover();
        scene.moves++;
      } } };
  },
  cluster: async (t) => {
    const it = await cluster(t, { replicas: 1, timeout: patient });
    return { servers: it.servers, url: it.url(), more: {
      failover: async (scene) => {
        scene.moves++;
        await anyOf(scene, it.servers).ask('command', 'CLUSTER', 'FAILOVER');
        await it.ok();
        scene.moves++;
      } } };
  },
};

/* Until scene.over: one trouble after another; a node stops once. */
async function storm(scene, troubles) {
  const kinds = Object.keys(troubles);
  const after = 5 + scene.random(10);
  for (let turn = 0; !scene.over; turn++) {
    const kind = anyOf(scene, kinds);
    scene.troubled[kind] = (scene.troubled[kind] ?? 0) + 1;
    await troubles[kind](scene);
    if (turn === after) {
      const n = scene.nodes.pop();
      n.workers().forEach((pid) => scene.gone.add(pid));
      await n.stop();
      scene.troubled.stop = 1;
    }
    await pause(300 + scene.random(700));
  }
}

for (const [name, open] of Object.entries(stores)) {
  live(`chaos over ${name}: no batch is sent twice, incomplete, or lost`,
    async (t) => {
      const { servers, url, more } = await open(t);
      const scene = await nodesStage(t, 'openai_chat', { hold: '3s', count: 3,
        redis: servers[0], store: () => `${url} timeout=2s`,
        location: `chat_store_failure deny;
          proxy_set_header X-Pid $pid;` });
      Object.assign(playing(scene), { servers, troubled: {} });
      /* A node that stops during a reload complains about what it breaks. */
      scene.nodes.forEach((n) => n.allow(
        /exited on signal 9|open socket #\d+ left|aborting$/));
      const stormy = storm(scene, { ...trouble, ...more });
      stormy.catch(() => {});
      let left = count;
      await Promise.all(Array.from({ length: 10 }, async () => {
        while (left-- > 0) {
          await play(scene);
        }
      }));
      scene.over = true;
      await stormy;
      t.diagnostic(`${count} batches; ${JSON.stringify(scene.troubled)}; `
        + `answers: ${JSON.stringify(scene.words)}; sent twice while the `
        + `master changed: ${scene.twice}; CHAT_SEED=${scene.seed}`);
    });
}
