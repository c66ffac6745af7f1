/*
 * test_edit.c: small changes to a text, applied together.
 *
 * A table of texts, changes and results; then the order of adding, and out of
 * memory.
 */

#include "bytes/chat_edit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

typedef struct {
    size_t      pos;
    size_t      len;
    const char *text;
} change_t;

#define MAX_CHANGES 6

typedef struct {
    const char *text;
    const char *want; /* NULL: CHAT_BAD */
    size_t      n;
    change_t    changes[MAX_CHANGES];
} case_t;

static const case_t cases[] = {
    { "abc", "abc", 0, { { 0, 0, "" } } },
    { "", "x", 1, { { 0, 0, "x" } } },
    { "abc", "xabc", 1, { { 0, 0, "x" } } },
    { "abc", "abcx", 1, { { 3, 0, "x" } } },
    { "abc", "x", 1, { { 0, 3, "x" } } },
    { "abc", "", 1, { { 0, 3, "" } } },
    { "abcdef", "aXdYf", 2, { { 4, 1, "Y" }, { 1, 2, "X" } } },
    /* at one position: in the order of adding */
    { "ab", "a123b", 3, { { 1, 0, "1" }, { 1, 0, "2" }, { 1, 0, "3" } } },
    { "abc", "a1X2c", 3, { { 1, 0, "1" }, { 1, 1, "X" }, { 1, 0, "2" } } },
    /* adjacent changes */
    { "abcd", "XYZ", 3, { { 0, 2, "X" }, { 2, 0, "Y" }, { 2, 2, "Z" } } },
    /* overlaps */
    { "abcd", NULL, 2, { { 0, 2, "X" }, { 1, 2, "Y" } } },
    { "abcd", NULL, 2, { { 0, 2, "X" }, { 0, 1, "Y" } } },
    { "abcd", NULL, 2, { { 0, 2, "X" }, { 1, 0, "Y" } } },
    { "abcd", NULL, 3, { { 1, 1, "" }, { 0, 4, "" }, { 2, 0, "" } } },
    /* outside */
    { "abc", NULL, 1, { { 4, 0, "x" } } },
    { "abc", NULL, 1, { { 3, 1, "x" } } },
    { "abc", NULL, 1, { { 1, SIZE_MAX, "x" } } },
    { "abc", NULL, 1, { { SIZE_MAX, 1, "x" } } },
};


static void
every_case_gives_what_is_wanted(void **state)
{
    size_t        i, k;
    chat_rc_e     rc;
    chat_buf_t    out;
    chat_edits_t  edits;
    chat_arena_t *arena = chat_arena_create(0);

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        memset(&out, 0, sizeof(out));
        chat_buf_puts(&out, "<");
        edits = (chat_edits_t){ .arena = arena };

        for (k = 0; k < cases[i].n; k++) {
            assert_int_equal(
                chat_edits_add(&edits, cases[i].changes[k].pos,
                               cases[i].changes[k].len,
                               chat_cstr(cases[i].changes[k].text)),
                CHAT_OK);
        }

        rc = chat_edits_apply(&edits, chat_cstr(cases[i].text), &out);

        if (cases[i].want == NULL) {
            assert_int_equal(rc, CHAT_BAD);
            assert_true(chat_str_is(chat_buf_str(&out), "<"));

        } else {
            assert_int_equal(rc, CHAT_OK);
            assert_int_equal(out.len, strlen(cases[i].want) + 1);
            assert_memory_equal(out.data + 1, cases[i].want, out.len - 1);
        }

        chat_buf_free(&out);
    }

    chat_arena_destroy(arena);
}


static void
the_order_of_adding_does_not_matter(void **state)
{
    size_t        i, k;
    chat_buf_t    one = { 0 }, two = { 0 };
    chat_str_t    text;
    chat_edits_t  edits;
    chat_arena_t *arena = chat_arena_create(0);
    unsigned char bytes[20000];

    memset(bytes, '.', sizeof(bytes));
    text = chat_str(bytes, sizeof(bytes));

    edits = (chat_edits_t){ .arena = arena };
    for (i = 0; i < 10000; i++) {
        (void) chat_edits_add(&edits, 2 * i, i % 2, chat_cstr("x"));
    }
    assert_int_equal(chat_edits_apply(&edits, text, &one), CHAT_OK);

    edits = (chat_edits_t){ .arena = arena };
    for (i = 0; i < 10000; i++) {
        k = i * 7919 % 10000;
        (void) chat_edits_add(&edits, 2 * k, k % 2, chat_cstr("x"));
    }
    assert_int_equal(chat_edits_apply(&edits, text, &two), CHAT_OK);

    assert_int_equal(one.len, 25000);
    assert_true(chat_str_eq(chat_buf_str(&one), chat_buf_str(&two)));

    chat_buf_free(&one);
    chat_buf_free(&two);
    chat_arena_destroy(arena);
}


static void
texts_are_copied_and_memory_is_the_arenas(void **state)
{
    char          text[] = "x";
    chat_buf_t    out = { 0 };
    chat_edits_t  edits;
    chat_arena_t *arena = chat_arena_create(512);

    edits = (chat_edits_t){ .arena = arena };
    assert_int_equal(chat_edits_add(&edits, 0, 0, chat_cstr(text)), CHAT_OK);
    text[0] = 'y';
    assert_int_equal(chat_edits_apply(&edits, chat_cstr("a"), &out), CHAT_OK);
    assert_true(chat_str_is(chat_buf_str(&out), "xa"));

    while (chat_edits_add(&edits, 0, 0, chat_cstr(text)) == CHAT_OK) {
        assert_true(edits.count < 100);
    }

    /* the failure is sticky, even with memory available again */
    chat_arena_reset(arena);
    assert_int_equal(chat_edits_add(&edits, 0, 0, chat_cstr("")), CHAT_ERROR);
    assert_int_equal(chat_edits_apply(&edits, chat_cstr("a"), &out),
                     CHAT_ERROR);
    assert_true(chat_str_is(chat_buf_str(&out), "xa"));

    chat_buf_free(&out);
    chat_arena_destroy(arena);
}


/* Under clang: nothing is added to a null pointer. */
static void
no_text_becomes_what_is_inserted(void **state)
{
    chat_buf_t    out = { 0 };
    chat_edits_t  edits;
    chat_arena_t *arena = chat_arena_create(0);

    edits = (chat_edits_t){ .arena = arena };
    assert_int_equal(chat_edits_add(&edits, 0, 0, chat_cstr("x")), CHAT_OK);
    assert_int_equal(chat_edits_apply(&edits, chat_str(NULL, 0), &out),
                     CHAT_OK);
    assert_true(chat_str_is(chat_buf_str(&out), "x"));

    chat_buf_free(&out);
    chat_arena_destroy(arena);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_gives_what_is_wanted),
        cmocka_unit_test(the_order_of_adding_does_not_matter),
        cmocka_unit_test(texts_are_copied_and_memory_is_the_arenas),
        cmocka_unit_test(no_text_becomes_what_is_inserted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
