/*
 * ngx_chat_redis_lately.c: what was put lately, for a server that takes the
 * place of another one and may not have got it; see ngx_chat_redis_client.h.
 *
 * Redis acknowledges what its replicas have yet to get. Copies of commands
 * that have been answered are kept for some seconds, counted from the newest:
 * what is put twice stands once. Pieces of logs have half of the room.
 * Must not know: what commands are for.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "store/redis/ngx_chat_redis_client.h"

#define NGX_CHAT_REDIS_LATELY 5000 /* ms */
#define NGX_CHAT_REDIS_LATELY_BYTES (4 * 1024 * 1024)


static ngx_chat_redis_cmd_t *
ngx_chat_redis_copy_cmd(const ngx_chat_redis_cmd_t *cmd)
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
    copy->lasts = 1;
    copy->born = ngx_current_msec;
    return copy;
}


static void
ngx_chat_redis_forget_one(ngx_chat_redis_client_t *client,
                          ngx_chat_redis_cmd_t    *cmd)
{
    ngx_queue_remove(&cmd->queue);
    client->lately_bytes -= cmd->bytes;
}


/* Forgets what is too old by now, and what there is no room for. */
static void
ngx_chat_redis_outdate(ngx_chat_redis_client_t *client)
{
    ngx_chat_redis_cmd_t *first;

    while (!ngx_queue_empty(&client->lately)) {
        first = ngx_queue_data(ngx_queue_head(&client->lately),
                               ngx_chat_redis_cmd_t, queue);

        if (client->lately_bytes <= NGX_CHAT_REDIS_LATELY_BYTES
            && ngx_current_msec - first->born <= NGX_CHAT_REDIS_LATELY)
        {
            return;
        }

        ngx_chat_redis_forget_one(client, first);
        ngx_chat_redis_cmd_free(first);
    }
}


void
ngx_chat_redis_remember(ngx_chat_redis_client_t    *client,
                        const ngx_chat_redis_cmd_t *cmd)
{
    ngx_chat_redis_cmd_t *copy;

    ngx_chat_redis_outdate(client);

    if (cmd->piece
        && client->lately_bytes + cmd->bytes > NGX_CHAT_REDIS_LATELY_BYTES / 2)
    {
        return;
    }

    copy = ngx_chat_redis_copy_cmd(cmd);

    if (copy != NULL) {
        ngx_queue_insert_tail(&client->lately, &copy->queue);
        client->lately_bytes += copy->bytes;
        ngx_chat_redis_outdate(client);
    }
}


void
ngx_chat_redis_remind(ngx_chat_redis_client_t *client)
{
    ngx_chat_redis_cmd_t *cmd;

    /* the last one first, each before all that wait */
    while (!ngx_queue_empty(&client->lately)) {
        cmd = ngx_queue_data(ngx_queue_last(&client->lately),
                             ngx_chat_redis_cmd_t, queue);
        ngx_chat_redis_forget_one(client, cmd);
        ngx_queue_insert_head(&client->cmds, &cmd->queue);
        client->bytes += cmd->bytes;
    }
}
