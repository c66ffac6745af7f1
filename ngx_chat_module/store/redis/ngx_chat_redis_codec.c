/*
 * ngx_chat_redis_codec.c: see ngx_chat_redis_codec.h.
 *
 * Facts and keys become commands, replies become facts. The facts of a key
 * are a hash, its payloads a second one, its log a stream. A fact's value
 * begins with 1 if it has a payload, else with 0.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/redis/ngx_chat_redis_codec.h"

#define NGX_CHAT_REDIS_ARGS 4096 /* of a join that grows */
#define NGX_CHAT_REDIS_HEX 64    /* of a digest */
#define NGX_CHAT_REDIS_BACK 4    /* commands looked at for one to add to */

/* Where a join's arguments are in its command; facts follow, three each. */
#define NGX_CHAT_REDIS_KEY 3
#define NGX_CHAT_REDIS_ARG_FACTS 8


void
ngx_chat_redis_add_key(ngx_chat_redis_cmd_t *cmd, const chat_key_t *key,
                       const char *suffix)
{
    char   tag[NGX_CHAT_REDIS_HEX + 1], name[NGX_CHAT_REDIS_HEX + 1];
    u_char text[2 * NGX_CHAT_REDIS_HEX + 16], *end;

    chat_digest_hex(&key->tag, NGX_CHAT_REDIS_HEX / 2, tag);
    chat_digest_hex(&key->name, NGX_CHAT_REDIS_HEX / 2, name);
    end = ngx_slprintf(text, text + sizeof(text), "chat:{%s}:%s%s", tag, name,
                       suffix);
    ngx_chat_redis_cmd_key(cmd, chat_str(text, (size_t) (end - text)));
}


ngx_chat_redis_client_t *
ngx_chat_redis_client_of(ngx_chat_store_redis_t *redis, const chat_key_t *key)
{
    char tag[NGX_CHAT_REDIS_HEX + 1];

    chat_digest_hex(&key->tag, NGX_CHAT_REDIS_HEX / 2, tag);
    return ngx_chat_redis_cluster_client(&redis->cluster,
                                         chat_slot(chat_cstr(tag)));
}


/* What is empty may be NULL, which memcpy() must not get. */
static u_char *
copy_str(u_char *p, chat_str_t s)
{
    return s.len != 0 ? ngx_cpymem(p, s.data, s.len) : p;
}


static void
add_facts(ngx_chat_redis_cmd_t *cmd, const chat_fact_t *facts, size_t n)
{
    size_t     i, argc;
    u_char    *text;
    chat_str_t payload;

    for (i = 0; i < n && !cmd->failed; i++) {
        argc = cmd->argc;
        payload = chat_str(NULL, 0);

        if (facts[i].has_payload) {
            text = ngx_alloc(NGX_SIZE_T_LEN + 1 + facts[i].value.len
                                 + facts[i].payload.len,
                             ngx_cycle->log);
            if (text == NULL) {
                cmd->failed = 1;
                return;
            }

            payload.data = text;
            text = ngx_sprintf(text, "%uz\n", facts[i].value.len);
            text = copy_str(text, facts[i].value);
            text = copy_str(text, facts[i].payload);
            payload.len = (size_t) (text - payload.data);
        }

        ngx_chat_redis_cmd_add(cmd, facts[i].field);
        ngx_chat_redis_cmd_add(cmd, facts[i].value);
        ngx_chat_redis_cmd_add(cmd, payload);
        ngx_free((void *) payload.data);

        if (cmd->failed) {
            cmd->argc = argc; /* whole facts only */
        }
    }
}


static ngx_chat_redis_cmd_t *
join_create(ngx_chat_store_redis_t *redis, const chat_key_t *key, uint32_t ttl,
            size_t most, ngx_uint_t clear)
{
    ngx_chat_redis_cmd_t *cmd;

    cmd = ngx_chat_redis_call(redis, NGX_CHAT_REDIS_JOIN);
    if (cmd != NULL) {
        cmd->done = ngx_chat_redis_join_reply;
        ngx_chat_redis_cmd_puts(cmd, clear ? "3" : "2");
        ngx_chat_redis_add_key(cmd, key, "");
        ngx_chat_redis_add_key(cmd, key, ":p");
        if (clear) {
            ngx_chat_redis_add_key(cmd, key, ":l");
        }
        ngx_chat_redis_cmd_number(cmd, ttl);
        ngx_chat_redis_cmd_number(cmd, most);
        ngx_chat_redis_cmd_number(cmd, clear);
    }

    return cmd;
}


/* 1 if what goes into like can as well go into cmd. */
static ngx_uint_t
join_fits(const ngx_chat_redis_cmd_t *cmd, const ngx_chat_redis_cmd_t *like)
{
    ngx_uint_t i;

    if (cmd->op != NULL || cmd->done != ngx_chat_redis_join_reply
        || cmd->argc > NGX_CHAT_REDIS_ARGS || cmd->failed)
    {
        return 0;
    }

    for (i = NGX_CHAT_REDIS_KEY; i < NGX_CHAT_REDIS_ARG_FACTS; i++) {
        if (!chat_str_eq(chat_str(cmd->argv[i], cmd->len[i]),
                         chat_str(like->argv[i], like->len[i])))
        {
            return 0;
        }
    }

    return 1;
}


/*
 * Adds the facts to a join of the same key that nobody waits for and that is
 * yet to be sent: what a wake-up has to say of a batch goes in one command.
 */
static ngx_uint_t
join_append(ngx_chat_store_redis_t *redis, const ngx_chat_redis_cmd_t *like,
            const chat_fact_t *facts, size_t n)
{
    size_t                   bytes;
    ngx_uint_t               i;
    ngx_chat_redis_cmd_t    *cmd = NULL;
    ngx_chat_redis_client_t *client =
        ngx_chat_redis_cluster_client(&redis->cluster, like->slot);

    for (i = 0; i < NGX_CHAT_REDIS_BACK; i++) {
        cmd = ngx_chat_redis_unsent(client, cmd);
        if (cmd == NULL) {
            return 0;
        }

        if (join_fits(cmd, like)) {
            bytes = cmd->bytes;
            add_facts(cmd, facts, n);
            ngx_chat_redis_grown(client, cmd->bytes - bytes);
            return 1;
        }
    }

    return 0;
}


void
ngx_chat_redis_query(ngx_chat_store_redis_t *redis, ngx_chat_redis_cmd_t *cmd,
                     chat_store_op_t *op)
{
    if (cmd != NULL) {
        cmd->op = op;
        cmd->data = redis;

        if (op != NULL) {
            op->store = &redis->store;
            op->answer = cmd;
        }

        if (ngx_chat_redis_cluster_submit(&redis->cluster, cmd) == NGX_OK) {
            return;
        }

        ngx_chat_redis_cmd_free(cmd);
    }

    if (op != NULL) {
        ngx_chat_store_refuse(&redis->base, &redis->store, op, CHAT_ERROR);
    }
}


void
ngx_chat_redis_join(ngx_chat_store_redis_t *redis, chat_store_op_t *op,
                    const chat_key_t *key, const chat_fact_t *facts, size_t n,
                    uint32_t ttl, const chat_fact_t *wait)
{
    ngx_chat_redis_cmd_t *cmd;

    cmd = join_create(redis, key, ttl,
                      (size_t) redis->store.most_facts * (op ? 1 : 2), 0);
    if (cmd == NULL) {
        ngx_chat_redis_query(redis, NULL, op);
        return;
    }

    cmd->replayable = n > 0;

    if (op == NULL && join_append(redis, cmd, facts, n)) {
        ngx_chat_redis_cmd_free(cmd);
        return;
    }

    add_facts(cmd, facts, n);
    add_facts(cmd, wait, wait ? 1 : 0);
    ngx_chat_redis_query(redis, cmd, op);
}


void
ngx_chat_store_redis_clear(chat_store_t *store, const chat_key_t *key,
                           uint32_t ttl)
{
    chat_fact_t             cleared;
    ngx_chat_redis_cmd_t   *cmd;
    ngx_chat_store_redis_t *redis = (ngx_chat_store_redis_t *) store;

    ngx_memzero(&cleared, sizeof(cleared));
    cleared.field = chat_cstr("cleared");
    cleared.value = chat_cstr("1");

    cmd = join_create(redis, key, ttl, redis->store.most_facts, 1);
    if (cmd != NULL) {
        add_facts(cmd, &cleared, 1);
        ngx_chat_redis_query(redis, cmd, NULL);
    }
}


void
ngx_chat_store_redis_drop(chat_store_t *store, const chat_key_t *key,
                          const chat_str_t *fields, size_t n)
{
    size_t                  i;
    ngx_chat_redis_cmd_t   *cmd = ngx_chat_redis_cmd_create();
    ngx_chat_store_redis_t *redis = (ngx_chat_store_redis_t *) store;

    if (cmd == NULL) {
        return;
    }

    cmd->done = ngx_chat_redis_ignore;
    ngx_chat_redis_cmd_puts(cmd, "HDEL");
    ngx_chat_redis_add_key(cmd, key, "");

    for (i = 0; i < n; i++) {
        ngx_chat_redis_cmd_add(cmd, fields[i]);
    }

    ngx_chat_redis_query(redis, cmd, NULL);
}


void
ngx_chat_store_redis_payloads(chat_store_t *store, chat_store_op_t *op,
                              const chat_key_t *key, const chat_str_t *fields,
                              size_t n)
{
    size_t                  i;
    ngx_chat_redis_cmd_t   *cmd = ngx_chat_redis_cmd_create();
    ngx_chat_store_redis_t *redis = (ngx_chat_store_redis_t *) store;

    if (cmd != NULL) {
        cmd->done = ngx_chat_redis_payloads_reply;
        ngx_chat_redis_cmd_puts(cmd, "HMGET");
        ngx_chat_redis_add_key(cmd, key, ":p");

        for (i = 0; i < n; i++) {
            ngx_chat_redis_cmd_add(cmd, fields[i]);
        }

        if (n == 0) {
            ngx_chat_redis_cmd_puts(cmd, ""); /* HMGET takes no less */
        }
    }

    ngx_chat_redis_query(redis, cmd, op);
}


/* Workers looked up for one reply; more than a trimmed index can name. */
#define NGX_CHAT_REDIS_MEET 256


chat_str_t
ngx_chat_redis_text(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING
               ? chat_str(reply->str, (size_t) reply->len)
               : chat_str(NULL, 0);
}


void
ngx_chat_redis_done(ngx_chat_redis_cmd_t *cmd, chat_rc_e rc,
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
    ngx_chat_redis_done(cmd, rc, NULL);

    if (reply != NULL) {
        freeReplyObject(reply);
    }

    ngx_chat_redis_cmd_free(cmd);
}


/* The worker that a fact names whose life matters; or none. */
static chat_str_t
worker_in_fact(chat_str_t field, chat_str_t value)
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
unknown_workers(ngx_chat_store_redis_t *redis, const redisReply *reply,
                chat_str_t *names)
{
    size_t     i;
    chat_str_t field, name;
    ngx_uint_t k, n = 0;

    for (i = 0; i + 1 < reply->elements && n < NGX_CHAT_REDIS_MEET; i += 2) {
        field = ngx_chat_redis_text(reply->element[i]);
        name =
            worker_in_fact(field, ngx_chat_redis_text(reply->element[i + 1]));

        if (ngx_chat_redis_liveness_knows(&redis->live, name,
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
give_facts(ngx_chat_redis_cmd_t *cmd, const redisReply *reply)
{
    size_t                 i;
    chat_str_t             value;
    chat_fact_t           *fact;
    ngx_chat_redis_facts_t found;

    found.count = 0;
    found.facts = ngx_calloc((reply->elements / 2 + 1) * sizeof(chat_fact_t),
                             ngx_cycle->log);
    if (found.facts == NULL) {
        ngx_chat_redis_done(cmd, CHAT_ERROR, NULL);
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

    ngx_chat_redis_done(cmd, CHAT_OK, &found);
    ngx_free(found.facts);
}


/* All who could be asked have said who is alive, or not. */
static void
end_look_up(ngx_chat_redis_cmd_t *joined)
{
    ngx_chat_store_redis_t *redis = joined->data;

    if (ngx_chat_redis_liveness_quorum(&redis->live, joined->heard)) {
        give_facts(joined, joined->kept);
    }

    ngx_chat_redis_end(joined, NULL, CHAT_ERROR);
}


/* A seat has said who is alive of those that the kept reply names, or not. */
static void
on_look_up(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    ngx_chat_redis_cmd_t   *joined = cmd->data;
    ngx_chat_store_redis_t *redis = joined->data;

    if (reply != NULL) {
        ngx_chat_redis_shard_reply(&redis->live.shards[cmd->turn], cmd, reply);
        joined->heard++;
    }

    ngx_chat_redis_ignore(cmd, reply);

    if (--joined->turn == 0) {
        end_look_up(joined);
    }
}


/* Asks the seats that are there for the life of workers that it names. */
static void
look_up_workers(ngx_chat_redis_cmd_t *joined, redisReply *reply,
                const chat_str_t *names, ngx_uint_t n)
{
    ngx_uint_t              i;
    ngx_chat_redis_cmd_t   *cmd;
    ngx_chat_redis_shard_t *shard;
    ngx_chat_store_redis_t *redis = joined->data;

    joined->kept = reply;
    joined->turn = 1;

    for (i = 0; i < redis->live.nshards; i++) {
        shard = &redis->live.shards[i];
        cmd = ngx_chat_redis_shard_is_up(shard)
                  ? ngx_chat_redis_shard_query(shard, names, n)
                  : NULL;
        if (cmd == NULL) {
            continue;
        }

        cmd->done = on_look_up;
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
        end_look_up(joined);
    }
}


void
ngx_chat_redis_join_reply(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    ngx_uint_t              n;
    chat_str_t              names[NGX_CHAT_REDIS_MEET];
    ngx_chat_store_redis_t *redis = cmd->data;

    if (reply == NULL) {
        ngx_chat_redis_end(cmd, NULL, CHAT_ERROR);
        return;
    }

    if (ngx_chat_redis_reload(cmd, reply)) {
        return;
    }

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements % 2 != 0) {
        ngx_chat_redis_log_error(cmd->client, reply);
        ngx_chat_redis_end(cmd, reply,
                           ngx_chat_redis_is_error(reply, "ERR FULL")
                               ? CHAT_LIMIT
                               : CHAT_ERROR);
        return;
    }

    n = cmd->op ? unknown_workers(redis, reply, names) : 0;
    if (n != 0) {
        look_up_workers(cmd, reply, names, n);
        return;
    }

    give_facts(cmd, reply);
    ngx_chat_redis_ignore(cmd, reply);
}


/* What was kept as a payload: the value's length, the value, the payload. */
static ngx_uint_t
split_payload(chat_str_t text, chat_fact_t *fact)
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
ngx_chat_redis_payloads_reply(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    size_t                 i;
    chat_fact_t           *fact;
    ngx_chat_redis_facts_t found;

    if (reply == NULL || reply->type != REDIS_REPLY_ARRAY
        || reply->elements + 2 != cmd->argc)
    {
        if (reply != NULL) {
            ngx_chat_redis_log_error(cmd->client, reply);
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
            split_payload(ngx_chat_redis_text(reply->element[i]), fact);
    }

    ngx_chat_redis_done(cmd, CHAT_OK, &found);
    ngx_chat_redis_ignore(cmd, reply);
}


static void
add_position(ngx_chat_redis_cmd_t *cmd, uint64_t position)
{
    u_char text[NGX_INT64_LEN + 3], *end;

    end = ngx_sprintf(text, "%uL-0", position + 1);
    ngx_chat_redis_cmd_add(cmd, chat_str(text, (size_t) (end - text)));
}


static void
on_appended(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    if (reply != NULL) {
        if (ngx_chat_redis_reload(cmd, reply)) {
            return;
        }

        if (reply->type != REDIS_REPLY_INTEGER) {
            ngx_chat_redis_log_error(cmd->client, reply);
        }
    }

    ngx_chat_redis_ignore(cmd, reply);
}


void
ngx_chat_store_redis_append(chat_store_t *store, const chat_key_t *key,
                            uint64_t position, chat_str_t bytes, int last,
                            uint64_t keep, uint32_t ttl)
{
    ngx_chat_redis_cmd_t   *cmd;
    ngx_chat_store_redis_t *redis = (ngx_chat_store_redis_t *) store;

    /* while the server is away, half of the room is for facts alone */

    if (position == UINT64_MAX
        || redis->cluster.bytes + ngx_chat_redis_client_of(redis, key)->bytes
                   + bytes.len
               > NGX_CHAT_REDIS_PENDING / 2)
    {
        return;
    }

    cmd = ngx_chat_redis_call(redis, NGX_CHAT_REDIS_APPEND);
    if (cmd != NULL) {
        cmd->done = on_appended;
        cmd->replayable = 1;
        cmd->piece = 1;
        ngx_chat_redis_cmd_puts(cmd, "3");
        ngx_chat_redis_add_key(cmd, key, "");
        ngx_chat_redis_add_key(cmd, key, ":p");
        ngx_chat_redis_add_key(cmd, key, ":l");
        ngx_chat_redis_cmd_number(cmd, ttl);
        add_position(cmd, ngx_min(keep, position));
        add_position(cmd, position);
        ngx_chat_redis_cmd_puts(cmd, last ? "l" : "b");
        ngx_chat_redis_cmd_add(cmd, bytes);
    }

    ngx_chat_redis_query(redis, cmd, NULL);
}


void
ngx_chat_store_redis_read(chat_store_t *store, chat_store_op_t *op,
                          const chat_key_t *key, uint64_t position)
{
    ngx_chat_redis_cmd_t   *cmd;
    ngx_chat_store_redis_t *redis = (ngx_chat_store_redis_t *) store;

    cmd = ngx_chat_redis_call(redis, NGX_CHAT_REDIS_READ);
    if (cmd != NULL) {
        cmd->done = ngx_chat_redis_log_reply;
        ngx_chat_redis_cmd_puts(cmd, "1");
        ngx_chat_redis_add_key(cmd, key, ":l");
        add_position(cmd, ngx_min(position, UINT64_MAX - 1));
        ngx_chat_redis_cmd_number(cmd, CHAT_STORE_READ_MAX);
    }

    ngx_chat_redis_query(redis, cmd, op);
}


/* The position that an entry's id says; NGX_ERROR: it is none of ours. */
static ngx_int_t
read_position(const redisReply *id, uint64_t *position)
{
    char *end;

    if (id->type != REDIS_REPLY_STRING || id->str[0] < '1' || id->str[0] > '9')
    {
        return NGX_ERROR;
    }

    *position = strtoull(id->str, &end, 10) - 1;
    return ngx_strcmp(end, "-0") == 0 ? NGX_OK : NGX_ERROR;
}


/* An entry as a fact, its field at p; 0: it is none of ours. */
static ngx_uint_t
read_piece(const redisReply *entry, chat_fact_t *fact, u_char *p)
{
    uint64_t          position;
    chat_str_t        name;
    const redisReply *pair;

    if (entry->type != REDIS_REPLY_ARRAY || entry->elements != 2
        || read_position(entry->element[0], &position) != NGX_OK)
    {
        return 0;
    }

    pair = entry->element[1];
    if (pair->type != REDIS_REPLY_ARRAY || pair->elements != 2
        || pair->element[1]->type != REDIS_REPLY_STRING)
    {
        return 0;
    }

    name = ngx_chat_redis_text(pair->element[0]);
    if (!chat_str_is(name, "b") && !chat_str_is(name, "l")) {
        return 0;
    }

    fact->field = chat_str(p, (size_t) (ngx_sprintf(p, "%uL", position) - p));
    fact->value =
        chat_str_is(name, "l") ? chat_cstr("last") : chat_str(NULL, 0);
    fact->payload = ngx_chat_redis_text(pair->element[1]);
    fact->has_payload = 1;
    return 1;
}


void
ngx_chat_redis_log_reply(ngx_chat_redis_cmd_t *cmd, redisReply *reply)
{
    size_t                 i, n;
    u_char                *p;
    ngx_chat_redis_facts_t found;

    if (reply != NULL && ngx_chat_redis_reload(cmd, reply)) {
        return;
    }

    if (reply == NULL || reply->type != REDIS_REPLY_ARRAY) {
        if (reply != NULL) {
            ngx_chat_redis_log_error(cmd->client, reply);
        }
        ngx_chat_redis_end(cmd, reply, CHAT_ERROR);
        return;
    }

    n = reply->elements;
    found.count = 0;
    found.facts = chat_arena_alloc(
        cmd->arena, n * (sizeof(chat_fact_t) + NGX_INT64_LEN) + 1);
    if (found.facts == NULL) {
        ngx_chat_redis_end(cmd, reply, CHAT_ERROR);
        return;
    }

    p = (u_char *) (found.facts + n);

    for (i = 0; i < n; i++, p += NGX_INT64_LEN) {
        found.count +=
            read_piece(reply->element[i], &found.facts[found.count], p);
    }

    ngx_chat_redis_done(cmd, CHAT_OK, &found);
    ngx_chat_redis_ignore(cmd, reply);
}
