/*
 * ngx_chat_redis_queue.c: see ngx_chat_redis_client.h.
 *
 * Commands, the queue in which they wait for their reply, and the replay
 * buffer. A command owns copies of its arguments, so that it can be sent
 * again. Setup commands are in front. The queue outlives connections.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "bytes/chat_slot.h"
#include "store/redis/ngx_chat_redis_client.h"

#define NGX_CHAT_REDIS_ARGS 16


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
    if (cmd->kept != NULL) {
        freeReplyObject(cmd->kept);
    }

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
    cmd->keyed = 1;
    ngx_chat_redis_cmd_add(cmd, key);
}


void
ngx_chat_redis_cmd_number(ngx_chat_redis_cmd_t *cmd, ngx_uint_t arg)
{
    u_char text[NGX_INT_T_LEN], *end;

    end = ngx_sprintf(text, "%ui", arg);
    ngx_chat_redis_cmd_add(cmd, chat_str(text, (size_t) (end - text)));
}


ngx_uint_t
ngx_chat_redis_is_error(const redisReply *reply, const char *prefix)
{
    size_t len = ngx_strlen(prefix);

    return reply->type == REDIS_REPLY_ERROR && (size_t) reply->len >= len
           && ngx_memcmp(reply->str, prefix, len) == 0;
}


ngx_uint_t
ngx_chat_redis_is_readonly(const redisReply *reply)
{
    return ngx_chat_redis_is_error(reply, "READONLY ")
           || ngx_chat_redis_is_error(reply, "NOREPLICAS ")
           || ngx_chat_redis_is_error(reply, "MASTERDOWN ")
           /* how a script fails there before Redis 7 */
           || (reply->type == REDIS_REPLY_ERROR
               && strstr(reply->str, "-READONLY ") != NULL);
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
ngx_chat_redis_take(ngx_queue_t *cmds)
{
    ngx_queue_t *q = ngx_queue_head(cmds);

    if (ngx_queue_empty(cmds)) {
        return NULL;
    }

    ngx_queue_remove(q);
    return ngx_queue_data(q, ngx_chat_redis_cmd_t, queue);
}


ngx_uint_t
ngx_chat_redis_has_slot(const ngx_queue_t *cmds, unsigned slot)
{
    ngx_queue_t          *q;
    ngx_chat_redis_cmd_t *cmd;

    for (q = ngx_queue_head(cmds); q != ngx_queue_sentinel(cmds);
         q = ngx_queue_next(q))
    {
        cmd = ngx_queue_data(q, ngx_chat_redis_cmd_t, queue);
        if (cmd->keyed && cmd->slot == slot) {
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

    if (cmd->setup) {
        client->setups--;
    }

    if (ngx_queue_empty(&client->cmds) && client->timer.timer_set) {
        ngx_del_timer(&client->timer);
    }
}


void
ngx_chat_redis_arm(ngx_chat_redis_client_t *client)
{
    ngx_uint_t            found = 0;
    ngx_msec_t            first = 0;
    ngx_queue_t          *q;
    ngx_chat_redis_cmd_t *cmd;

    if (client->timer.timer_set) {
        return;
    }

    for (q = ngx_queue_head(&client->cmds);
         q != ngx_queue_sentinel(&client->cmds); q = ngx_queue_next(q))
    {
        cmd = ngx_queue_data(q, ngx_chat_redis_cmd_t, queue);

        if ((cmd->sent || cmd->op != NULL)
            && (!found || (ngx_msec_int_t) (cmd->deadline - first) < 0))
        {
            found = 1;
            first = cmd->deadline;
        }
    }

    if (found) {
        /* not cancelable: a worker that exits has its say first */
        ngx_add_timer(&client->timer,
                      (ngx_msec_int_t) (first - ngx_current_msec) > 0
                          ? first - ngx_current_msec
                          : 1);
    }
}


/*
 * A command that a request waits for has a bound from its birth: a server that
 * accepts connections and breaks each of them must not hold the request.
 */
static void
set_deadline(ngx_chat_redis_client_t *client, ngx_chat_redis_cmd_t *cmd,
             ngx_msec_t wait)
{
    ngx_msec_t last;

    last =
        cmd->born + 2 * ngx_max(client->conn.conf->timeout, client->patience);
    cmd->deadline = ngx_current_msec + wait;

    if (cmd->op != NULL && (ngx_msec_int_t) (cmd->deadline - last) > 0) {
        cmd->deadline = last;
    }
}


/* Sends what has not been sent, as far as the greetings allow. */
void
ngx_chat_redis_flush(ngx_event_t *ev)
{
    ngx_queue_t             *q;
    ngx_chat_redis_cmd_t    *cmd;
    ngx_chat_redis_client_t *client = ev->data;

    if (!client->conn.is_ready) {
        return;
    }

    for (q = ngx_queue_head(&client->cmds);
         q != ngx_queue_sentinel(&client->cmds); q = ngx_queue_next(q))
    {
        cmd = ngx_queue_data(q, ngx_chat_redis_cmd_t, queue);

        if (client->setups != 0 && !cmd->setup) {
            break;
        }

        if (cmd->sent) {
            continue;
        }

        if (ngx_chat_redis_conn_send(&client->conn, cmd->argc, cmd->argv,
                                     cmd->len)
            != NGX_OK)
        {
            break; /* its deadline ends the connection */
        }

        cmd->sent = 1;
        set_deadline(client, cmd, client->conn.conf->timeout);
    }

    ngx_chat_redis_arm(client);
}


/* At the end; a greeting behind the other greetings. */
static void
insert_command(ngx_chat_redis_client_t *client, ngx_chat_redis_cmd_t *cmd)
{
    ngx_queue_t *q = ngx_queue_sentinel(&client->cmds);
    ngx_uint_t   i;

    if (cmd->setup) {
        for (i = 0, q = ngx_queue_head(&client->cmds); i < client->setups; i++)
        {
            q = ngx_queue_next(q);
        }
        client->setups++;
    }

    /* before q, and so at the end if q is the sentinel */
    ngx_queue_insert_tail(q, &cmd->queue);
}


ngx_int_t
ngx_chat_redis_submit(ngx_chat_redis_client_t *client,
                      ngx_chat_redis_cmd_t    *cmd)
{
    if (cmd->failed || (cmd->op && client->state == CHAT_STORE_UNAVAILABLE)) {
        return NGX_DECLINED;
    }

    if (client->bytes + cmd->bytes > NGX_CHAT_REDIS_PENDING) {
        if (ngx_current_msec - client->complained > 60000) {
            client->complained = ngx_current_msec;
            ngx_log_error(NGX_LOG_ERR, client->conn.log, 0,
                          "chat: the store %V has been away for too long, "
                          "facts are dropped",
                          client->name);
        }
        return NGX_DECLINED;
    }

    cmd->client = client;
    cmd->sent = 0;
    cmd->born = ngx_current_msec;
    cmd->first = cmd->tries ? cmd->first : cmd->born;
    cmd->deadline =
        cmd->born + ngx_max(client->conn.conf->timeout, client->patience);
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
    return cmd->sent ? NULL : cmd;
}


void
ngx_chat_redis_grown(ngx_chat_redis_client_t *client, size_t bytes)
{
    client->bytes += bytes;
}


void
ngx_chat_redis_expire(ngx_chat_redis_client_t *client, ngx_uint_t all)
{
    ngx_queue_t           expired, *q, *next;
    ngx_chat_redis_cmd_t *cmd;

    ngx_queue_init(&expired);

    for (q = ngx_queue_head(&client->cmds);
         q != ngx_queue_sentinel(&client->cmds); q = next)
    {
        next = ngx_queue_next(q);
        cmd = ngx_queue_data(q, ngx_chat_redis_cmd_t, queue);

        if (cmd->op != NULL && !cmd->sent
            && (all
                || (ngx_msec_int_t) (cmd->deadline - ngx_current_msec) <= 0))
        {
            ngx_chat_redis_remove(client, cmd);
            ngx_queue_insert_tail(&expired, q);
        }
    }

    while ((cmd = ngx_chat_redis_take(&expired)) != NULL) {
        cmd->done(cmd, NULL);
    }
}


void
ngx_chat_redis_unsend(ngx_chat_redis_client_t *client)
{
    ngx_queue_t          *q, *next;
    ngx_chat_redis_cmd_t *cmd;

    for (q = ngx_queue_head(&client->cmds);
         q != ngx_queue_sentinel(&client->cmds); q = next)
    {
        next = ngx_queue_next(q);
        cmd = ngx_queue_data(q, ngx_chat_redis_cmd_t, queue);
        cmd->sent = 0;

        if (client->patience != 0) {
            set_deadline(client, cmd, client->patience);
        }

        if (cmd->setup) {
            ngx_chat_redis_remove(client, cmd);
            ngx_chat_redis_cmd_free(cmd);
        }
    }
}


void
ngx_chat_redis_empty(ngx_chat_redis_client_t *client)
{
    ngx_chat_redis_cmd_t *cmd;

    /* what was kept for a move goes with the rest */
    ngx_chat_redis_replay(client);

    while (!ngx_queue_empty(&client->cmds)) {
        cmd = ngx_queue_data(ngx_queue_head(&client->cmds),
                             ngx_chat_redis_cmd_t, queue);
        ngx_chat_redis_remove(client, cmd);
        ngx_chat_redis_cmd_free(cmd);
    }
}


#define NGX_CHAT_REDIS_REPLAY 5000 /* ms */
#define NGX_CHAT_REDIS_REPLAY_BYTES (4 * 1024 * 1024)


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
    copy->keyed = cmd->keyed;
    copy->replayable = 1;
    copy->born = ngx_current_msec;
    return copy;
}


static void
unlink_copy(ngx_chat_redis_client_t *client, ngx_chat_redis_cmd_t *cmd)
{
    ngx_queue_remove(&cmd->queue);
    client->replayed_bytes -= cmd->bytes;
}


/* Forgets what is too old by now, and what there is no room for. */
static void
expire_copies(ngx_chat_redis_client_t *client)
{
    ngx_chat_redis_cmd_t *first;

    while (!ngx_queue_empty(&client->replayed)) {
        first = ngx_queue_data(ngx_queue_head(&client->replayed),
                               ngx_chat_redis_cmd_t, queue);

        if (client->replayed_bytes <= NGX_CHAT_REDIS_REPLAY_BYTES
            && ngx_current_msec - first->born <= NGX_CHAT_REDIS_REPLAY)
        {
            return;
        }

        unlink_copy(client, first);
        ngx_chat_redis_cmd_free(first);
    }
}


void
ngx_chat_redis_replay_add(ngx_chat_redis_client_t    *client,
                          const ngx_chat_redis_cmd_t *cmd)
{
    ngx_chat_redis_cmd_t *copy;

    expire_copies(client);

    if (cmd->piece
        && client->replayed_bytes + cmd->bytes
               > NGX_CHAT_REDIS_REPLAY_BYTES / 2)
    {
        return;
    }

    copy = copy_command(cmd);

    if (copy != NULL) {
        ngx_queue_insert_tail(&client->replayed, &copy->queue);
        client->replayed_bytes += copy->bytes;
        expire_copies(client);
    }
}


void
ngx_chat_redis_replay(ngx_chat_redis_client_t *client)
{
    ngx_chat_redis_cmd_t *cmd;

    /* the last one first, each before all that wait */
    while (!ngx_queue_empty(&client->replayed)) {
        cmd = ngx_queue_data(ngx_queue_last(&client->replayed),
                             ngx_chat_redis_cmd_t, queue);
        unlink_copy(client, cmd);
        ngx_queue_insert_head(&client->cmds, &cmd->queue);
        client->bytes += cmd->bytes;
    }
}
