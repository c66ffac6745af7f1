/*
 * ngx_chat_blocks.c: see ngx_chat_blocks.h.
 *
 * The first piece of a log is the head, all others are the bytes that the
 * producer's client was sent. What comes from the store is not trusted: each
 * position, each length and the head are checked.
 * Must not know: the store, who follows.
 */

#include "ngx_chat_blocks.h"

#define NGX_CHAT_BLOCK_SIZE (16 * 1024) /* small pieces are gathered up to */


void
ngx_chat_block_free(ngx_chat_block_t *block)
{
    if (block != NULL && --block->refs == 0) {
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


static ngx_int_t
ngx_chat_blocks_append(ngx_chat_blocks_t *blocks, const chat_fact_t *pieces,
                       size_t n, size_t len)
{
    size_t            i;
    u_char           *p;
    ngx_chat_block_t *block;

    if (len == 0) {
        return NGX_OK;
    }

    block = ngx_alloc(sizeof(*block) + len, ngx_cycle->log);
    if (block == NULL) {
        return NGX_ERROR;
    }

    block->next = NULL;
    block->refs = 1;
    block->len = len;
    p = block->data;

    for (i = 0; i < n; i++) {
        p = ngx_cpymem(p, pieces[i].payload.data, pieces[i].payload.len);
    }

    if (blocks->last != NULL) {
        blocks->last->next = block;
    } else {
        blocks->first = block;
    }

    blocks->last = block;
    blocks->next_number++;
    blocks->kept += len;
    blocks->length += len;
    ngx_chat_blocks_drop(blocks);
    return NGX_OK;
}


/* The pieces as blocks of about one size; a longer one stays whole. */
static ngx_int_t
ngx_chat_blocks_gather(ngx_chat_blocks_t *blocks, const chat_fact_t *pieces,
                       size_t n)
{
    size_t i, from = 0, len = 0;

    for (i = 0; i < n; i++) {
        if (len != 0 && len + pieces[i].payload.len > NGX_CHAT_BLOCK_SIZE) {
            if (ngx_chat_blocks_append(blocks, &pieces[from], i - from, len)
                != NGX_OK) {
                return NGX_ERROR;
            }
            from = i;
            len = 0;
        }

        len += pieces[i].payload.len;
    }

    return ngx_chat_blocks_append(blocks, &pieces[from], n - from, len);
}


ngx_uint_t
ngx_chat_head_next(chat_str_t *headers, chat_str_t *name, chat_str_t *value)
{
    size_t  len;
    u_char *p, *end, *colon, *newline;

    p = (u_char *) headers->data;
    end = p + headers->len;

    newline = p ? ngx_strlchr(p, end, '\n') : NULL;
    colon = newline ? ngx_strlchr(p, newline, ':') : NULL;
    if (colon == NULL || newline - colon < 2) {
        return 0;
    }

    len = (size_t) (newline + 1 - p);
    *name = chat_str(p, (size_t) (colon - p));
    *value = chat_str(colon + 2, (size_t) (newline - colon - 2));
    *headers = chat_str(p + len, headers->len - len);
    return 1;
}


ngx_uint_t
ngx_chat_head_is(chat_str_t name, const char *text)
{
    return name.len == ngx_strlen(text)
           && ngx_strncasecmp((u_char *) name.data, (u_char *) text, name.len)
                  == 0;
}


ngx_uint_t
ngx_chat_blocks_is_sse(const ngx_chat_blocks_t *blocks)
{
    chat_str_t headers = blocks->head.headers, name, value;

    while (ngx_chat_head_next(&headers, &name, &value)) {
        if (ngx_chat_head_is(name, "content-type")) {
            return ngx_chat_filter_is_event_stream(value);
        }
    }

    return 0;
}


/* The reader that listens in; without it a stream is followed all the same. */
static void
ngx_chat_blocks_open(ngx_chat_blocks_t *blocks)
{
    chat_stream_conf_t   sc;
    ngx_chat_loc_conf_t *conf = blocks->conf;

    if (!ngx_chat_blocks_is_sse(blocks)) {
        return;
    }

    ngx_memzero(&sc, sizeof(sc));
    sc.dialect = blocks->dialect;
    sc.replay = CHAT_REPLAY_OFF;
    sc.max_event = conf->max_event;
    sc.max_calls = (size_t) conf->max_calls;
    sc.max_result = conf->max_result;
    sc.report = (int) conf->interrupted;
    sc.kind = ngx_chat_kind;
    sc.data = conf;
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


/* Is it the next one? NGX_DONE: and the last. */
static ngx_int_t
ngx_chat_blocks_piece(ngx_chat_blocks_t *blocks, const chat_fact_t *piece)
{
    off_t     position;
    ngx_int_t rc = NGX_OK;

    position = ngx_atoof((u_char *) piece->field.data, piece->field.len);

    if (position < 0 || (uint64_t) position != blocks->position
        || (piece->payload.data == NULL && piece->payload.len != 0))
    {
        return NGX_DECLINED;
    }

    if (blocks->position++ == 0) {
        rc = ngx_chat_blocks_head(blocks, piece->payload);
    } else {
        ngx_chat_blocks_listen(blocks, piece->payload);
    }

    return rc == NGX_OK && chat_str_is(piece->value, "last") ? NGX_DONE : rc;
}


ngx_int_t
ngx_chat_blocks_add(ngx_chat_blocks_t *blocks, const chat_fact_t *pieces,
                    size_t n)
{
    size_t    i, from = blocks->position == 0 ? 1 : 0;
    ngx_int_t rc = NGX_OK;

    for (i = 0; i < n && rc == NGX_OK; i++) {
        rc = ngx_chat_blocks_piece(blocks, &pieces[i]);
    }

    if (rc == NGX_DECLINED || rc == NGX_ERROR) {
        i--; /* what came before it is not lost */
    }

    if (i > from
        && ngx_chat_blocks_gather(blocks, &pieces[from], i - from) != NGX_OK)
    {
        return NGX_ERROR;
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

    if (blocks->head_bytes != NULL) {
        ngx_free(blocks->head_bytes);
    }
}
