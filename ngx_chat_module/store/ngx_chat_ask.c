/*
 * ngx_chat_ask.c: see ngx_chat_ask.h.
 *
 * Each operation carries its request and its continuation. Operations of no
 * request (recording, reader, waiting requests) use the store directly.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "facts/chat_conversation.h"
#include "store/ngx_chat_ask.h"

#define NGX_CHAT_TRIM_WRITES 16 /* of indexes; one of so many trims its own */


static void
ngx_chat_ask_done(chat_store_op_t *op, chat_rc_e rc, const chat_fact_t *facts,
                  size_t n)
{
    ngx_chat_ask_t   *ask = op->data;
    ngx_connection_t *c = ask->ctx->request->connection;

    ngx_http_set_log_request(c->log, ask->ctx->request);
    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, c->log, 0,
                   "chat store reply: rc %d, facts %uz", rc, n);
    ask->done(ask, rc, facts, n);
    ngx_http_run_posted_requests(c);
}


/* n facts or fields are sent with the command. */
static chat_store_op_t *
ngx_chat_ask_op(ngx_chat_ctx_t *ctx, ngx_chat_ask_t *ask, ngx_chat_ask_pt done,
                const char *command, size_t n)
{
    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, ctx->request->connection->log, 0,
                   "chat store %s: facts %uz", command, n);

    ask->op.done = ngx_chat_ask_done;
    ask->op.data = ask;
    ask->ctx = ctx;
    ask->done = done;
    return &ask->op;
}


void
ngx_chat_put(ngx_chat_ctx_t *ctx, const chat_key_t *key,
             const chat_facts_t *facts)
{
    chat_store_t *store = ctx->worker->store;

    if (store != NULL && !facts->failed && facts->count != 0) {
        ngx_log_debug1(NGX_LOG_DEBUG_HTTP, ctx->request->connection->log, 0,
                       "chat store put: facts %uz", facts->count);
        store->join(store, NULL, key, facts->items, facts->count,
                    ctx->worker->ttl, NULL);
    }
}


void
ngx_chat_store_trim(chat_store_t *store, const chat_key_t *key,
                    const chat_fact_t *facts, size_t n)
{
    size_t      count = 0;
    chat_str_t *fields;

    if (n > CHAT_LISTED_MOST) {
        count = chat_listed_surplus(facts, n, chat_arena_scratch(), &fields);
    }

    if (count != 0) {
        store->drop(store, key, fields, count);
    }
}


static void
on_index(chat_store_op_t *op, chat_rc_e rc, const chat_fact_t *facts, size_t n)
{
    ngx_chat_worker_t *worker = op->data;

    if (rc == CHAT_OK) {
        ngx_chat_store_trim(worker->store, &worker->trimmed, facts, n);
    }
}


void
ngx_chat_put_index(ngx_chat_ctx_t *ctx, const chat_key_t *key,
                   const chat_facts_t *facts)
{
    ngx_chat_worker_t *worker = ctx->worker;

    ngx_chat_put(ctx, key, facts);

    if (worker->store != NULL && worker->trim.store == NULL
        && ngx_random() % NGX_CHAT_TRIM_WRITES == 0)
    {
        worker->trimmed = *key;
        worker->trim.done = on_index;
        worker->trim.data = worker;
        worker->store->join(worker->store, &worker->trim, key, NULL, 0,
                            worker->ttl, NULL);
    }
}


void
ngx_chat_ask(ngx_chat_ctx_t *ctx, ngx_chat_ask_t *ask,
             chat_store_watch_t *watch, const chat_key_t *key,
             const chat_facts_t *facts, ngx_chat_ask_pt done)
{
    size_t           n = facts ? facts->count : 0;
    chat_store_t    *store = ctx->worker->store;
    chat_store_op_t *op;

    op = ngx_chat_ask_op(ctx, ask, done, watch ? "watch" : "join", n);
    store->join(store, op, key, facts ? facts->items : NULL, n,
                ctx->worker->ttl, watch);
}


void
ngx_chat_ask_payloads(ngx_chat_ctx_t *ctx, ngx_chat_ask_t *ask,
                      const chat_key_t *key, const chat_str_t *fields,
                      size_t n, ngx_chat_ask_pt done)
{
    chat_store_t *store = ctx->worker->store;

    store->payloads(store, ngx_chat_ask_op(ctx, ask, done, "payloads", n), key,
                    fields, n);
}


void
ngx_chat_ask_cancel(ngx_chat_ask_t *ask)
{
    if (ask->op.store != NULL) {
        ask->op.store->cancel(&ask->op);
    }
}
