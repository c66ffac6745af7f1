/*
 * chat_question.h: what chat_gate.c and chat_question.c share: a question's
 * results, and whether its request may share the answer of another one.
 *
 * Only for the files of this folder. Promises: only equal requests share an
 * answer; in doubt a request shares none.
 */

#ifndef CHAT_QUESTION_H
#define CHAT_QUESTION_H

#include "policy/chat_gate.h"

/*
 * The results of the body, and the stored ones (batch NULL: none), as a claim
 * lists them; data NULL: no memory.
 */
chat_str_t chat_gate_results(chat_question_t *q, const chat_batch_t *batch);

/* 1 if the attempt and the request ask for the same. */
int chat_gate_asks_the_same(const chat_question_t *q,
                            const chat_attempt_t  *attempt);

/*
 * 1 if the request may share the answer of the last attempt. *twin: it has
 * its content, and the store does not know the request yet.
 */
int chat_gate_may_follow(const chat_question_t *q, const chat_batch_t *batch,
                         const chat_attempt_t *last, int *twin);

#endif /* CHAT_QUESTION_H */
