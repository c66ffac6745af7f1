/*
 * gate_run.h: the base of the gate's tests: a store of facts in memory,
 * requests made of a few characters, and the same steps as nginx.
 *
 * A request's call is a letter, its id, and a sign: a+ has a result, a=
 * another one, a- an error, a! a denial, a. nothing, a~ a preliminary output,
 * a? waits for an approval, a^ was approved, a# refused, a% is the provider's;
 * a ' after it gives it other arguments. Workers are named as their requests.
 */

#ifndef GATE_RUN_H
#define GATE_RUN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "attempt_facts.h"
#include "policy/chat_gate.h"
#include "../tenant.h"

#define STORE_MAX 512

/* Facts, put if absent. */
typedef struct {
    chat_arena_t *arena;
    chat_fact_t   facts[STORE_MAX];
    size_t        count;
} store_t;

/* A request and its state in nginx. */
typedef struct {
    chat_arena_t   *arena;
    chat_request_t  rq;
    chat_question_t q;
    chat_decision_t d;
    uint32_t        claiming; /* its own attempt */
    int             at_once; /* its first join may claim with stored results */
    size_t          members;
    chat_call_t    *known; /* a chain's calls, as last read */
    size_t          nknown;
} asker_t;

static store_t store;
static char    dead[64]; /* dead workers, a letter each */


/* Puts one fact; 1 if anything was new. */
static inline int
store_put(const chat_fact_t *fact)
{
    size_t       i;
    chat_fact_t *stands;

    for (i = 0; i < store.count; i++) {
        stands = &store.facts[i];

        if (!chat_str_eq(stands->field, fact->field)) {
            continue;
        }

        if (stands->has_payload || !fact->has_payload
            || !chat_str_eq(stands->value, fact->value))
        {
            return 0;
        }

        stands->has_payload = 1;
        assert_int_equal(
            chat_arena_dup(store.arena, fact->payload, &stands->payload),
            CHAT_OK);
        return 1;
    }

    assert_true(store.count < STORE_MAX);
    stands = &store.facts[store.count++];
    memset(stands, 0, sizeof(*stands));
    stands->has_payload = fact->has_payload;

    assert_int_equal(chat_arena_dup(store.arena, fact->field, &stands->field),
                     CHAT_OK);
    assert_int_equal(chat_arena_dup(store.arena, fact->value, &stands->value),
                     CHAT_OK);
    assert_int_equal(
        chat_arena_dup(store.arena, fact->payload, &stands->payload), CHAT_OK);
    return 1;
}


/* Puts all of them; returns how many were new. */
static inline int
store_join(const chat_facts_t *facts)
{
    int    news = 0;
    size_t i;

    assert_false(facts->failed);

    for (i = 0; i < facts->count; i++) {
        news += store_put(&facts->items[i]);
    }

    return news;
}


static inline void
store_begin(void)
{
    if (store.arena == NULL) {
        store.arena = chat_arena_create(0);
        assert_non_null(store.arena);
    }

    chat_arena_reset(store.arena);
    store.count = 0;
    memset(dead, 0, sizeof(dead));
}


/* The store is available again, and empty. */
static inline void
store_lose(void)
{
    chat_arena_reset(store.arena);
    store.count = 0;
}


static inline void
store_end(void)
{
    chat_arena_destroy(store.arena);
    store.arena = NULL;
}


static inline int
worker_alive(void *data, chat_str_t worker)
{
    return worker.len == 1 && strchr(dead, worker.data[0]) == NULL;
}


/* Adds the call of a token such as a+ to the request's last step. */
static inline void
asker_call(asker_t *a, const char *token)
{
    int          other = token[2] == '\'';
    chat_call_t *call = chat_request_add_call(&a->rq, a->arena);

    assert_non_null(call);
    assert_int_equal(chat_arena_dup(a->arena, chat_str(token, 1), &call->id),
                     CHAT_OK);

    call->ready = 1;
    call->bare = (unsigned) a->rq.chained & 1;
    call->kind = strchr("?^#", token[1]) ? CHAT_KIND_APPROVAL
                 : token[1] == '%'       ? CHAT_KIND_PROVIDER
                                         : CHAT_KIND_CLIENT;
    call->approval = token[1] == '?'   ? CHAT_APPROVAL_ASKED
                     : token[1] == '^' ? CHAT_APPROVAL_GRANTED
                     : token[1] == '#' ? CHAT_APPROVAL_REFUSED
                                       : CHAT_APPROVAL_NONE;
    call->outcome = strchr("+=", token[1]) ? CHAT_OUTCOME_OK
                    : token[1] == '-'      ? CHAT_OUTCOME_ERROR
                    : token[1] == '!'      ? CHAT_OUTCOME_DENIED
                    : token[1] == '~'      ? CHAT_OUTCOME_PARTIAL
                                           : CHAT_OUTCOME_NONE;

    if (!a->rq.chained) {
        call->fingerprint = test_hash(chat_str(other ? "'" : token, 1));
    }

    if (call->outcome != CHAT_OUTCOME_NONE) {
        call->payload = call->id;
        call->digest =
            test_hash(token[1] == '=' ? chat_cstr("other") : call->id);
    }
}


/* The time of their nginx. */
static uint64_t now = 1700000000000;


/* Makes the question of a request; name is its worker's and its own. */
static inline void
asker_open(asker_t *a, const chat_dialect_t *dialect, char name)
{
    char text[2] = { name, 0 };

    assert_int_equal(chat_gate_question(dialect, &a->rq, 128, a->arena, &a->q),
                     CHAT_OK);
    assert_int_equal(chat_arena_dup(a->arena, chat_cstr(text), &a->q.worker),
                     CHAT_OK);
    a->q.request = a->q.worker;
    a->q.now = now;
    a->members = a->q.nmembers;
}


static inline void
asker_begin(asker_t *a)
{
    memset(a, 0, sizeof(*a));
    a->arena = chat_arena_create(0);
    assert_non_null(a->arena);
    a->rq.class = CHAT_CLASS_CONTINUATION;
    a->rq.answers = 1;
    a->rq.signature[15] = 1;
    assert_non_null(chat_request_add_step(&a->rq, a->arena));
}


static inline void
asker_end(asker_t *a)
{
    chat_arena_destroy(a->arena);
    memset(a, 0, sizeof(*a));
}


/* 1 if the store has a payload for each of these fields. */
static inline int
store_has(const chat_needs_t *needs)
{
    size_t i, k, found = 0;

    for (i = 0; i < needs->nfields; i++) {
        for (k = 0; k < store.count; k++) {
            found += store.facts[k].has_payload
                     && chat_str_eq(store.facts[k].field, needs->fields[i]);
        }
    }

    return found == needs->nfields;
}


/* The first join. */
static inline int
asker_join(asker_t *a)
{
    size_t       dropped;
    chat_facts_t facts;
    chat_needs_t needs = { 0 };

    chat_facts_init(&facts, a->arena);
    dropped = chat_gate_facts(&a->q, &a->rq, 0, 1024, &facts);
    assert_int_equal(dropped, 0);

    if (!a->q.complete && !a->q.chained) {
        chat_facts_add(&facts, "partial", chat_cstr("1"));
    }

    if ((a->q.complete || a->at_once)
        && chat_gate_claims_first(&a->q, a->arena, &needs)
        && store_has(&needs))
    {
        a->claiming = 1;
        chat_gate_claim(&a->q, 1, &facts);
    }

    return store_join(&facts);
}


/* What must hold for every decision in any test. */
static inline void
asker_check(const asker_t *a, const chat_batch_t *batch)
{
    chat_needs_t needs;

    assert_int_equal(chat_gate_needs(&a->q, batch, a->arena, &needs), CHAT_OK);

    if (a->d.verdict == CHAT_GATE_GO || a->d.verdict == CHAT_GATE_CLAIM) {
        assert_int_equal(needs.nmissing, 0);
        assert_int_equal(a->d.missing, 0);
        assert_int_equal(a->d.merge != 0, needs.nfields != 0);
    }
}


/* Keeps the calls of a chain, which the body does not contain. */
static inline void
asker_knows(asker_t *a, const chat_batch_t *batch)
{
    size_t               i;
    chat_call_t         *call;
    const chat_member_t *member;

    if (!a->q.chained || batch->nmembers <= a->nknown) {
        return;
    }

    a->nknown = 0;
    a->known = chat_arena_alloc(a->arena, batch->nmembers * sizeof(*call));
    assert_non_null(a->known);

    for (i = 0; i < batch->nmembers; i++) {
        member = &batch->members[i];
        if (!member->is_call) {
            continue;
        }

        call = &a->known[a->nknown++];
        call->kind = member->kind;
        call->fingerprint = member->fingerprint;
        assert_int_equal(chat_arena_dup(a->arena, member->id, &call->id),
                         CHAT_OK);
    }
}


/* Reads the store and decides, as a look of nginx does. */
static inline void
asker_look(asker_t *a)
{
    int             mine;
    chat_facts_t    facts;
    chat_batch_t    batch;
    chat_question_t before = a->q;

    assert_int_equal(
        chat_batch_read(store.facts, store.count, a->arena, &batch), CHAT_OK);
    a->q.now = now;
    chat_gate_decide(&a->q, &batch, worker_alive, NULL, &a->d);
    if (a->d.verdict == CHAT_GATE_AGAIN) {
        chat_gate_decide(&a->q, &batch, worker_alive, NULL, &a->d);
    }

    mine = batch.last.k != 0 && !batch.last.is_void
           && chat_str_eq(batch.last.worker, a->q.worker)
           && chat_str_eq(batch.last.request, a->q.request);
    a->claiming = mine ? batch.last.k : 0;

    assert_int_equal(before.nmembers, a->q.nmembers);
    asker_check(a, &batch);
    asker_knows(a, &batch);

    if (a->d.twin) {
        chat_facts_init(&facts, a->arena);
        chat_facts_twin(&facts, a->q.worker, a->q.request, a->q.content.bytes,
                        a->q.retry);
        (void) store_join(&facts);
    }
}


static inline void
asker_claim(asker_t *a)
{
    chat_facts_t facts;

    assert_int_equal(a->d.verdict, CHAT_GATE_CLAIM);
    chat_facts_init(&facts, a->arena);
    chat_gate_claim(&a->q, a->d.k, &facts);
    (void) store_join(&facts);
}


static inline int
asker_void(asker_t *a)
{
    int          news;
    chat_facts_t facts;

    if (a->claiming == 0) {
        return 0;
    }

    chat_facts_init(&facts, a->arena);
    chat_facts_void(&facts, a->claiming, a->q.worker, a->q.request);
    news = store_join(&facts);
    a->claiming = 0;
    return news;
}


/* Records that the batch was seen incomplete, and the request's results. */
static inline int
asker_tell(asker_t *a)
{
    chat_facts_t facts;

    chat_facts_init(&facts, a->arena);
    chat_facts_add(&facts, "partial", chat_cstr("1"));

    if (a->q.complete && !a->q.chained) {
        (void) chat_gate_facts(&a->q, &a->rq, 1, 1024, &facts);
    }

    return store_join(&facts);
}


/* 1 if the store has lost facts that this request relies on. */
static inline int
asker_lost(const asker_t *a)
{
    chat_batch_t batch;

    assert_int_equal(
        chat_batch_read(store.facts, store.count, a->arena, &batch), CHAT_OK);
    return chat_gate_lost(&a->q, &batch);
}


/* The watch of this request's worker. */
static inline int
asker_watch(asker_t *a)
{
    char         field[8] = "wait/";
    chat_facts_t facts;

    field[5] = (char) a->q.worker.data[0];
    chat_facts_init(&facts, a->arena);
    chat_facts_add(&facts, field, chat_cstr("1"));
    return store_join(&facts);
}


/*
 * Replays this request's results and known facts to a store that lost its
 * data.
 */
static inline int
asker_rejoin(asker_t *a)
{
    chat_facts_t facts;

    chat_facts_init(&facts, a->arena);
    (void) chat_gate_facts(&a->q, &a->rq, 1, 1024, &facts);
    chat_gate_rejoin(&a->q, a->known, a->nknown, &facts);
    return store_join(&facts) + asker_watch(a);
}


/* The same for a request that has gone upstream: its results and its claim. */
static inline int
asker_reclaim(asker_t *a, uint32_t k)
{
    chat_facts_t facts;

    chat_facts_init(&facts, a->arena);
    (void) chat_gate_facts(&a->q, &a->rq, 1, 1024, &facts);
    chat_gate_claim(&a->q, k, &facts);
    return store_join(&facts);
}


/* The answer to attempt k, and the end that goes with a bad one. */
static inline int
asker_answer(asker_t *a, uint32_t k, uint32_t status)
{
    chat_facts_t facts;

    chat_facts_init(&facts, a->arena);
    chat_facts_answer(&facts, k, a->q.worker, a->q.request, status);
    if (status >= 300) {
        chat_facts_end(&facts, k, a->q.worker, a->q.request, CHAT_END_FAILED);
    }

    return store_join(&facts);
}


static inline int
asker_finish(asker_t *a, uint32_t k, chat_end_e end)
{
    chat_facts_t facts;

    chat_facts_init(&facts, a->arena);
    chat_facts_end(&facts, k, a->q.worker, a->q.request, end);
    if (end != CHAT_END_FINISHED && a->q.complete && !a->q.chained) {
        (void) chat_gate_facts(&a->q, &a->rq, 1, 1024, &facts);
    }

    return store_join(&facts);
}


/*
 * Puts an outcome of the last attempt, if it is another request's, as a
 * request does that believes in its own claim; how selects one of 8 ways.
 */
static inline int
asker_errs(asker_t *a, unsigned how)
{
    chat_str_t   worker = a->q.worker, request = a->q.request;
    chat_batch_t batch;
    chat_facts_t facts;

    assert_int_equal(
        chat_batch_read(store.facts, store.count, a->arena, &batch), CHAT_OK);
    if (batch.last.k == 0 || chat_str_eq(batch.last.request, request)) {
        return 0;
    }

    chat_facts_init(&facts, a->arena);
    chat_facts_answer(&facts, batch.last.k, worker, request,
                      how & 1 ? 200 : 503);
    if (how & 2) {
        chat_facts_void(&facts, batch.last.k, worker, request);
    }
    if (how & 4) {
        chat_facts_end(&facts, batch.last.k, worker, request,
                       CHAT_END_FINISHED);
    }

    return store_join(&facts);
}


#endif /* GATE_RUN_H */
