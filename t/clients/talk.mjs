/*
 * talk.mjs: a client that talks step by step, run in a situation.
 *
 * A talker has: say(words), ask({signal, seen}) -> {message, words, calls},
 * bring({id: value}) (the results of the last step), and fork(), a copy with
 * the same history: another tab. seen(words) gets the text so far. A client
 * that runs tools by itself has run(words, {...}) instead. The libraries are
 * in sdk/.
 */
import { pause } from '../lib/harness.mjs';
import { describe } from './judge.mjs';
import { script } from './script.mjs';
import { shown, situations } from './situations.mjs';
import { work } from './tools.mjs';

async function ask(talker, out, signals) {
  let words = '';
  try {
    const step = await talker.ask({ ...signals, seen: (so) => {
      words = so;
      signals.heard?.(so);
    } });
    out.messages.push(step.message);
    out.words = step.words;
    return step;
  } catch (error) {
    out.words = words;
    throw error;
  }
}

const results = (calls) => Object.fromEntries(calls.map(
  ({ id, name, input }) => [id, work(name, input)]));

/* One request for each result, each by a copy of the client. */
async function split(talker, { calls }) {
  const settled = await Promise.allSettled(calls.map(async (call, i) => {
    const copy = talker.fork();
    copy.bring(results([call]));
    await pause(30 * i);
    return copy.ask({});
  }));
  const answered = settled.find(({ value }) => value?.words);
  const refused = settled.find(({ reason }) => reason
    && !(reason.status === 409 && answered));
  if (refused) {
    throw refused.reason;
  }
  return answered.value;
}

async function converse(talker, situation, out) {
  const stop = new AbortController();
  const signals = { signal: stop.signal,
    heard: situation.abort && ((words) =>
      words.includes(situation.turns[0].words) && stop.abort()) };
  if (talker.run) {
    await talker.run('Hello', { ...signals, out });
    return;
  }
  talker.say('Hello');
  for (;;) {
    const step = await ask(talker, out, signals);
    out.calls.push(...step.calls);
    if (!step.calls.length) {
      return;
    }
    if (situation.split) {
      const last = await split(talker, step);
      out.messages.push(last.message);
      out.words = last.words;
      return;
    }
    talker.bring(results(step.calls));
  }
}

/* A client for judge(): make(base, play) returns a talker. */
export function client(stage, { name, key, make }) {
  return { name, situations, async play(situation, proxied) {
    const play = stage.play(proxied, situation, script(key, situation));
    const out = { messages: [], calls: [], words: '' };
    try {
      await converse(make(play.base(key), play), situation, out);
    } catch (error) {
      out.error = describe(error);
    }
    return { outcome: out, requests: play.stage.requests(play, key) };
  } };
}

/*
 * The situations for a client. Excluded are: breaks in a stream without a
 * stream, retries for a client without them, replays of interrupts, error
 * events for a client that ignores them (deaf), and results by id for a client
 * without call ids (nameless).
 */
export function situationsFor({ stream = true, runs = false, retries = true,
  interrupted = false, deaf = false, nameless = false }) {
  return shown(situations).filter((situation) =>
    !(runs && situation.split)
    && (retries || !situation.turns.some(({ times }) => times))
    && !(interrupted && situation.name === 'replay')
    && !(deaf && situation.name === 'fails inside')
    && !(nameless && situation.turns.some(({ calls }) => calls))
    && (stream || !situation.turns.some(({ breaks }) => breaks)
      && situation.name !== 'replay')).map(({ name }) => name);
}
