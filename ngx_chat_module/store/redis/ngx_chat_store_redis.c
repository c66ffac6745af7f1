/*
 * ngx_chat_store_redis.c: the store in Redis.
 *
 * It ties together the cluster, Sentinel, liveness and notifications, and
 * turns their states into one state of the store.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/redis/ngx_chat_redis_codec.h"
#include "store/redis/ngx_chat_store_redis.h"

#define NGX_CHAT_STORE_REDIS_UNSEEN 1000 /* ms; then UNAVAILABLE */


static void
setup_node(ngx_chat_redis_client_t *client)
{
    ngx_chat_store_redis_t *redis = client->data;

    ngx_chat_redis_load_scripts(client, 1);

    if (!redis->cluster.is_cluster) {
        ngx_chat_redis_liveness_setup(&redis->liveness);
    }
}


static void
notify_all(void *data)
{
    ngx_chat_store_redis_t *redis = data;

    ngx_chat_store_changed(&redis->base, 0, 1);
}


/* Makes the store's user join the facts of its requests again. */
static void
repeat_facts(ngx_chat_store_redis_t *redis, ngx_uint_t all)
{
    if (redis->base.store.lost != NULL) {
        redis->base.store.lost(&redis->base.store, (int) all);
    }

    notify_all(redis);
}


/*
 * Sets the store's state. In a cluster a worker that the others cannot see
 * must not claim; after a second the store counts as unavailable. 1: the state
 * is UP or UNAVAILABLE now, and was not.
 */
static ngx_uint_t
update_state(ngx_chat_store_redis_t *redis)
{
    ngx_uint_t         level;
    chat_store_t      *store = &redis->base.store;
    chat_store_state_e state = ngx_chat_redis_cluster_state(&redis->cluster);

    if (state == CHAT_STORE_UP && redis->cluster.is_cluster
        && !store->alive(store, store->worker))
    {
        if (store->state == CHAT_STORE_UP) {
            redis->unseen_since = ngx_current_msec;
        }

        state = ngx_current_msec - redis->unseen_since
                        < NGX_CHAT_STORE_REDIS_UNSEEN
                    ? CHAT_STORE_RECONNECTING
                    : CHAT_STORE_UNAVAILABLE;
    }

    if (state == store->state) {
        return 0;
    }

    /* one server's client logs its own state */
    if (redis->cluster.is_cluster && state != CHAT_STORE_RECONNECTING) {
        level = state == CHAT_STORE_UP && !redis->logged ? NGX_LOG_INFO
                                                         : NGX_LOG_ERR;
        redis->logged = state == CHAT_STORE_UNAVAILABLE;
        ngx_log_error(level, redis->cluster.log, 0, "chat: the store %V is %s",
                      &redis->cluster.conf->name,
                      state == CHAT_STORE_UP ? "connected" : "unavailable");
    }

    store->state = state;
    return state != CHAT_STORE_RECONNECTING;
}


static void
on_node_state(ngx_chat_redis_cluster_t *cluster,
              ngx_chat_redis_client_t  *client)
{
    ngx_uint_t              changed;
    ngx_chat_store_redis_t *redis = cluster->data;

    changed = update_state(redis);

    if (cluster->is_cluster) {
        ngx_chat_redis_liveness_beat(&redis->liveness);
    }

    if (cluster->failed_over && redis->base.store.state == CHAT_STORE_UP) {
        cluster->failed_over = 0;
        repeat_facts(redis, 0);

    } else if (changed
               || (client != NULL && client->state != CHAT_STORE_RECONNECTING))
    {
        notify_all(redis);
    }
}


static void
on_beat(void *data)
{
    ngx_chat_store_redis_t *redis = data;

    if (redis->cluster.is_cluster && update_state(redis)) {
        notify_all(redis);
    }
}


static void
on_data_lost(void *data, ngx_chat_redis_client_t *client)
{
    ngx_log_error(NGX_LOG_WARN, client->conn.log, 0,
                  "chat: the store %V has lost its data, requests in progress "
                  "store theirs again",
                  client->name);
    repeat_facts(data, 1);
}


static void
locate_master(ngx_chat_redis_client_t *client)
{
    ngx_chat_store_redis_t *redis = client->data;

    ngx_chat_redis_sentinel_seek(&redis->sentinel);
}


static void
on_master_found(ngx_chat_redis_sentinel_t   *sentinel,
                const ngx_chat_redis_host_t *master, ngx_uint_t changed)
{
    ngx_chat_store_redis_t *redis = sentinel->data;

    if (changed) {
        redis->cluster.failed_over = 1;
        ngx_log_error(NGX_LOG_NOTICE, redis->cluster.log, 0,
                      "chat: the store %V has failed over to %V",
                      &redis->cluster.conf->name, &master->name);
    }

    ngx_chat_redis_client_move(&redis->cluster.nodes[0]->client, master);

    if (changed || redis->notify.conn.host == NULL) {
        ngx_chat_redis_notify_move(&redis->notify);
    }
}


static void
on_master_unknown(ngx_chat_redis_sentinel_t *sentinel, const char *why)
{
    ngx_chat_store_redis_t *redis = sentinel->data;

    ngx_chat_redis_client_disconnect(&redis->cluster.nodes[0]->client, why);
}


static void
on_notification(ngx_chat_redis_notify_t *notify, chat_str_t prefix)
{
    chat_digest_t           name;
    ngx_chat_store_redis_t *redis = notify->data;

    if (prefix.len == 0) {
        notify_all(redis);

    } else if (chat_hex_read(prefix, name.bytes, sizeof(uint64_t))) {
        ngx_chat_store_changed(&redis->base, ngx_chat_store_prefix(&name), 0);
    }
}


/* Sets a name that no other worker has or had. */
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
    redis->base.store.worker =
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

    ngx_chat_redis_init_store(redis);
    set_worker_name(redis);

    if (ngx_chat_store_base_init(&redis->base, cycle) != NGX_OK) {
        return NULL;
    }

    redis->cluster.data = redis;
    redis->cluster.setup = setup_node;
    redis->cluster.changed = on_node_state;
    redis->liveness.data = redis;
    redis->liveness.beaten = on_beat;
    redis->liveness.died = notify_all;
    redis->liveness.data_lost = on_data_lost;
    redis->notify.data = redis;
    redis->notify.changed = on_notification;

    if (conf->scheme == NGX_CHAT_REDIS_SENTINEL) {
        redis->cluster.locate = locate_master;
        redis->sentinel.data = redis;
        redis->sentinel.found = on_master_found;
        redis->sentinel.unknown = on_master_unknown;
        ngx_chat_redis_sentinel_open(&redis->sentinel, conf, cycle->log);
    }

    if (ngx_chat_redis_cluster_open(&redis->cluster, conf, cycle->log)
        != NGX_OK) {
        return NULL;
    }

    redis->unseen_since = ngx_current_msec;
    ngx_chat_redis_liveness_init(&redis->liveness, &redis->cluster,
                                 redis->base.store.worker);
    ngx_chat_redis_notify_open(&redis->notify, &redis->cluster,
                               redis->base.store.worker);
    return &redis->base.store;
}


void
ngx_chat_store_redis_close(chat_store_t *store)
{
    ngx_chat_store_redis_t *redis = (ngx_chat_store_redis_t *) store;

    ngx_chat_redis_liveness_leave(&redis->liveness);
    ngx_chat_redis_conn_close(&redis->notify.conn);
    ngx_chat_redis_conn_close(&redis->sentinel.conn);
    ngx_chat_redis_cluster_close(&redis->cluster);
}
