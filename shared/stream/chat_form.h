/*
 * chat_form.h: frames of a form that the stream had before.
 *
 * A provider writes frame after frame in the same words. The core learns a
 * form from a frame that it has parsed and read. In a later frame of that form
 * the strings, the numbers and the lists of them that the reader did not look
 * at may differ, and so may the piece of a call's arguments. All other bytes
 * must be the same. Such a frame has the same meaning: nothing, or the next
 * piece of the same call. It is valid JSON, too, so it is neither framed nor
 * parsed nor read.
 *
 * Forms hold until a frame means anything else, as that may change what a
 * reader makes of later ones. Time is linear in the bytes.
 */

#ifndef CHAT_FORM_H
#define CHAT_FORM_H

#include "bytes/chat_str.h"
#include "dialect/chat_dialect.h"

#define CHAT_FORMS 8
#define CHAT_FORM_VALUES 32
#define CHAT_FORM_BYTES 1024
#define CHAT_FORM_RUN 64
#define CHAT_FORM_LONG 4096 /* a longer frame is compared with one form */

typedef enum {
    CHAT_FORM_STRING, /* any string */
    CHAT_FORM_PIECE,  /* the string that adds to a call's arguments */
    CHAT_FORM_NUMBER, /* any number */
    CHAT_FORM_LIST,   /* strings and numbers, one at least */
    CHAT_FORM_INDEX   /* the sequence number, in digits */
} chat_form_e;

/* A value that may differ; without its quotes or brackets. */
typedef struct {
    chat_span_t at;
    chat_form_e type;
} chat_form_value_t;

typedef struct {
    chat_event_t      event;      /* of a frame, but for its text */
    int               has_piece;  /* of arguments, as a hole */
    int               has_number; /* a sequence number, as a hole */
    size_t            nholes;     /* one at least */
    size_t            nsame;
    size_t            len;
    chat_form_value_t holes[CHAT_FORM_VALUES + 1]; /* in order; behind them
                                                      the next frame's first */
    chat_form_value_t same[CHAT_FORM_VALUES]; /* that did not differ so far;
                                                   a hole later */
    /* of the learnt frame, twice */
    unsigned char bytes[2 * CHAT_FORM_BYTES];
} chat_form_t;

/* All zero but for the first three members, it has no form. */
typedef struct {
    const chat_dialect_t *dialect;
    chat_reader_t        *reader;
    chat_arena_t         *arena;                /* lives as the frame */
    chat_form_t          *list[CHAT_FORMS + 1]; /* in the stream's arena; NULL:
                                                   never needed so far; the
                                                   last one: to be learnt */
    size_t                count;                /* 0 forgets all */
    size_t                next;                 /* to be replaced */
    size_t                last;                 /* that matched */
    int                   partial;              /* see chat_forms_read() */
    const size_t         *ends;                 /* of the frames just read */
} chat_forms_t;

/*
 * Learns from the frame that the reader has just read, if that changed nothing
 * but a call's arguments; else forgets all forms. NULL: learns nothing.
 */
void chat_forms_learn(chat_forms_t *forms, const chat_frame_t *frame);

/*
 * Reads the frame that input begins with, if it is a whole one of a known form
 * and of at most max bytes, and those of the same form behind it, up to
 * *frames, which is 1 to CHAT_FORM_RUN. Returns their length and sets *event
 * to what the reader would say of all of them, OPAQUE or ARGS; *frames is
 * their number, and forms->ends has their ends. 0: it is none. The lines of
 * each end in LF; none is an id. forms->partial: the input ends within the
 * frame behind them, which has begun as one of a known form.
 */
size_t chat_forms_read(chat_forms_t *forms, chat_str_t input, size_t max,
                       chat_event_t *event, size_t *frames);

#endif /* CHAT_FORM_H */
