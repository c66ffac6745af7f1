/*
 * ngx_chat_output.c: the core's pieces as buffers for the next filter.
 *
 * An upstream takes a buffer for free once its pos has reached its last. So
 * the last run of bytes that survives in an input buffer is carried by that
 * very buffer, and runs before it by buffers of our own over the same memory.
 * Bytes of the core's own are copied into blocks, which are used again; the
 * input buffer that they stand for is given back once they are sent, so that
 * an upstream waits for a slow client. Links of the input chain are never
 * changed. The filter needs its input in memory, so no buffer is a file's.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "base/ngx_chat_nginx_internals.h"
#include "response/ngx_chat_filter.h"
#include "metrics/ngx_chat_metrics.h"

#define NGX_CHAT_BLOCK 8192 /* a buffer of 4 KB with its numbers */


/* A chain under construction. */
typedef struct {
    ngx_chat_ctx_t *ctx;
    ngx_chain_t    *first;
    ngx_chain_t   **next;
    ngx_uint_t      failed; /* 1: the answer breaks off; stays 1 */
    ngx_uint_t      whole;  /* 1: the input is the last of the upstream */
    ngx_buf_t       spare;  /* without memory, for what is not sent */
} ngx_chat_chain_t;


static void
append(ngx_chat_chain_t *chain, ngx_chain_t *cl)
{
    cl->next = NULL;
    *chain->next = cl;
    chain->next = &cl->next;
}


/* Adds an empty buffer of our own that flushes. */
static ngx_buf_t *
add_buf(ngx_chat_chain_t *chain)
{
    u_char      *start, *end;
    ngx_buf_t   *b;
    ngx_chain_t *cl = ngx_chain_get_free_buf(chain->ctx->request->pool,
                                             &chain->ctx->filter->free);

    if (cl == NULL) {
        chain->failed = 1;
        return memset(&chain->spare, 0, sizeof(ngx_buf_t));
    }

    b = cl->buf;
    start = b->start;
    end = b->end;
    ngx_memzero(b, sizeof(*b));
    b->start = start;
    b->end = end;
    b->flush = 1;
    b->tag = (ngx_buf_tag_t) &ngx_chat_module;

    append(chain, cl);
    return b;
}


/* A link of our own to an input buffer; NULL without memory. */
static ngx_chain_t *
link_input(ngx_chat_chain_t *chain, ngx_buf_t *in)
{
    ngx_chain_t *cl = ngx_alloc_chain_link(chain->ctx->request->pool);

    if (cl == NULL) {
        chain->failed = 1;
    } else {
        cl->buf = in;
    }

    return cl;
}


/* Adds an input buffer as it is. */
static void
add_input(ngx_chat_chain_t *chain, ngx_buf_t *in)
{
    ngx_chain_t *cl = link_input(chain, in);

    if (cl != NULL) {
        append(chain, cl);
    }
}


/* Adds bytes that do not lie in the input. */
static void
add_copy(ngx_chat_chain_t *chain, chat_str_t bytes)
{
    size_t     n;
    ngx_buf_t *b;

    while (bytes.len != 0 && !chain->failed) {
        b = add_buf(chain);

        if (b->start == NULL) {
            b->start = ngx_palloc(chain->ctx->request->pool, NGX_CHAT_BLOCK);
            if (b->start == NULL) {
                chain->failed = 1;
                return;
            }

            b->end = b->start + NGX_CHAT_BLOCK;
        }

        n = ngx_min(bytes.len, NGX_CHAT_BLOCK);
        b->temporary = 1;
        b->pos = b->start;
        b->last = ngx_cpymem(b->pos, bytes.data, n);
        bytes = chat_str(bytes.data + n, bytes.len - n);
    }
}


/* The upstream gets this buffer back when all output has been sent. */
static void
take_input(ngx_chat_chain_t *chain, ngx_buf_t *in)
{
    ngx_chain_t *cl = link_input(chain, in);

    if (cl != NULL) {
        cl->next = chain->ctx->filter->taken;
        chain->ctx->filter->taken = cl;
    }
}


/* Adds the events that the client's transcript lacks. */
static void
add_injected(ngx_chat_chain_t *chain)
{
    ngx_chat_ctx_t *ctx = chain->ctx;

    ngx_chat_metrics_of(ctx->worker)->counts[CHAT_COUNT_INJECTED] +=
        ctx->response.ninjected;
    add_copy(chain, ctx->response.injected);
    ctx->response.injected.len = 0;
}


/* 1 if events are due: before: in front of the first event, else behind. */
static ngx_uint_t
must_inject(ngx_chat_ctx_t *ctx, ngx_uint_t before)
{
    return ctx->response.injected.len != 0
           && (ctx->dialect->inject_after == NULL) == before;
}


/* Adds a piece; carrier: the input buffer, if it carries this one. */
static void
add_piece(ngx_chat_chain_t *chain, chat_piece_t piece, ngx_buf_t *carrier)
{
    ngx_buf_t *b = carrier;

    if (!piece.in_input) {
        add_copy(chain, piece.bytes);
        return;
    }

    if (carrier == NULL) {
        b = add_buf(chain);
        b->memory = 1;
    } else {
        add_input(chain, carrier);
    }

    b->pos = (u_char *) piece.bytes.data;
    b->last = b->pos + piece.bytes.len;
}


/* Adds a piece, and the injected events behind the first event if that ends
 * in the piece. */
static void
add_around(ngx_chat_chain_t *chain, chat_piece_t piece, ngx_buf_t *carrier)
{
    size_t       at;
    chat_piece_t front = piece;
    chat_rc_e    rc =
        chat_follow_find(&chain->ctx->filter->injector, piece.bytes, &at);

    if (rc == CHAT_OK && at != piece.bytes.len) {
        front.bytes.len = at;
        add_piece(chain, front, NULL);
        add_injected(chain);
        piece.bytes = chat_str(piece.bytes.data + at, piece.bytes.len - at);
        add_piece(chain, piece, carrier);
        return;
    }

    add_piece(chain, piece, carrier);

    if (rc == CHAT_OK) {
        add_injected(chain);
    } else if (rc != CHAT_DECLINED) {
        chain->failed = 1;
    }
}


/* Adds what the core has made of an input buffer, or (NULL) of the end. */
static void
add_pieces(ngx_chat_chain_t *chain, ngx_buf_t *in, chat_rc_e rc,
           const chat_piece_t *pieces, size_t n)
{
    size_t          i, carried;
    ngx_buf_t      *carrier;
    ngx_chat_ctx_t *ctx = chain->ctx;

    if (must_inject(ctx, 1)) {
        add_injected(chain);
    }

    chain->failed |= rc != CHAT_OK;
    if (chain->failed) {
        return;
    }

    carried = chain->whole ? 0 : n;
    while (carried > 0 && !pieces[carried - 1].in_input) {
        carried--;
    }

    if (n != 0) {
        ngx_chat_writer_add(ctx, pieces, n);
    }

    for (i = 0; i < n && !chain->failed; i++) {
        carrier = i + 1 == carried ? in : NULL;

        if (must_inject(ctx, 0)) {
            add_around(chain, pieces[i], carrier);
        } else {
            add_piece(chain, pieces[i], carrier);
        }
    }

    if ((n == 0 || chain->whole) && in != NULL) {
        in->pos = in->last;
    } else if (carried == 0 && in != NULL) {
        take_input(chain, in);
    }
}


/* 1 if the last event of the answer says how it ended. */
static ngx_uint_t
says_end(ngx_chat_ctx_t *ctx)
{
    return !chat_stream_info(ctx->response.stream)->foreign
           && !ctx->conf->dry_run;
}


/*
 * 1 if the response must not end as a complete one. reason NULL: the upstream
 * ended its response. An error event alone is not enough for clients that
 * ignore it (dialect->provider).
 */
static ngx_uint_t
must_truncate(ngx_chat_ctx_t *ctx, const char *reason)
{
    chat_end_e end = chat_stream_info(ctx->response.stream)->end;

    if (!says_end(ctx)) {
        return reason != NULL;
    }

    return ctx->dialect->provider
           && (end == CHAT_END_INTERRUPTED
               || (reason != NULL && end != CHAT_END_FINISHED));
}


/* Finishes the stream; reason NULL: as an HTTP body ends. */
static void
finish(ngx_chat_chain_t *chain, const char *reason)
{
    size_t              n;
    chat_rc_e           rc;
    ngx_chat_ctx_t     *ctx = chain->ctx;
    const chat_piece_t *pieces;

    ctx->response.has_last = 1;

    rc = chat_stream_finish(ctx->response.stream, reason, 0, &pieces, &n);
    add_pieces(chain, NULL, rc, pieces, n);
    if (chain->failed) {
        return;
    }

    ngx_chat_writer_end(ctx, reason == NULL || says_end(ctx));
    ctx->step(ctx, NGX_CHAT_EVENT_END);

    if (must_truncate(ctx, reason)) {
        ngx_chat_answer_truncate(ctx);

    } else if (reason != NULL) {
        /* a whole answer after all: the next request may follow */
        ctx->request->keepalive = ctx->filter->keepalive;
    }
}


/* Adds the end of the stream, which is finished once. */
static void
add_end(ngx_chat_chain_t *chain, const char *reason)
{
    ngx_buf_t   *b;
    ngx_chain_t *cl;

    if (!chain->ctx->response.has_last) {
        finish(chain, reason);
    }

    cl = chain->first;

    if (!chain->ctx->response.truncated) {
        b = add_buf(chain);
        b->flush = 0;
        b->last_buf = 1;

    } else if (cl == NULL) {
        (void) add_buf(chain);

    } else {
        /* an empty buffer behind it would let sub_filter keep bytes back */
        while (cl->next != NULL) {
            cl = cl->next;
        }

        cl->buf->flush = 1;
    }
}


/* 1 if this flush means that the upstream broke off, and that its client, or
 * a follower of an orphaned upstream, must learn it. */
static ngx_uint_t
is_break(ngx_chat_ctx_t *ctx, ngx_buf_t *b)
{
    ngx_connection_t *c = ctx->request->connection;

    return ctx->response.upstream_rc != NGX_OK && b->flush && !b->last_buf
           && ngx_buf_size(b) == 0 && !ctx->response.has_last
           && (ngx_chat_orphan_is(ctx) || (!c->error && !c->timedout));
}


static void
add_buffer(ngx_chat_chain_t *chain, ngx_buf_t *b)
{
    size_t              n;
    chat_rc_e           rc;
    chat_str_t          bytes = chat_str(b->pos, (size_t) (b->last - b->pos));
    ngx_uint_t          last = b->last_buf;
    ngx_chat_ctx_t     *ctx = chain->ctx;
    const chat_piece_t *pieces;

    if (is_break(ctx, b)) {
        add_end(chain, ctx->response.upstream_reason);
        return;
    }

    if (ngx_buf_size(b) != 0) {
        b->last_buf = 0;
        rc = chat_stream_push(ctx->response.stream, bytes, &pieces, &n);
        add_pieces(chain, b, rc, pieces, n);

    } else if (b->flush && !last) {
        /* ours would be used again while a filter behind still has it */
        add_input(chain, b);
    }

    if (last && !chain->failed) {
        add_end(chain, NULL);
    }
}


/*
 * 1 if the input is the last that the upstream brings. Once it is consumed,
 * the upstream ends the body before it returns, and its buffer is read no
 * more: what is made of the input can wait for that end, and leave with it.
 * Not if earlier bytes still wait for the client, or if the upstream lasts
 * until the client has taken all: the end and the facts would wait, too.
 */
static ngx_uint_t
is_whole(ngx_chat_ctx_t *ctx, ngx_chain_t *in)
{
    ngx_http_upstream_t *u = ctx->request->upstream;

    if (in == NULL || u == NULL || u->buffering || u->length != 0
        || u->busy_bufs != NULL || ngx_chat_nginx_ignores_abort(ctx->request))
    {
        return 0;
    }

    while (in != NULL && in->buf->tag == u->output.tag) {
        in = in->next;
    }

    return in == NULL;
}


ngx_int_t
ngx_chat_output(ngx_chat_ctx_t *ctx, ngx_chain_t *in, ngx_chain_t **out)
{
    ngx_chat_chain_t chain;

    chain.ctx = ctx;
    chain.first = ctx->filter->held;
    chain.next = &chain.first;
    chain.failed = 0;
    chain.whole = is_whole(ctx, in);

    while (*chain.next != NULL) {
        chain.next = &(*chain.next)->next;
    }

    for (; in != NULL && !chain.failed; in = in->next) {
        add_buffer(&chain, in->buf);
    }

    if (chain.failed) {
        return NGX_ERROR;
    }

    ngx_chat_stall_progress(ctx);
    ctx->filter->held = chain.whole ? chain.first : NULL;
    *out = chain.whole ? NULL : chain.first;

    if (!chain.whole) {
        ctx->step(ctx, NGX_CHAT_EVENT_STREAM);
    }

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

        if (ngx_buf_size(b) != 0) {
            /* without memory it reads no more */
            (void) chat_stream_push(
                ctx->response.stream,
                chat_str(b->pos, (size_t) (b->last - b->pos)), &pieces, &n);
        }

        if (b->last_buf) {
            ctx->response.has_last = 1;
            (void) chat_stream_finish(ctx->response.stream, NULL, 0, &pieces,
                                      &n);
        }
    }

    ctx->step(ctx, NGX_CHAT_EVENT_STREAM);

    if (ctx->response.has_last) {
        ctx->step(ctx, NGX_CHAT_EVENT_END);
    }
}


void
ngx_chat_output_sent(ngx_chat_ctx_t *ctx, ngx_chain_t *out)
{
    ngx_chain_t       *cl;
    ngx_chat_filter_t *filter = ctx->filter;

    ngx_chain_update_chains(ctx->request->pool, &filter->free, &filter->busy,
                            &out, (ngx_buf_tag_t) &ngx_chat_module);

    while (filter->busy == NULL && (cl = filter->taken) != NULL) {
        cl->buf->pos = cl->buf->last;
        filter->taken = cl->next;
        ngx_free_chain(ctx->request->pool, cl);
    }
}
