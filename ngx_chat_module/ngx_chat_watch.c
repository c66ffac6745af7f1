/*
 * ngx_chat_watch.c: a request that waits keeps looking at its batch.
 *
 * Whatever is joined to the batch, by whomever, brings a new look at it, until
 * the request goes on, is answered, or is gone.
 * Must not know: what the facts of a batch mean.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "ngx_chat_module.h"


void
ngx_chat_watch_look(ngx_chat_ctx_t *ctx)
{
    chat_store_t *store = ctx->main->store;

    if (ctx->op.store != NULL) {
        ctx->again = 1;
        return;
    }

    ngx_chat_gate_asks(ctx);
    store->join(store, &ctx->op, &ctx->q.key, NULL, 0,
                (uint32_t) ctx->conf->ttl);
}


static void
ngx_chat_watch_notify(chat_store_watch_t *watch)
{
    ngx_chat_watch_look(watch->data);
}


void
ngx_chat_watch_begin(ngx_chat_ctx_t *ctx, const chat_fact_t *facts, size_t n)
{
    chat_store_t *store = ctx->main->store;

    ctx->watching = 1;
    ctx->watch.notify = ngx_chat_watch_notify;
    ctx->watch.data = ctx;

    ngx_chat_gate_asks(ctx);
    store->watch(store, &ctx->watch, &ctx->op, &ctx->q.key, facts, n,
                 (uint32_t) ctx->conf->ttl);
}


void
ngx_chat_watch_end(ngx_chat_ctx_t *ctx)
{
    size_t        i;
    chat_store_t *store = ctx->main->store;

    if (store == NULL) {
        return;
    }

    store->cancel(&ctx->op);
    store->unwatch(&ctx->watch);

    if (ctx->timer.timer_set && !ctx->in_holds) {
        ngx_del_timer(&ctx->timer);
    }

    for (i = 0; i < ctx->nlookups; i++) {
        store->cancel(&ctx->lookups[i].op);
    }

    ctx->nlookups = 0;
    ctx->answers_due = 0;
}
