/*
 * ngx_chat_chunks.c: see ngx_chat_chunks.h.
 *
 * The first entry of a recording is the head. Every other one has the bytes
 * that the producer's client was sent, behind the count of the events before
 * them. What comes from the store is not trusted: each position, length and
 * count is checked, and the head.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "record/ngx_chat_chunks.h"

#define NGX_CHAT_CHUNK_SIZE (16 * 1024) /* small pieces are gathered up to */


void
ngx_chat_chunk_free(ngx_chat_chunk_t *chunk)
{
    if (chunk != NULL && --chunk->refs == 0) {
        chat_buf_free(&chunk->lost);
        ngx_free(chunk);
    }
}


ngx_uint_t
ngx_chat_chunk_is_whole(const ngx_chat_chunk_t *chunk)
{
    const u_char *end = chunk->data + chunk->len;

    return (chunk->len >= 2
            && (ngx_memcmp(end - 2, "\n\n", 2) == 0
                || ngx_memcmp(end - 2, "\r\r", 2) == 0))
           || (chunk->len >= 4 && ngx_memcmp(end - 4, "\r\n\r\n", 4) == 0);
}


/* Gives up the oldest chunks while there is too much. */
static void
ngx_chat_chunks_drop(ngx_chat_chunks_t *chunks)
{
    ngx_chat_chunk_t *chunk;

    while (chunks->kept > chunks->conf->record_max
           && chunks->first != chunks->last)
    {
        chunk = chunks->first;
        chunks->first = chunk->next;
        chunks->first_number++;
        chunks->kept -= chunk->len;
        ngx_chat_chunk_free(chunk);
    }
}


/* The count that a piece begins with, and *bytes is what is behind it. */
static ngx_int_t
ngx_chat_chunks_count(const chat_fact_t *piece, chat_count_t *count,
                      chat_str_t *bytes)
{
    size_t n = chat_count_read(count, piece->payload);

    *bytes = chat_str(piece->payload.data + n, piece->payload.len - n);
    return n != 0 ? NGX_OK : NGX_DECLINED;
}


/* The last thing that is kept, and what was lost before it. */
static void
ngx_chat_chunks_link(ngx_chat_chunks_t *chunks, ngx_chat_chunk_t *chunk)
{
    chunk->gap = chunks->gap;
    chunk->lost = chunks->lost;
    chunks->gap = 0;
    ngx_memzero(&chunks->lost, sizeof(chunks->lost));

    if (chunks->last != NULL) {
        chunks->last->next = chunk;
    } else {
        chunks->first = chunk;
    }

    chunks->last = chunk;
    chunks->next_number++;
    chunks->kept += chunk->len;
    chunks->length += chunk->len;
    ngx_chat_chunks_drop(chunks);
}


static ngx_int_t
ngx_chat_chunks_append(ngx_chat_chunks_t *chunks, const chat_fact_t *pieces,
                       size_t n, size_t len)
{
    size_t            i;
    u_char           *p;
    chat_str_t        bytes;
    chat_count_t      count;
    ngx_chat_chunk_t *chunk;

    /* an end of no bytes may be all that there is behind a hole */
    if (len == 0 && !chunks->gap) {
        return NGX_OK;
    }

    chunk = ngx_calloc(sizeof(*chunk) + len, ngx_cycle->log);
    if (chunk == NULL) {
        return NGX_ERROR;
    }

    chunk->refs = 1;
    p = chunk->data;

    for (i = 0; i < n; i++) {
        (void) ngx_chat_chunks_count(&pieces[i], i ? &count : &chunk->count,
                                     &bytes);
        p = ngx_cpymem(p, bytes.data, bytes.len);
    }

    chunk->len = (size_t) (p - chunk->data);
    ngx_chat_chunks_link(chunks, chunk);
    return NGX_OK;
}


/* The pieces as chunks of about one size; a longer one stays whole. */
static ngx_int_t
ngx_chat_chunks_gather(ngx_chat_chunks_t *chunks, const chat_fact_t *pieces,
                       size_t n)
{
    size_t       i, from = 0, len = 0;
    chat_str_t   bytes;
    chat_count_t count;

    for (i = 0; i < n; i++) {
        (void) ngx_chat_chunks_count(&pieces[i], &count, &bytes);

        if (len != 0 && len + bytes.len > NGX_CHAT_CHUNK_SIZE) {
            if (ngx_chat_chunks_append(chunks, &pieces[from], i - from, len)
                != NGX_OK) {
                return NGX_ERROR;
            }
            from = i;
            len = 0;
        }

        len += bytes.len;
    }

    return ngx_chat_chunks_append(chunks, &pieces[from], n - from, len);
}


/* The value of a header that the head says; empty: it has none. */
static chat_str_t
ngx_chat_chunks_header(const ngx_chat_chunks_t *chunks, const char *wanted)
{
    chat_str_t headers = chunks->head.headers, name, value;

    while (chat_record_header_next(&headers, &name, &value)) {
        if (ngx_chat_headers_is(name, wanted)) {
            return value;
        }
    }

    return chat_str(NULL, 0);
}


ngx_uint_t
ngx_chat_chunks_is_sse(const ngx_chat_chunks_t *chunks)
{
    return ngx_chat_filter_is_event_stream(
        ngx_chat_chunks_header(chunks, "content-type"));
}


ngx_uint_t
ngx_chat_chunks_is_resumable(const ngx_chat_chunks_t *chunks)
{
    return ngx_chat_chunks_header(chunks, "x-chat-stream").len != 0;
}


/* The dialect's reader of the stream; a stream is followed without it, too. */
static void
ngx_chat_chunks_open(ngx_chat_chunks_t *chunks)
{
    chat_stream_conf_t sc;

    if (!ngx_chat_chunks_is_sse(chunks)) {
        return;
    }

    ngx_chat_filter_conf(chunks->conf, chunks->dialect, &sc);
    sc.replay = CHAT_REPLAY_OFF;
    sc.resumable = (int) ngx_chat_chunks_is_resumable(chunks);
    chunks->stream = chat_stream_create(&sc);
}


static ngx_int_t
ngx_chat_chunks_head(ngx_chat_chunks_t *chunks, chat_str_t bytes)
{
    chunks->head_bytes = ngx_alloc(bytes.len + 1, ngx_cycle->log);
    if (chunks->head_bytes == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(chunks->head_bytes, bytes.data, bytes.len);

    if (chat_record_head_read(chat_str(chunks->head_bytes, bytes.len),
                              &chunks->head)
            != CHAT_OK
        || chunks->head.status >= NGX_HTTP_SPECIAL_RESPONSE)
    {
        return NGX_DECLINED;
    }

    chunks->has_head = 1;
    ngx_chat_chunks_open(chunks);
    return NGX_OK;
}


void
ngx_chat_chunks_know(ngx_chat_chunks_t *chunks, chat_str_t head)
{
    if (chunks->has_head || chunks->position != 0 || head.len == 0
        || ngx_chat_chunks_head(chunks, head) == NGX_OK)
    {
        return;
    }

    /* it is none: the log's own decides */
    if (chunks->head_bytes != NULL) {
        ngx_free(chunks->head_bytes);
        chunks->head_bytes = NULL;
    }
}


static void
ngx_chat_chunks_listen(ngx_chat_chunks_t *chunks, chat_str_t bytes)
{
    size_t                     n;
    const chat_piece_t        *pieces;
    const chat_stream_facts_t *facts;

    if (chunks->stream != NULL) {
        (void) chat_stream_push(chunks->stream, bytes, &pieces, &n);
        (void) chat_stream_facts(chunks->stream, &facts);
    }
}


/*
 * Entries before this one are lost. A follower that has all up to there gets
 * the words for that; one that begins behind the hole needs a reader that
 * knows nothing of what came before.
 */
static void
ngx_chat_chunks_hole(ngx_chat_chunks_t *chunks, uint64_t position)
{
    if (!chunks->gap) {
        chunks->gap = chunks->behind = 1;
        (void) ngx_chat_chunks_break(chunks, "incomplete_record");
        chunks->lost = chunks->words;
        ngx_memzero(&chunks->words, sizeof(chunks->words));

        chat_stream_destroy(chunks->stream);
        chunks->stream = NULL;
        ngx_chat_chunks_open(chunks);

        if (chunks->next_number == 0) {
            /* no follower can begin with the first one */
            chunks->first_number = chunks->next_number = 1;
        }
    }

    chunks->position = position;
}


static off_t
ngx_chat_chunks_position(const chat_fact_t *piece)
{
    return ngx_atoof((u_char *) piece->field.data, piece->field.len);
}


/* It is the next one, or there is a hole. NGX_AGAIN: and it is none. */
static ngx_int_t
ngx_chat_chunks_place(ngx_chat_chunks_t *chunks, const chat_fact_t *piece)
{
    off_t position = ngx_chat_chunks_position(piece);

    if (position < 0 || (uint64_t) position < chunks->position
        || (piece->payload.data == NULL && piece->payload.len != 0))
    {
        return NGX_DECLINED;
    }

    if ((uint64_t) position == chunks->position) {
        return NGX_OK;
    }

    if (!chunks->has_head) {
        return NGX_DECLINED;
    }

    ngx_chat_chunks_hole(chunks, (uint64_t) position);
    return piece->payload.len != 0 ? NGX_OK : NGX_AGAIN;
}


/* Behind a hole the rest of an event is no event. */
static chat_str_t
ngx_chat_chunks_whole(ngx_chat_chunks_t *chunks, chat_count_t count,
                      chat_str_t bytes)
{
    int    ended = 1;
    size_t n = 0;

    if (chat_count_is_inside(&count)) {
        n = chat_count_frame(&count, bytes, &ended);
    }

    chunks->behind = !ended;
    return chat_str(bytes.data + n, bytes.len - n);
}


/* Reads what the next piece says. NGX_DONE: it is the last. */
static ngx_int_t
ngx_chat_chunks_piece(ngx_chat_chunks_t *chunks, const chat_fact_t *piece)
{
    chat_str_t   bytes;
    chat_count_t count;

    if (chunks->position == 0) {
        chunks->position = 1;
        return chunks->has_head ? NGX_OK
                                : ngx_chat_chunks_head(chunks, piece->payload);
    }

    if (ngx_chat_chunks_count(piece, &count, &bytes) != NGX_OK) {
        return NGX_DECLINED;
    }

    chunks->position++;

    if (chunks->behind) {
        bytes = ngx_chat_chunks_whole(chunks, count, bytes);
    }

    ngx_chat_chunks_listen(chunks, bytes);
    return chat_str_is(piece->value, "last") ? NGX_DONE : NGX_OK;
}


/* Takes the pieces up to the next hole, *used of them. */
static ngx_int_t
ngx_chat_chunks_run(ngx_chat_chunks_t *chunks, const chat_fact_t *pieces,
                    size_t n, size_t *used)
{
    size_t    i, from = chunks->position == 0 ? 1 : 0;
    ngx_int_t rc = NGX_OK;

    for (i = 0; i < n && rc == NGX_OK; i++) {
        if (ngx_chat_chunks_position(&pieces[i]) != (off_t) chunks->position) {
            break;
        }

        rc = ngx_chat_chunks_piece(chunks, &pieces[i]);
        if (rc == NGX_DECLINED || rc == NGX_ERROR) {
            break; /* what came before it is not lost */
        }
    }

    *used = i;

    if (i > from
        && ngx_chat_chunks_gather(chunks, &pieces[from], i - from) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return rc;
}


ngx_int_t
ngx_chat_chunks_add(ngx_chat_chunks_t *chunks, const chat_fact_t *pieces,
                    size_t n)
{
    size_t    i, used;
    ngx_int_t rc = NGX_OK;

    for (i = 0; i < n && rc == NGX_OK; i += used) {
        used = 0;
        rc = ngx_chat_chunks_place(chunks, &pieces[i]);

        if (rc == NGX_OK) {
            rc = ngx_chat_chunks_run(chunks, &pieces[i], n - i, &used);

        } else if (rc == NGX_AGAIN) {
            /* it stands for all that are gone, and is the only one */
            return NGX_OK;
        }
    }

    return rc;
}


chat_end_e
ngx_chat_chunks_end(ngx_chat_chunks_t *chunks)
{
    size_t              n;
    chat_end_e          end;
    const chat_piece_t *pieces;

    if (chunks->stream == NULL) {
        return CHAT_END_FINISHED;
    }

    (void) chat_stream_finish(chunks->stream, NULL, 0, &pieces, &n);
    end = chat_stream_info(chunks->stream)->end;
    return end != CHAT_END_NONE ? end : CHAT_END_FINISHED;
}


chat_end_e
ngx_chat_chunks_break(ngx_chat_chunks_t *chunks, const char *reason)
{
    size_t              i, n = 0;
    const chat_piece_t *pieces;

    /* an unfinished event is not among them: its followers have had that */
    if (chunks->stream == NULL
        || chat_stream_finish(chunks->stream, reason, 0, &pieces, &n)
               != CHAT_OK)
    {
        return CHAT_END_INTERRUPTED;
    }

    for (i = 0; i < n; i++) {
        chat_buf_add(&chunks->words, pieces[i].bytes);
    }

    return chat_stream_info(chunks->stream)->end;
}


void
ngx_chat_chunks_free(ngx_chat_chunks_t *chunks)
{
    ngx_chat_chunk_t *chunk, *next;

    for (chunk = chunks->first; chunk != NULL; chunk = next) {
        next = chunk->next;
        ngx_chat_chunk_free(chunk);
    }

    chat_stream_destroy(chunks->stream);
    chat_buf_free(&chunks->words);
    chat_buf_free(&chunks->lost);

    if (chunks->head_bytes != NULL) {
        ngx_free(chunks->head_bytes);
    }
}
