/*
 * ngx_chat_redis_cmd.c: a command and its arguments, see
 * ngx_chat_redis_client.h.
 *
 * A command owns copies of its arguments, so that it can be sent again.
 * Must not know: connections.
 */

#include <ngx_config.h>
#include <ngx_core.h>

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
ngx_chat_redis_cmd_grow(ngx_chat_redis_cmd_t *cmd)
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

    if (cmd->failed || ngx_chat_redis_cmd_grow(cmd) != NGX_OK
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
