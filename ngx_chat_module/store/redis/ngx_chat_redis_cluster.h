/*
 * ngx_chat_redis_cluster.h: commands to the servers that have their keys.
 *
 * A plain server is a cluster of one node that has all slots. In a real one a
 * node is connected to when it is first needed, slots are learned from any
 * node, and what a node declines goes to another one, or waits a little.
 * Promises: as of ngx_chat_redis_client.h, for each node of its own; while a
 * node is away, only commands for its slots are concerned. Must not know:
 * facts, scripts.
 */

#ifndef NGX_CHAT_REDIS_CLUSTER_H
#define NGX_CHAT_REDIS_CLUSTER_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "bytes/chat_slot.h"
#include "store/redis/ngx_chat_redis_client.h"

#define NGX_CHAT_REDIS_MASTERS 250
#define NGX_CHAT_REDIS_NO_NODE 255 /* has a slot */

typedef struct ngx_chat_redis_cluster_s ngx_chat_redis_cluster_t;

typedef struct {
    ngx_chat_redis_client_t   client; /* first: a client is of a node */
    ngx_chat_redis_cluster_t *cluster;
    ngx_chat_redis_address_t  place; /* of a node that was named */
    ngx_str_t                 called;
    u_char                    text[300]; /* of what it is called in logs */
    ngx_uint_t                n;         /* which one it is */
    ngx_uint_t                slots;     /* how many are its */
    ngx_uint_t                had;       /* when they were learned last */
    ngx_uint_t                is_open;
    ngx_uint_t                is_used; /* somebody else points to its place */
} ngx_chat_redis_node_t;

struct ngx_chat_redis_cluster_s {
    const ngx_chat_redis_conf_t *conf;
    ngx_log_t                   *log;
    ngx_chat_redis_node_t       *nodes[NGX_CHAT_REDIS_MASTERS];
    ngx_uint_t                   count;
    u_char                       owner[CHAT_SLOTS];
    ngx_uint_t                   seeds;      /* so many are chat_store's */
    ngx_uint_t                   is_cluster; /* it is a real one */
    ngx_uint_t                   known;      /* the slots have been learned */
    ngx_uint_t                   stale;      /* a slot has moved since */
    ngx_uint_t                   moved;      /* to one that may not have all */
    ngx_msec_t                   learned;
    ngx_chat_redis_node_t       *asked; /* for the slots; NULL: nobody is */
    ngx_msec_t                   asked_at;
    ngx_uint_t                   next;   /* of any() */
    ngx_event_t                  tick;   /* to learn the slots anew */
    ngx_uint_t                   serial; /* of the newest command */
    ngx_queue_t                  later;  /* commands to be sent again */
    size_t                       bytes;  /* of these */
    ngx_event_t                  again;

    /*
     * The owner's. greet: submits greetings; changed: a node came or went, or
     * (client is NULL) the slots were learned.
     */
    void *data;
    void (*seek)(ngx_chat_redis_client_t *client); /* of the only node */
    void (*greet)(ngx_chat_redis_client_t *client);
    void (*changed)(ngx_chat_redis_cluster_t *cluster,
                    ngx_chat_redis_client_t  *client);
};

/* ngx_chat_redis_cluster.c */

/* Starts to connect. The owner has zeroed it and set its own. NULL: memory. */
ngx_int_t ngx_chat_redis_cluster_open(ngx_chat_redis_cluster_t    *cluster,
                                      const ngx_chat_redis_conf_t *conf,
                                      ngx_log_t                   *log);

/* Drops everything; no done() is called. */
void ngx_chat_redis_cluster_close(ngx_chat_redis_cluster_t *cluster);

/* Who has a slot, as far as is known. */
ngx_chat_redis_client_t *
ngx_chat_redis_cluster_client(ngx_chat_redis_cluster_t *cluster,
                              unsigned                  slot);

/* A node that is there; if none is, any one. */
ngx_chat_redis_node_t *
ngx_chat_redis_cluster_any(ngx_chat_redis_cluster_t *cluster);

/* As ngx_chat_redis_submit(), to whoever has the command's slot. */
ngx_int_t ngx_chat_redis_cluster_submit(ngx_chat_redis_cluster_t *cluster,
                                        ngx_chat_redis_cmd_t     *cmd);

/* UP if a node is there, else how the best of them is. */
chat_store_state_e
ngx_chat_redis_cluster_state(ngx_chat_redis_cluster_t *cluster);

/* Sends at once what can be sent. */
void ngx_chat_redis_cluster_flush(ngx_chat_redis_cluster_t *cluster);

/* Between the files of the cluster: the node at a place; NULL: no room. */
ngx_chat_redis_node_t      *
ngx_chat_redis_cluster_node(ngx_chat_redis_cluster_t *cluster,
                                 const ngx_str_t *host, ngx_int_t port);
void ngx_chat_redis_cluster_connect(ngx_chat_redis_node_t *node);

/* Sends again what was declined or was another's; fails it if that fails. */
void ngx_chat_redis_cluster_resubmit(ngx_chat_redis_cluster_t *cluster,
                                     ngx_chat_redis_node_t    *node,
                                     ngx_chat_redis_cmd_t     *cmd);

/* ngx_chat_redis_slots.c: who has which slots. */

/* Asks a node that is there; greets: this one, with its greetings. */
void ngx_chat_redis_slots_query(ngx_chat_redis_cluster_t *cluster,
                                ngx_chat_redis_node_t *node, ngx_uint_t setup);

/* A slot is another node's now. */
void ngx_chat_redis_slots_move(ngx_chat_redis_cluster_t *cluster,
                               unsigned slot, ngx_chat_redis_node_t *node);

/* The handler of cluster->tick, and its ms. */
#define NGX_CHAT_REDIS_TICK 250
void ngx_chat_redis_slots_tick(ngx_event_t *ev);

/* ngx_chat_redis_redirect.c: client->declined, and what is sent again. */

ngx_uint_t ngx_chat_redis_redirected(ngx_chat_redis_client_t *client,
                                     ngx_chat_redis_cmd_t    *cmd,
                                     redisReply              *reply);

/* Sends a command after a little while; NGX_DECLINED: there is no room. */
ngx_int_t ngx_chat_redis_retry_add(ngx_chat_redis_cluster_t *cluster,
                                   ngx_chat_redis_cmd_t     *cmd);

/* The handler of cluster->again. */
void ngx_chat_redis_retry_send(ngx_event_t *ev);

#endif /* NGX_CHAT_REDIS_CLUSTER_H */
