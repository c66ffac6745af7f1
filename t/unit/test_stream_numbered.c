/*
 * test_stream_numbered.c: replays in the dialects with numbered calls.
 *
 * Dropped events, numbers without a gap, and the changed end of a stream
 * without a remaining call.
 */

#include "stream_run.h"

#define CHUNK(delta, reason)                                                  \
    "data: {\"id\":\"x1\",\"object\":\"chat.completion.chunk\","              \
    "\"choices\":[{\"index\":0,\"delta\":" delta ",\"finish_reason\":" reason \
    "}]}\n\n"
#define CALLS(list) CHUNK("{\"tool_calls\":[" list "]}", "null")
#define ENTRY(index, id, args)                                      \
    "{\"index\":" index ",\"id\":\"" id "\",\"type\":\"function\"," \
    "\"function\":{\"name\":\"find\",\"arguments\":\"" args "\"}}"
#define MORE(index, args) \
    "{\"index\":" index ",\"function\":{\"arguments\":\"" args "\"}}"
#define NO_INDEX(id, name, args)                                   \
    "{\"id\":\"" id "\",\"type\":\"function\",\"function\":{" name \
    "\"arguments\":\"" args "\"}}"
#define FIND "\"name\":\"find\","
#define DONE "data: [DONE]\n\n"
#define CHAT_BODY                                                             \
    "{\"model\":\"m\",\"stream\":true,\"messages\":["                         \
    "{\"role\":\"user\",\"content\":\"hi\"},"                                 \
    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":"       \
    "\"call_1bCdEfGh3456ijkl\",\"type\":\"function\",\"function\":{\"name\":" \
    "\"find\","                                                               \
    "\"arguments\":\"{\\\"q\\\":1}\"}}]},"                                    \
    "{\"role\":\"tool\",\"tool_call_id\":\"call_1bCdEfGh3456ijkl\","          \
    "\"content\":\"x\"}]}"

#define ITEM(id, args)                                                   \
    "{\"id\":\"fc_" id "\",\"type\":\"function_call\",\"call_id\":\"" id \
    "\",\"name\":\"find\",\"arguments\":\"" args "\",\"status\":\"x\"}"
#define ADDED(index, id)                                                  \
    "event: response.output_item.added\n"                                 \
    "data: {\"type\":\"response.output_item.added\",\"sequence_number\":" \
    "2,\"output_index\":" index ",\"item\":" ITEM(id, "") "}\n\n"
#define ITEM_DONE(index, id, args)                                       \
    "event: response.output_item.done\n"                                 \
    "data: {\"type\":\"response.output_item.done\",\"sequence_number\":" \
    "3,\"output_index\":" index ",\"item\":" ITEM(id, args) "}\n\n"
#define RESPONSE(type, output)                                          \
    "event: response." type "\ndata: {\"type\":\"response." type "\","  \
    "\"sequence_number\":4,\"response\":{\"id\":\"resp_1\",\"output\":" \
    "[" output "]}}\n\n"
#define RESPONSES_BODY                                             \
    "{\"model\":\"m\",\"stream\":true,\"store\":false,\"input\":[" \
    "{\"role\":\"user\",\"content\":\"hi\"}," ITEM(                \
        "call_1bCdEfGh3456ijkl",                                   \
        "{\\\"q\\\":1}") ",{\"type\":\"function_call_output\","    \
                         "\"call_id\":\"call_1bCdEfGh3456ijkl\","  \
                         "\"output\":\"x\"}]}"

#define BLOCK(index, block)                                                \
    "event: content_block_start\ndata: {\"type\":"                         \
    "\"content_block_start\",\"index\":" index ",\"content_block\":" block \
    "}\n\n"
#define USE(id)                                                               \
    "{\"type\":\"tool_use\",\"id\":\"" id "\",\"name\":\"find\",\"input\":{}" \
    "}"
#define BLOCK_DELTA(index, delta)                  \
    "event: content_block_delta\ndata: {\"type\":" \
    "\"content_block_delta\",\"index\":" index ",\"delta\":" delta "}\n\n"
#define ARGS(json) \
    "{\"type\":\"input_json_delta\",\"partial_json\":\"" json "\"}"
#define TEXT(text) "{\"type\":\"text_delta\",\"text\":\"" text "\"}"
#define BLOCK_STOP(index)                         \
    "event: content_block_stop\ndata: {\"type\":" \
    "\"content_block_stop\",\"index\":" index "}\n\n"
#define MESSAGE_START                                              \
    "event: message_start\ndata: {\"type\":\"message_start\","     \
    "\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":" \
    "\"assistant\",\"content\":[],\"stop_reason\":null}}\n\n"
#define MESSAGE_END(reason)                                              \
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":" \
    "{\"stop_reason\":\"" reason "\"}}\n\n"                              \
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
#define MESSAGES_BODY                                                        \
    "{\"model\":\"m\",\"stream\":true,\"max_tokens\":9,\"messages\":["       \
    "{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\","        \
    "\"content\":[{\"type\":\"tool_use\",\"id\":\"toolu_1bCdEfGh3456ijkl\"," \
    "\"name\":"                                                              \
    "\"find\",\"input\":{\"q\":1}}]},{\"role\":\"user\",\"content\":["       \
    "{\"type\":\"tool_result\",\"tool_use_id\":\"toolu_1bCdEfGh3456ijkl\","  \
    "\"content\":"                                                           \
    "\"x\"}]}]}"

#define Q1 "{\\\"q\\\":1}"
#define Q2 "{\\\"q\\\":2}"

static stream_t s;


static void
s17_one_chunk_with_a_replay_and_a_call(void **state)
{
    stream_begin(&s, "openai_chat", CHAT_BODY);
    stream_expect(&s,
                  CALLS(ENTRY("0", "call_1bCdEfGh3456ijkl",
                              Q1) "," ENTRY("1", "call_2bCdEfGh3456ijkl", Q2))
                      CHUNK("{}", "\"tool_calls\"") DONE,
                  CALLS(ENTRY("0", "call_2bCdEfGh3456ijkl", Q2))
                      CHUNK("{}", "\"tool_calls\"") DONE);
    assert_int_equal(s.count.replays, 1);
    assert_int_equal(s.info.calls, 1);

    stream_expect(
        &s,
        CALLS(ENTRY("0", "call_1bCdEfGh3456ijkl", "{"))
            CALLS(MORE("0", "\\\"q\\\":1}"))
                CALLS(ENTRY("1", "call_2bCdEfGh3456ijkl", "{"))
                    CALLS(MORE("1", "}")) CHUNK("{}", "\"tool_calls\"") DONE,
        CALLS(ENTRY("0", "call_2bCdEfGh3456ijkl", "{")) CALLS(MORE("0", "}"))
            CHUNK("{}", "\"tool_calls\"") DONE);
    stream_end(&s);
}


/* Some servers give every call the same index. */
static void
s17_a_replay_and_a_call_under_one_index(void **state)
{
    stream_begin(&s, "openai_chat", CHAT_BODY);
    stream_expect(&s,
                  CALLS(ENTRY("0", "call_1bCdEfGh3456ijkl", Q1))
                      CALLS(ENTRY("0", "call_2bCdEfGh3456ijkl", Q2))
                          CHUNK("{}", "\"tool_calls\"") DONE,
                  CALLS(ENTRY("0", "call_2bCdEfGh3456ijkl", Q2))
                      CHUNK("{}", "\"tool_calls\"") DONE);
    assert_int_equal(s.count.replays, 1);

    stream_expect(&s,
                  CALLS(ENTRY("0", "call_2bCdEfGh3456ijkl", Q2))
                      CALLS(ENTRY("0", "call_1bCdEfGh3456ijkl", Q1))
                          CHUNK("{}", "\"tool_calls\"") DONE,
                  CALLS(ENTRY("0", "call_2bCdEfGh3456ijkl", Q2))
                      CHUNK("{}", "\"tool_calls\"") DONE);
    stream_end(&s);
}


/* Some servers give no call an index. */
static void
calls_in_turns_without_an_index_pass(void **state)
{
    const char *text = CALLS(NO_INDEX("call_2bCdEfGh3456ijkl", FIND, "{"))
        CALLS(NO_INDEX("call_3bCdEfGh3456ijkl", FIND, "{"))
            CALLS(NO_INDEX("call_2bCdEfGh3456ijkl", "", "}"))
                CALLS(NO_INDEX("call_3bCdEfGh3456ijkl", "", "}"))
                    CHUNK("{}", "\"tool_calls\"") DONE;

    stream_begin(&s, "openai_chat", CHAT_BODY);
    stream_expect(&s, text, text);
    assert_int_equal(s.info.calls, 2);
    assert_int_equal(s.count.replays, 0);
    assert_int_equal(stream_facts(&s, "seal=2"), 1);
    stream_end(&s);
}


/* A call is complete in the frame that opens the next one. */
static void
replays_in_a_row_are_bounded_one_by_one(void **state)
{
    stream_begin(
        &s, "openai_chat",
        "{\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":"
        "\"hi\"},{\"role\":\"assistant\",\"tool_calls\":[" ENTRY(
            "0", "call_1bCdEfGh3456ijkl",
            Q1) "," ENTRY("1", "call_2bCdEfGh3456ijkl",
                          Q1) "," ENTRY("2", "call_3bCdEfGh3456ijkl",
                                        Q1) "]}]}");
    s.conf.max_event = 750;
    stream_expect(
        &s,
        CALLS(ENTRY("0", "call_1bCdEfGh3456ijkl", "")) CALLS(MORE("0", Q1))
            CALLS(ENTRY("1", "call_2bCdEfGh3456ijkl", "")) CALLS(MORE("1", Q1))
                CALLS(ENTRY("2", "call_3bCdEfGh3456ijkl", ""))
                    CALLS(MORE("2", Q1)) CHUNK("{}", "\"tool_calls\"") DONE,
        CHUNK("{}", "\"stop\"") DONE);
    assert_int_equal(s.count.replays, 3);
    assert_int_equal(s.info.overflows, 0);
    stream_end(&s);
}


/* Some servers end a choice with each of its calls. */
static void
a_call_behind_an_end_is_complete_at_the_next(void **state)
{
    const char *text = CALLS(ENTRY("0", "call_2bCdEfGh3456ijkl", Q1))
        CHUNK("{}", "\"tool_calls\"")
            CALLS(ENTRY("1", "call_1bCdEfGh3456ijkl", Q2))
                CHUNK("{}", "\"tool_calls\"") DONE;

    stream_begin(&s, "openai_chat", CHAT_BODY);
    stream_expect(&s, text, text);
    assert_int_equal(s.count.reused, 1);
    stream_end(&s);
}


static void
s18_all_calls_are_replays(void **state)
{
    stream_begin(&s, "openai_chat", CHAT_BODY);
    stream_expect(&s,
                  CALLS(ENTRY("0", "call_1bCdEfGh3456ijkl", Q1))
                      CHUNK("{}", "\"tool_calls\"") DONE,
                  CHUNK("{}", "\"stop\"") DONE);
    assert_int_equal(s.count.replays, 1);
    stream_end(&s);

    stream_begin(&s, "anthropic", MESSAGES_BODY);
    stream_expect(&s,
                  MESSAGE_START BLOCK("0", USE("toolu_1bCdEfGh3456ijkl"))
                      BLOCK_DELTA("0", ARGS(Q1)) BLOCK_STOP("0")
                          MESSAGE_END("tool_use"),
                  MESSAGE_START MESSAGE_END("end_turn"));
    assert_int_equal(s.count.replays, 1);
    stream_end(&s);
}


static void
s19_a_replayed_item(void **state)
{
    stream_begin(&s, "openai_responses", RESPONSES_BODY);
    stream_expect(
        &s,
        RESPONSE("created", "") ADDED("0", "call_1bCdEfGh3456ijkl")
            ADDED("1", "call_2bCdEfGh3456ijkl")
                ITEM_DONE("0", "call_1bCdEfGh3456ijkl", Q1)
                    ITEM_DONE("1", "call_2bCdEfGh3456ijkl", Q2)
                        RESPONSE("completed",
                                 ITEM("call_1bCdEfGh3456ijkl", Q1) "," ITEM(
                                     "call_2bCdEfGh3456ijkl", Q2)),
        RESPONSE("created", "") ADDED("0", "call_2bCdEfGh3456ijkl")
            ITEM_DONE("0", "call_2bCdEfGh3456ijkl", Q2)
                RESPONSE("completed", ITEM("call_2bCdEfGh3456ijkl", Q2)));
    assert_int_equal(s.count.replays, 1);
    assert_int_equal(stream_facts(&s, "call/call_2bCdEfGh3456ijkl="), 1);
    assert_int_equal(stream_facts(&s, "call/call_1bCdEfGh3456ijkl="), 0);
    stream_end(&s);
}


static void
s20_a_replayed_block_in_the_middle(void **state)
{
    stream_begin(&s, "anthropic", MESSAGES_BODY);
    stream_expect(
        &s,
        MESSAGE_START BLOCK("0", "{\"type\":\"text\",\"text\":\"\"}")
            BLOCK_DELTA("0", TEXT("a")) BLOCK_STOP("0") BLOCK(
                "1", USE("toolu_1bCdEfGh3456ijkl")) BLOCK_DELTA("1", ARGS(Q1))
                BLOCK_STOP("1") BLOCK("2", USE("toolu_2bCdEfGh3456ijkl"))
                    BLOCK_DELTA("2", ARGS("{")) BLOCK_DELTA("2", ARGS("}"))
                        BLOCK_STOP("2") MESSAGE_END("tool_use"),
        MESSAGE_START BLOCK("0", "{\"type\":\"text\",\"text\":\"\"}")
            BLOCK_DELTA("0", TEXT("a")) BLOCK_STOP("0")
                BLOCK("1", USE("toolu_2bCdEfGh3456ijkl"))
                    BLOCK_DELTA("1", ARGS("{")) BLOCK_DELTA("1", ARGS("}"))
                        BLOCK_STOP("1") MESSAGE_END("tool_use"));
    stream_end(&s);

    /* An id with other arguments is a new call: no number changes. */
    stream_begin(&s, "anthropic", MESSAGES_BODY);
    stream_expect(&s,
                  MESSAGE_START BLOCK("0", USE("toolu_1bCdEfGh3456ijkl"))
                      BLOCK_DELTA("0", ARGS(Q2)) BLOCK_STOP("0")
                          MESSAGE_END("tool_use"),
                  MESSAGE_START BLOCK("0", USE("toolu_1bCdEfGh3456ijkl"))
                      BLOCK_DELTA("0", ARGS(Q2)) BLOCK_STOP("0")
                          MESSAGE_END("tool_use"));
    assert_int_equal(s.count.reused, 1);
    stream_end(&s);
}


/* Text after a dropped block is renumbered, too. */
static void
s20_text_behind_a_replayed_block(void **state)
{
    stream_begin(&s, "anthropic", MESSAGES_BODY);
    stream_expect(&s,
                  MESSAGE_START BLOCK("0", USE("toolu_1bCdEfGh3456ijkl"))
                      BLOCK_DELTA("0", ARGS(Q1)) BLOCK_STOP("0")
                          BLOCK("1", "{\"type\":\"text\",\"text\":\"\"}")
                              BLOCK_DELTA("1", TEXT("a")) BLOCK_STOP("1")
                                  MESSAGE_END("end_turn"),
                  MESSAGE_START BLOCK("0", "{\"type\":\"text\",\"text\":\"\"}")
                      BLOCK_DELTA("0", TEXT("a")) BLOCK_STOP("0")
                          MESSAGE_END("end_turn"));
    stream_end(&s);
}


/* Kimi and others restart the numbers of calls in each step. */
static void
s14_a_used_id_with_other_arguments_is_a_new_call(void **state)
{
    const char *text;

    text = CALLS(ENTRY("0", "call_1bCdEfGh3456ijkl", Q2) "," ENTRY(
        "1", "call_2bCdEfGh3456ijkl", Q1)) CHUNK("{}", "\"tool_calls\"") DONE;
    stream_begin(&s, "openai_chat", CHAT_BODY);
    stream_expect(&s, text, text);
    assert_int_equal(s.count.reused, 1);
    assert_int_equal(s.info.calls, 2);
    stream_end(&s);

    text = RESPONSE("created", "") ADDED("0", "call_1bCdEfGh3456ijkl")
        ITEM_DONE("0", "call_1bCdEfGh3456ijkl", Q2)
            RESPONSE("completed", ITEM("call_1bCdEfGh3456ijkl", Q2));
    stream_begin(&s, "openai_responses", RESPONSES_BODY);
    stream_expect(&s, text, text);
    assert_int_equal(s.count.reused, 1);
    stream_end(&s);

    text = MESSAGE_START BLOCK("0", USE("toolu_1bCdEfGh3456ijkl"))
        BLOCK_DELTA("0", ARGS(Q2)) BLOCK_STOP("0") MESSAGE_END("tool_use");
    stream_begin(&s, "anthropic", MESSAGES_BODY);
    stream_expect(&s, text, text);
    assert_int_equal(s.count.reused, 1);
    assert_int_equal(stream_facts(&s, "call/toolu_1bCdEfGh3456ijkl=0 "), 1);
    stream_end(&s);
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(s17_one_chunk_with_a_replay_and_a_call),
        cmocka_unit_test(s17_a_replay_and_a_call_under_one_index),
        cmocka_unit_test(calls_in_turns_without_an_index_pass),
        cmocka_unit_test(replays_in_a_row_are_bounded_one_by_one),
        cmocka_unit_test(a_call_behind_an_end_is_complete_at_the_next),
        cmocka_unit_test(s18_all_calls_are_replays),
        cmocka_unit_test(s19_a_replayed_item),
        cmocka_unit_test(s20_a_replayed_block_in_the_middle),
        cmocka_unit_test(s20_text_behind_a_replayed_block),
        cmocka_unit_test(s14_a_used_id_with_other_arguments_is_a_new_call),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
