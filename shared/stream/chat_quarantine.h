/*
 * chat_quarantine.h: frames that wait for a verdict, in their order.
 *
 * A frame in it is a copy of its bytes, its events and its marks. The first
 * frame waits for the arguments of a call, the others wait behind it.
 */

#ifndef CHAT_QUARANTINE_H
#define CHAT_QUARANTINE_H

#include "bytes/chat_str.h"
#include "model/chat_event.h"
#include "sse/chat_sse.h"

typedef struct chat_parsed_s chat_parsed_t;

/* A frame with what it says. */
struct chat_parsed_s {
    chat_parsed_t *next; /* in quarantine; else NULL */
    chat_frame_t   frame;
    chat_events_t  events;
    int            waits; /* for a verdict, when it came */
};

/* All zero is an empty one. */
typedef struct {
    chat_arena_t  *arena; /* of the frames; NULL: none has waited so far */
    chat_parsed_t *first;
    chat_parsed_t *last;
    size_t         bytes; /* of the frames; a tiny one counts for more */
    size_t         left;  /* of those that left, but still take memory */
} chat_quarantine_t;

/* Appends a copy. CHAT_ERROR without memory. */
chat_rc_e chat_quarantine_add(chat_quarantine_t   *quarantine,
                              const chat_parsed_t *parsed);

/* Removes the first frame. */
void chat_quarantine_pop(chat_quarantine_t *quarantine);

#endif /* CHAT_QUARANTINE_H */
