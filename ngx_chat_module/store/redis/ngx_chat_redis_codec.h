/*
 * ngx_chat_redis_codec.h: the operations of the store as commands, and their
 * replies as facts.
 *
 * ngx_chat_store_redis.c ties the store together.
 */

#ifndef NGX_CHAT_REDIS_CODEC_H
#define NGX_CHAT_REDIS_CODEC_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/ngx_chat_store.h"
#include "store/redis/ngx_chat_redis_liveness.h"
#include "store/redis/ngx_chat_redis_notify.h"
#include "store/redis/ngx_chat_redis_sentinel.h"

#define NGX_CHAT_REDIS_SHA1 20 /* bytes */

/* The scripts. */
enum {
    NGX_CHAT_REDIS_JOIN,
    NGX_CHAT_REDIS_APPEND,
    NGX_CHAT_REDIS_READ,
    NGX_CHAT_REDIS_SCRIPTS
};

typedef struct {
    ngx_chat_store_base_t     base; /* first: the store is in it */
    ngx_chat_redis_cluster_t  cluster;
    ngx_chat_redis_sentinel_t sentinel; /* with redis+sentinel:// */
    ngx_chat_redis_liveness_t liveness;
    ngx_chat_redis_notify_t   notify;
    ngx_msec_t                unseen_since; /* by the other workers */
    ngx_uint_t                logged; /* that the cluster is unavailable */
    u_char                    worker[NGX_CHAT_REDIS_NAME];
    char sha[NGX_CHAT_REDIS_SCRIPTS][2 * NGX_CHAT_REDIS_SHA1 + 1];
} ngx_chat_store_redis_t;

/* Sets redis->sha, and the name and the operations of the store. */
void ngx_chat_redis_init_store(ngx_chat_store_redis_t *redis);

/* Submits SCRIPT LOAD of all scripts. */
void ngx_chat_redis_load_scripts(ngx_chat_redis_client_t *client,
                                 ngx_uint_t               is_setup);

#endif /* NGX_CHAT_REDIS_CODEC_H */
