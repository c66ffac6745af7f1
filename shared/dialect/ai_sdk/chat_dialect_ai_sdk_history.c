/*
 * chat_dialect_ai_sdk_history.c: replays a message of the AI SDK's transcript
 * as the events of a stream.
 *
 * A client that resumes a stream begins with an empty message. It needs what
 * the message had before the stream began, and what has become of its calls
 * since.
 * Promises: a chunk is of a type that versions 5 to 7 know, with the members
 * that they demand; a part without a chunk is left out; a call that has its
 * result is replayed without the event at which the client runs its tool.
 */

#include "dialect/ai_sdk/chat_dialect_ai_sdk.h"

/* The chunks that are made, as bits: in which of them a member goes. */
#define CHAT_CHUNK_START 0x0001u /* tool-input-start, of a part */
#define CHAT_CHUNK_AGAIN 0x0002u /* the same, of tool-input-available */
#define CHAT_CHUNK_READY 0x0004u /* tool-input-available */
#define CHAT_CHUNK_WRONG 0x0008u /* tool-input-error */
#define CHAT_CHUNK_OK 0x0010u    /* tool-output-available */
#define CHAT_CHUNK_ERROR 0x0020u /* tool-output-error */
#define CHAT_CHUNK_ASK 0x0040u   /* tool-approval-request, of an approval */
#define CHAT_CHUNK_BEGIN 0x0080u /* text-start, reasoning-start */
#define CHAT_CHUNK_DELTA 0x0100u
#define CHAT_CHUNK_END 0x0200u
#define CHAT_CHUNK_FILE 0x0400u
#define CHAT_CHUNK_URL 0x0800u
#define CHAT_CHUNK_DOCUMENT 0x1000u
#define CHAT_CHUNK_CUSTOM 0x2000u
#define CHAT_CHUNK_STEERING 0x4000u
#define CHAT_CHUNK_DATA 0x8000u

#define CHAT_CHUNK_CALL \
    (CHAT_CHUNK_START | CHAT_CHUNK_AGAIN | CHAT_CHUNK_READY | CHAT_CHUNK_WRONG)
#define CHAT_CHUNK_RESULT (CHAT_CHUNK_OK | CHAT_CHUNK_ERROR)

/* What a member must be, for a client to take it. */
typedef enum {
    CHAT_CHUNK_STRING,
    CHAT_CHUNK_FLAG,
    CHAT_CHUNK_LIST,
    CHAT_CHUNK_OBJECT,
    CHAT_CHUNK_METADATA, /* an object of objects */
    CHAT_CHUNK_ANY
} chat_chunk_kind_e;

/* Members: from is the part's key, to the chunk's. */
static const struct {
    const char       *from;
    const char       *to;
    chat_chunk_kind_e kind;
    unsigned          chunks;
    unsigned          must; /* chunks that are not made without it */
} chunk_members[] = {
    { "id", "approvalId", CHAT_CHUNK_STRING, CHAT_CHUNK_ASK, CHAT_CHUNK_ASK },
    { "descriptor", "approvalDescriptor", CHAT_CHUNK_ANY, CHAT_CHUNK_ASK, 0 },
    { "inputSchemaInput", "inputSchemaInput", CHAT_CHUNK_ANY, CHAT_CHUNK_ASK,
      0 },
    { "requestReason", "reason", CHAT_CHUNK_STRING, CHAT_CHUNK_ASK, 0 },
    { "isAutomatic", "isAutomatic", CHAT_CHUNK_FLAG, CHAT_CHUNK_ASK, 0 },
    { "signature", "signature", CHAT_CHUNK_STRING, CHAT_CHUNK_ASK, 0 },
    { "input", "input", CHAT_CHUNK_ANY, CHAT_CHUNK_READY, 0 },
    { "rawInput", "input", CHAT_CHUNK_ANY, CHAT_CHUNK_WRONG,
      CHAT_CHUNK_WRONG },
    { "output", "output", CHAT_CHUNK_ANY, CHAT_CHUNK_OK, 0 },
    { "errorText", "errorText", CHAT_CHUNK_STRING,
      CHAT_CHUNK_WRONG | CHAT_CHUNK_ERROR,
      CHAT_CHUNK_WRONG | CHAT_CHUNK_ERROR },
    { "preliminary", "preliminary", CHAT_CHUNK_FLAG, CHAT_CHUNK_OK, 0 },
    { "providerExecuted", "providerExecuted", CHAT_CHUNK_FLAG,
      CHAT_CHUNK_CALL | CHAT_CHUNK_RESULT, 0 },
    { "toolMetadata", "toolMetadata", CHAT_CHUNK_OBJECT, CHAT_CHUNK_CALL, 0 },
    { "callProviderMetadata", "providerMetadata", CHAT_CHUNK_METADATA,
      CHAT_CHUNK_START | CHAT_CHUNK_READY, 0 },
    { "resultProviderMetadata", "providerMetadata", CHAT_CHUNK_METADATA,
      CHAT_CHUNK_RESULT, 0 },
    { "text", "delta", CHAT_CHUNK_STRING, CHAT_CHUNK_DELTA, CHAT_CHUNK_DELTA },
    { "citations", "citations", CHAT_CHUNK_LIST, CHAT_CHUNK_END, 0 },
    { "sourceId", "sourceId", CHAT_CHUNK_STRING,
      CHAT_CHUNK_URL | CHAT_CHUNK_DOCUMENT,
      CHAT_CHUNK_URL | CHAT_CHUNK_DOCUMENT },
    { "url", "url", CHAT_CHUNK_STRING, CHAT_CHUNK_FILE | CHAT_CHUNK_URL,
      CHAT_CHUNK_FILE | CHAT_CHUNK_URL },
    { "mediaType", "mediaType", CHAT_CHUNK_STRING,
      CHAT_CHUNK_FILE | CHAT_CHUNK_DOCUMENT,
      CHAT_CHUNK_FILE | CHAT_CHUNK_DOCUMENT },
    { "title", "title", CHAT_CHUNK_STRING,
      CHAT_CHUNK_CALL | CHAT_CHUNK_URL | CHAT_CHUNK_DOCUMENT,
      CHAT_CHUNK_DOCUMENT },
    { "filename", "filename", CHAT_CHUNK_STRING, CHAT_CHUNK_DOCUMENT, 0 },
    { "kind", "kind", CHAT_CHUNK_STRING, CHAT_CHUNK_CUSTOM,
      CHAT_CHUNK_CUSTOM },
    { "id", "id", CHAT_CHUNK_STRING, CHAT_CHUNK_STEERING | CHAT_CHUNK_DATA,
      CHAT_CHUNK_STEERING },
    { "parts", "parts", CHAT_CHUNK_LIST, CHAT_CHUNK_STEERING,
      CHAT_CHUNK_STEERING },
    { "data", "data", CHAT_CHUNK_ANY, CHAT_CHUNK_DATA, 0 },
    { "providerMetadata", "providerMetadata", CHAT_CHUNK_METADATA,
      CHAT_CHUNK_AGAIN | CHAT_CHUNK_BEGIN | CHAT_CHUNK_FILE | CHAT_CHUNK_URL
          | CHAT_CHUNK_DOCUMENT | CHAT_CHUNK_CUSTOM,
      0 },
};


static int
chunk_fits(const chat_json_t *node, chat_chunk_kind_e kind)
{
    const chat_json_t *member;

    switch (kind) {
    case CHAT_CHUNK_STRING:
        return node->type == CHAT_JSON_STRING;
    case CHAT_CHUNK_FLAG:
        return node->type == CHAT_JSON_TRUE || node->type == CHAT_JSON_FALSE;
    case CHAT_CHUNK_LIST:
        return node->type == CHAT_JSON_ARRAY;
    case CHAT_CHUNK_METADATA:
        for (member = node->child; member != NULL; member = member->next) {
            if (member->type != CHAT_JSON_OBJECT) {
                return 0;
            }
        }
        /* fall through */
    case CHAT_CHUNK_OBJECT:
        return node->type == CHAT_JSON_OBJECT;
    default:
        return 1;
    }
}


static int
chunk_has(chat_json_doc_t *doc, const chat_json_t *part, unsigned chunk)
{
    size_t             i;
    const chat_json_t *node;

    for (i = 0; i < sizeof(chunk_members) / sizeof(chunk_members[0]); i++) {
        if (chunk_members[i].must & chunk) {
            node = chat_json_get(doc, part, chunk_members[i].from);

            if (node == NULL || !chunk_fits(node, chunk_members[i].kind)) {
                return 0;
            }
        }
    }

    return 1;
}


static void
chunk_end(chat_json_doc_t *doc, const chat_json_t *part, unsigned chunk,
          chat_buf_t *out)
{
    size_t             i;
    const chat_json_t *node;

    for (i = 0; i < sizeof(chunk_members) / sizeof(chunk_members[0]); i++) {
        if ((chunk_members[i].chunks & chunk) == 0) {
            continue;
        }

        node = chat_json_get(doc, part, chunk_members[i].from);

        if (node != NULL && chunk_fits(node, chunk_members[i].kind)) {
            chat_buf_format(out, ",\"%s\":%l", chunk_members[i].to,
                            chat_json_raw(doc, node));
        }
    }

    chat_buf_puts(out, "}\n\n");
}


/* ---- the parts of a message ---- */

#define CHAT_HISTORY_MEMBERS 64 /* of a part: none has so many */

/* A message that is being replayed. */
typedef struct {
    chat_json_doc_t *doc;
    chat_buf_t      *out;
    uint32_t         texts; /* so far */
    int              step;  /* one is open */
} chat_history_t;


/* Begins a chunk about the call of this part. */
static void
begin_about(chat_json_doc_t *doc, const chat_json_t *part, const char *type,
            chat_buf_t *out)
{
    chat_buf_format(
        out, "data: {\"type\":\"%s\",\"toolCallId\":%v", type,
        chat_json_raw(doc, chat_json_get(doc, part, "toolCallId")));
}


/* A chunk that opens the call, or makes it ready. */
static void
put_call(chat_json_doc_t *doc, const chat_json_t *part, const char *type,
         unsigned chunk, chat_str_t name, int dynamic, chat_buf_t *out)
{
    begin_about(doc, part, type, out);
    chat_buf_format(out, ",\"toolName\":%j%s", name,
                    dynamic ? ",\"dynamic\":true" : "");
    chunk_end(doc, part, chunk, out);
}


/* All arguments of the call at once, as if they were still coming. */
static void
put_input(chat_json_doc_t *doc, const chat_json_t *part, chat_buf_t *out)
{
    size_t             from;
    const chat_json_t *input = chat_json_get(doc, part, "input");

    if (input == NULL) {
        return;
    }

    begin_about(doc, part, "tool-input-delta", out);
    chat_buf_puts(out, ",\"inputTextDelta\":");
    from = out->len;
    chat_buf_one_line(out, chat_json_raw(doc, input));
    chat_buf_quote(out, from);
    chat_buf_puts(out, "}\n\n");
}


/* What is said of the call behind its arguments. */
static void
put_state(chat_history_t *h, const chat_json_t *part, chat_ai_sdk_part_e state,
          int dynamic)
{
    int                ok = state == CHAT_PART_OK;
    const chat_json_t *approval = chat_json_get(h->doc, part, "approval");

    if (ok || state == CHAT_PART_ERROR) {
        begin_about(h->doc, part,
                    ok ? "tool-output-available" : "tool-output-error",
                    h->out);
        chat_buf_puts(h->out, dynamic ? ",\"dynamic\":true" : "");
        chunk_end(h->doc, part, ok ? CHAT_CHUNK_OK : CHAT_CHUNK_ERROR, h->out);
        return;
    }

    /* how it was decided has no chunk that all versions know */
    if (chunk_has(h->doc, approval, CHAT_CHUNK_ASK)) {
        begin_about(h->doc, part, "tool-approval-request", h->out);
        chunk_end(h->doc, approval, CHAT_CHUNK_ASK, h->out);
    }

    if (state == CHAT_PART_DENIED) {
        begin_about(h->doc, part, "tool-output-denied", h->out);
        chat_buf_puts(h->out, "}\n\n");
    }
}


/* 1 if the call can be said in the state that it is in. */
static int
has_chunk(chat_json_doc_t *doc, const chat_json_t *part,
          chat_ai_sdk_part_e state)
{
    if (!chat_json_typed(doc, part, "toolCallId", CHAT_JSON_STRING)
        || (chat_json_has(doc, part, "type", "dynamic-tool")
            && !chat_json_typed(doc, part, "toolName", CHAT_JSON_STRING)))
    {
        return 0;
    }

    switch (state) {
    case CHAT_PART_UNKNOWN:
    case CHAT_PART_STREAMING:
        return 0;
    case CHAT_PART_ERROR:
        return chunk_has(doc, part, CHAT_CHUNK_ERROR);
    case CHAT_PART_ASKED:
    case CHAT_PART_RESPONDED:
        return chunk_has(doc, chat_json_get(doc, part, "approval"),
                         CHAT_CHUNK_ASK);
    default:
        return 1;
    }
}


static void
put_tool(chat_history_t *h, const chat_json_t *part, chat_str_t name)
{
    chat_json_doc_t   *doc = h->doc;
    chat_ai_sdk_part_e state = chat_ai_sdk_part_state(doc, part);
    int dynamic = chat_json_has(doc, part, "type", "dynamic-tool");

    if (!has_chunk(doc, part, state)) {
        return;
    }

    if (state == CHAT_PART_READY) {
        put_call(doc, part, "tool-input-available", CHAT_CHUNK_READY, name,
                 dynamic, h->out);
        return;
    }

    if (state == CHAT_PART_ERROR && chat_json_get(doc, part, "input") == NULL
        && chunk_has(doc, part, CHAT_CHUNK_WRONG))
    {
        put_call(doc, part, "tool-input-error", CHAT_CHUNK_WRONG, name,
                 dynamic, h->out);
        return;
    }

    put_call(doc, part, "tool-input-start", CHAT_CHUNK_START, name, dynamic,
             h->out);
    put_input(doc, part, h->out);
    put_state(h, part, state, dynamic);
}


/* Three chunks that share an id: the part's own if it has one. */
static void
put_text(chat_history_t *h, const chat_json_t *part, const char *type)
{
    size_t             i;
    const chat_json_t *id =
        chat_json_typed(h->doc, part, "id", CHAT_JSON_STRING);

    static const struct {
        const char *name;
        unsigned    chunk;
    } chunks[] = { { "start", CHAT_CHUNK_BEGIN },
                   { "delta", CHAT_CHUNK_DELTA },
                   { "end", CHAT_CHUNK_END } };

    if (!chunk_has(h->doc, part, CHAT_CHUNK_DELTA)) {
        return;
    }

    for (i = 0; i < sizeof(chunks) / sizeof(chunks[0]); i++) {
        chat_buf_format(h->out, "data: {\"type\":\"%s-%s\",\"id\":", type,
                        chunks[i].name);

        if (id != NULL) {
            chat_buf_add(h->out, chat_json_raw(h->doc, id));
        } else {
            chat_buf_format(h->out, "\"before-%u\"", h->texts);
        }

        chunk_end(h->doc, part, chunks[i].chunk, h->out);
    }

    h->texts++;
}


static void
put_step(chat_history_t *h, int open)
{
    chat_buf_puts(h->out,
                  h->step ? "data: {\"type\":\"finish-step\"}\n\n" : "");
    chat_buf_puts(h->out, open ? "data: {\"type\":\"start-step\"}\n\n" : "");
    h->step = open;
}


/* A part that is a chunk as it stands, or nothing that can be said. */
static void
put_other(chat_history_t *h, const chat_json_t *part, chat_str_t type)
{
    size_t           i;
    chat_json_doc_t *doc = h->doc;

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
        chat_buf_format(h->out, "data: {\"type\":%j", type);
        chunk_end(doc, part, CHAT_CHUNK_DATA, h->out);
        return;
    }

    for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (chat_str_is(type, kinds[i].type)
            && chunk_has(doc, part, kinds[i].chunk)) {
            chat_buf_format(h->out, "data: {\"type\":\"%s\"", kinds[i].type);
            chunk_end(doc, part, kinds[i].chunk, h->out);
        }
    }
}


static void
put_part(chat_history_t *h, const chat_json_t *part)
{
    chat_str_t name, type;

    if (chat_json_count(part) > CHAT_HISTORY_MEMBERS) {
        return;
    }

    type = chat_json_text(h->doc, part, "type");

    if (chat_ai_sdk_part_call(h->doc, part, &name)) {
        put_tool(h, part, name);

    } else if (chat_str_is(type, "step-start")) {
        put_step(h, 1);

    } else if (chat_str_is(type, "text") || chat_str_is(type, "reasoning")) {
        put_text(h, part, chat_str_is(type, "text") ? "text" : "reasoning");

    } else {
        put_other(h, part, type);
    }
}


chat_rc_e
chat_ai_sdk_history(chat_json_doc_t *doc, chat_buf_t *out)
{
    chat_history_t     history = { doc, out, 0, 0 };
    const chat_json_t *part, *id, *parts, *metadata, *message;

    message = chat_ai_sdk_last_message(doc);
    id = chat_json_typed(doc, message, "id", CHAT_JSON_STRING);
    parts = chat_json_typed(doc, message, "parts", CHAT_JSON_ARRAY);
    metadata = chat_json_get(doc, message, "metadata");

    if (!chat_json_has(doc, message, "role", "assistant")
        || chat_json_has(doc, doc->root, "trigger", "regenerate-message")
        || id == NULL || parts == NULL)
    {
        return CHAT_DECLINED;
    }

    chat_buf_format(out, "data: {\"type\":\"start\",\"messageId\":%v",
                    chat_json_raw(doc, id));

    if (metadata != NULL && metadata->type != CHAT_JSON_NULL) {
        chat_buf_format(out, ",\"messageMetadata\":%l",
                        chat_json_raw(doc, metadata));
    }

    chat_buf_puts(out, "}\n\n");

    for (part = parts->child; part != NULL; part = part->next) {
        put_part(&history, part);
    }

    put_step(&history, 0);

    return out->failed ? CHAT_ERROR : CHAT_OK;
}


chat_rc_e
chat_ai_sdk_resolve_pending(chat_json_doc_t *doc, const chat_result_t *results,
                            size_t n, chat_buf_t *out)
{
    size_t             i;
    chat_str_t         id, name;
    chat_call_t        call = { .in_last_message = 1 };
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

    /* a call that has its result needs no approval */
    if (ready) {
        call.id = id;
        call.dynamic = chat_json_flag(doc, doc->root, "dynamic");
        result = results[i];
        result.call = &call;

        name = chat_json_text(doc, doc->root, "toolName");
        put_call(doc, doc->root, "tool-input-start", CHAT_CHUNK_AGAIN, name,
                 call.dynamic, out);
        put_input(doc, doc->root, out);
        chat_ai_sdk_tell(&result, 1, out);
    }

    return out->failed ? CHAT_ERROR : CHAT_OK;
}
