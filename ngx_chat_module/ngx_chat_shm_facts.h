/*
 * ngx_chat_shm_facts.h: sets of facts in the slab of the zone.
 *
 * All functions are called with the zone's mutex held. Promises: a fact once
 * put is not changed; what could not be put whole is not put; a batch that a
 * living worker watches is never evicted; expired batches go by and by.
 * Must not know: requests, events, how workers are woken.
 */

#ifndef NGX_CHAT_SHM_FACTS_H
#define NGX_CHAT_SHM_FACTS_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_chat_shm.h"
#include "ngx_chat_shm_log.h"
#include "ngx_chat_store.h"

/*
 * Facts of one batch, past which requests add no more to it. What is said of
 * an attempt once it runs is awaited by others and has as much room again.
 */
#define NGX_CHAT_SHM_FACTS_MAX 4096

/* A payload is kept in pieces of at most a page. */
typedef struct ngx_chat_shm_chunk_s ngx_chat_shm_chunk_t;

struct ngx_chat_shm_chunk_s {
    ngx_chat_shm_chunk_t *next;
    size_t                len;
    u_char                data[1];
};

typedef struct ngx_chat_shm_fact_s ngx_chat_shm_fact_t;

struct ngx_chat_shm_fact_s {
    ngx_chat_shm_fact_t  *next;
    ngx_chat_shm_chunk_t *payload;
    size_t                payload_len;
    ngx_uint_t            has_payload;
    size_t                field_len;
    size_t                value_len;
    u_char                data[1]; /* field, value */
};

typedef struct {
    ngx_rbtree_node_t    node;  /* key: prefix of name */
    ngx_queue_t          queue; /* in lru */
    chat_digest_t        name;
    time_t               expires;
    ngx_uint_t           watchers;
    ngx_uint_t           count; /* of facts */
    ngx_chat_shm_fact_t *first;
    ngx_chat_shm_fact_t *last;
    ngx_chat_shm_log_t   log;
} ngx_chat_shm_batch_t;

void ngx_chat_shm_facts_init(ngx_chat_shm_t *sh);

/* The batch, most recently used from now on, or NULL. */
ngx_chat_shm_batch_t *ngx_chat_shm_facts_find(ngx_chat_shm_ctx_t *ctx,
                                              const chat_key_t   *key);

/* The same, made if it is new. NULL: no memory. */
ngx_chat_shm_batch_t *ngx_chat_shm_facts_make(ngx_chat_shm_ctx_t *ctx,
                                              const chat_key_t   *key);

/* Puts a fact if absent: 1 added, 0 it was there, NGX_ERROR: no memory. */
ngx_int_t ngx_chat_shm_facts_put(ngx_chat_shm_ctx_t   *ctx,
                                 ngx_chat_shm_batch_t *batch,
                                 const chat_fact_t    *fact);

/* The fact of this field, or NULL. */
ngx_chat_shm_fact_t *ngx_chat_shm_facts_get(ngx_chat_shm_batch_t *batch,
                                            chat_str_t            field);

/* Takes all facts away, and the log. */
void ngx_chat_shm_facts_clear(ngx_chat_shm_ctx_t   *ctx,
                              ngx_chat_shm_batch_t *batch);

/* Frees a few batches whose time is over. */
void ngx_chat_shm_facts_expire(ngx_chat_shm_ctx_t *ctx);

/*
 * Copies a fact into *out; strings in the arena, the payload if asked for.
 * NGX_ERROR: no memory.
 */
ngx_int_t ngx_chat_shm_facts_copy(const ngx_chat_shm_fact_t *fact,
                                  ngx_uint_t payload, chat_arena_t *arena,
                                  chat_fact_t *out);

#endif /* NGX_CHAT_SHM_FACTS_H */
