/*
 * chat_stream.c: one answer on its way from the provider to the client.
 *
 * The bytes: what comes in is cut into frames, what goes out is gathered, and
 * the end is judged. What becomes of a frame is in chat_stream_frame.c.
 * Promises: bytes that nobody needs to look at are passed where they lie.
 * Must not know: NGINX, stores, time.
 */

#include "stream/chat_stream_frame.h"

#include <stdlib.h>


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
        || chat_track_init(&stream->track, &stream->conf, &stream->info,
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
    chat_track_free(&stream->track);
    chat_output_free(&stream->output);
    chat_arena_destroy(stream->frame);
    chat_arena_destroy(stream->arena);
    free(stream);
}


void
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


void
chat_stream_write(chat_stream_t *stream, chat_buf_t *bytes)
{
    stream->output.failed |= bytes->failed;
    chat_stream_pass(stream, chat_buf_str(bytes), 0);
    chat_buf_free(bytes);
}


/* Begins a call of the owner's. */
static void
chat_stream_begin(chat_stream_t *stream)
{
    chat_outbox_forget(&stream->track.outbox);
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
    chat_track_end(&stream->track);
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


/* The last that came was a whole frame which nobody has read. */
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

    chat_track_end(&stream->track);
    return chat_stream_end(stream, pieces, n);
}


size_t
chat_stream_facts(chat_stream_t *stream, const chat_stream_facts_t **facts)
{
    chat_outbox_forget(&stream->track.outbox);
    return chat_outbox_take(&stream->track.outbox, facts);
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
