/*
 * laws_worker.c: the store itself, the names of workers, and the lifetime of
 * facts.
 *
 * payloads() checks a lifetime, since it does not extend it; a fact lives for
 * at least its ttl, and at most two seconds longer.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_chat_law.h"


static void
law_it_is_ready(ngx_chat_law_t *law, ngx_uint_t step)
{
    size_t        i;
    chat_store_t *store = law->store;

    if (store->state != CHAT_STORE_UP && law->steps < 50) {
        ngx_chat_law_again(law, 100);
        return;
    }

    ngx_chat_law_check(law, store->state == CHAT_STORE_UP, "it is not up");
    ngx_chat_law_check(law, store->worker.len > 0, "the worker has no name");

    for (i = 0; i < store->worker.len; i++) {
        ngx_chat_law_check(law,
                           store->worker.data[i] > ' '
                               && store->worker.data[i] < 0x7f
                               && store->worker.data[i] != '/',
                           "the worker's name has a space or a slash");
    }

    ngx_chat_law_check(law, store->alive(store, store->worker) == 1,
                       "this worker is not alive");
    ngx_chat_law_end(law);
}


static void
law_unknown_not_alive(ngx_chat_law_t *law, ngx_uint_t step)
{
    static const chat_str_t unknown[] = {
        CHAT_STR(""),
        CHAT_STR("."),
        CHAT_STR(".."),
        CHAT_STR("..."),
        CHAT_STR("unknown"),
        CHAT_STR("0.0.0"),
        CHAT_STR("-1.1.1"),
        CHAT_STR("1.-1.1"),
        CHAT_STR("127.99999.1"),
        CHAT_STR("128.1.1"),
        CHAT_STR("4294967296.1.1"),
        CHAT_STR("99999999999999999999999.99999999999999999999999.1"),
        CHAT_STR("a b c"),
        CHAT_STR("wait/1.1.1\r\n\0*$-1"),
        CHAT_STR("%n%s{}[]^*?"),
    };
    size_t        i, alive = 0;
    chat_str_t    cut;
    chat_store_t *store = law->store;

    for (i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        alive += store->alive(store, unknown[i]) != 0;
    }

    /* long, with a NUL, and a valid name that is truncated */
    alive += store->alive(store, chat_str(law, sizeof(*law))) != 0;
    cut = store->worker;
    cut.len /= 2;
    alive += store->alive(store, cut) != 0;

    if (alive != 0 && law->steps < 120) {
        ngx_chat_law_again(law, 100);
        return;
    }

    ngx_chat_law_check(law, alive == 0, "an unknown worker is alive");
    ngx_chat_law_check(law, store->alive(store, store->worker) == 1,
                       "this worker is not alive");
    ngx_chat_law_end(law);
}


static void
law_facts_have_their_time(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        law->ttl = 1;
        ngx_chat_law_join(law, 0, 0, "a=1+x");
        break;
    case 1:
        ngx_chat_law_payloads(law, 0, 0, "a");
        ngx_chat_law_pause(law, 3100);
        break;
    case 2:
        ngx_chat_law_expect(law, 0, "a=1+x");
        ngx_chat_law_payloads(law, 0, 0, "a");
        ngx_chat_law_join(law, 1, 0, "");
        break;
    default:
        ngx_chat_law_expect(law, 0, "");
        ngx_chat_law_expect(law, 1, "");
        ngx_chat_law_end(law);
    }
}


/* At 4.4 s the fact put at 0 s has expired, the one put at 2 s has not. */
static void
law_additions_lengthen_it(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        law->ttl = 3;
        ngx_chat_law_join(law, 0, 0, "a=1+x");
        ngx_chat_law_join(law, 1, 1, "a=1+x");
        ngx_chat_law_pause(law, 2000);
        break;
    case 1:
        ngx_chat_law_join(law, 0, 0, "b=2+y");
        ngx_chat_law_pause(law, 2400);
        break;
    case 2:
        ngx_chat_law_payloads(law, 0, 0, "a b");
        ngx_chat_law_payloads(law, 1, 1, "a b");
        break;
    default:
        ngx_chat_law_expect(law, 0, "a=1+x b=2+y");
        ngx_chat_law_expect(law, 1, "");
        ngx_chat_law_end(law);
    }
}


static void
law_cleared_has_its_time(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_join(law, 0, 0, "a=1");
        law->ttl = 1;
        ngx_chat_law_clear(law, 0);
        ngx_chat_law_join(law, 1, 0, "");
        ngx_chat_law_pause(law, 4100);
        break;
    case 1:
        ngx_chat_law_check(law, law->ops[1].n == 1, "it is not cleared");
        ngx_chat_law_join(law, 0, 0, "");
        break;
    default:
        ngx_chat_law_expect(law, 0, "");
        ngx_chat_law_end(law);
    }
}


const ngx_chat_law_def_t ngx_chat_laws_of_workers[] = {
    { "it-is-up-and-its-worker-has-a-name", law_it_is_ready, 0 },
    { "an-unknown-worker-is-not-alive", law_unknown_not_alive, 20 },
    { "facts-live-for-their-ttl", law_facts_have_their_time, 0 },
    { "an-addition-lengthens-it", law_additions_lengthen_it, 0 },
    { "cleared-lives-for-its-ttl-too", law_cleared_has_its_time, 0 },
    { NULL, NULL, 0 }
};
