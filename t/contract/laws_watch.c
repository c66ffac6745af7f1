/*
 * laws_watch.c: a watch is notified of everything added to its key; it is
 * active from its join on, so that nothing is missed.
 *
 * Silence is tested only if nothing was added: a notification may be spurious,
 * but not every time.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_chat_law.h"

#define LAW_QUIET 100 /* ms without any event */
#define LAW_KEYS 300


static void
law_watch_answers_as_a_join(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_join(law, 0, 0, "a=1+x");
        break;
    case 1:
        ngx_chat_law_watch(law, 0, 0, 0, "a=2 b=2");
        break;
    case 2:
        ngx_chat_law_expect(law, 0, "a=1+ b=2");
        ngx_chat_law_watch(law, 1, 0, 0, "");
        ngx_chat_law_watch(law, 2, 1, 1, "");
        break;
    default:
        ngx_chat_law_expect(law, 0, "a=1+ b=2");
        ngx_chat_law_expect(law, 1, "");
        ngx_chat_law_end(law);
    }
}


static void
law_each_addition_notifies(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_watch(law, 0, 0, 0, "");
        break;
    case 1:
        ngx_chat_law_join(law, 0, 0, "a=1");
        ngx_chat_law_await(law, 0);
        break;
    case 2:
        ngx_chat_law_join(law, NGX_CHAT_LAW_NO_OP, 0, "b=1");
        ngx_chat_law_await(law, 0);
        break;
    case 3:
        ngx_chat_law_join(law, 0, 0, "a=1 c=1 b=1");
        ngx_chat_law_await(law, 0);
        break;
    case 4:
        ngx_chat_law_watch(law, 1, 0, 0, "d=1");
        ngx_chat_law_await(law, 0);
        break;
    case 5:
        ngx_chat_law_join(law, 0, 0, "");
        break;
    default:
        ngx_chat_law_expect(law, 0, "a=1 b=1 c=1 d=1");
        ngx_chat_law_end(law);
    }
}


static void
law_silent_repeat(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_join(law, 0, 0, "a=1 b=2+x");
        break;
    case 1:
        ngx_chat_law_watch(law, 0, 0, 0, "");
        ngx_chat_law_pause(law, LAW_QUIET);
        break;
    case 2:
        law->watches[0].notified = 0; /* spurious: nothing was added */
        ngx_chat_law_join(law, 0, 0, "a=1 b=2+x");
        ngx_chat_law_join(law, 1, 0, "b=3 a=2+y");
        ngx_chat_law_join(law, NGX_CHAT_LAW_NO_OP, 0, "b=2");
        ngx_chat_law_join(law, 2, 0, "");
        ngx_chat_law_pause(law, LAW_QUIET);
        break;
    default:
        ngx_chat_law_expect(law, 0, "a=1 b=2+");
        ngx_chat_law_expect(law, 1, "a=1 b=2+");
        if (!ngx_chat_law_heard(law, 0, 2)) {
            ngx_chat_law_end(law);
        }
    }
}


/* In one wake-up, the watch first and the watch last. */
static void
law_nothing_is_missed(ngx_chat_law_t *law, ngx_uint_t step)
{
    ngx_uint_t after, before;

    switch (step) {
    case 0:
        ngx_chat_law_watch(law, 0, 0, 0, "");
        ngx_chat_law_join(law, 1, 0, "a=1");
        ngx_chat_law_join(law, NGX_CHAT_LAW_NO_OP, 1, "b=1");
        ngx_chat_law_watch(law, 1, 2, 1, "");
        break;
    case 1:
        ngx_chat_law_pause(law, LAW_QUIET);
        break;
    default:
        after = law->ops[0].n > 1 || law->watches[0].notified > 0;
        before = ngx_chat_law_find(law, 2, chat_cstr("b")) != NULL
                 || law->watches[1].notified > 0;
        if (!(after && before) && law->steps < 50) {
            ngx_chat_law_again(law, LAW_QUIET);
            return;
        }
        ngx_chat_law_check(law, after, "what came after the watch was missed");
        ngx_chat_law_check(law, before,
                           "what came before the watch was missed");
        ngx_chat_law_end(law);
    }
}


static void
law_two_watches_of_one_key(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_watch(law, 0, 0, 0, "");
        ngx_chat_law_watch(law, 1, 1, 0, "");
        ngx_chat_law_watch(law, 2, 2, 1, "");
        break;
    case 1:
        ngx_chat_law_join(law, 0, 0, "a=1");
        ngx_chat_law_join(law, 1, 1, "a=1");
        ngx_chat_law_await(law, 0);
        ngx_chat_law_await(law, 1);
        ngx_chat_law_await(law, 2);
        break;
    case 2:
        ngx_chat_law_unwatch(law, 0);
        law->watches[0].awaited = 0;
        ngx_chat_law_join(law, 0, 0, "b=1");
        ngx_chat_law_await(law, 1);
        break;
    default:
        ngx_chat_law_end(law);
    }
}


static void
law_watch_outlives_its_op(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_watch(law, 0, 0, 0, "a=1");
        ngx_chat_law_cancel(law, 0);
        ngx_chat_law_watch(law, 1, NGX_CHAT_LAW_NO_OP, 1, "a=1");
        ngx_chat_law_pause(law, LAW_QUIET);
        break;
    case 1:
        ngx_chat_law_join(law, 0, 0, "b=1");
        ngx_chat_law_join(law, 1, 1, "b=1");
        ngx_chat_law_await(law, 0);
        ngx_chat_law_await(law, 1);
        break;
    default:
        ngx_chat_law_expect(law, 0, "a=1 b=1");
        ngx_chat_law_expect(law, 1, "a=1 b=1");
        ngx_chat_law_end(law);
    }
}


static void
law_clear_leaves_cleared(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_join(law, 0, 0, "a=1 b=2+x");
        ngx_chat_law_watch(law, 0, 1, 0, "");
        ngx_chat_law_clear(law, 1);
        break;
    case 1:
        ngx_chat_law_pause(law, LAW_QUIET);
        break;
    case 2:
        ngx_chat_law_clear(law, 0);
        ngx_chat_law_await(law, 0);
        break;
    case 3:
        ngx_chat_law_join(law, 0, 0, "");
        ngx_chat_law_join(law, 1, 1, "");
        break;
    case 4:
        ngx_chat_law_check(
            law,
            law->ops[0].n == 1 && law->ops[1].n == 1
                && ngx_chat_law_find(law, 0, chat_cstr("cleared")) != NULL
                && ngx_chat_law_find(law, 1, chat_cstr("cleared")) != NULL,
            "it is not the single fact cleared");
        ngx_chat_law_join(law, 0, 0, "a=3");
        break;
    default:
        ngx_chat_law_check(
            law,
            law->ops[0].n == 2
                && chat_str_is(
                    ngx_chat_law_find(law, 0, chat_cstr("a"))->value, "3"),
            "after it nothing can be put");
        ngx_chat_law_end(law);
    }
}


/* clear has removed wait/<worker>; only the claim names this worker. */
static void
law_claimant_is_notified(ngx_chat_law_t *law, ngx_uint_t step)
{
    u_char      text[256];
    chat_fact_t facts[2];

    switch (step) {
    case 0:
        ngx_chat_law_watch(law, 0, 0, 0, "");
        break;
    case 1:
        ngx_chat_law_clear(law, 0);
        ngx_chat_law_await(law, 0);
        break;
    case 2:
        ngx_memzero(facts, sizeof(facts));
        facts[0].field = chat_cstr("claim/1");
        facts[0].value = chat_cstr("1.1.1 request sig key");
        facts[1].field = chat_cstr("claim/2");
        facts[1].value =
            chat_str(text, (size_t) (ngx_snprintf(text, sizeof(text),
                                                  "%*s request sig key",
                                                  law->store->worker.len,
                                                  law->store->worker.data)
                                     - text));
        ngx_chat_law_join_facts(law, 0, 0, facts, 2);
        ngx_chat_law_pause(law, LAW_QUIET);
        break;
    case 3:
        ngx_chat_law_join(law, 0, 0, "answer/2=200");
        ngx_chat_law_await(law, 0);
        break;
    default:
        ngx_chat_law_end(law);
    }
}


static void
law_ask_in_notify(ngx_chat_law_watch_t *slot)
{
    if (!slot->law->ops[1].asked) {
        ngx_chat_law_join(slot->law, 1, 0, "b=1");
    }
}


static void
law_notify_may_ask(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        law->watches[0].then = law_ask_in_notify;
        ngx_chat_law_watch(law, 0, 0, 0, "");
        break;
    case 1:
        ngx_chat_law_join(law, 0, 0, "a=1");
        ngx_chat_law_await(law, 0);
        break;
    case 2:
        ngx_chat_law_pause(law, LAW_QUIET);
        break;
    case 3:
        if (!ngx_chat_law_heard(law, 0, 2)) {
            ngx_chat_law_join(law, 0, 0, "");
        }
        break;
    default:
        ngx_chat_law_expect(law, 0, "a=1 b=1");
        ngx_chat_law_end(law);
    }
}


typedef struct {
    ngx_chat_law_t    *law;
    chat_key_t         keys[LAW_KEYS];
    chat_store_watch_t watches[LAW_KEYS];
    ngx_uint_t         notified[LAW_KEYS];
} law_keys_t;


static void
law_one_key_changed(chat_store_watch_t *watch)
{
    law_keys_t *all = watch->data;

    all->notified[watch - all->watches]++;
}


static void
law_keys_unwatch(void *data)
{
    ngx_uint_t  i;
    law_keys_t *all = data;

    for (i = 0; i < LAW_KEYS; i++) {
        all->law->store->unwatch(&all->watches[i]);
    }
}


static law_keys_t *
law_keys_watch(ngx_chat_law_t *law)
{
    ngx_uint_t          i;
    law_keys_t         *all;
    ngx_pool_cleanup_t *cln;

    cln = ngx_pool_cleanup_add(law->request->pool, sizeof(*all));
    if (cln == NULL) {
        abort();
    }

    all = cln->data;
    ngx_memzero(all, sizeof(*all));
    all->law = law;
    cln->handler = law_keys_unwatch;

    for (i = 0; i < LAW_KEYS; i++) {
        chat_digest(chat_str(&law->keys[0], sizeof(chat_key_t)),
                    &law->keys[0].name);
        all->keys[i] = law->keys[0];
        all->watches[i].notify = law_one_key_changed;
        all->watches[i].data = all;
        law->store->join(law->store, NULL, &all->keys[i], NULL, 0, law->ttl,
                         &all->watches[i]);
    }

    return all;
}


static void
law_hundreds_of_keys(ngx_chat_law_t *law, ngx_uint_t step)
{
    ngx_uint_t  i;
    chat_fact_t fact[NGX_CHAT_LAW_FACTS];
    law_keys_t *all = law->data;

    switch (step) {
    case 0:
        law->data = law_keys_watch(law);
        ngx_chat_law_pause(law, LAW_QUIET);
        break;
    case 1:
        (void) ngx_chat_law_read("a=1", fact);
        for (i = 0; i < LAW_KEYS; i++) {
            law->store->join(law->store, NULL, &all->keys[i], fact, 1,
                             law->ttl, NULL);
        }
        ngx_chat_law_pause(law, LAW_QUIET);
        break;
    default:
        for (i = 0; i < LAW_KEYS; i++) {
            if (all->notified[i] == 0 && law->steps < 50) {
                ngx_chat_law_again(law, LAW_QUIET);
                return;
            }
            ngx_chat_law_check(law, all->notified[i] != 0, "one was missed");
        }
        ngx_chat_law_end(law);
    }
}


const ngx_chat_law_def_t ngx_chat_laws_of_watches[] = {
    { "a-watch-puts-and-answers-as-a-join", law_watch_answers_as_a_join, 0 },
    { "each-addition-notifies", law_each_addition_notifies, 0 },
    { "the-same-join-twice-neither-adds-nor-notifies", law_silent_repeat, 0 },
    { "a-watch-misses-nothing", law_nothing_is_missed, 0 },
    { "two-watches-of-one-key-both-hear", law_two_watches_of_one_key, 0 },
    { "a-watch-outlives-its-op-or-has-none", law_watch_outlives_its_op, 0 },
    { "clear-leaves-the-single-fact-cleared-and-notifies",
      law_clear_leaves_cleared, 0 },
    { "the-last-claimant-is-notified", law_claimant_is_notified, 0 },
    { "the-store-is-asked-inside-notify", law_notify_may_ask, 0 },
    { "hundreds-of-keys-in-one-wake-up", law_hundreds_of_keys, 0 },
    { NULL, NULL, 0 }
};
