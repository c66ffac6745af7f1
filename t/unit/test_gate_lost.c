/*
 * test_gate_lost.c: a store that is available again without its data.
 *
 * Waiting requests replay their results and the facts that they have read.
 * From then on nothing incomplete may go on, and nothing twice while the
 * attempt that was seen is alive. Scripts as in test_gate.c; "lose" empties
 * the store.
 */

#define _GNU_SOURCE

#include "gate_play.h"

#define CHAIN "call a;call b;fact open P;fact seal 1;"

/* A waits for the outcome of B's request. */
#define WAITS                    \
    "A asks a+ b. -> HOLD;"      \
    "A watches;"                 \
    "B asks a. b+ -> CLAIM k=1;" \
    "B claims -> GO k=1;"        \
    "A looks -> WAIT k=1;"


static void
s64_a_loss_is_noticed(void **state)
{
    play_each("A asks a+ b. -> HOLD;"
              "A watches;"
              "A is not lost;"
              "lose;"
              "A is lost;"
              "A rejoins -> HOLD missing=1;"
              "A is not lost");
    play_each("A asks a+ b. -> HOLD;"
              "A watches;"
              "clear;"
              "A is not lost;"
              "A looks -> EMPTY/CLEARED");
    /* the watch of another worker is not its own */
    play_each("A asks a+ b. -> HOLD;"
              "A watches;"
              "lose;"
              "fact wait/AB 1;"
              "fact wait/B 1;"
              "result a;"
              "A is lost;"
              "fact wait/A 1;"
              "A is not lost");
}


/* Another request of the same worker has put the watch. */
static void
s64_a_loss_is_noticed_by_each(void **state)
{
    play_each("A asks a+ b. -> HOLD;"
              "A watches;"
              "lose;"
              "fact wait/A 1;"
              "fact result/b 1;"
              "A is lost;"
              "A rejoins -> HOLD;"
              "A is not lost");
    play_each("A asks a^ b. -> HOLD;"
              "A watches;"
              "lose;"
              "fact wait/A 1;"
              "A is lost;"
              "fact approval/a g;"
              "A is not lost");
    play_each(WAITS "lose;"
                    "fact wait/A 1;"
                    "result a;"
                    "A is lost;"
                    "fact claim/1 1;"
                    "A is not lost");
}


static void
s64_results_are_replayed(void **state)
{
    play_each("A asks a+ b. c. -> HOLD;"
              "A watches;"
              "B asks a. b+ c. -> HOLD;"
              "B watches;"
              "lose;"
              "A rejoins -> HOLD missing=2;"
              "C asks a. b. c+ -> HOLD missing=1;"
              "B rejoins -> CLAIM merge missing=0;"
              "A looks -> CLAIM;"
              "B claims -> GO k=1 merge;"
              "A claims -> WAIT;"
              "C looks -> WAIT;"
              "B answers 200;"
              "A looks -> SIBLING;"
              "C looks -> SIBLING");
    /* of a complete body that waited, with their payloads */
    play_each("fact open P;"
              "A asks a+ b+ -> HOLD;"
              "A voids;"
              "A watches;"
              "lose;"
              "A rejoins -> HOLD missing=0;"
              "call a;"
              "call b;"
              "fact seal 2;"
              "B asks a. b. -> CLAIM merge");
}


static void
s64_an_attempt_that_was_seen_is_not_made_again(void **state)
{
    play_each(WAITS "lose;"
                    "A rejoins -> WAIT k=1 missing=0;"
                    "C asks a. b+ -> WAIT k=1;"
                    "A looks -> WAIT k=1;"
                    "D asks a+ b+ -> WAIT k=1;"
                    "B reclaims;"
                    "B looks -> GO k=1;"
                    "B answers 200;"
                    "A looks -> SIBLING k=1;"
                    "C looks -> SIBLING");
    /* it ends, and only a later request makes another */
    play_each(WAITS "lose;"
                    "A rejoins -> WAIT;"
                    "B reclaims;"
                    "B answers 503;"
                    "A looks -> OUTCOME k=1 status=503;"
                    "C asks a. b. -> CLAIM k=2 merge;"
                    "C claims -> GO k=2");
    /* its worker is dead */
    play_each(WAITS "lose;"
                    "A rejoins -> WAIT;"
                    "B dies;"
                    "C asks a. b+ -> CLAIM k=2;"
                    "A looks -> OUTCOME lost;"
                    "C claims -> GO");
    /* it turns out that nothing was sent */
    play_each(WAITS "lose;"
                    "A rejoins -> WAIT;"
                    "B reclaims;"
                    "B voids;"
                    "A looks -> CLAIM k=2;"
                    "A claims -> GO k=2");
    /* later facts of other requests change nothing */
    play_each(WAITS "lose;"
                    "A rejoins -> WAIT;"
                    "B reclaims;"
                    "fact answer/1/A/A 503;"
                    "fact end/1/C/C failed;"
                    "A looks -> WAIT k=1");
    /* earlier facts are replayed */
    play_each(WAITS "fact after/1/B/B 9;"
                    "A looks -> WAIT k=1;"
                    "lose;"
                    "A rejoins -> WAIT;"
                    "B reclaims;"
                    "B answers 429;"
                    "A looks -> OUTCOME k=1 status=429 after=9");
    /* it has ended: the others' results are lost, but were answered */
    play_each(WAITS "B answers 200;"
                    "B ends finished;"
                    "A looks -> SIBLING k=1;"
                    "lose;"
                    "A rejoins -> SIBLING k=1 missing=0");
    /* it did not carry a result of each call */
    play_each("A asks a+ -> GO k=1;"
              "A answers 200;"
              "A ends finished;"
              "B asks a+ c. -> HOLD missing=1");
}


/* The first claim in the empty store gets the number. */
static void
s64_a_claim_that_came_before_stands(void **state)
{
    play_each(WAITS "lose;"
                    "C asks a+ b+ -> GO k=1;"
                    "A rejoins -> WAIT k=1;"
                    "B reclaims;"
                    "B answers 503;"
                    "A looks -> WAIT k=1;"
                    "C answers 200;"
                    "A looks -> SIBLING k=1");
}


/* The facts of its first join, long before it had to wait. */
static void
s64_ended_attempts_keep_their_numbers(void **state)
{
    play_each("B asks a+ b+ -> GO;"
              "B answers 503;"
              "A asks a+ c. -> HOLD;"
              "A watches;"
              "lose;"
              "A rejoins -> HOLD;"
              "C asks a+ c+ -> CLAIM k=2;"
              "C claims -> GO k=2;"
              "A looks -> WAIT k=2;"
              "C answers 429;"
              "A looks -> OUTCOME k=2 status=429");
    play_each("B asks a+ b+ -> GO;"
              "B voids;"
              "A asks a+ c. -> HOLD;"
              "A watches;"
              "lose;"
              "A rejoins -> HOLD;"
              "C asks a. c+ -> CLAIM k=2");
    /* an older attempt tells nothing of a later one */
    play_each("B asks a+ b+ -> GO;"
              "B answers 503;"
              "C asks a+ b. -> CLAIM k=2;"
              "C claims -> GO k=2;"
              "A asks a+ b. -> WAIT k=2;"
              "A watches;"
              "lose;"
              "B reclaims;"
              "A looks -> WAIT k=1;"
              "A rejoins -> WAIT k=2;"
              "C reclaims;"
              "C answers 200;"
              "A looks -> SIBLING k=2");
}


/* An approval that was sent may have run its tool. */
static void
s64_an_approval_is_not_sent_again(void **state)
{
    play_each("A asks a+ b^ -> GO;"
              "A answers 200;"
              "A ends aborted;"
              "B asks a+ b^ -> CLAIM k=2;"
              "B claims -> GO;"
              "B answers 503;"
              "C asks a. b? c. -> HOLD;"
              "C watches;"
              "lose;"
              "C rejoins -> HOLD;"
              "D asks a+ b^ -> CLAIM k=3;"
              "E asks a+ b? -> HOLD missing=0");
}


/* Its own claim is void or in use: waiting for it would never end. */
static void
s64_a_waiting_request_does_not_claim_again(void **state)
{
    play_each("fact open P;"
              "A asks a+ b+ -> HOLD;"
              "A voids;"
              "A watches;"
              "A looks -> HOLD;"
              "lose;"
              "A rejoins -> HOLD;"
              "fact seal 2;"
              "B asks a+ b. -> CLAIM k=1;"
              "B claims -> GO;"
              "A looks -> WAIT k=1");
}


static void
s64_seen_incomplete_is_replayed(void **state)
{
    play_each("A asks a+ b. -> HOLD;"
              "A watches;"
              "lose;"
              "A rejoins -> HOLD;"
              "B asks a+ b+ -> GO;"
              "C asks a+ b+ -> WAIT");
    /* it was never held: a second request is intended */
    play_each("B asks a+ b+ -> GO;"
              "A asks a+ b+ retry -> WAIT;"
              "A watches;"
              "lose;"
              "A rejoins -> WAIT k=1;"
              "C asks a+ b+ -> WAIT/PASS");
}


/* The step still runs although the store has lost that fact. */
static void
s64_a_stream_that_ran_is_waited_for(void **state)
{
    play_each("fact open P;"
              "A asks a+ b+ -> HOLD;"
              "A voids;"
              "A watches;"
              "lose;"
              "A looks -> HOLD;"
              "A rejoins -> HOLD;"
              "A is not lost;"
              "call a;"
              "call b;"
              "call c;"
              "fact seal 3;"
              "A looks -> INCOMPLETE");
    play_each("fact open P;"
              "A asks a+ b. -> HOLD;"
              "A watches;"
              "lose;"
              "A rejoins -> HOLD;"
              "fact broken 1;"
              "result b;"
              "A looks -> CLAIM");
    /* it had ended before: that is replayed, too */
    play_each("fact open P;"
              "A asks a+ b. -> HOLD;"
              "A watches;"
              "fact seal 2;"
              "A looks -> HOLD missing=1;"
              "lose;"
              "A rejoins -> HOLD missing=1;"
              "B asks a. b+ -> CLAIM;"
              "A looks -> CLAIM");
}


static void
s64_chains_do_not_become_unknown(void **state)
{
    size_t                   i;
    static const char *const dialects[] = { "openai_responses", "anthropic" };
    static const char *const scripts[] = {
        /* its calls are known */
        CHAIN "A asks chained a+ -> HOLD missing=1;"
              "A watches;"
              "lose;"
              "A looks -> HOLD;"
              "A rejoins -> HOLD missing=1;"
              "B asks chained b+ -> CLAIM merge;"
              "B claims -> GO;"
              "A looks -> WAIT",
        CHAIN "call c%;"
              "A asks chained a+ -> HOLD missing=1;"
              "A watches;"
              "lose;"
              "A rejoins -> HOLD missing=1;"
              "B asks chained b+ -> CLAIM merge",
        /* they are not known yet */
        "fact open P;"
        "A asks chained a+ -> HOLD;"
        "A watches;"
        "lose;"
        "A rejoins -> HOLD;"
        "call a;"
        "A looks -> HOLD;"
        "call b;"
        "fact seal 2;"
        "A looks -> HOLD missing=1;"
        "B asks chained b+ -> CLAIM merge",
        "fact open P;"
        "A asks chained a+ -> HOLD;"
        "A watches;"
        "lose;"
        "A rejoins -> HOLD;"
        "fact broken 1;"
        "A looks -> UNMANAGED",
        CHAIN "A asks chained a+ -> HOLD;"
              "A watches;"
              "lose;"
              "clear;"
              "A looks -> CLEARED",
    };

    for (i = 0; i < 2 * sizeof(scripts) / sizeof(scripts[0]); i++) {
        play(dialects[i % 2], scripts[i / 2]);
    }
}


/* Without memory for all its calls a chain's seal is not put. */
static void
a_seal_is_put_with_all_calls_only(void **state)
{
    asker_t     *a = &askers[0];
    chat_facts_t facts;

    dialect = chat_dialect_find(chat_cstr("openai_responses"));
    store_begin();
    play_line((char[]){ "call a" });
    play_line((char[]){ "call b" });
    play_line((char[]){ "fact seal 2" });
    play_line((char[]){ "A asks chained a+ -> HOLD missing=1" });
    assert_int_equal(a->nknown, 2);

    store_lose();
    chat_facts_init(&facts, a->arena);
    chat_gate_rejoin(&a->q, a->known, 1, &facts);
    (void) store_join(&facts);
    asker_look(a);
    assert_int_equal(a->d.verdict, CHAT_GATE_HOLD);

    chat_gate_rejoin(&a->q, NULL, 0, &facts);
    (void) store_join(&facts);
    asker_look(a);
    assert_int_equal(a->d.verdict, CHAT_GATE_HOLD);
    asker_end(a);
}


/* Decides once, by the facts as they are now. */
static chat_gate_verdict_e
decide(asker_t *a)
{
    chat_batch_t batch;

    assert_int_equal(
        chat_batch_read(store.facts, store.count, a->arena, &batch), CHAT_OK);
    chat_gate_decide(&a->q, &batch, worker_alive, NULL, &a->d);
    return a->d.verdict;
}


/*
 * The facts of a look may be older than the news that a worker has died: its
 * last ones count.
 */
static void
a_death_is_followed_by_another_look(void **state)
{
    dialect = chat_dialect_find(chat_cstr("ai_sdk"));
    store_begin();
    play_line((char[]){ "A asks a+ b+ -> GO" });
    play_line((char[]){ "B asks a+ b+ -> WAIT" });
    play_line((char[]){ "A dies" });
    assert_int_equal(decide(&askers[1]), CHAT_GATE_AGAIN);
    assert_int_not_equal(decide(&askers[0]), CHAT_GATE_AGAIN);
    play_line((char[]){ "A answers 200" });
    play_line((char[]){ "A ends finished" });
    assert_int_equal(decide(&askers[1]), CHAT_GATE_SIBLING);

    play_line((char[]){ "fact open P" });
    play_line((char[]){ "P dies" });
    assert_int_equal(decide(&askers[1]), CHAT_GATE_AGAIN);
    assert_int_equal(decide(&askers[1]), CHAT_GATE_SIBLING);
    asker_end(&askers[0]);
    asker_end(&askers[1]);
}


/* The facts of a look may be older than the void of the request's claim. */
static void
a_voided_claim_is_not_taken_again(void **state)
{
    dialect = chat_dialect_find(chat_cstr("ai_sdk"));
    store_begin();
    play_line((char[]){ "A asks a+ b+ -> GO" });
    askers[0].q.voided = 1;
    assert_int_equal(decide(&askers[0]), CHAT_GATE_CLAIM);
    assert_int_equal(askers[0].d.k, 2);
    asker_end(&askers[0]);
}


/* A claimant with too long a name is neither kept nor truncated. */
static void
a_name_past_the_bound(void **state)
{
    size_t        n;
    asker_t      *a = &askers[0];
    chat_facts_t  facts;
    chat_batch_t  batch;
    unsigned char name[2 * CHAT_CLAIMANT_MAX];

    dialect = chat_dialect_find(chat_cstr("anthropic"));
    memset(name, 'x', sizeof(name));
    memset(&batch, 0, sizeof(batch));
    batch.last.k = 1;

    for (n = 0; n < sizeof(name); n++) {
        store_begin();
        play_line((char[]){ "A asks a+ b. -> HOLD" });
        batch.last.worker = chat_str(name, n);
        batch.last.request = chat_str(name, 1);
        chat_gate_decide(&a->q, &batch, worker_alive, NULL, &a->d);
        chat_gate_decide(&a->q, &batch, worker_alive, NULL, &a->d);

        chat_facts_init(&facts, a->arena);
        chat_gate_rejoin(&a->q, NULL, 0, &facts);
        assert_int_equal(facts.count, n > 0 && n < CHAT_CLAIMANT_MAX ? 2 : 1);
        asker_end(a);
    }
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(s64_a_loss_is_noticed),
        cmocka_unit_test(s64_a_loss_is_noticed_by_each),
        cmocka_unit_test(s64_results_are_replayed),
        cmocka_unit_test(s64_an_attempt_that_was_seen_is_not_made_again),
        cmocka_unit_test(s64_a_claim_that_came_before_stands),
        cmocka_unit_test(s64_ended_attempts_keep_their_numbers),
        cmocka_unit_test(s64_an_approval_is_not_sent_again),
        cmocka_unit_test(s64_a_waiting_request_does_not_claim_again),
        cmocka_unit_test(s64_seen_incomplete_is_replayed),
        cmocka_unit_test(s64_a_stream_that_ran_is_waited_for),
        cmocka_unit_test(s64_chains_do_not_become_unknown),
        cmocka_unit_test(a_seal_is_put_with_all_calls_only),
        cmocka_unit_test(a_death_is_followed_by_another_look),
        cmocka_unit_test(a_voided_claim_is_not_taken_again),
        cmocka_unit_test(a_name_past_the_bound),
    };

    return cmocka_run_group_tests(tests, NULL, play_over);
}
