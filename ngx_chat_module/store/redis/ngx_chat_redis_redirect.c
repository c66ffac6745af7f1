/*
 * ngx_chat_redis_redirect.c: commands that a node of a cluster redirects, and
 * the retry queue.
 *
 * MOVED: another node has the slot. ASK: another node gets this command, but
 * not the slot. TRYAGAIN and the like, or nodes that redirect to one another:
 * the command goes to the retry queue. Later commands of its slot wait for it,
 * so that they stay in order. An awaited command fails when it has been
 * redirected for 2 s.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "store/redis/ngx_chat_redis_cluster.h"

#define NGX_CHAT_REDIS_REDIRECTED 2000 /* ms; then an awaited one fails */
#define NGX_CHAT_REDIS_HOPS 5          /* without a pause */
#define NGX_CHAT_REDIS_FIRST_AGAIN 10
#define NGX_CHAT_REDIS_LAST_AGAIN 160


/* The node in "MOVED SLOT HOST:PORT"; NULL: none. */
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


/* Sends this command to the node, behind an ASKING. */
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

    cmd->is_asking = 1;
    ngx_chat_redis_cluster_resubmit(node->cluster, node, cmd);
}


/* Newer commands may have come into the retry queue while it was sent. */
static void
insert_by_serial(ngx_chat_redis_cluster_t *cluster, ngx_chat_redis_cmd_t *cmd)
{
    ngx_queue_t          *q;
    ngx_chat_redis_cmd_t *other;

    for (q = ngx_queue_last(&cluster->retry);
         q != ngx_queue_sentinel(&cluster->retry); q = ngx_queue_prev(q))
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

    if (cmd->failed
        || cluster->retry_bytes + cmd->bytes > NGX_CHAT_REDIS_PENDING) {
        return NGX_DECLINED;
    }

    if (cmd->client == NULL) {
        cmd->client = ngx_chat_redis_cluster_client(cluster, cmd->slot);
        cmd->first = ngx_current_msec;
    }

    cmd->is_asking = 0;
    cmd->hops = 0;
    cluster->retry_bytes += cmd->bytes;
    insert_by_serial(cluster, cmd);

    if (!cluster->retry_timer.timer_set) {
        pause = NGX_CHAT_REDIS_FIRST_AGAIN << ngx_min(cmd->tries, 8);
        ngx_chat_redis_timer(
            &cluster->retry_timer,
            ngx_chat_redis_jitter(ngx_min(pause, NGX_CHAT_REDIS_LAST_AGAIN)));
    }

    return NGX_OK;
}


static void
retry_or_fail(ngx_chat_redis_cluster_t *cluster, ngx_chat_redis_cmd_t *cmd)
{
    if (ngx_chat_redis_retry_add(cluster, cmd) != NGX_OK) {
        cmd->done(cmd, NULL);
    }
}


/* Marks the slots of sent commands, which may be redirected still. */
static void
mark_sent_slots(ngx_chat_redis_cluster_t *cluster, u_char sent[CHAT_SLOTS / 8])
{
    ngx_uint_t            i;
    ngx_chat_redis_cmd_t *cmd;

    ngx_memzero(sent, CHAT_SLOTS / 8);

    for (i = 0; i < cluster->count; i++) {
        if (!cluster->nodes[i]->is_open) {
            continue;
        }

        cmd = NULL;

        while (
            (cmd = ngx_chat_redis_next(&cluster->nodes[i]->client.cmds, cmd))
            != NULL)
        {
            if (cmd->is_keyed && cmd->is_sent) {
                sent[cmd->slot / 8] |= (u_char) (1 << cmd->slot % 8);
            }
        }
    }
}


void
ngx_chat_redis_retry_send(ngx_event_t *ev)
{
    u_char                    sent[CHAT_SLOTS / 8];
    ngx_queue_t               due;
    ngx_chat_redis_cmd_t     *cmd;
    ngx_chat_redis_cluster_t *cluster = ev->data;

    if (ngx_queue_empty(&cluster->retry)) {
        return;
    }

    ngx_queue_init(&due);
    ngx_queue_add(&due, &cluster->retry);
    ngx_queue_init(&cluster->retry);
    cluster->retry_bytes = 0;

    mark_sent_slots(cluster, sent);

    while ((cmd = ngx_chat_redis_take(&due)) != NULL) {
        if (sent[cmd->slot / 8] >> cmd->slot % 8 & 1) {
            retry_or_fail(cluster, cmd);
        } else {
            ngx_chat_redis_cluster_resubmit(cluster, NULL, cmd);
        }
    }
}


/* 1 if the node cannot serve the slot at the moment. */
static ngx_uint_t
is_temporary(const redisReply *reply)
{
    return ngx_chat_redis_is_error(reply, "TRYAGAIN")
           || ngx_chat_redis_is_error(reply, "CLUSTERDOWN")
           || ngx_chat_redis_is_error(reply, "LOADING");
}


ngx_uint_t
ngx_chat_redis_redirect(ngx_chat_redis_client_t *client,
                        ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    ngx_uint_t                moved, ask;
    ngx_chat_redis_node_t    *node = NULL;
    ngx_chat_redis_cluster_t *cluster =
        ((ngx_chat_redis_node_t *) client)->cluster;

    moved = ngx_chat_redis_is_error(reply, "MOVED ");
    ask = ngx_chat_redis_is_error(reply, "ASK ");

    if (!cmd->is_keyed || !(moved || ask || is_temporary(reply))
        || (cmd->op != NULL
            && ngx_current_msec - cmd->first >= NGX_CHAT_REDIS_REDIRECTED))
    {
        return 0;
    }

    if (moved || ask) {
        node = redirect_target(client, reply);
    }

    freeReplyObject(reply);

    if (!ask || node == NULL) {
        cluster->outdated = 1;
    }

    if (moved && node != NULL) {
        ngx_chat_redis_cluster_move(cluster, cmd->slot, node);
    }

    /* another command of the slot waits, or will be redirected by the node */
    if (node == NULL || cmd->hops == NGX_CHAT_REDIS_HOPS
        || ngx_chat_redis_has_slot(&cluster->retry, cmd->slot)
        || (moved && ngx_chat_redis_has_slot(&client->cmds, cmd->slot)))
    {
        retry_or_fail(cluster, cmd);
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
