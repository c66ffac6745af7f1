/*
 * ngx_chat_store_redis.h: the store in Redis: one server, Sentinels, or a
 * cluster.
 *
 * It keeps the laws of facts/chat_store.h. ngx_chat_store_redis.c ties its
 * parts together; ngx_chat_redis_codec.c has the operations of the store as
 * commands, and their replies as facts.
 */

#ifndef NGX_CHAT_STORE_REDIS_H
#define NGX_CHAT_STORE_REDIS_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/ngx_chat_store.h"
#include "store/redis/ngx_chat_redis_liveness.h"
#include "store/redis/ngx_chat_redis_sentinel.h"

#define NGX_CHAT_REDIS_SHA1 20 /* bytes */
#define NGX_CHAT_REDIS_CHANNEL "chat:wake:"

/* The scripts. */
enum {
    NGX_CHAT_REDIS_JOIN,
    NGX_CHAT_REDIS_APPEND,
    NGX_CHAT_REDIS_READ,
    NGX_CHAT_REDIS_SCRIPTS
};

/*
 * The subscription to this worker's channel, on a connection of its own to any
 * node: a cluster sends to all its nodes what is published. What is published
 * while there is no subscription is lost: with each new one, and every 15 s,
 * all keys count as changed.
 */
typedef struct {
    ngx_chat_redis_conn_t  conn;
    ngx_chat_redis_node_t *node; /* of the connection */
    ngx_uint_t             pings;
    ngx_uint_t             logged; /* that there is no subscription */
} ngx_chat_redis_notify_t;

typedef struct {
    ngx_chat_store_base_t     base; /* first: the store is in it */
    ngx_chat_redis_cluster_t  cluster;
    ngx_chat_redis_sentinel_t sentinel; /* with redis+sentinel:// */
    ngx_chat_redis_liveness_t liveness;
    ngx_chat_redis_notify_t   notify;
    ngx_msec_t                unseen_since; /* by the other workers */
    ngx_uint_t                stale;  /* a server may lack the last writes */
    ngx_uint_t                logged; /* that the cluster is unavailable */
    u_char                    worker[NGX_CHAT_REDIS_NAME];
    char sha[NGX_CHAT_REDIS_SCRIPTS][2 * NGX_CHAT_REDIS_SHA1 + 1];
} ngx_chat_store_redis_t;

/* This worker's store, which begins to connect. NULL: no memory. */
chat_store_t *ngx_chat_store_redis_open(const ngx_chat_redis_conf_t *conf,
                                        ngx_cycle_t                 *cycle);

/* Deletes this worker's keys, if that is possible at once, and closes. */
void ngx_chat_store_redis_close(chat_store_t *store);

/* ngx_chat_redis_codec.c */

/* Sets redis->sha, and the name and the operations of the store. */
void ngx_chat_redis_init_store(ngx_chat_store_redis_t *redis);

/* Submits SCRIPT LOAD of all scripts. */
void ngx_chat_redis_load_scripts(ngx_chat_redis_client_t *client);

#endif /* NGX_CHAT_STORE_REDIS_H */
