/*
 * chat_dialect_ag_ui_calls.c: what an AG-UI run says of its calls.
 *
 * A call is opened, written and ended, or comes in chunks, of which the first
 * opens it. A call that is opened after a result belongs to a further answer
 * of the model, and so to a further step, as it will in the transcript. What
 * interrupts a run is to be answered as calls are: it is a step of its own,
 * known by the run's id.
 * Promises: at most CHAT_AG_UI_SLOTS_MAX calls, and ids and names within
 * CHAT_AG_UI_NAME_MAX; what is past a bound is OPAQUE.
 * Must not know: what becomes of a call.
 */

#include "dialect/ag_ui/chat_dialect_ag_ui.h"


chat_ag_ui_slot_t *
chat_ag_ui_slot(const chat_ag_ui_reader_t *reader, chat_str_t id)
{
    const chat_table_entry_t *entry = chat_table_find(&reader->ids, id);

    return entry != NULL ? &reader->slots[entry->number - 1] : NULL;
}


chat_event_t *
chat_ag_ui_emit(const chat_ag_ui_frame_t *frame, chat_event_e type,
                const chat_ag_ui_slot_t *slot, int implied)
{
    chat_event_t *event = chat_events_add(frame->events, type);

    if (event != NULL) {
        event->slot = (uint32_t) (slot - frame->reader->slots);
        event->id = slot->id;
        event->name = slot->name;
        event->kind = slot->kind;
        event->implied = implied & 1;
    }

    return event;
}


/* A slot for the call, which says what it is of; NULL: no memory. */
static chat_ag_ui_slot_t *
chat_ag_ui_slot_add(chat_ag_ui_reader_t *reader, chat_arena_t *arena,
                    const chat_ag_ui_slot_t *call)
{
    chat_ag_ui_slot_t  *slots, *slot;
    chat_table_entry_t *entry;

    slots = chat_arena_grow(arena, reader->slots, reader->count, &reader->size,
                            sizeof(*slots));
    if (slots == NULL) {
        return NULL;
    }

    reader->slots = slots;
    slot = &slots[reader->count];

    if (chat_arena_dup(arena, call->id, &slot->id) != CHAT_OK
        || chat_arena_dup(arena, call->parent, &slot->parent) != CHAT_OK
        || chat_arena_dup(arena, call->lane, &slot->lane) != CHAT_OK)
    {
        return NULL;
    }

    entry = chat_table_put(&reader->ids, slot->id);
    if (entry == NULL) {
        return NULL;
    }

    entry->number = ++reader->count;
    return slot;
}


/* 1 if the call is of another answer of the model than those before it. */
static int
chat_ag_ui_begins(const chat_ag_ui_reader_t *reader,
                  const chat_ag_ui_slot_t   *call)
{
    uint32_t i;

    if (!reader->answered) {
        return 0;
    }

    for (i = reader->first; call->parent.len != 0 && i < reader->count; i++) {
        if (chat_str_eq(reader->slots[i].parent, call->parent)) {
            return 0;
        }
    }

    return 1;
}


static chat_rc_e
chat_ag_ui_begin(chat_ag_ui_frame_t *frame)
{
    chat_event_t        *event;
    chat_ag_ui_reader_t *reader = frame->reader;

    reader->first = reader->count;
    reader->answered = 0;

    event = chat_events_add(frame->events, CHAT_EVENT_STEP_SEAL);
    if (event == NULL) {
        return CHAT_ERROR;
    }
    event->implied = 1;

    event = chat_events_add(frame->events, CHAT_EVENT_STEP_OPEN);
    if (event == NULL) {
        return CHAT_ERROR;
    }
    event->implied = 1;

    return CHAT_OK;
}


/* A slot for a call that the stream has not had yet. */
static chat_rc_e
chat_ag_ui_call_new(chat_ag_ui_frame_t *frame, const chat_ag_ui_slot_t *call,
                    chat_ag_ui_slot_t **added)
{
    chat_ag_ui_slot_t   *slot;
    chat_ag_ui_reader_t *reader = frame->reader;

    if (reader->count == CHAT_AG_UI_SLOTS_MAX) {
        return CHAT_DECLINED;
    }

    if (chat_ag_ui_begins(reader, call) && chat_ag_ui_begin(frame) != CHAT_OK)
    {
        return CHAT_ERROR;
    }

    slot = chat_ag_ui_slot_add(reader, frame->arena, call);
    if (slot == NULL) {
        return CHAT_ERROR;
    }

    *added = slot;
    return CHAT_OK;
}


chat_rc_e
chat_ag_ui_call_open(chat_ag_ui_frame_t *frame, const chat_ag_ui_slot_t *call,
                     int implied, chat_ag_ui_slot_t **opened)
{
    chat_rc_e             rc;
    chat_ag_ui_slot_t    *slot = chat_ag_ui_slot(frame->reader, call->id);
    const chat_request_t *rq = frame->reader->rq;

    if (call->id.len == 0 || call->id.len > CHAT_AG_UI_NAME_MAX
        || call->name.len > CHAT_AG_UI_NAME_MAX
        || call->parent.len > CHAT_AG_UI_NAME_MAX
        || call->lane.len > CHAT_AG_UI_NAME_MAX)
    {
        return CHAT_DECLINED;
    }

    if (slot == NULL) {
        rc = chat_ag_ui_call_new(frame, call, &slot);
        if (rc != CHAT_OK) {
            return rc;
        }
    }

    if (!chat_str_eq(slot->name, call->name)
        && chat_arena_dup(frame->arena, call->name, &slot->name) != CHAT_OK)
    {
        return CHAT_ERROR;
    }

    slot->ready = 0;
    slot->kind = chat_ag_ui_kind(rq ? rq->own : NULL, call->name);
    *opened = slot;

    return chat_ag_ui_emit(frame, CHAT_EVENT_CALL_OPEN, slot, implied)
               ? CHAT_OK
               : CHAT_ERROR;
}


/* The call that the frame is about, as it says of itself. */
static void
chat_ag_ui_call_said(const chat_ag_ui_frame_t *frame, chat_ag_ui_slot_t *call)
{
    memset(call, 0, sizeof(*call));
    call->id = chat_ag_ui_string(frame, "toolCallId");
    call->name = chat_ag_ui_string(frame, "toolCallName");
    call->parent = chat_ag_ui_string(frame, "parentMessageId");
    call->lane = chat_ag_ui_string(frame, "subagentRunId");
}


chat_rc_e
chat_ag_ui_call_start(chat_ag_ui_frame_t *frame)
{
    chat_rc_e         rc;
    chat_ag_ui_slot_t call, *slot;

    chat_ag_ui_call_said(frame, &call);
    rc = chat_ag_ui_call_open(frame, &call, 0, &slot);

    return rc == CHAT_DECLINED
               ? chat_events_put(frame->events, CHAT_EVENT_OPAQUE)
               : rc;
}


/* The next piece of the arguments, maybe an empty one. */
static chat_rc_e
chat_ag_ui_call_piece(chat_ag_ui_frame_t *frame, const chat_ag_ui_slot_t *slot)
{
    chat_event_t *event;

    event = chat_ag_ui_emit(frame, CHAT_EVENT_CALL_ARGS, slot, 0);
    if (event == NULL) {
        return CHAT_ERROR;
    }

    event->text = chat_ag_ui_string(frame, "delta");
    return CHAT_OK;
}


chat_rc_e
chat_ag_ui_call_args_more(chat_ag_ui_frame_t *frame)
{
    const chat_ag_ui_slot_t *slot;

    slot =
        chat_ag_ui_slot(frame->reader, chat_ag_ui_string(frame, "toolCallId"));

    return slot != NULL ? chat_ag_ui_call_piece(frame, slot)
                        : chat_events_put(frame->events, CHAT_EVENT_OPAQUE);
}


chat_rc_e
chat_ag_ui_call_end(chat_ag_ui_frame_t *frame)
{
    chat_ag_ui_slot_t *slot;

    slot =
        chat_ag_ui_slot(frame->reader, chat_ag_ui_string(frame, "toolCallId"));

    if (slot == NULL || slot->ready) {
        return chat_events_put(frame->events, CHAT_EVENT_OPAQUE);
    }

    slot->ready = 1;
    return chat_ag_ui_emit(frame, CHAT_EVENT_CALL_READY, slot, 0) ? CHAT_OK
                                                                  : CHAT_ERROR;
}


chat_rc_e
chat_ag_ui_close_chunks(chat_ag_ui_frame_t *frame, const chat_str_t *lane)
{
    uint32_t             i;
    chat_ag_ui_slot_t   *slot;
    chat_ag_ui_reader_t *reader = frame->reader;

    for (i = reader->count; i > 0 && reader->chunked != 0; i--) {
        slot = &reader->slots[i - 1];

        if (!slot->chunked || (lane && !chat_str_eq(slot->lane, *lane))) {
            continue;
        }

        slot->chunked = 0;
        slot->ready = 1;
        reader->chunked--;

        if (!chat_ag_ui_emit(frame, CHAT_EVENT_CALL_READY, slot, 1)) {
            return CHAT_ERROR;
        }
    }

    return CHAT_OK;
}


/* The open chunked call that a chunk without an id goes on with, or NULL. */
static chat_ag_ui_slot_t *
chat_ag_ui_chunk_of(const chat_ag_ui_reader_t *reader, chat_str_t lane)
{
    uint32_t           i;
    chat_ag_ui_slot_t *slot, *other = NULL;

    for (i = reader->count; i > 0 && reader->chunked != 0; i--) {
        slot = &reader->slots[i - 1];

        if (slot->chunked && chat_str_eq(slot->lane, lane)) {
            return slot;
        }

        if (slot->chunked) {
            other = slot;
        }
    }

    /* who says no lane may mean the only one that there is */
    return lane.len == 0 && reader->chunked == 1 ? other : NULL;
}


chat_rc_e
chat_ag_ui_call_chunk(chat_ag_ui_frame_t *frame)
{
    chat_rc_e         rc;
    chat_ag_ui_slot_t call, *slot;

    chat_ag_ui_call_said(frame, &call);

    slot = call.id.len != 0 ? chat_ag_ui_slot(frame->reader, call.id)
                            : chat_ag_ui_chunk_of(frame->reader, call.lane);

    if (slot != NULL && slot->chunked) {
        return chat_ag_ui_call_piece(frame, slot);
    }

    if (call.id.len == 0) {
        return chat_events_put(frame->events, CHAT_EVENT_OPAQUE);
    }

    if (chat_ag_ui_close_chunks(frame, &call.lane) != CHAT_OK) {
        return CHAT_ERROR;
    }

    rc = chat_ag_ui_call_open(frame, &call, 0, &slot);
    if (rc != CHAT_OK) {
        return rc == CHAT_DECLINED
                   ? chat_events_put(frame->events, CHAT_EVENT_OPAQUE)
                   : rc;
    }

    slot->chunked = 1;
    frame->reader->chunked++;
    return chat_ag_ui_call_piece(frame, slot);
}


/* The id of an interrupt; empty: it is none that can be answered here. */
static chat_str_t
chat_ag_ui_interrupt_id(chat_json_doc_t *doc, const chat_json_t *node)
{
    chat_str_t id = chat_json_text(doc, node, "id");

    return id.len <= CHAT_AG_UI_NAME_MAX ? id : chat_str(NULL, 0);
}


/*
 * Who asks for an approval may be given it by a service. There is no name: it
 * is no tool's.
 */
static chat_rc_e
chat_ag_ui_interrupt(chat_ag_ui_frame_t *frame, const chat_json_t *node,
                     uint32_t slot)
{
    size_t             i;
    chat_str_t         call;
    chat_event_t      *event;
    chat_json_doc_t   *doc = frame->doc;
    const chat_event_e types[] = { CHAT_EVENT_CALL_OPEN,
                                   CHAT_EVENT_CALL_READY };

    call = chat_json_text(doc, node, "toolCallId");

    for (i = 0; i < 2; i++) {
        event = chat_events_add(frame->events, types[i]);
        if (event == NULL) {
            return CHAT_ERROR;
        }

        event->slot = CHAT_AG_UI_INTERRUPT + slot;
        event->id = chat_ag_ui_interrupt_id(doc, node);
        event->kind = call.len ? CHAT_KIND_APPROVAL : CHAT_KIND_CLIENT;
        event->implied = 1;
        event->unreadable = i & 1;
    }

    return CHAT_OK;
}


chat_rc_e
chat_ag_ui_interrupts(chat_ag_ui_frame_t *frame)
{
    uint32_t           n = 0;
    chat_event_t      *event;
    chat_json_doc_t   *doc = frame->doc;
    const chat_json_t *list, *node;

    list = chat_json_get(doc, doc->root, "outcome");
    list = chat_json_get(doc, list, "interrupts");

    if (list == NULL || list->type != CHAT_JSON_ARRAY || list->child == NULL
        || chat_json_count(list) > CHAT_AG_UI_SLOTS_MAX)
    {
        return CHAT_OK;
    }

    for (node = list->child; node != NULL; node = node->next) {
        if (chat_ag_ui_interrupt_id(doc, node).len == 0) {
            return CHAT_OK;
        }
    }

    event = chat_events_add(frame->events, CHAT_EVENT_STEP_OPEN);
    if (event == NULL) {
        return CHAT_ERROR;
    }
    event->id = frame->reader->run;

    for (node = list->child; node != NULL; node = node->next) {
        if (chat_ag_ui_interrupt(frame, node, n++) != CHAT_OK) {
            return CHAT_ERROR;
        }
    }

    return chat_events_put(frame->events, CHAT_EVENT_STEP_SEAL);
}
