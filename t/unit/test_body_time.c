/*
 * test_body_time.c: reading any body takes about as long as a harmless one of
 * its size.
 *
 * Each attack makes a reader compare many items with many others: results with
 * calls, duplicates of one call with one large result, pieces with the members
 * of one object. A quadratic reader takes ten to a thousand times as long.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "dialect/chat_dialect.h"
#include "policy/chat_gate.h"
#include "../buf_printf.h"
#include "../tenant.h"

#define SIZE (4 << 20)
#define CALLS CHAT_CALLS_MAX /* of a step, as many as readers take */
#define TIMES 8              /* as long as the harmless body */
#define TRIES 12

static chat_buf_t text;


/* n times the item, %u in it being its number, with commas between. */
static void
repeat(const char *item, unsigned n)
{
    unsigned i;

    for (i = 0; i < n; i++) {
        chat_buf_puts(&text, i ? "," : "");
        chat_buf_printf(&text, item, i, i);
    }
}


/* The item, with commas between, until the body is long enough. */
static void
fill(const char *item)
{
    while (text.len < SIZE) {
        chat_buf_puts(&text, item);
        chat_buf_puts(&text, ",");
    }

    chat_buf_puts(&text, item);
}


static void
fill_text(void)
{
    while (text.len < SIZE) {
        chat_buf_puts(&text, "0123456789012345678901234567890123456789");
    }
}


/* The seconds of CPU time that the reader takes; *rc is what it returns. */
static double
seconds(const char *name, chat_str_t body, chat_rc_e *rc)
{
    double                took;
    clock_t               begin;
    chat_arena_t         *arena = chat_arena_create(0);
    chat_request_t        rq;
    chat_json_doc_t       doc;
    chat_question_t       q;
    const chat_dialect_t *dialect = chat_dialect_find(chat_cstr(name));

    rq = (chat_request_t){ .tenant = &test_tenant, .named = 1 };
    memset(&q, 0, sizeof(q));
    begin = clock();

    *rc = chat_json_parse(&doc, arena, body);
    assert_int_equal(*rc, CHAT_OK);

    (void) chat_dialect_request(dialect, chat_cstr("/x"), &doc, arena, &rq,
                                rc);
    (void) chat_dialect_sign(dialect, &doc, &q.key.name, &rq);
    (void) chat_gate_question(dialect, &rq, CALLS, arena, &q);

    took = (double) (clock() - begin) / CLOCKS_PER_SEC;
    chat_arena_destroy(arena);
    return took;
}


/*
 * Checks that the body is read about as fast as a harmless one of its size.
 * Other processes can only add to a time, so the least time of each body
 * counts.
 */
static void
in_time(const char *name, chat_rc_e expected)
{
    int        i;
    double     took, harmless = 1e9, attack = 1e9;
    chat_rc_e  rc;
    chat_buf_t body = text;

    memset(&text, 0, sizeof(text));
    chat_buf_puts(&text, "{\"messages\":[");
    fill(
        "{\"role\":\"user\",\"content\":\"0123456789\",\"name\":\"someone\"}");
    chat_buf_puts(&text, "]}");

    for (i = 0; i < TRIES && (i == 0 || attack > TIMES * harmless); i++) {
        took = seconds(name, chat_buf_str(&body), &rc);
        assert_int_equal(rc, expected);
        attack = took < attack ? took : attack;

        took = seconds("openai_chat", chat_buf_str(&text), &rc);
        harmless = took < harmless ? took : harmless;
    }

    if (attack > TIMES * harmless) {
        print_error("%s: %.3f s, harmless %.3f s\n", name, attack, harmless);
    }
    assert_true(attack <= TIMES * harmless);

    chat_buf_free(&body);
    chat_buf_free(&text);
    memset(&text, 0, sizeof(text));
}


static int
begin(void **state)
{
    chat_buf_free(&text);
    memset(&text, 0, sizeof(text));
    return 0;
}


#define CHAT_OPENS                                          \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}," \
    "{\"role\":\"assistant\",\"tool_calls\":["
#define ANTHROPIC_OPENS                                     \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}," \
    "{\"role\":\"assistant\",\"content\":["
#define AG_UI_OPENS                                      \
    "{\"threadId\":\"t\",\"runId\":\"r\",\"messages\":[" \
    "{\"id\":\"m\",\"role\":\"assistant\",\"toolCalls\":["
#define RESPONSES_OPENS "{\"input\":[{\"role\":\"user\",\"content\":\"x\"},"
#define GEMINI_OPENS \
    "{\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":\"x\"}]},"


static void
test_results_of_no_call_beside_many_calls(void **state)
{
    chat_buf_puts(&text, CHAT_OPENS);
    repeat("{\"id\":\"call_%04u\",\"function\":{}}", CALLS);
    chat_buf_puts(&text, "]},");
    fill("{\"role\":\"tool\",\"tool_call_id\":\"call_none\"}");
    chat_buf_puts(&text, "]}");
    in_time("openai_chat", CHAT_OK);

    chat_buf_puts(&text, ANTHROPIC_OPENS);
    repeat("{\"type\":\"tool_use\",\"id\":\"call_%04u\"}", CALLS);
    chat_buf_puts(&text, "]},{\"role\":\"user\",\"content\":[");
    fill("{\"type\":\"tool_result\",\"tool_use_id\":\"call_none\"}");
    chat_buf_puts(&text, "]}]}");
    in_time("anthropic", CHAT_OK);

    chat_buf_puts(&text, AG_UI_OPENS);
    repeat("{\"id\":\"call_%04u\",\"function\":{\"name\":\"f\"}}", CALLS);
    chat_buf_puts(&text, "]},");
    fill("{\"role\":\"tool\",\"toolCallId\":\"call_none\"}");
    chat_buf_puts(&text, "]}");
    in_time("ag_ui", CHAT_OK);

    chat_buf_puts(&text, RESPONSES_OPENS);
    repeat("{\"type\":\"function_call\",\"call_id\":\"call_%04u\"}", CALLS);
    chat_buf_puts(&text, ",");
    fill("{\"type\":\"function_call_output\",\"call_id\":\"call_none\"}");
    chat_buf_puts(&text, "]}");
    in_time("openai_responses", CHAT_OK);
}


/* Calls with one id share one result; its digest is made once. */
static void
test_twins_of_one_large_result(void **state)
{
    chat_buf_puts(&text, CHAT_OPENS);
    repeat("{\"id\":\"a\",\"function\":{}}", CALLS);
    chat_buf_puts(&text, "]},{\"role\":\"tool\",\"tool_call_id\":\"a\","
                         "\"content\":\"");
    fill_text();
    chat_buf_puts(&text, "\"}]}");
    in_time("openai_chat", CHAT_OK);

    chat_buf_puts(&text, ANTHROPIC_OPENS);
    repeat("{\"type\":\"tool_use\",\"id\":\"a\"}", CALLS);
    chat_buf_puts(&text, "]},{\"role\":\"user\",\"content\":[{\"type\":"
                         "\"tool_result\",\"tool_use_id\":\"a\","
                         "\"content\":\"");
    fill_text();
    chat_buf_puts(&text, "\"}]}]}");
    in_time("anthropic", CHAT_OK);

    chat_buf_puts(&text, AG_UI_OPENS);
    repeat("{\"id\":\"a\",\"function\":{\"name\":\"f\"}}", CALLS);
    chat_buf_puts(&text, "]},{\"role\":\"tool\",\"toolCallId\":\"a\","
                         "\"content\":\"");
    fill_text();
    chat_buf_puts(&text, "\"}]}");
    in_time("ag_ui", CHAT_OK);

    chat_buf_puts(&text, RESPONSES_OPENS);
    repeat("{\"type\":\"function_call\",\"call_id\":\"a\"}", CALLS);
    chat_buf_puts(&text, ",{\"type\":\"function_call_output\","
                         "\"call_id\":\"a\",\"output\":\"");
    fill_text();
    chat_buf_puts(&text, "\"}]}");
    in_time("openai_responses", CHAT_OK);
}


static void
test_twins_of_one_result_with_many_members(void **state)
{
    chat_buf_puts(&text, CHAT_OPENS);
    repeat("{\"id\":\"a\",\"function\":{}}", CALLS);
    chat_buf_puts(&text, "]},{\"role\":\"tool\",\"tool_call_id\":\"a\",");
    fill("\"0123456789\":1");
    chat_buf_puts(&text, "}]}");
    in_time("openai_chat", CHAT_OK);
}


/* Gemini: many steps below the limit. */
static void
test_steps_with_results_of_no_call(void **state)
{
    chat_buf_puts(&text, GEMINI_OPENS);

    while (text.len < SIZE) {
        chat_buf_puts(&text, "{\"role\":\"model\",\"parts\":[");
        repeat("{\"functionCall\":{\"id\":\"call_%04u\",\"name\":\"f\"}}",
               CALLS);
        chat_buf_puts(&text, "]},{\"role\":\"user\",\"parts\":[");
        repeat("{\"functionResponse\":{\"id\":\"none_%04u\"}}", CALLS);
        chat_buf_puts(&text, "]},");
    }

    chat_buf_puts(&text, "{\"role\":\"user\",\"parts\":[{\"text\":\"x\"}]}]}");
    in_time("gemini", CHAT_LIMIT);
}


static void
test_pieces_of_one_object_with_many_members(void **state)
{
    chat_buf_puts(&text, GEMINI_OPENS "{\"role\":\"model\",\"parts\":["
                                      "{\"functionCall\":{\"name\":\"f\","
                                      "\"partialArgs\":[");
    repeat("{\"jsonPath\":\"$.k%u\",\"stringValue\":\"\"}", 1000);
    chat_buf_puts(&text, ",");
    fill("{\"jsonPath\":\"$.k999\",\"stringValue\":\"\"}");
    chat_buf_puts(&text, "]}}]}]}");
    in_time("gemini", CHAT_OK);
}


static void
test_calls_past_the_bound(void **state)
{
    chat_buf_puts(&text, "{\"id\":\"c\",\"messages\":[{\"id\":\"m\","
                         "\"role\":\"assistant\",\"parts\":[");
    fill("{\"type\":\"tool-f\",\"toolCallId\":\"a\",\"state\":"
         "\"input-available\"}");
    chat_buf_puts(&text, "]}]}");
    in_time("ai_sdk", CHAT_LIMIT);

    chat_buf_puts(&text, "{\"messages\":[");
    fill("{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"a\"}]}");
    chat_buf_puts(&text, "]}");
    in_time("openai_chat", CHAT_LIMIT);
}


/* The canonical form of each part needs its own members only. */
static void
test_many_small_parts(void **state)
{
    chat_buf_puts(&text, "{\"messages\":[{\"role\":\"user\",\"content\":[");
    fill("{\"type\":\"x\",\"0123456789012345678901234567890123456789\":"
         "\"0123456789\"}");
    chat_buf_puts(&text, "]}]}");
    in_time("anthropic", CHAT_OK);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_results_of_no_call_beside_many_calls,
                               begin),
        cmocka_unit_test_setup(test_twins_of_one_large_result, begin),
        cmocka_unit_test_setup(test_twins_of_one_result_with_many_members,
                               begin),
        cmocka_unit_test_setup(test_steps_with_results_of_no_call, begin),
        cmocka_unit_test_setup(test_pieces_of_one_object_with_many_members,
                               begin),
        cmocka_unit_test_setup(test_calls_past_the_bound, begin),
        cmocka_unit_test_setup(test_many_small_parts, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
