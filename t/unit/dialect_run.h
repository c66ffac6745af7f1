/*
 * dialect_run.h: common steps of the tests of a dialect: read a body, put
 * results into it, and run a stream through the reader and the editor.
 *
 * Every function fails the test itself on an error.
 */

#ifndef DIALECT_RUN_H
#define DIALECT_RUN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "dialect/chat_dialect.h"
#include "stream/chat_cut.h"
#include "gather.h"
#include "../buf_printf.h"
#include "../tenant.h"

typedef struct {
    chat_arena_t   *arena;
    chat_json_doc_t doc;
    chat_request_t  rq;
    chat_rc_e       rc;
} body_t;

/* The expected reading of a body. */
typedef struct {
    const char *body;
    chat_rc_e   rc;
    chat_class_e class;
    int      answers;
    unsigned steps;
    unsigned calls;
    unsigned settled;
    unsigned turn;
} class_case_t;

#define CLASS_NONE 0, 0, 0, 0, 0

/* The expected reading of a stream. */
typedef struct {
    const char *text;
    const char *log;
} stream_case_t;

/* The result of a stream. */
typedef struct {
    chat_buf_t log;    /* its events, one letter each; see run_letter() */
    chat_buf_t out;    /* its bytes, after dropping */
    unsigned   ends;   /* TURN_ENDs */
    unsigned   opened; /* calls */
    unsigned   ready;

    int        declined;
    chat_end_e end;
} run_t;


static inline void
body_read(body_t *body, const chat_dialect_t *dialect, chat_str_t text)
{
    memset(body, 0, sizeof(*body));
    body->rq.tenant = &test_tenant;
    body->rq.named = 1;
    body->arena = chat_arena_create(0);
    assert_non_null(body->arena);

    body->rc = chat_json_parse(&body->doc, body->arena, text);
    if (body->rc == CHAT_OK) {
        body->rc =
            chat_dialect_read(dialect, &body->doc, body->arena, &body->rq);
    }
}


static inline void
body_free(body_t *body)
{
    chat_arena_destroy(body->arena);
}


/* Appends the body with the results in it to out. */
static inline void
body_splice(body_t *body, const chat_dialect_t *dialect,
            const chat_result_t *results, size_t n, chat_buf_t *out)
{
    chat_edits_t edits;

    edits = (chat_edits_t){ .arena = body->arena };
    assert_int_equal(chat_transcript_splice(dialect->form, &body->doc,
                                            &body->rq, results, n, &edits),
                     CHAT_OK);
    assert_int_equal(chat_edits_apply(&edits, body->doc.text, out), CHAT_OK);
}


/* 1 if a is b without some of its bytes. */
static inline int
text_is_within(chat_str_t a, chat_str_t b)
{
    size_t i, k = 0;

    for (i = 0; i < b.len && k < a.len; i++) {
        k += a.data[k] == b.data[i];
    }

    return k == a.len;
}


static inline void
text_equals(chat_buf_t *buf, const char *want)
{
    chat_buf_add(buf, chat_str("", 1));
    assert_int_equal(buf->failed, 0);
    assert_string_equal((const char *) buf->data, want);
    buf->len--;
}


/*
 * Appends the body with a result for each open one of its n calls to out; the
 * last call's comes first: the order of results is not that of calls. format
 * makes the payload of the call's number.
 */
static inline void
body_complete(const chat_dialect_t *dialect, chat_str_t text, unsigned n,
              const char *format, chat_buf_t *out)
{
    char          payload[8][96];
    body_t        body;
    unsigned      i, count = 0;
    chat_result_t results[8];

    memset(results, 0, sizeof(results));
    body_read(&body, dialect, text);
    assert_int_equal(body.rc, CHAT_OK);
    assert_int_equal(body.rq.ncalls, n);

    for (i = n; i-- > 0;) {
        if (body.rq.calls[i].outcome != CHAT_OUTCOME_NONE) {
            continue;
        }

        snprintf(payload[i], sizeof(payload[i]), format, i, i, i);
        results[count].call = &body.rq.calls[i];
        results[count].id = body.rq.calls[i].id;
        results[count].outcome = CHAT_OUTCOME_OK;
        results[count++].payload = chat_cstr(payload[i]);
    }

    body_splice(&body, dialect, results, count, out);
    assert_true(text_is_within(text, chat_buf_str(out)));
    body_free(&body);
}


/* Reads each body; a line that differs names its body. */
static inline void
body_classes(const chat_dialect_t *dialect, const class_case_t *c, size_t n)
{
    size_t             k;
    body_t             body;
    char               want[1024];
    unsigned           settled;
    chat_buf_t         got = { 0 };
    const chat_step_t *step;

    for (/* void */; n > 0; n--, c++) {
        body_read(&body, dialect, chat_cstr(c->body));

        if (body.rc != CHAT_OK) {
            memset(&body.rq, 0, sizeof(body.rq));
        }

        for (k = settled = 0; k < body.rq.ncalls; k++) {
            settled += chat_call_is_settled(&body.rq.calls[k]);
            step = &body.rq.steps[body.rq.calls[k].step];
            assert_in_range(k, step->first, step->first + step->count - 1);
        }

        got.len = 0;
        chat_buf_printf(&got, "%d %d %d %zu %zu %u %zu %s", body.rc,
                        body.rq.class, body.rq.answers, body.rq.nsteps,
                        body.rq.ncalls, settled, body.rq.turn, c->body);
        snprintf(want, sizeof(want), "%d %d %d %u %u %u %u %s", c->rc,
                 c->class, c->answers, c->steps, c->calls, c->settled, c->turn,
                 c->body);
        text_equals(&got, want);

        body_free(&body);
    }

    chat_buf_free(&got);
}


/* Checks that the parsed text has this member in its error. */
static inline void
text_has_error(chat_str_t text, const char *member, const char *value)
{
    chat_arena_t   *arena = chat_arena_create(0);
    chat_json_doc_t doc;
    chat_json_t    *error;

    assert_int_equal(chat_json_parse(&doc, arena, text), CHAT_OK);
    error = chat_json_get(&doc, doc.root, "error");
    assert_true(chat_json_is(&doc, chat_json_get(&doc, error, member), value));
    chat_arena_destroy(arena);
}


/*
 * The i-th of the permutations of 0..n-1 (i < n!) into order.
 */
static inline void
permute(unsigned i, unsigned n, unsigned *order)
{
    unsigned k, m, pick, left[8];

    for (k = 0; k < n; k++) {
        left[k] = k;
    }

    for (k = 0; k < n; k++) {
        pick = i % (n - k);
        i /= n - k;
        order[k] = left[pick];

        for (m = pick; m + 1 < n - k; m++) {
            left[m] = left[m + 1];
        }
    }
}


/* One event in the log: with its call's position and its id. */
static inline void
run_letter(run_t *run, const chat_event_t *event)
{
    static const char letters[] = "TPoarkRSZEx";

    chat_buf_printf(&run->log, "%c", letters[event->type]);

    switch (event->type) {
    case CHAT_EVENT_CALL_OPEN:
    case CHAT_EVENT_CALL_READY:
        chat_buf_printf(&run->log, "%u%s:%.*s", (unsigned) event->call->place,
                        event->kind == CHAT_KIND_PROVIDER ? "p" : "",
                        (int) event->id.len, (const char *) event->id.data);
        break;

    case CHAT_EVENT_CALL_ARGS:
        chat_buf_printf(&run->log, "%u", (unsigned) event->call->place);
        break;

    case CHAT_EVENT_TURN_END:
        chat_buf_printf(&run->log, ":%s", chat_end_names[event->end]);
        run->ends++;
        run->end = event->end;
        break;

    default:
        break;
    }

    run->opened += event->type == CHAT_EVENT_CALL_OPEN;
    run->ready += event->type == CHAT_EVENT_CALL_READY;
    chat_buf_puts(&run->log, " ");
}


/*
 * Opens the calls of the frame; is_dropped(data, event) selects the dropped
 * ones.
 */
static inline void
cut_open(chat_calls_t *calls, chat_events_t *events,
         int (*is_dropped)(const void *data, const chat_event_t *event),
         const void *data)
{
    int                 dropped;
    size_t              i;
    chat_stream_call_t *call;

    for (i = 0; i < events->count; i++) {
        call = events->items[i].call;

        if (events->items[i].type == CHAT_EVENT_CALL_OPEN) {
            dropped = is_dropped(data, &events->items[i]);
            assert_non_null(chat_calls_opening(calls, call));
            call->opening->verdict =
                dropped ? CHAT_REPLAY_DROP : CHAT_REPLAY_FORWARD;
            chat_calls_left(calls, call, dropped);
        }
    }

    for (i = 0; i < events->nmarks; i++) {
        call = events->marks[i].call;
        events->marks[i].opening = call ? call->opening : NULL;
    }
}


/* Appends the rest of the frame to out. */
static inline void
cut_frame(const chat_calls_t *calls, const chat_events_t *events,
          const chat_frame_t *frame, chat_buf_t *out)
{
    chat_buf_t   data = { 0 };
    chat_edits_t edits;

    edits = (chat_edits_t){ .arena = events->arena };

    switch (chat_cut(events, calls, frame->data, &edits)) {
    case CHAT_CUT_KEEP:
        assert_int_equal(edits.count, 0);
        chat_buf_add(out, frame->raw);
        break;

    case CHAT_CUT_CHANGED:
        assert_int_equal(chat_edits_apply(&edits, frame->data, &data),
                         CHAT_OK);
        chat_sse_rewrite(frame, chat_buf_str(&data), out);
        break;

    case CHAT_CUT_DROP:
        break;
    }

    chat_buf_free(&data);
}


/* 1 if the call's id is among those of the NULL-terminated list. */
static inline int
run_is_dropped(const void *data, const chat_event_t *event)
{
    const char *const *ids = data;

    while (ids && *ids && !chat_str_is(event->id, *ids)) {
        ids++;
    }

    return ids && *ids;
}


/* Runs a stream, dropping the calls of these ids. */
static inline void
run_stream(run_t *run, const chat_dialect_t *dialect, chat_str_t text,
           const char *const *ids)
{
    size_t          i;
    chat_rc_e       rc;
    chat_sse_t      sse;
    chat_frame_t    frame;
    chat_arena_t   *arena = chat_arena_create(0);
    chat_arena_t   *each = chat_arena_create(0);
    chat_events_t   events;
    chat_reader_t  *reader;
    chat_json_doc_t doc;
    int             parsed;

    memset(run, 0, sizeof(*run));
    reader = chat_dialect_open(dialect, arena, NULL);
    reader->calls.tenant = &test_tenant;
    sse = (chat_sse_t){ .max_frame = 0 };
    chat_sse_feed(&sse, text);

    while (chat_sse_next(&sse, &frame) == CHAT_SSE_FRAME) {
        chat_arena_reset(each);
        chat_events_init(&events, each);
        parsed = chat_json_parse(&doc, each, frame.data) == CHAT_OK;

        rc = chat_dialect_frame(dialect, reader, &frame, parsed ? &doc : NULL,
                                &events);
        assert_true(rc == CHAT_OK || rc == CHAT_DECLINED);
        run->declined |= rc == CHAT_DECLINED;

        for (i = 0; i < events.count; i++) {
            run_letter(run, &events.items[i]);
            gather(&reader->calls, &events.items[i]);
        }

        cut_open(&reader->calls, &events, run_is_dropped, ids);
        cut_frame(&reader->calls, &events, &frame, &run->out);
    }

    chat_buf_add(&run->out, chat_sse_tail(&sse));
    chat_calls_free(&reader->calls);
    chat_sse_free(&sse);
    chat_arena_destroy(each);
    chat_arena_destroy(arena);
}


static inline void
run_free(run_t *run)
{
    chat_buf_free(&run->log);
    chat_buf_free(&run->out);
}


/* The module's own events must give this log. */
static inline void
run_says(const chat_dialect_t *dialect, const chat_buf_t *said,
         const char *want)
{
    run_t run;

    run_stream(&run, dialect, chat_buf_str(said), NULL);
    text_equals(&run.log, want);
    run_free(&run);
}


/* The stream must give this log and stay unchanged. */
static inline void
run_expect(const chat_dialect_t *dialect, const char *text, const char *want)
{
    run_t run;

    run_stream(&run, dialect, chat_cstr(text), NULL);
    text_equals(&run.log, want);
    text_equals(&run.out, text);
    run_free(&run);
}


static inline void
run_expect_all(const chat_dialect_t *dialect, const stream_case_t *c, size_t n)
{
    for (/* void */; n > 0; n--, c++) {
        run_expect(dialect, c->text, c->log);
    }
}


/* Each of the streams must be declined. */
static inline void
run_declined(const chat_dialect_t *dialect, const char *const *texts, size_t n)
{
    run_t run;

    for (/* void */; n > 0; n--, texts++) {
        run_stream(&run, dialect, chat_cstr(*texts), NULL);
        assert_true(run.declined);
        run_free(&run);
    }
}


/* Calls the test with each event of a stream of JSON frames. */
static inline void
run_each(const chat_dialect_t *dialect, chat_str_t text,
         void (*each)(const chat_event_t *event, chat_buf_t *out),
         chat_buf_t *out)
{
    chat_reader_t  *reader;
    size_t          i;
    chat_sse_t      sse;
    chat_frame_t    frame;
    chat_arena_t   *arena = chat_arena_create(0);
    chat_events_t   events;
    chat_json_doc_t doc;

    reader = chat_dialect_open(dialect, arena, NULL);
    reader->calls.tenant = &test_tenant;
    sse = (chat_sse_t){ .max_frame = 0 };
    chat_sse_feed(&sse, text);

    while (chat_sse_next(&sse, &frame) == CHAT_SSE_FRAME) {
        chat_events_init(&events, arena);
        assert_int_equal(chat_json_parse(&doc, arena, frame.data), CHAT_OK);
        assert_int_equal(
            chat_dialect_frame(dialect, reader, &frame, &doc, &events),
            CHAT_OK);

        for (i = 0; i < events.count; i++) {
            each(&events.items[i], out);
        }
    }

    chat_sse_free(&sse);
    chat_arena_destroy(arena);
}


/* The stream without these calls must be this. */
static inline void
run_without(const chat_dialect_t *dialect, const char *text,
            const char *const *ids, const char *want)
{
    run_t run;

    run_stream(&run, dialect, chat_cstr(text), ids);
    text_equals(&run.out, want);
    run_free(&run);
}


#endif /* DIALECT_RUN_H */
