/*
 * ngx_chat_blocks.c: see ngx_chat_blocks.h.
 *
 * The first piece of a log is the head, all others are the bytes that the
 * producer's client was sent, behind the count of the events before them. What
 * comes from the store is not trusted: each position, each length, each count
 * and the head are checked.
 * Must not know: the store, who follows.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "base/ngx_chat_blocks.h"

#define NGX_CHAT_BLOCK_SIZE (16 * 1024) /* small pieces are gathered up to */


void
ngx_chat_block_free(ngx_chat_block_t *block)
{
    if (block != NULL && --block->refs == 0) {
        chat_buf_free(&block->lost);
        ngx_free(block);
    }
}


ngx_uint_t
ngx_chat_block_is_whole(const ngx_chat_block_t *block)
{
    const u_char *end = block->data + block->len;

    return (block->len >= 2
            && (ngx_memcmp(end - 2, "\n\n", 2) == 0
                || ngx_memcmp(end - 2, "\r\r", 2) == 0))
           || (block->len >= 4 && ngx_memcmp(end - 4, "\r\n\r\n", 4) == 0);
}


/* Gives up the oldest blocks while there is too much. */
static void
ngx_chat_blocks_drop(ngx_chat_blocks_t *blocks)
{
    ngx_chat_block_t *block;

    while (blocks->kept > blocks->conf->record_max
           && blocks->first != blocks->last)
    {
        block = blocks->first;
        blocks->first = block->next;
        blocks->first_number++;
        blocks->kept -= block->len;
        ngx_chat_block_free(block);
    }
}


/* The count that a piece begins with, and *bytes is what is behind it. */
static ngx_int_t
ngx_chat_blocks_count(const chat_fact_t *piece, chat_count_t *count,
                      chat_str_t *bytes)
{
    size_t n = chat_count_read(count, piece->payload);

    *bytes = chat_str(piece->payload.data + n, piece->payload.len - n);
    return n != 0 ? NGX_OK : NGX_DECLINED;
}


/* The last thing that is kept, and what was lost before it. */
static void
ngx_chat_blocks_link(ngx_chat_blocks_t *blocks, ngx_chat_block_t *block)
{
    block->gap = blocks->gap;
    block->lost = blocks->lost;
    blocks->gap = 0;
    ngx_memzero(&blocks->lost, sizeof(blocks->lost));

    if (blocks->last != NULL) {
        blocks->last->next = block;
    } else {
        blocks->first = block;
    }

    blocks->last = block;
    blocks->next_number++;
    blocks->kept += block->len;
    blocks->length += block->len;
    ngx_chat_blocks_drop(blocks);
}


static ngx_int_t
ngx_chat_blocks_append(ngx_chat_blocks_t *blocks, const chat_fact_t *pieces,
                       size_t n, size_t len)
{
    size_t            i;
    u_char           *p;
    chat_str_t        bytes;
    chat_count_t      count;
    ngx_chat_block_t *block;

    /* an end of no bytes may be all that there is behind a hole */
    if (len == 0 && !blocks->gap) {
        return NGX_OK;
    }

    block = ngx_calloc(sizeof(*block) + len, ngx_cycle->log);
    if (block == NULL) {
        return NGX_ERROR;
    }

    block->refs = 1;
    p = block->data;

    for (i = 0; i < n; i++) {
        (void) ngx_chat_blocks_count(&pieces[i], i ? &count : &block->count,
                                     &bytes);
        p = ngx_cpymem(p, bytes.data, bytes.len);
    }

    block->len = (size_t) (p - block->data);
    ngx_chat_blocks_link(blocks, block);
    return NGX_OK;
}


/* The pieces as blocks of about one size; a longer one stays whole. */
static ngx_int_t
ngx_chat_blocks_gather(ngx_chat_blocks_t *blocks, const chat_fact_t *pieces,
                       size_t n)
{
    size_t       i, from = 0, len = 0;
    chat_str_t   bytes;
    chat_count_t count;

    for (i = 0; i < n; i++) {
        (void) ngx_chat_blocks_count(&pieces[i], &count, &bytes);

        if (len != 0 && len + bytes.len > NGX_CHAT_BLOCK_SIZE) {
            if (ngx_chat_blocks_append(blocks, &pieces[from], i - from, len)
                != NGX_OK) {
                return NGX_ERROR;
            }
            from = i;
            len = 0;
        }

        len += bytes.len;
    }

    return ngx_chat_blocks_append(blocks, &pieces[from], n - from, len);
}


/* The value of a header that the head says; empty: it has none. */
static chat_str_t
ngx_chat_blocks_header(const ngx_chat_blocks_t *blocks, const char *wanted)
{
    chat_str_t headers = blocks->head.headers, name, value;

    while (chat_record_header_next(&headers, &name, &value)) {
        if (ngx_chat_headers_is(name, wanted)) {
            return value;
        }
    }

    return chat_str(NULL, 0);
}


ngx_uint_t
ngx_chat_blocks_is_sse(const ngx_chat_blocks_t *blocks)
{
    return ngx_chat_filter_is_event_stream(
        ngx_chat_blocks_header(blocks, "content-type"));
}


ngx_uint_t
ngx_chat_blocks_is_resumable(const ngx_chat_blocks_t *blocks)
{
    return ngx_chat_blocks_header(blocks, "x-chat-stream").len != 0;
}


/* The reader that listens in; without it a stream is followed all the same. */
static void
ngx_chat_blocks_open(ngx_chat_blocks_t *blocks)
{
    chat_stream_conf_t sc;

    if (!ngx_chat_blocks_is_sse(blocks)) {
        return;
    }

    ngx_chat_filter_conf(blocks->conf, blocks->dialect, &sc);
    sc.replay = CHAT_REPLAY_OFF;
    sc.resumable = (int) ngx_chat_blocks_is_resumable(blocks);
    blocks->stream = chat_stream_create(&sc);
}


static ngx_int_t
ngx_chat_blocks_head(ngx_chat_blocks_t *blocks, chat_str_t bytes)
{
    blocks->head_bytes = ngx_alloc(bytes.len + 1, ngx_cycle->log);
    if (blocks->head_bytes == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(blocks->head_bytes, bytes.data, bytes.len);

    if (chat_record_head_read(chat_str(blocks->head_bytes, bytes.len),
                              &blocks->head)
            != CHAT_OK
        || blocks->head.status >= NGX_HTTP_SPECIAL_RESPONSE)
    {
        return NGX_DECLINED;
    }

    blocks->has_head = 1;
    ngx_chat_blocks_open(blocks);
    return NGX_OK;
}


void
ngx_chat_blocks_know(ngx_chat_blocks_t *blocks, chat_str_t head)
{
    if (blocks->has_head || blocks->position != 0 || head.len == 0
        || ngx_chat_blocks_head(blocks, head) == NGX_OK)
    {
        return;
    }

    /* it is none: the log's own decides */
    if (blocks->head_bytes != NULL) {
        ngx_free(blocks->head_bytes);
        blocks->head_bytes = NULL;
    }
}


static void
ngx_chat_blocks_listen(ngx_chat_blocks_t *blocks, chat_str_t bytes)
{
    size_t                     n;
    const chat_piece_t        *pieces;
    const chat_stream_facts_t *facts;

    if (blocks->stream != NULL) {
        (void) chat_stream_push(blocks->stream, bytes, &pieces, &n);
        (void) chat_stream_facts(blocks->stream, &facts);
    }
}


/*
 * Pieces before this one are lost. Whoever had all up to there is told so;
 * who begins behind it needs a reader that knows nothing of what came before.
 */
static void
ngx_chat_blocks_hole(ngx_chat_blocks_t *blocks, uint64_t position)
{
    if (!blocks->gap) {
        blocks->gap = blocks->behind = 1;
        (void) ngx_chat_blocks_break(blocks, "incomplete_record");
        blocks->lost = blocks->words;
        ngx_memzero(&blocks->words, sizeof(blocks->words));

        chat_stream_destroy(blocks->stream);
        blocks->stream = NULL;
        ngx_chat_blocks_open(blocks);

        if (blocks->next_number == 0) {
            /* nobody can begin with the first one */
            blocks->first_number = blocks->next_number = 1;
        }
    }

    blocks->position = position;
}


static off_t
ngx_chat_blocks_position(const chat_fact_t *piece)
{
    return ngx_atoof((u_char *) piece->field.data, piece->field.len);
}


/* It is the next one, or there is a hole. NGX_AGAIN: and it is none. */
static ngx_int_t
ngx_chat_blocks_place(ngx_chat_blocks_t *blocks, const chat_fact_t *piece)
{
    off_t position = ngx_chat_blocks_position(piece);

    if (position < 0 || (uint64_t) position < blocks->position
        || (piece->payload.data == NULL && piece->payload.len != 0))
    {
        return NGX_DECLINED;
    }

    if ((uint64_t) position == blocks->position) {
        return NGX_OK;
    }

    if (!blocks->has_head) {
        return NGX_DECLINED;
    }

    ngx_chat_blocks_hole(blocks, (uint64_t) position);
    return piece->payload.len != 0 ? NGX_OK : NGX_AGAIN;
}


/* Behind a hole the rest of an event is no event. */
static chat_str_t
ngx_chat_blocks_whole(ngx_chat_blocks_t *blocks, chat_count_t count,
                      chat_str_t bytes)
{
    int    ended = 1;
    size_t n = 0;

    if (chat_count_is_inside(&count)) {
        n = chat_count_frame(&count, bytes, &ended);
    }

    blocks->behind = !ended;
    return chat_str(bytes.data + n, bytes.len - n);
}


/* Reads what the next piece says. NGX_DONE: it is the last. */
static ngx_int_t
ngx_chat_blocks_piece(ngx_chat_blocks_t *blocks, const chat_fact_t *piece)
{
    chat_str_t   bytes;
    chat_count_t count;

    if (blocks->position == 0) {
        blocks->position = 1;
        return blocks->has_head ? NGX_OK
                                : ngx_chat_blocks_head(blocks, piece->payload);
    }

    if (ngx_chat_blocks_count(piece, &count, &bytes) != NGX_OK) {
        return NGX_DECLINED;
    }

    blocks->position++;

    if (blocks->behind) {
        bytes = ngx_chat_blocks_whole(blocks, count, bytes);
    }

    ngx_chat_blocks_listen(blocks, bytes);
    return chat_str_is(piece->value, "last") ? NGX_DONE : NGX_OK;
}


/* Takes the pieces up to the next hole, *used of them. */
static ngx_int_t
ngx_chat_blocks_run(ngx_chat_blocks_t *blocks, const chat_fact_t *pieces,
                    size_t n, size_t *used)
{
    size_t    i, from = blocks->position == 0 ? 1 : 0;
    ngx_int_t rc = NGX_OK;

    for (i = 0; i < n && rc == NGX_OK; i++) {
        if (ngx_chat_blocks_position(&pieces[i]) != (off_t) blocks->position) {
            break;
        }

        rc = ngx_chat_blocks_piece(blocks, &pieces[i]);
        if (rc == NGX_DECLINED || rc == NGX_ERROR) {
            break; /* what came before it is not lost */
        }
    }

    *used = i;

    if (i > from
        && ngx_chat_blocks_gather(blocks, &pieces[from], i - from) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return rc;
}


ngx_int_t
ngx_chat_blocks_add(ngx_chat_blocks_t *blocks, const chat_fact_t *pieces,
                    size_t n)
{
    size_t    i, used;
    ngx_int_t rc = NGX_OK;

    for (i = 0; i < n && rc == NGX_OK; i += used) {
        used = 0;
        rc = ngx_chat_blocks_place(blocks, &pieces[i]);

        if (rc == NGX_OK) {
            rc = ngx_chat_blocks_run(blocks, &pieces[i], n - i, &used);

        } else if (rc == NGX_AGAIN) {
            /* it stands for all that are gone, and is the only one */
            return NGX_OK;
        }
    }

    return rc;
}


chat_end_e
ngx_chat_blocks_end(ngx_chat_blocks_t *blocks)
{
    size_t              n;
    chat_end_e          end;
    const chat_piece_t *pieces;

    if (blocks->stream == NULL) {
        return CHAT_END_FINISHED;
    }

    (void) chat_stream_finish(blocks->stream, NULL, 0, &pieces, &n);
    end = chat_stream_info(blocks->stream)->end;
    return end != CHAT_END_NONE ? end : CHAT_END_FINISHED;
}


chat_end_e
ngx_chat_blocks_break(ngx_chat_blocks_t *blocks, const char *reason)
{
    size_t              i, n = 0;
    const chat_piece_t *pieces;

    /* an unfinished event is not among them: its followers have had that */
    if (blocks->stream == NULL
        || chat_stream_finish(blocks->stream, reason, 0, &pieces, &n)
               != CHAT_OK)
    {
        return CHAT_END_INTERRUPTED;
    }

    for (i = 0; i < n; i++) {
        chat_buf_add(&blocks->words, pieces[i].bytes);
    }

    return chat_stream_info(blocks->stream)->end;
}


void
ngx_chat_blocks_free(ngx_chat_blocks_t *blocks)
{
    ngx_chat_block_t *block, *next;

    for (block = blocks->first; block != NULL; block = next) {
        next = block->next;
        ngx_chat_block_free(block);
    }

    chat_stream_destroy(blocks->stream);
    chat_buf_free(&blocks->words);
    chat_buf_free(&blocks->lost);

    if (blocks->head_bytes != NULL) {
        ngx_free(blocks->head_bytes);
    }
}
