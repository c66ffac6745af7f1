/*
 * ngx_chat_redis_address.c: addresses of Redis servers, as chat_store's URL
 * and as servers name them at run time.
 *
 * redis://[user[:password]@]host[:port][/db]
 * redis+sentinel://[...@]host[:port],.../master[/db]
 * redis+cluster://[...@]host[:port],...
 * rediss...: the same over TLS
 * unix:PATH
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/redis/ngx_chat_redis_conf.h"

#define NGX_CHAT_REDIS_PORT 6379
#define NGX_CHAT_REDIS_SENTINEL_PORT 26379
#define NGX_CHAT_REDIS_DB_MAX 1000000

typedef struct {
    ngx_str_t               prefix;
    ngx_chat_redis_scheme_e scheme;
    in_port_t               port; /* default */
    ngx_uint_t              tls;
} scheme_t;

static const scheme_t schemes[] = {
    { ngx_string("redis://"), NGX_CHAT_REDIS_ONE, NGX_CHAT_REDIS_PORT, 0 },
    { ngx_string("redis+sentinel://"), NGX_CHAT_REDIS_SENTINEL,
      NGX_CHAT_REDIS_SENTINEL_PORT, 0 },
    { ngx_string("redis+cluster://"), NGX_CHAT_REDIS_CLUSTER,
      NGX_CHAT_REDIS_PORT, 0 },
#if (NGX_SSL)
    { ngx_string("rediss://"), NGX_CHAT_REDIS_ONE, NGX_CHAT_REDIS_PORT, 1 },
    { ngx_string("rediss+sentinel://"), NGX_CHAT_REDIS_SENTINEL,
      NGX_CHAT_REDIS_SENTINEL_PORT, 1 },
    { ngx_string("rediss+cluster://"), NGX_CHAT_REDIS_CLUSTER,
      NGX_CHAT_REDIS_PORT, 1 },
#endif
    { ngx_string("unix:"), NGX_CHAT_REDIS_ONE, 0, 0 },
    { ngx_null_string, NGX_CHAT_REDIS_ONE, 0, 0 }
};


ngx_int_t
ngx_chat_redis_invalid(ngx_conf_t *cf, const char *what, const char *must)
{
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid %s in \"chat_store\", it must be %s", what,
                       must);
    return NGX_ERROR;
}


static const scheme_t *
find_scheme(const ngx_str_t *text)
{
    const scheme_t *scheme;

    for (scheme = schemes; scheme->prefix.len; scheme++) {
        if (text->len >= scheme->prefix.len
            && ngx_strncasecmp(text->data, scheme->prefix.data,
                               scheme->prefix.len)
                   == 0)
        {
            return scheme;
        }
    }

    return NULL;
}


ngx_uint_t
ngx_chat_redis_is_url(const ngx_str_t *text)
{
    return find_scheme(text) != NULL;
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


static ngx_int_t
decode(ngx_conf_t *cf, ngx_str_t *to, const ngx_str_t *from)
{
    size_t    i;
    u_char   *p;
    ngx_int_t octet;

    p = ngx_pnalloc(cf->pool, from->len + 1);
    if (p == NULL) {
        return NGX_ERROR;
    }

    to->data = p;

    for (i = 0; i < from->len; i++) {
        if (from->data[i] != '%') {
            *p++ = from->data[i];
            continue;
        }

        octet =
            i + 2 < from->len ? ngx_hextoi(&from->data[i + 1], 2) : NGX_ERROR;
        if (octet == NGX_ERROR) {
            return ngx_chat_redis_invalid(cf, "user or password",
                                          "percent-encoded");
        }

        *p++ = (u_char) octet;
        i += 2;
    }

    to->len = p - to->data;
    return NGX_OK;
}


ngx_int_t
ngx_chat_redis_read_db(ngx_conf_t *cf, ngx_chat_redis_conf_t *conf,
                       const ngx_str_t *value)
{
    ngx_int_t db = ngx_atoi(value->data, value->len);

    if (db < 0 || db > NGX_CHAT_REDIS_DB_MAX) {
        return ngx_chat_redis_invalid(cf, "database",
                                      "a number up to 1000000");
    }

    if (conf->db != NGX_CONF_UNSET_UINT) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "two databases in \"chat_store\"");
        return NGX_ERROR;
    }

    conf->db = db;
    return NGX_OK;
}


/* user[:password] */
static ngx_int_t
read_userinfo(ngx_conf_t *cf, ngx_chat_redis_conf_t *conf, ngx_str_t text)
{
    u_char   *colon;
    ngx_str_t user = text;

    /* more likely a user with each host than a part of the password */
    if (conf->scheme != NGX_CHAT_REDIS_ONE && memchr(text.data, '@', text.len))
    {
        return ngx_chat_redis_invalid(cf, "user or password",
                                      "percent-encoded, and only before the "
                                      "first host");
    }

    colon = ngx_strlchr(text.data, text.data + text.len, ':');
    if (colon) {
        user = split(&text, colon);
        if (decode(cf, &conf->password, &text) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return decode(cf, &conf->user, &user);
}


/* The path of a socket; or host, host:port, [address], [address]:port. */
static ngx_int_t
read_host(ngx_conf_t *cf, ngx_chat_redis_conf_t *conf, ngx_str_t text,
          in_port_t port)
{
    ngx_url_t                 url;
    ngx_chat_redis_host_t    *host = &conf->hosts[conf->nhosts];
    ngx_chat_redis_address_t *address;

    ngx_memzero(&url, sizeof(ngx_url_t));
    url.url = text;
    url.default_port = port;
    url.no_resolve = 1;

    if (ngx_parse_url(cf->pool, &url) != NGX_OK) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "%s in \"chat_store\"",
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

    if (ngx_chat_redis_address_set(address, &url.host, url.port) != NGX_OK) {
        return ngx_chat_redis_invalid(cf, "host",
                                      "a name, an IPv4 address or an IPv6 "
                                      "address in brackets");
    }

    *host = address->host;
    return NGX_OK;
}


/* One host; with another scheme than ONE more of them, and commas between. */
static ngx_int_t
read_hosts(ngx_conf_t *cf, ngx_chat_redis_conf_t *conf, ngx_str_t text,
           in_port_t port)
{
    size_t     i;
    u_char    *comma;
    ngx_uint_t n = 1;

    for (i = 0; i < text.len; i++) {
        n += text.data[i] == ',';
    }

    conf->hosts = ngx_pcalloc(cf->pool, n * sizeof(ngx_chat_redis_host_t));
    if (conf->hosts == NULL) {
        return NGX_ERROR;
    }

    while (conf->scheme != NGX_CHAT_REDIS_ONE
           && (comma = ngx_strlchr(text.data, text.data + text.len, ',')))
    {
        if (read_host(cf, conf, split(&text, comma), port) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return read_host(cf, conf, text, port);
}


/* Sets conf->name: host:port,host:port/master. */
static ngx_int_t
make_name(ngx_conf_t *cf, ngx_chat_redis_conf_t *conf)
{
    size_t     len = conf->master.len;
    u_char    *p;
    ngx_uint_t i;

    for (i = 0; i < conf->nhosts; i++) {
        len += conf->hosts[i].name.len + 1;
    }

    p = ngx_pnalloc(cf->pool, len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    conf->name.data = p;

    for (i = 0; i < conf->nhosts; i++) {
        p = ngx_sprintf(p, i ? ",%V" : "%V", &conf->hosts[i].name);
    }

    if (conf->master.len) {
        p = ngx_sprintf(p, "/%V", &conf->master);
    }

    conf->name.len = p - conf->name.data;
    return NGX_OK;
}


static ngx_uint_t
is_name(const ngx_str_t *host)
{
    size_t i;
    u_char c;

    for (i = 0; i < host->len; i++) {
        c = ngx_tolower(host->data[i]);

        if ((c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-'
            && c != '.' && c != '_')
        {
            return 0;
        }
    }

    return host->len > 0;
}


/* What follows the hosts: [db], or with Sentinels: master[/db]. */
static ngx_int_t
read_path(ngx_conf_t *cf, ngx_chat_redis_conf_t *conf, ngx_str_t text)
{
    u_char *slash;

    if (conf->scheme == NGX_CHAT_REDIS_SENTINEL) {
        slash = ngx_strlchr(text.data, text.data + text.len, '/');
        conf->master = slash ? split(&text, slash) : text;

        if (!is_name(&conf->master)) {
            return ngx_chat_redis_invalid(cf, "master behind the sentinels",
                                          "a name that they know, of letters, "
                                          "digits, \".\", \"-\" and \"_\"");
        }

        if (slash == NULL) {
            return NGX_OK;
        }
    }

    return text.len ? ngx_chat_redis_read_db(cf, conf, &text) : NGX_OK;
}


ngx_int_t
ngx_chat_redis_read_url(ngx_conf_t *cf, ngx_chat_redis_conf_t *conf,
                        ngx_str_t text)
{
    u_char         *at, *slash;
    ngx_str_t       path = ngx_null_string;
    const scheme_t *scheme = find_scheme(&text);

    if (scheme == NULL) {
        return ngx_chat_redis_invalid(cf, "store",
                                      "redis://..., rediss://..., "
                                      "redis+sentinel://..., "
                                      "redis+cluster://... or unix:PATH");
    }

    conf->scheme = scheme->scheme;
    conf->tls = scheme->tls;

    if (scheme->port != 0) {
        (void) split(&text, text.data + scheme->prefix.len - 1);

        slash = ngx_strlchr(text.data, text.data + text.len, '/');
        if (slash) {
            path = text;
            text = split(&path, slash);

            if (memchr(path.data, '@', path.len)) {
                return ngx_chat_redis_invalid(cf, "user or password",
                                              "percent-encoded");
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

    return read_hosts(cf, conf, text, scheme->port) == NGX_OK
               ? make_name(cf, conf)
               : NGX_ERROR;
}


/* Writes the IP address to sockaddr (or NULL); its length, 0 if it is none. */
static socklen_t
parse_ip(const ngx_str_t *ip, ngx_sockaddr_t *sockaddr)
{
    in_addr_t address = ngx_inet_addr(ip->data, ip->len);

    if (address != INADDR_NONE) {
        sockaddr->sockaddr_in.sin_family = AF_INET;
        sockaddr->sockaddr_in.sin_addr.s_addr = address;
        return sizeof(struct sockaddr_in);
    }

#if (NGX_HAVE_INET6)
    if (ngx_inet6_addr(ip->data, ip->len,
                       sockaddr->sockaddr_in6.sin6_addr.s6_addr)
        == NGX_OK)
    {
        sockaddr->sockaddr_in6.sin6_family = AF_INET6;
        return sizeof(struct sockaddr_in6);
    }
#endif

    return 0;
}


ngx_uint_t
ngx_chat_redis_is_ip(const ngx_str_t *host)
{
    ngx_sockaddr_t sockaddr;

    return parse_ip(host, &sockaddr) != 0;
}


ngx_uint_t
ngx_chat_redis_host_is(const ngx_chat_redis_host_t *host,
                       const ngx_str_t *name, ngx_int_t port)
{
    return host->port == port && host->host.len == name->len
           && ngx_memcmp(host->host.data, name->data, name->len) == 0;
}


void
ngx_chat_redis_address_set_ip(ngx_chat_redis_address_t *address,
                              const ngx_str_t          *ip)
{
    address->addr.socklen = parse_ip(ip, &address->sockaddr);

    if (address->addr.socklen != 0) {
        ngx_inet_set_port(&address->sockaddr.sockaddr, address->host.port);
        address->addr.sockaddr = &address->sockaddr.sockaddr;
        address->addr.name = address->host.name;
        address->host.addrs = &address->addr;
        address->host.naddrs = 1;
    }
}


ngx_int_t
ngx_chat_redis_address_set(ngx_chat_redis_address_t *address,
                           const ngx_str_t *name, ngx_int_t port)
{
    ngx_chat_redis_host_t *host = &address->host;

    if (port < 1 || port > 65535 || name->len >= sizeof(address->text)
        || !(is_name(name) || ngx_chat_redis_is_ip(name)))
    {
        return NGX_ERROR;
    }

    ngx_memzero(address, sizeof(ngx_chat_redis_address_t));
    (void) ngx_cpystrn(address->text, name->data, name->len + 1);
    host->port = (in_port_t) port;
    host->host.data = address->text;
    host->host.len = name->len;
    host->name.data = address->name;
    host->name.len =
        ngx_sprintf(address->name,
                    memchr(name->data, ':', name->len) ? "[%V]:%i" : "%V:%i",
                    name, port)
        - address->name;

    ngx_chat_redis_address_set_ip(address, name);
    return NGX_OK;
}
