/*
 * ngx_chat_phase.c: the phase handler and the state machine of a request.
 *
 * Runs in PRECONTENT, after access control and before the content handler.
 * step() receives every event of a request. Until the request goes upstream,
 * ngx_chat_decide.c turns an event into an action, and perform() performs it.
 * Promises: a body is read only if it may be chat; a request goes on at most
 * once; a claim that is not used is voided.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "base/ngx_chat_nginx_internals.h"
#include "metrics/ngx_chat_metrics.h"
#include "record/ngx_chat_follow.h"
#include "record/ngx_chat_index.h"
#include "request/ngx_chat_request.h"
#include "store/ngx_chat_ask.h"
#include "store/ngx_chat_store.h"

/*
 * Before a longer request is read, those before it get their replies: their
 * bodies would leave the processor's cache. Short ones share the cache's code.
 */
#ifndef NGX_CHAT_PHASE_LONG
#define NGX_CHAT_PHASE_LONG 8192 /* bytes */
#endif

#if (NGX_DEBUG)
static const char *const actions[] = {
    [CHAT_ACT_PASS] = "pass",     [CHAT_ACT_GO] = "go",
    [CHAT_ACT_CLAIM] = "claim",   [CHAT_ACT_WAIT] = "wait",
    [CHAT_ACT_FOLLOW] = "follow", [CHAT_ACT_POLL] = "poll",
    [CHAT_ACT_LOOK] = "look",     [CHAT_ACT_REPLY] = "reply",
};
#endif


static void step(ngx_chat_ctx_t *ctx, ngx_chat_event_e event);


ngx_chat_ctx_t *
ngx_chat_request_create(ngx_http_request_t *r, ngx_chat_loc_conf_t *conf)
{
    ngx_chat_ctx_t *ctx = ngx_chat_create_ctx(r, conf);

    if (ctx != NULL) {
        ctx->step = step;
        ctx->cleanups[NGX_CHAT_CLEANUP_WATCH] = ngx_chat_watch_end;
        ctx->cleanups[NGX_CHAT_CLEANUP_HOLD] = ngx_chat_hold_end;
        ctx->cleanups[NGX_CHAT_CLEANUP_ATTEMPT] = ngx_chat_attempt_end;
        ctx->cleanups[NGX_CHAT_CLEANUP_METRICS] = ngx_chat_metrics_request;
    }

    return ctx;
}


static void
on_body(ngx_http_request_t *r)
{
    ngx_chat_ctx_t *ctx = ngx_chat_get_ctx(r);

    r->header_in = ctx->body.header_in;

    if (r->request_length > NGX_CHAT_PHASE_LONG) {
        /* of others: what ends this request must find its callers gone */
        ngx_chat_store_answers(ctx->worker->store);
    }

    step(ctx, NGX_CHAT_EVENT_BODY);
}


/*
 * 1 if "chat" is on for the request; *dialect NULL: any. Logs the first
 * unknown value of the worker.
 */
static ngx_uint_t
is_on(ngx_http_request_t *r, const ngx_chat_loc_conf_t *conf,
      const chat_dialect_t **dialect)
{
    u_char             text[32], *end;
    ngx_int_t          rc;
    ngx_str_t          value;
    ngx_chat_worker_t *worker = ngx_chat_worker(r);

    *dialect = conf->dialect;

    if (conf->variable == NULL) {
        return (ngx_uint_t) conf->chat;
    }

    if (ngx_chat_value(r, conf->variable, &value) != NGX_OK || value.len == 0)
    {
        return 0;
    }

    rc = ngx_chat_conf_dialect(&value, dialect);
    if (rc == NGX_ERROR && !worker->unknown_warned) {
        worker->unknown_warned = 1;
        end = ngx_chat_log_text(text, ngx_chat_str(&value), sizeof(text));
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "chat: unknown dialect \"%*s\" in \"chat\", it counts "
                      "as off",
                      (size_t) (end - text), text);
    }

    return rc == NGX_OK;
}


chat_reason_e
ngx_chat_request_unread(ngx_http_request_t *r)
{
    const chat_dialect_t *dialect;
    ngx_chat_headers_t    headers;
    ngx_chat_loc_conf_t  *conf;

    conf = ngx_http_get_module_loc_conf(r, ngx_chat_module);
    if (conf->endpoint != NULL) {
        return CHAT_REASON_NONE_ENDPOINT;
    }

    if (!is_on(r, conf, &dialect)) {
        return CHAT_REASON_NONE_OFF;
    }

    ngx_chat_headers_scan(r, &headers, 0);

    return r->method != NGX_HTTP_POST ? CHAT_REASON_NONE_NOT_POST
           : !headers.json            ? CHAT_REASON_NONE_NOT_JSON
                                      : CHAT_REASON_NONE_NOT_REACHED;
}


/* Reads the body of a request that may be chat. */
static ngx_int_t
begin(ngx_http_request_t *r, ngx_chat_loc_conf_t *conf,
      const ngx_chat_headers_t *headers, const chat_dialect_t *dialect)
{
    ngx_int_t       rc;
    ngx_chat_ctx_t *ctx = ngx_chat_request_create(r, conf);

    if (ctx == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (headers->encoded
        || r->headers_in.content_length_n > (off_t) conf->max_body)
    {
        ctx->reason = headers->encoded ? CHAT_REASON_UNMANAGED_ENCODED_BODY
                                       : CHAT_REASON_REFUSED_BODY_LIMIT;
        ctx->state = NGX_CHAT_GONE_ON;
        ngx_chat_metrics_verdict(ctx);
        return NGX_DECLINED;
    }

    ctx->reason = CHAT_REASON_NONE_DISCONNECTED;
    ctx->headers = *headers;
    ctx->expected = dialect;
    ctx->managed = 1;

    ctx->body.header_in = ngx_chat_nginx_one_buffer(r);
    if (ctx->body.header_in == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_read_client_request_body(r, on_body);
    if (rc >= NGX_HTTP_SPECIAL_RESPONSE) {
        r->header_in = ctx->body.header_in;
        return rc;
    }

    ngx_http_finalize_request(r, NGX_DONE);
    return NGX_DONE;
}


ngx_int_t
ngx_chat_handler(ngx_http_request_t *r)
{
    const chat_dialect_t *dialect;
    ngx_chat_ctx_t       *ctx;
    ngx_chat_headers_t    headers;
    ngx_chat_loc_conf_t  *conf;

    if (r != r->main) {
        return NGX_DECLINED;
    }

    ctx = ngx_chat_get_ctx(r);
    if (ctx != NULL) {
        /* already decided, or redirected to an error page */
        return ctx->state == NGX_CHAT_ASKING || ctx->state == NGX_CHAT_WAITING
                       || ctx->state == NGX_CHAT_FOLLOWING
                   ? NGX_DONE
                   : NGX_DECLINED;
    }

    conf = ngx_http_get_module_loc_conf(r, ngx_chat_module);
    if (conf->endpoint != NULL || !is_on(r, conf, &dialect)) {
        return NGX_DECLINED;
    }

    ngx_chat_headers_scan(r, &headers, !conf->dry_run);

    return r->method == NGX_HTTP_POST && headers.json
               ? begin(r, conf, &headers, dialect)
               : NGX_DECLINED;
}


/* Hands the request over to its content handler. */
static void
hand_over(ngx_chat_ctx_t *ctx)
{
    ngx_uint_t          freed = 0;
    ngx_http_request_t *r = ctx->request;

    if (ctx->dialect != NULL && ngx_chat_body_restore(ctx) != NGX_OK) {
        ctx->dialect = NULL; /* its answer cannot be read */
    }

    ngx_chat_body_free_tree(ctx);
    ngx_chat_payloads_forget(ctx);

    ctx->state = NGX_CHAT_GONE_ON;
    ngx_chat_cleanup(ctx, NGX_CHAT_CLEANUP_INDEX_HOLD,
                     NGX_CHAT_CLEANUP_INDEX_HOLD);

    if (ctx->response.early) {
        /* lets the content handler send a header after the early one */
        r->header_sent = 0;
    }

    r->read_event_handler = ngx_http_block_reading;
    r->write_event_handler = ngx_http_core_run_phases;

    ctx->freed = &freed;
    ngx_http_core_run_phases(r);

    if (!freed) {
        ctx->freed = NULL;
        ngx_chat_orphan_hook(ctx);
    }
}


static void
go_on(ngx_chat_ctx_t *ctx, chat_reason_e reason)
{
    ngx_chat_cleanup(ctx, NGX_CHAT_CLEANUP_WATCH, NGX_CHAT_CLEANUP_HOLD);

    ctx->reason = reason;
    ngx_chat_metrics_verdict(ctx);
    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, ctx->request->connection->log, 0,
                   "chat goes upstream: %s, attempt %uD",
                   chat_reasons[reason].word, ctx->attempt.k);

    if (chat_reasons[reason].verdict == CHAT_VERDICT_BYPASS
        || !ngx_chat_index_begin(ctx))
    {
        hand_over(ctx);
    }
}


/* The body is complete, or cannot be completed. */
static void
on_completed(ngx_chat_ctx_t *ctx, ngx_int_t rc)
{
    chat_store_t *store = ctx->worker->store;
    chat_reason_e reason = ctx->act.reason;

    if (rc == NGX_OK && ctx->attempt.claiming != 0
        && !store->alive(store, ctx->barrier.q.worker))
    {
        /* others may consider this worker dead and its claim void */
        rc = NGX_ERROR;
    }

    if (rc == NGX_OK) {
        ngx_chat_attempt_begin(ctx);

        if (ctx->attempt.k != 0 && ctx->barrier.partial) {
            ngx_chat_attempt_keep_results(ctx);
        }

        ngx_chat_attempt_deliver(ctx);

        if (reason == CHAT_REASON_PASSED_NEW_MESSAGE
            && ctx->body.merged.len != 0) {
            reason = CHAT_REASON_PASSED_REPAIRED;
        }

        go_on(ctx, reason);

    } else if (ctx->body.rq.class == CHAT_CLASS_FRESH) {
        go_on(ctx, reason);

    } else if (rc == NGX_ERROR) {
        ngx_chat_decide_refuse(ctx);

    } else {
        ngx_chat_attempt_void(ctx, ctx->attempt.claiming);
        ngx_chat_reply(ctx, CHAT_REPLY_UNMERGED, CHAT_REASON_BOUNCED_UNMERGED);
    }
}


static void
claim(ngx_chat_ctx_t *ctx)
{
    uint32_t     k = ctx->barrier.decision.k;
    chat_facts_t facts;

    chat_facts_init(&facts, ctx->barrier.look);
    chat_gate_claim(&ctx->barrier.q, k, &facts);
    if (facts.failed) {
        ngx_chat_decide_refuse(ctx);
        return;
    }

    ctx->attempt.claiming = k;
    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, ctx->request->connection->log, 0,
                   "chat claim: attempt %uD", k);

    if (ctx->wait.held && ctx->wait.found == 0) {
        ctx->wait.found = ngx_chat_metrics_clock();
    }

    ngx_chat_decide_look(ctx, &facts, &ctx->barrier.needs, NULL);
}


/* Begins to wait: watches the batch first, then looks once more. */
static void
begin_wait(ngx_chat_ctx_t *ctx)
{
    chat_str_t    message = ctx->body.rq.last_message;
    chat_facts_t  facts;
    chat_reason_e limit;

    if (ngx_chat_hold_limit(ctx, &limit)) {
        ngx_chat_metrics_of(ctx->worker)->counts[CHAT_COUNT_HOLDS_REFUSED]++;

        if (ctx->barrier.q.complete) {
            go_on(ctx, limit);
        } else {
            /* its results are stored, and its client sends it again */
            ngx_chat_reply(ctx, CHAT_REPLY_HELD_LIMIT, limit);
        }

        return;
    }

    chat_facts_init(&facts, ctx->barrier.look);

    if (ctx->act.bounded) {
        ngx_chat_attempt_keep_results(ctx);

        if (!ctx->barrier.opened) {
            ngx_chat_decide_index(ctx);
        }

        chat_facts_add(&facts, "partial", chat_cstr("1"));

        if (message.len != 0 && message.len <= CHAT_ID_MAX) {
            chat_facts_message(&facts, message);
        }
    }

    if (ngx_chat_watch_begin(ctx, &facts) != NGX_OK) {
        ngx_chat_decide_failed(ctx, CHAT_ERROR);
    }
}


static void
wait_for_change(ngx_chat_ctx_t *ctx)
{
    ngx_chat_attempt_void(ctx, ctx->attempt.claiming);
    ngx_chat_payloads_forget(ctx);

    if (ctx->act.bounded) {
        ngx_chat_cleanup(ctx, NGX_CHAT_CLEANUP_FOLLOW,
                         NGX_CHAT_CLEANUP_FOLLOW);
    } else {
        /* now, so that the producer finds a follower before it answers */
        (void) ngx_chat_follow(ctx);
    }

    if (!ctx->barrier.watching) {
        begin_wait(ctx);
        return;
    }

    ngx_chat_hold(ctx);

    if (ctx->barrier.again && ctx->state == NGX_CHAT_WAITING) {
        ngx_chat_watch_look(ctx);
    }
}


static void
reply(ngx_chat_ctx_t *ctx)
{
    ngx_chat_attempt_void(ctx, ctx->attempt.claiming);

    if (ctx->barrier.decision.verdict == CHAT_GATE_OUTCOME
        && ctx->barrier.decision.lost)
    {
        ngx_chat_metrics_of(ctx->worker)->breaks[CHAT_BREAK_PRODUCER_LOST]++;
    }

    if (ctx->act.reply == CHAT_REPLY_EMPTY
        || ctx->act.reply == CHAT_REPLY_BOUNCE) {
        ngx_chat_payloads(ctx); /* these replies contain results */
    } else {
        ngx_chat_reply(ctx, ctx->act.reply, ctx->act.reason);
    }
}


/* Performs ctx->act. It may end the request. */
static void
perform(ngx_chat_ctx_t *ctx)
{
    ngx_log_debug4(NGX_LOG_DEBUG_HTTP, ctx->request->connection->log, 0,
                   "chat verdict: %s, %s, attempt %uD, missing %uz",
                   actions[ctx->act.action],
                   chat_reasons[ctx->act.reason].word, ctx->barrier.decision.k,
                   ctx->barrier.decision.missing);

    switch (ctx->act.action) {
    case CHAT_ACT_CLAIM:
        claim(ctx);
        return;

    case CHAT_ACT_LOOK:
        ngx_chat_decide_look(ctx, NULL, NULL, NULL);
        return;

    case CHAT_ACT_WAIT:
        wait_for_change(ctx);
        return;

    case CHAT_ACT_POLL:
        if (!ngx_chat_decide_poll(ctx)) {
            go_on(ctx, ctx->act.reason);
        }

        return;

    case CHAT_ACT_PASS:
        /* it may have claimed what it does not go upstream with */
        ngx_chat_attempt_void(ctx, ctx->attempt.claiming);
        go_on(ctx, ctx->act.reason);
        return;

    case CHAT_ACT_GO:
        ngx_chat_watch_end(ctx);
        ngx_chat_payloads(ctx);
        return;

    case CHAT_ACT_FOLLOW:
        ngx_chat_watch_end(ctx);

        if ((ctx->wait.held
             || ctx->worker->held < (ngx_uint_t) ctx->conf->max_held)
            && ngx_chat_follow(ctx) == NGX_OK)
        {
            ngx_chat_hold(ctx);
            ngx_chat_follow_look(ctx);
        } else {
            step(ctx, NGX_CHAT_EVENT_UNRECORDED);
        }

        return;

    case CHAT_ACT_REPLY:
        ngx_chat_watch_end(ctx);
        reply(ctx);
    }
}


/* Receives every event of a request. It may end the request. */
static void
step(ngx_chat_ctx_t *ctx, ngx_chat_event_e event)
{
    switch (event) {
    case NGX_CHAT_EVENT_BODY:
        if (ngx_chat_body_read(ctx) == NGX_OK) {
            ngx_chat_decide_begin(ctx);
        } else {
            go_on(ctx, ctx->act.reason);
        }

        return;

    case NGX_CHAT_EVENT_DECIDED:
        perform(ctx);
        return;

    case NGX_CHAT_EVENT_PAYLOADS:
        if (ctx->act.action == CHAT_ACT_GO) {
            on_completed(ctx, ctx->payloads.rc);
        } else if (ctx->act.action == CHAT_ACT_FOLLOW) {
            ngx_chat_follow_start(ctx, ctx->payloads.rc);
        } else {
            ngx_chat_reply(ctx, ctx->act.reply, ctx->act.reason);
        }

        return;

    case NGX_CHAT_EVENT_HEAD:
        ngx_chat_payloads(ctx);
        return;

    case NGX_CHAT_EVENT_UNRECORDED:
        ngx_chat_cleanup(ctx, NGX_CHAT_CLEANUP_FOLLOW,
                         NGX_CHAT_CLEANUP_FOLLOW);
        ngx_chat_decide_act(ctx, 1);
        perform(ctx);
        return;

    case NGX_CHAT_EVENT_TIMEOUT:
        if (ctx->act.action == CHAT_ACT_FOLLOW && !ctx->wait.yields
            && !ngx_exiting) {
            /* a failover may have lost that there is no recording */
            step(ctx, NGX_CHAT_EVENT_UNRECORDED);
            return;
        }

        ctx->act.action = CHAT_ACT_REPLY;
        ctx->act.reply = ctx->wait.k != 0 && !ctx->wait.yields && !ngx_exiting
                             ? CHAT_REPLY_INTERRUPTED
                             : chat_gate_incomplete(ctx->dialect);
        ctx->act.reason = ctx->wait.yields ? ctx->wait.yields
                          : ngx_exiting    ? CHAT_REASON_BOUNCED_EXITING
                                           : CHAT_REASON_BOUNCED_INCOMPLETE;
        ngx_chat_cleanup(ctx, NGX_CHAT_CLEANUP_WATCH, NGX_CHAT_CLEANUP_FOLLOW);
        perform(ctx);
        return;

    case NGX_CHAT_EVENT_INDEXED:
        hand_over(ctx);
        return;

    case NGX_CHAT_EVENT_ANSWER:
        ngx_chat_attempt_answer(ctx);
        return;

    case NGX_CHAT_EVENT_STREAM:
        ngx_chat_attempt_facts(ctx);
        return;

    case NGX_CHAT_EVENT_END:
        ngx_chat_attempt_end(ctx);
        return;
    }
}
