/*
 * test_dialect_ag_ui.c: the input of AG-UI runs: its class, its members, the
 * names of its steps; and the module's own events.
 *
 * Completed bodies are in test_dialect_ag_ui_splice.c.
 */

#include "dialect_run.h"

#include "facts/chat_batch.h"
#include "../buf_printf.h"

#define DIALECT (&chat_dialect_ag_ui)

#define BODY(messages) RUN("", messages)
#define RUN(more, messages)                                                  \
    "{\"threadId\":\"t\",\"runId\":\"r\",\"state\":{}," more "\"messages\":" \
    "[" messages "]}"
#define USER "{\"id\":\"u\",\"role\":\"user\",\"content\":\"hi\"}"
#define SAYS "{\"id\":\"s\",\"role\":\"assistant\",\"content\":\"ok\"}"
#define ASKS(calls) \
    "{\"id\":\"m\",\"role\":\"assistant\",\"toolCalls\":[" calls "]}"
#define CALL(id, name) WITH(id, name, "{\\\"n\\\":1.0}")
#define WITH(id, name, args)                                                  \
    "{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"" name \
    "\",\"arguments\":\"" args "\"}}"
#define RESULT(id)                                               \
    "{\"id\":\"t" id "\",\"role\":\"tool\",\"toolCallId\":\"" id \
    "\",\"content\":\"x\"}"
#define RESUME(entries) "\"resume\":[" entries "],"
#define ENTRY(id) "{\"interruptId\":\"" id "\",\"status\":\"resolved\"}"
#define ASIDE                                           \
    "{\"id\":\"d\",\"role\":\"developer\",\"content\":" \
    "\"x\"},{\"id\":\"e\",\"role\":\"reasoning\",\"content\":\"y\"}"

static const class_case_t classes[] = {
    { "{}", CHAT_DECLINED, CHAT_CLASS_OTHER, CLASS_NONE },
    { "[]", CHAT_DECLINED, CHAT_CLASS_OTHER, CLASS_NONE },
    { "{\"threadId\":\"t\",\"messages\":[]}", CHAT_DECLINED, CHAT_CLASS_OTHER,
      CLASS_NONE },
    { "{\"threadId\":1,\"runId\":\"r\",\"messages\":[]}", CHAT_DECLINED,
      CHAT_CLASS_OTHER, CLASS_NONE },
    { "{\"threadId\":\"t\",\"runId\":\"r\",\"messages\":{}}", CHAT_DECLINED,
      CHAT_CLASS_OTHER, CLASS_NONE },
    { BODY(""), CHAT_OK, CHAT_CLASS_OTHER, CLASS_NONE },
    { BODY(USER), CHAT_OK, CHAT_CLASS_FRESH, CLASS_NONE },
    { BODY(USER "," SAYS), CHAT_OK, CHAT_CLASS_OTHER, CLASS_NONE },
    { BODY(USER "," SAYS "," USER "," ASIDE), CHAT_OK, CHAT_CLASS_FRESH,
      CLASS_NONE },
    { BODY("1,[],{\"role\":3}," USER), CHAT_OK, CHAT_CLASS_FRESH, CLASS_NONE },
    { BODY(USER "," ASKS(CALL("a", "w")) "," RESULT("a")), CHAT_OK,
      CHAT_CLASS_CONTINUATION, 1, 1, 1, 1, 0 },
    { BODY(USER "," ASKS(CALL("a", "w") "," CALL(
          "b", "w")) "," ASIDE "," RESULT("b") "," ASIDE),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 1, 2, 1, 0 },
    /* calls in a message each are one step */
    { BODY(USER "," ASKS(CALL("a", "w")) "," ASIDE "," SAYS "," ASKS(
          CALL("b", "w")) "," RESULT("b")),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 1, 2, 1, 0 },
    /* results of calls that are not there; s60: none */
    { BODY(USER "," RESULT("a")), CHAT_OK, CHAT_CLASS_OTHER, CLASS_NONE },
    { BODY(USER "," ASKS(CALL("a", "w")) "," RESULT("x")), CHAT_OK,
      CHAT_CLASS_OTHER, 0, 1, 1, 0, 0 },
    { BODY(USER "," ASKS(CALL("a", "w"))), CHAT_OK, CHAT_CLASS_OTHER, 0, 1, 1,
      0, 0 },
    /* s42: earlier steps of the turn */
    { BODY(USER "," ASKS(CALL("a", "w")) "," RESULT("a") "," ASKS(
          CALL("b", "w")) "," RESULT("b")),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 2, 2, 2, 0 },
    /* s41: earlier turns, listed if a call is open */
    { BODY(USER "," ASKS(CALL("a", "w")) "," USER "," ASKS(
          CALL("b", "w")) "," RESULT("b")),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 2, 2, 1, 1 },
    { BODY(USER "," ASKS(CALL("a", "w")) "," RESULT(
          "a") "," SAYS "," USER "," ASKS(CALL("b", "w")) "," RESULT("b")),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 1, 1, 1, 0 },
    /* s98: results and a new text are a fresh turn */
    { BODY(USER "," ASKS(CALL("a", "w") "," CALL("b", "w")) "," RESULT(
          "a") "," USER),
      CHAT_OK, CHAT_CLASS_FRESH, 1, 1, 2, 1, 2 },
    { BODY(USER "," ASKS(CALL("a", "w")) "," RESULT("a") "," SAYS "," USER),
      CHAT_OK, CHAT_CLASS_FRESH, CLASS_NONE },
    /* interrupts are answered, whatever ends the transcript */
    { RUN(RESUME(ENTRY("i")), ""), CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 1, 1,
      1, 0 },
    { RUN(RESUME(ENTRY("i") "," ENTRY("j")), USER), CHAT_OK,
      CHAT_CLASS_CONTINUATION, 1, 1, 2, 2, 0 },
    { RUN(RESUME(ENTRY("i")), USER "," ASKS(CALL("a", "w"))), CHAT_OK,
      CHAT_CLASS_CONTINUATION, 1, 2, 2, 1, 0 },
    { RUN(RESUME(ENTRY("i")), USER "," ASKS(CALL("a", "w")) "," RESULT("a")),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 2, 2, 2, 0 },
    { RUN(RESUME("1,{},{\"interruptId\":\"\"}"), USER), CHAT_OK,
      CHAT_CLASS_FRESH, CLASS_NONE },
    { "{\"threadId\":\"\",\"runId\":\"r\",\"resume\":[" ENTRY(
          "i") "],\"messages\":[]}",
      CHAT_OK, CHAT_CLASS_OTHER, CLASS_NONE },
    { RUN("\"resume\":{\"interruptId\":\"i\"},", USER), CHAT_OK,
      CHAT_CLASS_FRESH, CLASS_NONE },
    /* two things about one member */
    { "{\"threadId\":\"t\",\"threadId\":\"v\",\"runId\":\"r\",\"messages\":["
      "]}",
      CHAT_BAD, CHAT_CLASS_OTHER, CLASS_NONE },
    { RUN("\"resume\":[],\"resume\":[],", USER), CHAT_BAD, CHAT_CLASS_OTHER,
      CLASS_NONE },
};


static void
s41_s42_s60_s98_classes(void **state)
{
    body_classes(DIALECT, classes, sizeof(classes) / sizeof(classes[0]));
}


/* The kinds of the calls of a body, a letter each; - for one not ready. */
static void
kinds_are(const char *text, const char *want)
{
    char   got[16] = "";
    size_t i;
    body_t body;

    body_read(&body, DIALECT, chat_cstr(text));
    assert_int_equal(body.rc, CHAT_OK);

    for (i = 0; i < body.rq.ncalls; i++) {
        got[i] = !body.rq.calls[i].ready ? '-' : "cap"[body.rq.calls[i].kind];
    }

    assert_string_equal(got, want);
    body_free(&body);
}


static void
s43_the_client_answers_calls_of_its_tools(void **state)
{
#define THREE      \
    USER "," ASKS( \
        CALL("a", "v") "," CALL("b", "w") "," CALL("c", "")) "," RESULT("b")

    kinds_are(BODY(THREE), "ccc");
    kinds_are(RUN("\"tools\":[],", THREE), "ccc");
    kinds_are(RUN("\"tools\":{\"name\":\"w\"},", THREE), "ccc");
    kinds_are(RUN("\"tools\":[{\"name\":\"w\"},{\"name\":\"vv\"}],", THREE),
              "pcp");
    kinds_are(RUN("\"tools\":[{},{\"name\":\"w\"},{\"name\":\"v\"}],", THREE),
              "ccc");
}


static void
s16_arguments_that_broke_off_make_no_member(void **state)
{
    kinds_are(
        BODY(USER "," ASKS(WITH("a", "w", "{\\\"n") "," WITH(
            "b", "w", "") "," WITH("c", "w", "\\\"x\\\"")) "," RESULT("c")),
        "-cc");
}


static void
s15_key_order_is_the_same_call(void **state)
{
    size_t i;
    body_t body;

    static const char *const bodies[] = {
        BODY(USER
             "," ASKS(WITH("a", "w", "{\\\"n\\\":1,\\\"m\\\":2}") "," WITH(
                 "b", "w", " {\\\"m\\\":2.0, \\\"n\\\":1}")) "," RESULT("a")),
    };

    for (i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        body_read(&body, DIALECT, chat_cstr(bodies[i]));
        assert_true(chat_hash_eq(chat_call_fingerprint(&body.rq.calls[0]),
                                 chat_call_fingerprint(&body.rq.calls[1])));
        body_free(&body);
    }
}


/* The digest of the only call's result. */
static chat_hash_t
digest_of(const char *text, chat_outcome_e outcome)
{
    body_t      body;
    chat_hash_t digest;

    body_read(&body, DIALECT, chat_cstr(text));
    assert_int_equal(body.rc, CHAT_OK);
    assert_int_equal(body.rq.calls[0].outcome, outcome);
    digest = *chat_call_digest(&body.rq.calls[0]);
    body_free(&body);
    return digest;
}


static void
a_result_is_its_content_and_error(void **state)
{
#define SAID(more)                                                          \
    BODY(USER "," ASKS(CALL("a", "w")) ",{\"role\":\"tool\",\"toolCallId\"" \
                                       ":\"a\"" more "}")
    chat_hash_t a, b, c, d;

    a = digest_of(SAID(",\"id\":\"1\",\"content\":\"x\""), CHAT_OUTCOME_OK);
    b = digest_of(SAID(",\"id\":\"2\",\"content\":\"\\u0078\""),
                  CHAT_OUTCOME_OK);
    c = digest_of(SAID(",\"content\":\"x\",\"error\":\"no\""),
                  CHAT_OUTCOME_ERROR);
    d = digest_of(SAID(",\"content\":\"x\",\"error\":\"\""), CHAT_OUTCOME_OK);

    assert_true(chat_hash_eq(&a, &b));
    assert_false(chat_hash_eq(&a, &c));
    assert_true(chat_hash_eq(&a, &d));
    (void) digest_of(SAID(""), CHAT_OUTCOME_OK);
}


/* The names of the step that a body answers, and of the next one. */
static void
names(const char *text, chat_key_t *step, chat_key_t *next)
{
    body_t       body;
    chat_scope_t scope;
    chat_step_t  to_come;

    memset(&scope, 0, sizeof(scope));
    scope.dialect = chat_cstr("ag_ui");
    scope.conversation = chat_cstr("t");

    body_read(&body, DIALECT, chat_cstr(text));
    assert_int_equal(body.rc, CHAT_OK);
    assert_true(chat_str_is(body.rq.conversation, "t"));
    assert_true(body.rq.stream);

    if (step != NULL) {
        assert_int_equal(
            chat_batch_key(&scope, &body.rq.steps[body.rq.nsteps - 1], step),
            CHAT_OK);
    }

    to_come = body.rq.next;
    to_come.first_id = chat_cstr("a");
    assert_int_equal(chat_batch_key(&scope, &to_come, next), CHAT_OK);
    body_free(&body);
}


static void
s14_a_step_is_named_as_the_body_before_will_have_it(void **state)
{
    chat_key_t first, second, third, next, after;

    /* weak ids, used again in each step of the turn */
    names(BODY(USER), NULL, &next);
    names(BODY(USER "," ASKS(CALL("a", "w")) "," ASKS(
              CALL("b", "w")) "," RESULT("a") "," RESULT("b")),
          &first, &after);
    assert_memory_equal(&first, &next, sizeof(first));

    /* earlier turns are no part of it */
    names(BODY(USER "," SAYS "," USER), NULL, &next);
    assert_memory_equal(&first, &next, sizeof(first));

    names(BODY(USER "," ASKS(CALL("a", "w")) "," RESULT("a") "," ASKS(
              CALL("a", "w")) "," RESULT("a")),
          &second, &next);
    assert_memory_equal(&second, &after, sizeof(second));
    assert_memory_not_equal(&second, &first, sizeof(first));

    /* a resume is named by its thread alone, later steps by position */
    names(RUN(RESUME(ENTRY("i")), USER "," ASKS(CALL("a", "w"))), &third,
          &next);
    assert_memory_equal(&next, &after, sizeof(next));
    assert_memory_not_equal(&third, &first, sizeof(third));
}


static void
the_modules_own_events(void **state)
{
    body_t        body;
    chat_buf_t    out = { 0 };
    chat_result_t results[3];

    body_read(&body, DIALECT,
              chat_cstr(BODY(USER "," ASKS(
                  CALL("a", "w") "," CALL("b", "w")) "," RESULT("x"))));
    memset(results, 0, sizeof(results));
    results[0].call = &body.rq.calls[0];
    results[0].id = chat_cstr("a");
    results[0].outcome = CHAT_OUTCOME_OK;
    results[0].payload =
        chat_cstr("{\"id\":\"t1\",\"role\":\"tool\",\n"
                  "\"toolCallId\":\"a\",\"content\":[\r\n1]}");
    results[1].call = &body.rq.calls[1];
    results[1].id = chat_cstr("b");
    results[1].outcome = CHAT_OUTCOME_ERROR;
    results[1].payload = chat_cstr("\"boom\"");
    results[2].id = chat_cstr("i");
    results[2].outcome = CHAT_OUTCOME_OK;
    results[2].payload = chat_cstr("1");

#define TOLD                                                             \
    "data: "                                                             \
    "{\"type\":\"TOOL_CALL_RESULT\",\"messageId\":\"t1\",\"toolCallId\"" \
    ":\"a\",\"content\":[  1],\"role\":\"tool\"}\n\n"                    \
    "data: {\"type\":\"TOOL_CALL_RESULT\",\"messageId\":\"result-b\","   \
    "\"toolCallId\":\"b\",\"content\":\"boom\",\"role\":\"tool\"}\n\n"
#define EVENT(type) \
    "data: {\"type\":\"" type "\",\"threadId\":\"t\",\"runId\":\"r\"}\n\n"

    DIALECT->bounce(&body.rq, results, 3, &out);
    text_equals(&out, EVENT("RUN_STARTED") TOLD EVENT("RUN_FINISHED"));
    out.len = 0;
    assert_int_equal(DIALECT->empty(&body.rq, NULL, 0, &out), CHAT_OK);
    text_equals(&out, EVENT("RUN_STARTED") EVENT("RUN_FINISHED"));

    chat_buf_free(&out);
    body_free(&body);
}


static void
errors_are_events_that_end_a_run(void **state)
{
    body_t              body;
    chat_str_t          ids[] = { CHAT_STR("a"), CHAT_STR("b\"") };
    chat_buf_t          out = { 0 };
    chat_refusal_t      refusal = { 409, "conflict", "No.", ids, 2, 0, 0 };
    chat_interruption_t in = { "eof", 1 };

    /* a normal end of the run would end the client's open interrupts */
    body_read(&body, DIALECT, chat_cstr(RUN(RESUME(ENTRY("i")), USER)));
    DIALECT->bounce(&body.rq, NULL, 0, &out);
    text_equals(&out,
                "data: {\"type\":\"RUN_ERROR\",\"message\":\"This answer "
                "is kept, but the run cannot be resumed yet.\","
                "\"code\":\"batch_incomplete\"}\n\n");

    out.len = 0;
    DIALECT->interrupted(NULL, &in, &out);
    text_equals(&out, "data: {\"type\":\"RUN_ERROR\",\"message\":\"The run was"
                      " interrupted before its end (eof); it can be resumed."
                      "\",\"code\":\"stream_interrupted\"}\n\n");
    out.len = 0;
    chat_dialect_refuse(DIALECT, &refusal, 1, &out);
    text_equals(&out, "data: {\"type\":\"RUN_ERROR\",\"message\":\"No. (a, "
                      "b\\\")\",\"code\":\"conflict\"}\n\n");
    out.len = 0;
    chat_dialect_refuse(DIALECT, &refusal, 0, &out);
    text_has_error(chat_buf_str(&out), "code", "conflict");

    chat_buf_free(&out);
    body_free(&body);
}


static void
a_step_of_too_many_calls_is_refused(void **state)
{
    int        i, n;
    const int  max = CHAT_CALLS_MAX;
    size_t     k;
    body_t     body;
    chat_buf_t text = { 0 };

    /* with any end */
    static const char *const behind[] = {
        "",
        ",{\"id\":\"u\",\"role\":\"user\",\"content\":\"hi\"}",
        ",{\"id\":\"t\",\"role\":\"tool\",\"toolCallId\":\"0\"}",
    };

    for (k = 0; k < sizeof(behind) / sizeof(behind[0]); k++) {
        for (n = max; n <= max + 1; n++) {
            text.len = 0;
            chat_buf_puts(&text, "{\"threadId\":\"t\",\"runId\":\"r\","
                                 "\"messages\":[{\"role\":\"assistant\","
                                 "\"toolCalls\":[");
            for (i = 0; i < n; i++) {
                chat_buf_printf(&text, "%s{\"id\":\"%d\"}", i ? "," : "", i);
            }
            chat_buf_puts(&text, "]}");
            chat_buf_puts(&text, behind[k]);
            chat_buf_puts(&text, "]}");

            body_read(&body, DIALECT, chat_buf_str(&text));
            assert_int_equal(body.rc, n == max ? CHAT_OK : CHAT_LIMIT);
            body_free(&body);
        }
    }

    chat_buf_free(&text);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(s41_s42_s60_s98_classes),
        cmocka_unit_test(s43_the_client_answers_calls_of_its_tools),
        cmocka_unit_test(s16_arguments_that_broke_off_make_no_member),
        cmocka_unit_test(s15_key_order_is_the_same_call),
        cmocka_unit_test(a_result_is_its_content_and_error),
        cmocka_unit_test(s14_a_step_is_named_as_the_body_before_will_have_it),
        cmocka_unit_test(the_modules_own_events),
        cmocka_unit_test(errors_are_events_that_end_a_run),
        cmocka_unit_test(a_step_of_too_many_calls_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
