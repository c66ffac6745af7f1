/*
 * chat_dialect_openai_responses_stream.c: reads answers of the Responses API.
 *
 * The place of an output item is its output_index, counted on where one
 * stream carries several responses. The index of every frame about an item is
 * marked, and so is each call in response.output, which is known by its ids
 * wherever it stands there. At the end response.output is the authority on
 * the calls. sequence_number is never touched.
 */

#include "dialect/openai_responses/chat_dialect_openai_responses.h"

#define CHAT_RESPONSES_ITEMS 1024 /* items of a response that are followed */

typedef chat_responses_live_t   live_t;
typedef chat_responses_reader_t reader_t;


/* 1 if a frame of this type carries nothing but text for people. */
static int
is_text(chat_str_t type)
{
    return chat_str_is(type, "response.output_text.delta")
           || chat_str_is(type, "response.reasoning_text.delta")
           || chat_str_is(type, "response.reasoning_summary_text.delta")
           || chat_str_is(type, "response.refusal.delta");
}


/* The call at this output_index of the response, or NULL. */
static live_t *
call_at(const reader_t *r, size_t index)
{
    return index < CHAT_RESPONSES_ITEMS
               ? chat_calls_at(&r->reader.calls, r->base + (uint32_t) index)
               : NULL;
}


/* The next older call of the response; NULL: there is none. */
static live_t *
older(const reader_t *r, const chat_stream_call_t *call)
{
    return call != NULL && call->place >= r->base ? (live_t *) call : NULL;
}


/* 1 if the call is the one with these ids. */
static int
has_ids(const live_t *own, const chat_responses_call_t *call)
{
    return own != NULL && own->state != CHAT_RESPONSES_OTHER
           && ((call->id.len != 0 && chat_str_eq(own->call.id, call->id))
               || (call->item.len != 0 && chat_str_eq(own->item, call->item)));
}


/* The call by its ids, wherever it stands; index: where it probably does. */
static live_t *
find_call(const reader_t *r, const chat_responses_call_t *call, size_t index)
{
    live_t *own = call_at(r, index);

    /* the same index first: a stream may carry one id twice */
    if (!has_ids(own, call)) {
        own = older(r, r->reader.calls.calls);
        while (own != NULL && !has_ids(own, call)) {
            own = older(r, own->call.next);
        }
    }

    return own;
}


/* Keeps what the item says of the call now. */
static void
note(reader_t *r, live_t *own, const chat_responses_call_t *call)
{
    own->call.kind = call->kind;

    if (!chat_str_eq(own->call.id, call->id)) {
        own->call.id = chat_reader_keep(&r->reader, call->id);
    }
    if (!chat_str_eq(own->item, call->item)) {
        own->item = chat_reader_keep(&r->reader, call->item);
    }
}


static chat_event_t *
add_event(reader_t *r, chat_event_e type, live_t *own,
          const chat_responses_call_t *call, int implied)
{
    chat_event_t *event = chat_reader_call(&r->reader, type, &own->call);

    event->name = call->name;
    event->implied = implied & 1;

    return event;
}


/* The response has an item at this index. */
static void
reach(reader_t *r, size_t index)
{
    uint32_t end = r->base + (uint32_t) index + 1;

    if (index < CHAT_RESPONSES_ITEMS && end > r->top) {
        r->top = end;
    }
}


/* The call opens, maybe again. NULL: past a bound. */
static live_t *
open_call(reader_t *r, size_t index, const chat_responses_call_t *call,
          int implied)
{
    live_t *own = NULL;

    reach(r, index);

    if (index < CHAT_RESPONSES_ITEMS) {
        own = chat_calls_open_at(&r->reader.calls, r->base + (uint32_t) index,
                                 call->id, call->name);
    }

    if (own == NULL) {
        r->reader.changed = 1;
        r->lost |= call->kind != CHAT_KIND_PROVIDER;
        return NULL;
    }

    own->state = CHAT_RESPONSES_OPEN;
    note(r, own, call);
    add_event(r, CHAT_EVENT_CALL_OPEN, own, call, implied);

    return own;
}


/* A call item as it is when it is over: what was not told of it yet. */
static live_t *
item_done(reader_t *r, size_t index, const chat_json_t *item,
          const chat_responses_call_t *call, int implied)
{
    chat_event_t *event;
    live_t       *own = call_at(r, index);

    if (own == NULL || own->state == CHAT_RESPONSES_OTHER) {
        own = open_call(r, index, call, implied);
    }

    if (own == NULL || own->state != CHAT_RESPONSES_OPEN) {
        return own;
    }

    note(r, own, call);

    if (call->cut_off) {
        own->state = CHAT_RESPONSES_CUT;
        r->reader.changed = 1;
        return own;
    }

    own->state = CHAT_RESPONSES_READY;
    own->call.ready = 1;
    event = add_event(r, CHAT_EVENT_CALL_READY, own, call, implied);
    event->text = chat_responses_args(r->reader.doc, item, call->type);
    event->whole = 1;

    return own;
}


/* A frame about one output item. */
static void
read_item(reader_t *r, chat_str_t type, const chat_json_t *node, int32_t index)
{
    uint32_t              place = r->base + (uint32_t) index;
    chat_reader_t        *reader = &r->reader;
    const chat_json_t    *item, *delta;
    chat_responses_call_t call;
    live_t               *own;

    item = chat_reader_get(reader, "item");
    delta = chat_reader_get(reader, "delta");

    if (chat_str_is(type, "response.output_item.added")) {
        if (chat_responses_call(reader->doc, item, &call)) {
            (void) open_call(r, (size_t) index, &call, 0);
        } else {
            reach(r, (size_t) index);
            own = call_at(r, (size_t) index);
            if (own != NULL) {
                own->state = CHAT_RESPONSES_OTHER;
            }
            reader->changed = 1;
        }

    } else if (chat_str_is(type, "response.output_item.done")
               && chat_responses_call(reader->doc, item, &call))
    {
        (void) item_done(r, (size_t) index, item, &call, 0);
    }

    own = call_at(r, (size_t) index);
    if (own != NULL && own->state == CHAT_RESPONSES_OPEN && delta != NULL
        && !is_text(type) && reader->events->count == 0)
    {
        chat_reader_args(reader, &own->call, delta);
    }

    chat_mark_index(chat_events_mark(reader->events, own ? &own->call : NULL),
                    node, index, place);
}


/* The items of response.output; settle: what they say of calls is final. */
static void
read_output(reader_t *r, const chat_json_t *output, int settle)
{
    size_t                index;
    const chat_json_t    *item;
    chat_responses_call_t call;
    live_t               *own;

    if (output == NULL || output->type != CHAT_JSON_ARRAY) {
        return;
    }

    r->reader.events->keeps = 1;
    item = output->child;

    for (index = 0; item != NULL && index < CHAT_RESPONSES_ITEMS; index++) {
        if (chat_responses_call(r->reader.doc, item, &call)) {
            own = find_call(r, &call, index);

            if (settle) {
                own = item_done(r, (own ? own->call.place : r->top) - r->base,
                                item, &call, 1);
            }

            if (own != NULL) {
                chat_events_mark(r->reader.events, &own->call)->at =
                    chat_span(item);
            }
        }

        item = item->next;
    }
}


/* 1 if no call is left that the client may have to answer but is not ready. */
static int
is_whole(const reader_t *r)
{
    const live_t *own = older(r, r->reader.calls.calls);

    for (/* void */; own != NULL; own = older(r, own->call.next)) {
        if (own->call.kind != CHAT_KIND_PROVIDER
            && (own->state == CHAT_RESPONSES_OPEN
                || own->state == CHAT_RESPONSES_CUT))
        {
            return 0;
        }
    }

    return !r->lost;
}


/* The terminal frames; 0: this is none of them. */
static chat_end_e
end_of(chat_str_t type)
{
    if (chat_str_is(type, "response.completed")
        || chat_str_is(type, "response.incomplete"))
    {
        return CHAT_END_FINISHED;
    }

    if (chat_str_is(type, "response.failed") || chat_str_is(type, "error")) {
        return CHAT_END_FAILED;
    }

    return chat_str_is(type, "response.cancelled") ? CHAT_END_ABORTED
                                                   : CHAT_END_NONE;
}


/* A frame about the response as a whole, or about nothing that is followed. */
static void
read_response(reader_t *r, chat_str_t type)
{
    chat_end_e         end = end_of(type);
    chat_events_t     *events = r->reader.events;
    const chat_json_t *response = chat_reader_get(&r->reader, "response");

    if (response != NULL
        && (!r->opened || chat_str_is(type, "response.created"))) {
        /* another response in the same stream counts its items from 0 again */
        if (r->opened) {
            r->base = r->top;
            r->lost = 0;
        }

        r->opened = 1;
        chat_events_add(events, CHAT_EVENT_TURN_OPEN)->id =
            chat_json_text(r->reader.doc, response, "id");
    }

    read_output(r, chat_json_get(r->reader.doc, response, "output"),
                end == CHAT_END_FINISHED);

    /* a call that broke off leaves it open what the client may answer */
    if (chat_str_is(type, "response.completed")
        || (end == CHAT_END_FINISHED && is_whole(r)))
    {
        chat_events_add(events, CHAT_EVENT_STEP_SEAL);
    }

    if (end != CHAT_END_NONE) {
        chat_events_add(events, CHAT_EVENT_TURN_END)->end = end;
    }
}


chat_rc_e
chat_responses_read(void *reader, const chat_frame_t *frame)
{
    int32_t            number, index;
    reader_t          *r = reader;
    chat_str_t         type;
    const chat_json_t *node;

    if (r->reader.doc == NULL) {
        return CHAT_DECLINED;
    }

    type = chat_reader_text(&r->reader, "type");
    r->reader.idle |= chat_str_is(type, "keepalive") & 1;

    if (!r->reader.begun && !chat_str_starts(type, "response.")
        && !chat_str_is(type, "error") && !r->reader.idle)
    {
        return CHAT_DECLINED;
    }

    node = chat_reader_get(&r->reader, "sequence_number");
    r->reader.number_node = node;
    number = chat_json_index(r->reader.doc, node);
    if (number >= 0) {
        r->reader.number = (uint32_t) number;
    }

    node = chat_reader_get(&r->reader, "output_index");
    index = chat_json_index(r->reader.doc, node);

    if (index >= 0) {
        read_item(r, type, node, index);
    } else {
        read_response(r, type);
    }

    return CHAT_OK;
}
