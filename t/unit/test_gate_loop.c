/*
 * test_gate_loop.c: a client that retries again and again by itself.
 *
 * Scripts as in test_gate.c; "wait" lets time pass. A request of BREAKS gets
 * an answer that breaks off.
 */

#define _GNU_SOURCE

#include "gate_play.h"

#define FIRST                 \
    "A asks a+ b+ -> GO k=1;" \
    "A answers 200;"          \
    "A ends interrupted;"

#define BREAKS(name, k)                                      \
    "wait 500;" #name " asks a+ b+ -> CLAIM k=" #k ";" #name \
    " claims -> GO k=" #k ";" #name " answers 200;" #name    \
    " ends interrupted;"

/* clang-format off */
#define NINE                                                              \
    FIRST BREAKS(B, 2) BREAKS(C, 3) BREAKS(D, 4) BREAKS(E, 5) BREAKS(F, 6) \
    BREAKS(G, 7) BREAKS(H, 8) BREAKS(I, 9)

#define TEN NINE BREAKS(J, 10)
/* clang-format on */


static void
s80_the_eleventh_attempt_within_a_minute(void **state)
{
    play("ai_sdk", TEN "K asks a+ b+ -> LOOP;"
                       "K looks -> LOOP;"
                       "wait 55499;"
                       "K asks a+ b+ -> LOOP;"
                       "wait 1;"
                       "K asks a+ b+ -> CLAIM k=11");
    play("ai_sdk", NINE "wait 60000;" BREAKS(J, 10) BREAKS(K, 11));
}


/* Their clients retry because the response requests it. */
static void
s80_others_are_not_counted(void **state)
{
    play("openai_chat", TEN BREAKS(K, 11));
    play("openai_responses", TEN BREAKS(K, 11));
    play("anthropic", TEN BREAKS(K, 11));
}


/* Attempts that sent nothing upstream do not count. */
static void
s81_void_attempts_and_waiting_requests_do_not_count(void **state)
{
    play("ai_sdk", NINE "K asks a+ b+ -> CLAIM k=10;"
                        "K claims -> GO k=10;"
                        "L asks a+ b+ -> WAIT k=10;"
                        "K voids;"
                        "M asks a+ b. -> CLAIM k=11 merge;"
                        "M claims -> GO k=11;"
                        "N asks a+ b+ -> WAIT k=11;"
                        "M answers 200;"
                        "N looks -> SIBLING;"
                        "M ends interrupted;"
                        "N looks -> OUTCOME;"
                        "N asks a+ b+ -> LOOP");
}


/* Claims without a time, or no clock. */
static void
no_time_no_loop(void **state)
{
    size_t          i;
    chat_batch_t    batch;
    chat_attempt_t  attempts[12];
    chat_question_t q;

    memset(&q, 0, sizeof(q));
    memset(&batch, 0, sizeof(batch));
    memset(attempts, 0, sizeof(attempts));

    q.dialect = &chat_dialect_ai_sdk;
    batch.attempts = attempts;
    batch.nattempts = 12;

    q.now = 1000;
    assert_int_equal(chat_gate_may_claim(&q, &batch, 13), CHAT_GATE_CLAIM);

    for (i = 0; i < 12; i++) {
        attempts[i].ms = 60999;
    }

    /* another node's clock is fast by less than a minute */
    assert_int_equal(chat_gate_may_claim(&q, &batch, 13), CHAT_GATE_LOOP);
    q.now = 999;
    assert_int_equal(chat_gate_may_claim(&q, &batch, 13), CHAT_GATE_CLAIM);
    q.now = 0;
    assert_int_equal(chat_gate_may_claim(&q, &batch, 13), CHAT_GATE_CLAIM);

    q.now = 60999;
    attempts[0].ms = attempts[1].ms = UINT64_MAX;
    assert_int_equal(chat_gate_may_claim(&q, &batch, 13), CHAT_GATE_LOOP);
    attempts[2].is_void = 1;
    assert_int_equal(chat_gate_may_claim(&q, &batch, 13), CHAT_GATE_CLAIM);
    assert_int_equal(chat_gate_may_claim(&q, &batch, CHAT_ATTEMPTS_MAX + 1),
                     CHAT_GATE_CONFLICT);
}


static int
end(void **state)
{
    store_end();
    return 0;
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(s80_the_eleventh_attempt_within_a_minute),
        cmocka_unit_test(s80_others_are_not_counted),
        cmocka_unit_test(s81_void_attempts_and_waiting_requests_do_not_count),
        cmocka_unit_test(no_time_no_loop),
    };

    return cmocka_run_group_tests(tests, NULL, end);
}
