/*
 * test_slot.c: the slots of a Redis cluster. What is expected was told by a
 * Redis server (CLUSTER KEYSLOT), the CRC by the specification of the
 * cluster.
 *
 * Must not know: who has a slot.
 */

#include "bytes/chat_slot.h"

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


/* A copy of its own length: a read past the end is an error of ASan's. */
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


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_key_is_in_its_slot),
        cmocka_unit_test(test_a_tag_decides),
        cmocka_unit_test(test_what_is_no_tag),
        cmocka_unit_test(test_it_reads_no_further),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
