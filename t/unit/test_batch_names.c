/*
 * test_batch_names.c: which steps have a name, and which share it.
 *
 * If two batches shared a name, results would be mixed; if a batch had two
 * names, results would be lost.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "facts/chat_batch.h"

#define UUID "123e4567-e89b-12d3-a456-426614174000"


static void
strong_and_weak_ids(void **state)
{
    size_t i;

    static const char *const strong[] = {
        UUID,
        "123E4567-E89B-12D3-A456-426614174000",
        "call_" UUID,
        "chatcmpl-tool-" UUID,
        "toolu_01A09q90qw90lq917835lq9",
        "call_9pw8qwAoK3fKmkuYlXUabcde",
        "chatcmpl-tool-5f3a0b7c9d1e4f60a2b8c4d6e8f01234",
        "functions.search:abcdefgh12345678",
        "abcdefgh12345678",
    };
    static const char *const weak[] = {
        "",
        "functions.search:0",
        "call_0",
        "D681PevKs", /* Mistral's nine */
        "call_00000000000000000000000000000000",
        "call_abcdefabcdefabcdef1" /* seven characters */,
        "call_abcdefgh1234567",
        "abcdefgh12345678_0",
        "123e4567-e89b-12d3-a456-42661417400g",
        "123e4567_e89b-12d3-a456-426614174000",
        "call" UUID,
        UUID "_0",
    };

    for (i = 0; i < sizeof(strong) / sizeof(strong[0]); i++) {
        if (!chat_id_is_strong(chat_cstr(strong[i]))) {
            fail_msg("%s is strong", strong[i]);
        }
    }

    for (i = 0; i < sizeof(weak) / sizeof(weak[0]); i++) {
        if (chat_id_is_strong(chat_cstr(weak[i]))) {
            fail_msg("%s is weak", weak[i]);
        }
    }
}


/* The parts of a name; all but the first id may be NULL. */
typedef struct {
    const char *tenant;
    const char *dialect;
    const char *conversation;
    int         by_message;
    const char *first;
    const char *message;
    uint32_t    ordinal;
    const char *text;
    uint32_t    since;
    const char *chain;
    int         anonymous;
} name_t;


static chat_rc_e
key(const name_t *name, chat_key_t *out)
{
    chat_step_t  step;
    chat_scope_t scope;

    memset(&scope, 0, sizeof(scope));
    memset(&step, 0, sizeof(step));
    memset(out, 0, sizeof(*out));

    chat_digest(chat_cstr(name->tenant ? name->tenant : "t"), &scope.tenant);
    scope.dialect = chat_cstr(name->dialect ? name->dialect : "openai_chat");
    scope.conversation =
        chat_cstr(name->conversation ? name->conversation : "");
    scope.by_message = name->by_message;
    scope.anonymous = name->anonymous;
    step.first_id = chat_cstr(name->first);
    step.message = chat_cstr(name->message ? name->message : "");
    step.ordinal = name->ordinal;
    chat_digest(chat_cstr(name->text ? name->text : ""), &step.user_text);
    step.since = name->since;
    step.chain = chat_cstr(name->chain ? name->chain : "");

    return chat_batch_key(&scope, &step, out);
}


/* All of them have names, each a different one. */
static void
all_differ(const name_t *names, size_t n)
{
    size_t     i, k;
    chat_key_t one, two;

    for (i = 0; i < n; i++) {
        assert_int_equal(key(&names[i], &one), CHAT_OK);

        for (k = 0; k < n; k++) {
            assert_int_equal(key(&names[k], &two), CHAT_OK);
            if (chat_digest_eq(&one.name, &two.name) != (i == k)) {
                fail_msg("names %zu and %zu", i, k);
            }
        }
    }
}


static void
s95_names_of_strong_ids(void **state)
{
    chat_key_t   one, two;
    const name_t names[] = {
        { .first = UUID },
        { .first = UUID, .tenant = "u" },
        { .first = UUID, .dialect = "anthropic" },
        { .first = UUID, .conversation = "c" },
        { .first = UUID, .conversation = "d" },
        { .first = "toolu_01A09q90qw90lq917835lq9" },
        { .first = UUID, .chain = "resp_1" },
        { .first = UUID, .chain = "resp_2" },
        /* a chain is not a call of the same name */
        { .first = "", .chain = UUID },
        /* nor can the end of one part be the beginning of the next */
        { .first = "x", .chain = "bc", .conversation = "a" },
        { .first = "x", .chain = "c", .conversation = "ab" },
        { .first = "x", .chain = "c", .conversation = "b", .dialect = "a" },
        { .first = "x", .chain = "c", .conversation = "", .dialect = "ab" },
    };
    const name_t same[] = {
        { .first = UUID, .conversation = "c" },
        { .first = UUID, .conversation = "c", .message = "m", .ordinal = 3 },
        { .first = UUID, .conversation = "c", .text = "hi", .since = 2 },
        { .first = UUID, .conversation = "c", .by_message = 1 },
    };
    size_t i;

    all_differ(names, sizeof(names) / sizeof(names[0]));

    /* the position of the step does not matter */
    assert_int_equal(key(&same[0], &one), CHAT_OK);
    for (i = 1; i < 4; i++) {
        assert_int_equal(key(&same[i], &two), CHAT_OK);
        assert_memory_equal(&one, &two, sizeof(one));
    }

    /* a chain does not need to know the call */
    assert_int_equal(key(&names[6], &one), CHAT_OK);
    assert_int_equal(key(&(name_t){ .first = "", .chain = "resp_1" }, &two),
                     CHAT_OK);
    assert_memory_equal(&one, &two, sizeof(one));
}


static void
s14_s95_names_of_weak_ids(void **state)
{
    const name_t texts[] = {
        { .first = "call_0", .conversation = "c", .text = "a" },
        { .first = "call_0", .conversation = "d", .text = "a" },
        { .first = "call_0", .conversation = "c", .text = "b" },
        { .first = "call_0", .conversation = "c", .text = "a", .since = 1 },
        { .first = "call_1", .conversation = "c", .text = "a" },
        { .first = "call_0", .conversation = "c", .text = "a", .tenant = "u" },
        { .first = "call_0",
          .conversation = "c",
          .text = "a",
          .dialect = "anthropic" },
    };
    const name_t messages[] = {
        { .first = "call_0",
          .conversation = "c",
          .message = "m",
          .by_message = 1 },
        { .first = "call_0",
          .conversation = "c",
          .message = "n",
          .by_message = 1 },
        { .first = "call_0",
          .conversation = "d",
          .message = "m",
          .by_message = 1 },
        { .first = "call_0",
          .conversation = "c",
          .message = "m",
          .by_message = 1,
          .ordinal = 1 },
        { .first = "call_1",
          .conversation = "c",
          .message = "m",
          .by_message = 1 },
    };

    all_differ(texts, sizeof(texts) / sizeof(texts[0]));
    all_differ(messages, sizeof(messages) / sizeof(messages[0]));
}


static void
s95_weak_ids_without_a_place_have_no_name(void **state)
{
    size_t       i;
    chat_key_t   one;
    const name_t none[] = {
        { .first = "call_0", .text = "a" },
        { .first = "call_0", .message = "m", .by_message = 1 },
        { .first = "call_0", .conversation = "c", .by_message = 1 },
        { .first = "", .text = "a" },
    };

    for (i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        assert_int_equal(key(&none[i], &one), CHAT_DECLINED);
    }
}


static void
each_kind_of_name_looks_at_its_own_place(void **state)
{
    name_t       moved;
    chat_key_t   one, two;
    const name_t text = { .first = "call_0",
                          .conversation = "c",
                          .text = "a" };
    const name_t message = {
        .first = "call_0", .conversation = "c", .message = "m", .by_message = 1
    };

    moved = text;
    moved.message = "m";
    moved.ordinal = 7;
    assert_int_equal(key(&text, &one), CHAT_OK);
    assert_int_equal(key(&moved, &two), CHAT_OK);
    assert_memory_equal(&one, &two, sizeof(one));

    moved = message;
    moved.text = "b";
    moved.since = 7;
    assert_int_equal(key(&message, &one), CHAT_OK);
    assert_int_equal(key(&moved, &two), CHAT_OK);
    assert_memory_equal(&one, &two, sizeof(one));
}


static void
keys_of_one_conversation_share_a_tag(void **state)
{
    chat_key_t one, two, other;

    assert_int_equal(
        key(&(name_t){ .first = UUID, .conversation = "c" }, &one), CHAT_OK);
    assert_int_equal(
        key(&(name_t){ .first = "call_0", .conversation = "c", .text = "a" },
            &two),
        CHAT_OK);
    assert_true(chat_digest_eq(&one.tag, &two.tag));
    assert_false(chat_digest_eq(&one.name, &two.name));

    assert_int_equal(
        key(&(name_t){ .first = UUID, .conversation = "c", .tenant = "u" },
            &other),
        CHAT_OK);
    assert_false(chat_digest_eq(&one.tag, &other.tag));

    assert_int_equal(key(&(name_t){ .first = UUID }, &other), CHAT_OK);
    assert_true(chat_digest_eq(&other.tag, &other.name));
}


static void
s116_an_empty_tenant_has_no_name(void **state)
{
    chat_key_t one;

    assert_int_equal(key(&(name_t){ .first = UUID, .anonymous = 1 }, &one),
                     CHAT_DECLINED);
    assert_int_equal(
        key(&(name_t){ .first = "", .chain = UUID, .anonymous = 1 }, &one),
        CHAT_DECLINED);
}


static void
ids_past_the_bound_have_no_name(void **state)
{
    size_t     i;
    char       id[CHAT_ID_MAX + 2];
    chat_key_t one;

    for (i = 0; i < CHAT_ID_MAX + 1; i++) {
        id[i] = (char) ('a' + i % 26);
    }
    id[CHAT_ID_MAX + 1] = '\0';

    assert_int_equal(key(&(name_t){ .first = id }, &one), CHAT_DECLINED);
    assert_int_equal(key(&(name_t){ .first = "", .chain = id }, &one),
                     CHAT_DECLINED);
    assert_int_equal(key(&(name_t){ .first = "x",
                                    .message = id,
                                    .conversation = "c",
                                    .by_message = 1 },
                         &one),
                     CHAT_DECLINED);

    id[CHAT_ID_MAX] = '\0';
    assert_int_equal(key(&(name_t){ .first = id }, &one), CHAT_OK);
    assert_int_equal(key(&(name_t){ .first = "", .chain = id }, &one),
                     CHAT_OK);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strong_and_weak_ids),
        cmocka_unit_test(s95_names_of_strong_ids),
        cmocka_unit_test(s14_s95_names_of_weak_ids),
        cmocka_unit_test(s95_weak_ids_without_a_place_have_no_name),
        cmocka_unit_test(each_kind_of_name_looks_at_its_own_place),
        cmocka_unit_test(keys_of_one_conversation_share_a_tag),
        cmocka_unit_test(s116_an_empty_tenant_has_no_name),
        cmocka_unit_test(ids_past_the_bound_have_no_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
