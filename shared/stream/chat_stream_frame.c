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

#include "stream/chat_cut.h"
#include "stream/chat_stream_frame.h"

#define CHAT_STREAM_CUT "stream_interrupted" /* in every dialect's words */


/* What waited is decided by now: the last word on each event. */
static int
chat_stream_resolve(chat_heard_t *heard)
{
    size_t        i;
    chat_event_t *event;

    for (i = 0; i < heard->events.count; i++) {
        event = &heard->events.items[i];

        if (event->verdict == CHAT_VERDICT_WAIT) {
            event->verdict = event->opening->verdict;
            if (event->verdict == CHAT_VERDICT_WAIT) {
                return 0;
            }
        }
    }

    return 1;
}


/* Where nothing is numbered, a frame goes if all that it says was dropped. */
static chat_cut_e
chat_stream_fate(const chat_events_t *events)
{
    size_t i, said = 0;

    for (i = 0; i < events->count; i++) {
        if (events->items[i].implied) {
            continue;
        }
        if (events->items[i].verdict != CHAT_VERDICT_DROP) {
            return CHAT_CUT_KEEP;
        }
        said++;
    }

    return said ? CHAT_CUT_DROP : CHAT_CUT_KEEP;
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
chat_stream_leave(chat_stream_t *stream, const chat_heard_t *heard)
{
    size_t              i;
    chat_cut_e          what;
    chat_edits_t        edits;
    chat_calls_t       *calls = &stream->reader->calls;
    const chat_event_t *event;

    for (i = 0; i < heard->events.count; i++) {
        event = &heard->events.items[i];

        if (event->type == CHAT_EVENT_CALL_OPEN) {
            chat_calls_left(calls, event->call,
                            event->opening
                                && event->opening->verdict
                                       == CHAT_VERDICT_DROP);
        }

        chat_track_event(&stream->track, event);
    }

    if (calls->failed) {
        return CHAT_ERROR;
    }

    if (stream->conf.observe || stream->silent) {
        /* Its bytes went on as they came, or nowhere. */
        return CHAT_OK;
    }

    chat_edits_init(&edits, stream->frame);
    what = stream->conf.dialect->numbered
               ? chat_cut(&heard->events, calls, heard->frame.data, &edits)
               : chat_stream_fate(&heard->events);

    switch (what) {
    case CHAT_CUT_KEEP:
        chat_stream_pass(stream, heard->frame.raw, heard->frame.in_input);
        return CHAT_OK;

    case CHAT_CUT_DROP:
        return CHAT_OK;

    case CHAT_CUT_CHANGED:
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
           && chat_stream_resolve(&held->heard))
    {
        chat_arena_reset(stream->frame);

        rc = chat_stream_leave(stream, &held->heard);
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
    chat_replay_decide(&stream->replay, verdict);
    return chat_stream_drain(stream);
}


/* The frame goes where it belongs: out, or behind those that wait. */
static chat_rc_e
chat_stream_route(chat_stream_t *stream, chat_heard_t *heard)
{
    if (stream->conf.observe) {
        stream->placed = 1;
        chat_stream_pass(stream, heard->frame.raw, heard->frame.in_input);
    }

    if (stream->quarantine.first == NULL && chat_stream_resolve(heard)) {
        return chat_stream_leave(stream, heard);
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
           && ready->call == open->call && !open->implied;
}


/* A call is complete: its name and its fingerprint. */
static void
chat_stream_ready(chat_stream_t *stream, chat_event_t *event)
{
    chat_str_t          text = event->text;
    chat_stream_call_t *call = event->call;

    if (event->name.len == 0 && call->opening != NULL) {
        event->name = call->opening->name;
    }

    if (!event->whole && call->args.len != 0) {
        text = chat_buf_str(&call->args);
    }

    if (!event->unreadable && (event->whole || !call->lost)) {
        event->has_digest = 1;
        stream->reader->calls.failed |=
            chat_fingerprint(event->name, text, &event->digest) != CHAT_OK;
    }

    chat_calls_args_free(&stream->reader->calls, call);
}


/* The verdict on one event, and what it leaves behind. */
static void
chat_stream_judge(chat_stream_t *stream, chat_event_t *event)
{
    chat_calls_t         *calls = &stream->reader->calls;
    const chat_opening_t *before = event->call ? event->call->opening : NULL;

    if (event->type == CHAT_EVENT_CALL_READY) {
        chat_stream_ready(stream, event);
    }

    /* The owner's word on who answers a call goes by the tool's name. */
    if ((event->type == CHAT_EVENT_CALL_OPEN
         || event->type == CHAT_EVENT_CALL_READY)
        && stream->conf.kind != NULL && event->name.len != 0)
    {
        event->kind =
            stream->conf.kind(stream->conf.data, event->name, event->kind);
    }

    event->has_payload = event->type == CHAT_EVENT_CALL_RESULT
                         && event->outcome != CHAT_OUTCOME_PARTIAL
                         && event->text.len <= stream->conf.max_result;

    chat_replay_judge(&stream->replay, event);

    if (event->type == CHAT_EVENT_CALL_OPEN && event->opening != before) {
        chat_calls_args_free(calls, event->call);
        event->call->gathers = 1;

    } else if (event->type == CHAT_EVENT_CALL_ARGS) {
        chat_calls_args_add(calls, event->call, event->text);
    }
}


/* All events of a frame. */
static chat_rc_e
chat_stream_hear(chat_stream_t *stream, chat_events_t *events)
{
    size_t        i;
    chat_event_t *event, *end = events->items + events->count;

    for (event = events->items; event < end; event++) {
        if (event + 1 < end && chat_stream_is_lone_failure(event, event + 1)) {
            event++;
            chat_stream_judge(stream, event);
            event[-1].verdict = event->verdict;
            event[-1].opening = event->opening;
            event[-1].kind = event->kind;
        } else {
            chat_stream_judge(stream, event);
        }
    }

    for (i = 0; i < events->nmarks; i++) {
        if (events->marks[i].call != NULL) {
            events->marks[i].opening = events->marks[i].call->opening;
        }
    }

    return stream->reader->calls.failed ? CHAT_ERROR : CHAT_OK;
}


int
chat_stream_may_skip(const chat_stream_t *stream)
{
    const chat_dialect_t *dialect = stream->conf.dialect;

    return stream->decided && stream->quarantine.first == NULL
           && (!dialect->numbered || stream->reader->calls.ndropped == 0)
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

    if (!dialect->boring(stream->reader, frame)) {
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
    chat_heard_t          heard;
    chat_events_t        *events = &heard.events;
    chat_json_doc_t       parsed, *doc = &parsed;
    const chat_dialect_t *dialect = stream->conf.dialect;

    stream->info.frames++;
    heard.frame = *frame;
    chat_events_init(events, stream->frame);

    if (!frame->has_data) {
        return chat_stream_route(stream, &heard);
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
    rc = chat_dialect_frame(dialect, stream->reader, frame, doc, events);

    if (rc == CHAT_ERROR || (rc != CHAT_OK && !stream->decided)) {
        return rc;
    }

    /* an empty data: may begin any stream */
    if (rc == CHAT_OK && events->count != 0 && frame->data.len != 0) {
        stream->decided = 1;
        stream->info.confirmed = 1;
    }

    chat_stream_cut(frame, events);

    return chat_stream_hear(stream, events) == CHAT_OK
               ? chat_stream_route(stream, &heard)
               : CHAT_ERROR;
}
