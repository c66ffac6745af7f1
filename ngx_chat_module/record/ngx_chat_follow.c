/*
 * ngx_chat_follow.c: gives a client the answer of another request.
 *
 * While it waits for the outcome of an attempt, a request follows its stream
 * already, so that the producer records it. Once the answer has begun, what
 * the client's transcript lacks is fetched; the head of the recording makes
 * the status and headers. Chunks are sent where they lie, a few at a time.
 * Promises: where there is no recording nothing has been sent; a stream that
 * broke off, or that the client is too slow for, never ends as a complete one;
 * a client that takes nothing for send_timeout is given up.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "record/ngx_chat_follow.h"
#include "record/ngx_chat_index.h"
#include "metrics/ngx_chat_metrics.h"


/* A chain under construction. */
typedef struct {
    ngx_chain_t links[NGX_CHAT_FOLLOW_CHUNKS + 2];
    ngx_uint_t  n;
} ngx_chat_links_t;


static void ngx_chat_follow_send(ngx_chat_ctx_t *ctx);
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


static void
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


static void
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


/* More is known of the stream that the request follows. */
static void
ngx_chat_follow_woken(void *data)
{
    ngx_chat_ctx_t    *ctx = data;
    ngx_connection_t  *c = ctx->request->connection;
    ngx_chat_follow_t *follow = ctx->follow;

    if (follow->look == NULL) {
        return; /* the fate of the attempt is not known yet */
    }

    ngx_http_set_log_request(c->log, ctx->request);

    if (ctx->state == NGX_CHAT_FOLLOWING) {
        ngx_chat_follow_send(ctx);

    } else if (!follow->gathering) {
        follow->look(ctx);
    }

    ngx_http_run_posted_requests(c);
}


static void
ngx_chat_follow_free(ngx_chat_ctx_t *ctx)
{
    ngx_uint_t i;

    if (ctx->follow == NULL) {
        return;
    }

    for (i = 0; i < ctx->follow->nsending; i++) {
        ngx_chat_chunk_free(ctx->follow->sending[i].chunk);
        chat_buf_free(&ctx->follow->sending[i].rewritten);
    }

    chat_follow_free(&ctx->follow->rewriter);
    ngx_free(ctx->follow);
    ctx->follow = NULL;
}


ngx_int_t
ngx_chat_follow_stream(ngx_chat_ctx_t *ctx, const ngx_chat_source_t *source,
                       uint64_t after)
{
    ngx_chat_follower_t *follower;

    if (ctx->follow == NULL) {
        ctx->follow = ngx_calloc(sizeof(ngx_chat_follow_t),
                                 ctx->request->connection->log);
        if (ctx->follow == NULL) {
            return NGX_ERROR;
        }

        ctx->ends[NGX_CHAT_END_FOLLOW] = ngx_chat_follow_leave;
        ctx->ends[NGX_CHAT_END_MEMORY] = ngx_chat_follow_free;
    }

    follower = &ctx->follow->follower;
    follower->wake = ngx_chat_follow_woken;
    follower->data = ctx;
    follower->after = after;
    return ngx_chat_reader_join(ctx, source, follower);
}


/* 1 if siblings may have another request's answer here. */
static ngx_uint_t
ngx_chat_follow_may(ngx_chat_ctx_t *ctx)
{
    return ctx->conf->siblings == NGX_CHAT_SIBLINGS_ATTACH
           && ctx->conf->record != NGX_CHAT_RECORD_OFF;
}


/* Follows the attempt that was seen last; NGX_DECLINED: it cannot. */
static ngx_int_t
ngx_chat_follow_join(ngx_chat_ctx_t *ctx, ngx_uint_t late)
{
    ngx_chat_source_t     source;
    const chat_attempt_t *attempt = &ctx->barrier.q.seen.last.attempt;

    if (!ngx_chat_follow_may(ctx) || attempt->k != ctx->barrier.decision.k) {
        return NGX_DECLINED;
    }

    ngx_memzero(&source, sizeof(source));
    source.batch = ctx->barrier.q.key;
    source.attempt = *attempt;
    source.late = late;
    chat_record_key(&ctx->barrier.q.key, attempt->worker, attempt->request,
                    &source.key);

    return ngx_chat_follow_stream(ctx, &source, 0) == NGX_OK ? NGX_OK
                                                             : NGX_DECLINED;
}


void
ngx_chat_follow_wait(ngx_chat_ctx_t *ctx)
{
    (void) ngx_chat_follow_join(ctx, 0);
}


void
ngx_chat_follow_leave(ngx_chat_ctx_t *ctx)
{
    if (ctx->follow != NULL) {
        ctx->follow->look = NULL;
        ngx_chat_reader_leave(&ctx->follow->follower);
    }
}


static ngx_int_t
ngx_chat_follow_type(ngx_http_request_t *r, chat_str_t value)
{
    u_char    *end;
    ngx_str_t *type = &r->headers_out.content_type;

    type->data = ngx_pnalloc(r->pool, value.len);
    if (type->data == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(type->data, value.data, value.len);
    type->len = value.len;

    /* what follows is not to be added once more */
    end = ngx_strlchr(type->data, type->data + type->len, ';');
    r->headers_out.content_type_len =
        end ? (size_t) (end - type->data) : type->len;
    r->headers_out.content_type_lowcase = NULL;
    return NGX_OK;
}


/*
 * The head's headers: those that the answer does not get here anyway are
 * added by the header filter, as are the lines of ctx->barrier.cors.
 */
static ngx_int_t
ngx_chat_follow_headers(ngx_chat_ctx_t *ctx, const chat_record_head_t *head)
{
    ngx_int_t  rc = NGX_OK;
    chat_str_t rest = head->headers, name, value;
    chat_buf_t lines = { 0 };
    ngx_uint_t admits;

    admits = chat_record_admits(head->headers, ctx->headers.origin);

    while (chat_record_header_next(&rest, &name, &value)) {
        if (ngx_chat_headers_is(name, "content-type")) {
            rc = ngx_chat_follow_type(ctx->request, value);

        } else if (admits || !chat_record_is_cors(name)
                   || ngx_chat_headers_is(name, "vary"))
        {
            /* what others have put into the store is looked at once more */
            chat_record_header(&lines, name, value);
        }
    }

    if (lines.failed
        || chat_arena_dup(ctx->kept, chat_buf_str(&lines), &ctx->barrier.cors)
               != CHAT_OK)
    {
        rc = NGX_ERROR;
    }

    chat_buf_free(&lines);
    return rc;
}


/* The header that the head of the reader's record says. */
static ngx_int_t
ngx_chat_follow_header(ngx_chat_ctx_t *ctx, const ngx_chat_reader_t *reader)
{
    ngx_http_request_t       *r = ctx->request;
    const ngx_chat_chunks_t  *chunks = &reader->chunks;
    const chat_record_head_t *head = &chunks->head;

    ctx->response.status = head->status;
    ctx->response.local = 1;

    if (ctx->response.early) {
        return NGX_OK;
    }

    r->headers_out.status = head->status;
    r->headers_out.content_length_n =
        reader->state == NGX_CHAT_READER_COMPLETE
                && !ngx_chat_chunks_is_sse(chunks)
            ? (off_t) chunks->length
            : -1;

    return ngx_chat_follow_headers(ctx, head) == NGX_OK
               ? ngx_http_send_header(r)
               : NGX_ERROR;
}


/* The rewriter of the stream; a response without events needs none. */
static ngx_int_t
ngx_chat_follow_rewriter(ngx_chat_ctx_t *ctx, chat_str_t message,
                         const chat_result_t *results, size_t n)
{
    chat_follow_conf_t       conf;
    ngx_chat_follow_t       *follow = ctx->follow;
    const ngx_chat_chunks_t *chunks = &follow->follower.reader->chunks;

    if (!ngx_chat_chunks_is_sse(chunks)) {
        ctx->response.injected.len = 0;
        return NGX_OK;
    }

    conf.dialect = ctx->dialect;
    conf.from = chunks->head.message;
    conf.to = message;
    conf.injected =
        chat_str(ctx->response.injected.data, ctx->response.injected.len);
    conf.results = results;
    conf.nresults = n;
    conf.max_frame = ctx->conf->max_event;

    return chat_follow_init(&follow->rewriter, &conf) == CHAT_OK ? NGX_OK
                                                                 : NGX_ERROR;
}


void
ngx_chat_follow_answer(ngx_chat_ctx_t *ctx, chat_str_t message,
                       const chat_result_t *results, size_t n)
{
    ngx_int_t           rc;
    ngx_http_request_t *r = ctx->request;

    if (ngx_chat_follow_rewriter(ctx, message, results, n) != NGX_OK) {
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
        return;
    }

    ctx->state = NGX_CHAT_FOLLOWING;
    ctx->verdict = NGX_CHAT_VERDICT_ATTACHED;
    ctx->response.answered = 1;
    ngx_chat_metrics_verdict(ctx);

    rc = ngx_chat_follow_header(ctx, ctx->follow->follower.reader);
    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        if (rc == NGX_OK) {
            ngx_chat_attempt_end(ctx, CHAT_END_FINISHED);
        }

        ngx_http_finalize_request(r, rc);
        return;
    }

    ngx_chat_follow_begin(ctx);
}


/* All is there that goes before the stream. */
static void
ngx_chat_follow_ready(ngx_chat_ctx_t *ctx)
{
    ngx_chat_follow_t       *follow = ctx->follow;
    const ngx_chat_reader_t *reader = follow->follower.reader;

    if (ctx->response.early && !ngx_chat_chunks_is_sse(&reader->chunks)) {
        ngx_chat_reply(ctx, CHAT_REPLY_NO_STREAM);
        return;
    }

    ngx_chat_end(ctx, NGX_CHAT_END_HOLD, NGX_CHAT_END_INDEX_HOLD);

    ngx_chat_follow_answer(ctx, follow->message, NULL, 0);
}


void
ngx_chat_follow_start(ngx_chat_ctx_t *ctx, ngx_int_t rc)
{
    ngx_chat_follow_t *follow = ctx->follow;

    ctx->response.injected.len = 0;

    if (rc == NGX_OK && ctx->body.arena != NULL
        && (ngx_chat_complete_inject(ctx) != NGX_OK
            || chat_arena_dup(ctx->kept, ctx->body.rq.last_message,
                              &follow->message)
                   != CHAT_OK))
    {
        ctx->response.injected.len = 0;
    }

    /* the body is done with, and all that points into it */
    ctx->payloads.count = 0;
    chat_results_init(&ctx->body.results, NULL);
    chat_arena_destroy(ctx->body.arena);
    ctx->body.arena = NULL;

    ngx_chat_follow_ready(ctx);
}


/* The record broke off before there was anything to send. */
static void
ngx_chat_follow_lost(ngx_chat_ctx_t *ctx)
{
    const char *reason = ctx->follow->follower.reader->over;

    ngx_chat_reply_broken(ctx, reason ? reason : "upstream");
}


void
ngx_chat_follow_look(ngx_chat_ctx_t *ctx)
{
    ngx_chat_follow_t       *follow = ctx->follow;
    const ngx_chat_reader_t *reader = follow->follower.reader;

    if (reader->chunks.has_head) {
        follow->gathering = 1;
        ctx->step(ctx, NGX_CHAT_EVENT_HEAD);
        return;
    }

    if (reader->state == NGX_CHAT_READER_ASKING
        || reader->state == NGX_CHAT_READER_RUNNING)
    {
        return;
    }

    if (reader->state != NGX_CHAT_READER_NONE && !follow->late) {
        ngx_chat_follow_lost(ctx);
        return;
    }

    ctx->step(ctx, NGX_CHAT_EVENT_UNRECORDED);
}


ngx_int_t
ngx_chat_follow(ngx_chat_ctx_t *ctx, ngx_uint_t late)
{
    if (ngx_chat_follow_join(ctx, late) != NGX_OK) {
        return NGX_DECLINED;
    }

    ctx->follow->look = ngx_chat_follow_look;
    ctx->follow->late = late;
    return NGX_OK;
}
