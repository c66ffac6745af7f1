/*
 * ngx_chat_redis_wake.c: see ngx_chat_redis_wake.h.
 *
 * A ping each second shows that the connection is still there: a subscriber
 * that only listens would never know. Without a subscription everything is
 * looked at with each try to get one. Must not know: facts.
 */

#include "ngx_chat_redis_wake.h"

#define NGX_CHAT_REDIS_PING 1000 /* ms */
#define NGX_CHAT_REDIS_POLL 15000
#define NGX_CHAT_REDIS_WAKE_FIRST 20
#define NGX_CHAT_REDIS_WAKE_LAST 300


static void
ngx_chat_redis_wake_send(ngx_chat_redis_wake_t *wake, const char *command,
                         chat_str_t arg)
{
    size_t      len[2];
    const char *argv[2];

    argv[0] = command;
    len[0] = ngx_strlen(command);
    argv[1] = (const char *) arg.data;
    len[1] = arg.len;

    /* a failure shows in the missing reply */
    (void) ngx_chat_redis_conn_send(&wake->conn, arg.len ? 2 : 1, argv, len);
}


static void
ngx_chat_redis_wake_ready(ngx_chat_redis_conn_t *conn)
{
    u_char                 channel[sizeof(NGX_CHAT_REDIS_CHANNEL) + 64], *end;
    ngx_chat_redis_wake_t *wake = conn->data;

    end = ngx_slprintf(channel, channel + sizeof(channel),
                       NGX_CHAT_REDIS_CHANNEL "%*s", wake->worker.len,
                       wake->worker.data);
    wake->silent = 0;
    ngx_chat_redis_wake_send(wake, "SUBSCRIBE",
                             chat_str(channel, (size_t) (end - channel)));
    ngx_chat_redis_timer(&wake->ping, NGX_CHAT_REDIS_PING);
}


static void
ngx_chat_redis_wake_closed(ngx_chat_redis_conn_t *conn, const char *why)
{
    ngx_chat_redis_wake_t *wake = conn->data;

    if (wake->ping.timer_set) {
        ngx_del_timer(&wake->ping);
    }

    /* what befalls both connections is told once, by the other one */
    if (!wake->told && wake->backoff > NGX_CHAT_REDIS_WAKE_FIRST
        && wake->client->state == CHAT_STORE_UP)
    {
        wake->told = 1;
        ngx_log_error(NGX_LOG_ERR, conn->log, 0,
                      "chat: no subscription to the store %V: %s",
                      &conn->conf->name, why);
    }

    ngx_chat_redis_timer(&wake->retry, ngx_chat_redis_jitter(wake->backoff));
    wake->backoff = ngx_min(2 * wake->backoff, NGX_CHAT_REDIS_WAKE_LAST);
}


static void
ngx_chat_redis_wake_end(ngx_chat_redis_wake_t *wake, const char *why)
{
    ngx_chat_redis_conn_close(&wake->conn);
    ngx_chat_redis_wake_closed(&wake->conn, why);
}


/* 1 if the reply is an array of so many whose first is this text. */
static ngx_uint_t
ngx_chat_redis_wake_is(const redisReply *reply, const char *kind, size_t n)
{
    size_t len = ngx_strlen(kind);

    return reply->type == REDIS_REPLY_ARRAY && reply->elements == n
           && reply->element[0]->type == REDIS_REPLY_STRING
           && (size_t) reply->element[0]->len == len
           && ngx_memcmp(reply->element[0]->str, kind, len) == 0;
}


static void
ngx_chat_redis_wake_reply(ngx_chat_redis_conn_t *conn, redisReply *reply)
{
    ngx_chat_redis_wake_t *wake = conn->data;
    u_char                 text[200], *end;

    wake->silent = 0;

    if (ngx_chat_redis_wake_is(reply, "message", 3)) {
        if (reply->element[2]->type == REDIS_REPLY_STRING
            && reply->element[2]->len == 16)
        {
            wake->news(wake, reply->element[2]->str);
        }

    } else if (ngx_chat_redis_wake_is(reply, "subscribe", 3)) {
        wake->backoff = NGX_CHAT_REDIS_WAKE_FIRST;
        wake->told = 0;
        wake->polled = ngx_current_msec;
        wake->news(wake, NULL);

    } else if (reply->type == REDIS_REPLY_ERROR) {
        end = ngx_slprintf(text, text + sizeof(text) - 1, "it answers %*s",
                           (size_t) reply->len, reply->str);
        *end = '\0';
        ngx_chat_redis_wake_end(wake, (char *) text);
    }

    freeReplyObject(reply);
}


static void
ngx_chat_redis_wake_retry(ngx_event_t *ev)
{
    ngx_chat_redis_wake_t *wake = ev->data;

    if (wake->client->state == CHAT_STORE_UP
        && wake->backoff > NGX_CHAT_REDIS_WAKE_FIRST * 2)
    {
        wake->news(wake, NULL);
    }

    ngx_chat_redis_conn_open(&wake->conn);
}


static void
ngx_chat_redis_wake_ping(ngx_event_t *ev)
{
    ngx_chat_redis_wake_t *wake = ev->data;

    if (wake->silent) {
        ngx_chat_redis_wake_end(wake, "no answer in time");
        return;
    }

    if (ngx_current_msec - wake->polled > NGX_CHAT_REDIS_POLL) {
        wake->polled = ngx_current_msec;
        wake->news(wake, NULL);
    }

    wake->silent = 1;
    ngx_chat_redis_wake_send(wake, "PING", chat_str(NULL, 0));
    ngx_chat_redis_timer(ev, ngx_chat_redis_jitter(NGX_CHAT_REDIS_PING));
}


void
ngx_chat_redis_wake_move(ngx_chat_redis_wake_t       *wake,
                         const ngx_chat_redis_host_t *host)
{
    if (wake->ping.timer_set) {
        ngx_del_timer(&wake->ping);
    }

    if (wake->retry.timer_set) {
        ngx_del_timer(&wake->retry);
    }

    ngx_chat_redis_conn_close(&wake->conn);
    wake->backoff = NGX_CHAT_REDIS_WAKE_FIRST;
    wake->conn.host = host;
    ngx_chat_redis_conn_open(&wake->conn);
}


void
ngx_chat_redis_wake_open(ngx_chat_redis_wake_t   *wake,
                         ngx_chat_redis_client_t *client, chat_str_t worker)
{
    wake->client = client;
    wake->worker = worker;
    wake->backoff = NGX_CHAT_REDIS_WAKE_FIRST;
    wake->polled = ngx_current_msec;

    wake->conn.conf = client->conn.conf;
    wake->conn.host = client->conn.host;
    wake->conn.log = client->conn.log;
    wake->conn.data = wake;
    wake->conn.ready = ngx_chat_redis_wake_ready;
    wake->conn.reply = ngx_chat_redis_wake_reply;
    wake->conn.closed = ngx_chat_redis_wake_closed;

    wake->retry.handler = ngx_chat_redis_wake_retry;
    wake->retry.data = wake;
    wake->retry.log = client->conn.log;
    wake->ping.handler = ngx_chat_redis_wake_ping;
    wake->ping.data = wake;
    wake->ping.log = client->conn.log;

    if (wake->conn.host != NULL) {
        ngx_chat_redis_conn_open(&wake->conn);
    }
}


void
ngx_chat_redis_wake_close(ngx_chat_redis_wake_t *wake)
{
    ngx_chat_redis_conn_close(&wake->conn);
}
