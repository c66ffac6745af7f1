/*
 * ngx_chat_complete.c: fetches what the body lacks and the store has, and
 * puts it in.
 *
 * One question per step, all at once: for the step that a continuation
 * answers, exactly what the gate found; for earlier steps (and for what a
 * fresh turn leaves behind) whatever the store has. Promises: a body is
 * replaced whole or not at all. Must not know: wire formats.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "metrics/ngx_chat_metrics.h"
#include "request/ngx_chat_request.h"
#include "store/ngx_chat_ask.h"

#define NGX_CHAT_LOOKUPS_MAX 16 /* steps; later ones matter more */


static void ngx_chat_lookup_done(ngx_chat_ask_t *ask, chat_rc_e rc,
                                 const chat_fact_t *facts, size_t n);


/* 1 if this is the step that the gate has decided about. */
static ngx_uint_t
ngx_chat_lookup_is_last(ngx_chat_ctx_t *ctx, size_t step)
{
    return ctx->body.rq.answers && ctx->barrier.q.dialect != NULL
           && step + 1 == ctx->body.rq.nsteps;
}


/* 1 if what nobody has answered gets an error. */
static ngx_uint_t
ngx_chat_answers_open(ngx_chat_ctx_t *ctx)
{
    return ctx->conf->repair == NGX_CHAT_REPAIR_ALL
           && (ctx->body.rq.class == CHAT_CLASS_FRESH
               || ctx->body.rq.class == CHAT_CLASS_CONTINUATION);
}


/* Adds prefix<id> to the fields; NGX_ERROR: no memory. */
static ngx_int_t
ngx_chat_lookup_field(ngx_chat_ctx_t *ctx, const char *prefix, chat_str_t id,
                      chat_str_t *fields, size_t *n)
{
    size_t  len = ngx_strlen(prefix);
    u_char *field;

    field = chat_arena_alloc(ctx->body.arena, len + id.len + 1);
    if (field == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(field, prefix, len);
    ngx_memcpy(field + len, id.data, id.len);
    fields[(*n)++] = chat_str(field, len + id.len);

    return NGX_OK;
}


/*
 * The fields of the facts that a step lacks; 0 if it lacks none. results: 0
 * where the gate asks for those. A decision is of use to a call that does not
 * say how it was decided, and spares one that nobody has answered the error.
 */
static size_t
ngx_chat_lookup_lacks(ngx_chat_ctx_t *ctx, const chat_step_t *step,
                      ngx_uint_t results, chat_str_t **fields)
{
    size_t             i, n = 0;
    ngx_uint_t         lacks, open;
    const chat_call_t *call;

    *fields = chat_arena_alloc(ctx->body.arena,
                               (2 * step->count + 1) * sizeof(chat_str_t));
    if (*fields == NULL) {
        return 0;
    }

    for (i = step->first; i < step->first + step->count; i++) {
        call = &ctx->body.rq.calls[i];
        if (call->id.len > CHAT_ID_MAX) {
            continue;
        }

        lacks = chat_call_is_member(call)
                && (call->outcome == CHAT_OUTCOME_NONE
                    || call->outcome == CHAT_OUTCOME_PARTIAL);
        open = lacks && call->kind == CHAT_KIND_APPROVAL
               && (results || ctx->body.rq.class == CHAT_CLASS_FRESH)
               && ngx_chat_answers_open(ctx);

        if (lacks && results
            && ngx_chat_lookup_field(ctx, "result/", call->id, *fields, &n)
                   != NGX_OK)
        {
            return 0;
        }

        if ((call->undecided || open)
            && ngx_chat_lookup_field(ctx, "approval/", call->id, *fields, &n)
                   != NGX_OK)
        {
            return 0;
        }
    }

    return n;
}


static void
ngx_chat_lookup(ngx_chat_ctx_t *ctx, size_t step, const chat_key_t *key,
                const chat_str_t *fields, size_t n)
{
    ngx_chat_lookup_t *lookup = &ctx->payloads.items[ctx->payloads.count++];

    lookup->step = step;
    ctx->payloads.due++;
    ngx_chat_ask_payloads(ctx, &lookup->ask, key, fields, n,
                          ngx_chat_lookup_done);
}


/*
 * Asks what one step lacks; last: the one that the gate has decided about.
 * Returns 1 if it lacks something. A step past chat_max_calls is left alone.
 */
static ngx_uint_t
ngx_chat_lookup_step(ngx_chat_ctx_t *ctx, size_t step, ngx_uint_t last)
{
    size_t      n;
    chat_key_t  key;
    chat_str_t *fields;

    if (last && ctx->barrier.nfields != 0) {
        ngx_chat_lookup(ctx, step, &ctx->barrier.q.key, ctx->barrier.fields,
                        ctx->barrier.nfields);
        ctx->payloads.items[ctx->payloads.count - 1].needed = 1;
    }

    /* twice: an id may occur more than once */
    if (!ctx->payloads.merging || ctx->conf->repair == NGX_CHAT_REPAIR_OFF
        || ctx->payloads.count == NGX_CHAT_LOOKUPS_MAX
        || ctx->body.rq.steps[step].count > 2 * (size_t) ctx->conf->max_calls)
    {
        return 0;
    }

    n = ngx_chat_lookup_lacks(ctx, &ctx->body.rq.steps[step], !last, &fields);
    if (n == 0) {
        return 0;
    }

    if (chat_batch_key(&ctx->scope, &ctx->body.rq.steps[step], &key)
        == CHAT_OK) {
        ngx_chat_lookup(ctx, step, &key, fields, n);
    }

    return 1;
}


/* Asks for all steps; answers how many questions are under way. */
static size_t
ngx_chat_lookup_all(ngx_chat_ctx_t *ctx)
{
    size_t step, lacking = 0;

    ctx->payloads.items = chat_arena_alloc(
        ctx->body.arena, NGX_CHAT_LOOKUPS_MAX * sizeof(*ctx->payloads.items));
    if (ctx->payloads.items == NULL) {
        return 0;
    }

    for (step = ctx->body.rq.nsteps; step-- > 0;) {
        if (lacking == NGX_CHAT_LOOKUPS_MAX
            || ctx->payloads.count == NGX_CHAT_LOOKUPS_MAX)
        {
            break;
        }

        lacking += ngx_chat_lookup_step(ctx, step,
                                        ngx_chat_lookup_is_last(ctx, step));
    }

    return ctx->payloads.due;
}


/* A copy of the answer in the request's arena. */
static chat_rc_e
ngx_chat_lookup_keep(ngx_chat_lookup_t *lookup, const chat_fact_t *facts,
                     size_t n)
{
    size_t        i;
    chat_arena_t *arena = lookup->ask.ctx->body.arena;

    lookup->facts = chat_arena_alloc(arena, (n + 1) * sizeof(chat_fact_t));
    if (lookup->facts == NULL) {
        return CHAT_ERROR;
    }

    for (i = 0; i < n; i++) {
        lookup->facts[i] = facts[i];

        if (chat_arena_dup(arena, facts[i].field, &lookup->facts[i].field)
                != CHAT_OK
            || chat_arena_dup(arena, facts[i].value, &lookup->facts[i].value)
                   != CHAT_OK
            || chat_arena_dup(arena, facts[i].payload,
                              &lookup->facts[i].payload)
                   != CHAT_OK)
        {
            return CHAT_ERROR;
        }
    }

    lookup->count = n;
    return CHAT_OK;
}


/* The merged body in place of the one that was read. */
static ngx_int_t
ngx_chat_replace_body(ngx_chat_ctx_t *ctx, chat_str_t text)
{
    u_char             *p;
    ngx_buf_t          *b;
    ngx_chain_t        *cl;
    ngx_http_request_t *r = ctx->request;

    b = ngx_create_temp_buf(r->pool, text.len);
    cl = ngx_alloc_chain_link(r->pool);
    p = ngx_pnalloc(r->pool, NGX_OFF_T_LEN);
    if (b == NULL || cl == NULL || p == NULL) {
        return NGX_ERROR;
    }

    b->last = ngx_cpymem(b->last, text.data, text.len);
    b->last_buf = 1;
    ctx->body.merged = chat_str(b->pos, text.len);
    cl->buf = b;
    cl->next = NULL;

    r->request_body->bufs = cl;
    r->request_body->temp_file = NULL;
    r->headers_in.content_length_n = (off_t) text.len;
    r->headers_in.chunked = 0;

    if (r->headers_in.content_length != NULL) {
        r->headers_in.content_length->value.data = p;
        r->headers_in.content_length->value.len =
            ngx_sprintf(p, "%O", (off_t) text.len) - p;
    }

    return NGX_OK;
}


ngx_int_t
ngx_chat_complete_inject(ngx_chat_ctx_t *ctx)
{
    chat_buf_t     out;
    chat_results_t told;

    if (ctx->dialect->inject == NULL
        || ctx->body.rq.class != CHAT_CLASS_CONTINUATION)
    {
        return NGX_OK;
    }

    chat_results_init(&told, ctx->body.arena);
    if (chat_results_told(&ctx->body.results, &told) != CHAT_OK) {
        return NGX_ERROR;
    }

    if (told.count == 0) {
        return NGX_OK;
    }

    ctx->response.ninjected = told.count;
    ngx_memzero(&out, sizeof(out));
    ctx->dialect->inject(told.items, told.count, &out);

    if (!out.failed) {
        ctx->response.injected.data = ngx_pnalloc(ctx->request->pool, out.len);
        if (ctx->response.injected.data != NULL) {
            ngx_memcpy(ctx->response.injected.data, out.data, out.len);
            ctx->response.injected.len = out.len;
        }
    }

    chat_buf_free(&out);
    return NGX_OK;
}


static ngx_int_t
ngx_chat_merge_body(ngx_chat_ctx_t *ctx)
{
    chat_rc_e  rc;
    ngx_int_t  result;
    chat_buf_t out;

    ngx_memzero(&out, sizeof(out));

    rc = chat_merge(ctx->dialect, &ctx->body.doc, &ctx->body.rq,
                    &ctx->body.results, &out);

    result = rc == CHAT_OK    ? ngx_chat_replace_body(ctx, chat_buf_str(&out))
             : rc == CHAT_BAD ? NGX_DECLINED
                              : NGX_ERROR;
    chat_buf_free(&out);

    if (result != NGX_OK) {
        return result;
    }

    ngx_chat_metrics_merged(ctx, ctx->body.results.count
                                     + ctx->body.results.ndecided);
    return ngx_chat_complete_inject(ctx);
}


/* 1 if there is a result for each field that the gate has counted on. */
static ngx_uint_t
ngx_chat_has_all(ngx_chat_ctx_t *ctx)
{
    size_t       i;
    u_char      *slash;
    chat_str_t   id;
    chat_table_t ids;

    chat_table_init(&ids, ctx->body.arena);

    for (i = 0; i < ctx->body.results.count; i++) {
        if (chat_table_put(&ids, ctx->body.results.items[i].id) == NULL) {
            return 0;
        }
    }

    for (i = 0; i < ctx->barrier.nfields; i++) {
        id = ctx->barrier.fields[i];
        slash =
            ngx_strlchr((u_char *) id.data, (u_char *) id.data + id.len, '/');
        id.len -= (size_t) (slash + 1 - id.data);
        id.data = slash + 1;

        if (chat_table_find(&ids, id) == NULL) {
            return 0;
        }
    }

    return 1;
}


/* What the store could not give; all of it has answered. */
static chat_rc_e
ngx_chat_complete_open(ngx_chat_ctx_t *ctx)
{
    chat_rc_e          rc;
    ngx_uint_t         unknown = ngx_chat_answers_open(ctx);
    chat_request_t    *rq = &ctx->body.rq;
    const chat_step_t *last;

    if (ctx->conf->repair == NGX_CHAT_REPAIR_OFF) {
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
ngx_chat_completed(ngx_chat_ctx_t *ctx)
{
    int                continuation;
    size_t             i, failed = 0;
    ngx_chat_lookup_t *lookup;

    continuation = ctx->body.rq.class == CHAT_CLASS_CONTINUATION;
    chat_results_init(&ctx->body.results, ctx->body.arena);

    for (i = ctx->payloads.count; i-- > 0;) {
        lookup = &ctx->payloads.items[i];
        failed += lookup->failed;

        if (lookup->needed && continuation && ctx->payloads.merging) {
            if (lookup->failed) {
                return NGX_ERROR;
            }
            if (lookup->count != ctx->barrier.nfields) {
                return NGX_DECLINED;
            }
        }

        if (!lookup->failed
            && chat_results_collect(&ctx->body.results, &ctx->body.rq,
                                    &ctx->body.rq.steps[lookup->step],
                                    lookup->facts, lookup->count,
                                    ctx->barrier.known, ctx->barrier.nknown,
                                    lookup->needed && continuation)
                   != CHAT_OK)
        {
            return NGX_ERROR;
        }
    }

    if (continuation && ctx->payloads.merging && !ngx_chat_has_all(ctx)) {
        return NGX_DECLINED;
    }

    if (ctx->payloads.merging && failed == 0
        && (ctx->body.rq.class == CHAT_CLASS_FRESH
            || ngx_chat_answers_open(ctx))
        && ngx_chat_complete_open(ctx) != CHAT_OK)
    {
        return NGX_ERROR;
    }

    if (!ctx->payloads.merging
        || (ctx->body.results.count == 0 && ctx->body.results.ndecided == 0))
    {
        return NGX_OK;
    }

    return ngx_chat_merge_body(ctx);
}


static void
ngx_chat_lookup_done(ngx_chat_ask_t *ask, chat_rc_e rc,
                     const chat_fact_t *facts, size_t n)
{
    ngx_chat_ctx_t    *ctx = ask->ctx;
    ngx_chat_lookup_t *lookup = (ngx_chat_lookup_t *) ask;

    lookup->failed =
        rc != CHAT_OK || ngx_chat_lookup_keep(lookup, facts, n) != CHAT_OK;

    if (--ctx->payloads.due == 0) {
        ngx_chat_metrics_asked(ctx);
        ctx->payloads.rc = ngx_chat_completed(ctx);
        ctx->step(ctx, NGX_CHAT_EVENT_PAYLOADS);
    }
}


/* Asks for the payloads. NGX_AGAIN: answers are due. */
static ngx_int_t
ngx_chat_payloads_ask(ngx_chat_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;

    if (ctx->body.arena == NULL && ngx_chat_body_parse(ctx) != NGX_OK) {
        return NGX_ERROR;
    }

    ctx->payloads.count = 0;
    ctx->barrier.asked = ngx_chat_metrics_clock();
    chat_results_init(&ctx->body.results, ctx->body.arena);

    if (ngx_chat_lookup_all(ctx) == 0) {
        return ngx_chat_completed(ctx);
    }

    ctx->state = NGX_CHAT_ASKING;
    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_request_empty_handler;
    return NGX_AGAIN;
}


void
ngx_chat_payloads(ngx_chat_ctx_t *ctx, ngx_uint_t merging)
{
    ngx_int_t rc = NGX_OK;

    ctx->payloads.merging = merging;

    if (!merging || !(ctx->conf->dry_run || ctx->main->store == NULL)) {
        rc = ngx_chat_payloads_ask(ctx);
    }

    if (rc != NGX_AGAIN) {
        ctx->payloads.rc = rc;
        ctx->step(ctx, NGX_CHAT_EVENT_PAYLOADS);
    }
}
