/*
 * ngx_chat_reader.h: the recordings that requests of this worker follow.
 *
 * A worker has one reader per recording: one watch, one question to the store
 * at a time, and the chunks that were read, kept until the last follower has
 * left. So the store is asked once per worker, however many requests follow.
 * Promises: a follower gets all bytes from its place on, once and in order, or
 * learns that it does not; wake() is called from the event loop only; leaving
 * is safe at any time.
 */

#ifndef NGX_CHAT_READER_H
#define NGX_CHAT_READER_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "record/ngx_chat_chunks.h"

typedef enum {
    NGX_CHAT_READER_ASKING,   /* awaits the facts; then NONE or RUNNING */
    NGX_CHAT_READER_NONE,     /* nothing is recorded; stays so */
    NGX_CHAT_READER_RUNNING,  /* awaits pieces; then COMPLETE or BROKEN */
    NGX_CHAT_READER_COMPLETE, /* all of it is there */
    NGX_CHAT_READER_BROKEN    /* the rest will not come */
} ngx_chat_reader_state_e;

/* Whose record is followed. */
typedef struct {
    chat_key_t     key;     /* of the record */
    chat_key_t     batch;   /* of the attempt */
    chat_attempt_t attempt; /* k 0: none is known, but its worker is */
    ngx_uint_t     late;    /* the attempt was answered before */
    ngx_uint_t     indexed; /* it is recorded anyway, and says when it ends */
} ngx_chat_source_t;

/* What is followed, and how far it has been read. To be read only. */
typedef struct {
    ngx_str_node_t          node; /* in mcf->readers, by its key */
    ngx_chat_main_conf_t   *main;
    ngx_chat_reader_state_e state;
    chat_end_e              end; /* COMPLETE: how the stream ended */
    ngx_chat_chunks_t       chunks;

    chat_key_t         key;
    chat_key_t         batch;
    chat_attempt_t     attempt;
    uint64_t           serial;
    ngx_queue_t        followers;
    chat_store_watch_t watch;
    chat_store_op_t    op;
    chat_store_op_t    probe; /* of the batch: has the attempt ended? */
    ngx_event_t        timer;
    ngx_uint_t         silent; /* seconds without a piece */
    ngx_msec_t         failed; /* unheard: since when */
    const char        *over;   /* nothing more will come, and why */

    unsigned late : 1; /* the attempt was answered before */
    unsigned indexed : 1;
    unsigned written : 1; /* the producer has said that it is over */
    unsigned live : 1;    /* all that there was has been read once */
    unsigned again : 1;   /* something changed while asking */
    unsigned news : 1;    /* and it was no piece, as far as is known */
    unsigned final : 1;   /* what this question does not find is lost */
    unsigned unheard : 1; /* the store gives errors, not what was recorded */
} ngx_chat_reader_t;

typedef struct ngx_chat_follower_s ngx_chat_follower_t;

/* Owned and zeroed by the follower. */
struct ngx_chat_follower_s {
    void (*wake)(void *data); /* there is more to take, or an end */
    void              *data;
    ngx_chat_reader_t *reader; /* NULL: it follows nothing */
    ngx_queue_t        queue;
    ngx_event_t        event;
    ngx_chat_chunk_t  *at;   /* the last chunk that it has taken */
    uint64_t           next; /* number of the chunk to take next */

    /* where it begins */
    uint64_t     after;       /* the last event that it has; 0: none */
    chat_count_t count;       /* while it looks for the end of that */
    size_t       from;        /* in the chunk to take next */
    chat_str_t   lost;        /* DECLINED: what is to be said of it */
    unsigned     placed : 1;  /* next is known */
    unsigned     seeking : 1; /* the end of after is not there yet */
    unsigned     fresh : 1;   /* it has taken nothing */
};

/*
 * Begins to follow a stream; late: it has been answered already, so what is
 * not recorded soon never will be. NGX_DECLINED: it has gone on for too long
 * to be joined; NGX_ERROR: no memory. A follower of this very stream
 * goes on.
 */
ngx_int_t ngx_chat_reader_join(ngx_chat_ctx_t          *ctx,
                               const ngx_chat_source_t *source,
                               ngx_chat_follower_t     *follower);

/* Safe at any time, and twice. */
void ngx_chat_reader_leave(ngx_chat_follower_t *follower);

/*
 * NGX_OK: there is something to take. NGX_AGAIN: it is not there yet;
 * NGX_DECLINED: it never will be: it is lost, or was given up, the follower is
 * too slow.
 */
ngx_int_t ngx_chat_reader_ready(ngx_chat_follower_t *follower);

/*
 * How the stream has ended for it; NONE where it goes no further here, and
 * *reason is why.
 */
chat_end_e ngx_chat_reader_end(ngx_chat_follower_t *follower,
                               const char         **reason);

/* The next chunk, with a reference for the caller, and where to begin in it;
 * or what ready() says. */
ngx_int_t ngx_chat_reader_take(ngx_chat_follower_t *follower,
                               ngx_chat_chunk_t **chunk, size_t *from);

/* Of a worker: at its start, and when the store has lost what it was told. */
void ngx_chat_reader_init(ngx_chat_main_conf_t *mcf);
void ngx_chat_reader_lost(ngx_chat_main_conf_t *mcf);

#endif /* NGX_CHAT_READER_H */
