/*
 * ngx_chat_shm_log.c: see ngx_chat_shm_log.h.
 *
 * Pieces stand in the pages as in one run of bytes, each behind a header, and
 * go on in the next page. A page knows where the first piece begins in it: the
 * front goes page by page. A piece counts once the log's next is past it,
 * which is written last: a worker that was killed on the way has left nothing
 * that is read. Must not know: facts, who follows.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/shm/ngx_chat_shm_log.h"


void
ngx_chat_shm_log_init(ngx_chat_shm_log_t *log, ngx_chat_shm_tenant_t *tenant)
{
    ngx_memzero(log, sizeof(*log));
    log->tenant = tenant;
    ngx_queue_init(&log->pages);
}


static ngx_chat_shm_page_t *
ngx_chat_shm_log_alloc(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_log_t *log)
{
    ngx_chat_shm_page_t *page;

    page = ngx_slab_alloc_locked(ctx->shpool, ngx_pagesize);
    if (page != NULL) {
        page->used = 0;
        page->at = NGX_CHAT_SHM_PAGE_ROOM;
        ctx->sh->log_pages++;
        ngx_chat_shm_room_take(ctx, log->tenant, ngx_pagesize);
    }

    return page;
}


static void
ngx_chat_shm_log_free(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_log_t *log,
                      ngx_queue_t *q)
{
    ngx_queue_remove(q);
    ngx_chat_shm_room_give(ctx, log->tenant, ngx_pagesize);
    ctx->sh->log_pages -= ctx->sh->log_pages != 0;
    ngx_slab_free_locked(ctx->shpool, ngx_chat_shm_log_page(q));
}


/* Takes the log out of the zone's logs, if it is there. */
static void
ngx_chat_shm_log_leave(ngx_chat_shm_log_t *log)
{
    if (log->queue.next != NULL) {
        ngx_queue_remove(&log->queue);
        ngx_queue_remove(&log->own);
        log->queue.next = NULL;
    }
}


/* Drops the pieces that begin in the first page; 0: there is none. */
static ngx_uint_t
ngx_chat_shm_log_drop(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_log_t *log)
{
    if (ngx_queue_empty(&log->pages)) {
        return 0;
    }

    do {
        log->npages--;
        ngx_chat_shm_log_free(ctx, log, ngx_queue_head(&log->pages));
    } while (!ngx_queue_empty(&log->pages)
             && !ngx_chat_shm_log_begins(
                 ngx_chat_shm_log_page(ngx_queue_head(&log->pages))));

    if (ngx_queue_empty(&log->pages)) {
        ngx_chat_shm_log_leave(log);
    }

    return 1;
}


void
ngx_chat_shm_log_clear(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_log_t *log)
{
    while (ngx_chat_shm_log_drop(ctx, log)) { /* void */
    }
}


ngx_uint_t
ngx_chat_shm_log_evict(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_tenant_t *tenant,
                       const ngx_chat_shm_log_t *keep)
{
    ngx_queue_t        *q, *logs = tenant ? &tenant->logs : &ctx->sh->logs;
    ngx_chat_shm_log_t *log;

    for (q = ngx_queue_last(logs); q != ngx_queue_sentinel(logs);
         q = ngx_queue_prev(q))
    {
        log = tenant ? ngx_queue_data(q, ngx_chat_shm_log_t, own)
                     : ngx_queue_data(q, ngx_chat_shm_log_t, queue);
        if (log != keep) {
            ngx_chat_shm_log_leave(log);
            ngx_chat_shm_log_clear(ctx, log);
            return 1;
        }
    }

    return 0;
}


/* Drops what comes before keep, as far as whole pages go. */
static void
ngx_chat_shm_log_trim(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_log_t *log,
                      uint64_t keep)
{
    ngx_queue_t         *q;
    ngx_chat_shm_page_t *page;

    while (!ngx_queue_empty(&log->pages)) {
        page = NULL;

        for (q = ngx_queue_next(ngx_queue_head(&log->pages));
             q != ngx_queue_sentinel(&log->pages); q = ngx_queue_next(q))
        {
            page = ngx_chat_shm_log_page(q);
            if (ngx_chat_shm_log_begins(page)) {
                break;
            }
            page = NULL;
        }

        if (page == NULL || page->first > keep) {
            return;
        }

        (void) ngx_chat_shm_log_drop(ctx, log);
    }
}


/* How many pages the log lacks for size more bytes. */
static size_t
ngx_chat_shm_log_lack(ngx_chat_shm_log_t *log, size_t size)
{
    size_t room = 0;

    if (!ngx_queue_empty(&log->pages)) {
        room = NGX_CHAT_SHM_PAGE_ROOM
               - ngx_chat_shm_log_page(ngx_queue_last(&log->pages))->used;
    }

    return size <= room ? 0
                        : (size - room + NGX_CHAT_SHM_PAGE_ROOM - 1)
                              / NGX_CHAT_SHM_PAGE_ROOM;
}


/*
 * Fresh pages for size more bytes, at the price of other logs, then of the
 * own front. NGX_ERROR: there is no room; the log is empty by then.
 */
static ngx_int_t
ngx_chat_shm_log_room(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_log_t *log,
                      size_t size, ngx_queue_t *fresh)
{
    size_t               lack, most, n = 0;
    ngx_chat_shm_page_t *page;

    most = ctx->zone->shm.size / ngx_pagesize / NGX_CHAT_SHM_LOG_PART;

    for (;;) {
        lack = ngx_chat_shm_log_lack(log, size);
        if (lack <= n) {
            return NGX_OK;
        }

        if (lack <= most && log->npages <= most - lack) {
            page = ngx_chat_shm_log_alloc(ctx, log);
            if (page != NULL) {
                ngx_queue_insert_tail(fresh, &page->queue);
                n++;
                continue;
            }

            if (ngx_chat_shm_room_for_log(ctx, log->tenant, log)) {
                continue;
            }
        }

        if (!ngx_chat_shm_log_drop(ctx, log)) {
            break;
        }
    }

    while (!ngx_queue_empty(fresh)) {
        ngx_chat_shm_log_free(ctx, log, ngx_queue_head(fresh));
    }

    return NGX_ERROR;
}


/* Writes behind what is in the page and its next ones; answers the last. */
static ngx_chat_shm_page_t *
ngx_chat_shm_log_fill(ngx_chat_shm_page_t *page, const void *data, size_t len)
{
    size_t        n;
    const u_char *p = data;

    while (len != 0) {
        if (page->used == NGX_CHAT_SHM_PAGE_ROOM) {
            page = ngx_chat_shm_log_page(ngx_queue_next(&page->queue));
        }

        n = ngx_min(len, NGX_CHAT_SHM_PAGE_ROOM - page->used);
        ngx_memcpy(page->data + page->used, p, n);
        page->used += n;
        p += n;
        len -= n;
    }

    return page;
}


/* There is room in the last page and in fresh ones. */
static void
ngx_chat_shm_log_write(ngx_chat_shm_log_t *log, ngx_queue_t *fresh,
                       const ngx_chat_shm_piece_t *piece, const u_char *data)
{
    ngx_queue_t         *q;
    ngx_chat_shm_page_t *page = NULL;

    if (!ngx_queue_empty(&log->pages)) {
        page = ngx_chat_shm_log_page(ngx_queue_last(&log->pages));
    }

    if (page == NULL || page->used == NGX_CHAT_SHM_PAGE_ROOM) {
        page = ngx_chat_shm_log_page(ngx_queue_head(fresh));
    }

    while (!ngx_queue_empty(fresh)) {
        q = ngx_queue_head(fresh);
        ngx_queue_remove(q);
        ngx_queue_insert_tail(&log->pages, q);
        log->npages++;
    }

    if (!ngx_chat_shm_log_begins(page)) {
        page->first = piece->position;
        page->at = page->used;
    }

    page = ngx_chat_shm_log_fill(page, piece, sizeof(*piece));
    (void) ngx_chat_shm_log_fill(page, data, piece->len);
}


void
ngx_chat_shm_log_touch(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_log_t *log)
{
    ngx_chat_shm_log_leave(log);

    if (!ngx_queue_empty(&log->pages)) {
        ngx_queue_insert_head(&ctx->sh->logs, &log->queue);
        ngx_queue_insert_head(&log->tenant->logs, &log->own);
    }
}


ngx_uint_t
ngx_chat_shm_log_put(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_log_t *log,
                     uint64_t position, chat_str_t bytes, int last,
                     uint64_t keep)
{
    ngx_queue_t          fresh;
    ngx_chat_shm_piece_t piece;

    if (position < log->next || position == UINT64_MAX) {
        return 0;
    }

    ngx_chat_shm_log_trim(ctx, log, ngx_min(keep, position));
    ngx_queue_init(&fresh);
    ngx_memzero(&piece, sizeof(piece));
    piece.position = position;
    piece.len = (uint32_t) bytes.len;
    piece.last = last != 0;

    if (bytes.len < UINT32_MAX
        && ngx_chat_shm_log_room(ctx, log, sizeof(piece) + bytes.len, &fresh)
               == NGX_OK)
    {
        ngx_chat_shm_log_write(log, &fresh, &piece, bytes.data);
    }

    ngx_chat_shm_log_touch(ctx, log);
    ngx_memory_barrier();
    log->next = position + 1;
    return 1;
}
