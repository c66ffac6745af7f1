/*
 * ngx_chat_follow.h: gives a client the answer of another request.
 *
 * A sibling of the request that made the answer, or a client that comes back
 * for it (endpoint/), gets the status and headers of its recording, and then
 * its stream, rewritten for this client.
 */

#ifndef NGX_CHAT_FOLLOW_H
#define NGX_CHAT_FOLLOW_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "record/ngx_chat_reader.h"
#include "follow/chat_follow.h"

struct ngx_chat_follow_s {
    ngx_chat_follower_t follower;
    /* more is known before the answer begins; NULL: not needed */
    void (*on_reader)(ngx_chat_ctx_t *ctx);
    chat_follow_t     rewriter;
    ngx_uint_t        begun; /* injected events, or a flush, were sent */
    ngx_buf_t         buf;   /* on its way to the client: */
    ngx_chat_chunk_t *chunk; /* a chunk; or NULL */
    chat_buf_t        own;   /* or bytes that no other follower gets */
};

/* Follows the attempt that was seen last. NGX_DECLINED: it cannot. */
ngx_int_t ngx_chat_follow(ngx_chat_ctx_t *ctx);

/*
 * Waits for the head of the recording, to give the answer to the client;
 * reports HEAD or UNRECORDED.
 */
void ngx_chat_follow_look(ngx_chat_ctx_t *ctx);

/* The payloads that the client's transcript lacks are there, or (rc) not:
 * the answer begins. */
void ngx_chat_follow_start(ngx_chat_ctx_t *ctx, ngx_int_t rc);

/* Stops following; safe at any time. */
void ngx_chat_follow_leave(ngx_chat_ctx_t *ctx);

/* The same, and finalizes the request: with an error NGINX may redirect it. */
void ngx_chat_follow_end(ngx_chat_ctx_t *ctx, ngx_int_t rc);

/*
 * Follows the recording behind the last event that the client has (0: none);
 * as ngx_chat_reader_join().
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

#endif /* NGX_CHAT_FOLLOW_H */
