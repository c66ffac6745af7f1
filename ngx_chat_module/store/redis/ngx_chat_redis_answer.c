/*
 * ngx_chat_redis_answer.c: replies as facts, for those who wait for them.
 *
 * Before an answer that names workers whose life matters, it is asked who of
 * them is alive, unless that is known; of claimants each time. Whoever decides
 * by the facts decides at once. A reply of another shape is told to the log
 * and fails its question. Must not know: what facts mean, connections.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/redis/ngx_chat_redis_codec.h"

#define NGX_CHAT_REDIS_MEET 32 /* workers looked up for one answer */


chat_str_t
ngx_chat_redis_text(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING
               ? chat_str(reply->str, (size_t) reply->len)
               : chat_str(NULL, 0);
}


void
ngx_chat_redis_tell(ngx_chat_redis_cmd_t *cmd, chat_rc_e rc,
                    const ngx_chat_redis_facts_t *found)
{
    chat_store_op_t *op = cmd->op;

    cmd->op = NULL;

    if (op != NULL) {
        op->store = NULL;
        op->answer = NULL;
        op->done(op, rc, found ? found->facts : NULL,
                 found ? found->count : 0);
    }
}


void
ngx_chat_redis_end(ngx_chat_redis_cmd_t *cmd, redisReply *reply, chat_rc_e rc)
{
    ngx_chat_redis_tell(cmd, rc, NULL);

    if (reply != NULL) {
        freeReplyObject(reply);
    }

    ngx_chat_redis_cmd_free(cmd);
}


/* The worker that a fact names whose life matters; or none. */
static chat_str_t
ngx_chat_redis_named(chat_str_t field, chat_str_t value)
{
    char          until;
    const u_char *end;

    if (chat_str_starts(field, "feed/")) {
        field = chat_str(field.data + 5, field.len - 5);
        end = field.len ? memchr(field.data, '/', field.len) : NULL;
        return end ? chat_str(field.data, (size_t) (end - field.data)) : field;
    }

    if (chat_str_starts(field, "claim/") || chat_str_starts(field, "stream/")
        || chat_str_starts(field, "hold/"))
    {
        until = ' ';
    } else if (chat_str_is(field, "open")) {
        until = '\n';
    } else {
        return chat_str(NULL, 0);
    }

    if (value.len < 2) {
        return chat_str(NULL, 0);
    }

    value = chat_str(value.data + 1, value.len - 1);
    end = memchr(value.data, until, value.len);
    return end ? chat_str(value.data, (size_t) (end - value.data)) : value;
}


/*
 * The workers in a reply that are to be asked about; at most so many. A
 * client that was told of a claimant's death may be back sooner than all
 * workers have heard of it, and is not to wait for the dead once more.
 */
static ngx_uint_t
ngx_chat_redis_strangers(ngx_chat_store_redis_t *redis,
                         const redisReply *reply, chat_str_t *names)
{
    size_t     i;
    chat_str_t field, name;
    ngx_uint_t k, n = 0;

    for (i = 0; i + 1 < reply->elements && n < NGX_CHAT_REDIS_MEET; i += 2) {
        field = ngx_chat_redis_text(reply->element[i]);
        name = ngx_chat_redis_named(
            field, ngx_chat_redis_text(reply->element[i + 1]));

        if (ngx_chat_redis_live_knows(&redis->live, name,
                                      chat_str_starts(field, "claim/")))
        {
            continue;
        }

        for (k = 0; k < n && !chat_str_eq(names[k], name); k++) { /* void */
        }

        if (k == n) {
            names[n++] = name;
        }
    }

    return n;
}


/* The facts of a reply go to whoever waits for them. */
static void
ngx_chat_redis_answer(ngx_chat_redis_cmd_t *cmd, const redisReply *reply)
{
    size_t                 i;
    chat_str_t             value;
    chat_fact_t           *fact;
    ngx_chat_redis_facts_t found;

    found.count = 0;
    found.facts = ngx_calloc((reply->elements / 2 + 1) * sizeof(chat_fact_t),
                             ngx_cycle->log);
    if (found.facts == NULL) {
        ngx_chat_redis_tell(cmd, CHAT_ERROR, NULL);
        return;
    }

    for (i = 0; i + 1 < reply->elements; i += 2) {
        value = ngx_chat_redis_text(reply->element[i + 1]);
        if (value.len == 0) {
            continue; /* none of ours */
        }

        fact = &found.facts[found.count++];
        fact->field = ngx_chat_redis_text(reply->element[i]);
        fact->value = chat_str(value.data + 1, value.len - 1);
        fact->has_payload = value.data[0] == '1';
    }

    ngx_chat_redis_tell(cmd, CHAT_OK, &found);
    ngx_free(found.facts);
}


/* All who could be asked have said who is alive, or not. */
static void
ngx_chat_redis_meet_end(ngx_chat_redis_cmd_t *joined)
{
    ngx_chat_store_redis_t *redis = joined->data;

    if (ngx_chat_redis_live_enough(&redis->live, joined->heard)) {
        ngx_chat_redis_answer(joined, joined->kept);
    }

    ngx_chat_redis_end(joined, NULL, CHAT_ERROR);
}


/* A seat has said who is alive of those that the kept reply names, or not. */
static void
ngx_chat_redis_met(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    ngx_chat_redis_cmd_t   *joined = cmd->data;
    ngx_chat_store_redis_t *redis = joined->data;

    if (reply != NULL) {
        ngx_chat_redis_seat_answer(&redis->live.seats[cmd->turn], cmd, reply);
        joined->heard++;
    }

    ngx_chat_redis_ignore(cmd, reply);

    if (--joined->turn == 0) {
        ngx_chat_redis_meet_end(joined);
    }
}


/* Asks the seats that are there for the life of workers that it names. */
static void
ngx_chat_redis_meet(ngx_chat_redis_cmd_t *joined, redisReply *reply,
                    const chat_str_t *names, ngx_uint_t n)
{
    ngx_uint_t              i;
    ngx_chat_redis_cmd_t   *cmd;
    ngx_chat_redis_seat_t  *seat;
    ngx_chat_store_redis_t *redis = joined->data;

    joined->kept = reply;
    joined->turn = 1;

    for (i = 0; i < redis->live.nseats; i++) {
        seat = &redis->live.seats[i];
        cmd = ngx_chat_redis_seat_is_there(seat)
                  ? ngx_chat_redis_seat_question(seat, names, n)
                  : NULL;
        if (cmd == NULL) {
            continue;
        }

        cmd->done = ngx_chat_redis_met;
        cmd->data = joined;
        cmd->turn = i;
        cmd->op = joined->op; /* so that it has a deadline */

        if (ngx_chat_redis_cluster_submit(&redis->cluster, cmd) == NGX_OK) {
            joined->turn++;
        } else {
            ngx_chat_redis_cmd_free(cmd);
        }
    }

    if (--joined->turn == 0) {
        ngx_chat_redis_meet_end(joined);
    }
}


void
ngx_chat_redis_joined(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    ngx_uint_t              n;
    chat_str_t              names[NGX_CHAT_REDIS_MEET];
    ngx_chat_store_redis_t *redis = cmd->data;

    if (reply == NULL) {
        ngx_chat_redis_end(cmd, NULL, CHAT_ERROR);
        return;
    }

    if (ngx_chat_redis_again(cmd, reply)) {
        return;
    }

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements % 2 != 0) {
        ngx_chat_redis_complain(cmd->client, reply);
        ngx_chat_redis_end(cmd, reply,
                           ngx_chat_redis_is_error(reply, "ERR FULL")
                               ? CHAT_LIMIT
                               : CHAT_ERROR);
        return;
    }

    n = cmd->op ? ngx_chat_redis_strangers(redis, reply, names) : 0;
    if (n != 0) {
        ngx_chat_redis_meet(cmd, reply, names, n);
        return;
    }

    ngx_chat_redis_answer(cmd, reply);
    ngx_chat_redis_ignore(cmd, reply);
}


/* What was kept as a payload: the value's length, the value, the payload. */
static ngx_uint_t
ngx_chat_redis_split(chat_str_t text, chat_fact_t *fact)
{
    size_t        left;
    ngx_int_t     len;
    const u_char *line;

    line = text.len ? memchr(text.data, '\n', text.len) : NULL;
    if (line == NULL) {
        return 0;
    }

    left = text.len - (size_t) (line + 1 - text.data);
    len = ngx_atoi((u_char *) text.data, (size_t) (line - text.data));
    if (len < 0 || (size_t) len > left) {
        return 0;
    }

    fact->value = chat_str(line + 1, (size_t) len);
    fact->payload = chat_str(line + 1 + len, left - (size_t) len);
    fact->has_payload = 1;
    return 1;
}


void
ngx_chat_redis_fetched(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    size_t                 i;
    chat_fact_t           *fact;
    ngx_chat_redis_facts_t found;

    if (reply == NULL || reply->type != REDIS_REPLY_ARRAY
        || reply->elements + 2 != cmd->argc)
    {
        if (reply != NULL) {
            ngx_chat_redis_complain(cmd->client, reply);
        }
        ngx_chat_redis_end(cmd, reply, CHAT_ERROR);
        return;
    }

    found.count = 0;
    found.facts =
        chat_arena_alloc(cmd->arena, cmd->argc * sizeof(chat_fact_t));
    if (found.facts == NULL) {
        ngx_chat_redis_end(cmd, reply, CHAT_ERROR);
        return;
    }

    for (i = 0; i < reply->elements; i++) {
        fact = &found.facts[found.count];
        fact->field = chat_str(cmd->argv[i + 2], cmd->len[i + 2]);
        found.count +=
            ngx_chat_redis_split(ngx_chat_redis_text(reply->element[i]), fact);
    }

    ngx_chat_redis_tell(cmd, CHAT_OK, &found);
    ngx_chat_redis_ignore(cmd, reply);
}
