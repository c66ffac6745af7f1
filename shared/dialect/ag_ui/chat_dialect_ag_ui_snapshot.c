/*
 * chat_dialect_ag_ui_snapshot.c: results of AG-UI calls, and snapshots.
 *
 * A snapshot of the messages says the whole conversation once more, and what
 * is new in it as well. It takes the place of what the client has, so it is
 * never a replay: of its calls only those are events that neither the request
 * nor the stream has had, and none of them is a reason to drop the frame.
 */

#include "dialect/ag_ui/chat_dialect_ag_ui.h"


/* Finds the request's calls by their ids, once that is needed. */
static void
index_calls(chat_ag_ui_reader_t *r)
{
    size_t              i, n = r->rq ? r->rq->ncalls : 0;
    const chat_call_t  *calls = r->rq ? r->rq->calls : NULL;
    chat_table_entry_t *entry;

    for (i = 0; i < n && !r->indexed; i++) {
        if (calls[i].bare) {
            continue;
        }

        entry = chat_table_put(&r->had, calls[i].id);
        if (entry == NULL) {
            r->reader.calls.failed = 1;
            return;
        }
        entry->item = (void *) &calls[i];
    }

    r->indexed = 1;
}


/* The request's call of this id, or NULL. */
static const chat_call_t *
find_had(const chat_ag_ui_reader_t *r, chat_str_t id)
{
    const chat_table_entry_t *entry = chat_table_find(&r->had, id);

    return entry ? entry->item : NULL;
}


/* The event's tool message, as a body would have it. */
static chat_str_t
result_text(chat_ag_ui_reader_t *r)
{
    chat_str_t         out = { NULL, 0 };
    chat_buf_t         text = { 0 };
    const chat_json_t *content = chat_reader_get(&r->reader, "content");

    chat_buf_puts(&text, "{\"id\":");
    chat_buf_json(&text, chat_reader_text(&r->reader, "messageId"));
    chat_buf_puts(&text, ",\"role\":\"tool\",\"toolCallId\":");
    chat_buf_json(&text, chat_reader_text(&r->reader, "toolCallId"));
    chat_buf_puts(&text, ",\"content\":");
    chat_buf_add(&text, content ? chat_json_raw(r->reader.doc, content)
                                : chat_cstr("\"\""));
    chat_buf_puts(&text, "}");

    if (chat_buf_move(&text, r->reader.events->arena, &out) != CHAT_OK) {
        r->reader.calls.failed = 1;
    }

    return out;
}


/* node: the event, or a tool message. */
static void
add_result(chat_ag_ui_reader_t *r, const chat_json_t *node, chat_str_t text,
           int implied)
{
    chat_event_t      *event;
    chat_ag_ui_live_t *own;

    event = chat_events_add(r->reader.events, CHAT_EVENT_CALL_RESULT);
    event->id = chat_json_text(r->reader.doc, node, "toolCallId");
    event->text = text;
    event->implied = implied & 1;

    /* A call that is opened from now on is of another step. */
    own = chat_calls_find(&r->reader.calls, event->id);
    if (own != NULL) {
        own->answered = 1;
        r->answered |= find_had(r, event->id) == NULL;
    }

    if (chat_ag_ui_tool_result(r->reader.doc, node, &event->outcome,
                               &event->digest)
        != CHAT_OK)
    {
        r->reader.calls.failed = 1;
    }
}


void
chat_ag_ui_call_result(chat_ag_ui_reader_t *r)
{
    if (chat_reader_text(&r->reader, "toolCallId").len == 0) {
        chat_events_add(r->reader.events, CHAT_EVENT_OPAQUE);
        return;
    }

    index_calls(r);
    add_result(r, r->reader.doc->root, result_text(r), 0);
}


/* A call of the assistant's in a snapshot, if it is new. */
static void
snapshot_call(chat_ag_ui_reader_t *r, chat_str_t parent,
              const chat_json_t *node)
{
    chat_str_t         id = chat_json_text(r->reader.doc, node, "id");
    chat_event_t      *event;
    chat_ag_ui_live_t *own;

    if (chat_calls_find(&r->reader.calls, id) || find_had(r, id)) {
        return;
    }

    own =
        chat_ag_ui_call_open(r, id, chat_ag_ui_call_name(r->reader.doc, node),
                             parent, chat_str(NULL, 0), 1);
    if (own == NULL) {
        return;
    }

    own->call.ready = 1;
    event = chat_reader_call(&r->reader, CHAT_EVENT_CALL_READY, &own->call);
    event->implied = 1;
    event->text = chat_ag_ui_call_args(r->reader.doc, node);
    event->whole = 1;
}


/* A tool message in a snapshot, if it answers what had no answer. */
static void
snapshot_result(chat_ag_ui_reader_t *r, const chat_json_t *message)
{
    chat_str_t               id;
    const chat_call_t       *had;
    const chat_ag_ui_live_t *own;

    id = chat_json_text(r->reader.doc, message, "toolCallId");
    own = chat_calls_find(&r->reader.calls, id);
    had = find_had(r, id);

    if (own ? !own->answered : had && had->outcome == CHAT_OUTCOME_NONE) {
        add_result(r, message, chat_json_raw(r->reader.doc, message), 1);
    }
}


static void
snapshot_message(chat_ag_ui_reader_t *r, const chat_json_t *message)
{
    chat_json_doc_t   *doc = r->reader.doc;
    const chat_json_t *list, *node;

    switch (chat_ag_ui_role(doc, message)) {
    case CHAT_ROLE_RESULTS:
        snapshot_result(r, message);
        break;

    case CHAT_ROLE_ASSISTANT:
        list = chat_json_get(doc, message, "toolCalls");
        node = list && list->type == CHAT_JSON_ARRAY ? list->child : NULL;

        for (/* void */; node != NULL; node = node->next) {
            snapshot_call(r, chat_json_text(doc, message, "id"), node);
        }
        break;

    default:
        break;
    }
}


void
chat_ag_ui_snapshot(chat_ag_ui_reader_t *r)
{
    const chat_json_t *list, *node, *first;

    index_calls(r);
    chat_events_add(r->reader.events, CHAT_EVENT_OPAQUE);

    list = chat_reader_get(&r->reader, "messages");
    first = list && list->type == CHAT_JSON_ARRAY ? list->child : NULL;

    /* earlier turns are over */
    for (node = first; node != NULL; node = node->next) {
        if (chat_ag_ui_role(r->reader.doc, node) == CHAT_ROLE_USER) {
            first = node->next;
        }
    }

    for (node = first; node != NULL; node = node->next) {
        snapshot_message(r, node);
    }
}
