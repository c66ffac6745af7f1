/*
 * ngx_chat_redis_cluster.c: the nodes, their slots, and the node that gets a
 * command.
 *
 * CLUSTER SLOTS is sent at the setup of each connection, while a node is not
 * up, after a slot has moved, and every 10 s. Unsent commands follow their
 * slot. A node without slots is closed, and makes room when there is none
 * left. While no node is up, the nodes that chat_store names are tried again:
 * all others may have new addresses.
 *
 * MOVED: another node has the slot. ASK: another node gets this command, but
 * not the slot. TRYAGAIN and the like, or nodes that redirect to one another:
 * the command goes to the retry queue. Commands of a slot that moves may be
 * executed in another order than they were submitted in. An awaited command
 * fails when it has been redirected for 2 s.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/redis/ngx_chat_redis_cluster.h"

#define NGX_CHAT_REDIS_PATIENCE 1000 /* ms; longer than until UNAVAILABLE */
#define NGX_CHAT_REDIS_TICK 250
#define NGX_CHAT_REDIS_SLOTS_REPLY 1000 /* due after so long */
#define NGX_CHAT_REDIS_SLOTS_AGE 10000
#define NGX_CHAT_REDIS_REDIRECTED 2000 /* ms; then an awaited one fails */
#define NGX_CHAT_REDIS_HOPS 5          /* redirections without a pause */
#define NGX_CHAT_REDIS_FIRST_AGAIN 10
#define NGX_CHAT_REDIS_LAST_AGAIN 160

static void       query_slots(ngx_chat_redis_node_t *node);
static ngx_uint_t redirect(ngx_chat_redis_client_t *client,
                           ngx_chat_redis_cmd_t *cmd, redisReply *reply);


static void
setup_node(ngx_chat_redis_client_t *client)
{
    ngx_chat_redis_node_t *node = (ngx_chat_redis_node_t *) client;

    node->cluster->setup(client);

    if (node->cluster->is_cluster) {
        query_slots(node);
    }
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
            if (!node->is_open && node->slots == 0) {
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
    node->client.name = &cluster->conf->name;
    node->client.conn.host = cluster->locate ? NULL : cluster->conf->hosts;
    node->client.locate = cluster->locate;
    node->client.setup = setup_node;
    node->client.changed = cluster->changed;

    if (cluster->is_cluster) {
        node->client.redirect = redirect;
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


/*
 * The node at this address, new or old; without a host it is the client's
 * host. NULL: no room, or no address.
 */
static ngx_chat_redis_node_t *
other_node(ngx_chat_redis_client_t *client, chat_str_t host, ngx_int_t port)
{
    ngx_uint_t                i;
    const ngx_str_t          *same = &client->conn.host->host;
    ngx_chat_redis_node_t    *node = (ngx_chat_redis_node_t *) client;
    ngx_chat_redis_address_t  address;
    ngx_chat_redis_cluster_t *cluster = node->cluster;

    host = host.len ? host : chat_str(same->data, same->len);

    for (i = 0; i < cluster->count; i++) {
        node = cluster->nodes[i];
        if (ngx_chat_redis_host_is(node->client.conn.host, host, port)) {
            return node;
        }
    }

    if (ngx_chat_redis_address_set(&address, host, port) != NGX_OK) {
        return NULL;
    }

    node = new_node(cluster);

    if (node != NULL) {
        /* an address points into itself, and cannot be copied */
        (void) ngx_chat_redis_address_set(&node->address, host, port);
        set_host(node, &node->address.host);
    }

    return node;
}


/* Connects to the node, if nothing has needed it so far. */
static void
connect_node(ngx_chat_redis_node_t *node)
{
    ngx_chat_redis_cluster_t *cluster = node->cluster;

    if (!node->is_open) {
        node->is_open = 1;
        ngx_chat_redis_client_open(&node->client, cluster->conf);
    }
}


/* 1 if the node is connected to, and has slots as far as is known. */
static ngx_uint_t
is_member(const ngx_chat_redis_node_t *node)
{
    return node->is_open && (node->slots != 0 || !node->cluster->known);
}


ngx_chat_redis_node_t *
ngx_chat_redis_cluster_any(ngx_chat_redis_cluster_t *cluster)
{
    ngx_uint_t             i, first = cluster->next++;
    ngx_chat_redis_node_t *node, *best = NULL;

    for (i = 0; i < cluster->count; i++) {
        node = cluster->nodes[(first + i) % cluster->count];

        if (is_member(node)
            && (best == NULL || node->client.state < best->client.state))
        {
            best = node;
        }
    }

    return best != NULL ? best : cluster->nodes[0];
}


ngx_chat_redis_client_t *
ngx_chat_redis_cluster_client(ngx_chat_redis_cluster_t *cluster, unsigned slot)
{
    ngx_chat_redis_node_t *node =
        cluster->owner[slot] == NGX_CHAT_REDIS_NO_NODE
            ? ngx_chat_redis_cluster_any(cluster)
            : cluster->nodes[cluster->owner[slot]];

    connect_node(node);
    return &node->client;
}


chat_store_state_e
ngx_chat_redis_cluster_state(ngx_chat_redis_cluster_t *cluster)
{
    ngx_chat_redis_node_t *best = ngx_chat_redis_cluster_any(cluster);

    return is_member(best) ? best->client.state : CHAT_STORE_UNAVAILABLE;
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
set_owner(ngx_chat_redis_cluster_t *cluster, unsigned slot,
          ngx_chat_redis_node_t *node)
{
    u_char was = cluster->owner[slot];

    if (was != NGX_CHAT_REDIS_NO_NODE) {
        cluster->nodes[was]->slots--;
    }

    cluster->owner[slot] = (u_char) node->n;
    node->slots++;
}


static void
resubmit(ngx_chat_redis_cluster_t *cluster, ngx_chat_redis_cmd_t *cmd)
{
    ngx_chat_redis_resubmit(ngx_chat_redis_cluster_client(cluster, cmd->slot),
                            cmd);
}


/* Puts a command into the retry queue; without room there it fails. */
static void
retry_add(ngx_chat_redis_cluster_t *cluster, ngx_chat_redis_cmd_t *cmd)
{
    ngx_msec_t pause = NGX_CHAT_REDIS_FIRST_AGAIN << ngx_min(cmd->tries, 8);

    if (cmd->failed
        || cluster->retry_bytes + cmd->bytes > NGX_CHAT_REDIS_PENDING) {
        cmd->done(cmd, NULL);
        return;
    }

    cmd->is_asking = 0;
    cmd->hops = 0;
    cluster->retry_bytes += cmd->bytes;
    ngx_queue_insert_tail(&cluster->retry, &cmd->queue);

    if (!cluster->retry_timer.timer_set) {
        ngx_chat_redis_timer(
            &cluster->retry_timer,
            ngx_chat_redis_jitter(ngx_min(pause, NGX_CHAT_REDIS_LAST_AGAIN)));
    }
}


static void
on_retry(ngx_event_t *ev)
{
    ngx_chat_redis_cmd_t     *cmd;
    ngx_chat_redis_cluster_t *cluster = ev->data;

    cluster->retry_bytes = 0;

    /* a redirected command comes back by an event, not within this loop */
    while ((cmd = ngx_chat_redis_take(&cluster->retry)) != NULL) {
        resubmit(cluster, cmd);
    }
}


ngx_int_t
ngx_chat_redis_cluster_submit(ngx_chat_redis_cluster_t *cluster,
                              ngx_chat_redis_cmd_t     *cmd)
{
    return ngx_chat_redis_submit(
        ngx_chat_redis_cluster_client(cluster, cmd->slot), cmd);
}


/* The node in "MOVED SLOT HOST:PORT"; HOST may have colons. NULL: none. */
static ngx_chat_redis_node_t *
redirect_target(ngx_chat_redis_client_t *client, const redisReply *reply)
{
    char *space = strrchr(reply->str, ' ');
    char *colon = space ? strrchr(space, ':') : NULL;

    return colon ? other_node(
               client, chat_str(space + 1, (size_t) (colon - space) - 1),
               ngx_atoi((u_char *) colon + 1, ngx_strlen(colon + 1)))
                 : NULL;
}


/* client->redirect of a node of a real cluster. */
static ngx_uint_t
redirect(ngx_chat_redis_client_t *client, ngx_chat_redis_cmd_t *cmd,
         redisReply *reply)
{
    ngx_uint_t                moved, ask;
    ngx_chat_redis_node_t    *node = NULL;
    ngx_chat_redis_cluster_t *cluster =
        ((ngx_chat_redis_node_t *) client)->cluster;

    moved = ngx_chat_redis_is_error(reply, "MOVED ");
    ask = ngx_chat_redis_is_error(reply, "ASK ");

    if (!cmd->is_keyed
        || !(moved || ask || ngx_chat_redis_is_error(reply, "TRYAGAIN")
             || ngx_chat_redis_is_error(reply, "CLUSTERDOWN")
             || ngx_chat_redis_is_error(reply, "LOADING"))
        || (ngx_chat_redis_is_awaited(cmd)
            && ngx_current_msec - cmd->queued >= NGX_CHAT_REDIS_REDIRECTED))
    {
        return 0;
    }

    if (moved || ask) {
        node = redirect_target(client, reply);
    }

    freeReplyObject(reply);

    cluster->outdated |= !ask || node == NULL;

    if (moved && node != NULL) {
        set_owner(cluster, cmd->slot, node);
    }

    if (node == NULL || cmd->hops++ == NGX_CHAT_REDIS_HOPS) {
        retry_add(cluster, cmd);

    } else if (ask) {
        /* only this command goes to the node, behind ASKING */
        connect_node(node);
        (void) ngx_chat_redis_submit(
            &node->client,
            ngx_chat_redis_cmd_create("ASKING", ngx_chat_redis_ignore, NULL));
        cmd->is_asking = 1;
        ngx_chat_redis_resubmit(&node->client, cmd);

    } else {
        resubmit(cluster, cmd);
    }

    return 1;
}


/*
 * Returns the node at an endpoint in a reply of from: host, port, id, and an
 * array of names and values. NULL: none.
 */
static ngx_chat_redis_node_t *
endpoint_node(ngx_chat_redis_node_t *from, const redisReply *endpoint)
{
    size_t                 i;
    chat_str_t             host, ip = chat_str(NULL, 0);
    const redisReply      *more;
    ngx_chat_redis_node_t *node;

    /* a reply of another type has no elements */
    if (endpoint->elements < 2
        || endpoint->element[1]->type != REDIS_REPLY_INTEGER)
    {
        return NULL;
    }

    host = ngx_chat_redis_text(endpoint->element[0]);
    more = endpoint->elements > 3 ? endpoint->element[3] : NULL;

    for (i = 0; more != NULL && i + 1 < more->elements; i += 2) {
        if (chat_str_is(ngx_chat_redis_text(more->element[i]), "ip")) {
            ip = ngx_chat_redis_text(more->element[i + 1]);
        }
    }

    /* "?": the node is to have a name, and does not know it yet */
    node = other_node(&from->client, chat_str_is(host, "?") ? ip : host,
                      (ngx_int_t) endpoint->element[1]->integer);

    /* a name, and no resolver */
    if (node != NULL && ip.len != 0 && from->cluster->conf->resolver == NULL
        && node->client.conn.host == &node->address.host)
    {
        ngx_chat_redis_address_set_ip(&node->address, ip);
    }

    return node;
}


/*
 * Reads a range: first slot, last slot, the master's endpoint. Returns the
 * number of its slots; 1 for an invalid range.
 */
static long long
read_range(ngx_chat_redis_node_t *from, const redisReply *range)
{
    long long              i, first, last;
    ngx_chat_redis_node_t *node;

    if (range->elements < 3 || range->element[0]->type != REDIS_REPLY_INTEGER
        || range->element[1]->type != REDIS_REPLY_INTEGER)
    {
        return 1;
    }

    first = range->element[0]->integer;
    last = range->element[1]->integer;
    if (first < 0 || last < first || last >= CHAT_SLOTS) {
        return 1;
    }

    node = endpoint_node(from, range->element[2]);

    for (i = first; node != NULL && i <= last; i++) {
        set_owner(from->cluster, (unsigned) i, node);
    }

    return last + 1 - first;
}


/*
 * Submits the node's unsent commands for slots of other nodes to these.
 * Returns the number of commands with a key that stay.
 */
static ngx_uint_t
move_unsent(ngx_chat_redis_node_t *node)
{
    ngx_uint_t                stay = 0;
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
        resubmit(cluster, cmd);
    }

    /* of a slot without an owner they may have come back */
    while ((cmd = ngx_chat_redis_next(&client->cmds, cmd)) != NULL) {
        stay += cmd->is_keyed;
    }

    return stay;
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

        /* its replica has the slots now, and may lack the last writes */
        if (node->slots == 0 && node->client.state != CHAT_STORE_UP) {
            ngx_chat_redis_resend(&node->client);
        }

        if (move_unsent(node) == 0 && node->slots == 0) {
            node->is_open = 0;
            ngx_chat_redis_client_close(&node->client);
        }
    }
}


static void
on_slots(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    size_t                    i;
    long long                 left = CHAT_SLOTS;
    ngx_chat_redis_node_t    *node = cmd->data;
    ngx_chat_redis_cluster_t *cluster = node->cluster;

    cluster->querying = 0;

    if (reply->elements == 0) {
        ngx_chat_redis_log_error(&node->client, reply);
        ngx_chat_redis_ignore(cmd, reply);
        return;
    }

    for (i = 0; i < cluster->count; i++) {
        cluster->nodes[i]->slots = 0;
    }

    ngx_memset(cluster->owner, NGX_CHAT_REDIS_NO_NODE, CHAT_SLOTS);

    /* each slot is in one range */
    for (i = 0; i < reply->elements && left > 0; i++) {
        left -= read_range(node, reply->element[i]);
    }

    ngx_chat_redis_ignore(cmd, reply);

    cluster->known = 1;
    cluster->outdated = 0;
    cluster->learned = ngx_current_msec;
    move_commands(cluster);
}


static void
query_slots(ngx_chat_redis_node_t *node)
{
    ngx_chat_redis_cmd_t *cmd;

    cmd = ngx_chat_redis_cmd_create("CLUSTER SLOTS", on_slots, node);

    if (ngx_chat_redis_submit(&node->client, cmd) == NGX_OK) {
        node->cluster->querying = 1;
        node->cluster->queried = ngx_current_msec;
    }
}


static void
on_tick(ngx_event_t *ev)
{
    ngx_uint_t                i, outdated;
    ngx_msec_t                age;
    ngx_chat_redis_node_t    *node;
    ngx_chat_redis_cluster_t *cluster = ev->data;

    ngx_chat_redis_timer(ev, ngx_chat_redis_jitter(NGX_CHAT_REDIS_TICK));

    age = ngx_current_msec - cluster->learned;
    outdated =
        !cluster->known || cluster->outdated || age > NGX_CHAT_REDIS_SLOTS_AGE;

    if (ngx_chat_redis_cluster_state(cluster) == CHAT_STORE_UNAVAILABLE
        && (!cluster->known || age > NGX_CHAT_REDIS_SLOTS_REPLY))
    {
        for (i = 0; i < cluster->seeds; i++) {
            connect_node(cluster->nodes[i]);
        }
    }

    for (i = 0; i < cluster->count; i++) {
        node = cluster->nodes[i];
        outdated |= node->is_open && node->client.state != CHAT_STORE_UP;
    }

    if (!outdated
        || (cluster->querying
            && ngx_current_msec - cluster->queried
                   < NGX_CHAT_REDIS_SLOTS_REPLY))
    {
        return;
    }

    node = ngx_chat_redis_cluster_any(cluster);
    if (node->client.state == CHAT_STORE_UP) {
        query_slots(node);
    }
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
    ngx_chat_event_set(&cluster->tick, on_tick, cluster, log);
    ngx_chat_event_set(&cluster->retry_timer, on_retry, cluster, log);

    if (!cluster->is_cluster) {
        cluster->seeds = 1;
        cluster->known = 1; /* all slots are of node 0 */

    } else {
        cluster->seeds = ngx_min(conf->nhosts, NGX_CHAT_REDIS_MASTERS / 2);
        ngx_memset(cluster->owner, NGX_CHAT_REDIS_NO_NODE, CHAT_SLOTS);
        ngx_chat_redis_timer(&cluster->tick, NGX_CHAT_REDIS_TICK);
    }

    for (i = 0; i < cluster->seeds; i++) {
        node = new_node(cluster);
        if (node == NULL) {
            return NGX_ERROR;
        }

        if (cluster->is_cluster) {
            set_host(node, &conf->hosts[i]);
        } else {
            node->slots = CHAT_SLOTS;
        }

        connect_node(node);
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
