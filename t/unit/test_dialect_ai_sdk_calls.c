/*
 * test_dialect_ai_sdk_calls.c: calls in a body of the AI SDK: kind, state,
 * result, approval, fingerprint.
 *
 * Bodies are short literals with only what each case needs.
 */

#include "ai_sdk_body.h"


static const struct {
    const char     *part;
    chat_kind_e     kind;
    int             ready;
    chat_outcome_e  outcome;
    chat_approval_e approval;
    const char     *payload;
} states[] = {
    { PART("a", "input-streaming", ""), CHAT_KIND_CLIENT, 0, CHAT_OUTCOME_NONE,
      CHAT_APPROVAL_NONE, "" },
    { OPEN("a"), CHAT_KIND_CLIENT, 1, CHAT_OUTCOME_NONE, CHAT_APPROVAL_NONE,
      "" },
    { PART("a", "of-tomorrow", ",\"output\":1"), CHAT_KIND_CLIENT, 0,
      CHAT_OUTCOME_NONE, CHAT_APPROVAL_NONE, "" },
    { PART("a", "output-available", ",\"output\":{ \"x\":1.0}"),
      CHAT_KIND_CLIENT, 1, CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE,
      "{ \"x\":1.0}" },
    { PART("a", "output-available", ""), CHAT_KIND_CLIENT, 1, CHAT_OUTCOME_OK,
      CHAT_APPROVAL_NONE, "null" },
    { PART("a", "output-available", ",\"output\":1,\"preliminary\":true"),
      CHAT_KIND_CLIENT, 1, CHAT_OUTCOME_PARTIAL, CHAT_APPROVAL_NONE, "1" },
    { PART("a", "output-available",
           ",\"output\":1,\"preliminary\":true,"
           "\"approval\":{\"id\":\"p\",\"approved\":true}"),
      CHAT_KIND_CLIENT, 1, CHAT_OUTCOME_PARTIAL, CHAT_APPROVAL_NONE, "1" },
    { PART("a", "output-error", ",\"errorText\":\"b\\u00fcm\""),
      CHAT_KIND_CLIENT, 1, CHAT_OUTCOME_ERROR, CHAT_APPROVAL_NONE,
      "\"b\\u00fcm\"" },
    { PART("a", "output-denied",
           ",\"approval\":{\"id\":\"p\",\"approved\":false}"),
      CHAT_KIND_APPROVAL, 1, CHAT_OUTCOME_DENIED, CHAT_APPROVAL_REFUSED, "" },
    { PART("a", "approval-requested", ",\"approval\":{\"id\":\"p\"}"),
      CHAT_KIND_APPROVAL, 1, CHAT_OUTCOME_NONE, CHAT_APPROVAL_ASKED, "" },
    { PART("a", "approval-responded",
           ",\"approval\":{\"id\":\"p\",\"approved\":true}"),
      CHAT_KIND_APPROVAL, 1, CHAT_OUTCOME_NONE, CHAT_APPROVAL_GRANTED, "" },
    { PART("a", "approval-responded", ",\"approval\":{\"id\":\"p\"}"),
      CHAT_KIND_APPROVAL, 1, CHAT_OUTCOME_NONE, CHAT_APPROVAL_ASKED, "" },
    { PART("a", "output-available",
           ",\"output\":1,\"approval\":{\"id\":\"p\",\"approved\":true}"),
      CHAT_KIND_CLIENT, 1, CHAT_OUTCOME_OK, CHAT_APPROVAL_GRANTED, "1" },
    { PART("a", "input-available", ",\"approval\":{\"id\":\"p\"}"),
      CHAT_KIND_APPROVAL, 1, CHAT_OUTCOME_NONE, CHAT_APPROVAL_NONE, "" },
    { PART("a", "input-available", ",\"approval\":null"), CHAT_KIND_CLIENT, 1,
      CHAT_OUTCOME_NONE, CHAT_APPROVAL_NONE, "" },
};


static void
what_a_call_is(void **state)
{
    char   body[2048];
    size_t i;

    for (i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        snprintf(body, sizeof(body), BODY(ASSISTANT("m", "%s")),
                 states[i].part);
        assert_int_equal(take(body), CHAT_OK);
        assert_int_equal(rq.ncalls, 1);

        if (rq.calls[0].kind != states[i].kind
            || rq.calls[0].ready != states[i].ready
            || rq.calls[0].outcome != states[i].outcome
            || rq.calls[0].approval != states[i].approval)
        {
            fail_msg("%s", states[i].part);
        }

        assert_str(rq.calls[0].payload, states[i].payload);
    }
}


static void
s13_a_dynamic_tool_is_a_call_as_any(void **state)
{
    size_t     i;
    chat_str_t name, args;

    assert_int_equal(
        take(BODY(ASSISTANT(
            "m", "{\"type\":\"dynamic-tool\",\"toolName\":\"dig\","
                 "\"toolCallId\":\"a\\u0031\",\"state\":\"output-available\","
                 "\"input\":{\"m\":1.0},\"output\":2},"
                 "{\"type\":\"tool-dig\",\"toolCallId\":\"b\","
                 "\"state\":\"input-available\",\"input\":{\"m\": 1e0}}"))),
        CHAT_OK);

    assert_true(rq.calls[0].dynamic);
    assert_false(rq.calls[1].dynamic);
    assert_str(rq.calls[0].id, "a1");
    for (i = 0; i < 2; i++) {
        assert_int_equal(
            chat_call_read(&rq.calls[i], chat_arena_scratch(), &name, &args),
            CHAT_OK);
        assert_str(name, "dig");
    }
    assert_true(chat_hash_eq(chat_call_fingerprint(&rq.calls[0]),
                             chat_call_fingerprint(&rq.calls[1])));
}


static void
parts_that_are_no_calls(void **state)
{
    assert_int_equal(
        take(BODY(USER "," ASSISTANT(
            "m", "7,null,[],{},{\"type\":7},{\"type\":\"tool-\"},"
                 "{\"type\":\"tool\"},{\"type\":\"steering-"
                 "message\"}") ",{\"role\":\"assistant\"},"
                               "{\"role\":\"assistant\","
                               "\"parts\":7},7,"
                               "{\"role\":\"system\",\"parts\":"
                               "[" OK("x") "]}," ASSISTANT(
                                   "m", "{\"type\":\"tool-dig\"}"))),
        CHAT_OK);

    /* A call without an id and a state is listed, but is no member. */
    assert_int_equal(rq.ncalls, 1);
    assert_false(chat_call_is_member(&rq.calls[0]));
    assert_int_equal(rq.class, CHAT_CLASS_OTHER);
}


static void
s32_each_occurrence_of_an_id_is_listed(void **state)
{
    assert_int_equal(
        take(BODY(ASSISTANT("m", OPEN("a") "," OK("b") "," OPEN("a")))),
        CHAT_OK);
    assert_int_equal(rq.steps[0].count, 3);
    assert_str(rq.calls[0].id, "a");
    assert_str(rq.calls[2].id, "a");
    assert_ptr_not_equal(rq.calls[0].node, rq.calls[2].node);
}


/* The fingerprint of a part with this input, or without (NULL). */
static chat_hash_t
fingerprint(const char *input)
{
    char body[1024];

    snprintf(body, sizeof(body),
             BODY(ASSISTANT("m", PART("a", "input-available", "%s%s"))),
             input != NULL ? ",\"input\":" : "", input != NULL ? input : "");
    assert_int_equal(take(body), CHAT_OK);
    return *chat_call_fingerprint(&rq.calls[0]);
}


static void
s70_any_input_is_a_call_of_its_own(void **state)
{
    static const char *const inputs[] = {
        "null", "\"\"", "[]", "{\"a\":1}", "\"{\\\"a\\\":1}\"", "0", "false"
    };
    chat_hash_t digests[7], want;
    size_t      i, j;

    for (i = 0; i < 7; i++) {
        digests[i] = fingerprint(inputs[i]);
        assert_int_equal(chat_fingerprint(&test_tenant, chat_cstr("dig"),
                                          chat_cstr(inputs[i]),
                                          chat_arena_scratch(), &want),
                         CHAT_OK);
        assert_true(chat_hash_eq(&digests[i], &want));

        for (j = 0; j < i; j++) {
            assert_false(chat_hash_eq(&digests[i], &digests[j]));
        }
    }

    digests[0] = fingerprint(NULL);
    digests[1] = fingerprint("{}");
    assert_true(chat_hash_eq(&digests[0], &digests[1]));
}


static void
s106_numbers_written_otherwise_are_the_same_call(void **state)
{
    chat_hash_t a = fingerprint("{\"n\":1.0,\"m\":1e3}");
    chat_hash_t b = fingerprint("{\"m\":1000,\"n\":1}");

    assert_true(chat_hash_eq(&a, &b));
}


static void
invalid_input_is_known_by_its_raw_text(void **state)
{
    chat_hash_t a = fingerprint("\"{bad\"");

    assert_int_equal(
        take(BODY(ASSISTANT(
            "m", PART("a", "output-error", ",\"rawInput\":\"{bad\"")))),
        CHAT_OK);
    assert_true(chat_hash_eq(&a, chat_call_fingerprint(&rq.calls[0])));
}


/* Without a tree nothing can be put into the body: it must be known before. */
static void
a_body_lacks_what_may_be_put_into_it(void **state)
{
    size_t i;

    static const struct {
        const char *body;
        int         lacks;
    } bodies[] = {
        { BODY(ASSISTANT("m", OK("a") "," OK("b"))), 0 },
        { BODY(ASSISTANT("m", OK("a") "," OPEN("b"))), 1 },
        { BODY(ASSISTANT("m", OPEN("a")) "," USER "," ASSISTANT("n", OK("b"))),
          1 },
        { BODY(ASSISTANT("m", PART("a", "output-available",
                                   ",\"output\":1,\"preliminary\":true"))),
          1 },
        { BODY(ASSISTANT("m", PART("a", "approval-responded",
                                   ",\"approval\":{\"id\":\"p\","
                                   "\"approved\":true}"))),
          1 },
        { BODY(ASSISTANT("m", PART("a", "output-available",
                                   ",\"output\":1,"
                                   "\"approval\":{\"id\":\"p\"}"))),
          1 },
        { BODY(ASSISTANT("m", PART("a", "input-available",
                                   ",\"providerExecuted\":true"))),
          0 },
    };

    for (i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        assert_int_equal(take(bodies[i].body), CHAT_OK);
        if (chat_request_lacks(&rq) != bodies[i].lacks) {
            fail_msg("%s", bodies[i].body);
        }
    }

    rq.chained = 1;
    assert_true(chat_request_lacks(&rq));
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_call_is),
        cmocka_unit_test(s13_a_dynamic_tool_is_a_call_as_any),
        cmocka_unit_test(parts_that_are_no_calls),
        cmocka_unit_test(s32_each_occurrence_of_an_id_is_listed),
        cmocka_unit_test(s70_any_input_is_a_call_of_its_own),
        cmocka_unit_test(s106_numbers_written_otherwise_are_the_same_call),
        cmocka_unit_test(invalid_input_is_known_by_its_raw_text),
        cmocka_unit_test(a_body_lacks_what_may_be_put_into_it),
    };

    return cmocka_run_group_tests(tests, arena_create, arena_destroy);
}
