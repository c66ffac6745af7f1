/*
 * ngx_chat_redis_codec.h: what the files of the Redis store share.
 *
 * ngx_chat_redis_codec.c makes commands of facts and keys,
 * ngx_chat_redis_answer.c makes facts of replies, ngx_chat_redis_log.c does
 * both for logs, ngx_chat_redis_script.c has what runs in the server, and
 * ngx_chat_store_redis.c is the store. Must not know: what facts mean,
 * connections.
 */

#ifndef NGX_CHAT_REDIS_CODEC_H
#define NGX_CHAT_REDIS_CODEC_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/redis/ngx_chat_redis_liveness.h"
#include "store/redis/ngx_chat_redis_sentinel.h"
#include "store/redis/ngx_chat_redis_notify.h"
#include "store/ngx_chat_store.h"

#define NGX_CHAT_REDIS_SHA1 20 /* bytes */

enum {
    NGX_CHAT_REDIS_JOIN,
    NGX_CHAT_REDIS_APPEND,
    NGX_CHAT_REDIS_READ,
    NGX_CHAT_REDIS_SCRIPTS
};

typedef struct {
    chat_store_t              store; /* first: the store is this */
    ngx_chat_store_base_t     base;
    ngx_chat_redis_cluster_t  cluster;
    ngx_chat_redis_sentinel_t sentinel; /* of a scheme that has them */
    ngx_chat_redis_liveness_t live;
    ngx_chat_redis_notify_t   wake;
    ngx_msec_t                doubted; /* nobody may see us, since then */
    u_char                    worker[NGX_CHAT_REDIS_NAME];
    char sha[NGX_CHAT_REDIS_SCRIPTS][2 * NGX_CHAT_REDIS_SHA1 + 1];
} ngx_chat_store_redis_t;

/* What a reply says, pointing into it. */
typedef struct {
    chat_fact_t *facts;
    size_t       count;
} ngx_chat_redis_facts_t;

/* ngx_chat_redis_script.c */

extern const char *const ngx_chat_redis_scripts[];

/* The hashes of the scripts, into the store. */
void ngx_chat_redis_hash(ngx_chat_store_redis_t *redis);

/*
 * Puts the scripts into a server; greets: before all other commands of this
 * connection.
 */
void ngx_chat_redis_load(ngx_chat_redis_client_t *client, ngx_uint_t setup);

/* A command that runs a script, its arguments to follow; NULL: no memory. */
ngx_chat_redis_cmd_t *ngx_chat_redis_call(ngx_chat_store_redis_t *redis,
                                          ngx_uint_t              script);

/*
 * 1: the server has forgotten the script; it is loaded, and the command sent
 * again, which takes both. Once for a command.
 */
ngx_uint_t ngx_chat_redis_reload(ngx_chat_redis_cmd_t *cmd, redisReply *reply);

/* ngx_chat_redis_codec.c */

/* chat:{tag}:name, and behind it :p for the payloads, :l for the log. */
void ngx_chat_redis_add_key(ngx_chat_redis_cmd_t *cmd, const chat_key_t *key,
                            const char *suffix);

/* The server that has the key. */
ngx_chat_redis_client_t *
ngx_chat_redis_client_of(ngx_chat_store_redis_t *redis, const chat_key_t *key);

/*
 * Submits cmd for op; what is not taken (or NULL: no memory) is freed and
 * fails from the event loop.
 */
void ngx_chat_redis_query(ngx_chat_store_redis_t *redis,
                          ngx_chat_redis_cmd_t *cmd, chat_store_op_t *op);

/* wait: this worker's wait/ fact too; or NULL. */
void ngx_chat_redis_join(ngx_chat_store_redis_t *redis, chat_store_op_t *op,
                         const chat_key_t *key, const chat_fact_t *facts,
                         size_t n, uint32_t ttl, const chat_fact_t *wait);

/* chat_store_t's. */
void ngx_chat_store_redis_clear(chat_store_t *store, const chat_key_t *key,
                                uint32_t ttl);
void ngx_chat_store_redis_drop(chat_store_t *store, const chat_key_t *key,
                               const chat_str_t *fields, size_t n);
void ngx_chat_store_redis_payloads(chat_store_t *store, chat_store_op_t *op,
                                   const chat_key_t *key,
                                   const chat_str_t *fields, size_t n);

void ngx_chat_store_redis_append(chat_store_t *store, const chat_key_t *key,
                                 uint64_t position, chat_str_t bytes, int last,
                                 uint64_t keep, uint32_t ttl);
void ngx_chat_store_redis_read(chat_store_t *store, chat_store_op_t *op,
                               const chat_key_t *key, uint64_t position);

/* ngx_chat_redis_answer.c */

/* The text of a reply; empty if it is none. */
chat_str_t ngx_chat_redis_text(const redisReply *reply);

/* Tells whoever waits for the command; then it has no waiter. */
void ngx_chat_redis_done(ngx_chat_redis_cmd_t *cmd, chat_rc_e rc,
                         const ngx_chat_redis_facts_t *found);

/* The end of a command, and of its reply (or NULL). */
void ngx_chat_redis_end(ngx_chat_redis_cmd_t *cmd, redisReply *reply,
                        chat_rc_e rc);

/* The done() of a join, of a look at payloads, and of a read. */
void ngx_chat_redis_join_reply(ngx_chat_redis_cmd_t *cmd, redisReply *reply);
void ngx_chat_redis_payloads_reply(ngx_chat_redis_cmd_t *cmd,
                                   redisReply           *reply);
void ngx_chat_redis_log_reply(ngx_chat_redis_cmd_t *cmd, redisReply *reply);

#endif /* NGX_CHAT_REDIS_CODEC_H */
