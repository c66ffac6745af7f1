/*
 * chat_dialect_anthropic.c: Anthropic Messages.
 *
 * Here: what a call is, the answers that the module makes itself, and the
 * table. The other files are named in chat_dialect_anthropic.h.
 * Promises: an answer made here is one that the Anthropic libraries take; an
 * interruption never looks like an ending.
 * Must not know: other dialects, policy.
 */

#include "dialect/anthropic/chat_dialect_anthropic.h"


int
chat_anthropic_type(chat_json_doc_t *doc, const chat_json_t *block,
                    const char *type)
{
    return chat_json_is(doc, chat_json_get(doc, block, "type"), type);
}


int
chat_anthropic_role(chat_json_doc_t *doc, const chat_json_t *message,
                    const char *role)
{
    return chat_json_is(doc, chat_json_get(doc, message, "role"), role);
}


const chat_json_t *
chat_anthropic_blocks(chat_json_doc_t *doc, const chat_json_t *message)
{
    const chat_json_t *content = chat_json_get(doc, message, "content");

    return content && content->type == CHAT_JSON_ARRAY ? content->child : NULL;
}


int
chat_anthropic_call(chat_json_doc_t *doc, const chat_json_t *block,
                    chat_kind_e *kind)
{
    chat_str_t type;

    type = chat_json_text(doc, block, "type");

    if (chat_str_is(type, "tool_use")) {
        *kind = CHAT_KIND_CLIENT;
        return 1;
    }

    *kind = CHAT_KIND_PROVIDER;

    return chat_str_ends(type, "_tool_use") && !chat_str_is(type, "_tool_use");
}


static void
chat_anthropic_error(chat_buf_t *out, const char *type, const char *code,
                     chat_str_t message)
{
    chat_buf_printf(out,
                    "{\"type\":\"error\",\"error\":{\"type\":\"%s\","
                    "\"message\":",
                    type);
    chat_buf_json(out, message);
    chat_buf_puts(out, ",\"code\":");
    chat_buf_json(out, chat_cstr(code));
}


static void
chat_anthropic_interrupted(void *state, const chat_interruption_t *in,
                           chat_buf_t *out)
{
    chat_buf_t message = { 0 };

    chat_interruption_text(in, &message);

    chat_buf_puts(out, "event: error\ndata: ");
    chat_anthropic_error(
        out, chat_interruption_is_stop(in) ? "api_error" : "overloaded_error",
        "stream_interrupted", chat_buf_str(&message));
    chat_buf_puts(out, "}}\n\n");

    out->failed |= message.failed;
    chat_buf_free(&message);
}


/* An empty answer in the history makes the provider refuse what follows. */
static chat_rc_e
chat_anthropic_empty(const chat_request_t *rq, const chat_result_t *results,
                     size_t n, chat_buf_t *out)
{
    return CHAT_DECLINED;
}


static void
chat_anthropic_refuse(const chat_refusal_t *refusal, chat_buf_t *out)
{
    const char *type =
        refusal->status < 500 ? "invalid_request_error" : "api_error";

    chat_anthropic_error(out, type, refusal->code,
                         chat_cstr(refusal->message));
    chat_buf_puts(out, ",\"tool_use_ids\":");
    chat_refusal_ids(refusal, out);
    chat_buf_puts(out, "}}");
}


static void
chat_anthropic_refuse_in_band(const chat_refusal_t *refusal, chat_buf_t *out)
{
    chat_buf_puts(out, "event: error\ndata: ");
    chat_anthropic_refuse(refusal, out);
    chat_buf_puts(out, "\n\n");
}


static const char *const chat_anthropic_paths[] = { "/messages", NULL };

static const char *const chat_anthropic_not_paths[] = {
    "/messages/count_tokens",
    "/messages/batches",
    NULL,
};

/* What names the user, but does not choose the answer, is out. */
static const char *const chat_anthropic_signature[] = {
    "model",         "stream",
    "system",        "tools",
    "tool_choice",   "temperature",
    "top_p",         "top_k",
    "max_tokens",    "stop_sequences",
    "thinking",      "output_config",
    "output_format", "context_management",
    "mcp_servers",   "container",
    "service_tier",  NULL,
};

static const char *const chat_anthropic_texts[] = { "\"text\":\"",
                                                    "\"thinking\":\"", NULL };


const chat_dialect_t chat_dialect_anthropic = {
    .name = "anthropic",
    .messages = "messages",
    .weak_recur = 1,
    .numbered = 1,
    .takes_ids = 1,
    .breaks = 1,
    .paths = chat_anthropic_paths,
    .not_paths = chat_anthropic_not_paths,
    .signature = chat_anthropic_signature,
    .no_empty = 1,
    .plain_text = 1,
    .request = chat_anthropic_request,
    .splice = chat_anthropic_splice,
    .open = chat_anthropic_open,
    .boring = chat_anthropic_boring,
    .idle = chat_anthropic_idle,
    .texts = chat_anthropic_texts,
    .read = chat_anthropic_read,
    .interrupted = chat_anthropic_interrupted,
    .empty = chat_anthropic_empty,
    .refuse = chat_anthropic_refuse,
    .refuse_in_band = chat_anthropic_refuse_in_band,
};
