/*
 * test_dialect_ai_sdk_stream.c: what the AI SDK dialect skips, limits and
 * writes itself. t/cases/ai_sdk tests what it reads.
 *
 * Frames are short literals with only what each case needs.
 */

#include "arena_run.h"
#include "dialect/chat_dialect.h"
#include "../tenant.h"


static chat_json_doc_t doc;
static chat_request_t  rq;
static chat_events_t   events;
static chat_reader_t  *reader;
static chat_buf_t      out;


static int
setup(void **state)
{
    if (arena_create(state) != 0) {
        return 1;
    }

    reader = chat_dialect_open(&chat_dialect_ai_sdk, arena, NULL);
    memset(&out, 0, sizeof(out));
    if (reader != NULL) {
        reader->calls.tenant = &test_tenant;
    }

    return reader == NULL;
}


static int
teardown(void **state)
{
    chat_buf_free(&out);
    return arena_destroy(state);
}


static chat_frame_t
frame_of(chat_str_t data)
{
    chat_frame_t frame;

    memset(&frame, 0, sizeof(frame));
    frame.data = data;
    frame.has_data = 1;
    return frame;
}


static chat_rc_e
read_str(chat_str_t data)
{
    chat_frame_t frame = frame_of(data);
    chat_rc_e    rc = chat_json_parse(&doc, arena, data);

    chat_events_init(&events, arena);

    return chat_dialect_frame(&chat_dialect_ai_sdk, reader, &frame,
                              rc == CHAT_OK ? &doc : NULL, &events);
}


static void
read_text(const char *data)
{
    assert_int_equal(read_str(chat_cstr(data)), CHAT_OK);
}


static void
assert_out(const char *want)
{
    assert_false(out.failed);

    if (!chat_str_is(chat_buf_str(&out), want)) {
        fail_msg("got:\n%.*s", (int) out.len, (const char *) out.data);
    }
}


/* A body and a stream give the same facts of one call and one result. */
static void
body_and_stream_agree(void **state)
{
    static const char *const bodies[] = {
        "\"output-available\",\"output\":{\"a\":1,\"b\":[2.0]}",
        "\"output-available\"",
        "\"output-error\",\"errorText\":\"b\\u00e4h\"",
        "\"output-error\"",
    };
    static const char *const chunks[] = {
        "\"tool-output-available\",\"output\":{\"b\":[2],\"a\":1.0}",
        "\"tool-output-available\",\"output\":null",
        "\"tool-output-error\",\"errorText\":\"b\xc3\xa4h\"",
        "\"tool-output-error\",\"errorText\":\"\"",
    };
    char            text[512];
    chat_json_doc_t body;
    chat_hash_t     made;
    size_t          i;

    for (i = 0; i < 4; i++) {
        snprintf(text, sizeof(text),
                 "{\"messages\":[{\"role\":\"assistant\",\"parts\":[{\"type\":"
                 "\"tool-dig\",\"toolCallId\":\"a\",\"input\":{\"n\":1.0},"
                 "\"state\":%s}]}]}",
                 bodies[i]);
        rq = (chat_request_t){ .tenant = &test_tenant };
        assert_int_equal(chat_json_parse(&body, arena, chat_cstr(text)),
                         CHAT_OK);
        assert_int_equal(
            chat_dialect_read(&chat_dialect_ai_sdk, &body, arena, &rq),
            CHAT_OK);

        read_text("{\"type\":\"tool-input-available\",\"toolCallId\":\"a\","
                  "\"toolName\":\"dig\",\"input\":{\"n\":1}}");
        assert_int_equal(events.items[1].type, CHAT_EVENT_CALL_READY);
        assert_int_equal(chat_fingerprint(&test_tenant, events.items[1].name,
                                          events.items[1].text,
                                          chat_arena_scratch(), &made),
                         CHAT_OK);
        assert_true(chat_hash_eq(&made, chat_call_fingerprint(&rq.calls[0])));

        snprintf(text, sizeof(text), "{\"toolCallId\":\"a\",\"type\":%s}",
                 chunks[i]);
        read_text(text);
        assert_int_equal(events.items[0].outcome, rq.calls[0].outcome);
        assert_true(chat_hash_eq(&events.items[0].digest,
                                 chat_call_digest(&rq.calls[0])));
    }
}


static void
start_call(unsigned number)
{
    char text[256];

    snprintf(text, sizeof(text),
             "{\"type\":\"tool-input-start\",\"toolCallId\":\"c%u\","
             "\"toolName\":\"t\"}",
             number);
    read_text(text);
}


static void
too_many_calls_are_opaque(void **state)
{
    unsigned i;

    for (i = 0; i < 4096; i++) {
        start_call(i);
        assert_int_equal(events.items[0].type, CHAT_EVENT_CALL_OPEN);
        assert_int_equal(events.items[0].call->place, i);
    }

    start_call(i);
    assert_int_equal(events.count, 1);
    assert_int_equal(events.items[0].type, CHAT_EVENT_OPAQUE);

    start_call(17);
    assert_int_equal(events.items[0].type, CHAT_EVENT_CALL_OPEN);
    assert_int_equal(events.items[0].call->place, 17);
}


static void
an_endless_id_or_name_is_opaque(void **state)
{
    static const char *const formats[] = {
        "{\"type\":\"tool-input-start\",\"toolCallId\":\"%s\","
        "\"toolName\":\"t\"}",
        "{\"type\":\"tool-input-available\",\"toolCallId\":\"a\","
        "\"toolName\":\"%s\",\"input\":{}}",
    };
    char   id[10240], text[11000];
    size_t i;

    memset(id, 'x', sizeof(id) - 1);
    id[sizeof(id) - 1] = '\0';

    for (i = 0; i < 2; i++) {
        snprintf(text, sizeof(text), formats[i], id);
        read_text(text);
        assert_int_equal(events.count, 1);
        assert_int_equal(events.items[0].type, CHAT_EVENT_OPAQUE);
    }
}


/*
 * At any limit the reader either has room for all, or reports that it has not.
 */
static void
a_reader_out_of_memory_says_so(void **state)
{
    size_t        limit;
    unsigned      failures = 0;
    chat_rc_e     rc = CHAT_ERROR;
    chat_str_t    text = CHAT_STR("{\"type\":\"tool-input-start\","
                                     "\"toolCallId\":\"c\"}");
    chat_frame_t  frame = frame_of(text);
    chat_arena_t *small;

    assert_int_equal(chat_json_parse(&doc, arena, text), CHAT_OK);

    for (limit = 16; rc != CHAT_OK && limit < 65536; limit += 16) {
        small = chat_arena_create(limit);
        reader = chat_dialect_open(&chat_dialect_ai_sdk, small, NULL);

        if (reader != NULL) {
            chat_events_init(&events, arena);
            rc = chat_dialect_frame(&chat_dialect_ai_sdk, reader, &frame, &doc,
                                    &events);
            failures += rc == CHAT_ERROR;
        }

        chat_arena_destroy(small);
    }

    assert_int_equal(rc, CHAT_OK);
    assert_true(failures > 3);
}


/* The client has got the beginning of the call. */
static void
forward(chat_stream_call_t *call)
{
    chat_reader_t  *own = reader;
    chat_opening_t *opening = chat_calls_opening(&own->calls, call);

    assert_non_null(opening);
    opening->known = call->known;
}


static void
s71_interrupted_closes_what_is_half_open(void **state)
{
    chat_interruption_t in = { "eof", 0 };

    read_text("{\"type\":\"tool-input-start\",\"toolCallId\":\"c\\\"1\","
              "\"toolName\":\"t\"}");
    forward(events.items[0].call);
    read_text("{\"type\":\"tool-input-start\",\"toolCallId\":\"c2\","
              "\"toolName\":\"dyn\",\"dynamic\":true}");
    forward(events.items[0].call);

    chat_dialect_ai_sdk.interrupted(reader, &in, &out);
    assert_out(
        "data: {\"type\":\"tool-input-error\",\"toolCallId\":\"c\\\"1\","
        "\"toolName\":\"t\",\"input\":{},\"errorText\":\"The stream broke off "
        "before the input was complete.\"}\n\n"
        "data: {\"type\":\"tool-input-error\",\"toolCallId\":\"c2\","
        "\"toolName\":\"dyn\",\"input\":{},\"errorText\":\"The stream broke "
        "off before the input was complete.\",\"dynamic\":true}\n\n"
        "data: {\"type\":\"data-chat-interrupted\",\"data\":{\"reason\":"
        "\"eof\",\"resumable\":false},\"transient\":true}\n\n"
        "data: {\"type\":\"error\",\"errorText\":\"The answer broke off "
        "before it was complete (stream_interrupted: eof).\"}\n\n");

    out.len = 0;
    in = (chat_interruption_t){ "stall", 1 };
    chat_dialect_ai_sdk.interrupted(NULL, &in, &out);
    assert_out(
        "data: {\"type\":\"data-chat-interrupted\",\"data\":{\"reason\":"
        "\"stall\",\"resumable\":true},\"transient\":true}\n\n"
        "data: {\"type\":\"error\",\"errorText\":\"The answer broke off "
        "before it was complete (stream_interrupted: stall); it can be "
        "resumed.\"}\n\n");
}


#define TOLD_A                                                        \
    "data: {\"type\":\"tool-output-available\",\"toolCallId\":\"a\"," \
    "\"output\":{  \"x\":\"l\\nm\" }}\n\n"
#define TOLD_B                                                    \
    "data: {\"type\":\"tool-output-error\",\"toolCallId\":\"b\"," \
    "\"errorText\":\"no\",\"dynamic\":true}\n\n"
#define TOLD_C \
    "data: {\"type\":\"tool-output-denied\",\"toolCallId\":\"c\"}\n\n"

static chat_call_t         calls[5];
static const chat_result_t told[] = {
    { &calls[0], CHAT_STR("a"), CHAT_OUTCOME_OK, 0,
      CHAT_STR("{ \n\"x\":\"l\\nm\"\r}"), NULL, 0 },
    { &calls[3], CHAT_STR("d"), CHAT_OUTCOME_NONE, CHAT_APPROVAL_GRANTED,
      CHAT_STR(""), NULL, 0 },
    { &calls[4], CHAT_STR("e"), CHAT_OUTCOME_OK, 0, CHAT_STR("1"), NULL, 0 },
    { NULL, CHAT_STR("f"), CHAT_OUTCOME_OK, 0, CHAT_STR("1"), NULL, 0 },
    { &calls[1], CHAT_STR("b"), CHAT_OUTCOME_ERROR, 0, CHAT_STR("\"no\""),
      NULL, 0 },
    { &calls[2], CHAT_STR("c"), CHAT_OUTCOME_DENIED, 0, CHAT_STR(""), NULL,
      0 },
};
#define NTOLD (sizeof(told) / sizeof(told[0]))


static void
calls_make(void)
{
    static const char *const ids[] = { "a", "b", "c", "d", "e" };
    size_t                   i;

    for (i = 0; i < 5; i++) {
        calls[i].id = chat_cstr(ids[i]);
        calls[i].in_last_message = i < 4;
    }

    calls[1].dynamic = 1;
    calls[2].dynamic = 1;
    memset(&rq, 0, sizeof(rq));
}


/* An approval, an older message's call and a chained one have no event. */
static void
s100_merged_results_are_injected(void **state)
{
    calls_make();
    chat_dialect_ai_sdk.inject(told, NTOLD, &out);
    assert_out(TOLD_A TOLD_B TOLD_C);

    out.len = 0;
    calls_make();
    chat_dialect_ai_sdk.inject(told, 0, &out);
    assert_int_equal(out.len, 0);
}


static void
s58_a_bounce_injects_and_opens_no_message(void **state)
{
    calls_make();
    rq.last_message = chat_cstr("m");
    chat_dialect_ai_sdk.bounce(&rq, told, NTOLD, &out);
    assert_out(TOLD_A TOLD_B TOLD_C
               "data: {\"type\":\"start\"}\n\n"
               "data: {\"type\":\"finish\"}\n\ndata: [DONE]\n\n");
}


#define EMPTY_HEAD \
    "data: {\"type\":\"start\"}\n\ndata: {\"type\":\"start-step\"}\n\n"
#define EMPTY_TAIL                         \
    "data: {\"type\":\"finish-step\"}\n\n" \
    "data: {\"type\":\"finish\"}\n\ndata: [DONE]\n\n"

static void
an_empty_turn_publishes_one_step(void **state)
{
    calls_make();
    rq.last_message = chat_cstr("m\"1");
    assert_int_equal(chat_dialect_ai_sdk.empty(&rq, told, NTOLD, &out),
                     CHAT_OK);
    assert_out(TOLD_A TOLD_B TOLD_C EMPTY_HEAD
               "data: {\"type\":\"start\",\"messageId\":\"m\\\"1\"}"
               "\n\n" EMPTY_TAIL);

    /* there may be nothing to tell */
    out.len = 0;
    assert_int_equal(chat_dialect_ai_sdk.empty(&rq, NULL, 0, &out), CHAT_OK);
    assert_out(EMPTY_HEAD "data: {\"type\":\"start\",\"messageId\":"
                          "\"m\\\"1\"}\n\n" EMPTY_TAIL);

    out.len = 0;
    rq.last_message.len = 0;
    assert_int_equal(chat_dialect_ai_sdk.empty(&rq, told, NTOLD, &out),
                     CHAT_DECLINED);
    assert_int_equal(out.len, 0);
}


static void
refusals(void **state)
{
    chat_str_t     ids[] = { CHAT_STR("a"), CHAT_STR("b\"") };
    chat_refusal_t refusal = {
        409, "batch_incomplete", "Some \"lack\".", ids, 2, 0, 0
    };

    chat_dialect_refuse(&chat_dialect_ai_sdk, &refusal, 0, &out);
    assert_out("{\"error\":{\"code\":\"batch_incomplete\",\"message\":"
               "\"Some \\\"lack\\\".\",\"toolCallIds\":[\"a\",\"b\\\"\"]}}");

    out.len = 0;
    chat_dialect_refuse(&chat_dialect_ai_sdk, &refusal, 1, &out);
    assert_out("data: {\"type\":\"error\",\"errorText\":\"batch_incomplete: "
               "Some \\\"lack\\\". (a, b\\\")\"}\n\n");

    out.len = 0;
    refusal.nids = 0;
    chat_dialect_refuse(&chat_dialect_ai_sdk, &refusal, 1, &out);
    assert_out("data: {\"type\":\"error\",\"errorText\":\"batch_incomplete: "
               "Some \\\"lack\\\".\"}\n\n");
}


#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(body_and_stream_agree),
        TEST(too_many_calls_are_opaque),
        TEST(an_endless_id_or_name_is_opaque),
        TEST(a_reader_out_of_memory_says_so),
        TEST(s71_interrupted_closes_what_is_half_open),
        TEST(s100_merged_results_are_injected),
        TEST(s58_a_bounce_injects_and_opens_no_message),
        TEST(an_empty_turn_publishes_one_step),
        TEST(refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
