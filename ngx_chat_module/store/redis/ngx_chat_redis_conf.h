/*
 * ngx_chat_redis_conf.h: chat_store's arguments for Redis, and addresses.
 *
 * A host is a name or an address of a server with a port, or a socket. An
 * address is a host with its own memory, as servers name them at run time.
 */

#ifndef NGX_CHAT_REDIS_CONF_H
#define NGX_CHAT_REDIS_CONF_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "bytes/chat_str.h"

/* What the hosts of chat_store are. */
typedef enum {
    NGX_CHAT_REDIS_ONE,      /* one server */
    NGX_CHAT_REDIS_SENTINEL, /* Sentinels that know the master's address */
    NGX_CHAT_REDIS_CLUSTER   /* some nodes of a cluster */
} ngx_chat_redis_scheme_e;

/* A server. */
typedef struct {
    ngx_str_t   name; /* for logs: host:port or unix:path */
    ngx_str_t   host; /* the name in its certificate; NUL-terminated */
    in_port_t   port;
    ngx_addr_t *addrs; /* none: connect to target */
    ngx_uint_t  naddrs;
    ngx_str_t   target; /* an IP address; any other text: resolve host */
} ngx_chat_redis_host_t;

/* A host with the memory that it points to. */
typedef struct {
    ngx_chat_redis_host_t host;
    u_char                text[256];                      /* of host.host */
    u_char                name[256 + sizeof("[]:65535")]; /* of host.name */
    u_char                ip[NGX_SOCKADDR_STRLEN];        /* of host.target */
} ngx_chat_redis_address_t;

/* What chat_store says; lives as long as the configuration. */
typedef struct {
    ngx_chat_redis_scheme_e scheme;
    ngx_str_t               name; /* for logs: hosts and master */
    ngx_chat_redis_host_t  *hosts;
    ngx_uint_t              nhosts;
    ngx_str_t               master; /* its name in the Sentinels */
    ngx_str_t               sentinel_user;
    ngx_str_t               sentinel_password;
    ngx_str_t               sentinel_file; /* of its password, or empty */
    ngx_resolver_t         *resolver; /* NULL: names are resolved at start */
    ngx_str_t               user;     /* empty: the default user */
    ngx_str_t               password; /* empty: no AUTH */
    ngx_str_t               password_file;
    ngx_int_t               db;
    ngx_msec_t              timeout; /* of a command and of connecting */
    ngx_msec_t              ttl;     /* of batches; UNSET: the default */
    ngx_uint_t              tls;
    ngx_str_t               ca;     /* a file; empty: the system's CAs */
    ngx_flag_t              verify; /* the certificate */
#if (NGX_SSL)
    ngx_ssl_t *ssl; /* NULL: plain */
#endif
} ngx_chat_redis_conf_t;

/* Reads chat_store's arguments. NULL: an error, logged without passwords. */
ngx_chat_redis_conf_t *ngx_chat_redis_conf_read(ngx_conf_t *cf);

/*
 * When all of http is read: resolves host names, unless http has a resolver
 * for run time. NGX_ERROR: it has been logged.
 */
ngx_int_t ngx_chat_redis_conf_init(ngx_conf_t            *cf,
                                   ngx_chat_redis_conf_t *conf);

/* 1 if the host is called so. */
ngx_uint_t ngx_chat_redis_host_is(const ngx_chat_redis_host_t *host,
                                  chat_str_t name, ngx_int_t port);

/* NGX_ERROR: host or port are invalid; the address stays what it was. */
ngx_int_t ngx_chat_redis_address_set(ngx_chat_redis_address_t *address,
                                     chat_str_t host, ngx_int_t port);

/* Resolves a name to this IP address. */
void ngx_chat_redis_address_set_ip(ngx_chat_redis_address_t *address,
                                   chat_str_t                ip);

#endif /* NGX_CHAT_REDIS_CONF_H */
