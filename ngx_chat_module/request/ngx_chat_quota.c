/*
 * ngx_chat_quota.c: limits the number of waiting requests of this worker and
 * the size of their bodies, in total and for each tenant.
 *
 * A tenant's share is a quarter of both limits (held=, held_bytes=).
 * It may have more while no other tenant needs it. At a limit, a tenant within
 * its share displaces the oldest requests of the tenant that has the most, if
 * that exceeds its own share. These end as at their bound.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

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
ngx_chat_quota_init(ngx_chat_worker_t *worker, ngx_cycle_t *cycle)
{
    worker->quota = ngx_pcalloc(cycle->pool, sizeof(ngx_chat_quota_t));
    if (worker->quota == NULL) {
        return NGX_ERROR;
    }

    ngx_chat_shares_init(&worker->quota->counts);
    ngx_chat_shares_init(&worker->quota->bytes);
    return NGX_OK;
}


static ngx_chat_holder_t *
find_holder(ngx_chat_ctx_t *ctx)
{
    return (ngx_chat_holder_t *) ngx_chat_shares_find(
        &ctx->worker->quota->counts, ctx->barrier.q.key.tenant);
}


static void
set_used(ngx_chat_quota_t *quota, ngx_chat_holder_t *holder, size_t count,
         size_t bytes)
{
    quota->count += count - holder->count.used;
    quota->size += bytes - holder->bytes.used;
    ngx_chat_shares_set(&quota->counts, &holder->count, count);
    ngx_chat_shares_set(&quota->bytes, &holder->bytes, bytes);
}


void
ngx_chat_quota_enter(ngx_chat_ctx_t *ctx)
{
    uint64_t           tenant = ctx->barrier.q.key.tenant;
    ngx_chat_quota_t  *quota = ctx->worker->quota;
    ngx_chat_holder_t *holder = find_holder(ctx);

    if (holder == NULL) {
        holder = ngx_calloc(sizeof(*holder), ctx->request->connection->log);
        if (holder == NULL) {
            return; /* it waits, and is not counted */
        }

        ngx_queue_init(&holder->holds);
        ngx_chat_shares_insert(&quota->counts, &holder->count, tenant);
        ngx_chat_shares_insert(&quota->bytes, &holder->bytes, tenant);
    }

    ctx->wait.counted = 1;
    ctx->wait.weight = ctx->body.text.len + NGX_CHAT_QUOTA_HOLD;
    ngx_queue_insert_tail(&holder->holds, &ctx->wait.tenant);
    set_used(quota, holder, holder->count.used + 1,
             holder->bytes.used + ctx->wait.weight);
}


void
ngx_chat_quota_leave(ngx_chat_ctx_t *ctx)
{
    ngx_chat_quota_t  *quota = ctx->worker->quota;
    ngx_chat_holder_t *holder;

    if (!ctx->wait.counted) {
        return;
    }

    ctx->wait.counted = 0;
    holder = find_holder(ctx);
    ngx_queue_remove(&ctx->wait.tenant);
    set_used(quota, holder, holder->count.used - 1,
             holder->bytes.used - ctx->wait.weight);

    if (holder->count.used == 0) {
        ngx_chat_shares_remove(&quota->counts, &holder->count);
        ngx_chat_shares_remove(&quota->bytes, &holder->bytes);
        ngx_free(holder);
    }
}


/* The oldest request of the tenant that has most, if that may lose it. */
static ngx_chat_ctx_t *
oldest_of_largest(ngx_chat_ctx_t *ctx, ngx_chat_shares_t *shares,
                  size_t offset, size_t share)
{
    ngx_chat_share_t  *largest = ngx_chat_shares_largest(shares);
    ngx_chat_holder_t *holder;

    if (largest == NULL || largest->used <= share
        || largest->node.key == (ngx_rbtree_key_t) ctx->barrier.q.key.tenant)
    {
        return NULL;
    }

    holder = (ngx_chat_holder_t *) ((u_char *) largest - offset);
    return ngx_queue_data(ngx_queue_head(&holder->holds), ngx_chat_ctx_t,
                          wait.tenant);
}


ngx_int_t
ngx_chat_quota_room(ngx_chat_ctx_t *ctx, chat_reason_e *limit,
                    ngx_chat_ctx_t **oldest)
{
    size_t             weight = ctx->body.text.len + NGX_CHAT_QUOTA_HOLD;
    size_t             count = (size_t) ctx->conf->max_held;
    size_t             bytes = ctx->conf->max_held_bytes;
    ngx_chat_quota_t  *quota = ctx->worker->quota;
    ngx_chat_holder_t *own = find_holder(ctx);

    *oldest = NULL;

    if (quota->count >= count) {
        *limit = CHAT_REASON_REFUSED_HELD_LIMIT;
        count /= NGX_CHAT_QUOTA_SHARE;

        if (own == NULL || own->count.used < count) {
            *oldest = oldest_of_largest(ctx, &quota->counts, 0, count);
        }

    } else if (quota->size + weight > bytes) {
        *limit = CHAT_REASON_REFUSED_HELD_BYTES_LIMIT;
        bytes /= NGX_CHAT_QUOTA_SHARE;

        if ((own != NULL ? own->bytes.used : 0) + weight <= bytes) {
            *oldest = oldest_of_largest(
                ctx, &quota->bytes, offsetof(ngx_chat_holder_t, bytes), bytes);
        }

    } else {
        return NGX_OK;
    }

    return *oldest != NULL ? NGX_AGAIN : NGX_DECLINED;
}
