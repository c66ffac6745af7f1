/*
 * stall.test.mjs: chat_stall, the time limit of a stream's silence: what
 * counts as content, and what happens at the limit.
 *
 * Suite: asan, alone.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import net from 'node:net';
import { pause } from '../lib/harness.mjs';
import { dialects, names as keys } from '../lib/dialects.mjs';
import {
  begin, beginning, chunked, cutText, ended, interrupted, location, theatre,
} from '../lib/ends.mjs';
import { live, several } from '../lib/hold.mjs';
import { chunk } from '../lib/raw.mjs';
import { data, named } from '../lib/dialects/wire.mjs';

const locations = Object.entries({
  short: 'chat_stall 400ms;', long: 'chat_stall 2s;',
  patient: 'chat_stall 3s;', off: 'chat_stall off;',
  dry: 'chat_stall 400ms; chat_dry_run on;',
  byte: 'chat_stall 20s; proxy_read_timeout 2s;',
}).map(([name, lines]) => location(name,
  `chat auto; proxy_http_version 1.1; ${lines}`)).join('');

/* The provider's keepalive events, besides comments. */
const pings = {
  ai_sdk: [],
  openai_responses: [named({ type: 'keepalive', sequence_number: 7 })],
  openai_chat: [data({ id: 'c', object: 'chat.completion.chunk', created: 1,
    model: 'm', choices: [] })],
  anthropic: [named({ type: 'ping' }),
    'event: ping\ndata: {"type": "ping"}\n\n'],
  gemini: [data({}), 'data: { }\n\n'],
  ag_ui: [],
};

const turns = (play) => Promise.all(keys.flatMap((key) =>
  [false, true].map((http2) => play(key, http2))));

/* Writes until the other side has closed; returns the written text. */
async function keepAlive(socket, signs, times = Infinity, ms = 50) {
  let sent = '';
  for (let i = 0; i < times && !socket.destroyed; i++) {
    const sign = signs[i % signs.length];
    sent += sign;
    socket.write(chunk(sign));
    await pause(ms);
  }
  return sent;
}

live('s76: silence past chat_stall', async (t) => {
  const scene = await theatre(t, locations);
  await turns(async (key, http2) => {
    const { calls, whole, part, at } = beginning(key);
    let closed;
    const { answer, uri } = begin(scene, key, { whole, part, play(socket) {
      closed = new Promise((resolve) => { socket.on('close', resolve); });
      socket.write(chunked + chunk(whole + part));
    } }, { way: 'short', http2 });
    const text = await cutText(key, answer);
    assert.equal(text.slice(0, whole.length), whole);
    interrupted(key, text.slice(whole.length),
      { calls, reason: 'stall', sequence: at - 1 });
    await closed;
    await ended(scene, uri, 'interrupted', 'stall');
  });
});

live('s76 s82: shorter gaps, for longer than chat_stall', async (t) => {
  const scene = await theatre(t, locations);
  await turns(async (key, http2) => {
    const words = dialects[key].final('slow');
    const at = words.findIndex((event) => event.includes('slow'));
    const lead = words.slice(0, at).join('');
    const pieces = Array.from({ length: 8 }, () => words[at])
      .concat(words.slice(at + 1));
    const whole = lead + pieces.join('');
    const { answer, uri } = begin(scene, key, { whole,
      async play(socket) {
        socket.write(chunked + (lead && chunk(lead)));
        for (const piece of pieces) {
          await pause(300);
          socket.write(chunk(piece));
        }
        socket.write('0\r\n\r\n');
      } }, { way: 'long', http2 });
    assert.equal(await answer.text(), whole);
    await ended(scene, uri, 'finished');
  });
});

live('s77: keepalives only: a stall', async (t) => {
  const scene = await theatre(t, locations);
  const bare = true;
  for (const [name, signsOf] of Object.entries({
    comments: () => [': still here\n\n'], pings: (key) => pings[key],
  })) {
    await t.test(name, () => turns(async (key, http2) => {
      const signs = signsOf(key);
      if (!signs.length) {
        return;
      }
      const lead = dialects[key].final('x')[0];
      let sent;
      const { answer, uri } = begin(scene, key, { whole: lead, play(socket) {
        socket.write(chunked + chunk(lead));
        sent = keepAlive(socket, signs);
      } }, { way: 'short', http2 });
      const text = await cutText(key, answer);
      const rest = text.slice(lead.length).replace(
        new RegExp(`^(${signs.map((sign) => sign.replace(/[[\]{}.]/g,
          '\\$&')).join('|')})+`), '');
      assert.ok(rest.length < text.length - lead.length, text);
      assert.ok((await sent).length >= signs[0].length);
      const last = /"sequence_number":(\d+)[^]*$/.exec(rest);
      interrupted(key, rest, { bare, reason: 'stall',
        sequence: last && Number(last[1]) });
      await ended(scene, uri, 'interrupted', 'stall');
    }));
  }
});

live('s77 s79: keepalives without chat_stall, or within it', async (t) => {
  const scene = await theatre(t, locations);
  await Promise.all(['off', 'byte'].map((way) =>
    t.test(way, () => turns(async (key, http2) => {
      const words = dialects[key].final('late');
      let sent;
      const { answer, uri } = begin(scene, key, { whole: '',
        async play(socket) {
          socket.write(chunked + chunk(words[0]));
          sent = await keepAlive(socket,
            [': still here\n\n', ...pings[key]], 20, 150);
          socket.write(`${chunk(words.slice(1).join(''))}0\r\n\r\n`);
        } }, { way, http2 });
      assert.equal(await answer.text(),
        words[0] + sent + words.slice(1).join(''));
      await ended(scene, uri, 'finished');
    }))));
}, several);

live('chat_stall: other answers are not affected', async (t) => {
  const scene = await theatre(t, locations);
  const late = (whole, tail) => async function play(socket) {
    socket.write(chunked + chunk(whole));
    await pause(900);
    socket.write(`${chunk(tail)}0\r\n\r\n`);
  };
  await t.test('a stream that is no chat', () => turns(async (key, http2) => {
    const whole = 'event: tick\ndata: 1\n\n';
    const { answer } = begin(scene, key, { whole, play: late(whole, whole) },
      { way: 'short', http2 });
    assert.equal(await answer.text(), whole + whole);
  }));
  await t.test('chat_dry_run', () => turns(async (key, http2) => {
    const words = dialects[key].final('late');
    const { answer, uri } = begin(scene, key, { whole: '',
      play: late(words[0], words.slice(1).join('')) }, { way: 'dry', http2 });
    assert.equal(await answer.text(), words.join(''));
    await ended(scene, uri, 'finished');
  }));
});

/* Sends text until nginx reads none for ms; returns the number of writes. */
async function flood(socket, piece, ms) {
  for (let sent = 1; ; sent++) {
    if (!socket.write(chunk(piece))) {
      const drained = once(socket, 'drain').then(() => true);
      if (!await Promise.race([drained, pause(ms)])) {
        return { sent, drained };
      }
    }
  }
}

/*
 * The clients read nothing for longer than the limit, each for a different
 * time. Then the upstream is silent for less than the limit. Before, it sends
 * only comments, since content would restart the limit.
 */
live('chat_stall: a client that does not read', async (t) => {
  const scene = await theatre(t, locations);
  const { openai_chat: chat } = dialects;
  const words = chat.final('at last');
  const comment = `: ${'x'.repeat(50000)}\n\n`;
  await Promise.all([3300, 4000, 4800, 5500].map(async (wait) => {
    const client = net.connect(scene.n.port, '127.0.0.1');
    t.after(() => client.destroy());
    client.pause();
    const flooded = new Promise((resolve) => {
      scene.cases.set(`slow${wait}`, { async play(socket) {
        socket.write(chunked + chunk(words[0]));
        const { sent, drained } = await flood(socket, comment, wait);
        resolve(sent);
        await drained;
        await pause(1800);
        socket.write(`${chunk(words.slice(1).join(''))}0\r\n\r\n`);
      } });
    });
    const uri = `/patient/slow${wait}${chat.path}`;
    const body = JSON.stringify(chat.fresh());
    client.write(`POST ${uri} HTTP/1.0\r\nContent-Type: application/json\r\n`
      + `Content-Length: ${body.length}\r\n\r\n${body}`);
    const sent = await flooded;
    let bytes = 0;
    let tail = '';
    client.on('data', (piece) => {
      bytes += piece.length;
      tail = (tail + piece).slice(-20);
    });
    client.resume();
    await once(client, 'end');
    assert.ok(tail.endsWith('data: [DONE]\n\n'), tail);
    assert.ok(bytes > sent * comment.length);
    await ended(scene, uri, 'finished');
  }));
});
