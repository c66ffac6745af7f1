/*
 * test_stream.c: the replay filter on whole streams of the AI SDK, and the
 * quarantine. Each test has an input and its expected output; stream_run.h
 * runs it whole and in pieces.
 */

#include "stream_run.h"
#include "stream/chat_output.h"

#define START "data: {\"type\":\"start\",\"messageId\":\"m2\"}\n\n"
#define STEP "data: {\"type\":\"start-step\"}\n\n"
#define SEAL "data: {\"type\":\"finish-step\"}\n\n"
#define FINISH "data: {\"type\":\"finish\"}\n\ndata: [DONE]\n\n"
#define TEXT(s) \
    "data: {\"type\":\"text-delta\",\"id\":\"t\",\"delta\":\"" s "\"}\n\n"
#define INPUT_START(id) INPUT_START_OF(id, "find")
#define INPUT_START_OF(id, name)                                \
    "data: {\"type\":\"tool-input-start\",\"toolCallId\":\"" id \
    "\",\"toolName\":\"" name "\"}\n\n"
#define DELTA(id, text)                                         \
    "data: {\"type\":\"tool-input-delta\",\"toolCallId\":\"" id \
    "\",\"inputTextDelta\":\"" text "\"}\n\n"
#define AVAILABLE(id, input)                                        \
    "data: {\"type\":\"tool-input-available\",\"toolCallId\":\"" id \
    "\",\"toolName\":\"find\",\"input\":" input "}\n\n"
#define FAILED(id, input)                                       \
    "data: {\"type\":\"tool-input-error\",\"toolCallId\":\"" id \
    "\",\"toolName\":\"find\",\"input\":" input ",\"errorText\":\"no\"}\n\n"
#define OUTPUT(id, output)                                           \
    "data: {\"type\":\"tool-output-available\",\"toolCallId\":\"" id \
    "\",\"output\":" output "}\n\n"
#define PARTIAL(id, output)                                          \
    "data: {\"type\":\"tool-output-available\",\"toolCallId\":\"" id \
    "\",\"output\":" output ",\"preliminary\":true}\n\n"
#define ERROR(id)                                                \
    "data: {\"type\":\"tool-output-error\",\"toolCallId\":\"" id \
    "\",\"errorText\":\"no\"}\n\n"
#define DENIED(id) \
    "data: {\"type\":\"tool-output-denied\",\"toolCallId\":\"" id "\"}\n\n"
#define ASK(id)                                                         \
    "data: {\"type\":\"tool-approval-request\",\"approvalId\":\"ap1\"," \
    "\"toolCallId\":\"" id "\"}\n\n"
#define REPLAY(id, input) INPUT_START(id) DELTA(id, "{") AVAILABLE(id, input)

#define BODY(parts)                                                  \
    "{\"id\":\"talk\",\"trigger\":\"submit-message\",\"messages\":[" \
    "{\"id\":\"u1\",\"role\":\"user\",\"parts\":["                   \
    "{\"type\":\"text\",\"text\":\"hi\"}]},"                         \
    "{\"id\":\"m2\",\"role\":\"assistant\",\"parts\":["              \
    "{\"type\":\"step-start\"}," parts "]}]}"
#define PART(id, state, more)                                              \
    "{\"type\":\"tool-find\",\"toolCallId\":\"" id "\",\"state\":\"" state \
    "\",\"input\":{\"a\":1,\"b\":[2]}" more "}"
#define DONE(id) PART(id, "output-available", ",\"output\":{\"x\":1}")
#define OPEN(id) PART(id, "input-available", "")

#define ARGS "{\"a\":1,\"b\":[2]}"

static stream_t s;


static void
begin(const char *body)
{
    stream_begin(&s, "ai_sdk", body);
}


static void
s01_a_settled_call_is_replayed(void **state)
{
    begin(BODY(DONE("c1")));
    stream_expect(&s,
                  START STEP REPLAY("c1", ARGS) OUTPUT("c1", "{\"x\":1}")
                      TEXT("ok") SEAL FINISH,
                  START STEP OUTPUT("c1", "{\"x\":1}") TEXT("ok") SEAL FINISH);
    assert_int_equal(s.count.replays, 1);
    assert_int_equal(stream_facts(&s, "result/"), 0);
    assert_int_equal(stream_facts(&s, "call/"), 0);
    assert_int_equal(s.info.end, CHAT_END_FINISHED);
    stream_end(&s);
}


static void
s02_an_open_call_is_replayed_its_output_is_new(void **state)
{
    begin(BODY(OPEN("c1")));
    stream_expect(&s,
                  START STEP REPLAY("c1", ARGS) OUTPUT("c1", "7") SEAL FINISH,
                  START STEP OUTPUT("c1", "7") SEAL FINISH);
    assert_int_equal(stream_facts(&s, "result/c1=o "), 1);
    stream_end(&s);
}


static void
s03_a_fresh_call_beside_a_replay(void **state)
{
    begin(BODY(DONE("c1")));
    stream_expect(&s,
                  START STEP INPUT_START("c1") INPUT_START("c2")
                      DELTA("c1", "{") DELTA("c2", "{") AVAILABLE("c1", ARGS)
                          AVAILABLE("c2", "{}") SEAL FINISH,
                  START STEP INPUT_START("c2") DELTA("c2", "{")
                      AVAILABLE("c2", "{}") SEAL FINISH);
    assert_int_equal(stream_facts(&s, "call/"), 1);
    assert_int_equal(stream_facts(&s, "seal=1"), 1);
    stream_end(&s);
}


static void
s04_parallel_new_calls_are_untouched(void **state)
{
    const char *text = START STEP INPUT_START("c1") INPUT_START("c2")
        DELTA("c2", "{") DELTA("c1", "{") DELTA("c2", "}") DELTA("c1", "}")
            AVAILABLE("c2", "{}") AVAILABLE("c1", "{}") SEAL FINISH;

    begin(BODY(DONE("c0")));
    stream_expect(&s, text, text);
    assert_int_equal(s.count.opened, 2);
    assert_int_equal(s.info.calls, 2);
    stream_end(&s);
}


static void
s05_a_second_start_of_an_open_call(void **state)
{
    begin(NULL);
    stream_expect(&s,
                  START STEP INPUT_START("c1") DELTA("c1", "{")
                      INPUT_START("c1") DELTA("c1", "}") AVAILABLE("c1", "{}")
                          SEAL FINISH,
                  START STEP   INPUT_START("c1") DELTA("c1", "{")
                      DELTA("c1", "}") AVAILABLE("c1", "{}") SEAL FINISH);
    assert_int_equal(s.count.opened, 1);
    stream_end(&s);
}


static void
s06_input_without_a_start(void **state)
{
    const char *text = START STEP AVAILABLE("c9", "{}") SEAL FINISH;

    begin(BODY(DONE("c1")));
    stream_expect(&s, text, text);
    assert_int_equal(stream_facts(&s, "call/c9="), 1);
    stream_end(&s);
}


static void
s07_an_input_error_for_a_settled_call(void **state)
{
    begin(BODY(DONE("c1")));
    stream_expect(&s, START STEP FAILED("c1", "\"other\"") SEAL FINISH,
                  START STEP SEAL FINISH);
    stream_expect(&s,
                  START STEP INPUT_START("c1") DELTA("c1", "{")
                      FAILED("c1", ARGS) SEAL FINISH,
                  START STEP SEAL             FINISH);
    stream_end(&s);

    /* It is new for a call without an outcome. */
    begin(BODY(OPEN("c1")));
    stream_expect(&s, START STEP FAILED("c1", ARGS) SEAL FINISH,
                  START STEP FAILED("c1", ARGS) SEAL FINISH);
    stream_end(&s);
}


static void
s08_an_error_over_a_success(void **state)
{
    begin(BODY(DONE("c1")));
    stream_expect(&s, START STEP ERROR("c1") SEAL FINISH,
                  START STEP SEAL FINISH);
    assert_int_equal(s.count.results, 1);
    assert_int_equal(stream_facts(&s, "result/"), 0);
    stream_end(&s);
}


static void
s09_outputs_of_a_settled_call(void **state)
{
    begin(BODY(DONE("c1")));
    stream_expect(&s, START OUTPUT("c1", "{\"x\":1.0}") FINISH,
                  START OUTPUT("c1", "{\"x\":1.0}") FINISH);
    stream_expect(&s, START OUTPUT("c1", "2") FINISH,
                  START OUTPUT("c1", "2") FINISH);
    stream_expect(&s, START REPLAY("c1", ARGS) OUTPUT("c1", "2") FINISH,
                  START FINISH);
    assert_int_equal(s.count.results, 1);
    stream_end(&s);
}


static void
s10_only_the_final_output_settles(void **state)
{
    const char *text = START STEP INPUT_START("c1") AVAILABLE("c1", "{}")
        PARTIAL("c1", "1") PARTIAL("c1", "2") OUTPUT("c1", "3") SEAL FINISH;

    begin(NULL);
    stream_expect(&s, text, text);
    assert_int_equal(stream_facts(&s, "result/"), 1);
    assert_non_null(strstr(s.facts, " 3\n"));
    assert_int_equal(s.info.settled, 1);
    stream_end(&s);
}


static void
s11_denials(void **state)
{
    begin(BODY(PART("c1", "approval-responded",
                    ",\"approval\":{\"id\":\"ap1\",\"approved\":true}")));
    stream_expect(&s, START DENIED("c1") FINISH, START FINISH);
    assert_int_equal(stream_facts(&s, "result/"), 0);
    stream_end(&s);

    begin(BODY(DONE("c1")));
    stream_expect(&s, START DENIED("c1") FINISH, START FINISH);
    stream_end(&s);

    begin(BODY(PART("c1", "approval-responded",
                    ",\"approval\":{\"id\":\"ap1\",\"approved\":false}")));
    stream_expect(&s, START DENIED("c1") FINISH, START DENIED("c1") FINISH);
    stream_end(&s);

    begin(BODY(OPEN("c1")));
    stream_expect(&s, START DENIED("c1") FINISH, START DENIED("c1") FINISH);
    assert_int_equal(stream_facts(&s, "result/c1=d "), 1);
    stream_end(&s);
}


static void
s12_approval_requests(void **state)
{
    begin(BODY(PART("c1", "approval-responded",
                    ",\"approval\":{\"id\":\"ap1\",\"approved\":true}")));
    stream_expect(&s, START ASK("c1") FINISH, START FINISH);
    stream_end(&s);

    begin(NULL);
    stream_expect(&s, START STEP AVAILABLE("c1", "{}") ASK("c1") SEAL FINISH,
                  START STEP AVAILABLE("c1", "{}") ASK("c1") SEAL FINISH);
    stream_end(&s);
}


static void
s13_a_dynamic_tool(void **state)
{
    begin(BODY("{\"type\":\"dynamic-tool\",\"toolName\":\"find\","
               "\"toolCallId\":\"c1\",\"state\":\"output-available\","
               "\"input\":" ARGS ",\"output\":1}"));
    stream_expect(&s, START STEP REPLAY("c1", ARGS) SEAL FINISH,
                  START STEP SEAL FINISH);
    stream_end(&s);
}


static void
s14_an_id_is_used_again(void **state)
{
    const char *text = START STEP REPLAY("search:0", "{\"q\":1}") SEAL FINISH;

    begin(BODY(DONE("search:0")));
    stream_expect(&s, text, text);
    assert_int_equal(s.count.reused, 1);
    assert_int_equal(s.count.replays, 0);

    text = START STEP INPUT_START_OF("search:0", "else") TEXT("not held")
        SEAL          FINISH;
    stream_all(&s, text, strlen(text));
    assert_int_equal(s.count.reused, 1);
    stream_end(&s);
}


static void
s15_key_order_is_the_same_call(void **state)
{
    begin(BODY(DONE("c1")));
    stream_expect(
        &s, START STEP REPLAY("c1", "{\"b\":[2.0],\"a\":1e0}") SEAL FINISH,
        START STEP SEAL FINISH);
    stream_end(&s);
}


static void
s16_a_call_that_was_never_ready(void **state)
{
    const char *text = START STEP REPLAY("c1", ARGS) SEAL FINISH;

    begin(BODY("{\"type\":\"tool-find\",\"toolCallId\":\"c1\","
               "\"state\":\"input-streaming\",\"input\":{}}"));
    stream_expect(&s, text, text);
    assert_int_equal(s.count.replays, 0);
    stream_end(&s);
}


static void
s21_crlf_and_utf8_at_every_cut(void **state)
{
    const char *text = "data: {\"type\":\"start\"}\r\n\r\n: c\r\n\r\n"
                       "data: {\"type\":\"text-delta\",\"id\":\"t\","
                       "\"delta\":\"\xe2\x82\xac\xf0\x9f\x98\x80\"}\r\r"
                       "id: 1\r\ndata: {\"type\":\ndata: \"finish\"}\r\n\r\n";

    begin(NULL);
    stream_expect(&s, text, text);
    assert_int_equal(s.info.end, CHAT_END_FINISHED);
    stream_end(&s);
}


static void
s22_a_full_quarantine_is_flushed_in_order(void **state)
{
    const char *text = START STEP INPUT_START("c1") TEXT("one") TEXT("two")
        TEXT("three") TEXT("four") AVAILABLE("c1", ARGS) SEAL FINISH;

    begin(BODY(DONE("c1")));
    s.conf.max_event = 400;
    stream_expect(&s, text, text);
    assert_int_equal(s.info.overflows, 1);
    assert_int_equal(s.count.replays, 0);
    stream_end(&s);
}


static void
s22_a_frame_past_the_limit_ends_a_quarantine(void **state)
{
    char        big[1200];
    chat_buf_t  text = { 0 };
    const char *head = START STEP INPUT_START("c1");

    memset(big, 'x', sizeof(big));
    memcpy(big, "data: ", 6);
    memcpy(big + sizeof(big) - 2, "\n\n", 2);

    begin(BODY(DONE("c1")));
    s.conf.max_event = 1000;
    chat_buf_puts(&text, head);
    chat_buf_add(&text, chat_str(big, sizeof(big)));
    chat_buf_puts(&text, AVAILABLE("c1", ARGS) SEAL FINISH);
    stream_all(&s, (char *) text.data, text.len);
    assert_int_equal(s.info.oversized, 1);
    assert_int_equal(s.info.overflows, 1);
    assert_int_equal(strlen(s.out), text.len);
    assert_memory_equal(s.out, text.data, text.len);
    chat_buf_free(&text);
    stream_end(&s);
}


static void
s24_text_around_a_replay(void **state)
{
#define EDGE(what) "data: {\"type\":\"text-" what "\",\"id\":\"t\"}\n\n"
    begin(BODY(DONE("c1")));
    stream_expect(&s,
                  START STEP EDGE("start") TEXT("a") EDGE("end")
                      REPLAY("c1", ARGS) EDGE("start") TEXT("b") EDGE("end")
                          SEAL FINISH,
                  START STEP EDGE("start") TEXT("a") EDGE("end") EDGE("start")
                      TEXT("b") EDGE("end") SEAL FINISH);
    stream_end(&s);
}


static void
a_call_in_quarantine_when_the_stream_ends(void **state)
{
    begin(BODY(DONE("c1")));
    stream_expect(&s, START STEP INPUT_START("c1") TEXT("a") SEAL FINISH,
                  START STEP TEXT("a") SEAL FINISH);
    assert_int_equal(s.info.end, CHAT_END_FINISHED);

    /* A disconnected client gets no more events. */
    s.aborted = 1;
    stream_expect(&s, START STEP INPUT_START("c1") TEXT("a"), START STEP);
    assert_int_equal(s.info.end, CHAT_END_ABORTED);
    stream_end(&s);
}


static void
a_call_of_this_stream_is_replayed_in_it(void **state)
{
    begin(NULL);
    stream_expect(&s,
                  START STEP REPLAY("c1", ARGS) SEAL STEP REPLAY("c1", ARGS)
                      SEAL                                FINISH,
                  START STEP REPLAY("c1", ARGS) SEAL STEP SEAL FINISH);
    assert_int_equal(s.count.replays, 1);
    stream_end(&s);
}


static void
replay_off_and_dry_run_touch_nothing(void **state)
{
    const char *text = START STEP                REPLAY("c1", ARGS) ERROR("c1")
        INPUT_START("c2") INPUT_START("c2") SEAL FINISH;

    begin(BODY(DONE("c1")));
    s.conf.replay = 0;
    stream_expect(&s, text, text);
    assert_int_equal(s.count.replays, 0);

    s.conf.replay = 1;
    s.conf.observe = 1;
    stream_expect(&s, text, text);
    assert_int_equal(s.count.replays, 2);
    assert_int_equal(s.count.results, 1);

    text = START STEP INPUT_START("c1") TEXT("a") "data: half";
    stream_expect(&s, text, text);
    assert_int_equal(s.info.end, CHAT_END_INTERRUPTED);
    stream_end(&s);
}


#define RUNS 20000

/* A stream may be open for hours after an input of many small frames. */
static void
the_memory_of_many_runs_is_returned(void **state)
{
    size_t              i, n;
    chat_output_t       output = { 0 };
    const chat_piece_t *pieces;
    const chat_str_t    text = chat_cstr("a");

    chat_output_begin(&output);

    for (i = 0; i < RUNS; i++) {
        chat_output_add(&output, text, 1);
        chat_output_add(&output, chat_cstr("b"), 0);
    }

    assert_int_equal(chat_output_end(&output, &pieces, &n), CHAT_OK);
    assert_int_equal(n, 2 * RUNS);
    assert_true(output.pieces.size >= 2 * RUNS * sizeof(*pieces));

    chat_output_begin(&output);
    assert_int_equal(output.pieces.size, 0);
    assert_int_equal(output.bytes, 2 * RUNS);

    chat_output_add(&output, text, 1);
    assert_int_equal(chat_output_end(&output, &pieces, &n), CHAT_OK);
    assert_int_equal(n, 1);
    chat_output_free(&output);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(s01_a_settled_call_is_replayed),
        cmocka_unit_test(s02_an_open_call_is_replayed_its_output_is_new),
        cmocka_unit_test(s03_a_fresh_call_beside_a_replay),
        cmocka_unit_test(s04_parallel_new_calls_are_untouched),
        cmocka_unit_test(s05_a_second_start_of_an_open_call),
        cmocka_unit_test(s06_input_without_a_start),
        cmocka_unit_test(s07_an_input_error_for_a_settled_call),
        cmocka_unit_test(s08_an_error_over_a_success),
        cmocka_unit_test(s09_outputs_of_a_settled_call),
        cmocka_unit_test(s10_only_the_final_output_settles),
        cmocka_unit_test(s11_denials),
        cmocka_unit_test(s12_approval_requests),
        cmocka_unit_test(s13_a_dynamic_tool),
        cmocka_unit_test(s14_an_id_is_used_again),
        cmocka_unit_test(s15_key_order_is_the_same_call),
        cmocka_unit_test(s16_a_call_that_was_never_ready),
        cmocka_unit_test(s21_crlf_and_utf8_at_every_cut),
        cmocka_unit_test(s22_a_full_quarantine_is_flushed_in_order),
        cmocka_unit_test(s22_a_frame_past_the_limit_ends_a_quarantine),
        cmocka_unit_test(s24_text_around_a_replay),
        cmocka_unit_test(a_call_in_quarantine_when_the_stream_ends),
        cmocka_unit_test(a_call_of_this_stream_is_replayed_in_it),
        cmocka_unit_test(replay_off_and_dry_run_touch_nothing),
        cmocka_unit_test(the_memory_of_many_runs_is_returned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
