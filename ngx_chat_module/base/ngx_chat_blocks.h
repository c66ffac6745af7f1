/*
 * ngx_chat_blocks.h: what a feed has read of a record, as runs of bytes that
 * many followers share.
 *
 * Pieces of a log go in, in order; blocks come out, each with a number. Small
 * pieces that come together become one block. A reader of the dialect listens
 * in, so that the end of the stream can be told, and how it ended is known.
 * Promises: a hole in the log is seen, and marked at the block behind it; each
 * block says with which event it begins; not more than max bytes are kept, the
 * oldest go first; a block lives as long as somebody refers to it.
 * Must not know: the store, who follows.
 */

#ifndef NGX_CHAT_BLOCKS_H
#define NGX_CHAT_BLOCKS_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "base/ngx_chat_module.h"
#include "sse/chat_count.h"
#include "facts/chat_record.h"

typedef struct ngx_chat_block_s ngx_chat_block_t;

struct ngx_chat_block_s {
    ngx_chat_block_t *next; /* set while next is kept */
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
    ngx_chat_block_t     *first;
    ngx_chat_block_t     *last;
    uint64_t              first_number;
    uint64_t              next_number; /* of the block that comes next */
    size_t                kept;        /* bytes */
    uint64_t              length;      /* of all blocks that there were */
    chat_stream_t        *stream; /* NULL: no event stream, or no memory */
    chat_buf_t            words;
    ngx_uint_t            gap;  /* pieces are lost, and none has come since */
    chat_buf_t            lost; /* what is said of it */
    ngx_uint_t            behind; /* and of an event only the end has come */
} ngx_chat_blocks_t;

/* The head, where it is known without the log; it may be given twice. */
void ngx_chat_blocks_know(ngx_chat_blocks_t *blocks, chat_str_t head);

/*
 * The answer of a read(). NGX_OK; NGX_DONE: the last piece was among them;
 * NGX_DECLINED: the head is lost, or these are no bytes of a record;
 * NGX_ERROR: no memory.
 */
ngx_int_t ngx_chat_blocks_add(ngx_chat_blocks_t *blocks,
                              const chat_fact_t *pieces, size_t n);

/* How a stream whose last piece is there has ended. */
chat_end_e ngx_chat_blocks_end(ngx_chat_blocks_t *blocks);

/*
 * The rest will not come. INTERRUPTED: words are the dialect's own for that,
 * or empty if they cannot be told; else what was read had ended that way.
 */
chat_end_e ngx_chat_blocks_break(ngx_chat_blocks_t *blocks,
                                 const char        *reason);

/* 1 if the head says that it is an event stream. */
ngx_uint_t ngx_chat_blocks_is_sse(const ngx_chat_blocks_t *blocks);

/* 1 if the head names a stream, which a client can resume. */
ngx_uint_t ngx_chat_blocks_is_resumable(const ngx_chat_blocks_t *blocks);

void ngx_chat_blocks_free(ngx_chat_blocks_t *blocks);

/* Gives a reference back. NULL is allowed. */
void ngx_chat_block_free(ngx_chat_block_t *block);

/* 1 if an event ends with the block. */
ngx_uint_t ngx_chat_block_is_whole(const ngx_chat_block_t *block);

#endif /* NGX_CHAT_BLOCKS_H */
