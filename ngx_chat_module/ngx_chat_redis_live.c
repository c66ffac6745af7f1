/*
 * ngx_chat_redis_live.c: see ngx_chat_redis_live.h.
 *
 * The question is one MGET: the epoch first, then the workers, so that what it
 * answers of them is of the same data. Workers that nobody has asked about for
 * a minute are forgotten. Must not know: facts, batches.
 */

#include "ngx_chat_redis_live.h"

#define NGX_CHAT_REDIS_TTL 10000 /* ms, of a worker's key */
#define NGX_CHAT_REDIS_BEAT 500
#define NGX_CHAT_REDIS_YOUNG 2000 /* all are back by then */
#define NGX_CHAT_REDIS_MEMORY 60000
#define NGX_CHAT_REDIS_WORKERS 512
#define NGX_CHAT_REDIS_EPOCH "chat:epoch"
#define NGX_CHAT_REDIS_WORKER "chat:worker:"


/* A worker that this one has met. */
typedef struct {
    ngx_queue_t queue;
    ngx_msec_t  used;
    ngx_uint_t  alive;
    size_t      len;
    u_char      name[NGX_CHAT_REDIS_NAME];
} ngx_chat_redis_worker_t;


static void
ngx_chat_redis_live_add_key(ngx_chat_redis_cmd_t *cmd, chat_str_t worker)
{
    u_char key[sizeof(NGX_CHAT_REDIS_WORKER) + NGX_CHAT_REDIS_NAME], *end;

    end = ngx_slprintf(key, key + sizeof(key), NGX_CHAT_REDIS_WORKER "%*s",
                       worker.len, worker.data);
    ngx_chat_redis_cmd_add(cmd, chat_str(key, (size_t) (end - key)));
}


/* Submits it; what is not taken is freed. */
static void
ngx_chat_redis_live_submit(ngx_chat_redis_live_t *live,
                           ngx_chat_redis_cmd_t *cmd, ngx_uint_t greets)
{
    cmd->greets = greets & 1;
    cmd->data = live;

    if (ngx_chat_redis_submit(live->client, cmd) != NGX_OK) {
        ngx_chat_redis_cmd_free(cmd);
    }
}


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


int
ngx_chat_redis_live_alive(ngx_chat_redis_live_t *live, chat_str_t name)
{
    ngx_chat_redis_worker_t *worker;

    if (chat_str_eq(name, live->worker)) {
        /* it may have stood still: the others look at the real time */
        ngx_time_update();
        return live->has_epoch
               && ngx_current_msec - live->beaten < NGX_CHAT_REDIS_TTL / 2;
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


ngx_chat_redis_cmd_t *
ngx_chat_redis_live_question(ngx_chat_redis_live_t *live,
                             const chat_str_t *workers, ngx_uint_t n)
{
    ngx_uint_t            i;
    ngx_chat_redis_cmd_t *cmd = ngx_chat_redis_cmd_create();

    if (cmd == NULL) {
        return NULL;
    }

    ngx_chat_redis_cmd_puts(cmd, "MGET");
    ngx_chat_redis_cmd_puts(cmd, NGX_CHAT_REDIS_EPOCH);

    for (i = 0; i < n; i++) {
        ngx_chat_redis_live_add_key(cmd, workers[i]);
    }

    return cmd;
}


/* Puts a new epoch, unless another worker has been quicker. */
static void
ngx_chat_redis_live_new_epoch(ngx_chat_redis_live_t *live, ngx_uint_t greets)
{
    u_char                text[NGX_CHAT_REDIS_NAME + NGX_INT64_LEN], *end;
    ngx_chat_redis_cmd_t *cmd = ngx_chat_redis_cmd_create();

    if (cmd == NULL) {
        return;
    }

    end = ngx_slprintf(text, text + sizeof(text), "%*s.%xL", live->worker.len,
                       live->worker.data,
                       ((int64_t) ngx_random() << 31) ^ ngx_random());

    ngx_chat_redis_cmd_puts(cmd, "SET");
    ngx_chat_redis_cmd_puts(cmd, NGX_CHAT_REDIS_EPOCH);
    ngx_chat_redis_cmd_add(cmd, chat_str(text, (size_t) (end - text)));
    ngx_chat_redis_cmd_puts(cmd, "NX");
    cmd->done = ngx_chat_redis_ignore;
    ngx_chat_redis_live_submit(live, cmd, greets);
}


/* 1 if the data is that of the last answer. */
static ngx_uint_t
ngx_chat_redis_live_epoch(ngx_chat_redis_live_t *live, const redisReply *reply)
{
    chat_digest_t epoch;

    if (reply->type != REDIS_REPLY_STRING) {
        live->trusted = ngx_current_msec + NGX_CHAT_REDIS_YOUNG;
        ngx_chat_redis_live_new_epoch(live, 0);
        return 0;
    }

    chat_digest(chat_str(reply->str, (size_t) reply->len), &epoch);

    if (live->has_epoch && chat_digest_eq(&epoch, &live->epoch)) {
        return 1;
    }

    live->epoch = epoch;

    if (!live->has_epoch) {
        live->has_epoch = 1;
        return 1;
    }

    live->trusted = ngx_current_msec + NGX_CHAT_REDIS_YOUNG;
    live->lost(live);
    return 0;
}


/* What is known of one worker now; 1 if that is its death. */
static ngx_uint_t
ngx_chat_redis_live_note(ngx_chat_redis_live_t *live, chat_str_t name,
                         ngx_uint_t alive)
{
    ngx_uint_t               was;
    ngx_chat_redis_worker_t *worker;

    worker = ngx_chat_redis_live_find(live, name);
    if (worker == NULL) {
        worker = ngx_chat_redis_live_meet(live, name);
    }

    if (worker == NULL
        || (!alive && (ngx_msec_int_t) (live->trusted - ngx_current_msec) > 0))
    {
        return 0;
    }

    was = worker->alive;
    worker->alive = alive;
    return was && !alive;
}


void
ngx_chat_redis_live_answer(ngx_chat_redis_live_t      *live,
                           const ngx_chat_redis_cmd_t *cmd,
                           const redisReply           *reply)
{
    size_t     i, skip = sizeof(NGX_CHAT_REDIS_WORKER) - 1;
    chat_str_t name;
    ngx_uint_t deaths = 0;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements + 1 != cmd->argc) {
        ngx_chat_redis_complain(live->client, reply);
        return;
    }

    if (!ngx_chat_redis_live_epoch(live, reply->element[0])) {
        return;
    }

    for (i = 2; i < cmd->argc; i++) {
        name = chat_str(cmd->argv[i] + skip, cmd->len[i] - skip);
        deaths += ngx_chat_redis_live_note(
            live, name, reply->element[i - 1]->type == REDIS_REPLY_STRING);
    }

    if (deaths != 0) {
        live->died(live);
    }
}


/* The reply to the first half of a beat: others see this worker. */
static void
ngx_chat_redis_live_beaten(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    ngx_chat_redis_live_t *live = cmd->data;

    if (reply != NULL && reply->type == REDIS_REPLY_STATUS) {
        /* one that was sent twice is older than it looks */
        live->beaten = ngx_max(live->beaten, cmd->born);
    } else if (reply != NULL) {
        ngx_chat_redis_complain(live->client, reply);
    }

    ngx_chat_redis_ignore(cmd, reply);
}


static void
ngx_chat_redis_live_heard(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    ngx_chat_redis_live_t *live = cmd->data;

    live->beating = 0;
    if (reply != NULL) {
        ngx_chat_redis_live_answer(live, cmd, reply);
    }

    ngx_chat_redis_ignore(cmd, reply);
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


/* Says that this worker lives, and asks who else does. */
static void
ngx_chat_redis_live_send(ngx_chat_redis_live_t *live, ngx_uint_t greets)
{
    chat_str_t               names[NGX_CHAT_REDIS_WORKERS];
    ngx_uint_t               n = 0;
    ngx_queue_t             *q;
    ngx_chat_redis_cmd_t    *set, *ask;
    ngx_chat_redis_worker_t *worker;

    for (q = ngx_queue_head(&live->workers);
         q != ngx_queue_sentinel(&live->workers); q = ngx_queue_next(q))
    {
        worker = ngx_queue_data(q, ngx_chat_redis_worker_t, queue);
        names[n++] = chat_str(worker->name, worker->len);
    }

    set = ngx_chat_redis_cmd_create();
    ask = ngx_chat_redis_live_question(live, names, n);
    if (set == NULL || ask == NULL) {
        if (set != NULL) {
            ngx_chat_redis_cmd_free(set);
        }
        if (ask != NULL) {
            ngx_chat_redis_cmd_free(ask);
        }
        return;
    }

    ngx_chat_redis_cmd_puts(set, "SET");
    ngx_chat_redis_live_add_key(set, live->worker);
    ngx_chat_redis_cmd_puts(set, "1");
    ngx_chat_redis_cmd_puts(set, "PX");
    ngx_chat_redis_cmd_number(set, NGX_CHAT_REDIS_TTL);
    set->done = ngx_chat_redis_live_beaten;
    ask->done = ngx_chat_redis_live_heard;

    live->beating = 1;
    ngx_chat_redis_live_submit(live, set, greets);
    ngx_chat_redis_live_submit(live, ask, greets);
}


static void
ngx_chat_redis_live_beat(ngx_event_t *ev)
{
    ngx_chat_redis_live_t *live = ev->data;

    ngx_chat_redis_timer(ev, NGX_CHAT_REDIS_BEAT);

    if (live->client->state == CHAT_STORE_UP && !live->beating) {
        ngx_chat_redis_live_forget(live);
        ngx_chat_redis_live_send(live, 0);
    }
}


void
ngx_chat_redis_live_greet(ngx_chat_redis_live_t *live)
{
    live->trusted = ngx_current_msec + NGX_CHAT_REDIS_YOUNG;
    ngx_chat_redis_live_new_epoch(live, 1);
    ngx_chat_redis_live_send(live, 1);
}


void
ngx_chat_redis_live_leave(ngx_chat_redis_live_t *live)
{
    ngx_chat_redis_cmd_t *cmd = ngx_chat_redis_cmd_create();

    if (cmd == NULL) {
        return;
    }

    ngx_chat_redis_cmd_puts(cmd, "DEL");
    ngx_chat_redis_live_add_key(cmd, live->worker);
    cmd->done = ngx_chat_redis_ignore;
    ngx_chat_redis_live_submit(live, cmd, 0);
    ngx_chat_redis_flush(&live->client->flush);
    ngx_chat_redis_conn_flush(&live->client->conn);
}


void
ngx_chat_redis_live_init(ngx_chat_redis_live_t   *live,
                         ngx_chat_redis_client_t *client, chat_str_t worker)
{
    live->client = client;
    live->worker = worker;
    ngx_queue_init(&live->workers);
    live->beat.handler = ngx_chat_redis_live_beat;
    live->beat.data = live;
    live->beat.log = client->conn.log;
    ngx_chat_redis_timer(&live->beat, NGX_CHAT_REDIS_BEAT);
}
