/*
 * ngx_chat_metrics.h: the counters and the current state of a node's workers.
 *
 * They are in a zone of their own, with a slot for each worker. A worker
 * writes its slot without a lock; chat_status reads all of them. Counters stay
 * with the slot when its worker ends; current state (holds, batches,
 * recordings) ends with the worker. No call fails or waits. A reader skips
 * half-written entries.
 */

#ifndef NGX_CHAT_METRICS_H
#define NGX_CHAT_METRICS_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "base/ngx_chat_ctx.h"
#include "policy/chat_external.h"
#include "report/chat_status.h"

#define NGX_CHAT_METRICS_SLOTS 128 /* workers, old generations included */

/* While seq is odd, the worker writes the entry. */
typedef struct {
    ngx_atomic_uint_t   seq;
    chat_status_batch_t batch; /* held 0: the entry is free */
} ngx_chat_metrics_batch_t;

typedef struct {
    ngx_atomic_uint_t seq;
    chat_log_event_t  event; /* n 0: none yet */
} ngx_chat_metrics_event_t;

/* The slot of a worker. */
typedef struct ngx_chat_metrics_slot_s {
    chat_metrics_t           metrics;
    ngx_msec_t               oldest;  /* when the oldest hold began */
    ngx_uint_t               nevents; /* since the slot was first taken */
    ngx_uint_t               ntimed;
    ngx_chat_metrics_event_t events[CHAT_STATUS_EVENTS];
    ngx_chat_metrics_event_t timeline[CHAT_STATUS_TIMELINE];
    ngx_chat_metrics_batch_t batches[CHAT_STATUS_BATCHES];
} ngx_chat_metrics_slot_t;

typedef struct ngx_chat_metrics_zone_s {
    ngx_pid_t               pids[NGX_CHAT_METRICS_SLOTS]; /* 0: free */
    ngx_uint_t              used;   /* slots that were ever taken */
    ngx_atomic_t            serial; /* of events */
    size_t                  name_len;
    u_char                  name[CHAT_STATUS_NODE]; /* of this node */
    ngx_chat_metrics_slot_t slots[NGX_CHAT_METRICS_SLOTS];
} ngx_chat_metrics_zone_t;

/* The zone in a worker. */
typedef struct ngx_chat_metrics_s {
    ngx_slab_pool_t         *shpool;
    ngx_chat_metrics_zone_t *sh;
    ngx_int_t                number; /* of its slot; -1: it has none */
    ngx_chat_metrics_slot_t *slot;   /* never NULL in a worker */
} ngx_chat_metrics_t;

/* In the configuration; NULL: no memory. */
ngx_chat_metrics_t *ngx_chat_metrics_create(ngx_conf_t *cf, void *tag);

/* A worker begins and ends. */
void ngx_chat_metrics_join(ngx_chat_metrics_t *metrics, ngx_log_t *log);
void ngx_chat_metrics_leave(ngx_chat_metrics_t *metrics);

/* Microseconds of a clock that only goes forward. */
uint64_t ngx_chat_metrics_clock(void);

void ngx_chat_metrics_count(ngx_chat_worker_t *worker, chat_count_e what,
                            uint64_t n);

/* Counts an interrupted answer; reason: as for chat_metrics_break(). */
void ngx_chat_metrics_break(ngx_chat_worker_t *worker, const char *reason);

/*
 * Adds to the numbers of recorded streams, of their bytes, and of requests
 * that follow one; subtracts if negative.
 */
void ngx_chat_metrics_record(ngx_chat_worker_t *worker, ngx_int_t streams,
                             ngx_int_t bytes, ngx_int_t followers);

/* The request is over: counts it, by its dialect and verdict. */
void ngx_chat_metrics_request(ngx_chat_ctx_t *ctx);

/* Its response is over. */
void ngx_chat_metrics_turn(ngx_chat_ctx_t *ctx, chat_end_e end);

/*
 * Reports ctx->reason as an event; in the log too, unless the request just
 * passes.
 */
void ngx_chat_metrics_verdict(ngx_chat_ctx_t *ctx);

/* External results have come for the batch in ctx->barrier.q. */
void ngx_chat_metrics_external(ngx_chat_ctx_t             *ctx,
                               const chat_external_item_t *items, size_t n);

/* The store has replied to the request. */
void ngx_chat_metrics_asked(ngx_chat_ctx_t *ctx);

/* n results were put into its body. */
void ngx_chat_metrics_merged(ngx_chat_ctx_t *ctx, size_t n);

/* It begins, and ends, to wait among the holds. */
void ngx_chat_metrics_held(ngx_chat_ctx_t *ctx);
void ngx_chat_metrics_unheld(ngx_chat_ctx_t *ctx);

/* The request waits for this batch: gives it an entry if one is free. */
void ngx_chat_metrics_list(ngx_chat_ctx_t *ctx, const chat_batch_t *batch);

/* The request no longer waits, or never did. */
void ngx_chat_metrics_unlist(ngx_chat_ctx_t *ctx);

/*
 * Gives free entries to the oldest requests without one: look() asks the store
 * for the batch of each, and its answer lists the batch.
 */
void ngx_chat_metrics_relist(ngx_chat_worker_t *worker,
                             void (*look)(ngx_chat_ctx_t *ctx));

/*
 * Adds the counts of the node's workers to the zeroed status; tables: and the
 * newest CHAT_STATUS_BATCHES batches and CHAT_STATUS_EVENTS events, in memory
 * of the pool. NGX_ERROR: no memory.
 */
ngx_int_t ngx_chat_metrics_read(ngx_chat_metrics_t *metrics, ngx_pool_t *pool,
                                ngx_uint_t tables, chat_status_t *status);

/* The waiting requests of the node. */
uint64_t ngx_chat_metrics_holds(ngx_chat_metrics_t *metrics);

/* Which events a timeline has: those of a batch, or of a conversation. */
typedef struct {
    ngx_uint_t    by_batch;
    unsigned char batch[8];
    chat_short_t  conversation;
    uint32_t      hash;
} ngx_chat_metrics_wanted_t;

/*
 * Sets status->events to the newest CHAT_STATUS_TIMELINE of them in this node,
 * in memory of the pool. NGX_ERROR: no memory.
 */
ngx_int_t ngx_chat_metrics_timeline(ngx_chat_metrics_t              *metrics,
                                    ngx_pool_t                      *pool,
                                    const ngx_chat_metrics_wanted_t *wanted,
                                    chat_status_t                   *status);

#endif /* NGX_CHAT_METRICS_H */
