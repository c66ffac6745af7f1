/*
 * test_merge_open.c: open calls of a fresh turn, with and without a stored
 * result.
 *
 * Each gets its dialect's error, at the position of a result. Calls with a
 * result or decision, or that the client must not answer, stay byte for byte.
 */

#define _GNU_SOURCE

#include "merge_open_run.h"

/* The expected fresh turn: r for those of mask, errors for the rest. */
static void
with_errors(const form_t *form, unsigned n, unsigned mask)
{
    unsigned i;

    want.len = 0;
    chat_buf_puts(&want, form->head);

    for (i = 0; i < n; i++) {
        if (form->answered && !(mask >> i & 1)) {
            form_item(&want, form->error, i, "");
        } else {
            form_call(form, i, mask >> i & 1, "r", &want);
        }
    }

    if (form->middle != NULL) {
        want.len -= want.data[want.len - 1] == ',';
        chat_buf_puts(&want, form->middle);

        for (i = 0; i < n; i++) {
            form_item(&want, mask >> i & 1 ? form->result : form->error, i,
                      "r");
        }
    }

    form_item(&want, form->extra_tail, 0, "");
}


static void
s66_open_calls_get_the_error_of_their_dialect(void **state)
{
    size_t   f;
    taken_t  t;
    unsigned n, stored, own;

    for (f = 0; f < FORMS; f++) {
        for (n = 1; n <= 3; n++) {
            for (stored = 0; stored <= ALL(n); stored++) {
                for (own = 0; own <= ALL(n); own++) {
                    store_begin();
                    form_write(&forms[f], n, stored, 0, "r", &text);
                    take(&t, &forms[f], chat_buf_str(&text));
                    drop(&t);

                    form_write(&forms[f], n, own, 1, "r", &text);
                    take(&t, &forms[f], chat_buf_str(&text));
                    repair(&t, 1);
                    with_errors(&forms[f], n,
                                own | (stored != ALL(n) ? stored : own));
                    same(&got, &want);
                    drop(&t);
                }
            }
        }
    }
}


/* The calls of a chain, and their stored results. */
static void
chain(const form_t *form, unsigned n, const char *stored)
{
    char         id[16];
    taken_t      t;
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

    if (*stored) {
        form_chain(form, stored, &text);
        take(&t, form, chat_buf_str(&text));
        drop(&t);
    }
}


static void
s66_open_calls_of_a_chain_stand_in_its_order(void **state)
{
    size_t                   f, i;
    taken_t                  t;
    const char              *c;
    static const char *const rows[][3] = {
        /* in the store, in the body, sent upstream: letters are errors */
        { "", "", "a" },         { "", "", "abc" },      { "1", "", "a1c" },
        { "", "1", "a1c" },      { "02", "", "0b2" },    { "0", "2", "0b2" },
        { "2", "0", "0b2" },     { "13", "", "a1c3" },   { "3", "1", "a1c3" },
        { "1", "20", "201" },    { "", "0123", "0123" }, { "01", "", "01" },
        { "4", "13", "a1c34f" },
    };

    for (f = 0; f < FORMS; f++) {
        for (i = 0; forms[f].chain && i < sizeof(rows) / sizeof(rows[0]); i++)
        {
            chain(&forms[f], (unsigned) strlen(rows[i][2]), rows[i][0]);

            text.len = want.len = 0;
            chat_buf_puts(&text, forms[f].chain);
            chat_buf_puts(&want, forms[f].chain);
            for (c = rows[i][1]; *c; c++) {
                form_item(&text, forms[f].result, (unsigned) (*c - '0'), "r");
            }
            for (c = rows[i][2]; *c; c++) {
                form_item(&want, *c < 'a' ? forms[f].result : forms[f].error,
                          (unsigned) (*c < 'a' ? *c - '0' : *c - 'a'), "r");
            }
            form_item(&text, forms[f].extra_tail, 0, "");
            form_item(&want, forms[f].extra_tail, 0, "");

            take(&t, &forms[f], chat_buf_str(&text));
            assert_true(t.a.rq.chained);
            repair(&t, 1);
            same(&got, &want);
            drop(&t);
        }
    }
}


#define PREVIOUS "{\"previous_response_id\":\"resp_1\",\"input\":"
#define OUTPUT(n)                                              \
    "{\"type\":\"function_call_output\",\"call_id\":\"call_" n \
    "\",\"output\":" IN_WORDS "}"


static void
s66_words_that_stand_alone_become_a_list(void **state)
{
    chain(RESPONSES, 2, "");
    becomes(RESPONSES, 1, PREVIOUS " \"h\\u0069\" , \"x\" : 1.0 }",
            PREVIOUS "[" OUTPUT("0") "," OUTPUT("1") ",{\"role\":\"user\","
                                                     "\"content\":\"hi\"}],"
                                                     "\"x\":1.0}");
    becomes(RESPONSES, 0, PREVIOUS " \"h\\u0069\" , \"x\" : 1.0 }", NULL);

    /* no call of this chain is known */
    store_begin();
    becomes(RESPONSES, 1, PREVIOUS "\"hi\"}", NULL);
}


/* One item of each type of call, and its error. */
static void
s66_each_type_of_openai_responses_has_its_error(void **state)
{
    size_t                   i;
    char                     body[1024], result[2048];
    static const char *const rows[][2] = {
        { "\"type\":\"function_call\",\"call_id\":\"k\",\"name\":\"f\"",
          ",{\"type\":\"function_call_output\",\"call_id\":\"k\","
          "\"output\":" IN_WORDS "}" },
        { "\"type\":\"custom_tool_call\",\"call_id\":\"k\",\"name\":\"f\"",
          ",{\"type\":\"custom_tool_call_output\",\"call_id\":\"k\","
          "\"output\":" IN_WORDS "}" },
        { "\"type\":\"mcp_approval_request\",\"id\":\"k\",\"name\":\"f\"",
          ",{\"type\":\"mcp_approval_response\",\"approval_request_id\":"
          "\"k\",\"approve\":false,\"reason\":" NOTE "}" },
        { "\"type\":\"local_shell_call\",\"call_id\":\"k\"",
          ",{\"type\":\"local_shell_call_output\",\"id\":\"k\","
          "\"output\":" IN_WORDS "}" },
        { "\"type\":\"shell_call\",\"call_id\":\"k\"",
          ",{\"type\":\"shell_call_output\",\"call_id\":\"k\",\"output\":"
          "[{\"stdout\":\"\",\"stderr\":" NOTE
          ",\"outcome\":{\"type\":\"timeout\"}}]}" },
        { "\"type\":\"apply_patch_call\",\"call_id\":\"k\"",
          ",{\"type\":\"apply_patch_call_output\",\"call_id\":\"k\","
          "\"status\":\"failed\",\"output\":" NOTE "}" },
        { "\"type\":\"tool_search_call\",\"call_id\":\"k\",\"execution\":"
          "\"client\"",
          ",{\"type\":\"tool_search_output\",\"call_id\":\"k\","
          "\"execution\":\"client\",\"status\":\"incomplete\","
          "\"tools\":[]}" },
        /* no screenshot can be invented, nor another item's answer */
        { "\"type\":\"computer_call\",\"call_id\":\"k\"", "" },
        { "\"type\":\"tool_search_call\",\"call_id\":\"k\",\"execution\":"
          "\"server\"",
          "" },
        { "\"type\":\"web_search_call\",\"id\":\"k\"", "" },
        { "\"type\":\"function_call\",\"call_id\":\"k\",\"status\":"
          "\"incomplete\"",
          "" },
    };

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        store_begin();
        snprintf(body, sizeof(body), "{\"input\":[" HI ",{%s}," HI "]}",
                 rows[i][0]);
        snprintf(result, sizeof(result), "{\"input\":[" HI ",{%s}%s," HI "]}",
                 rows[i][0], rows[i][1]);
        becomes(RESPONSES, 1, body, rows[i][1][0] ? result : NULL);
    }
}


static void
s69_an_approval_of_openai_responses_stays(void **state)
{
    becomes(RESPONSES, 1,
            "{\"input\":[" HI ",{\"type\":\"mcp_approval_request\",\"id\":"
            "\"k\",\"name\":\"f\"},{\"type\":\"mcp_approval_response\","
            "\"approval_request_id\":\"k\",\"approve\":true}," HI "]}",
            NULL);
}


/*
 * Only a conversation at the provider keeps the result, no earlier response.
 */
static void
s68_s123_no_error_for_a_result_that_the_provider_has(void **state)
{
    chat_facts_t facts;
    chat_hash_t  digest;

    chain(RESPONSES, 2, "");
    memset(&digest, 3, sizeof(digest));
    chat_facts_init(&facts, store.arena);
    chat_facts_result(&facts, chat_cstr("call_0"), CHAT_OUTCOME_OK, &digest,
                      &digest, NULL);
    chat_facts_delivered(&facts, chat_cstr("call_0"));
    (void) store_join(&facts);

    becomes(RESPONSES, 1, "{\"conversation\":\"conv_1\",\"input\":[" HI "]}",
            "{\"conversation\":\"conv_1\",\"input\":[" OUTPUT("1") "," HI
                                                                   "]}");
    becomes(RESPONSES, 1, PREVIOUS "[" HI "]}",
            PREVIOUS "[" OUTPUT("0") "," OUTPUT("1") "," HI "]}");
}


/* A chain has no calls in the body: a decision is not requested again. */
static void
s69_questions_of_a_chain(void **state)
{
    int          decided;
    chat_facts_t facts;
    chat_hash_t  digest;

    for (decided = 0; decided < 2; decided++) {
        chain(RESPONSES, 1, "");
        memset(&digest, 3, sizeof(digest));
        chat_facts_init(&facts, store.arena);
        chat_facts_call(&facts, chat_cstr("mcpr_1"), CHAT_KIND_APPROVAL, 1,
                        &digest);
        chat_facts_call(&facts, chat_cstr("ws_1"), CHAT_KIND_PROVIDER, 2,
                        &digest);
        if (decided) {
            chat_facts_approval(&facts, chat_cstr("mcpr_1"),
                                CHAT_APPROVAL_GRANTED, chat_cstr(""));
        }
        (void) store_join(&facts);

        becomes(RESPONSES, 1, PREVIOUS "[" HI "]}",
                decided ? PREVIOUS "[" OUTPUT("0") "," HI "]}"
                        : PREVIOUS
                    "[" OUTPUT("0") ",{\"type\":\"mcp_approval_response\","
                                    "\"approval_request_id\":\"mcpr_1\","
                                    "\"approve\":false,\"reason\":" NOTE
                                    "}," HI "]}");
    }
}


static void
too_many_open_calls_are_left_alone(void **state)
{
    unsigned i, n;
    taken_t  t;

    for (n = CHAT_OPEN_MAX; n <= CHAT_OPEN_MAX + 1; n++) {
        text.len = 0;
        chat_buf_puts(&text, AI_SDK->head);
        for (i = 0; i < n; i++) {
            form_item(&text, AI_SDK->call, i, "");
        }
        form_item(&text, AI_SDK->extra_tail, 0, "");

        memset(&t, 0, sizeof(t));
        t.a.rq.tenant = &test_tenant;
        t.a.arena = chat_arena_create(0);
        assert_int_equal(
            chat_json_parse(&t.doc, t.a.arena, chat_buf_str(&text)), CHAT_OK);
        assert_int_equal(
            chat_dialect_read(AI_SDK->dialect, &t.doc, t.a.arena, &t.a.rq),
            CHAT_OK);
        chat_results_init(&t.results, t.a.arena);
        assert_int_equal(chat_results_open(&t.results, &t.a.rq, 1),
                         n > CHAT_OPEN_MAX ? CHAT_LIMIT : CHAT_OK);
        assert_int_equal(t.results.count, n > CHAT_OPEN_MAX ? 0 : n);
        drop(&t);
    }
}


/* With any amount of memory: success or CHAT_ERROR. */
static void
without_memory_nothing_is_added(void **state)
{
    size_t         f, limit;
    chat_rc_e      rc;
    taken_t        t;
    chat_arena_t  *small;
    chat_results_t results;

    for (f = 0; f < FORMS; f++) {
        store_begin();
        form_write(&forms[f], 5, 1, 1, "r", &text);
        take(&t, &forms[f], chat_buf_str(&text));

        for (rc = CHAT_ERROR, limit = 16; rc != CHAT_OK; limit += 48) {
            assert_true(limit < 1 << 20);
            small = chat_arena_create(limit);
            assert_non_null(small);
            chat_results_init(&results, small);
            rc = chat_results_open(&results, &t.a.rq, 1);
            assert_int_equal(results.count, rc == CHAT_OK ? 4 : 0);
            chat_arena_destroy(small);
        }

        drop(&t);
    }
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(s66_open_calls_get_the_error_of_their_dialect,
                               fresh),
        cmocka_unit_test_setup(s66_open_calls_of_a_chain_stand_in_its_order,
                               fresh),
        cmocka_unit_test_setup(s66_words_that_stand_alone_become_a_list,
                               fresh),
        cmocka_unit_test_setup(s66_each_type_of_openai_responses_has_its_error,
                               fresh),
        cmocka_unit_test_setup(s69_an_approval_of_openai_responses_stays,
                               fresh),
        cmocka_unit_test_setup(
            s68_s123_no_error_for_a_result_that_the_provider_has, fresh),
        cmocka_unit_test_setup(s69_questions_of_a_chain, fresh),
        cmocka_unit_test_setup(too_many_open_calls_are_left_alone, fresh),
        cmocka_unit_test_setup(without_memory_nothing_is_added, fresh),
    };

    return cmocka_run_group_tests(tests, NULL, over);
}
