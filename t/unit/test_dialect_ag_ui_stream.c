/*
 * test_dialect_ag_ui_stream.c: AG-UI runs through the replay filter, and their
 * facts.
 *
 * t/cases/ag_ui has the reading of each frame.
 */

#include "dialect_run.h"
#include "stream_run.h"

#include "facts/chat_batch.h"
#include "../buf_printf.h"

#define BODY(more, messages)                                                 \
    "{\"threadId\":\"talk\",\"runId\":\"r\"," more "\"messages\":[" messages \
    "]}"
#define USER "{\"id\":\"u\",\"role\":\"user\",\"content\":\"hi\"}"
#define ASKS(id)                                                           \
    "{\"id\":\"m\",\"role\":\"assistant\",\"toolCalls\":[{\"id\":\"" id    \
    "\",\"type\":\"function\",\"function\":{\"name\":\"w\",\"arguments\":" \
    "\"{\\\"q\\\":1}\"}}]}"
#define BRINGS(id)                                               \
    "{\"id\":\"t" id "\",\"role\":\"tool\",\"toolCallId\":\"" id \
    "\",\"content\":\"x\"}"

#define EVENT(type, more) "data: {\"type\":\"" type "\"" more "}\n\n"
#define STARTED EVENT("RUN_STARTED", ",\"threadId\":\"talk\",\"runId\":\"r1\"")
#define FINISHED(more) \
    EVENT("RUN_FINISHED", ",\"threadId\":\"talk\",\"runId\":\"r1\"" more)
#define START(id, more)      \
    EVENT("TOOL_CALL_START", \
          ",\"toolCallId\":\"" id "\",\"toolCallName\":\"w\"" more)
#define ARGS(id, text)      \
    EVENT("TOOL_CALL_ARGS", \
          ",\"toolCallId\":\"" id "\",\"delta\":\"" text "\"")
#define END(id) EVENT("TOOL_CALL_END", ",\"toolCallId\":\"" id "\"")
#define CALL(id) START(id, "") ARGS(id, "{\\\"q\\\"") ARGS(id, ":1.0}") END(id)
#define RESULT(id, text)                                                   \
    EVENT("TOOL_CALL_RESULT", ",\"messageId\":\"t" id "\",\"toolCallId\":" \
                              "\"" id "\",\"content\":\"" text "\"")
#define CHUNK(more) EVENT("TOOL_CALL_CHUNK", more)
#define SAYS \
    EVENT("TEXT_MESSAGE_CHUNK", ",\"messageId\":\"m2\",\"delta\":\"x\"")
#define INTERRUPTS(list) \
    ",\"outcome\":{\"type\":\"interrupt\",\"interrupts\":[" list "]}"
#define SNAPSHOT(messages) \
    EVENT("MESSAGES_SNAPSHOT", ",\"messages\":[" messages "]")

#define KNOWN BODY("", USER "," ASKS("c1") "," BRINGS("c1"))

static stream_t s;


/* The name in hex of the step that this body answers. */
static void
name_of(const char *body, char *hex)
{
    stream_t   next;
    chat_key_t key;

    stream_begin(&next, "ag_ui", body);
    assert_true(next.rq.nsteps > 0);
    assert_int_equal(chat_batch_key(&next.conf.scope,
                                    &next.rq.steps[next.rq.nsteps - 1], &key),
                     CHAT_OK);
    chat_hex(key.name.bytes, 4, hex);
    stream_end(&next);
}


/* 1 if the fact is among those under this name. */
static int
has(const char *hex, const char *fact)
{
    char line[256];

    snprintf(line, sizeof(line), "%s %s", hex, fact);
    return strstr(s.facts, line) != NULL;
}


static void
s1_s2_a_replayed_call_goes(void **state)
{
    const char *const known[] = {
        KNOWN, BODY("", USER "," ASKS("c1") "," USER "," ASKS("c1"))
    };
    size_t i;

    for (i = 0; i < 2; i++) {
        stream_begin(&s, "ag_ui", known[i]);
        stream_expect(
            &s, STARTED CALL("c1") RESULT("c1", "x") CALL("c2") FINISHED(""),
            STARTED RESULT("c1", "x") CALL("c2") FINISHED(""));
        assert_int_equal(s.count.replays, 1);
        stream_end(&s);
    }

    /* in chunks, ended by the next event */
    stream_begin(&s, "ag_ui", KNOWN);
    stream_expect(
        &s,
        STARTED CHUNK(",\"toolCallId\":\"c1\",\"toolCallName\":\"w\"")
            CHUNK(",\"delta\":\"{\\\"q\\\":\"") CHUNK(",\"delta\":\"1}\"")
                SAYS CHUNK(",\"toolCallId\":\"c1\",\"toolCallName\":\"w\","
                           "\"delta\":\"{\\\"q\\\":1}\"")
                    CHUNK(",\"toolCallId\":\"c2\",\"toolCallName\":\"w\"")
                        FINISHED(""),
        STARTED SAYS CHUNK(",\"toolCallId\":\"c2\",\"toolCallName\":\"w\"")
            FINISHED(""));
    assert_int_equal(s.count.replays, 2);
    stream_end(&s);
}


static void
s9_a_result_is_repeated(void **state)
{
    static const char *const rows[][2] = {
        { RESULT("c1", "x"), RESULT("c1", "x") },
        { RESULT("c1", "y"), RESULT("c1", "y") },
        { CALL("c1") RESULT("c1", "x"), RESULT("c1", "x") },
        { CALL("c1") RESULT("c1", "y") SAYS, SAYS },
        { CALL("c1") CALL("c2") RESULT("c2", "y"),
          CALL("c2") RESULT("c2", "y") },
    };
    size_t     i;
    chat_buf_t in = { 0 }, out = { 0 };

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        in.len = out.len = 0;
        chat_buf_printf(&in, "%s%s%s", STARTED, rows[i][0], FINISHED(""));
        chat_buf_printf(&out, "%s%s%s", STARTED, rows[i][1], FINISHED(""));
        chat_buf_add(&in, chat_str("", 1));
        chat_buf_add(&out, chat_str("", 1));

        stream_begin(&s, "ag_ui", KNOWN);
        stream_expect(&s, (char *) in.data, (char *) out.data);
        stream_end(&s);
    }

    chat_buf_free(&in);
    chat_buf_free(&out);
}


static void
s5_s14_what_is_no_replay_stays(void **state)
{
    stream_begin(&s, "ag_ui", KNOWN);
    stream_expect(
        &s, STARTED START("c1", "") ARGS("c1", "{}") END("c1") FINISHED(""),
        STARTED START("c1", "") ARGS("c1", "{}") END("c1") FINISHED(""));
    assert_int_equal(s.count.replays, 0);
    assert_int_equal(s.count.reused, 1);

    /* a second opening of an open call */
    stream_expect(
        &s, STARTED START("c3", "") START("c3", "") END("c3") FINISHED(""),
        STARTED START("c3", "") END("c3") FINISHED(""));
    stream_end(&s);
}


static void
a_snapshot_is_never_a_replay(void **state)
{
    char first[9], next[9];

#define TALK USER "," ASKS("c1") "," BRINGS("c1") "," ASKS("c2")
    stream_begin(&s, "ag_ui", KNOWN);
    stream_expect(&s, STARTED CALL("c1") SNAPSHOT(TALK) FINISHED(""),
                  STARTED SNAPSHOT(TALK) FINISHED(""));
    name_of(KNOWN, first);
    name_of(BODY("", TALK "," BRINGS("c2")), next);
    assert_true(has(next, "call/c2=0 c "));
    assert_true(has(next, "seal=1\n"));
    assert_false(has(first, "call/"));
    stream_end(&s);
}


static void
s46_steps_are_named_as_bodies_name_them(void **state)
{
    char one[9], two[9];

    stream_begin(&s, "ag_ui", BODY("", USER));
    stream_expect(
        &s,
        STARTED START("c1", "") END("c1") RESULT("c1", "x") START("c2", "")
            END("c2") START("c3", "") END("c3") FINISHED(""),
        STARTED START("c1", "") END("c1") RESULT("c1", "x") START("c2", "")
            END("c2") START("c3", "") END("c3") FINISHED(""));

    name_of(BODY("", USER "," ASKS("c1") "," BRINGS("c1")), one);
    name_of(BODY("", USER "," ASKS("c1") "," BRINGS("c1") "," ASKS(
                         "c2") "," ASKS("c3") "," BRINGS("c3")),
            two);
    assert_true(has(one, "call/c1=0 c "));
    assert_true(has(one, "result/c1=o "));
    assert_true(has(one, "seal=1\n"));
    assert_true(has(two, "call/c2=0 c "));
    assert_true(has(two, "call/c3=1 c "));
    assert_true(has(two, "seal=2\n"));
    assert_int_equal(stream_facts(&s, "broken="), 0);
    stream_end(&s);
}


static void
s40_interrupts_are_a_batch_of_their_run(void **state)
{
    char        call[9], run[9];
    chat_key_t  key;
    chat_step_t step = { 0 };
    const char *run_of = STARTED CALL("c1") FINISHED(INTERRUPTS(
        "{\"id\":\"i1\",\"reason\":\"ask\"},{\"id\":\"i2\",\"reason\":"
        "\"tool_call\",\"toolCallId\":\"c1\"}"));

    stream_begin(&s, "ag_ui", BODY("", USER));
    step.chain = chat_cstr("r1");
    assert_int_equal(chat_batch_key(&s.conf.scope, &step, &key), CHAT_OK);
    chat_hex(key.name.bytes, 4, run);
    name_of(KNOWN, call);

    stream_expect(&s, run_of, run_of);
    assert_true(has(run, "call/i1=0 c "));
    assert_true(has(run, "call/i2=1 a "));
    assert_true(has(run, "seal=2\n"));
    assert_false(has(run, "call/c1="));
    assert_true(has(call, "call/c1=0 c "));
    assert_true(has(call, "seal=1\n"));
    assert_false(has(call, "call/i1="));
    assert_int_equal(stream_facts(&s, "batch/"), 2);
    stream_end(&s);

    /* asked again by a later run: never a replay */
    stream_begin(&s, "ag_ui",
                 BODY("\"resume\":[{\"interruptId\":\"i1\",\"status\":"
                      "\"resolved\"}],",
                      USER));
    stream_expect(&s, run_of, run_of);
    assert_true(has(run, "call/i1=0 c "));
    stream_end(&s);
}


static void
s71_s73_only_a_run_that_ended_well_is_sealed(void **state)
{
    stream_begin(&s, "ag_ui", BODY("", USER));
    stream_expect(&s, STARTED CALL("c1"),
                  STARTED CALL("c1") EVENT(
                      "RUN_ERROR",
                      ",\"message\":\"The run was interrupted before its end "
                      "(eof).\",\"code\":\"stream_interrupted\""));
    assert_int_equal(s.info.end, CHAT_END_INTERRUPTED);
    assert_int_equal(stream_facts(&s, "seal="), 0);
    assert_int_equal(stream_facts(&s, "broken="), 1);

    stream_expect(&s, STARTED CALL("c1") EVENT("RUN_ERROR", ""),
                  STARTED CALL("c1") EVENT("RUN_ERROR", ""));
    assert_int_equal(s.info.end, CHAT_END_FAILED);
    assert_int_equal(stream_facts(&s, "seal="), 0);

#define CANCELLED FINISHED(",\"outcome\":{\"type\":\"cancelled\"}")
    stream_expect(&s, STARTED CALL("c1") CANCELLED,
                  STARTED CALL("c1") CANCELLED);
    assert_int_equal(s.info.end, CHAT_END_ABORTED);
    assert_int_equal(stream_facts(&s, "seal="), 0);
    stream_end(&s);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(s1_s2_a_replayed_call_goes),
        cmocka_unit_test(s9_a_result_is_repeated),
        cmocka_unit_test(s5_s14_what_is_no_replay_stays),
        cmocka_unit_test(a_snapshot_is_never_a_replay),
        cmocka_unit_test(s46_steps_are_named_as_bodies_name_them),
        cmocka_unit_test(s40_interrupts_are_a_batch_of_their_run),
        cmocka_unit_test(s71_s73_only_a_run_that_ended_well_is_sealed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
