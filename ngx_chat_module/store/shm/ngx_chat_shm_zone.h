/*
 * ngx_chat_shm_zone.h: room in the zone, and which tenant has how much of it.
 *
 * All functions are called with the zone's mutex held. Promises: where there
 * is no room, a tenant within its share displaces what is idle, first of the
 * tenant that is furthest past its own share, and in the end what that one's
 * requests wait for; a tenant past its share displaces nothing but its own.
 * Must not know: what facts mean, requests.
 */

#ifndef NGX_CHAT_SHM_ZONE_H
#define NGX_CHAT_SHM_ZONE_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/shm/ngx_chat_shm.h"

#define NGX_CHAT_SHM_SHARE 4 /* a tenant's share is this part of the zone */

typedef struct ngx_chat_shm_batch_s ngx_chat_shm_batch_t;
typedef struct ngx_chat_shm_log_s   ngx_chat_shm_log_t;

/* A tenant that has batches. */
typedef struct {
    ngx_chat_share_t share; /* first; bytes */
    ngx_queue_t      lru;   /* its batches, the most recently used first */
    ngx_queue_t      logs;  /* the same */
    ngx_uint_t       batches;
} ngx_chat_shm_tenant_t;

/* Counts one more batch of the tenant. NULL: no memory. */
ngx_chat_shm_tenant_t *ngx_chat_shm_zone_enter(ngx_chat_shm_ctx_t *ctx,
                                               uint64_t            tenant);

/* One batch less; the tenant ends with the last. */
void ngx_chat_shm_zone_leave(ngx_chat_shm_ctx_t    *ctx,
                             ngx_chat_shm_tenant_t *tenant);

/* size bytes for the tenant, zeroed; keep is not displaced. NULL: none. */
void *ngx_chat_shm_zone_alloc(ngx_chat_shm_ctx_t         *ctx,
                              ngx_chat_shm_tenant_t      *tenant,
                              const ngx_chat_shm_batch_t *keep, size_t size);
void  ngx_chat_shm_zone_free(ngx_chat_shm_ctx_t    *ctx,
                             ngx_chat_shm_tenant_t *tenant, void *p,
                             size_t size);

/* Bytes that the tenant has got, or given back, otherwise. */
void ngx_chat_shm_zone_charge(ngx_chat_shm_ctx_t    *ctx,
                              ngx_chat_shm_tenant_t *tenant, size_t bytes);
void ngx_chat_shm_zone_credit(ngx_chat_shm_ctx_t    *ctx,
                              ngx_chat_shm_tenant_t *tenant, size_t bytes);

/*
 * Displaces one batch for the tenant (NULL: a new one), which wants so many
 * bytes; logs: a log, where there is one. 0: there is nothing to displace.
 */
ngx_uint_t ngx_chat_shm_zone_make(ngx_chat_shm_ctx_t         *ctx,
                                  ngx_chat_shm_tenant_t      *tenant,
                                  const ngx_chat_shm_batch_t *keep,
                                  size_t size, ngx_uint_t logs);

/* The same for a page of a log: displaces another log. */
ngx_uint_t ngx_chat_shm_zone_make_log(ngx_chat_shm_ctx_t       *ctx,
                                      ngx_chat_shm_tenant_t    *tenant,
                                      const ngx_chat_shm_log_t *log);

/* Says at most once a minute that there is no room. */
void ngx_chat_shm_zone_full(ngx_chat_shm_ctx_t *ctx);

#endif /* NGX_CHAT_SHM_ZONE_H */
