/*
 * ngx_chat_shm_log.c: see ngx_chat_shm_log.h.
 *
 * Pieces are written one behind the other, each after a header, across
 * pages. A piece counts once the log's next is past it, which is written
 * last: a killed worker leaves nothing half-written to a reader.
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
new_page(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_log_t *log)
{
    ngx_chat_shm_page_t *page;

    page = ngx_slab_alloc_locked(ctx->shpool, ngx_pagesize);
    if (page != NULL) {
        page->used = 0;
        page->at = NGX_CHAT_SHM_PAGE_SPACE;
        ctx->sh->log_pages++;
        ngx_chat_shm_zone_charge(ctx, log->tenant, ngx_pagesize);
    }

    return page;
}


static void
free_page(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_log_t *log, ngx_queue_t *q)
{
    ngx_queue_remove(q);
    ngx_chat_shm_zone_credit(ctx, log->tenant, ngx_pagesize);
    ctx->sh->log_pages -= ctx->sh->log_pages != 0;
    ngx_slab_free_locked(ctx->shpool, ngx_chat_shm_log_page(q));
}


/* Takes the log out of the lists of logs. */
static void
unlink_log(ngx_chat_shm_log_t *log)
{
    if (log->queue.next != NULL) {
        ngx_queue_remove(&log->queue);
        ngx_queue_remove(&log->own);
        log->queue.next = NULL;
    }
}


/* Drops the pieces that begin in the first page; 0: there is none. */
static ngx_uint_t
drop_front(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_log_t *log)
{
    if (ngx_queue_empty(&log->pages)) {
        return 0;
    }

    do {
        log->npages--;
        free_page(ctx, log, ngx_queue_head(&log->pages));
    } while (!ngx_queue_empty(&log->pages)
             && !ngx_chat_shm_log_begins(
                 ngx_chat_shm_log_page(ngx_queue_head(&log->pages))));

    if (ngx_queue_empty(&log->pages)) {
        unlink_log(log);
    }

    return 1;
}


void
ngx_chat_shm_log_clear(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_log_t *log)
{
    while (drop_front(ctx, log)) { /* void */
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
            unlink_log(log);
            ngx_chat_shm_log_clear(ctx, log);
            return 1;
        }
    }

    return 0;
}


/* Frees whole pages before keep. */
static void
trim_before(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_log_t *log, uint64_t keep)
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

        (void) drop_front(ctx, log);
    }
}


/* The number of pages that size more bytes need. */
static size_t
missing_pages(ngx_chat_shm_log_t *log, size_t size)
{
    size_t room = 0;

    if (!ngx_queue_empty(&log->pages)) {
        room = NGX_CHAT_SHM_PAGE_SPACE
               - ngx_chat_shm_log_page(ngx_queue_last(&log->pages))->used;
    }

    return size <= room ? 0
                        : (size - room + NGX_CHAT_SHM_PAGE_SPACE - 1)
                              / NGX_CHAT_SHM_PAGE_SPACE;
}


/*
 * Allocates pages for size more bytes; evicts other logs, then this one's
 * front. NGX_ERROR: no memory, and the log is empty.
 */
static ngx_int_t
make_room(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_log_t *log, size_t size,
          ngx_queue_t *fresh)
{
    size_t               lack, most, n = 0;
    ngx_chat_shm_page_t *page;

    most = ctx->zone->shm.size / ngx_pagesize / NGX_CHAT_SHM_LOG_PART;

    for (;;) {
        lack = missing_pages(log, size);
        if (lack <= n) {
            return NGX_OK;
        }

        if (lack <= most && log->npages <= most - lack) {
            page = new_page(ctx, log);
            if (page != NULL) {
                ngx_queue_insert_tail(fresh, &page->queue);
                n++;
                continue;
            }

            if (ngx_chat_shm_zone_make_log(ctx, log->tenant, log)) {
                continue;
            }
        }

        if (!drop_front(ctx, log)) {
            break;
        }
    }

    while (!ngx_queue_empty(fresh)) {
        free_page(ctx, log, ngx_queue_head(fresh));
    }

    return NGX_ERROR;
}


/* Appends to the page and its next ones; returns the last one written. */
static ngx_chat_shm_page_t *
fill_pages(ngx_chat_shm_page_t *page, const void *data, size_t len)
{
    size_t        n;
    const u_char *p = data;

    while (len != 0) {
        if (page->used == NGX_CHAT_SHM_PAGE_SPACE) {
            page = ngx_chat_shm_log_page(ngx_queue_next(&page->queue));
        }

        n = ngx_min(len, NGX_CHAT_SHM_PAGE_SPACE - page->used);
        ngx_memcpy(page->data + page->used, p, n);
        page->used += n;
        p += n;
        len -= n;
    }

    return page;
}


/* Appends a piece, for which the last page and fresh ones have space. */
static void
write_piece(ngx_chat_shm_log_t *log, ngx_queue_t *fresh,
            const ngx_chat_shm_piece_t *piece, const u_char *data)
{
    ngx_queue_t         *q;
    ngx_chat_shm_page_t *page = NULL;

    if (!ngx_queue_empty(&log->pages)) {
        page = ngx_chat_shm_log_page(ngx_queue_last(&log->pages));
    }

    if (page == NULL || page->used == NGX_CHAT_SHM_PAGE_SPACE) {
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

    page = fill_pages(page, piece, sizeof(*piece));
    (void) fill_pages(page, data, piece->len);
}


void
ngx_chat_shm_log_touch(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_log_t *log)
{
    unlink_log(log);

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

    trim_before(ctx, log, ngx_min(keep, position));
    ngx_queue_init(&fresh);
    ngx_memzero(&piece, sizeof(piece));
    piece.position = position;
    piece.len = (uint32_t) bytes.len;
    piece.last = last != 0;

    if (bytes.len < UINT32_MAX
        && make_room(ctx, log, sizeof(piece) + bytes.len, &fresh) == NGX_OK)
    {
        write_piece(log, &fresh, &piece, bytes.data);
    }

    ngx_chat_shm_log_touch(ctx, log);
    ngx_memory_barrier();
    log->next = position + 1;
    return 1;
}


/* A reader in a log. No length in the zone is trusted. */
typedef struct {
    const ngx_queue_t         *end; /* of its pages */
    const ngx_chat_shm_page_t *page;
    size_t                     at;
} cursor_t;


/* Reads len bytes into out (NULL: skips them); NGX_DONE: there are fewer. */
static ngx_int_t
read_bytes(cursor_t *cursor, void *out, size_t len)
{
    size_t             n, used;
    u_char            *p = out;
    const ngx_queue_t *q;

    while (len != 0) {
        used = ngx_min(cursor->page->used, NGX_CHAT_SHM_PAGE_SPACE);

        if (cursor->at >= used) {
            q = ngx_queue_next(&cursor->page->queue);
            if (q == cursor->end) {
                return NGX_DONE;
            }
            cursor->page = ngx_chat_shm_log_page(q);
            cursor->at = 0;
            continue;
        }

        n = ngx_min(len, used - cursor->at);
        if (p != NULL) {
            p = ngx_cpymem(p, cursor->page->data + cursor->at, n);
        }
        cursor->at += n;
        len -= n;
    }

    return NGX_OK;
}


/* Reads the header of the next piece. */
static ngx_int_t
read_header(const ngx_chat_shm_log_t *log, cursor_t *cursor,
            ngx_chat_shm_piece_t *piece)
{
    return read_bytes(cursor, piece, sizeof(*piece)) == NGX_OK
                   && piece->position < log->next
               ? NGX_OK
               : NGX_DONE;
}


/* Finds the first piece from position on. */
static ngx_int_t
seek_position(ngx_chat_shm_log_t *log, uint64_t position, cursor_t *found)
{
    ngx_queue_t         *q;
    ngx_chat_shm_page_t *page;
    ngx_chat_shm_piece_t piece;
    cursor_t             cursor;

    found->page = NULL;
    found->end = ngx_queue_sentinel(&log->pages);

    for (q = ngx_queue_last(&log->pages); q != found->end;
         q = ngx_queue_prev(q)) {
        page = ngx_chat_shm_log_page(q);

        if (ngx_chat_shm_log_begins(page)) {
            found->page = page;
            found->at = page->at;
            if (page->first <= position) {
                break;
            }
        }
    }

    if (found->page == NULL) {
        return NGX_DONE;
    }

    cursor = *found;

    while (read_header(log, &cursor, &piece) == NGX_OK) {
        if (piece.position >= position) {
            return NGX_OK;
        }

        if (read_bytes(&cursor, NULL, piece.len) != NGX_OK) {
            break;
        }

        *found = cursor;
    }

    return NGX_DONE;
}


/* The number of pieces from a position on for one answer; their bytes. */
static size_t
count_pieces(ngx_chat_shm_log_t *log, cursor_t cursor, size_t *bytes)
{
    size_t               n = 0, size = 0;
    ngx_chat_shm_piece_t piece;

    *bytes = 0;

    while (read_header(log, &cursor, &piece) == NGX_OK) {
        size += sizeof(piece) + piece.len;

        if ((n != 0 && size > CHAT_STORE_READ_MAX)
            || read_bytes(&cursor, NULL, piece.len) != NGX_OK)
        {
            break;
        }

        *bytes += piece.len;
        n++;
    }

    return n;
}


/* Reads one piece as a fact, its strings at p; returns where they end. */
static u_char *
read_fact(const ngx_chat_shm_piece_t *piece, cursor_t *cursor,
          chat_fact_t *fact, u_char *p)
{
    u_char *start = p;

    p = ngx_sprintf(p, "%uL", piece->position);
    fact->field = chat_str(start, (size_t) (p - start));
    fact->value = piece->last ? chat_cstr("last") : chat_str(NULL, 0);
    fact->payload = chat_str(p, piece->len);
    fact->has_payload = 1;
    (void) read_bytes(cursor, p, piece->len);
    return p + piece->len;
}


ngx_chat_answered_t *
ngx_chat_shm_log_read(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_log_t *log,
                      uint64_t position)
{
    u_char              *p;
    size_t               i, n = 0, bytes = 0;
    ngx_uint_t           gone = 0;
    ngx_chat_answered_t *answered;
    ngx_chat_shm_piece_t piece;
    cursor_t             cursor;

    if (seek_position(log, position, &cursor) == NGX_OK) {
        n = count_pieces(log, cursor, &bytes);
        ngx_chat_shm_log_touch(ctx, log);
    }

    if (n == 0 && position < log->next) {
        n = gone = 1;
        ngx_memzero(&piece, sizeof(piece));
        piece.position = log->next;
    }

    answered = ngx_chat_store_answered(n, n * NGX_INT64_LEN + bytes);
    if (answered == NULL) {
        return NULL;
    }

    answered->count = n;
    p = (u_char *) (answered->facts + n);

    for (i = 0; i < n; i++) {
        if (!gone) {
            (void) read_header(log, &cursor, &piece);
        }
        p = read_fact(&piece, &cursor, &answered->facts[i], p);
    }

    return answered;
}
