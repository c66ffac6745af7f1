/*
 * chat_event.h: what a dialect's stream means, in a few normalised events.
 *
 * A dialect's reader turns each SSE frame into 0..n events, and marks the
 * bytes of the frame that belong to a call. The replay filter, the tracker
 * and the output know these only. Also here: the fingerprint of a call.
 */

#ifndef CHAT_EVENT_H
#define CHAT_EVENT_H

#include "bytes/chat_str.h"
#include "bytes/chat_arena.h"
#include "bytes/chat_mix.h"
#include "json/chat_json.h"

/* Which side executes a call. */
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

/* 1 if the outcome is final: the call needs no other result. */
static inline int
chat_outcome_is_final(chat_outcome_e outcome)
{
    return outcome != CHAT_OUTCOME_NONE && outcome != CHAT_OUTCOME_PARTIAL;
}


/* Why a stream ended. */
typedef enum {
    CHAT_END_NONE,
    CHAT_END_FINISHED,
    CHAT_END_FAILED,     /* in-band error or non-2xx */
    CHAT_END_ABORTED,    /* the client left, or the stream says abort */
    CHAT_END_INTERRUPTED /* it ended without a terminal event */
} chat_end_e;

/* The replay filter's verdict on an event, or on an opening of a call. */
typedef enum {
    CHAT_REPLAY_FORWARD,
    CHAT_REPLAY_DROP,
    CHAT_REPLAY_WAIT /* until the call's arguments are complete */
} chat_replay_verdict_e;

/* A call of the stream and one opening of it: dialect/chat_calls.h. */
typedef struct chat_stream_call_s chat_stream_call_t;
typedef struct chat_opening_s     chat_opening_t;

typedef enum {
    CHAT_EVENT_TURN_OPEN,   /* id: of the message or response, or empty */
    CHAT_EVENT_STEP_OPEN,   /* a further step begins (ai_sdk, ag_ui); id: what
                               a chained body will name it by, or empty */
    CHAT_EVENT_CALL_OPEN,   /* call, id, name, kind */
    CHAT_EVENT_CALL_ARGS,   /* call, text: the next piece of the arguments */
    CHAT_EVENT_CALL_READY,  /* call, id (authoritative), name; text: the
                               arguments as JSON text; without whole they are
                               the pieces so far, if there are any */
    CHAT_EVENT_CALL_ASK,    /* id: this call, opened here or known from before,
                               waits for an approval, or (said by the server
                               itself) has it (ai_sdk only) */
    CHAT_EVENT_CALL_RESULT, /* id, outcome, digest, text: the result in the
                               form that a body takes as payload */
    CHAT_EVENT_STEP_SEAL,   /* the step is over, no more calls can come */
    CHAT_EVENT_STEP_RESET,  /* the client forgets all of the present step, its
                               calls too (ai_sdk only) */
    CHAT_EVENT_TURN_END,    /* end: as the stream itself says */
    CHAT_EVENT_OPAQUE       /* anything else */
} chat_event_e;

/* The strings are valid until the reader is called again. */
typedef struct {
    chat_event_e          type;
    chat_kind_e           kind;
    chat_outcome_e        outcome;
    chat_end_e            end;
    chat_stream_call_t   *call; /* OPEN, ARGS and READY: never NULL */
    chat_str_t            id;
    chat_str_t            name;
    chat_str_t            text;
    const chat_json_t    *node;    /* ARGS: the string that text is, decoded
                                      or (gemini) not; or NULL */
    chat_hash_t           digest;  /* RESULT: of the outcome; READY: the call's
                                    fingerprint, set by the stream */
    chat_replay_verdict_e verdict; /* set by the replay filter, and */
    chat_opening_t       *opening; /* the opening that a WAIT depends on */
    unsigned              whole : 1;   /* READY: text is all the arguments */
    unsigned              implied : 1; /* follows from another frame's content:
                                        no byte of this frame carries it */
    unsigned              unreadable : 1; /* READY: the reader could not follow
                                           the arguments: no fingerprint */
    unsigned              failed : 1; /* READY: the arguments were invalid and
                                       the call has an error as its result */
    unsigned              has_digest : 1; /* READY: the fingerprint is known */
    unsigned              has_payload : 1; /* RESULT: text is to be stored */
} chat_event_t;

/* Bytes [start, end) of a frame's data; start == end: none. */
typedef struct {
    uint32_t start;
    uint32_t end;
} chat_span_t;

/*
 * Bytes of a frame that go with a call, or that change when calls go, in the
 * order of the data; only looked at where the dialect is numbered.
 */
typedef struct {
    chat_stream_call_t *call;    /* NULL: of no call, always stays */
    chat_opening_t     *opening; /* of the call, set by the stream */
    chat_span_t         at;      /* an element or member; none: all the data */
    chat_span_t         list;    /* which holds nothing but such elements, and
                                    goes with the last of them; none: stays */
    chat_span_t         digits;  /* of the index; none: it has no index */
    uint32_t            index;   /* that the digits say */
    uint32_t            place;   /* the same, counted on over messages */
    const char         *instead; /* text for `at` once every call is dropped */
} chat_mark_t;

/*
 * What one frame says. A failed allocation sets failed and makes all later
 * events and marks go nowhere, so that a reader checks once, at the end.
 */
typedef struct {
    chat_arena_t *arena; /* of the caller, reset before each frame */
    chat_event_t *items;
    size_t        count;
    size_t        size;
    chat_mark_t  *marks;
    size_t        nmarks;
    size_t        marks_size;
    const char   *filler; /* text for an emptied list; NULL: it is cut */
    int           keeps;  /* the frame says more than its calls */
    int           failed;
    chat_event_t  spare;      /* an event, and */
    chat_mark_t   spare_mark; /* a mark that there is no memory for */
} chat_events_t;

void chat_events_init(chat_events_t *events, chat_arena_t *arena);

/* A new zeroed event of this type at the end of the list; never NULL. */
chat_event_t *chat_events_add(chat_events_t *events, chat_event_e type);

/* A new zeroed mark, likewise. */
chat_mark_t *chat_events_mark(chat_events_t *events, chat_stream_call_t *call);

/*
 * Hash of the call's name and its arguments (JSON text) by value: 1.0 and 1,
 * or another order of keys, are the same call. Arguments that do not parse
 * count as bytes; empty ones as {}. Resets the arena. CHAT_ERROR: no memory.
 * The key is the tenant's digest, which can be guessed if the tenant is short.
 * A client that knows it can make texts collide, but confuses only one call
 * with itself: these hashes, and those of results, are compared within a call.
 */
chat_rc_e chat_fingerprint(const chat_digest_t *tenant, chat_str_t name,
                           chat_str_t args, chat_arena_t *arena,
                           chat_hash_t *out);

/*
 * Hash of a result by value, with the same key; NULL: of the JSON text absent.
 * CHAT_ERROR: no memory.
 */
chat_rc_e chat_result_hash(const chat_digest_t *tenant, chat_json_doc_t *doc,
                           const chat_json_t *value, chat_str_t absent,
                           chat_hash_t *out);

extern const char *const chat_outcome_names[];
extern const char *const chat_end_names[];

/* The end with this name; NONE: there is none. */
chat_end_e chat_end_find(chat_str_t name);

#endif /* CHAT_EVENT_H */
