/*
 * test_dialect_gemini.c: request bodies of Gemini: their class, the call of
 * each result, and the names of their steps.
 *
 * Completed bodies are in test_dialect_gemini_splice.c.
 */

#include "dialect_run.h"
#include "gemini_body.h"
#include "../buf_printf.h"

#define DIALECT (&chat_dialect_gemini)

/* A partial result. */
#define SOON(id, n)                                                      \
    "{\"functionResponse\":{" id "\"name\":\"w\",\"willContinue\":true," \
    "\"response\":{\"n\":" n "}}}"

static const class_case_t classes[] = {
    { "{}", CHAT_DECLINED, CHAT_CLASS_OTHER, CLASS_NONE },
    { "[]", CHAT_DECLINED, CHAT_CLASS_OTHER, CLASS_NONE },
    { "{\"contents\":1}", CHAT_DECLINED, CHAT_CLASS_OTHER, CLASS_NONE },
    { BODY(""), CHAT_DECLINED, CHAT_CLASS_OTHER, CLASS_NONE },
    { BODY(USER), CHAT_OK, CHAT_CLASS_FRESH, CLASS_NONE },
    { BODY(USER "," SAYS "," USER), CHAT_OK, CHAT_CLASS_FRESH, CLASS_NONE },
    { BODY(USER "," SAYS), CHAT_OK, CHAT_CLASS_OTHER, CLASS_NONE },
    { BODY("1,[]," USER), CHAT_OK, CHAT_CLASS_FRESH, CLASS_NONE },
    /* one object alone is a list of it; a role may be missing */
    { "{\"contents\":{\"parts\":{\"text\":\"hi\"}},\"x\":{\"parts\":1}}",
      CHAT_OK, CHAT_CLASS_FRESH, CLASS_NONE },
    { BODY(USER "," ASKS(CALL("a", "w")) ",{\"parts\":" RESULT("a", "w") "}"),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 1, 1, 1, 0 },
    { BODY(USER "," ASKS(CALL("a", "w") "," CALL("b", "w")) "," BRINGS(
          RESULT("b", "w"))),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 1, 2, 1, 0 },
    /* the older role, the other spelling */
    { BODY(USER ",{\"role\":\"model\",\"parts\":[{\"function_call\":{"
                "\"name\":\"w\"}}]},{\"role\":\"function\",\"parts\":[{"
                "\"function_response\":{\"name\":\"w\",\"response\":{}}}]}"),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 1, 1, 1, 0 },
    /* an answer that a client keeps in several contents is one step */
    { BODY(USER "," ASKS(CALL("a", "w")) "," ASKS(
          CALL("b", "w")) "," SAYS
                          "," BRINGS(RESULT("a", "w")) "," BRINGS(
                              RESULT("b", "w"))),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 1, 2, 2, 0 },
    /* results of calls that are not there; s60: none */
    { BODY(USER "," BRINGS(RESULT("a", "w"))), CHAT_OK, CHAT_CLASS_FRESH,
      CLASS_NONE },
    { BODY(USER "," ASKS(CALL("a", "w")) "," BRINGS(RESULT("x", "v"))),
      CHAT_OK, CHAT_CLASS_OTHER, 0, 1, 1, 0, 0 },
    { BODY(USER "," ASKS(CALL("a", "w")) "," BRINGS("")), CHAT_OK,
      CHAT_CLASS_OTHER, 0, 1, 1, 0, 0 },
    /* s42: earlier steps of the turn */
    { BODY(USER "," ASKS(CALL("a", "w")) "," BRINGS(RESULT("a", "w")) "," ASKS(
          CALL("b", "w")) "," BRINGS(RESULT("b", "w"))),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 2, 2, 2, 0 },
    /* s41: earlier turns, listed if a call is open */
    { BODY(USER "," ASKS(CALL("a", "w")) "," USER "," ASKS(
          CALL("b", "w")) "," BRINGS(RESULT("b", "w"))),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 2, 2, 1, 1 },
    { BODY(USER "," ASKS(CALL("a", "w")) "," BRINGS(RESULT(
          "a", "w")) "," SAYS "," USER
                     "," ASKS(CALL("b", "w")) "," BRINGS(RESULT("b", "w"))),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 1, 1, 1, 0 },
    /* s43: the server's calls are no members */
    { BODY(USER "," ASKS("{\"toolCall\":{\"id\":\"s\"}},{\"executableCode\":"
                         "{}}") "," BRINGS(RESULT("s", "w"))),
      CHAT_OK, CHAT_CLASS_OTHER, CLASS_NONE },
    /* s98: results and a new text are a fresh turn */
    { BODY(USER "," ASKS(CALL("a", "w") "," CALL("b", "w")) "," BRINGS(
          RESULT("a", "w") "," TEXT)),
      CHAT_OK, CHAT_CLASS_FRESH, 1, 1, 2, 1, 2 },
    { BODY(USER
           "," ASKS(CALL("a", "w")) "," BRINGS(RESULT("a", "w")) "," USER),
      CHAT_OK, CHAT_CLASS_FRESH, 1, 1, 1, 1, 1 },
    { BODY(USER "," ASKS(CALL("a", "w")) "," USER), CHAT_OK, CHAT_CLASS_FRESH,
      1, 1, 1, 0, 1 },
    /* two things about one member */
    { BODY(USER "," ASKS("{\"functionCall\":{\"name\":\"w\",\"name\":\"v\"}"
                         "}") "," BRINGS(ANSWER("w", "{}"))),
      CHAT_BAD, CHAT_CLASS_OTHER, CLASS_NONE },
};


static void
s41_s42_s43_s60_s98_classes(void **state)
{
    body_classes(DIALECT, classes, sizeof(classes) / sizeof(classes[0]));
}


static void
the_uri_says_how_an_answer_comes(void **state)
{
    size_t          i;
    chat_buf_t      out = { 0 };
    chat_arena_t   *arena = chat_arena_create(0);
    chat_request_t  rq;
    chat_json_doc_t doc;

    static const struct {
        const char *uri;
        int         stream;
        const char *empty;
    } uris[] = {
        { "/m:streamGenerateContent?alt=sse", 1, "data: {" },
        { "/m:streamGenerateContent?key=k&alt=sse", 1, "data: {" },
        { "/m:streamGenerateContent?%24alt=sse&key=k", 1, "data: {" },
        { "/m:streamGenerateContent?$alt=sse", 1, "data: {" },
        { "/m:streamGenerateContent?alt=sse2", 0, "[{" },
        { "/m:streamGenerateContent?x=alt=sse&", 0, "[{" },
        { "/m:streamGenerateContent", 0, "[{" },
        { "/m:generateContent?alt=sse", 0, "{" },
        /* behind a gateway with its own paths */
        { "/chat", 1, "data: {" },
        { "", 1, "data: {" },
    };

    for (i = 0; i < sizeof(uris) / sizeof(uris[0]); i++) {
        memset(&rq, 0, sizeof(rq));
        rq.uri = chat_cstr(uris[i].uri);
        assert_int_equal(chat_json_parse(&doc, arena, chat_cstr(BODY(USER))),
                         CHAT_OK);
        assert_int_equal(chat_dialect_read(DIALECT, &doc, arena, &rq),
                         CHAT_OK);
        assert_int_equal(rq.stream, uris[i].stream);

        out.len = 0;
        assert_int_equal(DIALECT->empty(&rq, NULL, 0, &out), CHAT_OK);
        assert_true(chat_str_starts(chat_buf_str(&out), uris[i].empty));
    }

    chat_buf_free(&out);
    chat_arena_destroy(arena);
}


static void
names_of_steps_follow_the_transcript(void **state)
{
    body_t first, second, third;

    body_read(&first, DIALECT, chat_cstr(BODY(USER)));
    body_read(&second, DIALECT,
              chat_cstr(BODY(USER "," ASKS(PLAIN("w", "{}")) "," BRINGS(
                  ANSWER("w", "{}")) "," SAYS
                                     "," ASKS(PLAIN("w", "{}")) "," BRINGS(
                                         ANSWER("w", "{}")) "," SAYS)));
    body_read(&third, DIALECT,
              chat_cstr(BODY(USER "," ASKS(CALL("a", "w")) "," BRINGS(
                  RESULT("a", "w") "," TEXT))));

    assert_int_equal(first.rq.next.since, 0);
    assert_int_equal(second.rq.nsteps, 2);
    assert_int_equal(second.rq.steps[0].since, 0);
    assert_int_equal(second.rq.steps[1].since, 1);
    assert_int_equal(second.rq.next.since, 3);
    assert_true(chat_digest_eq(&second.rq.steps[1].user_text,
                               &first.rq.next.user_text));

    /* Calls without ids are identified by position. */
    assert_true(chat_str_is(second.rq.steps[0].first_id, "part:0.0"));
    assert_true(chat_str_is(second.rq.steps[1].first_id, "part:1.0"));

    /* A text beside results is an ordinary text. */
    assert_int_equal(third.rq.next.since, 0);
    assert_true(
        chat_digest_eq(&third.rq.next.user_text, &first.rq.next.user_text));

    body_free(&first);
    body_free(&second);
    body_free(&third);
}


/* The outcome of each call of the last step, and the payload. */
static void
results_are(const char *calls, const char *results, const char *want)
{
    char               text[2048];
    size_t             i;
    body_t             body;
    chat_buf_t         got = { 0 };
    const chat_call_t *call;

    snprintf(text, sizeof(text),
             BODY(USER ",{\"role\":\"model\",\"parts\":["
                       "%s]},{\"parts\":[%s]}"),
             calls, results);
    body_read(&body, DIALECT, chat_cstr(text));
    assert_int_equal(body.rc, CHAT_OK);

    for (i = 0; i < body.rq.ncalls; i++) {
        call = &body.rq.calls[i];
        chat_buf_printf(&got, "%s%.*s=%.*s", i ? " " : "", (int) call->id.len,
                        (const char *) call->id.data, (int) call->payload.len,
                        (const char *) call->payload.data);
    }

    text_equals(&got, want);
    chat_buf_free(&got);
    body_free(&body);
}


static void
results_go_by_id_else_by_name_and_order(void **state)
{
    results_are(CALL("a", "w") "," CALL("b", "w"),
                "{\"functionResponse\":{\"id\":\"b\",\"name\":\"v\","
                "\"response\":{\"n\":1}}}",
                "a= b={\"n\":1}");
    results_are(PLAIN("w", "{}") "," PLAIN("v", "{}") "," PLAIN("w", "{}"),
                ANSWER("v", "{\"n\":1}") "," ANSWER("w", "{\"n\":2}"),
                "part:0.0={\"n\":2} part:0.1={\"n\":1} part:0.2=");
    results_are(PLAIN("w", "{}") "," PLAIN("w", "{}"),
                ANSWER("w", "{\"n\":1}") "," ANSWER("w", "{\"n\":2}"),
                "part:0.0={\"n\":1} part:0.1={\"n\":2}");
    /* an id of the client's own, and one that it left out */
    results_are(PLAIN("w", "{}"),
                "{\"functionResponse\":{\"id\":\"mine\",\"name\":\"w\","
                "\"response\":{\"n\":1}}}",
                "part:0.0={\"n\":1}");
    results_are(CALL("a", "w") "," CALL("b", "w"),
                ANSWER("w", "{\"n\":1}") "," RESULT("a", "w"),
                "a={\"output\":1} b={\"n\":1}");
    /* each result belongs to one call */
    results_are(CALL("a", "w") "," CALL("a", "w"), RESULT("a", "w"),
                "a={\"output\":1} a=");
    results_are(CALL("a", "w") "," CALL("b", "w"),
                RESULT("a", "w") "," RESULT("a", "w"), "a={\"output\":1} b=");
    results_are(CALL("a", "w") "," PLAIN("w", "{}"),
                RESULT("a", "w") "," RESULT("a", "w"),
                "a={\"output\":1} part:0.1=");
    /* a result after a preliminary one belongs to the same call */
    results_are(CALL("a", "w") "," CALL("b", "w"),
                SOON("\"id\":\"a\",", "1") "," SOON("\"id\":\"a\",",
                                                    "2") "," RESULT("a", "w"),
                "a={\"output\":1} b=");
    results_are(PLAIN("w", "{}"), SOON("", "1") "," ANSWER("w", "{\"n\":1}"),
                "part:0.0={\"n\":1}");
    results_are(PLAIN("w", "{}") "," PLAIN("w", "{}"),
                SOON("", "1") "," ANSWER("w", "{\"n\":1}"),
                "part:0.0={\"n\":1} part:0.1=");
    /* in order at first */
    results_are(CALL("a", "w") "," CALL("b", "w") "," CALL("c", "w"),
                RESULT("a", "w") "," RESULT("c", "w") "," RESULT("b", "w"),
                "a={\"output\":1} b={\"output\":1} c={\"output\":1}");
    /* the id of a position is no id of the call */
    results_are(CALL("a", "w") "," PLAIN("w", "{}"),
                RESULT("a", "w") "," RESULT("part:0.1", "v"),
                "a={\"output\":1} part:0.1=");
}


#define PIECE(more) "{\"functionCall\":{" more "}}"
#define OPENS(name) \
    PIECE("\"id\":\"" name "\",\"name\":\"w\",\"willContinue\":true")
#define SAID(path, more)                                              \
    PIECE("\"partialArgs\":[{\"jsonPath\":\"$." path "\"," more "}]," \
          "\"willContinue\":true")

#define WHOLE OPENS("a") "," SAID("b", "\"stringValue\":\"x\"") "," PIECE("")
#define HALF PIECE("") "," OPENS("b") "," SAID("b", "\"numberValue\":1")
#define CHUNKS                                                               \
    USER "," ASKS(WHOLE) "," ASKS(HALF) "," ASKS(CALL("c", "w")) "," BRINGS( \
        RESULT("a", "w") "," ANSWER("w", "{}"))

/* A call in the pieces of its stream. */
static void
a_call_in_pieces_is_one(void **state)
{
    size_t      i;
    body_t      body;
    chat_hash_t want;

    body_read(&body, DIALECT, chat_cstr(BODY(CHUNKS)));

    assert_int_equal(body.rq.class, CHAT_CLASS_CONTINUATION);
    assert_int_equal(body.rq.ncalls, 3);
    chat_fingerprint(&test_tenant, chat_cstr("w"), chat_cstr("{\"b\":\"x\"}"),
                     chat_arena_scratch(), &want);
    assert_true(chat_hash_eq(chat_call_fingerprint(&body.rq.calls[0]), &want));

    /* an incomplete call is no member and has no answer */
    for (i = 0; i < 3; i++) {
        assert_int_equal(body.rq.calls[i].ready, i != 1);
        assert_int_equal(body.rq.calls[i].outcome,
                         i != 1 ? CHAT_OUTCOME_OK : CHAT_OUTCOME_NONE);
    }

    body_free(&body);
}


/* The string of a call may begin with an empty piece. */
static void
a_piece_may_be_empty(void **state)
{
    body_t      body;
    chat_hash_t want;

    body_read(
        &body, DIALECT,
        chat_cstr(BODY(USER "," ASKS(
            OPENS("a") "," SAID("b", "\"stringValue\":\"\"") "," SAID(
                "b",
                "\"stringValue\":\"x\"") "," SAID("c",
                                                  "\"stringValue\""
                                                  ":\"\"") "," PIECE("")))));

    assert_int_equal(body.rq.ncalls, 1);
    chat_fingerprint(&test_tenant, chat_cstr("w"),
                     chat_cstr("{\"b\":\"x\",\"c\":\"\"}"),
                     chat_arena_scratch(), &want);
    assert_true(chat_hash_eq(chat_call_fingerprint(&body.rq.calls[0]), &want));

    body_free(&body);
}


static void
a_result_is_of_the_ready_call_of_an_id(void **state)
{
    /* the model has repeated a call that was cut off */
    results_are(OPENS("a") "," CALL("a", "w"), RESULT("a", "w"),
                "a= a={\"output\":1}");
    results_are(CALL("a", "w") "," OPENS("a"), RESULT("a", "w"),
                "a={\"output\":1} a=");
    results_are(OPENS("a") "," CALL("a", "w"),
                RESULT("a", "w") "," RESULT("a", "w"),
                "a={\"output\":1} a={\"output\":1}");
}


#define NONE PLAIN("w", "{}")
#define SIX                             \
    PLAIN("w", "{\"b\":1.0,\"a\":1e3}") \
    "," NONE "," NONE "," NONE "," PLAIN("v", "{}") "," PLAIN("v", "{}")
#define FIVE                                                                  \
    ANSWER("w", "{ \"error\" : \"no\" }")                                     \
    "," ANSWER("w", "{\"error\":null,\"output\":1}") "," ANSWER(              \
        "w",                                                                  \
        "1") ",{\"functionResponse\":{\"name\":\"w\",\"willContinue\":true,"  \
             "\"response\":{\"output\":1}}},{\"functionResponse\":{\"name\":" \
             "\"v\",\"response\":{},\"parts\":[{\"inlineData\":{}}]}}"

static void
s15_s34_s106_calls_and_results_are_read(void **state)
{
    size_t      i;
    body_t      body;
    chat_hash_t want;

    static const struct {
        chat_outcome_e outcome;
        const char    *payload;
    } calls[] = {
        { CHAT_OUTCOME_ERROR, "{ \"error\" : \"no\" }" },
        { CHAT_OUTCOME_OK, "{\"error\":null,\"output\":1}" },
        { CHAT_OUTCOME_OK, "{}" },
        { CHAT_OUTCOME_PARTIAL, "{\"output\":1}" },
        { CHAT_OUTCOME_OK,
          "{\"name\":\"v\",\"response\":{},\"parts\":[{\"inlineData\":{}}]}" },
        { CHAT_OUTCOME_NONE, "" },
    };

    body_read(&body, DIALECT,
              chat_cstr(BODY(USER "," ASKS(SIX) "," BRINGS(FIVE))));

    assert_int_equal(body.rq.ncalls, 6);
    chat_fingerprint(&test_tenant, chat_cstr("w"),
                     chat_cstr("{\"a\":1000,\"b\":1}"), chat_arena_scratch(),
                     &want);
    assert_true(chat_hash_eq(chat_call_fingerprint(&body.rq.calls[0]), &want));

    for (i = 0; i < 6; i++) {
        assert_int_equal(body.rq.calls[i].outcome, calls[i].outcome);
        assert_true(chat_str_is(body.rq.calls[i].payload, calls[i].payload));
    }

    body_free(&body);
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
        chat_buf_puts(&text, "{\"contents\":[" USER
                             ",{\"role\":\"model\",\"parts\":[{}");
        for (i = 0; i < n; i++) {
            chat_buf_puts(&text, ",{\"functionCall\":{\"name\":\"f\"}}");
        }
        chat_buf_puts(&text, "]},{\"parts\":[{\"functionResponse\":{}}]}]}");

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
        cmocka_unit_test(a_step_of_too_many_calls_is_refused),
        cmocka_unit_test(s41_s42_s43_s60_s98_classes),
        cmocka_unit_test(the_uri_says_how_an_answer_comes),
        cmocka_unit_test(names_of_steps_follow_the_transcript),
        cmocka_unit_test(results_go_by_id_else_by_name_and_order),
        cmocka_unit_test(a_call_in_pieces_is_one),
        cmocka_unit_test(a_piece_may_be_empty),
        cmocka_unit_test(a_result_is_of_the_ready_call_of_an_id),
        cmocka_unit_test(s15_s34_s106_calls_and_results_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
