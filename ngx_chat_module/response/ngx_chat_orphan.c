/*
 * ngx_chat_orphan.c: an upstream that outlives its client while other requests
 * follow.
 *
 * Our handlers stand before the upstream's own, which would end the request
 * when its client leaves. When it does the store is asked whether anybody
 * follows; the answer goes on being read and recorded, and what was meant for
 * the client is swallowed. It is asked again when something has changed, and
 * once a second, as workers die without a word.
 * Promises: without a follower, the request ends as it would without us,
 * within the time of one question; nothing is sent to the client that left.
 * Must not know: wire formats, how a store stores, which requests follow.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "base/ngx_chat_module.h"
#include "base/ngx_chat_nginx_internals.h"
#include "facts/chat_recording.h"

#define NGX_CHAT_ORPHAN_LOOK 1000
#define NGX_CHAT_ORPHAN_SOON 50 /* a change may be but the next piece */


/* A client that leaves while its answer is made. */
struct ngx_chat_orphan_s {
    ngx_http_event_handler_pt read;  /* of the request, behind ours */
    ngx_http_event_handler_pt write; /* likewise */
    chat_store_op_t           op;
    chat_store_watch_t        watch;
    ngx_event_t               timer;
    ngx_msec_t                since;     /* when the client left */
    ngx_msec_t                end;       /* in a worker that exits; 0: none */
    unsigned                  left : 1;  /* the client is gone, not we */
    unsigned                  ended : 1; /* no follower is left */
    unsigned                  again : 1; /* something changed while asking */
};


static void on_read(ngx_http_request_t *r);
static void on_write(ngx_http_request_t *r);


ngx_uint_t
ngx_chat_orphan_is(ngx_chat_ctx_t *ctx)
{
    return ctx->orphan != NULL && ctx->orphan->left;
}


void
ngx_chat_orphan_hook(ngx_chat_ctx_t *ctx)
{
    chat_key_t          key;
    ngx_chat_orphan_t  *orphan = ctx->orphan;
    ngx_http_request_t *r = ctx->request;

    if (!ngx_chat_nginx_upstream_runs(r)
        || ctx->recorder->key(ctx, &key) != NGX_OK)
    {
        return;
    }

    if (orphan == NULL) {
        orphan = ngx_pcalloc(r->pool, sizeof(*orphan));
        if (orphan == NULL) {
            return;
        }

        ctx->orphan = orphan;
        ctx->ends[NGX_CHAT_END_ORPHAN] = ngx_chat_orphan_close;
    }

    if (r->read_event_handler != on_read) {
        orphan->read = r->read_event_handler;
        r->read_event_handler = on_read;
    }

    if (r->write_event_handler != on_write) {
        orphan->write = r->write_event_handler;
        r->write_event_handler = on_write;
    }
}


/* 1 if somebody may follow, or all is to be recorded. */
static ngx_uint_t
can_continue(ngx_chat_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;

    if (!ngx_chat_nginx_upstream_runs(r) || ctx->response.has_last
        || ctx->main->store->state != CHAT_STORE_UP)
    {
        return 0;
    }

    /* a buffered upstream does not show us what comes without a client */
    return !ctx->response.answered
           || (ctx->writer != NULL && !r->upstream->buffering);
}


/* 1 if it is read on with or without followers. */
static ngx_uint_t
is_recorded_anyway(ngx_chat_ctx_t *ctx)
{
    ngx_msec_t alone = ngx_current_msec - ctx->orphan->since;

    return ctx->recorder->outlives(ctx)
           && (time_t) (alone / 1000) < ctx->conf->ttl;
}


static void
finish(ngx_chat_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;

    ctx->orphan->ended = 1;

    /* the end of its upstream gives one back */
    r->main->count++;
    ngx_http_finalize_request(r, NGX_HTTP_CLIENT_CLOSED_REQUEST);
}


static void
on_asked(chat_store_op_t *op, chat_rc_e rc, const chat_fact_t *facts, size_t n)
{
    chat_record_t     said;
    chat_store_t     *store;
    ngx_chat_ctx_t   *ctx = op->data;
    ngx_connection_t *c = ctx->request->connection;

    store = ctx->main->store;
    ngx_http_set_log_request(c->log, ctx->request);

    /* when it is only wavering it is asked once more */
    if (rc == CHAT_OK) {
        chat_record_read(facts, n, chat_store_alive, store, &said);
    }

    if (rc == CHAT_OK
            ? said.feeds == 0 || said.cleared || said.mode == CHAT_RECORD_NONE
            : store->state == CHAT_STORE_UNAVAILABLE)
    {
        finish(ctx);
    } else {
        ngx_add_timer(&ctx->orphan->timer, ctx->orphan->again
                                               ? NGX_CHAT_ORPHAN_SOON
                                               : NGX_CHAT_ORPHAN_LOOK);
        ctx->orphan->again = 0;
    }

    ngx_http_run_posted_requests(c);
}


static void
on_notify(chat_store_watch_t *watch)
{
    ngx_chat_orphan_t *orphan = ((ngx_chat_ctx_t *) watch->data)->orphan;

    if (orphan->op.store != NULL) {
        orphan->again = 1;

    } else if (orphan->timer.timer_set
               && (ngx_msec_int_t) (orphan->timer.timer.key - ngx_current_msec)
                      > NGX_CHAT_ORPHAN_SOON)
    {
        ngx_add_timer(&orphan->timer, NGX_CHAT_ORPHAN_SOON);
    }
}


static void
ask(ngx_chat_ctx_t *ctx)
{
    chat_key_t         key;
    chat_store_t      *store = ctx->main->store;
    ngx_chat_orphan_t *orphan = ctx->orphan;

    if (is_recorded_anyway(ctx)) {
        ngx_add_timer(&orphan->timer, NGX_CHAT_ORPHAN_LOOK);
        return;
    }

    orphan->op.done = on_asked;
    orphan->op.data = ctx;
    (void) ctx->recorder->key(ctx, &key);

    if (orphan->watch.store != NULL) {
        store->join(store, &orphan->op, &key, NULL, 0,
                    (uint32_t) ctx->conf->record_ttl);
        return;
    }

    orphan->watch.notify = on_notify;
    orphan->watch.data = ctx;
    store->watch(store, &orphan->watch, &orphan->op, &key, NULL, 0,
                 (uint32_t) ctx->conf->record_ttl);
}


/* 1 if the worker is to exit, and its time is over. */
static ngx_uint_t
is_exiting(ngx_chat_orphan_t *orphan)
{
    ngx_msec_t       wait;
    ngx_core_conf_t *ccf;

    ccf =
        (ngx_core_conf_t *) ngx_get_conf(ngx_cycle->conf_ctx, ngx_core_module);
    wait = ccf->shutdown_timeout;

    if (!ngx_exiting || wait == 0 || wait == NGX_CONF_UNSET_MSEC) {
        return 0;
    }

    if (orphan->end == 0) {
        /* before all connections are closed, and noticed a look late */
        wait = wait > 2 * NGX_CHAT_ORPHAN_LOOK
                   ? wait - 2 * NGX_CHAT_ORPHAN_LOOK
                   : 0;
        orphan->end = ngx_max(ngx_current_msec + wait, 1);
    }

    return (ngx_msec_int_t) (orphan->end - ngx_current_msec) <= 0;
}


static void
on_timer(ngx_event_t *ev)
{
    ngx_chat_ctx_t   *ctx = ev->data;
    ngx_connection_t *c = ctx->request->connection;

    ngx_http_set_log_request(c->log, ctx->request);

    if (is_exiting(ctx->orphan)
        || (ctx->response.answered && ctx->writer == NULL)) {
        finish(ctx);
    } else {
        ask(ctx);
    }

    ngx_http_run_posted_requests(c);
}


ngx_uint_t
ngx_chat_orphan_begin(ngx_chat_ctx_t *ctx)
{
    ngx_chat_orphan_t *orphan = ctx->orphan;
    ngx_connection_t  *c = ctx->request->connection;

    if (orphan == NULL || orphan->left) {
        return orphan != NULL;
    }

    if (!can_continue(ctx)
        || ngx_chat_nginx_detach_client(ctx->request) != NGX_OK) {
        return 0;
    }

    ctx->response.busy = NULL;

    ngx_log_error(NGX_LOG_INFO, c->log, 0,
                  "chat: client disconnected, checking for followers");

    orphan->left = 1;
    orphan->since = ngx_current_msec;

    orphan->timer.handler = on_timer;
    orphan->timer.data = ctx;
    orphan->timer.log = c->log;
    ask(ctx);

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
        return;
    }

    ctx->orphan->read(r);
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


static void
stop_asking(ngx_chat_ctx_t *ctx)
{
    ngx_chat_orphan_t *orphan = ctx->orphan;

    ctx->main->store->cancel(&orphan->op);
    ctx->main->store->unwatch(&orphan->watch);

    if (orphan->timer.timer_set) {
        ngx_del_timer(&orphan->timer);
    }
}


void
ngx_chat_orphan_cancel(ngx_chat_ctx_t *ctx)
{
    if (ngx_chat_orphan_is(ctx)) {
        stop_asking(ctx);
        ctx->orphan->left = 0;
    }
}


void
ngx_chat_orphan_close(ngx_chat_ctx_t *ctx)
{
    uint32_t            status;
    ngx_http_request_t *r = ctx->request;

    if (!ngx_chat_orphan_is(ctx)) {
        return;
    }

    stop_asking(ctx);

    /* no filter has seen the error of the upstream: no client was to get it */
    if (!ctx->response.answered && !ctx->orphan->ended
        && !r->connection->close) {
        status = (uint32_t) r->headers_out.status;
        ngx_chat_attempt_answer(
            ctx, status < NGX_HTTP_BAD_REQUEST
                         || status == NGX_HTTP_CLIENT_CLOSED_REQUEST
                     ? NGX_HTTP_BAD_GATEWAY
                     : status);
    }

    ctx->orphan->left = 0;
}
