/*
 * openai.mjs: the package openai, in each way of use: Chat Completions with
 * the stream helper, with the bare iterator, without a stream, with
 * runTools(); Responses with the helper, with and without
 * previous_response_id, and without a stream. Each is a talker (talk.mjs).
 * tools are declared as a user of the package does.
 */
import { parameters, tools, work } from '../tools.mjs';

const declared = tools.map((name) => ({ type: 'function',
  function: { name, parameters } }));

class Chat {
  constructor(client) {
    this.client = client;
    this.messages = [];
  }

  fork() {
    return Object.assign(new this.constructor(this.client),
      { messages: structuredClone(this.messages) });
  }

  body() {
    return { model: 'm', messages: this.messages, tools: declared };
  }

  say(content) {
    this.messages.push({ role: 'user', content });
  }

  bring(results) {
    for (const [id, value] of Object.entries(results)) {
      this.messages.push({ role: 'tool', tool_call_id: id,
        content: JSON.stringify(value) });
    }
  }

  take(whole, message) {
    this.messages.push(message);
    return { message: whole, words: message.content,
      calls: (message.tool_calls ?? []).map((call) => ({ id: call.id,
        name: call.function.name,
        input: JSON.parse(call.function.arguments) })) };
  }
}

class ChatJson extends Chat {
  async ask({ signal }) {
    const whole = await this.client.chat.completions.create(this.body(),
      { signal });
    return this.take(whole, whole.choices[0].message);
  }
}

class ChatStream extends Chat {
  async ask({ signal, seen }) {
    const stream = this.client.chat.completions.stream(this.body(),
      { signal });
    stream.on('content', (_, words) => seen?.(words));
    const whole = await stream.finalChatCompletion();
    return this.take(whole, whole.choices[0].message);
  }
}

class ChatRaw extends Chat {
  async ask({ signal, seen }) {
    const stream = await this.client.chat.completions.create(
      { ...this.body(), stream: true }, { signal });
    const chunks = [];
    const message = { role: 'assistant', content: '' };
    for await (const chunk of stream) {
      chunks.push(chunk);
      const { delta } = chunk.choices[0];
      message.content += delta.content ?? '';
      for (const { index, id, function: part } of delta.tool_calls ?? []) {
        message.tool_calls ??= [];
        message.tool_calls[index] ??= { id, type: 'function',
          function: { name: part.name, arguments: '' } };
        message.tool_calls[index].function.arguments += part.arguments;
      }
      seen?.(message.content);
    }
    /* The bare iterator ends without an error. */
    signal?.throwIfAborted();
    return this.take(chunks, message);
  }
}

class ChatRun extends Chat {
  async run(words, { signal, heard, out }) {
    const runner = this.client.chat.completions.runTools({ model: 'm',
      stream: true, messages: [{ role: 'user', content: words }],
      tools: tools.map((name) => ({ type: 'function', function: { name,
        parameters, parse: JSON.parse, function: (input) => {
          out.calls.push({ name, input });
          return work(name, input);
        } } })) }, { signal });
    runner.on('message', (message) => out.messages.push(message));
    runner.on('content', (_, so) => {
      out.words = so;
      heard?.(out.words);
    });
    out.words = await runner.finalContent();
  }
}

class Responses {
  constructor(client) {
    this.client = client;
    this.input = [];
  }

  fork() {
    return Object.assign(new this.constructor(this.client),
      { input: structuredClone(this.input), previous: this.previous });
  }

  body() {
    return { model: 'm', store: false, input: this.input,
      tools: tools.map((name) => ({ type: 'function', name, parameters })) };
  }

  say(content) {
    this.input.push({ role: 'user', content });
  }

  bring(results) {
    for (const [call_id, value] of Object.entries(results)) {
      this.input.push({ type: 'function_call_output', call_id,
        output: JSON.stringify(value) });
    }
  }

  take(response) {
    this.input.push(...response.output);
    return { message: response, words: response.output_text,
      calls: response.output.filter(({ type }) => type === 'function_call')
        .map((call) => ({ id: call.call_id, name: call.name,
          input: JSON.parse(call.arguments) })) };
  }
}

class ResponsesJson extends Responses {
  async ask({ signal }) {
    return this.take(await this.client.responses.create(this.body(),
      { signal }));
  }
}

class ResponsesStream extends Responses {
  async ask({ signal, seen }) {
    const stream = this.client.responses.stream(this.body(), { signal });
    let words = '';
    stream.on('response.output_text.delta', ({ delta }) => {
      words += delta;
      seen?.(words);
    });
    return this.take(await stream.finalResponse());
  }
}

class ResponsesRaw extends Responses {
  async ask({ signal, seen }) {
    const stream = await this.client.responses.create(
      { ...this.body(), stream: true }, { signal });
    const list = [];
    let words = '';
    for await (const { sequence_number, ...event } of stream) {
      list.push(event);
      words += event.type === 'response.output_text.delta'
        ? event.delta : '';
      seen?.(words);
    }
    signal?.throwIfAborted();
    const last = list.at(-1);
    if (last.type === 'error') {
      throw new Error(last.message);
    }
    const response = last.response ?? { output: [] };
    return { ...this.take({ ...response, output_text: words }),
      message: list };
  }
}

class ResponsesChained extends ResponsesStream {
  body() {
    const { store, ...body } = super.body();
    return { ...body, previous_response_id: this.previous };
  }

  take(response) {
    const step = super.take(response);
    this.previous = response.id;
    this.input = [];
    return step;
  }
}

const ways = {
  'chat stream()': { key: 'openai_chat', Talker: ChatStream },
  'chat, events': { key: 'openai_chat', Talker: ChatRaw },
  'chat, no stream': { key: 'openai_chat', Talker: ChatJson, stream: false },
  'chat runTools()': { key: 'openai_chat', Talker: ChatRun, runs: true },
  'responses stream()': { key: 'openai_responses', Talker: ResponsesStream },
  'responses, events': { key: 'openai_responses', Talker: ResponsesRaw },
  'responses, no stream': { key: 'openai_responses', Talker: ResponsesJson,
    stream: false },
  'responses, chained': { key: 'openai_responses_chained',
    Talker: ResponsesChained },
};

/* All ways of one version: OpenAI is the package's default export. */
export const openai = (version, OpenAI) => Object.entries(ways).map(
  ([way, { Talker, ...rest }]) => ({ name: `${version}, ${way}`, ...rest,
    make: (base, { key, headers }) => new Talker(new OpenAI({ apiKey: key,
      baseURL: `${base}/v1`, defaultHeaders: headers })) }));
