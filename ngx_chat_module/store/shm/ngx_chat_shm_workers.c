/*
 * ngx_chat_shm_workers.c: see ngx_chat_shm.h.
 *
 * A slot lists the keys that have changed for its worker; if more change than
 * fit, all count as changed. The eventfd says that the list is not empty. It
 * is written in the next turn of the event loop, when the request that changed
 * the key has gone upstream: a worker that is woken earlier competes with it
 * for the mutex, for the claim and for the CPU.
 * A worker's name is slot.generation.pid.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include <sys/eventfd.h>

#include "store/shm/ngx_chat_shm.h"

static void on_wake(ngx_event_t *ev);


ngx_int_t
ngx_chat_shm_workers_create(ngx_chat_shm_ctx_t *ctx, ngx_log_t *log)
{
    ngx_socket_t           fd;
    ngx_chat_shm_events_t *events;

    ctx->events = events = ngx_calloc(sizeof(*events), log);
    if (events == NULL) {
        return NGX_ERROR;
    }

    for (events->used = 1; events->n < NGX_CHAT_SHM_SLOTS; events->n++) {
        fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (fd == -1) {
            ngx_log_error(NGX_LOG_EMERG, log, ngx_errno,
                          "chat: eventfd() failed");
            return NGX_ERROR;
        }

        events->fds[events->n] = fd;
    }

    return NGX_OK;
}


void
ngx_chat_shm_workers_close(void *data)
{
    ngx_uint_t             i;
    ngx_chat_shm_ctx_t    *ctx = data;
    ngx_chat_shm_events_t *events = ctx->events;

    if (events != NULL && --events->used == 0) {
        for (i = 0; i < events->n; i++) {
            (void) close(events->fds[i]);
        }

        ngx_free(events);
    }
}


/* With the mutex held: a free slot, or that of a dead worker. */
static ngx_int_t
take_slot(ngx_chat_shm_t *sh, ngx_uint_t *reaped)
{
    ngx_int_t            i, found = -1;
    ngx_chat_shm_slot_t *slot;

    *reaped = 0;

    for (i = 0; i < NGX_CHAT_SHM_SLOTS; i++) {
        slot = &sh->slots[i];

        if (slot->pid != 0 && kill(slot->pid, 0) == -1 && errno == ESRCH) {
            slot->pid = 0;
            *reaped = 1;
        }

        if (slot->pid == 0 && found == -1) {
            found = i;
        }
    }

    if (found != -1) {
        slot = &sh->slots[found];
        slot->generation++;
        slot->npending = 0;
        slot->all = 0;
        (void) ngx_snprintf(slot->name, sizeof(slot->name), "%i.%ui.%P%Z",
                            found, slot->generation, ngx_pid);

        /* last: alive() may run without the mutex, and the name was another */
        ngx_memory_barrier();
        slot->pid = ngx_pid;
    }

    return found;
}


/* A write fails if the counter is full: the worker wakes anyway. */
static void
write_event(ngx_chat_shm_ctx_t *ctx, const ngx_chat_shm_slot_t *slot)
{
    uint64_t one = 1;

    if (write(ctx->events->fds[slot - ctx->sh->slots], &one, sizeof(one))
        == -1) {
        return;
    }
}


static void
on_waking(ngx_event_t *ev)
{
    ngx_uint_t          i;
    ngx_chat_shm_ctx_t *ctx = ev->data;

    for (i = 0; i < NGX_CHAT_SHM_SLOTS; i++) {
        if (ctx->woken[i]) {
            ctx->woken[i] = 0;
            write_event(ctx, &ctx->sh->slots[i]);
        }
    }
}


/* This worker needs no write: its event loop runs. */
static void
wake(ngx_chat_shm_ctx_t *ctx, const ngx_chat_shm_slot_t *slot)
{
    if (ctx->wakes == NULL) {
        write_event(ctx, slot);

    } else if (slot->pid == ngx_pid) {
        ngx_post_event(ctx->wakes, &ngx_posted_next_events);

    } else {
        ctx->woken[slot - ctx->sh->slots] = 1;
        ngx_post_event(&ctx->waking, &ngx_posted_next_events);
    }
}


/* The attempts of a worker that died or exits have ended: for all workers all
 * keys count as changed. */
static void
wake_all(ngx_chat_shm_ctx_t *ctx)
{
    ngx_int_t i;

    ngx_shmtx_lock(&ctx->shpool->mutex);

    for (i = 0; i < NGX_CHAT_SHM_SLOTS; i++) {
        if (ctx->sh->slots[i].pid != 0) {
            ctx->sh->slots[i].all = 1;
            wake(ctx, &ctx->sh->slots[i]);
        }
    }

    ngx_shmtx_unlock(&ctx->shpool->mutex);
}


ngx_int_t
ngx_chat_shm_workers_join(ngx_chat_shm_ctx_t *ctx, ngx_cycle_t *cycle)
{
    ngx_uint_t        reaped;
    ngx_connection_t *c;

    ngx_shmtx_lock(&ctx->shpool->mutex);
    ctx->slot = take_slot(ctx->sh, &reaped);
    ngx_shmtx_unlock(&ctx->shpool->mutex);

    if (ctx->slot == -1) {
        ngx_log_error(NGX_LOG_ALERT, cycle->log, 0,
                      "chat: more than %d workers share one zone",
                      NGX_CHAT_SHM_SLOTS);
        return NGX_ERROR;
    }

    c = ngx_get_connection(ctx->events->fds[ctx->slot], cycle->log);
    if (c == NULL) {
        return NGX_ERROR;
    }

    c->data = ctx;
    c->log = cycle->log;
    c->read->log = cycle->log;
    c->write->log = cycle->log;
    c->read->handler = on_wake;
    c->read->channel = 1;

    if (ngx_add_event(c->read, NGX_READ_EVENT, NGX_LEVEL_EVENT) != NGX_OK) {
        ngx_free_connection(c);
        return NGX_ERROR;
    }

    if (reaped) {
        wake_all(ctx);
    }

    ngx_chat_event_set(&ctx->waking, on_waking, ctx, cycle->log);
    ctx->wakes = c->read;
    return NGX_OK;
}


void
ngx_chat_store_shm_close(chat_store_t *store)
{
    ngx_chat_shm_ctx_t *ctx = (ngx_chat_shm_ctx_t *) store;

    ngx_shmtx_lock(&ctx->shpool->mutex);
    ctx->sh->slots[ctx->slot].pid = 0;
    ngx_shmtx_unlock(&ctx->shpool->mutex);

    /* at once: the event loop is over */
    ctx->wakes = NULL;
    wake_all(ctx);
}


static void
on_wake(ngx_event_t *ev)
{
    uint64_t             count, pending[NGX_CHAT_SHM_PENDING];
    ngx_uint_t           i, n, all;
    ngx_connection_t    *c = ev->data;
    ngx_chat_shm_ctx_t  *ctx = c->data;
    ngx_chat_shm_slot_t *slot = &ctx->sh->slots[ctx->slot];

    /* not ready: posted by this worker itself */
    while (ev->ready) {
        ev->ready = read(c->fd, &count, sizeof(count)) > 0;
    }

    ngx_shmtx_lock(&ctx->shpool->mutex);
    n = slot->all ? 0 : slot->npending;
    all = slot->all;
    ngx_memcpy(pending, slot->pending, n * sizeof(uint64_t));
    slot->npending = 0;
    slot->all = 0;
    ngx_shmtx_unlock(&ctx->shpool->mutex);

    if (all) {
        ngx_chat_store_changed(&ctx->base, 0, 1);
    }

    for (i = 0; i < n; i++) {
        ngx_chat_store_changed(&ctx->base, pending[i], 0);
    }
}


/* The slot of the worker; NULL: it has left. */
static ngx_chat_shm_slot_t *
find_slot(ngx_chat_shm_ctx_t *ctx, chat_str_t worker)
{
    uint64_t             n = NGX_CHAT_SHM_SLOTS;
    chat_str_t           rest = worker;
    ngx_chat_shm_slot_t *slot;

    (void) chat_str_number(chat_str_cut(&rest, '.'), &n);
    if (n >= NGX_CHAT_SHM_SLOTS) {
        return NULL;
    }

    slot = &ctx->sh->slots[n];

    return slot->pid != 0 && chat_str_is(worker, (char *) slot->name) ? slot
                                                                      : NULL;
}


void
ngx_chat_shm_workers_notify(ngx_chat_shm_ctx_t *ctx, chat_str_t worker,
                            uint64_t prefix)
{
    ngx_uint_t           i;
    ngx_chat_shm_slot_t *slot = NULL;

    /* mostly it is this worker, which knows its watches */
    if (ctx->base.watches[prefix % NGX_CHAT_WATCH_BUCKETS] != NULL
        || !chat_str_eq(worker, ctx->base.store.worker))
    {
        slot = find_slot(ctx, worker);
    }

    if (slot == NULL) {
        return;
    }

    for (i = 0; i < slot->npending && slot->pending[i] != prefix; i++) {
        /* void */
    }

    if (i == NGX_CHAT_SHM_PENDING) {
        slot->all = 1;

    } else if (i == slot->npending) {
        slot->pending[slot->npending++] = prefix;
    }

    /* also for a pending key: the worker that put it may have been killed */
    wake(ctx, slot);
}


int
ngx_chat_shm_alive(chat_store_t *store, chat_str_t worker)
{
    ngx_chat_shm_slot_t *slot =
        find_slot((ngx_chat_shm_ctx_t *) store, worker);

    return slot != NULL
           && (slot->pid == ngx_pid || kill(slot->pid, 0) == 0
               || errno != ESRCH);
}
