/*
 * test_gate_calls.c: when a call has its result: chains, results without
 * payload or for other arguments, approvals, preliminary outputs and ids that
 * occur twice. Scripts as in test_gate.c.
 */

#define _GNU_SOURCE

#include "gate_play.h"

#define CHAIN "call a;call b;fact open P;fact seal 1;"


static void
chains_are_known_from_the_store(void **state)
{
    size_t                   i;
    static const char *const dialects[] = { "openai_responses", "anthropic" };
    static const char *const scripts[] = {
        /* nothing is known of it */
        "A asks chained a+ -> UNMANAGED;"
        "A is not complete",
        /* a seal counts the calls: the store has lost one */
        "fact open P;call b;fact seal 2;"
        "A asks chained b+ -> HOLD;"
        "call a;"
        "A looks -> HOLD missing=1",
        /* its stream still runs */
        "fact open P;"
        "A asks chained a+ -> HOLD;"
        "call a;call b;"
        "fact seal 1;"
        "A looks -> HOLD missing=1;"
        "B asks chained b+ -> CLAIM merge;"
        "B claims -> GO merge;"
        "A looks -> WAIT;"
        "B answers 200;"
        "A looks -> SIBLING",
        /* it broke off */
        "fact open P;"
        "A asks chained a+ -> HOLD;"
        "fact broken 1;"
        "A looks -> UNMANAGED",
        /* its producer is gone */
        "fact open P;"
        "A asks chained a+ -> HOLD;"
        "P dies;"
        "A looks -> UNMANAGED",
        "clear;"
        "A asks chained a+ -> CLEARED",
        CHAIN "A asks chained a+ b+ -> CLAIM k=1;"
              "A claims -> GO k=1;"
              "A is complete;"
              "C asks chained a+ b+ retry -> WAIT;"
              "B asks chained a+ b+ -> PASS;"
              "C looks -> PASS;"
              "D asks chained a+ b+ retry -> PASS",
        CHAIN "A asks chained a+ b+ -> CLAIM;"
              "fact superseded 1;"
              "B asks chained a+ b+ -> PASS;"
              "C asks chained b+ nothing-new -> SUPERSEDED",
        /* calls that the server executes are not waited for */
        CHAIN "call c%;"
              "A asks chained b+ a+ -> CLAIM",
    };

    for (i = 0; i < 2 * sizeof(scripts) / sizeof(scripts[0]); i++) {
        play(dialects[i % 2], scripts[i / 2]);
    }
}


/*
 * Results that the provider of a conversation has are neither missing nor
 * inserted.
 */
static void
s123_s124_a_delivered_result_of_a_conversation(void **state)
{
    static const char head[] = "fact open W;call a;call b;call c;fact seal 1;"
                               "result b;fact delivered/b 1;";
    size_t            i;
    char              script[1024];
    const char *const rows[] = {
        "A asks chained kept a+ -> HOLD missing=1;"
        "B asks chained kept a+ c+ -> CLAIM merge=0",
        "A asks chained kept c+ -> HOLD missing=1;"
        "fact delivered/a 1;"
        "A looks -> CLAIM merge=0;"
        "A is complete",
        /* in a chain by response each branch has its own history */
        "A asks chained a+ c+ -> CLAIM merge",
        /* a retry has the results of the previous attempt, too */
        "A asks chained kept a+ -> HOLD;"
        "B asks chained kept c+ -> CLAIM;"
        "B claims -> GO merge;"
        "B answers 200;"
        "B ends failed;"
        "C asks chained kept c+ -> CLAIM merge;"
        "D asks chained kept fresh c+ -> CLAIM merge=0",
        /* the provider may have those of an attempt without an answer */
        "A asks chained kept a+ -> HOLD;"
        "B asks chained kept c+ -> CLAIM;"
        "B claims -> GO merge;"
        "D asks chained kept fresh c+ -> PASS merge=0",
    };

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(script, sizeof(script), "%s%s", head, rows[i]);
        play("openai_responses", script);
    }
}


static void
a_result_without_payload_is_held_elsewhere(void **state)
{
    /* a request with the result can be waited for */
    play_each("A asks a+ b+ -> GO;"
              "B asks a+ b. -> WAIT;"
              "A answers 200;"
              "B looks -> SIBLING;"
              "A ends finished;"
              "C asks a+ b. -> EMPTY/EMPTY/CONFLICT;"
              "D asks a+ b. model=2 -> HOLD");
    play_each("A asks a+ b+ -> GO;"
              "B asks a+ b. -> WAIT;"
              "A ends interrupted;"
              "B looks -> OUTCOME;"
              "C asks a+ b. -> CLAIM k=2 merge");
    /* but no request goes upstream without it */
    play_each("A asks a+ b+ -> GO;"
              "B asks a+ b. -> WAIT;"
              "A voids;"
              "B looks -> HOLD;"
              "A tells;"
              "B looks -> CLAIM k=2 merge");
    play_each("bare a;"
              "A asks a. b+ -> HOLD;"
              "B asks a. b+ -> HOLD;"
              "C asks a+ b. -> CLAIM k=1;"
              "C claims -> GO;"
              "A looks -> WAIT");
    play_each("A asks a+ b+ -> GO;"
              "A dies;"
              "B asks a+ b. -> HOLD;"
              "C asks a. b. -> HOLD");
    play("openai_responses", CHAIN "bare b;"
                                   "A asks chained a+ -> HOLD;"
                                   "result b;"
                                   "A looks -> CLAIM merge");
}


static void
a_result_of_other_arguments_counts_as_missing(void **state)
{
    play_each("A asks a+' b. -> HOLD;"
              "B asks a. b+ -> HOLD missing=1;"
              "C asks a.' b. -> CLAIM merge");
    /* its client did not know the arguments */
    play_each("result a;"
              "A asks a.' b+ -> CLAIM merge");
}


static void
s40_approvals(void **state)
{
    play_each("A asks a+ b? -> HOLD missing=1;"
              "B asks a. b^ -> CLAIM merge;"
              "B claims -> GO merge");
    play_each("A asks a+ b? -> HOLD;"
              "B asks a. b# -> CLAIM merge");
    /* an approval of a call without an approval request */
    play_each("A asks a+ b. -> HOLD;"
              "B asks a+ b^ -> GO;"
              "A looks -> HOLD missing=1");
    /* a result outranks it, in the store as in the body */
    play_each("A asks a+ b^ -> GO merge=0;"
              "A voids;"
              "result b;"
              "B asks a+ b^ -> CLAIM merge;"
              "C asks a+ b? -> CLAIM merge");
}


static void
s122_a_stored_decision_replaces_the_opposite_one(void **state)
{
    play_each("fact approval/a r;"
              "A asks a^ b+ -> GO merge");
    play_each("fact approval/a g;"
              "A asks a# b+ -> GO merge");
    play_each("fact approval/a g;"
              "A asks a^ b+ -> GO merge=0");
}


static void
s99_an_approval_is_not_sent_twice(void **state)
{
    play_each("A asks a+ b? -> HOLD;"
              "B asks a. b^ -> CLAIM;"
              "B claims -> GO;"
              "B answers 200;"
              "A looks -> SIBLING;"
              "B ends interrupted;"
              "C asks a. b? -> HOLD merge;"
              "result b;"
              "C looks -> CLAIM k=2 merge");
    /* nor when the next attempt sent nothing */
    play_each("A asks a+ b? -> HOLD;"
              "B asks a. b^ -> CLAIM;"
              "B claims -> GO;"
              "B answers 200;"
              "B ends interrupted;"
              "C asks a+ b^ -> CLAIM k=2;"
              "C claims -> GO;"
              "C voids;"
              "D asks a. b? -> HOLD");
    /* an attempt that was refused has run nothing */
    play_each("A asks a+ b^ -> GO;"
              "A answers 503;"
              "C asks a. b? -> CLAIM k=2 merge;"
              "C claims -> GO");
}


static void
an_approval_within_a_chain(void **state)
{
    play("openai_responses", "call a;call b?;fact open P;fact seal 1;"
                             "A asks chained a+ -> HOLD missing=1;"
                             "B asks chained b^ -> CLAIM merge;"
                             "A looks -> CLAIM merge;"
                             "A claims -> GO merge");
}


static void
s10_a_preliminary_output_settles_nothing(void **state)
{
    play_each("A asks a~ b+ -> HOLD missing=1;"
              "B asks a. b+ -> HOLD;"
              "C asks a+ b. -> CLAIM merge;"
              "A looks -> CLAIM merge");
}


static void
s43_the_servers_calls_are_not_waited_for(void **state)
{
    play_each("A asks a+ b% -> GO");
    play_each("A asks a+ b% c. -> HOLD missing=1");
}


static void
s32_an_id_that_occurs_twice(void **state)
{
    /* one occurrence has the result */
    play_each("A asks a. b. a+ -> HOLD missing=1;"
              "B asks a. b+ -> CLAIM merge;"
              "A looks -> CLAIM merge;"
              "A claims -> GO merge");
    /* complete, and still with an occurrence that lacks the result */
    play_each("A asks a+ a. -> GO merge");
    play_each("A asks a+ a+ -> GO merge=0");
    play_each("A asks b. a. a. -> HOLD missing=2");
    /* the client must not answer one of them */
    play_each("A asks a% a. b+ -> HOLD missing=1;"
              "B asks a. a% b+ -> HOLD missing=1;"
              "C asks a% a+ b. -> CLAIM merge");
}


static void
facts_of_a_store_are_limited(void **state)
{
    play_each("fact claim/4294967294 X;"
              "A asks a+ b+ -> GO k=1");
    play_each("fact claim/1000000 X;"
              "X dies;"
              "A asks a+ b+ -> CONFLICT");
    play_each("fact claim/7 ;"
              "A asks a+ b+ -> CLAIM k=8;"
              "A claims -> GO k=8");
}


static chat_rc_e
question(size_t count, size_t idlen, int same, size_t max)
{
    char            id[CHAT_ID_MAX + 2];
    size_t          i;
    asker_t         a;
    chat_rc_e       rc;
    chat_call_t    *call;
    chat_question_t q = { 0 };

    asker_begin(&a);
    memset(id, 'x', sizeof(id));

    for (i = 0; i < count; i++) {
        id[0] = (char) (same ? 0 : i);
        call = chat_request_add_call(&a.rq, a.arena);
        assert_non_null(call);
        assert_int_equal(
            chat_arena_dup(a.arena, chat_str(id, idlen), &call->id), CHAT_OK);
        call->ready = 1;
    }

    rc = chat_gate_question(&chat_dialect_anthropic, &a.rq, max, a.arena, &q);
    assert_true(rc != CHAT_OK || q.nmembers == (same ? 1 : count));
    asker_end(&a);
    return rc;
}


static void
bounds_of_a_question(void **state)
{
    assert_int_equal(question(1, 1, 0, 4), CHAT_OK);
    assert_int_equal(question(4, 1, 0, 4), CHAT_OK);
    assert_int_equal(question(5, 1, 0, 4), CHAT_LIMIT);
    assert_int_equal(question(8, 1, 1, 4), CHAT_OK);
    assert_int_equal(question(9, 1, 1, 4), CHAT_LIMIT);
    assert_int_equal(question(2, CHAT_ID_MAX, 0, 4), CHAT_OK);
    assert_int_equal(question(2, CHAT_ID_MAX + 1, 0, 4), CHAT_LIMIT);
    assert_int_equal(question(1, 0, 0, 4), CHAT_DECLINED);
    assert_int_equal(question(0, 0, 0, 4), CHAT_DECLINED);
}


static void
results_past_their_bound_are_not_kept(void **state)
{
    size_t       i, dropped;
    asker_t      a;
    chat_facts_t facts;

    asker_begin(&a);
    asker_call(&a, "a+");
    asker_call(&a, "b.");
    a.rq.calls[0].payload = chat_cstr("12345678");
    asker_open(&a, &chat_dialect_anthropic, 'A');

    chat_facts_init(&facts, a.arena);
    dropped = chat_gate_facts(&a.q, &a.rq, 0, 8, &facts);
    assert_int_equal(dropped, 0);
    dropped = chat_gate_facts(&a.q, &a.rq, 0, 7, &facts);
    assert_int_equal(dropped, 1);
    assert_int_equal(facts.count, 4);

    for (i = 0; i < 4; i++) {
        assert_int_equal(facts.items[i].has_payload, i == 0);
    }

    asker_end(&a);
}


/* Past the limit of a result the decision is kept, its reason is not. */
static void
a_long_reason_is_left_out(void **state)
{
    size_t       i, size, dropped;
    asker_t      a;
    chat_facts_t facts;

    for (size = 7; size <= 8; size++) {
        asker_begin(&a);
        asker_call(&a, "a^");
        a.rq.calls[0].reason = chat_cstr("\"a b c\"");
        asker_open(&a, &chat_dialect_ai_sdk, 'A');

        chat_facts_init(&facts, a.arena);
        dropped = chat_gate_facts(&a.q, &a.rq, 0, size - 1, &facts);
        assert_int_equal(dropped, size == 7);
        assert_int_equal(facts.count, 3);

        for (i = 0; i < facts.count; i++) {
            if (chat_str_is(facts.items[i].field, "approval/a")) {
                assert_true(chat_str_is(facts.items[i].value, "g"));
                assert_int_equal(facts.items[i].payload.len,
                                 size == 7 ? 0 : 7);
            }
        }

        asker_end(&a);
    }
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_are_known_from_the_store),
        cmocka_unit_test(s123_s124_a_delivered_result_of_a_conversation),
        cmocka_unit_test(a_result_without_payload_is_held_elsewhere),
        cmocka_unit_test(a_result_of_other_arguments_counts_as_missing),
        cmocka_unit_test(s40_approvals),
        cmocka_unit_test(s122_a_stored_decision_replaces_the_opposite_one),
        cmocka_unit_test(s99_an_approval_is_not_sent_twice),
        cmocka_unit_test(an_approval_within_a_chain),
        cmocka_unit_test(s10_a_preliminary_output_settles_nothing),
        cmocka_unit_test(s43_the_servers_calls_are_not_waited_for),
        cmocka_unit_test(s32_an_id_that_occurs_twice),
        cmocka_unit_test(facts_of_a_store_are_limited),
        cmocka_unit_test(bounds_of_a_question),
        cmocka_unit_test(results_past_their_bound_are_not_kept),
        cmocka_unit_test(a_long_reason_is_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, play_over);
}
