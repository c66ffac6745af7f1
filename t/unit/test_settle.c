/*
 * test_settle.c: a recorded stream for a client that begins with it, when
 * calls of it have their results.
 *
 * Such a call comes with its result and without what makes a client run its
 * tool; every other byte stays, however the stream is cut.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "follow/chat_settle.h"

#define ZEROS "00000000000000000000000000000000"
#define E(json) "data: {\"type\":" json "}\n\n"
#define OF(id) ",\"toolCallId\":\"" id "\""
#define READY(id) \
    E("\"tool-input-available\"" OF(id) ",\"toolName\":\"w\",\"input\":{}")
#define AGAIN(id)                                          \
    E("\"tool-input-start\"" OF(id) ",\"toolName\":\"w\"") \
    E("\"tool-input-delta\"" OF(id) ",\"inputTextDelta\":\"{}\"")
#define ASK(id) E("\"tool-approval-request\"" OF(id) ",\"approvalId\":\"p\"")
#define TEXT \
    "data:{\"type\":\"text-delta\",\"id\":\"1\",\"delta\":\"a\"}\r\n\r\n"


static const chat_result_t results[] = {
    { .id = CHAT_STR("a"),
      .outcome = CHAT_OUTCOME_OK,
      .payload = CHAT_STR("[1,\n2]") },
    { .id = CHAT_STR("e"),
      .outcome = CHAT_OUTCOME_ERROR,
      .payload = CHAT_STR("\"no\"") },
    { .id = CHAT_STR("d"), .outcome = CHAT_OUTCOME_DENIED },
};


/* All of the bytes, in pieces of this size. */
static void
settled(const char *bytes, const char *want, size_t piece, size_t max)
{
    size_t        at, len = strlen(bytes);
    chat_buf_t    out = { 0 };
    chat_settle_t settle;

    assert_int_equal(
        chat_settle_init(&settle, &chat_dialect_ai_sdk, results, 3, max),
        CHAT_OK);

    for (at = 0; at < len; at += piece) {
        assert_int_equal(
            chat_settle(
                &settle,
                chat_str(bytes + at, len - at < piece ? len - at : piece),
                &out),
            CHAT_OK);
    }

    chat_settle_end(&settle, &out);
    chat_settle_free(&settle);
    chat_settle_free(&settle);

    chat_buf_add(&out, chat_str("", 1));
    assert_string_equal((char *) out.data, want);
    chat_buf_free(&out);
}


static void
in_all_pieces(const char *bytes, const char *want)
{
    size_t piece;

    for (piece = 1; piece <= strlen(bytes); piece++) {
        settled(bytes, want, piece, 0);
    }
}


static void
a_call_comes_with_its_result(void **state)
{
    in_all_pieces(TEXT READY("a") READY("b") READY("e"),
                  TEXT AGAIN("a") E("\"tool-output-available\"" OF(
                      "a") ",\"output\":[1, 2]") READY("b") AGAIN("e")
                      E("\"tool-output-error\"" OF("e") ",\"errorText\":"
                                                        "\"no\""));
    in_all_pieces(
        E("\"tool-input-available\",\"dynamic\":true,\"toolName\":\"w\","
          "\""
          "toolCallId\":\"\\u0061\",\"input\":3,\"providerMetadata\":{\"p\":"
          "{}}"),
        E("\"tool-input-start\",\"toolCallId\":\"\\u0061\",\"toolName\":\"w\","
          "\"dynamic\":true,\"providerMetadata\":{\"p\":{}}")
            E("\"tool-input-delta\",\"toolCallId\":\"\\u0061\","
              "\"inputTextDelta\":\"3\"")
                E("\"tool-output-available\"" OF(
                    "a") ",\"output\":[1, 2],\"dynamic\":true"));
}


static void
nobody_is_asked_about_a_settled_call(void **state)
{
    in_all_pieces(READY("d") ASK("d") ASK("b"),
                  AGAIN("d") E("\"tool-output-denied\"" OF("d")) ASK("b"));
}


static void
all_else_stays(void **state)
{
    static const char *const streams[] = {
        TEXT TEXT ": a comment\n\n" READY("b"),
        E("\"tool-input-start\"" OF("a")),
        E("\"tool-output-available\"" OF("a") ",\"output\":5"),
        "data: [DONE]\n\n",
        "data: {\n\nevent: x\n\n\n",
        "data: {\"type\":\"tool-input-available\",\"toolCallId\":\"a\"",
        E("\"tool-input-available\",\"toolCallId\":[\"a\"]"),
        E("\"tool-input-available\""),
    };
    size_t i;

    for (i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
        in_all_pieces(streams[i], streams[i]);
    }
}


static void
an_event_past_the_bound_stays(void **state)
{
    settled(READY("a") TEXT, READY("a") TEXT, 7, 40);
}


static void
without_results_nothing_is_done(void **state)
{
    chat_buf_t    out = { 0 };
    chat_settle_t settle;

    assert_int_equal(
        chat_settle_init(&settle, &chat_dialect_ai_sdk, results, 0, 0),
        CHAT_OK);
    assert_int_equal(chat_settle(&settle, chat_cstr(READY("a")), &out),
                     CHAT_DECLINED);
    chat_settle_end(&settle, &out);
    chat_settle_free(&settle);

    assert_int_equal(
        chat_settle_init(&settle, &chat_dialect_openai_chat, results, 3, 0),
        CHAT_OK);
    assert_int_equal(chat_settle(&settle, chat_cstr(READY("a")), &out),
                     CHAT_DECLINED);
    chat_settle_free(&settle);
    assert_int_equal(out.len, 0);
}


static chat_fact_t
fact(const char *field, const char *value, const char *payload)
{
    chat_fact_t it = { chat_cstr(field), chat_cstr(value),
                       payload ? chat_cstr(payload) : chat_str(NULL, 0),
                       payload != NULL };

    return it;
}


static void
results_are_those_whose_payload_is_there(void **state)
{
    size_t            count;
    chat_str_t       *fields;
    chat_arena_t     *arena = chat_arena_create(0);
    chat_result_t    *list;
    const chat_fact_t facts[] = {
        fact("call/a", "0 c " ZEROS, NULL),
        fact("result/a", "o " ZEROS " " ZEROS, "7"),
        fact("result/b", "e " ZEROS " " ZEROS, "\"no\""),
        fact("result/c", "o " ZEROS " " ZEROS, NULL),
        fact("result/d", "what is that", "1"),
        fact("approval/e", "g", ""),
    };

    fields = chat_settle_fields(facts, 6, arena, &count);
    assert_int_equal(count, 3);
    assert_true(chat_str_is(fields[0], "result/a"));
    assert_true(chat_str_is(fields[2], "result/d"));

    list = chat_settle_results(facts, 6, arena, &count);
    assert_int_equal(count, 2);
    assert_true(chat_str_is(list[0].id, "a"));
    assert_int_equal(list[0].outcome, CHAT_OUTCOME_OK);
    assert_true(chat_str_is(list[0].payload, "7"));
    assert_true(chat_str_is(list[1].id, "b"));
    assert_int_equal(list[1].outcome, CHAT_OUTCOME_ERROR);
    assert_true(chat_str_is(list[1].payload, "\"no\""));

    assert_null(chat_settle_fields(facts, 1, arena, &count));
    assert_int_equal(count, 0);
    assert_null(chat_settle_results(facts, 1, arena, &count));
    assert_int_equal(count, 0);
    chat_arena_destroy(arena);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_comes_with_its_result),
        cmocka_unit_test(nobody_is_asked_about_a_settled_call),
        cmocka_unit_test(all_else_stays),
        cmocka_unit_test(an_event_past_the_bound_stays),
        cmocka_unit_test(without_results_nothing_is_done),
        cmocka_unit_test(results_are_those_whose_payload_is_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
