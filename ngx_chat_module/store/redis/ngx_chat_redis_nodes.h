/*
 * ngx_chat_redis_nodes.h: nodes that tell one another how they are.
 *
 * Each node keeps a text under a key of its own that lasts 10 s, and its name
 * in one hash that all of them read. Promises: nothing waits for it, and it
 * is not asked while the server is away or the last answer is due.
 * Must not know: what the texts say.
 */

#ifndef NGX_CHAT_REDIS_NODES_H
#define NGX_CHAT_REDIS_NODES_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "facts/chat_store.h"

#define NGX_CHAT_REDIS_NODES 63 /* others, at most */

/* The owner sets the first four and zeroes the rest. */
typedef struct {
    chat_store_t *store; /* one in Redis */
    chat_str_t    name;  /* of this node */
    void         *data;

    /* What the others have told last; valid in the call only. */
    void (*heard)(void *data, const chat_str_t *texts, size_t n);

    ngx_uint_t busy; /* an answer is due */
} ngx_chat_redis_nodes_t;

/* Tells the others, and asks what they have to tell. */
void ngx_chat_redis_nodes_tell(ngx_chat_redis_nodes_t *nodes, chat_str_t text);

#endif /* NGX_CHAT_REDIS_NODES_H */
