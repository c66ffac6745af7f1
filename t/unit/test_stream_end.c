/*
 * test_stream_end.c: how a stream ends, in each dialect: finished, failed,
 * aborted or interrupted, exactly one of them, and the client's error event;
 * and streams that need no change.
 */

#include "stream_run.h"

#define CHAT_CHUNK(delta, reason)                                             \
    "data: {\"id\":\"x1\",\"object\":\"chat.completion.chunk\","              \
    "\"choices\":[{\"index\":0,\"delta\":" delta ",\"finish_reason\":" reason \
    "}]}\n\n"
#define CHAT_DONE "data: [DONE]\n\n"
#define RESPONSES_CREATED                                       \
    "event: response.created\ndata: {\"type\":"                 \
    "\"response.created\",\"sequence_number\":0,\"response\":{" \
    "\"id\":\"resp_1\",\"output\":[]}}\n\n"
#define RESPONSES_COMPLETED                                       \
    "event: response.completed\ndata: {\"type\":"                 \
    "\"response.completed\",\"sequence_number\":1,\"response\":{" \
    "\"id\":\"resp_1\",\"output\":[]}}\n\n"
#define MESSAGE_START                                              \
    "event: message_start\ndata: {\"type\":\"message_start\","     \
    "\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":" \
    "\"assistant\",\"content\":[],\"stop_reason\":null}}\n\n"
#define MESSAGE_STOP \
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
#define UI_START "data: {\"type\":\"start\"}\n\n"
#define UI_TEXT \
    "data: {\"type\":\"text-delta\",\"id\":\"t\",\"delta\":\"x\"}\n\n"
#define UI_FINISH "data: {\"type\":\"finish\"}\n\n"
#define UI_DONE "data: [DONE]\n\n"

static stream_t s;


/* A reader of the interruption event finds an interruption. */
static void
told(void)
{
    size_t len = strlen(s.out);
    char   text[8192];

    assert_true(len < sizeof(text));
    memcpy(text, s.out, len + 1);
    stream_expect(&s, text, text);
    assert_int_equal(s.info.end, CHAT_END_INTERRUPTED);
    assert_string_equal(s.info.reason, "upstream");
}


static void
ends(const char *text, chat_end_e end)
{
    stream_all(&s, text, strlen(text));
    assert_int_equal(s.info.end, end);
}


/* All whole frames precede the interruption event. */
static void
breaks_off(const char *whole, const char *half, const char *says)
{
    chat_buf_t text = { 0 };

    chat_buf_puts(&text, whole);
    chat_buf_puts(&text, half);
    chat_buf_add(&text, chat_str("", 1));
    ends((char *) text.data, CHAT_END_INTERRUPTED);
    chat_buf_free(&text);

    assert_memory_equal(s.out, whole, strlen(whole));
    assert_non_null(strstr(s.out + strlen(whole), says));
    assert_string_equal(s.out + strlen(s.out) - 2, "\n\n");
    if (half[0] != '\0') {
        assert_null(strstr(s.out, half));
    }
}


static void
s71_eof_without_a_terminal_event(void **state)
{
    const char *terminals[] = { "[DONE]", "\"finish\"", "message_stop",
                                "response.completed", NULL };
    size_t      i, k;
    struct {
        const char *dialect;
        const char *whole;
        const char *says;
    } cases[] = {
        { "ai_sdk", UI_START, "\"type\":\"error\"" },
        { "openai_chat", CHAT_CHUNK("{\"content\":\"a\"}", "null"),
          "stream_interrupted" },
        { "openai_responses", RESPONSES_CREATED, "stream_interrupted" },
        { "anthropic", MESSAGE_START, "event: error" },
    };

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        stream_begin(&s, cases[i].dialect, NULL);
        breaks_off(cases[i].whole, "", cases[i].says);
        assert_string_equal(s.info.reason, "eof");
        breaks_off(cases[i].whole, "data: {\"type\":\"hal", cases[i].says);

        for (k = 0; terminals[k] != NULL; k++) {
            assert_null(strstr(s.out, terminals[k]));
        }

        s.reason = "reset";
        breaks_off(cases[i].whole, "", cases[i].says);
        assert_string_equal(s.info.reason, "reset");

        s.reason = NULL;
        told();

        /* The stream is empty. */
        breaks_off("", "", cases[i].says);
        told();
        stream_end(&s);
    }
}


static void
s71_half_open_calls_are_closed_for_the_client(void **state)
{
    stream_begin(&s, "ai_sdk", NULL);
    breaks_off(UI_START
               "data: {\"type\":\"start-step\"}\n\n"
               "data: {\"type\":\"tool-input-start\",\"toolCallId\":\"c1\","
               "\"toolName\":\"find\"}\n\n"
               "data: {\"type\":\"tool-input-available\",\"toolCallId\":"
               "\"c2\",\"toolName\":\"find\",\"input\":{}}\n\n"
               "data: {\"type\":\"tool-input-start\",\"toolCallId\":\"c3\","
               "\"toolName\":\"find\"}\n\n"
               "data: {\"type\":\"tool-output-error\",\"toolCallId\":\"c3\","
               "\"errorText\":\"no\"}\n\n",
               "", "\"type\":\"error\"");
    assert_non_null(strstr(s.out, "\"type\":\"tool-input-error\",\"toolCallId"
                                  "\":\"c1\""));
    assert_null(strstr(s.out, "tool-input-error\",\"toolCallId\":\"c2\""));
    /* it has its outcome */
    assert_null(strstr(s.out, "tool-input-error\",\"toolCallId\":\"c3\""));
    stream_end(&s);
}


static void
s71_a_dry_run_adds_no_event(void **state)
{
    stream_begin(&s, "ai_sdk", NULL);
    s.conf.observe = 1;
    stream_expect(&s, UI_START "data: ha", UI_START "data: ha");
    assert_int_equal(s.info.end, CHAT_END_INTERRUPTED);
    stream_end(&s);
}


static void
a_dry_run_without_a_client_sends_no_tail(void **state)
{
    stream_begin(&s, "ai_sdk", NULL);
    s.conf.observe = 1;
    s.aborted = 1;
    stream_expect(&s, UI_START "data: ha", UI_START);
    assert_int_equal(s.info.end, CHAT_END_ABORTED);
    stream_end(&s);
}


static void
s71_a_broken_long_frame_is_ended_first(void **state)
{
    char        text[400];
    const char *start = UI_START;

    memset(text, 'x', sizeof(text));
    memcpy(text, start, strlen(start));
    memcpy(text + strlen(start), "data: ", 6);

    stream_begin(&s, "ai_sdk", NULL);
    s.conf.max_event = 200;
    stream_all(&s, text, sizeof(text));
    assert_int_equal(s.info.end, CHAT_END_INTERRUPTED);
    assert_memory_equal(s.out, text, sizeof(text));
    assert_memory_equal(s.out + sizeof(text), "\n\ndata: ", 8);
    stream_end(&s);
}


/*
 * Its contents are unknown; exceeding a limit does not make an answer an
 * error.
 */
static void
s72_an_end_in_a_frame_that_was_not_read(void **state)
{
    size_t i;
    char   text[800];
    char   tail[400];

    static const struct {
        const char *behind;
        chat_end_e  end;
    } cases[] = {
        { "\n\n", CHAT_END_FINISHED },
        { "\n\n: ping\n\n", CHAT_END_FINISHED },
        { "\n", CHAT_END_INTERRUPTED },
        { "\n\ndata: ha", CHAT_END_INTERRUPTED },
        { "\n\n" UI_TEXT, CHAT_END_INTERRUPTED },
        { "\n\n" UI_TEXT UI_FINISH, CHAT_END_FINISHED },
    };

    stream_begin(&s, "ai_sdk", NULL);
    s.conf.max_event = 200;
    memset(tail, 'x', sizeof(tail) - 1);
    tail[sizeof(tail) - 1] = '\0';

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        (void) snprintf(text, sizeof(text), UI_START "data: %s%s", tail,
                        cases[i].behind);
        ends(text, cases[i].end);

        if (cases[i].end == CHAT_END_FINISHED) {
            assert_string_equal(s.out, text);
        }

        /* a cut still counts as interrupted */
        s.reason = "reset";
        ends(text, i < 5 ? CHAT_END_INTERRUPTED : CHAT_END_FINISHED);
        s.reason = NULL;
    }

    stream_end(&s);
}


static void
s72_an_end_without_its_terminator(void **state)
{
    stream_begin(&s, "openai_chat", NULL);
    ends(CHAT_CHUNK("{}", "\"stop\""), CHAT_END_FINISHED);
    ends(CHAT_CHUNK("{}", "\"stop\"") "data: "
                                      "{\"id\":\"x1\",\"choices\":[],"
                                      "\"usage\":{\"x\":1}}\n\n",
         CHAT_END_FINISHED);
    ends(CHAT_CHUNK("{}", "null") CHAT_DONE, CHAT_END_FINISHED);

    /* The rest of a normal end passes. */
    stream_expect(&s, CHAT_CHUNK("{}", "\"stop\"") "data: [DONE]\n",
                  CHAT_CHUNK("{}", "\"stop\"") "data: [DONE]\n");
    stream_end(&s);

    stream_begin(&s, "ai_sdk", NULL);
    ends(UI_START UI_FINISH, CHAT_END_FINISHED);
    ends(UI_START UI_DONE, CHAT_END_FINISHED);
    stream_end(&s);

    stream_begin(&s, "openai_responses", NULL);
    ends(RESPONSES_CREATED RESPONSES_COMPLETED, CHAT_END_FINISHED);
    stream_end(&s);

    stream_begin(&s, "anthropic", NULL);
    ends(MESSAGE_START MESSAGE_STOP, CHAT_END_FINISHED);
    stream_end(&s);
}


static void
s73_an_error_in_the_stream(void **state)
{
    const char *text;

    text = UI_START "data: {\"type\":\"error\",\"errorText\":\"no\"}\n\n"
                    "data: {\"type\":\"finish-step\"}\n\n" UI_FINISH UI_DONE;
    stream_begin(&s, "ai_sdk", NULL);
    stream_expect(&s, text, text);
    assert_int_equal(s.info.end, CHAT_END_FAILED);
    stream_end(&s);

    text =
        CHAT_CHUNK("{}", "null") "data: {\"error\":{\"message\":\"no\"}}\n\n";
    stream_begin(&s, "openai_chat", NULL);
    stream_expect(&s, text, text);
    assert_int_equal(s.info.end, CHAT_END_FAILED);
    stream_end(&s);

    text = RESPONSES_CREATED "event: error\ndata: {\"type\":\"error\","
                             "\"message\":\"no\"}\n\n";
    stream_begin(&s, "openai_responses", NULL);
    stream_expect(&s, text, text);
    assert_int_equal(s.info.end, CHAT_END_FAILED);
    stream_end(&s);

    text = MESSAGE_START "event: error\ndata: {\"type\":\"error\",\"error\":"
                         "{\"type\":\"overloaded_error\"}}\n\n";
    stream_begin(&s, "anthropic", NULL);
    stream_expect(&s, text, text);
    assert_int_equal(s.info.end, CHAT_END_FAILED);
    stream_end(&s);
}


static void
s74_the_first_end_stands(void **state)
{
    stream_begin(&s, "ai_sdk", NULL);
    ends(UI_START "data: {\"type\":\"abort\"}\n\n" UI_FINISH UI_DONE,
         CHAT_END_ABORTED);
    ends(UI_START UI_FINISH "data: {\"type\":\"error\"}\n\n",
         CHAT_END_FINISHED);
    ends(UI_START "data: {\"type\":\"finish\",\"finishReason\":"
                  "\"interrupted\"}\n\n" UI_DONE,
         CHAT_END_INTERRUPTED);
    assert_null(strstr(s.out, "\"type\":\"error\""));

    /* The connection breaks after the end, in the middle of a frame. */
    s.reason = "reset";
    stream_expect(&s, UI_START UI_FINISH "data: [DO", UI_START UI_FINISH);
    assert_int_equal(s.info.end, CHAT_END_FINISHED);
    s.reason = NULL;

    s.aborted = 1;
    stream_expect(&s, UI_START "data: ha", UI_START);
    assert_int_equal(s.info.end, CHAT_END_ABORTED);
    ends(UI_START UI_FINISH, CHAT_END_FINISHED);
    stream_expect(&s, UI_START UI_FINISH "data: [DO", UI_START UI_FINISH);
    stream_end(&s);
}


static void
s25_text_is_passed_where_it_lies(void **state)
{
    char                input[16384];
    size_t              i, n, len = strlen(UI_TEXT), use, total = 0;
    chat_stream_t      *stream;
    const chat_piece_t *pieces;

    for (use = 0; use + len <= sizeof(input); use += len) {
        memcpy(input + use, UI_TEXT, len);
    }

    stream_begin(&s, "ai_sdk", NULL);
    stream = chat_stream_create(&s.conf);
    assert_int_equal(
        chat_stream_push(stream, chat_cstr(UI_START), &pieces, &n), CHAT_OK);

    for (i = 0; i < 256; i++) {
        assert_int_equal(
            chat_stream_push(stream, chat_str(input, use), &pieces, &n),
            CHAT_OK);
        assert_int_equal(n, 1);
        assert_true(pieces->in_input);
        assert_ptr_equal(pieces->bytes.data, input);
        total += pieces->bytes.len;
    }

    assert_int_equal(total, 256 * use);
    chat_stream_destroy(stream);
    stream_end(&s);
}


static void
a_foreign_stream_is_left_alone(void **state)
{
    const char *text = ": hi\n\ndata: hello\n\n" UI_START "data: half";

    stream_begin(&s, "ai_sdk", NULL);
    stream_expect(&s, text, text);
    assert_true(s.info.foreign);
    assert_int_equal(s.info.end, CHAT_END_NONE);
    stream_end(&s);
}


static void
a_stream_of_another_dialect_or_with_other_lines_is_left_alone(void **state)
{
    static const char *const rows[][2] = {
        { "ai_sdk",
          "event: message_start\ndata: {\"type\":\"message_start\","
          "\"message\":{}}\n\ndata: {\"type\":\"message_stop\"}\n\n" },
        { "ai_sdk",
          ": x\n\ndata: {\"type\":\"response.created\"}\n\ndata: x" },
        { "ai_sdk", "data: {\"type\":\"RUN_STARTED\"}\n\n" },
        { "ai_sdk", "0:\"Hel\"\n0:\"lo\"\nd:{\"finishReason\":\"stop\"}\n" },
        { "ai_sdk", ": x\n\n0:\"Hello\"\n\n" UI_START "data: half" },
        { "openai_chat", "{\"choices\":[]}\r\n{\"choices\":[]}" },
        { "openai_responses", "\xef\xbb\xbf[{\"type\":1},\n" },
        /* only one byte order mark is none of the line */
        { "ai_sdk", "\xef\xbb\xbf\xef\xbb\xbf" UI_START "data: half" },
        { "anthropic", "database: x\ndata: {\"type\":\"ping\"}\n\n" },
        { "gemini", "[{\"candidates\":[]}\n,\r\n{}]" },
        { "ag_ui", "dat\n" },
    };
    size_t i;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        stream_begin(&s, rows[i][0], NULL);
        stream_expect(&s, rows[i][1], rows[i][1]);
        assert_true(s.info.foreign);
        stream_end(&s);
    }

    /* unused fields, and the beginning of a field, do not count */
    stream_begin(&s, "anthropic", NULL);
    stream_expect(&s, "\xef\xbb\xbfid\n\nretry:1\r\r:\n\nev",
                  "\xef\xbb\xbfid\n\nretry:1\r\r:\n\n"
                  "event: error\ndata: {\"type\":\"error\",\"error\":{"
                  "\"type\":\"overloaded_error\",\"message\":\"Upstream "
                  "connection error: the stream was terminated before its "
                  "end (eof)\",\"code\":\"stream_interrupted\"}}\n\n");
    assert_false(s.info.foreign);
    stream_end(&s);
}


#define NUMBERED(lines, text) \
    lines CHAT_CHUNK("{\"content\":\"" text "\"}", "null")

/* Forms and pieces make no difference to the numbers (stream_run.h). */
static void
events_are_numbered(void **state)
{
    (void) state;
    stream_begin(&s, "openai_chat", NULL);
    s.conf.number = chat_cstr("abc");

    stream_expect(
        &s,
        NUMBERED("", "a") NUMBERED("", "b") NUMBERED("", "cc")
            NUMBERED("id: 7\n", "d") NUMBERED("id: 7\n", "e") NUMBERED(
                ": x\nid\n", "f") ": ping\n\n" NUMBERED(": x\nid\n", "g")
                NUMBERED("", "h") NUMBERED("", "i")
                    CHAT_CHUNK("{}", "\"stop\""),
        NUMBERED("id: abc-1\n", "a") NUMBERED("id: abc-2\n", "b")
            NUMBERED("id: abc-3\n", "cc") NUMBERED("id: abc-4\n", "d")
                NUMBERED("id: abc-5\n", "e")
                    NUMBERED("id: abc-6\n: x\n", "f") ": ping\n\n" NUMBERED(
                        "id: abc-7\n: x\n", "g") NUMBERED("id: abc-8\n", "h")
                        NUMBERED("id: abc-9\n", "i") "id: abc-10\n" CHAT_CHUNK(
                            "{}", "\"stop\""));
    stream_end(&s);
}


#define PIECE(line, more, text)                                     \
    line CHAT_CHUNK("{\"tool_calls\":[{\"index\":0," more           \
                    "\"function\":{\"arguments\":\"" text "\"}}]}", \
                    "null")
#define PIECES(a, b, c, d, e)     \
    PIECE(a, "\"id\":\"c\",", "") \
    PIECE(b, "", "{") PIECE(c, "", "}") PIECE(d, "", "\\n") PIECE(e, "", "")

/* Those that are read in one go, too. */
static void
pieces_of_arguments_are_numbered(void **state)
{
    (void) state;
    stream_begin(&s, "openai_chat", NULL);
    s.conf.number = chat_cstr("x");
    s.aborted = 1;

    stream_expect(&s, PIECES("", "", "", "", "") ": end\n\n",
                  PIECES("id: x-1\n", "id: x-2\n", "id: x-3\n", "id: x-4\n",
                         "id: x-5\n") ": end\n\n");
    stream_end(&s);
}


#define LONG_16 "xxxxxxxxxxxxxxxx"
#define LONG_64 LONG_16 LONG_16 LONG_16 LONG_16
#define LONG LONG_64 LONG_64 LONG_64 LONG_64

/* So its number does not depend on how the bytes are cut. */
static void
a_frame_past_the_limit_has_its_number_last(void **state)
{
    (void) state;
    stream_begin(&s, "openai_chat", NULL);
    s.conf.number = chat_cstr("abc");
    s.conf.max_event = 250;
    s.aborted = 1;

    stream_expect(&s,
                  NUMBERED("id: 6\n", "a") LONG
                  "\nid: 7\ndata: x\nid\n\n"
                  "id: 8\n" LONG "\n\n\r\n\r: " LONG
                  "\nid: 9\n\n" NUMBERED("id: 9\n", "b"),
                  NUMBERED("id: abc-1\n", "a") LONG
                  "\nid: 7\ndata: x\nid\n"
                  "id: abc-2\n\nid: 8\n" LONG "\n\n\r\n\r: " LONG
                  "\nid: 9\n\n" NUMBERED("id: abc-3\n", "b"));
    assert_int_not_equal(s.info.oversized, 0);
    stream_end(&s);
}


#define TEXT_FRAME(lines, text, end)                                  \
    lines "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\"," \
          "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" text  \
          "\"},\"finish_reason\":null}]}" end

/* A frame that CR may end: what follows is of a known form, or a LF. */
static void
an_event_behind_a_lone_cr_has_its_own_number(void **state)
{
    (void) state;
    stream_begin(&s, "openai_chat", NULL);
    s.conf.number = chat_cstr("abc");

    stream_expect(
        &s,
        TEXT_FRAME("", "a", "\n\n") TEXT_FRAME("", "b", "\n\n")
            TEXT_FRAME("", "c", "\n\n") TEXT_FRAME("", "d", "\r\n\r")
                TEXT_FRAME("", "e", "\n\n") CHAT_CHUNK("{}", "\"stop\""),
        TEXT_FRAME("id: abc-1\n", "a", "\n\n") TEXT_FRAME(
            "id: abc-2\n", "b", "\n\n") TEXT_FRAME("id: abc-3\n", "c", "\n\n")
            TEXT_FRAME("id: abc-4\n", "d", "\r\n\r")
                TEXT_FRAME("id: abc-5\n", "e",
                           "\n\n") "id: abc-6\n" CHAT_CHUNK("{}", "\"stop\""));
    stream_end(&s);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_past_the_limit_has_its_number_last),
        cmocka_unit_test(an_event_behind_a_lone_cr_has_its_own_number),
        cmocka_unit_test(s71_eof_without_a_terminal_event),
        cmocka_unit_test(s71_half_open_calls_are_closed_for_the_client),
        cmocka_unit_test(s71_a_dry_run_adds_no_event),
        cmocka_unit_test(a_dry_run_without_a_client_sends_no_tail),
        cmocka_unit_test(s71_a_broken_long_frame_is_ended_first),
        cmocka_unit_test(s72_an_end_in_a_frame_that_was_not_read),
        cmocka_unit_test(s72_an_end_without_its_terminator),
        cmocka_unit_test(s73_an_error_in_the_stream),
        cmocka_unit_test(s74_the_first_end_stands),
        cmocka_unit_test(s25_text_is_passed_where_it_lies),
        cmocka_unit_test(events_are_numbered),
        cmocka_unit_test(pieces_of_arguments_are_numbered),
        cmocka_unit_test(a_foreign_stream_is_left_alone),
        cmocka_unit_test(
            a_stream_of_another_dialect_or_with_other_lines_is_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
