/*
 * wait.mjs: what all of the harness stands on: waiting for what is to
 * happen, free ports, and folders of one's own.
 */
import { mkdtempSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/*
 * What a deadline is multiplied by: one that is met costs nothing, and a busy
 * machine, or sanitized code, is several times slower.
 */
export const patience = process.env.CHAT_ASAN ? 8 : 4;

/* Polls until probe() gives something true, and gives it back. */
export async function until(probe, deadline = 5000, what = String(probe)) {
  const end = Date.now() + deadline * patience;
  for (;;) {
    const value = await probe();
    if (value) {
      return value;
    }
    if (Date.now() > end) {
      throw new Error(`waited ${deadline} ms in vain for ${what}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/* For what is true only if something does NOT happen for a while. */
export const pause = (ms) => new Promise((resolve) => {
  setTimeout(resolve, ms);
});

/* A promise that a test settles by hand: await gate; gate.open(value). */
export function gate() {
  let open;
  const promise = new Promise((resolve) => { open = resolve; });
  promise.open = open;
  return promise;
}

export async function freePorts(count) {
  const servers = await Promise.all(Array.from({ length: count }, () =>
    new Promise((resolve, reject) => {
      const server = net.createServer();
      server.on('error', reject);
      server.listen(0, '127.0.0.1', () => resolve(server));
    })));
  const ports = servers.map((server) => server.address().port);
  await Promise.all(servers.map((server) =>
    new Promise((resolve) => { server.close(resolve); })));
  return ports;
}

/* True if something listens on this port. */
export function answers(port) {
  return new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(true);
    });
    socket.on('error', () => resolve(false));
  });
}

export function newFolder(under = tmpdir()) {
  return mkdtempSync(join(under, 'ngx_chat_'));
}
