/*
 * ngx_chat_store_redis.h: chat_store.h over a Redis server.
 *
 * Must not know: what facts mean.
 */

#ifndef NGX_CHAT_STORE_REDIS_H
#define NGX_CHAT_STORE_REDIS_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "facts/chat_store.h"
#include "store/redis/ngx_chat_redis.h"

/* This worker's store; begins to connect. NULL: no memory. */
chat_store_t *ngx_chat_store_redis_open(const ngx_chat_redis_conf_t *conf,
                                        ngx_cycle_t                 *cycle);

/* The worker ends: says so to the others, as far as that is quickly said. */
void ngx_chat_store_redis_close(chat_store_t *store);

#endif /* NGX_CHAT_STORE_REDIS_H */
