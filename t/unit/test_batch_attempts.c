/*
 * test_batch_attempts.c: which facts about an attempt count.
 *
 * A request that does not know whether its claim is valid still puts its
 * outcome. So answer, end and void count only from the claimant, in any order;
 * no request can put them for another.
 */

#include "attempt_facts.h"
#include "batch_sample.h"

#define ATTEMPTS 40
#define MANY 4096


static const unsigned char none[16];


/* Reads the facts in both orders; both must give these attempts. */
static void
read_both(const chat_facts_t *facts, chat_batch_t *batch)
{
    size_t       i, n = facts->count;
    chat_batch_t other;
    chat_fact_t *back = chat_arena_alloc(arena, (n + 1) * sizeof(*back));

    assert_false(facts->failed);
    assert_non_null(back);

    for (i = 0; i < n; i++) {
        back[i] = facts->items[n - 1 - i];
    }

    assert_int_equal(chat_batch_read(facts->items, n, arena, batch), CHAT_OK);
    assert_int_equal(chat_batch_read(back, n, arena, &other), CHAT_OK);
    assert_int_equal(other.last.k, batch->last.k);
    assert_int_equal(other.last.answer, batch->last.answer);
    assert_int_equal(other.last.end, batch->last.end);
    assert_int_equal(other.last.is_void, batch->last.is_void);
    assert_int_equal(other.last.recording, batch->last.recording);
    assert_int_equal(other.since, batch->since);
    assert_int_equal(other.answered.k, batch->answered.k);
}


/* A body that is complete claims in its first join, and joins no since. */
static void
a_batch_is_as_old_as_its_first_claim(void **state)
{
    chat_str_t   w = CHAT_STR("w"), r = CHAT_STR("12");
    chat_facts_t facts;
    chat_batch_t batch;

    chat_facts_init(&facts, arena);
    sample_claim(&facts, 2, w, r, none, none, 700);
    read_both(&facts, &batch);
    assert_int_equal(batch.since, 700);

    sample_claim(&facts, 1, w, r, none, none, 500);
    read_both(&facts, &batch);
    assert_int_equal(batch.since, 500);

    /* of a request that came later, or earlier */
    chat_facts_since(&facts, 600);
    read_both(&facts, &batch);
    assert_int_equal(batch.since, 500);

    chat_facts_since(&facts, 400);
    facts.items[2] = facts.items[3];
    read_both(&facts, &batch);
    assert_int_equal(batch.since, 400);
}


static void
s103_a_void_names_its_claimant(void **state)
{
    chat_str_t   w = CHAT_STR("w"), r = CHAT_STR("12");
    chat_facts_t facts;
    chat_batch_t batch;

    chat_facts_init(&facts, arena);
    sample_claim(&facts, 3, w, r, none, none, 0);
    chat_facts_void(&facts, 3, w, chat_cstr("1"));
    chat_facts_void(&facts, 3, w, chat_cstr("122"));
    chat_facts_void(&facts, 3, chat_cstr("v"), r);
    chat_facts_void(&facts, 2, w, r);
    chat_facts_void(&facts, 3, chat_cstr("w/12"), chat_cstr(""));
    chat_facts_add(&facts, "void/3", chat_cstr("1"));
    read_both(&facts, &batch);
    assert_int_equal(batch.last.k, 3);
    assert_int_equal(batch.last.is_void, 0);

    chat_facts_void(&facts, 3, w, r);
    read_both(&facts, &batch);
    assert_int_equal(batch.last.is_void, 1);

    /* the next attempt is the last */
    sample_claim(&facts, 4, w, r, none, none, 0);
    chat_facts_answer(&facts, 4, w, r, 204);
    chat_facts_answer(&facts, 2, w, r, 200);
    read_both(&facts, &batch);
    assert_int_equal(batch.last.k, 4);
    assert_int_equal(batch.last.is_void, 0);
    assert_int_equal(batch.last.end, CHAT_END_NONE);
    assert_int_equal(batch.answered.k, 4);

    /* the last answered attempt stays known if a later one is refused */
    sample_claim(&facts, 5, w, chat_cstr("13"), none, none, 0);
    chat_facts_answer(&facts, 5, w, chat_cstr("13"), 300);
    chat_facts_after(&facts, 5, w, chat_cstr("13"), CHAT_AFTER_MAX);
    chat_facts_end(&facts, 5, w, chat_cstr("13"), CHAT_END_ABORTED);
    read_both(&facts, &batch);
    assert_int_equal(batch.last.k, 5);
    assert_int_equal(batch.last.after, CHAT_AFTER_MAX);
    assert_int_equal(batch.last.end, CHAT_END_ABORTED);
    assert_int_equal(batch.answered.k, 4);
}


static void
s103_answers_and_ends_of_others_do_not_count(void **state)
{
    size_t                   i;
    chat_str_t               w = CHAT_STR("w"), r = CHAT_STR("12");
    chat_facts_t             facts;
    chat_batch_t             batch;
    static const char *const others[][2] = {
        { "v", "12" }, { "w", "1" },   { "w", "122" }, { "w", "" },
        { "", "12" },  { "w/12", "" }, { "", "" },     { "ww", "12" },
    };

    chat_facts_init(&facts, arena);
    sample_claim(&facts, 3, w, r, none, none, 0);
    chat_facts_answer(&facts, 2, w, r, 200);
    chat_facts_end(&facts, 4, w, r, CHAT_END_FINISHED);
    chat_facts_add(&facts, "answer/3", chat_cstr("200"));
    chat_facts_add(&facts, "end/3", chat_cstr("finished"));
    chat_facts_add(&facts, "answer/03/w/12", chat_cstr("200"));
    chat_facts_add(&facts, "answer/3/w/12/", chat_cstr("200"));

    for (i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        chat_facts_answer(&facts, 3, chat_cstr(others[i][0]),
                          chat_cstr(others[i][1]), 200);
        chat_facts_end(&facts, 3, chat_cstr(others[i][0]),
                       chat_cstr(others[i][1]), CHAT_END_FINISHED);
    }

    read_both(&facts, &batch);
    assert_int_equal(batch.last.k, 3);
    assert_int_equal(batch.last.answer, 0);
    assert_int_equal(batch.last.end, CHAT_END_NONE);
    assert_int_equal(batch.answered.k, 0);

    chat_facts_answer(&facts, 3, w, r, 299);
    chat_facts_end(&facts, 3, w, r, CHAT_END_ABORTED);
    read_both(&facts, &batch);
    assert_int_equal(batch.last.answer, 299);
    assert_int_equal(batch.last.end, CHAT_END_ABORTED);
    assert_int_equal(batch.answered.k, 3);
}


static void
a_hash_that_does_not_parse_is_as_good_as_absent(void **state)
{
#define HASH "0123456789abcdef"
    size_t                   i;
    chat_facts_t             facts;
    chat_batch_t             batch;
    static const char *const values[] = {
        "w 12 " HASH "0 " HASH " 7 x",
        "w 12 0123456789abcde " HASH " 7 x",
        "w 12  " HASH " 7 x",
    };

    for (i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        chat_facts_init(&facts, arena);
        chat_facts_add(&facts, "claim/1", chat_cstr(values[i]));
        read_both(&facts, &batch);
        assert_memory_equal(batch.last.signature, none, 16);
        assert_int_equal(batch.last.retry_key[15], 'f');
        assert_int_equal(batch.last.ms, 7);
        assert_true(chat_str_is(batch.last.results, "x"));
    }
#undef HASH
}


static void
the_claimant_and_followers_say_whether_it_is_recorded(void **state)
{
    int          mode;
    chat_str_t   w = CHAT_STR("w"), r = CHAT_STR("12");
    chat_facts_t facts;
    chat_batch_t batch;

    for (mode = CHAT_RECORDING_UNKNOWN; mode <= CHAT_RECORDING_IMPOSSIBLE;
         mode++) {
        chat_facts_init(&facts, arena);
        sample_claim(&facts, 3, w, r, none, none, 0);
        chat_facts_record(&facts, 2, w, r, CHAT_RECORDING_KEPT);
        chat_facts_record(&facts, 3, w, chat_cstr("1"), CHAT_RECORDING_KEPT);
        chat_facts_add(&facts, "record/3", chat_cstr("1"));
        chat_facts_record(&facts, 3, w, r, (chat_recording_mode_e) mode);
        read_both(&facts, &batch);
        assert_int_equal(batch.last.recording, mode);

        /* it is impossible, whatever followers want */
        chat_facts_record(&facts, 3, w, r, CHAT_RECORDING_IMPOSSIBLE);
        read_both(&facts, &batch);
        assert_int_equal(batch.last.recording, CHAT_RECORDING_IMPOSSIBLE);
    }

    chat_facts_init(&facts, arena);
    sample_claim(&facts, 3, w, r, none, none, 0);
    chat_facts_add(&facts, "record/3/w/12", chat_cstr("5"));
    read_both(&facts, &batch);
    assert_int_equal(batch.last.recording, CHAT_RECORDING_UNKNOWN);
}


/* It put them without reading; its claim arrives late or never. */
static void
s103_facts_before_the_claim_count_once_it_exists(void **state)
{
    chat_str_t   w = CHAT_STR("w"), r = CHAT_STR("1"), s = CHAT_STR("2");
    chat_facts_t facts, lost;
    chat_batch_t batch;

    chat_facts_init(&facts, arena);
    chat_facts_answer(&facts, 1, w, r, 200);
    chat_facts_end(&facts, 1, w, r, CHAT_END_FINISHED);
    read_both(&facts, &batch);
    assert_int_equal(batch.last.k, 0);
    assert_int_equal(batch.answered.k, 0);

    lost = facts;
    sample_claim(&facts, 1, w, r, none, none, 0);
    read_both(&facts, &batch);
    assert_int_equal(batch.last.answer, 200);
    assert_int_equal(batch.last.end, CHAT_END_FINISHED);
    assert_int_equal(batch.answered.k, 1);

    sample_claim(&lost, 1, w, s, none, none, 0);
    read_both(&lost, &batch);
    assert_int_equal(batch.last.k, 1);
    assert_int_equal(batch.last.answer, 0);
    assert_int_equal(batch.last.end, CHAT_END_NONE);
    assert_int_equal(batch.answered.k, 0);
}


static void
values_that_do_not_parse(void **state)
{
    static const char *const rows[][2] = {
        { "answer/3/w/12", "2000" },   { "answer/3/w/12", "20x" },
        { "answer/3/w/12", "" },       { "answer/3/w/12", "0200" },
        { "end/3/w/12", "" },          { "end/3/w/12", "finishe" },
        { "end/3/w/12", " finished" }, { "end/3/w/12", "none" },
        { "answer/3//", "200" },       { "answer/", "200" },
        { "answer//w/12", "200" },     { "end/1000001/w/12", "finished" },
        { "after/3/w/12", "86401" },   { "after/3/w/12", "soon" },
        { "after/3/w/12", "07" },      { "after/3/w/13", "7" },
    };
    size_t       i;
    chat_facts_t facts;
    chat_batch_t batch;

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        chat_facts_init(&facts, arena);
        sample_claim(&facts, 3, chat_cstr("w"), chat_cstr("12"), none, none,
                     0);
        chat_facts_add(&facts, rows[i][0], chat_cstr(rows[i][1]));
        read_both(&facts, &batch);

        if (batch.last.answer || batch.last.after || batch.last.end
            || batch.last.is_void)
        {
            fail_msg("%s = %s counts", rows[i][0], rows[i][1]);
        }
    }

    /* 199 and 300 are answers that accepted no results */
    for (i = 199; i <= 300; i += 101) {
        chat_facts_init(&facts, arena);
        sample_claim(&facts, 3, chat_cstr("w"), chat_cstr("12"), none, none,
                     0);
        chat_facts_answer(&facts, 3, chat_cstr("w"), chat_cstr("12"),
                          (uint32_t) i);
        read_both(&facts, &batch);
        assert_int_equal(batch.last.answer, i);
        assert_int_equal(batch.answered.k, 0);
    }
}


/* An empty claim has no claimant, but its number is used. */
static void
a_claim_without_a_claimant_uses_its_number(void **state)
{
    chat_facts_t facts;
    chat_batch_t batch;

    chat_facts_init(&facts, arena);
    chat_facts_add(&facts, "claim/2", chat_cstr(""));
    sample_claim(&facts, 1, chat_cstr("w"), chat_cstr("1"), none, none, 0);
    chat_facts_add(&facts, "void/2//", chat_cstr("1"));
    chat_facts_add(&facts, "answer/2//", chat_cstr("200"));
    read_both(&facts, &batch);
    assert_int_equal(batch.last.k, 2);
    assert_int_equal(batch.last.worker.len, 0);
    assert_int_equal(batch.last.is_void, 0);
    assert_int_equal(batch.last.answer, 0);
    assert_int_equal(batch.answered.k, 0);
}


/* The known state of an attempt, beside its facts. */
typedef struct {
    unsigned   claimant; /* 0: not claimed */
    uint32_t   answer;
    chat_end_e end;
    int        is_void;
} expected_t;


static void
expect(const chat_attempt_t *attempt, const expected_t *expected, uint32_t k)
{
    char name[8];

    snprintf(name, sizeof(name), "%u", expected->claimant);
    assert_int_equal(attempt->k, k);
    assert_true(chat_str_is(attempt->request, name));
    assert_int_equal(attempt->answer, expected->answer);
    assert_int_equal(attempt->end, expected->end);
    assert_int_equal(attempt->is_void, expected->is_void);
}


/* Some requests claim, and all put random facts about any attempt. */
static void
play_attempts(chat_facts_t *facts, expected_t *list)
{
    char       name[8];
    unsigned   k, claimant;
    chat_str_t w = CHAT_STR("w"), r;
    expected_t said;

    for (k = 1; k <= ATTEMPTS; k++) {
        list[k].claimant = dice(3) ? 1 + dice(4) : 0;

        for (claimant = 1; claimant <= 4; claimant++) {
            snprintf(name, sizeof(name), "%u", claimant);
            r = chat_cstr(name);
            said.claimant = claimant;
            said.answer = dice(2) ? 198 + dice(4) : 0;
            said.end = (chat_end_e) dice(CHAT_END_INTERRUPTED + 1);
            said.is_void = dice(4) == 0;

            if (said.answer && said.end != CHAT_END_NONE && dice(2)) {
                chat_facts_whole(facts, k, w, r, said.answer, said.end);

            } else {
                chat_facts_answer(facts, k, w, r, said.answer);
                chat_facts_end(facts, k, w, r, said.end);
            }

            if (said.is_void) {
                chat_facts_void(facts, k, w, r);
            }
            if (list[k].claimant == claimant) {
                list[k] = said;
                sample_claim(facts, k, w, r, none, none, 0);
            }
        }
    }
}


static void
s28_s103_any_order_of_facts(void **state)
{
    unsigned     run, k, last, answered;
    chat_facts_t facts;
    chat_batch_t batch;
    expected_t   list[ATTEMPTS + 1];

    for (run = 0; run < 1000; run++) {
        chat_arena_reset(arena);
        memset(list, 0, sizeof(list));
        chat_facts_init(&facts, arena);
        play_attempts(&facts, list);
        shuffle(facts.items, facts.count);
        assert_int_equal(
            chat_batch_read(facts.items, facts.count, arena, &batch), CHAT_OK);

        for (k = 1, last = answered = 0; k <= ATTEMPTS; k++) {
            last = list[k].claimant ? k : last;
            answered = list[k].answer / 100 == 2 ? k : answered;
        }

        assert_int_equal(batch.last.k, last);
        assert_int_equal(batch.answered.k, answered);
        if (last != 0) {
            expect(&batch.last, &list[last], last);
        }
        if (answered != 0) {
            expect(&batch.answered, &list[answered], answered);
        }
    }
}


/* A store full of claims and of facts about them. */
static void
as_many_as_a_store_may_hold(void **state)
{
    unsigned     k;
    chat_str_t   w = CHAT_STR("w"), r = CHAT_STR("1");
    chat_facts_t facts;
    chat_batch_t batch;

    chat_facts_init(&facts, arena);

    for (k = 1; k <= MANY; k++) {
        sample_claim(&facts, k, w, r, none, none, 0);
        chat_facts_answer(&facts, k, w, r, k == 17 ? 200 : 500);
        chat_facts_answer(&facts, k, w, chat_cstr("2"), 200);
        chat_facts_end(&facts, k, w, r, CHAT_END_FAILED);
    }

    shuffle(facts.items, facts.count);
    read_both(&facts, &batch);
    assert_int_equal(batch.last.k, MANY);
    assert_int_equal(batch.last.answer, 500);
    assert_int_equal(batch.answered.k, 17);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_is_as_old_as_its_first_claim),
        cmocka_unit_test(s103_a_void_names_its_claimant),
        cmocka_unit_test(s103_answers_and_ends_of_others_do_not_count),
        cmocka_unit_test(
            the_claimant_and_followers_say_whether_it_is_recorded),
        cmocka_unit_test(s103_facts_before_the_claim_count_once_it_exists),
        cmocka_unit_test(values_that_do_not_parse),
        cmocka_unit_test(a_hash_that_does_not_parse_is_as_good_as_absent),
        cmocka_unit_test(a_claim_without_a_claimant_uses_its_number),
        cmocka_unit_test(s28_s103_any_order_of_facts),
        cmocka_unit_test(as_many_as_a_store_may_hold),
    };

    return cmocka_run_group_tests(tests, arena_create, arena_destroy);
}
