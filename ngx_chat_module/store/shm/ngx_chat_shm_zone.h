/*
 * ngx_chat_shm_zone.h: the shared zone, its memory, and each tenant's part.
 *
 * The zone has the table of workers, the batches of facts, and their logs. It
 * survives a reload. Its functions are called with the zone's mutex held.
 * Where there is no memory, a tenant within its share evicts what is idle,
 * first of the tenant that is furthest above its own share, and in the end
 * what that one's requests wait for. A tenant above its share evicts nothing
 * but its own.
 */

#ifndef NGX_CHAT_SHM_ZONE_H
#define NGX_CHAT_SHM_ZONE_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "base/ngx_chat_share.h"
#include "facts/chat_store.h"

#define NGX_CHAT_SHM_SLOTS 128  /* workers, old generations included */
#define NGX_CHAT_SHM_PENDING 64 /* changed keys of one worker */
#define NGX_CHAT_SHM_SHARE 4    /* a tenant's share is 1/4 of the zone */

typedef struct ngx_chat_shm_batch_s ngx_chat_shm_batch_t;
typedef struct ngx_chat_shm_log_s   ngx_chat_shm_log_t;

/* A worker, see ngx_chat_shm_workers.h. */
typedef struct {
    ngx_pid_t    pid;        /* 0: free */
    ngx_uint_t   generation; /* number of workers that have had this slot */
    ngx_socket_t event;      /* eventfd */
    ngx_uint_t   npending;
    ngx_uint_t   all; /* all keys count as changed: pending is full */
    uint64_t     pending[NGX_CHAT_SHM_PENDING]; /* prefixes of keys */
} ngx_chat_shm_slot_t;

/* A tenant that has batches. */
typedef struct {
    ngx_chat_share_t share; /* first; bytes */
    ngx_queue_t      lru;   /* its batches, the most recently used first */
    ngx_queue_t      logs;  /* likewise */
    ngx_uint_t       batches;
} ngx_chat_shm_tenant_t;

/* What lies in the zone. */
typedef struct {
    ngx_rbtree_t        rbtree; /* batches */
    ngx_rbtree_node_t   sentinel;
    ngx_queue_t         lru;  /* batches, the most recently used first */
    ngx_queue_t         logs; /* likewise */
    ngx_uint_t          log_pages;
    ngx_chat_shares_t   shares; /* tenants */
    time_t              warned; /* when the zone was last logged as full */
    ngx_chat_shm_slot_t slots[NGX_CHAT_SHM_SLOTS];
} ngx_chat_shm_t;

typedef struct ngx_chat_shm_events_s ngx_chat_shm_events_t;

/* The zone in one configuration, and in this worker. */
typedef struct {
    ngx_shm_zone_t        *zone;
    ngx_chat_shm_events_t *events; /* NULL: not made yet */
    ngx_chat_shm_t        *sh;
    ngx_slab_pool_t       *shpool;
    ngx_int_t              slot; /* of this worker; -1: none */
    u_char                 text[64];
    chat_str_t             name; /* of this worker, in text */
    ngx_connection_t      *wake; /* its eventfd */

    /* A key has changed, or all keys. */
    void (*changed)(void *data, uint64_t prefix, ngx_uint_t all);
    void *data;
} ngx_chat_shm_ctx_t;

/* Counts one more batch of the tenant. NULL: no memory. */
ngx_chat_shm_tenant_t *ngx_chat_shm_zone_enter(ngx_chat_shm_ctx_t *ctx,
                                               uint64_t            tenant);

/* One batch less; the last one removes the tenant. */
void ngx_chat_shm_zone_leave(ngx_chat_shm_ctx_t    *ctx,
                             ngx_chat_shm_tenant_t *tenant);

/* size zeroed bytes for the tenant; keep is not evicted. NULL: no memory. */
void *ngx_chat_shm_zone_alloc(ngx_chat_shm_ctx_t         *ctx,
                              ngx_chat_shm_tenant_t      *tenant,
                              const ngx_chat_shm_batch_t *keep, size_t size);
void  ngx_chat_shm_zone_free(ngx_chat_shm_ctx_t    *ctx,
                             ngx_chat_shm_tenant_t *tenant, void *p,
                             size_t size);

/* The tenant has so many bytes more, or less, of its own allocation. */
void ngx_chat_shm_zone_charge(ngx_chat_shm_ctx_t    *ctx,
                              ngx_chat_shm_tenant_t *tenant, size_t bytes);
void ngx_chat_shm_zone_credit(ngx_chat_shm_ctx_t    *ctx,
                              ngx_chat_shm_tenant_t *tenant, size_t bytes);

/*
 * Evicts one batch for size bytes of the tenant (NULL: a new one); logs: or a
 * log, if there is one. 0: there is nothing to evict.
 */
ngx_uint_t ngx_chat_shm_zone_make(ngx_chat_shm_ctx_t         *ctx,
                                  ngx_chat_shm_tenant_t      *tenant,
                                  const ngx_chat_shm_batch_t *keep,
                                  size_t size, ngx_uint_t logs);

/* The same for a page of a log: evicts another log. */
ngx_uint_t ngx_chat_shm_zone_make_log(ngx_chat_shm_ctx_t       *ctx,
                                      ngx_chat_shm_tenant_t    *tenant,
                                      const ngx_chat_shm_log_t *log);

/* Logs at most once a minute that the zone is full. */
void ngx_chat_shm_zone_full(ngx_chat_shm_ctx_t *ctx);

#endif /* NGX_CHAT_SHM_ZONE_H */
