/*
 * ngx_chat_headers.h: headers of requests and answers.
 *
 * One pass over a request's headers reads everything that the module needs
 * later, and empties those that only the module may set.
 */

#ifndef NGX_CHAT_HEADERS_H
#define NGX_CHAT_HEADERS_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "bytes/chat_str.h"

/*
 * A request that goes upstream with a claim has the claim's name in this
 * header. Where it passes another location, it is recognised by that.
 */
#define NGX_CHAT_HEADERS_ATTEMPT "x-chat-attempt"

/* What the headers of a request say. */
typedef struct {
    ngx_uint_t       json;     /* the content type is JSON */
    ngx_uint_t       encoded;  /* Content-Encoding */
    ngx_uint_t       digested; /* a header signs or digests the body */
    ngx_uint_t       retry; /* tries of its client library before this one */
    u_char           retry_key[16]; /* of Idempotency-Key; zero: none */
    chat_str_t       origin;  /* of the page that sends it; data NULL: none */
    chat_str_t       relayed; /* NGX_CHAT_HEADERS_ATTEMPT, as it came */
    ngx_table_elt_t *attempt; /* that header; or NULL */
} ngx_chat_headers_t;

/* A walk over the headers of a list, which begins with its first part. */
typedef struct {
    ngx_list_part_t *part;
    ngx_uint_t       i;
} ngx_chat_headers_walk_t;

/* The next header, of an answer those that were removed, too; or NULL. */
ngx_table_elt_t *ngx_chat_headers_next(ngx_chat_headers_walk_t *walk);

/* The first present header with this name, or NULL. */
ngx_table_elt_t *ngx_chat_headers_find(ngx_list_t *headers, const char *name);

/*
 * 1 if this header of an answer is present and no equal one precedes it: after
 * an early 200 the list contains the early headers and those of the upstream.
 */
ngx_uint_t ngx_chat_headers_counts(ngx_list_t            *headers,
                                   const ngx_table_elt_t *h);

/* Reads all request headers; blank: empties those that the module sets. */
void ngx_chat_headers_scan(ngx_http_request_t *r, ngx_chat_headers_t *out,
                           ngx_uint_t blank);

/*
 * Sets NGX_CHAT_HEADERS_ATTEMPT, which the request has as h, or (NULL) not
 * yet. The value must live as long as the request. Without memory it has none.
 */
void ngx_chat_headers_name_attempt(ngx_http_request_t *r, ngx_table_elt_t *h,
                                   ngx_str_t value);

/* The answer's Retry-After in seconds, at most CHAT_AFTER_MAX; 0: none. */
uint32_t ngx_chat_headers_after(ngx_http_request_t *r);

#endif /* NGX_CHAT_HEADERS_H */
