/*
 * raw.mjs: an upstream that answers in bytes, not in HTTP.
 *
 * For answers that no HTTP library can produce: cut in a frame, in a chunk,
 * without a last chunk, by a reset. Each request is read completely; then the
 * script gets the socket.
 */
import net from 'node:net';

/* One chunk of a chunked body. */
export const chunk = (text) =>
  `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;

export const head = (headers = {}, status = '200 OK', version = '1.1') =>
  `HTTP/${version} ${status}\r\n${Object.entries(headers)
    .map(([key, value]) => `${key}: ${value}\r\n`).join('')}\r\n`;

/* The bytes of a complete request, else null. */
function whole(bytes) {
  const end = bytes.indexOf('\r\n\r\n');
  if (end === -1) {
    return null;
  }
  const lines = bytes.subarray(0, end).toString().split('\r\n');
  const [method, url] = lines[0].split(' ');
  const headers = Object.fromEntries(lines.slice(1).map((line) => {
    const colon = line.indexOf(':');
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 2)];
  }));
  const length = end + 4 + Number(headers['content-length'] ?? 0);
  return bytes.length < length ? null
    : { method, url, headers, length, raw: bytes.subarray(end + 4, length) };
}

/*
 * Starts an upstream. script(socket, request, number): number counts the
 * requests of this connection from 1. requests is the list of all so far.
 */
export async function upstream(t, script) {
  const sockets = new Set();
  const it = { script, requests: [], connections: 0 };
  const server = net.createServer((socket) => {
    let bytes = Buffer.alloc(0);
    let number = 0;
    it.connections++;
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => {});
    socket.on('data', (piece) => {
      bytes = Buffer.concat([bytes, piece]);
      const request = whole(bytes);
      if (request) {
        bytes = bytes.subarray(request.length);
        it.requests.push(request);
        it.script(socket, request, ++number);
      }
    });
  });
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  it.port = server.address().port;
  t.after(() => {
    sockets.forEach((socket) => socket.destroy());
    return new Promise((resolve) => { server.close(resolve); });
  });
  return it;
}
