/*
 * ngx_chat_redis_hello.c: the first words to a Redis server, and its answers.
 *
 * Promises: whoever is told that a connection is ready talks to a Redis server
 * that knows this user and this database; no password is in what is said of
 * a failure. Must not know: what the connection is for.
 */

#include "ngx_chat_redis_conn.h"


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
        return ngx_chat_redis_io_put(conn, 2, argv, len);
    }

    if (conn->due) {
        return NGX_OK;
    }

    /* a connection alone does not show that there is a Redis server */
    argv[0] = "PING";
    len[0] = 4;
    conn->due++;
    return ngx_chat_redis_io_put(conn, 1, argv, len);
}


void
ngx_chat_redis_hello_answer(ngx_chat_redis_conn_t *conn, redisReply *reply)
{
    size_t                       len;
    const char                  *asked = "PING", *args;
    const ngx_chat_redis_conf_t *conf = conn->conf;

    if (conf->password.len && (conn->due == 2 || conf->db == 0)) {
        asked = "AUTH";

    } else if (conf->db) {
        asked = "SELECT";
    }

    /* a user who may not PING has been heard all the same */
    if (reply->type != REDIS_REPLY_STATUS
        && !(reply->type == REDIS_REPLY_ERROR && *asked == 'P'
             && ngx_strncmp(reply->str, "NOPERM", 6) == 0))
    {
        if (reply->type != REDIS_REPLY_ERROR) {
            ngx_chat_redis_conn_fail(conn, "%s: not an answer to it", asked);
            return;
        }

        /* what follows may be a password */
        args = strstr(reply->str, ", with args");
        len = args ? (size_t) (args - reply->str) : ngx_strlen(reply->str);
        ngx_chat_redis_conn_fail(conn, "%s: %*s", asked, len, reply->str);
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
