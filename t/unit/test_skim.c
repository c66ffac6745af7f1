/*
 * test_skim.c: frames that are like one that did not matter.
 *
 * What is skimmed is whole frames of the learnt form with another text, and
 * nothing else: each case lies in memory of its own, so that a byte read
 * behind it is seen. That a stream with skimmed frames gives what it gives
 * without is what the tests of chat_stream.c show at every cut.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sse/chat_skim.h"

static const char *const texts[] = { "\"text\":\"", "\"pad\":\"", NULL };


/* How much of input is skimmed, after learning from frame. */
static size_t
skimmed(const char *frame, const char *input, size_t max, uint32_t *frames)
{
    char       *copy;
    size_t      len, n = strlen(input);
    chat_skim_t skim;

    *frames = 0;
    chat_skim_learn(&skim, chat_cstr(frame), texts);

    copy = malloc(n + 1);
    assert_non_null(copy);
    copy = realloc(copy, n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, input, n);
    len = chat_skim_match(&skim, chat_str(copy, n), max, frames);
    free(copy);
    return len;
}


#define ONE "event: x\ndata: {\"n\":1,\"text\":\"a\",\"pad\":\"b\"}\n\n"


static void
other_texts_are_skimmed(void **state)
{
    static const char *const rows[] = {
        ONE,
        "event: x\ndata: {\"n\":1,\"text\":\"\",\"pad\":\"\"}\n\n",
        "event: x\ndata: {\"n\":1,\"text\":\"longer\",\"pad\":\"}\"}\n\n",
        "event: x\ndata: {\"n\":1,\"text\":\"\\\"\",\"pad\":\"\\\\\"}\n\n",
        "event: x\ndata: {\"n\":1,\"text\":\"\\n\\u0022\",\"pad\":\"\"}\n\n",
        "event: x\ndata: {\"n\":1,\"text\":\"\xc3\xa9\",\"pad\":\"\"}\n\n",
    };
    size_t   i;
    uint32_t frames;

    (void) state;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(skimmed(ONE, rows[i], 1000, &frames),
                         strlen(rows[i]));
        assert_int_equal(frames, 1);
    }
}


static void
other_frames_are_not(void **state)
{
    static const char *const rows[] = {
        "",
        "event: y\ndata: {\"n\":1,\"text\":\"a\",\"pad\":\"b\"}\n\n",
        "event: x\ndata: {\"n\":2,\"text\":\"a\",\"pad\":\"b\"}\n\n",
        "event: x\ndata: {\"n\":1,\"text\":\"a\",\"pad\":\"b\"}\r\n\n",
        "event: x\ndata: {\"n\":1,\"text\":\"a\",\"pad\":\"b\"}\n",
        "event: x\ndata: {\"n\":1,\"text\":\"a\",\"pad\":\"b\"}\ndata: x\n\n",
        "event: x\ndata: {\"n\":1,\"text\":\"a\",\"n\":2,\"pad\":\"b\"}\n\n",
        "event: x\ndata: {\"n\":1,\"text\":\"a\nb\",\"pad\":\"b\"}\n\n",
        "event: x\ndata: {\"n\":1,\"text\":\"a\\\n\",\"pad\":\"b\"}\n\n",
        "event: x\ndata: {\"n\":1,\"text\":\"a\rb\",\"pad\":\"b\"}\n\n",
        "event: x\ndata: {\"n\":1,\"text\":\"a\\\",\"pad\":\"b\"}\n\n",
        "event: x\ndata: {\"n\":1,\"text\":null,\"pad\":\"b\"}\n\n",
        "event: x\ndata: {\"n\":1,\"text\":\"a",
        "event: x\ndata: {\"n\":1,\"text\":\"a\\",
    };
    size_t   i;
    uint32_t frames;

    (void) state;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(skimmed(ONE, rows[i], 1000, &frames), 0);
        assert_int_equal(frames, 0);
    }
}


static void
a_run_ends_where_the_form_does(void **state)
{
    uint32_t frames;

    (void) state;

    assert_int_equal(skimmed(ONE, ONE ONE "event: x\nda", 1000, &frames),
                     2 * strlen(ONE));
    assert_int_equal(frames, 2);
}


static void
a_frame_past_the_limit_is_left(void **state)
{
    uint32_t frames;

    (void) state;

    assert_int_equal(skimmed(ONE, ONE, strlen(ONE), &frames), strlen(ONE));
    assert_int_equal(skimmed(ONE, ONE, strlen(ONE) - 1, &frames), 0);
    assert_int_equal(frames, 0);
}


static void
not_every_frame_can_be_learnt(void **state)
{
    static const char *const rows[] = {
        "",
        "\n",
        "data: {}\n\n",
        "data: {\"text\":\"a\"}\r\n\r\n",
        "data: {\"text\":\"a\"}\n\r\n",
        "data: {\"text\":\"a\n\n",
    };
    size_t   i;
    uint32_t frames;

    (void) state;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(skimmed(rows[i], rows[i], 1000, &frames), 0);
    }
}


/* One more text than there are holes stays a part of the form. */
static void
texts_past_the_bound_are_fixed(void **state)
{
    const char *form = "data: [\"text\":\"a\",\"text\":\"b\",\"text\":\"c\","
                       "\"text\":\"d\"]\n\n";
    const char *same = "data: [\"text\":\"x\",\"text\":\"y\",\"text\":\"z\","
                       "\"text\":\"d\"]\n\n";
    const char *last = "data: [\"text\":\"a\",\"text\":\"b\",\"text\":\"c\","
                       "\"text\":\"x\"]\n\n";
    uint32_t    frames;

    (void) state;

    assert_int_equal(skimmed(form, same, 1000, &frames), strlen(same));
    assert_int_equal(skimmed(form, last, 1000, &frames), 0);
}


static void
a_long_frame_is_not_learnt(void **state)
{
    char     form[CHAT_SKIM_BYTES + 100];
    uint32_t frames;

    (void) state;

    memset(form, ' ', sizeof(form));
    memcpy(form, "data: {\"text\":\"a\"}", 18);
    memcpy(form + sizeof(form) - 3, "\n\n", 3);
    assert_int_equal(skimmed(form, form, 10000, &frames), 0);

    memcpy(form + CHAT_SKIM_BYTES - 2, "\n\n", 3);
    assert_int_equal(skimmed(form, form, 10000, &frames), CHAT_SKIM_BYTES);
}


int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_texts_are_skimmed),
        cmocka_unit_test(other_frames_are_not),
        cmocka_unit_test(a_run_ends_where_the_form_does),
        cmocka_unit_test(a_frame_past_the_limit_is_left),
        cmocka_unit_test(not_every_frame_can_be_learnt),
        cmocka_unit_test(texts_past_the_bound_are_fixed),
        cmocka_unit_test(a_long_frame_is_not_learnt),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
