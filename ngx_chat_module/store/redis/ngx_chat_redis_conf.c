/*
 * ngx_chat_redis_conf.c: chat_store with Redis, and addresses of servers, as
 * the URL has them and as servers name them at run time.
 *
 * redis://[user[:password]@]host[:port][/db]
 * redis+sentinel://[...@]host[:port],.../master[/db]
 * redis+cluster://[...@]host[:port],...
 * rediss...: the same over TLS
 * unix:PATH
 *
 * Each error names the directive, and no part of the address: a mistyped
 * password may be anywhere in it.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "base/ngx_chat_ctx.h"
#include "store/redis/ngx_chat_redis_conf.h"

#define NGX_CHAT_REDIS_PORT 6379
#define NGX_CHAT_REDIS_SENTINEL_PORT 26379
#define NGX_CHAT_REDIS_DB_MAX 1000000
#define NGX_CHAT_REDIS_TIMEOUT 200 /* ms */
#define NGX_CHAT_REDIS_PASSWORD_MAX 4096

/* What follows "redis" or "rediss", for each ngx_chat_redis_scheme_e. */
static const ngx_str_t schemes[] = { ngx_string("://"),
                                     ngx_string("+sentinel://"),
                                     ngx_string("+cluster://") };


/* 1 if text has only characters of names and of addresses. */
static ngx_uint_t
is_name(chat_str_t text)
{
    size_t            i;
    static const char of[] = "abcdefghijklmnopqrstuvwxyz0123456789-._:";

    for (i = 0; i < text.len; i++) {
        if (memchr(of, ngx_tolower(text.data[i]), sizeof(of) - 1) == NULL) {
            return 0;
        }
    }

    return text.len > 0;
}


ngx_uint_t
ngx_chat_redis_host_is(const ngx_chat_redis_host_t *host, chat_str_t name,
                       ngx_int_t port)
{
    return host->port == port && chat_str_eq(ngx_chat_str(&host->host), name);
}


void
ngx_chat_redis_address_set_ip(ngx_chat_redis_address_t *address, chat_str_t ip)
{
    address->host.target.data = address->ip;
    address->host.target.len = ngx_min(ip.len, sizeof(address->ip));
    ngx_memcpy(address->ip, ip.data, address->host.target.len);
}


ngx_int_t
ngx_chat_redis_address_set(ngx_chat_redis_address_t *address, chat_str_t name,
                           ngx_int_t port)
{
    ngx_chat_redis_host_t *host = &address->host;

    if (port < 1 || port > 65535 || name.len >= sizeof(address->text)
        || !is_name(name))
    {
        return NGX_ERROR;
    }

    ngx_memzero(address, sizeof(ngx_chat_redis_address_t));
    ngx_memcpy(address->text, name.data, name.len);
    host->port = (in_port_t) port;
    host->host.data = address->text;
    host->host.len = name.len;
    host->name.data = address->name;
    host->name.len =
        ngx_sprintf(address->name,
                    memchr(name.data, ':', name.len) ? "[%V]:%i" : "%V:%i",
                    &host->host, port)
        - address->name;

    host->target = host->host;
    return NGX_OK;
}


/* Logs why chat_store is refused: NGX_ERROR. */
static ngx_int_t
invalid(ngx_conf_t *cf, const char *what, const char *must)
{
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid %s in \"chat_store\", it must be %s", what,
                       must);
    return NGX_ERROR;
}


/* Cuts text at the byte there, and returns the part before it. */
static ngx_str_t
split(ngx_str_t *text, u_char *there)
{
    ngx_str_t front = { there - text->data, text->data };

    text->data = there + 1;
    text->len -= front.len + 1;
    return front;
}


/* Decodes percent-encoded text in place. */
static ngx_int_t
decode(ngx_conf_t *cf, ngx_str_t *text)
{
    u_char *p, *dst = text->data, *src = dst, *end = dst + text->len;

    for (p = text->data; p < end; p++) {
        if (*p == '%' && (end - p < 3 || ngx_hextoi(p + 1, 2) == NGX_ERROR)) {
            return invalid(cf, "user or password", "percent-encoded");
        }
    }

    ngx_unescape_uri(&dst, &src, text->len, 0);
    text->len = dst - text->data;
    return NGX_OK;
}


/* user[:password] */
static ngx_int_t
read_userinfo(ngx_conf_t *cf, ngx_chat_redis_conf_t *conf, ngx_str_t text)
{
    u_char *colon;

    /* probably a user before each host, not a part of the password */
    if (conf->scheme != NGX_CHAT_REDIS_ONE && memchr(text.data, '@', text.len))
    {
        return invalid(cf, "user or password",
                       "percent-encoded, and only before the "
                       "first host");
    }

    colon = ngx_strlchr(text.data, text.data + text.len, ':');
    if (colon) {
        conf->user = split(&text, colon);
        conf->password = text;
    } else {
        conf->user = text;
    }

    if (conf->user.len == 0) {
        ngx_str_null(&conf->user); /* "user=" may give it */
    }

    return decode(cf, &conf->user) == NGX_OK ? decode(cf, &conf->password)
                                             : NGX_ERROR;
}


/* The path of a socket; or host, host:port, [address], [address]:port. */
static ngx_int_t
read_host(ngx_conf_t *cf, ngx_chat_redis_conf_t *conf, ngx_str_t text)
{
    ngx_url_t                 url;
    ngx_chat_redis_host_t    *host = &conf->hosts[conf->nhosts];
    ngx_chat_redis_address_t *address;

    ngx_memzero(&url, sizeof(ngx_url_t));
    url.url = text;
    url.default_port = conf->scheme == NGX_CHAT_REDIS_SENTINEL
                           ? NGX_CHAT_REDIS_SENTINEL_PORT
                           : NGX_CHAT_REDIS_PORT;
    url.no_resolve = 1;

    if (ngx_parse_url(cf->pool, &url) != NGX_OK) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "%s in \"chat_store\", it must be host[:port] "
                           "or unix:PATH",
                           url.err ? url.err : "no memory");
        return NGX_ERROR;
    }

    conf->nhosts++;

    if (url.family == AF_UNIX) {
        host->name = text;
        host->addrs = url.addrs;
        host->naddrs = url.naddrs;
        return NGX_OK;
    }

    if (url.host.data[0] == '[') {
        url.host.data++;
        url.host.len -= 2;
    }

    address = ngx_palloc(cf->pool, sizeof(ngx_chat_redis_address_t));
    if (address == NULL) {
        return NGX_ERROR;
    }

    if (ngx_chat_redis_address_set(address, ngx_chat_str(&url.host), url.port)
        != NGX_OK)
    {
        return invalid(cf, "host",
                       "a name, an IPv4 address or an IPv6 "
                       "address in brackets");
    }

    *host = address->host;
    host->addrs = url.addrs; /* of an IP address */
    host->naddrs = url.naddrs;
    return NGX_OK;
}


/* One host; with another scheme than ONE more of them, and commas between. */
static ngx_int_t
read_hosts(ngx_conf_t *cf, ngx_chat_redis_conf_t *conf, ngx_str_t text)
{
    u_char *comma;

    conf->hosts = ngx_pcalloc(cf->pool, (text.len / 2 + 1)
                                            * sizeof(ngx_chat_redis_host_t));
    if (conf->hosts == NULL) {
        return NGX_ERROR;
    }

    while (conf->scheme != NGX_CHAT_REDIS_ONE
           && (comma = ngx_strlchr(text.data, text.data + text.len, ',')))
    {
        if (read_host(cf, conf, split(&text, comma)) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return read_host(cf, conf, text);
}


/* What follows the hosts: [db], or with Sentinels: master[/db]. */
static ngx_int_t
read_path(ngx_conf_t *cf, ngx_chat_redis_conf_t *conf, ngx_str_t text)
{
    u_char *slash;

    if (conf->scheme == NGX_CHAT_REDIS_SENTINEL) {
        slash = ngx_strlchr(text.data, text.data + text.len, '/');
        conf->master = slash ? split(&text, slash) : text;

        if (!is_name(ngx_chat_str(&conf->master))) {
            return invalid(cf, "master behind the sentinels",
                           "a name that they know, of letters, "
                           "digits, \".\", \"-\" and \"_\"");
        }

        if (slash == NULL) {
            return NGX_OK;
        }
    }

    if (text.len != 0) {
        conf->db = ngx_atoi(text.data, text.len);

        if (conf->db == NGX_ERROR) {
            return invalid(cf, "database", "a number");
        }
    }

    return NGX_OK;
}


/* Cuts off the scheme; text ends with a NUL. */
static ngx_int_t
read_scheme(ngx_conf_t *cf, ngx_chat_redis_conf_t *conf, ngx_str_t *text)
{
    u_char    *p = text->data;
    ngx_uint_t i, n = 0;

    if (ngx_strncasecmp(p, (u_char *) "redis", 5) == 0) {
        n = sizeof(schemes) / sizeof(schemes[0]);
        p += 5;
#if (NGX_SSL)
        conf->tls = ngx_tolower(*p) == 's';
        p += conf->tls;
#endif
    }

    for (i = 0; i < n; i++) {
        if (ngx_strncasecmp(p, schemes[i].data, schemes[i].len) == 0) {
            conf->scheme = i;
            (void) split(text, p + schemes[i].len - 1);
            return NGX_OK;
        }
    }

    return invalid(cf, "store",
                   "shm[:SIZE], redis://..., redis+sentinel://..., "
                   "redis+cluster://..., rediss... for TLS, or "
                   "unix:PATH");
}


/*
 * Reads unix:PATH or scheme://[user[:password]@]host[:port],...[/...] into
 * conf. NGX_ERROR: it has been logged.
 */
static ngx_int_t
read_url(ngx_conf_t *cf, ngx_chat_redis_conf_t *conf, ngx_str_t text)
{
    u_char   *at, *slash;
    ngx_str_t path = ngx_null_string;

    if (ngx_strncasecmp(text.data, (u_char *) "unix:", 5) != 0) {
        if (read_scheme(cf, conf, &text) != NGX_OK) {
            return NGX_ERROR;
        }

        slash = ngx_strlchr(text.data, text.data + text.len, '/');
        if (slash) {
            path = text;
            text = split(&path, slash);

            if (memchr(path.data, '@', path.len)) {
                return invalid(cf, "user or password", "percent-encoded");
            }
        }

        if (read_path(cf, conf, path) != NGX_OK) {
            return NGX_ERROR;
        }

        at = memrchr(text.data, '@', text.len);
        if (at && read_userinfo(cf, conf, split(&text, at)) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    /* the hosts; the master stands behind them and a slash */
    conf->name = text;
    conf->name.len += conf->master.len ? 1 + conf->master.len : 0;
    return read_hosts(cf, conf, text);
}


/* Opens a file that a parameter names; NULL: it is logged. */
static FILE *
open_file(ngx_conf_t *cf, ngx_str_t *name, const char *parameter)
{
    FILE *file;

    if (ngx_conf_full_name(cf->cycle, name, 1) != NGX_OK) {
        return NULL;
    }

    file = fopen((char *) name->data, "re");
    if (file == NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           "cannot open \"%V\", the \"%s\" of \"chat_store\"",
                           name, parameter);
    }

    return file;
}


/* Reads a password: the first line of a file. No file: it stays as it is. */
static ngx_int_t
read_secret(ngx_conf_t *cf, const char *parameter, ngx_str_t *name,
            ngx_str_t *secret)
{
    FILE  *file;
    size_t size = NGX_CHAT_REDIS_PASSWORD_MAX + 2; /* a line end, and a NUL */

    if (name->len == 0) {
        return NGX_OK;
    }

    secret->data = ngx_pcalloc(cf->pool, size);
    file = secret->data ? open_file(cf, name, parameter) : NULL;
    if (file == NULL) {
        return NGX_ERROR;
    }

    (void) fgets((char *) secret->data, size, file);
    (void) fclose(file);

    secret->len = strcspn((char *) secret->data, "\r\n");
    if (secret->len == 0 || secret->len > NGX_CHAT_REDIS_PASSWORD_MAX) {
        return invalid(cf, parameter,
                       "a file with a password of at most 4096 bytes in its "
                       "first line");
    }

    return NGX_OK;
}


/* Why address and parameters do not fit together; NULL: they do. */
static const char *
conflict(const ngx_chat_redis_conf_t *conf)
{
    if (!conf->tls && (conf->verify != NGX_CONF_UNSET || conf->ca.len)) {
        return "\"verify\" and \"ca\" require rediss://";
    }

    if (conf->db > NGX_CHAT_REDIS_DB_MAX) {
        return "the database must be a number up to 1000000";
    }

    if (conf->scheme == NGX_CHAT_REDIS_CLUSTER && conf->db > 0) {
        return "a cluster has one database only, remove its number";
    }

    if (conf->password.len && conf->password_file.len) {
        return "it has a password and a \"password_file\", remove one";
    }

    if ((conf->user.len && conf->password.len + conf->password_file.len == 0)
        || (conf->sentinel_user.len && conf->sentinel_file.len == 0))
    {
        return "a user without a password, add \"password_file\" or "
               "\"sentinel_password_file\"";
    }

    if (conf->sentinel_file.len && conf->scheme != NGX_CHAT_REDIS_SENTINEL) {
        return "\"sentinel_password_file\" requires redis+sentinel://";
    }

    return NULL;
}


#if (NGX_SSL)

static ngx_int_t
create_ssl(ngx_conf_t *cf, ngx_chat_redis_conf_t *conf)
{
    int                 rc;
    FILE               *file;
    ngx_ssl_t          *ssl;
    ngx_pool_cleanup_t *cleanup;

    ssl = ngx_pcalloc(cf->pool, sizeof(ngx_ssl_t));
    cleanup = ngx_pool_cleanup_add(cf->pool, 0);
    if (ssl == NULL || cleanup == NULL) {
        return NGX_ERROR;
    }

    ssl->log = cf->log;
    conf->ssl = ssl;
    cleanup->handler = ngx_ssl_cleanup_ctx;
    cleanup->data = ssl;

    if (ngx_ssl_create(ssl, NGX_SSL_TLSv1_2 | NGX_SSL_TLSv1_3, NULL) != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (!conf->verify) {
        return NGX_OK;
    }

    if (conf->ca.len == 0) {
        rc = SSL_CTX_set_default_verify_paths(ssl->ctx);

    } else {
        file = open_file(cf, &conf->ca, "ca");
        if (file == NULL) {
            return NGX_ERROR;
        }

        (void) fclose(file);
        rc = SSL_CTX_load_verify_locations(ssl->ctx, (char *) conf->ca.data,
                                           NULL);
    }

    /* the dump of OpenSSL's errors says less than one sentence */
    ERR_clear_error();
    return rc ? NGX_OK : invalid(cf, "\"ca\"", "a file of PEM certificates");
}


#endif


#define FIELD(name) offsetof(ngx_chat_redis_conf_t, name)

static const ngx_chat_parameter_t parameters[] = {
    { "timeout=TIME above 0", ngx_conf_set_msec_slot, 1, FIELD(timeout),
      NULL },
    { "ttl=TIME above 0", ngx_conf_set_msec_slot, 1, FIELD(ttl), NULL },
    { "password_file=FILE", ngx_conf_set_str_slot, 1, FIELD(password_file),
      NULL },
    { "user=NAME", ngx_conf_set_str_slot, 1, FIELD(user), NULL },
    { "db=N", ngx_conf_set_num_slot, 0, FIELD(db), NULL },
    { "ca=FILE", ngx_conf_set_str_slot, 1, FIELD(ca), NULL },
    { "verify=on|off", ngx_conf_set_flag_slot, 0, FIELD(verify), NULL },
    { "sentinel_user=NAME", ngx_conf_set_str_slot, 1, FIELD(sentinel_user),
      NULL },
    { "sentinel_password_file=FILE", ngx_conf_set_str_slot, 1,
      FIELD(sentinel_file), NULL },
    { NULL, NULL, 0, 0, NULL }
};


ngx_chat_redis_conf_t *
ngx_chat_redis_conf_read(ngx_conf_t *cf)
{
    ngx_str_t             *args = cf->args->elts;
    const char            *wrong;
    ngx_chat_redis_conf_t *conf;

    conf = ngx_pcalloc(cf->pool, sizeof(ngx_chat_redis_conf_t));
    if (conf == NULL) {
        return NULL;
    }

    conf->timeout = NGX_CONF_UNSET_MSEC;
    conf->ttl = NGX_CONF_UNSET_MSEC;
    conf->db = NGX_CONF_UNSET;
    conf->verify = NGX_CONF_UNSET;

    if (read_url(cf, conf, args[1]) != NGX_OK
        || ngx_chat_conf_parameters(cf, 2, parameters, conf) != NGX_CONF_OK)
    {
        return NULL;
    }

    wrong = conflict(conf);
    if (wrong) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid \"chat_store\": %s",
                           wrong);
        return NULL;
    }

    ngx_conf_init_msec_value(conf->timeout, NGX_CHAT_REDIS_TIMEOUT);
    ngx_conf_init_value(conf->db, 0);
    ngx_conf_init_value(conf->verify, 1);

    if (read_secret(cf, "password_file", &conf->password_file, &conf->password)
            != NGX_OK
        || read_secret(cf, "sentinel_password_file", &conf->sentinel_file,
                       &conf->sentinel_password)
               != NGX_OK)
    {
        return NULL;
    }

#if (NGX_SSL)
    if (conf->tls && create_ssl(cf, conf) != NGX_OK) {
        return NULL;
    }
#endif

    return conf;
}


/* Without "resolver" NGINX creates one that has no servers. */
static ngx_uint_t
has_servers(const ngx_resolver_t *resolver)
{
#if (angie_version >= 1012000)
    return resolver->connections != NULL;
#else
    return resolver->connections.nelts != 0;
#endif
}


ngx_int_t
ngx_chat_redis_conf_init(ngx_conf_t *cf, ngx_chat_redis_conf_t *conf)
{
    ngx_url_t                 url;
    ngx_uint_t                i, level, known = 0;
    ngx_chat_redis_host_t    *host;
    ngx_http_core_loc_conf_t *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    conf->resolver =
        clcf->resolver && has_servers(clcf->resolver) ? clcf->resolver : NULL;

    for (i = 0; i < conf->nhosts; i++) {
        host = &conf->hosts[i];

        ngx_memzero(&url, sizeof(ngx_url_t));
        url.host = host->host;
        url.port = host->port;
        url.addrs = host->addrs;
        url.naddrs = host->naddrs;

        /* an IP address, a socket, or a name for run time, where localhost
         * is in no DNS */
        if (host->naddrs != 0
            || (conf->resolver != NULL
                && ngx_strcasecmp(host->host.data, (u_char *) "localhost")
                       != 0)
            || ngx_inet_resolve_host(cf->pool, &url) == NGX_OK)
        {
            known++;
            host->addrs = url.addrs;
            host->naddrs = url.naddrs;
            continue;
        }

        /* one of several may be unknown; all of them may not */
        level = known || i + 1 < conf->nhosts ? NGX_LOG_WARN : NGX_LOG_EMERG;
        ngx_conf_log_error(level, cf, 0,
                           "%s in \"chat_store\": \"%V\"; correct it, or add "
                           "a \"resolver\" to \"http\" to resolve it later",
                           url.err ? url.err : "no memory", &host->name);
    }

    return known ? NGX_OK : NGX_ERROR;
}
