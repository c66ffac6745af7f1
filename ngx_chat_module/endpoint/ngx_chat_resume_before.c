/*
 * ngx_chat_resume_before.c: what a client that comes back must know before the
 * first event that it gets.
 *
 * That is the message which the answer goes on with, kept beside the record,
 * for who begins with the first event; and the results that calls of the
 * stream have by now, so that nobody works at them once more. Promises: where
 * the message could not be kept there is nothing to resume.
 * Must not know: wire formats, how a store stores.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "facts/chat_conversation.h"
#include "record/ngx_chat_follow.h"
#include "endpoint/ngx_chat_resume.h"


void
ngx_chat_resume_opened(ngx_chat_resume_t *resume, const chat_fact_t *facts,
                       size_t n, const chat_listed_t *listed)
{
    chat_recorded_t newest;

    /* an older one is of a step before, and ids may come again */
    if (chat_batch_newest(facts, n, &newest) == CHAT_OK
        && newest.ms >= listed->ms) {
        resume->batch.tag = resume->conversation.tag;
        resume->batch.name = newest.names[0];
        resume->opened = 1;
    }
}


/* The results are there. */
static void
ngx_chat_resume_settled(ngx_chat_ctx_t *ctx, chat_rc_e rc,
                        const chat_fact_t *facts, size_t n)
{
    size_t         count = 0;
    chat_result_t *results = NULL;

    if (rc == CHAT_OK) {
        results = chat_follow_results(facts, n, ctx->kept, &count);
    }

    ngx_chat_follow_answer(ctx, chat_str(NULL, 0), results, count);
}


/* The facts of the batch are there. */
static void
ngx_chat_resume_batch(ngx_chat_ctx_t *ctx, chat_rc_e rc,
                      const chat_fact_t *facts, size_t n)
{
    size_t             count = 0;
    chat_str_t        *fields = NULL;
    chat_store_t      *store = ctx->main->store;
    ngx_chat_resume_t *resume = ctx->resume;

    if (rc == CHAT_OK) {
        fields = chat_follow_fields(facts, n, ctx->kept, &count);
    }

    if (fields != NULL) {
        ngx_chat_resume_asks(ctx, ngx_chat_resume_settled);
        store->payloads(store, &resume->op, &resume->batch, fields, count);
    } else {
        ngx_chat_follow_answer(ctx, chat_str(NULL, 0), NULL, 0);
    }
}


static void
ngx_chat_resume_results(ngx_chat_ctx_t *ctx)
{
    chat_store_t      *store = ctx->main->store;
    ngx_chat_resume_t *resume = ctx->resume;

    if (resume->opened && ctx->dialect->resolve_pending != NULL) {
        ngx_chat_resume_asks(ctx, ngx_chat_resume_batch);
        store->join(store, &resume->op, &resume->batch, NULL, 0, 0);
    } else {
        ngx_chat_follow_answer(ctx, chat_str(NULL, 0), NULL, 0);
    }
}


/* The message is there, if the answer goes on with one. */
static void
ngx_chat_resume_told(ngx_chat_ctx_t *ctx, chat_rc_e rc,
                     const chat_fact_t *facts, size_t n)
{
    chat_str_t told = { NULL, 0 };

    if (rc != CHAT_OK
        || (n != 0
            && (facts[0].payload.len == 0
                || chat_arena_dup(ctx->kept, facts[0].payload, &told)
                       != CHAT_OK)))
    {
        ngx_chat_resume_nothing(ctx);

    } else {
        ctx->response.injected.data = (u_char *) told.data;
        ctx->response.injected.len = told.len;
        ngx_chat_resume_results(ctx);
    }
}


void
ngx_chat_resume_before(ngx_chat_ctx_t *ctx)
{
    chat_str_t         field = CHAT_STR(CHAT_RECORD_BEFORE);
    chat_store_t      *store = ctx->main->store;
    ngx_chat_resume_t *resume = ctx->resume;

    ctx->follow->gathering = 1;
    ctx->response.injected.len = 0;

    if (ctx->dialect->history != NULL && !resume->place.given) {
        ngx_chat_resume_asks(ctx, ngx_chat_resume_told);
        store->payloads(store, &resume->op, &resume->record, &field, 1);
    } else {
        ngx_chat_resume_results(ctx);
    }
}
