/*
 * chat_sse.c: see chat_sse.h.
 *
 * Lines are found by memchr() in the input and read where they lie. Only the
 * frame that an input leaves unfinished is copied, to the tail; when its end
 * has come it is read once more, as one text. No byte is read more than a
 * constant number of times. A frame past the limit is never held: its bytes
 * come out piece by piece.
 */

#include "sse/chat_sse.h"

static const unsigned char chat_sse_bom[3] = { 0xef, 0xbb, 0xbf };

/* How a line ended. */
typedef enum {
    CHAT_SSE_END_NONE, /* there was no line yet */
    CHAT_SSE_END_LF,
    CHAT_SSE_END_CR,
    CHAT_SSE_END_CRLF
} chat_sse_end_e;

/* What a CR at the end of the input awaits. */
typedef enum {
    CHAT_SSE_WAIT_NOT,  /* nothing */
    CHAT_SSE_WAIT_LINE, /* perhaps the LF of a line that is known to be over */
    CHAT_SSE_WAIT_BLANK /* perhaps the LF of a blank line, a frame's end */
} chat_sse_wait_e;

/* Where we are in a frame past the limit. */
typedef enum {
    CHAT_SSE_SKIP_NOT,    /* in none; left when a frame passes the limit */
    CHAT_SSE_SKIP_INSIDE, /* what comes goes out, until a blank line */
    CHAT_SSE_SKIP_ENDED /* the last piece is to go out, then framing resumes */
} chat_sse_skip_e;

/* What the next line is. */
typedef enum {
    CHAT_SSE_LINE_FIELD, /* a line, or its end, with something in it */
    CHAT_SSE_LINE_BLANK, /* the blank line that ends a frame */
    CHAT_SSE_LINE_NONE   /* the text is over before the line is */
} chat_sse_line_e;


void
chat_sse_init(chat_sse_t *sse, size_t max_frame)
{
    memset(sse, 0, sizeof(chat_sse_t));
    sse->max_frame = max_frame;
}


void
chat_sse_free(chat_sse_t *sse)
{
    chat_buf_free(&sse->tail);
    chat_buf_free(&sse->data);
}


static void
chat_sse_flush(chat_sse_t *sse)
{
    if (sse->flush) {
        sse->tail.len = 0;
        sse->flush = 0;
    }
}


void
chat_sse_feed(chat_sse_t *sse, chat_str_t input)
{
    chat_sse_flush(sse);
    chat_lines_init(&sse->in, input);
    sse->start = 0;
}


chat_str_t
chat_sse_tail(const chat_sse_t *sse)
{
    return sse->flush ? chat_str(NULL, 0) : chat_buf_str(&sse->tail);
}


chat_str_t
chat_sse_unread(const chat_sse_t *sse)
{
    return chat_str(sse->in.text.data + sse->start,
                    sse->in.text.len - sse->start);
}


chat_str_t
chat_sse_rest(const chat_sse_t *sse)
{
    if ((sse->tail.len != 0 && !sse->flush) || sse->start != sse->in.pos
        || sse->partial || !sse->begun || sse->waiting != CHAT_SSE_WAIT_NOT
        || sse->skipping != CHAT_SSE_SKIP_NOT)
    {
        return chat_str(NULL, 0);
    }

    return chat_sse_unread(sse);
}


void
chat_sse_skip(chat_sse_t *sse, size_t len)
{
    sse->in.pos += len;
    sse->start = sse->in.pos;
    sse->last_end = CHAT_SSE_END_LF;
}


/* The value of the line if its field is this one (4 or 5 letters); else 0. */
static int
chat_sse_value(chat_str_t line, const char *name, size_t len,
               chat_str_t *value)
{
    if (line.len < len || memcmp(line.data, name, len) != 0) {
        return 0;
    }

    if (line.len == len) {
        *value = chat_str(line.data + len, 0);
        return 1;
    }

    if (line.data[len] != ':') {
        return 0;
    }

    len++;
    if (line.len > len && line.data[len] == ' ') {
        len++;
    }

    *value = chat_str(line.data + len, line.len - len);

    return 1;
}


static void
chat_sse_field(chat_sse_t *sse, chat_frame_t *frame, chat_str_t line)
{
    chat_str_t value;

    if (chat_sse_value(line, "event", 5, &value)) {
        frame->event = value;
        return;
    }

    if (!chat_sse_value(line, "data", 4, &value)) {
        return;
    }

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


/* Drops the byte order mark of the stream's first line from line. */
static int
chat_sse_skip_bom(chat_str_t *line)
{
    size_t len = sizeof(chat_sse_bom);

    if (line->len < len || memcmp(line->data, chat_sse_bom, len) != 0) {
        return 0;
    }

    *line = chat_str(line->data + len, line->len - len);

    return 1;
}


/* Reads the fields of a frame that was put together from several inputs. */
static void
chat_sse_fields(chat_sse_t *sse, chat_frame_t *frame)
{
    chat_str_t   line, end, text = frame->raw;
    chat_lines_t lines;

    frame->bom = !sse->begun && chat_sse_skip_bom(&text);

    chat_lines_init(&lines, text);

    while (chat_lines_next(&lines, &line, &end)) {
        chat_sse_field(sse, frame, line);
    }
}


/* The input goes on behind a CR that ended the last one. */
static chat_sse_line_e
chat_sse_resume(chat_sse_t *sse)
{
    int blank = sse->waiting == CHAT_SSE_WAIT_BLANK;

    sse->waiting = CHAT_SSE_WAIT_NOT;
    sse->last_end = CHAT_SSE_END_CR;

    if (sse->in.text.data[sse->in.pos] == '\n') {
        sse->in.pos++;
        sse->last_end = CHAT_SSE_END_CRLF;
    }

    return blank ? CHAT_SSE_LINE_BLANK : CHAT_SSE_LINE_FIELD;
}


/*
 * Moves behind the CR at in.pos - 1 and its LF, where it has one. Returns 0
 * if only the next input can tell.
 */
static int
chat_sse_end_of_cr(chat_sse_t *sse, int blank)
{
    int lone =
        sse->last_end == CHAT_SSE_END_LF || sse->last_end == CHAT_SSE_END_CR;

    sse->last_end = CHAT_SSE_END_CR;

    if (blank && lone) {
        return 1;
    }

    if (sse->in.pos == sse->in.text.len) {
        sse->waiting = blank ? CHAT_SSE_WAIT_BLANK : CHAT_SSE_WAIT_LINE;
        return 0;
    }

    if (sse->in.text.data[sse->in.pos] == '\n') {
        sse->in.pos++;
        sse->last_end = CHAT_SSE_END_CRLF;
    }

    return 1;
}


/* Moves over the next line of the input, or what this input has of it. */
static chat_sse_line_e
chat_sse_line(chat_sse_t *sse, chat_str_t *line)
{
    int           blank;
    size_t        end;
    chat_lines_t *in = &sse->in;

    *line = chat_str(NULL, 0);

    if (in->pos == in->text.len) {
        return CHAT_SSE_LINE_NONE;
    }

    if (sse->waiting != CHAT_SSE_WAIT_NOT) {
        return chat_sse_resume(sse);
    }

    end = chat_lines_end(in);

    if (end == in->text.len) {
        in->pos = end;
        sse->partial = 1;
        return CHAT_SSE_LINE_NONE;
    }

    *line = chat_str(in->text.data + in->pos, end - in->pos);
    blank = line->len == 0 && !sse->partial;
    sse->partial = 0;
    in->pos = end + 1;

    if (in->text.data[end] == '\n') {
        sse->last_end = CHAT_SSE_END_LF;

    } else if (!chat_sse_end_of_cr(sse, blank)) {
        return blank ? CHAT_SSE_LINE_NONE : CHAT_SSE_LINE_FIELD;
    }

    return blank ? CHAT_SSE_LINE_BLANK : CHAT_SSE_LINE_FIELD;
}


/* All that has come of a frame past the limit and was not given out yet. */
static int
chat_sse_piece(chat_sse_t *sse, chat_frame_t *frame)
{
    if (sse->tail.len != 0) {
        frame->raw = chat_buf_str(&sse->tail);
        sse->flush = 1;
        return 1;
    }

    if (sse->start == sse->in.pos) {
        return 0;
    }

    frame->raw =
        chat_str(sse->in.text.data + sse->start, sse->in.pos - sse->start);
    frame->in_input = 1;
    sse->start = sse->in.pos;

    return 1;
}


/* Keeps what this input has of the unfinished frame. */
static int
chat_sse_keep(chat_sse_t *sse)
{
    chat_buf_add(&sse->tail, chat_str(sse->in.text.data + sse->start,
                                      sse->in.pos - sse->start));
    if (sse->tail.failed) {
        return 0;
    }

    sse->start = sse->in.pos;
    return 1;
}


/* The frame that ends at in.pos. */
static chat_sse_rc_e
chat_sse_whole(chat_sse_t *sse, chat_frame_t *frame)
{
    if (sse->tail.len == 0) {
        frame->in_input = 1;
        frame->raw =
            chat_str(sse->in.text.data + sse->start, sse->in.pos - sse->start);
        sse->start = sse->in.pos;

    } else {
        if (!chat_sse_keep(sse)) {
            return CHAT_SSE_ERROR;
        }

        frame->raw = chat_buf_str(&sse->tail);
        sse->flush = 1;
        chat_sse_fields(sse, frame);
    }

    sse->begun = 1;
    return sse->data.failed ? CHAT_SSE_ERROR : CHAT_SSE_FRAME;
}


/*
 * Moves to the end of the frame or of the input. The fields are read on the
 * way if the frame began in this input.
 */
static chat_sse_line_e
chat_sse_lines(chat_sse_t *sse, chat_frame_t *frame)
{
    int             fresh, first;
    chat_str_t      line;
    chat_sse_line_e what;

    fresh = sse->tail.len == 0 && sse->skipping == CHAT_SSE_SKIP_NOT;
    first = !sse->begun;

    for (;;) {
        what = chat_sse_line(sse, &line);

        if (what != CHAT_SSE_LINE_FIELD) {
            return what;
        }

        if (!fresh) {
            continue;
        }

        if (first) {
            first = 0;
            frame->bom = chat_sse_skip_bom(&line);
        }

        chat_sse_field(sse, frame, line);
    }
}


chat_sse_rc_e
chat_sse_next(chat_sse_t *sse, chat_frame_t *frame)
{
    size_t          size;
    chat_sse_line_e what;

    chat_sse_flush(sse);

    for (;;) {
        memset(frame, 0, sizeof(chat_frame_t));

        if (sse->skipping != CHAT_SSE_SKIP_NOT) {
            if (chat_sse_piece(sse, frame)) {
                return CHAT_SSE_PIECE;
            }

            if (sse->skipping == CHAT_SSE_SKIP_ENDED) {
                sse->skipping = CHAT_SSE_SKIP_NOT;
                sse->begun = 1;
            }
        }

        what = chat_sse_lines(sse, frame);
        size = sse->tail.len + (sse->in.pos - sse->start);

        if (sse->skipping == CHAT_SSE_SKIP_NOT
            && (sse->max_frame == 0 || size <= sse->max_frame))
        {
            if (what == CHAT_SSE_LINE_BLANK) {
                return chat_sse_whole(sse, frame);
            }

            return chat_sse_keep(sse) ? CHAT_SSE_MORE : CHAT_SSE_ERROR;
        }

        if (what == CHAT_SSE_LINE_NONE && size == 0) {
            return CHAT_SSE_MORE;
        }

        sse->skipping = what == CHAT_SSE_LINE_BLANK ? CHAT_SSE_SKIP_ENDED
                                                    : CHAT_SSE_SKIP_INSIDE;
    }
}


void
chat_sse_rewrite(const chat_frame_t *frame, chat_str_t data, chat_buf_t *out)
{
    int          seen = 0;
    chat_str_t   line, end, value, text = frame->raw;
    chat_str_t   pending = chat_str(NULL, 0);
    chat_lines_t lines;

    if (frame->bom && chat_sse_skip_bom(&text)) {
        chat_buf_add(out, chat_str(chat_sse_bom, sizeof(chat_sse_bom)));
    }

    chat_lines_init(&lines, text);

    while (chat_lines_next(&lines, &line, &end)) {
        if (!chat_sse_value(line, "data", 4, &value)) {
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
