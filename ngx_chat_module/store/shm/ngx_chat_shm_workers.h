/*
 * ngx_chat_shm_workers.h: the table of workers in the zone, and how one worker
 * wakes another.
 *
 * The master makes an eventfd for each slot with the zone; every worker of
 * every later generation inherits them, so that a new worker can wake one that
 * is exiting. A killed worker leaves nothing that others wait for.
 */

#ifndef NGX_CHAT_SHM_WORKERS_H
#define NGX_CHAT_SHM_WORKERS_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/shm/ngx_chat_shm_zone.h"

/* In the master, with a new zone: makes the eventfds. */
ngx_int_t ngx_chat_shm_workers_create(ngx_chat_shm_ctx_t *ctx, ngx_log_t *log);

/* The same zone in a further configuration. */
void ngx_chat_shm_workers_share(ngx_chat_shm_ctx_t       *ctx,
                                const ngx_chat_shm_ctx_t *old);

/* A configuration ends: a cleanup handler, data is the context. */
void ngx_chat_shm_workers_close(void *data);

/* In a new worker: takes a slot and listens. NGX_ERROR: it has been logged. */
ngx_int_t ngx_chat_shm_workers_join(ngx_chat_shm_ctx_t *ctx,
                                    ngx_cycle_t        *cycle);

/* In a worker that exits. */
void ngx_chat_shm_workers_leave(ngx_chat_shm_ctx_t *ctx);

/* With the mutex held: tells a worker that a key has changed. */
void ngx_chat_shm_workers_notify(ngx_chat_shm_ctx_t *ctx, chat_str_t worker,
                                 uint64_t prefix);

/* 1 if the worker of this name runs. */
ngx_uint_t ngx_chat_shm_workers_alive(ngx_chat_shm_ctx_t *ctx,
                                      chat_str_t          worker);

#endif /* NGX_CHAT_SHM_WORKERS_H */
