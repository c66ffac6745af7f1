/*
 * test_dialect_anthropic.c: requests and splices of
 * Anthropic Messages.
 *
 * Splices are checked by reading the result again, and for the order that the
 * provider requires.
 */

#include "dialect_run.h"
#include "../buf_printf.h"

#define DIALECT (&chat_dialect_anthropic)

#define USER "{\"role\":\"user\",\"content\":\"hi\"}"
#define SAYS "{\"role\":\"assistant\",\"content\":\"done\"}"
#define TEXT "{\"type\":\"text\",\"text\":\"hi\"}"
#define USE(id)                      \
    "{\"type\":\"tool_use\",\"id\":" \
    "\"" id "\",\"name\":\"w\",\"input\":{\"a\":1}}"
#define SERVER(id)                               \
    "{\"type\":\"server_tool_use\",\"id\":\"" id \
    "\",\"name\":\"web\",\"input\":{}}"
#define RESULT(id) \
    "{\"type\":\"tool_result\",\"tool_use_id\":\"" id "\",\"content\":\"r\"}"
#define ASKS(blocks) "{\"role\":\"assistant\",\"content\":[" blocks "]}"
#define BRINGS(blocks) "{\"role\":\"user\",\"content\":[" blocks "]}"
#define BODY(messages) "{\"model\":\"m\",\"messages\":[" messages "]}"
#define THREAD(messages)                                    \
    "{\"thread\":{\"type\":\"continue\",\"previous_message" \
    "_id\":\"m1\"},\"messages\":[" messages "]}"

static const class_case_t classes[] = {
    { "[]", CHAT_DECLINED, 0, CLASS_NONE },
    { "{\"messages\":7}", CHAT_DECLINED, 0, CLASS_NONE },
    { "{\"messages\":[{\"role\":\"user\",\"parts\":[]}]}", CHAT_DECLINED, 0,
      CLASS_NONE },
    { "{\"messages\":[],\"messages\":[]}", CHAT_BAD, 0, CLASS_NONE },
    { BODY(""), CHAT_OK, CHAT_CLASS_OTHER, CLASS_NONE },
    { BODY(USER), CHAT_OK, CHAT_CLASS_FRESH, CLASS_NONE },
    { BODY(BRINGS(TEXT)), CHAT_OK, CHAT_CLASS_FRESH, CLASS_NONE },
    { BODY(USER "," SAYS), CHAT_OK, CHAT_CLASS_OTHER, CLASS_NONE },
    { BODY("1,null,{},{\"role\":3},{\"role\":\"user\",\"content\":{}}"),
      CHAT_OK, CHAT_CLASS_OTHER, CLASS_NONE },
    { BODY(USER "," ASKS("1,null,{},{\"type\":\"tool_use\"}," USE(
          "a")) "," BRINGS("1,{\"type\":\"tool_result\"}," RESULT("a"))),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 1, 2, 1, 0 },
    /* s60: calls without any result are no continuation */
    { BODY(USER "," ASKS(USE("a"))), CHAT_OK, CHAT_CLASS_OTHER, 0, 1, 1, 0,
      0 },
    { BODY(USER "," ASKS(USE("a")) "," BRINGS("")), CHAT_OK, CHAT_CLASS_OTHER,
      0, 1, 1, 0, 0 },
    { BODY(USER
           "," ASKS(TEXT "," USE("a") "," USE("b")) "," BRINGS(RESULT("b"))),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 1, 2, 1, 0 },
    /* two user messages are one to the provider */
    { BODY(USER "," ASKS(USE("a") "," USE("b")) "," BRINGS(
          RESULT("b")) "," BRINGS(RESULT("a"))),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 1, 2, 2, 0 },
    /* s35: a result of an unknown call */
    { BODY(USER "," ASKS(USE("a")) "," BRINGS(RESULT("z"))), CHAT_OK,
      CHAT_CLASS_OTHER, 0, 1, 1, 0, 0 },
    { BODY(BRINGS(RESULT("z"))), CHAT_OK, CHAT_CLASS_OTHER, CLASS_NONE },
    /* s41, s42: earlier steps are listed if a call has no result */
    { BODY(USER "," ASKS(USE("a")) "," USER
                                   "," ASKS(USE("b")) "," BRINGS(RESULT("b"))),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 2, 2, 1, 1 },
    { BODY(USER "," ASKS(USE("a")) "," BRINGS(RESULT(
          "a")) "," SAYS "," USER "," ASKS(USE("b")) "," BRINGS(RESULT("b"))),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 1, 1, 1, 0 },
    { BODY(USER "," ASKS(USE("a")) "," BRINGS(RESULT("a")) "," ASKS(
          USE("b")) "," BRINGS(RESULT("b"))),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 2, 2, 2, 0 },
    /* s43: the server's calls are no members and need no result */
    { BODY(USER "," ASKS(SERVER("s") "," USE("a")) "," BRINGS(RESULT("a"))),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 1, 2, 1, 0 },
    { BODY(USER "," ASKS(SERVER("s")) "," BRINGS(RESULT("s"))), CHAT_OK,
      CHAT_CLASS_OTHER, 0, 1, 1, 0, 0 },
    { BODY(USER "," ASKS(SERVER("s")) "," USER), CHAT_OK, CHAT_CLASS_FRESH,
      CLASS_NONE },
    { BODY(USER "," ASKS(SERVER("s")) "," USER "," SAYS "," USER), CHAT_OK,
      CHAT_CLASS_FRESH, CLASS_NONE },
    /* s98: results and a new text are a fresh turn */
    { BODY(USER
           "," ASKS(USE("a") "," USE("b")) "," BRINGS(RESULT("a") "," TEXT)),
      CHAT_OK, CHAT_CLASS_FRESH, 1, 1, 2, 1, 2 },
    { BODY(USER "," ASKS(USE("a")) "," BRINGS(RESULT("a")) "," USER), CHAT_OK,
      CHAT_CLASS_FRESH, 1, 1, 1, 1, 1 },
    { BODY(USER "," ASKS(USE("a")) "," USER), CHAT_OK, CHAT_CLASS_FRESH, 1, 1,
      1, 0, 1 },
    /* threads */
    { THREAD(BRINGS(RESULT("a") "," RESULT("b"))), CHAT_OK,
      CHAT_CLASS_CONTINUATION, 1, 1, 2, 2, 0 },
    { THREAD(BRINGS(RESULT("a") "," TEXT)), CHAT_OK, CHAT_CLASS_FRESH, 1, 1, 1,
      1, 1 },
    { THREAD(USER), CHAT_OK, CHAT_CLASS_FRESH, 1, 1, 0, 0, 0 },
};


static void
s41_s42_s43_s60_s98_classes(void **state)
{
    body_classes(DIALECT, classes, sizeof(classes) / sizeof(classes[0]));
}


/* A text, and a step that begins with a call of the server. */
#define MARKED                                                  \
    BRINGS("{\"type\":\"text\",\"text\":\"hi\",\"cache_control" \
           "\":{}}")
#define SERVES ASKS(SERVER("s") "," USE("a")) "," BRINGS(RESULT("a"))


static void
names_of_steps_follow_the_transcript(void **state)
{
    body_t first, second, third, fourth;

    body_read(&first, DIALECT, chat_cstr(BODY(USER)));
    body_read(&second, DIALECT, chat_cstr(BODY(MARKED "," SERVES)));
    body_read(&third, DIALECT,
              chat_cstr(BODY(USER "," ASKS(USE("a")) "," BRINGS(
                  RESULT("a")) "," ASKS(USE("b")) "," BRINGS(RESULT("b")))));

    assert_int_equal(first.rq.next.since, 0);

    /* A cache_control that moves changes no name. */
    assert_true(chat_digest_eq(&second.rq.steps[0].user_text,
                               &first.rq.next.user_text));
    assert_int_equal(second.rq.steps[0].since, 0);
    assert_true(chat_str_is(second.rq.steps[0].first_id, "s"));

    assert_int_equal(third.rq.steps[1].since, 1);
    assert_int_equal(third.rq.next.since, 2);
    assert_true(
        chat_digest_eq(&third.rq.next.user_text, &first.rq.next.user_text));

    body_read(&fourth, DIALECT,
              chat_cstr(BODY(USER "," ASKS(USE("a")) "," BRINGS(
                  RESULT("a")) "," SAYS "," USER)));
    assert_int_equal(fourth.rq.next.since, 0);
    body_free(&fourth);

    body_free(&first);
    body_free(&second);
    body_free(&third);
}


static void
s15_s34_s106_calls_and_results_are_read(void **state)
{
    body_t      body;
    chat_hash_t want;

    body_read(
        &body, DIALECT,
        chat_cstr(BODY(
            USER ",{\"role\":\"assistant\",\"content\":[{\"type\":"
                 "\"tool_use\",\"id\":\"a\",\"name\":\"w\",\"input\":"
                 "{\"b\":1.0,\"a\":1e3}}," USE("b") "," USE("c") "]}," BRINGS(
                     "{\"type\":\"tool_result\",\"tool_use_id\":"
                     "\"a\",\"is_error\":true,\"content\":[ 1 ]},"
                     "{\"type\":\"tool_result\",\"tool_use_id\":"
                     "\"b\"}"))));

    chat_fingerprint(&test_tenant, chat_cstr("w"),
                     chat_cstr("{\"a\":1000,\"b\":1}"), chat_arena_scratch(),
                     &want);
    assert_true(chat_hash_eq(chat_call_fingerprint(&body.rq.calls[0]), &want));
    assert_int_equal(body.rq.calls[0].outcome, CHAT_OUTCOME_ERROR);
    assert_true(chat_str_is(body.rq.calls[0].payload, "[ 1 ]"));
    assert_int_equal(body.rq.calls[1].outcome, CHAT_OUTCOME_OK);
    assert_true(chat_str_is(body.rq.calls[1].payload, "\"\""));
    assert_int_equal(body.rq.calls[2].outcome, CHAT_OUTCOME_NONE);

    body_free(&body);
}


/* The provider's rule: the results first, one for each call. */
static void
strict_check(chat_str_t text, unsigned n, int ordered, int words)
{
    char               id[8];
    unsigned           i, seen = 0, last = 0;
    chat_str_t         got;
    chat_arena_t      *arena = chat_arena_create(0);
    chat_json_doc_t    doc;
    const chat_json_t *node;

    assert_int_equal(chat_json_parse(&doc, arena, text), CHAT_OK);
    node = chat_json_get(&doc, doc.root, "messages")->child->next->next;
    assert_true(chat_json_is(&doc, chat_json_get(&doc, node, "role"), "user"));
    assert_null(node->next);
    node = chat_json_get(&doc, node, "content")->child;

    for (i = 0; i < n; i++, node = node->next) {
        assert_non_null(node);
        assert_true(chat_json_is(&doc, chat_json_get(&doc, node, "type"),
                                 "tool_result"));
        got = chat_json_string(&doc, chat_json_get(&doc, node, "tool_use_id"));
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
    assert_int_equal(node != NULL, words);
    chat_arena_destroy(arena);
}


/* n calls, the results of the present ones in this order, maybe a text. */
static int
splice_text(unsigned n, unsigned present, const unsigned *order, int words,
            chat_buf_t *text)
{
    int      ordered = 1, last = -1;
    unsigned i, count = 0;

    chat_buf_puts(text, "{ \"messages\":[" USER ",\n{\"role\":\"assistant\","
                        "\"content\":[" SERVER("s"));
    for (i = 0; i < n; i++) {
        chat_buf_printf(text,
                        ",{\"type\":\"tool_use\",\"id\":\"c%u\","
                        "\"name\":\"w\"}",
                        i);
    }
    chat_buf_puts(text, "]},{\"role\":\"user\",\"content\":[ ");

    for (i = 0; i < n; i++) {
        if (present & 1u << order[i]) {
            chat_buf_printf(text,
                            "%s{\"type\":\"tool_result\",\"content\":\"r%u\","
                            "\"cache_control\":{},\"tool_use_id\":\"c%u\"}",
                            count++ ? " , " : "", order[i], order[i]);
            ordered = ordered && (int) order[i] > last;
            last = (int) order[i];
        }
    }
    if (words) {
        chat_buf_puts(text, count ? "," TEXT : TEXT);
    }
    chat_buf_puts(text, " ]}], \"x\":1.0}");

    return ordered;
}


/* The missing results of the body, in this order; the first call's failed. */
static size_t
splice_results(const body_t *body, unsigned n, unsigned present,
               const unsigned *order, char payloads[4][8],
               chat_result_t *results)
{
    size_t             m = 0;
    unsigned           i;
    const chat_call_t *call;

    for (i = 0; i < n; i++) {
        call = &body->rq.calls[order[i] + 1];
        assert_int_equal(chat_call_is_settled(call), present >> order[i] & 1);

        if (!(present & 1u << order[i])) {
            snprintf(payloads[m], sizeof(payloads[m]), "\"r%u\"", order[i]);
            results[m].call = call;
            results[m].id = call->id;
            results[m].outcome =
                order[i] ? CHAT_OUTCOME_OK : CHAT_OUTCOME_ERROR;
            results[m].payload = chat_cstr(payloads[m]);
            m++;
        }
    }

    return m;
}


/* One subset of n calls that is there in one order, the rest in another. */
static void
splice_one(unsigned n, unsigned present, const unsigned *order, int words)
{
    int           ordered;
    char          payloads[4][8];
    size_t        k, m;
    body_t        body, after;
    chat_buf_t    text = { 0 }, merged = { 0 };
    chat_result_t results[4] = { 0 };

    ordered = splice_text(n, present, order, words, &text);
    body_read(&body, DIALECT, chat_buf_str(&text));
    assert_int_equal(body.rc, CHAT_OK);

    m = splice_results(&body, n, present, order, payloads, results);
    body_splice(&body, DIALECT, results, m, &merged);
    strict_check(chat_buf_str(&merged), n, ordered, words);
    assert_true(text_is_within(chat_buf_str(&text), chat_buf_str(&merged)));

    body_read(&after, DIALECT, chat_buf_str(&merged));
    assert_int_equal(after.rq.class,
                     words ? CHAT_CLASS_FRESH : CHAT_CLASS_CONTINUATION);
    for (k = 1; k < after.rq.ncalls; k++) {
        assert_true(chat_call_is_settled(&after.rq.calls[k]));
    }
    if (!(present & 1)) {
        assert_int_equal(after.rq.calls[1].outcome, CHAT_OUTCOME_ERROR);
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
                splice_one(n, present, order, 0);
                splice_one(n, present, order, 1);
            }
        }
    }
}


/* Fills every unanswered call of the body with "late". */
static void
splice_late(const char *text, const char *want)
{
    size_t        i, n = 0;
    body_t        body;
    chat_buf_t    merged = { 0 };
    chat_result_t results[8];

    body_read(&body, DIALECT, chat_cstr(text));
    assert_int_equal(body.rc, CHAT_OK);

    for (i = 0; i < body.rq.ncalls; i++) {
        if (chat_call_is_member(&body.rq.calls[i])
            && !chat_call_is_settled(&body.rq.calls[i]))
        {
            memset(&results[n], 0, sizeof(results[n]));
            results[n].call = &body.rq.calls[i];
            results[n].id = body.rq.calls[i].id;
            results[n].outcome = CHAT_OUTCOME_OK;
            results[n++].payload = chat_cstr("\"late\"");
        }
    }

    body_splice(&body, DIALECT, results, n, &merged);
    text_equals(&merged, want);

    body_free(&body);
    chat_buf_free(&merged);
}


#define LATE(id)                                      \
    "{\"type\":\"tool_result\",\"tool_use_id\":\"" id \
    "\",\"content\":\"late\"}"


static void
s32_duplicates_are_entries_of_their_own(void **state)
{
#define ONCE USER "," ASKS(USE("a")) ","
#define TWICE "," ASKS(USE("a") "," USE("a")) ","
#define LAST "," ASKS(USE("a")) "," BRINGS(RESULT("a"))
#define LATELY BRINGS(LATE("a") "," TEXT)

    splice_late(BODY(ONCE BRINGS(TEXT) TWICE BRINGS(TEXT) LAST),
                BODY(ONCE LATELY TWICE LATELY LAST));
}


static void
results_get_a_message_of_their_own(void **state)
{
    splice_late(
        BODY(USER "," ASKS(USE("a") "," USE("b")) "," USER "," ASKS(USE("c"))),
        BODY(USER "," ASKS(USE("a") "," USE("b")) "," BRINGS(LATE(
            "a") "," LATE("b")) "," USER
                                "," ASKS(USE("c")) "," BRINGS(LATE("c"))));

    /* blocks before the results: results still go to the front */
    splice_late(BODY(USER "," ASKS(USE("a") "," USE("b")) "," BRINGS(
                    TEXT "," RESULT("a"))),
                BODY(USER "," ASKS(USE("a") "," USE("b")) "," BRINGS(
                    LATE("b") "," TEXT "," RESULT("a"))));
}


static void
threads_take_results_without_calls(void **state)
{
    size_t                   i;
    body_t                   body;
    chat_buf_t               merged = { 0 };
    chat_result_t            results[2] = { 0 };
    static const char *const cases[][2] = {
        { THREAD(BRINGS(RESULT("c"))),
          THREAD(BRINGS(RESULT("c") "," LATE("a") "," LATE("b"))) },
        { THREAD(BRINGS(TEXT)),
          THREAD(BRINGS(LATE("a") "," LATE("b") "," TEXT)) },
        { THREAD(BRINGS("")), THREAD(BRINGS(LATE("a") "," LATE("b"))) },
        { THREAD(USER), THREAD(BRINGS(LATE("a") "," LATE("b")) "," USER) },
    };

    results[0].id = chat_cstr("a");
    results[1].id = chat_cstr("b");
    results[0].outcome = results[1].outcome = CHAT_OUTCOME_OK;
    results[0].payload = results[1].payload = chat_cstr("\"late\"");

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        body_read(&body, DIALECT, chat_cstr(cases[i][0]));
        assert_true(body.rq.chained);
        assert_true(body.rq.stored);
        assert_true(chat_str_is(body.rq.steps[0].chain, "m1"));

        if (i == 0) {
            assert_true(body.rq.calls[0].bare);
            assert_true(chat_str_is(body.rq.calls[0].id, "c"));
        }

        results[0].after = results[1].after =
            body.rq.ncalls ? &body.rq.calls[0] : NULL;

        merged.len = 0;
        body_splice(&body, DIALECT, results, 2, &merged);
        text_equals(&merged, cases[i][1]);
        body_free(&body);
    }

    /* a transcript with its calls is no chain */
    body_read(
        &body, DIALECT,
        chat_cstr(THREAD(USER "," ASKS(USE("a")) "," BRINGS(RESULT("a")))));
    assert_false(body.rq.chained);
    assert_int_equal(body.rq.class, CHAT_CLASS_CONTINUATION);
    body_free(&body);

    chat_buf_free(&merged);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(s41_s42_s43_s60_s98_classes),
        cmocka_unit_test(names_of_steps_follow_the_transcript),
        cmocka_unit_test(s15_s34_s106_calls_and_results_are_read),
        cmocka_unit_test(s59_spliced_bodies_pass_a_strict_provider),
        cmocka_unit_test(s32_duplicates_are_entries_of_their_own),
        cmocka_unit_test(results_get_a_message_of_their_own),
        cmocka_unit_test(threads_take_results_without_calls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
