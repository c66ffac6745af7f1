/*
 * predicates.js: when a chat sends results by itself. The library's way is
 * to wait until all calls of the step have one; the early way, which many
 * apps have written and which two windows have to take, as each knows only
 * its own results, sends as soon as there is one.
 */
import { lastAssistantMessageIsCompleteWithToolCalls } from 'ai';

export const isTool = ({ type }) => type.startsWith('tool-');

export function lastStep({ parts }) {
  const step = parts.findLastIndex(({ type }) => type === 'step-start');
  return parts.slice(step + 1);
}

export const late = lastAssistantMessageIsCompleteWithToolCalls;

export function early({ messages }) {
  const last = messages.at(-1);
  return last.role === 'assistant' && lastStep(last).some((part) =>
    isTool(part) && part.state.startsWith('output-'));
}

/* How much a transcript says: what is ahead of it says more. */
export function weight(messages) {
  return messages.flatMap(({ parts }) => parts).reduce((sum, part) =>
    sum + (part.text?.length ?? 0) + (isTool(part) ? 1 : 0), 0);
}
