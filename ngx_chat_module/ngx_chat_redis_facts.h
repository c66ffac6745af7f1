/*
 * ngx_chat_redis_facts.h: what the files of the Redis store share.
 *
 * ngx_chat_redis_question.c makes commands of facts and keys,
 * ngx_chat_redis_answer.c makes facts of replies, ngx_chat_store_redis.c is
 * the store. Must not know: what facts mean, connections.
 */

#ifndef NGX_CHAT_REDIS_FACTS_H
#define NGX_CHAT_REDIS_FACTS_H

#include "ngx_chat_redis_live.h"
#include "ngx_chat_redis_wake.h"
#include "ngx_chat_store.h"

#define NGX_CHAT_REDIS_SHA1 20 /* bytes */

typedef struct {
    chat_store_t            store; /* first: the store is this */
    ngx_chat_store_base_t   base;
    ngx_chat_redis_client_t client;
    ngx_chat_redis_live_t   live;
    ngx_chat_redis_wake_t   wake;
    u_char                  worker[NGX_CHAT_REDIS_NAME];
    char                    sha[2 * NGX_CHAT_REDIS_SHA1 + 1];
} ngx_chat_store_redis_t;

/* The script that joins; the store makes its hash. */
extern const char   ngx_chat_redis_script[];
extern const size_t ngx_chat_redis_script_len;

/*
 * Puts the script into the server; greets: before all other commands of this
 * connection.
 */
void ngx_chat_redis_load(ngx_chat_store_redis_t *redis, ngx_uint_t greets);

/*
 * Submits cmd for op; what is not taken (or NULL: no memory) is freed and
 * fails from the event loop.
 */
void ngx_chat_redis_ask(ngx_chat_store_redis_t *redis,
                        ngx_chat_redis_cmd_t *cmd, chat_store_op_t *op);

/* wait: this worker's wait/ fact too; or NULL. */
void ngx_chat_redis_join(ngx_chat_store_redis_t *redis, chat_store_op_t *op,
                         const chat_key_t *key, const chat_fact_t *facts,
                         size_t n, uint32_t ttl, const chat_fact_t *wait);

/* chat_store_t's. */
void ngx_chat_store_redis_clear(chat_store_t *store, const chat_key_t *key,
                                uint32_t ttl);
void ngx_chat_store_redis_payloads(chat_store_t *store, chat_store_op_t *op,
                                   const chat_key_t *key,
                                   const chat_str_t *fields, size_t n);

/* The done() of a join, and of a look at payloads. */
void ngx_chat_redis_joined(ngx_chat_redis_cmd_t *cmd, redisReply *reply);
void ngx_chat_redis_fetched(ngx_chat_redis_cmd_t *cmd, redisReply *reply);

#endif /* NGX_CHAT_REDIS_FACTS_H */
