/*
 * batch_sample.h: a batch with every kind of fact, and the check that reading
 * returns what was written.
 *
 * Facts of the sample are in the arena of arena_run.h; chance is the same in
 * every run.
 */

#ifndef BATCH_SAMPLE_H
#define BATCH_SAMPLE_H

#include "arena_run.h"
#include "attempt_facts.h"
#include "facts/chat_batch.h"
#include "../tenant.h"

#define FACTS_MAX 96

static uint32_t seed = 2463534242u;


static inline uint32_t
dice(uint32_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return seed % n;
}


/* A claim without digests of the transcript and the results. */
static inline void
sample_claim(chat_facts_t *facts, uint32_t k, chat_str_t worker,
             chat_str_t request, const unsigned char *signature,
             const unsigned char *retry_key, uint64_t ms)
{
    chat_attempt_t attempt;

    memset(&attempt, 0, sizeof(attempt));
    attempt.k = k;
    attempt.worker = worker;
    attempt.request = request;
    attempt.ms = ms;
    memcpy(attempt.signature, signature, 16);
    memcpy(attempt.retry_key, retry_key, 16);
    chat_facts_claim(facts, &attempt);
}


/* Three attempts, and facts about them from other requests. */
static inline void
sample_attempts(chat_facts_t *facts)
{
    chat_str_t          w1 = CHAT_STR("w1"), w2 = CHAT_STR("w2");
    chat_str_t          w3 = CHAT_STR("w3"), r7 = CHAT_STR("7");
    chat_str_t          r8 = CHAT_STR("8"), r9 = CHAT_STR("9");
    const unsigned char signature[16] = { 1, 2, 3 }, none[16] = { 0 };

    sample_claim(facts, 1, w1, r7, signature, none, 1700000000123);
    chat_facts_answer(facts, 1, w1, r7, 200);
    chat_facts_end(facts, 1, w1, r7, CHAT_END_INTERRUPTED);
    sample_claim(facts, 2, w2, r8, signature, none, 0);
    chat_facts_void(facts, 2, w2, r8);
    sample_claim(facts, 10, w3, r9, none, signature, 7);
    chat_facts_answer(facts, 10, w3, r9, 503);
    chat_facts_end(facts, 10, w3, r9, CHAT_END_FAILED);

    chat_facts_answer(facts, 1, w2, r8, 418);
    chat_facts_end(facts, 1, w1, r8, CHAT_END_FINISHED);
    chat_facts_answer(facts, 2, w2, r7, 200);
    chat_facts_void(facts, 10, w1, r7);
    chat_facts_answer(facts, 10, w2, r9, 200);
    chat_facts_end(facts, 10, w3, r8, CHAT_END_FINISHED);
    chat_facts_answer(facts, 11, w3, r9, 200);
}


/* A batch with every kind of fact. */
static inline void
sample(chat_facts_t *facts)
{
    chat_str_t  payload = CHAT_STR("{\"x\":1}");
    chat_hash_t print = test_hash(chat_cstr("print"));
    chat_hash_t digest = test_hash(chat_cstr("digest"));

    chat_facts_init(facts, arena);

    chat_facts_add(facts, "since", chat_cstr("1700000000123"));
    chat_facts_call(facts, chat_cstr("c"), CHAT_KIND_APPROVAL, 0, &print);
    chat_facts_call(facts, chat_cstr("a b/1"), CHAT_KIND_CLIENT, 1, &print);
    chat_facts_call(facts, chat_cstr("aab"), CHAT_KIND_PROVIDER, 2, &print);
    chat_facts_call(facts, chat_cstr("aa"), CHAT_KIND_CLIENT, 2, &print);
    chat_facts_result(facts, chat_cstr("a b/1"), CHAT_OUTCOME_ERROR, &digest,
                      &print, &payload);
    chat_facts_result(facts, chat_cstr("early"), CHAT_OUTCOME_DENIED, &digest,
                      &print, NULL);
    chat_facts_approval(facts, chat_cstr("c"), CHAT_APPROVAL_REFUSED,
                        chat_cstr("\"no\""));
    chat_facts_open(facts, chat_cstr("p1"), chat_cstr("X: 1\r\nY: 2\r\n"));
    chat_facts_add(facts, "seal", chat_cstr("1"));
    chat_facts_add(facts, "partial", chat_cstr("1"));
    sample_attempts(facts);
    chat_facts_add(facts, "wait/w4", chat_cstr("1"));
    assert_false(facts->failed);
}


static inline void
is_member(const chat_batch_t *batch, size_t i, const char *id, int is_call,
          uint32_t position, chat_kind_e kind)
{
    const chat_member_t *member = &batch->members[i];

    assert_true(chat_str_is(member->id, id));
    assert_int_equal(member->is_call, is_call);
    assert_int_equal(member->position, position);
    assert_int_equal(member->kind, kind);
    assert_ptr_equal(chat_batch_find(batch, chat_cstr(id)), member);
}


static inline void
is_sample_attempts(const chat_batch_t *batch)
{
    const unsigned char signature[16] = { 1, 2, 3 }, none[16] = { 0 };

    assert_int_equal(batch->last.k, 10);
    assert_true(chat_str_is(batch->last.worker, "w3"));
    assert_true(chat_str_is(batch->last.request, "9"));
    assert_memory_equal(batch->last.signature, none, 16);
    assert_memory_equal(batch->last.retry_key, signature, 16);
    assert_int_equal(batch->nattempts, 3);
    assert_int_equal(batch->attempts[0].ms, 1700000000123);
    assert_true(batch->attempts[1].is_void);
    assert_int_equal(batch->attempts[1].ms, 0);
    assert_int_equal(batch->attempts[2].k, 10);
    assert_int_equal(batch->attempts[2].ms, 7);
    assert_int_equal(batch->last.answer, 503);
    assert_int_equal(batch->last.end, CHAT_END_FAILED);
    assert_int_equal(batch->last.is_void, 0);

    assert_int_equal(batch->answered.k, 1);
    assert_int_equal(batch->answered.answer, 200);
    assert_int_equal(batch->answered.end, CHAT_END_INTERRUPTED);
    assert_memory_equal(batch->answered.signature, signature, 16);
}


static inline void
is_sample(const chat_batch_t *batch)
{
    chat_hash_t          print = test_hash(chat_cstr("print"));
    chat_hash_t          digest = test_hash(chat_cstr("digest"));
    const chat_member_t *member;


    assert_true(batch->since == 1700000000123);
    assert_true(batch->open && batch->sealed && batch->partial);
    assert_false(batch->broken || batch->superseded || batch->cleared);
    assert_true(chat_str_is(batch->producer, "p1"));
    assert_true(chat_str_is(batch->cors, "X: 1\r\nY: 2\r\n"));

    assert_int_equal(batch->nmembers, 5);
    is_member(batch, 0, "c", 1, 0, CHAT_KIND_APPROVAL);
    is_member(batch, 1, "a b/1", 1, 1, CHAT_KIND_CLIENT);
    is_member(batch, 2, "aa", 1, 2, CHAT_KIND_CLIENT);
    is_member(batch, 3, "aab", 1, 2, CHAT_KIND_PROVIDER);
    is_member(batch, 4, "early", 1, UINT32_MAX, CHAT_KIND_CLIENT);
    assert_null(chat_batch_find(batch, chat_cstr("a")));

    member = &batch->members[1];
    assert_int_equal(member->outcome, CHAT_OUTCOME_ERROR);
    assert_int_equal(member->has_payload, 1);
    assert_memory_equal(member->fingerprint.bytes, print.bytes, 16);
    assert_memory_equal(member->answered.bytes, print.bytes, 16);
    assert_memory_equal(member->digest.bytes, digest.bytes, 16);

    assert_int_equal(batch->members[0].approval, CHAT_APPROVAL_REFUSED);
    assert_int_equal(batch->members[0].outcome, CHAT_OUTCOME_NONE);
    assert_int_equal(batch->members[4].outcome, CHAT_OUTCOME_DENIED);
    assert_int_equal(batch->members[4].has_payload, 0);

    is_sample_attempts(batch);
}


static inline void
read_sample(const chat_fact_t *facts, size_t n)
{
    chat_arena_t *own = chat_arena_create(0);
    chat_batch_t  batch;

    assert_non_null(own);
    assert_int_equal(chat_batch_read(facts, n, own, &batch), CHAT_OK);
    is_sample(&batch);
    chat_arena_destroy(own);
}


static inline void
shuffle(chat_fact_t *facts, size_t n)
{
    size_t      i, k;
    chat_fact_t held;

    for (i = n; i > 1; i--) {
        k = dice((uint32_t) i);
        held = facts[i - 1];
        facts[i - 1] = facts[k];
        facts[k] = held;
    }
}


#endif /* BATCH_SAMPLE_H */
