/*
 * ngx_chat_follow.h: what the two files share that give a client another
 * request's answer.
 *
 * ngx_chat_follow.c decides whether there is one to give, and begins it with
 * the producer's status and headers; ngx_chat_follow_send.c sends what comes.
 * Must not know: the store, verdicts.
 */

#ifndef NGX_CHAT_FOLLOW_H
#define NGX_CHAT_FOLLOW_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "record/ngx_chat_reader.h"
#include "follow/chat_rename.h"
#include "follow/chat_settle.h"

#define NGX_CHAT_FOLLOW_CHUNKS 8 /* given to the client at a time */

/* A chunk on its way to the client. */
typedef struct {
    ngx_buf_t         buf;
    ngx_chat_chunk_t *chunk; /* NULL: bytes of the request's own */
    chat_buf_t        own;   /* what is sent in place of its bytes */
} ngx_chat_shown_t;

struct ngx_chat_follow_s {
    ngx_chat_follower_t follower;
    void (*look)(ngx_chat_ctx_t *ctx); /* more is known, nothing is sent yet;
                                          NULL: it only waits */
    void (*otherwise)(ngx_chat_ctx_t *ctx); /* where there is no record */
    ngx_uint_t       late;
    ngx_uint_t       gathering; /* what goes before the stream */
    chat_str_t       message;   /* the request's own last message */
    chat_rename_t    rename;
    chat_settle_t    settle; /* of calls that have their results */
    ngx_chat_shown_t shown[NGX_CHAT_FOLLOW_CHUNKS];
    ngx_uint_t       nshown;
    chat_tell_t      tell; /* where the told goes, if not first */
    ngx_buf_t        told; /* goes before all others */
    ngx_buf_t        end;  /* goes behind all others, or flushes the header */
};

/* ngx_chat_follow.c */

/*
 * Follows the stream, behind the last event that its client has (0: none); as
 * ngx_chat_reader_join().
 */
ngx_int_t ngx_chat_follow_stream(ngx_chat_ctx_t          *ctx,
                                 const ngx_chat_source_t *source,
                                 uint64_t                 after);

/*
 * The answer begins, with the header that the head of the record says, and
 * what is to be renamed in it and told is known. It may end the request.
 */
void ngx_chat_follow_answer(ngx_chat_ctx_t *ctx);

/* ngx_chat_follow_send.c */

/* The header is sent; sends what is there, and goes on by itself. */
void ngx_chat_follow_begin(ngx_chat_ctx_t *ctx);

/* There is more in the reader, or its end. */
void ngx_chat_follow_send(ngx_chat_ctx_t *ctx);

#endif /* NGX_CHAT_FOLLOW_H */
