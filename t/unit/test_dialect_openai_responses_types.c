/*
 * test_dialect_openai_responses_types.c: every type of item that a client of
 * the Responses API answers: the call in a stream and in a body, the client's
 * answer, and what is inserted if it is missing.
 */

#define _GNU_SOURCE

#include "dialect_run.h"
#include "../buf_printf.h"

static const chat_dialect_t *const dialect = &chat_dialect_openai_responses;

#define DONE(item)                                                      \
    "data: {\"type\":\"response.output_item.done\",\"output_index\":0," \
    "\"item\":" item "}\n\n"
#define ASK "{\"type\":\"mcp_approval_request\",\"id\":\"k\",\"name\":\"n\"}"
#define FUNCTION \
    "{\"type\":\"function_call\",\"call_id\":\"f\",\"arguments\":\"{}\"}"
#define FUNCTION_OUT \
    "{\"type\":\"function_call_output\",\"call_id\":\"f\",\"output\":\"\"}"

/* A call from the provider, the same from the client, its answer. */
static const struct {
    const char    *sent;
    const char    *back;
    const char    *answer;
    chat_outcome_e outcome;
} types[] = {
    { "{\"type\":\"function_call\",\"id\":\"fc\",\"call_id\":\"k\","
      "\"name\":\"n\",\"arguments\":\"{\\\"a\\\":1.0,\\\"b\\\":2}\"}",
      "{\"type\":\"function_call\",\"call_id\":\"k\",\"name\":\"n\","
      "\"arguments\":\"{\\\"b\\\":2,\\\"a\\\":1}\"}",
      "{\"type\":\"function_call_output\",\"id\":\"fco\",\"call_id\":\"k\","
      "\"output\":[]}",
      CHAT_OUTCOME_OK },
    { "{\"type\":\"custom_tool_call\",\"id\":\"ctc\",\"call_id\":\"k\","
      "\"name\":\"n\",\"input\":\"x y\",\"status\":\"completed\"}",
      "{\"type\":\"custom_tool_call\",\"call_id\":\"k\",\"name\":\"n\","
      "\"input\":\"x y\",\"id\":\"ctc\"}",
      "{\"type\":\"custom_tool_call_output\",\"call_id\":\"k\","
      "\"output\":\"failed\"}",
      CHAT_OUTCOME_OK },
    { "{\"type\":\"local_shell_call\",\"id\":\"lsh\",\"call_id\":\"k\","
      "\"action\":{\"type\":\"exec\",\"command\":[\"ls\"],\"env\":{},"
      "\"timeout_ms\":null,\"user\":null}}",
      "{\"type\":\"local_shell_call\",\"call_id\":\"k\",\"id\":\"lsh\","
      "\"action\":{\"type\":\"exec\",\"command\":[\"ls\"],\"env\":{}}}",
      "{\"type\":\"local_shell_call_output\",\"id\":\"k\",\"output\":\"\"}",
      CHAT_OUTCOME_OK },
    /* the same, answered by the AI SDK */
    { "{\"type\":\"local_shell_call\",\"id\":\"lsh\",\"call_id\":\"k\","
      "\"action\":{\"type\":\"exec\",\"command\":[\"ls\"]}}",
      "{\"type\":\"local_shell_call\",\"call_id\":\"k\",\"id\":\"lsh\","
      "\"action\":{\"type\":\"exec\",\"command\":[\"ls\"]}}",
      "{\"type\":\"local_shell_call_output\",\"call_id\":\"k\","
      "\"output\":\"\"}",
      CHAT_OUTCOME_OK },
    { "{\"type\":\"shell_call\",\"id\":\"sh\",\"call_id\":\"k\","
      "\"action\":{\"commands\":[\"ls\"],\"max_output_length\":9,"
      "\"timeout_ms\":null}}",
      "{\"type\":\"shell_call\",\"call_id\":\"k\",\"id\":\"sh\","
      "\"status\":\"completed\",\"action\":{\"commands\":[\"ls\"]}}",
      "{\"type\":\"shell_call_output\",\"call_id\":\"k\",\"output\":[]}",
      CHAT_OUTCOME_OK },
    { "{\"type\":\"apply_patch_call\",\"id\":\"ap\",\"call_id\":\"k\","
      "\"operation\":{\"type\":\"delete_file\",\"path\":\"a\"}}",
      "{\"type\":\"apply_patch_call\",\"call_id\":\"k\",\"status\":"
      "\"completed\",\"operation\":{\"path\":\"a\",\"type\":"
      "\"delete_file\"}}",
      "{\"type\":\"apply_patch_call_output\",\"call_id\":\"k\","
      "\"status\":\"failed\",\"output\":\"no\"}",
      CHAT_OUTCOME_ERROR },
    { "{\"type\":\"computer_call\",\"id\":\"cu\",\"call_id\":\"k\","
      "\"action\":{\"type\":\"screenshot\"}}",
      "{\"type\":\"computer_call\",\"call_id\":\"k\",\"id\":\"cu\","
      "\"action\":{\"type\":\"screenshot\"}}",
      "{\"type\":\"computer_call_output\",\"call_id\":\"k\",\"output\":{}}",
      CHAT_OUTCOME_OK },
    { "{\"type\":\"computer_call\",\"id\":\"cu\",\"call_id\":\"k\","
      "\"actions\":[{\"type\":\"wait\"}]}",
      "{\"type\":\"computer_call\",\"call_id\":\"k\",\"id\":\"cu\","
      "\"actions\":[{\"type\":\"wait\"}]}",
      "{\"type\":\"computer_call_output\",\"call_id\":\"k\",\"output\":{}}",
      CHAT_OUTCOME_OK },
    { "{\"type\":\"tool_search_call\",\"id\":\"ts\",\"call_id\":\"k\","
      "\"execution\":\"client\",\"arguments\":{\"q\":1}}",
      "{\"type\":\"tool_search_call\",\"call_id\":\"k\",\"id\":\"ts\","
      "\"execution\":\"client\",\"arguments\":{\"q\":1}}",
      "{\"type\":\"tool_search_output\",\"call_id\":\"k\","
      "\"execution\":\"client\",\"tools\":[]}",
      CHAT_OUTCOME_OK },
};

#define TYPES (sizeof(types) / sizeof(types[0]))


/* The fingerprint of the call in this frame. */
static void
sent(const char *frame, chat_kind_e kind, chat_hash_t *out)
{
    void           *state;
    chat_sse_t      sse;
    chat_arena_t   *arena = chat_arena_create(0);
    chat_frame_t    f;
    chat_events_t   events;
    chat_json_doc_t doc;

    state = chat_dialect_open(dialect, arena, NULL);
    sse = (chat_sse_t){ .max_frame = 0 };
    chat_sse_feed(&sse, chat_cstr(frame));
    assert_int_equal(chat_sse_next(&sse, &f), CHAT_SSE_FRAME);
    assert_int_equal(chat_json_parse(&doc, arena, f.data), CHAT_OK);
    chat_events_init(&events, arena);
    assert_int_equal(chat_dialect_frame(dialect, state, &f, &doc, &events),
                     CHAT_OK);

    assert_int_equal(events.count, 2);
    assert_int_equal(events.items[1].type, CHAT_EVENT_CALL_READY);
    assert_int_equal(events.items[1].kind, kind);
    assert_true(chat_str_is(events.items[1].id, "k"));
    assert_int_equal(chat_fingerprint(&test_tenant, events.items[1].name,
                                      events.items[1].text,
                                      chat_arena_scratch(), out),
                     CHAT_OK);

    chat_sse_free(&sse);
    chat_arena_destroy(arena);
}


static void
a_call_is_the_same_in_stream_and_body(void **state)
{
    size_t      i;
    body_t      body;
    chat_buf_t  text = { 0 };
    chat_hash_t fingerprint;

    for (i = 0; i < TYPES; i++) {
        text.len = 0;
        chat_buf_printf(&text,
                        "data: {\"type\":\"response.output_item.done\","
                        "\"output_index\":0,\"item\":%s}\n\n",
                        types[i].sent);
        chat_buf_add(&text, chat_str("", 1));
        sent((char *) text.data, CHAT_KIND_CLIENT, &fingerprint);

        text.len = 0;
        chat_buf_printf(&text, "{\"input\":[%s,%s]}", types[i].back,
                        types[i].answer);
        body_read(&body, dialect, chat_buf_str(&text));
        assert_int_equal(body.rq.ncalls, 1);
        assert_true(chat_hash_eq(chat_call_fingerprint(&body.rq.calls[0]),
                                 &fingerprint));
        body_free(&body);
    }

    chat_buf_free(&text);
}


static void
an_answer_is_read_as_clients_write_it(void **state)
{
    size_t             i;
    body_t             body;
    chat_buf_t         text = { 0 };
    const chat_call_t *call;

    for (i = 0; i < TYPES; i++) {
        text.len = 0;
        chat_buf_printf(&text, "{\"input\":[%s,%s]}", types[i].back,
                        types[i].answer);
        body_read(&body, dialect, chat_buf_str(&text));
        call = &body.rq.calls[0];

        assert_int_equal(body.rq.class, CHAT_CLASS_CONTINUATION);
        assert_int_equal(body.rq.ncalls, 1);
        assert_true(chat_str_is(call->id, "k"));
        assert_int_equal(call->kind, CHAT_KIND_CLIENT);
        assert_int_equal(call->outcome, types[i].outcome);
        assert_int_equal(call->approval, CHAT_APPROVAL_NONE);
        assert_true(chat_str_is(call->payload, types[i].answer));
        body_free(&body);

        /* the same on a chain, without the call */
        text.len = 0;
        chat_buf_printf(&text,
                        "{\"previous_response_id\":\"r\",\"input\":[%s]}",
                        types[i].answer);
        body_read(&body, dialect, chat_buf_str(&text));
        call = &body.rq.calls[0];

        assert_int_equal(body.rq.ncalls, 1);
        assert_true(body.rq.chained && call->bare);
        assert_true(chat_str_is(call->id, "k"));
        assert_int_equal(call->outcome, types[i].outcome);
        assert_true(chat_str_is(call->payload, types[i].answer));
        body_free(&body);
    }

    chat_buf_free(&text);
}


/* Puts a result into the last call of the input; NULL: impossible. */
static void
expect(const char *input, const char *merged, chat_outcome_e outcome,
       chat_approval_e approval, const char *payload)
{
    body_t        body;
    chat_rc_e     rc;
    chat_buf_t    text = { 0 }, out = { 0 };
    chat_edits_t  edits;
    chat_result_t result;

    chat_buf_printf(&text, "{\"input\":[%s]}", input);
    body_read(&body, dialect, chat_buf_str(&text));
    memset(&result, 0, sizeof(result));
    result.call = &body.rq.calls[body.rq.ncalls - 1];
    result.id = result.call->id;
    result.outcome = outcome;
    result.approval = approval;
    result.payload = chat_cstr(payload);

    edits = (chat_edits_t){ .arena = body.arena };
    rc = chat_transcript_splice(dialect->form, &body.doc, &body.rq, &result, 1,
                                &edits);
    assert_int_equal(rc, merged ? CHAT_OK : CHAT_BAD);

    if (merged != NULL) {
        assert_int_equal(chat_edits_apply(&edits, body.doc.text, &out),
                         CHAT_OK);
        text.len = 0;
        chat_buf_printf(&text, "{\"input\":[%s,%s]}", input, merged);
        chat_buf_add(&text, chat_str("", 1));
        text_equals(&out, (char *) text.data);
    }

    body_free(&body);
    chat_buf_free(&text);
    chat_buf_free(&out);
}


static void
an_answer_of_a_client_goes_in_as_it_is(void **state)
{
    size_t i;

    for (i = 0; i < TYPES; i++) {
        expect(types[i].back, types[i].answer, types[i].outcome,
               CHAT_APPROVAL_NONE, types[i].answer);
    }
}


/* A service sends a value, or the text of an error. */
static void
s48_a_value_from_outside_becomes_an_answer(void **state)
{
    size_t i;

#define SHELL "{\"type\":\"shell_call\",\"call_id\":\"k\"}"
#define SHELL_OUT(value) \
    "{\"type\":\"shell_call_output\",\"call_id\":\"k\",\"output\":" value "}"
#define PATCH "{\"type\":\"apply_patch_call\",\"call_id\":\"k\"}"
#define PATCH_OUT(value) \
    "{\"type\":\"apply_patch_call_output\",\"call_id\":\"k\"," value "}"
#define SCREEN "{\"type\":\"computer_call\",\"call_id\":\"k\"}"
#define SEARCH                                          \
    "{\"type\":\"tool_search_call\",\"call_id\":\"k\"," \
    "\"execution\":\"client\"}"
#define SEARCH_OUT(value)                                               \
    "{\"type\":\"tool_search_output\",\"call_id\":\"k\",\"execution\":" \
    "\"client\",\"status\":\"completed\",\"tools\":" value "}"

    static const struct {
        const char    *call;
        const char    *answer;
        chat_outcome_e outcome;
        const char    *value;
    } rows[] = {
        { "{\"type\":\"local_shell_call\",\"call_id\":\"k\"}",
          "{\"type\":\"local_shell_call_output\",\"id\":\"k\","
          "\"output\":\"a\"}",
          CHAT_OUTCOME_OK, "\"a\"" },
        { SHELL,
          SHELL_OUT("[{\"stdout\":\"a\",\"stderr\":\"\",\"outcome\":{"
                    "\"type\":\"exit\",\"exit_code\":0}}]"),
          CHAT_OUTCOME_OK, "\"a\"" },
        { SHELL, SHELL_OUT("[{\"stdout\":\"b\"}]"), CHAT_OUTCOME_OK,
          "[{\"stdout\":\"b\"}]" },
        { SHELL,
          SHELL_OUT("[{\"stdout\":\"\",\"stderr\":\"no\",\"outcome\":{"
                    "\"type\":\"exit\",\"exit_code\":1}}]"),
          CHAT_OUTCOME_ERROR, "\"no\"" },
        { PATCH, PATCH_OUT("\"status\":\"completed\",\"output\":\"a\""),
          CHAT_OUTCOME_OK, "\"a\"" },
        { PATCH, PATCH_OUT("\"status\":\"completed\",\"output\":\"{}\""),
          CHAT_OUTCOME_OK, "{}" },
        { PATCH, PATCH_OUT("\"status\":\"failed\",\"output\":\"no\""),
          CHAT_OUTCOME_ERROR, "\"no\"" },
        { SCREEN,
          "{\"type\":\"computer_call_output\",\"call_id\":\"k\","
          "\"output\":{\"type\":\"x\"}}",
          CHAT_OUTCOME_OK, "{\"type\":\"x\"}" },
        { SCREEN, NULL, CHAT_OUTCOME_OK, "\"x\"" },
        { SCREEN, NULL, CHAT_OUTCOME_ERROR, "\"x\"" },
        { SEARCH, SEARCH_OUT("[{}]"), CHAT_OUTCOME_OK, "[{}]" },
        { SEARCH, SEARCH_OUT("[]"), CHAT_OUTCOME_ERROR, "\"no\"" },
        { SEARCH, NULL, CHAT_OUTCOME_OK, "{}" },
        { ASK, NULL, CHAT_OUTCOME_OK, "\"x\"" },
    };

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        expect(rows[i].call, rows[i].answer, rows[i].outcome,
               CHAT_APPROVAL_NONE, rows[i].value);
    }
}


#define RESPONSE(rest)                                                   \
    "{\"type\":\"mcp_approval_response\",\"approval_request_id\":\"k\"," \
    "\"approve\":" rest "}"


static void
an_approval_is_no_result(void **state)
{
    size_t             i, chained;
    body_t             body;
    chat_buf_t         text = { 0 };
    const chat_call_t *call;

    static const struct {
        const char     *answer;
        chat_approval_e approval;
        const char     *reason;
    } rows[] = {
        { RESPONSE("true"), CHAT_APPROVAL_GRANTED, "" },
        { RESPONSE("false,\"reason\":\"no\\n\""), CHAT_APPROVAL_REFUSED,
          "\"no\\n\"" },
        { RESPONSE("true,\"reason\":null"), CHAT_APPROVAL_GRANTED, "" },
        /* anything but a granted decision is a denial */
        { RESPONSE("\"true\""), CHAT_APPROVAL_REFUSED, "" },
    };

    for (i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
        chained = i & 1;
        text.len = 0;
        chat_buf_printf(&text, "{%s\"input\":[%s%s]}",
                        chained ? "\"previous_response_id\":\"r\"," : "",
                        chained ? "" : ASK ",", rows[i / 2].answer);
        body_read(&body, dialect, chat_buf_str(&text));
        call = &body.rq.calls[0];

        assert_int_equal(body.rq.class, CHAT_CLASS_CONTINUATION);
        assert_int_equal(body.rq.ncalls, 1);
        assert_true(chat_str_is(call->id, "k"));
        assert_int_equal(call->kind, CHAT_KIND_APPROVAL);
        assert_int_equal(call->outcome, CHAT_OUTCOME_NONE);
        assert_int_equal(call->approval, rows[i / 2].approval);
        assert_true(chat_str_is(call->reason, rows[i / 2].reason));
        assert_int_equal(call->payload.len, 0);
        assert_true(chat_call_is_member(call) && chat_call_is_settled(call));
        body_free(&body);
    }

    chat_buf_free(&text);
}


static void
s40_an_approval_stands_open_beside_a_result(void **state)
{
    body_t body;

    body_read(
        &body, dialect,
        chat_cstr("{\"input\":[" FUNCTION "," ASK "," FUNCTION_OUT "]}"));
    assert_int_equal(body.rq.class, CHAT_CLASS_CONTINUATION);
    assert_int_equal(body.rq.ncalls, 2);
    assert_true(chat_call_is_settled(&body.rq.calls[0]));
    assert_false(chat_call_is_settled(&body.rq.calls[1]));
    body_free(&body);

    /* its answer goes after the result; a result's goes before it */
    expect(FUNCTION "," ASK "," FUNCTION_OUT, RESPONSE("true"),
           CHAT_OUTCOME_NONE, CHAT_APPROVAL_GRANTED, "");
    expect(ASK "," FUNCTION "," RESPONSE("true"),
           "{\"type\":\"function_call_output\",\"call_id\":\"f\","
           "\"output\":\"a\"}",
           CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE, "\"a\"");
}


/* Ids of approvals and of calls have separate name spaces. */
static void
an_answer_goes_to_a_call_of_its_kind(void **state)
{
    body_t body;

    body_read(&body, dialect,
              chat_cstr("{\"input\":[" ASK
                        ",{\"type\":\"function_call\",\"call_id\":\"k\"},"
                        "" RESPONSE("true") "]}"));
    assert_int_equal(body.rq.ncalls, 2);
    assert_int_equal(body.rq.calls[0].approval, CHAT_APPROVAL_GRANTED);
    assert_int_equal(body.rq.calls[1].outcome, CHAT_OUTCOME_NONE);
    assert_int_equal(body.rq.calls[1].approval, CHAT_APPROVAL_NONE);
    body_free(&body);
}


/* The model continues without it, so the client may, too. */
static void
s43_an_async_call_needs_no_result(void **state)
{
    body_t      body;
    chat_hash_t fingerprint;

#define ASYNC                                                       \
    "{\"type\":\"function_call\",\"call_id\":\"k\",\"name\":\"n\"," \
    "\"arguments\":\"{}\",\"async\":true}"

    sent(DONE(ASYNC), CHAT_KIND_PROVIDER, &fingerprint);

    body_read(
        &body, dialect,
        chat_cstr("{\"input\":[" ASYNC "," FUNCTION "," FUNCTION_OUT "]}"));
    assert_int_equal(body.rq.class, CHAT_CLASS_CONTINUATION);
    assert_int_equal(body.rq.ncalls, 2);
    assert_false(chat_call_is_member(&body.rq.calls[0]));
    assert_true(chat_call_is_settled(&body.rq.calls[1]));
    body_free(&body);

    /* its late result alone is no continuation that could be held */
    body_read(&body, dialect,
              chat_cstr("{\"input\":[" ASYNC
                        ",{\"type\":\"function_call_output\",\"call_id\":"
                        "\"k\",\"output\":\"\"}]}"));
    assert_int_equal(body.rq.class, CHAT_CLASS_OTHER);
    body_free(&body);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_is_the_same_in_stream_and_body),
        cmocka_unit_test(an_answer_is_read_as_clients_write_it),
        cmocka_unit_test(an_answer_of_a_client_goes_in_as_it_is),
        cmocka_unit_test(s48_a_value_from_outside_becomes_an_answer),
        cmocka_unit_test(an_approval_is_no_result),
        cmocka_unit_test(s40_an_approval_stands_open_beside_a_result),
        cmocka_unit_test(an_answer_goes_to_a_call_of_its_kind),
        cmocka_unit_test(s43_an_async_call_needs_no_result),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
