/*
 * fuzz_stream.c: the stream with any bytes, known calls and cuts.
 *
 * The first three bytes choose dialect, mode and cuts. In the rest, a byte of
 * 0x80 and above stands for a part of a frame, so that well-formed streams are
 * found soon, and the byte behind an ESCAPE for itself, so that there is any
 * UTF-8; all others are themselves. Properties: output, end, counters and
 * facts depend neither on the cuts nor on learnt forms; without drops and
 * numbers the output is the input; the output of an unnumbered dialect keeps
 * the order of the input.
 */

#include "stream/chat_stream.h"
#include "fuzz.h"
#include "../tenant.h"

/* The library's own chat_form is not linked. */
#define chat_forms_read forms_read
#include "stream/chat_form.c"
#undef chat_forms_read

#define CHUNK(delta, reason)                            \
    "data: {\"choices\":[{\"index\":0,\"delta\":" delta \
    ",\"finish_reason\":" reason "}]}\n\n"
#define ENTRY(index, id)                                            \
    CHUNK("{\"tool_calls\":[{\"index\":" index ",\"id\":\"" id      \
          "\",\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]}", \
          "null")
#define ARGS(index, args)                      \
    CHUNK("{\"tool_calls\":[{\"index\":" index \
          ",\"function\":{\"arguments\":"      \
          "\"" args "\"}}]}",                  \
          "null")
#define LOGPROBS(bytes) \
    ",\"logprobs\":[{\"token\":\"x\",\"logprob\":-1,\"bytes\":[" bytes "]}]"
#define UI(type, more) "data: {\"type\":\"" type "\"" more "}\n\n"
#define UI_CALL(type, id, more) \
    UI(type, ",\"toolCallId\":\"" id "\",\"toolName\":\"f\"" more)
#define ITEM(id, args)                                                 \
    "{\"type\":\"function_call\",\"id\":\"i" id "\",\"call_id\":\"" id \
    "\",\"name\":\"f\",\"arguments\":\"" args "\"}"
#define RESP(type, index, item)      \
    UI("response.output_item." type, \
       ",\"output_index\":" index ",\"item\":" item)
#define SEQUENCE(number)             \
    UI("response.output_text.delta", \
       ",\"sequence_number\":" number ",\"output_index\":3,\"delta\":\"y\"")

#define GEMINI(parts, rest)                                               \
    "data: "                                                              \
    "{\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[" parts \
    "]}" rest "}]}\n\n"
#define FUNCTION(id, rest)                                     \
    "{\"functionCall\":{\"id\":\"" id "\",\"name\":\"f\"" rest \
    "},\"thoughtSignature\":\"s\"}"
#define PIECE(rest) "{\"functionCall\":{" rest "}}"
#define MORE "\"willContinue\":true"
#define VALUE(path, value) \
    "\"partialArgs\":[{\"jsonPath\":\"" path "\"," value "}]"

#define RUN(type, more) UI(type, ",\"threadId\":\"t\",\"runId\":\"r\"" more)
#define TOOL(type, id, more) \
    UI("TOOL_CALL_" type, ",\"toolCallId\":\"" id "\"" more)
#define TOOL_NAME ",\"toolCallName\":\"f\""
#define OUTCOME(more) \
    ",\"outcome\":{\"type\":\"interrupt\",\"interrupts\":[" more "]}"
#define SNAPSHOT(messages) \
    UI("MESSAGES_SNAPSHOT", ",\"messages\":[" messages "]")
#define ASKED(id)                                          \
    "{\"role\":\"assistant\",\"toolCalls\":[{\"id\":\"" id \
    "\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}"
#define BROUGHT(id) \
    "{\"role\":\"tool\",\"toolCallId\":\"" id "\",\"content\":\"1\"}"

#define PARTS 32
#define ESCAPE 0x7f

/* Strong ids: provider dialects know no other replays. */
#define C1 "c1_0123456789abcdefghij"
#define C2 "c2_0123456789abcdefghij"
#define C3 "c3_0123456789abcdefghij"

/* In the order of chat_dialects. */
static const char *const parts[][PARTS] = {
    {
        UI("start", ",\"messageId\":\"m1\""),
        UI("start-step", ""),
        UI("finish-step", ""),
        UI("finish", ""),
        UI("error", ",\"errorText\":\"e\""),
        UI("abort", ""),
        UI("text-delta", ",\"id\":\"t\",\"delta\":\"x\""),
        UI_CALL("tool-input-start", C1, ""),
        UI_CALL("tool-input-start", C2, ""),
        UI_CALL("tool-input-start", C3, ""),
        UI_CALL("tool-input-delta", C1, ",\"inputTextDelta\":\"{\""),
        UI_CALL("tool-input-delta", C2, ",\"inputTextDelta\":\"{\""),
        UI_CALL("tool-input-delta", C3, ",\"inputTextDelta\":\"{\""),
        UI_CALL("tool-input-available", C1, ",\"input\":{\"q\":1}"),
        UI_CALL("tool-input-available", C2, ",\"input\":{\"q\":1}"),
        UI_CALL("tool-input-available", C3, ",\"input\":{\"q\":1}"),
        UI_CALL("tool-input-available", C1, ",\"input\":{}"),
        UI_CALL("tool-input-error", C1, ",\"input\":{\"q\":1}"),
        UI_CALL("tool-input-error", C2, ",\"input\":\"x\""),
        UI_CALL("tool-output-available", C1, ",\"output\":1"),
        UI_CALL("tool-output-available", C1, ",\"output\":2"),
        UI_CALL("tool-output-available", C2, ",\"output\":1"),
        UI_CALL("tool-output-error", C1, ",\"errorText\":\"e\""),
        UI_CALL("tool-output-denied", C2, ""),
        UI_CALL("tool-approval-request", C2, ",\"approvalId\":\"a\""),
        "data: [DONE]\n\n",
        ": c\n\n",
        "data: {",
    },
    {
        RUN("RUN_STARTED", ""),
        RUN("RUN_FINISHED", ""),
        RUN("RUN_FINISHED", OUTCOME("{\"id\":\"i1\"}")),
        RUN("RUN_FINISHED",
            OUTCOME("{\"id\":\"" C1 "\",\"toolCallId\":\"" C1 "\"}")),
        UI("RUN_ERROR", ",\"message\":\"e\""),
        UI("TEXT_MESSAGE_CONTENT", ",\"delta\":\"x\""),
        UI("TEXT_MESSAGE_CHUNK", ",\"delta\":\"x\""),
        TOOL("START", C1, TOOL_NAME),
        TOOL("START", C2, TOOL_NAME ",\"parentMessageId\":\"m\""),
        TOOL("START", C3, TOOL_NAME ",\"parentMessageId\":\"m\""),
        TOOL("ARGS", C1, ",\"delta\":\"{\\\"q\\\":1}\""),
        TOOL("ARGS", C2, ",\"delta\":\"{\\\"q\\\":1}\""),
        TOOL("ARGS", C3, ",\"delta\":\"{\""),
        TOOL("END", C1, ""),
        TOOL("END", C2, ""),
        TOOL("END", C3, ""),
        TOOL("RESULT", C1, ",\"content\":\"1\""),
        TOOL("RESULT", C2, ",\"content\":\"2\""),
        TOOL("RESULT", C3, ",\"content\":[]"),
        TOOL("CHUNK", C1, TOOL_NAME ",\"delta\":\"{\\\"q\\\":1}\""),
        TOOL("CHUNK", C2, TOOL_NAME),
        TOOL("CHUNK", C3, TOOL_NAME ",\"subagentRunId\":\"s\""),
        UI("TOOL_CALL_CHUNK", ",\"delta\":\"{\\\"q\\\":1}\""),
        UI("SUBAGENT_FINISHED", ",\"subagentRunId\":\"s\""),
        SNAPSHOT(ASKED(C1) "," BROUGHT(C1) "," ASKED(C3)),
        SNAPSHOT(ASKED(C2) "," BROUGHT(C2)),
        ": c\n\n",
        "data: {",
    },
    {
        UI("response.created", ",\"response\":{\"id\":\"r\",\"output\":[]}"),
        UI("response.completed", ",\"response\":{\"output\":[]}"),
        UI("response.completed",
           ",\"response\":{\"output\":[" ITEM(C1, "{\\\"q\\\":1}") "," ITEM(
               C3, "{}") "]}"),
        UI("response.failed", ",\"response\":{}"),
        UI("response.output_text.delta",
           ",\"output_index\":1,\"delta\":\"x\""),
        UI("error", ""),
        SEQUENCE("7"),
        SEQUENCE("8"),
        SEQUENCE("\"7\""),
        SEQUENCE("\"8\""),
        RESP("added", "0", ITEM(C1, "")),
        RESP("added", "0", ITEM(C2, "")),
        RESP("added", "1", ITEM(C1, "")),
        RESP("added", "1", ITEM(C3, "")),
        RESP("added", "2", ITEM(C2, "")),
        RESP("done", "0", ITEM(C1, "{\\\"q\\\":1}")),
        RESP("done", "0", ITEM(C2, "{\\\"q\\\":1}")),
        RESP("done", "1", ITEM(C1, "{\\\"q\\\":1}")),
        RESP("done", "1", ITEM(C3, "{}")),
        RESP("done", "2", ITEM(C2, "{\\\"q\\\":1}")),
        RESP("added", "2", "{\"type\":\"message\"}"),
        RESP("done", "2", "{\"type\":\"message\"}"),
        "data: [DONE]\n\n",
        ": c\n\n",
        UI("response.output_text.delta", LOGPROBS("120")),
        UI("response.output_text.delta", LOGPROBS("195, \"\\u00e9\"")),
        UI("response.output_text.delta", LOGPROBS("\"\\q\"")),
    },
    {
        CHUNK("{\"content\":\"x\"}", "null"),
        CHUNK("{}", "\"tool_calls\""),
        CHUNK("{}", "\"length\""),
        ENTRY("0", C1),
        ENTRY("0", C2),
        ENTRY("0", C3),
        ENTRY("1", C1),
        ENTRY("1", C2),
        ENTRY("1", C3),
        ENTRY("2", C3),
        ARGS("0", "{\\\"q\\\":1}"),
        ARGS("1", "{\\\"q\\\":1}"),
        ARGS("2", "{\\\"q\\\":1}"),
        ARGS("0", "{"),
        "data: [DONE]\n\n",
        ": c\n\n",
        "data: {\"error\":{}}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[",
        "{\"index\":0,\"id\":\"" C1 "\",\"function\":{\"name\":\"f\","
        "\"arguments\":\"{\\\"q\\\":1}\"}}",
        "{\"index\":1,\"id\":\"" C2 "\",\"function\":{\"name\":\"f\","
        "\"arguments\":\"{}\"}}",
        ",",
        "]}}]}\n\n",
        CHUNK("{\"content\":\"x\"}" LOGPROBS("120"), "null"),
        CHUNK("{\"content\":\"y\"}" LOGPROBS("195,169"), "null"),
    },
    {
        UI("message_start", ",\"message\":{\"id\":\"m\"}"),
        UI("message_stop", ""),
        UI("message_delta", ",\"delta\":{\"stop_reason\":\"tool_use\"}"),
        UI("error", ""),
        UI("ping", ""),
        UI("content_block_start",
           ",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":"
           "\"" C1 "\",\"name\":\"f\",\"input\":{}}"),
        UI("content_block_start",
           ",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":"
           "\"" C2 "\",\"name\":\"f\",\"input\":{}}"),
        UI("content_block_start",
           ",\"index\":2,\"content_block\":{\"type\":\"tool_use\",\"id\":"
           "\"" C3 "\",\"name\":\"f\",\"input\":{}}"),
        UI("content_block_start",
           ",\"index\":1,\"content_block\":{\"type\":\"text\"}"),
        UI("content_block_delta",
           ",\"index\":0,\"delta\":{\"type\":\"input_json_delta\","
           "\"partial_json\":\"{\\\"q\\\":1}\"}"),
        UI("content_block_delta",
           ",\"index\":1,\"delta\":{\"type\":\"input_json_delta\","
           "\"partial_json\":\"{\\\"q\\\":1}\"}"),
        UI("content_block_delta",
           ",\"index\":2,\"delta\":{\"type\":\"input_json_delta\","
           "\"partial_json\":\"{}\"}"),
        UI("content_block_delta",
           ",\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}"),
        UI("content_block_stop", ",\"index\":0"),
        UI("content_block_stop", ",\"index\":1"),
        UI("content_block_stop", ",\"index\":2"),
        ": c\n\n",
    },
    {
        GEMINI("{\"text\":\"x\"}", ""),
        GEMINI("", ",\"finishReason\":\"STOP\""),
        GEMINI("", ",\"finishReason\":\"MAX_TOKENS\""),
        GEMINI("{\"text\":\"x\"}", ",\"index\":1"),
        GEMINI(FUNCTION(C1, ",\"args\":{\"q\":1}"), ""),
        GEMINI(FUNCTION(C2, ",\"args\":{\"q\":1}"), ""),
        GEMINI(FUNCTION(C3, ""), ""),
        GEMINI(FUNCTION("", ",\"args\":{\"q\":1}"), ""),
        GEMINI(FUNCTION(C1, ",\"args\":{\"q\":1}") "," FUNCTION(C3, ""),
               ",\"finishReason\":\"STOP\""),
        GEMINI(FUNCTION(C1, "," MORE), ""),
        GEMINI(FUNCTION(C2, "," MORE), ""),
        GEMINI(PIECE(MORE "," VALUE("$.q", "\"numberValue\":1")), ""),
        GEMINI(PIECE(MORE "," VALUE("$.a['b'][0]", "\"stringValue\":\"x\"")),
               ""),
        GEMINI(PIECE(VALUE("$.a.b[0]", "\"stringValue\":\"y\"")), ""),
        GEMINI(PIECE(VALUE("$..", "\"stringValue\":\"y\"")), ""),
        GEMINI(PIECE(MORE "," VALUE("$.q", "\"stringValue\":\"x\"")), ""),
        GEMINI(PIECE(MORE "," VALUE("$.q", "\"stringValue\":\"\\\"\"")), ""),
        GEMINI(PIECE(MORE "," VALUE("$.p", "\"stringValue\":\"y\"")), ""),
        GEMINI(PIECE(""), ""),
        "data: {\"candidates\":[{\"content\":{\"parts\":[",
        FUNCTION(C1, ",\"args\":{\"q\":1}"),
        FUNCTION(C3, ""),
        PIECE(""),
        "{\"text\":\"x\"}",
        ",",
        "]}}],\"usageMetadata\":{}}\n\n",
        "]}}]}\n\n",
        "data: {\"error\":{}}\n\n",
        "data: {\"promptFeedback\":{\"blockReason\":\"SAFETY\"}}\n\n",
        "data: {}\n\n",
        ": c\n\n",
    },
};

#define SPEECHES (sizeof(parts) / sizeof(parts[0]))

static int without_forms;


size_t
chat_forms_read(chat_forms_t *forms, chat_str_t input, size_t max,
                chat_event_t *event, size_t *frames)
{
    return without_forms ? 0 : forms_read(forms, input, max, event, frames);
}


/* The result of one run. */
typedef struct {
    chat_buf_t          out;
    chat_stream_info_t  info;
    chat_replay_count_t count;
    uint64_t            facts;
} run_t;


/* The order of batches within one answer is unspecified. */
static void
note_facts(run_t *run, chat_stream_t *stream)
{
    size_t                     i, k, n;
    uint64_t                   word;
    chat_str_t                 said[5];
    chat_digest_t              digest;
    const chat_fact_t         *fact;
    const chat_stream_facts_t *facts;

    n = chat_stream_facts(stream, &facts);

    for (i = 0; i < n; i++) {
        for (k = 0; k < facts[i].facts.count; k++) {
            fact = &facts[i].facts.items[k];
            said[0] = chat_str(facts[i].keys,
                               facts[i].nkeys * sizeof(*facts[i].keys));
            said[1] = fact->field;
            said[2] = fact->value;
            said[3] = fact->payload;
            said[4] = chat_str("1", fact->has_payload != 0);
            chat_digest_parts(said, 5, &digest);
            memcpy(&word, digest.bytes, sizeof(word));
            run->facts += word;
        }
    }
}


static void
note(run_t *run, const chat_piece_t *pieces, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        NEED(pieces[i].bytes.len != 0);
        chat_buf_add(&run->out, pieces[i].bytes);
    }
}


/* seed 0: in one piece. */
static void
run_once(const chat_stream_conf_t *conf, chat_str_t text, unsigned seed,
         run_t *run)
{
    size_t              n, used, len;
    unsigned char      *copy;
    chat_stream_t      *stream = chat_stream_create(conf);
    const chat_piece_t *pieces;

    memset(run, 0, sizeof(*run));
    NEED(stream != NULL);

    for (used = 0; used < text.len; used += len) {
        len = text.len - used;
        if (seed != 0) {
            seed = seed * 1103515245u + 12345u;
            n = 1 + (seed >> 16) % (seed & 0x100 ? 3 : 60);
            len = n < len ? n : len;
        }

        copy = malloc(len);
        memcpy(copy, text.data + used, len);
        NEED(chat_stream_push(stream, chat_str(copy, len), &pieces, &n)
             == CHAT_OK);
        note(run, pieces, n);
        free(copy);
        note_facts(run, stream);
    }

    NEED(chat_stream_finish(stream, NULL, 0, &pieces, &n) == CHAT_OK);
    note(run, pieces, n);
    note_facts(run, stream);

    run->info = *chat_stream_info(stream);
    run->count = chat_stream_info(stream)->replay;
    NEED(run->info.bytes_out == run->out.len);
    chat_stream_destroy(stream);
}


static int
is_subsequence(chat_str_t part, chat_str_t whole)
{
    size_t i, k = 0;

    for (i = 0; i < whole.len && k < part.len; i++) {
        k += whole.data[i] == part.data[k];
    }

    return k == part.len;
}


/* Checks that both runs have the same result. */
static void
same(const run_t *a, const run_t *b)
{
    NEED(chat_str_eq(chat_buf_str(&a->out), chat_buf_str(&b->out)));
    NEED(a->info.end == b->info.end);
    NEED(a->info.calls == b->info.calls);
    NEED(a->info.settled == b->info.settled);
    NEED(a->info.overflows == b->info.overflows);
    NEED(a->facts == b->facts);
    NEED(memcmp(&a->count, &b->count, sizeof(b->count)) == 0);
}


static void
check(const chat_stream_conf_t *conf, chat_str_t text, unsigned seed)
{
    run_t whole, cut, plain;

    run_once(conf, text, 0, &whole);
    run_once(conf, text, seed, &cut);
    without_forms = 1;
    run_once(conf, text, 0, &plain);
    without_forms = 0;

    same(&whole, &cut);
    same(&whole, &plain);

    if (conf->number.len == 0
        && (conf->observe || whole.info.end != CHAT_END_INTERRUPTED))
    {
        if (!conf->dialect->numbered) {
            NEED(is_subsequence(chat_buf_str(&whole.out), text));
        }

        if (!conf->replay || conf->observe
            || (conf->dialect->numbered && whole.count.replays == 0))
        {
            NEED(chat_str_eq(chat_buf_str(&whole.out), text));
        }
    }

    chat_buf_free(&whole.out);
    chat_buf_free(&cut.out);
    chat_buf_free(&plain.out);
}


/* The digest of a JSON value, as a reader computes it for a result. */
static void
value_digest(const char *text, chat_hash_t *out)
{
    chat_mix_t      mix;
    chat_arena_t   *arena = chat_arena_create(0);
    chat_json_doc_t doc;

    NEED(chat_json_parse(&doc, arena, chat_cstr(text)) == CHAT_OK);
    chat_mix_init(&mix, &test_tenant);
    NEED(chat_json_mix(&doc, doc.root, &mix) == CHAT_OK);
    chat_mix_end(&mix, out->bytes);
    chat_arena_destroy(arena);
}


/* c1 has a result, c2 has a granted approval. */
static void
know(chat_call_t *calls)
{
    size_t i;

    memset(calls, 0, 2 * sizeof(*calls));

    calls[0].id = chat_cstr(C1);
    calls[0].outcome = CHAT_OUTCOME_OK;
    value_digest("1", &calls[0].digest);
    calls[1].id = chat_cstr(C2);
    calls[1].approval = CHAT_APPROVAL_GRANTED;

    for (i = 0; i < 2; i++) {
        calls[i].ready = 1;
        calls[i].text = chat_cstr("{\"name\":\"f\",\"arguments\":{\"q\":1}}");
        calls[i].args = chat_dialect_openai_chat.form->args;
        calls[i].tenant = &test_tenant;
    }
}


/* The stream that data stands for. */
static void
spell(size_t which, const uint8_t *data, size_t size, chat_buf_t *text)
{
    size_t      i;
    const char *part;

    for (i = 0; i < size && text->len < 65536; i++) {
        part = data[i] >= 0x80 ? parts[which][data[i] % PARTS] : NULL;
        if (part != NULL) {
            chat_buf_puts(text, part);
            continue;
        }

        i += data[i] == ESCAPE && i + 1 < size;
        chat_buf_add(text, chat_str(&data[i], 1));
    }
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t             which;
    chat_buf_t         text = { 0 };
    chat_call_t        calls[2];
    chat_stream_conf_t conf;

    NEED(SPEECHES == chat_dialect_count);

    if (size < 3) {
        return 0;
    }

    which = data[0] % SPEECHES;
    spell(which, data + 3, size - 3, &text);

    know(calls);
    memset(&conf, 0, sizeof(conf));
    conf.dialect = chat_dialects[which];
    conf.replay = (data[0] >> 2) % 2;
    conf.known = calls;
    conf.nknown = data[0] & 0x40 ? 0 : 2;
    conf.observe = (data[1] & 0xf0) == 0;
    conf.max_event = data[1] & 1 ? 600 : 65536;
    conf.number = chat_cstr(data[1] & 4 ? "abc" : "");
    conf.max_calls = data[1] & 2 ? 2 : 128;
    conf.max_result = 100;
    conf.worker = chat_cstr("w");
    conf.scope.tenant = test_tenant;
    conf.scope.dialect = chat_cstr(conf.dialect->name);
    conf.scope.conversation = chat_cstr("talk");
    conf.scope.by_message = conf.dialect->weak_by_message;

    check(&conf, chat_buf_str(&text), data[2] + 1u);
    chat_buf_free(&text);
    return 0;
}
