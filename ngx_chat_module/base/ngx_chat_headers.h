/*
 * ngx_chat_headers.h: headers of requests and answers, and what those of a
 * request say.
 *
 * nginx keeps them in lists of several parts; here is the one walk over such a
 * list. Must not know: what follows from a header.
 */

#ifndef NGX_CHAT_HEADERS_H
#define NGX_CHAT_HEADERS_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "bytes/chat_str.h"

/* What the headers of a request say. */
typedef struct {
    ngx_uint_t json;          /* the content type is JSON */
    ngx_uint_t encoded;       /* Content-Encoding */
    ngx_uint_t digested;      /* a header vouches for the very bytes */
    ngx_uint_t retry;         /* tries of its client library before this one */
    u_char     retry_key[16]; /* of Idempotency-Key; zero: none */
    chat_str_t origin;        /* of the page that sends it; data NULL: none */
} ngx_chat_headers_t;

/* A walk over the headers of a list, which begins with its first part. */
typedef struct {
    ngx_list_part_t *part;
    ngx_uint_t       i;
} ngx_chat_headers_walk_t;

/* The next header, of an answer those that were removed, too; or NULL. */
ngx_table_elt_t *ngx_chat_headers_next(ngx_chat_headers_walk_t *walk);

/* 1 if the header has this name. */
ngx_uint_t ngx_chat_headers_named(const ngx_table_elt_t *h, const char *name);
ngx_uint_t ngx_chat_headers_is(chat_str_t name, const char *text);

/* The first with this name that has not been taken away, or NULL. */
ngx_table_elt_t *ngx_chat_headers_find(ngx_list_t *headers, const char *name);

/*
 * 1 if the header of an answer has neither been taken away nor stands before
 * it already: what was sent early stands among those of the upstream, too.
 */
ngx_uint_t ngx_chat_headers_counts(ngx_list_t            *headers,
                                   const ngx_table_elt_t *h);

/* Looks at all request headers once; blank: empties those that the module
 * sets. */
void ngx_chat_headers_scan(ngx_http_request_t *r, ngx_chat_headers_t *out,
                           ngx_uint_t blank);

/* The answer's Retry-After in seconds, at most CHAT_AFTER_MAX; 0: none. */
uint32_t ngx_chat_headers_after(ngx_http_request_t *r);

#endif /* NGX_CHAT_HEADERS_H */
