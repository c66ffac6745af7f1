/*
 * ngx_chat_shm_log.c: see ngx_chat_shm.h.
 *
 * A log is a list of pages of pieces. An entry that does not fit into the rest
 * of a page continues at the start of the next one. An entry counts once the
 * log's next is past it, which is written last: a killed worker leaves nothing
 * half-written to a reader.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/shm/ngx_chat_shm.h"

#define NGX_CHAT_SHM_LOG_PART 16 /* one log takes no more of the zone */

#define NGX_CHAT_SHM_PAGE_SPACE \
    (ngx_pagesize - offsetof(ngx_chat_shm_page_t, data))

typedef struct {
    ngx_queue_t queue; /* in the log's pages */
    size_t      used;  /* bytes of data */
    u_char      data[1];
} ngx_chat_shm_page_t;

/* Stands before the bytes of a piece. */
typedef struct {
    uint64_t position; /* of its entry */
    uint32_t rest;     /* bytes of the entry in the next pages */
    unsigned len : 30;
    unsigned first : 1; /* the entry begins here */
    unsigned last : 1;  /* the log ends with this entry */
} ngx_chat_shm_piece_t;


static ngx_chat_shm_page_t *
page_of(const ngx_queue_t *q)
{
    return ngx_queue_data(q, ngx_chat_shm_page_t, queue);
}


/*
 * Reads the piece at this offset, and returns its bytes; NULL: there is none.
 * No length in the zone is trusted.
 */
static const u_char *
read_piece(const ngx_chat_shm_page_t *page, size_t at,
           ngx_chat_shm_piece_t *piece)
{
    size_t used = ngx_min(page->used, NGX_CHAT_SHM_PAGE_SPACE);

    if (at + sizeof(*piece) > used) {
        return NULL;
    }

    ngx_memcpy(piece, page->data + at, sizeof(*piece));
    at += sizeof(*piece);
    return piece->len <= used - at ? page->data + at : NULL;
}


/* 1 if no entry from position on begins before this page. */
static ngx_uint_t
is_reached(const ngx_queue_t *q, uint64_t position)
{
    ngx_chat_shm_piece_t piece;

    return read_piece(page_of(q), 0, &piece) != NULL
           && (piece.position < position
               || (piece.position == position && piece.first));
}


void
ngx_chat_shm_log_clear(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *batch)
{
    ngx_queue_t *q;

    while (!ngx_queue_empty(&batch->log.pages)) {
        q = ngx_queue_head(&batch->log.pages);
        ngx_queue_remove(q);
        ngx_chat_shm_free(ctx, batch->tenant, page_of(q), ngx_pagesize);
    }

    ctx->sh->log_pages -= ngx_min(ctx->sh->log_pages, batch->log.npages);
    batch->log.npages = 0;
    ngx_chat_shm_unlink(batch, NGX_CHAT_SHM_LOGS);
}


/* 1 if no entry from trim on begins in the first page. */
static ngx_uint_t
is_trimmed(const ngx_chat_shm_batch_t *batch, uint64_t trim)
{
    const ngx_queue_t *first = ngx_queue_head(&batch->log.pages);

    return batch->log.npages > 1 && is_reached(ngx_queue_next(first), trim);
}


/* A page for which other logs are evicted. NULL: no memory. */
static ngx_chat_shm_page_t *
new_page(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *batch)
{
    size_t most = ctx->zone->shm.size / ngx_pagesize / NGX_CHAT_SHM_LOG_PART;
    ngx_chat_shm_page_t *page = NULL;

    if (batch->log.npages < most) {
        page = ngx_chat_shm_alloc(ctx, batch->tenant, batch, ngx_pagesize,
                                  NGX_CHAT_SHM_LOGS);
    }

    batch->log.npages += page != NULL;
    ctx->sh->log_pages += page != NULL;
    return page;
}


/*
 * The page of the next piece, with room for at least one byte. Once the first
 * page is trimmed, or without memory, it moves to the end and loses its
 * entries, but not if it is begin (or NULL). So a long log stays in memory
 * that the worker has touched before. NULL: no memory.
 */
static ngx_chat_shm_page_t *
page_with_room(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *batch,
               const ngx_chat_shm_page_t *begin, uint64_t trim)
{
    ngx_queue_t         *pages = &batch->log.pages;
    ngx_chat_shm_page_t *page = page_of(ngx_queue_last(pages));

    if (!ngx_queue_empty(pages)
        && page->used + sizeof(ngx_chat_shm_piece_t) < NGX_CHAT_SHM_PAGE_SPACE)
    {
        return page;
    }

    page = is_trimmed(batch, trim) ? NULL : new_page(ctx, batch);

    if (page == NULL) {
        page = page_of(ngx_queue_head(pages));
        if (ngx_queue_empty(pages) || page == begin) {
            return NULL;
        }

        ngx_queue_remove(&page->queue);
        page->used = 0;
    }

    /* a worker that is killed must leave a list with an end */
    page->queue.next = pages;
    ngx_memory_barrier();
    ngx_queue_insert_tail(pages, &page->queue);
    return page;
}


/* Appends an entry. NGX_ERROR: no memory. */
static ngx_int_t
write_entry(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *batch,
            uint64_t position, chat_str_t bytes, int last, uint64_t trim)
{
    size_t               len;
    u_char              *p;
    ngx_chat_shm_page_t *page, *begin = NULL;
    ngx_chat_shm_piece_t piece;

    if (bytes.len > UINT32_MAX) {
        return NGX_ERROR;
    }

    do {
        page = page_with_room(ctx, batch, begin, trim);
        if (page == NULL) {
            return NGX_ERROR;
        }

        len = ngx_min(bytes.len,
                      NGX_CHAT_SHM_PAGE_SPACE - page->used - sizeof(piece));
        piece.position = position;
        piece.rest = (uint32_t) (bytes.len - len);
        piece.len = len & 0x3fffffff;
        piece.first = begin == NULL;
        piece.last = last != 0;

        p = ngx_cpymem(page->data + page->used, &piece, sizeof(piece));
        page->used += sizeof(piece) + len;
        begin = begin ? begin : page;

        if (len != 0) {
            ngx_memcpy(p, bytes.data, len);
            bytes.data += len;
            bytes.len -= len;
        }
    } while (bytes.len != 0);

    return NGX_OK;
}


ngx_uint_t
ngx_chat_shm_log_put(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *batch,
                     uint64_t position, chat_str_t bytes, int last,
                     uint64_t trim)
{
    if (position < batch->log.next || position == UINT64_MAX) {
        return 0;
    }

    if (write_entry(ctx, batch, position, bytes, last, ngx_min(trim, position))
        == NGX_OK)
    {
        ngx_chat_shm_touch(ctx, batch, NGX_CHAT_SHM_LOGS);
    } else {
        ngx_chat_shm_log_clear(ctx, batch);
    }

    ngx_memory_barrier();
    batch->log.next = position + 1;
    return 1;
}


/* The page of the first entry from position on. */
static ngx_queue_t *
seek_position(ngx_chat_shm_batch_t *batch, uint64_t position)
{
    ngx_queue_t *pages = &batch->log.pages, *q = ngx_queue_last(pages);

    while (ngx_queue_prev(q) != pages && !is_reached(q, position)) {
        q = ngx_queue_prev(q);
    }

    return q;
}


/* Adds an entry to the reply. */
static void
add_entry(chat_facts_t *reply, uint64_t position, chat_str_t bytes,
          ngx_uint_t last)
{
    u_char     *p = chat_arena_alloc(reply->arena, NGX_INT64_LEN);
    chat_fact_t fact = { .has_payload = 1, .payload = bytes };

    if (p == NULL) {
        reply->failed = 1;
        return;
    }

    fact.field = chat_str(p, (size_t) (ngx_sprintf(p, "%uL", position) - p));
    fact.value = chat_cstr(last ? "last" : "");
    chat_facts_append(reply, &fact, 1);
}


/*
 * Adds the entry that begins with this piece and its data in the page q to the
 * reply, unless a killed worker has left it incomplete.
 */
static void
read_entry(ngx_chat_shm_batch_t *batch, const ngx_queue_t *q,
           ngx_chat_shm_piece_t piece, const u_char *data, chat_facts_t *reply)
{
    u_char    *p;
    size_t     left = piece.len + (size_t) piece.rest;
    uint64_t   position = piece.position;
    chat_str_t bytes = { NULL, left };

    if (left > batch->log.npages * ngx_pagesize) {
        return;
    }

    bytes.data = p = chat_arena_alloc(reply->arena, left + 1);
    if (p == NULL) {
        reply->failed = 1;
        return;
    }

    for (;;) {
        p = ngx_cpymem(p, data, piece.len);
        left -= piece.len;
        if (left == 0) {
            add_entry(reply, position, bytes, piece.last);
            return;
        }

        q = ngx_queue_next(q);
        data = q != ngx_queue_sentinel(&batch->log.pages)
                   ? read_piece(page_of(q), 0, &piece)
                   : NULL;
        if (data == NULL || piece.first || piece.position != position
            || piece.len > left)
        {
            return;
        }
    }
}


chat_facts_t *
ngx_chat_shm_log_read(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *batch,
                      uint64_t position)
{
    size_t               at, size = 0;
    ngx_queue_t         *q;
    const u_char        *data;
    chat_facts_t        *reply = ngx_chat_store_reply();
    ngx_chat_shm_piece_t piece;

    if (reply == NULL) {
        return NULL;
    }

    for (q = seek_position(batch, position);
         q != ngx_queue_sentinel(&batch->log.pages); q = ngx_queue_next(q))
    {
        for (at = 0; (data = read_piece(page_of(q), at, &piece)) != NULL;
             at += sizeof(piece) + piece.len)
        {
            if (!piece.first || piece.position < position
                || piece.position >= batch->log.next)
            {
                continue;
            }

            size += sizeof(piece) + piece.len + piece.rest;
            if (reply->count != 0 && size > CHAT_STORE_READ_MAX) {
                ngx_chat_shm_touch(ctx, batch, NGX_CHAT_SHM_LOGS);
                return reply;
            }

            read_entry(batch, q, piece, data, reply);
        }
    }

    if (reply->count != 0) {
        ngx_chat_shm_touch(ctx, batch, NGX_CHAT_SHM_LOGS);
    } else if (position < batch->log.next) {
        add_entry(reply, batch->log.next, chat_str(NULL, 0), 0);
    }

    return reply;
}
