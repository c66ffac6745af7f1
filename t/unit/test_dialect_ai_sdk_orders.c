/*
 * test_dialect_ai_sdk_orders.c: one property of splicing: parts with any
 * members in any order and with any white space are spliced with every kind of
 * result, and the body is read again: it is valid, has the inserted result,
 * and keeps every other byte.
 */

#include "ai_sdk_run.h"
#include "../buf_printf.h"

#define ROUNDS 4000


/* The same numbers on every machine. */
static unsigned
dice(unsigned sides)
{
    static uint64_t seed = 20240229;

    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned) (seed >> 33) % sides;
}


static const char *
space(void)
{
    static const char *const spaces[] = { "", "", " ", "\n", "\t \r\n" };

    return spaces[dice(5)];
}


static const char *const others[] = {
    "\"type\":\"tool-dig\"",
    "\"toolCallId\":\"a\"",
    "\"input\":{\"state\":\"x\",\"approval\":{},\"n\":1.0}",
    "\"callProviderMetadata\":{\"o\":{\"itemId\":\"i, ,\\\"}\"}}",
    "\"title\":\"state\"",
};

static const char *const subjects[] = {
    "\"output\":[{},3]",
    "\"errorText\":\"old\"",
    "\"preliminary\":true",
};

static const char *const states[] = {
    "\"state\":\"input-available\"",
    "\"state\" :\t\"approval-requested\"",
    "\"state\":\"approval-responded\"",
};

static const char *const asks[] = {
    "\"approval\":{\"id\":\"p\"}",
    "\"approval\":{ \"approved\":false , \"id\":\"p\"}",
    "\"approval\" : {\"id\":\"p\",\"reason\":\"r\",\"approved\": null }",
    "\"approval\":{}",
};


/* A part of random members in random order; *n of them are others. */
static void
part_make(chat_buf_t *part, const char **rest, size_t *n)
{
    const char *members[16], *swap;
    size_t      count = 0, i, at;

    part->len = 0;
    *n = 0;

    members[count++] = states[dice(3)];
    for (i = 0; i < 5; i++) {
        if (i < 2 || dice(2)) {
            members[count++] = others[i];
        }
    }
    for (i = 0; i < 3; i++) {
        if (dice(3) == 0) {
            members[count++] = subjects[i];
        }
    }
    if (dice(3) != 0) {
        members[count++] = asks[dice(4)];
    }

    for (i = count - 1; i > 0; i--) {
        at = dice((unsigned) i + 1);
        swap = members[i];
        members[i] = members[at];
        members[at] = swap;
    }

    chat_buf_puts(part, "{");
    for (i = 0; i < count; i++) {
        chat_buf_printf(part, "%s%s%s%s", i != 0 ? "," : "", space(),
                        members[i], space());

        for (at = 0; at < 5; at++) {
            if (members[i] == others[at]) {
                rest[(*n)++] = members[i];
            }
        }
    }
    chat_buf_puts(part, "}");
    chat_buf_add(part, chat_str("", 1));
}


/* Head and tail stay, and between them each unrelated member. */
static void
others_stand(const char **rest, size_t n)
{
    chat_str_t  s = chat_buf_str(&merged);
    const char *at;
    size_t      i;

    assert_true(chat_str_starts(s, HEAD));
    assert_true(s.len > strlen(HEAD TAIL));
    assert_true(chat_str_is(
        chat_str(s.data + s.len - strlen(TAIL), strlen(TAIL)), TAIL));

    chat_buf_add(&merged, chat_str("", 1));
    at = (const char *) merged.data + strlen(HEAD);

    for (i = 0; i < n; i++) {
        at = strstr(at, rest[i]);
        assert_non_null(at);
        at += strlen(rest[i]);
    }

    merged.len--;
}


/* The part in its new state has the required members, and no other. */
static void
part_is_valid(const chat_result_t *result)
{
    const chat_json_t *part = rq.calls[0].node;
    const chat_json_t *approval = chat_json_get(&doc, part, "approval");
    const chat_json_t *approved = chat_json_get(&doc, approval, "approved");
    int                ok = result->outcome == CHAT_OUTCOME_OK;
    int                error = result->outcome == CHAT_OUTCOME_ERROR;

    assert_int_equal(rq.calls[0].outcome, result->outcome);
    assert_true(chat_str_eq(rq.calls[0].payload, result->payload));
    assert_int_equal(chat_json_get(&doc, part, "output") != NULL, ok);
    assert_int_equal(chat_json_get(&doc, part, "errorText") != NULL, error);
    assert_null(chat_json_get(&doc, part, "preliminary"));

    if (result->outcome == CHAT_OUTCOME_DENIED) {
        assert_int_equal(approved->type, CHAT_JSON_FALSE);

    } else if (approval != NULL) {
        assert_int_equal(result->approval, CHAT_APPROVAL_GRANTED);
        assert_int_equal(approved->type, CHAT_JSON_TRUE);
    }
}


static void
any_order_of_members_and_any_white_space(void **state)
{
    static const chat_outcome_e outcomes[] = { CHAT_OUTCOME_OK,
                                               CHAT_OUTCOME_ERROR,
                                               CHAT_OUTCOME_DENIED };
    static const char *const payloads[] = { "{\"a\": [1.0]}", "\"e\\n\"", "" };
    chat_buf_t               part = { 0 };
    chat_result_t            result;
    const char              *rest[5];
    size_t                   round, kind, n;

    for (round = 0; round < ROUNDS; round++) {
        part_make(&part, rest, &n);
        take_part((const char *) part.data);

        kind = dice(3);
        memset(&result, 0, sizeof(result));
        result.call = &rq.calls[0];
        result.outcome = outcomes[kind];
        result.payload = chat_cstr(payloads[kind]);
        result.approval = dice(2) ? CHAT_APPROVAL_GRANTED : dice(4);

        assert_int_equal(splice(&result, 1), CHAT_OK);
        others_stand(rest, n);
        take(chat_buf_str(&merged));
        part_is_valid(&result);
    }

    chat_buf_free(&part);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_order_of_members_and_any_white_space),
    };

    return cmocka_run_group_tests(tests, arena_create, teardown);
}
