/*
 * ngx_chat_shm_log.h: logs in the slab of the zone: pieces of bytes, one
 * behind the other, in pages.
 *
 * All functions are called with the zone's mutex held. Readers get whole
 * pieces in order. A log has a 16th of the zone at most. Where there is no
 * memory, the least recently used log is freed, and never a fact.
 */

#ifndef NGX_CHAT_SHM_LOG_H
#define NGX_CHAT_SHM_LOG_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/shm/ngx_chat_shm_zone.h"
#include "store/ngx_chat_store.h"

#define NGX_CHAT_SHM_LOG_PART 16 /* one log takes no more of the zone */

#define NGX_CHAT_SHM_PAGE_SPACE \
    (ngx_pagesize - offsetof(ngx_chat_shm_page_t, data))

typedef struct {
    ngx_queue_t queue; /* in the log's pages */
    size_t      used;
    size_t      at;    /* where the first piece begins that begins here */
    uint64_t    first; /* its position */
    u_char      data[1];
} ngx_chat_shm_page_t;

/* What stands before the bytes of a piece. */
typedef struct {
    uint64_t position;
    uint32_t len;
    uint32_t last;
} ngx_chat_shm_piece_t;

struct ngx_chat_shm_log_s {
    ngx_queue_t            queue; /* in the zone's logs, while it has pages */
    ngx_queue_t            own;   /* in its tenant's, likewise */
    ngx_chat_shm_tenant_t *tenant;
    ngx_queue_t            pages;
    ngx_uint_t             npages;
    uint64_t next; /* position; all before it are stored, or lost */
};

static inline ngx_chat_shm_page_t *
ngx_chat_shm_log_page(const ngx_queue_t *q)
{
    return ngx_queue_data(q, ngx_chat_shm_page_t, queue);
}


/* 1 if a piece begins in the page. */
static inline ngx_uint_t
ngx_chat_shm_log_begins(const ngx_chat_shm_page_t *page)
{
    return page->at < NGX_CHAT_SHM_PAGE_SPACE;
}


void ngx_chat_shm_log_init(ngx_chat_shm_log_t    *log,
                           ngx_chat_shm_tenant_t *tenant);

/*
 * Adds a piece, if its position is above the last one. Pieces before keep may
 * be freed, and more of the front where there is no memory. 1: readers find
 * something new, if only that the piece is lost.
 */
ngx_uint_t ngx_chat_shm_log_put(ngx_chat_shm_ctx_t *ctx,
                                ngx_chat_shm_log_t *log, uint64_t position,
                                chat_str_t bytes, int last, uint64_t keep);

/*
 * The pieces from position on, as of chat_store_t's read(). Where none of them
 * is left: one empty piece at the next position. NULL: no memory.
 */
ngx_chat_answered_t *ngx_chat_shm_log_read(ngx_chat_shm_ctx_t *ctx,
                                           ngx_chat_shm_log_t *log,
                                           uint64_t            position);

/* Makes the log the most recently used one. */
void ngx_chat_shm_log_touch(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_log_t *log);

/* Frees all pieces. */
void ngx_chat_shm_log_clear(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_log_t *log);

/*
 * Frees the least recently used log of the tenant (NULL: of all) but keep; 0:
 * there is none.
 */
ngx_uint_t ngx_chat_shm_log_evict(ngx_chat_shm_ctx_t       *ctx,
                                  ngx_chat_shm_tenant_t    *tenant,
                                  const ngx_chat_shm_log_t *keep);

#endif /* NGX_CHAT_SHM_LOG_H */
