/*
 * chat_stream_frame.c: the frames of a stream.
 *
 * A frame is heard (its events are read and judged), then it leaves (its
 * bytes go out as they are, rewritten, or not at all), at once or after its
 * time in quarantine. The facts of a stream follow the frames as they leave.
 * Promises: a frame that cannot matter is neither parsed nor copied; frames
 * leave in the order in which they came; each is decided once.
 * Must not know: where its bytes come from, how a stream ends.
 */

#include "stream/chat_stream_frame.h"

#define CHAT_STREAM_CUT "stream_interrupted" /* in every dialect's words */


/* What waited is decided by now: the last word on each event. */
static int
chat_stream_resolve(chat_stream_t *stream, chat_heard_t *heard)
{
    size_t i;

    for (i = 0; i < heard->n; i++) {
        if (heard->judged[i].verdict == CHAT_VERDICT_WAIT) {
            heard->judged[i].verdict =
                chat_filter_verdict(stream->filter, heard->events[i].slot,
                                    heard->judged[i].generation);
            if (heard->judged[i].verdict == CHAT_VERDICT_WAIT) {
                return 0;
            }
        }
    }

    return 1;
}


/* Where nothing is numbered, a frame goes if all that it says was dropped. */
static chat_edit_rc_e
chat_stream_fate(const chat_heard_t *heard)
{
    size_t i, said = 0;

    for (i = 0; i < heard->n; i++) {
        if (heard->events[i].implied) {
            continue;
        }
        if (heard->judged[i].verdict != CHAT_VERDICT_DROP) {
            return CHAT_EDIT_KEEP;
        }
        said++;
    }

    return said ? CHAT_EDIT_DROP : CHAT_EDIT_KEEP;
}


/* Asks the dialect to take dropped calls out; doc NULL: parse it (again). */
static chat_edit_rc_e
chat_stream_edit(chat_stream_t *stream, const chat_heard_t *heard,
                 chat_json_doc_t *doc, chat_edits_t *edits)
{
    chat_edit_rc_e  rc;
    chat_events_t   events = { .items = heard->events, .count = heard->n };
    chat_json_doc_t again;

    if (doc == NULL) {
        doc = &again;
        switch (chat_json_parse(doc, stream->frame, heard->frame.data)) {
        case CHAT_OK:
            break;
        case CHAT_ERROR:
            return CHAT_EDIT_ERROR;
        default:
            return CHAT_EDIT_KEEP;
        }
    }

    chat_edits_init(edits, stream->frame);
    rc =
        stream->conf.dialect->edit(doc, &events, &stream->dropped.view, edits);

    return edits->failed ? CHAT_EDIT_ERROR : rc;
}


static chat_rc_e
chat_stream_rewrite(chat_stream_t *stream, const chat_heard_t *heard,
                    const chat_edits_t *edits)
{
    chat_rc_e  rc;
    chat_buf_t data = { 0 }, out = { 0 };

    rc = chat_edits_apply(edits, heard->frame.data, &data);

    if (rc == CHAT_OK) {
        chat_sse_rewrite(&heard->frame, chat_buf_str(&data), &out);
        chat_stream_write(stream, &out);

    } else if (rc == CHAT_BAD) {
        chat_stream_pass(stream, heard->frame.raw, heard->frame.in_input);
        rc = CHAT_OK;
    }

    chat_buf_free(&data);
    return rc;
}


/* The frame leaves: all its verdicts are known. */
static chat_rc_e
chat_stream_leave(chat_stream_t *stream, const chat_heard_t *heard,
                  chat_json_doc_t *doc)
{
    size_t         i;
    chat_edits_t   edits;
    chat_edit_rc_e what = CHAT_EDIT_KEEP;

    for (i = 0; i < heard->n; i++) {
        if (heard->events[i].type == CHAT_EVENT_CALL_OPEN
            && chat_dropped_note(
                   &stream->dropped, heard->events[i].slot,
                   chat_filter_verdict(stream->filter, heard->events[i].slot,
                                       heard->judged[i].generation)
                       == CHAT_VERDICT_DROP)
                   != CHAT_OK)
        {
            return CHAT_ERROR;
        }

        chat_track_event(&stream->track, &heard->events[i], &heard->judged[i]);
    }

    if (stream->conf.observe || stream->silent) {
        /* Its bytes went on as they came, or nowhere. */
        return CHAT_OK;
    }

    if (stream->conf.dialect->edit == NULL) {
        what = chat_stream_fate(heard);
    } else if (heard->is_event && stream->dropped.view.count != 0) {
        what = chat_stream_edit(stream, heard, doc, &edits);
    }

    switch (what) {
    case CHAT_EDIT_KEEP:
        chat_stream_pass(stream, heard->frame.raw, heard->frame.in_input);
        return CHAT_OK;

    case CHAT_EDIT_DROP:
        return CHAT_OK;

    case CHAT_EDIT_CHANGED:
        return chat_stream_rewrite(stream, heard, &edits);

    default:
        return CHAT_ERROR;
    }
}


/* Lets go what no longer waits. */
static chat_rc_e
chat_stream_drain(chat_stream_t *stream)
{
    chat_rc_e    rc;
    chat_held_t *held;

    while ((held = stream->quarantine.first) != NULL
           && chat_stream_resolve(stream, &held->heard))
    {
        chat_arena_reset(stream->frame);

        rc = chat_stream_leave(stream, &held->heard, NULL);
        if (rc != CHAT_OK) {
            return rc;
        }
        chat_quarantine_pop(&stream->quarantine);
    }

    return CHAT_OK;
}


chat_rc_e
chat_stream_settle(chat_stream_t *stream, chat_verdict_e verdict)
{
    chat_filter_settle(stream->filter, verdict);
    return chat_stream_drain(stream);
}


/* The frame goes where it belongs: out, or behind those that wait. */
static chat_rc_e
chat_stream_route(chat_stream_t *stream, chat_heard_t *heard,
                  chat_json_doc_t *doc)
{
    if (stream->conf.observe) {
        stream->placed = 1;
        chat_stream_pass(stream, heard->frame.raw, heard->frame.in_input);
    }

    if (stream->quarantine.first == NULL && chat_stream_resolve(stream, heard))
    {
        return chat_stream_leave(stream, heard, doc);
    }

    if (chat_quarantine_add(&stream->quarantine, heard) != CHAT_OK) {
        return CHAT_ERROR;
    }

    stream->placed = 1;

    if (stream->quarantine.bytes > stream->conf.max_event) {
        stream->info.overflows++;
        return chat_stream_settle(stream, CHAT_VERDICT_FORWARD);
    }

    return chat_stream_drain(stream);
}


/* 1 if the two events are an input error that came without any input. */
static int
chat_stream_is_lone_failure(const chat_event_t *open,
                            const chat_event_t *ready)
{
    return open->type == CHAT_EVENT_CALL_OPEN
           && ready->type == CHAT_EVENT_CALL_READY && ready->failed
           && ready->slot == open->slot && !open->implied;
}


/* The owner's word on who answers a call, which goes by the tool's name. */
static void
chat_stream_kind(const chat_stream_t *stream, chat_event_t *event)
{
    if (stream->conf.kind != NULL && event->name.len != 0) {
        event->kind =
            stream->conf.kind(stream->conf.data, event->name, event->kind);
    }
}


/* A call is complete: its name and its fingerprint. */
static chat_rc_e
chat_stream_ready(chat_stream_t *stream, chat_event_t *event,
                  chat_judged_t *judged)
{
    chat_rc_e rc;

    rc = chat_args_ready(&stream->args, event, &judged->fingerprint);
    if (rc == CHAT_ERROR) {
        return rc;
    }

    judged->has_fingerprint = rc == CHAT_OK;

    /* The name may lie in what is closed now. */
    rc = chat_arena_dup(stream->frame, event->name, &event->name);
    chat_args_close(&stream->args, event->slot);
    return rc;
}


/* The verdict on one event, and what it leaves behind. */
static chat_rc_e
chat_stream_judge(chat_stream_t *stream, chat_event_t *event,
                  chat_judged_t *judged)
{
    if (event->type == CHAT_EVENT_CALL_READY
        && chat_stream_ready(stream, event, judged) != CHAT_OK)
    {
        return CHAT_ERROR;
    }

    if (event->type == CHAT_EVENT_CALL_OPEN
        || event->type == CHAT_EVENT_CALL_READY)
    {
        chat_stream_kind(stream, event);
    }

    judged->has_payload = event->type == CHAT_EVENT_CALL_RESULT
                          && event->outcome != CHAT_OUTCOME_PARTIAL
                          && event->text.len <= stream->conf.max_result;

    judged->verdict = chat_filter_event(
        stream->filter, event,
        judged->has_fingerprint ? &judged->fingerprint : NULL);
    judged->generation = chat_filter_generation(stream->filter, event->slot);

    if (event->type == CHAT_EVENT_CALL_OPEN) {
        chat_args_open(&stream->args, event->slot, judged->generation,
                       event->name);

    } else if (event->type == CHAT_EVENT_CALL_ARGS) {
        chat_args_add(&stream->args, event->slot, event->text);
    }

    return CHAT_OK;
}


/* All events of a frame. */
static chat_rc_e
chat_stream_hear(chat_stream_t *stream, chat_heard_t *heard)
{
    size_t         i;
    chat_rc_e      rc = CHAT_OK;
    chat_event_t  *events = heard->events;
    chat_judged_t *judged;

    judged = chat_arena_alloc(stream->frame, (heard->n + 1) * sizeof(*judged));
    if (judged == NULL) {
        return CHAT_ERROR;
    }
    heard->judged = judged;

    for (i = 0; i < heard->n && rc == CHAT_OK; i++) {
        if (i + 1 < heard->n
            && chat_stream_is_lone_failure(&events[i], &events[i + 1]))
        {
            rc = chat_stream_judge(stream, &events[i + 1], &judged[i + 1]);
            judged[i] = judged[i + 1];
            events[i].kind = events[i + 1].kind;
            i++;
            continue;
        }

        rc = chat_stream_judge(stream, &events[i], &judged[i]);
    }

    return rc;
}


int
chat_stream_may_skip(const chat_stream_t *stream)
{
    const chat_dialect_t *dialect = stream->conf.dialect;

    return stream->decided && stream->quarantine.first == NULL
           && (dialect->edit == NULL || stream->dropped.view.count == 0)
           && dialect->boring != NULL;
}


/* Who told of an interruption before us said it as an error. */
static void
chat_stream_cut(const chat_frame_t *frame, chat_events_t *events)
{
    size_t        i;
    chat_event_t *event;

    for (i = 0; i < events->count; i++) {
        event = &events->items[i];

        if (event->type == CHAT_EVENT_TURN_END && event->end == CHAT_END_FAILED
            && chat_str_has(frame->data, CHAT_STREAM_CUT))
        {
            event->end = CHAT_END_INTERRUPTED;
        }
    }
}


/* By its form, which the next one may have too, or by the dialect's word. */
static int
chat_stream_is_boring(chat_stream_t *stream, const chat_frame_t *frame)
{
    uint32_t              n = 0;
    const chat_dialect_t *dialect = stream->conf.dialect;

    if (chat_skim_match(&stream->skim, frame->raw, frame->raw.len, &n)
        == frame->raw.len)
    {
        return 1;
    }

    if (!dialect->boring(stream->state, frame)) {
        return 0;
    }

    if (dialect->texts != NULL && !frame->bom) {
        chat_skim_learn(&stream->skim, frame->raw, dialect->texts);
    }

    return 1;
}


chat_rc_e
chat_stream_frame(chat_stream_t *stream, const chat_frame_t *frame)
{
    chat_rc_e             rc;
    chat_heard_t          heard = { *frame, NULL, NULL, 0, 0 };
    chat_events_t         events = { .arena = stream->frame };
    chat_json_doc_t       parsed, *doc = &parsed;
    const chat_dialect_t *dialect = stream->conf.dialect;

    stream->info.frames++;

    if (!frame->has_data) {
        return chat_stream_route(stream, &heard, NULL);
    }

    if (dialect->idle == NULL || !dialect->idle(frame)) {
        stream->info.content++;
    }

    if (chat_stream_may_skip(stream) && chat_stream_is_boring(stream, frame)) {
        chat_stream_pass(stream, frame->raw, frame->in_input);
        return CHAT_OK;
    }

    stream->skim.count = 0;
    chat_arena_reset(stream->frame);

    rc = chat_json_parse(doc, stream->frame, frame->data);
    if (rc == CHAT_ERROR) {
        return rc;
    }

    doc = rc == CHAT_OK ? doc : NULL;
    rc = dialect->read(stream->state, stream->arena, frame, doc, &events);

    if (rc == CHAT_ERROR || events.failed) {
        return CHAT_ERROR;
    }

    if (rc != CHAT_OK) {
        return stream->decided ? chat_stream_route(stream, &heard, NULL)
                               : CHAT_DECLINED;
    }

    /* an empty data: may begin any stream */
    if (events.count != 0 && frame->data.len != 0) {
        stream->decided = 1;
        stream->info.confirmed = 1;
    }

    chat_stream_cut(frame, &events);

    heard.is_event = doc != NULL;
    heard.events = events.items;
    heard.n = events.count;

    if (chat_stream_hear(stream, &heard) != CHAT_OK) {
        return CHAT_ERROR;
    }

    return chat_stream_route(stream, &heard, doc);
}
