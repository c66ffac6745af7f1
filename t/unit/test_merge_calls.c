/*
 * test_merge_calls.c: which result goes into which call: calls that occur
 * twice, other arguments, preliminary outputs, approvals, and the injected
 * events.
 */

#define _GNU_SOURCE

#include "merge_run.h"

#define MESSAGE(id, parts)                                            \
    "{\"id\":\"" id "\",\"role\":\"assistant\",\"parts\":[{\"type\":" \
    "\"step-start\"}" parts "]}"
#define USER                                                         \
    "{\"id\":\"u\",\"role\":\"user\",\"parts\":[{\"type\":\"text\"," \
    "\"text\":\"hi\"}]}"
#define BODY(messages) "{\"id\":\"c\",\"messages\":[" USER "," messages "]}"
#define PART(id, input, rest)                                          \
    ",{\"type\":\"tool-f\",\"toolCallId\":\"" id "\",\"input\":" input \
    "," rest "}"
#define OPEN(id) PART(id, "{}", "\"state\":\"input-available\"")
#define OK(id, value) \
    PART(id, "{}", "\"state\":\"output-available\",\"output\":" value)
#define FAILED(id, words) \
    PART(id, "{}", "\"state\":\"output-error\",\"errorText\":" words)
#define EARLY(id)                                                             \
    PART(id, "{}",                                                            \
         "\"state\":\"output-available\",\"output\":\"soon\",\"preliminary\"" \
         ":true")
#define ASKED(id)  \
    PART(id, "{}", \
         "\"state\":\"approval-requested\",\"approval\":{\"id\":\"p\"}")
#define DECIDED(id, how)                                                    \
    PART(id, "{}",                                                          \
         "\"state\":\"approval-responded\",\"approval\":{\"id\":\"p\"," how \
         "}")

static chat_buf_t want, got;


static int
fresh(void **state)
{
    store_begin();
    return 0;
}


static int
over(void **state)
{
    chat_buf_free(&want);
    chat_buf_free(&got);
    store_end();
    return 0;
}


/* Only joins a body. */
static void
bring(const char *body)
{
    taken_t t;

    take(&t, AI_SDK, chat_cstr(body));
    drop(&t);
}


/* The body, completed from the store, must be the other. */
static void
becomes(const form_t *form, const char *body, const char *result)
{
    taken_t t;

    take(&t, form, chat_cstr(body));
    complete(&t, &got);
    want.len = 0;
    chat_buf_puts(&want, result);
    same(&got, &want);
    drop(&t);
}


static void
s32_every_unanswered_occurrence_is_completed(void **state)
{
    bring(BODY(MESSAGE("m", OK("a", "1.50") OPEN("b"))));
    becomes(AI_SDK, BODY(MESSAGE("m", OPEN("a") OK("b", "2") OPEN("a"))),
            BODY(MESSAGE("m", OK("a", "1.5") OK("b", "2") OK("a", "1.5"))));

    /* its own result stays; the other occurrence gets none */
    becomes(
        AI_SDK, BODY(MESSAGE("m", OPEN("a") OK("b", "2") OK("a", "\"own\""))),
        BODY(MESSAGE("m", OK("a", "1.5") OK("b", "2") OK("a", "\"own\""))));

    /* a complete body stores what its duplicate lacks */
    store_begin();
    becomes(AI_SDK, BODY(MESSAGE("m", OPEN("a") OK("a", "7"))),
            BODY(MESSAGE("m", OK("a", "7") OK("a", "7"))));
}


#define CALL(id)                                                             \
    "{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"f\"," \
    "\"arguments\":\"{}\"}}"
#define ANSWER(id) \
    ",{\"role\":\"tool\",\"tool_call_id\":\"" id "\",\"content\":\"r\"}"
#define COMPLETION(calls, answers)                                   \
    "{\"model\":\"m\",\"messages\":[" HI ",{\"role\":\"assistant\"," \
    "\"tool_calls\":[" calls "]}" answers "]}"


static void
s32_but_no_id_is_answered_twice_where_that_is_refused(void **state)
{
    taken_t t;

    take(&t, OPENAI_CHAT,
         chat_cstr(COMPLETION(CALL("a") "," CALL("b"), ANSWER("a"))));
    drop(&t);
    becomes(OPENAI_CHAT,
            COMPLETION(CALL("a") "," CALL("b") "," CALL("a"), ANSWER("b")),
            COMPLETION(CALL("a") "," CALL("b") "," CALL("a"),
                       ANSWER("a") ANSWER("b")));

    /* a call of an unknown type does not get the answer */
    becomes(
        OPENAI_CHAT,
        COMPLETION("{\"id\":\"a\",\"type\":\"odd\"}," CALL("a") "," CALL("b"),
                   ANSWER("b")),
        COMPLETION("{\"id\":\"a\",\"type\":\"odd\"}," CALL("a") "," CALL("b"),
                   ANSWER("a") ANSWER("b")));
}


static void
s34_an_error_carries_no_stray_output(void **state)
{
    bring(BODY(MESSAGE("m", FAILED("a", "\"no\"") OPEN("b"))));
    becomes(AI_SDK, BODY(MESSAGE("m", EARLY("a") OK("b", "2"))),
            BODY(MESSAGE("m", FAILED("a", "\"no\"") OK("b", "2"))));
    becomes(AI_SDK, BODY(MESSAGE("m", OPEN("a") OK("b", "2"))),
            BODY(MESSAGE("m", FAILED("a", "\"no\"") OK("b", "2"))));
}


static void
s10_a_preliminary_output_gives_way(void **state)
{
    taken_t t;

    bring(BODY(MESSAGE("m", OK("a", "1") OPEN("b"))));
    take(&t, AI_SDK, chat_cstr(BODY(MESSAGE("m", EARLY("a") OK("b", "2")))));
    asker_look(&t.a);
    assert_int_equal(t.a.d.verdict, CHAT_GATE_CLAIM);
    drop(&t);
    becomes(AI_SDK, BODY(MESSAGE("m", EARLY("a") OK("b", "2"))),
            BODY(MESSAGE("m", OK("a", "1") OK("b", "2"))));
}


static void
a_result_goes_only_into_the_call_that_it_answered(void **state)
{
    taken_t t;

    bring(BODY(MESSAGE("m", OK("a", "1") OPEN("b"))));
    take(&t, AI_SDK,
         chat_cstr(BODY(MESSAGE(
             "m", PART("a", "{\"n\":2}", "\"state\":\"input-available\"")
                      OK("b", "2")))));
    asker_look(&t.a);
    assert_int_equal(t.a.d.verdict, CHAT_GATE_HOLD);

    /* nor without the gate */
    assert_int_equal(chat_results_collect(&t.results, &t.a.rq,
                                          &t.a.rq.steps[0], store.facts,
                                          store.count, NULL, 0, 1),
                     CHAT_OK);
    assert_int_equal(t.results.count, 0);
    drop(&t);

    /* 1.0 is 1, and keys have no order */
    store_begin();
    bring(BODY(MESSAGE("m", PART("a", "{\"x\":1.0,\"y\":2}",
                                 "\"state\":\"output-available\",\"output\":3")
                                OPEN("b"))));
    becomes(
        AI_SDK,
        BODY(MESSAGE("m", PART("a", "{\"y\":2,\"x\":1}",
                               "\"state\":\"input-available\"") OK("b", "2"))),
        BODY(MESSAGE("m", PART("a", "{\"y\":2,\"x\":1}",
                               "\"state\":\"output-available\",\"output\":3")
                              OK("b", "2"))));
}


/* The number of stored results that a body gets. */
static void
everything(const char *body, size_t count)
{
    taken_t t;

    take(&t, AI_SDK, chat_cstr(body));
    assert_int_equal(chat_results_collect(&t.results, &t.a.rq,
                                          &t.a.rq.steps[0], store.facts,
                                          store.count, NULL, 0, 1),
                     CHAT_OK);
    assert_int_equal(t.results.count, count);
    drop(&t);
}


static void
s43_the_servers_calls_get_nothing(void **state)
{
    bring(BODY(MESSAGE("m", OK("a", "1") OPEN("b"))));
    everything(BODY(MESSAGE("m", OPEN("a"))), 1);
    everything(BODY(MESSAGE("m", PART("a", "{}",
                                      "\"state\":\"input-available\","
                                      "\"providerExecuted\":true"))),
               0);
    everything(
        BODY(MESSAGE("m", PART("a", "{}", "\"state\":\"input-streaming\""))),
        0);
}


static void
s40_approvals(void **state)
{
    taken_t t;

    bring(BODY(MESSAGE("m", DECIDED("a", "\"approved\":true,\"reason\":\"ok\"")
                                OPEN("b"))));

    /* a fresh turn gets none */
    take(&t, AI_SDK, chat_cstr(BODY(MESSAGE("m", ASKED("a") OK("b", "2")))));
    collect(&t, 0);
    assert_int_equal(t.results.count, 0);
    collect(&t, 1);
    assert_int_equal(t.results.count, 1);
    assert_int_equal(t.results.items[0].outcome, CHAT_OUTCOME_NONE);
    drop(&t);

    becomes(
        AI_SDK, BODY(MESSAGE("m", ASKED("a") OK("b", "2"))),
        BODY(MESSAGE("m", DECIDED("a", "\"approved\":true,\"reason\":\"ok\"")
                              OK("b", "2"))));

    /* the first decision counts: it replaces a later one in a body */
    everything(BODY(MESSAGE("m", DECIDED("a", "\"approved\":false"))), 1);
    becomes(
        AI_SDK,
        BODY(MESSAGE("m", DECIDED("a", "\"approved\":false") OK("b", "2"))),
        BODY(MESSAGE("m", DECIDED("a", "\"approved\":true,\"reason\":\"ok\"")
                              OK("b", "2"))));
    everything(BODY(MESSAGE("m", DECIDED("a", "\"approved\":true"))), 0);

    /* a result outranks it */
    bring(BODY(MESSAGE("m", OK("a", "1") OPEN("b"))));
    becomes(AI_SDK, BODY(MESSAGE("m", ASKED("a") OK("b", "2"))),
            BODY(MESSAGE("m", PART("a", "{}",
                                   "\"state\":\"output-available\",\"output\":"
                                   "1,\"approval\":{\"id\":\"p\","
                                   "\"approved\":true}") OK("b", "2"))));
}


static void
a_result_outranks_an_approval_of_the_body(void **state)
{
    bring(BODY(MESSAGE("m", OK("a", "1") OPEN("b"))));
    becomes(AI_SDK,
            BODY(MESSAGE("m", DECIDED("a", "\"approved\":true") OK("b", "2"))),
            BODY(MESSAGE("m", PART("a", "{}",
                                   "\"state\":\"output-available\",\"output\":"
                                   "1,\"approval\":{\"id\":\"p\","
                                   "\"approved\":true}") OK("b", "2"))));
}


/* Collects from all steps, as for a client that is several steps behind. */
static void
collect_all(taken_t *t)
{
    size_t i;

    for (i = t->a.rq.nsteps; i-- > 0;) {
        assert_int_equal(chat_results_collect(&t->results, &t->a.rq,
                                              &t->a.rq.steps[i], store.facts,
                                              store.count, NULL, 0, 1),
                         CHAT_OK);
    }
}


static void
s100_merged_results_are_injected_once(void **state)
{
    size_t         i;
    taken_t        t;
    chat_results_t told;

    bring(BODY(MESSAGE("m", OK("a", "1") OPEN("b") OPEN("c"))));
    bring(BODY(MESSAGE("m", OPEN("x") DECIDED("c", "\"approved\":true")
                                OK("b", "2"))));
    bring(BODY(MESSAGE("m", OK("e", "5") OPEN("b"))));

    /* a and e are in an earlier message, b twice in the last one */
    take(&t, AI_SDK,
         chat_cstr(BODY(MESSAGE("l", OPEN("a") OPEN("e")) "," MESSAGE(
             "m", OPEN("a") OPEN("b") OPEN("b") ASKED("c") OK("d", "4")))));
    collect_all(&t);
    assert_int_equal(t.results.count, 6);

    chat_results_init(&told, t.a.arena);
    assert_int_equal(chat_results_injected(&t.results, &told), CHAT_OK);
    assert_int_equal(told.count, 2);

    for (i = 0; i < 2; i++) {
        assert_true(chat_str_is(told.items[i].id, i ? "b" : "a"));
        assert_true(chat_str_is(told.items[i].payload, i ? "2" : "1"));
        assert_int_equal(told.items[i].call->in_last_message, 1);
    }

    /* an error that was made for the provider is none of the client's */
    for (i = 0; i < t.results.count; i++) {
        t.results.items[i].unknown = chat_str_is(t.results.items[i].id, "b");
    }

    chat_results_init(&told, t.a.arena);
    assert_int_equal(chat_results_injected(&t.results, &told), CHAT_OK);
    assert_int_equal(told.count, 1);
    assert_true(chat_str_is(told.items[0].id, "a"));
    drop(&t);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(s32_every_unanswered_occurrence_is_completed,
                               fresh),
        cmocka_unit_test_setup(
            s32_but_no_id_is_answered_twice_where_that_is_refused, fresh),
        cmocka_unit_test_setup(s34_an_error_carries_no_stray_output, fresh),
        cmocka_unit_test_setup(s10_a_preliminary_output_gives_way, fresh),
        cmocka_unit_test_setup(
            a_result_goes_only_into_the_call_that_it_answered, fresh),
        cmocka_unit_test_setup(s43_the_servers_calls_get_nothing, fresh),
        cmocka_unit_test_setup(s40_approvals, fresh),
        cmocka_unit_test_setup(a_result_outranks_an_approval_of_the_body,
                               fresh),
        cmocka_unit_test_setup(s100_merged_results_are_injected_once, fresh),
    };

    return cmocka_run_group_tests(tests, NULL, over);
}
