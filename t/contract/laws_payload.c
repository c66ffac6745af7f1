/*
 * laws_payload.c: payloads are stored apart from the facts, with the valid
 * value; the first one is never replaced; payloads() returns them, and a join
 * that needs them.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_chat_law.h"


static void
law_first_payload_stands(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_join(law, 0, 0, "r=o+one");
        break;
    case 1:
        ngx_chat_law_expect(law, 0, "r=o+");
        ngx_chat_law_join(law, 0, 0, "r=o+two");
        break;
    case 2:
        ngx_chat_law_expect(law, 0, "r=o+");
        ngx_chat_law_join(law, 0, 0, "r=o");
        break;
    case 3:
        ngx_chat_law_expect(law, 0, "r=o+");
        ngx_chat_law_payloads(law, 0, 0, "r");
        break;
    default:
        ngx_chat_law_expect(law, 0, "r=o+one");
        ngx_chat_law_end(law);
    }
}


static void
law_payload_of_what_stands(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_join(law, 0, 0, "r=o s=e+s");
        break;
    case 1:
        ngx_chat_law_expect(law, 0, "r=o s=e+");
        ngx_chat_law_join(law, 0, 0, "r=e+other s=o+other");
        break;
    case 2:
        ngx_chat_law_expect(law, 0, "r=o s=e+");
        ngx_chat_law_payloads(law, 0, 0, "r s");
        break;
    case 3:
        ngx_chat_law_expect(law, 0, "s=e+s");
        ngx_chat_law_join(law, 0, 0, "r=o+mine");
        break;
    case 4:
        ngx_chat_law_expect(law, 0, "r=o+ s=e+");
        ngx_chat_law_payloads(law, 0, 0, "r s");
        break;
    default:
        ngx_chat_law_expect(law, 0, "r=o+mine s=e+s");
        ngx_chat_law_end(law);
    }
}


/* Twice in one join: the payload must be that of the valid value. */
static void
law_payload_within_a_join(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_join(law, 0, 0, "r=o r=e+e s=o s=o+s t=o+t t=o+u");
        break;
    case 1:
        ngx_chat_law_expect(law, 0, "r=o s=o+ t=o+");
        ngx_chat_law_payloads(law, 0, 0, "r s t");
        break;
    default:
        ngx_chat_law_expect(law, 0, "s=o+s t=o+t");
        ngx_chat_law_end(law);
    }
}


static void
law_only_those_asked(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_join(law, 0, 0, "a=1+x b=2 c=3+ d=4+z e=5");
        ngx_chat_law_payloads(law, 1, 1, "a b");
        break;
    case 1:
        ngx_chat_law_expect(law, 0, "a=1+ b=2 c=3+ d=4+ e=5");
        ngx_chat_law_expect(law, 1, "");
        ngx_chat_law_payloads(law, 0, 0, "e d b nothing c");
        ngx_chat_law_payloads(law, 1, 0, "b nothing");
        ngx_chat_law_payloads(law, 2, 0, "");
        break;
    default:
        ngx_chat_law_expect(law, 0, "c=3+ d=4+z");
        ngx_chat_law_expect(law, 1, "");
        ngx_chat_law_expect(law, 2, "");
        ngx_chat_law_end(law);
    }
}


static void
law_asking_puts_nothing(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_payloads(law, 0, 0, "a b");
        ngx_chat_law_join(law, 1, 0, "");
        break;
    default:
        ngx_chat_law_expect(law, 0, "");
        ngx_chat_law_expect(law, 1, "");
        ngx_chat_law_end(law);
    }
}


/* A watch without a payload must be notified when it arrives. */
static void
law_late_payload_is_an_addition(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_join(law, 0, 0, "r=o");
        break;
    case 1:
        ngx_chat_law_watch(law, 0, 0, 0, "");
        break;
    case 2:
        ngx_chat_law_expect(law, 0, "r=o");
        ngx_chat_law_join(law, 0, 0, "r=o+late");
        ngx_chat_law_await(law, 0);
        break;
    default:
        ngx_chat_law_expect(law, 0, "r=o+");
        ngx_chat_law_end(law);
    }
}


static void
law_clear_takes_payloads(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_join(law, 0, 0, "r=o+x s=o+y");
        break;
    case 1:
        ngx_chat_law_clear(law, 0);
        ngx_chat_law_join(law, 0, 0, "r=o s=o");
        break;
    case 2:
        ngx_chat_law_check(law, law->ops[0].n == 3, "not r, s and cleared");
        ngx_chat_law_payloads(law, 0, 0, "r s");
        break;
    default:
        ngx_chat_law_expect(law, 0, "");
        ngx_chat_law_end(law);
    }
}


static void
law_unawaited_payload(ngx_chat_law_t *law, ngx_uint_t step)
{
    switch (step) {
    case 0:
        ngx_chat_law_join(law, NGX_CHAT_LAW_NO_OP, 0, "r=o+x");
        ngx_chat_law_join(law, NGX_CHAT_LAW_NO_OP, 0, "r=o+y s=e+z");
        ngx_chat_law_pause(law, 1);
        break;
    case 1:
        ngx_chat_law_payloads(law, 0, 0, "r s");
        break;
    default:
        if (law->ops[0].n < 2) {
            law->step -= 2;
            ngx_chat_law_pause(law, 10);
            return;
        }
        ngx_chat_law_expect(law, 0, "r=o+x s=e+z");
        ngx_chat_law_end(law);
    }
}


/* The answer ends with these facts, given as text. */
static void
law_expect_end(ngx_chat_law_t *law, const char *text)
{
    size_t             i, n;
    chat_fact_t        wanted[NGX_CHAT_LAW_FACTS];
    ngx_chat_law_op_t *slot = &law->ops[0];

    n = ngx_chat_law_read(text, wanted);
    ngx_chat_law_check(law, slot->nneeds == n && slot->n >= n, text);

    for (i = 0; i < n && slot->n >= n; i++) {
        ngx_chat_law_check(
            law,
            chat_str_eq(slot->facts[slot->n - n + i].field, wanted[i].field)
                && chat_str_eq(slot->facts[slot->n - n + i].value,
                               wanted[i].value)
                && chat_str_eq(slot->facts[slot->n - n + i].payload,
                               wanted[i].payload),
            text);
    }

    slot->n -= slot->n >= n ? n : 0;
}


/* All before it is put in any case. */
static void
law_last_fact_needs_others(ngx_chat_law_t *law, ngx_uint_t step)
{
    ngx_chat_law_op_t *slot = &law->ops[0];

    switch (step) {
    case 0:
        slot->needs = "r s";
        ngx_chat_law_join(law, 0, 0, "a=1 c=1");
        break;
    case 1:
        law_expect_end(law, "");
        ngx_chat_law_expect(law, 0, "a=1");
        ngx_chat_law_join(law, 1, 0, "r=o+x s=e");
        break;
    case 2:
        ngx_chat_law_join(law, 0, 0, "b=2 c=1");
        break;
    case 3:
        law_expect_end(law, "");
        ngx_chat_law_expect(law, 0, "a=1 b=2 r=o+ s=e");
        ngx_chat_law_join(law, 1, 0, "s=e+");
        break;
    case 4:
        slot->needs = "s r";
        ngx_chat_law_join(law, 0, 0, "c=1");
        break;
    case 5:
        law_expect_end(law, "s=e+ r=o+x");
        ngx_chat_law_expect(law, 0, "a=1 b=2 c=1 r=o+ s=e+");
        slot->needs = "r";
        ngx_chat_law_join(law, 0, 0, "c=2");
        break;
    default:
        law_expect_end(law, "");
        ngx_chat_law_expect(law, 0, "a=1 b=2 c=1 r=o+ s=e+");
        ngx_chat_law_end(law);
    }
}


const ngx_chat_law_def_t ngx_chat_laws_of_payloads[] = {
    { "the-first-payload-stands", law_first_payload_stands, 0 },
    { "a-payload-is-that-of-the-value-that-stands", law_payload_of_what_stands,
      0 },
    { "so-it-is-within-one-join", law_payload_within_a_join, 0 },
    { "payloads-answers-those-asked-that-have-one", law_only_those_asked, 0 },
    { "the-last-fact-of-a-join-waits-for-the-payloads-that-it-needs",
      law_last_fact_needs_others, 0 },
    { "asking-for-payloads-puts-nothing", law_asking_puts_nothing, 0 },
    { "a-payload-that-comes-late-notifies", law_late_payload_is_an_addition,
      0 },
    { "clear-takes-the-payloads-too", law_clear_takes_payloads, 0 },
    { "payloads-of-a-join-without-an-op-arrive", law_unawaited_payload, 0 },
    { NULL, NULL, 0 }
};
