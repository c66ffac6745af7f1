/*
 * use_chat.jsx: a page with the hook useChat, as an app would write it. The
 * test reads window.state() and controls the user by window.play.
 */
import { useChat } from '@ai-sdk/react';
import * as ai from 'ai';
import { createRoot } from 'react-dom/client';
import { complete, early } from '../predicates.mjs';
import { tools, work } from '../tools.mjs';

const { id, when, sendsEarly, resume, reconnect, messages } = window.play;
const calls = [];
const errors = [];
let waiting = 0;
let ids = 0;

function Page() {
  const chat = useChat({
    ...(id && { id }),
    /* The stored messages, and the running answer. */
    ...(resume && { resume, messages }),
    generateId: () => `client_${ids++}`,
    transport: new ai.DefaultChatTransport({ api: window.play.api,
      ...(reconnect && { prepareReconnectToStreamRequest: (request) =>
        ({ api: `${reconnect}/${request.id}` }) }) }),
    sendAutomaticallyWhen: sendsEarly ? early : complete(ai),
    onError: (error) => errors.push(error.message),
    onToolCall({ toolCall }) {
      const { toolCallId, toolName, input } = toolCall;
      const n = tools.indexOf(toolName);
      calls.push(toolCallId);
      if (!when || when[n] !== undefined) {
        waiting++;
        setTimeout(() => {
          waiting--;
          give(toolCallId, toolName, input);
        }, when?.[n] ?? 0);
      }
    },
  });
  const give = (toolCallId, tool, input) =>
    chat.addToolOutput({ tool, toolCallId, output: work(tool, input) });
  /* The results of this window's user, and those of another window. */
  window.give = (tool) => {
    const part = chat.messages.at(-1).parts.find(({ type }) =>
      type === `tool-${tool}`);
    give(part.toolCallId, tool, part.input);
  };
  window.show = chat.setMessages;
  window.say = (text) => chat.sendMessage({ text });
  window.state = () => ({ calls, errors, messages: chat.messages,
    text: document.body.innerText,
    idle: !waiting && ['ready', 'error'].includes(chat.status) });
  return <ul>{chat.messages.map(({ id, role, parts }) => <li key={id}>
    {role}: {parts.map(({ type, text, state }) =>
      text ?? `[${type} ${state ?? ''}]`).join(' ')}</li>)}</ul>;
}

createRoot(document.getElementById('page')).render(<Page />);
