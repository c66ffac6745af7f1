/*
 * test_dialect_gemini_splice.c: results put into bodies of Gemini, checked
 * like the provider.
 *
 * With ids and without; without ids the order identifies the results.
 */

#include "dialect_run.h"
#include "gemini_body.h"
#include "../buf_printf.h"

#define DIALECT (&chat_dialect_gemini)


/* The provider's rule: a response for each call, in the calls' order. */
static void
strict_check(chat_str_t text, unsigned n, int ids, int ordered)
{
    char               want[16];
    unsigned           i, seen = 0, k;
    chat_str_t         id;
    chat_arena_t      *arena = chat_arena_create(0);
    chat_json_doc_t    doc;
    const chat_json_t *node, *response, *model;

    assert_int_equal(chat_json_parse(&doc, arena, text), CHAT_OK);
    model = chat_json_get(&doc, doc.root, "contents")->child->next;
    node = model->next->next;
    assert_null(node->next);
    node = chat_json_get(&doc, node, "parts")->child;

    for (i = 0; i < n; i++, node = node->next) {
        assert_non_null(node);
        response = chat_json_get(&doc, node, "functionResponse");
        assert_true(
            chat_json_is(&doc, chat_json_get(&doc, response, "name"), "w"));
        id = chat_json_string(&doc, chat_json_get(&doc, response, "id"));
        response = chat_json_get(&doc, response, "response");
        response = chat_json_get(&doc, response, "output");

        for (k = 0; k < n; k++) {
            snprintf(want, sizeof(want), "r%u", k);
            if (chat_json_is(&doc, response, want)) {
                break;
            }
        }

        assert_int_equal(seen & 1u << k, 0);
        assert_true(!ordered || k == i);
        seen |= 1u << k;
        snprintf(want, sizeof(want), "c%u", k);
        assert_true(ids ? chat_str_is(id, want) : id.len == 0);
    }

    assert_int_equal(seen, (1u << n) - 1);
    assert_null(node);
    chat_arena_destroy(arena);
}


/* n calls over two contents, the results of the present ones in an order. */
static int
splice_text(unsigned n, unsigned present, const unsigned *order, int ids,
            chat_buf_t *text)
{
    int      ordered = 1, last = -1;
    unsigned i, count = 0;

    chat_buf_puts(text, "{ \"contents\":[" USER ",\n{\"role\":\"model\","
                        "\"parts\":[{\"text\":\"\",\"thoughtSignature\":"
                        "\"s\"}");
    for (i = 0; i < n; i++) {
        chat_buf_puts(text,
                      i == 1 ? "]},{\"role\":\"model\",\"parts\":[" : ",");
        chat_buf_puts(text, "{\"functionCall\":{\"name\":\"w\"");
        if (ids) {
            chat_buf_printf(text, ",\"id\":\"c%u\"", i);
        }
        chat_buf_puts(text, "} , \"thoughtSignature\":\"s\"}");
    }
    chat_buf_puts(text,
                  n == 1 ? "]},{\"role\":\"model\",\"parts\":[]}," : "]},");
    chat_buf_puts(text, "{\"role\":\"user\",\"parts\":[ ");

    for (i = 0; i < n; i++) {
        if (present & 1u << order[i]) {
            chat_buf_puts(text, count++ ? " , " : "");
            chat_buf_puts(text, "{\"functionResponse\":{\"name\":\"w\",");
            if (ids) {
                chat_buf_printf(text, "\"id\":\"c%u\",", order[i]);
            }
            chat_buf_printf(text, "\"response\":{\"output\":\"r%u\"}}}",
                            order[i]);
            ordered = ordered && (int) order[i] > last;
            last = (int) order[i];
        }
    }

    chat_buf_puts(text, " ]}], \"x\":1.0}");

    return ordered;
}


/* Every subset of results, in every order, completed with the others. */
static void
splice_all(unsigned n, int ids)
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

            ordered = splice_text(n, present, order, ids, &text);

            /* Without ids results belong to the first calls. */
            if (!ids && (!ordered || (present & (present + 1)))) {
                chat_buf_free(&text);
                continue;
            }

            body_complete(DIALECT, chat_buf_str(&text), n, "\"r%u\"", &out);
            strict_check(chat_buf_str(&out), n, ids, ordered);

            chat_buf_free(&text);
            chat_buf_free(&out);
        }
    }
}


static void
s59_completed_bodies_pass_the_provider(void **state)
{
    splice_all(1, 1);
    splice_all(3, 1);
    splice_all(4, 1);
    splice_all(1, 0);
    splice_all(3, 0);
}


/* The only open call takes this payload. */
static void
becomes(const char *text, chat_outcome_e outcome, const char *payload,
        const char *want)
{
    size_t        i;
    body_t        body;
    chat_buf_t    out = { 0 };
    chat_result_t result = { 0 };

    body_read(&body, DIALECT, chat_cstr(text));
    assert_int_equal(body.rc, CHAT_OK);

    for (i = 0; i < body.rq.ncalls; i++) {
        if (!chat_call_is_settled(&body.rq.calls[i])) {
            result.call = &body.rq.calls[i];
        }
    }

    result.outcome = outcome;
    result.payload = chat_cstr(payload);
    body_splice(&body, DIALECT, &result, 1, &out);
    text_equals(&out, want);

    chat_buf_free(&out);
    body_free(&body);
}


#define ONE USER "," ASKS(PLAIN("w", "{}"))
#define PUT(response) BODY(ONE "," BRINGS(ANSWER("w", response)))

static void
a_response_is_always_an_object(void **state)
{
    const char *open = BODY(ONE "," BRINGS(""));

    becomes(open, CHAT_OUTCOME_OK, "[1]", PUT("{\"output\":[1]}"));
    becomes(open, CHAT_OUTCOME_OK, "null", PUT("{\"output\":null}"));
    becomes(open, CHAT_OUTCOME_ERROR, "\"no\"", PUT("{\"error\":\"no\"}"));
    becomes(open, CHAT_OUTCOME_OK, "{\"a\":1}", PUT("{\"a\":1}"));
    becomes(open, CHAT_OUTCOME_ERROR, "{\"error\":1}", PUT("{\"error\":1}"));

    /* its media with it, but only of a whole functionResponse */
    becomes(open, CHAT_OUTCOME_OK,
            "{\"name\":\"w\",\"response\":{},\"parts\":[]}",
            BODY(ONE "," BRINGS("{\"functionResponse\":{\"name\":\"w\","
                                "\"response\":{},\"parts\":[]}}")));
    becomes(open, CHAT_OUTCOME_OK, "{\"name\":\"w\",\"parts\":[]}",
            PUT("{\"name\":\"w\",\"parts\":[]}"));
    becomes(open, CHAT_OUTCOME_OK,
            "{\"name\":\"x\",\"response\":{},\"parts\":[]}",
            PUT("{\"name\":\"x\",\"response\":{},\"parts\":[]}"));
}


#define CALLS CALL("a", "w") "," CALL("b", "w") "," CALL("c", "w")
#define THREE USER "," ASKS(CALLS)
#define LAST BRINGS(RESULT("c", "w"))

static void
results_find_a_place_in_every_body(void **state)
{
#define RESPONSE ANSWER("w", "{\"output\":1}")
    /* before the user's words, in a content of their own, behind a partial */
    becomes(BODY(ONE "," USER), CHAT_OUTCOME_OK, "1",
            BODY(ONE "," BRINGS(RESPONSE "," TEXT)));
    becomes(BODY(ONE), CHAT_OUTCOME_OK, "1", BODY(ONE "," BRINGS(RESPONSE)));
    becomes(BODY(ONE ",{\"parts\":" TEXT "}"), CHAT_OUTCOME_OK, "1",
            BODY(ONE "," BRINGS(RESPONSE) ",{\"parts\":" TEXT "}"));
    becomes(BODY(ONE "," BRINGS("{\"functionResponse\":{\"name\":\"w\","
                                "\"willContinue\":true}}")),
            CHAT_OUTCOME_OK, "1",
            BODY(ONE "," BRINGS("{\"functionResponse\":{\"name\":\"w\","
                                "\"willContinue\":true}}," RESPONSE)));
    /* results in two contents: beside the nearest one before */
    becomes(BODY(THREE "," BRINGS(RESULT("a", "w")) "," LAST), CHAT_OUTCOME_OK,
            "1",
            BODY(THREE
                 "," BRINGS(RESULT("a", "w") "," RESULT("b", "w")) "," LAST));
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(s59_completed_bodies_pass_the_provider),
        cmocka_unit_test(a_response_is_always_an_object),
        cmocka_unit_test(results_find_a_place_in_every_body),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
