/*
 * test_gate.c: the table of verdicts, row by row.
 *
 * A test is a script of short lines, run by gate_play.h against a store in
 * memory: requests with their calls, events of the attempts, and which verdict
 * each request must get. "EMPTY/CONFLICT" is the verdict for ai_sdk and for
 * the others; a third word is Anthropic's.
 */

#define _GNU_SOURCE

#include "gate_play.h"
#include "policy/chat_gate.h"


static void
no_attempt_claims_and_goes(void **state)
{
    play_each("A asks a+ b+ -> GO k=1 missing=0;"
              "A is complete");
    play_each("A asks a+ b. -> HOLD missing=1 k=0;"
              "B asks a. b+ -> CLAIM k=1 merge;"
              "B claims -> GO k=1 merge;"
              "A looks -> WAIT");
    /*
     * a request that did not claim first waits, even if it found it complete
     */
    play_each("A asks a+ b. -> HOLD;"
              "B asks a. b+ -> CLAIM;"
              "A looks -> CLAIM k=1;"
              "A claims -> GO;"
              "B claims -> WAIT");
}


static void
s38_errors_and_denials_are_results(void **state)
{
    play_each("A asks a- b. -> HOLD;"
              "B asks a. b! -> CLAIM merge;"
              "B claims -> GO");
    play_each("A asks a- b! -> GO");
}


static void
s103_a_waiting_request_claims_after_a_void_attempt(void **state)
{
    play_each("A asks a+ b. -> HOLD;"
              "B asks a. b+ -> CLAIM;"
              "B claims -> GO;"
              "A looks -> WAIT;"
              "B voids;"
              "A looks -> CLAIM k=2;"
              "A claims -> GO k=2");
    /* only the claimant's fact counts */
    play_each("A asks a+ b. -> HOLD;"
              "B asks a. b+ -> CLAIM;"
              "B claims -> GO;"
              "fact void/1/A/A 1;"
              "fact void/1/X/B 1;"
              "fact void/2/B/B 1;"
              "A looks -> WAIT");
    play_each("A asks a+ b. -> HOLD;"
              "B asks a. b+ -> CLAIM;"
              "B claims -> GO;"
              "fact answer/1 200;"
              "fact answer/1/A/A 200;"
              "fact end/1 failed;"
              "fact end/1/X/B failed;"
              "A looks -> WAIT;"
              "B answers 200;"
              "A looks -> SIBLING");
    /* nor does an earlier claimant's fact count for a later one */
    play_each("A asks a+ b. -> HOLD;"
              "B asks a. b+ -> CLAIM;"
              "fact end/1/A/A failed;"
              "fact answer/1/A/A 503;"
              "B claims -> GO;"
              "A looks -> WAIT");
    /* facts may arrive before the claim, if its reply is late */
    play_each("A asks a+ b. -> HOLD;"
              "fact answer/1/B/B 503;"
              "fact end/1/B/B failed;"
              "B asks a. b+ -> CLAIM;"
              "B claims -> GO;"
              "A looks -> OUTCOME k=1 status=503 attach=0");
    /* one that arrives later does as well */
    play_each("A asks a+ b+ -> GO;"
              "A voids;"
              "B asks a+ b+ -> CLAIM k=2;"
              "B claims -> GO k=2");
}


static void
s102_waiting_requests_share_the_outcome(void **state)
{
    play_each("A asks a+ b. -> HOLD;"
              "B asks a. b+ -> CLAIM;"
              "B claims -> GO;"
              "A looks -> WAIT;"
              "B answers 429;"
              "A looks -> OUTCOME k=1 status=429 attach=0;"
              "C asks a. b. -> CLAIM k=2 merge;"
              "C claims -> GO;"
              "A looks -> WAIT");
    /* the same for a request without a look since then */
    play_each("A asks a+ b. -> HOLD;"
              "B asks a+ b+ -> GO;"
              "B answers 503;"
              "B ends failed;"
              "A looks -> OUTCOME status=503");
    /* its end is not known yet */
    play_each("A asks a+ b. -> HOLD;"
              "B asks a+ b+ -> GO;"
              "fact answer/1/B/B 429;"
              "A looks -> OUTCOME status=429 after=0");
    /* a redirect is no answer to them */
    play_each("A asks a+ b. -> HOLD;"
              "B asks a+ b+ -> GO;"
              "fact answer/1/B/B 307;"
              "A looks -> WAIT;"
              "B ends failed;"
              "A looks -> CLAIM k=2");
    /* time of the next retry */
    play_each("A asks a+ b. -> HOLD;"
              "B asks a+ b+ -> GO;"
              "fact after/1/B/B 7;"
              "fact after/1/A/A 8;"
              "A looks -> WAIT;"
              "B answers 429;"
              "A looks -> OUTCOME status=429 after=7");
}


static void
s63_ends_after_the_first_byte(void **state)
{
    static const char *const ends[] = { "failed", "aborted", "interrupted" };
    size_t                   i;
    char                     script[512];

    for (i = 0; i < 3; i++) {
        snprintf(script, sizeof(script),
                 "A asks a+ b. -> HOLD;"
                 "B asks a. b+ -> CLAIM;"
                 "B claims -> GO;"
                 "B answers 200;"
                 "B ends %s;"
                 "A looks -> OUTCOME k=1 status=200 attach end=%s;"
                 "C asks a. b+ -> CLAIM k=2 merge;"
                 "C claims -> GO k=2;"
                 "D asks a+ b. -> WAIT k=2",
                 ends[i], ends[i]);
        play_each(script);
    }
}


static void
s103_a_dead_claimant_is_an_interrupted_attempt(void **state)
{
    play_each("A asks a+ b. -> HOLD;"
              "B asks a. b+ -> CLAIM;"
              "B claims -> GO;"
              "A looks -> WAIT;"
              "B dies;"
              "A looks -> OUTCOME lost end=interrupted;"
              "A looks -> OUTCOME lost;"
              "C asks a. b. -> CLAIM k=2;"
              "C claims -> GO");
    /* its facts from before its death count */
    play_each("A asks a+ b. -> HOLD;"
              "B asks a. b+ -> CLAIM;"
              "B claims -> GO;"
              "A looks -> WAIT;"
              "B answers 200;"
              "B ends finished;"
              "B dies;"
              "A looks -> SIBLING");
    play_each("A asks a+ b. -> HOLD;"
              "B asks a. b+ -> CLAIM;"
              "B claims -> GO;"
              "B voids;"
              "B dies;"
              "A looks -> CLAIM k=2");
}


static void
s96_a_complete_body_sent_again(void **state)
{
    /* ai_sdk: one goes upstream; other dialects may sample */
    play_each("A asks a+ b+ -> GO;"
              "B asks a+ b+ -> WAIT/PASS");
    /* the batch was seen incomplete */
    play_each("A asks a+ b. -> HOLD;"
              "B asks a+ b+ -> GO;"
              "C asks a+ b+ -> WAIT");
    /* the library says that it is a retry */
    play_each("A asks a+ b+ -> GO;"
              "B asks a+ b+ retry -> WAIT;"
              "A answers 200;"
              "B looks -> SIBLING");
    /* so does its key, if it is the same */
    play_each("A asks a+ b+ key=k -> GO;"
              "B asks a+ b+ key=k -> WAIT;"
              "C asks a+ b+ key=l -> WAIT/PASS;"
              "D asks a+ b+ -> WAIT/PASS");
    play_each("A asks a+ b+ -> GO;"
              "B asks a+ b+ key=k -> WAIT/PASS");
}


static void
s108_other_results_are_another_request(void **state)
{
    play_each("A asks a+ -> GO;"
              "B asks a= -> PASS merge=0;"
              "B asks a= retry -> PASS;"
              "C asks a- -> PASS;"
              "A answers 200;"
              "B asks a= retry -> PASS attach=0;"
              "A ends finished;"
              "B asks a= -> PASS attach=0");
    /* held ones, too; missing results are inserted */
    play_each("A asks a+ b. -> HOLD;"
              "B asks a= b. -> HOLD;"
              "C asks a. b+ -> CLAIM;"
              "C claims -> GO;"
              "A looks -> WAIT;"
              "B looks -> PASS merge;"
              "D asks a. b= -> PASS merge;"
              "C answers 503;"
              "A looks -> OUTCOME;"
              "B asks a= b. -> CLAIM k=2");
    /* an attempt includes the inserted results */
    play_each("A asks a+ b. -> HOLD;"
              "B asks a= b+ -> GO;"
              "A looks -> HOLD;"
              "B tells;"
              "A looks -> PASS merge;"
              "C asks a. b+ -> WAIT;"
              "D asks a= b. -> WAIT");
    /* an approved tool may bring its result while its call is answered */
    play("ai_sdk", "A asks a^ b+ -> GO;"
                   "B asks a^ b. -> WAIT;"
                   "result a;"
                   "B looks -> WAIT;"
                   "C asks a# b+ -> WAIT");
}


static void
s109_samples_of_one_transcript(void **state)
{
    /* each was refused, and is retried during the first one's attempt */
    play_each("A asks a+ -> GO;"
              "B asks a+ -> WAIT/PASS;"
              "C asks a+ -> WAIT/PASS;"
              "B asks a+ retry -> WAIT/PASS;"
              "D asks a+ retry -> WAIT/PASS;"
              "C asks a+ retry=2 -> WAIT/PASS");
    /* the first was refused, too: the second attempt may be anyone's retry */
    play_each("A asks a+ -> GO;"
              "A answers 429;"
              "B asks a+ -> CLAIM k=2;"
              "B claims -> GO;"
              "C asks a+ retry -> WAIT/PASS");
    /* a single client has made all of them */
    play_each("A asks a+ -> GO;"
              "A answers 503;"
              "B asks a+ retry -> CLAIM k=2;"
              "B claims -> GO;"
              "C asks a+ retry=2 -> WAIT");
    /* two have a retry count of 1, one attempt was seen: one is unseen */
    play_each("A asks a+ -> GO;"
              "B asks a+ retry -> WAIT;"
              "C asks a+ retry -> WAIT/PASS;"
              "B looks -> WAIT/PASS");
    /* its client has sent its next retry */
    play_each("A asks a+ -> GO;"
              "B asks a+ retry -> WAIT;"
              "C asks a+ retry=2 -> WAIT;"
              "B looks -> WAIT");
    /* requests with other results are no retries of this one */
    play_each("A asks a+ -> GO;"
              "B asks a= -> PASS;"
              "C asks a+ retry -> WAIT");
}


static void
s110_another_transcript_is_another_request(void **state)
{
    play_each("A asks a+ b. -> HOLD;"
              "B asks a. b+ turn=2 -> CLAIM;"
              "B claims -> GO;"
              "A looks -> PASS merge;"
              "C asks a+ b. turn=2 -> WAIT;"
              "D asks a+ b+ retry -> PASS;"
              "B answers 200;"
              "B ends finished;"
              "E asks a+ b+ -> PASS attach=0");
}


static void
a_claim_of_an_older_version_has_no_siblings(void **state)
{
    play_each("fact claim/1 "
              "Z_Z_00000000000000000000000000000000_"
              "00000000000000000000000000000000_1;"
              "A asks a+ b+ -> PASS");
}


static void
s97_another_model_is_another_request(void **state)
{
    play_each("A asks a+ b. -> HOLD;"
              "B asks a. b+ model=2 -> CLAIM;"
              "B claims -> GO;"
              "A looks -> PASS merge missing=0;"
              "C asks a+ b. model=2 -> WAIT;"
              "D asks a+ b+ -> PASS;"
              "B answers 503;"
              "A looks -> PASS;"
              "C looks -> OUTCOME");
    /* one of them claims if the attempt ended before it arrived */
    play_each("B asks a+ b+ model=2 -> GO;"
              "B answers 200;"
              "B ends finished;"
              "A asks a+ b+ -> PASS");
}


static void
s52_siblings_of_a_claim_that_was_answered(void **state)
{
    play_each("A asks a+ b. -> HOLD;"
              "B asks a. b+ -> CLAIM;"
              "B claims -> GO;"
              "A looks -> WAIT;"
              "B answers 200;"
              "A looks -> SIBLING;"
              "B ends finished;"
              "A looks -> SIBLING");
    /* held for another reason all the time, it waited too */
    play_each("A asks a+ b. -> HOLD;"
              "B asks a. b+ -> CLAIM;"
              "B claims -> GO;"
              "B answers 200;"
              "B ends finished;"
              "A looks -> SIBLING");
    /* a second attempt */
    play_each("A asks a+ b+ -> GO;"
              "A answers 503;"
              "B asks a. b+ -> CLAIM k=2 merge;"
              "B claims -> GO;"
              "C asks a. b+ -> WAIT k=2;"
              "B answers 200;"
              "C looks -> SIBLING k=2");
}


static void
s54_late_for_an_attempt_that_streams(void **state)
{
    play_each("A asks a+ b. -> HOLD;"
              "B asks a. b+ -> CLAIM;"
              "B claims -> GO;"
              "B answers 200;"
              "C asks a. b+ -> EMPTY/CONFLICT attach k=1;"
              "D asks a+ b+ -> EMPTY/PASS attach k=1;"
              "E asks a. b. model=2 -> PASS merge attach=0;"
              /* a request that waited does not count as late */
              "A looks -> SIBLING attach=0 k=1");
}


static void
s26_finished_attempts(void **state)
{
    play_each("A asks a+ b. -> HOLD;"
              "B asks a. b+ -> CLAIM;"
              "B claims -> GO;"
              "B answers 200;"
              "B ends finished;"
              "C asks a. b+ -> EMPTY/EMPTY/CONFLICT attach k=1;"
              "D asks a+ b+ -> EMPTY/PASS attach/0 k=1;"
              "E asks a+ b+ retry -> EMPTY/PASS attach/0");
    /* its answer was never stored */
    play_each("A asks a+ b+ -> GO;"
              "A ends finished;"
              "B asks a+ b+ retry -> EMPTY/PASS");
}


static void
s56_superseded_by_a_fresh_turn(void **state)
{
    play_each("A asks a+ b. -> HOLD;"
              "fact superseded 1;"
              "A looks -> EMPTY/SUPERSEDED attach=0;"
              "B asks a. b+ -> EMPTY/SUPERSEDED attach=0;"
              "C asks a+ b+ -> PASS");
    /* in any other state */
    play_each("A asks a+ b. -> HOLD;"
              "fact superseded 1;"
              "fact open P;"
              "A looks -> EMPTY/SUPERSEDED");
    /* but a finished one stays unchanged */
    play_each("A asks a+ b. -> HOLD;"
              "B asks a. b+ -> CLAIM;"
              "B claims -> GO;"
              "B answers 200;"
              "B ends finished;"
              "fact superseded 1;"
              "A looks -> SIBLING");
}


static void
s55_cleared(void **state)
{
    play_each("A asks a+ b. -> HOLD;"
              "clear;"
              "A looks -> EMPTY/CLEARED;"
              "B asks a+ b. -> EMPTY/CLEARED;"
              "C asks a+ b+ -> PASS");
}


static void
s29_s46_results_that_come_before_the_seal(void **state)
{
    play_each("fact open P;"
              "A asks a+ b. -> HOLD;"
              "B asks a. b+ -> HOLD missing=0;"
              "C asks a+ b+ -> HOLD;"
              "C voids;"
              "C tells;"
              "fact seal 1;"
              "A looks -> CLAIM k=2;"
              "A claims -> GO;"
              "B looks -> WAIT;"
              "C looks -> WAIT");
    play_each("fact open P;"
              "A asks a+ b. -> HOLD;"
              "fact broken 1;"
              "A looks -> HOLD;"
              "B asks a. b+ -> CLAIM");
    play_each("fact open P;"
              "A asks a+ b+ -> HOLD;"
              "A voids;"
              "P dies;"
              "A looks -> CLAIM k=2");
}


static void
s47_a_stream_that_brings_further_members(void **state)
{
    play_each("fact open P;"
              "A asks a+ b. -> HOLD;"
              "B asks a. b+ -> HOLD;"
              "call c;"
              "fact seal 1;"
              "A looks -> INCOMPLETE;"
              "B looks -> INCOMPLETE;"
              /* a body from after the seal may list any calls */
              "C asks a+ b. -> CLAIM;"
              "D asks a. b. c+ -> CLAIM merge");
    /* calls of the server are no members */
    play_each("fact open P;"
              "A asks a+ -> HOLD;"
              "A voids;"
              "call c%;"
              "fact seal 1;"
              "A looks -> CLAIM");
    /* nor does a result of an unknown call */
    play_each("fact open P;"
              "A asks a+ -> HOLD;"
              "A voids;"
              "result c;"
              "fact seal 1;"
              "A looks -> CLAIM");
}


static void
s35_an_unknown_id_completes_nothing(void **state)
{
    play_each("A asks a+ b. -> HOLD;"
              "result c;"
              "A looks -> HOLD missing=1;"
              "B asks c+ -> GO");
    play("openai_responses", "call a;"
                             "call b;"
                             "fact open P;"
                             "fact seal 1;"
                             "A asks chained a+ c+ -> HOLD missing=1;"
                             "B asks chained c+ d+ -> UNMANAGED;"
                             "B asks chained b+ -> CLAIM merge");
}


static void
s26_s27_repeated_results_are_nothing_new(void **state)
{
    play_each("A asks a+ b. -> HOLD;"
              "B asks a+ b. nothing-new -> HOLD;"
              "C asks a- b. nothing-new -> HOLD;"
              "D asks a. b+ -> CLAIM merge");
}


/* A claim lists the results of the body, and others of the store. */
static void
s108_own_results_come_before_stored_ones(void **state)
{
    play_each("A asks a+ b+ c. -> HOLD;"
              "B asks a= b. c+ -> CLAIM merge;"
              "B claims -> GO k=1;"
              "C asks a= b. c. -> WAIT");
    play_each("A asks a= b+ c. -> HOLD;"
              "B asks a+ b. c+ -> CLAIM merge;"
              "B claims -> GO k=1;"
              "C asks a+ b. c. -> WAIT");
}


/* It has not read what it carries: readers add that from the store. */
static void
a_claim_in_the_first_join_carries_stored_results(void **state)
{
    play_each("A asks a+ b. at-once -> HOLD missing=1;"
              "B asks a. b+ at-once -> GO k=1 merge;"
              "C asks a+ b. -> WAIT;"
              "D asks a= b. -> PASS;"
              "lose;"
              "B reclaims;"
              "E asks a+ b. at-once -> WAIT");
    play_each("A asks a+ b. c+ -> HOLD;"
              "B asks a= b. c. at-once -> HOLD missing=1;"
              "C asks a. b+ c= at-once -> GO k=1;"
              "D asks a+ b. c= -> WAIT;"
              "E asks a+ b. c+ -> PASS");
}


/* A decision in the store is no result; one in the body needs none. */
static void
a_first_join_may_claim_beside_approvals(void **state)
{
    play_each("A asks a. b^ -> HOLD;"
              "B asks a+ b? at-once -> CLAIM merge");
    play_each("A asks a+ b? -> HOLD;"
              "B asks a. b^ at-once -> GO k=1 merge");
    play_each("A asks a+ b+ c. -> HOLD;"
              "B asks a. a+ b. c+ at-once -> GO k=1 merge");
}


/* Not of a call that it has decided: no result of that goes upstream. */
static void
a_first_claim_names_results_that_it_has_not_read(void **state)
{
    asker_t      a;
    chat_needs_t needs;

    asker_begin(&a);
    asker_call(&a, "a.");
    asker_call(&a, "b^");
    asker_call(&a, "c+");
    asker_open(&a, chat_dialects[0], 'A');
    assert_true(chat_gate_claims_first(&a.q, a.arena, &needs));
    assert_int_equal(needs.nfields, 1);
    assert_true(chat_str_is(needs.fields[0], "result/a"));
    assert_int_equal(a.q.sent_results.len, 2 * CHAT_CARRIED);
    assert_true(chat_carried_has(a.q.sent_results, chat_cstr("a")));
    assert_false(chat_carried_has(a.q.sent_results, chat_cstr("b")));
    asker_end(&a);
}


/* Without memory for the list no other request shares its answer. */
static void
a_claim_that_lacks_its_results_has_no_siblings(void **state)
{
    chat_attempt_t  attempt;
    chat_question_t q = { .signature = { 1 } };

    chat_gate_attempt(&q, 1, &attempt);
    assert_false(chat_gate_asks_the_same(&q, &attempt));

    q.sent_results = chat_cstr("");
    chat_gate_attempt(&q, 1, &attempt);
    assert_true(chat_gate_asks_the_same(&q, &attempt));
}


/* Each worker numbers its requests from 0. */
static void
an_attempt_belongs_to_one_request_of_one_worker(void **state)
{
    chat_attempt_t  attempt = { .worker = CHAT_STR("w1"),
                                .request = CHAT_STR("7") };
    chat_question_t q = { .worker = CHAT_STR("w1"), .request = CHAT_STR("7") };

    assert_true(chat_gate_is_own(&q, &attempt));
    attempt.worker = chat_cstr("w2");
    assert_false(chat_gate_is_own(&q, &attempt));
    attempt.worker = q.worker;
    attempt.request = chat_cstr("8");
    assert_false(chat_gate_is_own(&q, &attempt));
}


/* A provider that keeps the conversation has the results of earlier turns. */
static void
s123_a_conversation_is_kept_by_its_provider(void **state)
{
    int     named;
    asker_t a;

    for (named = 0; named < 2; named++) {
        asker_begin(&a);
        a.rq.chained = 1;
        a.rq.by_conversation = named;
        asker_call(&a, "a+");
        assert_int_equal(chat_gate_question(&chat_dialect_openai_responses,
                                            &a.rq, 128, a.arena, &a.q),
                         CHAT_OK);
        assert_int_equal(a.q.kept, named);
        asker_end(&a);
    }
}


static void
s30_a_result_before_its_call(void **state)
{
    play_each("result b;"
              "A asks a+ b. -> CLAIM merge k=1;"
              "A claims -> GO");
    play("anthropic", "result b;"
                      "A asks chained a+ -> UNMANAGED;"
                      "call a;"
                      "call b;"
                      "fact open P;"
                      "fact seal 1;"
                      "B asks chained a+ -> CLAIM merge");
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_attempt_claims_and_goes),
        cmocka_unit_test(s38_errors_and_denials_are_results),
        cmocka_unit_test(s103_a_waiting_request_claims_after_a_void_attempt),
        cmocka_unit_test(s102_waiting_requests_share_the_outcome),
        cmocka_unit_test(s63_ends_after_the_first_byte),
        cmocka_unit_test(s103_a_dead_claimant_is_an_interrupted_attempt),
        cmocka_unit_test(s96_a_complete_body_sent_again),
        cmocka_unit_test(s108_other_results_are_another_request),
        cmocka_unit_test(s109_samples_of_one_transcript),
        cmocka_unit_test(s110_another_transcript_is_another_request),
        cmocka_unit_test(a_claim_of_an_older_version_has_no_siblings),
        cmocka_unit_test(s97_another_model_is_another_request),
        cmocka_unit_test(s52_siblings_of_a_claim_that_was_answered),
        cmocka_unit_test(s54_late_for_an_attempt_that_streams),
        cmocka_unit_test(s26_finished_attempts),
        cmocka_unit_test(s56_superseded_by_a_fresh_turn),
        cmocka_unit_test(s55_cleared),
        cmocka_unit_test(s29_s46_results_that_come_before_the_seal),
        cmocka_unit_test(s47_a_stream_that_brings_further_members),
        cmocka_unit_test(s35_an_unknown_id_completes_nothing),
        cmocka_unit_test(s26_s27_repeated_results_are_nothing_new),
        cmocka_unit_test(s108_own_results_come_before_stored_ones),
        cmocka_unit_test(a_claim_in_the_first_join_carries_stored_results),
        cmocka_unit_test(a_first_join_may_claim_beside_approvals),
        cmocka_unit_test(a_first_claim_names_results_that_it_has_not_read),
        cmocka_unit_test(a_claim_that_lacks_its_results_has_no_siblings),
        cmocka_unit_test(an_attempt_belongs_to_one_request_of_one_worker),
        cmocka_unit_test(s123_a_conversation_is_kept_by_its_provider),
        cmocka_unit_test(s30_a_result_before_its_call),
    };

    return cmocka_run_group_tests(tests, NULL, play_over);
}
