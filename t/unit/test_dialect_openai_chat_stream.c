/*
 * test_dialect_openai_chat_stream.c: streams of Chat Completions, dropping
 * calls from them, and the module's own answers.
 *
 * Recordings of real providers are read, too, if available.
 */

#include "dialect_run.h"

#define DIALECT (&chat_dialect_openai_chat)

/* A chunk with this choice, and pieces of one. */
#define CHUNK(choices) "data: {\"id\":\"t\",\"choices\":[" choices "]}\n\n"
#define CHOICE(delta) "{\"index\":0,\"delta\":{" delta "}}"
#define END(reason) \
    CHUNK("{\"index\":0,\"delta\":{},\"finish_reason\":\"" reason "\"}")
#define OPEN(index, id)                                                    \
    "{\"index\":" index ",\"id\":\"" id                                    \
    "\",\"type\":\"function\",\"function\":{\"name\":\"w\",\"arguments\":" \
    "\"\"}}"
#define PART(index, text) \
    "{\"index\":" index ",\"function\":{\"arguments\":\"" text "\"}}"
#define ARGS(index) PART(index, "{}")
#define WHOLE(index, id)                                     \
    "{\"index\":" index ",\"id\":\"" id                      \
    "\",\"type\":\"function\",\"function\":{\"name\":\"w\"," \
    "\"arguments\":\"{}\"}}"
#define BY_ID(id) "{\"id\":\"" id "\",\"function\":{\"arguments\":\"x\"}}"
#define CALLS(calls) "\"tool_calls\":[" calls "]"
#define DONE "data: [DONE]\n\n"
#define ROLE CHUNK(CHOICE("\"role\":\"assistant\",\"content\":\"\""))

static const stream_case_t streams[] = {
    { ROLE END("stop") DONE, "T S E:finished x " },
    { ": hi\n\n" ROLE END("stop"), "T S E:finished " },
    { ROLE DONE, "T E:finished " },
    /* in order, each ended by the next one */
    { CHUNK(CHOICE(CALLS(OPEN("0", "a")))) CHUNK(CHOICE(CALLS(ARGS("0"))))
          CHUNK(CHOICE(CALLS(OPEN("1", "b")))) END("tool_calls") DONE,
      "T o0:a a0 a0 r0:a o1:b a1 r1:b S E:finished x " },
    /* s17: two in one chunk */
    { CHUNK(CHOICE(CALLS(WHOLE("0", "a") "," OPEN("1", "b")))) END("stop"),
      "T o0:a a0 r0:a o1:b a1 r1:b S E:finished " },
    { CHUNK(CHOICE(CALLS(OPEN("0", "a"))))
          CHUNK(CHOICE(CALLS(PART("0", "{}"))))
              CHUNK(CHOICE(CALLS(OPEN("0", "b") "," OPEN("1", "c"))))
                  CHUNK(CHOICE(CALLS(PART("0", "{}")))) END("stop"),
      "T o0:a a0 a0 r0:a o0:b a0 o1:c a1 a0 r1:c r0:b S E:finished " },
    /* interleaved: a call without all its arguments is not complete */
    { CHUNK(CHOICE(CALLS(OPEN("0", "a") "," OPEN("1", "b"))))
          CHUNK(CHOICE(CALLS(ARGS("0") "," ARGS("1")))) END("tool_calls"),
      "T o0:a a0 o1:b a1 a0 a1 r1:b r0:a S E:finished " },
    { CHUNK(CHOICE(CALLS(OPEN("0", "a") "," PART("0", "{\\\"}\\\\\\\"}"))))
          CHUNK(CHOICE(CALLS(OPEN("1", "b") "," PART("0", "\\\":[{}]"))))
              CHUNK(CHOICE(CALLS(PART("0", "}") "," OPEN("2", "c"))))
                  END("tool_calls"),
      "T o0:a a0 a0 o1:b a1 a0 a0 o2:c a2 r2:c r1:b r0:a S E:finished " },
    /* a call that was cut off */
    { CHUNK(CHOICE(CALLS(WHOLE("0", "a") "," OPEN("1", "b")))) END("length")
          DONE,
      "T o0:a a0 r0:a o1:b a1 E:finished x " },
    { CHUNK(CHOICE(CALLS(OPEN("0", "a")))) END("content_filter"),
      "T o0:a a0 E:finished " },
    /* no index; an empty id is ignored */
    { CHUNK(CHOICE(CALLS("{\"id\":\"a\",\"function\":{\"name\":\"w\"}},"
                         "{\"id\":\"\",\"function\":{\"arguments\":\"{}\"}},"
                         "{\"id\":\"b\",\"function\":{\"name\":\"w\"}}")))
          END("tool_calls"),
      "T o0:a a0 a0 o1:b a1 r1:b r0:a S E:finished " },
    /* no index: a piece belongs to the call with its id */
    { CHUNK(CHOICE(CALLS("{\"id\":\"a\",\"function\":{\"name\":\"w\"}}")))
          CHUNK(CHOICE(CALLS("{\"id\":\"b\",\"function\":{\"name\":\"w\"}}")))
              CHUNK(CHOICE(CALLS(BY_ID("a") "," BY_ID("b") "," BY_ID("a"))))
                  END("tool_calls"),
      "T o0:a a0 o1:b a1 a0 a1 a0 r1:b r0:a S E:finished " },
    { CHUNK(CHOICE(CALLS(OPEN("0", "")))) CHUNK(CHOICE(CALLS(OPEN("0", "a"))))
          END("tool_calls"),
      "T o0: a0 a0 r0:a S E:finished " },
    /* the first id counts; a lower index may follow */
    { CHUNK(CHOICE(CALLS(OPEN("0", "a"))))
          CHUNK(CHOICE(CALLS("{\"index\":0,\"id\":\"z\"}"))) END("tool_calls"),
      "T o0:a a0 a0 r0:a S E:finished " },
    { CHUNK(CHOICE(CALLS(OPEN("1", "b")))) CHUNK(CHOICE(CALLS(OPEN("0", "a"))))
          CHUNK(CHOICE(CALLS(ARGS("1")))) END("tool_calls"),
      "T o1:b a1 o0:a a0 a1 r0:a r1:b S E:finished " },
    /* every call under one index */
    { CHUNK(CHOICE(CALLS(OPEN("0", "a")))) CHUNK(CHOICE(CALLS(OPEN("0", "b"))))
          END("tool_calls"),
      "T o0:a a0 r0:a o0:b a0 r0:b S E:finished " },
    /* the older form is no call */
    { CHUNK(CHOICE("\"function_call\":{\"name\":\"w\",\"arguments\":\"\"}"))
          CHUNK(CHOICE("\"function_call\":{\"arguments\":\"{}\"}"))
              END("function_call"),
      "T x S E:finished " },
    /* two choices: the last one's end counts */
    { CHUNK(CHOICE(CALLS(OPEN("0", "a"))))
          CHUNK("{\"index\":1,\"delta\":{" CALLS(OPEN("0", "b")) "}}")
              END("tool_calls")
                  CHUNK("{\"index\":1,\"delta\":{},\"finish_reason\":"
                        "\"tool_calls\"}") DONE,
      "T o0:a a0 o65536:b a65536 r0:a r65536:b S E:finished x " },
    { CHUNK("{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"},"
            "{\"index\":1,\"delta\":{\"content\":\"x\"}}"),
      "T " },
    /* s73: errors */
    { ROLE "data: {\"error\":{\"message\":\"m\"}}\n\n" DONE, "T E:failed x " },
    { "data: {\"error\":{\"message\":\"m\"}}\n\n", "E:failed " },
    { ROLE "data: {\"error\":null,\"choices\":[]}\n\n", "T x " },
    { ROLE "data: {\"error\":\"\"}\n\ndata: {\"error\":0}\n\n", "T x x " },
    /* odd things */
    { ROLE "data: nothing\n\ndata: [1]\n\ndata: {\"choices\":null}\n\n",
      "T x x x " },
    { CHUNK("1,null,{},{\"index\":-3},{\"index\":999999},{\"delta\":5}"
            ",{\"delta\":{\"tool_calls\":[1,null,{\"index\":65535},{},"
            "{\"index\":0.5}]}}"),
      "T o0: a0 a0 " },
    { ROLE CHUNK(CHOICE(CALLS("{\"index\":0,\"id\":\"a\",\"type\":\"odd\"}")))
          END("tool_calls"),
      "T o0p:a a0 r0p:a S E:finished " },
};


static void
s17_s72_s73_events_of_streams(void **state)
{
    run_expect_all(DIALECT, streams, sizeof(streams) / sizeof(streams[0]));
}


static void
foreign_streams_are_declined(void **state)
{
    static const char *const foreign[] = {
        "data: {\"type\":\"start\"}\n\n",
        "data: hello\n\n",
        "data: 7\n\n",
        "data: {\"choices\":{}}\n\n",
    };

    run_declined(DIALECT, foreign, sizeof(foreign) / sizeof(foreign[0]));
}


static const char *const drop_a[] = { "a", NULL };
static const char *const drop_b[] = { "b", NULL };
static const char *const drop_both[] = { "a", "b", NULL };


static void
s17_one_of_two_calls_in_a_chunk_goes(void **state)
{
    const char *text =
        CHUNK(CHOICE(CALLS(OPEN("0", "a") " , " OPEN("1", "b"))))
            CHUNK(CHOICE(CALLS(ARGS("0")))) CHUNK(CHOICE(CALLS(ARGS("1"))))
                END("tool_calls") DONE;

    run_without(DIALECT, text, drop_a,
                CHUNK(CHOICE(CALLS(OPEN("0", "b"))))
                    CHUNK(CHOICE(CALLS(ARGS("0")))) END("tool_calls") DONE);
    run_without(DIALECT, text, drop_b,
                CHUNK(CHOICE(CALLS(OPEN("0", "a"))))
                    CHUNK(CHOICE(CALLS(ARGS("0")))) END("tool_calls") DONE);
}


static void
s17_the_middle_call_goes(void **state)
{
    run_without(DIALECT,
                CHUNK(CHOICE(CALLS(OPEN("0", "x") "," OPEN("1", "a") "," OPEN(
                    "2", "b") "," OPEN("3", "y"))))
                    CHUNK(CHOICE(CALLS(ARGS("3")))) END("tool_calls"),
                drop_both,
                CHUNK(CHOICE(CALLS(OPEN("0", "x") "," OPEN("1", "y"))))
                    CHUNK(CHOICE(CALLS(ARGS("1")))) END("tool_calls"));
}


static void
s18_all_calls_go_and_the_reason_is_stop(void **state)
{
    run_without(DIALECT,
                ROLE CHUNK(CHOICE(CALLS(OPEN("0", "a") "," OPEN("1", "b"))))
                    CHUNK(CHOICE(CALLS(ARGS("1")))) END("tool_calls") DONE,
                drop_both, ROLE END("stop") DONE);

    run_without(DIALECT, CHUNK(CHOICE(CALLS(OPEN("0", "a")))) END("length"),
                drop_a, END("length"));
}


static void
what_stands_beside_a_dropped_call_stays(void **state)
{
    run_without(DIALECT,
                CHUNK(CHOICE("\"role\":\"assistant\",\"content\":null," CALLS(
                    OPEN("0", "a")))) END("tool_calls"),
                drop_a,
                CHUNK(CHOICE("\"role\":\"assistant\",\"content\":null"))
                    END("stop"));

    run_without(DIALECT,
                CHUNK(CHOICE(CALLS(OPEN("0", "a")) ",\"content\":\"t\"")),
                drop_a, CHUNK(CHOICE("\"content\":\"t\"")));

    run_without(
        DIALECT,
        CHUNK("{\"index\":0,\"delta\":{" CALLS(
            OPEN("0", "a")) "},\"finish_reason\":\"tool_calls\"}"),
        drop_a,
        CHUNK("{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}"));

    run_without(DIALECT,
                "data: {\"usage\":{},\"choices\":[" CHOICE(
                    CALLS(OPEN("0", "a"))) "]}\n\n",
                drop_a,
                "data: {\"usage\":{},\"choices\":[" CHOICE("") "]}\n\n");

    /* nothing but nulls is nothing */
    run_without(DIALECT,
                ROLE CHUNK(CHOICE("\"content\":null," CALLS(OPEN("0", "a")))),
                drop_a, ROLE);
}


static void
choices_are_numbered_apart(void **state)
{
    run_without(DIALECT,
                CHUNK(CHOICE(CALLS(OPEN("0", "a"))))
                    CHUNK("{\"index\":1,\"delta\":{" CALLS(OPEN(
                        "0", "x") "," OPEN("1", "b") "," OPEN("2", "y")) "}}"),
                drop_both,
                CHUNK("{\"index\":1,\"delta\":{" CALLS(
                    OPEN("0", "x") "," OPEN("1", "y")) "}}"));
}


static void
calls_without_index_and_of_the_older_form_go(void **state)
{
    run_without(DIALECT,
                CHUNK(CHOICE(CALLS("{\"id\":\"a\",\"function\":{}},"
                                   "{\"id\":\"x\",\"function\":{}},"
                                   "{\"function\":{\"arguments\":\"\"}}"))),
                drop_a,
                CHUNK(CHOICE(CALLS("{\"id\":\"x\",\"function\":{}},"
                                   "{\"function\":{\"arguments\":\"\"}}"))));
}


static void
s71_interrupted_is_an_error_and_no_end(void **state)
{
    chat_buf_t          out = { 0 };
    chat_interruption_t in = { "eof", 1 };

    chat_buf_puts(&out, ROLE);
    chat_dialect_interrupted(DIALECT, NULL, &in, &out);

    run_says(DIALECT, &out, "T E:failed ");
    text_has_error(chat_str(out.data + sizeof(ROLE) - 1 + 6,
                            out.len - sizeof(ROLE) + 1 - 8),
                   "code", "stream_interrupted");

    chat_buf_free(&out);
}


static void
empty_turns_and_refusals_are_well_formed(void **state)
{
    chat_buf_t     out = { 0 };
    chat_str_t     ids[] = { CHAT_STR("a\"b"), CHAT_STR("c") };
    chat_arena_t  *arena = chat_arena_create(0);
    chat_refusal_t refusal = { 409, "batch_incomplete", "wait", ids, 2, 0, 0 };
    chat_request_t rq = { 0 };
    chat_json_doc_t doc;

    rq.stream = 1;
    assert_int_equal(DIALECT->empty(&rq, NULL, 0, &out), CHAT_OK);
    run_says(DIALECT, &out, "T S E:finished x ");

    out.len = 0;
    rq.stream = 0;
    assert_int_equal(DIALECT->empty(&rq, NULL, 0, &out), CHAT_OK);
    assert_int_equal(chat_json_parse(&doc, arena, chat_buf_str(&out)),
                     CHAT_OK);

    out.len = 0;
    DIALECT->refuse(&refusal, 0, &out);
    text_has_error(chat_buf_str(&out), "code", "batch_incomplete");
    text_has_error(chat_buf_str(&out), "message", "wait");
    text_has_error(chat_buf_str(&out), "type", "invalid_request_error");
    assert_int_equal(chat_json_parse(&doc, arena, chat_buf_str(&out)),
                     CHAT_OK);
    assert_true(chat_str_is(
        chat_json_raw(
            &doc, chat_json_get(&doc, chat_json_get(&doc, doc.root, "error"),
                                "tool_call_ids")),
        "[\"a\\\"b\",\"c\"]"));

    out.len = 0;
    DIALECT->refuse(&refusal, 1, &out);
    run_says(DIALECT, &out, "E:failed ");

    chat_arena_destroy(arena);
    chat_buf_free(&out);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(s17_s72_s73_events_of_streams),
        cmocka_unit_test(foreign_streams_are_declined),
        cmocka_unit_test(s17_one_of_two_calls_in_a_chunk_goes),
        cmocka_unit_test(s17_the_middle_call_goes),
        cmocka_unit_test(s18_all_calls_go_and_the_reason_is_stop),
        cmocka_unit_test(what_stands_beside_a_dropped_call_stays),
        cmocka_unit_test(choices_are_numbered_apart),
        cmocka_unit_test(calls_without_index_and_of_the_older_form_go),
        cmocka_unit_test(s71_interrupted_is_an_error_and_no_end),
        cmocka_unit_test(empty_turns_and_refusals_are_well_formed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
