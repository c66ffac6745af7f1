/*
 * ngx_chat_redis_redirect.c: what becomes of a command that a node of a
 * cluster declines.
 *
 * MOVED: the slot is another node's, which is learned. ASK: this once it is.
 * TRYAGAIN and the like, and where nodes send a command to and fro: it is sent
 * again after a little while. Others of its slot wait for it, newer ones and
 * those that are yet to be declined, so that they stay in order. One that
 * somebody waits for fails when it has been declined for long.
 * Must not know: facts.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "store/redis/ngx_chat_redis_cluster.h"

#define NGX_CHAT_REDIS_DECLINED 2000 /* ms; then who waits is told */
#define NGX_CHAT_REDIS_HOPS 5        /* without a pause */
#define NGX_CHAT_REDIS_FIRST_AGAIN 10
#define NGX_CHAT_REDIS_LAST_AGAIN 160


/* The node in "MOVED SLOT HOST:PORT"; NULL: it says none. */
static ngx_chat_redis_node_t *
redirect_target(ngx_chat_redis_client_t *client, const redisReply *reply)
{
    char     *colon, *space;
    ngx_str_t host;

    space = strrchr(reply->str, ' ');
    colon = space ? strrchr(space, ':') : NULL;
    if (colon == NULL) {
        return NULL;
    }

    host.data = (u_char *) space + 1;
    host.len = (size_t) (colon - space) - 1;

    if (host.len == 0) {
        host = client->conn.host->host;
    }

    return ngx_chat_redis_cluster_node(
        ((ngx_chat_redis_node_t *) client)->cluster, &host,
        ngx_atoi((u_char *) colon + 1, ngx_strlen(colon + 1)));
}


/* This command only is to go to the other node. */
static void
send_asking(ngx_chat_redis_node_t *node, ngx_chat_redis_cmd_t *cmd)
{
    ngx_chat_redis_cmd_t *asking = ngx_chat_redis_cmd_create();

    ngx_chat_redis_cluster_connect(node);

    if (asking != NULL) {
        ngx_chat_redis_cmd_puts(asking, "ASKING");
        asking->done = ngx_chat_redis_ignore;

        if (ngx_chat_redis_submit(&node->client, asking) != NGX_OK) {
            ngx_chat_redis_cmd_free(asking);
        }
    }

    cmd->asks = 1;
    ngx_chat_redis_cluster_resubmit(node->cluster, node, cmd);
}


/* Newer ones may have come here while it was under way. */
static void
insert_by_serial(ngx_chat_redis_cluster_t *cluster, ngx_chat_redis_cmd_t *cmd)
{
    ngx_queue_t          *q;
    ngx_chat_redis_cmd_t *other;

    for (q = ngx_queue_last(&cluster->later);
         q != ngx_queue_sentinel(&cluster->later); q = ngx_queue_prev(q))
    {
        other = ngx_queue_data(q, ngx_chat_redis_cmd_t, queue);
        if (other->serial <= cmd->serial) {
            break;
        }
    }

    ngx_queue_insert_head(q, &cmd->queue); /* behind q */
}


ngx_int_t
ngx_chat_redis_retry_add(ngx_chat_redis_cluster_t *cluster,
                         ngx_chat_redis_cmd_t     *cmd)
{
    ngx_msec_t pause;

    if (cmd->failed || cluster->bytes + cmd->bytes > NGX_CHAT_REDIS_PENDING) {
        return NGX_DECLINED;
    }

    if (cmd->client == NULL) {
        cmd->client = ngx_chat_redis_cluster_client(cluster, cmd->slot);
        cmd->first = ngx_current_msec;
    }

    cmd->asks = 0;
    cmd->hops = 0;
    cluster->bytes += cmd->bytes;
    insert_by_serial(cluster, cmd);

    if (!cluster->again.timer_set) {
        pause = NGX_CHAT_REDIS_FIRST_AGAIN << ngx_min(cmd->tries, 8);
        ngx_chat_redis_timer(
            &cluster->again,
            ngx_chat_redis_jitter(ngx_min(pause, NGX_CHAT_REDIS_LAST_AGAIN)));
    }

    return NGX_OK;
}


/* Marks the slots of which a command has been sent: it may come here yet. */
static void
mark_sent_slots(ngx_chat_redis_cluster_t *cluster, u_char busy[CHAT_SLOTS / 8])
{
    ngx_uint_t            i;
    ngx_queue_t          *q, *cmds;
    ngx_chat_redis_cmd_t *cmd;

    ngx_memzero(busy, CHAT_SLOTS / 8);

    for (i = 0; i < cluster->count; i++) {
        if (!cluster->nodes[i]->is_open) {
            continue;
        }

        cmds = &cluster->nodes[i]->client.cmds;

        for (q = ngx_queue_head(cmds); q != ngx_queue_sentinel(cmds);
             q = ngx_queue_next(q))
        {
            cmd = ngx_queue_data(q, ngx_chat_redis_cmd_t, queue);
            if (cmd->keyed && cmd->sent) {
                busy[cmd->slot / 8] |= (u_char) (1 << cmd->slot % 8);
            }
        }
    }
}


void
ngx_chat_redis_retry_send(ngx_event_t *ev)
{
    u_char                    busy[CHAT_SLOTS / 8];
    ngx_queue_t               due;
    ngx_chat_redis_cmd_t     *cmd;
    ngx_chat_redis_cluster_t *cluster = ev->data;

    ngx_queue_init(&due);

    if (ngx_queue_empty(&cluster->later)) {
        return;
    }

    ngx_queue_add(&due, &cluster->later);
    ngx_queue_init(&cluster->later);
    cluster->bytes = 0;

    mark_sent_slots(cluster, busy);

    while ((cmd = ngx_chat_redis_take(&due)) != NULL) {
        if (!(busy[cmd->slot / 8] >> cmd->slot % 8 & 1)) {
            ngx_chat_redis_cluster_resubmit(cluster, NULL, cmd);

        } else if (ngx_chat_redis_retry_add(cluster, cmd) != NGX_OK) {
            cmd->done(cmd, NULL);
        }
    }
}


/* 1 if it is worth while to send it again. */
static ngx_uint_t
may_retry(const ngx_chat_redis_cmd_t *cmd)
{
    return cmd->op == NULL
           || ngx_current_msec - cmd->first < NGX_CHAT_REDIS_DECLINED;
}


/* 1 if the node cannot say anything of the slot at the moment. */
static ngx_uint_t
is_temporary(const redisReply *reply)
{
    return ngx_chat_redis_is_error(reply, "TRYAGAIN")
           || ngx_chat_redis_is_error(reply, "CLUSTERDOWN")
           || ngx_chat_redis_is_error(reply, "LOADING");
}


ngx_uint_t
ngx_chat_redis_redirected(ngx_chat_redis_client_t *client,
                          ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    ngx_uint_t                moved, ask;
    ngx_chat_redis_node_t    *node = NULL;
    ngx_chat_redis_cluster_t *cluster =
        ((ngx_chat_redis_node_t *) client)->cluster;

    moved = ngx_chat_redis_is_error(reply, "MOVED ");
    ask = ngx_chat_redis_is_error(reply, "ASK ");

    if (!cmd->keyed || !(moved || ask || is_temporary(reply))
        || !may_retry(cmd)) {
        return 0;
    }

    if (moved || ask) {
        node = redirect_target(client, reply);
    }

    freeReplyObject(reply);

    if (!ask || node == NULL) {
        cluster->stale = 1;
    }

    if (moved && node != NULL) {
        ngx_chat_redis_slots_move(cluster, cmd->slot, node);
    }

    /* others of the slot wait, or the node is yet to decline them */
    if (node == NULL || cmd->hops == NGX_CHAT_REDIS_HOPS
        || ngx_chat_redis_has_slot(&cluster->later, cmd->slot)
        || (moved && ngx_chat_redis_has_slot(&client->cmds, cmd->slot)))
    {
        if (ngx_chat_redis_retry_add(cluster, cmd) != NGX_OK) {
            cmd->done(cmd, NULL);
        }

        return 1;
    }

    cmd->hops++;

    if (ask) {
        send_asking(node, cmd);
    } else {
        ngx_chat_redis_cluster_resubmit(cluster, NULL, cmd);
    }

    return 1;
}
