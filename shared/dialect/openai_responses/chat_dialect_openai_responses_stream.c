/*
 * chat_dialect_openai_responses_stream.c: answers of the Responses API.
 *
 * The reader keeps what it needs of each output item that is a call, under
 * its output_index. A slot is that index, counted on where one stream carries
 * several responses. Each frame with an index gives an event with its slot,
 * and each frame with a response one implied OPAQUE per item of its output,
 * in order, whose slot is the call's or CHAT_RESPONSES_NONE: so edit() needs
 * no state, and an item is known by its ids wherever it stands.
 * Promises: at the end, response.output is the authority on the calls.
 * Must not know: requests, policy.
 */

#include "dialect/openai_responses/chat_dialect_openai_responses.h"


/* What a frame is read with. */
typedef struct {
    chat_responses_reader_t *reader;
    chat_json_doc_t         *doc;
    chat_events_t           *events;
} chat_responses_frame_t;


static chat_event_t *
chat_responses_event(chat_responses_frame_t *f, chat_event_e type,
                     uint32_t slot)
{
    chat_event_t *event = chat_events_add(f->events, type);

    if (event != NULL) {
        event->slot = slot;
    }

    return event;
}


/* An event of which nothing more is to be said. */
static chat_rc_e
chat_responses_tell(chat_responses_frame_t *f, chat_event_e type,
                    uint32_t slot)
{
    return chat_responses_event(f, type, slot) ? CHAT_OK : CHAT_ERROR;
}


static chat_rc_e
chat_responses_call_event(chat_responses_frame_t *f, chat_event_e type,
                          size_t index, const chat_json_t *item,
                          const chat_responses_call_t *call, int implied)
{
    chat_event_t *event;

    event = chat_responses_event(f, type, f->reader->base + (uint32_t) index);
    if (event == NULL) {
        return CHAT_ERROR;
    }

    event->id = call->id;
    event->name = call->name;
    event->kind = call->kind;
    event->implied = implied ? 1 : 0;

    if (type == CHAT_EVENT_CALL_READY) {
        event->text = chat_responses_args(f->doc, item, call->type);
        event->whole = 1;
    }

    return CHAT_OK;
}


/* A call item as it is when it is over: what was not told of it yet. */
static chat_rc_e
chat_responses_done(chat_responses_frame_t *f, size_t index,
                    const chat_json_t *item, const chat_responses_call_t *call,
                    int implied)
{
    chat_rc_e              rc;
    chat_responses_state_e before;
    chat_responses_slot_t *slot;

    rc = chat_responses_slot(f->reader, index, &slot);
    if (rc != CHAT_OK) {
        return rc;
    }

    if (slot == NULL) {
        f->reader->lost |= call->kind != CHAT_KIND_PROVIDER;
        return CHAT_OK;
    }

    before = slot->state;
    if (before == CHAT_RESPONSES_READY || before == CHAT_RESPONSES_CUT) {
        return CHAT_OK;
    }

    if (chat_responses_note(f->reader, slot, call) != CHAT_OK) {
        return CHAT_ERROR;
    }

    slot->state = call->cut_off ? CHAT_RESPONSES_CUT : CHAT_RESPONSES_READY;

    if (before == CHAT_RESPONSES_OTHER) {
        rc = chat_responses_call_event(f, CHAT_EVENT_CALL_OPEN, index, item,
                                       call, implied);
    }

    if (rc == CHAT_OK && !call->cut_off) {
        rc = chat_responses_call_event(f, CHAT_EVENT_CALL_READY, index, item,
                                       call, implied);
    }

    return rc;
}


static chat_rc_e
chat_responses_added(chat_responses_frame_t *f, size_t index,
                     const chat_json_t *item)
{
    int                    is_call;
    chat_rc_e              rc;
    chat_responses_call_t  call;
    chat_responses_slot_t *slot;

    is_call = chat_responses_call(f->doc, item, &call);

    rc = chat_responses_slot(f->reader, index, &slot);
    if (rc != CHAT_OK) {
        return rc;
    }

    if (slot == NULL) {
        f->reader->lost |= is_call && call.kind != CHAT_KIND_PROVIDER;
        return CHAT_OK;
    }

    slot->state = is_call ? CHAT_RESPONSES_OPEN : CHAT_RESPONSES_OTHER;
    if (!is_call) {
        return CHAT_OK;
    }

    rc = chat_responses_note(f->reader, slot, &call);
    if (rc != CHAT_OK) {
        return rc;
    }

    return chat_responses_call_event(f, CHAT_EVENT_CALL_OPEN, index, item,
                                     &call, 0);
}


/* A frame about one output item. */
static chat_rc_e
chat_responses_item_frame(chat_responses_frame_t *f, chat_str_t type,
                          size_t index)
{
    chat_rc_e                rc = CHAT_OK;
    size_t                   before = f->events->count;
    chat_event_t            *event;
    const chat_json_t       *item, *delta;
    chat_responses_call_t    call;
    chat_responses_reader_t *reader = f->reader;

    item = chat_json_get(f->doc, f->doc->root, "item");
    delta = chat_json_get(f->doc, f->doc->root, "delta");

    if (chat_str_is(type, "response.output_item.added")) {
        rc = chat_responses_added(f, index, item);

    } else if (chat_str_is(type, "response.output_item.done")) {
        if (chat_responses_call(f->doc, item, &call)) {
            rc = chat_responses_done(f, index, item, &call, 0);
        }

    } else if (delta != NULL && !chat_responses_is_text(type)
               && index < reader->nslots
               && reader->slots[index].state == CHAT_RESPONSES_OPEN)
    {
        event = chat_responses_event(f, CHAT_EVENT_CALL_ARGS,
                                     reader->base + (uint32_t) index);
        if (event == NULL) {
            return CHAT_ERROR;
        }
        event->text = chat_json_string(f->doc, delta);
    }

    if (rc != CHAT_OK || f->events->count != before) {
        return rc;
    }

    return chat_responses_tell(f, CHAT_EVENT_OPAQUE,
                               reader->base + (uint32_t) index);
}


/* The items of response.output; settle: what they tell of calls is final. */
static chat_rc_e
chat_responses_output(chat_responses_frame_t *f, const chat_json_t *output,
                      int settle)
{
    size_t                index, found;
    chat_rc_e             rc;
    chat_event_t         *event;
    const chat_json_t    *item;
    chat_responses_call_t call;

    if (output == NULL || output->type != CHAT_JSON_ARRAY) {
        return CHAT_OK;
    }

    item = output->child;

    for (index = 0; item != NULL && index < CHAT_RESPONSES_ITEMS; index++) {
        found = CHAT_RESPONSES_ITEMS;

        if (chat_responses_call(f->doc, item, &call)) {
            found = chat_responses_find(f->reader, &call, index);

            if (settle && found == CHAT_RESPONSES_ITEMS) {
                found = f->reader->top - f->reader->base;
            }

            rc = settle ? chat_responses_done(f, found, item, &call, 1)
                        : CHAT_OK;
            if (rc != CHAT_OK) {
                return rc;
            }
        }

        event = chat_responses_event(f, CHAT_EVENT_OPAQUE,
                                     found < CHAT_RESPONSES_ITEMS
                                         ? f->reader->base + (uint32_t) found
                                         : CHAT_RESPONSES_NONE);
        if (event == NULL) {
            return CHAT_ERROR;
        }
        event->implied = 1;

        item = item->next;
    }

    return CHAT_OK;
}


/* The terminal frames; 0: this is none of them. */
static chat_end_e
chat_responses_ends(chat_str_t type)
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


static chat_rc_e
chat_responses_turn_open(chat_responses_frame_t *f, chat_str_t type,
                         const chat_json_t *response)
{
    chat_event_t            *event;
    chat_responses_reader_t *reader = f->reader;

    if (response == NULL
        || (reader->opened && !chat_str_is(type, "response.created")))
    {
        return CHAT_OK;
    }

    /* another response in the same stream counts its items from 0 again */
    if (reader->opened) {
        reader->base = reader->top;
        reader->lost = 0;
        if (reader->nslots != 0) {
            memset(reader->slots, 0, reader->nslots * sizeof(*reader->slots));
        }
    }

    reader->opened = 1;

    event = chat_responses_event(f, CHAT_EVENT_TURN_OPEN, CHAT_RESPONSES_NONE);
    if (event == NULL) {
        return CHAT_ERROR;
    }

    event->id = chat_json_text(f->doc, response, "id");
    return CHAT_OK;
}


/* A frame about the response as a whole, or about nothing that we follow. */
static chat_rc_e
chat_responses_response_frame(chat_responses_frame_t *f, chat_str_t type)
{
    chat_rc_e          rc;
    chat_end_e         end;
    chat_event_t      *event;
    const chat_json_t *response;

    response = chat_json_get(f->doc, f->doc->root, "response");
    end = chat_responses_ends(type);

    rc = chat_responses_turn_open(f, type, response);

    if (rc == CHAT_OK) {
        rc =
            chat_responses_output(f, chat_json_get(f->doc, response, "output"),
                                  end == CHAT_END_FINISHED);
    }

    if (rc != CHAT_OK) {
        return rc;
    }

    if (end == CHAT_END_NONE) {
        return f->events->count != 0
                   ? CHAT_OK
                   : chat_responses_tell(f, CHAT_EVENT_OPAQUE,
                                         CHAT_RESPONSES_NONE);
    }

    /* a call that broke off leaves it open what the client may answer */
    if (chat_str_is(type, "response.completed")
        || (end == CHAT_END_FINISHED && chat_responses_whole(f->reader)))
    {
        rc = chat_responses_tell(f, CHAT_EVENT_STEP_SEAL, CHAT_RESPONSES_NONE);
        if (rc != CHAT_OK) {
            return rc;
        }
    }

    event = chat_responses_event(f, CHAT_EVENT_TURN_END, CHAT_RESPONSES_NONE);
    if (event == NULL) {
        return CHAT_ERROR;
    }

    event->end = end;
    return CHAT_OK;
}


chat_rc_e
chat_responses_read(void *state, chat_arena_t *arena,
                    const chat_frame_t *frame, chat_json_doc_t *doc,
                    chat_events_t *events)
{
    int32_t                  number, index;
    chat_str_t               type;
    chat_responses_frame_t   f;
    chat_responses_reader_t *reader = state;

    if (!frame->has_data) {
        return CHAT_OK;
    }

    f.reader = reader;
    f.doc = doc;
    f.events = events;

    type = chat_str(NULL, 0);
    if (doc != NULL) {
        type = chat_json_text(doc, doc->root, "type");
    }

    if (!reader->confirmed) {
        if (!chat_str_starts(type, "response.") && !chat_str_is(type, "error")
            && !chat_str_is(type, "keepalive"))
        {
            return CHAT_DECLINED;
        }
        reader->confirmed = 1;
    }

    if (doc == NULL) {
        return chat_responses_tell(&f, CHAT_EVENT_OPAQUE, CHAT_RESPONSES_NONE);
    }

    number =
        chat_json_index(doc, chat_json_get(doc, doc->root, "sequence_number"));
    if (number >= 0) {
        reader->number = (uint32_t) number;
    }

    index =
        chat_json_index(doc, chat_json_get(doc, doc->root, "output_index"));

    return index >= 0 ? chat_responses_item_frame(&f, type, (size_t) index)
                      : chat_responses_response_frame(&f, type);
}
