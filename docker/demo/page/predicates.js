/*
 * predicates.js: when a chat sends results by itself. The library's predicate
 * waits until all calls of the step have one. The early one sends as soon as
 * there is a result: many apps do this, and two windows must, since each knows
 * only its own results.
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

/* The progress of a transcript, to find the newer one. */
export function weight(messages) {
  return messages.flatMap(({ parts }) => parts).reduce((sum, part) =>
    sum + (part.text?.length ?? 0) + (isTool(part) ? 1 : 0), 0);
}
