/*
 * test_external.c: external results: reading a body, its facts in each
 * dialect, and which results are new.
 *
 * An error could approve a call that has no approval request, or lose a result
 * that a webhook's response confirmed.
 */

#include "arena_run.h"
#include "facts/chat_conversation.h"
#include "policy/chat_external.h"
#include "../tenant.h"

#define MAX_CALLS 4
#define MAX_RESULT 32

static chat_external_t out;
static chat_batch_t    batch;
static chat_facts_t    stored, put;


static chat_rc_e
body(const char *text)
{
    return chat_external_read(&out, arena, chat_cstr(text), MAX_CALLS,
                              MAX_RESULT);
}


/* The body is refused for this field, at this index of a list (-1: none). */
static void
refused(const char *text, const char *field, int index)
{
    if (body(text) != CHAT_BAD) {
        fail_msg("%s is taken", text);
    }

    assert_non_null(out.refusal.message);
    assert_int_equal(out.refusal.listed, index >= 0);

    if (index >= 0) {
        assert_int_equal(out.refusal.index, index);
    }

    if (field == NULL) {
        assert_null(out.refusal.field);
    } else {
        assert_string_equal(out.refusal.field, field);
    }
}


#define ONE(id, value) \
    "{\"conversation\":\"c\",\"toolCallId\":\"" id "\"," value "}"


static void
one_and_many_are_read(void **state)
{
    assert_int_equal(body(ONE("\\u0061", "\"output\":[1]")), CHAT_OK);
    assert_int_equal(out.count, 1);
    assert_true(chat_str_is(out.conversation, "c"));
    assert_true(chat_str_is(out.items[0].id, "a"));
    assert_int_equal(out.items[0].outcome, CHAT_OUTCOME_OK);

    assert_int_equal(
        body("[" ONE("a", "\"errorText\":\"\"") "," ONE(
            "b", "\"approved\":false,\"reason\":\"no\"") "," ONE("c",
                                                                 "\"output\":"
                                                                 "null") "]"),
        CHAT_OK);
    assert_int_equal(out.count, 3);
    assert_int_equal(out.items[0].outcome, CHAT_OUTCOME_ERROR);
    assert_int_equal(out.items[1].outcome, CHAT_OUTCOME_NONE);
    assert_int_equal(out.items[1].approval, CHAT_APPROVAL_REFUSED);
    assert_int_equal(out.items[2].outcome, CHAT_OUTCOME_OK);
}


static void
what_is_wrong_is_named(void **state)
{
    char id[CHAT_ID_MAX + 2], text[CHAT_ID_MAX + 100];

    refused("", NULL, -1);
    refused("[]", NULL, -1);
    refused("1", NULL, -1);
    refused("[1]", NULL, -1);
    refused("{}", "conversation", -1);
    refused("{\"conversation\":\"c\"}", "toolCallId", -1);
    refused(ONE("", "\"output\":1"), "toolCallId", -1);
    refused(ONE("a", "\"x\":1"), NULL, -1);
    refused(ONE("a", "\"output\":1,\"errorText\":\"\""), NULL, -1);
    refused(ONE("a", "\"approved\":1"), "approved", -1);
    refused(ONE("a", "\"output\":1,\"reason\":\"\""), "reason", -1);
    refused(ONE("a", "\"output\":1,\"output\":1"), NULL, -1);
    refused("[" ONE("a", "\"output\":1") ",{\"conversation\":\"d\"}]",
            "conversation", 1);
    refused("[" ONE("a", "\"output\":1") "," ONE("b", "\"output\":1") ",7]",
            NULL, -1);
    refused("[ " ONE("a", "\"output\":1") " , [{}] ]", NULL, -1);
    refused("[{},{},{},{},{}]", NULL, -1);

    memset(id, 'i', sizeof(id) - 1);
    id[sizeof(id) - 1] = '\0';
    snprintf(text, sizeof(text), ONE("%s", "\"output\":1"), id);
    refused(text, "toolCallId", -1);
    snprintf(text, sizeof(text), ONE("%s", "\"output\":1"), id + 1);
    assert_int_equal(body(text), CHAT_OK);

    refused(ONE("a", "\"output\":\"0123456789012345678901234567890\""),
            "output", -1);
    assert_int_equal(out.refusal.status, 413);
    assert_int_equal(
        body(ONE("a", "\"output\":\"012345678901234567890123456789\"")),
        CHAT_OK);
}


/* A batch of a client's call "a", an approval "b", a provider's call "p". */
static void
known(void)
{
    chat_hash_t print = test_hash(chat_cstr("print"));

    chat_facts_init(&stored, arena);
    chat_facts_call(&stored, chat_cstr("a"), CHAT_KIND_CLIENT, 0, &print);
    chat_facts_call(&stored, chat_cstr("b"), CHAT_KIND_CLIENT, 1, &print);
    chat_facts_call(&stored, chat_cstr("b"), CHAT_KIND_APPROVAL, 1, &print);
    chat_facts_call(&stored, chat_cstr("p"), CHAT_KIND_PROVIDER, 2, &print);
}


static chat_rc_e
facts(const char *text, const chat_dialect_t *dialect)
{
    assert_int_equal(body(text), CHAT_OK);
    assert_int_equal(
        chat_batch_read(stored.items, stored.count, arena, &batch), CHAT_OK);
    chat_facts_init(&put, arena);
    out.tenant = &test_tenant;
    return chat_external_facts(&out, dialect, &batch, &put);
}


static void
a_result_takes_the_form_of_its_dialect(void **state)
{
    size_t i;

    static const struct {
        const chat_dialect_t *dialect;
        const char           *value;
        const char           *payload;
    } forms[] = {
        { &chat_dialect_ai_sdk, "{\"a\": 1.0}", "{\"a\": 1.0}" },
        { &chat_dialect_openai_responses, "[null]", "[null]" },
        { &chat_dialect_openai_chat, "{\"a\": 1.0}", "\"{\\\"a\\\": 1.0}\"" },
        { &chat_dialect_openai_chat, "\"\\u0061\"", "\"\\u0061\"" },
        { &chat_dialect_anthropic, "[{\"type\":\"text\"}]",
          "\"[{\\\"type\\\":\\\"text\\\"}]\"" },
        { &chat_dialect_anthropic, "null", "\"null\"" },
        { &chat_dialect_gemini, "{\"a\": 1.0}", "{\"a\": 1.0}" },
        { &chat_dialect_ag_ui, "{\"a\": 1.0}", "{\"a\": 1.0}" },
    };

    known();

    for (i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        char text[256];

        (void) snprintf(text, sizeof(text), ONE("a", "\"output\":%s"),
                        forms[i].value);
        assert_int_equal(facts(text, forms[i].dialect), CHAT_OK);
        assert_int_equal(put.count, 1);
        assert_true(chat_str_is(put.items[0].field, "result/a"));
        assert_true(put.items[0].has_payload);
        assert_true(chat_str_is(put.items[0].payload, forms[i].payload));

        /* it answers only the call that the store knows */
        assert_int_equal(chat_batch_read(put.items, 1, arena, &batch),
                         CHAT_OK);
        assert_int_equal(batch.members[0].outcome, CHAT_OUTCOME_OK);
        assert_memory_not_equal(batch.members[0].answered.bytes,
                                (unsigned char[16]){ 0 }, 16);
    }
}


static void
only_a_call_that_can_take_it_does(void **state)
{
    chat_hash_t digest = { { 0 } };

    known();

    assert_int_equal(facts(ONE("x", "\"output\":1"), &chat_dialect_ai_sdk),
                     CHAT_BAD);
    assert_int_equal(out.refusal.status, 404);
    assert_string_equal(out.refusal.field, "toolCallId");
    assert_int_equal(facts(ONE("p", "\"output\":1"), &chat_dialect_ai_sdk),
                     CHAT_BAD);

    assert_int_equal(
        facts(ONE("a", "\"approved\":true"), &chat_dialect_ai_sdk), CHAT_BAD);
    assert_string_equal(out.refusal.field, "approved");

    assert_int_equal(facts(ONE("b", "\"output\":1"), &chat_dialect_ai_sdk),
                     CHAT_OK);
    assert_int_equal(
        facts(ONE("b", "\"output\":1"), &chat_dialect_openai_responses),
        CHAT_BAD);
    assert_string_equal(out.refusal.field, "output");

    /* a request brought a result of a call that no stream announced */
    chat_facts_result(&stored, chat_cstr("r"), CHAT_OUTCOME_OK, &digest,
                      &digest, NULL);
    assert_int_equal(facts(ONE("r", "\"output\":1"), &chat_dialect_ai_sdk),
                     CHAT_BAD);
    assert_int_equal(out.refusal.status, 404);

    assert_int_equal(facts(ONE("b", "\"approved\":true,\"reason\":\"so\""),
                           &chat_dialect_openai_responses),
                     CHAT_OK);
    assert_true(chat_str_is(put.items[0].field, "approval/b"));
    assert_true(chat_str_is(put.items[0].payload, "\"so\""));
}


#define OUTPUT(id) ONE(id, "\"output\":1")
#define TWICE(id) OUTPUT(id) "," ONE(id, "\"errorText\":\"x\"")
#define DECIDED ONE("b", "\"approved\":true")


static void
s26_the_first_one_counts(void **state)
{
    chat_hash_t zero;

    known();
    memset(&zero, 0, sizeof(zero));

    assert_int_equal(facts("[" TWICE("a") "," DECIDED "," OUTPUT("b") "]",
                           &chat_dialect_ai_sdk),
                     CHAT_OK);
    assert_int_equal(put.count, 3);
    assert_int_equal(chat_external_applied(&put, put.items, put.count), 3);

    /* another request was first with one of them */
    chat_facts_result(&stored, chat_cstr("a"), CHAT_OUTCOME_OK, &zero, &zero,
                      NULL);
    assert_int_equal(chat_external_applied(&put, stored.items, stored.count),
                     0);
    chat_facts_approval(&stored, chat_cstr("b"), CHAT_APPROVAL_GRANTED,
                        chat_cstr(""));
    assert_int_equal(chat_external_applied(&put, stored.items, stored.count),
                     1);

    /* now only the output of the approved call is new */
    assert_int_equal(
        facts("[" ONE("a", "\"output\":1") "," ONE(
                  "b", "\"approved\":false") "," ONE("b", "\"output\":2") "]",
              &chat_dialect_ai_sdk),
        CHAT_OK);
    assert_int_equal(put.count, 1);
    assert_true(chat_str_is(put.items[0].field, "result/b"));
}


static void
what_is_shown_is_json(void **state)
{
    chat_buf_t           text = { 0 };
    chat_hash_t          zero;
    chat_json_doc_t      doc;
    chat_indexed_batch_t recorded;

    known();
    memset(&zero, 0, sizeof(zero));
    memset(&recorded, 0, sizeof(recorded));
    recorded.dialect = chat_cstr("ai_sdk");
    chat_facts_result(&stored, chat_cstr("a"), CHAT_OUTCOME_OK, &zero, &zero,
                      NULL);
    assert_int_equal(
        chat_batch_read(stored.items, stored.count, arena, &batch), CHAT_OK);
    assert_true(chat_external_is_open(&batch));

    chat_external_show(&batch, &recorded, chat_cstr("\"c\"\n"), &text);
    assert_int_equal(chat_json_parse(&doc, arena, chat_buf_str(&text)),
                     CHAT_OK);
    assert_true(chat_str_is(
        chat_json_raw(&doc, chat_json_get(&doc, doc.root, "missing")),
        "[\"b\"]"));
    assert_int_equal(chat_json_count(chat_json_get(&doc, doc.root, "calls")),
                     2);
    chat_buf_free(&text);

    batch.last.end = CHAT_END_FINISHED;
    assert_false(chat_external_is_open(&batch));
    batch.last.end = CHAT_END_FAILED;
    assert_true(chat_external_is_open(&batch));
    batch.superseded = 1;
    assert_false(chat_external_is_open(&batch));
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_and_many_are_read),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(a_result_takes_the_form_of_its_dialect),
        cmocka_unit_test(only_a_call_that_can_take_it_does),
        cmocka_unit_test(s26_the_first_one_counts),
        cmocka_unit_test(what_is_shown_is_json),
    };

    return cmocka_run_group_tests(tests, arena_create, arena_destroy);
}
