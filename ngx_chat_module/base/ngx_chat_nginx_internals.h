/*
 * ngx_chat_nginx_internals.h: code that relies on behaviour of NGINX that its
 * API does not promise.
 *
 * Read in the sources of 1.22.1 (Debian 12) and 1.26.3 (Debian 13). Newer
 * versions are only compiled against (t/builds.sh). Check these functions
 * first when a new NGINX behaves differently. The functions of an upstream
 * that are wrapped are in response/ngx_chat_upstream.c.
 */

#ifndef NGX_CHAT_NGINX_INTERNALS_H
#define NGX_CHAT_NGINX_INTERNALS_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

/*
 * Gives a body of which the header's buffer has the beginning one buffer for
 * all of it, if NGINX would read the rest into memory: it reads a body into
 * r->header_in that fits there. The handler of the body sets r->header_in back
 * to the return value. NULL: no memory.
 */
ngx_buf_t *ngx_chat_nginx_one_buffer(ngx_http_request_t *r);

/*
 * 1 if the request has an upstream that has not been finalized: NGINX clears
 * u->cleanup there (ngx_http_upstream_finalize_request()).
 */
ngx_uint_t ngx_chat_nginx_upstream_runs(ngx_http_request_t *r);

/* Closes the upstream by its own cleanup handler; the request continues. */
void ngx_chat_nginx_upstream_close(ngx_http_request_t *r);

/*
 * Ends the upstream as proxy_read_timeout does: its read handler checks
 * read->timedout. The request may have ended afterwards.
 */
void ngx_chat_nginx_upstream_time_out(ngx_http_request_t *r);

/*
 * Lets the event loop go round once before the upstream is read again: its
 * read handler loops while read->ready.
 */
void ngx_chat_nginx_upstream_yield(ngx_connection_t *c);

/*
 * How long an upstream of the request's location may take until its answer
 * begins, ms: its timeouts to connect, send and read together; of several
 * tries only the first. The configurations of all modules with a ..._pass
 * directive begin with an ngx_http_upstream_conf_t. Where the directive has
 * variables, its module is not known: it is the longest of all.
 */
ngx_msec_t ngx_chat_nginx_upstream_longest(ngx_http_request_t *r);

/*
 * 1 if the upstream goes on for a client that has shut its side of the
 * connection (proxy_ignore_client_abort, proxy_store). Once the upstream has
 * ended, ngx_http_test_reading() closes such a connection, with all output
 * that waits for the client.
 */
ngx_uint_t ngx_chat_nginx_ignores_abort(ngx_http_request_t *r);

/*
 * 1 if the client has gone, as ngx_http_upstream_check_broken_connection()
 * finds it, which would end the request.
 */
ngx_uint_t ngx_chat_nginx_client_is_gone(ngx_http_request_t *r);

/*
 * Separates the upstream from a client that has left. Output on its way may
 * still be queued for an HTTP/2 connection, so its buffers stay where they
 * are, and the upstream gets a new buffer to read into. The connection looks
 * broken, but writable and without output, so that the upstream goes on.
 * NGX_ERROR: no memory.
 */
ngx_int_t ngx_chat_nginx_detach_client(ngx_http_request_t *r);

/*
 * The header was sent before an internal redirect, which has wiped what the
 * later filters noted in r->ctx; saved has it, for ngx_http_max_module. Sets
 * r->header_sent.
 */
void ngx_chat_nginx_restore_filters(ngx_http_request_t *r, void **saved);

#endif /* NGX_CHAT_NGINX_INTERNALS_H */
