/*
 * chat_merge.c: see chat_merge.h.
 *
 * Makes the list of results from the reply of the store, call by call. The
 * dialect inserts them into the body. Calls without a stored result get the
 * result that the body has elsewhere, or an error.
 */

#include "policy/chat_gate.h"
#include "policy/chat_merge.h"


void
chat_results_init(chat_results_t *results, chat_arena_t *arena)
{
    memset(results, 0, sizeof(*results));
    results->arena = arena;
}


static chat_rc_e
chat_results_rc(const chat_results_t *results)
{
    return results->failed ? CHAT_ERROR : CHAT_OK;
}


/* Indexes the calls of the step by id: the item is the first of those. */
static void
chat_results_index(chat_results_t *results, const chat_request_t *rq,
                   const chat_step_t *step, chat_table_t *index)
{
    size_t              i;
    chat_table_entry_t *entry;

    chat_table_init(index, results->arena);

    for (i = step->first; i < step->first + step->count; i++) {
        entry = chat_table_put(index, rq->calls[i].id);
        if (entry == NULL) {
            results->failed = 1;
        } else if (entry->item == NULL) {
            entry->item = &rq->calls[i];
        }
    }
}


/* Makes it item i of the list. */
static void
chat_results_insert(chat_results_t *results, size_t i,
                    const chat_result_t *result)
{
    chat_result_t *last =
        chat_arena_push(results->arena, &results->items, &results->count,
                        &results->size, sizeof(*last));

    if (last == NULL) {
        results->failed = 1;
        return;
    }

    memmove(&results->items[i + 1], &results->items[i],
            (results->count - 1 - i) * sizeof(*last));
    results->items[i] = *result;
}


static void
chat_results_add(chat_results_t *results, const chat_result_t *result)
{
    chat_results_insert(results, results->count, result);
}


/*
 * Fills in what the store has for a call. Returns 0 if the store has nothing
 * that may go into the body. A stored decision replaces the body's; approvals:
 * it is also added where the body has none.
 */
static int
chat_results_fill(chat_results_t *results, chat_result_t *result,
                  const chat_member_t *member, int approvals)
{
    int                overrules;
    const chat_call_t *call = result->call;
    const chat_hash_t *fingerprint =
        call != NULL ? chat_call_fingerprint(call) : NULL;

    if (call != NULL && fingerprint == NULL) {
        results->failed = 1;
        return 0;
    }

    result->approval = member->approval;

    if (member->has_payload && chat_member_has_result(member, fingerprint)) {
        result->outcome = member->outcome;
        result->payload = member->payload;
        return 1;
    }

    overrules = call != NULL
                && chat_gate_overrules(call->outcome, call->approval, member);

    if (!(approvals || overrules) || member->approval == CHAT_APPROVAL_NONE
        || (call != NULL
            && (call->kind != CHAT_KIND_APPROVAL
                || (chat_call_is_settled(call) && !overrules))))
    {
        return 0;
    }

    result->outcome = CHAT_OUTCOME_NONE;
    result->payload = member->reason;
    return 1;
}


static void
chat_results_chained(chat_results_t *results, const chat_request_t *rq,
                     const chat_step_t *step, const chat_batch_t *batch,
                     const chat_call_t *order, size_t norder, int approvals)
{
    size_t               i;
    chat_table_t         brought;
    const chat_call_t   *own, *after = NULL;
    const chat_member_t *member;

    chat_results_index(results, rq, step, &brought);

    for (i = 0; i < norder && !results->failed; i++) {
        chat_result_t result = { .id = order[i].id };

        own = chat_table_item(&brought, order[i].id);
        after = own != NULL ? own : after;
        result.call = own;
        result.after = after;

        member = chat_batch_find(batch, order[i].id);
        if (member != NULL
            && (own == NULL
                || chat_gate_overrules(own->outcome, own->approval, member))
            && chat_results_fill(results, &result, member, approvals))
        {
            chat_results_add(results, &result);
        }
    }
}


/* Adds what the store has for one occurrence of a call in the body. */
static void
chat_results_call(chat_results_t *results, const chat_call_t *call,
                  const chat_member_t *member, int approvals)
{
    int lacks =
        chat_call_is_member(call) && !chat_outcome_is_final(call->outcome);
    chat_result_t *decided, result = { .call = call, .id = call->id };

    if (lacks && chat_results_fill(results, &result, member, approvals)) {
        chat_results_add(results, &result);
        return;
    }

    if (member->approval == CHAT_APPROVAL_NONE || !(lacks || call->undecided))
    {
        return;
    }

    decided =
        chat_arena_push(results->arena, &results->decided, &results->ndecided,
                        &results->decided_size, sizeof(*decided));
    if (decided == NULL) {
        results->failed = 1;
        return;
    }

    *decided = result;
    decided->approval = member->approval;
}


chat_rc_e
chat_results_collect(chat_results_t *results, const chat_request_t *rq,
                     const chat_step_t *step, const chat_fact_t *facts,
                     size_t n, const chat_call_t *order, size_t norder,
                     int approvals)
{
    size_t               i;
    chat_batch_t         batch;
    const chat_member_t *member;

    if (chat_batch_read(facts, n, results->arena, &batch) != CHAT_OK) {
        return CHAT_ERROR;
    }

    if (step->chain.len != 0) {
        chat_results_chained(results, rq, step, &batch, order, norder,
                             approvals);
        return chat_results_rc(results);
    }

    for (i = step->first; i < step->first + step->count; i++) {
        member = chat_batch_find(&batch, rq->calls[i].id);
        if (member != NULL) {
            chat_results_call(results, &rq->calls[i], member, approvals);
        }
    }

    return chat_results_rc(results);
}


chat_rc_e
chat_merge(const chat_dialect_t *dialect, chat_json_doc_t *doc,
           const chat_request_t *rq, const chat_results_t *results,
           chat_buf_t *out)
{
    size_t               i;
    chat_rc_e            rc;
    chat_edits_t         edits = { .arena = doc->arena };
    const chat_result_t *decided = results->decided;

    rc = chat_transcript_splice(dialect->form, doc, rq, results->items,
                                results->count, &edits);

    for (i = 0; i < results->ndecided && rc == CHAT_OK; i++) {
        if (decided[i].call->undecided) {
            rc = chat_transcript_splice(dialect->form, doc, rq, &decided[i], 1,
                                        &edits);
        }
    }

    rc = doc->failed ? CHAT_ERROR : rc;
    return rc == CHAT_OK ? chat_edits_apply(&edits, doc->text, out) : rc;
}


chat_rc_e
chat_results_injected(const chat_results_t *results, chat_results_t *injected)
{
    size_t               i;
    chat_table_t         ids;
    const chat_result_t *result;
    chat_table_entry_t  *entry;

    chat_table_init(&ids, injected->arena);

    for (i = 0; i < results->count; i++) {
        result = &results->items[i];

        if (result->call == NULL || !result->call->in_last_message
            || result->outcome == CHAT_OUTCOME_NONE || result->unknown)
        {
            continue;
        }

        entry = chat_table_put(&ids, result->id);
        if (entry == NULL) {
            return CHAT_ERROR;
        }

        if (entry->number++ == 0) {
            chat_results_add(injected, result);
        }
    }

    return chat_results_rc(injected);
}


/* JSON text in place of a result. */
#define CHAT_OPEN_TEXT                                                       \
    "\"The outcome of this call is unknown: no result and no decision came " \
    "before the conversation went on.\""

/* The state of an occurrence of a call; the furthest comes first. */
typedef enum {
    CHAT_OPEN_RESULT,  /* has a result in the body: others take it */
    CHAT_OPEN_DECIDED, /* approved or refused: its tool may still run */
    CHAT_OPEN_OPEN     /* the body has no result for it */
} chat_open_e;

/* What the store has for an occurrence. */
#define CHAT_OPEN_FILLED 1 /* a result */
#define CHAT_OPEN_SPARED 2 /* a decision */


static chat_open_e
chat_open_state(const chat_call_t *call)
{
    return !chat_call_is_settled(call)            ? CHAT_OPEN_OPEN
           : chat_outcome_is_final(call->outcome) ? CHAT_OPEN_RESULT
                                                  : CHAT_OPEN_DECIDED;
}


/* The entry that all occurrences of this call share; NULL without memory. */
static chat_table_entry_t *
chat_open_entry(const chat_call_t *call, chat_table_t *table)
{
    uint32_t           step = chat_id_is_strong(call->id) ? 0 : call->step;
    chat_buf_t         text = { 0 };
    chat_str_t         key;
    const chat_hash_t *fingerprint = chat_call_fingerprint(call);

    if (fingerprint == NULL) {
        return NULL;
    }

    chat_buf_format(&text, "%h %u %v", fingerprint->bytes, step, call->id);
    return chat_buf_move(&text, table->arena, &key) == CHAT_OK
               ? chat_table_put(table, key)
               : NULL;
}


/*
 * The entry of each call that is a member; its item is the occurrence that is
 * the furthest. NULL without memory.
 */
static chat_table_entry_t **
chat_open_entries(const chat_request_t *rq, chat_arena_t *arena)
{
    size_t               i;
    chat_table_t         ids, calls;
    const chat_call_t   *call;
    chat_table_entry_t **list;

    chat_table_init(&ids, arena);
    chat_table_init(&calls, arena);
    list = chat_arena_alloc(arena, (rq->ncalls + 1) * sizeof(*list));

    for (i = 0; list != NULL && i < rq->ncalls; i++) {
        call = &rq->calls[i];
        if (!chat_call_is_member(call) || call->bare) {
            continue;
        }

        list[i] = chat_table_put(&ids, call->id);
        if (list[i] == NULL) {
            return NULL;
        }

        list[i]->number++;
    }

    for (i = 0; list != NULL && i < rq->ncalls; i++) {
        call = &rq->calls[i];
        if (list[i] == NULL) {
            continue;
        }

        /* only calls of one id are compared by their fingerprints */
        if (list[i]->number > 1) {
            list[i] = chat_open_entry(call, &calls);
            if (list[i] == NULL) {
                return NULL;
            }
        }

        if (list[i]->item == NULL
            || chat_open_state(call) < chat_open_state(list[i]->item))
        {
            list[i]->item = (void *) call;
        }
    }

    return list;
}


/* Adds what goes into one occurrence; best: the furthest of its call. */
static void
chat_open_answer(chat_results_t *results, const chat_call_t *call,
                 const chat_call_t *best, unsigned stored, int unknown)
{
    chat_open_e   state = chat_open_state(best);
    chat_result_t result = { .call = call, .id = call->id };

    if (chat_open_state(call) == CHAT_OPEN_RESULT
        || (stored & CHAT_OPEN_FILLED) != 0)
    {
        return;
    }

    if (state == CHAT_OPEN_RESULT) {
        result.outcome = best->outcome;
        result.approval = best->approval;
        result.payload = best->payload;

    } else if (unknown && state == CHAT_OPEN_OPEN
               && (stored & CHAT_OPEN_SPARED) == 0)
    {
        result.unknown = 1;
        result.outcome = CHAT_OUTCOME_ERROR;
        result.payload = chat_cstr(CHAT_OPEN_TEXT);

    } else {
        return;
    }

    chat_results_add(results, &result);
}


chat_rc_e
chat_results_open(chat_results_t *results, const chat_request_t *rq,
                  int unknown)
{
    size_t               i, had = results->count;
    chat_rc_e            rc = CHAT_OK;
    chat_table_entry_t **entries = chat_open_entries(rq, results->arena);
    unsigned char *stored = chat_arena_alloc(results->arena, rq->ncalls + 1);

    if (entries == NULL || stored == NULL) {
        return CHAT_ERROR;
    }

    for (i = 0; i < had; i++) {
        if (results->items[i].call != NULL) {
            stored[results->items[i].call - rq->calls] |= CHAT_OPEN_FILLED;
        }
    }

    for (i = 0; i < results->ndecided; i++) {
        stored[results->decided[i].call - rq->calls] |= CHAT_OPEN_SPARED;
    }

    for (i = 0; i < rq->ncalls && rc == CHAT_OK; i++) {
        if (entries[i] != NULL) {
            chat_open_answer(results, &rq->calls[i], entries[i]->item,
                             stored[i], unknown);
        }

        rc = results->count - had > CHAT_OPEN_MAX ? CHAT_LIMIT
                                                  : chat_results_rc(results);
    }

    if (rc != CHAT_OK) {
        results->count = had;
    }

    return rc;
}


chat_rc_e
chat_results_open_chain(chat_results_t *results, const chat_request_t *rq,
                        const chat_step_t *step, const chat_call_t *order,
                        size_t norder)
{
    size_t             i, at = 0;
    chat_table_t       brought;
    const chat_call_t *own, *after = NULL;

    chat_results_index(results, rq, step, &brought);

    for (i = 0; i < norder && !results->failed; i++) {
        chat_result_t error = { .id = order[i].id,
                                .unknown = 1,
                                .payload = chat_cstr(CHAT_OPEN_TEXT) };

        own = chat_table_item(&brought, order[i].id);
        if (own != NULL) {
            after = own;
            continue;
        }

        while (at < results->count && results->items[at].call != NULL) {
            at++;
        }

        if (at < results->count
            && chat_str_eq(results->items[at].id, order[i].id)) {
            at++;

        } else if (order[i].approval == CHAT_APPROVAL_NONE
                   && !order[i].delivered
                   && order[i].kind != CHAT_KIND_PROVIDER)
        {
            error.after = after;

            /* an approval is refused: that is its error */
            if (order[i].kind == CHAT_KIND_APPROVAL) {
                error.approval = CHAT_APPROVAL_REFUSED;
            } else {
                error.outcome = CHAT_OUTCOME_ERROR;
            }

            chat_results_insert(results, at++, &error);
        }
    }

    return chat_results_rc(results);
}
