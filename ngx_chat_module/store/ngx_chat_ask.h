/*
 * ngx_chat_ask.h: the store's interface for code that works on a request.
 *
 * Facts are put with the lifetime of a batch. The event loop calls each
 * continuation, with the log context of the request, and runs posted requests
 * after it: a continuation may end its request.
 */

#ifndef NGX_CHAT_ASK_H
#define NGX_CHAT_ASK_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "base/ngx_chat_ctx.h"

/*
 * A continuation with the store's reply, as done() of chat_store_op_t.
 * ask->ctx is the request's context. The facts end with the call.
 */
typedef void (*ngx_chat_ask_pt)(ngx_chat_ask_t *ask, chat_rc_e rc,
                                const chat_fact_t *facts, size_t n);

/* Puts facts without waiting; nothing if they are empty or incomplete. */
void ngx_chat_put(ngx_chat_ctx_t *ctx, const chat_key_t *key,
                  const chat_facts_t *facts);

/*
 * Puts facts (NULL: none), asks for all facts of the key, and watches it
 * (watch NULL: does not; else the caller has set its notify and data). The
 * caller zeroes *ask before its first use, and cancels it before it is freed.
 */
void ngx_chat_ask(ngx_chat_ctx_t *ctx, ngx_chat_ask_t *ask,
                  chat_store_watch_t *watch, const chat_key_t *key,
                  const chat_facts_t *facts, ngx_chat_ask_pt done);

/* Asks for the payloads of n fields of the key. */
void ngx_chat_ask_payloads(ngx_chat_ctx_t *ctx, ngx_chat_ask_t *ask,
                           const chat_key_t *key, const chat_str_t *fields,
                           size_t n, ngx_chat_ask_pt done);

/* 1 while the reply is due. */
#define ngx_chat_ask_is_due(ask) ((ask)->op.store != NULL)

/* The continuation will not run; safe at any time. */
void ngx_chat_ask_cancel(ngx_chat_ask_t *ask);

/*
 * Puts facts into a conversation's index, like ngx_chat_put(). Now and then
 * the index is then read and trimmed, so that it stays far below most_facts;
 * nothing waits for that.
 */
void ngx_chat_put_index(ngx_chat_ctx_t *ctx, const chat_key_t *key,
                        const chat_facts_t *facts);

/*
 * Drops the oldest batches and streams from the conversation's index that has
 * these facts, so that it stays short.
 */
void ngx_chat_store_trim(chat_store_t *store, const chat_key_t *key,
                         const chat_fact_t *facts, size_t n);

#endif /* NGX_CHAT_ASK_H */
