/*
 * ngx_chat_redis_conn.h: between the parts of a connection: how it is made
 * and ends (ngx_chat_redis_conn.c), TLS (ngx_chat_redis_tls.c), what goes
 * over it (ngx_chat_redis_io.c) and the handshake.
 * Nobody else includes it.
 */

#ifndef NGX_CHAT_REDIS_CONN_H
#define NGX_CHAT_REDIS_CONN_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "store/redis/ngx_chat_redis.h"

/* Ends it at once, the reason formatted; closed() follows. */
void ngx_chat_redis_conn_fail(ngx_chat_redis_conn_t *conn, const char *fmt,
                              ...);

/* The same; what NGINX has said last is the reason. */
void ngx_chat_redis_conn_fail_logged(ngx_chat_redis_conn_t *conn);

#if (NGX_SSL)
/* Connected: the TLS handshake, then ngx_chat_redis_io_start(). */
void ngx_chat_redis_tls_start(ngx_chat_redis_conn_t *conn);
#endif

/* The connection stands: says the first words and waits for the answers. */
void ngx_chat_redis_io_start(ngx_chat_redis_conn_t *conn);

/* Puts a command into the output, ready or not. NGX_ERROR: no memory. */
ngx_int_t ngx_chat_redis_io_put(ngx_chat_redis_conn_t *conn, size_t argc,
                                const char **argv, const size_t *len);

/* The first words; NGX_ERROR: no memory. */
ngx_int_t ngx_chat_redis_handshake(ngx_chat_redis_conn_t *conn);

/* The answer to one of them; the last one makes the connection ready. */
void ngx_chat_redis_handshake_reply(ngx_chat_redis_conn_t *conn,
                                    redisReply            *reply);

/* The event handler that sends what is to be sent. */
void ngx_chat_redis_io_write(ngx_event_t *wev);

/* Frees the output before the link end. */
void ngx_chat_redis_io_drop(ngx_chat_redis_conn_t *conn, ngx_chain_t *end);

/* A reader of bounded replies; NULL: no memory. */
redisReader *ngx_chat_redis_io_reader(ngx_chat_redis_conn_t *conn);

#endif /* NGX_CHAT_REDIS_CONN_H */
