/*
 * ngx_chat_follow.c: siblings that get the answer of the request that carried
 * their results.
 *
 * While it waits for the fate of an attempt, a request follows its stream
 * already, so that the producer records it. Once the answer has begun, what
 * the client's transcript lacks is fetched, and the head of the record makes
 * its status and headers. Promises: where there is no record nothing has been
 * sent, and the request is answered in another way.
 * Must not know: how a stream is read, how a store stores.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "record/ngx_chat_follow.h"
#include "record/ngx_chat_index.h"
#include "metrics/ngx_chat_metrics.h"


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
