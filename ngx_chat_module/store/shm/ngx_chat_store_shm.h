/*
 * ngx_chat_store_shm.h: the store for one node, in shared memory.
 *
 * It keeps the laws of facts/chat_store.h.
 */

#ifndef NGX_CHAT_STORE_SHM_H
#define NGX_CHAT_STORE_SHM_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "facts/chat_store.h"

/*
 * A zone of this size (bytes), to be called while the configuration is read.
 * tag is the module's. NULL: no memory.
 */
void *ngx_chat_store_shm_add(ngx_conf_t *cf, size_t size, void *tag);

/*
 * In a new worker: the store on that zone, or NULL if this worker cannot take
 * part (it was logged).
 */
chat_store_t *ngx_chat_store_shm_open(void *zone, ngx_cycle_t *cycle);

/* In a worker that exits. */
void ngx_chat_store_shm_close(chat_store_t *store);

#endif /* NGX_CHAT_STORE_SHM_H */
