/*
 * ngx_chat_redis_liveness.h: which workers are alive, and whether the servers
 * still have what they were told.
 *
 * Each worker sets a key of its own that lasts 10 s, twice a second, and reads
 * those of the workers that it has met. A key that is missing means a dead
 * worker, unless the connection is so young that the worker may not have been
 * back yet. In a cluster the keys are in three places, and two of them say who
 * lives: one that is away says nothing of anybody. One more key, the epoch, is
 * missing or another where a server has lost its data.
 * Must not know: facts, batches.
 */

#ifndef NGX_CHAT_REDIS_LIVENESS_H
#define NGX_CHAT_REDIS_LIVENESS_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "store/redis/ngx_chat_redis_cluster.h"

#define NGX_CHAT_REDIS_NAME 40 /* bytes of a worker's name, at most */
#define NGX_CHAT_REDIS_SHARDS 3

typedef struct ngx_chat_redis_liveness_s ngx_chat_redis_liveness_t;

/* A place where keys are. */
typedef struct {
    ngx_chat_redis_liveness_t *live;
    ngx_uint_t                 n;
    ngx_uint_t                 votes;   /* workers' keys are there */
    ngx_uint_t                 keeps;   /* its epoch is that of the data */
    ngx_chat_redis_client_t   *client;  /* who has answered last */
    ngx_msec_t                 since;   /* from then on */
    ngx_uint_t                 beating; /* a beat is under way */
    ngx_msec_t                 beaten;  /* when the last good one was sent */
    ngx_msec_t                 heard;   /* when it has answered last */
    chat_digest_t              epoch;   /* of the epoch's text */
    ngx_uint_t                 has_epoch;
    ngx_uint_t                 tag; /* of a keeper */
    unsigned                   slot;
    size_t                     len;
    u_char                     prefix[24]; /* of the keys */
} ngx_chat_redis_shard_t;

struct ngx_chat_redis_liveness_s {
    ngx_chat_redis_cluster_t *cluster;
    chat_str_t                worker;  /* this one */
    ngx_queue_t               workers; /* met lately, the latest first */
    ngx_uint_t                count;
    ngx_event_t               beat;
    ngx_uint_t                nshards;
    ngx_chat_redis_shard_t    shards[NGX_CHAT_REDIS_SHARDS];

    /* one for each node of a cluster, whose data has an epoch of its own */
    ngx_chat_redis_shard_t node_epochs[NGX_CHAT_REDIS_MASTERS];

    /*
     * the owner's: a worker has died; the data was lost; beat: this worker may
     * be alive now or not any more
     */
    void *data;
    void (*died)(ngx_chat_redis_liveness_t *live);
    void (*lost)(ngx_chat_redis_liveness_t *live,
                 ngx_chat_redis_client_t   *client);
    void (*told)(ngx_chat_redis_liveness_t *live);
};

void ngx_chat_redis_liveness_init(ngx_chat_redis_liveness_t *live,
                                  ngx_chat_redis_cluster_t  *cluster,
                                  chat_str_t                 worker);

/* Submits the greetings of a new connection to the only server. */
void ngx_chat_redis_liveness_setup(ngx_chat_redis_liveness_t *live);

/* Beats now, where that is not under way. */
void ngx_chat_redis_liveness_beat(ngx_chat_redis_liveness_t *live);

/* Says that this worker is no more, if that can be said at once. */
void ngx_chat_redis_liveness_leave(ngx_chat_redis_liveness_t *live);

/*
 * 1 if something is known of this worker. now: that it lived at the last beat
 * is not enough.
 */
ngx_uint_t ngx_chat_redis_liveness_knows(ngx_chat_redis_liveness_t *live,
                                         chat_str_t worker, ngx_uint_t now);

/* 1 if so many seats can say who lives. */
ngx_uint_t
ngx_chat_redis_liveness_quorum(const ngx_chat_redis_liveness_t *live,
                               ngx_uint_t                       shards);

/* As chat_store_t's alive(). */
int ngx_chat_redis_liveness_alive(ngx_chat_redis_liveness_t *live,
                                  chat_str_t                 worker);

/* What a seat says of a worker, or nobody; 1 if that is its death. */
ngx_uint_t ngx_chat_redis_liveness_note(ngx_chat_redis_liveness_t    *live,
                                        const ngx_chat_redis_shard_t *shard,
                                        chat_str_t name, ngx_uint_t there);

/*
 * ngx_chat_redis_liveness.c: the keys.
 */

/* The command that asks for these workers; NULL: no memory. */
ngx_chat_redis_cmd_t *ngx_chat_redis_shard_query(ngx_chat_redis_shard_t *shard,
                                                 const chat_str_t *workers,
                                                 ngx_uint_t        n);

/* 1 if it can be asked at once. */
ngx_uint_t ngx_chat_redis_shard_is_up(const ngx_chat_redis_shard_t *shard);

/* What it has answered. */
void ngx_chat_redis_shard_reply(ngx_chat_redis_shard_t     *shard,
                                const ngx_chat_redis_cmd_t *cmd,
                                const redisReply           *reply);

/* Says that this worker lives, and asks who of these else does. */
void ngx_chat_redis_shard_beat(ngx_chat_redis_shard_t *shard,
                               const chat_str_t *names, ngx_uint_t n,
                               ngx_uint_t setup);

/* Puts a new epoch, unless another worker has been quicker. */
void ngx_chat_redis_shard_new_epoch(ngx_chat_redis_shard_t *shard,
                                    ngx_uint_t              setup);

/* Says that this worker is no more. */
void ngx_chat_redis_shard_leave(ngx_chat_redis_shard_t *shard);

/* The place of the n-th seat; and of a node's keeper: 0 if it has none. */
void ngx_chat_redis_shard_init(ngx_chat_redis_shard_t *shard, ngx_uint_t n);
ngx_uint_t ngx_chat_redis_shard_place(ngx_chat_redis_shard_t *shard,
                                      ngx_uint_t              node);

#endif /* NGX_CHAT_REDIS_LIVENESS_H */
