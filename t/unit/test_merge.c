/*
 * test_merge.c: results that one request brings are merged into another's
 * body, as the dialects read and write them.
 *
 * merge_run.h describes the bodies and what is compared.
 */

#define _GNU_SOURCE

#include "merge_run.h"

static chat_buf_t text, want, got;


static int
fresh(void **state)
{
    store_begin();
    return 0;
}


static int
over(void **state)
{
    chat_buf_free(&text);
    chat_buf_free(&want);
    chat_buf_free(&got);
    store_end();
    return 0;
}


/* Puts the results of a body into the store. */
static void
bring(const form_t *form, unsigned n, unsigned mask, const char *source)
{
    taken_t t;

    form_write(form, n, mask, 0, source, &text);
    take(&t, form, chat_buf_str(&text));
    drop(&t);
}


static void
s33_s59_bodies_complete_one_another(void **state)
{
    size_t   f;
    int      extra;
    taken_t  t;
    unsigned n, one, two;

    assert_int_equal(FORMS, chat_dialect_count);

    for (f = 0; f < FORMS; f++) {
        for (n = 2; n <= 5; n++) {
            for (one = 1; one < ALL(n); one++) {
                store_begin();
                bring(&forms[f], n, one, "r");
                two = ALL(n) & ~one;

                for (extra = 0; extra < 2; extra++) {
                    form_write(&forms[f], n, two, extra, "r", &text);
                    take(&t, &forms[f], chat_buf_str(&text));
                    assert_int_equal(t.a.rq.class,
                                     extra ? CHAT_CLASS_FRESH
                                           : CHAT_CLASS_CONTINUATION);
                    complete(&t, &got);
                    form_write(&forms[f], n, ALL(n), extra, "r", &want);
                    same(&got, &want);
                    drop(&t);
                }
            }
        }
    }
}


static void
s27_a_result_of_the_body_is_not_replaced(void **state)
{
    size_t      f, i, k, n;
    taken_t     t;
    chat_call_t call;

    for (f = 0; f < FORMS; f++) {
        store_begin();
        bring(&forms[f], 3, 3, "first");
        form_write(&forms[f], 3, 6, 0, "own", &text);
        take(&t, &forms[f], chat_buf_str(&text));
        complete(&t, &got);
        drop(&t);

        take(&t, &forms[f], chat_buf_str(&got));
        assert_int_equal(t.a.rq.ncalls, 3);

        for (i = k = 0; i < 3; i++) {
            call = t.a.rq.calls[i];
            n = strlen(i ? "own\"" : "first\"");
            assert_int_equal(call.outcome, CHAT_OUTCOME_OK);
            k += memmem(call.payload.data, call.payload.len,
                        i ? "own\"" : "first\"", n)
                 != NULL;
        }

        assert_int_equal(k, 3);
        drop(&t);
    }
}


static void
nothing_to_merge_is_the_body_as_it_is(void **state)
{
    size_t  f;
    taken_t t;

    for (f = 0; f < FORMS; f++) {
        store_begin();
        bring(&forms[f], 2, 1, "r");
        form_write(&forms[f], 2, 1, 0, "r", &text);
        take(&t, &forms[f], chat_buf_str(&text));
        complete(&t, &got);
        assert_int_equal(t.results.count, 0);
        assert_true(chat_str_eq(chat_buf_str(&got), chat_buf_str(&text)));
        drop(&t);
    }
}


/* A chain of n calls is known to the store. */
static void
chain(unsigned n)
{
    char         id[16];
    unsigned     i;
    chat_facts_t facts;
    chat_hash_t  digest;

    store_begin();
    memset(&digest, 3, sizeof(digest));
    chat_facts_init(&facts, store.arena);

    for (i = 0; i < n; i++) {
        snprintf(id, sizeof(id), "call_%u", i);
        chat_facts_call(&facts, chat_cstr(id), CHAT_KIND_CLIENT, i, &digest);
    }

    chat_facts_add(&facts, "seal", chat_cstr("1"));
    (void) store_join(&facts);
}


static void
s59_results_of_a_chain_stand_in_the_order_of_its_calls(void **state)
{
    size_t                   f, i;
    taken_t                  t;
    static const char *const rows[][3] = {
        /* stored results, the body's own results, the upstream body */
        { "0", "1", "01" },
        { "1", "0", "01" },
        { "02", "1", "012" },
        { "1", "02", "012" },
        { "0", "12", "012" },
        { "2", "01", "012" },
        { "12", "0", "012" },
        { "01", "2", "012" },
        { "34", "012", "01234" },
        { "0134", "2", "01234" },
        /* a different order of the client stays */
        { "1", "20", "201" },
        { "0", "21", "021" },
        { "02", "31", "0312" },
    };

    for (f = 0; f < FORMS; f++) {
        for (i = 0; forms[f].chain && i < sizeof(rows) / sizeof(rows[0]); i++)
        {
            chain((unsigned) strlen(rows[i][2]));
            form_chain(&forms[f], rows[i][0], &text);
            take(&t, &forms[f], chat_buf_str(&text));
            assert_true(t.a.rq.chained);
            drop(&t);

            form_chain(&forms[f], rows[i][1], &text);
            take(&t, &forms[f], chat_buf_str(&text));
            complete(&t, &got);
            form_chain(&forms[f], rows[i][2], &want);
            same(&got, &want);
            drop(&t);
        }
    }
}


static void
s40_an_approval_from_outside_goes_into_a_chain(void **state)
{
    int          approvals;
    taken_t      t;
    chat_facts_t facts;
    chat_hash_t  digest;

    for (approvals = 0; approvals < 2; approvals++) {
        chain(1);
        memset(&digest, 3, sizeof(digest));
        chat_facts_init(&facts, store.arena);
        chat_facts_call(&facts, chat_cstr("call_1"), CHAT_KIND_APPROVAL, 1,
                        &digest);
        chat_facts_approval(&facts, chat_cstr("call_1"), CHAT_APPROVAL_GRANTED,
                            chat_cstr("\"why\""));
        (void) store_join(&facts);

        form_chain(RESPONSES, "0", &text);
        take(&t, RESPONSES, chat_buf_str(&text));
        asker_look(&t.a);
        assert_int_equal(t.a.d.verdict, CHAT_GATE_CLAIM);
        assert_int_equal(t.a.d.merge, 1);

        /* a fresh turn gets none */
        collect(&t, approvals);
        assert_int_equal(t.results.count, approvals);
        drop(&t);
    }

    take(&t, RESPONSES, chat_buf_str(&text));
    complete(&t, &got);
    drop(&t);

    want.len = 0;
    chat_buf_puts(&want, RESPONSES->chain);
    form_item(&want, RESPONSES->result, 0, "r");
    chat_buf_puts(&want, ",{\"type\":\"mcp_approval_response\","
                         "\"approval_request_id\":\"call_1\","
                         "\"approve\":true,\"reason\":\"why\"}]}");
    same(&got, &want);
}


static void
a_body_that_takes_nothing_is_refused(void **state)
{
    taken_t       t;
    chat_result_t result;

    take(&t, RESPONSES, chat_cstr("{\"input\":\"hi\"}"));
    memset(&result, 0, sizeof(result));
    result.id = chat_cstr("call_0");
    result.outcome = CHAT_OUTCOME_OK;
    result.payload = chat_cstr("\"x\"");
    t.results.items = &result;
    t.results.count = 1;
    got.len = 0;
    assert_int_equal(
        chat_merge(RESPONSES->dialect, &t.doc, &t.a.rq, &t.results, &got),
        CHAT_BAD);
    assert_int_equal(got.len, 0);
    drop(&t);
}


/* With any amount of memory: success or CHAT_ERROR. */
static void
without_memory_nothing_is_half_merged(void **state)
{
    size_t         i;
    chat_rc_e      rc = CHAT_ERROR;
    size_t         limit;
    taken_t        t;
    chat_arena_t  *small;
    chat_results_t results;

    for (i = 0; i < FORMS; i++, rc = CHAT_ERROR) {
        store_begin();
        bring(&forms[i], 5, 15, "r");
        form_write(&forms[i], 5, 16, 0, "r", &text);
        take(&t, &forms[i], chat_buf_str(&text));

        for (limit = 16; rc != CHAT_OK; limit += 48) {
            assert_true(limit < 1 << 20);
            small = chat_arena_create(limit);
            assert_non_null(small);
            chat_results_init(&results, small);
            rc = chat_results_collect(&results, &t.a.rq,
                                      &t.a.rq.steps[t.a.rq.nsteps - 1],
                                      store.facts, store.count, NULL, 0, 1);
            assert_true(rc == CHAT_ERROR || results.count == 4);
            chat_arena_destroy(small);
        }

        drop(&t);
    }
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(s33_s59_bodies_complete_one_another, fresh),
        cmocka_unit_test_setup(s27_a_result_of_the_body_is_not_replaced,
                               fresh),
        cmocka_unit_test_setup(nothing_to_merge_is_the_body_as_it_is, fresh),
        cmocka_unit_test_setup(
            s59_results_of_a_chain_stand_in_the_order_of_its_calls, fresh),
        cmocka_unit_test_setup(s40_an_approval_from_outside_goes_into_a_chain,
                               fresh),
        cmocka_unit_test_setup(a_body_that_takes_nothing_is_refused, fresh),
        cmocka_unit_test_setup(without_memory_nothing_is_half_merged, fresh),
    };

    return cmocka_run_group_tests(tests, NULL, over);
}
