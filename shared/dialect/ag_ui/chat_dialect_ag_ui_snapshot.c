/*
 * chat_dialect_ag_ui_snapshot.c: results of AG-UI calls, and snapshots.
 *
 * A snapshot of the messages says the whole conversation once more, and what
 * is new in it as well. It takes the place of what the client has, so it is
 * never a replay: of its calls only those are events that neither the request
 * nor the stream has had, and none of them is a reason to drop the frame.
 */

#include "dialect/ag_ui/chat_dialect_ag_ui.h"


/* node: the event, or a tool message. */
static chat_event_t *
add_result(chat_ag_ui_reader_t *r, const chat_json_t *node)
{
    chat_event_t      *event;
    chat_ag_ui_live_t *own;

    event = chat_events_add(r->reader.events, CHAT_EVENT_CALL_RESULT);
    event->id = chat_json_text(r->reader.doc, node, "toolCallId");

    /* A call that is opened from now on is of another step. */
    own = chat_calls_find(&r->reader.calls, event->id);
    if (own != NULL) {
        own->answered = 1;
        r->answered |= !own->had;
    }

    if (chat_ag_ui_tool_result(r->reader.doc, node, &event->outcome,
                               &event->digest)
        != CHAT_OK)
    {
        r->reader.calls.failed = 1;
    }

    return event;
}


/* The text of the result is a tool message, as a body would have it. */
void
chat_ag_ui_call_result(chat_ag_ui_reader_t *r)
{
    chat_buf_t         text = { 0 };
    chat_event_t      *event;
    const chat_json_t *content = chat_reader_get(&r->reader, "content");

    if (chat_reader_text(&r->reader, "toolCallId").len == 0) {
        return;
    }

    event = add_result(r, r->reader.doc->root);

    chat_buf_format(
        &text,
        "{\"id\":%j,\"role\":\"tool\",\"toolCallId\":%j,\"content\":%v}",
        chat_reader_text(&r->reader, "messageId"), event->id,
        content ? chat_json_raw(r->reader.doc, content) : chat_cstr("\"\""));

    if (chat_buf_move(&text, r->reader.events->arena, &event->text) != CHAT_OK)
    {
        r->reader.calls.failed = 1;
    }
}


/* A call of the assistant's in a snapshot, if it is new. */
static void
snapshot_call(chat_ag_ui_reader_t *r, chat_str_t parent,
              const chat_json_t *node)
{
    chat_str_t         id = chat_json_text(r->reader.doc, node, "id");
    chat_event_t      *event;
    chat_ag_ui_live_t *own;

    if (chat_calls_known(&r->reader.calls, id) != NULL) {
        return;
    }

    own = chat_ag_ui_call_open(
        r, id, chat_ag_ui_call_name(r->reader.doc, node), parent, 1);
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
    chat_event_t            *event;
    const chat_known_t      *known;
    const chat_ag_ui_live_t *own;

    id = chat_json_text(r->reader.doc, message, "toolCallId");
    known = chat_calls_known(&r->reader.calls, id);
    own = chat_calls_find(&r->reader.calls, id);

    if (own ? !own->answered : known && known->outcome == CHAT_OUTCOME_NONE) {
        event = add_result(r, message);
        event->text = chat_json_raw(r->reader.doc, message);
        event->implied = 1;
    }
}


void
chat_ag_ui_snapshot(chat_ag_ui_reader_t *r)
{
    chat_str_t         parent;
    chat_json_doc_t   *doc = r->reader.doc;
    const chat_json_t *node, *first, *call;

    first = chat_json_first(doc, doc->root, "messages");

    /* earlier turns are over */
    for (node = first; node != NULL; node = node->next) {
        if (chat_ag_ui_role(doc, node) == CHAT_ROLE_USER) {
            first = node->next;
        }
    }

    for (node = first; node != NULL; node = node->next) {
        switch (chat_ag_ui_role(doc, node)) {
        case CHAT_ROLE_RESULTS:
            snapshot_result(r, node);
            break;

        case CHAT_ROLE_ASSISTANT:
            parent = chat_json_text(doc, node, "id");
            call = chat_json_first(doc, node, "toolCalls");

            for (/* void */; call != NULL; call = call->next) {
                snapshot_call(r, parent, call);
            }
            break;

        default:
            break;
        }
    }
}
