/*
 * ngx_chat_filter.c: the answer of an upstream on its way to the client.
 *
 * The header filter decides whether the answer is a stream that the core can
 * read, and hooks into the upstream to learn how the stream ended. The body
 * filter gives the bytes to the core's chat_stream and passes on what comes
 * out. Promises: an answer that is not such a stream is not touched; the
 * upstream's buffers are never kept, and never copied where the core lets
 * their bytes pass.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "base/ngx_chat_nginx_internals.h"
#include "response/ngx_chat_filter.h"


static ngx_http_output_header_filter_pt next_header_filter;
static ngx_http_output_body_filter_pt   next_body_filter;


ngx_uint_t
ngx_chat_filter_is_event_stream(chat_str_t type)
{
    return chat_str_starts_any_case(type, "text/event-stream");
}


static ngx_uint_t
is_sse(ngx_http_request_t *r)
{
    return r->headers_out.status == NGX_HTTP_OK
           && r->headers_out.content_encoding == NULL
           && ngx_chat_filter_is_event_stream(
               ngx_chat_str(&r->headers_out.content_type));
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
    sc->kind = ngx_chat_kind;
    sc->data = conf;
}


/* Opens the core's stream for this answer; NGX_ERROR: no memory. */
static ngx_int_t
open_stream(ngx_chat_ctx_t *ctx)
{
    chat_buf_t           cors = { 0 };
    chat_request_t      *rq = &ctx->body.rq;
    chat_follow_conf_t   fc;
    chat_stream_conf_t   sc;
    ngx_chat_loc_conf_t *conf = ctx->conf;

    if (ctx->body.arena == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(&fc, sizeof(fc));
    fc.dialect = ctx->dialect;
    fc.injected = ctx->response.injected;
    fc.max_frame = conf->max_event;

    if (chat_follow_init(&ctx->filter->injector, &fc) != CHAT_OK) {
        return NGX_ERROR;
    }

    ngx_chat_filter_conf(conf, ctx->dialect, &sc);
    sc.request = rq;
    sc.known = ctx->barrier.known;
    sc.nknown = ctx->barrier.nknown;

    if ((ctx->barrier.known == NULL || ctx->dialect->transcript)
        && rq->ncalls > rq->turn)
    {
        sc.known = &rq->calls[rq->turn];
        sc.nknown = rq->ncalls - rq->turn;
    }

    sc.replay = (int) conf->replay_filter;
    sc.scope = ctx->scope;
    sc.began = ngx_chat_now();
    ngx_chat_answer_lines(ctx->request, 1, &cors);
    (void) chat_buf_move(&cors, ctx->kept, &sc.cors);
    sc.observe = (int) conf->dry_run;
    sc.resumable = ctx->stream_id != NULL;

    if (ctx->worker->store != NULL) {
        sc.worker = ctx->worker->store->worker;
    }

    if (ctx->stream_id != NULL && ctx->dialect->takes_ids) {
        sc.number = chat_cstr(ctx->stream_id);
    }

    ctx->response.stream = chat_stream_create(&sc);
    return ctx->response.stream ? NGX_OK : NGX_ERROR;
}


static void
close_filter(ngx_chat_ctx_t *ctx)
{
    ngx_chat_event_cancel(&ctx->filter->stall.event);
    chat_follow_free(&ctx->filter->injector);
}


/* Sends the header, unless the client has left. */
static ngx_int_t
send_header(ngx_http_request_t *r, ngx_chat_ctx_t *ctx)
{
    ngx_int_t rc;

    if (ctx->response.early) {
        ngx_chat_nginx_restore_filters(r, ctx->response.filters);
        return NGX_OK;
    }

    if (ngx_chat_orphan_is(ctx)) {
        r->header_sent = 1;
        return NGX_OK;
    }

    rc = next_header_filter(r);

    if (rc > NGX_OK) {
        /* a filter refuses the request: an error page takes its place */
        ngx_chat_writer_end(ctx, 0);
    }

    return rc == NGX_ERROR && r->connection->error
                   && ngx_chat_orphan_begin(ctx)
               ? NGX_OK
               : rc;
}


/* Reports the status that the client gets, now or as an event. */
static void
report_status(ngx_http_request_t *r, ngx_chat_ctx_t *ctx)
{
    ctx->response.status = (uint32_t) r->headers_out.status;

    if (ctx->response.early && !is_sse(r)) {
        /* the client gets an error event, whatever the answer is */
        ctx->response.mode = NGX_CHAT_ANSWER_SUPPRESSED;

        if (ctx->response.status < 300) {
            ctx->response.status = NGX_HTTP_BAD_GATEWAY;
        }
    }

    ctx->step(ctx, NGX_CHAT_EVENT_ANSWER);
}


/* Begins to filter the answer; NGX_ERROR: no memory. */
static ngx_int_t
begin_filter(ngx_http_request_t *r, ngx_chat_ctx_t *ctx)
{
    ctx->filter = chat_arena_alloc(ctx->kept, sizeof(ngx_chat_filter_t));
    if (ctx->filter == NULL) {
        return NGX_ERROR;
    }

    ctx->cleanups[NGX_CHAT_CLEANUP_FILTER] = close_filter;

    if (ctx->stream_id != NULL
        && ngx_chat_answer_add_header(r, chat_cstr("X-Chat-Stream"),
                                      chat_cstr(ctx->stream_id))
               != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (!is_sse(r) || r->header_only) {
        ctx->response.injected.len = 0;

    } else if (open_stream(ctx) != NGX_OK) {
        return NGX_ERROR;

    } else {
        r->filter_need_in_memory = 1;

        if (!ctx->conf->dry_run) {
            ngx_http_clear_content_length(r);
            ngx_http_clear_accept_ranges(r);
            ngx_http_clear_etag(r);
        }
    }

    ngx_chat_upstream_hook(ctx);
    report_status(r, ctx);

    if (ctx->writer == NULL) {
        ngx_chat_orphan_cancel(ctx);
        return NGX_OK;
    }

    r->filter_need_in_memory = 1;

    if (r->upstream != NULL && !r->upstream->cacheable && !r->upstream->store)
    {
        /* as a stream's: it may outlive its client */
        r->upstream->buffering = 0;
    }

    return NGX_OK;
}


static ngx_int_t
on_header(ngx_http_request_t *r)
{
    ngx_chat_ctx_t *ctx = r == r->main ? ngx_chat_get_ctx(r) : NULL;

    /* only here is it known what add_header has brought */
    if (ctx != NULL && ctx->response.mode == NGX_CHAT_ANSWER_LOCAL
        && ngx_chat_answer_cors(ctx) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (ctx == NULL || ctx->dialect == NULL
        || ctx->response.mode == NGX_CHAT_ANSWER_LOCAL || ctx->filter != NULL
        || ctx->state != NGX_CHAT_GONE_ON)
    {
        return next_header_filter(r);
    }

    return begin_filter(r, ctx) == NGX_OK ? send_header(r, ctx) : NGX_ERROR;
}


/* Marks the input as read without passing it on. */
static void
consume(ngx_chain_t *in)
{
    for (; in != NULL; in = in->next) {
        in->buf->pos = in->buf->last;
        in->buf->file_pos = in->buf->file_last;
    }
}


/* Records an answer that is no stream. */
static void
record_buffers(ngx_chat_ctx_t *ctx, ngx_chain_t *in)
{
    ngx_buf_t   *b;
    chat_piece_t piece = { .in_input = 1 };

    for (; in != NULL; in = in->next) {
        b = in->buf;

        if (ngx_buf_in_memory(b)) {
            piece.bytes = chat_str(b->pos, (size_t) (b->last - b->pos));
            ngx_chat_writer_add(ctx, &piece, 1);
        }

        if (b->last_buf) {
            ngx_chat_writer_end(ctx, 1);
            ctx->response.has_last = 1;
        }
    }
}


/* An error event, to a client that was promised a stream, and gets none. */
static ngx_int_t
send_error(ngx_http_request_t *r, ngx_chat_ctx_t *ctx, ngx_chain_t *in)
{
    ngx_chain_t out;

    consume(in);

    /* at once: the filter may not see the end of the answer */
    if (in == NULL || ctx->response.has_last) {
        return r->connection->buffered ? next_body_filter(r, NULL) : NGX_OK;
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
    return next_body_filter(r, &out);
}


/* Sends the body, unless the client has left. */
static ngx_int_t
send_body(ngx_http_request_t *r, ngx_chat_ctx_t *ctx, ngx_chain_t *out)
{
    ngx_int_t  rc = NGX_OK;
    ngx_uint_t waiting = r->connection->buffered;

    if (ngx_chat_orphan_is(ctx)) {
        consume(out);
    } else {
        rc = next_body_filter(r, out);
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
on_body(ngx_http_request_t *r, ngx_chain_t *in)
{
    ngx_chain_t    *out;
    ngx_chat_ctx_t *ctx = r == r->main ? ngx_chat_get_ctx(r) : NULL;

    if (ctx == NULL || ctx->response.mode == NGX_CHAT_ANSWER_LOCAL
        || ctx->filter == NULL)
    {
        return next_body_filter(r, in);
    }

    if (ctx->response.mode == NGX_CHAT_ANSWER_SUPPRESSED) {
        return send_error(r, ctx, in);
    }

    ngx_chat_orphan_hook(ctx);

    if (ctx->response.stream == NULL) {
        record_buffers(ctx, in);
        return send_body(r, ctx, in);
    }

    if (ctx->conf->dry_run) {
        ngx_chat_output_observe(ctx, in);
        return next_body_filter(r, in);
    }

    if (ngx_chat_output(ctx, in, &out) != NGX_OK) {
        return NGX_ERROR;
    }

    return out == NULL && in != NULL && !r->connection->buffered
               ? NGX_OK
               : send_body(r, ctx, out);
}


ngx_int_t
ngx_chat_filter_init(ngx_conf_t *cf)
{
    next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = on_header;

    next_body_filter = ngx_http_top_body_filter;
    ngx_http_top_body_filter = on_body;
    return NGX_OK;
}
