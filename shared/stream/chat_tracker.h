/*
 * chat_tracker.h: follows a stream for what the store is to know of it.
 *
 * It takes the events of a stream in their order, each with its final verdict,
 * and makes facts of them: each step's members and its seal, and the results
 * that came with the stream. A call that was dropped leaves no trace. Memory
 * is bounded by what the owner has not taken: the calls are in chat_calls.
 */

#ifndef CHAT_TRACKER_H
#define CHAT_TRACKER_H

#include "bytes/chat_arena.h"
#include "bytes/chat_str.h"
#include "dialect/chat_calls.h"
#include "facts/chat_batch.h"
#include "stream/chat_stream.h"

typedef struct {
    uint32_t        number; /* in the stream, from 1 */
    chat_opening_t *first;  /* the others are behind it in chat_calls */
    uint32_t        ncalls;
    size_t          members;
    chat_str_t      turn;    /* id of the response */
    chat_str_t      chain;   /* what names it, and nothing else does; empty:
                              turn may */
    uint32_t        ordinal; /* among the stream's steps */
    chat_key_t      keys[CHAT_NAMES_MAX]; /* of the chain, then of the call */
    size_t          nkeys;
    unsigned        by_call : 1;   /* the last key is that of the first call */
    unsigned        named : 1;     /* keys are known */
    unsigned        opened : 1;    /* open was written */
    unsigned        sealed : 1;    /* no more calls are of it */
    unsigned        untracked : 1; /* past a bound */
} chat_track_step_t;

/*
 * All zero but for the first three and step.number is the beginning. The
 * tracker keeps info's id, end, reason, calls and settled.
 */
typedef struct {
    const chat_stream_conf_t *conf;
    chat_stream_info_t       *info;
    chat_calls_t             *calls;     /* of the stream */
    chat_arena_t             *put_arena; /* lives as what was put; or NULL;
                                            the owner destroys it */
    chat_stream_facts_t      *puts;      /* oldest first */
    size_t                    nputs;
    size_t                    size;    /* room in puts */
    int                       taken;   /* all puts were */
    chat_facts_t              nowhere; /* failed; takes none */
    chat_track_step_t         step;
    uint32_t                  steps; /* STEP_OPEN so far */
} chat_tracker_t;

/* The next event; event->verdict is FORWARD or DROP. */
void chat_tracker_event(chat_tracker_t *track, const chat_event_t *event);

/* The step has ended without a seal: it is given up, or the stream is over. */
void chat_tracker_break(chat_tracker_t *track);

/* All new facts, as chat_stream_facts(). */
size_t chat_tracker_take(chat_tracker_t             *track,
                         const chat_stream_facts_t **facts);

#endif /* CHAT_TRACKER_H */
