/*
 * test_gate_act.c: the action that follows from a verdict.
 *
 * Each case is a verdict under some terms, and the action or reply that a
 * request gets. How verdicts are reached is in test_gate.c.
 */

#define _GNU_SOURCE

#include "gate_run.h"


static chat_act_t
act(const char *dialect, chat_gate_verdict_e verdict,
    const chat_terms_t *terms)
{
    chat_question_t q;
    chat_decision_t decision;

    memset(&q, 0, sizeof(q));
    memset(&decision, 0, sizeof(decision));
    q.dialect = chat_dialect_find(chat_cstr(dialect));
    decision.verdict = verdict;
    decision.end = CHAT_END_ABORTED;
    decision.recorded = 1;

    return chat_gate_act(&q, &decision, terms);
}


static void
replies(const char *dialect, chat_gate_verdict_e verdict,
        const chat_terms_t *terms, chat_reply_e reply)
{
    chat_act_t given = act(dialect, verdict, terms);

    assert_int_equal(given.action, CHAT_ACT_REPLY);
    assert_int_equal(given.reply, reply);
}


static void
an_incomplete_continuation_never_goes_on(void **state)
{
    chat_terms_t terms = { .class = CHAT_CLASS_CONTINUATION };

    assert_int_equal(act("ai_sdk", CHAT_GATE_HOLD, &terms).action,
                     CHAT_ACT_WAIT);
    assert_int_equal(act("ai_sdk", CHAT_GATE_HOLD, &terms).bounded, 1);
    assert_int_equal(act("ai_sdk", CHAT_GATE_WAIT, &terms).bounded, 0);

    terms.watching = 1;
    terms.no_hold = 1;
    replies("ai_sdk", CHAT_GATE_HOLD, &terms, CHAT_REPLY_BOUNCE);
    replies("anthropic", CHAT_GATE_HOLD, &terms, CHAT_REPLY_INCOMPLETE);
}


static void
only_a_request_without_results_passes_a_hold(void **state)
{
    chat_terms_t terms = { .class = CHAT_CLASS_PENDING };

    assert_int_equal(act("ai_sdk", CHAT_GATE_HOLD, &terms).action,
                     CHAT_ACT_PASS);
    assert_int_equal(act("ai_sdk", CHAT_GATE_CLAIM, &terms).action,
                     CHAT_ACT_CLAIM);
}


static void
fresh_turns_and_items_always_go_on(void **state)
{
    int          verdict;
    chat_terms_t fresh = { .class = CHAT_CLASS_FRESH };
    chat_terms_t items = { .class = CHAT_CLASS_ITEMS };

    for (verdict = CHAT_GATE_PASS; verdict <= CHAT_GATE_AGAIN; verdict++) {
        assert_int_equal(
            act("openai_responses", (chat_gate_verdict_e) verdict, &fresh)
                .action,
            CHAT_ACT_GO);
        assert_int_equal(
            act("openai_responses", (chat_gate_verdict_e) verdict, &items)
                .action,
            verdict == CHAT_GATE_UNMANAGED ? CHAT_ACT_POLL : CHAT_ACT_PASS);
    }
}


static void
a_sibling_follows_and_without_a_recording_gets_a_reply(void **state)
{
    chat_act_t      given;
    chat_terms_t    terms = { .class = CHAT_CLASS_CONTINUATION };
    chat_question_t q = { .dialect = chat_dialect_find(chat_cstr("ai_sdk")) };
    chat_decision_t decision = { .verdict = CHAT_GATE_SIBLING };

    assert_int_equal(act("ai_sdk", CHAT_GATE_SIBLING, &terms).action,
                     CHAT_ACT_FOLLOW);

    for (decision.recorded = 0; decision.recorded <= 1; decision.recorded++) {
        given = chat_gate_act(&q, &decision, &terms);
        assert_int_equal(given.action,
                         decision.recorded ? CHAT_ACT_FOLLOW : CHAT_ACT_REPLY);
    }

    terms.unrecorded = 1;
    replies("ai_sdk", CHAT_GATE_SIBLING, &terms, CHAT_REPLY_EMPTY);
    replies("anthropic", CHAT_GATE_SIBLING, &terms, CHAT_REPLY_CONFLICT);
}


static void
each_verdict_that_ends_a_request_has_its_reply(void **state)
{
    chat_terms_t terms = { .class = CHAT_CLASS_CONTINUATION };

    replies("ai_sdk", CHAT_GATE_EMPTY, &terms, CHAT_REPLY_EMPTY);
    replies("ai_sdk", CHAT_GATE_INCOMPLETE, &terms, CHAT_REPLY_BOUNCE);
    replies("anthropic", CHAT_GATE_SUPERSEDED, &terms, CHAT_REPLY_SUPERSEDED);
    replies("anthropic", CHAT_GATE_CLEARED, &terms, CHAT_REPLY_CLEARED);
    replies("anthropic", CHAT_GATE_CONFLICT, &terms, CHAT_REPLY_CONFLICT);
    replies("ai_sdk", CHAT_GATE_LOOP, &terms, CHAT_REPLY_LOOP);
    replies("ai_sdk", CHAT_GATE_OUTCOME, &terms, CHAT_REPLY_BOUNCE);
    replies("anthropic", CHAT_GATE_OUTCOME, &terms, CHAT_REPLY_ABORTED);
}


/* A request that waited for an attempt is told how that ended. */
static void
the_outcome_of_another_attempt_is_told(void **state)
{
    size_t          i;
    chat_act_t      given;
    chat_terms_t    terms = { .class = CHAT_CLASS_CONTINUATION };
    chat_question_t q = { .dialect = &chat_dialect_anthropic };

    static const struct {
        chat_decision_t decision;
        chat_reply_e    reply;
        chat_reason_e   reason;
    } rows[] = {
        { { .status = 503, .end = CHAT_END_FAILED },
          CHAT_REPLY_UPSTREAM_STATUS,
          CHAT_REASON_CONFLICT_UPSTREAM_ERROR },
        { { .status = 200, .end = CHAT_END_FAILED },
          CHAT_REPLY_UPSTREAM_ERROR,
          CHAT_REASON_CONFLICT_UPSTREAM_ERROR },
        { { .status = 200, .end = CHAT_END_INTERRUPTED },
          CHAT_REPLY_INTERRUPTED,
          CHAT_REASON_CONFLICT_INTERRUPTED },
        { { .status = 200, .end = CHAT_END_INTERRUPTED, .lost = 1 },
          CHAT_REPLY_INTERRUPTED,
          CHAT_REASON_CONFLICT_PRODUCER_LOST },
    };

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        chat_decision_t decision = rows[i].decision;

        decision.verdict = CHAT_GATE_OUTCOME;
        given = chat_gate_act(&q, &decision, &terms);
        assert_int_equal(given.reply, rows[i].reply);
        assert_int_equal(given.reason, rows[i].reason);
    }
}


static void
each_action_has_the_reason_of_its_request(void **state)
{
    chat_terms_t terms = { .class = CHAT_CLASS_CONTINUATION };

    assert_int_equal(act("ai_sdk", CHAT_GATE_HOLD, &terms).reason,
                     CHAT_REASON_HELD_INCOMPLETE);
    assert_int_equal(act("ai_sdk", CHAT_GATE_SIBLING, &terms).reason,
                     CHAT_REASON_ATTACHED_SIBLING);
    assert_int_equal(act("ai_sdk", CHAT_GATE_OUTCOME, &terms).reason,
                     CHAT_REASON_BOUNCED_ABORTED);
    assert_int_equal(act("ai_sdk", CHAT_GATE_GO, &terms).reason,
                     CHAT_REASON_PASSED_COMPLETE);

    terms.watching = 1;
    assert_int_equal(act("ai_sdk", CHAT_GATE_GO, &terms).reason,
                     CHAT_REASON_RELEASED_COMPLETE);

    terms.no_hold = 1;
    assert_int_equal(act("ai_sdk", CHAT_GATE_HOLD, &terms).reason,
                     CHAT_REASON_BOUNCED_INCOMPLETE);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_incomplete_continuation_never_goes_on),
        cmocka_unit_test(only_a_request_without_results_passes_a_hold),
        cmocka_unit_test(fresh_turns_and_items_always_go_on),
        cmocka_unit_test(
            a_sibling_follows_and_without_a_recording_gets_a_reply),
        cmocka_unit_test(each_verdict_that_ends_a_request_has_its_reply),
        cmocka_unit_test(the_outcome_of_another_attempt_is_told),
        cmocka_unit_test(each_action_has_the_reason_of_its_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
