/*
 * attempt_facts.h: one fact about an attempt at a time.
 *
 * A request puts all that it knows of its attempt at once, by
 * chat_facts_attempt(); a store may have any of these facts without the
 * others.
 */

#ifndef ATTEMPT_FACTS_H
#define ATTEMPT_FACTS_H

#include "facts/chat_facts.h"

/* One fact of attempt k; the other values are 0. */
static inline void
attempt_fact(chat_facts_t *facts, uint32_t k, chat_str_t worker,
             chat_str_t request, chat_attempt_t attempt)
{
    attempt.k = k;
    attempt.worker = worker;
    attempt.request = request;
    chat_facts_attempt(facts, &attempt);
}


#define chat_facts_answer(facts, k, w, r, status) \
    attempt_fact(facts, k, w, r, (chat_attempt_t){ .answer = (status) })
#define chat_facts_after(facts, k, w, r, seconds) \
    attempt_fact(facts, k, w, r, (chat_attempt_t){ .after = (seconds) })
#define chat_facts_end(facts, k, w, r, how) \
    attempt_fact(facts, k, w, r, (chat_attempt_t){ .end = (how) })
#define chat_facts_whole(facts, k, w, r, status, how) \
    attempt_fact(                                     \
        facts, k, w, r,                               \
        (chat_attempt_t){ .answer = (status), .end = (how), .whole = 1 })
#define chat_facts_record(facts, k, w, r, mode) \
    attempt_fact(facts, k, w, r, (chat_attempt_t){ .recording = (mode) })
#define chat_facts_void(facts, k, w, r) \
    attempt_fact(facts, k, w, r, (chat_attempt_t){ .is_void = 1 })

#endif /* ATTEMPT_FACTS_H */
