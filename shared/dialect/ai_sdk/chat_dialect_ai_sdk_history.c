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
enum {
    IN_START = 0x0001, /* tool-input-start, of a part */
    IN_AGAIN = 0x0002, /* the same, of tool-input-available */
    IN_READY = 0x0004, /* tool-input-available */
    IN_WRONG = 0x0008, /* tool-input-error */
    IN_CALL = 0x000f,
    IN_OK = 0x0010,    /* tool-output-available */
    IN_ERROR = 0x0020, /* tool-output-error */
    IN_RESULT = 0x0030,
    IN_ASK = 0x0040,   /* tool-approval-request, of an approval */
    IN_BEGIN = 0x0080, /* text-start, reasoning-start */
    IN_DELTA = 0x0100,
    IN_END = 0x0200,
    IN_FILE = 0x0400,
    IN_URL = 0x0800,
    IN_DOCUMENT = 0x1000,
    IN_CUSTOM = 0x2000,
    IN_STEERING = 0x4000,
    IN_DATA = 0x8000
};

/* What a client takes as the value of a member: types of JSON, as bits. */
enum {
    STRING = 1 << CHAT_JSON_STRING,
    FLAG = 1 << CHAT_JSON_TRUE | 1 << CHAT_JSON_FALSE,
    LIST = 1 << CHAT_JSON_ARRAY,
    OBJECT = 1 << CHAT_JSON_OBJECT,
    ANY = 0xff
};

static const struct {
    const char *from; /* key in the part */
    const char *to;   /* key in the chunk */
    unsigned    types;
    unsigned    chunks;
    unsigned    must; /* chunks that are not made without it */
} members[] = {
    { "id", "approvalId", STRING, IN_ASK, IN_ASK },
    { "descriptor", "approvalDescriptor", ANY, IN_ASK, 0 },
    { "inputSchemaInput", "inputSchemaInput", ANY, IN_ASK, 0 },
    { "requestReason", "reason", STRING, IN_ASK, 0 },
    { "isAutomatic", "isAutomatic", FLAG, IN_ASK, 0 },
    { "signature", "signature", STRING, IN_ASK, 0 },
    { "input", "input", ANY, IN_READY, 0 },
    { "rawInput", "input", ANY, IN_WRONG, IN_WRONG },
    { "output", "output", ANY, IN_OK, 0 },
    { "errorText", "errorText", STRING, IN_WRONG, IN_WRONG },
    { "errorText", "errorText", STRING, IN_ERROR, IN_ERROR },
    { "preliminary", "preliminary", FLAG, IN_OK, 0 },
    { "providerExecuted", "providerExecuted", FLAG, IN_CALL | IN_RESULT, 0 },
    { "toolMetadata", "toolMetadata", OBJECT, IN_CALL, 0 },
    { "callProviderMetadata", "providerMetadata", OBJECT, IN_START | IN_READY,
      0 },
    { "resultProviderMetadata", "providerMetadata", OBJECT, IN_RESULT, 0 },
    { "text", "delta", STRING, IN_DELTA, IN_DELTA },
    { "citations", "citations", LIST, IN_END, 0 },
    { "sourceId", "sourceId", STRING, IN_URL, IN_URL },
    { "sourceId", "sourceId", STRING, IN_DOCUMENT, IN_DOCUMENT },
    { "url", "url", STRING, IN_FILE, IN_FILE },
    { "url", "url", STRING, IN_URL, IN_URL },
    { "mediaType", "mediaType", STRING, IN_FILE, IN_FILE },
    { "mediaType", "mediaType", STRING, IN_DOCUMENT, IN_DOCUMENT },
    { "title", "title", STRING, IN_CALL | IN_URL | IN_DOCUMENT, IN_DOCUMENT },
    { "filename", "filename", STRING, IN_DOCUMENT, 0 },
    { "kind", "kind", STRING, IN_CUSTOM, IN_CUSTOM },
    { "id", "id", STRING, IN_STEERING | IN_DATA, IN_STEERING },
    { "parts", "parts", LIST, IN_STEERING, IN_STEERING },
    { "data", "data", ANY, IN_DATA, 0 },
    { "providerMetadata", "providerMetadata", OBJECT,
      IN_AGAIN | IN_BEGIN | IN_FILE | IN_URL | IN_DOCUMENT | IN_CUSTOM, 0 },
};

#define CHAT_HISTORY_KEYS (sizeof(members) / sizeof(members[0]))
#define CHAT_HISTORY_MEMBERS 64 /* of a part: none has so many */

/* A message that is being replayed. */
typedef struct {
    chat_json_doc_t   *doc;
    chat_buf_t        *out;
    const chat_json_t *part;    /* of the present call, and */
    chat_str_t         name;    /* of its tool */
    int                dynamic; /* it is a dynamic-tool */
    uint32_t           texts;   /* so far */
    int                step;    /* one is open */
} history_t;


/* The value for this row of members; NULL: there is none that fits. */
static const chat_json_t *
find_member(const history_t *h, const chat_json_t *from, size_t i)
{
    const chat_json_t *node = chat_json_get(h->doc, from, members[i].from);

    return node != NULL && (members[i].types >> node->type & 1) ? node : NULL;
}


/* 1 if from has all that a chunk must have. */
static int
has_members(const history_t *h, const chat_json_t *from, unsigned chunk)
{
    size_t i;

    for (i = 0; i < CHAT_HISTORY_KEYS; i++) {
        if ((members[i].must & chunk) && find_member(h, from, i) == NULL) {
            return 0;
        }
    }

    return 1;
}


/* Ends a chunk, with its members of this part or approval. */
static void
end_chunk(const history_t *h, const chat_json_t *from, unsigned chunk)
{
    size_t             i;
    const chat_json_t *node;

    for (i = 0; i < CHAT_HISTORY_KEYS; i++) {
        node = members[i].chunks & chunk ? find_member(h, from, i) : NULL;

        if (node != NULL) {
            chat_buf_format(h->out, ",\"%s\":%l", members[i].to,
                            chat_json_raw(h->doc, node));
        }
    }

    chat_buf_puts(h->out, "}\n\n");
}


/* ---- calls ---- */


/* Begins a chunk about the present call. */
static void
begin_about(const history_t *h, const char *type)
{
    chat_buf_format(
        h->out, "data: {\"type\":\"%s\",\"toolCallId\":%v", type,
        chat_json_raw(h->doc, chat_json_get(h->doc, h->part, "toolCallId")));
}


/* A chunk about the present call, with members of its part or approval. */
static void
put_about(const history_t *h, const char *type, unsigned chunk,
          const chat_json_t *from)
{
    begin_about(h, type);

    if (chunk & IN_CALL) {
        chat_buf_format(h->out, ",\"toolName\":%j", h->name);
    }

    if (h->dynamic && (chunk & (IN_CALL | IN_RESULT))) {
        chat_buf_puts(h->out, ",\"dynamic\":true");
    }

    end_chunk(h, from, chunk);
}


/* The call, and all its arguments as if they were still coming. */
static void
put_input(const history_t *h, unsigned chunk)
{
    size_t             from;
    const chat_json_t *input = chat_json_get(h->doc, h->part, "input");

    put_about(h, "tool-input-start", chunk, h->part);

    if (input != NULL) {
        begin_about(h, "tool-input-delta");
        chat_buf_puts(h->out, ",\"inputTextDelta\":");
        from = h->out->len;
        chat_buf_one_line(h->out, chat_json_raw(h->doc, input));
        chat_buf_quote(h->out, from);
        chat_buf_puts(h->out, "}\n\n");
    }
}


/* Leaves out a call if no chunk can give its state. */
static void
put_call(const history_t *h)
{
    int                asks;
    const chat_json_t *part = h->part;
    chat_ai_sdk_part_e state =
        chat_ai_sdk_part_state(h->doc, chat_json_get(h->doc, part, "state"));
    const chat_json_t *approval = chat_json_get(h->doc, part, "approval");

    asks = has_members(h, approval, IN_ASK);

    if (state == CHAT_PART_UNKNOWN || state == CHAT_PART_STREAMING
        || (state == CHAT_PART_ERROR && !has_members(h, part, IN_ERROR))
        || (state == CHAT_PART_ASKED && !asks)
        || (state == CHAT_PART_RESPONDED && !asks))
    {
        return;
    }

    if (state == CHAT_PART_READY) {
        put_about(h, "tool-input-available", IN_READY, part);
        return;
    }

    if (state == CHAT_PART_ERROR
        && chat_json_get(h->doc, part, "input") == NULL
        && has_members(h, part, IN_WRONG))
    {
        put_about(h, "tool-input-error", IN_WRONG, part);
        return;
    }

    put_input(h, IN_START);

    if (state == CHAT_PART_OK) {
        put_about(h, "tool-output-available", IN_OK, part);

    } else if (state == CHAT_PART_ERROR) {
        put_about(h, "tool-output-error", IN_ERROR, part);

    } else if (asks) {
        /* how it was decided has no chunk that all versions know */
        put_about(h, "tool-approval-request", IN_ASK, approval);
    }

    if (state == CHAT_PART_DENIED) {
        put_about(h, "tool-output-denied", 0, part);
    }
}


/* ---- other parts ---- */


/* Three chunks that share an id: the part's own if it has one. */
static void
put_text(history_t *h, const chat_json_t *part, chat_str_t type)
{
    size_t             i;
    const chat_json_t *id =
        chat_json_typed(h->doc, part, "id", CHAT_JSON_STRING);

    static const char *const names[] = { "start", "delta", "end" };
    static const unsigned    chunks[] = { IN_BEGIN, IN_DELTA, IN_END };

    if (!has_members(h, part, IN_DELTA)) {
        return;
    }

    for (i = 0; i < 3; i++) {
        chat_buf_format(h->out, "data: {\"type\":\"%v-%s\",\"id\":", type,
                        names[i]);

        if (id != NULL) {
            chat_buf_add(h->out, chat_json_raw(h->doc, id));
        } else {
            chat_buf_format(h->out, "\"before-%u\"", h->texts);
        }

        end_chunk(h, part, chunks[i]);
    }

    h->texts++;
}


static void
put_step(history_t *h, int open)
{
    chat_buf_puts(h->out,
                  h->step ? "data: {\"type\":\"finish-step\"}\n\n" : "");
    chat_buf_puts(h->out, open ? "data: {\"type\":\"start-step\"}\n\n" : "");
    h->step = open;
}


/* A part that is a chunk as it stands, or nothing that can be said. */
static void
put_other(const history_t *h, const chat_json_t *part, chat_str_t type)
{
    size_t i;

    static const struct {
        const char *type; /* or how it begins */
        unsigned    chunk;
    } kinds[] = {
        { "file", IN_FILE },      { "reasoning-file", IN_FILE },
        { "source-url", IN_URL }, { "source-document", IN_DOCUMENT },
        { "custom", IN_CUSTOM },  { "steering-message", IN_STEERING },
        { "data-", IN_DATA },
    };

    for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if ((chat_str_is(type, kinds[i].type)
             || (kinds[i].chunk == IN_DATA && chat_str_starts(type, "data-")))
            && has_members(h, part, kinds[i].chunk))
        {
            chat_buf_format(h->out, "data: {\"type\":%j", type);
            end_chunk(h, part, kinds[i].chunk);
        }
    }
}


static void
put_part(history_t *h, const chat_json_t *part)
{
    chat_str_t type = chat_json_text(h->doc, part, "type");

    if (chat_json_count(part) > CHAT_HISTORY_MEMBERS) {
        return;
    }

    if (chat_ai_sdk_part_call(h->doc, part, type, &h->name)) {
        h->part = part;
        h->dynamic = chat_str_is(type, "dynamic-tool");

        if (h->name.len != 0
            && chat_json_typed(h->doc, part, "toolCallId", CHAT_JSON_STRING))
        {
            put_call(h);
        }

    } else if (chat_str_is(type, "step-start")) {
        put_step(h, 1);

    } else if (chat_str_is(type, "text") || chat_str_is(type, "reasoning")) {
        put_text(h, part, type);

    } else {
        put_other(h, part, type);
    }
}


chat_rc_e
chat_ai_sdk_history(chat_json_doc_t *doc, chat_buf_t *out)
{
    history_t          history = { .doc = doc, .out = out };
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
    chat_str_t         id;
    history_t          h = { .doc = doc, .out = out, .part = doc->root };
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

        h.name = chat_json_text(doc, doc->root, "toolName");
        h.dynamic = call.dynamic;
        put_input(&h, IN_AGAIN);
        chat_ai_sdk_tell(&result, 1, out);
    }

    return out->failed ? CHAT_ERROR : CHAT_OK;
}
