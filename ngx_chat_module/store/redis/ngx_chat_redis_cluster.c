/*
 * ngx_chat_redis_cluster.c: the nodes, their slots, and the node that gets a
 * command.
 *
 * CLUSTER SLOTS is sent at the setup of each connection, while a node is not
 * up, after a slot has moved, and every 10 s. Unsent commands follow their
 * slot. A node without slots is closed, and makes room when there is none
 * left. While no node is up, the nodes that chat_store names are tried again:
 * all others may have new addresses.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "store/redis/ngx_chat_redis_cluster.h"

#define NGX_CHAT_REDIS_PATIENCE 1000 /* ms; longer than until UNAVAILABLE */
#define NGX_CHAT_REDIS_TICK 250
#define NGX_CHAT_REDIS_SLOTS_REPLY 1000 /* due after so long */
#define NGX_CHAT_REDIS_SLOTS_AGE 10000

static void query_slots(ngx_chat_redis_node_t *node, ngx_uint_t is_setup);


static void
setup_node(ngx_chat_redis_client_t *client)
{
    ngx_chat_redis_node_t *node = (ngx_chat_redis_node_t *) client;

    node->cluster->setup(client);

    if (node->cluster->is_cluster) {
        query_slots(node, 1);
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


/* A node without an address; NULL: no room. */
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
    node->client.locate = cluster->locate;
    node->client.setup = setup_node;
    node->client.changed = on_changed;

    if (cluster->is_cluster) {
        node->client.redirect = ngx_chat_redis_redirect;
        node->client.patience = NGX_CHAT_REDIS_PATIENCE;
    }

    cluster->nodes[cluster->count++] = node;
    return node;
}


static void
set_host(ngx_chat_redis_node_t *node, const ngx_chat_redis_host_t *host)
{
    node->client.conn.host = host;
    node->client.name = &node->name;
    node->name.data = node->text;
    node->name.len = ngx_slprintf(node->text, node->text + sizeof(node->text),
                                  "node %V", &host->name)
                     - node->text;
}


ngx_chat_redis_node_t *
ngx_chat_redis_cluster_node(ngx_chat_redis_cluster_t *cluster,
                            const ngx_str_t *host, ngx_int_t port)
{
    ngx_chat_redis_node_t   *node;
    ngx_chat_redis_address_t address;

    node = find_node(cluster, host, port);

    if (node != NULL
        || ngx_chat_redis_address_set(&address, host, port) != NGX_OK) {
        return node;
    }

    node = new_node(cluster);

    if (node != NULL) {
        /* an address points into itself, and cannot be copied */
        (void) ngx_chat_redis_address_set(&node->address, host, port);
        set_host(node, &node->address.host);
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

    /* behind an older command of its slot */
    if (ngx_chat_redis_has_slot(&cluster->retry, cmd->slot)) {
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


void
ngx_chat_redis_cluster_move(ngx_chat_redis_cluster_t *cluster, unsigned slot,
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


/* The IP address of an endpoint that is a name; empty: it has none. */
static ngx_str_t
endpoint_ip(const redisReply *endpoint)
{
    size_t      i;
    ngx_str_t   key, ip = ngx_null_string;
    redisReply *more;

    more = endpoint->elements > 3 ? endpoint->element[3] : NULL;
    if (more == NULL || more->type != REDIS_REPLY_ARRAY) {
        return ip;
    }

    for (i = 0; i + 1 < more->elements; i += 2) {
        key = ngx_chat_redis_text(more->element[i]);
        if (key.len == 2 && ngx_strncmp(key.data, "ip", 2) == 0) {
            ip = ngx_chat_redis_text(more->element[i + 1]);
        }
    }

    return ip;
}


/* The node at an endpoint of the reply that from has sent; NULL: none. */
static ngx_chat_redis_node_t *
endpoint_node(ngx_chat_redis_node_t *from, const redisReply *endpoint)
{
    ngx_str_t              host, ip;
    ngx_chat_redis_node_t *node;

    if (endpoint->type != REDIS_REPLY_ARRAY || endpoint->elements < 2
        || endpoint->element[1]->type != REDIS_REPLY_INTEGER)
    {
        return NULL;
    }

    host = ngx_chat_redis_text(endpoint->element[0]);
    ip = endpoint_ip(endpoint);

    /* the node is to have a name, and does not know it yet */
    if (host.len == 1 && host.data[0] == '?') {
        host = ip;
    }

    /* the node does not know its address, which is that of the connection */
    if (host.len == 0) {
        host = from->client.conn.host->host;
    }

    node = ngx_chat_redis_cluster_node(
        from->cluster, &host, (ngx_int_t) endpoint->element[1]->integer);

    /* a name, and no resolver */
    if (node != NULL && ip.len != 0 && from->cluster->conf->resolver == NULL
        && node->client.conn.host == &node->address.host
        && node->address.host.naddrs == 0)
    {
        ngx_chat_redis_address_set_ip(&node->address, &ip);
    }

    return node;
}


/* A range of slots: first, last, the master's endpoint. */
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
        ngx_chat_redis_cluster_move(from->cluster, (unsigned) i, node);
    }
}


/* Submits the node's unsent commands for slots of other nodes to these. */
static void
move_unsent(ngx_chat_redis_node_t *node)
{
    ngx_queue_t               moved;
    ngx_chat_redis_cmd_t     *cmd, *next;
    ngx_chat_redis_client_t  *client = &node->client;
    ngx_chat_redis_cluster_t *cluster = node->cluster;

    ngx_queue_init(&moved);

    for (cmd = ngx_chat_redis_next(&client->cmds, NULL); cmd; cmd = next) {
        next = ngx_chat_redis_next(&client->cmds, cmd);

        if (cmd->is_keyed && !cmd->is_sent
            && cluster->owner[cmd->slot] != node->n
            && !(cmd->is_asking && client->state == CHAT_STORE_UP))
        {
            ngx_chat_redis_remove(client, cmd);
            ngx_queue_insert_tail(&moved, &cmd->queue);
        }
    }

    while ((cmd = ngx_chat_redis_take(&moved)) != NULL) {
        cmd->is_asking = 0;
        ngx_chat_redis_cluster_resubmit(cluster, NULL, cmd);
    }
}


/* 1 if the node has no command for a key. */
static ngx_uint_t
is_idle(ngx_chat_redis_node_t *node)
{
    ngx_chat_redis_cmd_t *cmd = NULL;

    while ((cmd = ngx_chat_redis_next(&node->client.cmds, cmd)) != NULL) {
        if (cmd->is_keyed) {
            return 0;
        }
    }

    return 1;
}


/* The slots are known anew: moves commands, closes nodes without slots. */
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

        /* a replica has its slots now, which may lack the last writes */
        if (node->slots == 0 && node->old_slots != 0
            && node->client.state != CHAT_STORE_UP)
        {
            ngx_chat_redis_conn_close(&node->client.conn);
            ngx_chat_redis_unsend(&node->client);
            ngx_chat_redis_replay(&node->client);
            cluster->failed_over = 1;
        }

        node->old_slots = node->slots;
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

    if (cluster->queried == node) {
        cluster->queried = NULL;
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
    cluster->outdated = 0;
    cluster->learned = ngx_current_msec;
    move_commands(cluster);
    cluster->changed(cluster, NULL);
}


static void
query_slots(ngx_chat_redis_node_t *node, ngx_uint_t is_setup)
{
    ngx_chat_redis_cmd_t *cmd = ngx_chat_redis_cmd_create();

    if (cmd == NULL) {
        return;
    }

    ngx_chat_redis_cmd_puts(cmd, "CLUSTER");
    ngx_chat_redis_cmd_puts(cmd, "SLOTS");
    cmd->done = on_slots;
    cmd->data = node;
    cmd->is_setup = is_setup & 1;

    if (ngx_chat_redis_submit(&node->client, cmd) != NGX_OK) {
        ngx_chat_redis_cmd_free(cmd);
        return;
    }

    node->cluster->queried = node;
    node->cluster->queried_at = ngx_current_msec;
}


/* 1 if the slots that are known may be wrong. */
static ngx_uint_t
is_outdated(ngx_chat_redis_cluster_t *cluster)
{
    ngx_uint_t             i;
    ngx_chat_redis_node_t *node;

    if (!cluster->known || cluster->outdated
        || ngx_current_msec - cluster->learned > NGX_CHAT_REDIS_SLOTS_AGE)
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


static void
on_tick(ngx_event_t *ev)
{
    ngx_uint_t                i;
    ngx_chat_redis_node_t    *node;
    ngx_chat_redis_cluster_t *cluster = ev->data;

    ngx_chat_redis_timer(ev, ngx_chat_redis_jitter(NGX_CHAT_REDIS_TICK));

    if (ngx_chat_redis_cluster_state(cluster) == CHAT_STORE_UNAVAILABLE
        && (!cluster->known
            || ngx_current_msec - cluster->learned
                   > NGX_CHAT_REDIS_SLOTS_REPLY))
    {
        for (i = 0; i < cluster->seeds; i++) {
            ngx_chat_redis_cluster_connect(cluster->nodes[i]);
        }
    }

    if (!is_outdated(cluster)
        || (cluster->queried != NULL
            && ngx_current_msec - cluster->queried_at
                   < NGX_CHAT_REDIS_SLOTS_REPLY))
    {
        return;
    }

    node = ngx_chat_redis_cluster_any(cluster);
    if (node->client.state == CHAT_STORE_UP) {
        query_slots(node, 0);
    }
}


static void
init_event(ngx_chat_redis_cluster_t *cluster, ngx_event_t *ev,
           ngx_event_handler_pt handler)
{
    ev->handler = handler;
    ev->data = cluster;
    ev->log = cluster->log;
}


ngx_int_t
ngx_chat_redis_cluster_open(ngx_chat_redis_cluster_t    *cluster,
                            const ngx_chat_redis_conf_t *conf, ngx_log_t *log)
{
    ngx_uint_t             i;
    ngx_chat_redis_node_t *node;

    cluster->conf = conf;
    cluster->log = log;
    cluster->is_cluster = conf->scheme == NGX_CHAT_REDIS_CLUSTER;
    ngx_queue_init(&cluster->retry);
    init_event(cluster, &cluster->tick, on_tick);
    init_event(cluster, &cluster->retry_timer, ngx_chat_redis_retry_send);

    cluster->seeds = cluster->is_cluster
                         ? ngx_min(conf->nhosts, NGX_CHAT_REDIS_MASTERS / 2)
                         : 1;

    for (i = 0; i < cluster->seeds; i++) {
        node = new_node(cluster);
        if (node == NULL) {
            return NGX_ERROR;
        }

        if (cluster->is_cluster) {
            set_host(node, &conf->hosts[i]);
        }
    }

    if (!cluster->is_cluster) {
        cluster->known = 1; /* all slots are of node 0 */
        cluster->nodes[0]->slots = CHAT_SLOTS;

    } else {
        ngx_memset(cluster->owner, NGX_CHAT_REDIS_NO_NODE, CHAT_SLOTS);
        ngx_chat_redis_timer(&cluster->tick, NGX_CHAT_REDIS_TICK);
    }

    for (i = 0; i < cluster->seeds; i++) {
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

    while ((cmd = ngx_chat_redis_take(&cluster->retry)) != NULL) {
        ngx_chat_redis_cmd_free(cmd);
    }
}
