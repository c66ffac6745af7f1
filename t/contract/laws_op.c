/*
 * laws_op.c: done() is called once, in order, never inside a call, and never
 * after cancel(), which is always safe; an op can be used again once done() or
 * cancel() has begun.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_chat_law.h"

#define LAW_THOUSANDS 3000


static void
law_done_comes_later(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_join(law, 0, 0, "a=1");
        ngx_chat_law_join(law, 1, 0, "");
        ngx_chat_law_payloads(law, 2, 0, "a");
        ngx_chat_law_watch(law, 0, 3, 0, "b=1");
        ngx_chat_law_check(law, law->due == 4, "done() inside a call");
        break;
    case 1:
        ngx_chat_law_pause(law, 50);
        break;
    default:
        ngx_chat_law_check(law,
                           law->ops[0].fired == 1 && law->ops[1].fired == 1
                               && law->ops[2].fired == 1
                               && law->ops[3].fired == 1,
                           "done() did not come just once");
        ngx_chat_law_end(law);
    }
}


static void
law_cancelled_never_fires(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_join(law, 0, 0, "a=1");
        ngx_chat_law_cancel(law, 0);
        ngx_chat_law_payloads(law, 1, 0, "a");
        ngx_chat_law_cancel(law, 1);
        ngx_chat_law_watch(law, 0, 2, 0, "b=1");
        ngx_chat_law_cancel(law, 2);
        ngx_chat_law_join(law, 3, 0, "c=1");
        ngx_chat_law_cancel(law, 3);
        ngx_chat_law_pause(law, 100);
        break;
    default:
        ngx_chat_law_check(law,
                           law->ops[0].fired + law->ops[1].fired
                                   + law->ops[2].fired + law->ops[3].fired
                               == 0,
                           "done() after cancel()");
        ngx_chat_law_end(law);
    }
}


static void
law_cancelled_join_is_put(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_join(law, 0, 0, "a=1 b=2+x");
        ngx_chat_law_cancel(law, 0);
        ngx_chat_law_pause(law, 1);
        break;
    case 1:
        ngx_chat_law_payloads(law, 0, 0, "b");
        ngx_chat_law_join(law, 1, 0, "");
        break;
    default:
        if (law->ops[1].n < 2) {
            law->step -= 2;
            ngx_chat_law_pause(law, 10);
            return;
        }
        ngx_chat_law_expect(law, 0, "b=2+x");
        ngx_chat_law_expect(law, 1, "a=1 b=2+");
        ngx_chat_law_end(law);
    }
}


static void
law_cancel_is_safe(ngx_chat_law_t *law, ngx_uint_t step)
{
    chat_store_op_t zeroed;

    switch (step) {
    case 0:
        ngx_memzero(&zeroed, sizeof(zeroed));
        law->store->cancel(&zeroed);
        law->store->cancel(&zeroed);
        law->ops[0].keep = 1;
        law->ops[1].keep = 1;
        ngx_chat_law_join(law, 0, 0, "a=1");
        ngx_chat_law_join(law, 1, 0, "b=1");
        ngx_chat_law_cancel(law, 1);
        ngx_chat_law_cancel(law, 1);
        break;
    case 1:
        ngx_chat_law_cancel(law, 0);
        ngx_chat_law_cancel(law, 0);
        ngx_chat_law_cancel(law, 1);
        ngx_chat_law_join(law, 0, 0, "");
        ngx_chat_law_join(law, 1, 0, "");
        break;
    default:
        ngx_chat_law_expect(law, 0, "a=1 b=1");
        ngx_chat_law_expect(law, 1, "a=1 b=1");
        ngx_chat_law_check(law,
                           law->ops[0].fired == 2 && law->ops[1].fired == 1,
                           "done() did not come as often as it should");
        ngx_chat_law_end(law);
    }
}


static void
law_ask_again(ngx_chat_law_op_t *slot)
{
    if (slot->fired == 1) {
        ngx_chat_law_expect(slot->law, 0, "a=1+");
        ngx_chat_law_join(slot->law, 0, 0, "b=2");

    } else if (slot->fired == 2) {
        ngx_chat_law_expect(slot->law, 0, "a=1+ b=2");
        ngx_chat_law_payloads(slot->law, 0, 0, "a");
    }
}


static void
law_op_is_used_again(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        law->ops[0].keep = 1;
        law->ops[0].then = law_ask_again;
        ngx_chat_law_join(law, 0, 0, "a=1+x");
        break;
    default:
        ngx_chat_law_check(law, law->ops[0].fired == 3, "it was not asked");
        ngx_chat_law_expect(law, 0, "a=1+x");
        ngx_chat_law_end(law);
    }
}


static void
law_cancel_self(ngx_chat_law_op_t *slot)
{
    ngx_chat_law_cancel(slot->law, 0);
}


static void
law_op_is_cancelled_in_its_done(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        law->ops[0].keep = 1;
        law->ops[0].then = law_cancel_self;
        ngx_chat_law_join(law, 0, 0, "a=1");
        ngx_chat_law_join(law, 1, 0, "b=1");
        break;
    default:
        ngx_chat_law_expect(law, 0, "a=1");
        ngx_chat_law_expect(law, 1, "a=1 b=1");
        ngx_chat_law_end(law);
    }
}


/* Cancels the neighbours, which frees them. */
static void
law_cancel_others(ngx_chat_law_op_t *slot)
{
    ngx_chat_law_t *law = slot->law;

    ngx_chat_law_cancel(law, 1);
    ngx_chat_law_cancel(law, 3);
    ngx_chat_law_cancel(law, 4);
}


static void
law_others_are_cancelled_in_done(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        law->ops[0].then = law_cancel_others;
        ngx_chat_law_join(law, 0, 0, "a=1");
        ngx_chat_law_join(law, 1, 0, "b=1");
        ngx_chat_law_join(law, 2, 0, "c=1");
        ngx_chat_law_payloads(law, 3, 0, "a");
        ngx_chat_law_join(law, 4, 1, "");
        break;
    case 1:
        ngx_chat_law_pause(law, 50);
        break;
    default:
        ngx_chat_law_expect(law, 2, "a=1 b=1 c=1");
        ngx_chat_law_check(
            law,
            law->ops[1].fired + law->ops[3].fired + law->ops[4].fired == 0,
            "done() after cancel()");
        ngx_chat_law_end(law);
    }
}


/* Cancelled, and used again before the old reply can arrive. */
static void
law_op_is_used_after_cancel(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        law->ops[0].keep = 1;
        ngx_chat_law_join(law, 0, 0, "a=1");
        ngx_chat_law_cancel(law, 0);
        ngx_chat_law_join(law, 0, 1, "b=1");
        break;
    case 1:
        ngx_chat_law_pause(law, 50);
        break;
    default:
        ngx_chat_law_expect(law, 0, "b=1");
        ngx_chat_law_check(law, law->ops[0].fired == 1, "the old one is told");
        ngx_chat_law_end(law);
    }
}


static void
law_flush(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_flush(law);
        ngx_chat_law_join(law, NGX_CHAT_LAW_NO_OP, 0, "a=1");
        ngx_chat_law_join(law, 0, 0, "b=1");
        ngx_chat_law_join(law, NGX_CHAT_LAW_NO_OP, 0, "c=1");
        ngx_chat_law_flush(law);
        ngx_chat_law_flush(law);
        break;
    case 1:
        ngx_chat_law_check(law, law->ops[0].rc == CHAT_OK, "not answered");
        ngx_chat_law_join(law, 1, 0, "");
        break;
    default:
        ngx_chat_law_expect(law, 1, "a=1 b=1 c=1");
        ngx_chat_law_end(law);
    }
}


typedef struct {
    ngx_chat_law_t *law;
    size_t          told;
    size_t          failed;
    size_t          disorder;
    chat_store_op_t ops[LAW_THOUSANDS];
} law_thousands_t;


static void
law_one_of_thousands(chat_store_op_t *op, chat_rc_e rc,
                     const chat_fact_t *facts, size_t n)
{
    law_thousands_t *all = op->data;

    all->failed += rc != CHAT_OK || n != 1;
    all->disorder += op != &all->ops[all->told++];
}


static void
law_thousands_cancel(void *data)
{
    size_t           i;
    law_thousands_t *all = data;

    for (i = 0; i < LAW_THOUSANDS; i++) {
        all->law->store->cancel(&all->ops[i]);
    }
}


static law_thousands_t *
law_thousands_ask(ngx_chat_law_t *law)
{
    size_t              i;
    chat_fact_t         fact[NGX_CHAT_LAW_FACTS];
    law_thousands_t    *all;
    ngx_pool_cleanup_t *cln;

    cln = ngx_pool_cleanup_add(law->request->pool, sizeof(*all));
    if (cln == NULL) {
        abort();
    }

    all = cln->data;
    ngx_memzero(all, sizeof(*all));
    all->law = law;
    cln->handler = law_thousands_cancel;
    (void) ngx_chat_law_read("a=1", fact);

    for (i = 0; i < LAW_THOUSANDS; i++) {
        all->ops[i].done = law_one_of_thousands;
        all->ops[i].data = all;
        law->store->join(law->store, &all->ops[i], &law->keys[0], fact, 1,
                         law->ttl, NULL);
    }

    ngx_chat_law_check(law, all->told == 0, "done() inside a call");
    return all;
}


static void
law_thousands_in_one_wake_up(ngx_chat_law_t *law, ngx_uint_t step)
{
    law_thousands_t *all;

    if (step == 0) {
        law->data = law_thousands_ask(law);
        ngx_chat_law_pause(law, 1);
        return;
    }

    all = law->data;
    if (all->told < LAW_THOUSANDS && law->steps < 500) {
        ngx_chat_law_again(law, 10);
        return;
    }

    ngx_chat_law_check(law, all->told == LAW_THOUSANDS, "not all are told");
    ngx_chat_law_check(law, all->failed == 0, "not all were CHAT_OK");
    ngx_chat_law_check(law, all->disorder == 0, "they came out of order");
    ngx_chat_law_end(law);
}


const ngx_chat_law_def_t ngx_chat_laws_of_ops[] = {
    { "done-comes-once-and-never-inside-the-call", law_done_comes_later, 0 },
    { "after-cancel-done-never-comes", law_cancelled_never_fires, 0 },
    { "the-facts-of-a-cancelled-join-are-put", law_cancelled_join_is_put, 0 },
    { "cancel-is-safe-at-any-time-and-twice", law_cancel_is_safe, 0 },
    { "an-op-is-used-again-inside-its-done", law_op_is_used_again, 0 },
    { "an-op-is-cancelled-inside-its-done", law_op_is_cancelled_in_its_done,
      0 },
    { "other-ops-are-cancelled-and-freed-inside-done",
      law_others_are_cancelled_in_done, 0 },
    { "an-op-is-used-again-after-cancel", law_op_is_used_after_cancel, 0 },
    { "what-is-flushed-is-found", law_flush, 0 },
    { "thousands-in-one-wake-up-are-told-in-order",
      law_thousands_in_one_wake_up, 0 },
    { NULL, NULL, 0 }
};
