/*
 * ngx_chat_redis_cluster.c: see ngx_chat_redis_cluster.h.
 *
 * The nodes, the slots that each of them has, and the node that gets a
 * command. CLUSTER SLOTS is sent with each connection, while a node is
 * unavailable, after a slot has moved, and every 10 s.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "store/redis/ngx_chat_redis_cluster.h"

#define NGX_CHAT_REDIS_PATIENCE 1000 /* ms; a node is given up before */


static void
setup_node(ngx_chat_redis_client_t *client)
{
    ngx_chat_redis_node_t    *node = (ngx_chat_redis_node_t *) client;
    ngx_chat_redis_cluster_t *cluster = node->cluster;

    cluster->greet(client);

    if (cluster->is_cluster) {
        ngx_chat_redis_slots_query(cluster, node, 1);
    }
}


static void
on_changed(ngx_chat_redis_client_t *client)
{
    ngx_chat_redis_cluster_t *cluster =
        ((ngx_chat_redis_node_t *) client)->cluster;

    cluster->changed(cluster, client);
}


static ngx_chat_redis_node_t *
find_node(ngx_chat_redis_cluster_t *cluster, const ngx_str_t *host,
          ngx_int_t port)
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
new_node(ngx_chat_redis_cluster_t *cluster)
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
    node->client.greet = setup_node;
    node->client.changed = on_changed;

    if (cluster->is_cluster) {
        node->client.declined = ngx_chat_redis_redirected;
        node->client.patience = NGX_CHAT_REDIS_PATIENCE;
    }

    cluster->nodes[cluster->count++] = node;
    return node;
}


static void
name_node(ngx_chat_redis_node_t *node, const ngx_chat_redis_host_t *host)
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
    ngx_chat_redis_node_t   *node;
    ngx_chat_redis_address_t place;

    node = find_node(cluster, host, port);

    if (node != NULL
        || ngx_chat_redis_address_set(&place, host, port) != NGX_OK) {
        return node;
    }

    node = new_node(cluster);

    if (node != NULL) {
        /* it points into itself */
        (void) ngx_chat_redis_address_set(&node->place, host, port);
        name_node(node, &node->place.host);
    }

    return node;
}


void
ngx_chat_redis_cluster_connect(ngx_chat_redis_node_t *node)
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

    node = cluster->owner[slot] == NGX_CHAT_REDIS_NO_NODE
               ? ngx_chat_redis_cluster_any(cluster)
               : cluster->nodes[cluster->owner[slot]];

    ngx_chat_redis_cluster_connect(node);
    return &node->client;
}


ngx_int_t
ngx_chat_redis_cluster_submit(ngx_chat_redis_cluster_t *cluster,
                              ngx_chat_redis_cmd_t     *cmd)
{
    cmd->serial = ++cluster->serial;

    /* one of its slot waits to be sent again, and so must this one */
    if (ngx_chat_redis_has_slot(&cluster->later, cmd->slot)) {
        return ngx_chat_redis_retry_add(cluster, cmd);
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
    chat_store_state_e     best = CHAT_STORE_UNAVAILABLE;
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
init_event(ngx_chat_redis_cluster_t *cluster, ngx_event_t *ev,
           void (*handler)(ngx_event_t *ev))
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
    cluster->is_cluster = conf->scheme == NGX_CHAT_REDIS_CLUSTER;
    ngx_queue_init(&cluster->later);
    init_event(cluster, &cluster->tick, ngx_chat_redis_slots_tick);
    init_event(cluster, &cluster->again, ngx_chat_redis_retry_send);

    n = cluster->is_cluster ? ngx_min(conf->nhosts, NGX_CHAT_REDIS_MASTERS / 2)
                            : 1;
    cluster->seeds = n;

    for (i = 0; i < n; i++) {
        node = new_node(cluster);
        if (node == NULL) {
            return NGX_ERROR;
        }

        if (cluster->is_cluster) {
            name_node(node, &conf->hosts[i]);
        }
    }

    if (!cluster->is_cluster) {
        cluster->known = 1; /* all slots are of node 0 */
        cluster->nodes[0]->slots = CHAT_SLOTS;

    } else {
        ngx_memset(cluster->owner, NGX_CHAT_REDIS_NO_NODE, CHAT_SLOTS);
        ngx_chat_redis_timer(&cluster->tick, NGX_CHAT_REDIS_TICK);
    }

    for (i = 0; i < n; i++) {
        ngx_chat_redis_cluster_connect(cluster->nodes[i]);
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


#define NGX_CHAT_REDIS_ASKED 1000 /* ms; an answer is due after so long */
#define NGX_CHAT_REDIS_LOOK_AGAIN 10000 /* nothing seems to have changed */


void
ngx_chat_redis_slots_move(ngx_chat_redis_cluster_t *cluster, unsigned slot,
                          ngx_chat_redis_node_t *node)
{
    u_char was = cluster->owner[slot];

    if (was == node->n) {
        return;
    }

    if (was != NGX_CHAT_REDIS_NO_NODE) {
        cluster->nodes[was]->slots--;
    }

    cluster->owner[slot] = (u_char) node->n;
    node->slots++;
}


/* The first address that is not the name which the endpoint has; or none. */
static ngx_str_t
endpoint_ip(const redisReply *place)
{
    size_t      i;
    ngx_str_t   ip = ngx_null_string;
    redisReply *more;

    more = place->elements > 3 ? place->element[3] : NULL;
    if (more == NULL || more->type != REDIS_REPLY_ARRAY) {
        return ip;
    }

    for (i = 0; i + 1 < more->elements; i += 2) {
        if (more->element[i]->type == REDIS_REPLY_STRING
            && more->element[i + 1]->type == REDIS_REPLY_STRING
            && ngx_strcmp(more->element[i]->str, "ip") == 0)
        {
            ip.data = (u_char *) more->element[i + 1]->str;
            ip.len = (size_t) more->element[i + 1]->len;
        }
    }

    return ip;
}


/* The node that the reply names; from: who has said so. NULL: none. */
static ngx_chat_redis_node_t *
endpoint_node(ngx_chat_redis_node_t *from, const redisReply *place)
{
    ngx_str_t              host = ngx_null_string, ip;
    ngx_chat_redis_node_t *node;

    if (place->type != REDIS_REPLY_ARRAY || place->elements < 2
        || place->element[1]->type != REDIS_REPLY_INTEGER)
    {
        return NULL;
    }

    if (place->element[0]->type == REDIS_REPLY_STRING) {
        host.data = (u_char *) place->element[0]->str;
        host.len = (size_t) place->element[0]->len;
    }

    ip = endpoint_ip(place);

    /* it is to have a name, and has none yet */
    if (host.len == 1 && host.data[0] == '?') {
        host = ip;
    }

    /* it does not know its own address: it is where it was asked */
    if (host.len == 0) {
        host = from->client.conn.host->host;
    }

    node = ngx_chat_redis_cluster_node(from->cluster, &host,
                                       (ngx_int_t) place->element[1]->integer);

    /* a name that nobody here can look up */
    if (node != NULL && ip.len != 0 && from->cluster->conf->resolver == NULL
        && node->client.conn.host == &node->place.host
        && node->place.host.naddrs == 0)
    {
        ngx_chat_redis_address_set_ip(&node->place, &ip);
    }

    return node;
}


/* One range of slots; whose they are. */
static void
read_range(ngx_chat_redis_node_t *from, const redisReply *range)
{
    long long              i;
    ngx_chat_redis_node_t *node;

    if (range->type != REDIS_REPLY_ARRAY || range->elements < 3
        || range->element[0]->type != REDIS_REPLY_INTEGER
        || range->element[1]->type != REDIS_REPLY_INTEGER
        || range->element[0]->integer < 0
        || range->element[1]->integer >= CHAT_SLOTS)
    {
        return;
    }

    node = endpoint_node(from, range->element[2]);
    if (node == NULL) {
        return;
    }

    for (i = range->element[0]->integer; i <= range->element[1]->integer; i++)
    {
        ngx_chat_redis_slots_move(from->cluster, (unsigned) i, node);
    }
}


/* Takes out of the node's queue what others are to be asked. */
static void
move_unsent(ngx_chat_redis_node_t *node)
{
    ngx_queue_t               moved, *q, *next;
    ngx_chat_redis_cmd_t     *cmd;
    ngx_chat_redis_client_t  *client = &node->client;
    ngx_chat_redis_cluster_t *cluster = node->cluster;

    ngx_queue_init(&moved);

    for (q = ngx_queue_head(&client->cmds);
         q != ngx_queue_sentinel(&client->cmds); q = next)
    {
        next = ngx_queue_next(q);
        cmd = ngx_queue_data(q, ngx_chat_redis_cmd_t, queue);

        if (cmd->keyed && !cmd->sent && cluster->owner[cmd->slot] != node->n
            && !(cmd->asks && client->state == CHAT_STORE_UP))
        {
            ngx_chat_redis_remove(client, cmd);
            ngx_queue_insert_tail(&moved, q);
        }
    }

    while ((cmd = ngx_chat_redis_take(&moved)) != NULL) {
        cmd->asks = 0;
        ngx_chat_redis_cluster_resubmit(cluster, NULL, cmd);
    }
}


/* 1 if nothing is left to be said to the node but what is about the slots. */
static ngx_uint_t
is_idle(ngx_chat_redis_node_t *node)
{
    ngx_queue_t          *q;
    ngx_chat_redis_cmd_t *cmd;

    for (q = ngx_queue_head(&node->client.cmds);
         q != ngx_queue_sentinel(&node->client.cmds); q = ngx_queue_next(q))
    {
        cmd = ngx_queue_data(q, ngx_chat_redis_cmd_t, queue);
        if (cmd->keyed) {
            return 0;
        }
    }

    return 1;
}


/* Another one has taken its place, which may lack what came last. */
static void
on_succeeded(ngx_chat_redis_node_t *node)
{
    ngx_chat_redis_conn_close(&node->client.conn);
    ngx_chat_redis_unsend(&node->client);
    ngx_chat_redis_replay(&node->client);
    node->cluster->moved = 1;
}


/* The slots are known anew: what waits goes where it belongs. */
static void
move_commands(ngx_chat_redis_cluster_t *cluster)
{
    ngx_uint_t             i;
    ngx_chat_redis_node_t *node;

    for (i = 0; i < cluster->count; i++) {
        node = cluster->nodes[i];

        if (!node->is_open) {
            continue;
        }

        if (node->slots == 0 && node->had != 0
            && node->client.state != CHAT_STORE_UP) {
            on_succeeded(node);
        }

        node->had = node->slots;
        move_unsent(node);

        if (node->slots == 0 && is_idle(node)) {
            node->is_open = 0;
            ngx_chat_redis_client_close(&node->client);
        }
    }
}


static void
on_slots(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    size_t                    i;
    ngx_chat_redis_node_t    *node = cmd->data;
    ngx_chat_redis_cluster_t *cluster = node->cluster;

    if (cluster->asked == node) {
        cluster->asked = NULL;
    }

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0) {
        ngx_chat_redis_log_error(&node->client, reply);
        ngx_chat_redis_ignore(cmd, reply);
        return;
    }

    for (i = 0; i < cluster->count; i++) {
        cluster->nodes[i]->slots = 0;
    }

    ngx_memset(cluster->owner, NGX_CHAT_REDIS_NO_NODE, CHAT_SLOTS);

    for (i = 0; i < reply->elements; i++) {
        read_range(node, reply->element[i]);
    }

    ngx_chat_redis_ignore(cmd, reply);

    cluster->known = 1;
    cluster->stale = 0;
    cluster->learned = ngx_current_msec;
    move_commands(cluster);
    cluster->changed(cluster, NULL);
}


void
ngx_chat_redis_slots_query(ngx_chat_redis_cluster_t *cluster,
                           ngx_chat_redis_node_t *node, ngx_uint_t setup)
{
    ngx_chat_redis_cmd_t *cmd = ngx_chat_redis_cmd_create();

    if (cmd == NULL) {
        return;
    }

    ngx_chat_redis_cmd_puts(cmd, "CLUSTER");
    ngx_chat_redis_cmd_puts(cmd, "SLOTS");
    cmd->done = on_slots;
    cmd->data = node;
    cmd->setup = setup & 1;

    if (ngx_chat_redis_submit(&node->client, cmd) != NGX_OK) {
        ngx_chat_redis_cmd_free(cmd);
        return;
    }

    cluster->asked = node;
    cluster->asked_at = ngx_current_msec;
}


/* 1 if what is known may not be so any more. */
static ngx_uint_t
is_outdated(ngx_chat_redis_cluster_t *cluster)
{
    ngx_uint_t             i;
    ngx_chat_redis_node_t *node;

    if (!cluster->known || cluster->stale
        || ngx_current_msec - cluster->learned > NGX_CHAT_REDIS_LOOK_AGAIN)
    {
        return 1;
    }

    for (i = 0; i < cluster->count; i++) {
        node = cluster->nodes[i];
        if (node->is_open && node->client.state != CHAT_STORE_UP) {
            return 1;
        }
    }

    return 0;
}


void
ngx_chat_redis_slots_tick(ngx_event_t *ev)
{
    ngx_uint_t                i;
    ngx_chat_redis_node_t    *node;
    ngx_chat_redis_cluster_t *cluster = ev->data;

    ngx_chat_redis_timer(ev, ngx_chat_redis_jitter(NGX_CHAT_REDIS_TICK));

    if (ngx_chat_redis_cluster_state(cluster) == CHAT_STORE_UNAVAILABLE
        && (!cluster->known
            || ngx_current_msec - cluster->learned > NGX_CHAT_REDIS_ASKED))
    {
        for (i = 0; i < cluster->seeds; i++) {
            ngx_chat_redis_cluster_connect(cluster->nodes[i]);
        }
    }

    if (!is_outdated(cluster)
        || (cluster->asked != NULL
            && ngx_current_msec - cluster->asked_at < NGX_CHAT_REDIS_ASKED))
    {
        return;
    }

    node = ngx_chat_redis_cluster_any(cluster);
    if (node->client.state == CHAT_STORE_UP) {
        ngx_chat_redis_slots_query(cluster, node, 0);
    }
}
