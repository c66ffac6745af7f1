/*
 * test_rename.c: a stream whose message is called by another client's id.
 *
 * The id in the first start changes, as JSON has it; every other byte stays,
 * and so does every stream that names no message or another one.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "follow/chat_rename.h"

#define START "data: {\"type\":\"start\",\"messageId\":\"m1\"}\n\n"
#define TEXT \
    "data: {\"type\":\"text-delta\",\"id\":\"1\",\"delta\":\"m1\"}\n\n"


/* What becomes of these bytes; NULL: they stay. */
static void
renamed(const chat_dialect_t *dialect, const char *from, const char *to,
        const char *bytes, const char *want)
{
    chat_rc_e     rc;
    chat_buf_t    out = { 0 };
    chat_rename_t rename;

    chat_rename_init(&rename, dialect, chat_cstr(from), chat_cstr(to));
    chat_buf_puts(&out, "before");
    rc = chat_rename(&rename, chat_cstr(bytes), &out);
    chat_buf_add(&out, chat_str("", 1));

    if (want == NULL) {
        assert_int_equal(rc, CHAT_DECLINED);
        assert_string_equal((char *) out.data, "before");
    } else {
        assert_int_equal(rc, CHAT_OK);
        assert_string_equal((char *) out.data + 6, want);
        assert_true(rename.done);
    }

    chat_buf_free(&out);
}


static void
only_the_id_changes(void **state)
{
    const chat_dialect_t *d = &chat_dialect_ai_sdk;

    renamed(d, "m1", "other", START TEXT,
            "data: {\"type\":\"start\",\"messageId\":\"other\"}\n\n" TEXT);
    renamed(d, "m1", "o",
            ": hi\n\nevent: x\ndata:{ \"messageId\" : \"m1\" ,"
            " \"type\":\"start\" }\r\n\r\n" TEXT "data: {\"ty",
            ": hi\n\nevent: x\ndata:{ \"messageId\" : \"o\" ,"
            " \"type\":\"start\" }\r\n\r\n" TEXT "data: {\"ty");
    renamed(d, "m1", "a\"b\\c\n", START,
            "data: {\"type\":\"start\",\"messageId\":\"a\\\"b\\\\c\\n\"}"
            "\n\n");
    renamed(d, "m1", "o",
            "data: {\"type\":\"start\",\"messageId\":\"\\u006d1\"}\n\n",
            "data: {\"type\":\"start\",\"messageId\":\"o\"}\n\n");
}


static void
nothing_else_changes(void **state)
{
    const chat_dialect_t *d = &chat_dialect_ai_sdk;

    renamed(d, "m2", "other", START TEXT, NULL);
    renamed(d, "m1", "m1", START TEXT, NULL);
    renamed(d, "", "other", START TEXT, NULL);
    renamed(d, "m1", "", START TEXT, NULL);
    renamed(d, "m1", "other", TEXT "data: [DONE]\n\n", NULL);
    renamed(d, "m1", "o", "data: {\"type\":\"start\"}\n\n" TEXT, NULL);
    renamed(d, "m1", "o", "data: {\"type\":\"start\",\"messageId\":\"m1\"}",
            NULL);
    renamed(d, "m1", "o", "data: {\"type\":\"start\",\"messageId\":[1]}\n\n",
            NULL);
    renamed(&chat_dialect_openai_chat, "m1", "o", START, NULL);
}


static void
the_first_start_is_the_only_one(void **state)
{
    chat_buf_t    out = { 0 };
    chat_rename_t rename;

    chat_rename_init(&rename, &chat_dialect_ai_sdk, chat_cstr("m1"),
                     chat_cstr("o"));
    assert_int_equal(chat_rename(&rename, chat_cstr(TEXT), &out),
                     CHAT_DECLINED);
    assert_false(rename.done);
    assert_int_equal(
        chat_rename(
            &rename,
            chat_cstr("data: {\"type\":\"start\",\"messageId\":\"x\"}\n\n"),
            &out),
        CHAT_DECLINED);
    assert_true(rename.done);
    assert_int_equal(chat_rename(&rename, chat_cstr(START), &out),
                     CHAT_DECLINED);
    chat_buf_free(&out);
}


static void
a_stream_without_a_start_is_given_up(void **state)
{
    size_t        i;
    chat_buf_t    out = { 0 };
    chat_rename_t rename;

    chat_rename_init(&rename, &chat_dialect_ai_sdk, chat_cstr("m1"),
                     chat_cstr("o"));

    for (i = 0; i <= CHAT_RENAME_MAX / strlen(TEXT); i++) {
        assert_false(rename.done);
        (void) chat_rename(&rename, chat_cstr(TEXT), &out);
    }

    assert_true(rename.done);
    chat_buf_free(&out);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_id_changes),
        cmocka_unit_test(nothing_else_changes),
        cmocka_unit_test(the_first_start_is_the_only_one),
        cmocka_unit_test(a_stream_without_a_start_is_given_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
