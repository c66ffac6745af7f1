/*
 * resp.mjs: a Redis client for the tests: commands and replies, pipelined over
 * one connection that reconnects.
 *
 * An error reply rejects the command's promise. It is not the client under
 * test and shares nothing with it.
 */
import net from 'node:net';
import tls from 'node:tls';

/* The reply that starts at a byte: [value, end]; null: incomplete. */
export function reply(bytes, at = 0) {
  const end = bytes.indexOf('\r\n', at);
  if (end === -1) {
    return null;
  }
  const line = bytes.toString('utf8', at + 1, end);
  const number = Number(line);
  switch (String.fromCharCode(bytes[at])) {
  case '+':
    return [line, end + 2];
  case '-':
    return [new Error(line), end + 2];
  case ':':
    return [number, end + 2];
  case '$':
    return number < 0 ? [null, end + 2]
      : bytes.length < end + 2 + number + 2 ? null
        : [bytes.toString('utf8', end + 2, end + 2 + number),
          end + 2 + number + 2];
  case '*': {
    const list = number < 0 ? null : [];
    let next = end + 2;
    for (let i = 0; i < number; i++) {
      const item = reply(bytes, next);
      if (!item) {
        return null;
      }
      list.push(item[0]);
      next = item[1];
    }
    return [list, next];
  }
  default:
    throw new Error(`not a reply: ${bytes.subarray(at, at + 40)}`);
  }
}

const encode = (args) => `*${args.length}\r\n${args.map((arg) =>
  `$${Buffer.byteLength(String(arg))}\r\n${arg}\r\n`).join('')}`;

/*
 * place: {port}, {path}, or {port, ca} for TLS. login: arguments of AUTH.
 * Returns command(...args) -> promise, and close().
 */
export function client(place, login) {
  let socket;
  let waiting;

  function open() {
    const own = [];
    const its = (place.ca ? tls : net).connect({ host: '127.0.0.1',
      servername: 'localhost', ...place });
    let bytes = Buffer.alloc(0);
    [socket, waiting] = [its, own];
    its.on('error', () => {});
    its.on('close', () => {
      socket = socket === its ? null : socket;
      own.splice(0).forEach(([, no]) => no(new Error('Redis has gone')));
    });
    its.on('data', (piece) => {
      bytes = Buffer.concat([bytes, piece]);
      for (let one = reply(bytes); one; one = reply(bytes)) {
        bytes = bytes.subarray(one[1]);
        const [yes, no] = own.shift() ?? [];
        (one[0] instanceof Error ? no : yes)?.(one[0]);
      }
      /* Node waits for replies, not for the connection. */
      if (own.length === 0) {
        its.unref();
      }
    });
    if (login) {
      command('AUTH', ...login).catch(() => {});
    }
  }

  function command(...args) {
    if (!socket) {
      open();
    }
    return new Promise((yes, no) => {
      waiting.push([yes, no]);
      socket.ref();
      socket.write(encode(args));
    });
  }

  return { command, close: () => socket?.destroy() };
}
