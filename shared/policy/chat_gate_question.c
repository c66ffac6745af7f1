/*
 * chat_gate_question.c: what the gate keeps of a request, and what a request
 * brings to the store; see chat_gate.h.
 *
 * Promises: nothing of it points into the body, so that the body's tree can
 * go while the request waits. Must not know: wire formats, stores, time.
 */

#include "policy/chat_gate_sibling.h"
#include "bytes/chat_table.h"


/* The step that a continuation answers: the last; NULL: there is none. */
static const chat_step_t *
chat_gate_step(const chat_request_t *rq)
{
    return rq->answers && rq->nsteps ? &rq->steps[rq->nsteps - 1] : NULL;
}


/* 1 if the call counts: in a body that lists its calls, a member. */
static int
chat_gate_counts(const chat_request_t *rq, const chat_call_t *call)
{
    return rq->chained || chat_call_is_member(call);
}


/* What is known of the occurrences of a call's id within the step. */
typedef struct {
    unsigned stands : 1; /* this is the one that stands for the id: the first
                            that is settled, else the first */
    unsigned lacks : 1;  /* one of them has no result */
} chat_gate_twin_t;


/*
 * Of each call of the step, by its position in the step. NULL without memory.
 */
static chat_gate_twin_t *
chat_gate_twins(const chat_request_t *rq, const chat_step_t *step,
                chat_arena_t *arena)
{
    size_t              i;
    chat_table_t        ids; /* number: who stands, from 1 on; last: lacks */
    chat_gate_twin_t   *twins;
    const chat_call_t  *call, *calls;
    chat_table_entry_t *entry;

    chat_table_init(&ids, arena);
    twins = chat_arena_alloc(arena, (step->count + 1) * sizeof(*twins));
    calls = step->count == 0 ? NULL : &rq->calls[step->first];

    for (i = 0; twins != NULL && i < step->count; i++) {
        call = &calls[i];
        if (!chat_gate_counts(rq, call)) {
            continue;
        }

        entry = chat_table_put(&ids, call->id);
        if (entry == NULL) {
            return NULL;
        }

        entry->last |= call->outcome == CHAT_OUTCOME_NONE
                       || call->outcome == CHAT_OUTCOME_PARTIAL;

        if (entry->number == 0
            || (chat_call_is_settled(call)
                && !chat_call_is_settled(&calls[entry->number - 1])))
        {
            entry->number = i + 1;
        }
    }

    for (i = 0; twins != NULL && i < step->count; i++) {
        entry = chat_table_find(&ids, calls[i].id);

        if (entry != NULL) {
            twins[i].stands = entry->number == i + 1;
            twins[i].lacks = entry->last & 1;
        }
    }

    return twins;
}


/* One more member, for which there is room; NULL: no memory. */
static chat_asked_t *
chat_gate_member_new(chat_question_t *q, const chat_call_t *call)
{
    chat_asked_t       *asked = &q->members[q->nmembers];
    chat_table_entry_t *entry;

    if (chat_arena_dup(q->arena, call->id, &asked->id) != CHAT_OK) {
        return NULL;
    }

    entry = chat_table_put(&q->index, asked->id);
    if (entry == NULL) {
        return NULL;
    }

    entry->item = asked;
    asked->kind = call->kind;
    q->nmembers++;
    return asked;
}


/* The members of the question, each id once. */
static chat_rc_e
chat_gate_members(const chat_request_t *rq, const chat_step_t *step,
                  const chat_gate_twin_t *twins, size_t max_calls,
                  chat_question_t *q)
{
    size_t             i;
    chat_asked_t      *asked;
    const chat_call_t *call;

    for (i = 0; i < step->count; i++) {
        call = &rq->calls[step->first + i];

        if (!twins[i].stands) {
            continue;
        }

        if (call->id.len > CHAT_ID_MAX || q->nmembers == max_calls) {
            return CHAT_LIMIT;
        }

        asked = chat_gate_member_new(q, call);
        if (asked == NULL) {
            return CHAT_ERROR;
        }

        asked->settled = chat_call_is_settled(call);
        asked->wants = asked->settled && twins[i].lacks;
        asked->outcome = call->outcome;
        asked->approval = call->approval;
        memcpy(asked->fingerprint, call->fingerprint.bytes, 16);
        memcpy(asked->digest, call->digest.bytes, 16);
        q->complete = q->complete && asked->settled;
        q->wants = q->wants || asked->wants;
        q->decides |= chat_approval_is_decided(call->approval)
                      && call->outcome == CHAT_OUTCOME_NONE;
    }

    if (chat_gate_brings(q) != CHAT_OK) {
        return CHAT_ERROR;
    }

    return q->nmembers ? CHAT_OK : CHAT_DECLINED;
}


chat_rc_e
chat_gate_question(const chat_dialect_t *dialect, const chat_request_t *rq,
                   size_t max_calls, chat_arena_t *arena, chat_question_t *q)
{
    chat_rc_e          rc = CHAT_ERROR;
    chat_arena_t      *scratch; /* a held request keeps the arena */
    chat_gate_twin_t  *twins = NULL;
    const chat_step_t *step = chat_gate_step(rq);

    q->arena = arena;

    if (step == NULL) {
        return CHAT_DECLINED;
    }

    /* twice: an id may occur more than once */
    if (step->count > 2 * max_calls) {
        return CHAT_LIMIT;
    }

    q->dialect = dialect;
    q->fresh = rq->class == CHAT_CLASS_FRESH;
    q->kept = rq->by_conversation && !dialect->transcript;
    q->chained = rq->chained;
    q->complete = !rq->chained;
    memcpy(q->signature, rq->signature.bytes, 16);
    memcpy(q->transcript, rq->transcript.bytes, 16);
    chat_table_init(&q->index, arena);

    q->members =
        chat_arena_alloc(arena, (step->count + 1) * sizeof(*q->members));

    scratch = chat_arena_create(0);
    if (scratch != NULL) {
        twins = chat_gate_twins(rq, step, scratch);
    }

    if (q->members != NULL && twins != NULL) {
        rc = chat_gate_members(rq, step, twins, max_calls, q);
    }

    chat_arena_destroy(scratch);

    return rc;
}


static void
chat_gate_fact(const chat_call_t *call, int payloads, size_t max_result,
               chat_facts_t *facts, size_t *dropped)
{
    chat_str_t        reason = call->reason;
    const chat_str_t *payload = NULL;

    if (call->approval == CHAT_APPROVAL_GRANTED
        || call->approval == CHAT_APPROVAL_REFUSED)
    {
        if (reason.len > max_result) {
            reason.len = 0;
            (*dropped)++;
        }

        chat_facts_approval(facts, call->id, call->approval, reason);
    }

    if (call->outcome == CHAT_OUTCOME_NONE
        || call->outcome == CHAT_OUTCOME_PARTIAL)
    {
        return;
    }

    if (payloads && call->payload.len <= max_result) {
        payload = &call->payload;

    } else if (payloads) {
        (*dropped)++;
    }

    chat_facts_result(facts, call->id, call->outcome, &call->digest,
                      &call->fingerprint, payload);
}


void
chat_gate_facts(const chat_question_t *q, const chat_request_t *rq,
                int payloads, size_t max_result, chat_facts_t *facts,
                size_t *dropped)
{
    size_t             i;
    uint32_t           position = 0;
    chat_gate_twin_t  *twins;
    const chat_call_t *call;
    const chat_step_t *step = chat_gate_step(rq);

    if (step == NULL) {
        return;
    }

    twins = chat_gate_twins(rq, step, facts->arena);
    if (twins == NULL) {
        facts->failed = 1;
        return;
    }

    for (i = 0; i < step->count; i++) {
        call = &rq->calls[step->first + i];

        if (!rq->chained) {
            if (!twins[i].stands) {
                continue;
            }
            chat_facts_call(facts, call->id, call->kind, position++,
                            &call->fingerprint);
        }

        chat_gate_fact(call, payloads || !q->complete || twins[i].lacks,
                       max_result, facts, dropped);
    }
}


void
chat_gate_claim(const chat_question_t *q, uint32_t k, chat_facts_t *facts)
{
    chat_attempt_t attempt;

    memset(&attempt, 0, sizeof(attempt));
    attempt.k = k;
    attempt.worker = q->worker;
    attempt.request = q->request;
    attempt.ms = q->now;
    attempt.results = q->carries;
    attempt.described = q->carries.data != NULL;
    memcpy(attempt.signature, q->signature, 16);
    memcpy(attempt.transcript, q->transcript, 16);
    memcpy(attempt.retry_key, q->retry_key, 16);
    chat_facts_claim(facts, &attempt);
}
