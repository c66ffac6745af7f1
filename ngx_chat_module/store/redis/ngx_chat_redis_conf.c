/*
 * ngx_chat_redis_conf.c: chat_store with a Redis server: the parameters
 * behind the URL, and the look-up of the server's name.
 *
 * Promises: whatever is wrong is said with the name of the directive; of an
 * unknown parameter its name is said only, as its value may be a password.
 * Must not know: how to connect.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "store/redis/ngx_chat_redis_conf.h"

#define NGX_CHAT_REDIS_TIMEOUT 200
#define NGX_CHAT_REDIS_PASSWORD_MAX 4096

typedef struct {
    ngx_str_t name;
    ngx_int_t (*read)(ngx_chat_redis_url_t *url, ngx_str_t *value);
} ngx_chat_redis_parameter_t;


static ngx_int_t
read_user(ngx_chat_redis_url_t *url, ngx_str_t *value)
{
    if (url->conf->user.len) {
        return ngx_chat_redis_twice(url, "users");
    }

    url->conf->user = *value;
    return NGX_OK;
}


static ngx_int_t
read_timeout(ngx_chat_redis_url_t *url, ngx_str_t *value)
{
    ngx_int_t timeout = ngx_parse_time(value, 0);

    if (timeout == NGX_ERROR || timeout == 0) {
        return ngx_chat_redis_invalid(url, "timeout", "a time above 0");
    }

    url->conf->timeout = timeout;
    return NGX_OK;
}


static ngx_int_t
read_verify(ngx_chat_redis_url_t *url, ngx_str_t *value)
{
    if (!url->tls) {
        return ngx_chat_redis_invalid(url, "verify", "used over TLS only");
    }

    if (value->len == 2 && ngx_strncmp(value->data, "on", 2) == 0) {
        return NGX_OK;
    }

    if (value->len == 3 && ngx_strncmp(value->data, "off", 3) == 0) {
        url->conf->verify = 0;
        return NGX_OK;
    }

    return ngx_chat_redis_invalid(url, "verify", "on or off");
}


static ngx_int_t
read_ca(ngx_chat_redis_url_t *url, ngx_str_t *value)
{
    if (!url->tls) {
        return ngx_chat_redis_invalid(url, "ca", "used over TLS only");
    }

    url->ca = *value;
    return NGX_OK;
}


/* The beginning of a file; -1: it has said what is wrong. */
static ssize_t
read_file(ngx_chat_redis_url_t *url, ngx_str_t *name, u_char *to, size_t size)
{
    ssize_t  n;
    size_t   len = 0;
    ngx_fd_t fd;

    fd = ngx_open_file(name->data, NGX_FILE_RDONLY, NGX_FILE_OPEN, 0);
    if (fd == NGX_INVALID_FILE) {
        ngx_conf_log_error(NGX_LOG_EMERG, url->cf, ngx_errno,
                           "\"chat_store\" cannot open \"%V\"", name);
        return -1;
    }

    do {
        n = ngx_read_fd(fd, to + len, size - len);
        len += n > 0 ? n : 0;
    } while (n > 0 && len < size);

    if (n == -1) {
        ngx_conf_log_error(NGX_LOG_EMERG, url->cf, ngx_errno,
                           "\"chat_store\" cannot read \"%V\"", name);
    }

    (void) ngx_close_file(fd);
    return n == -1 ? -1 : (ssize_t) len;
}


/* The first line of a file. */
static ngx_int_t
read_secret(ngx_chat_redis_url_t *url, ngx_str_t *value, ngx_str_t *to)
{
    u_char    text[NGX_CHAT_REDIS_PASSWORD_MAX + 1], *end;
    ssize_t   n;
    ngx_str_t name = *value;

    if (ngx_conf_full_name(url->cf->cycle, &name, 1) != NGX_OK) {
        return NGX_ERROR;
    }

    n = read_file(url, &name, text, sizeof(text));
    if (n == -1) {
        return NGX_ERROR;
    }

    end = memchr(text, '\n', n);
    end = end ? end : text + n;

    if (end > text && end[-1] == '\r') {
        end--;
    }

    if (end == text || end - text > NGX_CHAT_REDIS_PASSWORD_MAX) {
        return ngx_chat_redis_invalid(url, "password_file",
                                      "a file with a password of at most "
                                      "4096 bytes in its first line");
    }

    to->len = end - text;
    to->data = ngx_pnalloc(url->cf->pool, end - text);
    if (to->data == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(to->data, text, end - text);
    ngx_explicit_memzero(text, sizeof(text));
    return NGX_OK;
}


static ngx_int_t
read_password(ngx_chat_redis_url_t *url, ngx_str_t *value)
{
    if (url->conf->password.len) {
        return ngx_chat_redis_twice(url, "passwords");
    }

    return read_secret(url, value, &url->conf->password);
}


static ngx_int_t
read_sentinel_user(ngx_chat_redis_url_t *url, ngx_str_t *value)
{
    url->conf->sentinel_user = *value;
    return NGX_OK;
}


static ngx_int_t
read_sentinel_password(ngx_chat_redis_url_t *url, ngx_str_t *value)
{
    return read_secret(url, value, &url->conf->sentinel_password);
}


static ngx_chat_redis_parameter_t parameters[] = {
    { ngx_string("timeout"), read_timeout },
    { ngx_string("password_file"), read_password },
    { ngx_string("user"), read_user },
    { ngx_string("db"), ngx_chat_redis_read_db },
    { ngx_string("ca"), read_ca },
    { ngx_string("verify"), read_verify },
    { ngx_string("sentinel_user"), read_sentinel_user },
    { ngx_string("sentinel_password_file"), read_sentinel_password },
    { ngx_null_string, NULL }
};


static ngx_int_t
read_parameter(ngx_chat_redis_url_t *url, ngx_str_t word)
{
    u_char                     *equals;
    ngx_str_t                   name;
    ngx_uint_t                  bit = 1;
    ngx_chat_redis_parameter_t *parameter;

    equals = ngx_strlchr(word.data, word.data + word.len, '=');
    if (equals == NULL) {
        return ngx_chat_redis_invalid(url, "parameter", "name=value");
    }

    name = ngx_chat_redis_split(&word, equals);

    for (parameter = parameters; parameter->read; parameter++) {
        if (parameter->name.len == name.len
            && ngx_memcmp(parameter->name.data, name.data, name.len) == 0)
        {
            break;
        }

        bit <<= 1;
    }

    if (parameter->read == NULL || word.len == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, url->cf, 0,
                           "invalid parameter \"%V\" in \"chat_store\"",
                           &name);
        return NGX_ERROR;
    }

    if (url->seen & bit) {
        ngx_conf_log_error(NGX_LOG_EMERG, url->cf, 0,
                           "duplicate parameter \"%V\" in \"chat_store\"",
                           &name);
        return NGX_ERROR;
    }

    url->seen |= bit;
    return parameter->read(url, &word);
}


/* What only shows when all is read. */
static ngx_int_t
check_conf(ngx_chat_redis_url_t *url)
{
    const char                  *wrong = NULL;
    const ngx_chat_redis_conf_t *conf = url->conf;

    if (conf->scheme == NGX_CHAT_REDIS_CLUSTER && conf->db != 0) {
        wrong = "a database in a cluster in \"chat_store\"";

    } else if ((conf->user.len && conf->password.len == 0)
               || (conf->sentinel_user.len
                   && conf->sentinel_password.len == 0))
    {
        wrong = "a user without a password in \"chat_store\"";

    } else if (conf->sentinel_password.len
               && conf->scheme != NGX_CHAT_REDIS_SENTINEL)
    {
        wrong = "a password for sentinels without them in \"chat_store\"";
    }

    if (wrong) {
        ngx_conf_log_error(NGX_LOG_EMERG, url->cf, 0, wrong);
        return NGX_ERROR;
    }

    return NGX_OK;
}


ngx_chat_redis_conf_t *
ngx_chat_redis_conf_read(ngx_conf_t *cf)
{
    ngx_str_t           *args = cf->args->elts;
    ngx_uint_t           i;
    ngx_chat_redis_url_t url;

    ngx_memzero(&url, sizeof(url));
    url.cf = cf;
    url.conf = ngx_pcalloc(cf->pool, sizeof(ngx_chat_redis_conf_t));
    if (url.conf == NULL) {
        return NULL;
    }

    url.conf->timeout = NGX_CHAT_REDIS_TIMEOUT;

    if (ngx_chat_redis_read_server(&url, args[1]) != NGX_OK) {
        return NULL;
    }

    for (i = 2; i < cf->args->nelts; i++) {
        if (read_parameter(&url, args[i]) != NGX_OK) {
            return NULL;
        }
    }

    if (check_conf(&url) != NGX_OK) {
        return NULL;
    }

#if (NGX_SSL)
    if (url.tls && ngx_chat_redis_create_ssl(&url) != NGX_OK) {
        return NULL;
    }
#endif

    return url.conf;
}


/* NGINX creates an empty resolver where no directive resolver stands. */
static ngx_uint_t
has_servers(ngx_resolver_t *resolver)
{
#if (angie_version >= 1012000)
    return resolver->connections != NULL;
#else
    return resolver->connections.nelts != 0;
#endif
}


/* Whether names are to be looked up while NGINX runs. */
static ngx_uint_t
use_resolver(ngx_conf_t *cf, ngx_chat_redis_conf_t *conf)
{
    ngx_http_core_loc_conf_t *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (clcf->resolver == NULL || !has_servers(clcf->resolver)) {
        return 0;
    }

    conf->resolver = clcf->resolver;
    conf->resolver_timeout = clcf->resolver_timeout == NGX_CONF_UNSET_MSEC
                                 ? 30000
                                 : clcf->resolver_timeout;
    return 1;
}


static ngx_int_t
look_up(ngx_conf_t *cf, ngx_chat_redis_host_t *host, ngx_uint_t level)
{
    ngx_url_t url;

    ngx_memzero(&url, sizeof(url));
    url.url = host->name;

    if (ngx_parse_url(cf->pool, &url) != NGX_OK) {
        ngx_conf_log_error(level, cf, 0, "%s in \"chat_store\": \"%V\"",
                           url.err ? url.err : "no memory", &host->name);
        return NGX_ERROR;
    }

    host->addrs = url.addrs;
    host->naddrs = url.naddrs;
    return NGX_OK;
}


ngx_int_t
ngx_chat_redis_conf_init(ngx_conf_t *cf, ngx_chat_redis_conf_t *conf)
{
    ngx_uint_t             i, known = 0, resolver;
    ngx_chat_redis_host_t *host;

    resolver = use_resolver(cf, conf);

    for (i = 0; i < conf->nhosts; i++) {
        host = &conf->hosts[i];

        /* localhost is in no DNS, and a socket has no name */
        if (resolver && host->host.len
            && !ngx_chat_redis_is_address(&host->host)
            && ngx_strcasecmp(host->host.data, (u_char *) "localhost") != 0)
        {
            known++;
            continue;
        }

        /* one of many may be away, the last one that may be known not */
        known += look_up(cf, host,
                         known || i + 1 < conf->nhosts ? NGX_LOG_WARN
                                                       : NGX_LOG_EMERG)
                 == NGX_OK;
    }

    return known ? NGX_OK : NGX_ERROR;
}
