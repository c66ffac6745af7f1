/*
 * ngx_chat_redis_sentinel.c: see ngx_chat_redis_sentinel.h.
 *
 * The query for the address and the subscription go out in one write, so that
 * no change falls between them. After a change the Sentinel is queried again
 * over a new connection, because a subscribed one takes no query. After a
 * disconnection the next Sentinel is queried, so that no change is missed. The
 * last address counts, whichever Sentinel sent it; the handshake shows whether
 * it is a master's.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/redis/ngx_chat_redis_sentinel.h"

#define NGX_CHAT_REDIS_SENTINEL_FIRST 20 /* ms */
#define NGX_CHAT_REDIS_SENTINEL_LAST 1000
#define NGX_CHAT_REDIS_SENTINEL_PING 1000


static void
query(ngx_chat_redis_conn_t *conn)
{
    ngx_chat_redis_sentinel_t *sentinel = conn->data;

    sentinel->querying = 1;
    conn->host = &sentinel->conf.hosts[sentinel->at];
    ngx_chat_redis_conn_open(conn);
}


/* This Sentinel has failed: queries the next one, now or after a while. */
static void
next_sentinel(ngx_chat_redis_conn_t *conn, const char *why)
{
    u_char                     text[sizeof(conn->why) + 300], *end;
    ngx_chat_redis_sentinel_t *sentinel = conn->data;
    ngx_uint_t                 queried = sentinel->querying;

    sentinel->querying = 0;
    sentinel->at = (sentinel->at + 1) % sentinel->conf.nhosts;

    if (queried && ++sentinel->failed < sentinel->conf.nhosts) {
        query(conn);
        return;
    }

    ngx_chat_redis_conn_retry(conn, NGX_CHAT_REDIS_SENTINEL_LAST);

    if (!queried) {
        return;
    }

    /* all of them have failed */
    end = ngx_slprintf(text, text + sizeof(text) - 1, "the sentinel %V: %s",
                       &sentinel->conn.host->name, why);
    *end = '\0';
    sentinel->failed = 0;

    if (sentinel->seeking) {
        sentinel->seeking = 0;
        sentinel->found(sentinel, NULL, 0, (const char *) text);

    } else if (!sentinel->logged) {
        sentinel->logged = 1;
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "chat: no Sentinel of the store %V reachable: a "
                      "failover will go unnoticed: %s",
                      &sentinel->conf.name, text);
    }
}


static void
on_ready(ngx_chat_redis_conn_t *conn)
{
    ngx_chat_redis_sentinel_t *sentinel = conn->data;

    ngx_chat_redis_conn_command(conn, "SENTINEL get-master-addr-by-name %V",
                                &sentinel->conf.master);
    ngx_chat_redis_conn_command(conn, "SUBSCRIBE +switch-master");

    /* the reply is due sooner than that to a PING */
    conn->silent = 1;
    ngx_chat_redis_timer(&conn->timer, sentinel->conf.timeout);
}


/* The reply to the query. */
static void
on_address(ngx_chat_redis_sentinel_t *sentinel, const redisReply *reply)
{
    ngx_int_t                    port;
    chat_str_t                   host, text;
    ngx_uint_t                   is_new;
    ngx_chat_redis_address_t    *address = sentinel->addresses;
    const ngx_chat_redis_host_t *was = sentinel->master;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2) {
        next_sentinel(&sentinel->conn, "it does not know this master");
        return;
    }

    host = ngx_chat_redis_text(reply->element[0]);
    text = ngx_chat_redis_text(reply->element[1]);
    port = ngx_atoi((u_char *) text.data, text.len);
    is_new = was == NULL || !ngx_chat_redis_host_is(was, host, port);

    if (is_new) {
        /* a connection may use the old address still */
        address += was == &address->host ? 1 : 0;

        if (ngx_chat_redis_address_set(address, host, port) != NGX_OK) {
            next_sentinel(&sentinel->conn, "it sends no valid address");
            return;
        }

        sentinel->master = &address->host;
    }

    sentinel->querying = 0;
    sentinel->failed = 0;

    if (sentinel->logged) {
        sentinel->logged = 0;
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "chat: a Sentinel of the store %V is reachable again",
                      &sentinel->conf.name);
    }

    if (sentinel->seeking || is_new) {
        sentinel->seeking = 0;
        sentinel->found(sentinel, sentinel->master, is_new && was != NULL,
                        NULL);
    }
}


static void
on_reply(ngx_chat_redis_conn_t *conn, redisReply *reply)
{
    chat_str_t                 change;
    ngx_chat_redis_sentinel_t *sentinel = conn->data;

    if (reply->type == REDIS_REPLY_ERROR) {
        next_sentinel(conn, reply->str);

    } else if (sentinel->querying) {
        on_address(sentinel, reply);

    } else if (ngx_chat_redis_is_message(reply, "message")) {
        change = ngx_chat_redis_text(reply->element[2]);

        if (chat_str_eq(chat_str_cut(&change, ' '),
                        ngx_chat_str(&sentinel->conf.master)))
        {
            ngx_chat_redis_conn_retry(conn, NGX_CHAT_REDIS_SENTINEL_LAST);
        }

    } else if (!ngx_chat_redis_is_message(reply, "subscribe")) {
        /* the reply to a PING: the connection lasts */
        conn->backoff = NGX_CHAT_REDIS_SENTINEL_FIRST;
    }

    freeReplyObject(reply);
}


void
ngx_chat_redis_sentinel_seek(ngx_chat_redis_sentinel_t *sentinel)
{
    sentinel->seeking = 1;
    sentinel->failed = 0;

    if (sentinel->querying) {
        return;
    }

    if (sentinel->conn.is_ready) {
        sentinel->at = (sentinel->at + 1) % sentinel->conf.nhosts;
    }

    query(&sentinel->conn);
}


void
ngx_chat_redis_sentinel_open(ngx_chat_redis_sentinel_t   *sentinel,
                             const ngx_chat_redis_conf_t *conf)
{
    sentinel->conf = *conf;
    sentinel->conf.scheme = NGX_CHAT_REDIS_ONE;
    sentinel->conf.user = conf->sentinel_user;
    sentinel->conf.password = conf->sentinel_password;
    sentinel->conf.db = 0;

    sentinel->conn.conf = &sentinel->conf;
    sentinel->conn.data = sentinel;
    sentinel->conn.backoff = NGX_CHAT_REDIS_SENTINEL_FIRST;
    sentinel->conn.retry = query;
    sentinel->conn.ping = NGX_CHAT_REDIS_SENTINEL_PING;
    sentinel->conn.ready = on_ready;
    sentinel->conn.reply = on_reply;
    sentinel->conn.closed = next_sentinel;

    sentinel->at = ngx_random() % conf->nhosts;
}
