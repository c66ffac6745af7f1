/*
 * ngx_chat_shm_log.c: see ngx_chat_shm.h.
 *
 * Entries are written one behind the other, each after a header, across
 * pages. An entry counts once the log's next is past it, which is written
 * last: a killed worker leaves nothing half-written to a reader.
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
    size_t      at;    /* of the first entry that begins here */
    uint64_t    first; /* position of this entry */
    u_char      data[1];
} ngx_chat_shm_page_t;

/* Stands before the bytes of an entry. */
typedef struct {
    uint64_t position;
    uint32_t len;
    uint32_t last; /* 1: the log has ended */
} ngx_chat_shm_entry_t;


static ngx_chat_shm_page_t *
page_of(const ngx_queue_t *q)
{
    return ngx_queue_data(q, ngx_chat_shm_page_t, queue);
}


/* 1 if an entry begins in the page. */
static ngx_uint_t
has_begin(const ngx_chat_shm_page_t *page)
{
    return page->at < NGX_CHAT_SHM_PAGE_SPACE;
}


/* Adds an empty page; NGX_ERROR: no memory. */
static ngx_int_t
add_page(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *batch)
{
    ngx_chat_shm_page_t *page;

    page = ngx_slab_alloc_locked(ctx->shpool, ngx_pagesize);
    if (page == NULL) {
        return NGX_ERROR;
    }

    page->used = 0;
    page->at = NGX_CHAT_SHM_PAGE_SPACE;
    ngx_queue_insert_tail(&batch->log.pages, &page->queue);
    batch->log.npages++;
    ctx->sh->log_pages++;
    ngx_chat_shm_charge(ctx, batch->tenant, (ssize_t) ngx_pagesize);
    return NGX_OK;
}


/* Takes the log out of the lists of logs. */
static void
unlink_log(ngx_chat_shm_batch_t *batch)
{
    if (batch->log.queue.next != NULL) {
        ngx_queue_remove(&batch->log.queue);
        ngx_queue_remove(&batch->log.own);
        batch->log.queue.next = NULL;
    }
}


/* Frees the first page, and those that continue its entries; 0: no page. */
static ngx_uint_t
drop_front(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *batch)
{
    ngx_queue_t *q;

    if (ngx_queue_empty(&batch->log.pages)) {
        return 0;
    }

    do {
        q = ngx_queue_head(&batch->log.pages);
        ngx_queue_remove(q);
        batch->log.npages--;
        ctx->sh->log_pages -= ctx->sh->log_pages != 0;
        ngx_chat_shm_charge(ctx, batch->tenant, -(ssize_t) ngx_pagesize);
        ngx_slab_free_locked(ctx->shpool, page_of(q));
    } while (!ngx_queue_empty(&batch->log.pages)
             && !has_begin(page_of(ngx_queue_head(&batch->log.pages))));

    if (ngx_queue_empty(&batch->log.pages)) {
        unlink_log(batch);
    }

    return 1;
}


void
ngx_chat_shm_log_clear(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *batch)
{
    while (drop_front(ctx, batch)) { /* void */
    }
}


ngx_uint_t
ngx_chat_shm_log_evict(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_tenant_t *tenant,
                       const ngx_chat_shm_batch_t *keep)
{
    ngx_queue_t          *q, *logs = tenant ? &tenant->logs : &ctx->sh->logs;
    ngx_chat_shm_batch_t *batch;

    for (q = ngx_queue_last(logs); q != ngx_queue_sentinel(logs);
         q = ngx_queue_prev(q))
    {
        batch = tenant ? ngx_queue_data(q, ngx_chat_shm_batch_t, log.own)
                       : ngx_queue_data(q, ngx_chat_shm_batch_t, log.queue);
        if (batch != keep) {
            ngx_chat_shm_log_clear(ctx, batch);
            return 1;
        }
    }

    return 0;
}


/* Frees whole pages of entries before position. */
static void
trim_before(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *batch,
            uint64_t position)
{
    ngx_queue_t *q;

    while (!ngx_queue_empty(&batch->log.pages)) {
        q = ngx_queue_head(&batch->log.pages);

        do {
            q = ngx_queue_next(q);
        } while (q != ngx_queue_sentinel(&batch->log.pages)
                 && !has_begin(page_of(q)));

        if (q == ngx_queue_sentinel(&batch->log.pages)
            || page_of(q)->first > position) {
            return;
        }

        (void) drop_front(ctx, batch);
    }
}


/*
 * Adds pages for size more bytes; evicts other logs, then this one's front.
 * NGX_ERROR: no memory, and the log is empty.
 */
static ngx_int_t
make_room(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *batch, size_t size)
{
    size_t room = 0;
    size_t most = ctx->zone->shm.size / ngx_pagesize / NGX_CHAT_SHM_LOG_PART;

    if (!ngx_queue_empty(&batch->log.pages)) {
        room = NGX_CHAT_SHM_PAGE_SPACE
               - page_of(ngx_queue_last(&batch->log.pages))->used;
    }

    while (room < size) {
        if (batch->log.npages < most) {
            if (add_page(ctx, batch) == NGX_OK) {
                room += NGX_CHAT_SHM_PAGE_SPACE;
                continue;
            }

            if (ngx_chat_shm_evict(ctx, batch->tenant, batch, ngx_pagesize,
                                   NGX_CHAT_SHM_LOGS))
            {
                continue;
            }
        }

        if (batch->log.npages == 0
            || !has_begin(page_of(ngx_queue_head(&batch->log.pages))))
        {
            /* only new pages are left */
            ngx_chat_shm_log_clear(ctx, batch);
            return NGX_ERROR;
        }

        (void) drop_front(ctx, batch);
        room = batch->log.npages != 0 ? room : 0;
    }

    return NGX_OK;
}


/* Appends to the page and its next ones; returns the last one written. */
static ngx_chat_shm_page_t *
fill_pages(ngx_chat_shm_page_t *page, const void *data, size_t len)
{
    size_t        n;
    const u_char *p = data;

    while (len != 0) {
        if (page->used == NGX_CHAT_SHM_PAGE_SPACE) {
            page = page_of(ngx_queue_next(&page->queue));
        }

        n = ngx_min(len, NGX_CHAT_SHM_PAGE_SPACE - page->used);
        ngx_memcpy(page->data + page->used, p, n);
        page->used += n;
        p += n;
        len -= n;
    }

    return page;
}


/* Appends an entry, for which there is room. */
static void
write_entry(ngx_chat_shm_batch_t *batch, const ngx_chat_shm_entry_t *entry,
            const u_char *data)
{
    ngx_queue_t         *q = ngx_queue_last(&batch->log.pages), *prev;
    ngx_chat_shm_page_t *page;

    /* the first page that is not full: new ones are behind it */

    for (prev = ngx_queue_prev(q);
         prev != ngx_queue_sentinel(&batch->log.pages)
         && page_of(prev)->used < NGX_CHAT_SHM_PAGE_SPACE;
         prev = ngx_queue_prev(q))
    {
        q = prev;
    }

    page = page_of(q);

    if (page->used == NGX_CHAT_SHM_PAGE_SPACE) {
        page = page_of(ngx_queue_next(q));
    }

    if (!has_begin(page)) {
        page->first = entry->position;
        page->at = page->used;
    }

    page = fill_pages(page, entry, sizeof(*entry));
    (void) fill_pages(page, data, entry->len);
}


/* Makes the log the most recently used one. */
static void
touch_log(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *batch)
{
    unlink_log(batch);

    if (!ngx_queue_empty(&batch->log.pages)) {
        ngx_queue_insert_head(&ctx->sh->logs, &batch->log.queue);
        ngx_queue_insert_head(&batch->tenant->logs, &batch->log.own);
    }
}


ngx_uint_t
ngx_chat_shm_log_put(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *batch,
                     uint64_t position, chat_str_t bytes, int last,
                     uint64_t trim)
{
    ngx_chat_shm_entry_t entry;

    if (position < batch->log.next || position == UINT64_MAX) {
        return 0;
    }

    trim_before(ctx, batch, ngx_min(trim, position));
    ngx_memzero(&entry, sizeof(entry));
    entry.position = position;
    entry.len = (uint32_t) bytes.len;
    entry.last = last != 0;

    if (bytes.len < UINT32_MAX
        && make_room(ctx, batch, sizeof(entry) + bytes.len) == NGX_OK)
    {
        write_entry(batch, &entry, bytes.data);
    }

    touch_log(ctx, batch);
    ngx_memory_barrier();
    batch->log.next = position + 1;
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
            cursor->page = page_of(q);
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


/* Reads the header of the next entry. */
static ngx_int_t
read_header(const ngx_chat_shm_batch_t *batch, cursor_t *cursor,
            ngx_chat_shm_entry_t *entry)
{
    return read_bytes(cursor, entry, sizeof(*entry)) == NGX_OK
                   && entry->position < batch->log.next
               ? NGX_OK
               : NGX_DONE;
}


/* Finds the first entry from position on. */
static ngx_int_t
seek_position(ngx_chat_shm_batch_t *batch, uint64_t position, cursor_t *found)
{
    ngx_queue_t         *q;
    ngx_chat_shm_page_t *page;
    ngx_chat_shm_entry_t entry;
    cursor_t             cursor;

    found->page = NULL;
    found->end = ngx_queue_sentinel(&batch->log.pages);

    for (q = ngx_queue_last(&batch->log.pages); q != found->end;
         q = ngx_queue_prev(q))
    {
        page = page_of(q);

        if (has_begin(page)) {
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

    while (read_header(batch, &cursor, &entry) == NGX_OK) {
        if (entry.position >= position) {
            return NGX_OK;
        }

        if (read_bytes(&cursor, NULL, entry.len) != NGX_OK) {
            break;
        }

        *found = cursor;
    }

    return NGX_DONE;
}


/*
 * Adds the entry, with its bytes at the cursor, to the reply. NGX_DONE: there
 * are fewer bytes, or there is no memory, and the reply has failed.
 */
static ngx_int_t
add_entry(const ngx_chat_shm_entry_t *entry, cursor_t *cursor,
          chat_facts_t *reply)
{
    u_char     *p;
    cursor_t    end = *cursor;
    chat_fact_t fact = { .has_payload = 1 };

    if (read_bytes(&end, NULL, entry->len) != NGX_OK) {
        return NGX_DONE;
    }

    p = chat_arena_alloc(reply->arena, NGX_INT64_LEN + entry->len);
    if (p == NULL) {
        reply->failed = 1;
        return NGX_DONE;
    }

    fact.payload = chat_str(p, entry->len);
    (void) read_bytes(cursor, p, entry->len);
    p += entry->len;
    fact.field =
        chat_str(p, (size_t) (ngx_sprintf(p, "%uL", entry->position) - p));
    fact.value = entry->last ? chat_cstr("last") : chat_str(NULL, 0);
    chat_facts_append(reply, &fact, 1);
    return NGX_OK;
}


chat_facts_t *
ngx_chat_shm_log_read(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *batch,
                      uint64_t position)
{
    size_t               size = 0;
    cursor_t             cursor;
    chat_facts_t        *reply = ngx_chat_store_reply();
    ngx_chat_shm_entry_t entry;

    if (reply == NULL) {
        return NULL;
    }

    ngx_memzero(&cursor, sizeof(cursor));

    if (seek_position(batch, position, &cursor) == NGX_OK) {
        touch_log(ctx, batch);

        while (read_header(batch, &cursor, &entry) == NGX_OK) {
            size += sizeof(entry) + entry.len;

            if ((reply->count != 0 && size > CHAT_STORE_READ_MAX)
                || add_entry(&entry, &cursor, reply) != NGX_OK)
            {
                break;
            }
        }
    }

    if (reply->count == 0 && position < batch->log.next) {
        ngx_memzero(&entry, sizeof(entry));
        entry.position = batch->log.next;
        (void) add_entry(&entry, &cursor, reply);
    }

    return reply;
}
