/*
 * chat_gate_lost.c: a store that lost what it was told; see chat_gate.h.
 *
 * Facts are only ever added, so what was read once is still true, and whoever
 * read it may say it again; as facts name their claimants, it cannot be taken
 * for what another has done since.
 * Must not know: stores, time.
 */

#include "chat_gate.h"

#include <stdio.h>


/* 1 if the fact prefix/rest is among them. */
static int
chat_gate_has(const chat_fact_t *facts, size_t n, const char *prefix,
              chat_str_t rest)
{
    size_t            i, len = strlen(prefix);
    const chat_str_t *field;

    for (i = 0; i < n; i++) {
        field = &facts[i].field;

        if (field->len == len + rest.len && chat_str_starts(*field, prefix)
            && chat_str_eq(chat_str(field->data + len, rest.len), rest))
        {
            return 1;
        }
    }

    return 0;
}


int
chat_gate_lost(const chat_question_t *q, const chat_fact_t *facts, size_t n)
{
    char       number[16];
    size_t     i;
    chat_str_t id;

    if (chat_gate_has(facts, n, "cleared", chat_str(NULL, 0))) {
        return 0;
    }

    if (!chat_gate_has(facts, n, "wait/", q->worker)) {
        return 1;
    }

    /* another request of this worker may have put the watch again */

    (void) snprintf(number, sizeof(number), "%u",
                    (unsigned) q->seen.last.attempt.k);
    if (q->seen.last.attempt.k != 0
        && !chat_gate_has(facts, n, "claim/", chat_cstr(number)))
    {
        return 1;
    }

    for (i = 0; i < q->nmembers; i++) {
        id = q->members[i].id;

        if (q->members[i].settled && !chat_gate_has(facts, n, "result/", id)
            && !chat_gate_has(facts, n, "approval/", id))
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
