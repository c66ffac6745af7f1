/*
 * ngx_chat_verdict.c: does what the core says of a request.
 *
 * ngx_chat_decide.c has looked at the batch; here the request goes on, claims,
 * waits, or is answered. Promises: a claim that is not used is made void; a
 * request goes on at most once. Must not know: wire formats, how a store
 * stores.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "metrics/ngx_chat_metrics.h"
#include "store/ngx_chat_ask.h"

#define NGX_CHAT_VERDICT_STATUS \
    "the request that carried these results was answered with HTTP "


/* Its body is complete, or cannot be completed. */
static void
ngx_chat_verdict_completed(ngx_chat_ctx_t *ctx, ngx_int_t rc)
{
    if (rc == NGX_OK && ctx->attempt.claiming != 0
        && !ctx->main->store->alive(ctx->main->store, ctx->barrier.q.worker))
    {
        /* the others may take this worker for dead, and the claim is free */
        ngx_chat_away_refuse(ctx);
        return;
    }

    if (rc == NGX_OK) {
        ngx_chat_attempt_begin(ctx);

        if (ctx->attempt.k != 0 && ctx->barrier.partial) {
            ngx_chat_attempt_keep_results(ctx);
        }

        ngx_chat_attempt_carries(ctx);
        ngx_chat_go_on(ctx, ctx->barrier.watching ? NGX_CHAT_VERDICT_RELEASED
                                                  : NGX_CHAT_VERDICT_PASSED);
        return;
    }

    if (ctx->body.rq.class == CHAT_CLASS_FRESH) {
        ngx_chat_go_on(ctx, NGX_CHAT_VERDICT_PASSED);
        return;
    }

    if (rc == NGX_ERROR) {
        ngx_chat_away_refuse(ctx);
        return;
    }

    ngx_chat_attempt_void(ctx, ctx->attempt.claiming);

    ngx_chat_answer_refuse(ctx, NGX_HTTP_CONFLICT, "batch_incomplete",
                           "this request cannot take the results that it "
                           "lacks");
}


static void
ngx_chat_verdict_claim(ngx_chat_ctx_t *ctx)
{
    chat_facts_t facts;

    chat_facts_init(&facts, ctx->barrier.look);
    chat_gate_claim(&ctx->barrier.q, ctx->barrier.decision.k, &facts);
    if (facts.failed) {
        ngx_chat_away_refuse(ctx);
        return;
    }

    ctx->attempt.claiming = ctx->barrier.decision.k;

    if (ctx->wait.held && ctx->wait.found == 0) {
        ctx->wait.found = ngx_chat_metrics_clock();
    }

    ngx_chat_gate_look(ctx, &facts);
}


/*
 * The request may not wait. A complete body goes on; one that lacks results
 * is refused, and its own results are stored: its client sends it again.
 */
static void
ngx_chat_verdict_no_hold(ngx_chat_ctx_t *ctx, const char *reason)
{
    ctx->reason = reason;
    ngx_chat_metrics_count(ctx->main, CHAT_COUNT_HOLDS_REFUSED, 1);

    if (ctx->barrier.q.complete) {
        ngx_chat_go_on(ctx, NGX_CHAT_VERDICT_REFUSED);
        return;
    }

    ngx_chat_answer_refuse(ctx, NGX_HTTP_SERVICE_UNAVAILABLE, reason,
                           "too many requests wait for results at the moment");
}


/* Others that send the same must be able to tell their tries from this. */
static void
ngx_chat_verdict_twin(ngx_chat_ctx_t *ctx)
{
    chat_facts_t facts;

    chat_facts_init(&facts, ctx->barrier.look);
    chat_gate_twin(&ctx->barrier.q, &facts);
    ngx_chat_put(ctx, &ctx->barrier.q.key, &facts);
}


/* The limit that keeps the request from waiting; or NULL. */
static const char *
ngx_chat_verdict_past_limit(ngx_chat_ctx_t *ctx)
{
    /* as many as there may be results, from two tabs each */
    if (ngx_chat_watch_mates(ctx) >= 2 * (ngx_uint_t) ctx->conf->max_calls) {
        return "held_batch_limit";
    }

    return ngx_chat_quota_limit(ctx);
}


/* Waits for a change: watches first, then looks once more. */
static void
ngx_chat_verdict_wait(ngx_chat_ctx_t *ctx)
{
    const char  *reason;
    chat_facts_t facts;
    ngx_uint_t   bounded = ctx->barrier.decision.verdict == CHAT_GATE_HOLD;

    ngx_chat_attempt_void(ctx, ctx->attempt.claiming);

    if (ctx->barrier.watching && bounded
        && ctx->conf->hold == NGX_CHAT_HOLD_TIME && ctx->conf->hold_time == 0)
    {
        /* answers, and may free the request */
        ngx_chat_verdict_bound(ctx);
        return;
    }

    if (bounded) {
        ngx_chat_follow_leave(ctx);
    } else {
        /* so early that the producer finds a follower before it answers */
        ngx_chat_follow_wait(ctx);
    }

    if (ctx->barrier.watching) {
        ngx_chat_hold(ctx, bounded);

        if (ctx->barrier.again && ctx->state == NGX_CHAT_WAITING) {
            ngx_chat_watch_look(ctx);
        }
        return;
    }

    reason = ngx_chat_verdict_past_limit(ctx);
    if (reason != NULL) {
        ngx_chat_verdict_no_hold(ctx, reason);
        return;
    }

    if (bounded) {
        ngx_chat_attempt_keep_results(ctx);
    }

    if (bounded && !ctx->barrier.opened) {
        ngx_chat_name_record(ctx);
    }

    chat_facts_init(&facts, ctx->barrier.look);

    if (bounded) {
        chat_facts_add(&facts, "partial", chat_cstr("1"));
    }

    if (bounded && ctx->body.rq.last_message.len != 0
        && ctx->body.rq.last_message.len <= CHAT_ID_MAX)
    {
        chat_facts_message(&facts, ctx->body.rq.last_message);
    }

    if (ngx_chat_watch_begin(ctx, &facts) != NGX_OK) {
        ngx_chat_away_failed(ctx, CHAT_ERROR);
    }
}


static void
ngx_chat_verdict_collected_bounce(ngx_chat_ctx_t *ctx, ngx_int_t rc)
{
    (void) rc;
    ngx_chat_answer_bounce(ctx);
}


/* What became of the attempt that this request waited for. */
static void
ngx_chat_verdict_fate(ngx_chat_ctx_t *ctx)
{
    u_char text[sizeof(NGX_CHAT_VERDICT_STATUS) + NGX_INT32_LEN];
    const chat_decision_t *decision = &ctx->barrier.decision;

    if (decision->lost) {
        ngx_chat_metrics_cut(ctx->main, "producer_lost");
    }

    if (decision->status >= 400) {
        /* in a 200 the status would be lost */
        ngx_sprintf(text, NGX_CHAT_VERDICT_STATUS "%uD%Z",
                    (uint32_t) decision->status);
        ngx_chat_answer_refuse(ctx, decision->status, "upstream_error",
                               (char *) text);
        return;
    }

    if (decision->end == CHAT_END_FAILED || decision->status >= 300) {
        ngx_chat_answer_refuse(ctx, NGX_HTTP_BAD_GATEWAY, "upstream_error",
                               "the answer to these results was an error");
        return;
    }

    if (decision->end == CHAT_END_ABORTED) {
        if (ctx->dialect->one_by_one) {
            ngx_chat_collect(ctx, ngx_chat_verdict_collected_bounce);
            return;
        }

        ngx_chat_answer_refuse(ctx, NGX_HTTP_CONFLICT, "aborted",
                               "the request that carried these results was "
                               "given up by its client");
        return;
    }

    ngx_chat_answer_broken(ctx, decision->lost ? "producer_lost" : "upstream");
}


static void
ngx_chat_verdict_collected_empty(ngx_chat_ctx_t *ctx, ngx_int_t rc)
{
    (void) rc;
    ngx_chat_answer_empty(ctx);
}


static void
ngx_chat_verdict_conflict(ngx_chat_ctx_t *ctx)
{
    ngx_chat_answer_refuse(ctx, NGX_HTTP_CONFLICT, "conflict",
                           "another request carried these results and has "
                           "the answer");
}


/* A sibling that does not get the answer itself. */
static void
ngx_chat_verdict_sibling(ngx_chat_ctx_t *ctx)
{
    ngx_uint_t siblings = ctx->conf->siblings;

    if (siblings == NGX_CHAT_SIBLINGS_CONFLICT
        || (siblings == NGX_CHAT_SIBLINGS_ATTACH && ctx->dialect->no_empty))
    {
        ngx_chat_verdict_conflict(ctx);
        return;
    }

    ngx_chat_collect(ctx, ngx_chat_verdict_collected_empty);
}


/* A verdict that ends the request here. */
static void
ngx_chat_verdict_end(ngx_chat_ctx_t *ctx)
{
    ngx_chat_attempt_void(ctx, ctx->attempt.claiming);

    switch (ctx->barrier.decision.verdict) {
    case CHAT_GATE_SIBLING:
        ngx_chat_follow(ctx, 0, ngx_chat_verdict_sibling);
        return;

    case CHAT_GATE_EMPTY:
        ngx_chat_collect(ctx, ngx_chat_verdict_collected_empty);
        return;

    case CHAT_GATE_FATE:
        ngx_chat_verdict_fate(ctx);
        return;

    case CHAT_GATE_INCOMPLETE:
        ngx_chat_verdict_bound(ctx);
        return;

    case CHAT_GATE_SUPERSEDED:
        ngx_chat_answer_refuse(ctx, NGX_HTTP_CONFLICT, "superseded",
                               "the user has gone on with another message");
        return;

    case CHAT_GATE_CLEARED:
        ngx_chat_answer_refuse(ctx, NGX_HTTP_CONFLICT, "cleared",
                               "the conversation was cleared");
        return;

    case CHAT_GATE_LOOP:
        ngx_chat_answer_refuse(ctx, NGX_HTTP_TOO_MANY_REQUESTS, "loop",
                               "the answer to these results was asked for "
                               "ten times within a minute");
        return;

    default:
        ngx_chat_verdict_conflict(ctx);
    }
}


/* The verdict as $chat_verdict where nothing is to be changed. */
static ngx_chat_verdict_e
ngx_chat_verdict_observed(chat_gate_e verdict)
{
    switch (verdict) {
    case CHAT_GATE_HOLD:
    case CHAT_GATE_WAIT:
        return NGX_CHAT_VERDICT_HELD;

    case CHAT_GATE_SIBLING:
    case CHAT_GATE_EMPTY:
        return NGX_CHAT_VERDICT_EMPTY;

    case CHAT_GATE_CONFLICT:
    case CHAT_GATE_FATE:
        return NGX_CHAT_VERDICT_CONFLICT;

    case CHAT_GATE_INCOMPLETE:
        return NGX_CHAT_VERDICT_BOUNCED;

    case CHAT_GATE_SUPERSEDED:
    case CHAT_GATE_CLEARED:
        return NGX_CHAT_VERDICT_SUPERSEDED;

    case CHAT_GATE_LOOP:
        return NGX_CHAT_VERDICT_REFUSED;

    case CHAT_GATE_UNMANAGED:
        return NGX_CHAT_VERDICT_UNMANAGED;

    default:
        return NGX_CHAT_VERDICT_PASSED;
    }
}


/* A verdict that nothing changes any more. */
static void
ngx_chat_verdict_final(ngx_chat_ctx_t *ctx)
{
    switch (ctx->barrier.decision.verdict) {
    case CHAT_GATE_GO:
    case CHAT_GATE_PASS:
        ngx_chat_complete(ctx, ngx_chat_verdict_completed);
        return;

    case CHAT_GATE_UNMANAGED:
        ngx_chat_go_on(ctx, NGX_CHAT_VERDICT_UNMANAGED);
        return;

    default:
        ngx_chat_verdict_end(ctx);
    }
}


/* Items for a conversation: whatever became of the batch, they go on. */
static void
ngx_chat_verdict_items(ngx_chat_ctx_t *ctx)
{
    if (ctx->barrier.decision.verdict != CHAT_GATE_UNMANAGED) {
        ngx_chat_attempt_carries(ctx);
        ngx_chat_go_on(ctx, NGX_CHAT_VERDICT_PASSED);

    } else if (!ngx_chat_away_look_later(ctx)) {
        ngx_chat_go_on(ctx, NGX_CHAT_VERDICT_UNMANAGED);
    }
}


void
ngx_chat_verdict_act(ngx_chat_ctx_t *ctx)
{
    chat_gate_e verdict = ctx->barrier.decision.verdict;

    if (ctx->body.rq.class == CHAT_CLASS_ITEMS) {
        ngx_chat_verdict_items(ctx);
        return;
    }

    if (ctx->body.rq.class == CHAT_CLASS_FRESH) {
        ngx_chat_complete(ctx, ngx_chat_verdict_completed);
        return;
    }

    if (ctx->body.rq.class == CHAT_CLASS_PENDING) {
        if (verdict == CHAT_GATE_HOLD) {
            ngx_chat_go_on(ctx, NGX_CHAT_VERDICT_PASSED);
            return;
        }

        /* what it lacks came from outside */
        ctx->barrier.external = 1;
        ctx->body.rq.class = CHAT_CLASS_CONTINUATION;
    }

    if (verdict == CHAT_GATE_CLAIM) {
        ngx_chat_verdict_claim(ctx);
        return;
    }

    if (ctx->barrier.decision.twin) {
        ngx_chat_verdict_twin(ctx);
    }

    if (ctx->conf->dry_run || ctx->conf->hold == NGX_CHAT_HOLD_OFF) {
        ngx_chat_attempt_begin(ctx);
        ngx_chat_go_on(ctx, ngx_chat_verdict_observed(verdict));
        return;
    }

    if (verdict == CHAT_GATE_HOLD || verdict == CHAT_GATE_WAIT) {
        ngx_chat_verdict_wait(ctx);
        return;
    }

    if (verdict == CHAT_GATE_UNMANAGED && ngx_chat_away_look_later(ctx)) {
        return;
    }

    /* what changes from now on is no matter of this request */
    ngx_chat_watch_end(ctx);

    if (ctx->barrier.decision.attach) {
        ngx_chat_follow(ctx, 1, ngx_chat_verdict_final);
        return;
    }

    ngx_chat_verdict_final(ctx);
}


void
ngx_chat_verdict_bound(ngx_chat_ctx_t *ctx)
{
    ngx_chat_watch_end(ctx);
    ngx_chat_follow_leave(ctx);

    if (ctx->dialect->bounce != NULL) {
        ngx_chat_collect(ctx, ngx_chat_verdict_collected_bounce);
        return;
    }

    ngx_chat_answer_refuse(ctx, NGX_HTTP_CONFLICT, "batch_incomplete",
                           "results of other calls of the same step are "
                           "still missing");
}
