/*
 * chat_dialect_gemini_stream.c: reads answers of Gemini.
 *
 * A call comes whole in a part, or, on Vertex, as a part that opens it, parts
 * with pieces of its arguments and one that ends it. Its slot is its number
 * in the stream. Only the first candidate's calls are read: no client can
 * answer those of others.
 * Promises: each functionCall part of that candidate gives exactly one
 * CALL_ARGS, or an OPAQUE if it is of no call, in the order of the frame; one
 * end per stream, when no candidate is awaited any more.
 * Must not know: which calls are dropped.
 */

#include "dialect/gemini/chat_dialect_gemini.h"

#define CHAT_GEMINI_OPENED 4096 /* calls of a stream that are read */

/* A call, whose arguments may be coming in pieces. */
typedef struct {
    uint32_t            slot;
    chat_str_t          id;
    chat_str_t          name;
    chat_gemini_args_t *args; /* NULL: they are whole */
} chat_gemini_pending_t;

typedef struct {
    chat_arena_t         *arena;  /* of the stream */
    chat_events_t        *events; /* of the frame */
    chat_json_doc_t      *doc;
    chat_gemini_args_t   *args; /* the pieces of one call at a time */
    chat_gemini_pending_t pending;
    uint32_t              since;       /* answers since the user's words */
    uint32_t              opened;      /* calls */
    uint32_t              seen;        /* candidates, a bit each */
    uint32_t              done;        /* those that have their finishReason */
    unsigned              in_call : 1; /* pending is one */
    unsigned              open : 1;    /* a chunk was seen */
    unsigned              stopped : 1; /* the calls are for the client */
    int                   ended;
} chat_gemini_stream_t;


void *
chat_gemini_open(chat_arena_t *arena, const chat_request_t *rq)
{
    chat_gemini_stream_t *state = chat_arena_alloc(arena, sizeof(*state));

    if (state && rq) {
        state->since = rq->next.since;
    }

    return state;
}


/* The frame is {}: some servers send it to keep a connection. */
int
chat_gemini_idle(const chat_frame_t *frame)
{
    size_t     i, n = 0;
    chat_str_t s = frame->data;

    for (i = 0; i < s.len; i++) {
        if (s.data[i] == ' ' || s.data[i] == '\n') {
            continue;
        }

        if (n == 2 || s.data[i] != (n ? '}' : '{')) {
            return 0;
        }

        n++;
    }

    return n == 2;
}


int
chat_gemini_boring(void *data, const chat_frame_t *frame)
{
    size_t                   i;
    chat_str_t               s = frame->data;
    chat_gemini_stream_t    *state = data;
    static const char *const words[] = { "functionCall", "function_call",
                                         "\"finishReason\"", "\"error\"",
                                         "\"blockReason\"" };

    if (!(state->seen & 1) || s.len == 0 || s.data[0] != '{') {
        return 0;
    }

    for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (chat_str_has(s, words[i])) {
            return 0;
        }
    }

    /* Another candidate than the first must be noted: it is awaited. */
    return chat_str_has(s, "{\"candidates\":")
           && (!chat_str_has(s, "\"index\":")
               || (chat_str_has(s, "\"index\":0")
                   && !chat_str_has(s, "},{\"content\"")));
}


/* An event of a call. */
static chat_event_t *
chat_gemini_event(chat_gemini_stream_t *state, chat_event_e type,
                  const chat_gemini_pending_t *call)
{
    chat_event_t *event = chat_events_add(state->events, type);

    if (event) {
        event->slot = call->slot;
        event->id = call->id;
        event->name = call->name;
        event->kind = CHAT_KIND_CLIENT;
    }

    return event;
}


/* A call's arguments are all there; its part has them, or they are pending. */
static chat_rc_e
chat_gemini_ready(chat_gemini_stream_t        *state,
                  const chat_gemini_pending_t *call, const chat_json_t *args)
{
    chat_rc_e     rc;
    chat_event_t *event;

    event = chat_gemini_event(state, CHAT_EVENT_CALL_READY, call);
    if (event == NULL) {
        return CHAT_ERROR;
    }

    event->whole = 1;

    if (call->args == NULL) {
        event->text = args ? chat_json_raw(state->doc, args) : chat_cstr("{}");
        return CHAT_OK;
    }

    state->in_call = 0;

    rc = chat_gemini_args_text(call->args, state->events->arena, &event->text);
    event->unreadable = rc == CHAT_LIMIT;

    return rc == CHAT_ERROR ? rc : CHAT_OK;
}


/* Notes a call whose arguments come in pieces; these are the first. */
static chat_rc_e
chat_gemini_await(chat_gemini_stream_t *state, chat_gemini_pending_t *call,
                  const chat_json_t *pieces)
{
    if (state->args == NULL) {
        state->args = chat_gemini_args_create(state->arena);
        if (state->args == NULL) {
            return CHAT_ERROR;
        }
    }

    chat_gemini_args_begin(state->args);
    call->args = state->args;

    if (chat_arena_dup(state->arena, call->id, &call->id) != CHAT_OK
        || chat_arena_dup(state->arena, call->name, &call->name) != CHAT_OK)
    {
        return CHAT_ERROR;
    }

    state->pending = *call;
    state->in_call = 1;

    return chat_gemini_args_add(call->args, state->doc, pieces);
}


/* A part that opens a call; with all of it, or with more to come. */
static chat_rc_e
chat_gemini_opens(chat_gemini_stream_t *state, const chat_json_t *function,
                  const chat_json_t *pieces, chat_str_t name, int more)
{
    chat_gemini_pending_t call = { 0 };

    call.slot = state->opened++;
    call.name = name;
    call.id = chat_gemini_id(state->doc, state->events->arena, function,
                             state->since, call.slot);
    if (call.id.data == NULL) {
        return CHAT_ERROR;
    }

    /* One that never came to its end is half open, and stays so. */
    state->in_call = 0;

    if ((more || pieces) && chat_gemini_await(state, &call, pieces) != CHAT_OK)
    {
        return CHAT_ERROR;
    }

    if (!chat_gemini_event(state, CHAT_EVENT_CALL_OPEN, &call)
        || !chat_gemini_event(state, CHAT_EVENT_CALL_ARGS, &call))
    {
        return CHAT_ERROR;
    }

    return more ? CHAT_OK
                : chat_gemini_ready(
                    state, &call, chat_json_get(state->doc, function, "args"));
}


/* A functionCall part. */
static chat_rc_e
chat_gemini_call(chat_gemini_stream_t *state, const chat_json_t *function)
{
    int                more;
    chat_str_t         name;
    const chat_json_t *pieces;

    more = chat_gemini_goes_on(state->doc, function);
    name = chat_json_text(state->doc, function, "name");
    pieces = chat_json_get(state->doc, function, "partialArgs");

    if (name.len && state->opened < CHAT_GEMINI_OPENED) {
        return chat_gemini_opens(state, function, pieces, name, more);
    }

    if (name.len || !state->in_call) {
        return chat_events_put(state->events, CHAT_EVENT_OPAQUE);
    }

    if (chat_gemini_args_add(state->pending.args, state->doc, pieces)
        || !chat_gemini_event(state, CHAT_EVENT_CALL_ARGS, &state->pending))
    {
        return CHAT_ERROR;
    }

    return more ? CHAT_OK : chat_gemini_ready(state, &state->pending, NULL);
}


static chat_rc_e
chat_gemini_chunk_of(chat_gemini_stream_t *state, int32_t index,
                     const chat_json_t *candidate)
{
    chat_str_t         reason;
    const chat_json_t *parts, *part, *function;

    state->seen |= UINT32_C(1) << index;

    if (index == 0) {
        parts = chat_gemini_parts(
            state->doc, chat_json_get(state->doc, candidate, "content"));

        for (part = chat_gemini_first(parts); part;
             part = chat_gemini_next(parts, part))
        {
            function = chat_gemini_function(state->doc, part);

            if (function && chat_gemini_call(state, function) != CHAT_OK) {
                return CHAT_ERROR;
            }
        }
    }

    reason = chat_json_text(state->doc, candidate, "finishReason");

    /* The enumeration's own word for none, which some servers write. */
    if (reason.len && !chat_str_is(reason, "FINISH_REASON_UNSPECIFIED")) {
        state->done |= UINT32_C(1) << index;
        state->stopped |= index == 0 && chat_str_is(reason, "STOP");
    }

    return CHAT_OK;
}


static chat_rc_e
chat_gemini_turn(chat_gemini_stream_t *state)
{
    chat_event_t *event;

    if (state->open) {
        return CHAT_OK;
    }

    event = chat_events_add(state->events, CHAT_EVENT_TURN_OPEN);
    if (event == NULL) {
        return CHAT_ERROR;
    }

    event->id = chat_json_text(state->doc, state->doc->root, "responseId");
    state->open = 1;

    return CHAT_OK;
}


static chat_rc_e
chat_gemini_chunk(chat_gemini_stream_t *state, const chat_json_t *candidates)
{
    int32_t            index;
    const chat_json_t *node;

    for (node = chat_gemini_first(candidates); node;
         node = chat_gemini_next(candidates, node))
    {
        index = chat_gemini_candidate(state->doc, node);

        if (index >= 0 && chat_gemini_chunk_of(state, index, node)) {
            return CHAT_ERROR;
        }
    }

    if (state->ended || state->done == 0 || state->done != state->seen) {
        return CHAT_OK;
    }

    if (state->stopped && !state->in_call
        && chat_events_put(state->events, CHAT_EVENT_STEP_SEAL) != CHAT_OK)
    {
        return CHAT_ERROR;
    }

    return chat_events_end(state->events, CHAT_END_FINISHED, &state->ended);
}


/* 1 if the prompt was refused: no candidate will come. */
static int
chat_gemini_blocked(chat_json_doc_t *doc)
{
    const chat_json_t *feedback;

    feedback = chat_json_get(doc, doc->root, "promptFeedback");

    return chat_json_text(doc, feedback, "blockReason").len != 0;
}


/* Answers CHAT_DECLINED for what is nothing of this dialect. */
static chat_rc_e
chat_gemini_object(chat_gemini_stream_t *state)
{
    chat_rc_e          rc;
    chat_json_doc_t   *doc = state->doc;
    const chat_json_t *error, *candidates;

    error = chat_json_get(doc, doc->root, "error");
    candidates = chat_json_get(doc, doc->root, "candidates");

    if (error && error->type == CHAT_JSON_OBJECT) {
        return chat_events_end(state->events, CHAT_END_FAILED, &state->ended);
    }

    if ((candidates == NULL || candidates->type != CHAT_JSON_ARRAY)
        && !chat_json_get(doc, doc->root, "promptFeedback")
        && !chat_json_get(doc, doc->root, "usageMetadata"))
    {
        return CHAT_DECLINED;
    }

    rc = chat_gemini_turn(state);

    if (rc == CHAT_OK && candidates) {
        rc = chat_gemini_chunk(state, candidates);
    }

    if (rc == CHAT_OK && state->seen == 0 && chat_gemini_blocked(doc)) {
        rc = chat_events_end(state->events, CHAT_END_FINISHED, &state->ended);
    }

    return rc;
}


chat_rc_e
chat_gemini_read(void *data, chat_arena_t *arena, const chat_frame_t *frame,
                 chat_json_doc_t *doc, chat_events_t *events)
{
    size_t                before = events->count;
    chat_rc_e             rc = CHAT_DECLINED;
    chat_gemini_stream_t *state = data;

    if (!frame->has_data || chat_gemini_idle(frame)) {
        return CHAT_OK;
    }

    state->arena = arena;
    state->events = events;
    state->doc = doc;

    if (doc) {
        rc = chat_gemini_object(state);
    }

    if (rc == CHAT_DECLINED) {
        rc = state->open || frame->data.len == 0 ? CHAT_OK : CHAT_DECLINED;
    }

    return rc == CHAT_OK && events->count == before
               ? chat_events_put(events, CHAT_EVENT_OPAQUE)
               : rc;
}
