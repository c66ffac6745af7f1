/*
 * test_form.c: frames of a form that occurred before in the stream.
 *
 * A frame of a known form differs only in values that the reader does not use,
 * and is valid JSON. stream_run.h and fuzz_stream.c compare whole streams with
 * and without forms.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "stream/chat_form.h"

typedef struct {
    chat_arena_t      *arena;
    chat_forms_t       forms;
    chat_reader_t      reader;
    chat_stream_call_t call;
    chat_events_t      events; /* of the frame that is learnt */
    chat_event_t       event;  /* of the last frame of a known form */
    size_t             frames; /* of a known form */
} run_t;

static const chat_dialect_t dialect = { 0 };


static void
run_open(run_t *run)
{
    memset(run, 0, sizeof(*run));
    run->arena = chat_arena_create(0);
    run->reader.arena = run->arena;
    run->reader.events = &run->events;
    run->call.id = chat_cstr("c1");
    run->forms.dialect = &dialect;
    run->forms.reader = &run->reader;
    run->forms.arena = run->arena;
}


/*
 * Learns from the frame as a reader reads it: it looks at "n", and at "all" as
 * a whole, "text" is the next piece of the call's arguments, and "seq" the
 * sequence number.
 */
static void
learn(run_t *run, const char *text)
{
    chat_sse_t         sse;
    chat_frame_t       frame;
    chat_json_doc_t    doc;
    const chat_json_t *node;

    sse = (chat_sse_t){ .max_frame = 0 };
    chat_sse_feed(&sse, chat_cstr(text));
    chat_events_init(&run->events, run->arena);

    if (chat_sse_next(&sse, &frame) == CHAT_SSE_FRAME) {
        run->reader.doc =
            chat_json_parse(&doc, run->arena, frame.data) == CHAT_OK ? &doc
                                                                     : NULL;
        run->reader.number_node = NULL;

        if (run->reader.doc != NULL) {
            (void) chat_json_index(&doc, chat_json_get(&doc, doc.root, "n"));
            (void) chat_json_raw(&doc, chat_json_get(&doc, doc.root, "all"));
            run->reader.number_node = chat_json_get(&doc, doc.root, "seq");
            node = chat_json_get(&doc, doc.root, "text");
            if (node != NULL) {
                chat_reader_args(&run->reader, &run->call, node);
            }
        }

        if (run->events.count == 0) {
            chat_events_add(&run->events, CHAT_EVENT_OPAQUE);
        }

        chat_forms_learn(&run->forms, &frame);
    }

    chat_sse_free(&sse);
}


/* Length of the frames in input, which ends at the end of its memory. */
static size_t
formed(run_t *run, const char *input, size_t max)
{
    size_t         len, n = strlen(input);
    unsigned char *copy = malloc(n + 1);

    memcpy(copy, input, n);
    copy = realloc(copy, n ? n : 1);
    run->frames = CHAT_FORM_RUN;
    len = chat_forms_read(&run->forms, chat_str(copy, n), max, &run->event,
                          &run->frames);

    /* the text may lie in the input */
    if (len != 0) {
        assert_int_equal(
            chat_arena_dup(run->arena, run->event.text, &run->event.text),
            CHAT_OK);
    }

    free(copy);
    return len;
}


#define HEAD "event: x\ndata: {\"n\":1,"
#define ONE HEAD "\"pad\":\"b\",\"size\":7}\n\n"


static void
unread_values_may_be_any_of_their_type(void **state)
{
    static const char *const rows[] = {
        ONE,
        HEAD "\"pad\":\"\",\"size\":-0}\n\n",
        HEAD "\"pad\":\"longer } \x7f\",\"size\":10.25e+1}\n\n",
        HEAD "\"pad\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\",\"size\":1E5}\n\n",
        HEAD "\"pad\":\"\\u00e9\\uD83D\",\"size\":0.0}\n\n",
        HEAD "\"pad\":\"\xc3\xa9\",\"size\":123456789012345678901}\n\n",
    };
    size_t i;
    run_t  run;

    run_open(&run);
    learn(&run, ONE);

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (formed(&run, rows[i], 1000) != strlen(rows[i])) {
            fail_msg("%s", rows[i]);
        }
        assert_int_equal(run.event.type, CHAT_EVENT_OPAQUE);
    }

    chat_arena_destroy(run.arena);
}


static void
other_frames_have_not_the_form(void **state)
{
    static const char *const rows[] = {
        "",
        "event: y\ndata: {\"n\":1,\"pad\":\"b\",\"size\":7}\n\n",
        "event: x\ndata: {\"n\":2,\"pad\":\"b\",\"size\":7}\n\n",
        HEAD "\"pad\":\"b\",\"size\":7}\r\n\n",
        HEAD "\"pad\":\"b\",\"size\":7}\n",
        HEAD "\"pad\":\"b\",\"size\":7}\ndata: x\n\n",
        HEAD "\"pad\":\"b\",\"n\":2,\"size\":7}\n\n",
        HEAD "\"pad\":null,\"size\":7}\n\n",
        HEAD "\"pad\":\"b\",\"size\":\"7\"}\n\n",
        HEAD "\"pad\":\"a\nb\",\"size\":7}\n\n",
        HEAD "\"pad\":\"a\rb\",\"size\":7}\n\n",
        HEAD "\"pad\":\"a\tb\",\"size\":7}\n\n",
        HEAD "\"pad\":\"a\\\n\",\"size\":7}\n\n",
        HEAD "\"pad\":\"a\\x\",\"size\":7}\n\n",
        HEAD "\"pad\":\"a\\u12g4\",\"size\":7}\n\n",
        HEAD "\"pad\":\"a\\u123\",\"size\":7}\n\n",
        HEAD "\"pad\":\"a\\\",\"size\":7}\n\n",
        HEAD "\"pad\":\"\xff\",\"size\":7}\n\n",
        HEAD "\"pad\":\"\xed\xa0\x80\",\"size\":7}\n\n",
        HEAD "\"pad\":\"b\",\"size\":01}\n\n",
        HEAD "\"pad\":\"b\",\"size\":1.}\n\n",
        HEAD "\"pad\":\"b\",\"size\":.5}\n\n",
        HEAD "\"pad\":\"b\",\"size\":1e}\n\n",
        HEAD "\"pad\":\"b\",\"size\":-}\n\n",
        HEAD "\"pad\":\"b\",\"size\":+1}\n\n",
        HEAD "\"pad\":\"a",
        HEAD "\"pad\":\"a\\",
        HEAD "\"pad\":\"a\\u12",
        HEAD "\"pad\":\"a\",\"size\":1",
    };
    size_t i;
    run_t  run;

    run_open(&run);
    learn(&run, ONE);

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (formed(&run, rows[i], 1000) != 0
            || (run.forms.partial && strstr(rows[i], "\n\n") != NULL))
        {
            fail_msg("%s", rows[i]);
        }
    }

    chat_arena_destroy(run.arena);
}


#define LIST(values) "data: {\"list\":[" values "],\"x\":[{\"y\":1}]}\n\n"

static void
a_list_may_have_any_strings_and_numbers(void **state)
{
    static const char *const lists[] = {
        LIST("84,\"h\""),   LIST("1"),
        LIST("\"\""),       LIST("1,22, -0.5e3,\"\\u00e9\""),
        LIST(" 1,  \"]\""), LIST("\"\\\",\\\"\",2"),
    };
    static const char *const others[] = {
        LIST(""),
        LIST("null"),
        LIST("1,true"),
        LIST("[1]"),
        LIST("{}"),
        LIST("1,"),
        LIST(",1"),
        LIST("1 2"),
        LIST("01"),
        LIST("1,\"a"),
        LIST("\"\\x\""),
        LIST("\"\t\""),
        LIST("1\n,2"),
        LIST("1 "),
        "data: {\"list\":[1",
        "data: {\"list\":[1,",
        "data: {\"list\":[\"a",
        "data: {\"list\":[\"a\"",
        "data: {\"list\":[",
    };
    size_t i;
    run_t  run;

    run_open(&run);
    learn(&run, lists[0]);

    for (i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        assert_int_equal(formed(&run, lists[i], 1000), strlen(lists[i]));
    }
    for (i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (formed(&run, others[i], 1000) != 0) {
            fail_msg("%s", others[i]);
        }
    }

    /* one that the reader looked at as a whole */
    learn(&run, "data: {\"all\":[1,2]}\n\n");
    assert_int_equal(formed(&run, "data: {\"all\":[1,3]}\n\n", 1000), 0);

    chat_arena_destroy(run.arena);
}


static void
a_long_frame_is_compared_with_the_last_form_only(void **state)
{
    size_t      i;
    run_t       run;
    const char *text;
    chat_buf_t  frame = { 0 };

    chat_buf_puts(&frame, "data: {\"list\":[1");
    for (i = 0; i < CHAT_FORM_LONG; i++) {
        chat_buf_puts(&frame, ",1");
    }
    chat_buf_puts(&frame, "],\"x\":[{\"y\":1}]}\n\n");
    chat_buf_add(&frame, chat_str("", 1));
    text = (const char *) frame.data;

    run_open(&run);
    learn(&run, LIST("1"));
    learn(&run, "data: {\"seq\":1}\n\n");

    assert_int_not_equal(formed(&run, LIST("2"), 1000), 0);
    assert_int_equal(formed(&run, text, frame.len), frame.len - 1);
    assert_int_not_equal(formed(&run, "data: {\"seq\":2}\n\n", 1000), 0);
    assert_int_equal(formed(&run, text, frame.len), 0);

    chat_buf_free(&frame);
    chat_arena_destroy(run.arena);
}


static void
a_piece_is_decoded_and_the_number_is_kept(void **state)
{
    run_t run;

    run_open(&run);
    learn(&run, "data: {\"seq\":1,\"text\":\"{\"}\n\n");

    assert_int_not_equal(
        formed(&run, "data: {\"seq\":41,\"text\":\"\\\"\\u00e9\"}\n\n", 99),
        0);
    assert_int_equal(run.event.type, CHAT_EVENT_CALL_ARGS);
    assert_ptr_equal(run.event.call, &run.call);
    assert_true(chat_str_is(run.event.text, "\"\xc3\xa9"));
    assert_int_equal(run.reader.number, 41);

    /* a number that is none must be read */
    assert_int_equal(formed(&run, "data: {\"seq\":1.5,\"text\":\"\"}\n\n", 99),
                     0);
    assert_int_equal(formed(&run, "data: {\"seq\":01,\"text\":\"\"}\n\n", 99),
                     0);
    assert_int_equal(
        formed(&run, "data: {\"seq\":1234567890,\"text\":\"\"}\n\n", 99), 0);
    assert_int_equal(run.reader.number, 41);

    /* a string is never a sequence number */
    learn(&run, "data: {\"seq\":\"1\",\"text\":\"\"}\n\n");
    assert_int_not_equal(
        formed(&run, "data: {\"seq\":\"42\",\"text\":\"\"}\n\n", 99), 0);
    assert_int_equal(run.reader.number, 41);

    chat_arena_destroy(run.arena);
}


static void
a_run_of_frames_is_read_up_to_the_limit(void **state)
{
    run_t run;

    run_open(&run);
    learn(&run, ONE);
    assert_int_equal(formed(&run, ONE ONE "event: x\nda", 1000),
                     2 * strlen(ONE));
    assert_int_equal(run.frames, 2);
    assert_int_equal(formed(&run, ONE ONE, 2 * strlen(ONE) - 1), strlen(ONE));
    assert_int_equal(run.frames, 1);
    assert_int_equal(formed(&run, ONE, strlen(ONE)), strlen(ONE));
    assert_int_equal(formed(&run, ONE, strlen(ONE) - 1), 0);
    assert_false(run.forms.partial);
    chat_arena_destroy(run.arena);
}


static void
a_frame_of_a_known_form_may_be_partial(void **state)
{
    size_t i, len = strlen(ONE);
    run_t  run;
    char   text[256];

    run_open(&run);
    learn(&run, ONE);

    for (i = 1; i < len; i++) {
        (void) snprintf(text, sizeof(text), "%.*s", (int) i, ONE);
        assert_int_equal(formed(&run, text, 1000), 0);
        assert_true(run.forms.partial);

        (void) snprintf(text, sizeof(text), ONE "%.*s", (int) i, ONE);
        assert_int_equal(formed(&run, text, 1000), len);
        assert_true(run.forms.partial);
    }

    (void) formed(&run, ONE HEAD "\"pad\":\"b\",\"size\":[", 1000);
    assert_false(run.forms.partial);
    chat_arena_destroy(run.arena);
}


static void
the_pieces_of_a_run_are_one_text(void **state)
{
    static const char one[] = "data: {\"seq\":1,\"text\":\"ab\"}\n\n";
    static const char four[] = "data: {\"seq\":1,\"text\":\"ab\"}\n\n"
                               "data: {\"seq\":2,\"text\":\"\"}\n\n"
                               "data: {\"seq\":3,\"text\":\"\\n\\\\\"}\n\n"
                               "data: {\"seq\":4,\"text\":\"cd\"}\n\n";
    run_t             run;

    run_open(&run);
    learn(&run, one);
    assert_int_equal(formed(&run, four, 1000), strlen(four));
    assert_true(chat_str_is(run.event.text, "ab\n\\cd"));
    assert_int_equal(run.frames, 4);
    assert_int_equal(run.forms.ends[0], strlen(one));
    assert_int_equal(run.forms.ends[3], strlen(four));
    assert_int_equal(run.reader.number, 4);

    /* as the learnt one, in which the piece was not empty */
    assert_int_equal(formed(&run, one, 1000), strlen(one));
    assert_true(chat_str_is(run.event.text, "ab"));
    chat_arena_destroy(run.arena);
}


static void
a_run_keeps_its_last_number(void **state)
{
    static const char three[] = "data: {\"seq\":7,\"pad\":\"x\"}\n\n"
                                "data: {\"seq\":8,\"pad\":\"longer\"}\n\n"
                                "data: {\"seq\":1.5,\"pad\":\"\"}\n\n";
    run_t             run;

    run_open(&run);
    learn(&run, "data: {\"seq\":1,\"pad\":\"\"}\n\n");
    assert_int_not_equal(formed(&run, three, 1000), 0);
    assert_int_equal(run.frames, 2);
    assert_int_equal(run.reader.number, 8);
    chat_arena_destroy(run.arena);
}


static void
frames_that_mean_more_forget_all_forms(void **state)
{
    run_t run;

    run_open(&run);
    learn(&run, ONE);
    run.reader.changed = 1;
    learn(&run, ONE);
    assert_int_equal(formed(&run, ONE, 1000), 0);

    run.reader.changed = 0;
    learn(&run, ONE);
    assert_int_not_equal(formed(&run, ONE, 1000), 0);

    chat_events_init(&run.events, run.arena);
    chat_events_add(&run.events, CHAT_EVENT_STEP_SEAL);
    chat_forms_learn(&run.forms, NULL);
    assert_int_equal(formed(&run, ONE, 1000), 0);

    chat_arena_destroy(run.arena);
}


static void
not_every_frame_can_be_learnt(void **state)
{
    static const char *const rows[] = {
        "",
        "\n",
        ": c\n\n",
        "data: {\"pad\":\"a\"}\r\n\r\n",
        "data: {\"pad\":\"a\"}\n\r\n",
        "data: {\"pad\":\"a\"\ndata: }\n\n",
        "data: {\"pad\":\"a\n\n",
        "data: {\"all\":{\"a\":1}}\n\n",
        "\xef\xbb\xbf" ONE,
    };
    char   form[CHAT_FORM_BYTES + 100];
    size_t i;
    run_t  run;

    run_open(&run);
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        learn(&run, rows[i]);
        assert_int_equal(formed(&run, rows[i], 1000), 0);
    }

    memset(form, ' ', sizeof(form));
    memcpy(form, "data: {\"pad\":\"a\"}", 17);
    memcpy(form + sizeof(form) - 3, "\n\n", 3);
    learn(&run, form);
    assert_int_equal(formed(&run, form, 10000), 0);

    memcpy(form + CHAT_FORM_BYTES - 2, "\n\n", 3);
    learn(&run, form);
    assert_int_equal(formed(&run, form, 10000), CHAT_FORM_BYTES);

    chat_arena_destroy(run.arena);
}


static void
a_frame_of_too_many_values_is_not_learnt(void **state)
{
    char   text[400] = "data: {";
    size_t i;
    run_t  run;

    run_open(&run);
    for (i = 1; i < CHAT_FORM_VALUES; i++) {
        strcat(text, "\"\":1,");
    }
    strcat(text, "\"\":1}\n\n");
    learn(&run, text);
    assert_int_equal(formed(&run, text, 1000), strlen(text));
    chat_arena_destroy(run.arena);

    run_open(&run);
    strcpy(text + strlen(text) - 3, ",\"\":1}\n\n");
    learn(&run, text);
    assert_int_equal(formed(&run, text, 1000), 0);
    chat_arena_destroy(run.arena);
}


/* The oldest form is replaced if there are too many. */
static void
the_newest_forms_are_kept(void **state)
{
    char  text[64];
    int   i;
    run_t run;

    run_open(&run);
    for (i = 0; i <= CHAT_FORMS; i++) {
        (void) snprintf(text, sizeof(text), "data: {\"n\":%d,\"x\":1}\n\n", i);
        learn(&run, text);
    }

    for (i = CHAT_FORMS; i >= 0; i--) {
        (void) snprintf(text, sizeof(text), "data: {\"n\":%d,\"x\":2}\n\n", i);
        assert_int_equal(formed(&run, text, 1000), i != 0 ? strlen(text) : 0);
    }

    chat_arena_destroy(run.arena);
}


#define SEQUENCE "data: {\"seq\":%d,\"n\":%d}\n\n"

static void
a_frame_that_cannot_be_learnt_replaces_no_form(void **state)
{
    char  form[64], text[400] = "data: {\"seq\":1";
    int   i;
    run_t run;

    for (i = 0; i <= CHAT_FORM_VALUES; i++) {
        strcat(text, ",\"\":1");
    }
    strcat(text, "}\n\n");

    run_open(&run);
    for (i = 0; i < CHAT_FORMS; i++) {
        (void) snprintf(form, sizeof(form), SEQUENCE, 1, i);
        learn(&run, form);
    }
    learn(&run, text);

    for (i = 0; i < CHAT_FORMS; i++) {
        (void) snprintf(form, sizeof(form), SEQUENCE, 2, i);
        assert_int_equal(formed(&run, form, 1000), strlen(form));
    }

    chat_arena_destroy(run.arena);
}


int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(unread_values_may_be_any_of_their_type),
        cmocka_unit_test(other_frames_have_not_the_form),
        cmocka_unit_test(a_list_may_have_any_strings_and_numbers),
        cmocka_unit_test(a_long_frame_is_compared_with_the_last_form_only),
        cmocka_unit_test(a_piece_is_decoded_and_the_number_is_kept),
        cmocka_unit_test(a_run_of_frames_is_read_up_to_the_limit),
        cmocka_unit_test(a_frame_of_a_known_form_may_be_partial),
        cmocka_unit_test(the_pieces_of_a_run_are_one_text),
        cmocka_unit_test(a_run_keeps_its_last_number),
        cmocka_unit_test(frames_that_mean_more_forget_all_forms),
        cmocka_unit_test(not_every_frame_can_be_learnt),
        cmocka_unit_test(a_frame_of_too_many_values_is_not_learnt),
        cmocka_unit_test(the_newest_forms_are_kept),
        cmocka_unit_test(a_frame_that_cannot_be_learnt_replaces_no_form),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
