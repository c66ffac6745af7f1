/*
 * chat_filter_table.h: what the replay filter remembers of a stream.
 *
 * Two tables. A "seen" is a call id with what the client has of it: filled
 * from the client's own history, then overwritten by what the stream itself
 * forwards. An "opening" is one appearance of a call in this stream, with its
 * latched verdict; a slot may have several, one after the other.
 * Promises: memory is bounded by CHAT_KNOWN_MAX and CHAT_OPENINGS_MAX; a look
 * into either table depends on neither the history nor the stream.
 * Must not know: when a call is dropped.
 */

#ifndef CHAT_FILTER_TABLE_H
#define CHAT_FILTER_TABLE_H

#include "bytes/chat_str.h"
#include "bytes/chat_arena.h"
#include "model/chat_event.h"
#include "stream/chat_filter.h"
#include "model/chat_request.h"
#include "bytes/chat_table.h"

#define CHAT_KNOWN_MAX CHAT_CALLS_MAX /* the newest ones */
#define CHAT_OPENINGS_MAX 4096
#define CHAT_SLOT_BUCKETS 256

typedef struct chat_seen_s    chat_seen_t;
typedef struct chat_opening_s chat_opening_t;

struct chat_seen_s {
    chat_seen_t    *next;    /* in the list of all */
    chat_opening_t *opening; /* under way in this stream, or NULL */
    chat_str_t      id;
    chat_str_t      name;
    chat_digest_t   fingerprint;
    chat_digest_t   digest;    /* of the outcome */
    chat_outcome_e  outcome;   /* that the client had before this stream */
    chat_outcome_e  in_stream; /* that this stream brought */
    chat_approval_e approval;
    uint32_t        step; /* of this stream that it is in; see below */
    unsigned        ready : 1;
    unsigned        has_fingerprint : 1;
    unsigned        dropped : 1; /* this stream dropped its input */
};

/* In no step that this stream can take back. */
#define CHAT_SEEN_BEFORE UINT32_MAX

struct chat_opening_s {
    chat_opening_t *older; /* in its bucket, newest first */
    chat_opening_t *later; /* in order of opening */
    chat_seen_t    *seen;  /* NULL: without an id that is kept */
    chat_str_t      name;  /* empty: not known */
    uint32_t        slot;
    uint32_t        generation;
    chat_verdict_e  verdict;
    int             ready;
};

typedef struct {
    chat_arena_t   *arena;
    chat_table_t    ids;  /* item: the seen of this id */
    chat_seen_t    *seen; /* all of them */
    chat_opening_t *slots[CHAT_SLOT_BUCKETS];
    chat_opening_t *first;
    chat_opening_t *last;
    size_t          nopenings;
    uint32_t        step;  /* of the stream; 0: the client's last goes on */
    int             fresh; /* nothing was opened or learned since forget() */
} chat_filter_table_t;

/*
 * Fills the table from the client's own calls, of which it takes the last
 * CHAT_KNOWN_MAX; they must outlive it.
 */
chat_rc_e chat_filter_table_init(chat_filter_table_t *table,
                                 chat_arena_t *arena, const chat_call_t *known,
                                 size_t n);

/* The entry of this id, or NULL. */
chat_seen_t *chat_filter_table_find(const chat_filter_table_t *table,
                                    chat_str_t                 id);

/*
 * The same, made if it is new. NULL for an empty id, for one that is too long
 * to keep, when the table is full, and without memory.
 */
chat_seen_t *chat_filter_table_seen(chat_filter_table_t *table, chat_str_t id);

/* The slot's newest opening, or NULL. */
chat_opening_t *chat_filter_table_opening(const chat_filter_table_t *table,
                                          uint32_t                   slot);

/* The slot's opening of this generation, or the nearest newer one. */
const chat_opening_t *
chat_filter_table_generation(const chat_filter_table_t *table, uint32_t slot,
                             uint32_t generation);

/*
 * A record for a new appearance of a call. When the table is full the slot's
 * newest one is used again, so that nothing of the new call meets the old
 * verdict; NULL if there is none.
 */
chat_opening_t *chat_filter_table_record(chat_filter_table_t *table,
                                         uint32_t             slot);

/* The client has forgotten the calls of the present step: so do we. */
void chat_filter_table_forget(chat_filter_table_t *table);

/* 1 if no more openings are kept. */
static inline int
chat_filter_table_full(const chat_filter_table_t *table)
{
    return table->nopenings >= CHAT_OPENINGS_MAX;
}


#endif /* CHAT_FILTER_TABLE_H */
