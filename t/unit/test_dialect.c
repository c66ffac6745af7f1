/*
 * test_dialect.c: the table of dialects, and the dialect of a request.
 *
 * The tests of a dialect check its reader; here only the choice of the reader,
 * and what makes two requests siblings.
 */

#include "arena_run.h"
#include "dialect/chat_dialect.h"
#include "../tenant.h"


static chat_json_doc_t doc; /* of the last body */


static const chat_dialect_t *
ask(const chat_dialect_t *dialect, const char *path, const char *body,
    chat_request_t *rq, chat_rc_e *rc)
{
    assert_int_equal(chat_json_parse(&doc, arena, chat_cstr(body)), CHAT_OK);
    rq->tenant = &test_tenant;

    return chat_dialect_request(dialect, chat_cstr(path), &doc, arena, rq, rc);
}


static void
dialects_are_found_by_name(void **state)
{
    size_t i;

    for (i = 0; chat_dialects[i] != NULL; i++) {
        assert_ptr_equal(chat_dialect_find(chat_cstr(chat_dialects[i]->name)),
                         chat_dialects[i]);
    }

    assert_int_equal(i, chat_dialect_count);
    assert_ptr_equal(chat_dialects[0], &chat_dialect_ai_sdk);
    assert_null(chat_dialect_find(chat_cstr("openai")));
    assert_null(chat_dialect_find(chat_cstr("")));
}


static void
paths_end_on_whole_segments(void **state)
{
    size_t i;

    static const char *const ends[] = { "/responses", ":generate", "run",
                                        NULL };
    static const struct {
        const char *path;
        int         want;
    } paths[] = {
        { "/v1/responses", 1 },
        { "/responses", 1 },
        { "/responses/", 1 },
        { "/v1/responses/x", 0 },
        { "/v1/myresponses", 0 },
        { "responses", 0 },
        { "/m:generate", 1 },
        { "/m:generates", 0 },
        { "/a/run", 1 },
        { "/a/rerun", 0 },
        { "run", 1 },
        { "/", 0 },
        { "", 0 },
        { "///", 0 },
    };

    assert_false(chat_path_ends(NULL, chat_cstr("/responses")));

    for (i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        assert_int_equal(chat_path_ends(ends, chat_cstr(paths[i].path)),
                         paths[i].want);
    }
}


#define UI_BODY(more)                                                   \
    "{\"id\":\"c\",\"messages\":[{\"id\":\"m\",\"role\":\"assistant\"," \
    "\"parts\":["                                                       \
    "{\"type\":\"tool-f\",\"toolCallId\":\"a\",\"state\":\"output-"     \
    "available\","                                                      \
    "\"input\":{},\"output\":1}]}]" more "}"

static const char ui_body[] = UI_BODY("");

static const char api_body[] =
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}";

static const char input_body[] = "{\"model\":\"m\",\"input\":\"hi\"}";

#define INPUT(output)                                                    \
    "\"input\":[{\"type\":\"function_call\",\"call_id\":\"a\",\"name\":" \
    "\"f\",\"arguments\":\"{}\"},{\"type\":\"function_call_output\","    \
    "\"call_id\":\"a\",\"output\":\"" output "\"}]"

#define RUN_BODY(more)                                                     \
    "{\"threadId\":\"t\",\"runId\":\"r\",\"messages\":[{\"id\":\"u\","     \
    "\"role\":\"assistant\",\"toolCalls\":[{\"id\":\"a\",\"type\":"        \
    "\"function\","                                                        \
    "\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},{\"id\":\"v\"," \
    "\"role\":\"tool\",\"toolCallId\":\"a\",\"content\":\"1\"}],"          \
    "\"context\":[]" more "}"

static const char run_body[] = RUN_BODY(",\"tools\":[]");

static const char contents_body[] =
    "{\"contents\":[{\"role\":\"model\",\"parts\":[{\"functionCall\":{"
    "\"name\":\"f\",\"args\":{}}}]},{\"role\":\"user\",\"parts\":["
    "{\"functionResponse\":{\"name\":\"f\",\"response\":{}}}]}]}";


static void
auto_goes_by_path_and_body(void **state)
{
    size_t         i;
    chat_rc_e      rc;
    chat_request_t rq;

    static const struct {
        const char           *path;
        const char           *body;
        const chat_dialect_t *want;
    } requests[] = {
        { "/api/chat", ui_body, &chat_dialect_ai_sdk },
        { "/api/messages", ui_body, &chat_dialect_ai_sdk },
        { "/v1/messages", api_body, &chat_dialect_anthropic },
        { "/v1/chat/completions", api_body, &chat_dialect_openai_chat },
        { "/v1/responses", input_body, &chat_dialect_openai_responses },
        { "/api/chat", api_body, NULL },
        { "/v1/messages/count_tokens", api_body, NULL },
        { "/v1/responses/input_tokens", input_body, NULL },
        { "/v1/responses", "[]", NULL },
        { "/v1/messages", "1", NULL },
        { "/v1/models/m:streamGenerateContent?alt=sse", contents_body,
          &chat_dialect_gemini },
        { "/v1/models/m:streamGenerateContent", contents_body,
          &chat_dialect_gemini },
        { "/v1/models/m:generateContent", contents_body,
          &chat_dialect_gemini },
        { "/v1/models/m:countTokens", contents_body, NULL },
        { "/v1/cachedContents?key=:streamGenerateContent", contents_body,
          NULL },
        { "/v1/x?y=:streamGenerateContent", contents_body, NULL },
        { "/agent", run_body, &chat_dialect_ag_ui },
        { "/v1/chat/completions", run_body, &chat_dialect_ag_ui },
    };

    for (i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        assert_ptr_equal(
            ask(NULL, requests[i].path, requests[i].body, &rq, &rc),
            requests[i].want);
        assert_int_equal(rc, requests[i].want ? CHAT_OK : CHAT_DECLINED);
    }
}


static void
a_named_dialect_is_the_only_one(void **state)
{
    chat_rc_e      rc;
    chat_request_t rq;

    assert_ptr_equal(ask(&chat_dialect_anthropic, "/any", api_body, &rq, &rc),
                     &chat_dialect_anthropic);
    assert_null(ask(&chat_dialect_ai_sdk, "/any", api_body, &rq, &rc));
    assert_int_equal(rc, CHAT_DECLINED);

    /* an endpoint that shares the shape only */
    assert_null(ask(&chat_dialect_anthropic, "/messages/count_tokens",
                    api_body, &rq, &rc));
    assert_int_equal(rc, CHAT_DECLINED);
}


static void
a_body_that_says_two_things_is_refused(void **state)
{
    chat_rc_e      rc;
    chat_request_t rq;

    assert_null(ask(NULL, "/v1/messages",
                    "{\"model\":\"a\",\"model\":\"b\",\"messages\":[{\"role\":"
                    "\"user\",\"content\":\"hi\"}]}",
                    &rq, &rc));
    assert_int_equal(rc, CHAT_BAD);

    assert_null(ask(NULL, "/api/chat",
                    "{\"id\":\"c\",\"messages\":[],\"messages\":[{\"id\":\"m\""
                    ",\"role\":\"user\",\"parts\":[{\"type\":\"text\","
                    "\"text\":\"hi\"}]}]}",
                    &rq, &rc));
    assert_int_equal(rc, CHAT_BAD);

    /* it may in a member that is not read */
    assert_non_null(ask(NULL, "/v1/messages",
                        "{\"x\":1,\"x\":2,\"model\":\"a\",\"messages\":[{"
                        "\"role\":\"user\",\"content\":\"hi\"}]}",
                        &rq, &rc));
}


/* Signs the body; key: each byte of the name of its batch. */
static void
sign(const char *path, const char *body, unsigned char key, chat_request_t *rq)
{
    chat_rc_e             rc;
    chat_digest_t         name;
    const chat_dialect_t *dialect = ask(NULL, path, body, rq, &rc);

    assert_non_null(dialect);
    assert_int_equal(rq->class, CHAT_CLASS_CONTINUATION);
    memset(name.bytes, key, CHAT_DIGEST_SIZE);
    assert_int_equal(chat_dialect_sign(dialect, &doc, &name, rq), CHAT_OK);
}


static int
is_signed_alike(const char *path, const char *body, const char *other_path,
                const char *other)
{
    chat_request_t a, b;

    sign(path, body, 7, &a);
    sign(other_path, other, 7, &b);

    return memcmp(a.signature, b.signature, 16) == 0;
}


static void
s97_another_model_or_stream_is_another_signature(void **state)
{
    const char *path = "/v1/responses";

    assert_true(is_signed_alike(path, "{\"model\":\"m\"," INPUT("a") "}", path,
                                "{ " INPUT("b") ", \"model\":\"m\" }"));
    assert_false(is_signed_alike(path, "{\"model\":\"m\"," INPUT("a") "}",
                                 path, "{\"model\":\"n\"," INPUT("a") "}"));
    assert_false(
        is_signed_alike(path, "{\"model\":\"m\"," INPUT("a") "}", path,
                        "{\"model\":\"m\"," INPUT("a") ",\"stream\":true}"));
    assert_false(is_signed_alike(path, "{\"model\":\"m\"," INPUT("a") "}",
                                 "/v2/responses",
                                 "{\"model\":\"m\"," INPUT("a") "}"));
    assert_true(is_signed_alike(
        path, "{\"model\":\"m\"," INPUT("a") ",\"temperature\":1}", path,
        "{\"model\":\"m\"," INPUT("a") ",\"temperature\":1.0}"));
    assert_true(is_signed_alike("/api/chat", ui_body, "/api/chat", ui_body));
    assert_false(is_signed_alike("/api/chat", UI_BODY(",\"model\":\"a\""),
                                 "/api/chat", UI_BODY(",\"model\":\"b\"")));
    assert_false(is_signed_alike("/api/chat", UI_BODY(",\"system\":\"a\""),
                                 "/api/chat", ui_body));
    assert_true(is_signed_alike("/api/chat", UI_BODY(",\"nonce\":1"),
                                "/api/chat", UI_BODY(",\"nonce\":2")));
    assert_false(is_signed_alike("/a", RUN_BODY(",\"tools\":[1]"), "/a",
                                 RUN_BODY(",\"tools\":[2]")));
    assert_false(
        is_signed_alike("/a", RUN_BODY(",\"tools\":[],\"forwardedProps\":1"),
                        "/a", RUN_BODY(",\"tools\":[]")));
    assert_true(is_signed_alike("/a", RUN_BODY(",\"tools\":[],\"state\":1"),
                                "/a", RUN_BODY(",\"tools\":[],\"state\":2")));

    path = "/m:streamGenerateContent?alt=sse";
    assert_true(is_signed_alike(path, contents_body,
                                "/m:streamGenerateContent?key=k&alt=sse",
                                contents_body));
    assert_false(is_signed_alike(path, contents_body,
                                 "/m:streamGenerateContent", contents_body));
    assert_false(is_signed_alike(path, contents_body,
                                 "/n:streamGenerateContent?alt=sse",
                                 contents_body));
}


#define CHAT_BODY(members, messages)                                       \
    "{\"model\":\"m\",\"messages\":[" messages ",{\"role\":\"assistant\"," \
    "\"tool_calls\":[{\"id\":\"a\",\"type\":\"function\",\"function\":"    \
    "{\"name\":\"f\",\"arguments\":\"{}\"}}]},{\"role\":\"tool\","         \
    "\"tool_call_id\":\"a\",\"content\":\"" members "\"}]}"


/* 1 if the transcripts are the same; key: each byte of the other's. */
static int
have_one_transcript(const char *body, const char *other, unsigned char key)
{
    const char    *path = "/v1/chat/completions";
    chat_request_t a, b;

    sign(path, body, 7, &a);
    sign(path, other, key, &b);

    return memcmp(a.signature, b.signature, 16) == 0;
}


static void
s110_transcripts_of_a_batch_are_compared_by_value(void **state)
{
    const char *body = CHAT_BODY(
        "r", "{\"role\":\"user\",\"content\":\"\\u00e9/1\",\"n\":1.0}");

    assert_true(have_one_transcript(body, body, 7));
    assert_false(have_one_transcript(body, body, 8));

    /* spelled otherwise, and with another result */
    assert_true(have_one_transcript(
        body,
        CHAT_BODY("s",
                  "{ \"n\" : 10e-1, \"content\":\"\xc3\xa9\\/1\",\"role\":"
                  "\"user\"}"),
        7));
    assert_false(have_one_transcript(
        body,
        CHAT_BODY("r",
                  "{\"role\":\"user\",\"content\":\"\\u00e9/2\",\"n\":1.0}"),
        7));
    assert_false(have_one_transcript(
        body,
        CHAT_BODY("r",
                  "{\"role\":\"user\",\"content\":\"\\u00e9/1\",\"n\":1.0},"
                  "{\"role\":\"user\",\"content\":\"\"}"),
        7));
}


#define ROW 5 /* messages before a step */


/* Signs a chat with these messages; a letter is the text of one, repeated. */
static void
sign_row(const char *letters, unsigned spellings, unsigned char signature[16])
{
    int            i;
    char           text[CHAT_TRANSCRIPT_TEXT + 2];
    chat_buf_t     row = { 0 }, body = { 0 };
    chat_request_t rq;

    /* what is hashed at once may end behind one of them, or in it */
    static const int sizes[ROW] = { 1, CHAT_TRANSCRIPT_TEXT - 100, 9,
                                    CHAT_TRANSCRIPT_TEXT + 1, 30 };

    static const char *const spelled[] = {
        "%s{\"role\":\"user\",\"content\":\"%s\"}", /* the canonical form */
        "%s{\"role\":\"user\",\"content\":\"%s\"} ",
        "%s {\"role\":\"user\",\"content\":\"%s\"}",
        "%s{\"content\":\"%s\",\"role\":\"user\"}",
    };

    for (i = 0; i < ROW; i++, spellings /= 4) {
        memset(text, letters[i], (size_t) sizes[i]);
        text[sizes[i]] = '\0';
        chat_buf_format(&row, spelled[spellings % 4], i ? "," : "", text);
    }

    chat_buf_format(&body, CHAT_BODY("r", "%v"), chat_buf_str(&row));
    chat_buf_add(&body, chat_str("", 1));
    sign("/v1/chat/completions", (char *) body.data, 7, &rq);
    memcpy(signature, rq.signature, 16);
    chat_arena_reset(arena);
    chat_buf_free(&row);
    chat_buf_free(&body);
}


static void
s110_each_message_is_compared_by_value(void **state)
{
    unsigned      i;
    unsigned char want[16], other[16];
    char          letters[] = "aaaaa";

    sign_row(letters, 0, want);

    for (i = 1; i < 1 << 2 * ROW; i++) {
        sign_row(letters, i, other);
        assert_memory_equal(other, want, 16);
    }

    for (i = 0; i < ROW; i++) {
        letters[i]++;
        sign_row(letters, 0, other);
        assert_memory_not_equal(other, want, 16);
        letters[i]--;
    }
}


/* Signs a message of parts, in two where split is 1; a letter is a text. */
static void
sign_parts(const char *letters, int split, unsigned char signature[16])
{
    size_t         i;
    char           text[CHAT_TRANSCRIPT_TEXT + 1] = "";
    chat_buf_t     body = { 0 };
    chat_request_t rq;

    chat_buf_puts(&body, "{\"messages\":[{\"role\":\"assistant\",\"parts\":[");

    for (i = 0; letters[i] != '\0'; i++) {
        memset(text, letters[i], i % 2 ? sizeof(text) - 1 : 9);
        chat_buf_format(&body, "%s{\"type\":\"text\",\"text\":\"%s\"}",
                        i == 0                ? ""
                        : split && i % 3 == 0 ? "]},{\"role\":\"assistant\","
                                                "\"parts\":["
                                              : ",",
                        text);
    }

    chat_buf_puts(&body,
                  ",{\"type\":\"tool-f\",\"toolCallId\":\"a\",\"state\":"
                  "\"output-available\",\"input\":{},\"output\":1}]}]}");
    chat_buf_add(&body, chat_str("", 1));
    sign("/api/chat", (char *) body.data, 7, &rq);
    memcpy(signature, rq.signature, 16);
    chat_arena_reset(arena);
    chat_buf_free(&body);
}


static void
s110_each_part_of_a_long_message_is_compared(void **state)
{
    unsigned char want[16], other[16];
    char          letters[] = "aaaaaaa", *letter;

    sign_parts(letters, 0, want);
    sign_parts(letters, 1, other);
    assert_memory_equal(other, want, 16);

    for (letter = letters; *letter != '\0'; letter++) {
        *letter = 'b';
        sign_parts(letters, 0, other);
        assert_memory_not_equal(other, want, 16);
        *letter = 'a';
    }
}


/* Another page may lack it, whatever is hashed before it. */
static void
a_message_that_says_nothing_leaves_no_trace(void **state)
{
    int  tools;
    char body[2 * CHAT_TRANSCRIPT_TEXT], more[2 * CHAT_TRANSCRIPT_TEXT];

    static const char says[] = "{\"role\":\"user\",\"content\":\"hi\"},"
                               "{\"role\":\"assistant\",\"toolCalls\":["
                               "{\"id\":\"a\",\"function\":{\"name\":\"f\","
                               "\"arguments\":\"{}\"}}]},{\"role\":\"tool\","
                               "\"toolCallId\":\"a\",\"content\":\"1\"}]}";
    static const char format[] = "{\"threadId\":\"t\",\"runId\":\"r\","
                                 "\"context\":[],\"tools\":[\"%0*d\"],"
                                 "\"messages\":[%s%s";

    for (tools = CHAT_TRANSCRIPT_TEXT - 150; tools < CHAT_TRANSCRIPT_TEXT + 50;
         tools++)
    {
        (void) snprintf(body, sizeof(body), format, tools, 0, "", says);
        (void) snprintf(more, sizeof(more), format, tools, 0,
                        "{\"role\":\"activity\"},", says);
        assert_true(is_signed_alike("/a", body, "/a", more));
    }
}


#define CALL(id) \
    "{'id':'" id \
    "','type':'function','function':{'name':'f','arguments':'{}'}}"
#define CALLS(calls) "{'id':'1','role':'assistant','toolCalls':[" calls "]}"


/* Signs a run behind these messages, in which ' stands for a quote. */
static void
sign_thread(const char *messages, unsigned char signature[16])
{
    char           body[1024], *p;
    chat_request_t rq;

    (void) snprintf(body, sizeof(body),
                    "{'threadId':'t','runId':'r','messages':[%s,"
                    "{'role':'user','content':'go'}," CALLS(
                        CALL("z")) ",{'role':'tool','toolCallId':'z'}]}",
                    messages);

    for (p = strchr(body, '\''); p != NULL; p = strchr(p, '\'')) {
        *p = '"';
    }

    sign("/a", body, 7, &rq);
    memcpy(signature, rq.signature, 16);
}


/* Texts before the NULL of a row say what its first does, no other does. */
static void
messages_of_a_thread_are_compared_by_what_they_say(void **state)
{
    int                      same;
    size_t                   i;
    unsigned char            want[16], other[16];
    const char *const       *text;
    static const char *const rows[][12] = {
        { "{'id':'1','role':'user','content':'a'}",
          "{'id':'2','role':'user','content':'a'}",
          "{'id':'1' ,'role':'user','content':'a'}",
          "{'id':'1','role':'user' ,'content':'a'}",
          "{'id':'1','role':'user','content': 'a'}",
          "{'role':'user','content':'\\u0061'}",
          "{'id':'1','role':'user','content':'a','x':'b'}", NULL,
          "{'id':'1','role':'tool','content':'a'}",
          "{'id':'1','role':'user','content':'b'}",
          "{'id':'1','role':'user','toolCallId':'b','content':'a'}" },
        { "{'id':'1','role':'tool','toolCallId':'a','content':'b'}",
          "{'id':'1','toolCallId':'a','role':'tool','content':'b'}",
          "{'id':'1','role':'tool','toolCallId':'a' ,'content':'b'}",
          "{'id':'1','role':'tool','toolCallId':'a','content':'b','error':''}",
          NULL, "{'id':'1','role':'tool','toolCallId':'b','content':'b'}",
          "{'id':'1','role':'tool','toolCallId':'a','content':'b','error':'c'"
          "}",
          "{'id':'1','role':'tool','toolCallId':'a','content':''}" },
        { CALLS(CALL("a") "," CALL("b")),
          CALLS(CALL("a")) "," CALLS(CALL("b")),
          CALLS(CALL("a") " , " CALL("b")),
          CALLS("{'id':'a' ,'type':'function','function':{'name':'f',"
                "'arguments':'{}'}}," CALL("b")),
          CALLS("{'id':'a','function':{'name':'f','arguments':'{}'},'x':1},"
                "{'function':{'arguments':'{}','name':'f'},'id':'b'}"),
          NULL, CALLS(CALL("a") "," CALL("c")),
          CALLS(CALL("a") ",{'id':'b','type':'function','function':"
                          "{'name':'g','arguments':'{}'}}"),
          CALLS(CALL("a") ",{'id':'b','type':'function','function':"
                          "{'name':'f','arguments':'[]'}}"),
          CALLS(CALL("a") "," CALL("b") "," CALL("c")) },
    };

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        sign_thread(rows[i][0], want);

        for (text = rows[i], same = 1; *text != NULL || same; text++) {
            same &= *text != NULL;

            if (*text != NULL) {
                sign_thread(*text, other);
                assert_int_equal(memcmp(other, want, 16) == 0, same);
            }
        }
    }
}


/* What a body's words take ends with its tree: the request may wait long. */
static void
words_of_any_form_take_no_memory_of_the_request(void **state)
{
    int             i;
    chat_rc_e       rc;
    chat_buf_t      body = { 0 };
    chat_arena_t   *kept = chat_arena_create(0);
    chat_request_t  rq = { .tenant = &test_tenant, .named = 1 };
    chat_json_doc_t tree;

    chat_buf_puts(&body, "{\"threadId\":\"t\",\"runId\":\"r\",\"messages\":"
                         "[{\"role\":\"user\",\"content\":[");
    for (i = 0; i < 1000; i++) {
        chat_buf_puts(&body, "{ },{\"\\/\":\"\\/\"},");
    }
    chat_buf_puts(&body, "{}]}]}");

    assert_int_equal(chat_json_parse(&tree, arena, chat_buf_str(&body)),
                     CHAT_OK);
    assert_ptr_equal(
        chat_dialect_request(NULL, chat_cstr("/"), &tree, kept, &rq, &rc),
        &chat_dialect_ag_ui);
    assert_non_null(rq.next.words);
    assert_true(chat_arena_used(kept) < 1000);

    chat_arena_destroy(kept);
    chat_buf_free(&body);
}


/* 1 if the dialect's event for this end of a stream contains the text. */
static int
says(const chat_dialect_t *dialect, const char *reason, const char *text)
{
    int                 found;
    chat_buf_t          out = { 0 };
    chat_interruption_t in = { .reason = reason };

    chat_dialect_interrupted(dialect, NULL, &in, &out);
    assert_false(out.failed);
    chat_buf_add(&out, chat_str("", 1));
    found = strstr((char *) out.data, text) != NULL;
    chat_buf_free(&out);
    return found;
}


static void
s113_providers_clients_read_words_that_agents_retry_on(void **state)
{
    size_t                i;
    const chat_dialect_t *dialect;

    for (i = 0; (dialect = chat_dialects[i]) != NULL; i++) {
        assert_true(says(dialect, "stall", "stream_interrupted"));
        assert_int_equal(dialect->provider,
                         says(dialect, "stall",
                              "\"Upstream connection error: the stream was "
                              "terminated before its end (stall)\""));
        assert_int_equal(dialect == &chat_dialect_anthropic,
                         says(dialect, "stall", "\"overloaded_error\""));

        /* a client requested this end, so no client may retry */
        assert_true(says(dialect, "stopped", "stopped"));
        assert_false(says(dialect, "stopped", "connection error"));
        assert_false(says(dialect, "stopped", "terminated"));
        assert_false(says(dialect, "stopped", "overloaded"));
    }
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dialects_are_found_by_name),
        cmocka_unit_test(paths_end_on_whole_segments),
        cmocka_unit_test(auto_goes_by_path_and_body),
        cmocka_unit_test(a_named_dialect_is_the_only_one),
        cmocka_unit_test(a_body_that_says_two_things_is_refused),
        cmocka_unit_test(s97_another_model_or_stream_is_another_signature),
        cmocka_unit_test(a_message_that_says_nothing_leaves_no_trace),
        cmocka_unit_test(messages_of_a_thread_are_compared_by_what_they_say),
        cmocka_unit_test(s110_transcripts_of_a_batch_are_compared_by_value),
        cmocka_unit_test(s110_each_message_is_compared_by_value),
        cmocka_unit_test(s110_each_part_of_a_long_message_is_compared),
        cmocka_unit_test(words_of_any_form_take_no_memory_of_the_request),
        cmocka_unit_test(
            s113_providers_clients_read_words_that_agents_retry_on),
    };

    return cmocka_run_group_tests(tests, arena_create, arena_destroy);
}
