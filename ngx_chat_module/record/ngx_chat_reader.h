/*
 * ngx_chat_reader.h: the recordings that requests of this worker follow.
 *
 * A worker has one reader per recording: one watch, one query of the store
 * at a time, and the chunks that were read, kept until the last follower has
 * left. So the store is asked once per worker, however many requests follow.
 * Promises: a follower gets all bytes from its place on, once and in order, or
 * learns that it does not; leaving is safe at any time.
 */

#ifndef NGX_CHAT_READER_H
#define NGX_CHAT_READER_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "record/ngx_chat_chunks.h"

typedef enum {
    NGX_CHAT_READER_ASKING,  /* awaits the head; then NONE or RUNNING */
    NGX_CHAT_READER_RUNNING, /* awaits entries */
    /* final: */
    NGX_CHAT_READER_NONE,     /* nothing is recorded */
    NGX_CHAT_READER_COMPLETE, /* all of it is there */
    NGX_CHAT_READER_BROKEN    /* the rest will not come */
} ngx_chat_reader_state_e;

/* The recording to follow. */
typedef struct {
    chat_key_t key;
    chat_str_t worker; /* that writes it */
    ngx_uint_t ended;  /* the answer had ended when the request came */
} ngx_chat_source_t;

/* To be read only. */
typedef struct {
    ngx_str_node_t          node; /* in worker->readers, by its key */
    ngx_chat_worker_t      *worker;
    ngx_chat_reader_state_e state;
    chat_end_e              end; /* COMPLETE: how the stream ended */
    const char *over; /* why nothing more will come; or NULL, also if NONE */
    ngx_chat_chunks_t chunks;

    ngx_chat_source_t  source;
    uint64_t           serial; /* of the fact that this worker follows */
    ngx_queue_t        followers;
    chat_store_watch_t watch;
    chat_store_op_t    op;
    ngx_event_t        timer;
    ngx_uint_t         silent; /* ticks without the head or an entry */
    ngx_uint_t         errors; /* of the store, since its last reply */

    unsigned is_live : 1;    /* all entries that there were have been read */
    unsigned is_written : 1; /* the producer has said that it is over */
    unsigned again : 1;      /* notified while asking */
    unsigned dirty : 1;      /* the facts may have changed */
    unsigned has_failed : 1; /* NONE: the store has failed */
} ngx_chat_reader_t;

/* Owned and zeroed by the follower, which sets the event. */
typedef struct {
    ngx_chat_reader_t *reader; /* NULL: it follows nothing */
    ngx_queue_t        queue;
    ngx_event_t        event; /* posted: there is more to take, or an end */
    ngx_chat_cursor_t  cursor;
} ngx_chat_follower_t;

/*
 * Begins to follow behind the event after (0: from the first one). A follower
 * of this very recording goes on. NGX_ERROR: no memory.
 */
ngx_int_t ngx_chat_reader_join(ngx_chat_ctx_t          *ctx,
                               const ngx_chat_source_t *source,
                               ngx_chat_follower_t *follower, uint64_t after);

/* Safe at any time, and twice. */
void ngx_chat_reader_leave(ngx_chat_follower_t *follower);

/* 1 while more may be known later. */
#define ngx_chat_reader_is_open(reader) \
    ((reader)->state <= NGX_CHAT_READER_RUNNING)

#endif /* NGX_CHAT_READER_H */
