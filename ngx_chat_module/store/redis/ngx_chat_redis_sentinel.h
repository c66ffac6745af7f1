/*
 * ngx_chat_redis_sentinel.h: asks sentinels where the master is, and hears of
 * it when it is another one.
 *
 * One connection, to one sentinel at a time: it is asked, and then listened
 * to; one that is of no use gives way to the next. Promises: nothing blocks;
 * callbacks come from the event loop. Must not know: commands, facts.
 */

#ifndef NGX_CHAT_REDIS_SENTINEL_H
#define NGX_CHAT_REDIS_SENTINEL_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "store/redis/ngx_chat_redis.h"

typedef struct ngx_chat_redis_sentinel_s ngx_chat_redis_sentinel_t;

typedef enum {
    /* waits for a seek, or for the timer to open a connection: ASKING */
    NGX_CHAT_REDIS_SENTINEL_RESTS,

    /* awaits the connection and its answer: LISTENS; else the next one */
    NGX_CHAT_REDIS_SENTINEL_ASKS,

    /* awaits news; the end of the connection leads to RESTS */
    NGX_CHAT_REDIS_SENTINEL_LISTENS
} ngx_chat_redis_sentinel_e;

struct ngx_chat_redis_sentinel_s {
    ngx_chat_redis_conf_t     conf; /* of the sentinels */
    ngx_chat_redis_conn_t     conn;
    ngx_chat_redis_sentinel_e state;
    ngx_uint_t                at;      /* conf.hosts[at] is asked */
    ngx_uint_t                failed;  /* so many in a row were of no use */
    ngx_uint_t                seeking; /* somebody waits to be told */
    ngx_uint_t                silent;  /* no reply since the last ping */
    ngx_uint_t                told;    /* the log was told that all failed */
    ngx_msec_t                backoff;
    ngx_event_t               timer; /* of the answer, the ping, the rest */

    /* Where the master is, and was before. */
    ngx_chat_redis_address_t     places[2];
    const ngx_chat_redis_host_t *master; /* NULL: not known yet */

    /*
     * The owner's. found: the master is there, after a seek or because it has
     * moved. lost: after a seek, why no sentinel knows it.
     */
    void *data;
    void (*found)(ngx_chat_redis_sentinel_t   *sentinel,
                  const ngx_chat_redis_host_t *master, ngx_uint_t moved);
    void (*lost)(ngx_chat_redis_sentinel_t *sentinel, const char *why);
};

/* The owner has zeroed it and set its own. Asks nobody as yet. */
void ngx_chat_redis_sentinel_open(ngx_chat_redis_sentinel_t   *sentinel,
                                  const ngx_chat_redis_conf_t *conf,
                                  ngx_log_t                   *log);

/*
 * Asks the sentinels, one after the other, until one answers; found() or
 * lost() follows. What the last one has said is of no use: it comes last.
 */
void ngx_chat_redis_sentinel_seek(ngx_chat_redis_sentinel_t *sentinel);

void ngx_chat_redis_sentinel_close(ngx_chat_redis_sentinel_t *sentinel);

#endif /* NGX_CHAT_REDIS_SENTINEL_H */
