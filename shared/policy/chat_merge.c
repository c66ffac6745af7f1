/*
 * chat_merge.c: see chat_merge.h.
 *
 * The list of results is made from what a store answered, call by call, and
 * given to the dialect, which knows where in a body they go. Calls that stay
 * open take the answer that the body has elsewhere, or an error.
 * Must not know: stores, NGINX, wire formats.
 */

#include "policy/chat_merge.h"
#include <stdlib.h>


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
chat_results_brought(const chat_request_t *rq, const chat_step_t *step,
                     chat_arena_t *arena, chat_twins_t *brought)
{
    size_t i;

    chat_twins_init(brought, arena);

    for (i = 0; i < step->count; i++) {
        if (chat_twins_add(brought, rq->calls[step->first + i].id, 0)
            != CHAT_OK) {
            return CHAT_ERROR;
        }
    }

    return CHAT_OK;
}


chat_rc_e
chat_results_add(chat_results_t *results, const chat_result_t *result)
{
    return chat_results_push(results->arena, &results->items, &results->count,
                             result);
}


/* The facts of a step by their fields. */
typedef struct {
    const chat_fact_t *items;
    size_t             count;
    chat_twins_t       fields;
} chat_results_facts_t;


static chat_rc_e
chat_results_facts(chat_results_facts_t *facts, const chat_fact_t *items,
                   size_t n, chat_arena_t *arena)
{
    size_t i;

    facts->items = items;
    facts->count = n;
    chat_twins_init(&facts->fields, arena);

    for (i = 0; i < n; i++) {
        if (chat_twins_add(&facts->fields, items[i].field, 0) != CHAT_OK) {
            return CHAT_ERROR;
        }
    }

    return CHAT_OK;
}


/* The payload of the fact prefix<id>; no field is longer than the buffer. */
static chat_str_t
chat_results_payload(const chat_results_facts_t *facts, const char *prefix,
                     chat_str_t id)
{
    size_t        i, len = strlen(prefix);
    unsigned char field[CHAT_ID_MAX + 16];

    if (id.len > CHAT_ID_MAX) {
        return chat_str(NULL, 0);
    }

    memcpy(field, prefix, len);
    if (id.len != 0) {
        memcpy(field + len, id.data, id.len);
    }

    i = chat_twins_first(&facts->fields, chat_str(field, len + id.len));

    return i != CHAT_TWINS_NONE ? facts->items[i].payload : chat_str(NULL, 0);
}


/* 1 if the body has decided a call otherwise than the store. */
static int
chat_results_overrules(const chat_call_t *call, const chat_member_t *member)
{
    return call->outcome == CHAT_OUTCOME_NONE
           && chat_approval_is_decided(call->approval)
           && member->approval != CHAT_APPROVAL_NONE
           && member->approval != call->approval;
}


/*
 * What the store has for one call; 0 if nothing that may go into it. A stored
 * decision takes the place of another one; approvals: it is added, too.
 */
static int
chat_results_fill(chat_result_t *result, const chat_member_t *member,
                  const chat_results_facts_t *facts, int approvals)
{
    int                        overrules;
    static const unsigned char unknown[16] = { 0 };

    result->approval = member->approval;

    if (member->outcome != CHAT_OUTCOME_NONE && member->has_payload
        && (result->call == NULL || memcmp(member->answered, unknown, 16) == 0
            || memcmp(member->answered, result->call->fingerprint.bytes, 16)
                   == 0))
    {
        result->outcome = member->outcome;
        result->payload = chat_results_payload(facts, "result/", result->id);
        return 1;
    }

    overrules =
        result->call != NULL && chat_results_overrules(result->call, member);

    if (!(approvals || overrules) || member->approval == CHAT_APPROVAL_NONE
        || (result->call != NULL
            && (result->call->kind != CHAT_KIND_APPROVAL
                || (chat_call_is_settled(result->call) && !overrules))))
    {
        return 0;
    }

    result->outcome = CHAT_OUTCOME_NONE;
    result->payload = chat_results_payload(facts, "approval/", result->id);
    return 1;
}


static chat_rc_e
chat_results_chained(chat_results_t *results, const chat_request_t *rq,
                     const chat_step_t *step, const chat_batch_t *batch,
                     const chat_results_facts_t *facts,
                     const chat_call_t *order, size_t norder, int approvals)
{
    size_t               i, at;
    chat_result_t        result;
    chat_twins_t         brought;
    const chat_call_t   *own, *after = NULL;
    const chat_member_t *member;

    if (chat_results_brought(rq, step, results->arena, &brought) != CHAT_OK) {
        return CHAT_ERROR;
    }

    for (i = 0; i < norder; i++) {
        at = chat_twins_first(&brought, order[i].id);
        own = at != CHAT_TWINS_NONE ? &rq->calls[step->first + at] : NULL;
        after = own != NULL ? own : after;

        member = chat_batch_find(batch, order[i].id);
        if (member == NULL
            || (own != NULL && !chat_results_overrules(own, member))) {
            continue;
        }

        memset(&result, 0, sizeof(result));
        result.call = own;
        result.id = order[i].id;
        result.after = after;

        if (chat_results_fill(&result, member, facts, approvals)
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
                  const chat_member_t        *member,
                  const chat_results_facts_t *facts, int approvals)
{
    int           lacks;
    chat_result_t result;

    memset(&result, 0, sizeof(result));
    result.call = call;
    result.id = call->id;

    lacks = chat_call_is_member(call)
            && (call->outcome == CHAT_OUTCOME_NONE
                || call->outcome == CHAT_OUTCOME_PARTIAL);

    if (lacks && chat_results_fill(&result, member, facts, approvals)) {
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
    chat_results_facts_t index;
    const chat_member_t *member;

    rc = chat_batch_read(facts, n, results->arena, &batch);

    if (rc == CHAT_OK) {
        rc = chat_results_facts(&index, facts, n, results->arena);
    }

    if (rc != CHAT_OK) {
        return rc;
    }

    if (step->chain.len != 0) {
        return chat_results_chained(results, rq, step, &batch, &index, order,
                                    norder, approvals);
    }

    for (i = step->first; i < step->first + step->count; i++) {
        member = chat_batch_find(&batch, rq->calls[i].id);

        if (member != NULL
            && chat_results_call(results, &rq->calls[i], member, &index,
                                 approvals)
                   != CHAT_OK)
        {
            return CHAT_ERROR;
        }
    }

    return CHAT_OK;
}


/* What was decided of settled calls, for dialect->mend(). */
typedef struct {
    const chat_results_t *results;
    chat_twins_t          ids; /* of results->decided */
} chat_results_decided_t;


static chat_approval_e
chat_results_decided(void *data, chat_str_t id)
{
    size_t                        i;
    const chat_results_decided_t *decided = data;

    i = chat_twins_first(&decided->ids, id);

    return i != CHAT_TWINS_NONE ? decided->results->decided[i].approval
                                : CHAT_APPROVAL_NONE;
}


static chat_rc_e
chat_results_mend(const chat_dialect_t *dialect, chat_json_doc_t *doc,
                  const chat_request_t *rq, const chat_results_t *results,
                  chat_edits_t *edits)
{
    size_t                 i;
    chat_results_decided_t decided;

    if (dialect->mend == NULL || results->ndecided == 0) {
        return CHAT_OK;
    }

    decided.results = results;
    chat_twins_init(&decided.ids, doc->arena);

    for (i = 0; i < results->ndecided; i++) {
        if (chat_twins_add(&decided.ids, results->decided[i].id, 0) != CHAT_OK)
        {
            return CHAT_ERROR;
        }
    }

    return dialect->mend(doc, rq, chat_results_decided, &decided, edits);
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
    if (rc == CHAT_OK) {
        rc = chat_results_mend(dialect, doc, rq, results, &edits);
    }

    if (rc != CHAT_OK) {
        return rc;
    }

    return chat_edits_apply(&edits, doc->text, out);
}


chat_rc_e
chat_results_told(const chat_results_t *results, chat_results_t *told)
{
    size_t               i;
    chat_table_t         ids;
    const chat_result_t *result;
    chat_table_entry_t  *entry;

    chat_table_init(&ids, told->arena);

    for (i = 0; i < told->count; i++) {
        entry = chat_table_put(&ids, told->items[i].id);
        if (entry == NULL) {
            return CHAT_ERROR;
        }
        entry->number = 1;
    }

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

        if (entry->number++ == 0 && chat_results_add(told, result) != CHAT_OK)
        {
            return CHAT_ERROR;
        }
    }

    return CHAT_OK;
}


/* JSON text: what is said in place of a result. */
#define CHAT_OPEN_TEXT                                                       \
    "\"The outcome of this call is unknown: no result and no decision came " \
    "before the conversation went on.\""

/* How far an occurrence of a call is; the further one comes first. */
typedef enum {
    CHAT_OPEN_RESULT,  /* has a result in the body: others take it */
    CHAT_OPEN_DECIDED, /* was approved or refused: its tool may yet run */
    CHAT_OPEN_OPEN     /* the body has no result for it */
} chat_open_e;

/* One occurrence. */
typedef struct {
    const chat_call_t *call;
    uint32_t           step; /* where its id is weak, else 0 */
    chat_open_e        state;
} chat_open_t;

/* What is known of an occurrence beside the body, by its index. */
#define CHAT_OPEN_FILLED 1 /* gets a result from the store */
#define CHAT_OPEN_SPARED 2 /* the store has a decision */


/* 1 if two occurrences are of the same call. */
static int
chat_open_same(const chat_open_t *a, const chat_open_t *b)
{
    return a->step == b->step && chat_str_eq(a->call->id, b->call->id)
           && chat_fingerprint_eq(&a->call->fingerprint,
                                  &b->call->fingerprint);
}


/* Brings the occurrences of a call together, the answered ones first. */
static int
chat_open_compare(const void *one, const void *two)
{
    int                rc;
    const chat_open_t *a = one;
    const chat_open_t *b = two;

    rc = chat_str_compare(a->call->id, b->call->id);
    if (rc == 0) {
        rc =
            memcmp(a->call->fingerprint.bytes, b->call->fingerprint.bytes, 16);
    }

    if (rc != 0) {
        return rc;
    }

    if (a->step != b->step) {
        return a->step < b->step ? -1 : 1;
    }

    if (a->state != b->state) {
        return a->state < b->state ? -1 : 1;
    }

    return a->call < b->call ? -1 : a->call > b->call;
}


/* All occurrences of members, sorted; *n of them. NULL without memory. */
static chat_open_t *
chat_open_list(const chat_request_t *rq, chat_arena_t *arena, size_t *n)
{
    size_t             i;
    chat_open_t       *list, *open;
    const chat_call_t *call;

    *n = 0;
    list = chat_arena_alloc(arena, (rq->ncalls + 1) * sizeof(*list));

    for (i = 0; list != NULL && i < rq->ncalls; i++) {
        call = &rq->calls[i];

        if (!chat_call_is_member(call) || call->bare) {
            continue;
        }

        open = &list[(*n)++];
        open->call = call;
        open->step = chat_id_is_strong(call->id) ? 0 : call->step;
        open->state = !chat_call_is_settled(call) ? CHAT_OPEN_OPEN
                      : call->outcome == CHAT_OUTCOME_NONE
                              || call->outcome == CHAT_OUTCOME_PARTIAL
                          ? CHAT_OPEN_DECIDED
                          : CHAT_OPEN_RESULT;
    }

    if (*n > 1) {
        qsort(list, *n, sizeof(*list), chat_open_compare);
    }

    return list;
}


/* What the store has said of each call of the body. */
static unsigned char *
chat_open_marks(const chat_results_t *results, const chat_request_t *rq)
{
    size_t         i;
    unsigned char *marks;

    marks = chat_arena_alloc(results->arena, rq->ncalls + 1);
    if (marks == NULL) {
        return NULL;
    }

    for (i = 0; i < results->count; i++) {
        if (results->items[i].call != NULL) {
            marks[results->items[i].call - rq->calls] |= CHAT_OPEN_FILLED;
        }
    }

    for (i = 0; i < results->ndecided; i++) {
        marks[results->decided[i].call - rq->calls] |= CHAT_OPEN_SPARED;
    }

    return marks;
}


/* What goes into one occurrence; twin is the best of its kind. */
static chat_rc_e
chat_open_answer(chat_results_t *results, const chat_open_t *open,
                 const chat_open_t *twin, int mark, int unknown)
{
    chat_result_t result;

    if (open->state == CHAT_OPEN_RESULT || (mark & CHAT_OPEN_FILLED)) {
        return CHAT_OK;
    }

    memset(&result, 0, sizeof(result));
    result.call = open->call;
    result.id = open->call->id;

    if (twin->state == CHAT_OPEN_RESULT) {
        result.outcome = twin->call->outcome;
        result.approval = twin->call->approval;
        result.payload = twin->call->payload;

    } else if (unknown && twin->state == CHAT_OPEN_OPEN
               && !(mark & CHAT_OPEN_SPARED))
    {
        result.unknown = 1;
        result.outcome = CHAT_OUTCOME_ERROR;
        result.payload = chat_cstr(CHAT_OPEN_TEXT);

    } else {
        return CHAT_OK;
    }

    return chat_results_add(results, &result);
}


chat_rc_e
chat_results_open(chat_results_t *results, const chat_request_t *rq,
                  int unknown)
{
    size_t         i, n, had = results->count;
    chat_rc_e      rc = CHAT_OK;
    chat_open_t   *list, *twin;
    unsigned char *marks;

    list = chat_open_list(rq, results->arena, &n);
    marks = chat_open_marks(results, rq);
    if (list == NULL || marks == NULL) {
        return CHAT_ERROR;
    }

    for (i = 0, twin = list; i < n && rc == CHAT_OK; i++) {
        if (!chat_open_same(&list[i], twin)) {
            twin = &list[i];
        }

        rc = chat_open_answer(results, &list[i], twin,
                              marks[list[i].call - rq->calls], unknown);

        if (rc == CHAT_OK && results->count - had > CHAT_OPEN_MAX) {
            rc = CHAT_LIMIT;
        }
    }

    if (rc != CHAT_OK) {
        results->count = had;
    }

    return rc;
}


/* What the store has for this call of a chain, or else the error. */
static chat_result_t
chat_open_chained(const chat_results_t *results, const chat_twins_t *stored,
                  const chat_call_t *call, const chat_call_t *after)
{
    size_t        i = chat_twins_first(stored, call->id);
    chat_result_t result;

    if (i != CHAT_TWINS_NONE) {
        return results->items[i];
    }

    memset(&result, 0, sizeof(result));
    result.id = call->id;
    result.after = after;
    result.unknown = 1;
    result.payload = chat_cstr(CHAT_OPEN_TEXT);

    /* where the call is not there to become an error, no is the answer */
    if (call->kind == CHAT_KIND_APPROVAL) {
        result.approval = CHAT_APPROVAL_REFUSED;
    } else {
        result.outcome = CHAT_OUTCOME_ERROR;
    }

    return result;
}


/*
 * 1 if a call of a chain must get no error: it was decided, or the provider
 * has its result.
 */
static int
chat_open_spared(const chat_call_t *call)
{
    return call->approval != CHAT_APPROVAL_NONE || call->delivered;
}


chat_rc_e
chat_results_open_chain(chat_results_t *results, const chat_request_t *rq,
                        const chat_step_t *step, const chat_call_t *order,
                        size_t norder)
{
    size_t             i, own;
    chat_twins_t       stored, brought;
    chat_result_t      result;
    chat_results_t     all;
    const chat_call_t *after = NULL;

    chat_results_init(&all, results->arena);
    all.decided = results->decided;
    all.ndecided = results->ndecided;

    chat_twins_init(&stored, results->arena);

    for (i = 0; i < results->count; i++) {
        if (chat_twins_add(&stored, results->items[i].id,
                           results->items[i].call != NULL)
                != CHAT_OK
            || (results->items[i].call != NULL
                && chat_results_add(&all, &results->items[i]) != CHAT_OK))
        {
            return CHAT_ERROR;
        }
    }

    if (chat_results_brought(rq, step, results->arena, &brought) != CHAT_OK) {
        return CHAT_ERROR;
    }

    for (i = 0; i < norder; i++) {
        own = chat_twins_first(&brought, order[i].id);
        if (own != CHAT_TWINS_NONE) {
            after = &rq->calls[step->first + own];
            continue;
        }

        result = chat_open_chained(results, &stored, &order[i], after);

        if (order[i].kind == CHAT_KIND_PROVIDER
            || (result.unknown && chat_open_spared(&order[i])))
        {
            continue;
        }

        if (chat_results_add(&all, &result) != CHAT_OK) {
            return CHAT_ERROR;
        }
    }

    *results = all;
    return CHAT_OK;
}
