/*
 * ngx_chat_index.c: see ngx_chat_index.h.
 *
 * One join adds the stream to the index and watches the index, where a request
 * to stop it appears. The worker stops a stream as if its upstream
 * had fallen silent, so its client and its followers get the dialect's own
 * last event; before its first byte the request just ends.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "facts/chat_recording.h"
#include "record/ngx_chat_index.h"
#include "store/ngx_chat_ask.h"

#define NGX_CHAT_INDEX_LATER 200 /* ms: until a client has taken its bytes */
#define NGX_CHAT_INDEX_TRIES 10  /* so often; then it counts as gone */


static void look(ngx_chat_ctx_t *ctx);


/* NGX_DECLINED: no client may come back for the answer. */
static ngx_int_t
find_index(ngx_chat_ctx_t *ctx, chat_key_t *index)
{
    chat_store_t *store = ctx->worker->store;

    return ctx->conf->record == NGX_CHAT_RECORD_ON && !ctx->conf->dry_run
                   && ctx->dialect != NULL
                   && ctx->body.rq.class != CHAT_CLASS_OTHER
                   && ctx->body.rq.class != CHAT_CLASS_ITEMS
                   && ctx->indexed == NULL && store != NULL
                   && store->state != CHAT_STORE_UNAVAILABLE
                   && chat_conversation_index_key(&ctx->scope, index)
                          == CHAT_OK
               ? NGX_OK
               : NGX_DECLINED;
}


/* What the index has of this request: its stream or its hold. */
static void
entry_facts(ngx_chat_ctx_t *ctx, chat_listed_kind_e kind, uint64_t ms,
            const chat_digest_t *name, chat_facts_t *facts)
{
    chat_listed_t entry;

    ngx_memzero(&entry, sizeof(entry));
    entry.ms = ms;
    entry.dialect = chat_cstr(ctx->dialect->name);
    entry.worker = ctx->worker->store->worker;
    entry.name = *name;

    chat_facts_init(facts, ctx->kept);
    chat_facts_listed(facts, kind, &entry);
}


/* The stream is indexed, or cannot be: the request goes on. */
static void
on_indexed(ngx_chat_ask_t *ask, chat_rc_e rc, const chat_fact_t *facts,
           size_t n)
{
    ngx_chat_ctx_t     *ctx = ask->ctx;
    ngx_chat_indexed_t *indexed = ctx->indexed;

    indexed->begun = 1;

    if (rc == CHAT_OK) {
        ngx_chat_store_trim(ctx->worker->store, &indexed->index, facts, n);

        if (indexed->again) {
            look(ctx);
        }

    } else {
        ngx_log_error(NGX_LOG_WARN, ctx->request->connection->log, 0,
                      "chat: an answer was not indexed, clients cannot resume "
                      "it: the store is %s",
                      rc == CHAT_LIMIT ? "full" : "unavailable");

        /* the entry may stand all the same: its end is added */
        ngx_chat_index_end(ctx);
        ctx->indexed = NULL;
        ctx->stream_id = NULL;
    }

    ctx->step(ctx, NGX_CHAT_EVENT_INDEXED);
}


static void
on_notify(chat_store_watch_t *watch)
{
    look(watch->data);
}


/* Stops the answer, as a client has asked. It may free the request. */
static void
stop(ngx_chat_ctx_t *ctx)
{
    ngx_chat_indexed_t *indexed = ctx->indexed;

    if (ctx->response.has_last || ctx->response.finished) {
        return;
    }

    ctx->response.stopped = 1;

    if (ngx_chat_upstream_stop(ctx, indexed->tries++ < NGX_CHAT_INDEX_TRIES)
        == NGX_AGAIN)
    {
        ngx_chat_timer(ctx, &indexed->timer, NGX_CHAT_INDEX_LATER, stop);
    }
}


ngx_uint_t
ngx_chat_index_begin(ngx_chat_ctx_t *ctx)
{
    chat_key_t          index;
    chat_facts_t        facts;
    ngx_http_request_t *r = ctx->request;
    ngx_chat_indexed_t *indexed;

    if (find_index(ctx, &index) != NGX_OK) {
        return 0;
    }

    indexed = ngx_pcalloc(r->pool, sizeof(*indexed));
    if (indexed == NULL) {
        return 0;
    }

    indexed->index = index;
    indexed->ms = ngx_chat_now();
    indexed->watch.notify = on_notify;
    indexed->watch.data = ctx;
    ngx_chat_recording_key(ctx, &indexed->key);
    chat_listed_id(&indexed->key, indexed->id);
    ctx->indexed = indexed;
    ctx->stream_id = indexed->id;
    ctx->cleanups[NGX_CHAT_CLEANUP_INDEX] = ngx_chat_index_end;

    ctx->state = NGX_CHAT_ASKING;
    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_request_empty_handler;

    entry_facts(ctx, CHAT_LISTED_STREAM, indexed->ms, &indexed->key.name,
                &facts);
    ngx_chat_ask(ctx, &indexed->ask, &indexed->watch, &indexed->index, &facts,
                 on_indexed);
    return 1;
}


/* Adds the end of a stream, or of a hold. */
static void
put_end(ngx_chat_ctx_t *ctx, const chat_key_t *index, const char *id,
        chat_end_e end)
{
    chat_facts_t facts;

    chat_facts_init(&facts, ctx->kept);
    chat_facts_over(&facts, chat_cstr(id), end);
    ngx_chat_put(ctx, index, &facts);
}


static void
end_hold(ngx_chat_ctx_t *ctx)
{
    chat_key_t index;

    if (ctx->hold_id[0] != '\0'
        && chat_conversation_index_key(&ctx->scope, &index) == CHAT_OK)
    {
        put_end(ctx, &index, ctx->hold_id, CHAT_END_NONE);
        ctx->hold_id[0] = '\0';
    }
}


void
ngx_chat_index_hold(ngx_chat_ctx_t *ctx)
{
    chat_key_t   index, hold;
    chat_facts_t facts;

    if (ctx->hold_id[0] != '\0' || find_index(ctx, &index) != NGX_OK) {
        return;
    }

    chat_digest_of(&hold.name, chat_cstr("hold"), ctx->barrier.q.worker,
                   ctx->barrier.q.request);
    chat_listed_id(&hold, ctx->hold_id);
    ctx->cleanups[NGX_CHAT_CLEANUP_INDEX_HOLD] = end_hold;

    entry_facts(ctx, CHAT_LISTED_HOLD, ngx_chat_now(), &hold.name, &facts);
    ngx_chat_put_index(ctx, &index, &facts);
}


static void
on_look(ngx_chat_ask_t *ask, chat_rc_e rc, const chat_fact_t *facts, size_t n)
{
    chat_facts_t        lost;
    chat_listed_t       entry;
    ngx_chat_ctx_t     *ctx = ask->ctx;
    ngx_chat_indexed_t *indexed = ctx->indexed;

    if (rc == CHAT_OK) {
        rc = chat_listed_find(facts, n, chat_cstr(indexed->id), &entry);

        if (rc == CHAT_DECLINED && ctx->dialect != NULL) {
            /* the store has lost it */
            entry_facts(ctx, CHAT_LISTED_STREAM, indexed->ms,
                        &indexed->key.name, &lost);
            ngx_chat_put(ctx, &indexed->index, &lost);
        }
    }

    if (rc == CHAT_OK && entry.stopped && !ctx->response.stopped) {
        stop(ctx);

    } else if (indexed->again) {
        look(ctx);
    }
}


/* Looks whether it is to be stopped. */
static void
look(ngx_chat_ctx_t *ctx)
{
    ngx_chat_indexed_t *indexed = ctx->indexed;

    indexed->again = ngx_chat_ask_is_due(&indexed->ask);

    if (!indexed->again) {
        ngx_chat_ask(ctx, &indexed->ask, NULL, &indexed->index, NULL, on_look);
    }
}


void
ngx_chat_index_over(ngx_chat_ctx_t *ctx)
{
    chat_end_e          end = ctx->response.end;
    ngx_chat_indexed_t *indexed = ctx->indexed;

    if (indexed == NULL || indexed->over) {
        return;
    }

    indexed->over = 1;
    ctx->worker->store->unwatch(&indexed->watch);
    ngx_chat_ask_cancel(&indexed->ask);
    ngx_chat_event_cancel(&indexed->timer.event);

    if (!indexed->begun || ngx_chat_upstream_unsent(ctx)) {
        end = CHAT_END_NONE; /* no upstream has got the request */

    } else if (end == CHAT_END_NONE) {
        end = CHAT_END_ABORTED;
    }

    put_end(ctx, &indexed->index, indexed->id, end);
}


void
ngx_chat_index_end(ngx_chat_ctx_t *ctx)
{
    ngx_chat_indexed_t *indexed = ctx->indexed;

    ngx_chat_index_over(ctx);

    if (indexed != NULL && !ctx->response.recorded) {
        ctx->response.recorded = 1;
        ngx_chat_recording_over(ctx->worker, ctx->conf, &indexed->key);
    }
}
