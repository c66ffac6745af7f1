/*
 * ngx_chat_writer.h: the producer's side of a recording.
 *
 * The answer of a request that has gone on is written into the store while it
 * is sent, if other clients may follow it. The response filters reach the
 * writer by the hooks that it registers in the context.
 */

#ifndef NGX_CHAT_WRITER_H
#define NGX_CHAT_WRITER_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "base/ngx_chat_module.h"

#include "sse/chat_position.h"
#include "facts/chat_recording.h"

/* An answer on its way into the store. It may outlive its request. */
struct ngx_chat_writer_s {
    ngx_chat_ctx_t       *ctx; /* NULL: the request is over */
    ngx_chat_main_conf_t *main;
    chat_store_t         *store;
    chat_store_op_t       op;
    chat_key_t            key;
    chat_record_mode_e    mode;     /* UNKNOWN: the store is being asked */
    chat_buf_t            head;     /* the piece 0, until it is written */
    chat_buf_t            bytes;    /* not written yet */
    chat_count_t          count;    /* of what was written */
    uint64_t              total;    /* bytes so far */
    uint64_t              position; /* of the next piece */
    uint64_t              keep;     /* pieces before it may be forgotten */
    uint64_t              later;    /* what keep is to be next */
    size_t                since;    /* bytes written since later */
    size_t                written;
    size_t                max;
    uint32_t              ttl;
    ngx_uint_t            over;    /* no more bytes come */
    ngx_uint_t            indexed; /* a client may come back at any time */
    ngx_event_t           timer;   /* of a long silence */
};

/* Where the record of the request's answer is, or would be. */
void ngx_chat_recording_key(ngx_chat_ctx_t *ctx, chat_key_t *key);

/* Nothing more is written: its followers have all that there will be. */
void ngx_chat_recording_over(chat_store_t *store, const chat_key_t *key,
                             uint32_t ttl);

/* The request goes on: its answer may be recorded. */
void ngx_chat_writer_register(ngx_chat_ctx_t *ctx);

/* The answer cannot be recorded any further, or has broken off. */
void ngx_chat_writer_stop(ngx_chat_ctx_t *ctx);

/* The request is over. */
void ngx_chat_writer_close(ngx_chat_ctx_t *ctx);

#endif /* NGX_CHAT_WRITER_H */
