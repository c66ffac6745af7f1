/*
 * ngx_chat_redis_address.c: see ngx_chat_redis_conf.h.
 *
 * Addresses of Redis servers: chat_store's URL, and hosts that a server names
 * at run time. No error prints any part of the URL, as a mistyped password
 * may be anywhere in it.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/redis/ngx_chat_redis_conf.h"
#include "store/redis/ngx_chat_redis.h"

#define NGX_CHAT_REDIS_PORT 6379
#define NGX_CHAT_REDIS_SENTINEL_PORT 26379
#define NGX_CHAT_REDIS_DB_MAX 1000000

/* How an address may begin. */
typedef struct {
    ngx_str_t               text;
    ngx_chat_redis_scheme_e scheme;
    in_port_t               port;
    ngx_uint_t              tls;
} ngx_chat_redis_prefix_t;

static const ngx_chat_redis_prefix_t prefixes[] = {
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


static const ngx_chat_redis_prefix_t *
find_prefix(const ngx_str_t *text)
{
    const ngx_chat_redis_prefix_t *prefix;

    for (prefix = prefixes; prefix->text.len; prefix++) {
        if (text->len >= prefix->text.len
            && ngx_strncasecmp(text->data, prefix->text.data, prefix->text.len)
                   == 0)
        {
            return prefix;
        }
    }

    return NULL;
}


ngx_uint_t
ngx_chat_redis_is_url(const ngx_str_t *text)
{
    return find_prefix(text) != NULL;
}


ngx_int_t
ngx_chat_redis_invalid(ngx_chat_redis_url_t *url, const char *what,
                       const char *must)
{
    ngx_conf_log_error(NGX_LOG_EMERG, url->cf, 0,
                       "invalid %s in \"chat_store\", it must be %s", what,
                       must);
    return NGX_ERROR;
}


ngx_int_t
ngx_chat_redis_twice(ngx_chat_redis_url_t *url, const char *what)
{
    ngx_conf_log_error(NGX_LOG_EMERG, url->cf, 0, "two %s in \"chat_store\"",
                       what);
    return NGX_ERROR;
}


ngx_str_t
ngx_chat_redis_split(ngx_str_t *text, u_char *there)
{
    ngx_str_t front = { there - text->data, text->data };

    text->data = there + 1;
    text->len -= front.len + 1;
    return front;
}


static ngx_int_t
decode(ngx_chat_redis_url_t *url, ngx_str_t *to, const ngx_str_t *from)
{
    size_t    i;
    u_char   *p;
    ngx_int_t octet;

    p = ngx_pnalloc(url->cf->pool, from->len + 1);
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
            return ngx_chat_redis_invalid(url, "user or password",
                                          "percent-encoded");
        }

        *p++ = (u_char) octet;
        i += 2;
    }

    to->len = p - to->data;
    return NGX_OK;
}


ngx_int_t
ngx_chat_redis_read_db(ngx_chat_redis_url_t *url, ngx_str_t *value)
{
    ngx_int_t db = ngx_atoi(value->data, value->len);

    if (url->has_db) {
        return ngx_chat_redis_twice(url, "databases");
    }

    if (db < 0 || db > NGX_CHAT_REDIS_DB_MAX) {
        return ngx_chat_redis_invalid(url, "database",
                                      "a number up to 1000000");
    }

    url->has_db = 1;
    url->conf->db = db;
    return NGX_OK;
}


static ngx_int_t
read_userinfo(ngx_chat_redis_url_t *url, ngx_str_t text)
{
    u_char   *colon;
    ngx_str_t user = text;

    colon = ngx_strlchr(text.data, text.data + text.len, ':');
    if (colon) {
        user = ngx_chat_redis_split(&text, colon);

        if (decode(url, &url->conf->password, &text) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return decode(url, &url->conf->user, &user);
}


static ngx_int_t
add_host(ngx_chat_redis_url_t *url, ngx_str_t text, in_port_t port,
         ngx_uint_t brackets)
{
    ngx_chat_redis_host_t *host = &url->conf->hosts[url->conf->nhosts++];

    host->port = port;
    host->host.len = text.len;
    host->host.data = ngx_pnalloc(url->cf->pool, text.len + 1);
    host->name.data =
        ngx_pnalloc(url->cf->pool, text.len + sizeof("[]:65535"));
    if (host->host.data == NULL || host->name.data == NULL) {
        return NGX_ERROR;
    }

    (void) ngx_cpystrn(host->host.data, text.data, text.len + 1);
    host->name.len =
        ngx_sprintf(host->name.data, brackets ? "[%V]:%d" : "%V:%d", &text,
                    (int) port)
        - host->name.data;
    return NGX_OK;
}


/* host, host:port, [address] or [address]:port. */
static ngx_int_t
read_host(ngx_chat_redis_url_t *url, ngx_str_t text, in_port_t port)
{
    u_char    *end, *last = text.data + text.len;
    ngx_int_t  n = port;
    ngx_str_t  host = text;
    ngx_uint_t brackets = text.len && text.data[0] == '[';

    end = ngx_strlchr(text.data, last, brackets ? ']' : ':');

    if (brackets && end) {
        host.data++;
        host.len = end - host.data;
        end = ++end < last ? end : NULL;

    } else if (end) {
        host.len = end - host.data;
    }

    if (brackets ? !ngx_chat_redis_is_address(&host)
                 : !ngx_chat_redis_is_name(&host))
    {
        return ngx_chat_redis_invalid(url, "host",
                                      "a name, an IPv4 address or an IPv6 "
                                      "address in brackets");
    }

    if (end) {
        n = *end == ':' ? ngx_atoi(end + 1, last - end - 1) : NGX_ERROR;
        if (n < 1 || n > 65535) {
            return ngx_chat_redis_invalid(url, "port", "1 to 65535");
        }
    }

    return add_host(url, host, (in_port_t) n, brackets);
}


/* host[:port], and with a comma between them more if the scheme has more. */
static ngx_int_t
read_hosts(ngx_chat_redis_url_t *url, ngx_str_t text, in_port_t port)
{
    size_t     i;
    u_char    *comma;
    ngx_str_t  host;
    ngx_uint_t n = 1;

    for (i = 0; i < text.len; i++) {
        n += text.data[i] == ',';
    }

    url->conf->hosts =
        ngx_pcalloc(url->cf->pool, n * sizeof(ngx_chat_redis_host_t));
    if (url->conf->hosts == NULL) {
        return NGX_ERROR;
    }

    while (url->conf->scheme != NGX_CHAT_REDIS_ONE
           && (comma = ngx_strlchr(text.data, text.data + text.len, ',')))
    {
        host = ngx_chat_redis_split(&text, comma);
        if (read_host(url, host, port) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return read_host(url, text, port);
}


/* What logs call the store: host:port,host:port/master. */
static ngx_int_t
make_name(ngx_chat_redis_url_t *url)
{
    size_t                 len = 0;
    u_char                *p;
    ngx_uint_t             i;
    ngx_chat_redis_conf_t *conf = url->conf;

    for (i = 0; i < conf->nhosts; i++) {
        len += conf->hosts[i].name.len + 1;
    }

    p = ngx_pnalloc(url->cf->pool, len + conf->master.len);
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


/* What is behind the hosts: [db], or for sentinels: master[/db]. */
static ngx_int_t
read_path(ngx_chat_redis_url_t *url, ngx_str_t text)
{
    u_char   *slash;
    ngx_str_t master;

    if (url->conf->scheme == NGX_CHAT_REDIS_SENTINEL) {
        master = text;
        slash = ngx_strlchr(text.data, text.data + text.len, '/');
        if (slash) {
            master = ngx_chat_redis_split(&text, slash);
        } else {
            text.len = 0;
        }

        if (!ngx_chat_redis_is_name(&master)) {
            return ngx_chat_redis_invalid(url, "master behind the sentinels",
                                          "a name that they know, of letters, "
                                          "digits, \".\", \"-\" and \"_\"");
        }

        url->conf->master = master;
    }

    return text.len ? ngx_chat_redis_read_db(url, &text) : NGX_OK;
}


/* [user[:password]@]host[:port],...[/...] */
static ngx_int_t
read_url(ngx_chat_redis_url_t *url, ngx_str_t text, in_port_t port)
{
    u_char   *at, *slash;
    ngx_str_t host = text, path = ngx_null_string;

    slash = ngx_strlchr(text.data, text.data + text.len, '/');
    if (slash) {
        path = text;
        host = ngx_chat_redis_split(&path, slash);

        if (memchr(path.data, '@', path.len)) {
            return ngx_chat_redis_invalid(url, "user or password",
                                          "percent-encoded");
        }
    }

    if (read_path(url, path) != NGX_OK) {
        return NGX_ERROR;
    }

    at = memrchr(host.data, '@', host.len);
    if (at) {
        text = ngx_chat_redis_split(&host, at);

        /* more likely a user with each host than a part of the password */
        if (url->conf->scheme != NGX_CHAT_REDIS_ONE
            && memchr(text.data, '@', text.len))
        {
            return ngx_chat_redis_invalid(url, "user or password",
                                          "percent-encoded, and only before "
                                          "the first host");
        }

        if (read_userinfo(url, text) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return read_hosts(url, host, port);
}


static ngx_int_t
read_unix(ngx_chat_redis_url_t *url, ngx_str_t text)
{
    url->conf->hosts =
        ngx_pcalloc(url->cf->pool, sizeof(ngx_chat_redis_host_t));
    if (url->conf->hosts == NULL) {
        return NGX_ERROR;
    }

    url->conf->nhosts = 1;
    url->conf->hosts[0].name = text;
    return NGX_OK;
}


ngx_int_t
ngx_chat_redis_read_server(ngx_chat_redis_url_t *url, ngx_str_t text)
{
    ngx_int_t                      rc;
    const ngx_chat_redis_prefix_t *prefix = find_prefix(&text);

    if (prefix == NULL) {
        return ngx_chat_redis_invalid(url, "store",
                                      "redis://..., rediss://..., "
                                      "redis+sentinel://..., "
                                      "redis+cluster://... or unix:PATH");
    }

    url->tls = prefix->tls;
    url->conf->verify = prefix->tls;
    url->conf->scheme = prefix->scheme;

    if (prefix->port == 0) {
        rc = read_unix(url, text);

    } else {
        text.data += prefix->text.len;
        text.len -= prefix->text.len;
        rc = read_url(url, text, prefix->port);
    }

    return rc == NGX_OK ? make_name(url) : rc;
}


ngx_uint_t
ngx_chat_redis_is_address(const ngx_str_t *host)
{
#if (NGX_HAVE_INET6)
    u_char address[16];

    if (ngx_inet6_addr(host->data, host->len, address) == NGX_OK) {
        return 1;
    }
#endif

    return ngx_inet_addr(host->data, host->len) != INADDR_NONE;
}


ngx_uint_t
ngx_chat_redis_is_name(const ngx_str_t *host)
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

    return host->len > 0 && host->len < 256;
}


ngx_uint_t
ngx_chat_redis_host_is(const ngx_chat_redis_host_t *host,
                       const ngx_str_t *name, ngx_int_t port)
{
    return host->port == port && host->host.len == name->len
           && ngx_memcmp(host->host.data, name->data, name->len) == 0;
}


void
ngx_chat_redis_address_set_ip(ngx_chat_redis_address_t *place,
                              const ngx_str_t          *host)
{
    in_addr_t address;

    address = ngx_inet_addr(host->data, host->len);

    if (address != INADDR_NONE) {
        place->sockaddr.sockaddr_in.sin_family = AF_INET;
        place->sockaddr.sockaddr_in.sin_addr.s_addr = address;
        place->addr.socklen = sizeof(struct sockaddr_in);

    } else {
#if (NGX_HAVE_INET6)
        if (ngx_inet6_addr(host->data, host->len,
                           place->sockaddr.sockaddr_in6.sin6_addr.s6_addr)
            != NGX_OK)
        {
            return;
        }

        place->sockaddr.sockaddr_in6.sin6_family = AF_INET6;
        place->addr.socklen = sizeof(struct sockaddr_in6);
#else
        return;
#endif
    }

    ngx_inet_set_port(&place->sockaddr.sockaddr, place->host.port);
    place->addr.sockaddr = &place->sockaddr.sockaddr;
    place->addr.name = place->host.name;
    place->host.addrs = &place->addr;
    place->host.naddrs = 1;
}


ngx_int_t
ngx_chat_redis_address_set(ngx_chat_redis_address_t *place,
                           const ngx_str_t *host, ngx_int_t port)
{
    ngx_uint_t address = ngx_chat_redis_is_address(host);

    if (port < 1 || port > 65535
        || !(address ? host->len < 256 : ngx_chat_redis_is_name(host)))
    {
        return NGX_ERROR;
    }

    ngx_memzero(place, sizeof(ngx_chat_redis_address_t));
    (void) ngx_cpystrn(place->text, host->data, host->len + 1);
    place->host.port = (in_port_t) port;
    place->host.host.data = place->text;
    place->host.host.len = host->len;
    place->host.name.data = place->name;
    place->host.name.len =
        ngx_sprintf(place->name,
                    memchr(host->data, ':', host->len) ? "[%V]:%i" : "%V:%i",
                    host, port)
        - place->name;

    ngx_chat_redis_address_set_ip(place, host);
    return NGX_OK;
}
