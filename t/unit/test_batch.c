/*
 * test_batch.c: facts, written and read back.
 *
 * The meaning of facts must not depend on their order, on repetition, or on
 * other facts: a store and its key space are shared.
 */

#include "batch_sample.h"


static void
what_is_written_is_read(void **state)
{
    chat_facts_t facts;
    chat_batch_t batch;

    sample(&facts);
    assert_int_equal(facts.count, 28);
    read_sample(facts.items, facts.count);

    assert_true(chat_str_is(facts.items[6].payload, "{\"x\":1}"));
    assert_true(chat_str_is(facts.items[8].payload, "\"no\""));
    assert_int_equal(facts.items[7].has_payload, 0);

    assert_int_equal(chat_batch_read(NULL, 0, arena, &batch), CHAT_OK);
    assert_int_equal(batch.nmembers, 0);
    assert_int_equal(batch.last.k, 0);
    assert_int_equal(batch.answered.k, 0);
}


static void
s28_order_and_repetition_are_no_matter(void **state)
{
    size_t       i, n, run;
    chat_fact_t  list[FACTS_MAX];
    chat_facts_t facts;

    sample(&facts);

    for (run = 0; run < 3000; run++) {
        n = facts.count;
        memcpy(list, facts.items, n * sizeof(list[0]));

        for (i = dice(20); i > 0; i--) {
            list[n++] = facts.items[dice((uint32_t) facts.count)];
        }

        shuffle(list, n);
        read_sample(list, n);
    }
}


/* A call is known before its approval is asked for; both orders are read. */
static void
s40_a_call_that_is_asked_for_later(void **state)
{
    size_t       i;
    chat_fact_t  turned[2];
    chat_facts_t facts;
    chat_batch_t batch;
    chat_hash_t  print;

    memset(&print, 1, sizeof(print));
    chat_facts_init(&facts, arena);
    chat_facts_call(&facts, chat_cstr("x"), CHAT_KIND_CLIENT, 0, &print);
    chat_facts_call(&facts, chat_cstr("x"), CHAT_KIND_APPROVAL, 0, &print);
    assert_int_equal(facts.count, 3);

    /* the second call/x did not get into the store */
    for (i = 0; i < 2; i++) {
        turned[i] = facts.items[0];
        turned[1 - i] = facts.items[2];
        assert_int_equal(chat_batch_read(turned, 2, arena, &batch), CHAT_OK);
        assert_int_equal(batch.nmembers, 1);
        assert_int_equal(batch.members[0].kind, CHAT_KIND_APPROVAL);
    }
}


/* A few random bytes that resemble valid facts. */
static chat_str_t
nonsense(void)
{
    static const char *const bits[] = {
        "call/",
        "result/",
        "approval/",
        "claim/",
        "answer/",
        "end/",
        "void/",
        "wait/",
        "seal2",
        "Since",
        "0",
        "00",
        "01",
        "11x",
        "-1",
        "3 c ",
        "o ",
        "4294967295",
        "4294967296",
        "999999999999999999999",
        " ",
        "  ",
        "/",
        "\n",
        "finished",
        "w1",
        "w3/9",
        "0123456789abcdef",
        "0123456789abcde",
    };
    size_t     i;
    char       c;
    chat_str_t s;
    chat_buf_t text = { 0 };

    for (i = dice(6); i > 0; i--) {
        if (dice(5) == 0) {
            c = (char) dice(256);
            chat_buf_add(&text, chat_str(&c, 1));
        } else {
            chat_buf_puts(&text, bits[dice(sizeof(bits) / sizeof(bits[0]))]);
        }
    }

    assert_int_equal(chat_arena_dup(arena, chat_buf_str(&text), &s), CHAT_OK);
    chat_buf_free(&text);
    return s;
}


/*
 * 1 if the fact could be a written one: a test must not invent those. Facts
 * about an attempt may be invented, since they need the name of its claimant.
 */
static int
is_sense(chat_str_t field)
{
    size_t                   i, len;
    static const char *const known[] = { "call/",   "result/", "approval/",
                                         "claim/1", "claim/2", "claim/3",
                                         "claim/4", "claim/5", "claim/6",
                                         "claim/7", "claim/8", "claim/9" };
    static const char *const plain[] = { "since",  "open",    "seal",
                                         "broken", "partial", "superseded",
                                         "cleared" };

    for (i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        if (chat_str_is(field, plain[i])) {
            return 1;
        }
    }

    for (i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        len = strlen(known[i]);
        if (chat_str_starts(field, known[i])
            && (i < 3 || (field.len > len - 1 && field.data[len - 1] != '0')))
        {
            return 1;
        }
    }

    return 0;
}


static void
malformed_facts_are_ignored(void **state)
{
    size_t       i, n, run;
    chat_fact_t  list[FACTS_MAX], fact;
    chat_facts_t facts;
    chat_batch_t batch;

    for (run = 0; run < 20000; run++) {
        chat_arena_reset(arena);
        sample(&facts);
        n = facts.count;
        memcpy(list, facts.items, n * sizeof(list[0]));

        for (i = dice(20); i > 0; i--) {
            memset(&fact, 0, sizeof(fact));
            fact.field = nonsense();
            fact.value = nonsense();
            fact.has_payload = (int) dice(2);
            list[n++] = fact;
        }

        shuffle(list, n);
        assert_int_equal(chat_batch_read(list, n, arena, &batch), CHAT_OK);

        for (i = 0; i < n; i++) {
            if (is_sense(list[i].field)) {
                list[i--] = list[--n];
            }
        }

        /* reading facts leaves all other fields unchanged */
        for (i = 0; i < facts.count; i++) {
            list[n++] = facts.items[i];
        }

        shuffle(list, n);
        read_sample(list, n);
    }
}


static void
a_call_that_does_not_parse_leaves_what_its_result_says(void **state)
{
    static const chat_hash_t digest = { { 1 } }, answered = { { 2 } };

    chat_str_t   a = CHAT_STR("a");
    chat_facts_t facts;
    chat_batch_t batch;

    chat_facts_init(&facts, arena);
    chat_facts_result(&facts, a, CHAT_OUTCOME_OK, &digest, &answered, NULL);
    chat_facts_add(&facts, "call/a", chat_cstr("0 c 0123456789abcde"));
    assert_int_equal(chat_batch_read(facts.items, facts.count, arena, &batch),
                     CHAT_OK);
    assert_int_equal(batch.nmembers, 1);
    assert_true(chat_hash_eq(&batch.members[0].fingerprint, &answered));
}


/* Facts that do not parse count as absent. */
static void
values_that_do_not_parse(void **state)
{
#define HASH "0123456789abcdef"
    static const char *const rows[][2] = {
        { "call/a", "" },
        { "call/a", "1" },
        { "call/a", "1 c" },
        { "call/a", "1 c 0123456789abcde" },
        { "call/a", "-1 c " HASH },
        { "call/a", "01 c " HASH },
        { "call/a", "4294967295 c " HASH },
        { "call/a", "1  c " HASH },
        { "call/a", "1 c " HASH "0" },
        { "result/a", "o " HASH },
        { "result/a", "o " HASH " 0" },
        { "result/a", "x " HASH " " HASH },
        { "result/a", "oo " HASH " " HASH },
        { "approval/a", "" },
        { "approval/a", "x" },
        { "approval/a", "granted" },
        { "since", "x" },
        { "sinc", "1" },
        { "sealed", "1" },
        { "seal/1", "1" },
        { "claim/0", "w r" },
        { "claim/01", "w r" },
        { "claim/", "w r" },
        { "claim/1/", "w r" },
        { "claim/1000001", "w r" },
        { "claim/99999999999999999999", "w r" },
    };
    size_t       i;
    chat_fact_t  fact;
    chat_batch_t batch, none;

    memset(&none, 0, sizeof(none));
    chat_table_init(&none.index, arena);

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        memset(&fact, 0, sizeof(fact));
        fact.field = chat_cstr(rows[i][0]);
        fact.value = chat_cstr(rows[i][1]);
        assert_int_equal(chat_batch_read(&fact, 1, arena, &batch), CHAT_OK);
        batch.index = none.index;

        if (memcmp(&batch, &none, sizeof(none)) != 0) {
            fail_msg("%s = %s counts", rows[i][0], rows[i][1]);
        }
    }

    fact.field = chat_cstr("call/a");
    fact.value = chat_cstr("0 c " HASH);
    assert_int_equal(chat_batch_read(&fact, 1, arena, &batch), CHAT_OK);
    assert_int_equal(batch.nmembers, 1);
}


/* Reads the facts of the batch. */
static void
read_all(chat_facts_t *facts, chat_batch_t *batch)
{
    assert_false(facts->failed);
    assert_int_equal(chat_batch_read(facts->items, facts->count, arena, batch),
                     CHAT_OK);
}


static void
what_a_stream_left(void **state)
{
    chat_facts_t facts;
    chat_batch_t batch;

    chat_facts_init(&facts, arena);
    chat_facts_open(&facts, chat_cstr("w"), chat_cstr(""));
    chat_facts_add(&facts, "broken", chat_cstr("1"));
    read_all(&facts, &batch);
    assert_true(batch.open && batch.broken && !batch.sealed);
    assert_true(chat_str_is(batch.producer, "w"));
    assert_int_equal(batch.cors.len, 0);

    chat_facts_init(&facts, arena);
    chat_facts_add(&facts, "superseded", chat_cstr("1"));
    read_all(&facts, &batch);
    assert_true(batch.superseded && !batch.cleared && !batch.open);

    chat_facts_init(&facts, arena);
    chat_facts_add(&facts, "cleared", chat_cstr("1"));
    read_all(&facts, &batch);
    assert_true(batch.cleared && !batch.superseded && !batch.partial);
}


/* The provider's calls need no result: a seal does not count them. */
static void
a_seal_counts_the_calls_of_the_client(void **state)
{
    chat_facts_t facts;
    chat_batch_t batch;
    chat_hash_t  print = { { 1 } };

    chat_facts_init(&facts, arena);
    chat_facts_call(&facts, chat_cstr("a"), CHAT_KIND_CLIENT, 0, &print);
    chat_facts_call(&facts, chat_cstr("p"), CHAT_KIND_PROVIDER, 1, &print);
    chat_facts_add(&facts, "seal", chat_cstr("2"));
    read_all(&facts, &batch);
    assert_false(batch.sealed);

    chat_facts_call(&facts, chat_cstr("b"), CHAT_KIND_CLIENT, 2, &print);
    read_all(&facts, &batch);
    assert_true(batch.sealed);
}


static void
a_message_is_known_by_its_id(void **state)
{
    chat_facts_t facts;

    chat_facts_init(&facts, arena);
    chat_facts_message(&facts, chat_cstr("m1"));
    assert_true(
        chat_batch_has_message(facts.items, facts.count, chat_cstr("m1")));
    assert_true(
        chat_batch_has_message(facts.items, facts.count, chat_cstr("")));
    assert_false(
        chat_batch_has_message(facts.items, facts.count, chat_cstr("m2")));
}


static void
without_memory_nothing_is_half_read(void **state)
{
    size_t        limit;
    chat_rc_e     rc = CHAT_ERROR;
    chat_facts_t  facts;
    chat_batch_t  batch;
    chat_arena_t *small;

    sample(&facts);

    for (limit = 1; rc != CHAT_OK; limit += 64) {
        small = chat_arena_create(limit);
        assert_non_null(small);
        rc = chat_batch_read(facts.items, facts.count, small, &batch);
        assert_true(rc == CHAT_OK || rc == CHAT_ERROR);

        if (rc == CHAT_OK) {
            is_sample(&batch);
        }

        chat_arena_destroy(small);
        assert_true(limit < 1 << 20);
    }

    small = chat_arena_create(40);
    chat_facts_init(&facts, small);
    chat_facts_add(&facts, "seal", chat_cstr("1"));
    assert_true(facts.failed);
    chat_arena_destroy(small);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(s28_order_and_repetition_are_no_matter),
        cmocka_unit_test(s40_a_call_that_is_asked_for_later),
        cmocka_unit_test(malformed_facts_are_ignored),
        cmocka_unit_test(
            a_call_that_does_not_parse_leaves_what_its_result_says),
        cmocka_unit_test(values_that_do_not_parse),
        cmocka_unit_test(what_a_stream_left),
        cmocka_unit_test(a_seal_counts_the_calls_of_the_client),
        cmocka_unit_test(a_message_is_known_by_its_id),
        cmocka_unit_test(without_memory_nothing_is_half_read),
    };

    return cmocka_run_group_tests(tests, arena_create, arena_destroy);
}
