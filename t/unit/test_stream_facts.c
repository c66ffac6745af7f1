/*
 * test_stream_facts.c: the facts that a stream puts about its calls.
 *
 * They must be under the batch name that the next request uses: the test reads
 * that request's body, too, and looks for its batch's name.
 */

#include "stream_run.h"
#include "facts/chat_conversation.h"
#include "../buf_printf.h"

#define UI_START "data: {\"type\":\"start\",\"messageId\":\"m2\"}\n\n"
#define UI_STEP "data: {\"type\":\"start-step\"}\n\n"
#define UI_SEAL "data: {\"type\":\"finish-step\"}\n\n"
#define UI_FINISH "data: {\"type\":\"finish\"}\n\n"
#define UI_CALL(id, more)                                           \
    "data: {\"type\":\"tool-input-available\",\"toolCallId\":\"" id \
    "\",\"toolName\":\"find\",\"input\":{}" more "}\n\n"
#define UI_OUTPUT(id)                                                \
    "data: {\"type\":\"tool-output-available\",\"toolCallId\":\"" id \
    "\",\"output\":{\"x\":1}}\n\n"
#define UI_PART(id, state)                                            \
    "{\"type\":\"tool-find\",\"toolCallId\":\"" id "\",\"input\":{}," \
    "\"state\":\"" state "\"}"
#define UI_USER                                                       \
    "{\"id\":\"u1\",\"role\":\"user\",\"parts\":[{\"type\":\"text\"," \
    "\"text\":\"hi\"}]}"
#define UI_BODY(messages)                                                     \
    "{\"id\":\"talk\",\"trigger\":\"submit-message\",\"messages\":[" messages \
    "]}"
#define UI_ANSWER(parts) \
    "{\"id\":\"m2\",\"role\":\"assistant\",\"parts\":[" parts "]}"
#define UI_OK(id)                                                     \
    "{\"type\":\"tool-find\",\"toolCallId\":\"" id "\",\"input\":{}," \
    "\"state\":\"output-available\",\"output\":1}"
#define UI_STEP_PART "{\"type\":\"step-start\"}"

#define ITEM(id)                                                    \
    "{\"id\":\"fc_1\",\"type\":\"function_call\",\"call_id\":\"" id \
    "\",\"name\":\"find\",\"arguments\":\"{}\",\"status\":\"completed\"}"
#define ADDED(index, id)                                                     \
    "data: {\"type\":\"response.output_item.added\",\"output_index\":" index \
    ",\"item\":" ITEM(id) "}\n\n"
#define ITEM_DONE(index, id)                                                \
    "data: {\"type\":\"response.output_item.done\",\"output_index\":" index \
    ",\"item\":" ITEM(id) "}\n\n"
#define CREATED                                                             \
    "data: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\"," \
    "\"output\":[]}}\n\n"
#define COMPLETED(output)                                                     \
    "data: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\"," \
    "\"output\":[" output "]}}\n\n"
#define ANSWER(id)                                               \
    "{\"type\":\"function_call_output\",\"call_id\":\"" id "\"," \
    "\"output\":\"x\"}"
#define HELLO "{\"role\":\"user\",\"content\":\"hi\"}"
#define RESPONSES_BODY(head, input) \
    "{\"model\":\"m\",\"stream\":true," head "\"input\":[" input "]}"

#define CHUNK(delta, reason)                                                  \
    "data: {\"id\":\"x1\",\"object\":\"chat.completion.chunk\","              \
    "\"choices\":[{\"index\":0,\"delta\":" delta ",\"finish_reason\":" reason \
    "}]}\n\n"
#define FUNCTION(id)                                                  \
    "\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":" \
    "\"find\",\"arguments\":\"{}\"}}"

#define USE(id)                                                               \
    "{\"type\":\"tool_use\",\"id\":\"" id "\",\"name\":\"find\",\"input\":{}" \
    "}"
#define BLOCK(index, id)                                       \
    "data: {\"type\":\"content_block_start\",\"index\":" index \
    ",\"content_block\":" USE(                                 \
        id) "}\n\n"                                            \
            "data: {\"type\":\"content_block_stop\",\"index\":" index "}\n\n"

static stream_t s;


/* 1 if the batch of the next request's body has this fact. */
static int
is_asked_for(const char *dialect, const char *body, const char *fact)
{
    int        found;
    char       hex[9];
    stream_t   next;
    chat_key_t key;
    chat_buf_t line = { 0 };

    stream_begin(&next, dialect, body);
    assert_true(next.rq.nsteps > 0);
    assert_int_equal(chat_batch_key(&next.conf.scope,
                                    &next.rq.steps[next.rq.nsteps - 1], &key),
                     CHAT_OK);
    chat_hex(key.name.bytes, 4, hex);
    chat_buf_printf(&line, "%s %s", hex, fact);
    chat_buf_add(&line, chat_str("", 1));
    found = strstr(s.facts, (char *) line.data) != NULL;
    chat_buf_free(&line);
    stream_end(&next);
    return found;
}


static void
run(const char *text)
{
    stream_all(&s, text, strlen(text));
}


static void
a_step_of_the_ai_sdk(void **state)
{
    const char *next = UI_BODY(UI_USER "," UI_ANSWER(UI_STEP_PART "," UI_OK(
        "c0") "," UI_STEP_PART
              "," UI_OK("c1") "," UI_PART("c2", "input-available")));

    stream_begin(&s, "ai_sdk", UI_BODY(UI_USER));
    run(UI_START UI_STEP    UI_CALL("c0", "") UI_OUTPUT("c0")
            UI_SEAL UI_STEP UI_CALL("c1", "") UI_CALL("c2", "")
                UI_SEAL     UI_FINISH);
    assert_true(is_asked_for("ai_sdk", next, "open=w1\n"));
    assert_true(is_asked_for("ai_sdk", next, "call/c1=0 c "));
    assert_true(is_asked_for("ai_sdk", next, "call/c2=1 c "));
    assert_true(is_asked_for("ai_sdk", next, "seal=2\n"));
    assert_false(is_asked_for("ai_sdk", next, "call/c0="));
    assert_int_equal(stream_facts(&s, "broken="), 0);
    assert_int_equal(s.info.calls, 2);
    stream_end(&s);

    /* A continuation keeps the message and its id. */
    next = UI_BODY(UI_USER "," UI_ANSWER(
        UI_STEP_PART "," UI_OK("c0") "," UI_STEP_PART "," UI_OK("c1")));
    stream_begin(&s, "ai_sdk",
                 UI_BODY(UI_USER "," UI_ANSWER(UI_STEP_PART "," UI_OK("c0"))));
    run(UI_START UI_STEP UI_CALL("c1", "") UI_SEAL UI_FINISH);
    assert_true(is_asked_for("ai_sdk", next, "seal=1\n"));
    run("data: {\"type\":\"start\"}\n\n" UI_STEP UI_CALL("c1", "")
            UI_SEAL                              UI_FINISH);
    assert_true(is_asked_for("ai_sdk", next, "seal=1\n"));
    stream_end(&s);
}


/* A seal counts each call once, and the calls behind it are not its own. */
static void
a_seal_ends_a_step(void **state)
{
    const char *next =
        UI_BODY(UI_USER "," UI_ANSWER(UI_STEP_PART "," UI_OK("c1")));

    stream_begin(&s, "ai_sdk", UI_BODY(UI_USER));
    run(UI_START UI_STEP UI_CALL("c1", "") UI_SEAL UI_CALL("c2", "")
            UI_SEAL                                UI_FINISH);
    assert_true(is_asked_for("ai_sdk", next, "seal=1\n"));
    assert_false(is_asked_for("ai_sdk", next, "call/c2="));

    s.conf.replay = 0;
    run(UI_START UI_STEP UI_CALL("c1", "") UI_CALL("c1", "")
            UI_SEAL      UI_FINISH);
    assert_true(is_asked_for("ai_sdk", next, "seal=1\n"));
    stream_end(&s);
}


static void
s46_a_step_of_openai_chat(void **state)
{
#define CHAT_HELLO "{\"role\":\"user\",\"content\":\"hi\"}"
    const char *next =
        "{\"model\":\"m\",\"messages\":[" CHAT_HELLO ",{\"role\":"
        "\"assistant\",\"tool_calls\":[{" FUNCTION("call_1") ",{" FUNCTION(
            "call_2") "]},{\"role\":\"tool\",\"tool_call_id\":\"call_1\","
                      "\"content\":\"x\"}]}";

    stream_begin(&s, "openai_chat",
                 "{\"model\":\"m\",\"stream\":true,\"messages\":[" CHAT_HELLO
                 "]}");
    run(CHUNK("{\"tool_calls\":[{\"index\":0," FUNCTION("call_1") "]}", "null")
            CHUNK("{\"tool_calls\":[{\"index\":1," FUNCTION("call_2") "]}",
                  "null") CHUNK("{}", "\"tool_calls\""));
    assert_true(is_asked_for("openai_chat", next, "call/call_1=0 c "));
    assert_true(is_asked_for("openai_chat", next, "call/call_2=1 c "));
    assert_true(is_asked_for("openai_chat", next, "seal=2\n"));
    stream_end(&s);
}


/* The fact of call_1, up to the end of its line. */
static void
first_call(char *out, size_t size)
{
    const char *fact = strstr(s.facts, "call/call_1=");

    assert_non_null(fact);
    assert_true(strcspn(fact, "\n") < size);
    memcpy(out, fact, strcspn(fact, "\n"));
    out[strcspn(fact, "\n")] = '\0';
}


static void
a_name_may_come_after_the_id(void **state)
{
    char        whole[200], late[200];
    const char *body = "{\"stream\":true,\"messages\":[" HELLO "]}";

    stream_begin(&s, "openai_chat", body);
    run(CHUNK("{\"tool_calls\":[{\"index\":0," FUNCTION("call_1") "]}", "null")
            CHUNK("{}", "\"tool_calls\""));
    first_call(whole, sizeof(whole));
    stream_end(&s);

    stream_begin(&s, "openai_chat", body);
    run(CHUNK("{\"tool_calls\":[{\"index\":0,\"id\":\"call_1\","
              "\"function\":{\"arguments\":\"\"}}]}",
              "null")
            CHUNK("{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":"
                  "\"find\",\"arguments\":\"{}\"}}]}",
                  "null") CHUNK("{}", "\"tool_calls\""));
    first_call(late, sizeof(late));
    stream_end(&s);

    assert_string_equal(late, whole);
}


static void
s47_a_chain_is_open_before_its_calls_are_known(void **state)
{
    const char *chained = RESPONSES_BODY(
        "\"previous_response_id\":\"resp_1\",", ANSWER("call_1"));
    const char *whole = RESPONSES_BODY(
        "\"store\":false,", HELLO "," ITEM("call_1") "," ANSWER("call_1"));

    stream_begin(&s, "openai_responses", RESPONSES_BODY("", HELLO));
    run(CREATED ADDED("0", "call_1"));
    assert_true(is_asked_for("openai_responses", chained, "open=w1\n"));
    assert_true(is_asked_for("openai_responses", chained, "broken=1\n"));
    assert_int_equal(stream_facts(&s, "call/"), 0);

    run(CREATED ADDED("0", "call_1") ITEM_DONE("0", "call_1")
            COMPLETED(ITEM("call_1")));
    assert_true(is_asked_for("openai_responses", chained, "call/call_1=0 c "));
    assert_true(is_asked_for("openai_responses", chained, "seal=1\n"));
    assert_true(is_asked_for("openai_responses", whole, "call/call_1=0 c "));
    assert_true(is_asked_for("openai_responses", whole, "seal=1\n"));
    assert_int_equal(stream_facts(&s, "broken="), 0);
    stream_end(&s);

    stream_begin(&s, "openai_responses",
                 RESPONSES_BODY("\"store\":false,", HELLO));
    run(CREATED ADDED("0", "call_1") ITEM_DONE("0", "call_1")
            COMPLETED(ITEM("call_1")));
    assert_false(is_asked_for("openai_responses", chained, "open="));
    assert_true(is_asked_for("openai_responses", whole, "seal=1\n"));
    stream_end(&s);
}


/* The index names the batch by the response's own id, then by its call. */
static void
a_conversation_has_a_record_of_its_steps(void **state)
{
    char        name[2 * CHAT_DIGEST_SIZE + 1];
    char        other[2 * CHAT_DIGEST_SIZE + 1], hex[9], entry[256];
    size_t      i;
    chat_key_t  key;
    chat_step_t step;

    static const char *const bodies[] = {
        RESPONSES_BODY("\"conversation\":\"talk\",", HELLO),
        RESPONSES_BODY("\"conversation\":{\"id\":\"talk\"},", ANSWER("c")),
        RESPONSES_BODY("", HELLO),
        RESPONSES_BODY("\"previous_response_id\":\"resp_0\",", HELLO),
    };

    for (i = 0; i < 4; i++) {
        stream_begin(&s, "openai_responses", bodies[i]);
        s.conf.began = 1700000000000;
        run(CREATED ADDED("0", "call_1") ITEM_DONE("0", "call_1")
                COMPLETED(ITEM("call_1")));
        assert_int_equal(stream_facts(&s, "batch/"), 1);

        memset(&step, 0, sizeof(step));
        step.chain = chat_cstr("resp_1");
        assert_int_equal(chat_batch_key(&s.conf.scope, &step, &key), CHAT_OK);
        chat_hex(key.name.bytes, CHAT_DIGEST_SIZE, name);

        memset(&step, 0, sizeof(step));
        step = s.rq.next;
        step.chain = chat_cstr("");
        step.first_id = chat_cstr("call_1");
        assert_int_equal(chat_batch_key(&s.conf.scope, &step, &key), CHAT_OK);
        chat_hex(key.name.bytes, CHAT_DIGEST_SIZE, other);

        assert_int_equal(chat_conversation_index_key(&s.conf.scope, &key),
                         CHAT_OK);
        chat_hex(key.name.bytes, 4, hex);
        (void) snprintf(entry, sizeof(entry),
                        "%s batch/1700000000000-%s=openai_responses %s\n", hex,
                        name, other);
        assert_non_null(strstr(s.facts, entry));
        stream_end(&s);
    }

    /* no call, no batch */
    stream_begin(&s, "openai_responses", bodies[0]);
    run(CREATED COMPLETED(""));
    assert_int_equal(stream_facts(&s, "batch/"), 0);
    stream_end(&s);
}


static void
the_id_of_a_complete_call_counts(void **state)
{
    const char *whole = RESPONSES_BODY(
        "\"store\":false,", HELLO "," ITEM("call_2") "," ANSWER("call_2"));
    const char *chained = RESPONSES_BODY(
        "\"previous_response_id\":\"resp_1\",", ANSWER("call_2"));

    stream_begin(&s, "openai_responses", RESPONSES_BODY("", HELLO));
    run(CREATED ADDED("0", "call_1") ITEM_DONE("0", "call_2")
            COMPLETED(ITEM("call_2")));
    assert_true(is_asked_for("openai_responses", whole, "call/call_2=0 c "));
    assert_true(is_asked_for("openai_responses", whole, "open=w1\n"));
    assert_true(is_asked_for("openai_responses", whole, "seal=1\n"));
    assert_true(is_asked_for("openai_responses", chained, "seal=1\n"));
    assert_false(is_asked_for("openai_responses", chained, "broken="));
    assert_int_equal(stream_facts(&s, "call/call_1"), 0);
    assert_int_equal(stream_facts(&s, "broken="), 1);
    stream_end(&s);
}


static void
a_step_of_anthropic(void **state)
{
    const char *next =
        "{\"model\":\"m\",\"max_tokens\":9,\"messages\":[" HELLO ",{\"role\":"
        "\"assistant\",\"content\":[" USE("toolu_1") "," USE(
            "toolu_2") "]},{\"role\":\"user\",\"content\":[{\"type\":\"tool_"
                       "result\","
                       "\"tool_use_id\":\"toolu_1\",\"content\":\"x\"}]}]}";

    stream_begin(&s, "anthropic",
                 "{\"model\":\"m\",\"max_tokens\":9,\"messages\":[" HELLO
                 "]}");
    run("data: "
        "{\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\"}}"
        "\n\n" BLOCK("0", "toolu_1")
            BLOCK("1", "toolu_2") "data: "
                                  "{\"type\":\"message_delta\",\"delta\":{"
                                  "\"stop_reason\":"
                                  "\"tool_use\"}}\n\ndata: "
                                  "{\"type\":\"message_stop\"}\n\n");
    assert_true(is_asked_for("anthropic", next, "call/toolu_1=0 c "));
    assert_true(is_asked_for("anthropic", next, "call/toolu_2=1 c "));
    assert_true(is_asked_for("anthropic", next, "seal=2\n"));
    stream_end(&s);
}


static void
s43_a_provider_call_is_no_member_but_names_the_step(void **state)
{
    const char *next = UI_BODY(UI_USER "," UI_ANSWER(
        UI_STEP_PART
        ",{\"type\":\"tool-find\",\"toolCallId\":\"p1\",\"input\":{},"
        "\"state\":\"output-available\",\"output\":1,"
        "\"providerExecuted\":true}," UI_OK("c1")));

    stream_begin(&s, "ai_sdk", UI_BODY(UI_USER));
    run(UI_START UI_STEP UI_CALL("p1", ",\"providerExecuted\":true")
            UI_OUTPUT("p1") UI_CALL("c1", "") UI_SEAL UI_FINISH);
    assert_true(is_asked_for("ai_sdk", next, "call/c1=1 c "));
    assert_true(is_asked_for("ai_sdk", next, "seal=1\n"));
    assert_int_equal(stream_facts(&s, "call/p1"), 0);
    assert_int_equal(stream_facts(&s, "result/p1"), 0);
    assert_int_equal(s.info.settled, 1);
    stream_end(&s);
}


static chat_kind_e
is_providers(void *data, chat_str_t name, chat_kind_e kind)
{
    return chat_str_is(name, "find") ? CHAT_KIND_PROVIDER : kind;
}


static void
chat_tool_decides_which_calls_are_members(void **state)
{
    stream_begin(&s, "ai_sdk", UI_BODY(UI_USER));
    s.conf.kind = is_providers;
    run(UI_START UI_STEP UI_CALL("c1", "") UI_SEAL UI_FINISH);
    assert_string_equal(s.facts, "");
    assert_int_equal(s.info.calls, 1);
    stream_end(&s);
}


static void
s99_an_output_of_an_earlier_call(void **state)
{
    chat_buf_t  answered = { 0 };
    chat_hash_t fingerprint;
    const char *body = UI_BODY(UI_USER "," UI_ANSWER(
        UI_STEP_PART
        ",{\"type\":\"tool-find\",\"toolCallId\":\"c1\",\"input\":{},"
        "\"state\":\"approval-responded\",\"approval\":{\"id\":\"ap1\","
        "\"approved\":true}}"));

    stream_begin(&s, "ai_sdk", body);
    run(UI_START UI_OUTPUT("c1") UI_STEP UI_SEAL UI_FINISH);
    assert_true(is_asked_for("ai_sdk", body, "result/c1=o "));
    assert_non_null(strstr(s.facts, " {\"x\":1}\n"));

    /* of the call with these arguments */
    assert_int_equal(chat_fingerprint(&test_tenant, chat_cstr("find"),
                                      chat_cstr("{}"), chat_arena_scratch(),
                                      &fingerprint),
                     CHAT_OK);
    stream_show(&answered, chat_str(fingerprint.bytes, 16));
    chat_buf_add(&answered, chat_str("", 1));
    assert_non_null(strstr(s.facts, (char *) answered.data));
    chat_buf_free(&answered);

    /* Too large to store: only the fact. */
    s.conf.max_result = 3;
    run(UI_START UI_OUTPUT("c1") UI_STEP UI_SEAL UI_FINISH);
    assert_true(is_asked_for("ai_sdk", body, "result/c1=o "));
    assert_null(strstr(s.facts, "{\"x\""));
    stream_end(&s);
}


static void
a_step_past_the_bound_is_taken_back(void **state)
{
    stream_begin(&s, "ai_sdk", UI_BODY(UI_USER));
    s.conf.max_calls = 2;
    run(UI_START UI_STEP UI_CALL("c1", "") UI_CALL("c2", "") UI_SEAL);
    assert_int_equal(stream_facts(&s, "seal=2"), 1);
    run(UI_START UI_STEP UI_CALL("c1", "") UI_CALL("c2", "") UI_CALL("c3", "")
            UI_SEAL      UI_FINISH);
    assert_int_equal(stream_facts(&s, "seal="), 0);
    assert_int_equal(stream_facts(&s, "broken=1"), 1);
    assert_int_equal(stream_facts(&s, "call/c3"), 0);
    assert_int_equal(s.info.calls, 3);
    stream_end(&s);
}


/* A step with such an id is unmanaged: no later request could name it. */
static void
an_id_past_the_bound_is_not_stored(void **state)
{
    size_t len;
    char   id[CHAT_ID_MAX + 2], text[4096];

    for (len = CHAT_ID_MAX; len <= CHAT_ID_MAX + 1; len++) {
        memset(id, 'x', len);
        id[len] = '\0';
        snprintf(
            text, sizeof(text),
            CHUNK("{\"tool_calls\":[{\"index\":0," FUNCTION("call_1") "]}",
                  "null")
                CHUNK("{\"tool_calls\":[{\"index\":1," FUNCTION("%s") "]}",
                      "null") CHUNK("{}", "\"tool_calls\""),
            id);

        stream_begin(&s, "openai_chat",
                     "{\"stream\":true,\"messages\":[" HELLO "]}");
        run(text);
        assert_int_equal(stream_facts(&s, "call/x"), len == CHAT_ID_MAX);
        assert_int_equal(stream_facts(&s, "seal="), len == CHAT_ID_MAX);
        assert_int_equal(stream_facts(&s, "broken=1"), len > CHAT_ID_MAX);
        stream_end(&s);
    }
}


static void
s57_an_interrupted_step_is_broken(void **state)
{
    stream_begin(&s, "ai_sdk", UI_BODY(UI_USER));
    run(UI_START UI_STEP UI_CALL("c1", ""));
    assert_int_equal(stream_facts(&s, "call/c1"), 1);
    assert_int_equal(stream_facts(&s, "broken=1"), 1);
    assert_int_equal(stream_facts(&s, "seal="), 0);
    stream_end(&s);
}


static void
s95_a_weak_id_without_a_conversation(void **state)
{
    stream_begin(&s, "ai_sdk", UI_BODY(UI_USER));
    s.conf.scope.conversation = chat_str(NULL, 0);
    run(UI_START UI_STEP UI_CALL("c1", "") UI_SEAL UI_FINISH);
    assert_string_equal(s.facts, "");
    stream_end(&s);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_of_the_ai_sdk),
        cmocka_unit_test(a_seal_ends_a_step),
        cmocka_unit_test(s46_a_step_of_openai_chat),
        cmocka_unit_test(a_name_may_come_after_the_id),
        cmocka_unit_test(s47_a_chain_is_open_before_its_calls_are_known),
        cmocka_unit_test(a_conversation_has_a_record_of_its_steps),
        cmocka_unit_test(the_id_of_a_complete_call_counts),
        cmocka_unit_test(a_step_of_anthropic),
        cmocka_unit_test(s43_a_provider_call_is_no_member_but_names_the_step),
        cmocka_unit_test(chat_tool_decides_which_calls_are_members),
        cmocka_unit_test(s99_an_output_of_an_earlier_call),
        cmocka_unit_test(a_step_past_the_bound_is_taken_back),
        cmocka_unit_test(an_id_past_the_bound_is_not_stored),
        cmocka_unit_test(s57_an_interrupted_step_is_broken),
        cmocka_unit_test(s95_a_weak_id_without_a_conversation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
