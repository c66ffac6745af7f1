/*
 * ngx_chat_decide.c: asks the store about a request and decides on an action.
 *
 * A continuation joins its results and gets all facts of its batch; the core's
 * gate derives ctx->act from them. A request that has waited, or is known to
 * lack results, never goes on without the store; for any other request
 * chat_store_failure decides. A waiting request joins its results again if the
 * store has lost them.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "facts/chat_conversation.h"
#include "facts/chat_recording.h"
#include "metrics/ngx_chat_metrics.h"
#include "request/ngx_chat_request.h"
#include "store/ngx_chat_ask.h"


/* Reports an action. */
static void
act(ngx_chat_ctx_t *ctx, chat_action_e action, chat_reason_e reason)
{
    ctx->act.action = action;
    ctx->act.reason = reason;
    ctx->step(ctx, NGX_CHAT_EVENT_DECIDED);
}


void
ngx_chat_decide_ask(ngx_chat_ctx_t *ctx)
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


/* Puts facts (NULL: none) under the key, asks for all, and may watch it. */
static void
ask(ngx_chat_ctx_t *ctx, const chat_key_t *key, const chat_facts_t *facts,
    const chat_needs_t *needs, chat_store_watch_t *watch, ngx_chat_ask_pt done)
{
    chat_store_op_t *op = &ctx->barrier.ask.op;

    ngx_chat_decide_ask(ctx);
    op->needs = needs ? needs->fields : NULL;
    op->nneeds = needs ? needs->nfields : 0;
    ngx_chat_ask(ctx, &ctx->barrier.ask, watch, key, facts, done);
}


/* The store cannot be asked, or has lost what the request knows. */

/* By whether the hold ends by a bounce, and whether the store is full. */
static const chat_reason_e refusals[][2] = {
    { CHAT_REASON_REFUSED_STORE_UNAVAILABLE, CHAT_REASON_REFUSED_STORE_FULL },
    { CHAT_REASON_BOUNCED_STORE_UNAVAILABLE, CHAT_REASON_BOUNCED_STORE_FULL }
};


void
ngx_chat_decide_refuse(ngx_chat_ctx_t *ctx)
{
    ngx_uint_t full = ctx->barrier.full != 0;
    ngx_uint_t bounced = ctx->wait.held && ctx->dialect->one_by_one;

    ctx->act.reply = bounced ? chat_gate_incomplete(ctx->dialect)
                     : full  ? CHAT_REPLY_STORE_FULL
                             : CHAT_REPLY_STORE_UNAVAILABLE;
    act(ctx, CHAT_ACT_REPLY, refusals[bounced][full]);
}


/*
 * 1 if the body is known to lack results that the provider asks for. Of a
 * chain only the store knows that: before the first look at its sealed step
 * the body may be complete.
 */
static ngx_uint_t
is_incomplete(ngx_chat_ctx_t *ctx)
{
    const chat_question_t *q = &ctx->barrier.q;

    return ctx->managed && ctx->body.rq.class == CHAT_CLASS_CONTINUATION
           && q->dialect != NULL && !q->complete
           && (!q->chained || ctx->barrier.watching || ctx->barrier.sealed)
           && !ctx->conf->dry_run && ctx->conf->hold != NGX_CHAT_HOLD_OFF;
}


void
ngx_chat_decide_failed(ngx_chat_ctx_t *ctx, chat_rc_e rc)
{
    ctx->barrier.full = rc == CHAT_LIMIT;

    if (rc == CHAT_LIMIT) {
        ngx_chat_metrics_of(ctx->worker)->counts[CHAT_COUNT_STORE_FULL]++;

        if (!ctx->wait.held) {
            /* its claim may have found room, its other facts have not */
            ngx_chat_attempt_void(ctx, ctx->attempt.claiming);
            ngx_chat_watch_end(ctx);
        }

    } else if (ctx->wait.held
               && ctx->worker->store->state == CHAT_STORE_RECONNECTING)
    {
        /* the watch is notified when the store is back, or unavailable */
        ngx_chat_attempt_void(ctx, ctx->attempt.claiming);
        return;
    }

    if (ctx->wait.held || (rc != CHAT_LIMIT && ctx->barrier.watching)
        || (ctx->conf->failure == NGX_CHAT_FAILURE_DENY && !ctx->conf->dry_run)
        || is_incomplete(ctx))
    {
        ngx_chat_decide_refuse(ctx);
        return;
    }

    /* its claim may stand: if so, the others learn what becomes of it */
    ngx_chat_attempt_begin(ctx);
    act(ctx, CHAT_ACT_PASS,
        rc == CHAT_LIMIT ? CHAT_REASON_BYPASS_STORE_FULL
                         : CHAT_REASON_BYPASS_STORE_UNAVAILABLE);
}


/* Joins once more what a waiting request knows and the store has lost. */
static ngx_int_t
rejoin(ngx_chat_ctx_t *ctx)
{
    chat_facts_t facts;

    if (ngx_chat_body_restore(ctx) != NGX_OK) {
        return NGX_ERROR;
    }

    chat_facts_init(&facts, ctx->body.arena);
    chat_facts_since(&facts, ctx->barrier.since);
    (void) chat_gate_facts(&ctx->barrier.q, &ctx->body.rq, 1,
                           ctx->conf->max_result, &facts);
    chat_gate_rejoin(&ctx->barrier.q, ctx->barrier.known, ctx->barrier.nknown,
                     &facts);

    if (facts.failed) {
        return NGX_ERROR;
    }

    ctx->barrier.rejoined = 1;
    ngx_chat_decide_index(ctx);

    if (ngx_chat_watch_begin(ctx, &facts) != NGX_OK) {
        return NGX_ERROR;
    }

    if (ctx->wait.held) {
        ngx_chat_ctx_free_body(ctx);
    }

    return NGX_OK;
}


/* The name of the batch. */

/*
 * Sets q.key to what is to be asked first: the batch, or the conversation
 * index if only that names the batch. CHAT_DECLINED: not managed.
 */
static chat_rc_e
name_batch(ngx_chat_ctx_t *ctx)
{
    const chat_request_t *rq = &ctx->body.rq;

    ctx->barrier.indexed = (rq->chained && rq->by_conversation)
                           || rq->class == CHAT_CLASS_REGENERATE;

    return ctx->barrier.indexed
               ? chat_conversation_index_key(&ctx->scope, &ctx->barrier.q.key)
               : chat_batch_key(&ctx->scope, &rq->steps[rq->nsteps - 1],
                                &ctx->barrier.q.key);
}


void
ngx_chat_decide_index(ngx_chat_ctx_t *ctx)
{
    chat_key_t           key;
    chat_facts_t         facts;
    chat_indexed_batch_t recorded;

    if (chat_conversation_index_key(&ctx->scope, &key) != CHAT_OK) {
        return;
    }

    recorded.names[0] = ctx->barrier.q.key.name;
    recorded.nnames = 1;
    recorded.dialect = ctx->scope.dialect;

    chat_facts_init(&facts, ctx->barrier.look);
    chat_facts_batch(&facts, ctx->barrier.since, &recorded);
    ngx_chat_put_index(ctx, &key, &facts);
}


ngx_uint_t
ngx_chat_decide_later(ngx_chat_ctx_t *ctx, void (*poll)(ngx_chat_ctx_t *ctx))
{
    static const ngx_msec_t pauses[] = { 5, 15, 40, 140 };

    /* without flush() each worker sees a join at once */
    if (ctx->worker->store->flush == NULL
        || ctx->barrier.polls == sizeof(pauses) / sizeof(pauses[0]))
    {
        return 0;
    }

    ngx_chat_timer(ctx, &ctx->wait.timer, pauses[ctx->barrier.polls++], poll);
    return 1;
}


/* The first look. */

/*
 * The question of a request that answers a step. CHAT_DECLINED: not managed;
 * CHAT_LIMIT: the step has too many calls; else a result is too deep.
 */
static chat_rc_e
question(ngx_chat_ctx_t *ctx)
{
    chat_rc_e        rc;
    chat_store_t    *store = ctx->worker->store;
    chat_question_t *q = &ctx->barrier.q;

    if (name_batch(ctx) != CHAT_OK) {
        ctx->managed = 0;
        return CHAT_DECLINED;
    }

    if (store->expect != NULL) {
        store->expect(store, &q->key);
    }

    rc = chat_dialect_sign(ctx->dialect, &ctx->body.doc, &q->key.name,
                           &ctx->body.rq);
    if (rc == CHAT_OK) {
        q->named = ctx->scope.conversation.len != 0;
        rc = chat_gate_question(ctx->dialect, &ctx->body.rq,
                                (size_t) ctx->conf->max_calls, ctx->kept, q);
    }

    if (rc == CHAT_DECLINED && ctx->body.rq.chained) {
        /* a fresh turn on a chain has no results itself */
        rc = CHAT_OK;
    }

    if (rc != CHAT_OK) {
        return rc;
    }

    ngx_chat_name(ctx);
    q->relayed = ctx->headers.relayed;
    q->now = ngx_chat_now();
    q->retry = (unsigned) ctx->headers.retry;
    ngx_memcpy(q->retry_key, ctx->headers.retry_key, 16);
    return CHAT_OK;
}


/* The newest batch: supersedes it if requests wait for the message. */
static void
on_regenerated(ngx_chat_ask_t *of, chat_rc_e rc, const chat_fact_t *facts,
               size_t n)
{
    chat_facts_t    superseded;
    ngx_chat_ctx_t *ctx = of->ctx;

    ngx_chat_metrics_asked(ctx);

    if (rc == CHAT_OK
        && chat_batch_has_message(facts, n, ctx->body.rq.regenerates))
    {
        chat_facts_init(&superseded, ctx->kept);
        chat_facts_add(&superseded, "superseded", chat_cstr("1"));
        ngx_chat_put(ctx, &ctx->barrier.q.key, &superseded);
    }

    act(ctx, CHAT_ACT_PASS, CHAT_REASON_PASSED_REGENERATE);
}


/* The results of the request. */
static void
first_facts(ngx_chat_ctx_t *ctx, chat_facts_t *facts)
{
    size_t dropped;
    chat_class_e class = ctx->body.rq.class;
    const chat_question_t *q = &ctx->barrier.q;

    chat_facts_init(facts, ctx->body.arena);
    dropped =
        chat_gate_facts(q, &ctx->body.rq, 0, ctx->conf->max_result, facts);
    if (dropped != 0) {
        ngx_chat_metrics_of(ctx->worker)->counts[CHAT_COUNT_OVERSIZED] +=
            dropped;
        ngx_log_error(
            NGX_LOG_WARN, ctx->request->connection->log, 0,
            "chat: %uz results past \"result=\" of \"chat_limits\" are "
            "not kept",
            dropped);
    }

    if (class == CHAT_CLASS_FRESH) {
        chat_facts_add(facts, "superseded", chat_cstr("1"));

    } else if (!q->complete && !q->chained && class != CHAT_CLASS_PENDING) {
        chat_facts_add(facts, "partial", chat_cstr("1"));
    }
}


/*
 * The time, and the claim of the request, which the store puts if *needs are
 * there. One that is put in any case is also the time.
 */
static void
first_claim(ngx_chat_ctx_t *ctx, chat_facts_t *facts, chat_needs_t *needs)
{
    chat_question_t *q = &ctx->barrier.q;
    ngx_uint_t       fresh = ctx->body.rq.class == CHAT_CLASS_FRESH;

    ngx_memzero(needs, sizeof(*needs));

    if (fresh || !q->complete) {
        chat_facts_since(facts, ngx_chat_now());
    }

    if (!fresh && chat_gate_claims_first(q, ctx->body.arena, needs)) {
        chat_gate_claim(q, 1, facts);
        ctx->attempt.claiming = !facts->failed;
    }
}


/* The batch has a name: joins the facts of the request, and looks at it. */
static void
join_batch(ngx_chat_ctx_t *ctx)
{
    chat_facts_t           facts;
    chat_needs_t           needs;
    const chat_question_t *q = &ctx->barrier.q;
    chat_class_e class = ctx->body.rq.class;

    if (class == CHAT_CLASS_REGENERATE) {
        if (ctx->conf->dry_run) {
            act(ctx, CHAT_ACT_PASS, CHAT_REASON_PASSED_REGENERATE);
        } else {
            ask(ctx, &q->key, NULL, NULL, NULL, on_regenerated);
        }

        return;
    }

    if (class == CHAT_CLASS_ITEMS) {
        /* they count once the provider has accepted them */
        ngx_chat_decide_look(ctx, NULL, NULL, NULL);
        return;
    }

    first_facts(ctx, &facts);

    if (class == CHAT_CLASS_FRESH
        && (ctx->conf->repair == NGX_CHAT_REPAIR_OFF
            || chat_gate_leaves_nothing(q)))
    {
        ngx_chat_put(ctx, &q->key, &facts);
        act(ctx, CHAT_ACT_GO, CHAT_REASON_PASSED_NEW_MESSAGE);
        return;
    }

    first_claim(ctx, &facts, &needs);

    if (facts.failed) {
        ngx_chat_decide_failed(ctx, CHAT_ERROR);
    } else {
        ngx_chat_decide_look(ctx, &facts, &needs, NULL);
    }
}


/* The reason of a request that passes because it answers no batch. */
static chat_reason_e
without_batch(const ngx_chat_ctx_t *ctx)
{
    chat_class_e class = ctx->body.rq.class;

    return class == CHAT_CLASS_FRESH        ? CHAT_REASON_PASSED_NEW_MESSAGE
           : class == CHAT_CLASS_REGENERATE ? CHAT_REASON_PASSED_REGENERATE
           : class == CHAT_CLASS_OTHER      ? CHAT_REASON_PASSED_NO_RESULTS
           : ctx->managed ? CHAT_REASON_PASSED_NO_CLIENT_CALLS
                          : CHAT_REASON_UNMANAGED_WEAK_IDS;
}


/* The conversation index has been read. */
static void
on_index(ngx_chat_ask_t *of, chat_rc_e rc, const chat_fact_t *facts, size_t n)
{
    ngx_chat_ctx_t      *ctx = of->ctx;
    chat_key_t          *key = &ctx->barrier.q.key;
    chat_indexed_batch_t recorded;
    chat_class_e class = ctx->body.rq.class;

    ngx_chat_metrics_asked(ctx);

    if (rc != CHAT_OK) {
        ngx_chat_decide_failed(ctx, rc);

    } else if (chat_batch_newest(facts, n, &recorded) == CHAT_OK) {
        key->name = recorded.names[0];
        join_batch(ctx);

    } else if (class == CHAT_CLASS_FRESH || class == CHAT_CLASS_REGENERATE) {
        /* no stream has opened a batch of this conversation */
        act(ctx, CHAT_ACT_PASS, without_batch(ctx));

    } else {
        act(ctx, CHAT_ACT_POLL, CHAT_REASON_UNMANAGED_UNKNOWN_BATCH);
    }
}


/* Looks for the batch under q.key, the name that the body gives. */
static void
find_batch(ngx_chat_ctx_t *ctx)
{
    if (ctx->barrier.indexed) {
        ask(ctx, &ctx->barrier.q.key, NULL, NULL, NULL, on_index);
    } else {
        join_batch(ctx);
    }
}


static void
find_anew(ngx_chat_ctx_t *ctx)
{
    chat_question_t *q = &ctx->barrier.q;

    ctx->barrier.known = NULL;
    ctx->barrier.nknown = 0;
    q->looked = 0;
    q->found_unsealed = 0;
    ngx_memzero(&q->seen, sizeof(q->seen));
    (void) name_batch(ctx); /* it has succeeded before */
    find_batch(ctx);
}


ngx_uint_t
ngx_chat_decide_poll(ngx_chat_ctx_t *ctx)
{
    return ctx->barrier.q.chained && !ctx->barrier.watching
           && ngx_chat_decide_later(ctx, find_anew);
}


/*
 * What the store is asked depends on the request. connected: 0 if the store
 * cannot be asked; what the body says by itself decides then.
 */
static void
begin(ngx_chat_ctx_t *ctx, ngx_uint_t connected)
{
    chat_rc_e rc = CHAT_DECLINED;
    chat_class_e class = ctx->body.rq.class;

    if (class == CHAT_CLASS_REGENERATE) {
        rc = name_batch(ctx) == CHAT_OK ? CHAT_OK : CHAT_DECLINED;

    } else if (connected ? ctx->body.rq.answers
                         : class == CHAT_CLASS_CONTINUATION) {
        rc = question(ctx);
    }

    if (rc != CHAT_OK && rc != CHAT_DECLINED) {
        act(ctx, CHAT_ACT_PASS,
            rc == CHAT_LIMIT ? CHAT_REASON_REFUSED_CALLS_LIMIT
                             : CHAT_REASON_REFUSED_VALUES_LIMIT);

    } else if (!connected) {
        ngx_chat_decide_failed(ctx, CHAT_ERROR);

    } else if (rc == CHAT_OK) {
        find_batch(ctx);

    } else if (class == CHAT_CLASS_FRESH) {
        ctx->managed = 1;
        act(ctx, CHAT_ACT_GO, without_batch(ctx));

    } else {
        act(ctx, CHAT_ACT_PASS, without_batch(ctx));
    }
}


static void
on_connected(ngx_chat_ask_t *of, chat_rc_e rc, const chat_fact_t *facts,
             size_t n)
{
    begin(of->ctx, rc == CHAT_OK);
}


void
ngx_chat_decide_begin(ngx_chat_ctx_t *ctx)
{
    chat_key_t    nothing;
    chat_store_t *store = ctx->worker->store;

    if (store == NULL) {
        act(ctx, CHAT_ACT_PASS, CHAT_REASON_BYPASS_STORE_UNAVAILABLE);

    } else if (ctx->scope.anonymous) {
        act(ctx, CHAT_ACT_PASS, CHAT_REASON_UNMANAGED_NO_TENANT);

    } else if (ctx->body.rq.class == CHAT_CLASS_OTHER) {
        act(ctx, CHAT_ACT_PASS, without_batch(ctx));

    } else if (store->state == CHAT_STORE_RECONNECTING) {
        /* joins nothing, to wait for the connection: the answer's facts must
           be in the store before its client acts on them */
        ngx_memzero(&nothing, sizeof(nothing));
        ask(ctx, &nothing, NULL, NULL, NULL, on_connected);

    } else {
        begin(ctx, store->state != CHAT_STORE_UNAVAILABLE);
    }
}


/* An answer of the store. */

/*
 * Keeps the calls of a chain, which only the store knows; at the first look
 * the stream that contains them may still run.
 */
static void
keep_calls(ngx_chat_ctx_t *ctx, const chat_batch_t *batch)
{
    size_t               i;
    chat_call_t         *call;
    const chat_member_t *member;
    ngx_chat_barrier_t  *b = &ctx->barrier;

    if (!b->q.chained || batch->ncalls <= b->nknown) {
        return;
    }

    b->nknown = 0;
    b->known =
        chat_arena_alloc(ctx->kept, batch->ncalls * sizeof(chat_call_t));
    if (b->known == NULL) {
        return;
    }

    for (i = 0; i < batch->nmembers; i++) {
        member = &batch->members[i];
        call = &b->known[b->nknown];

        if (!member->is_call
            || chat_arena_dup(ctx->kept, member->id, &call->id) != CHAT_OK)
        {
            continue;
        }

        call->kind = member->kind;
        call->outcome = member->outcome;
        call->approval = member->approval;
        call->delivered = chat_gate_delivered(&b->q, member) & 1;
        call->ready = 1;
        call->fingerprint = member->fingerprint;
        b->nknown++;
    }
}


/* Decides by the batch, and keeps of it what is needed after this look. */
static chat_rc_e
decide(ngx_chat_ctx_t *ctx, const chat_batch_t *batch)
{
    chat_rc_e           rc = CHAT_ERROR;
    chat_buf_t          cors = { 0 };
    chat_gate_verdict_e verdict;
    ngx_chat_barrier_t *b = &ctx->barrier;

    b->q.now = ngx_chat_now();
    chat_gate_decide(&b->q, batch, chat_store_alive, ctx->worker->store,
                     &b->decision);
    verdict = b->decision.verdict;

    ctx->attempt.claiming = !batch->last.is_void && batch->last.k > b->q.voided
                                    && chat_gate_is_own(&b->q, &batch->last)
                                ? batch->last.k
                                : 0;

    keep_calls(ctx, batch);

    if (b->watching
        && (verdict == CHAT_GATE_HOLD || verdict == CHAT_GATE_WAIT)) {
        ngx_chat_metrics_list(ctx, batch);
    }

    b->since = batch->since;
    /* if the store has results that the body lacks, others brought them */
    b->partial = (batch->partial || b->decision.merge) & 1;
    b->sealed = batch->sealed && !batch->cleared;
    b->opened = batch->open & 1;

    chat_arena_reset(b->look);

    /* the CORS lines of the step's stream that are fit for this client */
    chat_recording_cors(&cors, batch->cors, ctx->headers.origin);
    if (!cors.failed) {
        rc = chat_arena_dup(b->look, chat_buf_str(&cors), &b->cors);
    }

    chat_buf_free(&cors);

    return rc == CHAT_OK ? chat_gate_needs(&b->q, batch, b->look, &b->needs)
                         : rc;
}


void
ngx_chat_decide_act(ngx_chat_ctx_t *ctx, ngx_uint_t unrecorded)
{
    chat_facts_t twin;
    chat_terms_t terms;
    chat_class_e class = ctx->body.rq.class;
    ngx_chat_barrier_t *b = &ctx->barrier;
    ngx_uint_t          observe =
        ctx->conf->dry_run || ctx->conf->hold == NGX_CHAT_HOLD_OFF;

    terms.class = class;
    terms.watching = b->watching;
    terms.no_hold = ctx->conf->hold == 0;
    terms.unrecorded = unrecorded || observe;

    ctx->act = chat_gate_act(&b->q, &b->decision, &terms);

    if (class == CHAT_CLASS_ITEMS && ctx->act.action == CHAT_ACT_PASS) {
        ngx_chat_attempt_deliver(ctx);
    }

    if (class == CHAT_CLASS_ITEMS || class == CHAT_CLASS_FRESH
        || ctx->act.action == CHAT_ACT_PASS
        || ctx->act.action == CHAT_ACT_LOOK)
    {
        return;
    }

    if (class == CHAT_CLASS_PENDING) {
        /* the results that it lacks are external */
        ctx->body.rq.class = CHAT_CLASS_CONTINUATION;
    }

    if (ctx->act.action == CHAT_ACT_CLAIM || unrecorded) {
        return;
    }

    if (b->decision.twin) {
        /* requests with the same content must tell their tries apart */
        chat_facts_init(&twin, b->look);
        chat_facts_twin(&twin, b->q.worker, b->q.request, b->q.content.bytes,
                        b->q.retry);
        ngx_chat_put(ctx, &b->q.key, &twin);
    }

    if (observe) {
        ngx_chat_attempt_begin(ctx);
        ctx->act.action = CHAT_ACT_PASS;
    }
}


/* Reports the action of ctx->barrier.decision, which is valid if rc is OK. */
static void
decided(ngx_chat_ctx_t *ctx, chat_rc_e rc)
{
    if (rc != CHAT_OK) {
        ngx_chat_decide_failed(ctx, rc);
    } else {
        ngx_chat_decide_act(ctx, 0);
        ctx->step(ctx, NGX_CHAT_EVENT_DECIDED);
    }
}


void
ngx_chat_decide_looked(ngx_chat_ctx_t *ctx, chat_rc_e rc,
                       const chat_batch_t *batch)
{
    ngx_chat_metrics_asked(ctx);

    if (rc == CHAT_OK && ctx->barrier.watching && !ctx->barrier.rejoined
        && chat_gate_lost(&ctx->barrier.q, batch))
    {
        if (rejoin(ctx) != NGX_OK) {
            ngx_chat_decide_refuse(ctx);
        }

        return;
    }

    ctx->barrier.rejoined = 0;

    if (rc == CHAT_OK) {
        rc = decide(ctx, batch);
    }

    decided(ctx, rc);
}


static void
on_look(ngx_chat_ask_t *of, chat_rc_e rc, const chat_fact_t *facts, size_t n)
{
    chat_batch_t batch;

    if (rc == CHAT_OK) {
        n = ngx_chat_payloads_early(of->ctx, facts, n);
        rc = chat_batch_read(facts, n, of->op.arena, &batch);
    }

    ngx_chat_decide_looked(of->ctx, rc, &batch);
}


void
ngx_chat_decide_look(ngx_chat_ctx_t *ctx, const chat_facts_t *facts,
                     const chat_needs_t *needs, chat_store_watch_t *watch)
{
    ask(ctx, &ctx->barrier.q.key, facts, needs, watch, on_look);

    if (!ctx->body.lacks) {
        ngx_chat_body_free_tree(ctx); /* nothing will go into it */
    }
}
