/*
 * assistant_ui.jsx: a page of @assistant-ui/react with its primitives, its
 * runtime for the AI SDK, and tools that it runs in the browser.
 */
import {
  AssistantRuntimeProvider, ComposerPrimitive, MessagePrimitive,
  ThreadPrimitive, useAssistantTool,
} from '@assistant-ui/react';
import { AssistantChatTransport, useChatRuntime }
  from '@assistant-ui/react-ai-sdk';
import * as ai from 'ai7';
import { createRoot } from 'react-dom/client';
import { complete } from '../predicates.mjs';
import { parameters, tools, work } from '../tools.mjs';

const calls = [];
const errors = [];
const declared = tools.map((toolName) => ({ toolName, type: 'frontend',
  description: toolName, parameters,
  execute: async (input, { toolCallId }) => {
    calls.push(toolCallId);
    return work(toolName, input);
  } }));

function Tool({ tool }) {
  useAssistantTool(tool);
  return null;
}

const Text = ({ text }) => <p>{text}</p>;
const Call = ({ toolName, args, result }) =>
  <p>{toolName} of {args.city}: {JSON.stringify(result ?? 'running')}</p>;

const Message = () => <MessagePrimitive.Root>
  <MessagePrimitive.Parts components={{ Text,
    tools: { Fallback: Call } }} />
</MessagePrimitive.Root>;

const Thread = () => <ThreadPrimitive.Root>
  <ThreadPrimitive.Messages components={{ Message }} />
  <ComposerPrimitive.Root><ComposerPrimitive.Input /></ComposerPrimitive.Root>
</ThreadPrimitive.Root>;

function Page() {
  const runtime = useChatRuntime({
    transport: new AssistantChatTransport({ api: window.play.api }),
    sendAutomaticallyWhen: complete(ai),
    onError: (error) => errors.push(error.message),
  });
  window.say = (text) => runtime.thread.append({ role: 'user',
    content: [{ type: 'text', text }] });
  window.state = () => ({ calls, errors, text: document.body.innerText,
    idle: !runtime.thread.getState().isRunning });
  return <AssistantRuntimeProvider runtime={runtime}>
    {declared.map((tool) => <Tool key={tool.toolName} tool={tool} />)}
    <Thread />
  </AssistantRuntimeProvider>;
}

createRoot(document.getElementById('page')).render(<Page />);
