/*
 * ngx_chat_writer.h: the producer's side of a stream's record.
 *
 * ngx_chat_writer.c writes what the client is sent into the store, while
 * somebody wants it; ngx_chat_keep.c keeps the upstream of a client that has
 * left, while others follow. Both know followers only by the facts of
 * chat_record.h.
 * Must not know: wire formats, how a store stores, who follows.
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

/* A client that leaves while its answer is made. */
struct ngx_chat_keep_s {
    ngx_http_event_handler_pt read;  /* of the request, behind ours */
    ngx_http_event_handler_pt write; /* likewise */
    chat_store_op_t           op;
    chat_store_watch_t        watch;
    ngx_event_t               timer;
    ngx_msec_t                since;     /* when the client left */
    ngx_msec_t                end;       /* in a worker that exits; 0: none */
    unsigned                  left : 1;  /* the client is gone, not we */
    unsigned                  ended : 1; /* nobody follows any more */
    unsigned                  again : 1; /* something changed while asking */
};

/* ngx_chat_writer_conf.c */

char *ngx_chat_conf_record(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

void ngx_chat_writer_merge(ngx_chat_loc_conf_t *prev,
                           ngx_chat_loc_conf_t *conf);

/* 1 if there may be a record of the request's answer. */
ngx_uint_t ngx_chat_recording_possible(ngx_chat_ctx_t *ctx);

/* Where the record of the request's answer is, or would be. */
void ngx_chat_recording_key(ngx_chat_ctx_t *ctx, chat_key_t *key);

/* Nothing more is written: whoever follows has all that there will be. */
void ngx_chat_recording_over(chat_store_t *store, const chat_key_t *key,
                             uint32_t ttl);

/* The answer has this header: asks whether it is to be recorded. */
void ngx_chat_writer_begin(ngx_chat_ctx_t *ctx);

/* What the client is sent: pieces of a stream, or buffers as they are. */
void ngx_chat_writer_pieces(ngx_chat_ctx_t *ctx, const chat_piece_t *pieces,
                            size_t n);
void ngx_chat_writer_chain(ngx_chat_ctx_t *ctx, ngx_chain_t *in);

/* Puts what has come so far into the store. */
void ngx_chat_writer_flush(ngx_chat_ctx_t *ctx);

/* The last bytes have come. told: whoever has them all knows how it ended. */
void ngx_chat_writer_end(ngx_chat_ctx_t *ctx, ngx_uint_t told);

/* The answer cannot be recorded any further, or has broken off. */
void ngx_chat_writer_stop(ngx_chat_ctx_t *ctx);

/* The request is over. */
void ngx_chat_writer_close(ngx_chat_ctx_t *ctx);

/* ngx_chat_keep.c */

/* Stands between the client's leaving and the upstream; safe at any time. */
void ngx_chat_keep_hook(ngx_chat_ctx_t *ctx);

/* The client is gone. 1: the upstream is kept, for now at least. */
ngx_uint_t ngx_chat_keep_lost(ngx_chat_ctx_t *ctx);

/* 1 if the client is gone and the upstream is kept. */
ngx_uint_t ngx_chat_keep_alone(ngx_chat_ctx_t *ctx);

/* There is nothing to be kept: the answer ends as it does without us. */
void ngx_chat_keep_give_up(ngx_chat_ctx_t *ctx);

/* The request is over. */
void ngx_chat_keep_close(ngx_chat_ctx_t *ctx);

#endif /* NGX_CHAT_WRITER_H */
