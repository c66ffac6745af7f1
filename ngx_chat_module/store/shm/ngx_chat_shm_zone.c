/*
 * ngx_chat_shm_zone.c: see ngx_chat_shm_zone.h.
 *
 * A tenant is charged for what the slab takes for its blocks: a power of two,
 * or whole pages.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/shm/ngx_chat_shm_facts.h"
#include "store/shm/ngx_chat_shm_zone.h"


/* The bytes that the slab uses for a block of this size. */
static size_t
slab_cost(size_t size)
{
    size_t cost = 8;

    if (size > ngx_pagesize / 2) {
        return ngx_align(size, ngx_pagesize);
    }

    while (cost < size) {
        cost *= 2;
    }

    return cost;
}


void
ngx_chat_shm_zone_charge(ngx_chat_shm_ctx_t    *ctx,
                         ngx_chat_shm_tenant_t *tenant, size_t bytes)
{
    ngx_chat_shares_set(&ctx->sh->shares, &tenant->share,
                        tenant->share.used + bytes);
}


void
ngx_chat_shm_zone_credit(ngx_chat_shm_ctx_t    *ctx,
                         ngx_chat_shm_tenant_t *tenant, size_t bytes)
{
    ngx_chat_shares_set(&ctx->sh->shares, &tenant->share,
                        tenant->share.used
                            - ngx_min(tenant->share.used, bytes));
}


void
ngx_chat_shm_zone_full(ngx_chat_shm_ctx_t *ctx)
{
    if (ngx_time() - ctx->sh->warned < 60) {
        return;
    }

    ctx->sh->warned = ngx_time();
    ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                  "chat: the zone \"%V\" is full, or a tenant is past its "
                  "share of it: requests that need room are refused; give "
                  "\"chat_store\" a larger zone",
                  &ctx->zone->shm.name);
}


/* The tenant that has the most, if that is more than a share; or NULL. */
static ngx_chat_shm_tenant_t *
largest_tenant(ngx_chat_shm_ctx_t *ctx, const ngx_chat_shm_tenant_t *tenant,
               size_t share)
{
    ngx_chat_share_t *largest = ngx_chat_shares_largest(&ctx->sh->shares);

    return largest != NULL && largest->used > share
                   && (tenant == NULL || largest != &tenant->share)
               ? (ngx_chat_shm_tenant_t *) largest
               : NULL;
}


ngx_uint_t
ngx_chat_shm_zone_make(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_tenant_t *tenant,
                       const ngx_chat_shm_batch_t *keep, size_t size,
                       ngx_uint_t logs)
{
    size_t                 share = ctx->zone->shm.size / NGX_CHAT_SHM_SHARE;
    ngx_chat_shm_tenant_t *greedy;

    if (tenant != NULL && tenant->share.used + size > share) {
        return (logs && ngx_chat_shm_log_evict(ctx, tenant, NULL))
               || ngx_chat_shm_facts_evict(ctx, tenant, keep, 0);
    }

    greedy = largest_tenant(ctx, tenant, share);

    return (greedy != NULL
            && ((logs && ngx_chat_shm_log_evict(ctx, greedy, NULL))
                || ngx_chat_shm_facts_evict(ctx, greedy, keep, 0)))
           || (logs && ngx_chat_shm_log_evict(ctx, NULL, NULL))
           || ngx_chat_shm_facts_evict(ctx, NULL, keep, 0)
           || (greedy != NULL
               && ngx_chat_shm_facts_evict(ctx, greedy, keep, 1));
}


ngx_uint_t
ngx_chat_shm_zone_make_log(ngx_chat_shm_ctx_t       *ctx,
                           ngx_chat_shm_tenant_t    *tenant,
                           const ngx_chat_shm_log_t *log)
{
    size_t                 share = ctx->zone->shm.size / NGX_CHAT_SHM_SHARE;
    ngx_chat_shm_tenant_t *greedy;

    if (tenant->share.used + ngx_pagesize > share) {
        return ngx_chat_shm_log_evict(ctx, tenant, log);
    }

    greedy = largest_tenant(ctx, tenant, share);

    return (greedy != NULL && ngx_chat_shm_log_evict(ctx, greedy, log))
           || ngx_chat_shm_log_evict(ctx, NULL, log);
}


/* Allocates size zeroed bytes, and evicts where it must. */
static void *
slab_alloc(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_tenant_t *tenant,
           const ngx_chat_shm_batch_t *keep, size_t size)
{
    void *p;

    do {
        p = ngx_slab_calloc_locked(ctx->shpool, size);
    } while (p == NULL && ngx_chat_shm_zone_make(ctx, tenant, keep, size, 1));

    if (p == NULL) {
        ngx_chat_shm_zone_full(ctx);
    }

    return p;
}


void *
ngx_chat_shm_zone_alloc(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_tenant_t *tenant,
                        const ngx_chat_shm_batch_t *keep, size_t size)
{
    void *p = slab_alloc(ctx, tenant, keep, size);

    if (p != NULL) {
        ngx_chat_shm_zone_charge(ctx, tenant, slab_cost(size));
    }

    return p;
}


void
ngx_chat_shm_zone_free(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_tenant_t *tenant,
                       void *p, size_t size)
{
    ngx_slab_free_locked(ctx->shpool, p);
    ngx_chat_shm_zone_credit(ctx, tenant, slab_cost(size));
}


ngx_chat_shm_tenant_t *
ngx_chat_shm_zone_enter(ngx_chat_shm_ctx_t *ctx, uint64_t id)
{
    ngx_chat_shm_tenant_t *tenant;

    tenant =
        (ngx_chat_shm_tenant_t *) ngx_chat_shares_find(&ctx->sh->shares, id);

    if (tenant == NULL) {
        tenant = slab_alloc(ctx, NULL, NULL, sizeof(*tenant));
        if (tenant == NULL) {
            return NULL;
        }

        ngx_queue_init(&tenant->lru);
        ngx_queue_init(&tenant->logs);
        ngx_chat_shares_insert(&ctx->sh->shares, &tenant->share, id);
    }

    tenant->batches++;
    return tenant;
}


void
ngx_chat_shm_zone_leave(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_tenant_t *tenant)
{
    if (--tenant->batches == 0) {
        ngx_chat_shares_remove(&ctx->sh->shares, &tenant->share);
        ngx_slab_free_locked(ctx->shpool, tenant);
    }
}
