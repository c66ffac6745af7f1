/*
 * ngx_chat_redis.h: what the Redis files share: what chat_store says, and one
 * connection to a server.
 *
 * A connection is NGINX's own: peer, timers, resolver, SSL; hiredis only
 * formats commands and reads replies. Promises: nothing blocks; callbacks
 * come from the event loop, never from inside a call of these functions, and
 * none after ngx_chat_redis_conn_close(). Must not know: facts, keys.
 */

#ifndef NGX_CHAT_REDIS_H
#define NGX_CHAT_REDIS_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>

#include <sys/time.h>
#include <hiredis/hiredis.h>

#define NGX_CHAT_REDIS_ERROR \
    180 /* bytes of what ngx_chat_redis_error() says */
#define NGX_CHAT_REDIS_REASON \
    200 /* bytes of what ngx_chat_redis_error_reason() says */

/* What the hosts of chat_store are. */
typedef enum {
    NGX_CHAT_REDIS_ONE,      /* the server */
    NGX_CHAT_REDIS_SENTINEL, /* sentinels that know where a master is */
    NGX_CHAT_REDIS_CLUSTER   /* some nodes of a cluster */
} ngx_chat_redis_scheme_e;

/* Where a server is. */
typedef struct {
    ngx_str_t   name; /* for logs: host:port or unix:path */
    ngx_str_t   host; /* what a certificate must name; 0 behind it */
    in_port_t   port;
    ngx_addr_t *addrs; /* as of the start; none: ask the resolver */
    ngx_uint_t  naddrs;
} ngx_chat_redis_host_t;

/* One that was named while NGINX runs, with all that it points to. */
typedef struct {
    ngx_chat_redis_host_t host;
    ngx_addr_t            addr;
    ngx_sockaddr_t        sockaddr;
    u_char                text[256];                      /* of host */
    u_char                name[256 + sizeof("[]:65535")]; /* of its name */
} ngx_chat_redis_address_t;

/* What chat_store says; lives as long as the configuration. */
typedef struct {
    ngx_chat_redis_scheme_e scheme;
    ngx_str_t               name; /* for logs: its hosts, and the master */
    ngx_chat_redis_host_t  *hosts;
    ngx_uint_t              nhosts;
    ngx_str_t               master;        /* as sentinels call it */
    ngx_str_t               sentinel_user; /* as user, but of sentinels */
    ngx_str_t               sentinel_password;
    ngx_resolver_t         *resolver;
    ngx_msec_t              resolver_timeout;
    ngx_str_t               user;     /* empty: the default user */
    ngx_str_t               password; /* empty: no AUTH */
    ngx_uint_t              db;
    ngx_msec_t              timeout; /* of a command; of connecting */
    ngx_uint_t              verify;  /* the certificate */
#if (NGX_SSL)
    ngx_ssl_t *ssl; /* NULL: plain */
#endif
} ngx_chat_redis_conf_t;

typedef struct ngx_chat_redis_conn_s ngx_chat_redis_conn_t;

/*
 * The owner zeroes it and sets the first seven; the rest is the connection's.
 * It may be opened again after closed() or a close.
 */
struct ngx_chat_redis_conn_s {
    const ngx_chat_redis_conf_t *conf;
    const ngx_chat_redis_host_t *host; /* stays as it is while it is open */
    ngx_log_t                   *log;
    void                        *data;

    /* The server has answered: to AUTH and SELECT if so set, else to PING. */
    void (*ready)(ngx_chat_redis_conn_t *conn);

    /*
     * The next reply; it is the owner's from here on (freeReplyObject). It may
     * close the connection.
     */
    void (*reply)(ngx_chat_redis_conn_t *conn, redisReply *reply);

    /*
     * It could not be opened, or has ended; once per open, and it may be
     * opened again from here. why: one line without secrets.
     */
    void (*closed)(ngx_chat_redis_conn_t *conn, const char *why);

    ngx_peer_connection_t peer;
    ngx_pool_t           *pool; /* of one connection: its SSL, its output */
    redisReader          *reader;
    ngx_chain_t          *out;
    ngx_chain_t          *last;       /* of out */
    size_t                unsent;     /* bytes in out */
    size_t                unfinished; /* bytes fed since the last reply */
    size_t                elements;   /* of arrays since the last reply */
    ngx_event_t           timer;      /* of connecting; then of nothing */
    ngx_event_t           flush;
    ngx_resolver_ctx_t   *resolving;
    ngx_addr_t            addr;  /* what the resolver has found */
    ngx_uint_t            tried; /* how many of host->addrs, over all opens */
    ngx_uint_t            due;   /* replies to AUTH, SELECT, PING */
    ngx_uint_t            is_ready;
    ngx_str_t             why;
    u_char                text[256]; /* of why */
};

/* Starts to connect; conf->timeout bounds it all, AUTH and SELECT included. */
void ngx_chat_redis_conn_open(ngx_chat_redis_conn_t *conn);

/*
 * Sends one command at the end of this wake-up, all of a wake-up in one write
 * where it can. NGX_ERROR: no memory, or it is not ready.
 */
ngx_int_t ngx_chat_redis_conn_send(ngx_chat_redis_conn_t *conn, size_t argc,
                                   const char **argv, const size_t *len);

/* Sends at once what it can, rather than at the end of this wake-up. */
void ngx_chat_redis_conn_flush(ngx_chat_redis_conn_t *conn);

/* The same for a few words; a failure shows in the missing reply. */
void ngx_chat_redis_conn_command(ngx_chat_redis_conn_t *conn,
                                 const ngx_str_t *words, ngx_uint_t n);

/* Ends it at once, and silently; safe at any time. */
void ngx_chat_redis_conn_close(ngx_chat_redis_conn_t *conn);

/*
 * What an error reply says, fit for the log, into text, and its length: the
 * beginning, without control characters and without the arguments that the
 * server repeats.
 */
size_t ngx_chat_redis_error(const redisReply *reply, u_char *text);

/* Why an error reply ends a connection, as closed() says it, into text. */
const char *ngx_chat_redis_error_reason(const redisReply *reply, u_char *text);

/* Sets a timer that does not keep an exiting worker. */
void ngx_chat_redis_timer(ngx_event_t *ev, ngx_msec_t msec);

/* msec, give or take a quarter of it. */
ngx_msec_t ngx_chat_redis_jitter(ngx_msec_t msec);

/*
 * ngx_chat_redis_conf.c: reads the arguments of chat_store from the second
 * word on (redis://..., unix:... and so on); says what is wrong with them
 * and never prints a password. NULL: it has said so.
 */
ngx_chat_redis_conf_t *ngx_chat_redis_conf_read(ngx_conf_t *cf);

/*
 * When all of http is read: looks the names up, unless http has a resolver
 * that will do it. NGX_ERROR: it has said what is wrong.
 */
ngx_int_t ngx_chat_redis_conf_init(ngx_conf_t            *cf,
                                   ngx_chat_redis_conf_t *conf);

/* 1 if chat_store's address begins as one that is read here. */
ngx_uint_t ngx_chat_redis_is_url(const ngx_str_t *text);

/*
 * ngx_chat_redis_host.c: 1 if the host is an IPv4 or IPv6 address, or could
 * be a name.
 */
ngx_uint_t ngx_chat_redis_is_address(const ngx_str_t *host);
ngx_uint_t ngx_chat_redis_is_name(const ngx_str_t *host);

/* 1 if it is the one that is called so. */
ngx_uint_t ngx_chat_redis_host_is(const ngx_chat_redis_host_t *host,
                                  const ngx_str_t *name, ngx_int_t port);

/* NGX_ERROR: that is no place, which stays what it was. */
ngx_int_t ngx_chat_redis_address_set(ngx_chat_redis_address_t *place,
                                     const ngx_str_t *host, ngx_int_t port);

/* Its host is a name; that is at this address, if it is one. */
void ngx_chat_redis_address_set_ip(ngx_chat_redis_address_t *place,
                                   const ngx_str_t          *address);

#endif /* NGX_CHAT_REDIS_H */
