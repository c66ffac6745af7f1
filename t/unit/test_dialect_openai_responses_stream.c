/*
 * test_dialect_openai_responses_stream.c: streams of the Responses API: the
 * frames after calls are dropped, and the module's own events. The transcripts
 * in t/cases/openai_responses test the reader.
 */

#define _GNU_SOURCE

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "dialect_run.h"
#include "../buf_printf.h"

#define MAX_ITEMS 5

static const chat_dialect_t *const dialect = &chat_dialect_openai_responses;

/* A running stream without the calls at the positions of the mask. */
typedef struct {
    chat_arena_t  *arena;
    chat_arena_t  *frame;
    chat_reader_t *state;
    unsigned       mask;
    chat_buf_t     out;
    unsigned       opens;
    unsigned       ends;
    unsigned       seals;
    unsigned       ready;
    unsigned       declined;
} watch_t;


static void
run_open(watch_t *run)
{
    memset(run, 0, sizeof(*run));
    run->arena = chat_arena_create(0);
    run->frame = chat_arena_create(0);
    assert_non_null(run->arena);
    assert_non_null(run->frame);
    run->state = chat_dialect_open(dialect, run->arena, NULL);
    assert_non_null(run->state);
}


static void
run_close(watch_t *run)
{
    chat_arena_destroy(run->arena);
    chat_arena_destroy(run->frame);
    chat_buf_free(&run->out);
}


static void
run_event(watch_t *run, const chat_event_t *event)
{
    run->opens += event->type == CHAT_EVENT_TURN_OPEN;
    run->seals += event->type == CHAT_EVENT_STEP_SEAL;
    run->ends += event->type == CHAT_EVENT_TURN_END;
    run->ready += event->type == CHAT_EVENT_CALL_READY;
}


static int
is_dropped(const void *data, const chat_event_t *event)
{
    uint32_t        place = event->call->place;
    const unsigned *mask = data;

    /* of the first response, in an item or in its output alone */
    return place < 65536 && place % 1024 < 32 && (*mask >> place % 1024 & 1);
}


static void
run_frame(watch_t *run, const chat_frame_t *frame)
{
    int             parsed;
    size_t          i;
    chat_rc_e       rc;
    chat_events_t   events;
    chat_json_doc_t doc;

    chat_arena_reset(run->frame);
    parsed = frame->has_data
             && chat_json_parse(&doc, run->frame, frame->data) == CHAT_OK;

    chat_events_init(&events, run->frame);
    rc = chat_dialect_frame(dialect, run->state, frame, parsed ? &doc : NULL,
                            &events);
    run->declined += rc == CHAT_DECLINED;

    for (i = 0; i < events.count; i++) {
        run_event(run, &events.items[i]);
    }

    cut_open(&run->state->calls, &events, is_dropped, &run->mask);
    cut_frame(&run->state->calls, &events, frame, &run->out);
}


static void
run_bytes(watch_t *run, chat_str_t bytes)
{
    chat_sse_t    sse;
    chat_frame_t  frame;
    chat_sse_rc_e rc;

    sse = (chat_sse_t){ .max_frame = 0 };
    chat_sse_feed(&sse, bytes);

    while ((rc = chat_sse_next(&sse, &frame)) == CHAT_SSE_FRAME) {
        run_frame(run, &frame);
    }

    assert_int_equal(rc, CHAT_SSE_MORE);
    chat_sse_free(&sse);
}


/* ---- dropped calls ---- */


/*
 * A response with calls (c) and messages (m) as its items. Those in the mask
 * are left out; the others are as if those had never existed, except for
 * sequence_number. final: which items response.output lists at the end.
 */
typedef struct {
    const char *kinds;
    unsigned    left_out;
    unsigned    final;
    unsigned    base; /* call ids from here on */
} stream_t;


static void
put(chat_buf_t *out, int shown, unsigned *number, const char *type,
    unsigned index, const char *rest)
{
    if (shown) {
        chat_buf_printf(out,
                        "event: %s\ndata: {\"type\":\"%s\",\"output_index\":"
                        " %u ,\"sequence_number\":%u%s}\n\n",
                        type, type, index, *number, rest);
    }

    ++*number;
}


static void
put_item(chat_buf_t *out, const stream_t *stream, unsigned i, unsigned index,
         unsigned *number)
{
    int  shown = !(stream->left_out >> i & 1);
    char item[256];

    if (stream->kinds[i] == 'm') {
        put(out, shown, number, "response.output_item.added", index,
            ",\"item\":{\"type\":\"message\",\"id\":\"m\"}");
        put(out, shown, number, "response.output_text.delta", index,
            ",\"delta\":\"hi\"");
        put(out, shown, number, "response.output_item.done", index,
            ",\"item\":{\"type\":\"message\",\"id\":\"m\"}");
        return;
    }

    snprintf(item, sizeof(item),
             ",\"item\":{\"type\":\"function_call\",\"call_id\":\"call_%u\"}",
             stream->base + i);
    put(out, shown, number, "response.output_item.added", index, item);
    put(out, shown, number, "response.function_call_arguments.delta", index,
        ",\"delta\":\"{}\"");
    put(out, shown, number, "response.function_call_arguments.done", index,
        ",\"arguments\":\"{}\"");
    put(out, shown, number, "response.output_item.done", index, item);
}


static void
put_stream(chat_buf_t *out, const stream_t *stream)
{
    unsigned i, n = 0, index = 0, number = 1;

    chat_buf_puts(out, "data: {\"type\":\"response.created\",\"response\":"
                       "{\"id\":\"r\",\"output\":[]}}\n\n: comment\n\n");

    for (i = 0; stream->kinds[i] != '\0'; i++) {
        put_item(out, stream, i, index, &number);
        index += !(stream->left_out >> i & 1);
    }

    chat_buf_puts(out, "data: {\"type\":\"response.completed\",\"response\":"
                       "{\"id\":\"r\",\"output\":[");

    for (i = 0; stream->kinds[i] != '\0'; i++) {
        if ((stream->left_out >> i & 1) || !(stream->final >> i & 1)) {
            continue;
        }

        chat_buf_puts(out, n++ ? "," : "");
        if (stream->kinds[i] == 'm') {
            chat_buf_puts(out, "{\"type\":\"message\",\"id\":\"m\"}");
        } else {
            chat_buf_printf(out,
                            "{\"call_id\":\"call_%u\",\"type\":"
                            "\"function_call\"}",
                            stream->base + i);
        }
    }

    chat_buf_puts(out, "],\"usage\":null}}\n\n");
}


/* The whole stream with those calls dropped is the stream without them. */
static void
try_drop(const char *kinds, unsigned mask, unsigned final)
{
    watch_t    run;
    chat_buf_t all = { 0 }, want = { 0 };
    stream_t   stream = { kinds, 0, final, 0 };

    put_stream(&all, &stream);
    stream.left_out = mask;
    put_stream(&want, &stream);

    /* a second response in the same stream has its own numbers */
    stream.base = 10;
    stream.left_out = 0;
    put_stream(&all, &stream);
    put_stream(&want, &stream);

    run_open(&run);
    run.mask = mask;
    run_bytes(&run, chat_buf_str(&all));
    chat_buf_add(&run.out, chat_str("", 1));
    chat_buf_add(&want, chat_str("", 1));
    assert_string_equal((char *) run.out.data, (char *) want.data);

    run_close(&run);
    chat_buf_free(&all);
    chat_buf_free(&want);
}


static void
s19_a_dropped_call_leaves_no_gap(void **state)
{
    size_t                   i;
    unsigned                 k, mask, calls;
    static const char *const kinds[] = { "c",   "cc",   "mc",  "cm",
                                         "cmc", "ccmc", "mccc" };

    for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        calls = 0;
        for (k = 0; kinds[i][k] != '\0'; k++) {
            calls |= (unsigned) (kinds[i][k] == 'c') << k;
        }

        for (mask = 0; mask <= calls; mask++) {
            if ((mask & calls) != mask) {
                continue;
            }
            try_drop(kinds[i], mask, ~0u);

            /* a gateway added the replay; the snapshot does not have it */
            try_drop(kinds[i], mask, ~mask);
        }
    }
}


static void
s19_an_item_that_only_the_snapshot_has_is_dropped_there(void **state)
{
    watch_t run;

    run_open(&run);
    run.mask = 1;
    run_bytes(
        &run,
        chat_cstr("data: {\"type\":\"response.completed\",\"response\":"
                  "{\"output\":[ {\"type\":\"function_call\",\"call_id\":"
                  "\"call_1\",\"arguments\":\"{}\"} , {\"type\":"
                  "\"message\"} ]}}\n\n"));
    chat_buf_add(&run.out, chat_str("", 1));
    assert_string_equal((char *) run.out.data,
                        "data: {\"type\":\"response.completed\",\"response\":"
                        "{\"output\":[ {\"type\":\"message\"} ]}}\n\n");
    run_close(&run);
}


static void
interrupted(watch_t *run, const char *want)
{
    chat_buf_t          out = { 0 };
    chat_interruption_t in = { "eof", 0 };

    chat_dialect_interrupted(dialect, run->state, &in, &out);
    chat_buf_add(&out, chat_str("", 1));
    assert_string_equal((char *) out.data, want);
    chat_buf_free(&out);
}


#define WORDS                                                                \
    "\"Upstream connection error: the stream was terminated before its end " \
    "(eof)\""

#define BROKEN(number)                                                 \
    "event: error\ndata: "                                             \
    "{\"type\":\"error\",\"code\":\"stream_interrupted\","             \
    "\"message\":" WORDS ",\"param\":null,\"sequence_number\":" number \
    ",\"error\":{\"type\":\"server_error\",\"code\":"                  \
    "\"stream_interrupted\",\"message\":" WORDS ",\"param\":null}}\n\n"

#define TEXT(more) \
    "data: {\"type\":\"response.output_text.delta\"" more "}\n\n"


static void
s71_s115_interrupted_repeats_the_last_sequence_number(void **state)
{
    watch_t run;

    run_open(&run);
    interrupted(&run, BROKEN("0"));

    run_bytes(&run, chat_cstr("data: {\"type\":\"response.created\","
                              "\"sequence_number\":7}\n\n"));
    interrupted(&run, BROKEN("7"));

    /* the text's contents do not belong to the frame */
    run_bytes(&run, chat_cstr(TEXT(",\"delta\":\"\\\"sequence_number\\\":1\","
                                   "\"sequence_number\":50")));
    interrupted(&run, BROKEN("50"));
    run_bytes(&run, chat_cstr(TEXT("")));
    interrupted(&run, BROKEN("50"));
    run_close(&run);
}


/* ---- the module's own events ---- */


static void
s56_an_empty_turn_is_a_whole_response(void **state)
{
    watch_t        run;
    chat_buf_t     out = { 0 }, again = { 0 };
    chat_request_t rq;

    memset(&rq, 0, sizeof(rq));
    rq.stream = 1;
    assert_int_equal(dialect->empty(&rq, NULL, 0, &out), CHAT_OK);
    assert_int_equal(dialect->empty(&rq, NULL, 0, &again), CHAT_OK);
    assert_true(chat_str_eq(chat_buf_str(&out), chat_buf_str(&again)));

    run_open(&run);
    run_bytes(&run, chat_buf_str(&out));
    assert_int_equal(run.declined, 0);
    assert_int_equal(run.opens, 1);
    assert_int_equal(run.seals, 1);
    assert_int_equal(run.ends, 1);
    assert_int_equal(run.ready, 0);
    run_close(&run);

    /* another request has another id, in a stream and in JSON */
    rq.conversation = chat_cstr("c");
    again.len = 0;
    assert_int_equal(dialect->empty(&rq, NULL, 0, &again), CHAT_OK);
    assert_false(chat_str_eq(chat_buf_str(&out), chat_buf_str(&again)));

    rq.stream = 0;
    again.len = 0;
    assert_int_equal(dialect->empty(&rq, NULL, 0, &again), CHAT_OK);
    assert_true(chat_str_starts(chat_buf_str(&again), "{\"id\":\"resp_chat_"));
    assert_non_null(
        memmem(again.data, again.len, "\"status\":\"completed\"", 20));

    chat_buf_free(&out);
    chat_buf_free(&again);
}


static void
refusals(void **state)
{
    chat_buf_t     out = { 0 };
    chat_str_t     ids[] = { CHAT_STR("call_\"1"), CHAT_STR("call_2") };
    chat_refusal_t refusal = {
        409, "batch_incomplete", "Wait.", ids, 2, 0, 0
    };

    dialect->refuse(&refusal, 0, &out);
    chat_buf_add(&out, chat_str("", 1));
    assert_string_equal((char *) out.data,
                        "{\"error\":{\"type\":\"invalid_request_error\","
                        "\"code\":\"batch_incomplete\",\"message\":\"Wait.\","
                        "\"param\":\"input\",\"call_ids\":[\"call_\\\"1\","
                        "\"call_2\"]}}");
    out.len = 0;
    refusal.nids = 0;
    dialect->refuse(&refusal, 1, &out);
    chat_buf_add(&out, chat_str("", 1));
    assert_string_equal((char *) out.data,
                        "event: error\ndata: {\"type\":\"error\","
                        "\"code\":\"batch_incomplete\",\"message\":\"Wait.\","
                        "\"param\":\"input\",\"call_ids\":[],"
                        "\"sequence_number\":0,\"error\":{\"type\":"
                        "\"invalid_request_error\",\"code\":"
                        "\"batch_incomplete\",\"message\":\"Wait.\",\"param\":"
                        "\"input\",\"call_ids\":[]}}\n\n");
    chat_buf_free(&out);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(s19_a_dropped_call_leaves_no_gap),
        cmocka_unit_test(
            s19_an_item_that_only_the_snapshot_has_is_dropped_there),
        cmocka_unit_test(
            s71_s115_interrupted_repeats_the_last_sequence_number),
        cmocka_unit_test(s56_an_empty_turn_is_a_whole_response),
        cmocka_unit_test(refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
