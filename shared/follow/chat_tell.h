/*
 * chat_tell.h: finds the end of an answer's first event, behind which a client
 * of some dialects is told what its transcript lacks.
 *
 * The answer's bytes are looked at as they come, until the place is found.
 * Promises: the place is between two frames; bytes are looked at once, and
 * none is kept.
 * Must not know: wire formats, what is told.
 */

#ifndef CHAT_TELL_H
#define CHAT_TELL_H

#include "bytes/chat_str.h"
#include "dialect/chat_dialect.h"

/* All zero is one that seeks nothing. */
typedef struct {
    const char *behind; /* of the dialect */
    size_t      column; /* in the line */
    size_t      found;  /* characters of behind */
    int         blank;  /* the line has no character but its end */
    int         data;   /* the frame has a data: line so far */
    int         prefix; /* the line may be one, or is */
    int         seeks;  /* the place is still to come */
} chat_tell_t;

/* Where the dialect has no inject_after there is no such place. */
void chat_tell_init(chat_tell_t *tell, const chat_dialect_t *dialect);

/*
 * Looks at the next bytes. CHAT_OK: what is told goes behind *at of them, and
 * the search is done; CHAT_DECLINED: not here.
 */
chat_rc_e chat_tell_find(chat_tell_t *tell, chat_str_t bytes, size_t *at);

#endif /* CHAT_TELL_H */
