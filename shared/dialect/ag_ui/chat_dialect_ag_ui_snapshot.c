/*
 * chat_dialect_ag_ui_snapshot.c: results of AG-UI calls, and snapshots.
 *
 * A snapshot of the messages says the whole conversation once more, and what
 * is new in it as well. It takes the place of what the client has, so it is
 * never a replay: of its calls only those are events that neither the request
 * nor the stream has had, and none of them is a reason to drop the frame.
 * Must not know: what becomes of a call.
 */

#include "dialect/ag_ui/chat_dialect_ag_ui.h"

#include <stdlib.h>


static int
chat_ag_ui_known_compare(const void *one, const void *two)
{
    const chat_call_t *a = *(const chat_call_t *const *) one;
    const chat_call_t *b = *(const chat_call_t *const *) two;

    return chat_str_compare(a->id, b->id);
}


/* The request's calls in order of their ids. */
static chat_rc_e
chat_ag_ui_known_sort(chat_ag_ui_frame_t *frame)
{
    size_t                i, n;
    chat_ag_ui_reader_t  *reader = frame->reader;
    const chat_request_t *rq = reader->rq;

    n = rq != NULL ? rq->ncalls : 0;
    if (n == 0 || reader->known != NULL) {
        return CHAT_OK;
    }

    reader->known = chat_arena_alloc(frame->arena, n * sizeof(*reader->known));
    if (reader->known == NULL) {
        return CHAT_ERROR;
    }

    for (i = 0; i < n; i++) {
        if (!rq->calls[i].bare) {
            reader->known[reader->nknown++] = &rq->calls[i];
        }
    }

    qsort(reader->known, reader->nknown, sizeof(*reader->known),
          chat_ag_ui_known_compare);
    return CHAT_OK;
}


/* The request's call of this id, or NULL. */
static const chat_call_t *
chat_ag_ui_known(const chat_ag_ui_reader_t *reader, chat_str_t id)
{
    chat_call_t               wanted;
    const chat_call_t *const *found, *key = &wanted;

    if (reader->nknown == 0) {
        return NULL;
    }

    memset(&wanted, 0, sizeof(wanted));
    wanted.id = id;

    found = bsearch(&key, reader->known, reader->nknown, sizeof(key),
                    chat_ag_ui_known_compare);

    return found != NULL ? *found : NULL;
}


/* A result has come: a call that is opened from now on is of another step. */
static void
chat_ag_ui_answered(chat_ag_ui_reader_t *reader, chat_str_t id)
{
    chat_ag_ui_slot_t *slot = chat_ag_ui_slot(reader, id);

    if (slot == NULL) {
        return;
    }

    slot->answered = 1;
    if (chat_ag_ui_known(reader, id) == NULL) {
        reader->answered = 1;
    }
}


/* The event's tool message, as a body would have it. */
static chat_rc_e
chat_ag_ui_result_text(chat_ag_ui_frame_t *frame, chat_str_t *out)
{
    chat_rc_e          rc;
    chat_buf_t         text = { 0 };
    chat_json_doc_t   *doc = frame->doc;
    const chat_json_t *content = chat_json_get(doc, doc->root, "content");

    chat_buf_puts(&text, "{\"id\":");
    chat_buf_json(&text, chat_ag_ui_string(frame, "messageId"));
    chat_buf_puts(&text, ",\"role\":\"tool\",\"toolCallId\":");
    chat_buf_json(&text, chat_ag_ui_string(frame, "toolCallId"));
    chat_buf_puts(&text, ",\"content\":");
    chat_buf_add(&text,
                 content ? chat_json_raw(doc, content) : chat_cstr("\"\""));
    chat_buf_puts(&text, "}");

    rc = chat_buf_dup(&text, frame->events->arena, out);
    chat_buf_free(&text);
    return rc;
}


/* node: the event, or a tool message. */
static chat_rc_e
chat_ag_ui_result(chat_ag_ui_frame_t *frame, const chat_json_t *node,
                  chat_str_t text, int implied)
{
    chat_event_t *event;

    event = chat_events_add(frame->events, CHAT_EVENT_CALL_RESULT);
    if (event == NULL) {
        return CHAT_ERROR;
    }

    event->id = chat_json_text(frame->doc, node, "toolCallId");
    event->text = text;
    event->implied = implied & 1;
    chat_ag_ui_answered(frame->reader, event->id);

    return chat_ag_ui_tool_result(frame->doc, node, &event->outcome,
                                  &event->digest);
}


chat_rc_e
chat_ag_ui_call_result(chat_ag_ui_frame_t *frame)
{
    chat_str_t text;

    if (chat_ag_ui_string(frame, "toolCallId").len == 0) {
        return chat_events_put(frame->events, CHAT_EVENT_OPAQUE);
    }

    if (chat_ag_ui_known_sort(frame) != CHAT_OK
        || chat_ag_ui_result_text(frame, &text) != CHAT_OK)
    {
        return CHAT_ERROR;
    }

    return chat_ag_ui_result(frame, frame->doc->root, text, 0);
}


/* A call of the assistant's in a snapshot, if it is new. */
static chat_rc_e
chat_ag_ui_snapshot_call(chat_ag_ui_frame_t *frame, const chat_json_t *message,
                         const chat_json_t *node)
{
    chat_rc_e         rc;
    chat_event_t     *event;
    chat_json_doc_t  *doc = frame->doc;
    chat_ag_ui_slot_t call = { 0 }, *slot;

    call.id = chat_json_text(doc, node, "id");
    call.name = chat_ag_ui_call_name(doc, node);
    call.parent = chat_json_text(doc, message, "id");

    if (chat_ag_ui_slot(frame->reader, call.id) != NULL
        || chat_ag_ui_known(frame->reader, call.id) != NULL)
    {
        return CHAT_OK;
    }

    rc = chat_ag_ui_call_open(frame, &call, 1, &slot);
    if (rc != CHAT_OK) {
        return rc == CHAT_DECLINED ? CHAT_OK : rc;
    }

    event = chat_ag_ui_emit(frame, CHAT_EVENT_CALL_READY, slot, 1);
    if (event == NULL) {
        return CHAT_ERROR;
    }

    slot->ready = 1;
    event->text = chat_ag_ui_call_args(doc, node);
    event->whole = 1;

    return CHAT_OK;
}


/* A tool message in a snapshot, if it answers what had no answer. */
static chat_rc_e
chat_ag_ui_snapshot_result(chat_ag_ui_frame_t *frame,
                           const chat_json_t  *message)
{
    chat_str_t               id;
    const chat_call_t       *known;
    const chat_ag_ui_slot_t *slot;

    id = chat_json_text(frame->doc, message, "toolCallId");
    slot = chat_ag_ui_slot(frame->reader, id);
    known = chat_ag_ui_known(frame->reader, id);

    if (slot != NULL ? slot->answered
                     : known == NULL || known->outcome != CHAT_OUTCOME_NONE)
    {
        return CHAT_OK;
    }

    return chat_ag_ui_result(frame, message,
                             chat_json_raw(frame->doc, message), 1);
}


static chat_rc_e
chat_ag_ui_snapshot_message(chat_ag_ui_frame_t *frame,
                            const chat_json_t  *message)
{
    const chat_json_t *list, *node;

    switch (chat_ag_ui_role(frame->doc, message)) {
    case CHAT_AG_UI_TOOL:
        return chat_ag_ui_snapshot_result(frame, message);

    case CHAT_AG_UI_ASSISTANT:
        list = chat_json_get(frame->doc, message, "toolCalls");
        node = list && list->type == CHAT_JSON_ARRAY ? list->child : NULL;

        for (/* void */; node != NULL; node = node->next) {
            if (chat_ag_ui_snapshot_call(frame, message, node) != CHAT_OK) {
                return CHAT_ERROR;
            }
        }
        return CHAT_OK;

    default:
        return CHAT_OK;
    }
}


chat_rc_e
chat_ag_ui_snapshot(chat_ag_ui_frame_t *frame)
{
    const chat_json_t *list, *node, *first;

    if (chat_ag_ui_known_sort(frame) != CHAT_OK
        || chat_events_put(frame->events, CHAT_EVENT_OPAQUE) != CHAT_OK)
    {
        return CHAT_ERROR;
    }

    list = chat_json_get(frame->doc, frame->doc->root, "messages");
    first = list && list->type == CHAT_JSON_ARRAY ? list->child : NULL;

    /* earlier turns are over */
    for (node = first; node != NULL; node = node->next) {
        if (chat_ag_ui_role(frame->doc, node) == CHAT_AG_UI_USER) {
            first = node->next;
        }
    }

    for (node = first; node != NULL; node = node->next) {
        if (chat_ag_ui_snapshot_message(frame, node) != CHAT_OK) {
            return CHAT_ERROR;
        }
    }

    return CHAT_OK;
}
