/*
 * test_status.c: what the module tells of itself.
 *
 * It is valid JSON whatever ids are, says of them what may be shown, and is
 * read back by another node as it was written; a text that is none is
 * survived. Times go into the buckets that they belong to.
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


static chat_status_t
sample(chat_node_t *node)
{
    size_t        i;
    chat_status_t status;
    uint64_t     *numbers = (uint64_t *) &status.metrics;

    memset(&status, 0, sizeof(status));
    memset(node, 0, sizeof(*node));
    status.version = chat_cstr("1.2.3");
    status.nginx = chat_cstr("1.22.1");
    status.store = "shm";
    status.nodes = node;
    status.nnodes = 1;

    for (i = 0; i < sizeof(chat_metrics_t) / sizeof(uint64_t); i++) {
        numbers[i] = i + 1;
    }

    /* what there is no dialect for is neither written nor read */
    assert_int_equal(chat_metrics_dialects(), chat_dialect_count());

    for (i = chat_metrics_dialects() + 1; i < CHAT_METRICS_DIALECTS; i++) {
        memset(status.metrics.requests[i], 0,
               sizeof(status.metrics.requests[i]));
    }

    for (i = chat_metrics_dialects(); i < CHAT_METRICS_DIALECTS; i++) {
        memset(status.metrics.turns[i], 0, sizeof(status.metrics.turns[i]));
    }

    memset(status.metrics.stores, 0, sizeof(status.metrics.stores));
    status.metrics.stores[2] = status.metrics.workers;
    node->len = 4;
    memcpy(node->name, "here", 4);
    node->state = 2;
    node->workers = (uint32_t) status.metrics.workers;
    node->holds = status.metrics.holds;
    node->oldest = status.oldest = 61000;
    return status;
}


static void
what_is_written_is_read_back(void **state)
{
    chat_buf_t     out = { NULL, 0, 0, 0 };
    chat_node_t    node, read_node;
    chat_arena_t  *arena = chat_arena_create(0);
    chat_status_t  status = sample(&node);
    chat_metrics_t read;

    (void) state;
    chat_status_json(&status, &out);
    assert_int_equal(
        chat_status_read(chat_buf_str(&out), arena, &read, &read_node),
        CHAT_OK);
    assert_memory_equal(&read, &status.metrics, sizeof(read));
    assert_memory_equal(&read_node, &node, sizeof(node));
    chat_buf_free(&out);
    chat_arena_destroy(arena);
}


/* Each cut of it, and each byte of it another: no crash, no false length. */
static void
what_is_broken_is_survived(void **state)
{
    size_t         i;
    chat_str_t     text;
    chat_buf_t     out = { NULL, 0, 0, 0 };
    chat_node_t    node;
    chat_arena_t  *arena = chat_arena_create(0);
    chat_status_t  status = sample(&node);
    chat_metrics_t read;
    unsigned char  was;

    (void) state;
    chat_status_json(&status, &out);
    text = chat_buf_str(&out);

    /* but for its line end, of which it can do without */
    for (i = 0; i < text.len - 1; i += 7) {
        was = out.data[i];
        out.data[i] = "\0\"{[9.-e"[i % 8];
        chat_arena_reset(arena);
        (void) chat_status_read(text, arena, &read, &node);
        assert_true(node.len <= CHAT_STATUS_NODE && node.state <= 2);
        out.data[i] = was;
        chat_arena_reset(arena);
        assert_int_not_equal(
            chat_status_read(chat_str(text.data, i), arena, &read, &node),
            CHAT_OK);
    }

    chat_buf_free(&out);
    chat_arena_destroy(arena);
}


/* The batch and the event of an id as their JSON; the id as it is shown. */
static void
shown(chat_str_t id, char *text, size_t size)
{
    chat_str_t       value;
    chat_buf_t       out = { NULL, 0, 0, 0 };
    chat_held_t      batch;
    chat_node_t      node;
    chat_arena_t    *arena = chat_arena_create(0);
    chat_status_t    status = sample(&node);
    chat_json_doc_t  doc;
    chat_happening_t event;

    memset(&batch, 0, sizeof(batch));
    memset(&event, 0, sizeof(event));
    memset(&doc, 0, sizeof(doc));
    chat_short(&batch.conversation, id);
    batch.nmembers = 100;
    batch.members[0].id = batch.conversation;
    event.conversation = batch.conversation;
    memset(event.detail, 'x', sizeof(event.detail));
    status.batches = &batch;
    status.events = &event;
    status.nbatches = status.nevents = 1;
    chat_status_json(&status, &out);

    assert_int_equal(chat_json_parse(&doc, arena, chat_buf_str(&out)),
                     CHAT_OK);
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

    chat_metrics_add(&sum, &m);
    chat_metrics_add(&sum, &m);
    assert_int_equal(chat_timing_count(&sum.timings[CHAT_TIMING_STORE]),
                     2 * (CHAT_METRICS_BUCKETS + 1));
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

    for (i = 0; i < chat_metrics_dialects(); i++) {
        assert_int_equal(chat_metrics_dialect(chat_metrics_dialect_name(i)),
                         i);
    }

    assert_string_equal(
        chat_metrics_dialect_name(chat_metrics_dialect("nobody")), "none");
    for (i = 0; i < CHAT_CUTS; i++) {
        assert_int_equal(chat_metrics_cut(chat_cut_names[i]), i);
    }

    assert_string_equal(chat_cut_names[CHAT_CUT_STALL], "stall");
    assert_string_equal(chat_cut_names[CHAT_CUT_PRODUCER_LOST],
                        "producer_lost");
    assert_int_equal(chat_metrics_cut(NULL), CHAT_CUT_RESET);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(what_is_broken_is_survived),
        cmocka_unit_test(ids_are_cut_between_characters),
        cmocka_unit_test(what_is_no_character_is_replaced),
        cmocka_unit_test(times_go_into_their_buckets),
        cmocka_unit_test(seconds_have_no_exponent),
        cmocka_unit_test(each_name_is_known_by_its_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
