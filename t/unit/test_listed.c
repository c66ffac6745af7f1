/*
 * test_listed.c: the streams of a conversation in its index.
 *
 * A client that resumes gets the newest stream, or the one that it names, and
 * only one of its conversation: a fact read wrongly gives a client another
 * answer, or none.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "facts/chat_conversation.h"

#define FACTS_MAX 64


static int
lives(void *data, chat_str_t worker)
{
    return data == NULL || !chat_str_is(worker, data);
}


/* A stream with a name made of this byte. */
static chat_listed_t
stream(unsigned char byte, uint64_t ms, const char *worker)
{
    chat_listed_t listed;

    memset(&listed, 0, sizeof(listed));
    memset(listed.name.bytes, byte, CHAT_DIGEST_SIZE);
    listed.ms = ms;
    listed.dialect = chat_cstr("ai_sdk");
    listed.worker = chat_cstr(worker);
    return listed;
}


static void
list(chat_facts_t *facts, unsigned char byte, uint64_t ms, const char *worker)
{
    chat_listed_t listed = stream(byte, ms, worker);

    chat_facts_listed(facts, CHAT_LISTED_STREAM, &listed);
    assert_false(facts->failed);
}


static chat_str_t
id_of(unsigned char byte)
{
    static char ids[8][CHAT_LISTED_ID + 1];
    static int  next;
    char       *id = ids[next++ % 8];
    chat_key_t  key;

    memset(&key, byte, sizeof(key));
    chat_listed_id(&key, id);
    return chat_cstr(id);
}


/* The id that is found, in every order of the facts. */
static chat_rc_e
find(const chat_facts_t *facts, chat_str_t id, int running, const char *dead,
     chat_listed_t *out)
{
    size_t      i, from;
    chat_rc_e   rc = CHAT_OK;
    chat_fact_t turned[FACTS_MAX];

    for (from = 0; from < facts->count; from++) {
        for (i = 0; i < facts->count; i++) {
            turned[i] = facts->items[(from + i) % facts->count];
        }

        rc = running ? chat_listed_running(turned, facts->count,
                                           CHAT_LISTED_STREAM, id, lives,
                                           (void *) dead, out)
                     : chat_listed_find(turned, facts->count, id, out);
    }

    return rc;
}


static chat_rc_e
find_held(const chat_facts_t *facts, const char *dead, chat_listed_t *out)
{
    return chat_listed_running(facts->items, facts->count, CHAT_LISTED_HOLD,
                               chat_str(NULL, 0), lives, (void *) dead, out);
}


static int
setup(void **state)
{
    chat_facts_t *facts = calloc(1, sizeof(*facts));

    chat_facts_init(facts, chat_arena_create(0));
    *state = facts;
    return 0;
}


static int
teardown(void **state)
{
    chat_facts_t *facts = *state;

    chat_arena_destroy(facts->arena);
    free(facts);
    return 0;
}


static void
the_newest_is_found(void **state)
{
    chat_facts_t *facts = *state;
    chat_listed_t out;

    list(facts, 1, 1000, "w1");
    list(facts, 3, 99999, "w2");
    list(facts, 2, 100000, "w3");
    chat_facts_add(facts, "batch/200000-x", chat_cstr("ai_sdk"));

    assert_int_equal(find(facts, chat_str(NULL, 0), 0, NULL, &out), CHAT_OK);
    assert_true(chat_str_eq(out.id, id_of(2)));
    assert_true(chat_str_is(out.worker, "w3"));
    assert_true(chat_str_is(out.dialect, "ai_sdk"));
    assert_int_equal(out.ms, 100000);
    assert_int_equal(out.name.bytes[31], 2);
    assert_int_equal(out.end, CHAT_END_NONE);
    assert_false(out.stopped);
}


static void
one_is_found_by_its_id(void **state)
{
    chat_facts_t *facts = *state;
    chat_listed_t out;

    list(facts, 1, 1000, "w1");
    list(facts, 2, 2000, "w2");
    chat_facts_over(facts, id_of(1), CHAT_END_INTERRUPTED);
    chat_facts_stop(facts, id_of(2));

    assert_int_equal(find(facts, id_of(1), 0, NULL, &out), CHAT_OK);
    assert_int_equal(out.ms, 1000);
    assert_int_equal(out.end, CHAT_END_INTERRUPTED);
    assert_false(out.stopped);
    assert_int_equal(find(facts, id_of(2), 0, NULL, &out), CHAT_OK);
    assert_int_equal(out.end, CHAT_END_NONE);
    assert_true(out.stopped);
    assert_int_equal(find(facts, id_of(3), 0, NULL, &out), CHAT_DECLINED);
    assert_int_equal(find(facts, id_of(2), 1, NULL, &out), CHAT_DECLINED);
}


static void
a_void_stream_is_found_only_by_its_id(void **state)
{
    chat_facts_t *facts = *state;
    chat_listed_t out;

    list(facts, 1, 1000, "w1");
    list(facts, 2, 2000, "w1");
    list(facts, 3, 3000, "w1");
    chat_facts_over(facts, id_of(1), CHAT_END_FINISHED);
    chat_facts_over(facts, id_of(3), CHAT_END_NONE);

    assert_int_equal(find(facts, chat_str(NULL, 0), 0, NULL, &out), CHAT_OK);
    assert_int_equal(out.ms, 2000);
    assert_int_equal(find(facts, id_of(3), 0, NULL, &out), CHAT_OK);
    assert_true(out.end != CHAT_END_NONE && out.empty);

    chat_facts_over(facts, id_of(2), CHAT_END_NONE);
    assert_int_equal(find(facts, chat_str(NULL, 0), 0, NULL, &out), CHAT_OK);
    assert_true(out.ms == 1000 && !out.empty);
    assert_int_equal(out.end, CHAT_END_FINISHED);
    assert_int_equal(find(facts, chat_str(NULL, 0), 1, NULL, &out),
                     CHAT_DECLINED);
}


static void
a_running_stream_is_found_behind_ended_ones(void **state)
{
    size_t        i;
    chat_facts_t *facts = *state;
    chat_listed_t out;

    list(facts, 1, 1000, "w1");

    for (i = 2; i < 2 + CHAT_LISTED_LOOK - 1; i++) {
        list(facts, (unsigned char) i, i * 1000, i == 2 ? "dead" : "w1");
        if (i % 2 != 0) {
            chat_facts_over(facts, id_of((unsigned char) i),
                            CHAT_END_FINISHED);
        } else if (i != 2) {
            chat_facts_stop(facts, id_of((unsigned char) i));
        }
    }

    assert_int_equal(find(facts, chat_str(NULL, 0), 1, "dead", &out), CHAT_OK);
    assert_int_equal(out.ms, 1000);
    assert_int_equal(find(facts, chat_str(NULL, 0), 1, NULL, &out), CHAT_OK);
    assert_int_equal(out.ms, 2000);

    /* and not beyond the bound */
    list(facts, 99, 99000, "dead");
    assert_int_equal(find(facts, chat_str(NULL, 0), 1, "dead", &out),
                     CHAT_DECLINED);
}


static void
what_does_not_parse_is_absent(void **state)
{
    size_t        i;
    chat_facts_t *facts = *state;
    chat_listed_t out;

#define NAME "01010101010101010101010101010101"
    static const char *const bad[][2] = {
        { "stream/1000-0101010101010101", "w ai_sdk" },
        { "stream/1000-0101010101010101", "w ai_sdk " NAME },
        { "stream/1000-0202020202020202", "w ai_sdk " NAME NAME },
        { "stream/1000-010101010101010", "w ai_sdk " NAME NAME },
        { "stream/1000-010101010101010X", "w ai_sdk " NAME NAME },
        { "stream/10000101010101010101", "w ai_sdk " NAME NAME },
        { "stream/-0101010101010101", "w ai_sdk " NAME NAME },
        { "stream/01-0101010101010101", "w ai_sdk " NAME NAME },
        { "stream/", "w ai_sdk " NAME NAME },
        { "streams/1-0101010101010101", "w ai_sdk " NAME NAME },
    };

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        chat_facts_add(facts, bad[i][0], chat_cstr(bad[i][1]));
    }

    assert_int_equal(find(facts, chat_str(NULL, 0), 0, NULL, &out),
                     CHAT_DECLINED);
    chat_facts_add(facts, "stream/1000-0101010101010101",
                   chat_cstr("w ai_sdk " NAME NAME));
    assert_int_equal(find(facts, chat_str(NULL, 0), 0, NULL, &out), CHAT_OK);
}


static void
a_place_is_a_number_or_a_stream_and_a_number(void **state)
{
    size_t          i;
    chat_position_t place;

    static const char *const bad[] = { "",
                                       "-",
                                       "x",
                                       "1x",
                                       "01",
                                       "-1",
                                       "0123456789abcdef",
                                       "0123456789abcdef-",
                                       "0123456789abcdef-x",
                                       "0123456789abcdeF-1",
                                       "0123456789abcdef-01",
                                       "0123456789abcdef-1234567890123456789",
                                       "0123456789abcde-1",
                                       "0123456789abcdef0-1" };

    (void) state;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(chat_position_read(chat_cstr(bad[i]), &place),
                         CHAT_BAD);
    }

    assert_int_equal(chat_position_read(chat_cstr("17"), &place), CHAT_OK);
    assert_int_equal(place.stream.len, 0);
    assert_int_equal(place.after, 17);
    assert_int_equal(
        chat_position_read(chat_cstr("0123456789abcdef-0"), &place), CHAT_OK);
    assert_true(chat_str_is(place.stream, "0123456789abcdef"));
    assert_int_equal(place.after, 0);
}


/* A hold is no stream: it is found until it ends, or its worker dies. */
static void
s128_a_hold_is_found_until_it_ends(void **state)
{
    chat_facts_t *facts = *state;
    chat_listed_t out, held = stream(7, 2000, "w1");

    chat_facts_listed(facts, CHAT_LISTED_HOLD, &held);
    assert_int_equal(find(facts, chat_cstr(""), 0, NULL, &out), CHAT_DECLINED);
    assert_int_equal(find(facts, chat_cstr(""), 1, NULL, &out), CHAT_DECLINED);
    list(facts, 1, 1000, "w1");
    assert_int_equal(find(facts, chat_cstr(""), 0, NULL, &out), CHAT_OK);
    assert_int_equal(out.ms, 1000);

    assert_int_equal(find_held(facts, NULL, &out), CHAT_OK);
    assert_int_equal(find_held(facts, "w1", &out), CHAT_DECLINED);

    chat_facts_over(facts, id_of(7), CHAT_END_NONE);
    assert_int_equal(find_held(facts, NULL, &out), CHAT_DECLINED);
}


/* The facts without the dropped fields. */
static size_t
without(chat_fact_t *facts, size_t n, const chat_str_t *fields, size_t count)
{
    size_t i, k, kept = 0;

    for (i = 0; i < n; i++) {
        for (k = 0; k < count && !chat_str_eq(facts[i].field, fields[k]); k++)
        { /* void */
        }

        if (k == count) {
            facts[kept++] = facts[i];
        }
    }

    return kept;
}


/* The request of this answer was held and no longer is. */
static void
hold_ended(chat_facts_t *facts, const chat_listed_t *answer)
{
    char          id[CHAT_LISTED_ID + 1];
    chat_key_t    key;
    chat_listed_t hold = *answer;

    hold.name.bytes[0] ^= 0xff;
    key.name = hold.name;
    chat_listed_id(&key, id);
    chat_facts_listed(facts, CHAT_LISTED_HOLD, &hold);
    chat_facts_over(facts, chat_cstr(id), CHAT_END_NONE);
}


/* Ten thousand answers to held requests; every 1,000th answer runs on. */
static void
s130_the_oldest_answers_go_and_the_newest_is_found(void **state)
{
    char                 id[CHAT_LISTED_ID + 1];
    size_t               i, n = 0, count, most = 0;
    uint64_t             first = 0;
    chat_str_t          *fields;
    chat_key_t           key;
    chat_fact_t          facts[2 * CHAT_LISTED_MOST];
    chat_facts_t         some;
    chat_listed_t        listed, found;
    chat_arena_t        *arena = chat_arena_create(0);
    chat_indexed_batch_t recorded, newest;

    memset(&key, 0, sizeof(key));
    memset(&recorded, 0, sizeof(recorded));

    for (i = 1; i <= 10000; i++) {
        chat_digest(chat_str(&i, sizeof(i)), &key.name);
        chat_listed_id(&key, id);
        listed = stream(0, i, "w");
        listed.name = key.name;
        recorded.names[0] = key.name;
        recorded.nnames = 1;
        recorded.dialect = chat_cstr("ai_sdk");

        chat_facts_init(&some, arena);
        chat_facts_listed(&some, CHAT_LISTED_STREAM, &listed);
        chat_facts_batch(&some, i, &recorded);

        hold_ended(&some, &listed);

        if (i % 1000 != 0) {
            chat_facts_over(&some, chat_cstr(id), CHAT_END_FINISHED);
        }

        memcpy(facts + n, some.items, some.count * sizeof(*facts));
        n += some.count;

        assert_int_equal(chat_listed_find(facts, n, chat_str(NULL, 0), &found),
                         CHAT_OK);
        assert_int_equal(found.ms, i);
        assert_int_equal(chat_batch_newest(facts, n, &newest), CHAT_OK);
        assert_int_equal(newest.ms, i);

        count = chat_listed_surplus(facts, n, arena, &fields);
        n = without(facts, n, fields, count);
        most = n > most ? n : most;
        assert_in_range(n, 1, CHAT_LISTED_MOST);
    }

    assert_in_range(most, CHAT_LISTED_KEPT, CHAT_LISTED_MOST);

    for (i = 0; i < n; i++) {
        if (chat_str_starts(facts[i].field, "stream/1000-")) {
            first = 1000;
        }
    }

    /* a running stream is not removed */
    assert_int_equal(first, 1000);
    chat_arena_destroy(arena);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_newest_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(s128_a_hold_is_found_until_it_ends,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(one_is_found_by_its_id, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_void_stream_is_found_only_by_its_id,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_running_stream_is_found_behind_ended_ones, setup, teardown),
        cmocka_unit_test_setup_teardown(what_does_not_parse_is_absent, setup,
                                        teardown),
        cmocka_unit_test(a_place_is_a_number_or_a_stream_and_a_number),
        cmocka_unit_test(s130_the_oldest_answers_go_and_the_newest_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
