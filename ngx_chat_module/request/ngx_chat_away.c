/*
 * ngx_chat_away.c: what becomes of requests when the store cannot be asked,
 * when it is late, and when it has lost what it was told.
 *
 * A request that has waited, or whose batch was seen incomplete, never goes
 * on without the store; any other one does as chat_store_failure says. What
 * was lost is joined again by those who know it: held requests their results,
 * live attempts their claims. Must not know: how a store stores.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "record/ngx_chat_reader.h"
#include "metrics/ngx_chat_metrics.h"
#include "record/ngx_chat_writer.h"
#include "store/ngx_chat_ask.h"


void
ngx_chat_away_refuse(ngx_chat_ctx_t *ctx)
{
    ngx_chat_attempt_void(ctx, ctx->attempt.claiming);

    if (ctx->reason == NULL) {
        ctx->reason = "store_unavailable";
    }

    if (ctx->wait.held && ctx->dialect->one_by_one) {
        ngx_chat_verdict_bound(ctx);
        return;
    }

    if (ngx_strcmp(ctx->reason, "store_full") == 0) {
        ngx_chat_answer_refuse(ctx, NGX_HTTP_SERVICE_UNAVAILABLE, ctx->reason,
                               "there is no room left for the state of this "
                               "conversation");
        return;
    }

    ngx_chat_answer_refuse(ctx, NGX_HTTP_SERVICE_UNAVAILABLE,
                           "store_unavailable",
                           "the state of this conversation cannot be read at "
                           "the moment");
}


/*
 * 1 if the body is known to lack results that the provider asks for. Of a
 * chain only the store knows that; without it the body may be complete.
 */
static ngx_uint_t
ngx_chat_away_incomplete(ngx_chat_ctx_t *ctx)
{
    return ctx->managed && ctx->body.rq.class == CHAT_CLASS_CONTINUATION
           && ctx->barrier.q.dialect != NULL && !ctx->barrier.q.complete
           && (!ctx->barrier.q.chained || ctx->barrier.watching)
           && !ctx->conf->dry_run && ctx->conf->hold != NGX_CHAT_HOLD_OFF;
}


/* As chat_store_failure says, for a request that was not judged. */
static void
ngx_chat_away_pass(ngx_chat_ctx_t *ctx)
{
    if ((ctx->conf->failure == NGX_CHAT_FAILURE_DENY && !ctx->conf->dry_run)
        || ngx_chat_away_incomplete(ctx))
    {
        ngx_chat_away_refuse(ctx);
        return;
    }

    /* its claim may stand: if so, the others learn what becomes of it */
    ngx_chat_attempt_begin(ctx);
    ngx_chat_go_on(ctx, NGX_CHAT_VERDICT_BYPASS);
}


void
ngx_chat_away_failed(ngx_chat_ctx_t *ctx, chat_rc_e rc)
{
    ctx->reason = rc == CHAT_LIMIT ? "store_full" : "store_unavailable";

    if (rc == CHAT_LIMIT) {
        ngx_chat_metrics_count(ctx->main, CHAT_COUNT_STORE_FULL, 1);
    }

    if (ctx->wait.held) {
        if (rc == CHAT_ERROR
            && ctx->main->store->state == CHAT_STORE_RECONNECTING) {
            /* it is told when the store is back, or given up */
            ctx->reason = NULL;
            ngx_chat_attempt_void(ctx, ctx->attempt.claiming);
            return;
        }

        ngx_chat_away_refuse(ctx);
        return;
    }

    if (rc == CHAT_LIMIT) {
        /* its claim may have found room, its other facts have not */
        ngx_chat_attempt_void(ctx, ctx->attempt.claiming);
        ngx_chat_watch_end(ctx);

    } else if (ctx->barrier.watching) {
        ngx_chat_away_refuse(ctx);
        return;
    }

    ngx_chat_away_pass(ctx);
}


void
ngx_chat_away_rejoin(ngx_chat_ctx_t *ctx)
{
    size_t       dropped = 0;
    u_char       since[NGX_INT64_LEN + 1], *end;
    chat_facts_t facts;

    if (ctx->body.arena == NULL && ngx_chat_parse(ctx) != NGX_OK) {
        ngx_chat_away_refuse(ctx);
        return;
    }

    end = ngx_sprintf(since, "%uL", ctx->barrier.since);

    chat_facts_init(&facts, ctx->body.arena);
    chat_facts_add(&facts, "since", chat_str(since, (size_t) (end - since)));
    chat_gate_facts(&ctx->barrier.q, &ctx->body.rq, 1, ctx->conf->max_result,
                    &facts, &dropped);
    chat_gate_rejoin(&ctx->barrier.q, ctx->barrier.known, ctx->barrier.nknown,
                     &facts);

    if (facts.failed) {
        ngx_chat_away_refuse(ctx);
        return;
    }

    ctx->barrier.rejoined = 1;
    ngx_chat_name_record(ctx);

    if (ngx_chat_watch_begin(ctx, &facts) != NGX_OK) {
        ngx_chat_away_refuse(ctx);
        return;
    }

    if (ctx->wait.held) {
        chat_arena_destroy(ctx->body.arena);
        ctx->body.arena = NULL;
    }
}


static void
ngx_chat_away_late(ngx_event_t *ev)
{
    ngx_chat_gate_anew(ev->data);
}


ngx_msec_t
ngx_chat_away_pause(const chat_store_t *store, ngx_uint_t *looks)
{
    static const ngx_msec_t pauses[] = { 5, 15, 40, 140 };

    if (store->flush == NULL || *looks == sizeof(pauses) / sizeof(pauses[0])) {
        return 0;
    }

    return pauses[(*looks)++];
}


ngx_uint_t
ngx_chat_away_look_later(ngx_chat_ctx_t *ctx)
{
    ngx_msec_t pause;

    if (!ctx->barrier.q.chained || ctx->barrier.watching) {
        return 0;
    }

    pause = ngx_chat_away_pause(ctx->main->store, &ctx->barrier.polls);
    if (pause == 0) {
        return 0;
    }

    ctx->wait.timer.handler = ngx_chat_away_late;
    ctx->wait.timer.data = ctx;
    ctx->wait.timer.log = ctx->request->connection->log;
    ngx_add_timer(&ctx->wait.timer, pause);
    return 1;
}


/* A live attempt: what it knows of itself, and what it carried. */
static void
ngx_chat_away_attempt(ngx_chat_ctx_t *ctx, int all)
{
    chat_facts_t facts;

    if (all) {
        /* its beginning is gone */
        ngx_chat_writer_stop(ctx);
    }

    chat_facts_init(&facts, ctx->kept);
    chat_gate_claim(&ctx->barrier.q, ctx->attempt.k, &facts);
    chat_gate_rejoin(&ctx->barrier.q, NULL, 0, &facts);

    if (ctx->response.answered) {
        chat_facts_answer(&facts, ctx->attempt.k, ctx->barrier.q.worker,
                          ctx->barrier.q.request, ctx->response.status);
    }

    ngx_chat_put(ctx, &ctx->barrier.q.key, &facts);
    ngx_chat_attempt_keep_results(ctx);
}


void
ngx_chat_away_lost(chat_store_t *store, int all)
{
    ngx_queue_t          *q;
    ngx_chat_main_conf_t *mcf = store->data;

    for (q = ngx_queue_head(&mcf->attempts);
         q != ngx_queue_sentinel(&mcf->attempts); q = ngx_queue_next(q))
    {
        ngx_chat_away_attempt(ngx_queue_data(q, ngx_chat_ctx_t, attempt.queue),
                              all);
    }

    ngx_chat_reader_lost(mcf);
}
