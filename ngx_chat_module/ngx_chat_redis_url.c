/*
 * ngx_chat_redis_url.c: reads where the Redis server is:
 * redis://[user[:password]@]host[:port][/db], rediss://... or unix:PATH.
 *
 * Promises: whatever is wrong is said with the name of the directive, and no
 * part of the URL with it: where a password ends is not sure then.
 * Must not know: parameters, how to connect.
 */

#include "ngx_chat_redis_conf.h"

#define NGX_CHAT_REDIS_PORT 6379
#define NGX_CHAT_REDIS_DB_MAX 1000000


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
ngx_chat_redis_decode(ngx_chat_redis_url_t *url, ngx_str_t *to,
                      const ngx_str_t *from)
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
ngx_chat_redis_read_userinfo(ngx_chat_redis_url_t *url, ngx_str_t text)
{
    u_char   *colon;
    ngx_str_t user = text;

    colon = ngx_strlchr(text.data, text.data + text.len, ':');
    if (colon) {
        user = ngx_chat_redis_split(&text, colon);

        if (ngx_chat_redis_decode(url, &url->conf->password, &text) != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return ngx_chat_redis_decode(url, &url->conf->user, &user);
}


static ngx_uint_t
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


/* host, host:port, [address] or [address]:port. */
static ngx_int_t
ngx_chat_redis_read_host(ngx_chat_redis_url_t *url, ngx_str_t text)
{
    u_char                *end, *last = text.data + text.len;
    ngx_int_t              port;
    ngx_str_t              host = text;
    ngx_uint_t             brackets = text.len && text.data[0] == '[';
    ngx_chat_redis_conf_t *conf = url->conf;

    conf->port = NGX_CHAT_REDIS_PORT;
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
        port = *end == ':' ? ngx_atoi(end + 1, last - end - 1) : NGX_ERROR;
        if (port < 1 || port > 65535) {
            return ngx_chat_redis_invalid(url, "port", "1 to 65535");
        }

        conf->port = (in_port_t) port;
    }

    conf->host.len = host.len;
    conf->host.data = ngx_pnalloc(url->cf->pool, host.len + 1);
    conf->name.data =
        ngx_pnalloc(url->cf->pool, host.len + sizeof("[]:65535"));
    if (conf->host.data == NULL || conf->name.data == NULL) {
        return NGX_ERROR;
    }

    (void) ngx_cpystrn(conf->host.data, host.data, host.len + 1);
    conf->name.len =
        ngx_sprintf(conf->name.data, brackets ? "[%V]:%d" : "%V:%d", &host,
                    (int) conf->port)
        - conf->name.data;
    return NGX_OK;
}


/* [user[:password]@]host[:port][/db] */
static ngx_int_t
ngx_chat_redis_read_url(ngx_chat_redis_url_t *url, ngx_str_t text)
{
    u_char   *at, *slash;
    ngx_str_t host = text;

    slash = ngx_strlchr(text.data, text.data + text.len, '/');
    if (slash) {
        host = ngx_chat_redis_split(&text, slash);

        if (memchr(text.data, '@', text.len)) {
            return ngx_chat_redis_invalid(url, "user or password",
                                          "percent-encoded");
        }

        if (text.len && ngx_chat_redis_read_db(url, &text) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    at = memrchr(host.data, '@', host.len);
    if (at) {
        text = ngx_chat_redis_split(&host, at);

        if (ngx_chat_redis_read_userinfo(url, text) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return ngx_chat_redis_read_host(url, host);
}


ngx_int_t
ngx_chat_redis_read_server(ngx_chat_redis_url_t *url, ngx_str_t text)
{
    if (ngx_strncmp(text.data, "unix:", 5) == 0) {
        url->conf->name = text;
        return NGX_OK;
    }

#if (NGX_SSL)
    if (ngx_strncasecmp(text.data, (u_char *) "rediss://", 9) == 0) {
        url->tls = 1;
        url->conf->verify = 1;
        text.data += 9;
        text.len -= 9;
        return ngx_chat_redis_read_url(url, text);
    }
#endif

    if (ngx_strncasecmp(text.data, (u_char *) "redis://", 8) == 0) {
        text.data += 8;
        text.len -= 8;
        return ngx_chat_redis_read_url(url, text);
    }

    return ngx_chat_redis_invalid(url, "store",
                                  "redis://..., rediss://... or unix:PATH");
}
