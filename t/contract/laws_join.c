/*
 * laws_join.c: what a join puts and returns.
 *
 * Facts are put if absent and never changed; a join returns all facts, its own
 * included; keys are separate; a join without an op is stored, too.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_chat_law.h"

#define LAW_MANY 1000      /* facts that one join must take */
#define LAW_QUIET 100      /* ms without any event */
#define LAW_TOO_MANY 20000 /* more than a store must accept */


static void
law_put_if_absent(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_join(law, 0, 0, "a=1");
        break;
    case 1:
        ngx_chat_law_expect(law, 0, "a=1");
        ngx_chat_law_join(law, 0, 0, "a=2 b=3");
        break;
    case 2:
        ngx_chat_law_expect(law, 0, "a=1 b=3");
        ngx_chat_law_join(law, 0, 0, "b=4 a=5 c=");
        break;
    case 3:
        ngx_chat_law_expect(law, 0, "a=1 b=3 c=");
        ngx_chat_law_join(law, 0, 0, "");
        break;
    default:
        ngx_chat_law_expect(law, 0, "a=1 b=3 c=");
        ngx_chat_law_end(law);
    }
}


static void
law_first_of_one_join_stands(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_join(law, 0, 0, "a=1 a=2 b=3 a=3");
        break;
    default:
        ngx_chat_law_expect(law, 0, "a=1 b=3");
        ngx_chat_law_end(law);
    }
}


static void
law_empty_join_reads(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_join(law, 0, 0, "");
        ngx_chat_law_join(law, 1, 1, "a=1 b=2+x");
        break;
    case 1:
        ngx_chat_law_expect(law, 0, "");
        ngx_chat_law_expect(law, 1, "a=1 b=2+");
        ngx_chat_law_join(law, 0, 0, "");
        ngx_chat_law_join(law, 1, 1, "");
        break;
    default:
        ngx_chat_law_expect(law, 0, "");
        ngx_chat_law_expect(law, 1, "a=1 b=2+");
        ngx_chat_law_end(law);
    }
}


/* It may return others, too, but none where nothing differs. */
static void
law_brief_join_returns_what_differs(ngx_chat_law_t *law, ngx_uint_t step)
{
    size_t             i;
    ngx_chat_law_op_t *slot = &law->ops[0];

    switch (step) {
    case 0:
        slot->brief = 1;
        ngx_chat_law_join(law, 0, 0, "a=1 b=2");
        break;
    case 1:
        ngx_chat_law_expect(law, 0, "");
        ngx_chat_law_join(law, 0, 0, "c=4 b=3 a=1");
        break;
    case 2:
        for (i = 0; i < slot->n && !chat_str_is(slot->facts[i].field, "b");
             i++) {
            /* void */
        }

        ngx_chat_law_check(
            law, i < slot->n && chat_str_is(slot->facts[i].value, "2"),
            "a brief reply without a fact that differs");
        slot->brief = 0;
        ngx_chat_law_join(law, 0, 0, "a=5");
        break;
    default:
        ngx_chat_law_expect(law, 0, "a=1 b=2 c=4");
        ngx_chat_law_end(law);
    }
}


static void
law_order_does_not_matter(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_join(law, 0, 0, "a=1 b=2+x");
        ngx_chat_law_join(law, 1, 1, "d=4+");
        break;
    case 1:
        ngx_chat_law_join(law, 0, 0, "c=3");
        ngx_chat_law_join(law, 1, 1, "c=3 b=2+x");
        break;
    case 2:
        ngx_chat_law_join(law, 0, 0, "d=4+ a=1");
        ngx_chat_law_join(law, 1, 1, "a=1 c=3");
        break;
    default:
        ngx_chat_law_expect(law, 0, "a=1 b=2+ c=3 d=4+");
        ngx_chat_law_expect(law, 1, "a=1 b=2+ c=3 d=4+");
        ngx_chat_law_end(law);
    }
}


/* Both are sent before either is answered. */
static void
law_one_of_two_has_it(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_join(law, 0, 0, "claim/1=here x=1");
        ngx_chat_law_join(law, 1, 0, "claim/1=there y=1");
        break;
    default:
        ngx_chat_law_expect(law, 0, "claim/1=here x=1");
        ngx_chat_law_expect(law, 1, "claim/1=here x=1 y=1");
        ngx_chat_law_end(law);
    }
}


static void
law_keys_do_not_mix(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_join(law, 0, 0, "a=1+x");
        ngx_chat_law_join(law, 1, 1, "a=2+y b=1");
        ngx_chat_law_join(law, 2, 2, "a=3+z c=1");
        break;
    case 1:
        ngx_chat_law_expect(law, 0, "a=1+");
        ngx_chat_law_expect(law, 1, "a=2+ b=1");
        ngx_chat_law_expect(law, 2, "a=3+ c=1");
        ngx_chat_law_payloads(law, 0, 0, "a b c");
        ngx_chat_law_payloads(law, 1, 1, "a b c");
        ngx_chat_law_payloads(law, 2, 2, "a b c");
        break;
    case 2:
        ngx_chat_law_expect(law, 0, "a=1+x");
        ngx_chat_law_expect(law, 1, "a=2+y");
        ngx_chat_law_expect(law, 2, "a=3+z");
        ngx_chat_law_clear(law, 0);
        ngx_chat_law_join(law, 1, 1, "");
        ngx_chat_law_join(law, 2, 2, "");
        break;
    default:
        ngx_chat_law_expect(law, 1, "a=2+ b=1");
        ngx_chat_law_expect(law, 2, "a=3+ c=1");
        ngx_chat_law_end(law);
    }
}


static void
law_unawaited_facts(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_join(law, NGX_CHAT_LAW_NO_OP, 0, "a=1 b=2+x");
        ngx_chat_law_join(law, NGX_CHAT_LAW_NO_OP, 0, "a=9 c=3");
        ngx_chat_law_pause(law, 1);
        break;
    case 1:
        ngx_chat_law_join(law, 0, 0, "");
        break;
    default:
        if (law->ops[0].n < 3) {
            law->step -= 2;
            ngx_chat_law_pause(law, 10);
            return;
        }
        ngx_chat_law_expect(law, 0, "a=1 b=2+ c=3");
        ngx_chat_law_end(law);
    }
}


static void
law_dropped_facts_are_gone(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_join(law, 0, 0, "a=1 b=2 c=3 d=4 claim/1=x");
        ngx_chat_law_join(law, 1, 1, "a=1");
        break;
    case 1:
        ngx_chat_law_drop(law, 0, "a c claim/1 unknown");
        ngx_chat_law_drop(law, 2, "a");
        ngx_chat_law_join(law, 0, 0, "");
        ngx_chat_law_join(law, 1, 1, "");
        ngx_chat_law_join(law, 2, 2, "");
        break;
    case 2:
        ngx_chat_law_expect(law, 0, "b=2 d=4");
        ngx_chat_law_expect(law, 1, "a=1");
        ngx_chat_law_expect(law, 2, "");
        ngx_chat_law_join(law, 0, 0, "a=9 claim/1=y e=5");
        break;
    case 3:
        ngx_chat_law_expect(law, 0, "a=9 b=2 claim/1=y d=4 e=5");
        ngx_chat_law_drop(law, 0, "a b d e claim/1");
        ngx_chat_law_join(law, 0, 0, "");
        break;
    default:
        ngx_chat_law_expect(law, 0, "");
        ngx_chat_law_end(law);
    }
}


static void
law_silent_drop(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_join(law, 0, 0, "a=1 b=2 c=3");
        break;
    case 1:
        ngx_chat_law_watch(law, 0, 0, 0, "");
        ngx_chat_law_pause(law, LAW_QUIET);
        break;
    case 2:
        law->watches[0].notified = 0;
        ngx_chat_law_drop(law, 0, "a b");
        ngx_chat_law_pause(law, LAW_QUIET);
        break;
    case 3:
        ngx_chat_law_check(law, law->watches[0].notified == 0, "notified");
        ngx_chat_law_join(law, 0, 0, "d=4");
        ngx_chat_law_await(law, 0);
        break;
    default:
        ngx_chat_law_expect(law, 0, "c=3 d=4");
        ngx_chat_law_end(law);
    }
}


/* n facts with different fields, in memory of the caller. */
static chat_fact_t *
law_many_facts(size_t n)
{
    char        *names;
    size_t       i;
    chat_fact_t *facts;

    facts = ngx_calloc(n * (sizeof(chat_fact_t) + 8), ngx_cycle->log);
    if (facts == NULL) {
        abort();
    }

    names = (char *) (facts + n);
    for (i = 0; i < n; i++, names += 8) {
        (void) snprintf(names, 8, "f%u", (unsigned) i % 1000000);
        facts[i].field = chat_cstr(names);
        facts[i].value = chat_cstr("1");
    }

    return facts;
}


static void
law_many_facts_in_one_join(ngx_chat_law_t *law, ngx_uint_t step)
{
    chat_fact_t *facts;

    switch (step) {
    case 0:
        facts = law_many_facts(LAW_MANY);
        ngx_chat_law_join_facts(law, 0, 0, facts, LAW_MANY);
        ngx_free(facts);
        break;
    case 1:
        ngx_chat_law_check(law, law->ops[0].n == LAW_MANY, "not all are told");
        ngx_chat_law_join(law, 1, 0, "");
        break;
    default:
        ngx_chat_law_check(law, law->ops[1].n == LAW_MANY, "not all are kept");
        ngx_chat_law_check(
            law, ngx_chat_law_find(law, 1, chat_cstr("f999")) != NULL,
            "the last one is not kept");
        ngx_chat_law_end(law);
    }
}


static void
law_too_many_facts_are_refused(ngx_chat_law_t *law, ngx_uint_t step)
{
    chat_fact_t *facts;

    switch (step) {
    case 0:
        ngx_chat_law_join(law, 0, 0, "a=1");
        break;
    case 1:
        facts = law_many_facts(LAW_TOO_MANY);
        ngx_chat_law_join_facts(law, 0, 0, facts, LAW_TOO_MANY);
        ngx_chat_law_watch_facts(law, 0, 1, 0, facts, LAW_TOO_MANY);
        ngx_chat_law_join_facts(law, NGX_CHAT_LAW_NO_OP, 1, facts,
                                LAW_TOO_MANY);
        ngx_free(facts);
        break;
    case 2:
        ngx_chat_law_check(law, law->ops[0].rc == CHAT_LIMIT,
                           "the join is not refused with CHAT_LIMIT");
        ngx_chat_law_check(law, law->ops[1].rc == CHAT_LIMIT,
                           "the watch is not refused with CHAT_LIMIT");
        ngx_chat_law_unwatch(law, 0);
        ngx_chat_law_join(law, 0, 0, "");
        ngx_chat_law_join(law, 1, 2, "a=1");
        break;
    default:
        ngx_chat_law_check(law,
                           ngx_chat_law_find(law, 0, chat_cstr("a")) != NULL,
                           "what was there is gone");
        ngx_chat_law_expect(law, 1, "a=1");
        ngx_chat_law_end(law);
    }
}


/* The limit does not include a worker's watch. */
static void
law_full_key_is_watched(ngx_chat_law_t *law, ngx_uint_t step)
{
    size_t       most = law->store->most_facts;
    chat_fact_t *facts;

    switch (step) {
    case 0:
        facts = law_many_facts(most);
        ngx_chat_law_join_facts(law, NGX_CHAT_LAW_NO_OP, 0, facts, most);
        ngx_free(facts);
        ngx_chat_law_join(law, 0, 0, "too=many");
        break;
    case 1:
        ngx_chat_law_check(law, law->ops[0].rc == CHAT_LIMIT, "it is full");
        ngx_chat_law_watch(law, 0, 0, 0, "");
        break;
    case 2:
        ngx_chat_law_check(law, law->ops[0].rc == CHAT_OK, "not watched");
        ngx_chat_law_check(law, law->ops[0].n >= most, "not all are told");
        ngx_chat_law_join(law, NGX_CHAT_LAW_NO_OP, 0, "more=1");
        ngx_chat_law_await(law, 0);
        break;
    default:
        ngx_chat_law_end(law);
    }
}


/* Each round puts as many facts as the first, and drops them. */
static void
law_dropped_facts_make_room(ngx_chat_law_t *law, ngx_uint_t step)
{
    chat_fact_t *facts = law_many_facts(LAW_MANY);

    if (step != 0) {
        ngx_chat_law_check(law, law->ops[0].rc == CHAT_OK, "no room is left");
        ngx_chat_law_check(law, law->ops[0].n == LAW_MANY, "not all are told");
        ngx_chat_law_drop_facts(law, 0, facts, LAW_MANY);
    }

    if (step < LAW_TOO_MANY / LAW_MANY) {
        ngx_chat_law_join_facts(law, 0, 0, facts, LAW_MANY);
    } else {
        ngx_chat_law_end(law);
    }

    ngx_free(facts);
}


const ngx_chat_law_def_t ngx_chat_laws_of_joins[] = {
    { "a-fact-is-put-if-absent-and-never-changed", law_put_if_absent, 0 },
    { "of-one-field-twice-in-a-join-the-first-stands",
      law_first_of_one_join_stands, 0 },
    { "an-empty-join-reads-and-puts-nothing", law_empty_join_reads, 0 },
    { "a-brief-join-returns-what-differs", law_brief_join_returns_what_differs,
      0 },
    { "the-order-of-joins-does-not-matter", law_order_does_not_matter, 0 },
    { "of-two-that-want-a-fact-one-has-it-and-both-know",
      law_one_of_two_has_it, 0 },
    { "keys-of-one-tag-and-of-others-do-not-mix", law_keys_do_not_mix, 0 },
    { "facts-of-a-join-without-an-op-arrive", law_unawaited_facts, 0 },
    { "dropped-facts-are-gone-and-may-be-put-again",
      law_dropped_facts_are_gone, 0 },
    { "a-drop-does-not-notify", law_silent_drop, 0 },
    { "dropped-facts-make-room", law_dropped_facts_make_room, 0 },
    { "a-key-that-is-full-can-be-watched", law_full_key_is_watched, 0 },
    { "a-thousand-facts-in-one-join", law_many_facts_in_one_join, 0 },
    { "too-many-facts-are-refused-with-a-limit",
      law_too_many_facts_are_refused, 0 },
    { NULL, NULL, 0 }
};
