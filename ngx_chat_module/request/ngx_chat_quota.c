/*
 * ngx_chat_quota.c: how many requests wait in this worker, what their bodies
 * take, and how much of both each tenant has.
 *
 * A tenant's share is a quarter of chat_max_held and of chat_max_held_bytes.
 * It may have more while no other tenant needs it. Past a limit, a tenant
 * within its share takes the place of the oldest requests of the tenant that
 * has most, if that is past its own. These end as at their bound.
 * Must not know: the store, why a request waits.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "base/ngx_chat_module.h"
#include "base/ngx_chat_share.h"
#include "request/ngx_chat_request.h"

#define NGX_CHAT_QUOTA_SHARE 4
#define NGX_CHAT_QUOTA_HOLD (12 * 1024) /* bytes, beside the body */

/* A tenant with requests that wait. */
typedef struct {
    ngx_chat_share_t count; /* first */
    ngx_chat_share_t bytes;
    ngx_queue_t      holds; /* contexts, the oldest first */
} ngx_chat_holder_t;

struct ngx_chat_quota_s {
    ngx_chat_shares_t counts;
    ngx_chat_shares_t bytes;
    size_t            count; /* of all tenants */
    size_t            size;
};


ngx_int_t
ngx_chat_quota_init(ngx_chat_main_conf_t *mcf, ngx_cycle_t *cycle)
{
    mcf->quota = ngx_pcalloc(cycle->pool, sizeof(ngx_chat_quota_t));
    if (mcf->quota == NULL) {
        return NGX_ERROR;
    }

    ngx_chat_shares_init(&mcf->quota->counts);
    ngx_chat_shares_init(&mcf->quota->bytes);
    return NGX_OK;
}


static ngx_chat_holder_t *
ngx_chat_quota_holder(ngx_chat_ctx_t *ctx)
{
    return (ngx_chat_holder_t *) ngx_chat_shares_find(
        &ctx->main->quota->counts, ctx->barrier.q.key.tenant);
}


static void
ngx_chat_quota_set(ngx_chat_quota_t *quota, ngx_chat_holder_t *holder,
                   size_t count, size_t bytes)
{
    quota->count += count - holder->count.used;
    quota->size += bytes - holder->bytes.used;
    ngx_chat_shares_set(&quota->counts, &holder->count, count);
    ngx_chat_shares_set(&quota->bytes, &holder->bytes, bytes);
}


void
ngx_chat_quota_enter(ngx_chat_ctx_t *ctx)
{
    ngx_chat_quota_t  *quota = ctx->main->quota;
    ngx_chat_holder_t *holder = ngx_chat_quota_holder(ctx);

    if (holder == NULL) {
        holder = ngx_calloc(sizeof(*holder), ctx->request->connection->log);
        if (holder == NULL) {
            return; /* it waits, and is not counted */
        }

        ngx_queue_init(&holder->holds);
        ngx_chat_shares_insert(&quota->counts, &holder->count,
                               ctx->barrier.q.key.tenant);
        ngx_chat_shares_insert(&quota->bytes, &holder->bytes,
                               ctx->barrier.q.key.tenant);
    }

    ctx->wait.counted = 1;
    ctx->wait.weight = ctx->body.text.len + NGX_CHAT_QUOTA_HOLD;
    ngx_queue_insert_tail(&holder->holds, &ctx->wait.tenant);
    ngx_chat_quota_set(quota, holder, holder->count.used + 1,
                       holder->bytes.used + ctx->wait.weight);
}


void
ngx_chat_quota_leave(ngx_chat_ctx_t *ctx)
{
    ngx_chat_quota_t  *quota = ctx->main->quota;
    ngx_chat_holder_t *holder;

    if (!ctx->wait.counted) {
        return;
    }

    ctx->wait.counted = 0;
    holder = ngx_chat_quota_holder(ctx);
    ngx_queue_remove(&ctx->wait.tenant);
    ngx_chat_quota_set(quota, holder, holder->count.used - 1,
                       holder->bytes.used - ctx->wait.weight);

    if (holder->count.used == 0) {
        ngx_chat_shares_remove(&quota->counts, &holder->count);
        ngx_chat_shares_remove(&quota->bytes, &holder->bytes);
        ngx_free(holder);
    }
}


/* Ends the oldest hold of the holder, soon; it does not count any more. */
static void
ngx_chat_quota_end(ngx_chat_holder_t *holder, chat_reply_e limit)
{
    ngx_chat_ctx_t *ctx;

    ctx = ngx_queue_data(ngx_queue_head(&holder->holds), ngx_chat_ctx_t,
                         wait.tenant);
    ctx->reason = ngx_chat_reply_code(limit);
    ngx_chat_quota_leave(ctx);
    ngx_chat_hold_yield(ctx);
}


/* The largest holder, if it is past the share and not the tenant's own. */
static ngx_chat_share_t *
ngx_chat_quota_largest(ngx_chat_shares_t *shares, uint64_t tenant,
                       size_t share)
{
    ngx_chat_share_t *largest = ngx_chat_shares_largest(shares);

    return largest != NULL && largest->used > share
                   && largest->node.key != (ngx_rbtree_key_t) tenant
               ? largest
               : NULL;
}


/* Room for one more request; 0: there is none. */
static ngx_uint_t
ngx_chat_quota_count(ngx_chat_ctx_t *ctx, size_t limit)
{
    size_t             share = limit / NGX_CHAT_QUOTA_SHARE;
    uint64_t           tenant = ctx->barrier.q.key.tenant;
    ngx_chat_quota_t  *quota = ctx->main->quota;
    ngx_chat_share_t  *largest;
    ngx_chat_holder_t *own = ngx_chat_quota_holder(ctx);

    while (quota->count >= limit) {
        largest = ngx_chat_quota_largest(&quota->counts, tenant, share);

        if (largest == NULL || (own != NULL && own->count.used >= share)) {
            return 0;
        }

        ngx_chat_quota_end((ngx_chat_holder_t *) largest,
                           CHAT_REPLY_HELD_LIMIT);
    }

    return 1;
}


/* Room for the bytes of one more; 0: there is none. */
static ngx_uint_t
ngx_chat_quota_bytes(ngx_chat_ctx_t *ctx, size_t limit)
{
    size_t             share = limit / NGX_CHAT_QUOTA_SHARE;
    size_t             used, weight = ctx->body.text.len + NGX_CHAT_QUOTA_HOLD;
    uint64_t           tenant = ctx->barrier.q.key.tenant;
    ngx_chat_quota_t  *quota = ctx->main->quota;
    ngx_chat_share_t  *largest;
    ngx_chat_holder_t *own = ngx_chat_quota_holder(ctx);

    used = own != NULL ? own->bytes.used : 0;

    while (quota->size + weight > limit) {
        largest = ngx_chat_quota_largest(&quota->bytes, tenant, share);

        if (largest == NULL || used + weight > share) {
            return 0;
        }

        ngx_chat_quota_end(
            (ngx_chat_holder_t *) ((u_char *) largest
                                   - offsetof(ngx_chat_holder_t, bytes)),
            CHAT_REPLY_HELD_BYTES_LIMIT);
    }

    return 1;
}


ngx_uint_t
ngx_chat_quota_limit(ngx_chat_ctx_t *ctx, chat_reply_e *limit)
{
    *limit = CHAT_REPLY_HELD_LIMIT;

    if (!ngx_chat_quota_count(ctx, (size_t) ctx->conf->max_held)) {
        return 1;
    }

    *limit = CHAT_REPLY_HELD_BYTES_LIMIT;
    return !ngx_chat_quota_bytes(ctx, ctx->conf->max_held_bytes);
}
