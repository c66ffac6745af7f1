/*
 * ngx_chat_endpoint.h: what the content handlers of the module share, those of
 * chat_resume, chat_results and chat_status.
 *
 * The tenant of their requests, and the answers that they share. An ngx_int_t
 * is what a content handler returns, or a request is finalized with.
 * Must not know: what any of them is asked for.
 */

#ifndef NGX_CHAT_ENDPOINT_H
#define NGX_CHAT_ENDPOINT_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "base/ngx_chat_module.h"
#include "policy/chat_external.h"

/* The location has this content handler. */
ngx_chat_main_conf_t *ngx_chat_endpoint_set(ngx_conf_t         *cf,
                                            ngx_http_handler_pt handler);

/* An argument of the query, as it was sent; empty: it has none. */
chat_str_t ngx_chat_endpoint_arg(ngx_http_request_t *r, const char *name);

/* NGX_OK: the method is one of these; else its client is told their names. */
ngx_int_t ngx_chat_endpoint_allow(ngx_http_request_t *r, ngx_uint_t methods,
                                  const char *names);

/* NGX_OK: *tenant is set. A request without a tenant is refused and logged. */
ngx_int_t ngx_chat_endpoint_tenant(ngx_http_request_t        *r,
                                   const ngx_chat_loc_conf_t *conf,
                                   const char *what, chat_digest_t *tenant);

/* 204. */
ngx_int_t ngx_chat_endpoint_nothing(ngx_http_request_t *r);

/* The refusal as JSON. */
ngx_int_t ngx_chat_endpoint_refuse(ngx_http_request_t            *r,
                                   const chat_external_refusal_t *refusal);

/* 503: the store cannot be asked. */
ngx_int_t ngx_chat_endpoint_away(ngx_http_request_t *r);

#endif /* NGX_CHAT_ENDPOINT_H */
