/*
 * ngx_chat_redis_notify.c: see ngx_chat_redis_notify.h.
 *
 * A PING each second shows that the connection works: a subscriber that sends
 * nothing does not notice a broken one. After two failures in a row all keys
 * count as changed with each attempt to subscribe.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/redis/ngx_chat_redis_notify.h"

#define NGX_CHAT_REDIS_PING 1000 /* ms */
#define NGX_CHAT_REDIS_POLL 15000
#define NGX_CHAT_REDIS_NOTIFY_FIRST 20
#define NGX_CHAT_REDIS_NOTIFY_LAST 300


static void
on_ready(ngx_chat_redis_conn_t *conn)
{
    ngx_chat_redis_notify_t *notify = conn->data;

    ngx_chat_redis_conn_command(conn, "SUBSCRIBE " NGX_CHAT_REDIS_CHANNEL "%b",
                                notify->worker.data, notify->worker.len);
}


static void
on_closed(ngx_chat_redis_conn_t *conn, const char *why)
{
    ngx_chat_redis_notify_t *notify = conn->data;

    /* the client logs a failure of both connections */
    if (!notify->logged && notify->backoff > NGX_CHAT_REDIS_NOTIFY_FIRST
        && notify->node->client.state == CHAT_STORE_UP)
    {
        notify->logged = 1;
        ngx_log_error(NGX_LOG_ERR, conn->log, 0,
                      "chat: no subscription to the store %V, changes are "
                      "polled: %s",
                      notify->node->client.name, why);
    }

    ngx_chat_redis_backoff(&notify->retry, &notify->backoff,
                           NGX_CHAT_REDIS_NOTIFY_LAST);
}


static void
on_reply(ngx_chat_redis_conn_t *conn, redisReply *reply)
{
    u_char                   why[NGX_CHAT_REDIS_ERROR];
    ngx_chat_redis_notify_t *notify = conn->data;

    if (ngx_chat_redis_is_message(reply, "message")) {
        notify->changed(notify, ngx_chat_redis_text(reply->element[2]));

    } else if (ngx_chat_redis_is_message(reply, "subscribe")) {
        notify->polled = ngx_current_msec;
        notify->changed(notify, chat_cstr(""));

    } else if (reply->type == REDIS_REPLY_ERROR) {
        (void) ngx_chat_redis_error(reply, why);
        ngx_chat_redis_conn_fail(conn, "%s", why);

    } else {
        /* the reply to a PING: the subscription lasts */
        notify->backoff = NGX_CHAT_REDIS_NOTIFY_FIRST;

        if (notify->logged) {
            notify->logged = 0;
            ngx_log_error(NGX_LOG_ERR, conn->log, 0,
                          "chat: subscribed to the store %V again",
                          notify->node->client.name);
        }
    }

    freeReplyObject(reply);
}


/* Connects to a node, each time to another one. */
static void
subscribe(ngx_chat_redis_notify_t *notify)
{
    if (notify->node != NULL) {
        notify->node->is_used = 0;
    }

    notify->node = ngx_chat_redis_cluster_any(notify->cluster);
    notify->node->is_used = 1;
    notify->conn.host = notify->node->client.conn.host;

    if (notify->conn.host != NULL) {
        ngx_chat_redis_conn_open(&notify->conn);
    }
}


static void
on_retry(ngx_event_t *ev)
{
    ngx_chat_redis_notify_t *notify = ev->data;

    if (notify->node->client.state == CHAT_STORE_UP
        && notify->backoff > NGX_CHAT_REDIS_NOTIFY_FIRST * 2)
    {
        notify->changed(notify, chat_cstr(""));
    }

    subscribe(notify);
}


static const char *
on_ping(ngx_chat_redis_conn_t *conn)
{
    ngx_chat_redis_notify_t *notify = conn->data;

    /* a node that has left the cluster gets no notifications */
    if (notify->cluster->known && notify->node->slots == 0) {
        return "it has no slots";
    }

    if (ngx_current_msec - notify->polled > NGX_CHAT_REDIS_POLL) {
        notify->polled = ngx_current_msec;
        notify->changed(notify, chat_cstr(""));
    }

    return NULL;
}


void
ngx_chat_redis_notify_move(ngx_chat_redis_notify_t *notify)
{
    if (notify->retry.timer_set) {
        ngx_del_timer(&notify->retry);
    }

    ngx_chat_redis_conn_close(&notify->conn);
    notify->backoff = NGX_CHAT_REDIS_NOTIFY_FIRST;
    subscribe(notify);
}


void
ngx_chat_redis_notify_open(ngx_chat_redis_notify_t  *notify,
                           ngx_chat_redis_cluster_t *cluster,
                           chat_str_t                worker)
{
    notify->cluster = cluster;
    notify->worker = worker;
    notify->backoff = NGX_CHAT_REDIS_NOTIFY_FIRST;
    notify->polled = ngx_current_msec;

    notify->conn.conf = cluster->conf;
    notify->conn.log = cluster->log;
    notify->conn.data = notify;
    notify->conn.ping = NGX_CHAT_REDIS_PING;
    notify->conn.ready = on_ready;
    notify->conn.reply = on_reply;
    notify->conn.closed = on_closed;
    notify->conn.check = on_ping;

    ngx_chat_redis_event(&notify->retry, on_retry, notify, cluster->log);
    subscribe(notify);
}
