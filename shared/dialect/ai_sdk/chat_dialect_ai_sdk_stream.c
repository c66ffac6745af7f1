/*
 * chat_dialect_ai_sdk_stream.c: reads the AI SDK's UI message stream, versions
 * 5 to 7.
 *
 * Each frame is one JSON object with a type; calls are known by toolCallId,
 * nothing is numbered. What is not known, and what is past a bound, is OPAQUE
 * and so passes untouched.
 */

#include "dialect/ai_sdk/chat_dialect_ai_sdk.h"

#define CHAT_AI_SDK_ASKS_MAX 4096 /* approvals of a stream that are kept */

typedef chat_ai_sdk_reader_t reader_t;


static const chat_json_t *
member(const reader_t *r, const char *key)
{
    return chat_reader_get(&r->reader, key);
}


/* What only has a type. */
static void
plain(reader_t *r, unsigned type)
{
    chat_events_add(r->reader.events, type);
}


static void
start_turn(reader_t *r, unsigned value)
{
    chat_events_add(r->reader.events, CHAT_EVENT_TURN_OPEN)->id =
        chat_reader_text(&r->reader, "messageId");
}


static void
end_turn(reader_t *r, unsigned end)
{
    chat_event_t *event;

    event = chat_events_add(r->reader.events, CHAT_EVENT_TURN_END);
    event->end = end;

    /* So an app says that its own provider broke off. */
    if (end == CHAT_END_FINISHED && r->reader.doc != NULL
        && chat_json_is(r->reader.doc, member(r, "finishReason"),
                        "interrupted"))
    {
        event->end = CHAT_END_INTERRUPTED;
    }
}


/*
 * Opens the chunk's call, or opens it again: name and nature are those that
 * the chunk gives. NULL: past a bound.
 */
static chat_ai_sdk_call_t *
open_call(reader_t *r)
{
    chat_ai_sdk_call_t *own = chat_calls_open(
        &r->reader.calls, r->id, chat_reader_text(&r->reader, "toolName"));

    if (own == NULL) {
        return NULL;
    }

    own->dynamic = chat_json_true(member(r, "dynamic"));
    own->call.kind = chat_json_true(member(r, "providerExecuted"))
                         ? CHAT_KIND_PROVIDER
                         : CHAT_KIND_CLIENT;
    chat_reader_call(&r->reader, CHAT_EVENT_CALL_OPEN, &own->call);

    return own;
}


static void
input_start(reader_t *r, unsigned value)
{
    (void) open_call(r);
}


static void
input_delta(reader_t *r, unsigned value)
{
    chat_stream_call_t *call = chat_calls_find(&r->reader.calls, r->id);

    if (call != NULL) {
        chat_reader_args(&r->reader, call, member(r, "inputTextDelta"));
    }
}


/* The arguments are complete, or (failed) will never be right. */
static void
input_ready(reader_t *r, unsigned failed)
{
    chat_str_t          name;
    chat_event_t       *event;
    chat_ai_sdk_call_t *own = chat_calls_find(&r->reader.calls, r->id);

    if (own == NULL || own->call.ready) {
        own = open_call(r);
    }

    if (own == NULL) {
        return;
    }

    own->call.ready = 1;
    if (chat_json_true(member(r, "providerExecuted"))) {
        own->call.kind = CHAT_KIND_PROVIDER;
    }

    event = chat_reader_call(&r->reader, CHAT_EVENT_CALL_READY, &own->call);
    name = chat_reader_text(&r->reader, "toolName");
    event->name = name.len != 0 ? name : own->call.name;
    event->text = chat_json_raw(r->reader.doc, member(r, "input"));
    event->whole = 1;
    event->failed = failed;
}


/* The call that an approvalId was given for; NULL: not known. */
static const chat_known_t *
asked(const reader_t *r, chat_str_t approval)
{
    return chat_table_item(&r->asks, approval);
}


/*
 * A call is to be approved. The decision will give the approvalId alone: the
 * first call that it was given for is kept, within bounds.
 */
static void
ask(reader_t *r, unsigned value)
{
    chat_str_t    approval = chat_reader_text(&r->reader, "approvalId");
    chat_known_t *call = NULL;

    chat_events_add(r->reader.events, CHAT_EVENT_CALL_ASK)->id = r->id;

    if (approval.len != 0 && approval.len <= CHAT_ID_MAX
        && r->asks.count < CHAT_AI_SDK_ASKS_MAX && asked(r, approval) == NULL)
    {
        call = chat_calls_learn(&r->reader.calls, r->id);
    }

    if (call != NULL) {
        chat_reader_entry(&r->reader, &r->asks, approval)->item = call;
        r->reader.changed = 1;
    }
}


/* The decision that the server itself has made, or says again. */
static void
decide(reader_t *r, unsigned value)
{
    const chat_known_t *call =
        asked(r, chat_reader_text(&r->reader, "approvalId"));

    if (call != NULL) {
        chat_events_add(r->reader.events, CHAT_EVENT_CALL_ASK)->id = call->id;
    }
}


static void
read_output(reader_t *r, unsigned outcome)
{
    int                failed = outcome == CHAT_OUTCOME_ERROR;
    chat_event_t      *event;
    const chat_json_t *node = member(r, failed ? "errorText" : "output");

    event = chat_events_add(r->reader.events, CHAT_EVENT_CALL_RESULT);
    event->id = r->id;
    event->outcome =
        outcome == CHAT_OUTCOME_OK && chat_json_true(member(r, "preliminary"))
            ? CHAT_OUTCOME_PARTIAL
            : outcome;

    if (outcome == CHAT_OUTCOME_DENIED) {
        return;
    }

    event->text = node != NULL ? chat_json_raw(r->reader.doc, node)
                               : chat_cstr(failed ? CHAT_AI_SDK_NO_ERROR
                                                  : CHAT_AI_SDK_NO_OUTPUT);
    r->reader.calls.failed |=
        chat_result_hash(r->reader.calls.tenant, r->reader.doc, node,
                         event->text, &event->digest)
        != CHAT_OK;
}


/* All types of chunk that mean something; needs_id: OPAQUE without an id. */
static const struct {
    chat_str_t type;
    void (*read)(reader_t *r, unsigned value);
    unsigned value;
    unsigned needs_id;
} chunks[] = {
    { CHAT_STR("start"), start_turn, 0, 0 },
    { CHAT_STR("start-step"), plain, CHAT_EVENT_STEP_OPEN, 0 },
    { CHAT_STR("finish-step"), plain, CHAT_EVENT_STEP_SEAL, 0 },
    { CHAT_STR("reset-step"), plain, CHAT_EVENT_STEP_RESET, 0 },
    { CHAT_STR("finish"), end_turn, CHAT_END_FINISHED, 0 },
    { CHAT_STR("abort"), end_turn, CHAT_END_ABORTED, 0 },
    { CHAT_STR("error"), end_turn, CHAT_END_FAILED, 0 },
    { CHAT_STR("tool-input-start"), input_start, 0, 1 },
    { CHAT_STR("tool-input-delta"), input_delta, 0, 1 },
    { CHAT_STR("tool-input-available"), input_ready, 0, 1 },
    { CHAT_STR("tool-input-error"), input_ready, 1, 1 },
    { CHAT_STR("tool-approval-request"), ask, 0, 1 },
    { CHAT_STR("tool-approval-response"), decide, 0, 0 },
    { CHAT_STR("tool-output-available"), read_output, CHAT_OUTCOME_OK, 1 },
    { CHAT_STR("tool-output-error"), read_output, CHAT_OUTCOME_ERROR, 1 },
    { CHAT_STR("tool-output-denied"), read_output, CHAT_OUTCOME_DENIED, 1 },
};


/* 1 if a stream of this dialect may begin with a chunk of this type. */
static int
may_begin(chat_str_t type)
{
    const char *const *start =
        CHAT_LIST("start", "text-", "reasoning-", "data-", "tool-", "source-",
                  "message-metadata", "file", "error", "finish", "abort",
                  "reset-step", "custom", "steering-message");

    for (/* void */; *start != NULL; start++) {
        if (chat_str_starts(type, *start)) {
            return 1;
        }
    }

    return 0;
}


chat_rc_e
chat_ai_sdk_read(void *reader, const chat_frame_t *frame)
{
    size_t             i;
    chat_str_t         type;
    reader_t          *r = reader;
    const chat_json_t *node;

    if (r->reader.doc == NULL) {
        if (!chat_str_is(frame->data, "[DONE]")) {
            return CHAT_DECLINED;
        }

        end_turn(r, CHAT_END_FINISHED);
        return CHAT_OK;
    }

    node = member(r, "type");
    if (node == NULL || node->type != CHAT_JSON_STRING) {
        return CHAT_DECLINED;
    }

    type = chat_json_string(r->reader.doc, node);

    /* other dialects have types, too */
    if (!r->reader.begun && !may_begin(type)) {
        return CHAT_DECLINED;
    }

    r->id = chat_reader_text(&r->reader, "toolCallId");

    for (i = 0; i < sizeof(chunks) / sizeof(chunks[0]); i++) {
        if (chat_str_eq(type, chunks[i].type)) {
            if (!chunks[i].needs_id || r->id.len != 0) {
                chunks[i].read(r, chunks[i].value);
            }
            break;
        }
    }

    return CHAT_OK;
}
