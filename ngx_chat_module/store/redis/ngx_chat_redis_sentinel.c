/*
 * ngx_chat_redis_sentinel.c: see ngx_chat_redis_sentinel.h.
 *
 * The question and the subscription go out in one write, so that no change
 * falls between them. A connection that is lost is made again, to the next
 * sentinel: its answer tells what was missed. The last answer stands,
 * whichever sentinel gave it; whether it is a master, its greeting shows.
 * Must not know: commands, facts.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "store/redis/ngx_chat_redis_sentinel.h"

#define NGX_CHAT_REDIS_SENTINEL_FIRST 20 /* ms */
#define NGX_CHAT_REDIS_SENTINEL_LAST 1000
#define NGX_CHAT_REDIS_SENTINEL_PING 1000


static void
start_asking(ngx_chat_redis_sentinel_t *sentinel)
{
    if (sentinel->timer.timer_set) {
        ngx_del_timer(&sentinel->timer);
    }

    sentinel->state = NGX_CHAT_REDIS_SENTINEL_ASKS;
    sentinel->conn.host = &sentinel->conf.hosts[sentinel->at];
    ngx_chat_redis_conn_open(&sentinel->conn);
}


/* None of them is of use. */
static void
report_failure(ngx_chat_redis_sentinel_t *sentinel, const char *why)
{
    u_char text[sizeof(sentinel->conn.text) + 300], *end;

    end = ngx_slprintf(text, text + sizeof(text) - 1, "the sentinel %V: %s",
                       &sentinel->conn.host->name, why);
    *end = '\0';
    sentinel->failed = 0;

    if (sentinel->seeking) {
        sentinel->seeking = 0;
        sentinel->lost(sentinel, (const char *) text);

    } else if (!sentinel->told) {
        sentinel->told = 1;
        ngx_log_error(NGX_LOG_ERR, sentinel->conn.log, 0,
                      "chat: nobody tells where the store %V moves: %s",
                      &sentinel->conf.name, text);
    }
}


/* This one is of no use; the next one is asked, at once or later. */
static void
next_sentinel(ngx_chat_redis_sentinel_t *sentinel, const char *why)
{
    ngx_uint_t asked = sentinel->state == NGX_CHAT_REDIS_SENTINEL_ASKS;

    ngx_chat_redis_conn_close(&sentinel->conn);
    sentinel->state = NGX_CHAT_REDIS_SENTINEL_RESTS;
    sentinel->at = (sentinel->at + 1) % sentinel->conf.nhosts;

    if (asked && ++sentinel->failed < sentinel->conf.nhosts) {
        start_asking(sentinel);
        return;
    }

    ngx_chat_redis_timer(&sentinel->timer,
                         ngx_chat_redis_jitter(sentinel->backoff));
    sentinel->backoff =
        ngx_min(2 * sentinel->backoff, NGX_CHAT_REDIS_SENTINEL_LAST);

    if (asked) {
        report_failure(sentinel, why);
    }
}


/* The connection has failed or ended. */
static void
on_closed(ngx_chat_redis_conn_t *conn, const char *why)
{
    next_sentinel(conn->data, why);
}


static void
on_ready(ngx_chat_redis_conn_t *conn)
{
    ngx_chat_redis_sentinel_t *sentinel = conn->data;
    const ngx_str_t            ask[] = { ngx_string("SENTINEL"),
                                         ngx_string("get-master-addr-by-name"),
                                         sentinel->conf.master };
    const ngx_str_t            listen[] = { ngx_string("SUBSCRIBE"),
                                            ngx_string("+switch-master") };

    ngx_chat_redis_conn_command(conn, ask, 3);
    ngx_chat_redis_conn_command(conn, listen, 2);
    ngx_chat_redis_timer(&sentinel->timer, sentinel->conf.timeout);
}


/* A sentinel says that the master is there; NGX_ERROR: that is no place. */
static ngx_int_t
take_address(ngx_chat_redis_sentinel_t *sentinel, ngx_str_t host,
             ngx_str_t port)
{
    ngx_int_t                    n = ngx_atoi(port.data, port.len);
    ngx_uint_t                   is_new;
    ngx_chat_redis_address_t    *place = sentinel->places;
    const ngx_chat_redis_host_t *was = sentinel->master;

    is_new = was == NULL || !ngx_chat_redis_host_is(was, &host, n);

    if (is_new) {
        /* what a connection may stand on is left as it is */
        place += was == &place->host ? 1 : 0;

        if (ngx_chat_redis_address_set(place, &host, n) != NGX_OK) {
            return NGX_ERROR;
        }

        sentinel->master = &place->host;
    }

    if (sentinel->seeking || is_new) {
        sentinel->seeking = 0;
        sentinel->found(sentinel, sentinel->master, is_new && was != NULL);
    }

    return NGX_OK;
}


static ngx_str_t
reply_text(const redisReply *reply)
{
    ngx_str_t text = ngx_null_string;

    if (reply->type == REDIS_REPLY_STRING) {
        text.data = (u_char *) reply->str;
        text.len = (size_t) reply->len;
    }

    return text;
}


/* Where it is, or that the sentinel knows nothing of it. */
static void
on_address(ngx_chat_redis_sentinel_t *sentinel, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2) {
        next_sentinel(sentinel, "it does not know this master");
        return;
    }

    if (take_address(sentinel, reply_text(reply->element[0]),
                     reply_text(reply->element[1]))
        != NGX_OK)
    {
        next_sentinel(sentinel, "it tells no address");
        return;
    }

    sentinel->state = NGX_CHAT_REDIS_SENTINEL_LISTENS;
    sentinel->failed = 0;
    sentinel->silent = 0;
    sentinel->told = 0;
    ngx_chat_redis_timer(&sentinel->timer, NGX_CHAT_REDIS_SENTINEL_PING);
}


/* <master> <old host> <old port> <new host> <new port> */
static void
on_switch_master(ngx_chat_redis_sentinel_t *sentinel, ngx_str_t text)
{
    u_char    *space;
    ngx_str_t  words[5];
    ngx_uint_t n;

    for (n = 0; n < 4; n++) {
        space = ngx_strlchr(text.data, text.data + text.len, ' ');
        if (space == NULL) {
            return;
        }

        words[n].data = text.data;
        words[n].len = space - text.data;
        text.len -= words[n].len + 1;
        text.data = space + 1;
    }

    words[n] = text;

    if (words[0].len == sentinel->conf.master.len
        && ngx_memcmp(words[0].data, sentinel->conf.master.data, words[0].len)
               == 0
        && take_address(sentinel, words[3], words[4]) != NGX_OK)
    {
        next_sentinel(sentinel, "it tells no address");
    }
}


static void
on_reply(ngx_chat_redis_conn_t *conn, redisReply *reply)
{
    u_char                     text[NGX_CHAT_REDIS_REASON];
    ngx_str_t                  kind;
    ngx_chat_redis_sentinel_t *sentinel = conn->data;

    sentinel->silent = 0;

    if (reply->type == REDIS_REPLY_ERROR) {
        next_sentinel(sentinel, ngx_chat_redis_error_reason(reply, text));

    } else if (sentinel->state == NGX_CHAT_REDIS_SENTINEL_ASKS) {
        on_address(sentinel, reply);

    } else if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 3) {
        kind = reply_text(reply->element[0]);

        if (kind.len == 7 && ngx_memcmp(kind.data, "message", 7) == 0) {
            on_switch_master(sentinel, reply_text(reply->element[2]));
        }

    } else {
        /* it has answered a ping: it stays */
        sentinel->backoff = NGX_CHAT_REDIS_SENTINEL_FIRST;
    }

    freeReplyObject(reply);
}


static void
on_timer(ngx_event_t *ev)
{
    const ngx_str_t            words[] = { ngx_string("PING") };
    ngx_chat_redis_sentinel_t *sentinel = ev->data;

    if (sentinel->state == NGX_CHAT_REDIS_SENTINEL_RESTS) {
        start_asking(sentinel);
        return;
    }

    if (sentinel->state == NGX_CHAT_REDIS_SENTINEL_ASKS || sentinel->silent) {
        next_sentinel(sentinel, "no answer in time");
        return;
    }

    sentinel->silent = 1;
    ngx_chat_redis_conn_command(&sentinel->conn, words, 1);
    ngx_chat_redis_timer(ev,
                         ngx_chat_redis_jitter(NGX_CHAT_REDIS_SENTINEL_PING));
}


void
ngx_chat_redis_sentinel_seek(ngx_chat_redis_sentinel_t *sentinel)
{
    sentinel->seeking = 1;
    sentinel->failed = 0;

    if (sentinel->state == NGX_CHAT_REDIS_SENTINEL_ASKS) {
        return;
    }

    if (sentinel->state == NGX_CHAT_REDIS_SENTINEL_LISTENS) {
        sentinel->at = (sentinel->at + 1) % sentinel->conf.nhosts;
    }

    start_asking(sentinel);
}


void
ngx_chat_redis_sentinel_open(ngx_chat_redis_sentinel_t   *sentinel,
                             const ngx_chat_redis_conf_t *conf, ngx_log_t *log)
{
    sentinel->conf = *conf;
    sentinel->conf.scheme = NGX_CHAT_REDIS_ONE;
    sentinel->conf.user = conf->sentinel_user;
    sentinel->conf.password = conf->sentinel_password;
    sentinel->conf.db = 0;

    sentinel->conn.conf = &sentinel->conf;
    sentinel->conn.log = log;
    sentinel->conn.data = sentinel;
    sentinel->conn.ready = on_ready;
    sentinel->conn.reply = on_reply;
    sentinel->conn.closed = on_closed;

    sentinel->timer.handler = on_timer;
    sentinel->timer.data = sentinel;
    sentinel->timer.log = log;
    sentinel->backoff = NGX_CHAT_REDIS_SENTINEL_FIRST;
    sentinel->at = ngx_random() % conf->nhosts;
}


void
ngx_chat_redis_sentinel_close(ngx_chat_redis_sentinel_t *sentinel)
{
    ngx_chat_redis_conn_close(&sentinel->conn);
}
