/*
 * test_dialect_anthropic_stream.c: streams of Anthropic Messages, dropping
 * calls from them, and the module's own answers.
 *
 * Recordings of real providers are read, too, if available.
 */

#include "dialect_run.h"

#define DIALECT (&chat_dialect_anthropic)

/* Frames; that of a block is given its index. */
#define FRAME(type, rest) \
    "event: " type "\ndata: {\"type\":\"" type "\"" rest "}\n\n"
#define MESSAGE FRAME("message_start", ",\"message\":{\"id\":\"t\"}")
#define START(index, block)      \
    FRAME("content_block_start", \
          ",\"index\":" index ",\"content_block\":{\"type\":" block "}")
#define DELTA(index, delta)      \
    FRAME("content_block_delta", \
          ",\"index\":" index ",\"delta\":{\"type\":" delta "}")
#define STOP(index) FRAME("content_block_stop", ",\"index\":" index)
#define TOOL(id) "\"tool_use\",\"id\":\"" id "\",\"name\":\"w\",\"input\":{}"
#define JSON(text) "\"input_json_delta\",\"partial_json\":\"" text "\""
#define WORDS "\"text_delta\",\"text\":\"a\""
#define CALL(index, id) \
    START(index, TOOL(id)) DELTA(index, JSON("{}")) STOP(index)
#define PROSE(index) \
    START(index, "\"text\",\"text\":\"\"") DELTA(index, WORDS) STOP(index)
#define REASON(reason) \
    FRAME("message_delta", ",\"delta\":{\"stop_reason\":\"" reason "\"}")
#define END FRAME("message_stop", "")

static const stream_case_t streams[] = {
    { MESSAGE FRAME("ping", "") PROSE("0") REASON("end_turn") END,
      "T x x x x S E:finished " },
    { FRAME("ping", "") MESSAGE END, "x T E:finished " },
    { MESSAGE PROSE("0") CALL("1", "a") CALL("2", "b") REASON("tool_use") END,
      "T x x x o1:a a1 r1:a o2:b a2 r2:b S E:finished " },
    /* no arguments */
    { MESSAGE START("0", TOOL("a")) STOP("0") REASON("tool_use") END,
      "T o0:a r0:a S E:finished " },
    /* truncated, then never stopped */
    { MESSAGE CALL("0", "a") REASON("max_tokens") END,
      "T o0:a a0 r0:a x E:finished " },
    { MESSAGE START("0", TOOL("a")) REASON("model_context_window_exceeded"),
      "T o0:a x " },
    { MESSAGE REASON("pause_turn") END, "T S E:finished " },
    { MESSAGE FRAME("message_delta", ",\"delta\":{\"stop_reason\":null}"),
      "T x " },
    /* s43: the server's calls */
    { MESSAGE START("0", "\"server_tool_use\",\"id\":\"s\"") STOP("0")
          START("1", "\"mcp_tool_use\",\"id\":\"m\"") STOP("1")
              START("2", "\"mcp_tool_result\",\"tool_use_id\":\"m\"") STOP("2")
                  REASON("end_turn") END,
      "T o0p:s r0p:s o1p:m r1p:m x x S E:finished " },
    /* s73: errors */
    { MESSAGE FRAME("error", ",\"error\":{\"type\":\"overloaded_error\"}"),
      "T E:failed " },
    { FRAME("error", ",\"error\":{}") END, "E:failed x " },
    /* the data names the type */
    { "event: ping\ndata: {\"type\":\"message_start\"}\n\n"
      "data: {\"type\":\"message_stop\"}\n\n",
      "T E:finished " },
    /* a second message in one stream has calls of its own */
    { MESSAGE START("0", TOOL("a")) MESSAGE CALL("0", "b") REASON("tool_use")
          END,
      "T o0:a T o65536:b a65536 r65536:b S E:finished " },
    /* odd things */
    { ": hi\n\n" MESSAGE "data: nothing\n\ndata: []\n\ndata: {}\n\n" FRAME(
          "new_thing", "") FRAME("content_block_start", "")
          FRAME("content_block_stop", ",\"index\":-1")
              FRAME("content_block_delta", ",\"index\":70000")
                  DELTA("5", JSON("x")) STOP("5") START("6", "\"tool_use\"")
                      DELTA("6", WORDS) START("6", TOOL("a"))
                          DELTA("6", "\"input_json_delta\"") STOP("6"),
      "T x x x x x x x x x o6: x x a6 r6: " },
};


static void
s43_s72_s73_events_of_streams(void **state)
{
    run_expect_all(DIALECT, streams, sizeof(streams) / sizeof(streams[0]));
}


static void
arguments_of(const chat_event_t *event, chat_buf_t *args)
{
    if (event->type != CHAT_EVENT_CALL_READY || args->len == 0) {
        chat_buf_add(args, event->text);
    }
}


/* The arguments of the only call of the stream. */
static void
arguments_are(const char *text, const char *want)
{
    chat_buf_t args = { 0 };

    run_each(DIALECT, chat_cstr(text), arguments_of, &args);
    text_equals(&args, want);
    chat_buf_free(&args);
}


static void
arguments_come_in_pieces_or_whole(void **state)
{
#define INPUT "\"tool_use\",\"id\":\"a\",\"name\":\"w\",\"input\":{\"b\":1}"
    arguments_are(MESSAGE START("0", INPUT) STOP("0"), "{\"b\":1}");
    arguments_are(MESSAGE START("0", TOOL("a")) STOP("0"), "{}");
    arguments_are(MESSAGE START("0", TOOL("a")) DELTA("0", JSON("")) STOP("0"),
                  "{}");
    arguments_are(MESSAGE START("0", INPUT) DELTA("0", JSON("{\\\"c"))
                      DELTA("0", JSON("\\\":2}")) STOP("0"),
                  "{\"c\":2}");
}


static void
foreign_streams_are_declined(void **state)
{
    static const char *const foreign[] = {
        "data: {\"type\":\"start\"}\n\n",
        "data: {\"type\":\"error\",\"errorText\":\"x\"}\n\n",
        "data: {\"choices\":[]}\n\n",
        "data: [DONE]\n\n",
        "data: hello\n\n",
    };

    run_declined(DIALECT, foreign, sizeof(foreign) / sizeof(foreign[0]));
}


static const char *const drop_a[] = { "a", NULL };
static const char *const drop_both[] = { "a", "b", NULL };


static void
s20_blocks_behind_a_dropped_one_move_up(void **state)
{
    run_without(DIALECT,
                MESSAGE PROSE("0") CALL("1", "a") CALL("2", "b") PROSE("3")
                    REASON("tool_use") END,
                drop_a,
                MESSAGE PROSE("0") CALL("1", "b") PROSE("2") REASON("tool_use")
                    END);

    run_without(DIALECT,
                MESSAGE CALL("0", "a") CALL("9", "x") CALL("10", "b")
                    CALL("11", "y") REASON("tool_use") END,
                drop_both,
                MESSAGE CALL("8", "x") CALL("9", "y") REASON("tool_use") END);
}


static void
s18_all_calls_go_and_the_reason_is_end_turn(void **state)
{
    run_without(DIALECT,
                MESSAGE CALL("0", "a") CALL("1", "b") PROSE("2")
                    REASON("tool_use") END,
                drop_both, MESSAGE PROSE("0") REASON("end_turn") END);

    run_without(DIALECT, MESSAGE CALL("0", "a") REASON("max_tokens") END,
                drop_a, MESSAGE  REASON("max_tokens") END);
}


static void
a_second_message_is_numbered_by_itself(void **state)
{
    run_without(DIALECT,
                MESSAGE CALL("0", "a") PROSE("1") MESSAGE PROSE("0")
                    CALL("1", "x"),
                drop_a, MESSAGE PROSE("0") MESSAGE PROSE("0") CALL("1", "x"));
}


static void
s71_interrupted_is_an_error_and_no_end(void **state)
{
    chat_buf_t          out = { 0 };
    chat_interruption_t in = { "reset", 0 };

    chat_buf_puts(&out, MESSAGE);
    chat_dialect_interrupted(DIALECT, NULL, &in, &out);

    run_says(DIALECT, &out, "T E:failed ");
    assert_true(
        text_is_within(chat_cstr("event: error\n"), chat_buf_str(&out)));
    assert_true(
        text_is_within(chat_cstr("stream_interrupted"), chat_buf_str(&out)));

    chat_buf_free(&out);
}


static void
refusals_are_well_formed(void **state)
{
    chat_buf_t     out = { 0 };
    chat_str_t     ids[] = { CHAT_STR("a\"b"), CHAT_STR("c") };
    chat_refusal_t refusal = { 409, "batch_incomplete", "wait", ids, 2, 0, 0 };

    assert_null(DIALECT->empty);
    assert_int_equal(out.len, 0);

    DIALECT->refuse(&refusal, 0, &out);
    text_has_error(chat_buf_str(&out), "code", "batch_incomplete");
    text_has_error(chat_buf_str(&out), "message", "wait");
    text_has_error(chat_buf_str(&out), "type", "invalid_request_error");
    assert_true(text_is_within(
        chat_cstr("\"tool_use_ids\":[\"a\\\"b\",\"c\"]"), chat_buf_str(&out)));

    out.len = 0;
    DIALECT->refuse(&refusal, 1, &out);
    run_says(DIALECT, &out, "E:failed ");

    chat_buf_free(&out);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(s43_s72_s73_events_of_streams),
        cmocka_unit_test(arguments_come_in_pieces_or_whole),
        cmocka_unit_test(foreign_streams_are_declined),
        cmocka_unit_test(s20_blocks_behind_a_dropped_one_move_up),
        cmocka_unit_test(s18_all_calls_go_and_the_reason_is_end_turn),
        cmocka_unit_test(a_second_message_is_numbered_by_itself),
        cmocka_unit_test(s71_interrupted_is_an_error_and_no_end),
        cmocka_unit_test(refusals_are_well_formed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
