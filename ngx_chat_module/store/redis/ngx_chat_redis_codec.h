/*
 * ngx_chat_redis_codec.h: the operations of the store as commands, and their
 * replies as facts.
 *
 * ngx_chat_redis_codec.c makes commands and reads replies,
 * ngx_chat_redis_script.c has the Lua scripts, ngx_chat_store_redis.c ties the
 * store together.
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
    u_char                    worker[NGX_CHAT_REDIS_NAME];
    char sha[NGX_CHAT_REDIS_SCRIPTS][2 * NGX_CHAT_REDIS_SHA1 + 1];
} ngx_chat_store_redis_t;

/* Sets redis->sha. */
void ngx_chat_redis_hash_scripts(ngx_chat_store_redis_t *redis);

/* Submits SCRIPT LOAD of all scripts. */
void ngx_chat_redis_load_scripts(ngx_chat_redis_client_t *client,
                                 ngx_uint_t               is_setup);

/* A command that runs a script, without arguments; NULL: no memory. */
ngx_chat_redis_cmd_t *ngx_chat_redis_call(ngx_chat_store_redis_t *redis,
                                          ngx_uint_t              script);

/*
 * 1: the server has lost the script; command and reply are taken, and the
 * command is sent again behind SCRIPT LOAD. Once for a command.
 */
ngx_uint_t ngx_chat_redis_reload(ngx_chat_redis_cmd_t *cmd, redisReply *reply);

/* The server that has the key. */
ngx_chat_redis_client_t *
ngx_chat_redis_client_of(ngx_chat_store_redis_t *redis, const chat_key_t *key);

/* chat_store_t's operations; wait: one more fact, or NULL. */
void ngx_chat_redis_join(ngx_chat_store_redis_t *redis, chat_store_op_t *op,
                         const chat_key_t *key, const chat_fact_t *facts,
                         size_t n, uint32_t ttl, const chat_fact_t *wait);
void ngx_chat_redis_clear(chat_store_t *store, const chat_key_t *key,
                          uint32_t ttl);
void ngx_chat_redis_drop(chat_store_t *store, const chat_key_t *key,
                         const chat_str_t *fields, size_t n);
void ngx_chat_redis_payloads(chat_store_t *store, chat_store_op_t *op,
                             const chat_key_t *key, const chat_str_t *fields,
                             size_t n);
void ngx_chat_redis_append(chat_store_t *store, const chat_key_t *key,
                           uint64_t position, chat_str_t bytes, int last,
                           uint64_t keep, uint32_t ttl);
void ngx_chat_redis_read(chat_store_t *store, chat_store_op_t *op,
                         const chat_key_t *key, uint64_t position);

#endif /* NGX_CHAT_REDIS_CODEC_H */
