/*
 * ngx_chat_shm_facts.c: see ngx_chat_shm_facts.h.
 *
 * Batches stand in a red-black tree by the first bytes of their name and in a
 * queue by the time of their last use, as limit_req has it. When the slab is
 * full, logs make room, and then the batches that were used longest ago.
 * Must not know: requests, events, how workers are woken.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_chat_shm_facts.h"

#define NGX_CHAT_SHM_EVICT_LOOKS 64 /* batches looked at for one allocation */
#define NGX_CHAT_SHM_RESERVE 8 /* this part of the zone takes no new batch */


static void       ngx_chat_shm_facts_insert(ngx_rbtree_node_t *temp,
                                            ngx_rbtree_node_t *node,
                                            ngx_rbtree_node_t *sentinel);
static ngx_uint_t ngx_chat_shm_facts_held(ngx_chat_shm_ctx_t   *ctx,
                                          ngx_chat_shm_batch_t *batch);
static void       ngx_chat_shm_facts_delete(ngx_chat_shm_ctx_t   *ctx,
                                            ngx_chat_shm_batch_t *batch);


void
ngx_chat_shm_facts_init(ngx_chat_shm_t *sh)
{
    ngx_rbtree_init(&sh->rbtree, &sh->sentinel, ngx_chat_shm_facts_insert);
    ngx_queue_init(&sh->lru);
    ngx_queue_init(&sh->logs);
}


static ngx_int_t
ngx_chat_shm_facts_compare(const ngx_rbtree_node_t *node, uint64_t prefix,
                           const chat_digest_t *name)
{
    const ngx_chat_shm_batch_t *batch;

    if (prefix != node->key) {
        return prefix < node->key ? -1 : 1;
    }

    batch = (const ngx_chat_shm_batch_t *) node;
    return ngx_memcmp(name->bytes, batch->name.bytes, CHAT_DIGEST_SIZE);
}


static void
ngx_chat_shm_facts_insert(ngx_rbtree_node_t *temp, ngx_rbtree_node_t *node,
                          ngx_rbtree_node_t *sentinel)
{
    ngx_rbtree_node_t   **p;
    ngx_chat_shm_batch_t *batch = (ngx_chat_shm_batch_t *) node;

    for (;;) {
        p = ngx_chat_shm_facts_compare(temp, node->key, &batch->name) < 0
                ? &temp->left
                : &temp->right;

        if (*p == sentinel) {
            break;
        }

        temp = *p;
    }

    *p = node;
    node->parent = temp;
    node->left = sentinel;
    node->right = sentinel;
    ngx_rbt_red(node);
}


ngx_chat_shm_batch_t *
ngx_chat_shm_facts_find(ngx_chat_shm_ctx_t *ctx, const chat_key_t *key)
{
    uint64_t              prefix;
    ngx_int_t             rc;
    ngx_rbtree_node_t    *node, *sentinel;
    ngx_chat_shm_batch_t *batch;

    prefix = ngx_chat_store_prefix(key);
    node = ctx->sh->rbtree.root;
    sentinel = ctx->sh->rbtree.sentinel;

    while (node != sentinel) {
        rc = ngx_chat_shm_facts_compare(node, prefix, &key->name);
        if (rc != 0) {
            node = rc < 0 ? node->left : node->right;
            continue;
        }

        batch = (ngx_chat_shm_batch_t *) node;

        if (batch->expires < ngx_time()
            && !ngx_chat_shm_facts_held(ctx, batch)) {
            ngx_chat_shm_facts_delete(ctx, batch);
            return NULL;
        }

        ngx_queue_remove(&batch->queue);
        ngx_queue_insert_head(&ctx->sh->lru, &batch->queue);
        return batch;
    }

    return NULL;
}


/* 1 if a worker that lives holds a request of this batch. */
static ngx_uint_t
ngx_chat_shm_facts_held(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *batch)
{
    ngx_chat_shm_fact_t *fact;

    if (batch->watchers == 0) {
        return 0;
    }

    for (fact = batch->first; fact != NULL; fact = fact->next) {
        if (fact->field_len > 5 && ngx_memcmp(fact->data, "wait/", 5) == 0
            && ngx_chat_shm_alive(
                ctx, chat_str(fact->data + 5, fact->field_len - 5)))
        {
            return 1;
        }
    }

    return 0;
}


/* Frees the batch that was used longest ago and is not held; 0: none. */
static ngx_uint_t
ngx_chat_shm_facts_evict(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *keep)
{
    ngx_uint_t            looks;
    ngx_queue_t          *q;
    ngx_chat_shm_batch_t *batch;

    q = ngx_queue_last(&ctx->sh->lru);

    for (looks = 0; looks < NGX_CHAT_SHM_EVICT_LOOKS
                    && q != ngx_queue_sentinel(&ctx->sh->lru);
         looks++)
    {
        batch = ngx_queue_data(q, ngx_chat_shm_batch_t, queue);
        q = ngx_queue_prev(q);

        if (batch == keep) {
            continue;
        }

        if (!ngx_chat_shm_facts_held(ctx, batch)) {
            ngx_chat_shm_facts_delete(ctx, batch);
            return 1;
        }

        /* out of the way of the next search */
        ngx_queue_remove(&batch->queue);
        ngx_queue_insert_head(&ctx->sh->lru, &batch->queue);
    }

    return 0;
}


/* Says at most once a minute that the zone is full. */
static void
ngx_chat_shm_facts_full(ngx_chat_shm_ctx_t *ctx)
{
    if (ngx_time() - ctx->sh->warned < 60) {
        return;
    }

    ctx->sh->warned = ngx_time();
    ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                  "chat: the zone \"%V\" is full of held batches, no further "
                  "ones are taken on",
                  &ctx->zone->shm.name);
}


/* size bytes of the slab, at the price of logs, then of idle batches. */
static void *
ngx_chat_shm_facts_alloc(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *keep,
                         size_t size)
{
    void *p;

    do {
        p = ngx_slab_calloc_locked(ctx->shpool, size);
    } while (p == NULL
             && (ngx_chat_shm_log_evict(ctx, NULL)
                 || ngx_chat_shm_facts_evict(ctx, keep)));

    if (p == NULL) {
        ngx_chat_shm_facts_full(ctx);
    }

    return p;
}


ngx_chat_shm_batch_t *
ngx_chat_shm_facts_make(ngx_chat_shm_ctx_t *ctx, const chat_key_t *key)
{
    ngx_chat_shm_batch_t *batch;

    batch = ngx_chat_shm_facts_find(ctx, key);
    if (batch != NULL) {
        return batch;
    }

    /* the last room is for what those that are held wait for, and for logs */

    if (ctx->shpool->pfree + ctx->sh->log_pages
            < ctx->zone->shm.size / ngx_pagesize / NGX_CHAT_SHM_RESERVE
        && !ngx_chat_shm_facts_evict(ctx, NULL))
    {
        ngx_chat_shm_facts_full(ctx);
        return NULL;
    }

    batch = ngx_chat_shm_facts_alloc(ctx, NULL, sizeof(*batch));
    if (batch == NULL) {
        return NULL;
    }

    batch->name = key->name;
    batch->node.key = ngx_chat_store_prefix(key);
    ngx_chat_shm_log_init(&batch->log);
    ngx_rbtree_insert(&ctx->sh->rbtree, &batch->node);
    ngx_queue_insert_head(&ctx->sh->lru, &batch->queue);
    return batch;
}


static void
ngx_chat_shm_facts_free_chunks(ngx_chat_shm_ctx_t   *ctx,
                               ngx_chat_shm_chunk_t *chunk)
{
    ngx_chat_shm_chunk_t *next;

    for (; chunk != NULL; chunk = next) {
        next = chunk->next;
        ngx_slab_free_locked(ctx->shpool, chunk);
    }
}


/* The payload in pieces; NGX_ERROR: no memory, nothing is left behind. */
static ngx_int_t
ngx_chat_shm_facts_payload(ngx_chat_shm_ctx_t   *ctx,
                           ngx_chat_shm_batch_t *batch, chat_str_t payload,
                           ngx_chat_shm_chunk_t **chunks)
{
    size_t                 len, room;
    ngx_chat_shm_chunk_t **next = chunks;

    *chunks = NULL;
    room = ngx_pagesize - offsetof(ngx_chat_shm_chunk_t, data);

    while (payload.len != 0) {
        len = ngx_min(payload.len, room);

        *next = ngx_chat_shm_facts_alloc(
            ctx, batch, offsetof(ngx_chat_shm_chunk_t, data) + len);
        if (*next == NULL) {
            ngx_chat_shm_facts_free_chunks(ctx, *chunks);
            *chunks = NULL;
            return NGX_ERROR;
        }

        ngx_memcpy((*next)->data, payload.data, len);
        (*next)->len = len;
        payload.data += len;
        payload.len -= len;
        next = &(*next)->next;
    }

    return NGX_OK;
}


ngx_chat_shm_fact_t *
ngx_chat_shm_facts_get(ngx_chat_shm_batch_t *batch, chat_str_t field)
{
    ngx_chat_shm_fact_t *fact;

    for (fact = batch->first; fact != NULL; fact = fact->next) {
        if (fact->field_len == field.len
            && ngx_memcmp(fact->data, field.data, field.len) == 0)
        {
            return fact;
        }
    }

    return NULL;
}


/* The fact was there: it may still lack the payload of its own value. */
static ngx_int_t
ngx_chat_shm_facts_complete(ngx_chat_shm_ctx_t   *ctx,
                            ngx_chat_shm_batch_t *batch,
                            ngx_chat_shm_fact_t *old, const chat_fact_t *fact)
{
    if (!fact->has_payload || old->has_payload
        || !chat_str_eq(chat_str(old->data + old->field_len, old->value_len),
                        fact->value))
    {
        return 0;
    }

    if (ngx_chat_shm_facts_payload(ctx, batch, fact->payload, &old->payload)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    old->payload_len = fact->payload.len;
    old->has_payload = 1;
    return 1;
}


ngx_int_t
ngx_chat_shm_facts_put(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *batch,
                       const chat_fact_t *fact)
{
    ngx_chat_shm_fact_t *new;

    new = ngx_chat_shm_facts_get(batch, fact->field);
    if (new != NULL) {
        return ngx_chat_shm_facts_complete(ctx, batch, new, fact);
    }

    new = ngx_chat_shm_facts_alloc(ctx, batch,
                                   offsetof(ngx_chat_shm_fact_t, data)
                                       + fact->field.len + fact->value.len);
    if (new == NULL) {
        return NGX_ERROR;
    }

    if (fact->has_payload
        && ngx_chat_shm_facts_payload(ctx, batch, fact->payload, &new->payload)
               != NGX_OK)
    {
        ngx_slab_free_locked(ctx->shpool, new);
        return NGX_ERROR;
    }

    new->has_payload = fact->has_payload;
    new->payload_len = fact->has_payload ? fact->payload.len : 0;
    new->field_len = fact->field.len;
    new->value_len = fact->value.len;
    ngx_memcpy(new->data, fact->field.data, fact->field.len);
    if (fact->value.len != 0) {
        ngx_memcpy(new->data + fact->field.len, fact->value.data,
                   fact->value.len);
    }

    if (batch->last != NULL) {
        batch->last->next = new;
    } else {
        batch->first = new;
    }

    batch->last = new;
    batch->count++;
    return 1;
}


void
ngx_chat_shm_facts_clear(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *batch)
{
    ngx_chat_shm_fact_t *fact, *next;

    for (fact = batch->first; fact != NULL; fact = next) {
        next = fact->next;
        ngx_chat_shm_facts_free_chunks(ctx, fact->payload);
        ngx_slab_free_locked(ctx->shpool, fact);
    }

    ngx_chat_shm_log_clear(ctx, &batch->log);
    batch->log.next = 0;
    batch->count = 0;
    batch->first = NULL;
    batch->last = NULL;
}


static void
ngx_chat_shm_facts_delete(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *batch)
{
    ngx_chat_shm_facts_clear(ctx, batch);
    ngx_queue_remove(&batch->queue);
    ngx_rbtree_delete(&ctx->sh->rbtree, &batch->node);
    ngx_slab_free_locked(ctx->shpool, batch);
}


void
ngx_chat_shm_facts_expire(ngx_chat_shm_ctx_t *ctx)
{
    ngx_uint_t            i;
    ngx_queue_t          *q;
    ngx_chat_shm_batch_t *batch;

    for (i = 0; i < 2; i++) {
        q = ngx_queue_last(&ctx->sh->lru);
        if (q == ngx_queue_sentinel(&ctx->sh->lru)) {
            return;
        }

        batch = ngx_queue_data(q, ngx_chat_shm_batch_t, queue);
        if (batch->expires >= ngx_time()
            || ngx_chat_shm_facts_held(ctx, batch)) {
            return;
        }

        ngx_chat_shm_facts_delete(ctx, batch);
    }
}


ngx_int_t
ngx_chat_shm_facts_copy(const ngx_chat_shm_fact_t *fact, ngx_uint_t payload,
                        chat_arena_t *arena, chat_fact_t *out)
{
    u_char                     *p;
    size_t                      len;
    const ngx_chat_shm_chunk_t *chunk;

    len = fact->field_len + fact->value_len;
    p = chat_arena_alloc(arena, len + (payload ? fact->payload_len : 0) + 1);
    if (p == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(p, fact->data, len);
    out->field = chat_str(p, fact->field_len);
    out->value = chat_str(p + fact->field_len, fact->value_len);
    out->has_payload = (int) fact->has_payload;
    out->payload = chat_str(NULL, 0);

    if (payload && fact->has_payload) {
        p += len;
        out->payload = chat_str(p, fact->payload_len);

        for (chunk = fact->payload; chunk != NULL; chunk = chunk->next) {
            p = ngx_cpymem(p, chunk->data, chunk->len);
        }
    }

    return NGX_OK;
}
