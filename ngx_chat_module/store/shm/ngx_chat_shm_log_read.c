/*
 * ngx_chat_shm_log_read.c: pieces of a log as an answer.
 *
 * A place is found from the last page backwards, where readers mostly are. No
 * length of the zone is trusted: what does not fit into what is there is not
 * read. Must not know: facts, who follows.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/shm/ngx_chat_shm_log.h"


/* A place in a log. */
typedef struct {
    const ngx_queue_t         *end; /* of its pages */
    const ngx_chat_shm_page_t *page;
    size_t                     at;
} ngx_chat_shm_place_t;


/* The next len bytes into out (NULL: nowhere); NGX_DONE: it has fewer. */
static ngx_int_t
ngx_chat_shm_log_take(ngx_chat_shm_place_t *place, void *out, size_t len)
{
    size_t             n, used;
    u_char            *p = out;
    const ngx_queue_t *q;

    while (len != 0) {
        used = ngx_min(place->page->used, NGX_CHAT_SHM_PAGE_ROOM);

        if (place->at >= used) {
            q = ngx_queue_next(&place->page->queue);
            if (q == place->end) {
                return NGX_DONE;
            }
            place->page = ngx_chat_shm_log_page(q);
            place->at = 0;
            continue;
        }

        n = ngx_min(len, used - place->at);
        if (p != NULL) {
            p = ngx_cpymem(p, place->page->data + place->at, n);
        }
        place->at += n;
        len -= n;
    }

    return NGX_OK;
}


/* The header of the next piece; then the place is before its bytes. */
static ngx_int_t
ngx_chat_shm_log_next(const ngx_chat_shm_log_t *log,
                      ngx_chat_shm_place_t *place, ngx_chat_shm_piece_t *piece)
{
    return ngx_chat_shm_log_take(place, piece, sizeof(*piece)) == NGX_OK
                   && piece->position < log->next
               ? NGX_OK
               : NGX_DONE;
}


/* The place of the first piece from position on. */
static ngx_int_t
ngx_chat_shm_log_seek(ngx_chat_shm_log_t *log, uint64_t position,
                      ngx_chat_shm_place_t *found)
{
    ngx_queue_t         *q;
    ngx_chat_shm_page_t *page;
    ngx_chat_shm_piece_t piece;
    ngx_chat_shm_place_t place;

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

    place = *found;

    while (ngx_chat_shm_log_next(log, &place, &piece) == NGX_OK) {
        if (piece.position >= position) {
            return NGX_OK;
        }

        if (ngx_chat_shm_log_take(&place, NULL, piece.len) != NGX_OK) {
            break;
        }

        *found = place;
    }

    return NGX_DONE;
}


/* How many pieces from a place on go into one answer; their bytes. */
static size_t
ngx_chat_shm_log_count(ngx_chat_shm_log_t *log, ngx_chat_shm_place_t place,
                       size_t *bytes)
{
    size_t               n = 0, size = 0;
    ngx_chat_shm_piece_t piece;

    *bytes = 0;

    while (ngx_chat_shm_log_next(log, &place, &piece) == NGX_OK) {
        size += sizeof(piece) + piece.len;

        if ((n != 0 && size > CHAT_STORE_READ_MAX)
            || ngx_chat_shm_log_take(&place, NULL, piece.len) != NGX_OK)
        {
            break;
        }

        *bytes += piece.len;
        n++;
    }

    return n;
}


/* One piece as a fact, its strings at p; answers where they end. */
static u_char *
ngx_chat_shm_log_fact(const ngx_chat_shm_piece_t *piece,
                      ngx_chat_shm_place_t *place, chat_fact_t *fact,
                      u_char *p)
{
    u_char *start = p;

    p = ngx_sprintf(p, "%uL", piece->position);
    fact->field = chat_str(start, (size_t) (p - start));
    fact->value = piece->last ? chat_cstr("last") : chat_str(NULL, 0);
    fact->payload = chat_str(p, piece->len);
    fact->has_payload = 1;
    (void) ngx_chat_shm_log_take(place, p, piece->len);
    return p + piece->len;
}


ngx_chat_answered_t *
ngx_chat_shm_log_read(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_log_t *log,
                      uint64_t position)
{
    u_char              *p;
    size_t               i, n = 0, bytes = 0;
    ngx_uint_t           gone = 0;
    chat_arena_t        *arena;
    ngx_chat_answered_t *answered = NULL;
    ngx_chat_shm_piece_t piece;
    ngx_chat_shm_place_t place;

    if (ngx_chat_shm_log_seek(log, position, &place) == NGX_OK) {
        n = ngx_chat_shm_log_count(log, place, &bytes);
        ngx_chat_shm_log_touch(ctx, log);
    }

    if (n == 0 && position < log->next) {
        n = gone = 1;
        ngx_memzero(&piece, sizeof(piece));
        piece.position = log->next;
    }

    arena = chat_arena_create(0);
    if (arena != NULL) {
        answered = chat_arena_alloc(
            arena, sizeof(*answered)
                       + n * (sizeof(chat_fact_t) + NGX_INT64_LEN) + bytes);
    }

    if (answered == NULL) {
        chat_arena_destroy(arena);
        return NULL;
    }

    answered->arena = arena;
    answered->count = n;
    answered->facts = (chat_fact_t *) (answered + 1);
    p = (u_char *) (answered->facts + n);

    for (i = 0; i < n; i++) {
        if (!gone) {
            (void) ngx_chat_shm_log_next(log, &place, &piece);
        }
        p = ngx_chat_shm_log_fact(&piece, &place, &answered->facts[i], p);
    }

    return answered;
}
