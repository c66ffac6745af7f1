/*
 * ngx_chat_redis_conn.c: name, socket, TLS, handshake, PING, commands and
 * replies of a connection.
 *
 *   open() → resolve_name → connect_to → start_tls → start_handshake
 *          → on_handshake_reply → ready() → reply()
 *
 * Any failure on the way is one closed() with one line of text. What NGINX or
 * OpenSSL log of the connection becomes that line and goes into no log. With
 * verify, nothing is sent to a server before its certificate is verified.
 *
 * The memory of a connection does not grow with its age. The length of a
 * reply and the work of one wake-up are bounded. A callback may close the
 * connection and open it again.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "facts/chat_store.h"
#include "store/redis/ngx_chat_redis_conn.h"

#define NGX_CHAT_REDIS_OUTPUT (256 * 1024) /* kept when all is sent */
#define NGX_CHAT_REDIS_READS 64            /* of one wake-up */
/* The results of a batch: 128 of 1 MB each, by default. */
#define NGX_CHAT_REDIS_REPLY_MAX (128 * 1024 * 1024)
/* No command is longer than the queue, so no value that it has stored is. */
#define NGX_CHAT_REDIS_STRING_MAX NGX_CHAT_REDIS_PENDING
#define NGX_CHAT_REDIS_LINE_MAX 65536
#define NGX_CHAT_REDIS_ERROR 300 /* longer than any redirection */

/*
 * Elements of a reply, in all its arrays: two for each fact of a key, which
 * has at most twice as many as a join may have, and one for each worker.
 */
#define NGX_CHAT_REDIS_ARRAY_MAX (4 * CHAT_STORE_FACTS_MAX + 4096)

/* hiredis' type of the number of elements. */
#if (HIREDIS_MAJOR > 0)
typedef size_t count_t;
#else
typedef int count_t;
#endif

/* hiredis' own function; set before the first reader is used. */
static void *(*create_array)(const redisReadTask *task, count_t n);

static void on_timer(ngx_event_t *ev);
static void on_flush(ngx_event_t *ev);


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


/* Writes a line "<date> <time> [<level>] <pid>#<tid>: TEXT" to conn->why. */
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


/*
 * hiredis allocates an array before its elements arrive, and for an element
 * many times the size of its text: the elements are bounded.
 */
static void *
create_bounded_array(const redisReadTask *task, count_t n)
{
    ngx_chat_redis_conn_t *conn = task->privdata;

    if ((size_t) n > NGX_CHAT_REDIS_ARRAY_MAX - conn->elements) {
        return NULL;
    }

    conn->elements += (size_t) n;
    return create_array(task, n);
}


static ngx_int_t
create_reader(ngx_chat_redis_conn_t *conn)
{
    static redisReplyObjectFunctions functions;
    redisReader                     *reader = redisReaderCreate();

    if (reader == NULL) {
        return NGX_ERROR;
    }

    functions = *reader->fn;
    create_array = functions.createArray;
    functions.createArray = create_bounded_array;
    reader->fn = &functions;
    reader->privdata = conn;
    conn->reader = reader;
    conn->unfinished = 0;
    conn->elements = 0;
    return NGX_OK;
}


chat_str_t
ngx_chat_redis_text(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING
               ? chat_str(reply->str, (size_t) reply->len)
               : chat_str(NULL, 0);
}


ngx_uint_t
ngx_chat_redis_is_error(const redisReply *reply, const char *prefix)
{
    return reply->type == REDIS_REPLY_ERROR
           && ngx_strncmp(reply->str, prefix, ngx_strlen(prefix)) == 0;
}


ngx_uint_t
ngx_chat_redis_is_message(const redisReply *reply, const char *kind)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 3
           && chat_str_is(ngx_chat_redis_text(reply->element[0]), kind);
}


/*
 * Makes an error fit for the log: bounded, without control characters, and
 * without the arguments that the server repeats, which may be secrets.
 */
static void
clean_error(redisReply *reply)
{
    u_char *p, *end, *args;

    if (reply->type != REDIS_REPLY_ERROR) {
        return;
    }

    p = (u_char *) reply->str;
    end = p + ngx_min((size_t) reply->len, NGX_CHAT_REDIS_ERROR);
    args = ngx_strlcasestrn(p, end, (u_char *) ", with args", 11 - 1);

    for (end = args ? args : end; p < end; p++) {
        if (*p < ' ' || *p > '~') {
            *p = '.';
        }
    }

    *p = '\0';
}


void
ngx_chat_redis_arg(ngx_chat_redis_args_t *args, chat_str_t arg)
{
    size_t  more;
    u_char *p = chat_buf_reserve(&args->text, CHAT_DIGITS + 5 + arg.len);

    args->argc++;

    if (p != NULL) {
        *p++ = '$';
        for (p++, more = arg.len; more > 9; more /= 10) {
            p++;
        }

        (void) chat_digits(arg.len, p);
        *p++ = CR;
        *p++ = LF;
        p = chat_str_copy(p, arg);
        *p++ = CR;
        *p++ = LF;
        args->text.len = (size_t) (p - args->text.data);
    }
}


void
ngx_chat_redis_words(ngx_chat_redis_args_t *args, const char *fmt,
                     va_list list)
{
    u_char     text[1024];
    u_char    *end = ngx_vslprintf(text, text + sizeof(text), fmt, list);
    chat_str_t rest = chat_str(text, (size_t) (end - text));

    while (rest.len != 0) {
        ngx_chat_redis_arg(args, chat_str_cut(&rest, ' '));
    }
}


ngx_int_t
ngx_chat_redis_conn_send(ngx_chat_redis_conn_t       *conn,
                         const ngx_chat_redis_args_t *args)
{
    size_t      start;
    chat_buf_t *out = &conn->out;

    ngx_post_event(&conn->flush, &ngx_posted_events);

    if (conn->sent > out->len / 2) {
        out->len -= conn->sent;
        ngx_memmove(out->data, out->data + conn->sent, out->len);
        conn->sent = 0;
    }

    start = out->len;
    chat_buf_format(out, "*%d\r\n", (uint64_t) args->argc);
    chat_buf_add(out, chat_buf_str(&args->text));

    if (out->failed || args->text.failed) {
        out->len = start; /* whole commands only */
        return NGX_ERROR;
    }

    return NGX_OK;
}


void
ngx_chat_redis_conn_command(ngx_chat_redis_conn_t *conn, const char *fmt, ...)
{
    va_list               list;
    ngx_chat_redis_args_t args = { 0 };

    va_start(list, fmt);
    ngx_chat_redis_words(&args, fmt, list);
    va_end(list);
    (void) ngx_chat_redis_conn_send(conn, &args);
    chat_buf_free(&args.text);
}


/* Sends what the socket takes. */
static ngx_int_t
send_output(ngx_chat_redis_conn_t *conn)
{
    ssize_t           n;
    ngx_connection_t *c = conn->peer.connection;

    while (conn->sent < conn->out.len) {
        n = c->send(c, conn->out.data + conn->sent,
                    conn->out.len - conn->sent);

        if (n == NGX_AGAIN || n == 0) {
            return NGX_OK;
        }

        if (n == NGX_ERROR) {
            return NGX_ERROR;
        }

        conn->sent += (size_t) n;
    }

    if (conn->out.size > NGX_CHAT_REDIS_OUTPUT || conn->out.failed) {
        chat_buf_free(&conn->out);
    }

    conn->sent = 0;
    conn->out.len = 0;
    return NGX_OK;
}


void
ngx_chat_redis_conn_flush(ngx_chat_redis_conn_t *conn)
{
    /* after an error the posted event fails, too */
    if (conn->is_ready && conn->peer.connection->write->ready) {
        (void) send_output(conn);
    }
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

    chat_buf_free(&conn->out);
    conn->sent = 0;
    redisReaderFree(conn->reader);
    conn->reader = NULL;
    conn->due = 0;
    conn->is_ready = 0;
    conn->has_failed = 0;
}


/* Closes it for the reason in why; closed() follows. */
static void
fail_logged(ngx_chat_redis_conn_t *conn)
{
    conn->peer_log.log_level = NGX_LOG_STDERR; /* keeps the reason */
    ngx_chat_redis_conn_close(conn);
    conn->has_failed = 1;

    /* next cycle: an owner that reopens it at once must not block others */
    ngx_post_event(&conn->flush, &ngx_posted_next_events);
}


void
ngx_chat_redis_conn_fail(ngx_chat_redis_conn_t *conn, const char *fmt, ...)
{
    u_char *end = conn->why + sizeof(conn->why) - 1;
    va_list args;

    va_start(args, fmt);
    *ngx_vslprintf(conn->why, end, fmt, args) = '\0';
    va_end(args);
    fail_logged(conn);
}


void
ngx_chat_redis_conn_retry(ngx_chat_redis_conn_t *conn, ngx_msec_t max)
{
    ngx_chat_redis_conn_close(conn);
    ngx_chat_redis_timer(&conn->timer, ngx_chat_redis_jitter(conn->backoff));
    conn->backoff = ngx_min(2 * conn->backoff, max);
}


/* 1 if the connection of this number is closed or replaced. */
static ngx_uint_t
is_replaced(ngx_chat_redis_conn_t *conn, ngx_atomic_uint_t number)
{
    return conn->peer.connection == NULL
           || conn->peer.connection->number != number;
}


static void
on_handshake_reply(ngx_chat_redis_conn_t *conn, const redisReply *reply)
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


/* Why the unfinished reply is refused; NULL: it is not. */
static const char *
reply_excess(ngx_chat_redis_conn_t *conn)
{
    redisReader *reader = conn->reader;

    if (conn->unfinished > NGX_CHAT_REDIS_REPLY_MAX) {
        return "a reply is larger than 128 MB";
    }

    if (reader->len - reader->pos > NGX_CHAT_REDIS_STRING_MAX) {
        return "a string of a reply is larger than 32 MB";
    }

    /* hiredis searches a line from its start with each feed */
    if (reader->len - reader->pos > NGX_CHAT_REDIS_LINE_MAX
        && memchr(reader->buf + reader->pos, '\n', NGX_CHAT_REDIS_LINE_MAX)
               == NULL)
    {
        return "a line of a reply is too long";
    }

    return NULL;
}


/* NGX_DONE: the connection is closed or replaced. */
static ngx_int_t
feed_reader(ngx_chat_redis_conn_t *conn, const char *bytes, size_t n)
{
    void             *reply;
    const char       *excess;
    ngx_atomic_uint_t number = conn->peer.connection->number;

    conn->unfinished += n;
    (void) redisReaderFeed(conn->reader, bytes, n);

    for (;;) {
        if (redisReaderGetReply(conn->reader, &reply) != REDIS_OK) {
            ngx_chat_redis_conn_fail(conn, "not a Redis reply: %s",
                                     conn->reader->err == REDIS_ERR_OOM
                                         ? "too many elements, or no memory"
                                         : conn->reader->errstr);
            return NGX_DONE;
        }

        if (reply == NULL) {
            break;
        }

        conn->unfinished = 0;
        conn->elements = 0;
        conn->silent = 0;

        clean_error(reply);

        if (conn->is_ready) {
            conn->reply(conn, reply);

        } else {
            on_handshake_reply(conn, reply);
            freeReplyObject(reply);
        }

        if (is_replaced(conn, number)) {
            return NGX_DONE;
        }
    }

    excess = reply_excess(conn);
    if (excess) {
        ngx_chat_redis_conn_fail(conn, "%s", excess);
        return NGX_DONE;
    }

    return NGX_OK;
}


/* The connection has ended, by a FIN or an error. */
static void
on_end(ngx_chat_redis_conn_t *conn, ngx_uint_t fin)
{
    if (conn->due) {
        /* a TLS server also closes a connection that sends plain text */
        ngx_chat_redis_conn_fail(conn, "closed before its first reply%s",
                                 !conn->conf->tls && conn->host->host.len
                                     ? ", it may require rediss://"
                                     : "");

    } else if (fin) {
        ngx_chat_redis_conn_fail(conn, "closed by the server");

    } else {
        fail_logged(conn);
    }
}


static void
on_readable(ngx_event_t *rev)
{
    ssize_t                n;
    u_char                 bytes[16384];
    ngx_uint_t             i;
    ngx_connection_t      *c = rev->data;
    ngx_chat_redis_conn_t *conn = c->data;

    for (i = 0; i < NGX_CHAT_REDIS_READS; i++) {
        n = c->recv(c, bytes, sizeof(bytes));

        if (n == NGX_AGAIN) {
            if (ngx_handle_read_event(rev, 0) != NGX_OK) {
                fail_logged(conn);
            }

            return;
        }

        if (n <= 0) {
            on_end(conn, n == 0);
            return;
        }

        if (feed_reader(conn, (char *) bytes, n) != NGX_OK) {
            return;
        }
    }

    /* other connections of this worker come first */
    ngx_post_event(rev, &ngx_posted_next_events);
}


static void
on_writable(ngx_event_t *wev)
{
    ngx_connection_t      *c = wev->data;
    ngx_atomic_uint_t      number = c->number;
    ngx_chat_redis_conn_t *conn = c->data;

    if (send_output(conn) != NGX_OK) {
        /* the server may have sent the reason before it closed */
        on_readable(c->read);

        if (!is_replaced(conn, number)) {
            fail_logged(conn);
        }

        return;
    }

    if (ngx_handle_write_event(wev, 0) != NGX_OK) {
        fail_logged(conn);
    }
}


/*
 * Begins to read and write, and sends the handshake: AUTH with a password,
 * SELECT with a database, and ROLE behind Sentinel, which may name a server
 * that is no master. Without these, PING shows that it is a Redis server.
 */
static void
start_handshake(ngx_chat_redis_conn_t *conn)
{
    ngx_connection_t            *c = conn->peer.connection;
    const ngx_chat_redis_conf_t *conf = conn->conf;
    ngx_chat_redis_args_t        auth = { 0 };

    c->read->handler = on_readable;
    c->write->handler = on_writable;

    /* there is no event for bytes that arrived while it connected */
    ngx_post_event(c->read, &ngx_posted_events);

    if (conf->password.len) {
        conn->due++;
        ngx_chat_redis_arg(&auth, chat_cstr("AUTH"));
        if (conf->user.len) {
            ngx_chat_redis_arg(&auth, ngx_chat_str(&conf->user));
        }
        ngx_chat_redis_arg(&auth, ngx_chat_str(&conf->password));
        (void) ngx_chat_redis_conn_send(conn, &auth);
        chat_buf_free(&auth.text);
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


#if (NGX_SSL)

static void
on_tls_handshake(ngx_connection_t *c)
{
    SSL                   *ssl = c->ssl->connection;
    long                   rc = SSL_get_verify_result(ssl);
    ngx_chat_redis_conn_t *conn = c->data;

    if (!c->ssl->handshaked) {
        fail_logged(conn);

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
    char              *name = (char *) conn->host->host.data;
    ngx_str_t          host = conn->host->host;
    ngx_addr_t         ip;
    ngx_uint_t         ok;
    ngx_connection_t  *c = conn->peer.connection;
    X509_VERIFY_PARAM *param;

    if (ngx_ssl_create_connection(conn->conf->ssl, c, NGX_SSL_CLIENT)
        != NGX_OK) {
        fail_logged(conn);
        return;
    }

    ssl = c->ssl->connection;
    param = SSL_get0_param(ssl);

    /* the output buffer moves when it grows */
    SSL_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE
                          | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);

    /* RFC 6066: a server name is never an address */
    ok = ngx_parse_addr(conn->pool, &ip, host.data, host.len) == NGX_OK
             ? X509_VERIFY_PARAM_set1_ip_asc(param, name)
             : X509_VERIFY_PARAM_set1_host(param, name, host.len)
                   && SSL_set_tlsext_host_name(ssl, name);
    if (!ok) {
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
        fail_logged(conn);
        return;
    }

    if (ngx_tcp_nodelay(c) != NGX_OK) {
        fail_logged(conn);
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
        fail_logged(conn);
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


void
ngx_chat_redis_conn_open(ngx_chat_redis_conn_t *conn)
{
    ngx_addr_t                   addr;
    const ngx_chat_redis_host_t *host = conn->host;

    ngx_chat_redis_conn_close(conn);

    conn->pool = ngx_create_pool(1024, ngx_cycle->log);
    if (conn->pool == NULL || create_reader(conn) != NGX_OK) {
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
        on_writable(conn->peer.connection->write);
        return;
    }

    conn->has_failed = 0;
    conn->closed(conn, (const char *) conn->why);
}
