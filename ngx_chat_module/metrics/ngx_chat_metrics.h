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

/* The slot of a worker. */
typedef struct ngx_chat_metrics_slot_s {
    ngx_pid_t           pid; /* 0: free */
    chat_metrics_t      metrics;
    ngx_msec_t          oldest;  /* when the oldest hold began */
    ngx_uint_t          nevents; /* since the slot was first taken */
    ngx_uint_t          ntimed;
    chat_log_event_t    events[CHAT_STATUS_EVENTS];
    chat_log_event_t    timeline[CHAT_STATUS_TIMELINE];
    chat_status_batch_t batches[CHAT_STATUS_BATCHES]; /* of a request each */
} ngx_chat_metrics_slot_t;

typedef struct ngx_chat_metrics_zone_s {
    ngx_uint_t   used;                   /* slots that were ever taken */
    ngx_atomic_t serial;                 /* of entries */
    u_char       name[CHAT_STATUS_NODE]; /* of this node; C string */
    ngx_chat_metrics_slot_t slots[NGX_CHAT_METRICS_SLOTS];
} ngx_chat_metrics_zone_t;

/* The zone in a worker. */
typedef struct ngx_chat_metrics_s {
    ngx_slab_pool_t         *shpool;
    ngx_chat_metrics_zone_t *sh;
    ngx_chat_metrics_slot_t *slot; /* never NULL in a worker */
} ngx_chat_metrics_t;

/* The counts of this worker. */
static inline chat_metrics_t *
ngx_chat_metrics_of(const ngx_chat_worker_t *worker)
{
    return &worker->metrics->slot->metrics;
}


/* In the configuration; NULL: no memory. */
ngx_chat_metrics_t *ngx_chat_metrics_create(ngx_conf_t *cf, void *tag);

/* A worker begins and ends. */
void ngx_chat_metrics_join(ngx_chat_metrics_t *metrics, ngx_log_t *log);
void ngx_chat_metrics_leave(ngx_chat_metrics_t *metrics);

/* Microseconds of a clock that only goes forward. */
uint64_t ngx_chat_metrics_clock(void);

/* The request is over: counts it, by its dialect and verdict. */
void ngx_chat_metrics_request(ngx_chat_ctx_t *ctx);

/* Its response is over. */
void ngx_chat_metrics_turn(ngx_chat_ctx_t *ctx, chat_end_e end);

/* Reports ctx->reason as an event, and logs it unless the request passes. */
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

/* The request waits for this batch: shows it if an entry is free. */
void ngx_chat_metrics_list(ngx_chat_ctx_t *ctx, const chat_batch_t *batch);

/* The request no longer waits, or never did. */
void ngx_chat_metrics_unlist(ngx_chat_ctx_t *ctx);

/*
 * Gives free entries to the oldest requests without one: look() asks the store
 * for the batch of each, and its answer lists the batch.
 */
void ngx_chat_metrics_relist(ngx_chat_worker_t *worker,
                             void (*look)(ngx_chat_ctx_t *ctx));

/* Adds the counts of the node's workers to the zeroed status. */
void ngx_chat_metrics_read(ngx_chat_metrics_t *metrics, chat_status_t *status);

/*
 * Adds the newest CHAT_STATUS_EVENTS events, in memory of the pool; or the
 * newest CHAT_STATUS_TIMELINE of the batch or conversation of like, if not
 * NULL. NGX_ERROR: no memory.
 */
ngx_int_t ngx_chat_metrics_events(ngx_chat_metrics_t     *metrics,
                                  ngx_pool_t             *pool,
                                  const chat_log_event_t *like,
                                  chat_status_t          *status);

/* Adds the newest CHAT_STATUS_BATCHES batches likewise, after the counts. */
ngx_int_t ngx_chat_metrics_batches(ngx_chat_metrics_t *metrics,
                                   ngx_pool_t *pool, chat_status_t *status);

#endif /* NGX_CHAT_METRICS_H */
