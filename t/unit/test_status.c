/*
 * test_status.c: the module's status report.
 *
 * It is valid JSON with any ids, shows only the allowed part of them, and has
 * each number under its name. Times are counted in their buckets.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "dialect/chat_dialect.h"
#include "json/chat_json.h"
#include "report/chat_status.h"
#include "../buf_printf.h"


static chat_status_t
sample(void)
{
    size_t        i;
    chat_status_t status;
    uint64_t     *numbers = (uint64_t *) &status.metrics;

    memset(&status, 0, sizeof(status));
    status.version = chat_cstr("1.2.3");
    status.nginx = chat_cstr("1.22.1");
    status.node = chat_cstr("here");
    status.store = "shm";
    status.oldest = 61000;

    for (i = 0; i < sizeof(chat_metrics_t) / sizeof(uint64_t); i++) {
        numbers[i] = i + 1;
    }

    assert_true(chat_dialect_count < CHAT_METRICS_DIALECTS);
    return status;
}


static chat_json_doc_t
parsed(const chat_buf_t *text, chat_arena_t *arena)
{
    chat_json_doc_t doc;

    assert_int_equal(chat_json_parse(&doc, arena, chat_buf_str(text)),
                     CHAT_OK);
    return doc;
}


static uint64_t
number(chat_json_doc_t *doc, const chat_json_t *object, const char *key)
{
    int32_t n = chat_json_index(doc, chat_json_get(doc, object, key));

    assert_true(n >= 0);
    return (uint64_t) n;
}


static void
each_counter_is_under_its_name(void **state)
{
    size_t                i, k;
    chat_buf_t            out = { 0 };
    chat_json_t          *counters, *requests, *reasons, *turns, *breaks, *one;
    chat_arena_t         *arena = chat_arena_create(0);
    chat_status_t         status = sample();
    chat_json_doc_t       doc;
    const chat_metrics_t *m = &status.metrics;

    (void) state;
    chat_status_json(&status, &out);
    doc = parsed(&out, arena);
    counters = chat_json_get(&doc, doc.root, "counters");
    requests = chat_json_get(&doc, counters, "requests");
    turns = chat_json_get(&doc, counters, "turns");
    breaks = chat_json_get(&doc, counters, "interruptions");

    for (i = 0; i <= chat_dialect_count; i++) {
        one = chat_json_get(&doc, requests, chat_metrics_dialect_name(i));

        for (k = 0; k < CHAT_VERDICTS; k++) {
            assert_int_equal(number(&doc, one, chat_verdict_names[k]),
                             m->requests[i][k]);
        }
    }

    for (i = 0; i < chat_dialect_count; i++) {
        one = chat_json_get(&doc, turns, chat_metrics_dialect_name(i));

        for (k = 0; k < CHAT_METRICS_ENDS; k++) {
            assert_int_equal(
                number(&doc, one, chat_end_names[(chat_end_e) (k + 1)]),
                m->turns[i][k]);
        }
    }

    reasons = chat_json_get(&doc, counters, "reasons");

    for (k = CHAT_REASON_COUNTED; k < CHAT_REASONS; k++) {
        one = chat_json_get(&doc, reasons,
                            chat_verdict_names[chat_reasons[k].verdict]);
        assert_int_equal(number(&doc, one, chat_reasons[k].word),
                         m->reasons[k]);
    }

    for (k = 0; k < CHAT_BREAKS; k++) {
        assert_int_equal(number(&doc, breaks, chat_break_names[k]),
                         m->breaks[k]);
    }

    for (k = 0; k < CHAT_COUNTS; k++) {
        assert_int_equal(number(&doc, counters, chat_count_names[k]),
                         m->counts[k]);
    }

    chat_buf_free(&out);
    chat_arena_destroy(arena);
}


static void
each_gauge_is_under_its_name(void **state)
{
    size_t                i, k;
    uint64_t              n;
    chat_str_t            counts;
    chat_buf_t            out = { 0 }, want = { 0 };
    chat_json_t          *holds, *records, *timings, *one;
    chat_arena_t         *arena = chat_arena_create(0);
    chat_status_t         status = sample();
    chat_json_doc_t       doc;
    const chat_metrics_t *m = &status.metrics;

    (void) state;
    chat_status_json(&status, &out);
    doc = parsed(&out, arena);
    holds = chat_json_get(&doc, doc.root, "holds");
    records = chat_json_get(&doc, doc.root, "recordings");
    timings = chat_json_get(&doc, doc.root, "histograms");

    assert_int_equal(number(&doc, doc.root, "workers"), m->now.workers);
    assert_int_equal(number(&doc, holds, "now"), m->now.holds);
    assert_int_equal(number(&doc, holds, "oldest_ms"), status.oldest);
    assert_int_equal(number(&doc, records, "streams"), m->now.streams);
    assert_int_equal(number(&doc, records, "bytes"), m->now.bytes);
    assert_int_equal(number(&doc, records, "followers"), m->now.followers);
    assert_true(chat_str_is(chat_json_text(&doc, doc.root, "node"), "here"));
    /* the worst state of all workers */
    assert_true(chat_str_is(
        chat_json_text(&doc, chat_json_get(&doc, doc.root, "store"), "state"),
        "unavailable"));

    for (i = 0; i < CHAT_TIMINGS; i++) {
        one = chat_json_get(&doc, timings, chat_timing_names[i]);
        counts = chat_json_raw(&doc, chat_json_get(&doc, one, "counts"));
        want.len = 0;

        for (k = 0, n = 0; k < CHAT_METRICS_BUCKETS; k++) {
            n += m->timings[i].buckets[k];
            chat_buf_printf(&want, "%c%d", k ? ',' : '[', (int) n);
        }

        chat_buf_puts(&want, "]");
        assert_true(chat_str_eq(counts, chat_buf_str(&want)));
        assert_int_equal(number(&doc, one, "count"),
                         n + m->timings[i].buckets[CHAT_METRICS_BUCKETS]);
    }

    chat_buf_free(&want);
    chat_buf_free(&out);
    chat_arena_destroy(arena);
}


/* The batch and the event of an id as JSON; the shown id. */
static void
shown(chat_str_t id, char *text, size_t size)
{
    chat_str_t          value;
    chat_buf_t          out = { 0 };
    chat_status_batch_t batch;
    chat_arena_t       *arena = chat_arena_create(0);
    chat_status_t       status = sample();
    chat_json_doc_t     doc;
    chat_log_event_t    event;

    memset(&batch, 0, sizeof(batch));
    memset(&event, 0, sizeof(event));
    chat_short(&batch.conversation, id);
    batch.nmembers = 100;
    batch.members[0].id = batch.conversation;
    event.conversation = batch.conversation;
    memset(event.detail, 'x', sizeof(event.detail) - 1);
    status.batches = &batch;
    status.events = &event;
    status.nbatches = status.nevents = 1;
    chat_status_json(&status, &out);

    doc = parsed(&out, arena);
    value = chat_json_string(
        &doc,
        chat_json_get(&doc, chat_json_get(&doc, doc.root, "batches")->child,
                      "conversation"));
    assert_true(value.len < size);
    if (value.len != 0) {
        memcpy(text, value.data, value.len);
    }
    text[value.len] = 0;

    chat_buf_free(&out);
    chat_arena_destroy(arena);
}


static void
ids_are_cut_between_characters(void **state)
{
    char text[64];

    (void) state;
    shown(chat_cstr(""), text, sizeof(text));
    assert_string_equal(text, "");
    shown(chat_cstr("twelve bytes"), text, sizeof(text));
    assert_string_equal(text, "twelve bytes");
    shown(chat_cstr("thirteen byte"), text, sizeof(text));
    assert_string_equal(text, "thirteen byt\xe2\x80\xa6");
    shown(chat_cstr("eleven byte\xc3\xa9"), text, sizeof(text));
    assert_string_equal(text, "eleven byte\xe2\x80\xa6");
    shown(chat_cstr("\xf0\x9f\x98\x80 \"\\\x01</"), text, sizeof(text));
    assert_string_equal(text, "\xf0\x9f\x98\x80 \"\\\x01</");
}


static void
what_is_no_character_is_replaced(void **state)
{
    char                     text[64];
    size_t                   i;
    static const char *const bad[] = {
        "\x80", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
        "\xff", "\xc3",     "\xf0\x9f\x98",
    };

    (void) state;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        shown(chat_cstr(bad[i]), text, sizeof(text));
        assert_int_equal(strncmp(text, "\xef\xbf\xbd", 3), 0);
    }
}


static void
times_go_into_their_buckets(void **state)
{
    size_t         i;
    chat_metrics_t m, sum;
    const uint64_t far = UINT64_C(1) << 40;

    (void) state;
    memset(&m, 0, sizeof(m));
    memset(&sum, 0, sizeof(sum));

    for (i = 0; i < CHAT_METRICS_BUCKETS; i++) {
        chat_metrics_time(&m, CHAT_TIMING_STORE,
                          chat_timing_bounds[CHAT_TIMING_STORE][i]);
    }

    chat_metrics_time(&m, CHAT_TIMING_STORE, far);

    for (i = 0; i <= CHAT_METRICS_BUCKETS; i++) {
        assert_int_equal(m.timings[CHAT_TIMING_STORE].buckets[i], 1);
    }

    m.now.holds = 1;
    chat_metrics_add(&sum, &m, 1);
    chat_metrics_add(&sum, &m, 0);
    assert_int_equal(sum.now.holds, 1);

    for (i = 0; i <= CHAT_METRICS_BUCKETS; i++) {
        assert_int_equal(sum.timings[CHAT_TIMING_STORE].buckets[i], 2);
    }

    assert_true(sum.timings[CHAT_TIMING_STORE].sum > 2 * far);
}


static void
seconds_have_no_exponent(void **state)
{
    size_t     i;
    chat_buf_t out;
    const struct {
        uint64_t    us;
        const char *text;
    } cases[] = { { 0, "0" },       { 10, "0.00001" }, { 2500, "0.0025" },
                  { 1000000, "1" }, { 1, "0.000001" }, { 61500000, "61.5" } };

    (void) state;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        memset(&out, 0, sizeof(out));
        chat_status_put_seconds(&out, cases[i].us);
        assert_true(chat_str_is(chat_buf_str(&out), cases[i].text));
        chat_buf_free(&out);
    }
}


static void
each_name_is_known_by_its_place(void **state)
{
    size_t i;

    (void) state;

    for (i = 0; i < chat_dialect_count; i++) {
        assert_int_equal(chat_metrics_dialect(chat_dialects[i]), i);
        assert_string_equal(chat_metrics_dialect_name(i),
                            chat_dialects[i]->name);
    }

    assert_string_equal(chat_metrics_dialect_name(chat_metrics_dialect(NULL)),
                        "none");
    for (i = 0; i < CHAT_BREAKS; i++) {
        assert_int_equal(chat_metrics_break(chat_break_names[i]), i);
    }

    assert_string_equal(chat_break_names[CHAT_BREAK_STALL], "stall");
    assert_string_equal(chat_break_names[CHAT_BREAK_PRODUCER_LOST],
                        "producer_lost");
    assert_int_equal(chat_metrics_break(NULL), CHAT_BREAK_RESET);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_counter_is_under_its_name),
        cmocka_unit_test(each_gauge_is_under_its_name),
        cmocka_unit_test(ids_are_cut_between_characters),
        cmocka_unit_test(what_is_no_character_is_replaced),
        cmocka_unit_test(times_go_into_their_buckets),
        cmocka_unit_test(seconds_have_no_exponent),
        cmocka_unit_test(each_name_is_known_by_its_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
