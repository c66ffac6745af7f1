/*
 * ngx_chat_store.h: what both stores share: answers that wait for their turn
 * in the event loop, and the watches of this worker.
 *
 * Must not know: how a store stores.
 */

#ifndef NGX_CHAT_STORE_H
#define NGX_CHAT_STORE_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "facts/chat_store.h"

#define NGX_CHAT_WATCH_BUCKETS 1024

typedef struct {
    chat_store_op_t    *answered; /* done() is due, oldest first */
    chat_store_op_t    *newest;
    ngx_event_t         event;
    chat_store_watch_t *watches[NGX_CHAT_WATCH_BUCKETS];
    chat_store_watch_t *walk; /* while notifying: the next one */
} ngx_chat_store_base_t;

/* An answer on its way: facts in the arena, which it owns. */
typedef struct {
    chat_rc_e     rc;
    chat_fact_t  *facts;
    size_t        count;
    chat_arena_t *arena;
} ngx_chat_answered_t;

void ngx_chat_store_base_init(ngx_chat_store_base_t *base, ngx_log_t *log);

/*
 * Lets op->done() fire from the event loop with this answer; takes the arena.
 * answered NULL: no memory, done() is told CHAT_ERROR.
 */
void ngx_chat_store_answer(ngx_chat_store_base_t *base, chat_store_t *store,
                           chat_store_op_t *op, ngx_chat_answered_t *answered);

/* The same without facts: done() is told rc, which is not CHAT_OK. */
void ngx_chat_store_refuse(ngx_chat_store_base_t *base, chat_store_t *store,
                           chat_store_op_t *op, chat_rc_e rc);

/* Takes an op that waits in base out of it. */
void ngx_chat_store_forget(ngx_chat_store_base_t *base, chat_store_op_t *op);

void ngx_chat_store_watch_add(ngx_chat_store_base_t *base, chat_store_t *store,
                              chat_store_watch_t *watch,
                              const chat_key_t   *key);
void ngx_chat_store_watch_remove(ngx_chat_store_base_t *base,
                                 chat_store_watch_t    *watch);

/* Notifies the watches of keys that begin so; all: every watch. */
void ngx_chat_store_changed(ngx_chat_store_base_t *base, uint64_t prefix,
                            ngx_uint_t all);

/* The first 8 bytes of the key's name. */
uint64_t ngx_chat_store_prefix(const chat_key_t *key);

#endif /* NGX_CHAT_STORE_H */
