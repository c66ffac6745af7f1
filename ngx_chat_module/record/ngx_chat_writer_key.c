/*
 * ngx_chat_writer_key.c: which answers may have a record, under which key it
 * is, and that nothing more comes under that key.
 *
 * Promises: an answer has one key from its first question to the store on,
 * whether it is recorded or not.
 * Must not know: wire formats, how a store stores, what is in a record.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "facts/chat_conversation.h"
#include "record/ngx_chat_writer.h"


ngx_uint_t
ngx_chat_recording_possible(ngx_chat_ctx_t *ctx)
{
    ngx_chat_loc_conf_t *conf = ctx->conf;

    return ctx->main->store != NULL && ctx->dialect != NULL && !conf->dry_run
           && ((ctx->attempt.k != 0 && conf->record != NGX_CHAT_RECORD_OFF)
               || ctx->indexed != NULL);
}


void
ngx_chat_recording_key(ngx_chat_ctx_t *ctx, chat_key_t *key)
{
    u_char          *end;
    chat_key_t       of;
    chat_question_t *q = &ctx->barrier.q;

    if (q->request.len == 0) {
        end = ngx_sprintf(ctx->barrier.id, "%ui", ctx->main->serial++);
        q->request =
            chat_str(ctx->barrier.id, (size_t) (end - ctx->barrier.id));
        q->worker = ctx->main->store->worker;

        q->key.tenant = chat_scope_tenant(&ctx->scope);

        if (chat_batch_record_key(&ctx->scope, &of) == CHAT_OK) {
            q->key.tag = of.tag;
        }
    }

    chat_record_key(&q->key, q->worker, q->request, key);
}


void
ngx_chat_recording_over(chat_store_t *store, const chat_key_t *key,
                        uint32_t ttl)
{
    chat_arena_t *arena;
    chat_facts_t  facts;

    arena = chat_arena_create(0);
    if (arena == NULL) {
        return;
    }

    chat_facts_init(&facts, arena);
    chat_facts_written(&facts);
    store->join(store, NULL, key, facts.items, facts.count, ttl);
    chat_arena_destroy(arena);
}
