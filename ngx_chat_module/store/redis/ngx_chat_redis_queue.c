/*
 * ngx_chat_redis_queue.c: commands, the queue of a client, and its replay
 * buffer.
 *
 * A command owns copies of its arguments, so that it can be sent again. The
 * queue outlives connections; setup commands are in front. One timer serves
 * all deadlines. Redis acknowledges writes that its replicas do not have yet:
 * the replay buffer keeps those of the last seconds for the next master.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "bytes/chat_slot.h"
#include "store/redis/ngx_chat_redis_client.h"

#define NGX_CHAT_REDIS_ARGS 16
#define NGX_CHAT_REDIS_REPLAY 5000 /* ms */
#define NGX_CHAT_REDIS_REPLAY_BYTES (4 * 1024 * 1024)
#define NGX_CHAT_REDIS_LOG_FULL 60000 /* ms between log lines */


ngx_chat_redis_cmd_t *
ngx_chat_redis_cmd_create(void)
{
    chat_arena_t         *arena;
    ngx_chat_redis_cmd_t *cmd;

    arena = chat_arena_create(0);
    if (arena == NULL) {
        return NULL;
    }

    cmd = chat_arena_alloc(arena, sizeof(ngx_chat_redis_cmd_t));
    if (cmd == NULL) {
        chat_arena_destroy(arena);
        return NULL;
    }

    cmd->arena = arena;
    cmd->bytes = sizeof(ngx_chat_redis_cmd_t);
    return cmd;
}


void
ngx_chat_redis_cmd_free(ngx_chat_redis_cmd_t *cmd)
{
    chat_arena_destroy(cmd->arena);
}


/* Makes room for one more argument. */
static ngx_int_t
grow_args(ngx_chat_redis_cmd_t *cmd)
{
    size_t       room, *len;
    const char **argv;

    if (cmd->argc < cmd->room) {
        return NGX_OK;
    }

    room = cmd->room ? 2 * cmd->room : NGX_CHAT_REDIS_ARGS;
    argv = chat_arena_alloc(cmd->arena, room * sizeof(char *));
    len = chat_arena_alloc(cmd->arena, room * sizeof(size_t));
    if (argv == NULL || len == NULL) {
        return NGX_ERROR;
    }

    if (cmd->argc != 0) {
        ngx_memcpy(argv, cmd->argv, cmd->argc * sizeof(char *));
        ngx_memcpy(len, cmd->len, cmd->argc * sizeof(size_t));
    }

    cmd->argv = argv;
    cmd->len = len;
    cmd->room = room;
    return NGX_OK;
}


void
ngx_chat_redis_cmd_add(ngx_chat_redis_cmd_t *cmd, chat_str_t arg)
{
    chat_str_t copy;

    if (cmd->failed || grow_args(cmd) != NGX_OK
        || chat_arena_dup(cmd->arena, arg, &copy) != CHAT_OK)
    {
        cmd->failed = 1;
        return;
    }

    cmd->argv[cmd->argc] = copy.len ? (const char *) copy.data : "";
    cmd->len[cmd->argc++] = copy.len;
    cmd->bytes += copy.len + 2 * sizeof(size_t);
}


void
ngx_chat_redis_cmd_puts(ngx_chat_redis_cmd_t *cmd, const char *arg)
{
    ngx_chat_redis_cmd_add(cmd, chat_cstr(arg));
}


void
ngx_chat_redis_cmd_key(ngx_chat_redis_cmd_t *cmd, chat_str_t key)
{
    cmd->slot = chat_slot(key);
    cmd->is_keyed = 1;
    ngx_chat_redis_cmd_add(cmd, key);
}


void
ngx_chat_redis_cmd_number(ngx_chat_redis_cmd_t *cmd, ngx_uint_t arg)
{
    u_char text[NGX_INT_T_LEN], *end;

    end = ngx_sprintf(text, "%ui", arg);
    ngx_chat_redis_cmd_add(cmd, chat_str(text, (size_t) (end - text)));
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


ngx_uint_t
ngx_chat_redis_has_slot(const ngx_queue_t *cmds, unsigned slot)
{
    const ngx_chat_redis_cmd_t *cmd = NULL;

    while ((cmd = ngx_chat_redis_next(cmds, cmd)) != NULL) {
        if (cmd->is_keyed && cmd->slot == slot) {
            return 1;
        }
    }

    return 0;
}


void
ngx_chat_redis_remove(ngx_chat_redis_client_t *client,
                      ngx_chat_redis_cmd_t    *cmd)
{
    ngx_queue_remove(&cmd->queue);
    client->bytes -= cmd->bytes;
    client->setups -= cmd->is_setup;

    if (ngx_queue_empty(&client->cmds) && client->deadline.timer_set) {
        ngx_del_timer(&client->deadline);
    }
}


void
ngx_chat_redis_arm(ngx_chat_redis_client_t *client)
{
    ngx_msec_int_t        left, first = NGX_MAX_INT32_VALUE;
    ngx_chat_redis_cmd_t *cmd = NULL;

    if (client->deadline.timer_set) {
        return;
    }

    while ((cmd = ngx_chat_redis_next(&client->cmds, cmd)) != NULL) {
        if (cmd->is_sent || cmd->op != NULL) {
            left = (ngx_msec_int_t) (cmd->deadline - ngx_current_msec);
            first = ngx_min(first, left);
        }
    }

    if (first != NGX_MAX_INT32_VALUE) {
        /* not cancelable: an exiting worker sends its commands first */
        ngx_add_timer(&client->deadline, (ngx_msec_t) ngx_max(first, 1));
    }
}


/*
 * An awaited command has a bound since it was queued: a server that accepts
 * connections and breaks each of them must not hold the request.
 */
static void
set_deadline(ngx_chat_redis_client_t *client, ngx_chat_redis_cmd_t *cmd,
             ngx_msec_t wait)
{
    ngx_msec_t last;

    last = cmd->queued
           + 2 * ngx_max(client->conn.conf->timeout, client->patience);
    cmd->deadline = ngx_current_msec + wait;

    if (cmd->op != NULL && (ngx_msec_int_t) (cmd->deadline - last) > 0) {
        cmd->deadline = last;
    }
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

        if (cmd->is_sent) {
            continue;
        }

        if (ngx_chat_redis_conn_send(&client->conn, cmd->argc, cmd->argv,
                                     cmd->len)
            != NGX_OK)
        {
            break; /* no memory: the deadline ends the connection */
        }

        cmd->is_sent = 1;
        set_deadline(client, cmd, client->conn.conf->timeout);
    }

    ngx_chat_redis_arm(client);
}


/* At the end; a setup command behind the other setup commands. */
static void
insert_command(ngx_chat_redis_client_t *client, ngx_chat_redis_cmd_t *cmd)
{
    ngx_uint_t   i;
    ngx_queue_t *q = ngx_queue_sentinel(&client->cmds);

    if (cmd->is_setup) {
        q = ngx_queue_head(&client->cmds);

        for (i = 0; i < client->setups; i++) {
            q = ngx_queue_next(q);
        }

        client->setups++;
    }

    /* before q */
    ngx_queue_insert_tail(q, &cmd->queue);
}


ngx_int_t
ngx_chat_redis_submit(ngx_chat_redis_client_t *client,
                      ngx_chat_redis_cmd_t    *cmd)
{
    if (cmd->failed || (cmd->op && client->state == CHAT_STORE_UNAVAILABLE)) {
        return NGX_DECLINED;
    }

    /* a full queue must not keep the connection from its setup */
    if (client->bytes + cmd->bytes > NGX_CHAT_REDIS_PENDING && !cmd->is_setup)
    {
        if (ngx_current_msec - client->logged_at > NGX_CHAT_REDIS_LOG_FULL) {
            client->logged_at = ngx_current_msec;
            ngx_log_error(NGX_LOG_ERR, client->conn.log, 0,
                          "chat: the store %V has been unavailable for too "
                          "long, its queue is full: facts are dropped",
                          client->name);
        }
        return NGX_DECLINED;
    }

    cmd->client = client;
    cmd->is_sent = 0;
    cmd->queued = ngx_current_msec;
    cmd->first = cmd->tries ? cmd->first : cmd->queued;
    cmd->deadline =
        cmd->queued + ngx_max(client->conn.conf->timeout, client->patience);
    client->bytes += cmd->bytes;

    insert_command(client, cmd);

    if (client->conn.is_ready) {
        ngx_post_event(&client->flush, &ngx_posted_events);
    } else if (cmd->op != NULL) {
        ngx_chat_redis_arm(client);
    }

    return NGX_OK;
}


ngx_chat_redis_cmd_t *
ngx_chat_redis_unsent(ngx_chat_redis_client_t    *client,
                      const ngx_chat_redis_cmd_t *newer)
{
    ngx_queue_t          *q;
    ngx_chat_redis_cmd_t *cmd;

    q = newer ? ngx_queue_prev(&newer->queue) : ngx_queue_last(&client->cmds);

    if (q == ngx_queue_sentinel(&client->cmds)) {
        return NULL;
    }

    cmd = ngx_queue_data(q, ngx_chat_redis_cmd_t, queue);
    return cmd->is_sent ? NULL : cmd;
}


void
ngx_chat_redis_expire(ngx_chat_redis_client_t *client, ngx_uint_t all)
{
    ngx_queue_t           expired;
    ngx_chat_redis_cmd_t *cmd, *next;

    ngx_queue_init(&expired);

    for (cmd = ngx_chat_redis_next(&client->cmds, NULL); cmd; cmd = next) {
        next = ngx_chat_redis_next(&client->cmds, cmd);

        if (cmd->op != NULL && !cmd->is_sent
            && (all
                || (ngx_msec_int_t) (cmd->deadline - ngx_current_msec) <= 0))
        {
            ngx_chat_redis_remove(client, cmd);
            ngx_queue_insert_tail(&expired, &cmd->queue);
        }
    }

    while ((cmd = ngx_chat_redis_take(&expired)) != NULL) {
        cmd->done(cmd, NULL);
    }
}


void
ngx_chat_redis_unsend(ngx_chat_redis_client_t *client)
{
    ngx_chat_redis_cmd_t *cmd, *next;

    for (cmd = ngx_chat_redis_next(&client->cmds, NULL); cmd; cmd = next) {
        next = ngx_chat_redis_next(&client->cmds, cmd);
        cmd->is_sent = 0;

        if (client->patience != 0) {
            set_deadline(client, cmd, client->patience);
        }

        if (cmd->is_setup) {
            ngx_chat_redis_remove(client, cmd);
            ngx_chat_redis_cmd_free(cmd);
        }
    }
}


void
ngx_chat_redis_empty(ngx_chat_redis_client_t *client)
{
    ngx_chat_redis_cmd_t *cmd;

    ngx_chat_redis_replay(client);

    while ((cmd = ngx_chat_redis_next(&client->cmds, NULL)) != NULL) {
        ngx_chat_redis_remove(client, cmd);
        ngx_chat_redis_cmd_free(cmd);
    }
}


static ngx_chat_redis_cmd_t *
copy_command(const ngx_chat_redis_cmd_t *cmd)
{
    size_t                i;
    ngx_chat_redis_cmd_t *copy = ngx_chat_redis_cmd_create();

    if (copy == NULL) {
        return NULL;
    }

    for (i = 0; i < cmd->argc; i++) {
        ngx_chat_redis_cmd_add(copy, chat_str(cmd->argv[i], cmd->len[i]));
    }

    if (copy->failed) {
        ngx_chat_redis_cmd_free(copy);
        return NULL;
    }

    copy->done = ngx_chat_redis_ignore;
    copy->slot = cmd->slot;
    copy->serial = cmd->serial;
    copy->is_keyed = cmd->is_keyed;
    copy->is_replayable = 1;
    copy->queued = ngx_current_msec;
    return copy;
}


/* Frees the copies that are too old, and those without room. */
static void
expire_copies(ngx_chat_redis_client_t *client)
{
    ngx_chat_redis_cmd_t *cmd;

    while ((cmd = ngx_chat_redis_next(&client->replay, NULL)) != NULL
           && (client->replay_bytes > NGX_CHAT_REDIS_REPLAY_BYTES
               || ngx_current_msec - cmd->queued > NGX_CHAT_REDIS_REPLAY))
    {
        ngx_queue_remove(&cmd->queue);
        client->replay_bytes -= cmd->bytes;
        ngx_chat_redis_cmd_free(cmd);
    }
}


void
ngx_chat_redis_replay_add(ngx_chat_redis_client_t    *client,
                          const ngx_chat_redis_cmd_t *cmd)
{
    ngx_chat_redis_cmd_t *copy;

    expire_copies(client);

    /* logs leave half of the room to facts */
    if (cmd->is_log
        && client->replay_bytes + cmd->bytes > NGX_CHAT_REDIS_REPLAY_BYTES / 2)
    {
        return;
    }

    copy = copy_command(cmd);

    if (copy != NULL) {
        ngx_queue_insert_tail(&client->replay, &copy->queue);
        client->replay_bytes += copy->bytes;
        expire_copies(client);
    }
}


void
ngx_chat_redis_replay(ngx_chat_redis_client_t *client)
{
    if (!ngx_queue_empty(&client->replay)) {
        /* the commands go behind the copies, and are the queue again */
        ngx_queue_add(&client->replay, &client->cmds);
        ngx_queue_init(&client->cmds);
        ngx_queue_add(&client->cmds, &client->replay);
        ngx_queue_init(&client->replay);
        client->bytes += client->replay_bytes;
        client->replay_bytes = 0;
    }
}
