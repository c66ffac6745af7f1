/*
 * chat_dialect_ai_sdk_retell.c: a message of the AI SDK's transcript, said
 * once more as the events of a stream.
 *
 * Whoever resumes a stream begins with an empty message: what it had before
 * the stream began, and what has become of its calls since, it must be told.
 * Promises: a chunk is of a type that a client which has such a part knows,
 * and each member is as the client demands it; a part that cannot be said is
 * left out; a call that has its result is told without the event at which the
 * client runs its tool.
 * Must not know: streams that are being read, stores, policy.
 */

#include "dialect/ai_sdk/chat_dialect_ai_sdk_retell.h"

#define CHAT_RETELL_MEMBERS 64 /* of a part: none has so many */

/* A message that is being told. */
typedef struct {
    chat_json_doc_t *doc;
    chat_buf_t      *out;
    uint32_t         texts; /* so far */
    int              step;  /* one is open */
} chat_retell_t;


/* Begins a chunk about the call of this part. */
static void
chat_retell_about(chat_json_doc_t *doc, const chat_json_t *part,
                  const char *type, chat_buf_t *out)
{
    chat_ai_sdk_chunk_begin(type, out);
    chat_buf_puts(out, ",\"toolCallId\":");
    chat_buf_add(out,
                 chat_json_raw(doc, chat_json_get(doc, part, "toolCallId")));
}


/* A chunk that opens the call, or makes it ready. */
static void
chat_retell_call(chat_json_doc_t *doc, const chat_json_t *part,
                 const char *type, unsigned chunk, chat_str_t name,
                 int dynamic, chat_buf_t *out)
{
    chat_retell_about(doc, part, type, out);
    chat_buf_puts(out, ",\"toolName\":");
    chat_buf_json(out, name);
    chat_buf_puts(out, dynamic ? ",\"dynamic\":true" : "");
    chat_ai_sdk_chunk_end(doc, part, chunk, out);
}


/* All arguments of the call at once, as if they were still coming. */
static void
chat_retell_input(chat_json_doc_t *doc, const chat_json_t *part,
                  chat_buf_t *out)
{
    chat_buf_t         line = { 0 };
    const chat_json_t *input = chat_json_get(doc, part, "input");

    if (input == NULL) {
        return;
    }

    chat_buf_one_line(&line, chat_json_raw(doc, input));
    chat_retell_about(doc, part, "tool-input-delta", out);
    chat_buf_puts(out, ",\"inputTextDelta\":");
    chat_buf_json(out, chat_buf_str(&line));
    chat_buf_puts(out, "}\n\n");

    out->failed |= line.failed;
    chat_buf_free(&line);
}


/* What is said of the call behind its arguments. */
static void
chat_retell_state(chat_retell_t *retell, const chat_json_t *part,
                  chat_ai_sdk_part_e state, int dynamic)
{
    chat_buf_t        *out = retell->out;
    chat_json_doc_t   *doc = retell->doc;
    const chat_json_t *approval = chat_json_get(doc, part, "approval");

    if (state == CHAT_PART_OK || state == CHAT_PART_ERROR) {
        chat_retell_about(doc, part,
                          state == CHAT_PART_OK ? "tool-output-available"
                                                : "tool-output-error",
                          out);
        chat_buf_puts(out, dynamic ? ",\"dynamic\":true" : "");
        chat_ai_sdk_chunk_end(
            doc, part,
            state == CHAT_PART_OK ? CHAT_CHUNK_OK : CHAT_CHUNK_ERROR, out);
        return;
    }

    /* how it was decided has no chunk that all versions know */
    if (chat_ai_sdk_chunk_has(doc, approval, CHAT_CHUNK_ASK)) {
        chat_retell_about(doc, part, "tool-approval-request", out);
        chat_ai_sdk_chunk_end(doc, approval, CHAT_CHUNK_ASK, out);
    }

    if (state == CHAT_PART_DENIED) {
        chat_retell_about(doc, part, "tool-output-denied", out);
        chat_ai_sdk_chunk_end(doc, part, CHAT_CHUNK_PLAIN, out);
    }
}


/* 1 if the call can be said in the state that it is in. */
static int
chat_retell_tells(chat_json_doc_t *doc, const chat_json_t *part,
                  chat_ai_sdk_part_e state)
{
    const chat_json_t *id = chat_json_get(doc, part, "toolCallId");
    const chat_json_t *name = chat_json_get(doc, part, "toolName");

    if (id == NULL || id->type != CHAT_JSON_STRING
        || (chat_ai_sdk_part_is(doc, part, "dynamic-tool")
            && (name == NULL || name->type != CHAT_JSON_STRING)))
    {
        return 0;
    }

    switch (state) {
    case CHAT_PART_UNKNOWN:
    case CHAT_PART_STREAMING:
        return 0;
    case CHAT_PART_ERROR:
        return chat_ai_sdk_chunk_has(doc, part, CHAT_CHUNK_ERROR);
    case CHAT_PART_ASKED:
    case CHAT_PART_RESPONDED:
        return chat_ai_sdk_chunk_has(doc, chat_json_get(doc, part, "approval"),
                                     CHAT_CHUNK_ASK);
    default:
        return 1;
    }
}


static void
chat_retell_tool(chat_retell_t *retell, const chat_json_t *part,
                 chat_str_t name)
{
    int                dynamic;
    chat_json_doc_t   *doc = retell->doc;
    chat_ai_sdk_part_e state = chat_ai_sdk_part_state(doc, part);

    dynamic = chat_ai_sdk_part_is(doc, part, "dynamic-tool");

    if (!chat_retell_tells(doc, part, state)) {
        return;
    }

    if (state == CHAT_PART_READY) {
        chat_retell_call(doc, part, "tool-input-available", CHAT_CHUNK_READY,
                         name, dynamic, retell->out);
        return;
    }

    if (state == CHAT_PART_ERROR && chat_json_get(doc, part, "input") == NULL
        && chat_ai_sdk_chunk_has(doc, part, CHAT_CHUNK_WRONG))
    {
        chat_retell_call(doc, part, "tool-input-error", CHAT_CHUNK_WRONG, name,
                         dynamic, retell->out);
        return;
    }

    chat_retell_call(doc, part, "tool-input-start", CHAT_CHUNK_START, name,
                     dynamic, retell->out);
    chat_retell_input(doc, part, retell->out);
    chat_retell_state(retell, part, state, dynamic);
}


/* The id that the three chunks of a text share: the part's own if it has. */
static void
chat_retell_id(chat_retell_t *retell, const chat_json_t *part)
{
    const chat_json_t *own = chat_json_get(retell->doc, part, "id");

    chat_buf_puts(retell->out, ",\"id\":");

    if (own != NULL && own->type == CHAT_JSON_STRING) {
        chat_buf_add(retell->out, chat_json_raw(retell->doc, own));
    } else {
        chat_buf_printf(retell->out, "\"before-%u\"", retell->texts);
    }
}


static void
chat_retell_text(chat_retell_t *retell, const chat_json_t *part,
                 const char *type)
{
    size_t i;

    static const struct {
        const char *name;
        unsigned    chunk;
    } chunks[] = { { "start", CHAT_CHUNK_BEGIN },
                   { "delta", CHAT_CHUNK_DELTA },
                   { "end", CHAT_CHUNK_END } };

    if (!chat_ai_sdk_chunk_has(retell->doc, part, CHAT_CHUNK_DELTA)) {
        return;
    }

    for (i = 0; i < sizeof(chunks) / sizeof(chunks[0]); i++) {
        chat_buf_printf(retell->out, "data: {\"type\":\"%s-%s\"", type,
                        chunks[i].name);
        chat_retell_id(retell, part);
        chat_ai_sdk_chunk_end(retell->doc, part, chunks[i].chunk, retell->out);
    }

    retell->texts++;
}


static void
chat_retell_step(chat_retell_t *retell, int open)
{
    if (retell->step) {
        chat_ai_sdk_chunk_begin("finish-step", retell->out);
        chat_buf_puts(retell->out, "}\n\n");
    }

    if (open) {
        chat_ai_sdk_chunk_begin("start-step", retell->out);
        chat_buf_puts(retell->out, "}\n\n");
    }

    retell->step = open;
}


/* A part that is a chunk as it stands, or nothing that can be said. */
static void
chat_retell_other(chat_retell_t *retell, const chat_json_t *part,
                  chat_str_t type)
{
    size_t           i;
    chat_json_doc_t *doc = retell->doc;

    static const struct {
        const char *type;
        unsigned    chunk;
    } kinds[] = {
        { "file", CHAT_CHUNK_FILE },
        { "reasoning-file", CHAT_CHUNK_FILE },
        { "source-url", CHAT_CHUNK_URL },
        { "source-document", CHAT_CHUNK_DOCUMENT },
        { "custom", CHAT_CHUNK_CUSTOM },
        { "steering-message", CHAT_CHUNK_STEERING },
    };

    if (chat_str_starts(type, "data-")) {
        chat_buf_puts(retell->out, "data: {\"type\":");
        chat_buf_json(retell->out, type);
        chat_ai_sdk_chunk_end(doc, part, CHAT_CHUNK_DATA, retell->out);
        return;
    }

    for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (chat_str_is(type, kinds[i].type)
            && chat_ai_sdk_chunk_has(doc, part, kinds[i].chunk))
        {
            chat_ai_sdk_chunk_begin(kinds[i].type, retell->out);
            chat_ai_sdk_chunk_end(doc, part, kinds[i].chunk, retell->out);
        }
    }
}


static void
chat_retell_part(chat_retell_t *retell, const chat_json_t *part)
{
    chat_str_t name, type;

    if (chat_json_count(part) > CHAT_RETELL_MEMBERS) {
        return;
    }

    type = chat_json_text(retell->doc, part, "type");

    if (chat_ai_sdk_part_call(retell->doc, part, &name)) {
        chat_retell_tool(retell, part, name);

    } else if (chat_str_is(type, "step-start")) {
        chat_retell_step(retell, 1);

    } else if (chat_str_is(type, "text") || chat_str_is(type, "reasoning")) {
        chat_retell_text(retell, part,
                         chat_str_is(type, "text") ? "text" : "reasoning");

    } else {
        chat_retell_other(retell, part, type);
    }
}


chat_rc_e
chat_ai_sdk_retell(chat_json_doc_t *doc, chat_buf_t *out)
{
    chat_retell_t      retell = { doc, out, 0, 0 };
    const chat_json_t *part, *id, *parts, *metadata, *message;

    message = chat_ai_sdk_last_message(doc);
    id = chat_json_get(doc, message, "id");
    parts = chat_json_get(doc, message, "parts");
    metadata = chat_json_get(doc, message, "metadata");

    if (!chat_json_is(doc, chat_json_get(doc, message, "role"), "assistant")
        || chat_json_is(doc, chat_json_get(doc, doc->root, "trigger"),
                        "regenerate-message")
        || id == NULL || id->type != CHAT_JSON_STRING || parts == NULL
        || parts->type != CHAT_JSON_ARRAY)
    {
        return CHAT_DECLINED;
    }

    chat_ai_sdk_chunk_begin("start", out);
    chat_buf_puts(out, ",\"messageId\":");
    chat_buf_add(out, chat_json_raw(doc, id));

    if (metadata != NULL && metadata->type != CHAT_JSON_NULL) {
        chat_buf_puts(out, ",\"messageMetadata\":");
        chat_buf_one_line(out, chat_json_raw(doc, metadata));
    }

    chat_buf_puts(out, "}\n\n");

    for (part = parts->child; part != NULL; part = part->next) {
        chat_retell_part(&retell, part);
    }

    chat_retell_step(&retell, 0);

    return out->failed ? CHAT_ERROR : CHAT_OK;
}


chat_rc_e
chat_ai_sdk_settle(chat_json_doc_t *doc, const chat_result_t *results,
                   size_t n, chat_buf_t *out)
{
    size_t             i;
    chat_str_t         id, name;
    chat_call_t        call;
    chat_result_t      result;
    const chat_json_t *type = chat_json_get(doc, doc->root, "type");
    int                ready = chat_json_is(doc, type, "tool-input-available");

    if (!ready && !chat_json_is(doc, type, "tool-approval-request")) {
        return CHAT_DECLINED;
    }

    id = chat_json_text(doc, doc->root, "toolCallId");

    for (i = 0; i < n && !chat_str_eq(results[i].id, id); i++) {
        /* void */
    }

    if (i == n) {
        return CHAT_DECLINED;
    }

    /* nobody is asked whether a call may run that has its result */
    if (ready) {
        memset(&call, 0, sizeof(call));
        call.id = id;
        call.in_last_message = 1;
        call.dynamic =
            chat_json_true(chat_json_get(doc, doc->root, "dynamic"));

        result = results[i];
        result.call = &call;

        name = chat_json_text(doc, doc->root, "toolName");
        chat_retell_call(doc, doc->root, "tool-input-start", CHAT_CHUNK_AGAIN,
                         name, call.dynamic, out);
        chat_retell_input(doc, doc->root, out);
        chat_ai_sdk_tell(&result, 1, out);
    }

    return out->failed ? CHAT_ERROR : CHAT_OK;
}
