/*
 * chat_stream.c: one answer on its way from the provider to the client.
 *
 * The events of a frame are read and judged; then the frame leaves: its bytes
 * go out as they are, rewritten, or not at all, at once or after its time in
 * quarantine. The facts of a stream follow the frames as they leave. Frames
 * leave in the order in which they came; each is decided once.
 */

#include "stream/chat_stream.h"
#include "sse/chat_position.h"
#include "stream/chat_cut.h"
#include "stream/chat_form.h"
#include "stream/chat_output.h"
#include "stream/chat_quarantine.h"
#include "stream/chat_tracker.h"

#define CHAT_STREAM_CUT "stream_interrupted" /* in every dialect's words */

struct chat_stream_s {
    chat_stream_conf_t conf;
    chat_arena_t      *arena;  /* the stream lies in it */
    chat_reader_t     *reader; /* of the dialect; has the calls */
    chat_sse_t         sse;
    chat_forms_t       forms;
    chat_replay_t      replay;
    chat_quarantine_t  quarantine;
    chat_tracker_t     track;
    chat_output_t      output;
    chat_number_t      number;
    chat_stream_info_t info;
    uint32_t           unread; /* info.content behind a frame past the limit */

    unsigned decided : 1;   /* the first frame with data was read */
    unsigned oversized : 1; /* the last bytes were a piece of a frame */
    unsigned silent : 1;    /* the client left: nothing goes out */
    unsigned over : 1;      /* finished, or failed */
    unsigned placed : 1;    /* the frame went out, or waits in quarantine */
};

/* Of the frame that is looked at; of any stream, as no call meets another. */
static chat_arena_t *frame_arena;


chat_stream_t *
chat_stream_create(const chat_stream_conf_t *conf)
{
    chat_calls_t  *calls;
    chat_reader_t *reader;
    chat_arena_t  *arena = chat_arena_create(0);
    chat_stream_t *stream =
        arena ? chat_arena_alloc(arena, sizeof(*stream)) : NULL;

    reader =
        stream ? chat_dialect_open(conf->dialect, arena, conf->request) : NULL;
    frame_arena = frame_arena ? frame_arena : chat_arena_create(0);

    if (reader == NULL || frame_arena == NULL) {
        chat_arena_destroy(arena);
        return NULL;
    }

    stream->conf = *conf;
    stream->arena = arena;
    stream->reader = reader;
    stream->number.stream = conf->number;
    stream->sse.max_frame = conf->max_event;

    calls = &reader->calls;
    calls->tenant = &stream->conf.scope.tenant;
    calls->max_args = conf->max_event;
    chat_calls_know(calls, conf->known, conf->nknown);
    stream->track.conf = &stream->conf;
    stream->track.info = &stream->info;
    stream->track.calls = calls;
    stream->track.step.number = 1;
    stream->forms.dialect = conf->dialect;
    stream->forms.reader = reader;
    stream->forms.arena = frame_arena;
    stream->replay.calls = calls;
    stream->replay.on = conf->replay;
    stream->replay.strong_only = conf->dialect->provider;

    return stream;
}


void
chat_stream_destroy(chat_stream_t *stream)
{
    if (stream == NULL) {
        return;
    }

    chat_sse_free(&stream->sse);
    chat_arena_destroy(stream->quarantine.arena);
    chat_calls_free(&stream->reader->calls);
    chat_arena_destroy(stream->track.put_arena);
    chat_output_free(&stream->output);
    chat_arena_destroy(stream->arena); /* the stream with it */
}


/*
 * These bytes go out as they came, unless the client has left. Of plain events
 * their n ends are known.
 */
static void
pass_events(chat_stream_t *stream, chat_str_t bytes, int in_input,
            const size_t *ends, size_t n)
{
    if (stream->silent) {
        return;
    }

    if (n != 0 && !chat_count_is_inside(&stream->number.count)) {
        chat_number_events(&stream->number, bytes, ends, n,
                           &stream->output.own);
    } else if (!stream->info.foreign) {
        chat_number_add(&stream->number, bytes, stream->oversized,
                        &stream->output.own);
    }

    if (stream->conf.number.len != 0 && !stream->info.foreign) {
        bytes = chat_str(NULL, 0);
        in_input = 0;
    }

    chat_output_add(&stream->output, bytes, in_input);
}


static void
pass(chat_stream_t *stream, chat_str_t bytes, int in_input)
{
    pass_events(stream, bytes, in_input, NULL, 0);
}


static void
pass_frame(chat_stream_t *stream, const chat_frame_t *frame)
{
    pass_events(stream, frame->raw, frame->in_input,
                frame->events == 1 ? &frame->raw.len : stream->forms.ends,
                frame->events);
}


/* These go out likewise, and are freed. */
static void
pass_own(chat_stream_t *stream, chat_buf_t *bytes)
{
    stream->output.own.failed |= bytes->failed;
    pass(stream, chat_buf_str(bytes), 0);
    chat_buf_free(bytes);
}


/* Sets the verdicts that events wait for. 0: one is not known yet. */
static int
resolve(chat_parsed_t *parsed)
{
    int           waits = 0;
    size_t        i;
    chat_event_t *event = parsed->events.items;

    for (i = 0; i < parsed->events.count; i++, event++) {
        if (event->verdict == CHAT_REPLAY_WAIT) {
            event->verdict = event->opening->verdict;
        }
        waits |= event->verdict == CHAT_REPLAY_WAIT;
    }

    return !waits;
}


/* Sends the rest of a frame, without the dropped calls. */
static chat_rc_e
cut(chat_stream_t *stream, const chat_parsed_t *parsed)
{
    chat_rc_e           rc = CHAT_OK;
    chat_buf_t          data = { 0 }, out = { 0 };
    chat_cut_e          what;
    chat_edits_t        edits = { .arena = frame_arena };
    const chat_frame_t *frame = &parsed->frame;

    what =
        chat_cut(&parsed->events, &stream->reader->calls, frame->data, &edits);
    if (what == CHAT_CUT_CHANGED) {
        rc = chat_edits_apply(&edits, frame->data, &data);
    }

    if (what == CHAT_CUT_KEEP || rc == CHAT_BAD) {
        pass_frame(stream, frame);

    } else if (what == CHAT_CUT_CHANGED && rc == CHAT_OK) {
        chat_sse_rewrite(frame, chat_buf_str(&data), &out);
        pass_own(stream, &out);
    }

    chat_buf_free(&data);
    return rc == CHAT_ERROR ? CHAT_ERROR : CHAT_OK;
}


/* Sends, cuts or drops a frame, all verdicts of which are known. */
static chat_rc_e
emit_frame(chat_stream_t *stream, const chat_parsed_t *parsed)
{
    int                 numbered = stream->conf.dialect->numbered;
    size_t              i, dropped = 0, said = 0;
    chat_calls_t       *calls = &stream->reader->calls;
    const chat_event_t *event = parsed->events.items;

    for (i = 0; i < parsed->events.count; i++, event++) {
        said += !event->implied;
        dropped += !event->implied && event->verdict == CHAT_REPLAY_DROP;

        if (event->type == CHAT_EVENT_CALL_OPEN) {
            chat_calls_left(
                calls, event->call,
                event->opening && event->opening->verdict == CHAT_REPLAY_DROP);
        }

        if (event->type != CHAT_EVENT_CALL_ARGS
            && event->type != CHAT_EVENT_OPAQUE) {
            chat_tracker_event(&stream->track, event);
        }
    }

    if (calls->failed) {
        return CHAT_ERROR;
    }

    if (stream->conf.observe || stream->silent) {
        /* Its bytes went on as they came, or nowhere. */
        return CHAT_OK;
    }

    if (numbered && calls->ndropped != 0) {
        return cut(stream, parsed);
    }

    /* Without indexes a frame is dropped if all its events were. */
    if (numbered || said == 0 || dropped != said) {
        pass_frame(stream, &parsed->frame);
    }

    return CHAT_OK;
}


/* Lets frames leave the quarantine, up to the first that still waits. */
static chat_rc_e
drain(chat_stream_t *stream)
{
    chat_parsed_t *first;

    while ((first = stream->quarantine.first) != NULL && resolve(first)) {
        chat_arena_reset(frame_arena);

        if (emit_frame(stream, first) != CHAT_OK) {
            return CHAT_ERROR;
        }
        chat_quarantine_pop(&stream->quarantine);
    }

    return CHAT_OK;
}


/* Emits the frame, or puts it into quarantine behind the others. */
static chat_rc_e
route(chat_stream_t *stream, chat_parsed_t *parsed)
{
    if (stream->conf.observe) {
        stream->placed = 1;
        pass(stream, parsed->frame.raw, parsed->frame.in_input);
    }

    if (stream->quarantine.first == NULL
        && (!parsed->waits || resolve(parsed))) {
        return emit_frame(stream, parsed);
    }

    if (chat_quarantine_add(&stream->quarantine, parsed) != CHAT_OK) {
        return CHAT_ERROR;
    }

    stream->placed = 1;

    if (stream->quarantine.bytes > stream->conf.max_event) {
        stream->info.overflows++;
        chat_replay_decide(&stream->replay, CHAT_REPLAY_FORWARD);
    }

    return drain(stream);
}


/* A call is complete: its name and its fingerprint. */
static void
fingerprint(chat_stream_t *stream, chat_event_t *event)
{
    chat_str_t          text = event->text;
    chat_calls_t       *calls = &stream->reader->calls;
    chat_stream_call_t *call = event->call;

    if (event->name.len == 0 && call->opening != NULL) {
        event->name = call->opening->name;
    }

    if (!event->whole && call->args.len != 0) {
        text = chat_buf_str(&call->args);
    }

    if (!event->unreadable && (event->whole || !call->lost)) {
        event->has_digest = 1;
        calls->failed |= chat_fingerprint(calls->tenant, event->name, text,
                                          chat_arena_scratch(), &event->digest)
                         != CHAT_OK;
    }

    chat_calls_args_free(calls, call);
}


/* Judges one event, and keeps the arguments of its call. */
static void
judge(chat_stream_t *stream, chat_event_t *event)
{
    int                   opens = event->type == CHAT_EVENT_CALL_OPEN;
    chat_calls_t         *calls = &stream->reader->calls;
    const chat_opening_t *before = event->call ? event->call->opening : NULL;

    if (event->type == CHAT_EVENT_CALL_READY) {
        fingerprint(stream, event);
    }

    /* The owner may reclassify a call by its tool's name. */
    if ((opens || event->type == CHAT_EVENT_CALL_READY)
        && stream->conf.kind != NULL && event->name.len != 0)
    {
        event->kind =
            stream->conf.kind(stream->conf.data, event->name, event->kind);
    }

    event->has_payload = event->type == CHAT_EVENT_CALL_RESULT
                         && event->outcome != CHAT_OUTCOME_PARTIAL
                         && event->text.len <= stream->conf.max_result;

    chat_replay_judge(&stream->replay, event);

    if (opens && event->opening != before) {
        chat_calls_args_free(calls, event->call);
        event->call->gathers = 1;

    } else if (event->type == CHAT_EVENT_CALL_ARGS) {
        chat_calls_args_add(calls, event->call, event->text);
    }
}


/* 1 if the two events are an input error that came without any input. */
static int
is_lone_failure(const chat_event_t *open, const chat_event_t *ready)
{
    return open->type == CHAT_EVENT_CALL_OPEN
           && ready->type == CHAT_EVENT_CALL_READY && ready->failed
           && ready->call == open->call && !open->implied;
}


/* Judges all events of a frame, and routes it. */
static chat_rc_e
judge_all(chat_stream_t *stream, chat_parsed_t *parsed)
{
    size_t        i;
    chat_mark_t  *mark;
    chat_event_t *ready, *event = parsed->events.items;
    size_t        left = parsed->events.count;

    for (/* void */; left != 0; event++, left--) {
        /* A module nearer to the provider reports an interruption so. */
        if (event->type == CHAT_EVENT_TURN_END && event->end == CHAT_END_FAILED
            && chat_str_has(parsed->frame.data, CHAT_STREAM_CUT))
        {
            event->end = CHAT_END_INTERRUPTED;
        }

        ready = event + (left > 1 && is_lone_failure(event, event + 1));
        judge(stream, ready);

        if (ready != event) {
            event->verdict = ready->verdict;
            event->opening = ready->opening;
            event->kind = ready->kind;
            event = ready;
            left--;
        }

        parsed->waits |= event->verdict == CHAT_REPLAY_WAIT;
    }

    for (i = 0; i < parsed->events.nmarks; i++) {
        mark = &parsed->events.marks[i];
        mark->opening = mark->call ? mark->call->opening : NULL;
    }

    return stream->reader->calls.failed ? CHAT_ERROR : route(stream, parsed);
}


/* A frame that says nothing so far; of the events size have room in items. */
static void
parsed_init(chat_parsed_t *parsed, chat_stream_t *stream,
            const chat_frame_t *frame, chat_event_t *items, size_t size)
{
    chat_events_init(&parsed->events, frame_arena);
    parsed->events.items = items;
    parsed->events.size = size;
    parsed->next = NULL;
    parsed->frame = *frame;
    parsed->waits = 0;
}


/*
 * Takes the next frame. CHAT_DECLINED: it is the first one, and none of the
 * dialect; CHAT_ERROR: no memory.
 */
static chat_rc_e
parse(chat_stream_t *stream, const chat_frame_t *frame)
{
    chat_rc_e       rc;
    chat_event_t    items[8]; /* most frames say no more */
    chat_parsed_t   parsed;
    chat_json_doc_t doc;

    chat_arena_reset(frame_arena);
    parsed_init(&parsed, stream, frame, items, 8);

    if (!frame->has_data) {
        return judge_all(stream, &parsed);
    }

    rc = chat_json_parse(&doc, frame_arena, frame->data);
    if (rc != CHAT_ERROR) {
        rc = chat_dialect_frame(stream->conf.dialect, stream->reader, frame,
                                rc == CHAT_OK ? &doc : NULL, &parsed.events);
        stream->info.content += !stream->reader->idle;
    }

    if (rc == CHAT_ERROR || (rc != CHAT_OK && !stream->decided)) {
        return rc;
    }

    /* an empty data: may begin any stream */
    if (rc == CHAT_OK && parsed.events.count != 0 && frame->data.len != 0) {
        stream->decided = 1;
    }

    if (rc == CHAT_OK && stream->decided) {
        chat_forms_learn(&stream->forms, stream->reader->idle ? NULL : frame);
    }

    return judge_all(stream, &parsed);
}


/* A piece of a frame that is longer than all that a quarantine can take. */
static chat_rc_e
pass_oversized(chat_stream_t *stream, const chat_frame_t *frame)
{
    chat_rc_e rc = CHAT_OK;

    stream->info.oversized += !stream->oversized;
    stream->unread = ++stream->info.content;

    if (stream->quarantine.first != NULL) {
        stream->info.overflows++;
        chat_replay_decide(&stream->replay, CHAT_REPLAY_FORWARD);
        rc = drain(stream);
    }

    stream->oversized = 1;

    /* without memory what waits goes first */
    if (rc == CHAT_OK) {
        pass(stream, frame->raw, frame->in_input);
    }

    return rc;
}


/*
 * 1 if these bytes are not the beginning of an event stream: the first line is
 * neither a field nor a comment, and cannot become one.
 */
static int
is_other(chat_str_t bytes)
{
    static const char *const names[] = { "data",  "event", "id",
                                         "retry", "",      CHAT_BOM };

    size_t i, len;

    (void) chat_str_after(bytes, CHAT_BOM, &bytes);

    for (i = 0; i < sizeof(names) / sizeof(names[0]) && bytes.len != 0; i++) {
        len = strlen(names[i]);
        len = len < bytes.len ? len : bytes.len;

        /* a line that has ended may lack the colon, but nothing else */
        if (memcmp(bytes.data, names[i], len) == 0
            && (len == bytes.len || memchr(":\r\n", bytes.data[len], 3)))
        {
            return 0;
        }
    }

    return bytes.len != 0;
}


/* What the parser cut off: a frame, or a piece of a long one. */
static chat_rc_e
take(chat_stream_t *stream, chat_sse_rc_e what, const chat_frame_t *frame)
{
    chat_rc_e rc;

    if (!stream->decided && !stream->oversized && is_other(frame->raw)) {
        stream->info.foreign = 1;
    }

    if (what == CHAT_SSE_PIECE && !stream->info.foreign) {
        return pass_oversized(stream, frame);
    }

    stream->oversized = 0;
    rc = stream->info.foreign ? CHAT_DECLINED : parse(stream, frame);

    if (rc == CHAT_DECLINED) {
        /* From here on nothing is looked at any more. */
        stream->info.foreign = 1;
        pass(stream, frame->raw, frame->in_input);
        rc = CHAT_OK;
    }

    return rc;
}


/*
 * There is no memory: all that has not gone out does so as it came, and from
 * now on nothing is looked at. frame: the one in progress; NULL: none.
 */
static void
give_up(chat_stream_t *stream, const chat_frame_t *frame)
{
    while (stream->quarantine.first != NULL) {
        if (!stream->conf.observe) {
            pass(stream, stream->quarantine.first->frame.raw, 0);
        }
        chat_quarantine_pop(&stream->quarantine);
    }

    if (frame != NULL && !stream->placed) {
        pass(stream, frame->raw, frame->in_input);
    }

    pass(stream, chat_sse_tail(&stream->sse), 0);
    pass(stream, chat_sse_unread(&stream->sse), 1);
    chat_tracker_break(&stream->track);
    stream->info.foreign = 1;
    stream->over = 1;
}


/*
 * Takes the frame that bytes begin with by its form, if that is known, and
 * those of this form behind it; the marks of such a frame are not known.
 * CHAT_DECLINED: it is another one.
 */
static chat_rc_e
take_formed(chat_stream_t *stream, chat_str_t bytes, chat_frame_t *frame)
{
    /* in the quarantine each counts, however the bytes came */
    int           alone = !frame->in_input || stream->quarantine.first != NULL;
    size_t        frames = alone ? 1 : CHAT_FORM_RUN;
    chat_event_t  event;
    chat_parsed_t parsed;

    if (bytes.len == 0
        || (stream->conf.dialect->numbered
            && (stream->quarantine.first != NULL
                || stream->reader->calls.ndropped != 0)))
    {
        return CHAT_DECLINED;
    }

    chat_arena_reset(frame_arena);
    bytes.len = chat_forms_read(&stream->forms, bytes, stream->conf.max_event,
                                &event, &frames);
    if (bytes.len == 0) {
        return CHAT_DECLINED;
    }

    stream->info.content += (uint32_t) frames;
    stream->oversized = 0;
    *frame = (chat_frame_t){ .raw = bytes,
                             .events = frames,
                             .in_input = frame->in_input };

    if (event.type == CHAT_EVENT_OPAQUE && stream->quarantine.first == NULL) {
        pass_frame(stream, frame);
        return CHAT_OK;
    }

    parsed_init(&parsed, stream, frame, &event, 1);
    parsed.events.count = 1;
    return judge_all(stream, &parsed);
}


/* All frames of the input. */
static void
take_all(chat_stream_t *stream, chat_str_t input)
{
    chat_rc_e     rc;
    chat_frame_t  frame;
    chat_sse_rc_e what = CHAT_SSE_MORE;

    chat_sse_feed(&stream->sse, input);

    for (;;) {
        stream->placed = 0;
        stream->forms.partial = 0;
        rc = stream->forms.count == 0
                 ? CHAT_DECLINED
                 : take_formed(stream,
                               chat_sse_rest(&stream->sse, &frame.in_input),
                               &frame);

        if (rc != CHAT_DECLINED) {
            chat_sse_skip(&stream->sse, frame.raw.len);
        }

        if (rc != CHAT_ERROR && stream->forms.partial && frame.in_input
            && chat_sse_leave(&stream->sse))
        {
            return;
        }

        if (rc == CHAT_DECLINED) {
            what = chat_sse_next(&stream->sse, &frame);
            if (what == CHAT_SSE_MORE) {
                return;
            }

            rc = what == CHAT_SSE_ERROR ? CHAT_ERROR
                 : what == CHAT_SSE_FRAME && !frame.in_input
                     ? take_formed(stream, frame.raw, &frame)
                     : CHAT_DECLINED;
        }

        if (rc == CHAT_DECLINED) {
            rc = take(stream, what, &frame);
        }

        if (rc != CHAT_OK) {
            give_up(stream, &frame);
            return;
        }
    }
}


/* Ends a push or finish: returns its output. */
static chat_rc_e
end(chat_stream_t *stream, const chat_piece_t **pieces, size_t *n)
{
    chat_rc_e rc = chat_output_end(&stream->output, pieces, n);

    chat_arena_reset(frame_arena);
    stream->over |= rc != CHAT_OK;
    stream->info.bytes_out = stream->output.bytes;
    stream->info.replay = stream->replay.count;
    return rc;
}


chat_rc_e
chat_stream_push(chat_stream_t *stream, chat_str_t input,
                 const chat_piece_t **pieces, size_t *n)
{
    chat_output_begin(&stream->output);

    if (stream->over || stream->info.foreign) {
        pass(stream, input, 1);
        return end(stream, pieces, n);
    }

    take_all(stream, input);

    if (!stream->over) {
        /* lines without an end to them must not wait for one */
        stream->info.foreign |= !stream->decided && !stream->oversized
                                && is_other(chat_sse_tail(&stream->sse));

        if (stream->info.foreign) {
            pass(stream, chat_sse_tail(&stream->sse), 0);
        }
    }

    return end(stream, pieces, n);
}


/* Tells the client that the stream broke off. */
static void
tell_interruption(chat_stream_t *stream)
{
    chat_buf_t          words = { 0 };
    chat_interruption_t in = { stream->info.reason, stream->conf.resumable };

    /* Part of a frame is with the client: it must end before this begins. */
    if (stream->oversized) {
        chat_buf_puts(&words, "\n\n");
    }

    chat_dialect_interrupted(stream->conf.dialect, stream->reader, &in,
                             &words);
    pass_own(stream, &words);
}


/* 1 if the stream ends with a whole frame that was too long to read. */
static int
ends_unread(const chat_stream_t *stream)
{
    return stream->info.oversized != 0
           && stream->unread == stream->info.content && !stream->sse.skipping
           && chat_sse_tail(&stream->sse).len == 0;
}


chat_rc_e
chat_stream_finish(chat_stream_t *stream, const char *reason, int aborted,
                   const chat_piece_t **pieces, size_t *n)
{
    int broken;

    chat_output_begin(&stream->output);

    if (stream->over || stream->info.foreign) {
        return end(stream, pieces, n);
    }

    stream->over = 1;
    stream->silent = aborted != 0;

    chat_replay_decide(&stream->replay, CHAT_REPLAY_DROP);
    if (drain(stream) != CHAT_OK) {
        give_up(stream, NULL);
        return end(stream, pieces, n);
    }

    if (stream->info.end == CHAT_END_NONE && reason == NULL && !aborted
        && ends_unread(stream))
    {
        /* it may well have been the end, and is not to be made an error */
        stream->info.end = CHAT_END_FINISHED;
    }

    broken = stream->info.end == CHAT_END_NONE;
    if (broken) {
        stream->info.end = aborted ? CHAT_END_ABORTED : CHAT_END_INTERRUPTED;
        stream->info.reason = aborted ? NULL : reason ? reason : "eof";
    }

    if (stream->conf.observe || (!broken && reason == NULL)) {
        pass(stream, chat_sse_tail(&stream->sse), 0);
    } else if (broken && !aborted) {
        tell_interruption(stream);
    }

    chat_tracker_break(&stream->track);
    return end(stream, pieces, n);
}


size_t
chat_stream_facts(chat_stream_t *stream, const chat_stream_facts_t **facts)
{
    return chat_tracker_take(&stream->track, facts);
}


size_t
chat_stream_settled(const chat_stream_t *stream, chat_str_t *ids, size_t max)
{
    size_t                n = 0;
    const chat_opening_t *call = stream->track.step.first;

    for (/* void */; call != NULL && n < max; call = call->later) {
        if (call->step == stream->track.step.number && call->settled) {
            ids[n++] = call->id;
        }
    }

    return n;
}


const chat_stream_info_t *
chat_stream_info(const chat_stream_t *stream)
{
    return &stream->info;
}


int
chat_stream_sent(const chat_stream_t *stream, chat_count_t *count)
{
    *count = stream->number.count;
    return !stream->info.foreign;
}
