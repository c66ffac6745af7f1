/*
 * test_dialect_openai_responses_replay.c: a Responses stream through the whole
 * core: a request that brings results, an answer that repeats the calls, and
 * the bytes that the client gets, at every cut.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "stream/chat_stream.h"
#include "../tenant.h"

#define ITEM(id, args, status)                                                \
    "{\"type\":\"function_call\",\"status\":\"" status "\",\"call_id\":\"" id \
    "\",\"name\":\"f\",\"arguments\":\"" args "\"}"
#define FRAME(type, number, rest)              \
    "event: " type "\ndata: {\"type\":\"" type \
    "\",\"sequence_number\":" number "," rest "}\n\n"
#define ADDED(number, index, item)              \
    FRAME("response.output_item.added", number, \
          "\"output_index\":" index ",\"item\":" item)
#define DELTA(number, index, delta)                         \
    FRAME("response.function_call_arguments.delta", number, \
          "\"output_index\":" index ",\"delta\":\"" delta "\"")
#define DONE(number, index, item)              \
    FRAME("response.output_item.done", number, \
          "\"output_index\":" index ",\"item\":" item)
#define TEXT(number, index)                     \
    FRAME("response.output_text.delta", number, \
          "\"output_index\":" index ",\"delta\":\"hi\"")
#define WHOLE(type, number, output) \
    FRAME(type, number,             \
          "\"response\":{\"id\":\"resp_2\",\"output\":[" output "]}")

#define MESSAGE "{\"type\":\"message\",\"id\":\"msg_1\"}"
#define OLD_ID "call_Ab3dEf6hIj9kLmN0"
#define NEW_ID "call_Zy8xWv5uTs2rQpO1"

static const char body[] =
    "{\"stream\":true,\"store\":false,\"input\":["
    "{\"role\":\"user\",\"content\":\"hi\"},"
    /* the client's own notation of the arguments */
    "{\"type\":\"function_call\",\"call_id\":\"" OLD_ID "\",\"name\":\"f\","
    "\"arguments\":\"{\\\"b\\\":1,\\\"a\\\":2}\"},"
    "{\"type\":\"function_call_output\",\"call_id\":\"" OLD_ID "\","
    "\"output\":\"r\"}]}";

#define OLD_ARGS "{\\\"a\\\":2.0,\\\"b\\\":1}"


typedef struct {
    chat_arena_t   *arena;
    chat_json_doc_t doc;
    chat_request_t  rq;
} asked_t;


static void
ask(asked_t *asked)
{
    memset(asked, 0, sizeof(*asked));
    asked->rq.tenant = &test_tenant;
    asked->arena = chat_arena_create(0);
    assert_int_equal(chat_json_parse(&asked->doc, asked->arena,
                                     chat_str(body, sizeof(body) - 1)),
                     CHAT_OK);
    assert_int_equal(chat_dialect_read(&chat_dialect_openai_responses,
                                       &asked->doc, asked->arena, &asked->rq),
                     CHAT_OK);
}


static void
collect(chat_buf_t *out, const chat_piece_t *pieces, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        chat_buf_add(out, pieces[i].bytes);
    }
}


static void
pass(const char *in, size_t cut, const char *want, unsigned replays)
{
    size_t              n, at, len = strlen(in);
    asked_t             asked;
    chat_buf_t          out = { 0 };
    chat_stream_t      *stream;
    const chat_piece_t *pieces;
    chat_stream_conf_t  conf;

    ask(&asked);
    memset(&conf, 0, sizeof(conf));
    conf.dialect = &chat_dialect_openai_responses;
    conf.request = &asked.rq;
    conf.known = asked.rq.calls + asked.rq.turn;
    conf.nknown = asked.rq.ncalls - asked.rq.turn;
    conf.replay = 1;
    conf.scope.tenant = test_tenant;
    conf.scope.dialect = chat_cstr("openai_responses");
    conf.worker = chat_cstr("w1");
    conf.max_event = 1 << 20;
    conf.max_calls = 128;
    conf.max_result = 1 << 20;

    stream = chat_stream_create(&conf);
    assert_non_null(stream);

    for (at = 0; at < len; at += n) {
        n = at == 0 && cut != 0 ? cut : len - at;
        assert_int_equal(
            chat_stream_push(stream, chat_str(in + at, n), &pieces, &cut),
            CHAT_OK);
        collect(&out, pieces, cut);
    }

    assert_int_equal(chat_stream_finish(stream, NULL, 0, &pieces, &n),
                     CHAT_OK);
    collect(&out, pieces, n);
    chat_buf_add(&out, chat_str("", 1));

    assert_string_equal((char *) out.data, want);
    assert_int_equal(chat_stream_info(stream)->end, CHAT_END_FINISHED);
    assert_int_equal(chat_stream_info(stream)->replay.replays, replays);

    chat_stream_destroy(stream);
    chat_arena_destroy(asked.arena);
    chat_buf_free(&out);
}


static void
at_every_cut(const char *in, const char *want, unsigned replays)
{
    size_t cut, len = strlen(in);

    for (cut = 0; cut < len; cut++) {
        pass(in, cut, want, replays);
    }
}


#define OLD_ADDED ITEM(OLD_ID, "", "in_progress")
#define OLD_DONE ITEM(OLD_ID, OLD_ARGS, "completed")
#define NEW_ADDED ITEM(NEW_ID, "", "in_progress")
#define NEW_DONE ITEM(NEW_ID, "{}", "completed")

#define CREATED WHOLE("response.created", "0", "")


static void
s19_s3_only_the_replay_goes_and_no_gap_is_left(void **state)
{
    at_every_cut(CREATED ADDED("1", "0", OLD_ADDED) DELTA("2", "0", "{")
                     ADDED("3", "1", NEW_ADDED) DELTA("4", "1", "{}")
                         DELTA("5", "0", "}") DONE("6", "0", OLD_DONE)
                             DONE("7", "1", NEW_DONE) ADDED("8", "2", MESSAGE)
                                 TEXT("9", "2") DONE("10", "2", MESSAGE)
                                     WHOLE("response.completed", "11",
                                           OLD_DONE "," NEW_DONE "," MESSAGE),
                 CREATED ADDED("3", "0", NEW_ADDED) DELTA("4", "0", "{}")
                     DONE("7", "0", NEW_DONE) ADDED("8", "1", MESSAGE)
                         TEXT("9", "1") DONE("10", "1", MESSAGE) WHOLE(
                             "response.completed", "11", NEW_DONE "," MESSAGE),
                 1);
}


/* A gateway replays calls; the final snapshot is the provider's. */
static void
s19_the_snapshot_without_the_replay_keeps_its_items(void **state)
{
    static const char want[] = CREATED ADDED("3", "0", NEW_ADDED)
        DONE("4", "0", NEW_DONE) WHOLE("response.completed", "5", NEW_DONE);

    at_every_cut(CREATED ADDED("1", "0", OLD_ADDED) DONE("2", "0", OLD_DONE)
                     ADDED("3", "1", NEW_ADDED) DONE("4", "1", NEW_DONE)
                         WHOLE("response.completed", "5", NEW_DONE),
                 want, 1);
}


static void
s18_a_response_of_replays_alone_is_an_empty_one(void **state)
{
    at_every_cut(CREATED ADDED("1", "0", OLD_ADDED) DONE("2", "0", OLD_DONE)
                     WHOLE("response.completed", "3", OLD_DONE),
                 CREATED WHOLE("response.completed", "3", ""), 1);

    /* known only from the snapshot */
    at_every_cut(CREATED WHOLE("response.completed", "1", OLD_DONE),
                 CREATED WHOLE("response.completed", "1", ""), 1);
}


static void
s14_a_used_id_with_other_arguments_is_a_new_call(void **state)
{
    static const char in[] = CREATED ADDED("1", "0", OLD_ADDED)
        DELTA("2", "0", "{}") DONE("3", "0", ITEM(OLD_ID, "{}", "completed"))
            ADDED("4", "1", MESSAGE) TEXT("5", "1")
                WHOLE("response.completed", "6",
                      ITEM(OLD_ID, "{}", "completed") "," MESSAGE);

    at_every_cut(in, in, 0);
}


static void
s5_a_second_opening_in_the_stream_is_dropped(void **state)
{
    at_every_cut(CREATED ADDED("1", "0", NEW_ADDED) DELTA("2", "0", "{}")
                     ADDED("3", "1", NEW_ADDED) DONE("4", "0", NEW_DONE)
                         DONE("5", "1", NEW_DONE) WHOLE(
                             "response.completed", "6", NEW_DONE "," NEW_DONE),
                 CREATED ADDED("1", "0", NEW_ADDED) DELTA("2", "0", "{}")
                     DONE("4", "0", NEW_DONE)
                         WHOLE("response.completed", "6", NEW_DONE),
                 1);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(s19_s3_only_the_replay_goes_and_no_gap_is_left),
        cmocka_unit_test(s19_the_snapshot_without_the_replay_keeps_its_items),
        cmocka_unit_test(s18_a_response_of_replays_alone_is_an_empty_one),
        cmocka_unit_test(s14_a_used_id_with_other_arguments_is_a_new_call),
        cmocka_unit_test(s5_a_second_opening_in_the_stream_is_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
