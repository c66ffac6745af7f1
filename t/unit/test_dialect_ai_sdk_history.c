/*
 * test_dialect_ai_sdk_history.c: a message of an AI SDK transcript as events
 * for a client without it, byte for byte.
 *
 * t/clients tests the same with the clients.
 */

#include "ai_sdk_body.h"
#include "../buf_printf.h"

#define E(json) "data: {\"type\":" json "}\n\n"
#define MESSAGE(parts) BODY(USER "," ASSISTANT("m1", parts))
#define START E("\"start\",\"messageId\":\"m1\"")
#define DIG(id) ",\"toolCallId\":\"" id "\",\"toolName\":\"dig\""
#define OF(id) ",\"toolCallId\":\"" id "\""
#define INPUT(id, json) \
    E("\"tool-input-delta\"" OF(id) ",\"inputTextDelta\":\"" json "\"")

typedef struct {
    const char *parts;
    const char *want; /* after the start */
} row_t;


/* The events for this body; rc is what history() returns. */
static void
assert_retold(const char *body, chat_rc_e rc, const char *head,
              const char *rest)
{
    chat_buf_t out = { 0 }, want = { 0 };

    chat_buf_puts(&want, head);
    chat_buf_puts(&want, rest);

    assert_int_equal(chat_json_parse(&doc, arena, chat_cstr(body)), CHAT_OK);
    assert_int_equal(chat_dialect_ai_sdk.history(&doc, &out), rc);

    if (!chat_str_eq(chat_buf_str(&out), chat_buf_str(&want))) {
        fail_msg("got %.*s, not %.*s", (int) out.len, (const char *) out.data,
                 (int) want.len, (const char *) want.data);
    }

    chat_buf_free(&out);
    chat_buf_free(&want);
}


static void
rows_check(const row_t *rows, size_t n)
{
    size_t     i;
    chat_buf_t body = { 0 };

    for (i = 0; i < n; i++) {
        body.len = 0;
        chat_buf_printf(&body, MESSAGE("%s"), rows[i].parts);
        assert_retold((const char *) body.data, CHAT_OK, START, rows[i].want);
    }

    chat_buf_free(&body);
}


static void
words_and_things(void **state)
{
    static const row_t rows[] = {
        { "", "" },
        { STEP, E("\"start-step\"") E("\"finish-step\"") },
        { SAID, E("\"text-start\",\"id\":\"before-0\"")
                    E("\"text-delta\",\"id\":\"before-0\",\"delta\":\"so\"")
                        E("\"text-end\",\"id\":\"before-0\"") },
        { "{\"type\":\"reasoning\",\"id\":\"r\\u0031\",\"text\":\"a\\nb\","
          "\"providerMetadata\":{\"p\":{\"x\":\n1}}}," SAID,
          E("\"reasoning-start\",\"id\":\"r\\u0031\","
            "\"providerMetadata\":{\"p\":{\"x\": 1}}")
              E("\"reasoning-delta\",\"id\":\"r\\u0031\",\"delta\":\"a\\nb\"")
                  E("\"reasoning-end\",\"id\":\"r\\u0031\"") E(
                      "\"text-start\",\"id\":\"before-1\"")
                      E("\"text-delta\",\"id\":\"before-1\",\"delta\":\"so\"")
                          E("\"text-end\",\"id\":\"before-1\"") },
        { STEP "," STEP, E("\"start-step\"") E("\"finish-step\"")
                             E("\"start-step\"") E("\"finish-step\"") },
        { "{\"type\":\"data-w\",\"id\":\"d\",\"data\":[1]},"
          "{\"type\":\"data-\"}",
          E("\"data-w\",\"id\":\"d\",\"data\":[1]") E("\"data-\"") },
        { "{\"type\":\"file\",\"url\":\"u\",\"mediaType\":\"a/b\"}",
          E("\"file\",\"url\":\"u\",\"mediaType\":\"a/b\"") },
        { "{\"type\":\"source-url\",\"url\":\"u\",\"sourceId\":\"s\","
          "\"title\":\"t\"},{\"type\":\"source-document\",\"sourceId\":\"s\","
          "\"mediaType\":\"m\",\"title\":\"t\",\"filename\":\"f\"}",
          E("\"source-url\",\"sourceId\":\"s\",\"url\":\"u\",\"title\":\"t\"")
              E("\"source-document\",\"sourceId\":\"s\",\"mediaType\":\"m\","
                "\"title\":\"t\",\"filename\":\"f\"") },
        { "{\"type\":\"custom\",\"kind\":\"a.b\"},{\"type\":\"steering-"
          "message\",\"id\":\"i\",\"parts\":[]},{\"type\":\"reasoning-file\","
          "\"url\":\"u\",\"mediaType\":\"m\"}",
          E("\"custom\",\"kind\":\"a.b\"")
              E("\"steering-message\",\"id\":\"i\",\"parts\":[]")
                  E("\"reasoning-file\",\"url\":\"u\",\"mediaType\":\"m\"") },
    };

    rows_check(rows, sizeof(rows) / sizeof(rows[0]));
}


static void
settled_calls_run_no_tool(void **state)
{
    static const row_t rows[] = {
        { OK("a"), E("\"tool-input-start\"" DIG("a")) INPUT("a", "{}") E(
                       "\"tool-output-available\"" OF("a") ",\"output\":7") },
        { PART("a", "output-error",
               ",\"input\":{\"k\":\n\"\\\"\"},\"errorText\":\"no\","
               "\"title\":\"T\",\"providerExecuted\":true"),
          E("\"tool-input-start\"" DIG(
              "a") ",\"providerExecuted\":true,\"title\":\"T\"")
              INPUT("a", "{\\\"k\\\": \\\"\\\\\\\"\\\"}")
                  E("\"tool-output-error\"" OF("a") ",\"errorText\":\"no\","
                                                    "\"providerExecuted\":"
                                                    "true") },
        { "{\"type\":\"dynamic-tool\",\"toolName\":\"d\",\"toolCallId\":"
          "\"a\",\"state\":\"output-available\",\"input\":1,\"output\":2,"
          "\"preliminary\":true,\"callProviderMetadata\":{\"c\":{}},"
          "\"resultProviderMetadata\":{\"r\":{}}}",
          E("\"tool-input-start\"" OF(
              "a") ",\"toolName\":\"d\",\"dynamic\":true,"
                   "\"providerMetadata\":{\"c\":{}}") INPUT("a", "1")
              E("\"tool-output-available\"" OF(
                  "a") ",\"dynamic\":true,\"output\":2,\"preliminary\":true,"
                       "\"providerMetadata\":{\"r\":{}}") },
        { PART("a", "output-error",
               ",\"rawInput\":\"{b\",\"errorText\":\"no\""),
          E("\"tool-input-error\"" DIG(
              "a") ",\"input\":\"{b\",\"errorText\":\"no\"") },
        { PART("a", "output-error", ",\"errorText\":\"no\""),
          E("\"tool-input-start\"" DIG("a"))
              E("\"tool-output-error\"" OF("a") ",\"errorText\":\"no\"") },
    };

    rows_check(rows, sizeof(rows) / sizeof(rows[0]));
}


static void
approvals(void **state)
{
    static const row_t rows[] = {
        { PART("a", "approval-responded",
               ",\"input\":{},\"approval\":{\"id\":\"p\",\"approved\":true,"
               "\"signature\":\"s\"}"),
          E("\"tool-input-start\"" DIG("a")) INPUT("a", "{}")
              E("\"tool-approval-request\"" OF("a") ",\"approvalId\":\"p\","
                                                    "\"signature\":\"s\"") },
        { PART("a", "approval-requested",
               ",\"approval\":{\"id\":\"p\",\"requestReason\":\"r\"}"),
          E("\"tool-input-start\"" DIG("a"))
              E("\"tool-approval-request\"" OF("a") ",\"approvalId\":\"p\","
                                                    "\"reason\":\"r\"") },
        { PART("a", "output-denied", ",\"approval\":{\"id\":\"p\"}"),
          E("\"tool-input-start\"" DIG("a"))
              E("\"tool-approval-request\"" OF("a") ",\"approvalId\":\"p\"")
                  E("\"tool-output-denied\"" OF("a")) },
        { PART("a", "output-denied", ""),
          E("\"tool-input-start\"" DIG("a"))
              E("\"tool-output-denied\"" OF("a")) },
        /* a granted approval without other members would be invalid */
        { PART("a", "output-available",
               ",\"approval\":{\"id\":\"p\",\"approved\":true},\"output\":1"),
          E("\"tool-input-start\"" DIG("a"))
              E("\"tool-output-available\"" OF("a") ",\"output\":1") },
    };

    rows_check(rows, sizeof(rows) / sizeof(rows[0]));
}


static void
a_call_without_a_result_is_still_to_be_answered(void **state)
{
    static const row_t rows[] = {
        { OPEN("a"), E("\"tool-input-available\"" DIG("a") ",\"input\":{}") },
        { "{\"type\":\"dynamic-tool\",\"toolName\":\"d\",\"toolCallId\":"
          "\"a\",\"state\":\"input-available\"}",
          E("\"tool-input-available\"" OF(
              "a") ",\"toolName\":\"d\",\"dynamic\":true") },
    };

    rows_check(rows, sizeof(rows) / sizeof(rows[0]));
}


static void
what_cannot_be_said_is_left_out(void **state)
{
    static const row_t rows[] = {
        { "1,null,[],{},{\"type\":5},{\"type\":\"new\"}", "" },
        { "{\"type\":\"text\"},{\"type\":\"text\",\"text\":5}", "" },
        { "{\"type\":\"tool-\",\"toolCallId\":\"a\",\"state\":"
          "\"output-available\"}",
          "" },
        { "{\"type\":\"tool-d\",\"toolCallId\":5,\"state\":"
          "\"output-available\"}",
          "" },
        { "{\"type\":\"dynamic-tool\",\"toolCallId\":\"a\",\"state\":"
          "\"output-available\"}",
          "" },
        { PART("a", "input-streaming", ""), "" },
        { PART("a", "of-the-future", ""), "" },
        { PART("a", "output-error", ",\"errorText\":{}"), "" },
        { PART("a", "approval-responded", ""), "" },
        { PART("a", "approval-requested", ",\"approval\":{\"id\":1}"), "" },
        { "{\"type\":\"file\",\"url\":\"u\"}", "" },
        { "{\"type\":\"file\",\"url\":\"u\",\"mediaType\":null}", "" },
        { "{\"type\":\"source-document\",\"sourceId\":\"s\","
          "\"mediaType\":\"m\"}",
          "" },
        { "{\"type\":\"file\",\"url\":\"u\",\"mediaType\":\"m\","
          "\"providerMetadata\":[{\"a\":1}]}",
          E("\"file\",\"url\":\"u\",\"mediaType\":\"m\"") },
        { "{\"type\":\"data-w\",\"id\":5,\"data\":1}",
          E("\"data-w\",\"data\":1") },
    };

    rows_check(rows, sizeof(rows) / sizeof(rows[0]));
}


static void
a_part_of_very_many_members_is_left_out(void **state)
{
    int        i;
    chat_buf_t body = { 0 };

    chat_buf_puts(&body, "{\"id\":\"c\",\"messages\":[{\"id\":\"m1\","
                         "\"role\":\"assistant\",\"parts\":[{");
    for (i = 0; i < 64; i++) {
        chat_buf_printf(&body, "\"k%d\":0,", i);
    }
    chat_buf_puts(&body, "\"type\":\"text\",\"text\":\"so\"}]}]}");
    chat_buf_add(&body, chat_str("", 1));

    assert_retold((const char *) body.data, CHAT_OK, START, "");
    chat_buf_free(&body);
}


static void
only_a_message_that_the_answer_goes_on_with(void **state)
{
    assert_retold(BODY(USER), CHAT_DECLINED, "", "");
    assert_retold(BODY(ASSISTANT("m1", SAID) "," USER), CHAT_DECLINED, "", "");
    assert_retold("{\"id\":\"c\",\"messages\":[]}", CHAT_DECLINED, "", "");
    assert_retold("{\"id\":\"c\"}", CHAT_DECLINED, "", "");
    assert_retold("[1]", CHAT_DECLINED, "", "");
    assert_retold(
        "{\"trigger\":\"regenerate-message\",\"messages\":[" ASSISTANT(
            "m1", "") "]}",
        CHAT_DECLINED, "", "");
    assert_retold("{\"messages\":[{\"role\":\"assistant\",\"parts\":[]}]}",
                  CHAT_DECLINED, "", "");
    assert_retold("{\"messages\":[{\"id\":\"m1\",\"role\":\"assistant\"}]}",
                  CHAT_DECLINED, "", "");
    assert_retold("{\"message\":" ASSISTANT("m1", STEP) "}", CHAT_OK, START,
                  E("\"start-step\"") E("\"finish-step\""));
    assert_retold("{\"messages\":[{\"id\":\"\\n\",\"role\":\"assistant\","
                  "\"metadata\":{\"a\":\n[1]},\"parts\":[]}]}",
                  CHAT_OK,
                  E("\"start\",\"messageId\":\"\\n\","
                    "\"messageMetadata\":{\"a\": [1]}"),
                  "");
    assert_retold("{\"messages\":[{\"id\":\"m1\",\"role\":\"assistant\","
                  "\"metadata\":null,\"parts\":[]}]}",
                  CHAT_OK, START, "");
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_and_things),
        cmocka_unit_test(settled_calls_run_no_tool),
        cmocka_unit_test(approvals),
        cmocka_unit_test(a_call_without_a_result_is_still_to_be_answered),
        cmocka_unit_test(what_cannot_be_said_is_left_out),
        cmocka_unit_test(a_part_of_very_many_members_is_left_out),
        cmocka_unit_test(only_a_message_that_the_answer_goes_on_with),
    };

    return cmocka_run_group_tests(tests, arena_create, arena_destroy);
}
