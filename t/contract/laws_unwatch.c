/*
 * laws_unwatch.c: after unwatch() there is no notification, in any case:
 * twice, without a watch, inside done(), inside notify(), its own or a
 * neighbour's; the watch can be used again.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_chat_law.h"

#define LAW_QUIET 100 /* ms without any event */


/* Adds a fact to key 0 that must notify no watch. */
static void
law_add_unheard(ngx_chat_law_t *law, const char *text)
{
    ngx_uint_t w;

    for (w = 0; w < NGX_CHAT_LAW_WATCHES; w++) {
        law->watches[w].awaited = 0;
    }

    ngx_chat_law_join(law, 0, 0, text);
    ngx_chat_law_pause(law, LAW_QUIET);
}


static void
law_nothing_after_unwatch(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_watch(law, 0, 0, 0, "a=1");
        break;
    case 1:
        ngx_chat_law_unwatch(law, 0);
        law->watches[0].notified = 0;
        law_add_unheard(law, "b=1");
        break;
    default:
        ngx_chat_law_expect(law, 0, "a=1 b=1");
        ngx_chat_law_check(law, law->watches[0].notified == 0,
                           "notify() after unwatch()");
        ngx_chat_law_end(law);
    }
}


/* A notification that is pending at the call is dropped, too. */
static void
law_nothing_that_is_on_its_way(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_watch(law, 0, 0, 0, "");
        break;
    case 1:
        ngx_chat_law_join(law, NGX_CHAT_LAW_NO_OP, 0, "a=1");
        ngx_chat_law_unwatch(law, 0);
        law->watches[0].notified = 0;
        law_add_unheard(law, "b=1");
        break;
    default:
        ngx_chat_law_expect(law, 0, "a=1 b=1");
        ngx_chat_law_check(law, law->watches[0].notified == 0,
                           "notify() after unwatch()");
        ngx_chat_law_end(law);
    }
}


static void
law_unwatch_is_safe(ngx_chat_law_t *law, ngx_uint_t step)
{
    chat_store_watch_t zeroed;

    switch (step) {
    case 0:
        ngx_memzero(&zeroed, sizeof(zeroed));
        law->store->unwatch(&zeroed);
        law->store->unwatch(&zeroed);
        ngx_chat_law_watch(law, 0, 0, 0, "");
        law->store->unwatch(law->watches[0].watch);
        law->store->unwatch(law->watches[0].watch);
        break;
    case 1:
        law->store->unwatch(law->watches[0].watch);
        law_add_unheard(law, "a=1");
        break;
    default:
        ngx_chat_law_check(law, law->ops[0].fired == 2,
                           "unwatch() has cancelled the watch's op");
        ngx_chat_law_check(law, law->watches[0].notified == 0,
                           "notify() after unwatch()");
        ngx_chat_law_end(law);
    }
}


static void
law_unwatch_self(ngx_chat_law_watch_t *slot)
{
    ngx_chat_law_unwatch(slot->law, (ngx_uint_t) (slot - slot->law->watches));
}


static void
law_unwatch_in_its_notify(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        law->watches[0].then = law_unwatch_self;
        law->watches[1].then = law_unwatch_self;
        ngx_chat_law_watch(law, 0, 0, 0, "");
        ngx_chat_law_watch(law, 1, 1, 0, "");
        break;
    case 1:
        ngx_chat_law_join(law, 0, 0, "a=1");
        ngx_chat_law_await(law, 0);
        ngx_chat_law_await(law, 1);
        break;
    case 2:
        law_add_unheard(law, "b=1");
        break;
    default:
        ngx_chat_law_check(law,
                           law->watches[0].notified == 1
                               && law->watches[1].notified == 1,
                           "not each of them was notified once");
        ngx_chat_law_end(law);
    }
}


static void
law_unwatch_everybody(ngx_chat_law_watch_t *slot)
{
    ngx_uint_t w;

    for (w = 0; w < NGX_CHAT_LAW_WATCHES; w++) {
        ngx_chat_law_unwatch(slot->law, w);
    }
}


static void
law_unwatch_neighbours(ngx_chat_law_t *law, ngx_uint_t step)
{
    ngx_uint_t w, notified = 0;

    switch (step) {
    case 0:
        for (w = 0; w < NGX_CHAT_LAW_WATCHES; w++) {
            law->watches[w].then = law_unwatch_everybody;
            ngx_chat_law_watch(law, w, (ngx_int_t) w, 0, "");
        }
        break;
    case 1:
        law_add_unheard(law, "a=1");
        break;
    default:
        for (w = 0; w < NGX_CHAT_LAW_WATCHES; w++) {
            notified += law->watches[w].notified;
        }
        ngx_chat_law_check(law, notified == 1,
                           "not just one of them was notified");
        ngx_chat_law_end(law);
    }
}


static void
law_watch_anew(ngx_chat_law_watch_t *slot)
{
    ngx_chat_law_t *law = slot->law;

    law->store->unwatch(slot->watch);
    ngx_chat_law_watch(law, (ngx_uint_t) (slot - law->watches),
                       NGX_CHAT_LAW_NO_OP, 0, "");
}


static void
law_watch_anew_in_notify(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        law->watches[0].then = law_watch_anew;
        law->watches[1].then = law_watch_anew;
        ngx_chat_law_watch(law, 0, 0, 0, "");
        ngx_chat_law_watch(law, 1, 1, 0, "");
        break;
    case 1:
        ngx_chat_law_join(law, 0, 0, "a=1");
        ngx_chat_law_await(law, 0);
        ngx_chat_law_await(law, 1);
        break;
    case 2:
        ngx_chat_law_join(law, 0, 0, "b=1");
        ngx_chat_law_await(law, 0);
        ngx_chat_law_await(law, 1);
        break;
    case 3:
        ngx_chat_law_pause(law, LAW_QUIET);
        break;
    default:
        if (!ngx_chat_law_heard(law, 0, 3) && !ngx_chat_law_heard(law, 1, 3)) {
            ngx_chat_law_end(law);
        }
    }
}


static void
law_unwatch_first(ngx_chat_law_op_t *slot)
{
    ngx_chat_law_unwatch(slot->law, 0);
}


static void
law_unwatch_in_done(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        law->ops[1].then = law_unwatch_first;
        ngx_chat_law_watch(law, 0, 1, 0, "");
        ngx_chat_law_watch(law, 1, 2, 0, "");
        break;
    case 1:
        ngx_chat_law_join(law, 0, 0, "a=1");
        ngx_chat_law_await(law, 1);
        break;
    case 2:
        law_add_unheard(law, "b=1");
        break;
    default:
        ngx_chat_law_check(law, law->watches[0].notified == 0,
                           "notify() after unwatch()");
        ngx_chat_law_end(law);
    }
}


/* "a00=1 a01=1 ...": the facts of this many rounds. */
static const char *
law_rounds(ngx_uint_t from, ngx_uint_t n, char *text)
{
    u_char *p = (u_char *) text;

    for (; from < n; from++) {
        p = ngx_sprintf(p, "a%02ui=1 ", from);
    }

    p[-1] = '\0';
    return text;
}


/* The same watch, not zeroed, on another key and then on the first again. */
static void
law_watch_is_used_again(ngx_chat_law_t *law, ngx_uint_t step)
{
    char text[8 * NGX_CHAT_LAW_HEARD];

    switch (step) {
    case 0:
        ngx_chat_law_watch(law, 0, 0, 0, "");
        break;
    case 1:
        law->store->unwatch(law->watches[0].watch);
        ngx_chat_law_watch(law, 0, 0, 1, "");
        ngx_chat_law_pause(law, LAW_QUIET);
        break;
    case 2:
        law->watches[0].notified = 0; /* spurious: nothing was added */
        law_add_unheard(law, law_rounds(law->number, law->number + 1, text));
        break;
    case 3:
        if (ngx_chat_law_heard(law, 0, 2)) {
            return;
        }
        ngx_chat_law_join(law, 0, 1, "a=1");
        ngx_chat_law_await(law, 0);
        break;
    case 4:
        law->store->unwatch(law->watches[0].watch);
        ngx_chat_law_watch(law, 0, 0, 0, "");
        break;
    case 5:
        ngx_chat_law_expect(law, 0, law_rounds(0, law->number + 1, text));
        ngx_chat_law_join(law, 0, 0, "b=1");
        ngx_chat_law_await(law, 0);
        break;
    default:
        ngx_chat_law_end(law);
    }
}


/* An active watch is started again: it is still one. */
static void
law_watch_stands(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_watch(law, 0, 0, 0, "a=1");
        break;
    case 1:
        ngx_chat_law_watch(law, 0, 0, 0, "b=1");
        break;
    case 2:
        ngx_chat_law_join(law, 0, 0, "c=1");
        ngx_chat_law_await(law, 0);
        break;
    case 3:
        ngx_chat_law_unwatch(law, 0);
        law->watches[0].notified = 0;
        law_add_unheard(law, "d=1");
        break;
    default:
        ngx_chat_law_expect(law, 0, "a=1 b=1 c=1 d=1");
        ngx_chat_law_check(law, law->watches[0].notified == 0,
                           "notify() after unwatch()");
        ngx_chat_law_end(law);
    }
}


const ngx_chat_law_def_t ngx_chat_laws_of_unwatching[] = {
    { "after-unwatch-nothing-is-told", law_nothing_after_unwatch, 0 },
    { "nor-what-was-on-its-way", law_nothing_that_is_on_its_way, 0 },
    { "unwatch-is-safe-twice-and-without-a-watch", law_unwatch_is_safe, 0 },
    { "unwatch-inside-its-notify", law_unwatch_in_its_notify, 0 },
    { "unwatch-of-all-inside-notify", law_unwatch_neighbours, 0 },
    { "watch-anew-inside-notify", law_watch_anew_in_notify, 0 },
    { "unwatch-inside-done", law_unwatch_in_done, 0 },
    { "a-watch-is-used-again", law_watch_is_used_again, 0 },
    { "a-watch-that-stands-is-begun-anew", law_watch_stands, 0 },
    { NULL, NULL, 0 }
};
