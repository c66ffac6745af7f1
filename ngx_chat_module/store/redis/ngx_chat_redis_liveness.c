/*
 * ngx_chat_redis_liveness.c: the keys that say which workers live, and the epoch
 * of the data, see ngx_chat_redis_liveness.h.
 *
 * The question is one MGET: the epoch first, then the workers, so that what it
 * answers of them is of the same data. The keys of a seat have one hash tag: a
 * seat that votes lies in a slot that is the same for all workers, whoever has
 * it; a node's keeper in any slot that is the node's.
 * Must not know: facts, batches.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "store/redis/ngx_chat_redis_liveness.h"

#define NGX_CHAT_REDIS_TTL 10000  /* ms, of a worker's key */
#define NGX_CHAT_REDIS_YOUNG 2000 /* all are back by then */
#define NGX_CHAT_REDIS_TAGS 512   /* tried at a time */

/* Their slots are in the middle of the thirds: 2722, 8196, 13655. */
static const char *const ngx_chat_redis_seats[NGX_CHAT_REDIS_SEATS] = {
    "chat:{776}:", "chat:{716}:", "chat:{726}:"
};


void
ngx_chat_redis_seat_init(ngx_chat_redis_seat_t *seat, ngx_uint_t n)
{
    const char *prefix = "chat:";

    if (seat->live->cluster->many) {
        prefix = ngx_chat_redis_seats[n];
    }

    seat->n = n;
    seat->votes = 1;
    seat->keeps = !seat->live->cluster->many;
    seat->len = ngx_strlen(prefix);
    ngx_memcpy(seat->prefix, prefix, seat->len);
    seat->slot = chat_slot(chat_cstr(prefix));
}


ngx_uint_t
ngx_chat_redis_seat_is_there(const ngx_chat_redis_seat_t *seat)
{
    return ngx_chat_redis_cluster_client(seat->live->cluster, seat->slot)
               ->state
           == CHAT_STORE_UP;
}


ngx_uint_t
ngx_chat_redis_seat_keep(ngx_chat_redis_seat_t *seat, ngx_uint_t node)
{
    ngx_uint_t    i;
    const u_char *owner = seat->live->cluster->owner;

    if (seat->len != 0 && owner[seat->slot] == node) {
        return 1;
    }

    seat->keeps = 1;
    seat->has_epoch = 0;

    for (i = 0; i < NGX_CHAT_REDIS_TAGS; i++) {
        seat->len =
            ngx_sprintf(seat->prefix, "chat:{%ui}:", seat->tag) - seat->prefix;
        seat->slot = chat_slot(chat_str(seat->prefix, seat->len));

        if (owner[seat->slot] == node) {
            return 1;
        }

        seat->tag = (seat->tag + 1) % (16 * CHAT_SLOTS);
    }

    return 0; /* it has few; others are tried the next time */
}


/* Adds the key that is called so. */
static void
ngx_chat_redis_seat_add(ngx_chat_redis_cmd_t        *cmd,
                        const ngx_chat_redis_seat_t *seat, const char *what,
                        chat_str_t name)
{
    u_char key[sizeof(seat->prefix) + 16 + NGX_CHAT_REDIS_NAME], *end;

    end = ngx_slprintf(key, key + sizeof(key), "%*s%s%*s", seat->len,
                       seat->prefix, what, name.len, name.data);
    ngx_chat_redis_cmd_key(cmd, chat_str(key, (size_t) (end - key)));
}


static void
ngx_chat_redis_seat_add_worker(ngx_chat_redis_cmd_t        *cmd,
                               const ngx_chat_redis_seat_t *seat,
                               chat_str_t                   worker)
{
    ngx_chat_redis_seat_add(cmd, seat, "worker:", worker);
}


static void
ngx_chat_redis_seat_add_epoch(ngx_chat_redis_cmd_t        *cmd,
                              const ngx_chat_redis_seat_t *seat)
{
    ngx_chat_redis_seat_add(cmd, seat, "epoch", chat_cstr(""));
}


/* The worker that the i-th argument of a question asks for. */
static chat_str_t
ngx_chat_redis_seat_name(const ngx_chat_redis_seat_t *seat,
                         const ngx_chat_redis_cmd_t *cmd, size_t i)
{
    size_t skip = seat->len + sizeof("worker:") - 1;

    return chat_str(cmd->argv[i] + skip, cmd->len[i] - skip);
}


/* Submits it: 1; what is not taken is freed: 0. */
static ngx_uint_t
ngx_chat_redis_seat_submit(ngx_chat_redis_seat_t *seat,
                           ngx_chat_redis_cmd_t *cmd, ngx_uint_t greets)
{
    cmd->greets = greets & 1;
    cmd->data = seat;

    if (ngx_chat_redis_cluster_submit(seat->live->cluster, cmd) == NGX_OK) {
        return 1;
    }

    ngx_chat_redis_cmd_free(cmd);
    return 0;
}


ngx_chat_redis_cmd_t *
ngx_chat_redis_seat_question(ngx_chat_redis_seat_t *seat,
                             const chat_str_t *workers, ngx_uint_t n)
{
    ngx_uint_t            i;
    ngx_chat_redis_cmd_t *cmd = ngx_chat_redis_cmd_create();

    if (cmd == NULL) {
        return NULL;
    }

    ngx_chat_redis_cmd_puts(cmd, "MGET");
    ngx_chat_redis_seat_add_epoch(cmd, seat);

    for (i = 0; i < n; i++) {
        ngx_chat_redis_seat_add_worker(cmd, seat, workers[i]);
    }

    return cmd;
}


void
ngx_chat_redis_seat_new_epoch(ngx_chat_redis_seat_t *seat, ngx_uint_t greets)
{
    u_char                text[NGX_CHAT_REDIS_NAME + NGX_INT64_LEN], *end;
    chat_str_t           *worker = &seat->live->worker;
    ngx_chat_redis_cmd_t *cmd = ngx_chat_redis_cmd_create();

    if (cmd == NULL) {
        return;
    }

    end = ngx_slprintf(text, text + sizeof(text), "%*s.%xL", worker->len,
                       worker->data,
                       ((int64_t) ngx_random() << 31) ^ ngx_random());

    ngx_chat_redis_cmd_puts(cmd, "SET");
    ngx_chat_redis_seat_add_epoch(cmd, seat);
    ngx_chat_redis_cmd_add(cmd, chat_str(text, (size_t) (end - text)));
    ngx_chat_redis_cmd_puts(cmd, "NX");
    cmd->done = ngx_chat_redis_ignore;
    (void) ngx_chat_redis_seat_submit(seat, cmd, greets);
}


/* 1 if the data is that of the last answer. */
static ngx_uint_t
ngx_chat_redis_seat_epoch(ngx_chat_redis_seat_t *seat, const redisReply *reply)
{
    chat_digest_t epoch;

    if (reply->type != REDIS_REPLY_STRING) {
        seat->since = ngx_current_msec;
        ngx_chat_redis_seat_new_epoch(seat, 0);
        return 0;
    }

    chat_digest(chat_str(reply->str, (size_t) reply->len), &epoch);

    if (seat->has_epoch && chat_digest_eq(&epoch, &seat->epoch)) {
        return 1;
    }

    seat->epoch = epoch;

    if (!seat->has_epoch) {
        seat->has_epoch = 1;
        return 1;
    }

    seat->since = ngx_current_msec;

    if (seat->keeps) {
        seat->live->lost(seat->live, seat->client);
    }

    return 0;
}


/* 1 if everybody who lives has been back, so that who is missing is dead. */
static ngx_uint_t
ngx_chat_redis_seat_trusted(const ngx_chat_redis_seat_t *seat)
{
    return ngx_current_msec - seat->since >= NGX_CHAT_REDIS_YOUNG
           && ngx_current_msec - seat->client->up_at >= NGX_CHAT_REDIS_YOUNG;
}


void
ngx_chat_redis_seat_answer(ngx_chat_redis_seat_t      *seat,
                           const ngx_chat_redis_cmd_t *cmd,
                           const redisReply           *reply)
{
    size_t     i;
    ngx_uint_t deaths = 0, there;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements + 1 != cmd->argc) {
        ngx_chat_redis_complain(cmd->client, reply);
        return;
    }

    if (seat->client != cmd->client) {
        seat->client = cmd->client;
        seat->since = ngx_current_msec;
    }

    if (!ngx_chat_redis_seat_epoch(seat, reply->element[0])) {
        return;
    }

    seat->heard = ngx_current_msec;

    for (i = 2; i < cmd->argc; i++) {
        there = reply->element[i - 1]->type == REDIS_REPLY_STRING;

        if (there || ngx_chat_redis_seat_trusted(seat)) {
            deaths += ngx_chat_redis_live_note(
                seat->live, seat, ngx_chat_redis_seat_name(seat, cmd, i),
                there);
        }
    }

    if (deaths != 0) {
        seat->live->died(seat->live);
    }
}


/* The reply to the first half of a beat: others see this worker. */
static void
ngx_chat_redis_seat_beaten(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    ngx_chat_redis_seat_t *seat = cmd->data;

    if (reply != NULL && reply->type == REDIS_REPLY_STATUS) {
        /* one that was sent twice is older than it looks */
        seat->beaten = ngx_max(seat->beaten, cmd->born);
    } else if (reply != NULL) {
        ngx_chat_redis_complain(cmd->client, reply);
    }

    ngx_chat_redis_ignore(cmd, reply);
}


static void
ngx_chat_redis_seat_heard(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    ngx_chat_redis_seat_t *seat = cmd->data;
    ngx_chat_redis_live_t *live = seat->live;

    seat->beating = 0;

    /* a node that had the slot of its keeper until just now knows no more */
    if (reply != NULL
        && (seat->votes
            || &live->cluster->nodes[seat->n]->client == cmd->client))
    {
        ngx_chat_redis_seat_answer(seat, cmd, reply);
    }

    ngx_chat_redis_ignore(cmd, reply);
    live->told(live);
}


/* Others are to see this worker. */
static void
ngx_chat_redis_seat_show(ngx_chat_redis_seat_t *seat, ngx_uint_t greets)
{
    ngx_chat_redis_cmd_t *cmd = ngx_chat_redis_cmd_create();

    if (cmd == NULL) {
        return;
    }

    ngx_chat_redis_cmd_puts(cmd, "SET");
    ngx_chat_redis_seat_add_worker(cmd, seat, seat->live->worker);
    ngx_chat_redis_cmd_puts(cmd, "1");
    ngx_chat_redis_cmd_puts(cmd, "PX");
    ngx_chat_redis_cmd_number(cmd, NGX_CHAT_REDIS_TTL);
    cmd->done = ngx_chat_redis_seat_beaten;
    (void) ngx_chat_redis_seat_submit(seat, cmd, greets);
}


void
ngx_chat_redis_seat_beat(ngx_chat_redis_seat_t *seat, const chat_str_t *names,
                         ngx_uint_t n, ngx_uint_t greets)
{
    ngx_chat_redis_cmd_t *cmd;

    if (seat->votes) {
        ngx_chat_redis_seat_show(seat, greets);
    }

    cmd = ngx_chat_redis_seat_question(seat, names, n);

    if (cmd != NULL) {
        cmd->done = ngx_chat_redis_seat_heard;
        seat->beating = ngx_chat_redis_seat_submit(seat, cmd, greets);
    }
}


void
ngx_chat_redis_seat_leave(ngx_chat_redis_seat_t *seat)
{
    ngx_chat_redis_cmd_t *cmd = ngx_chat_redis_cmd_create();

    if (cmd == NULL) {
        return;
    }

    ngx_chat_redis_cmd_puts(cmd, "DEL");
    ngx_chat_redis_seat_add_worker(cmd, seat, seat->live->worker);
    cmd->done = ngx_chat_redis_ignore;
    (void) ngx_chat_redis_seat_submit(seat, cmd, 0);
}
