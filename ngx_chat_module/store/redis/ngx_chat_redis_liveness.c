/*
 * ngx_chat_redis_liveness.c: see ngx_chat_redis_liveness.h.
 *
 * The workers' keys, the epochs of the data, and what their replies say of
 * other workers. One MGET reads the epoch first and then the workers, so
 * that both are of the same data.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "store/redis/ngx_chat_redis_liveness.h"

#define NGX_CHAT_REDIS_TTL 10000  /* ms, of a worker's key */
#define NGX_CHAT_REDIS_YOUNG 2000 /* all are back by then */
#define NGX_CHAT_REDIS_TAGS 512   /* tried at a time */

/* Their slots are in the middle of the thirds: 2722, 8196, 13655. */
static const char *const shard_prefixes[NGX_CHAT_REDIS_SHARDS] = {
    "chat:{776}:", "chat:{716}:", "chat:{726}:"
};


void
ngx_chat_redis_shard_init(ngx_chat_redis_shard_t *shard, ngx_uint_t n)
{
    const char *prefix = "chat:";

    if (shard->live->cluster->is_cluster) {
        prefix = shard_prefixes[n];
    }

    shard->n = n;
    shard->votes = 1;
    shard->keeps = !shard->live->cluster->is_cluster;
    shard->len = ngx_strlen(prefix);
    ngx_memcpy(shard->prefix, prefix, shard->len);
    shard->slot = chat_slot(chat_cstr(prefix));
}


ngx_uint_t
ngx_chat_redis_shard_is_up(const ngx_chat_redis_shard_t *shard)
{
    return ngx_chat_redis_cluster_client(shard->live->cluster, shard->slot)
               ->state
           == CHAT_STORE_UP;
}


ngx_uint_t
ngx_chat_redis_shard_place(ngx_chat_redis_shard_t *shard, ngx_uint_t node)
{
    ngx_uint_t    i;
    const u_char *owner = shard->live->cluster->owner;

    if (shard->len != 0 && owner[shard->slot] == node) {
        return 1;
    }

    shard->keeps = 1;
    shard->has_epoch = 0;

    for (i = 0; i < NGX_CHAT_REDIS_TAGS; i++) {
        shard->len = ngx_sprintf(shard->prefix, "chat:{%ui}:", shard->tag)
                     - shard->prefix;
        shard->slot = chat_slot(chat_str(shard->prefix, shard->len));

        if (owner[shard->slot] == node) {
            return 1;
        }

        shard->tag = (shard->tag + 1) % (16 * CHAT_SLOTS);
    }

    return 0; /* it has few; others are tried the next time */
}


/* Adds the key that is called so. */
static void
add_shard_key(ngx_chat_redis_cmd_t *cmd, const ngx_chat_redis_shard_t *shard,
              const char *what, chat_str_t name)
{
    u_char key[sizeof(shard->prefix) + 16 + NGX_CHAT_REDIS_NAME], *end;

    end = ngx_slprintf(key, key + sizeof(key), "%*s%s%*s", shard->len,
                       shard->prefix, what, name.len, name.data);
    ngx_chat_redis_cmd_key(cmd, chat_str(key, (size_t) (end - key)));
}


static void
add_worker_key(ngx_chat_redis_cmd_t *cmd, const ngx_chat_redis_shard_t *shard,
               chat_str_t worker)
{
    add_shard_key(cmd, shard, "worker:", worker);
}


static void
add_epoch_key(ngx_chat_redis_cmd_t *cmd, const ngx_chat_redis_shard_t *shard)
{
    add_shard_key(cmd, shard, "epoch", chat_cstr(""));
}


/* The worker that the i-th argument of a question asks for. */
static chat_str_t
queried_worker(const ngx_chat_redis_shard_t *shard,
               const ngx_chat_redis_cmd_t *cmd, size_t i)
{
    size_t skip = shard->len + sizeof("worker:") - 1;

    return chat_str(cmd->argv[i] + skip, cmd->len[i] - skip);
}


/* Submits it: 1; what is not taken is freed: 0. */
static ngx_uint_t
submit_to_shard(ngx_chat_redis_shard_t *shard, ngx_chat_redis_cmd_t *cmd,
                ngx_uint_t setup)
{
    cmd->setup = setup & 1;
    cmd->data = shard;

    if (ngx_chat_redis_cluster_submit(shard->live->cluster, cmd) == NGX_OK) {
        return 1;
    }

    ngx_chat_redis_cmd_free(cmd);
    return 0;
}


ngx_chat_redis_cmd_t *
ngx_chat_redis_shard_query(ngx_chat_redis_shard_t *shard,
                           const chat_str_t *workers, ngx_uint_t n)
{
    ngx_uint_t            i;
    ngx_chat_redis_cmd_t *cmd = ngx_chat_redis_cmd_create();

    if (cmd == NULL) {
        return NULL;
    }

    ngx_chat_redis_cmd_puts(cmd, "MGET");
    add_epoch_key(cmd, shard);

    for (i = 0; i < n; i++) {
        add_worker_key(cmd, shard, workers[i]);
    }

    return cmd;
}


void
ngx_chat_redis_shard_new_epoch(ngx_chat_redis_shard_t *shard, ngx_uint_t setup)
{
    u_char                text[NGX_CHAT_REDIS_NAME + NGX_INT64_LEN], *end;
    chat_str_t           *worker = &shard->live->worker;
    ngx_chat_redis_cmd_t *cmd = ngx_chat_redis_cmd_create();

    if (cmd == NULL) {
        return;
    }

    end = ngx_slprintf(text, text + sizeof(text), "%*s.%xL", worker->len,
                       worker->data,
                       ((int64_t) ngx_random() << 31) ^ ngx_random());

    ngx_chat_redis_cmd_puts(cmd, "SET");
    add_epoch_key(cmd, shard);
    ngx_chat_redis_cmd_add(cmd, chat_str(text, (size_t) (end - text)));
    ngx_chat_redis_cmd_puts(cmd, "NX");
    cmd->done = ngx_chat_redis_ignore;
    (void) submit_to_shard(shard, cmd, setup);
}


/* 1 if the data is that of the last answer. */
static ngx_uint_t
check_epoch(ngx_chat_redis_shard_t *shard, const redisReply *reply)
{
    chat_digest_t epoch;

    if (reply->type != REDIS_REPLY_STRING) {
        shard->since = ngx_current_msec;
        ngx_chat_redis_shard_new_epoch(shard, 0);
        return 0;
    }

    chat_digest(chat_str(reply->str, (size_t) reply->len), &epoch);

    if (shard->has_epoch && chat_digest_eq(&epoch, &shard->epoch)) {
        return 1;
    }

    shard->epoch = epoch;

    if (!shard->has_epoch) {
        shard->has_epoch = 1;
        return 1;
    }

    shard->since = ngx_current_msec;

    if (shard->keeps) {
        shard->live->lost(shard->live, shard->client);
    }

    return 0;
}


/* 1 if everybody who lives has been back, so that who is missing is dead. */
static ngx_uint_t
is_settled(const ngx_chat_redis_shard_t *shard)
{
    return ngx_current_msec - shard->since >= NGX_CHAT_REDIS_YOUNG
           && ngx_current_msec - shard->client->up_at >= NGX_CHAT_REDIS_YOUNG;
}


void
ngx_chat_redis_shard_reply(ngx_chat_redis_shard_t     *shard,
                           const ngx_chat_redis_cmd_t *cmd,
                           const redisReply           *reply)
{
    size_t     i;
    ngx_uint_t deaths = 0, there;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements + 1 != cmd->argc) {
        ngx_chat_redis_log_error(cmd->client, reply);
        return;
    }

    if (shard->client != cmd->client) {
        shard->client = cmd->client;
        shard->since = ngx_current_msec;
    }

    if (!check_epoch(shard, reply->element[0])) {
        return;
    }

    shard->heard = ngx_current_msec;

    for (i = 2; i < cmd->argc; i++) {
        there = reply->element[i - 1]->type == REDIS_REPLY_STRING;

        if (there || is_settled(shard)) {
            deaths += ngx_chat_redis_liveness_note(
                shard->live, shard, queried_worker(shard, cmd, i), there);
        }
    }

    if (deaths != 0) {
        shard->live->died(shard->live);
    }
}


/* The reply to the first half of a beat: others see this worker. */
static void
on_beat_set(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    ngx_chat_redis_shard_t *shard = cmd->data;

    if (reply != NULL && reply->type == REDIS_REPLY_STATUS) {
        /* one that was sent twice is older than it looks */
        shard->beaten = ngx_max(shard->beaten, cmd->born);
    } else if (reply != NULL) {
        ngx_chat_redis_log_error(cmd->client, reply);
    }

    ngx_chat_redis_ignore(cmd, reply);
}


static void
on_beat_reply(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    ngx_chat_redis_shard_t    *shard = cmd->data;
    ngx_chat_redis_liveness_t *live = shard->live;

    shard->beating = 0;

    /* a node that had the slot of its keeper until just now knows no more */
    if (reply != NULL
        && (shard->votes
            || &live->cluster->nodes[shard->n]->client == cmd->client))
    {
        ngx_chat_redis_shard_reply(shard, cmd, reply);
    }

    ngx_chat_redis_ignore(cmd, reply);
    live->told(live);
}


/* Others are to see this worker. */
static void
set_worker_key(ngx_chat_redis_shard_t *shard, ngx_uint_t setup)
{
    ngx_chat_redis_cmd_t *cmd = ngx_chat_redis_cmd_create();

    if (cmd == NULL) {
        return;
    }

    ngx_chat_redis_cmd_puts(cmd, "SET");
    add_worker_key(cmd, shard, shard->live->worker);
    ngx_chat_redis_cmd_puts(cmd, "1");
    ngx_chat_redis_cmd_puts(cmd, "PX");
    ngx_chat_redis_cmd_number(cmd, NGX_CHAT_REDIS_TTL);
    cmd->done = on_beat_set;
    (void) submit_to_shard(shard, cmd, setup);
}


void
ngx_chat_redis_shard_beat(ngx_chat_redis_shard_t *shard,
                          const chat_str_t *names, ngx_uint_t n,
                          ngx_uint_t setup)
{
    ngx_chat_redis_cmd_t *cmd;

    if (shard->votes) {
        set_worker_key(shard, setup);
    }

    cmd = ngx_chat_redis_shard_query(shard, names, n);

    if (cmd != NULL) {
        cmd->done = on_beat_reply;
        shard->beating = submit_to_shard(shard, cmd, setup);
    }
}


void
ngx_chat_redis_shard_leave(ngx_chat_redis_shard_t *shard)
{
    ngx_chat_redis_cmd_t *cmd = ngx_chat_redis_cmd_create();

    if (cmd == NULL) {
        return;
    }

    ngx_chat_redis_cmd_puts(cmd, "DEL");
    add_worker_key(cmd, shard, shard->live->worker);
    cmd->done = ngx_chat_redis_ignore;
    (void) submit_to_shard(shard, cmd, 0);
}


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
find_worker(ngx_chat_redis_liveness_t *live, chat_str_t name)
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
add_worker(ngx_chat_redis_liveness_t *live, chat_str_t name)
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
ngx_chat_redis_liveness_knows(ngx_chat_redis_liveness_t *live, chat_str_t name,
                              ngx_uint_t now)
{
    ngx_chat_redis_worker_t *worker;

    if (name.len == 0 || name.len > NGX_CHAT_REDIS_NAME
        || chat_str_eq(name, live->worker))
    {
        return 1;
    }

    worker = find_worker(live, name);
    return worker != NULL && !(now && worker->alive);
}


ngx_uint_t
ngx_chat_redis_liveness_quorum(const ngx_chat_redis_liveness_t *live,
                               ngx_uint_t                       shards)
{
    return shards > live->nshards / 2;
}


/* 1 if the others can see this worker, and will for a while. */
static int
is_seen(ngx_chat_redis_liveness_t *live)
{
    ngx_uint_t              i, n = 0;
    ngx_chat_redis_shard_t *shard;

    /* it may have stood still: the others look at the real time */
    ngx_time_update();

    for (i = 0; i < live->nshards; i++) {
        shard = &live->shards[i];
        n += shard->has_epoch
             && ngx_current_msec - shard->beaten < NGX_CHAT_REDIS_FRESH;
    }

    return (int) ngx_chat_redis_liveness_quorum(live, n);
}


int
ngx_chat_redis_liveness_alive(ngx_chat_redis_liveness_t *live, chat_str_t name)
{
    ngx_chat_redis_worker_t *worker;

    if (chat_str_eq(name, live->worker)) {
        return is_seen(live);
    }

    worker = find_worker(live, name);
    if (worker == NULL) {
        return 0;
    }

    worker->used = ngx_current_msec;
    ngx_queue_remove(&worker->queue);
    ngx_queue_insert_head(&live->workers, &worker->queue);
    return (int) worker->alive;
}


ngx_uint_t
ngx_chat_redis_liveness_note(ngx_chat_redis_liveness_t    *live,
                             const ngx_chat_redis_shard_t *shard,
                             chat_str_t name, ngx_uint_t there)
{
    ngx_uint_t               i, was, missing = 0;
    ngx_chat_redis_worker_t *worker;

    worker = find_worker(live, name);
    if (worker == NULL) {
        worker = add_worker(live, name);
    }

    if (worker == NULL) {
        return 0;
    }

    worker->missing &= ~((ngx_uint_t) 1 << shard->n);
    worker->missing |= (ngx_uint_t) !there << shard->n;

    for (i = 0; i < live->nshards; i++) {
        missing += (worker->missing >> i & 1)
                   && ngx_current_msec - live->shards[i].heard
                          < NGX_CHAT_REDIS_RECENT;
    }

    was = worker->alive;
    worker->alive = !ngx_chat_redis_liveness_quorum(live, missing);
    return was && !worker->alive;
}


/* Forgets the workers that nobody has asked about for long. */
static void
expire_workers(ngx_chat_redis_liveness_t *live)
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
beat_shards(ngx_chat_redis_liveness_t *live, ngx_uint_t setup)
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

    for (i = 0; i < live->nshards; i++) {
        if (!live->shards[i].beating || setup) {
            ngx_chat_redis_shard_beat(&live->shards[i], names, n, setup);
        }
    }
}


/* Asks the nodes of a cluster for the epoch of their data. */
static void
beat_node_epochs(ngx_chat_redis_liveness_t *live)
{
    ngx_uint_t              i;
    ngx_chat_redis_node_t  *node;
    ngx_chat_redis_shard_t *node_epoch;

    for (i = 0; i < live->cluster->count; i++) {
        node = live->cluster->nodes[i];
        node_epoch = &live->node_epochs[i];
        node_epoch->live = live;
        node_epoch->n = i;

        if (node->is_open && node->slots != 0
            && node->client.state == CHAT_STORE_UP && !node_epoch->beating
            && ngx_chat_redis_shard_place(node_epoch, i))
        {
            ngx_chat_redis_shard_beat(node_epoch, NULL, 0, 0);
        }
    }
}


void
ngx_chat_redis_liveness_beat(ngx_chat_redis_liveness_t *live)
{
    ngx_chat_redis_cluster_t *cluster = live->cluster;

    if (!cluster->is_cluster) {
        if (ngx_chat_redis_cluster_state(cluster) == CHAT_STORE_UP) {
            beat_shards(live, 0);
        }

        return;
    }

    /* that is also what connects to nodes that nobody has needed yet */
    if (cluster->known) {
        beat_shards(live, 0);
        beat_node_epochs(live);
    }
}


static void
on_beat(ngx_event_t *ev)
{
    ngx_chat_redis_liveness_t *live = ev->data;

    ngx_chat_redis_timer(ev, NGX_CHAT_REDIS_BEAT);
    expire_workers(live);
    ngx_chat_redis_liveness_beat(live);
    live->told(live);
}


void
ngx_chat_redis_liveness_setup(ngx_chat_redis_liveness_t *live)
{
    live->shards[0].since = ngx_current_msec;
    ngx_chat_redis_shard_new_epoch(&live->shards[0], 1);
    beat_shards(live, 1);
}


void
ngx_chat_redis_liveness_leave(ngx_chat_redis_liveness_t *live)
{
    ngx_uint_t i;

    for (i = 0; i < live->nshards; i++) {
        ngx_chat_redis_shard_leave(&live->shards[i]);
    }

    ngx_chat_redis_cluster_flush(live->cluster);
}


void
ngx_chat_redis_liveness_init(ngx_chat_redis_liveness_t *live,
                             ngx_chat_redis_cluster_t  *cluster,
                             chat_str_t                 worker)
{
    ngx_uint_t i;

    live->cluster = cluster;
    live->worker = worker;
    live->nshards = cluster->is_cluster ? NGX_CHAT_REDIS_SHARDS : 1;
    ngx_queue_init(&live->workers);

    for (i = 0; i < live->nshards; i++) {
        live->shards[i].live = live;
        ngx_chat_redis_shard_init(&live->shards[i], i);
    }

    live->beat.handler = on_beat;
    live->beat.data = live;
    live->beat.log = cluster->log;
    ngx_chat_redis_timer(&live->beat, NGX_CHAT_REDIS_BEAT);
}
