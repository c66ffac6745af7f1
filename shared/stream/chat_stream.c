/*
 * chat_stream.c: one answer on its way from the provider to the client.
 *
 * A frame is heard (its events are read and judged), then it leaves (its
 * bytes go out as they are, rewritten, or not at all), at once or after its
 * time in quarantine. The facts of a stream follow the frames as they leave.
 * A frame that cannot matter is neither parsed nor copied; frames leave in the
 * order in which they came; each is decided once.
 */

#include "stream/chat_stream.h"
#include "sse/chat_position.h"
#include "sse/chat_skim.h"
#include "stream/chat_cut.h"
#include "stream/chat_output.h"
#include "stream/chat_quarantine.h"
#include "stream/chat_tracker.h"

#include <stdlib.h>

#define CHAT_STREAM_CUT "stream_interrupted" /* in every dialect's words */

struct chat_stream_s {
    chat_stream_conf_t conf;
    chat_arena_t      *arena;  /* lives as the stream */
    chat_arena_t      *frame;  /* as the frame that is looked at */
    chat_reader_t     *reader; /* of the dialect; has the calls */
    chat_sse_t         sse;
    chat_replay_t      replay;
    chat_quarantine_t  quarantine;
    chat_tracker_t     track;
    chat_output_t      output;
    chat_skim_t        skim;
    chat_number_t      number;
    chat_stream_info_t info;
    uint32_t           unread; /* info.content behind a frame past the limit */

    unsigned decided : 1;   /* the first frame with data was read */
    unsigned oversized : 1; /* the last bytes were a piece of a frame */
    unsigned silent : 1;    /* the client left: nothing goes out */
    unsigned over : 1;      /* finished, or failed */
    unsigned placed : 1;    /* the frame went out, or waits in quarantine */
};


chat_stream_t *
chat_stream_create(const chat_stream_conf_t *conf)
{
    chat_stream_t *stream = calloc(1, sizeof(*stream));

    if (stream == NULL) {
        return NULL;
    }

    stream->conf = *conf;
    stream->number.stream = conf->number;
    chat_sse_init(&stream->sse, conf->max_event);

    stream->arena = chat_arena_create(0);
    stream->frame = chat_arena_create(0);

    if (stream->arena == NULL || stream->frame == NULL
        || chat_tracker_init(&stream->track, &stream->conf, &stream->info,
                             stream->arena)
               != CHAT_OK)
    {
        chat_stream_destroy(stream);
        return NULL;
    }

    stream->reader = conf->dialect->open(stream->arena, conf->request);
    if (stream->reader == NULL) {
        chat_stream_destroy(stream);
        return NULL;
    }

    stream->reader->calls.max_args = conf->max_event;
    chat_calls_know(&stream->reader->calls, conf->known, conf->nknown);
    stream->replay.calls = &stream->reader->calls;
    stream->replay.mode = conf->replay;
    stream->replay.strong_only = conf->dialect->weak_recur;

    if (stream->reader->calls.failed) {
        chat_stream_destroy(stream);
        return NULL;
    }

    return stream;
}


void
chat_stream_destroy(chat_stream_t *stream)
{
    if (stream == NULL) {
        return;
    }

    chat_sse_free(&stream->sse);
    chat_quarantine_free(&stream->quarantine);
    if (stream->reader != NULL) {
        chat_calls_free(&stream->reader->calls);
    }
    chat_tracker_free(&stream->track);
    chat_output_free(&stream->output);
    chat_arena_destroy(stream->frame);
    chat_arena_destroy(stream->arena);
    free(stream);
}


/* These bytes go out as they came, unless the client has left. */
static void
chat_stream_pass(chat_stream_t *stream, chat_str_t bytes, int in_input)
{
    size_t         before = stream->output.own.len;
    chat_output_t *output = &stream->output;

    if (stream->silent) {
        return;
    }

    if (stream->conf.number.len == 0 || stream->info.foreign) {
        chat_output_add(output, bytes, in_input);
        return;
    }

    chat_number_add(&stream->number, bytes, &output->own);
    chat_output_own(output, before);
}


/* These go out likewise, and are freed: a frame that is not the input's. */
static void
chat_stream_write(chat_stream_t *stream, chat_buf_t *bytes)
{
    stream->output.failed |= bytes->failed;
    chat_stream_pass(stream, chat_buf_str(bytes), 0);
    chat_buf_free(bytes);
}


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

        chat_tracker_event(&stream->track, event);
    }

    if (calls->failed) {
        return CHAT_ERROR;
    }

    if (stream->conf.observe || stream->silent) {
        /* Its bytes went on as they came, or nowhere. */
        return CHAT_OK;
    }

    if (!stream->conf.dialect->numbered) {
        what = chat_stream_fate(&heard->events);

    } else if (calls->ndropped == 0) {
        what = CHAT_CUT_KEEP;

    } else {
        chat_edits_init(&edits, stream->frame);
        what = chat_cut(&heard->events, calls, heard->frame.data, &edits);
    }

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


/* Gives all that waits this verdict and lets it go. */
static chat_rc_e
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

    if (stream->quarantine.first == NULL
        && (!heard->waits || chat_stream_resolve(heard)))
    {
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

    /* The owner may reclassify a call by its tool's name. */
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
chat_stream_hear(chat_stream_t *stream, chat_heard_t *heard)
{
    size_t         i;
    chat_events_t *events = &heard->events;
    chat_event_t  *event;

    for (i = 0; i < events->count; i++) {
        event = &events->items[i];

        /* A module nearer to the provider reports it as an error. */
        if (event->type == CHAT_EVENT_TURN_END && event->end == CHAT_END_FAILED
            && chat_str_has(heard->frame.data, CHAT_STREAM_CUT))
        {
            event->end = CHAT_END_INTERRUPTED;
        }

        if (i + 1 < events->count
            && chat_stream_is_lone_failure(event, event + 1)) {
            chat_stream_judge(stream, event + 1);
            event->verdict = event[1].verdict;
            event->opening = event[1].opening;
            event->kind = event[1].kind;
            i++;
        } else {
            chat_stream_judge(stream, event);
        }

        heard->waits |= event->verdict == CHAT_VERDICT_WAIT;
    }

    for (i = 0; i < events->nmarks; i++) {
        if (events->marks[i].call != NULL) {
            events->marks[i].opening = events->marks[i].call->opening;
        }
    }

    return stream->reader->calls.failed ? CHAT_ERROR : CHAT_OK;
}


/* 1 while a frame that the dialect calls boring does not matter. */
static int
chat_stream_may_skip(const chat_stream_t *stream)
{
    const chat_dialect_t *dialect = stream->conf.dialect;

    return stream->decided && stream->quarantine.first == NULL
           && (!dialect->numbered || stream->reader->calls.ndropped == 0)
           && dialect->boring != NULL;
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


/*
 * Takes the next frame. CHAT_DECLINED: it is the first one, and none of the
 * dialect; CHAT_ERROR: no memory.
 */
static chat_rc_e
chat_stream_frame(chat_stream_t *stream, const chat_frame_t *frame)
{
    chat_rc_e             rc;
    chat_heard_t          heard;
    chat_events_t        *events = &heard.events;
    chat_json_doc_t       parsed, *doc = &parsed;
    const chat_dialect_t *dialect = stream->conf.dialect;

    stream->info.frames++;
    heard.frame = *frame;
    heard.waits = 0;
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

    return chat_stream_hear(stream, &heard) == CHAT_OK
               ? chat_stream_route(stream, &heard)
               : CHAT_ERROR;
}


/* Begins a call of the owner's. */
static void
chat_stream_begin(chat_stream_t *stream)
{
    chat_tracker_forget(&stream->track);
    chat_output_begin(&stream->output);
}


/* Ends it. */
static chat_rc_e
chat_stream_end(chat_stream_t *stream, const chat_piece_t **pieces, size_t *n)
{
    chat_rc_e rc = chat_output_end(&stream->output, pieces, n);

    if (rc != CHAT_OK) {
        stream->over = 1;
    }

    stream->info.bytes_out = stream->output.bytes;
    return rc;
}


/* A piece of a frame that is longer than all that a quarantine can take. */
static chat_rc_e
chat_stream_oversized(chat_stream_t *stream, const chat_frame_t *frame)
{
    chat_rc_e rc = CHAT_OK;

    if (!stream->oversized) {
        stream->oversized = 1;
        stream->info.frames++;
        stream->info.oversized++;
    }

    stream->unread = ++stream->info.content;

    if (stream->quarantine.first != NULL) {
        stream->info.overflows++;
        rc = chat_stream_settle(stream, CHAT_VERDICT_FORWARD);
    }

    chat_stream_pass(stream, frame->raw, frame->in_input);
    return rc;
}


/* 1 if the line is a field's or a comment, or may become so: it goes on. */
static int
chat_stream_is_field(chat_str_t line, int ended)
{
    static const char *const names[] = { "data", "event", "id", "retry" };
    size_t                   i;
    const unsigned char     *colon = memchr(line.data, ':', line.len);

    if (colon != NULL) {
        line.len = (size_t) (colon - line.data);
        ended = 1;
    }

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (ended ? chat_str_is(line, names[i])
                  : line.len <= strlen(names[i])
                        && memcmp(line.data, names[i], line.len) == 0)
        {
            return 1;
        }
    }

    return line.len == 0;
}


/*
 * 1 if a frame that begins with these bytes is none of an event stream's: its
 * first line is neither a field nor a comment.
 */
static int
chat_stream_is_other(chat_str_t bytes)
{
    static const unsigned char bom[] = { 0xef, 0xbb, 0xbf };
    size_t                     len = sizeof(bom);
    chat_str_t                 line, end;
    chat_lines_t               lines;

    len = bytes.len < len ? bytes.len : len;

    if (len != 0 && memcmp(bytes.data, bom, len) == 0) {
        bytes = chat_str(bytes.data + len, bytes.len - len);
    }

    chat_lines_init(&lines, bytes);

    return chat_lines_next(&lines, &line, &end)
           && !chat_stream_is_field(line, end.len != 0);
}


/* What the parser cut off: a frame, or a piece of a long one. */
static chat_rc_e
chat_stream_take(chat_stream_t *stream, chat_sse_rc_e what,
                 const chat_frame_t *frame)
{
    chat_rc_e rc = CHAT_DECLINED;

    if (!stream->decided && !stream->oversized
        && chat_stream_is_other(frame->raw)) {
        stream->info.foreign = 1;
    }

    if (what == CHAT_SSE_PIECE && !stream->info.foreign) {
        return chat_stream_oversized(stream, frame);
    }

    stream->oversized = 0;

    if (!stream->info.foreign) {
        rc = chat_stream_frame(stream, frame);
    }

    if (rc != CHAT_DECLINED) {
        return rc;
    }

    /* From here on nothing is looked at any more. */
    stream->info.foreign = 1;
    chat_stream_pass(stream, frame->raw, frame->in_input);
    return CHAT_OK;
}


/* Passes frames that are like the last boring one. */
static void
chat_stream_skim(chat_stream_t *stream)
{
    size_t     len;
    uint32_t   frames = stream->info.frames;
    chat_str_t rest = chat_sse_rest(&stream->sse);

    if (stream->skim.count == 0 || !chat_stream_may_skip(stream)) {
        return;
    }

    len = chat_skim_match(&stream->skim, rest, stream->conf.max_event,
                          &stream->info.frames);
    if (len != 0) {
        stream->info.content += stream->info.frames - frames;
        chat_sse_skip(&stream->sse, len);
        chat_stream_pass(stream, chat_str(rest.data, len), 1);
    }
}


/*
 * There is no memory: all that has not gone out does so as it came, and from
 * now on nothing is looked at. frame was not done with; NULL: there is none.
 */
static void
chat_stream_give_up(chat_stream_t *stream, const chat_frame_t *frame)
{
    const chat_frame_t *held;

    while (stream->quarantine.first != NULL) {
        held = &stream->quarantine.first->heard.frame;
        if (!stream->conf.observe) {
            chat_stream_pass(stream, held->raw, 0);
        }
        chat_quarantine_pop(&stream->quarantine);
    }

    if (frame != NULL && !stream->placed) {
        chat_stream_pass(stream, frame->raw, frame->in_input);
    }

    chat_stream_pass(stream, chat_sse_tail(&stream->sse), 0);
    chat_stream_pass(stream, chat_sse_unread(&stream->sse), 1);
    chat_tracker_end(&stream->track);
    stream->info.foreign = 1;
    stream->over = 1;
}


/* All frames of the input. */
static void
chat_stream_read(chat_stream_t *stream, chat_str_t input)
{
    chat_frame_t  frame;
    chat_sse_rc_e what;

    chat_sse_feed(&stream->sse, input);

    for (;;) {
        chat_stream_skim(stream);
        stream->placed = 0;
        what = chat_sse_next(&stream->sse, &frame);

        if (what == CHAT_SSE_MORE) {
            return;
        }

        if (what == CHAT_SSE_ERROR
            || chat_stream_take(stream, what, &frame) != CHAT_OK)
        {
            chat_stream_give_up(stream, &frame);
            return;
        }
    }
}


chat_rc_e
chat_stream_push(chat_stream_t *stream, chat_str_t input,
                 const chat_piece_t **pieces, size_t *n)
{
    chat_stream_begin(stream);
    stream->info.bytes_in += input.len;

    if (stream->over || stream->info.foreign) {
        chat_stream_pass(stream, input, 1);

    } else {
        chat_stream_read(stream, input);

        /* lines without an end to them must not wait for one */
        if (!stream->over && !stream->decided && !stream->oversized
            && chat_stream_is_other(chat_sse_tail(&stream->sse)))
        {
            stream->info.foreign = 1;
        }

        if (stream->info.foreign && !stream->over) {
            chat_stream_pass(stream, chat_sse_tail(&stream->sse), 0);
        }
    }

    return chat_stream_end(stream, pieces, n);
}


/* Tells the client that the stream broke off. */
static void
chat_stream_interrupted(chat_stream_t *stream)
{
    size_t              room = stream->replay.count.opened;
    chat_str_t         *ids;
    chat_buf_t          words = { 0 };
    chat_interruption_t in;

    in.reason = stream->info.reason;
    in.resumable = stream->conf.resumable;
    in.half_open = NULL;
    in.nhalf_open = 0;

    ids = chat_arena_alloc(stream->frame, (room + 1) * sizeof(*ids));
    if (ids != NULL) {
        in.half_open = ids;
        in.nhalf_open = chat_replay_half_open(&stream->replay, ids, room);
    }

    /* Part of a frame is with the client: it must end before this begins. */
    if (stream->oversized) {
        chat_buf_puts(&words, "\n\n");
    }

    stream->conf.dialect->interrupted(stream->reader, &in, &words);
    chat_stream_write(stream, &words);
}


/* 1 if the stream ends with a whole frame that was too long to read. */
static int
chat_stream_ends_unread(const chat_stream_t *stream)
{
    return stream->info.oversized != 0
           && stream->unread == stream->info.content
           && !chat_sse_is_skipping(&stream->sse)
           && chat_sse_tail(&stream->sse).len == 0;
}


chat_rc_e
chat_stream_finish(chat_stream_t *stream, const char *reason, int aborted,
                   const chat_piece_t **pieces, size_t *n)
{
    int report = stream->conf.report && !stream->conf.observe;

    chat_stream_begin(stream);

    if (stream->over || stream->info.foreign) {
        return chat_stream_end(stream, pieces, n);
    }

    stream->over = 1;
    stream->silent = aborted != 0;

    if (chat_stream_settle(stream, CHAT_VERDICT_DROP) != CHAT_OK) {
        chat_stream_give_up(stream, NULL);
        return chat_stream_end(stream, pieces, n);
    }

    if (stream->info.end == CHAT_END_NONE && reason == NULL && !aborted
        && chat_stream_ends_unread(stream))
    {
        /* it may well have been the end, and is not to be made an error */
        stream->info.end = CHAT_END_FINISHED;
    }

    if (stream->info.end != CHAT_END_NONE) {
        if (reason == NULL || !report) {
            chat_stream_pass(stream, chat_sse_tail(&stream->sse), 0);
        }

    } else if (aborted) {
        stream->info.end = CHAT_END_ABORTED;

    } else {
        stream->info.end = CHAT_END_INTERRUPTED;
        stream->info.reason = reason ? reason : "eof";

        if (report) {
            chat_stream_interrupted(stream);
        } else {
            chat_stream_pass(stream, chat_sse_tail(&stream->sse), 0);
        }
    }

    chat_tracker_end(&stream->track);
    return chat_stream_end(stream, pieces, n);
}


size_t
chat_stream_facts(chat_stream_t *stream, const chat_stream_facts_t **facts)
{
    chat_tracker_forget(&stream->track);
    return chat_tracker_take(&stream->track, facts);
}


size_t
chat_stream_settled(const chat_stream_t *stream, chat_str_t *ids, size_t max)
{
    size_t                   i, n = 0;
    const chat_track_step_t *step = &stream->track.step;

    for (i = 0; i < step->ncalls && n < max; i++) {
        if (step->calls[i].settled) {
            ids[n++] = step->calls[i].id;
        }
    }

    return n;
}


const chat_stream_info_t *
chat_stream_info(const chat_stream_t *stream)
{
    return &stream->info;
}


const chat_replay_count_t *
chat_stream_count(const chat_stream_t *stream)
{
    return &stream->replay.count;
}
