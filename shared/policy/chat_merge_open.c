/*
 * chat_merge_open.c: the calls of a body that the store did not complete; see
 * chat_merge.h.
 *
 * A call that stands twice may be answered in one place only: the other takes
 * the same result. What nobody has answered anywhere can be given an error
 * that says so. Promises: no call that has a result, a decision or a promise
 * of one gets an error; time is that of a sort.
 * Must not know: stores, NGINX, wire formats.
 */

#include "policy/chat_merge.h"

#include <stdlib.h>

/* JSON text: what is said in place of a result. */
#define CHAT_OPEN_TEXT                                                       \
    "\"The outcome of this call is unknown: no result and no decision came " \
    "before the conversation went on.\""

/* How far an occurrence of a call is; the further one comes first. */
typedef enum {
    CHAT_OPEN_RESULT,  /* has a result in the body: others take it */
    CHAT_OPEN_DECIDED, /* was approved or refused: its tool may yet run */
    CHAT_OPEN_OPEN     /* nobody has answered it in the body */
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
