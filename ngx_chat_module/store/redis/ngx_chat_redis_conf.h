/*
 * ngx_chat_redis_conf.h: between the files that read chat_store: the URL
 * (ngx_chat_redis_address.c), the parameters (ngx_chat_redis_conf.c), TLS
 * (ngx_chat_redis_tls.c). Nobody else includes it.
 */

#ifndef NGX_CHAT_REDIS_CONF_H
#define NGX_CHAT_REDIS_CONF_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/redis/ngx_chat_redis.h"

/* What is being read. */
typedef struct {
    ngx_conf_t            *cf;
    ngx_chat_redis_conf_t *conf;
    ngx_str_t              ca;
    ngx_uint_t             tls;
    ngx_uint_t             has_db;
    ngx_uint_t             seen; /* a bit for each parameter */
} ngx_chat_redis_url_t;

/* Says "invalid <what> in "chat_store", it must be <must>": NGX_ERROR. */
ngx_int_t ngx_chat_redis_invalid(ngx_chat_redis_url_t *url, const char *what,
                                 const char *must);

/* Says "two <what> in "chat_store"": NGX_ERROR. */
ngx_int_t ngx_chat_redis_twice(ngx_chat_redis_url_t *url, const char *what);

/* Splits text at the byte there: what is before it is the answer. */
ngx_str_t ngx_chat_redis_split(ngx_str_t *text, u_char *there);

/* The three store what they read in url->conf. NGX_ERROR: it has been said. */
ngx_int_t ngx_chat_redis_read_server(ngx_chat_redis_url_t *url,
                                     ngx_str_t             text);
ngx_int_t ngx_chat_redis_read_db(ngx_chat_redis_url_t *url, ngx_str_t *value);
#if (NGX_SSL)
ngx_int_t ngx_chat_redis_create_ssl(ngx_chat_redis_url_t *url);
#endif

#endif /* NGX_CHAT_REDIS_CONF_H */
