/*
 * test_follow.c: a recorded stream, rewritten for a follower.
 *
 * A call has its result and no event that makes a client run its tool; the
 * first start gets the client's message id; events are injected after the
 * first event. Every other byte stays, however the stream is cut.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "follow/chat_follow.h"

#define ZEROS "0000000000000000"
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


#define START "data: {\"type\":\"start\",\"messageId\":\"m1\"}\n\n"
#define TEXT1 \
    "data: {\"type\":\"text-delta\",\"id\":\"1\",\"delta\":\"m1\"}\n\n"


static const chat_result_t results[] = {
    { .id = CHAT_STR("a"),
      .outcome = CHAT_OUTCOME_OK,
      .payload = CHAT_STR("[1,\n2]") },
    { .id = CHAT_STR("e"),
      .outcome = CHAT_OUTCOME_ERROR,
      .payload = CHAT_STR("\"no\"") },
    { .id = CHAT_STR("d"), .outcome = CHAT_OUTCOME_DENIED },
};


/* The whole stream, given in pieces of this size, must become want. */
static void
rewritten(const chat_follow_conf_t *conf, const char *bytes, const char *want,
          size_t piece)
{
    size_t        at, n, len = strlen(bytes);
    chat_rc_e     rc;
    chat_buf_t    out = { 0 };
    chat_follow_t follow;

    assert_int_equal(chat_follow_init(&follow, conf), CHAT_OK);

    for (at = 0; at < len; at += n) {
        n = len - at < piece ? len - at : piece;
        rc = chat_follow(&follow, chat_str(bytes + at, n), &out);

        if (rc == CHAT_DECLINED) {
            chat_buf_add(&out, chat_str(bytes + at, n));
        } else {
            assert_int_equal(rc, CHAT_OK);
        }
    }

    chat_follow_end(&follow, &out);
    chat_follow_free(&follow);
    chat_follow_free(&follow);

    chat_buf_add(&out, chat_str("", 1));
    assert_string_equal((char *) out.data, want);
    chat_buf_free(&out);
}


static void
rewritten_in_all_pieces(const chat_follow_conf_t *conf, const char *bytes,
                        const char *want)
{
    size_t piece;

    for (piece = 1; piece <= strlen(bytes); piece++) {
        rewritten(conf, bytes, want, piece);
    }
}


/* With the results of the calls a, e and d. */
static void
in_all_pieces(const char *bytes, const char *want)
{
    chat_follow_conf_t conf = { .dialect = &chat_dialect_ai_sdk,
                                .results = results,
                                .nresults = 3 };

    rewritten_in_all_pieces(&conf, bytes, want);
}


/* With the message from renamed; want NULL: every byte stays. */
static void
renamed(const chat_dialect_t *dialect, const char *from, const char *to,
        const char *bytes, const char *want)
{
    chat_follow_conf_t conf = { .dialect = dialect,
                                .from = chat_cstr(from),
                                .to = chat_cstr(to) };

    rewritten_in_all_pieces(&conf, bytes, want ? want : bytes);
}


static void
only_the_id_of_the_message_changes(void **state)
{
    const chat_dialect_t *d = &chat_dialect_ai_sdk;

    renamed(d, "m1", "other", START TEXT1,
            "data: {\"type\":\"start\",\"messageId\":\"other\"}\n\n" TEXT1);
    renamed(d, "m1", "o",
            ": hi\n\nevent: x\ndata:{ \"messageId\" : \"m1\" ,"
            " \"type\":\"start\" }\r\n\r\n" TEXT1 "data: {\"ty",
            ": hi\n\nevent: x\ndata:{ \"messageId\" : \"o\" ,"
            " \"type\":\"start\" }\r\n\r\n" TEXT1 "data: {\"ty");
    renamed(d, "m1", "a\"b\\c\n", START,
            "data: {\"type\":\"start\",\"messageId\":\"a\\\"b\\\\c\\n\"}"
            "\n\n");
    renamed(d, "m1", "o",
            "data: {\"type\":\"start\",\"messageId\":\"\\u006d1\"}\n\n",
            "data: {\"type\":\"start\",\"messageId\":\"o\"}\n\n");
}


static void
a_stream_of_another_message_stays(void **state)
{
    const chat_dialect_t *d = &chat_dialect_ai_sdk;

    renamed(d, "m2", "other", START TEXT1, NULL);
    renamed(d, "m1", "m1", START TEXT1, NULL);
    renamed(d, "", "other", START TEXT1, NULL);
    renamed(d, "m1", "", START TEXT1, NULL);
    renamed(d, "m1", "other", TEXT1 "data: [DONE]\n\n", NULL);
    renamed(d, "m1", "o", "data: {\"type\":\"start\"}\n\n" TEXT1, NULL);
    renamed(d, "m1", "o", "data: {\"type\":\"start\",\"messageId\":\"m1\"}",
            NULL);
    renamed(d, "m1", "o", "data: {\"type\":\"start\",\"messageId\":[1]}\n\n",
            NULL);
    renamed(&chat_dialect_openai_chat, "m1", "o", START, NULL);
}


static void
only_the_first_start_is_renamed(void **state)
{
    renamed(&chat_dialect_ai_sdk, "m1", "o",
            TEXT1 "data: {\"type\":\"start\",\"messageId\":\"x\"}\n\n" START,
            NULL);
}


static void
a_start_behind_the_bound_is_not_renamed(void **state)
{
    size_t             i;
    chat_buf_t         out = { 0 };
    chat_follow_t      follow;
    chat_follow_conf_t conf = { .dialect = &chat_dialect_ai_sdk,
                                .from = CHAT_STR("m1"),
                                .to = CHAT_STR("o") };

    assert_int_equal(chat_follow_init(&follow, &conf), CHAT_OK);

    for (i = 0; i <= CHAT_FOLLOW_RENAME / strlen(TEXT1); i++) {
        assert_int_equal(chat_follow(&follow, chat_cstr(TEXT1), &out),
                         CHAT_OK);
    }

    assert_int_equal(chat_follow(&follow, chat_cstr(START), &out),
                     CHAT_DECLINED);
    chat_buf_free(&out);
    chat_follow_free(&follow);
}


/* The same position must be found in a client's own stream. */
static void
found(const chat_follow_conf_t *conf, const char *bytes, size_t want,
      size_t piece)
{
    size_t        i, n, at = 0, found = 0, len = strlen(bytes);
    chat_follow_t follow;

    assert_int_equal(chat_follow_init(&follow, conf), CHAT_OK);

    for (i = 0; i < len; i += n) {
        n = len - i < piece ? len - i : piece;

        if (chat_follow_find(&follow, chat_str(bytes + i, n), &at) == CHAT_OK)
        {
            assert_true(at <= n && found == 0);
            found = i + at;
        }
    }

    assert_int_equal(found, want);
    chat_follow_free(&follow);
}


#define STARTED "data: {\"type\":\"RUN_STARTED\",\"input\":{}}"
#define FAILED "data: {\"type\":\"RUN_ERROR\",\"message\":\"RUN_STARTED\"}"
#define INJECTED "data: {\"type\":\"TOOL_CALL_RESULT\"}\n\n"


static void
events_are_injected_behind_the_first_one(void **state)
{
    size_t             i, piece;
    chat_follow_conf_t conf = { .dialect = &chat_dialect_ag_ui,
                                .injected = CHAT_STR(INJECTED) };

    static const struct {
        const char *head; /* the events go after it */
        const char *rest;
        int         none;
    } texts[] = {
        { STARTED "\n\n", "data: 1\n\n", 0 },
        { STARTED "\n\n", "", 0 },
        { ": hold\n\n\n\nid: 1\n\n" STARTED "\n\n", STARTED "\n\n", 0 },
        { "event: x\r\n" STARTED "\r\n\r\n", "data: 1\r\n\r\n", 0 },
        { STARTED "\r\r", "data: 1\r\r", 0 },
        { "data: { \"type\" : \"RUN_STARTED\"}\n\n", "", 0 },
        { "data:{\"type\":\ndata: \"RUN_STARTED\"}\n\n", "", 0 },
        { STARTED "\n", "", 1 },
        { FAILED "\n\n", STARTED "\n\n", 1 },
        { "data: {\"type\":\"CUSTOM\"}\n\n", STARTED "\n\n", 1 },
        { "dat\n\ndatb: \"RUN_STARTED\"\n\n", "", 1 },
        { ": \"type\":\"RUN_STARTED\"\ndata: 1\n\n", "", 1 },
    };

    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char text[512] = "", want[512] = "";

        strcat(strcat(text, texts[i].head), texts[i].rest);
        strcat(want, texts[i].head);
        strcat(strcat(want, texts[i].none ? "" : INJECTED), texts[i].rest);
        rewritten_in_all_pieces(&conf, text, want);

        for (piece = 1; piece <= strlen(text); piece++) {
            found(&conf, text, texts[i].none ? 0 : strlen(texts[i].head),
                  piece);
        }
    }
}


static void
other_dialects_inject_nothing_behind_an_event(void **state)
{
    size_t             at;
    chat_buf_t         out = { 0 };
    chat_follow_t      follow;
    chat_follow_conf_t conf = { .dialect = &chat_dialect_ai_sdk,
                                .injected = CHAT_STR(INJECTED) };

    rewritten_in_all_pieces(&conf, STARTED "\n\n", STARTED "\n\n");
    found(&conf, STARTED "\n\n", 0, 100);

    memset(&follow, 0, sizeof(follow));
    assert_int_equal(chat_follow_find(&follow, chat_cstr(STARTED "\n\n"), &at),
                     CHAT_DECLINED);
    assert_int_equal(chat_follow(&follow, chat_cstr(STARTED "\n\n"), &out),
                     CHAT_DECLINED);
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
a_call_with_a_result_asks_for_no_approval(void **state)
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
    chat_follow_conf_t conf = { .dialect = &chat_dialect_ai_sdk,
                                .results = results,
                                .nresults = 3,
                                .max_frame = 40 };

    rewritten(&conf, READY("a") TEXT, READY("a") TEXT, 7);
}


static void
without_results_bytes_pass(void **state)
{
    chat_buf_t         out = { 0 };
    chat_follow_t      follow;
    chat_follow_conf_t conf = { .dialect = &chat_dialect_ai_sdk,
                                .results = results };

    assert_int_equal(chat_follow_init(&follow, &conf), CHAT_OK);
    assert_int_equal(chat_follow(&follow, chat_cstr(READY("a")), &out),
                     CHAT_DECLINED);
    chat_follow_end(&follow, &out);
    chat_follow_free(&follow);

    conf.dialect = &chat_dialect_openai_chat;
    conf.nresults = 3;
    assert_int_equal(chat_follow_init(&follow, &conf), CHAT_OK);
    assert_int_equal(chat_follow(&follow, chat_cstr(READY("a")), &out),
                     CHAT_DECLINED);
    chat_follow_free(&follow);
    assert_int_equal(out.len, 0);
}


static void
all_changes_are_made_in_one_pass(void **state)
{
    chat_follow_conf_t conf = { .dialect = &chat_dialect_ai_sdk,
                                .from = CHAT_STR("m1"),
                                .to = CHAT_STR("o"),
                                .results = results,
                                .nresults = 3 };

    rewritten_in_all_pieces(
        &conf, START TEXT ASK("a") START,
        "data: {\"type\":\"start\",\"messageId\":\"o\"}\n\n" TEXT START);
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
results_need_a_stored_payload(void **state)
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

    fields = chat_follow_fields(facts, 6, arena, &count);
    assert_int_equal(count, 3);
    assert_true(chat_str_is(fields[0], "result/a"));
    assert_true(chat_str_is(fields[2], "result/d"));

    list = chat_follow_results(facts, 6, arena, &count);
    assert_int_equal(count, 2);
    assert_true(chat_str_is(list[0].id, "a"));
    assert_int_equal(list[0].outcome, CHAT_OUTCOME_OK);
    assert_true(chat_str_is(list[0].payload, "7"));
    assert_true(chat_str_is(list[1].id, "b"));
    assert_int_equal(list[1].outcome, CHAT_OUTCOME_ERROR);
    assert_true(chat_str_is(list[1].payload, "\"no\""));

    assert_null(chat_follow_fields(facts, 1, arena, &count));
    assert_int_equal(count, 0);
    assert_null(chat_follow_results(facts, 1, arena, &count));
    assert_int_equal(count, 0);
    chat_arena_destroy(arena);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_id_of_the_message_changes),
        cmocka_unit_test(a_stream_of_another_message_stays),
        cmocka_unit_test(only_the_first_start_is_renamed),
        cmocka_unit_test(a_start_behind_the_bound_is_not_renamed),
        cmocka_unit_test(events_are_injected_behind_the_first_one),
        cmocka_unit_test(other_dialects_inject_nothing_behind_an_event),
        cmocka_unit_test(a_call_comes_with_its_result),
        cmocka_unit_test(a_call_with_a_result_asks_for_no_approval),
        cmocka_unit_test(all_else_stays),
        cmocka_unit_test(an_event_past_the_bound_stays),
        cmocka_unit_test(without_results_bytes_pass),
        cmocka_unit_test(all_changes_are_made_in_one_pass),
        cmocka_unit_test(results_need_a_stored_payload),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
