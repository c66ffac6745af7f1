/*
 * ngx_chat_redis_sentinel.h: queries Sentinels for the master's address, and
 * subscribes to its changes.
 *
 * There is one connection, to one Sentinel at a time. Where that one fails,
 * the next one is queried. Nothing blocks; callbacks come from the event loop.
 */

#ifndef NGX_CHAT_REDIS_SENTINEL_H
#define NGX_CHAT_REDIS_SENTINEL_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/redis/ngx_chat_redis_conn.h"

typedef struct ngx_chat_redis_sentinel_s ngx_chat_redis_sentinel_t;

struct ngx_chat_redis_sentinel_s {
    ngx_chat_redis_conf_t conf; /* of the Sentinels */
    ngx_chat_redis_conn_t conn;
    ngx_uint_t            at;       /* conf.hosts[at] is queried */
    ngx_uint_t            querying; /* until one sends the address */
    ngx_uint_t            failed;   /* Sentinels in a row */
    ngx_uint_t            seeking;  /* found() is due */
    ngx_uint_t            logged;   /* that all have failed */

    /* The master's address, and the one before. */
    ngx_chat_redis_address_t     addresses[2];
    const ngx_chat_redis_host_t *master; /* NULL: unknown */

    /*
     * The owner's. found: the master's address, after a seek or because it has
     * changed; NULL: after a seek, why no Sentinel knows it.
     */
    void *data;
    void (*found)(ngx_chat_redis_sentinel_t   *sentinel,
                  const ngx_chat_redis_host_t *master, ngx_uint_t changed,
                  const char *why);
};

/* The owner has zeroed it and set its part. Nothing is sent as yet. */
void ngx_chat_redis_sentinel_open(ngx_chat_redis_sentinel_t   *sentinel,
                                  const ngx_chat_redis_conf_t *conf);

/*
 * Queries the Sentinels, one after the other, until one knows the address. The
 * one that has replied last comes last: its address did not work.
 */
void ngx_chat_redis_sentinel_seek(ngx_chat_redis_sentinel_t *sentinel);

#endif /* NGX_CHAT_REDIS_SENTINEL_H */
