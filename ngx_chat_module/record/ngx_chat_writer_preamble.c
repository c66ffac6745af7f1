/*
 * ngx_chat_writer_preamble.c: what goes before a record, for a client that
 * begins with its first event.
 *
 * An answer may go on with a message that the client has. One that comes back
 * with an empty page does not have it, so it is kept beside the record, as it
 * stood in the body that went upstream. Promises: what is kept is bounded;
 * what could not be kept is known to be missing.
 * Must not know: wire formats, the store, who comes back.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "record/ngx_chat_writer.h"


/* The message as events. CHAT_DECLINED: the answer goes on with none. */
static chat_rc_e
ngx_chat_writer_history(ngx_chat_ctx_t *ctx, chat_buf_t *told)
{
    chat_rc_e       rc = CHAT_ERROR;
    chat_str_t      body = ctx->body.merged;
    chat_arena_t   *arena;
    chat_json_doc_t doc;

    if (body.len == 0) {
        body = chat_str(ctx->body.text.data, ctx->body.text.len);
    }

    arena = chat_arena_create(0);

    if (arena != NULL && chat_json_parse(&doc, arena, body) == CHAT_OK) {
        rc = ctx->dialect->history(&doc, told);
    }

    chat_arena_destroy(arena);
    return rc;
}


void
ngx_chat_writer_preamble(ngx_chat_ctx_t *ctx, chat_facts_t *facts,
                         chat_buf_t *told)
{
    chat_rc_e rc;

    if (ctx->dialect->history == NULL
        || ctx->body.rq.class == CHAT_CLASS_FRESH) {
        return;
    }

    rc = ngx_chat_writer_history(ctx, told);

    if (rc == CHAT_DECLINED) {
        return;
    }

    if (rc != CHAT_OK || told->len > ctx->conf->max_result) {
        ngx_log_error(NGX_LOG_INFO, ctx->request->connection->log, 0,
                      "chat: the message that the answer goes on with is too "
                      "long to be kept, the answer cannot be resumed");
        told->len = 0;
    }

    chat_facts_before(facts, chat_buf_str(told));
}
