/*
 * ag_ui.mjs: the package @ag-ui/client: an HttpAgent with results of tools,
 * and one with interrupted and resumed runs. Each is a talker (talk.mjs).
 */

/*
 * After a broken connection the library cancels its reader without handling
 * the rejection: in Node that would end the process.
 */
async function fetched(url, init) {
  const response = await fetch(url, init);
  const { body } = response;
  const getReader = body.getReader.bind(body);
  body.getReader = () => {
    const reader = getReader();
    const cancel = reader.cancel.bind(reader);
    reader.cancel = () => cancel().catch(() => {});
    return reader;
  };
  return response;
}

/* The events of a run for the agent's user. */
const watching = (out, seen) => ({
  onTextMessageContentEvent({ textMessageBuffer, event }) {
    seen?.(textMessageBuffer + event.delta);
  },
  onRunErrorEvent({ event: { message, code } }) {
    out.error = Object.assign(new Error(message), { code });
  },
  /* The library would write it to the console. */
  onRunFailed({ error }) {
    out.error = error;
    return { stopPropagation: true };
  },
});

class Agent {
  constructor(agent) {
    this.agent = agent;
    this.input = {};
  }

  fork() {
    return Object.assign(new this.constructor(this.agent.clone()),
      { calls: this.calls });
  }

  say(words) {
    this.agent.addMessage({ id: 'u1', role: 'user', content: words });
  }

  bring(results) {
    for (const [id, value] of Object.entries(results)) {
      this.agent.addMessage({ id: `t-${id}`, role: 'tool', toolCallId: id,
        content: JSON.stringify(value) });
    }
  }

  async ask({ signal, seen }) {
    const out = {};
    signal?.addEventListener('abort', () => this.agent.abortRun());
    const { newMessages } = await this.agent.runAgent(this.input,
      watching(out, seen));
    signal?.throwIfAborted();
    if (out.error) {
      throw out.error;
    }
    const said = newMessages.filter(({ role }) => role === 'assistant');
    this.calls = this.asked(said);
    return { message: this.transcript(), calls: this.calls,
      words: said.map(({ content }) => content ?? '').join('') };
  }

  /* Results, its own and injected ones, have any order. */
  transcript() {
    const order = ({ role, toolCallId: id }) => (role === 'tool' ? id : '');
    return structuredClone(this.agent.messages).sort((a, b) =>
      (order(a) && order(b) ? order(a).localeCompare(order(b)) : 0));
  }

  asked(messages) {
    return messages.flatMap(({ toolCalls }) => toolCalls ?? [])
      .map(({ id, function: { name, arguments: text } }) =>
        ({ id, name, input: JSON.parse(text) }));
  }
}

class Resuming extends Agent {
  /* A client resumes only interrupts that it received. */
  bring(results) {
    this.agent.pendingInterrupts = this.agent.pendingInterrupts
      .filter(({ id }) => id in results);
    this.input = { resume: Object.entries(results).map(([id, payload]) =>
      ({ interruptId: id, status: 'resolved', payload })) };
  }

  asked() {
    return this.agent.pendingInterrupts.map(({ id, reason }) =>
      ({ id, name: reason, input: { city: id } }));
  }
}

const ways = {
  'runAgent()': { key: 'ag_ui', Talker: Agent },
  'runAgent(), interrupted': { key: 'ag_ui_resume', Talker: Resuming,
    interrupted: true },
};

export const agUi = (version, HttpAgent) => Object.entries(ways).map(
  ([way, { Talker, ...rest }]) => ({ name: `${version}, ${way}`,
    retries: false, ...rest,
    make: (base, { key, headers }) => new Talker(new HttpAgent({
      url: `${base}/agent`, threadId: key, agentId: 'a', fetch: fetched,
      headers: { ...headers, authorization: `Bearer ${key}` } })),
  }));
