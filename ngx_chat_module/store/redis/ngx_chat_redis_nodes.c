/*
 * ngx_chat_redis_nodes.c: see ngx_chat_redis_nodes.h.
 *
 * SET of the own text and HSET of the own name, then HGETALL for the names
 * and one MGET for the texts of the others; a name without a text is taken
 * out of the hash. Must not know: facts, what the texts say.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/redis/ngx_chat_redis_codec.h"
#include "store/redis/ngx_chat_redis_nodes.h"

#define NGX_CHAT_REDIS_STATUS "chat:{status}"
#define NGX_CHAT_REDIS_STATUS_TTL 10000 /* ms */
#define NGX_CHAT_REDIS_NODE_NAME 64     /* bytes */
#define NGX_CHAT_REDIS_NODE_TEXT 65536


/* Adds the key of this node's text. */
static void
ngx_chat_redis_nodes_key(ngx_chat_redis_cmd_t *cmd, chat_str_t name)
{
    u_char key[sizeof(NGX_CHAT_REDIS_STATUS) + NGX_CHAT_REDIS_NODE_NAME], *end;

    end = ngx_slprintf(key, key + sizeof(key), NGX_CHAT_REDIS_STATUS ":%*s",
                       name.len, name.data);
    ngx_chat_redis_cmd_key(cmd, chat_str(key, (size_t) (end - key)));
}


/* Submits it; NGX_ERROR: it is not taken, and freed. */
static ngx_int_t
ngx_chat_redis_nodes_submit(ngx_chat_redis_nodes_t *nodes,
                            ngx_chat_redis_cmd_t   *cmd,
                            void (*done)(ngx_chat_redis_cmd_t *cmd,
                                         redisReply           *reply))
{
    ngx_chat_store_redis_t *redis = (ngx_chat_store_redis_t *) nodes->store;

    cmd->data = nodes;
    cmd->done = done;

    if (ngx_chat_redis_cluster_submit(&redis->cluster, cmd) == NGX_OK) {
        return NGX_OK;
    }

    ngx_chat_redis_cmd_free(cmd);
    return NGX_ERROR;
}


/* A command on the hash: HSET of a name, HDEL of it. */
static void
ngx_chat_redis_nodes_hash(ngx_chat_redis_nodes_t *nodes, const char *verb,
                          chat_str_t name, const char *value)
{
    ngx_chat_redis_cmd_t *cmd = ngx_chat_redis_cmd_create();

    if (cmd == NULL) {
        return;
    }

    ngx_chat_redis_cmd_puts(cmd, verb);
    ngx_chat_redis_cmd_key(cmd, chat_cstr(NGX_CHAT_REDIS_STATUS));
    ngx_chat_redis_cmd_add(cmd, name);

    if (value != NULL) {
        ngx_chat_redis_cmd_puts(cmd, value);
    }

    (void) ngx_chat_redis_nodes_submit(nodes, cmd, ngx_chat_redis_ignore);
}


/* The texts of the others. */
static void
ngx_chat_redis_nodes_texts(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    size_t                  i, n = 0, skip = sizeof(NGX_CHAT_REDIS_STATUS);
    chat_str_t              texts[NGX_CHAT_REDIS_NODES];
    redisReply             *one;
    ngx_chat_redis_nodes_t *nodes = cmd->data;

    nodes->busy = 0;

    if (reply != NULL && reply->type == REDIS_REPLY_ARRAY
        && reply->elements + 1 == cmd->argc)
    {
        for (i = 0; i < reply->elements; i++) {
            one = reply->element[i];

            if (one->type == REDIS_REPLY_STRING
                && (size_t) one->len <= NGX_CHAT_REDIS_NODE_TEXT)
            {
                texts[n++] = chat_str(one->str, (size_t) one->len);

            } else if (one->type == REDIS_REPLY_NIL) {
                ngx_chat_redis_nodes_hash(
                    nodes, "HDEL",
                    chat_str(cmd->argv[i + 1] + skip, cmd->len[i + 1] - skip),
                    NULL);
            }
        }

        nodes->heard(nodes->data, texts, n);
    }

    ngx_chat_redis_ignore(cmd, reply);
}


/* 1 if there are others, and their texts are asked for. */
static ngx_uint_t
ngx_chat_redis_nodes_ask(ngx_chat_redis_nodes_t *nodes,
                         const redisReply       *names)
{
    size_t                i;
    chat_str_t            name;
    ngx_chat_redis_cmd_t *cmd = ngx_chat_redis_cmd_create();

    if (cmd == NULL) {
        return 0;
    }

    ngx_chat_redis_cmd_puts(cmd, "MGET");

    for (i = 0; i + 1 < names->elements && cmd->argc <= NGX_CHAT_REDIS_NODES;
         i += 2)
    {
        if (names->element[i]->type != REDIS_REPLY_STRING) {
            continue;
        }

        name =
            chat_str(names->element[i]->str, (size_t) names->element[i]->len);

        if (name.len <= NGX_CHAT_REDIS_NODE_NAME
            && !chat_str_eq(name, nodes->name)) {
            ngx_chat_redis_nodes_key(cmd, name);
        }
    }

    if (cmd->argc == 1) {
        ngx_chat_redis_cmd_free(cmd);
        return 0;
    }

    return ngx_chat_redis_nodes_submit(nodes, cmd, ngx_chat_redis_nodes_texts)
           == NGX_OK;
}


/* The names of all nodes, each with a value. */
static void
ngx_chat_redis_nodes_names(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    ngx_chat_redis_nodes_t *nodes = cmd->data;

    nodes->busy = 0;

    if (reply != NULL && reply->type == REDIS_REPLY_ARRAY) {
        nodes->busy = ngx_chat_redis_nodes_ask(nodes, reply);

        if (!nodes->busy) {
            nodes->heard(nodes->data, NULL, 0);
        }

    } else if (reply != NULL) {
        ngx_chat_redis_log_error(cmd->client, reply);
    }

    ngx_chat_redis_ignore(cmd, reply);
}


void
ngx_chat_redis_nodes_tell(ngx_chat_redis_nodes_t *nodes, chat_str_t text)
{
    ngx_chat_redis_cmd_t *set, *ask;

    if (nodes->busy || nodes->store->state != CHAT_STORE_UP) {
        return;
    }

    set = ngx_chat_redis_cmd_create();
    if (set == NULL) {
        return;
    }

    ngx_chat_redis_cmd_puts(set, "SET");
    ngx_chat_redis_nodes_key(set, nodes->name);
    ngx_chat_redis_cmd_add(set, text);
    ngx_chat_redis_cmd_puts(set, "PX");
    ngx_chat_redis_cmd_number(set, NGX_CHAT_REDIS_STATUS_TTL);
    (void) ngx_chat_redis_nodes_submit(nodes, set, ngx_chat_redis_ignore);

    ngx_chat_redis_nodes_hash(nodes, "HSET", nodes->name, "1");

    ask = ngx_chat_redis_cmd_create();
    if (ask == NULL) {
        return;
    }

    ngx_chat_redis_cmd_puts(ask, "HGETALL");
    ngx_chat_redis_cmd_key(ask, chat_cstr(NGX_CHAT_REDIS_STATUS));
    nodes->busy =
        ngx_chat_redis_nodes_submit(nodes, ask, ngx_chat_redis_nodes_names)
        == NGX_OK;
}
