/*
 * ngx_chat_filter.c: the answer on its way to the client.
 *
 * The header filter decides whether the answer is a stream that the core can
 * read, and then hooks itself into the upstream so that it learns how the
 * stream ended. The body filter gives the bytes to the core's chat_stream and
 * passes on what comes out. Promises: an answer that is not such a stream is
 * not touched; the upstream's buffers are never kept and never copied where
 * the core lets their bytes pass. Must not know: wire formats, the store.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "base/ngx_chat_module.h"
#include "base/ngx_chat_nginx_internals.h"
#include "response/ngx_chat_filter.h"
#include "facts/chat_recording.h"


static ngx_http_output_header_filter_pt ngx_chat_next_header_filter;
static ngx_http_output_body_filter_pt   ngx_chat_next_body_filter;


/* The Access-Control and Vary lines of the answer, for those who wait. */
static chat_str_t
ngx_chat_filter_cors(ngx_chat_ctx_t *ctx)
{
    chat_str_t              cors = { NULL, 0 };
    chat_buf_t              lines = { 0 };
    ngx_table_elt_t        *h;
    ngx_http_request_t     *r = ctx->request;
    ngx_chat_headers_walk_t walk = { &r->headers_out.headers.part, 0 };

    while ((h = ngx_chat_headers_next(&walk)) != NULL) {
        if (chat_record_is_cors(chat_str(h->key.data, h->key.len))
            && ngx_chat_headers_counts(&r->headers_out.headers, h))
        {
            chat_record_header(&lines, chat_str(h->key.data, h->key.len),
                               chat_str(h->value.data, h->value.len));
        }
    }

    if (!lines.failed) {
        (void) chat_arena_dup(ctx->kept, chat_buf_str(&lines), &cors);
    }

    chat_buf_free(&lines);
    return cors;
}


ngx_uint_t
ngx_chat_filter_is_event_stream(chat_str_t type)
{
    static const char name[] = "text/event-stream";

    return type.len >= sizeof(name) - 1
           && ngx_strncasecmp((u_char *) type.data, (u_char *) name,
                              sizeof(name) - 1)
                  == 0;
}


static ngx_uint_t
ngx_chat_filter_is_sse(ngx_http_request_t *r)
{
    return r->headers_out.status == NGX_HTTP_OK
           && r->headers_out.content_encoding == NULL
           && ngx_chat_filter_is_event_stream(
               chat_str(r->headers_out.content_type.data,
                        r->headers_out.content_type.len));
}


void
ngx_chat_filter_conf(ngx_chat_loc_conf_t *conf, const chat_dialect_t *dialect,
                     chat_stream_conf_t *sc)
{
    ngx_memzero(sc, sizeof(*sc));
    sc->dialect = dialect;
    sc->max_event = conf->max_event;
    sc->max_calls = (size_t) conf->max_calls;
    sc->max_result = conf->max_result;
    sc->report = (int) conf->interrupted;
    sc->kind = ngx_chat_kind;
    sc->data = conf;
}


/* A reader for this answer; NGX_ERROR: no memory. */
static ngx_int_t
ngx_chat_filter_open(ngx_chat_ctx_t *ctx)
{
    chat_follow_conf_t   fc;
    chat_stream_conf_t   sc;
    ngx_chat_loc_conf_t *conf = ctx->conf;

    if (ctx->body.arena == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(&fc, sizeof(fc));
    fc.dialect = ctx->dialect;
    fc.injected =
        chat_str(ctx->response.injected.data, ctx->response.injected.len);
    fc.max_frame = conf->max_event;

    if (chat_follow_init(&ctx->response.injector, &fc) != CHAT_OK) {
        return NGX_ERROR;
    }

    ngx_chat_filter_conf(conf, ctx->dialect, &sc);
    sc.request = &ctx->body.rq;
    sc.known = ctx->barrier.known;
    sc.nknown = ctx->barrier.nknown;

    if ((ctx->barrier.known == NULL || ctx->dialect->transcript)
        && ctx->body.rq.ncalls > ctx->body.rq.turn)
    {
        sc.known = &ctx->body.rq.calls[ctx->body.rq.turn];
        sc.nknown = ctx->body.rq.ncalls - ctx->body.rq.turn;
    }

    sc.replay = (chat_replay_e) conf->replay;
    sc.scope = ctx->scope;
    sc.began = ngx_chat_now();
    sc.worker =
        ctx->main->store ? ctx->main->store->worker : chat_str(NULL, 0);
    sc.cors = ngx_chat_filter_cors(ctx);
    sc.observe = (int) conf->dry_run;
    sc.resumable = ctx->stream_id != NULL;

    if (ctx->stream_id != NULL && ctx->dialect->takes_ids) {
        sc.number = chat_cstr(ctx->stream_id);
    }

    ctx->response.stream = chat_stream_create(&sc);
    return ctx->response.stream ? NGX_OK : NGX_ERROR;
}


/* The answer is recorded, as far as somebody may want it. */
static void
ngx_chat_filter_record(ngx_http_request_t *r, ngx_chat_ctx_t *ctx)
{
    ctx->recorder->begin(ctx);

    if (ctx->writer == NULL) {
        ngx_chat_orphan_cancel(ctx);
        return;
    }

    r->filter_need_in_memory = 1;

    if (r->upstream != NULL && !r->upstream->cacheable && !r->upstream->store)
    {
        /* as a stream's: it may outlive its client */
        r->upstream->buffering = 0;
    }
}


/* The header, to a client that may have left. */
static ngx_int_t
ngx_chat_filter_head(ngx_http_request_t *r, ngx_chat_ctx_t *ctx)
{
    ngx_int_t rc;

    if (ngx_chat_orphan_is(ctx)) {
        r->header_sent = 1;
        return NGX_OK;
    }

    rc = ngx_chat_next_header_filter(r);

    return rc == NGX_ERROR && r->connection->error
                   && ngx_chat_orphan_begin(ctx)
               ? NGX_OK
               : rc;
}


/* The id outlives the request. */
static ngx_int_t
ngx_chat_filter_name_stream(ngx_http_request_t *r, const char *id)
{
    ngx_str_t value, key = ngx_string("X-Chat-Stream");

    value.data = (u_char *) id;
    value.len = ngx_strlen(id);
    return ngx_chat_answer_add_header(r, key, value);
}


static ngx_int_t
ngx_chat_header_filter(ngx_http_request_t *r)
{
    ngx_uint_t      status;
    ngx_chat_ctx_t *ctx;

    ctx = r == r->main ? ngx_chat_get_ctx(r) : NULL;

    /* only here is it known what add_header has brought */
    if (ctx != NULL && ctx->response.local
        && ngx_chat_answer_cors(ctx) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ctx == NULL || ctx->dialect == NULL || ctx->response.local
        || ctx->response.filtered || ctx->state != NGX_CHAT_GONE_ON)
    {
        return ngx_chat_next_header_filter(r);
    }

    ctx->response.filtered = 1;
    status = r->headers_out.status;
    if (ctx->response.early && !ngx_chat_filter_is_sse(r)) {
        /* whatever it is, the client is told that it failed */
        ctx->response.suppressed = 1;
        status = status < 300 ? NGX_HTTP_BAD_GATEWAY : status;
    }

    ngx_chat_attempt_answer(ctx, (uint32_t) status);

    if (ctx->stream_id != NULL
        && ngx_chat_filter_name_stream(r, ctx->stream_id) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ngx_chat_filter_is_sse(r) && !r->header_only) {
        if (ngx_chat_filter_open(ctx) != NGX_OK) {
            return NGX_ERROR;
        }

        r->filter_need_in_memory = 1;

        if (!ctx->conf->dry_run) {
            ngx_http_clear_content_length(r);
            ngx_http_clear_accept_ranges(r);
            ngx_http_clear_etag(r);
        }

    } else {
        ctx->response.injected.len = 0;
    }

    ngx_chat_upstream_hook(ctx);
    ngx_chat_stall_begin(ctx);
    ngx_chat_filter_record(r, ctx);

    if (ctx->response.early) {
        ngx_chat_nginx_restore_filters(r, ctx->response.filters);
        return NGX_OK;
    }

    return ngx_chat_filter_head(r, ctx);
}


/* Marks the input as read without passing it on. */
static void
ngx_chat_filter_consume(ngx_chain_t *in)
{
    for (; in != NULL; in = in->next) {
        in->buf->pos = in->buf->last;
        in->buf->file_pos = in->buf->file_last;
    }
}


static ngx_uint_t
ngx_chat_filter_is_last(ngx_chain_t *in)
{
    for (; in != NULL; in = in->next) {
        if (in->buf->last_buf) {
            return 1;
        }
    }

    return 0;
}


/* An answer that is no stream, to a client that was promised one. */
static ngx_int_t
ngx_chat_filter_swallow(ngx_http_request_t *r, ngx_chat_ctx_t *ctx,
                        ngx_chain_t *in)
{
    ngx_chain_t out;

    ngx_chat_filter_consume(in);

    /* at once: nobody says here how the rest of it ends */
    if (in == NULL || ctx->response.has_last) {
        return r->connection->buffered ? ngx_chat_next_body_filter(r, NULL)
                                       : NGX_OK;
    }

    ctx->response.has_last = 1;
    out.next = NULL;
    out.buf = ngx_chat_reply_in_band(ctx, r->headers_out.status);
    if (out.buf == NULL) {
        return NGX_ERROR;
    }

    ngx_chat_answer_break(ctx);
    out.buf->last_buf = !ctx->response.truncated;
    out.buf->flush = ctx->response.truncated;
    return ngx_chat_next_body_filter(r, &out);
}


/* The body, to a client that may have left. */
static ngx_int_t
ngx_chat_filter_body(ngx_http_request_t *r, ngx_chat_ctx_t *ctx,
                     ngx_chain_t *out)
{
    ngx_int_t  rc;
    ngx_uint_t waiting = r->connection->buffered;

    if (ngx_chat_orphan_is(ctx)) {
        ngx_chat_filter_consume(out);
        rc = NGX_OK;
    } else {
        rc = ngx_chat_next_body_filter(r, out);
    }

    if (rc == NGX_ERROR && r->connection->error && ngx_chat_orphan_begin(ctx))
    {
        return NGX_OK;
    }

    if (ctx->response.stream != NULL) {
        ngx_chat_output_sent(ctx, out);

        if (waiting && !r->connection->buffered) {
            ngx_chat_stall_restart(ctx);
        }
    }

    return rc;
}


static ngx_int_t
ngx_chat_body_filter(ngx_http_request_t *r, ngx_chain_t *in)
{
    ngx_chain_t    *out;
    ngx_chat_ctx_t *ctx;

    ctx = r == r->main ? ngx_chat_get_ctx(r) : NULL;

    if (ctx == NULL || ctx->response.local || !ctx->response.filtered) {
        return ngx_chat_next_body_filter(r, in);
    }

    if (ctx->response.suppressed) {
        return ngx_chat_filter_swallow(r, ctx, in);
    }

    ngx_chat_orphan_hook(ctx);

    if (ctx->response.stream == NULL) {
        ctx->recorder->chain(ctx, in);
        ctx->response.has_last |= ngx_chat_filter_is_last(in) & 1;
        return ngx_chat_filter_body(r, ctx, in);
    }

    if (ctx->conf->dry_run) {
        ngx_chat_output_observe(ctx, in);
        return ngx_chat_next_body_filter(r, in);
    }

    if (ngx_chat_output(ctx, in, &out) != NGX_OK) {
        return NGX_ERROR;
    }

    if (out == NULL && in != NULL && !r->connection->buffered) {
        return NGX_OK;
    }

    return ngx_chat_filter_body(r, ctx, out);
}


ngx_int_t
ngx_chat_filter_init(ngx_conf_t *cf)
{
    (void) cf;

    ngx_chat_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_chat_header_filter;

    ngx_chat_next_body_filter = ngx_http_top_body_filter;
    ngx_http_top_body_filter = ngx_chat_body_filter;
    return NGX_OK;
}
