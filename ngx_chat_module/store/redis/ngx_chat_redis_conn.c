/*
 * ngx_chat_redis_conn.c: opens and closes a connection: name, socket, TLS,
 * handshake, PING.
 *
 *   open() → resolve_name → connect_to → tls (ngx_chat_redis_tls.c)
 *          → handshake → ready() → replies (ngx_chat_redis_io.c)
 *
 * Any failure on the way is one closed() with one line of text. What NGINX or
 * OpenSSL log of the connection becomes that line and goes into no log.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "store/redis/ngx_chat_redis_conn.h"

/* The log of one connection: it keeps the last line. */
typedef struct {
    ngx_log_t log; /* first: a pointer to it is one to this */
    size_t    len;
    u_char    text[200];
} captured_t;

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


void
ngx_chat_redis_backoff(ngx_event_t *ev, ngx_msec_t *backoff, ngx_msec_t max)
{
    ngx_chat_redis_timer(ev, ngx_chat_redis_jitter(*backoff));
    *backoff = ngx_min(2 * *backoff, max);
}


/* A log's writer: the line is "<date> <time> [<level>] <pid>#<tid>: ..." */
static void
capture(ngx_log_t *log, ngx_uint_t level, u_char *buf, size_t len)
{
    u_char     *p, *end;
    captured_t *captured = (captured_t *) log;

    if (level == NGX_LOG_DEBUG || len < NGX_LINEFEED_SIZE) {
        return;
    }

    end = buf + len - NGX_LINEFEED_SIZE;
    p = ngx_strlchr(buf, end, '#');
    p = p ? ngx_strlchr(p, end, ' ') : NULL;
    p = p ? p + 1 : buf;

    captured->len = ngx_min((size_t) (end - p), sizeof(captured->text));
    ngx_memcpy(captured->text, p, captured->len);
}


static void
close_socket(ngx_connection_t *c)
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
        close_socket(conn->peer.connection);
        conn->peer.connection = NULL;
    }

    ngx_chat_redis_io_free(conn);
    conn->due = 0;
    conn->is_ready = 0;
    conn->why.len = 0;

    /* last: the log of all the above is in it */
    if (conn->pool) {
        ngx_destroy_pool(conn->pool);
        conn->pool = NULL;
    }
}


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


void
ngx_chat_redis_conn_fail_logged(ngx_chat_redis_conn_t *conn)
{
    captured_t *captured = (captured_t *) conn->peer.log;

    if (captured->len == 0) {
        ngx_chat_redis_conn_fail(conn, "unknown error");
        return;
    }

    ngx_chat_redis_conn_fail(conn, "%*s", captured->len, captured->text);
}


/* Shows whether the server is still there. */
static void
ping(ngx_chat_redis_conn_t *conn)
{
    const char     *why;
    const ngx_str_t words[] = { ngx_string("PING") };

    if (conn->silent) {
        ngx_chat_redis_conn_fail(conn, "no reply in time");
        return;
    }

    conn->silent = 1;
    ngx_chat_redis_conn_command(conn, words, 1);
    ngx_chat_redis_timer(&conn->timer, ngx_chat_redis_jitter(conn->ping));

    why = conn->check ? conn->check(conn) : NULL;
    if (why != NULL) {
        ngx_chat_redis_conn_fail(conn, "%s", why);
    }
}


static void
on_timer(ngx_event_t *ev)
{
    const char            *doing = "connecting";
    ngx_chat_redis_conn_t *conn = ev->data;

    if (conn->is_ready) {
        ping(conn);
        return;
    }

    if (conn->resolving) {
        doing = "resolving the name";

    } else if (conn->due) {
        doing = "waiting for the first reply";

#if (NGX_SSL)
    } else if (conn->peer.connection && conn->peer.connection->ssl) {
        doing = "in the TLS handshake";
#endif
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

    /* the owner may open it again while it still uses the text */
    ngx_memcpy(why, conn->text, sizeof(why));
    conn->why.len = 0;
    conn->closed(conn, (const char *) why);
}


static ngx_int_t
prepare(ngx_chat_redis_conn_t *conn)
{
    captured_t *captured;

    if (ngx_chat_redis_io_create(conn) != NGX_OK) {
        return NGX_ERROR;
    }

    conn->pool = ngx_create_pool(1024, conn->log);
    if (conn->pool == NULL) {
        return NGX_ERROR;
    }

    captured = ngx_pcalloc(conn->pool, sizeof(captured_t));
    if (captured == NULL) {
        return NGX_ERROR;
    }

    captured->log.log_level = NGX_LOG_INFO;
    captured->log.writer = capture;

    ngx_memzero(&conn->peer, sizeof(ngx_peer_connection_t));
    conn->peer.get = ngx_event_get_peer;
    conn->peer.log = &captured->log;
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

    /* a cached name calls the handler from inside */
    if (ngx_resolve_name(ctx) != NGX_OK) {
        conn->resolving = NULL;
        ngx_chat_redis_conn_fail(conn, "%V could not be resolved",
                                 &conn->host->host);
    }
}


static ngx_int_t
copy_addr(ngx_chat_redis_conn_t *conn, ngx_resolver_addr_t *from)
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

    rc = copy_addr(conn, &ctx->addrs[conn->tried++ % ctx->naddrs]);
    conn->resolving = NULL;
    ngx_resolve_name_done(ctx);

    if (rc != NGX_OK) {
        ngx_chat_redis_conn_fail(conn, "no memory");
        return;
    }

    connect_to(conn, &conn->addr);
}


static void
init_event(ngx_chat_redis_conn_t *conn, ngx_event_t *ev,
           ngx_event_handler_pt handler)
{
    ev->handler = handler;
    ev->data = conn;
    ev->log = conn->log;
}


void
ngx_chat_redis_conn_open(ngx_chat_redis_conn_t *conn)
{
    const ngx_chat_redis_host_t *host = conn->host;

    ngx_chat_redis_conn_close(conn);
    init_event(conn, &conn->timer, on_timer);
    init_event(conn, &conn->flush, on_flush);

    if (prepare(conn) != NGX_OK) {
        ngx_chat_redis_conn_fail(conn, "no memory");
        return;
    }

    /* a worker that starts has its master's time */
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
     * The connection ends with the worker. NGINX must not close it as idle
     * when the worker begins to exit, nor at worker_shutdown_timeout, nor log
     * it as left open. It spares the resolver's connections.
     */
    c->idle = 0;
    c->read->resolver = 1;

    if (rc == NGX_OK) {
        ngx_post_event(c->write, &ngx_posted_events);
    }
}


/*
 * The handshake: AUTH with a password, SELECT with a database, and at last
 * ROLE, for a Sentinel may name a server that is no master. PING shows that
 * there is a Redis server where neither AUTH nor SELECT do.
 */
static const char *
last_command(const ngx_chat_redis_conf_t *conf)
{
    if (conf->scheme == NGX_CHAT_REDIS_SENTINEL) {
        return "ROLE";
    }

    return conf->password.len || conf->db ? NULL : "PING";
}


static ngx_int_t
put(ngx_chat_redis_conn_t *conn, const ngx_str_t *words, ngx_uint_t n)
{
    conn->due++;
    return ngx_chat_redis_io_put(conn, words, n);
}


/* Sends all of them. NGX_ERROR: no memory. */
static ngx_int_t
send_handshake(ngx_chat_redis_conn_t *conn)
{
    u_char                       db[NGX_INT_T_LEN];
    ngx_str_t                    words[3];
    ngx_uint_t                   n = 1;
    const char                  *last;
    const ngx_chat_redis_conf_t *conf = conn->conf;

    if (conf->password.len) {
        ngx_str_set(&words[0], "AUTH");

        if (conf->user.len) {
            words[n++] = conf->user;
        }

        words[n++] = conf->password;

        if (put(conn, words, n) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    if (conf->db) {
        ngx_str_set(&words[0], "SELECT");
        words[1].data = db;
        words[1].len = ngx_sprintf(db, "%ui", conf->db) - db;

        if (put(conn, words, 2) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    last = last_command(conf);
    if (last == NULL) {
        return NGX_OK;
    }

    words[0].data = (u_char *) last;
    words[0].len = ngx_strlen(last);
    return put(conn, words, 1);
}


/* The command that the next reply is to. */
static const char *
current_command(const ngx_chat_redis_conn_t *conn)
{
    const char *last = last_command(conn->conf);
    ngx_uint_t  behind = conn->due - (last ? 1 : 0);

    if (behind == 0) {
        return last;
    }

    return behind == 1 && conn->conf->db ? "SELECT" : "AUTH";
}


/* Why the reply ends the connection; NULL: it does not. */
static const char *
refusal(const char *command, const redisReply *reply, u_char *text)
{
    ngx_str_t role;

    /* a user without the right to PING has been accepted all the same */
    if (reply->type == REDIS_REPLY_ERROR) {
        if (*command == 'P' && ngx_chat_redis_is_error(reply, "NOPERM")) {
            return NULL;
        }

        (void) ngx_chat_redis_error(reply, text);
        return (const char *) text;
    }

    if (*command != 'R') {
        return reply->type == REDIS_REPLY_STATUS ? NULL : "unexpected reply";
    }

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0) {
        return "unexpected reply";
    }

    role = ngx_chat_redis_text(reply->element[0]);
    return role.len == 6 && ngx_strncmp(role.data, "master", 6) == 0
               ? NULL
               : "it is not a master";
}


void
ngx_chat_redis_handshake_reply(ngx_chat_redis_conn_t *conn, redisReply *reply)
{
    u_char      text[NGX_CHAT_REDIS_ERROR];
    const char *why, *command = current_command(conn);

    why = refusal(command, reply, text);
    if (why != NULL) {
        ngx_chat_redis_conn_fail(conn, "%s: %s", command, why);
        return;
    }

    if (--conn->due > 0) {
        return;
    }

    ngx_del_timer(&conn->timer);
    conn->is_ready = 1;
    conn->silent = 0;

    if (conn->ping) {
        ngx_chat_redis_timer(&conn->timer, conn->ping);
    }

    ngx_log_debug1(NGX_LOG_DEBUG_EVENT, conn->log, 0, "chat redis ready: %V",
                   &conn->host->name);
    conn->ready(conn);
}


void
ngx_chat_redis_conn_established(ngx_chat_redis_conn_t *conn)
{
    ngx_chat_redis_io_start(conn);

    if (send_handshake(conn) != NGX_OK) {
        ngx_chat_redis_conn_fail(conn, "no memory");
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

    ngx_chat_redis_conn_established(conn);
}
