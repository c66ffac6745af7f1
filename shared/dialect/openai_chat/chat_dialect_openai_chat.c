/*
 * chat_dialect_openai_chat.c: OpenAI's Chat Completions and its likes.
 *
 * Here: requests, the answers that the module makes itself, and the table;
 * _stream.c reads answers. A step is an assistant message with tool_calls; its
 * results are the tool messages behind it, and a missing one is inserted
 * there.
 * Promises: an answer made here is one that the OpenAI libraries take; an
 * interruption never looks like an ending.
 */

#include "dialect/openai_chat/chat_dialect_openai_chat.h"


chat_kind_e
chat_openai_chat_kind(chat_json_doc_t *doc, const chat_json_t *call)
{
    chat_str_t type = chat_json_text(doc, call, "type");

    if (type.len == 0 || chat_str_is(type, "function")
        || chat_str_is(type, "custom"))
    {
        return CHAT_KIND_CLIENT;
    }

    return CHAT_KIND_PROVIDER;
}


const chat_json_t *
chat_openai_chat_function(chat_json_doc_t *doc, const chat_json_t *call)
{
    const chat_json_t *function = chat_json_get(doc, call, "function");

    if (function == NULL) {
        function = chat_json_get(doc, call, "custom");
    }

    /* Without one the call itself may have the name. */
    return function ? function : call;
}


const chat_json_t *
chat_openai_chat_arguments(chat_json_doc_t *doc, const chat_json_t *function)
{
    const chat_json_t *value = chat_json_get(doc, function, "arguments");

    return value ? value : chat_json_get(doc, function, "input");
}


chat_str_t
chat_openai_chat_text(chat_json_doc_t *doc, const chat_json_t *value)
{
    if (value == NULL || value->type == CHAT_JSON_NULL) {
        return chat_str(NULL, 0);
    }

    return value->type == CHAT_JSON_STRING ? chat_json_string(doc, value)
                                           : chat_json_raw(doc, value);
}


/* ---- requests ---- */


static chat_role_e
message_role(chat_json_doc_t *doc, const chat_json_t *message)
{
    const chat_json_t *role = chat_json_get(doc, message, "role");

    return chat_json_is(doc, role, "user")        ? CHAT_ROLE_USER
           : chat_json_is(doc, role, "assistant") ? CHAT_ROLE_ASSISTANT
           : chat_json_is(doc, role, "tool")      ? CHAT_ROLE_RESULTS
           : chat_json_is(doc, role, "system")    ? CHAT_ROLE_SYSTEM
           : chat_json_is(doc, role, "developer") ? CHAT_ROLE_SYSTEM
           : message->type == CHAT_JSON_OBJECT    ? CHAT_ROLE_OTHER
                                                  : CHAT_ROLE_ASIDE;
}


static void
message_calls(chat_transcript_t *t, const chat_json_t *message)
{
    const chat_json_t *node = chat_json_first(t->doc, message, "tool_calls");

    for (/* void */; node != NULL; node = node->next) {
        chat_call_t call = { .node = node, .ready = 1 };

        if (node->type == CHAT_JSON_OBJECT) {
            call.id = chat_json_text(t->doc, node, "id");
            call.kind = chat_openai_chat_kind(t->doc, node);
            chat_transcript_call(t, &call, 1);
        }
    }
}


static void
message_result(chat_transcript_t *t, const chat_json_t *message)
{
    chat_transcript_result(t, chat_json_text(t->doc, message, "tool_call_id"),
                           CHAT_KIND_CLIENT, message, message);
}


static chat_str_t
call_args(chat_transcript_t *t, chat_call_t *call)
{
    const chat_json_t *function =
        chat_openai_chat_function(t->doc, call->node);

    call->name = chat_json_text(t->doc, function, "name");

    return chat_openai_chat_text(t->doc,
                                 chat_openai_chat_arguments(t->doc, function));
}


static void
call_result(chat_transcript_t *t, chat_call_t *call)
{
    call->outcome = CHAT_OUTCOME_OK;
    chat_transcript_value(t, chat_json_get(t->doc, call->result, "content"),
                          "\"\"", call);
}


/* A tool message has no mark for errors: its text has to say it. */
static chat_rc_e
write_result(chat_json_doc_t *doc, const chat_result_t *result,
             chat_json_doc_t *payload, chat_buf_t *out)
{
    if (result->outcome == CHAT_OUTCOME_NONE) {
        return CHAT_DECLINED;
    }

    chat_buf_format(out, "{\"role\":\"tool\",\"tool_call_id\":%j,\"content\":",
                    result->id);

    if (result->outcome == CHAT_OUTCOME_OK) {
        chat_buf_add(out, result->payload);
    } else {
        chat_result_error_text(result, out);
    }

    chat_buf_puts(out, "}");

    return CHAT_OK;
}


static const chat_transcript_form_t form = {
    .list = "messages",
    .content = "content",
    .role = message_role,
    .calls = message_calls,
    .results = message_result,
    .args = call_args,
    .result = call_result,
    .mixed = CHAT_CLASS_OTHER,
    .write = write_result,
};


static chat_rc_e
read_request(chat_json_doc_t *doc, chat_arena_t *arena, chat_request_t *rq)
{
    chat_transcript_t  t;
    const chat_json_t *first = chat_json_first(doc, doc->root, "messages");

    if (chat_json_text(doc, first, "role").len == 0
        || chat_json_get(doc, first, "parts") != NULL)
    {
        return CHAT_DECLINED;
    }

    rq->stream = chat_json_flag(doc, doc->root, "stream");

    chat_transcript_init(&t, &form, doc, arena, rq);

    chat_transcript_read(&t, chat_json_get(doc, doc->root, "messages"));

    return chat_transcript_end(&t);
}


/* ---- what the module itself writes ---- */


/* An error up to what only a refusal has. */
static void
write_error(chat_buf_t *out, const char *type, const char *param,
            const char *code, chat_str_t message)
{
    chat_buf_format(out,
                    "{\"error\":{\"message\":%j,\"type\":\"%s\","
                    "\"param\":%s,\"code\":%j",
                    message, type, param, chat_cstr(code));
}


static void
interrupted(void *state, const chat_interruption_t *in, chat_buf_t *out)
{
    char text[CHAT_INTERRUPTION_TEXT];

    chat_buf_puts(out, "data: ");
    write_error(out, "server_error", "null", "stream_interrupted",
                chat_interruption_text(in, text));
    chat_buf_puts(out, "}}\n\n");
}


static chat_rc_e
empty(const chat_request_t *rq, const chat_result_t *results, size_t n,
      chat_buf_t *out)
{
    static const char *const chunk =
        "data: {\"id\":\"chatcmpl-empty\",\"object\":\"chat.completion.chunk\""
        ",\"created\":0,\"model\":\"\",\"choices\":[{\"index\":0,\"delta\":";

    if (!rq->stream) {
        chat_buf_puts(out,
                      "{\"id\":\"chatcmpl-empty\","
                      "\"object\":\"chat.completion\",\"created\":0,"
                      "\"model\":\"\",\"choices\":[{\"index\":0,\"message\":"
                      "{\"role\":\"assistant\",\"content\":\"\","
                      "\"refusal\":null},\"logprobs\":null,"
                      "\"finish_reason\":\"stop\"}]}");
        return CHAT_OK;
    }

    chat_buf_puts(out, chunk);
    chat_buf_puts(out, "{\"role\":\"assistant\",\"content\":\"\"},"
                       "\"finish_reason\":null}]}\n\n");
    chat_buf_puts(out, chunk);
    chat_buf_puts(out, "{},\"finish_reason\":\"stop\"}]}\n\n"
                       "data: [DONE]\n\n");

    return CHAT_OK;
}


static void
refuse(const chat_refusal_t *refusal, int in_band, chat_buf_t *out)
{
    chat_buf_puts(out, in_band ? "data: " : "");
    write_error(
        out, refusal->status < 500 ? "invalid_request_error" : "server_error",
        "\"messages\"", refusal->code, chat_cstr(refusal->message));
    chat_buf_puts(out, ",\"tool_call_ids\":");
    chat_refusal_ids(refusal, out);
    chat_buf_puts(out, in_band ? "}}\n\n" : "}}");
}


const chat_dialect_t chat_dialect_openai_chat = {
    .name = "openai_chat",
    .form = &form,
    .provider = 1,
    .numbered = 1,
    .takes_ids = 1,
    .plain_text = 1,
    .paths = CHAT_LIST("/chat/completions"),
    /* no members that name the user or the call: they choose no answer */
    .signature = CHAT_LIST(
        "model", "stream", "stream_options", "tools", "tool_choice",
        "parallel_tool_calls", "functions", "function_call", "response_format",
        "temperature", "top_p", "n", "seed", "stop", "max_tokens",
        "max_completion_tokens", "reasoning_effort", "logit_bias",
        "presence_penalty", "frequency_penalty", "modalities", "logprobs",
        "top_logprobs", "verbosity", "service_tier"),
    .request = read_request,
    .open = chat_openai_chat_open,
    .idle = chat_openai_chat_idle,
    .read = chat_openai_chat_read,
    .piece = chat_openai_chat_piece,
    .interrupted = interrupted,
    .empty = empty,
    .refuse = refuse,
};
