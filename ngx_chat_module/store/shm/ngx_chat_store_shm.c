/*
 * ngx_chat_store_shm.c: chat_store.h over the shared zone.
 *
 * Each call locks the zone once, to copy facts; it parses nothing meanwhile.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "store/shm/ngx_chat_shm.h"


static ngx_int_t
init_zone(ngx_shm_zone_t *zone, void *data)
{
    ngx_chat_shm_ctx_t *ctx = zone->data, *old = data;

    ctx->shpool = (ngx_slab_pool_t *) zone->shm.addr;

    if (old != NULL) {
        ctx->sh = old->sh;
        ctx->events = old->events;
        ctx->events->used++;
        return NGX_OK;
    }

    if (ngx_chat_shm_facts_init(ctx) != NGX_OK) {
        return NGX_ERROR;
    }

    ctx->shpool->log_nomem = 0;

    if (!ngx_is_init_cycle(ngx_cycle)) {
        ngx_log_error(NGX_LOG_WARN, zone->shm.log, 0,
                      "chat: the zone \"ngx_chat\" is new: results in an "
                      "earlier \"chat_store\" are lost, and requests that "
                      "wait in old workers do not see later results");
    }

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
    zone->init = init_zone;
    zone->data = ctx;
    return zone;
}


/* Takes the lock; returns the batch, or NULL. */
static ngx_chat_shm_batch_t *
lock_batch(ngx_chat_shm_ctx_t *shm, const chat_key_t *key)
{
    ngx_shmtx_lock(&shm->shpool->mutex);
    return ngx_chat_shm_facts_find(shm, key);
}


/* With the lock: a reply with all facts of the batch; NULL: with none. */
static chat_facts_t *
all_facts(ngx_chat_shm_batch_t *batch)
{
    static chat_facts_t  nothing;
    chat_facts_t        *reply = batch ? ngx_chat_store_reply() : &nothing;
    ngx_chat_shm_fact_t *fact;

    for (fact = batch && reply ? batch->first : NULL; fact; fact = fact->next)
    {
        ngx_chat_shm_facts_copy(fact, 0, reply);
    }

    return reply;
}


/*
 * With the lock: puts the facts, if the batch then has at most `most` of them,
 * and wait (or NULL). *added: how many facts are new, also if it fails
 * half-way. NGX_ERROR: no room for all.
 */
static ngx_int_t
put_facts(ngx_chat_shm_ctx_t *shm, ngx_chat_shm_batch_t *batch,
          const chat_fact_t *facts, size_t n, size_t most,
          const chat_fact_t *wait, ngx_int_t *added)
{
    size_t    i;
    ngx_int_t rc = NGX_OK;

    if (n != 0 && batch->count + n > most) {
        ngx_log_error(NGX_LOG_INFO, ngx_cycle->log, 0,
                      "chat: a batch or conversation has %ui facts, more "
                      "are refused",
                      (ngx_uint_t) batch->count);
        return NGX_ERROR;
    }

    for (i = 0; i < n && rc != NGX_ERROR; i++) {
        rc = ngx_chat_shm_facts_put(shm, batch, &facts[i]);
        *added += rc > 0;
    }

    return rc != NGX_ERROR && wait != NULL
               ? ngx_chat_shm_facts_put(shm, batch, wait)
               : rc;
}


/*
 * With the lock: puts the last fact of a join if the batch has what op needs.
 * NGX_ERROR: no room.
 */
static ngx_int_t
put_last(ngx_chat_shm_ctx_t *shm, ngx_chat_shm_batch_t *batch,
         chat_store_op_t *op, const chat_fact_t *last, size_t most,
         ngx_int_t *added)
{
    size_t               i;
    ngx_int_t            rc, before = *added;
    ngx_chat_shm_fact_t *fact;

    for (i = 0; i < op->nneeds; i++) {
        fact = ngx_chat_shm_facts_get(shm, batch, op->needs[i]);

        if (fact == NULL || !fact->has_payload) {
            op->nneeds = 0;
            return NGX_OK;
        }
    }

    rc = put_facts(shm, batch, last, 1, most, NULL, added);
    op->nneeds = *added != before ? op->nneeds : 0;
    return rc;
}


static void
shm_drop(chat_store_t *store, const chat_key_t *key, const chat_str_t *fields,
         size_t n)
{
    size_t                i;
    ngx_chat_shm_ctx_t   *shm = (ngx_chat_shm_ctx_t *) store;
    ngx_chat_shm_batch_t *batch = lock_batch(shm, key);

    for (i = 0; i < n && batch != NULL; i++) {
        ngx_chat_shm_facts_drop(shm, batch, fields[i]);
    }

    ngx_shmtx_unlock(&shm->shpool->mutex);
}


static void
shm_unwatch(chat_store_watch_t *watch)
{
    ngx_chat_shm_ctx_t *shm = (ngx_chat_shm_ctx_t *) watch->store;

    if (shm == NULL) {
        return;
    }

    ngx_chat_store_unwatch(watch);

    if (!ngx_chat_store_is_watched(&shm->base, &watch->key)) {
        shm_drop(&shm->base.store, &watch->key, &shm->base.wait.field, 1);
    }
}


/* The watch begins only if the zone has room for the facts. */
static void
shm_join(chat_store_t *store, chat_store_op_t *op, const chat_key_t *key,
         const chat_fact_t *facts, size_t n, uint32_t ttl,
         chat_store_watch_t *watch)
{
    size_t                i, most = (size_t) store->most_facts * (op ? 1 : 2);
    size_t                last = op != NULL && op->nneeds != 0;
    ngx_int_t             rc = n || watch ? NGX_ERROR : NGX_OK, added = 0;
    chat_facts_t         *reply = NULL;
    ngx_chat_shm_batch_t *batch;
    ngx_chat_shm_ctx_t   *shm = (ngx_chat_shm_ctx_t *) store;

    if (watch != NULL) {
        shm_unwatch(watch);
    }

    ngx_shmtx_lock(&shm->shpool->mutex);
    ngx_chat_shm_facts_expire(shm);

    batch = n || watch ? ngx_chat_shm_facts_make(shm, key)
                       : ngx_chat_shm_facts_find(shm, key);

    if (batch != NULL) {
        rc = put_facts(shm, batch, facts, n - last, most,
                       watch ? &shm->base.wait : NULL, &added);
        if (last && rc != NGX_ERROR) {
            rc = put_last(shm, batch, op, &facts[n - 1], most, &added);
        }

        batch->expires = ngx_max(batch->expires, ngx_time() + (time_t) ttl);
        if (added != 0) {
            ngx_chat_shm_facts_notify(shm, batch);
        }
    }

    if (op != NULL && rc != NGX_ERROR) {
        reply = all_facts(op->brief && added == (ngx_int_t) n ? NULL : batch);

        for (i = 0; i < op->nneeds && reply != NULL; i++) {
            ngx_chat_shm_facts_copy(
                ngx_chat_shm_facts_get(shm, batch, op->needs[i]), 1, reply);
        }
    }

    ngx_shmtx_unlock(&shm->shpool->mutex);

    if (op != NULL) {
        ngx_chat_store_answer(&shm->base, op,
                              rc == NGX_ERROR ? CHAT_LIMIT : CHAT_OK, reply);
    }

    if (watch != NULL && rc != NGX_ERROR) {
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
    ngx_chat_shm_ctx_t   *shm = (ngx_chat_shm_ctx_t *) store;
    ngx_chat_shm_batch_t *batch = lock_batch(shm, key);

    for (i = 0; i < n && batch != NULL && reply != NULL; i++) {
        fact = ngx_chat_shm_facts_get(shm, batch, fields[i]);

        if (fact != NULL && fact->has_payload) {
            ngx_chat_shm_facts_copy(fact, 1, reply);
        }
    }

    ngx_shmtx_unlock(&shm->shpool->mutex);

    ngx_chat_store_answer(&shm->base, op, CHAT_OK, reply);
}


static void
shm_append(chat_store_t *store, chat_store_op_t *op, const chat_key_t *key,
           uint64_t position, chat_str_t bytes, int last, uint64_t keep,
           uint32_t ttl)
{
    ngx_chat_shm_ctx_t   *shm = (ngx_chat_shm_ctx_t *) store;
    ngx_chat_shm_batch_t *batch = lock_batch(shm, key);

    /* without facts no request would find the log */
    if (batch != NULL && batch->count != 0
        && !ngx_chat_shm_facts_get(shm, batch, shm->base.cleared.field)
        && ngx_chat_shm_log_put(shm, batch, position, bytes, last, keep))
    {
        batch->expires = ngx_max(batch->expires, ngx_time() + (time_t) ttl);
        ngx_chat_shm_facts_notify(shm, batch);
    }

    ngx_shmtx_unlock(&shm->shpool->mutex);
}


static void
shm_read(chat_store_t *store, chat_store_op_t *op, const chat_key_t *key,
         uint64_t position)
{
    ngx_chat_shm_ctx_t   *shm = (ngx_chat_shm_ctx_t *) store;
    ngx_chat_shm_batch_t *batch = lock_batch(shm, key);
    chat_facts_t         *reply;

    reply = batch != NULL ? ngx_chat_shm_log_read(shm, batch, position)
                          : all_facts(NULL);
    ngx_shmtx_unlock(&shm->shpool->mutex);
    ngx_chat_store_answer(&shm->base, op, CHAT_OK, reply);
}


static void
shm_clear(chat_store_t *store, const chat_key_t *key, uint32_t ttl)
{
    ngx_chat_shm_batch_t *batch;
    ngx_chat_shm_ctx_t   *shm = (ngx_chat_shm_ctx_t *) store;

    ngx_shmtx_lock(&shm->shpool->mutex);

    batch = ngx_chat_shm_facts_make(shm, key);
    if (batch != NULL) {
        ngx_chat_shm_facts_notify(shm, batch);
        ngx_chat_shm_facts_clear(shm, batch);
        (void) ngx_chat_shm_facts_put(shm, batch, &shm->base.cleared);
        batch->expires = ngx_time() + (time_t) ttl;
    }

    ngx_shmtx_unlock(&shm->shpool->mutex);
}


chat_store_t *
ngx_chat_store_shm_open(void *zone, ngx_cycle_t *cycle)
{
    chat_store_t       *store;
    ngx_chat_shm_ctx_t *shm = ((ngx_shm_zone_t *) zone)->data;

    if (ngx_chat_shm_workers_join(shm, cycle) != NGX_OK) {
        return NULL;
    }

    ngx_memcpy(shm->worker, shm->sh->slots[shm->slot].name,
               sizeof(shm->worker));

    store = &shm->base.store;
    store->worker = chat_cstr((char *) shm->worker);
    store->state = CHAT_STORE_UP;
    store->most_facts = CHAT_STORE_FACTS;
    store->expect = ngx_chat_shm_facts_expect;
    store->join = shm_join;
    store->unwatch = shm_unwatch;
    store->payloads = shm_payloads;
    store->append = shm_append;
    store->read = shm_read;
    store->drop = shm_drop;
    store->clear = shm_clear;
    store->cancel = ngx_chat_store_forget;
    store->alive = ngx_chat_shm_alive;

    return ngx_chat_store_base_init(&shm->base, cycle) == NGX_OK ? store
                                                                 : NULL;
}
