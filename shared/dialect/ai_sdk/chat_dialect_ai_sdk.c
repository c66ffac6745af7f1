/*
 * chat_dialect_ai_sdk.c: the AI SDK's UI message stream, versions 5 to 7.
 *
 * Each frame is one JSON object with a type; calls are known by toolCallId,
 * nothing is numbered. The reader keeps one slot per call id of the stream.
 * Promises: what it does not know is OPAQUE; memory is bounded: ids and names
 * past CHAT_AI_SDK_NAME_MAX, and calls past CHAT_AI_SDK_SLOTS_MAX, are OPAQUE
 * too, so they pass untouched.
 * Must not know: what becomes of a call or a frame.
 */

#include "dialect/ai_sdk/chat_dialect_ai_sdk.h"


/* A frame that is being read. */
typedef struct {
    chat_ai_sdk_reader_t *reader;
    chat_arena_t         *arena;
    chat_json_doc_t      *doc;
    chat_events_t        *events;
    chat_str_t            id; /* toolCallId */
} chat_ai_sdk_chunk_t;

/* How a type of chunk is read; value is the table's. */
typedef chat_rc_e (*chat_ai_sdk_chunk_pt)(chat_ai_sdk_chunk_t *chunk,
                                          unsigned             value);


static const chat_json_t *
chat_ai_sdk_member(const chat_ai_sdk_chunk_t *chunk, const char *key)
{
    return chat_json_get(chunk->doc, chunk->doc->root, key);
}


static chat_event_t *
chat_ai_sdk_emit(const chat_ai_sdk_chunk_t *chunk, chat_event_e type)
{
    chat_event_t *event = chat_events_add(chunk->events, type);

    if (event != NULL) {
        event->id = chunk->id;
    }

    return event;
}


static chat_rc_e
chat_ai_sdk_opaque(const chat_ai_sdk_chunk_t *chunk)
{
    return chat_events_put(chunk->events, CHAT_EVENT_OPAQUE);
}


static chat_rc_e
chat_ai_sdk_plain(chat_ai_sdk_chunk_t *chunk, unsigned type)
{
    return chat_events_put(chunk->events, type);
}


static chat_rc_e
chat_ai_sdk_start(chat_ai_sdk_chunk_t *chunk, unsigned value)
{
    chunk->id =
        chat_json_string(chunk->doc, chat_ai_sdk_member(chunk, "messageId"));

    return chat_ai_sdk_emit(chunk, CHAT_EVENT_TURN_OPEN) != NULL ? CHAT_OK
                                                                 : CHAT_ERROR;
}


static chat_rc_e
chat_ai_sdk_end(chat_ai_sdk_chunk_t *chunk, unsigned end)
{
    chat_event_t *event = chat_events_add(chunk->events, CHAT_EVENT_TURN_END);

    if (event == NULL) {
        return CHAT_ERROR;
    }

    event->end = end;

    /* So an app says that its own provider broke off. */
    if (end == CHAT_END_FINISHED && chunk->doc != NULL
        && chat_json_is(chunk->doc, chat_ai_sdk_member(chunk, "finishReason"),
                        "interrupted"))
    {
        event->end = CHAT_END_INTERRUPTED;
    }

    return CHAT_OK;
}


/*
 * Opens the chunk's call, or opens it again: name and nature are those that
 * the chunk gives. CHAT_DECLINED: past a bound.
 */
static chat_rc_e
chat_ai_sdk_call_open(chat_ai_sdk_chunk_t *chunk, chat_ai_sdk_slot_t **opened)
{
    chat_ai_sdk_reader_t *reader = chunk->reader;
    chat_ai_sdk_slot_t   *slot = chat_ai_sdk_find(reader, chunk->id);
    chat_event_t         *event;
    chat_str_t            name;

    name = chat_json_string(chunk->doc, chat_ai_sdk_member(chunk, "toolName"));

    if (chunk->id.len == 0 || chunk->id.len > CHAT_AI_SDK_NAME_MAX
        || name.len > CHAT_AI_SDK_NAME_MAX
        || (slot == NULL && reader->count == CHAT_AI_SDK_SLOTS_MAX))
    {
        return CHAT_DECLINED;
    }

    if (slot == NULL) {
        slot = chat_ai_sdk_add(reader, chunk->arena, chunk->id);
        if (slot == NULL) {
            return CHAT_ERROR;
        }
    }

    if (!chat_str_eq(slot->name, name)
        && chat_arena_dup(chunk->arena, name, &slot->name) != CHAT_OK)
    {
        return CHAT_ERROR;
    }

    slot->ready = 0;
    slot->dynamic = chat_json_true(chat_ai_sdk_member(chunk, "dynamic"));
    slot->provider =
        chat_json_true(chat_ai_sdk_member(chunk, "providerExecuted"));

    event = chat_ai_sdk_emit(chunk, CHAT_EVENT_CALL_OPEN);
    if (event == NULL) {
        return CHAT_ERROR;
    }

    event->slot = (uint32_t) (slot - reader->slots);
    event->kind = slot->provider ? CHAT_KIND_PROVIDER : CHAT_KIND_CLIENT;
    event->name = name;
    *opened = slot;

    return CHAT_OK;
}


static chat_rc_e
chat_ai_sdk_input_start(chat_ai_sdk_chunk_t *chunk, unsigned value)
{
    chat_ai_sdk_slot_t *slot;
    chat_rc_e           rc = chat_ai_sdk_call_open(chunk, &slot);

    return rc == CHAT_DECLINED ? chat_ai_sdk_opaque(chunk) : rc;
}


static chat_rc_e
chat_ai_sdk_input_delta(chat_ai_sdk_chunk_t *chunk, unsigned value)
{
    const chat_ai_sdk_slot_t *slot;
    const chat_json_t        *delta;
    chat_event_t             *event;

    slot = chat_ai_sdk_find(chunk->reader, chunk->id);
    if (slot == NULL) {
        return chat_ai_sdk_opaque(chunk);
    }

    event = chat_ai_sdk_emit(chunk, CHAT_EVENT_CALL_ARGS);
    if (event == NULL) {
        return CHAT_ERROR;
    }

    delta = chat_ai_sdk_member(chunk, "inputTextDelta");
    event->slot = (uint32_t) (slot - chunk->reader->slots);
    event->text = chat_json_string(chunk->doc, delta);

    return CHAT_OK;
}


/* The arguments are complete, or (failed) will never be right. */
static chat_rc_e
chat_ai_sdk_input_ready(chat_ai_sdk_chunk_t *chunk, unsigned failed)
{
    chat_ai_sdk_slot_t *slot = chat_ai_sdk_find(chunk->reader, chunk->id);
    chat_event_t       *event;
    chat_str_t          name;
    chat_rc_e           rc;

    if (slot == NULL || slot->ready) {
        rc = chat_ai_sdk_call_open(chunk, &slot);
        if (rc != CHAT_OK) {
            return rc == CHAT_DECLINED ? chat_ai_sdk_opaque(chunk) : rc;
        }
    }

    event = chat_ai_sdk_emit(chunk, CHAT_EVENT_CALL_READY);
    if (event == NULL) {
        return CHAT_ERROR;
    }

    name = chat_json_string(chunk->doc, chat_ai_sdk_member(chunk, "toolName"));

    slot->ready = 1;
    slot->provider |=
        chat_json_true(chat_ai_sdk_member(chunk, "providerExecuted"));

    event->slot = (uint32_t) (slot - chunk->reader->slots);
    event->kind = slot->provider ? CHAT_KIND_PROVIDER : CHAT_KIND_CLIENT;
    event->name = name.len != 0 ? name : slot->name;
    event->text =
        chat_json_raw(chunk->doc, chat_ai_sdk_member(chunk, "input"));
    event->whole = 1;
    event->failed = failed;

    return CHAT_OK;
}


/* A call is to be approved; the decision will name the question alone. */
static chat_rc_e
chat_ai_sdk_ask(chat_ai_sdk_chunk_t *chunk, unsigned value)
{
    chat_str_t question;

    question =
        chat_json_string(chunk->doc, chat_ai_sdk_member(chunk, "approvalId"));

    if (chat_ai_sdk_note_ask(chunk->reader, chunk->arena, question, chunk->id)
            != CHAT_OK
        || chat_ai_sdk_emit(chunk, CHAT_EVENT_CALL_ASK) == NULL)
    {
        return CHAT_ERROR;
    }

    return CHAT_OK;
}


/* The decision that the server itself has made, or says again. */
static chat_rc_e
chat_ai_sdk_decide(chat_ai_sdk_chunk_t *chunk, unsigned value)
{
    chunk->id = chat_ai_sdk_asked(
        chunk->reader,
        chat_json_string(chunk->doc, chat_ai_sdk_member(chunk, "approvalId")));

    if (chunk->id.len == 0) {
        return chat_ai_sdk_opaque(chunk);
    }

    return chat_ai_sdk_emit(chunk, CHAT_EVENT_CALL_ASK) != NULL ? CHAT_OK
                                                                : CHAT_ERROR;
}


chat_rc_e
chat_ai_sdk_result(chat_json_doc_t *doc, const chat_json_t *node,
                   chat_outcome_e outcome, chat_str_t *text,
                   chat_digest_t *digest)
{
    if (outcome == CHAT_OUTCOME_DENIED) {
        return CHAT_OK;
    }

    if (node == NULL) {
        *text = chat_cstr(outcome == CHAT_OUTCOME_ERROR ? "\"\"" : "null");
        chat_digest(*text, digest);
        return CHAT_OK;
    }

    *text = chat_json_raw(doc, node);

    return chat_json_digest(doc, node, digest);
}


static chat_rc_e
chat_ai_sdk_output(chat_ai_sdk_chunk_t *chunk, unsigned outcome)
{
    const chat_json_t *node;
    chat_event_t      *event;

    event = chat_ai_sdk_emit(chunk, CHAT_EVENT_CALL_RESULT);
    if (event == NULL) {
        return CHAT_ERROR;
    }

    event->outcome = outcome;
    if (outcome == CHAT_OUTCOME_OK
        && chat_json_true(chat_ai_sdk_member(chunk, "preliminary")))
    {
        event->outcome = CHAT_OUTCOME_PARTIAL;
    }

    node = chat_ai_sdk_member(
        chunk, outcome == CHAT_OUTCOME_ERROR ? "errorText" : "output");

    return chat_ai_sdk_result(chunk->doc, node, event->outcome, &event->text,
                              &event->digest);
}


/* All types of chunk that mean something; needs_id: OPAQUE without an id. */
static const struct {
    const char          *type;
    chat_ai_sdk_chunk_pt read;
    unsigned             value;
    unsigned             needs_id;
} chat_ai_sdk_chunks[] = {
    { "start", chat_ai_sdk_start, 0, 0 },
    { "start-step", chat_ai_sdk_plain, CHAT_EVENT_STEP_OPEN, 0 },
    { "finish-step", chat_ai_sdk_plain, CHAT_EVENT_STEP_SEAL, 0 },
    { "reset-step", chat_ai_sdk_plain, CHAT_EVENT_STEP_RESET, 0 },
    { "finish", chat_ai_sdk_end, CHAT_END_FINISHED, 0 },
    { "abort", chat_ai_sdk_end, CHAT_END_ABORTED, 0 },
    { "error", chat_ai_sdk_end, CHAT_END_FAILED, 0 },
    { "tool-input-start", chat_ai_sdk_input_start, 0, 1 },
    { "tool-input-delta", chat_ai_sdk_input_delta, 0, 1 },
    { "tool-input-available", chat_ai_sdk_input_ready, 0, 1 },
    { "tool-input-error", chat_ai_sdk_input_ready, 1, 1 },
    { "tool-approval-request", chat_ai_sdk_ask, 0, 1 },
    { "tool-approval-response", chat_ai_sdk_decide, 0, 0 },
    { "tool-output-available", chat_ai_sdk_output, CHAT_OUTCOME_OK, 1 },
    { "tool-output-error", chat_ai_sdk_output, CHAT_OUTCOME_ERROR, 1 },
    { "tool-output-denied", chat_ai_sdk_output, CHAT_OUTCOME_DENIED, 1 },
};


/* 1 if a stream of this dialect may begin with a chunk of this type. */
static int
chat_ai_sdk_may_begin(chat_str_t type)
{
    static const char *const starts[] = {
        "start",
        "text-",
        "reasoning-",
        "data-",
        "tool-",
        "source-",
        "message-metadata",
        "file",
        "error",
        "finish",
        "abort",
        "reset-step",
        "custom",
        "steering-message",
    };
    size_t i;

    for (i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        if (chat_str_starts(type, starts[i])) {
            return 1;
        }
    }

    return 0;
}


static chat_rc_e
chat_ai_sdk_read(void *state, chat_arena_t *arena, const chat_frame_t *frame,
                 chat_json_doc_t *doc, chat_events_t *events)
{
    chat_ai_sdk_chunk_t chunk = { state, arena, doc, events, { NULL, 0 } };
    const chat_json_t  *type;
    size_t              i;

    /* An empty data: line dispatches nothing. */
    if (!frame->has_data || frame->data.len == 0) {
        return CHAT_OK;
    }

    if (doc == NULL) {
        return chat_str_is(frame->data, "[DONE]")
                   ? chat_ai_sdk_end(&chunk, CHAT_END_FINISHED)
                   : CHAT_DECLINED;
    }

    type = chat_ai_sdk_member(&chunk, "type");
    if (type == NULL || type->type != CHAT_JSON_STRING) {
        return CHAT_DECLINED;
    }

    /* other dialects have types, too */
    if (!chunk.reader->begun
        && !chat_ai_sdk_may_begin(chat_json_string(doc, type)))
    {
        return CHAT_DECLINED;
    }

    chunk.reader->begun = 1;
    chunk.id = chat_json_string(doc, chat_ai_sdk_member(&chunk, "toolCallId"));

    for (i = 0; i < sizeof(chat_ai_sdk_chunks) / sizeof(chat_ai_sdk_chunks[0]);
         i++)
    {
        if (chat_json_is(doc, type, chat_ai_sdk_chunks[i].type)) {
            if (chat_ai_sdk_chunks[i].needs_id && chunk.id.len == 0) {
                break;
            }

            return chat_ai_sdk_chunks[i].read(&chunk,
                                              chat_ai_sdk_chunks[i].value);
        }
    }

    return chat_ai_sdk_opaque(&chunk);
}


static int
chat_ai_sdk_boring(void *state, const chat_frame_t *frame)
{
    static const char *const starts[] = { "{\"type\":\"text-",
                                          "{\"type\":\"reasoning-",
                                          "{\"type\":\"data-" };
    chat_str_t               rest;
    size_t                   i, len;

    for (i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        if (!chat_str_starts(frame->data, starts[i])) {
            continue;
        }

        len = strlen(starts[i]);
        rest = chat_str(frame->data.data + len, frame->data.len - len);

        /* The last type counts; its letters may be written as \u007x. */
        return !chat_str_has(rest, "\"type\"") && !chat_str_has(rest, "\\u00");
    }

    return 0;
}


static const char *const chat_ai_sdk_texts[] = { "\"delta\":\"", NULL };


const chat_dialect_t chat_dialect_ai_sdk = {
    .name = "ai_sdk",
    .messages = "messages",
    .says = chat_ai_sdk_says,
    .weak_by_message = 1,
    .one_by_one = 1,
    .candidate = 1,
    .resends = 1,
    .sse_header = "x-vercel-ai-ui-message-stream: v1",
    .request = chat_ai_sdk_request,
    .splice = chat_ai_sdk_splice,
    .mend = chat_ai_sdk_mend,
    .open = chat_ai_sdk_open,
    .boring = chat_ai_sdk_boring,
    .texts = chat_ai_sdk_texts,
    .read = chat_ai_sdk_read,
    .rename = chat_ai_sdk_rename,
    .history = chat_ai_sdk_retell,
    .resolve_pending = chat_ai_sdk_settle,
    .interrupted = chat_ai_sdk_interrupted,
    .empty = chat_ai_sdk_empty,
    .bounce = chat_ai_sdk_bounce,
    .inject = chat_ai_sdk_tell,
    .refuse = chat_refusal_json,
    .refuse_in_band = chat_ai_sdk_refuse_in_band,
};
