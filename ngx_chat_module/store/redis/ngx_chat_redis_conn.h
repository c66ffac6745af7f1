/*
 * ngx_chat_redis_conn.h: one connection to a Redis server.
 *
 * The connection is NGINX's own: peer, timers, resolver, SSL. hiredis only
 * parses replies. Nothing blocks. Callbacks come from the event loop, never
 * from inside a call of these functions, and none after
 * ngx_chat_redis_conn_close(). The owner decides when to open it again.
 */

#ifndef NGX_CHAT_REDIS_CONN_H
#define NGX_CHAT_REDIS_CONN_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>

#include <sys/time.h>
#include <hiredis/hiredis.h>

#include "base/ngx_chat_ctx.h"
#include "bytes/chat_buf.h"
#include "store/redis/ngx_chat_redis_conf.h"

#define NGX_CHAT_REDIS_PENDING (32 * 1024 * 1024) /* bytes of a queue */

typedef struct ngx_chat_redis_conn_s ngx_chat_redis_conn_t;

/*
 * The owner zeroes it and sets the first group. It may be opened again after
 * closed() or a close.
 */
struct ngx_chat_redis_conn_s {
    const ngx_chat_redis_conf_t *conf;
    const ngx_chat_redis_host_t *host; /* unchanged while it is open */
    void                        *data;
    ngx_msec_t                   ping;    /* interval of PING; 0: never */
    ngx_msec_t                   backoff; /* delay of the next retry */

    /* Opens the connection; called by ngx_chat_redis_conn_retry(). */
    void (*retry)(ngx_chat_redis_conn_t *conn);

    /* The server has replied to the handshake. */
    void (*ready)(ngx_chat_redis_conn_t *conn);

    /*
     * The next reply, which the owner frees (freeReplyObject). It may close
     * the connection. The text of an error is fit for the log.
     */
    void (*reply)(ngx_chat_redis_conn_t *conn, redisReply *reply);

    /*
     * It could not be opened, or has ended. Called once per open; it may open
     * the connection again. why: one line without secrets, until then.
     */
    void (*closed)(ngx_chat_redis_conn_t *conn, const char *why);

    /* The connection's. */
    ngx_peer_connection_t peer;
    ngx_log_t             peer_log; /* writes its last line to why */
    ngx_pool_t           *pool;     /* of one connection, for its SSL */
    redisReader          *reader;
    chat_buf_t            out;
    size_t                sent;       /* bytes of out */
    size_t                unfinished; /* bytes fed since the last reply */
    size_t                elements;   /* of arrays since the last reply */
    ngx_event_t           timer;      /* of a retry, connecting, or PING */
    ngx_event_t           flush;      /* posted: output, or closed() is due */
    ngx_resolver_ctx_t   *resolving;
    ngx_sockaddr_t        sockaddr; /* that the resolver has found */
    ngx_uint_t            tried;    /* counts opens */
    ngx_uint_t            due;      /* replies to the handshake */
    ngx_uint_t            silent;   /* no reply since the last PING */
    ngx_uint_t            is_ready;
    ngx_uint_t            has_failed; /* closed() is due */
    u_char                why[256];
};

/* Starts to connect; conf->timeout bounds it, the handshake included. */
void ngx_chat_redis_conn_open(ngx_chat_redis_conn_t *conn);

/*
 * Closes it. retry() follows after backoff, plus or minus a quarter of it,
 * which is doubled up to max.
 */
void ngx_chat_redis_conn_retry(ngx_chat_redis_conn_t *conn, ngx_msec_t max);

/* Closes it at once, without a callback; safe at any time. */
void ngx_chat_redis_conn_close(ngx_chat_redis_conn_t *conn);

/* Closes it at once; closed() follows from the event loop. */
void ngx_chat_redis_conn_fail(ngx_chat_redis_conn_t *conn, const char *fmt,
                              ...);

/* Sets a timer that does not keep an exiting worker. */
void ngx_chat_redis_timer(ngx_event_t *ev, ngx_msec_t msec);

/* msec, plus or minus a quarter of it. */
ngx_msec_t ngx_chat_redis_jitter(ngx_msec_t msec);

/* The arguments of a command; all zero: none. text is the owner's to free. */
typedef struct {
    chat_buf_t text; /* as they are sent */
    size_t     argc;
} ngx_chat_redis_args_t;

void ngx_chat_redis_arg(ngx_chat_redis_args_t *args, chat_str_t arg);

/* The words of a format of ngx_sprintf(), together at most 1 KB. */
void ngx_chat_redis_words(ngx_chat_redis_args_t *args, const char *fmt,
                          va_list list);

/*
 * Sends one command at the end of this wake-up, all of a wake-up in one write.
 * NGX_ERROR: no memory.
 */
ngx_int_t ngx_chat_redis_conn_send(ngx_chat_redis_conn_t       *conn,
                                   const ngx_chat_redis_args_t *args);

/* The same with ngx_chat_redis_words(). It fails by a missing reply. */
void ngx_chat_redis_conn_command(ngx_chat_redis_conn_t *conn, const char *fmt,
                                 ...);

/* Sends at once what the socket takes. */
void ngx_chat_redis_conn_flush(ngx_chat_redis_conn_t *conn);

/* 1 if reply is an error that begins so. */
ngx_uint_t ngx_chat_redis_is_error(const redisReply *reply,
                                   const char       *prefix);

/* The text of a reply; empty if it is none. */
chat_str_t ngx_chat_redis_text(const redisReply *reply);

/* 1 if the reply is an array of three that begins with this text. */
ngx_uint_t ngx_chat_redis_is_message(const redisReply *reply,
                                     const char       *kind);

#endif /* NGX_CHAT_REDIS_CONN_H */
