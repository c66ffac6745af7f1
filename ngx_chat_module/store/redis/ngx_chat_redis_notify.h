/*
 * ngx_chat_redis_notify.h: hears what other workers have to say to this one.
 *
 * A connection of its own, to any node, subscribed to the worker's own
 * channel: a cluster tells all its nodes what is published. What is
 * said while it is not there is lost, so each new subscription counts as
 * news of everything, and so does the passing of 15 s. Must not know: facts.
 */

#ifndef NGX_CHAT_REDIS_NOTIFY_H
#define NGX_CHAT_REDIS_NOTIFY_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "store/redis/ngx_chat_redis_cluster.h"

#define NGX_CHAT_REDIS_CHANNEL "chat:wake:"

typedef struct ngx_chat_redis_notify_s ngx_chat_redis_notify_t;

struct ngx_chat_redis_notify_s {
    ngx_chat_redis_conn_t     conn;
    ngx_chat_redis_cluster_t *cluster;
    ngx_chat_redis_node_t    *node; /* to which it is connected */
    chat_str_t                worker;
    ngx_event_t               retry;
    ngx_event_t               ping;
    ngx_msec_t                backoff;
    ngx_msec_t                polled;
    ngx_uint_t                silent; /* no reply since the last ping */
    ngx_uint_t                told;   /* the log was told that it is lost */

    /* The owner's: prefix as 16 hex digits; NULL: look at everything. */
    void *data;
    void (*news)(ngx_chat_redis_notify_t *wake, const char *prefix);
};

/*
 * Starts to connect, unless it is not known yet where to: then move() does.
 * The owner has zeroed it and set its own.
 */
void ngx_chat_redis_notify_open(ngx_chat_redis_notify_t  *wake,
                                ngx_chat_redis_cluster_t *cluster,
                                chat_str_t                worker);

/* The server is there now. */
void ngx_chat_redis_notify_move(ngx_chat_redis_notify_t *wake);
void ngx_chat_redis_notify_close(ngx_chat_redis_notify_t *wake);

#endif /* NGX_CHAT_REDIS_NOTIFY_H */
