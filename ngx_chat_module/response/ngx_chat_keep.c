/*
 * ngx_chat_keep.c: an upstream that outlives its client, while others follow.
 *
 * Our handlers stand before the upstream's own, which would end the request
 * when its client leaves. When it does the store is asked whether anybody
 * follows; the answer goes on being read and recorded, and what was meant for
 * the client is swallowed. It is asked again when something has changed, and
 * once a second, as workers die without a word.
 * Promises: where nobody follows, the request ends as it would without us,
 * within the time of one question; nothing is sent to the client that left.
 * Must not know: wire formats, how a store stores, who follows.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "base/ngx_chat_module.h"
#include "facts/chat_recording.h"

#define NGX_CHAT_KEEP_LOOK 1000
#define NGX_CHAT_KEEP_SOON 50 /* a change may be but the next piece */


/* A client that leaves while its answer is made. */
struct ngx_chat_keep_s {
    ngx_http_event_handler_pt read;  /* of the request, behind ours */
    ngx_http_event_handler_pt write; /* likewise */
    chat_store_op_t           op;
    chat_store_watch_t        watch;
    ngx_event_t               timer;
    ngx_msec_t                since;     /* when the client left */
    ngx_msec_t                end;       /* in a worker that exits; 0: none */
    unsigned                  left : 1;  /* the client is gone, not we */
    unsigned                  ended : 1; /* nobody follows any more */
    unsigned                  again : 1; /* something changed while asking */
};


static void ngx_chat_keep_read(ngx_http_request_t *r);
static void ngx_chat_keep_write(ngx_http_request_t *r);


ngx_uint_t
ngx_chat_keep_alone(ngx_chat_ctx_t *ctx)
{
    return ctx->keep != NULL && ctx->keep->left;
}


/* 1 if the upstream is there and has not been ended. */
static ngx_uint_t
ngx_chat_keep_running(ngx_http_request_t *r)
{
    return r->upstream != NULL && r->upstream->cleanup != NULL;
}


void
ngx_chat_keep_hook(ngx_chat_ctx_t *ctx)
{
    chat_key_t          key;
    ngx_chat_keep_t    *keep = ctx->keep;
    ngx_http_request_t *r = ctx->request;

    if (!ngx_chat_keep_running(r) || ctx->recorder->key(ctx, &key) != NGX_OK) {
        return;
    }

    if (keep == NULL) {
        keep = ngx_pcalloc(r->pool, sizeof(*keep));
        if (keep == NULL) {
            return;
        }

        ctx->keep = keep;
        ctx->ends[NGX_CHAT_END_KEEP] = ngx_chat_keep_close;
    }

    if (r->read_event_handler != ngx_chat_keep_read) {
        keep->read = r->read_event_handler;
        r->read_event_handler = ngx_chat_keep_read;
    }

    if (r->write_event_handler != ngx_chat_keep_write) {
        keep->write = r->write_event_handler;
        r->write_event_handler = ngx_chat_keep_write;
    }
}


/* 1 if somebody may follow, or all is to be recorded. */
static ngx_uint_t
ngx_chat_keep_may(ngx_chat_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;

    if (!ngx_chat_keep_running(r) || ctx->response.has_last
        || ctx->main->store->state != CHAT_STORE_UP)
    {
        return 0;
    }

    /* a buffered upstream does not show us what comes without a client */
    return !ctx->response.answered
           || (ctx->writer != NULL && !r->upstream->buffering);
}


/* 1 if it is read on whoever follows. */
static ngx_uint_t
ngx_chat_keep_anyway(ngx_chat_ctx_t *ctx)
{
    ngx_msec_t alone = ngx_current_msec - ctx->keep->since;

    return ctx->recorder->outlives(ctx)
           && (time_t) (alone / 1000) < ctx->conf->ttl;
}


static void
ngx_chat_keep_end(ngx_chat_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;

    ctx->keep->ended = 1;

    /* the end of its upstream gives one back */
    r->main->count++;
    ngx_http_finalize_request(r, NGX_HTTP_CLIENT_CLOSED_REQUEST);
}


static void
ngx_chat_keep_asked(chat_store_op_t *op, chat_rc_e rc,
                    const chat_fact_t *facts, size_t n)
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
        ngx_chat_keep_end(ctx);
    } else {
        ngx_add_timer(&ctx->keep->timer, ctx->keep->again
                                             ? NGX_CHAT_KEEP_SOON
                                             : NGX_CHAT_KEEP_LOOK);
        ctx->keep->again = 0;
    }

    ngx_http_run_posted_requests(c);
}


static void
ngx_chat_keep_notify(chat_store_watch_t *watch)
{
    ngx_chat_keep_t *keep = ((ngx_chat_ctx_t *) watch->data)->keep;

    if (keep->op.store != NULL) {
        keep->again = 1;

    } else if (keep->timer.timer_set
               && (ngx_msec_int_t) (keep->timer.timer.key - ngx_current_msec)
                      > NGX_CHAT_KEEP_SOON)
    {
        ngx_add_timer(&keep->timer, NGX_CHAT_KEEP_SOON);
    }
}


static void
ngx_chat_keep_ask(ngx_chat_ctx_t *ctx)
{
    chat_key_t       key;
    chat_store_t    *store = ctx->main->store;
    ngx_chat_keep_t *keep = ctx->keep;

    if (ngx_chat_keep_anyway(ctx)) {
        ngx_add_timer(&keep->timer, NGX_CHAT_KEEP_LOOK);
        return;
    }

    keep->op.done = ngx_chat_keep_asked;
    keep->op.data = ctx;
    (void) ctx->recorder->key(ctx, &key);

    if (keep->watch.store != NULL) {
        store->join(store, &keep->op, &key, NULL, 0,
                    (uint32_t) ctx->conf->record_ttl);
        return;
    }

    keep->watch.notify = ngx_chat_keep_notify;
    keep->watch.data = ctx;
    store->watch(store, &keep->watch, &keep->op, &key, NULL, 0,
                 (uint32_t) ctx->conf->record_ttl);
}


/* 1 if the worker is to exit, and its time is over. */
static ngx_uint_t
ngx_chat_keep_exits(ngx_chat_keep_t *keep)
{
    ngx_msec_t       wait;
    ngx_core_conf_t *ccf;

    ccf =
        (ngx_core_conf_t *) ngx_get_conf(ngx_cycle->conf_ctx, ngx_core_module);
    wait = ccf->shutdown_timeout;

    if (!ngx_exiting || wait == 0 || wait == NGX_CONF_UNSET_MSEC) {
        return 0;
    }

    if (keep->end == 0) {
        /* before all connections are closed, and noticed a look late */
        wait =
            wait > 2 * NGX_CHAT_KEEP_LOOK ? wait - 2 * NGX_CHAT_KEEP_LOOK : 0;
        keep->end = ngx_max(ngx_current_msec + wait, 1);
    }

    return (ngx_msec_int_t) (keep->end - ngx_current_msec) <= 0;
}


static void
ngx_chat_keep_timer(ngx_event_t *ev)
{
    ngx_chat_ctx_t   *ctx = ev->data;
    ngx_connection_t *c = ctx->request->connection;

    ngx_http_set_log_request(c->log, ctx->request);

    if (ngx_chat_keep_exits(ctx->keep)
        || (ctx->response.answered && ctx->writer == NULL))
    {
        ngx_chat_keep_end(ctx);
    } else {
        ngx_chat_keep_ask(ctx);
    }

    ngx_http_run_posted_requests(c);
}


/*
 * What is on its way to the client stays where it lies: it may be sent still.
 * The upstream gets another buffer to read into.
 */
static ngx_int_t
ngx_chat_keep_detach(ngx_chat_ctx_t *ctx)
{
    u_char              *p;
    size_t               size;
    ngx_http_request_t  *r = ctx->request;
    ngx_http_upstream_t *u = r->upstream;

    if (u->header_sent) {
        size = (size_t) (u->buffer.end - u->buffer.start);

        p = ngx_palloc(r->pool, size);
        if (p == NULL) {
            return NGX_ERROR;
        }

        u->buffer.start = u->buffer.pos = u->buffer.last = p;
        u->buffer.end = p + size;
        u->out_bufs = NULL;
        u->busy_bufs = NULL;
    }

    ctx->response.busy = NULL;
    r->out = NULL;
    return NGX_OK;
}


ngx_uint_t
ngx_chat_keep_lost(ngx_chat_ctx_t *ctx)
{
    ngx_chat_keep_t  *keep = ctx->keep;
    ngx_connection_t *c = ctx->request->connection;

    if (keep == NULL || keep->left) {
        return keep != NULL;
    }

    if (!ngx_chat_keep_may(ctx) || ngx_chat_keep_detach(ctx) != NGX_OK) {
        return 0;
    }

    ngx_log_error(NGX_LOG_INFO, c->log, 0,
                  "chat: the client has left, is anybody following?");

    keep->left = 1;
    keep->since = ngx_current_msec;

    c->error = 1;
    c->timedout = 0;
    c->buffered = 0;
    c->write->ready = 1;
    c->write->timedout = 0;
    c->write->delayed = 0;

    if (c->write->timer_set) {
        ngx_del_timer(c->write);
    }

    keep->timer.handler = ngx_chat_keep_timer;
    keep->timer.data = ctx;
    keep->timer.log = c->log;
    ngx_chat_keep_ask(ctx);

    /* what the client did not take may have stopped the upstream */
    ngx_post_event(c->write, &ngx_posted_events);
    return 1;
}


/* 1 if the client has gone, as the upstream's own handler would find. */
static ngx_uint_t
ngx_chat_keep_gone(ngx_http_request_t *r)
{
    char              byte;
    ssize_t           n;
    ngx_connection_t *c = r->connection;

    if (r->upstream->conf->ignore_client_abort || r->upstream->store) {
        /* nothing can be written to it: its next event would find that */
        return c->error && r->upstream->header_sent;
    }

    if (c->error || r->stream != NULL) {
        return c->error;
    }

#if (NGX_HAVE_KQUEUE)
    if (ngx_event_flags & NGX_USE_KQUEUE_EVENT) {
        return c->read->pending_eof;
    }
#endif

#if (NGX_HAVE_EPOLLRDHUP)
    if ((ngx_event_flags & NGX_USE_EPOLL_EVENT) && ngx_use_epoll_rdhup) {
        return c->read->pending_eof;
    }
#endif

    n = recv(c->fd, &byte, 1, MSG_PEEK);
    return n == 0 || (n == -1 && ngx_socket_errno != NGX_EAGAIN);
}


static void
ngx_chat_keep_read(ngx_http_request_t *r)
{
    ngx_chat_ctx_t *ctx = ngx_chat_get_ctx(r);

    if (ngx_chat_keep_alone(ctx)
        || (ngx_chat_keep_running(r) && ngx_chat_keep_gone(r)
            && ngx_chat_keep_lost(ctx)))
    {
        ngx_http_block_reading(r);
        return;
    }

    ctx->keep->read(r);
}


static void
ngx_chat_keep_write(ngx_http_request_t *r)
{
    ngx_chat_ctx_t *ctx = ngx_chat_get_ctx(r);

    /* a client that takes nothing for send_timeout is gone, too */
    if (!ngx_chat_keep_alone(ctx) && ngx_chat_keep_running(r)
        && (r->connection->write->timedout || ngx_chat_keep_gone(r)))
    {
        (void) ngx_chat_keep_lost(ctx);
    }

    if (ngx_chat_keep_alone(ctx)) {
        r->connection->write->timedout = 0;

        if (!ctx->response.answered) {
            return;
        }
    }

    ctx->keep->write(r);
}


static void
ngx_chat_keep_forget(ngx_chat_ctx_t *ctx)
{
    ngx_chat_keep_t *keep = ctx->keep;

    ctx->main->store->cancel(&keep->op);
    ctx->main->store->unwatch(&keep->watch);

    if (keep->timer.timer_set) {
        ngx_del_timer(&keep->timer);
    }
}


void
ngx_chat_keep_give_up(ngx_chat_ctx_t *ctx)
{
    if (ngx_chat_keep_alone(ctx)) {
        ngx_chat_keep_forget(ctx);
        ctx->keep->left = 0;
    }
}


void
ngx_chat_keep_close(ngx_chat_ctx_t *ctx)
{
    uint32_t            status;
    ngx_http_request_t *r = ctx->request;

    if (!ngx_chat_keep_alone(ctx)) {
        return;
    }

    ngx_chat_keep_forget(ctx);

    /* no filter has seen the error of the upstream, as nobody was to get it */
    if (!ctx->response.answered && !ctx->keep->ended && !r->connection->close)
    {
        status = (uint32_t) r->headers_out.status;
        ngx_chat_attempt_answer(
            ctx, status < NGX_HTTP_BAD_REQUEST
                         || status == NGX_HTTP_CLIENT_CLOSED_REQUEST
                     ? NGX_HTTP_BAD_GATEWAY
                     : status);
    }

    ctx->keep->left = 0;
}
