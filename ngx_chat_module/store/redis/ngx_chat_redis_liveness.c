/*
 * ngx_chat_redis_liveness.c: see ngx_chat_redis_liveness.h.
 *
 * A query is one MGET: the epoch first, then the workers, so that both are of
 * the same data. The keys of a shard have one hash tag, the same for all
 * workers. A majority of shards decides about another worker and about this
 * one, so that two decisions have one shard in common.
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

/* A query to several shards. */
typedef struct {
    ngx_chat_redis_liveness_t *liveness;
    ngx_uint_t                 pending; /* replies, and 1 while it is sent */
    ngx_uint_t                 replies;
    ngx_chat_redis_cmd_t      *cmd; /* that waits for it */
    void (*done)(ngx_chat_redis_cmd_t *cmd, ngx_uint_t known);
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


/* A shard has the worker's key, or has not: is the worker still alive? */
static void
note_worker(const ngx_chat_redis_shard_t *shard,
            ngx_chat_redis_worker_t *worker, ngx_uint_t has_key)
{
    ngx_uint_t                       i, was = worker->alive, missing = 0;
    const ngx_chat_redis_liveness_t *liveness = shard->liveness;

    i = (ngx_uint_t) (shard - liveness->shards);
    worker->missing &= ~((ngx_uint_t) 1 << i);
    worker->missing |= (ngx_uint_t) !has_key << i;

    for (i = 0; i < liveness->nshards; i++) {
        missing += (worker->missing >> i & 1)
                   && ngx_current_msec - liveness->shards[i].replied
                          < NGX_CHAT_REDIS_RECENT;
    }

    worker->alive = !is_majority(liveness, missing);

    if (was && !worker->alive) {
        liveness->died(liveness->data);
    }
}


/* Adds the worker's key: one argument, also if its name has spaces. */
static void
add_worker(ngx_chat_redis_cmd_t *cmd, const ngx_chat_redis_shard_t *shard,
           chat_str_t worker)
{
    u_char key[sizeof("chat:{776}:worker:") + NGX_CHAT_REDIS_NAME], *end;

    end = ngx_snprintf(key, sizeof(key), "%sworker:%*s", shard->prefix,
                       worker.len, worker.data);
    ngx_chat_redis_cmd_add(cmd, chat_str(key, (size_t) (end - key)));
}


/* A command that reads the epoch, and the workers that are added to it. */
static ngx_chat_redis_cmd_t *
create_mget(const ngx_chat_redis_shard_t *shard,
            void (*done)(ngx_chat_redis_cmd_t *cmd, redisReply *reply),
            void *data)
{
    ngx_chat_redis_cmd_t *cmd = ngx_chat_redis_cmd_create("MGET", done, data);

    ngx_chat_redis_cmd_printf(cmd, "%sepoch", shard->prefix);
    cmd->head = cmd->args.text.len;
    return cmd;
}


/* 1: it is submitted; 0: it is freed. */
static ngx_uint_t
submit(const ngx_chat_redis_shard_t *shard, ngx_chat_redis_cmd_t *cmd)
{
    cmd->slot = shard->slot;
    cmd->is_keyed = 1;
    return ngx_chat_redis_cluster_submit(shard->liveness->cluster, cmd)
           == NGX_OK;
}


/* Sets a new epoch, unless another worker has set one. */
static void
set_epoch(ngx_chat_redis_shard_t *shard)
{
    chat_str_t           *worker = &shard->liveness->worker;
    ngx_chat_redis_cmd_t *cmd;

    cmd = ngx_chat_redis_cmd_create("SET", ngx_chat_redis_ignore, NULL);
    ngx_chat_redis_cmd_printf(cmd, "%sepoch %*s.%M NX", shard->prefix,
                              worker->len, worker->data, ngx_current_msec);
    (void) submit(shard, cmd);
}


/* Reads the epoch in a reply: is it other data than at the last reply? */
static void
note_epoch(ngx_chat_redis_shard_t *shard, const redisReply *reply)
{
    chat_digest_t epoch;

    if (reply->type != REDIS_REPLY_STRING) {
        shard->since = ngx_current_msec;
        set_epoch(shard);
        return;
    }

    chat_digest(ngx_chat_redis_text(reply), &epoch);

    if (shard->has_epoch && !chat_digest_eq(&epoch, &shard->epoch)) {
        shard->since = ngx_current_msec;
        shard->liveness->data_lost(shard->liveness->data, shard->client);
    }

    shard->epoch = epoch;
    shard->has_epoch = 1;
}


/*
 * Reads the reply to an MGET; 0: it is none. A worker without a key
 * counts as alive until the shard is settled.
 */
static ngx_uint_t
read_mget(ngx_chat_redis_shard_t *shard, const ngx_chat_redis_cmd_t *cmd,
          const redisReply *reply)
{
    size_t                     i, skip, at = cmd->head;
    chat_str_t                 key;
    ngx_uint_t                 has_key, settled;
    ngx_chat_redis_worker_t   *worker;
    ngx_chat_redis_liveness_t *liveness = shard->liveness;

    if (reply->type != REDIS_REPLY_ARRAY
        || reply->elements + 1 != cmd->args.argc) {
        ngx_chat_redis_log_error(cmd->client, reply);
        return 0;
    }

    if (shard->client != cmd->client) {
        shard->client = cmd->client;
        shard->since = ngx_current_msec;
    }

    note_epoch(shard, reply->element[0]);
    skip = ngx_strlen(shard->prefix) + sizeof("worker:") - 1;
    shard->replied = ngx_current_msec;

    /* all living workers have connected again */
    settled = ngx_current_msec - shard->since >= NGX_CHAT_REDIS_SETTLED
              && ngx_current_msec - shard->client->up_since
                     >= NGX_CHAT_REDIS_SETTLED;

    for (i = 1; i < reply->elements; i++) {
        key = ngx_chat_redis_cmd_arg(cmd, &at);
        worker = find_worker(liveness,
                             chat_str(key.data + skip, key.len - skip), 1);
        has_key = reply->element[i]->type == REDIS_REPLY_STRING;

        if (has_key || settled) {
            note_worker(shard, worker, has_key);
        }
    }

    return 1;
}


/* Calls done() when a majority has replied, or no reply is left to come. */
static void
end_query(query_t *query)
{
    ngx_uint_t            known;
    ngx_chat_redis_cmd_t *cmd = query->cmd;

    known = is_majority(query->liveness, query->replies);
    query->pending--;

    if (cmd != NULL && (known || query->pending == 0)) {
        query->cmd = NULL;
        query->done(cmd, known);
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
                              ngx_chat_redis_cmd_t *cmd,
                              void (*done)(ngx_chat_redis_cmd_t *cmd,
                                           ngx_uint_t            known))
{
    ngx_uint_t            i, k;
    ngx_chat_redis_cmd_t *mget;
    query_t *query = ngx_alloc(sizeof(query_t), liveness->beat.log);

    if (query == NULL) {
        done(cmd, 0);
        return;
    }

    query->liveness = liveness;
    query->pending = 1;
    query->replies = 0;
    query->cmd = cmd;
    query->done = done;

    for (i = 0; i < liveness->nshards; i++) {
        mget = create_mget(&liveness->shards[i], on_query, query);
        mget->op = cmd->op; /* it has a deadline, too */

        for (k = 0; k < n; k++) {
            add_worker(mget, &liveness->shards[i], workers[k]);
        }

        query->pending += submit(&liveness->shards[i], mget);
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

    if (reply != NULL) {
        (void) read_mget(shard, cmd, reply);
    }

    ngx_chat_redis_ignore(cmd, reply);
    liveness->beaten(liveness->data);
}


/* Sets this worker's key, and reads those of the known ones. */
static void
beat_shard(ngx_chat_redis_shard_t *shard)
{
    ngx_uint_t                 i;
    ngx_chat_redis_cmd_t      *cmd;
    ngx_chat_redis_worker_t   *worker;
    ngx_chat_redis_liveness_t *liveness = shard->liveness;

    cmd = ngx_chat_redis_cmd_create("SET", on_key_set, shard);
    add_worker(cmd, shard, liveness->worker);
    ngx_chat_redis_cmd_printf(cmd, "1 PX %ui",
                              (ngx_uint_t) NGX_CHAT_REDIS_TTL);
    (void) submit(shard, cmd);

    cmd = create_mget(shard, on_beat_reply, shard);

    for (i = 0; i < liveness->count; i++) {
        worker = &liveness->workers[i];
        add_worker(cmd, shard, chat_str(worker->name, worker->len));
    }

    shard->beating = submit(shard, cmd);
}


void
ngx_chat_redis_liveness_beat(ngx_chat_redis_liveness_t *liveness)
{
    ngx_uint_t i;

    if (!liveness->cluster->known) {
        return;
    }

    /* in a cluster this also connects to nodes without commands so far */
    for (i = 0; i < liveness->nshards; i++) {
        if (!liveness->shards[i].beating) {
            beat_shard(&liveness->shards[i]);
        }
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
    set_epoch(&liveness->shards[0]);
    beat_shard(&liveness->shards[0]);
}


void
ngx_chat_redis_liveness_leave(ngx_chat_redis_liveness_t *liveness)
{
    ngx_uint_t            i;
    ngx_chat_redis_cmd_t *cmd;

    for (i = 0; i < liveness->nshards; i++) {
        cmd = ngx_chat_redis_cmd_create("DEL", ngx_chat_redis_ignore, NULL);
        add_worker(cmd, &liveness->shards[i], liveness->worker);
        (void) submit(&liveness->shards[i], cmd);
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
        shard->prefix = cluster->is_cluster ? shard_prefixes[i] : "chat:";
        shard->slot = chat_slot(chat_cstr(shard->prefix));
    }

    ngx_chat_event_set(&liveness->beat, on_beat, liveness, cluster->log);
    ngx_chat_redis_timer(&liveness->beat, NGX_CHAT_REDIS_BEAT);
}
