/*
 * ngx_chat_redis_cluster.c: see ngx_chat_redis_cluster.h.
 *
 * The nodes, and which of them gets a command. A node that is named is kept
 * for good, closed when it has no slots; one that is closed makes room when
 * there is none left. Must not know: facts, how slots are learned.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "store/redis/ngx_chat_redis_cluster.h"

#define NGX_CHAT_REDIS_PATIENCE 1000 /* ms; a node is given up before */


static void
ngx_chat_redis_cluster_greet(ngx_chat_redis_client_t *client)
{
    ngx_chat_redis_node_t    *node = (ngx_chat_redis_node_t *) client;
    ngx_chat_redis_cluster_t *cluster = node->cluster;

    cluster->greet(client);

    if (cluster->many) {
        ngx_chat_redis_slots_ask(cluster, node, 1);
    }
}


static void
ngx_chat_redis_cluster_changed(ngx_chat_redis_client_t *client)
{
    ngx_chat_redis_cluster_t *cluster =
        ((ngx_chat_redis_node_t *) client)->cluster;

    cluster->changed(cluster, client);
}


static ngx_chat_redis_node_t *
ngx_chat_redis_cluster_find(ngx_chat_redis_cluster_t *cluster,
                            const ngx_str_t *host, ngx_int_t port)
{
    ngx_uint_t i;

    for (i = 0; i < cluster->count; i++) {
        if (ngx_chat_redis_host_is(cluster->nodes[i]->client.conn.host, host,
                                   port)) {
            return cluster->nodes[i];
        }
    }

    return NULL;
}


/* A node without a place. */
static ngx_chat_redis_node_t *
ngx_chat_redis_cluster_room(ngx_chat_redis_cluster_t *cluster)
{
    ngx_uint_t             i;
    ngx_chat_redis_node_t *node;

    if (cluster->count == NGX_CHAT_REDIS_MASTERS) {
        for (i = cluster->seeds; i < cluster->count; i++) {
            node = cluster->nodes[i];
            if (!node->is_open && !node->is_used && node->slots == 0) {
                return node;
            }
        }

        return NULL;
    }

    node = ngx_pcalloc(ngx_cycle->pool, sizeof(ngx_chat_redis_node_t));
    if (node == NULL) {
        return NULL;
    }

    node->cluster = cluster;
    node->n = cluster->count;
    node->client.data = cluster->data;
    node->client.seek = cluster->seek;
    node->client.greet = ngx_chat_redis_cluster_greet;
    node->client.changed = ngx_chat_redis_cluster_changed;

    if (cluster->many) {
        node->client.declined = ngx_chat_redis_declined;
        node->client.patience = NGX_CHAT_REDIS_PATIENCE;
    }

    cluster->nodes[cluster->count++] = node;
    return node;
}


static void
ngx_chat_redis_cluster_place(ngx_chat_redis_node_t       *node,
                             const ngx_chat_redis_host_t *host)
{
    node->client.conn.host = host;
    node->client.name = &node->called;
    node->called.data = node->text;
    node->called.len =
        ngx_slprintf(node->text, node->text + sizeof(node->text), "node %V",
                     &host->name)
        - node->text;
}


ngx_chat_redis_node_t *
ngx_chat_redis_cluster_node(ngx_chat_redis_cluster_t *cluster,
                            const ngx_str_t *host, ngx_int_t port)
{
    ngx_chat_redis_node_t *node;
    ngx_chat_redis_place_t place;

    node = ngx_chat_redis_cluster_find(cluster, host, port);

    if (node != NULL || ngx_chat_redis_place_set(&place, host, port) != NGX_OK)
    {
        return node;
    }

    node = ngx_chat_redis_cluster_room(cluster);

    if (node != NULL) {
        /* it points into itself */
        (void) ngx_chat_redis_place_set(&node->place, host, port);
        ngx_chat_redis_cluster_place(node, &node->place.host);
    }

    return node;
}


void
ngx_chat_redis_cluster_need(ngx_chat_redis_node_t *node)
{
    ngx_chat_redis_cluster_t *cluster = node->cluster;

    if (!node->is_open) {
        node->is_open = 1;
        ngx_chat_redis_client_open(&node->client, cluster->conf, cluster->log);
    }
}


ngx_chat_redis_node_t *
ngx_chat_redis_cluster_any(ngx_chat_redis_cluster_t *cluster)
{
    ngx_uint_t             i, first = cluster->next++;
    ngx_chat_redis_node_t *node, *open = NULL;

    for (i = 0; i < cluster->count; i++) {
        node = cluster->nodes[(first + i) % cluster->count];

        if (!node->is_open || (cluster->known && node->slots == 0)) {
            continue;
        }

        if (node->client.state == CHAT_STORE_UP) {
            return node;
        }

        open = node;
    }

    return open ? open : cluster->nodes[0];
}


ngx_chat_redis_client_t *
ngx_chat_redis_cluster_client(ngx_chat_redis_cluster_t *cluster, unsigned slot)
{
    ngx_chat_redis_node_t *node;

    node = cluster->owner[slot] == NGX_CHAT_REDIS_NOBODY
               ? ngx_chat_redis_cluster_any(cluster)
               : cluster->nodes[cluster->owner[slot]];

    ngx_chat_redis_cluster_need(node);
    return &node->client;
}


ngx_int_t
ngx_chat_redis_cluster_submit(ngx_chat_redis_cluster_t *cluster,
                              ngx_chat_redis_cmd_t     *cmd)
{
    cmd->serial = ++cluster->serial;

    /* one of its slot waits to be sent again, and so must this one */
    if (ngx_chat_redis_has_slot(&cluster->later, cmd->slot)) {
        return ngx_chat_redis_later_add(cluster, cmd);
    }

    return ngx_chat_redis_submit(
        ngx_chat_redis_cluster_client(cluster, cmd->slot), cmd);
}


void
ngx_chat_redis_cluster_resubmit(ngx_chat_redis_cluster_t *cluster,
                                ngx_chat_redis_node_t    *node,
                                ngx_chat_redis_cmd_t     *cmd)
{
    ngx_chat_redis_client_t *client;

    client = node ? &node->client
                  : ngx_chat_redis_cluster_client(cluster, cmd->slot);
    cmd->tries++;

    if (ngx_chat_redis_submit(client, cmd) != NGX_OK) {
        cmd->done(cmd, NULL);
    }
}


chat_store_state_e
ngx_chat_redis_cluster_state(ngx_chat_redis_cluster_t *cluster)
{
    ngx_uint_t             i;
    chat_store_state_e     best = CHAT_STORE_AWAY;
    ngx_chat_redis_node_t *node;

    for (i = 0; i < cluster->count; i++) {
        node = cluster->nodes[i];

        if (node->is_open && (node->slots != 0 || !cluster->known)) {
            best = ngx_min(best, node->client.state);
        }
    }

    return best;
}


void
ngx_chat_redis_cluster_flush(ngx_chat_redis_cluster_t *cluster)
{
    ngx_uint_t               i;
    ngx_chat_redis_client_t *client;

    for (i = 0; i < cluster->count; i++) {
        client = &cluster->nodes[i]->client;

        if (cluster->nodes[i]->is_open && client->state == CHAT_STORE_UP) {
            ngx_chat_redis_flush(&client->flush);
            ngx_chat_redis_conn_flush(&client->conn);
        }
    }
}


static void
ngx_chat_redis_cluster_event(ngx_chat_redis_cluster_t *cluster,
                             ngx_event_t *ev, void (*handler)(ngx_event_t *ev))
{
    ev->handler = handler;
    ev->data = cluster;
    ev->log = cluster->log;
}


ngx_int_t
ngx_chat_redis_cluster_open(ngx_chat_redis_cluster_t    *cluster,
                            const ngx_chat_redis_conf_t *conf, ngx_log_t *log)
{
    ngx_uint_t             i, n;
    ngx_chat_redis_node_t *node;

    cluster->conf = conf;
    cluster->log = log;
    cluster->many = conf->scheme == NGX_CHAT_REDIS_CLUSTER;
    ngx_queue_init(&cluster->later);
    ngx_chat_redis_cluster_event(cluster, &cluster->tick,
                                 ngx_chat_redis_slots_tick);
    ngx_chat_redis_cluster_event(cluster, &cluster->again,
                                 ngx_chat_redis_later_send);

    n = cluster->many ? ngx_min(conf->nhosts, NGX_CHAT_REDIS_MASTERS / 2) : 1;
    cluster->seeds = n;

    for (i = 0; i < n; i++) {
        node = ngx_chat_redis_cluster_room(cluster);
        if (node == NULL) {
            return NGX_ERROR;
        }

        if (cluster->many) {
            ngx_chat_redis_cluster_place(node, &conf->hosts[i]);
        }
    }

    if (!cluster->many) {
        cluster->known = 1; /* all slots are of node 0 */
        cluster->nodes[0]->slots = CHAT_SLOTS;

    } else {
        ngx_memset(cluster->owner, NGX_CHAT_REDIS_NOBODY, CHAT_SLOTS);
        ngx_chat_redis_timer(&cluster->tick, NGX_CHAT_REDIS_TICK);
    }

    for (i = 0; i < n; i++) {
        ngx_chat_redis_cluster_need(cluster->nodes[i]);
    }

    return NGX_OK;
}


void
ngx_chat_redis_cluster_close(ngx_chat_redis_cluster_t *cluster)
{
    ngx_uint_t            i;
    ngx_chat_redis_cmd_t *cmd;

    for (i = 0; i < cluster->count; i++) {
        if (cluster->nodes[i]->is_open) {
            ngx_chat_redis_client_close(&cluster->nodes[i]->client);
        }
    }

    while ((cmd = ngx_chat_redis_take(&cluster->later)) != NULL) {
        ngx_chat_redis_cmd_free(cmd);
    }
}
