/*
 * chat_dialect_openai_responses_stream.c: reads answers of the Responses API.
 *
 * The place of an output item is its output_index, above it the number of the
 * response, as one stream may carry several. The index of every frame about an
 * item is marked, and so is each call in response.output, which is known by
 * its ids wherever it stands there; a call that is only there has a place
 * behind all items. At the end response.output is the authority on the calls.
 * sequence_number is never touched.
 */

#include "dialect/openai_responses/chat_dialect_openai_responses.h"

#define CHAT_RESPONSES_ITEMS 1024     /* of a response that are followed */
#define CHAT_RESPONSES_PLACES 0x10000 /* of a response */

typedef chat_responses_live_t   live_t;
typedef chat_responses_reader_t reader_t;


/* The place of an item; UINT32_MAX: it is not followed. */
static uint32_t
place_of(const reader_t *r, size_t index)
{
    return index < CHAT_RESPONSES_ITEMS ? r->base + (uint32_t) index
                                        : UINT32_MAX;
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
    return own != NULL
           && ((call->id.len != 0 && chat_str_eq(own->call.id, call->id))
               || (call->item.len != 0 && chat_str_eq(own->item, call->item)));
}


/* The call by its ids, wherever it stands; index: where it probably does. */
static live_t *
find_call(const reader_t *r, const chat_responses_call_t *call, size_t index)
{
    live_t *own = chat_calls_at(&r->reader.calls, place_of(r, index));

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
    if (!chat_str_eq(own->call.name, call->name)) {
        own->call.name = chat_reader_keep(&r->reader, call->name);
    }
    if (!chat_str_eq(own->item, call->item)) {
        own->item = chat_reader_keep(&r->reader, call->item);
    }
}


/* 1 if the arguments of the call may go on. */
static int
is_open(const live_t *own)
{
    return own != NULL && !own->call.ready && !own->cut;
}


/* The call opens, maybe again. NULL: past a bound. */
static live_t *
open_call(reader_t *r, uint32_t place, const chat_responses_call_t *call,
          int implied)
{
    live_t *own = NULL;

    if (place != UINT32_MAX) {
        own =
            chat_calls_open_at(&r->reader.calls, place, call->id, call->name);
    }

    if (own == NULL) {
        r->reader.changed = 1;
        r->lost |= call->kind != CHAT_KIND_PROVIDER;
        return NULL;
    }

    own->cut = 0;
    note(r, own, call);
    chat_reader_call(&r->reader, CHAT_EVENT_CALL_OPEN, &own->call)->implied =
        implied & 1;

    return own;
}


/* A call item as it is when it is over: what was not told of it yet. */
static live_t *
item_done(reader_t *r, uint32_t place, const chat_json_t *item,
          const chat_responses_call_t *call, int implied)
{
    chat_event_t *event;
    live_t       *own = chat_calls_at(&r->reader.calls, place);

    if (own == NULL) {
        own = open_call(r, place, call, implied);
    }

    if (!is_open(own)) {
        return own;
    }

    note(r, own, call);

    if (call->cut_off) {
        own->cut = 1;
        r->reader.changed = 1;
        return own;
    }

    own->call.ready = 1;
    event = chat_reader_call(&r->reader, CHAT_EVENT_CALL_READY, &own->call);
    event->implied = implied & 1;
    event->text = chat_json_said(
        r->reader.doc, chat_responses_args(r->reader.doc, item, call->type));
    event->whole = 1;

    return own;
}


/* A frame about one output item. */
static void
read_item(reader_t *r, chat_str_t type, const chat_json_t *node, int32_t index)
{
    uint32_t              place = place_of(r, (size_t) index);
    chat_reader_t        *reader = &r->reader;
    const chat_json_t    *item, *delta;
    chat_responses_call_t call;
    live_t               *own;

    chat_json_pick(reader->doc, reader->doc->root, "item", &item, "delta",
                   &delta, NULL, NULL);

    if (item != NULL && chat_responses_call(reader->doc, item, &call)) {
        if (chat_str_is(type, "response.output_item.added")) {
            (void) open_call(r, place, &call, 0);

        } else if (chat_str_is(type, "response.output_item.done")) {
            (void) item_done(r, place, item, &call, 0);
        }
    }

    own = chat_calls_at(&reader->calls, place);
    if (is_open(own) && delta != NULL) {
        chat_reader_args(reader, &own->call, delta);
    }

    chat_mark_index(chat_events_mark(reader->events, own ? &own->call : NULL),
                    node, index, r->base + (uint32_t) index);
}


/* The items of response.output; settle: what they say of calls is final. */
static void
read_output(reader_t *r, const chat_json_t *output, int settle)
{
    size_t                index;
    uint32_t              place;
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
                place = r->base + CHAT_RESPONSES_ITEMS + (uint32_t) index;
                own = item_done(r, own ? own->call.place : place, item, &call,
                                1);
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
        if (own->call.kind != CHAT_KIND_PROVIDER && !own->call.ready) {
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
            r->base += CHAT_RESPONSES_PLACES;
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
    const chat_json_t *said, *order, *place;

    if (r->reader.doc == NULL) {
        return CHAT_DECLINED;
    }

    chat_json_pick(r->reader.doc, r->reader.doc->root, "type", &said,
                   "sequence_number", &order, "output_index", &place);
    type = chat_json_string(r->reader.doc, said);
    r->reader.idle |= chat_str_is(type, "keepalive") & 1;

    if (!r->reader.begun && !chat_str_starts(type, "response.")
        && !chat_str_is(type, "error") && !r->reader.idle)
    {
        return CHAT_DECLINED;
    }

    r->reader.number_node = order;
    number = chat_json_index(r->reader.doc, order);
    if (number >= 0) {
        r->reader.number = (uint32_t) number;
    }

    index = chat_json_index(r->reader.doc, place);

    if (index >= 0) {
        read_item(r, type, place, index);
    } else {
        read_response(r, type);
    }

    return CHAT_OK;
}
