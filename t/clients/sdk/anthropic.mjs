/*
 * anthropic.mjs: the package @anthropic-ai/sdk, in each way of use:
 * messages.stream(), the bare events, without a stream, and the tool runner,
 * which keeps its history at the provider. Each is a talker (talk.mjs).
 */
import { parameters as input_schema, tools, work } from '../tools.mjs';

class Messages {
  constructor(client) {
    this.client = client;
    this.messages = [];
  }

  fork() {
    return Object.assign(new this.constructor(this.client),
      { messages: structuredClone(this.messages) });
  }

  body() {
    return { model: 'm', max_tokens: 100, messages: this.messages,
      tools: tools.map((name) => ({ name, input_schema })) };
  }

  say(content) {
    this.messages.push({ role: 'user', content });
  }

  bring(results) {
    this.messages.push({ role: 'user', content: Object.entries(results)
      .map(([id, value]) => ({ type: 'tool_result', tool_use_id: id,
        content: JSON.stringify(value) })) });
  }

  take(message) {
    const { content } = message;
    this.messages.push({ role: 'assistant', content });
    return { message,
      words: content.filter(({ type }) => type === 'text')
        .map(({ text }) => text).join(''),
      calls: content.filter(({ type }) => type === 'tool_use')
        .map(({ id, name, input }) => ({ id, name, input })) };
  }

  async ask({ signal }) {
    return this.take(await this.client.messages.create(this.body(),
      { signal }));
  }
}

class Stream extends Messages {
  async ask({ signal, seen }) {
    const stream = this.client.messages.stream(this.body(), { signal });
    stream.on('text', (_, words) => seen?.(words));
    return this.take(await stream.finalMessage());
  }
}

class Events extends Messages {
  async ask({ signal, seen }) {
    const stream = await this.client.messages.create(
      { ...this.body(), stream: true }, { signal });
    const list = [];
    const content = [];
    for await (const event of stream) {
      list.push(event);
      const { index, delta } = event;
      if (event.type === 'content_block_start') {
        content[index] = { ...event.content_block, json: '' };
      } else if (delta?.type === 'text_delta') {
        content[index].text += delta.text;
        seen?.(content[index].text);
      } else if (delta?.type === 'input_json_delta') {
        content[index].json += delta.partial_json;
      }
    }
    signal?.throwIfAborted();
    const whole = content.map(({ json, ...block }) => (json
      ? { ...block, input: JSON.parse(json) } : block));
    return { ...this.take({ content: whole }), message: list };
  }
}

class Runner extends Messages {
  async run(words, { signal, heard, out }) {
    const runner = this.client.beta.messages.toolRunner({ model: 'm',
      max_tokens: 100, stream: true,
      messages: [{ role: 'user', content: words }],
      tools: tools.map((name) => ({ name, input_schema, type: 'custom',
        parse: (input) => input, run: (input) => {
          out.calls.push({ name, input });
          return JSON.stringify(work(name, input));
        } })) }, { signal });
    for await (const stream of runner) {
      out.words = '';
      stream.on('text', (_, so) => {
        out.words = so;
        heard?.(out.words);
      });
      out.messages.push(await stream.finalMessage());
    }
  }
}

const ways = {
  'messages.stream()': { key: 'anthropic', Talker: Stream },
  'messages, events': { key: 'anthropic', Talker: Events },
  'messages, no stream': { key: 'anthropic', Talker: Messages,
    stream: false },
  'toolRunner()': { key: 'anthropic_thread', Talker: Runner, runs: true },
};

export const anthropic = (version, Anthropic) => Object.entries(ways).map(
  ([way, { Talker, ...rest }]) => ({ name: `${version}, ${way}`, ...rest,
    make: (base, { key, headers }) => new Talker(new Anthropic({
      apiKey: key, baseURL: base, defaultHeaders: headers })) }));
