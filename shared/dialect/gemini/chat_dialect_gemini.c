/*
 * chat_dialect_gemini.c: Gemini's generateContent, of Google AI and Vertex.
 *
 * Here: what a call is, the answers that the module makes itself, and the
 * table. The other files are named in chat_dialect_gemini.h.
 * Promises: an answer made here is one that Google's libraries take: an event
 * is one data line, with neither a name nor an id; an interruption never looks
 * like an ending.
 * Must not know: other dialects, policy.
 */

#include "dialect/gemini/chat_dialect_gemini.h"

#include <stdio.h>

#define CHAT_GEMINI_CANDIDATES 32 /* as many as a mask has bits */


const chat_json_t *
chat_gemini_parts(chat_json_doc_t *doc, const chat_json_t *content)
{
    return chat_json_get(doc, content, "parts");
}


int
chat_gemini_is_model(chat_json_doc_t *doc, const chat_json_t *content)
{
    return chat_json_is(doc, chat_json_get(doc, content, "role"), "model");
}


/* Either spelling of a member's key is good in a request. */
static const chat_json_t *
chat_gemini_either(chat_json_doc_t *doc, const chat_json_t *part,
                   const char *key, const char *other)
{
    const chat_json_t *node = chat_json_get(doc, part, key);

    if (node == NULL) {
        node = chat_json_get(doc, part, other);
    }

    return node && node->type == CHAT_JSON_OBJECT ? node : NULL;
}


const chat_json_t *
chat_gemini_function(chat_json_doc_t *doc, const chat_json_t *part)
{
    return chat_gemini_either(doc, part, "functionCall", "function_call");
}


const chat_json_t *
chat_gemini_response(chat_json_doc_t *doc, const chat_json_t *part)
{
    return chat_gemini_either(doc, part, "functionResponse",
                              "function_response");
}


chat_str_t
chat_gemini_id(chat_json_doc_t *doc, chat_arena_t *arena,
               const chat_json_t *function, uint32_t since, uint32_t position)
{
    char       place[40];
    chat_str_t id;

    id = chat_json_text(doc, function, "id");

    if (id.len == 0) {
        (void) snprintf(place, sizeof(place), "part:%u.%u", (unsigned) since,
                        (unsigned) position);
        if (chat_arena_dup(arena, chat_cstr(place), &id) != CHAT_OK) {
            return chat_str(NULL, 0);
        }
    }

    return id;
}


int
chat_gemini_goes_on(chat_json_doc_t *doc, const chat_json_t *node)
{
    return chat_json_true(chat_json_get(doc, node, "willContinue"));
}


int32_t
chat_gemini_candidate(chat_json_doc_t *doc, const chat_json_t *candidate)
{
    int32_t            index;
    const chat_json_t *node;

    if (candidate->type != CHAT_JSON_OBJECT) {
        return -1;
    }

    node = chat_json_get(doc, candidate, "index");
    if (node == NULL) {
        return 0;
    }

    index = chat_json_index(doc, node);

    return index < CHAT_GEMINI_CANDIDATES ? index : -1;
}


/* 1 if one of the query's arguments is that the answer be SSE. */
static int
chat_gemini_asks_sse(chat_str_t query)
{
    size_t     len;
    chat_str_t one;

    while (query.len) {
        for (len = 0; len < query.len && query.data[len] != '&'; len++) {
            /* void */
        }

        one = chat_str(query.data, len);
        if (chat_str_is(one, "alt=sse") || chat_str_is(one, "$alt=sse")
            || chat_str_is(one, "%24alt=sse"))
        {
            return 1;
        }

        len += len < query.len;
        query = chat_str(query.data + len, query.len - len);
    }

    return 0;
}


chat_gemini_form_e
chat_gemini_form(chat_str_t uri)
{
    chat_str_t path = chat_uri_path(uri), query = { NULL, 0 };

    if (path.len < uri.len) {
        query = chat_str(uri.data + path.len + 1, uri.len - path.len - 1);
    }

    if (chat_str_ends(path, ":generateContent")) {
        return CHAT_GEMINI_OBJECT;
    }

    return chat_str_ends(path, ":streamGenerateContent")
                   && !chat_gemini_asks_sse(query)
               ? CHAT_GEMINI_ARRAY
               : CHAT_GEMINI_EVENTS;
}


/* Google's word for a status. */
static const char *
chat_gemini_status(unsigned status)
{
    switch (status) {
    case 400:
        return "INVALID_ARGUMENT";
    case 401:
        return "UNAUTHENTICATED";
    case 403:
        return "PERMISSION_DENIED";
    case 404:
        return "NOT_FOUND";
    case 409:
        return "ABORTED";
    case 429:
        return "RESOURCE_EXHAUSTED";
    case 502:
    case 503:
        return "UNAVAILABLE";
    case 504:
        return "DEADLINE_EXCEEDED";
    default:
        return status < 500 ? "FAILED_PRECONDITION" : "INTERNAL";
    }
}


/* An error up to the metadata of its details. */
static void
chat_gemini_error(chat_buf_t *out, unsigned status, const char *code,
                  chat_str_t message)
{
    chat_buf_printf(out, "{\"error\":{\"code\":%u,\"message\":", status);
    chat_buf_json(out, message);
    chat_buf_printf(out,
                    ",\"status\":\"%s\",\"details\":[{\"@type\":"
                    "\"type.googleapis.com/google.rpc.ErrorInfo\","
                    "\"reason\":",
                    chat_gemini_status(status));
    chat_buf_json(out, chat_cstr(code));
    chat_buf_puts(out, ",\"domain\":\"ngx_chat_module\",\"metadata\":{");
}


static void
chat_gemini_interrupted(void *state, const chat_interruption_t *in,
                        chat_buf_t *out)
{
    chat_buf_t message = { 0 };

    chat_interruption_text(in, &message);

    chat_buf_puts(out, "data: ");
    chat_gemini_error(out, 503, "stream_interrupted", chat_buf_str(&message));
    chat_buf_puts(out, "}}]}}\n\n");

    out->failed |= message.failed;
    chat_buf_free(&message);
}


static chat_rc_e
chat_gemini_empty(const chat_request_t *rq, const chat_result_t *results,
                  size_t n, chat_buf_t *out)
{
    static const char *const turn =
        "{\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[]},"
        "\"finishReason\":\"STOP\",\"index\":0}]}";

    switch (chat_gemini_form(rq->uri)) {
    case CHAT_GEMINI_EVENTS:
        chat_buf_printf(out, "data: %s\n\n", turn);
        break;

    case CHAT_GEMINI_ARRAY:
        chat_buf_printf(out, "[%s]", turn);
        break;

    case CHAT_GEMINI_OBJECT:
        chat_buf_puts(out, turn);
        break;
    }

    return CHAT_OK;
}


static void
chat_gemini_refuse(const chat_refusal_t *refusal, chat_buf_t *out)
{
    size_t     i;
    chat_buf_t ids = { 0 };

    chat_gemini_error(out, refusal->status, refusal->code,
                      chat_cstr(refusal->message));

    /* The values of metadata are strings. */
    for (i = 0; i < refusal->nids; i++) {
        chat_buf_puts(&ids, i ? " " : "");
        chat_buf_add(&ids, refusal->ids[i]);
    }

    if (ids.len) {
        chat_buf_puts(out, "\"calls\":");
        chat_buf_json(out, chat_buf_str(&ids));
    }

    chat_buf_puts(out, "}}]}}");

    out->failed |= ids.failed;
    chat_buf_free(&ids);
}


static void
chat_gemini_refuse_in_band(const chat_refusal_t *refusal, chat_buf_t *out)
{
    chat_buf_puts(out, "data: ");
    chat_gemini_refuse(refusal, out);
    chat_buf_puts(out, "\n\n");
}


static const char *const chat_gemini_paths[] = { ":streamGenerateContent",
                                                 ":generateContent", NULL };

/* Others that take contents but make no answer. */
static const char *const chat_gemini_not_paths[] = {
    ":countTokens",          ":computeTokens",  ":embedContent",
    ":batchGenerateContent", "/cachedContents", NULL,
};

/* The model is in the path; labels name the user. Both spellings are good. */
static const char *const chat_gemini_signature[] = {
    "systemInstruction",
    "system_instruction",
    "generationConfig",
    "generation_config",
    "tools",
    "toolConfig",
    "tool_config",
    "safetySettings",
    "safety_settings",
    "cachedContent",
    "cached_content",
    "modelArmorConfig",
    "serviceTier",
    NULL,
};

static const char *const chat_gemini_texts[] = { "\"text\":\"", "\"text\": \"",
                                                 NULL };


const chat_dialect_t chat_dialect_gemini = {
    .name = "gemini",
    .messages = "contents",
    .weak_recur = 1,
    .numbered = 1,
    .breaks = 1,
    .paths = chat_gemini_paths,
    .not_paths = chat_gemini_not_paths,
    .signature = chat_gemini_signature,
    .request = chat_gemini_request,
    .splice = chat_gemini_splice,
    .open = chat_gemini_open,
    .boring = chat_gemini_boring,
    .idle = chat_gemini_idle,
    .texts = chat_gemini_texts,
    .read = chat_gemini_read,
    .interrupted = chat_gemini_interrupted,
    .empty = chat_gemini_empty,
    .refuse = chat_gemini_refuse,
    .refuse_in_band = chat_gemini_refuse_in_band,
};
