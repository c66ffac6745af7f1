/*
 * test_conversation.c: the conversation index: to which tenant it belongs, and
 * which of its batches is the newest, beside any other facts.
 *
 * A wrong batch would give a request the results of another step or user;
 * without a batch the request is unmanaged, which is safe.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "facts/chat_conversation.h"
#include "facts/chat_batch.h"

#define HEX64 \
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"


static chat_scope_t
scope_of(unsigned char tenant, const char *conversation)
{
    chat_scope_t scope;

    memset(&scope, 0, sizeof(scope));
    scope.tenant.bytes[0] = tenant;
    scope.dialect = chat_cstr("openai_responses");
    scope.conversation = chat_cstr(conversation);
    return scope;
}


static void
a_record_is_of_one_tenant_and_conversation(void **state)
{
    size_t       i, k;
    chat_key_t   key, other;
    chat_step_t  step;
    chat_scope_t scopes[] = { scope_of(1, "c"), scope_of(2, "c"),
                              scope_of(1, "d") };

    for (i = 0; i < 3; i++) {
        assert_int_equal(chat_conversation_index_key(&scopes[i], &key),
                         CHAT_OK);

        for (k = 0; k < i; k++) {
            assert_int_equal(chat_conversation_index_key(&scopes[k], &other),
                             CHAT_OK);
            assert_false(chat_digest_eq(&key.name, &other.name));
            assert_false(chat_digest_eq(&key.tag, &other.tag));
        }

        /* it has the hash tag of its batches */
        memset(&step, 0, sizeof(step));
        step.chain = chat_cstr("resp_1");
        assert_int_equal(chat_batch_key(&scopes[i], &step, &other), CHAT_OK);
        assert_true(chat_digest_eq(&key.tag, &other.tag));
        assert_false(chat_digest_eq(&key.name, &other.name));
    }

    scopes[0] = scope_of(1, "");
    assert_int_equal(chat_conversation_index_key(&scopes[0], &key),
                     CHAT_DECLINED);
}


static void
s116_an_anonymous_scope_names_nothing(void **state)
{
    size_t            i;
    chat_key_t        key;
    chat_step_t       steps[3];
    chat_scope_t      scope = scope_of(1, "c");
    static const char uuid[] = "7b5f5a0e-36ff-4a0c-8d7f-1f2e3d4c5b6a";

    (void) state;

    memset(steps, 0, sizeof(steps));
    steps[0].chain = chat_cstr("resp_1");
    steps[1].first_id = chat_cstr(uuid);
    steps[2].first_id = chat_cstr("call_0");

    for (i = 0; i < 3; i++) {
        scope.anonymous = 0;
        assert_int_equal(chat_batch_key(&scope, &steps[i], &key), CHAT_OK);
        scope.anonymous = 1;
        assert_int_equal(chat_batch_key(&scope, &steps[i], &key),
                         CHAT_DECLINED);
    }

    assert_int_equal(chat_conversation_index_key(&scope, &key), CHAT_DECLINED);
}


/* The newest of n batches with these times; name i is all bytes i + 1. */
static void
expect(const uint64_t *times, size_t n, size_t newest)
{
    size_t               i, from;
    chat_fact_t          turned[16];
    chat_facts_t         facts;
    chat_arena_t        *arena = chat_arena_create(0);
    chat_indexed_batch_t recorded;

    chat_facts_init(&facts, arena);
    chat_facts_add(&facts, "since", chat_cstr("5"));

    for (i = 0; i < n; i++) {
        memset(recorded.names, (int) i + 1, sizeof(recorded.names));
        recorded.nnames = 1 + i % 2;
        recorded.dialect = chat_cstr(i % 2 ? "two" : "one");
        chat_facts_batch(&facts, times[i], &recorded);
    }

    assert_false(facts.failed);

    /* in any order of their answers */
    for (from = 0; from < facts.count; from++) {
        for (i = 0; i < facts.count; i++) {
            turned[i] = facts.items[(from + i) % facts.count];
        }

        memset(&recorded, 0, sizeof(recorded));
        assert_int_equal(chat_batch_newest(turned, facts.count, &recorded),
                         CHAT_OK);
        assert_int_equal(recorded.nnames, 1 + newest % 2);
        assert_int_equal(recorded.ms, times[newest]);
        assert_true(chat_str_is(recorded.dialect, newest % 2 ? "two" : "one"));
        for (i = 0; i < recorded.nnames * CHAT_DIGEST_SIZE; i++) {
            assert_int_equal(((unsigned char *) recorded.names)[i],
                             newest + 1);
        }
    }

    chat_arena_destroy(arena);
}


static void
the_newest_batch_is_found(void **state)
{
    const uint64_t rising[] = { 7, 1700000000000, 1700000000001 };
    const uint64_t mixed[] = { 1700000000001, 99, 1700000000000, 100 };
    const uint64_t digits[] = { 9, 10 };
    const uint64_t same[] = { 5, 5, 5 };

    expect(rising, 1, 0);
    expect(rising, 3, 2);
    expect(mixed, 4, 0);
    expect(digits, 2, 1);
    expect(same, 3, 2);
}


static void
what_is_no_entry_is_absent(void **state)
{
    size_t               i;
    chat_fact_t          fact;
    chat_indexed_batch_t recorded;

    static const char *const fields[] = {
        "",
        "batch/",
        "batch/5",
        "batch/5-",
        "batch/-" HEX64,
        "batch/05-" HEX64,
        "batch/0-" HEX64,
        "batch/5a-" HEX64,
        "batch/5" HEX64 "0",
        "batch/5-" HEX64 "0",
        "batch/1234567890123456789-" HEX64,
        "stream/5-" HEX64,
        "call/batch/5-" HEX64,
        "batch/5-0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789"
        "abcdef",
    };

    memset(&fact, 0, sizeof(fact));
    assert_int_equal(chat_batch_newest(NULL, 0, &recorded), CHAT_DECLINED);

    for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        fact.field = chat_cstr(fields[i]);
        if (chat_batch_newest(&fact, 1, &recorded) != CHAT_DECLINED) {
            fail_msg("%s is an entry", fields[i]);
        }
    }

    fact.field = chat_cstr("batch/123456789012345678-" HEX64);
    assert_int_equal(chat_batch_newest(&fact, 1, &recorded), CHAT_OK);
    assert_int_equal(recorded.names[0].bytes[0], 0x01);
    assert_int_equal(recorded.names[0].bytes[31], 0xef);
    assert_int_equal(recorded.nnames, 1);
    assert_int_equal(recorded.dialect.len, 0);

    /* nor are a third name, and one that is none */
    fact.value = chat_cstr("d " HEX64 " " HEX64);
    assert_int_equal(chat_batch_newest(&fact, 1, &recorded), CHAT_OK);
    assert_int_equal(recorded.nnames, 2);
    assert_true(chat_digest_eq(&recorded.names[0], &recorded.names[1]));

    fact.value = chat_cstr("d  " HEX64);
    assert_int_equal(chat_batch_newest(&fact, 1, &recorded), CHAT_OK);
    assert_int_equal(recorded.nnames, 1);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_is_of_one_tenant_and_conversation),
        cmocka_unit_test(s116_an_anonymous_scope_names_nothing),
        cmocka_unit_test(the_newest_batch_is_found),
        cmocka_unit_test(what_is_no_entry_is_absent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
