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
#include "follow/chat_follow.h"

#define NGX_CHAT_FOLLOW_CHUNKS 8 /* given to the client at a time */

/* A chunk on its way to the client. */
typedef struct {
    ngx_buf_t         buf;
    ngx_chat_chunk_t *chunk;
    chat_buf_t        rewritten; /* what is sent in place of its bytes */
} ngx_chat_sending_t;

struct ngx_chat_follow_s {
    ngx_chat_follower_t follower;
    void (*look)(ngx_chat_ctx_t *ctx); /* more is known, nothing is sent yet;
                                          NULL: it only waits */
    void (*otherwise)(ngx_chat_ctx_t *ctx); /* where there is no record */
    ngx_uint_t         late;
    ngx_uint_t         gathering; /* what goes before the stream */
    chat_str_t         message;   /* the request's own last message */
    chat_follow_t      rewriter;
    ngx_chat_sending_t sending[NGX_CHAT_FOLLOW_CHUNKS];
    ngx_uint_t         nsending;
    ngx_buf_t          injected; /* goes before all others */
    ngx_buf_t          end; /* goes behind all others, or flushes the header */
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
 * Begins the response with the status and headers of the recording's head.
 * Its stream is rewritten: message is the id that the client has for the
 * message that it continues, or empty; results are those that calls of the
 * stream have by now. Both must live as long as the request, which may end.
 */
void ngx_chat_follow_answer(ngx_chat_ctx_t *ctx, chat_str_t message,
                            const chat_result_t *results, size_t n);

/* ngx_chat_follow_send.c */

/* The header is sent; sends what is there, and goes on by itself. */
void ngx_chat_follow_begin(ngx_chat_ctx_t *ctx);

/* There is more in the reader, or its end. */
void ngx_chat_follow_send(ngx_chat_ctx_t *ctx);

#endif /* NGX_CHAT_FOLLOW_H */
