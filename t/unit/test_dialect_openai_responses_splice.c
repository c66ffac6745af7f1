/*
 * test_dialect_openai_responses_splice.c: results put into the input of a
 * Responses request, checked as strictly as by the provider, and against the
 * original bytes.
 */

#define _GNU_SOURCE

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "dialect/chat_dialect.h"
#include "../buf_printf.h"
#include "../tenant.h"

#define MAX_CALLS 4
#define DEVELOPER ",{\"role\":\"developer\",\"content\":\"x\"}"
#define USER ",{\"role\":\"user\",\"content\":\"x\"}"

static const chat_dialect_t *const dialect = &chat_dialect_openai_responses;

static const char *const ids[MAX_CALLS] = { "call_0", "call_1", "call_2",
                                            "call_3" };

/* As clients write them, with different spaces and orders. */
static const char *const answers[MAX_CALLS] = {
    "{\"type\":\"function_call_output\",\"call_id\":\"call_0\","
    "\"output\":\"{\\\"t\\\":1.0}\"}",
    "{ \"call_id\": \"call_1\", \"type\": \"function_call_output\", "
    "\"output\": [{\"type\":\"input_text\",\"text\":\"\\u00fc\"}] }",
    "{\"output\":\"\",\"type\":\"function_call_output\","
    "\"call_id\":\"call_2\",\"id\":\"fco_2\"}",
    "{\"type\":\"function_call_output\",\"call_id\":\"call_3\","
    "\"output\":\"{\\\"error\\\":\\\"no\\\"}\",\"status\":\"completed\"}",
};

typedef struct {
    chat_arena_t   *arena;
    chat_json_doc_t doc;
    chat_request_t  rq;
} body_t;


static void
body_open(body_t *body, chat_str_t text)
{
    memset(body, 0, sizeof(*body));
    body->rq.tenant = &test_tenant;
    body->arena = chat_arena_create(0);
    assert_non_null(body->arena);
    assert_int_equal(chat_json_parse(&body->doc, body->arena, text), CHAT_OK);
    assert_int_equal(
        chat_dialect_read(dialect, &body->doc, body->arena, &body->rq),
        CHAT_OK);
}


static chat_rc_e
splice(body_t *body, const chat_result_t *results, size_t n, chat_buf_t *out)
{
    chat_rc_e    rc;
    chat_edits_t edits;

    edits = (chat_edits_t){ .arena = body->arena };
    rc = chat_transcript_splice(dialect->form, &body->doc, &body->rq, results,
                                n, &edits);

    return rc == CHAT_OK ? chat_edits_apply(&edits, body->doc.text, out) : rc;
}


/* Cuts the payload and one comma at it out of the text. */
static void
cut(chat_buf_t *text, chat_str_t payload)
{
    size_t         len = payload.len + 1;
    unsigned char *at;

    at = memmem(text->data, text->len, payload.data, payload.len);
    assert_non_null(at);

    if (at[-1] == ',') {
        at--;
    } else {
        assert_int_equal(at[payload.len], ',');
    }

    memmove(at, at + len, text->len - len - (size_t) (at - text->data));
    text->len -= len;
}


/*
 * The provider's rule: each call has one answer after it; each answer has its
 * call. ordered: the answers have the order of the calls.
 */
static void
judge(chat_str_t text, size_t n, int chained, int ordered)
{
    size_t       i, at = 0, calls[MAX_CALLS] = { 0 }, seen[MAX_CALLS] = { 0 };
    size_t       last = 0;
    body_t       body;
    chat_str_t   id, type;
    chat_json_t *item;

    body_open(&body, text);
    item = chat_json_get(&body.doc, body.doc.root, "input")->child;

    for (/* void */; item != NULL; item = item->next) {
        at++;
        type = chat_json_string(&body.doc,
                                chat_json_get(&body.doc, item, "type"));
        id = chat_json_string(&body.doc,
                              chat_json_get(&body.doc, item, "call_id"));

        for (i = 0; i < n && !chat_str_is(id, ids[i]); i++) { /* void */
        }

        if (i == n) {
            continue;
        }

        if (chat_str_is(type, "function_call")) {
            calls[i] = at;
            continue;
        }

        assert_true(chat_str_is(type, "function_call_output"));
        assert_true(chained || calls[i] != 0);
        assert_int_equal(seen[i], 0);
        assert_true(!ordered || i + 1 > last);
        seen[i] = at;
        last = i + 1;
    }

    for (i = 0; i < n; i++) {
        assert_int_not_equal(seen[i], 0);
    }

    for (i = 0; i < body.rq.ncalls; i++) {
        assert_true(chat_call_is_settled(&body.rq.calls[i]));
    }

    chat_arena_destroy(body.arena);
}


/* Writes a body of n calls with answers for those in order[0..m). */
static void
write_body(chat_buf_t *out, size_t n, const size_t *order, size_t m,
           int chained, const char *tail)
{
    size_t i;

    out->len = 0;

    if (chained) {
        chat_buf_puts(out,
                      "{ \"previous_response_id\":\"resp_1\",\"input\":[");
    } else {
        chat_buf_puts(out, "{\"x\":1.50, \"input\" : [ {\"role\":\"user\","
                           "\"content\":\"hi\"}\n,{\"type\":\"reasoning\"}");
        for (i = 0; i < n; i++) {
            chat_buf_printf(out,
                            ",{\"type\":\"function_call\",\"call_id\":\"%s\","
                            "\"name\":\"f\",\"arguments\":\"{}\"} ",
                            ids[i]);
        }
    }

    for (i = 0; i < m; i++) {
        chat_buf_puts(out, chained && i == 0 ? "" : ", ");
        chat_buf_puts(out, answers[order[i]]);
    }

    chat_buf_puts(out, tail + (chained && m == 0 && *tail == ','));
    chat_buf_puts(out, " ], \"y\":[1,{}] }");
}


/* The body has order[0..m), the rest is inserted in that order. */
static void
try_order(size_t n, const size_t *order, size_t m, int chained,
          const char *tail)
{
    size_t        i, k;
    int           ordered = 1;
    body_t        body;
    chat_buf_t    text = { 0 }, out = { 0 };
    chat_call_t  *last;
    chat_result_t results[MAX_CALLS];

    memset(results, 0, sizeof(results));
    write_body(&text, n, order, m, chained, tail);
    body_open(&body, chat_buf_str(&text));
    last = body.rq.ncalls ? &body.rq.calls[body.rq.ncalls - 1] : NULL;

    for (i = 0; i < n; i++) {
        ordered &=
            (i == 0 || i >= (chained ? n : m) || order[i] > order[i - 1]);
        if (i < m) {
            continue;
        }

        results[i - m].id = chat_cstr(ids[order[i]]);
        results[i - m].outcome = CHAT_OUTCOME_OK;
        results[i - m].payload = chat_cstr(answers[order[i]]);

        results[i - m].after = chained ? last : NULL;
        for (k = 0; !chained && k < body.rq.ncalls; k++) {
            if (chat_str_is(body.rq.calls[k].id, ids[order[i]])) {
                results[i - m].call = &body.rq.calls[k];
            }
        }
        assert_true(chained || results[i - m].call != NULL);
    }

    assert_int_equal(splice(&body, results, n - m, &out), CHAT_OK);
    judge(chat_buf_str(&out), n, chained, ordered);

    for (i = 0; i < n - m; i++) {
        cut(&out, results[i].payload);
    }
    assert_true(chat_str_eq(chat_buf_str(&out), chat_buf_str(&text)));

    chat_arena_destroy(body.arena);
    chat_buf_free(&text);
    chat_buf_free(&out);
}


/* All orders of n, each with every number of present answers. */
static void
try_orders(size_t n, size_t done, size_t *order, int chained, const char *tail)
{
    size_t i, m, swap;

    if (done == n) {
        for (m = 0; m <= n; m++) {
            try_order(n, order, m, chained, tail);
        }
        return;
    }

    for (i = done; i < n; i++) {
        swap = order[done], order[done] = order[i], order[i] = swap;
        try_orders(n, done + 1, order, chained, tail);
        swap = order[done], order[done] = order[i], order[i] = swap;
    }
}


static void
s59_a_completed_body_passes_the_strict_provider(void **state)
{
    size_t                   n, t, order[MAX_CALLS];
    static const char *const tails[] = { "", DEVELOPER, USER };

    for (n = 2; n <= MAX_CALLS; n++) {
        for (t = 0; t < 3; t++) {
            order[0] = 0, order[1] = 1, order[2] = 2, order[3] = 3;
            try_orders(n, 0, order, 0, tails[t]);
        }
    }
}


static void
s59_a_completed_chained_body_passes_too(void **state)
{
    size_t                   n, t, m, order[MAX_CALLS] = { 0, 1, 2, 3 };
    static const char *const tails[] = { DEVELOPER, USER };

    /* a body of answers alone needs one, or it is no chained body */
    for (n = 2; n <= MAX_CALLS; n++) {
        for (m = 1; m <= n; m++) {
            try_order(n, order, m, 1, "");
        }
        for (t = 0; t < 2; t++) {
            try_orders(n, 0, order, 1, tails[t]);
        }
    }
}


/* The last call of the body gets the result; out is the whole input. */
static void
expect(const char *input, const chat_result_t *result, const char *merged)
{
    body_t        body;
    chat_buf_t    text = { 0 }, out = { 0 };
    chat_result_t given = *result;

    chat_buf_printf(&text, "{\"input\":[%s]}", input);
    body_open(&body, chat_buf_str(&text));

    given.call = &body.rq.calls[body.rq.ncalls - 1];
    given.id = given.call->id;

    if (merged == NULL) {
        assert_int_equal(splice(&body, &given, 1, &out), CHAT_BAD);

    } else {
        assert_int_equal(splice(&body, &given, 1, &out), CHAT_OK);
        text.len = 0;
        chat_buf_printf(&text, "{\"input\":[%s]}", merged);
        assert_int_equal(out.len, text.len);
        assert_memory_equal(out.data, text.data, text.len);
    }

    chat_arena_destroy(body.arena);
    chat_buf_free(&text);
    chat_buf_free(&out);
}


static chat_result_t
result_of(chat_outcome_e outcome, chat_approval_e approval,
          const char *payload)
{
    chat_result_t result;

    memset(&result, 0, sizeof(result));
    result.outcome = outcome;
    result.approval = approval;
    result.payload = chat_cstr(payload);
    return result;
}


#define FUNCTION "{\"type\":\"function_call\",\"call_id\":\"k\"}"
#define USER_TEXT "{\"role\":\"user\",\"content\":\"x\"}"
#define ASK "{\"type\":\"mcp_approval_request\",\"id\":\"k\"}"
#define ITEM(output)                                                          \
    "{\"type\":\"function_call_output\",\"call_id\":\"k\",\"output\":" output \
    "}"


/* Values that are no items, and approvals, as a service sends them. */
static void
splice_wraps_bare_values(void **state)
{
    size_t i;

    static const struct {
        const char     *call;
        chat_outcome_e  outcome;
        chat_approval_e approval;
        const char     *payload;
        const char     *merged;
    } rows[] = {
        { FUNCTION, CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE, "\"a\\n\"",
          FUNCTION "," ITEM("\"a\\n\"") },
        { FUNCTION, CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE, "{\"t\":1.0}",
          FUNCTION "," ITEM("\"{\\\"t\\\":1.0}\"") },
        { FUNCTION, CHAT_OUTCOME_ERROR, CHAT_APPROVAL_NONE, "\"boom\"",
          FUNCTION "," ITEM("\"{\\\"error\\\":\\\"boom\\\"}\"") },
        /* another call's item is an ordinary value */
        { FUNCTION, CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE,
          "{\"type\":\"function_call_output\",\"call_id\":\"z\"}",
          FUNCTION "," ITEM("\"{\\\"type\\\":\\\"function_call_output\\\","
                            "\\\"call_id\\\":\\\"z\\\"}\"") },
        { FUNCTION, CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE, "1}", NULL },
        { FUNCTION, CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE, "", NULL },
        { ASK, CHAT_OUTCOME_NONE, CHAT_APPROVAL_GRANTED, "",
          ASK ",{\"type\":\"mcp_approval_response\","
              "\"approval_request_id\":\"k\",\"approve\":true}" },
        { ASK, CHAT_OUTCOME_NONE, CHAT_APPROVAL_REFUSED, "\"no\"",
          ASK ",{\"type\":\"mcp_approval_response\",\"approval_request_id\":"
              "\"k\",\"approve\":false,\"reason\":\"no\"}" },
        { ASK, CHAT_OUTCOME_NONE, CHAT_APPROVAL_REFUSED, "\"no", NULL },
        { FUNCTION, CHAT_OUTCOME_NONE, CHAT_APPROVAL_GRANTED, "", NULL },
    };

    chat_result_t result;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        result = result_of(rows[i].outcome, rows[i].approval, rows[i].payload);
        expect(rows[i].call, &result, rows[i].merged);
    }
}


/* If a call occurs twice in one step, only one gets the answer. */
static void
s32_every_unanswered_occurrence_is_completed(void **state)
{
    size_t        i, n = 0;
    body_t        body;
    chat_buf_t    out = { 0 };
    chat_result_t results[4];

    body_open(&body,
              chat_cstr("{\"input\":[" FUNCTION "," USER_TEXT "," FUNCTION
                        "," FUNCTION "," USER_TEXT "," FUNCTION "," FUNCTION
                        "," ITEM("\"r\"") "]}"));
    assert_int_equal(body.rq.ncalls, 5);

    for (i = 0; i < 5; i++) {
        if (!chat_call_is_settled(&body.rq.calls[i])) {
            assert_true(n < 4);
            results[n] =
                result_of(CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE, "\"s\"");
            results[n].call = &body.rq.calls[i];
            results[n++].id = body.rq.calls[i].id;
        }
    }

    assert_int_equal(n, 3);
    assert_int_equal(splice(&body, results, n, &out), CHAT_OK);
    chat_buf_add(&out, chat_str("", 1));
    assert_string_equal(
        (char *) out.data,
        "{\"input\":[" FUNCTION
        "," ITEM("\"s\"") "," USER_TEXT "," FUNCTION "," FUNCTION
                          "," ITEM("\"s\"") "," USER_TEXT "," FUNCTION
                                            "," FUNCTION
                                            "," ITEM("\"r\"") "]}");

    chat_arena_destroy(body.arena);
    chat_buf_free(&out);
}


static void
splice_refuses_what_has_no_place(void **state)
{
    body_t        body;
    chat_buf_t    out = { 0 };
    chat_result_t result =
        result_of(CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE, "\"x\"");

    result.id = chat_cstr("k");
    body_open(&body, chat_cstr("{\"input\":[" FUNCTION "," ITEM("1") "]}"));
    assert_int_equal(splice(&body, &result, 1, &out), CHAT_BAD);
    chat_arena_destroy(body.arena);

    body_open(&body, chat_cstr("{\"input\":\"hi\"}"));
    assert_int_equal(splice(&body, &result, 1, &out), CHAT_BAD);
    assert_int_equal(splice(&body, &result, 0, &out), CHAT_OK);
    chat_arena_destroy(body.arena);
    chat_buf_free(&out);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(s59_a_completed_body_passes_the_strict_provider),
        cmocka_unit_test(s59_a_completed_chained_body_passes_too),
        cmocka_unit_test(splice_wraps_bare_values),
        cmocka_unit_test(s32_every_unanswered_occurrence_is_completed),
        cmocka_unit_test(splice_refuses_what_has_no_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
