/*
 * test_dialect_gemini_stream.c: streams of Gemini, dropping calls from them,
 * and the module's own answers.
 *
 * Calls are complete, or in pieces with paths, as Vertex sends them.
 */

#include "dialect_run.h"
#include "../buf_printf.h"

#define DIALECT (&chat_dialect_gemini)

#define FRAME(object) "data: {" object "}\n\n"
#define CHUNK(parts, rest)                                             \
    FRAME("\"candidates\":[{\"content\":{\"parts\":[" parts "],\"role" \
          "\":\"model\"}" rest "}]")
#define USED(parts)                                                   \
    FRAME("\"candidates\":[{\"content\":{\"parts\":[" parts "]},\"in" \
          "dex\":0}],\"usageMetadata\":{},\"responseId\":\"t\"")
#define DONE ",\"finishReason\":\"STOP\""
#define NONE "{\"text\":\"\"}"
#define TEXT "{\"text\":\"a\"}"
#define CALL(id)                                                        \
    "{\"functionCall\":{\"id\":\"" id "\",\"name\":\"w\",\"args\":{}}," \
    "\"thoughtSignature\":\"s" id "\"}"
#define OPENS(id)                                               \
    "{\"functionCall\":{\"id\":\"" id "\",\"name\":\"w\"," MORE \
    "},\"thoughtSignature\":\"s" id "\"}"
#define MORE "\"willContinue\":true"
#define PIECE                                                             \
    "{\"functionCall\":{\"partialArgs\":[{\"jsonPath\":\"$.a\",\"stringV" \
    "alue\":\"x\"}]," MORE "}}"
#define CLOSES "{\"functionCall\":{}}"
#define PIECES(id) CHUNK(OPENS(id), "") CHUNK(PIECE, "") CHUNK(CLOSES, "")

static const stream_case_t streams[] = {
    { CHUNK(TEXT, "") CHUNK("", DONE), "T S E:finished " },
    { CHUNK(CALL("a") "," TEXT "," CALL("b"), DONE),
      "T o0:a a0 r0:a o1:b a1 r1:b S E:finished " },
    { PIECES("a") CHUNK("", DONE), "T o0:a a0 a0 a0 r0:a S E:finished " },
    /* an unspecified finish reason does not end the stream */
    { CHUNK(CALL("a"), ",\"finishReason\":\"FINISH_REASON_UNSPECIFIED\"")
          CHUNK(CALL("b"), DONE),
      "T o0:a a0 r0:a o1:b a1 r1:b S E:finished " },
    /* a client cannot answer a call that was cut off */
    { CHUNK(CALL("a"), ",\"finishReason\":\"MAX_TOKENS\""),
      "T o0:a a0 r0:a E:finished " },
    { CHUNK(CALL("a"), ",\"finishReason\":\"UNEXPECTED_TOOL_CALL\""),
      "T o0:a a0 r0:a E:finished " },
    { CHUNK(OPENS("a"), "") CHUNK("", DONE), "T o0:a a0 E:finished " },
    /* another call opens before its end */
    { CHUNK(OPENS("a"), "") CHUNK(CALL("b"), "") CHUNK(PIECE, DONE),
      "T o0:a a0 o1:b a1 r1:b x S E:finished " },
    /* s72: only usage after the end */
    { CHUNK(TEXT, DONE) FRAME("\"usageMetadata\":{}"), "T S E:finished x " },
    /* s73: errors, and a prompt that is refused */
    { CHUNK(TEXT, "") FRAME("\"error\":{\"code\":503}"), "T E:failed " },
    { FRAME("\"error\":{}") CHUNK("", DONE), "E:failed T " },
    { FRAME("\"promptFeedback\":{\"blockReason\":\"OTHER\"}"),
      "T E:finished " },
    { FRAME("\"promptFeedback\":{}"), "T " },
    /*
     * two candidates: the stream waits for both; the second's calls are no
     * members
     */
    { CHUNK(TEXT, ",\"index\":1") CHUNK(CALL("a"), DONE)
          CHUNK(CALL("b"), ",\"index\":1" DONE),
      "T o0:a a0 r0:a S E:finished " },
    { CHUNK(TEXT, ",\"index\":1") CHUNK(CALL("a"), DONE), "T o0:a a0 r0:a " },
    /* keepalives */
    { ": x\n\ndata: {}\n\n" CHUNK(TEXT, DONE), "T S E:finished " },
};


static void
s43_s72_s73_events_of_streams(void **state)
{
    run_expect_all(DIALECT, streams, sizeof(streams) / sizeof(streams[0]));
}


/* Arguments of a call of the stream, or a mark if they are unknown. */
static void
arguments_of(const chat_event_t *event, chat_buf_t *args)
{
    if (event->type == CHAT_EVENT_CALL_ARGS) {
        chat_buf_add(args, event->text);

    } else if (event->type == CHAT_EVENT_CALL_READY && event->unreadable) {
        args->len = 0;
        chat_buf_puts(args, "?");
    }
}


/* A call with arguments in these pieces. */
static void
pieces_of(chat_buf_t *text, const char *pieces)
{
    chat_buf_puts(text,
                  CHUNK(OPENS("a"),
                        "") "data: {\"candidates\":[{\"content\":{\"parts\":[{"
                            "\"functionCall\":{\"partialArgs\":[");
    chat_buf_puts(text, pieces);
    chat_buf_puts(text, "]}}]}}]}\n\n");
}


static void
arguments_are(const char *pieces, const char *want)
{
    chat_buf_t text = { 0 }, args = { 0 };

    pieces_of(&text, pieces);
    run_each(DIALECT, chat_buf_str(&text), arguments_of, &args);
    text_equals(&args, want);
    chat_buf_free(&text);
    chat_buf_free(&args);
}


#define AT(path, value) "{\"jsonPath\":\"" path "\"," value "}"
#define STRING(text) "\"stringValue\":\"" text "\""

static void
arguments_come_in_pieces(void **state)
{
    arguments_are("", "{}");
    arguments_are(AT("$.a", STRING("Bos")) "," AT("$.a", STRING("\\u00fc\\n")),
                  "{\"a\":\"Bos\\u00fc\\n\"}");
    arguments_are(AT("$.a", STRING("")), "{\"a\":\"\"}");
    arguments_are(
        AT("$.a.b", "\"numberValue\":1.50") "," AT(
            "$.a.c", "\"boolValue\":true") "," AT("$.d", "\"nullValue\":null"),
        "{\"a\":{\"b\":1.50,\"c\":true},\"d\":null}");
    arguments_are(
        AT("$.a[0]", STRING("x")) "," AT("$.a[1].b[0]", STRING("y")) "," AT(
            "$.a[1].b[0]", STRING("z")),
        "{\"a\":[\"x\",{\"b\":[\"yz\"]}]}");
    arguments_are(
        AT("$['a.b'].c", STRING("x")) "," AT("$[\\\"a.b\\\"].d", STRING("y")),
        "{\"a.b\":{\"c\":\"x\",\"d\":\"y\"}}");
}


static void
arguments_that_cannot_be_followed_are_unknown(void **state)
{
    size_t i;

    static const char *const odd[] = {
        AT("", STRING("x")),
        AT("$", STRING("x")),
        AT("a", STRING("x")),
        AT("$ab", STRING("x")),
        AT("$.", STRING("x")),
        AT("$..a", STRING("x")),
        AT("$.a[", STRING("x")),
        AT("$.a[0", STRING("x")),
        AT("$.a[]", STRING("x")),
        AT("$.a[*]", STRING("x")),
        AT("$.a[1]", STRING("x")),
        AT("$.a[00]", STRING("x")),
        AT("$.a[9999999]", STRING("x")),
        AT("$['a", STRING("x")),
        AT("$['a'", STRING("x")),
        AT("$['a\\\\'b']", STRING("x")),
        AT("$.a", "\"structValue\":{}"),
        AT("$.a", "\"stringValue\":1"),
        AT("$.a", "\"numberValue\":\"1\""),
        "1",
        "{}",
        /* two things at one path */
        AT("$.a", STRING("x")) "," AT("$.a", "\"boolValue\":true"),
        AT("$.a", "\"boolValue\":true") "," AT("$.a", "\"boolValue\":true"),
        AT("$.a", STRING("x")) "," AT("$.a.b", STRING("x")),
        AT("$.a[0]", STRING("x")) "," AT("$.a.b", STRING("x")),
        AT("$.a.b", STRING("x")) "," AT("$.a", STRING("x")),
        /* back to what has ended */
        AT("$.a", STRING("x")) "," AT("$.b", STRING("x")) "," AT("$.a",
                                                                 STRING("x")),
        AT("$.a.c", STRING("x")) "," AT("$.b", STRING("x")) "," AT(
            "$['a'].d", STRING("x")),
        AT("$.a[0]", STRING("x")) "," AT("$.a[1]", STRING("x")) "," AT(
            "$.a[0]", STRING("x")),
        /* too deep */
        AT("$.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a"
           ".a",
           STRING("x")),
    };

    for (i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        arguments_are(odd[i], "?");
    }
}


static void
arguments_are_bounded(void **state)
{
    unsigned   i;
    chat_buf_t text = { 0 };

    for (i = 0; i < 1025; i++) {
        chat_buf_printf(&text, "%s{\"jsonPath\":\"$.a%u\",\"numberValue\":1}",
                        i ? "," : "", i);
    }

    chat_buf_add(&text, chat_str("", 1));
    arguments_are((const char *) text.data, "?");
    chat_buf_free(&text);
}


static void
foreign_streams_are_declined(void **state)
{
    static const char *const foreign[] = {
        "data: {\"type\":\"start\"}\n\n",
        "data: {\"type\":\"error\",\"errorText\":\"x\"}\n\n",
        "data: {\"choices\":[]}\n\n",
        "data: {\"candidates\":1}\n\n",
        "data: [DONE]\n\n",
        "data: hello\n\n",
    };

    run_declined(DIALECT, foreign, sizeof(foreign) / sizeof(foreign[0]));
}


static const char *const drop_a[] = { "a", NULL };
static const char *const drop_both[] = { "a", "b", NULL };


static void
s17_one_chunk_may_lose_one_of_its_calls(void **state)
{
    run_without(DIALECT, CHUNK(CALL("a") "," CALL("b"), DONE), drop_a,
                CHUNK(CALL("b"), DONE));
    run_without(DIALECT, CHUNK(CALL("x") "," CALL("a"), DONE), drop_a,
                CHUNK(CALL("x"), DONE));
    run_without(DIALECT, CHUNK(TEXT "," CALL("a") "," CALL("b") "," TEXT, ""),
                drop_both, CHUNK(TEXT "," TEXT, ""));

    /* a part without a call does not count as one */
    run_without(DIALECT, CHUNK(CLOSES "," CALL("a") "," CALL("x"), ""), drop_a,
                CHUNK(CLOSES "," CALL("x"), ""));
}


static void
s18_a_chunk_without_its_calls_keeps_the_rest(void **state)
{
    run_without(DIALECT, CHUNK(CALL("a"), "") CHUNK("", DONE), drop_a,
                CHUNK("", DONE));
    run_without(DIALECT, CHUNK(CALL("a") "," CALL("b"), DONE), drop_both,
                CHUNK(NONE, DONE));
    run_without(DIALECT, USED(CALL("a")), drop_a, USED(NONE));
    run_without(DIALECT, CHUNK(CALL("a"), ",\"groundingMetadata\":{}"), drop_a,
                CHUNK(NONE, ",\"groundingMetadata\":{}"));
}


static void
all_pieces_of_a_dropped_call_go(void **state)
{
    run_without(DIALECT, CHUNK(TEXT, "") PIECES("a") PIECES("x"), drop_a,
                CHUNK(TEXT, "") PIECES("x"));
}


static void
s71_interrupted_is_an_error_and_no_end(void **state)
{
    chat_buf_t          out = { 0 };
    chat_interruption_t in = { "reset", 0 };

    chat_buf_puts(&out, CHUNK(TEXT, ""));
    chat_dialect_interrupted(DIALECT, NULL, &in, &out);

    run_says(DIALECT, &out, "T E:failed ");
    assert_true(
        text_is_within(chat_cstr("stream_interrupted"), chat_buf_str(&out)));
    assert_true(
        text_is_within(chat_cstr("\"UNAVAILABLE\""), chat_buf_str(&out)));

    chat_buf_free(&out);
}


static void
empty_turns_and_refusals_are_well_formed(void **state)
{
    size_t         i;
    chat_buf_t     out = { 0 };
    chat_str_t     ids[] = { CHAT_STR("a\"b"), CHAT_STR("c") };
    chat_refusal_t refusal = { 409, "batch_incomplete", "wait", ids, 2, 0, 0 };
    chat_request_t rq = { 0 };

    static const struct {
        unsigned    status;
        const char *word;
    } words[] = {
        { 400, "INVALID_ARGUMENT" },
        { 401, "UNAUTHENTICATED" },
        { 403, "PERMISSION_DENIED" },
        { 404, "NOT_FOUND" },
        { 409, "ABORTED" },
        { 413, "FAILED_PRECONDITION" },
        { 429, "RESOURCE_EXHAUSTED" },
        { 500, "INTERNAL" },
        { 502, "UNAVAILABLE" },
        { 503, "UNAVAILABLE" },
        { 504, "DEADLINE_EXCEEDED" },
    };

    assert_int_equal(DIALECT->empty(&rq, NULL, 0, &out), CHAT_OK);
    run_says(DIALECT, &out, "T S E:finished ");

    for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        out.len = 0;
        refusal.status = words[i].status;
        DIALECT->refuse(&refusal, 0, &out);
        text_has_error(chat_buf_str(&out), "message", "wait");
        text_has_error(chat_buf_str(&out), "status", words[i].word);
    }

    assert_true(
        text_is_within(chat_cstr("\"batch_incomplete\""), chat_buf_str(&out)));
    assert_true(text_is_within(chat_cstr("\"calls\":\"a\\\"b c\""),
                               chat_buf_str(&out)));

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
        cmocka_unit_test(arguments_come_in_pieces),
        cmocka_unit_test(arguments_that_cannot_be_followed_are_unknown),
        cmocka_unit_test(arguments_are_bounded),
        cmocka_unit_test(foreign_streams_are_declined),
        cmocka_unit_test(s17_one_chunk_may_lose_one_of_its_calls),
        cmocka_unit_test(s18_a_chunk_without_its_calls_keeps_the_rest),
        cmocka_unit_test(all_pieces_of_a_dropped_call_go),
        cmocka_unit_test(s71_interrupted_is_an_error_and_no_end),
        cmocka_unit_test(empty_turns_and_refusals_are_well_formed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
