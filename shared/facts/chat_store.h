/*
 * chat_store.h: the contract of a store.
 *
 * A store keeps sets of facts under keys; it knows nothing of what they mean.
 * Laws, for every store: a join adds a fact only if it is absent, and never
 * changes one; only drop() and clear() remove facts; the facts of one join
 * become visible together; done() is never called inside the call that
 * queries, nor after cancel(), which is always safe, after done() and twice
 * too; a join that added anything notifies every watch of a worker named in a
 * wait/<worker> fact, or in the last claim; a notification says "look again"
 * and carries no state; it may come without need, and several may come as one.
 */

#ifndef CHAT_STORE_H
#define CHAT_STORE_H

#include "bytes/chat_str.h"
#include "facts/chat_batch.h"

#define CHAT_STORE_READ_MAX (256 * 1024)
#define CHAT_STORE_FACTS 1024 /* of one key, where its user says nothing */
#define CHAT_STORE_FACTS_MAX 32000 /* what its user may say at most */

typedef struct chat_store_s    chat_store_t;
typedef struct chat_store_op_s chat_store_op_t;

/*
 * A query under way. The caller owns it, zeroes it before first use, sets
 * done, data, brief and needs, and may use it again after done() or cancel().
 * facts (and the payloads in them) are valid in done() only, as what done()
 * puts into the arena. rc:
 * CHAT_OK; CHAT_LIMIT: the store has no room for these facts; CHAT_ERROR: the
 * query failed, and the store may have the facts or not.
 */
struct chat_store_op_s {
    void (*done)(chat_store_op_t *op, chat_rc_e rc, const chat_fact_t *facts,
                 size_t n);
    void             *data;
    int               brief; /* join() returns what differs */
    const chat_str_t *needs; /* of join(), fields; used within that call */
    size_t            nneeds;
    chat_store_t     *store; /* the store's: not NULL while under way */
    chat_store_op_t **link;  /* that points to this one in a list */
    chat_store_op_t  *next;
    void             *answer;
    chat_arena_t *arena; /* in done(): has the facts; NULL: there are none */
    chat_rc_e     rc;
};

/* A standing interest in a key; owned and zeroed by the caller likewise. */
typedef struct chat_store_watch_s chat_store_watch_t;

struct chat_store_watch_s {
    void (*notify)(chat_store_watch_t *watch); /* or NULL */
    void                *data;
    chat_key_t           key;
    chat_store_t        *store; /* the store's: not NULL while watching */
    chat_store_watch_t **link;  /* that points to this one in a list */
    chat_store_watch_t  *next;
};

typedef enum {
    CHAT_STORE_UP,
    CHAT_STORE_RECONNECTING, /* lost just now: queries wait a little */
    CHAT_STORE_UNAVAILABLE   /* each query fails at once */
} chat_store_state_e;

struct chat_store_s {
    chat_str_t worker; /* this worker's incarnation: no spaces, no slashes */

    /*
     * Each change to UP and to UNAVAILABLE notifies every watch. Facts joined
     * without an op are kept while it is not up, and put when it is.
     */
    chat_store_state_e state;

    /*
     * The user's: a join with an op fails with CHAT_LIMIT where the key would
     * have more facts, one without where it would have twice as many.
     */
    uint32_t most_facts;

    /*
     * The user's; may be NULL. The store has lost its facts, or if not
     * all, then maybe what came last: facts that must stand are to be joined
     * again. Every watch is notified after it.
     */
    void (*lost)(chat_store_t *store, int all);
    void *data;

    /* A join of this key follows: the store may fetch its memory; or NULL. */
    void (*expect)(chat_store_t *store, const chat_key_t *key);

    /*
     * Puts n facts under key and returns all facts of the key to op, which may
     * be NULL; if that is brief, at least those of the n that have another
     * value, none if all are new. Everything given is copied before the call
     * returns. ttl (seconds) counts from the last join that added anything.
     * op->needs (not if brief, nor with a watch): the last fact is put only if
     * the key has a fact with a payload for each of these fields. If it is
     * put, the answer ends with these, in this order, with their payloads;
     * otherwise, or if the store has lost payloads, op->nneeds is 0 in done().
     * watch (NULL: none) begins, anew if it stands: from this moment on
     * watch->notify() is called when something is added to the key, until
     * unwatch().
     */
    void (*join)(chat_store_t *store, chat_store_op_t *op,
                 const chat_key_t *key, const chat_fact_t *facts, size_t n,
                 uint32_t ttl, chat_store_watch_t *watch);
    void (*unwatch)(chat_store_watch_t *watch);

    /*
     * Returns those of the facts with these fields that have a payload, with
     * the payload.
     */
    void (*payloads)(chat_store_t *store, chat_store_op_t *op,
                     const chat_key_t *key, const chat_str_t *fields,
                     size_t n);

    /*
     * The log of a key, beside its facts: pieces of bytes, numbered from 0,
     * written by one producer, in order: a piece is put if its position is
     * above all that were put. The bytes are copied. op (NULL: none) is under
     * way until the piece is in the store, or lost (not CHAT_OK), if the store
     * may reorder pieces: the producer appends the next one after that. Other
     * stores need not use op.
     * last: it is the end, nothing comes after it. What lies before keep may
     * be forgotten. ttl (seconds) counts from the last append, for the facts
     * too. Notifies as a join that added something. A store without room
     * forgets logs, not facts; one that was away may lose pieces. A key
     * without facts, or with the fact cleared, takes no piece.
     */
    void (*append)(chat_store_t *store, chat_store_op_t *op,
                   const chat_key_t *key, uint64_t position, chat_str_t bytes,
                   int last, uint64_t keep, uint32_t ttl);

    /*
     * Returns the pieces from position on that are there, at least one and
     * then as many as fit into CHAT_STORE_READ_MAX bytes. Each is a fact:
     * field is its position in decimal, value "last" or empty, payload its
     * bytes. Where the first has a greater position, those before it are
     * gone; if none is left behind them, that first one is empty and stands
     * for none.
     */
    void (*read)(chat_store_t *store, chat_store_op_t *op,
                 const chat_key_t *key, uint64_t position);

    /* Takes the facts with these fields away. No op, no watch is notified. */
    void (*drop)(chat_store_t *store, const chat_key_t *key,
                 const chat_str_t *fields, size_t n);

    /* Replaces all facts of the key by the single fact cleared; its log goes
     * too. */
    void (*clear)(chat_store_t *store, const chat_key_t *key, uint32_t ttl);

    void (*cancel)(chat_store_op_t *op);

    /*
     * Sends queued joins. A request that a client makes because of bytes sent
     * after flush() finds those facts. NULL: joins are never queued.
     */
    void (*flush)(chat_store_t *store);

    /*
     * 1 if the worker of this incarnation is alive as far as is known; of the
     * own one: 1 if the others can still take it for alive.
     */
    int (*alive)(chat_store_t *store, chat_str_t worker);

    /*
     * 1 if the part of the store that has this key is unavailable, whatever
     * state says. NULL: the store has no parts.
     */
    int (*lacks)(chat_store_t *store, const chat_key_t *key);
};

/* The same in the form that readers of facts ask in; data is the store. */
static inline int
chat_store_alive(void *data, chat_str_t worker)
{
    chat_store_t *store = data;

    return store->alive(store, worker);
}


/* 1 if queries of this key fail at once. */
static inline int
chat_store_is_unavailable(chat_store_t *store, const chat_key_t *key)
{
    return store->state == CHAT_STORE_UNAVAILABLE
           || (store->lacks != NULL && store->lacks(store, key));
}


#endif /* CHAT_STORE_H */
