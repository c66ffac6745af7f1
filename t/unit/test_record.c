/*
 * test_record.c: the recording of a stream: its key, its facts, and the
 * response head of a follower.
 *
 * A follower that is counted too often keeps an upstream without readers open;
 * one that is not counted loses its answer. If the head accepted a line that
 * is no header, the store could write into answers.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "facts/chat_recording.h"

#define FACTS_MAX 16


static int
lives(void *data, chat_str_t worker)
{
    return data == NULL || !chat_str_is(worker, data);
}


/* Reads the facts in every rotation; the results must be the same. */
static chat_recording_t
read_all(const chat_facts_t *facts)
{
    size_t           i, from;
    chat_fact_t      turned[FACTS_MAX];
    chat_recording_t out, first;

    assert_false(facts->failed);
    assert_true(facts->count <= FACTS_MAX);
    chat_recording_read(facts->items, facts->count, &first);

    for (from = 1; from < facts->count; from++) {
        for (i = 0; i < facts->count; i++) {
            turned[i] = facts->items[(from + i) % facts->count];
        }

        chat_recording_read(turned, facts->count, &out);
        assert_int_equal(out.followed, first.followed);
        assert_int_equal(out.cleared, first.cleared);
    }

    return first;
}


/* Counts the followers in every rotation; the results must be the same. */
static size_t
feeds_of(const chat_facts_t *facts, const char *dead)
{
    size_t      i, from, first;
    chat_fact_t turned[FACTS_MAX];

    assert_false(facts->failed);
    assert_true(facts->count <= FACTS_MAX);
    first =
        chat_recording_feeds(facts->items, facts->count, lives, (void *) dead);

    for (from = 1; from < facts->count; from++) {
        for (i = 0; i < facts->count; i++) {
            turned[i] = facts->items[(from + i) % facts->count];
        }

        assert_int_equal(
            chat_recording_feeds(turned, facts->count, lives, (void *) dead),
            first);
    }

    return first;
}


static void
a_record_is_of_one_claim(void **state)
{
    size_t        i, k;
    chat_key_t    keys[5], one, two;
    chat_digest_t tag = { { 1 } }, other = { { 2 } };

    memset(&one, 0, sizeof(one));
    memset(&two, 0, sizeof(two));
    one.tag = tag;
    two.tag = other;
    one.tenant = two.tenant = 7;

    chat_recording_key(&one, chat_cstr("w"), chat_cstr("1"), &keys[0]);
    chat_recording_key(&two, chat_cstr("w"), chat_cstr("1"), &keys[1]);
    chat_recording_key(&one, chat_cstr("w1"), chat_cstr(""), &keys[2]);
    chat_recording_key(&one, chat_cstr("w"), chat_cstr("2"), &keys[3]);
    chat_recording_key(&one, chat_cstr(""), chat_cstr("w1"), &keys[4]);

    for (i = 0; i < 5; i++) {
        assert_int_equal(keys[i].tenant, 7);

        /* the hash tag of the batch: in Redis they are neighbours */
        assert_true(chat_digest_eq(&keys[i].tag, i == 1 ? &other : &tag));

        for (k = 0; k < i; k++) {
            assert_false(chat_digest_eq(&keys[i].name, &keys[k].name));
        }
    }

    chat_recording_key(&one, chat_cstr("w"), chat_cstr("1"), &keys[1]);
    assert_memory_equal(&keys[0], &keys[1], sizeof(keys[0]));
}


static void
a_recording_is_read_as_it_was_written(void **state)
{
    chat_facts_t     facts;
    chat_arena_t    *arena = chat_arena_create(0);
    chat_recording_t out;

    chat_facts_init(&facts, arena);
    chat_facts_add(&facts, "wait/w", chat_cstr("1"));
    chat_facts_add(&facts, "feeds/w/1", chat_cstr("1"));
    out = read_all(&facts);
    assert_false(out.followed);
    assert_false(out.cleared);
    assert_false(out.over);
    assert_int_equal(out.head.len, 0);

    chat_facts_feed(&facts, chat_cstr("w"), 1);
    chat_facts_add(&facts, CHAT_RECORDING_HEAD, chat_cstr("200 0\n"));
    chat_facts_put(&facts, CHAT_RECORDING_OVER, "1");
    out = read_all(&facts);
    assert_true(out.followed);
    assert_true(out.over);
    assert_true(chat_str_is(out.head, "200 0\n"));

    chat_facts_add(&facts, "cleared", chat_cstr("1"));
    assert_true(read_all(&facts).cleared);

    chat_arena_destroy(arena);
}


static void
followers_of_live_workers_count(void **state)
{
    chat_facts_t  facts;
    chat_arena_t *arena = chat_arena_create(0);

    chat_facts_init(&facts, arena);
    chat_facts_feed(&facts, chat_cstr("0.1.9"), 1);
    chat_facts_feed(&facts, chat_cstr("0.1.9"), 11);
    chat_facts_feed(&facts, chat_cstr("1.1.8"), 1);
    assert_int_equal(feeds_of(&facts, NULL), 3);
    assert_int_equal(feeds_of(&facts, "0.1.9"), 1);

    /* an unknown follower leaves, then a known one */
    chat_facts_gone(&facts, chat_cstr("2.1.8"), 1);
    chat_facts_gone(&facts, chat_cstr("1.1.8"), 11);
    chat_facts_gone(&facts, chat_cstr("0.1.9"), 11);
    assert_int_equal(feeds_of(&facts, NULL), 2);

    chat_facts_gone(&facts, chat_cstr("0.1.9"), 1);
    assert_int_equal(feeds_of(&facts, NULL), 1);
    assert_int_equal(feeds_of(&facts, "1.1.8"), 0);

    /* back again, under a new number */
    chat_facts_feed(&facts, chat_cstr("0.1.9"), UINT32_MAX + 1ULL);
    assert_int_equal(feeds_of(&facts, NULL), 2);

    chat_arena_destroy(arena);
}


static void
malformed_followers_do_not_count(void **state)
{
    size_t      i;
    chat_fact_t fact;

    static const char *const fields[] = {
        "",
        "feed",
        "feed/",
        "feed//",
        "feed//1",
        "feed/w",
        "feed/w/",
        "feed/w/x",
        "feed/w/-1",
        "feed/w/01",
        "feed/w/1234567890123456789",
        "feed/w/x/1",
        "feed/w/1/",
        "Feed/w/1",
        "gone/w/1",
        "feeds/w/1",
    };

    memset(&fact, 0, sizeof(fact));

    for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        fact.field = chat_cstr(fields[i]);
        if (chat_recording_feeds(&fact, 1, lives, NULL) != 0) {
            fail_msg("%s is a feed", fields[i]);
        }
    }

    fact.field = chat_cstr("feed/w/1");
    assert_int_equal(chat_recording_feeds(&fact, 1, lives, NULL), 1);
}


static void
head_round(uint32_t status, const char *message, const char *headers)
{
    chat_buf_t            buf = { 0 };
    chat_recording_head_t head, out;

    head.status = status;
    head.message = chat_cstr(message);
    head.headers = chat_cstr(headers);

    assert_int_equal(chat_recording_head_write(&head, &buf), CHAT_OK);
    assert_int_equal(chat_recording_head_read(chat_buf_str(&buf), &out),
                     CHAT_OK);
    assert_int_equal(out.status, status);
    assert_true(chat_str_eq(out.message, head.message));
    assert_true(chat_str_eq(out.headers, head.headers));

    chat_buf_free(&buf);
}


static void
a_head_is_read_as_it_was_written(void **state)
{
    head_round(200, "", "");
    head_round(200, "msg_1", "Content-Type: text/event-stream\n");
    head_round(201, "a\nb: c\r\n\"\xc3\xa9", "A: \nX-y_z.1: a: b\tc \xe4\n");
    head_round(599, "3 4\n", "Vary: Origin\nVary: Accept\n");
}


static void
headers_of_one_client_are_left_out(void **state)
{
    size_t     i;
    chat_buf_t buf = { 0 };

    static const char *const lines[][2] = {
        { "Content-Type", "text/event-stream" },
        { "connection", "close" },
        { "Keep-Alive", "x" },
        { "Transfer-Encoding", "chunked" },
        { "TE", "x" },
        { "Trailer", "x" },
        { "Upgrade", "x" },
        { "Date", "x" },
        { "Server", "x" },
        { "SET-COOKIE", "id=1" },
        { "Content-Length", "3" },
        { "Accept-Ranges", "bytes" },
        { "X-Chat-Batch", "x" },
        { "X-Chat-Streams", "x" },
        { "X-Chat-Stream", "1f" },
        { "X-Cha", "kept" },
        { "Dat", "kept" },
        { "Dates", "" },
        { "Two Words", "x" },
        { "", "x" },
        { "Bad", "a\nSet-Cookie: b" },
        { "Bad", "a\rb" },
        { "Vary", "Origin" },
    };

    for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        chat_recording_header(&buf, chat_cstr(lines[i][0]),
                              chat_cstr(lines[i][1]));
    }

    assert_true(chat_str_is(chat_buf_str(&buf),
                            "Content-Type: text/event-stream\n"
                            "X-Chat-Stream: 1f\nX-Cha: kept\n"
                            "Dat: kept\nDates: \nVary: Origin\n"));
    chat_buf_free(&buf);
}


static void
any_header_lines_are_cut(void **state)
{
    size_t     i;
    chat_str_t rest, name, value;
    char      *text;

    static const char all[] = "\nA: 1\nno line\nb:\nC: x:\r y\n\nD: \nE: 2";
    static const char *const lines[][2] = {
        { "A", "1" },
        { "C", "x:\r y" },
        { "D", "" },
        { "E", "2" },
    };

    /* without a terminator, so that reading past it is detected */
    text = malloc(sizeof(all) - 1);
    assert_non_null(text);
    memcpy(text, all, sizeof(all) - 1);
    rest = chat_str(text, sizeof(all) - 1);

    for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        assert_true(chat_recording_header_next(&rest, &name, &value));
        assert_true(chat_str_is(name, lines[i][0]));
        assert_true(chat_str_is(value, lines[i][1]));
    }

    assert_false(chat_recording_header_next(&rest, &name, &value));
    rest = chat_str(NULL, 0);
    assert_false(chat_recording_header_next(&rest, &name, &value));
    free(text);
}


/* Bytes of a head, cut to size, so that reading past them is detected. */
static chat_rc_e
head_of(const char *bytes, size_t len)
{
    chat_rc_e             rc;
    chat_recording_head_t out;
    unsigned char        *copy = malloc(len + 1);

    assert_non_null(copy);
    memcpy(copy + 1, bytes, len);
    rc = chat_recording_head_read(chat_str(copy + 1, len), &out);
    free(copy);
    return rc;
}


static void
a_malformed_head_is_bad(void **state)
{
    size_t i;

    static const char *const heads[] = {
        "",
        "200",
        "200 0",
        "200 0\r\n",
        "200 0\r",
        "200  0\n",
        "200\n",
        " 0\n",
        "199 0\n",
        "600 0\n",
        "0200 0\n",
        "20x 0\n",
        "200 1\n",
        "200 00\n",
        "200 -1\n",
        "200 18446744073709551615\n",
        "200 999999999999999999\nA: b\n",
        "200 0 0\n",
        "200 0\nA: b",
        "200 0\nA: b\r\n",
        "200 0\nA: b\rC: d\n",
        "200 0\nA: b\n\n",
        "200 0\n: b\n",
        "200 0\nA\n",
        "200 0\nA:\n",
        "200 0\nA:b\n",
        "200 0\nA B: c\n",
        "200 0\n A: c\n",
        "200 0\n\xc3\xa9: c\n",
        "200 0\nA: b\x01\n",
        "200 0\nA: b\x7f\n",
        "200 2\nxA: b\n",
    };

    for (i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        if (head_of(heads[i], strlen(heads[i])) != CHAT_BAD) {
            fail_msg("%s is a head", heads[i]);
        }
    }

    assert_int_equal(head_of("200 0\nA\0: b\n", 12), CHAT_BAD);
    assert_int_equal(head_of("200 0\nA: b\0\n", 12), CHAT_BAD);
    assert_int_equal(head_of("200 0\nA: b\n", 11), CHAT_OK);
}


/* The entries of a text, cut one after the other, joined by |. */
static void
cut(const char *text, size_t max, const char *expected)
{
    char       got[128] = "";
    size_t     n, at = 0;
    chat_str_t rest = chat_cstr(text);

    while (rest.len != 0) {
        n = chat_recording_cut(rest, max);
        assert_true(n > 0 && n <= rest.len && n <= max);
        at += (size_t) snprintf(got + at, sizeof(got) - at, "%s%.*s",
                                at ? "|" : "", (int) n,
                                (const char *) rest.data);
        rest = chat_str(rest.data + n, rest.len - n);
    }

    assert_string_equal(got, expected);
}


static void
pieces_end_where_events_end(void **state)
{
    cut("a\n\nb\n\nc\n\n", 100, "a\n\nb\n\nc\n\n");
    cut("a\n\nb\n\nc\n\n", 8, "a\n\nb\n\n|c\n\n");
    cut("a\n\nb\n\nc\n\n", 6, "a\n\nb\n\n|c\n\n");
    cut("a\n\nb\n\nc\n\n", 5, "a\n\n|b\n\n|c\n\n");
    cut("a\r\n\r\nbcd\r\n\r\n", 8, "a\r\n\r\n|bcd\r\n\r\n");
    cut("a\r\n\r\nbc", 6, "a\r\n\r\n|bc");

    /* no event ends in it: anywhere */
    cut("a\nbcdef\n\n", 4, "a\nbc|def\n|\n");
    cut("abc", 1, "a|b|c");
    cut("\n\n\n", 1, "\n|\n|\n");

    assert_int_equal(chat_recording_cut(chat_str(NULL, 0), 4), 0);
}


static void
expect_cors(const char *lines, const char *origin, const char *expected)
{
    chat_buf_t out = { 0 };

    chat_recording_cors(&out, chat_cstr(lines), chat_cstr(origin));
    assert_false(out.failed);
    assert_int_equal(out.len, strlen(expected));
    assert_memory_equal(out.data != NULL ? (const char *) out.data : "",
                        expected, out.len);
    chat_buf_free(&out);
}


static void
cors_lines_are_for_the_origin_that_they_admit(void **state)
{
    static const char app[] = "Access-Control-Allow-Origin: https://a\n";
    static const char any[] = "ACCESS-CONTROL-ALLOW-ORIGIN: *\n";

    (void) state;

    expect_cors(app, "https://a", app);
    expect_cors(app, "https://b", "");
    expect_cors(app, "https://a.b", "");
    expect_cors(app, "https://", "");
    expect_cors(app, "", "");
    expect_cors(any, "https://b", any);
    expect_cors(any, "", any);
    expect_cors("Vary: Origin\n", "https://a", "");
    expect_cors("", "https://a", "");
    expect_cors("Access-Control-Allow-Origin: \n", "", "");
    expect_cors("Access-Control-Allow-Origin: https://a\n"
                "Access-Control-Allow-Origin: https://b\n",
                "https://a", "");
}


static void
cors_lines_are_nothing_else(void **state)
{
    (void) state;

    expect_cors("Set-Cookie: a=b\nVary: Origin\nContent-Length: 3\n"
                "access-control-allow-origin: *\nVary\n: x\n"
                "Access-Control-Max-Age: 1\r\nX-A: 1\nVary: \x1b\n"
                "Access-Control\r-X: 1\nAccess-Control-Expose-Headers: x",
                "https://a",
                "Vary: Origin\naccess-control-allow-origin: *\n"
                "Access-Control-Expose-Headers: x\n");
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cors_lines_are_for_the_origin_that_they_admit),
        cmocka_unit_test(cors_lines_are_nothing_else),
        cmocka_unit_test(a_record_is_of_one_claim),
        cmocka_unit_test(a_recording_is_read_as_it_was_written),
        cmocka_unit_test(followers_of_live_workers_count),
        cmocka_unit_test(malformed_followers_do_not_count),
        cmocka_unit_test(a_head_is_read_as_it_was_written),
        cmocka_unit_test(headers_of_one_client_are_left_out),
        cmocka_unit_test(any_header_lines_are_cut),
        cmocka_unit_test(a_malformed_head_is_bad),
        cmocka_unit_test(pieces_end_where_events_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
