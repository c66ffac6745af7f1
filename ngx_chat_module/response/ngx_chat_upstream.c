/*
 * ngx_chat_upstream.c: learns how an upstream ended.
 *
 * NGINX tells a filter nothing of it, so the functions that the upstream
 * calls at its end are wrapped: finalize_request (called with the reason
 * before anything is flushed), and the input filter, whose plain NGX_ERROR
 * would end the request without another call of the body filter.
 * Promises: while an answer is recorded those who follow get their turn,
 * however fast it comes.
 * Must not know: what the answer means.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "base/ngx_chat_nginx_internals.h"
#include "response/ngx_chat_filter.h"

#define NGX_CHAT_UPSTREAM_BURST (128 * 1024)


/* While the connection is still there to be asked. */
static const char *
ngx_chat_upstream_reason(ngx_http_upstream_t *u, ngx_int_t rc)
{
    ngx_connection_t *c = u->peer.connection;

    if (rc == NGX_HTTP_GATEWAY_TIME_OUT || (c && c->read->timedout)) {
        return "timeout";
    }

    return u->error || rc == NGX_ERROR ? "malformed"
           : c && c->read->eof         ? "eof"
                                       : "reset";
}


/* 1 if it was the upstream that failed, and not the client. */
static ngx_uint_t
ngx_chat_upstream_is_broken(ngx_http_request_t *r, ngx_int_t rc)
{
    return rc >= NGX_HTTP_INTERNAL_SERVER_ERROR
           || (rc == NGX_ERROR && !r->connection->error
               && !r->connection->timedout);
}


static void
ngx_chat_upstream_finalize(ngx_http_request_t *r, ngx_int_t rc)
{
    ngx_chat_ctx_t *ctx;

    ctx = ngx_chat_get_ctx(r);
    ctx->response.upstream_rc = rc;
    ctx->response.keepalive = r->keepalive;

    if (ngx_chat_upstream_is_broken(r, rc)) {
        ctx->response.upstream_reason =
            ctx->response.breaks ? ctx->response.breaks
                                 : ngx_chat_upstream_reason(r->upstream, rc);
    }

    ctx->response.upstream_finalize(r, rc);
}


ngx_int_t
ngx_chat_upstream_break(ngx_chat_ctx_t *ctx, const char *reason)
{
    ngx_http_request_t  *r = ctx->request;
    ngx_http_upstream_t *u = r->upstream;

    if (u == NULL || u->peer.connection == NULL || ctx->response.passthrough
        || ctx->response.stream == NULL
        || chat_stream_info(ctx->response.stream)->foreign)
    {
        return NGX_DECLINED;
    }

    if (r->connection->buffered || u->busy_bufs != NULL) {
        return NGX_AGAIN; /* the upstream may not even be read */
    }

    /* its own handler ends it */
    ctx->response.breaks = reason;
    ngx_chat_nginx_upstream_time_out(r);
    return NGX_OK;
}


/*
 * nginx reads on for as long as there is something to be read. A store keeps
 * only so much of a record: its readers have to come in between.
 */
static void
ngx_chat_upstream_yield(ngx_chat_ctx_t *ctx, ssize_t bytes)
{
    ngx_connection_t *c = ctx->request->upstream->peer.connection;

    if (ctx->writer == NULL || c == NULL || bytes <= 0) {
        return;
    }

    ctx->response.upstream_burst += (size_t) bytes;

    if (ctx->response.upstream_burst < NGX_CHAT_UPSTREAM_BURST
        || !c->read->ready) {
        return;
    }

    ctx->response.upstream_burst = 0;
    ngx_chat_nginx_upstream_yield(c);
}


/* Unbuffered input: an error becomes an upstream error, told as a 502. */
static ngx_int_t
ngx_chat_upstream_filter(void *data, ssize_t bytes)
{
    ngx_int_t       rc;
    ngx_chat_ctx_t *ctx = data;

    rc = ctx->response.upstream_filter(ctx->response.upstream_data, bytes);

    if (rc == NGX_ERROR) {
        ctx->request->upstream->error = 1;
        return NGX_OK;
    }

    ngx_chat_upstream_yield(ctx, bytes);
    return rc;
}


/* The upstream sets its input filter anew here, after our header filter. */
static ngx_int_t
ngx_chat_upstream_init(void *data)
{
    ngx_int_t            rc;
    ngx_chat_ctx_t      *ctx = data;
    ngx_http_upstream_t *u = ctx->request->upstream;

    rc = ctx->response.upstream_init(ctx->response.upstream_data);

    if (rc == NGX_OK && u->input_filter != ngx_chat_upstream_filter) {
        ctx->response.upstream_filter = u->input_filter;
        u->input_filter = ngx_chat_upstream_filter;
        u->input_filter_ctx = ctx;
    }

    return rc;
}


void
ngx_chat_upstream_hook(ngx_chat_ctx_t *ctx)
{
    ngx_http_upstream_t *u = ctx->request->upstream;

    if (u == NULL || u->finalize_request == ngx_chat_upstream_finalize) {
        return;
    }

    ctx->response.upstream_finalize = u->finalize_request;
    u->finalize_request = ngx_chat_upstream_finalize;

    if (ctx->response.stream == NULL || ctx->conf->dry_run) {
        return;
    }

    /* tokens are to reach the client as they come, and a buffered upstream
       loses what it has read when the connection breaks */
    u->buffering = 0;

    if (u->input_filter_init != NULL) {
        ctx->response.upstream_init = u->input_filter_init;
        ctx->response.upstream_data = u->input_filter_ctx;
        u->input_filter_init = ngx_chat_upstream_init;
        u->input_filter_ctx = ctx;
    }
}
