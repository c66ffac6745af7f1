/*
 * ngx_chat_metrics.h: what the workers of a node count, and what they are at.
 *
 * A zone of its own, whatever the store: a slot per worker, which that worker
 * alone writes, without a lock, and chat_status reads. Counters belong to the
 * slot, so that they stay when the worker ends or is killed; what is so now
 * (holds, batches, recordings) ends with it. No call here fails or waits. A
 * reader survives half-written entries.
 */

#ifndef NGX_CHAT_METRICS_H
#define NGX_CHAT_METRICS_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "base/ngx_chat_module.h"
#include "report/chat_status.h"

#define NGX_CHAT_METRICS_SLOTS 128 /* workers, old generations included */

/* An entry is being written while seq is odd. */
typedef struct {
    ngx_atomic_uint_t seq;
    ngx_uint_t        used;
    chat_held_t       batch;
} ngx_chat_metrics_batch_t;

typedef struct {
    ngx_atomic_uint_t seq;
    chat_log_event_t  event; /* n 0: none yet */
} ngx_chat_metrics_event_t;

/* What one worker writes. */
typedef struct ngx_chat_metrics_slot_s {
    chat_metrics_t           metrics;
    ngx_msec_t               oldest;  /* when the oldest hold began */
    ngx_uint_t               nevents; /* all that there were */
    ngx_chat_metrics_event_t events[CHAT_STATUS_EVENTS];
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

/* What a worker has of it. */
typedef struct ngx_chat_metrics_s {
    ngx_shm_zone_t          *zone;
    ngx_slab_pool_t         *shpool;
    ngx_chat_metrics_zone_t *sh;
    ngx_int_t                number;     /* of its slot; -1: it has none */
    ngx_chat_metrics_slot_t *slot;       /* never NULL in a worker */
    uint64_t names[CHAT_STATUS_BATCHES]; /* of the entries; 0: free */
} ngx_chat_metrics_t;

/* In the configuration; NULL: no memory. */
ngx_chat_metrics_t *ngx_chat_metrics_create(ngx_conf_t *cf, void *tag);

/* A worker begins and ends. */
void ngx_chat_metrics_join(ngx_chat_metrics_t *metrics, ngx_log_t *log);
void ngx_chat_metrics_leave(ngx_chat_metrics_t *metrics);

/* Microseconds of a clock that only goes forward. */
uint64_t ngx_chat_metrics_clock(void);

/* 1 if this slot's worker runs. */
ngx_uint_t ngx_chat_metrics_runs(ngx_chat_metrics_t *metrics, ngx_uint_t slot);

void ngx_chat_metrics_count(ngx_chat_main_conf_t *mcf, chat_count_e what,
                            uint64_t n);
void ngx_chat_metrics_cut(ngx_chat_main_conf_t *mcf, const char *reason);

/* What took from start, of ngx_chat_metrics_clock(), until now. */
void ngx_chat_metrics_time(ngx_chat_main_conf_t *mcf, chat_timing_e what,
                           uint64_t start);

/*
 * Streams that are recorded from now on (below 0: not any more), bytes of
 * them, and requests that follow one: what is added to each number.
 */
void ngx_chat_metrics_record(ngx_chat_main_conf_t *mcf, ngx_int_t streams,
                             ngx_int_t bytes, ngx_int_t followers);

/* The request is over: counts it once, by its dialect and verdict. */
void ngx_chat_metrics_request(ngx_chat_ctx_t *ctx);

/* Its response is over. */
void ngx_chat_metrics_turn(ngx_chat_ctx_t *ctx, chat_end_e end);

/* The verdict that has just been given as an event, if it is worth one. */
void ngx_chat_metrics_verdict(ngx_chat_ctx_t *ctx);

/* An event; detail as of ngx_sprintf(), own words and numbers only. */
void ngx_chat_metrics_event(ngx_chat_ctx_t *ctx, chat_what_e what,
                            const char *detail, ...);

/* What it asked of the store was answered just now. */
void ngx_chat_metrics_asked(ngx_chat_ctx_t *ctx);

/* Results were put into its body. */
void ngx_chat_metrics_merged(ngx_chat_ctx_t *ctx, size_t n);

/* It has begun to wait, among the holds; it is no longer among them. */
void ngx_chat_metrics_held(ngx_chat_ctx_t *ctx);
void ngx_chat_metrics_unheld(ngx_chat_ctx_t *ctx);

/* The request waits for this batch, which gets an entry if one is free. */
void ngx_chat_metrics_list(ngx_chat_ctx_t *ctx, const chat_batch_t *batch);

/* It does not wait any more, or never did. */
void ngx_chat_metrics_unlist(ngx_chat_ctx_t *ctx);

/*
 * Entries that are free go to requests that found none: the oldest of these
 * ask the store for their batches, and list what they find.
 */
void ngx_chat_metrics_relist(ngx_chat_main_conf_t *mcf);

/*
 * Reads the tables of the node's workers: the newest CHAT_STATUS_BATCHES
 * batches and CHAT_STATUS_EVENTS events, in memory of the pool. Returns
 * NGX_ERROR without memory.
 */
ngx_int_t ngx_chat_metrics_tables(ngx_chat_metrics_t *metrics,
                                  ngx_pool_t *pool, chat_status_t *status);

#endif /* NGX_CHAT_METRICS_H */
