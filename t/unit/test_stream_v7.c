/*
 * test_stream_v7.c: events that only version 7 of the AI SDK has. reset-step
 * makes the client forget the contents of the step, so repeated calls are new,
 * and no request waits for forgotten ones. tool-approval-response has a
 * decision under the approval id; on a call with a result it would hide the
 * result.
 */

#include "stream_run.h"

#define START "data: {\"type\":\"start\",\"messageId\":\"m2\"}\n\n"
#define STEP "data: {\"type\":\"start-step\"}\n\n"
#define RESET "data: {\"type\":\"reset-step\"}\n\n"
#define SEAL "data: {\"type\":\"finish-step\"}\n\n"
#define FINISH "data: {\"type\":\"finish\"}\n\n"
#define BEGIN(id)                                               \
    "data: {\"type\":\"tool-input-start\",\"toolCallId\":\"" id \
    "\",\"toolName\":\"find\"}\n\n"
#define READY(id)                                                   \
    "data: {\"type\":\"tool-input-available\",\"toolCallId\":\"" id \
    "\",\"toolName\":\"find\",\"input\":{}}\n\n"
#define OUTPUT(id, value)                                            \
    "data: {\"type\":\"tool-output-available\",\"toolCallId\":\"" id \
    "\",\"output\":" value "}\n\n"
#define CALL(id) BEGIN(id) READY(id)
#define BODY                                                               \
    "{\"id\":\"talk\",\"messages\":[{\"id\":\"u1\",\"role\":\"user\","     \
    "\"parts\":[]},{\"id\":\"m2\",\"role\":\"assistant\",\"parts\":["      \
    "{\"type\":\"step-start\"}," DONE("old") ",{\"type\":\"step-start\"}," \
                                             "" DONE("c1") "]}]}"
#define DONE(id)                                                   \
    "{\"type\":\"tool-find\",\"toolCallId\":\"" id "\",\"state\":" \
    "\"output-available\",\"input\":{},\"output\":1}"

#define ASK(question, id)                                                  \
    "data: {\"type\":\"tool-approval-request\",\"approvalId\":\"" question \
    "\",\"toolCallId\":\"" id "\"}\n\n"
#define DECIDE(question)                                                    \
    "data: {\"type\":\"tool-approval-response\",\"approvalId\":\"" question \
    "\",\"approved\":true}\n\n"

static stream_t s;


/* The same call again is no replay: it must reach the client. */
static void
a_call_of_a_step_that_was_reset_comes_again(void **state)
{
    const char *text = START STEP CALL("c2") RESET CALL("c2") SEAL FINISH;

    stream_begin(&s, "ai_sdk", NULL);
    stream_expect(&s, text, text);
    assert_int_equal(s.count.replays, 0);
    assert_int_equal(s.info.calls, 1);
    stream_end(&s);

    /* half open as it was */
    text = START STEP BEGIN("c2") RESET CALL("c2") SEAL FINISH;
    stream_begin(&s, "ai_sdk", NULL);
    stream_expect(&s, text, text);
    assert_int_equal(s.count.replays, 0);
    stream_end(&s);

    /* its output belongs to the second call only */
    text = START STEP CALL("c2") OUTPUT("c2", "1") RESET CALL("c2")
        OUTPUT("c2", "2") SEAL                           FINISH;
    stream_begin(&s, "ai_sdk", NULL);
    stream_expect(&s, text, text);
    stream_end(&s);
}


static void
what_an_earlier_step_has_is_still_known(void **state)
{
    stream_begin(&s, "ai_sdk", BODY);
    stream_expect(&s,
                  START STEP CALL("c1") CALL("c2") RESET CALL("old") CALL("c1")
                      CALL("c2") SEAL                    FINISH,
                  START STEP CALL("c2") RESET CALL("c2") SEAL FINISH);
    assert_int_equal(s.count.replays, 3);
    stream_end(&s);

    /* without a step of its own the stream takes back the client's last */
    stream_begin(&s, "ai_sdk", BODY);
    stream_expect(&s, START RESET CALL("old") CALL("c1") SEAL FINISH,
                  START RESET CALL("c1") SEAL FINISH);
    assert_int_equal(s.count.replays, 1);
    stream_end(&s);
}


/* Bytes in quarantine belong to the step that was reset. */
static void
a_replay_that_the_reset_cuts_short_goes(void **state)
{
    stream_begin(&s, "ai_sdk", BODY);
    s.conf.max_event = 256; /* no frame waits after it */
    stream_expect(
        &s, START STEP BEGIN("c1") RESET CALL("c2") CALL("c3") SEAL FINISH,
        START STEP RESET CALL("c2") CALL("c3") SEAL FINISH);
    assert_int_equal(s.count.replays, 1);
    assert_int_equal(s.info.overflows, 0);
    stream_end(&s);
}


static void
the_batch_is_of_what_came_after(void **state)
{
    stream_begin(&s, "ai_sdk", NULL);
    stream_expect(&s,
                  START STEP CALL("a") RESET CALL("b") CALL("c") SEAL FINISH,
                  START STEP CALL("a") RESET CALL("b") CALL("c") SEAL FINISH);
    assert_int_equal(s.info.calls, 2);
    assert_int_equal(stream_facts(&s, "broken="), 1);
    assert_int_equal(stream_facts(&s, "call/b=0 "), 1);
    assert_int_equal(stream_facts(&s, "call/c=1 "), 1);
    assert_int_equal(stream_facts(&s, "seal=2\n"), 1);
    assert_int_equal(stream_facts(&s, "seal="), 1);
    stream_end(&s);
}


/* A part that the client has forgotten gets no error. */
static void
s71_a_call_that_was_reset_is_not_half_open(void **state)
{
    stream_begin(&s, "ai_sdk", NULL);
    s.reason = "reset";
    stream_all(&s, START STEP BEGIN("a") RESET BEGIN("b"),
               strlen(START STEP BEGIN("a") RESET BEGIN("b")));
    assert_null(strstr(s.out, "\"tool-input-error\",\"toolCallId\":\"a\""));
    assert_non_null(
        strstr(s.out, "\"tool-input-error\",\"toolCallId\":\"b\""));
    stream_end(&s);
}


static void
s12_a_decision_on_a_settled_call_is_dropped(void **state)
{
    stream_begin(&s, "ai_sdk", BODY);
    stream_expect(&s,
                  START STEP CALL("c1") ASK("q1", "c1") DECIDE("q1") CALL("c2")
                      ASK("q2", "c2") DECIDE("q2") DECIDE("q3") SEAL FINISH,
                  START STEP            CALL("c2") ASK("q2", "c2") DECIDE("q2")
                      DECIDE("q3") SEAL FINISH);
    assert_int_equal(s.count.results, 2);
    stream_end(&s);

    /* and one on a call with a result in this stream */
    stream_begin(&s, "ai_sdk", NULL);
    stream_expect(&s,
                  START STEP CALL("a") ASK("q", "a") DECIDE("q")
                      OUTPUT("a", "1") DECIDE("q") SEAL FINISH,
                  START STEP                CALL("a") ASK("q", "a") DECIDE("q")
                      OUTPUT("a", "1") SEAL FINISH);
    stream_end(&s);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_of_a_step_that_was_reset_comes_again),
        cmocka_unit_test(what_an_earlier_step_has_is_still_known),
        cmocka_unit_test(a_replay_that_the_reset_cuts_short_goes),
        cmocka_unit_test(the_batch_is_of_what_came_after),
        cmocka_unit_test(s71_a_call_that_was_reset_is_not_half_open),
        cmocka_unit_test(s12_a_decision_on_a_settled_call_is_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
