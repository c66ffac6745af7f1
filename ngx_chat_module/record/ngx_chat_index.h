/*
 * ngx_chat_index.h: the entry of an answer in its conversation's stream index.
 *
 * Under "chat_record on" each answer of a known conversation is indexed before
 * its request goes upstream, so that a client that comes back finds it from
 * its first moment on. The worker that makes it watches for a request to stop
 * it. Promises: a request waits for one question to the store at most, and
 * goes on without an entry where the store does not reply.
 */

#ifndef NGX_CHAT_INDEX_H
#define NGX_CHAT_INDEX_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "base/ngx_chat_module.h"

#include "facts/chat_conversation.h"

struct ngx_chat_indexed_s {
    chat_key_t         conversation; /* its record */
    chat_key_t         key;          /* the stream's */
    char               id[CHAT_LISTED_ID + 1];
    uint64_t           ms; /* when it was listed */
    chat_store_op_t    op;
    chat_store_watch_t watch;
    ngx_event_t        timer;
    ngx_uint_t         waits;        /* for the client, before it is stopped */
    unsigned           recorded : 1; /* there is a record of its own */
    unsigned           trimmed : 1;  /* its index was full */
    unsigned           begun : 1;    /* its request has gone on */
    unsigned           over : 1;     /* it has been said that it has ended */
    unsigned           again : 1;    /* something changed while asking */
};

/*
 * Lists the answer, if it is to be: 1, and INDEXED is reported later; else
 * 0, and there is nothing to wait for.
 */
ngx_uint_t ngx_chat_index_begin(ngx_chat_ctx_t *ctx);

/*
 * Says in the conversation's record that this request waits for results, so
 * that a resume waits for its answer; and that it does not any more. Both are
 * safe at any time, and no request waits for them.
 */
void ngx_chat_index_hold(ngx_chat_ctx_t *ctx);
void ngx_chat_index_unhold(ngx_chat_ctx_t *ctx);

/* Its stream has ended; safe at any time. */
void ngx_chat_index_over(ngx_chat_ctx_t *ctx);

/* The request is over. */
void ngx_chat_index_end(ngx_chat_ctx_t *ctx);

#endif /* NGX_CHAT_INDEX_H */
