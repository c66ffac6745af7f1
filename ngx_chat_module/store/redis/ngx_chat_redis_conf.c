/*
 * ngx_chat_redis_conf.c: chat_store with Redis: the parameters behind the URL,
 * and host names that are resolved at start.
 *
 * Each error names the directive. The value of an unknown parameter is never
 * printed: it may be a password.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "store/redis/ngx_chat_redis_conf.h"

#define NGX_CHAT_REDIS_TIMEOUT 200 /* ms */
#define NGX_CHAT_REDIS_PASSWORD_MAX 4096
#define NGX_CHAT_REDIS_CHAIN_MAX 9 /* of certificates */

typedef struct parameter_s parameter_t;

struct parameter_s {
    ngx_str_t name;
    ngx_int_t (*read)(ngx_conf_t *cf, ngx_chat_redis_conf_t *conf,
                      const parameter_t *parameter, ngx_str_t *value);
    size_t offset; /* of the string in ngx_chat_redis_conf_t */
};


static ngx_int_t
set_string(ngx_conf_t *cf, ngx_chat_redis_conf_t *conf,
           const parameter_t *parameter, ngx_str_t *value)
{
    ngx_str_t *to = (ngx_str_t *) ((char *) conf + parameter->offset);

    /* of the user and the password the URL may have one, too */
    if (to->len != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"chat_store\" has a value in its URL and in "
                           "\"%V\"",
                           &parameter->name);
        return NGX_ERROR;
    }

    *to = *value;
    return NGX_OK;
}


static ngx_int_t
read_timeout(ngx_conf_t *cf, ngx_chat_redis_conf_t *conf,
             const parameter_t *parameter, ngx_str_t *value)
{
    ngx_int_t timeout = ngx_parse_time(value, 0);

    if (timeout == NGX_ERROR || timeout == 0) {
        return ngx_chat_redis_invalid(cf, "timeout", "a time above 0");
    }

    conf->timeout = timeout;
    return NGX_OK;
}


static ngx_int_t
read_verify(ngx_conf_t *cf, ngx_chat_redis_conf_t *conf,
            const parameter_t *parameter, ngx_str_t *value)
{
    conf->verify = ngx_strcmp(value->data, "on") == 0;

    return conf->verify || ngx_strcmp(value->data, "off") == 0
               ? NGX_OK
               : ngx_chat_redis_invalid(cf, "verify", "on or off");
}


static ngx_int_t
read_db(ngx_conf_t *cf, ngx_chat_redis_conf_t *conf,
        const parameter_t *parameter, ngx_str_t *value)
{
    return ngx_chat_redis_read_db(cf, conf, value);
}


/* The length of the file's beginning; -1: an error, which was logged. */
static ssize_t
read_file(ngx_conf_t *cf, ngx_str_t *name, u_char *to, size_t size)
{
    ssize_t  n;
    size_t   len = 0;
    ngx_fd_t fd;

    fd = ngx_open_file(name->data, NGX_FILE_RDONLY, NGX_FILE_OPEN, 0);
    if (fd == NGX_INVALID_FILE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           "\"chat_store\" cannot open \"%V\"", name);
        return -1;
    }

    do {
        n = ngx_read_fd(fd, to + len, size - len);
        len += n > 0 ? n : 0;
    } while (n > 0 && len < size);

    if (n == -1) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno,
                           "\"chat_store\" cannot read \"%V\"", name);
    }

    (void) ngx_close_file(fd);
    return n == -1 ? -1 : (ssize_t) len;
}


/* A password: the first line of a file. */
static ngx_int_t
read_secret(ngx_conf_t *cf, ngx_chat_redis_conf_t *conf,
            const parameter_t *parameter, ngx_str_t *value)
{
    u_char    text[NGX_CHAT_REDIS_PASSWORD_MAX + 1], *end;
    ssize_t   n;
    ngx_str_t name = *value, secret;

    if (ngx_conf_full_name(cf->cycle, &name, 1) != NGX_OK) {
        return NGX_ERROR;
    }

    n = read_file(cf, &name, text, sizeof(text));
    if (n == -1) {
        return NGX_ERROR;
    }

    end = memchr(text, '\n', n);
    end = end ? end : text + n;

    if (end > text && end[-1] == '\r') {
        end--;
    }

    if (end == text || end - text > NGX_CHAT_REDIS_PASSWORD_MAX) {
        return ngx_chat_redis_invalid(cf, "password_file",
                                      "a file with a password of at most "
                                      "4096 bytes in its first line");
    }

    secret.len = end - text;
    secret.data = ngx_pnalloc(cf->pool, secret.len);
    if (secret.data == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(secret.data, text, secret.len);
    ngx_explicit_memzero(text, sizeof(text));
    return set_string(cf, conf, parameter, &secret);
}


static const parameter_t parameters[] = {
    { ngx_string("timeout"), read_timeout, 0 },
    { ngx_string("password_file"), read_secret,
      offsetof(ngx_chat_redis_conf_t, password) },
    { ngx_string("user"), set_string, offsetof(ngx_chat_redis_conf_t, user) },
    { ngx_string("db"), read_db, 0 },
    { ngx_string("ca"), set_string, offsetof(ngx_chat_redis_conf_t, ca) },
    { ngx_string("verify"), read_verify, 0 },
    { ngx_string("sentinel_user"), set_string,
      offsetof(ngx_chat_redis_conf_t, sentinel_user) },
    { ngx_string("sentinel_password_file"), read_secret,
      offsetof(ngx_chat_redis_conf_t, sentinel_password) },
    { ngx_null_string, NULL, 0 }
};


/* seen: a bit for each parameter that was read. */
static ngx_int_t
read_parameter(ngx_conf_t *cf, ngx_chat_redis_conf_t *conf, ngx_str_t word,
               ngx_uint_t *seen)
{
    u_char            *equals;
    ngx_str_t          name, value;
    ngx_uint_t         bit;
    const parameter_t *parameter = parameters;

    equals = ngx_strlchr(word.data, word.data + word.len, '=');
    if (equals == NULL) {
        return ngx_chat_redis_invalid(cf, "parameter", "name=value");
    }

    name.data = word.data;
    name.len = equals - word.data;
    value.data = equals + 1;
    value.len = word.len - name.len - 1;

    while (parameter->read
           && (parameter->name.len != name.len
               || ngx_memcmp(parameter->name.data, name.data, name.len) != 0))
    {
        parameter++;
    }

    bit = (ngx_uint_t) 1 << (parameter - parameters);

    if (parameter->read == NULL || value.len == 0 || (*seen & bit)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "%s parameter \"%V\" in \"chat_store\"",
                           *seen & bit ? "duplicate" : "invalid", &name);
        return NGX_ERROR;
    }

    *seen |= bit;
    return parameter->read(cf, conf, parameter, &value);
}


/* The combination of URL and parameters; NULL: it is a good one. */
static const char *
conflict(const ngx_chat_redis_conf_t *conf)
{
    if (!conf->tls && (conf->verify != NGX_CONF_UNSET || conf->ca.len)) {
        return "\"verify\" and \"ca\" require rediss://";
    }

    if (conf->scheme == NGX_CHAT_REDIS_CLUSTER && conf->db != 0) {
        return "a cluster has one database only";
    }

    if ((conf->user.len && conf->password.len == 0)
        || (conf->sentinel_user.len && conf->sentinel_password.len == 0))
    {
        return "a user without a password";
    }

    if (conf->sentinel_password.len && conf->scheme != NGX_CHAT_REDIS_SENTINEL)
    {
        return "\"sentinel_password_file\" requires redis+sentinel://";
    }

    return NULL;
}


#if (NGX_SSL)

static ngx_int_t
load_trusted(ngx_conf_t *cf, ngx_chat_redis_conf_t *conf)
{
    if (ngx_ssl_trusted_certificate(cf, conf->ssl, &conf->ca,
                                    NGX_CHAT_REDIS_CHAIN_MAX)
        != NGX_OK)
    {
        return ngx_chat_redis_invalid(cf, "ca", "a file of PEM certificates");
    }

    if (conf->ca.len == 0
        && SSL_CTX_set_default_verify_paths(conf->ssl->ctx) == 0) {
        ngx_ssl_error(NGX_LOG_EMERG, cf->log, 0,
                      "SSL_CTX_set_default_verify_paths() failed");
        return NGX_ERROR;
    }

    return NGX_OK;
}


static ngx_int_t
create_ssl(ngx_conf_t *cf, ngx_chat_redis_conf_t *conf)
{
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

    return conf->verify ? load_trusted(cf, conf) : NGX_OK;
}


#endif


static ngx_int_t
read_arguments(ngx_conf_t *cf, ngx_chat_redis_conf_t *conf)
{
    ngx_str_t  *args = cf->args->elts;
    ngx_uint_t  i, seen = 0;
    const char *wrong;

    if (ngx_chat_redis_read_url(cf, conf, args[1]) != NGX_OK) {
        return NGX_ERROR;
    }

    for (i = 2; i < cf->args->nelts; i++) {
        if (read_parameter(cf, conf, args[i], &seen) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    ngx_conf_init_uint_value(conf->db, 0);

    wrong = conflict(conf);
    if (wrong) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid \"chat_store\": %s",
                           wrong);
        return NGX_ERROR;
    }

    ngx_conf_init_value(conf->verify, 1);

#if (NGX_SSL)
    if (conf->tls) {
        return create_ssl(cf, conf);
    }
#endif

    return NGX_OK;
}


ngx_chat_redis_conf_t *
ngx_chat_redis_conf_read(ngx_conf_t *cf)
{
    ngx_chat_redis_conf_t *conf;

    conf = ngx_pcalloc(cf->pool, sizeof(ngx_chat_redis_conf_t));
    if (conf == NULL) {
        return NULL;
    }

    conf->timeout = NGX_CHAT_REDIS_TIMEOUT;
    conf->db = NGX_CONF_UNSET_UINT;
    conf->verify = NGX_CONF_UNSET;

    return read_arguments(cf, conf) == NGX_OK ? conf : NULL;
}


/* 1 if http has a resolver; NGINX creates an empty one where it has none. */
static ngx_uint_t
use_resolver(ngx_conf_t *cf, ngx_chat_redis_conf_t *conf)
{
    ngx_http_core_loc_conf_t *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

#if (angie_version >= 1012000)
    if (clcf->resolver == NULL || clcf->resolver->connections == NULL) {
        return 0;
    }
#else
    if (clcf->resolver == NULL || clcf->resolver->connections.nelts == 0) {
        return 0;
    }
#endif

    conf->resolver = clcf->resolver;
    conf->resolver_timeout = clcf->resolver_timeout == NGX_CONF_UNSET_MSEC
                                 ? 30000
                                 : clcf->resolver_timeout;
    return 1;
}


/* Resolves the host's name; 0: it could not, which was logged. */
static ngx_uint_t
resolve(ngx_conf_t *cf, ngx_chat_redis_host_t *host, ngx_uint_t level)
{
    ngx_url_t url;

    ngx_memzero(&url, sizeof(ngx_url_t));
    url.host = host->host;
    url.port = host->port;

    if (ngx_inet_resolve_host(cf->pool, &url) != NGX_OK) {
        ngx_conf_log_error(level, cf, 0, "%s in \"chat_store\": \"%V\"",
                           url.err ? url.err : "no memory", &host->name);
        return 0;
    }

    host->addrs = url.addrs;
    host->naddrs = url.naddrs;
    return 1;
}


ngx_int_t
ngx_chat_redis_conf_init(ngx_conf_t *cf, ngx_chat_redis_conf_t *conf)
{
    ngx_uint_t             i, level, known = 0, resolver;
    ngx_chat_redis_host_t *host;

    resolver = use_resolver(cf, conf);

    for (i = 0; i < conf->nhosts; i++) {
        host = &conf->hosts[i];

        /* an IP address, a socket, or a name for run time, where localhost
         * is in no DNS */
        if (host->naddrs != 0
            || (resolver
                && ngx_strcasecmp(host->host.data, (u_char *) "localhost")
                       != 0))
        {
            known++;
            continue;
        }

        /* one of several may be unknown; all of them may not */
        level = known || i + 1 < conf->nhosts ? NGX_LOG_WARN : NGX_LOG_EMERG;
        known += resolve(cf, host, level);
    }

    return known ? NGX_OK : NGX_ERROR;
}
