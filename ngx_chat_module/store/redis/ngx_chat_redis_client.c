/*
 * ngx_chat_redis_client.c: see ngx_chat_redis_client.h.
 *
 * A command owns copies of its arguments, so that it can be sent again. The
 * queue outlives connections; setup commands are in front.
 *
 * The way to a connection, and from each failure back to its start:
 *
 *   on_retry() ──► locate() ──► conn_open() ──► on_ready(): setup commands
 *      ▲     │  (with Sentinel)   ▲                         │
 *      │     └──────(without)─────┘                 all setup replies
 *      │                                                    ▼
 *   disconnect() ◄───── failed, at every point ────────── set_up()
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/redis/ngx_chat_redis_client.h"

#define NGX_CHAT_REDIS_RESEND 5000 /* ms */
#define NGX_CHAT_REDIS_RESEND_BYTES (4 * 1024 * 1024)
#define NGX_CHAT_REDIS_FIRST_RETRY 10 /* ms */
#define NGX_CHAT_REDIS_LAST_RETRY 300
#define NGX_CHAT_REDIS_LOST_RETRY 100 /* after a short connection, at most */
#define NGX_CHAT_REDIS_STEADY 1000    /* a shorter connection is a failure */
#define NGX_CHAT_REDIS_GIVE_UP 700    /* since the last reply */
#define NGX_CHAT_REDIS_GIVE_UP_MIN 100
#define NGX_CHAT_REDIS_LOG_AGAIN 60000 /* the same error */


ngx_chat_redis_cmd_t *
ngx_chat_redis_cmd_create(const char *words,
                          void (*done)(ngx_chat_redis_cmd_t *cmd,
                                       redisReply           *reply),
                          void *data)
{
    chat_arena_t               *arena = chat_arena_create(CHAT_ARENA_LONG);
    ngx_chat_redis_cmd_t       *cmd = NULL;
    static ngx_chat_redis_cmd_t failed;

    if (arena != NULL) {
        cmd = chat_arena_alloc(arena, sizeof(ngx_chat_redis_cmd_t));
    }

    if (cmd == NULL) {
        chat_arena_destroy(arena);
        failed.failed = 1;
        return &failed;
    }

    cmd->arena = arena;
    cmd->done = done;
    cmd->data = data;
    ngx_chat_redis_cmd_printf(cmd, words);
    return cmd;
}


void
ngx_chat_redis_cmd_free(ngx_chat_redis_cmd_t *cmd)
{
    chat_buf_free(&cmd->args.text);
    chat_arena_destroy(cmd->arena);
}


void
ngx_chat_redis_cmd_add(ngx_chat_redis_cmd_t *cmd, chat_str_t arg)
{
    if (!cmd->failed) {
        ngx_chat_redis_arg(&cmd->args, arg);
    }
}


void
ngx_chat_redis_cmd_number(ngx_chat_redis_cmd_t *cmd, uint64_t arg)
{
    u_char  digits[CHAT_DIGITS], *end = digits + CHAT_DIGITS;
    u_char *first = chat_digits(arg, end);

    ngx_chat_redis_cmd_add(cmd, chat_str(first, (size_t) (end - first)));
}


chat_str_t
ngx_chat_redis_cmd_arg(const ngx_chat_redis_cmd_t *cmd, size_t *at)
{
    uint64_t   len = 0;
    chat_str_t rest;

    /* behind the type: length, CR LF, the argument, CR LF */
    rest =
        chat_str(cmd->args.text.data + *at + 1, cmd->args.text.len - *at - 1);
    (void) chat_str_number(chat_str_cut(&rest, CR), &len);
    rest = chat_str(rest.data + 1, (size_t) len);
    *at = (size_t) (rest.data - cmd->args.text.data) + rest.len + 2;
    return rest;
}


void
ngx_chat_redis_cmd_printf(ngx_chat_redis_cmd_t *cmd, const char *format, ...)
{
    va_list list;

    if (!cmd->failed) {
        va_start(list, format);
        ngx_chat_redis_words(&cmd->args, format, list);
        va_end(list);
    }
}


void
ngx_chat_redis_ignore(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    if (reply != NULL) {
        freeReplyObject(reply);
    }

    ngx_chat_redis_cmd_free(cmd);
}


ngx_chat_redis_cmd_t *
ngx_chat_redis_next(const ngx_queue_t *cmds, const ngx_chat_redis_cmd_t *cmd)
{
    ngx_queue_t *q = cmd ? ngx_queue_next(&cmd->queue) : ngx_queue_head(cmds);

    return q == ngx_queue_sentinel(cmds)
               ? NULL
               : ngx_queue_data(q, ngx_chat_redis_cmd_t, queue);
}


ngx_chat_redis_cmd_t *
ngx_chat_redis_take(ngx_queue_t *cmds)
{
    ngx_chat_redis_cmd_t *cmd = ngx_chat_redis_next(cmds, NULL);

    if (cmd != NULL) {
        ngx_queue_remove(&cmd->queue);
    }

    return cmd;
}


void
ngx_chat_redis_remove(ngx_chat_redis_client_t *client,
                      ngx_chat_redis_cmd_t    *cmd)
{
    ngx_queue_remove(&cmd->queue);
    client->bytes -= cmd->bytes;
    client->setups -= cmd->is_setup;

    if (ngx_queue_empty(&client->cmds)) {
        ngx_chat_event_cancel(&client->deadline);
    }
}


/* Sets the timer of all deadlines for the first one. */
static void
arm(ngx_chat_redis_client_t *client)
{
    ngx_msec_int_t        left, first = NGX_MAX_INT32_VALUE;
    ngx_chat_redis_cmd_t *cmd = NULL;

    if (client->deadline.timer_set) {
        return;
    }

    while ((cmd = ngx_chat_redis_next(&client->cmds, cmd)) != NULL) {
        if (cmd->is_sent || ngx_chat_redis_is_awaited(cmd)) {
            left = (ngx_msec_int_t) (cmd->deadline - ngx_current_msec);
            first = ngx_min(first, left);
        }
    }

    if (first != NGX_MAX_INT32_VALUE) {
        /* not cancelable: an exiting worker sends its commands first */
        ngx_add_timer(&client->deadline, (ngx_msec_t) ngx_max(first, 1));
    }
}


static ngx_uint_t
is_overdue(const ngx_chat_redis_cmd_t *cmd)
{
    return (ngx_msec_int_t) (cmd->deadline - ngx_current_msec) <= 0;
}


void
ngx_chat_redis_flush(ngx_event_t *ev)
{
    ngx_chat_redis_client_t *client = ev->data;
    ngx_chat_redis_cmd_t    *cmd = NULL;

    if (!client->conn.is_ready) {
        return;
    }

    while ((cmd = ngx_chat_redis_next(&client->cmds, cmd)) != NULL) {
        if (client->setups != 0 && !cmd->is_setup) {
            break;
        }

        if (cmd->is_sent
            || (ngx_chat_redis_is_awaited(cmd) && is_overdue(cmd))) {
            continue;
        }

        if (ngx_chat_redis_conn_send(&client->conn, &cmd->args) != NGX_OK) {
            break; /* no memory: the deadline ends the connection */
        }

        cmd->is_sent = 1;
        cmd->deadline = ngx_current_msec + client->conn.conf->timeout;
    }

    arm(client);
}


/* NGX_DECLINED: the command is still the caller's. */
static ngx_int_t
enqueue(ngx_chat_redis_client_t *client, ngx_chat_redis_cmd_t *cmd)
{
    size_t       most = NGX_CHAT_REDIS_PENDING;
    ngx_uint_t   i;
    ngx_queue_t *q = ngx_queue_sentinel(&client->cmds);

    cmd->bytes = sizeof(*cmd) + cmd->args.text.len;

    if (cmd->failed || cmd->args.text.failed
        || (ngx_chat_redis_is_awaited(cmd)
            && client->state == CHAT_STORE_UNAVAILABLE))
    {
        return NGX_DECLINED;
    }

    if (cmd->is_log) {
        most /= 2; /* facts have the other half */
    }

    /* a full queue must not keep the connection from its setup */
    if (client->bytes + cmd->bytes > most && !client->in_setup) {
        if (!cmd->is_log
            && ngx_current_msec - client->logged_at > NGX_CHAT_REDIS_LOG_AGAIN)
        {
            client->logged_at = ngx_current_msec;
            ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                          "chat: the store %V has been unavailable for too "
                          "long, its queue is full: facts are dropped",
                          client->name);
        }
        return NGX_DECLINED;
    }

    cmd->client = client;
    cmd->is_setup = client->in_setup & 1;
    cmd->is_sent = 0;
    cmd->queued = cmd->tries ? cmd->queued : ngx_current_msec;
    cmd->deadline = ngx_current_msec
                    + ngx_max(client->conn.conf->timeout, client->patience);
    client->bytes += cmd->bytes;

    if (cmd->is_setup) {
        for (q = ngx_queue_head(&client->cmds), i = client->setups++; i > 0;
             i--) {
            q = ngx_queue_next(q);
        }
    }

    ngx_queue_insert_tail(q, &cmd->queue); /* before q */

    if (client->conn.is_ready) {
        ngx_post_event(&client->flush, &ngx_posted_events);
    } else if (ngx_chat_redis_is_awaited(cmd)) {
        arm(client);
    }

    return NGX_OK;
}


ngx_int_t
ngx_chat_redis_submit(ngx_chat_redis_client_t *client,
                      ngx_chat_redis_cmd_t    *cmd)
{
    if (enqueue(client, cmd) != NGX_OK) {
        ngx_chat_redis_cmd_free(cmd);
        return NGX_DECLINED;
    }

    return NGX_OK;
}


void
ngx_chat_redis_resubmit(ngx_chat_redis_client_t *client,
                        ngx_chat_redis_cmd_t    *cmd)
{
    cmd->tries++;

    if (enqueue(client, cmd) != NGX_OK) {
        cmd->done(cmd, NULL);
    }
}


/*
 * Fails the awaited unsent commands that are overdue, or all of them.
 * A sent command fails by the end of its connection.
 */
static void
expire(ngx_chat_redis_client_t *client, ngx_uint_t all)
{
    ngx_queue_t           expired;
    ngx_chat_redis_cmd_t *cmd, *next;

    ngx_queue_init(&expired);

    for (cmd = ngx_chat_redis_next(&client->cmds, NULL); cmd; cmd = next) {
        next = ngx_chat_redis_next(&client->cmds, cmd);

        if (ngx_chat_redis_is_awaited(cmd) && !cmd->is_sent
            && (all || is_overdue(cmd)))
        {
            ngx_chat_redis_remove(client, cmd);
            ngx_queue_insert_tail(&expired, &cmd->queue);
        }
    }

    while ((cmd = ngx_chat_redis_take(&expired)) != NULL) {
        cmd->done(cmd, NULL);
    }
}


/*
 * The connection has ended: its commands are unsent. An awaited one has a
 * bound since it was queued: a server that accepts connections and breaks each
 * of them must not hold the request.
 */
static void
unsend(ngx_chat_redis_client_t *client)
{
    ngx_msec_t            last;
    ngx_chat_redis_cmd_t *cmd, *next;

    for (cmd = ngx_chat_redis_next(&client->cmds, NULL); cmd; cmd = next) {
        next = ngx_chat_redis_next(&client->cmds, cmd);
        cmd->is_sent = 0;
        last = cmd->queued
               + 2 * ngx_max(client->conn.conf->timeout, client->patience);

        if (client->patience != 0) {
            cmd->deadline = ngx_current_msec + client->patience;
        }

        if ((ngx_msec_int_t) (cmd->deadline - last) > 0) {
            cmd->deadline = last;
        }

        if (cmd->is_setup) {
            ngx_chat_redis_remove(client, cmd);
            ngx_chat_redis_cmd_free(cmd);
        }
    }
}


/*
 * The resend buffer. Redis acknowledges writes that its replicas do not have
 * yet: those of the last seconds are kept for the next master.
 */

/* Frees copies that are too old, and the oldest without room. */
static void
expire_copies(ngx_chat_redis_client_t *client)
{
    ngx_chat_redis_cmd_t *cmd;

    while ((cmd = ngx_chat_redis_next(&client->resend, NULL)) != NULL
           && (client->resend_bytes > NGX_CHAT_REDIS_RESEND_BYTES
               || ngx_current_msec - cmd->queued > NGX_CHAT_REDIS_RESEND))
    {
        ngx_queue_remove(&cmd->queue);
        client->resend_bytes -= cmd->bytes;
        ngx_chat_redis_cmd_free(cmd);
    }
}


/*
 * 1 if the reply to a join shows that this claim of it does not stand; absent:
 * what a reply without the claim says.
 */
static ngx_uint_t
has_lost(const redisReply *reply, chat_str_t field, chat_str_t value,
         ngx_uint_t absent)
{
    size_t     i;
    chat_str_t stored;

    for (i = 0; i + 1 < reply->elements; i += 2) {
        stored = ngx_chat_redis_text(reply->element[i + 1]);

        if (chat_str_eq(ngx_chat_redis_text(reply->element[i]), field)) {
            return stored.len != value.len + 1
                   || memcmp(stored.data + 1, value.data, value.len) != 0;
        }
    }

    return absent;
}


/*
 * Takes claims out of a join that do not stand. On a server that lacks what
 * they lost to they would, and their requests know nothing of it.
 */
static void
drop_lost_claims(ngx_chat_redis_cmd_t *cmd, const redisReply *reply,
                 ngx_uint_t absent)
{
    size_t      start, at = cmd->head;
    chat_buf_t *text = &cmd->args.text;
    chat_str_t  field, value;

    while (at < text->len) {
        start = at;
        field = ngx_chat_redis_cmd_arg(cmd, &at);
        value = ngx_chat_redis_cmd_arg(cmd, &at);
        (void) ngx_chat_redis_cmd_arg(cmd, &at); /* 1: it has a payload */
        (void) ngx_chat_redis_cmd_arg(cmd, &at);

        if (chat_str_starts(field, "claim/")
            && has_lost(reply, field, value, absent)) {
            text->len -= at - start;
            cmd->args.argc -= 4;
            ngx_memmove(text->data + start, text->data + at,
                        text->len - start);
            at = start;
        }
    }
}


/* Copies the text of a command; what a join has put needs nothing more. */
static void
copy_text(const ngx_chat_redis_cmd_t *cmd, ngx_chat_redis_cmd_t *copy)
{
    size_t            at = cmd->needs;
    uint64_t          needs = 0;
    const chat_buf_t *text = &cmd->args.text;

    copy->head = cmd->head;
    copy->args.argc = cmd->args.argc;

    if (at == 0) {
        chat_buf_add(&copy->args.text, chat_buf_str(text));
        return;
    }

    (void) chat_str_number(ngx_chat_redis_cmd_arg(cmd, &at), &needs);
    chat_buf_add(&copy->args.text, chat_str(text->data, cmd->needs));
    ngx_chat_redis_cmd_number(copy, 0);
    copy->head = copy->args.text.len;
    copy->args.argc = cmd->args.argc - (ngx_uint_t) needs;
    chat_buf_add(&copy->args.text,
                 chat_str(text->data + cmd->head, text->len - cmd->head));
}


/* Copies a command that has its reply to the resend buffer. */
static void
resend_add(ngx_chat_redis_client_t *client, ngx_chat_redis_cmd_t *cmd,
           const redisReply *reply)
{
    ngx_chat_redis_cmd_t *copy;

    expire_copies(client);

    /* logs leave half of the room to facts */
    if (cmd->is_log
        && client->resend_bytes + cmd->bytes > NGX_CHAT_REDIS_RESEND_BYTES / 2)
    {
        return;
    }

    copy = ngx_chat_redis_cmd_create("", ngx_chat_redis_ignore, NULL);
    copy_text(cmd, copy);

    if (copy->failed || copy->args.text.failed) {
        ngx_chat_redis_cmd_free(copy);
        return;
    }

    drop_lost_claims(copy, reply, cmd->needs != 0);
    copy->bytes = cmd->bytes;
    copy->slot = cmd->slot;
    copy->is_keyed = cmd->is_keyed;
    copy->is_resendable = 1;
    copy->queued = ngx_current_msec;
    ngx_queue_insert_tail(&client->resend, &copy->queue);
    client->resend_bytes += copy->bytes;
    expire_copies(client);
}


void
ngx_chat_redis_resend(ngx_chat_redis_client_t *client)
{
    if (!ngx_queue_empty(&client->resend)) {
        /* the copies come first, then the commands */
        ngx_queue_add(&client->resend, &client->cmds);
        ngx_queue_init(&client->cmds);
        ngx_queue_add(&client->cmds, &client->resend);
        ngx_queue_init(&client->resend);
        client->bytes += client->resend_bytes;
        client->resend_bytes = 0;
    }
}


/*
 * 1 if text does not begin as the last reason or error in the log. The same
 * error of several scripts differs at its end.
 */
static ngx_uint_t
is_new(ngx_chat_redis_client_t *client, const char *text)
{
    if (ngx_strncmp(client->logged, text, sizeof(client->logged) - 1) == 0) {
        return 0;
    }

    (void) ngx_cpystrn(client->logged, (u_char *) text,
                       sizeof(client->logged));
    return 1;
}


void
ngx_chat_redis_log_error(ngx_chat_redis_client_t *client,
                         const redisReply        *reply)
{
    const char *text = reply->type == REDIS_REPLY_ERROR
                           ? reply->str
                           : "a reply of another type";

    if (is_new(client, text)
        || ngx_current_msec - client->logged_at >= NGX_CHAT_REDIS_LOG_AGAIN)
    {
        client->logged_at = ngx_current_msec;
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "chat: the store %V refused a command: %s", client->name,
                      text);
    }
}


/*
 * Commands wait for a connection until the server has been silent for
 * NGX_CHAT_REDIS_GIVE_UP: then those that are awaited fail, and new ones fail
 * at once. It has been silent if the first command is sent and has no reply.
 */
static void
set_reconnecting(ngx_chat_redis_client_t *client)
{
    ngx_msec_t            silent = 0;
    ngx_chat_redis_cmd_t *cmd = ngx_chat_redis_next(&client->cmds, NULL);

    if (cmd != NULL && cmd->is_sent) {
        silent = ngx_current_msec + client->conn.conf->timeout - cmd->deadline;
        silent = ngx_min(silent, ngx_current_msec - client->replied);
    }

    client->state = CHAT_STORE_RECONNECTING;
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

    expire(client, 1);
    client->state = CHAT_STORE_UNAVAILABLE;
    client->changed(client);
}


static void
set_up(ngx_chat_redis_client_t *client)
{
    /* at the level of the line that it follows */
    ngx_uint_t level = client->said ? NGX_LOG_ERR : NGX_LOG_INFO;

    ngx_chat_event_cancel(&client->give_up);
    ngx_log_error(level, ngx_cycle->log, 0, "chat: the store %V is %s",
                  client->name,
                  client->was_up ? "available again" : "connected");

    client->was_up = 1;
    client->said = 0;
    client->up_since = ngx_current_msec;
    client->state = CHAT_STORE_UP;
    client->changed(client);
    client->has_served = 0;
    ngx_post_event(&client->flush, &ngx_posted_events);
}


/*
 * Decides when to connect again: after NGX_CHAT_REDIS_FIRST_RETRY if the
 * connection has lasted, else after twice as long as the last time, up to a
 * bound; with jitter. The bound is lower if the server has served a command
 * with a key: one that refuses writes can be set up, but serves none.
 */
static void
schedule_retry(ngx_chat_redis_client_t *client, const char *why)
{
    ngx_msec_t max = NGX_CHAT_REDIS_LAST_RETRY;

    if (client->state == CHAT_STORE_UP) {
        max = client->has_served ? NGX_CHAT_REDIS_LOST_RETRY : max;

        if (ngx_current_msec - client->up_since >= NGX_CHAT_REDIS_STEADY) {
            client->conn.backoff = NGX_CHAT_REDIS_FIRST_RETRY;
            client->logged[0] = '\0';
        }

        set_reconnecting(client);
    }

    if (is_new(client, why)) {
        client->said = 1;
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "chat: the store %V is unavailable: %s", client->name,
                      why);
    }

    client->conn.backoff = ngx_min(client->conn.backoff, max);
    ngx_chat_redis_conn_retry(&client->conn, NGX_CHAT_REDIS_LAST_RETRY);
}


void
ngx_chat_redis_client_disconnect(ngx_chat_redis_client_t *client,
                                 const char              *why)
{
    schedule_retry(client, why);
    unsend(client);
}


void
ngx_chat_redis_client_move(ngx_chat_redis_client_t     *client,
                           const ngx_chat_redis_host_t *host)
{
    ngx_chat_redis_conn_close(&client->conn);

    if (client->state == CHAT_STORE_UP) {
        set_reconnecting(client);
    }

    unsend(client);

    if (client->conn.host != host) {
        ngx_chat_redis_resend(client);
        client->conn.host = host;
    }

    ngx_chat_redis_conn_open(&client->conn);
}


static void
on_retry(ngx_chat_redis_conn_t *conn)
{
    ngx_chat_redis_client_t *client = conn->data;

    if (client->locate != NULL) {
        client->locate(client);
    } else {
        ngx_chat_redis_conn_open(conn);
    }
}


static void
on_ready(ngx_chat_redis_conn_t *conn)
{
    ngx_chat_redis_client_t *client = conn->data;

    client->in_setup = 1;
    client->setup(client);
    client->in_setup = 0;

    if (client->setups == 0) {
        ngx_chat_redis_client_disconnect(client, "no memory");
        return;
    }

    ngx_post_event(&client->flush, &ngx_posted_events);
}


static void
on_closed(ngx_chat_redis_conn_t *conn, const char *why)
{
    ngx_chat_redis_client_disconnect(conn->data, why);
}


static void
on_deadline(ngx_event_t *ev)
{
    ngx_chat_redis_client_t *client = ev->data;
    ngx_chat_redis_cmd_t    *cmd = ngx_chat_redis_next(&client->cmds, NULL);

    if (cmd != NULL && cmd->is_sent && is_overdue(cmd)) {
        ngx_chat_redis_client_disconnect(client, "no reply in time");
    }

    expire(client, 0);
    arm(client);
}


/*
 * 1 if the server refuses commands until its next setup: it takes no writes,
 * or has lost the scripts.
 */
static ngx_uint_t
needs_setup(const redisReply *reply)
{
    return ngx_chat_redis_is_error(reply, "READONLY ")
           || ngx_chat_redis_is_error(reply, "NOREPLICAS ")
           || ngx_chat_redis_is_error(reply, "MASTERDOWN ")
           || ngx_chat_redis_is_error(reply, "NOSCRIPT ")
           /* a script's error before Redis 7 */
           || (reply->type == REDIS_REPLY_ERROR
               && strstr(reply->str, "-READONLY ") != NULL);
}


static void
on_reply(ngx_chat_redis_conn_t *conn, redisReply *reply)
{
    ngx_uint_t               is_setup;
    ngx_chat_redis_client_t *client = conn->data;
    ngx_chat_redis_cmd_t    *cmd = ngx_chat_redis_next(&client->cmds, NULL);

    if (cmd == NULL || !cmd->is_sent) {
        freeReplyObject(reply);
        ngx_chat_redis_client_disconnect(client, "a reply without a command");
        return;
    }

    /* the command stays in the queue for the next connection */
    is_setup = cmd->is_setup;
    if ((is_setup && reply->type == REDIS_REPLY_ERROR) || needs_setup(reply)) {
        ngx_chat_redis_client_disconnect(client, reply->str);
        freeReplyObject(reply);
        return;
    }

    if (cmd->is_resendable && (client->locate || client->redirect)
        && reply->type != REDIS_REPLY_ERROR)
    {
        resend_add(client, cmd, reply);
    }

    client->replied = ngx_current_msec;
    client->has_served |= cmd->is_keyed && !is_setup;
    ngx_chat_redis_remove(client, cmd);

    if (client->redirect == NULL || !client->redirect(client, cmd, reply)) {
        cmd->done(cmd, reply);
    }

    /* unless done() has ended the connection */
    if (is_setup && client->setups == 0 && conn->is_ready) {
        set_up(client);
    }
}


void
ngx_chat_redis_client_open(ngx_chat_redis_client_t     *client,
                           const ngx_chat_redis_conf_t *conf)
{
    client->conn.conf = conf;
    client->conn.data = client;
    client->conn.backoff = NGX_CHAT_REDIS_FIRST_RETRY;
    client->conn.retry = on_retry;
    client->conn.ready = on_ready;
    client->conn.reply = on_reply;
    client->conn.closed = on_closed;

    ngx_queue_init(&client->cmds);
    ngx_queue_init(&client->resend);
    ngx_chat_event_set(&client->deadline, on_deadline, client, ngx_cycle->log);
    ngx_chat_event_set(&client->give_up, on_give_up, client, ngx_cycle->log);
    ngx_chat_event_set(&client->flush, ngx_chat_redis_flush, client,
                       ngx_cycle->log);

    client->has_served = 1; /* earlier ones, as far as is known */
    set_reconnecting(client);
    on_retry(&client->conn);
}


void
ngx_chat_redis_client_close(ngx_chat_redis_client_t *client)
{
    ngx_chat_redis_cmd_t *cmd;

    ngx_chat_event_cancel(&client->deadline);
    ngx_chat_event_cancel(&client->give_up);
    ngx_chat_event_cancel(&client->flush);
    ngx_chat_redis_conn_close(&client->conn);
    ngx_chat_redis_resend(client);

    while ((cmd = ngx_chat_redis_next(&client->cmds, NULL)) != NULL) {
        ngx_chat_redis_remove(client, cmd);
        ngx_chat_redis_cmd_free(cmd);
    }
}
