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

#include "store/redis/ngx_chat_redis_liveness.h"

#define NGX_CHAT_REDIS_TTL 10000 /* ms, of a worker's key */
#define NGX_CHAT_REDIS_FRESH (NGX_CHAT_REDIS_TTL / 2)
#define NGX_CHAT_REDIS_BEAT 500
#define NGX_CHAT_REDIS_RECENT 2000  /* a shard's reply counts so long */
#define NGX_CHAT_REDIS_SETTLED 2000 /* all workers are back by then */
#define NGX_CHAT_REDIS_MEMORY 60000 /* then an unused worker is forgotten */
#define NGX_CHAT_REDIS_TAGS 512     /* tried at a time */

/* A query to several shards. */
typedef struct {
    ngx_chat_redis_liveness_t *liveness;
    ngx_uint_t                 pending; /* replies, and 1 while it is sent */
    ngx_uint_t                 replies;
    void (*done)(void *data, ngx_uint_t known);
    void *data;
} query_t;

/* In the middle of the thirds: slots 2722, 8196, 13655. */
static const char *const shard_prefixes[NGX_CHAT_REDIS_SHARDS] = {
    "chat:{776}:", "chat:{716}:", "chat:{726}:"
};


/* NULL: an unknown one. add: it becomes known, as alive. */
static ngx_chat_redis_worker_t *
find_worker(ngx_chat_redis_liveness_t *liveness, chat_str_t name,
            ngx_uint_t add)
{
    ngx_uint_t               i;
    ngx_chat_redis_worker_t *worker, *oldest = liveness->workers;

    for (i = 0; i < liveness->count; i++) {
        worker = &liveness->workers[i];

        if (chat_str_eq(chat_str(worker->name, worker->len), name)) {
            return worker;
        }

        if (ngx_current_msec - worker->used > ngx_current_msec - oldest->used)
        {
            oldest = worker;
        }
    }

    if (!add) {
        return NULL;
    }

    if (liveness->count < NGX_CHAT_REDIS_WORKERS) {
        oldest = &liveness->workers[liveness->count++];
    }

    oldest->alive = 1;
    oldest->missing = 0;
    oldest->used = ngx_current_msec;
    oldest->len = name.len;
    ngx_memcpy(oldest->name, name.data, name.len);
    return oldest;
}


ngx_uint_t
ngx_chat_redis_liveness_knows(ngx_chat_redis_liveness_t *liveness,
                              chat_str_t name, ngx_uint_t fresh)
{
    ngx_chat_redis_worker_t *worker;

    if (name.len == 0 || name.len > NGX_CHAT_REDIS_NAME
        || chat_str_eq(name, liveness->worker))
    {
        return 1;
    }

    worker = find_worker(liveness, name, 0);
    return worker != NULL && !(fresh && worker->alive);
}


static ngx_uint_t
is_majority(const ngx_chat_redis_liveness_t *liveness, ngx_uint_t shards)
{
    return shards > liveness->nshards / 2;
}


int
ngx_chat_redis_liveness_alive(ngx_chat_redis_liveness_t *liveness,
                              chat_str_t                 name)
{
    ngx_uint_t               i, n = 0;
    ngx_chat_redis_shard_t  *shard;
    ngx_chat_redis_worker_t *worker;

    if (chat_str_eq(name, liveness->worker)) {
        /* the time of a worker that was stopped is old */
        ngx_time_update();

        for (i = 0; i < liveness->nshards; i++) {
            shard = &liveness->shards[i];
            n += shard->has_epoch
                 && ngx_current_msec - shard->set_at < NGX_CHAT_REDIS_FRESH;
        }

        return (int) is_majority(liveness, n);
    }

    worker = find_worker(liveness, name, 0);
    if (worker == NULL) {
        return 0;
    }

    worker->used = ngx_current_msec;
    return (int) worker->alive;
}


/* A shard has the worker's key, or has not. 1: the worker has died. */
static ngx_uint_t
note_worker(const ngx_chat_redis_shard_t *shard,
            ngx_chat_redis_worker_t *worker, ngx_uint_t has_key)
{
    ngx_uint_t                       i, was = worker->alive, missing = 0;
    const ngx_chat_redis_liveness_t *liveness = shard->liveness;

    worker->missing &= ~((ngx_uint_t) 1 << shard->n);
    worker->missing |= (ngx_uint_t) !has_key << shard->n;

    for (i = 0; i < liveness->nshards; i++) {
        missing += (worker->missing >> i & 1)
                   && ngx_current_msec - liveness->shards[i].replied
                          < NGX_CHAT_REDIS_RECENT;
    }

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
find_epoch_slot(ngx_chat_redis_shard_t *shard, ngx_uint_t node)
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


/* 1: it is submitted; 0: it is freed. */
static ngx_uint_t
submit(ngx_chat_redis_shard_t *shard, ngx_chat_redis_cmd_t *cmd,
       ngx_uint_t is_setup)
{
    cmd->is_setup = is_setup & 1;
    return ngx_chat_redis_cluster_submit(shard->liveness->cluster, cmd)
           == NGX_OK;
}


/* Submits a command that reads the epoch and these workers. */
static ngx_uint_t
submit_mget(ngx_chat_redis_shard_t *shard, ngx_chat_redis_cmd_t *cmd,
            const chat_str_t *workers, ngx_uint_t n, ngx_uint_t is_setup)
{
    ngx_uint_t i;

    add_key(cmd, shard, "epoch", chat_cstr(""));

    for (i = 0; i < n; i++) {
        add_key(cmd, shard, "worker:", workers[i]);
    }

    return submit(shard, cmd, is_setup);
}


/* Sets a new epoch, unless another worker has set one. */
static void
set_epoch(ngx_chat_redis_shard_t *shard, ngx_uint_t is_setup)
{
    chat_str_t           *worker = &shard->liveness->worker;
    ngx_chat_redis_cmd_t *cmd;

    cmd = ngx_chat_redis_cmd_create("SET", ngx_chat_redis_ignore, NULL);
    add_key(cmd, shard, "epoch", chat_cstr(""));
    ngx_chat_redis_cmd_printf(cmd, "%*s.%xL", worker->len, worker->data,
                              ((int64_t) ngx_random() << 31) ^ ngx_random());
    ngx_chat_redis_cmd_puts(cmd, "NX");
    (void) submit(shard, cmd, is_setup);
}


/* Reads the epoch in a reply: is it other data than at the last reply? */
static void
note_epoch(ngx_chat_redis_shard_t *shard, const redisReply *reply)
{
    chat_digest_t              epoch;
    ngx_chat_redis_liveness_t *liveness = shard->liveness;

    if (reply->type != REDIS_REPLY_STRING) {
        shard->since = ngx_current_msec;
        set_epoch(shard, 0);
        return;
    }

    chat_digest(ngx_chat_redis_text(reply), &epoch);

    if (shard->has_epoch && !chat_digest_eq(&epoch, &shard->epoch)) {
        shard->since = ngx_current_msec;

        if (shard->has_epoch_of_data) {
            liveness->data_lost(liveness->data, shard->client);
        }
    }

    shard->epoch = epoch;
    shard->has_epoch = 1;
}


/*
 * Reads the reply to submit_mget(); 0: it is none. A worker without a key
 * counts as alive until the shard is settled.
 */
static ngx_uint_t
read_mget(ngx_chat_redis_shard_t *shard, const ngx_chat_redis_cmd_t *cmd,
          const redisReply *reply)
{
    size_t                     i, skip = shard->len + sizeof("worker:") - 1;
    ngx_uint_t                 deaths = 0, has_key, settled;
    ngx_chat_redis_worker_t   *worker;
    ngx_chat_redis_liveness_t *liveness = shard->liveness;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements + 1 != cmd->argc) {
        ngx_chat_redis_log_error(cmd->client, reply);
        return 0;
    }

    if (shard->client != cmd->client) {
        shard->client = cmd->client;
        shard->since = ngx_current_msec;
    }

    note_epoch(shard, reply->element[0]);
    shard->replied = ngx_current_msec;

    /* all living workers have connected again */
    settled = ngx_current_msec - shard->since >= NGX_CHAT_REDIS_SETTLED
              && ngx_current_msec - shard->client->up_since
                     >= NGX_CHAT_REDIS_SETTLED;

    for (i = 2; i < cmd->argc; i++) {
        worker = find_worker(
            liveness,
            chat_str(cmd->args[i].data + skip, cmd->args[i].len - skip), 1);
        has_key = reply->element[i - 1]->type == REDIS_REPLY_STRING;

        if (has_key || settled) {
            deaths += note_worker(shard, worker, has_key);
        }
    }

    if (deaths != 0) {
        liveness->died(liveness->data);
    }

    return 1;
}


/* Calls done() when a majority has replied, or no reply is left to come. */
static void
end_query(query_t *query)
{
    ngx_uint_t known = is_majority(query->liveness, query->replies);
    void (*done)(void *data, ngx_uint_t known) = query->done;

    query->pending--;

    if (done != NULL && (known || query->pending == 0)) {
        query->done = NULL;
        done(query->data, known);
    }

    if (query->pending == 0) {
        ngx_free(query);
    }
}


static void
on_query(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    query_t                   *query = cmd->data;
    ngx_chat_redis_liveness_t *liveness = query->liveness;
    ngx_uint_t                 i = liveness->nshards - 1;

    /* the only shard of a single server has keys in many slots */
    while (i > 0 && liveness->shards[i].slot != cmd->slot) {
        i--;
    }

    if (reply != NULL) {
        query->replies += read_mget(&liveness->shards[i], cmd, reply);
    }

    ngx_chat_redis_ignore(cmd, reply);
    end_query(query);
}


void
ngx_chat_redis_liveness_query(ngx_chat_redis_liveness_t *liveness,
                              const chat_str_t *workers, ngx_uint_t n,
                              chat_store_op_t *op,
                              void (*done)(void *data, ngx_uint_t known),
                              void *data)
{
    ngx_uint_t            i;
    ngx_chat_redis_cmd_t *cmd;
    query_t *query = ngx_alloc(sizeof(query_t), liveness->beat.log);

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
        cmd = ngx_chat_redis_cmd_create("MGET", on_query, query);
        cmd->op = op;
        query->pending +=
            submit_mget(&liveness->shards[i], cmd, workers, n, 0);
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
        (void) read_mget(shard, cmd, reply);
    }

    ngx_chat_redis_ignore(cmd, reply);
    liveness->beaten(liveness->data);
}


static void
beat_shard(ngx_chat_redis_shard_t *shard, const chat_str_t *names,
           ngx_uint_t n, ngx_uint_t is_setup)
{
    ngx_chat_redis_cmd_t *cmd;

    if (shard->has_workers) {
        cmd = ngx_chat_redis_cmd_create("SET", on_key_set, shard);
        add_key(cmd, shard, "worker:", shard->liveness->worker);
        ngx_chat_redis_cmd_puts(cmd, "1");
        ngx_chat_redis_cmd_puts(cmd, "PX");
        ngx_chat_redis_cmd_printf(cmd, "%ui", (ngx_uint_t) NGX_CHAT_REDIS_TTL);
        (void) submit(shard, cmd, is_setup);
    }

    cmd = ngx_chat_redis_cmd_create("MGET", on_beat_reply, shard);
    shard->beating = submit_mget(shard, cmd, names, n, is_setup);
}


static void
beat_shards(ngx_chat_redis_liveness_t *liveness, ngx_uint_t is_setup)
{
    chat_str_t names[NGX_CHAT_REDIS_WORKERS];
    ngx_uint_t i, n = liveness->count;

    for (i = 0; i < n; i++) {
        names[i] =
            chat_str(liveness->workers[i].name, liveness->workers[i].len);
    }

    for (i = 0; i < liveness->nshards; i++) {
        if (!liveness->shards[i].beating || is_setup) {
            beat_shard(&liveness->shards[i], names, n, is_setup);
        }
    }
}


/* Reads the epochs of the nodes of a cluster. */
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
            && find_epoch_slot(shard, i))
        {
            beat_shard(shard, NULL, 0, 0);
        }
    }
}


void
ngx_chat_redis_liveness_beat(ngx_chat_redis_liveness_t *liveness)
{
    ngx_chat_redis_cluster_t *cluster = liveness->cluster;

    /* in a cluster this also connects to nodes without commands so far */
    if (cluster->is_cluster
            ? cluster->known
            : ngx_chat_redis_cluster_state(cluster) == CHAT_STORE_UP)
    {
        beat_shards(liveness, 0);
    }

    if (cluster->is_cluster && cluster->known) {
        beat_node_epochs(liveness);
    }
}


static void
on_beat(ngx_event_t *ev)
{
    ngx_uint_t                 i;
    ngx_chat_redis_liveness_t *liveness = ev->data;

    ngx_chat_redis_timer(ev, NGX_CHAT_REDIS_BEAT);

    for (i = liveness->count; i-- > 0;) {
        if (ngx_current_msec - liveness->workers[i].used
            >= NGX_CHAT_REDIS_MEMORY) {
            liveness->workers[i] = liveness->workers[--liveness->count];
        }
    }

    ngx_chat_redis_liveness_beat(liveness);
    liveness->beaten(liveness->data);
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
        cmd = ngx_chat_redis_cmd_create("DEL", ngx_chat_redis_ignore, NULL);
        add_key(cmd, &liveness->shards[i], "worker:", liveness->worker);
        (void) submit(&liveness->shards[i], cmd, 0);
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

    for (i = 0; i < liveness->nshards; i++) {
        shard = &liveness->shards[i];
        shard->liveness = liveness;
        shard->n = i;
        shard->has_workers = 1;
        shard->has_epoch_of_data = !cluster->is_cluster;
        set_prefix(shard, cluster->is_cluster ? shard_prefixes[i] : "chat:");
    }

    ngx_chat_event_set(&liveness->beat, on_beat, liveness, cluster->log);
    ngx_chat_redis_timer(&liveness->beat, NGX_CHAT_REDIS_BEAT);
}
