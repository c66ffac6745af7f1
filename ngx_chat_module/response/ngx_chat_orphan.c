/*
 * ngx_chat_orphan.c: an upstream that outlives its client while other requests
 * follow.
 *
 * Our handlers run before the upstream's own, which would end the request when
 * its client leaves. After that the module queries the store once a second
 * whether a live worker follows. The answer is still read and recorded, and
 * the client's output is discarded. An answer that a client can resume needs
 * no follower, within bounds (outlives()).
 * Promises: any other answer without a follower ends within a second; nothing
 * is sent to the client that left.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "base/ngx_chat_nginx_internals.h"
#include "facts/chat_recording.h"
#include "response/ngx_chat_filter.h"
#include "store/ngx_chat_ask.h"

#define NGX_CHAT_ORPHAN_LOOK 1000 /* ms */


struct ngx_chat_orphan_s {
    ngx_http_event_handler_pt read;  /* of the request, behind ours */
    ngx_http_event_handler_pt write; /* likewise */
    ngx_chat_ask_t            ask;
    ngx_chat_timer_t          timer;
    ngx_msec_t                since;    /* when the client left */
    ngx_msec_t                end;      /* in a worker that exits; 0: none */
    unsigned                  left : 1; /* the client has left, not we */
};


static void on_timer(ngx_chat_ctx_t *ctx);
static void on_read(ngx_http_request_t *r);
static void on_write(ngx_http_request_t *r);


ngx_uint_t
ngx_chat_orphan_is(ngx_chat_ctx_t *ctx)
{
    return ctx->orphan != NULL && ctx->orphan->left;
}


void
ngx_chat_orphan_cancel(ngx_chat_ctx_t *ctx)
{
    ngx_chat_orphan_t *orphan = ctx->orphan;

    if (!ngx_chat_orphan_is(ctx)) {
        return;
    }

    orphan->left = 0;
    ngx_chat_ask_cancel(&orphan->ask);
    ngx_chat_event_cancel(&orphan->timer.event);
}


/* The request is over. */
static void
end_orphan(ngx_chat_ctx_t *ctx)
{
    uint32_t            status;
    ngx_http_request_t *r = ctx->request;

    if (!ngx_chat_orphan_is(ctx)) {
        return;
    }

    /* an error of the upstream passes no filter, as its client has left */
    if (!ctx->response.answered && !r->connection->close) {
        status = (uint32_t) r->headers_out.status;
        ctx->response.status =
            status < NGX_HTTP_BAD_REQUEST
                    || status == NGX_HTTP_CLIENT_CLOSED_REQUEST
                ? NGX_HTTP_BAD_GATEWAY
                : status;
        ctx->step(ctx, NGX_CHAT_EVENT_ANSWER);
    }

    ngx_chat_orphan_cancel(ctx);
}


void
ngx_chat_orphan_hook(ngx_chat_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;

    if (!ngx_chat_nginx_upstream_runs(r) || !ngx_chat_writer_is_possible(ctx))
    {
        return;
    }

    if (ctx->orphan == NULL) {
        ctx->orphan = chat_arena_alloc(ctx->kept, sizeof(ngx_chat_orphan_t));
        if (ctx->orphan == NULL) {
            return;
        }

        ctx->cleanups[NGX_CHAT_CLEANUP_ORPHAN] = end_orphan;
    }

    if (r->read_event_handler != on_read) {
        ctx->orphan->read = r->read_event_handler;
        r->read_event_handler = on_read;
    }

    if (r->write_event_handler != on_write) {
        ctx->orphan->write = r->write_event_handler;
        r->write_event_handler = on_write;
    }
}


/* Ends the request as if no upstream outlived its client. */
static void
finish(ngx_chat_ctx_t *ctx)
{
    ngx_chat_orphan_cancel(ctx);

    /* the end of its upstream gives one back */
    ctx->request->main->count++;
    ngx_http_finalize_request(ctx->request, NGX_HTTP_CLIENT_CLOSED_REQUEST);
}


static void
on_asked(ngx_chat_ask_t *ask, chat_rc_e rc, const chat_fact_t *facts, size_t n)
{
    ngx_chat_ctx_t *ctx = ask->ctx;
    chat_store_t   *store = ctx->worker->store;

    if (rc == CHAT_OK
            ? chat_recording_feeds(facts, n, chat_store_alive, store) == 0
            : store->state == CHAT_STORE_UNAVAILABLE)
    {
        finish(ctx);
    } else {
        ngx_chat_timer(ctx, &ctx->orphan->timer, NGX_CHAT_ORPHAN_LOOK,
                       on_timer);
    }
}


/* Asks whether a worker follows, unless it is read on without one. */
static void
check_followers(ngx_chat_ctx_t *ctx)
{
    chat_key_t         key;
    ngx_chat_orphan_t *orphan = ctx->orphan;

    if (ngx_chat_writer_outlives(ctx)
        && (ngx_current_msec - orphan->since) / 1000 < ctx->worker->ttl)
    {
        ngx_chat_timer(ctx, &orphan->timer, NGX_CHAT_ORPHAN_LOOK, on_timer);
        return;
    }

    ngx_chat_recording_key(ctx, &key);
    ngx_chat_ask(ctx, &orphan->ask, NULL, &key, NULL, on_asked);
}


/*
 * 1 if the worker is to exit, and its time is over: before all connections are
 * closed, with time for a last look.
 */
static ngx_uint_t
is_exiting(ngx_chat_orphan_t *orphan)
{
    ngx_msec_t wait = ngx_chat_shutdown_timeout();

    if (!ngx_exiting || wait == 0) {
        return 0;
    }

    if (orphan->end == 0) {
        wait -= ngx_min(wait, 2 * NGX_CHAT_ORPHAN_LOOK);
        orphan->end = ngx_max(ngx_current_msec + wait, 1);
    }

    return (ngx_msec_int_t) (orphan->end - ngx_current_msec) <= 0;
}


static void
on_timer(ngx_chat_ctx_t *ctx)
{
    if (is_exiting(ctx->orphan)
        || (ctx->response.answered && ctx->writer == NULL)) {
        finish(ctx);
    } else {
        check_followers(ctx);
    }
}


ngx_uint_t
ngx_chat_orphan_begin(ngx_chat_ctx_t *ctx)
{
    ngx_chat_orphan_t  *orphan = ctx->orphan;
    ngx_http_request_t *r = ctx->request;
    ngx_connection_t   *c = r->connection;

    if (orphan == NULL || orphan->left) {
        return orphan != NULL;
    }

    /* a buffered upstream does not show what comes without a client */
    if (!ngx_chat_nginx_upstream_runs(r) || ctx->response.has_last
        || ctx->worker->store->state != CHAT_STORE_UP
        || (ctx->response.answered
            && (ctx->writer == NULL || r->upstream->buffering))
        || ngx_chat_nginx_detach_client(r) != NGX_OK)
    {
        return 0;
    }

    ngx_log_error(NGX_LOG_INFO, c->log, 0,
                  "chat: client disconnected, checking for followers");

    if (ctx->filter != NULL) {
        ctx->filter->busy = NULL;
    }

    orphan->left = 1;
    orphan->since = ngx_current_msec;
    check_followers(ctx);

    /* what the client did not take may have stopped the upstream */
    ngx_post_event(c->write, &ngx_posted_events);
    return 1;
}


static void
on_read(ngx_http_request_t *r)
{
    ngx_chat_ctx_t *ctx = ngx_chat_get_ctx(r);

    if (ngx_chat_orphan_is(ctx)
        || (ngx_chat_nginx_upstream_runs(r) && ngx_chat_nginx_client_is_gone(r)
            && ngx_chat_orphan_begin(ctx)))
    {
        ngx_http_block_reading(r);
    } else {
        ctx->orphan->read(r);
    }
}


static void
on_write(ngx_http_request_t *r)
{
    ngx_chat_ctx_t *ctx = ngx_chat_get_ctx(r);

    /* a client that takes nothing for send_timeout is gone, too */
    if (!ngx_chat_orphan_is(ctx) && ngx_chat_nginx_upstream_runs(r)
        && (r->connection->write->timedout
            || ngx_chat_nginx_client_is_gone(r)))
    {
        (void) ngx_chat_orphan_begin(ctx);
    }

    if (ngx_chat_orphan_is(ctx)) {
        r->connection->write->timedout = 0;

        if (!ctx->response.answered) {
            return;
        }
    }

    ctx->orphan->write(r);
}
