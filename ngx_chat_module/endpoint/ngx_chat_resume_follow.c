/*
 * ngx_chat_resume_follow.c: a client that comes back gets what it lacks of an
 * answer, as any follower does.
 *
 * Until it is known whether there is anything to give nothing is sent: where
 * the client has all of a stream that has ended, or its record is gone, the
 * answer is 204. From then on ngx_chat_follow.c goes on by itself.
 * Promises: bytes as they were sent first, from right behind the event that
 * the client has; never a gap that it is not told of.
 * Must not know: wire formats, the store.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "record/ngx_chat_follow.h"
#include "endpoint/ngx_chat_resume.h"


/* 1 if the client is to wait until more is known; nothing has been sent. */
static ngx_uint_t
ngx_chat_resume_waits(ngx_chat_ctx_t *ctx, const ngx_chat_reader_t *reader)
{
    if (reader->state != NGX_CHAT_READER_ASKING
        && reader->state != NGX_CHAT_READER_RUNNING)
    {
        return 0;
    }

    if (!reader->chunks.has_head) {
        return 1;
    }

    /* is there more to come, or is what it has all that there is? */
    return !reader->live
           && (ctx->resume->running
               || ngx_chat_reader_ready(&ctx->follow->follower) == NGX_AGAIN);
}


/*
 * 1 if who takes only what runs has it elsewhere. What ran when it came is
 * given, though it may have ended since.
 */
static ngx_uint_t
ngx_chat_resume_is_elsewhere(const ngx_chat_ctx_t    *ctx,
                             const ngx_chat_reader_t *reader)
{
    return ctx->resume->running && (ctx->resume->ended || !reader->live)
           && reader->end != CHAT_END_INTERRUPTED;
}


/* 1 if there is nothing that the client lacks. */
static ngx_uint_t
ngx_chat_resume_is_over(ngx_chat_ctx_t *ctx, const ngx_chat_reader_t *reader)
{
    switch (reader->state) {
    case NGX_CHAT_READER_NONE:
        return 1;

    case NGX_CHAT_READER_COMPLETE:
        return ngx_chat_resume_is_elsewhere(ctx, reader)
               || (ctx->resume->place.after != 0
                   && ngx_chat_reader_ready(&ctx->follow->follower)
                          == NGX_AGAIN);

    default:
        return 0;
    }
}


/* What the reader knows by now. */
static void
ngx_chat_resume_look(ngx_chat_ctx_t *ctx)
{
    const ngx_chat_reader_t *reader = ctx->follow->follower.reader;

    if (ngx_chat_resume_waits(ctx, reader)) {
        return;
    }

    if (reader->state == NGX_CHAT_READER_NONE && ctx->resume->unsure) {
        /* it never went upstream: it hides no answer that came before it */
        ngx_chat_follow_leave(ctx);
        ngx_chat_resume_ask(ctx);

    } else if (ngx_chat_resume_is_over(ctx, reader)) {
        ngx_chat_resume_nothing(ctx);

    } else if (!reader->chunks.has_head) {
        ngx_chat_reply_broken(ctx, reader->over ? reader->over : "upstream");

    } else {
        ngx_chat_resume_before(ctx);
    }
}


void
ngx_chat_resume_follow(ngx_chat_ctx_t *ctx, const chat_listed_t *listed)
{
    ngx_chat_source_t source;

    ngx_memzero(&source, sizeof(source));
    source.key.tag = ctx->resume->conversation.tag;
    source.key.tenant = ctx->resume->conversation.tenant;
    source.key.name = listed->name;
    ctx->resume->record = source.key;
    source.attempt.worker = listed->worker;
    source.attempt.request = chat_cstr("");
    source.attempt.end = listed->end;
    source.late = 1;
    source.indexed = 1;

    if (ngx_chat_follow_stream(ctx, &source, ctx->resume->place.after)
        != NGX_OK) {
        ngx_http_finalize_request(ctx->request,
                                  NGX_HTTP_INTERNAL_SERVER_ERROR);
        return;
    }

    ctx->resume->ended =
        ctx->follow->follower.reader->state == NGX_CHAT_READER_COMPLETE;

    ctx->follow->look = ngx_chat_resume_look;
    ngx_chat_resume_look(ctx);
}


void
ngx_chat_resume_leave(ngx_chat_ctx_t *ctx)
{
    if (ctx->resume != NULL && ctx->main->store != NULL) {
        ngx_chat_resume_unwait(ctx->resume);
        ctx->main->store->cancel(&ctx->resume->op);
    }
}
