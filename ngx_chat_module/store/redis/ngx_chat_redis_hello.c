/*
 * ngx_chat_redis_hello.c: the first words to a Redis server, and its answers.
 *
 * Promises: whoever is told that a connection is ready talks to a Redis server
 * that knows this user and this database and, where sentinels have named it,
 * is a master; no password is in what is said of a failure.
 * Must not know: what the connection is for.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "store/redis/ngx_chat_redis_conn.h"


/* The last word, if there is one behind AUTH and SELECT; or NULL. */
static const char *
ngx_chat_redis_hello_last(const ngx_chat_redis_conf_t *conf)
{
    if (conf->scheme == NGX_CHAT_REDIS_SENTINEL) {
        return "ROLE";
    }

    /* a connection alone does not show that there is a Redis server */
    return conf->password.len || conf->db ? NULL : "PING";
}


ngx_int_t
ngx_chat_redis_hello(ngx_chat_redis_conn_t *conn)
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

    argv[0] = ngx_chat_redis_hello_last(conf);
    if (argv[0] == NULL) {
        return NGX_OK;
    }

    len[0] = 4;
    conn->due++;
    return ngx_chat_redis_io_put(conn, 1, argv, len);
}


/* Which word the next reply answers. */
static const char *
ngx_chat_redis_hello_asked(const ngx_chat_redis_conn_t *conn)
{
    const char *last = ngx_chat_redis_hello_last(conn->conf);
    ngx_uint_t  behind = conn->due - (last ? 1 : 0);

    if (behind == 0) {
        return last;
    }

    return behind == 1 && conn->conf->db ? "SELECT" : "AUTH";
}


/* 1 if this is a good answer to it. */
static ngx_uint_t
ngx_chat_redis_hello_agrees(const char *asked, const redisReply *reply)
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
ngx_chat_redis_hello_answer(ngx_chat_redis_conn_t *conn, redisReply *reply)
{
    u_char      text[NGX_CHAT_REDIS_ERROR];
    const char *asked = ngx_chat_redis_hello_asked(conn);

    if (reply->type == REDIS_REPLY_ERROR
        && !ngx_chat_redis_hello_agrees(asked, reply))
    {
        (void) ngx_chat_redis_error(reply, text);
        ngx_chat_redis_conn_fail(conn, "%s: %s", asked, text);
        return;
    }

    if (!ngx_chat_redis_hello_agrees(asked, reply)) {
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
