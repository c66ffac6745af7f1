/*
 * ngx_chat_chunks.h: what was read of a recording, as runs of bytes that its
 * followers share.
 *
 * Entries go in, in order; numbered chunks come out. Small entries that come
 * together become one chunk. The dialect reads the stream as well, so that it
 * is known how it ended and what its clients are sent where it breaks off.
 * Promises: a hole in the recording is marked at the chunk behind it; each
 * chunk says with which event it begins; at most record_max bytes are kept,
 * the oldest go first; a chunk lives as long as it is referred to.
 */

#ifndef NGX_CHAT_CHUNKS_H
#define NGX_CHAT_CHUNKS_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "base/ngx_chat_module.h"
#include "sse/chat_position.h"
#include "facts/chat_recording.h"

typedef struct ngx_chat_chunk_s ngx_chat_chunk_t;

struct ngx_chat_chunk_s {
    ngx_chat_chunk_t *next; /* set while next is kept */
    ngx_uint_t        refs;
    chat_count_t      count; /* of what came before it */
    ngx_uint_t        gap;   /* what came right before it is lost, */
    chat_buf_t        lost;  /* and this is said of it; empty: cannot be */
    size_t            len;
    u_char            data[];
};

typedef struct {
    ngx_chat_loc_conf_t  *conf;
    const chat_dialect_t *dialect;
    uint64_t              position; /* of the piece that comes next */
    ngx_uint_t            has_head;
    u_char               *head_bytes;
    chat_record_head_t    head;
    ngx_chat_chunk_t     *first;
    ngx_chat_chunk_t     *last;
    uint64_t              first_number;
    uint64_t              next_number; /* of the chunk that comes next */
    size_t                kept;        /* bytes */
    uint64_t              length;      /* of all chunks that there were */
    chat_stream_t        *stream; /* NULL: no event stream, or no memory */
    chat_buf_t            words;
    ngx_uint_t            gap;  /* pieces are lost, and none has come since */
    chat_buf_t            lost; /* what is said of it */
    ngx_uint_t            behind; /* and of an event only the end has come */
} ngx_chat_chunks_t;

/* The head, where it is known without the log; it may be given twice. */
void ngx_chat_chunks_know(ngx_chat_chunks_t *chunks, chat_str_t head);

/*
 * The answer of a read(). NGX_OK; NGX_DONE: the last piece was among them;
 * NGX_DECLINED: the head is lost, or these are no bytes of a record;
 * NGX_ERROR: no memory.
 */
ngx_int_t ngx_chat_chunks_add(ngx_chat_chunks_t *chunks,
                              const chat_fact_t *pieces, size_t n);

/* How a stream whose last piece is there has ended. */
chat_end_e ngx_chat_chunks_end(ngx_chat_chunks_t *chunks);

/*
 * The rest will not come. INTERRUPTED: words are the dialect's own for that,
 * or empty if they cannot be told; else what was read had ended that way.
 */
chat_end_e ngx_chat_chunks_break(ngx_chat_chunks_t *chunks,
                                 const char        *reason);

/* 1 if the head says that it is an event stream. */
ngx_uint_t ngx_chat_chunks_is_sse(const ngx_chat_chunks_t *chunks);

/* 1 if the head names a stream, which a client can resume. */
ngx_uint_t ngx_chat_chunks_is_resumable(const ngx_chat_chunks_t *chunks);

void ngx_chat_chunks_free(ngx_chat_chunks_t *chunks);

/* Gives a reference back. NULL is allowed. */
void ngx_chat_chunk_free(ngx_chat_chunk_t *chunk);

/* 1 if an event ends with the chunk. */
ngx_uint_t ngx_chat_chunk_is_whole(const ngx_chat_chunk_t *chunk);

#endif /* NGX_CHAT_CHUNKS_H */
