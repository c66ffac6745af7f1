/*
 * chat_sse.h: a pull parser that cuts a byte stream into SSE frames.
 *
 * chat_position.h says what a frame is. Frames, glued together, are the input
 * byte for byte, and do not depend on how it was cut. A frame that lies in one
 * input is not copied. Time is linear.
 */

#ifndef CHAT_SSE_H
#define CHAT_SSE_H

#include "bytes/chat_str.h"
#include "bytes/chat_buf.h"
#include "sse/chat_position.h"

typedef struct {
    chat_str_t raw;      /* all bytes of the frame, blank line included */
    chat_str_t data;     /* the data: lines joined by LF, or empty */
    int        has_data; /* there was at least one data: line */
    int        in_input; /* raw points into the last input given to feed */
    int        bom;      /* raw begins with a byte order mark */
    size_t     events;   /* not 0: so many; lines end in LF, none is an id */
} chat_frame_t;

typedef enum {
    CHAT_SSE_FRAME, /* *frame is a whole frame */
    CHAT_SSE_PIECE, /* frame->raw is a piece of a frame past the limit; no
                       other member but in_input is set; passes untouched */
    CHAT_SSE_MORE,  /* the input is used up; its bytes may go away */
    CHAT_SSE_ERROR  /* no memory */
} chat_sse_rc_e;

/* All zero but for max_frame is the beginning; else it is the parser's own. */
typedef struct {
    size_t       max_frame; /* a longer one comes in pieces; 0: no limit */
    chat_str_t   input;
    size_t       start; /* where the unfinished frame goes on in the input */
    size_t       pos;   /* up to where the input was read */
    chat_count_t count;
    chat_buf_t   tail;      /* the unfinished frame of earlier inputs */
    size_t       uncounted; /* bytes of the tail if it was left; else 0 */
    chat_buf_t   data;      /* joined data of a frame with several lines */
    int          skipping;  /* inside a frame past the limit; to be read */
    int          begun;     /* the stream's first frame is over */
    int          flush;     /* the tail was given out and is to be emptied */
} chat_sse_t;

void chat_sse_free(chat_sse_t *sse);

/* Gives the next bytes; they must stay until chat_sse_next() says MORE. */
void chat_sse_feed(chat_sse_t *sse, chat_str_t input);

/*
 * The next frame. What *frame points to is valid until the next call of
 * chat_sse_next() or chat_sse_feed().
 */
chat_sse_rc_e chat_sse_next(chat_sse_t *sse, chat_frame_t *frame);

/*
 * For those that know frames when they see them. What of the input is unread,
 * if the parser stands between two frames of it; else empty. Not *in_input:
 * the frame that was left, and what follows it, in part. chat_sse_skip() moves
 * over whole frames that end in LF LF (over the one that was left alone),
 * chat_sse_leave() to the end of the input: it is within a frame. Without
 * memory for that it does nothing, and returns 0.
 */
chat_str_t chat_sse_rest(chat_sse_t *sse, int *in_input);
void       chat_sse_skip(chat_sse_t *sse, size_t len);
int        chat_sse_leave(chat_sse_t *sse);

/* The bytes of the unfinished frame, after MORE; valid until the next feed. */
chat_str_t chat_sse_tail(const chat_sse_t *sse);

/* What of the input no frame has taken; after it the parser is of no use. */
chat_str_t chat_sse_unread(const chat_sse_t *sse);

/*
 * Appends to out the frame with its data replaced: the first data: line
 * carries the new data (line ends in it become spaces), further data: lines
 * go, every other byte stays.
 */
void chat_sse_rewrite(const chat_frame_t *frame, chat_str_t data,
                      chat_buf_t *out);

#endif /* CHAT_SSE_H */
