/*
 * ngx_chat_filter.h: what the files of the filter share.
 *
 * ngx_chat_filter.c has the two filters, ngx_chat_output.c turns the core's
 * pieces into buffers, ngx_chat_upstream.c learns how the upstream ended.
 */

#ifndef NGX_CHAT_FILTER_H
#define NGX_CHAT_FILTER_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "base/ngx_chat_module.h"

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

/* Hooks into the upstream, if there is one, before its body is read. */
void ngx_chat_upstream_hook(ngx_chat_ctx_t *ctx);
#endif /* NGX_CHAT_FILTER_H */
