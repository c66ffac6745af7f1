/*
 * ngx_chat_shm_log.h: logs in the slab of the zone: pieces of bytes, one
 * behind the other, in pages.
 *
 * All functions are called with the zone's mutex held. Promises: whole pieces
 * in order; a log takes a part of the zone at most; where there is no room,
 * logs are forgotten, the one that was used longest ago first, and facts
 * never. Must not know: facts, who follows.
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
    uint64_t next; /* what comes before has been put, or is lost */
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
 * Puts a piece, if it is not before the last one; what is before keep may go,
 * and more of the front where there is no room. 1: there is something new to
 * be read, be it that the piece is lost.
 */
ngx_uint_t ngx_chat_shm_log_put(ngx_chat_shm_ctx_t *ctx,
                                ngx_chat_shm_log_t *log, uint64_t position,
                                chat_str_t bytes, int last, uint64_t keep);

/*
 * The pieces from position on, as chat_store_t's read() answers them. Where
 * there were some and none is left: an empty one that none has been put at.
 * NULL: no memory.
 */
ngx_chat_answered_t *ngx_chat_shm_log_read(ngx_chat_shm_ctx_t *ctx,
                                           ngx_chat_shm_log_t *log,
                                           uint64_t            position);

/* It is used just now: of all logs it is to be forgotten last. */
void ngx_chat_shm_log_touch(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_log_t *log);

/* Frees all pieces. */
void ngx_chat_shm_log_clear(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_log_t *log);

/*
 * Frees the log of the tenant (NULL: of all) that was used longest ago and is
 * not keep; 0: none.
 */
ngx_uint_t ngx_chat_shm_log_evict(ngx_chat_shm_ctx_t       *ctx,
                                  ngx_chat_shm_tenant_t    *tenant,
                                  const ngx_chat_shm_log_t *keep);

#endif /* NGX_CHAT_SHM_LOG_H */
