/*
 * ngx_chat_index.h: the entry of an answer in its conversation's stream index.
 *
 * Under "chat_record on" each answer of a known conversation is indexed before
 * its request goes upstream, so that a client that comes back finds it from
 * its first moment on. Promises: a request waits for one query of the store
 * at most, and goes on without an entry where the store does not reply.
 */

#ifndef NGX_CHAT_INDEX_H
#define NGX_CHAT_INDEX_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "response/ngx_chat_response.h"

struct ngx_chat_indexed_s {
    chat_key_t         index; /* the conversation's */
    chat_key_t         key;   /* the recording's */
    char               id[CHAT_LISTED_ID + 1];
    uint64_t           ms; /* when it was indexed */
    ngx_chat_ask_t     ask;
    chat_store_watch_t watch;
    ngx_chat_timer_t   timer;
    ngx_uint_t         tries;     /* to stop it */
    unsigned           begun : 1; /* its request has gone on */
    unsigned           over : 1;  /* its end is in the index */
    unsigned           again : 1; /* notified while asking */
};

/*
 * Indexes the answer, if it is to be: 1, and INDEXED is reported later; else
 * 0, and there is nothing to wait for.
 */
ngx_uint_t ngx_chat_index_begin(ngx_chat_ctx_t *ctx);

/*
 * Adds this request, which waits for results, to the index, so that a resume
 * waits for its answer, and its end by a cleanup. Safe at any time.
 */
void ngx_chat_index_hold(ngx_chat_ctx_t *ctx);

/* The stream has ended; safe at any time. */
void ngx_chat_index_over(ngx_chat_ctx_t *ctx);

/* The request is over. */
void ngx_chat_index_end(ngx_chat_ctx_t *ctx);

#endif /* NGX_CHAT_INDEX_H */
