/*
 * ngx_chat_redis_client.c: see ngx_chat_redis_client.h.
 *
 * The state machine of a connection (client->link); step() is its code and
 * the only place that changes it:
 *
 *   WAITING ─ retry ─► LOCATING ─ located ─► CONNECTING ─ ready ─► SETUP
 *      ▲         │    (with Sentinel)            ▲                   │
 *      │         └───────(without)───────────────┘           all setup replies
 *      │                                                             ▼
 *      └────────── failed, from every state ──────────────────── CONNECTED
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "store/redis/ngx_chat_redis_client.h"

#define NGX_CHAT_REDIS_FIRST_RETRY 10 /* ms */
#define NGX_CHAT_REDIS_LAST_RETRY 300
#define NGX_CHAT_REDIS_LOST_RETRY 100 /* after a short connection, at most */
#define NGX_CHAT_REDIS_STEADY 1000    /* a shorter connection is a failure */
#define NGX_CHAT_REDIS_GIVE_UP 700    /* since the last reply */
#define NGX_CHAT_REDIS_GIVE_UP_MIN 100
#define NGX_CHAT_REDIS_LOG_AGAIN 60000 /* the same error */

typedef enum {
    RETRY,
    LOCATED,
    READY,
    SETUP_DONE,
    FAILED
} event_e;


/* 1 if text is not the last reason or error in the log. */
static ngx_uint_t
is_new(ngx_chat_redis_client_t *client, const u_char *text, size_t len)
{
    len = ngx_min(len, sizeof(client->logged));

    if (len == client->logged_len
        && ngx_memcmp(client->logged, text, len) == 0) {
        return 0;
    }

    ngx_memcpy(client->logged, text, len);
    client->logged_len = len;
    return 1;
}


/*
 * The length of an error without " script: SHA1, on ..." at its end, so that
 * the same error is the same text in each script and outside of them. Redis 8
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
    u_char text[NGX_CHAT_REDIS_ERROR] = "a reply of another type";

    len = reply->type == REDIS_REPLY_ERROR ? ngx_chat_redis_error(reply, text)
                                           : ngx_strlen(text);

    len = without_script(text, len);

    if (is_new(client, text, len)
        || ngx_current_msec - client->logged_at >= NGX_CHAT_REDIS_LOG_AGAIN)
    {
        client->logged_at = ngx_current_msec;
        ngx_log_error(NGX_LOG_ERR, client->conn.log, 0,
                      "chat: the store %V refused a command: %*s",
                      client->name, len, text);
    }
}


/*
 * Commands wait for a connection until NGX_CHAT_REDIS_GIVE_UP after the last
 * reply: then those that are awaited fail, and new ones fail at once.
 */
static void
set_reconnecting(ngx_chat_redis_client_t *client)
{
    ngx_msec_t silent = ngx_current_msec - client->replied;

    client->state = CHAT_STORE_RECONNECTING;
    client->down_since = ngx_current_msec;
    ngx_chat_redis_timer(&client->give_up,
                         silent + NGX_CHAT_REDIS_GIVE_UP_MIN
                                 < NGX_CHAT_REDIS_GIVE_UP
                             ? NGX_CHAT_REDIS_GIVE_UP - silent
                             : NGX_CHAT_REDIS_GIVE_UP_MIN);
}


static void
on_give_up(ngx_event_t *ev)
{
    ngx_chat_redis_client_t *client = ev->data;

    if (client->state == CHAT_STORE_RECONNECTING) {
        ngx_chat_redis_expire(client, 1);
        client->state = CHAT_STORE_UNAVAILABLE;
        client->changed(client);
    }
}


static void
set_up(ngx_chat_redis_client_t *client)
{
    ngx_uint_t level = client->was_up ? NGX_LOG_NOTICE : NGX_LOG_INFO;

    if (client->give_up.timer_set) {
        ngx_del_timer(&client->give_up);
    }

    ngx_log_error(level, client->conn.log, 0,
                  "chat: the store %V is %s after %M ms", client->name,
                  client->was_up ? "available again" : "connected",
                  ngx_current_msec - client->down_since);

    client->was_up = 1;
    client->up_since = ngx_current_msec;
    client->state = CHAT_STORE_UP;
    client->changed(client);
    ngx_post_event(&client->flush, &ngx_posted_events);
}


/*
 * Decides when to connect again: after NGX_CHAT_REDIS_FIRST_RETRY if the
 * connection has lasted, else after twice as long as the last time, up to a
 * bound; with jitter.
 */
static void
schedule_retry(ngx_chat_redis_client_t *client, const char *why)
{
    client->backoff = ngx_min(2 * client->backoff, NGX_CHAT_REDIS_LAST_RETRY);

    if (client->state == CHAT_STORE_UP) {
        client->backoff = ngx_min(client->backoff, NGX_CHAT_REDIS_LOST_RETRY);

        if (ngx_current_msec - client->up_since >= NGX_CHAT_REDIS_STEADY) {
            client->backoff = NGX_CHAT_REDIS_FIRST_RETRY;
            client->logged_len = 0;
        }

        set_reconnecting(client);
    }

    if (is_new(client, (const u_char *) why, ngx_strlen(why))) {
        ngx_log_error(NGX_LOG_ERR, client->conn.log, 0,
                      "chat: the store %V is unavailable: %s", client->name,
                      why);
    }

    ngx_chat_redis_timer(&client->retry,
                         ngx_chat_redis_jitter(client->backoff));
}


/* why: of FAILED. */
static void
step(ngx_chat_redis_client_t *client, event_e event, const char *why)
{
    switch (event) {
    case RETRY:
        if (client->locate != NULL) {
            client->link = NGX_CHAT_REDIS_LOCATING;
            client->locate(client);
            break;
        }

        /* fall through */

    case LOCATED:
        client->link = NGX_CHAT_REDIS_CONNECTING;
        ngx_chat_redis_conn_open(&client->conn);
        break;

    case READY:
        client->link = NGX_CHAT_REDIS_SETUP;
        client->setup(client);

        if (client->setups == 0) {
            step(client, FAILED, "no memory");
            break;
        }

        ngx_post_event(&client->flush, &ngx_posted_events);
        break;

    case SETUP_DONE:
        client->link = NGX_CHAT_REDIS_CONNECTED;
        set_up(client);
        break;

    case FAILED:
        client->link = NGX_CHAT_REDIS_WAITING;
        ngx_chat_redis_conn_close(&client->conn);
        ngx_chat_redis_unsend(client);
        schedule_retry(client, why);
        break;
    }
}


void
ngx_chat_redis_client_disconnect(ngx_chat_redis_client_t *client,
                                 const char              *why)
{
    step(client, FAILED, why);
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
        client->conn.host = host;
    }

    step(client, LOCATED, NULL);
}


static void
on_retry(ngx_event_t *ev)
{
    step(ev->data, RETRY, NULL);
}


static void
on_ready(ngx_chat_redis_conn_t *conn)
{
    step(conn->data, READY, NULL);
}


static void
on_closed(ngx_chat_redis_conn_t *conn, const char *why)
{
    step(conn->data, FAILED, why);
}


static void
on_deadline(ngx_event_t *ev)
{
    ngx_chat_redis_client_t *client = ev->data;
    ngx_chat_redis_cmd_t    *cmd = ngx_chat_redis_next(&client->cmds, NULL);

    if (cmd != NULL && cmd->is_sent
        && (ngx_msec_int_t) (cmd->deadline - ngx_current_msec) <= 0)
    {
        step(client, FAILED, "no reply in time");
    }

    ngx_chat_redis_expire(client, 0);
    ngx_chat_redis_arm(client);
}


/* 1 if reply says that the server takes no writes. */
static ngx_uint_t
is_readonly(const redisReply *reply)
{
    return ngx_chat_redis_is_error(reply, "READONLY ")
           || ngx_chat_redis_is_error(reply, "NOREPLICAS ")
           || ngx_chat_redis_is_error(reply, "MASTERDOWN ")
           /* a script's error before Redis 7 */
           || (reply->type == REDIS_REPLY_ERROR
               && strstr(reply->str, "-READONLY ") != NULL);
}


/* Ends the connection: the server is as good as none. */
static void
on_refused(ngx_chat_redis_client_t *client, redisReply *reply)
{
    u_char why[NGX_CHAT_REDIS_ERROR];

    (void) ngx_chat_redis_error(reply, why);
    freeReplyObject(reply);
    step(client, FAILED, (const char *) why);
}


static void
on_reply(ngx_chat_redis_conn_t *conn, redisReply *reply)
{
    ngx_uint_t               is_setup;
    ngx_chat_redis_client_t *client = conn->data;
    ngx_chat_redis_cmd_t    *cmd = ngx_chat_redis_next(&client->cmds, NULL);

    if (cmd == NULL || !cmd->is_sent) {
        freeReplyObject(reply);
        step(client, FAILED, "a reply without a command");
        return;
    }

    /* the command stays in the queue for the next connection */
    is_setup = cmd->is_setup;
    if ((is_setup && reply->type == REDIS_REPLY_ERROR) || is_readonly(reply)) {
        on_refused(client, reply);
        return;
    }

    if (cmd->is_replayable && (client->locate || client->redirect)
        && reply->type != REDIS_REPLY_ERROR)
    {
        ngx_chat_redis_replay_add(client, cmd);
    }

    client->replied = ngx_current_msec;
    ngx_chat_redis_remove(client, cmd);

    if (client->redirect == NULL || !client->redirect(client, cmd, reply)) {
        cmd->done(cmd, reply);
    }

    if (is_setup && client->link == NGX_CHAT_REDIS_SETUP
        && client->setups == 0) {
        step(client, SETUP_DONE, NULL);
    }
}


static void
init_event(ngx_chat_redis_client_t *client, ngx_event_t *ev,
           ngx_event_handler_pt handler)
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
    client->conn.log = log;
    client->conn.data = client;
    client->conn.ready = on_ready;
    client->conn.reply = on_reply;
    client->conn.closed = on_closed;

    if (client->locate != NULL) {
        client->conn.host = NULL;
    } else if (client->conn.host == NULL) {
        client->conn.host = conf->hosts;
    }

    if (client->name == NULL) {
        client->name = &conf->name;
    }

    ngx_queue_init(&client->cmds);
    ngx_queue_init(&client->replay);
    init_event(client, &client->deadline, on_deadline);
    init_event(client, &client->retry, on_retry);
    init_event(client, &client->give_up, on_give_up);
    init_event(client, &client->flush, ngx_chat_redis_flush);

    client->replied = ngx_current_msec;
    client->backoff = NGX_CHAT_REDIS_FIRST_RETRY;
    set_reconnecting(client);
    step(client, RETRY, NULL);
}


void
ngx_chat_redis_client_close(ngx_chat_redis_client_t *client)
{
    size_t       i;
    ngx_event_t *timers[] = { &client->deadline, &client->retry,
                              &client->give_up };

    for (i = 0; i < sizeof(timers) / sizeof(timers[0]); i++) {
        if (timers[i]->timer_set) {
            ngx_del_timer(timers[i]);
        }
    }

    if (client->flush.posted) {
        ngx_delete_posted_event(&client->flush);
    }

    client->link = NGX_CHAT_REDIS_WAITING;
    ngx_chat_redis_conn_close(&client->conn);
    ngx_chat_redis_empty(client);
}
