/*
 * ngx_chat_decide.c: asks the store about a request and does what the core
 * says of it.
 *
 * A continuation joins what it brings, looks at all facts of its batch, and
 * either goes on, waits (and looks again whenever something changes), or is
 * answered. Must not know: wire formats, how a store stores.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "metrics/ngx_chat_metrics.h"
#include "store/ngx_chat_ask.h"
#include "facts/chat_recording.h"


void
ngx_chat_gate_waits(ngx_chat_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;

    if (ctx->state != NGX_CHAT_WAITING) {
        /* only its client's leaving ends this */
        ctx->state = NGX_CHAT_ASKING;
        r->read_event_handler = ngx_http_test_reading;
        r->write_event_handler = ngx_http_request_empty_handler;
    }

    ctx->barrier.again = 0;
    ctx->barrier.asked = ngx_chat_metrics_clock();
}


void
ngx_chat_gate_ask(ngx_chat_ctx_t *ctx, const chat_key_t *key,
                  const chat_facts_t *facts, ngx_chat_ask_pt done)
{
    ngx_chat_gate_waits(ctx);
    ngx_chat_ask(ctx, &ctx->barrier.ask, key, facts, done);
}


void
ngx_chat_gate_look(ngx_chat_ctx_t *ctx, const chat_facts_t *facts)
{
    ngx_chat_gate_ask(ctx, &ctx->barrier.q.key, facts, ngx_chat_gate_done);
}


/* The verdicts of a request that nothing has to be asked for. */
static void
ngx_chat_gate_pass(ngx_chat_ctx_t *ctx, ngx_int_t rc)
{
    (void) rc;
    ngx_chat_go_on(ctx, ctx->managed ? NGX_CHAT_VERDICT_PASSED
                                     : NGX_CHAT_VERDICT_UNMANAGED);
}


/* The question of a request that answers a step; NGX_DECLINED: not managed. */
static ngx_int_t
ngx_chat_gate_question(ngx_chat_ctx_t *ctx)
{
    u_char          *end;
    chat_rc_e        rc;
    chat_question_t *q = &ctx->barrier.q;

    if (ngx_chat_name(ctx) != CHAT_OK) {
        ctx->managed = 0;
        return NGX_DECLINED;
    }

    rc = chat_gate_question(ctx->dialect, &ctx->body.rq,
                            (size_t) ctx->conf->max_calls, ctx->kept, q);

    if (rc == CHAT_DECLINED && ctx->body.rq.chained) {
        /* a fresh turn on a chain brings nothing itself */
        rc = CHAT_OK;
    }

    if (rc != CHAT_OK) {
        return rc == CHAT_LIMIT ? NGX_ABORT : NGX_DECLINED;
    }

    end = ngx_sprintf(ctx->barrier.id, "%ui", ctx->main->serial++);
    q->request = chat_str(ctx->barrier.id, (size_t) (end - ctx->barrier.id));
    q->worker = ctx->main->store->worker;
    q->now = ngx_chat_now();
    q->retry = (unsigned) ctx->headers.retry;
    ngx_memcpy(q->retry_key, ctx->headers.retry_key, 16);
    return NGX_OK;
}


/* The first join: what the request brings, and its claim if it is complete. */
static void
ngx_chat_gate_first(ngx_chat_ctx_t *ctx, ngx_uint_t wait)
{
    int              fresh;
    u_char           now[NGX_INT64_LEN + 1], *end;
    size_t           dropped = 0;
    chat_facts_t     facts;
    chat_question_t *q = &ctx->barrier.q;

    fresh = ctx->body.rq.class == CHAT_CLASS_FRESH;
    end = ngx_sprintf(now, "%uL", ngx_chat_now());

    chat_facts_init(&facts, ctx->body.arena);
    chat_facts_add(&facts, "since", chat_str(now, (size_t) (end - now)));
    chat_gate_facts(q, &ctx->body.rq, 0, ctx->conf->max_result, &facts,
                    &dropped);

    if (dropped != 0) {
        ngx_chat_metrics_count(ctx->main, CHAT_COUNT_OVERSIZED, dropped);
        ngx_log_error(NGX_LOG_WARN, ctx->request->connection->log, 0,
                      "chat: %uz results past chat_max_result are not kept",
                      dropped);
    }

    if (fresh) {
        chat_facts_add(&facts, "superseded", chat_cstr("1"));

    } else if (q->complete) {
        ctx->attempt.claiming = 1;
        chat_gate_claim(q, 1, &facts);

    } else if (!q->chained && ctx->body.rq.class != CHAT_CLASS_PENDING) {
        chat_facts_add(&facts, "partial", chat_cstr("1"));
    }

    if (facts.failed) {
        ctx->attempt.claiming = 0;
        if (wait) {
            ngx_chat_away_failed(ctx, CHAT_ERROR);
        }
        return;
    }

    if (wait) {
        ngx_chat_gate_look(ctx, &facts);
    } else {
        ngx_chat_put(ctx, &q->key, &facts);
    }
}


/*
 * 1 if the step that a fresh turn leaves behind may lack results, or have a
 * decision that is not the stored one.
 */
static ngx_uint_t
ngx_chat_gate_open(ngx_chat_ctx_t *ctx)
{
    return ctx->conf->repair != NGX_CHAT_REPAIR_OFF
           && (ctx->body.rq.chained || !ctx->barrier.q.complete
               || ctx->barrier.q.wants || ctx->barrier.q.decides);
}


/* Its batch has a name, or (NGX_DECLINED) no stream has opened one. */
static void
ngx_chat_gate_named(ngx_chat_ctx_t *ctx, ngx_int_t rc)
{
    int fresh = ctx->body.rq.class == CHAT_CLASS_FRESH;

    if (rc != NGX_OK && !fresh && ngx_chat_away_look_later(ctx)) {
        return;
    }

    if (rc != NGX_OK) {
        ngx_chat_go_on(ctx, fresh ? NGX_CHAT_VERDICT_PASSED
                                  : NGX_CHAT_VERDICT_UNMANAGED);
        return;
    }

    if (ctx->body.rq.class == CHAT_CLASS_ITEMS) {
        /* they count once the provider has accepted them */
        ngx_chat_gate_look(ctx, NULL);
        return;
    }

    if (fresh && !ngx_chat_gate_open(ctx)) {
        ngx_chat_gate_first(ctx, 0);
        ngx_chat_complete(ctx, ngx_chat_gate_pass);
        return;
    }

    ngx_chat_gate_first(ctx, 1);
}


void
ngx_chat_gate_anew(ngx_chat_ctx_t *ctx)
{
    /* it has had a name before, but maybe that of another batch */
    (void) ngx_chat_name(ctx);
    ctx->barrier.known = NULL;
    ctx->barrier.nknown = 0;
    ctx->barrier.q.looked = 0;
    ctx->barrier.q.found_unsealed = 0;
    ngx_memzero(&ctx->barrier.q.seen, sizeof(ctx->barrier.q.seen));
    ngx_chat_name_find(ctx, ngx_chat_gate_named);
}


/* The newest batch is there: what is held for the message is superseded. */
static void
ngx_chat_gate_replaces(ngx_chat_ask_t *ask, chat_rc_e rc,
                       const chat_fact_t *facts, size_t n)
{
    chat_facts_t    superseded;
    ngx_chat_ctx_t *ctx = ask->ctx;

    ngx_chat_metrics_asked(ctx);

    if (rc == CHAT_OK
        && chat_batch_has_message(facts, n, ctx->body.rq.regenerates))
    {
        chat_facts_init(&superseded, ctx->kept);
        chat_facts_add(&superseded, "superseded", chat_cstr("1"));
        ngx_chat_put(ctx, &ctx->barrier.q.key, &superseded);
    }

    ngx_chat_go_on(ctx, NGX_CHAT_VERDICT_PASSED);
}


/* A message is made anew: looks whether a request is held for it. */
static void
ngx_chat_gate_regenerate(ngx_chat_ctx_t *ctx, ngx_int_t rc)
{
    if (rc != NGX_OK || ctx->conf->dry_run) {
        ngx_chat_go_on(ctx, NGX_CHAT_VERDICT_PASSED);
        return;
    }

    ngx_chat_gate_ask(ctx, &ctx->barrier.q.key, NULL, ngx_chat_gate_replaces);
}


/* The store is there: what it is asked depends on the request. */
static void
ngx_chat_gate_begin(ngx_chat_ctx_t *ctx)
{
    ngx_int_t rc;

    if (ctx->body.rq.class == CHAT_CLASS_REGENERATE) {
        ngx_chat_name_newest(ctx, ngx_chat_gate_regenerate);
        return;
    }

    rc = ctx->body.rq.answers ? ngx_chat_gate_question(ctx) : NGX_DECLINED;

    if (rc == NGX_ABORT) {
        ngx_chat_go_on(ctx, NGX_CHAT_VERDICT_REFUSED);
        return;
    }

    if (rc == NGX_DECLINED && ctx->body.rq.class != CHAT_CLASS_FRESH) {
        ngx_chat_gate_pass(ctx, NGX_OK);
        return;
    }

    if (rc == NGX_DECLINED) {
        ctx->managed = 1;
        ngx_chat_complete(ctx, ngx_chat_gate_pass);
        return;
    }

    ngx_chat_name_find(ctx, ngx_chat_gate_named);
}


/* The store cannot be asked: what the body says by itself decides. */
static void
ngx_chat_gate_away(ngx_chat_ctx_t *ctx)
{
    if (ctx->body.rq.class == CHAT_CLASS_CONTINUATION
        && ngx_chat_gate_question(ctx) == NGX_ABORT)
    {
        ngx_chat_go_on(ctx, NGX_CHAT_VERDICT_REFUSED);
        return;
    }

    ngx_chat_away_failed(ctx, CHAT_ERROR);
}


static void
ngx_chat_gate_there(ngx_chat_ask_t *ask, chat_rc_e rc,
                    const chat_fact_t *facts, size_t n)
{
    if (rc == CHAT_OK) {
        ngx_chat_gate_begin(ask->ctx);
    } else {
        ngx_chat_gate_away(ask->ctx);
    }
}


/*
 * The store is being connected to: whatever the request is, its answer may
 * have facts that others look for as soon as its client has seen it.
 */
static void
ngx_chat_gate_await(ngx_chat_ctx_t *ctx)
{
    chat_key_t nothing;

    ngx_memzero(&nothing, sizeof(nothing));
    ngx_chat_gate_ask(ctx, &nothing, NULL, ngx_chat_gate_there);
}


void
ngx_chat_gate(ngx_chat_ctx_t *ctx)
{
    chat_store_t *store = ctx->main->store;

    if (store == NULL) {
        ngx_chat_go_on(ctx, NGX_CHAT_VERDICT_BYPASS);
        return;
    }

    if (ctx->scope.anonymous) {
        ngx_chat_go_on(ctx, NGX_CHAT_VERDICT_UNMANAGED);
        return;
    }

    if (ctx->body.rq.class == CHAT_CLASS_OTHER) {
        ngx_chat_go_on(ctx, NGX_CHAT_VERDICT_PASSED);
        return;
    }

    if (store->state == CHAT_STORE_UNAVAILABLE) {
        ngx_chat_gate_away(ctx);
    } else if (store->state == CHAT_STORE_RECONNECTING) {
        ngx_chat_gate_await(ctx);
    } else {
        ngx_chat_gate_begin(ctx);
    }
}


/* The CORS lines of the asking response that are fit for this client. */
static ngx_int_t
ngx_chat_gate_cors(ngx_chat_ctx_t *ctx, chat_str_t lines)
{
    chat_rc_e  rc;
    chat_buf_t out = { 0 };

    chat_record_cors(&out, lines, ctx->headers.origin);

    rc = out.failed ? CHAT_ERROR
                    : chat_arena_dup(ctx->barrier.look, chat_buf_str(&out),
                                     &ctx->barrier.cors);
    chat_buf_free(&out);
    return rc == CHAT_OK ? NGX_OK : NGX_ERROR;
}


/* Keeps of the facts what is needed after this look. */
static ngx_int_t
ngx_chat_gate_keep(ngx_chat_ctx_t *ctx, const chat_batch_t *batch)
{
    size_t           i, room = batch->nmembers + ctx->barrier.q.nmembers + 1;
    chat_str_t       id;
    chat_question_t *q = &ctx->barrier.q;

    ctx->barrier.since = batch->since;
    /* who lacks results is not the only one that brings some */
    ctx->barrier.partial = (batch->partial || ctx->barrier.decision.merge) & 1;
    ctx->barrier.sealed = batch->sealed && !batch->cleared;
    ctx->barrier.opened = batch->open & 1;
    ctx->barrier.fields =
        chat_arena_alloc(ctx->barrier.look, 2 * room * sizeof(chat_str_t));
    ctx->barrier.missing =
        chat_arena_alloc(ctx->barrier.look, room * sizeof(chat_str_t));
    if (ctx->barrier.fields == NULL || ctx->barrier.missing == NULL
        || ngx_chat_gate_cors(ctx, batch->cors) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ctx->barrier.nfields =
        chat_gate_fields(q, batch, ctx->barrier.look, ctx->barrier.fields);
    ctx->barrier.nmissing = chat_gate_missing(q, batch, ctx->barrier.missing);

    for (i = 0; i < ctx->barrier.nmissing; i++) {
        if (chat_arena_dup(ctx->barrier.look, ctx->barrier.missing[i], &id)
            != CHAT_OK) {
            return NGX_ERROR;
        }
        ctx->barrier.missing[i] = id;
    }

    return ctx->barrier.decision.merge && ctx->barrier.nfields == 0 ? NGX_ERROR
                                                                    : NGX_OK;
}


/*
 * For a chain: the client's own calls are those of the store; the stream that
 * brings them may still run at the first look.
 */
static void
ngx_chat_gate_known(ngx_chat_ctx_t *ctx, const chat_batch_t *batch)
{
    size_t               i, calls = 0;
    chat_call_t         *call;
    const chat_member_t *member;

    for (i = 0; i < batch->nmembers; i++) {
        calls += batch->members[i].is_call != 0;
    }

    if (!ctx->barrier.q.chained || calls <= ctx->barrier.nknown) {
        return;
    }

    ctx->barrier.nknown = 0;
    ctx->barrier.known =
        chat_arena_alloc(ctx->kept, calls * sizeof(chat_call_t));
    if (ctx->barrier.known == NULL) {
        return;
    }

    for (i = 0; i < batch->nmembers; i++) {
        member = &batch->members[i];
        call = &ctx->barrier.known[ctx->barrier.nknown];

        if (!member->is_call
            || chat_arena_dup(ctx->kept, member->id, &call->id) != CHAT_OK)
        {
            continue;
        }

        call->kind = member->kind;
        call->outcome = member->outcome;
        call->approval = member->approval;
        call->delivered = chat_gate_delivered(&ctx->barrier.q, member) & 1;
        call->ready = 1;
        ngx_memcpy(call->fingerprint.bytes, member->fingerprint, 16);
        ctx->barrier.nknown++;
    }
}


/* Decides by the batch, and keeps of it what is needed later. */
static ngx_int_t
ngx_chat_gate_decide(ngx_chat_ctx_t *ctx, const chat_batch_t *batch)
{
    int              mine;
    chat_question_t *q = &ctx->barrier.q;

    q->now = ngx_chat_now();
    chat_gate_decide(q, batch, chat_store_alive, ctx->main->store,
                     &ctx->barrier.decision);

    mine = batch->last.k != 0 && !batch->last.is_void
           && chat_str_eq(batch->last.worker, q->worker)
           && chat_str_eq(batch->last.request, q->request);
    ctx->attempt.claiming = mine ? batch->last.k : 0;

    ngx_chat_gate_known(ctx, batch);

    if (ctx->barrier.watching
        && (ctx->barrier.decision.verdict == CHAT_GATE_HOLD
            || ctx->barrier.decision.verdict == CHAT_GATE_WAIT))
    {
        ngx_chat_metrics_list(ctx, batch);
    }

    chat_arena_reset(ctx->barrier.look);
    return ngx_chat_gate_keep(ctx, batch);
}


void
ngx_chat_gate_looked(ngx_chat_ctx_t *ctx, chat_rc_e rc,
                     const chat_batch_t *batch)
{
    ngx_chat_metrics_asked(ctx);

    if (rc == CHAT_OK && ctx->barrier.watching && !ctx->barrier.rejoined
        && chat_gate_lost(&ctx->barrier.q, batch))
    {
        ngx_chat_away_rejoin(ctx);
        return;
    }

    ctx->barrier.rejoined = 0;

    if (rc == CHAT_OK && ngx_chat_gate_decide(ctx, batch) != NGX_OK) {
        rc = CHAT_ERROR; /* no memory */
    }

    if (rc != CHAT_OK) {
        ngx_chat_away_failed(ctx, rc);
    } else {
        ngx_chat_verdict_act(ctx);
    }
}


void
ngx_chat_gate_done(ngx_chat_ask_t *ask, chat_rc_e rc, const chat_fact_t *facts,
                   size_t n)
{
    chat_batch_t  batch;
    chat_arena_t *scratch = NULL;

    if (rc == CHAT_OK) {
        scratch = chat_arena_create(0);
        rc = scratch != NULL ? chat_batch_read(facts, n, scratch, &batch)
                             : CHAT_ERROR;
    }

    ngx_chat_gate_looked(ask->ctx, rc, &batch);
    chat_arena_destroy(scratch);
}
