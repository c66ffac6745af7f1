/*
 * ngx_chat_redis_liveness.c: see ngx_chat_redis_liveness.h.
 *
 * A query is one MGET: the epoch first, then the workers, so that both are of
 * the same data. The keys of a shard have one hash tag. The shards of workers
 * are in slots that are the same for all workers; a node's epoch is in any
 * slot of that node. A majority of shards decides about another worker and
 * about this one, so that two decisions have one shard in common.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "store/redis/ngx_chat_redis_liveness.h"

#define NGX_CHAT_REDIS_TTL 10000 /* ms, of a worker's key */
#define NGX_CHAT_REDIS_FRESH (NGX_CHAT_REDIS_TTL / 2)
#define NGX_CHAT_REDIS_BEAT 500
#define NGX_CHAT_REDIS_RECENT 2000  /* a shard's reply counts so long */
#define NGX_CHAT_REDIS_SETTLED 2000 /* all workers are back by then */
#define NGX_CHAT_REDIS_MEMORY 60000 /* then an unused worker is forgotten */
#define NGX_CHAT_REDIS_WORKERS 512  /* known ones */
#define NGX_CHAT_REDIS_TAGS 512     /* tried at a time */

/* A known worker. */
typedef struct {
    ngx_queue_t queue;
    ngx_msec_t  used;
    ngx_uint_t  alive;
    ngx_uint_t  missing; /* a bit for each shard without its key */
    size_t      len;
    u_char      name[NGX_CHAT_REDIS_NAME];
} worker_t;

/* A query to several shards. */
typedef struct {
    ngx_chat_redis_liveness_t *liveness;
    ngx_uint_t                 pending; /* replies, and 1 while it is sent */
    ngx_uint_t                 replies;
    void (*done)(void *data, ngx_uint_t known);
    void *data;
} query_t;

/* The part of one shard. */
typedef struct {
    query_t                *query;
    ngx_chat_redis_shard_t *shard;
} part_t;

/* In the middle of the thirds: slots 2722, 8196, 13655. */
static const char *const shard_prefixes[NGX_CHAT_REDIS_SHARDS] = {
    "chat:{776}:", "chat:{716}:", "chat:{726}:"
};


static worker_t *
worker_of(ngx_queue_t *q)
{
    return ngx_queue_data(q, worker_t, queue);
}


static worker_t *
find_worker(ngx_chat_redis_liveness_t *liveness, chat_str_t name)
{
    worker_t    *worker;
    ngx_queue_t *q;

    for (q = ngx_queue_head(&liveness->workers);
         q != ngx_queue_sentinel(&liveness->workers); q = ngx_queue_next(q))
    {
        worker = worker_of(q);
        if (chat_str_eq(chat_str(worker->name, worker->len), name)) {
            return worker;
        }
    }

    return NULL;
}


/* A new known worker, instead of the one longest unused if need be. */
static worker_t *
add_worker(ngx_chat_redis_liveness_t *liveness, chat_str_t name)
{
    worker_t *worker;

    if (liveness->count < NGX_CHAT_REDIS_WORKERS) {
        worker = ngx_alloc(sizeof(worker_t), liveness->beat.log);
        if (worker == NULL) {
            return NULL;
        }
        liveness->count++;

    } else {
        worker = worker_of(ngx_queue_last(&liveness->workers));
        ngx_queue_remove(&worker->queue);
    }

    worker->alive = 1;
    worker->missing = 0;
    worker->used = ngx_current_msec;
    worker->len = name.len;
    ngx_memcpy(worker->name, name.data, name.len);
    ngx_queue_insert_head(&liveness->workers, &worker->queue);
    return worker;
}


/* Forgets the workers that have been unused for long. */
static void
expire_workers(ngx_chat_redis_liveness_t *liveness)
{
    worker_t *worker;

    while (!ngx_queue_empty(&liveness->workers)) {
        worker = worker_of(ngx_queue_last(&liveness->workers));
        if (ngx_current_msec - worker->used < NGX_CHAT_REDIS_MEMORY) {
            return;
        }
        ngx_queue_remove(&worker->queue);
        ngx_free(worker);
        liveness->count--;
    }
}


ngx_uint_t
ngx_chat_redis_liveness_knows(ngx_chat_redis_liveness_t *liveness,
                              chat_str_t name, ngx_uint_t fresh)
{
    worker_t *worker;

    if (name.len == 0 || name.len > NGX_CHAT_REDIS_NAME
        || chat_str_eq(name, liveness->worker))
    {
        return 1;
    }

    worker = find_worker(liveness, name);
    return worker != NULL && !(fresh && worker->alive);
}


static ngx_uint_t
is_majority(const ngx_chat_redis_liveness_t *liveness, ngx_uint_t shards)
{
    return shards > liveness->nshards / 2;
}


/* 1 if other workers see this one, and will do for a while. */
static int
is_seen(ngx_chat_redis_liveness_t *liveness)
{
    ngx_uint_t              i, n = 0;
    ngx_chat_redis_shard_t *shard;

    /* this worker may have been stopped; the others have the real time */
    ngx_time_update();

    for (i = 0; i < liveness->nshards; i++) {
        shard = &liveness->shards[i];
        n += shard->has_epoch
             && ngx_current_msec - shard->set_at < NGX_CHAT_REDIS_FRESH;
    }

    return (int) is_majority(liveness, n);
}


int
ngx_chat_redis_liveness_alive(ngx_chat_redis_liveness_t *liveness,
                              chat_str_t                 name)
{
    worker_t *worker;

    if (chat_str_eq(name, liveness->worker)) {
        return is_seen(liveness);
    }

    worker = find_worker(liveness, name);
    if (worker == NULL) {
        return 0;
    }

    worker->used = ngx_current_msec;
    ngx_queue_remove(&worker->queue);
    ngx_queue_insert_head(&liveness->workers, &worker->queue);
    return (int) worker->alive;
}


/* A shard has the worker's key, or has not. 1: the worker has died. */
static ngx_uint_t
note_worker(const ngx_chat_redis_shard_t *shard, chat_str_t name,
            ngx_uint_t has_key)
{
    worker_t                  *worker;
    ngx_uint_t                 i, was, missing = 0;
    ngx_chat_redis_liveness_t *liveness = shard->liveness;

    worker = find_worker(liveness, name);
    if (worker == NULL) {
        worker = add_worker(liveness, name);
    }

    if (worker == NULL) {
        return 0;
    }

    worker->missing &= ~((ngx_uint_t) 1 << shard->n);
    worker->missing |= (ngx_uint_t) !has_key << shard->n;

    for (i = 0; i < liveness->nshards; i++) {
        missing += (worker->missing >> i & 1)
                   && ngx_current_msec - liveness->shards[i].replied
                          < NGX_CHAT_REDIS_RECENT;
    }

    was = worker->alive;
    worker->alive = !is_majority(liveness, missing);
    return was && !worker->alive;
}


static void
set_prefix(ngx_chat_redis_shard_t *shard, const char *prefix)
{
    shard->len = ngx_strlen(prefix);
    ngx_memcpy(shard->prefix, prefix, shard->len);
    shard->slot = chat_slot(chat_cstr(prefix));
}


/* Finds a slot of the node for its epoch; 0: not at once, try it again. */
static ngx_uint_t
place_node_epoch(ngx_chat_redis_shard_t *shard, ngx_uint_t node)
{
    char          prefix[sizeof(shard->prefix)];
    ngx_uint_t    i;
    const u_char *owner = shard->liveness->cluster->owner;

    if (shard->len != 0 && owner[shard->slot] == node) {
        return 1;
    }

    shard->has_epoch_of_data = 1;
    shard->has_epoch = 0;

    for (i = 0; i < NGX_CHAT_REDIS_TAGS; i++) {
        (void) ngx_sprintf((u_char *) prefix, "chat:{%ui}:%Z", shard->tag);
        set_prefix(shard, prefix);

        if (owner[shard->slot] == node) {
            return 1;
        }

        shard->tag = (shard->tag + 1) % (16 * CHAT_SLOTS);
    }

    return 0;
}


static void
add_key(ngx_chat_redis_cmd_t *cmd, const ngx_chat_redis_shard_t *shard,
        const char *kind, chat_str_t name)
{
    u_char key[sizeof(shard->prefix) + 16 + NGX_CHAT_REDIS_NAME], *end;

    end = ngx_slprintf(key, key + sizeof(key), "%*s%s%*s", shard->len,
                       shard->prefix, kind, name.len, name.data);
    ngx_chat_redis_cmd_key(cmd, chat_str(key, (size_t) (end - key)));
}


static void
add_worker_key(ngx_chat_redis_cmd_t *cmd, const ngx_chat_redis_shard_t *shard,
               chat_str_t worker)
{
    add_key(cmd, shard, "worker:", worker);
}


static void
add_epoch_key(ngx_chat_redis_cmd_t *cmd, const ngx_chat_redis_shard_t *shard)
{
    add_key(cmd, shard, "epoch", chat_cstr(""));
}


/* 1: it is submitted; 0: it is freed. */
static ngx_uint_t
submit(ngx_chat_redis_shard_t *shard, ngx_chat_redis_cmd_t *cmd,
       ngx_uint_t is_setup)
{
    cmd->is_setup = is_setup & 1;

    if (ngx_chat_redis_cluster_submit(shard->liveness->cluster, cmd) == NGX_OK)
    {
        return 1;
    }

    ngx_chat_redis_cmd_free(cmd);
    return 0;
}


/* The command that reads the epoch and these workers; NULL: no memory. */
static ngx_chat_redis_cmd_t *
create_mget(ngx_chat_redis_shard_t *shard, const chat_str_t *workers,
            ngx_uint_t n)
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


/* Sets a new epoch, unless another worker has been faster. */
static void
set_epoch(ngx_chat_redis_shard_t *shard, ngx_uint_t is_setup)
{
    u_char                text[NGX_CHAT_REDIS_NAME + NGX_INT64_LEN], *end;
    chat_str_t           *worker = &shard->liveness->worker;
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
    (void) submit(shard, cmd, is_setup);
}


/* 1 if the reply is of the same data as the last one. */
static ngx_uint_t
check_epoch(ngx_chat_redis_shard_t *shard, const redisReply *reply)
{
    ngx_str_t     text = ngx_chat_redis_text(reply);
    chat_digest_t epoch;

    if (reply->type != REDIS_REPLY_STRING) {
        shard->since = ngx_current_msec;
        set_epoch(shard, 0);
        return 0;
    }

    chat_digest(chat_str(text.data, text.len), &epoch);

    if (shard->has_epoch && chat_digest_eq(&epoch, &shard->epoch)) {
        return 1;
    }

    shard->epoch = epoch;

    if (!shard->has_epoch) {
        shard->has_epoch = 1;
        return 1;
    }

    shard->since = ngx_current_msec;

    if (shard->has_epoch_of_data) {
        shard->liveness->lost(shard->liveness, shard->client);
    }

    return 0;
}


/* 1 if all living workers have connected again, so that others are dead. */
static ngx_uint_t
is_settled(const ngx_chat_redis_shard_t *shard)
{
    return ngx_current_msec - shard->since >= NGX_CHAT_REDIS_SETTLED
           && ngx_current_msec - shard->client->up_since
                  >= NGX_CHAT_REDIS_SETTLED;
}


/* The reply to create_mget(). */
static void
read_mget(ngx_chat_redis_shard_t *shard, const ngx_chat_redis_cmd_t *cmd,
          const redisReply *reply)
{
    size_t     i, skip = shard->len + sizeof("worker:") - 1;
    chat_str_t worker;
    ngx_uint_t deaths = 0, has_key;

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

    shard->replied = ngx_current_msec;

    for (i = 2; i < cmd->argc; i++) {
        worker = chat_str(cmd->argv[i] + skip, cmd->len[i] - skip);
        has_key = reply->element[i - 1]->type == REDIS_REPLY_STRING;

        if (has_key || is_settled(shard)) {
            deaths += note_worker(shard, worker, has_key);
        }
    }

    if (deaths != 0) {
        shard->liveness->died(shard->liveness);
    }
}


static void
end_query(query_t *query)
{
    if (--query->pending == 0) {
        query->done(query->data, is_majority(query->liveness, query->replies));
        ngx_free(query);
    }
}


static void
on_query(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    part_t  *part = cmd->data;
    query_t *query = part->query;

    if (reply != NULL) {
        read_mget(part->shard, cmd, reply);
        query->replies++;
    }

    ngx_chat_redis_ignore(cmd, reply);
    end_query(query);
}


static void
query_shard(ngx_chat_redis_shard_t *shard, query_t *query,
            const chat_str_t *workers, ngx_uint_t n, chat_store_op_t *op)
{
    part_t               *part;
    ngx_chat_redis_cmd_t *cmd;

    if (ngx_chat_redis_cluster_client(shard->liveness->cluster, shard->slot)
            ->state
        != CHAT_STORE_UP)
    {
        return;
    }

    cmd = create_mget(shard, workers, n);
    if (cmd == NULL) {
        return;
    }

    part = chat_arena_alloc(cmd->arena, sizeof(part_t));
    if (part == NULL) {
        ngx_chat_redis_cmd_free(cmd);
        return;
    }

    part->query = query;
    part->shard = shard;
    cmd->done = on_query;
    cmd->data = part;
    cmd->op = op;
    query->pending += submit(shard, cmd, 0);
}


void
ngx_chat_redis_liveness_query(ngx_chat_redis_liveness_t *liveness,
                              const chat_str_t *workers, ngx_uint_t n,
                              chat_store_op_t *op,
                              void (*done)(void *data, ngx_uint_t known),
                              void *data)
{
    query_t   *query;
    ngx_uint_t i;

    query = ngx_alloc(sizeof(query_t), liveness->beat.log);
    if (query == NULL) {
        done(data, 0);
        return;
    }

    query->liveness = liveness;
    query->pending = 1;
    query->replies = 0;
    query->done = done;
    query->data = data;

    for (i = 0; i < liveness->nshards; i++) {
        query_shard(&liveness->shards[i], query, workers, n, op);
    }

    end_query(query);
}


/* Other workers see this one from now on. */
static void
on_key_set(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    ngx_chat_redis_shard_t *shard = cmd->data;

    if (reply != NULL && reply->type == REDIS_REPLY_STATUS) {
        /* an older command may have been sent again */
        shard->set_at = ngx_max(shard->set_at, cmd->queued);
    } else if (reply != NULL) {
        ngx_chat_redis_log_error(cmd->client, reply);
    }

    ngx_chat_redis_ignore(cmd, reply);
}


static void
set_key(ngx_chat_redis_shard_t *shard, ngx_uint_t is_setup)
{
    ngx_chat_redis_cmd_t *cmd = ngx_chat_redis_cmd_create();

    if (cmd == NULL) {
        return;
    }

    ngx_chat_redis_cmd_puts(cmd, "SET");
    add_worker_key(cmd, shard, shard->liveness->worker);
    ngx_chat_redis_cmd_puts(cmd, "1");
    ngx_chat_redis_cmd_puts(cmd, "PX");
    ngx_chat_redis_cmd_number(cmd, NGX_CHAT_REDIS_TTL);
    cmd->done = on_key_set;
    cmd->data = shard;
    (void) submit(shard, cmd, is_setup);
}


static void
on_beat_reply(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    ngx_chat_redis_shard_t    *shard = cmd->data;
    ngx_chat_redis_liveness_t *liveness = shard->liveness;

    shard->beating = 0;

    /* the slot of a node's epoch may be another node's since the command */
    if (reply != NULL
        && (shard->has_workers
            || &liveness->cluster->nodes[shard->n]->client == cmd->client))
    {
        read_mget(shard, cmd, reply);
    }

    ngx_chat_redis_ignore(cmd, reply);
    liveness->beaten(liveness);
}


static void
beat_shard(ngx_chat_redis_shard_t *shard, const chat_str_t *names,
           ngx_uint_t n, ngx_uint_t is_setup)
{
    ngx_chat_redis_cmd_t *cmd;

    if (shard->has_workers) {
        set_key(shard, is_setup);
    }

    cmd = create_mget(shard, names, n);

    if (cmd != NULL) {
        cmd->done = on_beat_reply;
        cmd->data = shard;
        shard->beating = submit(shard, cmd, is_setup);
    }
}


static void
beat_shards(ngx_chat_redis_liveness_t *liveness, ngx_uint_t is_setup)
{
    worker_t    *worker;
    chat_str_t   names[NGX_CHAT_REDIS_WORKERS];
    ngx_uint_t   i, n = 0;
    ngx_queue_t *q;

    for (q = ngx_queue_head(&liveness->workers);
         q != ngx_queue_sentinel(&liveness->workers); q = ngx_queue_next(q))
    {
        worker = worker_of(q);
        names[n++] = chat_str(worker->name, worker->len);
    }

    for (i = 0; i < liveness->nshards; i++) {
        if (!liveness->shards[i].beating || is_setup) {
            beat_shard(&liveness->shards[i], names, n, is_setup);
        }
    }
}


/* Reads the epoch of each node of a cluster. */
static void
beat_node_epochs(ngx_chat_redis_liveness_t *liveness)
{
    ngx_uint_t              i;
    ngx_chat_redis_node_t  *node;
    ngx_chat_redis_shard_t *shard;

    for (i = 0; i < liveness->cluster->count; i++) {
        node = liveness->cluster->nodes[i];
        shard = &liveness->node_epochs[i];
        shard->liveness = liveness;
        shard->n = i;

        if (node->is_open && node->slots != 0
            && node->client.state == CHAT_STORE_UP && !shard->beating
            && place_node_epoch(shard, i))
        {
            beat_shard(shard, NULL, 0, 0);
        }
    }
}


void
ngx_chat_redis_liveness_beat(ngx_chat_redis_liveness_t *liveness)
{
    ngx_chat_redis_cluster_t *cluster = liveness->cluster;

    if (!cluster->is_cluster) {
        if (ngx_chat_redis_cluster_state(cluster) == CHAT_STORE_UP) {
            beat_shards(liveness, 0);
        }

    } else if (cluster->known) {
        /* this also connects to nodes that nothing has needed so far */
        beat_shards(liveness, 0);
        beat_node_epochs(liveness);
    }
}


static void
on_beat(ngx_event_t *ev)
{
    ngx_chat_redis_liveness_t *liveness = ev->data;

    ngx_chat_redis_timer(ev, NGX_CHAT_REDIS_BEAT);
    expire_workers(liveness);
    ngx_chat_redis_liveness_beat(liveness);
    liveness->beaten(liveness);
}


void
ngx_chat_redis_liveness_setup(ngx_chat_redis_liveness_t *liveness)
{
    liveness->shards[0].since = ngx_current_msec;
    set_epoch(&liveness->shards[0], 1);
    beat_shards(liveness, 1);
}


void
ngx_chat_redis_liveness_leave(ngx_chat_redis_liveness_t *liveness)
{
    ngx_uint_t            i;
    ngx_chat_redis_cmd_t *cmd;

    for (i = 0; i < liveness->nshards; i++) {
        cmd = ngx_chat_redis_cmd_create();

        if (cmd != NULL) {
            ngx_chat_redis_cmd_puts(cmd, "DEL");
            add_worker_key(cmd, &liveness->shards[i], liveness->worker);
            cmd->done = ngx_chat_redis_ignore;
            (void) submit(&liveness->shards[i], cmd, 0);
        }
    }

    ngx_chat_redis_cluster_flush(liveness->cluster);
}


void
ngx_chat_redis_liveness_init(ngx_chat_redis_liveness_t *liveness,
                             ngx_chat_redis_cluster_t  *cluster,
                             chat_str_t                 worker)
{
    ngx_uint_t              i;
    ngx_chat_redis_shard_t *shard;

    liveness->cluster = cluster;
    liveness->worker = worker;
    liveness->nshards = cluster->is_cluster ? NGX_CHAT_REDIS_SHARDS : 1;
    ngx_queue_init(&liveness->workers);

    for (i = 0; i < liveness->nshards; i++) {
        shard = &liveness->shards[i];
        shard->liveness = liveness;
        shard->n = i;
        shard->has_workers = 1;
        shard->has_epoch_of_data = !cluster->is_cluster;
        set_prefix(shard, cluster->is_cluster ? shard_prefixes[i] : "chat:");
    }

    liveness->beat.handler = on_beat;
    liveness->beat.data = liveness;
    liveness->beat.log = cluster->log;
    ngx_chat_redis_timer(&liveness->beat, NGX_CHAT_REDIS_BEAT);
}
