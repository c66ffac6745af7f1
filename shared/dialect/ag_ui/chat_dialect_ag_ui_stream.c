/*
 * chat_dialect_ag_ui_stream.c: reads the events of an AG-UI run.
 *
 * What a frame says by its type, and which chunked calls it ends: a call that
 * comes in chunks has no end of its own, but the next event of its lane (the
 * parent's, or a subagent's) is one.
 * Promises: what is not known is OPAQUE; one end per stream; only a run that
 * ended well seals its calls.
 * Must not know: what becomes of a call or a frame.
 */

#include "dialect/ag_ui/chat_dialect_ag_ui.h"

#define CHAT_AG_UI_TYPE "{\"type\":\""

/* The chunked calls that an event ends. */
typedef enum {
    CHAT_AG_UI_NONE,
    CHAT_AG_UI_LANE,  /* those of its own lane */
    CHAT_AG_UI_ENDED, /* those of the subagent that it names */
    CHAT_AG_UI_ALL
} chat_ag_ui_ends_e;


void *
chat_ag_ui_open(chat_arena_t *arena, const chat_request_t *rq)
{
    chat_ag_ui_reader_t *reader = chat_arena_alloc(arena, sizeof(*reader));

    if (reader != NULL) {
        reader->rq = rq;
        chat_table_init(&reader->ids, arena);
    }

    return reader;
}


chat_str_t
chat_ag_ui_string(const chat_ag_ui_frame_t *frame, const char *key)
{
    return chat_json_text(frame->doc, frame->doc->root, key);
}


static chat_rc_e
chat_ag_ui_opaque(chat_ag_ui_frame_t *frame)
{
    return chat_events_put(frame->events, CHAT_EVENT_OPAQUE);
}


static chat_rc_e
chat_ag_ui_run_started(chat_ag_ui_frame_t *frame)
{
    chat_event_t        *event;
    chat_ag_ui_reader_t *reader = frame->reader;

    event = chat_events_add(frame->events, CHAT_EVENT_TURN_OPEN);
    if (event == NULL) {
        return CHAT_ERROR;
    }

    event->id = chat_ag_ui_string(frame, "runId");
    reader->first = reader->count;
    reader->answered = 0;

    if (event->id.len <= CHAT_AG_UI_NAME_MAX
        && chat_arena_dup(frame->arena, event->id, &reader->run) != CHAT_OK)
    {
        return CHAT_ERROR;
    }

    return chat_events_put(frame->events, CHAT_EVENT_STEP_OPEN);
}


/* The end of the stream; a further one says nothing. */
static chat_rc_e
chat_ag_ui_turn_end(chat_ag_ui_frame_t *frame, chat_end_e end)
{
    return frame->reader->ended
               ? chat_ag_ui_opaque(frame)
               : chat_events_end(frame->events, end, &frame->reader->ended);
}


static chat_rc_e
chat_ag_ui_run_finished(chat_ag_ui_frame_t *frame)
{
    chat_json_doc_t   *doc = frame->doc;
    const chat_json_t *outcome, *type;

    outcome = chat_json_get(doc, doc->root, "outcome");
    type = chat_json_get(doc, outcome, "type");

    /* who stopped it waits for nothing */
    if (chat_json_is(doc, type, "cancelled")) {
        return chat_ag_ui_turn_end(frame, CHAT_END_ABORTED);
    }

    if (chat_events_put(frame->events, CHAT_EVENT_STEP_SEAL) != CHAT_OK) {
        return CHAT_ERROR;
    }

    if (chat_json_is(doc, type, "interrupt")
        && chat_ag_ui_interrupts(frame) != CHAT_OK)
    {
        return CHAT_ERROR;
    }

    return chat_ag_ui_turn_end(frame, CHAT_END_FINISHED);
}


static chat_rc_e
chat_ag_ui_run_error(chat_ag_ui_frame_t *frame)
{
    return chat_ag_ui_turn_end(frame, CHAT_END_FAILED);
}


/* All types that end something, or mean something. */
static const struct {
    const char       *type;
    chat_ag_ui_ends_e ends;
    chat_rc_e (*read)(chat_ag_ui_frame_t *frame);
} chat_ag_ui_types[] = {
    { "TOOL_CALL_START", CHAT_AG_UI_LANE, chat_ag_ui_call_start },
    { "TOOL_CALL_ARGS", CHAT_AG_UI_LANE, chat_ag_ui_call_args_more },
    { "TOOL_CALL_END", CHAT_AG_UI_LANE, chat_ag_ui_call_end },
    { "TOOL_CALL_CHUNK", CHAT_AG_UI_NONE, chat_ag_ui_call_chunk },
    { "TOOL_CALL_RESULT", CHAT_AG_UI_LANE, chat_ag_ui_call_result },
    { "MESSAGES_SNAPSHOT", CHAT_AG_UI_ALL, chat_ag_ui_snapshot },
    { "RUN_STARTED", CHAT_AG_UI_ALL, chat_ag_ui_run_started },
    { "RUN_FINISHED", CHAT_AG_UI_ALL, chat_ag_ui_run_finished },
    { "RUN_ERROR", CHAT_AG_UI_NONE, chat_ag_ui_run_error },
    { "TEXT_MESSAGE_START", CHAT_AG_UI_LANE, chat_ag_ui_opaque },
    { "TEXT_MESSAGE_CONTENT", CHAT_AG_UI_LANE, chat_ag_ui_opaque },
    { "TEXT_MESSAGE_END", CHAT_AG_UI_LANE, chat_ag_ui_opaque },
    { "TEXT_MESSAGE_CHUNK", CHAT_AG_UI_LANE, chat_ag_ui_opaque },
    { "STATE_SNAPSHOT", CHAT_AG_UI_LANE, chat_ag_ui_opaque },
    { "STATE_DELTA", CHAT_AG_UI_LANE, chat_ag_ui_opaque },
    { "CUSTOM", CHAT_AG_UI_LANE, chat_ag_ui_opaque },
    { "STEP_STARTED", CHAT_AG_UI_LANE, chat_ag_ui_opaque },
    { "STEP_FINISHED", CHAT_AG_UI_LANE, chat_ag_ui_opaque },
    { "REASONING_START", CHAT_AG_UI_LANE, chat_ag_ui_opaque },
    { "REASONING_MESSAGE_START", CHAT_AG_UI_LANE, chat_ag_ui_opaque },
    { "REASONING_MESSAGE_CONTENT", CHAT_AG_UI_LANE, chat_ag_ui_opaque },
    { "REASONING_MESSAGE_END", CHAT_AG_UI_LANE, chat_ag_ui_opaque },
    { "REASONING_MESSAGE_CHUNK", CHAT_AG_UI_LANE, chat_ag_ui_opaque },
    { "REASONING_END", CHAT_AG_UI_LANE, chat_ag_ui_opaque },
    { "SUBAGENT_FINISHED", CHAT_AG_UI_ENDED, chat_ag_ui_opaque },
    { "SUBAGENT_ERROR", CHAT_AG_UI_ENDED, chat_ag_ui_opaque },
};


static chat_rc_e
chat_ag_ui_ends(chat_ag_ui_frame_t *frame, chat_ag_ui_ends_e ends)
{
    chat_str_t lane;

    if (ends == CHAT_AG_UI_NONE) {
        return CHAT_OK;
    }

    if (ends == CHAT_AG_UI_ALL) {
        return chat_ag_ui_close_chunks(frame, NULL);
    }

    lane = chat_ag_ui_string(frame, "subagentRunId");

    return ends == CHAT_AG_UI_ENDED && lane.len == 0
               ? CHAT_OK
               : chat_ag_ui_close_chunks(frame, &lane);
}


/* 1 if the text is one that a type can be: capitals and underscores. */
static int
chat_ag_ui_is_type(chat_str_t type)
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
chat_ag_ui_read(void *state, chat_arena_t *arena, const chat_frame_t *sse,
                chat_json_doc_t *doc, chat_events_t *events)
{
    size_t             i;
    chat_str_t         type;
    chat_ag_ui_frame_t frame = { state, arena, doc, events };

    if (!sse->has_data || sse->data.len == 0) {
        return CHAT_OK;
    }

    if (doc == NULL) {
        return CHAT_DECLINED;
    }

    type = chat_ag_ui_string(&frame, "type");
    if (!frame.reader->begun && !chat_ag_ui_is_type(type)) {
        return CHAT_DECLINED;
    }

    frame.reader->begun = 1;

    for (i = 0; i < sizeof(chat_ag_ui_types) / sizeof(chat_ag_ui_types[0]);
         i++) {
        if (chat_str_is(type, chat_ag_ui_types[i].type)) {
            return chat_ag_ui_ends(&frame, chat_ag_ui_types[i].ends) == CHAT_OK
                       ? chat_ag_ui_types[i].read(&frame)
                       : CHAT_ERROR;
        }
    }

    return chat_ag_ui_opaque(&frame);
}


int
chat_ag_ui_boring(void *state, const chat_frame_t *frame)
{
    size_t                     i, len;
    chat_str_t                 rest;
    const chat_ag_ui_reader_t *reader = state;
    static const char *const   words[] = { "TEXT_MESSAGE_C",
                                           "REASONING_MESSAGE_C" };

    /* any event may be the end of a chunked call */
    if (reader->chunked != 0) {
        return 0;
    }

    if (!chat_str_starts(frame->data, CHAT_AG_UI_TYPE)) {
        return 0;
    }

    len = strlen(CHAT_AG_UI_TYPE);
    rest = chat_str(frame->data.data + len, frame->data.len - len);

    for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (chat_str_starts(rest, words[i])) {
            /* The last type counts; its letters may be written as \u007x. */
            return !chat_str_has(rest, "\"type\"")
                   && !chat_str_has(rest, "\\u00");
        }
    }

    return 0;
}
