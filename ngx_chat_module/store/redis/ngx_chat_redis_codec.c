/*
 * ngx_chat_redis_codec.c: facts and keys as commands.
 *
 * The facts of a key are a hash; the payloads lie in a second one, so that a
 * look at the facts does not carry them. A fact's value begins with 1 where it
 * has a payload, else 0; before a payload there is the length of its fact's
 * value, a line feed, and that value. The scripts: ngx_chat_redis_script.c.
 * Must not know: what facts mean, connections.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/redis/ngx_chat_redis_codec.h"

#define NGX_CHAT_REDIS_ARGS 4096 /* of a join that grows */
#define NGX_CHAT_REDIS_HEX 64    /* of a digest */
#define NGX_CHAT_REDIS_BACK 4    /* commands looked at for one to add to */

/* Where a join's arguments are in its command; facts follow, three each. */
#define NGX_CHAT_REDIS_KEY 3
#define NGX_CHAT_REDIS_ARG_FACTS 8


void
ngx_chat_redis_add_key(ngx_chat_redis_cmd_t *cmd, const chat_key_t *key,
                       const char *suffix)
{
    char   tag[NGX_CHAT_REDIS_HEX + 1], name[NGX_CHAT_REDIS_HEX + 1];
    u_char text[2 * NGX_CHAT_REDIS_HEX + 16], *end;

    chat_digest_hex(&key->tag, NGX_CHAT_REDIS_HEX / 2, tag);
    chat_digest_hex(&key->name, NGX_CHAT_REDIS_HEX / 2, name);
    end = ngx_slprintf(text, text + sizeof(text), "chat:{%s}:%s%s", tag, name,
                       suffix);
    ngx_chat_redis_cmd_key(cmd, chat_str(text, (size_t) (end - text)));
}


ngx_chat_redis_client_t *
ngx_chat_redis_client_of(ngx_chat_store_redis_t *redis, const chat_key_t *key)
{
    char tag[NGX_CHAT_REDIS_HEX + 1];

    chat_digest_hex(&key->tag, NGX_CHAT_REDIS_HEX / 2, tag);
    return ngx_chat_redis_cluster_client(&redis->cluster,
                                         chat_slot(chat_cstr(tag)));
}


/* What is empty may be NULL, which memcpy() must not get. */
static u_char *
ngx_chat_redis_copy(u_char *p, chat_str_t s)
{
    return s.len != 0 ? ngx_cpymem(p, s.data, s.len) : p;
}


static void
ngx_chat_redis_add_facts(ngx_chat_redis_cmd_t *cmd, const chat_fact_t *facts,
                         size_t n)
{
    size_t     i, argc;
    u_char    *text;
    chat_str_t payload;

    for (i = 0; i < n && !cmd->failed; i++) {
        argc = cmd->argc;
        payload = chat_str(NULL, 0);

        if (facts[i].has_payload) {
            text = ngx_alloc(NGX_SIZE_T_LEN + 1 + facts[i].value.len
                                 + facts[i].payload.len,
                             ngx_cycle->log);
            if (text == NULL) {
                cmd->failed = 1;
                return;
            }

            payload.data = text;
            text = ngx_sprintf(text, "%uz\n", facts[i].value.len);
            text = ngx_chat_redis_copy(text, facts[i].value);
            text = ngx_chat_redis_copy(text, facts[i].payload);
            payload.len = (size_t) (text - payload.data);
        }

        ngx_chat_redis_cmd_add(cmd, facts[i].field);
        ngx_chat_redis_cmd_add(cmd, facts[i].value);
        ngx_chat_redis_cmd_add(cmd, payload);
        ngx_free((void *) payload.data);

        if (cmd->failed) {
            cmd->argc = argc; /* whole facts only */
        }
    }
}


static ngx_chat_redis_cmd_t *
ngx_chat_redis_join_create(ngx_chat_store_redis_t *redis,
                           const chat_key_t *key, uint32_t ttl, size_t most,
                           ngx_uint_t clear)
{
    ngx_chat_redis_cmd_t *cmd;

    cmd = ngx_chat_redis_call(redis, NGX_CHAT_REDIS_JOIN);
    if (cmd != NULL) {
        cmd->done = ngx_chat_redis_joined;
        ngx_chat_redis_cmd_puts(cmd, clear ? "3" : "2");
        ngx_chat_redis_add_key(cmd, key, "");
        ngx_chat_redis_add_key(cmd, key, ":p");
        if (clear) {
            ngx_chat_redis_add_key(cmd, key, ":l");
        }
        ngx_chat_redis_cmd_number(cmd, ttl);
        ngx_chat_redis_cmd_number(cmd, most);
        ngx_chat_redis_cmd_number(cmd, clear);
    }

    return cmd;
}


/* 1 if what goes into like can as well go into cmd. */
static ngx_uint_t
ngx_chat_redis_join_fits(const ngx_chat_redis_cmd_t *cmd,
                         const ngx_chat_redis_cmd_t *like)
{
    ngx_uint_t i;

    if (cmd->op != NULL || cmd->done != ngx_chat_redis_joined
        || cmd->argc > NGX_CHAT_REDIS_ARGS || cmd->failed)
    {
        return 0;
    }

    for (i = NGX_CHAT_REDIS_KEY; i < NGX_CHAT_REDIS_ARG_FACTS; i++) {
        if (!chat_str_eq(chat_str(cmd->argv[i], cmd->len[i]),
                         chat_str(like->argv[i], like->len[i])))
        {
            return 0;
        }
    }

    return 1;
}


/*
 * Adds the facts to a join of the same key that nobody waits for and that is
 * yet to be sent: what a wake-up has to say of a batch goes in one command.
 */
static ngx_uint_t
ngx_chat_redis_join_append(ngx_chat_store_redis_t     *redis,
                           const ngx_chat_redis_cmd_t *like,
                           const chat_fact_t *facts, size_t n)
{
    size_t                   bytes;
    ngx_uint_t               i;
    ngx_chat_redis_cmd_t    *cmd = NULL;
    ngx_chat_redis_client_t *client =
        ngx_chat_redis_cluster_client(&redis->cluster, like->slot);

    for (i = 0; i < NGX_CHAT_REDIS_BACK; i++) {
        cmd = ngx_chat_redis_unsent(client, cmd);
        if (cmd == NULL) {
            return 0;
        }

        if (ngx_chat_redis_join_fits(cmd, like)) {
            bytes = cmd->bytes;
            ngx_chat_redis_add_facts(cmd, facts, n);
            ngx_chat_redis_grown(client, cmd->bytes - bytes);
            return 1;
        }
    }

    return 0;
}


void
ngx_chat_redis_ask(ngx_chat_store_redis_t *redis, ngx_chat_redis_cmd_t *cmd,
                   chat_store_op_t *op)
{
    if (cmd != NULL) {
        cmd->op = op;
        cmd->data = redis;

        if (op != NULL) {
            op->store = &redis->store;
            op->answer = cmd;
        }

        if (ngx_chat_redis_cluster_submit(&redis->cluster, cmd) == NGX_OK) {
            return;
        }

        ngx_chat_redis_cmd_free(cmd);
    }

    if (op != NULL) {
        ngx_chat_store_refuse(&redis->base, &redis->store, op, CHAT_ERROR);
    }
}


void
ngx_chat_redis_join(ngx_chat_store_redis_t *redis, chat_store_op_t *op,
                    const chat_key_t *key, const chat_fact_t *facts, size_t n,
                    uint32_t ttl, const chat_fact_t *wait)
{
    ngx_chat_redis_cmd_t *cmd;

    cmd = ngx_chat_redis_join_create(
        redis, key, ttl, (size_t) redis->store.most_facts * (op ? 1 : 2), 0);
    if (cmd == NULL) {
        ngx_chat_redis_ask(redis, NULL, op);
        return;
    }

    cmd->lasts = n > 0;

    if (op == NULL && ngx_chat_redis_join_append(redis, cmd, facts, n)) {
        ngx_chat_redis_cmd_free(cmd);
        return;
    }

    ngx_chat_redis_add_facts(cmd, facts, n);
    ngx_chat_redis_add_facts(cmd, wait, wait ? 1 : 0);
    ngx_chat_redis_ask(redis, cmd, op);
}


void
ngx_chat_store_redis_clear(chat_store_t *store, const chat_key_t *key,
                           uint32_t ttl)
{
    chat_fact_t             cleared;
    ngx_chat_redis_cmd_t   *cmd;
    ngx_chat_store_redis_t *redis = (ngx_chat_store_redis_t *) store;

    ngx_memzero(&cleared, sizeof(cleared));
    cleared.field = chat_cstr("cleared");
    cleared.value = chat_cstr("1");

    cmd = ngx_chat_redis_join_create(redis, key, ttl, redis->store.most_facts,
                                     1);
    if (cmd != NULL) {
        ngx_chat_redis_add_facts(cmd, &cleared, 1);
        ngx_chat_redis_ask(redis, cmd, NULL);
    }
}


void
ngx_chat_store_redis_drop(chat_store_t *store, const chat_key_t *key,
                          const chat_str_t *fields, size_t n)
{
    size_t                  i;
    ngx_chat_redis_cmd_t   *cmd = ngx_chat_redis_cmd_create();
    ngx_chat_store_redis_t *redis = (ngx_chat_store_redis_t *) store;

    if (cmd == NULL) {
        return;
    }

    cmd->done = ngx_chat_redis_ignore;
    ngx_chat_redis_cmd_puts(cmd, "HDEL");
    ngx_chat_redis_add_key(cmd, key, "");

    for (i = 0; i < n; i++) {
        ngx_chat_redis_cmd_add(cmd, fields[i]);
    }

    ngx_chat_redis_ask(redis, cmd, NULL);
}


void
ngx_chat_store_redis_payloads(chat_store_t *store, chat_store_op_t *op,
                              const chat_key_t *key, const chat_str_t *fields,
                              size_t n)
{
    size_t                  i;
    ngx_chat_redis_cmd_t   *cmd = ngx_chat_redis_cmd_create();
    ngx_chat_store_redis_t *redis = (ngx_chat_store_redis_t *) store;

    if (cmd != NULL) {
        cmd->done = ngx_chat_redis_fetched;
        ngx_chat_redis_cmd_puts(cmd, "HMGET");
        ngx_chat_redis_add_key(cmd, key, ":p");

        for (i = 0; i < n; i++) {
            ngx_chat_redis_cmd_add(cmd, fields[i]);
        }

        if (n == 0) {
            ngx_chat_redis_cmd_puts(cmd, ""); /* HMGET takes no less */
        }
    }

    ngx_chat_redis_ask(redis, cmd, op);
}
