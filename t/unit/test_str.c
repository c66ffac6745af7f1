/*
 * test_str.c: numbers, hex digits, words and UTF-8 in strings; the slots of a
 * Redis Cluster.
 *
 * The expected slots are from a Redis server (CLUSTER KEYSLOT), the CRC is
 * from the specification of Redis Cluster.
 */

#include "bytes/chat_digest.h"
#include "bytes/chat_slot.h"
#include "bytes/chat_utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>


static void
is(const char *key, unsigned slot)
{
    assert_int_equal(chat_slot(chat_cstr(key)), slot);
}


static void
test_a_key_is_in_its_slot(void **state)
{
    is("123456789", 0x31c3);
    is("", 0);
    is("a", 15495);
    is("foo", 12182);
    is("chat:epoch", 12595);
    assert_int_equal(chat_slot(chat_str("\0\xff", 2)), 7920);
    assert_int_equal(chat_slot(chat_str(NULL, 0)), 0);
}


static void
test_a_tag_decides(void **state)
{
    is("{foo}", 12182);
    is("chat:{foo}:name", 12182);
    is("chat:{foo}:name:p", 12182);
    is("{foo}{bar}", 12182);
    is("{foo}}bar", 12182);
}


static void
test_what_is_no_tag(void **state)
{
    is("foo{}{bar}", 8363);
    is("foo{bar", 15278);
    is("foo}bar{", 11073);
    is("{", 4092);
    is("foo{{bar}}zap", 4015);
}


/* A copy of its own length: ASan reports a read past the end. */
static void
test_it_reads_no_further(void **state)
{
    size_t         len;
    unsigned char *copy;
    const char    *text = "a{b{c}d";

    for (len = 1; len <= strlen(text); len++) {
        copy = malloc(len);
        assert_non_null(copy);
        memcpy(copy, text, len);
        assert_true(chat_slot(chat_str(copy, len)) < CHAT_SLOTS);
        free(copy);
    }
}


static void
two_texts_are_never_one_number(void **state)
{
    size_t   i;
    uint64_t n;
    const struct {
        const char *text;
        uint64_t    n;
    } good[] = { { "0", 0 },
                 { "7", 7 },
                 { "10", 10 },
                 { "999999999999999999", UINT64_C(999999999999999999) } };
    const char *const bad[] = { "",    "00",   "01",  "-1",
                                "+1",  "1 ",   " 1",  "1.0",
                                "1e3", "0x10", "1/0", "1000000000000000000" };

    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(chat_str_number(chat_cstr(good[i].text), &n));
        assert_true(n == good[i].n);
    }

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(chat_str_number(chat_cstr(bad[i]), &n));
    }
}


static void
a_string_is_cut_at_the_first_such_byte(void **state)
{
    chat_str_t s = chat_cstr("a  b"), none = { NULL, 0 };

    assert_true(chat_str_is(chat_str_cut(&s, ' '), "a"));
    assert_true(chat_str_is(chat_str_cut(&s, ' '), ""));
    assert_true(chat_str_is(chat_str_cut(&s, ' '), "b"));
    assert_int_equal(s.len, 0);
    assert_true(chat_str_is(chat_str_cut(&s, ' '), ""));
    assert_true(chat_str_is(chat_str_cut(&none, ' '), ""));

    assert_true(chat_str_after(chat_cstr("call/x"), "call/", &s));
    assert_true(chat_str_is(s, "x"));
    assert_false(chat_str_after(chat_cstr("call"), "call/", &s));
}


static void
hex_digits_are_read_back(void **state)
{
    int           c;
    char          hex[17];
    size_t        i;
    unsigned char bytes[8] = { 0x00, 0xaf, 0xff, 0x90, 1, 2, 0x9a, 0x69 };
    unsigned char read[8];

    chat_hex(bytes, 8, hex);
    assert_string_equal(hex, "00afff9001029a69");
    assert_true(chat_hex_read(chat_cstr(hex), read, 8));
    assert_memory_equal(read, bytes, 8);
    assert_false(chat_hex_read(chat_str(hex, 15), read, 8));

    for (i = 0; i < 16; i++) {
        for (c = 0; c < 256; c++) {
            hex[i] = (char) c;
            assert_int_equal(chat_hex_read(chat_str(hex, 16), read, 8),
                             c != 0 && strchr("0123456789abcdef", c) != NULL);
        }
        hex[i] = '0';
    }
}


/* Each code point is encoded as one character; no prefix of it is one. */
static void
utf8_has_each_code_point_and_no_other(void **state)
{
    size_t        i, n;
    uint32_t      ch;
    unsigned char bytes[4];

    static const char *const bad[] = {
        "\x80",
        "\xbf",
        "\xc0\x80",
        "\xc1\xbf",
        "\xe0\x9f\xbf",
        "\xed\xa0\x80",
        "\xed\xbf\xbf",
        "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80",
        "\xff",
        "\xe2\x82\x41",
    };

    for (ch = 0; ch <= 0x10ffff; ch += ch < 0x11000 ? 1 : 61) {
        if (ch >= 0xd800 && ch <= 0xdfff) {
            continue;
        }

        n = chat_utf8_put(ch, bytes);
        assert_int_equal(chat_utf8_len(chat_str(bytes, n)), n);
        assert_true(chat_utf8_is_valid(chat_str(bytes, n)));

        for (i = 1; i < n; i++) {
            assert_int_equal(chat_utf8_len(chat_str(bytes, i)), 0);
        }
    }

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(chat_utf8_len(chat_cstr(bad[i])), 0);
        assert_false(chat_utf8_is_valid(chat_cstr(bad[i])));
    }

    assert_true(chat_utf8_is_valid(chat_str("", 0)));
    assert_false(chat_utf8_is_valid(chat_cstr("eight bytes and \xff")));
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_key_is_in_its_slot),
        cmocka_unit_test(test_a_tag_decides),
        cmocka_unit_test(test_what_is_no_tag),
        cmocka_unit_test(test_it_reads_no_further),
        cmocka_unit_test(two_texts_are_never_one_number),
        cmocka_unit_test(a_string_is_cut_at_the_first_such_byte),
        cmocka_unit_test(hex_digits_are_read_back),
        cmocka_unit_test(utf8_has_each_code_point_and_no_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
