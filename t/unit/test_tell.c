/*
 * test_tell.c: the place behind an answer's first event.
 *
 * It must be the same in whatever pieces the answer comes, and there is none
 * behind an event that does not begin a run.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "follow/chat_tell.h"

#define STARTED "data: {\"type\":\"RUN_STARTED\",\"input\":{}}"
#define ERROR "data: {\"type\":\"RUN_ERROR\",\"message\":\"RUN_STARTED\"}"


/* The place in the text, looked for in pieces of this size; -1: none. */
static long
place(const char *text, size_t size)
{
    size_t      i, n, at = 0, len = strlen(text);
    chat_tell_t tell;

    chat_tell_init(&tell, &chat_dialect_ag_ui);

    for (i = 0; i < len; i += n) {
        n = len - i < size ? len - i : size;
        if (chat_tell_find(&tell, chat_str(text + i, n), &at) == CHAT_OK) {
            assert_true(!tell.seeks && at <= n);
            return (long) (i + at);
        }
    }

    return -1;
}


static void
is_found_behind_the_first_event(void **state)
{
    size_t i, size;

    static const struct {
        const char *head; /* what is told goes behind it */
        const char *rest;
        int         none;
    } texts[] = {
        { STARTED "\n\n", "data: 1\n\n", 0 },
        { STARTED "\n\n", "", 0 },
        { ": hold\n\n\n\nid: 1\n\n" STARTED "\n\n", STARTED "\n\n", 0 },
        { "event: x\r\n" STARTED "\r\n\r\n", "data: 1\r\n\r\n", 0 },
        { "data: { \"type\" : \"\"type\": \"RUN_STARTED\"}\n\n", "", 0 },
        { "data:{\"type\":\ndata: \"RUN_STARTED\"}\n\n", "", 0 },
        { STARTED "\n", "", 1 },
        { ERROR "\n\n", STARTED "\n\n", 1 },
        { "data: {\"type\":\"CUSTOM\"}\n\n", STARTED "\n\n", 1 },
        { "dat\n\ndatb: \"RUN_STARTED\"\n\n", "", 1 },
        { ": \"RUN_STARTED\"\ndata: 1\n\n", "", 1 },
        { "", "", 1 },
    };

    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char text[512] = "";

        strcat(text, texts[i].head);
        strcat(text, texts[i].rest);

        for (size = 1; size <= strlen(text) + 1; size++) {
            assert_int_equal(place(text, size),
                             texts[i].none ? -1
                                           : (long) strlen(texts[i].head));
        }
    }
}


static void
other_dialects_have_none(void **state)
{
    size_t      at;
    chat_tell_t tell;

    chat_tell_init(&tell, &chat_dialect_ai_sdk);
    assert_false(tell.seeks);
    assert_int_equal(chat_tell_find(&tell, chat_cstr(STARTED "\n\n"), &at),
                     CHAT_DECLINED);

    /* nor has who was never asked */
    memset(&tell, 0, sizeof(tell));
    assert_int_equal(chat_tell_find(&tell, chat_cstr(STARTED "\n\n"), &at),
                     CHAT_DECLINED);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_found_behind_the_first_event),
        cmocka_unit_test(other_dialects_have_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
