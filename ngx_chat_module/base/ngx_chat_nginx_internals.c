/*
 * ngx_chat_nginx_internals.c: see ngx_chat_nginx_internals.h.
 *
 * The header names the behaviour of NGINX that each function relies on.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "base/ngx_chat_nginx_internals.h"


ngx_buf_t *
ngx_chat_nginx_one_buffer(ngx_http_request_t *r)
{
    off_t                     len = r->headers_in.content_length_n, rest;
    size_t                    size;
    ngx_buf_t                *b, *own = r->header_in;
    ngx_http_core_loc_conf_t *clcf;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);
    size = clcf->client_body_buffer_size;
    rest = len - (own->last - own->pos);

    if (r->http_version >= NGX_HTTP_VERSION_20 || r->headers_in.chunked
        || r->request_body != NULL || rest == len || rest <= 0
        || rest >= (off_t) (size + (size >> 2)))
    {
        return own;
    }

    b = ngx_calloc_buf(r->pool);
    if (b == NULL) {
        return NULL;
    }

    b->start = ngx_pmemalign(r->pool, (size_t) len, NGX_ALIGNMENT);
    if (b->start == NULL) {
        return NULL;
    }

    b->temporary = 1;
    b->pos = b->start;
    b->last = ngx_cpymem(b->pos, own->pos, (size_t) (len - rest));
    b->end = b->start + len;
    r->header_in = b;
    own->pos = own->last;
    return own;
}


ngx_uint_t
ngx_chat_nginx_upstream_runs(ngx_http_request_t *r)
{
    return r->upstream != NULL && r->upstream->cleanup != NULL;
}


void
ngx_chat_nginx_upstream_close(ngx_http_request_t *r)
{
    (*r->upstream->cleanup)(r);
}


void
ngx_chat_nginx_upstream_time_out(ngx_http_request_t *r)
{
    ngx_event_t *read = r->upstream->peer.connection->read;

    read->timedout = 1;
    read->handler(read);
}


void
ngx_chat_nginx_upstream_yield(ngx_connection_t *c)
{
    ngx_event_t *rev = c->read;

    rev->ready = 0;

    if (rev->posted) {
        ngx_delete_posted_event(rev); /* which would find nothing to read */
    }

    ngx_post_event(rev, &ngx_posted_next_events);
}


ngx_msec_t
ngx_chat_nginx_upstream_longest(ngx_http_request_t *r)
{
    size_t                    n;
    ngx_msec_t                sum, any = 0, own = 0;
    ngx_uint_t                i;
    ngx_module_t             *module;
    ngx_http_upstream_conf_t *conf;
    static const char        *names[] = { "ngx_http_proxy_module",
                                          "ngx_http_grpc_module",
                                          "ngx_http_fastcgi_module",
                                          "ngx_http_uwsgi_module",
                                          "ngx_http_scgi_module" };

    for (i = 0; (module = ngx_cycle->modules[i]) != NULL; i++) {
        for (n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
            if (ngx_strcmp(module->name, names[n]) == 0) {
                conf = r->loc_conf[module->ctx_index];
                sum = conf->connect_timeout + conf->send_timeout
                      + conf->read_timeout;
                any = ngx_max(any, sum);
                own = conf->upstream != NULL ? sum : own;
            }
        }
    }

    return own != 0 ? own : any;
}


ngx_uint_t
ngx_chat_nginx_ignores_abort(ngx_http_request_t *r)
{
    return r->upstream->conf->ignore_client_abort || r->upstream->store;
}


ngx_uint_t
ngx_chat_nginx_client_is_gone(ngx_http_request_t *r)
{
    char              byte;
    ssize_t           n;
    ngx_connection_t *c = r->connection;

    if (ngx_chat_nginx_ignores_abort(r)) {
        /* nothing can be written to it: its next event would find that */
        return c->error && r->upstream->header_sent;
    }

    if (c->error || r->stream != NULL) {
        return c->error;
    }

#if (NGX_HAVE_EPOLLRDHUP)
    if ((ngx_event_flags & NGX_USE_EPOLL_EVENT) && ngx_use_epoll_rdhup) {
        return c->read->pending_eof;
    }
#endif

    n = recv(c->fd, &byte, 1, MSG_PEEK);
    return n == 0 || (n == -1 && ngx_socket_errno != NGX_EAGAIN);
}


static ngx_int_t
replace_buffer(ngx_http_request_t *r)
{
    ngx_http_upstream_t *u = r->upstream;
    size_t               size = (size_t) (u->buffer.end - u->buffer.start);
    u_char              *p = ngx_palloc(r->pool, size);

    if (p == NULL) {
        return NGX_ERROR;
    }

    u->buffer.start = u->buffer.pos = u->buffer.last = p;
    u->buffer.end = p + size;
    u->out_bufs = u->busy_bufs = NULL;
    return NGX_OK;
}


ngx_int_t
ngx_chat_nginx_detach_client(ngx_http_request_t *r)
{
    ngx_connection_t *c = r->connection;

    if (r->upstream->header_sent && replace_buffer(r) != NGX_OK) {
        return NGX_ERROR;
    }

    r->out = NULL;
    c->error = 1;
    c->timedout = 0;
    c->buffered = 0;
    c->write->ready = 1;
    c->write->timedout = 0;
    c->write->delayed = 0;

    if (c->write->timer_set) {
        ngx_del_timer(c->write);
    }

    return NGX_OK;
}


void
ngx_chat_nginx_restore_filters(ngx_http_request_t *r, void **saved)
{
    ngx_uint_t i;

    r->header_sent = 1;

    for (i = 0; i < ngx_http_max_module; i++) {
        if (r->ctx[i] == NULL) {
            r->ctx[i] = saved[i];
        }
    }
}
