/*
 * chat.mjs: Chat of @ai-sdk/react, the core of useChat, in versions 5 to 7: a
 * browser's tab, or two of them, with an app (app.mjs).
 *
 * The situation sets the times of the user's results and approvals. The
 * library's predicates decide when the tab sends them, or an early one: at
 * once.
 */
import assert from 'node:assert/strict';
import { pause, until } from '../../lib/harness.mjs';
import { describe } from '../judge.mjs';
import { complete, early, lastStep } from '../predicates.mjs';
import { script } from '../script.mjs';
import { chatSituations, toolsOf } from '../situations.mjs';
import { tools, work } from '../tools.mjs';

const isTool = ({ type }) => /^tool-|^dynamic-tool$/.test(type);

class Tab {
  /*
   * when: the ms after which this tab has each tool's result, from the
   * stream's end if the situation sets them.
   */
  constructor({ ai, Chat, url, play }, situation, when) {
    Object.assign(this, { situation, when, calls: [], errors: [], waiting: 0,
      posts: 0 });
    /* The end of its first answer; its automatic requests follow. */
    this.answered = new Promise((resolve) => { this.finished = resolve; });
    let ids = 0;
    this.chat = new Chat({ id: play.key, generateId: () => `client_${ids++}`,
      transport: new ai.DefaultChatTransport({ api: `${url}/api/chat`,
        headers: { ...play.headers, authorization: `Bearer ${play.key}` },
        ...(situation.last && { prepareSendMessagesRequest:
          ({ id, messages: [...messages] }) =>
            ({ body: { id, message: messages.pop() } }) }),
        fetch: (...args) => {
          /* A tab that loops is stopped and fails. */
          return ++this.posts > 20 ? Promise.reject(new Error('a loop'))
            : fetch(...args);
        } }),
      sendAutomaticallyWhen: situation.early ? early : complete(ai),
      onError: (error) => { this.errors.push(describe(error)); },
      onFinish: () => {
        this.finished();
        this.approve();
      },
      onToolCall: ({ toolCall }) => {
        const { toolCallId: id, toolName: name, input } = toolCall;
        this.calls.push(id);
        if (!situation.tabs) {
          this.give({ id, name, input });
        }
      } });
  }

  /* The tab's user adds a result after a while. */
  give({ id, name, input }) {
    const n = tools.indexOf(name);
    if (/client|dynamic/.test(toolsOf(this.situation)[n].kind)
      && this.when[n] !== undefined) {
      this.later(this.when[n], () => this.chat.addToolOutput({ tool: name,
        toolCallId: id, output: work(name, input) }));
    }
  }

  approve() {
    const { approves } = this.situation;
    for (const { state, approval } of this.chat.messages.at(-1).parts) {
      if (state === 'approval-requested') {
        this.later(0, () => this.chat.addToolApprovalResponse({
          id: approval.id, approved: approves }));
      }
    }
  }

  later(when, what) {
    this.waiting++;
    setTimeout(() => {
      this.waiting--;
      what();
    }, when);
  }

  get idle() {
    return !this.waiting && /ready|error/.test(this.chat.status);
  }

  /* A tab's user sees these messages and adds its results. */
  use(messages) {
    for (const part of lastStep(messages.at(-1)).filter(isTool)) {
      this.give({ id: part.toolCallId, input: part.input,
        name: part.toolName ?? part.type.slice(5) });
    }
  }

  /* Each call and its outcome, as its user sees it. */
  settled() {
    return this.chat.messages.flatMap(({ parts }) => parts).filter(isTool)
      .map(({ toolCallId, state, output }) => ({ toolCallId, state, output }));
  }
}

/* Waits until no tab has changed for a while. */
async function quiet(tabs) {
  for (let calm = 0; calm < 4; calm++) {
    await pause(10);
    if (!tabs.every((tab) => tab.idle)) {
      await until(() => tabs.every((tab) => tab.idle), 15000, 'quiet tabs');
      calm = 0;
    }
  }
}

async function useTabs(tabs, situation) {
  const [first] = tabs;
  const sent = first.chat.sendMessage({ text: 'Hello' });
  if (situation.abort) {
    await until(() => first.chat.messages.at(-1)?.parts
      .some(({ text }) => text === 'Now I think'), 5000, 'words');
    await first.chat.stop();
  }
  await (situation.tabs ? first.answered : sent);
  if (situation.tabs) {
    const { messages } = first.chat;
    tabs.slice(1).forEach(({ chat }) => {
      chat.messages = structuredClone(messages);
    });
    tabs.forEach((tab) => tab.use(messages));
  }
  await sent;
  await quiet(tabs);
}

/*
 * The final state of all tabs: the transcript of the tab that got the answer,
 * and in each tab the same calls with the same results.
 */
function outcomeOf(tabs) {
  const answered = tabs.find(({ chat }) =>
    chat.messages.at(-1).parts.some(({ text }) => text)) ?? tabs[0];
  const settled = answered.settled();
  const same = JSON.stringify(settled);
  const errors = tabs.flatMap((tab) => tab.errors);
  return { messages: answered.chat.messages, settled,
    calls: tabs.flatMap(({ calls }) => calls), status: answered.chat.status,
    whole: tabs.every((tab) => JSON.stringify(tab.settled()) === same),
    errors, error: errors[0] };
}

/* The half-answered batch breaks the app, nothing else does. */
const incomplete = new RegExp('AI_MissingToolResultsError'
  + '|must be followed by tool messages');

function verify({ situation, reference, without, proxied }) {
  if (!situation.early || situation.approves) {
    return;
  }
  assert.match(JSON.stringify(without.outcome.errors), incomplete);
  assert.deepEqual(proxied.outcome.errors, []);
  /* Each tab sends one request, and one more after each bounce. */
  assert.ok(proxied.posts <= reference.posts + proxied.bounces
    + situation.tabs.length - 1, `${proxied.posts} requests of the tabs, `
    + `${proxied.bounces} bounces`);
}

/* A play's tabs, each at the next node, after the end. */
export async function playTabs({ ai, Chat, name }, play) {
  const { situation } = play;
  const tabs = (situation.tabs ?? [[0, 0, 0, 0]]).map((when, i) =>
    new Tab({ ai, Chat, url: play.base(name, i), play }, situation, when));
  await useTabs(tabs, situation);
  return tabs;
}

/* A client for judge(). name is the app's on the stage. */
export function chat(stage, { version, ai, Chat, name }) {
  return { name: version, situations: chatSituations, verify,
    async play(situation, proxied) {
      const play = stage.play(proxied, situation,
        script('openai_chat', situation));
      const tabs = await playTabs({ ai, Chat, name }, play);
      return { outcome: outcomeOf(tabs), requests: stage.requests(play, name),
        posts: tabs.reduce((sum, { posts }) => sum + posts, 0),
        bounces: stage.n.accessLog().filter(({ conversation, verdict }) =>
          conversation === play.key && verdict === 'bounced').length };
    } };
}
