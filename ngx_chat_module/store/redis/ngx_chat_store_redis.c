/*
 * ngx_chat_store_redis.c: chat_store.h over a Redis server.
 *
 * Ties together the commands, the knowledge who is alive, and the wake-ups of
 * this worker. Must not know: what facts mean, connections.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "store/redis/ngx_chat_redis_codec.h"
#include "store/redis/ngx_chat_store_redis.h"

#define NGX_CHAT_STORE_REDIS_DOUBT 1000 /* ms */


static void
redis_join(chat_store_t *store, chat_store_op_t *op, const chat_key_t *key,
           const chat_fact_t *facts, size_t n, uint32_t ttl)
{
    ngx_chat_redis_join((ngx_chat_store_redis_t *) store, op, key, facts, n,
                        ttl, NULL);
}


static void
redis_unwatch(chat_store_watch_t *watch)
{
    if (watch->store != NULL) {
        ngx_chat_store_watch_remove(
            &((ngx_chat_store_redis_t *) watch->store)->base, watch);
    }
}


static void
redis_watch(chat_store_t *store, chat_store_watch_t *watch,
            chat_store_op_t *op, const chat_key_t *key,
            const chat_fact_t *facts, size_t n, uint32_t ttl)
{
    u_char                  field[5 + NGX_CHAT_REDIS_NAME];
    chat_fact_t             wait;
    ngx_chat_store_redis_t *redis = (ngx_chat_store_redis_t *) store;

    ngx_memzero(&wait, sizeof(wait));
    ngx_memcpy(field, "wait/", 5);
    ngx_memcpy(field + 5, store->worker.data, store->worker.len);
    wait.field = chat_str(field, 5 + store->worker.len);
    wait.value = chat_cstr("1");

    /* one that is begun anew is one */
    redis_unwatch(watch);
    ngx_chat_store_watch_add(&redis->base, store, watch, key);

    ngx_chat_redis_join(redis, op, key, facts, n, ttl, &wait);
}


static void
redis_cancel(chat_store_op_t *op)
{
    ngx_chat_redis_cmd_t *cmd = op->answer;

    if (op->store == NULL) {
        return;
    }

    if (cmd == NULL) {
        ngx_chat_store_forget(&((ngx_chat_store_redis_t *) op->store)->base,
                              op);
        return;
    }

    /* the command goes on: what it puts is to stand */
    cmd->op = NULL;
    op->answer = NULL;
    op->store = NULL;
}


static void
redis_flush(chat_store_t *store)
{
    ngx_chat_redis_cluster_flush(&((ngx_chat_store_redis_t *) store)->cluster);
}


static int
redis_alive(chat_store_t *store, chat_str_t worker)
{
    return ngx_chat_redis_liveness_alive(
        &((ngx_chat_store_redis_t *) store)->live, worker);
}


/* The node of its slot may be away while others are there. */
static int
redis_key_unavailable(chat_store_t *store, const chat_key_t *key)
{
    return ngx_chat_redis_client_of((ngx_chat_store_redis_t *) store, key)
               ->state
           == CHAT_STORE_UNAVAILABLE;
}


static void
setup_node(ngx_chat_redis_client_t *client)
{
    ngx_chat_store_redis_t *redis = client->data;

    ngx_chat_redis_load(client, 1);

    if (!redis->cluster.is_cluster) {
        ngx_chat_redis_liveness_setup(&redis->live);
    }
}


/* What must stand is told again. */
static void
repeat_facts(ngx_chat_store_redis_t *redis, ngx_uint_t all)
{
    if (redis->store.lost != NULL) {
        redis->store.lost(&redis->store, (int) all);
    }

    ngx_chat_store_changed(&redis->base, 0, 1);
}


/*
 * Where servers are there but nobody can see that this worker lives, it may
 * not claim; after a second that is as good as no store.
 */
static chat_store_state_e
current_state(ngx_chat_store_redis_t *redis)
{
    chat_store_state_e state = ngx_chat_redis_cluster_state(&redis->cluster);

    if (state != CHAT_STORE_UP || !redis->cluster.is_cluster
        || ngx_chat_redis_liveness_alive(&redis->live, redis->store.worker))
    {
        return state;
    }

    if (redis->store.state == CHAT_STORE_UP) {
        redis->doubted = ngx_current_msec;
    }

    return ngx_current_msec - redis->doubted < NGX_CHAT_STORE_REDIS_DOUBT
               ? CHAT_STORE_RECONNECTING
               : CHAT_STORE_UNAVAILABLE;
}


/* 1 if the state is new, and those who watch have to be told. */
static ngx_uint_t
update_state(ngx_chat_store_redis_t *redis)
{
    chat_store_state_e state = current_state(redis);

    if (state == redis->store.state) {
        return 0;
    }

    if (redis->cluster.is_cluster && state == CHAT_STORE_UP) {
        ngx_log_error(NGX_LOG_NOTICE, redis->cluster.log, 0,
                      "chat: the store %V is connected",
                      &redis->cluster.conf->name);

    } else if (redis->cluster.is_cluster && state == CHAT_STORE_UNAVAILABLE) {
        ngx_log_error(NGX_LOG_ERR, redis->cluster.log, 0,
                      "chat: the store %V is away",
                      &redis->cluster.conf->name);
    }

    redis->store.state = state;
    return state != CHAT_STORE_RECONNECTING;
}


/* A node came or went: those of its slots look again, as all others do. */
static void
on_node_state(ngx_chat_redis_cluster_t *cluster,
              ngx_chat_redis_client_t  *client)
{
    ngx_uint_t              news;
    ngx_chat_store_redis_t *redis = cluster->data;

    news = update_state(redis);

    if (cluster->is_cluster) {
        ngx_chat_redis_liveness_beat(&redis->live);
    }

    if (cluster->moved && redis->store.state == CHAT_STORE_UP) {
        cluster->moved = 0;
        repeat_facts(redis, 0);

    } else if (news
               || (client != NULL && client->state != CHAT_STORE_RECONNECTING))
    {
        ngx_chat_store_changed(&redis->base, 0, 1);
    }
}


/* A beat: this worker may be seen now, or not any more. */
static void
on_beat(ngx_chat_redis_liveness_t *live)
{
    ngx_chat_store_redis_t *redis = live->data;

    if (redis->cluster.is_cluster && update_state(redis)) {
        ngx_chat_store_changed(&redis->base, 0, 1);
    }
}


static void
on_worker_died(ngx_chat_redis_liveness_t *live)
{
    ngx_chat_store_redis_t *redis = live->data;

    ngx_chat_store_changed(&redis->base, 0, 1);
}


static void
on_data_lost(ngx_chat_redis_liveness_t *live, ngx_chat_redis_client_t *client)
{
    ngx_chat_store_redis_t *redis = live->data;

    ngx_log_error(NGX_LOG_WARN, client->conn.log, 0,
                  "chat: the store %V has lost its data", client->name);

    repeat_facts(redis, 1);
}


static void
seek_master(ngx_chat_redis_client_t *client)
{
    ngx_chat_store_redis_t *redis = client->data;

    ngx_chat_redis_sentinel_seek(&redis->sentinel);
}


static void
on_master_found(ngx_chat_redis_sentinel_t   *sentinel,
                const ngx_chat_redis_host_t *master, ngx_uint_t moved)
{
    ngx_chat_store_redis_t *redis = sentinel->data;

    if (moved) {
        redis->cluster.moved = 1;
        ngx_log_error(NGX_LOG_NOTICE, redis->cluster.log, 0,
                      "chat: the store %V is at %V now",
                      &redis->cluster.conf->name, &master->name);
    }

    ngx_chat_redis_client_move(&redis->cluster.nodes[0]->client, master);

    if (moved || redis->wake.conn.host == NULL) {
        ngx_chat_redis_notify_move(&redis->wake);
    }
}


/* No sentinel knows where it is. */
static void
on_master_unknown(ngx_chat_redis_sentinel_t *sentinel, const char *why)
{
    ngx_chat_store_redis_t *redis = sentinel->data;

    ngx_chat_redis_client_lost(&redis->cluster.nodes[0]->client, why);
}


static void
on_notification(ngx_chat_redis_notify_t *wake, const char *hex)
{
    ngx_int_t               byte;
    ngx_uint_t              i;
    chat_key_t              key;
    ngx_chat_store_redis_t *redis = wake->data;

    if (hex == NULL) {
        ngx_chat_store_changed(&redis->base, 0, 1);
        return;
    }

    ngx_memzero(&key, sizeof(key));

    for (i = 0; i < sizeof(uint64_t); i++) {
        byte = ngx_hextoi((u_char *) hex + 2 * i, 2);
        if (byte == NGX_ERROR) {
            return;
        }
        key.name.bytes[i] = (u_char) byte;
    }

    ngx_chat_store_changed(&redis->base, ngx_chat_store_prefix(&key), 0);
}


/* A name that no other worker has or had. */
static void
set_worker_name(ngx_chat_store_redis_t *redis)
{
    char          hex[17];
    u_char        text[NGX_INT64_LEN * 4 + 1], *end;
    chat_str_t    parts[2];
    ngx_time_t   *tp = ngx_timeofday();
    chat_digest_t digest;

    end = ngx_snprintf(text, sizeof(text), "%P %T %M %L %p", ngx_pid, tp->sec,
                       tp->msec, (int64_t) ngx_random(), redis);
    parts[0] = chat_str(ngx_cycle->hostname.data, ngx_cycle->hostname.len);
    parts[1] = chat_str(text, (size_t) (end - text));
    chat_digest_parts(parts, 2, &digest);
    chat_digest_hex(&digest, 8, hex);

    end = ngx_snprintf(redis->worker, sizeof(redis->worker), "%P-%s", ngx_pid,
                       hex);
    redis->store.worker =
        chat_str(redis->worker, (size_t) (end - redis->worker));
}


chat_store_t *
ngx_chat_store_redis_open(const ngx_chat_redis_conf_t *conf,
                          ngx_cycle_t                 *cycle)
{
    ngx_chat_store_redis_t *redis;

    redis = ngx_pcalloc(cycle->pool, sizeof(ngx_chat_store_redis_t));
    if (redis == NULL) {
        return NULL;
    }

    set_worker_name(redis);
    ngx_chat_redis_hash(redis);

    redis->store.name = "redis";
    redis->store.state = CHAT_STORE_RECONNECTING;
    redis->store.most_facts = CHAT_STORE_FACTS;
    redis->store.join = redis_join;
    redis->store.watch = redis_watch;
    redis->store.unwatch = redis_unwatch;
    redis->store.payloads = ngx_chat_store_redis_payloads;
    redis->store.append = ngx_chat_store_redis_append;
    redis->store.read = ngx_chat_store_redis_read;
    redis->store.drop = ngx_chat_store_redis_drop;
    redis->store.clear = ngx_chat_store_redis_clear;
    redis->store.flush = redis_flush;
    redis->store.cancel = redis_cancel;
    redis->store.alive = redis_alive;
    redis->store.lacks = redis_key_unavailable;
    ngx_chat_store_base_init(&redis->base, cycle->log);

    redis->cluster.data = redis;
    redis->cluster.greet = setup_node;
    redis->cluster.changed = on_node_state;
    redis->live.data = redis;
    redis->live.told = on_beat;
    redis->live.died = on_worker_died;
    redis->live.lost = on_data_lost;
    redis->wake.data = redis;
    redis->wake.news = on_notification;

    if (conf->scheme == NGX_CHAT_REDIS_SENTINEL) {
        redis->cluster.seek = seek_master;
        redis->sentinel.data = redis;
        redis->sentinel.found = on_master_found;
        redis->sentinel.lost = on_master_unknown;
        ngx_chat_redis_sentinel_open(&redis->sentinel, conf, cycle->log);
    }

    if (ngx_chat_redis_cluster_open(&redis->cluster, conf, cycle->log)
        != NGX_OK) {
        return NULL;
    }

    redis->doubted = ngx_current_msec;
    ngx_chat_redis_liveness_init(&redis->live, &redis->cluster,
                                 redis->store.worker);
    ngx_chat_redis_notify_open(&redis->wake, &redis->cluster,
                               redis->store.worker);
    return &redis->store;
}


void
ngx_chat_store_redis_close(chat_store_t *store)
{
    ngx_chat_store_redis_t *redis = (ngx_chat_store_redis_t *) store;

    ngx_chat_redis_liveness_leave(&redis->live);
    ngx_chat_redis_notify_close(&redis->wake);
    ngx_chat_redis_sentinel_close(&redis->sentinel);
    ngx_chat_redis_cluster_close(&redis->cluster);
}
