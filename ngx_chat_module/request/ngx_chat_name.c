/*
 * ngx_chat_name.c: finds the batch that a request answers.
 *
 * Most bodies give its name themselves. One that names a conversation which
 * the provider keeps does not: the store is asked for the record of the
 * conversation first, and the newest batch in it is meant.
 * Must not know: wire formats, what a batch is.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "metrics/ngx_chat_metrics.h"
#include "store/ngx_chat_ask.h"
#include "facts/chat_conversation.h"


/* 1 if the batch is known by the record of the conversation alone. */
static ngx_uint_t
ngx_chat_name_by_record(ngx_chat_ctx_t *ctx)
{
    return ctx->body.rq.chained && ctx->body.rq.by_conversation;
}


chat_rc_e
ngx_chat_name(ngx_chat_ctx_t *ctx)
{
    return ngx_chat_name_by_record(ctx)
               ? chat_batch_record_key(&ctx->scope, &ctx->barrier.q.key)
               : chat_batch_key(&ctx->scope,
                                &ctx->body.rq.steps[ctx->body.rq.nsteps - 1],
                                &ctx->barrier.q.key);
}


void
ngx_chat_name_trim(chat_store_t *store, const chat_key_t *key,
                   const chat_fact_t *facts, size_t n)
{
    size_t        count;
    chat_str_t   *fields;
    chat_arena_t *scratch;

    if (n <= CHAT_LISTED_MOST) {
        return;
    }

    scratch = chat_arena_create(0);
    if (scratch == NULL) {
        return;
    }

    count = chat_listed_surplus(facts, n, scratch, &fields);
    if (count != 0) {
        store->drop(store, key, fields, count);
    }

    chat_arena_destroy(scratch);
}


static void
ngx_chat_name_done(ngx_chat_ask_t *ask, chat_rc_e rc, const chat_fact_t *facts,
                   size_t n)
{
    ngx_chat_ctx_t *ctx = ask->ctx;
    chat_recorded_t recorded;

    ngx_chat_metrics_asked(ctx);

    if (rc != CHAT_OK) {
        ngx_chat_away_failed(ctx, rc);
    } else if (chat_batch_newest(facts, n, &recorded) == CHAT_OK) {
        ngx_chat_name_trim(ctx->main->store, &ctx->barrier.q.key, facts, n);
        ctx->barrier.q.key.name = recorded.names[0];
        ctx->next(ctx, NGX_OK);

    } else {
        ctx->next(ctx, NGX_DECLINED);
    }
}


void
ngx_chat_name_find(ngx_chat_ctx_t *ctx,
                   void (*next)(ngx_chat_ctx_t *ctx, ngx_int_t rc))
{
    if (ngx_chat_name_by_record(ctx)) {
        ngx_chat_name_newest(ctx, next);
    } else {
        next(ctx, NGX_OK);
    }
}


void
ngx_chat_name_newest(ngx_chat_ctx_t *ctx,
                     void (*next)(ngx_chat_ctx_t *ctx, ngx_int_t rc))
{
    if (chat_batch_record_key(&ctx->scope, &ctx->barrier.q.key) != CHAT_OK) {
        next(ctx, NGX_DECLINED);
        return;
    }

    ctx->next = next;
    ngx_chat_gate_ask(ctx, &ctx->barrier.q.key, NULL, ngx_chat_name_done);
}


void
ngx_chat_name_record(ngx_chat_ctx_t *ctx)
{
    chat_key_t      key;
    chat_facts_t    facts;
    chat_recorded_t recorded;

    if (chat_batch_record_key(&ctx->scope, &key) != CHAT_OK) {
        return;
    }

    recorded.names[0] = ctx->barrier.q.key.name;
    recorded.nnames = 1;
    recorded.dialect = ctx->scope.dialect;

    chat_facts_init(&facts, ctx->barrier.look);
    chat_facts_batch(&facts, ctx->barrier.since, &recorded);
    ngx_chat_put(ctx, &key, &facts);
}
