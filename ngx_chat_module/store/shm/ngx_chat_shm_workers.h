/*
 * ngx_chat_shm_workers.h: whom a change of a batch is told: the workers that
 * wait for it, and the last claimant's.
 *
 * They are marked while the zone is locked, and woken once it is free.
 * Must not know: requests, what a worker does then.
 */

#ifndef NGX_CHAT_SHM_WORKERS_H
#define NGX_CHAT_SHM_WORKERS_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/shm/ngx_chat_shm.h"
#include "store/shm/ngx_chat_shm_facts.h"

/* The workers to be woken; n is 0 at first. */
typedef struct {
    ngx_uint_t n;
    ngx_int_t  slots[NGX_CHAT_SHM_SLOTS];
} ngx_chat_shm_wakes_t;

/* With the mutex held: marks the key for all of them. */
void ngx_chat_shm_wakes_mark(ngx_chat_shm_ctx_t         *ctx,
                             const ngx_chat_shm_batch_t *batch,
                             const chat_key_t           *key,
                             ngx_chat_shm_wakes_t       *wakes);

/* Without it: wakes those that were marked. */
void ngx_chat_shm_wakes_send(ngx_chat_shm_ctx_t         *ctx,
                             const ngx_chat_shm_wakes_t *wakes);

#endif /* NGX_CHAT_SHM_WORKERS_H */
