/*
 * test_dialect_openai_chat.c: requests and splices of Chat
 * Completions.
 *
 * Splices are checked by reading the result again, and for the order that the
 * provider requires.
 */

#include "dialect_run.h"
#include "../buf_printf.h"

#define DIALECT (&chat_dialect_openai_chat)

#define USER "{\"role\":\"user\",\"content\":\"hi\"}"
#define CALL(id)                                                      \
    "{\"id\":\"" id                                                   \
    "\",\"type\":\"function\",\"function\":{\"name\":\"w\",\"argumen" \
    "ts\":\"{\\\"a\\\":1}\"}}"
#define ASKS(calls) \
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[" calls "]}"
#define TOOL(id) \
    "{\"role\":\"tool\",\"tool_call_id\":\"" id "\",\"content\":\"r\"}"
#define SAYS "{\"role\":\"assistant\",\"content\":\"done\"}"
#define BODY(messages) "{\"model\":\"m\",\"messages\":[" messages "]}"

static const class_case_t classes[] = {
    { "[]", CHAT_DECLINED, 0, CLASS_NONE },
    { "{}", CHAT_DECLINED, 0, CLASS_NONE },
    { "{\"messages\":{}}", CHAT_DECLINED, 0, CLASS_NONE },
    { "{\"messages\":[]}", CHAT_DECLINED, 0, CLASS_NONE },
    { "{\"messages\":[1]}", CHAT_DECLINED, 0, CLASS_NONE },
    { "{\"messages\":[{\"role\":\"user\",\"parts\":[]}]}", CHAT_DECLINED, 0,
      CLASS_NONE },
    { "{\"messages\":[" USER "],\"messages\":[" USER "]}", CHAT_BAD, 0,
      CLASS_NONE },

    { BODY(USER), CHAT_OK, CHAT_CLASS_FRESH, CLASS_NONE },
    { BODY(USER "," SAYS), CHAT_OK, CHAT_CLASS_OTHER, CLASS_NONE },
    { BODY(USER ",7,null,[],{}"), CHAT_OK, CHAT_CLASS_OTHER, CLASS_NONE },
    { BODY(USER "," SAYS "," USER), CHAT_OK, CHAT_CLASS_FRESH, CLASS_NONE },
    /* s60: calls without any result are no continuation */
    { BODY(USER "," ASKS(CALL("a"))), CHAT_OK, CHAT_CLASS_OTHER, 0, 1, 1, 0,
      0 },
    { BODY(USER "," ASKS(CALL("a")) "," TOOL("a")), CHAT_OK,
      CHAT_CLASS_CONTINUATION, 1, 1, 1, 1, 0 },
    { BODY(USER "," ASKS(CALL("a") "," CALL("b")) "," TOOL("b")), CHAT_OK,
      CHAT_CLASS_CONTINUATION, 1, 1, 2, 1, 0 },
    /* s35: a result of an unknown call */
    { BODY(USER "," ASKS(CALL("a")) "," TOOL("z")), CHAT_OK, CHAT_CLASS_OTHER,
      0, 1, 1, 0, 0 },
    { BODY(USER "," TOOL("z")), CHAT_OK, CHAT_CLASS_OTHER, CLASS_NONE },
    { BODY(USER "," ASKS(CALL("a")) "," TOOL("a") "," SAYS "," TOOL("a")),
      CHAT_OK, CHAT_CLASS_OTHER, 0, 1, 1, 1, 0 },
    /* s41, s42: earlier steps are listed if a call has no result */
    { BODY(USER "," ASKS(CALL("a")) "," USER
                                    "," ASKS(CALL("b")) "," TOOL("b")),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 2, 2, 1, 1 },
    { BODY(USER "," ASKS(CALL("a")) "," TOOL("a") "," SAYS "," USER "," ASKS(
          CALL("b")) "," TOOL("b")),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 1, 1, 1, 0 },
    { BODY(USER "," ASKS(CALL("a")) "," TOOL("a") "," ASKS(CALL("b")) "," TOOL(
          "b")),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 2, 2, 2, 0 },
    /* s98: results and a new text are a fresh turn */
    { BODY(USER "," ASKS(CALL("a") "," CALL("b")) "," TOOL("a") "," USER),
      CHAT_OK, CHAT_CLASS_FRESH, 1, 1, 2, 1, 2 },
    { BODY(USER "," ASKS(CALL("a")) "," TOOL(
          "a") "," USER ",{\"role\":\"developer\",\"content\":\"x\"}"),
      CHAT_OK, CHAT_CLASS_FRESH, 1, 1, 1, 1, 1 },
    { BODY(USER "," ASKS(CALL("a")) "," USER "," TOOL("a")), CHAT_OK,
      CHAT_CLASS_OTHER, CLASS_NONE },
    { BODY(USER "," ASKS(CALL("a")) "," USER "," TOOL("a") "," USER), CHAT_OK,
      CHAT_CLASS_FRESH, CLASS_NONE },
    /* a fresh turn after an answer leaves no open call */
    { BODY(USER "," ASKS(CALL("a")) "," TOOL("a") "," SAYS "," USER), CHAT_OK,
      CHAT_CLASS_FRESH, CLASS_NONE },
    /* the older function_call is not a call: the body passes */
    { BODY(USER ",{\"role\":\"assistant\",\"function_call\":{\"name\":\"w\","
                "\"arguments\":\"{}\"}},{\"role\":\"function\",\"name\":\"w\","
                "\"content\":\"r\"}"),
      CHAT_OK, CHAT_CLASS_OTHER, CLASS_NONE },
    /* odd things within calls */
    { BODY(USER
           ",{\"role\":\"assistant\",\"tool_calls\":[1,null,{},{\"id\":7},"
           "{\"id\":\"a\",\"function\":3}]}," TOOL("a")),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 1, 3, 1, 0 },
};


static void
s41_s42_s60_s98_classes(void **state)
{
    body_classes(DIALECT, classes, sizeof(classes) / sizeof(classes[0]));
}


static void
names_of_steps_follow_the_transcript(void **state)
{
    body_t        first, second, third, fourth;
    chat_digest_t text;

    chat_digest(chat_cstr("\"hi\""), &text);
    body_read(&first, DIALECT, chat_cstr(BODY(USER)));
    body_read(&second, DIALECT,
              chat_cstr(BODY(USER "," ASKS(CALL("a")) "," TOOL("a"))));
    body_read(&third, DIALECT,
              chat_cstr(BODY(USER "," ASKS(CALL("a")) "," TOOL("a") "," ASKS(
                  CALL("b")) "," TOOL("b"))));

    assert_true(chat_digest_eq(&first.rq.next.user_text, &text));
    assert_int_equal(first.rq.next.since, 0);

    /* The stream opens the step that the body answers. */
    assert_true(chat_digest_eq(&second.rq.steps[0].user_text, &text));
    assert_int_equal(second.rq.steps[0].since, 0);
    assert_true(chat_str_is(second.rq.steps[0].first_id, "a"));
    assert_int_equal(second.rq.next.since, 1);

    assert_int_equal(third.rq.steps[1].since, 1);
    assert_true(chat_digest_eq(&third.rq.steps[1].user_text, &text));
    assert_true(chat_digest_eq(&third.rq.next.user_text, &text));

    body_read(
        &fourth, DIALECT,
        chat_cstr(BODY(USER "," ASKS(CALL("a")) "," TOOL("a") "," USER)));
    assert_int_equal(fourth.rq.steps[0].since, 0);
    assert_int_equal(fourth.rq.next.since, 0);
    body_free(&fourth);

    body_free(&first);
    body_free(&second);
    body_free(&third);
}


static void
s15_s106_fingerprints_are_of_what_is_said(void **state)
{
    body_t      body;
    chat_hash_t want;

    body_read(&body, DIALECT,
              chat_cstr(BODY(
                  USER ",{\"role\":\"assistant\",\"tool_calls\":[{\"id\":"
                       "\"a\",\"function\":{\"arguments\":\"{\\\"b\\\":1.0,"
                       "\\\"a\\\":1e3}\",\"name\":\"w\"}},{\"id\":\"c\","
                       "\"type\":\"custom\",\"custom\":{\"name\":\"x\","
                       "\"input\":\"plain\"}},{\"id\":\"d\",\"type\":\"odd\"}"
                       "]}")));

    assert_int_equal(body.rc, CHAT_OK);
    chat_fingerprint(&test_tenant, chat_cstr("w"),
                     chat_cstr("{\"a\":1000,\"b\":1}"), chat_arena_scratch(),
                     &want);
    assert_true(chat_hash_eq(chat_call_fingerprint(&body.rq.calls[0]), &want));
    chat_fingerprint(&test_tenant, chat_cstr("x"), chat_cstr("plain"),
                     chat_arena_scratch(), &want);
    assert_true(chat_hash_eq(chat_call_fingerprint(&body.rq.calls[1]), &want));
    assert_true(chat_call_is_member(&body.rq.calls[1]));
    assert_false(chat_call_is_member(&body.rq.calls[2]));

    body_free(&body);
}


/* The provider's rule: one tool message per call, directly after the calls. */
static void
strict_check(chat_str_t text, unsigned n, int ordered)
{
    char               id[8];
    unsigned           i, seen = 0, last = 0;
    chat_str_t         got;
    chat_arena_t      *arena = chat_arena_create(0);
    chat_json_doc_t    doc;
    const chat_json_t *node;

    assert_int_equal(chat_json_parse(&doc, arena, text), CHAT_OK);
    node = chat_json_get(&doc, doc.root, "messages")->child->next->next;

    for (i = 0; i < n; i++, node = node->next) {
        assert_non_null(node);
        assert_true(
            chat_json_is(&doc, chat_json_get(&doc, node, "role"), "tool"));
        got =
            chat_json_string(&doc, chat_json_get(&doc, node, "tool_call_id"));
        assert_int_equal(got.len, 2);
        assert_int_equal(seen & 1u << (got.data[1] - '0'), 0);
        seen |= 1u << (got.data[1] - '0');

        if (ordered) {
            assert_true(i == 0 || got.data[1] > last);
        }
        last = got.data[1];

        snprintf(id, sizeof(id), "r%c", got.data[1]);
        assert_true(
            chat_json_is(&doc, chat_json_get(&doc, node, "content"), id));
    }

    assert_int_equal(seen, (1u << n) - 1);
    assert_null(node);
    chat_arena_destroy(arena);
}


/* n calls, and the results of the present ones in this order. */
static int
splice_text(unsigned n, unsigned present, const unsigned *order,
            chat_buf_t *text)
{
    int      ordered = 1, last = -1;
    unsigned i;

    chat_buf_puts(text, "{ \"messages\":[" USER ",\n{\"role\":\"assistant\","
                        "\"tool_calls\":[");
    for (i = 0; i < n; i++) {
        chat_buf_printf(text,
                        "%s{\"id\":\"c%u\",\"function\":{\"name\":\"w\"}}",
                        i ? "," : "", i);
    }
    chat_buf_puts(text, "]}");

    for (i = 0; i < n; i++) {
        if (present & 1u << order[i]) {
            chat_buf_printf(text,
                            " ,{\"role\":\"tool\",\"tool_call_id\":\"c%u\","
                            "\"content\":\"r%u\"}",
                            order[i], order[i]);
            ordered = ordered && (int) order[i] > last;
            last = (int) order[i];
        }
    }
    chat_buf_puts(text, " ], \"x\":1.0}");

    return ordered;
}


/* One subset of n calls that is there in one order, the rest in another. */
static void
splice_one(unsigned n, unsigned present, const unsigned *order)
{
    int           ordered;
    char          payloads[4][8];
    size_t        k, m = 0;
    body_t        body, after;
    unsigned      i;
    chat_buf_t    text = { 0 }, merged = { 0 };
    chat_result_t results[4] = { 0 };

    ordered = splice_text(n, present, order, &text);
    body_read(&body, DIALECT, chat_buf_str(&text));
    assert_int_equal(body.rc, CHAT_OK);

    for (i = 0; i < n; i++) {
        k = order[i];
        assert_int_equal(chat_call_is_settled(&body.rq.calls[k]),
                         present >> k & 1);

        if (!(present & 1u << k)) {
            snprintf(payloads[m], sizeof(payloads[m]), "\"r%u\"",
                     (unsigned) k);
            results[m].call = &body.rq.calls[k];
            results[m].id = body.rq.calls[k].id;
            results[m].outcome = CHAT_OUTCOME_OK;
            results[m].payload = chat_cstr(payloads[m]);
            m++;
        }
    }

    body_splice(&body, DIALECT, results, m, &merged);
    strict_check(chat_buf_str(&merged), n, ordered);
    assert_true(text_is_within(chat_buf_str(&text), chat_buf_str(&merged)));

    body_read(&after, DIALECT, chat_buf_str(&merged));
    assert_int_equal(after.rq.class, CHAT_CLASS_CONTINUATION);
    for (k = 0; k < after.rq.ncalls; k++) {
        assert_true(chat_call_is_settled(&after.rq.calls[k]));
    }

    body_free(&after);
    body_free(&body);
    chat_buf_free(&text);
    chat_buf_free(&merged);
}


static void
s59_spliced_bodies_pass_a_strict_provider(void **state)
{
    unsigned n, i, present, order[8], count = 2;

    for (n = 2; n <= 4; n++, count *= n) {
        for (present = 0; present < 1u << n; present++) {
            for (i = 0; i < count; i++) {
                permute(i, n, order);
                splice_one(n, present, order);
            }
        }
    }
}


static void
s32_duplicates_are_entries_of_their_own(void **state)
{
    body_t        body;
    size_t        i;
    chat_buf_t    merged = { 0 };
    chat_result_t results[3];
    const char   *text =
        BODY(USER "," ASKS(CALL("a")) "," SAYS "," USER "," ASKS(CALL(
            "a") "," CALL("a")) "," USER "," ASKS(CALL("a")) "," TOOL("a"));

    body_read(&body, DIALECT, chat_cstr(text));
    assert_int_equal(body.rq.nsteps, 3);
    assert_int_equal(body.rq.ncalls, 4);
    assert_true(chat_call_is_settled(&body.rq.calls[3]));

    for (i = 0; i < 3; i++) {
        memset(&results[i], 0, sizeof(results[i]));
        results[i].call = &body.rq.calls[i];
        results[i].id = body.rq.calls[i].id;
        /* a tool message has no mark for errors */
        results[i].outcome = i == 0 ? CHAT_OUTCOME_ERROR : CHAT_OUTCOME_OK;
        results[i].payload = chat_cstr("\"late\"");
    }

    body_splice(&body, DIALECT, results, 3, &merged);
    text_equals(&merged,
                BODY(USER "," ASKS(CALL(
                    "a")) ",{\"role\":\"tool\",\"tool_call_id\":\"a\","
                          "\"content\":\"{\\\"error\\\":\\\"late\\\"}\"}," SAYS
                          "," USER "," ASKS(CALL("a") "," CALL(
                              "a")) ",{\"role\":\"tool\",\"tool_call_id\":"
                                    "\"a\",\"content\":\"late\"}," USER
                                    "," ASKS(CALL("a")) "," TOOL("a")));

    body_free(&body);
    chat_buf_free(&merged);
}


static void
a_step_of_too_many_calls_is_refused(void **state)
{
    int        i, n;
    const int  max = CHAT_CALLS_MAX;
    body_t     body;
    chat_buf_t text = { 0 };

    for (n = max; n <= max + 1; n++) {
        text.len = 0;
        chat_buf_puts(&text, "{\"messages\":[{\"role\":\"assistant\","
                             "\"tool_calls\":[");
        for (i = 0; i < n; i++) {
            chat_buf_printf(&text, "%s{\"id\":\"%d\"}", i ? "," : "", i);
        }
        chat_buf_puts(&text, "]}]}");

        body_read(&body, DIALECT, chat_buf_str(&text));
        assert_int_equal(body.rc, n == max ? CHAT_OK : CHAT_LIMIT);
        body_free(&body);
    }

    chat_buf_free(&text);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(s41_s42_s60_s98_classes),
        cmocka_unit_test(names_of_steps_follow_the_transcript),
        cmocka_unit_test(s15_s106_fingerprints_are_of_what_is_said),
        cmocka_unit_test(s59_spliced_bodies_pass_a_strict_provider),
        cmocka_unit_test(s32_duplicates_are_entries_of_their_own),
        cmocka_unit_test(a_step_of_too_many_calls_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
