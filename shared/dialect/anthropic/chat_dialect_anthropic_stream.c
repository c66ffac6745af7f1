/*
 * chat_dialect_anthropic_stream.c: answers of Anthropic Messages.
 *
 * A call is a content block with a start, pieces and a stop; what a frame is
 * says the type in its data. The slot of a call is its block's index, above it
 * the number of the message, for spliced streams begin a second one. Promises:
 * each frame of a block gives one event with the block's slot, so that it can
 * be renumbered; only the digits of an index and the word of a stop_reason
 * are ever changed.
 * Must not know: why a call is dropped.
 */

#include "dialect/anthropic/chat_dialect_anthropic.h"

#include <stdio.h>

#define CHAT_ANTHROPIC_OPENED 4096  /* calls of a stream that are read */
#define CHAT_ANTHROPIC_OPEN 128     /* blocks that are open at once */
#define CHAT_ANTHROPIC_INDEX 0xffff /* the highest index */

/* A block that is a call, between its start and its stop. */
typedef struct chat_anthropic_block_s chat_anthropic_block_t;

struct chat_anthropic_block_s {
    uint32_t                slot;
    chat_kind_e             kind;
    chat_str_t              id;
    chat_str_t              name;
    chat_str_t              input;  /* as its start had it */
    int                     pieces; /* some came */
    chat_anthropic_block_t *next;
};

typedef struct {
    chat_arena_t           *arena; /* of the stream */
    chat_events_t          *events;
    chat_json_doc_t        *doc;
    chat_anthropic_block_t *blocks; /* the open ones, the last one first */
    size_t                  count;
    size_t                  opened;    /* in all */
    uint32_t                base;      /* slot of index 0 */
    unsigned                known : 1; /* a frame of the dialect was seen */
    unsigned                open : 1;  /* a message was opened */
    unsigned                sealed : 1;
    int                     ended;
} chat_anthropic_stream_t;


void *
chat_anthropic_open(chat_arena_t *arena, const chat_request_t *rq)
{
    return chat_arena_alloc(arena, sizeof(chat_anthropic_stream_t));
}


int
chat_anthropic_idle(const chat_frame_t *frame)
{
    return chat_str_starts(frame->data, "{\"type\":\"ping\"")
           || chat_str_starts(frame->data, "{\"type\": \"ping\"");
}


int
chat_anthropic_boring(void *data, const chat_frame_t *frame)
{
    chat_str_t               s = frame->data;
    chat_anthropic_stream_t *state = data;

    if (!state->known || s.len == 0) {
        return 0;
    }

    if (chat_anthropic_idle(frame)) {
        return 1;
    }

    /* Within a delta the type cannot stand in a string: quotes are escaped. */
    return chat_str_starts(s, "{\"type\":\"content_block_delta\"")
           && (chat_str_has(s, "\"type\":\"text_delta\"")
               || chat_str_has(s, "\"type\":\"thinking_delta\""));
}


static chat_event_t *
chat_anthropic_event(chat_anthropic_stream_t *state, chat_event_e type,
                     const chat_anthropic_block_t *block)
{
    chat_event_t *event = chat_events_add(state->events, type);

    if (event && block) {
        event->slot = block->slot;
        event->kind = block->kind;
        event->id = block->id;
        event->name = block->name;
    }

    return event;
}


/* A frame of a block that is no call: its slot counts nevertheless. */
static chat_rc_e
chat_anthropic_opaque(chat_anthropic_stream_t *state, uint32_t slot)
{
    chat_event_t *event = chat_events_add(state->events, CHAT_EVENT_OPAQUE);

    if (event == NULL) {
        return CHAT_ERROR;
    }

    event->slot = slot;

    return CHAT_OK;
}


static chat_anthropic_block_t **
chat_anthropic_at(chat_anthropic_stream_t *state, uint32_t slot)
{
    chat_anthropic_block_t **block = &state->blocks;

    while (*block && (*block)->slot != slot) {
        block = &(*block)->next;
    }

    return block;
}


static chat_rc_e
chat_anthropic_start(chat_anthropic_stream_t *state, uint32_t slot)
{
    chat_kind_e             kind;
    const chat_json_t      *content, *input;
    chat_json_doc_t        *doc = state->doc;
    chat_anthropic_block_t *block;

    content = chat_json_get(doc, doc->root, "content_block");

    if (!chat_anthropic_call(doc, content, &kind)
        || *chat_anthropic_at(state, slot)
        || state->count == CHAT_ANTHROPIC_OPEN
        || state->opened == CHAT_ANTHROPIC_OPENED)
    {
        return chat_anthropic_opaque(state, slot);
    }

    block = chat_arena_alloc(state->arena, sizeof(*block));
    if (block == NULL) {
        return CHAT_ERROR;
    }

    block->slot = slot;
    block->kind = kind;
    input = chat_json_get(doc, content, "input");

    if (chat_arena_dup(state->arena, chat_json_text(doc, content, "id"),
                       &block->id)
        || chat_arena_dup(state->arena, chat_json_text(doc, content, "name"),
                          &block->name)
        || (chat_json_count(input)
            && chat_arena_dup(state->arena, chat_json_raw(doc, input),
                              &block->input)))
    {
        return CHAT_ERROR;
    }

    block->next = state->blocks;
    state->blocks = block;
    state->count++;
    state->opened++;

    return chat_anthropic_event(state, CHAT_EVENT_CALL_OPEN, block)
               ? CHAT_OK
               : CHAT_ERROR;
}


static chat_rc_e
chat_anthropic_delta(chat_anthropic_stream_t *state, uint32_t slot)
{
    chat_event_t           *event;
    const chat_json_t      *delta;
    chat_anthropic_block_t *block = *chat_anthropic_at(state, slot);

    delta = chat_json_get(state->doc, state->doc->root, "delta");

    if (block == NULL
        || !chat_anthropic_type(state->doc, delta, "input_json_delta"))
    {
        return chat_anthropic_opaque(state, slot);
    }

    event = chat_events_add(state->events, CHAT_EVENT_CALL_ARGS);
    if (event == NULL) {
        return CHAT_ERROR;
    }

    event->slot = slot;
    event->text = chat_json_text(state->doc, delta, "partial_json");
    block->pieces |= event->text.len != 0;

    return CHAT_OK;
}


static chat_rc_e
chat_anthropic_stop(chat_anthropic_stream_t *state, uint32_t slot)
{
    chat_event_t            *event;
    chat_anthropic_block_t **at = chat_anthropic_at(state, slot);
    chat_anthropic_block_t  *block = *at;

    if (block == NULL) {
        return chat_anthropic_opaque(state, slot);
    }

    event = chat_anthropic_event(state, CHAT_EVENT_CALL_READY, block);
    if (event == NULL) {
        return CHAT_ERROR;
    }

    if (!block->pieces) {
        event->whole = 1;
        event->text = block->input.len ? block->input : chat_cstr("{}");
    }

    *at = block->next;
    state->count--;

    return CHAT_OK;
}


/* A frame of a content block. */
static chat_rc_e
chat_anthropic_block(chat_anthropic_stream_t *state, chat_str_t type)
{
    int32_t  index;
    uint32_t slot;

    index = chat_json_index(
        state->doc, chat_json_get(state->doc, state->doc->root, "index"));

    if (index < 0 || index > CHAT_ANTHROPIC_INDEX) {
        return chat_events_put(state->events, CHAT_EVENT_OPAQUE);
    }

    slot = state->base | (uint32_t) index;

    if (chat_str_is(type, "content_block_start")) {
        return chat_anthropic_start(state, slot);
    }

    return chat_str_is(type, "content_block_stop")
               ? chat_anthropic_stop(state, slot)
               : chat_anthropic_delta(state, slot);
}


static chat_rc_e
chat_anthropic_turn(chat_anthropic_stream_t *state)
{
    chat_event_t      *event;
    const chat_json_t *message;

    message = chat_json_get(state->doc, state->doc->root, "message");

    event = chat_events_add(state->events, CHAT_EVENT_TURN_OPEN);
    if (event == NULL) {
        return CHAT_ERROR;
    }

    event->id = chat_json_text(state->doc, message, "id");

    /* Blocks of a message that was cut off are never stopped. */
    state->base += state->open ? CHAT_ANTHROPIC_INDEX + 1 : 0;
    state->blocks = NULL;
    state->count = 0;
    state->open = 1;

    return CHAT_OK;
}


/* message_delta: its stop_reason says whether the calls can be answered. */
static chat_rc_e
chat_anthropic_reason(chat_anthropic_stream_t *state)
{
    chat_str_t         reason;
    const chat_json_t *delta;

    delta = chat_json_get(state->doc, state->doc->root, "delta");
    reason = chat_json_text(state->doc, delta, "stop_reason");

    if (reason.len == 0 || state->sealed || state->ended
        || chat_str_is(reason, "max_tokens")
        || chat_str_is(reason, "model_context_window_exceeded"))
    {
        return CHAT_OK;
    }

    state->sealed = 1;

    return chat_events_put(state->events, CHAT_EVENT_STEP_SEAL);
}


/* Answers CHAT_DECLINED for a type that is not of this dialect. */
static chat_rc_e
chat_anthropic_frame(chat_anthropic_stream_t *state)
{
    chat_str_t         type;
    const chat_json_t *error;

    type = chat_json_text(state->doc, state->doc->root, "type");

    if (chat_str_starts(type, "content_block_")) {
        return chat_anthropic_block(state, type);
    }

    if (chat_str_is(type, "message_start")) {
        return chat_anthropic_turn(state);
    }

    if (chat_str_is(type, "message_delta")) {
        return chat_anthropic_reason(state);
    }

    if (chat_str_is(type, "message_stop")) {
        return chat_events_end(state->events, CHAT_END_FINISHED,
                               &state->ended);
    }

    /* Other dialects have errors too: only here it is an object. */
    error = chat_json_get(state->doc, state->doc->root, "error");

    if (chat_str_is(type, "error") && error && error->type == CHAT_JSON_OBJECT)
    {
        return chat_events_end(state->events, CHAT_END_FAILED, &state->ended);
    }

    return chat_str_is(type, "ping") ? CHAT_OK : CHAT_DECLINED;
}


chat_rc_e
chat_anthropic_read(void *data, chat_arena_t *arena, const chat_frame_t *frame,
                    chat_json_doc_t *doc, chat_events_t *events)
{
    size_t                   before = events->count;
    chat_rc_e                rc = CHAT_DECLINED;
    chat_anthropic_stream_t *state = data;

    if (!frame->has_data) {
        return CHAT_OK;
    }

    state->arena = arena;
    state->events = events;
    state->doc = doc;

    if (doc) {
        rc = chat_anthropic_frame(state);
    }

    if (rc == CHAT_DECLINED) {
        if (!state->known && frame->data.len) {
            return CHAT_DECLINED;
        }

        rc = CHAT_OK;

    } else {
        state->known = 1;
    }

    return rc == CHAT_OK && events->count == before
               ? chat_events_put(events, CHAT_EVENT_OPAQUE)
               : rc;
}


static chat_edit_rc_e
chat_anthropic_change(chat_edits_t *edits, const chat_json_t *node,
                      const char *text)
{
    return chat_edits_add(edits, node->start, node->end - node->start,
                          chat_cstr(text))
               ? CHAT_EDIT_ERROR
               : CHAT_EDIT_CHANGED;
}


chat_edit_rc_e
chat_anthropic_edit(chat_json_doc_t *doc, const chat_events_t *events,
                    const chat_slots_t *slots, chat_edits_t *edits)
{
    char               digits[16];
    int32_t            index;
    uint32_t           below, slot;
    chat_str_t         type;
    const chat_json_t *node;

    if (doc == NULL || events->count == 0) {
        return CHAT_EDIT_KEEP;
    }

    type = chat_json_text(doc, doc->root, "type");

    if (chat_str_is(type, "message_delta")) {
        node = chat_json_get(doc, doc->root, "delta");
        node = chat_json_get(doc, node, "stop_reason");

        return slots->all && chat_json_is(doc, node, "tool_use")
                   ? chat_anthropic_change(edits, node, "\"end_turn\"")
                   : CHAT_EDIT_KEEP;
    }

    node = chat_json_get(doc, doc->root, "index");
    index = chat_json_index(doc, node);

    if (!chat_str_starts(type, "content_block_") || index < 0
        || index > CHAT_ANTHROPIC_INDEX)
    {
        return CHAT_EDIT_KEEP;
    }

    slot = events->items[0].slot;

    if (chat_slots_dropped(slots, slot)) {
        return CHAT_EDIT_DROP;
    }

    below = chat_slots_below(slots, slot & 0xffff0000, slot);

    if (below == 0 || below > (uint32_t) index) {
        return CHAT_EDIT_KEEP;
    }

    (void) snprintf(digits, sizeof(digits), "%u",
                    (unsigned) index - (unsigned) below);

    return chat_anthropic_change(edits, node, digits);
}
