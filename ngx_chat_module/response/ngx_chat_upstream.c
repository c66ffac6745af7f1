/*
 * ngx_chat_upstream.c: learns how an upstream ended, and ends one.
 *
 * NGINX does not tell filters how an upstream ended, so the functions that it
 * calls at the end are wrapped: finalize_request (called with the reason
 * before anything is flushed), and the input filter: its plain NGX_ERROR
 * would end the request without another call of the body filter.
 * chat_stall: an upstream that sends only comments and pings never times out
 * by itself. At the bound it is ended as NGINX ends one that sends nothing, so
 * that what follows is as after any other break. The wait for a client that
 * reads slowly is no silence.
 * While a fast answer is recorded its followers get their turn, too.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "base/ngx_chat_nginx_internals.h"
#include "response/ngx_chat_filter.h"

#define NGX_CHAT_UPSTREAM_BURST (128 * 1024)


/* Ends the upstream, which must have a stream that the core reads. */
static ngx_int_t
break_upstream(ngx_chat_ctx_t *ctx, const char *reason)
{
    ngx_http_request_t  *r = ctx->request;
    ngx_http_upstream_t *u = r->upstream;

    if (u == NULL || u->peer.connection == NULL || ctx->response.stream == NULL
        || chat_stream_info(ctx->response.stream)->foreign)
    {
        return NGX_DECLINED;
    }

    if (r->connection->buffered || u->busy_bufs != NULL) {
        return NGX_AGAIN; /* the upstream may not even be read */
    }

    /* its own handler ends it */
    ctx->filter->breaks = reason;
    ngx_chat_nginx_upstream_time_out(r);
    return NGX_OK;
}


ngx_int_t
ngx_chat_upstream_stop(ngx_chat_ctx_t *ctx, ngx_uint_t patient)
{
    ngx_http_request_t *r = ctx->request;
    ngx_int_t           rc = break_upstream(ctx, "stopped");

    if (rc == NGX_AGAIN && !patient && ngx_chat_orphan_begin(ctx)) {
        rc = break_upstream(ctx, "stopped");
    }

    if (rc != NGX_DECLINED || !ngx_chat_nginx_upstream_runs(r)) {
        return rc;
    }

    /* there is no stream to end, so the request ends; the end of its upstream
       decrements the count */
    r->main->count++;

    if (ctx->response.answered || ngx_chat_orphan_is(ctx)
        || r->connection->error) {
        ngx_http_finalize_request(r, NGX_HTTP_CLIENT_CLOSED_REQUEST);

    } else {
        /* a client that only finds its connection closed sends again */
        ngx_chat_nginx_upstream_close(r);
        ngx_chat_reply(ctx, CHAT_REPLY_STOPPED, CHAT_REASON_REFUSED_STOPPED);
    }

    return NGX_OK;
}


static void
on_stall(ngx_chat_ctx_t *ctx)
{
    if (break_upstream(ctx, "stall") == NGX_AGAIN) {
        ngx_chat_timer(ctx, &ctx->filter->stall, ctx->conf->stall, on_stall);
    }
}


void
ngx_chat_stall_restart(ngx_chat_ctx_t *ctx)
{
    if (ctx->filter->stall.event.timer_set) {
        ngx_add_timer(&ctx->filter->stall.event, ctx->conf->stall);
    }
}


void
ngx_chat_stall_progress(ngx_chat_ctx_t *ctx)
{
    uint32_t content = chat_stream_info(ctx->response.stream)->content;

    if (content != ctx->filter->content) {
        ctx->filter->content = content;
        ngx_chat_stall_restart(ctx);
    }
}


/* Why the upstream ended, while its connection can still be asked. */
static const char *
find_reason(ngx_http_upstream_t *u, ngx_int_t rc)
{
    ngx_connection_t *c = u->peer.connection;

    if (rc == NGX_HTTP_GATEWAY_TIME_OUT || (c && c->read->timedout)) {
        return "timeout";
    }

    return u->error || rc == NGX_ERROR ? "malformed"
           : c && c->read->eof         ? "eof"
                                       : "reset";
}


static void
on_finalize(ngx_http_request_t *r, ngx_int_t rc)
{
    ngx_connection_t *c = r->connection;
    ngx_chat_ctx_t   *ctx = ngx_chat_get_ctx(r);

    ctx->response.upstream_rc = rc;
    ctx->filter->keepalive = r->keepalive;

    /* the upstream failed, not the client */
    if (rc >= NGX_HTTP_INTERNAL_SERVER_ERROR
        || (rc == NGX_ERROR && !c->error && !c->timedout))
    {
        ctx->response.upstream_reason = ctx->filter->breaks
                                            ? ctx->filter->breaks
                                            : find_reason(r->upstream, rc);
    }

    ctx->filter->finalize(r, rc);
}


/*
 * The input filter of an unbuffered upstream. Its error becomes an upstream
 * error, which NGINX reports as a 502.
 */
static ngx_int_t
on_input(void *data, ssize_t bytes)
{
    ngx_chat_ctx_t      *ctx = data;
    ngx_connection_t    *c;
    ngx_chat_filter_t   *filter = ctx->filter;
    ngx_http_upstream_t *u = ctx->request->upstream;
    ngx_int_t            rc = filter->input(filter->input_data, bytes);

    if (rc == NGX_ERROR) {
        u->error = 1;
        return NGX_OK;
    }

    c = u->peer.connection;

    if (ctx->writer == NULL || c == NULL || bytes <= 0) {
        return rc;
    }

    filter->burst += (size_t) bytes;

    if (filter->burst >= NGX_CHAT_UPSTREAM_BURST && c->read->ready) {
        /* NGINX reads as long as there is data, but a store keeps only a part
           of a recording: its readers get a turn now */
        filter->burst = 0;
        ngx_chat_nginx_upstream_yield(c);
    }

    return rc;
}


/* The upstream sets its input filter anew here, after the header filter. */
static ngx_int_t
on_input_init(void *data)
{
    ngx_chat_ctx_t      *ctx = data;
    ngx_http_upstream_t *u = ctx->request->upstream;
    ngx_int_t            rc = ctx->filter->input_init(ctx->filter->input_data);

    if (rc == NGX_OK && u->input_filter != on_input) {
        ctx->filter->input = u->input_filter;
        u->input_filter = on_input;
        u->input_filter_ctx = ctx;
    }

    return rc;
}


void
ngx_chat_upstream_hook(ngx_chat_ctx_t *ctx)
{
    ngx_chat_filter_t   *filter = ctx->filter;
    ngx_http_upstream_t *u = ctx->request->upstream;

    if (u == NULL || u->finalize_request == on_finalize) {
        return;
    }

    filter->finalize = u->finalize_request;
    u->finalize_request = on_finalize;

    if (ctx->response.stream == NULL || ctx->conf->dry_run) {
        return;
    }

    /* tokens are to reach the client as they come, and a buffered upstream
       loses what it has read when the connection breaks */
    u->buffering = 0;

    if (u->input_filter_init != NULL) {
        filter->input_init = u->input_filter_init;
        filter->input_data = u->input_filter_ctx;
        u->input_filter_init = on_input_init;
        u->input_filter_ctx = ctx;
    }

    if (ctx->conf->stall != 0) {
        ngx_chat_timer(ctx, &filter->stall, ctx->conf->stall, on_stall);
    }
}


ngx_uint_t
ngx_chat_upstream_unsent(ngx_chat_ctx_t *ctx)
{
    ngx_uint_t                 i;
    ngx_http_request_t        *r = ctx->request;
    ngx_http_upstream_state_t *state;

    if ((ctx->response.answered && ctx->response.status < 500)
        || r->upstream == NULL || r->upstream_states == NULL
        || r->upstream->request_sent)
    {
        return 0;
    }

    state = r->upstream_states->elts;

    for (i = 0; i < r->upstream_states->nelts; i++) {
        /* no state, or status 0: it had no address yet */
        if (state[i].bytes_sent > 0
            || (state[i].status != 0 && state[i].status < 500)) {
            return 0;
        }
    }

    return 1;
}
