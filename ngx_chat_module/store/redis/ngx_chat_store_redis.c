/*
 * ngx_chat_store_redis.c: the store in Redis.
 *
 * It ties together the cluster, Sentinel, liveness and the subscription, and
 * turns their states into one state of the store. A PING each second shows
 * that the subscription works: a subscriber that sends nothing does not notice
 * a broken connection. After two failures in a row all keys count as changed
 * with each attempt to subscribe.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/redis/ngx_chat_store_redis.h"

#define NGX_CHAT_STORE_REDIS_UNSEEN 1000 /* ms; then UNAVAILABLE */
#define NGX_CHAT_REDIS_PING 1000
#define NGX_CHAT_REDIS_POLL 15 /* replies to PING */
#define NGX_CHAT_REDIS_NOTIFY_FIRST 20
#define NGX_CHAT_REDIS_NOTIFY_LAST 300


static void
setup_node(ngx_chat_redis_client_t *client)
{
    ngx_chat_store_redis_t *redis = client->data;

    ngx_chat_redis_load_scripts(client);

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
 * must not claim; after a second the store counts as unavailable. changed: a
 * part of the store is UP or UNAVAILABLE, and was not.
 */
static void
follow_state(ngx_chat_store_redis_t *redis, ngx_uint_t changed)
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

    if (state != store->state && state != CHAT_STORE_RECONNECTING) {
        changed = 1;

        /* one server's client logs its own state */
        if (redis->cluster.is_cluster) {
            level = state == CHAT_STORE_UP && !redis->logged ? NGX_LOG_INFO
                                                             : NGX_LOG_ERR;
            redis->logged = state == CHAT_STORE_UNAVAILABLE;
            ngx_log_error(
                level, redis->cluster.log, 0, "chat: the store %V is %s",
                &redis->cluster.conf->name,
                state == CHAT_STORE_UP ? "connected" : "unavailable");
        }
    }

    store->state = state;

    if (redis->stale && state == CHAT_STORE_UP) {
        redis->stale = 0;
        repeat_facts(redis, 0);

    } else if (changed) {
        notify_all(redis);
    }
}


static void
on_node_state(ngx_chat_redis_client_t *client)
{
    ngx_chat_store_redis_t *redis = client->data;

    if (redis->cluster.is_cluster) {
        ngx_chat_redis_liveness_beat(&redis->liveness);

        /*
         * UP: it may be a former replica, or have lost its data. UNAVAILABLE:
         * another one may get its slots, and its unsent commands. If it has
         * served none since the last time, these have all facts.
         */
        redis->stale |= client->has_served;
    }

    follow_state(redis, 1);
}


static void
on_beat(void *data)
{
    ngx_chat_store_redis_t *redis = data;

    if (redis->cluster.is_cluster) {
        follow_state(redis, 0);
    }
}


static void
on_data_lost(void *data, ngx_chat_redis_client_t *client)
{
    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "chat: the store %V has lost its data, requests in progress "
                  "store theirs again",
                  client->name);
    repeat_facts(data, 1);
}


/* The subscription. */

static void
on_subscriber_ready(ngx_chat_redis_conn_t *conn)
{
    ngx_chat_store_redis_t *redis = conn->data;

    ngx_chat_redis_conn_command(
        conn, "SUBSCRIBE " NGX_CHAT_REDIS_CHANNEL "%*s",
        redis->base.store.worker.len, redis->base.store.worker.data);
}


static void
on_subscriber_closed(ngx_chat_redis_conn_t *conn, const char *why)
{
    ngx_chat_store_redis_t *redis = conn->data;

    /* the client logs a failure of both connections */
    if (!redis->notify.logged && conn->backoff > NGX_CHAT_REDIS_NOTIFY_FIRST
        && redis->notify.node->client.state == CHAT_STORE_UP)
    {
        redis->notify.logged = 1;
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "chat: no subscription to the store %V, changes are "
                      "polled: %s",
                      redis->notify.node->client.name, why);
    }

    ngx_chat_redis_conn_retry(conn, NGX_CHAT_REDIS_NOTIFY_LAST);
}


static void
on_subscriber_reply(ngx_chat_redis_conn_t *conn, redisReply *reply)
{
    uint64_t                prefix;
    ngx_chat_store_redis_t *redis = conn->data;

    if (ngx_chat_redis_is_message(reply, "message")) {
        /* the first 16 hex digits of a key's name */
        if (chat_hex_read(ngx_chat_redis_text(reply->element[2]),
                          (u_char *) &prefix, sizeof(prefix)))
        {
            ngx_chat_store_changed(&redis->base, prefix, 0);
        }

    } else if (ngx_chat_redis_is_message(reply, "subscribe")) {
        notify_all(redis);

    } else if (reply->type == REDIS_REPLY_ERROR) {
        ngx_chat_redis_conn_fail(conn, "%s", reply->str);

    } else {
        /* the reply to a PING, each second: the subscription lasts */
        conn->backoff = NGX_CHAT_REDIS_NOTIFY_FIRST;

        if (redis->notify.logged) {
            redis->notify.logged = 0;
            ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                          "chat: subscribed to the store %V again",
                          redis->notify.node->client.name);
        }

        if (++redis->notify.pings % NGX_CHAT_REDIS_POLL == 0) {
            notify_all(redis);
        }

        /* a node that has left the cluster gets no notifications */
        if (redis->cluster.known && redis->notify.node->slots == 0) {
            ngx_chat_redis_conn_fail(conn, "it has no slots");
        }
    }

    freeReplyObject(reply);
}


/*
 * Connects to a node, each time to another one. While it connects, the cluster
 * may give the node another address; any node will do.
 */
static void
subscribe(ngx_chat_store_redis_t *redis)
{
    redis->notify.node = ngx_chat_redis_cluster_any(&redis->cluster);
    redis->notify.conn.host = redis->notify.node->client.conn.host;

    if (redis->notify.conn.host != NULL) {
        ngx_chat_redis_conn_open(&redis->notify.conn);
    }
}


static void
on_subscriber_retry(ngx_chat_redis_conn_t *conn)
{
    ngx_chat_store_redis_t *redis = conn->data;

    if (redis->notify.node->client.state == CHAT_STORE_UP
        && conn->backoff > NGX_CHAT_REDIS_NOTIFY_FIRST * 2)
    {
        notify_all(redis);
    }

    subscribe(redis);
}


/* At the start, and when the server has another address. */
static void
resubscribe(ngx_chat_store_redis_t *redis)
{
    ngx_chat_redis_conn_close(&redis->notify.conn);
    redis->notify.conn.backoff = NGX_CHAT_REDIS_NOTIFY_FIRST;
    subscribe(redis);
}


/* Sentinel. */

static void
locate_master(ngx_chat_redis_client_t *client)
{
    ngx_chat_store_redis_t *redis = client->data;

    ngx_chat_redis_sentinel_seek(&redis->sentinel);
}


static void
on_master_found(ngx_chat_redis_sentinel_t   *sentinel,
                const ngx_chat_redis_host_t *master, ngx_uint_t changed,
                const char *why)
{
    ngx_chat_store_redis_t  *redis = sentinel->data;
    ngx_chat_redis_client_t *client = &redis->cluster.nodes[0]->client;

    if (master == NULL) {
        ngx_chat_redis_client_disconnect(client, why);
        return;
    }

    if (changed) {
        redis->stale = 1;
        ngx_log_error(NGX_LOG_NOTICE, redis->cluster.log, 0,
                      "chat: the store %V has failed over to %V",
                      &redis->cluster.conf->name, &master->name);
    }

    ngx_chat_redis_client_move(client, master);

    if (changed || redis->notify.conn.host == NULL) {
        resubscribe(redis);
    }
}


/* Sets a name that no other worker has or had. */
static ngx_int_t
set_worker_name(ngx_chat_store_redis_t *redis, ngx_log_t *log)
{
    u_char  *end;
    uint64_t id;

    if (ngx_chat_random(&id, sizeof(id), log) != NGX_OK) {
        return NGX_ERROR;
    }

    end = ngx_snprintf(redis->worker, sizeof(redis->worker), "%P-%016xL",
                       ngx_pid, id);
    redis->base.store.worker =
        chat_str(redis->worker, (size_t) (end - redis->worker));
    return NGX_OK;
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

    if (set_worker_name(redis, cycle->log) != NGX_OK
        || ngx_chat_store_base_init(&redis->base, cycle) != NGX_OK)
    {
        return NULL;
    }

    redis->cluster.data = redis;
    redis->cluster.setup = setup_node;
    redis->cluster.changed = on_node_state;
    redis->liveness.data = redis;
    redis->liveness.beaten = on_beat;
    redis->liveness.died = notify_all;
    redis->liveness.data_lost = on_data_lost;

    if (conf->scheme == NGX_CHAT_REDIS_SENTINEL) {
        redis->cluster.locate = locate_master;
        redis->sentinel.data = redis;
        redis->sentinel.found = on_master_found;
        ngx_chat_redis_sentinel_open(&redis->sentinel, conf);
    }

    if (ngx_chat_redis_cluster_open(&redis->cluster, conf, cycle->log)
        != NGX_OK) {
        return NULL;
    }

    redis->unseen_since = ngx_current_msec;
    ngx_chat_redis_liveness_init(&redis->liveness, &redis->cluster,
                                 redis->base.store.worker);

    redis->notify.conn.conf = conf;
    redis->notify.conn.data = redis;
    redis->notify.conn.retry = on_subscriber_retry;
    redis->notify.conn.ping = NGX_CHAT_REDIS_PING;
    redis->notify.conn.ready = on_subscriber_ready;
    redis->notify.conn.reply = on_subscriber_reply;
    redis->notify.conn.closed = on_subscriber_closed;
    resubscribe(redis);
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
