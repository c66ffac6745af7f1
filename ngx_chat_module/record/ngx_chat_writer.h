/*
 * ngx_chat_writer.h: the producer's side of a recording.
 *
 * The answer of a request that has gone on is written into the store while it
 * is sent, if other clients may follow it. The filters of response/ reach the
 * writer by the hooks that it registers in the context.
 */

#ifndef NGX_CHAT_WRITER_H
#define NGX_CHAT_WRITER_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "response/ngx_chat_response.h"

/* The key of the recording of the request's answer, if there is one. */
void ngx_chat_recording_key(ngx_chat_ctx_t *ctx, chat_key_t *key);

/* Puts the fact that nothing more is written under the key. */
void ngx_chat_recording_over(chat_store_t *store, const chat_key_t *key,
                             uint32_t ttl);

/* The request goes on: its answer may be recorded. */
void ngx_chat_writer_register(ngx_chat_ctx_t *ctx);

/* Clears the recording: the store has lost a part of it. */
void ngx_chat_writer_stop(ngx_chat_ctx_t *ctx);

#endif /* NGX_CHAT_WRITER_H */
