/*
 * ngx_chat_redis_queue.c: the commands that wait for their turn or their
 * reply, see ngx_chat_redis_client.h.
 *
 * Greetings stand in front. The queue outlives connections. One timer serves
 * all deadlines: it is set for the first one, and what comes later is found
 * when it fires. Must not know: why a connection ends.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "store/redis/ngx_chat_redis_client.h"


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

    if (cmd->greets) {
        client->greeting--;
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
 * What is sent has the whole timeout for its answer; one that somebody waits
 * for, not more than twice that in all.
 */
static void
ngx_chat_redis_sent(ngx_chat_redis_client_t *client, ngx_chat_redis_cmd_t *cmd)
{
    ngx_msec_t timeout = client->conn.conf->timeout, age;

    age = ngx_current_msec - cmd->born;
    cmd->sent = 1;
    cmd->deadline = cmd->op != NULL && age > timeout && client->patience == 0
                        ? cmd->born + 2 * timeout
                        : ngx_current_msec + timeout;
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

        if (client->greeting != 0 && !cmd->greets) {
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

        ngx_chat_redis_sent(client, cmd);
    }

    ngx_chat_redis_arm(client);
}


/* At the end; a greeting behind the other greetings. */
static void
ngx_chat_redis_insert(ngx_chat_redis_client_t *client,
                      ngx_chat_redis_cmd_t    *cmd)
{
    ngx_queue_t *q = ngx_queue_sentinel(&client->cmds);
    ngx_uint_t   i;

    if (cmd->greets) {
        for (i = 0, q = ngx_queue_head(&client->cmds); i < client->greeting;
             i++) {
            q = ngx_queue_next(q);
        }
        client->greeting++;
    }

    /* before q, and so at the end if q is the sentinel */
    ngx_queue_insert_tail(q, &cmd->queue);
}


ngx_int_t
ngx_chat_redis_submit(ngx_chat_redis_client_t *client,
                      ngx_chat_redis_cmd_t    *cmd)
{
    if (cmd->failed || (cmd->op && client->state == CHAT_STORE_AWAY)) {
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

    ngx_chat_redis_insert(client, cmd);

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
            cmd->deadline = ngx_current_msec + client->patience;
        }

        if (cmd->greets) {
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
    ngx_chat_redis_remind(client);

    while (!ngx_queue_empty(&client->cmds)) {
        cmd = ngx_queue_data(ngx_queue_head(&client->cmds),
                             ngx_chat_redis_cmd_t, queue);
        ngx_chat_redis_remove(client, cmd);
        ngx_chat_redis_cmd_free(cmd);
    }
}
