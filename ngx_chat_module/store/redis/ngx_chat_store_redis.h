/*
 * ngx_chat_store_redis.h: the store in Redis: one server, Sentinels, or a
 * cluster.
 *
 * It keeps the laws of facts/chat_store.h.
 */

#ifndef NGX_CHAT_STORE_REDIS_H
#define NGX_CHAT_STORE_REDIS_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "facts/chat_store.h"
#include "store/redis/ngx_chat_redis_conf.h"

/* This worker's store, which begins to connect. NULL: no memory. */
chat_store_t *ngx_chat_store_redis_open(const ngx_chat_redis_conf_t *conf,
                                        ngx_cycle_t                 *cycle);

/* Deletes this worker's keys, if that is possible at once, and closes. */
void ngx_chat_store_redis_close(chat_store_t *store);

#endif /* NGX_CHAT_STORE_REDIS_H */
