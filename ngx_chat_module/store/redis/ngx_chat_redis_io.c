/*
 * ngx_chat_redis_io.c: commands and replies of a connection.
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


ngx_int_t
ngx_chat_redis_io_create(ngx_chat_redis_conn_t *conn)
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


void
ngx_chat_redis_io_free(ngx_chat_redis_conn_t *conn)
{
    chat_buf_free(&conn->out);
    conn->sent = 0;
    redisReaderFree(conn->reader);
    conn->reader = NULL;
}


/* Adds the type and number that an array or a string begins with. */
static void
add_header(chat_buf_t *out, u_char type, size_t n)
{
    u_char text[CHAT_DIGITS + 3], *end = text + sizeof(text), *start;

    end[-2] = CR;
    end[-1] = LF;
    start = chat_digits(n, end - 2);
    *--start = type;
    chat_buf_add(out, chat_str(start, (size_t) (end - start)));
}


ngx_int_t
ngx_chat_redis_conn_send(ngx_chat_redis_conn_t *conn, const chat_str_t *args,
                         size_t argc)
{
    size_t      i, start;
    chat_buf_t *out = &conn->out;

    ngx_post_event(&conn->flush, &ngx_posted_events);

    if (conn->sent > out->len / 2) {
        out->len -= conn->sent;
        ngx_memmove(out->data, out->data + conn->sent, out->len);
        conn->sent = 0;
    }

    start = out->len;
    add_header(out, '*', argc);

    for (i = 0; i < argc; i++) {
        add_header(out, '$', args[i].len);
        chat_buf_add(out, args[i]);
        chat_buf_puts(out, "\r\n");
    }

    if (out->failed) {
        out->len = start; /* whole commands only */
        return NGX_ERROR;
    }

    return NGX_OK;
}


void
ngx_chat_redis_conn_command(ngx_chat_redis_conn_t *conn, const char *fmt, ...)
{
    u_char     text[1024], *end;
    size_t     n;
    va_list    args;
    chat_str_t rest, words[3];

    va_start(args, fmt);
    end = ngx_vslprintf(text, text + sizeof(text), fmt, args);
    va_end(args);

    rest = chat_str(text, (size_t) (end - text));

    for (n = 0; n < 3 && rest.len != 0; n++) {
        words[n] = chat_str_cut(&rest, ' ');
    }

    (void) ngx_chat_redis_conn_send(conn, words, n);
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


/* 1 if the connection of this number is closed or replaced. */
static ngx_uint_t
is_replaced(ngx_chat_redis_conn_t *conn, ngx_atomic_uint_t number)
{
    return conn->peer.connection == NULL
           || conn->peer.connection->number != number;
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
ngx_chat_redis_io_write(ngx_event_t *wev)
{
    ngx_connection_t      *c = wev->data;
    ngx_atomic_uint_t      number = c->number;
    ngx_chat_redis_conn_t *conn = c->data;

    if (send_output(conn) != NGX_OK) {
        /* the server may have sent the reason before it closed */
        ngx_chat_redis_io_read(c->read);

        if (!is_replaced(conn, number)) {
            ngx_chat_redis_conn_fail_logged(conn);
        }

        return;
    }

    if (ngx_handle_write_event(wev, 0) != NGX_OK) {
        ngx_chat_redis_conn_fail_logged(conn);
    }
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
            ngx_chat_redis_handshake_reply(conn, reply);
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
        ngx_chat_redis_conn_fail_logged(conn);
    }
}


void
ngx_chat_redis_io_read(ngx_event_t *rev)
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
                ngx_chat_redis_conn_fail_logged(conn);
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
