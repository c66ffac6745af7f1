/*
 * ngx_chat_redis_client.c: see ngx_chat_redis_client.h.
 *
 * Connects, connects again, and knows whether the server is there. Greetings
 * go out first and their replies open the way for the rest, so that a server
 * that is still loading fails a connection and not the commands.
 * Must not know: what commands are for.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "store/redis/ngx_chat_redis_client.h"

#define NGX_CHAT_REDIS_FIRST_RETRY 10 /* ms */
#define NGX_CHAT_REDIS_LAST_RETRY 300
#define NGX_CHAT_REDIS_GIVE_UP 700 /* ms since the last reply */
#define NGX_CHAT_REDIS_AT_LEAST 100
#define NGX_CHAT_REDIS_STEADY 1000 /* ms; a shorter stay is none */


/* 1 if text was not the last thing told. */
static ngx_uint_t
is_news(ngx_chat_redis_client_t *client, const char *text, size_t len)
{
    len = ngx_min(len, sizeof(client->told));

    if (len == client->told_len && ngx_memcmp(client->told, text, len) == 0) {
        return 0;
    }

    ngx_memcpy(client->told, text, len);
    client->told_len = len;
    return 1;
}


/*
 * The length of an error without " script: SHA1, on ..." at its end: the same
 * error is then the same text in each script, and outside of them. Redis 8
 * has the word "script:" in the middle as well.
 */
static size_t
without_script(u_char *text, size_t len)
{
    u_char *at = text, *end = text + len;

    while ((at = ngx_strlcasestrn(at, end, (u_char *) " script: ", 8))) {
        if (end - at > 9 + 40 && at[9 + 40] == ',') {
            return (size_t) (at - text);
        }

        at++;
    }

    return len;
}


void
ngx_chat_redis_log_error(ngx_chat_redis_client_t *client,
                         const redisReply        *reply)
{
    size_t len;
    u_char text[NGX_CHAT_REDIS_ERROR] = "a reply of another shape";

    len = reply->type == REDIS_REPLY_ERROR ? ngx_chat_redis_error(reply, text)
                                           : ngx_strlen(text);

    len = without_script(text, len);

    if (!is_news(client, (const char *) text, len)
        && ngx_current_msec - client->complained < 60000)
    {
        return;
    }

    client->complained = ngx_current_msec;
    ngx_log_error(NGX_LOG_ERR, client->conn.log, 0,
                  "chat: the store %V answered: %*s", client->name, len, text);
}


static void
set_state(ngx_chat_redis_client_t *client, chat_store_state_e state)
{
    client->state = state;
    client->changed(client);
}


/* 1 if the connection is there and the greetings are over. */
static ngx_uint_t
is_open(ngx_chat_redis_client_t *client)
{
    return client->conn.is_ready && client->setups == 0;
}


/* After a while without it, those who wait are told. */
static void
on_give_up(ngx_event_t *ev)
{
    ngx_chat_redis_client_t *client = ev->data;

    if (client->state == CHAT_STORE_RECONNECTING) {
        ngx_chat_redis_expire(client, 1);
        set_state(client, CHAT_STORE_UNAVAILABLE);
    }
}


static void
set_reconnecting(ngx_chat_redis_client_t *client)
{
    ngx_msec_t silent = ngx_current_msec - client->heard;

    client->state = CHAT_STORE_RECONNECTING;
    client->lost_at = ngx_current_msec;
    ngx_chat_redis_timer(&client->giveup, silent + NGX_CHAT_REDIS_AT_LEAST
                                                  < NGX_CHAT_REDIS_GIVE_UP
                                              ? NGX_CHAT_REDIS_GIVE_UP - silent
                                              : NGX_CHAT_REDIS_AT_LEAST);
}


/* Its commands wait for the next one. */
void
ngx_chat_redis_client_lost(ngx_chat_redis_client_t *client, const char *why)
{
    ngx_chat_redis_unsend(client);

    client->backoff = ngx_min(2 * client->backoff, NGX_CHAT_REDIS_LAST_RETRY);

    if (client->state == CHAT_STORE_UP) {
        if (ngx_current_msec - client->up_at >= NGX_CHAT_REDIS_STEADY) {
            client->backoff = NGX_CHAT_REDIS_FIRST_RETRY;
            client->told_len = 0;
        }

        client->backoff = ngx_min(client->backoff, NGX_CHAT_REDIS_AT_LEAST);
        set_reconnecting(client);
    }

    if (is_news(client, why, ngx_strlen(why))) {
        ngx_log_error(NGX_LOG_ERR, client->conn.log, 0,
                      "chat: the store %V is away: %s", client->name, why);
    }

    ngx_chat_redis_timer(&client->retry,
                         ngx_chat_redis_jitter(client->backoff));
}


static void
on_deadline(ngx_event_t *ev)
{
    ngx_chat_redis_cmd_t    *cmd;
    ngx_chat_redis_client_t *client = ev->data;

    if (!ngx_queue_empty(&client->cmds)) {
        cmd = ngx_queue_data(ngx_queue_head(&client->cmds),
                             ngx_chat_redis_cmd_t, queue);

        if (cmd->sent
            && (ngx_msec_int_t) (cmd->deadline - ngx_current_msec) <= 0) {
            ngx_chat_redis_conn_close(&client->conn);
            ngx_chat_redis_client_lost(client, "no answer in time");
        }
    }

    ngx_chat_redis_expire(client, 0);
    ngx_chat_redis_arm(client);
}


static void
on_retry(ngx_event_t *ev)
{
    ngx_chat_redis_client_t *client = ev->data;

    if (client->seek != NULL) {
        client->seek(client);
        return;
    }

    ngx_chat_redis_conn_open(&client->conn);
}


void
ngx_chat_redis_client_move(ngx_chat_redis_client_t     *client,
                           const ngx_chat_redis_host_t *host)
{
    ngx_chat_redis_conn_close(&client->conn);
    ngx_chat_redis_unsend(client);

    if (client->retry.timer_set) {
        ngx_del_timer(&client->retry);
    }

    if (client->state == CHAT_STORE_UP) {
        set_reconnecting(client);
    }

    if (client->conn.host != host) {
        ngx_chat_redis_replay(client);
    }

    client->conn.host = host;
    ngx_chat_redis_conn_open(&client->conn);
}


static void
on_closed(ngx_chat_redis_conn_t *conn, const char *why)
{
    ngx_chat_redis_client_lost(conn->data, why);
}


static void
on_ready(ngx_chat_redis_conn_t *conn)
{
    ngx_chat_redis_client_t *client = conn->data;

    client->greet(client);
    ngx_post_event(&client->flush, &ngx_posted_events);
}


/* The greetings are over: the store is there. */
static void
set_up(ngx_chat_redis_client_t *client)
{
    ngx_uint_t level = client->was_up ? NGX_LOG_NOTICE : NGX_LOG_INFO;

    if (client->giveup.timer_set) {
        ngx_del_timer(&client->giveup);
    }

    ngx_log_error(level, client->conn.log, 0,
                  "chat: the store %V is %s after %M ms", client->name,
                  client->was_up ? "back" : "connected",
                  ngx_current_msec - client->lost_at);

    client->was_up = 1;
    client->up_at = ngx_current_msec;
    set_state(client, CHAT_STORE_UP);
    ngx_post_event(&client->flush, &ngx_posted_events);
}


static void
on_refused(ngx_chat_redis_client_t *client, redisReply *reply)
{
    u_char      text[NGX_CHAT_REDIS_REASON];
    const char *why = ngx_chat_redis_error_reason(reply, text);

    freeReplyObject(reply);
    ngx_chat_redis_conn_close(&client->conn);
    ngx_chat_redis_client_lost(client, why);
}


static void
on_reply(ngx_chat_redis_conn_t *conn, redisReply *reply)
{
    ngx_uint_t               setup;
    ngx_chat_redis_cmd_t    *cmd;
    ngx_chat_redis_client_t *client = conn->data;

    cmd = ngx_queue_empty(&client->cmds)
              ? NULL
              : ngx_queue_data(ngx_queue_head(&client->cmds),
                               ngx_chat_redis_cmd_t, queue);

    if (cmd == NULL || !cmd->sent) {
        freeReplyObject(reply);
        ngx_chat_redis_conn_close(conn);
        ngx_chat_redis_client_lost(client, "a reply that nobody asked for");
        return;
    }

    /* a server that takes no writes is as good as none: it stays queued */
    setup = cmd->setup;
    if ((setup && reply->type == REDIS_REPLY_ERROR)
        || ngx_chat_redis_is_readonly(reply))
    {
        on_refused(client, reply);
        return;
    }

    if (cmd->replayable && (client->seek || client->declined)
        && reply->type != REDIS_REPLY_ERROR)
    {
        ngx_chat_redis_replay_add(client, cmd);
    }

    client->heard = ngx_current_msec;
    ngx_chat_redis_remove(client, cmd);

    if (client->declined == NULL || !client->declined(client, cmd, reply)) {
        cmd->done(cmd, reply);
    }

    if (setup && is_open(client)) {
        set_up(client);
    }
}


static void
init_event(ngx_chat_redis_client_t *client, ngx_event_t *ev,
           void (*handler)(ngx_event_t *ev))
{
    ev->handler = handler;
    ev->data = client;
    ev->log = client->conn.log;
}


void
ngx_chat_redis_client_open(ngx_chat_redis_client_t     *client,
                           const ngx_chat_redis_conf_t *conf, ngx_log_t *log)
{
    client->conn.conf = conf;
    client->conn.host = client->seek        ? NULL
                        : client->conn.host ? client->conn.host
                                            : conf->hosts;
    client->name = client->name ? client->name : &conf->name;
    client->conn.log = log;
    client->conn.data = client;
    client->conn.ready = on_ready;
    client->conn.reply = on_reply;
    client->conn.closed = on_closed;

    ngx_queue_init(&client->cmds);
    ngx_queue_init(&client->replayed);
    init_event(client, &client->timer, on_deadline);
    init_event(client, &client->retry, on_retry);
    init_event(client, &client->giveup, on_give_up);
    init_event(client, &client->flush, ngx_chat_redis_flush);

    client->heard = ngx_current_msec;
    client->backoff = NGX_CHAT_REDIS_FIRST_RETRY;
    set_reconnecting(client);
    on_retry(&client->retry);
}


void
ngx_chat_redis_client_close(ngx_chat_redis_client_t *client)
{
    size_t       i;
    ngx_event_t *timers[] = { &client->timer, &client->retry,
                              &client->giveup };

    for (i = 0; i < sizeof(timers) / sizeof(timers[0]); i++) {
        if (timers[i]->timer_set) {
            ngx_del_timer(timers[i]);
        }
    }

    if (client->flush.posted) {
        ngx_delete_posted_event(&client->flush);
    }

    ngx_chat_redis_conn_close(&client->conn);
    ngx_chat_redis_empty(client);
}
