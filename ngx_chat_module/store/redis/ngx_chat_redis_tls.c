/*
 * ngx_chat_redis_tls.c: a connection to a Redis server over TLS: whom to
 * trust, the handshake, whose certificate it is.
 *
 * Promises: with verify, nothing is said to a server whose certificate is not
 * good or does not name its host.
 * Must not know: what is said.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/redis/ngx_chat_redis_conf.h"
#include "store/redis/ngx_chat_redis_conn.h"

#if (NGX_SSL)

#define NGX_CHAT_REDIS_CHAIN_MAX 9

static void on_tls_handshake(ngx_connection_t *c);


static ngx_int_t
load_trusted(ngx_chat_redis_url_t *url)
{
    ngx_ssl_t *ssl = url->conf->ssl;

    if (ngx_ssl_trusted_certificate(url->cf, ssl, &url->ca,
                                    NGX_CHAT_REDIS_CHAIN_MAX)
        != NGX_OK)
    {
        return ngx_chat_redis_invalid(url, "ca", "a file of PEM certificates");
    }

    if (url->ca.len == 0 && SSL_CTX_set_default_verify_paths(ssl->ctx) == 0) {
        ngx_ssl_error(NGX_LOG_EMERG, ssl->log, 0,
                      "SSL_CTX_set_default_verify_paths() failed");
        return NGX_ERROR;
    }

    return NGX_OK;
}


ngx_int_t
ngx_chat_redis_create_ssl(ngx_chat_redis_url_t *url)
{
    ngx_ssl_t          *ssl;
    ngx_pool_cleanup_t *cleanup;

    ssl = ngx_pcalloc(url->cf->pool, sizeof(ngx_ssl_t));
    cleanup = ngx_pool_cleanup_add(url->cf->pool, 0);
    if (ssl == NULL || cleanup == NULL) {
        return NGX_ERROR;
    }

    ssl->log = url->cf->log;
    url->conf->ssl = ssl;
    cleanup->handler = ngx_ssl_cleanup_ctx;
    cleanup->data = ssl;

    if (ngx_ssl_create(ssl, NGX_SSL_TLSv1_2 | NGX_SSL_TLSv1_3, NULL) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return url->conf->verify ? load_trusted(url) : NGX_OK;
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

    /* RFC 6066: the name that is asked for is never an address */
    if (!ngx_chat_redis_is_address(&host->host)
        && SSL_set_tlsext_host_name(c->ssl->connection,
                                    (char *) host->host.data)
               == 0)
    {
        ngx_chat_redis_conn_fail(conn, "no memory");
        return;
    }

    rc = ngx_ssl_handshake(c);
    if (rc == NGX_AGAIN) {
        c->ssl->handler = on_tls_handshake;
        return;
    }

    on_tls_handshake(c);
}


static ngx_int_t
check_name(ngx_connection_t *c, ngx_str_t host)
{
    int   rc;
    X509 *cert;

    if (!ngx_chat_redis_is_address(&host)) {
        return ngx_ssl_check_host(c, &host);
    }

    cert = SSL_get_peer_certificate(c->ssl->connection);
    if (cert == NULL) {
        return NGX_ERROR;
    }

    /* NGINX compares with names only; the configuration ends it with a 0 */
    rc = X509_check_ip_asc(cert, (char *) host.data, 0);
    X509_free(cert);
    return rc == 1 ? NGX_OK : NGX_ERROR;
}


static void
on_tls_handshake(ngx_connection_t *c)
{
    long                   rc;
    ngx_chat_redis_conn_t *conn = c->data;

    if (!c->ssl->handshaked) {
        ngx_chat_redis_conn_fail_logged(conn);
        return;
    }

    if (!conn->conf->verify) {
        ngx_chat_redis_io_start(conn);
        return;
    }

    rc = SSL_get_verify_result(c->ssl->connection);
    if (rc != X509_V_OK) {
        ngx_chat_redis_conn_fail(conn, "its certificate is not good (%l: %s)",
                                 rc, X509_verify_cert_error_string(rc));
        return;
    }

    if (check_name(c, conn->host->host) != NGX_OK) {
        ngx_chat_redis_conn_fail(conn, "its certificate does not name %V",
                                 &conn->host->host);
        return;
    }

    ngx_chat_redis_io_start(conn);
}


#endif /* NGX_SSL */
