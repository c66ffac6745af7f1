/*
 * test_arena.c: the arena, the buffer and the digests.
 *
 * The base of the core: blocks that do not overlap, limits that hold, digests
 * that keep different inputs apart.
 *
 * The tests' build keeps no blocks for later arenas, so that the sanitizers
 * see each use of freed memory; this arena keeps them, as in the module.
 */

#undef CHAT_ARENA_KEPT
#include "../../shared/bytes/chat_arena.c"
#include "bytes/chat_buf.h"
#include "bytes/chat_digest.h"
#include "bytes/chat_mix.h"
#include "../buf_printf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define MIX_TEXT 1200 /* bytes of a text that is mixed */
#define ARENAS 10000  /* their first blocks are more than is kept */


static void
blocks_are_zeroed_aligned_and_apart(void **state)
{
    size_t         i, k, size;
    unsigned char *p, *kept[200];
    chat_arena_t  *arena = chat_arena_create(0);

    for (i = 0; i < 200; i++) {
        size = i * i;
        p = chat_arena_alloc(arena, size);
        assert_non_null(p);
        assert_int_equal((uintptr_t) p % alignof(max_align_t), 0);

        for (k = 0; k < size; k++) {
            assert_int_equal(p[k], 0);
        }

        if (size != 0) {
            memset(p, (int) i, size);
        }

        kept[i] = p;
    }

    for (i = 0; i < 200; i++) {
        for (k = 0; k < i * i; k++) {
            assert_int_equal(kept[i][k], i);
        }
    }

    chat_arena_destroy(arena);
    chat_arena_destroy(NULL);
}


static void
lists_grow_and_keep_what_they_have(void **state)
{
    size_t        i, size = 0, count = 0;
    uint32_t     *items = NULL, *item;
    chat_arena_t *arena = chat_arena_create(4000);

    for (i = 0; i < 500; i++) {
        item = chat_arena_push(arena, &items, &count, &size, sizeof(*item));

        if (item == NULL) {
            break;
        }

        assert_true(size > i);
        assert_ptr_equal(item, &items[i]);
        assert_int_equal(*item, 0);
        *item = (uint32_t) i + 1;
    }

    /* without memory the list is unchanged */
    assert_int_equal(i, 256);
    assert_int_equal(count, 256);
    assert_int_equal(size, 256);

    for (i = 0; i < 256; i++) {
        assert_int_equal(items[i], i + 1);
    }

    /* after a reset it allocates no memory */
    i = chat_arena_used(arena);
    count = 0;
    assert_ptr_equal(
        chat_arena_push(arena, &items, &count, &size, sizeof(*items)), items);
    assert_int_equal(chat_arena_used(arena), i);
    assert_int_equal(items[0], 0);
    assert_int_equal(items[1], 2);

    count = size = SIZE_MAX / 4;
    assert_null(chat_arena_push(arena, &items, &count, &size, 8));

    chat_arena_destroy(arena);
}


static void
past_its_limit_an_arena_answers_null_and_stays_usable(void **state)
{
    chat_arena_t *arena = chat_arena_create(10000);

    assert_null(chat_arena_alloc(arena, 10001));
    assert_non_null(chat_arena_alloc(arena, 6000));
    assert_null(chat_arena_alloc(arena, 6000));
    assert_non_null(chat_arena_alloc(arena, 3000));
    assert_true(chat_arena_used(arena) >= 9000);
    assert_true(chat_arena_used(arena) <= 10000);

    chat_arena_reset(arena);
    assert_int_equal(chat_arena_used(arena), 0);
    assert_non_null(chat_arena_alloc(arena, 10000));
    assert_null(chat_arena_alloc(arena, 1));

    chat_arena_destroy(arena);
}


static void
a_size_that_overflows_is_refused(void **state)
{
    size_t        i;
    chat_arena_t *arena = chat_arena_create(0);

    for (i = 0; i < 32; i++) {
        assert_null(chat_arena_alloc(arena, SIZE_MAX - i));
    }

    assert_non_null(chat_arena_alloc(arena, 1));
    chat_arena_destroy(arena);
}


static void
a_copy_is_its_own(void **state)
{
    char          text[] = "abc";
    chat_str_t    copy;
    chat_arena_t *arena = chat_arena_create(48);

    assert_int_equal(chat_arena_dup(arena, chat_cstr(text), &copy), CHAT_OK);
    text[0] = 'x';
    assert_true(chat_str_is(copy, "abc"));

    assert_int_equal(chat_arena_dup(arena, chat_str(NULL, 0), &copy), CHAT_OK);
    assert_int_equal(copy.len, 0);
    assert_int_equal(chat_arena_dup(arena, chat_str(text, 3), &copy), CHAT_OK);
    assert_int_equal(chat_arena_dup(arena, chat_str(text, 3), &copy), CHAT_OK);
    assert_int_equal(chat_arena_dup(arena, chat_str(text, 3), &copy),
                     CHAT_ERROR);

    chat_arena_destroy(arena);
}


static void
a_buffer_grows(void **state)
{
    size_t     i;
    chat_buf_t buf = { 0 };

    chat_buf_add(&buf, chat_str(NULL, 0));
    assert_int_equal(buf.len, 0);
    assert_non_null(chat_buf_reserve(&buf, 0));
    assert_int_equal(buf.size, CHAT_ARENA_LEAST);

    for (i = 0; i < 1000; i++) {
        chat_buf_printf(&buf, "%03zu", i);
        chat_buf_puts(&buf, ",");
    }

    assert_int_equal(buf.len, 4000);
    assert_memory_equal(buf.data + 4 * 777, "777,", 4);
    assert_false(buf.failed);

    chat_buf_free(&buf);
    assert_null(buf.data);
}


static void
a_buffer_that_failed_takes_nothing_more(void **state)
{
    chat_buf_t buf = { 0 };

    chat_buf_puts(&buf, "kept");
    buf.failed = 1;
    chat_buf_puts(&buf, "lost");
    chat_buf_printf(&buf, "%d", 1);
    chat_buf_json(&buf, chat_cstr("lost"));
    assert_true(chat_str_is(chat_buf_str(&buf), "kept"));

    chat_buf_free(&buf);
}


/* In builds with ASan, which then finds each use of the text before. */
static void
the_scratch_buffer_is_freed_for_each_text(void **state)
{
    chat_buf_t *buf = chat_buf_scratch();

    chat_buf_puts(buf, "text");
    assert_int_not_equal(buf->size, 0);
    assert_int_equal(chat_buf_scratch()->size, 0);
}


static void
the_scratch_arena_is_empty_each_time(void **state)
{
    chat_arena_t *arena = chat_arena_scratch();

    assert_non_null(chat_arena_take(arena, 100));
    assert_non_null(chat_arena_take(arena, CHAT_ARENA_LARGEST + 1));
    assert_ptr_not_equal(arena->current, arena->first);
    assert_ptr_equal(chat_arena_scratch(), arena);
    assert_ptr_equal(arena->current, arena->first);
    assert_int_equal(chat_arena_used(arena), 0);
}


static void
a_json_string_escapes_what_it_must(void **state)
{
    chat_buf_t buf = { 0 };

    chat_buf_json(&buf, chat_str("a\"b\\c\b\t\n\f\r\0\x1f/\x7f\xc3\xa9", 16));
    assert_true(chat_str_is(
        chat_buf_str(&buf),
        "\"a\\\"b\\\\c\\b\\t\\n\\f\\r\\u0000\\u001f/\x7f\xc3\xa9\""));

    buf.len = 0;
    chat_buf_json(&buf, chat_str(NULL, 0));
    assert_true(chat_str_is(chat_buf_str(&buf), "\"\""));

    chat_buf_free(&buf);
}


static void
a_json_string_escapes_it_at_any_place(void **state)
{
    int        ch, i;
    chat_buf_t one = { 0 }, want = { 0 }, buf = { 0 };

    static const char text[] = "\xc3\xa9ight \xf0\x9f\x98\x80 or more\x7f";

    for (ch = 0; ch < 0x80; ch++) {
        for (i = 0; i < (int) sizeof(text); i++) {
            buf.len = one.len = want.len = 0;
            chat_buf_format(&buf, "%v%v%s", chat_str(text, (size_t) i),
                            chat_str(&(char){ (char) ch }, 1), text + i);
            chat_buf_json(&one, chat_str(&(char){ (char) ch }, 1));
            chat_buf_format(&want, "\"%v%v%s\"", chat_str(text, (size_t) i),
                            chat_str(one.data + 1, one.len - 2), text + i);
            chat_buf_quote(&buf, 0);
            assert_true(chat_str_eq(chat_buf_str(&buf), chat_buf_str(&want)));
        }
    }

    chat_buf_free(&one);
    chat_buf_free(&want);
    chat_buf_free(&buf);
}


static void
a_format_takes_strings_of_each_kind(void **state)
{
    size_t     from;
    chat_buf_t buf = { 0 };

    chat_buf_format(&buf, "%s|%u|%v|%j|%l|", "c", 7u, chat_cstr("a\"b"),
                    chat_cstr("a\"b"), chat_cstr("[1,\n2]"));
    assert_true(
        chat_str_is(chat_buf_str(&buf), "c|7|a\"b|\"a\\\"b\"|[1, 2]|"));

    /* without a %, and with an empty string */
    buf.len = 0;
    chat_buf_format(&buf, "x");
    chat_buf_format(&buf, "%v%j", chat_str(NULL, 0), chat_str(NULL, 0));
    assert_true(chat_str_is(chat_buf_str(&buf), "x\"\""));

    from = buf.len;
    chat_buf_quote(&buf, from);
    chat_buf_puts(&buf, "\"q\"");
    chat_buf_quote(&buf, from);
    assert_true(chat_str_is(chat_buf_str(&buf), "x\"\"\"\\\"\\\"\\\"q\\\"\""));
    chat_buf_free(&buf);
}


static void
json_is_put_on_one_line(void **state)
{
    chat_buf_t buf = { 0 };

    chat_buf_one_line(&buf, chat_cstr("{\r\n\"a\": \"\\n\",\n1}\n"));
    assert_true(chat_str_is(chat_buf_str(&buf), "{  \"a\": \"\\n\", 1} "));

    chat_buf_free(&buf);
}


static void
digests_are_sha256(void **state)
{
    int           i;
    char          hex[65];
    chat_digest_t d;

    /* twice: the context is used again */
    for (i = 0; i < 2; i++) {
        chat_digest(chat_cstr("abc"), &d);
        chat_hex(d.bytes, 32, hex);
        assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223"
                                 "b00361a396177a9cb410ff61f20015ad");

        chat_digest(chat_str(NULL, 0), &d);
        chat_hex(d.bytes, 4, hex);
        assert_string_equal(hex, "e3b0c442");
    }
}


static void
parts_do_not_run_into_one_another(void **state)
{
    chat_digest_t one, two;
    chat_str_t    a[] = { CHAT_STR("ab"), CHAT_STR("c") };
    chat_str_t    b[] = { CHAT_STR("a"), CHAT_STR("bc") };
    chat_str_t    c[] = { CHAT_STR("ab"), CHAT_STR("c"), CHAT_STR("") };
    chat_str_t    parts[3] = { [1] = CHAT_STR("-") };
    char          text[2000] = "";
    size_t        n, begin;
    chat_buf_t    hashed = { 0 };

    chat_digest_parts(a, 2, &one);
    chat_digest_parts(b, 2, &two);
    assert_false(chat_digest_eq(&one, &two));

    chat_digest_parts(c, 3, &two);
    assert_false(chat_digest_eq(&one, &two));

    chat_digest_parts(a, 2, &two);
    assert_true(chat_digest_eq(&one, &two));

    /* a length is in 7 bits a byte, the low ones first */
    for (n = 0; n < sizeof(text) - 5; n += 1 + n / 3) {
        parts[0] = parts[2] = chat_str(text + 5, n);
        chat_digest_parts(parts, 3, &one);
        begin = n > 127 ? 3 : 4;
        text[3] = (char) (n | 128);
        text[4] = (char) (n > 127 ? n >> 7 : n);
        hashed.len = 0;
        chat_buf_add(&hashed, chat_str(text + begin, n + 5 - begin));
        chat_buf_add(&hashed, chat_str("\1-", 2));
        chat_buf_add(&hashed, chat_str(text + begin, n + 5 - begin));
        chat_digest(chat_buf_str(&hashed), &two);
        assert_true(chat_digest_eq(&one, &two));
    }

    chat_buf_free(&hashed);
}


/* A block behind one of 48 KB has 96 KB, more than the largest usual one. */
static void
a_list_with_others_behind_it_is_copied(void **state)
{
    size_t        size = 1024, count = size;
    chat_str_t    other;
    chat_arena_t *arena = chat_arena_create(0);
    void         *list, *before;

    assert_non_null(chat_arena_alloc(arena, 48 * size));
    list = chat_arena_alloc(arena, 48 * size);
    assert_int_equal(chat_arena_dup(arena, chat_cstr("other"), &other),
                     CHAT_OK);

    before = list;
    assert_non_null(chat_arena_push(arena, &list, &count, &size, 48));
    assert_ptr_not_equal(list, before);
    memset(list, 'x', 48 * size);
    assert_true(chat_str_is(other, "other"));
    chat_arena_destroy(arena);
}


/* A list grows in its block only where there is no limit. */
static void
an_arena_that_lives_long_has_no_limit(void **state)
{
    size_t         i, k, sizes[2] = { 0 }, counts[2] = { 0 };
    chat_digest_t *lists[2] = { NULL };
    chat_arena_t  *arenas[] = { chat_arena_create(0),
                                chat_arena_create(CHAT_ARENA_LONG) };

    for (i = 0; i < 10000; i++) {
        for (k = 0; k < 2; k++) {
            assert_non_null(chat_arena_push(arenas[k], &lists[k], &counts[k],
                                            &sizes[k], sizeof(*lists[k])));
        }
    }

    assert_int_equal(chat_arena_used(arenas[0]), chat_arena_used(arenas[1]));
    chat_arena_destroy(arenas[0]);
    chat_arena_destroy(arenas[1]);
}


typedef struct {
    unsigned char bytes[16];
} mix_value_t;


static mix_value_t
mix_value_of(const unsigned char *text, size_t len)
{
    mix_value_t   value;
    chat_mix_t    mix;
    chat_digest_t key;

    chat_digest(chat_cstr("key"), &key);
    chat_mix_init(&mix, &key);
    chat_mix_add(&mix, chat_str(text, len));
    chat_mix_end(&mix, value.bytes);
    return value;
}


static int
compare_values(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(mix_value_t));
}


static void
assert_all_differ(mix_value_t *values, size_t n)
{
    size_t i;

    qsort(values, n, sizeof(*values), compare_values);
    for (i = 1; i < n; i++) {
        assert_true(compare_values(&values[i - 1], &values[i]) != 0);
    }
}


/* In short texts and in those that are read in four places at once. */
static void
each_byte_of_a_mix_counts(void **state)
{
    size_t        i, k, n;
    mix_value_t   values[MIX_TEXT + 1], again;
    unsigned char text[MIX_TEXT];
    const size_t lengths[] = { 1, 16, 17, 511, 512, 575, 576, 1023, MIX_TEXT };

    for (i = 0; i < MIX_TEXT; i++) {
        text[i] = (unsigned char) ('a' + i % 3);
    }

    for (k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
        n = lengths[k];
        for (i = 0; i < n; i++) {
            text[i] ^= 1;
            values[i] = mix_value_of(text, n);
            text[i] ^= 1;
        }

        values[n] = mix_value_of(text, n);
        again = mix_value_of(text, n);
        assert_memory_equal(&again, &values[n], sizeof(again));
        assert_all_differ(values, n + 1);
    }
}


static void
the_place_of_a_byte_of_a_mix_counts(void **state)
{
    size_t        i;
    mix_value_t   values[MIX_TEXT];
    unsigned char text[MIX_TEXT] = { 0 };

    for (i = 0; i < MIX_TEXT; i++) {
        text[i] = 1;
        values[i] = mix_value_of(text, MIX_TEXT);
        text[i] = 0;
    }

    assert_all_differ(values, MIX_TEXT);
}


static void
the_length_of_a_mix_counts(void **state)
{
    size_t        i;
    mix_value_t   values[MIX_TEXT];
    unsigned char text[MIX_TEXT] = { 0 };

    for (i = 0; i < MIX_TEXT; i++) {
        values[i] = mix_value_of(text, i);
    }

    assert_all_differ(values, MIX_TEXT);
}


/* Without the key: 16 bytes and their complement, both UTF-8. */
static void
the_complement_of_a_mixed_text_differs(void **state)
{
    size_t            i, k;
    chat_mix_t        mix, other;
    unsigned char     text[160], inverted[160];
    static const char block[] = "\303\251\303\251\303\251\303\251"
                                "\303\251\303\251\303\251\303\251";

    /* states and keys found by trial, for 16 bytes and for 160 */
    static const chat_mix_t found[] = {
        { { 0x62d1246f359cf6c1, 0xcb909d01069fa6e2 },
          { 0x357e181bcee66934, 0x6a61201614686dd2 } },
        { { 0x038a8c118f00f973, 0xb5fe834d8d5db906 },
          { 0x5da70ac9bfbd2dfb, 0xaa7ff7fc47da2853 } },
    };

    for (i = 0; i < 2; i++) {
        memset(text, 'x', sizeof(text));
        text[0] = text[159] = '"';
        memcpy(text + 16 * i, block, 16);
        memcpy(inverted, text, sizeof(text));

        for (k = 16 * i; k < 16 * i + 16; k++) {
            inverted[k] = (unsigned char) ~text[k];
        }

        mix = other = found[i];
        chat_mix_add(&mix, chat_str(text, i == 0 ? 16 : 160));
        chat_mix_add(&other, chat_str(inverted, i == 0 ? 16 : 160));
        assert_true(mix.state[0] != other.state[0]);
        assert_true(mix.state[1] != other.state[1]);
    }
}


static void
free_spares(void)
{
    size_t        i;
    chat_block_t *block;

    for (i = 0; i < CHAT_ARENA_SIZES; i++) {
        while ((block = spares[i]) != NULL) {
            spares[i] = block->next;
            free(block);
        }
    }

    kept = small = 0;
}


static void
many_arenas_leave_room_for_a_tree(void **state)
{
    size_t               i;
    static chat_arena_t *arenas[ARENAS];

    free_spares();

    for (i = 0; i < ARENAS; i++) {
        arenas[i] = chat_arena_create(0);
        assert_non_null(arenas[i]);
    }

    for (i = 0; i < ARENAS; i++) {
        chat_arena_destroy(arenas[i]);
    }

    assert_int_equal(kept, CHAT_ARENA_KEPT / 4);

    arenas[0] = chat_arena_create(0);
    for (i = 0; i < CHAT_ARENA_KEPT / CHAT_ARENA_LARGEST; i++) {
        assert_non_null(chat_arena_take(arenas[0], CHAT_ARENA_LARGEST));
    }

    chat_arena_destroy(arenas[0]);
    assert_int_equal(kept, CHAT_ARENA_KEPT);
    assert_int_equal(small, CHAT_ARENA_KEPT / 4);

    /* what is used again is counted no more */
    arenas[0] = chat_arena_create(0);
    assert_non_null(chat_arena_take(arenas[0], CHAT_ARENA_LARGEST));
    assert_int_equal(small, CHAT_ARENA_KEPT / 4 - CHAT_ARENA_FIRST);
    assert_int_equal(kept,
                     CHAT_ARENA_KEPT - CHAT_ARENA_FIRST - CHAT_ARENA_LARGEST);
    chat_arena_destroy(arenas[0]);
    assert_int_equal(kept, CHAT_ARENA_KEPT);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_with_others_behind_it_is_copied),
        cmocka_unit_test(an_arena_that_lives_long_has_no_limit),
        cmocka_unit_test(lists_grow_and_keep_what_they_have),
        cmocka_unit_test(blocks_are_zeroed_aligned_and_apart),
        cmocka_unit_test(
            past_its_limit_an_arena_answers_null_and_stays_usable),
        cmocka_unit_test(a_size_that_overflows_is_refused),
        cmocka_unit_test(many_arenas_leave_room_for_a_tree),
        cmocka_unit_test(a_copy_is_its_own),
        cmocka_unit_test(a_buffer_grows),
        cmocka_unit_test(a_buffer_that_failed_takes_nothing_more),
        cmocka_unit_test(the_scratch_buffer_is_freed_for_each_text),
        cmocka_unit_test(the_scratch_arena_is_empty_each_time),
        cmocka_unit_test(a_json_string_escapes_what_it_must),
        cmocka_unit_test(a_json_string_escapes_it_at_any_place),
        cmocka_unit_test(a_format_takes_strings_of_each_kind),
        cmocka_unit_test(json_is_put_on_one_line),
        cmocka_unit_test(digests_are_sha256),
        cmocka_unit_test(parts_do_not_run_into_one_another),
        cmocka_unit_test(each_byte_of_a_mix_counts),
        cmocka_unit_test(the_place_of_a_byte_of_a_mix_counts),
        cmocka_unit_test(the_length_of_a_mix_counts),
        cmocka_unit_test(the_complement_of_a_mixed_text_differs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
