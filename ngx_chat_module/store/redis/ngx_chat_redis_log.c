/*
 * ngx_chat_redis_log.c: logs, as streams beside the facts.
 *
 * A piece is one entry, <position + 1>-0, with one field: b, or l for the
 * last one. An id that is not above the last one is refused by the server, so
 * that an append may be sent twice. What could not be sent is lost, and shows
 * as a gap. Must not know: what pieces are, connections.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/redis/ngx_chat_redis_codec.h"


static void
ngx_chat_redis_add_id(ngx_chat_redis_cmd_t *cmd, uint64_t position)
{
    u_char text[NGX_INT64_LEN + 3], *end;

    end = ngx_sprintf(text, "%uL-0", position + 1);
    ngx_chat_redis_cmd_add(cmd, chat_str(text, (size_t) (end - text)));
}


static void
ngx_chat_redis_appended(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    if (reply != NULL) {
        if (ngx_chat_redis_again(cmd, reply)) {
            return;
        }

        if (reply->type != REDIS_REPLY_INTEGER) {
            ngx_chat_redis_complain(cmd->client, reply);
        }
    }

    ngx_chat_redis_ignore(cmd, reply);
}


void
ngx_chat_store_redis_append(chat_store_t *store, const chat_key_t *key,
                            uint64_t position, chat_str_t bytes, int last,
                            uint64_t keep, uint32_t ttl)
{
    ngx_chat_redis_cmd_t   *cmd;
    ngx_chat_store_redis_t *redis = (ngx_chat_store_redis_t *) store;

    /* while the server is away, half of the room is for facts alone */

    if (position == UINT64_MAX
        || redis->cluster.bytes + ngx_chat_redis_client_of(redis, key)->bytes
                   + bytes.len
               > NGX_CHAT_REDIS_PENDING / 2)
    {
        return;
    }

    cmd = ngx_chat_redis_call(redis, NGX_CHAT_REDIS_APPEND);
    if (cmd != NULL) {
        cmd->done = ngx_chat_redis_appended;
        cmd->lasts = 1;
        cmd->piece = 1;
        ngx_chat_redis_cmd_puts(cmd, "3");
        ngx_chat_redis_add_key(cmd, key, "");
        ngx_chat_redis_add_key(cmd, key, ":p");
        ngx_chat_redis_add_key(cmd, key, ":l");
        ngx_chat_redis_cmd_number(cmd, ttl);
        ngx_chat_redis_add_id(cmd, ngx_min(keep, position));
        ngx_chat_redis_add_id(cmd, position);
        ngx_chat_redis_cmd_puts(cmd, last ? "l" : "b");
        ngx_chat_redis_cmd_add(cmd, bytes);
    }

    ngx_chat_redis_ask(redis, cmd, NULL);
}


void
ngx_chat_store_redis_read(chat_store_t *store, chat_store_op_t *op,
                          const chat_key_t *key, uint64_t position)
{
    ngx_chat_redis_cmd_t   *cmd;
    ngx_chat_store_redis_t *redis = (ngx_chat_store_redis_t *) store;

    cmd = ngx_chat_redis_call(redis, NGX_CHAT_REDIS_READ);
    if (cmd != NULL) {
        cmd->done = ngx_chat_redis_pieces;
        ngx_chat_redis_cmd_puts(cmd, "1");
        ngx_chat_redis_add_key(cmd, key, ":l");
        ngx_chat_redis_add_id(cmd, ngx_min(position, UINT64_MAX - 1));
        ngx_chat_redis_cmd_number(cmd, CHAT_STORE_READ_MAX);
    }

    ngx_chat_redis_ask(redis, cmd, op);
}


/* The position that an entry's id says; NGX_ERROR: it is none of ours. */
static ngx_int_t
ngx_chat_redis_position(const redisReply *id, uint64_t *position)
{
    char *end;

    if (id->type != REDIS_REPLY_STRING || id->str[0] < '1' || id->str[0] > '9')
    {
        return NGX_ERROR;
    }

    *position = strtoull(id->str, &end, 10) - 1;
    return ngx_strcmp(end, "-0") == 0 ? NGX_OK : NGX_ERROR;
}


/* An entry as a fact, its field at p; 0: it is none of ours. */
static ngx_uint_t
ngx_chat_redis_piece(const redisReply *entry, chat_fact_t *fact, u_char *p)
{
    uint64_t          position;
    chat_str_t        name;
    const redisReply *pair;

    if (entry->type != REDIS_REPLY_ARRAY || entry->elements != 2
        || ngx_chat_redis_position(entry->element[0], &position) != NGX_OK)
    {
        return 0;
    }

    pair = entry->element[1];
    if (pair->type != REDIS_REPLY_ARRAY || pair->elements != 2
        || pair->element[1]->type != REDIS_REPLY_STRING)
    {
        return 0;
    }

    name = ngx_chat_redis_text(pair->element[0]);
    if (!chat_str_is(name, "b") && !chat_str_is(name, "l")) {
        return 0;
    }

    fact->field = chat_str(p, (size_t) (ngx_sprintf(p, "%uL", position) - p));
    fact->value =
        chat_str_is(name, "l") ? chat_cstr("last") : chat_str(NULL, 0);
    fact->payload = ngx_chat_redis_text(pair->element[1]);
    fact->has_payload = 1;
    return 1;
}


void
ngx_chat_redis_pieces(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    size_t                 i, n;
    u_char                *p;
    ngx_chat_redis_facts_t found;

    if (reply != NULL && ngx_chat_redis_again(cmd, reply)) {
        return;
    }

    if (reply == NULL || reply->type != REDIS_REPLY_ARRAY) {
        if (reply != NULL) {
            ngx_chat_redis_complain(cmd->client, reply);
        }
        ngx_chat_redis_end(cmd, reply, CHAT_ERROR);
        return;
    }

    n = reply->elements;
    found.count = 0;
    found.facts = chat_arena_alloc(
        cmd->arena, n * (sizeof(chat_fact_t) + NGX_INT64_LEN) + 1);
    if (found.facts == NULL) {
        ngx_chat_redis_end(cmd, reply, CHAT_ERROR);
        return;
    }

    p = (u_char *) (found.facts + n);

    for (i = 0; i < n; i++, p += NGX_INT64_LEN) {
        found.count += ngx_chat_redis_piece(reply->element[i],
                                            &found.facts[found.count], p);
    }

    ngx_chat_redis_tell(cmd, CHAT_OK, &found);
    ngx_chat_redis_ignore(cmd, reply);
}
