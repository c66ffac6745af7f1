/*
 * ngx_chat_redis_cluster.h: commands to the servers that have their keys.
 *
 * One server is a cluster with one node that has all slots. A real cluster's
 * node is connected to when it is first needed. Slots are learned from any
 * node; a redirected command goes to another node, or waits in the retry
 * queue. An unavailable node concerns only commands for its slots.
 */

#ifndef NGX_CHAT_REDIS_CLUSTER_H
#define NGX_CHAT_REDIS_CLUSTER_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "bytes/chat_slot.h"
#include "store/redis/ngx_chat_redis_client.h"

#define NGX_CHAT_REDIS_MASTERS 250
#define NGX_CHAT_REDIS_NO_NODE 255 /* the owner of an unknown slot */

typedef struct ngx_chat_redis_cluster_s ngx_chat_redis_cluster_t;

typedef struct {
    ngx_chat_redis_client_t   client; /* first: a client is of a node */
    ngx_chat_redis_cluster_t *cluster;
    ngx_chat_redis_address_t  address;   /* unless chat_store has named it */
    ngx_str_t                 name;      /* for logs */
    u_char                    text[300]; /* of name */
    ngx_uint_t                n;         /* its index */
    ngx_uint_t                slots;     /* their number */
    ngx_uint_t                is_open;
} ngx_chat_redis_node_t;

struct ngx_chat_redis_cluster_s {
    const ngx_chat_redis_conf_t *conf;
    ngx_log_t                   *log;
    ngx_chat_redis_node_t       *nodes[NGX_CHAT_REDIS_MASTERS];
    ngx_uint_t                   count;
    u_char                       owner[CHAT_SLOTS]; /* index of a node */
    ngx_uint_t                   seeds;      /* nodes that chat_store names */
    ngx_uint_t                   is_cluster; /* a real one */
    ngx_uint_t                   known;      /* the slots have been learned */
    ngx_uint_t                   outdated;   /* a slot has moved since */
    ngx_msec_t                   learned;
    ngx_uint_t                   querying; /* for the slots */
    ngx_msec_t                   queried;  /* when it began */
    ngx_uint_t                   next;     /* node of cluster_any() */
    ngx_event_t                  tick;     /* to learn the slots anew */
    ngx_queue_t                  retry;    /* commands to be sent again */
    size_t                       retry_bytes;
    ngx_event_t                  retry_timer;

    /* The owner's. */
    void *data;

    /* A client's callbacks; locate: of the only node. */
    void (*locate)(ngx_chat_redis_client_t *client);
    void (*setup)(ngx_chat_redis_client_t *client);
    void (*changed)(ngx_chat_redis_client_t *client);
};

/* Starts to connect. The owner has zeroed it and set its part. */
ngx_int_t ngx_chat_redis_cluster_open(ngx_chat_redis_cluster_t    *cluster,
                                      const ngx_chat_redis_conf_t *conf,
                                      ngx_log_t                   *log);

/* Drops everything without any done(). */
void ngx_chat_redis_cluster_close(ngx_chat_redis_cluster_t *cluster);

/* The node that has the slot, as far as is known; never NULL. */
ngx_chat_redis_client_t *
ngx_chat_redis_cluster_client(ngx_chat_redis_cluster_t *cluster,
                              unsigned                  slot);

/* A node in the best state, each time another one. */
ngx_chat_redis_node_t *
ngx_chat_redis_cluster_any(ngx_chat_redis_cluster_t *cluster);

/* As ngx_chat_redis_submit(), to the node that has the command's slot. */
ngx_int_t ngx_chat_redis_cluster_submit(ngx_chat_redis_cluster_t *cluster,
                                        ngx_chat_redis_cmd_t     *cmd);

/* The state of the best node. */
chat_store_state_e
ngx_chat_redis_cluster_state(ngx_chat_redis_cluster_t *cluster);

/* Sends at once what can be sent. */
void ngx_chat_redis_cluster_flush(ngx_chat_redis_cluster_t *cluster);

#endif /* NGX_CHAT_REDIS_CLUSTER_H */
