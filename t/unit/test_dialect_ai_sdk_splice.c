/*
 * test_dialect_ai_sdk_splice.c: results put into the AI SDK's transcripts. All
 * bytes but white space within a part are compared. The file with the suffix
 * _orders tests the members of a part in any order.
 */

#include "ai_sdk_run.h"


/* Merged is the part between head and tail. */
static void
assert_part(const char *part)
{
    chat_buf_t want = { 0 };

    chat_buf_puts(&want, HEAD);
    chat_buf_puts(&want, part);
    chat_buf_puts(&want, TAIL);

    if (!chat_str_eq(chat_buf_str(&want), chat_buf_str(&merged))) {
        fail_msg("got %.*s", (int) merged.len, (const char *) merged.data);
    }

    chat_buf_free(&want);
}


typedef struct {
    const char     *part;
    chat_outcome_e  outcome;
    chat_approval_e approval;
    const char     *payload;
    const char     *want; /* NULL: cannot be inserted */
} row_t;


static void
rows_check(const row_t *rows, size_t n)
{
    chat_result_t result;
    size_t        i;

    for (i = 0; i < n; i++) {
        take_part(rows[i].part);

        memset(&result, 0, sizeof(result));
        result.call = &rq.calls[0];
        result.id = rq.calls[0].id;
        result.outcome = rows[i].outcome;
        result.approval = rows[i].approval;
        result.payload = chat_cstr(rows[i].payload);

        if (rows[i].want == NULL) {
            assert_int_equal(splice(&result, 1), CHAT_BAD);
            continue;
        }

        assert_int_equal(splice(&result, 1), CHAT_OK);
        assert_part(rows[i].want);
    }
}


#define P "{\"type\":\"tool-dig\",\"toolCallId\":\"a\","
#define ASK "\"approval\":{\"id\":\"p\"}"

static void
results(void **state)
{
    static const row_t rows[] = {
        { P "\"state\":\"input-available\",\"input\":{}}", CHAT_OUTCOME_OK, 0,
          "{\"x\": 1.0}",
          P "\"state\":\"output-available\",\"input\":{},"
            "\"output\":{\"x\": 1.0}}" },
        { P "\"state\" : \"input-available\"\n}", CHAT_OUTCOME_ERROR, 0,
          "\"no\"", P "\"state\":\"output-error\",\"errorText\":\"no\"}" },
        { P "\"state\":\"input-available\"}", CHAT_OUTCOME_OK, 0, "",
          P "\"state\":\"output-available\",\"output\":null}" },
        { P "\"state\":\"input-available\"}", CHAT_OUTCOME_ERROR, 0, "",
          P "\"state\":\"output-error\",\"errorText\":\"\"}" },
        { P "\"output\":null,\"state\":\"input-available\"}", CHAT_OUTCOME_OK,
          0, "5", P "\"output\":5,\"state\":\"output-available\"}" },
        { P "\"state\":\"output-available\",\"output\":3,"
            "\"preliminary\":true}",
          CHAT_OUTCOME_OK, 0, "5",
          P "\"state\":\"output-available\",\"output\":5}" },
        { "{\"preliminary\":true,\"state\":\"output-available\",\"output\":3,"
          "\"type\":\"dynamic-tool\"}",
          CHAT_OUTCOME_OK, 0, "5",
          "{\"state\":\"output-available\",\"output\":5,"
          "\"type\":\"dynamic-tool\"}" },
    };

    rows_check(rows, sizeof(rows) / sizeof(rows[0]));
}


static void
s34_an_error_leaves_no_output(void **state)
{
    static const row_t rows[] = {
        { P "\"state\":\"output-available\",\"output\":3,"
            "\"preliminary\":true}",
          CHAT_OUTCOME_ERROR, 0, "\"b\"",
          P "\"state\":\"output-error\",\"errorText\":\"b\"}" },
        { "{\"output\":{\"o\":[1,2]}, \"preliminary\" : true ,"
          "\"type\":\"tool-dig\",\"state\":\"output-available\"}",
          CHAT_OUTCOME_ERROR, 0, "\"b\"",
          "{\"type\":\"tool-dig\",\"state\":\"output-error\","
          "\"errorText\":\"b\"}" },
    };

    rows_check(rows, sizeof(rows) / sizeof(rows[0]));
}


static void
a_settled_part_says_how_it_was_approved_or_nothing(void **state)
{
    static const row_t rows[] = {
        { P "\"state\":\"approval-requested\"," ASK "}", CHAT_OUTCOME_OK,
          CHAT_APPROVAL_GRANTED, "1",
          P "\"state\":\"output-available\","
            "\"approval\":{\"id\":\"p\",\"approved\":true},\"output\":1}" },
        { P "\"approval\":{\"approved\":false, \"x\":1},"
            "\"state\":\"approval-responded\"}",
          CHAT_OUTCOME_ERROR, CHAT_APPROVAL_GRANTED, "\"e\"",
          P "\"approval\":{\"approved\":true,\"x\":1},"
            "\"state\":\"output-error\",\"errorText\":\"e\"}" },
        { P "\"state\":\"approval-requested\" , " ASK " }", CHAT_OUTCOME_OK,
          CHAT_APPROVAL_NONE, "1",
          P "\"state\":\"output-available\",\"output\":1}" },
        { "{" ASK " , \"type\":\"tool-dig\","
          "\"state\":\"approval-requested\"}",
          CHAT_OUTCOME_OK, CHAT_APPROVAL_REFUSED, "1",
          "{\"type\":\"tool-dig\",\"state\":\"output-available\","
          "\"output\":1}" },
        { P ASK ",\"state\":\"approval-requested\"}", CHAT_OUTCOME_OK,
          CHAT_APPROVAL_NONE, "1",
          P "\"state\":\"output-available\",\"output\":1}" },
        { P "\"state\":\"input-available\",\"approval\":null}",
          CHAT_OUTCOME_OK, CHAT_APPROVAL_GRANTED, "1",
          P "\"state\":\"output-available\",\"output\":1}" },
        { P "\"state\":\"output-available\",\"output\":3,\"preliminary\":true,"
            "\"approval\":{\"id\":\"p\",\"approved\":true}}",
          CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE, "1",
          P "\"state\":\"output-available\",\"output\":1,"
            "\"approval\":{\"id\":\"p\",\"approved\":true}}" },
        { P "\"state\":\"approval-requested\"," ASK "}", CHAT_OUTCOME_DENIED,
          CHAT_APPROVAL_NONE, "",
          P "\"state\":\"output-denied\","
            "\"approval\":{\"id\":\"p\",\"approved\":false}}" },
        { P "\"state\":\"input-available\"}", CHAT_OUTCOME_DENIED,
          CHAT_APPROVAL_NONE, "",
          P "\"state\":\"output-denied\","
            "\"approval\":{\"id\":\"a\",\"approved\":false}}" },
    };

    rows_check(rows, sizeof(rows) / sizeof(rows[0]));
}


static void
approvals(void **state)
{
    static const row_t rows[] = {
        { P "\"state\":\"approval-requested\"," ASK "}", CHAT_OUTCOME_NONE,
          CHAT_APPROVAL_GRANTED, "",
          P "\"state\":\"approval-responded\","
            "\"approval\":{\"id\":\"p\",\"approved\":true}}" },
        { P "\"approval\":{ \"id\":\"p\",\"reason\":\"?\" },"
            "\"state\":\"approval-requested\"}",
          CHAT_OUTCOME_NONE, CHAT_APPROVAL_REFUSED, "\"no\"",
          P "\"approval\":{\"id\":\"p\",\"reason\":\"no\","
            "\"approved\":false},\"state\":\"approval-responded\"}" },
        { P "\"state\":\"approval-requested\",\"approval\":{ }}",
          CHAT_OUTCOME_NONE, CHAT_APPROVAL_REFUSED, "\"no\"",
          P "\"state\":\"approval-responded\","
            "\"approval\":{\"approved\":false,\"reason\":\"no\"}}" },
        { P "\"state\":\"approval-requested\",\"approval\":{\"approved\":null}"
            "}",
          CHAT_OUTCOME_NONE, CHAT_APPROVAL_GRANTED, "\"so\"",
          P "\"state\":\"approval-responded\","
            "\"approval\":{\"approved\":true,\"reason\":\"so\"}}" },
        { P "\"state\":\"input-available\"}", CHAT_OUTCOME_NONE,
          CHAT_APPROVAL_GRANTED, "", NULL },
        { P "\"state\":\"input-available\",\"approval\":7}", CHAT_OUTCOME_NONE,
          CHAT_APPROVAL_GRANTED, "", NULL },
        { P "\"state\":\"approval-requested\"," ASK "}", CHAT_OUTCOME_NONE,
          CHAT_APPROVAL_ASKED, "", NULL },
        { P "\"input\":{}}", CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE, "1", NULL },
    };

    rows_check(rows, sizeof(rows) / sizeof(rows[0]));
}


static void
s32_each_unanswered_occurrence_is_completed(void **state)
{
    chat_result_t two[2];

    chat_arena_reset(arena);
    take(chat_cstr("{\"messages\":[{\"role\":\"assistant\",\"parts\":[" P
                   "\"state\":\"input-available\"}," P
                   "\"state\":\"output-available\",\"output\":\"mine\"}," P
                   "\"state\":\"input-available\"}]}]}"));
    assert_int_equal(rq.ncalls, 3);

    memset(two, 0, sizeof(two));
    two[0].call = &rq.calls[2];
    two[1].call = &rq.calls[0];
    two[0].outcome = two[1].outcome = CHAT_OUTCOME_OK;
    two[0].payload = two[1].payload = chat_cstr("\"first\"");

    assert_int_equal(splice(two, 2), CHAT_OK);
    assert_true(chat_str_is(
        chat_buf_str(&merged),
        "{\"messages\":[{\"role\":\"assistant\",\"parts\":[" P
        "\"state\":\"output-available\",\"output\":\"first\"}," P
        "\"state\":\"output-available\",\"output\":\"mine\"}," P
        "\"state\":\"output-available\",\"output\":\"first\"}]}]}"));

    /* This dialect has no chained bodies. */
    two[0].call = NULL;
    assert_int_equal(splice(two, 1), CHAT_BAD);
}


static void
a_fresh_turn_gets_the_stored_decision(void **state)
{
    static const struct {
        const char     *part;
        chat_approval_e decision;
        const char     *want;
    } rows[] = {
        { P "\"state\":\"output-available\"," ASK "}", CHAT_APPROVAL_GRANTED,
          P "\"state\":\"output-available\","
            "\"approval\":{\"id\":\"p\",\"approved\":true}}" },
        { P "\"state\":\"output-denied\"," ASK "}", CHAT_APPROVAL_REFUSED,
          P "\"state\":\"output-denied\","
            "\"approval\":{\"id\":\"p\",\"approved\":false}}" },
        { P "\"state\":\"output-error\"," ASK "}", CHAT_APPROVAL_NONE,
          P "\"state\":\"output-error\"," ASK "}" },
        { P "\"state\":\"output-available\"," ASK "}", CHAT_APPROVAL_REFUSED,
          P "\"state\":\"output-available\"," ASK "}" },
        { P "\"state\":\"approval-requested\"," ASK "}", CHAT_APPROVAL_GRANTED,
          P "\"state\":\"approval-requested\"," ASK "}" },
        { P "\"state\":\"output-error\",\"approval\":{\"approved\":false}}",
          CHAT_APPROVAL_GRANTED,
          P "\"state\":\"output-error\",\"approval\":{\"approved\":false}}" },
        { P "\"state\":\"output-error\"}", CHAT_APPROVAL_GRANTED,
          P "\"state\":\"output-error\"}" },
    };
    chat_result_t result;
    size_t        i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        take_part(rows[i].part);

        memset(&result, 0, sizeof(result));
        result.call = &rq.calls[0];
        result.id = rq.calls[0].id;
        result.approval = rows[i].decision;

        /* only a call with a result and without a decision takes one */
        assert_int_equal(splice(&result, rq.calls[0].undecided), CHAT_OK);
        assert_part(rows[i].want);
    }
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results),
        cmocka_unit_test(s34_an_error_leaves_no_output),
        cmocka_unit_test(a_settled_part_says_how_it_was_approved_or_nothing),
        cmocka_unit_test(approvals),
        cmocka_unit_test(s32_each_unanswered_occurrence_is_completed),
        cmocka_unit_test(a_fresh_turn_gets_the_stored_decision),
    };

    return cmocka_run_group_tests(tests, arena_create, teardown);
}
