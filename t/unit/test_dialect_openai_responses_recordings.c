/*
 * test_dialect_openai_responses_recordings.c: what real providers sent over
 * the Responses API. Each file must be read whole, end as often as it begins,
 * and show the calls that its last frame lists.
 */

#define _GNU_SOURCE

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "chat_dialect.h"

#define RECORDINGS "../shared/recordings/openai_responses"
#define MAX_CALLS 64

static const chat_dialect_t *const dialect = &chat_dialect_openai_responses;

typedef struct {
    chat_arena_t *arena;
    chat_arena_t *frame;
    void         *state;
    unsigned      opens;
    unsigned      ends;
    unsigned      seals;
    unsigned      declined;
    unsigned      boring;
    unsigned      nready;
    char          ready[MAX_CALLS][128];
    char          last[MAX_CALLS * 128]; /* calls of response.output */
} run_t;


static void
run_open(run_t *run)
{
    memset(run, 0, sizeof(*run));
    run->arena = chat_arena_create(0);
    run->frame = chat_arena_create(0);
    assert_non_null(run->arena);
    assert_non_null(run->frame);
    run->state = dialect->open(run->arena, NULL);
    assert_non_null(run->state);
}


static void
run_close(run_t *run)
{
    chat_arena_destroy(run->arena);
    chat_arena_destroy(run->frame);
}


static void
run_event(run_t *run, const chat_event_t *event)
{
    unsigned i;

    run->opens += event->type == CHAT_EVENT_TURN_OPEN;
    run->seals += event->type == CHAT_EVENT_STEP_SEAL;
    run->ends += event->type == CHAT_EVENT_TURN_END;

    if (event->type == CHAT_EVENT_CALL_READY) {
        i = run->nready++;
        assert_true(i < MAX_CALLS);
        snprintf(run->ready[i], sizeof(run->ready[i]), "%.*s",
                 (int) event->id.len, event->id.data);
        assert_true(event->whole);

        /* else the comparison with the last frame would prove nothing */
        assert_false(event->implied);
    }
}


/* The ids of the calls that the terminal frame's response.output lists. */
static void
run_output(run_t *run, chat_json_doc_t *doc)
{
    size_t             len = 0;
    chat_str_t         id, type;
    const chat_json_t *item;

    item = chat_json_get(doc, chat_json_get(doc, doc->root, "response"),
                         "output");

    for (item = item ? item->child : NULL; item != NULL; item = item->next) {
        type = chat_json_string(doc, chat_json_get(doc, item, "type"));
        id = chat_json_string(doc, chat_json_get(doc, item, "call_id"));

        if (id.len == 0) {
            id = chat_json_string(doc, chat_json_get(doc, item, "id"));
        }

        if (chat_str_is(type, "mcp_approval_request")
            || (type.len > 5
                && memcmp(type.data + type.len - 5, "_call", 5) == 0))
        {
            len += (size_t) snprintf(run->last + len, sizeof(run->last) - len,
                                     "%.*s ", (int) id.len, id.data);
        }
    }

    run->last[len] = '\0';
}


static void
run_frame(run_t *run, const chat_frame_t *frame)
{
    int             parsed;
    size_t          i;
    chat_rc_e       rc;
    chat_events_t   events = { .arena = run->frame };
    chat_json_doc_t doc;

    if (dialect->boring(run->state, frame)) {
        run->boring++;
        return;
    }

    chat_arena_reset(run->frame);
    parsed = frame->has_data
             && chat_json_parse(&doc, run->frame, frame->data) == CHAT_OK;

    rc = dialect->read(run->state, run->arena, frame, parsed ? &doc : NULL,
                       &events);
    run->declined += rc == CHAT_DECLINED;

    for (i = 0; i < events.count; i++) {
        run_event(run, &events.items[i]);
    }

    if (parsed && run->ends != 0) {
        run_output(run, &doc);
    }
}


static void
run_bytes(run_t *run, chat_str_t bytes)
{
    chat_sse_t    sse;
    chat_frame_t  frame;
    chat_sse_rc_e rc;

    chat_sse_init(&sse, 0);
    chat_sse_feed(&sse, bytes);

    while ((rc = chat_sse_next(&sse, &frame)) == CHAT_SSE_FRAME) {
        run_frame(run, &frame);
    }

    assert_int_equal(rc, CHAT_SSE_MORE);
    chat_sse_free(&sse);
}


static void
try_recording(const char *name)
{
    char       path[512], bytes[65536], ready[MAX_CALLS * 128] = "";
    FILE      *file;
    run_t      run;
    size_t     n, responses = 0;
    char      *at;
    unsigned   i;
    chat_buf_t text = { 0 };

    snprintf(path, sizeof(path), "%s/%s", RECORDINGS, name);
    file = fopen(path, "rb");
    assert_non_null(file);
    while ((n = fread(bytes, 1, sizeof(bytes), file)) > 0) {
        chat_buf_add(&text, chat_str(bytes, n));
    }
    fclose(file);
    chat_buf_puts(&text, "\n\n");
    chat_buf_add(&text, chat_str("", 1));

    /* one of them holds two responses */
    for (at = (char *) text.data;
         (at = strstr(at, "\"type\":\"response.created\"")) != NULL; at++)
    {
        responses++;
    }

    run_open(&run);
    text.len--;
    run_bytes(&run, chat_buf_str(&text));

    assert_int_equal(run.declined, 0);
    assert_int_equal(run.opens, responses);
    assert_int_equal(run.ends, responses);
    assert_int_equal(run.seals, responses);

    if (responses == 1) {
        for (i = 0; i < run.nready; i++) {
            strcat(strcat(ready, run.ready[i]), " ");
        }
        assert_string_equal(ready, run.last);
    } else {
        assert_int_equal(run.nready, 1);
    }

    run_close(&run);
    chat_buf_free(&text);
}


static void
recordings_are_read_whole(void **state)
{
    DIR           *dir = opendir(RECORDINGS);
    size_t         n = 0;
    struct dirent *entry;

    if (dir == NULL) {
        print_message("no %s: skipped\n", RECORDINGS);
        skip();
    }

    while ((entry = readdir(dir)) != NULL) {
        if (strstr(entry->d_name, ".sse") != NULL) {
            print_message("%s\n", entry->d_name);
            try_recording(entry->d_name);
            n++;
        }
    }

    closedir(dir);
    assert_int_not_equal(n, 0);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recordings_are_read_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
