/*
 * test_stream_memory.c: a stream without memory to read it: it passes, to the
 * last byte and in order, and the store gets it as broken.
 *
 * The sanitizer's allocator refuses blocks above a megabyte.
 */

#include "stream_run.h"

#define UI_START "data: {\"type\":\"start\",\"messageId\":\"m1\"}\n\n"
#define UI_DONE "data: {\"type\":\"finish\"}\n\ndata: [DONE]\n\n"
#define UI_INPUT(id, more)                                         \
    "data: {\"type\":\"tool-input-start\",\"toolCallId\":\"" id    \
    "\",\"toolName\":\"t\"}\n\ndata: {\"type\":\"tool-input-" more \
    "\",\"toolCallId\":\"" id "\""
#define REQUEST                                                            \
    "{\"id\":\"talk\",\"messages\":[{\"id\":\"u1\",\"role\":\"user\","     \
    "\"parts\":[]},{\"id\":\"m1\",\"role\":\"assistant\",\"parts\":[{"     \
    "\"type\":\"tool-t\",\"toolCallId\":\"known-call-abcdefgh12345678\","  \
    "\"state\":\"output-available\",\"input\":{\"a\":1},\"output\":2}]}]," \
    "\"trigger\":\"submit-message\"}"

const char *__asan_default_options(void);

const char *
__asan_default_options(void)
{
    return "max_allocation_size_mb=1:allocator_may_return_null=1";
}


static unsigned char got[4000000];


/* Pushes each piece; the output must equal the input. */
static void
passes(const char *body, const chat_buf_t *pieces, size_t n, size_t max)
{
    size_t              i, k, len, count;
    stream_t            s;
    chat_buf_t          all = { 0 };
    chat_stream_t      *stream;
    const chat_piece_t *out;

    len = 0;
    stream_begin(&s, "ai_sdk", body);
    s.conf.max_event = max;
    stream = chat_stream_create(&s.conf);
    assert_non_null(stream);

    for (i = 0; i < n; i++) {
        assert_int_equal(
            chat_stream_push(stream, chat_buf_str(&pieces[i]), &out, &count),
            CHAT_OK);
        for (k = 0; k < count; k++) {
            assert_true(len + out[k].bytes.len <= sizeof(got));
            memcpy(got + len, out[k].bytes.data, out[k].bytes.len);
            len += out[k].bytes.len;
        }
    }

    assert_int_equal(chat_stream_finish(stream, "reset", 0, &out, &count),
                     CHAT_OK);
    assert_int_equal(count, 0);
    assert_true(chat_stream_info(stream)->foreign);
    assert_int_equal(chat_stream_info(stream)->end, CHAT_END_NONE);

    for (i = 0; i < n; i++) {
        assert_true(all.len + pieces[i].len <= len);
        assert_memory_equal(got + all.len, pieces[i].data, pieces[i].len);
        all.len += pieces[i].len;
    }

    assert_int_equal(all.len, len);
    chat_stream_destroy(stream);
    stream_end(&s);
}


static void
fill(chat_buf_t *buf, const char *text, size_t len)
{
    assert_non_null(chat_buf_reserve(buf, len + 100));
    while (buf->len + strlen(text) < len) {
        chat_buf_puts(buf, text);
    }
    assert_false(buf->failed);
}


static void
a_frame_in_two_pieces(void **state)
{
    chat_buf_t pieces[3] = { { 0 } };

    chat_buf_puts(&pieces[0],
                  UI_START "data: {\"type\":\"data-x\",\"data\":\"");
    fill(&pieces[0], "0123456789", 300000);
    fill(&pieces[1], "abcdefghij", 900000);
    chat_buf_puts(&pieces[1], "\"}\n\n" UI_START "data: {\"ty");
    chat_buf_puts(&pieces[2], "pe\":\"x\"}\n\n" UI_DONE);
    passes(NULL, pieces, 3, 8000000);
    chat_buf_free(&pieces[0]);
    chat_buf_free(&pieces[1]);
    chat_buf_free(&pieces[2]);
}


/* A replay waits, and there is no room for the next bytes. */
static void
what_waits_goes_first(void **state)
{
    static const char    begin[] = "data: {\"type\":\"data-x\",\"data\":\"";
    static const char    end[] = "\"}\n\n" UI_DONE;
    static unsigned char text[1300000];

    chat_buf_t pieces[2] = { { 0 }, { .data = text, .len = sizeof(text) } };

    memset(text, 'x', sizeof(text));
    memcpy(text, begin, sizeof(begin) - 1);
    memcpy(text + sizeof(text) - (sizeof(end) - 1), end, sizeof(end) - 1);

    chat_buf_puts(
        &pieces[0],
        UI_START UI_INPUT("known-call-abcdefgh12345678",
                          "delta") ",\"inputTextDelta\":\"{\"}\n\n" UI_START);
    passes(REQUEST, pieces, 2, 8000000);
    chat_buf_free(&pieces[0]);
}


/* The copy of arguments with an escape, in a frame of a known form. */
static void
escaped_arguments(void **state)
{
    static const char begin[] = UI_START UI_INPUT(
        "new-call",
        "delta") ",\"inputTextDelta\":\"{\"}\n\n"
                 "data: "
                 "{\"type\":\"tool-input-delta\",\"toolCallId\":\"new-call\","
                 "\"inputTextDelta\":\"\\n";
    static const char    end[] = "\"}\n\n" UI_DONE;
    static unsigned char text[1300000];

    chat_buf_t body = { .data = text, .len = sizeof(text) };

    memset(text, 'x', sizeof(text));
    memcpy(text, begin, sizeof(begin) - 1);
    memcpy(text + sizeof(text) - (sizeof(end) - 1), end, sizeof(end) - 1);
    passes(NULL, &body, 1, 8000000);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_in_two_pieces),
        cmocka_unit_test(escaped_arguments),
        cmocka_unit_test(what_waits_goes_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
