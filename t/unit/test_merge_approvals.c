/*
 * test_merge_approvals.c: approvals of MCP tools in the Responses API, from
 * the body that brings one to the body without it, with and without the calls
 * in the body. test_gate_calls.c tests their effect on the gate.
 */

#define _GNU_SOURCE

#include "merge_run.h"

#define ASK(id)                                                            \
    "{\"type\":\"mcp_approval_request\",\"id\":\"" id "\",\"name\":\"n\"," \
    "\"arguments\":\"{}\"}"
#define CALL(id)                                                         \
    "{\"type\":\"function_call\",\"call_id\":\"" id "\",\"name\":\"f\"," \
    "\"arguments\":\"{}\"}"
#define ANSWER(id) "," ANSWER_ALONE(id)
#define ANSWER_ALONE(id)                                         \
    "{\"type\":\"function_call_output\",\"call_id\":\"" id "\"," \
    "\"output\":\"r\"}"
#define GRANT(id) "," GRANT_ALONE(id)
#define GRANT_ALONE(id)                                                       \
    "{\"type\":\"mcp_approval_response\",\"approval_request_id\":\"" id "\"," \
    "\"approve\":true}"
#define REFUSE(id) "," REFUSE_ALONE(id)
#define REFUSE_ALONE(id)                                                      \
    "{\"type\":\"mcp_approval_response\",\"approval_request_id\":\"" id "\"," \
    "\"approve\":false,\"reason\":\"no \\u00e9\"}"
#define GRANT_INSTEAD(id)                                                     \
    "{\"type\":\"mcp_approval_response\",\"approval_request_id\":\"" id "\"," \
    "\"approve\":true,\"reason\":null}"
#define STEP CALL("a") "," ASK("p") "," ASK("q")
#define BODY(answers) "{\"input\":[" HI "," STEP answers "]}"
#define CHAIN(answers) \
    "{\"previous_response_id\":\"resp_1\",\"input\":[" answers "]}"

static chat_buf_t want, got;


static int
fresh(void **state)
{
    store_begin();
    return 0;
}


static int
over(void **state)
{
    chat_buf_free(&want);
    chat_buf_free(&got);
    store_end();
    return 0;
}


/* A body that is joined, and its verdict. */
static chat_gate_verdict_e
bring(const char *body)
{
    taken_t             t;
    chat_gate_verdict_e verdict;

    take(&t, RESPONSES, chat_cstr(body));
    asker_look(&t.a);
    verdict = t.a.d.verdict;
    drop(&t);
    return verdict;
}


/* The body is released, and must equal the other. */
static void
becomes(const char *body, const char *result)
{
    taken_t t;

    take(&t, RESPONSES, chat_cstr(body));
    asker_look(&t.a);
    assert_int_equal(t.a.d.verdict, CHAT_GATE_CLAIM);
    assert_int_equal(t.a.d.merge, 1);
    complete(&t, &got);
    want.len = 0;
    chat_buf_puts(&want, result);
    same(&got, &want);
    drop(&t);
}


static void
s40_decisions_are_put_into_a_body_that_lacks_them(void **state)
{
    assert_int_equal(bring(BODY(REFUSE("q"))), CHAT_GATE_HOLD);
    assert_int_equal(bring(BODY(GRANT("p"))), CHAT_GATE_HOLD);
    becomes(BODY(ANSWER("a")), BODY(ANSWER("a") GRANT("p") REFUSE("q")));

    /* the first decision counts, also over the body's own */
    becomes(BODY(REFUSE("p")),
            BODY(ANSWER("a") "," GRANT_INSTEAD("p") REFUSE("q")));
    becomes(BODY(GRANT("q")), BODY(ANSWER("a") GRANT("p") REFUSE("q")));
}


/* The calls of the chain, from the stream. */
static void
chain_begins(void)
{
    chat_facts_t facts;
    chat_hash_t  digest;

    memset(&digest, 7, sizeof(digest));
    chat_facts_init(&facts, store.arena);
    chat_facts_open(&facts, chat_cstr("P"), chat_str(NULL, 0));
    chat_facts_call(&facts, chat_cstr("a"), CHAT_KIND_CLIENT, 0, &digest);
    chat_facts_call(&facts, chat_cstr("p"), CHAT_KIND_APPROVAL, 1, &digest);
    chat_facts_call(&facts, chat_cstr("q"), CHAT_KIND_APPROVAL, 2, &digest);
    chat_facts_add(&facts, "seal", chat_cstr("3"));
    (void) store_join(&facts);
}


static void
s40_and_into_a_chained_body(void **state)
{
    chain_begins();
    assert_int_equal(bring(CHAIN(REFUSE_ALONE("q"))), CHAT_GATE_HOLD);
    assert_int_equal(bring(CHAIN(ANSWER_ALONE("a"))), CHAT_GATE_HOLD);
    becomes(CHAIN(GRANT_ALONE("p")),
            CHAIN(ANSWER_ALONE("a") GRANT("p") REFUSE("q")));
    becomes(CHAIN(REFUSE_ALONE("p")),
            CHAIN(ANSWER_ALONE("a") "," GRANT_INSTEAD("p") REFUSE("q")));
    becomes(CHAIN(ANSWER_ALONE("a")),
            CHAIN(ANSWER_ALONE("a") GRANT("p") REFUSE("q")));
}


/*
 * Its tool may have run: a request without its output waits or gets a reply.
 */
static void
s99_what_was_sent_once_is_not_merged_again(void **state)
{
    taken_t t, late;

    take(&t, RESPONSES, chat_cstr(BODY(ANSWER("a") GRANT("p") REFUSE("q"))));
    asker_look(&t.a);
    assert_int_equal(t.a.d.verdict, CHAT_GATE_GO);
    (void) asker_tell(&t.a);
    (void) asker_answer(&t.a, 1, 200);
    (void) asker_finish(&t.a, 1, CHAT_END_INTERRUPTED);
    drop(&t);

    take(&late, RESPONSES, chat_cstr(BODY(ANSWER("a") GRANT("p"))));
    late.a.q.request = chat_cstr("B");
    asker_look(&late.a);
    assert_int_equal(late.a.d.verdict, CHAT_GATE_HOLD);
    assert_int_equal(late.a.d.merge, 0);
    drop(&late);

    /* a request that brings it itself goes upstream */
    take(&late, RESPONSES,
         chat_cstr(BODY(ANSWER("a") GRANT("p") REFUSE("q"))));
    late.a.q.request = chat_cstr("B");
    asker_look(&late.a);
    assert_int_equal(late.a.d.verdict, CHAT_GATE_CLAIM);
    assert_int_equal(late.a.d.k, 2);
    drop(&late);
}


/* A new user message is no approval. */
static void
s99_a_fresh_turn_takes_results_but_no_approvals(void **state)
{
    taken_t t;

    assert_int_equal(bring(BODY(GRANT("p"))), CHAT_GATE_HOLD);
    assert_int_equal(bring(BODY(ANSWER("a"))), CHAT_GATE_HOLD);

    take(&t, RESPONSES, chat_cstr("{\"input\":[" HI "," STEP "," HI "]}"));
    assert_int_equal(t.a.rq.class, CHAT_CLASS_FRESH);
    complete(&t, &got);
    want.len = 0;
    chat_buf_puts(&want, "{\"input\":[" HI "," STEP ANSWER("a") "," HI "]}");
    same(&got, &want);
    drop(&t);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(
            s40_decisions_are_put_into_a_body_that_lacks_them, fresh),
        cmocka_unit_test_setup(s40_and_into_a_chained_body, fresh),
        cmocka_unit_test_setup(s99_what_was_sent_once_is_not_merged_again,
                               fresh),
        cmocka_unit_test_setup(s99_a_fresh_turn_takes_results_but_no_approvals,
                               fresh),
    };

    return cmocka_run_group_tests(tests, NULL, over);
}
