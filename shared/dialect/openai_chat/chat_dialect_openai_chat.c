/*
 * chat_dialect_openai_chat.c: OpenAI's Chat Completions and its likes.
 *
 * Here: what a call is, the answers that the module makes itself, and the
 * table. The other files are named in chat_dialect_openai_chat.h.
 * Promises: an answer made here is one that the OpenAI libraries take; an
 * interruption never looks like an ending.
 * Must not know: other dialects, policy, the time.
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

    /* The older function_call is itself what has the name. */
    return function ? function : call;
}


chat_str_t
chat_openai_chat_arguments(chat_json_doc_t *doc, const chat_json_t *function)
{
    const chat_json_t *value = chat_json_get(doc, function, "arguments");

    if (value == NULL) {
        value = chat_json_get(doc, function, "input");
    }

    if (value == NULL || value->type == CHAT_JSON_NULL) {
        return chat_str(NULL, 0);
    }

    return value->type == CHAT_JSON_STRING ? chat_json_string(doc, value)
                                           : chat_json_raw(doc, value);
}


static void
chat_completions_error(chat_buf_t *out, const char *type, const char *param,
                       const char *code, chat_str_t message)
{
    chat_buf_puts(out, "{\"error\":{\"message\":");
    chat_buf_json(out, message);
    chat_buf_printf(out, ",\"type\":\"%s\",\"param\":%s,\"code\":", type,
                    param);
    chat_buf_json(out, chat_cstr(code));
}


static void
chat_completions_interrupted(void *state, const chat_interruption_t *in,
                             chat_buf_t *out)
{
    chat_buf_t message = { 0 };

    chat_interruption_text(in, &message);

    chat_buf_puts(out, "data: ");
    chat_completions_error(out, "server_error", "null", "stream_interrupted",
                           chat_buf_str(&message));
    chat_buf_puts(out, "}}\n\n");

    out->failed |= message.failed;
    chat_buf_free(&message);
}


static chat_rc_e
chat_completions_empty(const chat_request_t *rq, const chat_result_t *results,
                       size_t n, chat_buf_t *out)
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
chat_completions_refuse(const chat_refusal_t *refusal, chat_buf_t *out)
{
    const char *type =
        refusal->status < 500 ? "invalid_request_error" : "server_error";

    chat_completions_error(out, type, "\"messages\"", refusal->code,
                           chat_cstr(refusal->message));
    chat_buf_puts(out, ",\"tool_call_ids\":");
    chat_refusal_ids(refusal, out);
    chat_buf_puts(out, "}}");
}


static void
chat_completions_refuse_in_band(const chat_refusal_t *refusal, chat_buf_t *out)
{
    chat_buf_puts(out, "data: ");
    chat_completions_refuse(refusal, out);
    chat_buf_puts(out, "\n\n");
}


static const char *const chat_completions_paths[] = { "/chat/completions",
                                                      NULL };

/* What names the user or the call, but does not choose the answer, is out. */
static const char *const chat_completions_signature[] = {
    "model",
    "stream",
    "stream_options",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "functions",
    "function_call",
    "response_format",
    "temperature",
    "top_p",
    "n",
    "seed",
    "stop",
    "max_tokens",
    "max_completion_tokens",
    "reasoning_effort",
    "logit_bias",
    "presence_penalty",
    "frequency_penalty",
    "modalities",
    "logprobs",
    "top_logprobs",
    "verbosity",
    "service_tier",
    NULL,
};

static const char *const chat_openai_chat_texts[] = {
    "\"content\":\"", "\"reasoning_content\":\"", "\"obfuscation\":\"", NULL
};


const chat_dialect_t chat_dialect_openai_chat = {
    .name = "openai_chat",
    .messages = "messages",
    .weak_recur = 1,
    .numbered = 1,
    .takes_ids = 1,
    .breaks = 1,
    .plain_text = 1,
    .paths = chat_completions_paths,
    .signature = chat_completions_signature,
    .request = chat_openai_chat_request,
    .splice = chat_openai_chat_splice,
    .open = chat_openai_chat_open,
    .boring = chat_openai_chat_boring,
    .idle = chat_openai_chat_idle,
    .texts = chat_openai_chat_texts,
    .read = chat_openai_chat_read,
    .interrupted = chat_completions_interrupted,
    .empty = chat_completions_empty,
    .refuse = chat_completions_refuse,
    .refuse_in_band = chat_completions_refuse_in_band,
};
