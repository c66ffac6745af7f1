/*
 * chat_merge.c: see chat_merge.h.
 *
 * The list of results is made from what a store answered, call by call, and
 * given to the dialect, which knows where in a body they go.
 * Must not know: stores, NGINX, wire formats.
 */

#include "chat_merge.h"


void
chat_results_init(chat_results_t *results, chat_arena_t *arena)
{
    memset(results, 0, sizeof(*results));
    results->arena = arena;
}


/* Adds to a list that grows in the arena by doubling. */
static chat_rc_e
chat_results_push(chat_arena_t *arena, chat_result_t **items, size_t *count,
                  const chat_result_t *result)
{
    size_t         n = *count;
    chat_result_t *bigger;

    if ((n & (n - 1)) == 0) {
        bigger = chat_arena_alloc(arena, (n ? 2 * n : 1) * sizeof(*bigger));
        if (bigger == NULL) {
            return CHAT_ERROR;
        }
        if (n != 0) {
            memcpy(bigger, *items, n * sizeof(*bigger));
        }
        *items = bigger;
    }

    (*items)[(*count)++] = *result;
    return CHAT_OK;
}


chat_rc_e
chat_results_add(chat_results_t *results, const chat_result_t *result)
{
    return chat_results_push(results->arena, &results->items, &results->count,
                             result);
}


/* The payload of the fact prefix<id>. */
static chat_str_t
chat_results_payload(const chat_fact_t *facts, size_t n, const char *prefix,
                     chat_str_t id)
{
    size_t i, len = strlen(prefix);

    for (i = 0; i < n; i++) {
        if (chat_str_starts(facts[i].field, prefix)
            && chat_str_eq(
                chat_str(facts[i].field.data + len, facts[i].field.len - len),
                id))
        {
            return facts[i].payload;
        }
    }

    return chat_str(NULL, 0);
}


/* What the store has for one call; 0 if nothing that may go into it. */
static int
chat_results_fill(chat_result_t *result, const chat_member_t *member,
                  const chat_fact_t *facts, size_t n, int approvals)
{
    static const unsigned char unknown[16] = { 0 };

    result->approval = member->approval;

    if (member->outcome != CHAT_OUTCOME_NONE && member->has_payload
        && (result->call == NULL || memcmp(member->answered, unknown, 16) == 0
            || memcmp(member->answered, result->call->fingerprint.bytes, 16)
                   == 0))
    {
        result->outcome = member->outcome;
        result->payload =
            chat_results_payload(facts, n, "result/", result->id);
        return 1;
    }

    if (!approvals || member->approval == CHAT_APPROVAL_NONE
        || (result->call != NULL
            && (result->call->kind != CHAT_KIND_APPROVAL
                || chat_call_is_settled(result->call))))
    {
        return 0;
    }

    result->outcome = CHAT_OUTCOME_NONE;
    result->payload = chat_results_payload(facts, n, "approval/", result->id);
    return 1;
}


/* The body's own result of this id in a chained step, or NULL. */
static const chat_call_t *
chat_results_brought(const chat_request_t *rq, const chat_step_t *step,
                     chat_str_t id)
{
    size_t i;

    for (i = step->first; i < step->first + step->count; i++) {
        if (chat_str_eq(rq->calls[i].id, id)) {
            return &rq->calls[i];
        }
    }

    return NULL;
}


static chat_rc_e
chat_results_chained(chat_results_t *results, const chat_request_t *rq,
                     const chat_step_t *step, const chat_batch_t *batch,
                     const chat_fact_t *facts, size_t n,
                     const chat_call_t *order, size_t norder, int approvals)
{
    size_t               i;
    chat_result_t        result;
    const chat_call_t   *own, *after = NULL;
    const chat_member_t *member;

    for (i = 0; i < norder; i++) {
        own = chat_results_brought(rq, step, order[i].id);
        if (own != NULL) {
            after = own;
            continue;
        }

        member = chat_batch_find(batch, order[i].id);
        if (member == NULL) {
            continue;
        }

        memset(&result, 0, sizeof(result));
        result.id = order[i].id;
        result.after = after;

        if (chat_results_fill(&result, member, facts, n, approvals)
            && chat_results_add(results, &result) != CHAT_OK)
        {
            return CHAT_ERROR;
        }
    }

    return CHAT_OK;
}


/* What the store has for one occurrence of a call in the body. */
static chat_rc_e
chat_results_call(chat_results_t *results, const chat_call_t *call,
                  const chat_member_t *member, const chat_fact_t *facts,
                  size_t n, int approvals)
{
    int           lacks;
    chat_result_t result;

    memset(&result, 0, sizeof(result));
    result.call = call;
    result.id = call->id;

    lacks = chat_call_is_member(call)
            && (call->outcome == CHAT_OUTCOME_NONE
                || call->outcome == CHAT_OUTCOME_PARTIAL);

    if (lacks && chat_results_fill(&result, member, facts, n, approvals)) {
        return chat_results_add(results, &result);
    }

    if (member->approval == CHAT_APPROVAL_NONE || !(lacks || call->undecided))
    {
        return CHAT_OK;
    }

    result.approval = member->approval;
    return chat_results_push(results->arena, &results->decided,
                             &results->ndecided, &result);
}


chat_rc_e
chat_results_collect(chat_results_t *results, const chat_request_t *rq,
                     const chat_step_t *step, const chat_fact_t *facts,
                     size_t n, const chat_call_t *order, size_t norder,
                     int approvals)
{
    size_t               i;
    chat_rc_e            rc;
    chat_batch_t         batch;
    const chat_member_t *member;

    rc = chat_batch_read(facts, n, results->arena, &batch);
    if (rc != CHAT_OK) {
        return rc;
    }

    if (step->chain.len != 0) {
        return chat_results_chained(results, rq, step, &batch, facts, n, order,
                                    norder, approvals);
    }

    for (i = step->first; i < step->first + step->count; i++) {
        member = chat_batch_find(&batch, rq->calls[i].id);

        if (member != NULL
            && chat_results_call(results, &rq->calls[i], member, facts, n,
                                 approvals)
                   != CHAT_OK)
        {
            return CHAT_ERROR;
        }
    }

    return CHAT_OK;
}


/* What was decided of a settled call, for dialect->mend(). */
static chat_approval_e
chat_results_decided(void *data, chat_str_t id)
{
    size_t                i;
    const chat_results_t *results = data;

    for (i = 0; i < results->ndecided; i++) {
        if (chat_str_eq(results->decided[i].id, id)) {
            return results->decided[i].approval;
        }
    }

    return CHAT_APPROVAL_NONE;
}


chat_rc_e
chat_merge(const chat_dialect_t *dialect, chat_json_doc_t *doc,
           const chat_request_t *rq, const chat_results_t *results,
           chat_buf_t *out)
{
    chat_rc_e    rc;
    chat_edits_t edits;

    chat_edits_init(&edits, doc->arena);

    rc = dialect->splice(doc, rq, results->items, results->count, &edits);
    if (rc == CHAT_OK && dialect->mend != NULL && results->ndecided != 0) {
        rc = dialect->mend(doc, rq, chat_results_decided, (void *) results,
                           &edits);
    }

    if (rc != CHAT_OK) {
        return rc;
    }

    return chat_edits_apply(&edits, doc->text, out);
}


chat_rc_e
chat_results_told(const chat_results_t *results, chat_results_t *told)
{
    size_t               i, k;
    const chat_result_t *result;

    for (i = 0; i < results->count; i++) {
        result = &results->items[i];

        if (result->call == NULL || !result->call->in_last_message
            || result->outcome == CHAT_OUTCOME_NONE || result->unknown)
        {
            continue;
        }

        for (k = 0; k < told->count; k++) {
            if (chat_str_eq(told->items[k].id, result->id)) {
                break;
            }
        }

        if (k == told->count && chat_results_add(told, result) != CHAT_OK) {
            return CHAT_ERROR;
        }
    }

    return CHAT_OK;
}
