/*
 * ngx_chat_index.c: see ngx_chat_index.h.
 *
 * One join adds the stream to the index and watches the index, where a request
 * to stop it appears. A stream is stopped like one whose upstream falls
 * silent, so its client and its followers get the dialect's own last event;
 * before its first byte the request just ends.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "base/ngx_chat_nginx_internals.h"
#include "facts/chat_conversation.h"
#include "record/ngx_chat_index.h"
#include "record/ngx_chat_writer.h"

#define NGX_CHAT_INDEX_LATER 200 /* ms: until a client has taken its bytes */
#define NGX_CHAT_INDEX_WAITS 10  /* so often; then it is as one that left */


static void ngx_chat_index_ask(ngx_chat_ctx_t *ctx);
static void ngx_chat_index_make_room(ngx_chat_ctx_t *ctx);


/* 1 if the client may come back for the answer. */
static ngx_uint_t
ngx_chat_index_may(ngx_chat_ctx_t *ctx)
{
    chat_store_t *store = ctx->main->store;

    return ctx->conf->record == NGX_CHAT_RECORD_ON && !ctx->conf->dry_run
           && ctx->dialect != NULL && ctx->body.rq.class != CHAT_CLASS_OTHER
           && ctx->body.rq.class != CHAT_CLASS_ITEMS && ctx->indexed == NULL
           && store != NULL && store->state != CHAT_STORE_UNAVAILABLE;
}


/* It is indexed, or cannot be: the request goes on. */
static void
ngx_chat_index_done(chat_store_op_t *op, chat_rc_e rc,
                    const chat_fact_t *facts, size_t n)
{
    ngx_chat_ctx_t   *ctx = op->data;
    ngx_connection_t *c = ctx->request->connection;

    ngx_http_set_log_request(c->log, ctx->request);

    if (rc == CHAT_LIMIT && !ctx->indexed->trimmed) {
        ngx_chat_index_make_room(ctx);
        return;
    }

    ctx->indexed->begun = 1;

    if (rc == CHAT_OK) {
        ngx_chat_decide_trim(ctx->main->store, &ctx->indexed->conversation,
                             facts, n);

    } else {
        ngx_log_error(NGX_LOG_WARN, c->log, 0,
                      "chat: an answer has no stream id, a client that loses "
                      "it cannot come back for it: the store %s",
                      rc == CHAT_LIMIT ? "has no room for it"
                                       : "cannot be asked");
    }

    if (rc != CHAT_OK) {
        /* it may stand all the same: it is over then */
        ngx_chat_index_end(ctx);
        ctx->indexed = NULL;
        ctx->stream_id = NULL;

    } else if (ctx->indexed->again) {
        ngx_chat_index_ask(ctx);
    }

    ctx->step(ctx, NGX_CHAT_EVENT_INDEXED);
    ngx_http_run_posted_requests(c);
}


static void
ngx_chat_index_notify(chat_store_watch_t *watch)
{
    ngx_chat_index_ask(watch->data);
}


/* The stream's fact. */
static ngx_int_t
ngx_chat_index_facts(ngx_chat_ctx_t *ctx, chat_facts_t *facts)
{
    chat_listed_t listed;

    ngx_memzero(&listed, sizeof(listed));
    listed.ms = ctx->indexed->ms;
    listed.dialect = chat_cstr(ctx->dialect->name);
    listed.worker = ctx->main->store->worker;
    listed.name = ctx->indexed->key.name;

    chat_facts_init(facts, ctx->kept);
    chat_facts_listed(facts, &listed);
    return facts->failed ? NGX_ERROR : NGX_OK;
}


/* The fact, and all that changes from now on. */
static ngx_int_t
ngx_chat_index_put(ngx_chat_ctx_t *ctx)
{
    chat_facts_t        facts;
    chat_store_t       *store = ctx->main->store;
    ngx_chat_indexed_t *indexed = ctx->indexed;

    indexed->ms = ngx_chat_now();

    if (ngx_chat_index_facts(ctx, &facts) != NGX_OK) {
        return NGX_ERROR;
    }

    indexed->op.done = ngx_chat_index_done;
    indexed->op.data = ctx;
    indexed->watch.notify = ngx_chat_index_notify;
    indexed->watch.data = ctx;
    store->watch(store, &indexed->watch, &indexed->op, &indexed->conversation,
                 facts.items, facts.count, (uint32_t) ctx->conf->ttl);
    return NGX_OK;
}


static void
ngx_chat_index_trim(chat_store_op_t *op, chat_rc_e rc,
                    const chat_fact_t *facts, size_t n)
{
    ngx_chat_ctx_t   *ctx = op->data;
    ngx_connection_t *c = ctx->request->connection;

    ngx_http_set_log_request(c->log, ctx->request);

    if (rc == CHAT_OK) {
        ngx_chat_decide_trim(ctx->main->store, &ctx->indexed->conversation,
                             facts, n);
    }

    if (ngx_chat_index_put(ctx) != NGX_OK) {
        ngx_chat_index_done(op, CHAT_ERROR, NULL, 0);
    }
}


/* Holds that ended without an answer have filled the index: trims it once. */
static void
ngx_chat_index_make_room(ngx_chat_ctx_t *ctx)
{
    chat_store_t       *store = ctx->main->store;
    ngx_chat_indexed_t *indexed = ctx->indexed;

    indexed->trimmed = 1;
    indexed->op.done = ngx_chat_index_trim;
    store->join(store, &indexed->op, &indexed->conversation, NULL, 0, 0);
}


ngx_uint_t
ngx_chat_index_begin(ngx_chat_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;
    chat_key_t          conversation;
    ngx_chat_indexed_t *indexed;

    if (!ngx_chat_index_may(ctx)
        || chat_batch_record_key(&ctx->scope, &conversation) != CHAT_OK)
    {
        return 0;
    }

    indexed = ngx_pcalloc(r->pool, sizeof(*indexed));
    if (indexed == NULL) {
        return 0;
    }

    indexed->conversation = conversation;
    ngx_chat_recording_key(ctx, &indexed->key);
    chat_listed_id(&indexed->key, indexed->id);
    ctx->indexed = indexed;
    ctx->stream_id = indexed->id;
    ctx->ends[NGX_CHAT_END_INDEX] = ngx_chat_index_end;

    if (ngx_chat_index_put(ctx) != NGX_OK) {
        ctx->indexed = NULL;
        ctx->stream_id = NULL;
        return 0;
    }

    ctx->state = NGX_CHAT_ASKING;
    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_request_empty_handler;
    return 1;
}


void
ngx_chat_index_hold(ngx_chat_ctx_t *ctx)
{
    char         *id;
    chat_key_t    conversation, hold;
    chat_str_t    parts[3];
    chat_facts_t  facts;
    chat_store_t *store = ctx->main->store;
    chat_listed_t listed;

    if (ctx->hold != NULL || !ngx_chat_index_may(ctx)
        || chat_batch_record_key(&ctx->scope, &conversation) != CHAT_OK)
    {
        return;
    }

    id = ngx_palloc(ctx->request->pool, CHAT_LISTED_ID + 1);
    if (id == NULL) {
        return;
    }

    parts[0] = chat_cstr("hold");
    parts[1] = ctx->barrier.q.worker;
    parts[2] = ctx->barrier.q.request;
    chat_digest_parts(parts, 3, &hold.name);
    chat_listed_id(&hold, id);
    ctx->hold = id;
    ctx->ends[NGX_CHAT_END_INDEX_HOLD] = ngx_chat_index_unhold;

    ngx_memzero(&listed, sizeof(listed));
    listed.ms = ngx_chat_now();
    listed.dialect = chat_cstr(ctx->dialect->name);
    listed.worker = store->worker;
    listed.name = hold.name;

    chat_facts_init(&facts, ctx->kept);
    chat_facts_held(&facts, &listed);
    store->join(store, NULL, &conversation, facts.items, facts.count,
                (uint32_t) ctx->conf->ttl);
}


void
ngx_chat_index_unhold(ngx_chat_ctx_t *ctx)
{
    chat_key_t    conversation;
    chat_facts_t  facts;
    chat_store_t *store = ctx->main->store;

    if (ctx->hold == NULL
        || chat_batch_record_key(&ctx->scope, &conversation) != CHAT_OK)
    {
        return;
    }

    chat_facts_init(&facts, ctx->kept);
    chat_facts_over(&facts, chat_cstr(ctx->hold), CHAT_END_NONE);
    ctx->hold = NULL;
    store->join(store, NULL, &conversation, facts.items, facts.count,
                (uint32_t) ctx->conf->ttl);
}


/*
 * Ends the request of an answer that has no stream as yet. A client that only
 * found its connection closed would send it once more.
 */
static void
ngx_chat_index_abort(ngx_chat_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;

    if (!ngx_chat_nginx_upstream_runs(r)) {
        return;
    }

    /* the end of its upstream gives one back */
    r->main->count++;

    if (ctx->response.answered || ngx_chat_orphan_is(ctx)
        || r->connection->error) {
        ngx_http_finalize_request(r, NGX_HTTP_CLIENT_CLOSED_REQUEST);
        return;
    }

    ngx_chat_nginx_upstream_close(r);
    ngx_chat_reply(ctx, CHAT_REPLY_STOPPED);
}


/* As upstream_break(); a client that takes nothing does not put it off. */
static ngx_int_t
ngx_chat_index_break(ngx_chat_ctx_t *ctx)
{
    ngx_int_t rc = ngx_chat_upstream_break(ctx, "stopped");

    if (rc == NGX_AGAIN && ctx->indexed->waits++ >= NGX_CHAT_INDEX_WAITS
        && ngx_chat_orphan_begin(ctx))
    {
        rc = ngx_chat_upstream_break(ctx, "stopped");
    }

    return rc;
}


/* A client has asked to stop the answer. It may free the request. */
static void
ngx_chat_index_stop(ngx_chat_ctx_t *ctx)
{
    ngx_int_t rc;

    if (ctx->response.has_last || ctx->response.finished) {
        return;
    }

    ctx->response.stopped = 1;
    rc = ngx_chat_index_break(ctx);

    if (rc == NGX_AGAIN) {
        ngx_add_timer(&ctx->indexed->timer, NGX_CHAT_INDEX_LATER);

    } else if (rc == NGX_DECLINED) {
        ngx_chat_index_abort(ctx);
    }
}


static void
ngx_chat_index_later(ngx_event_t *ev)
{
    ngx_chat_ctx_t   *ctx = ev->data;
    ngx_connection_t *c = ctx->request->connection;

    ngx_http_set_log_request(c->log, ctx->request);
    ngx_chat_index_stop(ctx);
    ngx_http_run_posted_requests(c);
}


/* The store has lost the stream's entry. */
static void
ngx_chat_index_again(ngx_chat_ctx_t *ctx)
{
    chat_facts_t  facts;
    chat_store_t *store = ctx->main->store;

    if (ctx->dialect != NULL && ngx_chat_index_facts(ctx, &facts) == NGX_OK) {
        store->join(store, NULL, &ctx->indexed->conversation, facts.items,
                    facts.count, (uint32_t) ctx->conf->ttl);
    }
}


static void
ngx_chat_index_asked(chat_store_op_t *op, chat_rc_e rc,
                     const chat_fact_t *facts, size_t n)
{
    chat_rc_e           found = CHAT_ERROR;
    chat_listed_t       listed;
    ngx_chat_ctx_t     *ctx = op->data;
    ngx_chat_indexed_t *indexed = ctx->indexed;

    if (rc == CHAT_OK) {
        found = chat_listed_find(facts, n, chat_cstr(indexed->id), &listed);
    }

    if (found == CHAT_DECLINED) {
        ngx_chat_index_again(ctx);

    } else if (found == CHAT_OK && listed.stopped && !ctx->response.stopped) {
        indexed->timer.handler = ngx_chat_index_later;
        indexed->timer.data = ctx;
        indexed->timer.log = ctx->request->connection->log;
        ngx_add_timer(&indexed->timer, 1);
        return;
    }

    if (indexed->again) {
        ngx_chat_index_ask(ctx);
    }
}


/* Looks whether it is to be stopped. */
static void
ngx_chat_index_ask(ngx_chat_ctx_t *ctx)
{
    chat_store_t       *store = ctx->main->store;
    ngx_chat_indexed_t *indexed = ctx->indexed;

    if (indexed->op.store != NULL) {
        indexed->again = 1;
        return;
    }

    indexed->again = 0;
    indexed->op.done = ngx_chat_index_asked;
    indexed->op.data = ctx;
    store->join(store, &indexed->op, &indexed->conversation, NULL, 0, 0);
}


/* How it has ended; NONE: no upstream has got the request. */
static chat_end_e
ngx_chat_index_how(ngx_chat_ctx_t *ctx)
{
    if (!ctx->indexed->begun || ngx_chat_attempt_unsent(ctx)) {
        return CHAT_END_NONE;
    }

    return ctx->response.end != CHAT_END_NONE ? ctx->response.end
                                              : CHAT_END_ABORTED;
}


void
ngx_chat_index_over(ngx_chat_ctx_t *ctx)
{
    chat_facts_t        facts;
    chat_store_t       *store = ctx->main->store;
    ngx_chat_indexed_t *indexed = ctx->indexed;

    if (indexed == NULL || indexed->over) {
        return;
    }

    indexed->over = 1;
    store->unwatch(&indexed->watch);
    store->cancel(&indexed->op);

    if (indexed->timer.timer_set) {
        ngx_del_timer(&indexed->timer);
    }

    chat_facts_init(&facts, ctx->kept);
    chat_facts_over(&facts, chat_cstr(indexed->id), ngx_chat_index_how(ctx));
    store->join(store, NULL, &indexed->conversation, facts.items, facts.count,
                (uint32_t) ctx->conf->ttl);
}


void
ngx_chat_index_end(ngx_chat_ctx_t *ctx)
{
    ngx_chat_indexed_t *indexed = ctx->indexed;

    ngx_chat_index_over(ctx);

    if (indexed != NULL && !indexed->recorded) {
        indexed->recorded = 1;
        ngx_chat_recording_over(ctx->main->store, &indexed->key,
                                (uint32_t) ctx->conf->record_ttl);
    }
}
