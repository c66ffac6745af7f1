/*
 * ngx_chat_redis_tls.c: TLS to a Redis server: the handshake, and the check of
 * the server's certificate.
 *
 * With verify, nothing is sent to a server unless its certificate is valid and
 * names its host.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/redis/ngx_chat_redis_conn.h"

#if (NGX_SSL)


static ngx_int_t
check_host(ngx_connection_t *c, ngx_str_t host)
{
    int   rc;
    X509 *cert;

    if (!ngx_chat_redis_is_ip(&host)) {
        return ngx_ssl_check_host(c, &host);
    }

    /* ngx_ssl_check_host() compares names only */
    cert = SSL_get_peer_certificate(c->ssl->connection);
    if (cert == NULL) {
        return NGX_ERROR;
    }

    rc = X509_check_ip_asc(cert, (char *) host.data, 0);
    X509_free(cert);
    return rc == 1 ? NGX_OK : NGX_ERROR;
}


static void
on_handshake(ngx_connection_t *c)
{
    long                   rc;
    ngx_chat_redis_conn_t *conn = c->data;

    if (!c->ssl->handshaked) {
        ngx_chat_redis_conn_fail_logged(conn);
        return;
    }

    if (conn->conf->verify) {
        rc = SSL_get_verify_result(c->ssl->connection);
        if (rc != X509_V_OK) {
            ngx_chat_redis_conn_fail(conn,
                                     "certificate verification failed "
                                     "(%l: %s)",
                                     rc, X509_verify_cert_error_string(rc));
            return;
        }

        if (check_host(c, conn->host->host) != NGX_OK) {
            ngx_chat_redis_conn_fail(conn, "its certificate does not name %V",
                                     &conn->host->host);
            return;
        }
    }

    ngx_chat_redis_conn_established(conn);
}


void
ngx_chat_redis_tls_start(ngx_chat_redis_conn_t *conn)
{
    ngx_int_t                    rc;
    ngx_connection_t            *c = conn->peer.connection;
    const ngx_chat_redis_host_t *host = conn->host;

    if (ngx_ssl_create_connection(conn->conf->ssl, c, NGX_SSL_CLIENT)
        != NGX_OK) {
        ngx_chat_redis_conn_fail_logged(conn);
        return;
    }

    /* the output moves when it grows */
    SSL_set_mode(c->ssl->connection,
                 SSL_MODE_ENABLE_PARTIAL_WRITE
                     | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);

    /* RFC 6066: a server name is never an address */
    if (!ngx_chat_redis_is_ip(&host->host)
        && SSL_set_tlsext_host_name(c->ssl->connection,
                                    (char *) host->host.data)
               == 0)
    {
        ngx_chat_redis_conn_fail(conn, "no memory");
        return;
    }

    rc = ngx_ssl_handshake(c);
    if (rc == NGX_AGAIN) {
        c->ssl->handler = on_handshake;
        return;
    }

    on_handshake(c);
}


#endif /* NGX_SSL */
