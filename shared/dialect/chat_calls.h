/*
 * chat_calls.h: the calls of one stream, in one table.
 *
 * The dialect's reader opens a call here and finds it again, by its id or by
 * its place; all else that the module knows of the call hangs on it: its
 * openings, which the replay filter judges and the tracker follows, and the
 * pieces of its arguments. Events carry the call: it is looked up once.
 * Ids that the client brought in its request are in the same table.
 *
 * A look-up costs the length of the id. A stream has at most CHAT_OPENED_MAX
 * openings, and keeps at most max_args bytes of arguments.
 */

#ifndef CHAT_CALLS_H
#define CHAT_CALLS_H

#include "bytes/chat_str.h"
#include "bytes/chat_arena.h"
#include "bytes/chat_table.h"
#include "facts/chat_batch.h"
#include "model/chat_event.h"
#include "model/chat_request.h"

#define CHAT_OPENED_MAX 4096

/* What the client has of a call id. */
typedef struct chat_known_s chat_known_t;

struct chat_known_s {
    chat_known_t       *next;    /* in the list of all */
    chat_stream_call_t *call;    /* that the reader opened by this id */
    chat_opening_t     *running; /* in this stream, not ready; or NULL */
    chat_opening_t     *tracked; /* the newest that the tracker knows by it */
    chat_str_t          id;
    chat_str_t          name;    /* of the stream's, or read of brought */
    const chat_call_t  *brought; /* by the request, as its newest; or NULL: */
    chat_hash_t         fingerprint; /* of the stream's */
    chat_outcome_e      outcome;   /* that the client had before the stream */
    chat_outcome_e      in_stream; /* that this stream brought */
    chat_approval_e     approval;
    uint32_t            step; /* of this stream; CHAT_STEP_BEFORE: earlier */
    unsigned            ready : 1;
    unsigned            has_fingerprint : 1;
    unsigned            dropped : 1; /* this stream dropped its input */
};

/* A step that the stream cannot take back. */
#define CHAT_STEP_BEFORE UINT32_MAX

/* One appearance of a call, with the verdict on it. */
struct chat_opening_s {
    chat_opening_t       *later; /* in order of opening */
    chat_known_t         *known; /* NULL: its id is empty or too long */
    chat_str_t            name;  /* empty: not known */
    chat_replay_verdict_e verdict;
    int                   ready;

    /* As the client has it: set by the tracker, when frames have left. */
    uint32_t    step;     /* number of its step; 0: it has not left */
    uint32_t    position; /* in the step */
    chat_str_t  id;       /* empty: not known */
    chat_kind_e kind;
    chat_hash_t fingerprint; /* all zero: not known */
    unsigned    complete : 1;
    unsigned    settled : 1; /* the stream has its result */
};

/* A dialect's own record of a call begins with this one. */
struct chat_stream_call_s {
    chat_stream_call_t *next; /* in the list of all */
    chat_str_t          id;   /* in the table's arena, as is */
    chat_str_t          name;
    chat_kind_e         kind;
    uint32_t            place;       /* its index, counted on over messages;
                                      where there is none its number */
    chat_known_t       *known;       /* of its id; NULL: not looked for yet */
    chat_opening_t     *opening;     /* the newest; NULL: none was judged */
    chat_buf_t          args;        /* pieces since the opening */
    unsigned            ready : 1;   /* the reader has said so */
    unsigned            gathers : 1; /* it was opened: pieces are kept */
    unsigned            lost : 1;    /* pieces past the bound */
};

typedef struct {
    const chat_digest_t *tenant; /* the key of hashes; of the caller */

    chat_arena_t       *arena;  /* of the caller, lives as the stream */
    size_t              size;   /* of a dialect's record */
    chat_table_t        ids;    /* item: the chat_known_t */
    chat_table_t        places; /* item: the call */
    chat_known_t       *known;
    const chat_call_t  *brought;  /* the client's, which are not */
    size_t              nbrought; /* in known yet: few streams ask for any */
    chat_stream_call_t *calls;
    uint32_t            count;  /* of calls */
    uint32_t            opened; /* by the reader, running ones once */
    chat_opening_t     *first;
    chat_opening_t     *last;
    size_t              args; /* bytes kept */
    size_t              max_args;
    uint32_t           *dropped; /* places of dropped calls, ascending */
    size_t              ndropped;
    size_t              dropped_size;
    uint32_t            nleft;  /* openings that have left the module, and */
    uint32_t            nfewer; /* those of them that were dropped */
    int                 failed; /* an allocation did */
} chat_calls_t;

/* size: of the dialect's record of a call. Ended by chat_calls_free(). */
void chat_calls_init(chat_calls_t *calls, chat_arena_t *arena, size_t size);
void chat_calls_free(chat_calls_t *calls);

/* Adds what the client has; the last CHAT_CALLS_MAX. They must outlive it. */
void chat_calls_know(chat_calls_t *calls, const chat_call_t *known, size_t n);

/* What the client has of this id, or NULL; learn() makes it, if it is new. */
chat_known_t *chat_calls_known(chat_calls_t *calls, chat_str_t id);
chat_known_t *chat_calls_learn(chat_calls_t *calls, chat_str_t id);

/* The first of all that it has; NULL: nothing. */
chat_known_t *chat_calls_all_known(chat_calls_t *calls);

/* The call that was opened by this id, or at this place; NULL: none. */
void *chat_calls_find(const chat_calls_t *calls, chat_str_t id);
void *chat_calls_at(const chat_calls_t *calls, uint32_t place);

/*
 * Opens a call, or opens it again, by its id or at its place; ready is
 * cleared. NULL: past a bound, or without memory (then failed is set).
 */
void *chat_calls_open(chat_calls_t *calls, chat_str_t id, chat_str_t name);
void *chat_calls_open_at(chat_calls_t *calls, uint32_t place, chat_str_t id,
                         chat_str_t name);

/* A new opening of the call; NULL without memory. */
chat_opening_t *chat_calls_opening(chat_calls_t       *calls,
                                   chat_stream_call_t *call);

/* The next piece of the arguments, and the end of them. */
void chat_calls_args_add(chat_calls_t *calls, chat_stream_call_t *call,
                         chat_str_t text);
void chat_calls_args_free(chat_calls_t *calls, chat_stream_call_t *call);

/* An event that opened the call has left, or was dropped. */
void chat_calls_left(chat_calls_t *calls, const chat_stream_call_t *call,
                     int dropped);

/* How many dropped calls have a place from base up to, without, place. */
uint32_t chat_calls_below(const chat_calls_t *calls, uint32_t base,
                          uint32_t place);


/*
 * The first opening from this one on that was forwarded, but of which the
 * call has neither become ready nor got a result; NULL: there is none.
 */
static inline const chat_opening_t *
chat_calls_half_open(const chat_opening_t *opening)
{
    while (opening != NULL
           && (opening->ready || opening->known == NULL
               || opening->verdict != CHAT_REPLAY_FORWARD
               || chat_outcome_is_final(opening->known->in_stream)))
    {
        opening = opening->later;
    }

    return opening;
}


/* 1 if calls were opened and all that has left was dropped. */
static inline int
chat_calls_all_dropped(const chat_calls_t *calls)
{
    return calls->nfewer != 0 && calls->nfewer == calls->nleft;
}


#endif /* CHAT_CALLS_H */
