/*
 * ngx_chat_response.h: answers, from an upstream or from the module.
 *
 * Upstream answers pass the filters (ngx_chat_filter.h); ngx_chat_reply.c has
 * those that the module makes.
 */

#ifndef NGX_CHAT_RESPONSE_H
#define NGX_CHAT_RESPONSE_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "base/ngx_chat_ctx.h"

/* ngx_chat_upstream.c */

/*
 * Ends an answer because a client has asked for it; patient: not before its
 * client has taken what it was sent. NGX_AGAIN: it has not, the caller tries
 * again. Else the request may be gone.
 */
ngx_int_t ngx_chat_upstream_stop(ngx_chat_ctx_t *ctx, ngx_uint_t patient);

/* 1 if no upstream has had a byte of the request, nor its client an answer. */
ngx_uint_t ngx_chat_upstream_unsent(ngx_chat_ctx_t *ctx);

/* ngx_chat_orphan.c */

/*
 * Lets the upstream of the request outlive its client while others follow;
 * safe at any time.
 */
void ngx_chat_orphan_hook(ngx_chat_ctx_t *ctx);

/* ngx_chat_reply.c */

/* Sends 200 and a comment to a client that waits. */
ngx_int_t ngx_chat_answer_early(ngx_chat_ctx_t *ctx);

/* One more comment. */
ngx_int_t ngx_chat_answer_beat(ngx_chat_ctx_t *ctx);

/*
 * Ends the request with the reply, for this reason; in band where 200 was
 * sent. EMPTY and BOUNCE inject ctx->body.results. INTERRUPTED finds its
 * reason itself.
 */
void ngx_chat_reply(ngx_chat_ctx_t *ctx, chat_reply_e reply,
                    chat_reason_e reason);

/*
 * The answer of another request, which this one waits for, broke off: 502 with
 * the dialect's error, or its interrupted event where 200 was sent.
 */
void ngx_chat_reply_broken(ngx_chat_ctx_t *ctx, const char *reason);

/*
 * The dialect's error for an upstream that answered with this status, or 2xx
 * without an event stream, as one buffer in the pool; NULL: no memory.
 */
ngx_buf_t *ngx_chat_reply_in_band(ngx_chat_ctx_t *ctx, ngx_uint_t status);

/* The CORS headers of the asking response, where the answer has none. */
ngx_int_t ngx_chat_answer_cors(ngx_chat_ctx_t *ctx);

/*
 * The response ends without its end (HTTP/1.1: no last chunk, then FIN;
 * HTTP/2: RST_STREAM), once all that was written has been sent. The caller
 * sends no last buffer, and finalizes the request as after one.
 */
void ngx_chat_answer_truncate(ngx_chat_ctx_t *ctx);

/*
 * Truncates the response behind an error event, where clients of the dialect
 * may ignore that event (dialect->provider). The caller then asks
 * ctx->response.truncated for the kind of its last buffer.
 */
void ngx_chat_answer_break(ngx_chat_ctx_t *ctx);

/*
 * The answer of a content handler: the text whole, which is freed, and what
 * the handler is to return or the request to be finalized with.
 */
ngx_int_t ngx_chat_answer_text(ngx_http_request_t *r, ngx_uint_t status,
                               const char *type, chat_buf_t *text);

/* Sets the Content-Type; type must outlive the request. */
void ngx_chat_answer_type(ngx_http_request_t *r, chat_str_t type);

/* Adds a response header; name and value must outlive the request. */
ngx_int_t ngx_chat_answer_add_header(ngx_http_request_t *r, chat_str_t name,
                                     chat_str_t value);

/*
 * Puts the events that inject ctx->body.results into ctx->response.injected.
 * NGX_ERROR: no memory.
 */
ngx_int_t ngx_chat_answer_inject(ngx_chat_ctx_t *ctx);

/*
 * Adds the answer's headers to lines as chat_recording_header() does, each
 * once; cors: only those that pages of another origin need.
 */
void ngx_chat_answer_lines(ngx_http_request_t *r, ngx_uint_t cors,
                           chat_buf_t *lines);

/* ngx_chat_writer.c */

/* The key of the recording of the request's answer, if there is one. */
void ngx_chat_recording_key(ngx_chat_ctx_t *ctx, chat_key_t *key);

/* Puts the fact that nothing more is written. */
void ngx_chat_recording_over(ngx_chat_worker_t         *worker,
                             const ngx_chat_loc_conf_t *conf,
                             const chat_key_t          *key);

/* The header of an answer, which is 2xx, is known: begins to record it. */
void ngx_chat_writer_begin(ngx_chat_ctx_t *ctx);

/*
 * Once, with the facts of an answer that is 2xx: sets attempt->recording; 1:
 * puts them, because a follower may have asked for the recording.
 */
ngx_uint_t ngx_chat_writer_decide(ngx_chat_ctx_t *ctx,
                                  chat_attempt_t *attempt);

/*
 * No more bytes come. is_complete: those that came say how the answer ended;
 * else the recording is cleared. Safe at any time.
 */
void ngx_chat_writer_end(ngx_chat_ctx_t *ctx, ngx_uint_t is_complete);

/* ngx_chat_filter.c */

/* 1 if a Content-Type is that of an event stream. */
ngx_uint_t ngx_chat_filter_is_event_stream(chat_str_t type);

/* What the directives say of reading a stream; the rest of sc is zeroed. */
void ngx_chat_filter_conf(ngx_chat_loc_conf_t  *conf,
                          const chat_dialect_t *dialect,
                          chat_stream_conf_t   *sc);

ngx_int_t ngx_chat_filter_init(ngx_conf_t *cf);

#endif /* NGX_CHAT_RESPONSE_H */
