/*
 * ngx_chat_attempt.c: tells the store what becomes of an answer.
 *
 * The header of the answer (answer/k/...), what its stream brings (calls,
 * results, seal), and how it ended (end/k/...). Nobody waits for these joins.
 * Promises: an attempt that is ours gets its end, whatever happens.
 * Must not know: wire formats.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "record/ngx_chat_index.h"
#include "metrics/ngx_chat_metrics.h"
#include "request/ngx_chat_request.h"
#include "store/ngx_chat_ask.h"

#define NGX_CHAT_LOG_IDS 8
#define NGX_CHAT_LOG_SIZE 512


static void
ngx_chat_attempt_flush(ngx_chat_ctx_t *ctx)
{
    chat_store_t *store = ctx->main->store;

    if (store != NULL && store->flush != NULL) {
        store->flush(store);
    }
}


void
ngx_chat_attempt_void(ngx_chat_ctx_t *ctx, uint32_t k)
{
    chat_facts_t facts;

    if (k == 0) {
        return;
    }

    if (k == ctx->attempt.claiming) {
        ctx->attempt.claiming = 0;
    }

    chat_facts_init(&facts, ctx->kept);
    chat_facts_void(&facts, k, ctx->barrier.q.worker, ctx->barrier.q.request);
    ngx_chat_put(ctx, &ctx->barrier.q.key, &facts);
}


void
ngx_chat_attempt_begin(ngx_chat_ctx_t *ctx)
{
    ctx->attempt.k = ctx->attempt.claiming;
    ctx->attempt.claiming = 0;

    if (ctx->attempt.k != 0 && !ctx->attempt.live) {
        ctx->attempt.live = 1;
        ngx_queue_insert_tail(&ctx->main->attempts, &ctx->attempt.queue);
    }
}


void
ngx_chat_attempt_carries(ngx_chat_ctx_t *ctx)
{
    size_t i, dropped = 0;

    if (ctx->attempt.k != 0 || !ctx->barrier.q.kept) {
        return;
    }

    chat_facts_init(&ctx->attempt.carried, ctx->kept);

    if (ctx->body.rq.class == CHAT_CLASS_ITEMS) {
        /* without payloads: no body is to take them */
        chat_gate_facts(&ctx->barrier.q, &ctx->body.rq, 0, 0,
                        &ctx->attempt.carried, &dropped);
    }

    for (i = 0; i < ctx->barrier.q.nmembers; i++) {
        chat_facts_delivered(&ctx->attempt.carried,
                             ctx->barrier.q.members[i].id);
    }

    for (i = 0; i < ctx->body.results.count; i++) {
        chat_facts_delivered(&ctx->attempt.carried,
                             ctx->body.results.items[i].id);
    }
}


ngx_uint_t
ngx_chat_attempt_unsent(ngx_chat_ctx_t *ctx)
{
    ngx_uint_t                 i;
    ngx_http_request_t        *r = ctx->request;
    ngx_http_upstream_state_t *state;

    if (ctx->response.answered && ctx->response.status < 500) {
        return 0;
    }

    if (r->upstream == NULL || r->upstream_states == NULL
        || r->upstream->request_sent)
    {
        return 0;
    }

    state = r->upstream_states->elts;

    for (i = 0; i < r->upstream_states->nelts; i++) {
        /* no state, or status 0: it had no address yet */
        if (state[i].bytes_sent > 0
            || (state[i].status != 0 && state[i].status < 500)) {
            return 0;
        }
    }

    return 1;
}


/* answer/k of an attempt, or void/k; of a refusal its end, too. */
static void
ngx_chat_attempt_status(ngx_chat_ctx_t *ctx, uint32_t status)
{
    uint32_t     after;
    chat_facts_t facts;

    if (ngx_chat_attempt_unsent(ctx)) {
        ctx->response.ended = 1;
        ngx_chat_attempt_keep_results(ctx);
        ngx_chat_attempt_void(ctx, ctx->attempt.k);
        return;
    }

    chat_facts_init(&facts, ctx->kept);
    chat_facts_answer(&facts, ctx->attempt.k, ctx->barrier.q.worker,
                      ctx->barrier.q.request, status);

    if (status >= 300) {
        ctx->response.ended = 1;
        ngx_chat_attempt_keep_results(ctx);

        after = ngx_chat_headers_after(ctx->request);
        if (after != 0) {
            chat_facts_after(&facts, ctx->attempt.k, ctx->barrier.q.worker,
                             ctx->barrier.q.request, after);
        }

        chat_facts_end(&facts, ctx->attempt.k, ctx->barrier.q.worker,
                       ctx->barrier.q.request, CHAT_END_FAILED);
    }

    ngx_chat_put(ctx, &ctx->barrier.q.key, &facts);
}


void
ngx_chat_attempt_answer(ngx_chat_ctx_t *ctx, uint32_t status)
{
    if (ctx->response.answered) {
        return;
    }

    ctx->response.answered = 1;
    ctx->response.status = status;

    if (ctx->attempt.k != 0) {
        ngx_chat_attempt_status(ctx, status);

    } else if (status >= 200 && status < 300) {
        ngx_chat_put(ctx, &ctx->barrier.q.key, &ctx->attempt.carried);
    }

    /* the client may send its next request as soon as it has the status */
    ngx_chat_attempt_flush(ctx);
}


/* What the stream says of one batch, and when that was. */
static void
ngx_chat_attempt_batch(ngx_chat_ctx_t *ctx, const chat_stream_facts_t *batch)
{
    u_char        now[NGX_INT64_LEN + 1], *end;
    chat_arena_t *arena;
    chat_facts_t  facts;

    arena = chat_arena_create(0);
    if (arena == NULL) {
        return;
    }

    chat_facts_init(&facts, arena);
    facts.items =
        chat_arena_alloc(arena, (batch->count + 1) * sizeof(*facts.items));

    if (facts.items != NULL) {
        end = ngx_sprintf(now, "%uL", ngx_chat_now());
        facts.items[0].field = chat_cstr("since");
        facts.items[0].value = chat_str(now, (size_t) (end - now));
        ngx_memcpy(facts.items + 1, batch->facts,
                   batch->count * sizeof(*facts.items));
        facts.count = batch->count + 1;
        ngx_chat_put(ctx, &batch->key, &facts);
    }

    chat_arena_destroy(arena);
}


void
ngx_chat_attempt_facts(ngx_chat_ctx_t *ctx)
{
    size_t                     i, n;
    const chat_stream_facts_t *facts;

    n = chat_stream_facts(ctx->response.stream, &facts);

    for (i = 0; i < n; i++) {
        ngx_chat_attempt_batch(ctx, &facts[i]);
    }

    /* the client may answer to what it is sent next */
    if (n != 0) {
        ngx_chat_attempt_flush(ctx);
    }
}


void
ngx_chat_attempt_keep_results(ngx_chat_ctx_t *ctx)
{
    size_t       dropped = 0;
    chat_facts_t facts;

    if (ctx->body.arena == NULL || !ctx->barrier.q.complete
        || ctx->barrier.q.chained)
    {
        return;
    }

    chat_facts_init(&facts, ctx->kept);
    chat_gate_facts(&ctx->barrier.q, &ctx->body.rq, 1, ctx->conf->max_result,
                    &facts, &dropped);
    ngx_chat_put(ctx, &ctx->barrier.q.key, &facts);
}


u_char *
ngx_chat_log_id(u_char *p, chat_str_t id)
{
    size_t i;

    if (id.len == 0) {
        return ngx_sprintf(p, "-");
    }

    for (i = 0; i < id.len && i < NGX_CHAT_LOG_ID; i++) {
        *p++ = id.data[i] > ' ' && id.data[i] < 0x7f ? id.data[i] : '?';
    }

    return p;
}


static u_char *
ngx_chat_attempt_list(u_char *p, const char *what, const chat_str_t *ids,
                      size_t n)
{
    size_t i;

    p = ngx_sprintf(p, ", %s", what);

    for (i = 0; i < n; i++) {
        *p++ = ' ';
        p = ngx_chat_log_id(p, ids[i]);
    }

    return n ? p : ngx_sprintf(p, " -");
}


/* The calls whose results this request brought, and those of the stream. */
static u_char *
ngx_chat_attempt_settled(u_char *p, ngx_chat_ctx_t *ctx)
{
    size_t                 i, n = 0;
    chat_str_t             ids[NGX_CHAT_LOG_IDS];
    const chat_question_t *q = &ctx->barrier.q;

    for (i = 0; i < q->nmembers && n < NGX_CHAT_LOG_IDS; i++) {
        if (q->chained || q->members[i].settled) {
            ids[n++] = q->members[i].id;
        }
    }

    p = ngx_chat_attempt_list(p, "brought", ids, n);
    n = chat_stream_settled(ctx->response.stream, ids, NGX_CHAT_LOG_IDS);
    return ngx_chat_attempt_list(p, "settled", ids, n);
}


/* One line for each stream that has ended. */
static void
ngx_chat_attempt_log(ngx_chat_ctx_t *ctx, chat_end_e end)
{
    char                       batch[17];
    u_char                     text[NGX_CHAT_LOG_SIZE], *p = text;
    const chat_stream_info_t  *info;
    const chat_replay_count_t *count;

    if (ctx->response.stream == NULL) {
        return;
    }

    info = chat_stream_info(ctx->response.stream);
    count = chat_stream_count(ctx->response.stream);
    chat_digest_hex(&ctx->barrier.q.key.name, 8, batch);

    p = ngx_sprintf(p, "conversation ");
    p = ngx_chat_log_id(p, ctx->scope.conversation);
    p = ngx_sprintf(p, ", stream ");
    p = ngx_chat_log_id(p, info->id);
    p = ngx_chat_attempt_settled(p, ctx);

    ngx_log_error(NGX_LOG_INFO, ctx->request->connection->log, 0,
                  "chat: stream ended: %s%s%s, dialect %s, batch %s, "
                  "attempt %uD, %*s, calls %uD, replays %uD, "
                  "reused ids %uD, frames past the limit %uD, quarantines "
                  "given up %uD, bytes %uL",
                  chat_end_name(end), info->reason ? " " : "",
                  info->reason ? info->reason : "", ctx->dialect->name,
                  ctx->barrier.q.dialect ? batch : "-", ctx->attempt.k,
                  (size_t) (p - text), text, info->calls, count->replays,
                  count->reused, info->oversized, info->overflows,
                  info->bytes_out);
}


/* How an answer ended that no stream reader has judged. */
static chat_end_e
ngx_chat_attempt_judge(ngx_chat_ctx_t *ctx)
{
    chat_end_e end;

    end = ctx->response.stream ? chat_stream_info(ctx->response.stream)->end
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
ngx_chat_attempt_end(ngx_chat_ctx_t *ctx, chat_end_e end)
{
    size_t              n;
    chat_facts_t        facts;
    const chat_piece_t *pieces;

    ngx_chat_stall_end(ctx);

    if (ctx->response.finished) {
        return;
    }

    ctx->response.finished = 1;
    ngx_chat_attempt_void(ctx, ctx->attempt.claiming);

    if (ctx->attempt.live) {
        ctx->attempt.live = 0;
        ngx_queue_remove(&ctx->attempt.queue);
    }

    if (ctx->response.stream != NULL) {
        /* nobody is written to: what the stream knew is told all the same */
        if (chat_stream_info(ctx->response.stream)->end == CHAT_END_NONE) {
            (void) chat_stream_finish(
                ctx->response.stream, ctx->response.upstream_reason,
                ctx->response.upstream_reason == NULL, &pieces, &n);
        }
        ngx_chat_attempt_facts(ctx);
    }

    if (end == CHAT_END_NONE) {
        end = ngx_chat_attempt_judge(ctx);
    }

    ctx->response.end = end;
    ngx_chat_index_over(ctx);
    ngx_chat_attempt_log(ctx, end);
    ngx_chat_metrics_turn(ctx, end);

    if (ctx->attempt.k == 0 || ctx->response.ended) {
        return;
    }

    ctx->response.ended = 1;
    chat_facts_init(&facts, ctx->kept);

    if (ngx_chat_attempt_unsent(ctx)) {
        chat_facts_void(&facts, ctx->attempt.k, ctx->barrier.q.worker,
                        ctx->barrier.q.request);
    } else {
        chat_facts_end(&facts, ctx->attempt.k, ctx->barrier.q.worker,
                       ctx->barrier.q.request, end);
    }

    if (end != CHAT_END_FINISHED) {
        ngx_chat_attempt_keep_results(ctx);
    }

    ngx_chat_put(ctx, &ctx->barrier.q.key, &facts);
}


void
ngx_chat_attempt_leave(ngx_chat_ctx_t *ctx)
{
    /* a claim that stands is ended, even if its body could not be parsed */
    if (ctx->dialect != NULL || ctx->attempt.k != 0) {
        ngx_chat_attempt_end(ctx, CHAT_END_NONE);
    }
}
