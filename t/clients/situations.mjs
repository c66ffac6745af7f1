/*
 * situations.mjs: the situations in which every client is tested.
 *
 * turns: the model's answers in order (script.mjs has them in each dialect).
 * reference: the situation that, without the module, has the correct outcome;
 * default: the situation itself. fails: its outcome without the module must be
 * wrong. loose: only the fact of an error counts, since libraries report a
 * broken connection differently. hidden: a reference only.
 */
import { tools } from './tools.mjs';

const asks = (...numbers) => ({ calls: numbers });
const told = { told: true };
const hello = { words: 'Hello to you, too. ☀' };
const begun = { words: 'Now I think' };

/* A client that talks to a provider. split: a request for each result. */
export const situations = {
  text: { about: 'text only', turns: [hello] },
  'one tool': { about: 'one tool call, then text', turns: [asks(0), told] },
  'three tools': { about: 'three calls in one step, results in one request',
    turns: [asks(0, 1, 2), told] },
  'two steps': { about: 'two calls, then two more, then text',
    turns: [asks(0, 1), asks(2, 3), told] },
  'one by one': { about: 'three calls, a request for each result',
    turns: [asks(0, 1, 2), told], split: true,
    reference: 'three tools', fails: true },
  replay: { about: 'the second step repeats the calls of the first',
    turns: [asks(0, 1), { calls: [2], replays: [0, 1] }, told],
    reference: 'no replay', fails: true },
  'no replay': { hidden: true, turns: [asks(0, 1), asks(2), told] },
  refused: { about: 'the provider returns 400', turns: [{ refuse: 400 }] },
  busy: { about: 'the provider returns 503 once, the client retries',
    turns: [{ refuse: 503, times: 1, words: 'Here I am.' }] },
  'fails inside': { about: 'an error event inside the stream',
    turns: [{ ...begun, breaks: 'error' }] },
  'cut off': { about: 'the connection is reset inside the stream',
    turns: [{ ...begun, breaks: 'reset' }], loose: true },
  'ends early': { about: 'the stream ends normally before its end marker',
    turns: [{ ...begun, breaks: 'end' }], reference: 'cut off', loose: true },
  abort: { about: 'the client stops the answer',
    turns: [{ ...begun, breaks: 'open' }], abort: true },
};

/*
 * A chat in a browser with an app. tabs: the ms from the stream's end after
 * which each tab has each result; default: one tab has all at once, during the
 * stream. early: a tab sends as soon as it has a result. kinds: which side
 * runs the tools. last: the chat sends only its last message. app: the app's
 * faults.
 */
export const chatSituations = {
  text: { about: 'text only', turns: [hello] },
  'one tool': { about: 'one call of the client, then text',
    turns: [asks(0), told] },
  'two tools': { hidden: true, turns: [asks(0, 1), told] },
  'three tools': { about: 'three calls in one step, all results at once',
    turns: [asks(0, 1, 2), told] },
  'two steps': { about: 'two calls, then two more, then text',
    turns: [asks(0, 1), asks(2, 3), told] },
  'tool of the app': { about: 'one call of the client, one of the app',
    turns: [asks(0, 1), told], kinds: ['client', 'server'] },
  'tool in parts': { about: 'the same; the app\'s tool streams preliminary '
    + 'results',
  turns: [asks(0, 1), told], kinds: ['client', 'gradual'] },
  'dynamic tools': { about: 'three dynamic tools (the app knows only names)',
    turns: [asks(0, 1, 2), told], kinds: ['dynamic', 'dynamic', 'dynamic'] },
  'last message': { about: 'three calls; the chat sends only its last '
    + 'message, the app stores the others',
  turns: [asks(0, 1, 2), told], last: true },
  'one by one': { about: 'three results in succession, sent when the '
    + 'library\'s predicate is true',
  turns: [asks(0, 1, 2), told], tabs: [[0, 40, 80]],
  reference: 'three tools' },
  'sent early': { about: 'the same, but each result is sent at once',
    turns: [asks(0, 1, 2), told], tabs: [[0, 100, 200]], early: true,
    reference: 'three tools', fails: true },
  'sent early, slow': { about: 'the same, the last result after 2.3 s',
    turns: [asks(0, 1, 2), told], tabs: [[0, 100, 2300]], early: true,
    reference: 'three tools', fails: true },
  'sent early, dynamic': { about: 'the same with dynamic tools',
    turns: [asks(0, 1, 2), told], tabs: [[0, 100, 200]], early: true,
    kinds: ['dynamic', 'dynamic', 'dynamic'],
    reference: 'dynamic tools', fails: true },
  'sent early, last message': { about: 'the same, with the last message only',
    turns: [asks(0, 1, 2), told], tabs: [[0, 100, 200]], early: true,
    last: true, reference: 'last message', fails: true },
  'sent early, in parts': { about: 'each result is sent at once, beside a '
    + 'tool of the app with preliminary results',
  turns: [asks(0, 1, 2), told], tabs: [[0, , 200]], early: true,
  kinds: ['client', 'gradual', 'client'],
  reference: 'two tools and one in parts', fails: true },
  'two tools and one in parts': { hidden: true, turns: [asks(0, 1, 2), told],
    kinds: ['client', 'gradual', 'client'] },
  'two tabs': { about: 'two results, one from each of two tabs',
    turns: [asks(0, 1), told], tabs: [[0], [, 150]], early: true,
    reference: 'two tools', fails: true },
  'two tabs, three tools': { about: 'three results, two of them from one tab',
    turns: [asks(0, 1, 2), told], tabs: [[0, , 300], [, 150]], early: true,
    reference: 'three tools', fails: true },
  approved: { about: 'the user approves a call, then the app runs it',
    turns: [asks(0), told], kinds: ['approval'], approves: true },
  denied: { about: 'the user denies a call',
    turns: [asks(0), told], kinds: ['approval'], approves: false },
  'approved beside a tool': { about: 'an approval and a result in one step',
    turns: [asks(0, 1), told], kinds: ['approval', 'client'],
    approves: true },
  'approved early': { about: 'the approval is sent before the result',
    turns: [asks(0, 1), told], kinds: ['approval', 'client'], approves: true,
    tabs: [[, 1300]], early: true, reference: 'approved beside a tool',
    fails: true },
  'replay wipes': { about: 'the app repeats the calls of the last step '
    + 'before its own step',
  turns: [asks(0, 1), told], app: { replay: 'before' },
  reference: 'two tools', fails: true },
  'replay loops': { about: 'the app repeats calls and results in a new step',
    turns: [asks(0, 1), told], app: { replay: 'after' },
    reference: 'two tools', fails: true },
  refused: { about: 'the provider returns 400 to the app',
    turns: [{ refuse: 400 }] },
  'app down': { about: 'the app returns 500', turns: [told],
    app: { status: 500 } },
  'fails inside': { about: 'an error event inside the provider\'s stream',
    turns: [{ ...begun, breaks: 'error' }] },
  'cut off': { about: 'the app\'s connection is reset inside the stream',
    turns: [begun], app: { breaks: 'reset' }, loose: true },
  'ends early': { about: 'the app\'s stream ends normally before its '
    + 'end marker',
  turns: [begun], app: { breaks: 'end' }, reference: 'cut off', loose: true },
  abort: { about: 'the user stops the answer',
    turns: [{ ...begun, breaks: 'open' }], abort: true },
};

/* The tools of a situation, and the side that runs each. */
export const toolsOf = ({ kinds = [] }) => tools.map((name, i) =>
  ({ name, kind: kinds[i] ?? 'client' }));

/* Whether it ends with an error; a stopped chat does not. */
const goesWrong = ({ app, abort, turns }, chat) => !!app?.status
  || !!app?.breaks || turns.some(({ refuse, times, breaks }) =>
  breaks && !(chat && abort) || refuse && !times);

for (const table of [situations, chatSituations]) {
  for (const [name, situation] of Object.entries(table)) {
    situation.name = name;
    situation.wrong = goesWrong(situation, table === chatSituations);
  }
}

/* The situations of a table, and those to run, by name. */
export const shown = (table) => Object.values(table)
  .filter(({ hidden }) => !hidden);
