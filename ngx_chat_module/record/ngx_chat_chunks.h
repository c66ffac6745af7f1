/*
 * ngx_chat_chunks.h: what was read of a recording, as runs of bytes that its
 * followers share.
 *
 * The head goes in, then entries, in order; chunks come out, one for each run
 * of entries that was read at once. The dialect reads the stream as well, so
 * that it is known how it ended and what clients are sent where it breaks off.
 * A cursor is the place of one follower.
 * Promises: a gap in the recording is a chunk of its own; every other one says
 * with which event it begins; the oldest chunks go first where more than
 * record_max bytes are kept; a chunk lives as long as it is referred to.
 */

#ifndef NGX_CHAT_CHUNKS_H
#define NGX_CHAT_CHUNKS_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "response/ngx_chat_response.h"
#include "sse/chat_position.h"
#include "facts/chat_recording.h"

typedef struct ngx_chat_chunk_s ngx_chat_chunk_t;

struct ngx_chat_chunk_s {
    ngx_chat_chunk_t *next; /* set while next is kept */
    ngx_uint_t        refs;
    chat_count_t      count;  /* of the events before it */
    ngx_uint_t        is_gap; /* entries are lost, and it has no bytes */
    chat_buf_t        lost;   /* what clients get at the gap; or empty */
    size_t            len;
    u_char            data[];
};

typedef struct {
    ngx_chat_loc_conf_t  *conf;
    const chat_dialect_t *dialect;
    uint64_t              position; /* of the next entry */
    chat_buf_t            head_bytes;
    chat_recording_head_t head;             /* in them; it says: */
    unsigned              is_sse : 1;       /* it is an event stream */
    unsigned              is_resumable : 1; /* clients know its name */
    ngx_chat_chunk_t     *first;
    ngx_chat_chunk_t     *last;
    uint64_t              first_number; /* chunks before the first, so far */
    size_t                kept;         /* bytes */
    chat_stream_t        *stream;  /* NULL: no event stream, or no memory */
    chat_buf_t            words;   /* the end of a stream that breaks off */
    ngx_uint_t            partial; /* the next event lacks its beginning */
} ngx_chat_chunks_t;

/* Zeroed, with after set, it is before the first chunk. */
typedef struct {
    uint64_t          after; /* the last event that its client has; 0: none */
    ngx_chat_chunk_t *at;    /* the last chunk that was taken */
    uint64_t          next;  /* number of the next one */
    size_t            from;  /* first byte in the next one */
    chat_str_t lost; /* NGX_DECLINED: what its client gets; or empty: chunks
                        were given up */
    unsigned   placed : 1; /* it has found the end of that event */
} ngx_chat_cursor_t;

/* Takes the head. NGX_DECLINED: it is none, or no memory. */
ngx_int_t ngx_chat_chunks_begin(ngx_chat_chunks_t *chunks, chat_str_t head);

/*
 * Takes the entries that a read() returned. NGX_OK; NGX_DONE: the last one was
 * among them; NGX_DECLINED: these are no entries; NGX_ERROR: no memory.
 */
ngx_int_t ngx_chat_chunks_add(ngx_chat_chunks_t *chunks,
                              const chat_fact_t *entries, size_t n);

/*
 * No more entries come: how has the stream ended? reason NULL: it has its last
 * entry; else INTERRUPTED also sets words, to the dialect's own or none.
 */
chat_end_e ngx_chat_chunks_end(ngx_chat_chunks_t *chunks, const char *reason);

/* 1 if no chunk before the first one is missing. */
ngx_uint_t ngx_chat_chunks_is_from_start(const ngx_chat_chunks_t *chunks);

void ngx_chat_chunks_free(ngx_chat_chunks_t *chunks);

/* Gives a reference back. NULL is allowed. */
void ngx_chat_chunk_free(ngx_chat_chunk_t *chunk);

/*
 * Moves the cursor to its next byte: *chunk has it, at cursor->from.
 * NGX_AGAIN: it is not there yet; NGX_DECLINED: it is lost, or was given up.
 */
ngx_int_t ngx_chat_cursor_next(ngx_chat_cursor_t       *cursor,
                               const ngx_chat_chunks_t *chunks,
                               ngx_chat_chunk_t       **chunk);

/* The chunk has been taken. */
void ngx_chat_cursor_pass(ngx_chat_cursor_t *cursor, ngx_chat_chunk_t *chunk);

#endif /* NGX_CHAT_CHUNKS_H */
