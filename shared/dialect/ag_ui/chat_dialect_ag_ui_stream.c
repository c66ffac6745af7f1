/*
 * chat_dialect_ag_ui_stream.c: reads the events of an AG-UI run.
 *
 * A call is opened, written and ended, or comes in chunks, of which the first
 * opens it: it has no end of its own, but the next event of its lane (the
 * parent's, or a subagent's) is one. A call that is opened after a result
 * belongs to a further answer of the model, and so to a further step, as it
 * will in the transcript. What interrupts a run is to be answered as calls
 * are: it is a step of its own, known by the run's id. Only a run that ended
 * well seals its calls.
 *
 * A snapshot of the messages says the whole conversation once more, and what
 * is new in it as well. It takes the place of what the client has, so it is
 * never a replay: of its calls only those are events that neither the request
 * nor the stream has had, and none of them is a reason to drop the frame.
 */

#include "dialect/ag_ui/chat_dialect_ag_ui.h"

#define CHAT_AG_UI_INTERRUPT 0x80000000u /* places of interrupts, from here */

typedef chat_ag_ui_live_t   live_t;
typedef chat_ag_ui_reader_t reader_t;


/* ---- calls ---- */


/* 1 if a call of this message is of another answer than those before it. */
static int
begins_step(const reader_t *r, chat_str_t parent)
{
    const chat_table_entry_t *entry;

    if (!r->answered || parent.len == 0) {
        return r->answered;
    }

    entry = chat_table_find(&r->parents, parent);
    return entry == NULL || entry->number <= r->first;
}


static live_t *
call_open(reader_t *r, chat_str_t id, chat_str_t name, chat_str_t parent,
          int implied)
{
    int     fresh = chat_calls_find(&r->reader.calls, id) == NULL;
    live_t *own = NULL;

    if (parent.len <= CHAT_ID_MAX) {
        own = chat_calls_open(&r->reader.calls, id, name);
    }

    if (own == NULL) {
        return NULL;
    }

    if (fresh && begins_step(r, parent)) {
        r->first = own->call.place;
        r->answered = 0;
        chat_events_add(r->reader.events, CHAT_EVENT_STEP_SEAL)->implied = 1;
        chat_events_add(r->reader.events, CHAT_EVENT_STEP_OPEN)->implied = 1;
    }

    if (fresh && parent.len != 0) {
        chat_reader_entry(&r->reader, &r->parents, parent)->number =
            (size_t) own->call.place + 1;
    }

    own->call.kind = chat_ag_ui_kind(r->reader.rq, name);
    chat_reader_call(&r->reader, CHAT_EVENT_CALL_OPEN, &own->call)->implied =
        implied & 1;

    return own;
}


/* Opens the call that the frame names. */
static live_t *
call_said(reader_t *r)
{
    return call_open(r, chat_reader_text(&r->reader, "toolCallId"),
                     chat_reader_text(&r->reader, "toolCallName"),
                     chat_reader_text(&r->reader, "parentMessageId"), 0);
}


static void
call_start(reader_t *r, live_t *own)
{
    (void) call_said(r);
}


/* The next piece of the arguments, maybe an empty one. */
static void
call_args(reader_t *r, live_t *own)
{
    if (own != NULL) {
        chat_reader_args(&r->reader, &own->call,
                         chat_reader_get(&r->reader, "delta"));
    }
}


static void
ready(reader_t *r, chat_stream_call_t *call, int implied)
{
    call->ready = 1;
    chat_reader_call(&r->reader, CHAT_EVENT_CALL_READY, call)->implied =
        implied & 1;
}


static void
call_end(reader_t *r, live_t *own)
{
    if (own != NULL && !own->call.ready) {
        ready(r, &own->call, 0);
    }
}


/* From now on the call is written in chunks, in this lane. */
static void
begin_chunks(reader_t *r, live_t *own, chat_str_t lane)
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
end_chunks(reader_t *r, live_t *own)
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
static live_t *
find_chunked(const reader_t *r, chat_str_t lane)
{
    return chat_table_item(&r->lanes, lane);
}


static void
close_lane(reader_t *r, chat_str_t lane)
{
    live_t *own = find_chunked(r, lane);

    if (own != NULL) {
        end_chunks(r, own);
    }
}


static void
close_all(reader_t *r)
{
    while (r->chunked != NULL) {
        end_chunks(r, r->chunked);
    }
}


static void
call_chunk(reader_t *r, live_t *own)
{
    chat_str_t id = chat_reader_text(&r->reader, "toolCallId");
    chat_str_t lane = chat_reader_text(&r->reader, "subagentRunId");

    if (id.len == 0) {
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

        close_lane(r, lane);
        own = call_said(r);
        if (own == NULL) {
            return;
        }

        begin_chunks(r, own, lane);
    }

    call_args(r, own);
}


/*
 * An interrupt that asks for an approval may be answered by a service. It has
 * no name: it is no tool's.
 */
static void
interrupt(reader_t *r, const chat_json_t *node, uint32_t place)
{
    chat_event_t       *event;
    chat_stream_call_t *call = chat_calls_open_at(
        &r->reader.calls, CHAT_AG_UI_INTERRUPT + place,
        chat_json_text(r->reader.doc, node, "id"), chat_str(NULL, 0));

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


/* A step of their own; none if one of them has no id to be answered by. */
static void
interrupts(reader_t *r)
{
    uint32_t           place = 0;
    chat_str_t         id;
    chat_json_doc_t   *doc = r->reader.doc;
    const chat_json_t *outcome = chat_reader_get(&r->reader, "outcome");
    const chat_json_t *node,
        *first = chat_json_first(chat_json_get(doc, outcome, "interrupts"));

    for (node = first; node != NULL; node = node->next) {
        id = chat_json_text(doc, node, "id");
        if (id.len == 0 || id.len > CHAT_ID_MAX) {
            return;
        }
    }

    if (first == NULL) {
        return;
    }

    chat_events_add(r->reader.events, CHAT_EVENT_STEP_OPEN)->id = r->run;

    for (node = first; node != NULL; node = node->next) {
        interrupt(r, node, place++);
    }

    chat_events_add(r->reader.events, CHAT_EVENT_STEP_SEAL);
}


/* ---- results and snapshots ---- */


/* node: the event, or a tool message. */
static chat_event_t *
add_result(reader_t *r, const chat_json_t *node)
{
    chat_event_t      *event;
    live_t            *own;
    const chat_json_t *said;

    event = chat_events_add(r->reader.events, CHAT_EVENT_CALL_RESULT);
    event->id = chat_json_text(r->reader.doc, node, "toolCallId");

    /* A call that is opened from now on is of another step. */
    own = chat_calls_find(&r->reader.calls, event->id);
    if (own != NULL) {
        own->answered = 1;
        r->answered |= own->call.known->brought == NULL;
    }

    said = chat_ag_ui_tool_said(r->reader.doc, node, &event->outcome);
    r->reader.calls.failed |=
        chat_result_hash(r->reader.calls.tenant, r->reader.doc, said,
                         chat_cstr(CHAT_AG_UI_NO_CONTENT), &event->digest)
        != CHAT_OK;

    return event;
}


/* The text of the result is a tool message, as a body would have it. */
static void
call_result(reader_t *r, live_t *own)
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
snapshot_call(reader_t *r, chat_str_t parent, const chat_json_t *node)
{
    chat_str_t         id = chat_json_text(r->reader.doc, node, "id");
    chat_event_t      *event;
    live_t            *own;
    const chat_json_t *function;

    if (chat_calls_known(&r->reader.calls, id) != NULL) {
        return;
    }

    function = chat_json_get(r->reader.doc, node, "function");
    own = call_open(r, id, chat_json_text(r->reader.doc, function, "name"),
                    parent, 1);
    if (own == NULL) {
        return;
    }

    own->call.ready = 1;
    event = chat_reader_call(&r->reader, CHAT_EVENT_CALL_READY, &own->call);
    event->implied = 1;
    event->text = chat_json_said(
        r->reader.doc, chat_json_get(r->reader.doc, function, "arguments"));
    event->whole = 1;
}


/* A tool message in a snapshot, if it answers what had no answer. */
static void
snapshot_result(reader_t *r, const chat_json_t *message)
{
    chat_str_t    id = chat_json_text(r->reader.doc, message, "toolCallId");
    chat_event_t *event;
    const live_t *own = chat_calls_find(&r->reader.calls, id);
    const chat_known_t *known = chat_calls_known(&r->reader.calls, id);

    if (own ? !own->answered : known && known->outcome == CHAT_OUTCOME_NONE) {
        event = add_result(r, message);
        event->text = chat_json_raw(r->reader.doc, message);
        event->implied = 1;
    }
}


static void
snapshot(reader_t *r, live_t *own)
{
    chat_str_t         parent;
    chat_json_doc_t   *doc = r->reader.doc;
    const chat_json_t *node, *first, *call, *id;

    first = chat_json_first(chat_json_get(doc, doc->root, "messages"));

    /* earlier turns are over */
    for (node = first; node != NULL; node = node->next) {
        if (chat_ag_ui_role(doc, node, &call, &id) == CHAT_ROLE_USER) {
            first = node->next;
        }
    }

    for (node = first; node != NULL; node = node->next) {
        switch (chat_ag_ui_role(doc, node, &call, &id)) {
        case CHAT_ROLE_RESULTS:
            snapshot_result(r, node);
            break;

        case CHAT_ROLE_ASSISTANT:
            parent = chat_json_text(doc, node, "id");
            call = chat_json_first(call);

            for (/* void */; call != NULL; call = call->next) {
                snapshot_call(r, parent, call);
            }
            break;

        default:
            break;
        }
    }
}


/* ---- runs ---- */


/* The chunked calls that an event ends. */
typedef enum {
    CHAT_AG_UI_NONE,
    CHAT_AG_UI_LANE, /* those of its own lane */
    CHAT_AG_UI_ALL
} ends_e;


static void
run_started(reader_t *r, live_t *own)
{
    chat_event_t *event;

    event = chat_events_add(r->reader.events, CHAT_EVENT_TURN_OPEN);
    event->id = chat_reader_text(&r->reader, "runId");
    r->first = r->reader.calls.count;
    r->answered = 0;

    if (event->id.len <= CHAT_ID_MAX) {
        r->run = chat_reader_keep(&r->reader, event->id);
    }

    chat_events_add(r->reader.events, CHAT_EVENT_STEP_OPEN);
}


static void
run_finished(reader_t *r, live_t *own)
{
    chat_json_doc_t   *doc = r->reader.doc;
    const chat_json_t *type =
        chat_json_get(doc, chat_reader_get(&r->reader, "outcome"), "type");

    /* The client has stopped the run: it waits for nothing. */
    if (chat_json_is(doc, type, "cancelled")) {
        chat_reader_end(&r->reader, CHAT_END_ABORTED);
        return;
    }

    chat_events_add(r->reader.events, CHAT_EVENT_STEP_SEAL);

    if (chat_json_is(doc, type, "interrupt")) {
        interrupts(r);
    }

    chat_reader_end(&r->reader, CHAT_END_FINISHED);
}


static void
run_error(reader_t *r, live_t *own)
{
    chat_reader_end(&r->reader, CHAT_END_FAILED);
}


/* All types that end something, or mean something. */
static const struct {
    const char *type; /* or several types, as it begins them */
    ends_e      ends;
    /* Gets the call that the event names, or NULL. NULL: it means nothing. */
    void (*read)(reader_t *r, live_t *own);
} types[] = {
    { "TOOL_CALL_START", CHAT_AG_UI_LANE, call_start },
    { "TOOL_CALL_ARGS", CHAT_AG_UI_LANE, call_args },
    { "TOOL_CALL_END", CHAT_AG_UI_LANE, call_end },
    { "TOOL_CALL_CHUNK", CHAT_AG_UI_NONE, call_chunk },
    { "TOOL_CALL_RESULT", CHAT_AG_UI_LANE, call_result },
    { "MESSAGES_SNAPSHOT", CHAT_AG_UI_ALL, snapshot },
    { "RUN_STARTED", CHAT_AG_UI_ALL, run_started },
    { "RUN_FINISHED", CHAT_AG_UI_ALL, run_finished },
    { "RUN_ERROR", CHAT_AG_UI_NONE, run_error },
    { "TEXT_MESSAGE_", CHAT_AG_UI_LANE, NULL },
    { "STATE_", CHAT_AG_UI_LANE, NULL },
    { "CUSTOM", CHAT_AG_UI_LANE, NULL },
    { "STEP_", CHAT_AG_UI_LANE, NULL },
    { "REASONING_START", CHAT_AG_UI_LANE, NULL },
    { "REASONING_MESSAGE_", CHAT_AG_UI_LANE, NULL },
    { "REASONING_END", CHAT_AG_UI_LANE, NULL },
    { "SUBAGENT_FINISHED", CHAT_AG_UI_LANE, NULL },
    { "SUBAGENT_ERROR", CHAT_AG_UI_LANE, NULL },
};


#define CHAT_AG_UI_TYPES (sizeof(types) / sizeof(types[0]))


chat_rc_e
chat_ag_ui_read(void *reader, const chat_frame_t *frame)
{
    size_t     i = 0;
    reader_t  *r = reader;
    chat_str_t type;

    if (r->reader.doc == NULL) {
        return CHAT_DECLINED;
    }

    type = chat_reader_text(&r->reader, "type");
    /* types of other dialects are in small letters */
    if (!r->reader.begun
        && (type.len == 0 || type.data[0] < 'A' || type.data[0] > 'Z'))
    {
        return CHAT_DECLINED;
    }

    while (i < CHAT_AG_UI_TYPES && !chat_str_starts(type, types[i].type)) {
        i++;
    }

    if (i == CHAT_AG_UI_TYPES) {
        return CHAT_OK;
    }

    if (types[i].ends == CHAT_AG_UI_ALL) {
        close_all(r);

    } else if (types[i].ends == CHAT_AG_UI_LANE && r->chunked != NULL) {
        close_lane(r, chat_reader_text(&r->reader, "subagentRunId"));
    }

    if (types[i].read != NULL) {
        types[i].read(
            r, chat_calls_find(&r->reader.calls,
                               chat_reader_text(&r->reader, "toolCallId")));
    }

    return CHAT_OK;
}
