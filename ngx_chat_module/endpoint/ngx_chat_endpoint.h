/*
 * ngx_chat_endpoint.h: the content handlers of the module: chat_results,
 * chat_resume and chat_status, and what they share.
 *
 * An ngx_int_t is the return value of a content handler, or the status with
 * which a request is finalized.
 */

#ifndef NGX_CHAT_ENDPOINT_H
#define NGX_CHAT_ENDPOINT_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "request/ngx_chat_request.h"
#include "policy/chat_external.h"

/*
 * Sets the content handler of the location, for the directive of an endpoint.
 * Refuses a second endpoint in one location.
 */
char *ngx_chat_endpoint_set(ngx_conf_t *cf, ngx_command_t *cmd,
                            ngx_chat_loc_conf_t *conf,
                            ngx_http_handler_pt  handler);

/* An argument of the query, still escaped; empty: it has none. */
chat_str_t ngx_chat_endpoint_arg(ngx_http_request_t *r, const char *name);

/*
 * The decoded argument of ?conversation=, in the pool. NGX_DECLINED: there is
 * none; NGX_ERROR: no memory.
 */
ngx_int_t ngx_chat_endpoint_conversation(ngx_http_request_t *r,
                                         chat_str_t         *id);

/* NGX_OK: the method is one of these; else a 405 that lists their names. */
ngx_int_t ngx_chat_endpoint_allow(ngx_http_request_t *r, ngx_uint_t methods,
                                  const char *names);

/* NGX_OK: *tenant is set. A request without a tenant is refused and logged. */
ngx_int_t ngx_chat_endpoint_tenant(ngx_http_request_t        *r,
                                   const ngx_chat_loc_conf_t *conf,
                                   const char *what, chat_digest_t *tenant);

/* Sends the refusal as JSON; with a 503, Retry-After is 1 s. */
ngx_int_t ngx_chat_endpoint_refuse(ngx_http_request_t            *r,
                                   const chat_external_refusal_t *refusal);

/* Sends a 503: the store is unavailable. */
ngx_int_t ngx_chat_endpoint_away(ngx_http_request_t *r);

/* ngx_chat_results.c */

/* The directive chat_results: external results. */
char *ngx_chat_conf_results(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* ngx_chat_resume.c */

/* The directive chat_resume: answers for clients that reconnect. */
char *ngx_chat_conf_resume(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* ngx_chat_status.c */

/* The directive chat_status: counters and state of this node. */
char *ngx_chat_conf_status(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* A worker begins; its store is open. */
void ngx_chat_status_init(ngx_chat_main_conf_t *mcf, ngx_cycle_t *cycle);

#endif /* NGX_CHAT_ENDPOINT_H */
