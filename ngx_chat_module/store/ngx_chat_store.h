/*
 * ngx_chat_store.h: the base of each store: replies that wait for the event
 * loop, and the watches of this worker.
 *
 * A store begins with ngx_chat_store_base_t. The event loop calls done() and
 * notify(), or done() the caller of ngx_chat_store_deliver() and
 * ngx_chat_store_answers(): no store calls back into a request that calls it.
 */

#ifndef NGX_CHAT_STORE_H
#define NGX_CHAT_STORE_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "base/ngx_chat_ctx.h"
#include "bytes/chat_word.h"
#include "facts/chat_store.h"

#define NGX_CHAT_WATCH_BUCKETS 1024

typedef struct {
    chat_store_t        store;    /* first: a pointer to it is one to this */
    chat_store_op_t    *answered; /* done() is due, oldest first */
    chat_store_op_t   **end;      /* of that list */
    ngx_event_t         event;
    chat_fact_t         wait;    /* wait/<worker>: 1 */
    chat_fact_t         cleared; /* cleared: 1 */
    chat_store_watch_t *watches[NGX_CHAT_WATCH_BUCKETS];
    chat_store_watch_t *walk; /* while notifying: the next one */
} ngx_chat_store_base_t;

/* Sets the base up; store.worker is set and stays. NGX_ERROR: no memory. */
ngx_int_t ngx_chat_store_base_init(ngx_chat_store_base_t *base,
                                   ngx_cycle_t           *cycle);

/* A new reply, in an arena that ends with it; NULL: no memory. */
chat_facts_t *ngx_chat_store_reply(void);

/*
 * Posts op->done(), with CHAT_ERROR for CHAT_OK if the reply is NULL or has
 * failed. Takes the reply over.
 */
void ngx_chat_store_answer(ngx_chat_store_base_t *base, chat_store_op_t *op,
                           chat_rc_e rc, chat_facts_t *reply);

/* Calls a posted done() now. 0: there is none. */
ngx_uint_t ngx_chat_store_deliver(chat_store_op_t *op);

/* Calls all posted done() now. */
void ngx_chat_store_answers(chat_store_t *store);

/* cancel() of an op with a posted done(): takes it back, frees its reply. */
void ngx_chat_store_forget(chat_store_op_t *op);

void ngx_chat_store_watch_add(ngx_chat_store_base_t *base,
                              chat_store_watch_t    *watch,
                              const chat_key_t      *key);

/* unwatch() of a store that needs no more than this. */
void ngx_chat_store_unwatch(chat_store_watch_t *watch);

/* 1 if this worker watches the key. */
ngx_uint_t ngx_chat_store_is_watched(ngx_chat_store_base_t *base,
                                     const chat_key_t      *key);

/* Notifies the watches of keys with this first word; all: of all keys. */
void ngx_chat_store_changed(ngx_chat_store_base_t *base, uint64_t prefix,
                            ngx_uint_t all);

#endif /* NGX_CHAT_STORE_H */
