/*
 * ngx_chat_redis_notify.h: notifications of other workers to this one.
 *
 * A connection of its own, to any node, is subscribed to the worker's channel:
 * a cluster sends to all its nodes what is published. What is published while
 * there is no subscription is lost: with each new one, and every 15 s, all
 * keys count as changed.
 */

#ifndef NGX_CHAT_REDIS_NOTIFY_H
#define NGX_CHAT_REDIS_NOTIFY_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/redis/ngx_chat_redis_cluster.h"

#define NGX_CHAT_REDIS_CHANNEL "chat:wake:"

typedef struct ngx_chat_redis_notify_s ngx_chat_redis_notify_t;

struct ngx_chat_redis_notify_s {
    ngx_chat_redis_conn_t     conn;
    ngx_chat_redis_cluster_t *cluster;
    ngx_chat_redis_node_t    *node; /* of the connection */
    chat_str_t                worker;
    ngx_event_t               retry;
    ngx_msec_t                backoff;
    ngx_msec_t                polled; /* when all keys counted as changed */
    ngx_uint_t                logged; /* that there is no subscription */

    /* The owner's. prefix: of a key, as 16 hex digits; empty: all keys. */
    void *data;
    void (*changed)(ngx_chat_redis_notify_t *notify, chat_str_t prefix);
};

/*
 * Starts to connect, unless the server's address is unknown as yet. The owner
 * has zeroed it and set its part.
 */
void ngx_chat_redis_notify_open(ngx_chat_redis_notify_t  *notify,
                                ngx_chat_redis_cluster_t *cluster,
                                chat_str_t                worker);

/* The server has another address, or its first. */
void ngx_chat_redis_notify_move(ngx_chat_redis_notify_t *notify);

#endif /* NGX_CHAT_REDIS_NOTIFY_H */
