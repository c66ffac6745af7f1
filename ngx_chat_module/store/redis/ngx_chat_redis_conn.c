/*
 * ngx_chat_redis_conn.c: see ngx_chat_redis_conn.h.
 *
 * Opens and closes a connection: name, socket, TLS, handshake. Any failure
 * is one closed() with one line of text. What NGINX or OpenSSL log of the
 * connection becomes that line and goes into no log.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "store/redis/ngx_chat_redis_conn.h"

/* The log of one connection: it keeps the last line for closed(). */
typedef struct {
    ngx_log_t log; /* first: the log is this */
    size_t    len;
    u_char    text[200];
} ngx_chat_redis_heard_t;

static void on_resolved(ngx_resolver_ctx_t *ctx);
static void connect_to(ngx_chat_redis_conn_t *conn, ngx_addr_t *addr);
static void on_connected(ngx_event_t *ev);


ngx_msec_t
ngx_chat_redis_jitter(ngx_msec_t msec)
{
    return ngx_max(1, msec - msec / 4
                          + (ngx_msec_t) ngx_random() % (msec / 2 + 1));
}


void
ngx_chat_redis_timer(ngx_event_t *ev, ngx_msec_t msec)
{
    ev->cancelable = 1;
    ngx_add_timer(ev, msec);
}


static void
capture_log(ngx_log_t *log, ngx_uint_t level, u_char *buf, size_t len)
{
    u_char                 *p, *end;
    ngx_chat_redis_heard_t *heard = (ngx_chat_redis_heard_t *) log;

    if (level == NGX_LOG_DEBUG || len < NGX_LINEFEED_SIZE) {
        return;
    }

    /* what is before it: "<date> <time> [<level>] <pid>#<tid>: " */
    end = buf + len - NGX_LINEFEED_SIZE;
    p = ngx_strlchr(buf, end, '#');
    p = p ? ngx_strlchr(p, end, ' ') : NULL;
    p = p ? p + 1 : buf;

    heard->len = ngx_min((size_t) (end - p), sizeof(heard->text));
    ngx_memcpy(heard->text, p, heard->len);
}


static void
conn_close_socket(ngx_connection_t *c)
{
#if (NGX_SSL)
    if (c->ssl) {
        /* a close_notify that has to wait would outlive the connection */
        c->ssl->no_wait_shutdown = 1;
        c->ssl->no_send_shutdown = 1;
        (void) ngx_ssl_shutdown(c);
    }
#endif

    ngx_close_connection(c);
}


void
ngx_chat_redis_conn_close(ngx_chat_redis_conn_t *conn)
{
    if (conn->timer.timer_set) {
        ngx_del_timer(&conn->timer);
    }

    if (conn->flush.posted) {
        ngx_delete_posted_event(&conn->flush);
    }

    if (conn->resolving) {
        ngx_resolve_name_done(conn->resolving);
        conn->resolving = NULL;
    }

    if (conn->peer.connection) {
        conn_close_socket(conn->peer.connection);
        conn->peer.connection = NULL;
    }

    if (conn->reader) {
        redisReaderFree(conn->reader);
        conn->reader = NULL;
    }

    ngx_chat_redis_io_drop(conn, NULL);
    conn->unsent = 0;
    conn->unfinished = 0;
    conn->due = 0;
    conn->is_ready = 0;
    conn->why.len = 0;

    /* last: the log of all the above is in it */
    if (conn->pool) {
        ngx_destroy_pool(conn->pool);
        conn->pool = NULL;
    }
}


/* Ends it at once; closed() follows from the event loop. */
void
ngx_chat_redis_conn_fail(ngx_chat_redis_conn_t *conn, const char *fmt, ...)
{
    u_char *p, *end;
    va_list args;

    va_start(args, fmt);
    end = ngx_vslprintf(conn->text, conn->text + sizeof(conn->text) - 1, fmt,
                        args);
    va_end(args);

    *end = '\0';

    for (p = conn->text; p < end; p++) {
        if (*p < ' ' || *p > '~') {
            *p = '.';
        }
    }

    ngx_chat_redis_conn_close(conn);
    conn->why.data = conn->text;
    conn->why.len = end - conn->text;

    /* next: an owner that opens it again at once does not stop the worker */
    ngx_post_event(&conn->flush, &ngx_posted_next_events);
}


/* What NGINX has said is the reason. */
void
ngx_chat_redis_conn_fail_logged(ngx_chat_redis_conn_t *conn)
{
    ngx_chat_redis_heard_t *heard = (ngx_chat_redis_heard_t *) conn->peer.log;

    if (heard->len == 0) {
        ngx_chat_redis_conn_fail(conn, "an error without a name");
        return;
    }

    ngx_chat_redis_conn_fail(conn, "%*s", heard->len, heard->text);
}


static void
on_timeout(ngx_event_t *ev)
{
    const char            *doing;
    ngx_chat_redis_conn_t *conn = ev->data;

    if (conn->resolving) {
        doing = "resolving the name";

    } else if (conn->due) {
        doing = "waiting for its first answer";

#if (NGX_SSL)
    } else if (conn->peer.connection && conn->peer.connection->ssl) {
        doing = "in the TLS handshake";
#endif

    } else {
        doing = "connecting";
    }

    ngx_chat_redis_conn_fail(conn, "timed out after %M ms while %s",
                             conn->conf->timeout, doing);
}


static void
on_flush(ngx_event_t *ev)
{
    u_char                 why[sizeof(((ngx_chat_redis_conn_t *) 0)->text)];
    ngx_chat_redis_conn_t *conn = ev->data;

    if (conn->why.len == 0) {
        ngx_chat_redis_io_write(conn->peer.connection->write);
        return;
    }

    /* it may be opened again before the owner is done with the text */
    ngx_memcpy(why, conn->text, sizeof(why));
    conn->why.len = 0;
    conn->closed(conn, (const char *) why);
}


static ngx_int_t
conn_prepare(ngx_chat_redis_conn_t *conn)
{
    ngx_chat_redis_heard_t *heard;

    conn->reader = ngx_chat_redis_io_reader(conn);
    if (conn->reader == NULL) {
        return NGX_ERROR;
    }

    conn->pool = ngx_create_pool(1024, conn->log);
    if (conn->pool == NULL) {
        return NGX_ERROR;
    }

    heard = ngx_pcalloc(conn->pool, sizeof(ngx_chat_redis_heard_t));
    if (heard == NULL) {
        return NGX_ERROR;
    }

    heard->log.log_level = NGX_LOG_INFO;
    heard->log.writer = capture_log;

    ngx_memzero(&conn->peer, sizeof(ngx_peer_connection_t));
    conn->peer.get = ngx_event_get_peer;
    conn->peer.log = &heard->log;
    conn->peer.log_error = NGX_ERROR_ERR;
    return NGX_OK;
}


static void
resolve_name(ngx_chat_redis_conn_t *conn)
{
    ngx_resolver_ctx_t          *ctx;
    const ngx_chat_redis_conf_t *conf = conn->conf;

    ctx = conf->resolver ? ngx_resolve_start(conf->resolver, NULL)
                         : NGX_NO_RESOLVER;
    if (ctx == NGX_NO_RESOLVER) {
        ngx_chat_redis_conn_fail(conn, "no resolver for %V",
                                 &conn->host->host);
        return;
    }

    if (ctx == NULL) {
        ngx_chat_redis_conn_fail(conn, "no memory");
        return;
    }

    ctx->name = conn->host->host;
    ctx->handler = on_resolved;
    ctx->data = conn;
    ctx->timeout = conf->resolver_timeout;
    ctx->cancelable = 1;
    conn->resolving = ctx;

    /* a name that is known is answered inside the call */
    if (ngx_resolve_name(ctx) != NGX_OK) {
        conn->resolving = NULL;
        ngx_chat_redis_conn_fail(conn, "%V could not be resolved",
                                 &conn->host->host);
    }
}


static ngx_int_t
conn_copy_addr(ngx_chat_redis_conn_t *conn, ngx_resolver_addr_t *from)
{
    u_char     *p;
    ngx_addr_t *addr = &conn->addr;

    p = ngx_palloc(conn->pool, from->socklen + NGX_SOCKADDR_STRLEN);
    if (p == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(p, from->sockaddr, from->socklen);
    addr->sockaddr = (struct sockaddr *) p;
    addr->socklen = from->socklen;
    ngx_inet_set_port(addr->sockaddr, conn->host->port);

    addr->name.data = p + from->socklen;
    addr->name.len = ngx_sock_ntop(addr->sockaddr, addr->socklen,
                                   addr->name.data, NGX_SOCKADDR_STRLEN, 1);
    return NGX_OK;
}


static void
on_resolved(ngx_resolver_ctx_t *ctx)
{
    ngx_int_t              rc;
    ngx_chat_redis_conn_t *conn = ctx->data;

    if (ctx->state != NGX_OK || ctx->naddrs == 0) {
        ngx_chat_redis_conn_fail(conn, "%V could not be resolved (%i: %s)",
                                 &ctx->name, ctx->state,
                                 ngx_resolver_strerror(ctx->state));
        return;
    }

    rc = conn_copy_addr(conn, &ctx->addrs[conn->tried++ % ctx->naddrs]);

    conn->resolving = NULL;
    ngx_resolve_name_done(ctx);

    if (rc != NGX_OK) {
        ngx_chat_redis_conn_fail(conn, "no memory");
        return;
    }

    connect_to(conn, &conn->addr);
}


void
ngx_chat_redis_conn_open(ngx_chat_redis_conn_t *conn)
{
    const ngx_chat_redis_host_t *host = conn->host;

    ngx_chat_redis_conn_close(conn);

    conn->timer.handler = on_timeout;
    conn->timer.data = conn;
    conn->timer.log = conn->log;
    conn->flush.handler = on_flush;
    conn->flush.data = conn;
    conn->flush.log = conn->log;

    if (conn_prepare(conn) != NGX_OK) {
        ngx_chat_redis_conn_fail(conn, "no memory");
        return;
    }

    /* the time of a worker that is being made is that of its master */
    ngx_time_update();
    ngx_chat_redis_timer(&conn->timer, conn->conf->timeout);

    if (host->naddrs == 0) {
        resolve_name(conn);
        return;
    }

    connect_to(conn, &host->addrs[conn->tried++ % host->naddrs]);
}


static void
connect_to(ngx_chat_redis_conn_t *conn, ngx_addr_t *addr)
{
    ngx_int_t              rc;
    ngx_connection_t      *c;
    ngx_peer_connection_t *peer = &conn->peer;

    peer->sockaddr = addr->sockaddr;
    peer->socklen = addr->socklen;
    peer->name = &addr->name;
    peer->so_keepalive = (addr->sockaddr->sa_family != AF_UNIX);

    ngx_log_debug1(NGX_LOG_DEBUG_EVENT, conn->log, 0, "chat redis connect: %V",
                   peer->name);

    rc = ngx_event_connect_peer(peer);
    if (rc != NGX_OK && rc != NGX_AGAIN) {
        ngx_chat_redis_conn_fail_logged(conn);
        return;
    }

    c = peer->connection;
    c->data = conn;
    c->pool = conn->pool;
    c->read->handler = on_connected;
    c->write->handler = on_connected;

    /*
     * It serves the requests of the worker and ends with it: NGINX is neither
     * to close it as idle when the worker begins to exit, nor at
     * worker_shutdown_timeout, nor to complain of it as left open. A
     * resolver's connections are spared so.
     */
    c->idle = 0;
    c->read->resolver = 1;

    if (rc == NGX_OK) {
        ngx_post_event(c->write, &ngx_posted_events);
    }
}


static void
on_connected(ngx_event_t *ev)
{
    int                    err = 0;
    socklen_t              len = sizeof(int);
    ngx_connection_t      *c = ev->data;
    ngx_chat_redis_conn_t *conn = c->data;

    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len) == -1) {
        err = ngx_socket_errno;
    }

    if (err) {
        (void) ngx_connection_error(c, err, "connect() failed");
        ngx_chat_redis_conn_fail_logged(conn);
        return;
    }

    if (ngx_tcp_nodelay(c) != NGX_OK) {
        ngx_chat_redis_conn_fail_logged(conn);
        return;
    }

#if (NGX_SSL)
    if (conn->conf->ssl) {
        ngx_chat_redis_tls_start(conn);
        return;
    }
#endif

    ngx_chat_redis_io_start(conn);
}


/* The last word, if there is one behind AUTH and SELECT; or NULL. */
static const char *
handshake_last(const ngx_chat_redis_conf_t *conf)
{
    if (conf->scheme == NGX_CHAT_REDIS_SENTINEL) {
        return "ROLE";
    }

    /* a connection alone does not show that there is a Redis server */
    return conf->password.len || conf->db ? NULL : "PING";
}


ngx_int_t
ngx_chat_redis_handshake(ngx_chat_redis_conn_t *conn)
{
    u_char                       db[NGX_INT_T_LEN];
    size_t                       n = 0, len[3];
    const char                  *argv[3];
    const ngx_chat_redis_conf_t *conf = conn->conf;

    if (conf->password.len) {
        argv[n] = "AUTH";
        len[n++] = 4;

        if (conf->user.len) {
            argv[n] = (const char *) conf->user.data;
            len[n++] = conf->user.len;
        }

        argv[n] = (const char *) conf->password.data;
        len[n++] = conf->password.len;

        conn->due++;
        if (ngx_chat_redis_io_put(conn, n, argv, len) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    if (conf->db) {
        argv[0] = "SELECT";
        len[0] = 6;
        argv[1] = (const char *) db;
        len[1] = ngx_sprintf(db, "%ui", conf->db) - db;

        conn->due++;
        if (ngx_chat_redis_io_put(conn, 2, argv, len) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    argv[0] = handshake_last(conf);
    if (argv[0] == NULL) {
        return NGX_OK;
    }

    len[0] = 4;
    conn->due++;
    return ngx_chat_redis_io_put(conn, 1, argv, len);
}


/* Which word the next reply answers. */
static const char *
handshake_command(const ngx_chat_redis_conn_t *conn)
{
    const char *last = handshake_last(conn->conf);
    ngx_uint_t  behind = conn->due - (last ? 1 : 0);

    if (behind == 0) {
        return last;
    }

    return behind == 1 && conn->conf->db ? "SELECT" : "AUTH";
}


/* 1 if this is a good answer to it. */
static ngx_uint_t
handshake_agrees(const char *asked, const redisReply *reply)
{
    if (*asked == 'R') {
        return reply->type == REDIS_REPLY_ARRAY && reply->elements > 0
               && reply->element[0]->type == REDIS_REPLY_STRING
               && ngx_strcmp(reply->element[0]->str, "master") == 0;
    }

    /* a user who may not PING has been heard all the same */
    return reply->type == REDIS_REPLY_STATUS
           || (*asked == 'P' && reply->type == REDIS_REPLY_ERROR
               && ngx_strncmp(reply->str, "NOPERM", 6) == 0);
}


void
ngx_chat_redis_handshake_reply(ngx_chat_redis_conn_t *conn, redisReply *reply)
{
    u_char      text[NGX_CHAT_REDIS_ERROR];
    const char *asked = handshake_command(conn);

    if (reply->type == REDIS_REPLY_ERROR && !handshake_agrees(asked, reply)) {
        (void) ngx_chat_redis_error(reply, text);
        ngx_chat_redis_conn_fail(conn, "%s: %s", asked, text);
        return;
    }

    if (!handshake_agrees(asked, reply)) {
        ngx_chat_redis_conn_fail(conn,
                                 *asked == 'R' && reply->elements > 0
                                     ? "%s: it is not a master"
                                     : "%s: not an answer to it",
                                 asked);
        return;
    }

    if (--conn->due > 0) {
        return;
    }

    ngx_del_timer(&conn->timer);
    conn->is_ready = 1;
    ngx_log_debug1(NGX_LOG_DEBUG_EVENT, conn->log, 0, "chat redis ready: %V",
                   &conn->host->name);
    conn->ready(conn);
}
