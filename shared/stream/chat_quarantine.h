/*
 * chat_quarantine.h: frames that wait for a verdict, in their order.
 *
 * A held frame is a copy of its bytes and of what its events said. The first
 * one waits for a call's arguments, the others wait behind it.
 * Promises: one allocation per held frame, freed when it leaves.
 * Must not know: who decides, wire formats.
 */

#ifndef CHAT_QUARANTINE_H
#define CHAT_QUARANTINE_H

#include "bytes/chat_str.h"
#include "model/chat_event.h"
#include "stream/chat_filter.h"
#include "sse/chat_sse.h"

/* What the stream found out about an event. */
typedef struct {
    chat_verdict_e verdict;
    uint32_t       generation; /* of its slot; for WAIT */
    chat_digest_t  fingerprint;
    unsigned       has_fingerprint : 1; /* CALL_READY: it is known */
    unsigned       has_payload : 1;     /* CALL_RESULT: text is to be kept */
} chat_judged_t;

/* A frame with its events, n of each; read only. */
typedef struct {
    chat_frame_t   frame;
    chat_event_t  *events;
    chat_judged_t *judged;
    size_t         n;
    int            is_event; /* the dialect understood it */
} chat_heard_t;

typedef struct chat_held_s chat_held_t;

struct chat_held_s {
    chat_held_t *next;
    chat_heard_t heard;
};

/* All zero is an empty one. */
typedef struct {
    chat_held_t *first;
    chat_held_t *last;
    size_t       bytes; /* of the frames; tiny ones count for more */
} chat_quarantine_t;

/* Appends a copy. CHAT_ERROR without memory. */
chat_rc_e chat_quarantine_add(chat_quarantine_t  *quarantine,
                              const chat_heard_t *heard);

/* Frees the first frame. */
void chat_quarantine_pop(chat_quarantine_t *quarantine);

void chat_quarantine_free(chat_quarantine_t *quarantine);

#endif /* CHAT_QUARANTINE_H */
