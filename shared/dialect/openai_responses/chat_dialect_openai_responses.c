/*
 * chat_dialect_openai_responses.c: OpenAI's Responses API.
 *
 * Here: the types of items, the answers that the module makes itself, and the
 * table. Its two halves are chat_dialect_openai_responses_request.c
 * and chat_dialect_openai_responses_stream.c (answers).
 * Promises: an answer made here is one that the OpenAI libraries take.
 * Must not know: other dialects, policy.
 */

#include "dialect/openai_responses/chat_dialect_openai_responses.h"

#define CHAT_RESPONSES_ID 12 /* bytes of the digest in a made-up id */

/* clang-format off */

const chat_responses_type_t chat_responses_types[] = {

    { "function_call", "call_id", "arguments", NULL,
      "function_call_output", "call_id", { "output", NULL },
      CHAT_KIND_CLIENT, CHAT_RESPONSES_TEXT },

    { "custom_tool_call", "call_id", "input", NULL,
      "custom_tool_call_output", "call_id", { "output", NULL },
      CHAT_KIND_CLIENT, CHAT_RESPONSES_TEXT },

    { "mcp_approval_request", "id", "arguments", NULL,
      "mcp_approval_response", "approval_request_id", { "approve", "reason" },
      CHAT_KIND_APPROVAL, CHAT_RESPONSES_NEVER },

    { "local_shell_call", "call_id", "action", "command",
      "local_shell_call_output", "id", { "output", NULL },
      CHAT_KIND_CLIENT, CHAT_RESPONSES_TEXT },

    { "shell_call", "call_id", "action", "commands",
      "shell_call_output", "call_id", { "output", NULL },
      CHAT_KIND_CLIENT, CHAT_RESPONSES_SHELL },

    { "apply_patch_call", "call_id", "operation", NULL,
      "apply_patch_call_output", "call_id", { "status", "output" },
      CHAT_KIND_CLIENT, CHAT_RESPONSES_PATCH },

    { "computer_call", "call_id", "action", NULL,
      "computer_call_output", "call_id", { "output", NULL },
      CHAT_KIND_CLIENT, CHAT_RESPONSES_SCREEN },

    { "tool_search_call", "call_id", "arguments", NULL,
      "tool_search_output", "call_id", { "tools", NULL },
      CHAT_KIND_CLIENT, CHAT_RESPONSES_TOOLS },
};

/* All other types that end in _call are executed on the server side. */
static const chat_responses_type_t chat_responses_server = {
    NULL, "call_id", "arguments", NULL, NULL, NULL, { NULL, NULL },
    CHAT_KIND_PROVIDER, CHAT_RESPONSES_NEVER
};

/* clang-format on */

#define CHAT_RESPONSES_TYPES \
    (sizeof(chat_responses_types) / sizeof(chat_responses_types[0]))


static const chat_responses_type_t *
chat_responses_type(chat_str_t type)
{
    size_t i;

    for (i = 0; i < CHAT_RESPONSES_TYPES; i++) {
        if (chat_str_is(type, chat_responses_types[i].call)) {
            return &chat_responses_types[i];
        }
    }

    if (chat_str_ends(type, "_call") && !chat_str_is(type, "_call")) {
        return &chat_responses_server;
    }

    return NULL;
}


/*
 * A few types are the client's or the server's as the single call says. What
 * the model did not wait for (async) nobody has to wait for.
 */
static chat_kind_e
chat_responses_kind(chat_json_doc_t *doc, const chat_json_t *item,
                    const chat_responses_type_t *type)
{
    int                local = 1;
    const chat_json_t *environment;

    if (type == &chat_responses_server
        || chat_json_true(chat_json_get(doc, item, "async")))
    {
        return CHAT_KIND_PROVIDER;
    }

    if (strcmp(type->call, "shell_call") == 0) {
        environment = chat_json_get(doc, item, "environment");
        local = environment == NULL || environment->type == CHAT_JSON_NULL
                || chat_json_is(doc, chat_json_get(doc, environment, "type"),
                                "local");

    } else if (strcmp(type->call, "tool_search_call") == 0) {
        local =
            chat_json_is(doc, chat_json_get(doc, item, "execution"), "client");
    }

    return local ? type->kind : CHAT_KIND_PROVIDER;
}


int
chat_responses_call(chat_json_doc_t *doc, const chat_json_t *item,
                    chat_responses_call_t *call)
{
    chat_str_t type;

    type = chat_json_text(doc, item, "type");

    call->type = chat_responses_type(type);
    if (call->type == NULL) {
        return 0;
    }

    call->kind = chat_responses_kind(doc, item, call->type);
    call->item = chat_json_text(doc, item, "id");
    call->id = chat_json_text(doc, item, call->type->id);
    call->name = chat_json_text(doc, item, "name");

    if (call->id.len == 0 && call->kind == CHAT_KIND_PROVIDER) {
        call->id = call->item;
    }

    if (call->name.len == 0) {
        call->name = type;
    }

    /* calls of a program stay in_progress though their arguments are whole */
    call->cut_off =
        chat_json_is(doc, chat_json_get(doc, item, "status"), "incomplete");
    return 1;
}


chat_str_t
chat_responses_args(chat_json_doc_t *doc, const chat_json_t *item,
                    const chat_responses_type_t *type)
{
    const chat_json_t *args, *core;

    args = chat_json_get(doc, item, type->args);

    /* a computer is given one action or a list of them */
    if (args == NULL && type->form == CHAT_RESPONSES_SCREEN) {
        args = chat_json_get(doc, item, "actions");
    }

    if (args != NULL && args->type == CHAT_JSON_STRING) {
        return chat_json_string(doc, args);
    }

    core = type->core ? chat_json_get(doc, args, type->core) : NULL;
    return chat_json_raw(doc, core ? core : args);
}


const chat_responses_type_t *
chat_responses_answer(chat_json_doc_t *doc, const chat_json_t *item,
                      chat_str_t *id)
{
    size_t                       i;
    chat_str_t                   type;
    const chat_responses_type_t *found = NULL;

    type = chat_json_text(doc, item, "type");

    for (i = 0; i < CHAT_RESPONSES_TYPES; i++) {
        if (chat_str_is(type, chat_responses_types[i].answer)) {
            found = &chat_responses_types[i];
            break;
        }
    }

    /* the server's own searches come back in the transcript */
    if (found == NULL
        || chat_json_is(doc, chat_json_get(doc, item, "execution"), "server"))
    {
        return NULL;
    }

    /* the AI SDK says call_id of every type */
    *id = chat_json_text(doc, item, "call_id");
    if (id->len == 0) {
        *id = chat_json_text(doc, item, found->key);
    }

    return found;
}


/* ---- answers of the module's own ---- */


/* An empty response, made up, but the same each time for the same request. */
static void
chat_responses_response(const chat_request_t *rq, const char *status,
                        chat_buf_t *out)
{
    char               id[CHAT_RESPONSES_ID * 2 + 1];
    chat_str_t         parts[4];
    chat_digest_t      digest;
    const chat_step_t *step;

    step = rq->nsteps ? &rq->steps[rq->nsteps - 1] : &rq->next;

    parts[0] = chat_str(rq->signature.bytes, CHAT_DIGEST_SIZE);
    parts[1] = rq->conversation;
    parts[2] = step->chain;
    parts[3] = step->first_id;

    chat_digest_parts(parts, 4, &digest);
    chat_digest_hex(&digest, CHAT_RESPONSES_ID, id);

    chat_buf_printf(out,
                    "{\"id\":\"resp_chat_%s\",\"object\":\"response\","
                    "\"created_at\":0,\"status\":\"%s\",\"error\":null,"
                    "\"incomplete_details\":null,\"instructions\":null,"
                    "\"metadata\":{},\"model\":\"\",\"output\":[],"
                    "\"parallel_tool_calls\":true,\"tool_choice\":\"auto\","
                    "\"tools\":[],\"usage\":",
                    id, status);

    if (strcmp(status, "completed") == 0) {
        chat_buf_puts(out, "{\"input_tokens\":0,\"input_tokens_details\":"
                           "{\"cached_tokens\":0},\"output_tokens\":0,"
                           "\"output_tokens_details\":{\"reasoning_tokens\":0}"
                           ",\"total_tokens\":0}}");
    } else {
        chat_buf_puts(out, "null}");
    }
}


static chat_rc_e
chat_responses_empty(const chat_request_t *rq, const chat_result_t *results,
                     size_t n, chat_buf_t *out)
{
    unsigned                 i;
    static const char *const events[][2] = {
        { "response.created", "in_progress" },
        { "response.in_progress", "in_progress" },
        { "response.completed", "completed" },
    };

    if (!rq->stream) {
        chat_responses_response(rq, "completed", out);
        return CHAT_OK;
    }

    for (i = 0; i < 3; i++) {
        chat_buf_printf(out,
                        "event: %s\ndata: {\"type\":\"%s\","
                        "\"sequence_number\":%u,\"response\":",
                        events[i][0], events[i][0], i);
        chat_responses_response(rq, events[i][1], out);
        chat_buf_puts(out, "}\n\n");
    }

    return CHAT_OK;
}


/* "code", "message", "param" and "call_ids" of an error object. */
static void
chat_responses_refusal(const chat_refusal_t *refusal, chat_buf_t *out)
{
    chat_buf_puts(out, "\"code\":");
    chat_buf_json(out, chat_cstr(refusal->code));
    chat_buf_puts(out, ",\"message\":");
    chat_buf_json(out, chat_cstr(refusal->message));
    chat_buf_puts(out, ",\"param\":\"input\",\"call_ids\":");
    chat_refusal_ids(refusal, out);
}


static void
chat_responses_refuse(const chat_refusal_t *refusal, chat_buf_t *out)
{
    chat_buf_puts(out, "{\"error\":{\"type\":\"invalid_request_error\",");
    chat_responses_refusal(refusal, out);
    chat_buf_puts(out, "}}");
}


static void
chat_responses_refuse_in_band(const chat_refusal_t *refusal, chat_buf_t *out)
{
    chat_buf_puts(out, "event: error\ndata: {\"type\":\"error\",");
    chat_responses_refusal(refusal, out);
    chat_buf_puts(out, ",\"sequence_number\":0,\"error\":{\"type\":"
                       "\"invalid_request_error\",");
    chat_responses_refusal(refusal, out);
    chat_buf_puts(out, "}}\n\n");
}


static const char *const chat_responses_paths[] = { "/responses", "/items",
                                                    NULL };

static const char *const chat_responses_not_paths[] = {
    "/responses/input_tokens", "/responses/compact", NULL
};

static const char *const chat_responses_signature[] = {
    "model",
    "stream",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "instructions",
    "temperature",
    "top_p",
    "max_output_tokens",
    "max_tool_calls",
    "text",
    "reasoning",
    "truncation",
    "include",
    "top_logprobs",
    "service_tier",
    "background",
    "prompt",
    "store",
    NULL,
};

const chat_dialect_t chat_dialect_openai_responses = {
    .name = "openai_responses",
    .messages = "input",
    .weak_recur = 1,
    .numbered = 1,
    .chains = 1,
    .takes_ids = 1,
    .breaks = 1,
    .only_decided = 1,
    .paths = chat_responses_paths,
    .not_paths = chat_responses_not_paths,
    .signature = chat_responses_signature,
    .request = chat_responses_request,
    .splice = chat_responses_splice,
    .open = chat_responses_open,
    .boring = chat_responses_boring,
    .idle = chat_responses_idle,
    .read = chat_responses_read,
    .interrupted = chat_responses_interrupted,
    .empty = chat_responses_empty,
    .refuse = chat_responses_refuse,
    .refuse_in_band = chat_responses_refuse_in_band,
};
