/*
 * predicates.mjs: when a chat sends its results by itself, the answer of an
 * app to sendAutomaticallyWhen. Shared by Node and the pages in a browser.
 */
export const lastStep = ({ parts }) =>
  parts.slice(parts.findLastIndex(({ type }) => type === 'step-start') + 1);

/* What apps write instead of the library's predicate. */
export const early = ({ messages }) => {
  const step = lastStep(messages.at(-1));
  return step.some(({ state }) => /^output|^approval-resp/.test(state))
    && !step.some(({ type }) => type === 'text');
};

export const complete = (ai) => (state) =>
  ai.lastAssistantMessageIsCompleteWithToolCalls(state)
  || !!ai.lastAssistantMessageIsCompleteWithApprovalResponses?.(state);
