/*
 * ngx_chat_follow.c: sends a client the answer of another request.
 *
 * While it waits for the outcome of an attempt, a request follows its stream
 * already, so that the producer records it. Once the answer has begun, what
 * the client's transcript lacks is fetched; the head of the recording gives
 * the status and headers. Chunks are sent where they lie, one at a time.
 * Promises: where there is no recording nothing has been sent; a stream that
 * broke off, or that the client is too slow for, never ends as a complete one;
 * a client that takes nothing for send_timeout is given up.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "record/ngx_chat_follow.h"
#include "metrics/ngx_chat_metrics.h"
#include "store/ngx_chat_ask.h"


/* 1 if the client has not taken what it was sent. */
static ngx_uint_t
is_blocked(ngx_http_request_t *r)
{
    return r->buffered || r->postponed || r->connection->buffered;
}


static void
wait_for_client(ngx_http_request_t *r)
{
    ngx_event_t              *wev = r->connection->write;
    ngx_http_core_loc_conf_t *clcf =
        ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (!wev->delayed && !wev->timer_set) {
        ngx_add_timer(wev, clcf->send_timeout);
    }

    if (ngx_handle_write_event(wev, clcf->send_lowat) != NGX_OK) {
        ngx_http_finalize_request(r, NGX_ERROR);
    }
}


/* Frees what was sent: the client has taken all of it. */
static void
release(ngx_chat_follow_t *follow)
{
    ngx_chat_chunk_free(follow->chunk);
    follow->chunk = NULL;
    chat_buf_free(&follow->own);

    ngx_memzero(&follow->buf, sizeof(follow->buf));
    follow->buf.flush = 1; /* else the filters behind us may keep it back */
}


static void
set_bytes(ngx_buf_t *b, chat_str_t bytes)
{
    b->memory = bytes.len != 0;
    b->pos = (u_char *) bytes.data;
    b->last = b->pos + bytes.len;
}


/* Sets own bytes as the next output; NGX_ERROR: no memory. */
static ngx_int_t
set_own(ngx_chat_follow_t *follow)
{
    set_bytes(&follow->buf, chat_buf_str(&follow->own));
    return follow->own.failed ? NGX_ERROR : NGX_OK;
}


/* Sets the next bytes of the chunk as output, rewritten if necessary. */
static ngx_int_t
send_chunk(ngx_chat_follow_t *follow, ngx_chat_chunk_t *chunk)
{
    size_t     from = follow->follower.cursor.from;
    chat_str_t bytes = chat_str(chunk->data + from, chunk->len - from);

    ngx_chat_cursor_pass(&follow->follower.cursor, chunk);

    switch (chat_follow(&follow->rewriter, bytes, &follow->own)) {
    case CHAT_OK:
        return set_own(follow);

    case CHAT_DECLINED:
        follow->chunk = chunk;
        chunk->refs++;
        set_bytes(&follow->buf, bytes);
        return NGX_OK;

    default:
        return NGX_ERROR;
    }
}


/*
 * Ends the response with own bytes; is_whole: as a complete one. The end of a
 * subrequest does not end the page around it.
 */
static ngx_int_t
send_last(ngx_chat_ctx_t *ctx, ngx_uint_t is_whole)
{
    ngx_buf_t *b = &ctx->follow->buf;

    if (!is_whole) {
        ngx_chat_answer_break(ctx);
    }

    if (set_own(ctx->follow) != NGX_OK) {
        return NGX_ERROR;
    }

    b->flush = ctx->response.truncated;
    b->last_buf = ctx->request == ctx->request->main && !b->flush;
    b->last_in_chain = 1;
    b->sync = ngx_buf_size(b) == 0;
    return NGX_DONE;
}


/* 1 if an event ends with the chunk. */
static ngx_uint_t
ends_event(const ngx_chat_chunk_t *chunk)
{
    const u_char *end = chunk->data + chunk->len;

    return (chunk->len >= 2
            && (ngx_memcmp(end - 2, "\n\n", 2) == 0
                || ngx_memcmp(end - 2, "\r\r", 2) == 0))
           || (chunk->len >= 4 && ngx_memcmp(end - 4, "\r\n\r\n", 4) == 0);
}


/*
 * Ends a stream before its end with these words. Empty ones: with the
 * dialect's event for a client that is too slow.
 */
static ngx_int_t
send_words(ngx_chat_ctx_t *ctx, chat_str_t words)
{
    ngx_chat_follow_t       *follow = ctx->follow;
    chat_interruption_t      in = { .reason = "too_slow" };
    const ngx_chat_cursor_t *cursor = &follow->follower.cursor;
    const ngx_chat_chunks_t *chunks = &follow->follower.reader->chunks;

    /* a part of an event must end before another begins */
    if (cursor->placed && cursor->at != NULL && !ends_event(cursor->at)) {
        chat_buf_puts(&follow->own, "\n\n");
    }

    if (words.len != 0) {
        chat_buf_add(&follow->own, words);

    } else if (chunks->stream != NULL) {
        in.resumable = (int) chunks->is_resumable;
        chat_dialect_interrupted(ctx->dialect, NULL, &in, &follow->own);

    } else {
        return NGX_ERROR;
    }

    return send_last(ctx, 0);
}


/*
 * Sets what is sent next. NGX_AGAIN: nothing yet; NGX_DONE: it is the last;
 * NGX_ERROR: no event can say how it ended, the response breaks off.
 */
static ngx_int_t
next_bytes(ngx_chat_ctx_t *ctx)
{
    ngx_int_t                rc;
    chat_str_t               lost;
    ngx_chat_chunk_t        *chunk;
    ngx_chat_follow_t       *follow = ctx->follow;
    const ngx_chat_reader_t *reader = follow->follower.reader;

    release(follow);

    if (!follow->begun) {
        follow->begun = 1;

        if (ctx->dialect->inject_after == NULL) {
            set_bytes(&follow->buf, ctx->response.injected);
        }

        return NGX_OK;
    }

    rc = ngx_chat_cursor_next(&follow->follower.cursor, &reader->chunks,
                              &chunk);

    if (rc == NGX_OK) {
        return send_chunk(follow, chunk);
    }

    if (rc == NGX_DECLINED) {
        lost = follow->follower.cursor.lost;
        ctx->response.end = CHAT_END_INTERRUPTED;
        ctx->response.upstream_reason =
            lost.len ? "incomplete_record" : "too_slow";
        return send_words(ctx, lost);
    }

    switch (reader->state) {
    case NGX_CHAT_READER_COMPLETE:
        ctx->response.end = reader->end;
        chat_follow_end(&follow->rewriter, &follow->own);
        return send_last(ctx, reader->end == CHAT_END_FINISHED);

    case NGX_CHAT_READER_BROKEN:
        ctx->response.end = CHAT_END_INTERRUPTED;
        ctx->response.upstream_reason = reader->over;
        return reader->chunks.words.len && !reader->chunks.words.failed
                   ? send_words(ctx, chat_buf_str(&reader->chunks.words))
                   : NGX_ERROR;

    default:
        return NGX_AGAIN;
    }
}


/* The response is over; rc as of the last output. */
static void
finish(ngx_chat_ctx_t *ctx, ngx_int_t rc)
{
    if (ctx->response.end == CHAT_END_NONE) {
        ctx->response.end = ctx->request->connection->error
                                ? CHAT_END_ABORTED
                                : CHAT_END_INTERRUPTED;
    }

    ctx->step(ctx, NGX_CHAT_EVENT_END);
    ngx_chat_follow_end(ctx, rc);
}


static void
send_stream(ngx_chat_ctx_t *ctx)
{
    ngx_int_t           rc;
    ngx_chain_t         out;
    ngx_http_request_t *r = ctx->request;

    while (!is_blocked(r)) {
        rc = next_bytes(ctx);

        if (rc == NGX_AGAIN) {
            return;
        }

        out.buf = &ctx->follow->buf;
        out.next = NULL;

        if (rc == NGX_ERROR || ngx_http_output_filter(r, &out) == NGX_ERROR) {
            finish(ctx, NGX_ERROR);
            return;
        }

        if (rc == NGX_DONE) {
            finish(ctx, NGX_OK);
            return;
        }
    }

    wait_for_client(r);
}


/* The client takes more, or has not for too long. */
static void
on_writable(ngx_http_request_t *r)
{
    ngx_event_t *wev = r->connection->write;

    if (wev->timedout) {
        r->connection->timedout = 1;
        ngx_http_finalize_request(r, NGX_HTTP_REQUEST_TIME_OUT);
        return;
    }

    if (!wev->delayed && ngx_http_output_filter(r, NULL) == NGX_ERROR) {
        ngx_http_finalize_request(r, NGX_ERROR);
        return;
    }

    /* where the rate is limited, that timer is what wakes us next */
    if (wev->timer_set && !wev->delayed) {
        ngx_del_timer(wev);
    }

    send_stream(ngx_chat_get_ctx(r));
}


/* More is known of the recording. */
static void
on_wake(ngx_event_t *ev)
{
    ngx_chat_ctx_t   *ctx = ev->data;
    ngx_connection_t *c = ctx->request->connection;

    ngx_http_set_log_request(c->log, ctx->request);

    if (ctx->state == NGX_CHAT_FOLLOWING) {
        send_stream(ctx);

    } else if (ctx->follow->on_reader != NULL) {
        ctx->follow->on_reader(ctx);
    }

    ngx_http_run_posted_requests(c);
}


static void
end_follow(ngx_chat_ctx_t *ctx)
{
    if (ctx->follow != NULL) {
        release(ctx->follow);
        chat_follow_free(&ctx->follow->rewriter);
        ngx_free(ctx->follow);
        ctx->follow = NULL;
    }
}


ngx_int_t
ngx_chat_follow_stream(ngx_chat_ctx_t *ctx, const ngx_chat_source_t *source,
                       uint64_t after)
{
    if (ctx->follow == NULL) {
        ctx->follow = ngx_calloc(sizeof(ngx_chat_follow_t),
                                 ctx->request->connection->log);
        if (ctx->follow == NULL) {
            return NGX_ERROR;
        }

        ngx_chat_event_set(&ctx->follow->follower.event, on_wake, ctx,
                           ngx_cycle->log);
        ctx->cleanups[NGX_CHAT_CLEANUP_FOLLOW] = ngx_chat_follow_leave;
        ctx->cleanups[NGX_CHAT_CLEANUP_MEMORY] = end_follow;
    }

    return ngx_chat_reader_join(ctx, source, &ctx->follow->follower, after);
}


ngx_int_t
ngx_chat_follow(ngx_chat_ctx_t *ctx)
{
    chat_facts_t          facts;
    ngx_chat_source_t     source;
    const chat_attempt_t *attempt = &ctx->barrier.q.seen.last;
    chat_attempt_t        wanted = *attempt;

    if (ctx->conf->record == NGX_CHAT_RECORD_OFF
        || attempt->k != ctx->barrier.decision.k)
    {
        return NGX_DECLINED;
    }

    source.worker = attempt->worker;
    source.ended =
        ctx->barrier.decision.may_follow && attempt->end != CHAT_END_NONE;
    chat_recording_key(&ctx->barrier.q.key, attempt->worker, attempt->request,
                       &source.key);

    if (attempt->recording == CHAT_RECORDING_UNKNOWN) {
        wanted.recording = CHAT_RECORDING_WANTED;
        chat_facts_init(&facts, ctx->barrier.look);
        chat_facts_attempt(&facts, &wanted);
        ngx_chat_put(ctx, &ctx->barrier.q.key, &facts);
    }

    return ngx_chat_follow_stream(ctx, &source, 0) == NGX_OK
                   && ngx_chat_chunks_is_from_start(
                       &ctx->follow->follower.reader->chunks)
               ? NGX_OK
               : NGX_DECLINED;
}


void
ngx_chat_follow_leave(ngx_chat_ctx_t *ctx)
{
    if (ctx->follow != NULL) {
        ctx->follow->on_reader = NULL;
        ngx_chat_reader_leave(&ctx->follow->follower);
    }
}


void
ngx_chat_follow_end(ngx_chat_ctx_t *ctx, ngx_int_t rc)
{
    ngx_chat_follow_leave(ctx);
    ctx->state = NGX_CHAT_ANSWERED;
    ngx_http_finalize_request(ctx->request, rc);
}


/*
 * Keeps the head's headers in ctx->barrier.cors. The header filter adds those
 * of them that the response does not have by then.
 */
static ngx_int_t
set_headers(ngx_chat_ctx_t *ctx, const chat_recording_head_t *head)
{
    chat_str_t rest = head->headers, name, value;
    chat_buf_t lines = { 0 };
    ngx_uint_t admits, failed = 0;

    admits = chat_recording_admits(head->headers, ctx->headers.origin);

    while (chat_recording_header_next(&rest, &name, &value)) {
        if (chat_str_is_any_case(name, "content-type")) {
            failed |= chat_arena_dup(ctx->kept, value, &value) != CHAT_OK;
            ngx_chat_answer_type(ctx->request, value);

        } else if (admits || !chat_recording_is_cors(name)
                   || chat_str_is_any_case(name, "vary"))
        {
            /* others may write to the store: it checks each line again */
            chat_recording_header(&lines, name, value);
        }
    }

    failed |= chat_buf_move(&lines, ctx->kept, &ctx->barrier.cors) != CHAT_OK;
    return failed ? NGX_ERROR : NGX_OK;
}


/* Sends status and headers of the recording's head. */
static ngx_int_t
send_header(ngx_chat_ctx_t *ctx, const chat_recording_head_t *head)
{
    ngx_http_request_t *r = ctx->request;

    ctx->response.status = head->status;
    ctx->response.mode = NGX_CHAT_ANSWER_LOCAL;

    if (ctx->response.early) {
        return NGX_OK;
    }

    r->disable_not_modified = 1; /* as of the upstream's own answer */
    r->headers_out.status = head->status;

    return set_headers(ctx, head) == NGX_OK ? ngx_http_send_header(r)
                                            : NGX_ERROR;
}


/* The rewriter of the stream; a response without events needs none. */
static ngx_int_t
init_rewriter(ngx_chat_ctx_t *ctx, chat_str_t message,
              const chat_result_t *results, size_t n)
{
    chat_follow_conf_t       conf;
    ngx_chat_follow_t       *follow = ctx->follow;
    const ngx_chat_chunks_t *chunks = &follow->follower.reader->chunks;

    if (!chunks->is_sse) {
        ctx->response.injected.len = 0;
        return NGX_OK;
    }

    conf.dialect = ctx->dialect;
    conf.from = chunks->head.message;
    conf.to = message;
    conf.injected = ctx->response.injected;
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

    if (init_rewriter(ctx, message, results, n) != NGX_OK) {
        ngx_chat_follow_end(ctx, NGX_HTTP_INTERNAL_SERVER_ERROR);
        return;
    }

    ctx->state = NGX_CHAT_FOLLOWING;
    ctx->reason = ctx->act.reason;
    ctx->response.answered = 1;
    ngx_chat_metrics_verdict(ctx);

    rc = send_header(ctx, &ctx->follow->follower.reader->chunks.head);
    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        if (rc == NGX_OK) {
            ctx->response.end = CHAT_END_FINISHED;
            ctx->step(ctx, NGX_CHAT_EVENT_END);
        }

        ngx_chat_follow_end(ctx, rc);
        return;
    }

    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = on_writable;

    /* a FIN that came with the body would be missed otherwise */
    if (r->stream == NULL && r->connection->read->ready) {
        ngx_post_event(r->connection->read, &ngx_posted_events);
    }

    send_stream(ctx);
}


void
ngx_chat_follow_start(ngx_chat_ctx_t *ctx, ngx_int_t rc)
{
    chat_str_t               message = { NULL, 0 };
    const ngx_chat_chunks_t *chunks = &ctx->follow->follower.reader->chunks;

    ctx->response.injected.len = 0;

    if (rc == NGX_OK && ctx->body.arena != NULL
        && (ngx_chat_answer_inject(ctx) != NGX_OK
            || chat_arena_dup(ctx->kept, ctx->body.rq.last_message, &message)
                   != CHAT_OK))
    {
        ctx->response.injected.len = 0;
    }

    /* the body is done with, and all that points into it */
    chat_results_init(&ctx->body.results, NULL);
    ngx_chat_ctx_free_body(ctx);

    if (ctx->response.early && !chunks->is_sse) {
        ngx_chat_reply(ctx, CHAT_REPLY_NO_STREAM,
                       CHAT_REASON_CONFLICT_NO_STREAM);
        return;
    }

    ngx_chat_cleanup(ctx, NGX_CHAT_CLEANUP_HOLD, NGX_CHAT_CLEANUP_INDEX_HOLD);
    ngx_chat_follow_answer(ctx, message, NULL, 0);
}


void
ngx_chat_follow_look(ngx_chat_ctx_t *ctx)
{
    ngx_chat_follow_t       *follow = ctx->follow;
    const ngx_chat_reader_t *reader = follow->follower.reader;
    const char              *lost = "incomplete_record";

    if (ngx_chat_reader_is_open(reader) && reader->chunks.first == NULL
        && !reader->is_live)
    {
        follow->on_reader = ngx_chat_follow_look;
        return;
    }

    if (reader->state == NGX_CHAT_READER_NONE) {
        lost = reader->over;

    } else if (ngx_chat_chunks_is_from_start(&reader->chunks)) {
        follow->on_reader = NULL; /* what goes before the stream is fetched */
        ctx->step(ctx, NGX_CHAT_EVENT_HEAD);
        return;
    }

    if (lost == NULL || ctx->barrier.decision.may_follow) {
        ctx->step(ctx, NGX_CHAT_EVENT_UNRECORDED);
    } else {
        ngx_chat_reply_broken(ctx, lost);
    }
}
