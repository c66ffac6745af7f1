/*
 * ngx_chat_attempt.c: stores the facts of an answer.
 *
 * These are its status (answer/k/...), the calls, results and seal of its
 * stream, and how it ended (end/k/...). No request waits for these joins.
 * Promises: each attempt of this worker gets its end.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "record/ngx_chat_index.h"
#include "record/ngx_chat_reader.h"
#include "metrics/ngx_chat_metrics.h"
#include "request/ngx_chat_request.h"
#include "store/ngx_chat_ask.h"

#define NGX_CHAT_LOG_IDS 8
#define NGX_CHAT_LOG_SIZE 512


static void
flush(ngx_chat_ctx_t *ctx)
{
    chat_store_t *store = ctx->worker->store;

    if (store != NULL && store->flush != NULL) {
        store->flush(store);
    }
}


static void
put_attempt(ngx_chat_ctx_t *ctx, const chat_attempt_t *attempt)
{
    chat_facts_t facts;

    chat_facts_init(&facts, ctx->kept);
    chat_facts_attempt(&facts, attempt);
    ngx_chat_put(ctx, &ctx->barrier.q.key, &facts);
}


void
ngx_chat_attempt_void(ngx_chat_ctx_t *ctx, uint32_t k)
{
    chat_attempt_t attempt;

    if (k == 0) {
        return;
    }

    ctx->attempt.claiming = 0;
    ctx->barrier.q.voided = k;
    chat_gate_attempt(&ctx->barrier.q, k, &attempt);
    attempt.is_void = 1;
    put_attempt(ctx, &attempt);
}


/* The location that receives the upstream request may have chat, too. */
static void
name_attempt(ngx_chat_ctx_t *ctx)
{
    u_char                *p;
    ngx_str_t              value;
    const chat_question_t *q = &ctx->barrier.q;

    value.len = q->worker.len + 1 + q->request.len;
    value.data = ngx_pnalloc(ctx->request->pool, value.len);

    if (value.data != NULL && !ctx->conf->dry_run) {
        p = chat_str_copy(value.data, q->worker);
        *p++ = '/';
        (void) chat_str_copy(p, q->request);
        ngx_chat_headers_name_attempt(ctx->request, ctx->headers.attempt,
                                      value);
    }
}


void
ngx_chat_attempt_begin(ngx_chat_ctx_t *ctx)
{
    ctx->attempt.k = ctx->attempt.claiming;
    ctx->attempt.claiming = 0;

    if (ctx->attempt.k != 0 && !ctx->attempt.live) {
        ctx->attempt.live = 1;
        ngx_queue_insert_tail(&ctx->worker->attempts, &ctx->attempt.queue);
        name_attempt(ctx);
    }
}


void
ngx_chat_attempt_deliver(ngx_chat_ctx_t *ctx)
{
    size_t i;

    if (ctx->attempt.k != 0 || !ctx->barrier.q.kept) {
        return;
    }

    chat_facts_init(&ctx->attempt.delivered, ctx->kept);

    if (ctx->body.rq.class == CHAT_CLASS_ITEMS) {
        /* without payloads: no body is to take them */
        (void) chat_gate_facts(&ctx->barrier.q, &ctx->body.rq, 0, 0,
                               &ctx->attempt.delivered);
    }

    for (i = 0; i < ctx->barrier.q.nmembers; i++) {
        chat_facts_delivered(&ctx->attempt.delivered,
                             ctx->barrier.q.members[i].id);
    }

    for (i = 0; i < ctx->body.results.count; i++) {
        chat_facts_delivered(&ctx->attempt.delivered,
                             ctx->body.results.items[i].id);
    }
}


/*
 * Puts what is known of the answer to our claim: answer/k, end/k if it has
 * ended, or void/k if nothing was sent.
 */
static void
put_outcome(ngx_chat_ctx_t *ctx, chat_end_e end)
{
    uint32_t       status = ctx->attempt.unput ? ctx->response.status : 0;
    ngx_uint_t     unsent = ngx_chat_upstream_unsent(ctx);
    chat_attempt_t attempt;

    chat_gate_attempt(&ctx->barrier.q, ctx->attempt.k, &attempt);
    ctx->attempt.unput = 0;
    ctx->response.ended = unsent || end != CHAT_END_NONE;

    if (unsent || (end != CHAT_END_NONE && end != CHAT_END_FINISHED)) {
        ngx_chat_attempt_keep_results(ctx);
    }

    attempt.answer = status;
    attempt.after = status >= 300 ? ngx_chat_headers_after(ctx->request) : 0;
    attempt.end = end;
    attempt.whole = status != 0 && end != CHAT_END_NONE;

    if (unsent) {
        ngx_chat_attempt_void(ctx, ctx->attempt.k);
    } else if (status < 200 || status >= 300
               || !ngx_chat_writer_decide(ctx, &attempt))
    {
        put_attempt(ctx, &attempt);
    }

    /* the client may send its next request as soon as it has status or end */
    flush(ctx);
}


void
ngx_chat_attempt_answer(ngx_chat_ctx_t *ctx)
{
    uint32_t status = ctx->response.status;

    if (ctx->response.answered) {
        return;
    }

    ctx->response.answered = 1;
    ctx->attempt.unput = ctx->attempt.k != 0;

    if (status >= 200 && status < 300) {
        ngx_chat_writer_begin(ctx);
        ngx_chat_put(ctx, &ctx->barrier.q.key, &ctx->attempt.delivered);
    }

    if (ctx->attempt.k != 0 && ctx->response.stream == NULL) {
        put_outcome(ctx, status >= 300 ? CHAT_END_FAILED : CHAT_END_NONE);
    } else if (ctx->attempt.k == 0
               && (ctx->writer != NULL || ctx->attempt.delivered.count != 0))
    {
        flush(ctx);
    }
}


void
ngx_chat_attempt_facts(ngx_chat_ctx_t *ctx)
{
    size_t                     i, k, n;
    ngx_uint_t                 indexes;
    chat_facts_t               facts;
    const chat_stream_facts_t *batch;

    if (ctx->attempt.unput && !ctx->response.finished) {
        put_outcome(ctx, CHAT_END_NONE);
    }

    n = chat_stream_facts(ctx->response.stream, &batch);

    for (i = 0; i < n; i++, batch++) {
        chat_facts_init(&facts, chat_arena_scratch());
        chat_facts_since(&facts, ngx_chat_now());
        chat_facts_append(&facts, batch->facts.items, batch->facts.count);

        indexes = batch->facts.count != 0
                  && chat_str_starts(batch->facts.items[0].field, "batch/");

        for (k = 0; k < batch->nkeys; k++) {
            if (indexes) {
                ngx_chat_put_index(ctx, &batch->keys[k], &facts);
            } else {
                ngx_chat_put(ctx, &batch->keys[k], &facts);
            }
        }
    }

    /* the client may answer the events that it gets next */
    if (n != 0) {
        flush(ctx);
    }
}


void
ngx_chat_attempt_keep_results(ngx_chat_ctx_t *ctx)
{
    chat_facts_t facts;

    if (ctx->body.arena == NULL || !ctx->barrier.q.complete
        || ctx->barrier.q.chained)
    {
        return;
    }

    chat_facts_init(&facts, ctx->kept);
    (void) chat_gate_facts(&ctx->barrier.q, &ctx->body.rq, 1,
                           ctx->conf->max_result, &facts);
    ngx_chat_put(ctx, &ctx->barrier.q.key, &facts);
}


static u_char *
log_ids(u_char *p, const char *what, const chat_str_t *ids, size_t n)
{
    size_t i;

    p = ngx_sprintf(p, ", %s", what);

    for (i = 0; i < n; i++) {
        *p++ = ' ';
        p = ngx_chat_log_id(p, ids[i]);
    }

    return n ? p : ngx_sprintf(p, " -");
}


/* One line for each stream that has ended. */
static void
log_end(ngx_chat_ctx_t *ctx)
{
    char                      batch[17];
    size_t                    i, n = 0;
    u_char                    text[NGX_CHAT_LOG_SIZE], *p = text;
    chat_str_t                ids[NGX_CHAT_LOG_IDS];
    const chat_question_t    *q = &ctx->barrier.q;
    const chat_stream_info_t *info;

    if (ctx->response.stream == NULL
        || ctx->request->connection->log->log_level < NGX_LOG_INFO)
    {
        return;
    }

    info = chat_stream_info(ctx->response.stream);
    chat_hex(q->key.name.bytes, 8, batch);

    p = ngx_sprintf(p, "conversation ");
    p = ngx_chat_log_id(p, ctx->scope.conversation);
    p = ngx_sprintf(p, ", stream ");
    p = ngx_chat_log_id(p, info->id);

    /* the results that the request carried, and those of the stream */
    for (i = 0; i < q->nmembers && n < NGX_CHAT_LOG_IDS; i++) {
        if (q->chained || q->members[i].settled) {
            ids[n++] = q->members[i].id;
        }
    }

    p = log_ids(p, "carried", ids, n);
    n = chat_stream_settled(ctx->response.stream, ids, NGX_CHAT_LOG_IDS);
    p = log_ids(p, "settled", ids, n);

    ngx_log_error(NGX_LOG_INFO, ctx->request->connection->log, 0,
                  "chat: stream ended: %s%s%s, dialect %s, batch %s, "
                  "attempt %uD, %*s, calls %uD, replays %uD, "
                  "reused ids %uD, frames past the limit %uD, quarantine "
                  "overflows %uD, bytes %uL",
                  chat_end_names[ctx->response.end], info->reason ? " " : "",
                  info->reason ? info->reason : "", ctx->dialect->name,
                  q->dialect ? batch : "-", ctx->attempt.k,
                  (size_t) (p - text), text, info->calls, info->replay.replays,
                  info->replay.reused, info->oversized, info->overflows,
                  info->bytes_out);
}


/* How the answer ended: as its stream says, or else as its upstream does. */
static chat_end_e
judge(ngx_chat_ctx_t *ctx)
{
    chat_end_e end = ctx->response.stream
                         ? chat_stream_info(ctx->response.stream)->end
                         : CHAT_END_NONE;

    if (ctx->response.stopped
        && (end == CHAT_END_INTERRUPTED || end == CHAT_END_NONE))
    {
        return CHAT_END_ABORTED;
    }

    if (end != CHAT_END_NONE) {
        return end;
    }

    if (ctx->response.status >= 300) {
        return CHAT_END_FAILED;
    }

    if (ctx->response.has_last && ctx->response.upstream_rc == NGX_OK) {
        return CHAT_END_FINISHED;
    }

    return ctx->response.upstream_reason ? CHAT_END_INTERRUPTED
                                         : CHAT_END_ABORTED;
}


void
ngx_chat_attempt_end(ngx_chat_ctx_t *ctx)
{
    size_t              n;
    const chat_piece_t *pieces;

    /* a claim that stands is ended, even if its body could not be parsed */
    if (ctx->response.finished
        || (ctx->dialect == NULL && ctx->attempt.k == 0)) {
        return;
    }

    ctx->response.finished = 1;
    ngx_chat_attempt_void(ctx, ctx->attempt.claiming);

    if (ctx->attempt.live) {
        ctx->attempt.live = 0;
        ngx_queue_remove(&ctx->attempt.queue);
    }

    if (ctx->response.stream != NULL) {
        /* without a client: its facts are stored all the same */
        if (chat_stream_info(ctx->response.stream)->end == CHAT_END_NONE) {
            (void) chat_stream_finish(
                ctx->response.stream, ctx->response.upstream_reason,
                ctx->response.upstream_reason == NULL, &pieces, &n);
        }
        ngx_chat_attempt_facts(ctx);
    }

    if (ctx->response.end == CHAT_END_NONE) {
        ctx->response.end = judge(ctx);
    }

    ngx_chat_index_over(ctx);
    log_end(ctx);
    ngx_chat_metrics_turn(ctx, ctx->response.end);

    if (ctx->attempt.k != 0 && !ctx->response.ended) {
        put_outcome(ctx, ctx->response.end);
    }
}


/* Joins the facts of a live attempt again, which the store has lost. */
static void
rejoin(ngx_chat_ctx_t *ctx, int all)
{
    chat_facts_t           facts;
    chat_attempt_t         attempt;
    const chat_question_t *q = &ctx->barrier.q;

    if (all) {
        ngx_chat_writer_end(ctx, 0); /* its beginning is gone */
    }

    chat_gate_attempt(q, ctx->attempt.k, &attempt);
    attempt.answer = ctx->response.answered ? ctx->response.status : 0;
    attempt.recording = attempt.answer == 0   ? CHAT_RECORDING_UNKNOWN
                        : ctx->writer != NULL ? CHAT_RECORDING_KEPT
                                              : CHAT_RECORDING_IMPOSSIBLE;

    chat_facts_init(&facts, ctx->kept);
    chat_facts_claim(&facts, &attempt);
    chat_gate_rejoin(q, NULL, 0, &facts);
    chat_facts_attempt(&facts, &attempt);
    ngx_chat_put(ctx, &q->key, &facts);
    ngx_chat_attempt_keep_results(ctx);
}


void
ngx_chat_attempts_rejoin(chat_store_t *store, int all)
{
    ngx_queue_t       *q;
    ngx_chat_worker_t *worker = store->data;

    for (q = ngx_queue_head(&worker->attempts);
         q != ngx_queue_sentinel(&worker->attempts); q = ngx_queue_next(q))
    {
        rejoin(ngx_queue_data(q, ngx_chat_ctx_t, attempt.queue), all);
    }
}
