/*
 * test_dialect_openai_responses.c: requests of the Responses API: reading a
 * body, and putting results into it. The file with the suffix _stream tests
 * streams.
 *
 * A body is printed as one line, so that a row shows all that was read:
 *
 *     CLASS [chained] [answers] turn=N next=SINCE steps...
 *
 * A step is since:first_id:chain{calls}; a call is id/kind/state, where kind
 * is c, a or p and state is + answered, - not, ~ cut off, with b for bare.
 */

#define _GNU_SOURCE

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <cmocka.h>

#include "dialect/chat_dialect.h"
#include "../buf_printf.h"
#include "../tenant.h"

#define CALL(id)                                                         \
    "{\"type\":\"function_call\",\"call_id\":\"" id "\",\"name\":\"f\"," \
    "\"arguments\":\"{}\"}"
#define OUT(id)                                                  \
    "{\"type\":\"function_call_output\",\"call_id\":\"" id "\"," \
    "\"output\":\"r\"}"
#define USER "{\"role\":\"user\",\"content\":\"hi\"}"
#define SYSTEM "{\"role\":\"developer\",\"content\":\"be kind\"}"
#define MODEL "{\"type\":\"message\",\"role\":\"assistant\",\"content\":[]}"
#define REASON "{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[]}"
#define REF "{\"type\":\"item_reference\",\"id\":\"fc_1\"}"
#define C1 CALL("call_1")
#define C2 CALL("call_2")
#define C3 CALL("call_3")
#define O1 OUT("call_1")
#define O2 OUT("call_2")
#define O3 OUT("call_3")
#define IN(items) "{\"input\":[" items "]}"
#define CHAIN(items) \
    "{\"previous_response_id\":\"resp_1\",\"input\":[" items "]}"

static const chat_dialect_t *const dialect = &chat_dialect_openai_responses;

typedef struct {
    chat_arena_t   *arena;
    chat_json_doc_t doc;
    chat_request_t  rq;
    chat_rc_e       rc;
} body_t;


static void
body_open(body_t *body, chat_str_t text)
{
    memset(body, 0, sizeof(*body));
    body->rq.tenant = &test_tenant;
    body->rq.named = 1;
    body->arena = chat_arena_create(0);
    assert_non_null(body->arena);
    assert_int_equal(chat_json_parse(&body->doc, body->arena, text), CHAT_OK);
    body->rc = chat_dialect_read(dialect, &body->doc, body->arena, &body->rq);
}


static void
tell_step(const chat_request_t *rq, const chat_step_t *step, chat_buf_t *out)
{
    size_t             i;
    const chat_call_t *call;

    chat_buf_printf(out, " %u:", step->since);
    chat_buf_add(out, step->first_id);
    chat_buf_puts(out, ":");
    chat_buf_add(out, step->chain);
    chat_buf_puts(out, "{");

    for (i = step->first; i < step->first + step->count; i++) {
        call = &rq->calls[i];
        assert_int_equal(call->step, (size_t) (step - rq->steps));
        chat_buf_puts(out, i > step->first ? " " : "");
        chat_buf_add(out, call->id);
        chat_buf_printf(out, "/%c%s%s%s", "cap"[call->kind],
                        chat_call_is_settled(call) ? "+" : "-",
                        call->ready ? "" : "~", call->bare ? "b" : "");
    }

    chat_buf_puts(out, "}");
}


static void
tell(const body_t *body, chat_buf_t *out)
{
    size_t                   i;
    const chat_request_t    *rq = &body->rq;
    static const char *const classes[] = { "other", "fresh", "continuation",
                                           "regenerate" };

    chat_buf_printf(out, "%s%s%s turn=%zu next=%u", classes[rq->class],
                    rq->chained ? " chained" : "",
                    rq->answers ? " answers" : "", rq->turn, rq->next.since);

    for (i = 0; i < rq->nsteps; i++) {
        tell_step(rq, &rq->steps[i], out);
    }

    chat_buf_add(out, chat_str("", 1));
}


static const char *const rows[][2] = {
    /* fresh */
    { "{\"input\":\"hi\"}", "fresh turn=0 next=0" },
    { IN(USER), "fresh turn=0 next=0" },
    { IN(SYSTEM "," USER), "fresh turn=0 next=0" },
    { IN(USER "," MODEL "," USER), "fresh turn=0 next=0" },
    { IN(USER "," MODEL "," SYSTEM), "fresh turn=0 next=1" },
    { IN(USER "," C1 "," O1 "," MODEL "," USER), "fresh turn=0 next=0" },
    { IN(USER "," C1 "," MODEL "," USER),
      "fresh answers turn=1 next=0 0:call_1:{call_1/c-}" },
    /* continuations */
    { IN(USER "," C1 "," O1),
      "continuation answers turn=0 next=1 0:call_1:{call_1/c+}" },
    { IN(USER "," REASON "," C1 "," C2 "," O2),
      "continuation answers turn=0 next=1 "
      "0:call_1:{call_1/c- call_2/c+}" },
    { IN(USER "," C1 "," O1 "," REASON "," C2 "," C3 "," O3 "," O2),
      "continuation answers turn=0 next=2 0:call_1:{call_1/c+} "
      "1:call_2:{call_2/c+ call_3/c+}" },
    { IN(USER "," C1 "," C2 "," MODEL "," O1 "," SYSTEM),
      "continuation answers turn=0 next=1 "
      "0:call_1:{call_1/c+ call_2/c-}" },
    /* answered one by one: the last step is after the last answer */
    { IN(USER "," C1 "," O1 "," C2 "," O2),
      "continuation answers turn=0 next=2 0:call_1:{call_1/c+} "
      "1:call_2:{call_2/c+}" },
    /* a late answer completes an earlier step, the last one stays open */
    { IN(USER "," C1 "," C2 "," O1 "," C3 "," O2),
      "continuation answers turn=0 next=2 0:call_1:{call_1/c+ call_2/c+} "
      "1:call_3:{call_3/c-}" },
    { IN(USER "," C1 "," C2 "," O1 "," MODEL "," O2),
      "continuation answers turn=0 next=2 0:call_1:{call_1/c+ call_2/c+}" },
    /* only open steps of earlier turns are kept */
    { IN(USER "," C1 "," O1 "," USER "," C2 "," USER "," C3 "," O3),
      "continuation answers turn=1 next=1 0:call_2:{call_2/c-} "
      "0:call_3:{call_3/c+}" },
    /* a reused id belongs to the nearest call */
    { IN(USER "," C1 "," O1 "," USER "," C1 "," C2 "," O1),
      "continuation answers turn=0 next=1 0:call_1:{call_1/c+ call_2/c-}" },
    { IN(USER "," C1 "," C1 "," O1),
      "continuation answers turn=0 next=1 0:call_1:{call_1/c+ call_1/c+}" },
    /* neither */
    { IN(""), "other turn=0 next=0" },
    { IN(USER "," C1 "," O1 "," C2),
      "other turn=0 next=2 0:call_1:{call_1/c+} 1:call_2:{call_2/c-}" },
    { IN(USER "," REF "," O1), "other turn=0 next=1" },
    { IN(O1), "other turn=0 next=0" },
    { "{\"conversation\":\"conv_1\",\"input\":[" O1 "]}",
      "continuation chained answers turn=0 next=0 "
      "0::conv_1{call_1/c+b}" },
    /* unknown types are ignored */
    { IN(USER "," C1 ",{\"type\":\"program\"},{\"type\":7},null,3,"
              "{\"type\":\"program_output\",\"call_id\":\"call_1\"}," O1),
      "continuation answers turn=0 next=1 0:call_1:{call_1/c+}" },
    /* chained */
    { CHAIN(O1 "," O2), "continuation chained answers turn=0 next=0 "
                        "0::resp_1{call_1/c+b call_2/c+b}" },
    { CHAIN(USER), "fresh chained answers turn=0 next=0 0::resp_1{}" },
    { "{\"previous_response_id\":\"resp_1\",\"input\":\"hi\"}",
      "fresh chained answers turn=0 next=0 0::resp_1{}" },
    { CHAIN(""), "other turn=0 next=0" },
    { "{\"conversation\":{\"id\":\"conv_1\"},\"input\":\"hi\"}",
      "fresh chained answers turn=0 next=0 0::conv_1{}" },
    { "{\"conversation\":\"conv_1\",\"input\":[" USER "," C1 "," O1 "]}",
      "continuation answers turn=0 next=1 0:call_1:{call_1/c+}" },
    { "{\"conversation\":\"conv_1\",\"previous_response_id\":\"resp_1\","
      "\"input\":[" O1 "]}",
      "continuation chained answers turn=0 next=0 "
      "0::resp_1{call_1/c+b}" },
    { "{\"conversation\":null,\"input\":[" O1 "]}", "other turn=0 next=0" },
    { CHAIN(USER "," C1 "," O1),
      "continuation answers turn=0 next=1 0:call_1:{call_1/c+}" },
};


static void
request_rows(void **state)
{
    size_t     i;
    body_t     body;
    chat_buf_t out = { 0 };

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        body_open(&body, chat_cstr(rows[i][0]));
        assert_int_equal(body.rc, CHAT_OK);
        out.len = 0;
        tell(&body, &out);
        assert_string_equal((char *) out.data, rows[i][1]);
        chat_arena_destroy(body.arena);
    }

    chat_buf_free(&out);
}


static void
expect(const char *text, const char *line)
{
    body_t     body;
    chat_buf_t out = { 0 };

    body_open(&body, chat_cstr(text));
    assert_int_equal(body.rc, CHAT_OK);
    tell(&body, &out);
    assert_string_equal((char *) out.data, line);
    chat_buf_free(&out);
    chat_arena_destroy(body.arena);
}


static void
s60_calls_without_any_result_are_no_continuation(void **state)
{
    expect(IN(USER "," C1 "," C2),
           "other turn=0 next=1 0:call_1:{call_1/c- call_2/c-}");
    expect(IN(USER "," C1 "," SYSTEM),
           "other turn=0 next=1 0:call_1:{call_1/c-}");
}


static void
s98_results_with_new_user_text_are_fresh(void **state)
{
    expect(IN(USER "," C1 "," C2 "," O1 "," USER),
           "fresh answers turn=2 next=0 0:call_1:{call_1/c+ call_2/c-}");
    expect(IN(USER "," C1 "," USER "," O1),
           "fresh answers turn=1 next=0 0:call_1:{call_1/c+}");
    expect(CHAIN(O1 "," USER),
           "fresh chained answers turn=1 next=0 0::resp_1{call_1/c+b}");
}


static void
s43_calls_of_the_server_are_no_members(void **state)
{
    expect(IN(USER ",{\"type\":\"web_search_call\",\"id\":\"ws_1\"}," C1 ","
                   "{\"type\":\"mcp_call\",\"id\":\"mcp_1\",\"name\":\"x\"},"
                   "{\"type\":\"mcp_list_tools\",\"id\":\"mcpl_1\"}," O1),
           "continuation answers turn=0 next=1 "
           "0:ws_1:{ws_1/p- call_1/c+ mcp_1/p-}");
    expect(IN("{\"type\":\"shell_call\",\"call_id\":\"s1\",\"environment\":"
              "{\"type\":\"container_reference\"}},"
              "{\"type\":\"shell_call\",\"call_id\":\"s2\",\"environment\":"
              "{\"type\":\"local\"}},"
              "{\"type\":\"shell_call\",\"call_id\":\"s3\"},"
              "{\"type\":\"shell_call_output\",\"call_id\":\"s2\","
              "\"output\":[]}"),
           "continuation answers turn=0 next=1 0:s1:{s1/p- s2/c+ s3/c-}");
    expect(IN("{\"type\":\"tool_search_call\",\"call_id\":\"t1\","
              "\"execution\":\"server\",\"arguments\":{}},"
              "{\"type\":\"tool_search_output\",\"call_id\":\"t1\","
              "\"execution\":\"server\",\"tools\":[]}," C1 "," O1),
           "continuation answers turn=0 next=1 "
           "0:t1:{t1/p- call_1/c+}");
    expect(IN(USER ",{\"type\":\"function_call\",\"call_id\":\"call_9\","
                   "\"status\":\"incomplete\",\"arguments\":\"{\"}," C1
                   "," O1),
           "continuation answers turn=0 next=1 "
           "0:call_9:{call_9/c-~ call_1/c+}");
}


static void
request_members(void **state)
{
    body_t        body;
    chat_digest_t text;

    body_open(&body,
              chat_cstr("{\"stream\":true,\"store\":false,\"conversation\":"
                        "{\"id\":\"conv_1\"},\"input\":[" USER "," C1 "," O1
                        "]}"));
    assert_int_equal(body.rq.stream, 1);
    assert_int_equal(body.rq.stored, 0);
    assert_true(chat_str_is(body.rq.conversation, "conv_1"));
    assert_int_equal(body.rq.by_conversation, 1);
    chat_digest(chat_cstr("\"hi\""), &text);
    assert_true(chat_digest_eq(&body.rq.steps[0].user_text, &text));
    assert_true(chat_digest_eq(&body.rq.next.user_text, &text));
    chat_arena_destroy(body.arena);

    body_open(&body, chat_cstr("{\"conversation\":\"conv_2\","
                               "\"input\":\"hi\"}"));
    assert_int_equal(body.rq.stream, 0);
    assert_int_equal(body.rq.stored, 1);
    assert_true(chat_str_is(body.rq.conversation, "conv_2"));
    assert_true(chat_digest_eq(&body.rq.next.user_text, &text));
    chat_arena_destroy(body.arena);
}


/* The class that chat auto reads at this path; -1: no dialect takes it. */
static int
items_class(const char *uri, const char *text, chat_request_t *rq)
{
    int class = -1;
    chat_rc_e       rc;
    chat_arena_t   *arena = chat_arena_create(0);
    chat_json_doc_t doc;

    memset(&doc, 0, sizeof(doc));
    rq->tenant = &test_tenant;
    assert_int_equal(chat_json_parse(&doc, arena, chat_cstr(text)), CHAT_OK);

    if (chat_dialect_request(NULL, chat_cstr(uri), &doc, arena, rq, &rc)
        == &chat_dialect_openai_responses)
    {
        class = (int) rq->class;
    }

    if (class == CHAT_CLASS_ITEMS) {
        assert_true(rq->chained && rq->by_conversation && rq->answers);
        assert_int_equal(rq->ncalls, 1);
        assert_true(chat_str_is(rq->conversation, "conv_1"));
    }

    chat_arena_destroy(arena);
    return class;
}


static void
s124_items_of_a_conversation(void **state)
{
    size_t            i;
    chat_request_t    rq;
    static const char result[] = "{\"items\":[" USER "," O1 "]}";
    static const struct {
        const char *uri;
        const char *text;
        int class;
    } rows[] = {
        { "/v1/conversations/conv_1/items", result, CHAT_CLASS_ITEMS },
        { "/conversations/conv_1/items?include=x", result, CHAT_CLASS_ITEMS },
        { "/v1/conversations/conv_1/items", "{\"items\":[" USER "]}",
          CHAT_CLASS_OTHER },
        { "/v1/conversations/conv_1/items", "{\"items\":[]}",
          CHAT_CLASS_OTHER },
        { "/v1/conversations/conv_1/items", "{\"items\":{}}", -1 },
        { "/v1/conversations/conv_1/items", "{\"input\":\"hi\"}", -1 },
        { "/v1/conversations/conv_1/items/more", result, -1 },
        { "/v1/conversations//items", result, -1 },
        { "/conv_1/items", result, -1 },
        { "/items", result, -1 },
        { "/shop/items", "{\"input\":\"hi\"}", -1 },
    };

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(items_class(rows[i].uri, rows[i].text, &rq),
                         rows[i].class);
    }
}


static void
request_of_others_is_declined(void **state)
{
    size_t                   i;
    body_t                   body;
    static const char *const texts[] = {
        "{}",
        "[]",
        "7",
        "{\"input\":{}}",
        "{\"input\":null}",
        "{\"messages\":[],\"input\":\"x\"}",
    };

    for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        body_open(&body, chat_cstr(texts[i]));
        assert_int_equal(body.rc, CHAT_DECLINED);
        chat_arena_destroy(body.arena);
    }

    body_open(&body, chat_cstr("{\"input\":[],\"input\":[" USER "]}"));
    assert_int_equal(body.rc, CHAT_BAD);
    chat_arena_destroy(body.arena);

    body_open(&body,
              chat_cstr(IN(C1 ",{\"type\":\"function_call_output\","
                              "\"call_id\":\"call_1\",\"call_id\":\"x\"}")));
    assert_int_equal(body.rc, CHAT_BAD);
    chat_arena_destroy(body.arena);
}


/* Memory ends at any allocation: never a crash, nor a string that is empty. */
static void
read_without_memory(const char *body)
{
    size_t          limit;
    chat_rc_e       rc;
    chat_str_t      text = chat_cstr(body);
    chat_arena_t   *arena;
    chat_json_doc_t doc;
    chat_request_t  rq;

    for (limit = 64, rc = CHAT_ERROR; rc != CHAT_OK; limit += 16) {
        arena = chat_arena_create(limit);
        memset(&rq, 0, sizeof(rq));
        rc = chat_json_parse(&doc, arena, text);
        if (rc == CHAT_OK) {
            rc = chat_dialect_read(dialect, &doc, arena, &rq);
        }
        assert_true(rc == CHAT_OK || rc == CHAT_ERROR);
        assert_true(rc != CHAT_OK || chat_str_is(rq.calls[0].id, "call_1"));
        assert_true(limit < 1 << 20);
        chat_arena_destroy(arena);
    }
}


static void
request_without_memory(void **state)
{
    read_without_memory(IN(USER "," REASON "," C1 "," C2 "," O2 "," USER));
    read_without_memory(IN("{\"type\":\"fun\\u0063tion_call\","
                           "\"call_id\":\"call\\u005f1\",\"name\":\"f\"},"
                           "{\"type\":\"function_call_out\\u0070ut\","
                           "\"call_id\":\"call\\u005f1\",\"output\":\"1\"}"));
    read_without_memory(CHAIN(C1 "," O2));
}


/* More calls of one step than the limit, and answers of other calls. */
/* Of a chain only the results are in the body. */
static void
a_chain_of_too_many_results_is_refused(void **state)
{
    int        i, n;
    const int  max = CHAT_CALLS_MAX;
    body_t     body;
    chat_buf_t text = { 0 };

    for (n = max; n <= max + 1; n++) {
        text.len = 0;
        chat_buf_puts(&text,
                      "{\"previous_response_id\":\"resp_1\",\"input\":[");
        for (i = 0; i < n; i++) {
            chat_buf_printf(&text,
                            "%s{\"type\":\"function_call_output\","
                            "\"call_id\":\"%d\",\"output\":\"r\"}",
                            i ? "," : "", i);
        }
        chat_buf_puts(&text, "]}");

        body_open(&body, chat_buf_str(&text));
        assert_int_equal(body.rc, n == max ? CHAT_OK : CHAT_LIMIT);
        chat_arena_destroy(body.arena);
    }

    chat_buf_free(&text);
}


static void
request_of_many_items_is_read_in_time(void **state)
{
    size_t     i;
    body_t     body;
    clock_t    begin;
    chat_buf_t text = { 0 };

    chat_buf_puts(&text, "{\"input\":[null");
    for (i = 0; i < 300000; i++) {
        chat_buf_puts(&text, i < 150000
                                 ? ",{\"type\":\"function_call\","
                                   "\"call_id\":\"a\"}"
                                 : ",{\"type\":\"function_call_output\","
                                   "\"call_id\":\"b\"}");
    }
    chat_buf_puts(&text, "]}");

    begin = clock();
    body_open(&body, chat_buf_str(&text));
    assert_int_equal(body.rc, CHAT_LIMIT);
    assert_true(clock() - begin < 20 * CLOCKS_PER_SEC);

    chat_arena_destroy(body.arena);
    chat_buf_free(&text);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(request_rows),
        cmocka_unit_test(s60_calls_without_any_result_are_no_continuation),
        cmocka_unit_test(s98_results_with_new_user_text_are_fresh),
        cmocka_unit_test(s43_calls_of_the_server_are_no_members),
        cmocka_unit_test(request_members),
        cmocka_unit_test(s124_items_of_a_conversation),
        cmocka_unit_test(request_of_others_is_declined),
        cmocka_unit_test(request_without_memory),
        cmocka_unit_test(a_chain_of_too_many_results_is_refused),
        cmocka_unit_test(request_of_many_items_is_read_in_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
