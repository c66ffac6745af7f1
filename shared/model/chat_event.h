/*
 * chat_event.h: what a dialect's stream means, in a few normalised events.
 *
 * A dialect's reader turns each SSE frame into 0..n events; everything above
 * (filter, batch, end of a stream) knows these only. Also here: the
 * fingerprint of a call. Must not know: any wire format.
 */

#ifndef CHAT_EVENT_H
#define CHAT_EVENT_H

#include "bytes/chat_str.h"
#include "bytes/chat_arena.h"
#include "bytes/chat_digest.h"

/* Who answers a call. */
typedef enum {
    CHAT_KIND_CLIENT,   /* the client must bring a result: a member */
    CHAT_KIND_APPROVAL, /* the client must approve or refuse: a member */
    CHAT_KIND_PROVIDER  /* executed on the server side: never a member */
} chat_kind_e;

typedef enum {
    CHAT_OUTCOME_NONE,
    CHAT_OUTCOME_OK,
    CHAT_OUTCOME_ERROR,
    CHAT_OUTCOME_DENIED,
    CHAT_OUTCOME_PARTIAL /* preliminary output: settles nothing */
} chat_outcome_e;

/* Why a stream ended. */
typedef enum {
    CHAT_END_NONE,
    CHAT_END_FINISHED,
    CHAT_END_FAILED,     /* in-band error or non-2xx */
    CHAT_END_ABORTED,    /* the client left, or the stream says abort */
    CHAT_END_INTERRUPTED /* it ended without a terminal event */
} chat_end_e;

typedef enum {
    CHAT_EVENT_TURN_OPEN,   /* id: of the message or response, or empty */
    CHAT_EVENT_STEP_OPEN,   /* a further step begins (ai_sdk, ag_ui); id: what
                               a chained body will name it by, or empty */
    CHAT_EVENT_CALL_OPEN,   /* slot, id, name, kind */
    CHAT_EVENT_CALL_ARGS,   /* slot, text: the next piece of the arguments */
    CHAT_EVENT_CALL_READY,  /* slot, id (authoritative), name; text: the whole
                               arguments as JSON text, if whole is set, else
                               the pieces so far are the arguments */
    CHAT_EVENT_CALL_ASK,    /* id: this call, opened here or known from before,
                               waits for an approval, or (said by the server
                               itself) has it (ai_sdk only) */
    CHAT_EVENT_CALL_RESULT, /* id, outcome, digest, text: the result in the
                               form that splice() takes as payload */
    CHAT_EVENT_STEP_SEAL,   /* the step is over, no more calls can come */
    CHAT_EVENT_STEP_RESET,  /* the client forgets all of the present step, its
                               calls too (ai_sdk only) */
    CHAT_EVENT_TURN_END,    /* end: as the stream itself says */
    CHAT_EVENT_OPAQUE       /* anything else */
} chat_event_e;

/* The strings are valid until the reader is called again. */
typedef struct {
    chat_event_e   type;
    uint32_t       slot; /* the dialect's number of the call in the stream */
    chat_kind_e    kind;
    chat_outcome_e outcome;
    chat_end_e     end;
    chat_str_t     id;
    chat_str_t     name;
    chat_str_t     text;
    chat_digest_t  digest;
    unsigned       whole : 1;      /* CALL_READY: text is all the arguments */
    unsigned       implied : 1;    /* follows from another frame's content: no
                                   byte of this frame carries it */
    unsigned       unreadable : 1; /* CALL_READY: there are arguments, but not
                                      as far as the reader can follow them:
                                      the call has no fingerprint */
    unsigned       failed : 1; /* CALL_READY: the arguments were invalid and
                                   the call is thereby settled as an error */
} chat_event_t;

/*
 * A list of events. Its failure is sticky: without memory, failed is set and
 * all that is added goes into spare. A reader adds without checks; its caller
 * checks failed once.
 */
typedef struct {
    chat_event_t *items;
    size_t        count;
    size_t        size;
    chat_arena_t *arena; /* of the caller, reset before each frame */
    int           failed;
    chat_event_t  spare; /* what is added without memory */
} chat_events_t;

/* A new zeroed event of this type at the end of the list; never NULL. */
chat_event_t *chat_events_add(chat_events_t *events, chat_event_e type);

/* Returns CHAT_ERROR if the list has failed, else CHAT_OK. */
static inline chat_rc_e
chat_events_rc(const chat_events_t *events)
{
    return events->failed ? CHAT_ERROR : CHAT_OK;
}


/* An event that needs no more than its type. Returns chat_events_rc(). */
chat_rc_e chat_events_put(chat_events_t *events, chat_event_e type);

/*
 * TURN_END, and sets *ended; adds nothing where it is set. Returns
 * chat_events_rc().
 */
chat_rc_e chat_events_end(chat_events_t *events, chat_end_e end, int *ended);

/*
 * SHA-256 of the call's name and its arguments (JSON text) by value: 1.0 and
 * 1, or another order of keys, are the same call. Arguments
 * that do not parse count as bytes; empty ones as {}. CHAT_ERROR: no memory.
 */
chat_rc_e chat_fingerprint(chat_str_t name, chat_str_t args,
                           chat_digest_t *out);

/* Stores keep the first 16 bytes of a fingerprint: these decide. */
static inline int
chat_fingerprint_eq(const chat_digest_t *a, const chat_digest_t *b)
{
    return memcmp(a->bytes, b->bytes, 16) == 0;
}


const char *chat_outcome_name(chat_outcome_e outcome);
const char *chat_end_name(chat_end_e end);

/* The end with this name; NONE: there is none. */
chat_end_e chat_end_find(chat_str_t name);

#endif /* CHAT_EVENT_H */
