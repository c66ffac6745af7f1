/*
 * ngx_chat_redis_slots.c: who has which slots, as CLUSTER SLOTS tells it.
 *
 * It is asked for with each connection's greetings, while a node is away,
 * after a slot has moved, and now and then. What is not sent yet moves to its
 * new owner; a node without slots is left. While nobody is there the nodes
 * that chat_store names are tried again: all others may have new addresses.
 * Must not know: facts.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "store/redis/ngx_chat_redis_cluster.h"

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

    if (was != NGX_CHAT_REDIS_NOBODY) {
        cluster->nodes[was]->slots--;
    }

    cluster->owner[slot] = (u_char) node->n;
    node->slots++;
}


/* The first address that is not the name which the endpoint has; or none. */
static ngx_str_t
ngx_chat_redis_slots_ip(const redisReply *place)
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
ngx_chat_redis_slots_node(ngx_chat_redis_node_t *from, const redisReply *place)
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

    ip = ngx_chat_redis_slots_ip(place);

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
        ngx_chat_redis_place_at(&node->place, &ip);
    }

    return node;
}


/* One range of slots; whose they are. */
static void
ngx_chat_redis_slots_range(ngx_chat_redis_node_t *from,
                           const redisReply      *range)
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

    node = ngx_chat_redis_slots_node(from, range->element[2]);
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
ngx_chat_redis_slots_sort(ngx_chat_redis_node_t *node)
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
ngx_chat_redis_slots_idle(ngx_chat_redis_node_t *node)
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
ngx_chat_redis_slots_succeed(ngx_chat_redis_node_t *node)
{
    ngx_chat_redis_conn_close(&node->client.conn);
    ngx_chat_redis_unsend(&node->client);
    ngx_chat_redis_remind(&node->client);
    node->cluster->moved = 1;
}


/* The slots are known anew: what waits goes where it belongs. */
static void
ngx_chat_redis_slots_settle(ngx_chat_redis_cluster_t *cluster)
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
            ngx_chat_redis_slots_succeed(node);
        }

        node->had = node->slots;
        ngx_chat_redis_slots_sort(node);

        if (node->slots == 0 && ngx_chat_redis_slots_idle(node)) {
            node->is_open = 0;
            ngx_chat_redis_client_close(&node->client);
        }
    }
}


static void
ngx_chat_redis_slots_answer(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    size_t                    i;
    ngx_chat_redis_node_t    *node = cmd->data;
    ngx_chat_redis_cluster_t *cluster = node->cluster;

    if (cluster->asked == node) {
        cluster->asked = NULL;
    }

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0) {
        ngx_chat_redis_complain(&node->client, reply);
        ngx_chat_redis_ignore(cmd, reply);
        return;
    }

    for (i = 0; i < cluster->count; i++) {
        cluster->nodes[i]->slots = 0;
    }

    ngx_memset(cluster->owner, NGX_CHAT_REDIS_NOBODY, CHAT_SLOTS);

    for (i = 0; i < reply->elements; i++) {
        ngx_chat_redis_slots_range(node, reply->element[i]);
    }

    ngx_chat_redis_ignore(cmd, reply);

    cluster->known = 1;
    cluster->stale = 0;
    cluster->learned = ngx_current_msec;
    ngx_chat_redis_slots_settle(cluster);
    cluster->changed(cluster, NULL);
}


void
ngx_chat_redis_slots_ask(ngx_chat_redis_cluster_t *cluster,
                         ngx_chat_redis_node_t *node, ngx_uint_t greets)
{
    ngx_chat_redis_cmd_t *cmd = ngx_chat_redis_cmd_create();

    if (cmd == NULL) {
        return;
    }

    ngx_chat_redis_cmd_puts(cmd, "CLUSTER");
    ngx_chat_redis_cmd_puts(cmd, "SLOTS");
    cmd->done = ngx_chat_redis_slots_answer;
    cmd->data = node;
    cmd->greets = greets & 1;

    if (ngx_chat_redis_submit(&node->client, cmd) != NGX_OK) {
        ngx_chat_redis_cmd_free(cmd);
        return;
    }

    cluster->asked = node;
    cluster->asked_at = ngx_current_msec;
}


/* 1 if what is known may not be so any more. */
static ngx_uint_t
ngx_chat_redis_slots_doubt(ngx_chat_redis_cluster_t *cluster)
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

    if (ngx_chat_redis_cluster_state(cluster) == CHAT_STORE_AWAY
        && (!cluster->known
            || ngx_current_msec - cluster->learned > NGX_CHAT_REDIS_ASKED))
    {
        for (i = 0; i < cluster->seeds; i++) {
            ngx_chat_redis_cluster_need(cluster->nodes[i]);
        }
    }

    if (!ngx_chat_redis_slots_doubt(cluster)
        || (cluster->asked != NULL
            && ngx_current_msec - cluster->asked_at < NGX_CHAT_REDIS_ASKED))
    {
        return;
    }

    node = ngx_chat_redis_cluster_any(cluster);
    if (node->client.state == CHAT_STORE_UP) {
        ngx_chat_redis_slots_ask(cluster, node, 0);
    }
}
