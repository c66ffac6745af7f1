/*
 * ngx_chat_redis_host.c: a host that a server has named while NGINX runs.
 *
 * Promises: it keeps all that it points to in itself, so that it lives as long
 * as whoever owns it; what is neither an address nor a name is refused.
 * Must not know: who names hosts, connections.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/redis/ngx_chat_redis.h"


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
ngx_chat_redis_place_at(ngx_chat_redis_place_t *place, const ngx_str_t *host)
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
ngx_chat_redis_place_set(ngx_chat_redis_place_t *place, const ngx_str_t *host,
                         ngx_int_t port)
{
    ngx_uint_t address = ngx_chat_redis_is_address(host);

    if (port < 1 || port > 65535
        || !(address ? host->len < 256 : ngx_chat_redis_is_name(host)))
    {
        return NGX_ERROR;
    }

    ngx_memzero(place, sizeof(ngx_chat_redis_place_t));
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

    ngx_chat_redis_place_at(place, host);
    return NGX_OK;
}
