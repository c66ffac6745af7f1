/*
 * ngx_chat_follow_send.c: sends a client what its reader has.
 *
 * Blocks are sent where they lie, a few at a time, and the next ones when the
 * client has taken those; a client that takes nothing for send_timeout is
 * given up. Promises: a stream that broke off, or that the client is too slow
 * for, never ends as one that is complete; a chunk is let go once it is sent.
 * Must not know: the store, wire formats.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "record/ngx_chat_follow.h"


/* A chain under construction. */
typedef struct {
    ngx_chain_t links[NGX_CHAT_FOLLOW_CHUNKS + 2];
    ngx_uint_t  n;
} ngx_chat_links_t;


static void ngx_chat_follow_write(ngx_http_request_t *r);


static void
ngx_chat_links_add(ngx_chat_links_t *links, ngx_buf_t *b)
{
    ngx_chain_t *link = &links->links[links->n];

    if (links->n != 0) {
        links->links[links->n - 1].next = link;
    }

    link->buf = b;
    link->next = NULL;
    links->n++;
}


void
ngx_chat_follow_begin(ngx_chat_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;
    ngx_connection_t   *c = r->connection;
    ngx_chat_follow_t  *follow = ctx->follow;

    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_chat_follow_write;

    /* a FIN that came with the body would be missed otherwise */
    if (r->stream == NULL && c->read->ready) {
        ngx_post_event(c->read, &ngx_posted_events);
    }

    /* without a flush the filters behind us may keep it back */
    follow->injected.memory = 1;
    follow->injected.flush = 1;

    if (ctx->dialect->inject_after == NULL) {
        follow->injected.pos = ctx->response.injected.data;
        follow->injected.last =
            ctx->response.injected.data + ctx->response.injected.len;
    }

    /* the header goes out at once */
    follow->end.flush = 1;

    ngx_chat_follow_send(ctx);
}


/* 1 if the client has not taken what it was given. */
static ngx_uint_t
ngx_chat_follow_blocked(ngx_http_request_t *r)
{
    return r->buffered || r->postponed || r->connection->buffered;
}


/* Waits for the client; again: it has just taken something. */
static void
ngx_chat_follow_await(ngx_http_request_t *r, ngx_uint_t again)
{
    ngx_event_t              *wev = r->connection->write;
    ngx_http_core_loc_conf_t *clcf;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (!wev->delayed && (again || !wev->timer_set)) {
        ngx_add_timer(wev, clcf->send_timeout);
    }

    if (ngx_handle_write_event(wev, clcf->send_lowat) != NGX_OK) {
        ngx_http_finalize_request(r, NGX_ERROR);
    }
}


/* Lets go what the client has taken: all of it. */
static void
ngx_chat_follow_sent(ngx_chat_follow_t *follow)
{
    ngx_uint_t i;

    for (i = 0; i < follow->nsending; i++) {
        ngx_chat_chunk_free(follow->sending[i].chunk);
        chat_buf_free(&follow->sending[i].rewritten);
        ngx_memzero(&follow->sending[i].rewritten, sizeof(chat_buf_t));
    }

    follow->nsending = 0;
}


/* Sends the chunk from this byte on, rewritten where that is due. */
static ngx_int_t
ngx_chat_follow_chunk(ngx_chat_follow_t *follow, ngx_chat_chunk_t *chunk,
                      size_t from)
{
    chat_rc_e           rc;
    ngx_chat_sending_t *sending = &follow->sending[follow->nsending++];
    ngx_buf_t          *b = &sending->buf;
    chat_buf_t         *own = &sending->rewritten;

    ngx_memzero(b, sizeof(*b));
    sending->chunk = chunk;
    b->memory = 1;
    b->flush = 1;
    b->pos = chunk->data + from;
    b->last = chunk->data + chunk->len;

    rc = chat_follow(&follow->rewriter,
                     chat_str(b->pos, (size_t) (b->last - b->pos)), own);
    if (rc == CHAT_OK) {
        b->memory = own->len != 0;
        b->pos = own->data;
        b->last = own->data + own->len;
    }

    return rc == CHAT_ERROR ? NGX_ERROR : NGX_OK;
}


/*
 * The chunks that are there, as many as go at a time. NGX_DECLINED: the next
 * one was given up.
 */
static ngx_int_t
ngx_chat_follow_blocks(ngx_chat_ctx_t *ctx, ngx_chat_links_t *links)
{
    size_t             from;
    ngx_int_t          rc;
    ngx_chat_chunk_t  *chunk;
    ngx_chat_follow_t *follow = ctx->follow;

    while (follow->nsending < NGX_CHAT_FOLLOW_CHUNKS) {
        rc = ngx_chat_reader_take(&follow->follower, &chunk, &from);
        if (rc != NGX_OK) {
            return rc == NGX_AGAIN ? NGX_OK : rc;
        }

        if (ngx_chat_follow_chunk(follow, chunk, from) != NGX_OK) {
            return NGX_ERROR;
        }

        ngx_chat_links_add(links, &follow->sending[follow->nsending - 1].buf);
    }

    return NGX_OK;
}


/* Nothing of the request comes behind it; of a page around it more may. */
static void
ngx_chat_follow_last(ngx_http_request_t *r, ngx_buf_t *b)
{
    b->last_buf = r == r->main;
    b->last_in_chain = 1;
    b->sync = ngx_buf_size(b) == 0;
}


/* The same of a response that must not end as a complete one. */
static void
ngx_chat_follow_break(ngx_chat_ctx_t *ctx, ngx_buf_t *b)
{
    ngx_chat_follow_last(ctx->request, b);

    ngx_chat_answer_break(ctx);
    if (ctx->response.truncated) {
        b->last_buf = 0;
        b->flush = 1;
    }
}


/* What is said of a stream that goes no further, behind all that was sent. */
static ngx_int_t
ngx_chat_follow_words(ngx_chat_ctx_t *ctx, chat_str_t words)
{
    ngx_buf_t              *b = &ctx->follow->end;
    const ngx_chat_chunk_t *at = ctx->follow->follower.at;

    ngx_memzero(b, sizeof(*b));

    b->pos = ngx_pnalloc(ctx->request->pool, words.len + 2);
    if (b->pos == NULL) {
        return NGX_ERROR;
    }

    b->memory = 1;
    b->last = b->pos;

    /* a part of an event must end before another begins */
    if (at != NULL && !ngx_chat_chunk_is_whole(at)) {
        b->last = ngx_cpymem(b->last, "\n\n", 2);
    }

    b->last = ngx_cpymem(b->last, words.data, words.len);
    ngx_chat_follow_break(ctx, b);
    return NGX_OK;
}


/* Bytes are lost, or it was too slow for what could be kept. */
static ngx_int_t
ngx_chat_follow_lacks(ngx_chat_ctx_t *ctx)
{
    ngx_buf_t               *b;
    chat_str_t               words = ctx->follow->follower.lost;
    const ngx_chat_chunks_t *chunks = &ctx->follow->follower.reader->chunks;

    if (words.len != 0) {
        return ngx_chat_follow_words(ctx, words);
    }

    if (chunks->stream == NULL || !ctx->conf->interrupted) {
        return NGX_ERROR;
    }

    b = ngx_chat_answer_interrupted(ctx, "too_slow",
                                    ngx_chat_chunks_is_resumable(chunks));
    if (b == NULL) {
        return NGX_ERROR;
    }

    words = chat_str(b->pos, (size_t) (b->last - b->pos));
    return ngx_chat_follow_words(ctx, words);
}


/* The last buffer, with what was waited for of an event that has no end. */
static ngx_int_t
ngx_chat_follow_rest(ngx_chat_ctx_t *ctx)
{
    ngx_int_t                rc = NGX_OK;
    ngx_buf_t               *b = &ctx->follow->end;
    chat_buf_t               rest = { 0 };
    const ngx_chat_reader_t *reader = ctx->follow->follower.reader;

    ngx_memzero(b, sizeof(*b));
    chat_follow_end(&ctx->follow->rewriter, &rest);

    if (rest.len != 0) {
        b->pos = ngx_pnalloc(ctx->request->pool, rest.len);
        if (b->pos != NULL) {
            b->memory = 1;
            b->last = ngx_cpymem(b->pos, rest.data, rest.len);
        }
    }

    if (rest.failed || (rest.len != 0 && b->pos == NULL)) {
        rc = NGX_ERROR;
    }

    chat_buf_free(&rest);

    if (reader->end == CHAT_END_FINISHED) {
        ngx_chat_follow_last(ctx->request, b);
    } else {
        ngx_chat_follow_break(ctx, b);
    }

    return rc;
}


/*
 * The end, if it has come: NGX_DONE, and end is what goes last. NGX_ERROR: it
 * cannot be told, the response is to break off.
 */
static ngx_int_t
ngx_chat_follow_end(ngx_chat_ctx_t *ctx, ngx_chat_links_t *links)
{
    ngx_chat_follow_t *follow = ctx->follow;
    ngx_chat_reader_t *reader = follow->follower.reader;

    if (ngx_chat_reader_ready(&follow->follower) != NGX_AGAIN
        || (reader->state != NGX_CHAT_READER_COMPLETE
            && reader->state != NGX_CHAT_READER_BROKEN))
    {
        return NGX_OK;
    }

    if (reader->state == NGX_CHAT_READER_BROKEN
        && (reader->chunks.words.len == 0 || reader->chunks.words.failed
            || ngx_chat_follow_words(ctx, chat_buf_str(&reader->chunks.words))
                   != NGX_OK))
    {
        return NGX_ERROR;
    }

    if (reader->state == NGX_CHAT_READER_COMPLETE
        && ngx_chat_follow_rest(ctx) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_chat_links_add(links, &follow->end);
    return NGX_DONE;
}


/* The next things to send. NGX_DONE: they are the last; NGX_ERROR. */
static ngx_int_t
ngx_chat_follow_next(ngx_chat_ctx_t *ctx, ngx_chat_links_t *links)
{
    ngx_int_t          rc;
    ngx_chat_follow_t *follow = ctx->follow;

    links->n = 0;

    if (ngx_buf_size(&follow->injected) != 0) {
        ngx_chat_links_add(links, &follow->injected);
    }

    rc = ngx_chat_follow_blocks(ctx, links);

    if (rc == NGX_DECLINED && ngx_chat_follow_lacks(ctx) == NGX_OK) {
        ngx_chat_links_add(links, &follow->end);
        return NGX_DONE;
    }

    if (rc == NGX_OK) {
        rc = ngx_chat_follow_end(ctx, links);
    }

    if (rc == NGX_OK && follow->end.flush && links->n == 0) {
        ngx_chat_links_add(links, &follow->end);
    }

    return rc;
}


/* Nothing comes any more; rc as of the last output. */
static void
ngx_chat_follow_finish(ngx_chat_ctx_t *ctx, ngx_int_t rc)
{
    chat_end_e end;

    end = ngx_chat_reader_end(&ctx->follow->follower,
                              &ctx->response.upstream_reason);

    if (end == CHAT_END_NONE) {
        end = ctx->request->connection->error ? CHAT_END_ABORTED
                                              : CHAT_END_INTERRUPTED;
    }

    ngx_chat_attempt_end(ctx, end);
    ngx_chat_follow_leave(ctx);
    ngx_http_finalize_request(ctx->request, rc);
}


void
ngx_chat_follow_send(ngx_chat_ctx_t *ctx)
{
    ngx_int_t           rc, sent;
    ngx_chat_links_t    links;
    ngx_http_request_t *r = ctx->request;

    while (!ngx_chat_follow_blocked(r)) {
        ngx_chat_follow_sent(ctx->follow);

        rc = ngx_chat_follow_next(ctx, &links);
        if (links.n == 0 && rc == NGX_OK) {
            return;
        }

        /* what is there goes out, even where the rest cannot be told */
        sent = links.n ? ngx_http_output_filter(r, links.links) : NGX_ERROR;

        if (rc == NGX_ERROR || rc == NGX_DECLINED) {
            sent = NGX_ERROR;
        }

        if (rc == NGX_DONE || sent == NGX_ERROR) {
            ngx_chat_follow_finish(ctx, sent);
            return;
        }

        ctx->follow->end.flush = 0;
    }

    ngx_chat_follow_await(r, 0);
}


/* The client takes more, or has not for too long. */
static void
ngx_chat_follow_write(ngx_http_request_t *r)
{
    ngx_event_t    *wev = r->connection->write;
    ngx_chat_ctx_t *ctx = ngx_chat_get_ctx(r);

    if (wev->timedout) {
        r->connection->timedout = 1;
        ngx_http_finalize_request(r, NGX_HTTP_REQUEST_TIME_OUT);
        return;
    }

    if (wev->delayed) {
        ngx_chat_follow_await(r, 0);
        return;
    }

    if (ngx_http_output_filter(r, NULL) == NGX_ERROR) {
        ngx_http_finalize_request(r, NGX_ERROR);
        return;
    }

    if (ngx_chat_follow_blocked(r)) {
        ngx_chat_follow_await(r, 1);
        return;
    }

    /* where the rate is limited, that timer is what wakes us next */
    if (wev->timer_set && !wev->delayed) {
        ngx_del_timer(wev);
    }

    ngx_chat_follow_send(ctx);
}
