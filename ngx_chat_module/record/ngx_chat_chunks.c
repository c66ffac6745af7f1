/*
 * ngx_chat_chunks.c: see ngx_chat_chunks.h.
 *
 * An entry of a recording has the bytes that the producer's client was sent,
 * behind the count of the events before them. What comes from the store is not
 * trusted: each position, length and count is checked, and the head.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "record/ngx_chat_chunks.h"


void
ngx_chat_chunk_free(ngx_chat_chunk_t *chunk)
{
    if (chunk != NULL && --chunk->refs == 0) {
        chat_buf_free(&chunk->lost);
        ngx_free(chunk);
    }
}


ngx_uint_t
ngx_chat_chunks_is_from_start(const ngx_chat_chunks_t *chunks)
{
    return chunks->first == NULL
           || (chunks->first_number == 0 && !chunks->first->is_gap);
}


/* The value of a header in the head; empty: it has none. */
static chat_str_t
find_header(const ngx_chat_chunks_t *chunks, const char *wanted)
{
    chat_str_t headers = chunks->head.headers, name, value;

    while (chat_recording_header_next(&headers, &name, &value)) {
        if (chat_str_is_any_case(name, wanted)) {
            return value;
        }
    }

    return chat_str(NULL, 0);
}


/* Opens the dialect's reader; the stream is followed without it, too. */
static void
open_stream(ngx_chat_chunks_t *chunks)
{
    chat_stream_conf_t sc;

    if (chunks->is_sse) {
        ngx_chat_filter_conf(chunks->conf, chunks->dialect, &sc);
        sc.resumable = chunks->is_resumable;
        chunks->stream = chat_stream_create(&sc);
    }
}


ngx_int_t
ngx_chat_chunks_begin(ngx_chat_chunks_t *chunks, chat_str_t head)
{
    chat_buf_t *copy = &chunks->head_bytes;

    chat_buf_add(copy, head);

    if (copy->failed
        || chat_recording_head_read(chat_buf_str(copy), &chunks->head)
               != CHAT_OK
        || chunks->head.status >= NGX_HTTP_SPECIAL_RESPONSE)
    {
        return NGX_DECLINED;
    }

    chunks->is_sse =
        ngx_chat_filter_is_event_stream(find_header(chunks, "content-type"));
    chunks->is_resumable = find_header(chunks, "x-chat-stream").len != 0;
    open_stream(chunks);
    return NGX_OK;
}


/* The dialect reads the chunk. */
static void
parse_chunk(ngx_chat_chunks_t *chunks, const ngx_chat_chunk_t *chunk)
{
    int                        ended = 1;
    size_t                     n = 0;
    chat_count_t               count = chunk->count;
    const chat_piece_t        *pieces;
    const chat_stream_facts_t *facts;
    chat_str_t                 bytes = chat_str(chunk->data, chunk->len);

    /* behind a hole the rest of an event is no event */
    if (chunks->partial && chat_count_is_inside(&count)) {
        n = chat_count_frame(&count, bytes, &ended);
    }

    chunks->partial = chunks->partial && !ended;
    bytes = chat_str(bytes.data + n, bytes.len - n);

    if (chunks->stream != NULL) {
        (void) chat_stream_push(chunks->stream, bytes, &pieces, &n);
        (void) chat_stream_facts(chunks->stream, &facts);
    }
}


/* Adds a chunk of len bytes, which the caller fills; NULL: no memory. */
static ngx_chat_chunk_t *
add_chunk(ngx_chat_chunks_t *chunks, size_t len)
{
    ngx_chat_chunk_t *chunk, *old;

    chunk = ngx_calloc(sizeof(*chunk) + len, ngx_cycle->log);
    if (chunk == NULL) {
        return NULL;
    }

    chunk->refs = 1;
    chunk->len = len;

    *(chunks->last ? &chunks->last->next : &chunks->first) = chunk;
    chunks->last = chunk;
    chunks->kept += len;

    while (chunks->kept > chunks->conf->record_max && chunks->first != chunk) {
        old = chunks->first;
        chunks->first = old->next;
        chunks->first_number++;
        chunks->kept -= old->len;
        ngx_chat_chunk_free(old);
    }

    return chunk;
}


static off_t
position_of(const chat_fact_t *entry)
{
    return ngx_atoof((u_char *) entry->field.data, entry->field.len);
}


/* Adds the entries from *at on, up to the next hole, as one chunk. */
static ngx_int_t
add_run(ngx_chat_chunks_t *chunks, const chat_fact_t *entries, size_t n,
        size_t *at)
{
    size_t            i, skip, len = 0, first = *at;
    u_char           *p;
    ngx_int_t         rc = NGX_OK;
    chat_str_t        bytes;
    chat_count_t      count;
    ngx_chat_chunk_t *chunk;

    for (i = first; i < n && rc == NGX_OK; i++) {
        if (position_of(&entries[i]) != (off_t) chunks->position) {
            break;
        }

        bytes = entries[i].payload;
        skip = bytes.data ? chat_count_read(&count, bytes) : 0;

        if (skip == 0) {
            rc = NGX_DECLINED; /* what came before it is not lost */
            break;
        }

        len += bytes.len - skip;
        chunks->position++;
        rc = chat_str_is(entries[i].value, "last") ? NGX_DONE : NGX_OK;
    }

    *at = i;

    /* an empty entry may be all that there is behind a gap */
    if (i == first
        || (len == 0 && (chunks->last == NULL || !chunks->last->is_gap)))
    {
        return rc;
    }

    chunk = add_chunk(chunks, len);
    if (chunk == NULL) {
        return NGX_ERROR;
    }

    p = chunk->data;

    for (i = first; i < *at; i++) {
        bytes = entries[i].payload;
        skip = chat_count_read(i == first ? &chunk->count : &count, bytes);
        p = ngx_cpymem(p, bytes.data + skip, bytes.len - skip);
    }

    parse_chunk(chunks, chunk);
    return rc;
}


/*
 * Entries before this position are lost: adds a gap. A follower that has all
 * up to there gets the words for that; one that begins behind it needs a
 * reader that knows nothing of what came before. NGX_ERROR: no memory.
 */
static ngx_int_t
add_gap(ngx_chat_chunks_t *chunks, uint64_t position)
{
    ngx_chat_chunk_t *gap;

    chunks->position = position;

    if (chunks->last != NULL && chunks->last->is_gap) {
        return NGX_OK;
    }

    gap = add_chunk(chunks, 0);
    if (gap == NULL) {
        return NGX_ERROR;
    }

    (void) ngx_chat_chunks_end(chunks, "incomplete_record");
    gap->is_gap = 1;
    gap->lost = chunks->words;
    ngx_memzero(&chunks->words, sizeof(chunks->words));

    chunks->partial = 1;
    chat_stream_destroy(chunks->stream);
    chunks->stream = NULL;
    open_stream(chunks);
    return NGX_OK;
}


ngx_int_t
ngx_chat_chunks_add(ngx_chat_chunks_t *chunks, const chat_fact_t *entries,
                    size_t n)
{
    off_t     position;
    size_t    i = 0;
    ngx_int_t rc = NGX_OK;

    while (i < n && rc == NGX_OK) {
        position = position_of(&entries[i]);

        if (position < (off_t) chunks->position) {
            return NGX_DECLINED;
        }

        if (position != (off_t) chunks->position) {
            rc = add_gap(chunks, (uint64_t) position);

            if (rc != NGX_OK || entries[i].payload.len == 0) {
                return rc; /* an empty one stands for all that are gone */
            }
        }

        rc = add_run(chunks, entries, n, &i);
    }

    return rc;
}


chat_end_e
ngx_chat_chunks_end(ngx_chat_chunks_t *chunks, const char *reason)
{
    size_t              i, n = 0;
    chat_end_e          end;
    const chat_piece_t *pieces;

    /* an unfinished event is not among them: its followers have had that */
    if (chunks->stream == NULL
        || chat_stream_finish(chunks->stream, reason, 0, &pieces, &n)
               != CHAT_OK)
    {
        return reason ? CHAT_END_INTERRUPTED : CHAT_END_FINISHED;
    }

    for (i = 0; i < n && reason != NULL; i++) {
        chat_buf_add(&chunks->words, pieces[i].bytes);
    }

    end = chat_stream_info(chunks->stream)->end;
    return end == CHAT_END_NONE && reason == NULL ? CHAT_END_FINISHED : end;
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
    chat_buf_free(&chunks->head_bytes);
}


/* 1 if a follower that has the events up to after can begin with the chunk. */
static ngx_uint_t
can_begin(const ngx_chat_chunk_t *chunk, uint64_t after)
{
    return chunk->count.events < after
           || (chunk->count.events == after
               && !chat_count_is_inside(&chunk->count));
}


void
ngx_chat_cursor_pass(ngx_chat_cursor_t *cursor, ngx_chat_chunk_t *chunk)
{
    ngx_chat_chunk_free(cursor->at);

    /* one reference, to find the next */
    cursor->at = chunk;
    chunk->refs++;
    cursor->next++;
    cursor->from = 0;
}


/*
 * Looks for the end of the last event that the client has: in the chunk, or
 * passes it. NGX_DECLINED: something before that is lost.
 */
static ngx_int_t
seek(ngx_chat_cursor_t *cursor, ngx_chat_chunk_t *chunk)
{
    chat_count_t count = chunk->count;

    if (!chunk->is_gap && !can_begin(chunk, cursor->after)) {
        return NGX_DECLINED;
    }

    /* what comes before its first event is a part of the answer, too */
    if (!chunk->is_gap
        && (count.events == cursor->after || chunk->next == NULL
            || chunk->next->is_gap || !can_begin(chunk->next, cursor->after)))
    {
        cursor->from = chat_count_to(&count, chat_str(chunk->data, chunk->len),
                                     cursor->after);

        if (count.events == cursor->after && !chat_count_is_inside(&count)) {
            cursor->placed = 1;
            return NGX_OK;
        }
    }

    ngx_chat_cursor_pass(cursor, chunk);
    return NGX_OK;
}


ngx_int_t
ngx_chat_cursor_next(ngx_chat_cursor_t       *cursor,
                     const ngx_chat_chunks_t *chunks, ngx_chat_chunk_t **chunk)
{
    ngx_chat_chunk_t *at, *next;

    if (cursor->at == NULL && !cursor->placed) {
        cursor->next = chunks->first_number;
    }

    cursor->lost = chat_str(NULL, 0);

    if (cursor->next < chunks->first_number) {
        return NGX_DECLINED;
    }

    for (;;) {
        at = cursor->at;
        next = at ? at->next : chunks->first;

        if (next == NULL) {
            return NGX_AGAIN;
        }

        if (cursor->placed && next->is_gap) {
            cursor->lost = chat_buf_str(&next->lost);
            return NGX_DECLINED;
        }

        if (!cursor->placed && seek(cursor, next) != NGX_OK) {
            cursor->lost = at ? chat_buf_str(&at->lost) : cursor->lost;
            return NGX_DECLINED;
        }

        if (cursor->placed && cursor->from != next->len) {
            *chunk = next;
            return NGX_OK;
        }

        if (cursor->placed) {
            ngx_chat_cursor_pass(cursor, next);
        }
    }
}
