/*
 * ngx_chat_redis_conn.c: opens and closes a connection: name, socket, TLS,
 * handshake, PING.
 *
 *   open() → resolve_name → connect_to → start_tls → handshake → ready()
 *          → replies (ngx_chat_redis_io.c)
 *
 * Any failure on the way is one closed() with one line of text. What NGINX or
 * OpenSSL log of the connection becomes that line and goes into no log. With
 * verify, nothing is sent to a server before its certificate is verified.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/redis/ngx_chat_redis_conn.h"

static void on_timer(ngx_event_t *ev);
static void on_flush(ngx_event_t *ev);
static void on_resolved(ngx_resolver_ctx_t *ctx);
static void connect_to(ngx_chat_redis_conn_t *conn, struct sockaddr *sockaddr,
                       socklen_t socklen);
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


/*
 * Writes a log line, "<date> <time> [<level>] <pid>#<tid>: TEXT", to
 * conn->why.
 */
static void
capture(ngx_log_t *log, ngx_uint_t level, u_char *line, size_t len)
{
    u_char                *end = line + len - NGX_LINEFEED_SIZE;
    u_char                *text = ngx_strnstr(line, ": ", len);
    ngx_chat_redis_conn_t *conn = log->wdata;

    text = text ? text + 2 : line;
    len = ngx_min((size_t) (end - text) + 1, sizeof(conn->why));
    (void) ngx_cpystrn(conn->why, text, len);
}


void
ngx_chat_redis_conn_close(ngx_chat_redis_conn_t *conn)
{
    ngx_connection_t *c = conn->peer.connection;

    ngx_chat_event_cancel(&conn->timer);
    ngx_chat_event_cancel(&conn->flush);
    ngx_chat_event_set(&conn->timer, on_timer, conn, ngx_cycle->log);
    ngx_chat_event_set(&conn->flush, on_flush, conn, ngx_cycle->log);

    if (conn->resolving) {
        ngx_resolve_name_done(conn->resolving);
        conn->resolving = NULL;
    }

    if (c) {
#if (NGX_SSL)
        if (c->ssl) {
            /* a close_notify that has to wait would outlive the connection */
            c->ssl->no_wait_shutdown = 1;
            c->ssl->no_send_shutdown = 1;
            (void) ngx_ssl_shutdown(c);
        }
#endif

        ngx_close_connection(c);
        conn->peer.connection = NULL;
    }

    if (conn->pool) {
        ngx_destroy_pool(conn->pool);
        conn->pool = NULL;
    }

    ngx_chat_redis_io_free(conn);
    conn->due = 0;
    conn->is_ready = 0;
    conn->has_failed = 0;
}


void
ngx_chat_redis_conn_fail(ngx_chat_redis_conn_t *conn, const char *fmt, ...)
{
    u_char *end = conn->why + sizeof(conn->why) - 1;
    va_list args;

    va_start(args, fmt);
    *ngx_vslprintf(conn->why, end, fmt, args) = '\0';
    va_end(args);
    ngx_chat_redis_conn_fail_logged(conn);
}


void
ngx_chat_redis_conn_fail_logged(ngx_chat_redis_conn_t *conn)
{
    conn->peer_log.log_level = NGX_LOG_STDERR; /* keeps the reason */
    ngx_chat_redis_conn_close(conn);
    conn->has_failed = 1;

    /* next cycle: an owner that reopens it at once must not block others */
    ngx_post_event(&conn->flush, &ngx_posted_next_events);
}


void
ngx_chat_redis_conn_retry(ngx_chat_redis_conn_t *conn, ngx_msec_t max)
{
    ngx_chat_redis_conn_close(conn);
    ngx_chat_redis_timer(&conn->timer, ngx_chat_redis_jitter(conn->backoff));
    conn->backoff = ngx_min(2 * conn->backoff, max);
}


static void
on_timer(ngx_event_t *ev)
{
    ngx_chat_redis_conn_t *conn = ev->data;

    if (conn->pool == NULL) {
        conn->retry(conn);
        return;
    }

    if (conn->is_ready) {
        if (conn->silent) {
            ngx_chat_redis_conn_fail(conn, "no reply in time");
            return;
        }

        conn->silent = 1;
        ngx_chat_redis_conn_command(conn, "PING");
        ngx_chat_redis_timer(ev, ngx_chat_redis_jitter(conn->ping));
        return;
    }

    ngx_chat_redis_conn_fail(conn, "timed out after %M ms while %s",
                             conn->conf->timeout,
                             conn->resolving ? "resolving the name"
                             : conn->due     ? "waiting for the first reply"
                                             : "connecting");
}


static void
on_flush(ngx_event_t *ev)
{
    ngx_chat_redis_conn_t *conn = ev->data;

    if (!conn->has_failed) {
        ngx_chat_redis_io_write(conn->peer.connection->write);
        return;
    }

    conn->has_failed = 0;
    conn->closed(conn, (const char *) conn->why);
}


static void
resolve_name(ngx_chat_redis_conn_t *conn)
{
    ngx_resolver_ctx_t          *ctx;
    const ngx_chat_redis_conf_t *conf = conn->conf;

    ctx = conf->resolver ? ngx_resolve_start(conf->resolver, NULL)
                         : NGX_NO_RESOLVER;
    if (ctx == NGX_NO_RESOLVER || ctx == NULL) {
        ngx_chat_redis_conn_fail(conn, "no resolver for %V",
                                 &conn->host->host);
        return;
    }

    ctx->name = conn->host->host;
    ctx->handler = on_resolved;
    ctx->data = conn;
    ctx->timeout = conf->timeout;
    ctx->cancelable = 1;
    conn->resolving = ctx;

    /* a cached name calls the handler from inside */
    if (ngx_resolve_name(ctx) != NGX_OK) {
        conn->resolving = NULL;
        ngx_chat_redis_conn_fail(conn, "%V could not be resolved",
                                 &conn->host->host);
    }
}


static void
on_resolved(ngx_resolver_ctx_t *ctx)
{
    ngx_chat_redis_conn_t *conn = ctx->data;
    socklen_t              socklen;
    struct sockaddr       *sockaddr = &conn->sockaddr.sockaddr;
    ngx_resolver_addr_t   *addr;

    if (ctx->state != NGX_OK || ctx->naddrs == 0) {
        ngx_chat_redis_conn_fail(conn, "%V could not be resolved (%i: %s)",
                                 &ctx->name, ctx->state,
                                 ngx_resolver_strerror(ctx->state));
        return;
    }

    addr = &ctx->addrs[conn->tried++ % ctx->naddrs];
    socklen = addr->socklen;
    ngx_memcpy(sockaddr, addr->sockaddr, socklen);
    ngx_inet_set_port(sockaddr, conn->host->port);

    conn->resolving = NULL;
    ngx_resolve_name_done(ctx);
    connect_to(conn, sockaddr, socklen);
}


void
ngx_chat_redis_conn_open(ngx_chat_redis_conn_t *conn)
{
    ngx_addr_t                   addr;
    const ngx_chat_redis_host_t *host = conn->host;

    ngx_chat_redis_conn_close(conn);

    conn->pool = ngx_create_pool(1024, ngx_cycle->log);
    if (conn->pool == NULL || ngx_chat_redis_io_create(conn) != NGX_OK) {
        ngx_chat_redis_conn_fail(conn, "no memory");
        return;
    }

    ngx_sprintf(conn->why, "unknown error%Z");
    conn->peer_log.log_level = NGX_LOG_INFO;
    conn->peer_log.writer = capture;
    conn->peer_log.wdata = conn;

    ngx_memzero(&conn->peer, sizeof(ngx_peer_connection_t));
    conn->peer.get = ngx_event_get_peer;
    conn->peer.log = &conn->peer_log;
    conn->peer.log_error = NGX_ERROR_ERR;
    conn->peer.name = (ngx_str_t *) &host->name;

    /* a new worker still has the time of its master */
    ngx_time_update();
    ngx_chat_redis_timer(&conn->timer, conn->conf->timeout);

    if (host->naddrs != 0) {
        addr = host->addrs[conn->tried++ % host->naddrs];

    } else if (ngx_parse_addr(conn->pool, &addr, host->target.data,
                              host->target.len)
               == NGX_OK)
    {
        ngx_inet_set_port(addr.sockaddr, host->port);

    } else {
        resolve_name(conn);
        return;
    }

    connect_to(conn, addr.sockaddr, addr.socklen);
}


static void
connect_to(ngx_chat_redis_conn_t *conn, struct sockaddr *sockaddr,
           socklen_t socklen)
{
    ngx_int_t              rc;
    ngx_connection_t      *c;
    ngx_peer_connection_t *peer = &conn->peer;

    peer->sockaddr = sockaddr;
    peer->socklen = socklen;
    peer->so_keepalive = (sockaddr->sa_family != AF_UNIX);

    ngx_log_debug1(NGX_LOG_DEBUG_EVENT, ngx_cycle->log, 0,
                   "chat redis connect: %V", peer->name);

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
     * it as left open. A resolver's connection is exempt.
     */
    c->idle = 0;
    c->read->resolver = 1;

    if (rc == NGX_OK) {
        ngx_post_event(c->write, &ngx_posted_events);
    }
}


/*
 * Begins to read and write, and sends the handshake: AUTH with a password,
 * SELECT with a database, and ROLE behind Sentinel, which may name a server
 * that is no master. PING shows that there is a Redis server where nothing
 * else does.
 */
static void
start_handshake(ngx_chat_redis_conn_t *conn)
{
    ngx_connection_t            *c = conn->peer.connection;
    const ngx_chat_redis_conf_t *conf = conn->conf;
    chat_str_t auth[] = { CHAT_STR("AUTH"), ngx_chat_str(&conf->user),
                          ngx_chat_str(&conf->password) };

    c->read->handler = ngx_chat_redis_io_read;
    c->write->handler = ngx_chat_redis_io_write;

    /* there is no event for bytes that arrived while it connected */
    ngx_post_event(c->read, &ngx_posted_events);

    if (conf->password.len) {
        conn->due++;
        auth[1] = conf->user.len ? auth[1] : auth[2];
        (void) ngx_chat_redis_conn_send(conn, auth, conf->user.len ? 3 : 2);
    }

    if (conf->db) {
        conn->due++;
        ngx_chat_redis_conn_command(conn, "SELECT %i", conf->db);
    }

    if (conf->scheme == NGX_CHAT_REDIS_SENTINEL) {
        conn->due++;
        ngx_chat_redis_conn_command(conn, "ROLE");

    } else if (conn->due == 0) {
        conn->due++;
        ngx_chat_redis_conn_command(conn, "PING");
    }
}


void
ngx_chat_redis_handshake_reply(ngx_chat_redis_conn_t *conn,
                               const redisReply      *reply)
{
    if (reply->type == REDIS_REPLY_ERROR) {
        ngx_chat_redis_conn_fail(conn, "%s", reply->str);
        return;
    }

    if (--conn->due > 0) {
        return;
    }

    if (conn->conf->scheme == NGX_CHAT_REDIS_SENTINEL
        && (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0
            || !chat_str_is(ngx_chat_redis_text(reply->element[0]), "master")))
    {
        ngx_chat_redis_conn_fail(conn, "it is not a master");
        return;
    }

    ngx_del_timer(&conn->timer);
    conn->is_ready = 1;
    conn->silent = 0;

    if (conn->ping) {
        ngx_chat_redis_timer(&conn->timer, conn->ping);
    }

    ngx_log_debug1(NGX_LOG_DEBUG_EVENT, ngx_cycle->log, 0,
                   "chat redis ready: %V", &conn->host->name);
    conn->ready(conn);
}


#if (NGX_SSL)

static void
on_tls_handshake(ngx_connection_t *c)
{
    SSL                   *ssl = c->ssl->connection;
    long                   rc = SSL_get_verify_result(ssl);
    ngx_chat_redis_conn_t *conn = c->data;

    if (!c->ssl->handshaked) {
        ngx_chat_redis_conn_fail_logged(conn);

    } else if (conn->conf->verify
               && (rc != X509_V_OK || SSL_get_peer_cert_chain(ssl) == NULL))
    {
        ngx_chat_redis_conn_fail(conn,
                                 "certificate verification failed (%l: %s)",
                                 rc, X509_verify_cert_error_string(rc));

    } else {
        start_handshake(conn);
    }
}


static void
start_tls(ngx_chat_redis_conn_t *conn)
{
    SSL               *ssl;
    char              *host = (char *) conn->host->host.data;
    ngx_connection_t  *c = conn->peer.connection;
    X509_VERIFY_PARAM *param;

    if (ngx_ssl_create_connection(conn->conf->ssl, c, NGX_SSL_CLIENT)
        != NGX_OK) {
        ngx_chat_redis_conn_fail_logged(conn);
        return;
    }

    ssl = c->ssl->connection;
    param = SSL_get0_param(ssl);

    /* the output buffer moves when it grows */
    SSL_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE
                          | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);

    /* the certificate's name; RFC 6066: a server name is never an address */
    if (X509_VERIFY_PARAM_set1_ip_asc(param, host) == 0
        && (X509_VERIFY_PARAM_set1_host(param, host, conn->host->host.len) == 0
            || SSL_set_tlsext_host_name(ssl, host) == 0))
    {
        ngx_chat_redis_conn_fail(conn, "no memory");
        return;
    }

    if (ngx_ssl_handshake(c) == NGX_AGAIN) {
        c->ssl->handler = on_tls_handshake;
        return;
    }

    on_tls_handshake(c);
}


#endif


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
        start_tls(conn);
        return;
    }
#endif

    start_handshake(conn);
}
