/*
 * ngx_chat_store_shm.c: chat_store.h over the shared zone.
 *
 * Each call locks the zone once, to copy facts; nothing is parsed under the
 * lock.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "store/shm/ngx_chat_shm.h"
#include "store/shm/ngx_chat_store_shm.h"


typedef struct {
    ngx_chat_store_base_t base; /* first: the store is in it */
    ngx_chat_shm_ctx_t   *ctx;
    u_char worker[NGX_CHAT_SHM_NAME]; /* the slot may have another one later */
} ngx_chat_store_shm_t;


static ngx_int_t
init_zone(ngx_shm_zone_t *zone, void *data)
{
    ngx_chat_shm_ctx_t *ctx = zone->data, *old = data;

    ctx->shpool = (ngx_slab_pool_t *) zone->shm.addr;

    if (old != NULL) {
        ctx->sh = old->sh;
        ngx_chat_shm_workers_share(ctx, old);
        return NGX_OK;
    }

    if (zone->shm.exists) {
        ctx->sh = ctx->shpool->data;
        return NGX_OK;
    }

    if (ngx_chat_shm_facts_init(ctx) != NGX_OK) {
        return NGX_ERROR;
    }

    ctx->shpool->data = ctx->sh;
    ctx->shpool->log_nomem = 0;

    return ngx_chat_shm_workers_create(ctx, zone->shm.log);
}


void *
ngx_chat_store_shm_add(ngx_conf_t *cf, size_t size, void *tag)
{
    ngx_str_t           name = ngx_string("ngx_chat");
    ngx_shm_zone_t     *zone;
    ngx_chat_shm_ctx_t *ctx;
    ngx_pool_cleanup_t *cln;

    ctx = ngx_pcalloc(cf->pool, sizeof(ngx_chat_shm_ctx_t));
    cln = ngx_pool_cleanup_add(cf->pool, 0);
    if (ctx == NULL || cln == NULL) {
        return NULL;
    }

    cln->handler = ngx_chat_shm_workers_close;
    cln->data = ctx;

    zone = ngx_shared_memory_add(cf, &name, size, tag);
    if (zone == NULL) {
        return NULL;
    }

    ctx->zone = zone;
    ctx->slot = -1;
    zone->init = init_zone;
    zone->data = ctx;
    return zone;
}


/* With the lock: a reply with all facts of the batch, if not NULL. */
static chat_facts_t *
all_facts(ngx_chat_shm_batch_t *batch)
{
    chat_facts_t        *reply = ngx_chat_store_reply();
    ngx_chat_shm_fact_t *fact;

    for (fact = batch && reply ? batch->first : NULL; fact; fact = fact->next)
    {
        ngx_chat_shm_facts_copy(fact, 0, reply);
    }

    return reply;
}


/*
 * With the lock: puts the facts, if the batch then has at most `most` of them.
 * Returns the number of new ones. NGX_ERROR: no room for all.
 */
static ngx_int_t
put_facts(ngx_chat_store_shm_t *shm, ngx_chat_shm_batch_t *batch,
          const chat_fact_t *facts, size_t n, size_t most)
{
    size_t    i;
    ngx_int_t rc, added = 0;

    if (batch->count + n > most) {
        ngx_log_error(NGX_LOG_INFO, ngx_cycle->log, 0,
                      "chat: a batch or conversation has %ui facts, more "
                      "are refused",
                      batch->count);
        return NGX_ERROR;
    }

    for (i = 0; i < n; i++) {
        rc = ngx_chat_shm_facts_put(shm->ctx, batch, &facts[i]);
        if (rc == NGX_ERROR) {
            return NGX_ERROR;
        }
        added += rc;
    }

    return added;
}


/*
 * A join; wait: the fact of a watch, or NULL. NGX_ERROR: no room for all
 * facts; the batch is not watched.
 */
static ngx_int_t
join_and_watch(ngx_chat_store_shm_t *shm, chat_store_op_t *op,
               const chat_key_t *key, const chat_fact_t *facts, size_t n,
               uint32_t ttl, const chat_fact_t *wait)
{
    ngx_int_t             added = 0;
    ngx_slab_pool_t      *shpool = shm->ctx->shpool;
    chat_facts_t         *reply = NULL;
    ngx_chat_shm_batch_t *batch;

    ngx_shmtx_lock(&shpool->mutex);
    ngx_chat_shm_facts_expire(shm->ctx);

    batch = n || wait ? ngx_chat_shm_facts_make(shm->ctx, key)
                      : ngx_chat_shm_facts_find(shm->ctx, key);

    if (batch == NULL && (n || wait)) {
        added = NGX_ERROR;

    } else if (batch != NULL) {
        if (n != 0) {
            added =
                put_facts(shm, batch, facts, n,
                          (size_t) shm->base.store.most_facts * (op ? 1 : 2));
        }

        if (wait != NULL && added != NGX_ERROR) {
            if (ngx_chat_shm_facts_put(shm->ctx, batch, wait) == NGX_ERROR) {
                added = NGX_ERROR;
            }
        }

        /* also after a join that has failed half-way */
        batch->expires = ngx_max(batch->expires, ngx_time() + (time_t) ttl);
        if (added != 0) {
            ngx_chat_shm_facts_notify(shm->ctx, batch);
        }
    }

    if (op != NULL && added != NGX_ERROR) {
        reply = all_facts(batch);
    }

    ngx_shmtx_unlock(&shpool->mutex);

    if (op != NULL && added == NGX_ERROR) {
        ngx_chat_store_refuse(&shm->base, op, CHAT_LIMIT);
    } else if (op != NULL) {
        ngx_chat_store_answer(&shm->base, op, reply);
    }

    return added == NGX_ERROR ? NGX_ERROR : NGX_OK;
}


static void
shm_join(chat_store_t *store, chat_store_op_t *op, const chat_key_t *key,
         const chat_fact_t *facts, size_t n, uint32_t ttl)
{
    (void) join_and_watch((ngx_chat_store_shm_t *) store, op, key, facts, n,
                          ttl, NULL);
}


static void
shm_unwatch(chat_store_watch_t *watch)
{
    ngx_chat_shm_ctx_t   *ctx;
    ngx_chat_shm_batch_t *batch;
    ngx_chat_store_shm_t *shm = (ngx_chat_store_shm_t *) watch->store;

    if (shm == NULL) {
        return;
    }

    ngx_chat_store_watch_remove(&shm->base, watch);

    if (ngx_chat_store_is_watched(&shm->base, &watch->key)) {
        return;
    }

    ctx = shm->ctx;
    ngx_shmtx_lock(&ctx->shpool->mutex);

    batch = ngx_chat_shm_facts_find(ctx, &watch->key);
    if (batch != NULL) {
        ngx_chat_shm_facts_drop(ctx, batch, shm->base.wait.field);
    }

    ngx_shmtx_unlock(&ctx->shpool->mutex);
}


static void
shm_watch(chat_store_t *store, chat_store_watch_t *watch, chat_store_op_t *op,
          const chat_key_t *key, const chat_fact_t *facts, size_t n,
          uint32_t ttl)
{
    ngx_chat_store_shm_t *shm = (ngx_chat_store_shm_t *) store;

    shm_unwatch(watch);

    if (join_and_watch(shm, op, key, facts, n, ttl, &shm->base.wait) == NGX_OK)
    {
        ngx_chat_store_watch_add(&shm->base, watch, key);
    }
}


static void
shm_payloads(chat_store_t *store, chat_store_op_t *op, const chat_key_t *key,
             const chat_str_t *fields, size_t n)
{
    size_t                i;
    chat_facts_t         *reply = ngx_chat_store_reply();
    ngx_chat_shm_fact_t  *fact;
    ngx_chat_shm_batch_t *batch;
    ngx_chat_store_shm_t *shm = (ngx_chat_store_shm_t *) store;

    ngx_shmtx_lock(&shm->ctx->shpool->mutex);
    batch = ngx_chat_shm_facts_find(shm->ctx, key);

    for (i = 0; i < n && batch != NULL && reply != NULL; i++) {
        fact = ngx_chat_shm_facts_get(batch, fields[i]);

        if (fact != NULL && fact->has_payload) {
            ngx_chat_shm_facts_copy(fact, 1, reply);
        }
    }

    ngx_shmtx_unlock(&shm->ctx->shpool->mutex);

    ngx_chat_store_answer(&shm->base, op, reply);
}


static void
shm_append(chat_store_t *store, chat_store_op_t *op, const chat_key_t *key,
           uint64_t position, chat_str_t bytes, int last, uint64_t keep,
           uint32_t ttl)
{
    ngx_chat_shm_ctx_t   *ctx = ((ngx_chat_store_shm_t *) store)->ctx;
    ngx_chat_shm_batch_t *batch;

    ngx_shmtx_lock(&ctx->shpool->mutex);

    batch = ngx_chat_shm_facts_find(ctx, key);

    /* without facts no request would find the log */
    if (batch != NULL && batch->count != 0
        && ngx_chat_shm_facts_get(batch, chat_cstr("cleared")) == NULL
        && ngx_chat_shm_log_put(ctx, batch, position, bytes, last, keep))
    {
        batch->expires = ngx_max(batch->expires, ngx_time() + (time_t) ttl);
        ngx_chat_shm_facts_notify(ctx, batch);
    }

    ngx_shmtx_unlock(&ctx->shpool->mutex);
}


static void
shm_read(chat_store_t *store, chat_store_op_t *op, const chat_key_t *key,
         uint64_t position)
{
    chat_facts_t         *reply;
    ngx_chat_shm_batch_t *batch;
    ngx_chat_store_shm_t *shm = (ngx_chat_store_shm_t *) store;

    ngx_shmtx_lock(&shm->ctx->shpool->mutex);

    batch = ngx_chat_shm_facts_find(shm->ctx, key);
    reply = batch != NULL ? ngx_chat_shm_log_read(shm->ctx, batch, position)
                          : all_facts(NULL);

    ngx_shmtx_unlock(&shm->ctx->shpool->mutex);

    ngx_chat_store_answer(&shm->base, op, reply);
}


static void
shm_drop(chat_store_t *store, const chat_key_t *key, const chat_str_t *fields,
         size_t n)
{
    size_t                i;
    ngx_chat_shm_ctx_t   *ctx = ((ngx_chat_store_shm_t *) store)->ctx;
    ngx_chat_shm_batch_t *batch;

    ngx_shmtx_lock(&ctx->shpool->mutex);

    batch = ngx_chat_shm_facts_find(ctx, key);

    for (i = 0; i < n && batch != NULL; i++) {
        ngx_chat_shm_facts_drop(ctx, batch, fields[i]);
    }

    ngx_shmtx_unlock(&ctx->shpool->mutex);
}


static void
shm_clear(chat_store_t *store, const chat_key_t *key, uint32_t ttl)
{
    ngx_chat_shm_batch_t *batch;
    ngx_chat_store_shm_t *shm = (ngx_chat_store_shm_t *) store;

    ngx_shmtx_lock(&shm->ctx->shpool->mutex);

    batch = ngx_chat_shm_facts_make(shm->ctx, key);
    if (batch != NULL) {
        ngx_chat_shm_facts_notify(shm->ctx, batch);
        ngx_chat_shm_facts_clear(shm->ctx, batch);
        (void) ngx_chat_shm_facts_put(shm->ctx, batch, &shm->base.cleared);
        batch->expires = ngx_time() + (time_t) ttl;
    }

    ngx_shmtx_unlock(&shm->ctx->shpool->mutex);
}


static void
shm_cancel(chat_store_op_t *op)
{
    if (op->store != NULL) {
        ngx_chat_store_forget(&((ngx_chat_store_shm_t *) op->store)->base, op);
    }
}


static int
shm_alive(chat_store_t *store, chat_str_t worker)
{
    return (int) ngx_chat_shm_workers_alive(
        ((ngx_chat_store_shm_t *) store)->ctx, worker);
}


static void
on_changed(void *data, uint64_t prefix, ngx_uint_t all)
{
    ngx_chat_store_shm_t *shm = data;

    ngx_chat_store_changed(&shm->base, prefix, all);
}


chat_store_t *
ngx_chat_store_shm_open(void *zone, ngx_cycle_t *cycle)
{
    ngx_chat_shm_ctx_t   *ctx = ((ngx_shm_zone_t *) zone)->data;
    ngx_chat_shm_slot_t  *slot;
    ngx_chat_store_shm_t *shm;

    shm = ngx_pcalloc(cycle->pool, sizeof(ngx_chat_store_shm_t));
    if (shm == NULL || ngx_chat_shm_workers_join(ctx, cycle) != NGX_OK) {
        return NULL;
    }

    shm->ctx = ctx;
    slot = &ctx->sh->slots[ctx->slot];
    ngx_memcpy(shm->worker, slot->name, slot->len);
    ctx->changed = on_changed;
    ctx->data = shm;

    shm->base.store.name = "shm";
    shm->base.store.worker = chat_str(shm->worker, slot->len);
    shm->base.store.state = CHAT_STORE_UP;
    shm->base.store.most_facts = CHAT_STORE_FACTS;
    shm->base.store.join = shm_join;
    shm->base.store.watch = shm_watch;
    shm->base.store.unwatch = shm_unwatch;
    shm->base.store.payloads = shm_payloads;
    shm->base.store.append = shm_append;
    shm->base.store.read = shm_read;
    shm->base.store.drop = shm_drop;
    shm->base.store.clear = shm_clear;
    shm->base.store.cancel = shm_cancel;
    shm->base.store.alive = shm_alive;

    return ngx_chat_store_base_init(&shm->base, cycle) == NGX_OK
               ? &shm->base.store
               : NULL;
}


void
ngx_chat_store_shm_close(chat_store_t *store)
{
    ngx_chat_shm_workers_leave(((ngx_chat_store_shm_t *) store)->ctx);
}
