/*
 * ngx_chat_output.c: the core's pieces as buffers for the next filter.
 *
 * An upstream takes a buffer for free once its pos has reached its last, so
 * the last run of bytes that survives in an input buffer is carried by that
 * very buffer, and only the runs before it by buffers of our own over the
 * same memory. Bytes of the core's own are copied into blocks of one size,
 * which are used again; the input buffer that they stand for is given back
 * once they are sent, so that an upstream waits for a slow client. Links of
 * the input chain are never changed.
 * Must not know: what the bytes mean.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "response/ngx_chat_filter.h"
#include "metrics/ngx_chat_metrics.h"

#define NGX_CHAT_BLOCK 4096


/* A chain under construction. */
typedef struct {
    ngx_chat_ctx_t *ctx;
    ngx_chain_t    *first;
    ngx_chain_t   **next;
} ngx_chat_chain_t;


static ngx_int_t
ngx_chat_chain_add(ngx_chat_chain_t *chain, ngx_buf_t *b)
{
    ngx_chain_t *cl;

    cl = ngx_alloc_chain_link(chain->ctx->request->pool);
    if (cl == NULL) {
        return NGX_ERROR;
    }

    cl->buf = b;
    cl->next = NULL;
    *chain->next = cl;
    chain->next = &cl->next;
    return NGX_OK;
}


/* A buffer of our own, with a block of memory or without. */
static ngx_buf_t *
ngx_chat_output_buf(ngx_chat_ctx_t *ctx, ngx_uint_t block)
{
    ngx_buf_t          *b;
    ngx_chain_t        *cl, **link;
    ngx_http_request_t *r = ctx->request;

    for (link = &ctx->response.free; *link != NULL; link = &(*link)->next) {
        if (((*link)->buf->start != NULL) == block) {
            cl = *link;
            *link = cl->next;
            b = cl->buf;
            ngx_free_chain(r->pool, cl);
            b->flush = 0;
            b->sync = 0;
            b->last_buf = 0;
            return b;
        }
    }

    b = block ? ngx_create_temp_buf(r->pool, NGX_CHAT_BLOCK)
              : ngx_calloc_buf(r->pool);
    if (b != NULL) {
        b->tag = (ngx_buf_tag_t) &ngx_chat_module;
    }

    return b;
}


/* Bytes of the core's own. */
static ngx_int_t
ngx_chat_output_copy(ngx_chat_chain_t *chain, const u_char *data, size_t len)
{
    size_t     n;
    ngx_buf_t *b;

    while (len != 0) {
        b = ngx_chat_output_buf(chain->ctx, 1);
        if (b == NULL) {
            return NGX_ERROR;
        }

        n = ngx_min(len, (size_t) (b->end - b->start));
        b->pos = b->start;
        b->last = ngx_cpymem(b->pos, data, n);
        b->flush = 1;

        if (ngx_chat_chain_add(chain, b) != NGX_OK) {
            return NGX_ERROR;
        }

        data += n;
        len -= n;
    }

    return NGX_OK;
}


/* A run of bytes of an input buffer, in a buffer of our own. */
static ngx_int_t
ngx_chat_output_slice(ngx_chat_chain_t *chain, const chat_piece_t *piece)
{
    ngx_buf_t *b;

    b = ngx_chat_output_buf(chain->ctx, 0);
    if (b == NULL) {
        return NGX_ERROR;
    }

    b->memory = 1;
    b->pos = (u_char *) piece->bytes.data;
    b->last = b->pos + piece->bytes.len;
    b->flush = 1;
    return ngx_chat_chain_add(chain, b);
}


/* Something without bytes: a flush, the end. */
static ngx_int_t
ngx_chat_output_special(ngx_chat_chain_t *chain, ngx_uint_t last)
{
    ngx_buf_t *b;

    b = ngx_chat_output_buf(chain->ctx, 0);
    if (b == NULL) {
        return NGX_ERROR;
    }

    b->memory = 0;
    b->pos = b->last = NULL;
    b->flush = !last;
    b->last_buf = last;
    return ngx_chat_chain_add(chain, b);
}


/* The upstream has this buffer back when all that goes out has gone. */
static ngx_int_t
ngx_chat_output_take(ngx_chat_ctx_t *ctx, ngx_buf_t *in)
{
    ngx_chain_t *cl;

    cl = ngx_alloc_chain_link(ctx->request->pool);
    if (cl == NULL) {
        return NGX_ERROR;
    }

    cl->buf = in;
    cl->next = ctx->response.taken;
    ctx->response.taken = cl;
    return NGX_OK;
}


/* The pieces of one input buffer (in NULL: of no buffer). */
static ngx_int_t
ngx_chat_output_pieces(ngx_chat_chain_t *chain, ngx_buf_t *in,
                       const chat_piece_t *pieces, size_t n)
{
    size_t    i, carried;
    ngx_int_t rc;

    for (carried = n; carried > 0; carried--) {
        if (pieces[carried - 1].in_input) {
            break;
        }
    }

    for (i = 0; i < n; i++) {
        if (!pieces[i].in_input) {
            rc = ngx_chat_output_copy(chain, pieces[i].bytes.data,
                                      pieces[i].bytes.len);

        } else if (i + 1 < carried) {
            rc = ngx_chat_output_slice(chain, &pieces[i]);

        } else {
            in->pos = (u_char *) pieces[i].bytes.data;
            in->last = in->pos + pieces[i].bytes.len;
            rc = ngx_chat_chain_add(chain, in);
        }

        if (rc != NGX_OK) {
            return NGX_ERROR;
        }
    }

    if (carried != 0 || in == NULL) {
        return NGX_OK;
    }

    if (n != 0) {
        return ngx_chat_output_take(chain->ctx, in);
    }

    in->pos = in->last;
    return NGX_OK;
}


/* What the client's transcript lacks, before the first event. */
static ngx_int_t
ngx_chat_output_inject_first(ngx_chat_chain_t *chain)
{
    ngx_chat_ctx_t *ctx = chain->ctx;

    if (ctx->response.injected_sent || ctx->response.injected.len == 0
        || ctx->dialect->inject_after != NULL)
    {
        return NGX_OK;
    }

    ctx->response.injected_sent = 1;
    ngx_chat_metrics_count(ctx->main, CHAT_COUNT_TOLD,
                           ctx->response.ninjected);
    return ngx_chat_output_copy(chain, ctx->response.injected.data,
                                ctx->response.injected.len);
}


/* The same among the pieces, behind the first event, if it ends in them. */
static ngx_int_t
ngx_chat_output_inject_after(ngx_chat_ctx_t *ctx, const chat_piece_t **pieces,
                             size_t *n)
{
    size_t              i, at = 0;
    chat_rc_e           rc = CHAT_DECLINED;
    chat_piece_t       *list;
    const chat_piece_t *old = *pieces;

    if (ctx->response.injected_sent || ctx->response.injected.len == 0) {
        return NGX_OK;
    }

    for (i = 0; i < *n; i++) {
        rc = chat_follow_find(&ctx->response.injector, old[i].bytes, &at);
        if (rc != CHAT_DECLINED) {
            break;
        }
    }

    if (rc != CHAT_OK) {
        return rc == CHAT_ERROR ? NGX_ERROR : NGX_OK;
    }

    list = ngx_palloc(ctx->request->pool, (*n + 2) * sizeof(*list));
    if (list == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(list, old, (i + 1) * sizeof(*list));
    list[i].bytes.len = at;

    list[i + 1].bytes =
        chat_str(ctx->response.injected.data, ctx->response.injected.len);
    list[i + 1].in_input = 0;

    /* what is left of the piece, maybe nothing */
    ngx_memcpy(&list[i + 2], &old[i], (*n - i) * sizeof(*list));
    list[i + 2].bytes =
        chat_str(old[i].bytes.data + at, old[i].bytes.len - at);

    ctx->response.injected_sent = 1;
    ngx_chat_metrics_count(ctx->main, CHAT_COUNT_TOLD,
                           ctx->response.ninjected);

    *n += list[i + 2].bytes.len == 0 && i + 1 == *n ? 1 : 2;
    *pieces = list;
    return NGX_OK;
}


static ngx_int_t
ngx_chat_output_data(ngx_chat_chain_t *chain, ngx_buf_t *b)
{
    size_t              n;
    chat_rc_e           rc;
    chat_str_t          bytes;
    ngx_chat_ctx_t     *ctx = chain->ctx;
    const chat_piece_t *pieces;
    chat_piece_t        whole;

    bytes = chat_str(b->pos, (size_t) (b->last - b->pos));
    if (bytes.len == 0) {
        return NGX_OK;
    }

    if (ctx->response.passthrough) {
        whole.bytes = bytes;
        whole.in_input = 1;
        return ngx_chat_output_pieces(chain, b, &whole, 1);
    }

    if (ngx_chat_output_inject_first(chain) != NGX_OK) {
        return NGX_ERROR;
    }

    rc = chat_stream_push(ctx->response.stream, bytes, &pieces, &n);
    if (rc != CHAT_OK) {
        return NGX_ERROR;
    }

    ctx->recorder->pieces(ctx, pieces, n);

    return ngx_chat_output_inject_after(ctx, &pieces, &n) == NGX_OK
               ? ngx_chat_output_pieces(chain, b, pieces, n)
               : NGX_ERROR;
}


/* 1 if the last event of the answer tells how it ended. */
static ngx_uint_t
ngx_chat_output_tells(ngx_chat_ctx_t *ctx)
{
    return !chat_stream_info(ctx->response.stream)->foreign
           && ctx->conf->interrupted && !ctx->conf->dry_run;
}


/*
 * 1 if the response must not end as a complete one. reason NULL: the upstream
 * ended its response. An error event alone is not enough for clients that
 * ignore it (dialect->breaks).
 */
static ngx_uint_t
ngx_chat_output_breaks(ngx_chat_ctx_t *ctx, const char *reason)
{
    chat_end_e end = chat_stream_info(ctx->response.stream)->end;

    if (!ngx_chat_output_tells(ctx)) {
        return reason != NULL;
    }

    return ctx->dialect->breaks
           && (end == CHAT_END_INTERRUPTED
               || (reason != NULL && end != CHAT_END_FINISHED));
}


/* The stream is over; reason NULL: as an HTTP body ends. */
static ngx_int_t
ngx_chat_output_end(ngx_chat_chain_t *chain, const char *reason)
{
    size_t              n = 0;
    ngx_int_t           rc;
    ngx_chat_ctx_t     *ctx = chain->ctx;
    const chat_piece_t *pieces;

    if (ctx->response.has_last) {
        return NGX_OK;
    }

    ctx->response.has_last = 1;

    if (ngx_chat_output_inject_first(chain) != NGX_OK
        || chat_stream_finish(ctx->response.stream, reason, 0, &pieces, &n)
               != CHAT_OK)
    {
        return NGX_ERROR;
    }

    ctx->recorder->pieces(ctx, pieces, n);
    ctx->recorder->end(ctx, reason == NULL || ngx_chat_output_tells(ctx));

    rc = ngx_chat_output_inject_after(ctx, &pieces, &n);
    if (rc == NGX_OK) {
        rc = ngx_chat_output_pieces(chain, NULL, pieces, n);
    }

    if (rc == NGX_OK) {
        ngx_chat_attempt_end(ctx, CHAT_END_NONE);
    }

    if (ngx_chat_output_breaks(ctx, reason)) {
        ngx_chat_answer_truncate(ctx);

    } else if (reason != NULL) {
        /* a whole answer after all: the next request may be on its way */
        ctx->request->keepalive = ctx->response.keepalive;
    }

    return rc;
}


/* 1 if the upstream broke off, and somebody is still there. */
static ngx_uint_t
ngx_chat_output_broken(ngx_chat_ctx_t *ctx, ngx_buf_t *b)
{
    ngx_connection_t *c = ctx->request->connection;

    return ctx->response.upstream_rc != NGX_OK && b->flush && !b->last_buf
           && ngx_buf_size(b) == 0 && !ctx->response.has_last
           && (ngx_chat_orphan_is(ctx) || (!c->error && !c->timedout));
}


static ngx_int_t
ngx_chat_output_one(ngx_chat_chain_t *chain, ngx_buf_t *b)
{
    ngx_uint_t      last = b->last_buf;
    ngx_chat_ctx_t *ctx = chain->ctx;

    if (ngx_chat_output_broken(ctx, b)) {
        return ngx_chat_output_end(chain, ctx->response.upstream_reason)
                       == NGX_OK
                   ? ngx_chat_output_special(chain, !ctx->response.truncated)
                   : NGX_ERROR;
    }

    if (ngx_buf_size(b) == 0) {
        if (!last) {
            return b->flush ? ngx_chat_output_special(chain, 0) : NGX_OK;
        }

    } else if (!ngx_buf_in_memory(b)) {
        /* a file: nothing that a stream is served from */
        ctx->response.passthrough = 1;
        ctx->recorder->stop(ctx);
        return ngx_chat_chain_add(chain, b);

    } else {
        b->last_buf = 0;
        if (ngx_chat_output_data(chain, b) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    if (!last) {
        return NGX_OK;
    }

    return ngx_chat_output_end(chain, NULL) == NGX_OK
               ? ngx_chat_output_special(chain, !ctx->response.truncated)
               : NGX_ERROR;
}


ngx_int_t
ngx_chat_output(ngx_chat_ctx_t *ctx, ngx_chain_t *in, ngx_chain_t **out)
{
    ngx_chat_chain_t chain;

    chain.ctx = ctx;
    chain.first = NULL;
    chain.next = &chain.first;

    for (; in != NULL; in = in->next) {
        if (ngx_chat_output_one(&chain, in->buf) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    ngx_chat_attempt_facts(ctx);
    ngx_chat_stall_progress(ctx);
    ctx->recorder->flush(ctx);
    *out = chain.first;
    return NGX_OK;
}


void
ngx_chat_output_observe(ngx_chat_ctx_t *ctx, ngx_chain_t *in)
{
    size_t              n;
    ngx_buf_t          *b;
    const chat_piece_t *pieces;

    for (; in != NULL; in = in->next) {
        b = in->buf;

        if (ngx_buf_size(b) != 0 && !ngx_buf_in_memory(b)) {
            ctx->response.passthrough = 1;
        }

        if (!ctx->response.passthrough && ngx_buf_size(b) != 0
            && chat_stream_push(ctx->response.stream,
                                chat_str(b->pos, (size_t) (b->last - b->pos)),
                                &pieces, &n)
                   != CHAT_OK)
        {
            ctx->response.passthrough = 1;
        }

        if (b->last_buf) {
            ctx->response.has_last = 1;
            (void) chat_stream_finish(ctx->response.stream, NULL, 0, &pieces,
                                      &n);
        }
    }

    ngx_chat_attempt_facts(ctx);

    if (ctx->response.has_last) {
        ngx_chat_attempt_end(ctx, CHAT_END_NONE);
    }
}


void
ngx_chat_output_sent(ngx_chat_ctx_t *ctx, ngx_chain_t *out)
{
    ngx_chain_t *cl;

    ngx_chain_update_chains(ctx->request->pool, &ctx->response.free,
                            &ctx->response.busy, &out,
                            (ngx_buf_tag_t) &ngx_chat_module);

    while (ctx->response.busy == NULL && (cl = ctx->response.taken) != NULL) {
        cl->buf->pos = cl->buf->last;
        ctx->response.taken = cl->next;
        ngx_free_chain(ctx->request->pool, cl);
    }
}
