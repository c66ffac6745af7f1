/*
 * test_sse.c: the SSE parser, by a table of streams and their frames.
 *
 * Each stream is read whole, byte by byte and at every cut in two, always with
 * the input before a guard page, so that reading too far crashes.
 */

#define _GNU_SOURCE

#include "sse/chat_sse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <cmocka.h>

#define MAX_FRAMES 5
#define MAX_TEXT 256
#define BOM "\xef\xbb\xbf"

/* Data of a frame that comes in pieces. */
static const char pieces[] = "";

/* A frame: its bytes and data (NULL: none). */
typedef struct {
    const char *raw;
    const char *data;
} want_t;

/* The stream is its frames and the tail, concatenated. */
typedef struct {
    const char *tail;
    size_t      limit;
    want_t      frames[MAX_FRAMES];
} case_t;

/* clang-format off */
static const case_t cases[] = {
    { "", 0, { { 0 } } },
    { "", 0, { { "data: a\n\n", "a" } } },
    { "", 0, { { "data: a\r\n\r\n", "a" } } },
    { "", 0, { { "data: a\r\r", "a" } } },
    { "", 0, { { "data:a\n\n", "a" }, { "data: b\n\n", "b" } } },

    /* fields */
    { "", 0, { { "event: e\ndata: a\n\n", "a" } } },
    { "", 0, { { "event: e\nevent: f\ndata:  a \n\n", " a " } } },
    { "", 0, { { "data\n\n", "" } } },
    { "", 0, { { "data:\n\n", "" } } },
    { "", 0, { { "data: \n\n", "" } } },
    { "", 0, { { "event\ndata: x\n\n", "x" } } },
    { "", 0, { { "data: a\ndata\ndata: c\n\n", "a\n\nc" } } },
    { "", 0, { { "data:\ndata:\n\n", "\n" } } },
    { "", 0, { { "data: a\r\ndata: b\rdata: c\n\n", "a\nb\nc" } } },
    { "", 0, {
        { "datax: a\ndat: b\n data: c\nDATA: d\ndata : e\n\n", NULL } } },
    { "", 0, { { "id: 1\nretry: 5\nevents: x\n\n", NULL } } },
    { "", 0, { { ": hold\n\n", NULL }, { "data: a\n\n", "a" } } },
    { "", 0, { { ":c\n: d\ndata: a:b\n\n", "a:b" } } },

    /* blank lines by themselves */
    { "", 0, { { "\n", NULL }, { "\n", NULL } } },
    { ":", 0, { { "\r\n", NULL }, { "\r\n", NULL } } },
    { "", 0, {
        { "data: a\n\n", "a" },
        { "\n", NULL },
        { "data: b\n\n", "b" } } },

    /* mixed line ends */
    { "", 0, {
        { "data: a\r\n\n", "a" },
        { "data: b\n\r", "b" },
        { "\n", NULL } } },
    { "", 0, {
        { "data: a\n\r", "a" },
        { "data: b\r\n\r", "b" },
        { "data: c\r\r", "c" },
        { "\n", NULL } } },
    { "data: a\r\n\r", 0, { { 0 } } },
    { "", 0, {
        { "data: a\r\r", "a" },
        { "\n", NULL },
        { "data: b\r\r", "b" } } },

    /* the byte order mark is one at the very start only */
    { "", 0, { { BOM "data: a\n\n", "a" }, { "data: b\n\n", "b" } } },
    { "", 0, { { "data: a\n\n", "a" }, { BOM "data: b\n\n", NULL } } },
    { "", 0, { { BOM BOM "data: a\n\n", NULL } } },
    { "", 0, { { "\xef\xbb" "data: a\n\n", NULL } } },

    /* the end without a blank line */
    { "data: a", 0, { { 0 } } },
    { "data: a\n", 0, { { 0 } } },
    { "data: b\n", 0, { { "data: a\n\n", "a" } } },

    /* bytes that are no text */
    { "", 0, { { "data: \x01\xff\xc3\n\n", "\x01\xff\xc3" } } },
    { "", 0, {
        { "data: \xe2\x82\xac\xf0\x9f\x98\x80\n\n",
          "\xe2\x82\xac\xf0\x9f\x98\x80" } } },

    /* past the limit: 9 bytes are a frame, 10 are pieces */
    { "", 9, {
        { "data: a\n\n", "a" },
        { "data: bb\n\n", pieces },
        { "data: c\n\n", "c" } } },
    { "", 9, {
        { "event: eeeeeeeee\r\ndata: b\r\n\r\n", pieces },
        { "data: c\n\n", "c" } } },
    { "", 9, {
        { "data: aaaa\rdata: b\r\r", pieces },
        { "data: c\r\r", "c" } } },
    { "", 10, {
        { "data: a\r\n\r\n", pieces },
        { "data: c\n\n", "c" } } },
    { "", 9, {
        { BOM "data: aaaa\n\n", pieces },
        { "data: c\n\n", "c" } } },
    { "", 9, {
        { "data: aaaa\n\n", pieces },
        { BOM "data\n\n", NULL } } },
    { "", 9, {
        { "data: a\n\n", "a" },
        { "data: endless and endless", pieces } } },
};
/* clang-format on */

#define NCASES (sizeof(cases) / sizeof(cases[0]))

static unsigned char *page_end;


/* A page before an unreadable one. */
static int
guard_create(void **state)
{
    unsigned char *p;

    p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
             -1, 0);
    if (p == MAP_FAILED || mprotect(p + 4096, 4096, PROT_NONE) != 0) {
        return -1;
    }

    page_end = p + 4096;

    return 0;
}


static int
guard_destroy(void **state)
{
    return munmap(page_end - 4096, 8192);
}


/* The progress in a case. */
typedef struct {
    const case_t *c;
    size_t        i;     /* of the next frame */
    size_t        piece; /* bytes of a frame in pieces so far */
} progress_t;


static void
check_piece(progress_t *progress, const chat_frame_t *frame)
{
    const want_t *want = &progress->c->frames[progress->i];

    assert_non_null(want->raw);
    assert_ptr_equal(want->data, pieces);
    assert_true(frame->raw.len != 0);
    assert_false(frame->has_data);
    assert_int_equal(frame->data.len, 0);
    assert_true(progress->piece + frame->raw.len <= strlen(want->raw));
    assert_memory_equal(frame->raw.data, want->raw + progress->piece,
                        frame->raw.len);

    progress->piece += frame->raw.len;

    if (progress->piece == strlen(want->raw)) {
        progress->piece = 0;
        progress->i++;
    }
}


static void
check_frame(progress_t *progress, const chat_frame_t *frame)
{
    const want_t *want = &progress->c->frames[progress->i++];

    assert_true(progress->i <= MAX_FRAMES);
    assert_non_null(want->raw);
    assert_ptr_not_equal(want->data, pieces);
    assert_true(chat_str_is(frame->raw, want->raw));
    assert_int_equal(frame->has_data, want->data != NULL);
    assert_true(chat_str_is(frame->data, want->data ? want->data : ""));
    assert_int_equal(frame->bom,
                     progress->i == 1 && chat_str_starts(frame->raw, BOM));
}


static void
feed(chat_sse_t *sse, progress_t *progress, const char *text, size_t len)
{
    chat_frame_t   frame;
    chat_sse_rc_e  rc;
    unsigned char *input = page_end - len;

    memcpy(input, text, len);
    chat_sse_feed(sse, chat_str(input, len));

    while ((rc = chat_sse_next(sse, &frame)) != CHAT_SSE_MORE) {
        assert_int_equal(frame.in_input,
                         frame.raw.data >= input && frame.raw.data < page_end);

        if (rc == CHAT_SSE_PIECE) {
            check_piece(progress, &frame);

        } else {
            assert_int_equal(rc, CHAT_SSE_FRAME);
            check_frame(progress, &frame);
        }
    }

    /* a second call changes nothing */
    assert_int_equal(chat_sse_next(sse, &frame), CHAT_SSE_MORE);

    memset(input, 'X', len);
}


static size_t
text_of(const case_t *c, char text[MAX_TEXT])
{
    size_t i;

    text[0] = '\0';

    for (i = 0; i < MAX_FRAMES && c->frames[i].raw != NULL; i++) {
        strcat(text, c->frames[i].raw);
    }

    strcat(text, c->tail);

    return strlen(text);
}


/* Reads a case in inputs of first, then of step bytes. */
static void
run(const case_t *c, size_t first, size_t step)
{
    char       text[MAX_TEXT];
    size_t     n, pos, len = text_of(c, text);
    chat_sse_t sse;
    progress_t progress = { c, 0, 0 };

    first = first < len ? first : len;
    sse = (chat_sse_t){ .max_frame = c->limit };

    feed(&sse, &progress, text, first);

    for (pos = first; pos < len; pos += n) {
        n = step < len - pos ? step : len - pos;
        feed(&sse, &progress, text + pos, n);
    }

    assert_true(progress.i == MAX_FRAMES || c->frames[progress.i].raw == NULL
                || c->frames[progress.i].data == pieces);
    assert_true(chat_str_is(chat_sse_tail(&sse), c->tail));

    chat_sse_free(&sse);
}


static void
whole(void **state)
{
    size_t i;

    for (i = 0; i < NCASES; i++) {
        run(&cases[i], SIZE_MAX, 1);
    }
}


static void
byte_by_byte(void **state)
{
    size_t i;

    for (i = 0; i < NCASES; i++) {
        run(&cases[i], 0, 1);
    }
}


static void
s21_at_every_cut(void **state)
{
    char   text[MAX_TEXT];
    size_t i, cut;

    for (i = 0; i < NCASES; i++) {
        for (cut = 0; cut <= text_of(&cases[i], text); cut++) {
            run(&cases[i], cut, SIZE_MAX);
            run(&cases[i], cut, 2);
        }
    }
}


static void
a_frame_is_given_as_soon_as_it_is_whole(void **state)
{
    size_t        i;
    chat_sse_t    sse;
    chat_frame_t  frame;
    chat_sse_rc_e rc;

    /* streams of lone CRs and of LFs wait for nothing, of CRLFs for the LF */
    static const char *streams[] = { "data: a\n\n", "data: a\r\r",
                                     "data: a\r\n\r\n" };

    for (i = 0; i < 3; i++) {
        sse = (chat_sse_t){ .max_frame = 0 };
        chat_sse_feed(&sse, chat_str(streams[i], strlen(streams[i]) - 1));
        rc = chat_sse_next(&sse, &frame);
        assert_int_equal(rc, CHAT_SSE_MORE);

        chat_sse_feed(&sse, chat_cstr(streams[i] + strlen(streams[i]) - 1));
        rc = chat_sse_next(&sse, &frame);
        assert_int_equal(rc, CHAT_SSE_FRAME);
        assert_true(chat_str_is(frame.raw, streams[i]));
        assert_int_equal(chat_sse_tail(&sse).len, 0);
        chat_sse_free(&sse);
    }
}


static chat_str_t
rest_of(chat_sse_t *sse, int want_in_input)
{
    int        in_input;
    chat_str_t rest = chat_sse_rest(sse, &in_input);

    assert_int_equal(in_input, want_in_input);
    return rest;
}


/* Leaves a second frame without its end, which then follows. */
static void
leave(chat_sse_t *sse, const char *more)
{
    chat_str_t   rest;
    chat_frame_t frame;

    *sse = (chat_sse_t){ 0 };
    chat_sse_feed(sse, chat_cstr("data: a\n\ndata: b"));
    assert_int_equal(rest_of(sse, 1).len, 0);
    assert_int_equal(chat_sse_next(sse, &frame), CHAT_SSE_FRAME);
    assert_true(chat_str_is(rest_of(sse, 1), "data: b"));
    chat_sse_leave(sse);
    assert_int_equal(rest_of(sse, 1).len, 0);
    assert_int_equal(chat_sse_next(sse, &frame), CHAT_SSE_MORE);
    assert_true(chat_str_is(chat_sse_tail(sse), "data: b"));

    chat_sse_feed(sse, chat_cstr(more));
    rest = rest_of(sse, 0);
    assert_true(chat_str_after(rest, "data: b", &rest));
    assert_true(chat_str_is(rest, more));
}


static void
a_frame_that_was_left_is_skipped_or_read(void **state)
{
    chat_sse_t   sse;
    chat_frame_t frame;

    leave(&sse, "\n\ndata: c\n\n");
    chat_sse_skip(&sse, strlen("data: b\n\n"));
    assert_int_equal(chat_sse_tail(&sse).len, 0);
    assert_true(chat_str_is(rest_of(&sse, 1), "data: c\n\n"));
    chat_sse_skip(&sse, strlen("data: c\n\n"));
    assert_int_equal(chat_sse_next(&sse, &frame), CHAT_SSE_MORE);
    chat_sse_free(&sse);

    leave(&sse, "\r\n\r\ndata: c\n\n");
    assert_int_equal(chat_sse_next(&sse, &frame), CHAT_SSE_FRAME);
    assert_true(chat_str_is(frame.raw, "data: b\r\n\r\n"));
    assert_true(chat_str_is(rest_of(&sse, 1), "data: c\n\n"));
    chat_sse_free(&sse);
}


static void
an_endless_frame_needs_no_memory(void **state)
{
    size_t        i, bytes = 0;
    chat_sse_t    sse;
    chat_frame_t  frame;
    unsigned char input[1000];

    memset(input, 'x', sizeof(input));
    sse = (chat_sse_t){ .max_frame = 4096 };

    for (i = 0; i < 10000; i++) {
        chat_sse_feed(&sse, chat_str(input, sizeof(input)));

        while (chat_sse_next(&sse, &frame) == CHAT_SSE_PIECE) {
            bytes += frame.raw.len;
        }

        assert_true(sse.tail.size <= 8192);
    }

    assert_int_equal(bytes, 10000 * sizeof(input));
    chat_sse_free(&sse);
}


static void
a_frame_past_the_limit_leaves_no_data(void **state)
{
    size_t       i;
    chat_sse_t   sse;
    chat_buf_t   lines = { 0 };
    chat_frame_t frame;

    sse = (chat_sse_t){ .max_frame = 1000 };

    for (i = 0; i < 1000; i++) {
        chat_buf_puts(&lines, "data: x\n");
    }

    chat_sse_feed(&sse, chat_buf_str(&lines));
    assert_int_equal(chat_sse_next(&sse, &frame), CHAT_SSE_PIECE);
    assert_int_equal(sse.data.size, 0);

    chat_sse_free(&sse);
    chat_buf_free(&lines);
}


static double
seconds_of(const char *unit, size_t n, size_t cut)
{
    size_t          i, len = strlen(unit), fed;
    chat_sse_t      sse;
    chat_buf_t      buf = { 0 };
    chat_frame_t    frame;
    struct timespec from, to;

    for (i = 0; i < n; i++) {
        chat_buf_add(&buf, chat_str(unit, len));
    }

    sse = (chat_sse_t){ .max_frame = 0 };
    (void) clock_gettime(CLOCK_MONOTONIC, &from);

    for (i = 0; i < buf.len; i += fed) {
        fed = buf.len - i < cut ? buf.len - i : cut;
        chat_sse_feed(&sse, chat_str(buf.data + i, fed));

        while (chat_sse_next(&sse, &frame) == CHAT_SSE_FRAME) {
            /* void */
        }
    }

    (void) clock_gettime(CLOCK_MONOTONIC, &to);
    chat_sse_free(&sse);
    chat_buf_free(&buf);

    return (double) (to.tv_sec - from.tv_sec)
           + (double) (to.tv_nsec - from.tv_nsec) / 1e9;
}


/* A quadratic parser would take minutes. */
static void
time_is_linear(void **state)
{
    assert_true(seconds_of("a\r", 1 << 20, SIZE_MAX) < 5);
    assert_true(seconds_of("a\n", 1 << 20, SIZE_MAX) < 5);
    assert_true(seconds_of("data:a\r\n", 1 << 20, SIZE_MAX) < 5);
    assert_true(seconds_of("data", 1 << 18, 1) < 5);
    assert_true(seconds_of("\r", 1 << 20, SIZE_MAX) < 5);
    assert_true(seconds_of("data: a\n\n", 1 << 18, 7) < 5);
}


typedef struct {
    const char *raw;
    const char *data;
    const char *want;
} rewrite_t;

static const rewrite_t rewrites[] = {
    { "data: a\n\n", "b", "data: b\n\n" },
    { "data:a\r\n\r\n", "bb", "data:bb\r\n\r\n" },
    { "data\n\n", "b", "data:b\n\n" },
    { "data: a\n\n", "", "data: \n\n" },
    { "data: a\n\n", "{\r\n\"b\": 1\n}", "data: {  \"b\": 1 }\n\n" },
    { "event: e\nid: 7\ndata: a\n: c\n\n", "b",
      "event: e\nid: 7\ndata: b\n: c\n\n" },
    { "data: a\nevent: e\ndata: b\ndata: c\nid: 1\n\n", "x",
      "data: x\nevent: e\nid: 1\n\n" },
    { BOM "data: a\n\n", "b", BOM "data: b\n\n" },
    { ": nothing\n\n", "b", ": nothing\n\n" },
    /* a CR and the LF of the blank line must not become one end */
    { "data: a\rdata: b\n\n", "x", "data: x\n\n" },
    { "data: a\rdata: b\r\r", "x", "data: x\r\r" },
};


static void
a_rewritten_frame_keeps_all_but_its_data(void **state)
{
    size_t       i;
    chat_sse_t   sse;
    chat_buf_t   out;
    chat_frame_t frame;

    for (i = 0; i < sizeof(rewrites) / sizeof(rewrites[0]); i++) {
        memset(&out, 0, sizeof(out));
        sse = (chat_sse_t){ .max_frame = 0 };
        chat_sse_feed(&sse, chat_cstr(rewrites[i].raw));
        assert_int_equal(chat_sse_next(&sse, &frame), CHAT_SSE_FRAME);

        chat_sse_rewrite(&frame, chat_cstr(rewrites[i].data), &out);
        chat_buf_add(&out, chat_str("", 1));
        assert_string_equal((char *) out.data, rewrites[i].want);

        chat_buf_free(&out);
        chat_sse_free(&sse);
    }
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole),
        cmocka_unit_test(byte_by_byte),
        cmocka_unit_test(s21_at_every_cut),
        cmocka_unit_test(a_frame_is_given_as_soon_as_it_is_whole),
        cmocka_unit_test(a_frame_that_was_left_is_skipped_or_read),
        cmocka_unit_test(an_endless_frame_needs_no_memory),
        cmocka_unit_test(a_frame_past_the_limit_leaves_no_data),
        cmocka_unit_test(time_is_linear),
        cmocka_unit_test(a_rewritten_frame_keeps_all_but_its_data),
    };

    return cmocka_run_group_tests(tests, guard_create, guard_destroy);
}
