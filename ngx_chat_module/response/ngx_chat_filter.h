/*
 * ngx_chat_filter.h: what the files share that pass an upstream's answer on.
 *
 * ngx_chat_filter.c has the two filters, ngx_chat_output.c turns the core's
 * pieces into buffers, ngx_chat_upstream.c learns how the upstream ended and
 * bounds its silence, ngx_chat_orphan.c lets it outlive its client,
 * ngx_chat_writer.c records what the client is sent.
 */

#ifndef NGX_CHAT_FILTER_H
#define NGX_CHAT_FILTER_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "follow/chat_follow.h"
#include "response/ngx_chat_response.h"

/* An answer that has passed the header filter. */
struct ngx_chat_filter_s {
    chat_follow_t injector; /* finds the place of the injected events */
    ngx_chain_t  *free;
    ngx_chain_t  *busy;
    ngx_chain_t  *held;  /* output that waits for the end of the body */
    ngx_chain_t  *taken; /* input buffers that copies of their bytes replace */
    const char   *breaks;     /* why the module ends the upstream; or NULL */
    ngx_chat_timer_t stall;   /* the bound of a silence */
    uint32_t         content; /* frames of content so far */

    /* of the upstream, behind ours */
    void (*finalize)(ngx_http_request_t *r, ngx_int_t rc);
    ngx_int_t (*input_init)(void *data);
    ngx_int_t (*input)(void *data, ssize_t bytes);
    void  *input_data;
    size_t burst; /* bytes since it last yielded */

    unsigned keepalive : 1; /* the client's, before the upstream ended */
};

/* ngx_chat_output.c */

/*
 * Gives the input to the core; *out is what may go on now, or NULL. The input
 * is consumed but for the bytes that *out carries.
 */
ngx_int_t ngx_chat_output(ngx_chat_ctx_t *ctx, ngx_chain_t *in,
                          ngx_chain_t **out);

/* What was sent of *out may be used again. */
void ngx_chat_output_sent(ngx_chat_ctx_t *ctx, ngx_chain_t *out);

/* The same for a dry run: the input is read, and goes on as it is. */
void ngx_chat_output_observe(ngx_chat_ctx_t *ctx, ngx_chain_t *in);

/* ngx_chat_upstream.c */

/*
 * Hooks into the upstream, if there is one, before its body is read, and
 * bounds the silence of its stream.
 */
void ngx_chat_upstream_hook(ngx_chat_ctx_t *ctx);

/* The stream may have brought content. */
void ngx_chat_stall_progress(ngx_chat_ctx_t *ctx);

/* The client has taken what waited for it: that wait was no silence. */
void ngx_chat_stall_restart(ngx_chat_ctx_t *ctx);

/* ngx_chat_writer.c */

/* 1 if the answer may be recorded; it is while ctx->writer is set. */
ngx_uint_t ngx_chat_writer_is_possible(ngx_chat_ctx_t *ctx);

/* What the client is sent: all that the stream has made of an input. */
void ngx_chat_writer_add(ngx_chat_ctx_t *ctx, const chat_piece_t *pieces,
                         size_t n);

/* 1 if it is completed without its client, and without a follower. */
ngx_uint_t ngx_chat_writer_outlives(ngx_chat_ctx_t *ctx);

/* ngx_chat_orphan.c */

/* The client has left. 1: the upstream is kept, for now at least. */
ngx_uint_t ngx_chat_orphan_begin(ngx_chat_ctx_t *ctx);

/* 1 if the client has left and the upstream is kept. */
ngx_uint_t ngx_chat_orphan_is(ngx_chat_ctx_t *ctx);

/* The answer is not recorded: it ends with its client. */
void ngx_chat_orphan_cancel(ngx_chat_ctx_t *ctx);

#endif /* NGX_CHAT_FILTER_H */
