/*
 * chat_recover.c: a store that lost what it was told; see chat_gate.h.
 *
 * Facts are only ever added, so what was read once is still true, and whoever
 * read it may say it again; as facts name their claimants, it cannot be taken
 * for what another has done since.
 * Must not know: stores, time.
 */

#include "policy/chat_gate.h"


/* 1 if the batch wakes this worker. */
static int
chat_gate_wakes(const chat_batch_t *batch, chat_str_t worker)
{
    size_t i;

    for (i = 0; i < batch->nwaits; i++) {
        if (chat_str_eq(batch->waits[i], worker)) {
            return 1;
        }
    }

    return 0;
}


/* 1 if attempt k was claimed; the attempts are in order of their numbers. */
static int
chat_gate_has_attempt(const chat_batch_t *batch, uint32_t k)
{
    size_t i;

    for (i = batch->nattempts; i > 0 && batch->attempts[i - 1].k > k; i--) {
        /* void */
    }

    return i > 0 && batch->attempts[i - 1].k == k;
}


int
chat_gate_lost(const chat_question_t *q, const chat_batch_t *batch)
{
    size_t               i;
    const chat_member_t *member;

    if (batch->cleared) {
        return 0;
    }

    if (!chat_gate_wakes(batch, q->worker)) {
        return 1;
    }

    /* another request of this worker may have put the watch again */

    if (q->seen.last.attempt.k != 0
        && !chat_gate_has_attempt(batch, q->seen.last.attempt.k))
    {
        return 1;
    }

    for (i = 0; i < q->nmembers; i++) {
        if (!q->members[i].settled) {
            continue;
        }

        member = chat_batch_find(batch, q->members[i].id);
        if (member == NULL
            || (member->outcome == CHAT_OUTCOME_NONE
                && member->approval == CHAT_APPROVAL_NONE))
        {
            return 1;
        }
    }

    return 0;
}


/* The attempt with all that was said of it. */
static void
chat_gate_rejoin_attempt(const chat_attempt_t *attempt, chat_facts_t *facts)
{
    uint32_t   k = attempt->k;
    chat_str_t worker = attempt->worker, request = attempt->request;

    if (k == 0) {
        return;
    }

    chat_facts_claim(facts, attempt);

    if (attempt->answer != 0) {
        chat_facts_answer(facts, k, worker, request, attempt->answer);
    }

    if (attempt->after != 0) {
        chat_facts_after(facts, k, worker, request, attempt->after);
    }

    if (attempt->end != CHAT_END_NONE) {
        chat_facts_end(facts, k, worker, request, attempt->end);
    }

    if (attempt->is_void) {
        chat_facts_void(facts, k, worker, request);
    }
}


void
chat_gate_rejoin(const chat_question_t *q, const chat_call_t *calls,
                 size_t ncalls, chat_facts_t *facts)
{
    size_t                   i;
    const chat_seen_batch_t *seen = &q->seen;

    chat_gate_rejoin_attempt(&seen->last.attempt, facts);
    chat_gate_rejoin_attempt(&seen->answered.attempt, facts);

    if (seen->partial) {
        chat_facts_add(facts, "partial", chat_cstr("1"));
    }

    for (i = 0; q->chained && i < ncalls; i++) {
        chat_facts_call(facts, calls[i].id, calls[i].kind, (uint32_t) i,
                        &calls[i].fingerprint);
    }

    /* a seal says that all the calls are there */
    if (seen->sealed && (!q->chained || ncalls == seen->ncalls)) {
        chat_facts_add(facts, "seal", chat_cstr("1"));
    }
}
