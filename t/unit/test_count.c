/*
 * test_count.c: events of a stream are counted and numbered as a client counts
 * them.
 *
 * If a count is off by one, a client that resumes gets an event twice or not
 * at all. So counts are compared with the parser's own frames, over random
 * streams, whole and cut at each byte; the state is written and read again at
 * each cut.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sse/chat_position.h"
#include "sse/chat_sse.h"
#include "../buf_printf.h"

#define BOM "\xef\xbb\xbf"
#define ENDS_MAX 256

static unsigned long seed = 1;


static unsigned
pick(unsigned below)
{
    seed = seed * 6364136223846793005UL + 1442695040888963407UL;
    return (unsigned) (seed >> 33) % below;
}


/* The ends of the frames with data, from the parser. */
static size_t
ends_of(chat_str_t text, size_t *ends)
{
    size_t       at = 0, n = 0;
    chat_sse_t   sse;
    chat_frame_t frame;

    sse = (chat_sse_t){ .max_frame = 0 };
    chat_sse_feed(&sse, text);

    while (chat_sse_next(&sse, &frame) == CHAT_SSE_FRAME) {
        at += frame.raw.len;
        if (frame.has_data) {
            assert_true(n < ENDS_MAX);
            ends[n++] = at;
        }
    }

    chat_sse_free(&sse);
    return n;
}


/* The state as another process reads it. */
static void
hand_over(chat_count_t *count)
{
    size_t        len;
    chat_count_t  before = *count;
    unsigned char text[CHAT_COUNT_ROOM], *start;

    start = chat_count_write(count, text + sizeof(text));
    len = (size_t) (text + sizeof(text) - start);
    memset(count, 0xff, sizeof(*count));
    assert_int_equal(chat_count_read(count, chat_str(start, len)), len);
    assert_memory_equal(count, &before, sizeof(before));
}


/* Counts in two pieces: the events and the end of each. */
static void
check_cut(chat_str_t text, size_t cut, const size_t *ends, size_t n)
{
    size_t       at, to, i;
    chat_count_t count;

    for (i = 0; i <= n; i++) {
        memset(&count, 0, sizeof(count));
        at = chat_count_to(&count, chat_str(text.data, cut), i);
        assert_true(at <= cut);

        if (at == cut && i != 0
            && (count.events < i || chat_count_is_inside(&count))) {
            hand_over(&count);
            to = chat_count_to(&count,
                               chat_str(text.data + cut, text.len - cut), i);
            at += to;
        }

        assert_int_equal(at, i ? ends[i - 1] : 0);
        assert_int_equal(count.events, i);
    }
}


static void
check(const char *bytes, size_t len)
{
    int          ended;
    size_t       i, n, cut, ends[ENDS_MAX];
    chat_str_t   text = chat_str(bytes, len);
    chat_count_t count = { 0 };

    n = ends_of(text, ends);

    for (cut = 0; cut <= len; cut++) {
        check_cut(text, cut, ends, n);
    }

    for (i = 0; i < len;) {
        i += chat_count_frame(&count, chat_str(bytes + i, 1), &ended);
    }

    assert_int_equal(count.events, n);
}


static void
events_are_counted_as_the_parser_has_them(void **state)
{
    size_t      len, k, runs;
    char        text[512];
    const char *piece;

    static const char *const pieces[] = {
        "data: a",  "data",  "data:",    "datas: x", ": data",
        "event: x", "id: 7", "\n",       "\r",       "\r\n",
        "\n\n",     "\r\r",  "\r\n\r\n", BOM,        "dat",
        "d",        "\xef",  "\n",       "\n\n",     "data: b\n\n"
    };

    (void) state;

    for (runs = 0; runs < 20000; runs++) {
        len = 0;
        for (k = pick(10); k > 0; k--) {
            piece = pieces[pick(sizeof(pieces) / sizeof(pieces[0]))];
            memcpy(text + len, piece, strlen(piece));
            len += strlen(piece);
        }
        check(text, len);
    }
}


static void
no_text_is_a_count_but_its_own(void **state)
{
    size_t       i;
    chat_count_t count;

    static const char *const bad[] = { "",
                                       "1",
                                       "1 ",
                                       "1 0",
                                       "x 0\n",
                                       "1  0\n",
                                       "1 512\n",
                                       "-1 0\n",
                                       "1 0\r",
                                       " 1 0\n",
                                       "1234567890123456789 0\n" };

    (void) state;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(chat_count_read(&count, chat_cstr(bad[i])), 0);
    }

    assert_int_equal(chat_count_read(&count, chat_cstr("12 40\nrest")), 6);
    assert_int_equal(count.events, 12);
}


/* Frames go in one by one, or pieces of one; the output must be this. */
static void
numbers(const char *const *frames, int are_pieces, const char *expected)
{
    chat_buf_t    out = { 0 };
    chat_number_t number = { CHAT_STR("s"), { 0, 0, 0 } };

    for (; *frames != NULL; frames++) {
        chat_number_add(&number, chat_cstr(*frames), are_pieces, &out);
    }

    assert_int_equal(out.len, strlen(expected));
    assert_memory_equal(out.data, expected, out.len);
    chat_buf_free(&out);
}


#define NUMBERS(expected, ...)                              \
    do {                                                    \
        const char *const frames[] = { __VA_ARGS__, NULL }; \
        numbers(frames, 0, expected);                       \
    } while (0)

#define NUMBERS_PIECES(expected, ...)                       \
    do {                                                    \
        const char *const frames[] = { __VA_ARGS__, NULL }; \
        numbers(frames, 1, expected);                       \
    } while (0)


static void
each_event_gets_one_line_at_its_beginning(void **state)
{
    (void) state;

    NUMBERS("id: s-1\ndata: a\n\nid: s-2\ndata: b\n\n", "data: a\n\n",
            "data: b\n\n");
    NUMBERS("id: s-1\ndata: a\n\nid: s-2\ndata: b\n\n",
            "data: a\n\ndata: b\n\n");
    NUMBERS("id: s-1\nevent: x\r\ndata: a\r\n\r\n",
            "event: x\r\ndata: a\r\n\r\n");
    NUMBERS(": c\n\nid: s-1\ndata: a\n\n: d\n\n", ": c\n\n", "data: a\n\n",
            ": d\n\n");
    NUMBERS(BOM "id: s-1\ndata: a\n\n", BOM "data: a\n\n");
}


static void
a_line_of_its_own_goes(void **state)
{
    (void) state;

    NUMBERS("id: s-1\ndata: a\n\n", "id: 7\ndata: a\n\n");
    NUMBERS("id: s-1\ndata: a\n\n", "data: a\nid\n\n");
    NUMBERS("id: s-1\ndata: id: 7\nids: x\n\n",
            "data: id: 7\nid:\nids: x\n\n");
    NUMBERS("id: s-1\ndata: a\n\nid: s-2\ndata: b\n\n",
            "data: a\n\nid: 7\ndata: b\n\n");
    NUMBERS("\nid: s-1\ndata: a\n\n", "id: 7\n\n", "data: a\n\n");
    NUMBERS(BOM "id: s-1\ndata: a\n\n", BOM "id: 7\ndata: a\n\n");
    NUMBERS("\nid: s-1\n" BOM "id: 7\ndata: a\n\n", "\n",
            BOM "id: 7\ndata: a\n\n");
}


/* Else its CR and the LF of the blank line would be one end. */
static void
the_end_of_a_line_that_goes_ends_the_one_before(void **state)
{
    (void) state;

    NUMBERS("id: s-1\ndata: a\n\n", "data: a\rid: 7\n\n");
    NUMBERS("id: s-1\ndata: a\r\n\r\n", "id\rdata: a\r\nid: 7\r\n\r\n");
    NUMBERS("id: s-1\ndata: a\r", "data: a\rid: 7");
}


/* Events with known ends: the same bytes, the same count. */
static void
known_ends_make_no_difference(void **state)
{
    size_t        i, n;
    size_t        ends[40];
    chat_buf_t    text = { 0 }, out = { 0 }, known = { 0 };
    chat_number_t a = { CHAT_STR("s"), { 0, 0, 0 } }, b = a;

    (void) state;
    chat_number_add(&a, chat_cstr("data: a\n\n"), 0, &out);
    chat_number_add(&b, chat_cstr("data: a\n\n"), 0, &known);

    for (n = 0; n < 120; n += 40) {
        text.len = 0;
        for (i = 0; i < 40; i++) {
            chat_buf_printf(&text, "event: x\ndata: %zu\n\n", n + i);
            ends[i] = text.len;
        }
        chat_number_add(&a, chat_buf_str(&text), 0, &out);
        chat_number_events(&b, chat_buf_str(&text), ends, 40, &known);
    }

    assert_int_equal(known.len, out.len);
    assert_memory_equal(known.data, out.data, out.len);
    assert_memory_equal(&b.count, &a.count, sizeof(a.count));
    chat_buf_free(&text);
    chat_buf_free(&out);
    chat_buf_free(&known);
}


static void
a_frame_in_pieces_has_its_number_last(void **state)
{
    (void) state;

    NUMBERS_PIECES("data: aaa\nid: 7\nid: s-1\n\n", "data: a", "aa\nid: 7\n",
                   "\n");
    NUMBERS_PIECES("data: aaa\nid: 7\nid: s-1\n\n", "data: aaa\nid: 7\n\n");
    NUMBERS_PIECES("data: a\r\nid: s-1\r\n\r\n", "data: a\r", "\n\r", "\n");
    NUMBERS_PIECES("data: a\r\nid: s-1\r\n\r\n", "data: a\r\n\r\n");
    NUMBERS_PIECES("data: a\rid: s-1\r\n\r", "data: a\r\r");
    NUMBERS_PIECES(": a comment\n\n", ": a comm", "ent\n\n");
}


static void
a_frame_that_is_no_event_has_no_number(void **state)
{
    (void) state;

    NUMBERS("\r\n\rid: s-1\ndata: a\n\n", "\r\n", "\r", "data: a\n\n");
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_counted_as_the_parser_has_them),
        cmocka_unit_test(no_text_is_a_count_but_its_own),
        cmocka_unit_test(each_event_gets_one_line_at_its_beginning),
        cmocka_unit_test(a_line_of_its_own_goes),
        cmocka_unit_test(the_end_of_a_line_that_goes_ends_the_one_before),
        cmocka_unit_test(known_ends_make_no_difference),
        cmocka_unit_test(a_frame_in_pieces_has_its_number_last),
        cmocka_unit_test(a_frame_that_is_no_event_has_no_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
