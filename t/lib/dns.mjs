/*
 * dns.mjs: a name server that answers when the test allows it.
 *
 * A request that waits for its upstream's name has claimed and has sent
 * nothing. Names that begin with "no" do not exist; all others are 127.0.0.1.
 */
import dgram from 'node:dgram';

/* answer: a promise, or a function of the name that may return one. */
export async function resolver(t, answer) {
  const it = { asked: [], waiting: [], answer };
  const socket = dgram.createSocket('udp4');
  socket.on('message', async (query, { address, port }) => {
    let at = 12;
    const labels = [];
    while (query[at] !== 0) {
      labels.push(query.toString('latin1', at + 1, at + 1 + query[at]));
      at += query[at] + 1;
    }
    const name = labels.join('.');
    const ipv4 = query.readUInt16BE(at + 1) === 1;
    it.asked.push(name);
    it.waiting.splice(0).forEach((resolve) => resolve());
    await (typeof it.answer === 'function' ? it.answer(name) : it.answer);
    const known = !name.startsWith('no');
    const reply = Buffer.concat([query.subarray(0, at + 5),
      known && ipv4 ? Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4,
        127, 0, 0, 1]) : Buffer.alloc(0)]);
    reply.writeUInt16BE(known ? 0x8180 : 0x8183, 2);
    reply.writeUInt16BE(known && ipv4 ? 1 : 0, 6);
    reply.fill(0, 8, 12);
    socket.send(reply, port, address);
  });
  await new Promise((resolve) => { socket.bind(0, '127.0.0.1', resolve); });
  it.port = socket.address().port;
  /* Returns when a query for this name has arrived. */
  it.question = async (name) => {
    while (!it.asked.includes(name)) {
      await new Promise((resolve) => { it.waiting.push(resolve); });
    }
  };
  t.after(() => new Promise((resolve) => { socket.close(resolve); }));
  return it;
}
