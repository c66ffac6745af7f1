/*
 * test_dialect_ag_ui_splice.c: results put into the input of AG-UI runs.
 *
 * Tool messages after their step, entries in resume; checked like an agent.
 */

#include "dialect_run.h"
#include "../buf_printf.h"

#define DIALECT (&chat_dialect_ag_ui)
#define USER "{\"id\":\"u\",\"role\":\"user\",\"content\":\"hi\"}"


/* A message for each call, in their order, directly after them. */
static void
strict_check(chat_str_t text, unsigned n, int ordered)
{
    char               want[16];
    unsigned           i, k, seen = 0;
    chat_arena_t      *arena = chat_arena_create(0);
    chat_json_doc_t    doc;
    const chat_json_t *node, *id, *call;

    assert_int_equal(chat_json_parse(&doc, arena, text), CHAT_OK);
    node = chat_json_get(&doc, doc.root, "messages")->child;

    while (!chat_json_is(&doc, chat_json_get(&doc, node, "role"), "tool")) {
        node = node->next;
    }

    for (i = 0; i < n; i++, node = node->next) {
        assert_non_null(node);
        assert_true(
            chat_json_is(&doc, chat_json_get(&doc, node, "role"), "tool"));
        id = chat_json_get(&doc, node, "id");
        call = chat_json_get(&doc, node, "toolCallId");

        for (k = 0; k < n; k++) {
            snprintf(want, sizeof(want), "c%u", k);
            if (chat_json_is(&doc, call, want)) {
                break;
            }
        }

        assert_int_equal(seen & 1u << k, 0);
        assert_true(!ordered || k == i);
        seen |= 1u << k;
        snprintf(want, sizeof(want), "t%u", k);
        assert_true(chat_json_is(&doc, id, want));
        snprintf(want, sizeof(want), "r%u", k);
        assert_true(
            chat_json_is(&doc, chat_json_get(&doc, node, "content"), want));
    }

    assert_int_equal(seen, (1u << n) - 1);
    assert_null(node);
    chat_arena_destroy(arena);
}


#define MESSAGE                                                 \
    "{\"id\":\"t%u\",\"role\":\"tool\",\"toolCallId\":\"c%u\"," \
    "\"content\":\"r%u\"}"

/* n calls over two messages, the results of the present ones in an order. */
static int
splice_text(unsigned n, unsigned present, const unsigned *order,
            chat_buf_t *text)
{
    int      ordered = 1, last = -1;
    unsigned i;

    chat_buf_puts(text,
                  "{ \"threadId\":\"t\",\"runId\":\"r\",\"messages\":[" USER
                  ",\n{\"id\":\"m\",\"role\":\"assistant\","
                  "\"toolCalls\":[ ");
    for (i = 0; i < n; i++) {
        chat_buf_puts(text, i == 1  ? "]},{\"id\":\"n\",\"role\":"
                                      "\"assistant\",\"toolCalls\":["
                            : i > 1 ? ","
                                    : "");
        chat_buf_printf(text,
                        "{\"id\":\"c%u\",\"type\":\"function\",\"function\":"
                        "{\"name\":\"w\",\"arguments\":\"{}\"}}",
                        i);
    }
    chat_buf_puts(text, "] }");

    for (i = 0; i < n; i++) {
        if (present & 1u << order[i]) {
            chat_buf_printf(text, ", " MESSAGE, order[i], order[i], order[i]);
            ordered = ordered && (int) order[i] > last;
            last = (int) order[i];
        }
    }

    chat_buf_puts(text, " ], \"x\":1.0}");
    return ordered;
}


/* Every subset of results, in every order, completed with the others. */
static void
splice_all(unsigned n)
{
    int        ordered;
    unsigned   present, turn, turns = n == 4 ? 24 : 6;
    unsigned   order[8];
    chat_buf_t text, out;

    for (present = 0; present < 1u << n; present++) {
        for (turn = 0; turn < turns; turn++) {
            permute(turn, n, order);
            memset(&text, 0, sizeof(text));
            memset(&out, 0, sizeof(out));

            ordered = splice_text(n, present, order, &text);
            body_complete(DIALECT, chat_buf_str(&text), n, MESSAGE, &out);
            strict_check(chat_buf_str(&out), n, ordered);

            chat_buf_free(&text);
            chat_buf_free(&out);
        }
    }
}


static void
s59_completed_bodies_pass_the_agent(void **state)
{
    splice_all(1);
    splice_all(3);
    splice_all(4);
}


/* The only call takes this payload. */
static void
becomes(chat_outcome_e outcome, const char *payload, const char *want)
{
#define OPEN                                                             \
    "{\"threadId\":\"t\",\"runId\":\"r\",\"messages\":[{\"id\":\"m\","   \
    "\"role\":\"assistant\",\"toolCalls\":[{\"id\":\"a\",\"function\":{" \
    "\"name\":\"w\",\"arguments\":\"\"}}]}"
    body_t        body;
    chat_buf_t    out = { 0 };
    chat_buf_t    all = { 0 };
    chat_result_t result = { 0 };

    body_read(&body, DIALECT, chat_cstr(OPEN "]}"));
    assert_int_equal(body.rq.ncalls, 1);
    result.call = &body.rq.calls[0];
    result.id = result.call->id;
    result.outcome = outcome;
    result.payload = chat_cstr(payload);

    body_splice(&body, DIALECT, &result, 1, &out);
    chat_buf_puts(&all, OPEN ",{");
    chat_buf_puts(&all, want);
    chat_buf_puts(&all, "}]}");
    chat_buf_add(&all, chat_str("", 1));
    text_equals(&out, (char *) all.data);

    chat_buf_free(&out);
    chat_buf_free(&all);
    body_free(&body);
}


static void
s48_a_bare_value_becomes_a_message(void **state)
{
#define MADE \
    "\"id\":\"result-a\",\"role\":\"tool\",\"toolCallId\":\"a\",\"content\":"

    becomes(CHAT_OUTCOME_OK, "\"x\"", MADE "\"x\"");
    becomes(CHAT_OUTCOME_OK, "{\"b\":1.0}", MADE "\"{\\\"b\\\":1.0}\"");
    becomes(CHAT_OUTCOME_OK, "null", MADE "\"null\"");
    becomes(CHAT_OUTCOME_ERROR, "\"no\"", MADE "\"no\",\"error\":\"no\"");

    /* an item of the client stays; one of another call is a value */
    becomes(CHAT_OUTCOME_ERROR,
            "{\"role\":\"tool\", \"id\":\"1\",\"toolCallId\":\"a\","
            "\"content\":[],\"error\":\"e\"}",
            "\"role\":\"tool\", \"id\":\"1\",\"toolCallId\":\"a\","
            "\"content\":[],\"error\":\"e\"");
    becomes(CHAT_OUTCOME_OK,
            "{\"role\":\"tool\",\"toolCallId\":\"a\",\"content\":\"x\"}",
            MADE "\"x\"");
    becomes(CHAT_OUTCOME_OK, "{\"role\":\"tool\",\"toolCallId\":\"b\"}",
            MADE "\"{\\\"role\\\":\\\"tool\\\",\\\"toolCallId\\\":\\\"b\\\"}"
                 "\"");
}


/* Stored answers put into a resume of i1. */
static void
resumes(const chat_result_t *results, size_t n, const char *want)
{
#define RESUME(entries)                                            \
    "{\"threadId\":\"t\",\"runId\":\"r\",\"messages\":[" USER "]," \
    "\"resume\":[ " entries " ]}"
#define ENTRY(id, more) \
    "{\"interruptId\":\"" id "\",\"status\":\"resolved\"" more "}"
    size_t        i;
    body_t        body;
    chat_buf_t    out = { 0 };
    chat_result_t copy[4];

    body_read(&body, DIALECT, chat_cstr(RESUME(ENTRY("i1", ""))));
    assert_int_equal(body.rc, CHAT_OK);
    assert_true(body.rq.chained && body.rq.by_conversation);

    for (i = 0; i < n; i++) {
        copy[i] = results[i];
        copy[i].after = results[i].after ? &body.rq.calls[0] : NULL;
    }

    body_splice(&body, DIALECT, copy, n, &out);
    text_equals(&out, want);
    chat_buf_free(&out);
    body_free(&body);
}


static void
s40_resumes_are_completed(void **state)
{
    static const chat_call_t own;
    chat_result_t            results[2];

    memset(results, 0, sizeof(results));
    results[0].id = chat_cstr("i0");
    results[0].outcome = CHAT_OUTCOME_OK;
    results[0].payload = chat_cstr(ENTRY("i0", ",\"payload\": 1.0"));
    results[1].id = chat_cstr("i2");
    results[1].outcome = CHAT_OUTCOME_DENIED;
    results[1].after = &own;
    results[1].payload =
        chat_cstr("{\"interruptId\":\"i2\",\"status\":\"cancelled\"}");
    resumes(results, 2,
            RESUME(ENTRY("i0", ",\"payload\": 1.0") "," ENTRY(
                "i1", "") ",{\"interruptId\":\"i2\",\"status\":\"cancelled\""
                          "}"));

    /* a service's value, its error, its decision, no answer */
    results[0].payload = chat_cstr("{\"a\":1}");
    results[1].outcome = CHAT_OUTCOME_ERROR;
    results[1].payload = chat_cstr("\"no\"");
    resumes(results, 2,
            RESUME(ENTRY("i0", ",\"payload\":{\"a\":1}") "," ENTRY(
                "i1", "") ",{\"interruptId\":\"i2\",\"status\":\"cancelled\""
                          "}"));

    results[0].outcome = CHAT_OUTCOME_NONE;
    results[0].approval = CHAT_APPROVAL_GRANTED;
    results[0].payload = chat_str(NULL, 0);
    results[1].outcome = CHAT_OUTCOME_NONE;
    results[1].approval = CHAT_APPROVAL_REFUSED;
    results[1].payload = chat_cstr("\"why\"");
    resumes(results, 2,
            RESUME(ENTRY("i0", ",\"payload\":{\"approved\":true}") "," ENTRY(
                "i1", "") "," ENTRY("i2", ",\"payload\":{\"approved\":false,"
                                          "\"reason\":\"why\"}")));
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(s59_completed_bodies_pass_the_agent),
        cmocka_unit_test(s48_a_bare_value_becomes_a_message),
        cmocka_unit_test(s40_resumes_are_completed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
