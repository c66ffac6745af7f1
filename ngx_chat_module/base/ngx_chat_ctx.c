/*
 * ngx_chat_ctx.c: see ngx_chat_ctx.h.
 *
 * Two cleanups free a context: leave() runs before NGINX logs the request,
 * destroy() with the request's pool. An internal redirect wipes the contexts
 * of all modules; this one is found again by the cleanup of the pool.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "base/ngx_chat_ctx.h"

#include <sys/random.h>


uint64_t
ngx_chat_now(void)
{
    ngx_time_t *tp = ngx_timeofday();

    return (uint64_t) tp->sec * 1000 + tp->msec;
}


ngx_int_t
ngx_chat_random(void *key, size_t size, ngx_log_t *log)
{
    if (getrandom(key, size, 0) == (ssize_t) size) {
        return NGX_OK;
    }

    ngx_log_error(NGX_LOG_EMERG, log, ngx_errno, "chat: getrandom() failed");
    return NGX_ERROR;
}


void
ngx_chat_cleanup(ngx_chat_ctx_t *ctx, ngx_chat_cleanup_e from,
                 ngx_chat_cleanup_e to)
{
    ngx_uint_t i;

    for (i = from; i <= (ngx_uint_t) to; i++) {
        if (ctx->cleanups[i] != NULL) {
            ctx->cleanups[i](ctx);
        }
    }
}


static void
leave(void *data)
{
    ngx_chat_cleanup(data, NGX_CHAT_CLEANUP_WATCH, NGX_CHAT_CLEANUP_METRICS);
}


void
ngx_chat_ctx_free_body(ngx_chat_ctx_t *ctx)
{
    chat_arena_destroy(ctx->body.arena);
    chat_arena_destroy(ctx->body.kept);
    ctx->body.arena = NULL;
    ctx->body.kept = NULL;
    ctx->payloads.items = NULL;
}


void
ngx_chat_name(ngx_chat_ctx_t *ctx)
{
    u_char          *end = ctx->barrier.id + sizeof(ctx->barrier.id);
    u_char          *id = chat_digits(ctx->worker->serial++, end);
    chat_question_t *q = &ctx->barrier.q;

    q->request = chat_str(id, (size_t) (end - id));
    q->worker = ctx->worker->store->worker;
}


static void
destroy(void *data)
{
    ngx_chat_ctx_t *ctx = data;

    ngx_chat_cleanup(ctx, NGX_CHAT_CLEANUP_WATCH, NGX_CHAT_CLEANUP_MEMORY);

    if (ctx->freed != NULL) {
        *ctx->freed = 1;
    }

    chat_stream_destroy(ctx->response.stream);
    ngx_chat_ctx_free_body(ctx);
    chat_arena_destroy(ctx->payloads.early.arena);
    chat_arena_destroy(ctx->barrier.look);
    chat_arena_destroy(ctx->kept);
}


ngx_chat_ctx_t *
ngx_chat_get_ctx(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t *cln;
    ngx_chat_ctx_t     *ctx = ngx_http_get_module_ctx(r, ngx_chat_module);

    if (ctx != NULL || !(r->internal || r->filter_finalize)) {
        return ctx;
    }

    /* an internal redirect has wiped the contexts */

    for (cln = r->pool->cleanup; cln != NULL; cln = cln->next) {
        if (cln->handler == destroy
            && ((ngx_chat_ctx_t *) cln->data)->request == r) {
            ngx_http_set_ctx(r, cln->data, ngx_chat_module);
            return cln->data;
        }
    }

    return NULL;
}


ngx_chat_ctx_t *
ngx_chat_create_ctx(ngx_http_request_t *r, ngx_chat_loc_conf_t *conf)
{
    ngx_chat_ctx_t     *ctx;
    ngx_pool_cleanup_t *cln;
    ngx_http_cleanup_t *end;

    cln = ngx_pool_cleanup_add(r->pool, 0);
    end = ngx_http_cleanup_add(r, 0);
    /* usually it fits behind what NGINX has in the pool's second block */
    ctx = ngx_pcalloc(r->pool, sizeof(*ctx));
    if (cln == NULL || end == NULL || ctx == NULL) {
        return NULL;
    }

    ctx->request = r;
    ctx->conf = conf;
    ctx->worker = ngx_chat_worker(r);
    ctx->reason = CHAT_REASON_NONE_ENDPOINT;
    cln->handler = destroy;
    cln->data = ctx;
    end->handler = leave;
    end->data = ctx;

    ctx->kept = chat_arena_create(CHAT_ARENA_LONG);
    ctx->barrier.look = chat_arena_create(CHAT_ARENA_LONG);
    if (ctx->kept == NULL || ctx->barrier.look == NULL) {
        return NULL;
    }

    ngx_http_set_ctx(r, ctx, ngx_chat_module);
    return ctx;
}


static void
on_timer(ngx_event_t *ev)
{
    ngx_chat_ctx_t   *ctx = ev->data;
    ngx_connection_t *c = ctx->request->connection;

    ngx_http_set_log_request(c->log, ctx->request);
    ((ngx_chat_timer_t *) ev)->fire(ctx);
    ngx_http_run_posted_requests(c);
}


void
ngx_chat_event_set(ngx_event_t *ev, ngx_event_handler_pt handler, void *data,
                   ngx_log_t *log)
{
    ev->handler = handler;
    ev->data = data;
    ev->log = log;
}


void
ngx_chat_event_cancel(ngx_event_t *ev)
{
    if (ev->timer_set) {
        ngx_del_timer(ev);
    }

    if (ev->posted) {
        ngx_delete_posted_event(ev);
    }
}


void
ngx_chat_timer(ngx_chat_ctx_t *ctx, ngx_chat_timer_t *timer, ngx_msec_t msec,
               void (*fire)(ngx_chat_ctx_t *ctx))
{
    ngx_chat_event_cancel(&timer->event);
    timer->fire = fire;
    ngx_chat_event_set(&timer->event, on_timer, ctx,
                       ctx->request->connection->log);
    ngx_add_timer(&timer->event, msec);
}


ngx_msec_t
ngx_chat_shutdown_timeout(void)
{
    ngx_core_conf_t *ccf =
        (ngx_core_conf_t *) ngx_get_conf(ngx_cycle->conf_ctx, ngx_core_module);

    return ccf->shutdown_timeout;
}


u_char *
ngx_chat_log_text(u_char *p, chat_str_t text, size_t most)
{
    size_t i;

    for (i = 0; i < text.len && i < most; i++) {
        *p++ = text.data[i] > ' ' && text.data[i] < 0x7f ? text.data[i] : '?';
    }

    return p;
}


u_char *
ngx_chat_log_id(u_char *p, chat_str_t id)
{
    return id.len != 0 ? ngx_chat_log_text(p, id, NGX_CHAT_LOG_ID)
                       : ngx_sprintf(p, "-");
}
