/*
 * chat_dialect_ag_ui_stream.c: reads the events of an AG-UI run.
 *
 * What a frame says by its type, and which chunked calls it ends: a call that
 * comes in chunks has no end of its own, but the next event of its lane (the
 * parent's, or a subagent's) is one. A type that is not known is OPAQUE. Only
 * a run that ended well seals its calls.
 */

#include "dialect/ag_ui/chat_dialect_ag_ui.h"

/* The chunked calls that an event ends. */
typedef enum {
    CHAT_AG_UI_NONE,
    CHAT_AG_UI_LANE,  /* those of its own lane */
    CHAT_AG_UI_ENDED, /* those of the subagent that it names */
    CHAT_AG_UI_ALL
} ends_e;


void *
chat_ag_ui_open(chat_arena_t *arena, const chat_request_t *rq)
{
    chat_ag_ui_reader_t *r;

    r = chat_reader_create(arena, sizeof(*r), sizeof(chat_ag_ui_live_t));
    if (r != NULL) {
        r->own = rq != NULL ? rq->own : NULL;
        chat_table_init(&r->lanes, arena);
        chat_table_init(&r->parents, arena);
    }

    return r;
}


static void
run_started(chat_ag_ui_reader_t *r)
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
run_finished(chat_ag_ui_reader_t *r)
{
    chat_json_doc_t   *doc = r->reader.doc;
    const chat_json_t *type;

    type = chat_json_get(doc, chat_reader_get(&r->reader, "outcome"), "type");

    /* The client has stopped the run: it waits for nothing. */
    if (chat_json_is(doc, type, "cancelled")) {
        chat_reader_end(&r->reader, CHAT_END_ABORTED);
        return;
    }

    chat_events_add(r->reader.events, CHAT_EVENT_STEP_SEAL);

    if (chat_json_is(doc, type, "interrupt")) {
        chat_ag_ui_interrupts(r);
    }

    chat_reader_end(&r->reader, CHAT_END_FINISHED);
}


static void
run_error(chat_ag_ui_reader_t *r)
{
    chat_reader_end(&r->reader, CHAT_END_FAILED);
}


/* All types that end something, or mean something. */
static const struct {
    const char *type;
    ends_e      ends;
    void (*read)(chat_ag_ui_reader_t *r); /* NULL: it means nothing */
} types[] = {
    { "TOOL_CALL_START", CHAT_AG_UI_LANE, chat_ag_ui_call_start },
    { "TOOL_CALL_ARGS", CHAT_AG_UI_LANE, chat_ag_ui_call_more },
    { "TOOL_CALL_END", CHAT_AG_UI_LANE, chat_ag_ui_call_end },
    { "TOOL_CALL_CHUNK", CHAT_AG_UI_NONE, chat_ag_ui_call_chunk },
    { "TOOL_CALL_RESULT", CHAT_AG_UI_LANE, chat_ag_ui_call_result },
    { "MESSAGES_SNAPSHOT", CHAT_AG_UI_ALL, chat_ag_ui_snapshot },
    { "RUN_STARTED", CHAT_AG_UI_ALL, run_started },
    { "RUN_FINISHED", CHAT_AG_UI_ALL, run_finished },
    { "RUN_ERROR", CHAT_AG_UI_NONE, run_error },
    { "TEXT_MESSAGE_START", CHAT_AG_UI_LANE, NULL },
    { "TEXT_MESSAGE_CONTENT", CHAT_AG_UI_LANE, NULL },
    { "TEXT_MESSAGE_END", CHAT_AG_UI_LANE, NULL },
    { "TEXT_MESSAGE_CHUNK", CHAT_AG_UI_LANE, NULL },
    { "STATE_SNAPSHOT", CHAT_AG_UI_LANE, NULL },
    { "STATE_DELTA", CHAT_AG_UI_LANE, NULL },
    { "CUSTOM", CHAT_AG_UI_LANE, NULL },
    { "STEP_STARTED", CHAT_AG_UI_LANE, NULL },
    { "STEP_FINISHED", CHAT_AG_UI_LANE, NULL },
    { "REASONING_START", CHAT_AG_UI_LANE, NULL },
    { "REASONING_MESSAGE_START", CHAT_AG_UI_LANE, NULL },
    { "REASONING_MESSAGE_CONTENT", CHAT_AG_UI_LANE, NULL },
    { "REASONING_MESSAGE_END", CHAT_AG_UI_LANE, NULL },
    { "REASONING_MESSAGE_CHUNK", CHAT_AG_UI_LANE, NULL },
    { "REASONING_END", CHAT_AG_UI_LANE, NULL },
    { "SUBAGENT_FINISHED", CHAT_AG_UI_ENDED, NULL },
    { "SUBAGENT_ERROR", CHAT_AG_UI_ENDED, NULL },
};


static void
end_chunks(chat_ag_ui_reader_t *r, ends_e ends)
{
    chat_str_t lane;

    if (r->chunked == NULL || ends == CHAT_AG_UI_NONE) {
        return;
    }

    if (ends == CHAT_AG_UI_ALL) {
        chat_ag_ui_close_all(r);
        return;
    }

    lane = chat_reader_text(&r->reader, "subagentRunId");

    if (ends == CHAT_AG_UI_LANE || lane.len != 0) {
        chat_ag_ui_close_lane(r, lane);
    }
}


/* 1 if the text is one that a type can be: capitals and underscores. */
static int
is_type(chat_str_t type)
{
    size_t i;

    for (i = 0; i < type.len; i++) {
        if ((type.data[i] < 'A' || type.data[i] > 'Z') && type.data[i] != '_')
        {
            return 0;
        }
    }

    return type.len != 0;
}


chat_rc_e
chat_ag_ui_read(void *reader, const chat_frame_t *frame)
{
    size_t               i;
    chat_str_t           type;
    chat_ag_ui_reader_t *r = reader;

    if (r->reader.doc == NULL) {
        return CHAT_DECLINED;
    }

    type = chat_reader_text(&r->reader, "type");
    if (!r->reader.begun && !is_type(type)) {
        return CHAT_DECLINED;
    }

    for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (chat_str_is(type, types[i].type)) {
            end_chunks(r, types[i].ends);
            if (types[i].read != NULL) {
                types[i].read(r);
            }
            break;
        }
    }

    return CHAT_OK;
}
