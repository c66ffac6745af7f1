/*
 * ngx_chat_shm_facts.h: sets of facts in the slab of the zone.
 *
 * All functions are called with the zone's mutex held. A fact is put whole or
 * not at all, and never changes. A look-up takes logarithmic time. Expired
 * batches are freed by and by.
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

/* 1 if the fact is wait/<worker>: a change wakes that worker. */
static inline ngx_uint_t
ngx_chat_shm_fact_is_wait(const ngx_chat_shm_fact_t *fact)
{
    return fact->field_len > 5 && ngx_memcmp(fact->data, "wait/", 5) == 0;
}


void ngx_chat_shm_facts_init(ngx_chat_shm_t *sh);

/* The batch, or NULL. It becomes the most recently used one. */
ngx_chat_shm_batch_t *ngx_chat_shm_facts_find(ngx_chat_shm_ctx_t *ctx,
                                              const chat_key_t   *key);

/* The same; creates a new batch. NULL: no memory. */
ngx_chat_shm_batch_t *ngx_chat_shm_facts_make(ngx_chat_shm_ctx_t *ctx,
                                              const chat_key_t   *key);

/* Puts a fact if absent: 1 added, 0 it was there, NGX_ERROR: no memory. */
ngx_int_t ngx_chat_shm_facts_put(ngx_chat_shm_ctx_t   *ctx,
                                 ngx_chat_shm_batch_t *batch,
                                 const chat_fact_t    *fact);

/* The fact of this field, or NULL. */
ngx_chat_shm_fact_t *ngx_chat_shm_facts_get(ngx_chat_shm_batch_t *batch,
                                            chat_str_t            field);

/* Frees the fact of this field; 0: there is none. */
ngx_uint_t ngx_chat_shm_facts_drop(ngx_chat_shm_ctx_t   *ctx,
                                   ngx_chat_shm_batch_t *batch,
                                   chat_str_t            field);

/*
 * Frees the least recently used batch of the tenant (NULL: of all) but keep,
 * and notifies its workers; held: even if requests wait for it. 0: none.
 */
ngx_uint_t ngx_chat_shm_facts_evict(ngx_chat_shm_ctx_t         *ctx,
                                    ngx_chat_shm_tenant_t      *tenant,
                                    const ngx_chat_shm_batch_t *keep,
                                    ngx_uint_t                  held);

/* Notifies the workers that wait for the batch, and the last claim's. */
void ngx_chat_shm_facts_notify(ngx_chat_shm_ctx_t         *ctx,
                               const ngx_chat_shm_batch_t *batch);

/* Frees all facts and the log. */
void ngx_chat_shm_facts_clear(ngx_chat_shm_ctx_t   *ctx,
                              ngx_chat_shm_batch_t *batch);

/* Frees a few expired batches. */
void ngx_chat_shm_facts_expire(ngx_chat_shm_ctx_t *ctx);

/*
 * Copies a fact into *out; strings in the arena, the payload if asked for.
 * NGX_ERROR: no memory.
 */
ngx_int_t ngx_chat_shm_facts_copy(const ngx_chat_shm_fact_t *fact,
                                  ngx_uint_t payload, chat_arena_t *arena,
                                  chat_fact_t *out);

#endif /* NGX_CHAT_SHM_FACTS_H */
