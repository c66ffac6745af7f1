/*
 * ngx_chat_complete.c: fetches the results that the body lacks and the store
 * has, and inserts them.
 *
 * One query per step, all at once: for the step that a continuation answers,
 * exactly the facts that the gate has found; for earlier steps, and the step
 * before a fresh turn, whatever the store has. Promises: a body is replaced
 * whole or not at all.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "metrics/ngx_chat_metrics.h"
#include "request/ngx_chat_request.h"
#include "store/ngx_chat_ask.h"

#define NGX_CHAT_LOOKUPS_MAX 16 /* steps; later ones matter more */


/* 1 if the payloads go into the body; otherwise they go to the client. */
static ngx_uint_t
is_merging(const ngx_chat_ctx_t *ctx)
{
    return ctx->act.action == CHAT_ACT_GO;
}


/* 1 if a call without an outcome gets an error. */
static ngx_uint_t
closes_calls(ngx_chat_ctx_t *ctx)
{
    return ctx->conf->repair == NGX_CHAT_REPAIR_ALL
           && (ctx->body.rq.class == CHAT_CLASS_FRESH
               || ctx->body.rq.class == CHAT_CLASS_CONTINUATION);
}


chat_rc_e
ngx_chat_keep_facts(chat_facts_t *kept, const chat_fact_t *facts, size_t n)
{
    size_t        i = kept->count;
    chat_fact_t  *fact;
    chat_arena_t *arena = kept->arena;

    chat_facts_append(kept, facts, n);

    for (; !kept->failed && i < kept->count; i++) {
        fact = &kept->items[i];

        if (chat_arena_dup(arena, fact->field, &fact->field) != CHAT_OK
            || chat_arena_dup(arena, fact->value, &fact->value) != CHAT_OK
            || chat_arena_dup(arena, fact->payload, &fact->payload) != CHAT_OK)
        {
            kept->failed = 1;
        }
    }

    return kept->failed ? CHAT_ERROR : CHAT_OK;
}


/* Puts the merged body in place of the one that was read. */
static ngx_int_t
merge_body(ngx_chat_ctx_t *ctx)
{
    u_char             *p;
    ngx_buf_t          *b;
    ngx_str_t          *value;
    chat_buf_t          out = { 0 };
    ngx_chain_t        *cl;
    ngx_pool_cleanup_t *cln;
    ngx_http_request_t *r = ctx->request;
    chat_rc_e rc = chat_merge(ctx->dialect, &ctx->body.doc, &ctx->body.rq,
                              &ctx->body.results, &out);

    b = ngx_calloc_buf(r->pool);
    cl = ngx_alloc_chain_link(r->pool);
    p = ngx_pnalloc(r->pool, CHAT_DIGITS);
    cln = ngx_pool_cleanup_add(r->pool, 0);

    if (rc != CHAT_OK || b == NULL || cl == NULL || p == NULL || cln == NULL) {
        chat_buf_free(&out);
        return rc == CHAT_BAD ? NGX_DECLINED : NGX_ERROR;
    }

    cln->handler = chat_block_give;
    cln->data = out.data;

    b->start = b->pos = out.data;
    b->end = b->last = out.data + out.len;
    b->temporary = 1;
    b->last_buf = 1;
    ctx->body.merged = chat_str(b->pos, out.len);
    cl->buf = b;
    cl->next = NULL;

    r->request_body->bufs = cl;
    r->request_body->temp_file = NULL;
    r->headers_in.content_length_n = (off_t) out.len;
    r->headers_in.chunked = 0;

    if (r->headers_in.content_length != NULL) {
        value = &r->headers_in.content_length->value;
        value->data = chat_digits(out.len, p + CHAT_DIGITS);
        value->len = (size_t) (p + CHAT_DIGITS - value->data);
    }

    ngx_chat_metrics_merged(ctx, ctx->body.results.count
                                     + ctx->body.results.ndecided);
    return ngx_chat_answer_inject(ctx);
}


/* 1 if there is a result for each field that the gate relies on. */
static ngx_uint_t
has_all(ngx_chat_ctx_t *ctx)
{
    size_t       i;
    chat_str_t   id;
    chat_table_t ids;

    chat_table_init(&ids, ctx->body.arena);

    for (i = 0; i < ctx->body.results.count; i++) {
        if (chat_table_put(&ids, ctx->body.results.items[i].id) == NULL) {
            return 0;
        }
    }

    for (i = 0; i < ctx->barrier.needs.nfields; i++) {
        id = ctx->barrier.needs.fields[i];
        (void) chat_str_cut(&id, '/');

        if (chat_table_find(&ids, id) == NULL) {
            return 0;
        }
    }

    return 1;
}


/* Answers the calls for which the store has nothing; all queries are done. */
static chat_rc_e
close_calls(ngx_chat_ctx_t *ctx)
{
    chat_rc_e          rc;
    ngx_uint_t         unknown = closes_calls(ctx);
    chat_request_t    *rq = &ctx->body.rq;
    const chat_step_t *last;

    if (ctx->conf->repair == NGX_CHAT_REPAIR_OFF
        || (rq->class != CHAT_CLASS_FRESH && !unknown))
    {
        return CHAT_OK;
    }

    rc = chat_results_open(&ctx->body.results, rq, unknown);

    if (rc == CHAT_LIMIT) {
        ngx_log_error(NGX_LOG_WARN, ctx->request->connection->log, 0,
                      "chat: more than %d calls without an answer are left "
                      "as they are",
                      CHAT_OPEN_MAX);
        return CHAT_OK;
    }

    if (rc != CHAT_OK || !unknown || !rq->chained || !ctx->barrier.sealed
        || rq->class != CHAT_CLASS_FRESH)
    {
        return rc;
    }

    last = &rq->steps[rq->nsteps - 1];
    return chat_results_open_chain(&ctx->body.results, rq, last,
                                   ctx->barrier.known, ctx->barrier.nknown);
}


/* All answers are there. */
static ngx_int_t
complete(ngx_chat_ctx_t *ctx)
{
    int                continuation, failed = 0;
    ngx_chat_lookup_t *lookup;

    continuation = ctx->body.rq.class == CHAT_CLASS_CONTINUATION;

    for (lookup = ctx->payloads.items; lookup; lookup = lookup->next) {
        failed |= lookup->facts.failed;

        if (lookup->needed && continuation && is_merging(ctx)) {
            if (lookup->facts.failed) {
                return NGX_ERROR;
            }
            if (lookup->facts.count != ctx->barrier.needs.nfields) {
                return NGX_DECLINED;
            }
        }

        if (!lookup->facts.failed
            && chat_results_collect(&ctx->body.results, &ctx->body.rq,
                                    &ctx->body.rq.steps[lookup->step],
                                    lookup->facts.items, lookup->facts.count,
                                    ctx->barrier.known, ctx->barrier.nknown,
                                    lookup->needed && continuation)
                   != CHAT_OK)
        {
            return NGX_ERROR;
        }
    }

    if (!is_merging(ctx)) {
        return NGX_OK;
    }

    if (continuation && !has_all(ctx)) {
        return NGX_DECLINED;
    }

    if (!failed && close_calls(ctx) != CHAT_OK) {
        return NGX_ERROR;
    }

    return ctx->body.results.count + ctx->body.results.ndecided != 0
               ? merge_body(ctx)
               : NGX_OK;
}


static void
on_payloads(ngx_chat_ask_t *ask, chat_rc_e rc, const chat_fact_t *facts,
            size_t n)
{
    ngx_chat_ctx_t    *ctx = ask->ctx;
    ngx_chat_lookup_t *lookup = (ngx_chat_lookup_t *) ask;

    chat_facts_init(&lookup->facts, ctx->body.arena);
    lookup->facts.failed = rc != CHAT_OK;
    (void) ngx_chat_keep_facts(&lookup->facts, facts, n);

    if (--ctx->payloads.due == 0) {
        ngx_chat_metrics_asked(ctx);
        ctx->payloads.rc = complete(ctx);
        ctx->step(ctx, NGX_CHAT_EVENT_PAYLOADS);
    }
}


size_t
ngx_chat_payloads_early(ngx_chat_ctx_t *ctx, const chat_fact_t *facts,
                        size_t n)
{
    size_t        needs = ctx->barrier.ask.op.nneeds;
    chat_facts_t *early = &ctx->payloads.early;

    ngx_chat_payloads_forget(ctx);

    if (needs != 0) {
        chat_facts_init(early, chat_arena_create(0));
        (void) ngx_chat_keep_facts(early, facts + n - needs, needs);
    }

    return n - needs;
}


void
ngx_chat_payloads_forget(ngx_chat_ctx_t *ctx)
{
    chat_arena_destroy(ctx->payloads.early.arena);
    chat_facts_init(&ctx->payloads.early, NULL);
}


/*
 * The fields of the facts that a step lacks; 0 if it lacks none. results: 0
 * where the gate asks for those. A decision is of use to a call that does not
 * say how it was decided, and spares one without an outcome the error.
 */
static size_t
missing_fields(ngx_chat_ctx_t *ctx, const chat_step_t *step,
               ngx_uint_t results, chat_str_t **fields)
{
    size_t             i, n = 0;
    ngx_uint_t         lacks, open;
    chat_arena_t      *arena = ctx->body.arena;
    const chat_call_t *call;

    *fields = NULL;

    for (i = step->first; i < step->first + step->count; i++) {
        call = &ctx->body.rq.calls[i];
        lacks = (ngx_uint_t) chat_call_lacks_result(call);
        if ((!lacks && !call->undecided) || call->id.len > CHAT_ID_MAX) {
            continue; /* so do most calls of most steps */
        }

        if (*fields == NULL) {
            *fields =
                chat_arena_take(arena, step->count * 2 * sizeof(**fields));
            if (*fields == NULL) {
                return 0;
            }
        }

        open = lacks && !chat_call_is_settled(call)
               && call->kind == CHAT_KIND_APPROVAL
               && (results || ctx->body.rq.class == CHAT_CLASS_FRESH)
               && closes_calls(ctx);

        if (lacks && results) {
            (*fields)[n++] = chat_facts_field(arena, "result/", call->id);
        }

        if (call->undecided || open) {
            (*fields)[n++] = chat_facts_field(arena, "approval/", call->id);
        }
    }

    return n;
}


/* 1 if the payloads that came with the claim are exactly these. */
static ngx_uint_t
is_early(const chat_facts_t *facts, const chat_str_t *fields, size_t n)
{
    size_t i = 0;

    if (facts->failed || facts->count != n) {
        return 0;
    }

    while (i < n && chat_str_eq(facts->items[i].field, fields[i])) {
        i++;
    }

    return i == n;
}


/* Without memory the body is declined: it still lacks what is needed. */
static void
look_up(ngx_chat_ctx_t *ctx, size_t step, ngx_uint_t needed,
        const chat_key_t *key, const chat_str_t *fields, size_t n)
{
    ngx_chat_lookup_t *lookup =
        chat_arena_alloc(ctx->body.arena, sizeof(*lookup));

    if (lookup == NULL) {
        return;
    }

    lookup->next = ctx->payloads.items;
    ctx->payloads.items = lookup;
    lookup->step = step;
    lookup->needed = needed;

    if (needed && is_early(&ctx->payloads.early, fields, n)) {
        lookup->facts = ctx->payloads.early;
        return;
    }

    ctx->payloads.due++;
    ngx_chat_ask_payloads(ctx, &lookup->ask, key, fields, n, on_payloads);
}


/*
 * Asks for what one step lacks; returns 1 if it lacks something. A step past
 * the limit of calls is left alone.
 */
static ngx_uint_t
look_up_step(ngx_chat_ctx_t *ctx, size_t at)
{
    size_t              n;
    chat_key_t          key;
    chat_str_t         *fields;
    ngx_uint_t          last;
    const chat_step_t  *step = &ctx->body.rq.steps[at];
    ngx_chat_barrier_t *b = &ctx->barrier;

    /* the step that the gate has decided about */
    last = ctx->body.rq.answers && b->q.dialect != NULL
           && at + 1 == ctx->body.rq.nsteps;

    if (last && b->needs.nfields != 0) {
        look_up(ctx, at, 1, &b->q.key, b->needs.fields, b->needs.nfields);
    }

    /* twice: an id may occur more than once */
    if (!is_merging(ctx) || ctx->conf->repair == NGX_CHAT_REPAIR_OFF
        || step->count > 2 * (size_t) ctx->conf->max_calls)
    {
        return 0;
    }

    n = missing_fields(ctx, step, !last, &fields);
    if (n != 0 && chat_batch_key(&ctx->scope, step, &key) == CHAT_OK) {
        look_up(ctx, at, 0, &key, fields, n);
    }

    return n != 0;
}


void
ngx_chat_payloads(ngx_chat_ctx_t *ctx)
{
    size_t step, lacking = 0;

    if (is_merging(ctx) && (ctx->conf->dry_run || ctx->worker->store == NULL))
    {
        ctx->payloads.rc = NGX_OK;

    } else if (ngx_chat_body_restore(ctx) != NGX_OK) {
        ctx->payloads.rc = NGX_ERROR;

    } else if (!ctx->body.lacks) {
        ctx->payloads.rc = NGX_OK; /* as that of most requests */

    } else {
        ctx->payloads.items = NULL;
        chat_results_init(&ctx->body.results, ctx->body.arena);

        /* the last step first */
        for (step = ctx->body.rq.nsteps;
             step-- > 0 && lacking < NGX_CHAT_LOOKUPS_MAX;) {
            lacking += look_up_step(ctx, step);
        }

        if (ctx->payloads.due != 0) {
            ctx->state = NGX_CHAT_ASKING;
            ngx_chat_decide_ask(ctx);
            return;
        }

        ctx->payloads.rc = complete(ctx);
    }

    ctx->step(ctx, NGX_CHAT_EVENT_PAYLOADS);
}
