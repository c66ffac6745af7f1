/*
 * ngx_chat_shm_facts.h: sets of facts in the slab of the zone.
 *
 * All functions are called with the zone's mutex held. Promises: a fact once
 * put is not changed; what could not be put whole is not put; a look-up takes
 * the logarithm of the number of facts; expired batches go by and by.
 * Must not know: requests, events, how workers are woken.
 */

#ifndef NGX_CHAT_SHM_FACTS_H
#define NGX_CHAT_SHM_FACTS_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/shm/ngx_chat_shm_log.h"
#include "store/ngx_chat_store.h"

/* A payload is kept in pieces of at most a page. */
typedef struct ngx_chat_shm_chunk_s ngx_chat_shm_chunk_t;

struct ngx_chat_shm_chunk_s {
    ngx_chat_shm_chunk_t *next;
    size_t                len;
    u_char                data[1];
};

typedef struct ngx_chat_shm_fact_s ngx_chat_shm_fact_t;

struct ngx_chat_shm_fact_s {
    ngx_chat_shm_fact_t  *next; /* of the batch; wait/ comes first */
    ngx_chat_shm_fact_t  *prev;
    ngx_chat_shm_fact_t  *left; /* in the tree of fields */
    ngx_chat_shm_fact_t  *right;
    ngx_chat_shm_chunk_t *payload;
    uint32_t              priority; /* random: the tree is a treap */
    uint32_t              payload_len;
    uint32_t              value_len;
    unsigned              field_len : 31;
    unsigned              has_payload : 1;
    u_char                data[1]; /* field, value */
};

struct ngx_chat_shm_batch_s {
    ngx_rbtree_node_t      node;  /* key: prefix of name */
    ngx_queue_t            queue; /* in lru */
    ngx_queue_t            own;   /* in its tenant's */
    ngx_chat_shm_tenant_t *tenant;
    chat_digest_t          name;
    time_t                 expires;
    ngx_uint_t             watchers;
    ngx_uint_t             count; /* of facts */
    ngx_uint_t             paid;  /* a payload is stored */
    ngx_chat_shm_fact_t   *first;
    ngx_chat_shm_fact_t   *last;
    ngx_chat_shm_fact_t   *root;
    ngx_chat_shm_fact_t   *claim; /* the last claim/ that was put, or NULL */
    ngx_chat_shm_log_t     log;
};

/* 1 if the fact is the wish of a worker to be woken. */
static inline ngx_uint_t
ngx_chat_shm_fact_is_wait(const ngx_chat_shm_fact_t *fact)
{
    return fact->field_len > 5 && ngx_memcmp(fact->data, "wait/", 5) == 0;
}


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

/* Takes one fact away; 0: there is none of this field. */
ngx_uint_t ngx_chat_shm_facts_drop(ngx_chat_shm_ctx_t   *ctx,
                                   ngx_chat_shm_batch_t *batch,
                                   chat_str_t            field);

/*
 * Frees the batch of the tenant (NULL: of all) that was used longest ago and
 * is not keep; held: one that requests wait for too, and wakes their workers.
 * 0: there is none.
 */
ngx_uint_t ngx_chat_shm_facts_evict(ngx_chat_shm_ctx_t         *ctx,
                                    ngx_chat_shm_tenant_t      *tenant,
                                    const ngx_chat_shm_batch_t *keep,
                                    ngx_uint_t                  held);

/* Notifies the workers that wait for the batch, and the last claim's. */
void ngx_chat_shm_facts_notify(ngx_chat_shm_ctx_t         *ctx,
                               const ngx_chat_shm_batch_t *batch);

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
