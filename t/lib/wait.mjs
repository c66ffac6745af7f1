/*
 * wait.mjs: the base of the harness: waiting for conditions, free ports, and
 * temporary folders.
 */
import { mkdtempSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/*
 * The factor of deadlines: a busy machine, or sanitized code, is several times
 * slower; a long deadline costs nothing if it is met.
 */
export const patience = process.env.CHAT_ASAN ? 8 : 4;

/* Polls until probe() returns a true value, and returns that. */
export async function until(probe, deadline = 5000, what = String(probe)) {
  const end = Date.now() + deadline * patience;
  for (;;) {
    const value = await probe();
    if (value) {
      return value;
    }
    if (Date.now() > end) {
      throw new Error(`waited ${deadline} ms for ${what}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/* For conditions that hold only if something does NOT happen for a while. */
export const pause = (ms) => new Promise((resolve) => {
  setTimeout(resolve, ms);
});

/* A promise that the test resolves: await gate; gate.open(value). */
export function gate() {
  let open;
  const promise = new Promise((resolve) => { open = resolve; });
  promise.open = open;
  return promise;
}

/* Listens without keeping the process alive; null if the port is taken. */
const listen = (port, host) => new Promise((resolve, reject) => {
  const server = net.createServer();
  server.on('error', (error) => {
    if (error.code === 'EADDRINUSE') {
      resolve(null);
    } else {
      reject(error);
    }
  });
  server.listen(port, host, () => resolve(server.unref()));
});

/*
 * Ports of 127.0.0.1 that belong to this process until it ends, so that a
 * server that stops finds its port free when it starts again. A socket on
 * another address of the loopback interface marks a port as taken for all
 * test processes of the machine. The kernel gives ports from 32768 on to
 * clients: these are below. Above 10080, which fetch() and browsers refuse.
 */
export async function freePorts(count) {
  const ports = [];
  while (ports.length < count) {
    const port = 10100 + Math.floor(Math.random() * 21900);
    const mark = await listen(port, '127.127.127.127');
    const probe = mark && await listen(port, '127.0.0.1');
    if (probe) {
      await new Promise((resolve) => { probe.close(resolve); });
      ports.push(port);
    } else {
      mark?.close();
    }
  }
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
