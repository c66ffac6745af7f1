/*
 * ngx_chat_redis_conn.h: one connection to a Redis server.
 *
 * The connection is NGINX's own: peer, timers, resolver, SSL. hiredis only
 * formats commands and parses replies. Nothing blocks. Callbacks come from
 * the event loop, never from inside a call of these functions, and none after
 * ngx_chat_redis_conn_close(). Whether and when a connection that has ended is
 * opened again is the owner's decision.
 */

#ifndef NGX_CHAT_REDIS_CONN_H
#define NGX_CHAT_REDIS_CONN_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>

#include <sys/time.h>
#include <hiredis/hiredis.h>

#include "store/redis/ngx_chat_redis_conf.h"

#define NGX_CHAT_REDIS_ERROR 200 /* bytes of an error's text, and its 0 */

typedef struct ngx_chat_redis_conn_s ngx_chat_redis_conn_t;

/*
 * The owner zeroes it and sets the first group. It may be opened again after
 * closed() or a close.
 */
struct ngx_chat_redis_conn_s {
    const ngx_chat_redis_conf_t *conf;
    const ngx_chat_redis_host_t *host; /* unchanged while it is open */
    ngx_log_t                   *log;
    void                        *data;
    ngx_msec_t                   ping; /* interval of PING; 0: never */

    /* The server has replied to the handshake. */
    void (*ready)(ngx_chat_redis_conn_t *conn);

    /*
     * The next reply, which the owner frees (freeReplyObject). It may close
     * the connection.
     */
    void (*reply)(ngx_chat_redis_conn_t *conn, redisReply *reply);

    /*
     * It could not be opened, or has ended. Called once per open; it may open
     * the connection again. why: one line without secrets.
     */
    void (*closed)(ngx_chat_redis_conn_t *conn, const char *why);

    /* With each PING. Not NULL: why the connection ends. Optional. */
    const char *(*check)(ngx_chat_redis_conn_t *conn);

    /* The connection's. */
    ngx_peer_connection_t peer;
    ngx_pool_t           *pool; /* of one connection, for its SSL */
    redisReader          *reader;
    u_char               *out; /* bytes from out_pos to out_end are unsent */
    size_t                out_pos;
    size_t                out_end;
    size_t                out_size;
    size_t                unfinished; /* bytes fed since the last reply */
    size_t                elements;   /* of arrays since the last reply */
    ngx_event_t           timer;      /* of connecting, then of PING */
    ngx_event_t           flush;      /* posted: output, or closed() is due */
    ngx_resolver_ctx_t   *resolving;
    ngx_addr_t            addr;   /* that the resolver has found */
    ngx_uint_t            tried;  /* counts opens, to try all addresses */
    ngx_uint_t            due;    /* replies to the handshake */
    ngx_uint_t            silent; /* no reply since the last PING */
    ngx_uint_t            is_ready;
    ngx_str_t             why;
    u_char                text[256]; /* of why */
};

/* Starts to connect; conf->timeout bounds it, the handshake included. */
void ngx_chat_redis_conn_open(ngx_chat_redis_conn_t *conn);

/*
 * Sends one command at the end of this wake-up, all of a wake-up in one write.
 * NGX_ERROR: no memory, or the connection is not ready.
 */
ngx_int_t ngx_chat_redis_conn_send(ngx_chat_redis_conn_t *conn, size_t argc,
                                   const char **argv, const size_t *len);

/* Sends at once what the socket takes. */
void ngx_chat_redis_conn_flush(ngx_chat_redis_conn_t *conn);

/* Sends up to 3 words; a failure shows in the missing reply. */
void ngx_chat_redis_conn_command(ngx_chat_redis_conn_t *conn,
                                 const ngx_str_t *words, ngx_uint_t n);

/* Closes it at once, without a callback; safe at any time. */
void ngx_chat_redis_conn_close(ngx_chat_redis_conn_t *conn);

/* Closes it at once; closed() follows from the event loop. */
void ngx_chat_redis_conn_fail(ngx_chat_redis_conn_t *conn, const char *fmt,
                              ...);

/*
 * Writes an error reply, fit for the log, into text (NGX_CHAT_REDIS_ERROR
 * bytes) and returns its length: without control characters, and without the
 * arguments that the server repeats, which may be secrets.
 */
size_t ngx_chat_redis_error(const redisReply *reply, u_char *text);

/* 1 if reply is an error that begins so. */
ngx_uint_t ngx_chat_redis_is_error(const redisReply *reply,
                                   const char       *prefix);

/* The text of a reply; empty if it is none. */
ngx_str_t ngx_chat_redis_text(const redisReply *reply);

/* Sets a timer that does not keep an exiting worker. */
void ngx_chat_redis_timer(ngx_event_t *ev, ngx_msec_t msec);

/* msec, plus or minus a quarter of it. */
ngx_msec_t ngx_chat_redis_jitter(ngx_msec_t msec);

/* Sets a timer to *backoff, with jitter, and doubles *backoff up to max. */
void ngx_chat_redis_backoff(ngx_event_t *ev, ngx_msec_t *backoff,
                            ngx_msec_t max);

/* Between ngx_chat_redis_conn.c, _io.c and _tls.c. */

/* As ngx_chat_redis_conn_fail(), with the last line that NGINX has logged. */
void ngx_chat_redis_conn_fail_logged(ngx_chat_redis_conn_t *conn);

/* The reply to a command of the handshake; the last one makes it ready. */
void ngx_chat_redis_handshake_reply(ngx_chat_redis_conn_t *conn,
                                    redisReply            *reply);

#if (NGX_SSL)
/* After connecting: the TLS handshake, then conn_established(). */
void ngx_chat_redis_tls_start(ngx_chat_redis_conn_t *conn);
#endif

/* Begins the handshake of Redis. */
void ngx_chat_redis_conn_established(ngx_chat_redis_conn_t *conn);

/* Begins to read and write. */
void ngx_chat_redis_io_start(ngx_chat_redis_conn_t *conn);

/* Adds up to 3 words to the output, ready or not. NGX_ERROR: no memory. */
ngx_int_t ngx_chat_redis_io_put(ngx_chat_redis_conn_t *conn,
                                const ngx_str_t *words, ngx_uint_t n);

/* The event handler that sends the output. */
void ngx_chat_redis_io_write(ngx_event_t *wev);

/* Creates the reader and the output. NGX_ERROR: no memory. */
ngx_int_t ngx_chat_redis_io_create(ngx_chat_redis_conn_t *conn);
void      ngx_chat_redis_io_free(ngx_chat_redis_conn_t *conn);

#endif /* NGX_CHAT_REDIS_CONN_H */
