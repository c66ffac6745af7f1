/*
 * chat_sse.c: see chat_sse.h.
 *
 * Only the frame that an input leaves unfinished is copied, to the tail; when
 * its end has come it is read once more, as one text. No byte is read more
 * than a constant number of times. A frame past the limit is not kept: its
 * bytes come out piece by piece.
 */

#include "sse/chat_sse.h"

#define CHAT_SSE_AHEAD 512 /* bytes: of most frames all */


void
chat_sse_free(chat_sse_t *sse)
{
    chat_buf_free(&sse->tail);
    chat_buf_free(&sse->data);
}


void
chat_sse_feed(chat_sse_t *sse, chat_str_t input)
{
    sse->input = input;
    sse->start = 0;
    sse->pos = 0;
}


chat_str_t
chat_sse_tail(const chat_sse_t *sse)
{
    return sse->flush ? chat_str(NULL, 0) : chat_buf_str(&sse->tail);
}


chat_str_t
chat_sse_unread(const chat_sse_t *sse)
{
    return chat_str(sse->input.data + sse->start, sse->input.len - sse->start);
}


chat_str_t
chat_sse_rest(chat_sse_t *sse, int *in_input)
{
    chat_str_t rest = chat_sse_unread(sse);

    *in_input = sse->uncounted == 0 || rest.len == 0;

    if (!sse->begun || chat_count_is_inside(&sse->count) || sse->skipping) {
        return chat_str(NULL, 0);
    }

    if (*in_input) {
        return rest;
    }

    rest.len = rest.len < CHAT_SSE_AHEAD ? rest.len : CHAT_SSE_AHEAD;
    chat_buf_add(&sse->tail, rest);
    return sse->tail.failed ? chat_str(NULL, 0) : chat_buf_str(&sse->tail);
}


void
chat_sse_skip(chat_sse_t *sse, size_t len)
{
    sse->pos += len - sse->uncounted;
    sse->start = sse->pos;
    sse->flush |= sse->uncounted != 0;
    sse->uncounted = 0;
    sse->count.flags |= CHAT_COUNT_PLAIN;
}


/* Empties the tail that was given out. */
static void
chat_sse_flush(chat_sse_t *sse)
{
    if (sse->flush) {
        sse->tail.len = 0;
        sse->flush = 0;
    }
}


/* The value of a data: line; 0: the line is another one. */
static int
data_value(chat_str_t line, chat_str_t *value)
{
    if (!chat_str_after(line, "data", value)
        || (value->len != 0 && value->data[0] != ':'))
    {
        return 0;
    }

    (void) chat_str_after(*value, ":", value);
    (void) chat_str_after(*value, " ", value);
    return 1;
}


/* Adds the value of a data: line to the frame's data. */
static void
add_data(chat_sse_t *sse, chat_frame_t *frame, chat_str_t value)
{
    if (!frame->has_data) {
        frame->has_data = 1;
        frame->data = value;
        return;
    }

    /* a further line: frame->data is the first one, or the joined ones */
    if (frame->data.data != sse->data.data) {
        sse->data.len = 0;
        chat_buf_add(&sse->data, frame->data);
    }

    chat_buf_puts(&sse->data, "\n");
    chat_buf_add(&sse->data, value);
    frame->data = chat_buf_str(&sse->data);
}


/* Keeps what this input has of the unfinished frame. */
static int
chat_sse_keep(chat_sse_t *sse)
{
    chat_buf_add(&sse->tail, chat_str(sse->input.data + sse->start,
                                      sse->pos - sse->start));
    if (sse->tail.failed) {
        return 0;
    }

    sse->start = sse->pos;
    return 1;
}


int
chat_sse_leave(chat_sse_t *sse)
{
    chat_sse_flush(sse);
    sse->pos = sse->input.len;

    if (!chat_sse_keep(sse)) {
        sse->pos = sse->start;
        return 0;
    }

    sse->uncounted = sse->tail.len;
    return 1;
}


/* Gives out the bytes of the frame up to sse->pos; 0 without memory. */
static int
give(chat_sse_t *sse, chat_frame_t *frame)
{
    if (sse->tail.len == 0) {
        frame->in_input = 1;
        frame->raw =
            chat_str(sse->input.data + sse->start, sse->pos - sse->start);
        sse->start = sse->pos;
        return 1;
    }

    if (!chat_sse_keep(sse)) {
        return 0;
    }

    frame->raw = chat_buf_str(&sse->tail);
    sse->flush = 1;
    return 1;
}


/*
 * Reads the lines of the frame that text begins with; returns its length if
 * all of them end in LF. Else 0; if whole, text is the frame, and was read.
 */
static size_t
read_lines(chat_sse_t *sse, chat_frame_t *frame, chat_str_t text, int whole)
{
    int        plain = 1, special = 0;
    chat_str_t line, end, value, rest = text;

    frame->has_data = 0;
    frame->bom = !sse->begun && chat_str_after(text, CHAT_BOM, &rest);

    while ((plain || whole) && chat_line_cut(&rest, &line, &end)) {
        plain &= chat_str_is(end, "\n");

        if (plain && line.len == 0) {
            frame->events = frame->has_data && !special && !frame->bom;
            sse->count.flags = CHAT_COUNT_BEGUN | CHAT_COUNT_PLAIN;
            return text.len - rest.len;
        }

        special |= chat_str_starts(line, "id");
        if (data_value(line, &value)) {
            add_data(sse, frame, value);
        }
    }

    return 0;
}


/* A whole frame ends at sse->pos. */
static chat_sse_rc_e
give_whole(chat_sse_t *sse, chat_frame_t *frame, int is_read)
{
    if (!give(sse, frame)) {
        return CHAT_SSE_ERROR;
    }

    if (!is_read) {
        (void) read_lines(sse, frame, frame->raw, 1);
    }

    sse->begun = 1;
    return sse->data.failed ? CHAT_SSE_ERROR : CHAT_SSE_FRAME;
}


chat_sse_rc_e
chat_sse_next(chat_sse_t *sse, chat_frame_t *frame)
{
    int        ended;
    size_t     size, len;
    chat_str_t rest;

    chat_sse_flush(sse);

    if (sse->start == sse->input.len) {
        return CHAT_SSE_MORE;
    }

    if (sse->uncounted != 0) {
        sse->tail.len = sse->uncounted;
        sse->uncounted = 0;
        (void) chat_count_frame(&sse->count, chat_buf_str(&sse->tail), &ended);
    }

    memset(frame, 0, sizeof(chat_frame_t));

    do {
        rest = chat_str(sse->input.data + sse->pos, sse->input.len - sse->pos);
        len = chat_count_is_inside(&sse->count)
                  ? 0
                  : read_lines(sse, frame, rest, 0);
        ended = len != 0;
        sse->pos += ended ? len : chat_count_frame(&sse->count, rest, &ended);
        size = sse->tail.len + (sse->pos - sse->start);

        if (!sse->skipping && (sse->max_frame == 0 || size <= sse->max_frame))
        {
            return ended                ? give_whole(sse, frame, len != 0)
                   : chat_sse_keep(sse) ? CHAT_SSE_MORE
                                        : CHAT_SSE_ERROR;
        }

        sse->skipping = !ended;
        sse->begun |= ended;
        chat_buf_free(&sse->data);
        memset(frame, 0, sizeof(chat_frame_t));
    } while (size == 0 && ended);

    return size == 0          ? CHAT_SSE_MORE
           : give(sse, frame) ? CHAT_SSE_PIECE
                              : CHAT_SSE_ERROR;
}


void
chat_sse_rewrite(const chat_frame_t *frame, chat_str_t data, chat_buf_t *out)
{
    int        seen = 0;
    chat_str_t line, end, value, text = frame->raw;
    chat_str_t pending = chat_str(NULL, 0);

    if (frame->bom && chat_str_after(text, CHAT_BOM, &text)) {
        chat_buf_puts(out, CHAT_BOM);
    }

    while (chat_line_cut(&text, &line, &end)) {
        if (!data_value(line, &value)) {
            chat_buf_add(out, pending);
            chat_buf_add(out, line);

        } else if (!seen) {
            seen = 1;
            chat_buf_add(out, pending);
            chat_buf_puts(out, "data:");
            chat_buf_puts(out, line.len > 5 && line.data[5] == ' ' ? " " : "");
            chat_buf_one_line(out, data);
        }

        /* the end of a line that goes takes the place of the one before: a
           CR followed by the LF of the blank line would be one line end */
        pending = end;
    }

    chat_buf_add(out, pending);
}
