/*
 * chat_gate_loop.c: ends the loop of a client that asks again by itself.
 *
 * An answer that breaks off each time is asked for each time, and paid for.
 * What counts is what went upstream: a request that waits, is answered here,
 * or passes without a claim is no attempt, nor is one that sent nothing.
 * Promises: pure; the clocks of nodes may differ a little.
 * Must not know: wire formats, stores, what time it is.
 */

#include "policy/chat_gate.h"

#define CHAT_LOOP_ATTEMPTS 10
#define CHAT_LOOP_MS 60000


/* The two times are less than a minute apart. */
static int
chat_gate_is_recent(uint64_t now, uint64_t then)
{
    uint64_t apart = now > then ? now - then : then - now;

    return now != 0 && then != 0 && apart < CHAT_LOOP_MS;
}


chat_gate_e
chat_gate_may_claim(const chat_question_t *q, const chat_batch_t *batch,
                    uint32_t k)
{
    size_t                i, recent = 0;
    const chat_attempt_t *attempt = batch->attempts;

    /* a claim that no reader believes could be tried for ever */
    if (k > CHAT_ATTEMPTS_MAX) {
        return CHAT_GATE_CONFLICT;
    }

    for (i = 0; q->dialect->resends && i < batch->nattempts; i++, attempt++) {
        recent +=
            !attempt->is_void && chat_gate_is_recent(q->now, attempt->ms);
    }

    return recent < CHAT_LOOP_ATTEMPTS ? CHAT_GATE_CLAIM : CHAT_GATE_LOOP;
}
