/*
 * chat_dialect_ag_ui_calls.c: what an AG-UI run says of its calls.
 *
 * A call is opened, written and ended, or comes in chunks, of which the first
 * opens it. A call that is opened after a result belongs to a further answer
 * of the model, and so to a further step, as it will in the transcript. What
 * interrupts a run is to be answered as calls are: it is a step of its own,
 * known by the run's id.
 */

#include "dialect/ag_ui/chat_dialect_ag_ui.h"


/* 1 if a call of this message is of another answer than those before it. */
static int
begins_step(const chat_ag_ui_reader_t *r, chat_str_t parent)
{
    const chat_table_entry_t *entry;

    if (!r->answered || parent.len == 0) {
        return r->answered;
    }

    entry = chat_table_find(&r->parents, parent);
    return entry == NULL || entry->number <= r->first;
}


chat_ag_ui_live_t *
chat_ag_ui_call_open(chat_ag_ui_reader_t *r, chat_str_t id, chat_str_t name,
                     chat_str_t parent, int implied)
{
    int                fresh = chat_calls_find(&r->reader.calls, id) == NULL;
    int                had = chat_calls_known(&r->reader.calls, id) != NULL;
    chat_ag_ui_live_t *own;

    if (parent.len > CHAT_ID_MAX
        || !chat_calls_has_room(&r->reader.calls, id, name))
    {
        return NULL;
    }

    if (fresh && begins_step(r, parent)) {
        r->first = r->reader.calls.count;
        r->answered = 0;
        chat_events_add(r->reader.events, CHAT_EVENT_STEP_SEAL)->implied = 1;
        chat_events_add(r->reader.events, CHAT_EVENT_STEP_OPEN)->implied = 1;
    }

    own = chat_calls_open(&r->reader.calls, id, name);
    if (own == NULL) {
        return NULL;
    }

    if (fresh) {
        own->had = had & 1;
    }

    if (fresh && parent.len != 0) {
        chat_reader_entry(&r->reader, &r->parents, parent)->number =
            (size_t) own->call.place + 1;
    }

    own->call.kind = chat_ag_ui_kind(r->own, name);
    chat_reader_call(&r->reader, CHAT_EVENT_CALL_OPEN, &own->call)->implied =
        implied & 1;

    return own;
}


/* Opens the call that the frame names. */
static chat_ag_ui_live_t *
call_said(chat_ag_ui_reader_t *r)
{
    return chat_ag_ui_call_open(
        r, chat_reader_text(&r->reader, "toolCallId"),
        chat_reader_text(&r->reader, "toolCallName"),
        chat_reader_text(&r->reader, "parentMessageId"), 0);
}


void
chat_ag_ui_call_start(chat_ag_ui_reader_t *r)
{
    (void) call_said(r);
}


/* The next piece of the arguments, maybe an empty one. */
static void
add_piece(chat_ag_ui_reader_t *r, chat_stream_call_t *call)
{
    chat_reader_args(&r->reader, call, chat_reader_get(&r->reader, "delta"));
}


static void
ready(chat_ag_ui_reader_t *r, chat_stream_call_t *call, int implied)
{
    call->ready = 1;
    chat_reader_call(&r->reader, CHAT_EVENT_CALL_READY, call)->implied =
        implied & 1;
}


void
chat_ag_ui_call_more(chat_ag_ui_reader_t *r)
{
    chat_stream_call_t *call;

    call = chat_calls_find(&r->reader.calls,
                           chat_reader_text(&r->reader, "toolCallId"));
    if (call != NULL) {
        add_piece(r, call);
    }
}


void
chat_ag_ui_call_end(chat_ag_ui_reader_t *r)
{
    chat_stream_call_t *call;

    call = chat_calls_find(&r->reader.calls,
                           chat_reader_text(&r->reader, "toolCallId"));
    if (call != NULL && !call->ready) {
        ready(r, call, 0);
    }
}


/* From now on the call is written in chunks, in this lane. */
static void
begin_chunks(chat_ag_ui_reader_t *r, chat_ag_ui_live_t *own, chat_str_t lane)
{
    own->lane = chat_reader_entry(&r->reader, &r->lanes, lane);
    own->lane->item = own;

    own->prev = NULL;
    own->next = r->chunked;
    if (own->next != NULL) {
        own->next->prev = own;
    }
    r->chunked = own;
}


static void
end_chunks(chat_ag_ui_reader_t *r, chat_ag_ui_live_t *own)
{
    own->lane->item = NULL;
    own->lane = NULL;

    *(own->prev ? &own->prev->next : &r->chunked) = own->next;
    if (own->next != NULL) {
        own->next->prev = own->prev;
    }

    ready(r, &own->call, 1);
}


/* The call that is written in chunks in this lane, or NULL. */
static chat_ag_ui_live_t *
find_chunked(const chat_ag_ui_reader_t *r, chat_str_t lane)
{
    const chat_table_entry_t *entry = chat_table_find(&r->lanes, lane);

    return entry != NULL ? entry->item : NULL;
}


void
chat_ag_ui_close_lane(chat_ag_ui_reader_t *r, chat_str_t lane)
{
    chat_ag_ui_live_t *own = find_chunked(r, lane);

    if (own != NULL) {
        end_chunks(r, own);
    }
}


void
chat_ag_ui_close_all(chat_ag_ui_reader_t *r)
{
    while (r->chunked != NULL) {
        end_chunks(r, r->chunked);
    }
}


void
chat_ag_ui_call_chunk(chat_ag_ui_reader_t *r)
{
    chat_str_t         id, lane;
    chat_ag_ui_live_t *own;

    id = chat_reader_text(&r->reader, "toolCallId");
    lane = chat_reader_text(&r->reader, "subagentRunId");

    if (id.len != 0) {
        own = chat_calls_find(&r->reader.calls, id);
    } else {
        own = find_chunked(r, lane);

        /* a chunk without a lane may mean the only call that there is */
        if (own == NULL && lane.len == 0 && r->chunked != NULL
            && r->chunked->next == NULL)
        {
            own = r->chunked;
        }
    }

    if (own == NULL || own->lane == NULL) {
        if (id.len == 0 || lane.len > CHAT_ID_MAX) {
            return;
        }

        chat_ag_ui_close_lane(r, lane);
        own = call_said(r);
        if (own == NULL) {
            return;
        }

        begin_chunks(r, own, lane);
    }

    add_piece(r, &own->call);
}


/*
 * An interrupt that asks for an approval may be answered by a service. It has
 * no name: it is no tool's.
 */
static void
interrupt(chat_ag_ui_reader_t *r, const chat_json_t *node, uint32_t place)
{
    chat_event_t       *event;
    chat_stream_call_t *call;

    call = chat_calls_open_at(&r->reader.calls, CHAT_AG_UI_INTERRUPT + place,
                              chat_json_text(r->reader.doc, node, "id"),
                              chat_str(NULL, 0));
    if (call == NULL) {
        return;
    }

    call->kind = chat_json_text(r->reader.doc, node, "toolCallId").len
                     ? CHAT_KIND_APPROVAL
                     : CHAT_KIND_CLIENT;
    call->ready = 1;
    chat_reader_call(&r->reader, CHAT_EVENT_CALL_OPEN, call)->implied = 1;
    event = chat_reader_call(&r->reader, CHAT_EVENT_CALL_READY, call);
    event->implied = 1;
    event->unreadable = 1;
}


void
chat_ag_ui_interrupts(chat_ag_ui_reader_t *r)
{
    size_t             n;
    uint32_t           place = 0;
    chat_str_t         id;
    chat_json_doc_t   *doc = r->reader.doc;
    const chat_json_t *list, *node;

    list = chat_json_typed(doc, chat_reader_get(&r->reader, "outcome"),
                           "interrupts", CHAT_JSON_ARRAY);
    n = chat_json_count(list);

    if (n == 0 || n > CHAT_AG_UI_INTERRUPTS_MAX) {
        return;
    }

    for (node = list->child; node != NULL; node = node->next) {
        id = chat_json_text(doc, node, "id");
        if (id.len == 0 || id.len > CHAT_ID_MAX) {
            return;
        }
    }

    chat_events_add(r->reader.events, CHAT_EVENT_STEP_OPEN)->id = r->run;

    for (node = list->child; node != NULL; node = node->next) {
        interrupt(r, node, place++);
    }

    chat_events_add(r->reader.events, CHAT_EVENT_STEP_SEAL);
}
