/*
 * google.mjs: the package @google/genai, in each way of use:
 * generateContentStream(), generateContent(), and the chat that keeps its
 * history itself, a content for each chunk. Each is a talker (talk.mjs).
 */
import { parameters, tools, work } from '../tools.mjs';

const config = (signal) => ({ abortSignal: signal,
  tools: [{ functionDeclarations: tools.map((name) =>
    ({ name, parametersJsonSchema: parameters })) }] });

/* New for each answer, by HTTP. */
const lasting = (key, value) => (key === 'sdkHttpResponse' ? undefined
  : value);

const partsOf = (chunk) => chunk.candidates?.[0]?.content?.parts ?? [];

/* Results as parts; a call without an id has its name. */
const responses = (results, calls) => Object.entries(results)
  .map(([id, value]) => ({ functionResponse: { id,
    name: calls.find((call) => call.id === id).name,
    response: { output: value } } }));

export class Contents {
  constructor(client) {
    this.client = client;
    this.contents = [];
  }

  fork() {
    return Object.assign(new this.constructor(this.client),
      structuredClone({ contents: this.contents, calls: this.calls }));
  }

  say(words) {
    this.contents.push({ role: 'user', parts: [{ text: words }] });
  }

  bring(results) {
    this.contents.push({ role: 'user',
      parts: responses(results, this.calls) });
  }

  /* The chunks of an answer, or an answer alone. */
  take(chunks) {
    const parts = chunks.flatMap(partsOf);
    this.calls = parts.filter(({ functionCall }) => functionCall)
      .map(({ functionCall: { id, name, args } }) =>
        ({ id, name, input: args }));
    this.keep(parts);
    return { message: JSON.parse(JSON.stringify(chunks, lasting)),
      words: parts.map(({ text }) => text ?? '').join(''),
      calls: this.calls };
  }

  keep(parts) {
    this.contents.push({ role: 'model', parts });
  }

  async ask({ signal }) {
    return this.take([await this.client.models.generateContent({ model: 'm',
      contents: this.contents, config: config(signal) })]);
  }
}

export class Stream extends Contents {
  begin(signal) {
    return this.client.models.generateContentStream({ model: 'm',
      contents: this.contents, config: config(signal) });
  }

  async ask({ signal, seen }) {
    const chunks = [];
    for await (const chunk of await this.begin(signal)) {
      chunks.push(chunk);
      seen?.(chunks.flatMap(partsOf).map(({ text }) => text ?? '').join(''));
    }
    signal?.throwIfAborted();
    return this.take(chunks);
  }
}

class Chat extends Stream {
  constructor(client) {
    super(client);
    this.open([]);
  }

  open(history) {
    this.chat = this.client.chats.create({ model: 'm', history });
  }

  fork() {
    const copy = super.fork();
    copy.open(structuredClone(this.chat.getHistory()));
    return copy;
  }

  say(words) {
    this.message = words;
  }

  bring(results) {
    this.message = responses(results, this.calls);
  }

  keep() {}

  begin(signal) {
    return this.chat.sendMessageStream({ message: this.message,
      config: config(signal) });
  }
}

/* The library calls the tools itself, and repeats until it gets a text. */
class Automatic extends Contents {
  async run(words, { signal, heard, out }) {
    const stream = await this.client.models.generateContentStream({
      model: 'm', contents: words,
      config: { abortSignal: signal, tools: [{
        tool: async () => config().tools[0],
        callTool: async (calls) => {
          out.calls.push(...calls.map(({ name, args }) =>
            ({ name, input: args })));
          return calls.map(({ id, name, args }) => ({ functionResponse: { id,
            name, response: { output: work(name, args) } } }));
        } }] } });
    for await (const chunk of stream) {
      out.messages.push(JSON.parse(JSON.stringify(chunk, lasting)));
      out.words += partsOf(chunk).map(({ text }) => text ?? '').join('');
      heard?.(out.words);
    }
    signal?.throwIfAborted();
  }
}

const ways = {
  'generateContentStream()': { Talker: Stream },
  'generateContent()': { Talker: Contents, stream: false },
  'chats.sendMessageStream()': { Talker: Chat },
  'automatic function calling': { Talker: Automatic, runs: true },
};

export const google = (version, GoogleGenAI) => Object.entries(ways).map(
  ([way, { Talker, ...rest }]) => ({ name: `${version}, ${way}`,
    key: 'gemini', ...rest,
    make: (base, { key, headers }) => new Talker(new GoogleGenAI({
      apiKey: key, httpOptions: { baseUrl: base, headers,
        retryOptions: { attempts: 2, initialDelay: 0.001, jitter: 0 } } })),
  }));
