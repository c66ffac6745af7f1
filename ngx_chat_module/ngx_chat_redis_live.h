/*
 * ngx_chat_redis_live.h: which workers are alive, and whether the server still
 * has what it was told.
 *
 * Each worker sets a key of its own that lasts 10 s, twice a second, and reads
 * those of the workers that it has met. A key that is missing means a dead
 * worker, unless the connection is so young that the worker may not have been
 * back yet. One more key, the epoch, is missing or another where the server
 * has lost its data. Must not know: facts, batches.
 */

#ifndef NGX_CHAT_REDIS_LIVE_H
#define NGX_CHAT_REDIS_LIVE_H

#include "ngx_chat_redis_client.h"

#define NGX_CHAT_REDIS_NAME 40 /* bytes of a worker's name, at most */

typedef struct ngx_chat_redis_live_s ngx_chat_redis_live_t;

struct ngx_chat_redis_live_s {
    ngx_chat_redis_client_t *client;
    chat_str_t               worker;  /* this one */
    ngx_queue_t              workers; /* met lately, the latest first */
    ngx_uint_t               count;
    ngx_event_t              beat;
    ngx_uint_t               beating; /* a beat is under way */
    ngx_msec_t               beaten;  /* when the last good one was sent */
    ngx_msec_t               trusted; /* a missing key counts from then on */
    chat_digest_t            epoch;   /* of the epoch's text */
    ngx_uint_t               has_epoch;

    /* the owner's: a worker has died; the data was lost */
    void *data;
    void (*died)(ngx_chat_redis_live_t *live);
    void (*lost)(ngx_chat_redis_live_t *live);
};

void ngx_chat_redis_live_init(ngx_chat_redis_live_t   *live,
                              ngx_chat_redis_client_t *client,
                              chat_str_t               worker);

/* Submits the greetings of a new connection. */
void ngx_chat_redis_live_greet(ngx_chat_redis_live_t *live);

/* Says that this worker is no more, if that can be said at once. */
void ngx_chat_redis_live_leave(ngx_chat_redis_live_t *live);

/*
 * 1 if something is known of this worker. now: that it lived at the last beat
 * is not enough.
 */
ngx_uint_t ngx_chat_redis_live_knows(ngx_chat_redis_live_t *live,
                                     chat_str_t worker, ngx_uint_t now);

/* The command that asks for these workers; NULL: no memory. */
ngx_chat_redis_cmd_t *ngx_chat_redis_live_question(ngx_chat_redis_live_t *live,
                                                   const chat_str_t *workers,
                                                   ngx_uint_t        n);

/* What it has answered. */
void ngx_chat_redis_live_answer(ngx_chat_redis_live_t      *live,
                                const ngx_chat_redis_cmd_t *cmd,
                                const redisReply           *reply);

/* As chat_store_t's alive(). */
int ngx_chat_redis_live_alive(ngx_chat_redis_live_t *live, chat_str_t worker);

#endif /* NGX_CHAT_REDIS_LIVE_H */
