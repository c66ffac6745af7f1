/*
 * ngx_chat_reply.c: answers that the module makes itself.
 *
 * Refusals, bounces, empty turns, and the comments that keep a waiting client
 * awake. Promises: always the dialect's own form, with the CORS headers that
 * the conversation's stream was served with. Must not know: why.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "record/ngx_chat_index.h"
#include "metrics/ngx_chat_metrics.h"
#include "facts/chat_recording.h"


ngx_int_t
ngx_chat_answer_add_header(ngx_http_request_t *r, ngx_str_t key,
                           ngx_str_t value)
{
    ngx_table_elt_t *h;

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    ngx_memzero(h, sizeof(*h));
    h->hash = 1;
    h->key = key;
    h->value = value;
    return NGX_OK;
}


/* 1 if the answer has a header of this name, but not from text. */
static ngx_uint_t
ngx_chat_answer_has(ngx_http_request_t *r, ngx_str_t name, chat_str_t text)
{
    ngx_table_elt_t        *h;
    ngx_chat_headers_walk_t walk = { &r->headers_out.headers.part, 0 };

    while ((h = ngx_chat_headers_next(&walk)) != NULL) {
        if (h->hash != 0 && h->key.len == name.len
            && ngx_strncasecmp(h->key.data, name.data, name.len) == 0
            && (h->key.data < text.data
                || h->key.data >= text.data + text.len))
        {
            return 1;
        }
    }

    return 0;
}


/*
 * Adds headers from lines, which outlive the request, but none that the answer
 * has already.
 */
static ngx_int_t
ngx_chat_answer_add_lines(ngx_http_request_t *r, chat_str_t text)
{
    ngx_str_t  key, value;
    chat_str_t rest = text, name, content;

    while (chat_record_header_next(&rest, &name, &content)) {
        key.data = (u_char *) name.data;
        key.len = name.len;
        value.data = (u_char *) content.data;
        value.len = content.len;

        /* a page takes none of them twice */
        if (!ngx_chat_answer_has(r, key, text)
            && ngx_chat_answer_add_header(r, key, value) != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_chat_answer_cors(ngx_chat_ctx_t *ctx)
{
    u_char             *text;
    ngx_http_request_t *r = ctx->request;

    if (ctx->barrier.cors.len == 0) {
        return NGX_OK;
    }

    text = ngx_pnalloc(r->pool, ctx->barrier.cors.len);
    if (text == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(text, ctx->barrier.cors.data, ctx->barrier.cors.len);
    return ngx_chat_answer_add_lines(r, chat_str(text, ctx->barrier.cors.len));
}


static void
ngx_chat_answer_type(ngx_http_request_t *r, const char *type)
{
    r->headers_out.content_type.data = (u_char *) type;
    r->headers_out.content_type.len = ngx_strlen(type);
    /* what types are compared by */
    r->headers_out.content_type_len = strcspn(type, ";");
    r->headers_out.content_type_lowcase = NULL;
}


/* Header of an SSE answer (sse) or a JSON one. */
static ngx_int_t
ngx_chat_answer_header(ngx_chat_ctx_t *ctx, ngx_uint_t status, ngx_uint_t sse,
                       off_t length)
{
    const char         *line = ctx->dialect->sse_header;
    ngx_http_request_t *r = ctx->request;
    ngx_str_t           cache_key = ngx_string("Cache-Control");
    ngx_str_t           cache = ngx_string("no-cache");
    ngx_str_t           buffering_key = ngx_string("X-Accel-Buffering");
    ngx_str_t           buffering = ngx_string("no");

    ctx->response.local = 1;
    r->headers_out.status = status;
    r->headers_out.content_length_n = length;

    ngx_chat_answer_type(r, sse ? "text/event-stream" : "application/json");

    if (ngx_chat_answer_add_header(r, cache_key, cache) != NGX_OK) {
        return NGX_ERROR;
    }

    if (sse
        && (ngx_chat_answer_add_header(r, buffering_key, buffering) != NGX_OK
            || (line != NULL
                && ngx_chat_answer_add_lines(r, chat_cstr(line)) != NGX_OK)))
    {
        return NGX_ERROR;
    }

    return ngx_http_send_header(r);
}


/* out as one buffer in the pool; frees out. NULL: no memory. */
static ngx_buf_t *
ngx_chat_answer_buf(ngx_http_request_t *r, chat_buf_t *out)
{
    ngx_buf_t *b = NULL;

    if (!out->failed && out->len != 0) {
        b = ngx_create_temp_buf(r->pool, out->len);
        if (b != NULL) {
            b->last = ngx_cpymem(b->last, out->data, out->len);
        }
    }

    chat_buf_free(out);
    return b;
}


ngx_int_t
ngx_chat_answer_text(ngx_http_request_t *r, ngx_uint_t status,
                     const char *type, chat_buf_t *text)
{
    ngx_int_t   rc;
    ngx_buf_t  *b = ngx_chat_answer_buf(r, text);
    ngx_chain_t out;

    if (b == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    r->headers_out.status = status;
    r->headers_out.content_length_n = b->last - b->pos;
    ngx_chat_answer_type(r, type);

    rc = ngx_http_send_header(r);
    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    b->last_buf = r == r->main;
    b->last_in_chain = 1;
    out.buf = b;
    out.next = NULL;
    return ngx_http_output_filter(r, &out);
}


static ngx_int_t
ngx_chat_answer_write(ngx_chat_ctx_t *ctx, ngx_buf_t *b)
{
    ngx_chain_t out;

    out.buf = b;
    out.next = NULL;
    return ngx_http_output_filter(ctx->request, &out);
}


ngx_int_t
ngx_chat_answer_beat(ngx_chat_ctx_t *ctx)
{
    ngx_buf_t        *b;
    static const char comment[] = ": chat-hold\n\n";

    if (ctx->request->connection->buffered) {
        return NGX_OK; /* the client does not read */
    }

    b = ngx_calloc_buf(ctx->request->pool);
    if (b == NULL) {
        return NGX_ERROR;
    }

    b->memory = 1;
    b->flush = 1;
    b->pos = (u_char *) comment;
    b->last = b->pos + sizeof(comment) - 1;
    return ngx_chat_answer_write(ctx, b);
}


ngx_int_t
ngx_chat_answer_early(ngx_chat_ctx_t *ctx)
{
    size_t              size = sizeof(void *) * ngx_http_max_module;
    ngx_int_t           rc;
    ngx_http_request_t *r = ctx->request;

    ctx->response.filters = ngx_palloc(r->pool, size);
    if (ctx->response.filters == NULL) {
        return NGX_ERROR;
    }

    rc = ngx_chat_answer_header(ctx, NGX_HTTP_OK, 1, -1);
    ctx->response.local = 0;
    if (rc == NGX_ERROR || rc > NGX_OK) {
        return NGX_ERROR;
    }

    ngx_memcpy(ctx->response.filters, r->ctx, size);
    ctx->response.early = 1;
    return ngx_chat_answer_beat(ctx);
}


void
ngx_chat_answer_truncate(ngx_chat_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;

    ctx->response.truncated = 1;
    r->keepalive = 0;
    /* a FIN: a reset would take what is still on its way to the client */
    r->lingering_close = 1;
}


void
ngx_chat_answer_break(ngx_chat_ctx_t *ctx)
{
    /* the end of a page around a subrequest is not ours */
    if (ctx->dialect->breaks && ctx->request == ctx->request->main) {
        ngx_chat_answer_truncate(ctx);
    }
}


/* Sends header and body and ends the request. b NULL: no memory. */
static void
ngx_chat_answer_end(ngx_chat_ctx_t *ctx, ngx_uint_t status, ngx_uint_t sse,
                    ngx_buf_t *b)
{
    ngx_int_t           rc;
    ngx_http_request_t *r = ctx->request;

    ngx_chat_watch_end(ctx);
    ngx_chat_follow_leave(ctx);
    ngx_chat_hold_end(ctx);
    ngx_chat_index_unhold(ctx);
    ctx->state = NGX_CHAT_ANSWERED;
    ngx_chat_metrics_verdict(ctx);

    if (b == NULL) {
        ngx_http_finalize_request(r, ctx->response.early
                                         ? NGX_ERROR
                                         : NGX_HTTP_INTERNAL_SERVER_ERROR);
        return;
    }

    if (ctx->response.early) {
        ctx->response.local = 1;

    } else {
        rc = ngx_chat_answer_header(ctx, status, sse, b->last - b->pos);
        if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
            ngx_http_finalize_request(r, rc);
            return;
        }
    }

    b->last_buf = !ctx->response.truncated;
    b->flush = ctx->response.truncated;
    ngx_http_finalize_request(r, ngx_chat_answer_write(ctx, b));
}


static void
ngx_chat_answer_refusal(ngx_chat_ctx_t *ctx, ngx_uint_t status,
                        const char *code, const char *message,
                        chat_refusal_t *refusal)
{
    ngx_memzero(refusal, sizeof(*refusal));
    refusal->status = (unsigned) status;
    refusal->code = code;
    refusal->message = message;

    if (ngx_strcmp(code, "batch_incomplete") == 0) {
        refusal->ids = ctx->barrier.missing;
        refusal->nids = ctx->barrier.nmissing;
    }
}


ngx_buf_t *
ngx_chat_answer_in_band(ngx_chat_ctx_t *ctx, ngx_uint_t status,
                        const char *code, const char *message)
{
    chat_buf_t     out;
    chat_refusal_t refusal;

    ngx_memzero(&out, sizeof(out));
    ngx_chat_answer_refusal(ctx, status, code, message, &refusal);
    ctx->dialect->refuse_in_band(&refusal, &out);
    return ngx_chat_answer_buf(ctx->request, &out);
}


/* After how many seconds its client may come again; 0: that is not said. */
static uint32_t
ngx_chat_answer_after(ngx_chat_ctx_t *ctx, ngx_uint_t status, const char *code)
{
    /* all who were refused together come back together */
    if (ngx_strcmp(code, "upstream_error") == 0
        && ctx->barrier.decision.after != 0)
    {
        return ctx->barrier.decision.after;
    }

    return ngx_strcmp(code, "batch_incomplete") == 0
           || ngx_strcmp(code, "aborted") == 0
           || status == NGX_HTTP_SERVICE_UNAVAILABLE;
}


/* What a client library is to do with the refusal. */
static ngx_int_t
ngx_chat_answer_advice(ngx_chat_ctx_t *ctx, ngx_uint_t status,
                       const char *code)
{
    uint32_t  seconds = ngx_chat_answer_after(ctx, status, code);
    ngx_str_t after, after_key = ngx_string("Retry-After");
    ngx_str_t retry_key = ngx_string("X-Should-Retry");
    ngx_str_t retry = ngx_string("false");

    if (seconds != 0) {
        after.data = ngx_pnalloc(ctx->request->pool, NGX_INT32_LEN);
        if (after.data == NULL) {
            return NGX_ERROR;
        }

        after.len =
            (size_t) (ngx_sprintf(after.data, "%uD", seconds) - after.data);
        return ngx_chat_answer_add_header(ctx->request, after_key, after);
    }

    return status == NGX_HTTP_CONFLICT
               ? ngx_chat_answer_add_header(ctx->request, retry_key, retry)
               : NGX_OK;
}


static ngx_chat_verdict_e
ngx_chat_answer_verdict(const char *code)
{
    return ngx_strcmp(code, "batch_incomplete") == 0 ? NGX_CHAT_VERDICT_BOUNCED
           : ngx_strcmp(code, "superseded") == 0
                   || ngx_strcmp(code, "cleared") == 0
               ? NGX_CHAT_VERDICT_SUPERSEDED
           : ngx_strcmp(code, "store_unavailable") == 0
                   || ngx_strcmp(code, "store_full") == 0
                   || ngx_strncmp(code, "held_", 5) == 0
                   || ngx_strcmp(code, "loop") == 0
                   || ngx_strcmp(code, "stopped") == 0
               ? NGX_CHAT_VERDICT_REFUSED
               : NGX_CHAT_VERDICT_CONFLICT;
}


void
ngx_chat_answer_refuse(ngx_chat_ctx_t *ctx, ngx_uint_t status,
                       const char *code, const char *message)
{
    ngx_buf_t     *b;
    chat_buf_t     out;
    chat_refusal_t refusal;

    ctx->verdict = ngx_chat_answer_verdict(code);

    if (ctx->response.early) {
        b = ngx_chat_answer_in_band(ctx, status, code, message);
        ngx_chat_answer_break(ctx);
        ngx_chat_answer_end(ctx, status, 1, b);
        return;
    }

    ngx_memzero(&out, sizeof(out));
    ngx_chat_answer_refusal(ctx, status, code, message, &refusal);
    ctx->dialect->refuse(&refusal, &out);

    if (ngx_chat_answer_advice(ctx, status, code) != NGX_OK) {
        chat_buf_free(&out);
    }

    ngx_chat_answer_end(ctx, status, 0,
                        ngx_chat_answer_buf(ctx->request, &out));
}


ngx_buf_t *
ngx_chat_answer_interrupted(ngx_chat_ctx_t *ctx, const char *reason,
                            ngx_uint_t resumable)
{
    chat_buf_t out;

    ngx_memzero(&out, sizeof(out));
    chat_dialect_interrupted(ctx->dialect, reason, (int) resumable, &out);
    return ngx_chat_answer_buf(ctx->request, &out);
}


void
ngx_chat_answer_broken(ngx_chat_ctx_t *ctx, const char *reason)
{
    ngx_buf_t          *b;
    chat_buf_t          text;
    chat_interruption_t in = { reason, 0, NULL, 0 };

    if (ctx->response.early) {
        ctx->verdict = NGX_CHAT_VERDICT_CONFLICT;
        b = ngx_chat_answer_interrupted(ctx, reason, 0);
        ngx_chat_answer_break(ctx);
        ngx_chat_answer_end(ctx, NGX_HTTP_BAD_GATEWAY, 1, b);
        return;
    }

    ngx_memzero(&text, sizeof(text));
    chat_interruption_text(&in, &text);
    chat_buf_add(&text, chat_str("", 1));

    ngx_chat_answer_refuse(ctx, NGX_HTTP_BAD_GATEWAY, "stream_interrupted",
                           text.failed ? "terminated" : (char *) text.data);
    chat_buf_free(&text);
}


/* The results that the client's transcript lacks. */
static void
ngx_chat_answer_injectable(ngx_chat_ctx_t *ctx, chat_results_t *told)
{
    chat_results_init(told, ctx->body.arena);

    if (ctx->body.arena != NULL) {
        (void) chat_results_told(&ctx->body.results, told);
    }
}


void
ngx_chat_answer_bounce(ngx_chat_ctx_t *ctx)
{
    chat_buf_t     out;
    chat_results_t told;

    ngx_memzero(&out, sizeof(out));
    ngx_chat_answer_injectable(ctx, &told);
    ctx->dialect->bounce(&ctx->body.rq, told.items, told.count, &out);

    ngx_chat_metrics_count(ctx->main, CHAT_COUNT_TOLD, told.count);
    ctx->verdict = NGX_CHAT_VERDICT_BOUNCED;
    ngx_chat_answer_end(ctx, NGX_HTTP_OK, 1,
                        ngx_chat_answer_buf(ctx->request, &out));
}


void
ngx_chat_answer_empty(ngx_chat_ctx_t *ctx)
{
    chat_rc_e      rc;
    chat_buf_t     out;
    chat_results_t told;

    ngx_memzero(&out, sizeof(out));
    ngx_chat_answer_injectable(ctx, &told);

    rc = ctx->dialect->empty(&ctx->body.rq, told.items, told.count, &out);
    if (rc == CHAT_DECLINED) {
        chat_buf_free(&out);
        ngx_chat_answer_refuse(ctx, NGX_HTTP_CONFLICT, "conflict",
                               "another request carried these results and "
                               "has the answer");
        return;
    }

    ngx_chat_metrics_count(ctx->main, CHAT_COUNT_TOLD, told.count);
    ctx->verdict = NGX_CHAT_VERDICT_EMPTY;
    ngx_chat_answer_end(ctx, NGX_HTTP_OK, (ngx_uint_t) ctx->body.rq.stream,
                        ngx_chat_answer_buf(ctx->request, &out));
}
