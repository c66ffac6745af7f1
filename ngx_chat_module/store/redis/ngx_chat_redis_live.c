/*
 * ngx_chat_redis_live.c: see ngx_chat_redis_liveness.h.
 *
 * The workers that were met, and what the seats say of them. Of one seat its
 * word counts; of three that of two, and whoever says that this worker lives
 * asks the same: two that say yes and two that say no have one in common.
 * Workers that nobody has asked about for a minute are forgotten.
 * Must not know: facts, batches, the names of keys.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "store/redis/ngx_chat_redis_liveness.h"

#define NGX_CHAT_REDIS_FRESH 5000 /* ms: half the life of a worker's key */
#define NGX_CHAT_REDIS_BEAT 500
#define NGX_CHAT_REDIS_RECENT 2000 /* what a seat has said counts as long */
#define NGX_CHAT_REDIS_MEMORY 60000
#define NGX_CHAT_REDIS_WORKERS 512


/* A worker that this one has met. */
typedef struct {
    ngx_queue_t queue;
    ngx_msec_t  used;
    ngx_uint_t  alive;
    ngx_uint_t  missing; /* a bit for each seat that lacks its key */
    size_t      len;
    u_char      name[NGX_CHAT_REDIS_NAME];
} ngx_chat_redis_worker_t;


static ngx_chat_redis_worker_t *
ngx_chat_redis_live_find(ngx_chat_redis_live_t *live, chat_str_t name)
{
    ngx_queue_t             *q;
    ngx_chat_redis_worker_t *worker;

    for (q = ngx_queue_head(&live->workers);
         q != ngx_queue_sentinel(&live->workers); q = ngx_queue_next(q))
    {
        worker = ngx_queue_data(q, ngx_chat_redis_worker_t, queue);
        if (chat_str_eq(chat_str(worker->name, worker->len), name)) {
            return worker;
        }
    }

    return NULL;
}


/* A worker met for the first time; the one longest unasked makes room. */
static ngx_chat_redis_worker_t *
ngx_chat_redis_live_meet(ngx_chat_redis_live_t *live, chat_str_t name)
{
    ngx_chat_redis_worker_t *worker;

    if (live->count < NGX_CHAT_REDIS_WORKERS) {
        worker = ngx_alloc(sizeof(ngx_chat_redis_worker_t), live->beat.log);
        if (worker == NULL) {
            return NULL;
        }
        live->count++;

    } else {
        worker = ngx_queue_data(ngx_queue_last(&live->workers),
                                ngx_chat_redis_worker_t, queue);
        ngx_queue_remove(&worker->queue);
    }

    worker->alive = 1;
    worker->missing = 0;
    worker->used = ngx_current_msec;
    worker->len = name.len;
    ngx_memcpy(worker->name, name.data, name.len);
    ngx_queue_insert_head(&live->workers, &worker->queue);
    return worker;
}


ngx_uint_t
ngx_chat_redis_live_knows(ngx_chat_redis_live_t *live, chat_str_t name,
                          ngx_uint_t now)
{
    ngx_chat_redis_worker_t *worker;

    if (name.len == 0 || name.len > NGX_CHAT_REDIS_NAME
        || chat_str_eq(name, live->worker))
    {
        return 1;
    }

    worker = ngx_chat_redis_live_find(live, name);
    return worker != NULL && !(now && worker->alive);
}


ngx_uint_t
ngx_chat_redis_live_enough(const ngx_chat_redis_live_t *live, ngx_uint_t seats)
{
    return seats > live->nseats / 2;
}


/* 1 if the others can see this worker, and will for a while. */
static int
ngx_chat_redis_live_seen(ngx_chat_redis_live_t *live)
{
    ngx_uint_t             i, n = 0;
    ngx_chat_redis_seat_t *seat;

    /* it may have stood still: the others look at the real time */
    ngx_time_update();

    for (i = 0; i < live->nseats; i++) {
        seat = &live->seats[i];
        n += seat->has_epoch
             && ngx_current_msec - seat->beaten < NGX_CHAT_REDIS_FRESH;
    }

    return (int) ngx_chat_redis_live_enough(live, n);
}


int
ngx_chat_redis_live_alive(ngx_chat_redis_live_t *live, chat_str_t name)
{
    ngx_chat_redis_worker_t *worker;

    if (chat_str_eq(name, live->worker)) {
        return ngx_chat_redis_live_seen(live);
    }

    worker = ngx_chat_redis_live_find(live, name);
    if (worker == NULL) {
        return 0;
    }

    worker->used = ngx_current_msec;
    ngx_queue_remove(&worker->queue);
    ngx_queue_insert_head(&live->workers, &worker->queue);
    return (int) worker->alive;
}


ngx_uint_t
ngx_chat_redis_live_note(ngx_chat_redis_live_t       *live,
                         const ngx_chat_redis_seat_t *seat, chat_str_t name,
                         ngx_uint_t there)
{
    ngx_uint_t               i, was, missing = 0;
    ngx_chat_redis_worker_t *worker;

    worker = ngx_chat_redis_live_find(live, name);
    if (worker == NULL) {
        worker = ngx_chat_redis_live_meet(live, name);
    }

    if (worker == NULL) {
        return 0;
    }

    worker->missing &= ~((ngx_uint_t) 1 << seat->n);
    worker->missing |= (ngx_uint_t) !there << seat->n;

    for (i = 0; i < live->nseats; i++) {
        missing +=
            (worker->missing >> i & 1)
            && ngx_current_msec - live->seats[i].heard < NGX_CHAT_REDIS_RECENT;
    }

    was = worker->alive;
    worker->alive = !ngx_chat_redis_live_enough(live, missing);
    return was && !worker->alive;
}


/* Forgets the workers that nobody has asked about for long. */
static void
ngx_chat_redis_live_forget(ngx_chat_redis_live_t *live)
{
    ngx_queue_t             *q;
    ngx_chat_redis_worker_t *worker;

    while (!ngx_queue_empty(&live->workers)) {
        q = ngx_queue_last(&live->workers);
        worker = ngx_queue_data(q, ngx_chat_redis_worker_t, queue);
        if (ngx_current_msec - worker->used < NGX_CHAT_REDIS_MEMORY) {
            return;
        }
        ngx_queue_remove(q);
        ngx_free(worker);
        live->count--;
    }
}


static void
ngx_chat_redis_live_send(ngx_chat_redis_live_t *live, ngx_uint_t greets)
{
    chat_str_t               names[NGX_CHAT_REDIS_WORKERS];
    ngx_uint_t               i, n = 0;
    ngx_queue_t             *q;
    ngx_chat_redis_worker_t *worker;

    for (q = ngx_queue_head(&live->workers);
         q != ngx_queue_sentinel(&live->workers); q = ngx_queue_next(q))
    {
        worker = ngx_queue_data(q, ngx_chat_redis_worker_t, queue);
        names[n++] = chat_str(worker->name, worker->len);
    }

    for (i = 0; i < live->nseats; i++) {
        if (!live->seats[i].beating || greets) {
            ngx_chat_redis_seat_beat(&live->seats[i], names, n, greets);
        }
    }
}


/* Asks the nodes of a cluster for the epoch of their data. */
static void
ngx_chat_redis_live_keep(ngx_chat_redis_live_t *live)
{
    ngx_uint_t             i;
    ngx_chat_redis_node_t *node;
    ngx_chat_redis_seat_t *keeper;

    for (i = 0; i < live->cluster->count; i++) {
        node = live->cluster->nodes[i];
        keeper = &live->keepers[i];
        keeper->live = live;
        keeper->n = i;

        if (node->is_open && node->slots != 0
            && node->client.state == CHAT_STORE_UP && !keeper->beating
            && ngx_chat_redis_seat_keep(keeper, i))
        {
            ngx_chat_redis_seat_beat(keeper, NULL, 0, 0);
        }
    }
}


void
ngx_chat_redis_live_go(ngx_chat_redis_live_t *live)
{
    ngx_chat_redis_cluster_t *cluster = live->cluster;

    if (!cluster->many) {
        if (ngx_chat_redis_cluster_state(cluster) == CHAT_STORE_UP) {
            ngx_chat_redis_live_send(live, 0);
        }

        return;
    }

    /* that is also what connects to nodes that nobody has needed yet */
    if (cluster->known) {
        ngx_chat_redis_live_send(live, 0);
        ngx_chat_redis_live_keep(live);
    }
}


static void
ngx_chat_redis_live_beat(ngx_event_t *ev)
{
    ngx_chat_redis_live_t *live = ev->data;

    ngx_chat_redis_timer(ev, NGX_CHAT_REDIS_BEAT);
    ngx_chat_redis_live_forget(live);
    ngx_chat_redis_live_go(live);
    live->told(live);
}


void
ngx_chat_redis_live_greet(ngx_chat_redis_live_t *live)
{
    live->seats[0].since = ngx_current_msec;
    ngx_chat_redis_seat_new_epoch(&live->seats[0], 1);
    ngx_chat_redis_live_send(live, 1);
}


void
ngx_chat_redis_live_leave(ngx_chat_redis_live_t *live)
{
    ngx_uint_t i;

    for (i = 0; i < live->nseats; i++) {
        ngx_chat_redis_seat_leave(&live->seats[i]);
    }

    ngx_chat_redis_cluster_flush(live->cluster);
}


void
ngx_chat_redis_live_init(ngx_chat_redis_live_t    *live,
                         ngx_chat_redis_cluster_t *cluster, chat_str_t worker)
{
    ngx_uint_t i;

    live->cluster = cluster;
    live->worker = worker;
    live->nseats = cluster->many ? NGX_CHAT_REDIS_SEATS : 1;
    ngx_queue_init(&live->workers);

    for (i = 0; i < live->nseats; i++) {
        live->seats[i].live = live;
        ngx_chat_redis_seat_init(&live->seats[i], i);
    }

    live->beat.handler = ngx_chat_redis_live_beat;
    live->beat.data = live;
    live->beat.log = cluster->log;
    ngx_chat_redis_timer(&live->beat, NGX_CHAT_REDIS_BEAT);
}
