/*
 * ngx_chat_shm.h: the shared zone: what lies in it, and waking its workers.
 *
 * The zone holds the table of workers (who lives, how to wake them), the sets
 * of facts, and the logs beside them, see ngx_chat_shm_workers.c, _facts.c and
 * _log.c. Promises: survives a reload; a worker that was killed leaves nothing
 * that others wait for.
 * Must not know: requests, dialects.
 */

#ifndef NGX_CHAT_SHM_H
#define NGX_CHAT_SHM_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "facts/chat_store.h"
#include "base/ngx_chat_share.h"

#define NGX_CHAT_SHM_SLOTS 128  /* workers, old generations included */
#define NGX_CHAT_SHM_PENDING 64 /* keys that one worker is to look at */

/* One worker. Guarded by the zone's mutex. */
typedef struct {
    ngx_pid_t    pid;        /* 0: free */
    ngx_uint_t   generation; /* counts the workers that had this slot */
    ngx_socket_t event;      /* eventfd, made by the master, never closed */
    ngx_uint_t   npending;
    ngx_uint_t   all; /* more than fits: look at everything */
    uint64_t     pending[NGX_CHAT_SHM_PENDING]; /* key prefixes */
} ngx_chat_shm_slot_t;

typedef struct {
    ngx_rbtree_t        rbtree;
    ngx_rbtree_node_t   sentinel;
    ngx_queue_t         lru;  /* the most recently used first */
    ngx_queue_t         logs; /* the same */
    ngx_uint_t          log_pages;
    ngx_chat_shares_t   shares; /* bytes: ngx_chat_shm_tenant_t */
    time_t              warned; /* when the zone was last reported full */
    ngx_chat_shm_slot_t slots[NGX_CHAT_SHM_SLOTS];
} ngx_chat_shm_t;

/*
 * The eventfds of a zone, in each process. Every configuration that has the
 * zone counts; with the last of them they are closed.
 */
typedef struct {
    ngx_uint_t   used;
    ngx_socket_t events[NGX_CHAT_SHM_SLOTS];
} ngx_chat_shm_events_t;

typedef struct {
    ngx_shm_zone_t        *zone;
    ngx_chat_shm_events_t *events; /* NULL: not made yet */
    ngx_chat_shm_t        *sh;
    ngx_slab_pool_t       *shpool;
    ngx_int_t              slot; /* of this worker; -1: none */
    u_char                 worker[64];
    chat_str_t             name; /* of this worker's incarnation */
    ngx_connection_t      *wake;
    /* called in this worker for each key that changed; all: every key */
    void (*changed)(void *data, uint64_t prefix, ngx_uint_t all);
    void *data;
} ngx_chat_shm_ctx_t;

/* Called once in a new zone: makes the eventfds that all workers inherit. */
ngx_int_t ngx_chat_shm_workers_create(ngx_chat_shm_ctx_t *ctx, ngx_log_t *log);

/* The same zone in a further configuration. */
void ngx_chat_shm_workers_share(ngx_chat_shm_ctx_t       *ctx,
                                const ngx_chat_shm_ctx_t *old);

/* A configuration ends: a cleanup handler, data is the context. */
void ngx_chat_shm_workers_close(void *data);

/* In a new worker: takes a slot and listens. NGX_ERROR: there is none. */
ngx_int_t ngx_chat_shm_workers_join(ngx_chat_shm_ctx_t *ctx,
                                    ngx_cycle_t        *cycle);

/* In a worker that exits. */
void ngx_chat_shm_workers_leave(ngx_chat_shm_ctx_t *ctx);

/*
 * With the mutex held: marks the key for the worker of this incarnation.
 * Returns its slot, for ngx_chat_shm_workers_wake() once the mutex is
 * free, or -1 if it is gone.
 */
ngx_int_t ngx_chat_shm_workers_mark(ngx_chat_shm_ctx_t *ctx, chat_str_t worker,
                                    uint64_t prefix);

void ngx_chat_shm_workers_wake(ngx_chat_shm_ctx_t *ctx, ngx_int_t slot);

/* 1 if the worker of this incarnation runs. */
ngx_uint_t ngx_chat_shm_workers_alive(ngx_chat_shm_ctx_t *ctx,
                                      chat_str_t          worker);

#endif /* NGX_CHAT_SHM_H */
