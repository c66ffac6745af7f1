/*
 * ngx_chat_redis_liveness.h: which workers are alive, and whether the servers
 * still have their data.
 *
 * Twice a second each worker sets a key of its own, which lasts 10 s, and
 * reads the keys of the workers that it knows. A missing key means a dead
 * worker, unless the connection is so young that the worker may not have
 * connected again. In a cluster the keys are in three shards, and a majority
 * of them decides. One more key of a shard, the epoch, is missing or has
 * changed if its server has lost its data.
 */

#ifndef NGX_CHAT_REDIS_LIVENESS_H
#define NGX_CHAT_REDIS_LIVENESS_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/redis/ngx_chat_redis_cluster.h"

#define NGX_CHAT_REDIS_NAME 40 /* bytes of a worker's name, at most */
#define NGX_CHAT_REDIS_SHARDS 3
#define NGX_CHAT_REDIS_WORKERS 512 /* known ones */

typedef struct ngx_chat_redis_liveness_s ngx_chat_redis_liveness_t;

typedef struct {
    ngx_msec_t used;
    ngx_uint_t alive;
    ngx_uint_t missing; /* a bit for each shard without its key */
    size_t     len;
    u_char     name[NGX_CHAT_REDIS_NAME];
} ngx_chat_redis_worker_t;

/* Keys in one slot: of workers and an epoch. */
typedef struct {
    ngx_chat_redis_liveness_t *liveness;
    ngx_chat_redis_client_t   *client;  /* that has replied last */
    ngx_msec_t                 since;   /* when that began to reply */
    ngx_uint_t                 beating; /* a beat has no reply yet */
    ngx_msec_t                 set_at;  /* when this worker's key was set */
    ngx_msec_t                 replied; /* when it has replied last */
    chat_digest_t              epoch;   /* of the epoch's text */
    ngx_uint_t                 has_epoch;
    unsigned                   slot;
    const char                *prefix; /* of the keys */
} ngx_chat_redis_shard_t;

struct ngx_chat_redis_liveness_s {
    ngx_chat_redis_cluster_t *cluster;
    chat_str_t                worker; /* this one */
    ngx_event_t               beat;
    ngx_uint_t                nshards;
    ngx_chat_redis_shard_t    shards[NGX_CHAT_REDIS_SHARDS];

    /* Known ones. A new one replaces the one longest unused. */
    ngx_chat_redis_worker_t workers[NGX_CHAT_REDIS_WORKERS];
    ngx_uint_t              count;

    /* The owner's; data is their argument. */
    void *data;
    void (*died)(void *data); /* a worker */
    void (*data_lost)(void *data, ngx_chat_redis_client_t *client);

    /* After each beat: whether this worker is alive may have changed. */
    void (*beaten)(void *data);
};

void ngx_chat_redis_liveness_init(ngx_chat_redis_liveness_t *liveness,
                                  ngx_chat_redis_cluster_t  *cluster,
                                  chat_str_t                 worker);

/* Submits the setup commands of a new connection to the only server. */
void ngx_chat_redis_liveness_setup(ngx_chat_redis_liveness_t *liveness);

/* Beats now, unless a beat is under way. */
void ngx_chat_redis_liveness_beat(ngx_chat_redis_liveness_t *liveness);

/* Deletes this worker's keys, if that is possible at once. */
void ngx_chat_redis_liveness_leave(ngx_chat_redis_liveness_t *liveness);

/*
 * 1 if the worker is known, dead or alive. fresh: a worker that was alive at
 * the last beat is unknown.
 */
ngx_uint_t ngx_chat_redis_liveness_knows(ngx_chat_redis_liveness_t *liveness,
                                         chat_str_t worker, ngx_uint_t fresh);

/* As chat_store_t's alive(). */
int ngx_chat_redis_liveness_alive(ngx_chat_redis_liveness_t *liveness,
                                  chat_str_t                 worker);

/*
 * Queries the shards for workers of the reply to cmd. done() is called once,
 * maybe at once; known: a majority of the shards has replied.
 */
void ngx_chat_redis_liveness_query(ngx_chat_redis_liveness_t *liveness,
                                   const chat_str_t *workers, ngx_uint_t n,
                                   ngx_chat_redis_cmd_t *cmd,
                                   void (*done)(ngx_chat_redis_cmd_t *cmd,
                                                ngx_uint_t            known));

#endif /* NGX_CHAT_REDIS_LIVENESS_H */
