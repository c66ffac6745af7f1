/*
 * ngx_chat_law_ask.c: how a law calls the store, see ngx_chat_law.h.
 *
 * The arguments of a call are in one block that is wiped and freed when it
 * returns. An op is freed inside its done() or when it is cancelled, a watch
 * when it has ended. ASan, or a failing law, reveals a later access. Must not
 * know: what the laws say.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_chat_law.h"

#define NGX_CHAT_LAW_RUNAWAY 100000 /* notifications of one watch */


/* The arguments of one call. */
typedef struct {
    chat_key_t   key;
    size_t       size; /* of the block */
    chat_fact_t *facts;
    chat_str_t  *fields;
} ngx_chat_law_given_t;


/* NULL stays NULL, as in the facts of a request. */
static u_char *
ngx_chat_law_copy(u_char *p, chat_str_t *s)
{
    u_char *copy = p;

    if (s->data != NULL) {
        p = ngx_cpymem(p, s->data, s->len);
        s->data = copy;
    }

    return p;
}


/* A block with copies of all; the worker ends if there is no memory. */
static ngx_chat_law_given_t *
ngx_chat_law_give(const chat_key_t *key, const chat_fact_t *facts, size_t n)
{
    size_t                i, size;
    u_char               *p;
    ngx_chat_law_given_t *given;

    size = sizeof(*given) + n * (sizeof(*facts) + sizeof(chat_str_t));
    for (i = 0; i < n; i++) {
        size += facts[i].field.len + facts[i].value.len + facts[i].payload.len;
    }

    given = ngx_alloc(size, ngx_cycle->log);
    if (given == NULL) {
        abort();
    }

    given->key = *key;
    given->size = size;
    given->facts = (chat_fact_t *) (given + 1);
    given->fields = (chat_str_t *) (given->facts + n);
    p = (u_char *) (given->fields + n);

    for (i = 0; i < n; i++) {
        given->facts[i] = facts[i];
        p = ngx_chat_law_copy(p, &given->facts[i].field);
        p = ngx_chat_law_copy(p, &given->facts[i].value);
        p = ngx_chat_law_copy(p, &given->facts[i].payload);
        given->fields[i] = given->facts[i].field;
    }

    return given;
}


static void
ngx_chat_law_wipe(ngx_chat_law_given_t *given)
{
    ngx_explicit_memzero(given, given->size);
    ngx_free(given);
}


/* The facts are valid inside done() only. */
static void
ngx_chat_law_keep(ngx_chat_law_op_t *slot, const chat_fact_t *facts, size_t n)
{
    size_t i;

    chat_arena_destroy(slot->arena);
    slot->arena = chat_arena_create(0);
    slot->facts = slot->arena ? chat_arena_alloc(slot->arena,
                                                 (n + 1) * sizeof(chat_fact_t))
                              : NULL;
    if (slot->facts == NULL) {
        abort();
    }

    for (i = 0; i < n; i++) {
        slot->facts[i] = facts[i];
        (void) chat_arena_dup(slot->arena, facts[i].field,
                              &slot->facts[i].field);
        (void) chat_arena_dup(slot->arena, facts[i].value,
                              &slot->facts[i].value);
        (void) chat_arena_dup(slot->arena, facts[i].payload,
                              &slot->facts[i].payload);
    }

    slot->n = n;
}


static void
ngx_chat_law_free_if_over(ngx_chat_law_op_t *slot)
{
    if (!slot->asked && !slot->keep) {
        ngx_free(slot->op);
        slot->op = NULL;
    }
}


static void
ngx_chat_law_done(chat_store_op_t *op, chat_rc_e rc, const chat_fact_t *facts,
                  size_t n)
{
    ngx_chat_law_op_t *slot = op->data;
    ngx_chat_law_t    *law = slot->law;

    slot->fired++;
    slot->rc = rc;
    slot->nneeds = op->nneeds;
    ngx_chat_law_keep(slot, facts, n);

    ngx_chat_law_check(law, law->inside == 0, "done() inside a call");
    ngx_chat_law_check(law, op->store == NULL, "an op with a store in done()");
    ngx_chat_law_check(law, rc == CHAT_OK || n == 0, "facts without CHAT_OK");

    if (slot->asked) {
        slot->asked = 0;
        law->due--;
    } else {
        ngx_chat_law_fail(law, "done() of an op that was not asked");
    }

    if (slot->then != NULL) {
        slot->then(slot);
    }

    ngx_chat_law_free_if_over(slot);
    ngx_chat_law_proceed(law);
}


static void
ngx_chat_law_notify(chat_store_watch_t *watch)
{
    ngx_chat_law_watch_t *slot = watch->data;
    ngx_chat_law_t       *law = slot->law;

    /* better than a worker that never stops */
    if (slot->notified++ == NGX_CHAT_LAW_RUNAWAY) {
        ngx_log_error(NGX_LOG_EMERG, ngx_cycle->log, 0,
                      "chat: \"%s\" is notified without an end",
                      law->def->name);
        abort();
    }

    ngx_chat_law_check(law, law->inside == 0, "notify() inside a call");

    if (slot->then != NULL) {
        slot->then(slot);
    }

    ngx_chat_law_proceed(law);
}


/* The op of slot i for a new call; a kept one is not zeroed. */
static chat_store_op_t *
ngx_chat_law_op(ngx_chat_law_t *law, ngx_int_t i)
{
    ngx_chat_law_op_t *slot;

    if (i == NGX_CHAT_LAW_NO_OP) {
        return NULL;
    }

    slot = &law->ops[i];

    if (slot->op == NULL) {
        slot->op = ngx_calloc(sizeof(chat_store_op_t), ngx_cycle->log);
        if (slot->op == NULL) {
            abort();
        }
        slot->op->done = ngx_chat_law_done;
        slot->op->data = slot;
    }

    if (slot->asked) {
        ngx_chat_law_fail(law, "the law asks an op that is under way");
        return NULL;
    }

    slot->op->brief = slot->brief;
    slot->op->needs = NULL;
    slot->op->nneeds = 0;
    slot->asked = 1;
    law->due++;
    return slot->op;
}


void
ngx_chat_law_join_facts(ngx_chat_law_t *law, ngx_int_t i, ngx_uint_t k,
                        const chat_fact_t *facts, size_t n)
{
    chat_fact_t           wanted[NGX_CHAT_LAW_FACTS];
    chat_store_op_t      *op = ngx_chat_law_op(law, i);
    ngx_chat_law_given_t *given, *needs;
    const char           *text = op != NULL ? law->ops[i].needs : NULL;
    size_t                count = text ? ngx_chat_law_read(text, wanted) : 0;

    given = ngx_chat_law_give(&law->keys[k], facts, n);
    needs = ngx_chat_law_give(&law->keys[k], wanted, count);

    if (count != 0) {
        op->needs = needs->fields;
        op->nneeds = count;
    }

    law->inside++;
    law->store->join(law->store, op, &given->key, given->facts, n, law->ttl,
                     NULL);
    law->inside--;
    ngx_chat_law_wipe(given);
    ngx_chat_law_wipe(needs);
}


void
ngx_chat_law_watch_facts(ngx_chat_law_t *law, ngx_uint_t w, ngx_int_t i,
                         ngx_uint_t k, const chat_fact_t *facts, size_t n)
{
    chat_store_op_t      *op = ngx_chat_law_op(law, i);
    ngx_chat_law_given_t *given;
    ngx_chat_law_watch_t *slot = &law->watches[w];

    if (slot->watch == NULL) {
        slot->watch = ngx_calloc(sizeof(chat_store_watch_t), ngx_cycle->log);
        if (slot->watch == NULL) {
            abort();
        }
        slot->watch->notify = ngx_chat_law_notify;
        slot->watch->data = slot;
    }

    given = ngx_chat_law_give(&law->keys[k], facts, n);
    law->inside++;
    law->store->join(law->store, op, &given->key, given->facts, n, law->ttl,
                     slot->watch);
    law->inside--;
    ngx_chat_law_wipe(given);
}


void
ngx_chat_law_join(ngx_chat_law_t *law, ngx_int_t i, ngx_uint_t k,
                  const char *text)
{
    chat_fact_t facts[NGX_CHAT_LAW_FACTS];

    ngx_chat_law_join_facts(law, i, k, facts, ngx_chat_law_read(text, facts));
}


void
ngx_chat_law_watch(ngx_chat_law_t *law, ngx_uint_t w, ngx_int_t i,
                   ngx_uint_t k, const char *text)
{
    chat_fact_t facts[NGX_CHAT_LAW_FACTS];

    ngx_chat_law_watch_facts(law, w, i, k, facts,
                             ngx_chat_law_read(text, facts));
}


void
ngx_chat_law_unwatch(ngx_chat_law_t *law, ngx_uint_t w)
{
    law->inside++;
    ngx_chat_law_free_watch(&law->watches[w]);
    law->inside--;
}


void
ngx_chat_law_payloads_of(ngx_chat_law_t *law, ngx_uint_t i, ngx_uint_t k,
                         const chat_fact_t *facts, size_t n)
{
    chat_store_op_t      *op = ngx_chat_law_op(law, (ngx_int_t) i);
    ngx_chat_law_given_t *given;

    given = ngx_chat_law_give(&law->keys[k], facts, n);
    law->inside++;
    law->store->payloads(law->store, op, &given->key, given->fields, n);
    law->inside--;
    ngx_chat_law_wipe(given);
}


void
ngx_chat_law_payloads(ngx_chat_law_t *law, ngx_uint_t i, ngx_uint_t k,
                      const char *text)
{
    chat_fact_t facts[NGX_CHAT_LAW_FACTS];

    ngx_chat_law_payloads_of(law, i, k, facts, ngx_chat_law_read(text, facts));
}


void
ngx_chat_law_drop_facts(ngx_chat_law_t *law, ngx_uint_t k,
                        const chat_fact_t *facts, size_t n)
{
    ngx_chat_law_given_t *given;

    given = ngx_chat_law_give(&law->keys[k], facts, n);
    law->inside++;
    law->store->drop(law->store, &given->key, given->fields, n);
    law->inside--;
    ngx_chat_law_wipe(given);
}


void
ngx_chat_law_drop(ngx_chat_law_t *law, ngx_uint_t k, const char *text)
{
    chat_fact_t facts[NGX_CHAT_LAW_FACTS];

    ngx_chat_law_drop_facts(law, k, facts, ngx_chat_law_read(text, facts));
}


void
ngx_chat_law_append(ngx_chat_law_t *law, ngx_uint_t k, uint64_t position,
                    chat_str_t bytes, int last, uint64_t keep)
{
    chat_fact_t           piece;
    ngx_chat_law_given_t *given;

    ngx_memzero(&piece, sizeof(piece));
    piece.payload = bytes;
    given = ngx_chat_law_give(&law->keys[k], &piece, 1);
    law->inside++;
    law->store->append(law->store, NULL, &given->key, position,
                       given->facts[0].payload, last, keep, law->ttl);
    law->inside--;
    ngx_chat_law_wipe(given);
}


void
ngx_chat_law_read_log(ngx_chat_law_t *law, ngx_uint_t i, ngx_uint_t k,
                      uint64_t position)
{
    chat_store_op_t      *op = ngx_chat_law_op(law, (ngx_int_t) i);
    ngx_chat_law_given_t *given;

    given = ngx_chat_law_give(&law->keys[k], NULL, 0);
    law->inside++;
    law->store->read(law->store, op, &given->key, position);
    law->inside--;
    ngx_chat_law_wipe(given);
}


void
ngx_chat_law_clear(ngx_chat_law_t *law, ngx_uint_t k)
{
    ngx_chat_law_given_t *given = ngx_chat_law_give(&law->keys[k], NULL, 0);

    law->inside++;
    law->store->clear(law->store, &given->key, law->ttl);
    law->inside--;
    ngx_chat_law_wipe(given);
}


void
ngx_chat_law_flush(ngx_chat_law_t *law)
{
    law->inside++;
    if (law->store->flush != NULL) {
        law->store->flush(law->store);
    }
    law->inside--;
}


void
ngx_chat_law_cancel(ngx_chat_law_t *law, ngx_uint_t i)
{
    ngx_chat_law_op_t *slot = &law->ops[i];

    law->inside++;
    law->store->cancel(slot->op);
    law->inside--;
    ngx_chat_law_check(law, slot->op->store == NULL,
                       "an op with a store after cancel()");

    if (slot->asked) {
        slot->asked = 0;
        law->due--;
    }

    ngx_chat_law_free_if_over(slot);
}


void
ngx_chat_law_free_op(ngx_chat_law_op_t *slot)
{
    if (slot->op != NULL) {
        slot->law->store->cancel(slot->op);
        ngx_free(slot->op);
        slot->op = NULL;
    }

    chat_arena_destroy(slot->arena);
    slot->arena = NULL;
}


void
ngx_chat_law_free_watch(ngx_chat_law_watch_t *slot)
{
    if (slot->watch != NULL) {
        slot->law->store->unwatch(slot->watch);
        ngx_free(slot->watch);
        slot->watch = NULL;
    }
}
