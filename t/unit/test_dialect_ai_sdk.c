/*
 * test_dialect_ai_sdk.c: a body of the AI SDK: its class, turn and steps. The
 * files with the suffixes _calls, _splice, _orders and _stream have the rest;
 * t/cases/ai_sdk has the reading of streams.
 */

#include "ai_sdk_body.h"


static void
a_body_of_another_shape_is_declined(void **state)
{
    static const char *const bodies[] = {
        "[]",
        "7",
        "{}",
        "{\"messages\":{}}",
        "{\"messages\":[]}",
        "{\"messages\":[7]}",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}",
        "{\"messages\":[{\"role\":\"user\",\"parts\":{}}]}",
        "{\"messages\":[{\"role\":7,\"parts\":[]}]}",
        "{\"id\":\"x\",\"message\":[" USER "]}",
        "{\"id\":\"x\",\"message\":\"hi\"}",
        "{\"id\":\"x\",\"message\":{\"role\":\"user\",\"content\":\"hi\"}}",
        "{\"id\":\"x\",\"messages\":[],\"message\":" USER "}",
    };
    size_t i;

    for (i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        assert_int_equal(take(bodies[i]), CHAT_DECLINED);
    }
}


/* The body of prepareSendMessagesRequest in many apps. */
static void
the_last_message_may_come_alone(void **state)
{
    assert_int_equal(take("{\"id\":\"chat-1\",\"message\":" USER
                          ",\"trigger\":\"submit-message\"}"),
                     CHAT_OK);
    assert_int_equal(rq.class, CHAT_CLASS_FRESH);
    assert_int_equal(rq.answers, 0);
    assert_str(rq.conversation, "chat-1");
    assert_str(rq.last_message, "u1");

    /* a member after the message in the body is no message */
    assert_int_equal(take("{\"message\":" ASSISTANT(
                         "m1", STEP "," OK("a") "," STEP "," OK("b") "," OPEN(
                                   "c")) ","
                                         "\"extra\":" USER
                                         ",\"id\":\"chat-1\"}"),
                     CHAT_OK);
    assert_int_equal(rq.class, CHAT_CLASS_CONTINUATION);
    assert_int_equal(rq.nsteps, 2);
    assert_int_equal(rq.ncalls, 3);
    assert_int_equal(rq.turn, 0);
    assert_true(rq.answers);
    assert_str(rq.conversation, "chat-1");
    assert_str(rq.last_message, "m1");
    assert_str(rq.steps[1].message, "m1");
    assert_int_equal(rq.steps[1].ordinal, 1);
    assert_str(rq.next.message, "m1");
    assert_true(rq.calls[2].in_last_message);

    assert_int_equal(take("{\"id\":\"c\",\"trigger\":\"regenerate-message\","
                          "\"message\":" USER "}"),
                     CHAT_OK);
    assert_int_equal(rq.class, CHAT_CLASS_REGENERATE);
}


static void
keys_that_stand_twice_are_ambiguous(void **state)
{
    size_t i;
    char   body[512];

    static const char *const keys[] = {
        "type",       "toolCallId", "state",
        "input",      "output",     "rawInput",
        "errorText",  "approval",   "providerExecuted",
        "preliminary"
    };

    for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        snprintf(body, sizeof(body),
                 BODY(USER "," ASSISTANT(
                     "m", PART("a", "input-available", ",\"%s\":1,\"%s\":2"))),
                 keys[i], keys[i]);
        assert_int_equal(take(body), CHAT_BAD);
    }

    assert_int_equal(
        take("{\"id\":\"a\",\"id\":\"b\",\"messages\":[" USER "]}"), CHAT_BAD);
    assert_int_equal(take(BODY(USER "," ASSISTANT(
                         "m", PART("a", "input-available",
                                   ",\"input\":{\"x\":1,\"x\":2}")))),
                     CHAT_OK);
}


static void
classes(void **state)
{
    static const struct {
        const char *trigger;
        const char *messages;
        chat_class_e class;
    } rows[] = {
        { "", USER, CHAT_CLASS_FRESH },
        { "\"submit-message\"", USER, CHAT_CLASS_FRESH },
        { "\"regenerate-message\"", USER, CHAT_CLASS_REGENERATE },
        { "", USER "," ASSISTANT("m", OK("a")), CHAT_CLASS_CONTINUATION },
        { "\"submit-message\"", USER "," ASSISTANT("m", STEP "," OK("a")),
          CHAT_CLASS_CONTINUATION },
        { "null", ASSISTANT("m", OK("a") "," OPEN("b")),
          CHAT_CLASS_CONTINUATION },
        { "\"regenerate-message\"", USER "," ASSISTANT("m", OK("a")),
          CHAT_CLASS_REGENERATE },
        { "\"of-my-own\"", USER "," ASSISTANT("m", OK("a")),
          CHAT_CLASS_OTHER },
        { "", USER "," ASSISTANT("m", ""), CHAT_CLASS_OTHER },
        { "", USER "," ASSISTANT("m", OK("a") "," STEP), CHAT_CLASS_OTHER },
        { "", USER "," ASSISTANT("m", OK("a") "," STEP "," SAID),
          CHAT_CLASS_OTHER },
        { "", USER "," ASSISTANT("m", OK("a") "," SAID),
          CHAT_CLASS_CONTINUATION },
        { "", USER "," ASSISTANT("m", PART("a", "output-error", "")),
          CHAT_CLASS_CONTINUATION },
        { "", USER "," ASSISTANT("m", PART("a", "output-denied", "")),
          CHAT_CLASS_CONTINUATION },
        { "",
          USER "," ASSISTANT("m", PART("a", "approval-responded",
                                       ",\"approval\":{\"id\":\"p\","
                                       "\"approved\":false}")),
          CHAT_CLASS_CONTINUATION },
        { "",
          USER "," ASSISTANT("m", PART("a", "approval-requested",
                                       ",\"approval\":{\"id\":\"p\"}")),
          CHAT_CLASS_PENDING },
        { "",
          USER "," ASSISTANT("m", PART("a", "output-available",
                                       ",\"output\":1,\"preliminary\":true")),
          CHAT_CLASS_PENDING },
    };
    char   body[4096];
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(body, sizeof(body), "{\"messages\":[%s]%s%s}",
                 rows[i].messages, rows[i].trigger[0] ? ",\"trigger\":" : "",
                 rows[i].trigger);
        assert_int_equal(take(body), CHAT_OK);
        assert_true(rq.stream);

        if (rq.class != rows[i].class) {
            fail_msg("%s: class %d", body, rq.class);
        }
    }
}


static void
a_continuation_names_its_batch(void **state)
{
    assert_int_equal(take(BODY(USER "," ASSISTANT(
                         "m-1", STEP "," SAID "," STEP "," OK(
                                    "a") "," STEP "," OPEN("b") "," OK("c")))),
                     CHAT_OK);

    assert_int_equal(rq.class, CHAT_CLASS_CONTINUATION);
    assert_true(rq.answers);
    assert_str(rq.conversation, "chat-1");
    assert_str(rq.last_message, "m-1");
    assert_int_equal(rq.nsteps, 2);
    assert_int_equal(rq.ncalls, 3);
    assert_int_equal(rq.turn, 0);
    assert_int_equal(rq.steps[0].ordinal, 1);
    assert_int_equal(rq.steps[1].ordinal, 2);
    assert_int_equal(rq.steps[1].first, 1);
    assert_int_equal(rq.steps[1].count, 2);
    assert_str(rq.steps[1].first_id, "b");
    assert_str(rq.steps[1].message, "m-1");
    assert_str(rq.next.message, "m-1");
    assert_int_equal(rq.next.ordinal, 3);
    assert_true(rq.calls[1].in_last_message);
}


/*
 * A stream counts its start-steps, and one that continues a message goes on
 * from next. Parts before the first step-start are in step 0 with it.
 */
static void
ordinals_count_steps_as_the_stream_does(void **state)
{
    assert_int_equal(
        take(BODY(ASSISTANT("m", "{\"type\":\"data-x\",\"data\":1}," STEP
                                 "," OK("a")))),
        CHAT_OK);
    assert_int_equal(rq.steps[0].ordinal, 0);
    assert_int_equal(rq.next.ordinal, 1);

    assert_int_equal(take(BODY(ASSISTANT("m", OK("a")))), CHAT_OK);
    assert_int_equal(rq.steps[0].ordinal, 0);
    assert_int_equal(rq.next.ordinal, 0);

    assert_int_equal(take(BODY(ASSISTANT("m", OK("z") "," STEP "," OK("a")))),
                     CHAT_OK);
    assert_int_equal(rq.nsteps, 2);
    assert_int_equal(rq.steps[1].ordinal, 0);
    assert_int_equal(rq.next.ordinal, 1);

    assert_int_equal(take(BODY(ASSISTANT("m", STEP "," STEP "," OK("a")))),
                     CHAT_OK);
    assert_int_equal(rq.steps[0].ordinal, 1);
    assert_int_equal(rq.next.ordinal, 2);
}


static void
a_fresh_turn_leaves_a_batch_behind(void **state)
{
    assert_int_equal(take(BODY(USER "," ASSISTANT(
                         "m", STEP "," OK("a") "," STEP "," OK("b") "," OK(
                                  "c")) "," USER "," USER)),
                     CHAT_OK);
    assert_int_equal(rq.class, CHAT_CLASS_FRESH);
    assert_true(rq.answers);
    assert_int_equal(rq.nsteps, 1);
    assert_int_equal(rq.ncalls, 2);
    assert_int_equal(rq.turn, 2);
    assert_int_equal(rq.steps[0].ordinal, 1);
    assert_false(rq.calls[0].in_last_message);
    assert_int_equal(rq.next.message.len, 0);
    assert_int_equal(rq.next.ordinal, 0);

    /* Calls before later messages are not open. */
    assert_int_equal(
        take(BODY(USER "," ASSISTANT("m", OK("a") "," SAID) "," USER)),
        CHAT_OK);
    assert_false(rq.answers);
    assert_int_equal(rq.nsteps, 0);

    assert_int_equal(
        take(BODY(ASSISTANT("m", OK("a") "," STEP "," SAID) "," USER)),
        CHAT_OK);
    assert_false(rq.answers);

    /* An unanswered call is listed, since it can be repaired. */
    assert_int_equal(take(BODY(ASSISTANT("m", OPEN("a") "," SAID) "," USER)),
                     CHAT_OK);
    assert_false(rq.answers);
    assert_int_equal(rq.nsteps, 1);
    assert_int_equal(rq.turn, 1);
}


static void
s41_an_unanswered_call_of_an_older_message_is_not_in_the_batch(void **state)
{
    assert_int_equal(
        take(BODY(USER "," ASSISTANT(
            "m-1", STEP "," OK("x") "," STEP "," OPEN(
                       "old")) "," USER "," ASSISTANT("m-2", OK("new")))),
        CHAT_OK);

    assert_int_equal(rq.class, CHAT_CLASS_CONTINUATION);
    assert_int_equal(rq.nsteps, 2);
    assert_str(rq.steps[0].first_id, "old");
    assert_int_equal(rq.steps[0].ordinal, 1);
    assert_int_equal(rq.turn, 1);
    assert_int_equal(rq.steps[1].count, 1);
    assert_str(rq.calls[rq.steps[1].first].id, "new");
    assert_false(rq.calls[0].in_last_message);
}


static void
s42_an_unanswered_call_of_an_older_step_is_not_in_the_batch(void **state)
{
    assert_int_equal(take(BODY(USER "," ASSISTANT(
                         "m", STEP "," OPEN("old") "," STEP "," OK("new")))),
                     CHAT_OK);

    assert_int_equal(rq.class, CHAT_CLASS_CONTINUATION);
    assert_int_equal(rq.nsteps, 2);
    assert_int_equal(rq.steps[1].count, 1);
    assert_str(rq.steps[1].first_id, "new");
    assert_int_equal(rq.turn, 0);
}


static void
s43_a_provider_executed_call_is_no_member(void **state)
{
    assert_int_equal(
        take(BODY(
            ASSISTANT("m", PART("srv", "input-available",
                                ",\"providerExecuted\":true") "," OK("a")))),
        CHAT_OK);
    assert_int_equal(rq.class, CHAT_CLASS_CONTINUATION);
    assert_int_equal(rq.calls[0].kind, CHAT_KIND_PROVIDER);
    assert_false(chat_call_is_member(&rq.calls[0]));
    assert_true(chat_call_is_member(&rq.calls[1]));
    assert_str(rq.steps[0].first_id, "srv");

    /* The app's own output does not come from the client. */
    assert_int_equal(
        take(BODY(
            ASSISTANT("m", PART("srv", "output-available",
                                ",\"output\":1,"
                                "\"providerExecuted\":true") "," OPEN("a")))),
        CHAT_OK);
    assert_int_equal(rq.class, CHAT_CLASS_PENDING);
}


static void
s60_without_any_result_it_is_no_continuation(void **state)
{
    assert_int_equal(
        take(BODY(USER "," ASSISTANT("m", OPEN("a") "," OPEN("b")))), CHAT_OK);
    assert_int_equal(rq.class, CHAT_CLASS_PENDING);
    assert_true(rq.answers);
    assert_int_equal(rq.ncalls, 2);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_of_another_shape_is_declined),
        cmocka_unit_test(the_last_message_may_come_alone),
        cmocka_unit_test(keys_that_stand_twice_are_ambiguous),
        cmocka_unit_test(classes),
        cmocka_unit_test(a_continuation_names_its_batch),
        cmocka_unit_test(ordinals_count_steps_as_the_stream_does),
        cmocka_unit_test(a_fresh_turn_leaves_a_batch_behind),
        cmocka_unit_test(
            s41_an_unanswered_call_of_an_older_message_is_not_in_the_batch),
        cmocka_unit_test(
            s42_an_unanswered_call_of_an_older_step_is_not_in_the_batch),
        cmocka_unit_test(s43_a_provider_executed_call_is_no_member),
        cmocka_unit_test(s60_without_any_result_it_is_no_continuation),
    };

    return cmocka_run_group_tests(tests, arena_create, arena_destroy);
}
