/*
 * ngx_chat_redis_io.c: what goes over a connection to a Redis server: the
 * first words, commands, replies.
 *
 * Promises: a connection of months holds no more memory than one just made;
 * no reply, however long, stops a worker or fills it; a callback may close
 * the connection and open it again.
 * Must not know: which commands there are, but for the first ones.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "store/redis/ngx_chat_redis_conn.h"
#include "facts/chat_store.h"

#define NGX_CHAT_REDIS_BLOCK 16384
#define NGX_CHAT_REDIS_READS 64
#define NGX_CHAT_REDIS_WORDS 3
#define NGX_CHAT_REDIS_COMMAND_MAX (512 * 1024 * 1024)
#define NGX_CHAT_REDIS_REPLY_MAX (256 * 1024 * 1024)
#define NGX_CHAT_REDIS_LINE_MAX 65536

/*
 * Elements of a reply, in all its arrays: two for each fact of a key, which
 * has at most twice as many as a join may have, and one for each worker.
 */
#define NGX_CHAT_REDIS_ARRAY_MAX (4 * CHAT_STORE_FACTS_MAX + 4096)

/* What hiredis counts the elements of an array in. */
#if (HIREDIS_MAJOR > 0)
typedef size_t ngx_chat_redis_count_t;
#else
typedef int ngx_chat_redis_count_t;
#endif

/* Output, one allocation each: these and the bytes behind them. */
typedef struct {
    ngx_chain_t link; /* first: the chain is of these */
    ngx_buf_t   buf;
} ngx_chat_redis_block_t;

static void on_readable(ngx_event_t *rev);

/* hiredis' own; set before the first reader is used. */
static void *(*create_array)(const redisReadTask   *task,
                             ngx_chat_redis_count_t n);


/*
 * An array takes its memory before an element of it has come, and an element
 * many times the memory of its text.
 */
static void *
create_bounded_array(const redisReadTask *task, ngx_chat_redis_count_t n)
{
    ngx_chat_redis_conn_t *conn = task->privdata;

    if ((size_t) n > NGX_CHAT_REDIS_ARRAY_MAX - conn->elements) {
        return NULL;
    }

    conn->elements += (size_t) n;
    return create_array(task, n);
}


redisReader *
ngx_chat_redis_io_reader(ngx_chat_redis_conn_t *conn)
{
    redisReader                     *reader;
    static redisReplyObjectFunctions functions;

    reader = redisReaderCreate();
    if (reader == NULL) {
        return NULL;
    }

    functions = *reader->fn;
    create_array = functions.createArray;
    functions.createArray = create_bounded_array;
    reader->fn = &functions;
    reader->privdata = conn;
    conn->elements = 0;
    return reader;
}


void
ngx_chat_redis_io_drop(ngx_chat_redis_conn_t *conn, ngx_chain_t *end)
{
    ngx_chain_t *link;

    while (conn->out != end) {
        link = conn->out;
        conn->out = link->next;
        ngx_free(link);
    }

    if (conn->out == NULL) {
        conn->last = NULL;
    }
}


/* Makes a block with room for n bytes the last one. */
static ngx_int_t
grow_output(ngx_chat_redis_conn_t *conn, size_t n)
{
    u_char                 *p;
    ngx_chat_redis_block_t *block;

    n = ngx_max(n, NGX_CHAT_REDIS_BLOCK - sizeof(ngx_chat_redis_block_t));

    p = ngx_alloc(sizeof(ngx_chat_redis_block_t) + n, conn->peer.log);
    if (p == NULL) {
        return NGX_ERROR;
    }

    block = (ngx_chat_redis_block_t *) p;
    ngx_memzero(block, sizeof(ngx_chat_redis_block_t));
    p += sizeof(ngx_chat_redis_block_t);

    block->link.buf = &block->buf;
    block->buf.temporary = 1;
    block->buf.start = p;
    block->buf.pos = p;
    block->buf.last = p;
    block->buf.end = p + n;

    if (conn->last) {
        conn->last->next = &block->link;
    } else {
        conn->out = &block->link;
    }

    conn->last = &block->link;
    return NGX_OK;
}


/* All of it or, without memory, nothing. */
static ngx_int_t
append_output(ngx_chat_redis_conn_t *conn, const char *bytes, size_t n)
{
    size_t       room;
    ngx_buf_t   *buf;
    ngx_chain_t *link = conn->last;

    room = link ? (size_t) (link->buf->end - link->buf->last) : 0;
    room = ngx_min(room, n);

    if (room < n && grow_output(conn, n - room) != NGX_OK) {
        return NGX_ERROR;
    }

    if (link) {
        link->buf->last = ngx_cpymem(link->buf->last, bytes, room);
    }

    buf = conn->last->buf;
    buf->last = ngx_cpymem(buf->last, bytes + room, n - room);
    conn->unsent += n;
    return NGX_OK;
}


ngx_int_t
ngx_chat_redis_io_put(ngx_chat_redis_conn_t *conn, size_t argc,
                      const char **argv, const size_t *len)
{
    char     *command;
    size_t    i, total = 0;
    ngx_int_t n, rc;

    for (i = 0; i < argc; i++) {
        if (i == NGX_CHAT_REDIS_ARRAY_MAX
            || len[i] > NGX_CHAT_REDIS_COMMAND_MAX - total)
        {
            return NGX_ERROR;
        }

        total += len[i];
    }

    n = redisFormatCommandArgv(&command, (int) argc, argv, len);
    if (n < 0) {
        return NGX_ERROR;
    }

    rc = append_output(conn, command, n);
    redisFreeCommand(command);

    if (rc == NGX_OK) {
        ngx_post_event(&conn->flush, &ngx_posted_events);
    }

    return rc;
}


ngx_int_t
ngx_chat_redis_conn_send(ngx_chat_redis_conn_t *conn, size_t argc,
                         const char **argv, const size_t *len)
{
    return conn->is_ready ? ngx_chat_redis_io_put(conn, argc, argv, len)
                          : NGX_ERROR;
}


void
ngx_chat_redis_conn_command(ngx_chat_redis_conn_t *conn,
                            const ngx_str_t *words, ngx_uint_t n)
{
    size_t      len[NGX_CHAT_REDIS_WORDS];
    ngx_uint_t  i;
    const char *argv[NGX_CHAT_REDIS_WORDS];

    n = ngx_min(n, NGX_CHAT_REDIS_WORDS);

    for (i = 0; i < n; i++) {
        argv[i] = (const char *) words[i].data;
        len[i] = words[i].len;
    }

    (void) ngx_chat_redis_conn_send(conn, n, argv, len);
}


size_t
ngx_chat_redis_error(const redisReply *reply, u_char *text)
{
    size_t  len = reply->str ? (size_t) reply->len : 0, i;
    u_char *args = NULL;

    /* what follows may be a password, or a result */
    if (len != 0) {
        args = ngx_strlcasestrn((u_char *) reply->str,
                                (u_char *) reply->str + len,
                                (u_char *) ", with args", 11 - 1);
    }

    if (args != NULL) {
        len = (size_t) (args - (u_char *) reply->str);
    }

    len = ngx_min(len, NGX_CHAT_REDIS_ERROR - 1);

    for (i = 0; i < len; i++) {
        text[i] = (u_char) reply->str[i];

        if (text[i] < ' ' || text[i] > '~') {
            text[i] = '.';
        }
    }

    text[len] = '\0';
    return len;
}


const char *
ngx_chat_redis_error_reason(const redisReply *reply, u_char *text)
{
    u_char error[NGX_CHAT_REDIS_ERROR];

    (void) ngx_chat_redis_error(reply, error);
    (void) ngx_snprintf(text, NGX_CHAT_REDIS_REASON, "it answers %s%Z", error);
    return (const char *) text;
}


/* 1 if conn does not stand on the connection of this number any more. */
static ngx_uint_t
is_replaced(ngx_chat_redis_conn_t *conn, ngx_atomic_uint_t number)
{
    return conn->peer.connection == NULL
           || conn->peer.connection->number != number;
}


/* Sends what can be sent now. */
static ngx_int_t
send_output(ngx_chat_redis_conn_t *conn)
{
    off_t             sent;
    ngx_chain_t      *rest;
    ngx_connection_t *c = conn->peer.connection;

    if (conn->out == NULL) {
        return NGX_OK;
    }

    sent = c->sent;
    rest = c->send_chain(c, conn->out, 0);

    if (rest == NGX_CHAIN_ERROR) {
        return NGX_ERROR;
    }

    conn->unsent -= (size_t) (c->sent - sent);
    ngx_chat_redis_io_drop(conn, rest);
    return NGX_OK;
}


void
ngx_chat_redis_conn_flush(ngx_chat_redis_conn_t *conn)
{
    /* an error is met again by the event that is posted anyway */
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
        /* the server may have said why before it went */
        on_readable(c->read);

        if (!is_replaced(conn, number)) {
            ngx_chat_redis_conn_fail_logged(conn);
        }

        return;
    }

    if (conn->out && wev->ready) {
        ngx_post_event(wev, &ngx_posted_next_events);
    }

    if (ngx_handle_write_event(wev, 0) != NGX_OK) {
        ngx_chat_redis_conn_fail_logged(conn);
    }
}


void
ngx_chat_redis_io_start(ngx_chat_redis_conn_t *conn)
{
    ngx_connection_t *c = conn->peer.connection;

    c->read->handler = on_readable;
    c->write->handler = ngx_chat_redis_io_write;

    if (ngx_chat_redis_handshake(conn) != NGX_OK) {
        ngx_chat_redis_conn_fail(conn, "no memory");
        return;
    }

    /* what has come with the end of connecting is not signalled again */
    ngx_post_event(c->read, &ngx_posted_events);
}


/* NULL: what the reader holds of an unfinished reply can be one. */
static const char *
reply_excess(ngx_chat_redis_conn_t *conn)
{
    redisReader *reader = conn->reader;

    if (conn->unfinished > NGX_CHAT_REDIS_REPLY_MAX) {
        return "a reply is too large";
    }

    /* it is searched from its beginning whenever something comes */
    if (reader->len - reader->pos > NGX_CHAT_REDIS_LINE_MAX
        && memchr(reader->buf + reader->pos, '\n', NGX_CHAT_REDIS_LINE_MAX)
               == NULL)
    {
        return "a line of a reply is too long";
    }

    return NULL;
}


/* NGX_DONE: the connection is not there any more. */
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


static ngx_uint_t
is_plain(const ngx_chat_redis_conn_t *conn)
{
#if (NGX_SSL)
    return conn->conf->ssl == NULL && conn->host->host.len > 0;
#else
    return conn->host->host.len > 0;
#endif
}


/* The connection has ended, by a FIN or else. */
static void
on_end(ngx_chat_redis_conn_t *conn, ngx_uint_t fin)
{
    redisReader *reader = conn->reader;

    if (reader->pos < reader->len || reader->reply) {
        ngx_chat_redis_conn_fail(conn, "closed in the middle of a reply");

    } else if (conn->due) {
        /* what a TLS server does with plain text, too */
        ngx_chat_redis_conn_fail(conn, "closed before its first answer%s",
                                 is_plain(conn) ? ", it may want rediss://"
                                                : "");

    } else if (fin) {
        ngx_chat_redis_conn_fail(conn, "closed by the server");

    } else {
        ngx_chat_redis_conn_fail_logged(conn);
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

    /* the others of this worker come first */
    ngx_post_event(rev, &ngx_posted_next_events);
}
