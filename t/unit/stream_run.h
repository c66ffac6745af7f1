/*
 * stream_run.h: runs a stream through chat_stream for its tests.
 *
 * Each stream is run whole, with and without forms, byte by byte, and in two
 * pieces at every cut (at most STREAM_CUTS of them); output, end, counters and
 * facts must not depend on it. Every piece is in memory of its own that is
 * freed after the push. The stream_t keeps the result of the first run.
 */

#ifndef STREAM_RUN_H
#define STREAM_RUN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "stream/chat_stream.h"

/* The library's own chat_form is not linked. */
#define chat_forms_read stream_forms_read
#include "stream/chat_form.c"
#include "../buf_printf.h"
#include "../tenant.h"
#include "../tenant.h"
#undef chat_forms_read

#define STREAM_CUTS 1500
#define STREAM_FACTS 4096

typedef struct {
    /* The input of the test. */
    chat_stream_conf_t conf;
    const char        *body;   /* of the request; NULL: no request */
    const char        *reason; /* of the end */
    int                aborted;

    /* The result. */
    char               *out;
    char               *facts; /* "name field=value payload" lines, sorted */
    chat_stream_info_t  info;
    chat_replay_count_t count;

    chat_arena_t   *arena;
    chat_json_doc_t doc;
    chat_request_t  rq;
} stream_t;

/* The result of one run. */
typedef struct {
    chat_buf_t          out;
    chat_count_t        sent; /* of the events in out */
    char               *facts[STREAM_FACTS];
    size_t              nfacts;
    chat_stream_info_t  info;
    chat_replay_count_t count;
} stream_run_t;


static int stream_without_forms;


size_t
chat_forms_read(chat_forms_t *forms, chat_str_t input, size_t max,
                chat_event_t *event, size_t *frames)
{
    return stream_without_forms
               ? 0
               : stream_forms_read(forms, input, max, event, frames);
}


static inline void
stream_begin(stream_t *s, const char *dialect, const char *body)
{
    chat_rc_e             rc;
    const chat_dialect_t *found;

    memset(s, 0, sizeof(*s));
    s->arena = chat_arena_create(0);
    s->body = body;
    s->conf.dialect = chat_dialect_find(chat_cstr(dialect));
    assert_non_null(s->conf.dialect);

    s->conf.replay = 1;
    s->conf.max_event = 65536;
    s->conf.max_calls = 128;
    s->conf.max_result = 4096;
    s->conf.worker = chat_cstr("w1");
    s->conf.scope.dialect = chat_cstr(dialect);
    s->conf.scope.conversation = chat_cstr("talk");
    s->conf.scope.by_message = s->conf.dialect->weak_by_message;
    s->rq.tenant = &s->conf.scope.tenant;
    s->rq.named = 1;
    s->conf.scope.tenant = test_tenant;

    if (body == NULL) {
        return;
    }

    assert_int_equal(chat_json_parse(&s->doc, s->arena, chat_cstr(body)),
                     CHAT_OK);
    found = chat_dialect_request(s->conf.dialect, chat_cstr("/x"), &s->doc,
                                 s->arena, &s->rq, &rc);
    assert_ptr_equal(found, s->conf.dialect);

    s->conf.request = &s->rq;
    s->conf.known = s->rq.calls + s->rq.turn;
    s->conf.nknown = s->rq.ncalls - s->rq.turn;
}


static inline void
stream_end(stream_t *s)
{
    chat_block_give(s->out);
    chat_block_give(s->facts);
    chat_arena_destroy(s->arena);
}


/* Appends bytes so that they are a C string: those of a hash may be any. */
static inline void
stream_show(chat_buf_t *line, chat_str_t bytes)
{
    size_t i;

    for (i = 0; i < bytes.len; i++) {
        if (bytes.data[i] >= ' ' || bytes.data[i] == '\n') {
            chat_buf_add(line, chat_str(bytes.data + i, 1));
        } else {
            chat_buf_printf(line, "\\%02x", bytes.data[i]);
        }
    }
}


static inline void
stream_note_batch(stream_run_t *run, const chat_key_t *key,
                  const chat_facts_t *facts)
{
    char               hex[9];
    size_t             i;
    chat_buf_t         line;
    const chat_fact_t *fact;

    chat_hex(key->name.bytes, 4, hex);

    for (i = 0; i < facts->count; i++) {
        fact = &facts->items[i];
        memset(&line, 0, sizeof(line));
        chat_buf_printf(&line, "%s %.*s=", hex, (int) fact->field.len,
                        (const char *) fact->field.data);
        stream_show(&line, fact->value);
        if (fact->has_payload) {
            chat_buf_puts(&line, " ");
            chat_buf_add(&line, fact->payload);
        }
        chat_buf_add(&line, chat_str("\n", 2));
        assert_true(run->nfacts < STREAM_FACTS);
        run->facts[run->nfacts++] = (char *) line.data;
    }
}


static inline void
stream_note_facts(stream_run_t *run, chat_stream_t *stream)
{
    size_t                     i, k, n;
    const chat_stream_facts_t *facts;

    n = chat_stream_facts(stream, &facts);

    for (i = 0; i < n; i++) {
        for (k = 0; k < facts[i].nkeys; k++) {
            stream_note_batch(run, &facts[i].keys[k], &facts[i].facts);
        }
    }

    assert_int_equal(chat_stream_facts(stream, &facts), 0);
}


static inline void
stream_note(stream_run_t *run, const chat_stream_t *stream,
            const chat_piece_t *pieces, size_t n, chat_str_t input)
{
    size_t               i;
    const unsigned char *at = input.data;
    chat_count_t         count;

    for (i = 0; i < n; i++) {
        if (pieces[i].in_input) {
            assert_true(pieces[i].bytes.data >= at);
            at = pieces[i].bytes.data + pieces[i].bytes.len;
            assert_true(at <= input.data + input.len);
        }
        assert_true(pieces[i].bytes.len > 0);
        chat_buf_add(&run->out, pieces[i].bytes);
        (void) chat_count_to(&run->sent, pieces[i].bytes, UINT64_MAX);
    }

    if (chat_stream_sent(stream, &count)) {
        assert_int_equal(count.events, run->sent.events);
        assert_int_equal(chat_count_is_inside(&count),
                         chat_count_is_inside(&run->sent));
    }
}


static inline void
stream_push(stream_run_t *run, chat_stream_t *stream, const char *text,
            size_t len)
{
    size_t              n;
    unsigned char      *copy = malloc(len ? len : 1);
    const chat_piece_t *pieces;

    memcpy(copy, text, len);
    assert_int_equal(
        chat_stream_push(stream, chat_str(copy, len), &pieces, &n), CHAT_OK);
    stream_note(run, stream, pieces, n, chat_str(copy, len));
    free(copy);
    stream_note_facts(run, stream);
}


static inline int
stream_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}


/* step 0: in two pieces at cut; else pieces of that many bytes. */
static inline void
stream_once(stream_t *s, const char *text, size_t len, size_t step, size_t cut,
            stream_run_t *run)
{
    size_t              i, n;
    chat_stream_t      *stream = chat_stream_create(&s->conf);
    const chat_piece_t *pieces;

    memset(run, 0, sizeof(*run));
    assert_non_null(stream);

    if (step == 0) {
        stream_push(run, stream, text, cut);
        stream_push(run, stream, text + cut, len - cut);
    }

    for (i = 0; step != 0 && i < len; i += step) {
        stream_push(run, stream, text + i, len - i < step ? len - i : step);
    }

    assert_int_equal(
        chat_stream_finish(stream, s->reason, s->aborted, &pieces, &n),
        CHAT_OK);
    stream_note(run, stream, pieces, n, chat_str(NULL, 0));
    stream_note_facts(run, stream);

    run->info = *chat_stream_info(stream);
    run->count = chat_stream_info(stream)->replay;
    run->info.id = chat_str(NULL, 0);
    chat_buf_add(&run->out, chat_str("", 1));
    assert_int_equal(run->info.bytes_out, run->out.len - 1);
    chat_stream_destroy(stream);
    qsort(run->facts, run->nfacts, sizeof(char *), stream_compare);
}


static inline void
stream_run_free(stream_run_t *run)
{
    size_t i;

    for (i = 0; i < run->nfacts; i++) {
        chat_block_give(run->facts[i]);
    }
    chat_buf_free(&run->out);
}


static inline void
stream_same(const stream_run_t *a, const stream_run_t *b)
{
    size_t i;

    assert_string_equal((char *) a->out.data, (char *) b->out.data);
    assert_int_equal(a->info.end, b->info.end);
    assert_int_equal(a->info.overflows, b->info.overflows);
    assert_int_equal(a->info.oversized, b->info.oversized);
    assert_memory_equal(&a->count, &b->count, sizeof(a->count));
    assert_int_equal(a->nfacts, b->nfacts);

    for (i = 0; i < a->nfacts; i++) {
        assert_string_equal(a->facts[i], b->facts[i]);
    }
}


/* Runs the stream in all ways; the result is in *s. */
static inline void
stream_all(stream_t *s, const char *text, size_t len)
{
    size_t       i, jump = len / STREAM_CUTS + 1;
    stream_run_t first, run;
    chat_buf_t   facts = { 0 };

    stream_once(s, text, len, len ? len : 1, 0, &first);

    stream_without_forms = 1;
    stream_once(s, text, len, len ? len : 1, 0, &run);
    stream_without_forms = 0;
    stream_same(&first, &run);
    stream_run_free(&run);

    stream_once(s, text, len, 1, 0, &run);
    stream_same(&first, &run);
    stream_run_free(&run);

    for (i = 0; i <= len; i += jump) {
        stream_once(s, text, len, 0, i, &run);
        stream_same(&first, &run);
        stream_run_free(&run);
    }

    for (i = 0; i < first.nfacts; i++) {
        if (i == 0 || strcmp(first.facts[i], first.facts[i - 1]) != 0) {
            chat_buf_puts(&facts, first.facts[i]);
        }
    }
    chat_buf_add(&facts, chat_str("", 1));

    chat_block_give(s->out);
    chat_block_give(s->facts);
    s->out = (char *) first.out.data;
    memset(&first.out, 0, sizeof(first.out));
    s->facts = (char *) facts.data;
    s->info = first.info;
    s->count = first.count;
    stream_run_free(&first);
}


/* The stream's expected output. */
static inline void
stream_expect(stream_t *s, const char *text, const char *expected)
{
    stream_all(s, text, strlen(text));
    assert_string_equal(s->out, expected);
}


/* How many of the facts begin like this after the batch's name. */
static inline size_t
stream_facts(const stream_t *s, const char *fact)
{
    size_t      n = 0;
    const char *at = s->facts;

    while ((at = strchr(at, ' ')) != NULL) {
        n += strncmp(at + 1, fact, strlen(fact)) == 0;
        at = strchr(at, '\n');
        if (at == NULL) {
            break;
        }
    }

    return n;
}


#endif /* STREAM_RUN_H */
