/*
 * ngx_chat_shm_facts.c: see ngx_chat_shm.h.
 *
 * A tenant is charged for the blocks that the slab uses: a power of two, or
 * whole pages.
 *
 * Batches are in a hash table by name, and in queues by their last use. The
 * table costs one cache miss where a tree of 100,000 batches costs 17.
 * The facts of a batch are in a list, and in a tree by the hash of their
 * field: each bit of the hash selects one of two branches. The key of the hash
 * is secret, so that no client can make the tree deep.
 * A batch and its facts share blocks, so that few are made and freed.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "base/ngx_chat_ctx.h"
#include "store/shm/ngx_chat_shm.h"

#define NGX_CHAT_SHM_SHARE 4        /* a tenant's share is 1/4 of the zone */
#define NGX_CHAT_SHM_EVICT_LOOKS 64 /* batches tried for one allocation */
#define NGX_CHAT_SHM_RESERVE 8      /* 1/8 of the zone takes no new batch */
#define NGX_CHAT_SHM_BUCKET 256     /* bytes of the zone for each bucket */
#define NGX_CHAT_SHM_BLOCK 1024     /* bytes of a batch and its facts */


static void delete_batch(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *batch);


static void
init_queues(ngx_queue_t *queues)
{
    ngx_queue_init(&queues[NGX_CHAT_SHM_LOGS]);
    ngx_queue_init(&queues[NGX_CHAT_SHM_BATCHES]);
}


ngx_int_t
ngx_chat_shm_facts_init(ngx_chat_shm_ctx_t *ctx)
{
    chat_digest_t   key;
    ngx_chat_shm_t *sh = ngx_slab_calloc(ctx->shpool, sizeof(ngx_chat_shm_t));

    if (sh == NULL
        || ngx_chat_random(&key, sizeof(key), ctx->zone->shm.log) != NGX_OK)
    {
        return NGX_ERROR;
    }

    sh->nbuckets = ctx->zone->shm.size / NGX_CHAT_SHM_BUCKET;
    sh->buckets =
        ngx_slab_calloc(ctx->shpool, sh->nbuckets * sizeof(*sh->buckets));
    if (sh->buckets == NULL) {
        return NGX_ERROR;
    }

    chat_mix_init(&sh->hash, &key);
    init_queues(sh->used);
    ngx_chat_shares_init(&sh->shares);
    ctx->sh = sh;
    return NGX_OK;
}


static ngx_chat_shm_batch_t **
bucket_of(ngx_chat_shm_t *sh, const chat_digest_t *name)
{
    uint64_t hash = chat_mix_hash(sh->hash, chat_digest_str(name));

    return &sh->buckets[(hash >> 32) * sh->nbuckets >> 32];
}


/*
 * 1 if the fact is wait/<worker>: a change wakes that worker, and the batch is
 * not evicted. It stands while the worker watches the batch.
 */
static ngx_uint_t
is_wait(const ngx_chat_shm_fact_t *fact, chat_str_t *worker)
{
    return chat_str_after(chat_str(fact->data, fact->field_len), "wait/",
                          worker)
           & 1;
}


/* 1 if a living worker watches this batch. */
static ngx_uint_t
is_watched(ngx_chat_shm_ctx_t *ctx, const ngx_chat_shm_batch_t *batch)
{
    chat_str_t           worker;
    ngx_chat_shm_fact_t *fact = batch->first;

    for (; fact != NULL && is_wait(fact, &worker); fact = fact->next) {
        if (ngx_chat_shm_alive(&ctx->base.store, worker)) {
            return 1;
        }
    }

    return 0;
}


/* Frees the batch if it has expired. 0: it has not. */
static ngx_uint_t
expire_batch(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *batch)
{
    if (batch->expires >= ngx_time() || is_watched(ctx, batch)) {
        return 0;
    }

    delete_batch(ctx, batch);
    return 1;
}


void
ngx_chat_shm_facts_expect(chat_store_t *store, const chat_key_t *key)
{
    ngx_chat_shm_ctx_t *ctx = (ngx_chat_shm_ctx_t *) store;

    /* the batch, and for the notification its watches */
    __builtin_prefetch(bucket_of(ctx->sh, &key->name), 1);
    __builtin_prefetch(&ctx->base.watches[chat_word_at(key->name.bytes)
                                          % NGX_CHAT_WATCH_BUCKETS]);
}


ngx_chat_shm_batch_t *
ngx_chat_shm_facts_find(ngx_chat_shm_ctx_t *ctx, const chat_key_t *key)
{
    ngx_chat_shm_batch_t *batch = *bucket_of(ctx->sh, &key->name);

    while (batch != NULL && !chat_digest_eq(&batch->name, &key->name)) {
        batch = batch->next;
    }

    if (batch == NULL || expire_batch(ctx, batch)) {
        return NULL;
    }

    ngx_chat_shm_touch(ctx, batch, NGX_CHAT_SHM_BATCHES);
    return batch;
}


/* Of a claim: the worker, a space, the request, a space, and more. */
static chat_str_t
value_of(const ngx_chat_shm_fact_t *fact)
{
    return chat_str(fact->data + fact->field_len, fact->value_len);
}


/*
 * 1 if an attempt of a living worker has neither ended nor been voided.
 * Without its claim, another request with the same results would go upstream.
 */
static ngx_uint_t
is_claimed(ngx_chat_shm_ctx_t *ctx, const ngx_chat_shm_batch_t *batch)
{
    chat_str_t value;

    if (batch->claim == NULL || batch->over) {
        return 0;
    }

    value = value_of(batch->claim);
    return ngx_chat_shm_alive(&ctx->base.store, chat_str_cut(&value, ' ')) & 1;
}


/* 1 if the field is end/ or void/ of the last claim: k/worker/request. */
static ngx_uint_t
ends_claim(const ngx_chat_shm_fact_t *claim, chat_str_t field)
{
    chat_str_t k, value;

    if (claim == NULL
        || !(chat_str_after(field, "end/", &field)
             || chat_str_after(field, "void/", &field)))
    {
        return 0;
    }

    k = chat_str(claim->data + 6, claim->field_len - 6u);
    value = value_of(claim);
    return chat_str_eq(chat_str_cut(&field, '/'), k)
           && chat_str_eq(chat_str_cut(&field, '/'), chat_str_cut(&value, ' '))
           && chat_str_eq(field, chat_str_cut(&value, ' '));
}


void
ngx_chat_shm_unlink(ngx_chat_shm_batch_t *batch, ngx_chat_shm_kind_e kind)
{
    if (batch->zone[kind].next != NULL) {
        ngx_queue_remove(&batch->zone[kind]);
        ngx_queue_remove(&batch->own[kind]);
        batch->zone[kind].next = NULL;
    }
}


void
ngx_chat_shm_touch(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *batch,
                   ngx_chat_shm_kind_e kind)
{
    ngx_chat_shm_unlink(batch, kind);
    ngx_queue_insert_head(&ctx->sh->used[kind], &batch->zone[kind]);
    ngx_queue_insert_head(&batch->tenant->used[kind], &batch->own[kind]);
}


void
ngx_chat_shm_facts_notify(ngx_chat_shm_ctx_t         *ctx,
                          const ngx_chat_shm_batch_t *batch)
{
    uint64_t                   prefix = chat_word_at(batch->name.bytes);
    chat_str_t                 worker, value;
    const ngx_chat_shm_fact_t *fact = batch->first;

    for (; fact != NULL && is_wait(fact, &worker); fact = fact->next) {
        ngx_chat_shm_workers_notify(ctx, worker, prefix);
    }

    if (batch->claim != NULL) {
        value = value_of(batch->claim);
        ngx_chat_shm_workers_notify(ctx, chat_str_cut(&value, ' '), prefix);
    }
}


/* Charges the tenant for a block of this size, or for one less. */
static void
charge(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_tenant_t *tenant, size_t size,
       ngx_uint_t less)
{
    size_t used = tenant->share.used;
    size_t cost = size > ngx_pagesize / 2 ? ngx_align(size, ngx_pagesize) : 8;

    while (cost < size) {
        cost *= 2;
    }

    /* a worker may have been killed before it charged a block */
    used = less ? used - ngx_min(used, cost) : used + cost;
    ngx_chat_shares_set(&ctx->sh->shares, &tenant->share, used);
}


/* Logs at most once a minute that the zone is full. */
static void
log_full(ngx_chat_shm_ctx_t *ctx)
{
    if (ngx_time() - ctx->sh->warned < 60) {
        return;
    }

    ctx->sh->warned = ngx_time();
    ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                  "chat: the zone \"%V\" is full, or a tenant is past its "
                  "share of it: requests that need room are refused; give "
                  "\"chat_store\" a larger zone",
                  &ctx->zone->shm.name);
}


/* Logs once for the zone that something is removed before its ttl. */
static void
log_pruned(ngx_chat_shm_ctx_t *ctx, const char *what)
{
    if (ctx->sh->pruned) {
        return;
    }

    ctx->sh->pruned = 1;
    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "chat: the zone \"%V\" has no room left, the oldest %s are "
                  "removed before their \"ttl=\": give \"chat_store\" a "
                  "larger zone",
                  &ctx->zone->shm.name, what);
}


/*
 * Evicts the least recently used log or batch of the tenant (NULL: of all) but
 * keep's; a batch only if no living worker watches or has claimed it, or if
 * held is set. 0: none.
 */
static ngx_uint_t
evict_one(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_tenant_t *tenant,
          const ngx_chat_shm_batch_t *keep, ngx_chat_shm_kind_e kind,
          ngx_uint_t held)
{
    ngx_uint_t            looks;
    ngx_queue_t          *q, *used = tenant ? tenant->used : ctx->sh->used;
    ngx_chat_shm_batch_t *batch;

    q = ngx_queue_last(&used[kind]);

    for (looks = 0; looks < NGX_CHAT_SHM_EVICT_LOOKS
                    && q != ngx_queue_sentinel(&used[kind]);
         looks++)
    {
        batch = tenant
                    ? ngx_queue_data((q - kind), ngx_chat_shm_batch_t, own)
                    : ngx_queue_data((q - kind), ngx_chat_shm_batch_t, zone);
        q = ngx_queue_prev(q);

        if (batch == keep) {
            continue;
        }

        if (kind == NGX_CHAT_SHM_LOGS) {
            ngx_chat_shm_log_clear(ctx, batch);
            log_pruned(ctx, "recordings");
            return 1;
        }

        if (held || (!is_watched(ctx, batch) && !is_claimed(ctx, batch))) {
            if (held) {
                ngx_chat_shm_facts_notify(ctx, batch);
            } else {
                log_pruned(ctx, "idle batches");
            }
            delete_batch(ctx, batch);
            return 1;
        }

        /* the next search finds others first */
        ngx_chat_shm_touch(ctx, batch, kind);
    }

    return 0;
}


/* Evicts something idle of one of these kinds. */
static ngx_uint_t
evict_idle(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_tenant_t *tenant,
           const ngx_chat_shm_batch_t *keep, ngx_chat_shm_kind_e first,
           ngx_chat_shm_kind_e last)
{
    return (first == NGX_CHAT_SHM_LOGS
            && evict_one(ctx, tenant, last == first ? keep : NULL, first, 0))
           || (last == NGX_CHAT_SHM_BATCHES
               && evict_one(ctx, tenant, keep, last, 0));
}


/*
 * Evicts something of these kinds to make room for size bytes of the tenant
 * (NULL: a new one). 0: nothing may go.
 */
static ngx_uint_t
evict(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_tenant_t *tenant,
      const ngx_chat_shm_batch_t *keep, size_t size, ngx_chat_shm_kind_e first,
      ngx_chat_shm_kind_e last)
{
    size_t                 share = ctx->zone->shm.size / NGX_CHAT_SHM_SHARE;
    ngx_uint_t             evicted;
    ngx_chat_shm_tenant_t *largest;

    largest =
        (ngx_chat_shm_tenant_t *) ngx_chat_shares_largest(&ctx->sh->shares);
    if (largest != NULL && (largest->share.used <= share || largest == tenant))
    {
        largest = NULL;
    }

    evicted =
        tenant != NULL && tenant->share.used + size > share
            ? evict_idle(ctx, tenant, keep, first, last)
            : (largest != NULL && evict_idle(ctx, largest, keep, first, last))
                  || evict_idle(ctx, NULL, keep, first, last)
                  || (largest != NULL && last == NGX_CHAT_SHM_BATCHES
                      && evict_one(ctx, largest, keep, last, 1));

    if (!evicted && last == NGX_CHAT_SHM_BATCHES) {
        log_full(ctx);
    }

    return evicted;
}


void *
ngx_chat_shm_alloc(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_tenant_t *tenant,
                   const ngx_chat_shm_batch_t *keep, size_t size,
                   ngx_chat_shm_kind_e last)
{
    void *p;

    do {
        p = ngx_slab_calloc_locked(ctx->shpool, size);
    } while (p == NULL
             && evict(ctx, tenant, keep, size, NGX_CHAT_SHM_LOGS, last));

    if (p != NULL && tenant != NULL) {
        charge(ctx, tenant, size, 0);
    }

    return p;
}


void
ngx_chat_shm_free(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_tenant_t *tenant,
                  void *p, size_t size)
{
    ngx_slab_free_locked(ctx->shpool, p);
    charge(ctx, tenant, size, 1);
}


/* Counts one more batch of the tenant. NULL: no memory. */
static ngx_chat_shm_tenant_t *
enter_tenant(ngx_chat_shm_ctx_t *ctx, uint64_t id)
{
    ngx_chat_shm_tenant_t *tenant;

    tenant =
        (ngx_chat_shm_tenant_t *) ngx_chat_shares_find(&ctx->sh->shares, id);

    if (tenant == NULL) {
        tenant = ngx_chat_shm_alloc(ctx, NULL, NULL, sizeof(*tenant),
                                    NGX_CHAT_SHM_BATCHES);
        if (tenant == NULL) {
            return NULL;
        }

        init_queues(tenant->used);
        ngx_chat_shares_insert(&ctx->sh->shares, &tenant->share, id);
    }

    tenant->batches++;
    return tenant;
}


/* Counts one batch less; the last one removes the tenant. */
static void
leave_tenant(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_tenant_t *tenant)
{
    if (--tenant->batches == 0) {
        ngx_chat_shares_remove(&ctx->sh->shares, &tenant->share);
        ngx_slab_free_locked(ctx->shpool, tenant);
    }
}


/*
 * 0: a new batch, or the first payload of one, of so many bytes would take
 * the reserve, which is for what held requests wait for, and for logs.
 */
static ngx_uint_t
admits(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_tenant_t *tenant,
       const ngx_chat_shm_batch_t *keep, size_t size)
{
    size_t last = ctx->zone->shm.size / ngx_pagesize / NGX_CHAT_SHM_RESERVE;

    return ctx->shpool->pfree + ctx->sh->log_pages
               >= last + size / ngx_pagesize
           || evict(ctx, tenant, keep, size, NGX_CHAT_SHM_BATCHES,
                    NGX_CHAT_SHM_BATCHES);
}


/* The batch has no facts and no log. */
static void
start_batch(ngx_chat_shm_batch_t *batch)
{
    ngx_memzero(&batch->first,
                sizeof(*batch) - offsetof(ngx_chat_shm_batch_t, first));
    batch->end = &batch->first;
    batch->block.used = sizeof(*batch);
    batch->block.facts = 1;
    ngx_queue_init(&batch->log.pages);
}


ngx_chat_shm_batch_t *
ngx_chat_shm_facts_make(ngx_chat_shm_ctx_t *ctx, const chat_key_t *key)
{
    ngx_chat_shm_tenant_t *tenant;
    ngx_chat_shm_batch_t  *batch = ngx_chat_shm_facts_find(ctx, key);

    if (batch != NULL) {
        return batch;
    }

    tenant = enter_tenant(ctx, key->tenant);
    if (tenant == NULL) {
        return NULL;
    }

    if (admits(ctx, tenant, NULL, sizeof(*batch))) {
        batch = ngx_chat_shm_alloc(ctx, tenant, NULL, NGX_CHAT_SHM_BLOCK,
                                   NGX_CHAT_SHM_BATCHES);
    }

    if (batch == NULL) {
        leave_tenant(ctx, tenant);
        return NULL;
    }

    ngx_queue_init(&batch->block.queue);
    batch->block.size = NGX_CHAT_SHM_BLOCK;
    batch->name = key->name;
    batch->tenant = tenant;
    start_batch(batch);

    batch->link = bucket_of(ctx->sh, &key->name);
    batch->next = *batch->link;
    *batch->link = batch;
    if (batch->next != NULL) {
        batch->next->link = &batch->next;
    }

    ngx_chat_shm_touch(ctx, batch, NGX_CHAT_SHM_BATCHES);
    return batch;
}


static void
free_chunks(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_tenant_t *tenant,
            ngx_chat_shm_chunk_t *chunk)
{
    ngx_chat_shm_chunk_t *next;

    for (; chunk != NULL; chunk = next) {
        next = chunk->next;
        ngx_chat_shm_free(ctx, tenant, chunk,
                          offsetof(ngx_chat_shm_chunk_t, data) + chunk->len);
    }
}


/* The payload in pieces. NGX_ERROR: no memory. */
static ngx_int_t
store_payload(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *batch,
              chat_str_t payload, ngx_chat_shm_chunk_t **chunks)
{
    size_t                 len, room, left = payload.len;
    ngx_chat_shm_chunk_t **next = chunks;

    room = ngx_pagesize - offsetof(ngx_chat_shm_chunk_t, data);

    if (!batch->paid && !admits(ctx, batch->tenant, batch, payload.len)) {
        return NGX_ERROR;
    }

    for (; left != 0; left -= len) {
        len = ngx_min(left, room);

        *next = ngx_chat_shm_alloc(ctx, batch->tenant, batch,
                                   offsetof(ngx_chat_shm_chunk_t, data) + len,
                                   NGX_CHAT_SHM_BATCHES);
        if (*next == NULL) {
            free_chunks(ctx, batch->tenant, *chunks);
            return NGX_ERROR;
        }

        ngx_memcpy((*next)->data, payload.data + payload.len - left, len);
        (*next)->len = len;
        next = &(*next)->next;
    }

    batch->paid = 1;
    return NGX_OK;
}


/* The link to the fact of this field; *link is NULL if there is none. */
static ngx_chat_shm_fact_t **
fact_link(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *batch,
          chat_str_t field)
{
    uint64_t              hash = chat_mix_hash(ctx->sh->hash, field);
    ngx_chat_shm_fact_t **link = &batch->root;

    while (*link != NULL
           && !chat_str_eq(chat_str((*link)->data, (*link)->field_len), field))
    {
        link = &(*link)->below[hash & 1];
        hash >>= 1;
    }

    return link;
}


/* Takes the fact at this link out of the tree: a leaf below it replaces it. */
static void
unlink_fact(ngx_chat_shm_fact_t **link)
{
    ngx_chat_shm_fact_t *fact = *link, *last, **leaf = link;

    while ((*leaf)->below[0] != NULL || (*leaf)->below[1] != NULL) {
        leaf = &(*leaf)->below[(*leaf)->below[0] == NULL];
    }

    last = *leaf;
    *leaf = NULL;

    if (last != fact) {
        ngx_memcpy(last->below, fact->below, sizeof(fact->below));
        *link = last;
    }
}


ngx_chat_shm_fact_t *
ngx_chat_shm_facts_get(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *batch,
                       chat_str_t field)
{
    return *fact_link(ctx, batch, field);
}


/* A fact without its payload; NULL: no memory. */
static ngx_chat_shm_fact_t *
new_fact(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *batch,
         const chat_fact_t *fact)
{
    size_t                size, best;
    ngx_chat_shm_fact_t  *it;
    ngx_chat_shm_block_t *block;

    if (fact->field.len > INT32_MAX / 2 || fact->value.len > INT32_MAX / 2) {
        return NULL;
    }

    size = ngx_align(offsetof(ngx_chat_shm_fact_t, data) + fact->field.len
                         + fact->value.len,
                     sizeof(void *));
    block = (ngx_chat_shm_block_t *) ngx_queue_last(&batch->block.queue);

    if (size > block->size - block->used) {
        best = ngx_max(NGX_CHAT_SHM_BLOCK, sizeof(*block) + size);
        block = ngx_chat_shm_alloc(ctx, batch->tenant, batch, best,
                                   NGX_CHAT_SHM_BATCHES);
        if (block == NULL) {
            return NULL;
        }

        ngx_queue_insert_tail(&batch->block.queue, &block->queue);
        block->size = (uint32_t) best;
        block->used = sizeof(*block);
    }

    it = (ngx_chat_shm_fact_t *) ((u_char *) block + block->used);
    ngx_memzero(it, sizeof(*it));
    it->at = block->used;
    block->used += (uint32_t) size;
    block->facts++;
    it->field_len = (unsigned) fact->field.len & INT32_MAX;
    it->value_len = (uint32_t) fact->value.len;
    (void) chat_str_copy(chat_str_copy(it->data, fact->field), fact->value);
    return it;
}


ngx_int_t
ngx_chat_shm_facts_put(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *batch,
                       const chat_fact_t *fact)
{
    chat_str_t            worker;
    ngx_chat_shm_fact_t **at = fact_link(ctx, batch, fact->field), **link;
    ngx_chat_shm_fact_t  *old = *at, *it;
    ngx_chat_shm_chunk_t *payload = NULL;

    /* a fact does not change, but it may get its payload later */
    if (old != NULL
        && (!fact->has_payload || old->has_payload
            || !chat_str_eq(value_of(old), fact->value)))
    {
        return 0;
    }

    if (fact->has_payload
        && store_payload(ctx, batch, fact->payload, &payload) != NGX_OK)
    {
        return NGX_ERROR;
    }

    it = old != NULL ? old : new_fact(ctx, batch, fact);
    if (it == NULL) {
        free_chunks(ctx, batch->tenant, payload);
        return NGX_ERROR;
    }

    it->payload = payload;
    it->has_payload = fact->has_payload & 1;

    if (old != NULL) {
        return 1;
    }

    link = is_wait(it, &worker) ? &batch->first : batch->end;
    it->link = link;
    it->next = *link;
    *(it->next ? &it->next->link : &batch->end) = &it->next;
    *link = it;
    *at = it;
    batch->count++;

    if (chat_str_starts(fact->field, "claim/")) {
        batch->claim = it;
        batch->over = 0;
    }

    batch->over |= ends_claim(batch->claim, fact->field) & 1;
    return 1;
}


void
ngx_chat_shm_facts_drop(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *batch,
                        chat_str_t field)
{
    ngx_chat_shm_fact_t **at = fact_link(ctx, batch, field), *fact = *at;
    ngx_chat_shm_block_t *block;

    if (fact == NULL) {
        return;
    }

    unlink_fact(at);

    *(fact->next ? &fact->next->link : &batch->end) = fact->link;
    *fact->link = fact->next;

    if (batch->claim == fact) {
        batch->claim = NULL;
    }

    batch->count--;
    free_chunks(ctx, batch->tenant, fact->payload);

    block = (ngx_chat_shm_block_t *) ((u_char *) fact - fact->at);
    if (--block->facts == 0) {
        ngx_queue_remove(&block->queue);
        ngx_chat_shm_free(ctx, batch->tenant, block, block->size);
    }
}


void
ngx_chat_shm_facts_clear(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *batch)
{
    ngx_chat_shm_fact_t  *fact;
    ngx_chat_shm_block_t *block;

    for (fact = batch->paid ? batch->first : NULL; fact; fact = fact->next) {
        free_chunks(ctx, batch->tenant, fact->payload);
    }

    while (!ngx_queue_empty(&batch->block.queue)) {
        block = (ngx_chat_shm_block_t *) ngx_queue_head(&batch->block.queue);
        ngx_queue_remove(&block->queue);
        ngx_chat_shm_free(ctx, batch->tenant, block, block->size);
    }

    ngx_chat_shm_log_clear(ctx, batch);
    start_batch(batch);
}


static void
delete_batch(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *batch)
{
    ngx_chat_shm_tenant_t *tenant = batch->tenant;

    ngx_chat_shm_facts_clear(ctx, batch);
    ngx_chat_shm_unlink(batch, NGX_CHAT_SHM_BATCHES);

    *batch->link = batch->next;
    if (batch->next != NULL) {
        batch->next->link = batch->link;
    }

    ngx_chat_shm_free(ctx, tenant, batch, NGX_CHAT_SHM_BLOCK);
    leave_tenant(ctx, tenant);
}


void
ngx_chat_shm_facts_expire(ngx_chat_shm_ctx_t *ctx)
{
    ngx_uint_t   kind;
    ngx_queue_t *used = ctx->sh->used;

    /* a recording may expire before batches that are older */
    for (kind = 0; kind < NGX_CHAT_SHM_KINDS; kind++) {
        if (!ngx_queue_empty(&used[kind])) {
            (void) expire_batch(
                ctx, ngx_queue_data((ngx_queue_last(&used[kind]) - kind),
                                    ngx_chat_shm_batch_t, zone));
        }
    }
}


void
ngx_chat_shm_facts_copy(const ngx_chat_shm_fact_t *fact, ngx_uint_t payload,
                        chat_facts_t *reply)
{
    u_char                     *p;
    size_t                      size, len = fact->field_len + fact->value_len;
    chat_fact_t                 copy = { .has_payload = fact->has_payload };
    const ngx_chat_shm_chunk_t *chunk, *first = payload ? fact->payload : NULL;

    for (size = len, chunk = first; chunk != NULL; chunk = chunk->next) {
        size += chunk->len;
    }

    p = chat_arena_take(reply->arena, size + 1);
    if (p == NULL) {
        reply->failed = 1;
        return;
    }

    copy.field = chat_str(p, fact->field_len);
    copy.value = chat_str(p + fact->field_len, fact->value_len);
    p = ngx_cpymem(p, fact->data, len);
    copy.payload = chat_str(p, size - len);

    for (chunk = first; chunk != NULL; chunk = chunk->next) {
        p = ngx_cpymem(p, chunk->data, chunk->len);
    }

    chat_facts_append(reply, &copy, 1);
}
