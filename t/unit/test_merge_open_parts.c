/*
 * test_merge_open_parts.c: open calls of a fresh turn of the AI SDK, which has
 * results in the parts of the calls.
 *
 * The state of a part shows whether the client must answer it. Parts with a
 * result or decision, or that another side answers, stay byte for byte.
 */

#define _GNU_SOURCE

#include "merge_open_run.h"

#define MESSAGE(id, parts)                                            \
    "{\"id\":\"" id "\",\"role\":\"assistant\",\"parts\":[{\"type\":" \
    "\"step-start\"}" parts "]}"
#define USER(id)                                                          \
    "{\"id\":\"" id "\",\"role\":\"user\",\"parts\":[{\"type\":\"text\"," \
    "\"text\":\"hi\"}]}"
#define BODY(messages) \
    "{\"id\":\"c\",\"messages\":[" USER("u") "," messages "," USER("v") "]}"
#define PART(id, rest) \
    ",{\"type\":\"tool-f\",\"toolCallId\":\"" id "\"," rest "}"
#define INPUT "\"input\":{\"n\":1.0}"
#define OPEN(id) PART(id, INPUT ",\"state\":\"input-available\"")
#define LOST(id) \
    PART(id, INPUT ",\"state\":\"output-error\",\"errorText\":" NOTE)
#define OK(id, value) \
    PART(id, INPUT ",\"state\":\"output-available\",\"output\":" value)
#define ASKED(id)                                       \
    PART(id, INPUT ",\"state\":\"approval-requested\"," \
                   "\"approval\":{\"id\":\"p\"}")
#define DECIDED(id, how)                                \
    PART(id, INPUT ",\"state\":\"approval-responded\"," \
                   "\"approval\":{\"id\":\"p\",\"approved\":" how "}")


static void
s66_parts_of_the_ai_sdk(void **state)
{
    becomes(AI_SDK, 1, BODY(MESSAGE("m", OPEN("a") OK("b", "1"))),
            BODY(MESSAGE("m", LOST("a") OK("b", "1"))));

    /* in any message or step */
    store_begin();
    becomes(AI_SDK, 1,
            BODY(MESSAGE("l", OPEN("a")) "," USER("w") "," MESSAGE(
                "m", OPEN("b") ",{\"type\":\"step-start\"}" OK("c", "1"))),
            BODY(MESSAGE("l", LOST("a")) "," USER("w") "," MESSAGE(
                "m", LOST("b") ",{\"type\":\"step-start\"}" OK("c", "1"))));

    /* an unanswered approval request, a preliminary output, a dynamic tool */
    becomes(AI_SDK, 1, BODY(MESSAGE("m", ASKED("a"))),
            BODY(MESSAGE("m", LOST("a"))));
    becomes(AI_SDK, 1,
            BODY(MESSAGE("m", PART("a", INPUT ",\"state\":"
                                              "\"output-available\","
                                              "\"output\":\"half\","
                                              "\"preliminary\":true"))),
            BODY(MESSAGE("m", LOST("a"))));
    becomes(AI_SDK, 1,
            BODY(MESSAGE("m", ",{\"type\":\"dynamic-tool\",\"toolName\":\"f\","
                              "\"toolCallId\":\"a\"," INPUT
                              ",\"state\":\"input-available\"}")),
            BODY(MESSAGE("m", ",{\"type\":\"dynamic-tool\",\"toolName\":\"f\","
                              "\"toolCallId\":\"a\"," INPUT
                              ",\"state\":\"output-error\",\"errorText\":" NOTE
                              "}")));
}


static void
s68_s69_parts_of_another_side_stay(void **state)
{
    size_t                   i;
    static const char *const bodies[] = {
        BODY(MESSAGE("m", OK("a", " 1.50 "))),
        BODY(MESSAGE("m", PART("a", INPUT ",\"state\":\"output-error\" ,"
                                          "\"errorText\":\"own\""))),
        BODY(MESSAGE("m", PART("a", INPUT ",\"state\":\"output-denied\","
                                          "\"approval\":{\"id\":\"p\","
                                          "\"approved\":false}"))),
        BODY(MESSAGE("m", DECIDED("a", "true"))),
        BODY(MESSAGE("m", DECIDED("a", "false"))),
        BODY(MESSAGE("m", PART("a", INPUT ",\"state\":\"input-available\","
                                          "\"providerExecuted\":true")
                              OK("b", "1"))),
        BODY(MESSAGE("m",
                     PART("a", "\"state\":\"input-streaming\"") OK("b", "1"))),
        BODY(MESSAGE("m", PART("a", INPUT ",\"state\":\"unheard-of\"")
                              OK("b", "1"))),
        BODY(MESSAGE("m", OPEN("") OK("b", "1"))),
        /* the same call twice, and approved in one place */
        BODY(MESSAGE("m", ASKED("a") DECIDED("a", "true"))),
    };

    for (i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        store_begin();
        becomes(AI_SDK, 1, bodies[i], NULL);
    }
}


static void
s69_an_approval_of_an_earlier_step_stays(void **state)
{
    becomes(AI_SDK, 1,
            BODY(MESSAGE("l", DECIDED("a", "true") OPEN("b")) "," USER(
                "w") "," MESSAGE("m", OK("c", "1"))),
            BODY(MESSAGE("l", DECIDED("a", "true") LOST("b")) "," USER(
                "w") "," MESSAGE("m", OK("c", "1"))));
}


static void
s69_a_decision_of_another_request_spares_the_call(void **state)
{
    taken_t t;

    /* another tab has approved one of two */
    take(&t, AI_SDK,
         chat_cstr("{\"id\":\"c\",\"messages\":[" USER("u") "," MESSAGE(
             "m", DECIDED("a", "true") ASKED("b")) "]}"));
    drop(&t);

    becomes(AI_SDK, 1, BODY(MESSAGE("m", ASKED("a") ASKED("b"))),
            BODY(MESSAGE("m", ASKED("a") LOST("b"))));
    becomes(AI_SDK, 0, BODY(MESSAGE("m", ASKED("a") ASKED("b"))), NULL);
}


#define STRONG "call_abcdefgh12345678"


static void
s32_an_answer_that_the_body_has_goes_into_its_twin(void **state)
{
    int unknown;

    for (unknown = 0; unknown < 2; unknown++) {
        store_begin();

        /* in the same step */
        becomes(AI_SDK, unknown, BODY(MESSAGE("m", OPEN("a") OK("a", "7"))),
                BODY(MESSAGE("m", OK("a", "7") OK("a", "7"))));

        /* elsewhere, where the id cannot be another call's */
        store_begin();
        becomes(AI_SDK, unknown,
                BODY(MESSAGE("l", OPEN(STRONG)) "," USER("w") "," MESSAGE(
                    "m", OK(STRONG, "7"))),
                BODY(MESSAGE("l", OK(STRONG, "7")) "," USER("w") "," MESSAGE(
                    "m", OK(STRONG, "7"))));
    }

    store_begin();
    becomes(AI_SDK, 0,
            BODY(MESSAGE("l", OPEN("a")) "," USER("w") "," MESSAGE(
                "m", OK("a", "7"))),
            NULL);

    /* other arguments are another call */
    becomes(
        AI_SDK, 1,
        BODY(MESSAGE(
            "m",
            OPEN("a") PART(
                "a",
                "\"input\":2,\"state\":\"output-available\",\"output\":7"))),
        BODY(MESSAGE(
            "m",
            LOST("a") PART(
                "a",
                "\"input\":2,\"state\":\"output-available\",\"output\":7"))));
}


static void
s67_a_result_for_other_arguments_is_none(void **state)
{
    taken_t t;

    take(&t, AI_SDK,
         chat_cstr("{\"id\":\"c\",\"messages\":[" USER("u") "," MESSAGE(
             "m", PART("a", "\"input\":2,\"state\":\"output-available\","
                            "\"output\":7") OPEN("b")) "]}"));
    drop(&t);
    becomes(AI_SDK, 1, BODY(MESSAGE("m", OPEN("a") OK("b", "1"))),
            BODY(MESSAGE("m", LOST("a") OK("b", "1"))));
}


static void
s70_inputs_stay_as_they_are_written(void **state)
{
    size_t                   i;
    char                     body[1024];
    taken_t                  t;
    static const char *const inputs[] = { "null",        "\"\"",
                                          "[ ]",         "\"{}\"",
                                          "[1.0 , 2]",   "{ \"a\" :1e3}",
                                          "\"\\u00e9\"", "-0.0" };

    for (i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++) {
        store_begin();
        snprintf(body, sizeof(body),
                 BODY(MESSAGE("m", PART("a", "\"input\": %s ,\"state\":"
                                             "\"input-available\""))),
                 inputs[i]);
        take(&t, AI_SDK, chat_cstr(body));
        repair(&t, 1);
        snprintf(body, sizeof(body), "\"input\":%s,\"state\":\"output-error\"",
                 inputs[i]);
        assert_non_null(memmem(got.data, got.len, body, strlen(body)));
        drop(&t);
    }
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(s66_parts_of_the_ai_sdk, fresh),
        cmocka_unit_test_setup(s68_s69_parts_of_another_side_stay, fresh),
        cmocka_unit_test_setup(s69_an_approval_of_an_earlier_step_stays,
                               fresh),
        cmocka_unit_test_setup(
            s69_a_decision_of_another_request_spares_the_call, fresh),
        cmocka_unit_test_setup(
            s32_an_answer_that_the_body_has_goes_into_its_twin, fresh),
        cmocka_unit_test_setup(s67_a_result_for_other_arguments_is_none,
                               fresh),
        cmocka_unit_test_setup(s70_inputs_stay_as_they_are_written, fresh),
    };

    return cmocka_run_group_tests(tests, NULL, over);
}
