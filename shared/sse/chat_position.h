/*
 * chat_position.h: frames of a byte stream: their ends, count and numbers.
 *
 * A frame is the run of lines up to and with its blank line; LF, CRLF, CR and
 * any mix end a line. The CR of a blank line is taken for a CRLF if the line
 * before ended in CRLF or there was none (at the end of the bytes it waits for
 * one more), else for a CR: a stream of lone CRs is not delayed.
 *
 * An event is a frame with data. The count is a few bytes of state that can be
 * written down and continued elsewhere, in the middle of a stream. It does not
 * depend on how the input was cut. Time is linear.
 */

#ifndef CHAT_POSITION_H
#define CHAT_POSITION_H

#include "bytes/chat_str.h"
#include "bytes/chat_buf.h"

#define CHAT_BOM "\xef\xbb\xbf"

/* All zero is the beginning of a stream; members are the counter's own. */
typedef struct {
    uint64_t events; /* that have ended; to be read */
    unsigned line;   /* what the current line has been so far */
    unsigned flags;  /* of the current frame */
} chat_count_t;

#define CHAT_COUNT_PLAIN 2   /* the last line did not end in CRLF */
#define CHAT_COUNT_INSIDE 16 /* the frame has begun */
#define CHAT_COUNT_BEGUN 32  /* the stream has */


/* 1 if a frame has begun and not ended. */
static inline int
chat_count_is_inside(const chat_count_t *count)
{
    return (count->flags & CHAT_COUNT_INSIDE) != 0;
}


/*
 * Moves on to the end of the current frame, or of the bytes: returns how many
 * of them that takes. *ended: the frame has ended there (also where no byte
 * was left of it).
 */
size_t chat_count_frame(chat_count_t *count, chat_str_t bytes, int *ended);

/*
 * Moves on over the bytes, but not beyond the end of the event with this
 * number (0: nothing at all); returns how many of them that takes.
 */
size_t chat_count_to(chat_count_t *count, chat_str_t bytes, uint64_t event);

#define CHAT_COUNT_ROOM (2 * CHAT_DIGITS + 2)

/*
 * Writes "<events> <state>\n" up to end, before which there are
 * CHAT_COUNT_ROOM bytes; returns where it begins.
 */
unsigned char *chat_count_write(const chat_count_t *count, unsigned char *end);

/* Reads it back: 0 if text does not begin so, else its length. */
size_t chat_count_read(chat_count_t *count, chat_str_t text);

/*
 * The number of bytes before the end of the first line. Looks a bounded number
 * of bytes ahead, as lines may end in CR alone.
 */
size_t chat_line_len(chat_str_t bytes);

/*
 * Cuts the next line off *text: *line without, *end only the bytes that end
 * it (none at the end of the text). 0: there is none.
 */
static inline int
chat_line_cut(chat_str_t *text, chat_str_t *line, chat_str_t *end)
{
    size_t               len, ends;
    const unsigned char *p;

    if (text->len == 0) {
        return 0;
    }

    len = *text->data != '\n' ? chat_line_len(*text) : 0;
    p = text->data + len;
    ends = len < text->len;
    ends += len + 1 < text->len && p[0] == '\r' && p[1] == '\n';
    *line = chat_str(text->data, len);
    *end = chat_str(p, ends);
    *text = chat_str(p + ends, text->len - len - ends);
    return 1;
}


/* All zero, but for the stream's id, is the beginning of a stream. */
typedef struct {
    chat_str_t   stream; /* empty: events are counted, not numbered */
    chat_count_t count;  /* of what has gone out */
} chat_number_t;

/*
 * Appends the bytes to out, with the numbers: whole frames, or a piece of one
 * that is too long to be looked at. The number of a frame replaces its own; in
 * pieces it follows that, as the last line. Without an id it appends nothing.
 */
void chat_number_add(chat_number_t *number, chat_str_t bytes, int is_piece,
                     chat_buf_t *out);

/*
 * The same of n events, which end at these places: their lines end in LF, and
 * none is an id.
 */
void chat_number_events(chat_number_t *number, chat_str_t bytes,
                        const size_t *ends, size_t n, chat_buf_t *out);

#endif /* CHAT_POSITION_H */
