/*
 * ngx_chat_redis_notify.c: see ngx_chat_redis_notify.h.
 *
 * A ping each second shows that the connection is still there: a subscriber
 * that only listens would never know. Without a subscription everything is
 * looked at with each try to get one. Must not know: facts.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "store/redis/ngx_chat_redis_notify.h"

#define NGX_CHAT_REDIS_PING 1000 /* ms */
#define NGX_CHAT_REDIS_POLL 15000
#define NGX_CHAT_REDIS_WAKE_FIRST 20
#define NGX_CHAT_REDIS_WAKE_LAST 300


static void
on_ready(ngx_chat_redis_conn_t *conn)
{
    u_char    channel[sizeof(NGX_CHAT_REDIS_CHANNEL) + 64], *end;
    ngx_str_t words[2] = { ngx_string("SUBSCRIBE") };
    ngx_chat_redis_notify_t *wake = conn->data;

    end = ngx_slprintf(channel, channel + sizeof(channel),
                       NGX_CHAT_REDIS_CHANNEL "%*s", wake->worker.len,
                       wake->worker.data);
    words[1].data = channel;
    words[1].len = end - channel;
    wake->silent = 0;
    ngx_chat_redis_conn_command(conn, words, 2);
    ngx_chat_redis_timer(&wake->ping, NGX_CHAT_REDIS_PING);
}


static void
on_closed(ngx_chat_redis_conn_t *conn, const char *why)
{
    ngx_chat_redis_notify_t *wake = conn->data;

    if (wake->ping.timer_set) {
        ngx_del_timer(&wake->ping);
    }

    /* what befalls both connections is told once, by the other one */
    if (!wake->told && wake->backoff > NGX_CHAT_REDIS_WAKE_FIRST
        && wake->node->client.state == CHAT_STORE_UP)
    {
        wake->told = 1;
        ngx_log_error(NGX_LOG_ERR, conn->log, 0,
                      "chat: no subscription to the store %V: %s",
                      wake->node->client.name, why);
    }

    ngx_chat_redis_timer(&wake->retry, ngx_chat_redis_jitter(wake->backoff));
    wake->backoff = ngx_min(2 * wake->backoff, NGX_CHAT_REDIS_WAKE_LAST);
}


static void
end_subscription(ngx_chat_redis_notify_t *wake, const char *why)
{
    ngx_chat_redis_conn_close(&wake->conn);
    on_closed(&wake->conn, why);
}


/* 1 if the reply is an array of so many whose first is this text. */
static ngx_uint_t
is_message(const redisReply *reply, const char *kind, size_t n)
{
    size_t len = ngx_strlen(kind);

    return reply->type == REDIS_REPLY_ARRAY && reply->elements == n
           && reply->element[0]->type == REDIS_REPLY_STRING
           && (size_t) reply->element[0]->len == len
           && ngx_memcmp(reply->element[0]->str, kind, len) == 0;
}


static void
on_reply(ngx_chat_redis_conn_t *conn, redisReply *reply)
{
    u_char                   text[NGX_CHAT_REDIS_REASON];
    ngx_chat_redis_notify_t *wake = conn->data;

    wake->silent = 0;

    if (is_message(reply, "message", 3)) {
        if (reply->element[2]->type == REDIS_REPLY_STRING
            && reply->element[2]->len == 16)
        {
            wake->news(wake, reply->element[2]->str);
        }

    } else if (is_message(reply, "subscribe", 3)) {
        wake->backoff = NGX_CHAT_REDIS_WAKE_FIRST;
        wake->told = 0;
        wake->polled = ngx_current_msec;
        wake->news(wake, NULL);

    } else if (reply->type == REDIS_REPLY_ERROR) {
        end_subscription(wake, ngx_chat_redis_error_reason(reply, text));
    }

    freeReplyObject(reply);
}


/* Connects to a node; to another one, if there is one. */
static void
subscribe(ngx_chat_redis_notify_t *wake)
{
    if (wake->node != NULL) {
        wake->node->is_used = 0;
    }

    wake->node = ngx_chat_redis_cluster_any(wake->cluster);
    wake->node->is_used = 1;
    wake->conn.host = wake->node->client.conn.host;

    if (wake->conn.host != NULL) {
        ngx_chat_redis_conn_open(&wake->conn);
    }
}


static void
on_retry(ngx_event_t *ev)
{
    ngx_chat_redis_notify_t *wake = ev->data;

    if (wake->node->client.state == CHAT_STORE_UP
        && wake->backoff > NGX_CHAT_REDIS_WAKE_FIRST * 2)
    {
        wake->news(wake, NULL);
    }

    subscribe(wake);
}


static void
on_ping(ngx_event_t *ev)
{
    const ngx_str_t          words[] = { ngx_string("PING") };
    ngx_chat_redis_notify_t *wake = ev->data;

    if (wake->silent) {
        end_subscription(wake, "no answer in time");
        return;
    }

    if (wake->cluster->known && wake->node->slots == 0) {
        /* it may have been left by the others, who tell it nothing */
        end_subscription(wake, "it has no slots");
        return;
    }

    if (ngx_current_msec - wake->polled > NGX_CHAT_REDIS_POLL) {
        wake->polled = ngx_current_msec;
        wake->news(wake, NULL);
    }

    wake->silent = 1;
    ngx_chat_redis_conn_command(&wake->conn, words, 1);
    ngx_chat_redis_timer(ev, ngx_chat_redis_jitter(NGX_CHAT_REDIS_PING));
}


void
ngx_chat_redis_notify_move(ngx_chat_redis_notify_t *wake)
{
    if (wake->ping.timer_set) {
        ngx_del_timer(&wake->ping);
    }

    if (wake->retry.timer_set) {
        ngx_del_timer(&wake->retry);
    }

    ngx_chat_redis_conn_close(&wake->conn);
    wake->backoff = NGX_CHAT_REDIS_WAKE_FIRST;
    subscribe(wake);
}


void
ngx_chat_redis_notify_open(ngx_chat_redis_notify_t  *wake,
                           ngx_chat_redis_cluster_t *cluster,
                           chat_str_t                worker)
{
    wake->cluster = cluster;
    wake->worker = worker;
    wake->backoff = NGX_CHAT_REDIS_WAKE_FIRST;
    wake->polled = ngx_current_msec;

    wake->conn.conf = cluster->conf;
    wake->conn.log = cluster->log;
    wake->conn.data = wake;
    wake->conn.ready = on_ready;
    wake->conn.reply = on_reply;
    wake->conn.closed = on_closed;

    wake->retry.handler = on_retry;
    wake->retry.data = wake;
    wake->retry.log = cluster->log;
    wake->ping.handler = on_ping;
    wake->ping.data = wake;
    wake->ping.log = cluster->log;

    subscribe(wake);
}


void
ngx_chat_redis_notify_close(ngx_chat_redis_notify_t *wake)
{
    ngx_chat_redis_conn_close(&wake->conn);
}
