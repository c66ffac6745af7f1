/*
 * chat.jsx: one chat window: useChat as an app would write it, the tools that
 * run in the page, and the question that its user answers.
 */
import { useChat } from '@ai-sdk/react';
import { DefaultChatTransport } from 'ai';
import { useEffect, useRef, useState } from 'react';
import { tools } from '../tools.mjs';
import { early, isTool, late, weight } from './predicates.js';
import { poll } from './poll.js';
import { apiOf } from './settings.js';

const suggestions = ['A weekend in Lisbon', 'A weekend in Oslo'];

/* Many errors of one kind are one line. */
const added = (errors, text) => (errors.at(-1)?.text === text
  ? [...errors.slice(0, -1), { text, times: errors.at(-1).times + 1 }]
  : [...errors, { text, times: 1 }]);

const results = {
  weather: ({ degrees, sky }) => `${degrees}°, ${sky}`,
  flights: ({ flight, leaves, euros }) => `${flight}, ${leaves}, ${euros} €`,
  ask: ({ answer }) => answer,
};

function Tool({ name, part, runs, give }) {
  const { input, output, state } = part;
  const { title, takes } = tools[name] ?? { title: name, takes: 0 };
  const done = state === 'output-available';
  const asks = takes === null && state === 'input-available';
  return <div className={`tool ${done ? 'done' : asks ? 'asks' : 'runs'}`}
    data-tool={name} data-state={state}>
    <div className="what"><b>{title}</b>
      <span>{takes === null ? input?.question : input?.city}</span>
      {runs > 1 && <em className="twice">{takes === null ? 'asked' : 'ran'}
        {' '}{runs} times</em>}
    </div>
    {done && <div className="result">
      {results[name]?.(output) ?? JSON.stringify(output)}</div>}
    {asks && <div className="options">{input.options?.map((option) =>
      <button key={option} onClick={() => give(part, option)}>
        {option}</button>)}</div>}
    {!done && !asks && <div className="work" aria-label="working" />}
    {state === 'output-error' && <div className="result">
      {part.errorText}</div>}
  </div>;
}

function Message({ message, runs, give }) {
  return <li className={message.role}>{message.parts.map((part, i) => {
    if (part.type === 'text') {
      return <p key={i}>{part.text}</p>;
    }
    /* A repeated call may occur twice. */
    return isTool(part) && <Tool key={i} part={part}
      name={part.type.slice('tool-'.length)}
      runs={runs[part.toolCallId] ?? 0} give={give} />;
  })}</li>;
}

function Composer({ send }) {
  const [text, setText] = useState('');
  const submit = (event) => {
    event.preventDefault();
    if (text.trim()) {
      send(text);
      setText('');
    }
  };
  return <form onSubmit={submit}>
    <input value={text} aria-label="Your message" placeholder="Where to?"
      onChange={(event) => setText(event.target.value)} />
    <button>Ask</button>
  </form>;
}

/* The state of the last answer in the page. */
function Fate({ status, messages, broken }) {
  const { role, parts } = messages.at(-1) ?? {};
  if (status === 'submitted') {
    return <p className="fate wait">sent, waiting for the answer</p>;
  }
  if (status !== 'ready' || role !== 'assistant' || broken) {
    return null;
  }
  return parts.findLast(({ type }) => type === 'text' || isTool({ type }))
    ?.type === 'text' && <p className="fate">✓ the answer is complete</p>;
}

/* useChat and the other state of a window. */
function useWindow(settings, kept) {
  const { chat: id, cut, replay, second, two, plain } = settings;
  const [errors, setErrors] = useState([]);
  const [broken, setBroken] = useState(false);
  const [runs, setRuns] = useState({});
  const timers = useRef(new Set());
  /* After a reload: the stored messages, and the running answer. */
  const chat = useChat({ id, ...(kept && { messages: kept, resume: !plain }),
    transport: new DefaultChatTransport({ api: apiOf(settings),
      body: { settings: { cut, replay } } }),
    sendAutomaticallyWhen: two || !settings.late ? early : late,
    onError: ({ message }) => setErrors((list) => added(list, message)),
    onData: ({ type }) => type === 'data-chat-interrupted'
      && setBroken(true),
    onToolCall({ toolCall: { toolCallId, toolName, input } }) {
      setRuns((old) => ({ ...old,
        [toolCallId]: (old[toolCallId] ?? 0) + 1 }));
      const { takes, work } = tools[toolName];
      if (takes !== null) {
        const timer = setTimeout(() => {
          timers.current.delete(timer);
          chat.addToolOutput({ tool: toolName, toolCallId,
            output: work(input) });
        }, takes);
        timers.current.add(timer);
      }
    } });
  useEffect(() => () => {
    timers.current.forEach(clearTimeout);
    chat.stop();
  }, []);
  /* Like an app that stores its chats in a database. */
  const now = useRef(chat);
  now.current = chat;
  useEffect(() => (!second && !two ? undefined : poll(700, async (get) => {
    const { messages } = await get(`${apiOf(settings)}?id=${id}`);
    const { status, messages: mine, setMessages } = now.current;
    if (status === 'ready' && weight(messages) > weight(mine)) {
      setMessages(messages);
    }
  })), []);
  return { ...chat, errors, broken, runs,
    ask(text) {
      setErrors([]);
      setBroken(false);
      chat.sendMessage({ text });
    },
    askAgain() {
      setErrors([]);
      setBroken(false);
      chat.regenerate();
    },
    give({ type, toolCallId, input }, option) {
      const name = type.slice('tool-'.length);
      chat.addToolOutput({ tool: name, toolCallId,
        output: tools[name].work(input, option) });
    } };
}

/* The stored messages of a chat that another window began. */
export function Chat(props) {
  const { settings } = props;
  const asks = settings.known && !settings.second;
  const [kept, setKept] = useState(null);
  useEffect(() => {
    const end = asks ? poll(700, async (get) => {
      const chat = await get(`${apiOf(settings)}?id=${settings.chat}`);
      end();
      setKept(chat.kept);
    }) : undefined;
    return end;
  }, []);
  return asks && !kept ? null : <Window {...props} kept={kept} />;
}

function Window({ settings, title, kept }) {
  const it = useWindow(settings, kept);
  const { messages, status, errors, broken, runs } = it;
  const end = useRef(null);
  useEffect(() => { end.current?.scrollIntoView({ block: 'nearest' }); },
    [messages, errors, status]);
  return <section className="chat" data-status={status}>
    {title && <h2>{title}</h2>}
    <div className="talk"><ul>
      {!messages.length && <li className="nothing">{settings.second
        ? 'Waits for the first window to ask.'
        : suggestions.map((text) => <button key={text}
          onClick={() => it.ask(text)}>{text}</button>)}</li>}
      {messages.map((message) => <Message key={message.id} message={message}
        runs={runs} give={it.give} />)}
    </ul>
    {errors.map(({ text, times }, i) => <p key={i} className="error">
      {text}{times > 1 && <b> × {times}</b>}</p>)}
    {broken && <p className="broken">NGINX has told the page so.
      <button onClick={it.askAgain}>Ask again</button></p>}
    <Fate status={status} messages={messages} broken={broken} />
    <div ref={end} /></div>
    {!settings.second && <Composer send={it.ask} />}
  </section>;
}
